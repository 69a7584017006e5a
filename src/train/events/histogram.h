// SPDX-License-Identifier: Apache-2.0
// How the elements of an array are spread.
#ifndef LS_TRAIN_EVENTS_HISTOGRAM_H_
#define LS_TRAIN_EVENTS_HISTOGRAM_H_

#include "io/protobuf/events.h"

// Of floats, integers or bool; numbers that are not finite are left out.
void ls_histogram_of(const ls_array *values, ls_histogram *out);

#endif  // LS_TRAIN_EVENTS_HISTOGRAM_H_

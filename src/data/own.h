// SPDX-License-Identifier: Apache-2.0
// LS_OWN types of data and the layers below.
#ifndef LS_DATA_OWN_H_
#define LS_DATA_OWN_H_

#include "lockstep/dataset.h"
#include "lockstep/iterator.h"
#include "state/own.h"

LS_OWNED_POINTER(ls_dataset, ls_dataset_release)
LS_OWNED_POINTER(ls_iterator, ls_iterator_release)

#endif  // LS_DATA_OWN_H_

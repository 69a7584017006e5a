// SPDX-License-Identifier: Apache-2.0
// A graph as TensorFlow's GraphDef, for TensorBoard to draw.
#ifndef LS_TRAIN_EVENTS_EVENT_GRAPH_H_
#define LS_TRAIN_EVENTS_EVENT_GRAPH_H_

#include "base/text.h"
#include "lockstep/graph.h"

// Appends the message. LS_FAILED_PRECONDITION: the eager graph.
LS_MUST_USE ls_status ls_event_graph_print(const ls_graph *graph, ls_text *out);

#endif  // LS_TRAIN_EVENTS_EVENT_GRAPH_H_

// SPDX-License-Identifier: Apache-2.0
//
// The one file that is of no layer: what lower layers ask of upper ones.
#include "base/layers.h"
#include "distribute/base/class.h"
#include "graph/graph.h"
#include "runtime/eager.h"

const ls_layers ls_library_layers = {.tensors = &ls_graph_tensors,
                                     .eager = &ls_runtime_eager,
                                     .default_strategy =
                                         &ls_default_strategy_class};

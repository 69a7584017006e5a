// SPDX-License-Identifier: Apache-2.0
//
// The one file that is of no layer: what lower layers ask of upper ones.
#include "graph/layers.h"

#include "distribute/base/strategy.h"
#include "runtime/eager/eager.h"

const ls_layers ls_library_layers = {
    .eager = &ls_runtime_eager, .default_strategy = &ls_default_strategy_class};

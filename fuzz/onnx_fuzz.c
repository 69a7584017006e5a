// SPDX-License-Identifier: Apache-2.0
//
// ONNX files, and StableHLO's texts, which begin with "module": any bytes give
// a model or one status; what is a model makes ops in a graph, or says why not.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"
#include "onnx/onnx_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_INPUTS = 4 };

static void build(const ls_onnx *onnx) {
  ls_serving_value inputs[MOST_INPUTS];
  ls_nest leaves[MOST_INPUTS];
  const size_t count = ls_onnx_inputs(onnx, inputs, MOST_INPUTS);
  if (count > MOST_INPUTS) return;
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(
        ls_placeholder(inputs[i].type.dtype, inputs[i].type.shape, NULL));
  const ls_nest args = ls_nest_sequence(LS_KIND_TUPLE, leaves, count);
  const ls_nest outputs = ls_onnx_apply(onnx, args, true);
  const ls_status status = ls_nest_status(outputs);
  const ls_code code = ls_status_code(status);
  if (code == LS_INTERNAL) {
    fprintf(stderr, "onnx_fuzz: %s\n", ls_status_message(status));
    abort();
  }
  ls_status_free(status);
  ls_nest_release(outputs);
  ls_nest_release(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_graph *graph = NULL;
  ls_onnx *onnx = NULL;
  ls_status_free(ls_graph_create("fuzz", &graph));
  if (graph == NULL) return 0;
  {
    LS_GRAPH_SCOPE(graph);
    const bool is_text = size > 6 && memcmp(data, "module", 6) == 0;
    ls_status_free(
        ls_onnx_decode(is_text ? "fuzz.mlir" : "fuzz", data, size, &onnx));
    if (onnx != NULL) build(onnx);
    ls_status_free(ls_graph_take_error(graph));
  }
  ls_onnx_destroy(onnx);
  ls_graph_destroy(graph);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// ONNX files, and StableHLO's texts, which begin with "module": any bytes give
// a model or one status; what is a model makes ops in a graph, or says why not.
// So does a type of models made of the bytes, with its training step.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes_files.h"
#include "lockstep/full.h"
#include "onnx/onnx_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_INPUTS = 4 };

// Releases what a model made of its operands.
static void take_outputs(ls_nest outputs) {
  const ls_status status = ls_nest_status(outputs);
  if (ls_status_code(status) == LS_INTERNAL) {
    fprintf(stderr, "onnx_fuzz: %s\n", ls_status_message(status));
    abort();
  }
  ls_status_free(status);
  ls_nest_release(outputs);
}

static void build(const ls_onnx *onnx) {
  ls_serving_value inputs[MOST_INPUTS];
  ls_nest leaves[MOST_INPUTS];
  const size_t count = ls_onnx_inputs(onnx, inputs, MOST_INPUTS);
  if (count > MOST_INPUTS) return;
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(
        ls_placeholder(inputs[i].type.dtype, inputs[i].type.shape, NULL));
  const ls_nest args = ls_nest_sequence(LS_KIND_TUPLE, leaves, count);
  take_outputs(ls_onnx_apply(onnx, args, true));
  ls_nest_release(args);
}

// Returns a placeholder of a batch of any size.
static ls_nest batch_of(ls_dtype dtype, ls_shape one) {
  ls_shape shape = {.rank = one.rank + 1, .dim = {-1}};
  memcpy(shape.dim + 1, one.dim, (size_t)one.rank * sizeof(*one.dim));
  return ls_leaf(ls_placeholder(dtype, shape, NULL));
}

static void train(const char *path) {
  ls_model_type *type = NULL;
  ls_model model = {0};
  ls_status_free(ls_onnx_type_create(path, &type));
  if (type != NULL) ls_status_free(ls_model_create(type, NULL, &model));
  if (model.self != NULL) {
    const ls_nest args =
        LS_TUPLE(batch_of(type->example_dtype, type->example_shape),
                 batch_of(LS_DTYPE_I32, type->label_shape));
    take_outputs(type->train_step(args, model.self));
    take_outputs(type->logits(args, model.self));
    ls_nest_release(args);
  }
  ls_model_destroy(&model);
  ls_onnx_type_destroy(type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_graph *graph = NULL;
  ls_onnx *onnx = NULL;
  const bool is_text = size > 6 && memcmp(data, "module", 6) == 0;
  const char *path = is_text ? "fuzz.mlir" : "fuzz";
  bytes_files[0] = (bytes_file){path, data, size};
  bytes_files_runtime();
  ls_status_free(ls_graph_create("fuzz", &graph));
  if (graph == NULL) return 0;
  {
    LS_GRAPH_SCOPE(graph);
    ls_status_free(ls_onnx_decode(path, data, size, &onnx));
    if (onnx != NULL) build(onnx);
    ls_status_free(ls_graph_take_error(graph));
    train(path);
    ls_status_free(ls_graph_take_error(graph));
  }
  ls_onnx_destroy(onnx);
  ls_graph_destroy(graph);
  return 0;
}

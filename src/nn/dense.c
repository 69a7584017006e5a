// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_internal.h"
#include "lockstep/nn.h"

struct ls_dense_layer {
  ls_allocator *allocator;
  char *name;
  ls_variable *kernel;
  ls_variable *bias;  // NULL: none.
  ls_activation activation;
};

static ls_status create_variables(const ls_dense_options *options,
                                  ls_dense_layer *layer) {
  LS_NAME_SCOPE(layer->name) {
    LS_RETURN_IF_ERROR(ls_weight_create(
        &(ls_weight_options){.name = "kernel",
                             .shape = LS_SHAPE(options->inputs, options->units),
                             .dtype = options->dtype,
                             .initializer = options->kernel_initializer,
                             .seed = options->seed},
        &layer->kernel));
    if (options->no_bias) return ls_ok();
    LS_RETURN_IF_ERROR(ls_weight_create(
        &(ls_weight_options){.name = "bias",
                             .shape = LS_SHAPE(options->units),
                             .dtype = options->dtype,
                             .initializer = options->bias_initializer != NULL
                                                ? options->bias_initializer
                                                : ls_zeros,
                             .seed = options->seed},
        &layer->bias));
  }
  return ls_ok();
}

ls_status ls_dense_layer_create(const ls_dense_options *options,
                                ls_dense_layer **out_layer) {
  *out_layer = NULL;
  const char *name = options->name != NULL ? options->name : "dense";
  if (options->inputs < 1 || options->units < 1)
    return ls_invalid_argument(
        "dense layer '%s' needs at least one input and one unit, got %lld and "
        "%lld",
        name, (long long)options->inputs, (long long)options->units);
  ls_allocator *allocator = ls_current_allocator();
  ls_dense_layer *layer = ls_new(allocator, ls_dense_layer);
  if (layer == NULL) return ls_out_of_memory();
  layer->allocator = allocator;
  layer->activation = options->activation;
  layer->name = ls_copy_text(allocator, name, strlen(name));
  ls_status status = layer->name != NULL ? create_variables(options, layer)
                                         : ls_out_of_memory();
  if (!ls_status_is_ok(status)) {
    ls_dense_layer_destroy(layer);
    return ls_status_annotate(status, "while creating dense layer '%s'", name);
  }
  *out_layer = layer;
  return ls_ok();
}

void ls_dense_layer_destroy(ls_dense_layer *layer) {
  if (layer == NULL) return;
  ls_variable_release(layer->kernel);
  ls_variable_release(layer->bias);
  ls_release(layer->allocator, layer->name);
  ls_release(layer->allocator, layer);
}

ls_tensor ls_dense_layer_apply(const ls_dense_layer *layer, ls_tensor x) {
  ls_tensor result = ls_failed_tensor();
  LS_NAME_SCOPE(layer->name) {
    const ls_tensor bias = layer->bias != NULL ? ls_variable_read(layer->bias)
                                               : ls_failed_tensor();
    result =
        ls_dense(x, ls_variable_read(layer->kernel), bias, layer->activation);
  }
  return result;
}

ls_variable *ls_dense_layer_kernel(const ls_dense_layer *layer) {
  return layer->kernel;
}

ls_variable *ls_dense_layer_bias(const ls_dense_layer *layer) {
  return layer->bias;
}

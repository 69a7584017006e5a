// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include "base/require.h"
#include "graph/make/make.h"

struct ls_dense_layer {
  ls_layer base;
  ls_variable *kernel;
  ls_variable *bias;  // NULL: none.
  ls_activation activation;
};

static ls_status dense_create_variables(const ls_dense_options *options,
                                        ls_dense_layer *layer) {
  const ls_product_weights weights = {
      .scope = layer->base.name,
      .kernel = LS_SHAPE(options->inputs, options->units),
      .outputs = options->units,
      .no_bias = options->no_bias,
      .dtype = options->dtype,
      .kernel_initializer = options->kernel_initializer,
      .bias_initializer = options->bias_initializer,
      .seed = options->seed};
  return ls_layer_product_weights(&layer->base, &weights, &layer->kernel,
                                  &layer->bias);
}

ls_status ls_dense_layer_create(const ls_dense_options *options,
                                ls_dense_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer);
  LS_REQUIRE(options);
  const char *name = options->name != NULL ? options->name : "dense";
  if (options->inputs < 1 || options->units < 1)
    return ls_invalid_argument(
        "dense layer '%s' needs at least one input and one unit, got %lld and "
        "%lld",
        name, (long long)options->inputs, (long long)options->units);
  ls_dense_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->activation = options->activation;
  return ls_layer_finish(&layer->base, "dense layer",
                         dense_create_variables(options, layer), out_layer);
}

void ls_dense_layer_destroy(ls_dense_layer *layer) {
  ls_layer_free((ls_layer *)layer);
}

ls_tensor ls_dense_layer_apply(const ls_dense_layer *layer, ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor result = ls_failed_tensor();
  {
    LS_NAME_SCOPE(layer->base.name);
    const ls_tensor bias = ls_layer_read(layer->bias);
    result =
        ls_dense(x, ls_variable_read(layer->kernel), bias, layer->activation);
  }
  return result;
}

size_t ls_dense_layer_variables(const ls_dense_layer *layer,
                                ls_variable **variables, size_t capacity) {
  return ls_layer_list(&layer->base, variables, capacity);
}

ls_variable *ls_dense_layer_kernel(const ls_dense_layer *layer) {
  return layer->kernel;
}

ls_variable *ls_dense_layer_bias(const ls_dense_layer *layer) {
  return layer->bias;
}

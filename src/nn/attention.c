// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include "base/require.h"
#include "graph/make/make.h"

struct ls_attention_layer {
  ls_layer base;
  ls_variable *qkv, *qkv_bias;  // qkv_bias may be NULL.
  ls_variable *out, *out_bias;
  int64_t width;
  ls_attention_options how;
};

// ---- Creating --------------------------------------------------------------
static ls_status create_dense(const ls_attention_layer_options *options,
                              ls_attention_layer *layer, const char *scope,
                              int64_t units, ls_variable **out_kernel,
                              ls_variable **out_bias) {
  const ls_product_weights weights = {.scope = scope,
                                      .kernel = LS_SHAPE(options->width, units),
                                      .outputs = units,
                                      .no_bias = options->no_bias,
                                      .dtype = options->dtype,
                                      .kernel_initializer =
                                          options->kernel_initializer,
                                      .seed = options->seed};
  return ls_layer_product_weights(&layer->base, &weights, out_kernel, out_bias);
}

static ls_status
attention_create_variables(const ls_attention_layer_options *options,
                           ls_attention_layer *layer) {
  const int64_t width = options->width;
  LS_NAME_SCOPE(layer->base.name);
  LS_RETURN_IF_ERROR(create_dense(options, layer, "qkv", 3 * width, &layer->qkv,
                                  &layer->qkv_bias));
  return create_dense(options, layer, "out", width, &layer->out,
                      &layer->out_bias);
}

ls_status ls_attention_layer_create(const ls_attention_layer_options *options,
                                    ls_attention_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer);
  LS_REQUIRE(options);
  const char *name = options->name != NULL ? options->name : "attention";
  const int64_t heads = options->num_heads != 0 ? options->num_heads : 1;
  if (options->width < 1 || heads < 1 || options->width % heads != 0)
    return ls_invalid_argument(
        "attention '%s': %lld heads cannot share a width of %lld evenly", name,
        (long long)heads, (long long)options->width);
  ls_attention_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->width = options->width;
  layer->how =
      (ls_attention_options){.num_heads = heads, .causal = options->causal};
  return ls_layer_finish(&layer->base, "attention",
                         attention_create_variables(options, layer), out_layer);
}

void ls_attention_layer_destroy(ls_attention_layer *layer) {
  ls_layer_free((ls_layer *)layer);
}

// ---- Applying --------------------------------------------------------------
static ls_tensor attention_finish(const ls_attention_layer *layer,
                                  ls_tensor heads) {
  return ls_dense(heads, ls_variable_read(layer->out),
                  ls_layer_read(layer->out_bias), LS_ACTIVATION_NONE);
}

ls_tensor ls_attention_layer_apply(const ls_attention_layer *layer,
                                   ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  const ls_tensor qkv =
      ls_dense(x, ls_variable_read(layer->qkv), ls_layer_read(layer->qkv_bias),
               LS_ACTIVATION_NONE);
  return attention_finish(layer, ls_attention_packed(qkv, &layer->how));
}

// Multiplies x by `count` of the three parts (q, k, v) of the weights, from
// part `first` on.
static ls_tensor attention_project(const ls_attention_layer *layer, ls_tensor x,
                                   int64_t first, int64_t count) {
  const int64_t start = first * layer->width;
  const int64_t limit = start + count * layer->width;
  const ls_tensor kernel =
      ls_slice_axis(ls_variable_read(layer->qkv), 1, start, limit);
  ls_tensor bias = ls_failed_tensor();
  if (layer->qkv_bias != NULL)
    bias = ls_slice_axis(ls_variable_read(layer->qkv_bias), 0, start, limit);
  return ls_dense(x, kernel, bias, LS_ACTIVATION_NONE);
}

ls_tensor ls_attention_layer_apply_to(const ls_attention_layer *layer,
                                      ls_tensor x, ls_tensor memory) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  return attention_finish(
      layer, ls_attention(attention_project(layer, x, 0, 1),
                          attention_project(layer, memory, 1, 1),
                          attention_project(layer, memory, 2, 1), &layer->how));
}

size_t ls_attention_layer_variables(const ls_attention_layer *layer,
                                    ls_variable **variables, size_t capacity) {
  return ls_layer_list(&layer->base, variables, capacity);
}

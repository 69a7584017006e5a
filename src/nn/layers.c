// SPDX-License-Identifier: Apache-2.0
//
// Convolution, dense and embedding layers.
#include "base/require.h"
#include "graph/make/make.h"
#include "nn/layer.h"

// ---- Convolution -----------------------------------------------------------
struct ls_conv_layer {
  ls_layer base;
  ls_variable *kernel;
  ls_variable *bias;  // NULL: none.
  ls_shape window;
  int64_t filters;
  ls_convolution_options how;
  bool transposed;
  ls_activation activation;
};

static ls_status conv_check(const char *name, const ls_conv_options *options,
                            int64_t groups) {
  if (options->channels < 1 || options->filters < 1)
    return ls_invalid_argument("convolution '%s' needs at least one channel "
                               "and one filter, got %lld and %lld",
                               name, (long long)options->channels,
                               (long long)options->filters);
  if (groups < 1 || options->channels % groups != 0 ||
      options->filters % groups != 0)
    return ls_invalid_argument(
        "convolution '%s': %lld groups cannot share %lld channels and %lld "
        "filters evenly",
        name, (long long)groups, (long long)options->channels,
        (long long)options->filters);
  bool known = options->window.rank >= 1 && options->window.rank <= 3;
  for (int i = 0; i < options->window.rank && known; ++i)
    known = options->window.dim[i] >= 1;
  if (known) return ls_ok();
  return ls_invalid_argument("convolution '%s' needs a window of 1 to 3 sizes "
                             "of 1 or more",
                             name);
}

static ls_shape kernel_shape(const ls_conv_options *options, int64_t groups) {
  ls_shape shape = options->window;
  const int64_t in = options->transposed ? options->filters : options->channels;
  const int64_t out =
      options->transposed ? options->channels : options->filters;
  shape.dim[shape.rank++] = in / groups;
  shape.dim[shape.rank++] = out;
  return shape;
}

static ls_status conv_create_variables(const ls_conv_options *options,
                                       int64_t groups, ls_conv_layer *layer) {
  const ls_product_weights weights = {
      .scope = layer->base.name,
      .kernel = kernel_shape(options, groups),
      .outputs = options->filters,
      .no_bias = options->no_bias,
      .dtype = options->dtype,
      .kernel_initializer = options->kernel_initializer,
      .bias_initializer = options->bias_initializer,
      .seed = options->seed};
  return ls_layer_product_weights(&layer->base, &weights, &layer->kernel,
                                  &layer->bias);
}

ls_status ls_conv_layer_create(const ls_conv_options *options,
                               ls_conv_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer, options);
  const char *name = options->name != NULL ? options->name : "conv";
  const int64_t groups = options->how.groups != 0 ? options->how.groups : 1;
  LS_RETURN_IF_ERROR(conv_check(name, options, groups));
  ls_conv_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->window = options->window;
  layer->filters = options->filters;
  layer->how = options->how;
  layer->transposed = options->transposed;
  layer->activation = options->activation;
  return ls_layer_finish(&layer->base, "convolution",
                         conv_create_variables(options, groups, layer),
                         out_layer);
}

LS_LAYER(ls_conv_layer)

static int64_t size_or(ls_shape list, int i, int64_t fallback) {
  return list.rank > 0 ? list.dim[i] : fallback;
}

// Returns the size along spatial dimension i of a transposed convolution's
// result for input size n.
static int64_t transposed_size(const ls_conv_layer *layer, int i, int64_t n) {
  const ls_convolution_options *how = &layer->how;
  const int64_t stride = size_or(how->strides, i, 1);
  if (how->padding == LS_PADDING_SAME) return n * stride;
  const int64_t window =
      (layer->window.dim[i] - 1) * size_or(how->dilations, i, 1) + 1;
  return (n - 1) * stride + window - size_or(how->low, i, 0) -
         size_or(how->high, i, 0);
}

// Makes a tensor with the shape of a transposed convolution's result, and the
// batch size of x.
static ls_tensor like_result(const ls_conv_layer *layer, ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  const int rank = layer->window.rank + 2;
  ls_size sizes[LS_MAX_RANK] = {{.operand = 1, .value = 0}};
  bool known = shape.rank == rank;
  for (int i = 1; i < rank - 1 && known; ++i) {
    known = shape.dim[i] >= 0;
    sizes[i] = (ls_size){LS_SIZE_CONSTANT,
                         transposed_size(layer, i - 1, shape.dim[i])};
  }
  if (!known)
    return ls_make_failed(
        "transposed convolution",
        ls_invalid_argument(
            "layer '%s' needs a value of rank %d with known sizes in space, "
            "got %s",
            layer->base.name, rank, LS_SHAPE_TEXT(ls_tensor_dtype(x), shape)));
  sizes[rank - 1] = (ls_size){LS_SIZE_CONSTANT, layer->filters};
  return ls_layer_zeros(x, sizes, (size_t)rank);
}

static ls_tensor apply_transposed(const ls_conv_layer *layer, ls_tensor x) {
  if (ls_tensor_is_failed(x)) return ls_identity(x);
  const ls_tensor like = like_result(layer, x);
  ls_tensor y =
      ls_conv_grad_input(x, ls_variable_read(layer->kernel), like, &layer->how);
  if (layer->bias != NULL) y = ls_add(y, ls_variable_read(layer->bias));
  return layer->activation == LS_ACTIVATION_RELU ? ls_relu(y) : y;
}

ls_tensor ls_conv_layer_apply(const ls_conv_layer *layer, ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
  LS_NAME_SCOPE(layer->base.name);
  if (layer->transposed) {
    y = apply_transposed(layer, x);
  } else if (layer->bias != NULL) {
    const ls_tensor bias = ls_variable_read(layer->bias);
    y = ls_conv_bias_act(x, ls_variable_read(layer->kernel), bias,
                         layer->activation, &layer->how);
  } else {
    y = ls_convolution(x, ls_variable_read(layer->kernel), &layer->how);
    if (layer->activation == LS_ACTIVATION_RELU) y = ls_relu(y);
  }
  return y;
}

// ---- Dense -----------------------------------------------------------------
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
  LS_REQUIRE_OUT(out_layer, options);
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

LS_LAYER(ls_dense_layer)

ls_tensor ls_dense_layer_apply(const ls_dense_layer *layer, ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  const ls_tensor bias = ls_layer_read(layer->bias);
  return ls_dense(x, ls_variable_read(layer->kernel), bias, layer->activation);
}

ls_variable *ls_dense_layer_kernel(const ls_dense_layer *layer) {
  return layer->kernel;
}

ls_variable *ls_dense_layer_bias(const ls_dense_layer *layer) {
  return layer->bias;
}

// ---- Embedding -------------------------------------------------------------
struct ls_embedding_layer {
  ls_layer base;
  ls_variable *table;
};

static ls_status create_table(const ls_embedding_options *options,
                              ls_embedding_layer *layer) {
  LS_NAME_SCOPE(layer->base.name);
  return ls_layer_weight(
      &layer->base,
      &(ls_weight_options){.name = "table",
                           .shape = LS_SHAPE(options->rows, options->width),
                           .dtype = options->dtype,
                           .initializer = ls_init_or(options->initializer,
                                                     ls_init_normal(0, 0.02)),
                           .seed = options->seed},
      &layer->table);
}

ls_status ls_embedding_layer_create(const ls_embedding_options *options,
                                    ls_embedding_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer, options);
  const char *name = options->name != NULL ? options->name : "embedding";
  if (options->rows < 1 || options->width < 1)
    return ls_invalid_argument(
        "embedding '%s' needs at least one row and a width of 1, got %lld and "
        "%lld",
        name, (long long)options->rows, (long long)options->width);
  ls_embedding_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  return ls_layer_finish(&layer->base, "embedding",
                         create_table(options, layer), out_layer);
}

LS_LAYER(ls_embedding_layer)

ls_tensor ls_embedding_layer_apply(const ls_embedding_layer *layer,
                                   ls_tensor indices) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  return ls_gather(ls_variable_read(layer->table), indices, 0);
}

ls_tensor ls_embedding_layer_logits(const ls_embedding_layer *layer,
                                    ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  return ls_matmul_transposed(x, false, ls_variable_read(layer->table), true);
}

// ---- Attention --------------------------------------------------------------
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
  LS_REQUIRE_OUT(out_layer, options);
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

LS_LAYER(ls_attention_layer)

// ---- Applying --------------------------------------------------------------
static ls_tensor attention_finish(const ls_attention_layer *layer,
                                  ls_tensor heads) {
  const ls_tensor bias = ls_layer_read(layer->out_bias);
  return ls_dense(heads, ls_variable_read(layer->out), bias,
                  LS_ACTIVATION_NONE);
}

ls_tensor ls_attention_layer_apply(const ls_attention_layer *layer,
                                   ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  LS_NAME_SCOPE(layer->base.name);
  const ls_tensor bias = ls_layer_read(layer->qkv_bias);
  const ls_tensor qkv =
      ls_dense(x, ls_variable_read(layer->qkv), bias, LS_ACTIVATION_NONE);
  return attention_finish(layer, ls_attention_packed(qkv, &layer->how));
}

// Multiplies x by one of the three parts (q, k, v) of the weights.
static ls_tensor attention_project(const ls_attention_layer *layer, ls_tensor x,
                                   int64_t part) {
  const int64_t start = part * layer->width, limit = start + layer->width;
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
  const ls_tensor v = attention_project(layer, memory, 2);
  const ls_tensor k = attention_project(layer, memory, 1);
  const ls_tensor q = attention_project(layer, x, 0);
  return attention_finish(layer, ls_attention(q, k, v, &layer->how));
}

// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include "base/require.h"
#include "graph/make/make.h"

struct ls_embedding_layer {
  ls_layer base;
  ls_variable *table;
};

static ls_status create_table(const ls_embedding_options *options,
                              ls_embedding_layer *layer) {
  {
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
  return ls_ok();
}

ls_status ls_embedding_layer_create(const ls_embedding_options *options,
                                    ls_embedding_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer);
  LS_REQUIRE(options);
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

void ls_embedding_layer_destroy(ls_embedding_layer *layer) {
  ls_layer_free((ls_layer *)layer);
}

ls_tensor ls_embedding_layer_apply(const ls_embedding_layer *layer,
                                   ls_tensor indices) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
  {
    LS_NAME_SCOPE(layer->base.name);
    y = ls_gather(ls_variable_read(layer->table), indices, 0);
  }
  return y;
}

ls_tensor ls_embedding_layer_logits(const ls_embedding_layer *layer,
                                    ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
  {
    LS_NAME_SCOPE(layer->base.name);
    y = ls_matmul_transposed(x, false, ls_variable_read(layer->table), true);
  }
  return y;
}

size_t ls_embedding_layer_variables(const ls_embedding_layer *layer,
                                    ls_variable **variables, size_t capacity) {
  return ls_layer_list(&layer->base, variables, capacity);
}

// SPDX-License-Identifier: Apache-2.0
// Layers that normalize each example separately.
#include "nn/layer.h"

#include "base/require.h"
#include "graph/make/make.h"

struct ls_norm_layer {
  ls_layer base;
  ls_norm_kind kind;
  ls_variable *scale, *offset;  // NULL: 1 and 0.
  ls_dtype dtype;
  int64_t channels, groups;
  double epsilon;
};

static ls_status norm_check(const char *name, const ls_norm_options *options) {
  if (options->kind > LS_NORM_GROUP)
    return ls_invalid_argument("norm '%s': there is no kind %d", name,
                               (int)options->kind);
  if (options->channels < 1 || !(options->epsilon >= 0))
    return ls_invalid_argument("norm '%s' needs at least one channel and an "
                               "epsilon above 0, got %lld and %g",
                               name, (long long)options->channels,
                               options->epsilon);
  if (options->kind == LS_NORM_GROUP &&
      (options->groups < 1 || options->channels % options->groups != 0))
    return ls_invalid_argument(
        "norm '%s': %lld groups cannot share %lld channels evenly", name,
        (long long)options->groups, (long long)options->channels);
  return ls_ok();
}

static ls_status norm_create_variables(const ls_norm_options *options,
                                       ls_norm_layer *layer) {
  ls_weight_options weight = {.name = "scale",
                              .shape = LS_SHAPE(options->channels),
                              .dtype = layer->dtype,
                              .initializer = ls_init_ones()};
  {
    LS_NAME_SCOPE(layer->base.name);
    if (!options->no_scale)
      LS_RETURN_IF_ERROR(ls_layer_weight(&layer->base, &weight, &layer->scale));
    if (options->no_offset || options->kind == LS_NORM_RMS) return ls_ok();
    weight.name = "offset";
    weight.initializer = ls_init_zeros();
    return ls_layer_weight(&layer->base, &weight, &layer->offset);
  }
  return ls_ok();
}

ls_status ls_norm_layer_create(const ls_norm_options *options,
                               ls_norm_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer);
  LS_REQUIRE(options);
  const char *name = options->name != NULL ? options->name : "norm";
  LS_RETURN_IF_ERROR(norm_check(name, options));
  ls_norm_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->kind = options->kind;
  layer->dtype =
      options->dtype != LS_DTYPE_NONE ? options->dtype : LS_DTYPE_F32;
  layer->channels = options->channels;
  layer->groups = options->groups;
  layer->epsilon = options->epsilon != 0 ? options->epsilon : 1e-5;
  return ls_layer_finish(&layer->base, "norm",
                         norm_create_variables(options, layer), out_layer);
}

void ls_norm_layer_destroy(ls_norm_layer *layer) {
  ls_layer_free((ls_layer *)layer);
}

ls_tensor ls_norm_layer_apply(const ls_norm_layer *layer, ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
  {
    LS_NAME_SCOPE(layer->base.name);
    const ls_tensor scale =
        ls_layer_read_or(layer->scale, layer->dtype, layer->channels, 1);
    if (layer->kind == LS_NORM_RMS) {
      y = ls_rms_norm(x, scale, layer->epsilon);
    } else {
      const ls_tensor offset =
          ls_layer_read_or(layer->offset, layer->dtype, layer->channels, 0);
      y = layer->kind == LS_NORM_GROUP
              ? ls_group_norm(x, scale, offset, layer->groups, layer->epsilon)
              : ls_layer_norm(x, scale, offset, layer->epsilon);
    }
  }
  return y;
}

size_t ls_norm_layer_variables(const ls_norm_layer *layer,
                               ls_variable **variables, size_t capacity) {
  return ls_layer_list(&layer->base, variables, capacity);
}

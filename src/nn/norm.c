// SPDX-License-Identifier: Apache-2.0
// Batch norm, and layers that normalize each example by itself.
#include "base/require.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "nn/layer.h"
#include "nn/shares.h"

// Refuses variables that a norm cannot read: those for 16-bit x are f32.
static ls_status check_wide(const char *name, ls_dtype dtype) {
  if (dtype == LS_DTYPE_NONE || dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64)
    return ls_ok();
  return ls_invalid_argument(
      "norm '%s' has variables of f32, also for 16-bit x, or of f64, not of %s",
      name, ls_dtype_name(dtype));
}

// ---- Batch norm ------------------------------------------------------------
struct ls_batch_norm_layer {
  ls_layer base;
  ls_variable *scale, *offset;  // NULL: 1 and 0.
  ls_variable *moving_mean, *moving_variance;
  ls_dtype dtype;
  int64_t channels;
  double momentum, epsilon;
  ls_activation activation;
  bool over_replicas;
};

static ls_status
batch_norm_create_variables(const ls_batch_norm_options *options,
                            ls_batch_norm_layer *layer) {
  const struct {
    const char *name;
    ls_variable **variable;
    double value;
    bool left_out, moving;
  } rows[] = {
      {"scale", &layer->scale, 1, options->no_scale, false},
      {"offset", &layer->offset, 0, options->no_offset, false},
      {"moving_mean", &layer->moving_mean, 0, false, true},
      {"moving_variance", &layer->moving_variance, 1, false, true},
  };
  LS_NAME_SCOPE(layer->base.name);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (rows[i].left_out) continue;
    LS_RETURN_IF_ERROR(ls_layer_weight(
        &layer->base,
        &(ls_weight_options){.name = rows[i].name,
                             .shape = LS_SHAPE(options->channels),
                             .dtype = layer->dtype,
                             .initializer = ls_init_constant(rows[i].value),
                             .trainable =
                                 rows[i].moving ? LS_FLAG_OFF : LS_FLAG_ON},
        rows[i].variable));
  }
  return ls_ok();
}

ls_status ls_batch_norm_layer_create(const ls_batch_norm_options *options,
                                     ls_batch_norm_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer, options);
  const char *name = options->name != NULL ? options->name : "batch_norm";
  if (options->channels < 1 || !(options->epsilon >= 0) ||
      !(options->momentum >= 0 && options->momentum < 1))
    return ls_invalid_argument(
        "batch norm '%s' needs at least one channel, an epsilon above 0 and a "
        "momentum below 1, got %lld, %g and %g",
        name, (long long)options->channels, options->epsilon,
        options->momentum);
  LS_RETURN_IF_ERROR(check_wide(name, options->dtype));
  ls_batch_norm_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->dtype =
      options->dtype != LS_DTYPE_NONE ? options->dtype : LS_DTYPE_F32;
  layer->channels = options->channels;
  layer->momentum = options->momentum != 0 ? options->momentum : 0.99;
  layer->epsilon = options->epsilon != 0 ? options->epsilon : 1e-5;
  layer->activation = options->activation;
  layer->over_replicas = options->over_replicas;
  return ls_layer_finish(&layer->base, "batch norm",
                         batch_norm_create_variables(options, layer),
                         out_layer);
}

LS_LAYER(ls_batch_norm_layer)

// Computes the mean over all dimensions but the last.
static ls_tensor mean_by_channel(ls_tensor x) {
  int axes[LS_MAX_RANK];
  const int rank = ls_tensor_shape(x).rank;
  for (int i = 0; i + 1 < rank; ++i)
    axes[i] = i;
  return ls_reduce_mean(
      x, (ls_axes){.items = axes, .count = rank > 0 ? (size_t)rank - 1 : 0});
}

static void move_average(const ls_batch_norm_layer *layer, ls_variable *average,
                         ls_tensor value) {
  const ls_tensor old = ls_variable_read(average);
  const ls_tensor behind = ls_sub(ls_stop_gradient(value), old);
  ls_update_ops_add(ls_write_common(
      average, LS_OP_ASSIGN_ADD, ls_mul_scalar(behind, 1 - layer->momentum)));
}

// Normalizes by the mean over all replicas and by the mean of squares around
// it: the mean of squares around 0 has no digits left for a variance far below
// it.
static ls_tensor normalize_together(const ls_batch_norm_layer *layer,
                                    ls_tensor x, ls_tensor scale,
                                    ls_tensor offset) {
  const ls_tensor wide =
      ls_dtype_size(ls_tensor_dtype(x)) < 4 ? ls_convert(x, LS_DTYPE_F32) : x;
  const ls_shares shares = ls_shares_find(true);
  const ls_tensor mean = ls_shares_statistic(&shares, mean_by_channel(wide));
  const ls_tensor squares = ls_square(ls_sub(wide, mean));
  const ls_tensor variance =
      ls_shares_statistic(&shares, mean_by_channel(squares));
  move_average(layer, layer->moving_mean, mean);
  move_average(layer, layer->moving_variance, variance);
  return ls_batch_norm_inference(x, scale, offset, mean, variance,
                                 layer->epsilon, layer->activation);
}

static ls_tensor normalize_alone(const ls_batch_norm_layer *layer, ls_tensor x,
                                 ls_tensor scale, ls_tensor offset) {
  const ls_op op =
      ls_batch_norm(x, scale, offset, layer->epsilon, layer->activation);
  const ls_shares shares = ls_shares_find(true);
  move_average(layer, layer->moving_mean,
               ls_shares_mean(&shares, ls_op_output(op, 1)));
  move_average(layer, layer->moving_variance,
               ls_shares_mean(&shares, ls_op_output(op, 2)));
  return ls_op_output(op, 0);
}

ls_tensor ls_batch_norm_layer_apply(const ls_batch_norm_layer *layer,
                                    ls_tensor x, bool training) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
  LS_NAME_SCOPE(layer->base.name);
  const ls_tensor scale =
      ls_layer_read_or(layer->scale, layer->dtype, layer->channels, 1);
  const ls_tensor offset =
      ls_layer_read_or(layer->offset, layer->dtype, layer->channels, 0);
  if (!training) {
    const ls_tensor variance = ls_variable_read(layer->moving_variance);
    const ls_tensor mean = ls_variable_read(layer->moving_mean);
    y = ls_batch_norm_inference(x, scale, offset, mean, variance,
                                layer->epsilon, layer->activation);
  } else if (layer->over_replicas && ls_num_replicas() > 1)
    y = normalize_together(layer, x, scale, offset);
  else
    y = normalize_alone(layer, x, scale, offset);
  return y;
}

// ---- Layer norm ------------------------------------------------------------
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
  return options->kind == LS_NORM_GROUP ? ls_ok()
                                        : check_wide(name, options->dtype);
}

static ls_status norm_create_variables(const ls_norm_options *options,
                                       ls_norm_layer *layer) {
  ls_weight_options weight = {.name = "scale",
                              .shape = LS_SHAPE(options->channels),
                              .dtype = layer->dtype,
                              .initializer = ls_init_ones()};
  LS_NAME_SCOPE(layer->base.name);
  if (!options->no_scale)
    LS_RETURN_IF_ERROR(ls_layer_weight(&layer->base, &weight, &layer->scale));
  if (options->no_offset || options->kind == LS_NORM_RMS) return ls_ok();
  weight.name = "offset";
  weight.initializer = ls_init_zeros();
  return ls_layer_weight(&layer->base, &weight, &layer->offset);
}

ls_status ls_norm_layer_create(const ls_norm_options *options,
                               ls_norm_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer, options);
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

LS_LAYER(ls_norm_layer)

ls_tensor ls_norm_layer_apply(const ls_norm_layer *layer, ls_tensor x) {
  LS_MAKE_REQUIRE(layer);
  ls_tensor y = ls_failed_tensor();
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
  return y;
}

// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// ---- Along axes ------------------------------------------------------------
// Multiplies the sizes of a tensor along some axes: known sizes into `total`,
// unknown ones at run time.
static ls_status count_along(ls_tensor x, const ls_reduce_options *options,
                             ls_within *within) {
  const ls_shape shape = ls_tensor_shape(x);
  int64_t known = 1;
  ls_tensor late = ls_failed_tensor();
  for (size_t i = 0; i < options->num_axes; ++i) {
    const int given = options->axes[i];
    const int axis = given < 0 ? given + shape.rank : given;
    if (axis < 0 || axis >= shape.rank)
      return ls_invalid_argument("axis %d of a value of rank %d", given,
                                 shape.rank);
    if (shape.dim[axis] >= 0) {
      known *= shape.dim[axis];
    } else {
      const ls_tensor size = ls_dim_size(x, axis);
      late = late.ref == 0 ? size : ls_mul(late, size);
    }
  }
  if (late.ref == 0) {
    within->total += (double)known;
    return ls_ok();
  }
  if (known != 1) late = ls_mul(late, ls_scalar_i64(LS_DTYPE_I64, known));
  within->late = within->late.ref == 0 ? late : ls_add(within->late, late);
  return ls_made_status(within->late);
}

typedef struct summing {
  ls_reduce_op op;
  const ls_reduce_options *options;
  ls_within *within;
} summing;

static ls_status sum_leaf(const summing *s, ls_nest leaf, ls_nest *out_sum) {
  ls_within *within = s->within;
  ls_tensor x;
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &x));
  LS_RETURN_IF_ERROR(count_along(x, s->options, within));
  within->dtype = ls_tensor_dtype(x);
  if (ls_is_half(within->dtype)) x = ls_convert(x, LS_DTYPE_F32);
  if (s->op == LS_REDUCE_MEAN) x = ls_widen_integers(x);
  x = ls_reduce_sum(
      x, (ls_axes){.items = s->options->axes, .count = s->options->num_axes});
  *out_sum = ls_leaf(x);
  return ls_made_status(x);
}

// Sums a component along the axes; of a map output, each item.
static ls_nest sum_component(const summing *s, ls_nest component) {
  ls_nest sum = ls_none();
  if (component.kind == LS_KIND_NONE) return sum;
  if (component.kind != LS_KIND_DISTRIBUTED)
    return ls_made_nest(sum_leaf(s, component, &sum), &sum);
  const size_t count = ls_distributed_count(component);
  LS_OWN_ARRAY(ls_current_allocator(), ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] = sum_component(s, ls_distributed_component(component, i));
  return ls_nest_distributed(LS_MAP_OUTPUT, items, count);
}

// ---- Components ------------------------------------------------------------
typedef ls_nest (*component_function)(ls_nest component, size_t index,
                                      void *user);

// Calls a function for each component on its device, and makes a PerReplica of
// the results.
static ls_status each_component(ls_nest leaf, component_function fn, void *user,
                                ls_nest *out_value) {
  LS_OWN(ls_components, parts) = {0};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_components_init(&parts, leaf));
  ls_allocator *allocator = parts.devices.allocator;
  const size_t count = parts.devices.count;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, const char *, names, count);
  for (size_t i = 0; i < count; ++i) {
    const char *device = parts.devices.names[i].text;
    names[i] = device[0] != '\0' ? device : NULL;
    LS_DEVICE_SCOPE(device);
    items[i] = fn(parts.items[i], i, user);
  }
  return ls_take_nest(
      ls_nest_distributed_on(LS_PER_REPLICA, items, names, count), out_value);
}

static ls_nest sum_each(ls_nest component, size_t index, void *user) {
  (void)index;
  return sum_component(user, component);
}

ls_status ls_sum_within(ls_reduce_op op, ls_nest leaf,
                        const ls_reduce_options *options,
                        ls_within *out_within) {
  *out_within = (ls_within){.divides = true};
  summing s = {op, options, out_within};
  return each_component(leaf, sum_each, &s, &out_within->value);
}

// ---- Weights ---------------------------------------------------------------
// Weights divided by 2^exponent, and their sum. The exponent is 0 unless the
// sum is so far from 1 that products or the sum's inverse leave the range of
// f32.
typedef struct weighting {
  const double *weights;
  size_t count;
  double total;
  int exponent;
} weighting;

static double weight_of(const weighting *w, size_t index) {
  return ldexp(w->weights[index], -w->exponent);
}

static ls_status check_weights(const double *weights, size_t num_weights,
                               size_t count, weighting *out) {
  enum { MOST = 60 };
  double total = 0;
  if (num_weights != count)
    return ls_invalid_argument("%zu weights for %zu values", num_weights,
                               count);
  for (size_t i = 0; i < count; ++i) {
    if (!(weights[i] >= 0))
      return ls_invalid_argument("weight %zu is %g; weights are 0 or more", i,
                                 weights[i]);
    total += weights[i];
  }
  // Values of most types are weighed in f32.
  if (!(total <= (double)FLT_MAX))
    return ls_invalid_argument(
        "the sum of the weights is %g; f32 is to hold it", total);
  int exponent = 0;
  (void)frexp(total, &exponent);
  *out = (weighting){.weights = weights,
                     .count = count,
                     .exponent = abs(exponent) > MOST ? exponent : 0};
  out->total = ldexp(total, -out->exponent);
  return ls_ok();
}

typedef struct weighing {
  weighting weights;
  ls_within *within;
} weighing;

static ls_nest weigh_each(ls_nest component, size_t index, void *user) {
  const weighing *w = user;
  ls_tensor x;
  if (component.kind == LS_KIND_DISTRIBUTED || component.kind == LS_KIND_SLICES)
    return LS_FAIL(LS_UNIMPLEMENTED, "a weighted mean of %s",
                   component.kind == LS_KIND_SLICES ? "slices" : "map outputs");
  if (component.kind == LS_KIND_NONE) return ls_none();
  ls_status status = ls_region_tensor(component, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_dtype dtype = ls_tensor_dtype(x), mean = ls_mean_dtype(dtype);
  w->within->dtype = dtype;
  if (w->within->like.ref == 0) w->within->like = x;
  const double weight = weight_of(&w->weights, index);
  w->within->total += weight;
  if (weight == 0) return ls_none();
  const ls_dtype wide = ls_wide_dtype(mean);
  if (dtype != wide) x = ls_convert(x, wide);
  if (weight != 1) x = ls_mul_scalar(x, weight);
  status = ls_made_status(x);
  return ls_status_is_ok(status) ? ls_leaf(x) : ls_fail(status);
}

ls_status ls_weigh(ls_nest leaf, const ls_reduce_options *options,
                   ls_within *out_within) {
  *out_within = (ls_within){0};
  if (options->axes != NULL && options->num_axes > 0)
    return ls_unimplemented("a weighted mean along an axis");
  // The sum counts missing components, too.
  weighing w = {.within = out_within};
  LS_RETURN_IF_ERROR(check_weights(options->weights, options->num_weights,
                                   ls_count_components(leaf), &w.weights));
  LS_RETURN_IF_ERROR(each_component(leaf, weigh_each, &w, &out_within->value));
  if (out_within->total == 0 && out_within->like.ref != 0) {
    ls_nest_release(out_within->value);
    out_within->value = ls_none();
  }
  return ls_ok();
}

ls_status ls_weigh_one(ls_nest leaf, const ls_reduce_options *options,
                       int32_t num_replicas, ls_nest *out_value) {
  weighting w = {0};
  ls_within within = {0};
  LS_RETURN_IF_ERROR(check_weights(options->weights, options->num_weights,
                                   (size_t)num_replicas, &w));
  if (w.total > 0) {
    *out_value = ls_nest_retain(leaf);
    return ls_nest_status(leaf);
  }
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &within.like));
  within.dtype = ls_tensor_dtype(within.like);
  return ls_finish_within(LS_REDUCE_MEAN, &within, ls_none(), out_value);
}

// ---- After the sum over replicas -------------------------------------------
// Divides a sum by a number of elements that is known only at run time.
static ls_tensor late_mean(const ls_within *within, ls_tensor sum) {
  const ls_dtype mean = ls_mean_dtype(within->dtype);
  const ls_dtype wide = ls_wide_dtype(mean);
  const ls_tensor total =
      ls_add(within->late, ls_scalar_i64(LS_DTYPE_I64, (int64_t)within->total));
  if (ls_tensor_dtype(sum) != wide) sum = ls_convert(sum, wide);
  return ls_div(sum, ls_convert(total, wide));
}

ls_status ls_finish_within(ls_reduce_op op, const ls_within *within,
                           ls_nest sum, ls_nest *out_value) {
  ls_tensor x = ls_failed_tensor();
  const ls_dtype mean = ls_mean_dtype(within->dtype);
  const ls_dtype dtype = op == LS_REDUCE_MEAN ? mean : within->dtype;
  if (within->value.kind == LS_KIND_NONE) {
    x = ls_broadcast_like(ls_scalar(mean, (double)NAN), within->like);
  } else {
    LS_RETURN_IF_ERROR(ls_region_tensor(sum, &x));
    if (op == LS_REDUCE_MEAN)
      x = within->late.ref != 0
              ? late_mean(within, x)
              : ls_mean_of_sum(x, within->total, within->divides);
    if (ls_tensor_dtype(x) != dtype) x = ls_convert(x, dtype);
  }
  *out_value = ls_leaf(x);
  return ls_made_status(x);
}

// ---- Weighted means in replicas --------------------------------------------
// Weighted means over the replicas, computed inside replicas.

// Looks up this replica's weight by its id at run time, so that all replicas
// have equal traces.
static ls_tensor own_weight(const weighting *w, ls_dtype dtype) {
  LS_OWN(ls_array, array) = NULL;
  const ls_status status =
      ls_array_create(dtype, LS_SHAPE((int64_t)w->count), &array);
  if (!ls_status_is_ok(status)) return ls_make_failed("weighted_mean", status);
  for (size_t i = 0; i < w->count; ++i)
    ls_array_set_f64(array, (int64_t)i, weight_of(w, i));
  const ls_tensor all = ls_constant(array);
  return ls_gather(all, ls_replica_id(), 0);
}

static ls_nest weighted_leaf(ls_nest leaf, void *user) {
  const weighting *w = user;
  ls_tensor x;
  LS_RETURN_FAILED_IF_ERROR(ls_distributed_as_tensor(leaf, &x));
  const ls_dtype mean = ls_mean_dtype(ls_tensor_dtype(x));
  const ls_dtype wide = ls_wide_dtype(mean);
  const ls_tensor weight = own_weight(w, wide);
  // Replaces a missing value by -0, because x + -0 is x for every x, -0
  // included.
  const ls_tensor missing = ls_scalar(wide, -0.0);
  const ls_tensor weighted = ls_mul(ls_convert(x, wide), weight);
  const ls_tensor present =
      ls_select(ls_greater(weight, ls_scalar(wide, 0)), weighted, missing);
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, present);
  const ls_tensor made = ls_convert(ls_mean_of_sum(sum, w->total, false), mean);
  return ls_leaf(ls_same_note(made));
}

ls_nest ls_replica_weighted_mean(ls_replica *replica, ls_nest nest,
                                 const double *weights, size_t num_weights) {
  weighting w = {0};
  LS_RETURN_FAILED_IF_ERROR(ls_replica_check(replica, "weighted_mean"));
  LS_RETURN_FAILED_IF_ERROR(ls_replica_check_others(replica, "weighted_mean"));
  if (weights == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT, "the weights are NULL");
  LS_RETURN_FAILED_IF_ERROR(
      check_weights(weights, num_weights, (size_t)replica->count, &w));
  return ls_nest_map(nest, weighted_leaf, &w);
}

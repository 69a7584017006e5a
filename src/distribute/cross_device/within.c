// SPDX-License-Identifier: Apache-2.0
#include "distribute/cross_device/within.h"

#include <math.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "runtime/eager/eager.h"

// ---- Along axes ------------------------------------------------------------
// Adds the elements of a tensor along some axes, as a number if all the sizes
// are known.
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
  x = ls_reduce_sum(
      x, (ls_axes){.items = s->options->axes, .count = s->options->num_axes});
  *out_sum = ls_leaf(x);
  return ls_made_status(x);
}

// A component, the items of a map output one by one.
static ls_nest sum_component(const summing *s, ls_nest component) {
  const size_t count = ls_distributed_count(component);
  ls_nest sum = ls_none();
  if (component.kind == LS_KIND_NONE) return sum;
  if (component.kind != LS_KIND_DISTRIBUTED) {
    const ls_status status = sum_leaf(s, component, &sum);
    return ls_status_is_ok(status) ? sum : ls_fail(status);
  }
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] = sum_component(s, ls_distributed_component(component, i));
  sum = ls_nest_distributed(LS_MAP_OUTPUT, items, count);
  return sum;
}

// ---- Components ------------------------------------------------------------
typedef ls_nest (*component_function)(ls_nest component, size_t index,
                                      void *user);

// A PerReplica of what the function makes of each component, on its device.
static ls_status each_component(ls_nest leaf, component_function fn, void *user,
                                ls_nest *out_value) {
  ls_components parts;
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_components_init(&parts, leaf));
  ls_allocator *allocator = parts.devices.allocator;
  const size_t count = parts.devices.count;
  ls_nest *items = ls_new_array(allocator, ls_nest, count);
  const char **names = ls_new_array(allocator, const char *, count);
  ls_status status =
      items == NULL || names == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    const char *device = parts.devices.names[i].text;
    names[i] = device[0] != '\0' ? device : NULL;
    {
      LS_DEVICE_SCOPE(device);
      items[i] = fn(parts.items[i], i, user);
    }
  }
  if (ls_status_is_ok(status))
    status = ls_take_nest(
        ls_nest_distributed_on(LS_PER_REPLICA, items, names, count), out_value);
  ls_release(allocator, items);
  ls_release(allocator, names);
  ls_components_deinit(&parts);
  return status;
}

static ls_nest sum_each(ls_nest component, size_t index, void *user) {
  (void)index;
  return sum_component(user, component);
}

ls_status ls_sum_within(ls_nest leaf, const ls_reduce_options *options,
                        ls_within *out_within) {
  *out_within = (ls_within){.divides = true};
  summing s = {options, out_within};
  return each_component(leaf, sum_each, &s, &out_within->value);
}

// ---- Weights ---------------------------------------------------------------
ls_status ls_check_weights(const double *weights, size_t num_weights,
                           size_t count, double *out_total) {
  *out_total = 0;
  if (num_weights != count)
    return ls_invalid_argument("%zu weights for %zu values", num_weights,
                               count);
  for (size_t i = 0; i < count; ++i) {
    if (!(weights[i] >= 0))
      return ls_invalid_argument("weight %zu is %g; weights are 0 or more", i,
                                 weights[i]);
    *out_total += weights[i];
  }
  return ls_ok();
}

typedef struct weighing {
  const double *weights;
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
  if (w->weights[index] == 0) return ls_none();
  const ls_dtype wide = ls_is_half(mean) ? LS_DTYPE_F32 : mean;
  if (dtype != wide) x = ls_convert(x, wide);
  if (w->weights[index] != 1) x = ls_mul_scalar(x, w->weights[index]);
  status = ls_made_status(x);
  return ls_status_is_ok(status) ? ls_leaf(x) : ls_fail(status);
}

ls_status ls_weigh(ls_nest leaf, const ls_reduce_options *options,
                   ls_within *out_within) {
  *out_within = (ls_within){0};
  if (options->axes != NULL && options->num_axes > 0)
    return ls_unimplemented("a weighted mean along an axis");
  const ls_variable *variable = ls_nest_as_variable(leaf);
  const size_t count =
      variable != NULL ? variable->num_components : ls_distributed_count(leaf);
  LS_RETURN_IF_ERROR(ls_check_weights(options->weights, options->num_weights,
                                      count, &out_within->total));
  weighing w = {options->weights, out_within};
  LS_RETURN_IF_ERROR(each_component(leaf, weigh_each, &w, &out_within->value));
  if (out_within->total == 0) {
    ls_nest_release(out_within->value);
    out_within->value = ls_none();
  }
  return ls_ok();
}

// ---- Afterwards ------------------------------------------------------------
// A mean over elements that are counted when they are there.
static ls_tensor late_mean(const ls_within *within, ls_tensor sum) {
  const ls_dtype mean = ls_mean_dtype(within->dtype);
  const ls_dtype wide = ls_is_half(mean) ? LS_DTYPE_F32 : mean;
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

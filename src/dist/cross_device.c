// SPDX-License-Identifier: Apache-2.0
#include "dist/cross_device.h"

#include <math.h>
#include <strings.h>

#include "base/runtime_internal.h"
#include "graph/region.h"
#include "lockstep/eager.h"

ls_status ls_check_reduce_op(ls_reduce_op op) {
  return op == LS_REDUCE_SUM || op == LS_REDUCE_MEAN
             ? ls_ok()
             : ls_invalid_argument("reduce op %d is neither LS_REDUCE_SUM nor "
                                   "LS_REDUCE_MEAN",
                                   (int)op);
}

ls_status ls_reduce_op_parse(const char *text, ls_reduce_op *out_op) {
  *out_op = LS_REDUCE_SUM;
  if (text != NULL && strcasecmp(text, "sum") == 0) return ls_ok();
  *out_op = LS_REDUCE_MEAN;
  if (text != NULL && strcasecmp(text, "mean") == 0) return ls_ok();
  return ls_invalid_argument("reduce op '%s' is neither SUM nor MEAN",
                             text == NULL ? "(none)" : text);
}

ls_status ls_made_status(ls_tensor tensor) {
  ls_graph *graph = ls_graph_current();
  if (tensor.ref != 0 && tensor.graph != NULL)
    return tensor.graph->kind == LS_GRAPH_EAGER ? ls_tensor_status(tensor)
                                                : ls_ok();
  const ls_status error =
      graph == NULL ? ls_out_of_memory() : ls_graph_take_error(graph);
  return error != NULL ? error
                       : ls_invalid_argument("a value is a failed tensor");
}

// ---- Components ------------------------------------------------------------
typedef struct tensor_list {
  ls_allocator *allocator;
  ls_tensor *items;
  size_t count, capacity;
} tensor_list;

static ls_status push(tensor_list *list, ls_nest leaf) {
  // A map's results on one device count one by one.
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
      LS_RETURN_IF_ERROR(push(list, ls_distributed_component(leaf, i)));
    return ls_ok();
  }
  ls_tensor tensor;
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &tensor));
  if (!ls_grow(list->allocator, &list->items, &list->capacity, list->count + 1,
               sizeof(*list->items)))
    return ls_out_of_memory();
  list->items[list->count++] = tensor;
  return ls_ok();
}

ls_status ls_component_tensors(ls_nest leaf, ls_allocator *allocator,
                               ls_tensor **items, size_t *out_count) {
  tensor_list list = {.allocator = allocator};
  ls_status status = ls_ok();
  const ls_variable *variable = ls_nest_as_variable(leaf);
  if (variable != NULL && variable->num_components > 0)
    for (size_t i = 0;
         i < variable->num_components && ls_status_is_ok(status); ++i)
      status = push(&list, (ls_nest){.kind = LS_KIND_VARIABLE,
                                     .as.ref = variable->components[i]});
  else
    status = push(&list, leaf);
  if (ls_status_is_ok(status) && list.count == 0)
    status = ls_invalid_argument("the values to put together must be "
                                 "non-empty");
  *items = list.items;
  *out_count = list.count;
  return status;
}

// ---- Reducing --------------------------------------------------------------
static ls_status check_shapes(const ls_tensor *items, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    const ls_shape a = ls_tensor_shape(items[0]), b = ls_tensor_shape(items[i]);
    if (ls_tensor_dtype(items[i]) == ls_tensor_dtype(items[0]) &&
        ls_shape_compatible(a, b))
      continue;
    return ls_invalid_argument(
        "the values are %s on replica 0 and %s on replica %zu",
        LS_SHAPE_TEXT(ls_tensor_dtype(items[0]), a),
        LS_SHAPE_TEXT(ls_tensor_dtype(items[i]), b), i);
  }
  return ls_ok();
}

static ls_dtype mean_dtype(ls_dtype dtype) {
  switch (dtype) {
    case LS_DTYPE_I32:
    case LS_DTYPE_I64:
    case LS_DTYPE_U32:
    case LS_DTYPE_U64: return LS_DTYPE_F64;
    case LS_DTYPE_I8:
    case LS_DTYPE_I16:
    case LS_DTYPE_U8:
    case LS_DTYPE_U16: return LS_DTYPE_F32;
    default: return dtype;
  }
}

static bool is_half(ls_dtype dtype) {
  return dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
}

static ls_tensor converted(ls_tensor x, ls_dtype dtype) {
  return ls_tensor_dtype(x) == dtype ? x : ls_convert(x, dtype);
}

// sum times 1 / total, the reciprocal and the product in f64 for f64, else in
// f32; integers divide truly.
static ls_tensor scaled(ls_tensor sum, double total, bool divide) {
  const ls_dtype dtype = ls_tensor_dtype(sum);
  const ls_dtype result = mean_dtype(dtype);
  ls_tensor x = converted(sum, is_half(result) ? LS_DTYPE_F32 : result);
  const bool wide = result == LS_DTYPE_F64;
  if (divide || !ls_dtype_is_float(dtype))
    x = ls_div(x, ls_scalar(ls_tensor_dtype(x), total));
  else
    x = ls_mul_scalar(x, wide ? 1.0 / total : (double)(1.0f / (float)total));
  return converted(x, result);
}

static ls_tensor sum_of(const ls_tensor *items, size_t count) {
  return count == 1 ? ls_identity(items[0]) : ls_add_n(items, count);
}

static ls_tensor extreme(ls_reduce_op op, const ls_tensor *items,
                         size_t count) {
  ls_tensor x = items[0];
  for (size_t i = 1; i < count; ++i)
    x = op == LS_REDUCE_MAX ? ls_maximum(x, items[i]) : ls_minimum(x, items[i]);
  return x;
}

// Elements of a tensor along some axes; fails where a size is not known.
static ls_status count_along(ls_tensor x, const int *axes, size_t num_axes,
                             double *out_count) {
  const ls_shape shape = ls_tensor_shape(x);
  *out_count = 1;
  for (size_t i = 0; i < num_axes; ++i) {
    const int axis = axes[i] < 0 ? axes[i] + shape.rank : axes[i];
    if (axis < 0 || axis >= shape.rank)
      return ls_invalid_argument("axis %d of a value of rank %d", axes[i],
                                 shape.rank);
    if (shape.dim[axis] < 0)
      return ls_unimplemented("a mean along axis %d, whose size is not known "
                              "while building",
                              axes[i]);
    *out_count *= (double)shape.dim[axis];
  }
  return ls_ok();
}

// Each replica's sum along the axes, and how many elements that were in all.
static ls_status sum_along(ls_tensor *items, size_t count,
                           const ls_reduce_options *options,
                           double *out_total) {
  *out_total = 0;
  for (size_t i = 0; i < count; ++i) {
    double elements = 0;
    LS_RETURN_IF_ERROR(
        count_along(items[i], options->axes, options->num_axes, &elements));
    *out_total += elements;
    items[i] = ls_reduce_sum(items[i], (ls_axes){.items = options->axes,
                                                 .count = options->num_axes});
    LS_RETURN_IF_ERROR(ls_made_status(items[i]));
  }
  return ls_ok();
}

static ls_status check_weights(const ls_reduce_options *options, size_t count) {
  if (options->num_weights != count)
    return ls_invalid_argument("%zu weights for %zu values",
                               options->num_weights, count);
  for (size_t i = 0; i < count; ++i)
    if (!(options->weights[i] >= 0))
      return ls_invalid_argument("weight %zu is %g; weights are 0 or more", i,
                                 options->weights[i]);
  return ls_ok();
}

static ls_status weighted_mean(ls_tensor *items, size_t count,
                               const ls_reduce_options *options,
                               ls_tensor *out_tensor) {
  LS_RETURN_IF_ERROR(check_weights(options, count));
  double total = 0;
  size_t kept = 0;
  const ls_dtype result = mean_dtype(ls_tensor_dtype(items[0]));
  const ls_tensor like = items[0];
  for (size_t i = 0; i < count; ++i) {
    if (options->weights[i] == 0) continue;
    total += options->weights[i];
    const ls_tensor x =
        converted(items[i], is_half(result) ? LS_DTYPE_F32 : result);
    items[kept++] = options->weights[i] == 1
                        ? x
                        : ls_mul_scalar(x, options->weights[i]);
  }
  *out_tensor =
      kept == 0 ? ls_broadcast_like(ls_scalar(result, (double)NAN), like)
                : converted(scaled(sum_of(items, kept), total, false), result);
  return ls_made_status(*out_tensor);
}

static ls_status reduce_copies(ls_reduce_op op, ls_tensor *items, size_t count,
                               const ls_reduce_options *options,
                               ls_tensor *out_tensor) {
  const bool along = options->axes != NULL && options->num_axes > 0;
  const bool mean = op == LS_REDUCE_MEAN;
  double total = (double)count;
  if (along) LS_RETURN_IF_ERROR(sum_along(items, count, options, &total));
  LS_RETURN_IF_ERROR(check_shapes(items, count));
  if (mean && options->weights != NULL)
    return along ? ls_unimplemented("a weighted mean along an axis")
                 : weighted_mean(items, count, options, out_tensor);
  if (op == LS_REDUCE_MAX || op == LS_REDUCE_MIN) {
    *out_tensor = extreme(op, items, count);
    return ls_made_status(*out_tensor);
  }
  // 16-bit floats are added in f32 and rounded once.
  const ls_dtype dtype = ls_tensor_dtype(items[0]);
  for (size_t i = 0; mean && is_half(dtype) && i < count; ++i)
    items[i] = ls_convert(items[i], LS_DTYPE_F32);
  ls_tensor x = sum_of(items, count);
  if (mean && (total != 1 || !ls_dtype_is_float(dtype)))
    x = scaled(x, total, along);
  if (mean && is_half(dtype)) x = converted(x, dtype);
  *out_tensor = x;
  return ls_made_status(x);
}

ls_status ls_reduce_tensors(ls_reduce_op op, const ls_tensor *items,
                            size_t count, const ls_reduce_options *options,
                            ls_tensor *out_tensor) {
  static const ls_reduce_options defaults;
  *out_tensor = ls_failed_tensor();
  ls_allocator *allocator = ls_current_allocator();
  ls_tensor *copies = ls_new_array(allocator, ls_tensor, count);
  if (copies == NULL) return ls_out_of_memory();
  memcpy(copies, items, count * sizeof(*copies));
  const ls_status status =
      reduce_copies(op, copies, count, options != NULL ? options : &defaults,
                    out_tensor);
  ls_release(allocator, copies);
  return status;
}

// ---- Gathering -------------------------------------------------------------
ls_status ls_gather_tensors(const ls_tensor *items, size_t count, int axis,
                            ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  const ls_shape first = ls_tensor_shape(items[0]);
  for (size_t i = 0; i < count; ++i) {
    const ls_shape shape = ls_tensor_shape(items[i]);
    if (shape.rank < 0) continue;
    if (shape.rank == 0)
      return ls_invalid_argument("scalars cannot be gathered: there is no axis "
                                 "to put them along");
    if (axis < 0 || axis >= shape.rank)
      return ls_invalid_argument("gather along axis %d of rank %d; 0 to %d are "
                                 "possible",
                                 axis, shape.rank, shape.rank - 1);
    bool fits = shape.rank == first.rank;
    for (int d = 0; fits && d < shape.rank; ++d)
      fits = d == axis || shape.dim[d] < 0 || first.dim[d] < 0 ||
             shape.dim[d] == first.dim[d];
    if (!fits)
      return ls_invalid_argument(
          "gather along axis %d: replica 0 has %s, replica %zu %s", axis,
          LS_SHAPE_TEXT(ls_tensor_dtype(items[0]), first), i,
          LS_SHAPE_TEXT(ls_tensor_dtype(items[i]), shape));
  }
  *out_tensor =
      count == 1 ? ls_identity(items[0]) : ls_concatenate(items, count, axis);
  return ls_made_status(*out_tensor);
}

// ---- Destinations ----------------------------------------------------------
static ls_status device_of(ls_nest value, size_t index, ls_device_name *out) {
  LS_RETURN_IF_ERROR(ls_component_device(value, index, out));
  return out->text[0] != '\0'
             ? ls_ok()
             : ls_invalid_argument("destinations can not be empty: the value "
                                   "that names them has no device");
}

ls_status ls_destination_devices(ls_strategy *strategy, ls_destinations where,
                                 ls_device_name **out_devices,
                                 size_t *out_count) {
  const ls_variable *variable = ls_nest_as_variable(where.value);
  size_t count = 1;
  bool all = false;
  if (where.device == NULL && where.value.kind == LS_KIND_NONE) {
    all = strategy->devices != NULL;
    count = (size_t)strategy->num_replicas;
  } else if (where.device == NULL) {
    count = variable != NULL ? variable->num_components
                             : ls_distributed_count(where.value);
    if (count == 0) count = 1;
    if (variable == NULL && where.value.kind != LS_KIND_DISTRIBUTED &&
        where.value.kind != LS_KIND_TENSOR) {
      char text[160];
      return ls_invalid_argument("destinations can not be %s: a device, or a "
                                 "distributed value, variable or tensor",
                                 ls_nest_print(where.value, text,
                                               sizeof(text)));
    }
  }
  *out_count = count;
  *out_devices = ls_new_array(strategy->allocator, ls_device_name, count);
  if (*out_devices == NULL) return ls_out_of_memory();
  const bool parts =
      where.value.kind == LS_KIND_DISTRIBUTED ||
      (variable != NULL && variable->num_components > 0);
  ls_status status = ls_ok();
  if (where.device != NULL && where.device[0] == '\0')
    status = ls_invalid_argument("destinations can not be empty");
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    ls_device_name *out = &(*out_devices)[i];
    if (all) {
      strcpy(out->text, strategy->devices[i]);
    } else if (where.device != NULL) {
      status = ls_device_canonical(where.device, ls_context_current()->device,
                                   out);
    } else if (parts) {
      status = device_of(where.value, i, out);
      // Without said devices a value is where the strategy's replicas are.
      if (!ls_status_is_ok(status) &&
          count == (size_t)strategy->num_replicas) {
        ls_status_free(status);
        status = ls_ok();
        strcpy(out->text, strategy->devices[i]);
      }
    } else {
      const char *device = ls_leaf_device(where.value);
      status = device[0] == '\0'
                   ? ls_invalid_argument("destinations can not be empty: the "
                                         "tensor has no device")
                   : ls_device_canonical(device, NULL, out);
    }
  }
  if (!ls_status_is_ok(status)) {
    ls_release(strategy->allocator, *out_devices);
    *out_devices = NULL;
  }
  return status;
}

ls_status ls_copy_to(ls_strategy *strategy, ls_tensor tensor,
                     const ls_device_name *devices, size_t count,
                     ls_nest *out_value) {
  *out_value = ls_none();
  ls_nest *items = ls_new_array(strategy->allocator, ls_nest, count);
  const char **names = ls_new_array(strategy->allocator, const char *, count);
  ls_status status =
      items == NULL || names == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    names[i] = devices[i].text;
    LS_DEVICE_SCOPE(devices[i].text) { items[i] = ls_leaf(ls_identity(tensor)); }
    status = ls_made_status(items[i].as.tensor);
  }
  if (ls_status_is_ok(status))
    status = ls_take_nest(
        count == 1 ? items[0]
                   : ls_nest_distributed_on(LS_MIRRORED, items, names, count),
        out_value);
  ls_release(strategy->allocator, items);
  ls_release(strategy->allocator, names);
  return status;
}

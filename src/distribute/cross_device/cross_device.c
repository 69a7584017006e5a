// SPDX-License-Identifier: Apache-2.0
//
// Cross-device ops: tables of functions with their state, and the checks before
// each call.
#include "distribute/cross_device/cross_device.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "runtime/eager/eager.h"

static void destroy_ops(ls_object *object) {
  ls_cross_device *ops = (ls_cross_device *)object;
  if (ops->table->release != NULL) ops->table->release(ops->self);
  ls_release(ops->allocator, ops);
}

static void print_ops(const ls_object *object, char *buffer, size_t size) {
  snprintf(buffer, size, "cross-device ops %s",
           ls_cross_device_name((const ls_cross_device *)object));
}

static const ls_object_type ops_type = {
    .name = "cross-device ops", .destroy = destroy_ops, .print = print_ops};

ls_status ls_cross_device_make(const ls_cross_device_table *table, void *self,
                               bool built_in, ls_cross_device **out_ops) {
  *out_ops = NULL;
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_cross_device, ops);
  ls_object_init(&ops->object, &ops_type);
  ops->allocator = allocator;
  ops->table = table;
  ops->self = self;
  ops->built_in = built_in;
  *out_ops = ops;
  return ls_ok();
}

ls_status ls_cross_device_create(const ls_cross_device_table *table, void *self,
                                 ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops, table);
  return ls_cross_device_make(table, self, false, out_ops);
}

LS_COUNTED(ls_cross_device)

const char *ls_cross_device_name(const ls_cross_device *ops) {
  return ops->table->name != NULL ? ops->table->name : "cross-device ops";
}

// ---- Checks ----------------------------------------------------------------
static ls_status refuse_lack(const ls_cross_device *ops, const char *noun) {
  return ls_unimplemented("the cross-device ops '%s' have no %s",
                          ls_cross_device_name(ops), noun);
}

static bool can_be_reduced(ls_nest value) {
  const ls_variable *variable = ls_nest_as_variable(value);
  return value.kind == LS_KIND_DISTRIBUTED || value.kind == LS_KIND_TENSOR ||
         value.kind == LS_KIND_SLICES ||
         (variable != NULL && variable->num_components > 0);
}

static ls_status cross_device_check_pair(ls_nest value, ls_destinations where,
                                         const char *noun) {
  ls_device_set devices;
  LS_RETURN_IF_ERROR(ls_nest_status(value));
  if (!can_be_reduced(value))
    return ls_invalid_argument(
        "%s of %s, which is no distributed value or tensor", noun,
        LS_NEST_TEXT(value));
  if (value.kind == LS_KIND_DISTRIBUTED && ls_distributed_count(value) == 0)
    return ls_invalid_argument(
        "%s: the values to put together must be non-empty", noun);
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  ls_device_set_deinit(&devices);
  return ls_ok();
}

// ---- Calls -----------------------------------------------------------------
ls_status ls_cross_device_reduce(ls_cross_device *ops, ls_reduce_op op,
                                 ls_nest value, ls_destinations where,
                                 ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, ops);
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  if (ops->table->reduce == NULL) return refuse_lack(ops, "reduce");
  LS_RETURN_IF_ERROR(cross_device_check_pair(value, where, "reduce"));
  return LS_TRIAL_WITH(
      out_value, ops->table->reduce(ops->self, op, value, where, out_value));
}

ls_status ls_list_results(ls_status status, const ls_nest *results,
                          size_t count, ls_nest *out_list) {
  if (ls_status_is_ok(status))
    return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, results, count),
                        out_list);
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(results[i]);
  return status;
}

ls_status ls_cross_device_batch_reduce(ls_cross_device *ops, ls_reduce_op op,
                                       const ls_nest *values,
                                       const ls_destinations *where,
                                       size_t count, ls_nest *out_list) {
  LS_REQUIRE_OUT(out_list, ops);
  LS_REQUIRE_ITEMS(values, count);
  LS_REQUIRE_ITEMS(where, count);
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  if (ops->table->batch_reduce == NULL) return refuse_lack(ops, "batch_reduce");
  if (count == 0)
    return ls_invalid_argument(
        "value_destination_pairs of batch_reduce are empty");
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        cross_device_check_pair(values[i], where[i], "batch_reduce"),
        "in value_destination_pairs, pair %zu", i));
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, results, count);
  const ls_status status = LS_TRIAL(
      ops->table->batch_reduce(ops->self, op, values, where, count, results));
  return ls_list_results(status, results, count, out_list);
}

ls_status ls_cross_device_broadcast(ls_cross_device *ops, ls_nest value,
                                    ls_destinations where, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, ops);
  if (value.kind != LS_KIND_TENSOR && value.kind != LS_KIND_SLICES) {
    LS_RETURN_IF_ERROR(ls_nest_status(value));
    return ls_invalid_argument("broadcast of %s, which is no tensor",
                               LS_NEST_TEXT(value));
  }
  ls_device_set devices;
  LS_RETURN_IF_ERROR(ls_destination_set(where, ls_none(), &devices));
  const ls_status status = LS_TRIAL_WITH(
      out_value, ops->table->broadcast != NULL
                     ? ops->table->broadcast(ops->self, value, where, out_value)
                     : ls_copy_to(value, &devices, out_value));
  ls_device_set_deinit(&devices);
  return status;
}

ls_status ls_cross_device_gather(ls_cross_device *ops, ls_nest value, int axis,
                                 ls_destinations where, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, ops);
  if (ops->table->gather == NULL) return refuse_lack(ops, "gather");
  if (ls_nest_has_slices(value))
    return ls_unimplemented("gather of IndexedSlices");
  LS_RETURN_IF_ERROR(cross_device_check_pair(value, where, "gather"));
  return LS_TRIAL_WITH(
      out_value, ops->table->gather(ops->self, value, axis, where, out_value));
}

// ---- Copies ----------------------------------------------------------------
// Copies a value to the current device.
static ls_status cross_device_copy(ls_nest value, ls_nest *out_copy) {
  if (value.kind == LS_KIND_TENSOR) {
    *out_copy = ls_leaf(ls_identity(value.as.tensor));
    return ls_made_status(out_copy->as.tensor);
  }
  ls_slices_parts parts;
  LS_RETURN_IF_ERROR(ls_slices_parts_of(value, &parts));
  const ls_tensor values = ls_identity(parts.values);
  const ls_tensor indices = ls_identity(parts.indices);
  LS_RETURN_IF_ERROR(ls_made_status(values));
  LS_RETURN_IF_ERROR(ls_made_status(indices));
  if (parts.dense_shape.ref != 0) {
    parts.dense_shape = ls_identity(parts.dense_shape);
    LS_RETURN_IF_ERROR(ls_made_status(parts.dense_shape));
  }
  return ls_take_nest(
      ls_nest_slices(ls_leaf(values), indices, parts.dense_shape), out_copy);
}

ls_status ls_copy_to(ls_nest value, const ls_device_set *devices,
                     ls_nest *out_value) {
  *out_value = ls_none();
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = devices->count;
  LS_OWN(ls_nest_builder, copies) = {.allocator = allocator};
  LS_OWN_ARRAY_OR_RETURN(allocator, const char *, names, count);
  for (size_t i = 0; i < count; ++i) {
    ls_nest copied = ls_none();
    names[i] = devices->names[i].text;
    LS_DEVICE_SCOPE(names[i]);
    LS_RETURN_IF_ERROR(cross_device_copy(value, &copied));
    LS_RETURN_IF_NO_MEMORY(ls_nest_builder_append(&copies, copied));
  }
  copies.count = 0;  // The distributed value owns the copies now.
  return ls_take_nest(
      ls_nest_distributed_on(LS_MIRRORED, copies.items, names, count),
      out_value);
}

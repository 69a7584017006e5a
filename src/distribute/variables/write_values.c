// SPDX-License-Identifier: Apache-2.0
#include "base/values/nest_internal.h"
#include "distribute/variables/variable.h"

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "lockstep/eager.h"
#include "lockstep/shape_rules.h"

// ---- Refusals --------------------------------------------------------------
ls_status ls_write_refuse_parts(const ls_writing *w, const char *where) {
  return ls_invalid_argument(
      "%s of '%s' %s: the value is distributed; the variable is %s with "
      "aggregation %s",
      ls_writing_name(w), w->variable->name, where,
      w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ ? "ON_READ"
                                                                 : "ON_WRITE",
      ls_aggregation_name(w->variable->aggregation));
}

static bool is_host_zero(ls_nest leaf) {
  return leaf.kind == LS_KIND_SCALAR && ls_nest_number(leaf) == 0;
}

ls_status ls_write_check_one(const ls_writing *w, ls_nest value) {
  const ls_variable *variable = w->variable;
  if (variable->aggregation != LS_AGGREGATION_SUM ||
      variable->num_components == 1 || is_host_zero(value))
    return ls_ok();
  return ls_invalid_argument(
      "all replicas pass %s to '%s', whose aggregation is SUM: the sum of one "
      "common value is ambiguous; pass each replica's own",
      LS_NEST_TEXT(value), variable->name);
}

ls_status ls_write_refuse_own(const ls_writing *w, ls_nest value) {
  return ls_invalid_argument(
      "%s of '%s' in a replica: it has made %s of its own, as others have; a "
      "replica is to give its own part alone, or a value that was made outside "
      "for all",
      ls_writing_name(w), w->variable->name, LS_NEST_TEXT(value));
}

ls_status ls_write_check_count(const ls_writing *w, ls_nest value) {
  const ls_variable *variable = w->variable;
  const size_t have = value.kind == LS_KIND_DISTRIBUTED
                          ? ls_distributed_count(value)
                      : ls_is_distributed_variable(value)
                          ? ls_variable_num_components(value.as.ref)
                          : variable->num_components;
  return have == variable->num_components
             ? ls_ok()
             : ls_invalid_argument(
                   "a value with %zu components for '%s', which has %zu", have,
                   variable->name, variable->num_components);
}

static ls_status check_part(const ls_writing *w, size_t index, ls_nest part) {
  const ls_type type = w->variable->type;
  ls_type given = {0};
  if (part.kind == LS_KIND_TENSOR) {
    const ls_tensor x = part.as.tensor;
    if (ls_graph_current()->kind == LS_GRAPH_EAGER && ls_tensor_is_failed(x))
      return ls_tensor_status(x);
    given = (ls_type){ls_tensor_dtype(x), ls_tensor_shape(x)};
  } else if (part.kind == LS_KIND_ARRAY) {
    const ls_array *array = ls_nest_as_array(part);
    given = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
  } else if (part.kind == LS_KIND_VARIABLE) {
    given = ((const ls_variable *)part.as.ref)->type;
  } else {
    return ls_ok();  // Host scalars are converted to the variable's type.
  }
  if (given.dtype == LS_DTYPE_NONE ||
      (given.dtype == type.dtype &&
       ls_shape_compatible(given.shape, type.shape)))
    return ls_ok();
  return ls_invalid_argument("%s of '%s': component %zu is %s, its value %s",
                             ls_writing_name(w), w->variable->name, index,
                             LS_SHAPE_TEXT(type.dtype, type.shape),
                             LS_SHAPE_TEXT(given.dtype, given.shape));
}

// Checks all parts of a value before the first part is written.
ls_status ls_write_check_parts(const ls_writing *w, ls_nest value) {
  LS_RETURN_IF_ERROR(ls_write_check_count(w, value));
  for (size_t i = 0; i < w->variable->num_components; ++i)
    LS_RETURN_IF_ERROR(check_part(w, i, ls_value_part(value, i)));
  return ls_ok();
}

// ---- Aggregate -------------------------------------------------------------
bool ls_value_has_parts(ls_nest value) {
  if (!ls_is_distributed_variable(value))
    return value.kind == LS_KIND_DISTRIBUTED;
  const ls_variable *variable = ls_nest_as_variable(value);
  return variable->synchronization == LS_SYNCHRONIZATION_ON_READ ||
         variable->aggregation == LS_AGGREGATION_NONE;
}

static bool same_parts(ls_nest a, ls_nest b) {
  const size_t count = ls_distributed_count(a);
  if (b.kind != LS_KIND_DISTRIBUTED || ls_distributed_count(b) != count)
    return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_nest x = ls_distributed_component(a, i);
    const ls_nest y = ls_distributed_component(b, i);
    if (ls_nest_is_same(x, y)) continue;
    if (x.kind != LS_KIND_ARRAY || y.kind != LS_KIND_ARRAY ||
        !ls_array_is_same(ls_nest_as_array(x), ls_nest_as_array(y)))
      return false;
  }
  return true;
}

// Replaces the distributed values of the replicas by one of them, if all
// replicas passed the same parts.
static ls_status unite_values(const ls_writing *w, ls_nest *value) {
  const ls_nest first = ls_distributed_component(*value, 0);
  if (first.kind != LS_KIND_DISTRIBUTED) return ls_ok();
  for (size_t r = 1; r < ls_distributed_count(*value); ++r)
    if (!same_parts(first, ls_distributed_component(*value, r)))
      return ls_write_refuse_own(w, first);
  *value = first;
  return ls_ok();
}

static ls_status combine_parts(const ls_variable *variable, ls_nest value,
                               ls_nest *out_value) {
  const size_t count = variable->num_components;
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, ls_tensor, items, count);
  ls_tensor made = ls_failed_tensor();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_value_as_tensor(variable, ls_value_part(value, i), &items[i]));
  LS_RETURN_IF_ERROR(ls_strategy_combine(
      ls_strategy_of(variable),
      variable->aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM
                                                  : LS_REDUCE_MEAN,
      items, count, &made));
  *out_value = ls_leaf(made);
  return ls_ok();
}

ls_status ls_write_aggregate(const ls_writing *w, ls_nest value,
                             ls_nest *out_value) {
  *out_value = value;
  if (!ls_value_has_parts(value)) return ls_write_check_one(w, value);
  if (value.kind == LS_KIND_DISTRIBUTED)
    LS_RETURN_IF_ERROR(unite_values(w, &value));
  LS_RETURN_IF_ERROR(ls_write_check_count(w, value));
  if (w->variable->aggregation != LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return combine_parts(w->variable, value, out_value);
  *out_value = ls_value_part(value, 0);
  return ls_write_check_parts(w, value);
}

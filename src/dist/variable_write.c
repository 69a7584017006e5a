// SPDX-License-Identifier: Apache-2.0
//
// Writes of distributed variables.
//
// Across replicas a write goes to every component; in eager one value for all
// is one write of the container, so that what is equal is stored once. In a
// replica an aggregated write is a merge call, in the trace of one a
// collective.
#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "dist/context.h"
#include "dist/cross_device.h"
#include "dist/update.h"
#include "dist/variable.h"
#include "graph/make.h"
#include "graph/region.h"
#include "graph/same.h"
#include "lockstep/eager.h"
#include "runtime/state.h"

// A write on its way.
typedef struct writing {
  ls_variable *variable;
  uint16_t op;  // LS_OP_ASSIGN...
  const ls_write_options *options;
} writing;

static const char *op_name(uint16_t op) { return ls_op_table[op].name; }

static bool in_eager(void) {
  return ls_graph_current()->kind == LS_GRAPH_EAGER;
}

static ls_status check_count(const ls_variable *variable, ls_nest value) {
  const size_t have = value.kind == LS_KIND_DISTRIBUTED
                          ? ls_distributed_count(value)
                      : ls_is_distributed_variable(value)
                          ? ls_variable_num_components(value.as.ref)
                          : variable->num_components;
  return have == variable->num_components
             ? ls_ok()
             : ls_invalid_argument(
                   "a value with %zu components for '%s', which "
                   "has %zu",
                   have, variable->name, variable->num_components);
}

// ---- One write op ----------------------------------------------------------
static ls_tensor write_op(const writing *w, ls_variable *target,
                          ls_tensor value) {
  const ls_attr attr = LS_ATTR_O("variable", &target->object);
  return ls_op_output(ls_op_add(&(ls_op_spec){
                          .type = w->op,
                          .name = w->options != NULL ? w->options->name : NULL,
                          .inputs = &value,
                          .num_inputs = 1,
                          .attrs = &attr,
                          .num_attrs = 1}),
                      0);
}

// The tensor, or what stands for it where the value is not to be read.
static ls_status finish_one(const writing *w, ls_tensor made,
                            ls_nest *out_value) {
  LS_RETURN_IF_ERROR(ls_made_status(made));
  const bool no_value = w->options != NULL && w->options->no_read_value;
  *out_value = !no_value    ? ls_leaf(made)
               : in_eager() ? ls_none()
                            : ls_nest_op(ls_tensor_op(made));
  return ls_ok();
}

// To one variable as it stands: plain, a component, or the container in the
// trace of a replica.
static ls_status write_one(const writing *w, ls_variable *target, ls_nest value,
                           ls_nest *out_value) {
  ls_tensor tensor = ls_failed_tensor(), made = ls_failed_tensor();
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(target->device != NULL ? target->device
                                         : ls_context_current()->device) {
    status = ls_value_as_tensor(w->variable, value, &tensor);
    if (ls_status_is_ok(status)) {
      made = write_op(w, target, tensor);
      status = finish_one(w, made, out_value);
    }
  }
  return status;
}

static ls_status refuse_parts(const writing *w, const char *where) {
  return ls_invalid_argument(
      "%s of '%s' %s: the value is distributed; the variable is %s with "
      "aggregation %s",
      op_name(w->op), w->variable->name, where,
      w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ ? "ON_READ"
                                                                 : "ON_WRITE",
      ls_aggregation_name(w->variable->aggregation));
}

// ---- All components --------------------------------------------------------
static ls_status write_component(const writing *w, size_t index, ls_nest value,
                                 ls_nest *out_value) {
  ls_variable *component = w->variable->components[index];
  char name[32];
  snprintf(name, sizeof(name), "update_%zu", index);
  ls_scope update = {0};
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(component->device) {
    LS_NAME_SCOPE(name) {
      ls_update_begin(&update, ls_strategy_of(w->variable), (int32_t)index,
                      component->device);
      status = write_one(w, component, ls_value_part(value, index), out_value);
      ls_scope_end(&update);
    }
  }
  return status;
}

// Whether component `index` can take its part, as far as it is known.
static ls_status check_part(const writing *w, size_t index, ls_nest part) {
  const ls_type type = w->variable->type;
  ls_type given = {0};
  if (part.kind == LS_KIND_TENSOR) {
    const ls_tensor x = part.as.tensor;
    if (in_eager() && ls_tensor_is_failed(x)) return ls_tensor_status(x);
    given = (ls_type){ls_tensor_dtype(x), ls_tensor_shape(x)};
  } else if (part.kind == LS_KIND_ARRAY) {
    const ls_array *array = ls_nest_as_array(part);
    given = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
  } else if (part.kind == LS_KIND_VARIABLE) {
    given = ((const ls_variable *)part.as.ref)->type;
  } else {
    return ls_ok();  // Host scalars take the type on.
  }
  if (given.dtype == LS_DTYPE_NONE ||
      (given.dtype == type.dtype &&
       ls_shape_compatible(given.shape, type.shape)))
    return ls_ok();
  return ls_invalid_argument("%s of '%s': component %zu is %s, its value %s",
                             op_name(w->op), w->variable->name, index,
                             LS_SHAPE_TEXT(type.dtype, type.shape),
                             LS_SHAPE_TEXT(given.dtype, given.shape));
}

// All are looked at before the first is written.
static ls_status check_parts(const writing *w, ls_nest value) {
  LS_RETURN_IF_ERROR(check_count(w->variable, value));
  for (size_t i = 0; i < w->variable->num_components; ++i)
    LS_RETURN_IF_ERROR(check_part(w, i, ls_value_part(value, i)));
  return ls_ok();
}

static ls_status write_each(const writing *w, ls_nest value,
                            ls_nest *out_value) {
  const size_t count = w->variable->num_components;
  ls_allocator *allocator = w->variable->allocator;
  LS_RETURN_IF_ERROR(check_parts(w, value));
  ls_nest *results = ls_new_array(allocator, ls_nest, count);
  ls_status status = results == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = write_component(w, i, value, &results[i]);
  if (ls_status_is_ok(status))
    status = ls_update_regroup(ls_strategy_of(w->variable), results, count,
                               true, out_value);
  ls_release(allocator, results);
  return status;
}

// Whether one write of the container does what one of each component would.
static bool writes_once(const writing *w, ls_nest value) {
  ls_runtime_state *state =
      ls_runtime_slot(w->variable->runtime, LS_SLOT_RUNTIME);
  if (!in_eager() || ls_value_is_distributed(value) || state == NULL)
    return false;
  return w->op == LS_OP_ASSIGN || ls_store_is_shared(state->store, w->variable);
}

static ls_status write_once(const writing *w, ls_nest value,
                            ls_nest *out_value) {
  const size_t count = w->variable->num_components;
  ls_nest one = ls_none();
  LS_RETURN_IF_ERROR(write_one(w, w->variable, value, &one));
  if (one.kind == LS_KIND_NONE || count == 1) {
    *out_value = one;
    return ls_ok();
  }
  ls_allocator *allocator = w->variable->allocator;
  ls_nest *items = ls_new_array(allocator, ls_nest, count);
  const char **devices = ls_new_array(allocator, const char *, count);
  const bool room = items != NULL && devices != NULL;
  for (size_t i = 0; room && i < count; ++i) {
    items[i] = one;
    devices[i] = ls_variable_device(w->variable->components[i]);
  }
  const ls_nest made =
      room ? ls_nest_distributed_on(LS_MIRRORED, items, devices, count)
           : ls_fail(ls_out_of_memory());
  ls_release(allocator, items);
  ls_release(allocator, devices);
  return ls_take_nest(made, out_value);
}

static ls_status write_all(const writing *w, ls_nest value,
                           ls_nest *out_value) {
  return writes_once(w, value) ? write_once(w, value, out_value)
                               : write_each(w, value, out_value);
}

// The same in the strategy's scope, which is entered where there is none.
static ls_status write_across(const writing *w, ls_nest value,
                              ls_nest *out_value) {
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(
      &crossing, ls_strategy_of(w->variable), op_name(w->op)));
  const ls_status status = write_all(w, value, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

// ---- Aggregation -----------------------------------------------------------
static ls_status refuse_same(const ls_variable *variable, ls_nest value) {
  char text[200];
  return ls_invalid_argument(
      "%s is given by all replicas to '%s', whose aggregation is SUM: the sum "
      "of one value is not what it says; give each replica's own",
      ls_nest_print(value, text, sizeof(text)), variable->name);
}

static bool is_host_zero(ls_nest leaf) {
  return leaf.kind == LS_KIND_SCALAR && ls_nest_number(leaf) == 0;
}

// The values of several replicas as one tensor.
static ls_status aggregate_parts(const ls_variable *variable, ls_nest value,
                                 ls_nest *out_value) {
  const size_t count = ls_distributed_count(value);
  ls_tensor *items = ls_new_array(variable->allocator, ls_tensor, count);
  ls_tensor made = ls_failed_tensor();
  ls_status status = items == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = ls_value_as_tensor(variable, ls_distributed_component(value, i),
                                &items[i]);
  if (ls_status_is_ok(status))
    status = ls_strategy_combine(ls_strategy_of(variable),
                                 variable->aggregation == LS_AGGREGATION_SUM
                                     ? LS_REDUCE_SUM
                                     : LS_REDUCE_MEAN,
                                 items, count, &made);
  ls_release(variable->allocator, items);
  *out_value = ls_leaf(made);
  return status;
}

static ls_status aggregate(const writing *w, ls_nest value,
                           ls_nest *out_value) {
  const ls_variable *variable = w->variable;
  *out_value = value;
  if (value.kind != LS_KIND_DISTRIBUTED)
    return variable->aggregation == LS_AGGREGATION_SUM &&
                   variable->num_components > 1 && !is_host_zero(value)
               ? refuse_same(variable, value)
               : ls_ok();
  if (variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA) {
    *out_value = ls_distributed_component(value, 0);
    return check_parts(w, value);
  }
  return aggregate_parts(variable, value, out_value);
}

static ls_nest merge_write(ls_strategy *strategy, ls_nest args, void *user) {
  const writing *w = user;
  ls_nest value = ls_none(), made = ls_none();
  (void)strategy;
  ls_status status = aggregate(w, args, &value);
  if (ls_status_is_ok(status)) status = write_all(w, value, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// ---- In the trace of a replica ---------------------------------------------
// Whether a tensor is from outside the replica, so the same on all.
static bool is_from_outside(const ls_replica *replica, ls_tensor tensor) {
  const ls_graph *graph = ls_graph_resolve(tensor.graph);
  for (const ls_graph *at = replica->graph->parent; at != NULL; at = at->parent)
    if (at == graph) return true;
  return false;
}

static ls_status write_in_trace(const writing *w, const ls_place *place,
                                ls_nest value, ls_nest *out_value) {
  const ls_variable *variable = w->variable;
  const bool same = place->replica->count == 1 ||
                    value.kind == LS_KIND_SCALAR ||
                    value.kind == LS_KIND_ARRAY ||
                    (value.kind == LS_KIND_TENSOR &&
                     is_from_outside(place->replica, value.as.tensor));
  if (variable->aggregation == LS_AGGREGATION_NONE ||
      variable->synchronization == LS_SYNCHRONIZATION_ON_READ ||
      (same && (variable->aggregation != LS_AGGREGATION_SUM ||
                place->replica->count == 1 || is_host_zero(value))))
    return write_one(w, w->variable, value, out_value);
  if (same) return refuse_same(variable, value);
  ls_tensor x;
  LS_RETURN_IF_ERROR(ls_value_as_tensor(variable, value, &x));
  x = variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA
          ? ls_first_of_all(x)
          : ls_all_reduce(variable->aggregation == LS_AGGREGATION_SUM
                              ? LS_REDUCE_SUM
                              : LS_REDUCE_MEAN,
                          x);
  LS_RETURN_IF_ERROR(ls_made_status(x));
  return write_one(w, w->variable, ls_leaf(x), out_value);
}

// A value from around the replicas with parts of its own: all replicas see
// them, so what they make together is the same on each.
static ls_status write_parts_in_trace(const writing *w, ls_nest value,
                                      ls_nest *out_value) {
  ls_nest one = ls_none();
  LS_RETURN_IF_ERROR(check_count(w->variable, value));
  LS_RETURN_IF_ERROR(aggregate(w, value, &one));
  return write_one(w, w->variable, one, out_value);
}

// What an aggregated write gives is the same on all.
static ls_status write_mirrored_in_trace(const writing *w,
                                         const ls_place *place, ls_nest value,
                                         ls_nest *out_value) {
  const bool none = w->variable->aggregation == LS_AGGREGATION_NONE;
  if (value.kind == LS_KIND_DISTRIBUTED && !none)
    LS_RETURN_IF_ERROR(write_parts_in_trace(w, value, out_value));
  else if (ls_value_is_distributed(value))
    return refuse_parts(w, "in a replica");
  else
    LS_RETURN_IF_ERROR(write_in_trace(w, place, value, out_value));
  if (none || out_value->kind != LS_KIND_TENSOR) return ls_ok();
  out_value->as.tensor = ls_same_note(out_value->as.tensor);
  return ls_made_status(out_value->as.tensor);
}

// ---- Writing, by rule ------------------------------------------------------
static ls_status write_mirrored(const writing *w, ls_nest value,
                                ls_nest *out_value) {
  ls_place place;
  const bool none = w->variable->aggregation == LS_AGGREGATION_NONE;
  LS_RETURN_IF_ERROR(ls_place_of(w->variable, false, &place));
  // Where components may differ only by rule, values that may are refused.
  if (place.kind == LS_PLACE_CROSS && !none &&
      value.kind == LS_KIND_DISTRIBUTED &&
      ls_distributed_kind_of(value) == LS_PER_REPLICA)
    return refuse_parts(w, "across replicas");
  switch (place.kind) {
  case LS_PLACE_CROSS:
    return write_across(w, value, out_value);
  case LS_PLACE_UPDATE:
    return write_one(w, w->variable->components[place.index],
                     ls_value_part(value, place.index), out_value);
  case LS_PLACE_TRACE:
    return write_mirrored_in_trace(w, &place, value, out_value);
  case LS_PLACE_REPLICA:
    break;
  }
  if (none) {
    if (ls_value_is_distributed(value)) return refuse_parts(w, "in a replica");
    return write_one(w, w->variable->components[place.index], value, out_value);
  }
  writing merged = *w;
  return ls_take_nest(
      ls_replica_merge_call(place.replica, merge_write, value, &merged),
      out_value);
}

ls_status ls_share_of_sum(const ls_variable *variable, ls_nest value,
                          ls_nest *out_share) {
  ls_tensor x;
  LS_RETURN_IF_ERROR(ls_value_as_tensor(variable, value, &x));
  x = ls_div(x,
             ls_scalar(variable->type.dtype, (double)variable->num_components));
  *out_share = ls_leaf(x);
  return ls_made_status(x);
}

static ls_status write_on_read_across(const writing *w, ls_nest value,
                                      ls_nest *out_value) {
  const ls_variable_aggregation aggregation = w->variable->aggregation;
  const bool read = w->options == NULL || !w->options->no_read_value;
  const bool sum = aggregation == LS_AGGREGATION_SUM;
  if (value.kind == LS_KIND_DISTRIBUTED &&
      ls_distributed_kind_of(value) != LS_MIRRORED)
    return refuse_parts(w, "across replicas");
  if (sum && w->op != LS_OP_ASSIGN)
    return ls_failed_precondition(
        "%s of '%s' in a cross-replica context: its aggregation is SUM, so "
        "what each replica would get is open",
        op_name(w->op), w->variable->name);
  if (read && aggregation == LS_AGGREGATION_NONE)
    return ls_invalid_argument(
        "%s of '%s' in a cross-replica context: its value afterwards cannot be "
        "read, as its aggregation is NONE",
        op_name(w->op), w->variable->name);
  LS_RETURN_IF_ERROR(check_parts(w, value));
  const ls_nest one = ls_value_part(value, 0);
  ls_nest share = one, written = ls_none();
  if (sum) LS_RETURN_IF_ERROR(ls_share_of_sum(w->variable, one, &share));
  LS_RETURN_IF_ERROR(write_all(w, share, &written));
  if (!read) {
    *out_value = written;
    return ls_ok();
  }
  ls_op after =
      in_eager() ? (ls_op){0}
                 : ls_tensor_op(ls_nest_tensor(ls_value_part(written, 0), 0));
  ls_tensor made = ls_failed_tensor();
  LS_CONTROL_SCOPE(after.id != 0 ? &after : NULL, after.id != 0 ? 1 : 0) {
    made = ls_variable_read(w->variable);
  }
  ls_nest_release(written);
  *out_value = ls_leaf(made);
  return ls_made_status(made);
}

static ls_status write_on_read(const writing *w, ls_nest value,
                               ls_nest *out_value) {
  ls_place place;
  LS_RETURN_IF_ERROR(ls_place_of(w->variable, false, &place));
  if (place.kind == LS_PLACE_CROSS) {
    ls_crossing crossing;
    LS_RETURN_IF_ERROR(ls_cross_replica_begin(
        &crossing, ls_strategy_of(w->variable), op_name(w->op)));
    const ls_status status = write_on_read_across(w, value, out_value);
    return ls_cross_replica_end(&crossing, status, out_value);
  }
  if (ls_value_is_distributed(value)) return refuse_parts(w, "in a replica");
  return place.kind == LS_PLACE_TRACE
             ? write_in_trace(w, &place, value, out_value)
             : write_one(w, w->variable->components[place.index], value,
                         out_value);
}

static ls_status write_any(const writing *w, ls_nest value,
                           ls_nest *out_value) {
  ls_trial trial;
  *out_value = ls_none();
  ls_trial_begin(&trial);
  const ls_status status =
      w->variable->num_components == 0
          ? write_one(w, w->variable, value, out_value)
      : w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ
          ? write_on_read(w, value, out_value)
          : write_mirrored(w, value, out_value);
  return ls_trial_end_with(&trial, status, out_value);
}

ls_status ls_variable_write(ls_variable *variable, ls_write_op op,
                            ls_nest value, const ls_write_options *options,
                            ls_nest *out_value) {
  LS_REQUIRE(variable);
  LS_REQUIRE(out_value);
  static const uint16_t ops[] = {LS_OP_ASSIGN, LS_OP_ASSIGN_ADD,
                                 LS_OP_ASSIGN_SUB};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_scope_status());
  if (variable == NULL || (unsigned)op >= LS_COUNT_OF(ops))
    return ls_invalid_argument("a write needs a variable and an operation");
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  const writing w = {variable, ops[op], options};
  return write_any(&w, value, out_value);
}

// The same as an op maker: the tensor that a thread sees of the result.
ls_tensor ls_write_as_maker(ls_variable *container, uint16_t op,
                            ls_tensor value) {
  const writing w = {.variable = container, .op = op};
  ls_nest made = ls_none();
  ls_tensor tensor = ls_failed_tensor();
  ls_status status = write_any(&w, ls_leaf(value), &made);
  if (ls_status_is_ok(status))
    tensor =
        ls_nest_tensor(made.kind == LS_KIND_DISTRIBUTED
                           ? ls_value_part(made, ls_component_here(container))
                           : made,
                       0);
  ls_nest_release(made);
  return ls_status_is_ok(status) ? tensor : ls_make_failed(op_name(op), status);
}

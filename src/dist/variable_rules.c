// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of distributed variables.
//
// Across replicas a write goes to every component; in eager one value for all
// is one write of the container, so that what is equal is stored once. In a
// replica an aggregated write is a merge call, in the trace of one a
// collective.
#include <stdio.h>

#include <math.h>

#include "base/runtime_internal.h"
#include "dist/context.h"
#include "dist/cross_device.h"
#include "dist/update.h"
#include "dist/variable.h"
#include "graph/make.h"
#include "graph/region.h"
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

// ---- Values ----------------------------------------------------------------
// A leaf as a tensor of the variable's type: host scalars take it on.
static ls_status to_tensor(const ls_variable *variable, ls_nest leaf,
                           ls_tensor *out_tensor) {
  const ls_dtype dtype = variable->type.dtype;
  if (leaf.kind != LS_KIND_SCALAR)
    return ls_distributed_as_tensor(leaf, out_tensor);
  *out_tensor = ls_dtype_is_float(leaf.dtype) || ls_dtype_is_float(dtype)
                    ? ls_scalar(dtype, ls_nest_number(leaf))
                    : ls_scalar_i64(dtype, leaf.as.i64);
  if (variable->type.shape.rank > 0)
    *out_tensor = ls_broadcast(*out_tensor, variable->type.shape);
  return ls_made_status(*out_tensor);
}

static bool is_distributed(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(leaf);
}

// The part of a value that is for component `index`.
static ls_nest part_of(ls_nest value, size_t index) {
  if (value.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_component(value, index);
  if (!ls_is_distributed_variable(value)) return value;
  return (ls_nest){.kind = LS_KIND_VARIABLE,
                   .as.ref = ls_variable_component(value.as.ref, index)};
}

static ls_status check_parts(const ls_variable *variable, ls_nest value) {
  const size_t have = value.kind == LS_KIND_DISTRIBUTED
                          ? ls_distributed_count(value)
                      : ls_is_distributed_variable(value)
                          ? ls_variable_num_components(value.as.ref)
                          : variable->num_components;
  return have == variable->num_components
             ? ls_ok()
             : ls_invalid_argument("a value with %zu components for '%s', which "
                                   "has %zu",
                                   have, variable->name,
                                   variable->num_components);
}

// ---- One write op ----------------------------------------------------------
static ls_tensor write_op(const writing *w, ls_variable *target,
                          ls_tensor value) {
  const ls_attr attr = LS_ATTR_O("variable", &target->object);
  return ls_op_output(
      ls_op_add(&(ls_op_spec){
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
    status = to_tensor(w->variable, value, &tensor);
    if (ls_status_is_ok(status)) {
      made = write_op(w, target, tensor);
      status = finish_one(w, made, out_value);
    }
  }
  return status;
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
      status = write_one(w, component, part_of(value, index), out_value);
      ls_scope_end(&update);
    }
  }
  return status;
}

static ls_status write_each(const writing *w, ls_nest value,
                            ls_nest *out_value) {
  const size_t count = w->variable->num_components;
  ls_allocator *allocator = w->variable->allocator;
  LS_RETURN_IF_ERROR(check_parts(w->variable, value));
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
  if (!in_eager() || is_distributed(value) || state == NULL) return false;
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
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, ls_strategy_of(w->variable),
                                            op_name(w->op)));
  const ls_status status = write_all(w, value, out_value);
  ls_scope_end(&scope);
  return status;
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
    status = to_tensor(variable, ls_distributed_component(value, i), &items[i]);
  if (ls_status_is_ok(status))
    status = ls_reduce_tensors(variable->aggregation == LS_AGGREGATION_SUM
                                   ? LS_REDUCE_SUM
                                   : LS_REDUCE_MEAN,
                               items, count, NULL, &made);
  ls_release(variable->allocator, items);
  *out_value = ls_leaf(made);
  return status;
}

static ls_status aggregate(const ls_variable *variable, ls_nest value,
                           ls_nest *out_value) {
  *out_value = value;
  if (value.kind != LS_KIND_DISTRIBUTED)
    return variable->aggregation == LS_AGGREGATION_SUM &&
                   variable->num_components > 1 && !is_host_zero(value)
               ? refuse_same(variable, value)
               : ls_ok();
  if (variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA) {
    *out_value = ls_distributed_component(value, 0);
    return ls_ok();
  }
  return aggregate_parts(variable, value, out_value);
}

static ls_nest merge_write(ls_strategy *strategy, ls_nest args, void *user) {
  const writing *w = user;
  ls_nest value = ls_none(), made = ls_none();
  (void)strategy;
  ls_status status = aggregate(w->variable, args, &value);
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

// Replica 0's: the others give what no value is below.
static ls_tensor first_of_all(const ls_replica *replica, ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  (void)replica;
  const ls_tensor lowest =
      ls_dtype_is_float(dtype)
          ? ls_scalar(dtype, -(double)INFINITY)
          : ls_scalar_i64(dtype, ls_dtype_is_unsigned(dtype) ||
                                         dtype == LS_DTYPE_BOOL
                                     ? 0
                                     : INT64_MIN >> (64 - 8 * ls_dtype_size(dtype)));
  const ls_tensor is_first =
      ls_equal(ls_replica_id(), ls_scalar_i64(LS_DTYPE_I32, 0));
  return ls_all_reduce(
      LS_REDUCE_MAX,
      ls_select(ls_broadcast_like(is_first, x), x,
                ls_broadcast_like(lowest, x)));
}

static ls_status write_in_trace(const writing *w, const ls_place *place,
                                ls_nest value, ls_nest *out_value) {
  const ls_variable *variable = w->variable;
  const bool same =
      place->replica->count == 1 || value.kind == LS_KIND_SCALAR ||
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
  LS_RETURN_IF_ERROR(to_tensor(variable, value, &x));
  x = variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA
          ? first_of_all(place->replica, x)
          : ls_all_reduce(variable->aggregation == LS_AGGREGATION_SUM
                              ? LS_REDUCE_SUM
                              : LS_REDUCE_MEAN,
                          x);
  LS_RETURN_IF_ERROR(ls_made_status(x));
  return write_one(w, w->variable, ls_leaf(x), out_value);
}

// ---- Writing, by rule ------------------------------------------------------
static ls_status refuse_parts(const writing *w, const char *where) {
  return ls_invalid_argument(
      "%s of '%s' %s: the value is distributed; the variable is %s with "
      "aggregation %s",
      op_name(w->op), w->variable->name, where,
      w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ ? "ON_READ"
                                                                 : "ON_WRITE",
      ls_aggregation_name(w->variable->aggregation));
}

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
    case LS_PLACE_CROSS: return write_across(w, value, out_value);
    case LS_PLACE_UPDATE:
      return write_one(w, w->variable->components[place.index],
                       part_of(value, place.index), out_value);
    case LS_PLACE_TRACE:
      if (is_distributed(value)) return refuse_parts(w, "in a replica");
      return write_in_trace(w, &place, value, out_value);
    case LS_PLACE_REPLICA: break;
  }
  if (none) {
    if (is_distributed(value)) return refuse_parts(w, "in a replica");
    return write_one(w, w->variable->components[place.index], value, out_value);
  }
  writing merged = *w;
  return ls_take_nest(
      ls_replica_merge_call(place.replica, merge_write, value, &merged),
      out_value);
}

// What each component is assigned so that the sum of all is the value.
static ls_status share_of(const ls_variable *variable, ls_nest value,
                          ls_nest *out_share) {
  ls_tensor x;
  LS_RETURN_IF_ERROR(to_tensor(variable, value, &x));
  x = ls_div(x, ls_scalar(variable->type.dtype,
                          (double)variable->num_components));
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
  const ls_nest one = part_of(value, 0);
  ls_nest share = one, written = ls_none();
  if (sum) LS_RETURN_IF_ERROR(share_of(w->variable, one, &share));
  LS_RETURN_IF_ERROR(write_all(w, share, &written));
  if (!read) {
    *out_value = written;
    return ls_ok();
  }
  ls_op after = written.kind == LS_KIND_DISTRIBUTED && !in_eager()
                    ? ls_tensor_op(ls_nest_tensor(part_of(written, 0), 0))
                    : (ls_op){0};
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
    ls_scope scope = {0};
    LS_RETURN_IF_ERROR(ls_cross_replica_begin(
        &scope, ls_strategy_of(w->variable), op_name(w->op)));
    const ls_status status = write_on_read_across(w, value, out_value);
    ls_scope_end(&scope);
    return status;
  }
  if (is_distributed(value)) return refuse_parts(w, "in a replica");
  return place.kind == LS_PLACE_TRACE
             ? write_in_trace(w, &place, value, out_value)
             : write_one(w, w->variable->components[place.index], value,
                         out_value);
}

static ls_status write_any(const writing *w, ls_nest value,
                           ls_nest *out_value) {
  *out_value = ls_none();
  if (w->variable->num_components == 0)
    return write_one(w, w->variable, value, out_value);
  return w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ
             ? write_on_read(w, value, out_value)
             : write_mirrored(w, value, out_value);
}

ls_status ls_variable_write(ls_variable *variable, ls_write_op op,
                            ls_nest value, const ls_write_options *options,
                            ls_nest *out_value) {
  static const uint16_t ops[] = {LS_OP_ASSIGN, LS_OP_ASSIGN_ADD,
                                 LS_OP_ASSIGN_SUB};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_scope_status());
  if (variable == NULL || (unsigned)op >= LS_COUNT_OF(ops))
    return ls_invalid_argument("a write needs a variable and an operation");
  const writing w = {variable, ops[op], options};
  return write_any(&w, value, out_value);
}

// The same as an op maker: the tensor that a thread sees of the result.
static ls_tensor write_as_maker(ls_variable *container, uint16_t op,
                                ls_tensor value) {
  const writing w = {.variable = container, .op = op};
  ls_nest made = ls_none();
  ls_tensor tensor = ls_failed_tensor();
  ls_status status = write_any(&w, ls_leaf(value), &made);
  if (ls_status_is_ok(status))
    tensor = ls_nest_tensor(
        made.kind == LS_KIND_DISTRIBUTED
            ? part_of(made, ls_component_here(container))
            : made,
        0);
  ls_nest_release(made);
  return ls_status_is_ok(status) ? tensor : ls_make_failed(op_name(op), status);
}

// ---- Reading ---------------------------------------------------------------
static ls_tensor fail_read(ls_status status) {
  return ls_make_failed("read_variable", status);
}

static ls_tensor read_here(ls_variable *container, const ls_place *place) {
  switch (place->kind) {
    case LS_PLACE_TRACE: return ls_variable_op(LS_OP_READ, container, NULL);
    case LS_PLACE_REPLICA:
    case LS_PLACE_UPDATE: return ls_read_component(container, place->index);
    case LS_PLACE_CROSS: break;
  }
  return ls_read_component(container, ls_component_here(container));
}

static ls_tensor read_mirrored(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  return ls_status_is_ok(status) ? read_here(container, &place)
                                 : fail_read(status);
}

static ls_tensor use_mirrored(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, true, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  // Without a strategy in force the current device does not count.
  return place.entered ? read_here(container, &place)
                       : ls_read_component(container, 0);
}

static ls_tensor read_aggregated(ls_variable *container) {
  const ls_variable_aggregation aggregation = container->aggregation;
  if (aggregation == LS_AGGREGATION_NONE)
    return fail_read(ls_invalid_argument(
        "variable '%s' is read across replicas, and its aggregation is NONE",
        container->name));
  if (aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return ls_read_component(container, 0);
  ls_tensor *items = NULL, made = ls_failed_tensor();
  size_t count = 0;
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = container};
  ls_status status =
      ls_component_tensors(leaf, container->allocator, &items, &count);
  if (ls_status_is_ok(status))
    status = ls_reduce_tensors(
        aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM : LS_REDUCE_MEAN,
        items, count, NULL, &made);
  ls_release(container->allocator, items);
  return ls_status_is_ok(status) ? made : fail_read(status);
}

// What all replicas' components make, on each of them.
static ls_tensor read_synchronized(ls_variable *container,
                                   const ls_place *place) {
  const ls_variable_aggregation aggregation = container->aggregation;
  if (aggregation == LS_AGGREGATION_NONE)
    return fail_read(ls_invalid_argument(
        "variable '%s' is to be synchronized, and its aggregation is NONE",
        container->name));
  const ls_tensor own = read_here(container, place);
  if (aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return place->kind == LS_PLACE_REPLICA ? ls_read_component(container, 0)
                                           : first_of_all(place->replica, own);
  return ls_all_reduce(aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM
                                                         : LS_REDUCE_MEAN,
                       own);
}

void ls_sync_on_read_scope_begin(ls_scope *scope) {
  ls_context_open(scope, LS_SCOPE_SYNC_ON_READ, NULL)->sync_on_read = true;
}

static bool is_synchronized(const ls_place *place) {
  return ls_context_current()->sync_on_read &&
         (place->kind == LS_PLACE_REPLICA || place->kind == LS_PLACE_TRACE);
}

static ls_tensor use_on_read(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  if (is_synchronized(&place)) return read_synchronized(container, &place);
  return place.kind == LS_PLACE_CROSS ? read_aggregated(container)
                                      : read_here(container, &place);
}

static ls_tensor read_on_read(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  if (is_synchronized(&place))
    return fail_read(ls_unimplemented(
        "read_value of '%s' in a variable_sync_on_read_context; use it as a "
        "tensor (ls_variable_as_tensor)",
        container->name));
  return place.kind == LS_PLACE_CROSS ? read_aggregated(container)
                                      : read_here(container, &place);
}

// ---- Scattering ------------------------------------------------------------
typedef struct scattering {
  ls_variable *variable;
  ls_scatter_op op;
} scattering;

static ls_tensor fail_scatter(ls_status status) {
  return ls_make_failed("assign_scatter", status);
}

static ls_status scatter_each(const scattering *s, ls_tensor indices,
                              ls_tensor updates, ls_nest *out_value) {
  const size_t count = s->variable->num_components;
  ls_allocator *allocator = s->variable->allocator;
  ls_nest *results = ls_new_array(allocator, ls_nest, count);
  ls_status status = results == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    ls_variable *component = s->variable->components[i];
    char name[32];
    snprintf(name, sizeof(name), "update_%zu", i);
    LS_DEVICE_SCOPE(component->device) {
      LS_NAME_SCOPE(name) {
        results[i] =
            ls_leaf(ls_variable_scatter_op(component, s->op, indices, updates));
      }
    }
    status = ls_made_status(results[i].as.tensor);
  }
  if (ls_status_is_ok(status))
    status = ls_update_regroup(ls_strategy_of(s->variable), results, count,
                               true, out_value);
  ls_release(allocator, results);
  return status;
}

// All replicas' deltas behind each other; a mean scales the values.
static ls_status aggregate_delta(const scattering *s, ls_nest args,
                                 ls_tensor *indices, ls_tensor *updates) {
  const ls_variable *variable = s->variable;
  ls_tensor *made[2] = {indices, updates};
  for (size_t i = 0; i < 2; ++i) {
    ls_tensor *items = NULL;
    size_t count = 0;
    const ls_nest leaf = ls_nest_item(args, i);
    ls_status status =
        ls_component_tensors(leaf, variable->allocator, &items, &count);
    if (!ls_status_is_ok(status)) {
      ls_release(variable->allocator, items);
      return status;
    }
    // The same object on all replicas counts for each.
    const size_t all = variable->num_components;
    ls_tensor *each = ls_new_array(variable->allocator, ls_tensor, all);
    for (size_t r = 0; each != NULL && r < all; ++r)
      each[r] = items[count == 1 ? 0 : r];
    if (each == NULL)
      status = ls_out_of_memory();
    else if (variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
      *made[i] = each[0];
    else
      status = ls_gather_tensors(each, all, 0, made[i]);
    ls_release(variable->allocator, items);
    ls_release(variable->allocator, each);
    LS_RETURN_IF_ERROR(status);
  }
  if (variable->aggregation == LS_AGGREGATION_MEAN)
    *updates = ls_mul_scalar(*updates, 1.0 / (double)variable->num_components);
  return ls_made_status(*updates);
}

static ls_nest merge_scatter(ls_strategy *strategy, ls_nest args, void *user) {
  const scattering *s = user;
  ls_tensor indices, updates;
  ls_nest made = ls_none();
  (void)strategy;
  ls_status status = aggregate_delta(s, args, &indices, &updates);
  if (ls_status_is_ok(status))
    status = scatter_each(s, indices, updates, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_status scatter_any(const scattering *s, ls_tensor indices,
                             ls_tensor updates, ls_nest *out_value) {
  const ls_variable *variable = s->variable;
  const ls_variable_aggregation aggregation = variable->aggregation;
  ls_place place;
  LS_RETURN_IF_ERROR(ls_place_of(variable, false, &place));
  if ((s->op == LS_SCATTER_MIN || s->op == LS_SCATTER_MAX ||
       s->op == LS_SCATTER_UPDATE) &&
      (aggregation == LS_AGGREGATION_SUM || aggregation == LS_AGGREGATION_MEAN))
    return ls_unimplemented("scatter_%s of '%s', whose aggregation is %s",
                            ls_scatter_name(s->op), variable->name,
                            ls_aggregation_name(aggregation));
  if (place.kind == LS_PLACE_CROSS)
    return scatter_each(s, indices, updates, out_value);
  ls_variable *target = place.kind == LS_PLACE_TRACE
                            ? s->variable
                            : variable->components[place.index];
  if (place.kind == LS_PLACE_UPDATE || aggregation == LS_AGGREGATION_NONE) {
    *out_value =
        ls_leaf(ls_variable_scatter_op(target, s->op, indices, updates));
    return ls_made_status(out_value->as.tensor);
  }
  if (place.kind == LS_PLACE_TRACE)
    return ls_unimplemented("scatter_%s of '%s' with aggregation %s in a "
                            "traced function",
                            ls_scatter_name(s->op), variable->name,
                            ls_aggregation_name(aggregation));
  const ls_nest args = LS_TUPLE(ls_leaf(indices), ls_leaf(updates));
  scattering merged = *s;
  const ls_nest made =
      ls_replica_merge_call(place.replica, merge_scatter, args, &merged);
  ls_nest_release(args);
  return ls_take_nest(made, out_value);
}

static ls_tensor scatter_mirrored(ls_variable *container, ls_scatter_op op,
                                  ls_tensor indices, ls_tensor updates) {
  const scattering s = {container, op};
  ls_nest made = ls_none();
  const ls_status status = scatter_any(&s, indices, updates, &made);
  if (!ls_status_is_ok(status)) return fail_scatter(status);
  const ls_tensor tensor = ls_nest_tensor(
      made.kind == LS_KIND_DISTRIBUTED
          ? part_of(made, ls_component_here(container))
          : made,
      0);
  ls_nest_release(made);
  return tensor;
}

static ls_tensor scatter_on_read(ls_variable *container, ls_scatter_op op,
                                 ls_tensor indices, ls_tensor updates) {
  (void)indices;
  (void)updates;
  return fail_scatter(ls_unimplemented(
      "scatter_%s of '%s', whose synchronization is ON_READ",
      ls_scatter_name(op), container->name));
}

const ls_variable_rules ls_mirrored_rules = {.class_name = "MirroredVariable",
                                             .read = read_mirrored,
                                             .as_tensor = use_mirrored,
                                             .write = write_as_maker,
                                             .scatter = scatter_mirrored};

const ls_variable_rules ls_sync_on_read_rules = {
    .class_name = "SyncOnReadVariable",
    .read = read_on_read,
    .as_tensor = use_on_read,
    .write = write_as_maker,
    .scatter = scatter_on_read};

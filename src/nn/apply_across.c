// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer across replicas: the strategy's cross-device ops sum
// the gradients on the variables' devices, and each component of a variable is
// updated there. Replicas that run op by op make a merge call for this.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "graph/trial.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/strategy_extended.h"
#include "nn/layer.h"
#include "nn/optimizer.h"

typedef struct across {
  ls_gradients_over_replicas over_replicas;
  ls_optimizer *optimizer;
  ls_strategy *strategy;
  ls_variable *global_step;
  bool from_replicas;  // True if replicas that run op by op make the step.
  ls_nest total;       // Total of examples on each replica; none: equal.
  ls_step_scalars scalars;
  ls_nest examples;   // Examples of all replicas in this call; none: unknown.
  ls_held_call call;  // With several calls per step: this call's weights,
  ls_tensor share;    // and when stepping, the factor of the sums.
  ls_variable **variables;  // Variables with a gradient.
  ls_nest *gradients;       // Their gradients, one value per replica, owned.
  size_t count, replicas;
  ls_tensor *sums;  // [device][variable]: the gradient on the device.
  ls_tensor *squares;
  ls_op *ops;  // One per update, then two at the end.
  size_t num_ops;
  size_t at;  // Index of the variable being updated.
} across;

// ---- Pairs -----------------------------------------------------------------
// Wraps a gradient as each replica's. If all replicas passed one object, it
// counts once per replica.
static ls_nest of_each(const across *a, ls_nest gradient) {
  if (gradient.kind == LS_KIND_DISTRIBUTED) return ls_nest_retain(gradient);
  ls_allocator *allocator = a->optimizer->allocator;
  LS_OWN_ARRAY(allocator, ls_nest, items, a->replicas);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < a->replicas; ++i)
    items[i] = ls_nest_retain(gradient);
  return ls_nest_distributed_on(LS_PER_REPLICA, items,
                                ls_strategy_devices(a->strategy), a->replicas);
}

static ls_status check_pair(const across *a, const ls_variable *variable,
                            ls_nest gradient) {
  if (variable->num_components != a->replicas &&
      !(a->from_replicas && variable->num_components == 0))
    return LS_STATUS(variable->num_components == 0 ? LS_INVALID_ARGUMENT
                                                   : LS_UNIMPLEMENTED,
                     "variable '%s' has %zu components, %s has %zu replicas: a "
                     "step across replicas moves one on each",
                     variable->name, variable->num_components,
                     ls_strategy_label(a->strategy), a->replicas);
  const size_t count = ls_distributed_count(gradient);
  for (size_t i = 0; i < (count == 0 ? 1 : count); ++i) {
    const ls_nest item = ls_distributed_component(gradient, i);
    if (item.kind != LS_KIND_TENSOR && item.kind != LS_KIND_ARRAY)
      return ls_unimplemented("the gradient of variable '%s' is no plain "
                              "tensor on replica %zu: such gradients cannot "
                              "be applied",
                              variable->name, i);
    LS_RETURN_IF_ERROR(ls_optimizer_check_gradient(variable, item));
  }
  return ls_ok();
}

static ls_status take_pairs(across *a, ls_variable *const *variables,
                            const ls_nest *gradients, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (gradients[i].kind == LS_KIND_NONE) continue;
    LS_RETURN_IF_ERROR(check_pair(a, variables[i], gradients[i]));
    LS_RETURN_IF_ERROR(
        ls_take_nest(of_each(a, gradients[i]), &a->gradients[a->count]));
    a->variables[a->count++] = variables[i];
  }
  return a->count > 0 ? ls_ok() : ls_optimizer_no_gradients(variables, count);
}

// ---- Sums ------------------------------------------------------------------
static ls_status on_device(ls_nest leaf, const char *device,
                           ls_tensor *out_tensor) {
  LS_OWN(ls_nest, component) = ls_none();
  LS_RETURN_IF_ERROR(ls_distributed_get(leaf, device, &component));
  return ls_distributed_as_tensor(component, out_tensor);
}

// Takes the reduced gradients on one device from a nest.
static ls_status finish_device(across *a, ls_nest reduced, size_t device) {
  const char *name = ls_strategy_device(a->strategy, (int32_t)device);
  const bool divides = a->total.kind != LS_KIND_NONE;
  ls_tensor *sums = a->sums + device * a->count, total = ls_failed_tensor();
  LS_DEVICE_SCOPE(name);
  if (divides) LS_RETURN_IF_ERROR(on_device(a->total, name, &total));
  for (size_t i = 0; i < a->count; ++i) {
    LS_RETURN_IF_ERROR(on_device(ls_nest_item(reduced, i), name, &sums[i]));
    if (divides)
      sums[i] =
          ls_shares_divided(total, sums[i], ls_variable_dtype(a->variables[i]));
  }
  return ls_ok();
}

// Clips the components' gradients on one device.
static void clip_device(across *a, size_t device) {
  const ls_clip *clip = &a->optimizer->clip;
  ls_tensor *sums = a->sums + device * a->count;
  {
    LS_DEVICE_SCOPE(ls_strategy_device(a->strategy, (int32_t)device));
    for (size_t i = 0; i < a->count; ++i) {
      if (ls_optimizer_holds(a->optimizer))
        sums[i] =
            ls_held_mean(sums[i], a->share, ls_variable_dtype(a->variables[i]));
      sums[i] = ls_clip_one(clip, sums[i]);
    }
    ls_clip_all(clip, sums, a->count, a->squares);
  }
}

static ls_status reduce_all(across *a) {
  ls_allocator *allocator = a->optimizer->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_destinations, where, a->count);
  for (size_t i = 0; i < a->count; ++i)
    if (a->variables[i]->num_components > 0)
      where[i].value =
          (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = a->variables[i]};
    else
      where[i] = (ls_destinations){.devices = ls_strategy_devices(a->strategy),
                                   .num_devices = a->replicas};
  const bool mean =
      a->over_replicas == LS_GRADIENTS_MEAN && a->total.kind == LS_KIND_NONE;
  LS_OWN(ls_nest, reduced) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_batch_reduce_to(
      a->strategy, mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM, a->gradients, where,
      a->count, &reduced));
  for (size_t d = 0; d < a->replicas; ++d)
    LS_RETURN_IF_ERROR(finish_device(a, reduced, d));
  return ls_ok();
}

// ---- Updates ---------------------------------------------------------------
// Finds the slots of a component of the variable that is being updated.
static ls_status find_slots(const across *a, const ls_variable *component,
                            ls_variable **slots) {
  ls_variable **all = NULL;
  LS_RETURN_IF_ERROR(
      ls_optimizer_slots(a->optimizer, a->variables[a->at], &all));
  for (size_t i = 0; i < a->optimizer->num_slots; ++i)
    slots[i] = ls_slot_component(all[i], component);
  return ls_ok();
}

// Returns the variable that an update changes: a component, or a plain one.
static ls_variable *updated(const across *a, ls_nest args) {
  return ls_nest_count(args) > 0 ? ls_nest_as_variable(ls_nest_item(args, 0))
                                 : a->variables[a->at];
}

// Returns the variable's gradient on the device of the update.
static ls_tensor *sum_here(const across *a) {
  const size_t device = (size_t)ls_update_replica_id().value;
  return &a->sums[device * a->count + a->at];
}

static ls_nest joined(const ls_op *ops, size_t count) {
  const ls_op op = ls_join_ops(ops, count, NULL);
  if (!ls_graph_is_eager(ls_graph_current())) return ls_nest_op(op);
  const ls_status status = ls_tensor_status(ls_op_output(op, 0));
  return ls_status_is_ok(status) ? ls_nest_op(op) : ls_fail(status);
}

static ls_nest update_component(ls_nest args, void *user) {
  const across *a = user;
  ls_variable *component = updated(a, args);
  const size_t num_slots = a->optimizer->num_slots;
  ls_variable *slots[LS_MAX_SLOTS + 1];
  ls_op ops[1 + LS_MAX_SLOTS + 1];
  LS_RETURN_FAILED_IF_ERROR(find_slots(a, component, slots));
  ls_update update = {.optimizer = a->optimizer,
                      .scalars = &a->scalars,
                      .variable = component,
                      .slots = slots,
                      .gradient = *sum_here(a),
                      .ops = ops};
  char scope[LS_MAX_FULL_NAME + 8];
  snprintf(scope, sizeof(scope), "update_%s", component->name);
  LS_NAME_SCOPE(scope);
  ls_update_make(&update);
  if (ls_optimizer_holds(a->optimizer))
    ops[num_slots] = ls_hold_nothing(a->optimizer, slots);
  return joined(ops, 1 + num_slots);
}

static ls_nest hold_component(ls_nest args, void *user) {
  const across *a = user;
  ls_variable *slots[LS_MAX_SLOTS + 1];
  LS_RETURN_FAILED_IF_ERROR(find_slots(a, updated(a, args), slots));
  ls_tensor *sum = sum_here(a);
  *sum = ls_hold_gradient(a->optimizer, &a->call, slots, *sum);
  // A plain variable has one sum for all devices.
  for (size_t d = 0; ls_nest_count(args) == 0 && d < a->replicas; ++d)
    a->sums[d * a->count + a->at] = *sum;
  const ls_op op = ls_tensor_op(*sum);
  return joined(&op, 1);
}

static ls_nest count_one(ls_variable *variable) {
  const ls_op op = ls_tensor_op(ls_variable_assign_add(
      variable, ls_scalar_i64(ls_variable_dtype(variable), 1)));
  return joined(&op, 1);
}

static ls_nest count_component(ls_nest args, void *user) {
  (void)user;
  return count_one(ls_nest_as_variable(ls_nest_item(args, 0)));
}

static ls_nest count_step(ls_nest args, void *user) {
  (void)args;
  const across *a = user;
  return count_one(a->optimizer->step);
}

// Takes over the result of an update. In eager mode, the update has run
// already.
static void keep_op(across *a, ls_nest made) {
  const ls_nest one = ls_distributed_component(made, 0);
  if (one.kind == LS_KIND_OP && !ls_graph_is_eager(ls_graph_current()))
    a->ops[a->num_ops++] = one.as.op;
  ls_nest_release(made);
}

// Calls `update` for each component of each variable, and once for a plain one.
static ls_status update_all(across *a, ls_callback update) {
  for (a->at = 0; a->at < a->count; ++a->at) {
    ls_variable **slots = NULL;
    ls_variable *variable = a->variables[a->at];
    ls_nest made = ls_none();
    LS_RETURN_IF_ERROR(ls_optimizer_slots(a->optimizer, variable, &slots));
    LS_RETURN_IF_ERROR(variable->num_components > 0
                           ? ls_strategy_update(a->strategy, variable, update,
                                                ls_none(), a, true, &made)
                           : ls_strategy_update_non_slot(
                                 a->strategy, ls_strategy_devices(a->strategy),
                                 1, update, ls_none(), a, true, &made));
    keep_op(a, made);
  }
  return ls_ok();
}

// Counts the step once, in an update without a variable.
static ls_status count_all(across *a) {
  ls_nest made = ls_none();
  if (a->optimizer->step != NULL) {
    LS_RETURN_IF_ERROR(ls_strategy_update_non_slot(
        a->strategy, ls_strategy_devices(a->strategy), 1, count_step, ls_none(),
        a, true, &made));
    keep_op(a, made);
  }
  if (a->global_step == NULL) return ls_ok();
  if (a->global_step->num_components > 0)
    LS_RETURN_IF_ERROR(ls_strategy_update(a->strategy, a->global_step,
                                          count_component, ls_none(), NULL,
                                          true, &made));
  else
    LS_RETURN_IF_ERROR(ls_take_nest(count_one(a->global_step), &made));
  keep_op(a, made);
  return ls_ok();
}

// ---- Steps -----------------------------------------------------------------
static ls_status move_all(across *a, ls_op *out_op) {
  for (size_t d = 0; d < a->replicas; ++d)
    clip_device(a, d);
  LS_RETURN_IF_ERROR(update_all(a, update_component));
  if (ls_graph_is_eager(ls_graph_current())) {
    LS_RETURN_IF_ERROR(count_all(a));
    // All ops have run in eager mode, so that any op will do.
    *out_op = ls_tensor_op(ls_scalar_i64(LS_DTYPE_I64, 0));
    return ls_ok();
  }
  const ls_op moved = ls_group(a->ops, a->num_ops, NULL);
  ls_status status = ls_ok();
  a->ops[0] = moved;
  a->num_ops = 1;
  {
    LS_CONTROL_SCOPE(&moved, 1);
    status = count_all(a);
  }
  LS_RETURN_IF_ERROR(status);
  *out_op = ls_group(a->ops, a->num_ops, a->optimizer->name);
  return ls_ok();
}

static ls_status move_held(void *user, ls_tensor share) {
  across *a = user;
  ls_op moved = {0};
  a->share = share;
  a->num_ops = 0;  // Ops that hold the sums are outside of the branch.
  LS_RETURN_IF_ERROR(ls_optimizer_begin_step(a->optimizer, &a->scalars));
  return move_all(a, &moved);
}

static ls_status begin_call(across *a) {
  ls_tensor examples = ls_scalar(LS_DTYPE_F64, 1);
  if (a->examples.kind != LS_KIND_NONE)
    LS_RETURN_IF_ERROR(
        on_device(a->examples, ls_strategy_device(a->strategy, 0), &examples));
  return ls_hold_begin(a->optimizer, examples, &a->call);
}

static ls_status make_step(across *a, ls_op *out_op) {
  ls_graph *graph = ls_graph_current();
  if (ls_optimizer_holds(a->optimizer)) {
    LS_RETURN_IF_ERROR(reduce_all(a));
    LS_RETURN_IF_ERROR(begin_call(a));
    LS_RETURN_IF_ERROR(update_all(a, hold_component));
    LS_RETURN_IF_ERROR(
        ls_optimizer_step_if_due(a->optimizer, &a->call, move_held, a, out_op));
  } else {
    LS_RETURN_IF_ERROR(ls_optimizer_begin_step(a->optimizer, &a->scalars));
    LS_RETURN_IF_ERROR(reduce_all(a));
    LS_RETURN_IF_ERROR(move_all(a, out_op));
  }
  LS_RETURN_IF_ERROR(ls_update_ops_join(a->optimizer->name, out_op));
  return graph->kind == LS_GRAPH_BUILD
             ? ls_graph_add_to_collection(graph, LS_COLLECTION_TRAIN_OP,
                                          ls_nest_op(*out_op))
             : ls_ok();
}

static ls_status take_and_move(across *a, ls_variable *const *variables,
                               const ls_nest *gradients, size_t count,
                               ls_op *out_op) {
  LS_RETURN_IF_ERROR(take_pairs(a, variables, gradients, count));
  LS_NAME_SCOPE(a->optimizer->name);
  return make_step(a, out_op);
}

static ls_status apply_pairs(across *a, ls_variable *const *variables,
                             const ls_nest *gradients, size_t count,
                             ls_op *out_op) {
  ls_allocator *allocator = a->optimizer->allocator;
  a->replicas = (size_t)ls_strategy_num_replicas(a->strategy);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, kept_variables, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, kept_gradients, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, sums, count * a->replicas);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, squares, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, count + 2);
  a->variables = kept_variables;
  a->gradients = kept_gradients;
  a->sums = sums;
  a->squares = squares;
  a->ops = ops;
  const ls_status status =
      take_and_move(a, variables, gradients, count, out_op);
  for (size_t i = 0; i < a->count; ++i)
    ls_nest_release(a->gradients[i]);
  return status;
}

ls_status ls_optimizer_apply_across(ls_optimizer *optimizer,
                                    ls_variable *const *variables,
                                    const ls_nest *gradients, size_t count,
                                    ls_variable *global_step, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, optimizer);
  LS_REQUIRE_ITEMS(gradients, count);
  LS_REQUIRE_EACH(variables, count);
  ls_strategy *strategy = ls_strategy_current();
  if (strategy == NULL) return ls_out_of_memory();
  if (optimizer->inner != NULL)
    return ls_failed_precondition(
        "a cross-shard optimizer works in replicas, with ls_optimizer_apply or "
        "ls_optimizer_minimize: across replicas take the optimizer inside");
  if (!ls_in_cross_replica_context() || ls_strategy_devices(strategy) == NULL)
    return ls_failed_precondition(
        "ls_optimizer_apply_across works in the cross-replica context of a "
        "mirrored strategy; in replicas use ls_optimizer_apply");
  across a = {.over_replicas = optimizer->over_replicas,
              .optimizer = optimizer,
              .strategy = strategy,
              .global_step = global_step};
  return LS_TRIAL(apply_pairs(&a, variables, gradients, count, out_op));
}

// ---- Replicas that merge ---------------------------------------------------
bool ls_optimizer_meets(ls_variable *const *variables, size_t count) {
  if (ls_context_current()->hooks == NULL) return false;
  for (size_t i = 0; i < count && ls_num_replicas() == 1; ++i)
    if (variables[i]->num_components == 0) return false;
  return true;
}

// Finds the variable that all replicas have passed.
static ls_status one_variable(ls_nest leaf, size_t index,
                              ls_variable **out_variable) {
  *out_variable = ls_nest_as_variable(leaf);
  if (*out_variable != NULL) return ls_ok();
  return ls_invalid_argument("all replicas must apply gradients to the same "
                             "variables in the same order; number %zu is %s",
                             index, LS_NEST_TEXT(leaf));
}

// Applies gradients for all replicas. `args` has variables, gradients, and two
// numbers of examples: one by which gradients are divided, one that weights the
// call.
static ls_nest apply_merged(ls_strategy *strategy, ls_nest args, void *user) {
  ls_optimizer *over = user;
  across a = {.over_replicas = over->over_replicas,
              .optimizer = over->inner != NULL ? over->inner : over,
              .strategy = strategy,
              .from_replicas = true,
              .total = ls_nest_item(args, 2),
              .examples = ls_nest_item(args, 3)};
  const ls_nest listed = ls_nest_item(args, 0), given = ls_nest_item(args, 1);
  ls_allocator *allocator = a.optimizer->allocator;
  const size_t count = ls_nest_count(listed);
  LS_OWN_ARRAY(allocator, ls_variable *, variables, count);
  LS_OWN_ARRAY(allocator, ls_nest, gradients, count);
  if (variables == NULL || gradients == NULL)
    return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    gradients[i] = ls_nest_item(given, i);
    LS_RETURN_FAILED_IF_ERROR(
        one_variable(ls_nest_item(listed, i), i, &variables[i]));
  }
  ls_op op = {0};
  LS_RETURN_FAILED_IF_ERROR(apply_pairs(&a, variables, gradients, count, &op));
  return ls_graph_is_eager(ls_graph_current()) ? ls_none() : ls_nest_op(op);
}

ls_status ls_optimizer_apply_met(ls_optimizer *over,
                                 ls_variable *const *variables,
                                 const ls_tensor *gradients, size_t count,
                                 ls_op *out_op) {
  ls_allocator *allocator = over->allocator;
  const ls_optimizer *inner = over->inner != NULL ? over->inner : over;
  const bool mean = over->over_replicas == LS_GRADIENTS_MEAN;
  const ls_shares shares = ls_shares_find(mean);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, 2 * count);
  for (size_t i = 0; i < count; ++i) {
    items[i] = ls_nest_variable(variables[i]);
    items[count + i] = ls_leaf(ls_shares_given(&shares, mean, gradients[i]));
  }
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_sequence(LS_KIND_LIST, items, count),
      ls_nest_sequence(LS_KIND_LIST, items + count, count),
      mean && shares.differ ? ls_leaf(shares.total) : ls_none(),
      ls_optimizer_holds(inner) ? ls_leaf(ls_optimizer_examples(over, &shares))
                                : ls_none());
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_replica_merge_call(ls_replica_context(), apply_merged, args, over),
      &made));
  *out_op = made.kind == LS_KIND_OP
                ? made.as.op
                : ls_tensor_op(ls_scalar_i64(LS_DTYPE_I64, 0));
  return ls_ok();
}

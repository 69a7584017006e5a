// SPDX-License-Identifier: Apache-2.0
//
// The default strategy, current outside all others: one replica without a
// device, with plain values and variables.
#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "graph/context.h"

// ---- Run -------------------------------------------------------------------
// Calls the callable outside of the strategy's scope, as if there were no
// strategy.
static ls_status default_run(ls_strategy *strategy, ls_crossing *crossing,
                             const ls_run_request *request, ls_nest *results) {
  const ls_callable callable = request->callable;
  (void)strategy;
  ls_scope_end(&crossing->scope);
  if (callable.traced != NULL)
    return ls_function_call_by(callable.traced, &(ls_tracer){0}, request->args,
                               results);
  ls_examples_entry examples;
  ls_first_failure first;
  ls_examples_enter(&examples, LS_EXAMPLES_ARGUMENTS, request->args);
  ls_failure_begin(&first);
  const ls_status status = ls_failure_end(
      &first,
      ls_take_nest(callable.plain(request->args, callable.user), results));
  ls_examples_leave(&examples);
  return status;
}

static ls_status update(const ls_update_call *call, ls_variable *variable,
                        ls_nest *out_value) {
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = variable};
  LS_OWN(ls_nest, args) = ls_update_args(call, leaf, variable != NULL, 0);
  LS_OWN(ls_nest, result) = ls_none();
  ls_scope scope = {0};
  ls_status status = ls_nest_status(args);
  ls_update_begin(&scope, call->strategy, 0, "");
  if (ls_status_is_ok(status))
    status = ls_take_nest(call->fn(args, call->user), &result);
  ls_scope_end(&scope);
  LS_RETURN_IF_ERROR(status);
  if (call->group) {
    return ls_hand_over(&result, out_value);
  }
  return ls_update_ungroup(call->strategy, result, out_value);
}

static ls_status update_non_slot(const ls_update_call *call,
                                 const char *const *devices, size_t num_devices,
                                 ls_nest *out_value) {
  (void)devices, (void)num_devices;
  return update(call, NULL, out_value);
}

static ls_status map(const ls_update_call *call, const ls_nest *items,
                     size_t num_items, ls_nest *out_value) {
  (void)items, (void)num_items, (void)out_value;
  return ls_failed_precondition("%s has no map", call->strategy->label);
}

// ---- Values ----------------------------------------------------------------
static ls_nest default_reduce_leaf(ls_nest leaf, void *user) {
  const ls_strategy_reduction *r = user;
  ls_nest made = ls_none();
  return ls_made_nest(leaf.kind == LS_KIND_NONE ? ls_ok()
                      : ls_has_axes(r)
                          ? ls_reduce_components(r, leaf, &made)
                          : ls_weigh_one(leaf, r->options, 1, &made),
                      &made);
}

// Reduces a single value, possibly along axes or with a weight.
static ls_status default_reduce(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, const ls_reduce_options *options,
                                ls_nest *out_value) {
  ls_strategy_reduction r = {
      .strategy = strategy, .op = op, .options = options};
  if (ls_has_axes(&r) || options->weights != NULL)
    return ls_take_nest(ls_nest_map(value, default_reduce_leaf, &r), out_value);
  *out_value = ls_nest_retain(value);
  return ls_ok();
}

static ls_status reduce_to(ls_strategy *strategy, ls_reduce_op op,
                           ls_nest value, ls_destinations where,
                           ls_nest *out_value) {
  (void)strategy, (void)where;
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  *out_value = ls_nest_retain(value);
  return ls_ok();
}

static ls_status batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                 const ls_nest *values,
                                 const ls_destinations *where, size_t count,
                                 ls_nest *results) {
  (void)strategy, (void)where;
  LS_RETURN_IF_ERROR(ls_check_reduce_op(op));
  for (size_t i = 0; i < count; ++i)
    results[i] = ls_nest_retain(values[i]);
  return ls_ok();
}

static ls_status broadcast_to(ls_strategy *strategy, ls_nest value,
                              ls_destinations where, ls_nest *out_value) {
  if (!ls_destinations_is_none(where))
    return ls_unimplemented("broadcast_to destinations on %s", strategy->label);
  *out_value = ls_nest_retain(value);
  return ls_ok();
}

static ls_status default_gather(ls_strategy *strategy, ls_nest value, int axis,
                                ls_nest *out_value) {
  (void)strategy, (void)axis;
  return ls_take_nest(ls_nest_retain(value), out_value);
}

static ls_status fetch(ls_strategy *strategy, ls_nest value, const char *device,
                       ls_callback fn, void *user, ls_nest *out_value) {
  (void)value, (void)device, (void)fn, (void)user, (void)out_value;
  return ls_failed_precondition("%s has no fetch", strategy->label);
}

// ---- Variables and data ----------------------------------------------------
static ls_status create_variable(ls_strategy *strategy, const ls_creator *next,
                                 const ls_variable_options *options,
                                 ls_variable **out_variable) {
  (void)strategy;
  return ls_creator_create(next, options, out_variable);
}

static ls_status default_distribute(ls_strategy *strategy,
                                    const ls_input_request *request,
                                    ls_nest *out_value) {
  (void)strategy;
  const ls_input_context whole = {.num_pipelines = 1, .num_replicas = 1};
  return ls_take_nest(request->function != NULL
                          ? request->function(whole, request->user)
                          : ls_nest_retain(request->dataset),
                      out_value);
}

// Returns the device of the variable whose name sorts first.
static ls_status non_slot_devices(const ls_strategy *strategy,
                                  ls_variable *const *variables,
                                  size_t num_variables, const char **devices,
                                  size_t capacity, size_t *out_count) {
  (void)strategy;
  const ls_variable *first = NULL;
  for (size_t i = 0; i < num_variables; ++i)
    if (first == NULL || strcmp(variables[i]->name, first->name) < 0)
      first = variables[i];
  *out_count = first == NULL ? 0 : 1;
  if (first != NULL && capacity > 0) devices[0] = ls_variable_device(first);
  return ls_ok();
}

const ls_strategy_class ls_default_strategy_class = {
    .name = "the default strategy",
    .size = sizeof(ls_strategy),
    .is_default = true,
    .run = default_run,
    .reduce = default_reduce,
    .reduce_to = reduce_to,
    .batch_reduce_to = batch_reduce_to,
    .broadcast_to = broadcast_to,
    .gather = default_gather,
    .fetch = fetch,
    .update = update,
    .update_non_slot = update_non_slot,
    .map = map,
    .create_variable = create_variable,
    .distribute = default_distribute,
    .non_slot_devices = non_slot_devices,
};

// SPDX-License-Identifier: Apache-2.0
// Steps on an iterator: one replicated computation on the next element, run
// once or in a loop on the host.
#include "tpu/steps/steps.h"
#include "base/memory/list.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "lockstep/strategy_extended.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"

// ---- State on the builder's stack ------------------------------------------
// Steps being built; the builder keeps them on its C stack.
struct ls_tpu_steps {
  struct ls_tpu_steps *outer;
  pthread_t thread;
  ls_graph *graph;
};

ls_steps_place ls_strategy_steps_place(const ls_strategy *strategy) {
  ls_steps_place place = {0};
  ls_tpu_strategy *self =
      strategy != NULL ? ls_tpu_strategy_of(strategy) : NULL;
  if (self == NULL) return place;
  ls_mutex_lock(&self->base.lock);
  const struct ls_tpu_steps *entry = self->steps;
  while (entry != NULL && !pthread_equal(entry->thread, pthread_self()))
    entry = entry->outer;
  const bool is_here = entry != NULL;
  if (is_here) place.graph = entry->graph;
  ls_mutex_unlock(&self->base.lock);
  const ls_tpu_context *context = ls_tpu_context_current();
  if (is_here && context != NULL) place.computation = context->name;
  return place;
}

// ---- Shared by all strategies ----------------------------------------------
static ls_status take_step(ls_step *step, void *user) {
  ls_steps_build *build = user;
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(build->kind->build_step(build, &made));
  return ls_step_take(step, made);
}

static ls_status build_loop(ls_steps_build *build, ls_nest *out_made) {
  const ls_opt iterations = build->options->iterations;
  const ls_nest initial = build->options->initial;
  const size_t count =
      initial.kind == LS_KIND_NONE ? 0 : ls_nest_num_leaves(initial);
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_nest, leaves, count);
  LS_OWN(ls_nest, inputs) = ls_none();
  ls_nest_flatten(initial, leaves, count);
  if (count > 0)
    LS_RETURN_IF_ERROR(
        build->kind->list_initial(build, leaves, count, &inputs));
  return ls_step_loop_build_nest(
      &(ls_step_loop){.step = take_step,
                      .times = iterations.set ? iterations.value : 1,
                      .user = build},
      inputs, out_made);
}

// Builds one step or, if `is_loop`, a loop of options->steps steps.
static ls_status steps_build_all(ls_steps_build *build, bool is_loop) {
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(is_loop ? build_loop(build, &made)
                             : build->kind->build_step(build, &made));
  const size_t count = ls_nest_num_leaves(made);
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_op, ops, count);
  ls_nest_flatten(made, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ops[i] = leaves[i].kind == LS_KIND_OP ? leaves[i].as.op
                                          : ls_tensor_op(leaves[i].as.tensor);
  build->context->run_op = ls_group(ops, count, "group_deps");
  return build->kind->give(build, leaves, count);
}

// ---- The step of a TPU strategy --------------------------------------------
// Finds the op in a step's result for which the outputs wait.
static ls_status steps_op_of(ls_nest made, ls_op *out_op) {
  const bool is_op = made.kind == LS_KIND_OP;
  if (!is_op && made.kind != LS_KIND_TENSOR)
    return ls_invalid_argument(
        "a step that has set outputs must return an op or a tensor, after "
        "which they are read; it has returned %s",
        LS_NEST_TEXT(made));
  *out_op = is_op ? made.as.op : ls_tensor_op(made.as.tensor);
  return ls_ok();
}

// Lists identities of the outputs that wait for the op.
static ls_status list_outputs(const ls_steps_build *build, ls_op op,
                              ls_nest *out_list) {
  const ls_nest outputs = build->context->outputs;
  const size_t count = ls_nest_num_leaves(outputs);
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_nest, leaves, count);
  LS_OWN(ls_nest_builder, list) = {0};
  ls_nest_flatten(outputs, leaves, count);
  LS_CONTROL_SCOPE(&op, 1);
  for (size_t i = 0; i < count; ++i) {
    ls_tensor tensor;
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_distributed_as_tensor(leaves[i], &tensor),
                           "leaf %zu of a step's outputs", i));
    ls_nest_builder_append(&list, ls_leaf(ls_identity(tensor)));
  }
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status call_function(const ls_steps_build *build, ls_nest args,
                               ls_nest *out_made) {
  const ls_steps *options = build->options;
  ls_op op = {0};
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      options->fn(build->context, ls_nest_item(args, 0), options->user),
      &made));
  if (ls_nest_num_leaves(build->context->outputs) > 0) {
    LS_RETURN_IF_ERROR(steps_op_of(made, &op));
    return list_outputs(build, op, out_made);
  }
  if (made.kind != LS_KIND_OP && made.kind != LS_KIND_NONE)
    return ls_invalid_argument(
        "a step without outputs must return an op or none, it has returned %s: "
        "set outputs by ls_step_context_set_output",
        LS_NEST_TEXT(made));
  return ls_hand_over(&made, out_made);
}

// Calls the user's step inside the computation, once for all replicas.
static ls_nest call_step(ls_nest args, void *user) {
  ls_nest made = ls_none();
  return ls_made_nest(call_function(user, args, &made), &made);
}

// Lists each replica's argument.
static ls_status steps_list_inputs(const ls_steps_build *build, ls_nest element,
                                   ls_nest *out_inputs) {
  LS_OWN(ls_nest_builder, each) = {0};
  for (size_t r = 0; r < build->num_replicas; ++r) {
    ls_nest part = ls_none();
    const ls_status status = ls_select_replica((int64_t)r, element, &part);
    ls_nest_builder_append(&each, ls_status_is_ok(status) ? LS_LIST(part)
                                                          : ls_fail(status));
  }
  return ls_take_nest(ls_nest_builder_finish(&each, LS_KIND_LIST), out_inputs);
}

static ls_status tpu_build_step(ls_steps_build *build, ls_nest *out_list) {
  const ls_tpu_strategy *strategy = ls_tpu_strategy_of(build->strategy);
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_distributed_iterator_get_next(build->options->iterator), &element));
  LS_RETURN_IF_ERROR(steps_list_inputs(build, element, &inputs));
  LS_RETURN_IF_ERROR(
      ls_replicate(call_step, build, inputs,
                   &(ls_replicate_options){
                       .assignment = strategy->cores.assignment != NULL
                                         ? strategy->cores.assignment
                                         : strategy->cores.all_cores,
                       .soft_placement = LS_FLAG_ON,
                       .xla.spmd = strategy->spmd ? LS_FLAG_ON : LS_FLAG_OFF},
                   &outputs));
  // The outputs are ordered replica by replica.
  const size_t count = ls_nest_num_leaves(outputs);
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_nest, leaves, count);
  ls_nest_flatten(outputs, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(leaves[i]);
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, leaves, count), out_list);
}

// Lists the initial values, repeated for each replica.
static ls_status tpu_list_initial(const ls_steps_build *build,
                                  const ls_nest *leaves, size_t count,
                                  ls_nest *out_list) {
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < count * build->num_replicas; ++i)
    ls_nest_builder_append(&list, ls_nest_retain(leaves[i % count]));
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status tpu_give(ls_steps_build *build, ls_nest *leaves,
                          size_t count) {
  size_t num_tensors = 0;
  for (size_t i = 0; i < count; ++i)
    if (leaves[i].kind != LS_KIND_OP) leaves[num_tensors++] = leaves[i];
  return ls_step_context_give(build->context, leaves, num_tensors,
                              build->num_replicas);
}

static const ls_steps_kind tpu_kind = {tpu_build_step, tpu_list_initial,
                                       tpu_give};

static ls_status tpu_build(ls_steps_build *build, ls_tpu_strategy *strategy) {
  ls_device_name host;
  struct ls_tpu_steps entry;
  LS_RETURN_IF_ERROR(ls_tpu_strategy_host(&strategy->base, &host));
  LS_DEVICE_SCOPE(host.text);  // If refused, the device refuses the first op.
  const ls_opt iterations = build->options->iterations;
  if (iterations.set && iterations.value != 1 && strategy->steps_per_run <= 1)
    ls_tpu_log(strategy->base.runtime, LS_LOG_WARNING,
               "steps on an iterator of %s: a run makes one step and not %lld, "
               "as the strategy's steps_per_run is 1; set it by "
               "ls_tpu_strategy_v1_create",
               strategy->base.label, (long long)iterations.value);
  entry.thread = pthread_self();
  entry.graph = ls_graph_resolve(ls_graph_current());
  ls_mutex_lock(&strategy->base.lock);
  entry.outer = strategy->steps;
  strategy->steps = &entry;
  ls_mutex_unlock(&strategy->base.lock);
  const ls_status status = steps_build_all(build, strategy->steps_per_run > 1);
  ls_mutex_lock(&strategy->base.lock);
  LS_UNLINK(&strategy->steps, &entry, outer);
  ls_mutex_unlock(&strategy->base.lock);
  return status;
}

// ---- Building --------------------------------------------------------------
static ls_status steps_build(ls_steps_build *build) {
  ls_tpu_strategy *tpu = ls_tpu_strategy_of(build->strategy);
  if (tpu == NULL && ls_strategy_devices(build->strategy) == NULL)
    return ls_unimplemented("steps on an iterator of %s: TPU strategies and "
                            "mirrored ones alone have them",
                            build->strategy->label);
  if (ls_graph_is_eager(ls_graph_current()))
    return ls_failed_precondition(
        "steps on an iterator are part of a graph that is built, or of a "
        "traced function, not of eager");
  LS_RETURN_IF_ERROR(ls_step_context_make(&build->context));
  build->kind = tpu != NULL ? &tpu_kind : &ls_steps_across;
  if (tpu != NULL) return tpu_build(build, tpu);
  const ls_opt iterations = build->options->iterations;
  return steps_build_all(build, iterations.set && iterations.value != 1);
}

ls_status ls_strategy_run_steps(ls_strategy *strategy, const ls_steps *options,
                                ls_step_context **out) {
  LS_REQUIRE_OUT(out, strategy, options, options->fn);
  LS_REQUIRE(options->iterator);
  ls_steps_build build = {.strategy = strategy,
                          .options = options,
                          .allocator = ls_current_allocator(),
                          .num_replicas = (size_t)strategy->num_replicas};
  const ls_status status = LS_CROSS_REPLICA(strategy, "ls_strategy_run_steps",
                                            NULL, steps_build(&build));
  ls_step_parts_drop(&build.parts);
  if (ls_status_is_ok(status))
    *out = build.context;
  else
    ls_step_context_release(build.context);
  return status;
}

// ---- A run on the next element ---------------------------------------------
static ls_status run_next(ls_strategy *strategy, ls_callable callable,
                          ls_distributed_iterator *iterator, ls_nest *results) {
  if (iterator == NULL)
    return ls_strategy_run(strategy, callable, ls_none(), results);
  LS_OWN(ls_nest, args) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      LS_TUPLE(ls_distributed_iterator_get_next(iterator)), &args));
  return ls_strategy_run(strategy, callable, args, results);
}

ls_status ls_strategy_run_next(ls_strategy *strategy, ls_callable callable,
                               ls_distributed_iterator *iterator,
                               ls_nest *results) {
  LS_REQUIRE(strategy, results);
  return LS_CROSS_REPLICA(strategy, "ls_strategy_run_next", NULL,
                          run_next(strategy, callable, iterator, results));
}

// ---- Steps that call the replicas ------------------------------------------
// Steps on an iterator for strategies whose replicas the step calls itself. The
// step is built across replicas, on an element with a value for each.

// ---- The step --------------------------------------------------------------
static size_t count_ops(ls_nest made) {
  const size_t count = ls_distributed_count(made);
  return count == 0 ? made.kind != LS_KIND_NONE : count;
}

// Lists the ops that a step returned: one op, or one per replica.
static ls_status list_ops(const ls_steps_build *build, ls_nest made,
                          ls_op *ops) {
  const size_t count = count_ops(made);
  for (size_t i = 0; i < count; ++i) {
    const ls_nest one = ls_distributed_component(made, i);
    if (one.kind != LS_KIND_OP && one.kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "a step of %s must return an op, a tensor, those of its replicas, or "
          "none; it has returned %s",
          build->strategy->label, LS_NEST_TEXT(made));
    ops[i] = one.kind == LS_KIND_OP ? one.as.op : ls_tensor_op(one.as.tensor);
  }
  return ls_ok();
}

// Lists the outputs' values, which wait for the ops, and then one op that waits
// for all of them.
static ls_status list_values(ls_steps_build *build, const ls_op *ops,
                             size_t num_ops, ls_nest *out_list) {
  ls_step_parts *parts = &build->parts;
  LS_OWN(ls_nest_builder, list) = {0};
  LS_RETURN_IF_ERROR(ls_step_parts_take(parts, build->context));
  {
    LS_CONTROL_SCOPE(ops, num_ops);
    for (size_t i = 0; i < parts->num_values; ++i)
      ls_nest_builder_append(&list, ls_leaf(ls_identity(parts->values[i])));
  }
  ls_nest_builder_append(&list, ls_nest_op(ls_group(ops, num_ops, "step")));
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status across_build_step(ls_steps_build *build, ls_nest *out_list) {
  const ls_steps *options = build->options;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_distributed_iterator_get_next(options->iterator), &element));
  LS_RETURN_IF_ERROR(
      ls_take_nest(options->fn(build->context, element, options->user), &made));
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_op, ops, count_ops(made) + 1);
  LS_RETURN_IF_ERROR(list_ops(build, made, ops));
  return list_values(build, ops, count_ops(made), out_list);
}

// Lists the leaves' values; a distributed leaf contributes all its components.
static ls_status across_list_initial(const ls_steps_build *build,
                                     const ls_nest *leaves, size_t count,
                                     ls_nest *out_list) {
  LS_OWN(ls_nest_builder, list) = {0};
  (void)build;
  for (size_t i = 0; i < count; ++i) {
    const size_t parts = ls_distributed_count(leaves[i]);
    for (size_t r = 0; r < (parts == 0 ? 1 : parts); ++r)
      ls_nest_builder_append(
          &list, ls_nest_retain(ls_distributed_component(leaves[i], r)));
  }
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status across_give(ls_steps_build *build, ls_nest *leaves,
                             size_t count) {
  (void)count;
  return ls_step_parts_give(&build->parts, leaves, build->context);
}

const ls_steps_kind ls_steps_across = {across_build_step, across_list_initial,
                                       across_give};

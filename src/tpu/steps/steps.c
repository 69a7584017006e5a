// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator: one replicated computation on the next element, once or
// in a loop on the host.
#include "tpu/steps/steps.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/training_loop.h"
#include "tpu/replicate/context.h"
#include "tpu/steps/step_context.h"
#include "tpu/strategy/strategy.h"

typedef struct steps {
  ls_tpu_strategy *strategy;
  const ls_steps *options;
  ls_step_context *context;
  ls_allocator *allocator;
  size_t replicas;
  bool is_loop;
} steps;

// ---- Where they are --------------------------------------------------------
// On the C stack of who builds.
struct ls_tpu_steps {
  struct ls_tpu_steps *outer;
  pthread_t thread;
  ls_graph *graph;
};

static void steps_enter(ls_tpu_strategy *strategy, struct ls_tpu_steps *entry) {
  entry->thread = pthread_self();
  entry->graph = ls_graph_resolve(ls_graph_current());
  ls_mutex_lock(&strategy->base.lock);
  entry->outer = strategy->steps;
  strategy->steps = entry;
  ls_mutex_unlock(&strategy->base.lock);
}

static void steps_leave(ls_tpu_strategy *strategy, struct ls_tpu_steps *entry) {
  ls_mutex_lock(&strategy->base.lock);
  struct ls_tpu_steps **at = &strategy->steps;
  while (*at != entry)
    at = &(*at)->outer;
  *at = entry->outer;
  ls_mutex_unlock(&strategy->base.lock);
}

ls_steps_place ls_strategy_steps_place(const ls_strategy *strategy) {
  ls_steps_place place = {0};
  ls_tpu_strategy *self =
      strategy != NULL ? ls_tpu_strategy_of(strategy) : NULL;
  if (self == NULL) return place;
  ls_mutex_lock(&self->base.lock);
  const struct ls_tpu_steps *it = self->steps;
  while (it != NULL && !pthread_equal(it->thread, pthread_self()))
    it = it->outer;
  if (it != NULL) place.graph = it->graph;
  ls_mutex_unlock(&self->base.lock);
  const ls_tpu_context *context = ls_tpu_context_current();
  if (it != NULL && context != NULL) place.computation = context->name;
  return it != NULL ? place : (ls_steps_place){0};
}

// ---- The step --------------------------------------------------------------
// What the outputs wait for.
static ls_status steps_op_of(ls_nest made, ls_op *out_op) {
  char text[160];
  const bool is_op = made.kind == LS_KIND_OP;
  if (!is_op && made.kind != LS_KIND_TENSOR)
    return ls_invalid_argument("a step that has set outputs returns an op or a "
                               "tensor, behind which they are taken; it has "
                               "returned %s",
                               ls_nest_print(made, text, sizeof(text)));
  *out_op = is_op ? made.as.op : ls_tensor_op(made.as.tensor);
  return ls_ok();
}

static ls_status steps_as_tensor(ls_nest leaf, ls_tensor *out_tensor) {
  return leaf.kind == LS_KIND_TENSOR
             ? (*out_tensor = leaf.as.tensor, ls_ok())
             : ls_distributed_as_tensor(leaf, out_tensor);
}

// Identities of the outputs, behind the op.
static ls_nest list_outputs(const steps *s, ls_op op) {
  const ls_nest outputs = s->context->outputs;
  const size_t count = ls_nest_num_leaves(outputs);
  LS_OWN_ARRAY(s->allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_nest_flatten(outputs, leaves, count);
  ls_status status = ls_ok();
  {
    LS_CONTROL_SCOPE(&op, 1);
    for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
      ls_tensor tensor;
      status = ls_status_annotate(steps_as_tensor(leaves[i], &tensor),
                                  "leaf %zu of a step's outputs", i);
      if (ls_status_is_ok(status)) leaves[i] = ls_leaf(ls_identity(tensor));
    }
  }
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, leaves, count)
                                 : ls_fail(status);
}

// In the computation, once for all replicas.
static ls_nest call_step(ls_nest args, void *user) {
  const steps *s = user;
  char text[160];
  ls_op op = {0};
  ls_nest made =
      s->options->fn(s->context, ls_nest_item(args, 0), s->options->user);
  if (ls_nest_is_failed(made)) return made;
  const bool has_outputs = ls_nest_num_leaves(s->context->outputs) > 0;
  if (!has_outputs && (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE))
    return made;
  ls_status status =
      has_outputs
          ? steps_op_of(made, &op)
          : ls_invalid_argument("a step without outputs returns an op or none, "
                                "it has returned %s: outputs are set "
                                "(ls_step_context_set_output)",
                                ls_nest_print(made, text, sizeof(text)));
  ls_nest_release(made);
  return ls_status_is_ok(status) ? list_outputs(s, op) : ls_fail(status);
}

// ---- On all replicas -------------------------------------------------------
// A list with the one argument of each replica.
static ls_status steps_list_inputs(const steps *s, ls_nest element,
                                   ls_nest *out_inputs) {
  LS_OWN(ls_nest_builder, each) = {0};
  for (size_t r = 0; r < s->replicas; ++r) {
    ls_nest part = ls_none();
    const ls_status status = ls_select_replica((int64_t)r, element, &part);
    ls_nest_builder_append(&each, ls_status_is_ok(status) ? LS_LIST(part)
                                                          : ls_fail(status));
  }
  return ls_take_nest(ls_nest_builder_finish(&each, LS_KIND_LIST), out_inputs);
}

// Replica by replica what each has, in one list.
static ls_nest flatten(const steps *s, ls_nest outputs) {
  const size_t count = ls_nest_num_leaves(outputs);
  LS_OWN_ARRAY(s->allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_nest_flatten(outputs, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(leaves[i]);
  return ls_nest_sequence(LS_KIND_LIST, leaves, count);
}

static ls_device_assignment *assignment_of(const ls_tpu_strategy *self) {
  return self->cores.assignment != NULL ? self->cores.assignment
                                        : self->cores.all_cores;
}

// The body of the loop, and all there is without one.
static ls_nest steps_build_step(ls_nest values, void *user) {
  const steps *s = user;
  (void)values;  // The outputs of the step before: nobody sees them.
  LS_OWN(ls_nest, element) =
      ls_distributed_iterator_get_next(s->options->iterator);
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_status status = ls_nest_status(element);
  if (ls_status_is_ok(status)) status = steps_list_inputs(s, element, &inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate(
        call_step, (void *)(uintptr_t)s, inputs,
        &(ls_replicate_options){.assignment = assignment_of(s->strategy),
                                .soft_placement = LS_FLAG_ON,
                                .xla.spmd = s->strategy->spmd ? LS_FLAG_ON
                                                              : LS_FLAG_OFF},
        &outputs);
  return ls_status_is_ok(status) ? flatten(s, outputs) : ls_fail(status);
}

// The initial values, as often as there are replicas.
static ls_status repeat_initial(const steps *s, ls_nest *out_values) {
  const ls_nest initial = s->options->initial;
  const size_t each =
      initial.kind == LS_KIND_NONE ? 0 : ls_nest_num_leaves(initial);
  if (each == 0) return ls_ok();
  const size_t count = each * s->replicas;
  LS_OWN_ARRAY_OR_RETURN(s->allocator, ls_nest, items, count);
  ls_nest_flatten(initial, items, each);
  for (size_t i = each; i < count; ++i)
    items[i] = items[i - each];
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(items[i]);
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, items, count), out_values);
}

static ls_status build_loop(const steps *s, ls_nest *out_made) {
  const ls_opt iterations = s->options->iterations;
  const ls_training_loop loop = {.body = steps_build_step,
                                 .user = (void *)(uintptr_t)s};
  LS_OWN(ls_nest, initial) = ls_none();
  LS_RETURN_IF_ERROR(repeat_initial(s, &initial));
  return ls_training_repeat(iterations.set ? iterations.value : 1, &loop,
                            initial, out_made);
}

// ---- What comes of it ------------------------------------------------------
static ls_status group(const steps *s, ls_nest made) {
  const size_t count = ls_nest_num_leaves(made);
  LS_OWN_ARRAY_OR_RETURN(s->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY_OR_RETURN(s->allocator, ls_op, ops, count);
  size_t tensors = 0;
  ls_nest_flatten(made, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    const bool is_op = leaves[i].kind == LS_KIND_OP;
    ops[i] = is_op ? leaves[i].as.op : ls_tensor_op(leaves[i].as.tensor);
    if (!is_op) leaves[tensors++] = leaves[i];
  }
  s->context->run_op = ls_group(ops, count, "group_deps");
  return ls_step_context_give(s->context, leaves, tensors, s->replicas);
}

static ls_status steps_build(const steps *s) {
  ls_device_name host;
  struct ls_tpu_steps entry;
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_tpu_strategy_host(&s->strategy->base, &host));
  LS_DEVICE_SCOPE(host.text);
  LS_RETURN_IF_ERROR(ls_scope_status());
  steps_enter(s->strategy, &entry);
  ls_status status =
      s->is_loop
          ? build_loop(s, &made)
          : ls_take_nest(steps_build_step(ls_none(), (void *)(uintptr_t)s),
                         &made);
  steps_leave(s->strategy, &entry);
  if (ls_status_is_ok(status)) status = group(s, made);
  return status;
}

static ls_status steps_check(ls_strategy *strategy, steps *s) {
  s->strategy = ls_tpu_strategy_of(strategy);
  if (s->strategy == NULL && ls_strategy_devices(strategy) == NULL)
    return ls_unimplemented("steps on an iterator of %s: TPU strategies and "
                            "mirrored ones alone have them",
                            strategy->label);
  if (ls_graph_is_eager(ls_graph_current()))
    return ls_failed_precondition("steps on an iterator are part of a graph "
                                  "that is built, or of a traced "
                                  "function, not of eager");
  return ls_ok();
}

ls_status ls_strategy_run_steps(ls_strategy *strategy, const ls_steps *options,
                                ls_step_context **out) {
  LS_REQUIRE_OUT(out);
  LS_REQUIRE(strategy);
  LS_REQUIRE(options);
  LS_REQUIRE(options->fn);
  LS_REQUIRE(options->iterator);
  ls_crossing crossing;
  steps s = {.options = options,
             .allocator = ls_current_allocator(),
             .replicas = (size_t)strategy->num_replicas};
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "ls_strategy_run_steps"));
  ls_status status = steps_check(strategy, &s);
  if (ls_status_is_ok(status)) status = ls_step_context_make(&s.context);
  if (ls_status_is_ok(status) && s.strategy == NULL) {
    status = ls_steps_build_across(strategy, options, s.context);
  } else if (ls_status_is_ok(status)) {
    s.is_loop = s.strategy->steps_per_run > 1;
    status = steps_build(&s);
  }
  status = ls_cross_replica_end(&crossing, status, NULL);
  if (ls_status_is_ok(status))
    *out = s.context;
  else
    ls_step_context_release(s.context);
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
  LS_REQUIRE(strategy);
  LS_REQUIRE(results);
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "ls_strategy_run_next"));
  const ls_status status = run_next(strategy, callable, iterator, results);
  return ls_cross_replica_end(&crossing, status, NULL);
}

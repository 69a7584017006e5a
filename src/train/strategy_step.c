// SPDX-License-Identifier: Apache-2.0
// Steps as objects: a loss and an optimizer on each replica, with their input.
#include "lockstep/strategy_step.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "base/values/nest_internal.h"
#include "graph/graph.h"
#include "lockstep/object.h"
#include "lockstep/steps.h"
#include "tpu/strategy/strategy.h"

LS_OWNED_POINTER(ls_strategy_step, ls_strategy_step_release)
LS_OWNED_POINTER(ls_step_monitor, ls_step_monitor_destroy)

struct ls_strategy_step {
  ls_object object;
  ls_allocator *allocator;
  ls_strategy *strategy;
  ls_distributed_iterator *input;  // NULL: no input.
  bool in_graph;                   // Input made in and started by a graph.
  ls_single_loss_step_options
      options;          // Options of a training step; empty without a loss.
  ls_function *traced;  // A replica's part as a function, in eager mode.
};

// ---- Object ----------------------------------------------------------------
static void strategy_step_destroy(ls_object *object) {
  ls_strategy_step *self = (ls_strategy_step *)object;
  ls_function_release(self->traced);
  ls_optimizer_release(self->options.optimizer);
  ls_distributed_iterator_release(self->input);
  ls_strategy_release(self->strategy);
  ls_release(self->allocator, self);
}

static const ls_object_type type = {.name = "step",
                                    .destroy = strategy_step_destroy};

LS_COUNTED(ls_strategy_step)

ls_strategy *ls_strategy_step_strategy(const ls_strategy_step *step) {
  return step->strategy;
}

ls_status ls_strategy_step_create(ls_strategy *strategy,
                                  ls_strategy_step **out_step) {
  LS_REQUIRE_OUT(out_step, strategy);
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_strategy_step, self);
  ls_object_init(&self->object, &type);
  self->allocator = allocator;
  self->strategy = ls_strategy_retain(strategy);
  self->in_graph = !ls_graph_is_eager(ls_graph_current());
  *out_step = self;
  return ls_ok();
}

// ---- Input -----------------------------------------------------------------
static ls_status open_input(ls_strategy_step *self, ls_dataset_function dataset,
                            void *user) {
  if (self->in_graph)
    return ls_strategy_make_input_fn_iterator(
        self->strategy, dataset, user, LS_PIPELINE_PER_WORKER, &self->input);
  LS_OWN(ls_nest, data) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_distribute_datasets_from_function(
      self->strategy, dataset, user, &data));
  return ls_distributed_iterator_create(data, NULL, &self->input);
}

ls_status ls_input_step_create(ls_strategy *strategy,
                               ls_dataset_function dataset, void *user,
                               ls_strategy_step **out_step) {
  LS_REQUIRE_OUT(out_step, dataset);
  LS_OWN(ls_strategy_step, self) = NULL;
  LS_RETURN_IF_ERROR(ls_strategy_step_create(strategy, &self));
  LS_RETURN_IF_ERROR(open_input(self, dataset, user));
  return ls_hand_over(&self, out_step);
}

ls_status ls_strategy_step_initialize(ls_strategy_step *step, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, step);
  return step->input != NULL && step->in_graph
             ? ls_distributed_iterator_initializer(step->input, out_op)
             : ls_ok();
}

ls_status ls_strategy_step_next(ls_strategy_step *step, ls_nest *out_element) {
  LS_REQUIRE_OUT(out_element, step);
  if (step->input == NULL)
    return ls_unimplemented(
        "the input of a step that has none: create it by ls_input_step_create "
        "or ls_single_loss_step_create");
  return step->in_graph
             ? ls_take_nest(ls_distributed_iterator_get_next(step->input),
                            out_element)
             : ls_distributed_iterator_next(step->input, out_element);
}

// ---- Training --------------------------------------------------------------
static ls_nest descend(ls_nest args, void *user) {
  const ls_single_loss_step_options *options = user;
  const ls_tensor loss =
      options->loss(ls_nest_item(args, 0), options->loss_user);
  return ls_nest_op(ls_optimizer_minimize(options->optimizer, loss));
}

// Used in a function, where updates run by themselves.
static ls_nest descend_traced(ls_nest args, void *user) {
  ls_nest_release(descend(args, user));
  return ls_none();
}

// Builds an optimizer step across replicas.
static ls_nest strategy_step_build_step(ls_step_context *context,
                                        ls_nest inputs, void *user) {
  ls_strategy_step *self = user;
  ls_nest made = ls_none();
  (void)context;
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(inputs));
  return ls_made_nest(ls_strategy_run(self->strategy,
                                      ls_plain(descend, &self->options), args,
                                      &made),
                      &made);
}

static ls_status
strategy_step_check(const ls_single_loss_step_options *options) {
  LS_REQUIRE(options, options->strategy, options->loss);
  LS_REQUIRE(options->optimizer);
  const ls_opt iterations = options->iterations_per_step;
  if (iterations.set && iterations.value < 1)
    return ls_invalid_argument("iterations_per_step must be positive, got %lld",
                               (long long)iterations.value);
  return ls_tpu_strategy_of(options->strategy) == NULL
             ? ls_ok()
             : ls_unimplemented("a single-loss step of a TPU strategy: "
                                "ls_strategy_run_steps has steps of such");
}

ls_status ls_single_loss_step_create(const ls_single_loss_step_options *options,
                                     ls_strategy_step **out_step) {
  LS_REQUIRE_OUT(out_step);
  LS_RETURN_IF_ERROR(strategy_step_check(options));
  LS_OWN(ls_strategy_step, self) = NULL;
  LS_RETURN_IF_ERROR(ls_input_step_create(options->strategy, options->dataset,
                                          options->dataset_user, &self));
  self->options = *options;
  self->options.strategy = NULL;
  self->options.optimizer = ls_optimizer_retain(options->optimizer);
  if (!self->in_graph)
    LS_RETURN_IF_ERROR(ls_function_create(
        &(ls_function_options){
            .call = descend_traced, .user = &self->options, .name = "step"},
        &self->traced));
  return ls_hand_over(&self, out_step);
}

// ---- Running ---------------------------------------------------------------
static int64_t iterations_of(const ls_strategy_step *step) {
  const ls_opt iterations = step->options.iterations_per_step;
  return iterations.set ? iterations.value : 1;
}

static ls_status strategy_step_run_once(ls_strategy_step *step) {
  ls_nest element = ls_none();
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, nothing) = ls_none();
  LS_RETURN_IF_ERROR(ls_distributed_iterator_next(step->input, &element));
  LS_RETURN_IF_ERROR(ls_take_nest(LS_TUPLE(element), &args));
  return ls_strategy_run(step->strategy, ls_traced(step->traced), args,
                         &nothing);
}

static ls_status strategy_step_build(ls_strategy_step *step, ls_op *out_op) {
  ls_step_context *context = NULL;
  const ls_steps steps = {.fn = strategy_step_build_step,
                          .user = step,
                          .iterator = step->input,
                          .iterations = LS_SOME(iterations_of(step))};
  LS_RETURN_IF_ERROR(ls_strategy_run_steps(step->strategy, &steps, &context));
  *out_op = ls_step_context_run_op(context);
  ls_step_context_release(context);
  return ls_ok();
}

ls_status ls_strategy_step_run(ls_strategy_step *step, ls_op *out_op) {
  LS_CLEAR_OUT(out_op);
  LS_REQUIRE(step);
  if (step->options.loss == NULL)
    return ls_unimplemented("a step that does nothing cannot be run: make one "
                            "by ls_single_loss_step_create");
  if (step->in_graph) {
    LS_REQUIRE(out_op);
    return strategy_step_build(step, out_op);
  }
  for (int64_t i = 0; i < iterations_of(step); ++i)
    LS_RETURN_IF_ERROR(strategy_step_run_once(step));
  return ls_ok();
}

// ---- Monitors --------------------------------------------------------------
struct ls_step_monitor {
  ls_allocator *allocator;
  ls_strategy_step *step;
  ls_session *session;  // Lent; NULL in eager mode.
  ls_op op;
};

static ls_status strategy_step_run_op(ls_session *session, ls_op op) {
  LS_OWN(ls_nest, nothing) = ls_none();
  if (ls_op_is_failed(op)) return ls_ok();
  return ls_session_run(session, ls_nest_op(op), NULL, 0, &nothing);
}

static ls_status strategy_step_prepare(ls_step_monitor *self) {
  ls_op start = {0};
  LS_RETURN_IF_ERROR(ls_strategy_step_initialize(self->step, &start));
  LS_RETURN_IF_ERROR(strategy_step_run_op(self->session, start));
  LS_RETURN_IF_ERROR(ls_strategy_step_run(self->step, &self->op));
  const ls_op first = ls_global_initializer();
  return ls_op_is_failed(first) ? ls_graph_take_error(ls_graph_current())
                                : strategy_step_run_op(self->session, first);
}

ls_status ls_step_monitor_create(ls_strategy_step *step, ls_session *session,
                                 ls_step_monitor **out) {
  LS_REQUIRE_OUT(out, step);
  if (!step->in_graph && session != NULL)
    return ls_invalid_argument("a monitor in eager: you should not provide a "
                               "session");
  if (step->in_graph && session == NULL)
    return ls_invalid_argument("a monitor of a step in a graph: you should "
                               "provide a session");
  LS_OWN_NEW_OR_RETURN(step->allocator, ls_step_monitor, self);
  *self = (ls_step_monitor){.allocator = step->allocator,
                            .step = ls_strategy_step_retain(step),
                            .session = session};
  if (session != NULL) LS_RETURN_IF_ERROR(strategy_step_prepare(self));
  return ls_hand_over(&self, out);
}

void ls_step_monitor_destroy(ls_step_monitor *monitor) {
  if (monitor == NULL) return;
  ls_strategy_step_release(monitor->step);
  ls_release(monitor->allocator, monitor);
}

ls_status ls_step_monitor_run_steps(ls_step_monitor *monitor, ls_opt num_steps,
                                    int64_t *out_done) {
  LS_CLEAR_OUT(out_done);
  LS_REQUIRE(monitor);
  int64_t done = 0;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) &&
         (!num_steps.set || done < num_steps.value)) {
    status = monitor->session != NULL
                 ? strategy_step_run_op(monitor->session, monitor->op)
                 : ls_strategy_step_run(monitor->step, NULL);
    done += ls_status_is_ok(status);
  }
  if (out_done != NULL) *out_done = done;
  return ls_status_unless(status, LS_OUT_OF_RANGE);
}

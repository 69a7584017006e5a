// SPDX-License-Identifier: Apache-2.0
// Jobs on CPUs: one model, or one model in each replica of a strategy. With
// replicas, the first replica's model provides hooks and scaffold.
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/calls/job.h"
#include "estimator/spec/calls.h"
#include "graph/graph.h"
#include "lockstep/distributed.h"
#include "lockstep/replica.h"
#include "lockstep/replicate.h"
#include "lockstep/strategy_extended.h"
#include "nn/shares.h"

// ---- In a replica ----------------------------------------------------------
// Returns the loss of the whole batch: the replicas' mean weighted by examples,
// or their sum if the optimizer sums gradients.
static ls_tensor batch_loss(ls_tensor loss) {
  const bool sums = ls_graph_sums_gradients(ls_graph_current());
  const ls_shares shares = ls_shares_find(!sums);
  return sums ? ls_shares_sum(&shares, loss) : ls_shares_mean(&shares, loss);
}

// Returns the loss that a step adds to an evaluation: multiplied by the number
// of examples if that differs between steps.
static ls_tensor eval_loss(ls_tensor loss, ls_nest examples) {
  if (examples.kind == LS_KIND_NONE) return loss;
  const ls_shares shares = {.replicas = ls_num_replicas(),
                            .differ = true,
                            .count = ls_nest_tensor(examples, 0)};
  return ls_shares_given(&shares, true, loss);
}

static ls_nest training_of(const ls_job *job,
                           const ls_estimator_spec_options *spec,
                           ls_nest examples) {
  (void)examples;
  return LS_TUPLE(ls_leaf(job->estimator->replica_0_loss
                              ? spec->loss
                              : batch_loss(spec->loss)),
                  ls_nest_op(spec->train_op));
}

static ls_nest evaluation_of(const ls_job *job,
                             const ls_estimator_spec_options *spec,
                             ls_nest examples) {
  (void)job;
  return LS_TUPLE(ls_leaf(eval_loss(spec->loss, examples)),
                  ls_nest_retain(examples),
                  ls_nest_retain(spec->eval_metrics.tensors),
                  ls_nest_retain(spec->eval_metric_ops));
}

// The result of replicas in a mode, and how the results of all replicas are
// taken.
typedef struct replica_mode {
  ls_nest (*results_of)(const ls_job *job,
                        const ls_estimator_spec_options *spec,
                        ls_nest examples);
  ls_status (*take)(ls_job *job, ls_nest results);
  bool keeps_metrics;  // Metrics are made of the tensors of all replicas.
} replica_mode;
static const replica_mode *mode_of(const ls_job *job);

// A stop ends a training before its first step: many replicas take long to
// build. Ranks do not agree on a stop meanwhile.
static ls_nest strategy_job_call_model(ls_job *job, ls_nest args) {
  ls_estimator_spec *spec = NULL;
  if (job->stops_build && job->ranks.communicator == NULL &&
      ls_job_is_stopped(job))
    return LS_FAIL(LS_CANCELLED, "stopped before the first step");
  LS_RETURN_FAILED_IF_ERROR(ls_call_model(
      &job->calls,
      &(ls_model_inputs){.features = ls_nest_item(args, 0),
                         .labels = ls_nest_item(args, 1),
                         .mask = ls_failed_tensor(),
                         .keeps_metrics = mode_of(job)->keeps_metrics},
      &spec));
  // Takes a replica's spec; the first replica's spec is kept.
  const ls_nest results = mode_of(job)->results_of(
      job, ls_estimator_spec_values(spec), ls_nest_item(args, 2));
  if (job->spec == NULL)
    job->spec = spec;
  else
    ls_estimator_spec_release(spec);
  return results;
}

static ls_nest strategy_job_run_replica(ls_nest args, void *user) {
  const ls_nest examples = ls_nest_item(args, 2);
  if (examples.kind == LS_KIND_NONE) return strategy_job_call_model(user, args);
  LS_EXAMPLES_SCOPE(ls_nest_tensor(examples, 0));
  return strategy_job_call_model(user, args);
}

// ---- Results ---------------------------------------------------------------
static ls_status take_training(ls_job *job, ls_nest results) {
  const ls_nest loss = ls_nest_item(results, 0);
  // Takes the value that all replicas share, or the first replica's value.
  job->loss = ls_nest_tensor(ls_distributed_component(loss, 0), 0);
  return ls_strategy_group(job->strategy, ls_nest_item(results, 1), "train_op",
                           &job->train_op);
}

static ls_nest strategy_job_gather_leaf(ls_nest leaf, void *user) {
  ls_job *job = user;
  ls_nest all = ls_none();
  if (ls_distributed_count(leaf) == 0) return ls_nest_retain(leaf);
  return ls_made_nest(ls_strategy_gather(job->strategy, leaf, 0, &all), &all);
}

// Joins a metric of all replicas: its value from the first replica
// (ls_metric_... return the same value on all), and all updates in one group.
static ls_nest join_metric(ls_job *job, const char *name, ls_nest pair) {
  const ls_nest value = ls_nest_item(pair, 0);
  const ls_nest update = ls_nest_item(pair, 1);
  ls_op all = {0};
  LS_RETURN_FAILED_IF_ERROR(
      ls_strategy_group(job->strategy, update, name, &all));
  return LS_TUPLE(ls_nest_retain(ls_distributed_component(value, 0)),
                  ls_nest_op(all));
}

static ls_status join_metrics(ls_job *job, ls_nest metrics) {
  LS_OWN(ls_nest_builder, joined) = {0};
  for (size_t i = 0; i < ls_nest_count(metrics); ++i) {
    const char *key = ls_nest_key(metrics, i);
    ls_nest_builder_append_named(
        &joined, key, join_metric(job, key, ls_nest_item(metrics, i)));
  }
  return ls_take_nest(ls_nest_builder_finish(&joined, LS_KIND_DICT),
                      &job->metrics);
}

// Takes an evaluation's results. Metrics cover the examples of all replicas, in
// order of replicas.
static ls_status take_evaluation(ls_job *job, ls_nest results) {
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  job->losses = LS_TUPLE(ls_nest_retain(ls_nest_item(results, 0)),
                         ls_nest_retain(ls_nest_item(results, 1)));
  LS_RETURN_IF_ERROR(ls_nest_status(job->losses));
  if (spec->eval_metrics.call == NULL)
    return join_metrics(job, ls_nest_item(results, 3));
  LS_OWN(ls_nest, tensors) =
      ls_nest_map(ls_nest_item(results, 2), strategy_job_gather_leaf, job);
  LS_RETURN_IF_ERROR(ls_nest_status(tensors));
  ls_host_function function = spec->eval_metrics;
  function.tensors = tensors;
  job->metrics = ls_host_function_call(&function, "eval_metrics");
  LS_RETURN_IF_ERROR(ls_nest_status(job->metrics));
  return ls_made_metrics_check(job->metrics);
}

static const replica_mode *mode_of(const ls_job *job) {
  static const replica_mode modes[LS_NUM_MODES] = {
      [LS_MODE_TRAIN] = {training_of, take_training, false},
      [LS_MODE_EVAL] = {evaluation_of, take_evaluation, true}};
  return &modes[job->calls.plan->mode];
}

static ls_status run_model(ls_job *job) {
  const ls_cpu_input *input = &job->cpu_input;
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_retain(input->features), ls_nest_retain(input->labels),
               ls_nest_retain(input->examples));
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  {
    LS_SCALE_LOSS_SCOPE(job->strategy);
    LS_RETURN_IF_ERROR(ls_strategy_call_for_each_replica(
        job->strategy, strategy_job_run_replica, args, job, &results));
  }
  return mode_of(job)->take(job, results);
}

// Logs that the job runs on a CPU.
static void job_log_cpu(const ls_job *job) {
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "Running %s on CPU",
                 ls_estimator_mode_name(job->calls.plan->mode));
}

static ls_status strategy_job_build(ls_job *job) {
  job_log_cpu(job);
  LS_STRATEGY_SCOPE(job->strategy);
  LS_RETURN_IF_ERROR(ls_cpu_input_make(&job->calls, &job->cpu_input));
  job->iterators = &job->cpu_input.iterator;
  job->num_iterators = job->cpu_input.iterator != NULL;
  LS_RETURN_IF_ERROR(run_model(job));
  const ls_scaffold *scaffold = ls_estimator_spec_values(job->spec)->scaffold;
  if (scaffold != NULL) ls_scaffold_copy(&job->scaffold, scaffold);
  return ls_graph_error(job->graph);
}

static ls_status cpu_job_check_evaluation(ls_job *job) {
  const ls_opt steps = job->steps_wanted;
  return !steps.set || steps.value > 0
             ? ls_ok()
             : ls_invalid_argument("Must specify steps > 0, got %lld",
                                   (long long)steps.value);
}

static ls_status strategy_job_take_losses(const ls_job *job, ls_nest fetched,
                                          ls_eval_losses *losses) {
  (void)job;
  return ls_eval_losses_add(losses, ls_nest_item(fetched, 0),
                            ls_nest_item(fetched, 1));
}

const ls_job_kind ls_strategy_job = {
    .check = {[LS_MODE_EVAL] = cpu_job_check_evaluation},
    .build = strategy_job_build,
    .add_hooks = &ls_cpu_job_hooks,
    .take_losses = strategy_job_take_losses,
    .reads_input = true,
};

// ---- One model -------------------------------------------------------------
ls_status ls_call_model_alone(const ls_estimator_calls *calls, ls_nest features,
                              ls_nest labels, ls_estimator_spec **out_spec) {
  // Makes cross-shard optimizers see a single shard.
  LS_SCOPE_(ls_shard_scope_begin, 1);
  return ls_call_model(calls,
                       &(ls_model_inputs){.features = features,
                                          .labels = labels,
                                          .mask = ls_failed_tensor()},
                       out_spec);
}

static ls_status cpu_job_build(ls_job *job) {
  job_log_cpu(job);
  LS_RETURN_IF_ERROR(ls_cpu_input_make(&job->calls, &job->cpu_input));
  LS_RETURN_IF_ERROR(ls_call_model_alone(&job->calls, job->cpu_input.features,
                                         job->cpu_input.labels, &job->spec));
  LS_RETURN_IF_ERROR(ls_graph_error(job->graph));
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  job->loss = spec->loss;
  job->train_op = spec->train_op;
  job->losses = ls_leaf(job->loss);
  job->metrics = ls_nest_retain(spec->eval_metric_ops);
  job->predictions = spec->predictions;
  job->iterators = &job->cpu_input.iterator;
  job->num_iterators = job->cpu_input.iterator != NULL;
  if (spec->scaffold != NULL) ls_scaffold_copy(&job->scaffold, spec->scaffold);
  return ls_ok();
}

// Adds a batch's loss, weighted by its number of examples.
static ls_status cpu_job_take_losses(const ls_job *job, ls_nest fetched,
                                     ls_eval_losses *losses) {
  const int64_t rows = ls_cpu_input_rows(&job->cpu_input);
  ls_eval_losses_add_mean(losses, ls_nest_number(fetched),
                          rows >= 0 ? (double)rows : 1);
  return ls_ok();
}

// ---- Hooks -----------------------------------------------------------------
static ls_status add_input_hook(ls_job *job) {
  return ls_hook_list_add(&job->hooks, ls_hook_retain(job->cpu_input.hook));
}

static ls_status add_stop_hook(ls_job *job) {
  if (!job->steps_wanted.set && !job->max_steps.set) return ls_ok();
  return LS_ADD_HOOK(&job->hooks, ls_stop_at_step_hook, job->steps_wanted,
                     job->max_steps);
}

const ls_job_hook_acts ls_cpu_job_hooks = {
    [LS_MODE_TRAIN] = {[LS_HOOKS_OF_INPUT] = add_input_hook,
                       [LS_HOOKS_OF_STEPS] = add_stop_hook,
                       [LS_HOOKS_BEHIND_MODEL] = ls_job_add_examples_hook},
    [LS_MODE_EVAL] = {[LS_HOOKS_OF_INPUT] = add_input_hook},
    [LS_MODE_PREDICT] = {[LS_HOOKS_OF_INPUT] = add_input_hook},
};

const ls_job_kind ls_cpu_job = {
    .check = {[LS_MODE_EVAL] = cpu_job_check_evaluation},
    .build = cpu_job_build,
    .add_hooks = &ls_cpu_job_hooks,
    .take_losses = cpu_job_take_losses,
    .reads_input = true,
};

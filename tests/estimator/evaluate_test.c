// SPDX-License-Identifier: Apache-2.0
// Evaluations: what is refused, how they end, what they are of.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/host.h"
#include "lockstep/metrics.h"
#include "support/counted.h"
#include "support/estimator_ways.h"
#include "train/own.h"

static ls_status evaluate(estimator_case *c, ls_estimator_evaluation evaluation,
                          ls_nest *metrics) {
  evaluation.input = estimator_input(c);
  return ls_estimator_evaluate(c->estimator, &evaluation, metrics);
}

typedef struct watch {
  int runs, ends;
} watch;

static ls_status after_run(void *user, ls_run_context *context,
                           ls_nest results) {
  (void)context, (void)results;
  ++((watch *)user)->runs;
  return ls_ok();
}

static ls_status at_end(void *user, ls_run_context *context) {
  (void)context;
  ++((watch *)user)->ends;
  return ls_ok();
}

typedef struct told {
  int last, all;
} told;

static void look_for_count(void *user, const ls_log_line *line) {
  told *t = user;
  t->last += strcmp(line->text, "Evaluation [5/5]") == 0;
  t->all += strstr(line->text, "Evaluation [") != NULL;
}

// All steps are one run, whatever those of a training are. On CPUs nothing
// counts where no number is given.
TEST(an_evaluation_on_cores_is_one_run) {
  LS_SPEC("E67 E68");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    told lines = {0};
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = look_for_count, .log_user = &lines});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    watch seen = {0};
    LS_OWN(ls_hook, hook) = NULL;
    ls_nest metrics = ls_none();
    c.folder = "one-run";
    c.iterations = "3";
    c.repeats = true;
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &seen, .after_run = after_run}, &hook));
    expect_ok(evaluate(&c,
                       (ls_estimator_evaluation){
                           .steps = LS_SOME(5), .hooks = &hook, .num_hooks = 1},
                       &metrics));
    assert_int_equal(seen.runs, c.way == ON_TPU ? 1 : 5);
    assert_int_equal(lines.last, 1);
    assert_int_equal(lines.all, c.way == ON_TPU ? 1 : 5);
    ls_nest_release(metrics);
    if (c.way != ON_TPU) {
      c.repeats = false;
      expect_ok(evaluate(&c, (ls_estimator_evaluation){0}, &metrics));
      assert_int_equal(lines.all, 5);
      ls_nest_release(metrics);
    }
  }
}

TEST(steps_are_needed_on_cores_and_must_be_positive) {
  LS_SPEC("E67 E68");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_nest, metrics) = ls_none();
    c.folder = "refused";
    c.iterations = "3";
    estimator_case_begin(&c);
    if (c.way == ON_TPU)
      expect_status(evaluate(&c, (ls_estimator_evaluation){0}, &metrics),
                    LS_INVALID_ARGUMENT, "Eval steps");
    for (int steps = -1; steps <= 0; ++steps)
      expect_status(evaluate(&c,
                             (ls_estimator_evaluation){.steps = LS_SOME(steps)},
                             &metrics),
                    LS_INVALID_ARGUMENT,
                    c.way == ON_TPU ? "Eval steps" : "Must specify steps > 0");
    assert_int_equal(metrics.kind, LS_KIND_NONE);
    assert_int_equal(c.input_calls, 0);
    expect_ok(
        evaluate(&c, (ls_estimator_evaluation){.steps = LS_SOME(4)}, &metrics));
    assert_true(fabs(estimator_metric(metrics, "loss") -
                     estimator_metric(metrics, "mean")) < 1e-5);
  }
}

TEST(an_evaluation_ends_with_its_input) {
  LS_SPEC("E68 E173");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    for (int fails = 0; fails < 2; ++fails) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      watch seen = {0};
      LS_OWN(ls_hook, hook) = NULL;
      LS_OWN(ls_nest, metrics) = ls_none();
      c.folder = "whole";
      c.more.input_end_fails = fails == 1;
      estimator_case_begin(&c);
      expect_ok(ls_hook_create(&(ls_hook_options){.user = &seen,
                                                  .after_run = after_run,
                                                  .end = at_end},
                               &hook));
      ls_estimator_evaluation evaluation = {
          .hooks = &hook, .num_hooks = 1, .steps = LS_SOME(9)};
      if (fails == 1) {
        expect_status(evaluate(&c, evaluation, &metrics), LS_OUT_OF_RANGE,
                      "shall not end");
        assert_int_equal(metrics.kind, LS_KIND_NONE);
      } else {
        expect_ok(evaluate(&c, evaluation, &metrics));
        assert_int_equal(seen.runs, c.way == ON_TPU ? 1 : 4);
      }
      // On CPUs that is what no number of steps means.
      evaluation.steps = (ls_opt){0};
      if (c.way != ON_TPU) {
        seen = (watch){0};
        ls_nest_release(metrics);
        expect_ok(evaluate(&c, evaluation, &metrics));
        assert_int_equal(seen.runs, 4);
        assert_int_equal(seen.ends, 1);
      }
    }
  }
}

static void note(void *user, const ls_log_line *line) {
  *(int *)user += line->level == LS_LOG_WARNING &&
                  strstr(line->text, "nothing was evaluated: a stop") != NULL;
}

static ls_status stop_at_once(void *user, ls_run_context *context) {
  (void)user;
  ls_run_context_request_stop(context);
  return ls_ok();
}

TEST(an_evaluation_that_is_asked_to_stop_ends) {
  LS_SPEC("E216");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    int warnings = 0;
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note, .log_user = &warnings});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_train_stop stop = {0};
    watch seen = {0};
    LS_OWN(ls_hook, hook) = NULL;
    LS_OWN(ls_nest, metrics) = ls_none();
    c.folder = "stopped";
    c.repeats = true;
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(&(ls_hook_options){.user = &seen,
                                                .after_run = after_run,
                                                .end = at_end},
                             &hook));
    ls_train_stop_request(&stop);
    expect_ok(evaluate(
        &c,
        (ls_estimator_evaluation){
            .steps = LS_SOME(4), .hooks = &hook, .num_hooks = 1, .stop = &stop},
        &metrics));
    assert_int_equal(seen.runs, 0);
    assert_int_equal(seen.ends, 1);
    // That nothing was evaluated is said, and written nowhere.
    assert_false(ls_estimator_has_evaluated(metrics));
    assert_int_equal(ls_nest_count(metrics), 1);
    assert_true(estimator_metric(metrics, "global_step") == 0);
    assert_int_not_equal(access("stopped/eval", F_OK), 0);
    assert_int_equal(warnings, 1);
    // The same by a hook.
    LS_OWN(ls_hook, first) = NULL;
    expect_ok(ls_hook_create(
        &(ls_hook_options){.after_create_session = stop_at_once}, &first));
    ls_nest_release(metrics);
    expect_ok(evaluate(&c,
                       (ls_estimator_evaluation){.steps = LS_SOME(4),
                                                 .hooks = &first,
                                                 .num_hooks = 1},
                       &metrics));
    assert_int_equal(warnings, 2);
  }
}

static ls_status use_labels(void *user, ls_model_call *call,
                            ls_estimator_spec **out_spec) {
  (void)user;
  const ls_estimator_spec_options o = {
      .mode = call->mode,
      .loss = ls_reduce_mean(
          ls_square(ls_sub(ls_nest_tensor(call->features, 0),
                           ls_nest_tensor(call->labels, 0))),
          LS_ALL_AXES)};
  return ls_tpu_estimator_spec_create(&o, out_spec);
}

static ls_nest features_alone(void *user, ls_input_call *call) {
  (void)user;
  const int64_t size = ls_params_i64(call->params, "batch_size", 8);
  return ls_nest_dataset(ls_dataset_batch(ls_dataset_range(0, 64, 1),
                                          &(ls_batch_options){.size = size}));
}

// Keys that the library itself looks for are not the model's.
TEST(labels_that_are_not_there_are_no_key_of_the_feed) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_nest metrics = ls_none();
    c.folder = "no-labels";
    c.more.model_fn = (ls_model_function){.call = use_labels};
    estimator_case_begin(&c);
    LS_OWN(ls_status, status) = ls_estimator_evaluate(
        c.estimator,
        &(ls_estimator_evaluation){.input = {features_alone},
                                   .steps = LS_SOME(2)},
        &metrics);
    expect_contains(ls_status_message(status), "of sub is a failed or zeroed");
    assert_null(strstr(ls_status_message(status), "there is no key"));
  }
}

// Calls of what a spec for TPUs has beside its metrics.
typedef struct host_side {
  estimator_case c;
  int scaffolds, starts, calls;
} host_side;

static ls_status start_values(void *user, ls_session *session) {
  (void)session;
  ++((host_side *)user)->starts;
  return ls_ok();
}

static ls_status give_scaffold(void *user, ls_scaffold *scaffold) {
  ++((host_side *)user)->scaffolds;
  scaffold->init_fn = start_values;
  scaffold->init_user = user;
  return ls_ok();
}

static ls_status count_call(ls_nest values, void *user) {
  (void)values;
  ++((host_side *)user)->calls;
  return ls_ok();
}

static ls_nest call_host(ls_nest tensors, void *user) {
  const ls_tensor all = ls_reduce_max(ls_nest_tensor(tensors, 0), LS_ALL_AXES);
  return LS_LIST(
      ls_nest_op(ls_host_function_op(count_call, user, ls_leaf(all))));
}

static ls_status model_with_host_side(void *user, ls_model_call *call,
                                      ls_estimator_spec **out_spec) {
  host_side *self = user;
  const ls_model_function model = estimator_model(&self->c);
  ls_estimator_spec *spec = NULL;
  LS_RETURN_IF_ERROR(model.call(model.user, call, &spec));
  ls_estimator_spec_options o = *ls_estimator_spec_values(spec);
  o.scaffold_fn = give_scaffold;
  o.scaffold_user = self;
  o.host_call = (ls_host_function){
      .call = call_host, .user = self, .tensors = o.eval_metrics.tensors};
  const ls_status status = ls_tpu_estimator_spec_create(&o, out_spec);
  ls_estimator_spec_release(spec);
  return status;
}

// Everywhere, with the metrics of all replicas.
TEST(an_evaluation_has_a_host_call_and_a_scaffold) {
  LS_SPEC("E57");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (int any_batch = 0; any_batch < 2; ++any_batch) {
      host_side self = {.c = estimator_case_of(i)};
      estimator_case *c = &self.c;
      ls_nest metrics = ls_none();
      c->folder = "host-side";
      c->any_batch = any_batch == 1;
      c->more.model_fn =
          (ls_model_function){.call = model_with_host_side, .user = &self};
      estimator_case_begin(c);
      expect_ok(evaluate(
          c, (ls_estimator_evaluation){.steps = LS_SOME(4)}, &metrics));
      assert_int_equal(self.calls, 4);
      assert_int_equal(self.starts, 1);
      assert_true(self.scaffolds > 0);
      assert_true(estimator_metric(metrics, "count") == 4 * 24);
      ls_nest_release(metrics);
      estimator_case_end(c);
    }
}

// SLICED is of cores: nobody else takes it for another way.
TEST(slices_are_for_cores) {
  LS_SPEC("E105");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_nest, metrics) = ls_none();
    const ls_tpu_config tpu = {.eval_training_input = LS_INPUT_SLICED};
    c.folder = "slices";
    c.config.tpu = &tpu;
    estimator_case_begin(&c);
    const ls_status status =
        evaluate(&c, (ls_estimator_evaluation){.steps = LS_SOME(2)}, &metrics);
    if (c.way == ON_TPU)
      expect_ok(status);
    else
      expect_status(status, LS_INVALID_ARGUMENT,
                    "eval_training_input_configuration");
  }
}

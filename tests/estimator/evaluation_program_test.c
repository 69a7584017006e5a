// SPDX-License-Identifier: Apache-2.0
//
// Programs that evaluate: sums of losses, and metrics on the hosts.
#include <math.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/metrics.h"
#include "support/linear_model.h"

static const int counts[] = {1, 3, 8};

typedef struct job {
  linear_model m;
  bool has_metrics, by_name, has_host_call;
  int fails;            // 1: the metrics are no dict, 2: no pairs.
  ls_variable *called;  // Counts rows that the host call has seen.
  ls_op update;         // Of the metric.
  bool hears_late;      // The host call is made behind it.
} job;

// ---- A model ---------------------------------------------------------------
// Of outputs and labels, and masks if there are some.
static ls_nest mean_error(ls_nest tensors, void *user) {
  static const char *const keys[] = {"error"};
  job *j = user;
  if (j->fails == 1) return LS_LIST(ls_nest_item(tensors, 0));
  ls_tensor out = ls_nest_tensor(tensors, 0), in = ls_nest_tensor(tensors, 1);
  ls_tensor weights = ls_nest_tensor(tensors, 2);
  if (j->by_name) {
    out = ls_nest_tensor(ls_nest_find(tensors, "out"), 0);
    in = ls_nest_tensor(ls_nest_find(tensors, "in"), 0);
    weights = ls_nest_tensor(ls_nest_find(tensors, "mask"), 0);
  }
  const ls_tensor error = ls_abs(ls_sub(out, in));
  if (!ls_tensor_is_failed(weights)) weights = ls_reshape_like(weights, error);
  ls_nest metric = ls_metric_mean(error, weights, "error");
  const ls_nest update = ls_nest_item(metric, 1);
  j->update =
      update.kind == LS_KIND_OP ? update.as.op : ls_tensor_op(update.as.tensor);
  if (j->fails == 2) {
    ls_nest_release(metric);
    metric = ls_leaf(error);
  }
  return ls_nest_dict("", keys, &metric, 1);
}

static ls_nest count_rows(ls_nest tensors, void *user) {
  job *j = user;
  j->hears_late = j->update.id != 0;
  const ls_tensor rows = ls_dim_size(ls_nest_tensor(tensors, 0), 0);
  return ls_leaf(ls_variable_assign_add(j->called, rows));
}

static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  static const char *const keys[] = {"out", "in"};
  job *j = user;
  const ls_nest values[] = {ls_leaf(linear_model_output(&j->m, call->features)),
                            call->labels};
  LS_OWN(ls_nest, list) = LS_LIST(values[0], values[1]);
  LS_OWN(ls_nest, dict) = ls_nest_dict("", keys, values, 2);
  ls_estimator_spec_options o = {.mode = call->mode,
                                 .loss = linear_model_loss(&j->m, call)};
  if (j->has_metrics)
    o.eval_metrics = (ls_host_function){
        .call = mean_error, .user = j, .tensors = j->by_name ? dict : list};
  if (j->has_host_call)
    o.host_call =
        (ls_host_function){.call = count_rows, .user = j, .tensors = list};
  return ls_tpu_estimator_spec_create(&o, out_spec);
}

static void begin(programs *p, job *j, int replicas, programs_options options) {
  options.mode = LS_MODE_EVAL;
  options.replicas = replicas;
  options.model = model_of;
  options.user = j;
  programs_begin(p, options);
  LS_GRAPH_SCOPE(p->graph);
  linear_model_make(&j->m, false);
  static const double zero = 0;
  j->called = variable_of("called", LS_DTYPE_I64, LS_SCALAR, &zero);
}

static void end(programs *p, job *j) {
  ls_variable_release(j->called);
  linear_model_drop(&j->m);
  programs_end(p);
}

static void run(programs *p, int64_t steps) {
  programs_set_steps(p, steps);
  programs_run(p, LS_LIST(ls_leaf(p->program.loss), ls_leaf(p->program.steps),
                          ls_nest_op(p->program.run)));
}

static double metric_of(programs *p, const char *name) {
  const ls_nest pair = ls_nest_find(p->program.metrics, name);
  assert_int_equal(pair.kind, LS_KIND_TUPLE);
  programs_run(p, ls_nest_retain(ls_nest_item(pair, 0)));
  return programs_number(p, -1);
}

static int64_t integer_of(programs *p, ls_variable *variable) {
  LS_OWN(ls_array, value) = programs_value(p, variable);
  return ls_array_i64(value, 0);
}

// ---- Losses ----------------------------------------------------------------
TEST(losses_are_added_by_steps_and_the_mean_comes_at_the_end) {
  LS_SPEC("E135 E137");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (int ends = 0; ends < 2; ++ends) {
      programs p;
      job j = {0};
      linear_reference r;
      float totals[PROGRAMS_MOST] = {0};
      enum { STEPS = 5 };
      begin(&p, &j, counts[i], (programs_options){0});
      programs_build(&p);
      linear_reference_begin(&r, counts[i]);
      for (int s = 0; s < STEPS; ++s)
        programs_put_all(&p, s);
      if (ends) programs_close(&p);
      run(&p, ends ? 2 * STEPS : STEPS);
      for (int s = 0; s < STEPS; ++s) {
        float losses[PROGRAMS_MOST];
        linear_reference_losses(&r, &p, s, losses);
        for (int k = 0; k < counts[i]; ++k)
          totals[k] += losses[k];
      }
      // By the steps that were made.
      const float mean =
          canonical_sum(totals, counts[i]) * (1.0f / (float)counts[i]);
      assert_true((float)programs_number(&p, 0) == mean / STEPS);
      assert_true(programs_number(&p, 1) == STEPS);
      ls_variable *eval_step = NULL;
      expect_ok(ls_eval_step_get(p.graph, &eval_step));
      assert_int_equal(integer_of(&p, eval_step), STEPS - 1);
      assert_int_equal(p.program.metrics.kind, LS_KIND_NONE);
      assert_int_equal(ls_nest_count(p.program.host_ops), 0);
      linear_reference_end(&r);
      end(&p, &j);
    }
}

// Without metrics the loss alone brings the sync and eval step along.
TEST(without_metrics_the_loss_waits_for_all) {
  LS_SPEC("E146");
  for (int with = 0; with < 2; ++with) {
    programs p;
    job j = {.has_metrics = with};
    begin(&p, &j, 3, (programs_options){0});
    programs_build(&p);
    programs_put_all(&p, 0);
    programs_put_all(&p, 1);
    programs_put_all(&p, 2);
    programs_set_steps(&p, 3);
    programs_run(&p, ls_leaf(p.program.loss));
    ls_variable *eval_step = NULL;
    expect_ok(ls_eval_step_get(p.graph, &eval_step));
    assert_int_equal(integer_of(&p, eval_step), with ? 0 : 2);
    end(&p, &j);
  }
}

TEST(the_loss_of_no_step_is_0) {
  for (int any = 0; any < 2; ++any) {
    programs p;
    job j = {0};
    begin(&p, &j, 3, (programs_options){.any_batch = any});
    programs_build(&p);
    programs_close(&p);
    run(&p, 4);
    assert_true(programs_number(&p, 0) == 0);
    assert_true(programs_number(&p, 1) == 0);
    end(&p, &j);
  }
}

// ---- Metrics ---------------------------------------------------------------
static double error_of(const programs *p, int64_t step, int replica, int row) {
  static const double w[] = {0.5, -0.25, 1};
  LS_OWN(ls_array, features) = programs_fed(p, step, replica, 0);
  LS_OWN(ls_array, labels) = programs_fed(p, step, replica, 1);
  double out = -ls_array_f64(labels, row);
  for (int k = 0; k < PROGRAMS_COLUMNS; ++k)
    out += w[k] * ls_array_f64(features, row * PROGRAMS_COLUMNS + k);
  return out;
}

TEST(metrics_are_updated_in_each_step_beside_the_program) {
  LS_SPEC("E135 E145 E146");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (int by_name = 0; by_name < 2; ++by_name) {
      programs p;
      job j = {.has_metrics = true, .has_host_call = true, .by_name = by_name};
      enum { STEPS = 4 };
      double sum = 0;
      begin(&p, &j, counts[i], (programs_options){0});
      programs_build(&p);
      for (int s = 0; s < STEPS; ++s)
        programs_put_all(&p, s);
      // The pair's update is the run itself: the hosts' ops do the rest.
      const ls_nest pair = ls_nest_find(p.program.metrics, "error");
      assert_int_equal(ls_nest_item(pair, 1).as.op.id, p.program.run.id);
      // And of these the metric's comes before the host call's.
      const ls_nest ops = p.program.host_ops;
      assert_true(j.hears_late);
      assert_int_equal(ls_nest_item(ops, ls_nest_count(ops) - 2).as.op.id,
                       j.update.id);
      run(&p, STEPS);
      assert_true(metric_of(&p, "error") == 0);
      for (int s = 0; s < STEPS; ++s) {
        programs_run(&p, ls_nest_retain(p.program.host_ops));
        assert_int_equal(integer_of(&p, j.called),
                         (s + 1) * counts[i] * PROGRAMS_ROWS);
        for (int r = 0; r < counts[i]; ++r)
          for (int k = 0; k < PROGRAMS_ROWS; ++k)
            sum += fabs(error_of(&p, s, r, k));
        const double wanted =
            sum / (double)((s + 1) * counts[i] * PROGRAMS_ROWS);
        assert_true(fabs(metric_of(&p, "error") - wanted) < 1e-5);
      }
      end(&p, &j);
    }
}

TEST(metrics_that_are_no_pairs_are_refused) {
  static const char *const says[] = {"must give a dict", "metric 'error'"};
  for (int fails = 1; fails < 3; ++fails) {
    programs p;
    job j = {.has_metrics = true, .fails = fails};
    begin(&p, &j, 3, (programs_options){0});
    const size_t before = ls_graph_num_ops(p.graph);
    expect_status(programs_try(&p), LS_INVALID_ARGUMENT, says[fails - 1]);
    assert_int_equal(ls_graph_num_ops(p.graph), before);  // As it was.
    end(&p, &j);
  }
}

// ---- Batches of any size ---------------------------------------------------
// 20 examples in batches of at most R x 2, the last of which is short: some
// replicas have one row, or none.
TEST(batches_of_any_size_count_each_example_once) {
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (int by_name = 0; by_name < 2; ++by_name) {
      programs p;
      job j = {.has_metrics = true, .by_name = by_name};
      double sum = 0, squares = 0;
      int left = 21, steps = 0;
      begin(&p, &j, counts[i], (programs_options){.any_batch = true});
      programs_build(&p);
      for (; left > 0; ++steps) {
        const int batch = counts[i] * PROGRAMS_ROWS;
        const int real = left < batch ? left : batch;
        left -= real;
        for (int r = 0; r < counts[i]; ++r) {
          const int rows = real / counts[i] + (r < real % counts[i]);
          programs_put(&p, steps, r, rows, false);
          for (int k = 0; k < rows; ++k) {
            const double error = error_of(&p, steps, r, k);
            sum += fabs(error);
            squares += error * error;
          }
        }
      }
      programs_close(&p);
      run(&p, 1000);
      assert_true(programs_number(&p, 1) == steps);
      assert_true(fabs(programs_number(&p, 0) - squares / 21) < 1e-5);
      for (int s = 0; s < steps; ++s)
        programs_run(&p, ls_nest_retain(p.program.host_ops));
      assert_true(fabs(metric_of(&p, "error") - sum / 21) < 1e-5);
      end(&p, &j);
    }
}

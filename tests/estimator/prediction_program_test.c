// SPDX-License-Identifier: Apache-2.0
//
// Programs that predict: a batch in each run.
#include <math.h>
#include <string.h>

#include "base/memory/own.h"
#include "estimator/device/device.h"
#include "support/linear_model.h"

static const int counts[] = {1, 3, 8};

typedef struct job {
  linear_model m;
  bool has_host_call;
  int64_t size;         // Of a prediction that is large, in f32; 0: none.
  int64_t rows;         // Of the same. Default: the batch's.
  ls_variable *called;  // Counts steps that the host call has seen.
} job;

static ls_nest count_steps(ls_nest tensors, void *user) {
  const job *j = user;
  (void)tensors;
  return ls_leaf(
      ls_variable_assign_add(j->called, ls_scalar_i64(LS_DTYPE_I64, 1)));
}

static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  static const char *const keys[] = {"out", "in", "large"};
  job *j = user;
  assert_int_equal(ls_nest_find(call->params, "cache").kind, LS_KIND_NONE);
  const ls_nest values[] = {
      ls_leaf(linear_model_output(&j->m, call->features)), call->features,
      ls_leaf(ls_fill(
          LS_DTYPE_F32,
          LS_SHAPE(j->rows > 0 ? j->rows : PROGRAMS_ROWS, j->size / 2), 0))};
  LS_OWN(ls_nest, predictions) =
      ls_nest_dict("", keys, values, j->size ? 3 : 2);
  LS_OWN(ls_nest, list) = LS_LIST(values[0]);
  ls_estimator_spec_options o = {.mode = call->mode,
                                 .predictions = predictions};
  if (j->has_host_call)
    o.host_call =
        (ls_host_function){.call = count_steps, .user = j, .tensors = list};
  return ls_tpu_estimator_spec_create(&o, out_spec);
}

static void begin(programs *p, job *j, int replicas, programs_options options) {
  static const double zero = 0;
  options.mode = LS_MODE_PREDICT;
  options.replicas = replicas;
  options.model = model_of;
  options.user = j;
  options.no_labels = true;
  programs_begin(p, options);
  LS_GRAPH_SCOPE(p->graph);
  linear_model_make(&j->m, false);
  j->called = variable_of("called", LS_DTYPE_I64, LS_SCALAR, &zero);
}

static void end(programs *p, job *j) {
  ls_variable_release(j->called);
  linear_model_drop(&j->m);
  programs_end(p);
}

// Predictions, the signal and the padding of a batch, in one run with the
// program.
static ls_status try_predict(programs *p) {
  const bool pads = !ls_tensor_is_failed(p->program.padding);
  return programs_try_run(
      p, LS_LIST(ls_nest_retain(p->program.predictions),
                 ls_leaf(p->program.stopping),
                 pads ? ls_leaf(p->program.padding) : ls_none(),
                 ls_nest_op(p->program.run)));
}

static const ls_array *prediction(const programs *p, const char *key) {
  return ls_nest_as_array(ls_nest_find(ls_nest_item(p->results, 0), key));
}

static void expect_batch(const programs *p, int64_t step, int parts) {
  const int rows = parts * PROGRAMS_ROWS;
  const ls_array *in = prediction(p, "in"), *out = prediction(p, "out");
  assert_true(
      ls_shape_equal(ls_array_shape(in), LS_SHAPE(rows, PROGRAMS_COLUMNS)));
  assert_true(ls_shape_equal(ls_array_shape(out), LS_SHAPE(rows, 1)));
  for (int r = 0; r < parts; ++r) {
    LS_OWN(ls_array, fed) = programs_fed(p, step, r, 0);
    for (int i = 0; i < PROGRAMS_ROWS; ++i) {
      const int at = r * PROGRAMS_ROWS + i;
      double x[PROGRAMS_COLUMNS];
      for (int k = 0; k < PROGRAMS_COLUMNS; ++k) {
        x[k] = ls_array_f64(fed, i * PROGRAMS_COLUMNS + k);
        assert_true(ls_array_f64(in, at * PROGRAMS_COLUMNS + k) == x[k]);
      }
      const double wanted = 0.5 * x[0] - 0.25 * x[1] + x[2];
      assert_true(fabs(ls_array_f64(out, at) - wanted) < 1e-6);
    }
  }
}

static int64_t times_called(programs *p, const job *j) {
  LS_OWN(ls_array, value) = programs_value(p, j->called);
  return ls_array_i64(value, 0);
}

// ---- Batches ---------------------------------------------------------------
TEST(each_run_gives_a_batch_until_the_stop_signal) {
  LS_SPEC("E126 E136 E142 E145 E157");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (int pads = 0; pads < 2; ++pads) {
      enum { STEPS = 5 };
      programs p;
      job j = {.has_host_call = true};
      begin(&p, &j, counts[i], (programs_options){.pads = pads});
      programs_build(&p);
      programs_set_steps(&p, 1);
      assert_true(ls_tensor_is_failed(p.program.loss));
      for (int s = 0; s < STEPS; ++s)
        for (int r = 0; r < counts[i]; ++r)
          programs_put(&p, s, r, s + 2 < STEPS ? PROGRAMS_ROWS : r % 2,
                       s + 1 == STEPS);
      for (int s = 0; s < STEPS; ++s) {
        expect_ok(try_predict(&p));
        expect_batch(&p, s, counts[i]);
        // The host call has been run when predictions are there, also of the
        // last batch.
        assert_int_equal(times_called(&p, &j), s + 1);
        assert_true(programs_number(&p, 1) == (s + 1 == STEPS));
        for (int at = 0; pads && at < counts[i] * PROGRAMS_ROWS; ++at) {
          const int real =
              s + 2 < STEPS ? PROGRAMS_ROWS : at / PROGRAMS_ROWS % 2;
          assert_true(ls_array_f64(programs_array(&p, 2), at) ==
                      (at % PROGRAMS_ROWS >= real));
        }
      }
      // Nothing comes behind it.
      programs_close(&p);
      expect_ok(ls_device_system_close_outfeeds(p.calls.plan));
      expect_status(try_predict(&p), LS_OUT_OF_RANGE, "");
      end(&p, &j);
    }
}

TEST(without_a_batch_there_is_no_prediction) {
  LS_SPEC("E179");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {0};
    begin(&p, &j, counts[i], (programs_options){.pads = true});
    programs_build(&p);
    programs_set_steps(&p, 1);
    programs_close(&p);
    expect_ok(ls_device_system_close_outfeeds(p.calls.plan));
    expect_status(try_predict(&p), LS_OUT_OF_RANGE, "");
    end(&p, &j);
  }
}

// Every replica has the same: one counts.
TEST(of_replicas_with_the_same_input_one_counts) {
  programs p;
  job j = {0};
  begin(&p, &j, 3,
        (programs_options){.tpu.per_host_input = LS_INPUT_BROADCAST});
  programs_build(&p);
  programs_set_steps(&p, 1);
  for (int r = 0; r < 3; ++r)
    programs_put(&p, 0, r, PROGRAMS_ROWS, true);
  expect_ok(try_predict(&p));
  expect_batch(&p, 0, 1);
  end(&p, &j);
}

TEST(predictions_of_a_gigabyte_are_refused) {
  LS_SPEC("E148");
  // With the others it is a byte more, or a few less.
  enum { GIGABYTE = 1073741824, OTHERS = 4 * PROGRAMS_ROWS * 4 };
  static const char *const says[] = {"too large", "'large' f32[2,134217724]",
                                     "'out' f32[2,1]", "'in' f32[2,3]"};
  for (size_t k = 0; k < LS_COUNT_OF(says); ++k) {
    programs p;
    job j = {.size = (GIGABYTE - OTHERS) / 4};
    begin(&p, &j, 1, (programs_options){0});
    expect_status(programs_try(&p), LS_INVALID_ARGUMENT, says[k]);
    end(&p, &j);
  }
  programs p;
  job j = {.size = (GIGABYTE - OTHERS) / 4 - 2};
  begin(&p, &j, 1, (programs_options){0});
  expect_ok(programs_try(&p));
  end(&p, &j);
  // Of all replicas together.
  j = (job){.size = (GIGABYTE - OTHERS) / 4 / 3 + 2};
  begin(&p, &j, 3, (programs_options){0});
  expect_status(programs_try(&p), LS_INVALID_ARGUMENT, "too large");
  end(&p, &j);
}

// Only where rows that fill a batch up are to be cut off.
TEST(predictions_with_other_rows_than_the_mask_are_refused) {
  LS_SPEC("E97");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (int64_t rows = 1; rows <= 3; ++rows)
      for (int pads = 0; pads < 2; ++pads) {
        programs p;
        job j = {.size = 4, .rows = rows};
        begin(&p, &j, counts[i], (programs_options){.pads = pads == 1});
        const size_t ops = ls_graph_num_ops(p.graph);
        const ls_status status = programs_try(&p);
        if (pads == 1 && rows != PROGRAMS_ROWS) {
          expect_status(status, LS_INVALID_ARGUMENT, "prediction 'large'");
          assert_int_equal(ls_graph_num_ops(p.graph), ops);
        } else {
          expect_ok(status);
        }
        end(&p, &j);
      }
}

TEST(without_what_feeds_it_there_is_no_program) {
  LS_SPEC("E152");
  programs p;
  job j = {0};
  begin(&p, &j, 1, (programs_options){0});
  ls_estimator_program made;
  const ls_input_feed nothing = {0};
  const ls_input_feed *const feeds[] = {NULL, &nothing};
  for (int i = 0; i < 2; ++i) {
    LS_GRAPH_SCOPE(p.graph);
    expect_status(
        ls_program_build(
            &(ls_program_options){.calls = &p.calls, .feed = feeds[i]}, &made),
        LS_FAILED_PRECONDITION, "InternalError");
  }
  end(&p, &j);
}

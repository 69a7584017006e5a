// SPDX-License-Identifier: Apache-2.0
// Predictions: rows, batches, their end, and their beginning.
#include <math.h>
#include <string.h>

#include "estimator/own.h"
#include "lockstep/ops.h"
#include "support/counted.h"
#include "support/estimator_ways.h"
#include "support/estimators.h"
#include "support/fault.h"
#include "tpu/own.h"

TEST(all_rows_come_and_none_that_fills_a_batch_up) {
  LS_SPEC("E97 E168");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    for (int batches = 0; batches < 2; ++batches) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      c.folder = "predicted";
      c.examples = 55;  // Two batches of 24, and 7.
      estimator_case_begin(&c);
      ls_predictions *p = estimator_predict(
          &c,
          (ls_estimator_prediction){.keys = (const char *const[]){"classes"},
                                    .num_keys = 1,
                                    .batches = batches == 1});
      ls_nest row = ls_none();
      int64_t rows = 0, calls = 0;
      ls_status status = ls_predictions_next(p, &row);
      for (; ls_status_is_ok(status); status = ls_predictions_next(p, &row)) {
        assert_int_equal(ls_nest_count(row), 1);
        const ls_array *found = ls_nest_as_array(ls_nest_find(row, "classes"));
        assert_int_equal(ls_array_shape(found).rank, batches);
        rows += ls_array_num_elements(found);
        ++calls;
      }
      expect_status(status, LS_OUT_OF_RANGE, "");
      assert_int_equal(rows, 55);
      assert_int_equal(calls, batches == 1 ? 3 : 55);
      ls_nest_release(row);
      expect_ok(ls_predictions_close(p));
    }
  }
}

// A row is that of its example, in the order of the input.
TEST(rows_are_those_of_their_examples) {
  LS_SPEC("E168");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    enum { ROWS = 55 };
    float whole[ROWS * ESTIMATOR_CLASSES];
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    c.folder = "rows";
    c.examples = ROWS;
    estimator_case_begin(&c);
    for (int batches = 1; batches >= 0; --batches) {
      ls_nest row = ls_none();
      size_t at = 0;
      ls_predictions *p = estimator_predict(
          &c, (ls_estimator_prediction){.batches = batches == 1});
      while (at < ROWS * ESTIMATOR_CLASSES) {
        expect_ok(ls_predictions_next(p, &row));
        const ls_array *found =
            ls_nest_as_array(ls_nest_find(row, "probabilities"));
        const size_t size = ls_array_size(found);
        if (batches == 1)
          memcpy(whole + at, ls_array_data(found), size);
        else
          assert_memory_equal(whole + at, ls_array_data(found), size);
        at += size / sizeof(float);
      }
      ls_nest_release(row);
      expect_ok(ls_predictions_close(p));
    }
    assert_memory_not_equal(whole, whole + ESTIMATOR_CLASSES,
                            sizeof(float) * ESTIMATOR_CLASSES);
  }
}

TEST(keys_must_be_some_of_those_that_there_are) {
  LS_SPEC("E168");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_predictions *p = NULL;
    c.folder = "keys";
    estimator_case_begin(&c);
    for (size_t num = 0; num < 2; ++num)
      expect_status(
          ls_estimator_predict(c.estimator,
                               &(ls_estimator_prediction){
                                   .input = estimator_input(&c),
                                   .keys = (const char *const[]){"weights"},
                                   .num_keys = num},
                               &p),
          LS_INVALID_ARGUMENT, "keys");
    assert_null(p);
  }
}

// The model's predictions with other ones: twice as many "classes", or its
// probabilities alone, in no dict.
typedef struct changed {
  estimator_case setup;
  bool no_dict;
} changed;

static ls_status changed_model(void *user, ls_model_call *call,
                               ls_estimator_spec **out) {
  changed *c = user;
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(&c->setup);
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = {.mode = call->mode};
  const ls_nest was = ls_estimator_spec_values(made)->predictions;
  const ls_tensor all = ls_nest_tensor(ls_nest_find(was, "probabilities"), 0);
  const ls_tensor classes = ls_nest_tensor(ls_nest_find(was, "classes"), 0);
  const ls_tensor twice[] = {classes, classes};
  o.predictions =
      c->no_dict
          ? ls_leaf(all)
          : ls_nest_dict(
                "", (const char *const[]){"classes", "probabilities"},
                (ls_nest[]){ls_leaf(ls_concatenate(twice, 2, 0)), ls_leaf(all)},
                2);
  const ls_status status = ls_tpu_estimator_spec_create(&o, out);
  ls_nest_release(o.predictions);
  return status;
}

static void begin_changed(changed *c, int i, bool no_dict) {
  *c = (changed){.setup = estimator_case_of(i), .no_dict = no_dict};
  c->setup.folder = "changed";
  c->setup.more.model_fn =
      (ls_model_function){.call = changed_model, .user = c};
  estimator_case_begin(&c->setup);
}

TEST(rows_are_given_of_as_many_of_each_kind) {
  LS_SPEC("E168");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (int batches = 0; batches < 2; ++batches) {
      changed c;
      ls_predictions *p = NULL;
      ls_nest row = ls_none();
      begin_changed(&c, i, false);
      const ls_estimator_prediction prediction = {
          .input = estimator_input(&c.setup), .batches = batches == 1};
      const ls_status status =
          ls_estimator_predict(c.setup.estimator, &prediction, &p);
      if (c.setup.way == ON_TPU) {
        // There batches are cut to what is real, so it is known before a run.
        expect_status(status, LS_INVALID_ARGUMENT, "prediction 'classes'");
        assert_null(p);
      } else {
        expect_ok(status);
        if (batches == 1) {
          expect_ok(ls_predictions_next(p, &row));
          assert_int_equal(ls_array_num_elements(
                               ls_nest_as_array(ls_nest_find(row, "classes"))),
                           2 * 24);
          expect_ok(ls_predictions_close(p));
        } else {
          expect_status(ls_predictions_next(p, &row), LS_INVALID_ARGUMENT,
                        "prediction 'probabilities' has 24 rows, others have "
                        "48");
          expect_status(ls_predictions_close(p), LS_INVALID_ARGUMENT,
                        "'probabilities'");
        }
      }
      ls_nest_release(row);
      estimator_case_end(&c.setup);
    }
}

TEST(keys_are_of_dicts_alone) {
  LS_SPEC("E130 E168");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    changed c;
    ls_predictions *p = NULL;
    ls_nest row = ls_none();
    begin_changed(&c, i, true);
    ls_estimator_prediction prediction = {.input = estimator_input(&c.setup),
                                          .keys =
                                              (const char *const[]){"classes"},
                                          .num_keys = 1};
    expect_status(ls_estimator_predict(c.setup.estimator, &prediction, &p),
                  LS_INVALID_ARGUMENT, "dict");
    assert_null(p);
    // Without keys rows are of what there is; on cores there must be a dict.
    prediction.keys = NULL;
    prediction.num_keys = 0;
    const ls_status status =
        ls_estimator_predict(c.setup.estimator, &prediction, &p);
    if (c.setup.way == ON_TPU) {
      expect_status(status, LS_INVALID_ARGUMENT, "dict");
    } else {
      expect_ok(status);
      int rows = 0;
      while (true) {
        const ls_status next = ls_predictions_next(p, &row);
        if (!ls_status_is_ok(next)) {
          expect_status(next, LS_OUT_OF_RANGE, "no more");
          break;
        }
        const ls_array *array = ls_nest_as_array(row);
        assert_int_equal(ls_array_num_elements(array), ESTIMATOR_CLASSES);
        ++rows;
      }
      assert_int_equal(rows, 96);
      expect_ok(ls_predictions_close(p));
    }
    ls_nest_release(row);
    estimator_case_end(&c.setup);
  }
}

TEST(predictions_of_nothing_are_none) {
  LS_SPEC("E179");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_nest, row) = ls_none();
    c.folder = "nothing";
    estimator_case_begin(&c);
    c.examples = 0;
    ls_predictions *p = estimator_predict(&c, (ls_estimator_prediction){0});
    expect_status(ls_predictions_next(p, &row), LS_OUT_OF_RANGE, "");
    expect_ok(ls_predictions_close(p));
  }
}

static ls_nest give_out_of_range(void *user, ls_input_call *call) {
  (void)user;
  (void)call;
  return LS_FAIL(LS_OUT_OF_RANGE, "the file has no line 7");
}

// It is no end of data either: nothing has begun.
TEST(an_input_that_cannot_be_made_is_a_failure) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_predictions *p = NULL;
    c.folder = "no-input";
    estimator_case_begin(&c);
    expect_status(
        ls_estimator_predict(
            c.estimator,
            &(ls_estimator_prediction){.input = {.call = give_out_of_range}},
            &p),
        LS_OUT_OF_RANGE, "no line 7");
    assert_null(p);
    p = estimator_predict(&c, (ls_estimator_prediction){0});
    expect_ok(ls_predictions_close(p));
  }
}

TEST(a_system_is_not_shared_with_open_predictions) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_nest metrics = ls_none();
    LS_OWN(ls_nest, row) = ls_none();
    ls_training_end reached;
    c.folder = "beside";
    estimator_case_begin(&c);
    const ls_estimator_training training = {.input = estimator_input(&c),
                                            .max_steps = LS_SOME(2)};
    const ls_estimator_evaluation evaluation = {.input = estimator_input(&c),
                                                .steps = LS_SOME(1)};
    for (int open = 1; open >= 0; --open) {
      ls_predictions *p =
          open ? estimator_predict(&c, (ls_estimator_prediction){0}) : NULL;
      const ls_status trained =
          ls_estimator_train(c.estimator, &training, &reached);
      const ls_status evaluated =
          ls_estimator_evaluate(c.estimator, &evaluation, &metrics);
      if (open && c.way == ON_TPU) {
        expect_status(trained, LS_FAILED_PRECONDITION, "close them first");
        expect_status(evaluated, LS_FAILED_PRECONDITION, "close them first");
      } else {
        expect_ok(trained);
        expect_ok(evaluated);
      }
      ls_nest_release(metrics);
      metrics = ls_none();
      // What was refused has taken nothing from them.
      if (open) expect_ok(ls_predictions_next(p, &row));
      if (open) expect_ok(ls_predictions_close(p));
    }
  }
}

TEST(predictions_are_left_early_and_made_one_at_a_time) {
  LS_SPEC("E169");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    ls_predictions *other = NULL;
    LS_OWN(ls_nest, row) = ls_none();
    c.folder = "early";
    c.repeats = true;
    estimator_case_begin(&c);
    for (int taken = 0; taken < 3; ++taken) {
      ls_predictions *p = estimator_predict(&c, (ls_estimator_prediction){0});
      for (int k = 0; k < 20 * taken; ++k)
        expect_ok(ls_predictions_next(p, &row));
      expect_status(
          ls_estimator_predict(
              c.estimator,
              &(ls_estimator_prediction){.input = estimator_input(&c)}, &other),
          LS_FAILED_PRECONDITION, "close them first");
      expect_ok(ls_predictions_close(p));
    }
  }
}

static void note(void *user, const ls_log_line *line) {
  if (strstr(line->text, "never end") != NULL) ++*(int *)user;
}

TEST(predictions_of_endless_data_stop_when_asked) {
  LS_SPEC("E177");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    int warnings = 0;
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note, .log_user = &warnings});
    estimator_case c = estimator_case_of(i);
    ls_train_stop stop = {0};
    ls_nest row = ls_none();
    c.folder = "endless";
    c.repeats = true;
    estimator_case_begin(&c);
    ls_predictions *p = estimator_predict(
        &c, (ls_estimator_prediction){.stop = &stop, .batches = true});
    expect_ok(ls_predictions_next(p, &row));
    ls_train_stop_request(&stop);
    expect_status(ls_predictions_next(p, &row), LS_OUT_OF_RANGE, "");
    expect_ok(ls_predictions_close(p));
    // Asked before the first run.
    p = estimator_predict(&c, (ls_estimator_prediction){.stop = &stop});
    expect_status(ls_predictions_next(p, &row), LS_OUT_OF_RANGE, "");
    expect_ok(ls_predictions_close(p));
    ls_nest_release(row);
    estimator_case_end(&c);
    assert_int_equal(warnings, 0);
  }
}

// All rows of an input; their classes, added.
static int64_t predict_all(estimator_case *c, int64_t *out_rows) {
  ls_predictions *p = estimator_predict(c, (ls_estimator_prediction){0});
  ls_nest row = ls_none();
  int64_t sum = 0;
  *out_rows = 0;
  ls_status status = ls_predictions_next(p, &row);
  for (; ls_status_is_ok(status); status = ls_predictions_next(p, &row)) {
    sum += ls_array_i64(ls_nest_as_array(ls_nest_find(row, "classes")), 0) *
           ++*out_rows;
  }
  expect_status(status, LS_OUT_OF_RANGE, "");
  ls_nest_release(row);
  expect_ok(ls_predictions_close(p));
  return sum;
}

// Which no call of the estimator initializes: each finds its queues empty and
// open, however the one before has ended.
TEST(calls_on_a_system_of_others_begin_anew) {
  LS_SPEC("E79");
  LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
  const ls_tpu_config tpu = {.num_cores_per_replica = LS_SOME(2),
                             .per_host_input = LS_INPUT_BROADCAST,
                             .iterations_per_loop = "3"};
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:1x1,cores=2"}, &resolver));
  expect_ok(ls_tpu_connect(resolver));
  expect_ok(ls_tpu_initialize(resolver, NULL));
  estimator_case c = {.way = ON_TPU,
                      .folder = "of-others",
                      .config = {.resolver = resolver, .tpu = &tpu}};
  estimator_case_begin(&c);
  // The end of the input closes what feeds, and what takes.
  assert_int_equal(estimator_case_train(&c, 9).step, 4);
  assert_int_equal(estimator_case_train(&c, 7).step, 7);
  int64_t rows = 0, again = 0;
  const int64_t first = predict_all(&c, &rows);
  assert_int_equal(rows, 96);
  for (int early = 0; early < 2; ++early) {
    if (early) {
      ls_predictions *p = estimator_predict(&c, (ls_estimator_prediction){0});
      ls_nest row = ls_none();
      expect_ok(ls_predictions_next(p, &row));
      ls_nest_release(row);
      expect_ok(ls_predictions_close(p));
    }
    assert_int_equal(predict_all(&c, &again), first);
    assert_int_equal(again, rows);
  }
  estimator_case_end(&c);
  expect_ok(ls_tpu_shutdown(resolver));
}

TEST(what_cores_learn_a_cpu_uses) {
  LS_SPEC("E178");
  for (int replicas = 1; replicas <= 3; replicas += 2) {
    float told[3][55 * ESTIMATOR_CLASSES];
    for (int way = 0; way < 3; ++way) {
      LS_OWN(estimator_case,
             c) = {.way = way == 0 ? ON_TPU : ON_CPU,
                   .replicas = way == 0 ? replicas : 1,
                   .repeats = way == 0,
                   .folder = way < 2 ? "learned" : "not-learned",
                   .goes_on = way == 1};
      LS_OWN(ls_nest, row) = ls_none();
      estimator_case_begin(&c);
      if (way == 0) (void)estimator_case_train(&c, 10);
      c.repeats = false;
      c.examples = 55;
      ls_predictions *p = estimator_predict(&c, (ls_estimator_prediction){0});
      for (int k = 0; k < 55; ++k) {
        expect_ok(ls_predictions_next(p, &row));
        memcpy(
            told[way] + k * ESTIMATOR_CLASSES,
            ls_array_data(ls_nest_as_array(ls_nest_find(row, "probabilities"))),
            sizeof(float) * ESTIMATOR_CLASSES);
      }
      expect_ok(ls_predictions_close(p));
    }
    assert_memory_equal(told[0], told[1], sizeof(told[0]));
    assert_memory_not_equal(told[0], told[2], sizeof(told[0]));
  }
}

// ---- What is refused on the way --------------------------------------------
typedef struct asked {
  estimator_case setup;
  ls_predictions *predictions;
  ls_nest row;
} asked;

static ls_status begin_asking(void *user) {
  asked *self = user;
  self->setup.folder = "asked";
  estimator_case_begin(&self->setup);
  self->predictions =
      estimator_predict(&self->setup, (ls_estimator_prediction){0});
  self->row = ls_none();
  return ls_predictions_next(self->predictions, &self->row);
}

static ls_status ask(void *user) {
  asked *self = user;
  return ls_predictions_next(self->predictions, &self->row);
}

static double row_of(void *user) {
  const asked *self = user;
  const ls_nest first = ls_nest_find(self->row, "probabilities");
  return ls_array_f64(ls_nest_as_array(first), 0);
}

static void end_asking(void *user) {
  asked *self = user;
  ls_nest_release(self->row);
  expect_ok(ls_predictions_close(self->predictions));
  estimator_case_end(&self->setup);
}

// The row that there was no memory for is the next one.
TEST(no_row_is_lost_with_the_memory_for_it) {
  refuse_each(&(fault_scenario){.name = "a row",
                                .size = sizeof(asked),
                                .begin = begin_asking,
                                .act = ask,
                                .outcome = row_of,
                                .end = end_asking});
}

static ls_status fail_at_end(void *user, ls_run_context *context) {
  (void)user, (void)context;
  return LS_STATUS(LS_OUT_OF_RANGE, "of the hook");
}

TEST(a_hook_that_fails_at_the_end_is_told_of) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_hook, hook) = NULL;
    ls_nest row = ls_none();
    ls_status status = ls_ok();
    c.folder = "fails-at-end";
    estimator_case_begin(&c);
    expect_ok(ls_hook_create(&(ls_hook_options){.end = fail_at_end}, &hook));
    ls_predictions *predictions = estimator_predict(
        &c, (ls_estimator_prediction){.hooks = &hook, .num_hooks = 1});
    while (ls_status_is_ok(status))
      status = ls_predictions_next(predictions, &row);
    ls_nest_release(row);
    expect_status(status, LS_OUT_OF_RANGE, "of the hook");
    expect_status(ls_predictions_close(predictions), LS_OUT_OF_RANGE,
                  "of the hook");
  }
}

// ---- What they begin with --------------------------------------------------
static void count_fresh(void *user, const ls_log_line *line) {
  if (strstr(line->text, "predict begins with initial values") != NULL)
    ++*(int *)user;
}

TEST(that_nothing_was_trained_is_told) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    int lines = 0;
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = count_fresh, .log_user = &lines});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    int64_t rows = 0;
    c.folder = "fresh";
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    (void)predict_all(&c, &rows);
    assert_int_equal(lines, 1);
    (void)estimator_case_train(&c, 2);
    (void)predict_all(&c, &rows);
    assert_int_equal(lines, 1);
  }
}

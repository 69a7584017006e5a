// SPDX-License-Identifier: Apache-2.0
//
// A store publishes: who reads while others write sees whole values, each the
// one before or behind the last, and of two that write none is lost.
#include "distribute/own.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/sanitizer.h"
#include "support/writers.h"

enum {
  SIZE = 32 << 10,
  READS = LS_SANITIZED ? 150 : 2500,  // In each way.
  THREADS = 4,
  ADDS = LS_SANITIZED ? 200 : 1000
};

// ---- Reading beside a writer -----------------------------------------------
typedef double read_fn(const writer *w, ls_variable *variable);

// Every read is whole, and none goes back.
static void read_many(const writer *w, read_fn *read) {
  double value = 0, steps = 0;
  int torn = 0, back = 0;
  for (int i = 0; i < READS; ++i) {
    const double now = read(w, w->value), step = read(w, w->steps);
    torn += now < 0;
    back += now < value || step < steps || step + 1 < value;
    value = now;
    steps = step;
  }
  assert_int_equal(torn, 0);
  assert_int_equal(back, 0);
}

static void read_beside(way_to_write way, read_fn *read) {
  writing thread;
  LS_OWN_BEGUN(writer, w, writer_init, way, SIZE, NULL);
  expect_ok(writer_step(&w));
  writing_begin(&thread, &w, 0);
  read_many(&w, read);
  writing_end(&thread);
  assert_true(writer_value(&w, w.value) == thread.done + 1);
  assert_true(writer_value(&w, w.steps) == thread.done + 1);
}

TEST(a_read_beside_calls_is_whole) { read_beside(IN_FUNCTION, writer_value); }

TEST(a_read_beside_runs_is_whole) { read_beside(IN_SESSION, writer_value); }

TEST(a_read_beside_eager_writes_is_whole) {
  read_beside(IN_EAGER, writer_value);
}

static double read_in_eager(const writer *w, ls_variable *variable) {
  (void)w;
  expect_ok(ls_frame_begin());
  ls_array *array = tensor_array(ls_variable_read(variable));
  const double value = whole_value(array);
  ls_array_release(array);
  expect_ok(ls_frame_end(NULL));
  return value;
}

TEST(an_eager_read_beside_calls_is_whole) {
  read_beside(IN_FUNCTION, read_in_eager);
}

// ---- Programs that read ----------------------------------------------------
static ls_nest build_reads(ls_nest args, void *user) {
  (void)args;
  const writer *w = user;
  return LS_LIST(ls_leaf(ls_variable_read(w->value)),
                 ls_leaf(ls_variable_read(w->steps)));
}

// What one run reads is of one moment.
TEST(a_program_that_reads_sees_one_moment) {
  LS_OWN(writer, w) = {0};
  writing thread;
  LS_OWN(ls_nest, result) = ls_none();
  writer_init(&w, IN_FUNCTION, SIZE, NULL);
  expect_ok(writer_step(&w));
  LS_OWN(ls_function, reader) = unnamed_function(build_reads, &w);
  writing_begin(&thread, &w, 0);
  int wrong = 0;
  for (int i = 0; i < READS; ++i) {
    expect_ok(ls_function_call(reader, ls_none(), &result));
    wrong += whole_value(ls_nest_as_array(ls_nest_item(result, 0))) !=
             ls_array_f64(ls_nest_as_array(ls_nest_item(result, 1)), 0);
  }
  writing_end(&thread);
  assert_int_equal(wrong, 0);
}

// ---- Writing beside a writer -----------------------------------------------
static void add_together(way_to_write way) {
  writing threads[THREADS];
  LS_OWN_BEGUN(writer, w, writer_init, way, SIZE, NULL);
  for (int i = 0; i < THREADS; ++i)
    writing_begin(&threads[i], &w, ADDS);
  for (int i = 0; i < THREADS; ++i)
    writing_end(&threads[i]);
  assert_true(writer_value(&w, w.value) == THREADS * ADDS);
  assert_true(writer_value(&w, w.steps) == THREADS * ADDS);
}

TEST(no_update_of_calls_is_lost) { add_together(IN_FUNCTION); }

TEST(no_update_of_runs_is_lost) { add_together(IN_SESSION); }

TEST(no_update_in_eager_is_lost) { add_together(IN_EAGER); }

// Calls of two functions and eager writes, on one variable.
TEST(no_update_is_lost_among_ways) {
  writer first = {0}, second = {0}, third = {0};
  writing threads[3];
  writer_init(&first, IN_FUNCTION, 300, NULL);
  writer *all[] = {&first, &second, &third};
  for (int i = 1; i < 3; ++i) {
    writer_init(all[i], i == 1 ? IN_FUNCTION : IN_EAGER, 300, NULL);
    ls_variable_release(all[i]->steps);
    all[i]->steps = ls_variable_retain(first.steps);
  }
  for (int i = 0; i < 3; ++i)
    writing_begin(&threads[i], all[i], ADDS);
  for (int i = 0; i < 3; ++i)
    writing_end(&threads[i]);
  assert_true(writer_value(&first, first.steps) == 3 * ADDS);
  for (int i = 0; i < 3; ++i) {
    assert_true(writer_value(all[i], all[i]->value) == ADDS);
    writer_deinit(all[i]);
  }
}

// ---- Distributed variables -------------------------------------------------
typedef struct split_and_join {
  ls_variable *variable;
  bool failed;
} split_and_join;

// One for all, then one each.
static void *write_as_one_and_each(void *user) {
  split_and_join *s = user;
  LS_OWN(ls_array, five) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){5});
  LS_OWN(ls_array, seven) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){7});
  for (int i = 0; i < 300 && !s->failed; ++i) {
    LS_OWN(ls_status, status) = ls_variable_set_value(s->variable, five);
    if (ls_status_is_ok(status))
      status =
          ls_variable_set_value(ls_variable_component(s->variable, 1), seven);
    s->failed = !ls_status_is_ok(status);
  }
  return NULL;
}

TEST(a_program_fits_however_values_are_stored_meanwhile) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, variable) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (double[]){5});
  }
  writer w = {.value = ls_variable_component(variable, 0),
              .steps = ls_variable_component(variable, 1)};
  LS_OWN(ls_function, reader) = unnamed_function(build_reads, &w);
  split_and_join s = {.variable = variable};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, write_as_one_and_each, &s), 0);
  LS_OWN(ls_nest, result) = ls_none();
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    expect_ok(ls_function_call(reader, ls_none(), &result));
    const double first =
        ls_array_f64(ls_nest_as_array(ls_nest_item(result, 0)), 0);
    const double second =
        ls_array_f64(ls_nest_as_array(ls_nest_item(result, 1)), 0);
    wrong += first != 5 || (second != 5 && second != 7);
  }
  pthread_join(thread, NULL);
  assert_false(s.failed);
  assert_int_equal(wrong, 0);
}

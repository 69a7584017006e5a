// SPDX-License-Identifier: Apache-2.0
//
// What headers promise about threads, from several at once. ThreadSanitizer
// looks at it in its preset; the numbers are right in every one.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { THREADS = 4, ROUNDS = 12 };

typedef struct team {
  ls_function *function;
  ls_session *session;
  ls_strategy *strategy;
  ls_variable *variable;
  ls_tensor fed, fetched;
  ls_op init;
  void (*work)(const struct team *team, int thread);
  pthread_barrier_t barrier;
} team;

typedef struct member {
  team *team;
  int number;
} member;

static void *run_member(void *user) {
  const member *m = user;
  pthread_barrier_wait(&m->team->barrier);
  m->team->work(m->team, m->number);
  return NULL;
}

static void run_together(team *t) {
  pthread_t threads[THREADS];
  member members[THREADS];
  pthread_barrier_init(&t->barrier, NULL, THREADS);
  for (int i = 0; i < THREADS; ++i) {
    members[i] = (member){t, i};
    assert_int_equal(pthread_create(&threads[i], NULL, run_member, &members[i]),
                     0);
  }
  for (int i = 0; i < THREADS; ++i)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&t->barrier);
}

static ls_array *row(int64_t size, double value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(size), &array));
  for (int64_t i = 0; i < size; ++i)
    ls_array_set_f64(array, i, value);
  return array;
}

// ---- Functions -------------------------------------------------------------
static ls_nest twice_and_variable(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_add(ls_mul_scalar(x, 2), ls_variable_read(user)));
}

static void call_and_clear(const team *t, int thread) {
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < ROUNDS; ++i) {
    const int64_t size = 1 + (thread + i) % 3;
    LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(row(size, i)));
    expect_ok(ls_function_call(t->function, args, &result));
    ls_array *made = ls_nest_as_array(result);
    assert_int_equal(ls_array_num_elements(made), size);
    assert_true(ls_array_f64(made, size - 1) == 2 * i + 5);
    LS_OWN(printed, text) = NULL;
    ls_status_free(ls_function_print_lowered(t->function, &text));
    assert_true(ls_function_num_traces(t->function) > 0);
    if (i % 4 == thread) ls_function_clear(t->function);
  }
}

TEST(a_function_is_called_and_cleared_from_several_threads) {
  team t = {.work = call_and_clear,
            .variable =
                variable_of("v", LS_DTYPE_F32, LS_SCALAR, (double[]){5})};
  expect_ok(ls_function_create(
      &(ls_function_options){.call = twice_and_variable, .user = t.variable},
      &t.function));
  run_together(&t);
  ls_function_release(t.function);
  ls_variable_release(t.variable);
}

// ---- Sessions --------------------------------------------------------------
static void run_session(const team *t, int thread) {
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < ROUNDS; ++i) {
    const int64_t size = 1 + (thread + i) % 3;
    LS_OWN(ls_array, value) = row(size, i);
    const ls_feed feed = {t->fed, value};
    expect_ok(
        ls_session_run(t->session, ls_leaf(t->fetched), &feed, 1, &result));
    assert_true(ls_array_f64(ls_nest_as_array(result), size - 1) == 2 * i + 5);
    LS_OWN(ls_array, read) = session_array(t->session, t->variable);
    assert_true(ls_array_f64(read, 0) == 5);
  }
}

TEST(a_session_runs_in_several_threads) {
  team t = {.work = run_session};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    t.variable = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (double[]){5});
    t.fed = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM), "x");
    t.fetched = ls_add(ls_mul_scalar(t.fed, 2), ls_variable_read(t.variable));
    t.init = ls_global_initializer();
  }
  expect_ok(ls_session_create(graph, &t.session));
  ls_nest_release(session_results(t.session, ls_nest_op(t.init)));
  run_together(&t);
  ls_session_destroy(t.session);
  ls_variable_release(t.variable);
}

// Many tensors whose names nobody has asked for yet.
enum { REFUSED = 50000 };
static ls_tensor refused[REFUSED];

// Feeds each tensor twice, or once without a value; each thread begins with
// others.
static void fail_runs(const team *t, int thread) {
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_array, value) = row(1, thread);
  for (int k = 0; k < REFUSED; ++k) {
    const int i = (k + thread * REFUSED / THREADS) % REFUSED;
    const bool twice = i % 16 > 0;
    const ls_feed feeds[] = {{refused[i], twice ? value : NULL},
                             {refused[i], value}};
    char name[32];
    snprintf(name, sizeof(name), "refused%d:0'", i);
    expect_status(
        ls_session_run(t->session, ls_leaf(t->fetched), feeds, 2, &result),
        LS_INVALID_ARGUMENT, name);
  }
}

TEST(runs_of_a_session_are_refused_in_several_threads) {
  team t = {.work = fail_runs};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    t.fetched = ls_scalar(LS_DTYPE_F32, 0);
    LS_NAME_SCOPE("a_scope_with_a_name_so_long_that_names_take_some_time");
    for (int i = 0; i < REFUSED; ++i) {
      char name[32];
      snprintf(name, sizeof(name), "refused%d", i);
      refused[i] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(1), name);
    }
  }
  t.session = session_of(graph);
  run_together(&t);
  ls_session_destroy(t.session);
}

// ---- Strategies ------------------------------------------------------------
static ls_nest number_and_sum(ls_nest args, void *user) {
  (void)user;
  const ls_nest own = ls_nest_item(args, 0);
  ls_tensor x = own.kind == LS_KIND_TENSOR
                    ? own.as.tensor
                    : ls_scalar(LS_DTYPE_F32, ls_nest_number(own));
  x = ls_add_scalar(x, 1);
  const ls_nest sum =
      ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, ls_leaf(x));
  if (sum.kind != LS_KIND_TENSOR) return sum;
  return ls_leaf(ls_add(ls_mul_scalar(x, 10), sum.as.tensor));
}

static void run_strategy(const team *t, int thread) {
  LS_OWN(ls_nest, traced) = ls_none();
  for (int i = 0; i < ROUNDS / 2; ++i) {
    const double values[] = {i, i + thread};
    const ls_nest args =
        LS_LIST(ls_strategy_num_replicas(t->strategy) == 2
                    ? distributed_numbers(LS_PER_REPLICA, values, 2)
                    : ls_none());
    expect_ok(ls_frame_begin());
    ls_nest plain =
        strategy_results(t->strategy, ls_plain(number_and_sum, NULL), args);
    const double sum = 2 * i + thread + 2;
    const ls_nest last = plain.kind == LS_KIND_DISTRIBUTED
                             ? ls_distributed_component(plain, 1)
                             : plain;
    assert_true(number_of(last) == 10 * (i + thread + 1) + sum);
    ls_nest_release(plain);
    ls_nest_release(args);
    expect_ok(ls_frame_end(NULL));
    LS_OWN(ls_array, batch) = row(2, i);
    ls_nest split = ls_none();
    expect_ok(ls_strategy_split(t->strategy, batch, &split));
    LS_OWN(ls_nest, batches) = LS_LIST(split);
    expect_ok(
        ls_strategy_run(t->strategy, ls_traced(t->function), batches, &traced));
    assert_true(
        ls_array_f64(ls_nest_as_array(ls_distributed_component(traced, 1)),
                     0) == 10 * (i + 1) + 2 * (i + 1));
    if (i % 3 == thread) ls_function_clear(t->function);
  }
}

TEST(a_strategy_runs_in_several_threads) {
  team t = {.work = run_strategy, .strategy = mirrored_of(2)};
  expect_ok(ls_function_create(&(ls_function_options){.call = number_and_sum},
                               &t.function));
  run_together(&t);
  ls_function_release(t.function);
  ls_strategy_release(t.strategy);
}

// ---- Eager -----------------------------------------------------------------
static void compute_in_eager(const team *t, int thread) {
  for (int i = 0; i < ROUNDS; ++i) {
    expect_ok(ls_frame_begin());
    ls_tape *tape = NULL;
    ls_variable *own =
        variable_of("own", LS_DTYPE_F32, LS_SCALAR, (double[]){thread});
    expect_ok(ls_tape_begin(&tape));
    const ls_tensor y =
        ls_mul(ls_square(ls_variable_read(own)), ls_variable_read(t->variable));
    expect_ok(ls_tape_end(tape));
    ls_nest x = ls_nest_variable(own), gradient = ls_none();
    expect_ok(ls_tape_gradients(tape, ls_leaf(y), &x, 1, &gradient));
    assert_true(item_of(gradient.as.tensor) == 2 * thread * 5);
    ls_tape_release(tape);
    expect_ok(ls_tensor_status(ls_variable_assign_add(own, y)));
    const ls_random_options options = {.seed = thread};
    const ls_tensor draw =
        ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(4), 0, 1, &options);
    expect_ok(ls_tensor_status(draw));
    ls_nest_release(x);
    ls_variable_release(own);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(eager_runs_in_several_threads) {
  team t = {.work = compute_in_eager,
            .variable =
                variable_of("v", LS_DTYPE_F32, LS_SCALAR, (double[]){5})};
  run_together(&t);
  ls_variable_release(t.variable);
}

// ---- Graphs ----------------------------------------------------------------
static void build_and_run(const team *t, int thread) {
  (void)t;
  for (int i = 0; i < ROUNDS / 3; ++i) {
    LS_OWN(ls_graph, graph) = graph_named("own");
    ls_tensor y = ls_failed_tensor();
    {
      LS_GRAPH_SCOPE(graph);
      {
        LS_NAME_SCOPE("scope");
        y = ls_add_scalar(ls_scalar(LS_DTYPE_F32, thread), i);
      }
    }
    LS_OWN(ls_session, session) = session_of(graph);
    LS_OWN(ls_nest, result) = session_results(session, ls_leaf(y));
    assert_true(number_of(result) == thread + i);
  }
}

TEST(several_threads_build_a_graph_each) {
  run_together(&(team){.work = build_and_run});
}

// ---- The default runtime ---------------------------------------------------
static void begin_with_the_default_runtime(const team *t, int thread) {
  (void)t;
  assert_true(item_of(ls_add_scalar(ls_scalar(LS_DTYPE_F32, thread), 1)) ==
              thread + 1);
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  assert_non_null(usual);
}

TEST(several_threads_begin_with_the_default_runtime) {
  expect_ok(ls_runtime_destroy(NULL));
  run_together(&(team){.work = begin_with_the_default_runtime});
}

// ---- Results of strings ----------------------------------------------------
// So many strings that another thread runs while they are copied.
enum { STRINGS = 60000, DIGITS = 8 };

static ls_status infer_strings(const ls_object *state, const ls_type *in,
                               size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){LS_DTYPE_STRING, LS_SHAPE(STRINGS)};
  *num_out = 1;
  return ls_ok();
}

static void print_digits(int32_t number, char text[DIGITS + 1]) {
  snprintf(text, DIGITS + 1, "%08d", (int)number);
}

static ls_status repeat_number(ls_host_call *call) {
  char text[DIGITS + 1];
  print_digits(*(const int32_t *)call->inputs[0], text);
  ls_bytes *out = call->outputs[0];
  for (int i = 0; i < STRINGS; ++i)
    out[i] = (ls_bytes){text, DIGITS};
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel repeating = {.name = "repeating",
                                         .infer = infer_strings,
                                         .start = repeat_number,
                                         .flags = LS_HOST_INLINE |
                                                  LS_HOST_MAY_BE_DROPPED};

static ls_tensor repeated(ls_tensor number) {
  return ls_op_output(ls_host_call_add(&repeating, NULL, &number, 1), 0);
}

static void expect_repeated(const ls_array *array, int32_t number) {
  const ls_bytes *strings = ls_array_data(array);
  char text[DIGITS + 1];
  print_digits(number, text);
  for (int i = 0; i < STRINGS; ++i)
    if (strings[i].size != DIGITS || memcmp(strings[i].data, text, DIGITS) != 0)
      fail_msg("string %d is '%.*s', not '%s'", i, (int)strings[i].size,
               strings[i].data, text);
}

static ls_array *number_array(int32_t number) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &number, &array));
  return array;
}

static ls_nest give_repeated(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(repeated(ls_nest_tensor(args, 0)));
}

static void call_for_strings(const team *t, int thread) {
  LS_OWN(ls_nest, result) = ls_none();
  for (int32_t i = 0; i < ROUNDS; ++i) {
    const int32_t number = 1000 * thread + i;
    LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(number_array(number)));
    expect_ok(ls_function_call(t->function, args, &result));
    expect_repeated(ls_nest_as_array(result), number);
  }
}

TEST(strings_of_a_call_stay_those_of_its_thread) {
  team t = {.work = call_for_strings,
            .function = unnamed_function(give_repeated, NULL)};
  run_together(&t);
  ls_function_release(t.function);
}

static void run_for_strings(const team *t, int thread) {
  LS_OWN(ls_nest, result) = ls_none();
  for (int32_t i = 0; i < ROUNDS; ++i) {
    const int32_t number = 1000 * thread + i;
    LS_OWN(ls_array, value) = number_array(number);
    const ls_feed feed = {t->fed, value};
    expect_ok(
        ls_session_run(t->session, ls_leaf(t->fetched), &feed, 1, &result));
    expect_repeated(ls_nest_as_array(result), number);
  }
}

TEST(strings_of_a_session_run_stay_those_of_its_thread) {
  team t = {.work = run_for_strings};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    t.fed = ls_placeholder(LS_DTYPE_I32, LS_SCALAR, "x");
    t.fetched = repeated(t.fed);
  }
  t.session = session_of(graph);
  run_together(&t);
  ls_session_destroy(t.session);
}

static void compute_strings(const team *t, int thread) {
  (void)t;
  for (int32_t i = 0; i < ROUNDS; ++i) {
    const int32_t number = 1000 * thread + i;
    LS_OWN(ls_array, value) = number_array(number);
    LS_OWN(ls_array, strings) = NULL;
    expect_ok(ls_frame_begin());
    expect_ok(ls_tensor_value(repeated(ls_constant(value)), &strings));
    expect_ok(ls_frame_end(NULL));
    expect_repeated(strings, number);
  }
}

TEST(strings_of_an_eager_op_stay_those_of_its_thread) {
  run_together(&(team){.work = compute_strings});
}

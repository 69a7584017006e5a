// SPDX-License-Identifier: Apache-2.0
//
// How compiling a computation goes can be fetched before it runs: then it is
// compiled, once, and not run; and what is fetched of it later takes that.
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/trace.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/pod_runs.h"
#include "support/spec.h"
#include "support/trace_events.h"

// ---- A computation that is asked about ------------------------------------
typedef struct asked {
  counted world;
  memory_files files;
  ls_trace *trace;
  computation c;
  int replicas;
  ls_variable *runs;
  ls_tensor x, told;
  ls_array *fed;
} asked;

// The sum over all of x + r, its own, and a count of runs that nobody returns.
static ls_nest add_up(ls_nest args, void *user) {
  const asked *a = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_variable_assign_add(a->runs, f32_of(1));
  return LS_LIST(ls_leaf(ls_reduce_sum(x, LS_ALL_AXES)), ls_leaf(ls_neg(x)),
                 ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x)));
}

static void open_asked(asked *a, int replicas, ls_shape shape, ls_callback fn,
                       const ls_replicate_options *options) {
  ls_nest each[4];
  *a = (asked){.replicas = replicas};
  const ls_file_system files = memory_files_system(&a->files);
  a->world = counted_begin_with((ls_runtime_options){.file_system = &files});
  computation_open(&a->c);
  a->x = ls_placeholder(LS_DTYPE_F32, shape, "x");
  a->runs = variable_of("runs", LS_DTYPE_F32, LS_SCALAR, (double[]){0});
  for (int r = 0; r < replicas; ++r)
    each[r] = LS_LIST(ls_leaf(ls_add(a->x, f32_of(r))));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, each, (size_t)replicas);
  expect_ok(ls_split_compile_and_replicate(fn, a, inputs, options, &a->told,
                                           &a->c.outputs));
  computation_initialize(&a->c, a->runs);
  a->fed = array_of(LS_DTYPE_F32, LS_SHAPE(2), (const double[]){1, 2});
  expect_ok(ls_trace_begin(ls_runtime_current(),
                           &(ls_trace_options){.path = "t.json"}, &a->trace));
}

// As many programs were asked for since it was opened.
static void close_asked(asked *a, size_t compiles) {
  static trace_events all;
  ls_trace_end(a->trace);
  expect_ok(ls_trace_write(a->trace, NULL));
  ls_trace_destroy(a->trace);
  trace_events_read(&all, &a->files, "t.json");
  assert_int_equal(trace_events_count(&all, "compile"), compiles);
  trace_events_drop(&all);
  ls_array_release(a->fed);
  ls_variable_release(a->runs);
  computation_close(&a->c);
  counted_end(&a->world);
  memory_files_clear(&a->files);
}

static ls_status fetch(asked *a, ls_nest fetches, bool feeds, ls_nest *result) {
  const ls_feed feed = {a->x, a->fed};
  *result = ls_none();
  return ls_session_run(a->c.session, fetches, &feed, feeds, result);
}

static ls_nest output(const asked *a, int r, size_t i) {
  return ls_nest_item(ls_nest_item(a->c.outputs, (size_t)r), i);
}

static void expect_told(asked *a, bool feeds, ls_code code, const char *says) {
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(fetch(a, ls_leaf(a->told), feeds, &result));
  const ls_bytes *told = ls_array_data(ls_nest_as_array(result));
  if (code == LS_OK) {
    assert_int_equal(told->size, 0);
  } else {
    // Field 1, a number; field 2, a text.
    const unsigned char *bytes = (const unsigned char *)told->data;
    assert_true(told->size > 4 && bytes[0] == 8 && bytes[2] == 18);
    assert_int_equal(bytes[1], code);
    char text[1024] = {0};
    assert_true(told->size < sizeof(text));
    memcpy(text, told->data, told->size);
    assert_non_null(strstr(text + 3, says));
  }
}

static void expect_runs(asked *a, double runs) {
  LS_OWN(ls_array, value) = session_array(a->c.session, a->runs);
  assert_true(ls_array_f64(value, 0) == runs);
}

// Fetches of one replica's outputs in any order; the values for x = (1, 2).
static void expect_outputs(asked *a, int r) {
  ls_nest result;
  LS_OWN(ls_nest, some) = LS_LIST(output(a, r, 1), output(a, r, 0));
  expect_ok(fetch(a, some, true, &result));
  const ls_array *own = ls_nest_as_array(ls_nest_item(result, 0));
  assert_true(ls_array_f64(own, 0) == -1 - r && ls_array_f64(own, 1) == -2 - r);
  assert_true(ls_nest_number(ls_nest_item(result, 1)) == 3 + 2 * r);
  ls_nest_release(result);
  expect_ok(fetch(a, output(a, r, 2), true, &result));
  const int n = a->replicas;
  assert_true(ls_array_f64(ls_nest_as_array(result), 1) ==
              2 * n + n * (n - 1) / 2);
  ls_nest_release(result);
}

// ---- Compiled once --------------------------------------------------------
TEST(what_was_asked_about_is_compiled_once) {
  LS_SPEC("O114");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    asked a;
    open_asked(&a, replicas, LS_SHAPE(2), add_up, NULL);
    // Without what it will be fed: its size is known.
    expect_told(&a, false, LS_OK, NULL);
    expect_told(&a, true, LS_OK, NULL);
    expect_runs(&a, 0);
    for (int r = 0; r < replicas; ++r)
      expect_outputs(&a, r);
    expect_runs(&a, 2 * replicas);
    // What is told, twice, and the computation.
    close_asked(&a, 3);
  }
}

// Twenty values of each replica, all of which the program computes.
static ls_nest make_twenty(ls_nest args, void *user) {
  (void)user;
  ls_nest made[20];
  for (int i = 0; i < 20; ++i)
    made[i] = ls_leaf(ls_add(ls_nest_tensor(args, 0), f32_of(i)));
  return ls_nest_sequence(LS_KIND_LIST, made, 20);
}

TEST(one_value_of_many_is_fetched_among_many_nones) {
  asked a;
  ls_nest leaves[46] = {{0}}, result;
  open_asked(&a, 2, LS_SHAPE(2), make_twenty, NULL);
  expect_told(&a, true, LS_OK, NULL);
  leaves[0] = output(&a, 1, 3);
  const ls_nest fetches = ls_nest_sequence(LS_KIND_LIST, leaves, 46);
  expect_ok(fetch(&a, fetches, true, &result));
  ls_nest_release(fetches);
  assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(result, 0)), 1) == 6);
  ls_nest_release(result);
  close_asked(&a, 2);
}

TEST(who_does_not_ask_compiles_what_is_fetched) {
  asked a;
  open_asked(&a, 2, LS_SHAPE(2), add_up, NULL);
  expect_outputs(&a, 0);
  // With something else it is another program.
  expect_told(&a, true, LS_OK, NULL);
  ls_nest result;
  const ls_nest both = LS_LIST(output(&a, 0, 0), ls_leaf(a.x));
  expect_ok(fetch(&a, both, true, &result));
  ls_nest_release(both);
  assert_true(ls_nest_number(ls_nest_item(result, 0)) == 3);
  ls_nest_release(result);
  // Asking along with it is part of it.
  const ls_nest along = LS_LIST(ls_leaf(a.told), output(&a, 1, 0));
  expect_ok(fetch(&a, along, true, &result));
  ls_nest_release(along);
  assert_true(ls_nest_number(ls_nest_item(result, 1)) == 5);
  ls_nest_release(result);
  close_asked(&a, 2 + 2 + 1 + 1);
}

TEST(another_size_is_another_program) {
  LS_SPEC("O114");
  asked a;
  open_asked(&a, 2, LS_SHAPE(-1), add_up, NULL);
  expect_told(&a, false, LS_INVALID_ARGUMENT, "needed but was not fed");
  expect_told(&a, true, LS_OK, NULL);
  expect_outputs(&a, 1);
  ls_array_release(a.fed);
  a.fed = array_of(LS_DTYPE_F32, LS_SHAPE(3), (const double[]){1, 2, 3});
  ls_nest result;
  expect_ok(fetch(&a, output(&a, 0, 0), true, &result));
  assert_true(ls_nest_number(result) == 6);
  ls_nest_release(result);
  expect_runs(&a, 3);
  close_asked(&a, 2 + 2 + 1);
}

// ---- What fails -----------------------------------------------------------
static ls_nest print_it(ls_nest args, void *user) {
  (void)user;
  ls_print("x is", ls_nest_tensor(args, 0));
  return ls_nest_retain(args);
}

TEST(a_failure_is_told_by_code_and_text) {
  LS_SPEC("O114");
  for (int replicas = 1; replicas <= 2; ++replicas) {
    asked a;
    ls_nest result;
    open_asked(&a, replicas, LS_SHAPE(2), print_it, NULL);
    expect_told(&a, true, LS_INVALID_ARGUMENT, "has no form for a TPU");
    expect_status(fetch(&a, output(&a, 0, 0), true, &result),
                  LS_INVALID_ARGUMENT, "has no form for a TPU");
    close_asked(&a, 1);
  }
}

// A failure that goes away: who asks again is told so.
TEST(who_asks_again_is_told_how_it_is_now) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, (ls_runtime_options){0});
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  ls_tensor told;
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    expect_ok(ls_split_compile_and_replicate(give_args, NULL, inputs, NULL,
                                             &told, &outputs));
  }
  expect_ok(ls_pod_inject(
      f.pod, &(ls_pod_fault){.kind = LS_POD_COMPILE_FAILS, .text = "broken"}));
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_session_run(f.session, ls_leaf(told), NULL, 0, &result));
    const ls_bytes *bytes = ls_array_data(ls_nest_as_array(result));
    assert_int_equal(bytes->size > 0, i == 0);
  }
  expect_ok(ls_session_run(f.session, outputs, NULL, 0, &result));
  assert_true(ls_nest_number(ls_nest_item(ls_nest_item(result, 1), 0)) == 2);
}

// ---- Without a TPU --------------------------------------------------------
TEST(without_a_tpu_there_is_an_op_and_no_text) {
  LS_SPEC("O101 O114");
  asked a;
  ls_nest result;
  open_asked(&a, 2, LS_SHAPE(2), print_it,
             &(ls_replicate_options){.use_tpu = LS_FLAG_OFF});
  assert_true(a.told.ref == 0);
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op_named(a.c.graph, "tpu_replicate_metadata"), "use_tpu",
                       &attr));
  assert_int_equal(attr->as.i, 0);
  const ls_op op = op_named(a.c.graph, "compilation_status");
  assert_string_equal(ls_op_type_name(op), "no_op");
  expect_ok(fetch(&a, ls_nest_op(op), true, &result));
  // What a TPU has no form for runs where there is none.
  expect_ok(fetch(&a, output(&a, 1, 0), true, &result));
  assert_true(ls_array_f64(ls_nest_as_array(result), 0) == 2);
  ls_nest_release(result);
  close_asked(&a, 2);
}

// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations among other things: in each other, in loops, with
// functions, variables and logs.
#include <stdio.h>
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/replicate/replicate.h"

// ---- Logs ------------------------------------------------------------------
enum { MOST_LINES = 8 };
typedef struct logs {
  ls_runtime *runtime, *before;
  ls_log_level levels[MOST_LINES];
  char lines[MOST_LINES][600];
  int count;
} logs;

static void keep_line(void *user, const ls_log_line *line) {
  logs *l = user;
  if (line->level > LS_LOG_WARNING || strcmp(line->source, "tpu") != 0) return;
  assert_true(l->count < MOST_LINES);
  l->levels[l->count] = line->level;
  snprintf(l->lines[l->count++], sizeof(l->lines[0]), "%s", line->text);
}

static void open_logs(logs *l, int threads) {
  *l = (logs){0};
  expect_ok(ls_runtime_create(&(ls_runtime_options){.log = keep_line,
                                                    .log_user = l,
                                                    .threads = threads},
                              &l->runtime));
  l->before = ls_runtime_make_current(l->runtime);
}

static void close_logs(logs *l) {
  ls_runtime_make_current(l->before);
  expect_ok(ls_runtime_destroy(l->runtime));
}
LS_OWNED_STRUCT(logs, close_logs)

typedef struct prints {
  int inside, outside;
  bool refuses;
} prints;

static ls_nest print_one(ls_nest args, void *user) {
  (void)user;
  return ls_nest_op(ls_print("x", args.as.tensor));
}

static ls_nest print_some(ls_nest args, void *user) {
  const prints *p = user;
  const ls_nest x = ls_nest_item(args, 0);
  for (int i = 0; i < p->inside; ++i)
    ls_print("x", x.as.tensor);
  for (int i = 0; i < p->outside; ++i)
    ls_nest_release(ls_outside_compilation(print_one, NULL, x));
  if (p->refuses) return LS_FAIL(LS_OUT_OF_RANGE, "not today");
  return LS_LIST(ls_nest_retain(x));
}

TEST(what_no_core_runs_is_told_at_the_end) {
  LS_SPEC("O20 O21 O107");
  static const prints rows[] = {{0, 0, false}, {0, 3, false}, {2, 1, false},
                                {5, 0, false}, {7, 0, false}, {2, 0, true}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN_BEGUN(logs, l, open_logs, 1);
    LS_OWN_BEGUN(computation, c, computation_open);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    prints p = rows[i];
    const ls_status status =
        ls_replicate(print_some, &p, inputs, NULL, &c.outputs);
    if (p.refuses)
      expect_status(status, LS_OUT_OF_RANGE, "not today");
    else
      expect_ok(status);
    assert_int_equal(l.count, p.inside == 0 ? 0 : p.inside > 5 ? 2 : 1);
    if (p.inside > 0) {
      char count[20];
      snprintf(count, sizeof(count), "%d unsupported", p.inside);
      assert_int_equal(l.levels[0], LS_LOG_WARNING);
      assert_non_null(strstr(l.lines[0], count));
      assert_non_null(strstr(l.lines[0], "\n  print (print)"));
      assert_non_null(strstr(l.lines[0], "\n  print (print_1)"));
      assert_true((strstr(l.lines[0], "(print_4)") != NULL) == (p.inside >= 5));
      assert_null(strstr(l.lines[0], "(print_5)"));
    }
    if (p.inside > 5) assert_non_null(strstr(l.lines[1], "... and 2 more"));
  }
}

static ls_nest make_placeholder(ls_nest args, void *user) {
  (void)user;
  ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "fed");
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

TEST(a_placeholder_inside_is_an_error_in_the_log) {
  LS_SPEC("O19");
  LS_OWN_BEGUN(logs, l, open_logs, 1);
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, make_placeholder, NULL);
  assert_int_equal(l.count, 1);
  assert_int_equal(l.levels[0], LS_LOG_ERROR);
  assert_non_null(
      strstr(l.lines[0], "fed (placeholder) is not supported on the TPU"));
  // Nobody needs it.
  assert_true(computation_output(&c, 1, 0) == 2);
}

static ls_status cut_in_two(ls_dtype dtype, ls_shape shape, int64_t *parts) {
  (void)dtype;
  (void)shape;
  parts[0] = 2;
  return ls_ok();
}

static ls_nest make_variable(ls_nest args, void *user) {
  expect_ok(
      ls_variable_create(&(ls_variable_options){.name = "cut",
                                                .dtype = LS_DTYPE_F32,
                                                .shape = LS_SHAPE(4),
                                                .partitioner = cut_in_two},
                         user));
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

static ls_nest make_and_refuse(ls_nest args, void *user) {
  ls_nest_release(make_variable(args, user));
  return LS_FAIL(LS_OUT_OF_RANGE, "not today");
}

TEST(variables_inside_are_whole) {
  LS_SPEC("O31 O204 T83");
  for (int refuses = 0; refuses < 2; ++refuses) {
    LS_OWN(logs, l) = {0};
    LS_OWN(computation, c) = {0};
    LS_OWN(ls_variable, v) = NULL;
    ls_variable *other = NULL;
    open_logs(&l, 1);
    computation_open(&c);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    const ls_status status =
        ls_replicate(refuses ? make_and_refuse : make_variable, &v, inputs,
                     NULL, &c.outputs);
    assert_int_equal(ls_status_code(status), refuses ? LS_OUT_OF_RANGE : LS_OK);
    ls_status_free(status);
    assert_int_equal(l.count, 1);
    assert_non_null(strstr(l.lines[0], "partitioner"));
    assert_non_null(strstr(l.lines[0], "'cut'"));
    if (!refuses) {
      // Its ops are none of the computation's, and run outside.
      assert_null(attr_text(ls_variable_initializer(v), "_tpu_replicate"));
      computation_initialize(&c, v);
    }
    // What was said of variables is over.
    expect_status(
        ls_variable_create(&(ls_variable_options){.name = "outside",
                                                  .dtype = LS_DTYPE_F32,
                                                  .shape = LS_SHAPE(4),
                                                  .partitioner = cut_in_two},
                           &other),
        LS_UNIMPLEMENTED, "partitioned");
  }
}

// ---- In each other ---------------------------------------------------------
static ls_nest double_it(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_add(x, x)));
}

static ls_nest replicate_inside(ls_nest args, void *user) {
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_nest_retain(args));
  ls_nest made = ls_none();
  const ls_status status = ls_replicate(double_it, user, inputs, NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(computations_do_not_nest) {
  LS_SPEC("O16");
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  const size_t ops = ls_graph_num_ops(c.graph);
  const ls_status status =
      ls_replicate(replicate_inside, NULL, inputs, NULL, &c.outputs);
  assert_non_null(strstr(ls_status_message(status), "tpu_replicate_metadata"));
  expect_status(status, LS_INVALID_ARGUMENT,
                "TPU computations cannot be nested");
  assert_int_equal(ls_graph_num_ops(c.graph), ops);
}

// ---- In a loop of the graph around -----------------------------------------
typedef struct around {
  ls_tensor step;
  ls_variable *runs;
} around;

static ls_nest add_outer(ls_nest args, void *user) {
  const around *a = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_variable_assign_add(a->runs, f32_of(1));
  return LS_LIST(ls_leaf(
      ls_all_reduce(LS_REDUCE_SUM, ls_add(ls_add(x, a->step), a->step))));
}

static ls_nest below_100(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f32_of(100)));
}

static ls_nest replicate_trip(ls_nest values, void *user) {
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_nest_retain(ls_nest_item(values, 0))),
              LS_LIST(ls_leaf(f32_of(3))));
  ls_nest outputs = ls_none();
  const ls_status status =
      ls_replicate(add_outer, user, inputs, NULL, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest next =
      LS_LIST(ls_nest_retain(ls_nest_item(ls_nest_item(outputs, 0), 0)));
  // One capture stands for what is used twice.
  const ls_graph *body = ls_graph_current();
  size_t captures = 0;
  for (size_t i = 0; i < ls_graph_num_ops(body); ++i)
    captures += strncmp(ls_op_name(ls_graph_op(body, i)), "capture", 7) == 0;
  assert_int_equal(captures, 1);
  ls_nest_release(outputs);
  return next;
}

// x' = (x + 1) + (3 + 1): from 1, each trip adds 5 and a bit.
TEST(in_a_loop_it_runs_each_trip) {
  LS_SPEC("O26 O27 O28 O106 O116");
  computation c;
  computation_open(&c);
  around a = {.step = f32_of(0.5)};
  a.runs = variable_of("runs", LS_DTYPE_F32, LS_SCALAR, (const double[]){0});
  const ls_nest made =
      ls_while(below_100, replicate_trip, &a, LS_LIST(ls_leaf(f32_of(1))), 0);
  double wanted = 1, trips = 0;
  for (; wanted < 100; ++trips)
    wanted = wanted + 1 + 4;
  computation_initialize(&c, a.runs);
  assert_true(computation_fetch(&c, ls_nest_tensor(made, 0)) == wanted);
  ls_array *runs = NULL;
  expect_ok(ls_session_variable_value(c.session, a.runs, &runs));
  assert_true(ls_array_f64(runs, 0) == trips);
  ls_array_release(runs);
  ls_nest_release(made);
  computation_close(&c);
  ls_variable_release(a.runs);
}

// Two graphs have values of one name: each is its own.
static ls_nest same_names(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_identity_named(ls_nest_tensor(args, 0), "same"));
}

static ls_nest add_same(ls_nest args, void *user) {
  return LS_LIST(
      ls_leaf(ls_add(ls_nest_tensor(args, 0), *(const ls_tensor *)user)));
}

static ls_nest replicate_same(ls_nest values, void *user) {
  ls_tensor same = same_names(values, user).as.tensor;
  assert_string_equal(ls_op_name(ls_tensor_op(same)), "same");
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_leaf(same)), LS_LIST(ls_leaf(same)));
  ls_nest outputs = ls_none();
  const ls_status status =
      ls_replicate(add_same, &same, inputs, NULL, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest next =
      LS_LIST(ls_nest_retain(ls_nest_item(ls_nest_item(outputs, 1), 0)));
  ls_nest_release(outputs);
  return next;
}

TEST(values_of_one_name_are_two) {
  LS_SPEC("O28");
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, one) =
      ls_while(below_100, replicate_same, NULL, LS_LIST(ls_leaf(f32_of(1))), 0);
  LS_OWN(ls_nest, three) =
      ls_while(below_100, replicate_same, NULL, LS_LIST(ls_leaf(f32_of(3))), 0);
  assert_true(computation_fetch(&c, ls_nest_tensor(one, 0)) == 128);
  assert_true(computation_fetch(&c, ls_nest_tensor(three, 0)) == 192);
}

// ---- Gradients -------------------------------------------------------------
static ls_nest differentiate(ls_nest args, void *user) {
  const ls_nest x = ls_nest_item(args, 0);
  const ls_nest y =
      ls_leaf(ls_mul(ls_square(x.as.tensor), ls_exp(x.as.tensor)));
  ls_nest made = ls_none();
  expect_ok(ls_gradients(
      &y, 1, &x, 1,
      &(ls_gradient_options){.aggregation = LS_AGGREGATE_EXPERIMENTAL_TREE},
      &made));
  const ls_tpu_context *context = ls_tpu_context_current();
  if (context != NULL) {
    const ls_op metadata = ls_op_control_input(ls_tensor_op(f32_of(1)), 0);
    assert_string_equal(ls_op_name(ls_op_control_input(metadata, 0)),
                        (const char *)user);
    assert_string_equal(ls_op_name(context->pivot), (const char *)user);
  }
  return LS_LIST(made);
}

static ls_nest replicate_gradient(ls_nest values, void *user) {
  (void)user;
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_nest_retain(ls_nest_item(values, 0))),
              LS_LIST(ls_leaf(f32_of(3))));
  LS_OWN(ls_nest, outputs) = ls_none();
  char pivot[] = "cluster/pivot";
  expect_ok(ls_replicate(differentiate, pivot, inputs, NULL, &outputs));
  return LS_LIST(ls_nest_retain(ls_nest_item(ls_nest_item(outputs, 0), 0)));
}

TEST(gradients_inside_are_those_outside) {
  LS_SPEC("O7 O12");
  assert_int_equal(LS_AGGREGATE_ADD_N, 0);
  assert_int_equal(LS_AGGREGATE_DEFAULT, LS_AGGREGATE_ADD_N);
  assert_int_equal(LS_AGGREGATE_EXPERIMENTAL_TREE, 1);
  assert_int_equal(LS_AGGREGATE_EXPERIMENTAL_ACCUMULATE_N, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(f32_of(0.3)));
  LS_OWN(ls_nest, alone) = differentiate(x, NULL);
  // One trip of a loop, in which it is taken.
  LS_OWN(ls_nest, looped) =
      ls_while(below_100, replicate_gradient, NULL, ls_nest_retain(x), 1);
  assert_true(computation_fetch(&c, ls_nest_tensor(alone, 0)) ==
              computation_fetch(&c, ls_nest_tensor(looped, 0)));
}

// ---- Functions -------------------------------------------------------------
static ls_nest cube(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x =
      args.kind == LS_KIND_TENSOR ? args.as.tensor : ls_nest_tensor(args, 0);
  return ls_leaf(ls_mul(ls_mul(x, x), x));
}

static ls_nest cube_outside(ls_nest args, void *user) {
  return ls_outside_compilation(cube, user, ls_nest_item(args, 0));
}

typedef struct functions {
  ls_function *plain, *outside;
  ls_tensor made[3];
} functions;

static ls_nest call_functions(ls_nest args, void *user) {
  functions *f = user;
  ls_nest results[3] = {{0}};
  LS_OWN(ls_nest, inside) = LS_TUPLE(ls_nest_retain(ls_nest_item(args, 0)));
  expect_ok(ls_function_call(f->plain, inside, &results[0]));
  expect_ok(ls_function_call(f->outside, inside, &results[1]));
  expect_ok(ls_function_call(f->outside, inside, &results[2]));
  for (int i = 0; i < 3; ++i)
    f->made[i] = results[i].as.tensor;
  return LS_LIST(results[0], results[1], results[2]);
}

TEST(functions_called_inside_are_part_of_it) {
  LS_SPEC("O13 O45 O79");
  functions f = {.plain = function_of(cube, NULL),
                 .outside = function_of(cube_outside, NULL)};
  computation c;
  computation_open(&c);
  for (int again = 0; again < 2; ++again) {
    computation_replicate(&c, 2, call_functions, &f);
    static const char *const wanted[] = {NULL, "0", "1"};
    for (int i = 0; i < 3; ++i) {
      expect_outside(f.made[i], wanted[i]);
      assert_string_equal(attr_text(ls_tensor_op(f.made[i]), "_tpu_replicate"),
                          again == 0 ? "cluster" : "cluster_1");
      assert_true(computation_output(&c, 1, (size_t)i) == 8);
    }
  }
  computation_close(&c);
  // Others see nothing of that.
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){3})));
  LS_OWN(ls_nest, result) = call_results(f.outside, args);
  assert_true(ls_nest_number(result) == 27);
  const ls_graph *graph = ls_function_graph(f.outside);
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i)
    assert_null(attr_text(ls_graph_op(graph, i), "_xla_outside_compilation"));
  ls_function_release(f.plain);
  ls_function_release(f.outside);
}

// ---- Contexts of another kind ----------------------------------------------
static const ls_flow_type other_type = {.name = "another context"};

static ls_nest square_it(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul(args.as.tensor, args.as.tensor));
}

static ls_nest differentiate_in_another(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_flow other = {&other_type};
  const ls_nest y = ls_outside_compilation(square_it, NULL, ls_leaf(x));
  const ls_nest xs = ls_leaf(x);
  ls_nest made = ls_none();
  LS_SCOPE_(ls_flow_begin, &other);
  expect_ok(ls_gradients(
      &y, 1, &xs, 1, &(ls_gradient_options){.colocate_with_ops = true}, &made));
  expect_outside(made.as.tensor, "0.gradients/uid");
  return LS_LIST(made);
}

TEST(other_contexts_pass_gradients_on) {
  LS_SPEC("O50");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, differentiate_in_another, NULL);
  assert_true(computation_output(&c, 1, 0) == 4);
  {  // None around: nothing happens.
    ls_flow other = {&other_type};
    LS_SCOPE_(ls_flow_begin, &other);
    const ls_nest y = ls_leaf(ls_square(f32_of(3))), x = ls_leaf(f32_of(1));
    ls_nest none = ls_none();
    expect_ok(ls_gradients(&y, 1, &x, 1,
                           &(ls_gradient_options){.colocate_with_ops = true},
                           &none));
  }
}

// ---- Waiting ---------------------------------------------------------------
static ls_status copy_value(ls_host_call *call) {
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// A user's function, on a thread of the host's.
static const ls_host_kernel copy_kernel = {
    .name = "copy", .infer = infer_like_first, .start = copy_value};

static ls_nest copy_on_host(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_op_output(
      ls_host_call_add(&copy_kernel, NULL, &args.as.tensor, 1), 0));
}

static ls_nest copies_around_a_sum(ls_nest args, void *user) {
  ls_nest x = ls_nest_retain(ls_nest_item(args, 0));
  for (int i = 0; i < 3; ++i) {
    x = ls_outside_compilation(copy_on_host, user, x);
    x = ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, x.as.tensor));
  }
  return LS_LIST(ls_outside_compilation(copy_on_host, user, x));
}

TEST(nobody_waits_for_good) {
  LS_SPEC("O76");
  for (int threads = 1; threads <= 3; ++threads)
    for (size_t replicas = 1; replicas <= 32; replicas *= 2) {
      LS_OWN_BEGUN(logs, l, open_logs, threads);
      LS_OWN_BEGUN(computation, c, computation_open);
      computation_replicate(&c, replicas, copies_around_a_sum, NULL);
      assert_true(computation_output(&c, replicas - 1, 0) ==
                  ((double)replicas + 1) / 2);
    }
}

// Clusters that do not need each other, and one that needs both.
static ls_nest independent_clusters(ls_nest args, void *user) {
  const ls_nest x = ls_nest_item(args, 0);
  const ls_nest a = ls_outside_compilation(copy_on_host, user, x);
  const ls_nest b = ls_outside_compilation(copy_on_host, user, x);
  const ls_nest sum = ls_leaf(ls_add(a.as.tensor, b.as.tensor));
  return LS_LIST(ls_outside_compilation(copy_on_host, user, sum));
}

static ls_nest replicate_clusters(ls_nest args, void *user) {
  LS_OWN(ls_nest, inputs) = LS_LIST(
      LS_LIST(ls_nest_retain(ls_nest_item(args, 0))), LS_LIST(ls_nest_f64(3)));
  ls_nest outputs = ls_none();
  const ls_status status =
      ls_replicate(independent_clusters, user, inputs, NULL, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

TEST(one_program_comes_of_independent_clusters) {
  LS_SPEC("O73");
  char *texts[3] = {0};
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_function, f) = function_of(replicate_clusters, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){5})));
    LS_OWN(ls_nest, result) = call_results(f, args);
    assert_true(ls_nest_number(ls_nest_item(ls_nest_item(result, 0), 0)) == 10);
    expect_ok(ls_function_print_lowered(f, &texts[i]));
    assert_string_equal(texts[0], texts[i]);
  }
  for (int i = 0; i < 3; ++i)
    ls_text_release(texts[i]);
}

// ---- Shapes ----------------------------------------------------------------
static ls_status unknown_type(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM)};
  *num_out = 1;
  return ls_ok();
}

static const ls_host_kernel unknown_kernel = {
    .name = "unknown", .infer = unknown_type, .start = copy_value};

static ls_nest unknown_on_host(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_op_output(
      ls_host_call_add(&unknown_kernel, NULL, &args.as.tensor, 1), 0));
}

static ls_nest use_unknown(ls_nest args, void *user) {
  const ls_nest made =
      ls_outside_compilation(unknown_on_host, user, ls_nest_item(args, 0));
  return LS_LIST(ls_leaf(ls_neg(made.as.tensor)));
}

TEST(what_enters_has_a_known_shape) {
  LS_SPEC("O87");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, use_unknown, NULL);
  const ls_status status = computation_run(&c, c.outputs);
  assert_non_null(strstr(ls_status_message(status), "cluster '0'"));
  assert_non_null(strstr(ls_status_message(status), "op 'unknown'"));
  expect_status(status, LS_INVALID_ARGUMENT, "is not known");
}

// ---- Variables outside -----------------------------------------------------
typedef struct shared {
  ls_variable *variable;
  bool inside, writes;
} shared;

static ls_nest use_outside(ls_nest args, void *user) {
  const shared *s = user;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(s->writes ? ls_variable_assign(s->variable, x)
                           : ls_add(x, ls_variable_read(s->variable)));
}

static ls_nest use_variable(ls_nest args, void *user) {
  const shared *s = user;
  const ls_nest made =
      ls_outside_compilation(use_outside, user, ls_nest_item(args, 0));
  if (!s->inside) return LS_LIST(made);
  return LS_LIST(
      ls_leaf(ls_add(made.as.tensor, ls_variable_read(s->variable))));
}

TEST(a_variable_is_used_on_one_side) {
  LS_SPEC("O89");
  for (int i = 0; i < 3; ++i) {
    computation c;
    computation_open(&c);
    shared s = {.inside = i > 0, .writes = i > 1};
    s.variable =
        variable_of("host", LS_DTYPE_F32, LS_SCALAR, (const double[]){10});
    computation_replicate(&c, 2, use_variable, &s);
    computation_initialize(&c, s.variable);
    if (i == 0) {
      assert_true(computation_output(&c, 1, 0) == 12);
    } else {
      const ls_status status = computation_run(&c, c.outputs);
      assert_non_null(strstr(ls_status_message(status), "variable 'host'"));
      expect_status(status, LS_INVALID_ARGUMENT,
                    "outside compiled cluster '0' of computation 'cluster'");
    }
    computation_close(&c);
    ls_variable_release(s.variable);
  }
}

// v = 2 v + x on each replica, one after the other.
static ls_nest fold_outside(ls_nest args, void *user) {
  ls_variable *v = user;
  const ls_tensor old = ls_variable_read(v);
  return ls_leaf(
      ls_variable_assign(v, ls_add(ls_add(old, old), args.as.tensor)));
}

static ls_nest fold(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest given = ls_leaf(ls_add(x, x));
  const ls_nest made = ls_outside_compilation(fold_outside, user, given);
  return LS_LIST(ls_leaf(ls_neg(made.as.tensor)));
}

TEST(replicas_write_a_variable_of_the_host_in_order) {
  LS_SPEC("O90");
  for (int threads = 1; threads <= 3; threads += 2)
    for (size_t replicas = 1; replicas <= 5; ++replicas) {
      LS_OWN_BEGUN(logs, l, open_logs, threads);
      LS_OWN_BEGUN(computation, c, computation_open);
      LS_OWN(ls_variable, v) =
          variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){1});
      computation_replicate(&c, replicas, fold, v);
      computation_initialize(&c, v);
      expect_ok(computation_run(&c, c.outputs));
      double wanted = 1;
      for (int run = 0; run < 2; ++run) {
        for (size_t r = 0; r < replicas; ++r)
          wanted = 2 * wanted + 2 * ((double)r + 1);
        LS_OWN(ls_array, value) = session_array(c.session, v);
        assert_true(ls_array_f64(value, 0) == wanted);
        if (run == 1) break;
        // Another run goes on; the last replica has the last value.
        double next = wanted;
        for (size_t r = 0; r < replicas; ++r)
          next = 2 * next + 2 * ((double)r + 1);
        assert_true(computation_output(&c, replicas - 1, 0) == -next);
      }
    }
}

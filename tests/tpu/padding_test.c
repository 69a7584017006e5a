// SPDX-License-Identifier: Apache-2.0
//
// Maximum shapes: what of a computation's inputs is padded, what the
// computation sees of it, and what is refused.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/graph_ops.h"
#include "lockstep/infeed.h"
#include "lockstep/ops.h"
#include "support/computation.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"

enum { MOST = 4, COLUMNS = 3, RESULTS = 6 };

// Values of replicas: x[size of the replica, 3], and a scalar that is none's to
// pad.
typedef struct padding_case {
  const char *name;
  int replicas;
  int64_t sizes[MOST];
  int64_t maximum;  // 0: unknown.
  ls_padding_policy policy;
  bool is_static;  // Sizes are known while building.
  int64_t padded;  // What the first dimension becomes; 0: it is not padded.
} padding_case;

// Most are of both ways to know sizes.
static const padding_case cases[] = {
    {"largest", 2, {5, 6}, 0, LS_PADDING_AUTO, false, 6},
    {"largest, static", 2, {5, 6}, 0, LS_PADDING_AUTO, true, 6},
    {"largest of three", 3, {1, 4, 2}, 0, LS_PADDING_AUTO, true, 4},
    {"equal, unknown", 2, {3, 3}, 0, LS_PADDING_AUTO, false, 3},
    {"equal, static", 2, {3, 3}, 0, LS_PADDING_AUTO, true, 0},
    {"at least two", 2, {0, 1}, 0, LS_PADDING_AUTO, true, 2},
    {"none at all", 2, {0, 0}, 0, LS_PADDING_AUTO, false, 2},
    {"maximum", 2, {3, 2}, 7, LS_PADDING_AUTO, false, 7},
    {"maximum, static", 2, {3, 2}, 7, LS_PADDING_AUTO, true, 7},
    {"maximum as it is", 2, {3, 2}, 7, LS_PADDING_POWER_OF_TWO, true, 7},
    {"maximum of one", 2, {1, 0}, 1, LS_PADDING_AUTO, true, 2},
    {"three, power", 2, {3, 2}, 0, LS_PADDING_POWER_OF_TWO, true, 4},
    {"five, power", 2, {5, 1}, 0, LS_PADDING_POWER_OF_TWO, false, 8},
    {"eight, power", 2, {8, 7}, 0, LS_PADDING_POWER_OF_TWO, true, 8},
    {"one, power", 2, {1, 0}, 0, LS_PADDING_POWER_OF_TWO, false, 2},
    {"one replica", 1, {5}, 0, LS_PADDING_POWER_OF_TWO, false, 0},
    {"one replica, static", 1, {5}, 9, LS_PADDING_AUTO, true, 0},
};
enum { NUM_CASES = sizeof(cases) / sizeof(*cases) };

static float value_of(int r, int64_t row, int64_t column) {
  return 0.3F * (float)(r + 1) + (float)row - 0.7F * (float)column;
}

static ls_nest array_of_replica(const padding_case *c, int r) {
  const ls_nest array =
      ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(c->sizes[r], COLUMNS));
  float *data = ls_nest_data(array, 0);
  for (int64_t i = 0; i < c->sizes[r] * COLUMNS; ++i)
    data[i] = value_of(r, i / COLUMNS, i % COLUMNS);
  return array;
}

// ---- One computation ------------------------------------------------------
typedef struct looking {
  const padding_case *c;
  bool pads, sees_real;
  ls_shape seen;  // While building.
  ls_graph *graph;
} looking;

// Size, sum, mean, largest, a new value for each row, and the scalar.
static ls_nest look(ls_nest args, void *user) {
  looking *self = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  self->seen = ls_tensor_shape(x);
  self->graph = x.graph;
  return LS_LIST(
      ls_leaf(ls_dim_size(x, 0)), ls_leaf(ls_reduce_sum(x, LS_ALL_AXES)),
      ls_leaf(ls_reduce_mean(x, LS_ALL_AXES)),
      ls_leaf(ls_reduce_max(ls_add(x, f32_of(0)), LS_AXES(1))),
      ls_leaf(ls_mul(x, f32_of(3))), ls_nest_retain(ls_nest_item(args, 1)));
}

// args: x of each replica.
static ls_nest replicate_all(ls_nest args, void *user) {
  looking *self = user;
  const padding_case *c = self->c;
  ls_nest each[MOST], outputs = ls_none();
  for (int r = 0; r < c->replicas; ++r)
    each[r] = LS_LIST(ls_nest_retain(ls_nest_item(args, (size_t)r)),
                      ls_leaf(f32_of(r + 0.5)));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, each, (size_t)c->replicas);
  LS_OWN(ls_nest, maxima) =
      self->pads
          ? LS_LIST(ls_maximum_shape(LS_SHAPE(
                        c->maximum == 0 ? LS_UNKNOWN_DIM : c->maximum, -1)),
                    ls_maximum_shape(LS_SCALAR))
          : ls_none();
  const ls_status status =
      ls_replicate(look, self, inputs,
                   &(ls_replicate_options){.maximum_shapes = maxima,
                                           .padding = c->policy,
                                           .xla.dynamic_padder =
                                               self->sees_real ? LS_FLAG_DEFAULT
                                                               : LS_FLAG_OFF},
                   &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest run_in_session(looking *self) {
  const padding_case *c = self->c;
  LS_OWN_BEGUN(computation, g, computation_open);
  ls_nest args[MOST], arrays[MOST], result = ls_none();
  ls_feed feeds[MOST];
  for (int r = 0; r < c->replicas; ++r) {
    arrays[r] = array_of_replica(c, r);
    feeds[r] = (ls_feed){
        ls_placeholder(
            LS_DTYPE_F32,
            LS_SHAPE(c->is_static ? c->sizes[r] : LS_UNKNOWN_DIM, COLUMNS),
            NULL),
        ls_nest_as_array(arrays[r])};
    args[r] = ls_leaf(feeds[r].tensor);
  }
  LS_OWN(ls_nest, given) =
      ls_nest_sequence(LS_KIND_LIST, args, (size_t)c->replicas);
  LS_OWN(ls_nest, made) = replicate_all(given, self);
  expect_ok(ls_nest_status(made));
  expect_ok(ls_session_create(g.graph, &g.session));
  expect_ok(
      ls_session_run(g.session, made, feeds, (size_t)c->replicas, &result));
  for (int r = 0; r < c->replicas; ++r)
    ls_nest_release(arrays[r]);
  return result;
}

static ls_nest run_traced(looking *self) {
  const padding_case *c = self->c;
  ls_nest arrays[MOST], result = ls_none();
  for (int r = 0; r < c->replicas; ++r)
    arrays[r] = array_of_replica(c, r);
  LS_OWN(ls_nest, args) =
      ls_nest_sequence(LS_KIND_LIST, arrays, (size_t)c->replicas);
  LS_OWN(ls_function, f) = function_of(replicate_all, self);
  expect_ok(ls_function_call(f, args, &result));
  return result;
}

static ls_nest run_case(looking *self, bool traced) {
  return traced ? run_traced(self) : run_in_session(self);
}

static const ls_array *result_of(ls_nest result, int r, size_t i) {
  return ls_nest_as_array(ls_nest_item(ls_nest_item(result, (size_t)r), i));
}

static void expect_same(const padding_case *c, const ls_array *got,
                        const ls_array *wanted, size_t i) {
  if (!ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)) ||
      memcmp(ls_array_data(got), ls_array_data(wanted),
             ls_array_size(wanted)) != 0)
    fail_msg("case '%s': result %zu differs, of %s", c->name, i,
             LS_SHAPE_TEXT(ls_array_dtype(got), ls_array_shape(got)));
}

// ---- With the padder ------------------------------------------------------
TEST(a_computation_sees_real_sizes) {
  LS_SPEC("O120 T90 T93 T94");
  for (size_t n = 0; n < 2 * (size_t)NUM_CASES; ++n) {
    const padding_case *c = &cases[n / 2];
    looking plain = {.c = c};
    looking padded = {.c = c, .pads = true, .sees_real = true};
    LS_OWN(ls_nest, wanted) = run_case(&plain, n % 2 != 0);
    LS_OWN(ls_nest, got) = run_case(&padded, n % 2 != 0);
    // Where it is padded nothing is known while building.
    const bool traced_equal = n % 2 != 0 && c->sizes[0] == c->sizes[1];
    if (c->padded != 0 && !traced_equal)
      assert_int_equal(padded.seen.dim[0], LS_UNKNOWN_DIM);
    assert_int_equal(padded.seen.dim[1], COLUMNS);
    for (int r = 0; r < c->replicas; ++r) {
      assert_true(ls_array_f64(result_of(got, r, 0), 0) == (double)c->sizes[r]);
      assert_int_equal(ls_array_shape(result_of(got, r, 4)).dim[0],
                       c->sizes[r]);
      for (size_t i = 0; i < RESULTS; ++i)
        expect_same(c, result_of(got, r, i), result_of(wanted, r, i), i);
    }
  }
}

static void expect_about(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted))))
    fail_msg("%g is not about %g", got, wanted);
}

// ---- Without it -----------------------------------------------------------
TEST(without_the_padder_it_sees_zeros) {
  LS_SPEC("O119 O120 T91 T93");
  for (size_t n = 0; n < 2 * (size_t)NUM_CASES; ++n) {
    const padding_case *c = &cases[n / 2];
    // A traced call knows all sizes: equal ones are not padded.
    if (n % 2 != 0 && c->sizes[0] == c->sizes[1] && c->replicas > 1) continue;
    looking padded = {.c = c, .pads = true};
    LS_OWN(ls_nest, got) = run_case(&padded, n % 2 != 0);
    for (int r = 0; r < c->replicas; ++r) {
      const int64_t size = c->padded != 0 ? c->padded : c->sizes[r];
      const ls_array *rows = result_of(got, r, 4);
      if (ls_array_f64(result_of(got, r, 0), 0) != (double)size)
        fail_msg("case '%s'%s: size %g on replica %d, not %lld", c->name,
                 n % 2 != 0 ? ", traced" : "",
                 ls_array_f64(result_of(got, r, 0), 0), r, (long long)size);
      assert_true(
          ls_shape_equal(ls_array_shape(rows), LS_SHAPE(size, COLUMNS)));
      double sum = 0;
      for (int64_t i = 0; i < size * COLUMNS; ++i) {
        const float value = i < c->sizes[r] * COLUMNS
                                ? value_of(r, i / COLUMNS, i % COLUMNS)
                                : 0;
        assert_true(ls_array_f64(rows, i) == (double)(value * 3));
        sum += (double)value;
      }
      expect_about(ls_array_f64(result_of(got, r, 1), 0), sum);
      expect_about(ls_array_f64(result_of(got, r, 2), 0),
                   sum / (double)(size * COLUMNS));
      assert_true(ls_array_f64(result_of(got, r, 5), 0) == r + 0.5);
    }
  }
}

// ---- The graph ------------------------------------------------------------
static ls_nest add_all(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_reduce_sum(ls_nest_tensor(args, 1), LS_ALL_AXES)),
                 ls_nest_retain(ls_nest_item(args, 0)));
}

static int64_t number_of(ls_op op, const char *name, size_t i) {
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op, name, &attr));
  assert_int_equal(attr->kind, LS_ATTR_INTS);
  assert_true(i < attr->as.ints.count);
  return attr->as.ints.items[i];
}

// Each replica's, of input 1.
static void expect_sizes(computation *g, bool sees_real) {
  static const double sizes[] = {5, 4, 6, 7};
  const ls_op op = op_named(g->graph, "padded_input1");
  for (unsigned i = 0; i < 4; ++i) {
    const ls_tensor size = ls_op_output(op, 2 + i);
    if (sees_real)
      expect_status(computation_run(g, ls_leaf(size)), LS_INVALID_ARGUMENT,
                    "not fetchable");
    else
      assert_true(computation_fetch(g, size) == sizes[i]);
  }
}

static void expect_inputs_with_sizes(bool sees_real) {
  LS_OWN_BEGUN(computation, g, computation_open);
  // Input 0 differs in dimension 1, input 1 in both, input 2 in none.
  ls_nest each[2];
  for (int r = 0; r < 2; ++r)
    each[r] = LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3 + r), 1)),
                      ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(5 - r, 6 + r), 1)),
                      ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1)));
  LS_OWN(ls_nest, inputs) = ls_nest_sequence(LS_KIND_LIST, each, 2);
  LS_OWN(ls_nest, maxima) = LS_LIST(ls_maximum_shape(LS_SHAPE(-1, -1)),
                                    ls_maximum_shape(LS_SHAPE(-1, 9)),
                                    ls_maximum_shape(LS_SHAPE(-1)));
  expect_ok(ls_replicate(
      add_all, NULL, inputs,
      &(ls_replicate_options){.maximum_shapes = maxima,
                              .xla.dynamic_padder =
                                  sees_real ? LS_FLAG_DEFAULT : LS_FLAG_OFF},
      &g.outputs));
  assert_true(computation_output(&g, 0, 0) == 30);
  assert_true(computation_output(&g, 1, 0) == 28);
  static const int64_t map[] = {0, 1, 3, 1, 0, 4, 1, 1, 5};
  const ls_op metadata = op_named(g.graph, "tpu_replicate_metadata");
  for (size_t i = 0; i < 9; ++i)
    assert_int_equal(number_of(metadata, "padding_map", i), map[i]);
  // As the computation has them: padded values, then sizes.
  static const int64_t padded[][2] = {{2, 4}, {5, 9}};
  for (int i = 0; i < 6; ++i) {
    char name[40];
    snprintf(name, sizeof(name), "input%d", i);
    const ls_tensor value = ls_op_output(op_named(g.graph, name), 0);
    if (i < 2)
      assert_true(ls_shape_equal(ls_tensor_shape(value),
                                 LS_SHAPE(padded[i][0], padded[i][1])));
    if (i < 3) continue;
    assert_int_equal(ls_tensor_dtype(value), LS_DTYPE_I32);
    assert_int_equal(ls_tensor_shape(value).rank, 0);
  }
  ls_op none = {0};
  const ls_status status = ls_graph_lookup_op(g.graph, "input6", &none);
  assert_false(ls_status_is_ok(status));
  ls_status_free(status);
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_graph_print_gathered(g.graph, &text));
  assert_non_null(strstr(text, "tpu_padded_input"));
  assert_true((strstr(text, "tpu_real_part") != NULL) == sees_real);
  expect_sizes(&g, sees_real);
}

TEST(real_sizes_are_inputs_behind_the_others) {
  LS_SPEC("T90 T92");
  expect_inputs_with_sizes(true);
  expect_inputs_with_sizes(false);
}

// The real sizes are values that a run is given.
TEST(the_padding_is_read_back_from_text) {
  LS_OWN_BEGUN(computation, g, computation_open);
  ls_nest each[2];
  for (int r = 0; r < 2; ++r)
    each[r] = LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2 + r), 1)),
                      ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2 + r), 1)));
  LS_OWN(ls_nest, inputs) = ls_nest_sequence(LS_KIND_LIST, each, 2);
  LS_OWN(ls_nest, maxima) = LS_LIST(ls_none(), ls_maximum_shape(LS_SHAPE(-1)));
  expect_ok(ls_replicate(add_all, NULL, inputs,
                         &(ls_replicate_options){.maximum_shapes = maxima},
                         &g.outputs));
  LS_OWN(ls_graph, read) = NULL;
  LS_OWN(printed, text) = graph_text(g.graph);
  expect_ok(ls_graph_parse(text, NULL, 0, &read));
  LS_OWN(printed, again) = graph_text(read);
  assert_string_equal(text, again);
}

// ---- What is refused ------------------------------------------------------
static void refuse(computation *g, ls_nest inputs, ls_nest maxima,
                   const char *says) {
  const size_t ops = ls_graph_num_ops(g->graph);
  const ls_status status = ls_replicate(
      add_all, NULL, inputs, &(ls_replicate_options){.maximum_shapes = maxima},
      &g->outputs);
  expect_status(status, LS_INVALID_ARGUMENT, says);
  assert_int_equal(ls_graph_num_ops(g->graph), ops);
  assert_int_equal(g->outputs.kind, LS_KIND_NONE);
  ls_nest_release(inputs);
  ls_nest_release(maxima);
}

static ls_nest rows(int64_t size) {
  return ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(size), 1));
}

static ls_nest two_of(int64_t first, int64_t second) {
  return LS_LIST(LS_LIST(LS_TUPLE(rows(first)), rows(1)),
                 LS_LIST(LS_TUPLE(rows(second)), rows(1)));
}

static ls_nest unknown(void) { return ls_maximum_shape(LS_SHAPE(-1)); }

static ls_nest size_of_first(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(
      ls_dim_size(ls_nest_item(ls_nest_item(args, 0), 0).as.tensor, 0)));
}

TEST(maximum_shapes_mirror_the_inputs_and_fit) {
  LS_SPEC("O118");
  LS_OWN_BEGUN(computation, g, computation_open);
  refuse(&g, two_of(1, 2), unknown(), "maximum_shapes are a list of one for");
  refuse(&g, two_of(1, 2), LS_LIST(LS_TUPLE(unknown())),
         "each of the 2 inputs");
  refuse(&g, two_of(1, 2), LS_LIST(LS_LIST(unknown()), unknown()),
         "the maximum shape of input 0, which has another structure");
  refuse(&g, two_of(1, 2), LS_LIST(LS_TUPLE(ls_nest_i64(3)), unknown()),
         "must be none or an ls_maximum_shape");
  refuse(&g, two_of(1, 2),
         LS_LIST(LS_TUPLE(ls_maximum_shape(LS_SHAPE(-1, 3))), unknown()),
         "is f32[1] on replica 0, which does not fit its maximum shape");
  refuse(
      &g, two_of(4, 5),
      LS_LIST(LS_TUPLE(ls_maximum_shape(LS_SHAPE(4))), unknown()),
      "is f32[5] on replica 1, which does not fit its maximum shape, f32[4]");
  refuse(&g, two_of(5, 5),
         LS_LIST(LS_TUPLE(ls_maximum_shape(LS_SHAPE(4))), unknown()),
         "is f32[5] on replica 0, which does not fit");
  refuse(&g, two_of(5, 5),
         LS_LIST(LS_TUPLE(ls_maximum_shape(LS_SHAPE(-7))), unknown()),
         "has size -7 in dimension 0");
  refuse(&g, ls_none(), LS_LIST(unknown()), "without inputs");
  // One that is fed too large is found when it is run.
  const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(rows(1), ls_leaf(x)), LS_LIST(rows(1), ls_leaf(x)));
  LS_OWN(ls_nest, maxima) = LS_LIST(unknown(), ls_maximum_shape(LS_SHAPE(4)));
  expect_ok(ls_replicate(add_all, NULL, inputs,
                         &(ls_replicate_options){.maximum_shapes = maxima},
                         &g.outputs));
  expect_ok(ls_session_create(g.graph, &g.session));
  for (int64_t size = 4; size <= 5; ++size) {
    LS_OWN(ls_nest, array) = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(size));
    LS_OWN(ls_nest, result) = ls_none();
    const ls_status status =
        ls_session_run(g.session, g.outputs,
                       &(ls_feed){x, ls_nest_as_array(array)}, 1, &result);
    if (size == 4)
      expect_ok(status);
    else
      expect_status(status, LS_INVALID_ARGUMENT,
                    "longer than the maximum that was given, 4");
  }
}

TEST(not_with_an_infeed) {
  LS_SPEC("O118 T97");
  LS_OWN_BEGUN(computation, g, computation_open);
  LS_OWN(ls_infeed_queue, queue) = NULL;
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){.num_elements = LS_SOME(1)}, &queue));
  LS_OWN(ls_nest, inputs) = two_of(1, 2);
  LS_OWN(ls_nest, maxima) = LS_LIST(LS_TUPLE(unknown()), unknown());
  expect_status(ls_replicate(add_all, NULL, inputs,
                             &(ls_replicate_options){.maximum_shapes = maxima,
                                                     .infeed = queue},
                             &g.outputs),
                LS_INVALID_ARGUMENT,
                "Dynamic input shapes are not supported with infeed queues");
  expect_status(
      ls_replicate(add_all, NULL, inputs,
                   &(ls_replicate_options){.padding = (ls_padding_policy)2},
                   &g.outputs),
      LS_INVALID_ARGUMENT, "padding 2 is no policy");
  expect_status(
      ls_replicate(add_all, NULL, inputs,
                   &(ls_replicate_options){.xla.dynamic_padder = (ls_flag)3},
                   &g.outputs),
      LS_INVALID_ARGUMENT, "dynamic_padder 3 is no flag");
}

// ---- Memory ---------------------------------------------------------------
typedef struct job {
  ls_graph *graph;
  ls_session *session;
  ls_nest result;
} job;

static ls_status begin(void *self) {
  return ls_graph_create("g", &((job *)self)->graph);
}

static ls_status build(job *j, ls_nest *outputs) {
  LS_GRAPH_SCOPE(j->graph);
  LS_OWN(ls_nest, inputs) = two_of(2, 3);
  LS_OWN(ls_nest, maxima) = LS_LIST(LS_TUPLE(ls_none()), unknown());
  LS_OWN(ls_nest, sized) = LS_LIST(LS_TUPLE(unknown()), unknown());
  ls_status status = ls_status_join(
      ls_nest_status(inputs),
      ls_status_join(ls_nest_status(maxima), ls_nest_status(sized)));
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i) {
    ls_nest_release(*outputs);
    status = ls_replicate(
        size_of_first, NULL, inputs,
        &(ls_replicate_options){.maximum_shapes = i == 0 ? maxima : sized,
                                .xla.dynamic_padder =
                                    i == 0 ? LS_FLAG_ON : LS_FLAG_OFF},
        outputs);
  }
  return ls_status_join(status, ls_graph_take_error(j->graph));
}

static ls_status act(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_status status = build(j, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, NULL, 0, &j->result);
  return status;
}

static double outcome(void *self) {
  return ls_nest_number(
      ls_nest_item(ls_nest_item(((job *)self)->result, 0), 0));
}

static void end(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_session_destroy(j->session);
  ls_graph_destroy(j->graph);
}

TEST(padding_survives_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "padded computation",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = end});
}

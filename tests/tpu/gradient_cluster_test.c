// SPDX-License-Identifier: Apache-2.0
//
// Gradients in replicated computations: those of what is compiled outside are
// clusters of their own, one for each call of gradients.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "support/spec.h"
#include "support/tpu_ways.h"
#include "support/values.h"
#include "tpu/replicate/replicate.h"

static ls_nest square(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul(args.as.tensor, args.as.tensor));
}

static ls_tensor squared_outside(ls_tensor x) {
  return ls_outside_compilation(square, NULL, ls_leaf(x)).as.tensor;
}

static ls_tensor gradient(ls_tensor y, ls_tensor x, bool colocate) {
  const ls_nest ys = ls_leaf(y), xs = ls_leaf(x);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1,
                         &(ls_gradient_options){.colocate_with_ops = colocate},
                         &made));
  return made.as.tensor;
}

// ---- Which cluster ---------------------------------------------------------
// Names of clusters of the ops made since there were `first`, each once.
typedef struct clusters {
  const char *names[32];
  size_t count;
} clusters;

static clusters clusters_since(const ls_graph *graph, size_t first) {
  clusters c = {.count = 0};
  for (size_t i = first; i < ls_graph_num_ops(graph); ++i) {
    const char *name =
        attr_text(ls_graph_op(graph, i), "_xla_outside_compilation");
    bool is_new = name != NULL;
    for (size_t k = 0; is_new && k < c.count; ++k)
      is_new = strcmp(c.names[k], name) != 0;
    if (is_new) c.names[c.count++] = name;
  }
  return c;
}

static ls_nest differentiate(ls_nest args, void *user) {
  (void)user;
  const ls_graph *graph = ls_graph_current();
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = squared_outside(ls_neg(x));
  const ls_tensor z = ls_mul(y, x);
  size_t first = ls_graph_num_ops(graph);
  const ls_tensor once = gradient(z, x, true);
  const clusters a = clusters_since(graph, first);
  assert_int_equal(a.count, 1);
  assert_string_equal(a.names[0], "0.gradients/uid");
  first = ls_graph_num_ops(graph);
  gradient(z, x, true);
  const clusters b = clusters_since(graph, first);
  assert_int_equal(b.count, 1);
  assert_string_equal(b.names[0], "0.gradients_1/uid");
  first = ls_graph_num_ops(graph);
  const ls_tensor twice = gradient(once, x, true);
  const clusters c = clusters_since(graph, first);
  bool of_forward = false, of_gradient = false;
  for (size_t i = 0; i < c.count; ++i) {
    of_forward |= strcmp(c.names[i], "0.gradients_2/uid") == 0;
    of_gradient |= strcmp(c.names[i], "0.gradients/uid.gradients_2/uid") == 0;
  }
  assert_true(of_forward && of_gradient);
  assert_int_equal(c.count, 2);
  return LS_LIST(ls_leaf(once), ls_leaf(twice));
}

// z = x^3: 3 x^2 and 6 x.
TEST(each_call_of_gradients_has_a_cluster) {
  LS_SPEC("O47 O52 O54 O55 O56 O75");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, differentiate, NULL);
  for (size_t r = 0; r < 2; ++r) {
    const double x = (double)r + 1;
    assert_true(computation_output(&c, r, 0) == 3 * x * x);
    assert_true(computation_output(&c, r, 1) == 6 * x);
  }
  // None of them asked for a core.
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                       "host_compute_core", &attr));
  assert_int_equal(attr->as.strings.count, 0);
}

static ls_nest differentiate_apart(ls_nest args, void *user) {
  (void)user;
  const ls_graph *graph = ls_graph_current();
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = squared_outside(x);
  const size_t first = ls_graph_num_ops(graph);
  const ls_tensor dy = gradient(y, x, false);
  assert_int_equal(clusters_since(graph, first).count, 0);
  return LS_LIST(ls_leaf(dy));
}

TEST(without_colocation_gradients_are_compiled) {
  LS_SPEC("O92");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, differentiate_apart, NULL);
  assert_true(computation_output(&c, 1, 0) == 4);
}

static ls_nest differentiate_inside(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(gradient(ls_mul(x, x), x, true));
}

static ls_nest call_inside(ls_nest args, void *user) {
  const ls_graph *graph = ls_graph_current();
  const size_t first = ls_graph_num_ops(graph);
  const ls_nest made =
      ls_outside_compilation(differentiate_inside, user, ls_nest_item(args, 0));
  const clusters c = clusters_since(graph, first);
  assert_int_equal(c.count, 1);
  assert_string_equal(c.names[0], "0");
  return LS_LIST(made);
}

TEST(gradients_taken_outside_stay_in_their_cluster) {
  LS_SPEC("O52 O60");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, call_inside, NULL);
  assert_true(computation_output(&c, 1, 0) == 4);
}

static ls_nest differentiate_on_core(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  const ls_tensor y = squared_outside(x);
  return LS_LIST(ls_leaf(gradient(y, x, true)));
}

TEST(a_cluster_of_gradients_asks_for_no_core) {
  LS_SPEC("O59 O62");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, differentiate_on_core, NULL);
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                       "host_compute_core", &attr));
  assert_int_equal(attr->as.strings.count, 1);
  assert_string_equal(attr->as.strings.items[0], "0:0");
  assert_true(computation_output(&c, 1, 0) == 4);
}

// ---- The context's own rules -----------------------------------------------
typedef struct place {
  computation c;
  ls_tpu_context context;
  ls_scope scope;
  ls_op compiled, first, second;  // Ops: compiled, of clusters "a" and "b".
} place;

static ls_op op_in(place *p, const char *cluster) {
  if (cluster != NULL)
    expect_ok(ls_tpu_context_enter_outside(&p->context, cluster));
  const ls_tensor made = f32_of(1);
  if (cluster != NULL) expect_ok(ls_tpu_context_exit_outside(&p->context));
  return ls_tensor_op(made);
}

static void open_place(place *p) {
  *p = (place){0};
  computation_open(&p->c);
  const ls_op pivot = ls_group(NULL, 0, "pivot");
  expect_ok(ls_tpu_context_init(&p->context, "c", 2, pivot));
  ls_tpu_context_enter(&p->scope, &p->context);
  p->compiled = op_in(p, NULL);
  p->first = op_in(p, "a");
  p->second = op_in(p, "b");
}

static void close_place(place *p) {
  ls_scope_end(&p->scope);
  ls_tpu_context_deinit(&p->context);
  computation_close(&p->c);
}
LS_OWNED_STRUCT(place, close_place)

TEST(no_op_is_no_gradient) {
  LS_SPEC("O51");
  LS_OWN_BEGUN(place, p, open_place);
  expect_ok(ls_tpu_context_enter_gradient(&p.context, (ls_op){0}, "u"));
  assert_int_equal(p.context.num_gradients, 0);
  expect_ok(ls_tpu_context_exit_gradient(&p.context, (ls_op){0}, "u"));
}

TEST(the_name_tells_the_call) {
  LS_SPEC("O55");
  static const struct {
    const char *cluster, *uid, *wanted;
  } rows[] = {
      {"0", "u", "0.u"},         {"0.u", "u", "0.u"},
      {"0.u", "v", "0.u.v"},     {"0.u.v", "v", "0.u.v"},
      {"0.u.v", "u", "0.u.v.u"}, {"0.v1.0/uid", "v1.0/uid", "0.v1.0/uid"},
      {"u", "u", "u.u"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN_BEGUN(place, p, open_place);
    const ls_op op = op_in(&p, rows[i].cluster);
    expect_ok(ls_tpu_context_enter_gradient(&p.context, op, rows[i].uid));
    assert_string_equal(p.context.outside, rows[i].wanted);
    expect_ok(ls_tpu_context_exit_gradient(&p.context, op, rows[i].uid));
    assert_null(p.context.outside);
  }
}

TEST(what_lies_inside_stays_in_the_outer_cluster) {
  LS_SPEC("O52 O54 O58");
  LS_OWN_BEGUN(place, p, open_place);
  expect_ok(ls_tpu_context_enter_gradient(&p.context, p.compiled, "u"));
  assert_null(p.context.outside);
  expect_ok(ls_tpu_context_enter_gradient(&p.context, p.first, "u"));
  assert_string_equal(p.context.outside, "a.u");
  expect_ok(ls_tpu_context_enter_gradient(&p.context, p.second, "u"));
  assert_string_equal(p.context.outside, "a.u");
  assert_int_equal(p.context.num_gradients, 3);
  expect_ok(ls_tpu_context_exit_gradient(&p.context, p.second, "u"));
  assert_string_equal(p.context.outside, "a.u");
  expect_ok(ls_tpu_context_exit_gradient(&p.context, p.first, "u"));
  assert_null(p.context.outside);
  expect_ok(ls_tpu_context_exit_gradient(&p.context, p.compiled, "u"));
}

TEST(bad_nesting_is_refused) {
  LS_SPEC("O53 O57");
  LS_OWN_BEGUN(place, p, open_place);
  const ls_status empty =
      ls_tpu_context_exit_gradient(&p.context, p.compiled, "u");
  assert_non_null(strstr(ls_status_message(empty), ls_op_name(p.compiled)));
  expect_status(empty, LS_INTERNAL,
                "Badly nested gradient colocation: empty stack");
  expect_status(
      ls_tpu_context_enter_gradient(&p.context, p.first, "__unsupported__"),
      LS_UNIMPLEMENTED,
      "No gradient_uid calling gradient within outside_compilation");
  assert_int_equal(p.context.num_gradients, 0);
  expect_ok(ls_tpu_context_enter_gradient(&p.context, p.compiled, "u"));
  const ls_status other =
      ls_tpu_context_exit_gradient(&p.context, p.second, "u");
  assert_non_null(strstr(ls_status_message(other), ls_op_name(p.compiled)));
  assert_non_null(strstr(ls_status_message(other), ls_op_name(p.second)));
  expect_status(other, LS_INTERNAL, "Badly nested gradient colocation");
  // Left by hand: the cluster is not there, what opened it is.
  expect_ok(ls_tpu_context_enter_gradient(&p.context, p.first, "u"));
  expect_ok(ls_tpu_context_exit_outside(&p.context));
  expect_status(ls_tpu_context_enter_gradient(&p.context, p.second, "u"),
                LS_UNIMPLEMENTED,
                "Cannot nest gradient colocation operations outside "
                "compilation");
}

// ---- Loops and branches ----------------------------------------------------
// A variable read in a loop or branch is an operand of a cluster there; the
// gradient reads it again, on the devices.
typedef struct reading {
  ls_variable *v;
  ls_tensor x;
  double scale;  // Of what is read; 0: as it is.
} reading;

static const double three = 3;
static const double counted[] = {1, 2, 3, 4, 5};

static ls_variable *make_three(void *user) {
  reading *own = user;
  own->v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &three);
  return own->v;
}

static ls_nest multiply(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)));
}

static ls_nest times_variable(const reading *own, ls_tensor x) {
  ls_tensor w = ls_variable_read(own->v);
  if (own->scale != 0) w = ls_mul_scalar(w, own->scale);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x), ls_leaf(w));
  return ls_outside_compilation(multiply, NULL, args);
}

static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f32_of(3)));
}

static ls_nest times_variable_again(ls_nest values, void *user) {
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  times_variable(user, ls_nest_tensor(values, 1)));
}

static ls_nest differentiate_both(const reading *own, ls_tensor y) {
  const ls_nest ys = ls_leaf(y);
  LS_OWN(ls_nest, v) = ls_nest_variable(own->v);
  const ls_nest xs[] = {ls_leaf(own->x), v};
  ls_nest made[2];
  expect_ok(ls_gradients(
      &ys, 1, xs, 2, &(ls_gradient_options){.colocate_with_ops = true}, made));
  return LS_LIST(made[0], made[1]);
}

static ls_nest differentiate_loop(ls_nest args, void *user) {
  reading *own = user;
  own->x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) =
      ls_while(below_three, times_variable_again, own,
               LS_TUPLE(ls_leaf(f32_of(0)), ls_leaf(own->x)), 0);
  return differentiate_both(own, ls_nest_tensor(made, 1));
}

static ls_nest take_x(ls_nest args, void *user) {
  const reading *own = user;
  (void)args;
  return ls_leaf(own->x);
}

static ls_nest take_product(ls_nest args, void *user) {
  const reading *own = user;
  (void)args;
  return times_variable(own, own->x);
}

static ls_nest differentiate_branch(ls_nest args, void *user) {
  reading *own = user;
  own->x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) =
      ls_cond(ls_less(own->x, f32_of(0)), take_x, take_product, own);
  return differentiate_both(own, made.as.tensor);
}

// y = x v^3.
static void check_loop(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r) {
    assert_true(tpu_run_number(run, r, 0, 0) == 27);
    assert_true(tpu_run_number(run, r, 1, 0) == 27 * counted[r]);
  }
}

// y = x (v / 2)^3.
static void check_scaled_loop(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r) {
    assert_true(tpu_run_number(run, r, 0, 0) == 3.375);
    assert_true(tpu_run_number(run, r, 1, 0) == 3.375 * counted[r]);
  }
}

// y = x v.
static void check_branch(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r) {
    assert_true(tpu_run_number(run, r, 0, 0) == 3);
    assert_true(tpu_run_number(run, r, 1, 0) == counted[r]);
  }
}

TEST(gradients_of_clusters_in_loops_and_branches_read_variables) {
  reading own = {0};
  tpu_step step = {.fn = differentiate_loop,
                   .user = &own,
                   .numbers = counted,
                   .make = make_three};
  tpu_run_all(&step, check_loop);
  own.scale = 0.5;
  tpu_run_all(&step, check_scaled_loop);
  own.scale = 0;
  step.fn = differentiate_branch;
  tpu_run_all(&step, check_branch);
}

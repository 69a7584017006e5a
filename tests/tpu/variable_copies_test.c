// SPDX-License-Identifier: Apache-2.0
//
// Copies of TPU variables by core: in a computation of the same system, on
// whatever cores its replicas are, a variable is the copy that lies there.
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/training_loop.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"

// A strategy with a replica on each of three cores, and a computation of its
// system with other ones.
typedef struct placed {
  ls_topology *topology;
  ls_strategy *s;
  ls_variable *v;
  ls_device_assignment *assignment;
  int replicas, what;
  ls_nest results;
} placed;

static const int on_cores[][2] = {{0, 0}, {0, 1}, {0, 2}};
enum { MUST_DRIFT, LOOPED, DERIVED, SUMMED, READ_ONLY };

static void placed_open(placed *p, variable_kind kind) {
  *p = (placed){.topology = make_topology(1, 3)};
  ls_device_assignment *own = make_assignment(p->topology, 3, 1, on_cores);
  expect_ok(
      ls_tpu_strategy_create(&(ls_tpu_options){.assignment = own}, &p->s));
  ls_device_assignment_release(own);
  p->v = variable_in(p->s, kind);
}

static void placed_on(placed *p, int replicas, const int (*at)[2]) {
  ls_device_assignment_release(p->assignment);
  p->replicas = replicas;
  p->assignment = make_assignment(p->topology, replicas, 1, at);
}

static void placed_close(placed *p) {
  ls_device_assignment_release(p->assignment);
  ls_variable_release(p->v);
  ls_strategy_release(p->s);
  ls_topology_release(p->topology);
}

static ls_nest add_twice(ls_nest values, void *user) {
  const placed *p = user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  ls_variable_assign_add(p->v, x);
  return LS_LIST(ls_leaf(x));
}

// Of replica r, which gets r + 1.
static ls_nest use_placed(ls_nest args, void *user) {
  placed *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor before = ls_variable_read(p->v);
  if (p->what == MUST_DRIFT) ls_variable_assign_add(p->v, x);
  if (p->what == SUMMED)
    ls_variable_assign(p->v, ls_all_reduce(LS_REDUCE_SUM, x));
  if (p->what == LOOPED) {
    LS_OWN(ls_nest, initial) = LS_LIST(ls_leaf(x));
    LS_OWN(ls_nest, outputs) = ls_none();
    const ls_status status =
        ls_training_repeat(2, &(ls_training_loop){.body = add_twice, .user = p},
                           initial, &outputs);
    if (!ls_status_is_ok(status)) return ls_fail(status);
  }
  ls_nest out = ls_leaf(before);
  if (p->what == DERIVED) {
    const ls_nest y = ls_leaf(ls_square(ls_variable_read(p->v)));
    const ls_nest of = {.kind = LS_KIND_VARIABLE, .as.ref = p->v};
    const ls_status status = ls_gradients(&y, 1, &of, 1, NULL, &out);
    if (!ls_status_is_ok(status)) return ls_fail(status);
  }
  return LS_LIST(out, ls_leaf(ls_variable_read(p->v)));
}

static ls_status replicate_placed(placed *p, ls_nest *outputs) {
  ls_nest inputs[3];
  for (int r = 0; r < p->replicas; ++r)
    inputs[r] = LS_LIST(ls_leaf(f32_of(r + 1)));
  LS_OWN(ls_nest, all) =
      ls_nest_sequence(LS_KIND_LIST, inputs, (size_t)p->replicas);
  return ls_replicate(use_placed, p, all,
                      &(ls_replicate_options){.assignment = p->assignment},
                      outputs);
}

static ls_nest build_placed(ls_nest args, void *user) {
  (void)args;
  ls_nest outputs = ls_none();
  const ls_status status = replicate_placed(user, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_status run_placed(placed *p, computation *c, int what) {
  p->what = what;
  ls_nest_release(p->results);
  p->results = ls_none();
  if (c == NULL) {
    LS_OWN(ls_function, f) = function_of(build_placed, p);
    return ls_function_call(f, ls_none(), &p->results);
  }
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_RETURN_IF_ERROR(replicate_placed(p, &outputs));
  return ls_session_run(c->session, outputs, NULL, 0, &p->results);
}

static double placed_result(const placed *p, int r, size_t i) {
  return ls_nest_number(ls_nest_item(ls_nest_item(p->results, (size_t)r), i));
}

static void expect_placed(placed *p, computation *c, const double *values) {
  for (size_t i = 0; i < 3; ++i) {
    ls_variable *part = ls_variable_component(p->v, i);
    double got = 0;
    if (c != NULL) {
      got = computation_fetch(c, ls_variable_read(part));
    } else {
      LS_OWN(ls_array, array) = variable_array(part);
      got = ls_array_f64(array, 0);
    }
    if (got != values[i]) fail_msg("copy %zu is %g, not %g", i, got, values[i]);
  }
}

// Replica r on core turned[r]: reads, writes, loops and gradients are those of
// the copy that lies there, whatever the copy was made for.
static void use_turned_copies(placed *p, computation *c) {
  static const int turned[][2] = {{0, 2}, {0, 0}, {0, 1}};
  static const double kept[] = {16, 19, 13};
  placed_on(p, 3, turned);
  expect_ok(run_placed(p, c, MUST_DRIFT));
  for (int r = 0; r < 3; ++r)
    assert_true(placed_result(p, r, 1) == 10 + r + 1);
  expect_placed(p, c, (double[]){12, 13, 11});
  expect_ok(run_placed(p, c, LOOPED));
  for (int r = 0; r < 3; ++r) {
    assert_true(placed_result(p, r, 0) == 11 + r);
    assert_true(placed_result(p, r, 1) == 11 + r + 2 * (r + 1));
  }
  expect_placed(p, c, kept);
  expect_ok(run_placed(p, c, DERIVED));
  for (int r = 0; r < 3; ++r)
    assert_true(placed_result(p, r, 0) == 2 * placed_result(p, r, 1));
  // In the strategy's order they are the same copies.
  placed_on(p, 3, on_cores);
  expect_ok(run_placed(p, c, READ_ONLY));
  for (int r = 0; r < 3; ++r)
    assert_true(placed_result(p, r, 0) == kept[r]);
}

TEST(copies_lie_on_cores_whatever_the_assignment) {
  LS_SPEC("T125 T126");
  // Ruling 55.
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int on_read = 0; on_read < 2; ++on_read) {
      computation c;
      placed p;
      if (in_graph)
        computation_open(&c);
      else
        expect_ok(ls_frame_begin());
      placed_open(&p,
                  (variable_kind){.initial = 10,
                                  .synchronization =
                                      on_read ? LS_SYNCHRONIZATION_ON_READ
                                              : LS_SYNCHRONIZATION_ON_WRITE});
      if (in_graph) computation_initialize(&c, p.v);
      use_turned_copies(&p, in_graph ? &c : NULL);
      ls_nest_release(p.results);
      placed_close(&p);
      if (in_graph)
        computation_close(&c);
      else
        expect_ok(ls_frame_end(NULL));
    }
}

// On some of the cores a computation reads the copies there. What is ON_READ is
// written there alone, and what is ON_WRITE is not written.
TEST(some_copies_are_read_and_all_or_none_written) {
  LS_SPEC("T125 T126");
  // Ruling 55.
  static const int two[][2] = {{0, 2}, {0, 0}}, last[][2] = {{0, 1}};
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    computation c;
    computation *const at = in_graph ? &c : NULL;
    placed p, w;
    if (in_graph)
      computation_open(&c);
    else
      expect_ok(ls_frame_begin());
    placed_open(&p,
                (variable_kind){.initial = 10,
                                .synchronization = LS_SYNCHRONIZATION_ON_READ});
    placed_open(&w, (variable_kind){.name = "w", .initial = 5});
    if (in_graph) computation_initialize(&c, p.v);
    if (in_graph) computation_initialize(&c, w.v);
    placed_on(&p, 2, two);
    expect_ok(run_placed(&p, at, MUST_DRIFT));
    expect_placed(&p, at, (double[]){12, 10, 11});
    expect_ok(run_placed(&p, at, SUMMED));
    expect_placed(&p, at, (double[]){3, 10, 3});
    placed_on(&p, 1, last);
    expect_ok(run_placed(&p, at, MUST_DRIFT));
    assert_true(placed_result(&p, 0, 0) == 10);
    expect_placed(&p, at, (double[]){3, 11, 3});
    // One value for all, written on some alone.
    placed_on(&w, 2, two);
    expect_ok(run_placed(&w, at, READ_ONLY));
    assert_true(placed_result(&w, 1, 0) == 5);
    expect_status(run_placed(&w, at, SUMMED), LS_INVALID_ARGUMENT,
                  "2 of its 3 copies");
    expect_status(run_placed(&w, at, MUST_DRIFT), LS_INVALID_ARGUMENT, "'w'");
    expect_placed(&w, at, (double[]){5, 5, 5});
    ls_nest_release(p.results);
    ls_nest_release(w.results);
    placed_close(&p);
    placed_close(&w);
    if (in_graph)
      computation_close(&c);
    else
      expect_ok(ls_frame_end(NULL));
  }
}

// One replica counts as on the system's first core.
TEST(a_copy_is_known_without_an_assignment) {
  LS_SPEC("T125");
  // Ruling 55.
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    computation c;
    computation *const at = in_graph ? &c : NULL;
    placed p;
    if (in_graph)
      computation_open(&c);
    else
      expect_ok(ls_frame_begin());
    placed_open(&p,
                (variable_kind){.initial = 10,
                                .synchronization = LS_SYNCHRONIZATION_ON_READ});
    if (in_graph) computation_initialize(&c, p.v);
    p.replicas = 1;
    expect_ok(run_placed(&p, at, MUST_DRIFT));
    assert_true(placed_result(&p, 0, 1) == 11);
    expect_placed(&p, at, (double[]){11, 10, 10});
    ls_nest_release(p.results);
    placed_close(&p);
    if (in_graph)
      computation_close(&c);
    else
      expect_ok(ls_frame_end(NULL));
  }
}

static ls_nest use_in_other(ls_nest args, void *user) {
  placed *p = user;
  (void)args;
  if (p->what == MUST_DRIFT)
    return ls_leaf(ls_variable_assign_add(p->v, f32_of(1)));
  return ls_leaf(ls_variable_read(p->v));
}

// On the same cores, in the same order or another one.
TEST(other_strategies_replicas_have_no_copies) {
  LS_SPEC("V91");
  // Ruling 55.
  static const int turned[][2] = {{0, 2}, {0, 0}, {0, 1}};
  for (int k = 0; k < 4; ++k) {
    ls_strategy *other = NULL;
    placed p;
    expect_ok(ls_frame_begin());
    placed_open(&p, (variable_kind){.initial = 10});
    p.what = k / 2 == 0 ? READ_ONLY : MUST_DRIFT;
    placed_on(&p, 3, k % 2 == 0 ? on_cores : turned);
    expect_ok(ls_tpu_strategy_create(
        &(ls_tpu_options){.assignment = p.assignment}, &other));
    ls_function *f = function_of(use_in_other, &p);
    const ls_nest none = ls_nest_sequence(LS_KIND_TUPLE, NULL, 0);
    expect_status(ls_strategy_run(other, ls_traced(f), none, &p.results),
                  LS_FAILED_PRECONDITION, "cannot be mixed");
    expect_placed(&p, NULL, (double[]){10, 10, 10});
    ls_nest_release(p.results);
    ls_nest_release(none);
    ls_function_release(f);
    ls_strategy_release(other);
    placed_close(&p);
    expect_ok(ls_frame_end(NULL));
  }
}

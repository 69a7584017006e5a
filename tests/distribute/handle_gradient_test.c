// SPDX-License-Identifier: Apache-2.0
//
// Gradients with respect to a variable, its component and a handle over it at
// once: each gets that of all reads which are its own, in any order.
#include "support/ways.h"

#include "distribute/own.h"
#include "graph/own.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/handles.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- In replicas -----------------------------------------------------------
// What is read, and x, by which it is multiplied.
typedef struct reading {
  ls_variable *component, *handle;
  ls_tensor x;
} reading;

// Where it is read, and which is the first of the xs.
typedef struct order {
  bool in_branch, handle_first;
} order;

static void make_factor(ways *self) {
  ways_vector(self, "w", 0, (double[]){3});
}

static ls_nest multiply_both(ls_nest none, void *user) {
  const reading *r = user;
  (void)none;
  return ls_leaf(ls_mul(ls_mul(r->x, ls_variable_read(r->component)),
                        ls_variable_read(r->handle)));
}

static ls_nest give_x(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(((const reading *)user)->x);
}

static ls_tensor product_of(ls_nest args, ways *self) {
  const order *how = self->user;
  reading r = {.component = ls_variable_component(self->variables[0], 0),
               .x = argument(args, 0)};
  LS_OWN(ls_variable, handle) = NULL;
  expect_ok(ls_caching_variable_create(r.component, &handle));
  r.handle = handle;
  if (!how->in_branch) return multiply_both(ls_none(), &r).as.tensor;
  const ls_nest made = ls_cond(ls_equal(r.x, r.x), multiply_both, give_x, &r);
  expect_ok(ls_nest_status(made));
  return made.as.tensor;
}

static ls_nest both_gradients(ls_nest args, ways *self) {
  const order *how = self->user;
  ls_variable *component = ls_variable_component(self->variables[0], 0);
  LS_OWN(ls_variable, handle) = NULL;
  expect_ok(ls_caching_variable_create(component, &handle));
  LS_OWN(ls_nest, xs) =
      LS_LIST(ls_nest_variable(how->handle_first ? handle : component),
              ls_nest_variable(how->handle_first ? component : handle));
  const ls_nest items[] = {ls_nest_item(xs, 0), ls_nest_item(xs, 1)};
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, product_of, args, items, 2, NULL, gradients);
  return ls_status_is_ok(status) ? LS_TUPLE(gradients[0], gradients[1])
                                 : ls_fail(status);
}

static void both_have_all(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (size_t i = 0; i < 2; ++i)
      ways_expect(self, "a gradient", ways_result(self, 0, r, i, 0),
                  2 * 3 * (r + 1), 1e-6);
}

TEST(a_handle_and_its_variable_have_one_gradient_in_every_way) {
  for (unsigned i = 0; i < 4; ++i) {
    const order how = {.in_branch = (i & 1) != 0, .handle_first = (i & 2) != 0};
    const ways_case c = {.name = how.in_branch ? "in a branch" : "plainly",
                         .user = &how,
                         .make = make_factor,
                         .args = number_of_replica,
                         .step = both_gradients,
                         .check = both_have_all,
                         .one_table = true};
    ways_hold(&c, 1);
  }
}

// ---- Across replicas -------------------------------------------------------
enum { NUM_XS = 4 };

// Lists the variable, its components, of which the variable's reads are the
// first, and a handle over the second, from `first` on.
typedef struct across {
  ls_variable *w, *handle;
  size_t first;
  bool by_tape;
} across;

static ls_nest gradients_across(ls_nest none, void *user) {
  const across *a = user;
  LS_OWN(ls_tape, tape) = NULL;
  LS_OWN(ls_nest, all) = LS_LIST(
      ls_nest_variable(a->w), ls_nest_variable(ls_variable_component(a->w, 0)),
      ls_nest_variable(ls_variable_component(a->w, 1)),
      ls_nest_variable(a->handle));
  ls_nest xs[NUM_XS], gradients[NUM_XS] = {0}, made[NUM_XS];
  (void)none;
  if (a->by_tape) expect_ok(ls_tape_begin(&tape));
  const ls_tensor read = ls_variable_read(a->w);
  const ls_nest y =
      ls_leaf(ls_mul(ls_mul(read, read), ls_variable_read(a->handle)));
  for (size_t i = 0; i < NUM_XS; ++i)
    xs[i] = ls_nest_item(all, (i + a->first) % NUM_XS);
  expect_ok(a->by_tape ? ls_tape_gradients(tape, y, xs, NUM_XS, gradients)
                       : ls_gradients(&y, 1, xs, NUM_XS, NULL, gradients));
  for (size_t i = 0; i < NUM_XS; ++i)
    made[(i + a->first) % NUM_XS] = gradients[i];
  return ls_nest_sequence(LS_KIND_LIST, made, NUM_XS);
}

// w is 3 on both: d(w0 w0 w1) is 2 w0 w1 for w0, w0 w0 for w1.
static void expect_gradients(ls_nest got) {
  static const double wanted[NUM_XS] = {27, 18, 9, 9};
  assert_int_equal(ls_nest_count(got), NUM_XS);
  for (size_t i = 0; i < NUM_XS; ++i) {
    const ls_nest leaf = ls_nest_item(got, i);
    assert_int_not_equal(leaf.kind, LS_KIND_NONE);
    assert_true((leaf.kind == LS_KIND_TENSOR
                     ? item_of(leaf.as.tensor)
                     : nest_element(leaf, 0)) == wanted[i]);
  }
}

static void make_across(across *a, ls_strategy *strategy) {
  LS_OWN(ls_array, three) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){3});
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .initial_array = three}, &a->w));
  }
  expect_ok(
      ls_caching_variable_create(ls_variable_component(a->w, 1), &a->handle));
}

static void drop_across(across *a) {
  ls_variable_release(a->handle);
  ls_variable_release(a->w);
}

static void expect_in_eager(ls_strategy *strategy, size_t first) {
  across a = {.first = first};
  make_across(&a, strategy);
  LS_OWN(ls_function, function) = function_of(gradients_across, &a);
  LS_OWN(ls_nest, called) = call_results(function, ls_none());
  expect_gradients(called);
  a.by_tape = true;
  expect_ok(ls_frame_begin());
  LS_OWN(ls_nest, made) = gradients_across(ls_none(), &a);
  expect_gradients(made);
  expect_ok(ls_frame_end(NULL));
  drop_across(&a);
}

static void expect_in_session(ls_strategy *strategy, size_t first) {
  across a = {.first = first};
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_nest, made) = ls_none();
  ls_op init = {0};
  {
    LS_GRAPH_SCOPE(graph);
    make_across(&a, strategy);
    made = gradients_across(ls_none(), &a);
    init = ls_global_initializer();
  }
  LS_OWN(ls_session, session) = session_of(graph);
  ls_nest_release(session_results(session, ls_nest_op(init)));
  LS_OWN(ls_nest, results) = session_results(session, made);
  expect_gradients(results);
  drop_across(&a);
}

TEST(a_variable_and_its_components_have_gradients_of_their_own) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t first = 0; first < NUM_XS; ++first) {
    expect_in_eager(strategy, first);
    expect_in_session(strategy, first);
  }
}

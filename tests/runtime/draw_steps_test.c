// SPDX-License-Identifier: Apache-2.0
//
// The step that a session's random ops draw by: the graph's global step if it
// has one, else the number of runs that draw; never what is fetched.
#include "distribute/own.h"
#include "lockstep/session.h"
#include "support/replicas.h"
#include "support/values.h"

enum { WIDTH = 5, MOST_REPLICAS = 3 };

static ls_tensor draw(void) {
  return ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(WIDTH), 0, 1, NULL);
}

// ---- What is fetched -------------------------------------------------------
// A graph whose first two values both come of one draw.
typedef struct drawing {
  ls_graph *graph;
  ls_session *session;
  ls_tensor drawn, more, other;  // `other` draws nothing.
  ls_variable *global_step;      // NULL: it has none.
  ls_op next;                    // Adds one to it.
} drawing;

static ls_variable *make_global_step(const char *name, ls_dtype dtype,
                                     ls_shape shape) {
  static const char *const collections[] = {LS_COLLECTION_GLOBAL_VARIABLES,
                                            LS_COLLECTION_GLOBAL_STEP};
  ls_variable *made = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.name = name,
                                                .dtype = dtype,
                                                .shape = shape,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = collections,
                                                .num_collections = 2},
                         &made));
  return made;
}

static void make_drawing(drawing *d, bool counts) {
  *d = (drawing){0};
  expect_ok(ls_graph_create("g", &d->graph));
  {
    LS_GRAPH_SCOPE(d->graph);
    d->drawn = draw();
    d->more = ls_mul_scalar(d->drawn, 2);
    d->other = ls_square(ls_scalar(LS_DTYPE_F32, 3));
    if (counts) {
      d->global_step = make_global_step("global_step", LS_DTYPE_I64, LS_SCALAR);
      d->next = ls_tensor_op(ls_variable_assign_add(
          d->global_step, ls_scalar_i64(LS_DTYPE_I64, 1)));
    }
  }
  expect_ok(ls_session_create(d->graph, &d->session));
}

static void end_drawing(drawing *d) {
  ls_session_destroy(d->session);
  ls_variable_release(d->global_step);
  ls_graph_destroy(d->graph);
}
LS_OWNED_STRUCT(drawing, end_drawing)

static ls_status run_fetch(const drawing *d, ls_nest fetches,
                           ls_nest *results) {
  *results = ls_none();
  const ls_status status =
      ls_session_run(d->session, fetches, NULL, 0, results);
  ls_nest_release(fetches);
  return status;
}

static float first_of(ls_nest nest) {
  return *(const float *)ls_nest_data(nest, 0);
}

// The first number of draw after draw, each time fetched by itself.
static void draw_plainly(float *numbers, int count) {
  LS_OWN_BEGUN(drawing, d, make_drawing, false);
  for (int i = 0; i < count; ++i) {
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
    numbers[i] = first_of(result);
  }
}

TEST(a_session_draws_by_its_runs_whatever_they_fetch) {
  float wanted[6];
  draw_plainly(wanted, 6);
  LS_OWN_BEGUN(drawing, d, make_drawing, false);
  for (int i = 0; i < 6; ++i) {
    ls_nest result;
    if (i % 3 == 0) {
      expect_ok(run_fetch(&d, ls_leaf(d.more), &result));
      assert_true(first_of(result) == 2 * wanted[i]);
    } else if (i % 3 == 1) {
      expect_ok(
          run_fetch(&d, LS_LIST(ls_leaf(d.more), ls_leaf(d.drawn)), &result));
      assert_true(first_of(ls_nest_item(result, 1)) == wanted[i]);
    } else {
      expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
      assert_true(first_of(result) == wanted[i]);
    }
    ls_nest_release(result);
    expect_ok(run_fetch(&d, ls_leaf(d.other), &result));
    ls_nest_release(result);
    for (int k = 0; k < i; ++k)
      assert_true(wanted[k] != wanted[i]);
  }
}

// ---- The global step -------------------------------------------------------
TEST(a_session_draws_by_the_global_step_if_there_is_one) {
  float wanted[4];
  ls_nest result;
  draw_plainly(wanted, 4);
  LS_OWN_BEGUN(drawing, d, make_drawing, true);
  // As it will be when it has a value: 0.
  expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
  assert_true(first_of(result) == wanted[0]);
  ls_nest_release(result);
  ls_op initialize;
  {
    LS_GRAPH_SCOPE(d.graph);
    initialize = ls_global_initializer();
  }
  expect_ok(run_fetch(&d, ls_nest_op(initialize), &result));
  ls_nest_release(result);
  for (int i = 0; i < 4; ++i) {
    // Looking on changes nothing, a step does: at its start it is i.
    for (int k = 0; k < 2; ++k) {
      expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
      assert_true(first_of(result) == wanted[i]);
      ls_nest_release(result);
    }
    expect_ok(
        run_fetch(&d, LS_LIST(ls_nest_op(d.next), ls_leaf(d.drawn)), &result));
    assert_true(first_of(ls_nest_item(result, 1)) == wanted[i]);
    ls_nest_release(result);
  }
  const double two = 2;
  ls_array *array = array_of(LS_DTYPE_I64, LS_SCALAR, &two);
  expect_ok(ls_session_set_variable_value(d.session, d.global_step, array));
  ls_array_release(array);
  expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
  assert_true(first_of(result) == wanted[2]);
  ls_nest_release(result);
}

TEST(the_global_step_may_be_a_distributed_variable) {
  float wanted[3];
  draw_plainly(wanted, 3);
  for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas) {
    LS_OWN(drawing, d) = {0};
    ls_nest result;
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    ls_op initialize, next;
    expect_ok(ls_graph_create("g", &d.graph));
    {
      LS_GRAPH_SCOPE(d.graph);
      d.drawn = draw();
      LS_STRATEGY_SCOPE(strategy);
      d.global_step = make_global_step("global_step", LS_DTYPE_I32, LS_SCALAR);
      next = ls_tensor_op(ls_variable_assign_add(
          d.global_step, ls_scalar_i64(LS_DTYPE_I32, 1)));
      initialize = ls_global_initializer();
    }
    expect_ok(ls_session_create(d.graph, &d.session));
    expect_ok(run_fetch(&d, ls_nest_op(initialize), &result));
    ls_nest_release(result);
    for (int i = 0; i < 3; ++i) {
      expect_ok(run_fetch(&d, ls_leaf(d.drawn), &result));
      assert_true(first_of(result) == wanted[i]);
      ls_nest_release(result);
      expect_ok(run_fetch(&d, ls_nest_op(next), &result));
      ls_nest_release(result);
    }
  }
}

TEST(what_cannot_be_a_global_step_is_refused_by_who_draws) {
  static const struct {
    ls_dtype dtype;
    int32_t rank;
    bool two;
    const char *says;
  } cases[] = {
      {LS_DTYPE_F32, 0, false, "global step 'global_step' is f32[]"},
      {LS_DTYPE_I64, 1, false, "global step 'global_step' is i64[2]"},
      {LS_DTYPE_I64, 0, true, "2 global steps"},
  };
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(drawing, d) = {0};
    LS_OWN(ls_nest, result) = ls_none();
    ls_tensor quiet;
    LS_OWN(ls_variable, other) = NULL;
    make_drawing(&d, false);
    {
      LS_GRAPH_SCOPE(d.graph);
      d.global_step =
          make_global_step("global_step", cases[i].dtype,
                           cases[i].rank == 0 ? LS_SCALAR : LS_SHAPE(2));
      if (cases[i].two)
        other = make_global_step("other", LS_DTYPE_I64, LS_SCALAR);
      quiet = ls_scalar(LS_DTYPE_F32, 1);
    }
    expect_status(run_fetch(&d, ls_leaf(d.drawn), &result),
                  LS_FAILED_PRECONDITION, cases[i].says);
    expect_ok(run_fetch(&d, ls_leaf(quiet), &result));
  }
}

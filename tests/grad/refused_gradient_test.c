// SPDX-License-Identifier: Apache-2.0
//
// What refused gradients leave of loops and branches that were there: nothing.
// The same of attributes that a refused call has set.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "support/describe.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// What stands in the graph before each refusal.
typedef struct scene {
  ls_graph *graph;
  ls_strategy *strategy;
  ls_tensor x, looped, smooth, branched, nested;
  ls_op marked, unmarked;
  bool refuses;
} scene;

// Has no gradient.
static ls_tensor scaled(ls_tensor x) {
  return ls_scatter(LS_SCATTER_MUL, x, ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 0),
                    ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 2));
}

static ls_nest twice(ls_nest carried, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(carried, 0), ls_scalar_i64(LS_DTYPE_I32, 2)));
}

static ls_nest next_of(ls_nest carried, ls_tensor x) {
  return LS_TUPLE(ls_leaf(ls_add(ls_nest_tensor(carried, 0),
                                 ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_leaf(x));
}

static ls_nest initial(ls_tensor x) {
  return LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(x));
}

// Its gradient takes what the last ops give from each trip, and then comes to
// one without a gradient.
static ls_nest body(ls_nest carried, void *user) {
  const ls_tensor y = scaled(ls_nest_tensor(carried, 1));
  (void)user;
  return next_of(carried, ls_mul(ls_sin(y), ls_exp(y)));
}

static ls_nest smooth_body(ls_nest carried, void *user) {
  const ls_tensor y = ls_nest_tensor(carried, 1);
  (void)user;
  return next_of(carried, ls_mul(ls_sin(y), ls_exp(y)));
}

static ls_tensor loop_of(ls_flow_callback callback, ls_tensor x) {
  LS_OWN(ls_nest, made) = ls_while(twice, callback, NULL, initial(x), 0);
  return ls_nest_tensor(made, 1);
}

static ls_tensor loop(ls_tensor x) { return loop_of(body, x); }

// What is drawn leaves the branch for its gradient.
static ls_nest draw(ls_nest none, void *user) {
  const scene *s = user;
  (void)none;
  return ls_leaf(ls_mul(
      scaled(s->x), ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(2), 0, 1, NULL)));
}

static ls_nest draw_not(ls_nest none, void *user) {
  const scene *s = user;
  (void)none;
  return ls_leaf(ls_neg(s->x));
}

static ls_nest loop_in_branch(ls_nest none, void *user) {
  const scene *s = user;
  (void)none;
  return ls_leaf(loop(s->x));
}

static ls_tensor branch(ls_flow_callback then, scene *s) {
  const ls_tensor is_positive =
      ls_greater(ls_reduce_sum(s->x, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 0));
  LS_OWN(ls_nest, made) = ls_cond(is_positive, then, draw_not, s);
  return ls_nest_tensor(made, 0);
}

static void refuse_gradient(ls_tensor y, ls_tensor x) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest gradients[1];
  expect_status(ls_gradients(ys, 1, xs, 1, NULL, gradients), LS_UNIMPLEMENTED,
                "scatter");
}

// ---- Refusals --------------------------------------------------------------
static void of_a_loop(scene *s) { refuse_gradient(s->looped, s->x); }

static void of_a_branch(scene *s) { refuse_gradient(s->branched, s->x); }

static void of_a_loop_in_a_branch(scene *s) {
  refuse_gradient(s->nested, s->x);
}

static void of_all_and_again(scene *s) {
  of_a_loop(s);
  of_a_loop_in_a_branch(s);
  of_a_branch(s);
  of_a_loop(s);
}

static ls_nest give_up(ls_nest args, void *user) {
  scene *s = user;
  (void)args;
  const ls_attr mark = {
      .name = "mark", .kind = LS_ATTR_STRING, .as.string = "later"};
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  const ls_attr held = {
      .name = "held", .kind = LS_ATTR_ARRAY, .as.array = array};
  expect_ok(ls_op_set_attr(s->marked, &mark));
  expect_ok(ls_op_set_attr(s->unmarked, &mark));
  expect_ok(ls_op_set_attr(s->marked, &held));
  expect_ok(ls_op_set_attr(s->marked, &held));
  // What is refused inside is taken back by itself.
  of_a_loop(s);
  return LS_FAIL(LS_ABORTED, "the step gives up");
}

static void of_a_step(scene *s) {
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(s->strategy, ls_plain(give_up, s), ls_none(), &made),
      LS_ABORTED, "gives up");
}

static ls_nest go_well(ls_nest args, void *user) {
  scene *s = user;
  const ls_nest ys[] = {ls_leaf(s->smooth)}, xs[] = {ls_leaf(s->x)};
  ls_nest gradients[1];
  (void)args;
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, gradients));
  ls_nest_release(gradients[0]);
  return LS_FAIL(LS_ABORTED, "the step gives up");
}

// Gradients that went well go with the step around them.
static void of_a_step_around(scene *s) {
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(s->strategy, ls_plain(go_well, s), ls_none(), &made),
      LS_ABORTED, "gives up");
}

// With values that no graph around has captured.
static ls_nest refuse_deep(ls_nest none, void *user) {
  scene *s = user;
  (void)none;
  const ls_nest ys[] = {ls_leaf(s->looped)}, xs[] = {ls_leaf(s->x)};
  ls_nest gradients[1];
  const ls_gradient_options options = {
      .grad_ys = (const ls_nest[]){ls_leaf(s->smooth)}};
  if (s->refuses)
    expect_status(ls_gradients(ys, 1, xs, 1, &options, gradients),
                  LS_UNIMPLEMENTED, "scatter");
  return ls_leaf(ls_neg(s->x));
}

static ls_nest refuse_inside(ls_nest none, void *user) {
  scene *s = user;
  (void)none;
  const ls_tensor z = branch(refuse_deep, s);
  const ls_tensor y = loop(ls_mul_scalar(z, 2));
  if (s->refuses) {
    refuse_gradient(y, s->x);
    of_a_branch(s);  // Of one around this one.
  }
  return ls_leaf(ls_neg(y));
}

// ---- All of them -----------------------------------------------------------
typedef struct refusal {
  const char *name;
  void (*refuse)(scene *s);
} refusal;
#define REFUSAL(function)                                                      \
  { #function, function }
static const refusal refusals[] = {
    REFUSAL(of_a_loop),
    REFUSAL(of_a_branch),
    REFUSAL(of_a_loop_in_a_branch),
    REFUSAL(of_all_and_again),
    REFUSAL(of_a_step),
    REFUSAL(of_a_step_around),
    {"of a loop in a branch that is being built", NULL},
};

static void fill_scene(scene *s) {
  const ls_attr mark = {
      .name = "mark", .kind = LS_ATTR_STRING, .as.string = "first"};
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){7});
  s->x = ls_identity_named(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1), "x");
  s->looped = loop(s->x);
  s->smooth = loop_of(smooth_body, s->x);
  s->branched = branch(draw, s);
  s->nested = branch(loop_in_branch, s);
  s->marked = ls_tensor_op(s->looped);
  s->unmarked = ls_tensor_op(s->branched);
  expect_ok(ls_op_set_attr(s->marked, &mark));
  expect_ok(ls_op_set_attr(
      s->marked,
      &(ls_attr){.name = "held", .kind = LS_ATTR_ARRAY, .as.array = array}));
}

static char *play(void (*refuse)(scene *s), bool refuses) {
  scene s = {.refuses = refuses};
  expect_ok(ls_graph_create("g", &s.graph));
  s.strategy = mirrored_of(2);
  {
    LS_GRAPH_SCOPE(s.graph);
    fill_scene(&s);
    if (refuse != NULL) refuse(&s);
    expect_ok(ls_graph_error(s.graph));
    const ls_tensor behind = branch(refuse_inside, &s);
    expect_ok(ls_graph_error(s.graph));
    // It gets the names that are free.
    (void)ls_mul(ls_sin(behind), loop(s.x));
  }
  expect_ok(ls_graph_verify(s.graph));
  char *text = graph_text(s.graph);
  char *copy = malloc(strlen(text) + 1);
  strcpy(copy, text);
  drop_numbers(copy);
  ls_text_release(text);
  ls_strategy_release(s.strategy);
  ls_graph_destroy(s.graph);
  return copy;
}

TEST(a_refused_gradient_leaves_loops_and_branches_as_they_were) {
  HEAP(char, wanted) = play(NULL, false);
  for (size_t i = 0; i < LS_COUNT_OF(refusals); ++i) {
    HEAP(char, got) = play(refusals[i].refuse, refusals[i].refuse == NULL);
    if (strcmp(got, wanted) != 0) {
      size_t at = 0;
      while (got[at] == wanted[at])
        ++at;
      while (at > 0 && got[at - 1] != '\n')
        --at;
      fail_msg("a refusal %s leaves:\n%.300s\n--- in place of:\n%.300s",
               refusals[i].name, got + at, wanted + at);
    }
  }
}

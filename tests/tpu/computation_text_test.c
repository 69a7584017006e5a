// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations in graphs that come back from their text: what their
// marks say of them holds again.
#include <string.h>

#include "base/memory/allocator.h"
#include "graph/graph.h"
#include "lockstep/flow.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"

// ---- A graph, twice --------------------------------------------------------

static ls_nest yes(ls_nest none, void *user) {
  (void)none;
  return ls_outside_compilation(negate_leaf, NULL, ls_leaf(*(ls_tensor *)user));
}

static ls_nest no(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_exp(*(const ls_tensor *)user));
}

// The compiled `exp`, the outside `neg`, and both in branches.
static ls_nest body(ls_nest args, void *user) {
  ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  const ls_tensor compiled = ls_exp(x);
  const ls_nest outside =
      ls_outside_compilation(negate_leaf, NULL, ls_leaf(compiled));
  return LS_LIST(outside, ls_cond(ls_less(x, f32_of(3)), yes, no, &x));
}

static ls_nest exponents(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_exp(ls_nest_tensor(args, 0))));
}

static ls_graph *read_back(const ls_graph *graph) {
  ls_graph *parsed = NULL;
  LS_OWN(printed, text) = graph_text(graph);
  expect_ok(ls_graph_parse(text, NULL, 0, &parsed));
  return parsed;
}

static void expect_same_bans(const ls_graph *a, const ls_graph *b,
                             size_t *banned) {
  assert_int_equal(a->num_nodes, b->num_nodes);
  for (size_t i = 0; i < a->num_nodes; ++i) {
    assert_int_equal(a->nodes[i]->not_fed, b->nodes[i]->not_fed);
    assert_int_equal(a->nodes[i]->not_fetched, b->nodes[i]->not_fetched);
    *banned += a->nodes[i]->not_fed;
    for (uint32_t r = 0; r < a->nodes[i]->num_regions; ++r)
      expect_same_bans(a->nodes[i]->regions[r], b->nodes[i]->regions[r],
                       banned);
  }
}

// ---- Bans ------------------------------------------------------------------
static ls_status try_op(ls_graph *graph, const char *name, bool feeds) {
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_array, value) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){2});
  const ls_tensor tensor = ls_op_output(op_named(graph, name), 0);
  const ls_feed feed = {tensor, value};
  expect_ok(ls_session_create(graph, &session));
  return ls_session_run(session, ls_leaf(tensor), &feed, feeds ? 1 : 0,
                        &result);
}

static void expect_ban(ls_graph *graph, const char *name, bool banned) {
  if (!banned) {
    expect_ok(try_op(graph, name, false));
    expect_ok(try_op(graph, name, true));
    return;
  }
  expect_status(try_op(graph, name, false), LS_INVALID_ARGUMENT,
                "has been marked as not fetchable");
}

TEST(what_is_not_fed_or_fetched_comes_back) {
  LS_SPEC("O17 O18");
  for (size_t replicas = 1; replicas <= 2; ++replicas) {
    size_t banned = 0;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, replicas, body, NULL);
    LS_OWN(ls_graph, parsed) = read_back(c.graph);
    expect_same_bans(c.graph, parsed, &banned);
    assert_true(banned > 4);
    ls_graph *const graphs[] = {c.graph, parsed};
    for (size_t i = 0; i < 2; ++i) {
      expect_ban(graphs[i], "exp", true);
      expect_ban(graphs[i], "neg", replicas > 1);
    }
  }
}

TEST(padding_that_nobody_sees_stays_unseen) {
  LS_SPEC("O119");
  for (int shown = 0; shown < 2; ++shown) {
    size_t banned = 0;
    LS_OWN_BEGUN(computation, c, computation_open);
    const ls_nest inputs =
        LS_LIST(LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1))),
                LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1))));
    const ls_nest maxima = LS_LIST(ls_maximum_shape(LS_SHAPE(4)));
    expect_ok(ls_replicate(
        exponents, NULL, inputs,
        &(ls_replicate_options){.maximum_shapes = maxima,
                                .xla.dynamic_padder =
                                    shown == 1 ? LS_FLAG_OFF : LS_FLAG_ON},
        &c.outputs));
    LS_OWN(ls_graph, parsed) = read_back(c.graph);
    expect_same_bans(c.graph, parsed, &banned);
    const ls_op op = op_named(c.graph, "padded_input0");
    assert_int_equal(ls_graph_node(c.graph, op.id)->not_fed, shown == 0);
    ls_nest_release(inputs);
    ls_nest_release(maxima);
  }
}

// ---- Random numbers --------------------------------------------------------
static ls_tensor draw(void) {
  return ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
}

static ls_nest draw_one(ls_nest none, void *user) {
  (void)none, (void)user;
  return ls_leaf(draw());
}

static double fetch_number(ls_graph *graph, ls_tensor tensor) {
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, result) = session_results(session, ls_leaf(tensor));
  return ls_nest_number(result);
}

// An op that is added to the graph that was read draws what it would in the one
// that was printed.
TEST(ops_that_are_added_draw_as_in_the_first_graph) {
  for (int64_t seed = 0; seed <= 7; seed += 7) {
    LS_OWN_BEGUN(computation, c, computation_open);
    expect_ok(ls_graph_set_seed(c.graph, seed));
    const ls_tensor first = draw();
    ls_nest_release(
        ls_cond(ls_less(first, f32_of(0.5)), draw_one, draw_one, NULL));
    LS_OWN(ls_graph, parsed) = read_back(c.graph);
    const double wanted = fetch_number(c.graph, draw());
    double got = 0;
    {
      LS_GRAPH_SCOPE(parsed);
      got = fetch_number(parsed, draw());
    }
    assert_true(got == wanted);
  }
}

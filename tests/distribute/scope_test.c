// SPDX-License-Identifier: Apache-2.0
//
// Scopes: what entering pushes, and that every way out puts it back.
#include "distribute/base/strategy.h"

#include <stdio.h>

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/handles.h"
#include "lockstep/strategy_extended.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"

// ---- Every way out ----------------------------------------------------------
typedef enum way { FALLS, BREAKS, CONTINUES, RETURNS, JUMPS, WAYS } way;

// What a thread sees of its scopes.
typedef struct sight {
  char names[64], device[64];
  bool cross, caching;
  ls_strategy *strategy;
  size_t control;
} sight;

static sight look(void) {
  sight s = {.cross = ls_in_cross_replica_context(),
             .caching = ls_in_caching_scope(),
             .strategy = ls_strategy_current()};
  const ls_op op = ls_tensor_op(ls_scalar(LS_DTYPE_F32, 1));
  snprintf(s.names, sizeof(s.names), "%s", ls_name_scope_current());
  snprintf(s.device, sizeof(s.device), "%s", ls_op_device(op));
  s.control = ls_op_num_control_inputs(op);
  return s;
}

static void expect_sight(const sight *a, const sight *b) {
  assert_string_equal(a->names, b->names);
  assert_string_equal(a->device, b->device);
  assert_int_equal(a->cross, b->cross);
  assert_int_equal(a->caching, b->caching);
  assert_ptr_equal(a->strategy, b->strategy);
  assert_int_equal(a->control, b->control);
}

// Turns through a scope of this kind, left by `how`; *after counts those that
// come to what follows the scope.
#define ROUND(kind, scope)                                                     \
  static int round_##kind(way how, ls_strategy *strategy, ls_op op,            \
                          sight *inside, int *after) {                         \
    (void)strategy;                                                            \
    (void)op;                                                                  \
    int turns = 0;                                                             \
    for (int i = 0; i < 2; ++i) {                                              \
      ++turns;                                                                 \
      {                                                                        \
        scope;                                                                 \
        *inside = look();                                                      \
        if (how == BREAKS) break;                                              \
        if (how == CONTINUES) continue;                                        \
        if (how == RETURNS) return turns;                                      \
        if (how == JUMPS) goto out;                                            \
      }                                                                        \
      ++*after;                                                                \
    }                                                                          \
  out:                                                                         \
    return turns;                                                              \
  }
ROUND(strategy, LS_STRATEGY_SCOPE(strategy))
ROUND(device, LS_DEVICE_SCOPE("/cpu:3"))
ROUND(name, LS_NAME_SCOPE("inner"))
ROUND(caching, LS_CACHING_SCOPE)
ROUND(control, LS_CONTROL_SCOPE(&op, 1))

static int round_nested(way how, ls_strategy *strategy, ls_op op, sight *inside,
                        int *after) {
  int turns = 0;
  for (int i = 0; i < 2; ++i) {
    ++turns;
    {
      LS_STRATEGY_SCOPE(strategy);
      LS_DEVICE_SCOPE("/cpu:3");
      LS_NAME_SCOPE("inner");
      LS_CACHING_SCOPE;
      LS_CONTROL_SCOPE(&op, 1);
      *inside = look();
      if (how == BREAKS) break;
      if (how == CONTINUES) continue;
      if (how == RETURNS) return turns;
      if (how == JUMPS) goto out;
    }
    ++*after;
  }
out:
  return turns;
}

TEST(a_block_is_left_on_every_way_out) {
  LS_SPEC("V214");
  static int (*const rounds[])(way, ls_strategy *, ls_op, sight *, int *) = {
      round_strategy, round_device,  round_name,
      round_caching,  round_control, round_nested};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_NAME_SCOPE("outer");
    const ls_op op = ls_tensor_op(ls_scalar(LS_DTYPE_F32, 0));
    const sight before = look();
    for (size_t k = 0; k < sizeof(rounds) / sizeof(*rounds); ++k)
      for (way how = FALLS; how < WAYS; ++how) {
        sight inside = {.control = 9}, after;
        int follows = 0;
        const int turns = rounds[k](how, strategy, op, &inside, &follows);
        after = look();
        // The loop around goes on as C says.
        assert_int_equal(turns, how == FALLS || how == CONTINUES ? 2 : 1);
        assert_int_equal(follows, how == FALLS ? 2 : 0);
        expect_sight(&after, &before);
        // It was in force inside.
        if (k == 0 || k == 5) assert_ptr_equal(inside.strategy, strategy);
        if (k == 1 || k == 5)
          assert_string_equal(inside.device, "/device:CPU:3");
        if (k == 2 || k == 5) expect_contains(inside.names, "outer/inner");
        if (k == 3 || k == 5) assert_true(inside.caching);
        if (k == 4 || k == 5) assert_int_equal(inside.control, 1);
      }
  }
}

TEST(nothing_works_in_a_refused_block) {
  LS_SPEC("V214");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
  {
    LS_STRATEGY_SCOPE(a);
    {
      LS_STRATEGY_SCOPE(b);
      {
        LS_DEVICE_SCOPE("/cpu:1");
        expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                      "cannot be mixed");
        ls_variable *v = NULL;
        expect_status(ls_variable_create(
                          &(ls_variable_options){.dtype = LS_DTYPE_F32}, &v),
                      LS_FAILED_PRECONDITION, "cannot be mixed");
        assert_true(ls_tensor_is_failed(scalar_of(1)));
      }
    }
    expect_ok(ls_scope_status());
    assert_ptr_equal(ls_strategy_current(), a);
  }
}

// ---- Entering and leaving a strategy ----------------------------------------
TEST(entering_pushes_state_creator_and_device) {
  LS_SPEC("V158");
  static char device[] = "/job:localhost/replica:0/task:0/device:CPU:5";
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  int outside = 0;
  for (int with_device = 0; with_device < 2; ++with_device) {
    strategy->default_device = with_device ? device : NULL;
    {
      LS_CREATOR_SCOPE(count_creation, &outside);
      LS_DEVICE_SCOPE("/cpu:1");
      {
        LS_STRATEGY_SCOPE(strategy);
        assert_ptr_equal(ls_strategy_current(), strategy);
        assert_true(ls_in_cross_replica_context());
        assert_null(ls_replica_context());
        assert_string_equal(ls_op_device(ls_tensor_op(scalar_of(1))),
                            with_device ? device : "/device:CPU:1");
        // The strategy's creator stands inside of those around.
        LS_OWN(ls_variable, v) = NULL;
        outside = 0;
        expect_ok(ls_variable_create(
            &(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
        assert_int_equal(ls_variable_num_components(v), 2);
        assert_int_equal(outside, 2);
      }
      assert_false(ls_has_strategy());
      assert_string_equal(ls_op_device(ls_tensor_op(scalar_of(1))),
                          "/device:CPU:1");
      LS_OWN(ls_variable, v) = NULL;
      expect_ok(ls_variable_create(
          &(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
      assert_int_equal(ls_variable_num_components(v), 0);
    }
  }
  strategy->default_device = NULL;
}

typedef void (*opener)(ls_scope *scope);

static void open_device(ls_scope *scope) {
  ls_device_scope_begin(scope, "/cpu:1");
}

static int creations;
static void open_creator(ls_scope *scope) {
  ls_creator_scope_begin(scope, count_creation, &creations);
}

static void open_name(ls_scope *scope) { ls_name_scope_begin(scope, "n"); }

TEST(a_scope_inside_must_be_left_first) {
  LS_SPEC("V163 V214");
  static const struct {
    opener open;
    const char *kind;
  } rows[] = {{open_device, "a device scope"},
              {open_creator, "a variable creator scope"},
              {open_name, "a name scope"},
              {ls_caching_scope_begin, "a caching scope"},
              {ls_stop_recording_begin, "a scope without recording"}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    ls_scope scope = {0}, inner = {0};
    ls_strategy_scope_begin(&scope, strategy);
    rows[i].open(&inner);
    expect_status(ls_strategy_scope_end(&scope), LS_FAILED_PRECONDITION,
                  rows[i].kind);
    assert_ptr_equal(ls_strategy_current(), strategy);
    assert_true(ls_in_cross_replica_context());
    ls_scope_end(&inner);
    assert_ptr_equal(ls_strategy_current(), strategy);
    expect_ok(ls_strategy_scope_end(&scope));
    assert_false(ls_has_strategy());
  }
}

// ---- What needs a scope -----------------------------------------------------
static void expect_needs_scope(ls_strategy *strategy, ls_nest with,
                               const char *says) {
  {
    LS_COLOCATE_VARIABLES_SCOPE(strategy, with);
    const ls_status status = ls_scope_status();
    expect_contains(ls_status_message(status), "colocate_vars_with");
    expect_contains(ls_status_message(status), ls_strategy_label(strategy));
    expect_status(status, LS_FAILED_PRECONDITION, says);
  }
}

TEST(what_needs_a_scope_names_its_strategy) {
  LS_SPEC("V165");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, with) = ls_nest_variable(v);
  expect_needs_scope(strategy, with, "scope");
  {
    LS_STRATEGY_SCOPE(other);
    expect_needs_scope(strategy, with, "scope");
  }
  {
    LS_STRATEGY_SCOPE(strategy);
    {
      LS_COLOCATE_VARIABLES_SCOPE(strategy, with);
      expect_ok(ls_scope_status());
    }
  }
}

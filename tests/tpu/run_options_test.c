// SPDX-License-Identifier: Apache-2.0
//
// Options of runs of TPU strategies: what they change, what is refused, and
// that each function keeps a trace for each.
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

static int num_calls;
static ls_nest add_one(ls_nest args, void *user) {
  (void)user;
  ++num_calls;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), f32_of(1)));
}

static bool flag_of(const ls_graph *graph, const char *attr_name) {
  const ls_op op = op_named(graph, "tpu_replicate_metadata");
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op, attr_name, &attr));
  return attr->as.i != 0;
}

static const ls_xla_options all_defaults = {0};
static const ls_xla_options all_on = {LS_FLAG_ON, LS_FLAG_ON};
static const ls_xla_options cores_apart = {.spmd = LS_FLAG_OFF};

// XLA options are taken whole: left out, a strategy's own, whose SPMD is off.
static const struct {
  ls_run_options options;
  bool spmd, soft;
} ways_to_run[] = {
    {{0}, false, true},
    {{.xla = &all_defaults}, true, true},
    {{.xla = &cores_apart}, false, true},
    {{.soft_placement = LS_FLAG_OFF}, false, false},
    {{.dynamic_batch = LS_FLAG_ON, .bucketize = LS_FLAG_OFF}, false, true},
    {{.xla = &all_on}, true, true},
};
enum { NUM_WAYS_TO_RUN = sizeof(ways_to_run) / sizeof(*ways_to_run) };

TEST(xla_options_are_the_callers_or_the_strategys) {
  LS_SPEC("T71 T106");
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (size_t i = 0; i < NUM_WAYS_TO_RUN; ++i) {
      LS_OWN(ls_strategy, s) = tpu_strategy_of(replicas);
      LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(4));
      ls_function *f = function_of(add_one, NULL);
      ls_nest result = ls_none();
      expect_ok(ls_strategy_run_with(s, ls_traced(f), args,
                                     &ways_to_run[i].options, &result));
      const ls_graph *traced = ls_function_graph(f);
      assert_int_equal(flag_of(traced, "use_spmd"), ways_to_run[i].spmd);
      assert_int_equal(flag_of(traced, "allow_soft_placement"),
                       ways_to_run[i].soft);
      ls_nest_release(result);
      ls_function_release(f);
      // Built, of a plain callback.
      LS_OWN_BEGUN(computation, c, computation_open);
      expect_ok(ls_strategy_run_with(s, ls_plain(add_one, NULL), args,
                                     &ways_to_run[i].options, &c.outputs));
      assert_int_equal(flag_of(c.graph, "use_spmd"), ways_to_run[i].spmd);
      assert_true(
          computation_fetch(
              &c, replicas == 1
                      ? c.outputs.as.tensor
                      : ls_distributed_component(c.outputs, 0).as.tensor) == 5);
    }
  // A computation by itself is SPMD.
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 1, add_one, NULL);
  assert_true(flag_of(c.graph, "use_spmd"));
}

TEST(a_function_keeps_a_trace_for_each_way) {
  LS_SPEC("T70 T72");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, other) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(add_one, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(4));
  // The first, third and fifth mean the same, and the second and sixth: what is
  // not said is as it is said there.
  static const int traces[NUM_WAYS_TO_RUN] = {1, 2, 2, 3, 3, 3};
  num_calls = 0;
  LS_OWN(ls_nest, result) = ls_none();
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < NUM_WAYS_TO_RUN; ++i) {
      expect_ok(ls_strategy_run_with(s, ls_traced(f), args,
                                     &ways_to_run[i].options, &result));
      assert_int_equal(num_calls, round == 0 ? traces[i] : 3);
    }
  // Nothing is another strategy's.
  expect_ok(ls_strategy_run(other, ls_traced(f), args, &result));
  assert_int_equal(num_calls, 4);
}

// ---- Refusals --------------------------------------------------------------
static const ls_xla_options no_flag = {.spmd = (ls_flag)5};
static const ls_xla_options no_padder_flag = {.dynamic_padder = (ls_flag)6};

TEST(what_is_no_flag_is_refused) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(add_one, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(4));
  const struct {
    ls_run_options options;
    const char *part;
  } rows[] = {
      {{.dynamic_batch = (ls_flag)3}, "dynamic_batch 3"},
      {{.bucketize = (ls_flag)3}, "bucketize 3"},
      {{.soft_placement = (ls_flag)3}, "soft_placement 3"},
      {{.xla = &no_flag}, "spmd 5"},
      {{.xla = &no_padder_flag}, "dynamic_padder 6"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    ls_nest result = ls_none();
    expect_status(
        ls_strategy_run_with(s, ls_traced(f), args, &rows[i].options, &result),
        LS_INVALID_ARGUMENT, rows[i].part);
  }
}

TEST(other_strategies_refuse_them) {
  LS_OWN(ls_strategy, s) = mirrored_of(2);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(4));
  for (size_t i = 1; i < NUM_WAYS_TO_RUN; ++i) {
    ls_nest result = ls_none();
    expect_status(ls_strategy_run_with(s, ls_plain(add_one, NULL), args,
                                       &ways_to_run[i].options, &result),
                  LS_INVALID_ARGUMENT, "for TPU strategies");
  }
}

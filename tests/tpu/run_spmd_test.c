// SPDX-License-Identifier: Apache-2.0
//
// Whether a replica's cores are one to a run: as its strategy was made, or as
// the run says.
#include "lockstep/function_plan.h"
#include "lockstep/graph_ops.h"
#include "lockstep/logical_device.h"
#include "lockstep/regroup.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"

enum { REPLICAS = 2 };

// Two replicas of two cores each.
static ls_strategy *strategy_of_pairs(ls_flag spmd) {
  static const int at[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  LS_OWN(ls_topology, topology) = make_topology(1, 4);
  LS_OWN(ls_device_assignment, assignment) =
      make_assignment(topology, REPLICAS, 2, at);
  ls_strategy *strategy = NULL;
  expect_ok(ls_tpu_strategy_create(
      &(ls_tpu_options){.assignment = assignment, .spmd = spmd}, &strategy));
  return strategy;
}

static bool is_spmd(const ls_graph *graph) {
  const ls_attr *attr = NULL;
  expect_ok(
      ls_op_attr(op_named(graph, "tpu_replicate_metadata"), "use_spmd", &attr));
  return attr->as.i != 0;
}

static ls_nest add_sum(ls_nest args, void *user) {
  int *calls = user;
  ++*calls;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(ls_add(x, ls_reduce_sum(x, LS_ALL_AXES)));
}

typedef struct split_step {
  ls_strategy *strategy;
  int calls;
} split_step;

static ls_nest map_split(ls_nest args, void *user) {
  static const int64_t parts[] = {2};
  split_step *s = user;
  ls_tensor x = ls_iota(LS_DTYPE_F32, LS_SHAPE(4), 0);
  x = ls_mul(x, ls_nest_tensor(args, 0));
  x = ls_split_to_logical_devices(s->strategy, x, parts, 1);
  return ls_map_outside_compilation(add_sum, &s->calls, ls_leaf(x));
}

// What a strategy was made with holds unless a run says otherwise.
TEST(a_run_is_spmd_as_its_strategy_is_or_as_it_says) {
  LS_SPEC("T71 T106 O46");
  static const ls_xla_options apart = {.spmd = LS_FLAG_OFF}, one = {0};
  static const struct {
    ls_flag made;
    const ls_xla_options *said;
    bool spmd;
  } rows[] = {{LS_FLAG_OFF, NULL, false},
              {LS_FLAG_ON, NULL, true},
              {LS_FLAG_OFF, &one, true},
              {LS_FLAG_ON, &apart, false}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    split_step step = {.strategy = strategy_of_pairs(rows[i].made)};
    LS_OWN(ls_function, f) = function_of(map_split, &step);
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(2));
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(ls_strategy_run_with(step.strategy, ls_traced(f), args,
                                   &(ls_run_options){.xla = rows[i].said},
                                   &result));
    assert_int_equal(is_spmd(ls_function_graph(f)), rows[i].spmd);
    // Cut, each half adds up its own: 0 + 2 and 4 + 6.
    assert_int_equal(step.calls, rows[i].spmd ? 2 : 1);
    const ls_array *value =
        ls_nest_as_array(ls_distributed_component(result, 1));
    for (int k = 0; k < 4; ++k)
      assert_true(ls_array_f64(value, k) == 2 * k + (!rows[i].spmd ? 12
                                                     : k < 2       ? 2
                                                                   : 10));
    ls_strategy_release(step.strategy);
  }
}

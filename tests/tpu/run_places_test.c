// SPDX-License-Identifier: Apache-2.0
//
// Where runs of TPU strategies compute: results on the replicas' cores, ops
// that no core runs on hosts if they may go there.
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/replicate.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_runs.h"
#include "support/tpu_strategies.h"

// ---- Cores ----------------------------------------------------------------
typedef struct seen_ops {
  ls_op made, output;
} seen_ops;

static ls_nest negate(ls_nest args, void *user) {
  const ls_tensor x = ls_neg(ls_nest_tensor(args, 0));
  if (user != NULL) ((seen_ops *)user)->made = ls_tensor_op(x);
  return LS_LIST(ls_leaf(x), ls_leaf(ls_add(x, f32_of(1))));
}

static const char *mark_of(ls_op op) { return attr_text(op, "_tpu_replicate"); }

static void look_at_places(tpu_runs *runs) {
  seen_ops seen;
  if (!runs->in_graph) return;
  // Around it is another device.
  LS_DEVICE_SCOPE("/device:CPU:0");
  expect_ok(tpu_runs_call(runs, negate, &seen, NULL,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)), ls_none()));
  for (int i = 0; i < 2; ++i)
    for (int r = 0; r < runs->replicas; ++r) {
      const ls_nest leaf = ls_nest_item(runs->result, (size_t)i);
      const ls_op op = ls_tensor_op(
          (runs->replicas == 1 ? leaf
                               : ls_distributed_component(leaf, (size_t)r))
              .as.tensor);
      ls_device_name core;
      expect_ok(ls_tpu_strategy_device(runs->strategy, r, 0, &core));
      assert_string_equal(ls_op_device(op), core.text);
      assert_null(mark_of(op));
      assert_true(tpu_runs_number(runs, i, r) == i - 1 - r);
    }
}

// What names no device is on the first core: its output goes out there.
static void look_inside(tpu_runs *runs) {
  if (!runs->in_graph) return;
  expect_ok(tpu_runs_call(runs, negate_first, NULL, NULL,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)), ls_none()));
  const ls_op output = op_named(runs->computation.graph, "output0");
  const ls_op inside = ls_tensor_op(ls_op_input(output, 0));
  assert_string_equal(mark_of(inside), "cluster");
  assert_string_equal(ls_op_device(inside), "/device:TPU_REPLICATED_CORE:0");
  assert_string_equal(ls_op_device(ls_tensor_op(ls_op_input(inside, 0))), "");
}

TEST(results_lie_on_their_replicas_cores) {
  LS_SPEC("T84");
  tpu_runs_all(look_at_places);
  tpu_runs_all(look_inside);
}

// ---- Ops without a form for a core ----------------------------------------
static ls_nest print_it(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_NAME_SCOPE("loud");
  const ls_op op = ls_print("x is", x);
  LS_CONTROL_SCOPE(&op, 1);
  return ls_leaf(ls_neg(x));
}

static ls_status run_softly(tpu_runs *runs, ls_function *f, ls_callback fn,
                            ls_flag soft) {
  LS_OWN(ls_nest, args) = LS_TUPLE(tpu_runs_per_replica(runs, 1));
  const ls_run_options options = {.soft_placement = soft};
  ls_nest_release(runs->result);
  runs->result = ls_none();
  ls_status status = ls_strategy_run_with(
      runs->strategy, runs->in_graph ? ls_plain(fn, NULL) : ls_traced(f), args,
      &options, &runs->result);
  // A graph is gathered when it runs.
  if (ls_status_is_ok(status) && runs->in_graph) {
    const ls_nest leaf = runs->replicas == 1
                             ? runs->result
                             : ls_distributed_component(runs->result, 0);
    status = computation_run(&runs->computation, leaf);
  }
  return status;
}

static void place_softly(tpu_runs *runs) {
  LS_OWN(ls_function, loud) = function_of(print_it, NULL);
  LS_OWN(ls_function, good) = function_of(negate_first, NULL);
  for (int round = 0; round < 2; ++round) {
    expect_status(run_softly(runs, loud, print_it, LS_FLAG_OFF),
                  LS_INVALID_ARGUMENT, "/print' (host)");
    expect_ok(run_softly(runs, good, negate_first, LS_FLAG_OFF));
    for (int r = 0; r < runs->replicas; ++r)
      assert_true(tpu_runs_number(runs, -1, r) == -1 - r);
    expect_ok(run_softly(runs, loud, print_it,
                         round == 0 ? LS_FLAG_DEFAULT : LS_FLAG_ON));
    for (int r = 0; r < runs->replicas; ++r)
      assert_true(tpu_runs_number(runs, -1, r) == -1 - r);
  }
}

TEST(ops_without_a_form_for_cores_need_soft_placement) {
  LS_SPEC("T85");
  tpu_runs_all(place_softly);
}

// SPDX-License-Identifier: Apache-2.0
#include "support/tpu_steps.h"

#include "base/memory/own.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/tpu_strategies.h"

void tpu_step_open(tpu_step *w, bool in_graph, int replicas,
                   variable_kind kind) {
  *w = (tpu_step){.in_graph = in_graph, .replicas = replicas};
  w->s = tpu_strategy_of(replicas);
  if (in_graph)
    computation_open(&w->c);
  else
    expect_ok(ls_frame_begin());
  w->v = variable_in(w->s, kind);
  if (in_graph) computation_initialize(&w->c, w->v);
  ls_nest items[8];
  for (int r = 0; r < replicas; ++r)
    items[r] = in_graph ? ls_leaf(f32_of(r + 1))
                        : ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR,
                                                 (double[]){r + 1}));
  w->args = LS_TUPLE(replicas == 1 ? items[0]
                                   : ls_nest_distributed(LS_PER_REPLICA, items,
                                                         (size_t)replicas));
}

void tpu_step_close(tpu_step *w) {
  ls_nest_release(w->args);
  ls_nest_release(w->results);
  ls_variable_release(w->v);
  ls_function_release(w->f);
  if (w->in_graph)
    computation_close(&w->c);
  else
    expect_ok(ls_frame_end(NULL));
  ls_strategy_release(w->s);
}

ls_nest tpu_step_result(const tpu_step *w, int replica) {
  return ls_distributed_count(w->results) > 0
             ? ls_distributed_component(w->results, (size_t)replica)
             : w->results;
}

// Builds the step and runs it once, on replicas that get 1, 2, ...
ls_status tpu_step_run(tpu_step *w, ls_callback body) {
  ls_nest_release(w->results);
  w->results = ls_none();
  if (!w->in_graph) {
    ls_function_release(w->f);
    w->f = function_of(body, w);
    return ls_strategy_run(w->s, ls_traced(w->f), w->args, &w->results);
  }
  LS_RETURN_IF_ERROR(
      ls_strategy_run(w->s, ls_plain(body, w), w->args, &w->results));
  ls_nest all[8], values = ls_none();
  for (int r = 0; r < w->replicas; ++r)
    all[r] = ls_nest_retain(tpu_step_result(w, r));
  LS_OWN(ls_nest, list) =
      ls_nest_sequence(LS_KIND_LIST, all, (size_t)w->replicas);
  const ls_status status = ls_session_run(w->c.session, list, NULL, 0, &values);
  LS_RETURN_IF_ERROR(status);
  for (int r = 0; r < w->replicas; ++r)
    all[r] = ls_nest_retain(ls_nest_item(values, (size_t)r));
  ls_nest_release(values);
  ls_nest_release(w->results);
  w->results = w->replicas == 1 ? all[0]
                                : ls_nest_distributed(LS_PER_REPLICA, all,
                                                      (size_t)w->replicas);
  return ls_ok();
}

double tpu_step_value(tpu_step *w, ls_variable *variable) {
  if (w->in_graph) return computation_fetch(&w->c, ls_variable_read(variable));
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_variable_value(variable, &array));
  return ls_array_f64(array, 0);
}

void tpu_step_expect_parts(tpu_step *w, const double *values) {
  for (int r = 0; r < w->replicas; ++r)
    assert_true(tpu_step_value(w, ls_variable_component(w->v, (size_t)r)) ==
                values[r]);
}

void tpu_step_expect_results(const tpu_step *w, const double *values) {
  for (int r = 0; r < w->replicas; ++r)
    assert_true(ls_nest_number(tpu_step_result(w, r)) == values[r]);
}

ls_tensor tpu_step_argument(ls_nest args) {
  return ls_nest_tensor(ls_nest_item(args, 0), 0);
}

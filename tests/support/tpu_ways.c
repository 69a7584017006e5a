// SPDX-License-Identifier: Apache-2.0
#include "support/tpu_ways.h"

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"

static ls_array *own_array(const tpu_step *step, int r) {
  static const double zeros[64];
  const int64_t size = ls_shape_num_elements(step->shape);
  assert_true(size <= 64);
  return array_of(step->dtype != 0 ? step->dtype : LS_DTYPE_F32, step->shape,
                  step->numbers != NULL ? step->numbers + r * size : zeros);
}

static ls_nest args_of(const tpu_run *self, const tpu_step *step) {
  ls_nest items[TPU_RUN_REPLICAS];
  const int count = ls_strategy_num_replicas(self->strategy);
  assert_true(count <= TPU_RUN_REPLICAS);
  for (int r = 0; r < count; ++r) {
    ls_array *array = own_array(step, r);
    if (self->way == TPU_TRACED) {
      items[r] = ls_nest_array(array);
    } else {
      items[r] = ls_leaf(ls_constant(array));
      ls_array_release(array);
    }
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, (size_t)count));
}

// What was built, or has come of it, as one nest a replica.
static ls_status fetch(tpu_run *self) {
  ls_nest each = ls_none();
  if (self->built.kind == LS_KIND_NONE) return ls_ok();
  expect_ok(ls_strategy_local_results(self->strategy, self->built, &each));
  if (self->way == TPU_TRACED) {
    self->results = each;
    return ls_ok();
  }
  if (self->c.session == NULL)
    expect_ok(ls_session_create(self->c.graph, &self->c.session));
  const ls_status status =
      ls_session_run(self->c.session, each, NULL, 0, &self->results);
  ls_nest_release(each);
  return status;
}

ls_status tpu_run_begin(tpu_run *self, int way, ls_strategy *strategy,
                        const tpu_step *step) {
  *self = (tpu_run){.way = way, .strategy = ls_strategy_retain(strategy)};
  if (way != TPU_TRACED) computation_open(&self->c);
  if (step->make != NULL) {
    LS_STRATEGY_SCOPE(strategy);
    self->variable = step->make(step->user);
  }
  if (way != TPU_TRACED && self->variable != NULL)
    computation_initialize(&self->c, self->variable);
  self->args = args_of(self, step);
  self->function = function_of(step->fn, step->user);
  const ls_status status =
      ls_strategy_run(strategy,
                      way == TPU_GRAPH ? ls_plain(step->fn, step->user)
                                       : ls_traced(self->function),
                      self->args, &self->built);
  return ls_status_is_ok(status) ? fetch(self) : status;
}

void tpu_run_end(tpu_run *self) {
  ls_nest_release(self->results);
  ls_nest_release(self->built);
  ls_nest_release(self->args);
  ls_function_release(self->function);
  ls_variable_release(self->variable);
  if (self->way != TPU_TRACED) {
    ls_status_free(ls_graph_take_error(self->c.graph));
    computation_close(&self->c);
  }
  ls_strategy_release(self->strategy);
}

const ls_array *tpu_run_array(const tpu_run *self, int r, size_t leaf) {
  ls_nest leaves[32];
  const ls_nest own = ls_nest_item(self->results, (size_t)r);
  const size_t count = ls_nest_num_leaves(own);
  assert_true(count <= 32 && leaf < count);
  ls_nest_flatten(own, leaves, count);
  return ls_nest_as_array(leaves[leaf]);
}

double tpu_run_number(const tpu_run *self, int r, size_t leaf,
                      int64_t element) {
  const ls_array *array = tpu_run_array(self, r, leaf);
  assert_non_null(array);
  assert_true(element < ls_array_num_elements(array));
  return ls_array_f64(array, element);
}

const ls_graph *tpu_run_graph(const tpu_run *self) {
  return self->way == TPU_TRACED ? ls_function_graph(self->function)
                                 : self->c.graph;
}

double tpu_run_component(tpu_run *self, size_t i) {
  ls_variable *component = ls_variable_component(self->variable, i);
  double value = 0;
  if (self->way == TPU_TRACED) {
    read_variable(component, &value, 1);
    return value;
  }
  ls_session *session = self->c.session;
  if (session == NULL) {
    expect_ok(ls_session_create(self->c.graph, &self->c.session));
    session = self->c.session;
  }
  return computation_fetch(&self->c, ls_variable_read(component));
}

void tpu_run_all(const tpu_step *step, void (*check)(tpu_run *self)) {
  static const int counts[] = {1, 2, 5};
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); ++i) {
    LS_OWN(ls_strategy, strategy) = tpu_strategy_of(counts[i]);
    for (int way = 0; way < NUM_TPU_WAYS; ++way) {
      LS_OWN(tpu_run, run) = {0};
      expect_ok(tpu_run_begin(&run, way, strategy, step));
      check(&run);
    }
  }
}

void tpu_run_refused(const tpu_step *step, int replicas, ls_code code,
                     const char *says) {
  LS_OWN(ls_strategy, strategy) = tpu_strategy_of(replicas);
  for (int way = 0; way < NUM_TPU_WAYS; ++way) {
    LS_OWN(tpu_run, run) = {0};
    expect_status(tpu_run_begin(&run, way, strategy, step), code, says);
  }
}

int tpu_run_replicas(const tpu_run *run) {
  return ls_strategy_num_replicas(run->strategy);
}

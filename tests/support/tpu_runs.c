// SPDX-License-Identifier: Apache-2.0
#include "support/tpu_runs.h"

#include "lockstep/regroup.h"
#include "runtime/own.h"
#include "support/tpu_strategies.h"

static void open_runs(tpu_runs *self, bool in_graph, int replicas) {
  *self = (tpu_runs){.in_graph = in_graph,
                     .replicas = replicas,
                     .strategy = tpu_strategy_of(replicas)};
  if (in_graph) computation_open(&self->computation);
  LS_STRATEGY_SCOPE(self->strategy);
  self->v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
}

static void close_runs(tpu_runs *self) {
  ls_nest_release(self->result);
  if (self->in_graph) computation_close(&self->computation);
  ls_variable_release(self->v);
  ls_strategy_release(self->strategy);
}

void tpu_runs_all(void (*body)(tpu_runs *self)) {
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= TPU_RUNS_REPLICAS; ++replicas) {
      tpu_runs self;
      open_runs(&self, in_graph, replicas);
      body(&self);
      close_runs(&self);
    }
}

static ls_status call_traced(tpu_runs *self, ls_callback fn, void *user,
                             const ls_parameters *parameters, ls_nest args,
                             const ls_run_options *options) {
  LS_OWN(ls_function, f) = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){
          .call = fn, .user = user, .name = "f", .parameters = parameters},
      &f));
  return ls_strategy_run_with(self->strategy, ls_traced(f), args, options,
                              &self->result);
}

ls_status tpu_runs_call(tpu_runs *self, ls_callback fn, void *user,
                        const ls_parameters *parameters, ls_nest args,
                        ls_nest named) {
  const ls_run_options options = {.named = named};
  ls_callable plain = ls_plain(fn, user);
  plain.parameters = parameters;
  ls_nest_release(self->result);
  self->result = ls_none();
  const ls_status status =
      self->in_graph ? ls_strategy_run_with(self->strategy, plain, args,
                                            &options, &self->result)
                     : call_traced(self, fn, user, parameters, args, &options);
  ls_nest_release(args);
  ls_nest_release(named);
  return status;
}

double tpu_runs_number(tpu_runs *self, int i, int r) {
  ls_nest leaf = i < 0 ? self->result : ls_nest_item(self->result, (size_t)i);
  // One replica gives its values as they are.
  assert_int_equal(leaf.kind == LS_KIND_DISTRIBUTED, self->replicas > 1);
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    assert_int_equal(ls_distributed_count(leaf), self->replicas);
    leaf = ls_distributed_component(leaf, (size_t)r);
  }
  return self->in_graph ? computation_fetch(&self->computation, leaf.as.tensor)
                        : ls_nest_number(leaf);
}

ls_nest tpu_runs_per_replica(const tpu_runs *self, double first) {
  ls_nest items[TPU_RUNS_REPLICAS];
  for (int r = 0; r < self->replicas; ++r)
    items[r] = ls_nest_array(
        array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){first + r}));
  return ls_nest_distributed(LS_PER_REPLICA, items, (size_t)self->replicas);
}

ls_nest tpu_runs_variable(const tpu_runs *self) {
  return ls_nest_object(LS_KIND_VARIABLE,
                        (ls_object *)ls_variable_retain(self->v));
}

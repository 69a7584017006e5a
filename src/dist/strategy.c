// SPDX-License-Identifier: Apache-2.0
#include "dist/strategy.h"

#include "base/runtime_internal.h"

static void destroy_strategy(ls_object *object) {
  ls_strategy *strategy = (ls_strategy *)object;
  ls_fiber_pool_destroy(strategy->fibers);
  ls_release(strategy->allocator, strategy);
}

static const ls_object_type strategy_type = {.name = "strategy",
                                             .destroy = destroy_strategy};

// ---- Mirrored --------------------------------------------------------------
static const ls_strategy_vtable mirrored_vtable;

static ls_status trace_mirrored(const ls_tracer *tracer, ls_graph *graph,
                                const ls_function_options *function,
                                ls_nest args, ls_nest *out_result) {
  return ls_replicas_trace(tracer->self, graph, function, args, out_result);
}

// Takes no memory: a walk, not a map.
static ls_status check_components(const ls_strategy *strategy, ls_nest nest) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    LS_RETURN_IF_ERROR(check_components(strategy, ls_nest_item(nest, i)));
  const size_t count = ls_distributed_count(nest);
  if (nest.kind == LS_KIND_DISTRIBUTED &&
      count != (size_t)strategy->num_replicas)
    return ls_invalid_argument(
        "an argument has %zu components, the strategy %d replicas", count,
        strategy->num_replicas);
  return ls_ok();
}

static ls_status run_mirrored(ls_strategy *strategy, ls_callable callable,
                              ls_nest args, ls_nest *results) {
  if (callable.traced == NULL)
    return ls_unimplemented(
        "a strategy runs traced functions only; make one with "
        "ls_function_create and pass ls_traced(function)");
  LS_RETURN_IF_ERROR(check_components(strategy, args));
  const ls_tracer tracer = {.key = &mirrored_vtable,
                            .replicas = strategy->num_replicas,
                            .trace = trace_mirrored,
                            .self = strategy};
  return ls_function_call_by(callable.traced, &tracer, args, results);
}

static const ls_strategy_vtable mirrored_vtable = {.name = "mirrored",
                                                   .run = run_mirrored};

ls_status ls_mirrored_strategy_create(const ls_mirrored_options *options,
                                      ls_strategy **out_strategy) {
  *out_strategy = NULL;
  const long long replicas = options != NULL && options->num_replicas.set
                                 ? options->num_replicas.value
                                 : 1;
  if (replicas < 1 || replicas > 1 << 16)
    return ls_invalid_argument(
        "a mirrored strategy of %lld replicas: 1 to %d are possible", replicas,
        1 << 16);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_strategy *strategy = ls_new(allocator, ls_strategy);
  if (strategy == NULL) return ls_out_of_memory();
  ls_object_init(&strategy->object, &strategy_type);
  strategy->allocator = allocator;
  strategy->runtime = runtime;
  strategy->vtable = &mirrored_vtable;
  strategy->num_replicas = (int32_t)replicas;
  const ls_status status = ls_fiber_pool_create(allocator, &strategy->fibers);
  if (ls_status_is_ok(status))
    *out_strategy = strategy;
  else
    ls_strategy_release(strategy);
  return status;
}

ls_strategy *ls_strategy_retain(ls_strategy *strategy) {
  return ls_object_retain(strategy);
}

void ls_strategy_release(ls_strategy *strategy) { ls_object_release(strategy); }

int32_t ls_strategy_num_replicas(const ls_strategy *strategy) {
  return strategy->num_replicas;
}

ls_status ls_strategy_run(ls_strategy *strategy, ls_callable callable,
                          ls_nest args, ls_nest *results) {
  return strategy->vtable->run(strategy, callable, args, results);
}

int32_t ls_num_replicas(void) {
  const ls_replica *replica = ls_context_current()->replica;
  return replica == NULL ? 1 : replica->count;
}

int32_t ls_replica_number(void) {
  const ls_replica *replica = ls_context_current()->replica;
  return replica == NULL ? -1 : replica->id;
}

// ---- Values ----------------------------------------------------------------
static void release_array(void *array) { ls_array_release(array); }

ls_status ls_strategy_split(ls_strategy *strategy, ls_array *array,
                            ls_nest *out_value) {
  *out_value = ls_none();
  const ls_shape shape = ls_array_shape(array);
  const int64_t replicas = strategy->num_replicas;
  if (shape.rank < 1)
    return ls_invalid_argument("a scalar cannot be split over replicas");
  const int64_t rows = shape.dim[0];
  const size_t row =
      rows == 0 ? 0 : ls_array_size(array) / (size_t)rows;
  ls_nest *items =
      ls_new_array(strategy->allocator, ls_nest, (size_t)replicas);
  if (items == NULL) return ls_out_of_memory();
  char *data = ls_array_mutable_data(array);
  ls_status status = ls_ok();
  int64_t at = 0;
  size_t made = 0;
  for (; made < (size_t)replicas && ls_status_is_ok(status); ++made) {
    ls_shape part = shape;
    part.dim[0] = rows / replicas + ((int64_t)made < rows % replicas);
    ls_array *view = NULL;
    status = ls_array_create_view(ls_array_dtype(array), part,
                                  data + (size_t)at * row, release_array,
                                  ls_array_retain(array), &view);
    if (!ls_status_is_ok(status)) {
      ls_array_release(array);
      break;
    }
    items[made] = ls_nest_array(view);
    at += part.dim[0];
  }
  if (ls_status_is_ok(status)) {
    *out_value =
        ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas);
    status = ls_nest_status(*out_value);
    if (!ls_status_is_ok(status)) {
      ls_nest_release(*out_value);
      *out_value = ls_none();
    }
  } else {
    for (size_t i = 0; i < made; ++i) ls_nest_release(items[i]);
  }
  ls_release(strategy->allocator, items);
  return status;
}

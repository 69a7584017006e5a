// SPDX-License-Identifier: Apache-2.0
// What goes round in a loop of steps, and the cache in it.
#include "base/runtime_internal.h"
#include "estimator/loop/steps.h"
#include "graph/region.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/ops.h"

static bool has_examples(const ls_step_loop *steps) {
  return !ls_step_loop_predict(steps) && steps->options->any_batch;
}

// ---- The first values ------------------------------------------------------
// How many examples of a replica's batch a cache is for.
static int64_t cache_batch(const ls_plan *plan) {
  const int64_t size = plan->model_batch_size.value;
  // Where each replica is given the whole batch, the model's is that of all.
  return plan->input.way == LS_FEED_ALL ? size / plan->system->num_replicas
                                        : size;
}

static ls_status take_cache(ls_step_loop *steps, ls_nest made,
                            ls_tensor *cache) {
  for (size_t i = 0; i < steps->cache_size; ++i) {
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_region_tensor(ls_nest_item(made, i), &cache[i]),
                           "item %zu of what the cache function gives", i));
    steps->cache_dtypes[i] = ls_tensor_dtype(cache[i]);
  }
  return ls_ok();
}

static ls_status call_cache(ls_step_loop *steps, ls_nest *out_made) {
  const ls_cache_function *function = &steps->options->cache;
  *out_made = ls_none();
  if (function->call == NULL || ls_step_loop_predict(steps)) return ls_ok();
  *out_made =
      function->call(function->user, cache_batch(steps->options->calls->plan));
  LS_RETURN_IF_ERROR(ls_nest_status(*out_made));
  return out_made->kind == LS_KIND_LIST || out_made->kind == LS_KIND_TUPLE ||
                 out_made->kind == LS_KIND_NONE
             ? ls_ok()
             : ls_invalid_argument("the cache function must give a list of "
                                   "tensors");
}

static ls_status begin_cache(ls_step_loop *steps, ls_nest made,
                             ls_carried *carried) {
  const size_t room = ls_nest_count(made) + 1;
  steps->cache_size = ls_nest_count(made);
  steps->cache_dtypes = ls_new_array(steps->allocator, ls_dtype, room);
  carried->cache = ls_new_array(steps->allocator, ls_tensor, room);
  if (steps->cache_dtypes == NULL || carried->cache == NULL)
    return ls_out_of_memory();
  return take_cache(steps, made, carried->cache);
}

ls_status ls_carried_begin(ls_step_loop *steps, ls_nest *out_values) {
  const bool trains = steps->mode == LS_MODE_TRAIN;
  ls_nest made = ls_none();
  ls_carried first = {.count = ls_scalar_i64(LS_DTYPE_I64, 0)};
  *out_values = ls_none();
  if (ls_step_loop_predict(steps)) {
    first.stopping = ls_scalar(LS_DTYPE_BOOL, 0);
  } else {
    first.loss =
        ls_scalar(LS_DTYPE_F64, trains ? LS_INITIAL_LOSS : LS_ZERO_LOSS);
    // A training that makes no step reports what it begins with.
    first.examples = ls_scalar_i64(LS_DTYPE_I64, trains);
  }
  ls_status status = call_cache(steps, &made);
  if (ls_status_is_ok(status)) status = begin_cache(steps, made, &first);
  if (ls_status_is_ok(status)) {
    *out_values = ls_carried_list(steps, &first);
    status = ls_nest_status(*out_values);
  }
  ls_release(steps->allocator, first.cache);
  ls_nest_release(made);
  return status;
}

// ---- Lists -----------------------------------------------------------------
size_t ls_carried_size(const ls_step_loop *steps) {
  return 2 + (size_t)has_examples(steps) + steps->cache_size;
}

ls_nest ls_carried_list(const ls_step_loop *steps, const ls_carried *carried) {
  ls_nest *items =
      ls_new_array(steps->allocator, ls_nest, ls_carried_size(steps));
  size_t count = 0;
  if (items == NULL) return ls_fail(ls_out_of_memory());
  items[count++] = ls_leaf(carried->count);
  items[count++] =
      ls_leaf(ls_step_loop_predict(steps) ? carried->stopping : carried->loss);
  if (has_examples(steps)) items[count++] = ls_leaf(carried->examples);
  for (size_t i = 0; i < steps->cache_size; ++i)
    items[count++] = ls_leaf(carried->cache[i]);
  const ls_nest list = ls_nest_sequence(LS_KIND_LIST, items, count);
  ls_release(steps->allocator, items);
  return list;
}

void ls_carried_read(const ls_step_loop *steps, ls_nest values,
                     ls_carried *out) {
  size_t at = 0;
  out->count = ls_nest_tensor(values, at++);
  *(ls_step_loop_predict(steps) ? &out->stopping : &out->loss) =
      ls_nest_tensor(values, at++);
  if (has_examples(steps)) out->examples = ls_nest_tensor(values, at++);
  for (size_t i = 0; i < steps->cache_size && out->cache != NULL; ++i)
    out->cache[i] = ls_nest_tensor(values, at++);
}

// ---- The cache of a step ---------------------------------------------------
ls_nest ls_carried_cache(const ls_step_loop *steps, const ls_carried *carried) {
  ls_nest *items =
      ls_new_array(steps->allocator, ls_nest, steps->cache_size + 1);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < steps->cache_size; ++i)
    items[i] = ls_leaf(carried->cache[i]);
  const ls_nest list =
      ls_step_loop_predict(steps)
          ? ls_none()
          : ls_nest_sequence(LS_KIND_LIST, items, steps->cache_size);
  ls_release(steps->allocator, items);
  return list;
}

ls_status ls_carried_set_cache(const ls_step_loop *steps,
                               const ls_estimator_spec_options *spec,
                               ls_carried *carried) {
  if (spec->cache_size != steps->cache_size)
    return ls_invalid_argument("the cache of a step has %zu tensors, and the "
                               "spec that model_fn gives has %zu for the next "
                               "one: as many are needed",
                               steps->cache_size, spec->cache_size);
  for (size_t i = 0; i < steps->cache_size; ++i) {
    const ls_dtype dtype = ls_tensor_dtype(spec->cache[i]);
    if (dtype != steps->cache_dtypes[i])
      return ls_invalid_argument("tensor %zu of the cache is %s at first, and "
                                 "%s for the next step",
                                 i, ls_dtype_name(steps->cache_dtypes[i]),
                                 ls_dtype_name(dtype));
    carried->cache[i] = spec->cache[i];
  }
  return ls_ok();
}

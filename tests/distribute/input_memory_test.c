// SPDX-License-Identifier: Apache-2.0
// Input of strategies when memory fails, and NULL where something is needed.
#include "base/memory/allocator.h"
#include "base/values/nest_internal.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "support/fault.h"
#include "support/inputs.h"
#include "support/replicas.h"

// A way to distribute.
typedef struct scenario {
  ls_input_options options;
  bool from_function, as_op;
} scenario;

static ls_nest make_batches(ls_input_context context, void *user) {
  (void)user;
  return ls_nest_dataset(number_batches(12 + context.pipeline, 3));
}

static ls_status make_strategy(ls_strategy **out) {
  return ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, out);
}

static ls_status distribute(const scenario *s, ls_strategy *strategy,
                            ls_nest *out) {
  if (s->from_function)
    return ls_strategy_distribute_datasets_from_function_with(
        strategy, make_batches, NULL, &s->options, out);
  LS_OWN(ls_nest, leaf) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_dataset(number_batches(11, 3)), &leaf));
  return ls_strategy_distribute_dataset_with(strategy, leaf, &s->options, out);
}

// Reads to the end, and from a place that was saved.
static ls_status read_all(ls_distributed_iterator *iterator) {
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_record, record) = NULL;
  bool has = true;
  ls_status status = ls_record_create(&record);
  if (ls_status_is_ok(status))
    status = ls_distributed_iterator_next(iterator, &element);
  if (ls_status_is_ok(status))
    status = ls_distributed_iterator_save(iterator, record);
  while (has && ls_status_is_ok(status))
    status = ls_distributed_iterator_next_as_optional(iterator, &has, &element);
  if (ls_status_is_ok(status))
    status = ls_distributed_iterator_restore(iterator, record);
  if (ls_status_is_ok(status))
    status = ls_distributed_iterator_next(iterator, &element);
  return status;
}

static ls_nest read_as_op(ls_nest args, void *user) {
  (void)args;
  return ls_distributed_iterator_get_next(user);
}

static ls_status call_op(ls_distributed_iterator *iterator) {
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = read_as_op, .user = iterator}, &function));
  return ls_function_call(function, ls_none(), &results);
}

static ls_status work(void *user) {
  const scenario *s = user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  LS_OWN(ls_nest, data) = ls_none();
  LS_OWN(ls_nest, spec) = ls_none();
  LS_RETURN_IF_ERROR(make_strategy(&strategy));
  LS_RETURN_IF_ERROR(distribute(s, strategy, &data));
  LS_RETURN_IF_ERROR(ls_distributed_dataset_spec(data, &spec));
  LS_RETURN_IF_ERROR(ls_distributed_iterator_create(data, NULL, &iterator));
  return s->as_op ? call_op(iterator) : read_all(iterator);
}

TEST(failed_memory_is_survived) {
  scenario all[] = {
      {.options = {.per_replica_buffer_size = LS_SOME(0)}},
      {.options = {.per_replica_buffer_size = LS_SOME(0), .round_up = true}},
      {.options = {.whole_elements = true}},
      {.options = {.sharding = LS_SHARD_OFF,
                   .per_replica_buffer_size = LS_SOME(0)}},
      {.options = {.per_replica_buffer_size = LS_SOME(0)},
       .from_function = true},
      {.options = {.replication = LS_PIPELINE_PER_REPLICA,
                   .per_replica_buffer_size = LS_SOME(0)},
       .from_function = true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    REFUSE_EACH(work, &all[i]);
}

static ls_status read_by_op(void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  LS_OWN(ls_nest, data) = ls_none();
  LS_OWN(ls_nest, leaf) = ls_none();
  LS_RETURN_IF_ERROR(make_strategy(&strategy));
  LS_RETURN_IF_ERROR(ls_take_nest(ls_nest_dataset(whole_batches(8, 4)), &leaf));
  LS_RETURN_IF_ERROR(ls_strategy_distribute_dataset_with(
      strategy, leaf,
      &(ls_input_options){.per_replica_buffer_size = LS_SOME(0)}, &data));
  LS_RETURN_IF_ERROR(ls_distributed_iterator_create(data, NULL, &iterator));
  return call_op(iterator);
}

TEST(so_it_is_by_ops) { REFUSE_EACH(read_by_op, NULL); }

MEMORY_TEST(put_on_host) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_dataset, dataset) = NULL;
  LS_OWN(ls_nest, arrays) = ls_none();
  LS_OWN(ls_nest, variables) = ls_none();
  LS_RETURN_IF_ERROR(make_strategy(&strategy));
  LS_RETURN_IF_ERROR(
      ls_take_nest(LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3, 2)),
                            ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(3))),
                   &arrays));
  return ls_strategy_array_dataset(
      strategy, arrays, &(ls_array_dataset_options){.slice_bytes = 8},
      &variables, &dataset);
}

MEMORY_TEST(send_to_devices) {
  const char *const devices[] = {"/device:CPU:0", "/device:CPU:1"};
  LS_OWN(ls_dataset, lists) = ls_dataset_prefetch_to_devices(
      ls_dataset_range(0, 5, 1), devices, 2, (ls_opt){0});
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_dataset_status(lists));
  LS_RETURN_IF_ERROR(ls_iterator_create(
      lists, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  return ls_iterator_next(iterator, &element);
}

TEST(what_is_null_is_refused_by_name) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, number_batches(4, 2), NULL));
  ls_nest out = ls_none();
  ls_dataset *dataset = NULL;
  ls_op op;
  bool has;
  ls_distributed_iterator *made = NULL;
  const struct {
    ls_status status;
    const char *says;
  } cases[] = {
      {ls_strategy_distribute_dataset_with(NULL, out, NULL, &out),
       "strategy is NULL"},
      {ls_strategy_distribute_dataset_with(two, out, NULL, NULL),
       "out_dataset is NULL"},
      {ls_strategy_distribute_datasets_from_function_with(two, NULL, NULL, NULL,
                                                          &out),
       "function is NULL"},
      {ls_distributed_dataset_spec(out, NULL), "out_spec is NULL"},
      {ls_distributed_dataset_spec(out, &out), "is no distributed data set"},
      {ls_distributed_iterator_create(out, NULL, NULL), "out_iterator is NULL"},
      {ls_distributed_iterator_create(out, NULL, &made),
       "is no distributed data set"},
      {ls_distributed_iterator_next(NULL, &out), "iterator is NULL"},
      {ls_distributed_iterator_next(iterator, NULL), "element is NULL"},
      {ls_distributed_iterator_next_as_optional(NULL, &has, &out),
       "iterator is NULL"},
      {ls_distributed_iterator_next_as_optional(iterator, NULL, &out),
       "out_has_value is NULL"},
      {ls_distributed_iterator_restart(NULL), "iterator is NULL"},
      {ls_distributed_iterator_seek_epoch(NULL, 0), "iterator is NULL"},
      {ls_distributed_iterator_initializer(NULL, &op), "iterator is NULL"},
      {ls_distributed_iterator_save(NULL, NULL), "iterator is NULL"},
      {ls_distributed_iterator_save(iterator, NULL), "record is NULL"},
      {ls_distributed_iterator_restore(iterator, NULL), "record is NULL"},
      {ls_strategy_make_dataset_iterator(two, out, NULL),
       "out_iterator is NULL"},
      {ls_strategy_make_input_fn_iterator(two, NULL, NULL,
                                          LS_PIPELINE_PER_WORKER, &made),
       "function is NULL"},
      {ls_strategy_array_dataset(NULL, out, NULL, NULL, &dataset),
       "strategy is NULL"},
      {ls_strategy_array_dataset(two, out, NULL, NULL, NULL),
       "out_dataset is NULL"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    expect_status(cases[i].status, LS_INVALID_ARGUMENT, cases[i].says);
  LS_OWN(ls_nest, none) = ls_distributed_iterator_get_next(NULL);
  expect_status(ls_nest_status(none), LS_INVALID_ARGUMENT, "iterator is NULL");
  ls_distributed_iterator_release(NULL);
}

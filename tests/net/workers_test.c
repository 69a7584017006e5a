// SPDX-License-Identifier: Apache-2.0
//
// Strategies over the workers of a cluster: who is who, values over all of
// them, variables that start from the chief's values, and a worker that dies.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/own.h"
#include "distribute/own.h"
#include "graph/own.h"
#include "lockstep/distribute_input.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph_ops.h"
#include "lockstep/lockstep.h"
#include "lockstep/multi_worker.h"
#include "lockstep/session.h"
#include "lockstep/simulation.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/summary.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/memory_files.h"
#include "support/place.h"
#include "support/replicas.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition))                                                          \
      return ls_internal("%s:%d: " #condition, __FILE__, __LINE__);            \
  } while (0)

static const char *const hosts[] = {"a:1", "b:1", "c:1"};
static const ls_cluster_job jobs[] = {{"worker", hosts, 2},
                                      {"chief", hosts, 1}};
static const ls_cluster_spec cluster = {jobs, 2};

enum { WORKERS = 3, LOCAL = 2, REPLICAS = WORKERS * LOCAL };

// Makes the strategy of this rank: the chief is rank 0.
static ls_status make_strategy(int32_t rank, ls_strategy **out_strategy) {
  return ls_multi_worker_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(LOCAL)},
      &(ls_worker_options){.cluster = &cluster,
                           .task_type = rank == 0 ? "chief" : "worker",
                           .task_id = LS_SOME(rank == 0 ? 0 : rank - 1)},
      out_strategy);
}

static ls_status on_runtime(ls_communicator *communicator, ls_rank_function act,
                            void *user) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return act(communicator, user);
}

static ls_status first_numbers(ls_tensor tensor, double *numbers,
                               size_t count) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_tensor_value(tensor, &array));
  CHECK(ls_array_size(array) == count * sizeof(float));
  for (size_t i = 0; i < count; ++i)
    numbers[i] = (double)((const float *)ls_array_data(array))[i];
  return ls_ok();
}

// ---- Creation --------------------------------------------------------------
static ls_status make(const ls_cluster_spec *spec, const char *type,
                      ls_opt id) {
  LS_OWN(ls_strategy, strategy) = NULL;
  return ls_multi_worker_strategy_create(
      NULL,
      &(ls_worker_options){.cluster = spec, .task_type = type, .task_id = id},
      &strategy);
}

TEST(a_worker_needs_a_type_an_id_and_as_many_ranks) {
  LS_SPEC("M164");
  static const ls_cluster_job one_job[] = {{"worker", hosts, 1}};
  static const ls_cluster_job two_jobs[] = {{"worker", hosts, 1},
                                            {"ps", hosts, 1}};
  static const ls_cluster_spec one = {one_job, 1}, served = {two_jobs, 2};
  expect_ok(make(&one, "worker", LS_SOME(0)));
  const ls_status untold = make(&one, NULL, (ls_opt){0});
  expect_contains(ls_status_message(untold), "task_type");
  expect_status(untold, LS_INVALID_ARGUMENT, "task_id");
  expect_status(make(&one, "worker", (ls_opt){0}), LS_INVALID_ARGUMENT,
                "task_type and task_id");
  expect_status(make(&one, "worker", LS_SOME(1)), LS_INVALID_ARGUMENT,
                "task id 1");
  expect_status(make(&served, "ps", LS_SOME(0)), LS_INVALID_ARGUMENT, "'ps'");
  expect_status(make(&cluster, "chief", LS_SOME(0)), LS_FAILED_PRECONDITION,
                "3 workers, the runtime 1 ranks");
  static const char *const devices[] = {"/cpu:0"};
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_status(
      ls_multi_worker_strategy_create(
          &(ls_mirrored_options){.devices = devices, .num_devices = 1},
          &(ls_worker_options){
              .cluster = &one, .task_type = "worker", .task_id = LS_SOME(0)},
          &strategy),
      LS_INVALID_ARGUMENT, "both a cluster and devices");
}

// ---- Who is who ------------------------------------------------------------
static ls_status look(ls_communicator *communicator, void *user) {
  (void)user;
  const int32_t rank = communicator->rank;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(make_strategy(rank, &strategy));
  CHECK(ls_strategy_num_replicas(strategy) == REPLICAS);
  CHECK(ls_strategy_is_multi_worker(strategy));
  CHECK(ls_strategy_between_graph(strategy));
  CHECK(ls_strategy_should_init(strategy));
  CHECK(ls_strategy_should_checkpoint(strategy) == (rank == 0));
  CHECK(ls_strategy_should_save_summary(strategy) == (rank == 0));
  CHECK(strcmp(ls_cross_device_name(ls_strategy_cross_device(strategy)),
               "collective") == 0);
  const char *devices[REPLICAS];
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_strategy_worker_devices(strategy, devices, REPLICAS, &count));
  CHECK(count == REPLICAS);
  CHECK(strstr(devices[1], "/job:chief/replica:0/task:0/device:CPU:1") != NULL);
  CHECK(strstr(devices[4], "/job:worker/replica:0/task:1/device:CPU:0") !=
        NULL);
  // This rank as another worker, and the cluster without its ranks.
  LS_OWN(ls_status, other) =
      make(&cluster, "worker", LS_SOME(rank == 1 ? 1 : 0));
  CHECK(ls_status_code(other) == LS_FAILED_PRECONDITION);
  CHECK(strstr(ls_status_message(other), "is rank") != NULL);
  return ls_ok();
}

static ls_status look_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, look, user);
}

TEST(the_chief_is_rank_0_and_saves) {
  LS_SPEC("M164");
  expect_ok(ls_standin_run(WORKERS, look_rank, NULL));
}

// ---- Values ----------------------------------------------------------------
static ls_nest id_step(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor id = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  return LS_TUPLE(ls_leaf(id), ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, id)),
                  ls_leaf(ls_reshape(id, LS_SHAPE(1))));
}

static ls_status check_list(ls_nest list, size_t first, size_t count) {
  CHECK(ls_nest_count(list) == count);
  for (size_t i = 0; i < count; ++i)
    CHECK(number_of(ls_nest_item(list, i)) == (double)(first + i));
  return ls_ok();
}

static ls_status reduce_results(ls_strategy *strategy, int32_t rank,
                                ls_nest results) {
  const ls_nest ids = ls_nest_item(results, 0);
  LS_OWN(ls_nest, own) = ls_none();
  LS_OWN(ls_nest, local) = ls_none();
  LS_OWN(ls_nest, sum) = ls_none();
  LS_OWN(ls_nest, mean) = ls_none();
  LS_OWN(ls_nest, all) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_unwrap(strategy, ids, &own));
  LS_RETURN_IF_ERROR(check_list(own, (size_t)rank * LOCAL, LOCAL));
  LS_RETURN_IF_ERROR(ls_strategy_local_results(strategy, ids, &local));
  LS_RETURN_IF_ERROR(check_list(local, (size_t)rank * LOCAL, LOCAL));
  LS_RETURN_IF_ERROR(ls_strategy_reduce(strategy, LS_REDUCE_SUM, ids, &sum));
  LS_RETURN_IF_ERROR(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, ids, &mean));
  CHECK(number_of(sum) == 15);
  CHECK(number_of(mean) == 2.5);
  LS_RETURN_IF_ERROR(
      ls_strategy_gather(strategy, ls_nest_item(results, 2), 0, &all));
  double numbers[REPLICAS];
  LS_RETURN_IF_ERROR(first_numbers(all.as.tensor, numbers, REPLICAS));
  for (int r = 0; r < REPLICAS; ++r)
    CHECK(numbers[r] == r);
  return ls_ok();
}

static ls_status take_values(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, step) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = id_step}, &step));
  LS_RETURN_IF_ERROR(
      ls_strategy_run(strategy, ls_traced(step), ls_none(), &results));
  CHECK(number_of(ls_distributed_component(ls_nest_item(results, 1), 0)) ==
        2.5);
  return reduce_results(strategy, communicator->rank, results);
}

static ls_status values_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, take_values, user);
}

TEST(values_are_of_all_workers_and_unwrapped_for_this_one) {
  LS_SPEC("M27 M164");
  expect_ok(ls_standin_run(WORKERS, values_rank, NULL));
}

TEST(a_process_that_is_alone_unwraps_all) {
  LS_SPEC("M27");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, value) = per_replica_scalars((double[]){1, 2, 3}, 3);
  LS_OWN(ls_nest, list) = ls_none();
  expect_ok(ls_strategy_unwrap(strategy, value, &list));
  assert_int_equal(ls_nest_count(list), 3);
}

// ---- Input -----------------------------------------------------------------
static ls_status read_number(void *user, int64_t index, ls_nest out) {
  (void)user;
  *(float *)ls_array_mutable_data(ls_nest_as_array(out)) = (float)index;
  return ls_ok();
}

// Adds up the parts of a batch of 12, of which this rank has read its own.
static ls_status add_input(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_OWN(ls_nest, spec) = ls_nest_spec(LS_DTYPE_F32, LS_SCALAR);
  LS_OWN(ls_dataset, numbers) = ls_dataset_from_function(
      &(ls_index_options){.name = "numbers",
                          .size = 12,
                          .element = ls_nest_retain(spec),
                          .get = read_number});
  LS_OWN(ls_nest, batches) = ls_nest_dataset(ls_dataset_batch(
      ls_dataset_retain(numbers), &(ls_batch_options){.size = 12}));
  LS_OWN(ls_nest, data) = ls_none();
  LS_OWN(ls_nest, batch) = ls_none();
  LS_OWN(ls_nest, sum) = ls_none();
  LS_OWN(ls_nest, all) = ls_none();
  ls_distributed_iterator *iterator = NULL;
  LS_RETURN_IF_ERROR(ls_strategy_distribute_dataset(strategy, batches, &data));
  LS_RETURN_IF_ERROR(ls_distributed_iterator_create(data, NULL, &iterator));
  ls_status status = ls_distributed_iterator_next(iterator, &batch);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, batch, &sum);
  if (ls_status_is_ok(status))
    status = ls_strategy_gather(strategy, batch, 0, &all);
  ls_distributed_iterator_release(iterator);
  LS_RETURN_IF_ERROR(status);
  const float *sums = ls_array_data(ls_nest_as_array(sum));
  CHECK(sums[0] == 0 + 2 + 4 + 6 + 8 + 10);
  CHECK(sums[1] == 1 + 3 + 5 + 7 + 9 + 11);
  double gathered[12];
  LS_RETURN_IF_ERROR(first_numbers(all.as.tensor, gathered, 12));
  for (int i = 0; i < 12; ++i)
    CHECK(gathered[i] == i);
  return ls_ok();
}

static ls_status input_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, add_input, user);
}

TEST(batches_are_reduced_over_all_workers) {
  LS_SPEC("M164");
  expect_ok(ls_standin_run(WORKERS, input_rank, NULL));
}

// ---- Variables -------------------------------------------------------------
static ls_status check_start(ls_variable *variable) {
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &value));
  CHECK(*(const float *)ls_array_data(value) == 7);
  return ls_ok();
}

// Each rank asks for another initial value: 7 plus its rank.
static ls_status start_variables(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_variable, by_array) = NULL;
  LS_OWN(ls_variable, by_value) = NULL;
  LS_OWN(ls_array, array) = NULL;
  const float own = (float)(7 + communicator->rank);
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, &own, &array));
  {
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){.name = "a", .initial_array = array},
        &by_array));
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){
            .name = "b", .initial_value = ls_scalar(LS_DTYPE_F32, (double)own)},
        &by_value));
  }
  LS_RETURN_IF_ERROR(check_start(by_array));
  LS_RETURN_IF_ERROR(check_start(by_value));
  for (size_t r = 0; r < REPLICAS; ++r)
    LS_RETURN_IF_ERROR(check_start(ls_variable_component(by_value, r)));
  return ls_ok();
}

// Starts a variable of a build graph from an array.
static ls_status start_in_graph(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_array, array) = NULL;
  LS_OWN(ls_array, value) = NULL;
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_nest, done) = ls_none();
  const float own = (float)(7 + communicator->rank);
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, &own, &array));
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){.name = "a", .initial_array = array},
        &variable));
  }
  LS_RETURN_IF_ERROR(ls_session_create(graph, &session));
  LS_RETURN_IF_ERROR(ls_session_run(
      session, ls_nest_op(ls_variable_initializer(variable)), NULL, 0, &done));
  LS_RETURN_IF_ERROR(ls_session_variable_value(session, variable, &value));
  CHECK(*(const float *)ls_array_data(value) == 7);
  return ls_ok();
}

static ls_status start_rank(ls_communicator *communicator, void *user) {
  LS_RETURN_IF_ERROR(on_runtime(communicator, start_variables, user));
  return on_runtime(communicator, start_in_graph, user);
}

TEST(variables_start_from_the_chiefs_values) {
  LS_SPEC("M164");
  expect_ok(ls_standin_run(WORKERS, start_rank, NULL));
}


// ---- Two strategies on two threads -------------------------------------------
// Work of a thread on its strategy. `factor` tells apart what it adds up.
typedef struct one_of_two {
  ls_runtime *runtime;
  ls_strategy *strategy;
  int32_t rank;
  unsigned late_us;
  int factor;
  ls_status status;
} one_of_two;

static ls_nest make_some(ls_input_context context, void *user) {
  const one_of_two *self = user;
  (void)context;
  LS_OWN(ls_nest, spec) = ls_nest_spec(LS_DTYPE_F32, LS_SCALAR);
  return ls_nest_dataset(ls_dataset_from_function(
      &(ls_index_options){.name = "numbers",
                          .size = 2 * LOCAL * self->factor,
                          .element = ls_nest_retain(spec),
                          .get = read_number}));
}

static ls_status count_steps(one_of_two *self) {
  LS_OWN(ls_nest, data) = ls_none();
  LS_OWN(ls_nest, element) = ls_none();
  ls_distributed_iterator *iterator = NULL;
  int steps = 0;
  LS_RETURN_IF_ERROR(ls_strategy_distribute_datasets_from_function(
      self->strategy, make_some, self, &data));
  LS_RETURN_IF_ERROR(ls_distributed_iterator_create(data, NULL, &iterator));
  ls_status status = ls_distributed_iterator_next(iterator, &element);
  for (; ls_status_is_ok(status); ++steps)
    status = ls_distributed_iterator_next(iterator, &element);
  ls_distributed_iterator_release(iterator);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  CHECK(steps == 2 * self->factor);
  return ls_ok();
}

static ls_status use_strategy(one_of_two *self) {
  double own[LOCAL];
  for (int i = 0; i < LOCAL; ++i)
    own[i] = self->factor * (self->rank + 1);
  LS_OWN(ls_nest, value) = per_replica_scalars(own, LOCAL);
  LS_OWN(ls_nest, sum) = ls_none();
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_array, start) = NULL;
  LS_RETURN_IF_ERROR(
      ls_strategy_reduce(self->strategy, LS_REDUCE_SUM, value, &sum));
  CHECK(number_of(sum) == self->factor * LOCAL * (1 + 2 + 3));
  {
    LS_STRATEGY_SCOPE(self->strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){
            .name = "v", .initial_value = ls_scalar(LS_DTYPE_F32, own[0])},
        &variable));
  }
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &start));
  CHECK(*(const float *)ls_array_data(start) == (float)self->factor);
  return count_steps(self);
}

static void *use_on_thread(void *user) {
  one_of_two *self = user;
  ls_runtime_make_current(self->runtime);
  usleep(self->late_us);
  self->status = use_strategy(self);
  return NULL;
}

// Uses two strategies at a time: rank 0 the first one first, others the second.
static ls_status use_two(ls_communicator *communicator, void *user) {
  (void)user;
  const int32_t rank = communicator->rank;
  LS_OWN(ls_strategy, first) = NULL;
  LS_OWN(ls_strategy, second) = NULL;
  LS_RETURN_IF_ERROR(make_strategy(rank, &first));
  // One that is not used, on one rank alone, changes nothing.
  if (rank == 1) ls_strategy_release(ls_give(&first));
  if (rank == 1) LS_RETURN_IF_ERROR(make_strategy(rank, &first));
  LS_RETURN_IF_ERROR(make_strategy(rank, &second));
  one_of_two uses[] = {
      {ls_runtime_current(), first, rank, rank == 0 ? 0 : 50000, 1, ls_ok()},
      {ls_runtime_current(), second, rank, rank == 0 ? 50000 : 0, 10, ls_ok()}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    CHECK(pthread_create(&threads[i], NULL, use_on_thread, &uses[i]) == 0);
  for (int i = 0; i < 2; ++i)
    pthread_join(threads[i], NULL);
  return ls_status_join(uses[0].status, uses[1].status);
}

static ls_status two_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, use_two, user);
}

TEST(threads_may_use_two_strategies_in_any_order) {
  LS_SPEC("M124 M164");
  expect_ok(ls_standin_run(WORKERS, two_rank, NULL));
}
// ---- Summaries -------------------------------------------------------------
static int summaries[WORKERS];  // Written by each rank.

static void count_summary(void *user, const ls_summary_record *record) {
  (void)record;
  ++*(int *)user;
}

static ls_nest summary_step(ls_nest args, void *user) {
  (void)args, (void)user;
  ls_summary("loss", ls_convert(ls_replica_id(), LS_DTYPE_F32));
  return ls_none();
}

static ls_status summarize(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, step) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  ls_summary_writer *writer = NULL;
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = summary_step}, &step));
  LS_RETURN_IF_ERROR(ls_summary_writer_create(
      count_summary, &summaries[communicator->rank], &writer));
  ls_status status = ls_ok();
  {
    LS_SUMMARY_SCOPE(writer);
    status = ls_strategy_run(strategy, ls_traced(step), ls_none(), &results);
  }
  ls_summary_writer_release(writer);
  return status;
}

static ls_status summary_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, summarize, user);
}

TEST(the_chief_alone_writes_summaries) {
  LS_SPEC("M164");
  memset(summaries, 0, sizeof(summaries));
  expect_ok(ls_standin_run(WORKERS, summary_rank, NULL));
  assert_int_equal(summaries[0], 1);
  assert_int_equal(summaries[1], 0);
  assert_int_equal(summaries[2], 0);
}

// ---- Training --------------------------------------------------------------
static ls_status train_with(ls_strategy *strategy) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = 24,
                              .shape = type->example_shape,
                              .num_classes = type->num_classes});
  ls_model model = {0};
  LS_RETURN_IF_ERROR(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  const ls_status status = ls_train(&(ls_train_options){.model = &model,
                                                        .strategy = strategy,
                                                        .train = data,
                                                        .batch_size = 12,
                                                        .steps = 4,
                                                        .run_folder = "run",
                                                        .save_steps = 2,
                                                        .log_every = 1},
                                    &(ls_train_result){0});
  ls_model_destroy(&model);
  return status;
}

static ls_status train_rank(ls_communicator *communicator, void *user) {
  const ls_file_system system =
      memory_files_system((memory_files *)user + communicator->rank);
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = 1,
                                         .input_threads = LS_SOME(0),
                                         .communicator = communicator,
                                         .file_system = &system});
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(
      communicator->ranks > 1
          ? make_strategy(communicator->rank, &strategy)
          : mirrored_with(
                (ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)},
                &strategy));
  return train_with(strategy);
}

TEST(the_chief_alone_saves_the_training_of_all) {
  LS_SPEC("M164");
  static const char path[] = "run/model.safetensors";
  memory_files alone[1] = {{.count = 0}}, spread[WORKERS] = {{.count = 0}};
  expect_ok(ls_standin_run(1, train_rank, alone));
  expect_ok(ls_standin_run(WORKERS, train_rank, spread));
  const memory_file *expected = memory_files_find(&alone[0], path);
  const memory_file *found = memory_files_find(&spread[0], path);
  assert_non_null(expected);
  assert_non_null(found);
  assert_int_equal(found->size, expected->size);
  assert_memory_equal(found->data, expected->data, found->size);
  for (int k = 1; k < WORKERS; ++k) {
    assert_null(memory_files_find(&spread[k], path));
    assert_null(memory_files_find(&spread[k], "run/model.ckpt-4.safetensors"));
  }
  assert_non_null(
      memory_files_find(&spread[0], "run/model.ckpt-4.safetensors"));
  memory_files_clear(&alone[0]);
  for (int k = 0; k < WORKERS; ++k)
    memory_files_clear(&spread[k]);
}

// ---- A death ---------------------------------------------------------------
typedef struct deaths {
  ls_status ends[WORKERS];
  bool has_ended[WORKERS];
} deaths;

static ls_status step_on(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, step) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(make_strategy(communicator->rank, &strategy));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = id_step}, &step));
  for (int i = 0; i < 40; ++i)
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(step), ls_none(), &results));
  return ls_ok();
}

static ls_status dying_rank(ls_communicator *communicator, void *user) {
  deaths *self = user;
  const ls_status status = on_runtime(communicator, step_on, NULL);
  self->ends[communicator->rank] = ls_status_clone(status);
  self->has_ended[communicator->rank] = true;
  return status;
}

TEST(a_worker_that_dies_ends_the_others_collectives) {
  LS_SPEC("M165");
  int num_told = 0;  // Survivors that were told who died.
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    deaths it = {0};
    ls_fault fault = {.kind = LS_FAULT_KILL, .at = 100 * (int64_t)seed};
    ls_simulation *simulation = NULL;
    expect_ok(ls_simulation_create(&(ls_simulation_options){.seed = seed,
                                                            .faults = &fault,
                                                            .num_faults = 1},
                                   &simulation));
    ls_status_free(ls_simulation_run(simulation, WORKERS, dying_rank, &it));
    ls_simulation_destroy(simulation);
    const int dead = fault.event > 0 ? fault.rank : -1;
    char peer[16];
    snprintf(peer, sizeof(peer), "rank %d", dead);
    for (int k = 0; k < WORKERS; ++k) {
      const bool is_told = k != dead && !ls_status_is_ok(it.ends[k]);
      num_told += is_told;
      if (is_told)
        expect_status(it.ends[k], LS_UNAVAILABLE, peer);
      else
        ls_status_free(it.ends[k]);
    }
  }
  assert_true(num_told > 0);
}

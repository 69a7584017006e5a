// SPDX-License-Identifier: Apache-2.0
//
// Collective ops on ranks: values of all members, dense and sparse, from
// several threads, and with a member that does not come.
#include <pthread.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/multi_worker.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition))                                                          \
      return ls_internal("%s:%d: " #condition, __FILE__, __LINE__);            \
  } while (0)

static const char *const cpus[] = {"/cpu:0", "/cpu:1"};

// Runs a function on each rank, in a runtime of its own.
static ls_status on_runtime(ls_communicator *communicator, ls_rank_function act,
                            void *user) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return act(communicator, user);
}

// Makes a value on this rank's two devices: component i has `rows` rows of the
// number.
static ls_nest local_value(const double *numbers, int64_t rows) {
  ls_nest items[2];
  for (int i = 0; i < 2; ++i)
    items[i] = ls_leaf(
        ls_broadcast(ls_scalar(LS_DTYPE_F32, numbers[i]), LS_SHAPE(rows)));
  return ls_nest_distributed_on(LS_PER_REPLICA, items, cpus, 2);
}

static ls_status first_number(ls_nest leaf, double *out_number,
                              int64_t *out_size) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(
      ls_tensor_value(ls_distributed_count(leaf) > 0
                          ? ls_distributed_component(leaf, 0).as.tensor
                          : leaf.as.tensor,
                      &array));
  *out_size = ls_shape_num_elements(ls_array_shape(array));
  *out_number = (double)((const float *)ls_array_data(array))[0];
  return ls_ok();
}

// ---- Dense -----------------------------------------------------------------
static ls_status reduce_dense(ls_communicator *communicator, void *user) {
  (void)user;
  const double own[2] = {communicator->rank * 2 + 1,
                         communicator->rank * 2 + 2};
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(
      ls_collective_ops_create(cpus, 2, communicator->ranks * 2, NULL, &ops));
  LS_OWN(ls_nest, value) = local_value(own, 3);
  const double count = communicator->ranks * 2;
  for (int mean = 0; mean < 2; ++mean) {
    double number = 0;
    int64_t size = 0;
    LS_OWN(ls_nest, made) = ls_none();
    LS_RETURN_IF_ERROR(
        ls_cross_device_reduce(ops, mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM,
                               value, (ls_destinations){0}, &made));
    CHECK(ls_distributed_count(made) == 2);
    LS_RETURN_IF_ERROR(first_number(made, &number, &size));
    CHECK(size == 3);
    const double sum = count * (count + 1) / 2;
    CHECK(number == (mean ? sum / count : sum));
  }
  LS_OWN(ls_nest, joined) = ls_none();
  double number = 0;
  int64_t size = 0;
  LS_RETURN_IF_ERROR(ls_cross_device_gather(
      ops, value, 0, (ls_destinations){.device = "/cpu:0"}, &joined));
  LS_RETURN_IF_ERROR(first_number(joined, &number, &size));
  CHECK(number == 1);
  CHECK(size == 6 * communicator->ranks);
  return ls_ok();
}

static ls_status dense_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, reduce_dense, user);
}

TEST(sums_and_means_are_over_all_members) {
  LS_SPEC("M121 M118");
  expect_ok(ls_standin_run(1, dense_rank, NULL));
  expect_ok(ls_standin_run(2, dense_rank, NULL));
  expect_ok(ls_standin_run(4, dense_rank, NULL));
}

// ---- Sparse ----------------------------------------------------------------
// Makes slices of `rows` rows, with indices from `first` on.
static ls_nest rows_of(int64_t rows, double number, int64_t first) {
  const ls_tensor values =
      ls_broadcast(ls_scalar(LS_DTYPE_F32, number), LS_SHAPE(rows, 1));
  const ls_tensor indices =
      ls_add(ls_iota(LS_DTYPE_I64, LS_SHAPE(rows), 0),
             ls_broadcast(ls_scalar_i64(LS_DTYPE_I64, first), LS_SHAPE(rows)));
  return ls_nest_slices(ls_leaf(values), indices, ls_failed_tensor());
}

// Checks slices of four members: member m has m + 1 rows of the number m.
static ls_status check_rows(ls_nest slices, bool mean) {
  ls_slices_parts parts;
  LS_OWN(ls_array, values) = NULL;
  LS_OWN(ls_array, indices) = NULL;
  LS_RETURN_IF_ERROR(ls_slices_parts_of(slices, &parts));
  LS_RETURN_IF_ERROR(ls_tensor_value(parts.values, &values));
  LS_RETURN_IF_ERROR(ls_tensor_value(parts.indices, &indices));
  CHECK(ls_array_shape(values).dim[0] == 10);
  const float *numbers = ls_array_data(values);
  const int64_t *places = ls_array_data(indices);
  for (int m = 0, at = 0; m < 4; ++m)
    for (int row = 0; row <= m; ++row, ++at) {
      CHECK(places[at] == 10 * m + row);
      CHECK(numbers[at] == (float)(mean ? m / 4.0 : m));
    }
  return ls_ok();
}

static ls_status reduce_sparse(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(
      ls_collective_ops_create(cpus, 2, communicator->ranks * 2, NULL, &ops));
  ls_nest items[2];
  for (int i = 0; i < 2; ++i) {
    const int member = communicator->rank * 2 + i;
    items[i] = rows_of(member + 1, member, 10 * member);
  }
  LS_OWN(ls_nest, sparse) =
      ls_nest_distributed_on(LS_PER_REPLICA, items, cpus, 2);
  LS_OWN(ls_nest, dense) = local_value((double[]){communicator->rank, 10}, 2);
  const ls_nest values[3] = {sparse, dense, sparse};
  const ls_destinations where[3] = {{0}};
  for (int mean = 0; mean < 2; ++mean) {
    LS_OWN(ls_nest, list) = ls_none();
    double number = 0;
    int64_t size = 0;
    LS_RETURN_IF_ERROR(ls_cross_device_batch_reduce(
        ops, mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM, values, where, 3, &list));
    for (size_t i = 0; i < 3; i += 2)
      for (size_t k = 0; k < 2; ++k)
        LS_RETURN_IF_ERROR(check_rows(
            ls_distributed_component(ls_nest_item(list, i), k), mean));
    LS_RETURN_IF_ERROR(first_number(ls_nest_item(list, 1), &number, &size));
    CHECK(size == 2);
    CHECK(number == (mean ? 21 / 4.0 : 21));
  }
  return ls_ok();
}

static ls_status sparse_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, reduce_sparse, user);
}

TEST(slices_of_all_members_are_joined_in_their_order) {
  LS_SPEC("M122");
  expect_ok(ls_standin_run(1 + 1, sparse_rank, NULL));
}

// ---- Groups ----------------------------------------------------------------
static ls_status use_groups(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_cross_device, first) = NULL;
  LS_OWN(ls_cross_device, second) = NULL;
  const int32_t size = communicator->ranks * 2;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(cpus, 2, size, NULL, &first));
  LS_RETURN_IF_ERROR(ls_collective_ops_create(cpus, 2, size, NULL, &second));
  // Calls of equal groups are matched in their order.
  for (int i = 0; i < 6; ++i) {
    LS_OWN(ls_nest, value) = local_value((double[]){i, i}, i + 1);
    LS_OWN(ls_nest, made) = ls_none();
    double number = 0;
    int64_t elements = 0;
    LS_RETURN_IF_ERROR(ls_cross_device_reduce(i % 2 == 0 ? first : second,
                                              LS_REDUCE_SUM, value,
                                              (ls_destinations){0}, &made));
    LS_RETURN_IF_ERROR(first_number(made, &number, &elements));
    CHECK(number == i * size);
    CHECK(elements == i + 1);
  }
  // A device that the group lacks, and too many components.
  static const char *const others[] = {"/cpu:0", "/cpu:5"};
  ls_nest items[3];
  for (int i = 0; i < 3; ++i)
    items[i] = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  LS_OWN(ls_nest, astray) =
      ls_nest_distributed_on(LS_PER_REPLICA, items, others, 2);
  LS_OWN(ls_nest, odd) = ls_nest_distributed(LS_PER_REPLICA, items, 3);
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_status, refused) = ls_cross_device_reduce(
      first, LS_REDUCE_SUM, astray, (ls_destinations){0}, &made);
  CHECK(ls_status_code(refused) == LS_INVALID_ARGUMENT);
  CHECK(strstr(ls_status_message(refused), "CPU:5") != NULL);
  CHECK(strstr(ls_status_message(refused), "CPU:1") != NULL);
  LS_OWN(ls_status, uneven) = ls_cross_device_reduce(
      first, LS_REDUCE_SUM, odd, (ls_destinations){.device = "/cpu:0"}, &made);
  CHECK(ls_status_code(uneven) == LS_INVALID_ARGUMENT);
  return ls_ok();
}

static ls_status group_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, use_groups, user);
}

TEST(a_group_is_known_by_its_devices_and_counts_its_calls) {
  LS_SPEC("M126");
  expect_ok(ls_standin_run(2, group_rank, NULL));
}

// ---- Failures
// ----------------------------------------------------------------
typedef struct failing {
  bool gathers;
  int wrong;  // The way in which rank 1 is wrong.
  ls_code code;
} failing;

enum { NO_SUCH_DEVICE, TOO_MANY, TEXT_VALUES };

static ls_tensor text_tensor(void) {
  const ls_bytes text = {"a text that is longer than a word", 33};
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(1), &text, &array));
  return ls_constant(array);
}

static ls_nest wrong_value(int wrong) {
  static const char *const astray[] = {"/cpu:0", "/cpu:7"};
  ls_nest items[3];
  for (int i = 0; i < 3; ++i)
    items[i] = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  if (wrong == TEXT_VALUES) items[0] = items[1] = ls_leaf(text_tensor());
  return wrong == NO_SUCH_DEVICE
             ? ls_nest_distributed_on(LS_PER_REPLICA, items, astray, 2)
         : wrong == TOO_MANY
             ? ls_nest_distributed(LS_PER_REPLICA, items, 3)
             : ls_nest_distributed_on(LS_PER_REPLICA, items, cpus, 2);
}

static ls_status combine(ls_cross_device *ops, bool gathers, ls_nest value,
                         ls_nest *out_value) {
  const ls_destinations where = {.device = "/cpu:0"};
  return gathers ? ls_cross_device_gather(ops, value, 0, where, out_value)
                 : ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, where,
                                          out_value);
}

static ls_status fail_on_one(ls_communicator *communicator, void *user) {
  const failing *f = user;
  const bool is_wrong = communicator->rank == 1;
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(cpus, 2, 4, NULL, &ops));
  const double own[2] = {1 + communicator->rank, 10};
  LS_OWN(ls_nest, right) = local_value(own, 2);
  LS_OWN(ls_nest, given) =
      is_wrong ? wrong_value(f->wrong) : ls_nest_retain(right);
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_nest, next) = ls_none();
  LS_OWN(ls_status, seen) = combine(ops, f->gathers, given, &made);
  CHECK(ls_status_code(seen) == f->code);
  CHECK(is_wrong || strstr(ls_status_message(seen), "rank 1") != NULL);
  // The next call is the next one on all ranks.
  double number = 0;
  int64_t size = 0;
  LS_RETURN_IF_ERROR(combine(ops, false, right, &next));
  LS_RETURN_IF_ERROR(first_number(next, &number, &size));
  CHECK(number == 23);
  return ls_ok();
}

static ls_status failing_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, fail_on_one, user);
}

TEST(a_call_that_one_rank_refuses_fails_on_all) {
  LS_SPEC("M126");
  for (int gathers = 0; gathers < 2; ++gathers)
    for (int wrong = 0; wrong <= TEXT_VALUES; ++wrong)
      expect_ok(ls_standin_run(2, failing_rank,
                               &(failing){gathers, wrong,
                                          wrong == TEXT_VALUES
                                              ? LS_UNIMPLEMENTED
                                              : LS_INVALID_ARGUMENT}));
}

// ---- Threads ---------------------------------------------------------------
enum { CALLS = 20 };

typedef struct caller {
  ls_cross_device *ops;
  ls_runtime *runtime;
  ls_status status;
} caller;

static ls_status call_often(ls_cross_device *ops, int calls) {
  for (int i = 0; i < calls; ++i) {
    LS_OWN(ls_nest, value) = local_value((double[]){1, 2}, 50);
    LS_OWN(ls_nest, made) = ls_none();
    double number = 0;
    int64_t size = 0;
    LS_RETURN_IF_ERROR(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value,
                                              (ls_destinations){0}, &made));
    LS_RETURN_IF_ERROR(first_number(made, &number, &size));
    CHECK(number == 6 && size == 50);
  }
  return ls_ok();
}

static void *call_on_thread(void *user) {
  caller *self = user;
  ls_runtime_make_current(self->runtime);
  self->status = call_often(self->ops, CALLS);
  return NULL;
}

// Rank 0 calls from two threads, rank 1 as often from one.
static ls_status call_from_threads(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(cpus, 2, 4, NULL, &ops));
  if (communicator->rank == 1) return call_often(ops, 2 * CALLS);
  caller callers[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    callers[i] = (caller){ops, ls_runtime_current(), ls_ok()};
    CHECK(pthread_create(&threads[i], NULL, call_on_thread, &callers[i]) == 0);
  }
  for (int i = 0; i < 2; ++i)
    pthread_join(threads[i], NULL);
  return ls_status_join(callers[0].status, callers[1].status);
}

static ls_status threads_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, call_from_threads, user);
}

TEST(callers_on_several_threads_take_turns) {
  LS_SPEC("M124");
  expect_ok(ls_standin_run(2, threads_rank, NULL));
}

// ---- Limits ----------------------------------------------------------------
typedef struct lateness {
  double timeout;
  int late_ms;  // Delay of rank 1; -1: it never comes.
  bool steps;   // Runs a step of a strategy in place of a call.
  int ended;
  double waited;
  ls_status seen;
} lateness;

static ls_nest sum_step(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_status take_step(ls_cross_device *ops) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(4), .cross_device = ops},
      &strategy));
  LS_OWN(ls_function, step) = NULL;
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = sum_step}, &step));
  LS_OWN(ls_nest, results) = ls_none();
  return ls_strategy_run(strategy, ls_traced(step), ls_none(), &results);
}

static ls_status meet(ls_communicator *communicator, void *user) {
  lateness *self = user;
  LS_OWN(ls_cross_device, ops) = NULL;
  LS_RETURN_IF_ERROR(ls_collective_ops_create(
      cpus, 2, 4, &(ls_collective_options){.timeout_seconds = self->timeout},
      &ops));
  for (int i = 0; communicator->rank == 1 && i != self->late_ms; ++i) {
    if (__atomic_load_n(&self->ended, __ATOMIC_ACQUIRE)) return ls_ok();
    usleep(1000);
  }
  const int64_t began = ls_runtime_now(ls_runtime_current());
  const ls_status status = self->steps ? take_step(ops) : call_often(ops, 1);
  if (communicator->rank == 1) return status;
  self->waited = (double)(ls_runtime_now(ls_runtime_current()) - began) * 1e-9;
  self->seen = status;
  __atomic_store_n(&self->ended, 1, __ATOMIC_RELEASE);
  return ls_ok();
}

static ls_status late_rank(ls_communicator *communicator, void *user) {
  return on_runtime(communicator, meet, user);
}

TEST(a_member_that_never_comes_ends_the_call_in_time) {
  LS_SPEC("M125");
  static const double timeouts[] = {0.3, 0.3, 1e-12};
  for (int i = 0; i < 3; ++i) {
    lateness it = {.timeout = timeouts[i], .late_ms = -1, .steps = i == 1};
    ls_status_free(ls_standin_run(2, late_rank, &it));
    expect_contains(ls_status_message(it.seen), "rank 1");
    expect_status(it.seen, LS_DEADLINE_EXCEEDED, "time limit");
    assert_true(it.waited >= timeouts[i]);
    assert_true(it.waited < 10);
  }
}

TEST(without_a_limit_a_late_member_is_awaited) {
  LS_SPEC("M125");
  for (int steps = 0; steps < 2; ++steps) {
    lateness it = {.late_ms = 400, .steps = steps};
    expect_ok(ls_standin_run(2, late_rank, &it));
    expect_ok(it.seen);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Input on several ranks: each reads its replicas' examples, and all get the
// bytes of one.
#include <string.h>

#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"

enum { MOST_RANKS = 4, MOST_STEPS = 32, REPLICAS = 4 };

// What a job does on each rank, and what it has seen.
typedef struct job {
  ls_dataset *(*make)(const struct job *self);
  ls_dataset_function function;  // In place of `make`.
  ls_input_options options;
  int replicas, epochs;
  int64_t reads[MOST_RANKS];  // Elements of the source that a rank has read.
  double sums[MOST_RANKS][MOST_STEPS];
  int steps[MOST_RANKS];
  int absent[MOST_RANKS];  // Values of the last step.
} job;

static ls_status read_row(void *user, int64_t index, ls_nest out) {
  if (user != NULL) __atomic_fetch_add((int64_t *)user, 1, __ATOMIC_SEQ_CST);
  float *row = ls_array_mutable_data(ls_nest_as_array(out));
  for (int i = 0; i < 3; ++i)
    row[i] = (float)(index * 3 + i) * 0.7F;
  return ls_ok();
}

static ls_dataset *rows_of(int64_t *reads, int64_t count) {
  return ls_dataset_from_function(
      &(ls_index_options){.name = "rows",
                          .size = count,
                          .element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3)),
                          .get = read_row,
                          .user = reads});
}

// A number that depends on each element, its place and its replica's rows.
static ls_nest weigh(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor sum = ls_reduce_sum(ls_square(x), LS_ALL_AXES);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_sin(sum)));
}

static int count_absent(ls_nest element) {
  int count = 0;
  ls_nest leaf = ls_none();
  ls_nest_flatten(element, &leaf, 1);
  for (size_t r = 0; r < ls_distributed_count(leaf); ++r)
    count +=
        ls_array_is_absent(ls_nest_as_array(ls_distributed_component(leaf, r)));
  return count;
}

static ls_status step_through(job *self, int rank, ls_strategy *strategy,
                              ls_distributed_iterator *iterator,
                              ls_function *function) {
  ls_nest results = ls_none();
  LS_OWN(ls_nest, element) = ls_none();
  ls_status status = ls_ok();
  for (;;) {
    status = ls_distributed_iterator_next(iterator, &element);
    if (!ls_status_is_ok(status)) break;
    self->absent[rank] = count_absent(element);
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(element));
    status = ls_strategy_run(strategy, ls_traced(function), args, &results);
    if (!ls_status_is_ok(status)) break;
    self->sums[rank][self->steps[rank]++] =
        ls_nest_number(ls_distributed_component(results, 0));
  }
  ls_nest_release(results);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_ok();
}

static ls_status distribute(job *self, ls_strategy *strategy, ls_nest *data) {
  if (self->function != NULL)
    return ls_strategy_distribute_datasets_from_function_with(
        strategy, self->function, self, &self->options, data);
  LS_OWN(ls_nest, leaf) = ls_nest_dataset(self->make(self));
  return ls_strategy_distribute_dataset_with(strategy, leaf, &self->options,
                                             data);
}

static ls_status work(job *self, int rank) {
  ls_strategy *strategy = NULL;
  ls_function *function = NULL;
  ls_distributed_iterator *iterator = NULL;
  LS_OWN(ls_nest, data) = ls_none();
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(self->replicas)},
      &strategy);
  if (ls_status_is_ok(status))
    status =
        ls_function_create(&(ls_function_options){.call = weigh}, &function);
  if (ls_status_is_ok(status)) status = distribute(self, strategy, &data);
  if (ls_status_is_ok(status))
    status = ls_distributed_iterator_create(data, NULL, &iterator);
  for (int e = 0; e < self->epochs && ls_status_is_ok(status); ++e) {
    if (e > 0) status = ls_distributed_iterator_restart(iterator);
    if (ls_status_is_ok(status))
      status = step_through(self, rank, strategy, iterator, function);
  }
  ls_distributed_iterator_release(iterator);
  ls_function_release(function);
  if (strategy != NULL) ls_strategy_release(strategy);
  return status;
}

static ls_status work_on(ls_communicator *communicator, void *user) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return work(user, communicator->rank);
}

// All ranks give what one that is alone gives, and so many values of all ranks
// together are absent in the last step.
static void expect_same(const job *like, bool reads_own) {
  job alone = *like;
  expect_ok(ls_standin_run(1, work_on, &alone));
  assert_true(alone.steps[0] > 0);
  assert_int_equal(alone.absent[0], 0);
  for (int ranks = 2; ranks <= MOST_RANKS; ranks += 2) {
    job self = *like;
    expect_ok(ls_standin_run(ranks, work_on, &self));
    for (int k = 0; k < ranks; ++k) {
      assert_int_equal(self.steps[k], alone.steps[0]);
      assert_memory_equal(self.sums[k], alone.sums[0],
                          (size_t)alone.steps[0] * sizeof(double));
    }
    int absent = 0;
    for (int k = 0; k < ranks; ++k)
      absent += self.absent[k];
    assert_int_equal(absent, reads_own ? (ranks - 1) * like->replicas : 0);
  }
}

static ls_dataset *shuffled_batches(const job *self) {
  (void)self;
  return ls_dataset_batch(
      ls_dataset_shuffle(rows_of(NULL, 50), &(ls_shuffle_options){.seed = 3}),
      &(ls_batch_options){.size = 8});
}

// Batches in another order, the last one shorter.
static ls_dataset *batches_shuffled(const job *self) {
  (void)self;
  return ls_dataset_prefetch(
      ls_dataset_shuffle(
          ls_dataset_batch(rows_of(NULL, 50), &(ls_batch_options){.size = 7}),
          &(ls_shuffle_options){.seed = 5}),
      3);
}

static ls_nest half(ls_nest element, const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  const ls_array *from = ls_nest_as_array(element);
  const ls_nest made = ls_nest_zeros(LS_DTYPE_F32, ls_array_shape(from));
  for (int64_t i = 0; i < ls_array_num_elements(from); ++i)
    ls_array_set_f64(ls_nest_as_array(made), i, ls_array_f64(from, i) * 0.5);
  return made;
}

// A map of whole batches, which all ranks compute.
static ls_dataset *mapped_batches(const job *self) {
  return ls_dataset_map(
      shuffled_batches(self),
      &(ls_map_options){.call = half,
                        .result = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(-1, 3))});
}

static ls_dataset *mapped_rows(const job *self) {
  (void)self;
  return ls_dataset_batch(
      ls_dataset_map(rows_of(NULL, 50), &(ls_map_options){.call = half}),
      &(ls_batch_options){.size = 8});
}

TEST(batches_on_ranks_give_the_bytes_of_one) {
  LS_SPEC("T148 T151 M181");
  const struct {
    ls_dataset *(*make)(const job *self);
    bool reads_own;
  } cases[] = {{shuffled_batches, true},
               {batches_shuffled, true},
               {mapped_rows, true},
               {mapped_batches, false}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    expect_same(
        &(job){.make = cases[i].make, .replicas = REPLICAS, .epochs = 2},
        cases[i].reads_own);
  // Numbers of replicas that do not come out even.
  expect_same(&(job){.make = shuffled_batches, .replicas = 5, .epochs = 1},
              true);
  expect_same(&(job){.make = mapped_batches,
                     .replicas = REPLICAS,
                     .epochs = 1,
                     .options = {.whole_elements = true}},
              false);
}

// Batches of one shape.
static ls_dataset *full_batches(const job *self) {
  (void)self;
  return ls_dataset_batch(
      ls_dataset_shuffle(rows_of(NULL, 50), &(ls_shuffle_options){.seed = 3}),
      &(ls_batch_options){.size = 4, .remainder = LS_REMAINDER_DROP});
}

TEST(whole_elements_on_ranks_give_the_bytes_of_one) {
  LS_SPEC("M61");
  const ls_input_options whole = {.whole_elements = true};
  expect_same(&(job){.make = full_batches,
                     .replicas = REPLICAS,
                     .epochs = 2,
                     .options = whole},
              true);
  expect_same(
      &(job){
          .make = full_batches, .replicas = 5, .epochs = 1, .options = whole},
      true);
  // Of streams, and where shapes differ, each rank reads all.
  expect_same(&(job){.make = shuffled_batches,
                     .replicas = REPLICAS,
                     .epochs = 1,
                     .options = whole},
              false);
}

static ls_dataset *counted_elements(const job *self) {
  const ls_communicator *communicator =
      ls_runtime_communicator(ls_runtime_current());
  return rows_of((int64_t *)&self->reads[communicator->rank], 46);
}

static ls_dataset *counted_batches(const job *self) {
  const ls_communicator *communicator =
      ls_runtime_communicator(ls_runtime_current());
  return ls_dataset_batch(
      rows_of((int64_t *)&self->reads[communicator->rank], 48),
      &(ls_batch_options){.size = 8});
}

TEST(a_rank_reads_its_replicas_rows_alone) {
  LS_SPEC("T136");
  job self = {.make = counted_batches, .replicas = REPLICAS, .epochs = 1};
  expect_ok(ls_standin_run(2, work_on, &self));
  for (int k = 0; k < 2; ++k)
    assert_int_equal(self.reads[k], 24);
  self = (job){.make = counted_elements,
               .replicas = REPLICAS,
               .epochs = 1,
               .options = {.whole_elements = true}};
  expect_ok(ls_standin_run(2, work_on, &self));
  for (int k = 0; k < 2; ++k)
    assert_int_equal(self.reads[k], 22);
}

// ---- Rows that fail ---------------------------------------------------------
static ls_status refuse_one(void *user, int64_t index, ls_nest out) {
  LS_RETURN_IF_ERROR(read_row(user, index, out));
  return index == 14 ? ls_invalid_argument("row 14 is refused") : ls_ok();
}

// Row 14 is of the last replica: the others have rows of their own, and would
// go on.
static ls_status read_refused(ls_communicator *communicator, void *user) {
  const bool *whole = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(distributed(
      two,
      ls_dataset_batch(ls_dataset_from_function(&(ls_index_options){
                           .size = 24,
                           .element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3)),
                           .get = refuse_one}),
                       &(ls_batch_options){.size = *whole ? 2 : 4}),
      &(ls_input_options){.whole_elements = *whole}));
  for (int i = 0; i < 6; ++i) {
    LS_OWN(ls_status, status) =
        ls_distributed_iterator_next(iterator, &element);
    assert_int_equal(ls_status_is_ok(status),
                     communicator->rank == 0 || i != 3);
  }
  // Whoever meets the others learns of it.
  int64_t word = 0;
  ls_exchange_piece pieces[] = {{&word, sizeof(word), 0, LS_EACH_RANK},
                                {&word, 0, 1, LS_EACH_RANK}};
  expect_status(
      ls_communicator_exchange(communicator, &(ls_exchange_name){0}, pieces, 2),
      LS_INVALID_ARGUMENT, "row 14 is refused");
  return ls_ok();
}

TEST(a_row_that_fails_on_one_rank_ends_the_job) {
  for (int i = 0; i < 2; ++i) {
    bool whole = i == 1;
    expect_status(ls_standin_run(2, read_refused, &whole), LS_INVALID_ARGUMENT,
                  "on rank 1 of 2");
  }
}

// ---- Pipelines of ranks -----------------------------------------------------
static ls_nest make_rows(ls_input_context context, void *user) {
  const job *self = user;
  (void)self;
  // The last pipeline has the most, so that the others end before.
  const int64_t count = 5 + 4 * context.pipeline;
  return ls_nest_dataset(
      ls_dataset_batch(rows_of(NULL, count), &(ls_batch_options){.size = 2}));
}

TEST(ranks_with_pipelines_of_their_own_end_together) {
  LS_SPEC("T152 M66 M67");
  job self = {.function = make_rows, .replicas = REPLICAS, .epochs = 2};
  expect_ok(ls_standin_run(2, work_on, &self));
  // Rank 1 has 9 rows in batches of 2 for 2 replicas: 3 steps an epoch.
  for (int k = 0; k < 2; ++k) {
    assert_int_equal(self.steps[k], 6);
    assert_int_equal(self.absent[k], 2);
    for (int i = 0; i < 6; ++i)
      assert_true(self.sums[k][i] == self.sums[0][i]);
  }
}

// One that never ends, of shapes that are not known, and one of known shapes.
static ls_nest make_unlike(ls_input_context context, void *user) {
  (void)user;
  const ls_batch_options batch = {.size = 2};
  if (context.pipeline == 1)
    return ls_nest_dataset(ls_dataset_batch(rows_of(NULL, 6), &batch));
  return ls_nest_dataset(
      ls_dataset_repeat(ls_dataset_batch(rows_of(NULL, 3), &batch), -1));
}

static ls_status read_unlike(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_nest data = ls_none();
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_strategy_distribute_datasets_from_function(two, make_unlike,
                                                          NULL, &data));
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(data);
  // Rank 1 ends behind 3 batches, and all ranks see an empty one then.
  for (int i = 0; i < 5; ++i) {
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    const ls_nest last = ls_distributed_component(element, 1);
    assert_true(ls_shape_equal(ls_array_shape(ls_nest_as_array(last)),
                               LS_SHAPE(i < 3 ? 2 : 0, 3)));
  }
  return ls_ok();
}

TEST(ranks_agree_on_what_is_empty) {
  LS_SPEC("T152");
  expect_ok(ls_standin_run(2, read_unlike, NULL));
}

static ls_dataset *off_batches(const job *self) {
  (void)self;
  return ls_dataset_batch(rows_of(NULL, 21), &(ls_batch_options){.size = 7});
}

TEST(ranks_are_hosts_that_read_by_themselves) {
  LS_SPEC("M176 T149");
  job self = {.make = off_batches,
              .options = {.sharding = LS_SHARD_OFF},
              .replicas = REPLICAS,
              .epochs = 1};
  expect_ok(ls_standin_run(2, work_on, &self));
  assert_true(self.steps[0] > 3);
  for (int k = 0; k < 2; ++k) {
    assert_int_equal(self.steps[k], self.steps[0]);
    assert_int_equal(self.absent[k], 2);
    assert_memory_equal(self.sums[k], self.sums[0],
                        (size_t)self.steps[0] * sizeof(double));
  }
}

static ls_nest make_nothing(void *user, int64_t index) {
  (void)user;
  (void)index;
  return LS_FAIL(LS_DATA_LOSS, "the disk is gone");
}

static ls_nest make_failing(ls_input_context context, void *user) {
  (void)user;
  if (context.pipeline == 0)
    return ls_nest_dataset(
        ls_dataset_batch(rows_of(NULL, 40), &(ls_batch_options){.size = 2}));
  return ls_nest_dataset(ls_dataset_from_function(
      &(ls_index_options){.size = 40,
                          .element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(2, 3)),
                          .make = make_nothing}));
}

TEST(a_rank_whose_data_is_lost_ends_all) {
  job self = {.function = make_failing, .replicas = REPLICAS, .epochs = 1};
  const ls_status status = ls_standin_run(2, work_on, &self);
  expect_contains(ls_status_message(status), "the disk is gone");
  expect_status(status, LS_DATA_LOSS, "rank 1");
}

// ---- Plain callbacks --------------------------------------------------------
static ls_nest square(ls_nest args, void *user) {
  (void)user;
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 0), &x);
  return ls_status_is_ok(status) ? ls_leaf(ls_square(x)) : ls_fail(status);
}

static ls_status run_plainly(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(distributed(
      two, ls_dataset_batch(rows_of(NULL, 4), &(ls_batch_options){.size = 2}),
      NULL));
  ls_nest element = ls_none(), results = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  LS_OWN(ls_nest, args) = LS_TUPLE(element);
  expect_status(ls_strategy_run(two, ls_plain(square, NULL), args, &results),
                LS_FAILED_PRECONDITION, "another rank");
  return ls_ok();
}

TEST(replicas_of_others_are_not_computed_op_by_op) {
  expect_ok(ls_standin_run(2, run_plainly, NULL));
}

// ---- Ops
static ls_nest end_or_square(ls_nest args, void *user) {
  if (*(const bool *)user) return LS_FAIL(LS_OUT_OF_RANGE, "no more data");
  return square(args, NULL);
}

// The end of data in a callback is that of all ranks.
static ls_status end_plainly(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  bool ends = true;
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(weigh, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3)));
  expect_status(
      ls_strategy_run(two, ls_plain(end_or_square, &ends), args, &results),
      LS_OUT_OF_RANGE, "no more data");
  expect_ok(ls_strategy_run(two, ls_traced(function), args, &results));
  return ls_ok();
}

TEST(the_end_of_data_leaves_ranks_in_step) {
  expect_ok(ls_standin_run(2, end_plainly, NULL));
}

// ---------------------------------------------------------------------
typedef struct reader {
  ls_strategy *strategy;
  ls_distributed_iterator *iterator;
} reader;

static ls_nest read_and_weigh(ls_nest args, void *user) {
  (void)args;
  const reader *r = user;
  const ls_nest element = ls_distributed_iterator_get_next(r->iterator);
  if (ls_nest_is_failed(element)) return element;
  LS_OWN(ls_nest, inner) = LS_TUPLE(element);
  ls_nest results = ls_none();
  const ls_status status =
      ls_strategy_run(r->strategy, ls_plain(weigh, NULL), inner, &results);
  return ls_status_is_ok(status) ? results : ls_fail(status);
}

static ls_nest distribute_inside(ls_nest args, void *user) {
  (void)args;
  reader *r = user;
  const ls_nest data = distributed(
      r->strategy,
      ls_dataset_batch(rows_of(NULL, 16), &(ls_batch_options){.size = 8}),
      NULL);
  r->iterator = iterator_on(data);
  return ls_none();
}

static ls_status read_by_ops(ls_communicator *communicator, void *user) {
  double *sums = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  reader r = {.strategy = mirrored_of(REPLICAS)};
  ls_function *start = unnamed_function(distribute_inside, &r);
  LS_OWN(ls_nest, results) = call_results(start, ls_none());
  ls_function *read = unnamed_function(read_and_weigh, &r);
  int step = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 2; ++i) {
      expect_ok(ls_function_call(read, ls_none(), &results));
      sums[4 * communicator->rank + step++] =
          ls_nest_number(ls_distributed_component(results, 0));
    }
    // The end of data leaves ranks in step.
    expect_status(ls_function_call(read, ls_none(), &results), LS_OUT_OF_RANGE,
                  "is at the end");
    expect_ok(ls_distributed_iterator_restart(r.iterator));
  }
  ls_nest_release(results);
  results = ls_none();
  ls_function_release(start);
  ls_function_release(read);
  ls_distributed_iterator_release(r.iterator);
  // Where each rank has its own values alone, there is no op.
  r.iterator = iterator_on(distributed(
      r.strategy,
      ls_dataset_batch(rows_of(NULL, 16), &(ls_batch_options){.size = 8}),
      NULL));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = read_and_weigh, .user = &r}, &read));
  expect_status(ls_function_call(read, ls_none(), &results),
                communicator->ranks == 1 ? LS_OK : LS_FAILED_PRECONDITION,
                communicator->ranks == 1 ? ""
                                         : "as other ranks have the others");
  ls_function_release(read);
  ls_distributed_iterator_release(r.iterator);
  ls_strategy_release(r.strategy);
  return ls_ok();
}

TEST(ops_read_on_ranks) {
  LS_SPEC("T154");
  double alone[4] = {0}, sums[2 * 4] = {0};
  expect_ok(ls_standin_run(1, read_by_ops, alone));
  expect_ok(ls_standin_run(2, read_by_ops, sums));
  assert_true(alone[0] == alone[2] && alone[0] != 0);
  for (int k = 0; k < 2; ++k)
    assert_memory_equal(&sums[4 * k], alone, sizeof(alone));
}

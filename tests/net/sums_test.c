// SPDX-License-Identifier: Apache-2.0
//
// Sums over the replicas of several ranks, of all types and sizes: the same
// bytes as on one rank, whether every rank adds them up or each adds its part.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/full.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/sanitizer.h"

enum { MOST_RANKS = 5, MOST_BYTES = 32 << 20, STEPS = 2 };

// A job that all ranks do, and the results of each.
typedef struct job {
  ls_callback step;
  int replicas, threads;
  const char *lanes;              // LS_LANES, or NULL: one batch.
  ls_counting_allocator *memory;  // Rank 1's. NULL: the system's, as others'.
  uint64_t nth;                   // Number of its request that fails; 0: none.
  char *results[MOST_RANKS];
  size_t sizes[MOST_RANKS];
  size_t shared[MOST_RANKS];  // Planned memory of each rank.
} job;

// ---- Steps -----------------------------------------------------------------
// Values of a replica: numbers from -100 to 100 that it draws.
static ls_tensor draw_values(ls_dtype dtype, int64_t count) {
  return ls_convert(
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(count), -100, 100, NULL), dtype);
}

static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16,
                                  LS_DTYPE_F64, LS_DTYPE_I32, LS_DTYPE_I64};
enum { NUM_FLOATS = 4 };

// Merges values of all types, of these sizes.
static ls_nest merge_sizes(const int64_t *sizes, size_t count) {
  ls_nest merged[96];
  size_t at = 0;
  for (size_t d = 0; d < LS_COUNT_OF(dtypes); ++d)
    for (size_t i = 0; i < count; ++i) {
      const ls_tensor x = draw_values(dtypes[d], sizes[i]);
      merged[at++] = ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x));
      merged[at++] = ls_leaf(ls_all_reduce(LS_REDUCE_MAX, x));
      if (d < NUM_FLOATS)
        merged[at++] = ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, x));
    }
  return ls_nest_sequence(LS_KIND_TUPLE, merged, at);
}

// On both sides of the size from which ranks add up their parts.
static ls_nest merge_all(ls_nest args, void *user) {
  (void)args, (void)user;
  const int64_t sizes[] = {1, 2048, 2049, 4096, 4097, 9001};
  return merge_sizes(sizes, LS_COUNT_OF(sizes));
}

static ls_nest merge_small(ls_nest args, void *user) {
  (void)args, (void)user;
  const int64_t sizes[] = {0, 1, 63};
  return merge_sizes(sizes, LS_COUNT_OF(sizes));
}

// Merges what was merged before, twice.
static ls_nest merge_again(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x = draw_values(LS_DTYPE_F32, 70000);
  const ls_tensor first = ls_all_reduce(LS_REDUCE_MEAN, x);
  const ls_tensor apart = ls_all_reduce(LS_REDUCE_SUM, ls_square(x));
  const ls_tensor second =
      ls_all_reduce(LS_REDUCE_SUM, ls_mul(x, ls_sub(x, first)));
  const ls_tensor third = ls_all_reduce(LS_REDUCE_MAX, second);
  return LS_TUPLE(ls_leaf(ls_add(third, apart)), ls_leaf(first));
}

// Merges products as gradients of weights are, of some 1.6 MB and less.
static ls_nest merge_products(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(3, 784), -1, 1, NULL);
  const ls_tensor h =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(3, 512), -1, 1, NULL);
  const ls_tensor first =
      ls_all_reduce(LS_REDUCE_MEAN, ls_matmul_transposed(x, true, h, false));
  const ls_tensor second = ls_all_reduce(
      LS_REDUCE_SUM,
      ls_mul_scalar(ls_matmul_transposed(h, true, h, false), 0.25));
  return LS_TUPLE(ls_leaf(ls_reduce_sum(first, LS_AXES(0))),
                  ls_leaf(ls_reduce_sum(ls_square(second), LS_AXES(0))));
}

// ---- In loops and branches -------------------------------------------------
static ls_nest below_two(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 2)));
}

static ls_nest merge_large(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, *(const ls_tensor *)user));
}

static ls_nest merge_nothing(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(*(const ls_tensor *)user);
}

static ls_nest merge_in_branch(ls_nest values, void *user) {
  (void)user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  ls_tensor x =
      ls_add(draw_values(LS_DTYPE_F32, 5000), ls_nest_tensor(values, 1));
  const ls_tensor is_first = ls_less(trip, ls_scalar_i64(LS_DTYPE_I64, 1));
  LS_OWN(ls_nest, merged) = ls_cond(is_first, merge_large, merge_nothing, &x);
  return LS_TUPLE(
      ls_leaf(ls_add_scalar(trip, 1)),
      ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(merged, 0))));
}

static ls_nest merge_in_loop(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_while(below_two, merge_in_branch, NULL,
                  LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                           ls_leaf(ls_broadcast(ls_scalar(LS_DTYPE_F32, 1),
                                                LS_SHAPE(5000)))),
                  0);
}

static ls_nest merge_in_steps(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_step_while(below_two, merge_in_branch, NULL,
                       LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                                ls_leaf(ls_broadcast(ls_scalar(LS_DTYPE_F32, 1),
                                                     LS_SHAPE(5000)))),
                       0);
}

// ---- Ranks -----------------------------------------------------------------
static ls_status keep_array(job *work, int32_t rank, const ls_array *array) {
  const size_t size = ls_array_size(array);
  if (work->sizes[rank] + size > MOST_BYTES)
    return ls_internal("too many results");
  memcpy(work->results[rank] + work->sizes[rank], ls_array_data(array), size);
  work->sizes[rank] += size;
  return ls_ok();
}

static ls_status keep_nest(job *work, int32_t rank, ls_nest nest) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    LS_RETURN_IF_ERROR(keep_nest(work, rank, ls_nest_item(nest, i)));
  for (size_t r = 0; r < ls_distributed_count(nest); ++r)
    LS_RETURN_IF_ERROR(
        keep_nest(work, rank, ls_distributed_component(nest, r)));
  const ls_array *array = ls_nest_as_array(nest);
  return array != NULL ? keep_array(work, rank, array) : ls_ok();
}

static ls_status note_memory(ls_function *function, size_t *out_shared) {
  char *plan = NULL;
  LS_RETURN_IF_ERROR(ls_function_print_plan(function, &plan));
  const char *bytes = strstr(plan, "bytes: shared ");
  if (bytes != NULL) (void)sscanf(bytes, "bytes: shared %zu", out_shared);
  ls_text_release(plan);
  return ls_ok();
}

static ls_status run_steps(job *work, int32_t rank) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(work->replicas)},
      &strategy));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = work->step}, &function));
  for (int i = 0; i < STEPS; ++i) {
    LS_OWN(ls_nest, result) = ls_none();
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &result));
    LS_RETURN_IF_ERROR(keep_nest(work, rank, result));
  }
  return note_memory(function, &work->shared[rank]);
}

static const char *lanes_by(void *user, const char *name) {
  const job *work = user;
  return strcmp(name, "LS_LANES") == 0 ? work->lanes : NULL;
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  const bool counts = work->memory != NULL && communicator->rank == 1;
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .allocator =
          counts ? ls_counting_allocator_allocator(work->memory) : NULL,
      .threads = work->threads,
      .communicator = communicator,
      .environment = lanes_by,
      .environment_user = work});
  if (counts) ls_counting_allocator_fail_at(work->memory, work->nth);
  ls_status status = run_steps(work, communicator->rank);
  if (counts) ls_counting_allocator_fail_at(work->memory, 0);
  return status;
}

static void make_results(job *work, int32_t ranks) {
  for (int32_t k = 0; k < ranks; ++k) {
    work->results[k] = malloc(MOST_BYTES);
    assert_non_null(work->results[k]);
    work->sizes[k] = 0;
  }
}

static void run_on(job *work, int32_t ranks, ls_rank_function function,
                   void *user) {
  make_results(work, ranks);
  expect_ok(ls_standin_run(ranks, function, user));
}

static void job_deinit(job *self) {
  for (int32_t k = 0; k < MOST_RANKS; ++k)
    free(self->results[k]);
}
LS_OWNED_STRUCT(job, job_deinit)

static void expect_same_results(const job *work, int32_t rank,
                                const job *alone) {
  assert_int_equal(work->sizes[rank], alone->sizes[0]);
  if (memcmp(work->results[rank], alone->results[0], alone->sizes[0]) != 0)
    fail_msg("%d replicas: rank %d has other bytes", work->replicas, rank);
}

// Compares ranks, of which some host one replica more than others, with one.
static void expect_same_on_ranks(job how) {
  LS_OWN(job, alone) = how;
  run_on(&alone, 1, run_rank, &alone);
  for (int32_t ranks = 2; ranks <= MOST_RANKS; ++ranks) {
    LS_OWN(job, work) = how;
    work.threads = 1 + (ranks + how.replicas) % 2;
    run_on(&work, ranks, run_rank, &work);
    for (int32_t k = 0; k < ranks; ++k)
      expect_same_results(&work, k, &alone);
  }
}

static void expect_same(ls_callback step, const char *lanes) {
  for (int replicas = 5; replicas <= 8; replicas += LS_SANITIZED ? 3 : 1)
    expect_same_on_ranks((job){
        .step = step, .replicas = replicas, .threads = 1, .lanes = lanes});
}

TEST(batches_add_up_values_of_all_types_and_sizes) {
  expect_same(merge_all, NULL);
  expect_same(merge_small, NULL);
}

TEST(lanes_add_up_values_of_all_types_and_sizes) {
  expect_same(merge_all, "blocks");
  expect_same(merge_small, "threads");
}

TEST(sums_of_sums_come_in_their_order) {
  expect_same(merge_again, NULL);
  expect_same(merge_again, "blocks");
}

TEST(products_are_sent_in_parts_if_a_rank_has_several_subtrees) {
  expect_same(merge_products, NULL);
}

// Compares the memory of ranks with that of one and some exchanges, but for the
// rounding of sizes.
static void expect_little_memory(const char *lanes, size_t exchanges) {
  const size_t largest = 784 * 512 * sizeof(float), rounding = 8192;
  const job how = {
      .step = merge_products, .replicas = 64, .threads = 1, .lanes = lanes};
  LS_OWN(job, alone) = how;
  run_on(&alone, 1, run_rank, &alone);
  for (int32_t ranks = 3; ranks <= MOST_RANKS; ranks += 2) {
    LS_OWN(job, work) = how;
    run_on(&work, ranks, run_rank, &work);
    for (int32_t k = 0; k < ranks; ++k) {
      expect_same_results(&work, k, &alone);
      assert_in_range(work.shared[k], 1,
                      alone.shared[0] + exchanges * largest + rounding);
    }
  }
}

TEST(ranks_need_little_more_memory_than_one) {
  expect_little_memory(NULL, 2);
  expect_little_memory("blocks", 3);
}

TEST(large_sums_in_loops_and_branches_are_those_of_one_rank) {
  expect_same(merge_in_loop, NULL);
  expect_same(merge_in_steps, NULL);
  expect_same(merge_in_loop, "blocks");
  expect_same(merge_in_steps, "threads");
}

// ---- Failures --------------------------------------------------------------
// Runs with that request of rank 1 failing. Returns the number of its requests.
static uint64_t merge_short_of_memory(uint64_t nth, const char *lanes) {
  LS_OWN(job, work) = {.step = merge_again,
                       .replicas = 5,
                       .threads = 1,
                       .lanes = lanes,
                       .nth = nth};
  expect_ok(ls_counting_allocator_create(NULL, &work.memory));
  make_results(&work, 2);
  LS_OWN(ls_status, status) = ls_standin_run(2, run_rank, &work);
  const uint64_t requests =
      ls_counting_allocator_counts(work.memory).allocations;
  ls_counting_allocator_destroy(work.memory);
  // Without memory for a cache a run goes on.
  if (!ls_status_is_ok(status))
    assert_int_equal(ls_status_code(status), LS_RESOURCE_EXHAUSTED);
  return requests;
}

TEST(ranks_without_memory_for_sums_fail_and_end) {
  const char *const lanes[] = {NULL, "blocks"};
  for (size_t i = 0; i < LS_COUNT_OF(lanes); ++i) {
    const uint64_t requests = merge_short_of_memory(0, lanes[i]);
    for (uint64_t nth = 1; nth <= requests; nth += LS_SANITIZED ? 37 : 5)
      (void)merge_short_of_memory(nth, lanes[i]);
  }
}

// ---- Overlap ---------------------------------------------------------------
// A net of three layers, whose gradients do not travel together.
enum { WIDTH = 320, LAYERS = 3 };

typedef struct net {
  ls_variable *weights[LAYERS];
  ls_optimizer *optimizer;
} net;

static void net_deinit(net *self) {
  for (int i = 0; i < LAYERS; ++i)
    ls_variable_release(self->weights[i]);
  ls_optimizer_release(self->optimizer);
}
LS_OWNED_STRUCT(net, net_deinit)

static ls_status net_init(net *self) {
  for (int i = 0; i < LAYERS; ++i)
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32,
                               .shape = LS_SHAPE(WIDTH, WIDTH)},
        &self->weights[i]));
  return ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5},
                       &self->optimizer);
}

static ls_nest descend(ls_nest args, void *user) {
  (void)args;
  const net *self = user;
  ls_tensor x =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(4, WIDTH), -1, 1, NULL);
  for (int i = 0; i < LAYERS; ++i)
    x = ls_add_scalar(ls_matmul(x, ls_variable_read(self->weights[i])), 1);
  const ls_tensor loss = ls_reduce_mean(ls_square(x), LS_ALL_AXES);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss));
}

// Writes a letter for each instruction of interest: S and F for starts and ends
// of exchanges, P for products of subtrees, U for updates of variables; the
// same one once.
static void print_order(const char *plan, char *out, size_t size) {
  size_t count = 0;
  for (const char *line = plan; *line != '\0' && count + 1 < size;) {
    const size_t length = strcspn(line, "\n");
    const char *found[] = {
        strstr(line, "sums_start"), strstr(line, "sums_finish"),
        strstr(line, "sum of products"), strstr(line, "-> variable")};
    for (size_t i = 0; i < LS_COUNT_OF(found); ++i)
      if (found[i] != NULL && found[i] < line + length &&
          (count == 0 || out[count - 1] != "SFPU"[i]))
        out[count++] = "SFPU"[i];
    line += length + (line[length] == '\n');
  }
  out[count] = '\0';
}

typedef struct descent {
  job work;
  int32_t failing;  // The rank that fails before its second step; 0: none.
  ls_code seen[MOST_RANKS];
  char orders[MOST_RANKS][64];
} descent;

static ls_status descend_on(ls_communicator *communicator, void *user) {
  descent *self = user;
  const int32_t rank = communicator->rank;
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .threads = self->work.threads, .communicator = communicator});
  LS_OWN(net, trained) = {0};
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_RETURN_IF_ERROR(net_init(&trained));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(self->work.replicas)},
      &strategy));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = descend, .user = &trained}, &function));
  for (int i = 0; i < STEPS; ++i) {
    LS_OWN(ls_nest, result) = ls_none();
    if (i > 0 && self->failing > 0 && rank == self->failing)
      return LS_STATUS(LS_DATA_LOSS, "the file is torn");
    const ls_status status =
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &result);
    self->seen[rank] = ls_status_code(status);
    LS_RETURN_IF_ERROR(status);
    LS_RETURN_IF_ERROR(keep_nest(&self->work, rank, result));
  }
  char *plan = NULL;
  LS_RETURN_IF_ERROR(ls_function_print_plan(function, &plan));
  print_order(plan, self->orders[rank], sizeof(self->orders[rank]));
  ls_text_release(plan);
  for (int i = 0; i < LAYERS; ++i) {
    LS_OWN(ls_array, value) = NULL;
    LS_RETURN_IF_ERROR(ls_variable_value(trained.weights[i], &value));
    LS_RETURN_IF_ERROR(keep_array(&self->work, rank, value));
  }
  return ls_ok();
}

TEST(gradients_travel_while_others_are_computed_and_variables_updated) {
  static descent alone, all;
  alone.work = all.work = (job){.replicas = 8, .threads = 1};
  run_on(&alone.work, 1, descend_on, &alone);
  for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
    run_on(&all.work, ranks, descend_on, &all);
    for (int32_t k = 0; k < ranks; ++k) {
      expect_same_results(&all.work, k, &alone.work);
      // The third start waits for the first end: no more than twice the
      // largest exchange is under way.
      assert_string_equal(all.orders[k], "PSPSPFUSFUFU");
    }
    job_deinit(&all.work);
  }
  job_deinit(&alone.work);
}

TEST(a_rank_that_fails_ends_sums_under_way_on_all) {
  static descent all;
  all = (descent){.work = {.replicas = 6, .threads = 1}, .failing = 1};
  make_results(&all.work, 3);
  const ls_status status = ls_standin_run(3, descend_on, &all);
  expect_contains(ls_status_message(status), "on rank 1 of 3");
  expect_status(status, LS_DATA_LOSS, "the file is torn");
  assert_int_equal(all.seen[0], LS_DATA_LOSS);
  assert_int_equal(all.seen[2], LS_DATA_LOSS);
  job_deinit(&all.work);
}

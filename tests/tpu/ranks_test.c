// SPDX-License-Identifier: Apache-2.0
//
// TPU strategies on ranks: a host whose replicas are all on one rank has one
// input pipeline there, as in one process.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"
#include "lockstep/tpu_strategy.h"
#include "support/expect.h"
#include "support/place.h"
#include "tpu/own.h"

enum { RANKS = 4, STEPS = 3, PIPELINES = 8 };

typedef struct job {
  int hosts, cores;             // Cores of each host.
  int calls[RANKS][PIPELINES];  // Calls of the input function, by rank.
  int drawn[RANKS][PIPELINES];
  int pipelines;  // As the function is told.
  double sums[RANKS][STEPS];
} job;

typedef struct source {
  job *j;
  int rank, pipeline;
} source;
static source sources[RANKS][PIPELINES];

static ls_status make_number(void *user, int64_t index, ls_nest out) {
  const source *from = user;
  __atomic_add_fetch(&from->j->drawn[from->rank][from->pipeline], 1,
                     __ATOMIC_RELAXED);
  *(float *)ls_nest_data(out, 0) = (float)(100 * from->pipeline + index) + 0.1f;
  return ls_ok();
}

static ls_nest input(ls_input_context context, void *user) {
  job *j = user;
  const ls_communicator *ranks = ls_runtime_communicator(ls_runtime_current());
  const int rank = ranks != NULL ? ranks->rank : 0;
  source *from = &sources[rank][context.pipeline];
  *from = (source){j, rank, context.pipeline};
  ++j->calls[rank][context.pipeline];
  if (rank == 0) j->pipelines = context.num_pipelines;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = 1000,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SCALAR)),
      .get = make_number,
      .user = from});
  return ls_nest_dataset(
      ls_dataset_batch(data, &(ls_batch_options){.size = 2}));
}

static ls_nest step(ls_nest args, void *user) {
  (void)user;
  const ls_nest x = ls_nest_is_node(args) ? ls_nest_item(args, 0) : args;
  const ls_tensor t = ls_nest_is_node(x) ? ls_nest_tensor(x, 0) : x.as.tensor;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(t, LS_ALL_AXES)));
}

static ls_status run(job *j, int rank) {
  char name[60];
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, data) = ls_none();
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1,hosts=%d",
           j->hosts * j->cores, j->hosts);
  LS_RETURN_IF_ERROR(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = name}, &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = resolver}, &strategy));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = step}, &function));
  LS_RETURN_IF_ERROR(
      ls_strategy_distribute_datasets_from_function(strategy, input, j, &data));
  LS_RETURN_IF_ERROR(ls_distributed_iterator_create(data, NULL, &iterator));
  for (int i = 0; i < STEPS; ++i) {
    LS_OWN(ls_nest, element) = ls_none();
    LS_OWN(ls_nest, result) = ls_none();
    LS_RETURN_IF_ERROR(ls_distributed_iterator_next(iterator, &element));
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(element));
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(function), args, &result));
    j->sums[rank][i] = ls_nest_number(ls_distributed_count(result) > 0
                                          ? ls_distributed_component(result, 0)
                                          : result);
  }
  return ls_ok();
}

static ls_status work(ls_communicator *communicator, void *user) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return run(user, communicator->rank);
}

static void expect_as_alone(int hosts, int cores, int ranks) {
  job alone = {.hosts = hosts, .cores = cores}, j = alone;
  expect_ok(ls_standin_run(1, work, &alone));
  expect_ok(ls_standin_run(ranks, work, &j));
  assert_int_equal(alone.pipelines, hosts);
  assert_int_equal(j.pipelines, hosts);
  for (int k = 0; k < ranks; ++k) {
    assert_memory_equal(j.sums[k], alone.sums[0], sizeof(j.sums[k]));
    for (int h = 0; h < hosts; ++h) {
      const bool is_here = h * ranks / hosts == k;
      assert_int_equal(j.calls[k][h], is_here);
      assert_int_equal(j.drawn[k][h] > 0, is_here);
    }
  }
}

TEST(a_host_has_its_pipeline_on_one_rank) {
  expect_as_alone(2, 2, 2);
  expect_as_alone(4, 1, 2);
  expect_as_alone(4, 2, 2);
  expect_as_alone(4, 2, 4);
  expect_as_alone(3, 2, 3);
}

TEST(a_host_on_several_ranks_has_one_on_each) {
  job j = {.hosts = 1, .cores = 4};
  expect_ok(ls_standin_run(3, work, &j));
  assert_int_equal(j.pipelines, 3);
  for (int k = 0; k < 3; ++k)
    for (int p = 0; p < 3; ++p)
      assert_int_equal(j.calls[k][p], p == k);
}

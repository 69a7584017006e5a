// SPDX-License-Identifier: Apache-2.0
// Batches that fail: the step that reads one fails, and the next step has the
// next batch, each replica its own piece.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/streams.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"

enum { TEXT = 200 };

// Refuses the batch whose first number `user` points to.
static ls_nest refuse_batch(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)call;
  if (ls_array_i64(ls_nest_as_array(element), 0) == *(const int64_t *)user)
    return ls_fail(ls_invalid_argument("refused"));
  return ls_nest_retain(element);
}

static ls_dataset *refusing(ls_dataset *batches, int64_t size,
                            const int64_t *refused) {
  return ls_dataset_map(
      batches,
      &(ls_map_options){.call = refuse_batch,
                        .user = (void *)(uintptr_t)refused,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(size))});
}

static int64_t length_of(ls_nest element, void *user) {
  (void)element, (void)user;
  return 0;
}

// Batches whose sizes are not known before they are read.
static ls_dataset *buckets(int64_t count, int64_t size) {
  static const int64_t bound = 1;
  return ls_dataset_bucket(ls_dataset_range(0, count, 1),
                           &(ls_bucket_options){.length = length_of,
                                                .boundaries = &bound,
                                                .num_boundaries = 1,
                                                .sizes = (int64_t[]){size, 1}});
}

// Expects these steps, of which "refused" fails, and then the end.
static void expect_steps(ls_strategy *strategy, ls_dataset *dataset,
                         const char *const *steps, size_t count) {
  char text[TEXT];
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(strategy, dataset,
                              &(ls_input_options){.sharding = LS_SHARD_OFF}));
  for (size_t i = 0; i < count; ++i) {
    const ls_status status = ls_distributed_iterator_next(iterator, &element);
    if (strcmp(steps[i], "refused") == 0) {
      expect_status(status, LS_INVALID_ARGUMENT, "refused");
      continue;
    }
    expect_ok(status);
    assert_string_equal(print_dealt(element, text, TEXT), steps[i]);
  }
  expect_status(ls_distributed_iterator_next(iterator, &element),
                LS_OUT_OF_RANGE, "at the end");
}
#define EXPECT_STEPS(strategy, dataset, ...)                                   \
  expect_steps((strategy), (dataset), (const char *const[]){__VA_ARGS__},      \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

TEST(the_step_after_a_failed_bucket_has_the_next_one) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  int64_t refused = 4;
  EXPECT_STEPS(two, refusing(buckets(12, 4), -1, &refused), "[0 1] [2 3]",
               "refused", "[8 9] [10 11]");
  // The first batch, whose pieces would be two steps.
  refused = 0;
  EXPECT_STEPS(two, refusing(buckets(8, 4), -1, &refused), "refused",
               "[4 5] [6 7]");
  EXPECT_STEPS(pod, refusing(buckets(12, 4), -1, &refused), "refused",
               "[4] [5] [4] [5]", "[6] [7] [6] [7]", "[8] [9] [8] [9]",
               "[10] [11] [10] [11]");
}

TEST(the_step_after_a_failed_batch_has_the_next_one) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  int64_t refused = 4;
  EXPECT_STEPS(two, refusing(whole_batches(12, 4), 4, &refused), "[0 1] [2 3]",
               "refused", "[8 9] [10 11]");
  EXPECT_STEPS(pod, refusing(whole_batches(12, 4), 4, &refused),
               "[0] [1] [0] [1]", "[2] [3] [2] [3]", "refused",
               "[8] [9] [8] [9]", "[10] [11] [10] [11]");
  // All 7 rows of a step are shared as in any other step.
  refused = 7;
  EXPECT_STEPS(pod, refusing(whole_batches(21, 7), 7, &refused),
               "[0 1] [2 3] [0 1] [2]", "[4 5] [6] [3 4] [5 6]", "refused",
               "[14 15] [16] [14 15] [16 17]",
               "[17 18] [19 20] [18 19] [20]");
}

// ---- In sessions ------------------------------------------------------------
TEST(a_session_goes_on_after_a_failed_batch) {
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  const int64_t refused = 4;
  const int64_t wanted[][4] = {{0, 1, 0, 1}, {2, 3, 2, 3},     {-1},
                               {8, 9, 8, 9}, {10, 11, 10, 11}, {-1}};
  LS_OWN(ls_graph, graph) = graph_named("input");
  LS_OWN(ls_nest, fetches) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_distributed_iterator, iterator) = NULL;
    LS_OWN(ls_nest, data) =
        distributed(pod, refusing(whole_batches(12, 4), 4, &refused),
                    &(ls_input_options){.sharding = LS_SHARD_OFF});
    expect_ok(ls_distributed_iterator_create(
        data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
        &iterator));
    LS_OWN(ls_nest, element) = ls_distributed_iterator_get_next(iterator);
    expect_ok(ls_nest_status(element));
    ls_nest parts[4];
    for (size_t r = 0; r < 4; ++r)
      parts[r] = ls_nest_retain(ls_distributed_component(element, r));
    fetches = ls_nest_sequence(LS_KIND_LIST, parts, 4);
  }
  LS_OWN(ls_session, session) = NULL;
  expect_ok(ls_session_create(graph, &session));
  for (size_t i = 0; i < LS_COUNT_OF(wanted); ++i) {
    LS_OWN(ls_nest, parts) = ls_none();
    const ls_status status = ls_session_run(session, fetches, NULL, 0, &parts);
    if (wanted[i][0] < 0) {
      expect_status(status, i == 2 ? LS_INVALID_ARGUMENT : LS_OUT_OF_RANGE,
                    i == 2 ? "refused" : "at the end");
      continue;
    }
    expect_ok(status);
    for (size_t r = 0; r < 4; ++r)
      assert_int_equal(
          ls_array_i64(ls_nest_as_array(ls_nest_item(parts, r)), 0),
          wanted[i][r]);
  }
}

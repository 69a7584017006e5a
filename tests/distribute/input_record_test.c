// SPDX-License-Identifier: Apache-2.0
// Where a distributed iterator is, and going on from there.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/streams.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"

enum { MOST = 64, TEXT = 200 };

typedef struct step_list {
  char texts[MOST][TEXT];
  size_t count;
} step_list;

// What is left; "refused" where a step fails so.
static void read_rest(ls_distributed_iterator *iterator, step_list *out) {
  LS_OWN(ls_nest, element) = ls_none();
  out->count = 0;
  bool has = true;
  while (has) {
    const ls_status status =
        ls_distributed_iterator_next_as_optional(iterator, &has, &element);
    if (ls_status_code(status) == LS_INVALID_ARGUMENT) {
      expect_status(status, LS_INVALID_ARGUMENT, "refused");
      strcpy(out->texts[out->count++], "refused");
      has = true;
      continue;
    }
    expect_ok(status);
    if (has) print_dealt(element, out->texts[out->count++], TEXT);
  }
}

static void go_on_by(ls_distributed_iterator *iterator, size_t count) {
  LS_OWN(ls_nest, element) = ls_none();
  for (size_t i = 0; i < count; ++i) {
    const ls_status status = ls_distributed_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_INVALID_ARGUMENT)
      ls_status_free(status);
    else
      expect_ok(status);
  }
}

static ls_record *place_of(ls_distributed_iterator *iterator) {
  ls_record *record = NULL;
  expect_ok(ls_record_create(&record));
  expect_ok(ls_distributed_iterator_save(iterator, record));
  return record;
}

// From wherever it is saved, it goes on as it would have.
static void expect_goes_on(ls_nest data) {
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(ls_nest_retain(data));
  LS_OWN(ls_distributed_iterator, other) = iterator_on(ls_nest_retain(data));
  static step_list all, rest;
  expect_ok(ls_distributed_iterator_restart(iterator));
  read_rest(iterator, &all);
  assert_true(all.count > 1);
  for (size_t at = 0; at <= all.count; ++at) {
    expect_ok(ls_distributed_iterator_seek_epoch(iterator, 1));
    go_on_by(iterator, at);
    ls_record *record = place_of(iterator);
    expect_ok(ls_distributed_iterator_restore(other, record));
    ls_record_destroy(record);
    assert_int_equal(ls_distributed_iterator_epoch(other), 1);
    assert_int_equal(ls_distributed_iterator_position(other), at);
    read_rest(other, &rest);
    if (rest.count != all.count - at)
      fail_msg("from %zu on %zu steps of %zu are left: %s", at, rest.count,
               all.count, rest.texts[rest.count == 0 ? 0 : rest.count - 1]);
    for (size_t i = 0; i < rest.count; ++i)
      assert_string_equal(rest.texts[i], all.texts[at + i]);
  }
  ls_nest_release(data);
}

static ls_dataset *shuffled(int64_t count, int64_t size) {
  return ls_dataset_batch(ls_dataset_shuffle(ls_dataset_range(0, count, 1),
                                             &(ls_shuffle_options){.seed = 4}),
                          &(ls_batch_options){.size = size});
}

static ls_status keep_most(ls_nest element, const ls_map_call *call, void *user,
                           bool *out_keep) {
  (void)call;
  (void)user;
  *out_keep = ls_array_i64(ls_nest_as_array(element), 0) % 5 != 2;
  return ls_ok();
}

// Batches of a stream.
static ls_dataset *streamed(int64_t count, int64_t size) {
  return ls_dataset_batch(
      ls_dataset_filter(ls_dataset_shuffle(ls_dataset_range(0, count, 1),
                                           &(ls_shuffle_options){.seed = 4}),
                        &(ls_filter_options){.call = keep_most}),
      &(ls_batch_options){.size = size});
}

static ls_nest make_shuffled(ls_input_context context, void *user) {
  (void)user;
  return ls_nest_dataset(shuffled(20 + 3 * context.pipeline, 3));
}

// 7 batches of a function, on one host.
static ls_nest odd_batches(ls_strategy *strategy) {
  ls_nest data = ls_none();
  expect_ok(ls_strategy_distribute_datasets_from_function(
      strategy, make_shuffled, NULL, &data));
  return data;
}

TEST(a_restored_iterator_goes_on) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  expect_goes_on(distributed(two, shuffled(43, 4), NULL));
  expect_goes_on(distributed(two, shuffled(43, 4),
                             &(ls_input_options){.whole_elements = true}));
  expect_goes_on(distributed(pod, shuffled(43, 4), NULL));
  expect_goes_on(distributed(pod, shuffled(43, 4),
                             &(ls_input_options){.whole_elements = true}));
  expect_goes_on(distributed(pod, shuffled(23, 7),
                             &(ls_input_options){.sharding = LS_SHARD_OFF}));
  ls_nest data = ls_none();
  expect_ok(ls_strategy_distribute_datasets_from_function(pod, make_shuffled,
                                                          NULL, &data));
  expect_goes_on(data);
  // The last step lacks an element.
  expect_goes_on(odd_batches(two));
  // A data set alone.
  expect_goes_on(ls_nest_dataset(shuffled(43, 4)));
}

TEST(so_does_one_of_streams) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  expect_goes_on(distributed(two, streamed(53, 4), NULL));
  expect_goes_on(distributed(two, streamed(53, 4),
                             &(ls_input_options){.whole_elements = true}));
  expect_goes_on(distributed(pod, streamed(53, 4),
                             &(ls_input_options){.whole_elements = true}));
  expect_goes_on(distributed(pod, streamed(53, 7),
                             &(ls_input_options){.sharding = LS_SHARD_OFF}));
}

// Number 13 and number 31 fail.
static ls_nest refuse_some(ls_nest element, const ls_map_call *call,
                           void *user) {
  (void)call;
  (void)user;
  const int64_t number = ls_array_i64(ls_nest_as_array(element), 0);
  if (number % 18 == 13) return ls_fail(ls_invalid_argument("refused"));
  ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  ls_array_set_i64(ls_nest_as_array(made), 0, number);
  return made;
}

static ls_dataset *refusing(int64_t count, int64_t size, bool stream) {
  ls_dataset *d = ls_dataset_range(0, count, 1);
  if (stream) d = ls_dataset_filter(d, &(ls_filter_options){.call = keep_most});
  d = ls_dataset_map(
      d, &(ls_map_options){.call = refuse_some,
                           .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
  return ls_dataset_batch(d, &(ls_batch_options){.size = size});
}

TEST(so_does_one_of_which_steps_fail) {
  const ls_input_options whole = {.whole_elements = true};
  const ls_input_options off = {.sharding = LS_SHARD_OFF};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  for (int stream = 0; stream < 2; ++stream) {
    expect_goes_on(distributed(two, refusing(43, 4, stream == 1), NULL));
    expect_goes_on(distributed(two, refusing(43, 2, stream == 1), &whole));
    expect_goes_on(distributed(pod, refusing(43, 4, stream == 1), NULL));
    expect_goes_on(distributed(pod, refusing(43, 2, stream == 1), &whole));
    expect_goes_on(distributed(pod, refusing(43, 7, stream == 1), &off));
    expect_goes_on(ls_nest_dataset(refusing(43, 4, stream == 1)));
  }
  // The last step lacks elements, and fails.
  LS_OWN(ls_strategy, five) = mirrored_of(5);
  expect_goes_on(distributed(five, refusing(14, 2, false), &whole));
  // A step that fails is all of its step.
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, refusing(24, 2, false), &whole));
  step_list all;
  read_rest(iterator, &all);
  const char *const wanted[] = {"[0 1] [2 3]",     "[4 5] [6 7]",
                                "[8 9] [10 11]",   "refused",
                                "[16 17] [18 19]", "[20 21] [22 23]"};
  assert_int_equal(all.count, 6);
  for (size_t i = 0; i < 6; ++i)
    assert_string_equal(all.texts[i], wanted[i]);
}

// ---- Damaged records --------------------------------------------------------
// From each of them it is at the start of the epoch that it was in.
TEST(places_that_there_are_not_leave_the_start) {
  static const char head[] =
      "{\"data\":\"range(0, 24, 1).batch(4)\",\"seed\":0";
  const struct {
    const char *rest;
    ls_code code;
    const char *says;
  } cases[] = {
      {",\"epoch\":-1,\"given\":0}", LS_INVALID_ARGUMENT, "no epoch -1"},
      {",\"epoch\":3,\"given\":-1}", LS_INVALID_ARGUMENT, "after -1 elements"},
      {",\"epoch\":3,\"given\":1}", LS_NOT_FOUND, "pipeline0"},
      {",\"epoch\":3,\"given\":1,\"pipeline0\":{\"batches\":1,\"row\":5,"
       "\"pieces\":1}}",
       LS_INVALID_ARGUMENT, "row 5 of a batch of 4"},
      {",\"epoch\":3,\"given\":1,\"pipeline0\":{\"batches\":99,\"row\":1,"
       "\"pieces\":1}}",
       LS_INVALID_ARGUMENT, "no position 98"},
      {",\"epoch\":3,\"given\":1,\"pipeline0\":{\"batches\":1,\"row\":1,"
       "\"pieces\":9223372036854775807}}",
       LS_INVALID_ARGUMENT, "piece 9223372036854775807"},
  };
  const ls_input_options off = {.sharding = LS_SHARD_OFF};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, number_batches(24, 4), &off));
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    char text[300];
    LS_OWN(ls_record, record) = NULL;
    snprintf(text, sizeof(text), "%s%s", head, cases[i].rest);
    expect_ok(ls_distributed_iterator_seek_epoch(iterator, 7));
    go_on_by(iterator, 2);
    expect_ok(ls_record_from_text("damaged", text, strlen(text), &record));
    expect_status(ls_distributed_iterator_restore(iterator, record),
                  cases[i].code, cases[i].says);
    assert_int_equal(ls_distributed_iterator_epoch(iterator), 7);
    assert_int_equal(ls_distributed_iterator_position(iterator), 0);
    EXPECT_DEALT(iterator, "[0 1] [2 3]", "[4 5] [6 7]", "[8 9] [10 11]",
                 "[12 13] [14 15]", "[16 17] [18 19]", "[20 21] [22 23]");
  }
}

TEST(it_goes_on_with_others_replicas) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  LS_OWN(ls_distributed_iterator, from) =
      iterator_on(distributed(two, number_batches(16, 4), NULL));
  LS_OWN(ls_distributed_iterator, to) =
      iterator_on(distributed(pod, number_batches(16, 4), NULL));
  go_on_by(from, 2);
  LS_OWN(ls_record, record) = place_of(from);
  expect_ok(ls_distributed_iterator_restore(to, record));
  EXPECT_DEALT(to, "[8] [9] [10] [11]", "[12] [13] [14] [15]");
  ls_record_destroy(record);
  ls_distributed_iterator_release(from);
  ls_distributed_iterator_release(to);
  // Whole elements, where a step begins there.
  const ls_input_options whole = {.whole_elements = true,
                                  .sharding = LS_SHARD_DATA};
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  from = iterator_on(distributed(two, ls_dataset_range(0, 12, 1), &whole));
  to = iterator_on(distributed(four, ls_dataset_range(0, 12, 1), &whole));
  go_on_by(from, 3);
  record = place_of(from);
  expect_status(ls_distributed_iterator_restore(to, record),
                LS_INVALID_ARGUMENT, "element 6, which is not where a step");
  ls_record_destroy(record);
  go_on_by(from, 1);
  record = place_of(from);
  expect_ok(ls_distributed_iterator_restore(to, record));
  EXPECT_DEALT(to, "8 9 10 11");
}

// Replaces the position in a record, as an older checkpoint has it.
static ls_record *with_position(ls_record *record, const char *position) {
  LS_OWN(printed, text) = NULL;
  char head[300], changed[400];
  size_t size = 0;
  expect_ok(ls_record_to_text(record, &text, &size));
  ls_record_destroy(record);
  snprintf(head, sizeof(head), "%s", text);
  char *at = strstr(head, "\"position\":");
  assert_non_null(at);
  const char *rest = text + (at - head) + strlen("\"position\":");
  *at = '\0';
  snprintf(changed, sizeof(changed), "%s\"position\":%s%s", head, position,
           rest + strspn(rest, "0123456789"));
  expect_ok(ls_record_from_text("older", changed, strlen(changed), &record));
  return record;
}

TEST(a_position_after_a_partial_step_is_the_end) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_distributed_iterator, from) = iterator_on(odd_batches(two));
  LS_OWN(ls_distributed_iterator, to) = iterator_on(odd_batches(three));
  LS_OWN(ls_nest, element) = ls_none();
  go_on_by(from, 4);
  // With others' replicas, too.
  LS_OWN(ls_record, record) = place_of(from);
  expect_ok(ls_distributed_iterator_restore(to, record));
  assert_int_equal(ls_distributed_iterator_position(to), 3);
  expect_status(ls_distributed_iterator_next(to, &element), LS_OUT_OF_RANGE,
                "at the end");
  // Older checkpoints count the element that the step lacked.
  record = with_position(record, "8");
  expect_ok(ls_distributed_iterator_restore(from, record));
  assert_int_equal(ls_distributed_iterator_position(from), 4);
  expect_status(ls_distributed_iterator_next(from, &element), LS_OUT_OF_RANGE,
                "at the end");
  record = with_position(record, "10");
  expect_status(ls_distributed_iterator_restore(from, record),
                LS_INVALID_ARGUMENT, "no position 10");
  record = with_position(record, "5");
  expect_status(ls_distributed_iterator_restore(from, record),
                LS_INVALID_ARGUMENT, "is not where a step");
}

TEST(others_places_are_refused) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  const ls_input_options off = {.sharding = LS_SHARD_OFF};
  LS_OWN(ls_distributed_iterator, from) =
      iterator_on(distributed(two, number_batches(16, 4), NULL));
  LS_OWN(ls_record, record) = place_of(from);
  ls_distributed_iterator *others[] = {
      iterator_on(distributed(two, number_batches(16, 2), NULL)),
      iterator_on(distributed(pod, number_batches(16, 4), &off)), NULL};
  const ls_nest data = distributed(two, number_batches(16, 4), NULL);
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.seed = 3}, &others[2]));
  ls_nest_release(data);
  const char *const says[] = {"range(0, 16, 1).batch(2)",
                              "of 2 pipelines is restored from a place in 1",
                              "seed 3 is restored from a place with seed 0"};
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i) {
    expect_status(ls_distributed_iterator_restore(others[i], record),
                  LS_INVALID_ARGUMENT, says[i]);
    ls_distributed_iterator_release(others[i]);
  }
}

// ---- On ranks ---------------------------------------------------------------
typedef struct job {
  char text[1000];  // The record, of rank 0.
  size_t steps;
  bool whole;
  step_list seen[4];
} job;

static ls_status run_to(ls_communicator *communicator, job *self,
                        bool goes_on) {
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(
      self->whole ? distributed(four, ls_dataset_range(0, 34, 1),
                                &(ls_input_options){.whole_elements = true})
                  : distributed(four, shuffled(30, 4), NULL));
  if (goes_on) {
    ls_record *record = NULL;
    expect_ok(
        ls_record_from_text("place", self->text, strlen(self->text), &record));
    expect_ok(ls_distributed_iterator_restore(iterator, record));
    ls_record_destroy(record);
    read_rest(iterator, &self->seen[communicator->rank]);
  } else {
    go_on_by(iterator, self->steps);
    LS_OWN(ls_record, record) = place_of(iterator);
    LS_OWN(printed, text) = NULL;
    size_t size = 0;
    expect_ok(ls_record_to_text(record, &text, &size));
    assert_true(size < sizeof(self->text));
    if (communicator->rank == 0) memcpy(self->text, text, size + 1);
  }
  return ls_ok();
}

static ls_status on_rank(ls_communicator *communicator, job *self,
                         bool goes_on) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return run_to(communicator, self, goes_on);
}

static ls_status save_on(ls_communicator *communicator, void *user) {
  return on_rank(communicator, user, false);
}

static ls_status go_on_on(ls_communicator *communicator, void *user) {
  return on_rank(communicator, user, true);
}

TEST(other_ranks_go_on_at_the_same_place) {
  static job self, alone;
  for (int i = 0; i < 8; ++i) {
    const int ranks = 1 + i / 2;
    self = (job){.steps = 3, .whole = i % 2 == 1};
    expect_ok(ls_standin_run(ranks, save_on, &self));
    alone = (job){.steps = 3, .whole = self.whole};
    memcpy(alone.text, self.text, sizeof(self.text));
    expect_ok(ls_standin_run(1, go_on_on, &alone));
    assert_int_equal(alone.seen[0].count, 5);
    expect_ok(ls_standin_run(5 - ranks, go_on_on, &self));
    for (int k = 0; k < 5 - ranks; ++k)
      assert_int_equal(self.seen[k].count, 5);
    // Rank 0's own values are the first ones.
    if (ranks == 4)
      for (size_t k = 0; k < 5; ++k)
        assert_string_equal(self.seen[0].texts[k], alone.seen[0].texts[k]);
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// What a run goes on from: on any number of threads, from any place in its
// input, and never as another run without a word.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "support/expect.h"
#include "support/resumable.h"
#include "support/spec.h"

static const char model[] = "model.safetensors";

static void run_whole(resumable r, const char *folder, const char *log) {
  ls_train_result result;
  remove_folder(folder);
  r.folder = folder;
  r.log = log;
  expect_ok(resumable_run(&r, &result));
  assert_int_equal(result.steps, RESUMABLE_STEPS);
  if (log != NULL) expect_each_example_once(log, RESUMABLE_STEPS);
}

// Stopped at a step as `first`, and gone on with as `then`.
static void run_in_two(resumable first, resumable then, int64_t stop_at) {
  ls_train_result result;
  remove_folder("two");
  first.folder = then.folder = "two";
  first.log = then.log = "two.log";
  first.stop_at = stop_at;
  then.resume = true;
  expect_ok(resumable_run(&first, &result));
  assert_int_equal(result.steps, stop_at);
  assert_true(result.stopped);
  expect_ok(resumable_run(&then, &result));
  assert_int_equal(result.steps, RESUMABLE_STEPS);
  expect_each_example_once("two.log", RESUMABLE_STEPS);
}

// ---- Anywhere --------------------------------------------------------------
TEST(a_run_goes_on_with_any_number_of_threads) {
  static const int threads[] = {1, 2, 8};
  for (int64_t replicas = 1; replicas <= 4; replicas *= 4) {
    resumable r = {.replicas = replicas};
    run_whole(r, "whole", "whole.log");
    for (size_t i = 0; i < 9; ++i) {
      resumable first = r, then = r;
      first.threads = threads[i / 3];
      then.threads = threads[i % 3];
      run_in_two(first, then, 5 + 3 * (int64_t)i);
      expect_same_file("whole", "two", model);
    }
  }
}

TEST(a_run_goes_on_on_any_number_of_ranks) {
  static const int32_t ranks[] = {1, 2, 4};
  const resumable r = {.replicas = 4, .threads = 1};
  run_whole(r, "whole", "whole.log");
  for (size_t i = 0; i < 9; ++i) {
    resumable first = r, then = r;
    first.ranks = ranks[i / 3];
    then.ranks = ranks[i % 3];
    // Whoever it is that is asked to stop.
    first.stops_on_rank = (int)i % (int)first.ranks;
    run_in_two(first, then, 5 + 3 * (int64_t)i);
    expect_same_file("whole", "two", model);
    expect_same_file("whole", "two", "model.ckpt-33.safetensors");
  }
}

// Rank 0 says why, the others that it has.
TEST(ranks_are_refused_together) {
  ls_train_result result;
  remove_folder("refused");
  resumable r = {.folder = "refused", .replicas = 4, .ranks = 2, .stop_at = 3};
  expect_ok(resumable_run(&r, &result));
  r.resume = true;
  r.seed = 7;
  expect_status(resumable_run(&r, &result), LS_INVALID_ARGUMENT,
                "its seed is 0, here it is 7");
  r.folder = "nowhere";
  expect_status(resumable_run(&r, &result), LS_NOT_FOUND, "'nowhere'");
}

TEST(a_stream_goes_on_where_it_was) {
  resumable r = {.stream = true};
  run_whole(r, "whole", "whole.log");
  for (int64_t stop = 1; stop < RESUMABLE_STEPS; stop += 5) {
    run_in_two(r, r, stop);
    expect_same_file("whole", "two", model);
  }
}

// Components that differ are restored each, not as what they make together.
TEST(components_that_differ_go_on_each) {
  LS_SPEC("V212");
  resumable r = {.replicas = 3};
  run_whole(r, "whole", NULL);
  run_in_two(r, r, 14);
  size_t size = 0;
  char *values = read_folder_file("two", "model.ckpt-14.safetensors", &size);
  for (int i = 0; i < 3; ++i) {
    char entry[16];
    snprintf(entry, sizeof(entry), "\"total:%d\"", i);
    expect_contains(values + 8, entry);
  }
  ls_release(ls_allocator_system(), values);
  expect_same_file("whole", "two", "model.ckpt-33.safetensors");
}

// ---- Another run -----------------------------------------------------------
typedef struct lines {
  char text[4096];
} lines;

static void keep_line(void *user, const ls_log_line *line) {
  lines *kept = user;
  const size_t size = strlen(kept->text);
  snprintf(kept->text + size, sizeof(kept->text) - size, "%s\n", line->text);
}

TEST(another_run_is_refused_by_name) {
  const resumable first = {.folder = "another", .replicas = 2, .stop_at = 9};
  const struct {
    resumable then;
    const char *wanted;
  } rows[] = {
      {{.replicas = 3}, "its number of replicas is 2, here it is 3"},
      {{.replicas = 2, .batch_size = 4}, "its batch size is 8, here it is 4"},
      {{.replicas = 2, .seed = 8}, "its seed is 0, here it is 8"},
      {{.replicas = 2, .math = LS_MATH_DIRECT},
       "its math is 'fast', here it is 'direct'; its numerics is 'lockstep-"},
      {{.replicas = 2, .data_seed = 1}, "its hash of the data is '"},
      {{.replicas = 1, .batch_size = 4},
       "its number of replicas is 2, here it is 1; its batch size is 8, here "
       "it is 4"},
      {{.replicas = 2, .rate = 0.25}, "'another' has another program: that "},
      {{.replicas = 2, .writes_reordered = true},
       "'another' has another program: that "},
  };
  ls_train_result result;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    remove_folder("another");
    expect_ok(resumable_run(&first, &result));
    resumable then = rows[i].then;
    then.folder = "another";
    then.resume = true;
    expect_status(resumable_run(&then, &result), LS_INVALID_ARGUMENT,
                  rows[i].wanted);
    // And it is what it was.
    resumable same = {.folder = "another", .replicas = 2, .resume = true};
    expect_ok(resumable_run(&same, &result));
    run_whole((resumable){.replicas = 2}, "whole", NULL);
    expect_same_file("whole", "another", model);
    // Asked for, it goes on and says so.
    remove_folder("another");
    expect_ok(resumable_run(&first, &result));
    lines kept = {.text = ""};
    then.inexact = true;
    then.log_line = keep_line;
    then.log_user = &kept;
    expect_ok(resumable_run(&then, &result));
    assert_int_equal(result.steps, RESUMABLE_STEPS);
    expect_contains(kept.text, "results will differ");
    expect_contains(kept.text, rows[i].wanted);
  }
}

// Compilers choose the order in which arguments of a call make their ops.
TEST(a_step_whose_ops_are_made_in_another_order_is_the_same) {
  for (int64_t iterations = 1; iterations <= 3; iterations += 2) {
    resumable r = {.replicas = 2, .iterations = iterations}, then = r;
    run_whole(r, "whole", NULL);
    then.ops_reordered = true;
    run_in_two(r, then, 14);
    expect_same_file("whole", "two", model);
  }
}

// Its schedule has another number in it, and nothing else.
TEST(a_run_to_another_end_is_the_same_run) {
  resumable r = {.folder = "longer", .steps = 11};
  ls_train_result result;
  remove_folder("longer");
  expect_ok(resumable_run(&r, &result));
  r.steps = RESUMABLE_STEPS;
  r.resume = true;
  expect_ok(resumable_run(&r, &result));
  run_whole((resumable){0}, "whole", NULL);
  expect_same_file("whole", "longer", model);
}

// ---- Which are kept --------------------------------------------------------
static bool is_there(const char *folder, int64_t step) {
  char path[64];
  bool exists = false;
  snprintf(path, sizeof(path), "%s/model.ckpt-%lld.json", folder,
           (long long)step);
  expect_ok(ls_file_system_system()->exists(NULL, path, &exists));
  return exists;
}

TEST(the_newest_checkpoints_are_kept) {
  ls_train_result result;
  const resumable r = {.folder = "kept", .save_steps = 4, .keep = LS_SOME(2)};
  remove_folder("kept");
  expect_ok(resumable_run(&r, &result));
  for (int64_t step = 0; step <= RESUMABLE_STEPS; ++step)
    assert_int_equal(is_there("kept", step),
                     step == 32 || step == RESUMABLE_STEPS);
}

static double losses[4];
static void note_loss(const ls_train_report *report) {
  if (report->tested && report->epoch_end)
    losses[report->epoch] = report->test.loss;
}

TEST(the_best_one_is_kept_too) {
  ls_train_result result;
  const resumable r = {.folder = "best",
                       .keep = LS_SOME(1),
                       .with_test = true,
                       .keep_best = "test_loss",
                       .reported = note_loss};
  remove_folder("best");
  expect_ok(resumable_run(&r, &result));
  int best = 1;
  for (int i = 2; i <= 3; ++i)
    if (losses[i] < losses[best]) best = i;
  for (int i = 1; i <= 3; ++i)
    assert_int_equal(is_there("best", i * RESUMABLE_STEPS_PER_EPOCH),
                     i == 3 || i == best);
  const resumable no_test = {.folder = "best", .keep_best = "test_loss"};
  expect_status(resumable_run(&no_test, &result), LS_INVALID_ARGUMENT,
                "there is no test set");
  const resumable unknown = {.folder = "best", .keep_best = "worst"};
  expect_status(resumable_run(&unknown, &result), LS_INVALID_ARGUMENT,
                "keep_best is 'worst', expected loss");
}

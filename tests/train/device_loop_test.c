// SPDX-License-Identifier: Apache-2.0
//
// Runs whose steps go in loops: the same bytes as step by step, wherever a loop
// ends, and the same lines.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "support/expect.h"
#include "support/resumable.h"
#include "support/spec.h"

static const char model[] = "model.safetensors";
static const char last[] = "model.ckpt-33.safetensors";
static const char pod[] = "virtual:2x1";  // 4 cores.

static void run_whole(resumable r, const char *folder) {
  ls_train_result result;
  remove_folder(folder);
  r.folder = folder;
  expect_ok(resumable_run(&r, &result));
  assert_int_equal(result.steps, RESUMABLE_STEPS);
}

static void expect_same_run(const char *folder) {
  expect_same_file("whole", folder, model);
  expect_same_file("whole", folder, last);
}

// Numbers of metrics.jsonl, without what the clock says.
static void expect_same_metrics(const char *a, const char *b) {
  size_t sizes[2];
  char *texts[2] = {read_folder_file(a, "metrics.jsonl", &sizes[0]),
                    read_folder_file(b, "metrics.jsonl", &sizes[1])};
  static const char *const keys[] = {
      "\"step\":", "\"loss\":", "\"accuracy\":", "\"epoch\":"};
  for (size_t k = 0; k < LS_COUNT_OF(keys); ++k) {
    const char *at[2] = {texts[0], texts[1]};
    int count = 0;
    for (;; ++count) {
      at[0] = strstr(at[0], keys[k]);
      at[1] = strstr(at[1], keys[k]);
      assert_int_equal(at[0] == NULL, at[1] == NULL);
      if (at[0] == NULL) break;
      const size_t length = strcspn(at[0], ",}");
      assert_int_equal(length, strcspn(at[1], ",}"));
      assert_memory_equal(at[0], at[1], length);
      ++at[0];
      ++at[1];
    }
    assert_true(count > 0);
  }
  ls_release(ls_allocator_system(), texts[0]);
  ls_release(ls_allocator_system(), texts[1]);
}

typedef struct lines {
  char text[4096];
} lines;

static void keep_line(void *user, const ls_log_line *line) {
  lines *kept = user;
  const size_t size = strlen(kept->text);
  snprintf(kept->text + size, sizeof(kept->text) - size, "%s\n", line->text);
}

// ---- Bits ------------------------------------------------------------------
TEST(loops_of_any_length_give_the_same_bytes) {
  LS_SPEC("T197");
  run_whole((resumable){.replicas = 4}, "whole");
  static const int64_t lengths[] = {1, 2, 3, 7, 100, INT32_MAX};
  static const char *const pods[] = {pod, "virtual:2x1,hosts=2", NULL};
  for (size_t i = 0; i < LS_COUNT_OF(lengths); ++i)
    for (size_t p = 0; p < LS_COUNT_OF(pods); ++p)
      for (int feed = 0; feed < 2; ++feed) {
        if (pods[p] == NULL && feed == 0) continue;
        const resumable r = {.replicas = 4,
                             .tpu = pods[p],
                             .iterations = lengths[i],
                             .convolves = false,
                             .threads = 1 + (int)i,
                             .loop_infeed =
                                 feed == 0 ? LS_FLAG_ON : LS_FLAG_OFF};
        run_whole(r, "loops");
        expect_same_run("loops");
        expect_same_metrics("whole", "loops");
      }
}

// Parts of other sizes are steps of their own, and so is a step in between.
TEST(batches_that_cannot_be_dealt_evenly_are_steps_of_their_own) {
  lines kept = {{0}};
  resumable r = {.replicas = 4, .batch_size = 6, .steps = 30};
  ls_train_result result;
  r.folder = "whole";
  remove_folder("whole");
  expect_ok(resumable_run(&r, &result));
  r.folder = "loops";
  r.tpu = pod;
  r.iterations = 5;
  r.log_line = keep_line;
  r.log_user = &kept;
  remove_folder("loops");
  expect_ok(resumable_run(&r, &result));
  expect_same_file("whole", "loops", model);
  expect_contains(kept.text, "batches of 6 examples are split over 4 replicas");
}

// ---- What comes between steps ----------------------------------------------
TEST(a_loop_ends_where_a_save_is_due) {
  resumable r = {.replicas = 4, .save_steps = 5, .keep = LS_SOME(0)};
  run_whole(r, "whole");
  r.tpu = pod;
  r.iterations = 100;
  run_whole(r, "loops");
  for (int step = 5; step <= 30; step += 5) {
    char name[64];
    snprintf(name, sizeof(name), "model.ckpt-%d.safetensors", step);
    expect_same_file("whole", "loops", name);
  }
  expect_same_run("loops");
  expect_same_metrics("whole", "loops");
}

static int64_t reports;
static void count_report(const ls_train_report *report) {
  if (!report->epoch_end && !report->stopped) {
    ++reports;
    assert_int_equal(report->step, reports);
  }
}

TEST(each_step_is_reported) {
  reports = 0;
  run_whole((resumable){.tpu = pod,
                        .iterations = 7,
                        .reported = count_report,
                        .with_test = true},
            "loops");
  assert_int_equal(reports, RESUMABLE_STEPS);
}

// A stop takes effect where the loop ends; then it goes on in any other way.
TEST(a_run_that_is_stopped_goes_on_in_any_way) {
  run_whole((resumable){.replicas = 4}, "whole");
  const resumable ways[] = {
      {.tpu = pod},
      {.tpu = pod, .iterations = 3},
      {.tpu = pod, .iterations = 100},
      {.tpu = pod, .iterations = 6, .loop_infeed = LS_FLAG_OFF},
      {.replicas = 4},
      {.replicas = 4, .iterations = 4},
  };
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i)
    for (size_t k = 0; k < LS_COUNT_OF(ways); ++k) {
      // A value for each replica makes another program of a run's first step.
      if (ways[i].tpu != ways[k].tpu) continue;
      ls_train_result result;
      resumable first = ways[i], then = ways[k];
      remove_folder("two");
      first.folder = then.folder = "two";
      first.log = then.log = "two.log";
      first.stop_at = 5 + (int64_t)(i + 2 * k);
      then.resume = true;
      expect_ok(resumable_run(&first, &result));
      assert_true(result.stopped);
      assert_in_range(result.steps, first.stop_at,
                      first.stop_at + first.iterations);
      expect_ok(resumable_run(&then, &result));
      expect_same_run("two");
      expect_each_example_once("two.log", RESUMABLE_STEPS);
    }
}

// ---- What goes wrong -------------------------------------------------------
TEST(options_that_cannot_be_are_refused) {
  ls_train_result result;
  resumable r = {.folder = "refused", .replicas = 4, .iterations = -1};
  remove_folder("refused");
  expect_status(resumable_run(&r, &result), LS_INVALID_ARGUMENT,
                "a loop of -1 steps");
  r.iterations = 4;
  r.loop_infeed = LS_FLAG_ON;
  expect_status(resumable_run(&r, &result), LS_INVALID_ARGUMENT,
                "is not on cores of a TPU system");
  r.loop_infeed = LS_FLAG_DEFAULT;
  r.ranks = 2;
  expect_status(resumable_run(&r, &result), LS_UNIMPLEMENTED,
                "loops of 4 steps on 2 ranks");
}

// A core that is lost in a loop ends the run, and the thread that feeds it.
TEST(a_fault_in_a_loop_is_the_runs) {
  for (int step = 2; step <= 9; ++step) {
    char name[64];
    ls_train_result result;
    snprintf(name, sizeof(name), "virtual:2x1,fault=lost@host0.core1:step%d",
             step);
    remove_folder("lost");
    resumable r = {.folder = "lost",
                   .tpu = name,
                   .iterations = 100,
                   .save_steps = 1 + step % 3};
    expect_status(resumable_run(&r, &result), LS_UNAVAILABLE, "was lost");
    // On a whole system it goes on.
    run_whole((resumable){.replicas = 4}, "whole");
    r.tpu = pod;
    r.resume = result.steps > 0;
    expect_ok(resumable_run(&r, &result));
    expect_same_run("lost");
  }
}

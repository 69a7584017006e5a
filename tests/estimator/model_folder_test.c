// SPDX-License-Identifier: Apache-2.0
//
// The folder of a model: paths of any length, what stands in its place, and
// names that must not lead out of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/estimator_export.h"
#include "lockstep/events.h"
#include "lockstep/ops.h"
#include "lockstep/train_and_evaluate.h"
#include "support/estimator_ways.h"
#include "support/estimators.h"
#include "train/folder/run_folder.h"

static ls_status train(estimator_case *c) {
  return ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(2)},
      NULL);
}

static ls_status evaluate_as(estimator_case *c, const char *name) {
  LS_OWN(ls_nest, metrics) = ls_none();
  return ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){
          .input = estimator_input(c), .steps = LS_SOME(1), .name = name},
      &metrics);
}

static ls_status evaluate(estimator_case *c) { return evaluate_as(c, NULL); }

static ls_status predict(estimator_case *c) {
  ls_predictions *predictions = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      c->estimator, &(ls_estimator_prediction){.input = estimator_input(c)},
      &predictions));
  return ls_predictions_close(predictions);
}

static ls_status export_it(estimator_case *c) {
  LS_OWN(printed, path) = NULL;
  return ls_estimator_export(
      c->estimator,
      &(ls_estimator_exporting){.base = "folder-exports",
                                .receiver = {estimator_receive, NULL}},
      &path);
}

static ls_status find_latest(estimator_case *c) {
  LS_OWN(printed, path) = NULL;
  return ls_estimator_latest_checkpoint(c->estimator, &path);
}

typedef ls_status (*user)(estimator_case *c);
static const user uses[] = {train, evaluate, predict, export_it, find_latest};
enum { USES = sizeof(uses) / sizeof(*uses) };

TEST(a_folder_may_have_a_long_path) {
  char folder[3200] = "";
  while (strlen(folder) < 3000)
    strcat(folder, "./././././");
  strcat(folder, "far");
  assert_int_equal(system("rm -rf far"), 0);
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    LS_OWN(estimator_case, c) = estimator_case_of(way);
    c.folder = folder;
    c.goes_on = true;  // Nobody clears it.
    c.save_steps = LS_SOME(1);
    c.repeats = true;
    estimator_case_begin(&c);
    for (size_t k = 0; k < USES; ++k)
      expect_ok(uses[k](&c));
  }
}

TEST(a_folder_has_one_training_at_a_time) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    LS_OWN(estimator_case, c) = estimator_case_of(way);
    c.folder = "one-training";
    c.repeats = true;
    estimator_case_begin(&c);
    LS_OWN(ls_run_folder, lock) = {0};
    ls_run_folder_init(&lock, ls_runtime_current(), c.folder);
    expect_ok(ls_run_folder_claim(&lock, false));
    expect_status(train(&c), LS_FAILED_PRECONDITION,
                  "'one-training/lock' is locked by process");
    ls_run_folder_deinit(&lock);
    expect_ok(train(&c));
    ls_run_folder_init(&lock, ls_runtime_current(), c.folder);
    expect_ok(ls_run_folder_claim(&lock, false));
    expect_ok(evaluate(&c));
    expect_ok(predict(&c));
    expect_ok(train(&c));  // Nothing is left to train.
  }
}

TEST(a_file_in_the_place_of_the_folder_is_named) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    LS_OWN(estimator_case, c) = estimator_case_of(way);
    c.folder = "a-file";
    c.repeats = true;
    estimator_case_begin(&c);
    FILE *file = fopen("a-file", "w");
    assert_non_null(file);
    fputs("no model", file);
    fclose(file);
    for (size_t k = 0; k < USES; ++k) {
      expect_status(uses[k](&c), LS_INVALID_ARGUMENT, "'a-file' is a file");
      expect_status(uses[k](&c), LS_INVALID_ARGUMENT, "model_dir");
    }
  }
}

// ---- Names -----------------------------------------------------------------
static const char *const bad_names[] = {"a/b", "/tmp/x", "../../out", "..",
                                        "."};

TEST(names_of_evaluations_stay_in_the_folder) {
  LS_OWN(estimator_case, c) = {.folder = "named", .repeats = true};
  c.save_steps = LS_SOME(1);
  estimator_case_begin(&c);
  expect_ok(train(&c));
  for (size_t i = 0; i < sizeof(bad_names) / sizeof(*bad_names); ++i) {
    expect_status(evaluate_as(&c, bad_names[i]), LS_INVALID_ARGUMENT,
                  bad_names[i]);
    expect_status(
        ls_train_and_evaluate(
            c.estimator, &(ls_train_spec){.input = estimator_input(&c)},
            &(ls_eval_spec){.input = estimator_input(&c), .name = bad_names[i]},
            NULL),
        LS_INVALID_ARGUMENT, "the name of an evaluation");
  }
  assert_int_not_equal(access("named/eval_a", F_OK), 0);
  expect_ok(evaluate_as(&c, ""));
  expect_ok(evaluate_as(&c, "held out"));
  assert_int_equal(access("named/eval_held out", F_OK), 0);
}

// Exporters, and suffixes of event files, are held to the same.
TEST(other_names_in_paths_are_held_to_the_same) {
  for (size_t i = 0; i < sizeof(bad_names) / sizeof(*bad_names); ++i) {
    ls_exporter *exporter = NULL;
    ls_event_writer *writer = NULL;
    expect_status(
        ls_exporter_create(
            &(ls_exporter_options){.name = bad_names[i],
                                   .kind = LS_EXPORTER_LATEST,
                                   .receiver = {estimator_receive, NULL}},
            &exporter),
        LS_INVALID_ARGUMENT, "is to be a part of a path");
    expect_status(
        ls_event_writer_open(
            &(ls_event_writer_options){.folder = "x", .suffix = bad_names[i]},
            &writer),
        LS_INVALID_ARGUMENT, "is to be a part of a path");
  }
}

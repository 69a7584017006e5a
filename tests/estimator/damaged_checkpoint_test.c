// SPDX-License-Identifier: Apache-2.0
//
// Where the newest checkpoint is damaged, whatever uses a model takes the
// newest that is whole, with one warning that names both (ruling 60).
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/estimator_export.h"
#include "lockstep/ops.h"
#include "lockstep/saved_file.h"
#include "support/estimator_ways.h"
#include "support/estimators.h"

static ls_status evaluate(estimator_case *c, const char *from) {
  LS_OWN(ls_nest, metrics) = ls_none();
  return ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){
          .input = estimator_input(c), .steps = LS_SOME(2), .checkpoint = from},
      &metrics);
}

static ls_status predict(estimator_case *c, const char *from) {
  ls_predictions *predictions = NULL;
  LS_RETURN_IF_ERROR(
      ls_estimator_predict(c->estimator,
                           &(ls_estimator_prediction){
                               .input = estimator_input(c), .checkpoint = from},
                           &predictions));
  return ls_predictions_close(predictions);
}

static ls_status export_to(estimator_case *c, const char *from) {
  LS_OWN(printed, path) = NULL;
  return ls_estimator_export(
      c->estimator,
      &(ls_estimator_exporting){.base = "exports",
                                .receiver = {estimator_receive, NULL},
                                .checkpoint = from},
      &path);
}

static ls_status read_variable(estimator_case *c, const char *from) {
  ls_array *array = NULL;
  if (from != NULL) return ls_ok();  // It is of no checkpoint by name.
  const ls_status status =
      ls_estimator_variable_value(c->estimator, "hidden", &array);
  ls_array_release(array);
  return status;
}

static ls_status find_latest(estimator_case *c, const char *from) {
  char *path = NULL;
  if (from != NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_latest_checkpoint(c->estimator, &path));
  assert_string_equal(path, "damaged/model.ckpt-2");
  ls_text_release(path);
  return ls_ok();
}

static ls_status train(estimator_case *c, const char *from) {
  if (from != NULL) return ls_ok();
  return ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(2)},
      NULL);
}

// Values of a step, whose head stays whole.
static void damage(const char *folder, int step) {
  char path[100];
  snprintf(path, sizeof(path), "%s/model.ckpt-%d.safetensors", folder, step);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  const int byte = fgetc(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  fputc(byte ^ 4, file);
  fclose(file);
}

// Warnings of what is passed over, and whether all name both.
typedef struct told {
  int lines, both;
} told;

static void note(void *user, const ls_log_line *line) {
  told *t = user;
  if (line->level != LS_LOG_WARNING ||
      strstr(line->text, "skipped for") == NULL)
    return;
  ++t->lines;
  t->both += strstr(line->text, "/model.ckpt-4'") != NULL &&
             strstr(line->text, "/model.ckpt-2'") != NULL;
}

static ls_runtime *listen(told *t, ls_runtime **before) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.log = note, .log_user = t},
                              &runtime));
  *before = ls_runtime_make_current(runtime);
  return runtime;
}

static void expect_told_once(told *t) {
  assert_int_equal(t->lines, 1);
  assert_int_equal(t->both, 1);
  *t = (told){0};
}

TEST(the_newest_that_is_whole_is_taken) {
  ls_status (*const calls[])(estimator_case * c, const char *from) = {
      evaluate, predict, export_to, read_variable, find_latest, train};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    told t = {0};
    ls_runtime *before = NULL, *runtime = listen(&t, &before);
    estimator_case c = estimator_case_of(i);
    c.folder = "damaged";
    c.repeats = true;
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    estimator_case_train(&c, 4);
    damage("damaged", 4);
    for (size_t k = 0; k < sizeof(calls) / sizeof(*calls); ++k) {
      expect_ok(calls[k](&c, NULL));
      expect_told_once(&t);
      expect_ok(calls[k](&c, "damaged/model.ckpt-2"));
    }
    // One that is named is what is meant.
    for (size_t k = 0; k < 3; ++k) {
      expect_status(calls[k](&c, "damaged/model.ckpt-4"), LS_DATA_LOSS,
                    "model.ckpt-4.safetensors");
      expect_status(calls[k](&c, "damaged/model.ckpt-4"), LS_DATA_LOSS,
                    "'damaged/model.ckpt-2' is intact");
    }
    assert_int_equal(t.lines, 0);
    // A training makes the steps behind it again.
    assert_int_equal(estimator_case_train(&c, 4).step, 4);
    expect_told_once(&t);
    expect_ok(evaluate(&c, NULL));
    assert_int_equal(t.lines, 0);
    estimator_case_end(&c);
    ls_runtime_make_current(before);
    expect_ok(ls_runtime_destroy(runtime));
  }
}

// The same checkpoints, by other doors of the library.
TEST(files_of_a_folder_are_taken_by_the_same_rule) {
  told t = {0};
  ls_runtime *before = NULL, *runtime = listen(&t, &before);
  estimator_case c = {.folder = "damaged", .repeats = true};
  c.save_steps = LS_SOME(1);
  estimator_case_begin(&c);
  estimator_case_train(&c, 4);
  damage("damaged", 4);
  damage("damaged", 3);
  ls_saved_file *file = NULL;
  ls_saved_info info;
  expect_ok(ls_saved_file_open("damaged", &file));
  ls_saved_file_describe(file, &info);
  assert_int_equal(info.step, 2);
  ls_saved_file_close(file);
  expect_told_once(&t);
  expect_status(ls_saved_file_open("damaged/model.ckpt-4", &file), LS_DATA_LOSS,
                "model.ckpt-4.safetensors");
  expect_ok(evaluate(&c, NULL));
  expect_told_once(&t);
  estimator_case_end(&c);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(that_none_is_whole_is_told) {
  LS_OWN(estimator_case, c) = {.folder = "damaged-all", .repeats = true};
  c.save_steps = LS_SOME(2);
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  damage("damaged-all", 0);
  damage("damaged-all", 2);
  expect_status(evaluate(&c, NULL), LS_DATA_LOSS,
                "no checkpoint in 'damaged-all' is intact");
  // Of another folder nothing is said.
  damage("damaged", 2);
  LS_OWN(ls_status, status) = evaluate(&c, "damaged/model.ckpt-2");
  assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
  assert_null(strstr(ls_status_message(status), "is intact"));
}

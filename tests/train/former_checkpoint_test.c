// SPDX-License-Identifier: Apache-2.0
//
// What the checkpoint of a former version says of its run.
#include "train/folder/saves.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "state/saver_file.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/training.h"

static const char *const path = "notes.safetensors";

// Makes the file say `to` where it says `from`, which is as long.
static void change(const char *from, const char *to) {
  const ls_file_system *files = ls_file_system_system();
  char *data = NULL;
  size_t size = 0;
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &data, &size));
  char *at = strstr(data + 8, from);  // Behind the header's size.
  assert_non_null(at);
  memcpy(at, to, strlen(to));
  expect_ok(files->write(files->user, path, data, size));
  ls_release(ls_allocator_system(), data);
}

// As former versions wrote it.
static void write_former(const ls_model *model, const char *to) {
  static const ls_safetensors_note notes[] = {
      {"model", "tiny"},   {"step", "7"}, {"replicas", "2"},
      {"batch_size", "8"}, {"seed", "0"}, {"examples", "64"},
      {"seconds", "2.500"}};
  ls_variable **variables = NULL;
  ls_saver saver = {.exact = true};
  expect_ok(ls_train_variables(ls_runtime_current(), model, true, &variables,
                               &saver.num_variables));
  saver.variables = variables;
  expect_ok(ls_saver_save_with(&saver, to, notes, LS_COUNT_OF(notes)));
  ls_release(ls_runtime_allocator(ls_runtime_current()), variables);
}

TEST(a_checkpoint_says_how_long_the_run_took) {
  LS_OWN(ls_model, model) = {0};
  expect_ok(ls_model_create(ls_model_find("tiny"), NULL, &model));
  ls_former_notes notes = {
      .replicas = 2, .batch_size = 8, .examples = 64, .seconds = 9};
  write_former(&model, path);
  change("\"ls.crc32c\"", "\"no.crc32c\"");  // There were no checksums.
  expect_ok(
      ls_former_checkpoint_read(ls_runtime_current(), path, &model, &notes));
  assert_int_equal(notes.steps, 7);
  assert_true(notes.seconds == 2.5);
  // No number, or none that fits in nanoseconds.
  static const char *const texts[] = {"2.500", "-2.50", "1.5e9", "9e307",
                                      "  nan", "2.5 s", "     "};
  for (size_t i = 1; i < sizeof(texts) / sizeof(*texts); ++i) {
    char wanted[64];
    change(texts[i - 1], texts[i]);
    snprintf(wanted, sizeof(wanted), "is damaged: its note \"seconds\" is '%s'",
             texts[i]);
    expect_status(
        ls_former_checkpoint_read(ls_runtime_current(), path, &model, &notes),
        LS_DATA_LOSS, wanted);
  }
  change("\"seconds\"", "\"another\"");
  expect_status(
      ls_former_checkpoint_read(ls_runtime_current(), path, &model, &notes),
      LS_DATA_LOSS, "its note \"seconds\" is 'missing'");
}

// ---- A run of a former version ---------------------------------------------
// Of tiny on 64 examples with 2 replicas.
static ls_status train(ls_model *model, const char *folder, int64_t steps,
                       bool resume) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 64, .shape = LS_SHAPE(16), .num_classes = 4});
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  expect_ok(ls_model_create(ls_model_find("tiny"),
                            &(ls_model_options){.metrics = true}, model));
  ls_train_result result;
  return ls_train(&(ls_train_options){.model = model,
                                      .strategy = strategy,
                                      .train = data,
                                      .batch_size = 8,
                                      .steps = steps,
                                      .run_folder = folder,
                                      .overwrite = !resume,
                                      .resume = resume},
                  &result);
}

static bool is_there(const char *name) {
  bool exists = false;
  expect_ok(ls_file_system_system()->exists(NULL, name, &exists));
  return exists;
}

static ls_status go_on_as_rank(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_model, model) = {0};
  return train(&model, "former", 20, true);
}

static void go_on(int32_t ranks) {
  static const char *const gone[] = {
      "former/model.ckpt-7.json", "former/model.ckpt-7.safetensors",
      "former/checkpoint", "former/model.safetensors"};
  const ls_file_system *files = ls_file_system_system();
  ls_model model;
  expect_ok(train(&model, "straight", 20, false));
  ls_model_destroy(&model);
  expect_ok(train(&model, "former", 7, false));
  for (size_t i = 0; i < LS_COUNT_OF(gone); ++i)
    expect_ok(files->remove(NULL, gone[i]));
  write_former(&model, "former/checkpoint.safetensors");
  ls_model_destroy(&model);
  expect_ok(ls_standin_run(ranks, go_on_as_rank, NULL));
  // It is taken over at the step that it was of.
  assert_true(is_there("former/model.ckpt-7.json"));
  assert_false(is_there("former/checkpoint.safetensors"));
  char *left = NULL, *right = NULL;
  size_t sizes[2] = {0};
  expect_ok(files->read(NULL, "straight/model.safetensors", SIZE_MAX,
                        ls_allocator_system(), &left, &sizes[0]));
  expect_ok(files->read(NULL, "former/model.safetensors", SIZE_MAX,
                        ls_allocator_system(), &right, &sizes[1]));
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(left, right, sizes[0]);
  ls_release(ls_allocator_system(), left);
  ls_release(ls_allocator_system(), right);
}

TEST(a_run_of_a_former_version_goes_on) {
  for (int32_t ranks = 1; ranks <= 2; ++ranks)
    go_on(ranks);
}

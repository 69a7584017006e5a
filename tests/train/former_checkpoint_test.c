// SPDX-License-Identifier: Apache-2.0
//
// What the checkpoint of a former version says of its run.
#include "train/saved_values.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "state/saver_file.h"
#include "support/expect.h"

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
static void write_former(const ls_model *model) {
  static const ls_safetensors_note notes[] = {
      {"model", "tiny"},   {"step", "7"}, {"replicas", "2"},
      {"batch_size", "8"}, {"seed", "0"}, {"examples", "64"},
      {"seconds", "2.500"}};
  ls_variable **variables = NULL;
  ls_saver saver = {.exact = true};
  expect_ok(ls_train_variables(ls_runtime_current(), model, true, &variables,
                               &saver.num_variables));
  saver.variables = variables;
  expect_ok(ls_saver_save_with(&saver, path, notes, LS_COUNT_OF(notes)));
  ls_release(ls_runtime_allocator(ls_runtime_current()), variables);
}

static void a_checkpoint_says_how_long_the_run_took(void **state) {
  (void)state;
  ls_model model;
  expect_ok(ls_model_create(ls_model_find("tiny"), NULL, &model));
  ls_former_notes notes = {
      .replicas = 2, .batch_size = 8, .examples = 64, .seconds = 9};
  write_former(&model);
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
  ls_model_destroy(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_checkpoint_says_how_long_the_run_took),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

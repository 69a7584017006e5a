// SPDX-License-Identifier: Apache-2.0
// Chains of runs of programs: data in arrays, stops, and what is not covered.
#include "lockstep/chain.h"

#include <stdio.h>

#include "lockstep/element_spec.h"
#include "lockstep/saved_file.h"
#include "lockstep/train.h"
#include "support/expect.h"
#include "support/fault.h"
#include "support/place.h"
#include "support/scratch.h"
#include "support/training.h"
#include "train/own.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

enum { EXAMPLES = 600, PIXELS = 16, CLASSES = 4 };

// Texts about differences and remarks.
typedef struct told {
  char differences[600], remarks[600];
} told;

static void tell(void *user, const char *text, bool differs) {
  told *t = user;
  char *to = differs ? t->differences : t->remarks;
  const size_t used = strlen(to);
  snprintf(to + used, sizeof(t->remarks) - used, "%s\n", text);
}

// Examples in arrays; the label of example `changed` is another one.
static ls_dataset *make_data(int changed) {
  static float pixels[EXAMPLES * PIXELS];
  static int32_t labels[EXAMPLES];
  ls_array *x = NULL, *y = NULL;
  for (int i = 0; i < EXAMPLES * PIXELS; ++i)
    pixels[i] = (float)(i * 7 % 11) / 11;
  for (int i = 0; i < EXAMPLES; ++i)
    labels[i] = (i + (i == changed)) % CLASSES;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, PIXELS),
                                 pixels, &x));
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(EXAMPLES), labels, &y));
  return ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
}

typedef struct life {
  int64_t steps, stop_at, seed;
  bool attest, resume, goes_on;
  ls_train_stop stop;
} life;

static void watch(void *user, const ls_train_report *report) {
  life *self = user;
  if (report->step == self->stop_at) ls_train_stop_request(&self->stop);
}

static ls_status live(life *self) {
  LS_OWN(ls_dataset, data) = make_data(-1);
  LS_OWN(ls_dataset, part) = ls_dataset_take(ls_dataset_retain(data), 100);
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_model, model) = {0};
  ls_train_result result;
  LS_RETURN_IF_ERROR(
      ls_mirrored_strategy_create(&(ls_mirrored_options){0}, &strategy));
  LS_RETURN_IF_ERROR(ls_model_create(
      ls_model_find("tiny"), &(ls_model_options){.metrics = true}, &model));
  return ls_train(&(ls_train_options){.model = &model,
                                      .strategy = strategy,
                                      .train = data,
                                      .test = part,
                                      .steps = self->steps,
                                      .seed = self->seed,
                                      .run_folder = "run",
                                      .resume = self->resume,
                                      .save_steps = 10,
                                      .save_goes_on = self->goes_on,
                                      .keep = LS_SOME(0),
                                      .attest = self->attest,
                                      .stop = &self->stop,
                                      .report = watch,
                                      .report_user = self},
                  &result);
}

static void check_run(told *t, ls_chain_result *result) {
  *t = (told){.remarks = ""};
  const ls_chain_report report = {tell, t};
  expect_ok(ls_chain_check("run", &report, result));
}

static void check_data(ls_dataset *data, told *t, ls_chain_result *result) {
  *t = (told){.remarks = ""};
  const ls_chain_report report = {tell, t};
  expect_ok(ls_chain_check_data("run", data, NULL, &report, result));
  ls_dataset_release(data);
}

static int count_lines_with(const char *part) {
  char *text = NULL;
  size_t size = 0;
  int count = 0;
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->read(files->user, "run/chain.jsonl", SIZE_MAX,
                        ls_allocator_system(), &text, &size));
  for (const char *at = text; (at = strstr(at, part)) != NULL; ++at)
    ++count;
  ls_release(ls_allocator_system(), text);
  return count;
}

TEST(arrays_are_covered_and_a_label_is_named) {
  told t;
  ls_chain_result result;
  expect_ok(live(&(life){.steps = 25, .attest = true}));
  check_run(&t, &result);
  assert_string_equal(t.differences, "");
  assert_string_equal(t.remarks, "");
  assert_int_equal(result.lines, 6);
  assert_int_equal(result.checkpoints, 3);
  assert_int_equal(strlen(result.head), 64);
  check_data(make_data(-1), &t, &result);
  assert_string_equal(t.differences, "");
  assert_int_equal(result.parts, 1);  // Train and test read the same arrays.
  check_data(make_data(123), &t, &result);
  assert_string_equal(t.differences,
                      "source 1 of the data (arrays) differs in elements 120 "
                      "to 123 of 600\n");
  assert_int_equal(result.differences, 1);
  check_data(ls_dataset_take(make_data(-1), 5), &t, &result);
  assert_string_equal(t.differences, "");
  check_data(ls_dataset_range(0, 10, 1), &t, &result);
  assert_string_equal(
      t.differences,
      "source 1 of the data (range) has 80 bytes, it had 40800\n");
  check_data(ls_dataset_concatenate(make_data(-1), make_data(-1)), &t, &result);
  assert_string_equal(
      t.differences,
      "source 2 of the data (arrays) is not of the run's data\n");
  remove_tree("run");
}

// Replaces a part of config.json, and checks the run.
static void expect_change_found(const char *part, const char *other,
                                const char *wanted) {
  static char changed[8000];
  told t;
  ls_chain_result result;
  char *text = NULL;
  size_t size = 0;
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->read(files->user, "run/config.json", SIZE_MAX,
                        ls_allocator_system(), &text, &size));
  const char *at = strstr(text, part);
  assert_non_null(at);
  snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, other,
           at + strlen(part));
  expect_ok(
      files->write(files->user, "run/config.json", changed, strlen(changed)));
  check_run(&t, &result);
  assert_string_equal(t.differences, wanted);
  expect_ok(files->write(files->user, "run/config.json", text, size));
  ls_release(ls_allocator_system(), text);
}

// A seed that no double has, and a value without a number.
TEST(changes_of_the_configuration_are_named) {
  expect_ok(
      live(&(life){.steps = 10, .attest = true, .seed = 9007199254740993}));
  expect_change_found("9007199254740993", "9007199254740992",
                      "config.json: \"seed\" is 9007199254740992, it was "
                      "9007199254740993\n");
  expect_change_found("\"flip\":false", "\"flip\":true",
                      "config.json: \"flip\" is true, it was false\n");
  expect_change_found("\"flip\":false", "\"flip\":null",
                      "config.json: \"flip\" is null, it was false\n");
  remove_tree("run");
}

static ls_nest make_text(void *user, int64_t index) {
  (void)user, (void)index;
  return LS_FAIL(LS_INTERNAL, "nobody reads it");
}

TEST(data_without_known_shapes_are_remarked_on) {
  told t;
  ls_chain_result result;
  expect_ok(live(&(life){.steps = 5, .attest = true}));
  check_data(ls_dataset_from_function(&(ls_index_options){
                 .name = "texts",
                 .size = 3,
                 .element = ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(-1)),
                 .make = make_text}),
             &t, &result);
  assert_string_equal(
      t.remarks,
      "source 1 of the data (texts) is not covered: it cannot be read again\n");
  assert_string_equal(t.differences,
                      "source 1 of the data (texts) is of another kind\n");
  remove_tree("run");
}

TEST(a_chain_goes_on_where_a_run_does) {
  told t;
  ls_chain_result result;
  expect_ok(live(&(life){.steps = 40, .attest = true, .stop_at = 15}));
  check_run(&t, &result);
  assert_string_equal(t.differences, "");
  expect_ok(live(&(life){.steps = 40, .resume = true, .stop_at = 33}));
  expect_ok(live(&(life){.steps = 40, .resume = true}));
  check_run(&t, &result);
  assert_string_equal(t.differences, "");
  size_t count = 0;
  expect_ok(ls_saved_steps("run", NULL, 0, &count));
  assert_int_equal(result.checkpoints, count);
  assert_int_equal(count_lines_with("\"event\":\"resume\""), 2);
  assert_int_equal(count_lines_with("\"event\":\"data\""), 1);
  check_data(make_data(-1), &t, &result);
  assert_string_equal(t.differences, "");
  remove_tree("run");
}

static int num_appended;

// Fails in the middle of the third line.
static ls_status append_some(void *user, const char *path, const void *data,
                             size_t size) {
  const ls_file_system *system = ls_file_system_system();
  const bool fails = strstr(path, "chain.jsonl") != NULL && ++num_appended == 2;
  LS_RETURN_IF_ERROR(system->append(user, path, data, fails ? size / 2 : size));
  return fails ? LS_STATUS(LS_UNAVAILABLE, "the disk is full") : ls_ok();
}

// Beyond 2^53 the next whole number is no other double.
TEST(large_numbers_of_a_configuration_are_compared_exactly) {
  told t;
  ls_chain_result result;
  const ls_file_system *files = ls_file_system_system();
  LS_OWN_MEMORY(ls_allocator_system(), char, text) = NULL;
  size_t size = 0;
  expect_ok(
      live(&(life){.steps = 1, .attest = true, .seed = 9007199254740993}));
  expect_ok(files->read(files->user, "run/config.json", SIZE_MAX,
                        ls_allocator_system(), &text, &size));
  char *seed = strstr(text, "9007199254740993");
  assert_non_null(seed);
  seed[15] = '2';
  expect_ok(files->write(files->user, "run/config.json", text, size));
  check_run(&t, &result);
  assert_string_equal(t.differences,
                      "config.json: \"seed\" is 9007199254740992, it was "
                      "9007199254740993\n");
  remove_tree("run");
}

TEST(a_line_that_is_not_written_whole_is_removed) {
  told t;
  ls_chain_result result;
  ls_file_system files = *ls_file_system_system();
  files.append = append_some;
  {
    LS_OWN(open_place, home) =
        runtime_begin((ls_runtime_options){.file_system = &files});
    expect_ok(live(&(life){.steps = 40, .attest = true, .goes_on = true}));
  }
  check_run(&t, &result);
  expect_contains(t.differences, " has no line in the chain\n");
  assert_int_equal(result.differences, 1);
  remove_tree("run");
}

TEST(runs_without_a_chain_are_told) {
  ls_chain_result result;
  expect_ok(live(&(life){.steps = 10, .stop_at = 5}));
  expect_status(ls_chain_check("run", NULL, &result), LS_NOT_FOUND,
                "the run in 'run' has no chain");
  // It may begin later.
  expect_ok(live(&(life){.steps = 10, .resume = true, .attest = true}));
  expect_ok(ls_chain_check("run", NULL, &result));
  assert_int_equal(result.differences, 0);
  expect_status(ls_chain_check("nothing", NULL, &result), LS_NOT_FOUND, "");
  remove_tree("run");
}

static ls_status check_all(void *user) {
  ls_chain_result result;
  LS_RETURN_IF_ERROR(ls_chain_check("run", NULL, &result));
  return ls_chain_check_data("run", user, NULL, NULL, &result);
}

TEST(a_check_survives_refused_memory) {
  LS_OWN(ls_dataset, data) = make_data(-1);
  expect_ok(live(&(life){.steps = 12, .attest = true}));
  REFUSE_EACH(check_all, data);
  remove_tree("run");
}

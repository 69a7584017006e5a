// SPDX-License-Identifier: Apache-2.0
//
// Memory and disk that there are for a run, with a control group of the test's.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "support/values.h"

// The program's own, which is not in the library; some of what it calls is
// replaced.
#define cli_allocate room_test_allocate
#define cli_release room_test_release
#define cli_least_of_groups room_test_least_of_groups
#define cli_group_number room_test_group_number
#define cli_format_bytes room_test_format_bytes
#include "cli/look/room.c"

// Limit and use of a group, and of the one that it is in.
static double limit = INFINITY, used = INFINITY;
static double outer_limit = INFINITY, outer_used = INFINITY;

void *cli_allocate(size_t size) { return calloc(1, size); }
void cli_release(void *memory) { free(memory); }
double cli_least_of_groups(const char *controller,
                           double (*read)(const char *folder)) {
  assert_string_equal(controller, "memory");
  return fmin(read("inner"), read("outer"));
}
double cli_group_number(const char *folder, const char *name) {
  const bool is_inner = strcmp(folder, "inner") == 0;
  if (strcmp(name, "memory.max") == 0) return is_inner ? limit : outer_limit;
  if (strcmp(name, "memory.usage_in_bytes") == 0)
    return is_inner ? used : outer_used;
  return INFINITY;  // Of the other version.
}
const char *cli_format_bytes(double bytes, char *text) {
  snprintf(text, CLI_CELL, "%.0f B", bytes);
  return text;
}

// ---- Room ------------------------------------------------------------------
TEST(the_room_of_a_control_group_is_what_it_leaves) {
  limit = used = INFINITY;
  const double machine = cli_room(), own = cli_resident_bytes();
  assert_true(machine > 0 && own > 0);
  limit = 64 << 20;
  assert_true(cli_room() <= limit);
  used = limit;  // The group is full: what this process has remains.
  const double left = cli_room();
  assert_true(left <= limit && left > 0);
  // Others of the group around it leave less than it may have.
  outer_limit = 256 << 20;
  outer_used = 256 << 20;
  limit = 192 << 20;
  used = 1;
  assert_true(cli_room() <= own + (8 << 20));
  outer_limit = outer_used = limit = used = INFINITY;
}

TEST(the_disk_of_a_folder_that_will_be_made_is_its_parents) {
  static const char *const paths[] = {"none", "./none/none", "/none",
                                      "/none/none/none"};
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); ++i) {
    const double size = cli_free_disk(paths[i]);
    assert_true(size >= 0 && isfinite(size));
  }
  assert_true(cli_free_disk("/proc/none/run") == 0);
  HEAP(char, path) = malloc(2 * PATH_MAX);
  assert_non_null(path);
  memset(path, 'a', 2 * PATH_MAX - 1);
  path[2 * PATH_MAX - 1] = '\0';
  assert_true(isinf(cli_free_disk(path)));
}

// ---- Before a first step ---------------------------------------------------
enum { NUMBERS = 1 << 18, EXAMPLE = 1 << 10 };
static ls_variable *weights;

static size_t list_weights(void *self, ls_variable **variables,
                           size_t capacity) {
  (void)self;
  if (capacity > 0) variables[0] = weights;
  return 1;
}

TEST(a_run_that_surely_does_not_fit_is_refused) {
  const ls_model_type type = {.name = "large",
                              .batch_size = 1 << 10,
                              .example_shape = LS_SHAPE(EXAMPLE),
                              .variables = list_weights};
  const ls_model model = {.type = &type};
  const int64_t many = INT64_C(1) << 40;
  double *zeros = calloc(NUMBERS, sizeof(double));
  assert_non_null(zeros);
  weights = variable_of("w", LS_DTYPE_F32, LS_SHAPE(NUMBERS), zeros);
  free(zeros);
  limit = 2 << 20;  // The variable has half of it, each example 4 KiB.
  expect_ok(cli_check_room(&model, 256, many));
  expect_status(
      cli_check_room(&model, 257, many), LS_RESOURCE_EXHAUSTED,
      "the variables of model 'large' and a batch of 257 take 2101248 "
      "B, but there are 2097152 B of memory: see 'lockstep plan large'");
  expect_status(cli_check_room(&model, 0, many), LS_RESOURCE_EXHAUSTED,
                "a batch of 1024");
  // No batch is larger than the data.
  expect_ok(cli_check_room(&model, many, 256));
  limit = INFINITY;
  expect_status(cli_check_room(&model, many, many), LS_RESOURCE_EXHAUSTED,
                "of memory: see");
  ls_variable_release(weights);
}

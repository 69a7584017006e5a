// SPDX-License-Identifier: Apache-2.0
#include "support/replica_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/text.h"

const int32_t lanes_counts[LANES_COUNTS] = {1, 2, 3, 5, 6, 7, 8, 64, 100, 1024};

void lanes_create(lowered *program, const char *text) {
  expect_ok(lowered_create(&(lowered_options){.text = text}, program));
}

float lanes_tree_sum(const float *values, size_t n, size_t stride) {
  if (n == 1) return values[0];
  size_t left = 1;
  while (left * 2 < n)
    left *= 2;
  return lanes_tree_sum(values, left, stride) +
         lanes_tree_sum(values + left * stride, n - left, stride);
}

float lanes_value(size_t i) {
  const uint32_t bits = (uint32_t)(i * 2654435761U) >> 7;
  const float scale[4] = {1e-3F, 1.0F, 1e4F, 3e7F};
  return ((float)(bits & 0xffff) - 32000.0F) * scale[bits >> 20 & 3];
}

char *lanes_text(int32_t replicas, const char *outputs, const char *body,
                 const char *types) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_text_append(&text, "graph lowered \"p\" {");
  for (int32_t r = 0; r < replicas; ++r) {
    ls_text_append_format(&text,
                          "%%%d = parameter() {dtype = f32, shape = shape[7], "
                          "index = %d} : f32[7] ",
                          r + 1, r);
  }
  ls_text_append_format(&text, "%%%d%s = replicate(", replicas + 1, outputs);
  for (int32_t r = 0; r < replicas; ++r) {
    ls_text_append_format(&text, "%s%%%d", r == 0 ? "" : ", ", r + 1);
  }
  ls_text_append_format(
      &text,
      ") {replicas = %d, num_split = 1, num_gathered = 0} "
      "(graph lowered \"r\" {"
      " %%1 = parameter() {dtype = f32, shape = shape[7], index = 0} "
      "varying : f32[7] %s }) : %s return ",
      replicas, body, types);
  const int num_outputs = outputs[0] == ':' ? atoi(outputs + 1) : 1;
  for (int i = 0; i < num_outputs; ++i) {
    ls_text_append_format(&text, "%s%%%d:%d", i == 0 ? "" : ", ", replicas + 1,
                          i);
  }
  ls_text_append(&text, " }");
  return ls_text_finish(&text);
}

float lanes_values[LANES_MOST][LANES_WIDTH];
const void *lanes_rows[LANES_MOST];

void lanes_fill_values(void) {
  for (size_t r = 0; r < LANES_MOST; ++r) {
    lanes_rows[r] = lanes_values[r];
    for (size_t i = 0; i < LANES_WIDTH; ++i)
      lanes_values[r][i] = lanes_value(r * LANES_WIDTH + i);
  }
}

// ---- All ways ---------------------------------------------------------------
static const char *lanes_by(void *user, const char *name) {
  return strcmp(name, "LS_LANES") == 0 ? user : NULL;
}

// All tests, with lanes by "threads" or "blocks".
static int run_lanes(const unit_tests *tests, const char *by, int threads) {
  ls_runtime *runtime = NULL;
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){.threads = threads,
                            .environment = lanes_by,
                            .environment_user = (void *)(uintptr_t)by},
      &runtime);
  if (!ls_status_is_ok(status)) return 1;
  (void)ls_runtime_make_current(runtime);
  char name[40];
  snprintf(name, sizeof(name), "lanes by %s, %d threads", by, threads);
  int failures = unit_tests_run(tests, LANES_ALL_WAYS, name);
  if (threads == 1) failures += unit_tests_run(tests, LANES_ONE_THREAD, name);
  (void)ls_runtime_make_current(NULL);
  status = ls_runtime_destroy(runtime);
  const bool ended = ls_status_is_ok(status);
  ls_status_free(status);
  return failures + !ended;
}

int lanes_run_tests(const unit_tests *tests) {
  int failures = unit_tests_run(tests, LANES_ONCE, "once") +
                 unit_tests_run(tests, LANES_ALL_WAYS, "side by side") +
                 run_lanes(tests, "blocks", 1);
  for (int threads = 1; threads <= 8; threads += threads == 3 ? 5 : 1)
    failures += run_lanes(tests, "threads", threads);
  return failures;
}

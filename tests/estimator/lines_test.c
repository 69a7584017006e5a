// SPDX-License-Identifier: Apache-2.0
// Lines of metrics.jsonl that a training with `lines` writes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/ops.h"
#include "lockstep/variable.h"
#include "support/estimator_ways.h"

enum { MOST_LINES = 8, LINE_SIZE = 400 };

typedef struct file_lines {
  char text[MOST_LINES][LINE_SIZE];
  int count;
} file_lines;

static file_lines read_lines(const char *folder) {
  char path[100];
  file_lines lines = {0};
  snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (lines.count < MOST_LINES &&
         fgets(lines.text[lines.count], LINE_SIZE, file) != NULL)
    ++lines.count;
  fclose(file);
  return lines;
}

// A member of a line; NaN if it has none.
static double member_of(const char *line, const char *key) {
  char quoted[40];
  snprintf(quoted, sizeof(quoted), "\"%s\":", key);
  const char *at = strstr(line, quoted);
  return at != NULL ? strtod(at + strlen(quoted), NULL) : NAN;
}

static ls_status train_with(estimator_case *c, ls_training_lines lines) {
  return ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){
          .input = estimator_input(c), .max_steps = LS_SOME(4), .lines = lines},
      NULL);
}

static file_lines train_in(int way, const char *folder,
                           ls_training_lines lines) {
  LS_OWN(estimator_case, c) = estimator_case_of(way);
  c.folder = folder;
  c.save_steps = (ls_opt)LS_SOME(4);
  estimator_case_begin(&c);
  expect_ok(train_with(&c, lines));
  return read_lines(folder);
}

TEST(a_training_writes_sums_and_a_line_with_the_norm_of_its_gradients) {
  double norms[ESTIMATOR_WAYS];
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    const file_lines lines =
        train_in(i, "lines",
                 (ls_training_lines){
                     .metrics = true, .checksum = 2, .gradient_norm = true});
    const file_lines plain =
        train_in(i, "plain", (ls_training_lines){.metrics = true});
    const char *last = lines.text[lines.count - 1];
    assert_int_equal(lines.count, 3);
    assert_non_null(strstr(lines.text[0], "\"step\":2,\"checksum\":"));
    assert_non_null(strstr(lines.text[1], "\"step\":4,\"checksum\":"));
    assert_int_equal(plain.count, 1);
    assert_true(member_of(last, "loss") == member_of(plain.text[0], "loss"));
    assert_true(isnan(member_of(plain.text[0], "gradient_norm")));
    norms[i] = member_of(last, "gradient_norm");
    assert_true(norms[i] > 0 && fabs(norms[i] - norms[0]) < 1e-5);
  }
}

// A model that counts steps, without an optimizer.
static ls_status count_steps(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  ls_variable *step = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){
          .mode = call->mode,
          .loss = ls_scalar(LS_DTYPE_F32, 1),
          .train_op = ls_tensor_op(
              ls_variable_assign_add(step, ls_scalar_i64(LS_DTYPE_I64, 1)))},
      out);
}

TEST(a_model_without_an_optimizer_has_no_norm_of_gradients) {
  LS_OWN(estimator_case, c) = {.folder = "lines"};
  c.more.model_fn = (ls_model_function){.call = count_steps};
  estimator_case_begin(&c);
  expect_status(train_with(&c, (ls_training_lines){.metrics = true,
                                                   .gradient_norm = true}),
                LS_INVALID_ARGUMENT, "gradient_norm");
}

// SPDX-License-Identifier: Apache-2.0
//
// Labels that are no class: the run fails and says so, in every way to run.
#include "base/memory/allocator.h"
#include "lockstep/lockstep.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/plugin.h"
#include "support/values.h"
#include "support/ways.h"

enum { ROWS = 3, CLASSES = 4 };

typedef struct label_case {
  ls_dtype dtype;
  double label;        // Of the last row of the last replica.
  bool gradient_only;  // The loss itself is not asked for.
} label_case;

static void make_weights(ways *self) {
  const double zeros[CLASSES] = {0};
  ways_vector(self, "w", CLASSES, zeros);
  expect_ok(ls_sgd_create(NULL, &self->optimizer));
}

static ls_nest labels_of(const ways *self, int step, int r) {
  (void)step;
  const label_case *row = self->user;
  double labels[ROWS] = {0, CLASSES - 1, 1};
  if (r == self->replicas - 1) labels[ROWS - 1] = row->label;
  return ls_nest_array(array_of(row->dtype, LS_SHAPE(ROWS), labels));
}

static ls_tensor loss_of(ls_nest labels, ways *self) {
  const ls_tensor logits =
      ls_mul(ls_variable_read(self->variables[0]),
             ls_fill(LS_DTYPE_F32, LS_SHAPE(ROWS, CLASSES), 1));
  return ls_mean_softmax_cross_entropy(logits, labels.as.tensor);
}

static ls_nest take_step(ls_nest labels, ways *self) {
  const label_case *row = self->user;
  const ls_nest made = ways_minimize(self, loss_of, labels);
  if (!row->gradient_only || ls_nest_is_failed(made)) return made;
  const ls_nest gradient = ls_nest_retain(ls_nest_item(made, 1));
  ls_nest_release(made);
  return gradient;
}

static void expect_said(label_case row, const char *says) {
  ways_hold(&(ways_case){.name = "labels",
                         .user = &row,
                         .make = make_weights,
                         .args = labels_of,
                         .step = take_step,
                         .refused = says == NULL ? LS_OK : LS_INVALID_ARGUMENT,
                         .says = says},
            1);
}

TEST(a_label_that_is_no_class_fails_the_run) {
  expect_said((label_case){LS_DTYPE_I32, .label = 3}, NULL);
  expect_said((label_case){LS_DTYPE_I32, .label = 4},
              "label 4 is none of the 4 classes, 0 to 3");
  expect_said((label_case){LS_DTYPE_I64, .label = -1},
              "label -1 is none of the 4 classes, 0 to 3");
  expect_said((label_case){LS_DTYPE_I64, .label = 0x1p40},
              "label 1099511627776 is none of the 4 classes");
  expect_said((label_case){LS_DTYPE_U8, .label = 255},
              "label 255 is none of the 4 classes");
  expect_said((label_case){LS_DTYPE_U64, .label = 0x1p63},
              "label 9223372036854775808 is none of the 4 classes");
}

TEST(the_gradient_alone_finds_it_too) {
  expect_said((label_case){LS_DTYPE_I32, .label = 4, .gradient_only = true},
              "label 4 is none of the 4 classes");
}

// The host checks what it sends.
TEST(devices_do_not_get_it) {
  LS_OWN(open_place, here) = plugin_runtime(2);
  expect_said((label_case){LS_DTYPE_I64, .label = -1},
              "label -1 is none of the 4 classes, 0 to 3");
  expect_said((label_case){LS_DTYPE_U8, .label = 255, .gradient_only = true},
              "label 255 is none of the 4 classes");
}

// A function names the op, with the user's line; the weights stay.
static ls_nest train(ls_nest args, void *user) {
  return take_step(ls_nest_item(args, 0), user);
}

static void train_with_a_wrong_label(void) {
  label_case row = {LS_DTYPE_I32, .label = 9};
  ways self = {.replicas = 1, .user = &row};
  LS_OWN(ls_nest, result) = ls_none();
  make_weights(&self);
  LS_OWN(ls_function, function) = unnamed_function(train, &self);
  const ls_nest args = LS_TUPLE(labels_of(&self, 0, 0));
  const ls_status status = ls_function_call(function, args, &result);
  expect_contains(ls_status_message(status), "labels_test.c:");
  expect_status(status, LS_INVALID_ARGUMENT,
                "label 9 is none of the 4 classes, 0 to 3\nin op "
                "'softmax_cross_entropy'");
  expect_variable(self.variables[0], (double[CLASSES]){0}, CLASSES, 0);
  ls_nest_release(args);
  row.label = 1;  // The next call finds nothing wrong.
  LS_OWN(ls_nest, right) = LS_TUPLE(labels_of(&self, 0, 0));
  expect_ok(ls_function_call(function, right, &result));
  ls_optimizer_release(self.optimizer);
  ls_variable_release(self.variables[0]);
}

static ls_nest lose(ls_nest none, void *labels) {
  (void)none;
  const ls_tensor logits = ls_fill(LS_DTYPE_F32, LS_SHAPE(ROWS, CLASSES), 1);
  return ls_leaf(
      ls_mean_softmax_cross_entropy(logits, *(const ls_tensor *)labels));
}

static ls_nest lose_nothing(ls_nest none, void *labels) {
  (void)none, (void)labels;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
}

static ls_nest lose_if(ls_nest args, void *user) {
  (void)user;
  ls_tensor labels = ls_nest_tensor(args, 1);
  LS_OWN(ls_nest, made) =
      ls_cond(ls_nest_tensor(args, 0), lose, lose_nothing, &labels);
  return ls_leaf(ls_nest_tensor(made, 0));
}

TEST(a_branch_that_is_not_taken_takes_any_labels) {
  label_case row = {LS_DTYPE_I32, .label = 9};
  const ways self = {.replicas = 1, .user = &row};
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_function, function) = unnamed_function(lose_if, NULL);
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_BOOL, LS_SCALAR, (double[]){0})),
               labels_of(&self, 0, 0));
  expect_ok(ls_function_call(function, args, &result));
}

TEST(the_loss_is_named_and_weights_stay) { train_with_a_wrong_label(); }

TEST(on_a_device_the_loss_is_named_and_weights_stay) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  train_with_a_wrong_label();
}

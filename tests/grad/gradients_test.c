// SPDX-License-Identifier: Apache-2.0
//
// What gradients build: which ops, in which order, with which names, and what
// is refused. Their values are checked in rules_test.c.
#include <string.h>

#include "grad/grad.h"
#include "graph/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/gradient_graph.h"
#include "support/spec.h"

#define F32(...) LS_DTYPE_F32, LS_SHAPE(__VA_ARGS__)

// ---- The table -------------------------------------------------------------
TEST(every_op_has_a_rule_or_a_mark) {
  for (int i = LS_OP_NONE; i < LS_OP_COUNT; ++i)
    assert_non_null(ls_gradient_table[i]);
  assert_ptr_equal(ls_gradient_table[LS_OP_ARGMAX], gradient_none);
  assert_ptr_equal(ls_gradient_table[LS_OP_REDUCE_MIN], gradient_reduce_max);
}

// ---- The walk --------------------------------------------------------------
TEST(only_trainable_paths_are_visited) {
  LS_SPEC("O187");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x"), other = gradient_input("other");
  const ls_tensor class = ls_argmax(x, 1);
  const ls_tensor hot = ls_one_hot(class, 3, LS_DTYPE_F32);
  const ls_tensor dead = ls_tanh(other);
  const ls_tensor y = ls_add(ls_mul(hot, ls_exp(x)), dead);
  const size_t before = ls_graph_num_ops(f->graph);
  gradient_of(y, x, NULL);
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/grad_ys_0 gradients/mul_grad/mul "
                      "gradients/exp_grad/mul");
  const ls_nest none[] = {ls_leaf(class)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(none, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
}

TEST(operands_that_only_lend_dimensions_are_not_followed) {
  LS_SPEC("O187");
  gradient_graph *f = *state;
  const ls_tensor x = ls_placeholder(F32(-1, 3), "x");
  const ls_tensor like = ls_exp(x);
  const ls_tensor y = ls_broadcast_like(ls_scalar(LS_DTYPE_F32, 2), like);
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  assert_string_equal(gradient_names_from(f, before), "gradients/grad_ys_0");
}

TEST(an_op_is_visited_once_when_all_its_gradients_are_there) {
  LS_SPEC("O188 O198");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  const ls_tensor a = ls_exp(x);  // Feeds b and, as a y, also waits.
  const ls_tensor b = ls_tanh(a);
  const ls_tensor c = ls_sigmoid(a);
  const ls_nest ys[] = {ls_leaf(a), ls_leaf(c), ls_leaf(b)};
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 3, xs, 1, NULL, grads));
  assert_string_equal(
      gradient_names_from(f, before),
      "gradients/grad_ys_0 gradients/grad_ys_1 gradients/grad_ys_2 "
      "gradients/sigmoid_grad/sub gradients/sigmoid_grad/mul "
      "gradients/sigmoid_grad/mul_1 "
      "gradients/tanh_grad/mul gradients/tanh_grad/sub "
      "gradients/tanh_grad/mul_1 "
      "gradients/add_n gradients/exp_grad/mul");
  const ls_op sum = gradient_op(f, "gradients/add_n");
  assert_int_equal(ls_op_num_inputs(sum), 3);
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 0)),
                      "gradients/grad_ys_0:0");
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 1)),
                      "gradients/sigmoid_grad/mul_1:0");
}

TEST(gradients_behind_one_another_are_total_or_partial) {
  LS_SPEC("O189");
  gradient_graph *f = *state;
  const ls_tensor a = gradient_input("a");
  const ls_tensor b = ls_mul_scalar(a, 2);
  const ls_nest ys[] = {ls_leaf(ls_add(a, b))};
  const ls_nest xs[] = {ls_leaf(a), ls_leaf(b)};
  ls_nest grads[2];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/grad_ys_0 gradients/mul_grad/mul "
                      "gradients/add_n");
  expect_ok(ls_gradients(
      ys, 1, xs, 2,
      &(ls_gradient_options){.stop_gradients = xs, .num_stop_gradients = 2},
      grads));
  for (int i = 0; i < 2; ++i)
    assert_string_equal(ls_tensor_name(ls_nest_tensor(grads[i], 0)),
                        "gradients_1/grad_ys_0:0");
}

TEST(stop_gradient_and_ops_marked_none_end_a_path) {
  LS_SPEC("O191");
  const ls_tensor x = gradient_input("x");
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_nest stopped[] = {ls_leaf(ls_stop_gradient(x))};
  expect_ok(ls_gradients(stopped, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  const ls_nest sign[] = {ls_leaf(ls_sign(x))};
  expect_ok(ls_gradients(sign, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
}

TEST(an_op_without_gradient_is_refused_and_leaves_no_trace) {
  LS_SPEC("O191");
  gradient_graph *f = *state;
  LS_OWN(ls_variable, variable) = gradient_variable("v");
  const ls_tensor x = gradient_input("x");
  const ls_tensor y = ls_exp(ls_variable_assign(variable, x));
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_status status = gradient_refusal(y, x, NULL);
  expect_contains(ls_status_message(status), "stop_gradient");
  expect_status(status, LS_NOT_FOUND, "op 'assign' (assign)");
  assert_int_equal(ls_graph_num_ops(f->graph), before);
}

TEST(all_reduce_by_max_has_no_gradient) {
  LS_SPEC("O191");
  const ls_tensor x = gradient_input("x");
  gradient_of(ls_all_reduce(LS_REDUCE_MEAN, x), x, NULL);
  expect_status(gradient_refusal(ls_all_reduce(LS_REDUCE_MAX, x), x, NULL),
                LS_NOT_FOUND, "all_reduce by max");
}

TEST(a_gradient_that_cannot_fit_its_operand_is_refused) {
  LS_SPEC("O192");
  const ls_tensor x = gradient_input("x");
  const ls_nest grad_ys[] = {ls_leaf(ls_placeholder(F32(5, 3), "too_many"))};
  const ls_status status = gradient_refusal(
      ls_neg(x), x, &(ls_gradient_options){.grad_ys = grad_ys});
  expect_contains(ls_status_message(status), "y 0, 'neg:0'");
  expect_contains(ls_status_message(status), "f32[2,3]");
  expect_contains(ls_status_message(status), "f32[5,3]");
  expect_status(status, LS_INVALID_ARGUMENT, "Incompatible shapes");
}

TEST(a_gradient_takes_over_the_shape_of_its_operand) {
  LS_SPEC("O192");
  const ls_tensor x = gradient_input("x");
  const ls_nest grad_ys[] = {ls_leaf(ls_placeholder(F32(-1, -1), "unknown"))};
  const ls_tensor g =
      gradient_of(ls_neg(x), x, &(ls_gradient_options){.grad_ys = grad_ys});
  assert_true(ls_shape_equal(ls_tensor_shape(g), LS_SHAPE(2, 3)));
}

TEST(an_unconnected_x_gives_none_or_zeros) {
  LS_SPEC("O201");
  gradient_graph *f = *state;
  LS_OWN(ls_variable, variable) = gradient_variable("v");
  const ls_tensor x = gradient_input("x"), z = gradient_input("z");
  const ls_nest ys[] = {ls_leaf(ls_exp(x))};
  const ls_nest xs[] = {ls_leaf(z), ls_nest_variable(variable)};
  ls_nest grads[2];
  expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  assert_int_equal(grads[1].kind, LS_KIND_NONE);
  expect_ok(ls_gradients(
      ys, 1, xs, 2, &(ls_gradient_options){.unconnected_zero = true}, grads));
  for (int i = 0; i < 2; ++i) {
    const ls_tensor zero = ls_nest_tensor(grads[i], 0);
    assert_true(ls_shape_equal(ls_tensor_shape(zero), LS_SHAPE(2, 3)));
    assert_int_equal(ls_op_type(ls_tensor_op(zero)), LS_OP_BROADCAST);
    const ls_attr *value = NULL;
    expect_ok(ls_op_attr(ls_tensor_op(ls_op_input(ls_tensor_op(zero), 0)),
                         "value", &value));
    assert_true(ls_array_f64(value->as.array, 0) == 0);
  }
  (void)f;
  ls_nest_release(xs[1]);
}

// ---- Variables -------------------------------------------------------------
TEST(the_gradient_of_a_variable_sums_over_its_reads_in_order) {
  LS_SPEC("O178 O196");
  gradient_graph *f = *state;
  LS_OWN(ls_variable, variable) = gradient_variable("v");
  const ls_tensor first = ls_variable_read(variable);
  const ls_tensor second = ls_variable_read(variable);
  const ls_tensor unused = ls_variable_read(variable);
  (void)unused;
  // The second read is visited first.
  const ls_tensor slow = ls_exp(ls_tanh(first)), fast = ls_exp(second);
  const ls_tensor y = ls_add(slow, fast);
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_nest_variable(variable)};
  ls_nest grads[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
  const ls_op sum = ls_tensor_op(ls_nest_tensor(grads[0], 0));
  assert_string_equal(ls_op_name(sum), "gradients/add_n");
  assert_int_equal(ls_op_num_inputs(sum), 2);
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 0)),
                      "gradients/tanh_grad/mul_1:0");
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 1)),
                      "gradients/exp_1_grad/mul:0");
  (void)f;
  ls_nest_release(xs[0]);
}

TEST(a_variable_as_y_stands_for_its_value) {
  LS_SPEC("O178");
  gradient_graph *f = *state;
  LS_OWN(ls_variable, variable) = gradient_variable("v");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_nest v[] = {ls_nest_variable(variable)};
  ls_nest grads[1];
  expect_ok(ls_gradients(v, 1, v, 1, NULL, grads));
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/read_variable gradients/grad_ys_0");
  assert_string_equal(ls_tensor_name(ls_nest_tensor(grads[0], 0)),
                      "gradients/grad_ys_0:0");
  ls_nest_release(v[0]);
}

// ---- Log -------------------------------------------------------------------
static char log_text[4096];

static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  if (strcmp(line->source, "grad") != 0) return;
  strncat(log_text, line->text, sizeof(log_text) - strlen(log_text) - 2);
  strcat(log_text, "\n");
}

static const char *verbose(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_DEBUG") == 0 ? "grad:2" : NULL;
}

TEST(the_log_tells_gradients_and_sums) {
  LS_SPEC("O202");
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = keep_line, .environment = verbose},
      &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_graph *graph = graph_named("logged");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = gradient_input("x");
    gradient_of(ls_mul(ls_exp(x), x), x, NULL);
  }
  ls_graph_destroy(graph);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
  expect_contains(log_text,
                  "mul: gradients/grad_ys_0:0 -> gradients/mul_grad/mul:0 "
                  "gradients/mul_grad/mul_1:0\n");
  expect_contains(log_text, "exp: 1 terms of f32[2,3], nop\n");
  expect_contains(log_text, "x: 2 terms of f32[2,3], add_n\n");
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(build_and_differentiate) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("memory", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = gradient_input("x");
    const ls_tensor y = ls_mul(ls_exp(x), x);
    LS_RETURN_IF_ERROR(ls_graph_error(graph));
    LS_RETURN_IF_ERROR(gradient_refusal(y, x, NULL));
  }
  return ls_ok();
}

TEST_FILE(.before_each = gradient_graph_set_up,
          .after_each = gradient_graph_tear_down)

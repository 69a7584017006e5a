// SPDX-License-Identifier: Apache-2.0
//
// Where gradient ops stand, what gates hold back, and how terms are added.
#include <stdio.h>

#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "support/expect.h"
#include "support/gradient_graph.h"
#include "support/spec.h"

TEST(gradient_ops_can_stand_beside_their_forward_ops) {
  LS_SPEC("O181 O48");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  ls_tensor y;
  {
    LS_DEVICE_SCOPE("/device:CPU:1");
    y = ls_exp(x);
  }
  gradient_of(y, x, NULL);
  gradient_of(y, x, &(ls_gradient_options){.colocate_with_ops = true});
  const ls_op plain = gradient_op(f, "gradients/exp_grad/mul");
  assert_string_equal(ls_op_device(plain), "");
  assert_string_equal(gradient_strings(f, plain, "_class"), "");
  const char *const beside[] = {"gradients_1/grad_ys_0",
                                "gradients_1/exp_grad/mul"};
  for (int i = 0; i < 2; ++i) {
    const ls_op op = gradient_op(f, beside[i]);
    assert_string_equal(ls_op_device(op), "/device:CPU:1");
    assert_string_equal(gradient_strings(f, op, "_class"), "loc:@exp");
  }
}

TEST(gates_hold_back_the_gradients_of_an_op_until_all_are_there) {
  LS_SPEC("O195");
  gradient_graph *f = *state;
  const ls_tensor a = gradient_input("a"), b = gradient_input("b");
  ls_tensor y;
  {
    LS_DEVICE_SCOPE("/device:CPU:1");
    y = ls_mul(a, b);
  }
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(a), ls_leaf(b)};
  ls_nest grads[2];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(
      ys, 1, xs, 2,
      &(ls_gradient_options){.gate = true, .colocate_with_ops = true}, grads));
  assert_string_equal(
      gradient_names_from(f, before),
      "gradients/grad_ys_0 gradients/mul_grad/mul gradients/mul_grad/mul_1 "
      "gradients/mul_grad/tuple/group_deps "
      "gradients/mul_grad/tuple/control_dependency "
      "gradients/mul_grad/tuple/control_dependency_1");
  const ls_op gate = gradient_op(f, "gradients/mul_grad/tuple/group_deps");
  assert_int_equal(ls_op_num_control_inputs(gate), 2);
  assert_string_equal(ls_op_device(gate), "/device:CPU:1");
  assert_string_equal(gradient_strings(f, gate, "_class"), "");
  const ls_op second = ls_tensor_op(ls_nest_tensor(grads[1], 0));
  assert_string_equal(ls_op_name(second),
                      "gradients/mul_grad/tuple/control_dependency_1");
  assert_int_equal(ls_op_control_input(second, 0).id, gate.id);
  assert_string_equal(gradient_strings(f, second, "_class"), "loc:@mul");
  // One gradient needs no gate.
  const size_t one = ls_graph_num_ops(f->graph);
  gradient_of(y, a, &(ls_gradient_options){.gate = true});
  assert_string_equal(gradient_names_from(f, one),
                      "gradients_1/grad_ys_0 gradients_1/mul_grad/mul");
}

TEST(terms_are_grouped_by_device_in_sorted_order) {
  LS_SPEC("O196 O200");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  static const char *const devices[] = {"/device:CPU:2", "/device:CPU:1", NULL,
                                        "/device:CPU:2", "/device:CPU:1"};
  ls_nest ys[5];
  for (int i = 0; i < 5; ++i) {
    ls_scope device = {0};
    if (devices[i] != NULL) ls_device_scope_begin(&device, devices[i]);
    ys[i] = ls_leaf(ls_exp(x));
    ls_scope_end(&device);
  }
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(
      ys, 5, xs, 1, &(ls_gradient_options){.colocate_with_ops = true}, grads));
  // No device first: one term, no op. Then a sum a device, then one of those.
  const ls_op total = ls_tensor_op(ls_nest_tensor(grads[0], 0));
  assert_string_equal(ls_op_name(total), "gradients/add_n_2");
  static const char *const inputs[] = {
      "gradients/exp_2_grad/mul:0", "gradients/add_n:0", "gradients/add_n_1:0"};
  for (size_t i = 0; i < 3; ++i)
    assert_string_equal(ls_tensor_name(ls_op_input(total, i)), inputs[i]);
  const ls_op first = gradient_op(f, "gradients/add_n");
  assert_string_equal(ls_op_device(first), "/device:CPU:1");
  assert_string_equal(gradient_strings(f, first, "_class"), "loc:@exp_1");
  assert_string_equal(ls_tensor_name(ls_op_input(first, 1)),
                      "gradients/exp_4_grad/mul:0");
  assert_string_equal(gradient_strings(f, total, "_class"), "loc:@x");
}

TEST(sums_stand_beside_their_first_term_even_without_colocation) {
  LS_SPEC("O196");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  const ls_tensor e = ls_exp(x), t = ls_tanh(x);
  gradient_of(ls_add(e, t), x, NULL);
  assert_string_equal(
      gradient_strings(f, gradient_op(f, "gradients/add_n"), "_class"),
      "loc:@gradients/exp_grad/mul");
}

TEST(trees_and_accumulation_add_in_pairs) {
  LS_SPEC("O197");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  const ls_tensor y = ls_add(ls_add(ls_exp(x), ls_exp(x)), ls_exp(x));
  for (int aggregation = 1; aggregation <= 2; ++aggregation) {
    gradient_of(y, x, &(ls_gradient_options){.aggregation = aggregation});
    const char *scope = aggregation == 1 ? "gradients" : "gradients_1";
    char name[80];
    snprintf(name, sizeof(name), "%s/x_gradient_sum/add_n_1", scope);
    const ls_op last = gradient_op(f, name);
    assert_int_equal(ls_op_num_inputs(last), 2);
    snprintf(name, sizeof(name), "%s/x_gradient_sum/add_n:0", scope);
    assert_string_equal(ls_tensor_name(ls_op_input(last, 0)), name);
  }
}

TEST(what_comes_behind_a_sum_in_pairs_is_not_in_its_scope) {
  const ls_tensor x = gradient_input("x"), t = ls_tanh(x);
  const ls_tensor y = ls_add(ls_add(ls_exp(t), ls_exp(t)), ls_exp(t));
  const ls_tensor d =
      gradient_of(y, x, &(ls_gradient_options){.aggregation = 1});
  expect_contains(ls_tensor_name(d), "gradients/tanh_grad/");
}

// The branch reads a variable.
static ls_nest squared(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_square(ls_variable_read(user)));
}

static ls_nest as_it_is(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_identity(ls_variable_read(user)));
}

static ls_tensor chosen(ls_tensor predicate, ls_variable *v) {
  LS_OWN(ls_nest, made) = ls_cond(predicate, squared, as_it_is, v);
  return ls_nest_tensor(made, 0);
}

TEST(reads_inside_of_ops_are_added_in_the_order_of_the_ops) {
  const gradient_graph *f = *state;
  LS_OWN(ls_variable, v) = gradient_variable("v");
  const ls_tensor p = ls_placeholder(LS_DTYPE_BOOL, LS_SCALAR, "p");
  const ls_tensor first = chosen(p, v), second = chosen(p, v);
  const ls_nest y = ls_leaf(ls_add(second, first));
  LS_OWN(ls_nest, x) = ls_nest_variable(v);
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&y, 1, &x, 1, NULL, &gradient));
  const ls_op sum = gradient_op(f, "gradients/add_n");
  expect_contains(ls_tensor_name(ls_op_input(sum, 0)), "/cond_grad/");
  expect_contains(ls_tensor_name(ls_op_input(sum, 1)), "/cond_1_grad/");
}

TEST_FILE(.before_each = gradient_graph_set_up,
          .after_each = gradient_graph_tear_down)

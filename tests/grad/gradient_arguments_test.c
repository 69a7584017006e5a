// SPDX-License-Identifier: Apache-2.0
//
// What gradients are asked for: ys, xs, given gradients, and the scope.

#include "lockstep/graph_ops.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_graph.h"
#include "support/spec.h"

// ---- Arguments and scope ---------------------------------------------------
TEST(ops_stand_in_scopes_of_the_call_and_of_the_forward_op) {
  LS_SPEC("O178 O183 O190");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  ls_tensor y;
  {
    LS_NAME_SCOPE("layer");
    y = ls_exp(x);
  }
  const size_t before = ls_graph_num_ops(f->graph);
  gradient_of(y, x, NULL);
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/grad_ys_0 gradients/layer/exp_grad/mul");
  const size_t again = ls_graph_num_ops(f->graph);
  gradient_of(y, x, NULL);
  assert_string_equal(gradient_names_from(f, again),
                      "gradients_1/grad_ys_0 gradients_1/layer/exp_grad/mul");
  const size_t named = ls_graph_num_ops(f->graph);
  {
    LS_NAME_SCOPE("train");
    gradient_of(y, x, &(ls_gradient_options){.name = "back"});
  }
  assert_string_equal(gradient_names_from(f, named),
                      "train/back/grad_ys_0 train/back/layer/exp_grad/mul");
  const size_t reentered = ls_graph_num_ops(f->graph);
  gradient_of(y, x, &(ls_gradient_options){.name = "train/back/"});
  assert_string_equal(gradient_names_from(f, reentered),
                      "train/back/grad_ys_0_1 train/back/layer/exp_grad_1/mul");
}

TEST(each_call_takes_a_name_of_its_own_as_uid) {
  LS_SPEC("O179");
  const ls_tensor x = gradient_input("x");
  gradient_of(ls_exp(x), x, NULL);
  {
    LS_NAME_SCOPE("gradients/");
    const ls_tensor t = ls_identity_named(x, "uid");
    assert_string_equal(ls_op_name(ls_tensor_op(t)), "gradients/uid_1");
  }
}

TEST(gradients_of_several_ys_add_up_and_an_x_given_twice_agrees) {
  LS_SPEC("O175 O176");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x"), z = gradient_input("z");
  const ls_tensor e = ls_exp(x), l = ls_log(x);
  const ls_nest ys[] = {ls_leaf(e), ls_leaf(l)};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(z), ls_leaf(x)};
  ls_nest grads[3];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 2, xs, 3, NULL, grads));
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/grad_ys_0 gradients/grad_ys_1 "
                      "gradients/exp_grad/mul gradients/log_grad/div "
                      "gradients/add_n");
  assert_true(ls_nest_is_same(grads[0], grads[2]));
  assert_int_equal(grads[1].kind, LS_KIND_NONE);
  assert_string_equal(ls_tensor_name(ls_nest_tensor(grads[0], 0)),
                      "gradients/add_n:0");
}

TEST(gradients_are_refused_in_an_eager_graph) {
  LS_SPEC("O177");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  const ls_tensor y = ls_exp(x);
  ls_scope_end(&f->scope);  // Nothing is open now: eager.
  expect_status(gradient_refusal(y, x, NULL), LS_FAILED_PRECONDITION, "tape");
  ls_graph_begin(&f->scope, f->graph);
}

TEST(there_are_as_many_grad_ys_as_ys) {
  LS_SPEC("O182");
  const ls_tensor x = gradient_input("x");
  const ls_nest given[] = {ls_leaf(x), ls_leaf(x)};
  expect_status(gradient_refusal(
                    ls_exp(x), x,
                    &(ls_gradient_options){.grad_ys = given, .num_grad_ys = 2}),
                LS_INVALID_ARGUMENT, "Length mismatch: 1 ys and 2 grad_ys");
  // None for all is what there is without any.
  const ls_nest y = ls_leaf(ls_exp(x)), xs = ls_leaf(x), none = ls_none();
  ls_nest grads[2];
  expect_ok(ls_gradients(&y, 1, &xs, 1, NULL, &grads[0]));
  expect_ok(ls_gradients(
      &y, 1, &xs, 1, &(ls_gradient_options){.grad_ys = &none, .num_grad_ys = 1},
      &grads[1]));
  for (int i = 0; i < 2; ++i)
    assert_string_equal(
        ls_op_type_name(ls_tensor_op(ls_nest_tensor(grads[i], 0))), "mul");
}

TEST(an_unknown_aggregation_is_refused) {
  LS_SPEC("O180");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_status status =
      gradient_refusal(x, x, &(ls_gradient_options){.aggregation = 3});
  expect_contains(ls_status_message(status), "0 (add_n), 1 (tree), 2 "
                                             "(accumulate_n)");
  expect_status(status, LS_INVALID_ARGUMENT, "aggregation 3");
  assert_int_equal(ls_graph_num_ops(f->graph), before);
}

TEST(values_out_of_reach_are_refused_by_name) {
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  ls_graph *other = graph_named("elsewhere");
  ls_tensor stranger;
  {
    LS_GRAPH_SCOPE(other);
    stranger = gradient_input("stranger");
  }
  expect_status(gradient_refusal(x, stranger, NULL), LS_INVALID_ARGUMENT,
                "x 0, 'stranger:0', belongs to graph 'elsewhere'");
  expect_status(gradient_refusal(stranger, x, NULL), LS_INVALID_ARGUMENT,
                "y 0");
  expect_status(gradient_refusal(x, ls_failed_tensor(), NULL),
                LS_INVALID_ARGUMENT, "failed tensor");
  const ls_nest ys[] = {ls_leaf(x)}, xs[] = {ls_nest_i64(3)};
  ls_nest grads[1];
  expect_status(ls_gradients(ys, 1, xs, 1, NULL, grads), LS_INVALID_ARGUMENT,
                "must be a tensor or a variable");
  ls_graph_destroy(other);
  assert_int_equal(ls_graph_num_ops(f->graph), 1);
}

// ---- Default and given gradients of y --------------------------------------
TEST(a_given_gradient_is_passed_through_a_named_identity) {
  LS_SPEC("O183");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x"), given = gradient_input("given");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_nest grad_ys[] = {ls_leaf(given)};
  const ls_tensor g =
      gradient_of(x, x, &(ls_gradient_options){.grad_ys = grad_ys});
  assert_string_equal(gradient_names_from(f, before), "gradients/grad_ys_0");
  assert_string_equal(ls_tensor_name(g), "gradients/grad_ys_0:0");
  assert_true(ls_tensor_equal(ls_op_input(ls_tensor_op(g), 0), given));
}

TEST(types_of_given_gradients_must_suit_their_y) {
  LS_SPEC("O184 O185");
  static const struct {
    ls_dtype y, given;  // given LS_DTYPE_NONE: none is given.
    const char *part;   // NULL: accepted.
  } rows[] = {
      {LS_DTYPE_C64, LS_DTYPE_NONE,
       "Gradients of complex tensors must set grad_ys"},
      {LS_DTYPE_C64, LS_DTYPE_C128, NULL},
      {LS_DTYPE_C64, LS_DTYPE_F32, "must be complex"},
      {LS_DTYPE_F32, LS_DTYPE_C64, "must be real or integer"},
      {LS_DTYPE_I32, LS_DTYPE_F32, NULL},
      {LS_DTYPE_I32, LS_DTYPE_STRING, "must be real or integer"},
      {LS_DTYPE_VARIANT, LS_DTYPE_VARIANT, NULL},
      {LS_DTYPE_VARIANT, LS_DTYPE_F32, "must be variant"},
      {LS_DTYPE_RESOURCE, LS_DTYPE_RESOURCE, "must be no resource"},
      {LS_DTYPE_RESOURCE, LS_DTYPE_F32, NULL},
      {LS_DTYPE_BOOL, LS_DTYPE_F32, "must be numeric"},
      {LS_DTYPE_STRING, LS_DTYPE_STRING, "must be numeric"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    const ls_tensor y = ls_placeholder(rows[i].y, LS_SCALAR, "y");
    ls_nest given = ls_none();
    if (rows[i].given != LS_DTYPE_NONE)
      given = ls_leaf(ls_placeholder(rows[i].given, LS_SCALAR, "given"));
    const ls_status status =
        gradient_refusal(y, y, &(ls_gradient_options){.grad_ys = &given});
    if (rows[i].part == NULL) {
      expect_ok(status);
      continue;
    }
    expect_contains(ls_status_message(status), ls_dtype_name(rows[i].y));
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].part);
  }
}

TEST(a_given_gradient_has_the_shape_and_gets_the_type_of_its_y) {
  LS_SPEC("O185 O192");
  const ls_tensor x = gradient_input("x");
  const ls_tensor y = ls_reduce_sum_keep(x, LS_AXES(0));
  const struct {
    ls_type given;
    const char *part;  // NULL: accepted.
  } rows[] = {
      {{LS_DTYPE_F32, LS_SHAPE(2, 1)}, "f32[1,3], its grad_ys f32[2,1]"},
      {{LS_DTYPE_F32, LS_SCALAR}, "f32[1,3], its grad_ys f32[]"},
      {{LS_DTYPE_F32, LS_SHAPE(3)}, "f32[1,3], its grad_ys f32[3]"},
      {{LS_DTYPE_F32, LS_SHAPE(-1, 3)}, NULL},
      {{LS_DTYPE_I32, LS_SHAPE(1, 3)}, NULL},
      {{LS_DTYPE_F64, LS_SHAPE(1, 3)}, NULL},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    const ls_type type = rows[i].given;
    const ls_nest given =
        ls_leaf(ls_placeholder(type.dtype, type.shape, "given"));
    const ls_gradient_options options = {.grad_ys = &given};
    if (rows[i].part != NULL)
      expect_status(gradient_refusal(y, x, &options), LS_INVALID_ARGUMENT,
                    rows[i].part);
    else
      assert_int_equal(ls_tensor_dtype(gradient_of(y, x, &options)),
                       LS_DTYPE_F32);
  }
}

TEST_FILE(.before_each = gradient_graph_set_up,
          .after_each = gradient_graph_tear_down)

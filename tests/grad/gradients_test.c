// SPDX-License-Identifier: Apache-2.0
//
// What gradients build: which ops, in which order, with which names, and what
// is refused. Their values are checked in rules_test.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"
#include "graph/context.h"
#include "graph/region.h"
#include "support/expect.h"
#include "support/spec.h"

#define F32(...) LS_DTYPE_F32, LS_SHAPE(__VA_ARGS__)

// ---- A graph to build in ---------------------------------------------------
typedef struct fixture {
  ls_graph *graph;
  ls_scope scope;
  char text[16384];
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof(*f));
  *state = f;
  expect_ok(ls_graph_create("test", &f->graph));
  ls_graph_begin(&f->scope, f->graph);
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  expect_ok(ls_graph_error(f->graph));
  expect_ok(ls_graph_verify(f->graph));
  ls_scope_end(&f->scope);
  ls_graph_destroy(f->graph);
  free(f);
  return 0;
}

static ls_tensor input(const char *name) {
  return ls_placeholder(F32(2, 3), name);
}

static ls_variable *make_variable(const char *name) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.name = name,
                                                      .dtype = LS_DTYPE_F32,
                                                      .shape = LS_SHAPE(2, 3)},
                               &variable));
  return variable;
}

// The gradient of y with respect to x.
static ls_tensor gradient(ls_tensor y, ls_tensor x,
                          const ls_gradient_options *options) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, options, grads));
  return ls_nest_tensor(grads[0], 0);
}

static ls_status refusal(ls_tensor y, ls_tensor x,
                         const ls_gradient_options *options) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  return ls_gradients(ys, 1, xs, 1, options, grads);
}

// The names of the ops from number `from`, constants and shapes left out.
static const char *names_from(fixture *f, size_t from) {
  size_t at = 0;
  f->text[0] = '\0';
  for (size_t i = from; i < ls_graph_num_ops(f->graph); ++i) {
    const ls_op op = ls_graph_op(f->graph, i);
    if (ls_op_type(op) == LS_OP_CONSTANT || ls_op_type(op) == LS_OP_BROADCAST)
      continue;
    at += (size_t)snprintf(f->text + at, sizeof(f->text) - at, "%s%s",
                           at == 0 ? "" : " ", ls_op_name(op));
  }
  return f->text;
}

static ls_op op_named(const fixture *f, const char *name) {
  ls_op op;
  expect_ok(ls_graph_lookup_op(f->graph, name, &op));
  return op;
}

// "a b" of an attribute that is a list of texts; "" without it.
static const char *strings_of(fixture *f, ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  ls_status_free(ls_op_attr(op, name, &attr));
  f->text[0] = '\0';
  for (size_t i = 0; attr != NULL && i < attr->as.strings.count; ++i) {
    if (i != 0) strcat(f->text, " ");
    strcat(f->text, attr->as.strings.items[i]);
  }
  return f->text;
}

// ---- The table -------------------------------------------------------------
static void every_op_has_a_rule_or_a_mark(void **state) {
  (void)state;
  for (int i = LS_OP_NONE; i < LS_OP_COUNT; ++i)
    assert_non_null(ls_gradient_table[i]);
  assert_ptr_equal(ls_gradient_table[LS_OP_ARGMAX], gradient_none);
  assert_ptr_equal(ls_gradient_table[LS_OP_REDUCE_MIN], gradient_reduce_max);
}

// ---- Arguments and scope ---------------------------------------------------
static void
ops_stand_in_scopes_of_the_call_and_of_the_forward_op(void **state) {
  LS_SPEC("O178 O183 O190");
  fixture *f = *state;
  const ls_tensor x = input("x");
  ls_tensor y;
  LS_NAME_SCOPE("layer") { y = ls_exp(x); }
  const size_t before = ls_graph_num_ops(f->graph);
  gradient(y, x, NULL);
  assert_string_equal(names_from(f, before),
                      "gradients/grad_ys_0 gradients/layer/exp_grad/mul");
  const size_t again = ls_graph_num_ops(f->graph);
  gradient(y, x, NULL);
  assert_string_equal(names_from(f, again),
                      "gradients_1/grad_ys_0 gradients_1/layer/exp_grad/mul");
  const size_t named = ls_graph_num_ops(f->graph);
  LS_NAME_SCOPE("train") {
    gradient(y, x, &(ls_gradient_options){.name = "back"});
  }
  assert_string_equal(names_from(f, named),
                      "train/back/grad_ys_0 train/back/layer/exp_grad/mul");
  const size_t reentered = ls_graph_num_ops(f->graph);
  gradient(y, x, &(ls_gradient_options){.name = "train/back/"});
  assert_string_equal(names_from(f, reentered),
                      "train/back/grad_ys_0_1 train/back/layer/exp_grad_1/mul");
}

static void each_call_takes_a_name_of_its_own_as_uid(void **state) {
  LS_SPEC("O179");
  (void)state;
  const ls_tensor x = input("x");
  gradient(ls_exp(x), x, NULL);
  LS_NAME_SCOPE("gradients/") {
    const ls_tensor t = ls_identity_named(x, "uid");
    assert_string_equal(ls_op_name(ls_tensor_op(t)), "gradients/uid_1");
  }
}

static void
gradients_of_several_ys_add_up_and_an_x_given_twice_agrees(void **state) {
  LS_SPEC("O175 O176");
  fixture *f = *state;
  const ls_tensor x = input("x"), z = input("z");
  const ls_tensor e = ls_exp(x), l = ls_log(x);
  const ls_nest ys[] = {ls_leaf(e), ls_leaf(l)};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(z), ls_leaf(x)};
  ls_nest grads[3];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 2, xs, 3, NULL, grads));
  assert_string_equal(names_from(f, before),
                      "gradients/grad_ys_0 gradients/grad_ys_1 "
                      "gradients/exp_grad/mul gradients/log_grad/div "
                      "gradients/add_n");
  assert_true(ls_nest_is_same(grads[0], grads[2]));
  assert_int_equal(grads[1].kind, LS_KIND_NONE);
  assert_string_equal(ls_tensor_name(ls_nest_tensor(grads[0], 0)),
                      "gradients/add_n:0");
}

static void gradients_are_refused_in_an_eager_graph(void **state) {
  LS_SPEC("O177");
  fixture *f = *state;
  const ls_tensor x = input("x");
  const ls_tensor y = ls_exp(x);
  ls_scope_end(&f->scope);  // Nothing is open now: eager.
  expect_status(refusal(y, x, NULL), LS_FAILED_PRECONDITION, "tape");
  ls_graph_begin(&f->scope, f->graph);
}

static void an_unknown_aggregation_is_refused(void **state) {
  LS_SPEC("O180");
  fixture *f = *state;
  const ls_tensor x = input("x");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_status status =
      refusal(x, x, &(ls_gradient_options){.aggregation = 3});
  expect_contains(ls_status_message(status), "0 (add_n), 1 (tree), 2 "
                                             "(accumulate_n)");
  expect_status(status, LS_INVALID_ARGUMENT, "aggregation 3");
  assert_int_equal(ls_graph_num_ops(f->graph), before);
}

static void values_out_of_reach_are_refused_by_name(void **state) {
  fixture *f = *state;
  const ls_tensor x = input("x");
  ls_graph *other = NULL;
  expect_ok(ls_graph_create("elsewhere", &other));
  ls_tensor stranger;
  LS_GRAPH_SCOPE(other) { stranger = input("stranger"); }
  expect_status(refusal(x, stranger, NULL), LS_INVALID_ARGUMENT,
                "x 0, 'stranger:0', belongs to graph 'elsewhere'");
  expect_status(refusal(stranger, x, NULL), LS_INVALID_ARGUMENT, "y 0");
  expect_status(refusal(x, ls_failed_tensor(), NULL), LS_INVALID_ARGUMENT,
                "failed tensor");
  const ls_nest ys[] = {ls_leaf(x)}, xs[] = {ls_nest_i64(3)};
  ls_nest grads[1];
  expect_status(ls_gradients(ys, 1, xs, 1, NULL, grads), LS_INVALID_ARGUMENT,
                "must be a tensor or a variable");
  ls_graph_destroy(other);
  assert_int_equal(ls_graph_num_ops(f->graph), 1);
}

// ---- Default and given gradients of y --------------------------------------
static void a_given_gradient_is_passed_through_a_named_identity(void **state) {
  LS_SPEC("O183");
  fixture *f = *state;
  const ls_tensor x = input("x"), given = input("given");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_nest grad_ys[] = {ls_leaf(given)};
  const ls_tensor g =
      gradient(x, x, &(ls_gradient_options){.grad_ys = grad_ys});
  assert_string_equal(names_from(f, before), "gradients/grad_ys_0");
  assert_string_equal(ls_tensor_name(g), "gradients/grad_ys_0:0");
  assert_true(ls_tensor_equal(ls_op_input(ls_tensor_op(g), 0), given));
}

static void types_of_given_gradients_must_suit_their_y(void **state) {
  LS_SPEC("O184 O185");
  (void)state;
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
        refusal(y, y, &(ls_gradient_options){.grad_ys = &given});
    if (rows[i].part == NULL) {
      expect_ok(status);
      continue;
    }
    expect_contains(ls_status_message(status), ls_dtype_name(rows[i].y));
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].part);
  }
}

// ---- The walk --------------------------------------------------------------
static void only_trainable_paths_are_visited(void **state) {
  LS_SPEC("O187");
  fixture *f = *state;
  const ls_tensor x = input("x"), other = input("other");
  const ls_tensor class = ls_argmax(x, 1);
  const ls_tensor hot = ls_one_hot(class, 3, LS_DTYPE_F32);
  const ls_tensor dead = ls_tanh(other);
  const ls_tensor y = ls_add(ls_mul(hot, ls_exp(x)), dead);
  const size_t before = ls_graph_num_ops(f->graph);
  gradient(y, x, NULL);
  assert_string_equal(names_from(f, before),
                      "gradients/grad_ys_0 gradients/mul_grad/mul "
                      "gradients/exp_grad/mul");
  const ls_nest none[] = {ls_leaf(class)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(none, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
}

static void operands_that_only_lend_dimensions_are_not_followed(void **state) {
  LS_SPEC("O187");
  fixture *f = *state;
  const ls_tensor x = ls_placeholder(F32(-1, 3), "x");
  const ls_tensor like = ls_exp(x);
  const ls_tensor y = ls_broadcast_like(ls_scalar(LS_DTYPE_F32, 2), like);
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  assert_string_equal(names_from(f, before), "gradients/grad_ys_0");
}

static void
an_op_is_visited_once_when_all_its_gradients_are_there(void **state) {
  LS_SPEC("O188 O198");
  fixture *f = *state;
  const ls_tensor x = input("x");
  const ls_tensor a = ls_exp(x);  // Feeds b and, as a y, also waits.
  const ls_tensor b = ls_tanh(a);
  const ls_tensor c = ls_sigmoid(a);
  const ls_nest ys[] = {ls_leaf(a), ls_leaf(c), ls_leaf(b)};
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 3, xs, 1, NULL, grads));
  assert_string_equal(
      names_from(f, before),
      "gradients/grad_ys_0 gradients/grad_ys_1 gradients/grad_ys_2 "
      "gradients/sigmoid_grad/sub gradients/sigmoid_grad/mul "
      "gradients/sigmoid_grad/mul_1 "
      "gradients/tanh_grad/mul gradients/tanh_grad/sub "
      "gradients/tanh_grad/mul_1 "
      "gradients/add_n gradients/exp_grad/mul");
  const ls_op sum = op_named(f, "gradients/add_n");
  assert_int_equal(ls_op_num_inputs(sum), 3);
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 0)),
                      "gradients/grad_ys_0:0");
  assert_string_equal(ls_tensor_name(ls_op_input(sum, 1)),
                      "gradients/sigmoid_grad/mul_1:0");
}

static void gradients_behind_one_another_are_total_or_partial(void **state) {
  LS_SPEC("O189");
  fixture *f = *state;
  const ls_tensor a = input("a");
  const ls_tensor b = ls_mul_scalar(a, 2);
  const ls_nest ys[] = {ls_leaf(ls_add(a, b))};
  const ls_nest xs[] = {ls_leaf(a), ls_leaf(b)};
  ls_nest grads[2];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
  assert_string_equal(names_from(f, before),
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

static void stop_gradient_and_ops_marked_none_end_a_path(void **state) {
  LS_SPEC("O191");
  (void)state;
  const ls_tensor x = input("x");
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_nest stopped[] = {ls_leaf(ls_stop_gradient(x))};
  expect_ok(ls_gradients(stopped, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  const ls_nest sign[] = {ls_leaf(ls_sign(x))};
  expect_ok(ls_gradients(sign, 1, xs, 1, NULL, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
}

static void
an_op_without_gradient_is_refused_and_leaves_no_trace(void **state) {
  LS_SPEC("O191");
  fixture *f = *state;
  ls_variable *variable = make_variable("v");
  const ls_tensor x = input("x");
  const ls_tensor y = ls_exp(ls_variable_assign(variable, x));
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_status status = refusal(y, x, NULL);
  expect_contains(ls_status_message(status), "stop_gradient");
  expect_status(status, LS_NOT_FOUND, "op 'assign' (assign)");
  assert_int_equal(ls_graph_num_ops(f->graph), before);
  ls_variable_release(variable);
}

static void all_reduce_by_max_has_no_gradient(void **state) {
  LS_SPEC("O191");
  (void)state;
  const ls_tensor x = input("x");
  gradient(ls_all_reduce(LS_REDUCE_MEAN, x), x, NULL);
  expect_status(refusal(ls_all_reduce(LS_REDUCE_MAX, x), x, NULL), LS_NOT_FOUND,
                "all_reduce by max");
}

static void a_gradient_that_cannot_fit_its_operand_is_refused(void **state) {
  LS_SPEC("O192");
  (void)state;
  const ls_tensor x = input("x");
  const ls_nest grad_ys[] = {ls_leaf(ls_placeholder(F32(5, 3), "too_many"))};
  const ls_status status =
      refusal(ls_neg(x), x, &(ls_gradient_options){.grad_ys = grad_ys});
  expect_contains(ls_status_message(status), "input 0 of op 'neg'");
  expect_contains(ls_status_message(status), "f32[2,3]");
  expect_contains(ls_status_message(status), "f32[5,3]");
  expect_status(status, LS_INVALID_ARGUMENT, "Incompatible shapes");
}

static void a_gradient_takes_over_the_shape_of_its_operand(void **state) {
  LS_SPEC("O192");
  (void)state;
  const ls_tensor x = input("x");
  const ls_nest grad_ys[] = {ls_leaf(ls_placeholder(F32(-1, -1), "unknown"))};
  const ls_tensor g =
      gradient(ls_neg(x), x, &(ls_gradient_options){.grad_ys = grad_ys});
  assert_true(ls_shape_equal(ls_tensor_shape(g), LS_SHAPE(2, 3)));
}

static void an_unconnected_x_gives_none_or_zeros(void **state) {
  LS_SPEC("O201");
  fixture *f = *state;
  ls_variable *variable = make_variable("v");
  const ls_tensor x = input("x"), z = input("z");
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
  ls_variable_release(variable);
}

// ---- Variables -------------------------------------------------------------
static void
the_gradient_of_a_variable_sums_over_its_reads_in_order(void **state) {
  LS_SPEC("O178 O196");
  fixture *f = *state;
  ls_variable *variable = make_variable("v");
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
  ls_variable_release(variable);
}

static void a_variable_as_y_stands_for_its_value(void **state) {
  LS_SPEC("O178");
  fixture *f = *state;
  ls_variable *variable = make_variable("v");
  const size_t before = ls_graph_num_ops(f->graph);
  const ls_nest v[] = {ls_nest_variable(variable)};
  ls_nest grads[1];
  expect_ok(ls_gradients(v, 1, v, 1, NULL, grads));
  assert_string_equal(names_from(f, before),
                      "gradients/read_variable gradients/grad_ys_0");
  assert_string_equal(ls_tensor_name(ls_nest_tensor(grads[0], 0)),
                      "gradients/grad_ys_0:0");
  ls_nest_release(v[0]);
  ls_variable_release(variable);
}

// ---- Colocation, gating, sums ----------------------------------------------
static void gradient_ops_can_stand_beside_their_forward_ops(void **state) {
  LS_SPEC("O181 O48");
  fixture *f = *state;
  const ls_tensor x = input("x");
  ls_tensor y;
  LS_DEVICE_SCOPE("/device:CPU:1") { y = ls_exp(x); }
  gradient(y, x, NULL);
  gradient(y, x, &(ls_gradient_options){.colocate_with_ops = true});
  const ls_op plain = op_named(f, "gradients/exp_grad/mul");
  assert_string_equal(ls_op_device(plain), "");
  assert_string_equal(strings_of(f, plain, "_class"), "");
  const char *const beside[] = {"gradients_1/grad_ys_0",
                                "gradients_1/exp_grad/mul"};
  for (int i = 0; i < 2; ++i) {
    const ls_op op = op_named(f, beside[i]);
    assert_string_equal(ls_op_device(op), "/device:CPU:1");
    assert_string_equal(strings_of(f, op, "_class"), "loc:@exp");
  }
}

static void
gates_hold_back_the_gradients_of_an_op_until_all_are_there(void **state) {
  LS_SPEC("O195");
  fixture *f = *state;
  const ls_tensor a = input("a"), b = input("b");
  ls_tensor y;
  LS_DEVICE_SCOPE("/device:CPU:1") { y = ls_mul(a, b); }
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(a), ls_leaf(b)};
  ls_nest grads[2];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(
      ys, 1, xs, 2,
      &(ls_gradient_options){.gate = true, .colocate_with_ops = true}, grads));
  assert_string_equal(
      names_from(f, before),
      "gradients/grad_ys_0 gradients/mul_grad/mul gradients/mul_grad/mul_1 "
      "gradients/mul_grad/tuple/group_deps "
      "gradients/mul_grad/tuple/control_dependency "
      "gradients/mul_grad/tuple/control_dependency_1");
  const ls_op gate = op_named(f, "gradients/mul_grad/tuple/group_deps");
  assert_int_equal(ls_op_num_control_inputs(gate), 2);
  assert_string_equal(ls_op_device(gate), "/device:CPU:1");
  assert_string_equal(strings_of(f, gate, "_class"), "");
  const ls_op second = ls_tensor_op(ls_nest_tensor(grads[1], 0));
  assert_string_equal(ls_op_name(second),
                      "gradients/mul_grad/tuple/control_dependency_1");
  assert_int_equal(ls_op_control_input(second, 0).id, gate.id);
  assert_string_equal(strings_of(f, second, "_class"),
                      "loc:@gradients/mul_grad/mul_1");
  // One gradient needs no gate.
  const size_t one = ls_graph_num_ops(f->graph);
  gradient(y, a, &(ls_gradient_options){.gate = true});
  assert_string_equal(names_from(f, one),
                      "gradients_1/grad_ys_0 gradients_1/mul_grad/mul");
}

static void terms_are_grouped_by_device_in_sorted_order(void **state) {
  LS_SPEC("O196 O200");
  fixture *f = *state;
  const ls_tensor x = input("x");
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
  const ls_op first = op_named(f, "gradients/add_n");
  assert_string_equal(ls_op_device(first), "/device:CPU:1");
  assert_string_equal(strings_of(f, first, "_class"),
                      "loc:@gradients/exp_1_grad/mul");
  assert_string_equal(ls_tensor_name(ls_op_input(first, 1)),
                      "gradients/exp_4_grad/mul:0");
  assert_string_equal(strings_of(f, total, "_class"), "loc:@x");
}

static void
sums_stand_beside_their_first_term_even_without_colocation(void **state) {
  LS_SPEC("O196");
  fixture *f = *state;
  const ls_tensor x = input("x");
  const ls_tensor e = ls_exp(x), t = ls_tanh(x);
  gradient(ls_add(e, t), x, NULL);
  assert_string_equal(strings_of(f, op_named(f, "gradients/add_n"), "_class"),
                      "loc:@gradients/exp_grad/mul");
}

static void trees_and_accumulation_add_in_pairs(void **state) {
  LS_SPEC("O197");
  fixture *f = *state;
  const ls_tensor x = input("x");
  const ls_tensor y = ls_add(ls_add(ls_exp(x), ls_exp(x)), ls_exp(x));
  for (int aggregation = 1; aggregation <= 2; ++aggregation) {
    gradient(y, x, &(ls_gradient_options){.aggregation = aggregation});
    const char *scope = aggregation == 1 ? "gradients" : "gradients_1";
    char name[80];
    snprintf(name, sizeof(name), "%s/x_gradient_sum/add_n_1", scope);
    const ls_op last = op_named(f, name);
    assert_int_equal(ls_op_num_inputs(last), 2);
    snprintf(name, sizeof(name), "%s/x_gradient_sum/add_n:0", scope);
    assert_string_equal(ls_tensor_name(ls_op_input(last, 0)), name);
  }
}

// ---- Child graphs ----------------------------------------------------------
typedef struct captured {
  ls_tensor a, b, gradient;
  ls_variable *variable;
} captured;

// A function that is called: exp(p) * a * v.
static ls_nest function_body(ls_nest args, void *user) {
  const captured *c = user;
  const ls_tensor product = ls_mul(ls_exp(ls_nest_tensor(args, 0)), c->a);
  return ls_leaf(ls_mul(product, ls_variable_read(c->variable)));
}

static ls_tensor call(ls_tensor argument, captured *c) {
  ls_graph *graph = ls_graph_current(), *body = NULL;
  const ls_type type = {ls_tensor_dtype(argument), ls_tensor_shape(argument)};
  ls_nest args, result;
  expect_ok(
      ls_graph_make(LS_GRAPH_FUNCTION, "body", graph->runtime, graph, &body));
  expect_ok(ls_region_parameters(body, ls_leaf(argument), &type, 1, &args));
  expect_ok(ls_region_trace(body, function_body, args, c, &result));
  ls_nest_release(args);
  ls_nest_release(result);
  ls_tensor inputs[8] = {argument};
  for (size_t i = 0; i < body->num_captures; ++i)
    inputs[1 + i] = body->captures[i].outer;
  return ls_op_output(
      ls_op_add(&(ls_op_spec){.type = LS_OP_CALL,
                              .inputs = inputs,
                              .num_inputs = 1 + body->num_captures,
                              .regions = &body,
                              .num_regions = 1}),
      0);
}

static void calls_are_differentiated_through_their_body(void **state) {
  LS_SPEC("O193");
  fixture *f = *state;
  const ls_tensor x = input("x");
  captured c = {.a = input("a"), .variable = make_variable("v")};
  const ls_tensor y = call(x, &c);
  const ls_nest ys[] = {ls_leaf(y)};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(c.a), ls_nest_variable(c.variable)};
  ls_nest grads[3];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 3, NULL, grads));
  assert_string_equal(names_from(f, before),
                      "gradients/grad_ys_0 gradients/call_grad/mul_1_grad/mul "
                      "gradients/call_grad/mul_1_grad/mul_1 "
                      "gradients/call_grad/mul_grad/mul "
                      "gradients/call_grad/mul_grad/mul_1 "
                      "gradients/call_grad/exp_grad/mul");
  for (int i = 0; i < 3; ++i)
    assert_int_equal(grads[i].kind, LS_KIND_TENSOR);
  // Forward values are further results of the call, not computed again.
  const ls_op forward = ls_tensor_op(y);
  assert_true(ls_op_num_outputs(forward) > 1);
  const ls_op last = ls_tensor_op(ls_nest_tensor(grads[0], 0));
  assert_int_equal(ls_tensor_op(ls_op_input(last, 1)).id, forward.id);
  ls_nest_release(xs[2]);
  ls_variable_release(c.variable);
}

static ls_nest then_branch(ls_nest none, void *user) {
  (void)none;
  const captured *c = user;
  const ls_tensor product = ls_mul(ls_exp(c->a), c->b);
  return ls_leaf(ls_mul(product, ls_variable_read(c->variable)));
}

static ls_nest else_branch(ls_nest none, void *user) {
  (void)none;
  const captured *c = user;
  return ls_leaf(ls_tanh(c->a));
}

static void the_gradient_of_a_cond_is_a_cond(void **state) {
  LS_SPEC("O194");
  fixture *f = *state;
  captured c = {
      .a = input("a"), .b = input("b"), .variable = make_variable("v")};
  const ls_tensor p = ls_placeholder(LS_DTYPE_BOOL, LS_SCALAR, "p");
  const ls_nest result = ls_cond(p, then_branch, else_branch, &c);
  const ls_nest xs[] = {ls_leaf(c.a), ls_leaf(c.b),
                        ls_nest_variable(c.variable)};
  ls_nest grads[3];
  expect_ok(ls_gradients(&result, 1, xs, 3, NULL, grads));
  const ls_op backward = op_named(f, "gradients/cond_grad/cond");
  assert_true(ls_tensor_equal(ls_op_input(backward, 0), p));
  // a is captured by both branches; each gives its part.
  assert_int_equal(ls_op_num_outputs(backward), 4);
  assert_int_equal(ls_op_num_inputs(op_named(f, "gradients/add_n")), 2);
  for (int i = 0; i < 3; ++i)
    assert_int_equal(grads[i].kind, LS_KIND_TENSOR);
  // The variable's value then is a further result of the forward cond.
  assert_int_equal(ls_op_num_outputs(op_named(f, "cond")), 2);
  // And a second time.
  expect_ok(ls_gradients(&grads[0], 1, xs, 3, NULL, grads));
  assert_int_equal(grads[1].kind, LS_KIND_TENSOR);
  ls_nest_release(xs[2]);
  ls_nest_release(result);
  ls_variable_release(c.variable);
}

// Takes the gradient of exp(a * b) with respect to a, a value from outside.
static ls_nest gradient_inside(ls_nest none, void *user) {
  (void)none;
  captured *c = user;
  return ls_leaf(gradient(ls_exp(c->b), c->a, NULL));
}

static ls_nest nothing_inside(ls_nest none, void *user) {
  (void)none;
  captured *c = user;
  return ls_leaf(ls_identity(c->a));
}

static void gradients_inside_a_branch_reach_values_around_it(void **state) {
  LS_SPEC("O193");
  fixture *f = *state;
  const ls_tensor a = input("a");
  captured c = {.a = a, .b = ls_mul(a, a)};
  const ls_tensor p = ls_placeholder(LS_DTYPE_BOOL, LS_SCALAR, "p");
  const ls_nest result = ls_cond(p, gradient_inside, nothing_inside, &c);
  assert_int_equal(result.kind, LS_KIND_TENSOR);
  // Nothing was added out here.
  assert_string_equal(names_from(f, 0), "a mul p cond");
  ls_nest_release(result);
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

static void the_log_tells_gradients_and_sums(void **state) {
  LS_SPEC("O202");
  (void)state;
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = keep_line, .environment = verbose},
      &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_graph *graph = NULL;
  expect_ok(ls_graph_create("logged", &graph));
  LS_GRAPH_SCOPE(graph) {
    const ls_tensor x = input("x");
    gradient(ls_mul(ls_exp(x), x), x, NULL);
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
static ls_status build_and_differentiate(void *user) {
  (void)user;
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("memory", &graph));
  ls_status status = ls_ok();
  LS_GRAPH_SCOPE(graph) {
    const ls_tensor x = input("x");
    const ls_tensor y = ls_mul(ls_exp(x), x);
    status = ls_graph_error(graph);
    if (status == NULL) status = refusal(y, x, NULL);
  }
  ls_graph_destroy(graph);
  return status;
}

static void gradients_survive_a_lack_of_memory(void **state) {
  (void)state;
  expect_memory_failures_survived(build_and_differentiate, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_has_a_rule_or_a_mark),
      TEST(ops_stand_in_scopes_of_the_call_and_of_the_forward_op),
      TEST(each_call_takes_a_name_of_its_own_as_uid),
      TEST(gradients_of_several_ys_add_up_and_an_x_given_twice_agrees),
      TEST(gradients_are_refused_in_an_eager_graph),
      TEST(an_unknown_aggregation_is_refused),
      TEST(values_out_of_reach_are_refused_by_name),
      TEST(a_given_gradient_is_passed_through_a_named_identity),
      TEST(types_of_given_gradients_must_suit_their_y),
      TEST(only_trainable_paths_are_visited),
      TEST(operands_that_only_lend_dimensions_are_not_followed),
      TEST(an_op_is_visited_once_when_all_its_gradients_are_there),
      TEST(gradients_behind_one_another_are_total_or_partial),
      TEST(stop_gradient_and_ops_marked_none_end_a_path),
      TEST(an_op_without_gradient_is_refused_and_leaves_no_trace),
      TEST(all_reduce_by_max_has_no_gradient),
      TEST(a_gradient_that_cannot_fit_its_operand_is_refused),
      TEST(a_gradient_takes_over_the_shape_of_its_operand),
      TEST(an_unconnected_x_gives_none_or_zeros),
      TEST(the_gradient_of_a_variable_sums_over_its_reads_in_order),
      TEST(a_variable_as_y_stands_for_its_value),
      TEST(gradient_ops_can_stand_beside_their_forward_ops),
      TEST(gates_hold_back_the_gradients_of_an_op_until_all_are_there),
      TEST(terms_are_grouped_by_device_in_sorted_order),
      TEST(sums_stand_beside_their_first_term_even_without_colocation),
      TEST(trees_and_accumulation_add_in_pairs),
      TEST(calls_are_differentiated_through_their_body),
      TEST(the_gradient_of_a_cond_is_a_cond),
      TEST(gradients_inside_a_branch_reach_values_around_it),
      cmocka_unit_test(the_log_tells_gradients_and_sums),
      cmocka_unit_test(gradients_survive_a_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// Integers, bools and texts are constants of gradients: what is computed of
// numbers and then made one of them passes nothing back, wherever it stands.
#include "base/memory/allocator.h"
#include "lockstep/lockstep.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"
#include "support/ways.h"

// ---- What passes nothing ---------------------------------------------------
static ls_tensor whole(ls_tensor x) { return ls_convert(x, LS_DTYPE_I32); }

static ls_tensor converted(ls_tensor x) { return whole(ls_square(x)); }

static ls_tensor converted_twice(ls_tensor x) {
  return ls_add(whole(ls_square(x)), ls_scalar_i64(LS_DTYPE_I32, 1));
}

static ls_tensor converted_back(ls_tensor x) {
  return ls_convert(converted(x), LS_DTYPE_F32);
}

static ls_tensor as_bool(ls_tensor x) {
  return ls_convert(ls_square(x), LS_DTYPE_BOOL);
}

static ls_nest is_below_three(ls_nest carried, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(carried, 0), ls_scalar_i64(LS_DTYPE_I32, 3)));
}

// Each trip adds a whole number that is made of one that is not.
static ls_nest trip(ls_nest carried, void *user) {
  const ls_tensor *x = user;
  const ls_tensor f = ls_mul(ls_nest_tensor(carried, 2), *x);
  return LS_TUPLE(ls_leaf(ls_add(ls_nest_tensor(carried, 0),
                                 ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_leaf(ls_add(ls_nest_tensor(carried, 1), whole(f))),
                  ls_leaf(f));
}

static ls_tensor looped(ls_tensor x, size_t which) {
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  LS_OWN(ls_nest, made) = ls_while(
      is_below_three, trip, &x,
      LS_TUPLE(ls_leaf(zero), ls_leaf(zero), ls_leaf(ls_square(x))), 3);
  return ls_nest_tensor(made, which);
}

static ls_tensor counted_in_a_loop(ls_tensor x) { return looped(x, 1); }

static ls_nest taken(ls_nest nothing, void *user) {
  const ls_tensor *x = user;
  (void)nothing;
  return ls_leaf(converted(*x));
}

static ls_tensor branched(ls_tensor x) {
  LS_OWN(ls_nest, made) =
      ls_cond(ls_greater(x, ls_scalar(LS_DTYPE_F32, 0)), taken, taken, &x);
  return ls_nest_tensor(made, 0);
}

// Gives a number and a whole one.
static ls_nest both(ls_nest x, void *user) {
  (void)user;
  const ls_tensor square = ls_square(ls_nest_tensor(x, 0));
  return LS_TUPLE(ls_leaf(square), ls_leaf(whole(square)));
}

static int num_whole_gradients;

static ls_nest both_gradient(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                             void *user) {
  (void)outputs;
  (void)user;
  num_whole_gradients += ls_nest_item(gradients, 1).kind != LS_KIND_NONE;
  return ls_leaf(ls_mul(ls_nest_tensor(gradients, 0),
                        ls_mul_scalar(ls_nest_tensor(inputs, 0), 2)));
}

static ls_tensor by_callback(ls_tensor x, size_t which) {
  const ls_nest made =
      ls_custom_gradient(both, both_gradient, NULL, LS_TUPLE(ls_leaf(x)));
  if (ls_nest_is_failed(made)) {
    ls_nest_release(made);
    return ls_failed_tensor();
  }
  const ls_tensor y = ls_nest_tensor(made, which);
  ls_nest_release(made);
  return y;
}

static ls_tensor whole_by_callback(ls_tensor x) { return by_callback(x, 1); }

// ---- What passes its own ---------------------------------------------------
static ls_tensor number_by_callback(ls_tensor x) { return by_callback(x, 0); }

static ls_tensor number_in_a_loop(ls_tensor x) { return looped(x, 2); }

static ls_tensor scaled_by_a_whole(ls_tensor x) {
  return ls_mul(x, converted_back(x));
}

// ---- In every way ----------------------------------------------------------
typedef struct whole_case {
  const char *name;
  ls_tensor (*make)(ls_tensor x);
  bool passes;
  double gradient;  // At 2.
} whole_case;

static const whole_case cases[] = {
    {"a convert", converted, false, 0},
    {"a sum behind a convert", converted_twice, false, 0},
    {"a convert and back", converted_back, false, 0},
    {"a bool", as_bool, false, 0},
    {"a count in a loop", counted_in_a_loop, false, 0},
    {"a branch", branched, false, 0},
    {"a callback's whole number", whole_by_callback, false, 0},
    {"a callback's number", number_by_callback, true, 4},
    {"a loop's number", number_in_a_loop, true, 5 * 16},
    {"a whole factor", scaled_by_a_whole, true, 4},
};

static ls_nest two(const ways *self, int step, int r) {
  (void)self, (void)step, (void)r;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){2})));
}

static ls_tensor value_of(ls_nest args, ways *self) {
  const whole_case *row = self->user;
  return row->make(ls_nest_tensor(args, 0));
}

static ls_nest with_gradient(ls_nest args, ways *self) {
  const whole_case *row = self->user;
  const ls_nest x = ls_nest_item(args, 0);
  ls_tensor y = ls_failed_tensor();
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, value_of, args, &x, 1, &y, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if ((gradient.kind != LS_KIND_NONE) != row->passes)
    fail_msg("%s has %s gradient", row->name, row->passes ? "no" : "a");
  return LS_TUPLE(ls_leaf(y), gradient);
}

static void expect_gradient(const ways *self) {
  const whole_case *row = self->user;
  for (int r = 0; row->passes && r < self->replicas; ++r)
    ways_expect(self, row->name, ways_result(self, 0, r, 1, 0), row->gradient,
                0);
}

TEST(whole_numbers_pass_no_gradient_in_any_way) {
  LS_SPEC("O187 O190");
  num_whole_gradients = 0;
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    ways_hold(&(ways_case){.name = cases[i].name,
                           .user = &cases[i],
                           .args = two,
                           .step = with_gradient,
                           .check = expect_gradient,
                           .one_table = true},
              1);
  assert_int_equal(num_whole_gradients, 0);
}

// A y that is whole adds nothing to the gradient of one that is not; a
// variable's is none too.
static ls_nest of_two_ys(ls_nest args, void *user) {
  ls_variable *v = user;
  const ls_tensor x = ls_nest_tensor(args, 0), w = ls_variable_read(v);
  const ls_tensor product = ls_mul(x, w);
  const ls_nest ys[] = {ls_leaf(whole(product)), ls_leaf(product)};
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(v)};
  const ls_nest given[] = {ls_nest_f64(100), ls_none()};
  ls_nest grads[2], alone[2];
  ls_status status = ls_gradients(
      ys, 2, xs, 2, &(ls_gradient_options){.grad_ys = given, .num_grad_ys = 2},
      grads);
  if (ls_status_is_ok(status)) status = ls_gradients(ys, 1, xs, 2, NULL, alone);
  ls_nest_release(xs[1]);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  assert_int_equal(alone[0].kind, LS_KIND_NONE);
  assert_int_equal(alone[1].kind, LS_KIND_NONE);
  return LS_TUPLE(grads[0], grads[1]);
}

TEST(a_whole_y_adds_nothing_to_another_one) {
  LS_SPEC("O176 O187");
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_array, three) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){3});
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_array = three}, &v));
  LS_OWN(ls_function, function) = unnamed_function(of_two_ys, v);
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){2})));
  LS_OWN(ls_nest, results) = call_results(function, args);
  assert_true(ls_nest_number(ls_nest_item(results, 0)) == 3);
  assert_true(ls_nest_number(ls_nest_item(results, 1)) == 2);
}

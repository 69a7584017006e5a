// SPDX-License-Identifier: Apache-2.0
//
// Gradients through merge calls: every way to run gives those of the sum of all
// replicas' results, whose numbers are the trace's.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "graph/region.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest rows_of(const ways *self, int step, int r) {
  (void)self;
  const double x[] = {1 + r + 0.3 * step, 0.5 - r, 2.25 * r - 1};
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(3), x)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2 * r + 1})));
}

static ls_tensor argument(ls_nest args, size_t i) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, i), &x));
  return x;
}

// ---- Merge functions -------------------------------------------------------
// Replica r's part of an argument.
static ls_tensor part_of(ls_nest leaf, size_t r) {
  return leaf.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_component(leaf, r).as.tensor
             : leaf.as.tensor;
}

static ls_nest add_up(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest sum = ls_none();
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, ls_nest_item(args, 0), &sum);
  return ls_status_is_ok(status) ? sum : ls_fail(status);
}

// Each replica's x times that of the next one, for each.
static ls_nest multiply_next(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest items[WAYS_MOST_REPLICAS];
  const size_t count = (size_t)ls_strategy_num_replicas(strategy);
  const ls_nest x = ls_nest_item(args, 0);
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_leaf(ls_mul(part_of(x, r), part_of(x, (r + 1) % count)));
  return ls_nest_distributed(LS_PER_REPLICA, items, count);
}

// Two results: for each, and one for all. Of the second argument alone, too.
static ls_nest several(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest items[WAYS_MOST_REPLICAS];
  const size_t count = (size_t)ls_strategy_num_replicas(strategy);
  const ls_nest x = ls_nest_item(args, 0), w = ls_nest_item(args, 1);
  ls_tensor all = ls_scalar(LS_DTYPE_F32, 1);
  for (size_t r = 0; r < count; ++r)
    all = ls_mul(all, ls_add_scalar(part_of(w, r), 0.5));
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_leaf(ls_mul(ls_tanh(part_of(x, r)), all));
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, count),
                  LS_LIST(ls_leaf(ls_square(all)), ls_nest_i64(7)));
}

// What was given comes back.
static ls_nest give_back(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)user;
  return ls_nest_retain(ls_nest_item(args, 0));
}

static const struct {
  const char *name;
  ls_merge_function function;
} functions[] = {{"a sum", add_up},
                 {"products", multiply_next},
                 {"several", several},
                 {"the same", give_back}};

// ---- Gradients -------------------------------------------------------------
static ls_tensor sum_of_leaves(ls_nest nest, ls_tensor sum) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    sum = sum_of_leaves(ls_nest_item(nest, i), sum);
  if (nest.kind != LS_KIND_TENSOR) return sum;
  const ls_tensor y = nest.as.tensor;
  return ls_add(sum, ls_reduce_sum(ls_mul(ls_square(y), y), LS_ALL_AXES));
}

// c * the sum of the results' cubes, with the replica's own c.
static ls_tensor weighed(ls_nest args, ways *self) {
  const ls_tensor x = ls_square(argument(args, 0)), c = argument(args, 1);
  const ls_nest given =
      LS_LIST(ls_leaf(x), ls_leaf(ls_exp(ls_mul_scalar(c, 0.125))));
  const ls_nest got = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      NULL);
  ls_nest_release(given);
  expect_ok(ls_nest_status(got));
  const ls_tensor y = ls_mul(c, sum_of_leaves(got, ls_scalar(LS_DTYPE_F32, 0)));
  ls_nest_release(got);
  return y;
}

static ls_nest with_gradients(ls_nest args, ways *self,
                              ls_tensor (*function)(ls_nest args, ways *self)) {
  const ls_nest xs[] = {ls_leaf(argument(args, 0)), ls_leaf(argument(args, 1))};
  const ls_nest own = LS_TUPLE(xs[0], xs[1]);
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, function, own, xs, 2, NULL, gradients);
  ls_nest_release(own);
  return ls_status_is_ok(status) ? LS_TUPLE(gradients[0], gradients[1])
                                 : ls_fail(status);
}

static ls_nest gradients_of(ls_nest args, ways *self) {
  return with_gradients(args, self, weighed);
}

static ls_tensor squared_gradient(ls_nest args, ways *self) {
  const ls_nest x = ls_nest_item(args, 0);
  ls_nest gradient = ls_none();
  expect_ok(ways_gradients(self, weighed, args, &x, 1, NULL, &gradient));
  return ls_reduce_sum(ls_mul(argument(args, 1), ls_square(gradient.as.tensor)),
                       LS_ALL_AXES);
}

static ls_nest second_gradients_of(ls_nest args, ways *self) {
  return with_gradients(args, self, squared_gradient);
}

static void hold_functions(ls_nest (*step)(ls_nest args, ways *self),
                           double tolerance) {
  for (size_t i = 0; i < LS_COUNT_OF(functions); ++i) {
    const ways_case c = {.name = functions[i].name,
                         .user = &functions[i].function,
                         .args = rows_of,
                         .step = step,
                         .tolerance = tolerance};
    ways_hold(&c, 1);
  }
}

static void gradients_pass_a_merge_call_alike_in_every_way(void **state) {
  (void)state;
  LS_SPEC("V211");
  hold_functions(gradients_of, 0);
}

static void so_do_gradients_of_gradients(void **state) {
  (void)state;
  LS_SPEC("V211");
  // The terms of a second gradient come in an order of each way's own.
  hold_functions(second_gradients_of, 1e-6);
}

// ---- By hand ---------------------------------------------------------------
// c * the sum of all x: all c come back. And x times the next one's.
static ls_tensor linear(ls_nest args, ways *self) {
  const ls_tensor x = argument(args, 0);
  const ls_nest given = LS_LIST(ls_leaf(x));
  const ls_nest got = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      NULL);
  ls_nest_release(given);
  expect_ok(ls_nest_status(got));
  const ls_tensor y = ls_mul(
      argument(args, 1), ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
  ls_nest_release(got);
  return y;
}

static ls_nest gradients_of_linear(ls_nest args, ways *self) {
  return with_gradients(args, self, linear);
}

static void all_weights_come_back(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "a gradient", ways_result(self, 0, r, 0, 1), n * n, 0);
}

static void neighbours_come_back(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r) {
    const int next = (r + 1) % n, before = (r + n - 1) % n;
    // c_r x_next + c_before x_before, x = 1 + r.
    ways_expect(self, "a gradient", ways_result(self, 0, r, 0, 0),
                (2 * r + 1) * (1 + next) + (2 * before + 1) * (1 + before), 0);
  }
}

static void what_all_replicas_make_of_a_value_comes_back_to_it(void **state) {
  (void)state;
  static const ls_merge_function two[] = {add_up, multiply_next};
  for (size_t i = 0; i < 2; ++i) {
    const ways_case c = {.name = i == 0 ? "a sum" : "products",
                         .user = &two[i],
                         .args = rows_of,
                         .step = gradients_of_linear,
                         .check = i == 0 ? all_weights_come_back
                                         : neighbours_come_back};
    ways_hold(&c, 1);
  }
}

// ---- One value for all -----------------------------------------------------
typedef struct shared {
  bool by_tape;
} shared;

// x_0 w + x_1 w for all, w one value around the replicas.
static ls_nest scale_sum(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)user;
  const ls_nest x = ls_nest_item(args, 0);
  return ls_leaf(ls_mul(ls_add(part_of(x, 0), part_of(x, 1)),
                        part_of(ls_nest_item(args, 1), 0)));
}

static ls_nest gradient_of_shared(ls_nest args, void *user) {
  const shared *s = user;
  const ls_nest w = ls_nest_item(args, 1);
  ls_tape *tape = NULL;
  if (s->by_tape) {
    expect_ok(ls_tape_begin(&tape));
    expect_ok(ls_tape_watch(tape, w.as.tensor));
  }
  const ls_nest y =
      ls_replica_merge_call(ls_replica_context(), scale_sum, args, NULL);
  if (ls_nest_is_failed(y)) return y;
  ls_nest gradient = ls_none();
  expect_ok(s->by_tape ? ls_tape_gradients(tape, y, &w, 1, &gradient)
                       : ls_gradients(&y, 1, &w, 1, NULL, &gradient));
  ls_tape_release(tape);
  return gradient;
}

static double number_in(ls_nest leaf, size_t r) {
  const ls_nest part = ls_distributed_component(leaf, r);
  return part.kind == LS_KIND_ARRAY ? ls_array_f64(ls_nest_as_array(part), 0)
                                    : number_of(part);
}

static void replicas_gradients_of_one_value_add_up(void **state) {
  (void)state;
  LS_SPEC("V87");
  ls_strategy *strategy = mirrored_of(2);
  shared s = {0};
  ls_function *function = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = gradient_of_shared, .user = &s},
      &function));
  const ls_nest args =
      LS_TUPLE(per_replica_scalars((double[]){3, 4}, 2), ls_leaf(scalar_of(5)));
  for (int eager = 0; eager < 2; ++eager) {
    s.by_tape = eager == 1;
    ls_nest made = ls_none();
    expect_ok(ls_strategy_run(strategy,
                              eager == 1 ? ls_plain(gradient_of_shared, &s)
                                         : ls_traced(function),
                              args, &made));
    // Both replicas' results, of which each is (3 + 4) w.
    assert_true(number_in(made, 0) == 14);
    assert_true(number_in(made, 1) == 0);
    ls_nest_release(made);
  }
  ls_nest_release(args);
  ls_function_release(function);
  ls_strategy_release(strategy);
}

// ---- Rows of each replica's own --------------------------------------------
static ls_nest own_rows(const ways *self, int step, int r) {
  double x[3];
  for (int i = 0; i <= r; ++i)
    x[i] = i + 0.5 * r + 1;
  (void)self;
  (void)step;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1 + r), x)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2 * r + 1})));
}

// Each replica's x times the sum of all.
static ls_nest scale_own(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest items[WAYS_MOST_REPLICAS];
  ls_tensor sums[WAYS_MOST_REPLICAS];
  const size_t count = (size_t)ls_strategy_num_replicas(strategy);
  const ls_nest x = ls_nest_item(args, 0);
  for (size_t r = 0; r < count; ++r)
    sums[r] = ls_reduce_sum(part_of(x, r), LS_ALL_AXES);
  const ls_tensor sum = ls_add_n(sums, count);
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_leaf(ls_mul(part_of(x, r), sum));
  return ls_nest_distributed(LS_PER_REPLICA, items, count);
}

static void replicas_may_give_other_numbers_of_rows(void **state) {
  (void)state;
  static const ls_merge_function function = scale_own;
  const ways_case c = {.name = "rows",
                       .user = &function,
                       .args = own_rows,
                       .step = gradients_of};
  ways_hold(&c, 1);
}

// ---- Variables -------------------------------------------------------------
static void make_factor(ways *self) {
  ways_vector(self, "factor", 3, (double[]){2, 3, 4});
}

static ls_nest scale_by_variable(ls_strategy *strategy, ls_nest args,
                                 void *user) {
  const ls_nest sum = add_up(strategy, args, NULL);
  if (ls_nest_is_failed(sum)) return sum;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(sum, &x));
  ls_nest_release(sum);
  return ls_leaf(ls_mul(x, ls_variable_read(user)));
}

// The sum times how often it was computed.
static void make_count(ways *self) {
  ls_array *zero = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){0});
  ways_variable(self, &(ls_variable_options){.name = "count",
                                             .initial_array = zero,
                                             .trainable = LS_FLAG_OFF});
  ls_array_release(zero);
}

static ls_nest scale_by_count(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_nest sum = add_up(strategy, args, NULL);
  if (ls_nest_is_failed(sum)) return sum;
  ls_nest count = ls_none();
  const ls_status status =
      ls_variable_write(user, LS_WRITE_ADD, ls_nest_f64(2), NULL, &count);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_tensor x = ls_failed_tensor(), n = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(sum, &x));
  expect_ok(ls_region_tensor(count.kind == LS_KIND_DISTRIBUTED
                                 ? ls_distributed_component(count, 0)
                                 : count,
                             &n));
  ls_nest_release(count);
  ls_nest_release(sum);
  return ls_leaf(ls_mul(x, n));
}

static ls_tensor loss_of_variable(ls_nest args, ways *self) {
  const ls_nest given = LS_LIST(ls_leaf(argument(args, 0)));
  const ls_nest got = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      self->variables[0]);
  ls_nest_release(given);
  expect_ok(ls_nest_status(got));
  const ls_tensor y = ls_mul(
      argument(args, 1), ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
  ls_nest_release(got);
  return y;
}

static ls_nest gradients_with_variable(ls_nest args, ways *self) {
  const ls_nest xs[] = {ls_leaf(argument(args, 0)),
                        ls_nest_variable(self->variables[0])};
  const ls_nest own = LS_TUPLE(xs[0], ls_leaf(argument(args, 1)));
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, loss_of_variable, own, xs, 2, NULL, gradients);
  ls_nest_release(xs[1]);
  ls_nest_release(own);
  return ls_status_is_ok(status) ? LS_TUPLE(gradients[0], gradients[1])
                                 : ls_fail(status);
}

static void a_variable_has_all_of_its_gradient(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r) {
    // All weights are n n; the sum of all first elements is n (n + 1) / 2.
    ways_expect(self, "of x", ways_result(self, 0, r, 0, 0), n * n * 2, 0);
    ways_expect(self, "of the variable", ways_result(self, 0, r, 1, 0),
                r == 0 ? n * n * n * (n + 1) / 2.0 : 0, 0);
  }
}

static void
a_variable_that_is_read_for_all_has_its_gradient_once(void **state) {
  (void)state;
  static const ls_merge_function function = scale_by_variable;
  const ways_case c = {.name = "a variable",
                       .user = &function,
                       .make = make_factor,
                       .args = rows_of,
                       .step = gradients_with_variable,
                       .check = a_variable_has_all_of_its_gradient};
  ways_hold(&c, 1);
}

// A merge call of nothing: its function reads for all.
static ls_nest read_for_all(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  return ls_leaf(ls_variable_read(user));
}

static ls_tensor loss_of_read(ls_nest args, ways *self) {
  const ls_nest got = ls_replica_merge_call(ls_replica_context(), read_for_all,
                                            ls_none(), self->variables[0]);
  expect_ok(ls_nest_status(got));
  const ls_tensor y = ls_mul(
      argument(args, 1), ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
  ls_nest_release(got);
  return y;
}

static ls_nest gradient_of_read(ls_nest args, ways *self) {
  const ls_nest x = ls_nest_variable(self->variables[0]);
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_read, args, &x, 1, NULL, &gradient);
  ls_nest_release(x);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

static void replica_0_has_all_weights(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "of the variable", ways_result(self, 0, r, 0, 0),
                r == 0 ? n * n : 0, 0);
}

static void what_a_merge_call_of_nothing_reads_has_a_gradient(void **state) {
  (void)state;
  const ways_case c = {.name = "read for all",
                       .make = make_factor,
                       .args = rows_of,
                       .step = gradient_of_read,
                       .check = replica_0_has_all_weights};
  ways_hold(&c, 1);
}

// ---- What was got is given on ----------------------------------------------
// The gradient with respect to what a merge call has given all, through one
// that hands it back.
static ls_tensor loss_of_given_on(ls_nest args, ways *self) {
  const ls_tensor x = argument(args, 0);
  const ls_nest met =
      ls_replica_merge_call(ls_replica_context(), give_back, args, self);
  ls_tensor y = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(met, &y));
  ls_nest_release(met);
  return ls_reduce_sum(ls_mul(ls_mul(x, x), y), LS_ALL_AXES);
}

static ls_nest gradient_of_given_on(ls_nest args, ways *self) {
  const ls_nest read = ls_replica_merge_call(ls_replica_context(), read_for_all,
                                             args, self->variables[0]);
  if (!ls_status_is_ok(ls_nest_status(read))) return read;
  const ls_nest given = LS_TUPLE(read);
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_given_on, given, &read, 1, NULL, &gradient);
  ls_nest_release(given);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

// Of x x x, x = 2, 3, 4.
static void it_has_both_parts(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (int i = 0; i < 3; ++i)
      ways_expect(self, "gradient", ways_result(self, 0, r, 0, i),
                  3 * (i + 2) * (i + 2), 0);
}

static void what_was_got_has_a_gradient_where_it_is_given_on(void **state) {
  (void)state;
  ways_hold(&(ways_case){.name = "given on",
                         .make = make_factor,
                         .args = rows_of,
                         .step = gradient_of_given_on,
                         .check = it_has_both_parts},
            1);
}

static ls_nest gradient_by_count(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 0));
  const ls_nest own = LS_TUPLE(x, ls_leaf(argument(args, 1)));
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_variable, own, &x, 1, NULL, &gradient);
  ls_nest_release(own);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

static void is_counted(const ways *self) {
  const int n = self->replicas;
  for (int step = 0; step < 2; ++step)
    for (int r = 0; r < n; ++r)
      ways_expect(self, "of x", ways_result(self, step, r, 0, 0),
                  n * n * 2 * (step + 1), 0);
  ways_expect(self, "the count", ways_value(self, 0, 0, 0), 4, 0);
}

static void what_is_written_for_all_is_written_once(void **state) {
  (void)state;
  static const ls_merge_function function = scale_by_count;
  const ways_case c = {.name = "a count",
                       .user = &function,
                       .make = make_count,
                       .args = rows_of,
                       .step = gradient_by_count,
                       .check = is_counted,
                       .steps = 2};
  ways_hold(&c, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_pass_a_merge_call_alike_in_every_way),
      cmocka_unit_test(so_do_gradients_of_gradients),
      cmocka_unit_test(what_all_replicas_make_of_a_value_comes_back_to_it),
      cmocka_unit_test(replicas_may_give_other_numbers_of_rows),
      cmocka_unit_test(a_variable_that_is_read_for_all_has_its_gradient_once),
      cmocka_unit_test(what_a_merge_call_of_nothing_reads_has_a_gradient),
      cmocka_unit_test(what_was_got_has_a_gradient_where_it_is_given_on),
      cmocka_unit_test(what_is_written_for_all_is_written_once),
      cmocka_unit_test(replicas_gradients_of_one_value_add_up),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}

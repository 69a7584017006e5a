// SPDX-License-Identifier: Apache-2.0
//
// Gradients through merge calls: every way to run gives those of the sum of all
// replicas' results, whose numbers are the trace's.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "support/function.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- Merge functions -------------------------------------------------------
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
  LS_OWN(ls_nest, given) =
      LS_LIST(ls_leaf(x), ls_leaf(ls_exp(ls_mul_scalar(c, 0.125))));
  LS_OWN(ls_nest, got) = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      NULL);
  expect_ok(ls_nest_status(got));
  return ls_mul(c, sum_of_leaves(got, ls_scalar(LS_DTYPE_F32, 0)));
}

static ls_nest with_gradients(ls_nest args, ways *self,
                              ls_tensor (*function)(ls_nest args, ways *self)) {
  const ls_nest xs[] = {ls_leaf(argument(args, 0)), ls_leaf(argument(args, 1))};
  LS_OWN(ls_nest, own) = LS_TUPLE(xs[0], xs[1]);
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, function, own, xs, 2, NULL, gradients);
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

TEST(gradients_pass_a_merge_call_alike_in_every_way) {
  LS_SPEC("V211");
  hold_functions(gradients_of, 0);
}

TEST(so_do_gradients_of_gradients) {
  LS_SPEC("V211");
  // The terms of a second gradient come in an order of each way's own.
  hold_functions(second_gradients_of, 1e-6);
}

// ---- By hand ---------------------------------------------------------------
// c * the sum of all x: all c come back. And x times the next one's.
static ls_tensor linear(ls_nest args, ways *self) {
  const ls_tensor x = argument(args, 0);
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(x));
  LS_OWN(ls_nest, got) = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      NULL);
  expect_ok(ls_nest_status(got));
  return ls_mul(argument(args, 1),
                ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
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

TEST(what_all_replicas_make_of_a_value_comes_back_to_it) {
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

TEST(replicas_gradients_of_one_value_add_up) {
  LS_SPEC("V87");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  shared s = {0};
  LS_OWN(ls_function, function) = unnamed_function(gradient_of_shared, &s);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(per_replica_scalars((double[]){3, 4}, 2), ls_leaf(scalar_of(5)));
  for (int eager = 0; eager < 2; ++eager) {
    s.by_tape = eager == 1;
    LS_OWN(ls_nest, made) = strategy_results(
        strategy,
        eager == 1 ? ls_plain(gradient_of_shared, &s) : ls_traced(function),
        args);
    // Both replicas' results, of which each is (3 + 4) w.
    assert_true(number_in(made, 0) == 14);
    assert_true(number_in(made, 1) == 0);
  }
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

TEST(replicas_may_give_other_numbers_of_rows) {
  static const ls_merge_function function = scale_own;
  const ways_case c = {.name = "rows",
                       .user = &function,
                       .args = own_rows,
                       .step = gradients_of};
  ways_hold(&c, 1);
}

// SPDX-License-Identifier: Apache-2.0
//
// Gradients through merge calls that read and write variables, and of what they
// gave where it is given on.
#include "support/ways.h"

#include "base/memory/own.h"
#include "graph/region.h"
#include "lockstep/strategy_extended.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"

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
  LS_OWN(ls_array, zero) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){0});
  ways_variable(self, &(ls_variable_options){.name = "count",
                                             .initial_array = zero,
                                             .trainable = LS_FLAG_OFF});
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
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(argument(args, 0)));
  LS_OWN(ls_nest, got) = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      self->variables[0]);
  expect_ok(ls_nest_status(got));
  return ls_mul(argument(args, 1),
                ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
}

static ls_nest gradients_with_variable(ls_nest args, ways *self) {
  const ls_nest xs[] = {ls_leaf(argument(args, 0)),
                        ls_nest_variable(self->variables[0])};
  LS_OWN(ls_nest, own) = LS_TUPLE(xs[0], ls_leaf(argument(args, 1)));
  ls_nest gradients[2] = {0};
  const ls_status status =
      ways_gradients(self, loss_of_variable, own, xs, 2, NULL, gradients);
  ls_nest_release(xs[1]);
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

TEST(a_variable_that_is_read_for_all_has_its_gradient_once) {
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
  LS_OWN(ls_nest, got) = ls_replica_merge_call(
      ls_replica_context(), read_for_all, ls_none(), self->variables[0]);
  expect_ok(ls_nest_status(got));
  return ls_mul(argument(args, 1),
                ls_reduce_sum(ls_nest_tensor(got, 0), LS_ALL_AXES));
}

static ls_nest gradient_of_read(ls_nest args, ways *self) {
  LS_OWN(ls_nest, x) = ls_nest_variable(self->variables[0]);
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_read, args, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

static void replica_0_has_all_weights(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "of the variable", ways_result(self, 0, r, 0, 0),
                r == 0 ? n * n : 0, 0);
}

TEST(what_a_merge_call_of_nothing_reads_has_a_gradient) {
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
  LS_OWN(ls_nest, met) =
      ls_replica_merge_call(ls_replica_context(), give_back, args, self);
  ls_tensor y = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(met, &y));
  return ls_reduce_sum(ls_mul(ls_mul(x, x), y), LS_ALL_AXES);
}

static ls_nest gradient_of_given_on(ls_nest args, ways *self) {
  const ls_nest read = ls_replica_merge_call(ls_replica_context(), read_for_all,
                                             args, self->variables[0]);
  if (!ls_status_is_ok(ls_nest_status(read))) return read;
  LS_OWN(ls_nest, given) = LS_TUPLE(read);
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_given_on, given, &read, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

// Of x x x, x = 2, 3, 4.
static void it_has_both_parts(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (int i = 0; i < 3; ++i)
      ways_expect(self, "gradient", ways_result(self, 0, r, 0, i),
                  3 * (i + 2) * (i + 2), 0);
}

TEST(what_was_got_has_a_gradient_where_it_is_given_on) {
  ways_hold(&(ways_case){.name = "given on",
                         .make = make_factor,
                         .args = rows_of,
                         .step = gradient_of_given_on,
                         .check = it_has_both_parts},
            1);
}

static ls_nest gradient_by_count(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 0));
  LS_OWN(ls_nest, own) = LS_TUPLE(x, ls_leaf(argument(args, 1)));
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of_variable, own, &x, 1, NULL, &gradient);
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

TEST(what_is_written_for_all_is_written_once) {
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

// SPDX-License-Identifier: Apache-2.0
//
// Values, variables, collectives and steps of optimizers give the same in every
// way to run: traced, in eager, in a build graph with a session; on 1 to 3
// replicas; with a user's table of cross-device ops.
#include "support/replicas.h"
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/strategy_extended.h"
#include "support/values.h"

// ---- Values ----------------------------------------------------------------
static ls_nest rows_of(const ways *self, int step, int r) {
  (void)self;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2),
                             (double[]){r + 1 + 10 * step, 0.5 - r + step})));
}

static ls_nest square_own(ls_nest args, ways *self) {
  (void)self;
  return LS_TUPLE(ls_leaf(ls_square(first_argument(args))));
}

static void is_squared(const ways *self) {
  for (int step = 0; step < 2; ++step)
    for (int r = 0; r < self->replicas; ++r) {
      const double x = r + 1 + 10 * step;
      ways_expect(self, "a square", ways_result(self, step, r, 0, 0), x * x, 0);
    }
}

TEST(a_value_of_each_replica_is_computed_in_every_way) {
  const ways_case c = {.name = "squares",
                       .args = rows_of,
                       .step = square_own,
                       .check = is_squared,
                       .steps = 2};
  ways_hold(&c, 1);
}

// ---- Variables -------------------------------------------------------------
static void make_counter(ways *self) {
  LS_OWN(ls_array, zero) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  ways_variable(self,
                &(ls_variable_options){.name = "counter",
                                       .initial_array = zero,
                                       .aggregation = LS_AGGREGATION_SUM});
}

static ls_nest add_own_number(ls_nest args, ways *self) {
  ls_nest written = ls_none();
  const ls_tensor number = ls_reduce_max(first_argument(args), LS_ALL_AXES);
  const ls_status status = ls_variable_write(self->variables[0], LS_WRITE_ADD,
                                             ls_leaf(number), NULL, &written);
  return ls_status_is_ok(status) ? LS_TUPLE(written) : ls_fail(status);
}

static void is_counted(const ways *self) {
  const int n = self->replicas;
  for (int c = 0; c < n; ++c)
    ways_expect(self, "the counter", ways_value(self, 0, c, 0),
                1 + n * (n + 1) / 2 + (10 * n + n * (n + 1) / 2), 0);
}

TEST(aggregated_writes_of_replicas_meet_in_every_way) {
  LS_SPEC("V98");
  const ways_case c = {.name = "counter",
                       .make = make_counter,
                       .args = rows_of,
                       .step = add_own_number,
                       .check = is_counted,
                       .steps = 2};
  ways_hold(&c, 1);
}

// ---- Collectives -----------------------------------------------------------
static ls_nest reduce_own(ls_nest args, ways *self) {
  (void)self;
  ls_replica *replica = ls_replica_context();
  const ls_nest x = ls_leaf(first_argument(args));
  return LS_TUPLE(ls_replica_all_reduce(replica, LS_REDUCE_SUM, x),
                  ls_replica_all_reduce(replica, LS_REDUCE_MEAN, x),
                  ls_replica_all_gather(replica, x, 0));
}

static void is_reduced(const ways *self) {
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  for (int r = 0; r < n; ++r) {
    ways_expect(self, "a sum", ways_result(self, 0, r, 0, 0), sum, 0);
    ways_expect(self, "a mean", ways_result(self, 0, r, 1, 0), sum / n, 1e-6);
    for (int k = 0; k < n; ++k)
      ways_expect(self, "a part", ways_result(self, 0, r, 2, 2 * k), k + 1, 0);
  }
}

TEST(collectives_of_replicas_are_the_same_in_every_way) {
  LS_SPEC("V180 V181");
  const ways_case c = {.name = "collectives",
                       .args = rows_of,
                       .step = reduce_own,
                       .check = is_reduced};
  ways_hold(&c, 1);
}

// ---- Steps of optimizers ---------------------------------------------------
static void make_line(ways *self) {
  ways_vector(self, "w", 2, (double[]){0.5, -1});
  ways_vector(self, "b", 0, (double[]){0.25});
  expect_ok(ls_optimizer_create(self->user, NULL, &self->optimizer));
}

static ls_tensor loss_of_line(ls_nest args, ways *self) {
  const ls_tensor y =
      ls_add(ls_mul(first_argument(args), ls_variable_read(self->variables[0])),
             ls_variable_read(self->variables[1]));
  return ls_reduce_mean(ls_square(y), LS_ALL_AXES);
}

static ls_nest go_down(ls_nest args, ways *self) {
  return ways_minimize(self, loss_of_line, args);
}

TEST(every_optimizer_takes_the_same_steps_in_every_way) {
  for (size_t i = 0; ls_optimizer_kind(i) != NULL; ++i) {
    const ways_case c = {.name = ls_optimizer_kind(i),
                         .user = ls_optimizer_kind(i),
                         .make = make_line,
                         .args = rows_of,
                         .step = go_down,
                         .steps = 3};
    ways_hold(&c, 1);
  }
}

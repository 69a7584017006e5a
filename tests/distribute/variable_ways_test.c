// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of distributed variables are the same in every way to run,
// by each synchronization and aggregation, in replicas and across them.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "support/values.h"
#include "support/variables.h"

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};

// How a variable is made and written.
typedef struct writing {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  ls_write_op op;
  ls_dtype dtype;  // Default f32.
  double initial, number;
  bool no_read_value;
} writing;

// What one component is after a value was written.
static double written(const writing *w, double value) {
  return w->op == LS_WRITE_ASSIGN ? value
         : w->op == LS_WRITE_ADD  ? w->initial + value
                                  : w->initial - value;
}

// What n replicas' numbers are together, of which replica r has r + 1.
static double together(ls_variable_aggregation aggregation, int n) {
  const double sum = n * (n + 1) / 2.0;
  return aggregation == SUM ? sum : aggregation == MEAN ? sum / n : 1;
}

static void make_variable(ways *self) {
  const writing *w = self->user;
  const ls_dtype dtype = w->dtype == LS_DTYPE_NONE ? LS_DTYPE_F32 : w->dtype;
  LS_OWN(ls_array, initial) = array_of(dtype, LS_SCALAR, &w->initial);
  ways_variable(self,
                &(ls_variable_options){.name = "v",
                                       .initial_array = initial,
                                       .synchronization = w->synchronization,
                                       .aggregation = w->aggregation});
}

static ls_nest number_of_replica(const ways *self, int step, int r) {
  (void)self;
  (void)step;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){r + 1})));
}

// What is written, and what is read behind it; `value` is lent.
static ls_nest write_and_read(ways *self, ls_nest value) {
  const writing *w = self->user;
  ls_nest after = ls_none();
  const ls_status status = ls_variable_write(
      self->variables[0], w->op, value,
      &(ls_write_options){.no_read_value = w->no_read_value}, &after);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (w->no_read_value) return LS_TUPLE(after);
  return LS_TUPLE(after, ls_leaf(ls_variable_read(self->variables[0])),
                  ls_leaf(ls_variable_as_tensor(self->variables[0])));
}

// ---- Writes of replicas ----------------------------------------------------
static ls_nest write_own(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  return write_and_read(self, ls_leaf(x));
}

static void own_is_written(const ways *self) {
  const writing *w = self->user;
  const bool meets = w->synchronization != ON_READ && w->aggregation != NONE;
  for (int r = 0; r < self->replicas; ++r) {
    const double wanted =
        written(w, meets ? together(w->aggregation, self->replicas) : r + 1);
    ways_expect(self, "a component", ways_value(self, 0, r, 0), wanted, 1e-6);
    for (size_t k = 0; k < (w->no_read_value ? 0 : 3); ++k)
      ways_expect(self, "what is read", ways_result(self, 0, r, k, 0), wanted,
                  1e-6);
  }
}

// Each synchronization, aggregation and kind of write.
static void hold_each(ls_nest (*step)(ls_nest args, ways *self),
                      void (*check)(const ways *self), double number) {
  for (int s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
      for (int op = 0; op < 3; ++op) {
        const writing w = {.synchronization =
                               s == 0 ? LS_SYNCHRONIZATION_ON_WRITE : ON_READ,
                           .aggregation = aggregations[a],
                           .op = (ls_write_op)op,
                           .initial = 10,
                           .number = number,
                           .no_read_value = op == 1};
        const ways_case c = {.name = s == 0 ? "on write" : "on read",
                             .user = &w,
                             .make = make_variable,
                             .args = number_of_replica,
                             .step = step,
                             .check = check};
        ways_hold(&c, 1);
      }
}

TEST(replicas_write_by_aggregation_in_every_way) {
  LS_SPEC("V96 V97 V98 V105 V108");
  hold_each(write_own, own_is_written, 0);
}

// ---- Writes across replicas ------------------------------------------------
static ls_nest write_number(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  return write_and_read(self,
                        ls_nest_f64(((const writing *)self->user)->number));
}

static ls_nest write_mirrored(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  const double number = ((const writing *)self->user)->number;
  ls_nest everywhere = ls_none();
  (void)args;
  const ls_status status = ls_strategy_broadcast_to(
      strategy, ls_leaf(ls_scalar(LS_DTYPE_F32, number)), (ls_destinations){0},
      &everywhere);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest made = write_and_read(self, everywhere);
  ls_nest_release(everywhere);
  return made;
}

static ls_nest write_what_differs(ls_strategy *strategy, ls_nest args,
                                  void *user) {
  (void)strategy;
  return write_and_read(user, ls_nest_item(args, 0));
}

static ls_nest merge_number(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), write_number, args, self);
}

static ls_nest merge_mirrored(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), write_mirrored, args,
                               self);
}

static ls_nest merge_what_differs(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), write_what_differs, args,
                               self);
}

// A sum is dealt to the components of what is added up when it is read.
static void number_is_everywhere(const ways *self) {
  const writing *w = self->user;
  const bool dealt = w->synchronization == ON_READ && w->aggregation == SUM;
  const double each =
      dealt ? w->number / self->replicas : written(w, w->number);
  for (int r = 0; r < self->replicas; ++r) {
    ways_expect(self, "a component", ways_value(self, 0, r, 0), each, 1e-6);
    for (size_t k = 0; k < (w->no_read_value ? 0 : 3); ++k)
      ways_expect(self, "what is read", ways_result(self, 0, r, k, 0),
                  dealt ? w->number : each, 1e-6);
  }
}

// As a row says, with what refuses it.
static void hold_across(const writing *w, ls_code refused, const char *says) {
  const ways_case cases[] = {{.name = "a host scalar", .step = merge_number},
                             {.name = "a Mirrored", .step = merge_mirrored}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    ways_case c = cases[i];
    c.user = w;
    c.make = make_variable;
    c.args = number_of_replica;
    c.check = refused == LS_OK ? number_is_everywhere : NULL;
    c.refused = refused;
    c.says = says;
    ways_hold(&c, 1);
  }
}

TEST(writes_across_replicas_reach_all_in_every_way) {
  LS_SPEC("V94 V104");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    for (int op = 0; op < 3; ++op)
      hold_across(&(writing){.aggregation = aggregations[a],
                             .op = (ls_write_op)op,
                             .initial = 10,
                             .number = 6,
                             .no_read_value = op == 1},
                  LS_OK, NULL);
}

TEST(on_read_writes_across_replicas_in_every_way) {
  LS_SPEC("V109 V110 V111");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    for (int op = 0; op < 3; ++op) {
      writing w = {.synchronization = ON_READ,
                   .aggregation = aggregations[a],
                   .op = (ls_write_op)op,
                   .initial = 10,
                   .number = 6};
      const bool added_up = aggregations[a] == SUM && op != LS_WRITE_ASSIGN;
      if (added_up)
        hold_across(&w, LS_FAILED_PRECONDITION, "SUM");
      else if (aggregations[a] == NONE)
        hold_across(&w, LS_INVALID_ARGUMENT, "NONE");
      else
        hold_across(&w, LS_OK, NULL);
      w.no_read_value = true;
      if (!added_up) hold_across(&w, LS_OK, NULL);
    }
}

static void each_has_its_own(const ways *self) {
  const writing *w = self->user;
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0),
                written(w, r + 1), 0);
}

TEST(what_differs_is_written_where_nothing_is_aggregated) {
  LS_SPEC("V94 V95 V112");
  for (int s = 0; s < 2; ++s)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a) {
      const writing w = {.synchronization =
                             s == 0 ? LS_SYNCHRONIZATION_ON_WRITE : ON_READ,
                         .aggregation = aggregations[a],
                         .initial = 10};
      const bool fine = s == 0 && aggregations[a] == NONE;
      const ways_case c = {.name = s == 0 ? "on write" : "on read",
                           .user = &w,
                           .make = make_variable,
                           .args = number_of_replica,
                           .step = merge_what_differs,
                           .check = fine ? each_has_its_own : NULL,
                           .replicas_only = true,
                           .refused = fine ? LS_OK : LS_INVALID_ARGUMENT};
      ways_hold(&c, 1);
    }
}

// ---- One value from all replicas -------------------------------------------
static ls_nest write_host_scalar(ls_nest args, ways *self) {
  (void)args;
  return write_and_read(self,
                        ls_nest_f64(((const writing *)self->user)->number));
}

static ls_nest write_i64(ls_nest args, ways *self) {
  (void)args;
  return write_and_read(
      self, ls_nest_i64((int64_t)((const writing *)self->user)->number));
}

static ls_nest write_array(ls_nest args, ways *self) {
  (void)args;
  LS_OWN(ls_nest, value) = ls_nest_array(ls_array_retain(self->more));
  return write_and_read(self, value);
}

static void make_with_array(ways *self) {
  make_variable(self);
  self->more =
      array_of(LS_DTYPE_F32, LS_SCALAR, &((const writing *)self->user)->number);
}

static void drop_array(ways *self) { ls_array_release(self->more); }

static void number_is_written(const ways *self) {
  const writing *w = self->user;
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "a component", ways_value(self, 0, r, 0),
                written(w, w->number), 0);
}

TEST(one_value_from_all_is_no_sum_in_every_way) {
  LS_SPEC("V99");
  for (size_t a = 1; a < LS_COUNT_OF(aggregations); ++a)
    for (int k = 0; k < 4; ++k) {
      const writing w = {.aggregation = aggregations[a],
                         .op = LS_WRITE_SUB,
                         .initial = 10,
                         .number = k < 2 ? 2.5 : 0};
      const bool array = k % 2 == 1, summed = aggregations[a] == SUM && k != 2;
      ways_case c = {.name = array ? "an array" : "a host scalar",
                     .user = &w,
                     .make = array ? make_with_array : make_variable,
                     .step = array ? write_array : write_host_scalar,
                     .drop = array ? drop_array : NULL,
                     .check = number_is_written,
                     .one_replica = summed};
      ways_hold(&c, 1);
      if (!summed) continue;
      c.one_replica = false;
      c.replicas_only = true;
      c.check = NULL;
      c.refused = LS_INVALID_ARGUMENT;
      c.says = "SUM";
      ways_hold(&c, 1);
    }
}

TEST(the_global_step_counts_steps_in_every_way) {
  LS_SPEC("V103");
  static const ls_dtype dtypes[] = {LS_DTYPE_I64,  LS_DTYPE_I32, LS_DTYPE_F64,
                                    LS_DTYPE_BF16, LS_DTYPE_F16, LS_DTYPE_U8};
  for (size_t i = 0; i < LS_COUNT_OF(dtypes); ++i)
    for (int across = 0; across < 2; ++across) {
      const writing w = {.aggregation = FIRST,
                         .op = LS_WRITE_ADD,
                         .dtype = dtypes[i],
                         .initial = 7,
                         .number = 2};
      const ways_case c = {.name = across == 1 ? "across" : "in a replica",
                           .user = &w,
                           .make = make_variable,
                           .args = number_of_replica,
                           .step = across == 1 ? merge_number : write_i64,
                           .check = number_is_written};
      ways_hold(&c, 1);
    }
}

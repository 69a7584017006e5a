// SPDX-License-Identifier: Apache-2.0
//
// Scatters into distributed variables give the same in every way to run, by
// each aggregation, in replicas and across them.
#include "runtime/eager/eager.h"
#include "support/ways.h"

#include <math.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/make/make.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"

static const ls_variable_aggregation aggregations[] = {NONE, SUM, MEAN, FIRST};

typedef struct scattering {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  ls_scatter_op op;
  bool uneven;  // Replica r has r + 1 rows.
} scattering;

static const double start[] = {4, 6, 8};

static void make_rows(ways *self) {
  const scattering *s = self->user;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SHAPE(3), start);
  ways_variable(self,
                &(ls_variable_options){.name = "rows",
                                       .initial_array = initial,
                                       .synchronization = s->synchronization,
                                       .aggregation = s->aggregation});
}

// Replica r has 2 (r + 1) for row r; where it is uneven, for each row up to it.
static ls_nest delta_of_replica(const ways *self, int step, int r) {
  const scattering *s = self->user;
  const double values[] = {2 * (r + 1), 2 * (r + 1), 2 * (r + 1)};
  const double rows[] = {r, r - 1, r - 2};
  const int64_t count = s->uneven ? r + 1 : 1;
  (void)step;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_I32, LS_SHAPE(count), rows)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(count), values)));
}

static ls_nest as_result(ls_tensor after) {
  const ls_status status = ls_made_status(after);
  return ls_status_is_ok(status) ? LS_TUPLE(ls_leaf(after)) : ls_fail(status);
}

static double applied(ls_scatter_op op, double x, double update) {
  switch (op) {
  case LS_SCATTER_UPDATE:
    return update;
  case LS_SCATTER_ADD:
    return x + update;
  case LS_SCATTER_SUB:
    return x - update;
  case LS_SCATTER_MUL:
    return x * update;
  case LS_SCATTER_DIV:
    return x / update;
  case LS_SCATTER_MIN:
    return fmin(x, update);
  default:
    return fmax(x, update);
  }
}

static void expect_rows(const ways *self, const double rows[][3]) {
  for (int c = 0; c < self->replicas; ++c)
    for (int i = 0; i < 3; ++i) {
      ways_expect(self, "a row", ways_value(self, 0, c, i), rows[c][i], 1e-5);
      ways_expect(self, "what is given", ways_result(self, 0, c, 0, i),
                  rows[c][i], 1e-5);
    }
}

// ---- In replicas -----------------------------------------------------------
static ls_nest scatter_own(ls_nest args, ways *self) {
  const scattering *s = self->user;
  return as_result(ls_variable_scatter(self->variables[0], s->op,
                                       argument(args, 0), argument(args, 1)));
}

static void rows_are_together(const ways *self) {
  const scattering *s = self->user;
  const int n = self->replicas;
  double rows[WAYS_MOST_REPLICAS][3];
  for (int c = 0; c < n; ++c) {
    for (int i = 0; i < 3; ++i)
      rows[c][i] = start[i];
    for (int r = 0; r < n; ++r) {
      if (s->aggregation == NONE && r != c) continue;
      if (s->aggregation == FIRST && r != 0) continue;
      const double value = 2.0 * (r + 1) / (s->aggregation == MEAN ? n : 1);
      for (int i = s->uneven ? 0 : r; i <= r; ++i)
        rows[c][i] = applied(s->op, rows[c][i], value);
    }
  }
  expect_rows(self, (const double(*)[3])rows);
}

static bool is_open(const scattering *s) {
  return s->op == LS_SCATTER_UPDATE || s->op == LS_SCATTER_MIN ||
                 s->op == LS_SCATTER_MAX
             ? s->aggregation == NONE || s->aggregation == FIRST
             : true;
}

static void hold_each(ls_nest (*step)(ls_nest args, ways *self),
                      void (*check)(const ways *self), bool uneven) {
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    for (int op = LS_SCATTER_UPDATE; op <= LS_SCATTER_MAX; ++op) {
      const scattering s = {.aggregation = aggregations[a],
                            .op = (ls_scatter_op)op,
                            .uneven = uneven};
      const bool open = is_open(&s);
      const ways_case c = {.name = ls_scatter_name((ls_scatter_op)op),
                           .user = &s,
                           .make = make_rows,
                           .args = delta_of_replica,
                           .step = step,
                           .check = open ? check : NULL,
                           .refused = open ? LS_OK : LS_UNIMPLEMENTED,
                           .says = aggregations[a] == SUM ? "SUM" : "MEAN"};
      ways_hold(&c, 1);
    }
}

TEST(replicas_scatter_by_aggregation_in_every_way) {
  LS_SPEC("V116 V118 V119");
  hold_each(scatter_own, rows_are_together, false);
}

TEST(replicas_scatter_as_many_rows_as_they_have) {
  LS_SPEC("V119");
  hold_each(scatter_own, rows_are_together, true);
}

// The last replica's rows are of another kind than the others'.
static ls_nest scatter_wrongly(ls_nest args, ways *self) {
  const scattering *s = self->user;
  const bool last = ls_replica_number() + 1 == self->replicas;
  const ls_tensor updates = !last ? argument(args, 1)
                            : s->uneven
                                ? ls_reshape(argument(args, 1), LS_SHAPE(-1, 1))
                                : ls_convert(argument(args, 1), LS_DTYPE_F64);
  return as_result(ls_variable_scatter(self->variables[0], s->op,
                                       argument(args, 0), updates));
}

TEST(wrong_rows_are_scattered_nowhere) {
  LS_SPEC("V119");
  for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a)
    for (int uneven = 0; uneven < 2; ++uneven) {
      const scattering s = {.aggregation = aggregations[a],
                            .op = LS_SCATTER_ADD,
                            .uneven = uneven == 1};
      ways_hold(&(ways_case){.name = uneven == 1 ? "another rank of the last"
                                                 : "another dtype of the last",
                             .user = &s,
                             .make = make_rows,
                             .args = delta_of_replica,
                             .step = scatter_wrongly,
                             .refused = LS_INVALID_ARGUMENT,
                             .writes_before = aggregations[a] == NONE},
                1);
    }
}

// ---- Across replicas -------------------------------------------------------
static ls_nest scatter_two(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  const scattering *s = self->user;
  (void)strategy, (void)args;
  const ls_tensor row = ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 1), LS_SHAPE(1));
  return as_result(
      ls_variable_scatter(self->variables[0], s->op, row,
                          ls_reshape(ls_scalar(LS_DTYPE_F32, 2), LS_SHAPE(1))));
}

static ls_nest merge_two(ls_nest args, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), scatter_two, args, self);
}

static void two_is_everywhere(const ways *self) {
  const scattering *s = self->user;
  double rows[WAYS_MOST_REPLICAS][3];
  for (int c = 0; c < self->replicas; ++c)
    for (int i = 0; i < 3; ++i)
      rows[c][i] = i == 1 ? applied(s->op, start[i], 2) : start[i];
  expect_rows(self, (const double(*)[3])rows);
}

TEST(scatters_across_replicas_reach_all_in_every_way) {
  LS_SPEC("V116 V117 V118");
  hold_each(merge_two, two_is_everywhere, false);
}

TEST(nothing_is_scattered_into_on_read_variables) {
  LS_SPEC("V120");
  for (int across = 0; across < 2; ++across)
    for (size_t a = 0; a < LS_COUNT_OF(aggregations); ++a) {
      const scattering s = {.synchronization = ON_READ,
                            .aggregation = aggregations[a],
                            .op = LS_SCATTER_ADD};
      const ways_case c = {.name = across == 1 ? "across" : "in a replica",
                           .user = &s,
                           .make = make_rows,
                           .args = delta_of_replica,
                           .step = across == 1 ? merge_two : scatter_own,
                           .refused = LS_UNIMPLEMENTED,
                           .says = "ON_READ"};
      ways_hold(&c, 1);
    }
}

// SPDX-License-Identifier: Apache-2.0
//
// Writes of aggregated variables in replicas, the same in every way to run:
// rows of each replica's own, and a value with parts that replicas capture.
#include <math.h>
#include <stdlib.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/ways.h"

enum { ROWS = 4 };
static const double initial[ROWS] = {4, 6, 8, 10};

// ---- Rows ------------------------------------------------------------------
typedef struct scatters {
  ls_scatter_op op;
  ls_variable_aggregation aggregation;
  bool uneven;    // Replica r gives r + 1 rows, else one.
  bool same_row;  // All the first one, else replica r row r.
} scatters;

static void make_rows(ways *self) {
  const scatters *s = self->user;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ROWS), &array));
  for (int i = 0; i < ROWS; ++i)
    ls_array_set_f64(array, i, initial[i]);
  ways_variable(self, &(ls_variable_options){.name = "v",
                                             .initial_array = array,
                                             .aggregation = s->aggregation});
}

static int rows_of(const scatters *s, int r) { return s->uneven ? r + 1 : 1; }

static int row_of(const scatters *s, int r, int k) {
  return s->same_row ? 0 : (r + k) % ROWS;
}

static ls_nest give_rows(const ways *self, int step, int r) {
  const scatters *s = self->user;
  const int rows = rows_of(s, r);
  (void)step;
  ls_array *indices = NULL, *updates = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(rows), &indices));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(rows), &updates));
  for (int k = 0; k < rows; ++k) {
    ls_array_set_f64(indices, k, row_of(s, r, k));
    ls_array_set_f64(updates, k, 2 * (r + 1) + k);
  }
  return LS_TUPLE(ls_nest_array(indices), ls_nest_array(updates));
}

static ls_nest scatter_rows(ls_nest args, ways *self) {
  const scatters *s = self->user;
  return LS_LIST(ls_leaf(ls_variable_scatter(self->variables[0], s->op,
                                             ls_nest_tensor(args, 0),
                                             ls_nest_tensor(args, 1))));
}

static float applied(ls_scatter_op op, float x, float update) {
  switch (op) {
  case LS_SCATTER_ADD:
    return x + update;
  case LS_SCATTER_SUB:
    return x - update;
  case LS_SCATTER_MUL:
    return x * update;
  case LS_SCATTER_DIV:
    return x / update;
  case LS_SCATTER_MIN:
    return fminf(x, update);
  case LS_SCATTER_MAX:
    return fmaxf(x, update);
  default:
    return update;
  }
}

// All replicas' rows in their order, one after the other.
static void expect_rows(const ways *self) {
  const scatters *s = self->user;
  float wanted[ROWS];
  for (int i = 0; i < ROWS; ++i)
    wanted[i] = (float)initial[i];
  const bool first = s->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA;
  const bool mean = s->aggregation == LS_AGGREGATION_MEAN;
  const float scale = mean ? (float)(1.0 / self->replicas) : 1;
  for (int r = 0; r < (first ? 1 : self->replicas); ++r)
    for (int k = 0; k < rows_of(s, r); ++k) {
      float *row = &wanted[row_of(s, r, k)];
      *row = applied(s->op, *row, (float)(2 * (r + 1) + k) * scale);
    }
  for (int i = 0; i < ROWS; ++i)
    for (int r = 0; r < self->replicas; ++r) {
      ways_expect(self, "component", ways_value(self, 0, r, i), wanted[i], 0);
      ways_expect(self, "result", ways_result(self, 0, r, 0, i), wanted[i], 0);
    }
}

#define SCATTER(text, ...)                                                     \
  {                                                                            \
    .name = text, .user = &(const scatters){__VA_ARGS__}, .make = make_rows,   \
    .args = give_rows, .step = scatter_rows, .check = expect_rows              \
  }
#define FIRST LS_AGGREGATION_ONLY_FIRST_REPLICA

TEST(scattered_rows_are_aggregated_in_every_way) {
  LS_SPEC("V116 V119");
  const ways_case cases[] = {
      SCATTER("sum is added", .op = LS_SCATTER_ADD,
              .aggregation = LS_AGGREGATION_SUM),
      SCATTER("mean is added", .op = LS_SCATTER_ADD,
              .aggregation = LS_AGGREGATION_MEAN),
      SCATTER("sum is subtracted", .op = LS_SCATTER_SUB,
              .aggregation = LS_AGGREGATION_SUM),
      SCATTER("sum multiplies", .op = LS_SCATTER_MUL,
              .aggregation = LS_AGGREGATION_SUM),
      SCATTER("mean multiplies", .op = LS_SCATTER_MUL,
              .aggregation = LS_AGGREGATION_MEAN),
      SCATTER("sum divides", .op = LS_SCATTER_DIV,
              .aggregation = LS_AGGREGATION_SUM),
      SCATTER("the first subtracts", .op = LS_SCATTER_SUB,
              .aggregation = FIRST),
      SCATTER("the first is put", .op = LS_SCATTER_UPDATE,
              .aggregation = FIRST),
      SCATTER("the first bounds", .op = LS_SCATTER_MAX, .aggregation = FIRST,
              .same_row = true),
      SCATTER("one row is multiplied", .op = LS_SCATTER_MUL,
              .aggregation = LS_AGGREGATION_SUM, .same_row = true),
      SCATTER("more rows on others", .op = LS_SCATTER_ADD,
              .aggregation = LS_AGGREGATION_SUM, .uneven = true),
      SCATTER("the first of uneven ones", .op = LS_SCATTER_ADD,
              .aggregation = FIRST, .uneven = true),
  };
  ways_hold(cases, LS_COUNT_OF(cases));
}

static const ways_case refused_scatters[] = {
    {.name = "a mean is no row to put",
     .user = &(const scatters){.op = LS_SCATTER_UPDATE,
                               .aggregation = LS_AGGREGATION_MEAN},
     .make = make_rows,
     .args = give_rows,
     .step = scatter_rows,
     .refused = LS_UNIMPLEMENTED,
     .says = "scatter_update"},
    {.name = "sums have no least",
     .user = &(const scatters){.op = LS_SCATTER_MIN,
                               .aggregation = LS_AGGREGATION_SUM},
     .make = make_rows,
     .args = give_rows,
     .step = scatter_rows,
     .refused = LS_UNIMPLEMENTED,
     .says = "SUM"},
};

TEST(rows_that_cannot_be_aggregated_are_refused) {
  LS_SPEC("V118");
  ways_hold(refused_scatters, LS_COUNT_OF(refused_scatters));
}

// ---- Captured values -------------------------------------------------------
typedef struct writes {
  ls_write_op op;
  ls_variable_aggregation aggregation;
  ls_distributed_kind kind;
  bool numbers;  // Host scalars, else arrays.
} writes;

static void make_captured(ways *self) {
  const writes *w = self->user;
  ls_nest parts[WAYS_MOST_REPLICAS];
  for (int r = 0; r < self->replicas; ++r) {
    parts[r] = w->numbers ? ls_nest_f64(r + 1)
                          : ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
    if (!w->numbers) ls_array_set_f64(ls_nest_as_array(parts[r]), 0, r + 1);
  }
  ls_nest *captured = malloc(sizeof(*captured));
  *captured = ls_nest_distributed(w->kind, parts, (size_t)self->replicas);
  self->more = captured;
  ways_variable(self, &(ls_variable_options){.name = "v",
                                             .dtype = LS_DTYPE_F32,
                                             .aggregation = w->aggregation});
}

static void drop_captured(ways *self) {
  ls_nest_release(*(ls_nest *)self->more);
  free(self->more);
}

static ls_nest write_captured(ls_nest args, ways *self) {
  const writes *w = self->user;
  (void)args;
  ls_nest made = ls_none();
  const ls_status status = ls_variable_write(
      self->variables[0], w->op, *(const ls_nest *)self->more, NULL, &made);
  return ls_status_is_ok(status) ? LS_LIST(made) : ls_fail(status);
}

static void expect_written(const ways *self) {
  const writes *w = self->user;
  const int n = self->replicas;
  const double sum = n * (n + 1) / 2.0;
  const double one = w->aggregation == LS_AGGREGATION_SUM    ? sum
                     : w->aggregation == LS_AGGREGATION_MEAN ? sum / n
                                                             : 1;
  const double wanted = w->op == LS_WRITE_SUB ? -one : one;
  for (int r = 0; r < n; ++r) {
    ways_expect(self, "component", ways_value(self, 0, r, 0), wanted, 0);
    ways_expect(self, "result", ways_result(self, 0, r, 0, 0), wanted, 0);
  }
}

#define WRITE(text, ...)                                                       \
  {                                                                            \
    .name = text, .user = &(const writes){__VA_ARGS__}, .make = make_captured, \
    .step = write_captured, .check = expect_written, .drop = drop_captured     \
  }

TEST(captured_parts_are_aggregated_in_every_way) {
  LS_SPEC("V100");
  const ways_case cases[] = {
      WRITE("their sum is put", .op = LS_WRITE_ASSIGN,
            .aggregation = LS_AGGREGATION_SUM),
      WRITE("their mean is put", .op = LS_WRITE_ASSIGN,
            .aggregation = LS_AGGREGATION_MEAN),
      WRITE("the first is put", .op = LS_WRITE_ASSIGN, .aggregation = FIRST),
      WRITE("their sum is added", .op = LS_WRITE_ADD,
            .aggregation = LS_AGGREGATION_SUM),
      WRITE("their mean is taken off", .op = LS_WRITE_SUB,
            .aggregation = LS_AGGREGATION_MEAN),
      WRITE("mirrored ones as well", .op = LS_WRITE_ASSIGN,
            .aggregation = LS_AGGREGATION_SUM, .kind = LS_MIRRORED),
      WRITE("numbers as well", .op = LS_WRITE_ASSIGN,
            .aggregation = LS_AGGREGATION_MEAN, .numbers = true),
  };
  ways_hold(cases, LS_COUNT_OF(cases));
}

static const ways_case refused_writes[] = {
    {.name = "nothing says what the parts make",
     .user = &(const writes){.op = LS_WRITE_ASSIGN,
                             .aggregation = LS_AGGREGATION_NONE},
     .make = make_captured,
     .step = write_captured,
     .drop = drop_captured,
     .refused = LS_INVALID_ARGUMENT,
     .says = "the value is distributed"},
};

TEST(captured_parts_without_aggregation_are_refused) {
  LS_SPEC("V100");
  ways_hold(refused_writes, LS_COUNT_OF(refused_writes));
}

// ---- Of one component ------------------------------------------------------
static void make_first(ways *self) {
  ways_variable(self, &(ls_variable_options){
                          .name = "v",
                          .dtype = LS_DTYPE_F32,
                          .aggregation = LS_AGGREGATION_ONLY_FIRST_REPLICA});
}

static ls_nest write_all_then_one(ls_nest args, ways *self) {
  ls_variable *v = self->variables[0];
  (void)args;
  const ls_tensor all = ls_variable_assign(v, ls_scalar(LS_DTYPE_F32, 3));
  const ls_op written = ls_tensor_op(all);
  ls_tensor one = all;
  {
    LS_CONTROL_SCOPE(&written, 1);
    one = ls_variable_assign(ls_variable_component(v, 0),
                             ls_scalar(LS_DTYPE_F32, 5));
  }
  return LS_LIST(ls_leaf(one));
}

static void expect_one_written(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "component", ways_value(self, 0, r, 0), r == 0 ? 5 : 3,
                0);
}

TEST(one_component_may_be_written_behind_all) {
  const ways_case c = {.name = "one behind all",
                       .make = make_first,
                       .step = write_all_then_one,
                       .check = expect_one_written};
  ways_hold(&c, 1);
}

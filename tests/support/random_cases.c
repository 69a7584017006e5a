// SPDX-License-Identifier: Apache-2.0
//
// Random programs: ops of the conformance cases, of values that are there.
#include "support/expect.h"
#include "support/op_case.h"
#include "support/random_build.h"

enum { MOST_ROWS = 256 };

// A row of the tables whose op is the same in every way to run.
static bool is_usable(const op_case *row) {
  const unsigned traits = ls_op_table[row->op].traits;
  switch (row->op) {
  case LS_OP_READ:  // These make variables of their own.
  case LS_OP_ASSIGN:
  case LS_OP_ASSIGN_ADD:
  case LS_OP_ASSIGN_SUB:
  case LS_OP_ASSIGN_SCATTER:
  case LS_OP_REDUCE_SCATTER:  // These want a size that replicas divide.
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
    return false;
  default:
    return !row->in_graphs && (traits & LS_OP_RANDOM) == 0 &&
           (traits & LS_OP_MERGE) == 0 && (traits & LS_OP_VARYING) == 0;
  }
}

static size_t rows_for(ls_dtype dtype, const op_case **rows) {
  size_t count = 0;
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row)
      if ((row->dtypes >> dtype & 1U) != 0 && is_usable(row) &&
          count < MOST_ROWS)
        rows[count++] = row;
  return count;
}

// An operand: as it was drawn, or of a value that is there, in the case's
// range.
static ls_tensor operand_of(random_build *b, const trial *t, size_t index) {
  ls_array *array = t->operand[index];
  const ls_dtype dtype = ls_array_dtype(array);
  if (dtype != b->program->dtype || random_one_in(b, 6))
    return ls_constant(array);
  const ls_tensor x = random_fit(random_pick(b), ls_array_shape(array));
  const double low = t->row->low, high = t->row->high;
  if (low == 0 && high == 0) return x;
  if (high - low > 1000) return ls_constant(array);
  return ls_add_scalar(ls_mul_scalar(ls_sigmoid(x), high - low), low);
}

static void add_results(random_build *b, const op_case *row, ls_nest results) {
  const size_t count = ls_nest_num_leaves(results);
  for (size_t i = 0; i < count; ++i)
    random_add(b, ls_op_table[row->op].name, random_leaf(results, i));
  ls_nest_release(results);
}

void random_add_case(random_build *b) {
  const op_case *rows[MOST_ROWS];
  const ls_dtype dtype = random_one_in(b, 5)
                             ? loop_types[random_between(b, 0, LOOP_TYPES - 1)]
                             : b->program->dtype;
  const size_t count = rows_for(dtype, rows);
  op_case row = *rows[random_between(b, 0, (int64_t)count - 1)];
  row.odd = row.odd && random_one_in(b, 12);
  trial t;
  trial_init(&t, &row, dtype, 0, &b->random);
  ls_tensor xs[TRIAL_OPERANDS] = {{0}};
  for (size_t i = 0; i < t.count; ++i) {
    xs[i] = operand_of(b, &t, i);
    // The bits of a NaN are not promised, so no op shall show them.
    if (row.op == LS_OP_BITCAST && ls_dtype_is_float(ls_tensor_dtype(xs[i])))
      xs[i] = ls_select(ls_is_finite(xs[i]), xs[i],
                        ls_scalar(ls_tensor_dtype(xs[i]), 1));
    if (row.gradient == 0 && ls_dtype_is_float(ls_tensor_dtype(xs[i])))
      xs[i] = ls_stop_gradient(xs[i]);
  }
  add_results(b, &row, trial_make(&t, xs));
  trial_deinit(&t);
}

// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: for an op, what operands and attributes it may be given,
// how a user calls it, and what must come out, computed in the plainest way.
#ifndef LS_TESTS_SUPPORT_OP_CASE_H_
#define LS_TESTS_SUPPORT_OP_CASE_H_

#include "lockstep/gradients.h"
#include "support/loop_case.h"
#include "support/reference_ops.h"
#include "support/test.h"

enum { TRIAL_OPERANDS = 8 };

// Sets of dtypes.
#define DTYPE(name) (1U << LS_DTYPE_##name)
enum {
  F32_F64 = DTYPE(F32) | DTYPE(F64),
  FLOATS = F32_F64 | DTYPE(F16) | DTYPE(BF16),
  SIGNED = DTYPE(I8) | DTYPE(I16) | DTYPE(I32) | DTYPE(I64),
  UNSIGNED = DTYPE(U8) | DTYPE(U16) | DTYPE(U32) | DTYPE(U64),
  INTEGERS = SIGNED | UNSIGNED,
  NUMBERS = FLOATS | INTEGERS,
  BOOLS = DTYPE(BOOL),
  EVERY = NUMBERS | BOOLS,
};

typedef struct op_case op_case;

// One drawing of a case: operands, and numbers for its attributes.
typedef struct trial {
  const op_case *row;
  ls_dtype dtype;
  int round;
  loop_random *random;
  ls_array *operand[TRIAL_OPERANDS];
  size_t count;
  ls_shape list[8];  // For the case's own use.
  int64_t number[4];
  ls_variable *variable;  // NULL: none.
} trial;

struct op_case {
  uint16_t op;
  ref_function compute;  // The same in all cases of an op.
  unsigned dtypes;       // Of the trial; all others must be refused.
  // How it is called: by one operand, by two, or by all.
  ls_tensor (*one)(ls_tensor x);
  ls_tensor (*two)(ls_tensor x, ls_tensor y);
  ls_nest (*make)(const trial *t, const ls_tensor *xs);
  // Draws operands and numbers. Default: one operand of any shape, or two that
  // broadcast.
  void (*draw)(trial *t);
  double low, high;  // Of operands. Both 0: -2 to 2.
  double slack;      // Times the rounding. 0: 1.
  bool odd;          // Infinities and nans among the floats.
  bool in_graphs;    // Not for eager.
  int gradient;      // How often it is differentiated.
  double from, to;   // Of operands then. Both 0: -2 to 2.
};

// The tables: an end has no dtypes.
extern const op_case element_cases[], shape_cases[], index_cases[],
    reduce_cases[], convolution_cases[], window_cases[], norm_cases[],
    flow_cases[];
extern const op_case *const op_case_tables[];  // All of them, then NULL.

// ---- Drawing ---------------------------------------------------------------
int64_t trial_between(trial *t, int64_t low, int64_t high);
// Ranks from `least` to `most`, sizes up to 5, now and then 0 or more.
ls_shape trial_shape(trial *t, int32_t least, int32_t most);
// Adds an operand with numbers of the case's range; or of this one, whole
// numbers of integers and bools.
ls_array *trial_add(trial *t, ls_shape shape);
ls_array *trial_add_in(trial *t, ls_dtype dtype, ls_shape shape, double low,
                       double high);
// A shape that broadcasts to `shape`.
ls_shape trial_part(trial *t, ls_shape shape);

// ---- Running ---------------------------------------------------------------
void trial_init(trial *t, const op_case *row, ls_dtype dtype, int round,
                loop_random *random);
void trial_deinit(trial *t);
// The op's results for these operands.
ls_nest trial_make(const trial *t, const ls_tensor *xs);
// Of all tables: whether a row of this op holds `matches`.
bool any_case(uint16_t op, bool (*matches)(const op_case *row));
// What computes an op. NULL: nothing does.
ref_function op_case_compute(uint16_t op);

// Runs the tests of a file and then one for each row that `matches` (NULL: all
// rows), named by its op and `sentence`, whose state is the row. Returns how
// many failed.
int op_case_tests_run(const unit_tests *tests,
                      bool (*matches)(const op_case *row),
                      void (*check)(void **row), const char *sentence);

#endif  // LS_TESTS_SUPPORT_OP_CASE_H_

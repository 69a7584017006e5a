// SPDX-License-Identifier: Apache-2.0
//
// Values of writes: whether a variable can take them, and what those of several
// replicas are together.
#ifndef LS_DISTRIBUTE_VARIABLES_WRITE_VALUES_H_
#define LS_DISTRIBUTE_VARIABLES_WRITE_VALUES_H_

#include "distribute/variables/variable.h"
#include "lockstep/strategy_extended.h"

// A write on its way.
typedef struct ls_writing {
  ls_variable *variable;
  uint16_t op;  // LS_OP_ASSIGN...
  const ls_write_options *options;
} ls_writing;

static inline const char *ls_writing_name(const ls_writing *w) {
  return ls_op_table[w->op].name;
}

// ---- Refusals --------------------------------------------------------------
// A distributed value `where` nothing says what its parts make.
ls_status ls_write_refuse_parts(const ls_writing *w, const char *where);
// One value that all replicas give, where a sum is asked for: but for zero.
ls_status ls_write_check_one(const ls_writing *w, ls_nest value);
// Whether the value has a part for each component, and each can take its own,
// as far as it is known.
ls_status ls_write_check_count(const ls_writing *w, ls_nest value);
ls_status ls_write_check_parts(const ls_writing *w, ls_nest value);
// A distributed value that a replica has made of its own.
ls_status ls_write_refuse_own(const ls_writing *w, ls_nest value);

// ---- Together --------------------------------------------------------------
// Whether a value has parts that may differ: a distributed one, or a variable
// of which each replica may have its own.
bool ls_value_has_parts(ls_nest value);
// What all replicas give (one leaf, or a value of each) as one: lent, or a
// tensor.
ls_status ls_write_aggregate(const ls_writing *w, ls_nest value,
                             ls_nest *out_value);

#endif  // LS_DISTRIBUTE_VARIABLES_WRITE_VALUES_H_

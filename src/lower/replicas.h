// SPDX-License-Identifier: Apache-2.0
//
// A replicate op on its way: what the files replica*.c share.
#ifndef LS_LOWER_REPLICAS_H_
#define LS_LOWER_REPLICAS_H_

#include "lower/cut.h"
#include "lower/flow.h"

// A replicate op on its way. Replicas whose arguments have the same shapes are
// a class and run one body; what the bodies have in common is computed once.
typedef struct ls_lower_replicas {
  ls_lower_flow *f;
  size_t replicas, num_split;
  int64_t *classes;  // Of each replica.
  size_t *first;     // Of each class, its first replica.
  size_t num_classes;
  ls_lower_scope *bodies;
  size_t num_bodies;      // That were opened.
  uint32_t **twins;       // Of each body but the first: see ls_find_twins.
  size_t *place;          // Where result i of the source went,
  size_t *written_place;  // and the value of written variable i.
  size_t num_gathered;
  // Variables of which each replica has a value of its own: a split argument,
  // and a result of each. Found one after another.
  const ls_lower_own *own;
  ls_variable *differs;  // Not in that list, and to be: it is all anew.
  bool goes_apart;       // So it is with a loop or branch to be taken apart.
  // The values by which the body is cut, if it is.
  ls_common_values values;
  bool is_cut;
  uint64_t *outputs;  // Of the op, or of what it was cut into.
} ls_lower_replicas;

// ---- replica_bodies.c -------------------------------------------------------
void ls_lower_replicas_find_classes(ls_lower_replicas *self);
// Opens the body of class `k`.
ls_status ls_lower_replicas_open_body(ls_lower_replicas *self, size_t k);
// Finds what differs between replicas in the lowered bodies, and whether they
// are to be cut.
ls_status ls_lower_replicas_mark(ls_lower_replicas *self);
// Returns true if a value of the first body differs between replicas.
bool ls_lower_replicas_varies(const ls_lower_replicas *self, uint64_t ref);

// ---- replica_results.c ------------------------------------------------------
// Takes replica 0's value of what is written and is the same on all where a
// body is left whole: there a loop of which something differs differs as a
// whole.
ls_status ls_lower_replicas_unify_written(ls_lower_replicas *self);
// Checks that what merges have read as one value for all is one.
ls_status ls_lower_replicas_check_met(ls_lower_replicas *self);
ls_status ls_lower_replicas_set_results(ls_lower_replicas *self);
// Returns true if replicas are on the cores of some of the variable's
// components only: the others keep what they have.
bool ls_lower_replicas_is_partial(const ls_lower_replicas *self,
                                  const ls_variable *variable);

#endif  // LS_LOWER_REPLICAS_H_

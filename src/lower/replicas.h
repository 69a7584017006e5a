// SPDX-License-Identifier: Apache-2.0
//
// A replicate op being lowered: declarations shared by the files replica*.c.
#ifndef LS_LOWER_REPLICAS_H_
#define LS_LOWER_REPLICAS_H_

#include "lower/cut.h"
#include "lower/flow.h"

// A replicate op being lowered. Replicas whose arguments have the same shapes
// form a class, which has one body; nodes that the bodies have in common run
// once.
typedef struct ls_lower_replicas {
  ls_lower_flow *f;
  size_t replicas, num_split;
  int64_t *classes;  // Class of each replica.
  size_t *first;     // First replica of each class.
  size_t num_classes;
  ls_lower_scope *bodies;
  size_t num_bodies;      // Number of bodies made.
  uint32_t **twins;       // Per body but the first: see ls_find_twins.
  size_t *place;          // Position of result i of the source,
  size_t *written_place;  // and of the value of written variable i.
  size_t num_gathered;
  // Variables with a value for each replica: each is a split argument and a
  // result. Found one after another.
  const ls_lower_own *own;
  // A variable to add to `own`: then lowering starts again.
  ls_variable *differs;
  bool goes_apart;  // A loop or branch is to be taken apart: likewise.
  // Common values by which the body is cut, if it is.
  ls_common_values values;
  bool is_cut;
  uint64_t *outputs;  // Outputs of the op, or of the ops it was cut into.
} ls_lower_replicas;

// ---- replica_bodies.c -------------------------------------------------------
void ls_lower_replicas_find_classes(ls_lower_replicas *self);
// Makes the body of class `k`.
ls_status ls_lower_replicas_open_body(ls_lower_replicas *self, size_t k);
// Finds the values that differ between replicas in the lowered bodies, and
// decides if they are cut.
ls_status ls_lower_replicas_mark(ls_lower_replicas *self);
// Returns true if a value of the first body differs between replicas.
bool ls_lower_replicas_varies(const ls_lower_replicas *self, uint64_t ref);

// ---- replica_results.c ------------------------------------------------------
// Takes replica 0's value of written variables that are the same on all
// replicas, in a body that is not cut: there a loop with one differing value
// differs as a whole.
ls_status ls_lower_replicas_unify_written(ls_lower_replicas *self);
// Checks that values which merges have read as common are the same on all
// replicas.
ls_status ls_lower_replicas_check_met(ls_lower_replicas *self);
ls_status ls_lower_replicas_set_results(ls_lower_replicas *self);
// Returns true if only some of the variable's components are on cores of
// replicas: the others keep their values.
bool ls_lower_replicas_is_partial(const ls_lower_replicas *self,
                                  const ls_variable *variable);

#endif  // LS_LOWER_REPLICAS_H_

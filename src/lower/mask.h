// SPDX-License-Identifier: Apache-2.0
//
// Buckets: one program for batches of several sizes.
//
// Inputs padded to powers of two (tpu_padded_input) enter the program with
// their padding, next to their real sizes. Values with padded rows carry a
// mask: ops on independent rows pass it on, and ops that combine rows get zeros
// instead of the padding, which changes no sum. So the program does not depend
// on real sizes. An op without such a rule ends the attempt: each size then
// gets its own program, with its sizes as constants. That program is always
// made first, because its shapes are the ones that must be valid.
#ifndef LS_LOWER_MASK_H_
#define LS_LOWER_MASK_H_

#include "lower/lower.h"

typedef struct ls_lower_scope ls_lower_scope;
typedef ls_status (*ls_lower_function)(ls_lower_scope *scope, ls_node *node);

// ---- Buckets of a program -------------------------------------------------
// A padded input (tpu_padded_input). `sizes_of` is the first padded input with
// the same real sizes on all replicas; they share these sizes.
typedef struct ls_bucket {
  const ls_node *node;
  const ls_node *sizes_of;
} ls_bucket;

typedef struct ls_buckets {
  ls_bucket *items;
  size_t count;
  // The request's feeds; for each the number of rows with
  const uint64_t *feeds;
  int64_t *padded;  // padding (0: not padded),
  uint64_t *sizes;  // and the parameter with its real number of rows.
  size_t num_feeds, num_padded;
} ls_buckets;

// Finds the padded inputs of a request; `out->count` is 0 if there are none.
// Lists are in `memory`.
//   LS_ABORTED  several sizes cannot share one program
LS_MUST_USE ls_status ls_find_buckets(const ls_lower_request *request,
                                      ls_arena *memory, ls_buckets *out);

// ---- Masks in a body ------------------------------------------------------
// The mask of a value with padding in dimension 0.
typedef struct ls_mask {
  const ls_node *source;  // Masks of one source have equal real sizes.
  uint64_t size;          // Number of real rows, an i32 scalar in the body.
} ls_mask;

typedef struct ls_masks {
  ls_map of;        // Ref of the body -> its mask.
  bool is_masking;  // True while the ops of a mask are made.
  // For the op whose sizes are being computed: the mask from which its first
  // size comes, and whether that size is inferred.
  bool has_sizes, infers;
  const ls_mask *sized;
} ls_masks;

// Makes the masks of a body's values. NULL without memory.
ls_masks *ls_masks_create(ls_lower_scope *scope);
void ls_masks_destroy(ls_masks *masks);  // NULL is allowed.

// Returns a value's mask, NULL if it has no padding.
const ls_mask *ls_mask_of(const ls_lower_scope *scope, uint64_t ref);
ls_status ls_mask_set(ls_lower_scope *scope, uint64_t ref, const ls_mask *mask);
// Refuses an op for which there is no rule; `function` will lower the op.
ls_status ls_mask_admit(const ls_lower_scope *scope, ls_node *node,
                        ls_lower_function function);
// Replaces the operands of an op that is about to be appended, and finds the
// mask of its results.
ls_status ls_mask_operands(ls_lower_scope *scope, const ls_op_spec *spec,
                           const uint64_t **inputs, const ls_node *origin,
                           const ls_mask **out_mask);
ls_status ls_mask_results(ls_lower_scope *scope, const ls_node *made,
                          bool is_new, const ls_mask *mask);
// Begins to lower a node whose sizes come from operands. ls_mask_end_sizes ends
// that.
ls_status ls_mask_begin_sizes(ls_lower_scope *scope, const ls_node *node);
void ls_mask_end_sizes(ls_lower_scope *scope);
// Checks that a node whose sizes come from operands may be replaced by its
// operand, which has the same shape.
ls_status ls_mask_check_same(const ls_lower_scope *scope, uint64_t ref);
// Refuses a result that has padding.
ls_status ls_mask_check_result(const ls_lower_scope *scope, uint64_t ref);
// Returns the number of real rows. ls_mask_one_over returns 1 / (number *
// `others`).
ls_status ls_mask_rows(ls_lower_scope *scope, const ls_mask *mask,
                       const ls_node *origin, uint64_t *out_rows);
ls_status ls_mask_one_over(ls_lower_scope *scope, const ls_mask *mask,
                           int64_t others, ls_dtype dtype,
                           const ls_node *origin, uint64_t *out_ref);

#endif  // LS_LOWER_MASK_H_

// SPDX-License-Identifier: Apache-2.0
//
// Buckets: one program for batches of several sizes.
//
// Inputs that are padded to powers of two (tpu_padded_input) enter the program
// with their padding, and their real sizes beside them. What has rows of
// padding is masked: it carries a mark, which ops that treat rows apart hand
// on, and ops that put rows together take zeros in place of the padding, which
// changes no sum. So no text of the program tells a real size. An op without
// such a rule ends the attempt: each size gets a program of its own, in which
// sizes are what they are. That one is always made first, as its shapes are the
// ones that must fit.
#ifndef LS_LOWER_MASK_H_
#define LS_LOWER_MASK_H_

#include "lower/lower.h"

typedef struct ls_lower_scope ls_lower_scope;
typedef ls_status (*ls_lower_function)(ls_lower_scope *scope, ls_node *node);

// ---- A program's ----------------------------------------------------------
// A tpu_padded_input. Those whose inputs have the same real sizes on all
// replicas share them: `sizes_of` is the first of them.
typedef struct ls_bucket {
  const ls_node *node;
  const ls_node *sizes_of;
} ls_bucket;

typedef struct ls_buckets {
  ls_bucket *items;
  size_t count;
  const uint64_t *feeds;  // The request's; of each how many rows it has with
  int64_t *padded;        // padding, 0: it has none,
  uint64_t *sizes;        // and the parameter with its real rows.
  size_t num_feeds, num_padded;
} ls_buckets;

// Finds what is padded in the request; `out->count` is 0 if there is nothing.
// The lists are in `memory`.
//   LS_ABORTED  something keeps it from being a program for several sizes.
LS_MUST_USE ls_status ls_find_buckets(const ls_lower_request *request,
                                      ls_arena *memory, ls_buckets *out);
// The parameter with the real rows of a feed.
uint64_t ls_bucket_size(const ls_buckets *buckets, uint64_t feed);
// NULL: it is none of them.
const ls_bucket *ls_bucket_of(const ls_buckets *buckets, const ls_node *node);

// ---- A body's -------------------------------------------------------------
// Masks of values whose dimension 0 has padding.
typedef struct ls_mask {
  const ls_node *source;  // Equal ones have as many real rows.
  uint64_t size;          // In the body: how many, an i32 scalar.
} ls_mask;

typedef struct ls_masks {
  ls_map of;        // Ref of the body -> its mask.
  bool is_masking;  // What is being made belongs to a mask itself.
  // For the op whose sizes are computed now: whose size the first is, or
  // whether it is what remains.
  bool has_sizes, infers;
  const ls_mask *sized;
} ls_masks;

// Has a body's values carry masks. NULL: no memory.
ls_masks *ls_masks_create(ls_lower_scope *scope);
void ls_masks_destroy(ls_masks *masks);  // NULL is fine.

// NULL: it has no padding.
const ls_mask *ls_mask_of(const ls_lower_scope *scope, uint64_t ref);
ls_status ls_mask_set(ls_lower_scope *scope, uint64_t ref, const ls_mask *mask);
// Refuses what has no rule at all; `function` is to lower it.
ls_status ls_mask_admit(const ls_lower_scope *scope, ls_node *node,
                        ls_lower_function function);
// Gives an op that is to be appended other operands, and the mask of its
// results.
ls_status ls_mask_operands(ls_lower_scope *scope, const ls_op_spec *spec,
                           const uint64_t **inputs, const ls_node *origin,
                           const ls_mask **out_mask);
ls_status ls_mask_results(ls_lower_scope *scope, const ls_node *made,
                          bool is_new, const ls_mask *mask);
// A node whose sizes come from operands is lowered between these two.
ls_status ls_mask_begin_sizes(ls_lower_scope *scope, const ls_node *node);
void ls_mask_end_sizes(ls_lower_scope *scope);
// Returns true if such a node may be its operand, which has the shape already.
ls_status ls_mask_check_same(const ls_lower_scope *scope, uint64_t ref);
// Refuses a result that has padding.
ls_status ls_mask_check_result(const ls_lower_scope *scope, uint64_t ref);
// Gives the number of real rows, and 1 / (that * `others`), in these types.
ls_status ls_mask_rows(ls_lower_scope *scope, const ls_mask *mask,
                       const ls_node *origin, uint64_t *out_rows);
ls_status ls_mask_one_over(ls_lower_scope *scope, const ls_mask *mask,
                           int64_t others, ls_dtype dtype,
                           const ls_node *origin, uint64_t *out_ref);

#endif  // LS_LOWER_MASK_H_

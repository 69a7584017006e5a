// SPDX-License-Identifier: Apache-2.0
//
// The lowering functions that ops.def names, in lower_ops.c and lower_flow.c.
#ifndef LS_RUNTIME_LOWER_OPS_H_
#define LS_RUNTIME_LOWER_OPS_H_

#include "runtime/lower.h"

#define LS_OP(id, name, inputs, traits, shape, gradient, lower, ...) \
  ls_status lower_##lower(ls_lower_scope *scope, ls_node *node);
#include "lockstep/ops.def"
#undef LS_OP

// If the node is arithmetic on scalar constants, its value as a constant, with
// the bits that running it would give; else 0.
ls_status ls_lower_fold(ls_lower_scope *scope, const ls_node *node,
                        const uint64_t *inputs, uint64_t *out_ref);
// Marks which nodes of a replicate body differ between replicas.
void ls_mark_varying(ls_graph *body, size_t num_split);
// Removes nodes that nothing uses. Parameters stay.
ls_status ls_drop_unused(ls_graph *graph);
// Appends an attribute's bytes to a key.
void ls_key_attr(ls_text *key, const ls_attr *attr);

#endif  // LS_RUNTIME_LOWER_OPS_H_

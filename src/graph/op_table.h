// SPDX-License-Identifier: Apache-2.0
//
// The table of ops: one row of ops.def per op; everything else is derived.
#ifndef LS_GRAPH_OP_TABLE_H_
#define LS_GRAPH_OP_TABLE_H_

#include "base/memory/arena.h"
#include "graph/attrs.h"
#include "lockstep/graph.h"
#include "lockstep/op_types.h"

// Ops of lowered graphs only, numbered from LS_OP_COUNT on.
enum {
  LS_OP_LAST_PUBLIC = LS_OP_COUNT - 1,
#define LS_OP(id, ...) LS_OP_##id,
#include "graph/lowered_ops.def"
#undef LS_OP
  LS_OP_TABLE_COUNT,
};

// Properties of an op beyond the columns of its row.
typedef enum ls_op_traits {
  LS_OP_PLAIN = 0,
  // Element i of the output depends on element i of the inputs only.
  LS_OP_ELEMENTWISE = 1 << 0,
  // The op is never dropped, merged or moved; a root of its function.
  LS_OP_EFFECT = 1 << 2,
  LS_OP_RANDOM = 1 << 3,  // Draws random numbers by stream, step and replica.
  // The values differ between replicas, for equal inputs too.
  LS_OP_VARYING = 1 << 4,
  // Synchronizes all replicas; the result is the same on all.
  LS_OP_MERGE = 1 << 5,
  // Has an attribute `sizes`. Operands after the data are used for their
  // dimensions only.
  LS_OP_SIZED = 1 << 6,
  LS_OP_BUILD_ONLY = 1 << 7,  // Lowering replaces the op by others.
  LS_OP_REGIONS = 1 << 9,     // Has regions.
  LS_OP_ON_HOST = 1 << 10,    // Runs on the host.
  LS_OP_LINEAR = 1 << 11,     // Values are used once: never merged or copied.
  // For each op, which operands are row-wise: their dimension 0 lists rows that
  // are computed independently, so that rows of several replicas can be
  // processed as one batch. Other operands are used as a whole for each row.
  // All operands of elementwise ops are row-wise.
  LS_OP_WHOLE = 1 << 12,            // No operand is row-wise.
  LS_OP_ROWS = 2 << 12,             // All operands are row-wise.
  LS_OP_ROWS_OF_FIRST = 3 << 12,    // Operand 0 is row-wise.
  LS_OP_ROWS_BUT_LAST = 4 << 12,    // All but the last operand.
  LS_OP_ROWS_OF_INDICES = 5 << 12,  // Operand 1; axis 0 of operand 0.
  LS_OP_ROWS_IF_KEPT = 6 << 12,  // All operands, unless dimension 0 is reduced.
  LS_OP_ROWS_OF_PRODUCT = 7 << 12,  // The row-wise operands of a product.
  // All operands; if they have several dimensions, each line along the last one
  // is computed independently.
  LS_OP_LINES = 8 << 12,
  LS_OP_LINES_OF_FIRST = 9 << 12,  // Operand 0, by lines as in LS_OP_LINES.
  LS_OP_ALL_ROWS = 15 << 12,       // Mask of these values.
} ls_op_traits;

// Encodes the column `inputs` of ops.def: the least number of operands, and how
// many more are allowed.
enum { LS_MAX_OPERANDS = 1 << 20 };
#define LS_INPUTS(least, most) ((least) | ((most) - (least)) << 8)
#define LS_AT_LEAST(least) LS_INPUTS(least, LS_MAX_OPERANDS)

// Input and output of a shape rule.
typedef struct ls_infer {
  const ls_op_spec *spec;  // Attributes and regions; inputs are not set.
  const char *op_name;     // The op's type, for messages.
  const ls_type *in;
  size_t num_in;
  // The result types, `num_out` zeroed ones; ls_infer_outputs makes room for
  // more.
  ls_type *out;
  size_t num_out;
  ls_arena *arena;
} ls_infer;

typedef ls_status (*ls_infer_function)(ls_infer *infer);

typedef struct ls_op_info {
  const char *name;
  int inputs;  // Encoded number of operands, for ls_op_least and ls_op_most.
  unsigned traits;
  ls_infer_function infer;
  const ls_attr_rule *attrs;  // Attributes of the row.
  uint32_t num_attrs;
} ls_op_info;

extern const ls_op_info ls_op_table[LS_OP_TABLE_COUNT];

// Makes room for `count` outputs instead of one.
//   LS_UNIMPLEMENTED  more outputs than a ref can number
ls_status ls_infer_outputs(ls_infer *infer, size_t count);
// Runs the op's shape rule and checks that its answer has valid shapes. `first`
// is zeroed room for one result.
ls_status ls_infer_run(ls_infer *infer, const ls_op_spec *spec,
                       const ls_type *in, size_t num_in, ls_type *first,
                       ls_arena *arena);
// Returns the least number of data inputs; ls_op_most returns the largest. A
// SIZED op may have one more operand for each size.
static inline size_t ls_op_least(const ls_op_info *info) {
  return (size_t)(info->inputs & 0xff);
}
static inline size_t ls_op_most(const ls_op_info *info) {
  return ls_op_least(info) + (size_t)(info->inputs >> 8);
}
// Checks the number of operands.
//   LS_INVALID_ARGUMENT  the op cannot have this number of operands
ls_status ls_op_check_count(const ls_op_info *info, size_t count);

// Returns an attribute of the spec, or NULL.
static inline const ls_attr *ls_infer_attr(const ls_infer *infer,
                                           ls_attr_id id) {
  return ls_attr_find(infer->spec->attrs, infer->spec->num_attrs, id);
}
// Returns a number or flag, or its default.
static inline int64_t ls_infer_int(const ls_infer *infer, ls_attr_id id) {
  return ls_attr_int(infer->spec->attrs, infer->spec->num_attrs, id);
}
// Returns the attribute `sizes` as a shape; dimensions of operands come from
// `in` and may be unknown.
ls_status ls_infer_sizes(const ls_infer *infer, ls_shape *out_shape);

// Returns the type with this name, or LS_OP_TABLE_COUNT.
uint16_t ls_op_type_find(const char *name);

// ---- Wide values ------------------------------------------------------------
// A wide value is one value that holds the values of all replicas, one after
// another.
//
// The parts of a lowered replicate op's body that was cut exchange values that
// differ by replica as wide values of the enclosing graph;
// replica r's value is part r along dimension 0. Only `replicate`, `host`,
// `while`, `cond` and a barrier take or return wide values.

// Makes the wide type from one replica's type.
//   LS_INVALID_ARGUMENT  the type has LS_MAX_RANK dimensions already
//   LS_UNIMPLEMENTED     the type is a stack or a resource
ls_status ls_wide_type(ls_type part, int64_t replicas, ls_type *out_type);
// Makes the type of one replica's part of a wide value.
//   LS_INVALID_ARGUMENT  the wide type cannot be cut into that many parts
ls_status ls_wide_part(ls_type wide, int64_t replicas, ls_type *out_type);

#endif  // LS_GRAPH_OP_TABLE_H_

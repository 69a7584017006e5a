// SPDX-License-Identifier: Apache-2.0
//
// The table of ops: one row of ops.def an op, everything else derived.
#ifndef LS_GRAPH_OP_TABLE_H_
#define LS_GRAPH_OP_TABLE_H_

#include "base/memory/arena.h"
#include "graph/attrs.h"
#include "lockstep/graph.h"
#include "lockstep/op_types.h"

// Ops of lowered graphs only: their numbers are LS_OP_COUNT and up.
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
  LS_OP_ELEMENTWISE = 1 << 0,  // Output i depends on input elements i only.
  LS_OP_COMMUTES = 1 << 1,
  LS_OP_EFFECT = 1 << 2,      // Never dropped, merged or moved; a function's
                              // root.
  LS_OP_RANDOM = 1 << 3,      // Draws by stream, step and replica.
  LS_OP_VARYING = 1 << 4,     // Differs between replicas whatever its inputs.
  LS_OP_MERGE = 1 << 5,       // Meets on all replicas; its result is uniform.
  LS_OP_SIZED = 1 << 6,       // Has `sizes`; inputs after the data inputs only
                              // give dimensions.
  LS_OP_BUILD_ONLY = 1 << 7,  // Lowering replaces it.
  LS_OP_REGIONS = 1 << 9,     // Holds child graphs.
  LS_OP_ON_HOST = 1 << 10,    // Runs on the host.
  LS_OP_LINEAR = 1 << 11,  // Its values are used once: never merged or copied.
  // The operands that are rows, that is, lie along dimension 0 and are computed
  // apart, so that the rows of several replicas can be those of one. Operands
  // that are not are used whole, for each row. An elementwise op's all are.
  LS_OP_WHOLE = 1 << 12,            // None.
  LS_OP_ROWS = 2 << 12,             // All.
  LS_OP_ROWS_OF_FIRST = 3 << 12,    // Operand 0.
  LS_OP_ROWS_BUT_LAST = 4 << 12,    // All but the last one.
  LS_OP_ROWS_OF_INDICES = 5 << 12,  // Operand 1, along axis 0 of operand 0.
  LS_OP_ROWS_IF_KEPT = 6 << 12,     // All, if no dimension 0 is reduced.
  LS_OP_ROWS_OF_PRODUCT = 7 << 12,  // As a product's are.
  LS_OP_LINES = 8 << 12,  // All: lines along the last dimension, if there are
                          // more than one.
  LS_OP_LINES_OF_FIRST = 9 << 12,  // So of operand 0.
  LS_OP_ALL_ROWS = 15 << 12,       // The bits that say it.
} ls_op_traits;

// The column `inputs` of ops.def: how many there are at least, and how many
// more there may be.
enum { LS_MAX_OPERANDS = 1 << 20 };
#define LS_INPUTS(least, most) ((least) | ((most) - (least)) << 8)
#define LS_AT_LEAST(least) LS_INPUTS(least, LS_MAX_OPERANDS)

// The question a shape rule answers.
typedef struct ls_infer {
  const ls_op_spec *spec;  // Attributes and regions; its inputs are not set.
  const char *op_name;     // The op's type, for messages.
  const ls_type *in;
  size_t num_in;
  ls_type *out;  // Room for `num_out`, zeroed; ls_infer_outputs for more.
  size_t num_out;
  ls_arena *arena;
} ls_infer;

typedef ls_status (*ls_infer_function)(ls_infer *infer);

typedef struct ls_op_info {
  const char *name;
  int inputs;  // The column: ask ls_op_least and ls_op_most.
  unsigned traits;
  ls_infer_function infer;
  const ls_attr_rule *attrs;  // Its own.
  uint32_t num_attrs;
} ls_op_info;

extern const ls_op_info ls_op_table[LS_OP_TABLE_COUNT];

// Asks for `count` outputs instead of one. OUT of memory: RESOURCE_EXHAUSTED.
//   LS_UNIMPLEMENTED  more than a ref has room for.
ls_status ls_infer_outputs(ls_infer *infer, size_t count);
// Asks the op's shape rule: what it answers are possible shapes.
ls_status ls_infer_run(ls_infer *infer);
// Data inputs of the op: as few, and as many. A SIZED one may have one operand
// more for each size.
static inline size_t ls_op_least(const ls_op_info *info) {
  return (size_t)(info->inputs & 0xff);
}
static inline size_t ls_op_most(const ls_op_info *info) {
  return ls_op_least(info) + (size_t)(info->inputs >> 8);
}
//   LS_INVALID_ARGUMENT  the op cannot have so many operands.
ls_status ls_op_check_count(const ls_op_info *info, size_t count);

// An attribute of the spec, or NULL.
static inline const ls_attr *ls_infer_attr(const ls_infer *infer,
                                           ls_attr_id id) {
  return ls_attr_find(infer->spec->attrs, infer->spec->num_attrs, id);
}
// A number or flag, or what is true without it.
static inline int64_t ls_infer_int(const ls_infer *infer, ls_attr_id id) {
  return ls_attr_int(infer->spec->attrs, infer->spec->num_attrs, id);
}
// The attribute `sizes` as a shape: dimensions of operands are taken from `in`,
// unknown where those are.
ls_status ls_infer_sizes(const ls_infer *infer, ls_shape *out_shape);

// The type with this name, or LS_OP_TABLE_COUNT.
uint16_t ls_op_type_find(const char *name);

// ---- Wide values ------------------------------------------------------------
// A wide value holds those of all replicas, one after another.
//
// Where a lowered replicate op's body was cut into several, what differs from
// replica to replica passes between them as one value of the graph around: that
// of replica r is its part r along dimension 0. Only `replicate`, `host`,
// `while` and `cond` take one or give one, and a barrier.

// Makes the type of such a value, of one replica's.
//   LS_INVALID_ARGUMENT  it has LS_MAX_RANK dimensions.
//   LS_UNIMPLEMENTED     it is a stack, or a resource.
ls_status ls_wide_type(ls_type part, int64_t replicas, ls_type *out_type);
// Makes the type of one replica's part of a wide value.
//   LS_INVALID_ARGUMENT  it has no parts, or not so many.
ls_status ls_wide_part(ls_type wide, int64_t replicas, ls_type *out_type);

#endif  // LS_GRAPH_OP_TABLE_H_

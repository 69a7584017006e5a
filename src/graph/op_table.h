// SPDX-License-Identifier: Apache-2.0
//
// The table of ops: one row of ops.def an op, everything else derived.
#ifndef LS_GRAPH_OP_TABLE_H_
#define LS_GRAPH_OP_TABLE_H_

#include "base/arena.h"
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

// What a row says about an op beyond its columns.
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
} ls_op_traits;

#define LS_VARIADIC (-1)

// As many replicas as a strategy may have.
enum { LS_MAX_REPLICAS = 1 << 16 };

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
  int data_inputs;  // LS_VARIADIC: any number.
  unsigned traits;
  ls_infer_function infer;
} ls_op_info;

extern const ls_op_info ls_op_table[LS_OP_TABLE_COUNT];

// Asks for `count` outputs instead of one. OUT of memory: RESOURCE_EXHAUSTED.
//   LS_UNIMPLEMENTED  more than a ref has room for.
ls_status ls_infer_outputs(ls_infer *infer, size_t count);
// Asks the op's shape rule: what it answers are possible shapes.
ls_status ls_infer_run(ls_infer *infer);
// Whether the op can have so many operands: a SIZED one has up to one more for
// each size.
bool ls_op_takes(const ls_op_info *info, size_t count);
const ls_attr *ls_infer_attr(const ls_infer *infer, const char *name);
int64_t ls_infer_int(const ls_infer *infer, const char *name, int64_t fallback);
// The sizes of attribute `name` as a shape: dimensions of operands are taken
// from `in`, unknown where those are.
ls_status ls_infer_sizes(const ls_infer *infer, const char *name,
                         ls_shape *out_shape);

// The type with this name, or LS_OP_TABLE_COUNT.
uint16_t ls_op_type_find(const char *name);

#endif  // LS_GRAPH_OP_TABLE_H_

// SPDX-License-Identifier: Apache-2.0
//
// The table of attributes: one row of attrs.def each, everything else derived.
//
// Users name attributes. When an op is made, read from text, or given an
// attribute, each name that the op's row in ops.def has is replaced by its id;
// what is left is a mark, of id 0: nothing but the text and ls_op_attr knows
// it. From then on, everybody asks by id.
#ifndef LS_GRAPH_ATTRS_H_
#define LS_GRAPH_ATTRS_H_

#include "base/memory/arena.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/object.h"

typedef enum ls_attr_id {
  LS_ATTR_ID_NONE,
#define LS_ATTR(id, ...) LS_ATTR_ID_##id,
#include "graph/attrs.def"
#undef LS_ATTR
  LS_ATTR_ID_COUNT,
} ls_attr_id;

// Bounds of what stands in attributes. As many replicas as a strategy may have.
enum { LS_MAX_REPLICAS = 1 << 16 };
// No dimension or padding is larger: they can be computed with without fear.
#define LS_MAX_SIZE (INT64_C(1) << 46)
// No number of a window is, nor has it more dimensions.
#define LS_MAX_WINDOW (INT64_C(1) << 31)
enum { LS_WINDOW_DIMS = 3 };

typedef struct ls_attr_info {
  const char *name;
  ls_attr_kind kind;
  int64_t least, most;  // Of a number, or of each of some.
  size_t count;         // As many there may be.
  double least_real;
  const char *words;             // What a string is one of.
  const ls_object_type *object;  // What an object is; NULL: any, or none.
  union {
    int64_t i;
    double f;
  } otherwise;
} ls_attr_info;

extern const ls_attr_info ls_attr_table[LS_ATTR_ID_COUNT];

// A row's word on one of its attributes.
typedef struct ls_attr_rule {
  ls_attr_id id;
  bool needed;
} ls_attr_rule;

// ---- Looking up ------------------------------------------------------------
// The one with this id, or NULL.
static inline const ls_attr *ls_attr_find(const ls_attr *attrs, size_t count,
                                          ls_attr_id id) {
  for (size_t i = 0; i < count; ++i)
    if (attrs[i].id == id) return &attrs[i];
  return NULL;
}
// A number or flag, or what is true without it.
static inline int64_t ls_attr_int(const ls_attr *attrs, size_t count,
                                  ls_attr_id id) {
  const ls_attr *attr = ls_attr_find(attrs, count, id);
  return attr != NULL ? attr->as.i : ls_attr_table[id].otherwise.i;
}

// ---- Names and bounds ------------------------------------------------------
// The collective that a meeting with these attributes stands for, whose
// attributes it has besides its own; LS_OP_NONE: none, as a merge call.
uint16_t ls_attrs_met_as(uint16_t type, const ls_attr *attrs, size_t count);
// The attribute of the op that `attr` is, by its id if it has one, else by its
// name; LS_ATTR_ID_NONE: it is a mark.
ls_attr_id ls_attr_resolve(uint16_t type, uint16_t met_as, const ls_attr *attr);
// Gives `attr` its id in the op, and the table's name.
void ls_attr_set_id(uint16_t type, uint16_t met_as, ls_attr *attr);
// The attributes with their ids: a copy in `arena`, unless they have them.
//   LS_INVALID_ARGUMENT  one has no name or kind.
ls_status ls_attrs_resolve(ls_arena *arena, uint16_t type, const ls_attr *attrs,
                           size_t count, const ls_attr **out_attrs);
// Returns true if a resolved attribute is a mark, which is not the op's own and
// changes nothing that the op computes.
static inline bool ls_attr_is_mark(const ls_attr *attr) {
  return attr->id == LS_ATTR_ID_NONE;
}
// Returns true if the op's row has the attribute.
bool ls_op_owns(uint16_t type, uint16_t id);

// The attributes of an op with so many operands, all resolved: all that it
// needs are there, none twice, of their kinds and within their bounds, and they
// point to something. INVALID_ARGUMENT naming the attribute, what stands in it
// and what may.
ls_status ls_attrs_check(uint16_t type, const ls_attr *attrs, size_t count,
                         size_t num_inputs);

#endif  // LS_GRAPH_ATTRS_H_

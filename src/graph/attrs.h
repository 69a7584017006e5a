// SPDX-License-Identifier: Apache-2.0
//
// The table of attributes: one row of attrs.def each; everything else is
// derived.
//
// Users name attributes. When an op is made, read from text or given an
// attribute, each name that the op's row in ops.def lists is replaced by its
// id. Any other attribute is a mark, with id 0, which only the text form and
// ls_op_attr use. All other code looks attributes up by id.
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

// Largest number of replicas in an attribute, and of a strategy.
enum { LS_MAX_REPLICAS = 1 << 16 };
// Largest dimension or padding, small enough that sums cannot overflow.
#define LS_MAX_SIZE (INT64_C(1) << 46)
// Largest number in a window's attributes, and most dimensions of a window.
#define LS_MAX_WINDOW (INT64_C(1) << 31)
enum { LS_WINDOW_DIMS = 3 };

typedef struct ls_attr_info {
  const char *name;
  ls_attr_kind kind;
  int64_t least, most;  // Bounds of the number, or of each number of a list.
  size_t count;         // Most numbers in a list.
  double least_real;
  const char *words;  // Accepted values of a string, separated by commas.
  // Type of an object; NULL: any type, or no object.
  const ls_object_type *object;
  union {
    int64_t i;
    double f;
  } otherwise;
} ls_attr_info;

extern const ls_attr_info ls_attr_table[LS_ATTR_ID_COUNT];

// An attribute in an op's row.
typedef struct ls_attr_rule {
  ls_attr_id id;
  bool needed;
} ls_attr_rule;

// ---- Looking up ------------------------------------------------------------
// Returns the attribute with this id, or NULL.
static inline const ls_attr *ls_attr_find(const ls_attr *attrs, size_t count,
                                          ls_attr_id id) {
  for (size_t i = 0; i < count; ++i)
    if (attrs[i].id == id) return &attrs[i];
  return NULL;
}
// Returns a number or flag, or its default.
static inline int64_t ls_attr_int(const ls_attr *attrs, size_t count,
                                  ls_attr_id id) {
  const ls_attr *attr = ls_attr_find(attrs, count, id);
  return attr != NULL ? attr->as.i : ls_attr_table[id].otherwise.i;
}

// Numbers of operands and results of a replicate op.
typedef struct ls_replicate_counts {
  size_t replicas, split, wide_split, gathered, wide_gathered;
} ls_replicate_counts;

static inline ls_replicate_counts ls_replicate_counts_of(const ls_attr *attrs,
                                                         size_t count) {
  return (ls_replicate_counts){
      (size_t)ls_attr_int(attrs, count, LS_ATTR_ID_REPLICAS),
      (size_t)ls_attr_int(attrs, count, LS_ATTR_ID_NUM_SPLIT),
      (size_t)ls_attr_int(attrs, count, LS_ATTR_ID_NUM_WIDE_SPLIT),
      (size_t)ls_attr_int(attrs, count, LS_ATTR_ID_NUM_GATHERED),
      (size_t)ls_attr_int(attrs, count, LS_ATTR_ID_NUM_WIDE_GATHERED),
  };
}

// ---- Names and bounds ------------------------------------------------------
// Returns the collective whose results a `meeting` op with these attributes
// records: the op may then have that collective's attributes, too. LS_OP_NONE
// for merge calls and other ops.
uint16_t ls_attrs_met_as(uint16_t type, const ls_attr *attrs, size_t count);
// Returns the id of `attr` in an op of this type; LS_ATTR_ID_NONE for a mark.
// An attribute without an id is found by name.
ls_attr_id ls_attr_resolve(uint16_t type, uint16_t met_as, const ls_attr *attr);
// Sets the attribute's id in an op of this type, and replaces its name by the
// table's text.
void ls_attr_set_id(uint16_t type, uint16_t met_as, ls_attr *attr);
// Resolves the ids of attributes; copies the list to `arena` unless all are
// resolved.
//   LS_INVALID_ARGUMENT  an attribute has no name or kind
ls_status ls_attrs_resolve(ls_arena *arena, uint16_t type, const ls_attr *attrs,
                           size_t count, const ls_attr **out_attrs);
// Returns true if a resolved attribute is a mark: the op's row does not list
// it, and it has no effect on what the op computes.
static inline bool ls_attr_is_mark(const ls_attr *attr) {
  return attr->id == LS_ATTR_ID_NONE;
}
// Returns true if the op's row has the attribute.
bool ls_op_owns(uint16_t type, uint16_t id);

// Checks the resolved attributes of an op with `num_inputs` operands: the
// required ones are given, none is given twice, kinds and values are allowed,
// and no pointer is NULL.
//   LS_INVALID_ARGUMENT  names the attribute, its value and what is accepted
ls_status ls_attrs_check(uint16_t type, const ls_attr *attrs, size_t count,
                         size_t num_inputs);

#endif  // LS_GRAPH_ATTRS_H_

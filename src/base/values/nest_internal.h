// SPDX-License-Identifier: Apache-2.0
// Nests, as the layers above see them.
#ifndef LS_BASE_VALUES_NEST_INTERNAL_H_
#define LS_BASE_VALUES_NEST_INTERNAL_H_

#include "lockstep/array.h"
#include "lockstep/distributed.h"
#include "lockstep/nest.h"

// Deeper nests are refused, so that recursion fits a fiber's stack.
enum { LS_NEST_MAX_DEPTH = 256 };

// A short-lived text of a nest, for messages.
#define LS_NEST_TEXT(nest) ls_nest_print(nest, (char[200]){0}, 200)

// The inverse of ls_take_nest: returns a nest that a call has made, or the
// call's failure.
static inline ls_nest ls_made_nest(ls_status status, const ls_nest *made) {
  return ls_status_is_ok(status) ? *made : ls_fail(status);
}
// LS_RETURN_IF_ERROR of functions that return nests: the nest is a failed one.
#define LS_RETURN_FAILED_IF_ERROR(expression)                                  \
  do {                                                                         \
    const ls_status ls_failure = (expression);                                 \
    if (!ls_status_is_ok(ls_failure)) return ls_fail(ls_failure);              \
  } while (0)

// Raises the level of `holder` above that of its new item. A nest made of a
// holder with too many levels is a failed one.
void ls_nest_deepen(ls_object *holder, ls_nest item);

// Returns the position of the index-th item in flattening order: in a dict that
// with the index-th smallest key, in a sequence `index`.
size_t ls_nest_sorted_position(ls_nest nest, size_t index);
// Returns (lends) the index-th item in flattening order.
ls_nest ls_nest_item_sorted(ls_nest nest, size_t index);
// Returns true for a dict or a named tuple, also an empty one.
bool ls_nest_has_keys(ls_nest nest);

// Takes the last key that ls_nest_find did not find on this thread and whose
// missing item was read as a tensor, with the keys that there were. Returns
// false if there was none.
bool ls_nest_take_missing(char *text, size_t size);
// Forgets it, where a callback begins or ends.
void ls_nest_forget_missing(void);

// Makes a distributed value like `leaf`, on its devices, of what the function
// makes of each component.
ls_nest ls_distributed_map_components(ls_nest leaf, ls_leaf_function function,
                                      void *user);
// Returns true for distributed values of one kind, on the same devices.
bool ls_distributed_is_alike(ls_nest a, ls_nest b);

// Returns the size of part `part` if `rows` rows are cut into `parts` parts:
// sizes differ by at most one, larger ones first.
static inline int64_t ls_part_rows(int64_t rows, int64_t parts, int64_t part) {
  return rows / parts + (part < rows % parts);
}
// Makes a leaf of `rows` rows from row `first` on, a view that retains the
// array; strings are copied.
LS_MUST_USE ls_status ls_array_rows(ls_array *array, int64_t first,
                                    int64_t rows, ls_nest *out_leaf);
// Splits dimension 0 into `parts` parts: a PerReplica of views, which retain
// the array.
LS_MUST_USE ls_status ls_array_split(ls_array *array, int64_t parts,
                                     ls_nest *out_value);

// Takes over a newly made nest and returns its failure, if any. ls_nest_give
// also stores the nest in `*results` if it did not fail.
LS_MUST_USE ls_status ls_take_nest(ls_nest made, ls_nest *out_value);
LS_MUST_USE ls_status ls_nest_give(ls_nest made, ls_nest *results);

// ---- Tensors ---------------------------------------------------------------
// Base knows tensors and ops only as handles. Each graph begins with a table of
// functions that describe its tensors, so that base need not know graphs.

// Functions on handles of a non-NULL graph, stale handles included.
typedef struct ls_tensor_vtable {
  void (*print)(ls_tensor tensor, char *buffer, size_t size);
  void (*print_op)(ls_op op, char *buffer, size_t size);
  // Returns (lends) the value of an eager tensor or constant; NULL if unknown.
  ls_array *(*known_value)(ls_tensor tensor);
} ls_tensor_vtable;

// The first member of every ls_graph.
typedef struct ls_graph_head {
  const ls_tensor_vtable *tensors;
} ls_graph_head;

static inline const ls_tensor_vtable *
ls_graph_tensors_of(const ls_graph *graph) {
  return ((const ls_graph_head *)(const void *)graph)->tensors;
}
// Returns (lends) the value of an eager tensor or constant; NULL if unknown.
static inline ls_array *ls_tensor_known_value(ls_tensor tensor) {
  return tensor.graph == NULL
             ? NULL
             : ls_graph_tensors_of(tensor.graph)->known_value(tensor);
}

// ---- Reads -----------------------------------------------------------------
// Marks of the items of a dict that were read, so that those that nobody reads
// can be named. A dict has marks for its first 64 items; later ones count as
// read. Any threads may read at the same time.

// Lets ls_nest_find and ls_nest_item mark what they return from now on. No
// other thread has the dict yet.
void ls_nest_mark_reads(ls_nest dict);
bool ls_nest_was_read(ls_nest dict, size_t index);
// Marks those items of a dict that were read in `copy`, by their keys.
void ls_nest_add_reads(ls_nest dict, ls_nest copy);

#endif  // LS_BASE_VALUES_NEST_INTERNAL_H_

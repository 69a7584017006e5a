// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Nests: trees whose leaves are tensors, ops, arrays, variables, distributed
// values, host scalars or nothing. What goes into and comes out of every
// function, step and replica is a nest.
//
// A nest is a 24-byte value. Arrays, objects and inner nodes are counted and
// immutable, and a nest owns one reference to what it holds; tensors, ops and
// scalars own nothing. Constructors take over what they are given, unless
// their comment says otherwise.
//
// Threads: a nest's nodes never change and are counted atomically, so that
// copies may go to other threads; a place that results are written to belongs
// to one call at a time.
#ifndef LOCKSTEP_NEST_H_
#define LOCKSTEP_NEST_H_

#include "lockstep/array.h"

#ifdef __cplusplus
#include <initializer_list>

extern "C" {
#endif

typedef struct ls_graph ls_graph;
typedef struct ls_object ls_object;  // lockstep/object.h

// Handles into a graph: 16 bytes, by value, own nothing. Ids are never reused:
// a stale handle is an error, not a crash. A ref is the op's id and, in its
// lowest bits, which of the op's results it is; 0: failed.
enum { LS_TENSOR_OUTPUT_BITS = 20 };
typedef struct ls_op {
  ls_graph *graph;
  uint64_t id;
} ls_op;
typedef struct ls_tensor {
  ls_graph *graph;
  uint64_t ref;
} ls_tensor;

typedef enum ls_kind {
  LS_KIND_NONE,
  LS_KIND_SCALAR,  // A host scalar: dtype and bits. Weakly typed.
  LS_KIND_TENSOR,
  LS_KIND_OP,
  LS_KIND_ARRAY,
  LS_KIND_VARIABLE,     // ls_variable: a container or a component.
  LS_KIND_DISTRIBUTED,  // ls_distributed: PerReplica or Mirrored.
  LS_KIND_SLICES,       // Sparse slices: values, indices, dense shape.
  LS_KIND_OBJECT,       // Any other ls_object.
  LS_KIND_LIST,
  LS_KIND_TUPLE,
  LS_KIND_DICT,
  LS_KIND_FAILED,  // Carries a status.
} ls_kind;

typedef struct ls_nest {
  ls_kind kind;
  ls_dtype dtype;  // Of a scalar.
  union {
    uint64_t bits;  // Scalars: an i64, or a double's bits for floats.
    double f64;
    int64_t i64;
    ls_tensor tensor;
    ls_op op;
    void *ref;
  } as;
} ls_nest;

// ---- Leaves ----------------------------------------------------------------
static inline ls_nest ls_none(void) {
  const ls_nest none = LS_ZEROED;
  return none;
}
static inline ls_nest ls_leaf(ls_tensor tensor) {
  ls_nest leaf = LS_ZEROED;
  leaf.kind = LS_KIND_TENSOR;
  leaf.as.tensor = tensor;
  return leaf;
}
static inline ls_nest ls_nest_op(ls_op op) {
  ls_nest leaf = LS_ZEROED;
  leaf.kind = LS_KIND_OP;
  leaf.as.op = op;
  return leaf;
}
LS_API ls_nest ls_nest_i64(int64_t value);
LS_API ls_nest ls_nest_f64(double value);
LS_API ls_nest ls_nest_bool(bool value);
// Takes over one reference to the array / object.
LS_API ls_nest ls_nest_array(ls_array *array);
// A leaf with a new array of zeros, to be filled; failed as ls_array_create
// fails.
LS_API ls_nest ls_nest_zeros(ls_dtype dtype, ls_shape shape);
LS_API ls_nest ls_nest_object(ls_kind kind, ls_object *object);
// A failed nest: what a callback returns to refuse. Takes the status over.
LS_API ls_nest ls_fail(ls_status status);
#define LS_FAIL(code, ...) ls_fail(LS_STATUS((code), __VA_ARGS__))

// ---- Inner nodes -----------------------------------------------------------
// A list or tuple of `count` items, which are taken over (also on failure,
// when the result is a failed nest; so it is when an item is failed).
LS_API ls_nest ls_nest_sequence(ls_kind kind, const ls_nest *items,
                                size_t count);
#ifdef __cplusplus
inline ls_nest ls_nest_sequence_of(ls_kind kind,
                                   std::initializer_list<ls_nest> items) {
  return ls_nest_sequence(kind, items.begin(), items.size());
}
#define LS_LIST(...) ls_nest_sequence_of(LS_KIND_LIST, {__VA_ARGS__})
#define LS_TUPLE(...) ls_nest_sequence_of(LS_KIND_TUPLE, {__VA_ARGS__})
#else
#define LS_LIST(...)                                                           \
  ls_nest_sequence(LS_KIND_LIST, (ls_nest[]){__VA_ARGS__},                     \
                   sizeof((ls_nest[]){__VA_ARGS__}) / sizeof(ls_nest))
#define LS_TUPLE(...)                                                          \
  ls_nest_sequence(LS_KIND_TUPLE, (ls_nest[]){__VA_ARGS__},                    \
                   sizeof((ls_nest[]){__VA_ARGS__}) / sizeof(ls_nest))
#endif
// A tuple whose fields have names, and a type name ("" for none). The names
// are copied.
LS_API ls_nest ls_nest_named_tuple(const char *type_name,
                                   const char *const *names,
                                   const ls_nest *items, size_t count);
// A dict with a type tag ("" for plain), keys in the order given. Copies the
// keys; a key given twice makes a failed nest.
LS_API ls_nest ls_nest_dict(const char *type_tag, const char *const *keys,
                            const ls_nest *items, size_t count);

// ---- Looking in ------------------------------------------------------------
static inline bool ls_nest_is_node(ls_nest nest) {
  return nest.kind == LS_KIND_LIST || nest.kind == LS_KIND_TUPLE ||
         nest.kind == LS_KIND_DICT;
}
static inline bool ls_nest_is_failed(ls_nest nest) {
  return nest.kind == LS_KIND_FAILED;
}
LS_API size_t ls_nest_count(ls_nest nest);  // Items of a node; 0 of a leaf.
// Item `index` of a node, lent: valid as long as the node. None if there is
// none.
LS_API ls_nest ls_nest_item(ls_nest nest, size_t index);
LS_API ls_nest ls_nest_find(ls_nest dict, const char *key);
// The key (dict) or field name (named tuple) of an item, else NULL.
LS_API const char *ls_nest_key(ls_nest nest, size_t index);
// Type tag of a dict, type name of a named tuple, else "".
LS_API const char *ls_nest_tag(ls_nest nest);
// The tensor of a leaf, or of item `index`; a failed tensor if it is none.
LS_API ls_tensor ls_nest_tensor(ls_nest nest, size_t index);
// The array of a leaf, lent; NULL if it is none.
LS_API ls_array *ls_nest_as_array(ls_nest nest);
// The elements of the array of a leaf, or of item `index`, for who may write
// there: see ls_array. NULL if there is no array.
LS_API void *ls_nest_data(ls_nest nest, size_t index);
// The number in a leaf: a host scalar, an array of one element, or a tensor of
// one whose value is known, in eager or as a constant.
//   LS_FAILED_PRECONDITION  a tensor that has no value yet, or that failed.
//   LS_INVALID_ARGUMENT     anything else: names it. `*out_number` is NaN.
LS_API LS_MUST_USE ls_status ls_nest_to_number(ls_nest nest,
                                               double *out_number);
// The same, NaN where it is refused.
LS_API double ls_nest_number(ls_nest nest);
// A copy of the status of a failed nest, OK for any other. The caller's.
LS_API LS_MUST_USE ls_status ls_nest_status(ls_nest nest);

// ---- Ownership -------------------------------------------------------------
LS_API ls_nest ls_nest_retain(ls_nest nest);
LS_API void ls_nest_release(ls_nest nest);

// ---- Whole trees -----------------------------------------------------------
// Leaves (none included) in the order of flattening: sequences by index, dicts
// by sorted key. Distributed values are leaves.
LS_API size_t ls_nest_num_leaves(ls_nest nest);
// Writes up to `capacity` leaves, lent. Returns their number.
LS_API size_t ls_nest_flatten(ls_nest nest, ls_nest *leaves, size_t capacity);
// A nest with the structure of `like` and these leaves, taken over (also on
// failure). `count` must be the number of leaves of `like`.
LS_API ls_nest ls_nest_pack(ls_nest like, const ls_nest *leaves, size_t count);
// Puts a new leaf in place of each: fn(leaf, user) is given a lent leaf and
// returns its own. A failed leaf ends the walk and is the result.
typedef ls_nest (*ls_leaf_function)(ls_nest leaf, void *user);
LS_API ls_nest ls_nest_map(ls_nest nest, ls_leaf_function fn, void *user);
// OK when both have the same kinds, lengths, keys and named fields; leaves are
// not compared. LS_INVALID_ARGUMENT naming the place and what differs.
LS_API LS_MUST_USE ls_status ls_nest_same_structure(ls_nest a, ls_nest b);
// The same object: tensors by graph and ref, scalars by dtype and bits, the
// rest by address; "none" always.
LS_API bool ls_nest_is_same(ls_nest a, ls_nest b);
// Prints the tree into `buffer`, cut to `size`; returns `buffer`. Arrays and
// eager tensors are shown with their type and first elements, tensors of graphs
// with their name and type.
LS_API const char *ls_nest_print(ls_nest nest, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_NEST_H_

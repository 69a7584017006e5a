// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Nests: trees whose leaves are tensors, ops, arrays, variables, distributed
// values, host scalars or nothing. Arguments and results of every function,
// step and replica are nests.
//
// A nest is a 24-byte value. Arrays, objects and inner nodes are
// reference-counted and immutable, and a nest owns one reference to its
// contents; tensors, ops and scalars own nothing. Constructors take over their
// arguments, unless their comment says otherwise.
//
// Threads: a nest's nodes never change and are counted atomically, so that
// copies may go to other threads; one call at a time may write results into a
// nest.
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
// a stale handle is an error, not a crash. A ref is the op's id with the index
// of the op's output in its lowest bits; 0: failed.
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
  ls_dtype dtype;  // Dtype of a scalar.
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
// Makes a leaf; takes over one reference to the array.
LS_API ls_nest ls_nest_array(ls_array *array);
// Makes a leaf with a new array of zeros, to be filled; failed as
// ls_array_create fails.
LS_API ls_nest ls_nest_zeros(ls_dtype dtype, ls_shape shape);
LS_API ls_nest ls_nest_object(ls_kind kind, ls_object *object);
// Makes a failed nest, which a callback returns to refuse. Takes the status
// over.
LS_API ls_nest ls_fail(ls_status status);
#define LS_FAIL(code, ...) ls_fail(LS_STATUS((code), __VA_ARGS__))

// ---- Inner nodes -----------------------------------------------------------
// Makes a list or tuple of `count` items, which are taken over (also on
// failure, when the result is a failed nest; it is also failed if an item is
// failed).
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
// Makes a tuple whose fields have names, and a type name ("" for none). The
// names are copied.
LS_API ls_nest ls_nest_named_tuple(const char *type_name,
                                   const char *const *names,
                                   const ls_nest *items, size_t count);
// Makes a dict with a type tag ("" for plain), keys in the order given. Copies
// the keys; a duplicate key makes a failed nest.
LS_API ls_nest ls_nest_dict(const char *type_tag, const char *const *keys,
                            const ls_nest *items, size_t count);

// ---- Access ----------------------------------------------------------------
static inline bool ls_nest_is_node(ls_nest nest) {
  return nest.kind == LS_KIND_LIST || nest.kind == LS_KIND_TUPLE ||
         nest.kind == LS_KIND_DICT;
}
static inline bool ls_nest_is_failed(ls_nest nest) {
  return nest.kind == LS_KIND_FAILED;
}
LS_API size_t ls_nest_count(ls_nest nest);  // Items of a node; 0 for a leaf.
// Return an item of a node, lent as long as the node; a none leaf if there is
// none.
LS_API ls_nest ls_nest_item(ls_nest nest, size_t index);
LS_API ls_nest ls_nest_find(ls_nest dict, const char *key);
// Returns the key (dict) or field name (named tuple) of an item, else NULL.
LS_API const char *ls_nest_key(ls_nest nest, size_t index);
// Returns the type tag of a dict, the type name of a named tuple, else "".
LS_API const char *ls_nest_tag(ls_nest nest);
// Returns the tensor of a leaf, or of item `index`; a failed tensor if it is
// none.
LS_API ls_tensor ls_nest_tensor(ls_nest nest, size_t index);
// Returns the array of a leaf, lent; NULL if it is none.
LS_API ls_array *ls_nest_as_array(ls_nest nest);
// Returns the elements of the array of a leaf, or of item `index`, for callers
// that may write there: see ls_array. NULL if there is no array.
LS_API void *ls_nest_data(ls_nest nest, size_t index);
// Gets the number in a leaf: a host scalar, an array of one element, or a
// tensor of one whose value is known, in eager or as a constant.
//   LS_FAILED_PRECONDITION  a tensor that has no value yet, or that failed.
//   LS_INVALID_ARGUMENT     anything else: names it. `*out_number` is NaN.
LS_API LS_MUST_USE ls_status ls_nest_to_number(ls_nest nest,
                                               double *out_number);
// Returns the number, NaN if there is none.
LS_API double ls_nest_number(ls_nest nest);
// Returns a copy of the status of a failed nest, OK for any other. The caller
// owns it.
LS_API LS_MUST_USE ls_status ls_nest_status(ls_nest nest);

// ---- Ownership -------------------------------------------------------------
LS_API ls_nest ls_nest_retain(ls_nest nest);
LS_API void ls_nest_release(ls_nest nest);

// ---- Whole trees -----------------------------------------------------------
// Returns the number of leaves (none leaves included). The order of flattening
// is by index for sequences, by sorted key for dicts. Distributed values are
// leaves.
LS_API size_t ls_nest_num_leaves(ls_nest nest);
// Writes up to `capacity` leaves, lent. Returns their number.
LS_API size_t ls_nest_flatten(ls_nest nest, ls_nest *leaves, size_t capacity);
// Makes a nest with the structure of `like` and these leaves, taken over (also
// on failure). `count` must be the number of leaves of `like`.
LS_API ls_nest ls_nest_pack(ls_nest like, const ls_nest *leaves, size_t count);
// Replaces each leaf: fn(leaf, user) is given a lent leaf and returns a new one
// that the caller owns. A failed leaf ends the walk and is the result.
typedef ls_nest (*ls_leaf_function)(ls_nest leaf, void *user);
LS_API ls_nest ls_nest_map(ls_nest nest, ls_leaf_function fn, void *user);
// Returns OK if both have the same kinds, lengths, keys and named fields;
// leaves are not compared. LS_INVALID_ARGUMENT names the position and the
// difference.
LS_API LS_MUST_USE ls_status ls_nest_same_structure(ls_nest a, ls_nest b);
// Returns true if both are the same object: tensors by graph and ref, scalars
// by dtype and bits, others by address; two none leaves always are.
LS_API bool ls_nest_is_same(ls_nest a, ls_nest b);
// Prints the tree into `buffer`, cut to `size`; returns `buffer`. Arrays and
// eager tensors are shown with their type and first elements, tensors of graphs
// with their name and type.
LS_API const char *ls_nest_print(ls_nest nest, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_NEST_H_

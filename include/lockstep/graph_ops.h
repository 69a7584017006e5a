// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Ops and attributes of graphs, collections, and graphs as text: for code that
// inspects graphs or adds ops of its own.
//
// Threads: as in lockstep/graph.h.
#ifndef LOCKSTEP_GRAPH_OPS_H_
#define LOCKSTEP_GRAPH_OPS_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Types and attributes --------------------------------------------------
typedef enum ls_attr_kind {
  LS_ATTR_NONE,
  LS_ATTR_INT,
  LS_ATTR_FLOAT,
  LS_ATTR_BOOL,
  LS_ATTR_STRING,
  LS_ATTR_DTYPE,
  LS_ATTR_SHAPE,
  LS_ATTR_INTS,
  LS_ATTR_SIZES,
  LS_ATTR_STRINGS,
  LS_ATTR_ARRAY,   // The op holds a reference.
  LS_ATTR_OBJECT,  // The op holds a reference.
  LS_ATTR_KERNEL,  // Static data.
} ls_attr_kind;

typedef struct ls_host_kernel ls_host_kernel;  // lockstep/host.h

// A named attribute of an op. Adding an op copies it and what it points to.
typedef struct ls_attr {
  const char *name;
  ls_attr_kind kind;
  uint16_t id;  // The library's own. Leave it 0.
  union {
    int64_t i;
    double f;
    const char *string;
    ls_dtype dtype;
    ls_shape shape;
    struct {
      const int64_t *items;
      size_t count;
    } ints;
    struct {
      const ls_size *items;
      size_t count;
    } sizes;
    struct {
      const char *const *items;
      size_t count;
    } strings;
    ls_array *array;
    ls_object *object;
    const ls_host_kernel *kernel;
  } as;
} ls_attr;

// ---- Graphs ----------------------------------------------------------------
// Forbids adding ops to a build graph from now on: makers fail with
// LS_FAILED_PRECONDITION. Sessions still run it.
LS_API void ls_graph_freeze(ls_graph *graph);
LS_API bool ls_graph_is_frozen(const ls_graph *graph);

// Return the number of ops, and the i-th in order of creation.
LS_API size_t ls_graph_num_ops(const ls_graph *graph);
LS_API ls_op ls_graph_op(const ls_graph *graph, size_t index);
// Finds an op by name.
//   LS_NOT_FOUND  no op of this name.
LS_API LS_MUST_USE ls_status ls_graph_lookup_op(const ls_graph *graph,
                                                const char *name,
                                                ls_op *out_op);

// ---- Collections -----------------------------------------------------------
// Adds a leaf to a collection unless it is in it already. Collections are named
// lists of a build graph, such as of variables or losses, by which parts of a
// program find each other's values. The leaf is lent; the graph holds a
// reference.
LS_API LS_MUST_USE ls_status ls_graph_add_to_collection(ls_graph *graph,
                                                        const char *name,
                                                        ls_nest leaf);
// Removes a leaf; does nothing if it is not in the collection.
LS_API void ls_graph_remove_from_collection(ls_graph *graph, const char *name,
                                            ls_nest leaf);
// Writes up to `capacity` leaves, lent, in order of addition. Returns their
// number.
LS_API size_t ls_graph_collection(const ls_graph *graph, const char *name,
                                  ls_nest *leaves, size_t capacity);

// ---- Ops and tensors -------------------------------------------------------
// General description of an op, for makers. Everything is copied.
typedef struct ls_op_spec {
  uint16_t type;     // LS_OP_...
  const char *name;  // Name within the current name scope. Default: the type's.
  const ls_tensor *inputs;
  size_t num_inputs;
  const ls_op *control;  // Ops of this graph or of enclosing ones.
  size_t num_control;
  const ls_attr *attrs;
  size_t num_attrs;
  ls_graph *const *regions;  // Taken over on success.
  size_t num_regions;
} ls_op_spec;

// Adds an op to the thread's current graph. On failure the op's id is 0, and
// the graph's error names the op and the mismatch: the number of operands, an
// attribute that is missing, of another kind or out of bounds, a shape.
LS_API ls_op ls_op_add(const ls_op_spec *spec);

LS_API const char *ls_op_name(ls_op op);
LS_API const char *ls_op_type_name(ls_op op);
LS_API uint16_t ls_op_type(ls_op op);
LS_API const char *ls_op_device(ls_op op);  // "" when there is none.
LS_API size_t ls_op_num_inputs(ls_op op);
LS_API ls_tensor ls_op_input(ls_op op, size_t index);
LS_API size_t ls_op_num_outputs(ls_op op);
LS_API size_t ls_op_num_control_inputs(ls_op op);
LS_API ls_op ls_op_control_input(ls_op op, size_t index);
// Return the source file and line where the user made the op; NULL and 0 if not
// known.
LS_API const char *ls_op_file(ls_op op);
LS_API int ls_op_line(ls_op op);
// Gets an attribute, lent. NOT_FOUND names the op and the attribute.
LS_API LS_MUST_USE ls_status ls_op_attr(ls_op op, const char *name,
                                        const ls_attr **out_attr);
// Sets or replaces an attribute of an op in a build graph, or in a function's
// graph. Later runs of sessions have it, whatever they have run before;
// calls of the function in eager mode keep what it was compiled with.
//   LS_INVALID_ARGUMENT  an attribute of the op has this name and another kind,
//                        cannot have this value, or does not fit the op's
//                        outputs and regions; under any other name all values
//                        are allowed.
LS_API LS_MUST_USE ls_status ls_op_set_attr(ls_op op, const ls_attr *attr);

// ---- Losses ----------------------------------------------------------------
// Set and get how the last loss in a graph was reduced: "weighted_mean",
// "weighted_sum", "none", or a caller's own text; "" when there was no loss.
// The library's losses set it themselves, also in the eager graph, where a tape
// starts with "". Replicas that share a graph have separate values.
LS_API LS_MUST_USE ls_status
ls_graph_record_loss_reduction(ls_graph *graph, const char *reduction);
LS_API const char *ls_graph_loss_reduction(const ls_graph *graph);
// Set and get if the last optimizer in the graph scaled its loss by 1 / the
// number of replicas.
LS_API void ls_graph_set_loss_scaled(ls_graph *graph, bool scaled);
LS_API bool ls_graph_is_loss_scaled(const ls_graph *graph);

// ---- Text ------------------------------------------------------------------
// Prints the graph as a DOT drawing. The caller releases `*out_text` with
// ls_text_release.
LS_API LS_MUST_USE ls_status ls_graph_print_dot(const ls_graph *graph,
                                                char **out_text);
// Prints the same text with replicated computations (lockstep/replicate.h) as
// they run: each is one replicate op, whose region holds its ops.
LS_API LS_MUST_USE ls_status ls_graph_print_gathered(const ls_graph *graph,
                                                     char **out_text);
// Makes a graph from its text. `kernels` names the host kernels that may occur
// (NULL, 0: none). The caller owns the graph.
//   LS_INVALID_ARGUMENT  names the line, the text found and the text expected.
LS_API LS_MUST_USE ls_status
ls_graph_parse(const char *text, const ls_host_kernel *const *kernels,
               size_t num_kernels, ls_graph **out_graph);
// Checks every invariant of the graph's stage. INTERNAL names op and rule.
LS_API LS_MUST_USE ls_status ls_graph_verify(const ls_graph *graph);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GRAPH_OPS_H_

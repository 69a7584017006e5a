// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Graphs, ops and scopes: construction of graphs.
//
// Every thread has one current graph: the innermost open build block, function
// trace, loop or branch body or replica; with nothing open, the runtime's eager
// graph. Each op is added to it, whatever its operands. A value of an enclosing
// graph is captured; a value of any other graph is refused.
//
// Three kinds of calls follow three rules. Op makers return a tensor; a failure
// makes a failed tensor and is the graph's first error until
// ls_graph_take_error. All others return a status and, if refused, leave
// everything unchanged. Callbacks return a nest, ls_fail to refuse.
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_GRAPH_H_
#define LOCKSTEP_GRAPH_H_

#include "lockstep/nest.h"
#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// Marks calls that record their caller's source line: the generated header
// lockstep/places.h wraps each in a macro.
#define LS_PLACED LS_API

// ---- Types and attributes --------------------------------------------------
// Static type of a value.
typedef struct ls_type {
  ls_dtype dtype;
  ls_shape shape;
} ls_type;

// One size in a list of sizes: a number, or dimension `value` of operand
// `operand` of the op that holds the list, known as soon as that dimension is.
typedef struct ls_size {
  int32_t operand;  // LS_SIZE_CONSTANT, or the index of an operand.
  int64_t value;
} ls_size;
#define LS_SIZE_CONSTANT (-1)

// ---- Graphs ----------------------------------------------------------------
// Creates an empty build graph for sessions. The caller owns it.
LS_API LS_MUST_USE ls_status ls_graph_create(const char *name,
                                             ls_graph **out_graph);
// Destroys a graph made by ls_graph_create or ls_graph_parse, with all ops; a
// graph with sessions is destroyed with the last of them. Other graphs belong
// to the library, and stay.
LS_API void ls_graph_destroy(ls_graph *graph);

// Returns the graph that an op made now would be added to.
LS_API ls_graph *ls_graph_current(void);
LS_API const char *ls_graph_name(const ls_graph *graph);
LS_API bool ls_graph_is_eager(const ls_graph *graph);

// Returns the first error of an op maker in this graph, or OK, and clears it.
// The caller owns the status.
LS_API LS_MUST_USE ls_status ls_graph_take_error(ls_graph *graph);
// Returns the same error, which the graph keeps.
LS_API LS_MUST_USE ls_status ls_graph_error(const ls_graph *graph);

// Sets the seed of all random ops made in a build graph from now on, including
// weights' initial values: it is combined with their own seeds
// (ls_random_options, ls_weight_options). It also covers ops in the graph's
// loops, branches, replicas and computations; functions that are traced
// separately have seeds of their own (ls_function_options). Default 0.
//   LS_INVALID_ARGUMENT  the graph is no build graph.
LS_API LS_MUST_USE ls_status ls_graph_set_seed(ls_graph *graph, int64_t seed);

// ---- Ops and tensors -------------------------------------------------------

// Returns true if there is no value because a maker failed. In eager this
// includes an op that failed as it ran; ls_tensor_status has the reason.
LS_API bool ls_tensor_is_failed(ls_tensor tensor);
// Returns true if a maker failed. In eager an op has a status of its own:
// ls_tensor_status(ls_op_output(op, 0)), also without outputs.
static inline bool ls_op_is_failed(ls_op op) { return op.id == 0; }
static inline ls_tensor ls_failed_tensor(void) {
  const ls_tensor failed = {NULL, 0};
  return failed;
}
static inline bool ls_tensor_equal(ls_tensor a, ls_tensor b) {
  return a.graph == b.graph && a.ref == b.ref;
}
static inline ls_op ls_tensor_op(ls_tensor t) {
  const ls_op op = {t.graph, t.ref >> LS_TENSOR_OUTPUT_BITS};
  return op;
}
static inline ls_tensor ls_op_output(ls_op op, unsigned output) {
  const ls_tensor t = {op.graph,
                       op.id ? op.id << LS_TENSOR_OUTPUT_BITS | output : 0};
  return t;
}
// Return LS_DTYPE_NONE and an unknown shape for a failed or stale handle.
LS_API ls_dtype ls_tensor_dtype(ls_tensor tensor);
LS_API ls_shape ls_tensor_shape(ls_tensor tensor);
// Returns a name such as "scope/op:0", lent until the graph ends; "" for a
// failed or stale handle.
LS_API const char *ls_tensor_name(ls_tensor tensor);

// Record a source line for every op made since the last such call that has
// none, and for a sticky error raised there. Called by places.h.
LS_API ls_tensor ls_at_tensor(ls_tensor value, const char *file, int line);
LS_API ls_op ls_at_op(ls_op value, const char *file, int line);
LS_API ls_nest ls_at_nest(ls_nest value, const char *file, int line);
LS_API LS_MUST_USE ls_status ls_at_status(ls_status value, const char *file,
                                          int line);

// ---- Scopes ----------------------------------------------------------------
// An open scope. The caller provides the storage; begin and end calls nest. A
// refused scope is a failed context: op makers in it return failed tensors, and
// calls its status.
typedef struct ls_scope {
  uint64_t open;  // 0: not open.
  uint64_t opaque[28];
} ls_scope;

LS_API void ls_scope_end(ls_scope *scope);
// Returns why nothing works here: the status of the outermost refused scope; OK
// if none was refused.
LS_API LS_MUST_USE ls_status ls_scope_status(void);

// Begins a scope, ended by ls_scope_end, whose ops are added to `graph`, a
// build graph.
LS_API void ls_graph_begin(ls_scope *scope, ls_graph *graph);
// Prefixes names with "name/", made unique ("name_1/"); a trailing '/' enters
// that very scope again; NULL or "" leaves all scopes.
LS_API void ls_name_scope_begin(ls_scope *scope, const char *name);
// Places ops on the device. Parts that its name leaves out come from the
// enclosing scopes, part by part (ls_device_merge): "/cpu:1" in
// "/job:worker/task:2" is "/job:worker/task:2/device:CPU:1". "" changes
// nothing; NULL leaves all scopes. An invalid name is refused. Where a plug-in
// computes, a program without replicas runs on the first of its devices that an
// op of it names, and on the CPU if all ops name that.
LS_API void ls_device_scope_begin(ls_scope *scope, const char *device);
// Places ops on the device of `op`, and marks them as colocated with it.
LS_API void ls_colocate_scope_begin(ls_scope *scope, ls_op op);
// Runs ops after these; `ops` must live as long as the scope. NULL clears all
// control dependencies. An op does not list what an operand made in the scope
// waits for already. For ops in a graph around a loop's or branch's body, the
// loop or branch waits. Ops that ran in eager have finished: a function does
// not wait for them, but fails with their status.
LS_API void ls_control_scope_begin(ls_scope *scope, const ls_op *ops,
                                   size_t count);
// Leaves functions, loops, branches, replicas and control dependencies: ops go
// to the build graph or eager graph around them. Used for initial values.
LS_API void ls_init_scope_begin(ls_scope *scope);

// Returns the current name scope: "a/b/", or "".
LS_API const char *ls_name_scope_current(void);

// Scopes as declarations, for the rest of the enclosing block:
//   {
//     LS_NAME_SCOPE("dense");
//     ...
//   }
// The scope is left on every way out of the block: at its end, by return and
// goto, and by break and continue, which act on the enclosing loop as usual.
// Several may begin on one line.
#define LS_SCOPE_(call, ...)                                                   \
  LS_SCOPE_AS_(LS_CONCAT(ls_scope_, __COUNTER__), call, __VA_ARGS__)
#define LS_SCOPE_AS_(scope, call, ...)                                         \
  LS_SCOPE_BLOCK_(scope);                                                      \
  call(&scope, __VA_ARGS__)
// A scope without an argument.
#define LS_BARE_SCOPE_(call)                                                   \
  LS_BARE_SCOPE_AS_(LS_CONCAT(ls_scope_, __COUNTER__), call)
#define LS_BARE_SCOPE_AS_(scope, call)                                         \
  LS_SCOPE_BLOCK_(scope);                                                      \
  call(&scope)
#define LS_SCOPE_BLOCK_(scope)                                                 \
  ls_scope scope __attribute__((cleanup(ls_scope_end))) = LS_ZEROED
#define LS_GRAPH_SCOPE(graph) LS_SCOPE_(ls_graph_begin, graph)
#define LS_NAME_SCOPE(name) LS_SCOPE_(ls_name_scope_begin, name)
#define LS_DEVICE_SCOPE(device) LS_SCOPE_(ls_device_scope_begin, device)
#define LS_COLOCATE_SCOPE(op) LS_SCOPE_(ls_colocate_scope_begin, op)
#define LS_CONTROL_SCOPE(ops, count)                                           \
  LS_SCOPE_(ls_control_scope_begin, ops, count)
#define LS_INIT_SCOPE LS_BARE_SCOPE_(ls_init_scope_begin)

// ---- Text ------------------------------------------------------------------
// Prints the graph as text that ls_graph_parse reads back. The caller releases
// `*out_text` with ls_text_release.
LS_API LS_MUST_USE ls_status ls_graph_print(const ls_graph *graph,
                                            char **out_text);
LS_API void ls_text_release(char *text);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GRAPH_H_

// SPDX-License-Identifier: Apache-2.0
//
// Graphs, private part.
//
// One data structure serves two stages. A build or function graph is what the
// user made, and nothing rewrites it; a lowered graph is a pruned copy with
// static shapes that only passes change. Nodes are in order of creation, which
// is topological: an input is always an earlier node. Nodes live in the graph's
// arena and are not freed one by one, except in the eager graph, which has its
// own storage rule (runtime/eager/eager.c).
//
// A child graph (function, region) knows its parent. A value of an enclosing
// graph enters it by a capture: one parameter node per outer value.
#ifndef LS_GRAPH_GRAPH_H_
#define LS_GRAPH_GRAPH_H_

#include "base/memory/arena.h"
#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "graph/op_table.h"
#include "lockstep/graph.h"

typedef enum ls_graph_kind {
  LS_GRAPH_BUILD,     // A user's graph for sessions.
  LS_GRAPH_FUNCTION,  // A traced function's body.
  LS_GRAPH_REGION,    // The body of a while, cond or replicate, or a replica's
                      // segment.
  LS_GRAPH_EAGER,     // The runtime's graph: ops run as they are added.
  LS_GRAPH_LOWERED,   // A program's body, or a region of one.
} ls_graph_kind;

// Most levels of nested graphs. Code that walks graphs is recursive, and must
// fit on a fiber's stack.
enum { LS_MAX_GRAPH_DEPTH = 64 };

// Largest lengths of a name in its scope, and of a name with all scopes.
enum { LS_MAX_NAME = 256, LS_MAX_FULL_NAME = 2048 };

// A name scope. Its full name is its parent's full name + name + "/".
typedef struct ls_name_scope {
  const struct ls_name_scope *parent;
  const char *name;  // Unique within the parent.
} ls_name_scope;

// The ops of a control scope and of the enclosing ones. Lives as long as the
// graph.
typedef struct ls_control_group {
  const struct ls_control_group *outer;
} ls_control_group;

typedef struct ls_node {
  uint64_t id;
  uint16_t type;
  uint32_t num_outputs, num_inputs, num_control, num_attrs, num_regions;
  uint64_t *inputs;  // Refs of the same graph, see ls_ref.
  ls_type *outputs;
  uint64_t *control;  // Ids of control inputs. Build stage only.
  // Innermost control scope when the node was made, or NULL.
  const ls_control_group *made_in;
  ls_attr *attrs;
  ls_graph **regions;
  const ls_name_scope *scope;  // Name = scope + base [+ "_" + number].
  const char *base;
  uint32_t number;
  bool not_fed, not_fetched;  // See ls_op_prevent_feeding.
  // Lowered, in a replicate region: true if the value differs by replica.
  bool varying;
  bool once;             // Lowered: true if it runs once for all replicas.
  const char *rendered;  // See ls_node_name; NULL before. Atomic.
  const char *device;    // NULL: none.
  const char *file;      // Source position in user code; static text.
  int line;
  ls_op origin;       // Lowered or gathered: the op of which this is a copy.
  ls_array **values;  // Eager: one value per output; see ls_eager_catch_up.
  ls_status failure;  // Eager: the reason if there is no value.
  // Id + 1 of the replica whose callback, op by op, made the node, else 0.
  int32_t replica;
  // Eager: the object that will compute the values; NULL: they are computed.
  ls_object *late;
} ls_node;

// A value of an enclosing graph, and the parameter by which this graph uses it.
typedef struct ls_capture {
  ls_tensor outer;
  uint64_t inner;  // Ref of the parameter.
} ls_capture;

// A node that waits for an op of an enclosing graph: see graph/context.h.
typedef struct ls_wait_outside {
  uint64_t id;
  ls_op outer;
} ls_wait_outside;

// Facts about the losses in a graph; collection.c keeps them.
typedef struct ls_losses {
  // How the last loss was reduced; NULL: there was no loss.
  const char *reduction;
  bool scaled;  // True if an optimizer has scaled the loss.
  bool summed;  // True if an optimizer sums the replicas' gradients.
} ls_losses;

// Key of a captured outer value.
typedef struct ls_capture_key {
  ls_graph *graph;
  uint64_t ref;
} ls_capture_key;

typedef struct ls_graph_undo ls_graph_undo;

struct ls_graph {
  // First member: the functions by which nests print the graph's tensors.
  ls_graph_head head;
  ls_graph_kind kind;
  uint64_t id;  // Never reused.
  const char *name;
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_arena arena;
  ls_arena names_arena;  // Name scopes; outlives eager frames.
  ls_graph *parent;      // Enclosing graph of a function or region, else NULL.
  int depth;             // Number of enclosing graphs.
  // If set, this replica's segment has the same ops as `forward`, with the same
  // refs, and has dropped its own nodes.
  ls_graph *forward;
  // True for regions of loops, whose random streams count iterations.
  bool is_while_body;
  // True for the region of a replicate op, which each replica runs.
  bool is_replica;
  // While a loop's region is traced: the initial values of the declared
  // parameters; else NULL.
  const ls_tensor *initial;

  ls_node **nodes;  // By ascending id.
  size_t num_nodes, nodes_capacity;
  // Next id: ascending, never reused. Eager nodes are freed with their frame,
  // which leaves gaps.
  uint64_t next_id;

  // Refs of the parameter nodes: declared parameters, then
  uint64_t *parameters;
  size_t num_parameters, parameters_capacity;  // captures, in order.
  size_t num_declared;
  ls_capture *captures;
  size_t num_captures, captures_capacity;
  ls_wait_outside *waits_outside;  // Sorted by node id.
  size_t num_waits_outside, waits_capacity;
  ls_map capture_index;  // Outer (graph, ref) -> index + 1 in captures.
  // Refs of the values returned by a function, region or program.
  uint64_t *results;
  size_t num_results;

  ls_map names;   // (scope, base) -> next number.
  ls_map scopes;  // Interned name scopes.
  // Interned texts (copies in names_arena), and merged device names.
  ls_map texts;
  ls_map collections;     // Build graph: name -> list.
  ls_object **variables;  // Build graph: all variables, in order of creation.
  size_t num_variables, variables_capacity;
  ls_status error;      // The first error, kept until it is taken.
  bool error_unplaced;  // True if the error lacks the user's source line.
  // Ops up to this id have their source position, if it is known.
  uint64_t placed;
  // Number of random ops so far, the stream of the next one.
  uint32_t num_random;
  int64_t seed;      // Graph seed, combined with each random op's own.
  ls_graph **stubs;  // Replicas' segments that handles may still refer to.
  size_t num_stubs, stubs_capacity;
  const void *owner;  // The function or replica that traces this graph.
  ls_losses losses;
  bool frozen;    // True once no more ops may be added.
  bool is_users;  // True if only ls_graph_destroy may free the graph.
  // Number of sessions, plus LS_GRAPH_DESTROYED. Atomic.
  uint32_t num_sessions;
  bool trains;  // True if the graph or a region has a step of an optimizer.
  bool keeps_gradients;  // See ls_graph_keep_gradients.
  // Number of the first strategy whose replicas run in it; 0: none. Set in
  // graphs that are no regions.
  uint64_t strategy;
  // Why the graph cannot be exported, or NULL; see ls_graph_note_unsaveable.
  const char *unsaveable;
  uint32_t num_trials;  // Open trials; see graph/trial.h.
  ls_graph_undo *undo;  // Changes to undo, kept while trials are open.
  size_t num_undo, undo_capacity;
  uint64_t num_edits;  // Calls of ls_op_set_attr for its ops and its regions'.
};

// ---- Making ----------------------------------------------------------------
// Creates a graph. `parent` is the enclosing graph of a function or region,
// else NULL.
//   LS_UNIMPLEMENTED  the graph would be nested deeper than LS_MAX_GRAPH_DEPTH
ls_status ls_graph_make(ls_graph_kind kind, const char *name,
                        ls_runtime *runtime, ls_graph *parent,
                        ls_graph **out_graph);
// Returns the id of the newest graph.
uint64_t ls_graph_last_id(void);
// Makes the user the owner, who destroys the graph. The graph's runtime then
// outlives it.
void ls_graph_give_to_user(ls_graph *graph);
// Counts a session on a user's graph. A graph destroyed while it has sessions
// is freed when the last one ends.
enum { LS_GRAPH_DESTROYED = 1 << 30 };
void ls_graph_begin_session(ls_graph *graph);
void ls_graph_end_session(ls_graph *graph);
// Destroys any graph with its regions. NULL is allowed.
void ls_graph_free(ls_graph *graph);
// Makes LS_OWN(ls_held_graph, graph) free a graph that is not a user's.
LS_OWNED_(ls_held_graph, ls_graph *, ls_graph_free(*ls_owned))
void ls_graph_drop_collections(ls_graph *graph);
// Returns the leaves of a collection; `value` is an item of `collections`.
const ls_nest *ls_collection_leaves(const void *value, size_t *out_count);
// Records that `graph`, and so the enclosing graphs, contain a step of an
// optimizer.
void ls_graph_note_training(ls_graph *graph);
// Lets optimizers keep the gradients of steps that are made in a build graph
// from now on, or in graphs within it, as variables of this collection, which
// are local ones.
#define LS_COLLECTION_KEPT_GRADIENTS "kept_gradients"
void ls_graph_keep_gradients(ls_graph *graph);
bool ls_graph_keeps_gradients(const ls_graph *graph);
// Records if the last optimizer sums the replicas' gradients of a loss that was
// not scaled for a sum.
void ls_graph_set_gradients_summed(ls_graph *graph, bool summed);
bool ls_graph_sums_gradients(const ls_graph *graph);
// Records why a graph cannot be exported as built; the first reason is kept. No
// effect during an export.
LS_MUST_USE ls_status ls_graph_note_unsaveable(ls_graph *graph,
                                               const char *why);
// Returns the reason recorded for the graph or a graph inside it, borrowed;
// NULL if there is none.
const char *ls_graph_unsaveable(const ls_graph *graph);
// Drops the nodes of a replica's segment and redirects its handles to `to`.
void ls_graph_forward(ls_graph *graph, ls_graph *to);
// Makes `graph` the owner of `stub`. Returns false without memory.
bool ls_graph_keep_stub(ls_graph *graph, ls_graph *stub);

// Appends a node with `num_outputs` unset outputs. Copies everything in `spec`
// into the arena; inputs must be refs of this graph. Used by lowering and
// parsing: infers no types and applies no scopes. Returns NULL without memory.
ls_node *ls_graph_append(ls_graph *graph, const ls_op_spec *spec,
                         const uint64_t *input_refs, size_t num_outputs);

// A state to which a graph can be rolled back. Names and collections are
// restored only in a trial (graph/trial.h), by which a refused call leaves no
// trace.
typedef struct ls_graph_rollback_point {
  size_t num_nodes, num_variables, num_parameters, num_captures, num_undo;
  size_t num_waits_outside;
  uint32_t num_random;
  ls_losses losses;
  bool trains;
  const char *unsaveable;
} ls_graph_rollback_point;
ls_graph_rollback_point ls_graph_mark(const ls_graph *graph);
void ls_graph_rollback(ls_graph *graph, ls_graph_rollback_point to);
// Releases what an op runs on and by; its values stay.
void ls_node_forget(ls_node *node);
// Drops the nodes from position `from` on for which `drops` returns true; the
// remaining nodes must not use them.
void ls_graph_drop_nodes(ls_graph *graph, size_t from,
                         bool (*drops)(const ls_node *node, void *user),
                         void *user);

// Makes sessions refuse feeds of the op's values (prevent_feeding), or fetches
// of them and runs of the op as a target (prevent_fetching). The op still runs
// for ops that need it. In the text form its marks carry the bans:
// graph/gather/check.c.
void ls_op_prevent_feeding(ls_op op);
void ls_op_prevent_fetching(ls_op op);

// Sets the graph's error to `status`, which is taken over, unless the graph has
// an error already.
void ls_graph_fail(ls_graph *graph, ls_status status);

// Adds a declared parameter to a function, region or lowered graph. Must
// precede all captures.
ls_status ls_graph_add_parameter(ls_graph *graph, ls_type type,
                                 const char *name, ls_tensor *out_tensor);
// Returns the ref in this graph of `value`, a value of this or an enclosing
// graph, which is captured if necessary.
//   LS_INVALID_ARGUMENT  a value of another graph: names both graphs
ls_status ls_graph_import(ls_graph *graph, ls_tensor value, uint64_t *out_ref);
// Returns the capture of a value, or NULL.
const ls_capture *ls_graph_find_capture(const ls_graph *graph, ls_tensor outer);
// Makes room for a capture of `outer`, and lets it be found; the caller then
// appends it.
ls_status ls_graph_index_capture(ls_graph *graph, ls_tensor outer);
// Adds a capture: a parameter for `outer`, a value of the parent.
ls_status ls_graph_add_capture(ls_graph *graph, ls_tensor outer,
                               uint64_t *out_ref);
// Records that a node waits for ops of enclosing graphs. Returns false without
// memory.
LS_MUST_USE bool ls_graph_wait_outside(ls_graph *graph, const ls_node *node,
                                       const ls_op *ops, size_t count);
// Sets the results; copies the list.
ls_status ls_graph_set_results(ls_graph *graph, const uint64_t *refs,
                               size_t count);

// Removes the nodes whose flag in `keep` (by id) is not set and renumbers the
// others without gaps. Parameters must be kept.
ls_status ls_graph_keep_nodes(ls_graph *graph, const bool *keep);

// ---- Looking up ------------------------------------------------------------
// The parts of a ref: a node's id, which fits into the upper bits, and an
// output.
enum { LS_MAX_OUTPUTS = 1 << LS_TENSOR_OUTPUT_BITS };
// The largest id of an op, which a text can give to one.
#define LS_MAX_OP_ID ((INT64_C(1) << (63 - LS_TENSOR_OUTPUT_BITS)) - 1)
static inline uint64_t ls_ref(uint64_t id, unsigned output) {
  return id << LS_TENSOR_OUTPUT_BITS | output;
}
static inline uint64_t ls_ref_id(uint64_t ref) {
  return ref >> LS_TENSOR_OUTPUT_BITS;
}
static inline unsigned ls_ref_output(uint64_t ref) {
  return ref & (LS_MAX_OUTPUTS - 1);
}
// Returns the position of a node by id; SIZE_MAX if the node does not exist any
// more.
size_t ls_graph_position(const ls_graph *graph, uint64_t id);
// Returns the position of the first node with this id or a later one.
size_t ls_graph_first_position(const ls_graph *graph, uint64_t id);
// Returns the node of an id or, with ls_graph_node_of, of a ref; NULL if the
// node does not exist any more.
ls_node *ls_graph_node(const ls_graph *graph, uint64_t id);
static inline ls_node *ls_graph_node_of(const ls_graph *graph, uint64_t ref) {
  return ls_graph_node(graph, ls_ref_id(ref));
}
// Returns the bytes of a value. At most 2^46 elements of 16 bytes: no overflow.
static inline size_t ls_type_bytes(ls_type type) {
  return (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype);
}
// Returns the type of a ref; zeros if its node does not exist any more.
ls_type ls_graph_type(const ls_graph *graph, uint64_t ref);
// Returns the graph that has the nodes of a handle's graph: follows `forward`.
static inline ls_graph *ls_graph_resolve(ls_graph *graph) {
  while (graph != NULL && graph->forward != NULL)
    graph = graph->forward;
  return graph;
}

// Returns the graph's interned copy of a text, which lives as long as the
// graph. NULL without memory.
const char *ls_graph_intern(ls_graph *graph, const char *text);
// Returns the device of ops in a device scope `name` inside `around` (NULL:
// none), an interned text. An empty `name` keeps `around`.
//   LS_INVALID_ARGUMENT  `name` is not a device name
ls_status ls_graph_merge_device(ls_graph *graph, const char *around,
                                const char *name, const char **out_device);
// Gives a node a unique name from `base` (NULL: its type) in `scope` (NULL:
// none).
ls_status ls_graph_name_node(ls_graph *graph, ls_node *node,
                             const ls_name_scope *scope, const char *base);
// Returns a name scope in `parent` (NULL: at the top), interned. `unique` makes
// a new one, with a number appended if necessary.
ls_status ls_graph_name_scope(ls_graph *graph, const ls_name_scope *parent,
                              const char *name, bool unique,
                              const ls_name_scope **out_scope);
// Returns the scope of a path such as "a/b/", without making it unique.
ls_status ls_graph_name_scope_path(ls_graph *graph, const char *path,
                                   const ls_name_scope **out_scope);
// Writes the scope's path, such as "a/b/", into `buffer`.
void ls_name_scope_print(const ls_name_scope *scope, char *buffer, size_t size);
// Sets or replaces an attribute, which becomes the last one. The node gets a
// new array; the old array is left unchanged.
ls_status ls_node_set_attr(ls_graph *graph, ls_node *node, const ls_attr *attr);
// Removes a mark if the node has it.
void ls_node_drop_mark(ls_node *node, const char *name);
void ls_node_retain_attrs(const ls_node *node);
// Returns the node's attribute with this id, or NULL.
static inline const ls_attr *ls_node_attr(const ls_node *node, ls_attr_id id) {
  return ls_attr_find(node->attrs, node->num_attrs, id);
}
// Returns a number or flag, or its default. ls_node_real returns a real number.
static inline int64_t ls_node_int(const ls_node *node, ls_attr_id id) {
  return ls_attr_int(node->attrs, node->num_attrs, id);
}
static inline double ls_node_real(const ls_node *node, ls_attr_id id) {
  const ls_attr *attr = ls_node_attr(node, id);
  return attr != NULL ? attr->as.f : ls_attr_table[id].otherwise.f;
}
// Returns an attribute by name, marks included, as users request it.
const ls_attr *ls_node_attr_named(const ls_node *node, const char *name);
// Mark of ops that use a distributed variable in a replicated computation: for
// each replica the index of the component on its core. Without it components
// are in the order of the variable's strategy.
#define LS_MARK_CORE_COPIES "_core_copies"
// Returns true if the op or an op in its regions writes variables or has
// effects on the host.
bool ls_node_has_effects(const ls_node *node);
// Returns true if the node writes a variable.
static inline bool ls_node_assigns(const ls_node *node) {
  return node->type == LS_OP_ASSIGN || node->type == LS_OP_ASSIGN_ADD ||
         node->type == LS_OP_ASSIGN_SUB || node->type == LS_OP_ASSIGN_SCATTER;
}
// Adds a value to a list, unless the list has it.
static inline void ls_list_ref(uint64_t *list, size_t *count, uint64_t ref) {
  for (size_t i = 0; i < *count; ++i)
    if (list[i] == ref) return;
  list[(*count)++] = ref;
}
// Returns the collective whose results a `meeting` op records; LS_OP_NONE for
// merge calls and other ops.
static inline uint16_t ls_node_met_as(const ls_node *node) {
  return ls_attrs_met_as(node->type, node->attrs, node->num_attrs);
}
// Returns the index of the first operand that region `region` captures; the
// number of operands for a region past the last. Captured values are the last
// operands of the op that holds the regions, region by region.
uint32_t ls_node_captures(const ls_node *node, uint32_t region);
// Counts the values that `count` regions capture; the second function writes
// them (as refs of the enclosing graph) and returns their number.
size_t ls_count_captures(ls_graph *const *regions, size_t count);
size_t ls_list_captures(ls_graph *const *regions, size_t count, ls_tensor *out);
size_t ls_list_capture_refs(ls_graph *const *regions, size_t count,
                            uint64_t *out_refs);
// Returns the full name, which is composed and kept at the first request. This
// and ls_graph_intern may be called while others run a session of the graph.
const char *ls_node_name(ls_graph *graph, ls_node *node);
// Writes "op 'scope/name' (file.c:12)" into `buffer`, for messages.
const char *ls_node_describe(ls_graph *graph, ls_node *node, char *buffer,
                             size_t size);

static inline const ls_op_info *ls_node_info(const ls_node *node) {
  return &ls_op_table[node->type];
}
// Returns what an op like this one is made of, but no inputs and control.
static inline ls_op_spec ls_node_spec(const ls_node *node) {
  return (ls_op_spec){.type = node->type,
                      .num_inputs = node->num_inputs,
                      .attrs = node->attrs,
                      .num_attrs = node->num_attrs,
                      .regions = node->regions,
                      .num_regions = node->num_regions};
}

static inline bool ls_node_is_merge(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_MERGE) != 0;
}
// Returns true if the op is one that all replicas run together, as users make
// it: a merge call, or a collective that is lowered to merges.
bool ls_node_is_collective(const ls_node *node);

// Returns the op that the user made: this node, or the node of which it is a
// copy.
static inline ls_op ls_node_source(ls_graph *graph, const ls_node *node) {
  return node->origin.graph != NULL ? node->origin : (ls_op){graph, node->id};
}
// Gives a node the origin and source position of `like`, an op of `from`; NULL:
// of a lowered graph, whose ops pass their own origin on.
static inline void ls_node_take_place(ls_node *node, ls_graph *from,
                                      const ls_node *like) {
  node->origin = ls_node_source(from, like);
  node->file = like->file;
  node->line = like->line;
}
// Gives a node the name, too.
static inline void ls_node_take_name(ls_node *node, ls_graph *from,
                                     const ls_node *like) {
  ls_node_take_place(node, from, like);
  node->scope = like->scope;
  node->base = like->base;
  node->number = like->number;
}

// Makes attributes for op makers, such as LS_OWN_I(AXIS, 1).
#define LS_OWN_KEY(id_) .name = ls_attr_table[id_].name, .id = (id_)
#define LS_OWN_I(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_INT, .as.i = (v)})
#define LS_OWN_F(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_FLOAT, .as.f = (v)})
#define LS_OWN_B(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_BOOL, .as.i = (v)})
#define LS_OWN_S(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_STRING,               \
             .as.string = (v)})
#define LS_OWN_T(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_DTYPE,                \
             .as.dtype = (v)})
#define LS_OWN_SH(n, v)                                                        \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_SHAPE,                \
             .as.shape = (v)})
#define LS_OWN_IS(n, v, c)                                                     \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_INTS,                 \
             .as.ints = {.items = (v), .count = (c)}})
#define LS_OWN_SS(n, v, c)                                                     \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_STRINGS,              \
             .as.strings = {.items = (v), .count = (c)}})
#define LS_OWN_SZ(n, v, c)                                                     \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_SIZES,                \
             .as.sizes = {.items = (v), .count = (c)}})
#define LS_OWN_A(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_ARRAY,                \
             .as.array = (v)})
#define LS_OWN_O(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_OBJECT,               \
             .as.object = (v)})

// The functions by which nests print tensors and ops: text/print.c.
extern const ls_tensor_vtable ls_graph_tensors
    __attribute__((visibility("hidden")));

#endif  // LS_GRAPH_GRAPH_H_

// SPDX-License-Identifier: Apache-2.0
//
// The inside of graphs.
//
// One data structure, two stages. A build or function graph is what the user
// made and nothing rewrites it; a lowered graph is a pruned copy with static
// shapes that only passes touch. Nodes are in order of creation, which is
// topological: an input is always an earlier node. Nodes live in the graph's
// arena and are never freed singly, except in the eager graph, which has its
// own storage rule (see runtime/eager/eager.c).
//
// A child graph (function, region) knows its parent; a value of an enclosing
// graph enters it by a capture: a parameter node that stands for the outer
// value, one per outer value.
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
  LS_GRAPH_EAGER,     // The runtime's: ops run as they are added.
  LS_GRAPH_LOWERED,   // A program's body, or a region of one.
} ls_graph_kind;

// Limit of the depth of graphs in graphs: all that walks them calls itself,
// also on a fiber's stack.
enum { LS_MAX_GRAPH_DEPTH = 64 };

// A name's length within its scope, and with all scopes.
enum { LS_MAX_NAME = 256, LS_MAX_FULL_NAME = 2048 };

// A name scope: rendered as parent's text + name + "/".
typedef struct ls_name_scope {
  const struct ls_name_scope *parent;
  const char *name;  // Unique in its parent.
} ls_name_scope;

// A control scope of a graph, and those around it, as long as the graph lives.
typedef struct ls_control_group {
  const struct ls_control_group *outer;
} ls_control_group;

typedef struct ls_node {
  uint64_t id;
  uint16_t type;
  uint32_t num_outputs, num_inputs, num_control, num_attrs, num_regions;
  uint64_t *inputs;  // Refs: see ls_ref, in the same graph.
  ls_type *outputs;
  uint64_t *control;                // Ids. Build stage only.
  const ls_control_group *made_in;  // The innermost one then. NULL: none.
  ls_attr *attrs;
  ls_graph **regions;
  const ls_name_scope *scope;  // Name = scope + base [+ "_" + number].
  const char *base;
  uint32_t number;
  bool not_fed, not_fetched;  // See ls_op_prevent_feeding.
  bool varying;          // Lowered, in a replicate region: differs by replica.
  bool once;             // ... from a merge: runs once for all, whatever it is.
  const char *rendered;  // The full name, once somebody asked.
  const char *device;    // NULL: none.
  const char *file;      // The user's source place; static text.
  int line;
  ls_op origin;       // Lowered or gathered: the op it came from.
  ls_array **values;  // Eager: one an output; see ls_eager_catch_up.
  ls_status failure;  // Eager: why there is no value.
  int32_t replica;    // Eager: whose callback made it, its id + 1. Else 0.
  ls_object *late;    // Eager: what will make the values; NULL: they are there.
} ls_node;

// A value of an enclosing graph, and the parameter that stands for it.
typedef struct ls_capture {
  ls_tensor outer;
  uint64_t inner;  // Ref of the parameter.
} ls_capture;

// An op that waits for one of a graph around: see graph/context.h.
typedef struct ls_wait_outside {
  uint64_t id;
  ls_op outer;
} ls_wait_outside;

// Records of the losses in a graph; see collection.c.
typedef struct ls_losses {
  const char *reduction;  // Of the last one; NULL: there was none.
  bool scaled;            // An optimizer has scaled it.
  bool summed;            // It takes the sum of the replicas' gradients.
} ls_losses;

// A value around a graph, as the key of what stands for it inside.
typedef struct ls_capture_key {
  ls_graph *graph;
  uint64_t ref;
} ls_capture_key;

typedef struct ls_graph_undo ls_graph_undo;

struct ls_graph {
  ls_graph_head head;  // First: what nests show of its tensors.
  ls_graph_kind kind;
  uint64_t id;  // Never that of another graph.
  const char *name;
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_arena arena;
  ls_arena names_arena;  // Name scopes; outlives the eager graph's frames.
  ls_graph *parent;      // Function, region: the graph around it. Else NULL.
  int depth;             // Graphs around it.
  ls_graph *forward;     // Not NULL: a replica's segment that equals `forward`,
                         // ref for ref; its own nodes are gone.
  bool is_while_body;    // Region of a loop: random streams count iterations.
  bool is_replica;       // Region of a replicate op: each replica runs it.
  const ls_tensor *initial;  // Region of a loop that is being traced: what the
                             // declared parameters start from. Else NULL.

  ls_node **nodes;  // By ascending id.
  size_t num_nodes, nodes_capacity;
  uint64_t next_id;  // Ids ascend and are never reused. Nodes of the eager
                     // graph go with their frame, so there ids have gaps.

  uint64_t *parameters;  // Refs of parameter nodes, declared ones first, then
  size_t num_parameters, parameters_capacity;  // captures in order.
  size_t num_declared;
  ls_capture *captures;
  size_t num_captures, captures_capacity;
  ls_wait_outside *waits_outside;  // By ascending id.
  size_t num_waits_outside, waits_capacity;
  ls_map capture_index;  // Outer (graph, ref) -> index + 1 in captures.
  uint64_t *results;     // Refs that leave a function, region or program.
  size_t num_results;

  ls_map names;           // (scope, base) -> next number.
  ls_map scopes;          // Interned name scopes.
  ls_map texts;           // Interned texts: the copies in names_arena; and
                          // merged names of devices.
  ls_map collections;     // Of a build graph: name -> list.
  ls_object **variables;  // Of a build graph: all, in order of creation.
  size_t num_variables, variables_capacity;
  ls_status error;      // First sticky error.
  bool error_unplaced;  // It waits for the user's source line.
  uint64_t placed;      // Ops up to this id have been offered a place.
  uint32_t num_random;  // Random ops so far: the next stream number.
  int64_t seed;         // Of all random ops, beside their own.
  ls_graph **stubs;     // Forwarded segments that handles may still name.
  size_t num_stubs, stubs_capacity;
  const void *owner;  // Function, replica: whoever traces it.
  ls_losses losses;
  bool frozen;             // No op comes any more.
  bool is_users;           // To be destroyed by ls_graph_destroy.
  uint32_t num_sessions;   // On it, and LS_GRAPH_DESTROYED. Atomic.
  bool trains;             // An optimizer's step is in it, at any depth.
  const char *unsaveable;  // See ls_graph_note_unsaveable. NULL: it can.
  uint32_t num_trials;     // Under way; see graph/trial.h.
  ls_graph_undo *undo;     // While there are any.
  size_t num_undo, undo_capacity;
};

// ---- Making ----------------------------------------------------------------
// Creates a graph. `parent` for functions and regions (NULL for others).
//   LS_UNIMPLEMENTED  more than LS_MAX_GRAPH_DEPTH graphs are around it.
ls_status ls_graph_make(ls_graph_kind kind, const char *name,
                        ls_runtime *runtime, ls_graph *parent,
                        ls_graph **out_graph);
// The id of the graph that was made last.
uint64_t ls_graph_last_id(void);
// The graph is the user's, who destroys it. Its runtime cannot go before it.
void ls_graph_give_to_user(ls_graph *graph);
// A session on a user's graph begins and ends. A graph that is destroyed in
// between goes with the last session.
enum { LS_GRAPH_DESTROYED = 1 << 30 };
void ls_graph_begin_session(ls_graph *graph);
void ls_graph_end_session(ls_graph *graph);
// Destroys any graph with its regions. NULL is fine.
void ls_graph_free(ls_graph *graph);
// LS_OWN(ls_held_graph, graph): a graph that is no user's.
LS_OWNED_(ls_held_graph, ls_graph *, ls_graph_free(*ls_owned))
void ls_graph_drop_collections(ls_graph *graph);
// The leaves of a collection, the value of an item of `collections`.
const ls_nest *ls_collection_leaves(const void *value, size_t *out_count);
// An optimizer takes a step in `graph`, and so in those around it.
void ls_graph_note_training(ls_graph *graph);
// The last optimizer takes the sum of the replicas' gradients of a loss that is
// not scaled for it.
void ls_graph_set_gradients_summed(ls_graph *graph, bool summed);
bool ls_graph_sums_gradients(const ls_graph *graph);
// A graph that is built cannot be exported as it is, for this reason; the first
// one stays. No effect in an export.
LS_MUST_USE ls_status ls_graph_note_unsaveable(ls_graph *graph,
                                               const char *why);
// The reason, of it or of a graph in it, lent; NULL: there is none.
const char *ls_graph_unsaveable(const ls_graph *graph);
// Drops the nodes of a replica's segment; its handles now mean those of `to`.
void ls_graph_forward(ls_graph *graph, ls_graph *to);
// `graph` owns `stub` from now on. False without memory.
bool ls_graph_keep_stub(ls_graph *graph, ls_graph *stub);

// Appends a node with `num_outputs` unset outputs; everything in `spec` is
// copied into the arena, inputs must be refs of this graph. Does no inference
// and knows no scopes: what lowering and parsing use. NULL: no memory.
ls_node *ls_graph_append(ls_graph *graph, const ls_op_spec *spec,
                         const uint64_t *input_refs, size_t num_outputs);

// Where a graph can be brought back to. Names and collections only inside of a
// trial (graph/trial.h), by which a refused call leaves no trace.
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
// Drops those nodes from position `from` on for which `drops` says so; nothing
// that stays may use them.
void ls_graph_drop_nodes(ls_graph *graph, size_t from,
                         bool (*drops)(const ls_node *node, void *user),
                         void *user);

// From now on sessions refuse to be fed a value of the op; to fetch one of
// them, or to run the op because it is asked for. What else needs the op runs
// it as before. In the text form the op's marks say it: graph/gather/check.c.
void ls_op_prevent_feeding(ls_op op);
void ls_op_prevent_fetching(ls_op op);

// Takes the status over as the graph's sticky error unless it has one.
void ls_graph_fail(ls_graph *graph, ls_status status);

// Adds a declared parameter of a function, region or lowered graph. Only
// before any capture.
ls_status ls_graph_add_parameter(ls_graph *graph, ls_type type,
                                 const char *name, ls_tensor *out_tensor);
// The value of this graph that stands for `value` of this or an enclosing one,
// capturing as needed. INVALID_ARGUMENT naming both graphs otherwise.
ls_status ls_graph_import(ls_graph *graph, ls_tensor value, uint64_t *out_ref);
// The parameter of `graph` that stands for `outer`, a value of its parent.
ls_status ls_graph_add_capture(ls_graph *graph, ls_tensor outer,
                               uint64_t *out_ref);
// Notes that a node waits for ops of graphs around. False: no memory.
LS_MUST_USE bool ls_graph_wait_outside(ls_graph *graph, const ls_node *node,
                                       const ls_op *ops, size_t count);
// Sets the results; copies.
ls_status ls_graph_set_results(ls_graph *graph, const uint64_t *refs,
                               size_t count);

// Removes the nodes whose id is not set in `keep` (one flag an id, parameters
// are set) and renumbers the rest, so that ids are dense again.
ls_status ls_graph_keep_nodes(ls_graph *graph, const bool *keep);

// ---- Looking up ------------------------------------------------------------
// The parts of a ref. A graph has fewer ids than a ref has room for.
enum { LS_MAX_OUTPUTS = 1 << LS_TENSOR_OUTPUT_BITS };
static inline uint64_t ls_ref(uint64_t id, unsigned output) {
  return id << LS_TENSOR_OUTPUT_BITS | output;
}
static inline uint64_t ls_ref_id(uint64_t ref) {
  return ref >> LS_TENSOR_OUTPUT_BITS;
}
static inline unsigned ls_ref_output(uint64_t ref) {
  return ref & (LS_MAX_OUTPUTS - 1);
}
// The place of a node among those of its graph, by its id; SIZE_MAX: stale.
size_t ls_graph_position(const ls_graph *graph, uint64_t id);
// The place of the first node with this id or a later one.
size_t ls_graph_first_position(const ls_graph *graph, uint64_t id);
// The node of an id or ref; NULL when stale.
ls_node *ls_graph_node(const ls_graph *graph, uint64_t id);
static inline ls_node *ls_graph_node_of(const ls_graph *graph, uint64_t ref) {
  return ls_graph_node(graph, ls_ref_id(ref));
}
// The type of a ref; zero when stale.
ls_type ls_graph_type(const ls_graph *graph, uint64_t ref);
// The graph that holds the nodes of a handle: follows `forward`.
static inline ls_graph *ls_graph_resolve(ls_graph *graph) {
  while (graph != NULL && graph->forward != NULL)
    graph = graph->forward;
  return graph;
}

// The graph's own copy of a text, one for all equal ones; it lives as long as
// the graph. NULL: no memory.
const char *ls_graph_intern(ls_graph *graph, const char *text);
// The device of ops in a scope of device `name`, where it is `around` (NULL:
// none): the graph's own copy. `name` "": `around` as it is.
//   LS_INVALID_ARGUMENT  `name` is none.
ls_status ls_graph_merge_device(ls_graph *graph, const char *around,
                                const char *name, const char **out_device);
// Names a node `base` (NULL: its type) in `scope` (NULL: none), uniquely.
ls_status ls_graph_name_node(ls_graph *graph, ls_node *node,
                             const ls_name_scope *scope, const char *base);
// A name scope in `parent` (NULL: at the top), interned. `unique`: one that
// was not there before, by a number behind the name.
ls_status ls_graph_name_scope(ls_graph *graph, const ls_name_scope *parent,
                              const char *name, bool unique,
                              const ls_name_scope **out_scope);
// The scope of a path "a/b/", as it is.
ls_status ls_graph_name_scope_path(ls_graph *graph, const char *path,
                                   const ls_name_scope **out_scope);
// "a/b/" into `buffer`.
void ls_name_scope_print(const ls_name_scope *scope, char *buffer, size_t size);
// Sets or replaces an attribute: the last one then. The array of those that
// were there stays as it was.
ls_status ls_node_set_attr(ls_graph *graph, ls_node *node, const ls_attr *attr);
// Takes away an attribute that no op has of its own, if it is there.
void ls_node_drop_mark(ls_node *node, const char *name);
void ls_node_retain_attrs(const ls_node *node);
// An own attribute of the node, or NULL.
static inline const ls_attr *ls_node_attr(const ls_node *node, ls_attr_id id) {
  return ls_attr_find(node->attrs, node->num_attrs, id);
}
// A number or flag; a real number: or what is true without it.
static inline int64_t ls_node_int(const ls_node *node, ls_attr_id id) {
  return ls_attr_int(node->attrs, node->num_attrs, id);
}
static inline double ls_node_real(const ls_node *node, ls_attr_id id) {
  const ls_attr *attr = ls_node_attr(node, id);
  return attr != NULL ? attr->as.f : ls_attr_table[id].otherwise.f;
}
// By name, marks too: what users ask for.
const ls_attr *ls_node_attr_named(const ls_node *node, const char *name);
// A mark of ops that use a distributed variable in a replicated computation:
// for each replica the index of the component on its core. Without it they are
// in the order of the variable's strategy.
#define LS_MARK_CORE_COPIES "_core_copies"
// Returns true if the op, or one in its regions, writes variables or has
// effects on the host.
bool ls_node_has_effects(const ls_node *node);
// Returns true if it is a write of a variable.
static inline bool ls_node_assigns(const ls_node *node) {
  return node->type == LS_OP_ASSIGN || node->type == LS_OP_ASSIGN_ADD ||
         node->type == LS_OP_ASSIGN_SUB || node->type == LS_OP_ASSIGN_SCATTER;
}
// The collective that a meeting stands for; LS_OP_NONE: none, as a merge call.
static inline uint16_t ls_node_met_as(const ls_node *node) {
  return ls_attrs_met_as(node->type, node->attrs, node->num_attrs);
}
// Captured values of regions are the last operands of the op that holds them,
// region by region. Returns the number of the first one that region `region`
// captures; that of all operands for a region behind the last.
uint32_t ls_node_captures(const ls_node *node, uint32_t region);
// Counts the values that `count` regions capture; writes these, of the graph
// around, and returns how many there are.
size_t ls_count_captures(ls_graph *const *regions, size_t count);
size_t ls_list_captures(ls_graph *const *regions, size_t count, ls_tensor *out);
size_t ls_list_capture_refs(ls_graph *const *regions, size_t count,
                            uint64_t *out_refs);
const char *ls_node_name(ls_graph *graph, ls_node *node);
// "op 'scope/name' (file.c:12)": for messages, into `buffer`.
const char *ls_node_describe(ls_graph *graph, ls_node *node, char *buffer,
                             size_t size);

static inline const ls_op_info *ls_node_info(const ls_node *node) {
  return &ls_op_table[node->type];
}

// The op as the user made it: the node of `graph`, or what it is a copy of.
static inline ls_op ls_node_source(ls_graph *graph, const ls_node *node) {
  return node->origin.graph != NULL ? node->origin : (ls_op){graph, node->id};
}

// An op's own attribute, as what makes ops writes it: LS_OWN_I(AXIS, 1).
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
#define LS_OWN_SZ(n, v, c)                                                     \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_SIZES,                \
             .as.sizes = {.items = (v), .count = (c)}})
#define LS_OWN_A(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_ARRAY,                \
             .as.array = (v)})
#define LS_OWN_O(n, v)                                                         \
  ((ls_attr){LS_OWN_KEY(LS_ATTR_ID_##n), .kind = LS_ATTR_OBJECT,               \
             .as.object = (v)})

// The table by which nests show tensors and ops: text/tensor_print.c.
extern const ls_tensor_vtable ls_graph_tensors
    __attribute__((visibility("hidden")));

#endif  // LS_GRAPH_GRAPH_H_

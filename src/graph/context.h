// SPDX-License-Identifier: Apache-2.0
//
// The context of a thread or fiber: its current graph, and the scopes that
// apply to new ops. Each thread and fiber has one context, and switching fibers
// switches contexts. Callers borrow a context and never keep it.
//
// Scopes are entries on the C stack of the code that opened them, linked
// outward. An entry saves the state it replaced, so that leaving a scope needs
// no look-up. The scope state has room for structs of the layers above.
#ifndef LS_GRAPH_CONTEXT_H_
#define LS_GRAPH_CONTEXT_H_

#include "graph/graph.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

struct ls_scope_state;

// A kind of scope: a static table. Layers above define their own.
typedef struct ls_scope_type {
  const char *name;  // For messages, such as "a device scope".
  // Called after a scope was left; `inside` is the state that held in it. May
  // be NULL.
  void (*left)(struct ls_scope_state *inside);
} ls_scope_type;

typedef struct ls_scope_types {
  ls_scope_type graph, name, device, colocate, control, creator, flow, refused;
} ls_scope_types;
extern const ls_scope_types ls_graph_scopes
    __attribute__((visibility("hidden")));

// A user's or strategy's creator of variables. It applies in the graph where it
// was set (NULL: eager) and in graphs inside that.
typedef struct ls_creator_entry {
  const struct ls_creator_entry *outer;
  const ls_graph *graph;
  ls_variable_creator create;
  void *user;
  bool is_strategy;  // True if the creator makes distributed variables.
  bool shares;       // True if replicas get the variables of the first one.
} ls_creator_entry;

// Implements ops across replicas while a replica's callback runs op by op: the
// replica pauses until all other replicas make the same call.
typedef struct ls_replica_hooks {
  ls_tensor (*all_reduce)(ls_reduce_op op, ls_tensor x);
  ls_tensor (*all_gather)(ls_tensor x, int axis);
  // Sums the numbers of rows of the replicas with lower ids; -1 if all replicas
  // together do not have `total` rows, unless that is negative.
  int64_t (*rows_before)(int64_t rows, int64_t total);
  ls_tensor (*replica_id)(void);
  // Computes the gradients of a merge call's arguments (`given`) from the
  // gradients of its results (`got`); a zeroed tensor means no gradient.
  ls_status (*merge_gradient)(const ls_tensor *given, size_t num_given,
                              const ls_tensor *got, const ls_tensor *gradients,
                              size_t num_got, ls_tensor *out_gradients);
} ls_replica_hooks;

typedef struct ls_open_scope ls_open_scope;

// The state that scopes set. An open scope keeps the state before it was
// opened.
typedef struct ls_scope_state {
  ls_graph *graph;  // NULL: the runtime's eager graph.
  const ls_name_scope *names;
  const char *device;
  const ls_open_scope *control;   // Innermost control scope of this graph.
  const ls_open_scope *colocate;  // Innermost colocation scope of this graph.
  const ls_creator_entry *creators;  // Creators of variables, innermost first.
  const struct ls_flow_entry *flow;  // Innermost flow; see graph/flow.h.
  // Innermost number of examples; see ls_examples_entry.
  const struct ls_examples_entry *examples;
  // Policy of the export in progress, plus 1; 0: no export.
  int8_t exporting;
  // True if the export replaces a distributed variable by its first component.
  bool primaries_only : 1;
  bool stores_f32 : 1;  // True if new bf16 variables are stored in f32.
  // True while forward values that a gradient needs are found or made again:
  // their ops do not belong to the gradient's outside compiled cluster.
  bool makes_forward : 1;
  // Number of shards of a replicated computation; 0: not sharded.
  int32_t shards;
  // Structs of layers above, zero by default: see LS_CONTEXT_ROOM.
  uint64_t runtime[1], distribute[5], train[1];
} ls_scope_state;

// Contents of an ls_scope.
struct ls_open_scope {
  const ls_scope_type *type;  // NULL: the scope is not open.
  ls_open_scope *outer;
  ls_scope_state before;  // State to restore when the scope is left.
  // Data of the scope, by type.
  union {
    struct {
      const ls_op *ops;
      size_t count;
      // Control group of the nodes made in the scope.
      const ls_control_group *group;
    } control;
    struct {
      ls_op beside;
      // Flow whose enter_gradient the scope has called; leaving the scope calls
      // its leave_gradient. NULL: none.
      struct ls_flow *flow;
      const char *uid;
    } colocate;
    uint64_t entry[11];  // Entry of a layer above: see LS_SCOPE_ENTRY.
  } own;
};
_Static_assert(sizeof(ls_open_scope) <= sizeof(ls_scope),
               "what is open fits into a user's scope");

static inline ls_open_scope *ls_scope_opened(ls_scope *scope) {
  return (ls_open_scope *)(void *)scope;
}
// Returns a layer's part of a scope state or context as the layer's struct,
// which must fit.
#define LS_CONTEXT_ROOM(Type, in, layer)                                       \
  ((Type *)(void *)((in)->layer + 0 * sizeof(struct {                          \
                                    _Static_assert(                            \
                                        sizeof(Type) <= sizeof((in)->layer),   \
                                        "a context has room for it");          \
                                    char unused;                               \
                                  })))
// Returns the room in a scope for an entry of the scope's kind, as a struct,
// which must fit; a layer above links the entry into the scope state.
#define LS_SCOPE_ENTRY(Type, scope)                                            \
  ((Type *)(void *)(ls_scope_opened(scope)->own.entry +                        \
                    0 * sizeof(struct {                                        \
                      _Static_assert(                                          \
                          sizeof(Type) <=                                      \
                              sizeof(((ls_open_scope *)0)->own.entry),         \
                          "a scope has room for it");                          \
                      char unused;                                             \
                    })))

// The first failure of an eager op in a loop, a run or a replica's callback.
typedef struct ls_first_failure {
  ls_status status;  // NULL: none so far.
  bool is_unplaced;  // True until it has the user's line.
  struct ls_first_failure *outer;
} ls_first_failure;

typedef struct ls_context {
  ls_scope_state scoped;
  ls_open_scope *top;      // Innermost scope of any kind.
  ls_open_scope *refused;  // Outermost refused scope: no op can be made inside.
  ls_status refusal;       // Reason of the refusal.
  // NULL: ops across replicas are added to the graph.
  const ls_replica_hooks *hooks;
  // State of a replica's fiber, else all 0.
  // Number of replicas; 1 also if only one replica is traced.
  int32_t replicas;
  int32_t replica;  // The replica's id + 1.
  // Number of pauses so far. In each pause other replicas ran and may have
  // added ops.
  uint64_t meetings;
  // Reduces with the strategy's user-defined cross-device ops; NULL: none.
  ls_tensor (*table_reduce)(ls_reduce_op op, ls_tensor x);
  struct ls_trial *trial;     // Innermost trial; NULL if none is open.
  ls_first_failure *failure;  // Innermost record; NULL: none is kept.
  struct ls_same_values
      *same;  // Values equal on all replicas: graph/compare/compare.h.
  // Structs of layers above.
  uint64_t runtime[2], distribute[3];
} ls_context;

// Returns the context of the current thread or fiber, never NULL.
ls_context *ls_context_current(void);
// Returns the id of the replica whose callback is running; 0 outside replicas.
static inline int32_t ls_context_replica(void) {
  const int32_t replica = ls_context_current()->replica;
  return replica > 0 ? replica - 1 : 0;
}
// Returns the number of replicas for which the running code is executed: of its
// strategy, or of the replicated computation being built; 0 if neither exists.
static inline int32_t ls_context_replicas_here(void) {
  const ls_context *context = ls_context_current();
  return context->replicas > 0 ? context->replicas : context->scoped.shards;
}
// Returns the number of replicas, 1 outside replicas.
static inline int32_t ls_context_replicas(void) {
  const int32_t replicas = ls_context_replicas_here();
  return replicas > 0 ? replicas : 1;
}
// Initializes a new fiber's context as a copy of the current one, with no open
// scope.
void ls_context_fork(ls_context *context);

// Record the first failure of an eager op until the end, which returns it
// unless `status` is a failure itself. After it no op with effects runs.
void ls_failure_begin(ls_first_failure *first);
ls_status ls_failure_end(ls_first_failure *first, ls_status status);
// Forgets the recorded failure if the caller gets it, as `status`.
void ls_failure_hand_over(ls_status status);
// Refuses effects after the first failure that is recorded, as if the failure
// had ended the callback.
LS_MUST_USE ls_status ls_failure_earlier(void);

// Makes a graph of any kind current, with no names, device or control
// dependencies. Ends with ls_scope_end.
void ls_context_enter_graph(ls_scope *scope, ls_graph *graph);
// Returns the graph in which new scope state applies: the current graph; NULL
// in eager mode.
const ls_graph *ls_context_graph(void);
// Gives the current graph, or the reason why there is none: the eager graph
// cannot be made.
ls_status ls_graph_find_current(ls_graph **out_graph);
// Returns true if scope state that was entered in `graph` applies in the
// current graph: the current graph is `graph` or inside it.
bool ls_context_is_inside(const ls_graph *graph);
// Opens a scope of a layer above, without changing the state yet.
ls_context *ls_context_open(ls_scope *scope, const ls_scope_type *type);
// Makes a creator the innermost one, for the current graph. The caller owns the
// entry, and removes it or leaves the scope in which it was pushed.
void ls_creator_entry_push(ls_creator_entry *entry, ls_creator_entry made);
// Opens a refused scope: every op inside fails with `status`, which it takes
// over.
void ls_context_refuse(ls_scope *scope, ls_status status);

// ---- control.c --------------------------------------------------------------
// Control inputs: ops that an op waits for besides its operands.
//
// An op waits for the ops that its maker names and those of the enclosing
// control scopes in its graph. A scope whose ops an operand already waits for
// adds nothing: the operand was made in the scope, too. If an op in a region
// names an op of an enclosing graph, the op that holds the region waits for it;
// until that op is made, the region keeps a list (ls_waits_outside).

// Collects the control inputs of an op about to be made in `graph` (a build
// graph or one inside it): those in `spec`, those of its regions, and those of
// the scopes from `innermost` outward, each once. Replaces the list in `spec`
// by one in `memory`. Ops of the eager graph are left out, because they have
// run.
//   LS_INVALID_ARGUMENT  one failed, or its graph does not enclose this one
ls_status ls_control_gather(const ls_graph *graph, const ls_op_info *info,
                            const ls_open_scope *innermost, ls_op_spec *spec,
                            ls_arena *memory);

// Moves ops of enclosing graphs from the collected control inputs to
// `*out_outside`.
ls_status ls_control_split(const ls_graph *graph, ls_op_spec *spec,
                           ls_arena *memory, const ls_op **out_outside,
                           size_t *out_count);

// ---- Numbers of examples ----------------------------------------------------
// Numbers of examples that code processes: a list of entries, innermost first.
// Each entry is on the C stack of the code that entered it.
// distribute/replicas/examples.c finds the entry that applies.
typedef enum ls_examples_source {
  LS_EXAMPLES_GIVEN,  // The scope gives the number in `count`.
  LS_EXAMPLES_ALIKE,  // Number of rows of `rows`, the same on all replicas.
  // Number of rows of `rows`, an argument, unless the replica knows its own
  // number of rows.
  LS_EXAMPLES_ARGUMENTS,
} ls_examples_source;

typedef struct ls_examples_entry {
  const struct ls_examples_entry *outer;
  const ls_graph *graph;  // Graph in which the entry applies; NULL: eager.
  ls_examples_source source;
  ls_tensor count;
  ls_nest rows;  // Borrowed; none if the rows are not known.
} ls_examples_entry;

// Returns the first leaf of `args` that is a tensor or array with rows,
// borrowed, or none.
ls_nest ls_examples_rows(ls_nest args);

// Makes the rows of `args` the number of examples until the entry is left. It
// applies in the graph where it is entered and in the graph's regions, not in
// called functions, which have arguments of their own. The caller keeps the
// entry and `args` until the entry is left.
void ls_examples_enter(ls_examples_entry *entry, ls_examples_source source,
                       ls_nest args);
void ls_examples_push(ls_context *context, ls_examples_entry *entry);
void ls_examples_leave(const ls_examples_entry *entry);

#endif  // LS_GRAPH_CONTEXT_H_

// SPDX-License-Identifier: Apache-2.0
//
// The context of a thread or fiber: the current graph and the scopes that new
// ops get. One context per thread and fiber, swapped as a whole with it; lent,
// never kept.
//
// Scopes are entries on the C stack of whoever opened them, linked outward; an
// entry keeps what it replaced, so leaving needs no look-up. What the layers
// above say in a scope lies in its room, typed by them.
#ifndef LS_GRAPH_CONTEXT_H_
#define LS_GRAPH_CONTEXT_H_

#include "graph/graph.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

struct ls_scope_state;

// A kind of scope: a static table, of the graph's here, of the layers above in
// their own files.
typedef struct ls_scope_type {
  const char *name;  // "a device scope", for messages.
  // After one was left: `inside` is what held in it. NULL: nothing is to do.
  void (*left)(struct ls_scope_state *inside);
} ls_scope_type;

typedef struct ls_scope_types {
  ls_scope_type graph, name, device, colocate, control, creator, flow, refused;
} ls_scope_types;
extern const ls_scope_types ls_graph_scopes
    __attribute__((visibility("hidden")));

// A creator of variables in force, for the graph it was set for and what is
// inside that; NULL: eager.
typedef struct ls_creator_entry {
  const struct ls_creator_entry *outer;
  const ls_graph *graph;
  ls_variable_creator create;
  void *user;
  bool is_strategy;  // Makes distributed variables.
} ls_creator_entry;

// Functions of ops about replicas where a replica's callback runs op by op and
// can meet the others only by pausing.
typedef struct ls_replica_hooks {
  ls_tensor (*all_reduce)(ls_reduce_op op, ls_tensor x);
  ls_tensor (*all_gather)(ls_tensor x, int axis);
  // Adds up the numbers of rows of the lower replicas.
  int64_t (*rows_before)(int64_t rows);
  ls_tensor (*replica_id)(void);
  // The gradients of what was given to a merge call, from those of what was got
  // (a zeroed one: none).
  ls_status (*merge_gradient)(const ls_tensor *given, size_t num_given,
                              const ls_tensor *got, const ls_tensor *gradients,
                              size_t num_got, ls_tensor *out_gradients);
} ls_replica_hooks;

typedef struct ls_open_scope ls_open_scope;

// Settings of scopes. An open one keeps all of them as they were outside.
typedef struct ls_scope_state {
  ls_graph *graph;  // NULL: the runtime's eager graph.
  const ls_name_scope *names;
  const char *device;
  const ls_open_scope *control;   // Innermost control scope of this graph.
  const ls_open_scope *colocate;  // Innermost colocation scope of this graph.
  const ls_creator_entry *creators;  // Innermost first.
  const struct ls_flow_entry *flow;  // The innermost; see graph/flow.h.
  // Numbers of examples that were set; see below.
  const struct ls_examples_entry *examples;
  // The policy of the export, + 1; 0: none.
  int8_t exporting;
  // In it, a distributed variable is its first component.
  bool primaries_only : 1;
  bool stores_f32 : 1;  // For new variables of bf16: get_variable.c.
  int32_t shards;  // Of what a replicated computation is cut into; 0: nothing.
  // Rooms of the layers above, all zero where nobody says anything: see
  // LS_CONTEXT_ROOM.
  uint64_t runtime[1], distribute[5], train[1];
} ls_scope_state;

// The inside of an ls_scope.
struct ls_open_scope {
  const ls_scope_type *type;  // NULL: never opened, or left.
  ls_open_scope *outer;
  ls_scope_state before;  // What it replaced.
  // The kind's own.
  union {
    struct {
      const ls_op *ops;
      size_t count;
      const ls_control_group *group;  // What nodes made in it have.
    } control;
    struct {
      ls_op beside;
      // A flow that was told of it, and is to be told of its end. NULL: none.
      struct ls_flow *flow;
      const char *uid;
    } colocate;
    uint64_t entry[11];  // See LS_SCOPE_ENTRY.
  } own;
};
_Static_assert(sizeof(ls_open_scope) <= sizeof(ls_scope),
               "what is open fits into a user's scope");

static inline ls_open_scope *ls_scope_opened(ls_scope *scope) {
  return (ls_open_scope *)(void *)scope;
}
// The room of a layer in what scopes say, or in a context, as that layer's
// struct, which fits.
#define LS_CONTEXT_ROOM(Type, in, layer)                                       \
  ((Type *)(void *)((in)->layer + 0 * sizeof(struct {                          \
                                    _Static_assert(                            \
                                        sizeof(Type) <= sizeof((in)->layer),   \
                                        "a context has room for it");          \
                                    char unused;                               \
                                  })))
// The room of a scope for an entry of its kind, as a struct that fits; a layer
// above links it into what scopes say.
#define LS_SCOPE_ENTRY(Type, scope)                                            \
  ((Type *)(void *)(ls_scope_opened(scope)->own.entry +                        \
                    0 * sizeof(struct {                                        \
                      _Static_assert(                                          \
                          sizeof(Type) <=                                      \
                              sizeof(((ls_open_scope *)0)->own.entry),         \
                          "a scope has room for it");                          \
                      char unused;                                             \
                    })))

typedef struct ls_context {
  ls_scope_state scoped;
  ls_open_scope *top;      // Innermost scope of any kind.
  ls_open_scope *refused;  // Outermost refused scope: nothing works inside.
  ls_status refusal;       // Its reason.
  const ls_replica_hooks *hooks;  // NULL: they are ops of the current graph.
  // State of a replica's fiber. Else all 0.
  int32_t replicas;   // How many there are; 1 also in the trace of one alone.
  int32_t replica;    // Its id + 1.
  uint64_t meetings;  // So far: others ran at each, and may have added ops.
  // Reduces by a table of the user's, where the strategy has one.
  ls_tensor (*table_reduce)(ls_reduce_op op, ls_tensor x);
  struct ls_trial *trial;  // The innermost; NULL: none is under way.
  struct ls_same_values
      *same;  // What is the same on all: graph/compare/compare.h.
  // Rooms of the layers above.
  uint64_t runtime[2], distribute[3];
} ls_context;

// This thread's or fiber's. Never NULL.
ls_context *ls_context_current(void);
// Returns which replica the callback at hand is; 0 outside.
static inline int32_t ls_context_replica(void) {
  const int32_t replica = ls_context_current()->replica;
  return replica > 0 ? replica - 1 : 0;
}
// Returns how many replicas the code at hand is for: those that its callback is
// one of, or those of the replicated computation that is being built; 0:
// neither.
static inline int32_t ls_context_replicas_here(void) {
  const ls_context *context = ls_context_current();
  return context->replicas > 0 ? context->replicas : context->scoped.shards;
}
// The same; 1 outside.
static inline int32_t ls_context_replicas(void) {
  const int32_t replicas = ls_context_replicas_here();
  return replicas > 0 ? replicas : 1;
}
// For a new fiber: starts as a copy of what the current one builds, with no
// scope of its own.
void ls_context_fork(ls_context *context);

// Makes `graph` current, of whatever kind, with no names, device or control
// dependencies; the pair of ls_scope_end.
void ls_context_enter_graph(ls_scope *scope, ls_graph *graph);
// The graph that a state belongs to which is entered now: the current one,
// NULL for eager.
const ls_graph *ls_context_graph(void);
// Returns true if a state that was entered for `graph` holds in the current
// graph: it is that graph or around it.
bool ls_context_is_inside(const ls_graph *graph);
// Opens a scope that changes nothing yet: for the layers above.
ls_context *ls_context_open(ls_scope *scope, const ls_scope_type *type);
// Puts a creator in force where the thread is: innermost, and for the graph
// there. The entry is the caller's, who takes it out or leaves its scope.
void ls_creator_entry_push(ls_creator_entry *entry, ls_creator_entry made);
// A scope that was refused: every op inside fails with `status`, taken over.
void ls_context_refuse(ls_scope *scope, ls_status status);

// ---- control.c --------------------------------------------------------------
// Control inputs: what an op waits for beside its operands.
//
// An op gets those ops that its maker names and those of the control scopes
// around it in its graph; a scope whose ops one of its operands waits for adds
// nothing, since that operand was made in it too. What an op of a region names
// in a graph around, the op that holds the region waits for, in the graph that
// both are in; until it is made the region knows (ls_waits_outside).

// The control inputs of an op that is about to be made in `graph`, a build
// graph or one inside: those in `spec`, those of its regions and of the scopes
// that `innermost` ends, each once. Replaces the list in `spec`, by one in
// `memory`. Ops of the eager graph have run.
//   LS_INVALID_ARGUMENT  one failed, or is of a graph that is not around.
ls_status ls_control_gather(const ls_graph *graph, const ls_op_info *info,
                            const ls_open_scope *innermost, ls_op_spec *spec,
                            ls_arena *memory);

// Takes the ops of graphs around `graph` out of the list that was gathered:
// `*out_outside`, in its memory.
ls_status ls_control_split(const ls_graph *graph, ls_op_spec *spec,
                           ls_arena *memory, const ls_op **out_outside,
                           size_t *out_count);

// ---- Numbers of examples ----------------------------------------------------
// Knowledge of the code at hand about its number of examples: a list of
// entries, innermost first, each on the C stack of whoever entered it.
// distribute/replicas/examples.c finds the one that holds.
typedef enum ls_examples_source {
  LS_EXAMPLES_GIVEN,      // `count`, as a scope says.
  LS_EXAMPLES_ALIKE,      // The rows of `rows`; all replicas have as many.
  LS_EXAMPLES_ARGUMENTS,  // Those of `rows`, an argument, unless a replica
                          // knows better.
} ls_examples_source;

typedef struct ls_examples_entry {
  const struct ls_examples_entry *outer;
  const ls_graph *graph;  // Where it was entered; NULL: eager.
  ls_examples_source source;
  ls_tensor count;
  ls_nest rows;  // Lent; none: there are none.
} ls_examples_entry;

// The first leaf of `args` that is a tensor or array with rows, lent; none.
ls_nest ls_examples_rows(ls_nest args);

// From here to the leaving the rows of `args` say how many examples there are.
// That holds in the graph where it is entered and in its regions, not in
// functions called there, which have arguments of their own. Both the entry and
// `args` stay until then.
void ls_examples_enter(ls_examples_entry *entry, ls_examples_source source,
                       ls_nest args);
void ls_examples_push(ls_context *context, ls_examples_entry *entry);
void ls_examples_leave(const ls_examples_entry *entry);

#endif  // LS_GRAPH_CONTEXT_H_

// SPDX-License-Identifier: Apache-2.0
//
// The eager graph: ops run as they are added.
//
// An eager op is a program of one op in the program cache. Its node keeps the
// values; operands and attributes are kept only while a tape records. Nodes
// live in frames: a frame is a mark in the graph, and its end drops all later
// nodes, except the kept ones. Each thread has its own eager graph. Each
// replica on the thread opens and closes its own frames there, independently of
// replicas that run in turns with it.
#ifndef LS_RUNTIME_EAGER_EAGER_H_
#define LS_RUNTIME_EAGER_EAGER_H_

#include "graph/context.h"
#include "graph/layers.h"
#include "lockstep/eager.h"
#include "runtime/program.h"

// A frame: the position in the graph at which it began.
typedef struct ls_frame {
  struct ls_frame *outer;  // The frame begun before this one, by any replica.
  int32_t replica;         // Replica that began it, as in ls_context.
  uint64_t first_id;       // The first id of values made in the frame.
  ls_arena_mark_point arena;
} ls_frame;

// Fields of an eager graph besides those of a graph; `graph->owner` points
// here.
typedef struct ls_eager {
  ls_runtime_state *state;
  ls_frame *frame;          // The newest frame.
  ls_tape *tape;            // Innermost tape not yet released, open or ended.
  uint64_t replicas_since;  // The id at which the running replicas began, or 0.
  ls_graph *next_idle;      // Links graphs of threads that have ended.
} ls_eager;

static inline ls_eager *ls_eager_of(const ls_graph *graph) {
  return (ls_eager *)(uintptr_t)graph->owner;
}

// The table by which lower layers call eager functions.
extern const ls_eager_vtable ls_runtime_eager
    __attribute__((visibility("hidden")));
ls_status ls_eager_graph(ls_runtime *runtime, ls_graph **out_graph);
void ls_eager_catch_up(const ls_graph *graph, ls_node *node);
void ls_eager_drop_since(ls_graph *graph, size_t num_nodes,
                         ls_arena_mark_point memory);
ls_op ls_eager_fail(ls_graph *graph, ls_status status);
void ls_eager_forget(ls_variable *variable);
// Makes the value of the first component the value of all components.
ls_status ls_eager_join(ls_variable *container);

// Returns true if a tape records this thread's eager ops now.
bool ls_eager_is_recording(const ls_graph *graph);

// A random draw that is delayed until its value is read. Most draws become a
// variable's first value, which the engine then draws directly into the
// variable's buffer, when it has time.
typedef struct ls_late_draw {
  ls_object object;  // The object that node->late points to.
  ls_allocator *allocator;
  ls_compiled *compiled;
  uint64_t step;
} ls_late_draw;

// A tape. Begun by a replica it records that replica's ops and merge calls;
// begun outside of replicas it records all ops.
struct ls_tape {
  ls_graph *graph;
  struct ls_tape *outer;
  int32_t replica;            // Replica's id + 1; 0: outside of replicas.
  ls_frame *frame;            // The frame in which the tape was begun.
  uint64_t first_id, end_id;  // Recorded ids; end_id 0: open.
  uint64_t *watched;          // Refs of watched tensors.
  size_t num_watched, watched_capacity;
};

// A backward pass over a tape, which must not record it. Allocated on the C
// stack of its thread or fiber.
typedef struct ls_tape_walk {
  const struct ls_tape_walk *outer;
  const ls_tape *tape;
} ls_tape_walk;

// Lists variables as ls_tape_variables does: distributed ones by their
// components, or as a whole.
size_t ls_tape_list(const ls_tape *tape, bool by_component,
                    ls_variable **variables, size_t capacity);

// Initialize and free the eager graphs of a runtime.
void ls_eager_graphs_init(ls_runtime_state *state);
void ls_eager_graphs_deinit(ls_runtime_state *state);
// Drops the operands and attributes of all eager ops that are on no tape; their
// values stay.
void ls_eager_graphs_forget(ls_runtime_state *state);
// Returns the innermost frame of this thread or replica, which may be the one
// in which the replica was started; NULL: none.
ls_frame *ls_eager_frame(const ls_eager *eager);
// Bracket a run of replicas, which have their own values and frames. At the end
// their values pass to the thread, and frames they left open are closed.
uint64_t ls_eager_begin_replicas(ls_graph *graph);
void ls_eager_end_replicas(ls_graph *graph, uint64_t before);

// Returns the failure of a tensor that was just made, or OK.
ls_status ls_made_status(ls_tensor tensor);

// ---- Context ---------------------------------------------------------------
// This layer's part of the context (graph/context.h).
typedef struct ls_runtime_scoped {
  bool unrecorded;  // Tapes do not record eager ops here.
} ls_runtime_scoped;

typedef struct ls_runtime_work {
  const struct ls_tape_walk *walks;  // Running, innermost first.
  // Depth of nested function callbacks.
  int32_t callbacks;
} ls_runtime_work;

static inline ls_runtime_scoped *ls_runtime_scoped_of(ls_context *context) {
  return LS_CONTEXT_ROOM(ls_runtime_scoped, &context->scoped, runtime);
}
static inline ls_runtime_work *ls_runtime_work_here(void) {
  return LS_CONTEXT_ROOM(ls_runtime_work, ls_context_current(), runtime);
}

#endif  // LS_RUNTIME_EAGER_EAGER_H_

// SPDX-License-Identifier: Apache-2.0
//
// The eager graph: ops run as they are added.
//
// An eager op is a function of one op in the program cache. Its node keeps the
// values; operands and attributes are kept only while a tape records. Nodes
// live in frames: a frame is a mark in the graph, and its end drops what came
// after, but what is kept. Each thread has its own eager graph, and each
// replica that runs on it opens and closes frames of its own there, whatever
// those that run in turns with it do.
#ifndef LS_RUNTIME_EAGER_EAGER_H_
#define LS_RUNTIME_EAGER_EAGER_H_

#include "graph/context.h"
#include "graph/layers.h"
#include "lockstep/eager.h"
#include "runtime/program.h"

// A frame: where the graph was when it began.
typedef struct ls_frame {
  struct ls_frame *outer;  // The one begun before it, by whomever.
  int32_t replica;         // Whose it is, as in ls_context.
  uint64_t first_id;       // Of the values made since.
  ls_arena_mark_point arena;
} ls_frame;

// Fields of an eager graph beyond those of a graph; `graph->owner` points to
// it.
typedef struct ls_eager {
  ls_runtime_state *state;
  ls_frame *frame;          // The newest.
  ls_tape *tape;            // Innermost open or ended tape, not yet released.
  uint64_t replicas_since;  // Where replicas began that run now; 0: none do.
  ls_graph *next_idle;      // Of a thread that has ended.
} ls_eager;

static inline ls_eager *ls_eager_of(const ls_graph *graph) {
  return (ls_eager *)(uintptr_t)graph->owner;
}

// The table of runtimes, and its functions.
extern const ls_eager_vtable ls_runtime_eager
    __attribute__((visibility("hidden")));
ls_graph *ls_eager_graph(ls_runtime *runtime);
ls_op ls_eager_run(ls_graph *graph, const ls_op_spec *spec,
                   const uint64_t *input_refs, const ls_type *out,
                   size_t num_out);
void ls_eager_catch_up(const ls_graph *graph, ls_node *node);
void ls_eager_drop_since(ls_graph *graph, size_t num_nodes,
                         ls_arena_mark_point memory);
ls_op ls_eager_fail(ls_graph *graph, ls_status status);
ls_status ls_eager_initialize(ls_variable *variable, ls_tensor value);
ls_status ls_eager_initialize_zero(ls_variable *variable);
ls_status ls_eager_reserve(ls_variable *variable);
void ls_eager_forget(ls_variable *variable);
// The container takes over the value of its first component, for all of them.
ls_status ls_eager_join(ls_variable *container);

// Returns true if eager ops of this thread are recorded now.
bool ls_eager_is_recording(const ls_graph *graph);

// A draw that waits until somebody looks at its value. What becomes of most is
// a variable's first value, which the engine draws where it belongs and when it
// has time.
typedef struct ls_late_draw {
  ls_object object;  // What a node's `late` is.
  ls_allocator *allocator;
  ls_compiled *compiled;
  uint64_t step;
} ls_late_draw;

// A tape that a replica has begun records that replica's ops, and what is done
// for all in merge calls. One begun outside of replicas records all ops.
struct ls_tape {
  ls_graph *graph;
  struct ls_tape *outer;
  int32_t replica;            // Whose it is, its id + 1; 0: begun outside.
  ls_frame *frame;            // The frame it was begun in.
  uint64_t first_id, end_id;  // Recorded: from first_id, before end_id, which
                              // is 0 while it is open.
  uint64_t *watched;          // Refs.
  size_t num_watched, watched_capacity;
};

// A backward pass over a tape, which does not record it. On the C stack of its
// thread or fiber, whose context it is in.
typedef struct ls_tape_walk {
  const struct ls_tape_walk *outer;
  const ls_tape *tape;
} ls_tape_walk;

// The eager graphs of a runtime.
void ls_eager_graphs_init(ls_runtime_state *state);
void ls_eager_graphs_deinit(ls_runtime_state *state);
// The innermost frame where this thread or replica is, its own or the one it
// was started in; NULL: none.
ls_frame *ls_eager_frame(const ls_eager *eager);
// Around a run of replicas, which have values and frames of their own. Behind
// it all they made is the thread's, and frames they have left open are closed.
uint64_t ls_eager_begin_replicas(ls_graph *graph);
void ls_eager_end_replicas(ls_graph *graph, uint64_t before);
// The value of a ref of an eager graph, lent.
ls_status ls_eager_value(const ls_graph *graph, uint64_t ref,
                         ls_array **out_array);
// A new value that holds `array`, retained.
ls_op ls_eager_keep(ls_graph *graph, const ls_op_spec *spec,
                    const uint64_t *input_refs, ls_array *const *values,
                    size_t count);

// The status of a tensor that was just made: why it failed.
ls_status ls_made_status(ls_tensor tensor);

// ---- Context ----------------------------------------------------------------
// This layer's rooms in the context (graph/context.h).
typedef struct ls_runtime_scoped {
  bool unrecorded;  // No tape records eager ops.
} ls_runtime_scoped;

typedef struct ls_runtime_work {
  const struct ls_tape_walk *walks;  // Backward passes here, innermost first.
  // Callbacks of functions that run inside of each other here.
  int32_t callbacks;
} ls_runtime_work;

static inline ls_runtime_scoped *ls_runtime_scoped_of(ls_context *context) {
  return LS_CONTEXT_ROOM(ls_runtime_scoped, &context->scoped, runtime);
}
static inline ls_runtime_work *ls_runtime_work_here(void) {
  return LS_CONTEXT_ROOM(ls_runtime_work, ls_context_current(), runtime);
}

#endif  // LS_RUNTIME_EAGER_EAGER_H_

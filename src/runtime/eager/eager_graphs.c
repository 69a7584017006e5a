// SPDX-License-Identifier: Apache-2.0
//
// Eager graphs by thread. A graph belongs to a thread, identified by a number
// that is never reused. When the thread ends the graph is emptied, and another
// thread may get it. Ids continue, so that handles of the ended thread are
// stale.
#include "base/memory/list.h"
#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "runtime/eager/eager.h"

// Guards the graphs of all runtime states, and the list of states. The last
// lock in the order of locks.
static ls_mutex graphs_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static ls_condition graphs_left = {PTHREAD_COND_INITIALIZER, true};
static ls_runtime_state *states;

// ---- Single graphs ---------------------------------------------------------
static ls_graph *make_graph(ls_runtime_state *state) {
  ls_graph *graph = NULL;
  const ls_status status =
      ls_graph_make(LS_GRAPH_EAGER, "eager", state->runtime, NULL, &graph);
  ls_eager *eager = ls_new(state->allocator, ls_eager);
  if (ls_status_is_ok(status) && eager != NULL) {
    eager->state = state;
    graph->owner = eager;
    return graph;
  }
  ls_status_free(status);
  ls_release(state->allocator, eager);
  ls_graph_free(graph);
  return NULL;
}

// Drops what an ended thread has left: values, frames, tapes, its last error.
static void empty_graph(ls_graph *graph) {
  ls_eager *eager = ls_eager_of(graph);
  while (eager->frame != NULL) {
    ls_frame *outer = eager->frame->outer;
    ls_release(graph->allocator, eager->frame);
    eager->frame = outer;
  }
  // Closes tapes, which their owners release later.
  for (; eager->tape != NULL; eager->tape = eager->tape->outer)
    if (eager->tape->end_id == 0) eager->tape->end_id = graph->next_id;
  eager->replicas_since = 0;
  ls_graph_rollback(graph, (ls_graph_rollback_point){0});
  ls_arena_reset(&graph->arena);
  ls_status_free(ls_graph_take_error(graph));
}

static void free_graph(ls_graph *graph) {
  ls_eager *eager = ls_eager_of(graph);
  empty_graph(graph);
  ls_release(graph->allocator, eager);
  ls_graph_free(graph);
}

// ---- Ends of threads -------------------------------------------------------
// Takes one of the thread's graphs out of its runtime, whose destruction waits
// until it is emptied.
static ls_graph *take_graph_of(uint64_t thread) {
  ls_graph *graph = NULL;
  ls_mutex_lock(&graphs_lock);
  for (ls_runtime_state *s = states; s != NULL && graph == NULL; s = s->next) {
    graph = ls_map_remove_u64(&s->eager_graphs, thread);
    if (graph != NULL) ++s->num_leaving;
  }
  ls_mutex_unlock(&graphs_lock);
  return graph;
}

static void give_idle(ls_graph *graph) {
  ls_eager *eager = ls_eager_of(graph);
  ls_runtime_state *state = eager->state;
  ls_mutex_lock(&graphs_lock);
  eager->next_idle = state->idle_graphs;
  state->idle_graphs = graph;
  --state->num_leaving;
  ls_condition_broadcast(&graphs_left);
  ls_mutex_unlock(&graphs_lock);
}

// Per-thread state; `graph` is verified before use.
typedef struct thread_place {
  uint64_t number;  // Never reused by another thread.
  ls_graph *graph;  // The graph used last, and its runtime.
  const ls_runtime_state *state;
  uint64_t state_serial;
} thread_place;

static thread_place *this_thread(void) {
  return LS_THREAD_PART(thread_place, runtime);
}

static void leave_graphs(void) {
  ls_graph *graph = NULL;
  const uint64_t thread = this_thread()->number;
  *this_thread() = (thread_place){0};
  while ((graph = take_graph_of(thread)) != NULL) {
    empty_graph(graph);
    give_idle(graph);
  }
}

static uint64_t thread_number(void) {
  static uint64_t last_number;
  thread_place *here = this_thread();
  if (here->number == 0) {
    here->number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    // Without memory to register, the graphs stay until the runtime's end.
    (void)ls_thread_at_end(LS_THREAD_RUNTIME, leave_graphs);
  }
  return here->number;
}

// ---- All graphs of a runtime -----------------------------------------------
void ls_eager_graphs_init(ls_runtime_state *state) {
  ls_map_init(&state->eager_graphs, state->allocator);
  ls_mutex_lock(&graphs_lock);
  state->next = states;
  states = state;
  ls_mutex_unlock(&graphs_lock);
}

void ls_eager_graphs_forget(ls_runtime_state *state) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&state->eager_graphs, &at, &item);) {
    const ls_graph *graph = item.value;
    if (ls_eager_of(graph)->tape != NULL) continue;
    for (size_t i = 0; i < graph->num_nodes; ++i)
      ls_node_forget(graph->nodes[i]);
  }
}

void ls_eager_graphs_deinit(ls_runtime_state *state) {
  ls_mutex_lock(&graphs_lock);
  LS_UNLINK(&states, state, next);
  while (state->num_leaving > 0)
    ls_condition_wait(&graphs_left, &graphs_lock);
  ls_mutex_unlock(&graphs_lock);
  ls_map_item item;
  for (size_t at_graph = 0;
       ls_map_next(&state->eager_graphs, &at_graph, &item);)
    free_graph(item.value);
  ls_map_deinit(&state->eager_graphs);
  while (state->idle_graphs != NULL) {
    ls_graph *graph = state->idle_graphs;
    state->idle_graphs = ls_eager_of(graph)->next_idle;
    free_graph(graph);
  }
}

static ls_graph *graph_of_thread(ls_runtime_state *state) {
  const uint64_t thread = thread_number();
  ls_mutex_lock(&graphs_lock);
  ls_graph *graph = ls_map_find_u64(&state->eager_graphs, thread);
  if (graph == NULL) {
    graph = state->idle_graphs;
    const bool is_new = graph == NULL;
    if (is_new) graph = make_graph(state);
    if (graph != NULL &&
        !ls_map_insert_u64(&state->eager_graphs, thread, graph)) {
      if (is_new) free_graph(graph);
      graph = NULL;
    }
    if (graph != NULL && !is_new)
      state->idle_graphs = ls_eager_of(graph)->next_idle;
  }
  ls_mutex_unlock(&graphs_lock);
  return graph;
}

ls_status ls_eager_graph(ls_runtime *runtime, ls_graph **out_graph) {
  thread_place *here = this_thread();
  ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  *out_graph = NULL;
  if (state == NULL || state != here->state ||
      state->serial != here->state_serial) {
    LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
    ls_graph *graph = graph_of_thread(state);
    LS_RETURN_IF_NO_MEMORY(graph);
    here->graph = graph;
    here->state = state;
    here->state_serial = state->serial;
  }
  *out_graph = here->graph;
  return ls_ok();
}

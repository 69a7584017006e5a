// SPDX-License-Identifier: Apache-2.0
//
// Frames of the eager graph.
#include <stdlib.h>

#include "base/memory/list.h"
#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "graph/slices.h"
#include "runtime/eager/eager.h"

static ls_status current_eager(ls_graph **out_graph) {
  ls_runtime *runtime = ls_runtime_current();
  LS_RETURN_IF_NO_MEMORY(runtime);
  return ls_eager_graph(runtime, out_graph);
}

ls_status ls_frame_begin(void) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(current_eager(&graph));
  ls_eager *eager = ls_eager_of(graph);
  LS_NEW_OR_RETURN(graph->allocator, ls_frame, frame);
  ls_nest_forget_missing();
  frame->outer = eager->frame;
  frame->replica = ls_context_current()->replica;
  frame->first_id = graph->next_id;
  frame->arena = ls_arena_mark(&graph->arena);
  eager->frame = frame;
  return ls_ok();
}

ls_frame *ls_eager_frame(const ls_eager *eager) {
  const int32_t replica = ls_context_current()->replica;
  ls_frame *frame = eager->frame;
  while (frame != NULL && frame->replica != replica && frame->replica != 0)
    frame = frame->outer;
  return frame;
}

void ls_eager_drop_since(ls_graph *graph, size_t num_nodes,
                         ls_arena_mark_point memory) {
  if (ls_eager_of(graph)->tape != NULL) return;
  ls_graph_rollback_point back = ls_graph_mark(graph);
  back.num_nodes = num_nodes;
  ls_graph_rollback(graph, back);
  ls_arena_rollback(&graph->arena, memory);
}

// A value that outlives its frame, saved while the arena is rolled back.
typedef struct survivor {
  uint64_t id;
  size_t count;
  const char *device;
  size_t first;  // Index of its first value in the list.
  ls_status failure;
} survivor;

typedef struct survivors {
  const ls_graph *graph;
  uint64_t first_id;
  survivor *items;
  size_t count, capacity;
  ls_array **values;  // References; NULL for values of ops that have failed.
  size_t num_values, values_capacity;
} survivors;

static ls_status note_node(survivors *list, const ls_node *node) {
  ls_allocator *allocator = list->graph->allocator;
  const size_t count = node->num_outputs;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(allocator, list->values, list->values_capacity,
                                 list->num_values + count));
  LS_PUSH_OR_RETURN(allocator, list->items, list->count, list->capacity,
                    (survivor){.id = node->id,
                               .count = count,
                               .device = node->device,
                               .first = list->num_values,
                               .failure = ls_status_clone(node->failure)});
  for (size_t i = 0; i < count; ++i)
    list->values[list->num_values++] =
        node->values != NULL ? ls_array_retain(node->values[i]) : NULL;
  return ls_ok();
}

static ls_nest note_survivor(ls_nest leaf, void *user) {
  survivors *list = user;
  if (leaf.kind == LS_KIND_SLICES)
    return ls_slices_note(leaf, note_survivor, user);
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_map_components(leaf, note_survivor, user);
  if (leaf.kind != LS_KIND_TENSOR || leaf.as.tensor.graph != list->graph)
    return ls_nest_retain(leaf);
  ls_node *node = ls_graph_node_of(list->graph, leaf.as.tensor.ref);
  if (node == NULL || node->id < list->first_id) return leaf;
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].id == node->id) return leaf;
  ls_eager_catch_up(leaf.as.tensor.graph, node);
  const ls_status status = note_node(list, node);
  return ls_status_is_ok(status) ? leaf : ls_fail(status);
}

static int by_id(const void *a, const void *b) {
  const uint64_t x = ((const survivor *)a)->id, y = ((const survivor *)b)->id;
  return x < y ? -1 : x > y;
}

static ls_status note_survivors(const ls_nest *keep, survivors *list) {
  if (keep != NULL) {
    LS_OWN(ls_nest, noted) = ls_nest_map(*keep, note_survivor, list);
    LS_RETURN_IF_ERROR(ls_nest_status(noted));
  }
  if (list->count > 1)
    qsort(list->items, list->count, sizeof(*list->items), by_id);
  return ls_ok();
}

// Restores a survivor under its old id.
static ls_status put_back(ls_graph *graph, const survivor *kept,
                          ls_array *const *values) {
  const uint64_t next = graph->next_id;
  const ls_op_spec spec = {.type = LS_OP_CONSTANT};
  graph->next_id = kept->id;
  ls_node *node = ls_graph_append(graph, &spec, NULL, kept->count);
  graph->next_id = next;
  if (node == NULL) return ls_out_of_memory();
  node->device = kept->device;
  if (kept->failure != NULL) {
    node->failure = ls_status_clone(kept->failure);
    return ls_ok();
  }
  LS_ARENA_SET_OR_RETURN(&graph->arena, ls_array *, node->values, kept->count);
  for (size_t i = 0; i < kept->count; ++i) {
    node->values[i] = ls_array_retain(values[i]);
    node->outputs[i] =
        (ls_type){ls_array_dtype(values[i]), ls_array_shape(values[i])};
  }
  return ls_ok();
}

static void drop_survivors(survivors *list) {
  for (size_t i = 0; i < list->num_values; ++i)
    ls_array_release(list->values[i]);
  for (size_t i = 0; i < list->count; ++i)
    ls_status_free(list->items[i].failure);
  ls_release(list->graph->allocator, list->values);
  ls_release(list->graph->allocator, list->items);
}

// ---- Ending ----------------------------------------------------------------
// Returns true if the mark `replica` is that of the frame's owner. Values of
// replicas whose run has ended belong to the thread.
static bool is_own(const ls_graph *graph, const ls_frame *frame, uint64_t id,
                   int32_t replica) {
  const uint64_t since = ls_eager_of(graph)->replicas_since;
  return replica == frame->replica ||
         (frame->replica == 0 && (since == 0 || id < since));
}

// Returns true if all nodes since the frame's begin belong to its owner.
static bool is_alone(const ls_graph *graph, const ls_frame *frame) {
  if (ls_eager_of(graph)->frame != frame) return false;
  size_t i = ls_graph_first_position(graph, frame->first_id);
  while (i < graph->num_nodes &&
         is_own(graph, frame, graph->nodes[i]->id, graph->nodes[i]->replica))
    ++i;
  return i == graph->num_nodes;
}

// Rolls the graph and its memory back to the frame's begin.
static ls_status drop_all(ls_graph *graph, const ls_frame *frame,
                          const survivors *list) {
  ls_graph_rollback_point back = ls_graph_mark(graph);
  back.num_nodes = ls_graph_first_position(graph, frame->first_id);
  ls_graph_rollback(graph, back);
  ls_arena_rollback(&graph->arena, frame->arena);
  for (size_t i = 0; i < list->count; ++i)
    LS_RETURN_IF_ERROR(
        put_back(graph, &list->items[i], list->values + list->items[i].first));
  return ls_ok();
}

typedef struct own_nodes {
  const ls_graph *graph;
  const ls_frame *frame;
  const survivors *kept;
} own_nodes;

static bool is_own_to_drop(const ls_node *node, void *user) {
  const own_nodes *own = user;
  const survivor wanted = {.id = node->id};
  return is_own(own->graph, own->frame, node->id, node->replica) &&
         (own->kept->count == 0 ||
          bsearch(&wanted, own->kept->items, own->kept->count, sizeof(wanted),
                  by_id) == NULL);
}

static ls_status drop_values(ls_graph *graph, const ls_frame *frame,
                             const survivors *kept) {
  if (is_alone(graph, frame)) return drop_all(graph, frame, kept);
  // Replicas run in turns: values of others lie in between, also in memory.
  own_nodes own = {graph, frame, kept};
  ls_graph_drop_nodes(graph, ls_graph_first_position(graph, frame->first_id),
                      is_own_to_drop, &own);
  return ls_ok();
}

static void remove_frame(ls_graph *graph, ls_frame *frame) {
  LS_UNLINK(&ls_eager_of(graph)->frame, frame, outer);
  ls_release(graph->allocator, frame);
}

ls_status ls_frame_end(const ls_nest *keep) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(current_eager(&graph));
  ls_eager *eager = ls_eager_of(graph);
  ls_frame *frame = ls_eager_frame(eager);
  if (frame == NULL || frame->replica != ls_context_current()->replica)
    return ls_failed_precondition("ls_frame_end without an open frame%s",
                                  frame == NULL
                                      ? ""
                                      : " of this replica: the one around the "
                                        "run of all replicas stays open");
  for (const ls_tape *tape = eager->tape; tape != NULL; tape = tape->outer)
    if (tape->frame == frame)
      return ls_failed_precondition(
          "a tape that was begun in this frame has not been released");
  ls_status status = ls_ok();
  if (eager->tape == NULL) {  // An open tape keeps the recorded nodes.
    survivors kept = {.graph = graph, .first_id = frame->first_id};
    status = note_survivors(keep, &kept);
    const bool noted = ls_status_is_ok(status);
    if (noted) status = drop_values(graph, frame, &kept);
    drop_survivors(&kept);
    if (!noted) return status;
  }
  remove_frame(graph, frame);
  return status;
}

// ---- Runs of replicas ------------------------------------------------------
uint64_t ls_eager_begin_replicas(ls_graph *graph) {
  ls_eager *eager = ls_eager_of(graph);
  const uint64_t before = eager->replicas_since;
  eager->replicas_since = graph->next_id;
  return before;
}

void ls_eager_end_replicas(ls_graph *graph, uint64_t before) {
  ls_eager *eager = ls_eager_of(graph);
  const uint64_t since = eager->replicas_since;
  eager->replicas_since = before;
  for (ls_frame *frame = eager->frame, *outer = NULL;
       frame != NULL && frame->first_id >= since; frame = outer) {
    outer = frame->outer;
    if (frame->replica == ls_context_current()->replica) continue;
    for (ls_tape *tape = eager->tape; tape != NULL; tape = tape->outer)
      if (tape->frame == frame) tape->frame = ls_eager_frame(eager);
    remove_frame(graph, frame);
  }
}

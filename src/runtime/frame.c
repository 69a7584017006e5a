// SPDX-License-Identifier: Apache-2.0
//
// Frames of the eager graph.
#include <stdlib.h>

#include "base/runtime_internal.h"
#include "runtime/eager.h"

static ls_status current_eager(ls_graph **out_graph) {
  ls_runtime *runtime = ls_runtime_current();
  *out_graph = runtime == NULL ? NULL : ls_eager_graph(runtime);
  return *out_graph == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status ls_frame_begin(void) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(current_eager(&graph));
  ls_eager *eager = ls_eager_of(graph);
  ls_frame *frame = ls_new(graph->allocator, ls_frame);
  if (frame == NULL) return ls_out_of_memory();
  frame->outer = eager->frame;
  frame->num_nodes = graph->num_nodes;
  frame->arena = ls_arena_mark(&graph->arena);
  eager->frame = frame;
  return ls_ok();
}

void ls_eager_drop_since(ls_graph *graph, size_t num_nodes,
                         ls_arena_mark_point memory) {
  if (ls_eager_of(graph)->tape != NULL) return;
  ls_graph_rollback_point back = ls_graph_mark(graph);
  back.num_nodes = num_nodes;
  ls_graph_rollback(graph, back);
  ls_arena_rollback(&graph->arena, memory);
}

// A value that outlives its frame, while the arena is rolled back.
typedef struct survivor {
  uint64_t id;
  size_t count;
  const char *device;
  ls_array *values[16];
  ls_status failure;
} survivor;

typedef struct survivors {
  const ls_graph *graph;
  size_t first_node;
  survivor *items;
  size_t count, capacity;
  bool failed;
} survivors;

static ls_nest note_survivor(ls_nest leaf, void *user) {
  survivors *list = user;
  if (leaf.kind != LS_KIND_TENSOR || leaf.as.tensor.graph != list->graph)
    return ls_none();
  ls_node *node = ls_graph_node_of(list->graph, leaf.as.tensor.ref);
  if (node == NULL || list->first_node >= list->graph->num_nodes ||
      node->id < list->graph->nodes[list->first_node]->id)
    return ls_none();
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].id == node->id) return ls_none();
  ls_eager_catch_up(leaf.as.tensor.graph, node);
  if (!ls_grow(list->graph->allocator, &list->items, &list->capacity,
               list->count + 1, sizeof(*list->items))) {
    list->failed = true;
    return ls_none();
  }
  survivor *kept = &list->items[list->count++];
  *kept = (survivor){.id = node->id,
                     .count = node->num_outputs,
                     .device = node->device,
                     .failure = ls_status_clone(node->failure)};
  for (size_t i = 0; node->values != NULL && i < kept->count; ++i)
    kept->values[i] = ls_array_retain(node->values[i]);
  return ls_none();
}

static int by_id(const void *a, const void *b) {
  const uint64_t x = ((const survivor *)a)->id, y = ((const survivor *)b)->id;
  return x < y ? -1 : x > y;
}

// Puts a survivor back under its old id.
static ls_status put_back(ls_graph *graph, const survivor *kept) {
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
  node->values = ls_arena_new_array(&graph->arena, ls_array *, kept->count);
  if (node->values == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < kept->count; ++i) {
    node->values[i] = ls_array_retain(kept->values[i]);
    node->outputs[i] = (ls_type){ls_array_dtype(kept->values[i]),
                                 ls_array_shape(kept->values[i])};
  }
  return ls_ok();
}

static void drop_survivors(survivors *list) {
  for (size_t i = 0; i < list->count; ++i) {
    for (size_t k = 0; k < list->items[i].count; ++k)
      ls_array_release(list->items[i].values[k]);
    ls_status_free(list->items[i].failure);
  }
  ls_release(list->graph->allocator, list->items);
}

ls_status ls_frame_end(const ls_nest *keep) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(current_eager(&graph));
  ls_eager *eager = ls_eager_of(graph);
  ls_frame *frame = eager->frame;
  if (frame == NULL)
    return ls_failed_precondition("ls_frame_end without an open frame");
  if (eager->tape != NULL && eager->tape->frame == frame)
    return ls_failed_precondition(
        "a tape that was begun in this frame has not been released");
  ls_status status = ls_ok();
  if (eager->tape == NULL) {  // Else the tape holds what was recorded.
    survivors list = {.graph = graph, .first_node = frame->num_nodes};
    if (keep != NULL) {
      const ls_nest noted = ls_nest_map(*keep, note_survivor, &list);
      if (ls_nest_is_failed(noted)) list.failed = true;
      ls_nest_release(noted);
    }
    if (list.failed) {
      drop_survivors(&list);
      return ls_out_of_memory();
    }
    if (list.count > 1)
      qsort(list.items, list.count, sizeof(*list.items), by_id);
    ls_graph_rollback_point back = ls_graph_mark(graph);
    back.num_nodes = frame->num_nodes;
    ls_graph_rollback(graph, back);
    ls_arena_rollback(&graph->arena, frame->arena);
    for (size_t i = 0; i < list.count && ls_status_is_ok(status); ++i)
      status = put_back(graph, &list.items[i]);
    drop_survivors(&list);
  }
  eager->frame = frame->outer;
  ls_release(graph->allocator, frame);
  return status;
}

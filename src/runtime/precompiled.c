// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/gather/gather.h"
#include "io/protobuf/protobuf.h"

void ls_precompiled_destroy(ls_precompiled *list) {
  while (list != NULL) {
    ls_precompiled *next = list->next;
    ls_plan_destroy(list->plan);
    ls_release(list->allocator, list->cluster);
    ls_release(list->allocator, list->fetches);
    ls_release(list->allocator, list->targets);
    ls_release(list->allocator, list->feeds);
    ls_release(list->allocator, list->feed_types);
    ls_release(list->allocator, list);
    list = next;
  }
}

// ---- Outputs of a computation ----------------------------------------------
static bool is_in_cluster(const ls_node *node, const char *cluster) {
  const char *mark = ls_node_mark(node, LS_MARK_REPLICATE);
  return mark != NULL && strcmp(mark, cluster) == 0;
}

// Returns true for an output of one replica: the node reads a replicated
// output.
static bool is_result(const ls_graph *graph, const ls_node *node,
                      const char *cluster) {
  if (node->type != LS_OP_IDENTITY ||
      ls_node_mark(node, LS_MARK_REPLICATE) != NULL)
    return false;
  const ls_node *output = ls_graph_node_of(graph, node->inputs[0]);
  return output->type == LS_OP_TPU_REPLICATED_OUTPUT &&
         is_in_cluster(ls_graph_node_of(graph, output->inputs[0]), cluster);
}

// Returns true for a node that marks the end of a replica.
static bool is_end(const ls_graph *graph, const ls_node *node,
                   const char *cluster) {
  if (node->type != LS_OP_NO_OP ||
      ls_node_mark(node, LS_MARK_REPLICATE) != NULL)
    return false;
  for (uint32_t i = 0; i < node->num_control; ++i)
    if (is_in_cluster(ls_graph_node(graph, node->control[i]), cluster))
      return true;
  return false;
}

static ls_status list_results(ls_precompiled *a, ls_graph *graph) {
  const size_t count = graph->num_nodes;
  a->fetches = ls_new_array(a->allocator, uint64_t, count + 1);
  a->targets = ls_new_array(a->allocator, ls_op, count + 1);
  if (a->fetches == NULL || a->targets == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    const ls_node *node = graph->nodes[i];
    if (is_result(graph, node, a->cluster))
      a->fetches[a->num_fetches++] = ls_ref(node->id, 0);
    else if (is_end(graph, node, a->cluster))
      a->targets[a->num_targets++] = (ls_op){graph, node->id};
  }
  return ls_ok();
}

// ---- Feeds of a computation ------------------------------------------------
typedef struct needing {
  ls_precompiled *entry;
  const ls_graph *graph;
  bool *seen;
  size_t *stack;
  size_t count;
} needing;

static void need_node(needing *n, size_t place) {
  if (place == SIZE_MAX || n->seen[place]) return;
  n->seen[place] = true;
  n->stack[n->count++] = place;
}

static void need_cluster(needing *n, const char *cluster) {
  for (size_t i = 0; i < n->graph->num_nodes; ++i)
    if (is_in_cluster(n->graph->nodes[i], cluster)) need_node(n, i);
}

static void need_all(needing *n) {
  ls_precompiled *a = n->entry;
  need_cluster(n, a->cluster);
  while (n->count > 0) {
    const ls_node *node = n->graph->nodes[n->stack[--n->count]];
    const char *cluster = ls_node_mark(node, LS_MARK_REPLICATE);
    const uint64_t ref = ls_ref(node->id, 0);
    if (cluster != NULL && strcmp(cluster, a->cluster) != 0)
      need_cluster(n, cluster);
    if (node->type == LS_OP_PLACEHOLDER &&
        !ls_is_fed(a->feeds, a->num_feeds, ref) &&
        ls_shape_is_known(node->outputs[0].shape)) {
      a->feeds[a->num_feeds] = ref;
      a->feed_types[a->num_feeds++] = node->outputs[0];
    }
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      if (!ls_is_fed(a->feeds, a->num_feeds, node->inputs[i]))
        need_node(n, ls_graph_position(n->graph, ls_ref_id(node->inputs[i])));
    for (uint32_t i = 0; i < node->num_control; ++i)
      need_node(n, ls_graph_position(n->graph, node->control[i]));
  }
}

static ls_status list_feeds(ls_precompiled *a, const ls_lower_request *request,
                            ls_arena *memory) {
  const size_t count = request->graph->num_nodes;
  a->feeds = ls_new_array(a->allocator, uint64_t, request->num_feeds + count);
  a->feed_types =
      ls_new_array(a->allocator, ls_type, request->num_feeds + count);
  needing n = {.entry = a,
               .graph = request->graph,
               .seen = ls_arena_new_array(memory, bool, count + 1),
               .stack = ls_arena_new_array(memory, size_t, count + 1)};
  if (a->feeds == NULL || a->feed_types == NULL || n.seen == NULL ||
      n.stack == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < request->num_feeds; ++i) {
    a->feeds[i] = request->feeds[i];
    a->feed_types[i] = request->feed_types[i];
  }
  a->num_feeds = request->num_feeds;
  need_all(&n);
  return ls_ok();
}

// ---- Compiling -------------------------------------------------------------
static bool is_feed_of(const ls_precompiled *a, const ls_lower_request *request,
                       size_t i, uint32_t *out_place) {
  for (size_t k = 0; k < a->num_feeds; ++k)
    if (a->feeds[k] == request->feeds[i]) {
      *out_place = (uint32_t)k;
      return a->feed_types[k].dtype == request->feed_types[i].dtype &&
             ls_shape_equal(a->feed_types[k].shape,
                            request->feed_types[i].shape);
    }
  return false;
}

// Returns true if the request's feeds are among those of the compilation; with
// `all`, the same.
static bool feeds_fit(const ls_precompiled *a, const ls_lower_request *request,
                      bool all) {
  uint32_t place;
  for (size_t i = 0; i < request->num_feeds; ++i)
    if (!is_feed_of(a, request, i, &place)) return false;
  return !all || a->num_feeds == request->num_feeds;
}

// Returns true for a failure that is not the computation's fault.
static bool is_lack_of_memory(ls_status status) {
  const ls_status lack = ls_out_of_memory();
  const char *text = ls_status_message(lack);
  return ls_status_code(status) == ls_status_code(lack) &&
         strncmp(ls_status_message(status), text, strlen(text)) == 0;
}

// Makes the serialized status of a compilation.
static ls_status report_compilation(ls_status failure, ls_array **out_told) {
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  if (!ls_status_is_ok(failure)) {
    ls_proto_i64(&text, 1, (int64_t)ls_status_code(failure));
    ls_proto_string(&text, 2, ls_status_message(failure));
  }
  ls_status_free(failure);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  const ls_bytes bytes = {.data = text.data, .size = text.size};
  return ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &bytes, out_told);
}

static ls_status prepare_entry(ls_precompiled *a,
                               const ls_lower_request *request,
                               const char *cluster, ls_arena *memory) {
  LS_RETURN_IF_ERROR(ls_keep_text(a->allocator, cluster, &a->cluster));
  LS_RETURN_IF_ERROR(list_results(a, request->graph));
  return list_feeds(a, request, memory);
}

// Drops computations whose systems are gone or initialized again.
static void drop_stale(ls_precompiled **list) {
  while (*list != NULL) {
    ls_precompiled *a = *list;
    if (ls_plan_is_current(a->plan)) {
      list = &a->next;
      continue;
    }
    *list = a->next;
    a->next = NULL;
    ls_precompiled_destroy(a);
  }
}

ls_status ls_precompile(ls_precompiled **list, const ls_lower_request *request,
                        const char *cluster, ls_store *store, ls_arena *memory,
                        ls_array **out_told) {
  drop_stale(list);
  for (const ls_precompiled *a = *list; a != NULL; a = a->next)
    if (strcmp(a->cluster, cluster) == 0 && feeds_fit(a, request, false) &&
        ls_plan_fits(a->plan))
      return report_compilation(ls_ok(), out_told);
  ls_allocator *allocator = request->graph->allocator;
  LS_OWN_NEW_OR_RETURN(allocator, ls_precompiled, a);
  a->allocator = allocator;
  LS_RETURN_IF_ERROR(prepare_entry(a, request, cluster, memory));
  const ls_lower_request whole = {.graph = request->graph,
                                  .fetches = a->fetches,
                                  .num_fetches = a->num_fetches,
                                  .feeds = a->feeds,
                                  .feed_types = a->feed_types,
                                  .num_feeds = a->num_feeds,
                                  .targets = a->targets,
                                  .num_targets = a->num_targets,
                                  .variables = request->variables};
  const ls_status status =
      ls_plan_create(&whole, store, NULL, memory, &a->plan);
  if (is_lack_of_memory(status)) return status;
  if (ls_status_is_ok(status)) {
    a->next = *list;
    *list = ls_give(&a);
  }
  return report_compilation(status, out_told);
}

// ---- Plans from precompiled computations -----------------------------------
static bool find_fetch(const ls_precompiled *a, uint64_t ref,
                       size_t *out_place) {
  for (*out_place = 0; *out_place < a->num_fetches; ++*out_place)
    if (a->fetches[*out_place] == ref) return true;
  return false;
}

static bool has_target(const ls_precompiled *a, ls_op op) {
  for (size_t i = 0; i < a->num_targets; ++i)
    if (a->targets[i].id == op.id) return true;
  return false;
}

static bool gives(const ls_precompiled *a, const ls_lower_request *request) {
  size_t place;
  if (request->num_fetches + request->num_targets == 0) return false;
  for (size_t i = 0; i < request->num_fetches; ++i)
    if (!find_fetch(a, request->fetches[i], &place)) return false;
  for (size_t i = 0; i < request->num_targets; ++i)
    if (!has_target(a, request->targets[i])) return false;
  // Refuses results that lend strings or objects: outputs that nobody takes
  // would have no owner.
  return feeds_fit(a, request, true) && !a->plan->results.lends &&
         ls_plan_fits(a->plan);
}

static ls_status share_plan(const ls_precompiled *a,
                            const ls_lower_request *request, ls_plan *plan) {
  plan->parts =
      ls_new_array(plan->allocator, ls_compiled *, a->plan->num_parts);
  plan->feeds = ls_new_array(plan->allocator, uint32_t, a->num_feeds + 1);
  if (plan->parts == NULL || plan->feeds == NULL) return ls_out_of_memory();
  for (; plan->num_parts < a->plan->num_parts; ++plan->num_parts)
    plan->parts[plan->num_parts] =
        ls_compiled_retain(a->plan->parts[plan->num_parts]);
  plan->num_feeds = a->num_feeds;
  for (uint32_t i = 0; i < request->num_feeds; ++i) {
    uint32_t place = 0;
    (void)is_feed_of(a, request, i, &place);
    plan->feeds[place] = i;
  }
  LS_RETURN_IF_ERROR(ls_result_map_init(&plan->results, plan->allocator,
                                        request->num_fetches));
  for (size_t i = 0; i < request->num_fetches; ++i) {
    size_t place = 0;
    (void)find_fetch(a, request->fetches[i], &place);
    plan->results.outputs[i] = a->plan->results.outputs[place];
  }
  return ls_result_map_finish(&plan->results, plan->allocator, plan->parts,
                              plan->num_parts);
}

ls_status ls_plan_from_precompiled(const ls_precompiled *list,
                                   const ls_lower_request *request,
                                   ls_plan **out_plan) {
  *out_plan = NULL;
  while (list != NULL && !gives(list, request))
    list = list->next;
  if (list == NULL) return ls_ok();
  LS_OWN_NEW_OR_RETURN(list->allocator, ls_plan, plan);
  plan->allocator = list->allocator;
  plan->store = list->plan->store;
  plan->graph = list->plan->graph;
  plan->num_edits = list->plan->num_edits;
  LS_RETURN_IF_ERROR(share_plan(list, request, plan));
  return ls_hand_over(&plan, out_plan);
}

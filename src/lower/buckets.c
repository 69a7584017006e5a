// SPDX-License-Identifier: Apache-2.0
//
// Chooses which inputs of a program are padded, so that batches of several
// sizes can share the program.
#include "base/runtime_internal.h"
#include "graph/op_table.h"
#include "graph/walk.h"
#include "lower/mask.h"

static bool is_bucketized(const ls_node *node) {
  return node->type == LS_OP_TPU_PADDED_INPUT &&
         ls_node_int(node, LS_ATTR_ID_POWER_OF_TWO) != 0 &&
         ls_node_int(node, LS_ATTR_ID_DYNAMIC_PADDER) != 0;
}

// Returns the index of a value among the feeds; their number if it is not a
// feed.
static size_t find_feed(const ls_lower_request *request, uint64_t ref) {
  size_t i = 0;
  while (i < request->num_feeds && request->feeds[i] != ref)
    ++i;
  return i;
}

static ls_status buckets_refuse(const ls_lower_request *request, ls_node *node,
                                const char *why) {
  char text[LS_MAX_FULL_NAME];
  return LS_STATUS(LS_ABORTED, "%s in %s", why,
                   ls_node_describe(request->graph, node, text, sizeof(text)));
}

// Infers the number of rows, with padding, of the op's inputs.
static ls_status infer_rows(const ls_lower_request *request, ls_node *node,
                            ls_arena *memory, int64_t *out_rows) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_type, in, node->num_inputs);
  ls_type first;
  for (uint32_t r = 0; r < node->num_inputs; ++r) {
    const size_t feed = find_feed(request, node->inputs[r]);
    if (feed == request->num_feeds)
      return buckets_refuse(request, node,
                            "a value that the program computes is padded");
    in[r] = request->feed_types[feed];
    // Refuses one row: a sum of one row returns the row unchanged, -0 included,
    // but a sum with padding does not.
    if (in[r].shape.dim[0] == 1)
      return buckets_refuse(request, node, "a replica has one row alone");
  }
  const ls_op_spec spec = {
      .type = node->type, .attrs = node->attrs, .num_attrs = node->num_attrs};
  ls_infer infer = {.spec = &spec,
                    .op_name = ls_node_info(node)->name,
                    .in = in,
                    .num_in = node->num_inputs,
                    .out = &first,
                    .num_out = 1,
                    .arena = memory};
  LS_RETURN_IF_ERROR(ls_infer_run(&infer));
  *out_rows = infer.out[0].shape.dim[0];
  return ls_ok();
}

static bool have_equal_sizes(const ls_lower_request *request, const ls_node *a,
                             const ls_node *b) {
  if (a->num_inputs != b->num_inputs) return false;
  for (uint32_t r = 0; r < a->num_inputs; ++r)
    if (request->feed_types[find_feed(request, a->inputs[r])].shape.dim[0] !=
        request->feed_types[find_feed(request, b->inputs[r])].shape.dim[0])
      return false;
  return true;
}

static ls_status buckets_add(const ls_lower_request *request, ls_node *node,
                             ls_arena *memory, ls_buckets *out) {
  const ls_attr *axes = ls_node_attr(node, LS_ATTR_ID_AXES);
  int64_t rows = 0;
  if (axes->as.ints.count != 1 || axes->as.ints.items[0] != 0)
    return buckets_refuse(request, node,
                          "another dimension than the first is padded");
  LS_RETURN_IF_ERROR(infer_rows(request, node, memory, &rows));
  for (uint32_t r = 0; r < node->num_inputs; ++r) {
    int64_t *padded = &out->padded[find_feed(request, node->inputs[r])];
    if (*padded != 0 && *padded != rows)
      return buckets_refuse(request, node,
                            "a value is padded to several sizes");
    out->num_padded += *padded == 0;
    *padded = rows;
  }
  ls_bucket *made = &out->items[out->count++];
  *made = (ls_bucket){.node = node, .sizes_of = node};
  for (size_t i = 0; i + 1 < out->count && made->sizes_of == node; ++i)
    if (have_equal_sizes(request, out->items[i].node, node))
      made->sizes_of = out->items[i].node;
  return ls_ok();
}

// Checks that no other op uses a padded feed.
static ls_status check_users(const ls_lower_request *request,
                             const ls_buckets *buckets) {
  const ls_graph *graph = request->graph;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    if (is_bucketized(node)) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const size_t feed = find_feed(request, node->inputs[k]);
      if (feed < request->num_feeds && buckets->padded[feed] != 0)
        return buckets_refuse(request, node,
                              "a value that is padded is also used");
    }
  }
  for (size_t i = 0; i < request->num_fetches; ++i) {
    const size_t feed = find_feed(request, request->fetches[i]);
    if (feed < request->num_feeds && buckets->padded[feed] != 0)
      return LS_STATUS(LS_ABORTED, "a value that is padded is also fetched");
  }
  return ls_ok();
}

static ls_status refuse_nested(const ls_lower_request *request,
                               const ls_graph *graph) {
  ls_graph_walk walk;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (ls_graph_walk_begin_at(&walk, graph->nodes[i]);
         ls_graph_walk_next(&walk);)
      if (walk.node != graph->nodes[i] && is_bucketized(walk.node))
        return buckets_refuse(request, graph->nodes[i],
                              "a value that the program computes is padded");
  return ls_ok();
}

ls_status ls_find_buckets(const ls_lower_request *request, ls_arena *memory,
                          ls_buckets *out) {
  const ls_graph *graph = request->graph;
  *out = (ls_buckets){.feeds = request->feeds, .num_feeds = request->num_feeds};
  size_t count = 0;
  LS_RETURN_IF_ERROR(refuse_nested(request, graph));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    count += is_bucketized(graph->nodes[i]);
  if (count == 0) return ls_ok();
  out->items = ls_arena_new_array(memory, ls_bucket, count);
  out->padded = ls_arena_new_array(memory, int64_t, request->num_feeds + 1);
  out->sizes = ls_arena_new_array(memory, uint64_t, request->num_feeds + 1);
  if (out->items == NULL || out->padded == NULL || out->sizes == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (is_bucketized(graph->nodes[i]))
      LS_RETURN_IF_ERROR(buckets_add(request, graph->nodes[i], memory, out));
  return check_users(request, out);
}

uint64_t ls_bucket_size(const ls_buckets *buckets, uint64_t feed) {
  size_t i = 0;
  while (buckets->feeds[i] != feed)
    ++i;
  return buckets->sizes[i];
}

const ls_bucket *ls_bucket_of(const ls_buckets *buckets, const ls_node *node) {
  for (size_t i = 0; buckets != NULL && i < buckets->count; ++i)
    if (buckets->items[i].node == node) return &buckets->items[i];
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
//
// Lowers inputs of replicated computations whose sizes differ between replicas.
// If all ops see real sizes, no padding is made: replicas with different shapes
// are different classes (replicas.c), or masks mark the real rows (mask.h).
#include "graph/op_table.h"
#include "graph/walk.h"
#include "lockstep/runtime_settings.h"
#include "lower/mask.h"
#include "lower/ops.h"

// ---- Buckets ----------------------------------------------------------------
// Chooses which inputs of a program are padded, so that batches of several
// sizes can share the program.

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
  const ls_op_spec spec = ls_node_spec(node);
  ls_infer infer;
  LS_RETURN_IF_ERROR(
      ls_infer_run(&infer, &spec, in, node->num_inputs, &first, memory));
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
  if (ls_runtime_finds_nan(graph->runtime))
    return LS_STATUS(LS_ABORTED,
                     "find_nan is on, and padding may make NaN of its own");
  LS_ARENA_SET_OR_RETURN(memory, ls_bucket, out->items, count);
  LS_ARENA_SET_OR_RETURN(memory, int64_t, out->padded, request->num_feeds + 1);
  LS_ARENA_SET_OR_RETURN(memory, uint64_t, out->sizes, request->num_feeds + 1);
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (is_bucketized(graph->nodes[i]))
      LS_RETURN_IF_ERROR(buckets_add(request, graph->nodes[i], memory, out));
  return check_users(request, out);
}

// Returns the parameter with a feed's real number of rows.
static uint64_t bucket_size(const ls_buckets *buckets, uint64_t feed) {
  size_t i = 0;
  while (buckets->feeds[i] != feed)
    ++i;
  return buckets->sizes[i];
}

// Returns the bucket of a padded input; NULL for other nodes.
static const ls_bucket *bucket_of(const ls_buckets *buckets,
                                  const ls_node *node) {
  for (size_t i = 0; buckets != NULL && i < buckets->count; ++i)
    if (buckets->items[i].node == node) return &buckets->items[i];
  return NULL;
}

// Pads a value with zeros at the end, up to `shape`.
static ls_status padding_pad(ls_lower_scope *scope, const ls_node *node,
                             uint64_t ref, ls_shape shape, uint64_t *out_ref) {
  const ls_type type = ls_lowered_type(scope, ref);
  const size_t rank = (size_t)type.shape.rank;
  int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK], interior[LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    high[i] = shape.dim[i] - type.shape.dim[i];
    interior[i] = 0;
  }
  *out_ref = ref;
  if (ls_shape_equal(type.shape, shape)) return ls_ok();
  uint64_t operands[2] = {ref};
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, type.dtype, 0, node, &operands[1]));
  const ls_attr attrs[] = {LS_OWN_IS(PAD_LOW, low, rank),
                           LS_OWN_IS(PAD_HIGH, high, rank),
                           LS_OWN_IS(INTERIOR, interior, rank)};
  return ls_lower_make(scope, LS_OP_PAD, operands, 2, attrs, LS_COUNT_OF(attrs),
                       node, out_ref);
}

// In a program for several sizes, takes the padded value and the real sizes
// from the program's inputs.
static ls_status take_bucket(ls_lower_scope *scope, const ls_node *node,
                             const ls_bucket *bucket) {
  const uint32_t replicas = node->num_inputs;
  for (uint32_t r = 0; r < replicas; ++r) {
    const uint64_t feed = bucket->sizes_of->inputs[r];
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, r),
                                    ls_lowered(scope, node->inputs[r])));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, replicas + r),
                                    bucket_size(scope->all->buckets, feed)));
  }
  return ls_ok();
}

ls_status lower_padded_input(ls_lower_scope *scope, ls_node *node) {
  const ls_attr *axes = ls_node_attr(node, LS_ATTR_ID_AXES);
  const bool keeps = ls_node_int(node, LS_ATTR_ID_DYNAMIC_PADDER) != 0;
  const uint32_t replicas = node->num_inputs;
  const ls_bucket *bucket = bucket_of(scope->all->buckets, node);
  if (bucket != NULL) return take_bucket(scope, node, bucket);
  ls_type padded;  // Type on each replica; its other axes have equal sizes.
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &padded));
  for (uint32_t r = 0; r < replicas; ++r) {
    const uint64_t value = ls_lowered(scope, node->inputs[r]);
    const ls_shape shape = ls_lowered_type(scope, value).shape;
    uint64_t ref = value;
    if (!keeps)
      LS_RETURN_IF_ERROR(padding_pad(scope, node, value, padded.shape, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, r), ref));
    for (size_t i = 0; i < axes->as.ints.count; ++i) {
      const int64_t size = shape.dim[axes->as.ints.items[i]];
      LS_RETURN_IF_ERROR(
          ls_lower_scalar(scope, LS_DTYPE_I32, (double)size, node, &ref));
      LS_RETURN_IF_ERROR(ls_lower_map(
          scope, ls_ref(node->id, (unsigned)(1 + i) * replicas + r), ref));
    }
  }
  return ls_ok();
}

// Finds the padded input that a replica's value comes from, NULL if there is
// none.
static const ls_node *find_padded_input(const ls_lower_scope *scope,
                                        uint64_t ref) {
  const ls_graph *from = scope->from;
  const ls_node *node = ls_graph_node_of(from, ref);
  while (node->type == LS_OP_IDENTITY)
    node = ls_graph_node_of(from, node->inputs[0]);
  if (node->type != LS_OP_PARAMETER || scope->holder == NULL) return NULL;
  const size_t s = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  const ls_node *holder = scope->holder;
  if (s >= (size_t)ls_node_int(holder, LS_ATTR_ID_NUM_SPLIT)) return NULL;
  const ls_node *outer = ls_graph_node_of(
      scope->outer->from, holder->inputs[s * (size_t)scope->replicas]);
  return outer->type == LS_OP_TPU_PADDED_INPUT &&
                 ls_node_int(outer, LS_ATTR_ID_DYNAMIC_PADDER) != 0
             ? outer
             : NULL;
}

// Passes an input without padding on unchanged. A padded one gets a mask.
ls_status lower_real_part(ls_lower_scope *scope, ls_node *node) {
  const ls_node *padded = find_padded_input(scope, node->inputs[0]);
  if (padded == NULL)
    return ls_invalid_argument("its operand is no input of a replicated "
                               "computation that was padded");
  const ls_bucket *bucket = bucket_of(scope->all->buckets, padded);
  if (bucket != NULL)
    LS_RETURN_IF_ERROR(
        ls_mask_set(scope, ls_lowered(scope, node->inputs[0]),
                    &(ls_mask){.source = bucket->sizes_of,
                               .size = ls_lowered(scope, node->inputs[1])}));
  return lower_forward(scope, node);
}

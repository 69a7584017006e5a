// SPDX-License-Identifier: Apache-2.0
//
// Host calls that are made around a launch: those whose results no op computes
// give arguments of the module, those without results take its results. So do
// the calls of one counted loop, in blocks of a row for each trip. If a call is
// of another kind, devices make all calls of the program.
#include "base/memory/own.h"
#include "emit/emit.h"
#include "graph/walk.h"

// ---- Counted loops ---------------------------------------------------------
static uint32_t flags_of(const ls_node *node) {
  return ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->flags;
}

static const ls_node *parameter_at(const ls_graph *graph, uint64_t ref,
                                   size_t *out_index) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  if (node->type != LS_OP_PARAMETER) return NULL;
  *out_index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return node;
}

static bool is_constant(const ls_graph *graph, uint64_t ref, int64_t *out) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  if (node->type != LS_OP_CONSTANT) return false;
  *out = ls_array_i64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array, 0);
  return true;
}

// Returns true if each trip adds 1 to this carried value, from 0 on.
static bool counts_trips(const ls_graph *outer, const ls_node *loop,
                         size_t at) {
  const ls_graph *region = loop->regions[1];
  int64_t first = 1, step = 0;
  size_t index = 0;
  if (at >= (size_t)ls_node_int(loop, LS_ATTR_ID_NUM_CARRIED) ||
      !is_constant(outer, loop->inputs[at], &first) || first != 0)
    return false;
  const ls_node *next = ls_graph_node_of(region, region->results[at]);
  return next->type == LS_OP_ADD &&
         parameter_at(region, next->inputs[0], &index) != NULL && index == at &&
         is_constant(region, next->inputs[1], &step) && step == 1;
}

// Finds a number that is known before the loop: a constant, or a parameter of
// the graph around it, perhaps converted.
static bool find_limit(const ls_graph *graph, uint64_t ref,
                       const ls_graph *outer, const ls_node *loop,
                       ls_emit_trips *out) {
  size_t index = 0;
  const ls_node *node = ls_graph_node_of(graph, ref);
  while (node->type == LS_OP_CONVERT &&
         node->outputs[0].dtype == LS_DTYPE_I64) {
    ref = node->inputs[0];
    node = ls_graph_node_of(graph, ref);
  }
  const ls_dtype dtype = ls_graph_type(graph, ref).dtype;
  if (dtype != LS_DTYPE_I32 && dtype != LS_DTYPE_I64) return false;
  if (is_constant(graph, ref, &out->most)) return true;
  if (parameter_at(graph, ref, &index) == NULL) return false;
  if (graph == outer) {
    out->limit = (int32_t)index;
    return true;
  }
  if (index < graph->num_declared) return false;
  return find_limit(
      outer,
      loop->inputs[ls_node_captures(loop, 0) + index - graph->num_declared],
      outer, loop, out);
}

// Finds the call that a condition makes, or NULL.
static const ls_node *condition_call(const ls_graph *condition) {
  for (size_t i = 0; i < condition->num_nodes; ++i)
    if (condition->nodes[i]->type == LS_OP_HOST) return condition->nodes[i];
  return NULL;
}

bool ls_emit_count_trips(const ls_graph *outer, const ls_node *loop,
                         ls_emit_trips *out) {
  const ls_graph *condition = loop->regions[0];
  const ls_node *call = condition_call(condition);
  size_t counter = 0;
  *out = (ls_emit_trips){.limit = -1};
  const int64_t most = ls_node_int(loop, LS_ATTR_ID_MAX_TRIPS);
  const ls_node *less = ls_graph_node_of(
      condition, call != NULL && call->num_inputs == 1 ? call->inputs[0]
                                                       : condition->results[0]);
  if (call != NULL && (flags_of(call) & LS_HOST_TELLS) == 0) return false;
  if (less->type != LS_OP_LESS ||
      parameter_at(condition, less->inputs[0], &counter) == NULL ||
      !counts_trips(outer, loop, counter) ||
      !find_limit(condition, less->inputs[1], outer, loop, out))
    return false;
  if (most > 0 && (out->limit >= 0 || most < out->most)) out->most = most;
  if (out->most < 0) out->most = 0;
  return true;
}

// ---- Calls -----------------------------------------------------------------
typedef struct search {
  ls_emitter *e;
  ls_emit_around *out;
  bool gives;  // A call before this one takes results.
} search;

static bool refuse(search *s, ls_graph *graph, const ls_node *node) {
  s->out->other = ls_emit_host_label(s->e, graph, node);
  return false;
}

// Returns true if a call takes nothing from the program, and can come before
// those that do, or gives it nothing. What calls of TPU cores give does not
// depend on other calls.
static bool fits_around(search *s, ls_graph *graph, const ls_node *node,
                        bool is_in_loop) {
  const bool is_free = (flags_of(node) & LS_HOST_ON_CORES) != 0;
  int32_t rank = 0;
  for (uint32_t i = 0; i < node->num_inputs + node->num_outputs; ++i) {
    const ls_type type = i < node->num_inputs
                             ? ls_graph_type(graph, node->inputs[i])
                             : node->outputs[i - node->num_inputs];
    if (type.shape.rank > rank) rank = type.shape.rank;
    if (is_in_loop)
      s->out->bytes += ls_shape_num_elements(type.shape) *
                       (int64_t)ls_dtype_size(type.dtype);
  }
  const bool fits = node->num_outputs > 0
                        ? node->num_inputs == 0 && (is_free || !s->gives)
                        : is_free || !is_in_loop;
  s->gives |= !is_free && node->num_outputs == 0;
  return (fits && rank + is_in_loop <= LS_MAX_RANK) || refuse(s, graph, node);
}

static bool scan_loop(search *s, const ls_node *loop) {
  const bool is_known =
      s->out->loop == NULL &&
      ls_emit_count_trips(s->e->base.source.body, loop, &s->out->trips);
  const ls_node *tells = condition_call(loop->regions[0]);
  for (uint32_t r = 0; r < 2; ++r)
    for (size_t i = 0; i < loop->regions[r]->num_nodes; ++i) {
      ls_graph *region = loop->regions[r];
      const ls_node *node = region->nodes[i];
      const bool is_call = node->type == LS_OP_HOST;
      if (!is_call && !ls_emit_calls_host(node)) continue;
      if (!is_known || !is_call || (r == 0 && node != tells))
        return refuse(s, region, node);
      if (r == 1 && !fits_around(s, region, node, true)) return false;
    }
  s->out->loop = loop;
  return s->out->trips.limit >= 0 || s->out->bytes == 0 ||
         s->out->trips.most <= LS_EMIT_MOST_BYTES / s->out->bytes ||
         refuse(s, s->e->base.source.body, loop);
}

static bool scan_graph(search *s, ls_graph *graph) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    bool fits = true;
    if (node->type == LS_OP_HOST)
      fits = fits_around(s, graph, node, false);
    else if (node->type == LS_OP_REPLICATE && node->num_regions == 1)
      fits = scan_graph(s, node->regions[0]);
    else if (ls_emit_calls_host(node))
      fits = node->type == LS_OP_WHILE && graph == s->e->base.source.body
                 ? scan_loop(s, node)
                 : refuse(s, graph, node);
    if (!fits) return false;
  }
  return true;
}

void ls_emit_find_around(ls_emitter *e, int64_t room) {
  ls_emit_around *out = &e->around;
  *out = (ls_emit_around){.trips.limit = -1};
  search s = {.e = e, .out = out};
  out->is_around = scan_graph(&s, e->base.source.body);
  if (!out->is_around) out->loop = NULL;
  out->room = out->trips.limit < 0 ? out->trips.most : room;
  if (out->room < 1) out->room = 1;
}

// ---- Values ----------------------------------------------------------------
static void append(ls_emitter *e, ls_emitted_list *list, ls_emitted value) {
  ls_emit_append(e, list, (ls_emitted_list){&value, 1});
}

// The first indices of the trip's row.
static void find_row(ls_emitter *e, ls_emitted starts[LS_MAX_RANK]) {
  const ls_emitted trip = ls_emit_convert(e, e->around.trip, LS_DTYPE_I32);
  const ls_emitted zero = ls_emit_scalar(e, LS_DTYPE_I32, 0);
  for (int32_t i = 0; i < LS_MAX_RANK; ++i)
    starts[i] = i == 0 ? trip : zero;
}

// Makes the value of result `i`: an argument, or a row of one.
static ls_emitted take(ls_emitter *e, const ls_emit_host *site, size_t i) {
  const ls_emitted out = ls_emit_host_output(e, site, i);
  const ls_emitted_value like = *ls_emit_look(e, out);
  if (site->loop == 0) {
    append(e, &e->around.taken, out);
    return out;
  }
  ls_emitted starts[LS_MAX_RANK];
  const ls_emitted block = ls_emit_value(
      e, like.dtype, ls_dims_with_leading(like.dims, e->around.room), NULL);
  const ls_emitted row =
      ls_emit_value(e, like.dtype, ls_dims_with_leading(like.dims, 1), NULL);
  append(e, &e->around.taken, block);
  find_row(e, starts);
  if (!ls_status_is_ok(e->status)) return 0;
  e->language->dynamic_slice(e, block, starts, row);
  e->language->reshape(e, row, out);
  return out;
}

// Puts operand `i` into the trip's row of its block.
static void put_row(ls_emitter *e, ls_emitted x) {
  ls_emitted starts[LS_MAX_RANK];
  const ls_emitted_value from = *ls_emit_look(e, x);
  ls_emitted *block = &e->around.blocks.items[e->around.num_blocks++];
  const ls_emitted row =
      ls_emit_value(e, from.dtype, ls_dims_with_leading(from.dims, 1), NULL);
  find_row(e, starts);
  if (!ls_status_is_ok(e->status)) return;
  e->language->reshape(e, x, row);
  *block = ls_emit_dynamic_update(e, *block, row, starts);
}

void ls_emit_begin_blocks(ls_emitter *e) {
  ls_graph *region = e->around.loop->regions[1];
  e->loop = e->around.loop->id;
  for (size_t i = 0; i < region->num_nodes; ++i) {
    const ls_node *node = region->nodes[i];
    ls_emit_host *site = NULL;
    if (node->type != LS_OP_HOST || node->num_outputs > 0) continue;
    ls_emit_fail(e, ls_emit_add_site(e, region, node, &site));
    if (!ls_status_is_ok(e->status)) return;
    site->when = LS_EMIT_AFTER;
    for (size_t k = 0; k < site->num_inputs; ++k) {
      ls_batch_dims dims = ls_emit_static_dims(site->types[k].shape);
      if (site->wide[k] && site->num_local > 1)
        dims = ls_dims_with_leading(dims, site->num_local);
      append(e, &e->around.blocks,
             ls_emit_broadcast(e, ls_emit_scalar(e, site->types[k].dtype, 0),
                               ls_dims_with_leading(dims, e->around.room)));
    }
  }
}

// ---- Ops -------------------------------------------------------------------
void ls_emit_call_around(ls_emitter *e) {
  const ls_node *node = e->node;
  ls_emit_host *site = NULL;
  if (e->loop != 0 && node->num_outputs == 0) {
    const ls_emit_host *made = e->hosts;  // By ls_emit_begin_blocks.
    while (made->node != node)
      ++made;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      put_row(e, ls_emit_host_input(e, made, node, i));
    return;
  }
  ls_emit_fail(e, ls_emit_add_site(e, e->frame->source.body, node, &site));
  if (!ls_status_is_ok(e->status)) return;
  site->when = node->num_outputs == 0                  ? LS_EMIT_AFTER
               : (flags_of(node) & LS_HOST_TELLS) != 0 ? LS_EMIT_CONDITION
                                                       : LS_EMIT_BEFORE;
  // The loop ends at the trip before which the call has said so.
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const ls_emitted out = site->when != LS_EMIT_CONDITION
                               ? take(e, site, i)
                               : ls_emit_host_output(e, site, i);
    if (site->when == LS_EMIT_CONDITION && ls_status_is_ok(e->status))
      e->language->broadcast(e, ls_emit_scalar(e, ls_dtype_at(e, out), 1), out);
    ls_emit_bind(e, ls_ref(node->id, i), out);
  }
  for (uint32_t i = 0; i < node->num_inputs && site->when == LS_EMIT_AFTER; ++i)
    append(e, &e->around.given, ls_emit_host_input(e, site, node, i));
}

// SPDX-License-Identifier: Apache-2.0
//
// Emits calls of the host. They keep their order by a ticket, which each takes
// and gives on: the number of the run and that of the device.
#include "emit/emit.h"
#include "graph/walk.h"

bool ls_emit_calls_host(const ls_node *node) {
  for (uint32_t i = 0; i < node->num_regions; ++i)
    if (ls_graph_any_type(node->regions[i], LS_OP_HOST)) return true;
  return false;
}

void ls_emit_begin_host(ls_emitter *e, ls_emitted run) {
  ls_batch_dims one = {.rank = 1};
  one.dim[0] = ls_dim_of(1);
  const ls_emitted device = ls_emit_convert(e, ls_emit_device(e), LS_DTYPE_U64);
  const ls_emitted pair[] = {ls_emit_reshape(e, run, one),
                             ls_emit_reshape(e, device, one)};
  e->ticket = ls_emit_concatenate(e, pair, 2, 0);
}

ls_emitted ls_emit_is_live(ls_emitter *e) {
  static const int64_t starts[] = {1};
  const ls_batch_dims one = {.rank = 1, .dim = {ls_dim_of(1)}}, scalar = {0};
  const ls_emitted device = ls_emit_reshape(
      e, ls_emit_slice(e, e->ticket, starts, NULL, one), scalar);
  return ls_emit_2(e, LS_OP_LESS, device,
                   ls_emit_integer(e, LS_DTYPE_U64, LS_EMIT_TICKET_FAILED));
}

// Says for which replicas a call is made. An op of all replicas has R; in their
// region a call is one replica's, and what does not vary is called once.
static int32_t choose_replicas(ls_emitter *e, const ls_node *node,
                               ls_emit_host *site) {
  const ls_attr *replicas = ls_node_attr(node, LS_ATTR_ID_REPLICAS);
  const int32_t all = replicas != NULL ? (int32_t)replicas->as.i : 0;
  site->num_local = 1;
  if (all > 0) {
    site->num_local = all / e->num_devices;
    site->is_for_all = true;
    if (site->num_local * e->num_devices != all)
      ls_emit_refuse(e, "its replicas are no multiple of the devices");
  } else if (e->num_replicas > 0 && (e->lane >= 0 || e->varies)) {
    site->first = e->lane >= 0 ? e->lane : 0;
    site->stride = e->num_lanes;
  } else {
    site->first = (int32_t)ls_node_int(node, LS_ATTR_ID_REPLICA);
    site->is_shared = true;
  }
  return all;
}

static ls_status find_types(ls_emitter *e, const ls_graph *graph,
                            const ls_node *node, int32_t all,
                            ls_emit_host *site) {
  const size_t count = site->num_inputs + site->num_outputs;
  const ls_attr *wide = ls_node_attr(node, LS_ATTR_ID_WIDE);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, ls_type, types, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, bool, is_wide, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, size_t, strides, count + 1);
  for (size_t i = 0; wide != NULL && i < wide->as.ints.count; ++i)
    is_wide[wide->as.ints.items[i]] = true;
  for (size_t i = 0; i < count; ++i) {
    const bool is_in = i < site->num_inputs;
    types[i] = is_in ? ls_graph_type(graph, node->inputs[i])
                     : node->outputs[i - site->num_inputs];
    is_wide[i] |= !is_in && all > 0;
    if (is_wide[i]) LS_RETURN_IF_ERROR(ls_wide_part(types[i], all, &types[i]));
    if (is_wide[i]) strides[i] = ls_type_bytes(types[i]);
  }
  site->types = types;
  site->wide = is_wide;
  site->strides = strides;
  return ls_ok();
}

// Emits an operand of a call as its site takes it.
static ls_emitted host_input(ls_emitter *e, const ls_emit_host *site,
                             const ls_node *node, uint32_t i) {
  if (!site->wide[i]) return ls_emit_of(e, node->inputs[i]);
  const ls_emitted x = ls_emit_owned_of(e, node->inputs[i]);
  if (site->num_local == 1 || ls_emit_look(e, x)->stacked) return x;
  e->num_lanes = site->num_local;
  const ls_emitted all = ls_emit_spread(e, x);
  e->num_lanes = 0;
  return all;
}

// Makes a value for a result of a call.
static ls_emitted host_output(ls_emitter *e, const ls_emit_host *site,
                              size_t i) {
  const ls_type type = site->types[site->num_inputs + i];
  ls_batch_dims dims = ls_emit_static_dims(type.shape);
  const bool is_stacked =
      site->wide[site->num_inputs + i] && site->num_local > 1;
  if (is_stacked) dims = ls_emit_lead(e, dims, site->num_local);
  if (!ls_emit_is_ok(e)) return 0;
  const ls_emitted out = ls_emit_value(e, type.dtype, dims, NULL);
  if (out != 0) e->values[out].stacked = is_stacked;
  return out;
}

static const char *host_label(ls_emitter *e, ls_graph *graph,
                              const ls_node *node) {
  char text[LS_MAX_FULL_NAME], place[LS_MAX_FULL_NAME];
  const char *label = ls_arena_format(
      e->memory, "%s%s", ls_emit_describe_op(graph, node, text, sizeof(text)),
      ls_emit_describe_place(graph, node, place, sizeof(place)));
  if (label == NULL) ls_emit_fail(e, ls_out_of_memory());
  return label;
}

// Adds the site of a call of a graph to `hosts`, and returns it.
static ls_status add_site(ls_emitter *e, ls_graph *graph, const ls_node *node,
                          ls_emit_host **out_site) {
  const ls_attr *state = ls_node_attr(node, LS_ATTR_ID_STATE);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, ls_emit_host, sites, e->num_hosts + 1);
  if (e->num_hosts > 0) memcpy(sites, e->hosts, e->num_hosts * sizeof(*sites));
  ls_emit_host *site = &sites[e->num_hosts++];
  e->hosts = sites;
  *out_site = site;
  site->node = node;
  site->kernel = ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel;
  site->state =
      state != NULL && state->kind == LS_ATTR_OBJECT ? state->as.object : NULL;
  site->name = node->base == NULL ? site->kernel->name : node->base;
  site->label = host_label(e, graph, node);
  site->loop = e->loop;
  site->num_inputs = node->num_inputs;
  site->num_outputs = node->num_outputs;
  const int32_t all = choose_replicas(e, node, site);
  return find_types(e, graph, node, all, site);
}

// Emits a call that devices make.
static void call_inside(ls_emitter *e) {
  const ls_node *node = e->node;
  const size_t number = e->num_hosts;
  ls_emit_host *site = NULL;
  ls_emit_fail(e, add_site(e, e->frame->source.body, node, &site));
  ls_emitted *in = ls_emit_new_list(e, node->num_inputs);
  ls_emitted *out = ls_emit_new_list(e, node->num_outputs);
  if (!ls_emit_is_ok(e)) return;
  in[0] = e->ticket;
  out[0] = ls_emit_value(e, LS_DTYPE_U64, ls_emit_look(e, in[0])->dims, NULL);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i + 1] = host_input(e, site, node, i);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    out[i + 1] = host_output(e, site, i);
  if (!ls_emit_is_ok(e)) return;
  e->language->flow->call_host(e, number,
                               (ls_emitted_list){in, node->num_inputs + 1},
                               (ls_emitted_list){out, node->num_outputs + 1});
  e->ticket = out[0];
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(node->id, i), out[i + 1]);
}

// ---- Calls around a launch --------------------------------------------------
// Host calls that are made around a launch: those whose results no op computes
// give arguments of the module, those without results take its results. So do
// the calls of one counted loop, in blocks of a row for each trip. If a call is
// of another kind, devices make all calls of the program.

// ---- Counted loops ---------------------------------------------------------
static uint32_t flags_of(const ls_node *node) {
  return ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->flags;
}

// Finds the call that a condition makes, or NULL.
static const ls_node *condition_call(const ls_graph *condition) {
  for (size_t i = 0; i < condition->num_nodes; ++i)
    if (condition->nodes[i]->type == LS_OP_HOST) return condition->nodes[i];
  return NULL;
}

bool ls_emit_count_trips(const ls_graph *outer, const ls_node *loop,
                         ls_trips *out) {
  const ls_graph *condition = loop->regions[0];
  const ls_node *call = condition_call(condition);
  if (call != NULL && (flags_of(call) & LS_HOST_TELLS) == 0) return false;
  return ls_node_count_trips(outer, loop,
                             call != NULL && call->num_inputs == 1
                                 ? call->inputs[0]
                                 : condition->results[0],
                             out);
}

// ---- Calls -----------------------------------------------------------------
typedef struct search {
  ls_emitter *e;
  ls_emit_around *out;
  bool gives;  // A call before this one takes results.
} search;

static bool refuse(search *s, ls_graph *graph, const ls_node *node) {
  s->out->other = host_label(s->e, graph, node);
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
    if (is_in_loop) s->out->bytes += (int64_t)ls_type_bytes(type);
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
  const ls_emitted out = host_output(e, site, i);
  const ls_emitted_value like = *ls_emit_look(e, out);
  if (site->loop == 0) {
    append(e, &e->around.taken, out);
    return out;
  }
  ls_emitted starts[LS_MAX_RANK];
  const ls_emitted block = ls_emit_value(
      e, like.dtype, ls_emit_lead(e, like.dims, e->around.room), NULL);
  const ls_emitted row =
      ls_emit_value(e, like.dtype, ls_emit_lead(e, like.dims, 1), NULL);
  append(e, &e->around.taken, block);
  find_row(e, starts);
  if (!ls_emit_is_ok(e)) return 0;
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
      ls_emit_value(e, from.dtype, ls_emit_lead(e, from.dims, 1), NULL);
  find_row(e, starts);
  if (!ls_emit_is_ok(e)) return;
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
    ls_emit_fail(e, add_site(e, region, node, &site));
    if (!ls_emit_is_ok(e)) return;
    site->when = LS_EMIT_AFTER;
    for (size_t k = 0; k < site->num_inputs; ++k) {
      ls_batch_dims dims = ls_emit_static_dims(site->types[k].shape);
      if (site->wide[k] && site->num_local > 1)
        dims = ls_emit_lead(e, dims, site->num_local);
      append(e, &e->around.blocks,
             ls_emit_broadcast(e, ls_emit_scalar(e, site->types[k].dtype, 0),
                               ls_emit_lead(e, dims, e->around.room)));
    }
  }
}

// ---- Ops -------------------------------------------------------------------
static void call_around(ls_emitter *e) {
  const ls_node *node = e->node;
  ls_emit_host *site = NULL;
  if (e->loop != 0 && node->num_outputs == 0) {
    const ls_emit_host *made = e->hosts;  // By ls_emit_begin_blocks.
    while (made->node != node)
      ++made;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      put_row(e, host_input(e, made, node, i));
    return;
  }
  ls_emit_fail(e, add_site(e, e->frame->source.body, node, &site));
  if (!ls_emit_is_ok(e)) return;
  site->when = node->num_outputs == 0                  ? LS_EMIT_AFTER
               : (flags_of(node) & LS_HOST_TELLS) != 0 ? LS_EMIT_CONDITION
                                                       : LS_EMIT_BEFORE;
  // The loop ends at the trip before which the call has said so.
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const ls_emitted out = site->when != LS_EMIT_CONDITION
                               ? take(e, site, i)
                               : host_output(e, site, i);
    if (site->when == LS_EMIT_CONDITION && ls_emit_is_ok(e))
      e->language->broadcast(e, ls_emit_scalar(e, ls_dtype_at(e, out), 1), out);
    ls_emit_bind(e, ls_ref(node->id, i), out);
  }
  for (uint32_t i = 0; i < node->num_inputs && site->when == LS_EMIT_AFTER; ++i)
    append(e, &e->around.given, host_input(e, site, node, i));
}

bool ls_emit_host_op(ls_emitter *e) {
  if (e->node->type != LS_OP_HOST) return false;
  if (e->around.is_around)
    call_around(e);
  else if (e->ticket == 0)
    ls_emit_refuse(e, "there is no host to call");
  else
    call_inside(e);
  return true;
}

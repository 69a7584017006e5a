// SPDX-License-Identifier: Apache-2.0
//
// Emits calls of the host. They keep their order by a ticket, which each takes
// and gives on: the number of the run and that of the device.
#include "base/memory/own.h"
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
  return ls_emit_2(
      e, LS_OP_LESS, device,
      ls_emit_scalar(e, LS_DTYPE_U64, (double)LS_EMIT_TICKET_FAILED));
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
    if (is_wide[i])
      strides[i] = (size_t)ls_shape_num_elements(types[i].shape) *
                   ls_dtype_size(types[i].dtype);
  }
  site->types = types;
  site->wide = is_wide;
  site->strides = strides;
  return ls_ok();
}

ls_emitted ls_emit_host_input(ls_emitter *e, const ls_emit_host *site,
                              const ls_node *node, uint32_t i) {
  if (!site->wide[i]) return ls_emit_of(e, node->inputs[i]);
  const ls_emitted x = ls_emit_owned_of(e, node->inputs[i]);
  if (site->num_local == 1 || ls_emit_look(e, x)->stacked) return x;
  e->num_lanes = site->num_local;
  const ls_emitted all = ls_emit_spread(e, x);
  e->num_lanes = 0;
  return all;
}

ls_emitted ls_emit_host_output(ls_emitter *e, const ls_emit_host *site,
                               size_t i) {
  const ls_type type = site->types[site->num_inputs + i];
  ls_batch_dims dims = ls_emit_static_dims(type.shape);
  const bool is_stacked =
      site->wide[site->num_inputs + i] && site->num_local > 1;
  if (is_stacked && dims.rank >= LS_MAX_RANK)
    ls_emit_refuse(e, "a value of several replicas has too many dimensions");
  if (!ls_status_is_ok(e->status)) return 0;
  if (is_stacked) dims = ls_dims_with_leading(dims, site->num_local);
  const ls_emitted out = ls_emit_value(e, type.dtype, dims, NULL);
  if (out != 0) e->values[out].stacked = is_stacked;
  return out;
}

const char *ls_emit_host_label(ls_emitter *e, ls_graph *graph,
                               const ls_node *node) {
  char text[LS_MAX_FULL_NAME], place[LS_MAX_FULL_NAME];
  const char *label = ls_arena_format(
      e->memory, "%s%s", ls_emit_describe_op(graph, node, text, sizeof(text)),
      ls_emit_describe_place(graph, node, place, sizeof(place)));
  if (label == NULL) ls_emit_fail(e, ls_out_of_memory());
  return label;
}

ls_status ls_emit_add_site(ls_emitter *e, ls_graph *graph, const ls_node *node,
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
  site->label = ls_emit_host_label(e, graph, node);
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
  ls_emit_fail(e, ls_emit_add_site(e, e->frame->source.body, node, &site));
  ls_emitted *in = ls_emit_new_list(e, node->num_inputs);
  ls_emitted *out = ls_emit_new_list(e, node->num_outputs);
  if (!ls_status_is_ok(e->status)) return;
  in[0] = e->ticket;
  out[0] = ls_emit_value(e, LS_DTYPE_U64, ls_emit_look(e, in[0])->dims, NULL);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i + 1] = ls_emit_host_input(e, site, node, i);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    out[i + 1] = ls_emit_host_output(e, site, i);
  if (!ls_status_is_ok(e->status)) return;
  e->language->flow->call_host(e, number,
                               (ls_emitted_list){in, node->num_inputs + 1},
                               (ls_emitted_list){out, node->num_outputs + 1});
  e->ticket = out[0];
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(node->id, i), out[i + 1]);
}

bool ls_emit_host_op(ls_emitter *e) {
  if (e->node->type != LS_OP_HOST) return false;
  if (e->around.is_around)
    ls_emit_call_around(e);
  else if (e->ticket == 0)
    ls_emit_refuse(e, "there is no host to call");
  else
    call_inside(e);
  return true;
}

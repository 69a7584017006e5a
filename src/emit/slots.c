// SPDX-License-Identifier: Apache-2.0
//
// Finds which values of a program each device of several takes and gives.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "emit/stablehlo_module.h"

enum { NO_PARAMETER = UINT32_MAX };

// The slot of each parameter, and the device that takes it.
typedef struct claim {
  ls_hlo_slot slot;
  int32_t owner;  // Number + 1; 0: all devices take it.
} claim;

typedef struct argument_search {
  int32_t num_devices;
  claim *claims;
  ls_arena *memory;
} argument_search;

// Returns the program's parameter that a ref of this graph is, by those that
// the graph's parameters are.
static uint32_t parameter_of(const ls_graph *graph, const uint32_t *known,
                             uint64_t ref) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  return node->type == LS_OP_PARAMETER
             ? known[ls_node_int(node, LS_ATTR_ID_INDEX)]
             : (uint32_t)NO_PARAMETER;
}

// Claims the parameters of one lane, one for each device, if their positions
// have a common distance and nobody claims them otherwise.
static void claim_lane(argument_search *s, const uint32_t *parameters,
                       int32_t lanes) {
  const uint32_t first = parameters[0];
  if (first == NO_PARAMETER || parameters[lanes] == NO_PARAMETER ||
      parameters[lanes] <= first)
    return;
  const ls_hlo_slot slot = {.first = first,
                            .stride = parameters[lanes] - first};
  for (int32_t pass = 0; pass < 2; ++pass)
    for (int32_t d = 0; d < s->num_devices; ++d) {
      const uint32_t at = parameters[d * lanes];
      if (at != first + (uint32_t)d * slot.stride) return;
      claim *own = &s->claims[at];
      if (own->owner != 0 && (own->owner != d + 1 || own->slot.first != first ||
                              own->slot.stride != slot.stride))
        return;
      if (pass == 1) *own = (claim){slot, d + 1};
    }
}

static ls_status claim_replicas(argument_search *s, const ls_graph *graph,
                                const uint32_t *known, const ls_node *node) {
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  const size_t split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT);
  const int32_t lanes = (int32_t)replicas / s->num_devices;
  LS_ARENA_ARRAY_OR_RETURN(s->memory, uint32_t, parameters, replicas + 1);
  if (lanes * s->num_devices != (int32_t)replicas) return ls_ok();
  for (size_t i = 0; i < split; ++i) {
    for (size_t r = 0; r < replicas; ++r)
      parameters[r] =
          parameter_of(graph, known, node->inputs[i * replicas + r]);
    for (int32_t lane = 0; lane < lanes; ++lane)
      claim_lane(s, parameters + lane, lanes);
  }
  return ls_ok();
}

// Looks for replicas in a graph and its regions.
static ls_status search_graph(argument_search *s, const ls_graph *graph,
                              const uint32_t *known) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type == LS_OP_REPLICATE) {
      LS_RETURN_IF_ERROR(claim_replicas(s, graph, known, node));
      continue;
    }
    for (uint32_t r = 0; r < node->num_regions; ++r) {
      const ls_graph *region = node->regions[r];
      LS_ARENA_ARRAY_OR_RETURN(s->memory, uint32_t, inner,
                               region->num_parameters + 1);
      for (size_t k = 0; k < region->num_parameters; ++k) {
        const size_t at =
            k < region->num_declared
                ? k
                : ls_node_captures(node, r) + k - region->num_declared;
        inner[k] = parameter_of(graph, known, node->inputs[at]);
      }
      LS_RETURN_IF_ERROR(search_graph(s, region, inner));
    }
  }
  return ls_ok();
}

ls_status ls_hlo_find_arguments(const ls_graph *body, int32_t num_devices,
                                ls_arena *memory, ls_hlo_layout *layout) {
  const size_t count = body->num_parameters;
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_hlo_slot, slots, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, claim, claims, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, uint32_t, known, count + 1);
  argument_search search = {num_devices, claims, memory};
  for (size_t i = 0; i < count; ++i)
    known[i] = (uint32_t)i;
  if (num_devices > 1) LS_RETURN_IF_ERROR(search_graph(&search, body, known));
  layout->arguments = slots;
  layout->num_arguments = 0;
  for (size_t i = 0; i < count; ++i)
    if (claims[i].owner < 2)
      slots[layout->num_arguments++] =
          claims[i].owner == 1 ? claims[i].slot
                               : (ls_hlo_slot){.first = (uint32_t)i};
  return ls_ok();
}

// ---- Results ---------------------------------------------------------------
static bool is_part(ls_emitter *e, const uint64_t *refs, size_t first,
                    size_t at, int32_t device) {
  const ls_emitted_value a = *ls_emit_look(e, ls_emit_owned_of(e, refs[first]));
  const ls_emitted_value b = *ls_emit_look(e, ls_emit_owned_of(e, refs[at]));
  return a.owner == 1 && b.owner == device + 1 && a.origin == b.origin;
}

// Returns the distance of the results of one lane from device to device; 0: it
// is not the same everywhere.
static size_t distance_of(ls_emitter *e, const uint64_t *refs, size_t count,
                          size_t first) {
  const size_t devices = (size_t)e->num_devices;
  for (size_t step = 1; devices > 1 && first + (devices - 1) * step < count;
       ++step) {
    size_t d = 0;
    while (d < devices && is_part(e, refs, first, first + d * step, (int32_t)d))
      ++d;
    if (d == devices) return step;
  }
  return 0;
}

ls_status ls_hlo_find_results(ls_emitter *e, const uint64_t *refs, size_t count,
                              ls_emitted *values, ls_hlo_layout *layout) {
  LS_ARENA_ARRAY_OR_RETURN(e->memory, ls_hlo_slot, slots, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, bool, is_found, count + 1);
  layout->results = slots;
  layout->num_results = 0;
  for (size_t i = 0; i < count; ++i) {
    if (is_found[i]) continue;
    const size_t step = distance_of(e, refs, count, i);
    for (int32_t d = 0; step > 0 && d < e->num_devices; ++d)
      is_found[i + (size_t)d * step] = true;
    values[layout->num_results] =
        step > 0 ? ls_emit_owned_of(e, refs[i]) : ls_emit_of(e, refs[i]);
    slots[layout->num_results++] = (ls_hlo_slot){(uint32_t)i, (uint32_t)step};
  }
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
//
// Emission of loops, branches and host calls.
//
// Loops and branches are flattened into their stream:
//
//       carried = initial                   branch predicate -> else
//       loop_begin                            then, results = its results
//   top: loop_next -> end                     jump end
//       condition; branch -> end         else: else, results = its results
//       body; carried = its results      end:
//       jump top
//   end: loop_end
#include "engine/cpu/compile/compile.h"
#include "graph/op_table.h"
#include "graph/walk.h"

// Returns true if a graph calls the host, at any depth.
static bool calls_host(const ls_graph *graph) {
  return ls_graph_any_type(graph, LS_OP_HOST);
}

// Enters region `r` of an op: binds its declared parameters to `declared`, and
// its captures to the op's last inputs.
static void enter_region(ls_cpu_compiler *self, const ls_cpu_scope *outer,
                         const ls_node *node, uint32_t r,
                         const uint32_t *declared, ls_cpu_scope *out_scope) {
  const ls_graph *region = node->regions[r];
  ls_cpu_scope_init(self, out_scope, region);
  if (ls_cpu_failed(self)) return;
  for (size_t i = 0; i < region->num_declared; ++i)
    ls_cpu_bind_ref(self, out_scope, region->parameters[i], declared[i]);
  const uint64_t *captured = node->inputs + ls_node_captures(node, r);
  for (size_t i = 0; i < region->num_captures; ++i) {
    ls_cpu_bind_ref(self, out_scope,
                    region->parameters[region->num_declared + i],
                    ls_cpu_storage_of(self, outer, captured[i]));
  }
}

// ---- Loops -----------------------------------------------------------------
// Copies the body's results into the loop-carried storages, as if
// simultaneously: a storage that is the source of a later copy is saved first.
static void emit_carry(ls_cpu_compiler *self, const ls_node *node,
                       const ls_cpu_scope *body, const uint32_t *carried,
                       uint32_t count) {
  uint32_t *from = ls_arena_new_array(&self->temp, uint32_t, count);
  if (!ls_cpu_has_memory(self, from != NULL)) return;
  for (uint32_t i = 0; i < count; ++i) {
    from[i] = ls_cpu_storage_of(self, body, body->graph->results[i]);
    if (ls_cpu_failed(self)) return;
    for (uint32_t k = 0; k < count; ++k) {
      if (k == i || from[i] != carried[k]) continue;
      const uint32_t aside =
          ls_cpu_new_storage(self, self->storages[from[i]].size);
      ls_cpu_emit_copy(self, node, aside, from[i]);
      from[i] = aside;
      break;
    }
  }
  for (uint32_t i = 0; i < count; ++i)
    ls_cpu_emit_copy(self, node, carried[i], from[i]);
}

// Makes the loop-carried storages, with their initial values.
static uint32_t *make_carried(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                              const ls_node *node, uint32_t count) {
  uint32_t *carried = ls_arena_new_array(&self->temp, uint32_t, count);
  if (!ls_cpu_has_memory(self, carried != NULL)) return NULL;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t initial = ls_cpu_storage_of(self, scope, node->inputs[i]);
    if (ls_cpu_failed(self)) return NULL;
    carried[i] = ls_cpu_new_storage(self, self->storages[initial].size);
    ls_cpu_emit_copy(self, node, carried[i], initial);
  }
  return carried;
}

static void add_loop(ls_cpu_compiler *self, uint32_t begin, uint32_t end) {
  if (ls_cpu_failed(self)) return;
  if (!ls_cpu_has_memory(self,
                         LS_GROW(self->allocator, self->loops,
                                 self->loops_capacity, self->num_loops + 1)))
    return;
  self->loops[self->num_loops++] = (ls_cpu_stretch){begin, end};
}

// Checks a loop in lanes that counts steps: all lanes must make the same number
// of trips, since a rank knows only its own lanes' trips. A collective in each
// trip guarantees this.
static void count_steps_in_lanes(ls_cpu_compiler *self,
                                 const ls_cpu_scope *scope,
                                 const ls_node *node) {
  const ls_graph *body = node->regions[1];
  self->out->lanes_count_steps = true;
  if (!ls_cpu_has_remote(&self->share)) return;
  for (size_t i = 0; i < body->num_nodes; ++i)
    if (ls_node_info(body->nodes[i])->traits & LS_OP_MERGE) return;
  ls_cpu_fail_at(
      self, scope->graph, node,
      ls_unimplemented("on several ranks, a loop in a replica's code that "
                       "counts its iterations as steps and has no collective; "
                       "all_reduce something in its body, or use ls_while"));
}

void ls_cpu_emit_while(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node) {
  const uint32_t count = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  const uint32_t *carried = make_carried(self, scope, node, count);
  if (carried == NULL) return;
  // Lanes begin the later trips of a loop with host calls in any order.
  if (calls_host(node->regions[0]) || calls_host(node->regions[1]))
    self->in_order = false;

  const uint32_t state = ls_cpu_new_storage(self, sizeof(ls_cpu_loop_state));
  ls_cpu_emit(self, LS_CPU_LOOP_BEGIN, node);
  ls_cpu_write(self, state);
  const uint32_t top = ls_cpu_emit(self, LS_CPU_LOOP_NEXT, node);
  ls_cpu_write(self, state);

  ls_cpu_scope condition, body;
  enter_region(self, scope, node, 0, carried, &condition);
  ls_cpu_emit_graph(self, &condition);
  const uint32_t holds =
      ls_cpu_storage_of(self, &condition, node->regions[0]->results[0]);
  const uint32_t branch = ls_cpu_emit(self, LS_CPU_BRANCH, node);
  ls_cpu_read(self, holds);

  enter_region(self, scope, node, 1, carried, &body);
  ls_cpu_emit_graph(self, &body);
  if (!ls_cpu_failed(self)) emit_carry(self, node, &body, carried, count);
  const uint32_t jump = ls_cpu_emit(self, LS_CPU_JUMP, node);
  add_loop(self, top, jump);
  const uint32_t end = ls_cpu_emit(self, LS_CPU_LOOP_END, node);
  ls_cpu_write(self, state);
  if (ls_cpu_failed(self)) return;
  ls_cpu_at(self, top)->size = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
  ls_cpu_at(self, top)->target = end;
  if (ls_node_int(node, LS_ATTR_ID_COUNTS_STEPS) != 0) {
    ls_cpu_at(self, top)->number = ls_cpu_at(self, end)->number = 1;
    if (self->in_lane) count_steps_in_lanes(self, scope, node);
  }
  ls_cpu_at(self, branch)->target = end;
  ls_cpu_at(self, jump)->target = top;
  for (uint32_t i = 0; i < count; ++i)
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), carried[i]);
}

// ---- Branches --------------------------------------------------------------
// Emits a branch. The first one makes the storages of the results, as large as
// its own values: for a wide value, this rank's parts only.
static void emit_branch(ls_cpu_compiler *self, ls_cpu_scope *scope,
                        const ls_node *node, uint32_t r, uint32_t *results) {
  ls_cpu_scope inner;
  enter_region(self, scope, node, r, NULL, &inner);
  ls_cpu_emit_graph(self, &inner);
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    const uint32_t from =
        ls_cpu_storage_of(self, &inner, node->regions[r]->results[i]);
    if (ls_cpu_failed(self)) return;
    if (r == 0)
      results[i] = ls_cpu_new_storage(self, self->storages[from].size);
    ls_cpu_emit_copy(self, node, results[i], from);
  }
}

static void add_fork(ls_cpu_compiler *self, uint32_t begin, uint32_t otherwise,
                     uint32_t end) {
  if (ls_cpu_failed(self)) return;
  if (!ls_cpu_has_memory(self,
                         LS_GROW(self->allocator, self->forks,
                                 self->forks_capacity, self->num_forks + 1)))
    return;
  self->forks[self->num_forks++] =
      (ls_cpu_fork){{{begin, otherwise - 1}, {otherwise, end - 1}}};
}

void ls_cpu_emit_cond(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node) {
  uint32_t *results =
      ls_arena_new_array(&self->temp, uint32_t, node->num_outputs);
  if (!ls_cpu_has_memory(self, results != NULL)) return;
  const uint32_t predicate = ls_cpu_storage_of(self, scope, node->inputs[0]);
  const uint32_t branch = ls_cpu_emit(self, LS_CPU_BRANCH, node);
  ls_cpu_read(self, predicate);
  emit_branch(self, scope, node, 0, results);
  const uint32_t jump = ls_cpu_emit(self, LS_CPU_JUMP, node);
  const uint32_t otherwise = ls_cpu_here(self);
  emit_branch(self, scope, node, 1, results);
  add_fork(self, branch + 1, otherwise, ls_cpu_here(self));
  if (ls_cpu_failed(self)) return;
  ls_cpu_at(self, branch)->target = otherwise;
  ls_cpu_at(self, jump)->target = ls_cpu_here(self);
  for (unsigned i = 0; i < node->num_outputs; ++i)
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), results[i]);
}

// ---- Host calls ------------------------------------------------------------
// Strings and objects of a result point to memory that the engine cannot own.
static ls_status check_host(const ls_node *node) {
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    const ls_dtype dtype = node->outputs[i].dtype;
    if (dtype == LS_DTYPE_RESOURCE || dtype == LS_DTYPE_VARIANT) {
      return ls_unimplemented("a host call gives a %s: the CPU engine keeps "
                              "numbers and strings only",
                              ls_dtype_name(dtype));
    }
  }
  return ls_ok();
}

// Reduces the types to those of one of R calls, and notes which operands are
// wide.
static ls_status find_call_types(const ls_node *node, int64_t replicas,
                                 ls_type *types, bool *is_wide) {
  const ls_attr *wide = ls_node_attr(node, LS_ATTR_ID_WIDE);
  for (size_t i = 0; wide != NULL && i < wide->as.ints.count; ++i)
    is_wide[wide->as.ints.items[i]] = true;
  for (unsigned i = 0; i < node->num_outputs; ++i)
    is_wide[node->num_inputs + i] = true;
  for (size_t i = 0; i < (size_t)node->num_inputs + node->num_outputs; ++i)
    if (is_wide[i])
      LS_RETURN_IF_ERROR(ls_wide_part(types[i], replicas, &types[i]));
  return ls_ok();
}

static ls_status make_types(ls_arena *arena, const ls_graph *graph,
                            const ls_node *node, ls_cpu_host *host) {
  const size_t count = (size_t)node->num_inputs + node->num_outputs;
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_type, types, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, size_t, sizes, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, size_t, strides, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, bool, is_wide, count);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    types[i] = ls_graph_type(graph, node->inputs[i]);
  for (unsigned i = 0; i < node->num_outputs; ++i)
    types[node->num_inputs + i] = node->outputs[i];
  if (host->is_for_all)
    LS_RETURN_IF_ERROR(find_call_types(
        node, ls_node_int(node, LS_ATTR_ID_REPLICAS), types, is_wide));
  for (size_t i = 0; i < count; ++i) {
    sizes[i] = ls_type_bytes(types[i]);
    strides[i] = is_wide[i] ? sizes[i] : 0;
  }
  host->types = types;
  host->sizes = sizes;
  host->strides = strides;
  return ls_ok();
}

static ls_status make_host(ls_cpu_compiler *self, const ls_graph *graph,
                           const ls_node *node, ls_cpu_host **out_host) {
  LS_RETURN_IF_ERROR(check_host(node));
  const ls_attr *attr = ls_node_attr(node, LS_ATTR_ID_KERNEL);
  const ls_attr *state = ls_node_attr(node, LS_ATTR_ID_STATE);
  const ls_attr *replicas = ls_node_attr(node, LS_ATTR_ID_REPLICAS);
  if (attr == NULL || attr->kind != LS_ATTR_KERNEL)
    return ls_internal("a host op without a kernel");
  LS_ARENA_NEW_OR_RETURN(&self->out->arena, ls_cpu_host, host);
  const ls_host_kernel *kernel = attr->as.kernel;
  const bool is_for_all = replicas != NULL;
  const bool is_inline = (kernel->flags & LS_HOST_INLINE) != 0;
  const bool at_once = is_inline && (kernel->flags & LS_HOST_WAITS) == 0;
  const bool by_one = is_for_all && (kernel->flags & LS_HOST_ALL) != 0;
  const ls_cpu_share share =
      ls_cpu_share_of(self->out, is_for_all ? replicas->as.i : 1);
  *host = (ls_cpu_host){
      .kernel = kernel,
      .name = node->base == NULL ? kernel->name : node->base,
      .num_in = node->num_inputs,
      .num_out = node->num_outputs,
      .is_for_all = is_for_all,
      .by_one_call = by_one,
      .replica = (int32_t)ls_node_int(node, LS_ATTR_ID_REPLICA),
      .share = share,
      .parts = by_one ? ls_cpu_num_local(&share) : 1,
      .is_inline = is_inline,
      .ends_at_once = at_once,
      .copies_in = !is_inline,
      .copies_out = !at_once && kernel->take == NULL,
      .site = LS_CPU_NO_SITE,
  };
  if (state != NULL && state->kind == LS_ATTR_OBJECT)
    host->state = state->as.object;
  *out_host = host;
  return make_types(&self->out->arena, graph, node, host);
}

// Emits one of a call's two instructions. Inputs are in use until they are
// copied, or to the call's end; outputs from where they are written.
static uint32_t emit_host_part(ls_cpu_compiler *self, const ls_node *node,
                               ls_cpu_code code, const ls_cpu_host *host,
                               const uint32_t *storages) {
  const uint32_t position = ls_cpu_emit(self, code, node);
  const bool is_start = code == LS_CPU_HOST_START;
  if (is_start || (!host->ends_at_once && !host->copies_in))
    for (uint32_t i = 0; i < host->num_in; ++i)
      ls_cpu_read(self, storages[i]);
  if (is_start == host->ends_at_once)
    for (uint32_t i = 0; i < host->num_out; ++i)
      ls_cpu_write(self, storages[host->num_in + i]);
  if (!ls_cpu_failed(self)) ls_cpu_at(self, position)->params = host;
  return position;
}

static void note_call(ls_cpu_compiler *self, ls_cpu_host *host) {
  ls_executable *out = self->out;
  out->calls_host = true;
  for (uint32_t i = 0; i < host->num_in + host->num_out; ++i)
    out->host_has_strings |= host->types[i].dtype == LS_DTYPE_STRING;
  if (host->is_for_all) host->number = out->num_slots++;
  if (!self->in_lane) {
    host->site = out->num_sites++;
    return;
  }
  const ls_cpu_host_room room = ls_cpu_room_of(host);
  ls_cpu_host_room *most = &out->lanes_room;
  if (room.operands > most->operands) most->operands = room.operands;
  if (room.bytes > most->bytes) most->bytes = room.bytes;
  out->lanes_call_host = true;
  self->in_order = false;
}

// Fails for a call of all replicas inside a replicate op.
static ls_status check_position(const ls_cpu_compiler *self,
                                const ls_node *node) {
  if (ls_node_attr(node, LS_ATTR_ID_REPLICAS) != NULL &&
      (self->in_lane || self->share.replicas != 1))
    return ls_internal("a call of all replicas in the body of one");
  return ls_ok();
}

// Finds the storages of the operands, and makes those of the outputs.
static void find_operands(ls_cpu_compiler *self, ls_cpu_scope *scope,
                          const ls_node *node, const ls_cpu_host *host,
                          uint32_t *storages) {
  const size_t parts = ls_cpu_num_local(&host->share);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    storages[i] = host->strides[i] > 0
                      ? ls_cpu_wide_storage(self, scope, node->inputs[i],
                                            host->sizes[i] * parts)
                      : ls_cpu_storage_of(self, scope, node->inputs[i]);
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    uint32_t *storage = &storages[node->num_inputs + i];
    *storage =
        ls_cpu_new_storage(self, host->sizes[node->num_inputs + i] * parts);
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), *storage);
  }
}

void ls_cpu_emit_host(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node) {
  ls_cpu_host *host = NULL;
  ls_status status = check_position(self, node);
  if (ls_status_is_ok(status))
    status = make_host(self, scope->graph, node, &host);
  uint32_t *storages = ls_arena_new_array(&self->temp, uint32_t,
                                          node->num_inputs + node->num_outputs);
  if (ls_status_is_ok(status) && storages == NULL) status = ls_out_of_memory();
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(self, scope->graph, node, status);
    return;
  }
  find_operands(self, scope, node, host, storages);
  emit_host_part(self, node, LS_CPU_HOST_START, host, storages);
  ls_cpu_label(self, scope->graph, node);
  const uint32_t finish =
      emit_host_part(self, node, LS_CPU_HOST_FINISH, host, storages);
  ls_cpu_label(self, scope->graph, node);
  ls_cpu_park(self);
  if (ls_cpu_failed(self)) return;
  host->label = self->origins[finish].note.label;
  host->path = self->origins[finish].note.name;
  note_call(self, host);
}

// SPDX-License-Identifier: Apache-2.0
//
// The stream being emitted: instructions, appended one by one, their operand
// storages, and the storage of each graph value.
#include "engine/cpu/compile/compile.h"

// ---- Failures and names ----------------------------------------------------
void ls_cpu_fail(ls_cpu_compiler *self, ls_status status) {
  self->status = ls_status_join(self->status, status);
}

bool ls_cpu_has_memory(ls_cpu_compiler *self, bool has_memory) {
  if (!has_memory) ls_cpu_fail(self, ls_out_of_memory());
  return has_memory;
}

// Returns the user's op that a lowered node came from, if it still exists, else
// the node itself. Naming a node only fills a cache: the graphs do not change.
static ls_node *user_op_of(const ls_graph *graph, const ls_node *node,
                           ls_graph **out_graph) {
  *out_graph = ls_graph_resolve(node->origin.graph);
  ls_node *origin =
      *out_graph == NULL ? NULL : ls_graph_node(*out_graph, node->origin.id);
  if (origin != NULL) return origin;
  *out_graph = (ls_graph *)(uintptr_t)graph;
  return (ls_node *)(uintptr_t)node;
}

void ls_cpu_label(ls_cpu_compiler *self, const ls_graph *graph,
                  const ls_node *node) {
  if (ls_cpu_failed(self)) return;
  ls_graph *named = NULL;
  ls_node *origin = user_op_of(graph, node, &named);
  char buffer[256];
  const char *label =
      ls_arena_string(&self->out->arena,
                      ls_node_describe(named, origin, buffer, sizeof(buffer)));
  if (label == NULL) ls_cpu_fail(self, ls_out_of_memory());
  self->origins[ls_cpu_here(self) - 1].note.label = label;
}

void ls_cpu_fail_at(ls_cpu_compiler *self, const ls_graph *graph,
                    const ls_node *node, ls_status status) {
  ls_graph *named = NULL;
  ls_node *origin = user_op_of(graph, node, &named);
  char buffer[256];
  ls_cpu_fail(self, ls_status_annotate(status, "in %s",
                                       ls_node_describe(named, origin, buffer,
                                                        sizeof(buffer))));
}

// Returns the name of the user's op, for the listing; NULL if it has none.
static const char *user_op_name(ls_cpu_compiler *self, const ls_node *node) {
  if (node == NULL || node->origin.graph == NULL) return NULL;
  if (node == self->named) return self->name;
  ls_graph *named = NULL;
  ls_node *origin = user_op_of(NULL, node, &named);
  if (named == NULL) return NULL;
  const char *name = ls_node_name(named, origin);
  // Without memory the name has no scope.
  const bool is_whole = origin->rendered != NULL || origin->base == NULL;
  self->named = node;
  self->name = is_whole ? ls_arena_string(&self->out->arena, name) : NULL;
  if (self->name == NULL) ls_cpu_fail(self, ls_out_of_memory());
  return self->name;
}

// Makes room for one more item; returns false after a failure.
static bool reserve_item(ls_cpu_compiler *self, void *array, size_t *capacity,
                         size_t count, size_t item_size) {
  if (ls_cpu_failed(self)) return false;
  if (count < UINT32_MAX - 1 &&
      ls_grow(self->allocator, array, capacity, count + 1, item_size))
    return true;
  ls_cpu_fail(self, ls_out_of_memory());
  return false;
}

// ---- Instructions ----------------------------------------------------------
uint32_t ls_cpu_here(const ls_cpu_compiler *self) {
  return (uint32_t)self->num_instructions;
}

// Returns position 0, which exists from the start, after a failure.
uint32_t ls_cpu_emit(ls_cpu_compiler *self, ls_cpu_code code,
                     const ls_node *node) {
  const uint32_t position = ls_cpu_here(self);
  if (!reserve_item(self, &self->instructions, &self->instructions_capacity,
                    position, sizeof(*self->instructions)) ||
      !reserve_item(self, &self->origins, &self->origins_capacity, position,
                    sizeof(*self->origins)))
    return 0;
  self->instructions[position] = (ls_cpu_instruction){
      .code = code, .operand = (uint32_t)self->num_operands};
  self->origins[position] = (ls_cpu_origin){
      .note = {.node = node,
               .name = user_op_name(self, node),
               .trips = self->trips},
      .replicate = self->in_lane ? self->replicate : LS_CPU_NONE};
  ++self->num_instructions;
  return position;
}

static void add_operand(ls_cpu_compiler *self, uint32_t storage) {
  if (!reserve_item(self, &self->operands, &self->operands_capacity,
                    self->num_operands, sizeof(*self->operands)))
    return;
  self->operands[self->num_operands++] = storage;
}

void ls_cpu_read(ls_cpu_compiler *self, uint32_t storage) {
  add_operand(self, storage);
  if (ls_cpu_failed(self)) return;
  ls_cpu_instruction *last = ls_cpu_at(self, ls_cpu_here(self) - 1);
  LS_ASSERT(last->num_out == 0);
  ++last->num_in;
}

void ls_cpu_write(ls_cpu_compiler *self, uint32_t storage) {
  add_operand(self, storage);
  if (ls_cpu_failed(self)) return;
  ++ls_cpu_at(self, ls_cpu_here(self) - 1)->num_out;
}

void ls_cpu_emit_copy(ls_cpu_compiler *self, const ls_node *node,
                      uint32_t target, uint32_t from) {
  if (ls_cpu_failed(self) || target == from) return;
  const uint32_t position = ls_cpu_emit(self, LS_CPU_COPY, node);
  ls_cpu_read(self, from);
  ls_cpu_write(self, target);
  if (ls_cpu_failed(self)) return;
  LS_ASSERT(self->storages[target].size == self->storages[from].size);
  ls_cpu_at(self, position)->size = (int64_t)self->storages[target].size;
}

void ls_cpu_park(ls_cpu_compiler *self) {
  if (!self->in_lane || !reserve_item(self, &self->parks, &self->parks_capacity,
                                      self->num_parks, sizeof(*self->parks)))
    return;
  self->parks[self->num_parks++] = ls_cpu_here(self) - 1;
}

// ---- Storages --------------------------------------------------------------
size_t ls_cpu_ref_size(const ls_graph *graph, uint64_t ref) {
  return ls_type_bytes(ls_graph_type(graph, ref));
}

uint32_t ls_cpu_new_base(ls_cpu_compiler *self, ls_cpu_home home,
                         uint32_t index, size_t size) {
  const uint32_t number = (uint32_t)self->num_storages;
  if (!reserve_item(self, &self->storages, &self->storages_capacity, number,
                    sizeof(*self->storages)))
    return 0;
  self->storages[number] = (ls_cpu_storage){
      .home = home,
      .is_lane = home == LS_CPU_SPLIT || home == LS_CPU_GATHERED,
      .index = index,
      .merged = number,
      .size = size,
      .first_access = LS_CPU_NONE,
      .last_access = LS_CPU_NONE,
  };
  ++self->num_storages;
  return number;
}

uint32_t ls_cpu_new_shared(ls_cpu_compiler *self, size_t size) {
  return ls_cpu_new_base(self, LS_CPU_ARENA, 0, size);
}

uint32_t ls_cpu_new_storage(ls_cpu_compiler *self, size_t size) {
  const uint32_t storage = ls_cpu_new_shared(self, size);
  if (!ls_cpu_failed(self)) self->storages[storage].is_lane = self->in_lane;
  return storage;
}

// ---- Scopes ----------------------------------------------------------------
void ls_cpu_scope_init(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_graph *graph) {
  *scope = (ls_cpu_scope){.graph = graph};
  if (ls_cpu_failed(self)) return;
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    count += graph->nodes[i]->num_outputs;
  scope->first = ls_arena_new_array(&self->temp, uint32_t, graph->num_nodes);
  scope->storages = ls_arena_new_array(&self->temp, uint32_t, count);
  if (!ls_cpu_has_memory(self, scope->first != NULL && scope->storages != NULL))
    return;
  uint32_t next = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    scope->first[i] = next;
    next += graph->nodes[i]->num_outputs;
  }
  memset(scope->storages, 0xff, count * sizeof(*scope->storages));
}

static uint32_t *entry_of(const ls_cpu_scope *scope, uint64_t ref) {
  const size_t index = ls_graph_position(scope->graph, ls_ref_id(ref));
  if (index == SIZE_MAX) return NULL;
  if (ls_ref_output(ref) >= scope->graph->nodes[index]->num_outputs)
    return NULL;
  return &scope->storages[scope->first[index] + ls_ref_output(ref)];
}

uint32_t ls_cpu_storage_of(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                           uint64_t ref) {
  if (ls_cpu_failed(self)) return 0;
  const uint32_t *entry = entry_of(scope, ref);
  if (entry != NULL && *entry != LS_CPU_NONE) return *entry;
  ls_cpu_fail(self,
              ls_internal("graph '%s' uses value %llu:%u before it is computed",
                          scope->graph->name == NULL ? "" : scope->graph->name,
                          (unsigned long long)ls_ref_id(ref),
                          ls_ref_output(ref)));
  return 0;
}

uint32_t ls_cpu_wide_storage(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                             uint64_t ref, size_t size) {
  const uint32_t storage = ls_cpu_storage_of(self, scope, ref);
  if (!ls_cpu_failed(self) && self->storages[storage].size != size)
    ls_cpu_fail(self, ls_unimplemented("on several ranks, values of all "
                                       "replicas that come from outside"));
  return storage;
}

void ls_cpu_bind_ref(ls_cpu_compiler *self, ls_cpu_scope *scope, uint64_t ref,
                     uint32_t storage) {
  if (ls_cpu_failed(self)) return;
  uint32_t *entry = entry_of(scope, ref);
  LS_ASSERT(entry != NULL);
  *entry = storage;
}

// SPDX-License-Identifier: Apache-2.0
//
// Emission: from a lowered graph to instructions on storages.
#include "engine/cpu/compile.h"

// ---- Building blocks -------------------------------------------------------
void ls_cpu_fail(ls_cpu_compiler *self, ls_status status) {
  if (self->status == NULL) {
    self->status = status;
  } else {
    ls_status_free(status);
  }
}

// Makes room for one more item; false after a failure.
static bool reserve(ls_cpu_compiler *self, void *array, size_t *capacity,
                    size_t count, size_t item_size) {
  if (ls_cpu_failed(self)) return false;
  if (count < UINT32_MAX - 1 &&
      ls_grow(self->allocator, array, capacity, count + 1, item_size)) {
    return true;
  }
  ls_cpu_fail(self, ls_out_of_memory());
  return false;
}

uint32_t ls_cpu_here(const ls_cpu_compiler *self) {
  return (uint32_t)self->num_instructions;
}

// After a failure position 0 is handed out; it exists from the start.
uint32_t ls_cpu_emit(ls_cpu_compiler *self, ls_cpu_code code,
                     const ls_node *node) {
  const uint32_t position = ls_cpu_here(self);
  if (!reserve(self, &self->instructions, &self->instructions_capacity,
               position, sizeof(*self->instructions)) ||
      !reserve(self, &self->origins, &self->origins_capacity, position,
               sizeof(*self->origins))) {
    return 0;
  }
  self->instructions[position] = (ls_cpu_instruction){
      .code = code, .operand = (uint32_t)self->num_operands};
  self->origins[position] = (ls_cpu_origin){
      .note.node = node,
      .replicate = self->in_lane ? self->replicate : LS_CPU_NONE};
  ++self->num_instructions;
  return position;
}

static void add_operand(ls_cpu_compiler *self, uint32_t storage) {
  if (!reserve(self, &self->operands, &self->operands_capacity,
               self->num_operands, sizeof(*self->operands))) {
    return;
  }
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

void ls_cpu_emit_copy(ls_cpu_compiler *self, const ls_node *node, uint32_t to,
                      uint32_t from) {
  if (ls_cpu_failed(self) || to == from) return;
  const uint32_t position = ls_cpu_emit(self, LS_CPU_COPY, node);
  ls_cpu_read(self, from);
  ls_cpu_write(self, to);
  if (ls_cpu_failed(self)) return;
  LS_ASSERT(self->storages[to].size == self->storages[from].size);
  ls_cpu_at(self, position)->size = (int64_t)self->storages[to].size;
}

void ls_cpu_label(ls_cpu_compiler *self, const ls_graph *graph,
                  const ls_node *node) {
  if (ls_cpu_failed(self)) return;
  // The op as the user made it, if this came from one.
  ls_graph *named = ls_graph_resolve(node->origin.graph);
  ls_node *origin =
      named == NULL ? NULL : ls_graph_node(named, node->origin.id);
  if (origin == NULL) {
    named = (ls_graph *)(uintptr_t)graph;  // Naming a node only caches.
    origin = (ls_node *)(uintptr_t)node;
  }
  char buffer[256];
  const char *label = ls_arena_string(
      &self->out->arena,
      ls_node_describe(named, origin, buffer, sizeof(buffer)));
  if (label == NULL) ls_cpu_fail(self, ls_out_of_memory());
  self->origins[ls_cpu_here(self) - 1].note.label = label;
}

void ls_cpu_park(ls_cpu_compiler *self) {
  if (!self->in_lane ||
      !reserve(self, &self->parks, &self->parks_capacity, self->num_parks,
               sizeof(*self->parks))) {
    return;
  }
  self->parks[self->num_parks++] = ls_cpu_here(self) - 1;
}

// ---- Storages --------------------------------------------------------------
size_t ls_cpu_type_size(ls_type type) {
  return (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype);
}

size_t ls_cpu_ref_size(const ls_graph *graph, uint64_t ref) {
  return ls_cpu_type_size(ls_graph_type(graph, ref));
}

uint32_t ls_cpu_new_base(ls_cpu_compiler *self, ls_cpu_home home,
                         uint32_t index, size_t size) {
  const uint32_t number = (uint32_t)self->num_storages;
  if (!reserve(self, &self->storages, &self->storages_capacity, number,
               sizeof(*self->storages))) {
    return 0;
  }
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
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    count += graph->nodes[i]->num_outputs;
  }
  scope->first = ls_arena_new_array(&self->temp, uint32_t, graph->num_nodes);
  scope->storages = ls_arena_new_array(&self->temp, uint32_t, count);
  if (scope->first == NULL || scope->storages == NULL) {
    ls_cpu_fail(self, ls_out_of_memory());
    return;
  }
  uint32_t next = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    scope->first[i] = next;
    next += graph->nodes[i]->num_outputs;
  }
  memset(scope->storages, 0xff, count * sizeof(*scope->storages));
}

// Ids ascend; without gaps, as a rule.
size_t ls_cpu_node_index(const ls_graph *graph, uint64_t id) {
  size_t low = 0, high = graph->num_nodes;
  if (id - 1 < high && graph->nodes[id - 1]->id == id) return (size_t)id - 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (graph->nodes[middle]->id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found = low < graph->num_nodes && graph->nodes[low]->id == id;
  return found ? low : graph->num_nodes;
}

static uint32_t *entry_of(const ls_cpu_scope *scope, uint64_t ref) {
  const size_t index = ls_cpu_node_index(scope->graph, ref >> 16);
  if (index >= scope->graph->num_nodes) return NULL;
  if (ls_ref_output(ref) >= scope->graph->nodes[index]->num_outputs) {
    return NULL;
  }
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
                          (unsigned long long)(ref >> 16), ls_ref_output(ref)));
  return 0;
}

void ls_cpu_bind_ref(ls_cpu_compiler *self, ls_cpu_scope *scope, uint64_t ref,
                     uint32_t storage) {
  if (ls_cpu_failed(self)) return;
  uint32_t *entry = entry_of(scope, ref);
  LS_ASSERT(entry != NULL);
  *entry = storage;
}

// ---- Nodes -----------------------------------------------------------------
static void emit_constant(ls_cpu_compiler *self, ls_cpu_scope *scope,
                          const ls_node *node) {
  const ls_attr *value = ls_node_attr(node, "value");
  if (value == NULL || value->kind != LS_ATTR_ARRAY) {
    ls_cpu_fail(self, ls_internal("a constant without a value"));
    return;
  }
  const uint32_t storage =
      ls_cpu_new_base(self, LS_CPU_CONSTANT, 0, ls_array_size(value->as.array));
  if (ls_cpu_failed(self)) return;
  self->storages[storage].data = ls_array_data(value->as.array);
  ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), storage);
}

// What a prepare function is told.
static ls_status make_kernel_plan(const ls_graph *graph, const ls_node *node,
                                  const ls_cpu_kernels *kernels,
                                  ls_arena *params, ls_arena *temp,
                                  ls_kernel_plan *plan) {
  ls_type *in = ls_arena_new_array(temp, ls_type, node->num_inputs);
  if (in == NULL) return ls_out_of_memory();
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    in[i] = ls_graph_type(graph, node->inputs[i]);
  }
  *plan = (ls_kernel_plan){
      .graph = graph,
      .node = node,
      .in = in,
      .num_in = node->num_inputs,
      .out = node->outputs,
      .num_out = node->num_outputs,
      .kernels = kernels,
      .arena = params,
      .blocks = 1,
  };
  return ls_kernel_prepare_of(node->type)(plan);
}

static ls_status no_kernel(const ls_graph *graph, const ls_node *node) {
  char buffer[256];
  return ls_unimplemented(
      "the CPU engine does not run %s of type '%s'",
      ls_node_describe((ls_graph *)(uintptr_t)graph,
                       (ls_node *)(uintptr_t)node, buffer, sizeof(buffer)),
      ls_node_info(node)->name);
}

static void emit_kernel(ls_cpu_compiler *self, ls_cpu_scope *scope,
                        const ls_node *node) {
  if (ls_kernel_prepare_of(node->type) == NULL) {
    ls_cpu_fail(self, no_kernel(scope->graph, node));
    return;
  }
  ls_kernel_plan plan;
  ls_status status = make_kernel_plan(scope->graph, node, self->kernels,
                                      &self->out->arena, &self->temp, &plan);
  if (status != NULL) {
    ls_cpu_fail(self, status);
    return;
  }
  if (plan.alias) {
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0),
                    ls_cpu_storage_of(self, scope, node->inputs[0]));
    return;
  }
  const uint32_t position = ls_cpu_emit(self, LS_CPU_KERNEL, node);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    ls_cpu_read(self, ls_cpu_storage_of(self, scope, node->inputs[i]));
  }
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    const uint32_t storage =
        ls_cpu_new_storage(self, ls_cpu_type_size(node->outputs[i]));
    ls_cpu_write(self, storage);
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), storage);
  }
  if (ls_cpu_failed(self)) return;
  ls_cpu_instruction *instruction = ls_cpu_at(self, position);
  instruction->loop = plan.loop;
  instruction->params = plan.params;
  instruction->size = plan.blocks;
  self->origins[position].in_place = plan.in_place;
  ls_executable *out = self->out;
  if (plan.scratch > out->kernel_scratch) out->kernel_scratch = plan.scratch;
  out->facts.flops += plan.flops * self->trips;
}

void ls_cpu_emit_node(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node) {
  if (ls_cpu_failed(self)) return;
  switch (node->type) {
  case LS_OP_PARAMETER:  // Bound by whoever emits its graph.
    return;
  case LS_OP_CONSTANT:
    emit_constant(self, scope, node);
    return;
  case LS_OP_WHILE:
    ls_cpu_emit_while(self, scope, node);
    return;
  case LS_OP_COND:
    ls_cpu_emit_cond(self, scope, node);
    return;
  case LS_OP_HOST:
    ls_cpu_emit_host(self, scope, node);
    return;
  case LS_OP_REPLICATE:
    ls_cpu_emit_replicate(self, scope, node);
    return;
  case LS_OP_ALL_REDUCE:
    ls_cpu_emit_all_reduce(self, scope, node);
    return;
  default:
    emit_kernel(self, scope, node);
    return;
  }
}

void ls_cpu_emit_graph(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  for (size_t i = 0; i < scope->graph->num_nodes && !ls_cpu_failed(self); ++i) {
    ls_cpu_emit_node(self, scope, scope->graph->nodes[i]);
  }
}

ls_status ls_cpu_supports(ls_backend *backend, ls_graph *graph,
                          const ls_node *node) {
  switch (node->type) {
  case LS_OP_PARAMETER:
  case LS_OP_CONSTANT:
  case LS_OP_WHILE:
  case LS_OP_COND:
  case LS_OP_HOST:
  case LS_OP_REPLICATE:
  case LS_OP_ALL_REDUCE:
    return ls_ok();
  default:
    break;
  }
  if (ls_kernel_prepare_of(node->type) == NULL) return no_kernel(graph, node);
  ls_arena temp;
  ls_arena_init(&temp, ls_runtime_allocator(backend->runtime));
  ls_kernel_plan plan;
  ls_status status = make_kernel_plan(
      graph, node, ls_cpu_backend_kernels(backend), &temp, &temp, &plan);
  ls_arena_deinit(&temp);
  return status;
}

// ---- Programs --------------------------------------------------------------
static void bind_parameters(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  const ls_program *program = self->program;
  const ls_graph *body = program->body;
  for (size_t i = 0; i < program->num_inputs; ++i) {
    const uint64_t ref = body->parameters[i];
    ls_cpu_bind_ref(self, scope, ref,
                    ls_cpu_new_base(self, LS_CPU_INPUT, (uint32_t)i,
                                    ls_cpu_ref_size(body, ref)));
  }
  for (size_t i = 0; i < program->num_uses; ++i) {
    const uint64_t ref = body->parameters[program->num_inputs + i];
    ls_cpu_bind_ref(self, scope, ref,
                    ls_cpu_new_base(self, LS_CPU_VARIABLE, (uint32_t)i,
                                    ls_cpu_ref_size(body, ref)));
  }
}

// A copy at the place `position`, which emission left empty: before all else.
static void copy_early(ls_cpu_compiler *self, uint32_t position, uint32_t to,
                       uint32_t from) {
  ls_cpu_emit_copy(self, NULL, to, from);
  if (ls_cpu_failed(self)) return;
  self->instructions[position] = self->instructions[--self->num_instructions];
}

static bool is_written(const ls_cpu_compiler *self, uint32_t storage) {
  const ls_cpu_storage *s = &self->storages[storage];
  return s->home == LS_CPU_VARIABLE && self->program->uses[s->index].written;
}

// Results leave at the end, but the old value of a variable that is written
// leaves before anything else happens.
static void emit_results(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  const ls_program *program = self->program;
  const ls_graph *body = program->body;
  uint32_t early = 1;
  for (size_t i = 0; i < program->num_outputs && !ls_cpu_failed(self); ++i) {
    const uint32_t from = ls_cpu_storage_of(self, scope, body->results[i]);
    const uint32_t to = ls_cpu_new_base(self, LS_CPU_OUTPUT, (uint32_t)i,
                                        ls_cpu_ref_size(body, body->results[i]));
    if (ls_cpu_failed(self)) return;
    if (is_written(self, from)) {
      copy_early(self, early++, to, from);
    } else {
      ls_cpu_emit_copy(self, NULL, to, from);
    }
  }
  size_t result = program->num_outputs;
  for (size_t i = 0; i < program->num_uses && !ls_cpu_failed(self); ++i) {
    if (!program->uses[i].written) continue;
    const uint64_t ref = body->results[result++];
    uint32_t from = ls_cpu_storage_of(self, scope, ref);
    const uint32_t to = ls_cpu_storage_of(
        self, scope, body->parameters[program->num_inputs + i]);
    if (ls_cpu_failed(self) || from == to) continue;
    if (is_written(self, from)) {
      const uint32_t old = ls_cpu_new_storage(self, ls_cpu_ref_size(body, ref));
      copy_early(self, early++, old, from);
      from = old;
    }
    ls_cpu_emit_copy(self, NULL, to, from);
  }
}

static void emit_program(ls_cpu_compiler *self) {
  ls_cpu_scope scope;
  ls_cpu_scope_init(self, &scope, self->program->body);
  // Position 0 and storage 0 are what a failed emission hands out; places for
  // early copies follow.
  size_t places = 1 + self->program->num_outputs;
  for (size_t i = 0; i < self->program->num_uses; ++i) {
    places += self->program->uses[i].written;
  }
  while (places-- > 0) ls_cpu_emit(self, LS_CPU_NOTHING, NULL);
  ls_cpu_new_shared(self, 0);
  bind_parameters(self, &scope);
  ls_cpu_emit_graph(self, &scope);
  emit_results(self, &scope);
  ls_cpu_emit(self, LS_CPU_END, NULL);
}

static void release_compiler(ls_cpu_compiler *self) {
  ls_release(self->allocator, self->instructions);
  ls_release(self->allocator, self->origins);
  ls_release(self->allocator, self->operands);
  ls_release(self->allocator, self->storages);
  ls_release(self->allocator, self->accesses);
  ls_release(self->allocator, self->loops);
  ls_release(self->allocator, self->replicates);
  ls_release(self->allocator, self->parks);
  ls_arena_deinit(&self->temp);
}

static ls_status check_program(const ls_program *program, ls_lanes lanes) {
  const ls_graph *body = program->body;
  if (lanes.cores > 1 || lanes.first != 0 || lanes.count != lanes.replicas) {
    return ls_unimplemented(
        "lanes %d to %d of %d replicas on %d cores: the CPU engine runs all "
        "replicas in one process, each on one core",
        lanes.first, lanes.first + lanes.count - 1, lanes.replicas,
        lanes.cores);
  }
  size_t written = 0;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    written += use->written;
    if (use->per_replica_before || use->per_replica_after) {
      return ls_unimplemented("the CPU engine keeps no variable with a value "
                              "for each replica: use %zu", i);
    }
  }
  if (body->num_parameters != program->num_inputs + program->num_uses ||
      body->num_results != program->num_outputs + written) {
    return ls_internal(
        "the program has %zu inputs, %zu uses, %zu outputs and %zu written "
        "uses, its body %zu parameters and %zu results",
        program->num_inputs, program->num_uses, program->num_outputs, written,
        body->num_parameters, body->num_results);
  }
  return ls_ok();
}

// An executable with nothing in it but its program.
static ls_executable *new_executable(ls_backend *backend,
                                     const ls_program *program,
                                     int32_t replicas) {
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  ls_executable *executable = ls_new(allocator, ls_executable);
  if (executable == NULL) return NULL;
  executable->references = 1;
  executable->backend = backend;
  executable->allocator = allocator;
  executable->program = ls_object_retain((ls_program *)(uintptr_t)program);
  executable->replicas = replicas;
  ls_arena_init(&executable->arena, allocator);
  return executable;
}

ls_status ls_cpu_compile(ls_backend *backend, const ls_program *program,
                         ls_lanes lanes, ls_executable **out_executable) {
  *out_executable = NULL;
  LS_TRY(check_program(program, lanes));
  ls_executable *executable = new_executable(backend, program, lanes.replicas);
  if (executable == NULL) return ls_out_of_memory();
  ls_cpu_compiler self = {
      .out = executable,
      .program = program,
      .allocator = executable->allocator,
      .kernels = ls_cpu_backend_kernels(backend),
      .replicas = 1,
      .replicate = LS_CPU_NONE,
      .in_order = true,
      .trips = 1,
  };
  ls_arena_init(&self.temp, self.allocator);
  emit_program(&self);
  ls_cpu_collect_accesses(&self);
  ls_cpu_share_storages(&self);
  ls_cpu_plan_memory(&self);
  ls_cpu_finish(&self);
  release_compiler(&self);
  if (self.status != NULL) {
    ls_cpu_release_executable(executable);
    return self.status;
  }
  *out_executable = executable;
  return ls_ok();
}

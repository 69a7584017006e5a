// SPDX-License-Identifier: Apache-2.0
//
// Compilation of a program: emission, sharing of memory, planning, writing.
#include "engine/cpu/compile/compile.h"
#include "base/values/array_internal.h"

#include "base/runtime_internal.h"
#include "graph/walk.h"

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

// Writes a copy to `position`, which emission reserved ahead of all other code.
static void copy_early(ls_cpu_compiler *self, uint32_t position,
                       uint32_t target, uint32_t from) {
  ls_cpu_emit_copy(self, NULL, target, from);
  if (ls_cpu_failed(self)) return;
  self->instructions[position] = self->instructions[--self->num_instructions];
}

// Returns true if the storage is overwritten during the run.
static bool is_written(const ls_cpu_compiler *self, uint32_t storage) {
  const ls_cpu_storage *s = &self->storages[storage];
  return s->home == LS_CPU_VARIABLE && !self->program->apart &&
         self->program->uses[s->index].written;
}

// Returns the storage for the new value of a written use.
static uint32_t new_value(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                          size_t use) {
  const ls_program *program = self->program;
  const uint64_t ref = program->body->parameters[program->num_inputs + use];
  return program->apart ? ls_cpu_new_base(self, LS_CPU_NEW_VALUE, (uint32_t)use,
                                          ls_cpu_ref_size(program->body, ref))
                        : ls_cpu_storage_of(self, scope, ref);
}

// Fails if a program's result would have only this rank's parts.
static bool check_whole(ls_cpu_compiler *self, uint32_t from, uint32_t target) {
  if (!ls_cpu_failed(self) &&
      self->storages[from].size != self->storages[target].size)
    ls_cpu_fail(self, ls_unimplemented("on several ranks, values of all "
                                       "replicas that leave the program"));
  return !ls_cpu_failed(self);
}

// Emits the copies of results to the end. The old value of a variable that the
// program overwrites is copied before all else.
static void emit_results(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  const ls_program *program = self->program;
  const ls_graph *body = program->body;
  uint32_t early = 1;
  for (size_t i = 0; i < program->num_outputs && !ls_cpu_failed(self); ++i) {
    const uint32_t from = ls_cpu_storage_of(self, scope, body->results[i]);
    const uint32_t target =
        ls_cpu_new_base(self, LS_CPU_OUTPUT, (uint32_t)i,
                        ls_cpu_ref_size(body, body->results[i]));
    if (!check_whole(self, from, target)) return;
    if (is_written(self, from))
      copy_early(self, early++, target, from);
    else
      ls_cpu_emit_copy(self, NULL, target, from);
  }
  size_t result = program->num_outputs;
  for (size_t i = 0; i < program->num_uses && !ls_cpu_failed(self); ++i) {
    if (!program->uses[i].written) continue;
    const uint64_t ref = body->results[result++];
    uint32_t from = ls_cpu_storage_of(self, scope, ref);
    const uint32_t target = new_value(self, scope, i);
    if (!check_whole(self, from, target) || from == target) continue;
    if (is_written(self, from)) {
      const uint32_t old = ls_cpu_new_storage(self, ls_cpu_ref_size(body, ref));
      copy_early(self, early++, old, from);
      from = old;
    }
    ls_cpu_emit_copy(self, NULL, target, from);
  }
}

static void emit_program(ls_cpu_compiler *self) {
  ls_cpu_scope scope;
  ls_cpu_scope_init(self, &scope, self->program->body);
  // Reserves position 0, which emission returns after a failure, and positions
  // for early copies.
  size_t places = 1 + self->program->num_outputs;
  for (size_t i = 0; i < self->program->num_uses; ++i)
    places += self->program->uses[i].written;
  while (places-- > 0)
    ls_cpu_emit(self, LS_CPU_NOTHING, NULL);
  bind_parameters(self, &scope);
  ls_cpu_emit_graph(self, &scope);
  emit_results(self, &scope);
  ls_cpu_emit(self, LS_CPU_END, NULL);
}

// ---- Compiling -------------------------------------------------------------
static void release_compiler(ls_cpu_compiler *self) {
  ls_release(self->allocator, self->instructions);
  ls_release(self->allocator, self->origins);
  ls_release(self->allocator, self->operands);
  ls_release(self->allocator, self->storages);
  ls_release(self->allocator, self->accesses);
  ls_release(self->allocator, self->loops);
  ls_release(self->allocator, self->forks);
  ls_release(self->allocator, self->replicates);
  ls_release(self->allocator, self->parks);
  ls_release(self->allocator, self->lane_merges);
  ls_release(self->allocator, self->endless_stacks);
  ls_arena_deinit(&self->temp);
}

// Returns true if a stack enters or leaves the program: stacks live inside one
// run.
static bool has_stack_at_border(const ls_program *program) {
  const ls_graph *body = program->body;
  bool found = false;
  for (size_t i = 0; i < body->num_parameters; ++i)
    found |= ls_graph_type(body, body->parameters[i]).dtype == LS_DTYPE_VARIANT;
  for (size_t i = 0; i < body->num_results; ++i)
    found |= ls_graph_type(body, body->results[i]).dtype == LS_DTYPE_VARIANT;
  return found;
}

// ---- Replicas --------------------------------------------------------------
ls_cpu_share ls_cpu_share_of(const ls_executable *executable,
                             int64_t replicas) {
  const ls_communicator *communicator = executable->communicator;
  const int32_t count = (int32_t)replicas;
  if (communicator == NULL || count == 1)
    return (ls_cpu_share){count, 0, count};
  return (ls_cpu_share){
      count, ls_communicator_first(communicator, communicator->rank, count),
      ls_communicator_first(communicator, communicator->rank + 1, count)};
}

// Makes room for an op of so many replicas. Every rank knows what the others
// host, as all follow one rule.
static ls_status note_replicas(ls_executable *self, int64_t replicas) {
  const ls_communicator *communicator = self->communicator;
  if (replicas < 1 || replicas > INT32_MAX)
    return ls_invalid_argument("an op of %lld replicas", (long long)replicas);
  if (communicator != NULL && replicas > 1 && replicas < communicator->ranks)
    return ls_invalid_argument(
        "%lld replicas on %d ranks: each hosts one or more",
        (long long)replicas, communicator->ranks);
  const ls_cpu_share share = ls_cpu_share_of(self, replicas);
  const uint32_t own = ls_cpu_num_local(&share);
  if (share.replicas > self->replicas) self->replicas = share.replicas;
  if (own > self->num_lanes) self->num_lanes = own;
  return ls_ok();
}

// Fails for strings and objects: ranks exchange the bytes of elements, which
// would point to memory of another process.
static ls_status check_exchanged(ls_graph *graph, ls_node *node, size_t count) {
  char text[LS_MAX_FULL_NAME];
  for (size_t i = 0; i < count; ++i)
    if (ls_dtype_owns_elements(node->outputs[i].dtype))
      return ls_unimplemented(
          "a %s goes between ranks, which numbers only do: result %zu of %s",
          ls_dtype_name(node->outputs[i].dtype), i,
          ls_node_describe(graph, node, text, sizeof(text)));
  return ls_ok();
}

// Checks the values that replicas return and merge, at any depth of a body.
static ls_status check_ranks(const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    if (ls_node_info(walk.node)->traits & LS_OP_MERGE)
      LS_RETURN_IF_ERROR(
          check_exchanged(walk.graph, walk.node, walk.node->num_outputs));
  return ls_ok();
}

// Checks the replicate ops, at any depth.
static ls_status check_replicas(ls_executable *self, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    const ls_attr *replicas = ls_node_attr(node, LS_ATTR_ID_REPLICAS);
    const bool is_replicate = node->type == LS_OP_REPLICATE;
    if (is_replicate || (node->type == LS_OP_HOST && replicas != NULL))
      LS_RETURN_IF_ERROR(note_replicas(self, replicas->as.i));
    if (!is_replicate || self->communicator == NULL || replicas->as.i <= 1)
      continue;
    LS_RETURN_IF_ERROR(check_exchanged(
        walk.graph, node,
        (size_t)(ls_node_int(node, LS_ATTR_ID_NUM_GATHERED) * replicas->as.i)));
    for (uint32_t k = 0; k < node->num_regions; ++k)
      LS_RETURN_IF_ERROR(check_ranks(node->regions[k]));
    ls_graph_walk_skip_regions(&walk);
  }
  return ls_ok();
}

static ls_status check_program(const ls_program *program) {
  const ls_graph *body = program->body;
  size_t written = 0;
  for (size_t i = 0; i < program->num_uses; ++i)
    written += program->uses[i].written;
  if (body->num_parameters != program->num_inputs + program->num_uses ||
      body->num_results != program->num_outputs + written) {
    return ls_internal(
        "the program has %zu inputs, %zu uses, %zu outputs and %zu written "
        "uses, its body %zu parameters and %zu results",
        program->num_inputs, program->num_uses, program->num_outputs, written,
        body->num_parameters, body->num_results);
  }
  if (has_stack_at_border(program))
    return ls_unimplemented("a stack enters or leaves the program");
  return ls_ok();
}

static bool writes_variables(const ls_program *program) {
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written) return true;
  return false;
}

// Makes an executable that holds only its program.
static ls_executable *new_executable(ls_backend *backend,
                                     const ls_program *program) {
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  ls_executable *executable = ls_new(allocator, ls_executable);
  if (executable == NULL) return NULL;
  executable->references = 1;
  executable->backend = backend;
  executable->allocator = allocator;
  executable->program = ls_object_retain((ls_program *)(uintptr_t)program);
  executable->replicas = 1;
  executable->num_lanes = 1;
  executable->may_stop = program->apart || !writes_variables(program);
  ls_communicator *communicator = ls_runtime_communicator(backend->runtime);
  if (communicator != NULL && communicator->ranks > 1)
    executable->communicator = communicator;
  ls_arena_init(&executable->arena, allocator);
  return executable;
}

ls_status ls_cpu_compile(ls_backend *backend, const ls_program *program,
                         ls_executable **out_executable) {
  *out_executable = NULL;
  LS_RETURN_IF_ERROR(check_program(program));
  ls_executable *executable = new_executable(backend, program);
  if (executable == NULL) return ls_out_of_memory();
  ls_cpu_compiler self = {
      .out = executable,
      .program = program,
      .allocator = executable->allocator,
      .kernels = ls_cpu_backend_kernels(backend),
      .share = {1, 0, 1},
      .replicate = LS_CPU_NONE,
      .trips = 1,
  };
  ls_arena_init(&self.temp, self.allocator);
  self.status = check_replicas(executable, program->body);
  if (executable->replicas == 1) executable->communicator = NULL;
  if (!ls_cpu_failed(&self)) emit_program(&self);
  ls_cpu_collect_accesses(&self);
  ls_cpu_share_storages(&self);
  ls_cpu_overlap_calls(&self);
  ls_cpu_delay_exchanges(&self);
  ls_cpu_advance_updates(&self);
  if (!ls_runtime_finds_nan(backend->runtime)) ls_cpu_fuse(&self);
  ls_cpu_find_failure_values(&self);
  ls_cpu_plan_memory(&self);
  ls_cpu_finish(&self);
  release_compiler(&self);
  if (!ls_status_is_ok(self.status)) {
    ls_cpu_release_executable(executable);
    return self.status;
  }
  *out_executable = executable;
  return ls_ok();
}

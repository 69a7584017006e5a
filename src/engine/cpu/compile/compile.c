// SPDX-License-Identifier: Apache-2.0
//
// Compiling a program: emission, sharing, planning, writing.
#include "engine/cpu/compile/compile.h"
#include "base/values/array_internal.h"

#include "base/runtime_internal.h"

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

// Whether the storage will hold another value.
static bool is_written(const ls_cpu_compiler *self, uint32_t storage) {
  const ls_cpu_storage *s = &self->storages[storage];
  return s->home == LS_CPU_VARIABLE && !self->program->apart &&
         self->program->uses[s->index].written;
}

// Where the new value of a written use goes.
static uint32_t new_value(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                          size_t use) {
  const ls_program *program = self->program;
  const uint64_t ref = program->body->parameters[program->num_inputs + use];
  return program->apart ? ls_cpu_new_base(self, LS_CPU_NEW_VALUE, (uint32_t)use,
                                          ls_cpu_ref_size(program->body, ref))
                        : ls_cpu_storage_of(self, scope, ref);
}

// What leaves the program is whole.
static bool is_whole(ls_cpu_compiler *self, uint32_t from, uint32_t to) {
  if (!ls_cpu_failed(self) &&
      self->storages[from].size != self->storages[to].size)
    ls_cpu_fail(self, ls_unimplemented("on several ranks, values of all "
                                       "replicas that leave the program"));
  return !ls_cpu_failed(self);
}

// Results leave at the end, but the old value of a variable that is written
// leaves before anything else happens.
static void emit_results(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  const ls_program *program = self->program;
  const ls_graph *body = program->body;
  uint32_t early = 1;
  for (size_t i = 0; i < program->num_outputs && !ls_cpu_failed(self); ++i) {
    const uint32_t from = ls_cpu_storage_of(self, scope, body->results[i]);
    const uint32_t to =
        ls_cpu_new_base(self, LS_CPU_OUTPUT, (uint32_t)i,
                        ls_cpu_ref_size(body, body->results[i]));
    if (!is_whole(self, from, to)) return;
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
    const uint32_t to = new_value(self, scope, i);
    if (!is_whole(self, from, to) || from == to) continue;
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
  while (places-- > 0)
    ls_cpu_emit(self, LS_CPU_NOTHING, NULL);
  ls_cpu_new_shared(self, 0);
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
  ls_release(self->allocator, self->meetings);
  ls_release(self->allocator, self->endless_stacks);
  ls_arena_deinit(&self->temp);
}

// A stack lives inside of one run.
static bool has_stack_at_border(const ls_program *program) {
  const ls_graph *body = program->body;
  bool found = false;
  for (size_t i = 0; i < body->num_parameters; ++i) {
    found |= ls_graph_type(body, body->parameters[i]).dtype == LS_DTYPE_VARIANT;
  }
  for (size_t i = 0; i < body->num_results; ++i) {
    found |= ls_graph_type(body, body->results[i]).dtype == LS_DTYPE_VARIANT;
  }
  return found;
}

// A rank knows what the others host, as all follow one rule.
static ls_status check_lanes(const ls_trunk *trunk, ls_lanes lanes) {
  if (lanes.cores > 1)
    return ls_unimplemented("replicas on %d cores: the CPU engine runs each on "
                            "one",
                            lanes.cores);
  if (lanes.first == 0 && lanes.count == lanes.replicas) return ls_ok();
  if (trunk == NULL ||
      lanes.first != ls_trunk_first(trunk, trunk->rank, lanes.replicas) ||
      lanes.first + lanes.count !=
          ls_trunk_first(trunk, trunk->rank + 1, lanes.replicas))
    return ls_invalid_argument("lanes %d to %d of %d replicas are no rank's",
                               lanes.first, lanes.first + lanes.count - 1,
                               lanes.replicas);
  if (trunk->ranks > lanes.replicas)
    return ls_invalid_argument(
        "%d replicas on %d ranks: each hosts one or more", lanes.replicas,
        trunk->ranks);
  return ls_ok();
}

// Between ranks goes what an element's own bytes say; those of a string or
// object point to memory of one process.
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

// What replicas give and what they put together, at any depth.
static ls_status check_ranks(ls_graph *graph) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    size_t count = 0;
    if (ls_node_info(node)->traits & LS_OP_MERGE) count = node->num_outputs;
    if (node->type == LS_OP_REPLICATE)
      count = (size_t)(ls_node_int(node, LS_ATTR_ID_NUM_GATHERED) *
                       ls_node_int(node, LS_ATTR_ID_REPLICAS));
    LS_RETURN_IF_ERROR(check_exchanged(graph, node, count));
    for (uint32_t k = 0; k < node->num_regions; ++k)
      LS_RETURN_IF_ERROR(check_ranks(node->regions[k]));
  }
  return ls_ok();
}

static ls_status check_program(const ls_program *program, const ls_trunk *trunk,
                               ls_lanes lanes) {
  ls_graph *body = program->body;
  LS_RETURN_IF_ERROR(check_lanes(trunk, lanes));
  if (lanes.count < lanes.replicas) LS_RETURN_IF_ERROR(check_ranks(body));
  size_t written = 0;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    written += use->written;
    if (use->per_replica_before || use->per_replica_after) {
      return ls_unimplemented("the CPU engine keeps no variable with a value "
                              "for each replica: use %zu",
                              i);
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
  if (has_stack_at_border(program)) {
    return ls_unimplemented("a stack enters or leaves the program");
  }
  return ls_ok();
}

// An executable with nothing in it but its program.
static ls_executable *
new_executable(ls_backend *backend, const ls_program *program, ls_lanes lanes) {
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  ls_executable *executable = ls_new(allocator, ls_executable);
  if (executable == NULL) return NULL;
  executable->references = 1;
  executable->backend = backend;
  executable->allocator = allocator;
  executable->program = ls_object_retain((ls_program *)(uintptr_t)program);
  executable->replicas = lanes.replicas;
  executable->first = lanes.first;
  executable->end = lanes.first + lanes.count;
  if (lanes.count < lanes.replicas)
    executable->trunk = ls_runtime_trunk(backend->runtime);
  ls_arena_init(&executable->arena, allocator);
  return executable;
}

ls_status ls_cpu_compile(ls_backend *backend, const ls_program *program,
                         ls_lanes lanes, ls_executable **out_executable) {
  *out_executable = NULL;
  LS_RETURN_IF_ERROR(
      check_program(program, ls_runtime_trunk(backend->runtime), lanes));
  ls_executable *executable = new_executable(backend, program, lanes);
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
  ls_cpu_advance_updates(&self);
  ls_cpu_fuse(&self);
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

// SPDX-License-Identifier: Apache-2.0
//
// Emission: translates the nodes of a lowered graph to instructions on
// storages.
#include "engine/cpu/compile/batching.h"
#include "engine/cpu/compile/compile.h"

#include "engine/cpu/kernels/batched.h"
#include "lockstep/runtime_settings.h"

static void emit_constant(ls_cpu_compiler *self, ls_cpu_scope *scope,
                          const ls_node *node) {
  const ls_attr *value = ls_node_attr(node, LS_ATTR_ID_VALUE);
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

// Binds each result to its operand; emits nothing.
static void bind_barrier(ls_cpu_compiler *self, ls_cpu_scope *scope,
                         const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i),
                    ls_cpu_storage_of(self, scope, node->inputs[i]));
}

static bool is_direct(ls_math math) {
  return math == LS_MATH_DIRECT || math == LS_MATH_BF16_DIRECT;
}

// Fills in the request to a kernel's prepare function.
static ls_status make_kernel_plan(const ls_node *node, const ls_type *in,
                                  const ls_type *out, const ls_backend *backend,
                                  ls_arena *params, ls_kernel_plan *plan) {
  *plan = (ls_kernel_plan){
      .node = node,
      .in = in,
      .num_in = node->num_inputs,
      .out = out,
      .num_out = node->num_outputs,
      .kernels = ls_cpu_backend_kernels(backend),
      .fast = !is_direct(ls_runtime_math(backend->runtime)),
      .arena = params,
      .blocks = 1,
  };
  return ls_kernel_prepare_of(node->type)(plan);
}

static ls_type *input_types(const ls_graph *graph, const ls_node *node,
                            ls_arena *temp) {
  ls_type *in = ls_arena_new_array(temp, ls_type, node->num_inputs);
  for (uint32_t i = 0; in != NULL && i < node->num_inputs; ++i)
    in[i] = ls_graph_type(graph, node->inputs[i]);
  return in;
}

static ls_status no_kernel(const ls_graph *graph, const ls_node *node) {
  char buffer[256];
  return ls_unimplemented("the CPU engine does not run %s of type '%s'",
                          ls_node_describe((ls_graph *)(uintptr_t)graph,
                                           (ls_node *)(uintptr_t)node, buffer,
                                           sizeof(buffer)),
                          ls_node_info(node)->name);
}

// One step of a kernel: its loop, the outputs that it writes, and the storage
// that the first of two steps leaves for the second.
typedef struct kernel_step {
  ls_kernel_loop loop;
  int64_t blocks;
  bool reads;           // True if the step reads the op's inputs.
  unsigned begin, end;  // Range of outputs that it writes.
  uint32_t shared_in,
      shared_out;  // Storages between the steps, read and written, or NONE.
} kernel_step;

// Turns the step into one for all replicas of a batch: its blocks are those of
// all replicas.
static void spread_step(ls_cpu_compiler *self, const ls_cpu_use *use,
                        const kernel_step *step, uint32_t position) {
  const ls_kernel_plan *plan = &use->plan;
  ls_cpu_instruction *instruction = ls_cpu_at(self, position);
  const size_t shared = ls_round_to_line(plan->shared);
  ls_cpu_per_lane *spread = NULL;
  ls_status status = ls_cpu_per_lane_make(
      &self->out->arena, step->loop, plan->params, step->blocks, use->lanes,
      instruction->num_in, instruction->num_out, &spread);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail(self, status);
    return;
  }
  spread->first = use->first;
  size_t *stride = spread->strides;
  for (size_t i = 0; step->reads && i < plan->num_in; ++i)
    *stride++ = use->is_whole[i] ? 0 : ls_type_bytes(plan->in[i]);
  if (step->shared_in != LS_CPU_NONE) *stride++ = shared;
  for (unsigned i = step->begin; i < step->end; ++i)
    *stride++ = ls_type_bytes(plan->out[i]);
  if (step->shared_out != LS_CPU_NONE) *stride++ = shared;
  instruction->loop = ls_cpu_per_lane_loop;
  instruction->params = spread;
  instruction->size = step->blocks * use->lanes;
}

// Notes the types of the operands and the op's source, for a search for NaN.
static void note_operands(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                          const ls_cpu_use *use, const kernel_step *step,
                          uint32_t position) {
  const ls_kernel_plan *plan = &use->plan;
  const ls_cpu_instruction *at = ls_cpu_at(self, position);
  ls_arena *arena = &self->out->arena;
  ls_cpu_operands *operands = ls_arena_new(arena, ls_cpu_operands);
  ls_type *types = ls_arena_new_array(arena, ls_type, at->num_in + at->num_out);
  if (!ls_cpu_has_memory(self, operands != NULL && types != NULL)) return;
  const ls_type own = {LS_DTYPE_U8, {.rank = LS_UNKNOWN_RANK}};
  for (uint32_t i = 0; i < at->num_in + at->num_out; ++i)
    types[i] = own;
  for (uint32_t i = 0; step->reads && i < plan->node->num_inputs; ++i)
    types[i] = ls_graph_type(scope->graph, plan->node->inputs[i]);
  for (unsigned i = step->begin; i < step->end; ++i)
    types[at->num_in + i - step->begin] = plan->node->outputs[i];
  *operands = (ls_cpu_operands){
      types, self->share.first + (int32_t)use->first,
      ls_cpu_has_input_rows(self->program, scope->graph,
                            ls_ref(plan->node->id, step->begin))};
  self->origins[position].note.operands = operands;
  ls_cpu_label(self, scope->graph, plan->node);
}

static void emit_step(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_cpu_use *use, const kernel_step *step) {
  const ls_kernel_plan *plan = &use->plan;
  const ls_node *node = plan->node;
  const uint32_t position = ls_cpu_emit(self, LS_CPU_KERNEL, node);
  size_t bytes = plan->shared;
  for (uint32_t i = 0; step->reads && i < node->num_inputs; ++i) {
    ls_cpu_read(self, use->inputs[i]);
    bytes += ls_type_bytes(plan->in[i]);
  }
  if (step->shared_in != LS_CPU_NONE) ls_cpu_read(self, step->shared_in);
  for (unsigned i = step->begin; i < step->end; ++i) {
    const size_t size = ls_type_bytes(plan->out[i]);
    bytes += size;
    const uint32_t storage = ls_cpu_new_storage(self, size * use->lanes);
    ls_cpu_write(self, storage);
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), storage);
  }
  if (step->shared_out != LS_CPU_NONE) ls_cpu_write(self, step->shared_out);
  if (ls_cpu_failed(self)) return;
  ls_cpu_instruction *instruction = ls_cpu_at(self, position);
  instruction->loop = step->loop;
  instruction->params = plan->params;
  instruction->size = step->blocks;
  if (use->lanes > 1 || use->first > 0) spread_step(self, use, step, position);
  const double flops = plan->flops * (double)use->lanes;
  bytes *= use->lanes;
  instruction->number = ls_cpu_team_gains(flops, bytes, instruction->size);
  self->origins[position].note.bytes = bytes;
  self->out->facts.figures.bytes_accessed += (double)bytes * self->trips;
  if (step->end == node->num_outputs)
    self->origins[position].note.flops = flops;
  if (step->begin == 0 && step->end > 0) {
    self->origins[position].in_place[0] = plan->in_place;
    self->origins[position].in_place[1] = plan->next_in_place;
  }
  self->origins[position].adds = plan->adds && step->loop == plan->loop;
  if (ls_runtime_finds_nan(self->out->backend->runtime))
    note_operands(self, scope, use, step, position);
}

static void emit_labels(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                        const ls_cpu_use *use) {
  const ls_kernel_plan *plan = &use->plan;
  const ls_type type = plan->in[plan->labels];
  const bool is_whole = use->lanes == 1 || use->is_whole[plan->labels];
  ls_labels *params = ls_arena_new(&self->out->arena, ls_labels);
  if (!ls_cpu_has_memory(self, params != NULL)) return;
  *params = (ls_labels){.dtype = type.dtype,
                        .count = ls_shape_num_elements(type.shape) *
                                 (is_whole ? 1 : use->lanes),
                        .num_classes = plan->num_classes};
  const uint32_t position = ls_cpu_emit(self, LS_CPU_LABELS, plan->node);
  ls_cpu_read(self, use->inputs[plan->labels]);
  ls_cpu_label(self, scope->graph, plan->node);
  if (!ls_cpu_failed(self)) ls_cpu_at(self, position)->params = params;
}

void ls_cpu_need_scratch(ls_cpu_compiler *self, size_t bytes, int64_t blocks) {
  ls_executable *out = self->out;
  if (bytes > out->kernel_scratch) out->kernel_scratch = bytes;
  const size_t all = ls_cpu_team_size(ls_runtime_threads(out->backend->runtime),
                                      bytes, blocks);
  if (all > out->team_scratch) out->team_scratch = all;
}

ls_status ls_cpu_prepare_use(ls_cpu_compiler *self, const ls_graph *graph,
                             const ls_node *node, const ls_type *in,
                             const ls_type *out, ls_cpu_use *use) {
  if (ls_kernel_prepare_of(node->type) == NULL) return no_kernel(graph, node);
  *use = (ls_cpu_use){.lanes = 1};
  return make_kernel_plan(node, in, out, self->out->backend, &self->out->arena,
                          &use->plan);
}

// Replaces a kernel that has nothing to compute.
static void compute_nothing(const ls_kernel_call *call, int64_t begin,
                            int64_t end) {
  (void)call;
  (void)begin;
  (void)end;
}

static bool has_empty_outputs(const ls_kernel_plan *plan) {
  for (unsigned i = 0; i < plan->node->num_outputs; ++i)
    if (ls_type_bytes(plan->out[i]) > 0) return false;
  return plan->node->num_outputs > 0;
}

void ls_cpu_emit_use(ls_cpu_compiler *self, ls_cpu_scope *scope,
                     const ls_cpu_use *use) {
  const ls_kernel_plan *plan = &use->plan;
  if (plan->alias) {
    ls_cpu_bind_ref(self, scope, ls_ref(plan->node->id, 0), use->inputs[0]);
    return;
  }
  if (plan->labels != 0) emit_labels(self, scope, use);
  const bool is_empty = has_empty_outputs(plan);
  kernel_step step = {.loop = is_empty ? compute_nothing : plan->loop,
                      .blocks = is_empty ? 0 : plan->blocks,
                      .reads = is_empty || !plan->only_shared,
                      .begin = is_empty ? 0 : plan->first_outputs,
                      .end = plan->node->num_outputs,
                      .shared_in = LS_CPU_NONE,
                      .shared_out = LS_CPU_NONE};
  if (plan->first != NULL && !is_empty) {
    step.shared_in = ls_cpu_new_storage(
        self, use->lanes > 1 ? ls_round_to_line(plan->shared) * use->lanes
                             : plan->shared);
    const kernel_step first = {.loop = plan->first,
                               .blocks = plan->first_blocks,
                               .reads = true,
                               .end = plan->first_outputs,
                               .shared_in = LS_CPU_NONE,
                               .shared_out = step.shared_in};
    emit_step(self, scope, use, &first);
  }
  emit_step(self, scope, use, &step);
  if (is_empty) return;
  const int64_t blocks =
      plan->first_blocks > plan->blocks ? plan->first_blocks : plan->blocks;
  ls_cpu_need_scratch(self, plan->scratch, blocks * use->lanes);
  self->out->facts.figures.flops +=
      plan->flops * (double)use->lanes * self->trips;
}

static void emit_kernel(ls_cpu_compiler *self, ls_cpu_scope *scope,
                        const ls_node *node) {
  const ls_type *in = input_types(scope->graph, node, &self->temp);
  uint32_t *inputs =
      ls_arena_new_array(&self->temp, uint32_t, node->num_inputs);
  if (!ls_cpu_has_memory(self, in != NULL && inputs != NULL)) return;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    inputs[i] = ls_cpu_storage_of(self, scope, node->inputs[i]);
  ls_cpu_use use;
  ls_status status =
      ls_cpu_prepare_use(self, scope->graph, node, in, node->outputs, &use);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(self, scope->graph, node, status);
    return;
  }
  use.inputs = inputs;
  ls_cpu_emit_use(self, scope, &use);
}

void ls_cpu_emit_node(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node) {
  if (ls_cpu_failed(self)) return;
  switch (node->type) {
  case LS_OP_PARAMETER:  // Bound when the graph's emission starts.
    return;
  case LS_OP_CONSTANT:
    emit_constant(self, scope, node);
    return;
  case LS_OP_BARRIER:
    bind_barrier(self, scope, node);
    return;
  case LS_OP_WHILE:
    ls_cpu_emit_while(self, scope, node);
    return;
  case LS_OP_COND:
    ls_cpu_emit_cond(self, scope, node);
    return;
  case LS_OP_STACK_NEW:
  case LS_OP_STACK_PUSH:
  case LS_OP_STACK_POP:
    ls_cpu_emit_stack(self, scope, node);
    return;
  case LS_OP_HOST:
    ls_cpu_emit_host(self, scope, node);
    return;
  case LS_OP_REPLICATE:
    ls_cpu_emit_replicate(self, scope, node);
    return;
  case LS_OP_ALL_REDUCE:
  case LS_OP_ALL_GATHER:
    ls_cpu_emit_merge(self, scope, node);
    return;
  default:
    emit_kernel(self, scope, node);
    return;
  }
}

void ls_cpu_emit_graph(ls_cpu_compiler *self, ls_cpu_scope *scope) {
  for (size_t i = 0; i < scope->graph->num_nodes && !ls_cpu_failed(self); ++i)
    ls_cpu_emit_node(self, scope, scope->graph->nodes[i]);
}

// ---- Stacks ----------------------------------------------------------------
// Storages hold pointers to stacks, and a push or pop changes the stack itself,
// so each stack value may be used only once; lowering guarantees that.

// Adds a stack_new and returns its number.
static uint32_t add_site(ls_cpu_compiler *self, bool is_endless) {
  ls_executable *out = self->out;
  const uint32_t number = out->num_stacks;
  if (!ls_cpu_has_memory(self,
                         LS_GROW(self->allocator, self->endless_stacks,
                                 self->endless_stacks_capacity, number + 1)))
    return 0;
  self->endless_stacks[number] = is_endless;
  ++out->num_stacks;
  return number;
}

void ls_cpu_emit_stack(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node) {
  const bool is_new = node->type == LS_OP_STACK_NEW;
  const bool is_push = node->type == LS_OP_STACK_PUSH;
  const ls_cpu_code code = is_new    ? LS_CPU_STACK_NEW
                           : is_push ? LS_CPU_STACK_PUSH
                                     : LS_CPU_STACK_POP;
  const uint32_t position = ls_cpu_emit(self, code, node);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    ls_cpu_read(self, ls_cpu_storage_of(self, scope, node->inputs[i]));
  for (unsigned i = 0; i < node->num_outputs; ++i) {
    const uint32_t storage =
        ls_cpu_new_storage(self, ls_type_bytes(node->outputs[i]));
    ls_cpu_write(self, storage);
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, i), storage);
  }
  ls_cpu_label(self, scope->graph, node);
  if (ls_cpu_failed(self)) return;
  uint32_t number = 0;
  if (is_new) {
    number = add_site(self, ls_node_int(node, LS_ATTR_ID_ENDLESS) != 0);
  } else {
    const ls_type element = is_push
                                ? ls_graph_type(scope->graph, node->inputs[1])
                                : node->outputs[1];
    ls_cpu_at(self, position)->size = (int64_t)ls_type_bytes(element);
    number = element.dtype == LS_DTYPE_VARIANT;
    // The new pointer overwrites the old one.
    self->origins[position].in_place[0] = 1;
  }
  ls_cpu_at(self, position)->number = number;
}

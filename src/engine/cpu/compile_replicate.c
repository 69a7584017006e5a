// SPDX-License-Identifier: Apache-2.0
//
// Emission of replicate and all_reduce.
//
// A replicate op's nodes go four ways. The varying ones are the lane stream.
// Of the others, which are computed once,
//   - those that depend on no merge come before the launch, so that lanes need
//     not wait for them;
//   - those that depend on one and that lanes need stand between launch and
//     join, run while lanes are parked and are published one by one;
//   - the rest, as a rule the optimizer, comes after the join, when no lane
//     reads the old variables any more.
//
//   before; launch -> lanes; await, compute, publish ...; join -> after
//   lanes: compute, post, wait ...; end
//   after: ...
//
// With one replica there is nothing to meet: the region is part of its stream.
#include "engine/cpu/compile.h"

// A merge at the region's top level: posted where its operand is computed.
typedef struct top_merge {
  const ls_node *node;
  ls_cpu_merge *merge;
  uint32_t slot, partials, result;
} top_merge;

typedef struct region {
  const ls_node *op;
  const ls_graph *graph;
  ls_cpu_scope scope;
  uint32_t num_split, num_gathered;
  bool *after_merge;    // By node: uniform and depends on a merge.
  bool *needed;         // ... and a lane depends on it.
  uint32_t *published;  // By node: its number if a lane uses it, else 0.
  top_merge *merges;
  uint32_t num_merges;
  uint32_t *gathered;  // By result and replica: the outer value's storage.
  bool *is_gathered;   // By result: varying, so lanes write it.
} region;

static size_t index_of(const region *self, uint64_t ref) {
  return ls_cpu_node_index(self->graph, ref >> 16);
}
static const ls_node *node_of(const region *self, uint64_t ref) {
  return self->graph->nodes[index_of(self, ref)];
}
static bool is_top_merge(const region *self, const ls_node *node) {
  return node->type == LS_OP_ALL_REDUCE &&
         node_of(self, node->inputs[0])->varying;
}

// ---- Who goes where --------------------------------------------------------
static void classify(region *self) {
  const ls_graph *graph = self->graph;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->varying) continue;
    self->after_merge[i] = is_top_merge(self, node);
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const size_t input = index_of(self, node->inputs[k]);
      if (self->after_merge[input]) self->after_merge[i] = true;
    }
  }
  for (size_t i = graph->num_nodes; i-- > 0;) {
    const ls_node *node = graph->nodes[i];
    if (!node->varying && (!self->needed[i] || is_top_merge(self, node))) {
      continue;
    }
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const size_t input = index_of(self, node->inputs[k]);
      if (!self->after_merge[input]) continue;
      self->needed[input] = true;
      if (node->varying) self->published[input] = 1;
    }
  }
  uint32_t number = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    if (self->published[i] != 0) self->published[i] = ++number;
  }
}

static ls_status init_region(ls_cpu_compiler *compiler, const ls_node *op,
                             region *self) {
  const ls_graph *graph = op->regions[0];
  *self = (region){
      .op = op,
      .graph = graph,
      .num_split = (uint32_t)ls_node_int(op, "num_split", 0),
      .num_gathered = (uint32_t)ls_node_int(op, "num_gathered", 0),
  };
  const size_t replicas = (size_t)compiler->replicas;
  const size_t num_captures = graph->num_parameters - graph->num_declared;
  if (graph->num_declared != self->num_split ||
      op->num_inputs != self->num_split * replicas + num_captures ||
      graph->num_results < self->num_gathered ||
      op->num_outputs !=
          self->num_gathered * (replicas - 1) + graph->num_results) {
    return ls_internal("a replicate op of %zu replicas has %u inputs and %u "
                       "outputs, which its region does not fit",
                       replicas, op->num_inputs, op->num_outputs);
  }
  ls_arena *temp = &compiler->temp;
  self->after_merge = ls_arena_new_array(temp, bool, graph->num_nodes);
  self->needed = ls_arena_new_array(temp, bool, graph->num_nodes);
  self->published = ls_arena_new_array(temp, uint32_t, graph->num_nodes);
  self->merges = ls_arena_new_array(temp, top_merge, graph->num_nodes);
  self->is_gathered = ls_arena_new_array(temp, bool, self->num_gathered);
  self->gathered =
      ls_arena_new_array(temp, uint32_t, self->num_gathered * replicas);
  if (self->after_merge == NULL || self->needed == NULL ||
      self->published == NULL || self->merges == NULL ||
      self->is_gathered == NULL || self->gathered == NULL) {
    return ls_out_of_memory();
  }
  classify(self);
  return ls_ok();
}

// ---- Merges ----------------------------------------------------------------
// A merge slot: its number, the stack of its partial results and its result.
static top_merge make_merge(ls_cpu_compiler *self, const ls_graph *graph,
                            const ls_node *node) {
  top_merge made = {.node = node};
  const ls_type type = node->outputs[0];
  ls_status status =
      ls_cpu_merge_prepare(self->kernels, &self->out->arena, graph, node, type,
                           self->replicas, &made.merge);
  if (status != NULL) {
    ls_cpu_fail_at(self, graph, node, status);
    return made;
  }
  ls_executable *out = self->out;
  if (made.merge->scratch > out->kernel_scratch) {
    out->kernel_scratch = made.merge->scratch;
  }
  made.slot = out->num_slots++;
  made.partials =
      ls_cpu_new_shared(self, made.merge->stride * made.merge->depth);
  made.result = ls_cpu_new_shared(self, ls_cpu_type_size(type));
  return made;
}

static void emit_post(ls_cpu_compiler *self, const ls_graph *graph,
                      const top_merge *merge, uint32_t value) {
  if (ls_cpu_failed(self)) return;
  if (!self->in_order) {
    const uint32_t turn = ls_cpu_emit(self, LS_CPU_TURN, merge->node);
    ls_cpu_label(self, graph, merge->node);
    ls_cpu_park(self);
    if (ls_cpu_failed(self)) return;
    ls_cpu_at(self, turn)->number = merge->slot;
    self->in_order = true;
  }
  const uint32_t post = ls_cpu_emit(self, LS_CPU_POST, merge->node);
  ls_cpu_read(self, value);
  ls_cpu_write(self, merge->partials);
  ls_cpu_write(self, merge->result);
  if (merge->merge->widen.loop != NULL) {
    ls_cpu_write(self, ls_cpu_new_storage(self, merge->merge->bytes));
  }
  ls_cpu_label(self, graph, merge->node);
  if (ls_cpu_failed(self)) return;
  ls_cpu_at(self, post)->number = merge->slot;
  ls_cpu_at(self, post)->params = merge->merge;
}

// Where lane code does not stand at the top level the lanes meet on the spot.
static void emit_meeting(ls_cpu_compiler *self, ls_cpu_scope *scope,
                         const ls_node *node, uint32_t value) {
  const top_merge merge = make_merge(self, scope->graph, node);
  if (ls_cpu_failed(self)) return;
  emit_post(self, scope->graph, &merge, value);
  const size_t size = ls_cpu_type_size(node->outputs[0]);
  const uint32_t own = ls_cpu_new_storage(self, size);
  const uint32_t meet = ls_cpu_emit(self, LS_CPU_MEET, node);
  ls_cpu_read(self, merge.result);
  ls_cpu_write(self, own);
  ls_cpu_label(self, scope->graph, node);
  ls_cpu_park(self);
  ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), own);
  if (ls_cpu_failed(self)) return;
  ls_cpu_at(self, meet)->number = merge.slot;
  ls_cpu_at(self, meet)->size = (int64_t)size;
}

// Every replica would contribute the same value: no lane is asked.
static void emit_equal(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node, uint32_t value) {
  ls_cpu_merge *merge = NULL;
  ls_status status =
      ls_cpu_merge_prepare(self->kernels, &self->out->arena, scope->graph, node,
                           node->outputs[0], self->replicas, &merge);
  if (status != NULL) {
    ls_cpu_fail_at(self, scope->graph, node, status);
    return;
  }
  if (merge->scratch > self->out->kernel_scratch) {
    self->out->kernel_scratch = merge->scratch;
  }
  const uint32_t result =
      ls_cpu_new_storage(self, ls_cpu_type_size(node->outputs[0]));
  const uint32_t power = ls_cpu_new_storage(self, merge->bytes);
  const uint32_t sum = merge->narrow.loop == NULL
                           ? power
                           : ls_cpu_new_storage(self, merge->bytes);
  const uint32_t equal = ls_cpu_emit(self, LS_CPU_EQUAL, node);
  ls_cpu_read(self, value);
  ls_cpu_write(self, result);
  ls_cpu_write(self, power);
  ls_cpu_write(self, sum);
  ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), result);
  if (!ls_cpu_failed(self)) ls_cpu_at(self, equal)->params = merge;
}

void ls_cpu_emit_all_reduce(ls_cpu_compiler *self, ls_cpu_scope *scope,
                            const ls_node *node) {
  const uint32_t value = ls_cpu_storage_of(self, scope, node->inputs[0]);
  if (ls_cpu_failed(self)) return;
  if (self->replicas == 1) {
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), value);
  } else if (self->in_lane) {
    emit_meeting(self, scope, node, value);
  } else if (ls_cpu_merge_is_idempotent(node)) {
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), value);
  } else {
    emit_equal(self, scope, node, value);
  }
}

static void make_top_merges(ls_cpu_compiler *compiler, region *self) {
  for (size_t i = 0; i < self->graph->num_nodes; ++i) {
    const ls_node *node = self->graph->nodes[i];
    if (node->varying || !is_top_merge(self, node)) continue;
    const top_merge merge = make_merge(compiler, self->graph, node);
    self->merges[self->num_merges++] = merge;
    ls_cpu_bind_ref(compiler, &self->scope, ls_ref(node->id, 0), merge.result);
    if (ls_cpu_failed(compiler)) return;
  }
}

// ---- The shared stream -----------------------------------------------------
static void emit_uniform(ls_cpu_compiler *compiler, region *self,
                         bool after_merge, bool needed) {
  for (size_t i = 0; i < self->graph->num_nodes; ++i) {
    const ls_node *node = self->graph->nodes[i];
    if (node->varying || self->after_merge[i] != after_merge ||
        self->needed[i] != needed) {
      continue;
    }
    if (!is_top_merge(self, node)) {
      ls_cpu_emit_node(compiler, &self->scope, node);
    } else if (needed) {
      // Without need for it in here, the join is enough to wait for.
      uint32_t merge = 0;
      while (self->merges[merge].node != node)
        ++merge;
      const uint32_t await = ls_cpu_emit(compiler, LS_CPU_AWAIT, node);
      ls_cpu_label(compiler, self->graph, node);
      if (ls_cpu_failed(compiler)) return;
      ls_cpu_at(compiler, await)->number = self->merges[merge].slot;
    }
    if (self->published[i] == 0) continue;
    const uint32_t publish = ls_cpu_emit(compiler, LS_CPU_PUBLISH, node);
    if (ls_cpu_failed(compiler)) return;
    ls_cpu_at(compiler, publish)->number = self->published[i];
  }
}

static uint32_t emit_launch(ls_cpu_compiler *compiler, region *self,
                            const ls_cpu_scope *outer, ls_cpu_launch *launch) {
  const uint32_t replicas = (uint32_t)compiler->replicas;
  const uint32_t position = ls_cpu_emit(compiler, LS_CPU_LAUNCH, self->op);
  if (ls_cpu_failed(compiler)) return 0;
  compiler->origins[position].replicate = compiler->replicate;
  ls_cpu_at(compiler, position)->params = launch;
  for (uint32_t i = 0; i < self->num_split * replicas; ++i) {
    ls_cpu_read(compiler,
                ls_cpu_storage_of(compiler, outer, self->op->inputs[i]));
  }
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    if (!self->is_gathered[g]) continue;
    ++launch->num_gathered;
    for (uint32_t r = 0; r < replicas; ++r) {
      ls_cpu_write(compiler, self->gathered[g * replicas + r]);
    }
  }
  ls_executable *out = compiler->out;
  if (launch->num_split > out->num_split) out->num_split = launch->num_split;
  if (launch->num_gathered > out->num_gathered) {
    out->num_gathered = launch->num_gathered;
  }
  return position;
}

// ---- Lane code -------------------------------------------------------------
// Posts whatever merges a varying value.
static void emit_posts(ls_cpu_compiler *compiler, region *self, uint64_t id) {
  for (uint32_t i = 0; i < self->num_merges; ++i) {
    const uint64_t ref = self->merges[i].node->inputs[0];
    if (ref >> 16 != id) continue;
    emit_post(compiler, self->graph, &self->merges[i],
              ls_cpu_storage_of(compiler, &self->scope, ref));
  }
}

// Waits until the uniform operands of a node are published.
static void emit_wait(ls_cpu_compiler *compiler, region *self,
                      const ls_node *node, uint32_t *waited) {
  uint32_t number = *waited;
  size_t what = 0;
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    const size_t input = index_of(self, node->inputs[k]);
    if (self->published[input] <= number) continue;
    number = self->published[input];
    what = input;
  }
  if (number == *waited) return;
  *waited = number;
  const uint32_t wait = ls_cpu_emit(compiler, LS_CPU_WAIT, node);
  ls_cpu_label(compiler, self->graph, self->graph->nodes[what]);
  ls_cpu_park(compiler);
  if (!ls_cpu_failed(compiler)) ls_cpu_at(compiler, wait)->number = number;
}

static void emit_lanes(ls_cpu_compiler *compiler, region *self) {
  compiler->in_lane = true;
  compiler->in_order = true;
  compiler->trips *= compiler->replicas;
  uint32_t waited = 0;
  for (size_t i = 0; i < self->graph->num_nodes; ++i) {
    const ls_node *node = self->graph->nodes[i];
    if (!node->varying) continue;
    emit_wait(compiler, self, node, &waited);
    ls_cpu_emit_node(compiler, &self->scope, node);
    emit_posts(compiler, self, node->id);
    if (ls_cpu_failed(compiler)) return;
  }
  uint32_t index = 0;
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    if (!self->is_gathered[g]) continue;
    const uint64_t ref = self->graph->results[g];
    const uint32_t to = ls_cpu_new_base(compiler, LS_CPU_GATHERED, index++,
                                        ls_cpu_ref_size(self->graph, ref));
    ls_cpu_emit_copy(compiler, self->op, to,
                     ls_cpu_storage_of(compiler, &self->scope, ref));
  }
  ls_cpu_emit(compiler, LS_CPU_END, self->op);
  compiler->trips /= compiler->replicas;
  compiler->in_lane = false;
}

// ---- The op ----------------------------------------------------------------
static void bind_parameters(ls_cpu_compiler *compiler, region *self,
                            const ls_cpu_scope *outer) {
  const ls_graph *graph = self->graph;
  for (uint32_t s = 0; s < self->num_split; ++s) {
    const uint64_t ref = graph->parameters[s];
    const uint32_t storage =
        compiler->replicas == 1
            ? ls_cpu_storage_of(compiler, outer, self->op->inputs[s])
            : ls_cpu_new_base(compiler, LS_CPU_SPLIT, s,
                              ls_cpu_ref_size(graph, ref));
    ls_cpu_bind_ref(compiler, &self->scope, ref, storage);
  }
  size_t input = self->num_split * (size_t)compiler->replicas;
  for (size_t i = graph->num_declared; i < graph->num_parameters; ++i) {
    ls_cpu_bind_ref(
        compiler, &self->scope, graph->parameters[i],
        ls_cpu_storage_of(compiler, outer, self->op->inputs[input++]));
  }
}

// Storages for what lanes give back, one a replica.
static void make_gathered(ls_cpu_compiler *compiler, region *self) {
  const uint32_t replicas = (uint32_t)compiler->replicas;
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    const uint64_t ref = self->graph->results[g];
    self->is_gathered[g] = node_of(self, ref)->varying;
    if (!self->is_gathered[g]) continue;
    const size_t size = ls_cpu_ref_size(self->graph, ref);
    for (uint32_t r = 0; r < replicas; ++r) {
      self->gathered[g * replicas + r] = ls_cpu_new_shared(compiler, size);
    }
  }
}

static void bind_results(ls_cpu_compiler *compiler, region *self,
                         ls_cpu_scope *outer) {
  const uint32_t replicas = (uint32_t)compiler->replicas;
  unsigned output = 0;
  for (uint32_t g = 0; g < self->graph->num_results; ++g) {
    const uint64_t ref = self->graph->results[g];
    const bool is_gathered = g < self->num_gathered;
    for (uint32_t r = 0; r < (is_gathered ? replicas : 1); ++r) {
      const uint32_t storage =
          is_gathered && self->is_gathered[g]
              ? self->gathered[g * replicas + r]
              : ls_cpu_storage_of(compiler, &self->scope, ref);
      ls_cpu_bind_ref(compiler, outer, ls_ref(self->op->id, output++), storage);
    }
  }
}

static void emit_streams(ls_cpu_compiler *compiler, region *self,
                         const ls_cpu_scope *outer) {
  ls_cpu_launch *launch = ls_arena_new(&compiler->out->arena, ls_cpu_launch);
  if (launch == NULL ||
      !ls_grow(compiler->allocator, &compiler->replicates,
               &compiler->replicates_capacity, compiler->num_replicates + 1,
               sizeof(*compiler->replicates))) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  compiler->replicate = (uint32_t)compiler->num_replicates++;
  launch->num_split = self->num_split;
  launch->first_slot = compiler->out->num_slots;
  make_top_merges(compiler, self);
  make_gathered(compiler, self);
  emit_uniform(compiler, self, false, false);
  const uint32_t begin = emit_launch(compiler, self, outer, launch);
  emit_uniform(compiler, self, true, true);
  const uint32_t join = ls_cpu_emit(compiler, LS_CPU_JOIN, self->op);
  const uint32_t lanes = ls_cpu_here(compiler);
  emit_lanes(compiler, self);
  const uint32_t after = ls_cpu_here(compiler);
  launch->num_slots = compiler->out->num_slots - launch->first_slot;
  if (!ls_cpu_failed(compiler)) {
    ls_cpu_at(compiler, begin)->target = lanes;
    ls_cpu_at(compiler, join)->target = after;
    compiler->replicates[compiler->replicate] = (ls_cpu_stretch){begin, join};
  }
  emit_uniform(compiler, self, true, false);
}

void ls_cpu_emit_replicate(ls_cpu_compiler *compiler, ls_cpu_scope *outer,
                           const ls_node *op) {
  const int64_t replicas = ls_node_int(op, "replicas", 1);
  if (compiler->replicate != LS_CPU_NONE || compiler->replicas != 1) {
    ls_cpu_fail(compiler, ls_unimplemented("a replicate op in another one"));
    return;
  }
  if (replicas != compiler->out->replicas || replicas < 1) {
    ls_cpu_fail(compiler, ls_invalid_argument(
                              "a replicate op of %lld replicas in a program "
                              "of %d",
                              (long long)replicas, compiler->out->replicas));
    return;
  }
  compiler->replicas = (int32_t)replicas;
  region self;
  ls_status status = init_region(compiler, op, &self);
  if (status != NULL) {
    ls_cpu_fail(compiler, status);
    return;
  }
  ls_cpu_scope_init(compiler, &self.scope, op->regions[0]);
  bind_parameters(compiler, &self, outer);
  if (replicas == 1) {
    ls_cpu_emit_graph(compiler, &self.scope);
  } else {
    emit_streams(compiler, &self, outer);
  }
  bind_results(compiler, &self, outer);
  compiler->replicas = 1;
  compiler->replicate = LS_CPU_NONE;
  compiler->in_order = true;
}

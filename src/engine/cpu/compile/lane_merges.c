// SPDX-License-Identifier: Apache-2.0
//
// Emission of merges that lanes post to, at any depth of their code.
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/run/sums.h"

// Makes the exchange of a merge's sums with other ranks. As merges are finished
// one after the other, all receive in one storage.
static ls_status exchange_sums(ls_cpu_compiler *self, const ls_node *node,
                               ls_cpu_merge *merge, uint32_t number) {
  ls_cpu_sums *sums = NULL;
  LS_RETURN_IF_ERROR(
      ls_cpu_sums_make(self->out, self->kernels, self->share.replicas,
                       &(ls_cpu_summed){.node = node,
                                        .merge = merge,
                                        .count = (size_t)ls_shape_num_elements(
                                            node->outputs[0].shape)},
                       1, &sums));
  sums->number = number;
  merge->sums = sums;
  ls_cpu_need_scratch(self, sums->scratch, LS_CPU_MANY_BLOCKS);
  if (self->received == LS_CPU_NONE)
    self->received = ls_cpu_new_shared(self, 0);
  if (ls_cpu_failed(self)) return ls_ok();
  ls_cpu_storage *received = &self->storages[self->received];
  if (received->size < sums->received) received->size = sums->received;
  return ls_ok();
}

ls_cpu_lane_merge ls_cpu_make_lane_merge(ls_cpu_compiler *self,
                                         const ls_graph *graph,
                                         const ls_node *node) {
  ls_cpu_lane_merge made = {.node = node, .staging = LS_CPU_NONE};
  const ls_type type = node->outputs[0];
  ls_status status =
      ls_cpu_merge_prepare(self->kernels, &self->out->arena, node, type,
                           self->share.replicas, &made.merge);
  made.slot = self->out->num_slots++;
  if (ls_status_is_ok(status) && ls_cpu_has_remote(&self->share) &&
      made.merge->offsets == NULL)
    status = exchange_sums(self, node, made.merge, made.slot);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(self, graph, node, status);
    return made;
  }
  ls_cpu_need_scratch(self, made.merge->scratch, LS_CPU_MANY_BLOCKS);
  // The sizes depend on the parts, which are chosen last.
  made.partials = ls_cpu_new_shared(self, 0);
  made.result = ls_cpu_new_shared(self, ls_type_bytes(type));
  return made;
}

void ls_cpu_emit_post(ls_cpu_compiler *self, const ls_graph *graph,
                      const ls_cpu_lane_merge *merge, uint32_t value) {
  if (ls_cpu_failed(self)) return;
  if (!self->in_order) {
    const uint32_t transpose = ls_cpu_emit(self, LS_CPU_TURN, merge->node);
    ls_cpu_label(self, graph, merge->node);
    ls_cpu_park(self);
    if (ls_cpu_failed(self)) return;
    ls_cpu_at(self, transpose)->number = merge->slot;
  }
  const uint32_t post = ls_cpu_emit(self, LS_CPU_POST, merge->node);
  ls_cpu_read(self, value);
  ls_cpu_write(self, merge->partials);
  ls_cpu_write(self, merge->result);
  if (merge->merge->widen.loop != NULL)
    ls_cpu_write(self, ls_cpu_new_storage(self, merge->merge->bytes));
  else if (merge->staging != LS_CPU_NONE)
    ls_cpu_write(self, merge->staging);
  if (merge->merge->sums != NULL) ls_cpu_write(self, self->received);
  ls_cpu_label(self, graph, merge->node);
  if (ls_cpu_failed(self)) return;
  ls_cpu_at(self, post)->number = merge->slot;
  ls_cpu_at(self, post)->params = merge->merge;
}

// Returns the type of one replica's value; a gather stacks those of all.
static ls_type value_type(const ls_node *node) {
  ls_type type = node->outputs[0];
  ls_shape *shape = &type.shape;
  if (node->type == LS_OP_ALL_GATHER)
    memmove(shape->dim, shape->dim + 1,
            (size_t)--shape->rank * sizeof(*shape->dim));
  return type;
}

// Returns the next merge inside lane code: the first class makes it, the others
// reach the same merges in the same order.
static ls_cpu_lane_merge next_lane_merge(ls_cpu_compiler *self,
                                         const ls_graph *graph,
                                         const ls_node *node) {
  ls_cpu_lane_merge made = {0};
  if (self->num_reached < self->num_meetings) {
    made = self->lane_merges[self->num_reached++];
    const ls_type a = value_type(made.node), b = value_type(node);
    made.node = node;
    if (a.dtype != b.dtype || !ls_shape_equal(a.shape, b.shape))
      ls_cpu_fail_at(self, graph, node,
                     ls_invalid_argument("a collective of %s and %s: its value "
                                         "must have one shape on all replicas",
                                         LS_SHAPE_TEXT(a.dtype, a.shape),
                                         LS_SHAPE_TEXT(b.dtype, b.shape)));
    return made;
  }
  made = ls_cpu_make_lane_merge(self, graph, node);
  if (ls_cpu_failed(self)) return made;
  // In a loop a lane may post the next trip's rows before other lanes have read
  // those of this trip: so rows are staged.
  if (made.merge->offsets != NULL)
    made.staging = ls_cpu_new_shared(self, ls_type_bytes(node->outputs[0]));
  if (!ls_cpu_has_memory(self, LS_GROW(self->allocator, self->lane_merges,
                                       self->meetings_capacity,
                                       self->num_meetings + 1)))
    return made;
  self->lane_merges[self->num_meetings++] = made;
  ++self->num_reached;
  return made;
}

// Emits a merge below the top level of lane code: every lane posts, parks until
// the result is complete, and copies it.
static void emit_meet(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node, uint32_t value) {
  const ls_cpu_lane_merge merge = next_lane_merge(self, scope->graph, node);
  if (ls_cpu_failed(self)) return;
  ls_cpu_emit_post(self, scope->graph, &merge, value);
  const size_t size = ls_type_bytes(node->outputs[0]);
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

// Emits the merge of a value that is equal on all replicas: lanes do not take
// part.
static void emit_equal(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node, uint32_t value) {
  ls_cpu_merge *merge = NULL;
  ls_status status =
      ls_cpu_merge_prepare(self->kernels, &self->out->arena, node,
                           node->outputs[0], self->share.replicas, &merge);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(self, scope->graph, node, status);
    return;
  }
  ls_cpu_need_scratch(self, merge->scratch, LS_CPU_MANY_BLOCKS);
  const uint32_t result =
      ls_cpu_new_storage(self, ls_type_bytes(node->outputs[0]));
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

void ls_cpu_emit_merge(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node) {
  const uint32_t value = ls_cpu_storage_of(self, scope, node->inputs[0]);
  if (ls_cpu_failed(self)) return;
  if (self->share.replicas == 1)
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), value);
  else if (self->in_lane)
    emit_meet(self, scope, node, value);
  else if (ls_cpu_merge_is_idempotent(node))
    ls_cpu_bind_ref(self, scope, ls_ref(node->id, 0), value);
  else
    emit_equal(self, scope, node, value);
}

// SPDX-License-Identifier: Apache-2.0
//
// Replicas as one batch.
//
// If all replicas do the same, nothing parks between merges and no branch
// depends on a replica, lanes are not needed: one stream goes through the body
// once, and each instruction computes its value for all replicas, concatenated.
// Most ops compute rows independently (a row has one index in dimension 0); for
// these the replicas' rows are simply more rows, and the program is that of one
// replica with the whole batch. Other ops run their kernel once per replica, as
// blocks of one instruction. A merge is an ordinary instruction; a gradient of
// weights that is merged at once is multiplied and added up in one instruction
// (product/products.h).
//
// Replicas whose arguments have different shapes are of different classes: each
// class is its own batch, and all contribute to the merges
// (batching_classes.c).
//
// The bits equal those of lanes: no kernel's rows depend on the number of rows.
#include "engine/cpu/compile/batching.h"

#include "engine/cpu/kernels/batched.h"

// ---- Copies ----------------------------------------------------------------
void ls_cpu_emit_extra(ls_cpu_compiler *compiler, const ls_cpu_extra *e) {
  const uint32_t position = ls_cpu_emit(compiler, LS_CPU_KERNEL, e->node);
  for (uint32_t i = 0; i < e->num_in; ++i)
    ls_cpu_read(compiler, e->in[i]);
  for (uint32_t i = 0; i < e->num_out; ++i)
    ls_cpu_write(compiler, e->out[i]);
  if (ls_cpu_failed(compiler)) return;
  ls_cpu_instruction *instruction = ls_cpu_at(compiler, position);
  instruction->loop = e->loop;
  instruction->params = e->params;
  instruction->size = e->blocks;
  instruction->number = ls_cpu_team_gains(e->flops, e->bytes, e->blocks);
  ls_cpu_note *note = &compiler->origins[position].note;
  note->kind = e->kind;
  note->bytes = e->bytes;
  note->flops = e->flops;
}

// Copies `size` bytes per replica; a block is a replica.
typedef struct copies {
  const char *kind;
  ls_kernel_loop loop;
  size_t size;
  uint32_t count;
  const uint32_t *in, *out;
  uint32_t num_in, num_out;
} copies;

static void emit_copies(ls_cpu_batched *self, const ls_node *node,
                        const copies *c) {
  size_t *params = ls_arena_new(&self->compiler->out->arena, size_t);
  if (params == NULL) {
    ls_cpu_fail(self->compiler, ls_out_of_memory());
    return;
  }
  *params = c->size;
  ls_cpu_emit_extra(self->compiler,
                    &(ls_cpu_extra){.node = node,
                                    .kind = c->kind,
                                    .loop = c->loop,
                                    .params = params,
                                    .blocks = c->count,
                                    .bytes = 2 * c->size * c->count,
                                    .in = c->in,
                                    .num_in = c->num_in,
                                    .out = c->out,
                                    .num_out = c->num_out});
}

// Copies a value common to all lanes once for each lane.
static uint32_t repeat_value(ls_cpu_batched *self, const ls_node *node,
                             uint64_t ref) {
  const size_t size = ls_cpu_ref_size(self->graph, ref);
  const uint32_t source = ls_cpu_storage_of(self->compiler, self->scope, ref);
  const uint32_t joined = ls_cpu_new_shared(self->compiler, size * self->lanes);
  emit_copies(self, node,
              &(copies){"repeat", ls_cpu_repeat_loop, size, self->lanes,
                        &source, &joined, 1, 1});
  return joined;
}

uint32_t ls_cpu_batched_argument(const ls_cpu_batched *self, uint64_t ref) {
  for (uint32_t s = 0; s < self->region->num_arguments; ++s)
    if (self->graph->parameters[s] == ref) return s;
  return LS_CPU_NONE;
}

uint32_t ls_cpu_batched_storage(ls_cpu_batched *self, uint64_t ref) {
  const uint32_t s = ls_cpu_batched_argument(self, ref);
  if (s != LS_CPU_NONE && !self->is_concatenated[s]) {
    const size_t size = ls_cpu_ref_size(self->graph, ref);
    const uint32_t joined =
        ls_cpu_new_shared(self->compiler, size * self->lanes);
    emit_copies(self, self->region->op,
                &(copies){"line up", ls_cpu_concatenate_loop, size, self->lanes,
                          self->parts[s], &joined, self->lanes, 1});
    ls_cpu_bind_ref(self->compiler, self->scope, ref, joined);
    self->is_concatenated[s] = true;
  }
  return ls_cpu_storage_of(self->compiler, self->scope, ref);
}

// ---- Rows ------------------------------------------------------------------
typedef ls_cpu_rows rows;

static bool keeps_rows(const ls_node *node) {
  const ls_attr *axes = ls_node_attr(node, LS_ATTR_ID_AXES);
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == 0) return false;
  return true;
}

static int32_t value_rank(const ls_graph *graph, uint64_t ref) {
  return ls_graph_type(graph, ref).shape.rank;
}

static rows rows_of_product(const ls_graph *graph, const ls_node *node) {
  const int32_t right = value_rank(graph, node->inputs[1]);
  if (right > 2) {
    const bool alike = value_rank(graph, node->inputs[0]) == right;
    return (rows){0, alike ? node->num_inputs : 0};
  }
  // For a vector, dimension 0 is summed over, so it has no independent rows.
  const bool apart = value_rank(graph, node->inputs[0]) > 1 &&
                     !ls_node_int(node, LS_ATTR_ID_TRANSPOSE_A);
  return (rows){0, apart ? 1 : 0};
}

ls_cpu_rows ls_cpu_find_rows(const ls_graph *graph, const ls_node *node) {
  const unsigned traits = ls_node_info(node)->traits;
  const rows none = {0}, all_operands = {0, node->num_inputs}, first = {0, 1};
  if (traits & LS_OP_RANDOM) return none;
  if (traits & LS_OP_ELEMENTWISE) return all_operands;
  // A vector is a single row.
  const bool has_lines =
      node->num_inputs > 0 && value_rank(graph, node->inputs[0]) > 1;
  switch (traits & LS_OP_ALL_ROWS) {
  case LS_OP_ROWS:
    return all_operands;
  case LS_OP_ROWS_OF_FIRST:
    return first;
  case LS_OP_ROWS_BUT_LAST:
    return (rows){0, node->num_inputs - 1};
  case LS_OP_ROWS_OF_INDICES:
    return ls_node_int(node, LS_ATTR_ID_AXIS) == 0 ? (rows){1, 1} : none;
  case LS_OP_ROWS_IF_KEPT:
    return keeps_rows(node) ? all_operands : none;
  case LS_OP_ROWS_OF_PRODUCT:
    return rows_of_product(graph, node);
  case LS_OP_LINES:
    return has_lines ? all_operands : none;
  case LS_OP_LINES_OF_FIRST:
    return has_lines ? first : none;
  default:
    return none;
  }
}

static bool is_row_operand(const rows *r, uint32_t input) {
  return input >= r->first && input < r->first + r->count;
}

// Multiplies dimension 0 by the number of replicas.
static void join_rows(const ls_cpu_batched *self, ls_type *type) {
  type->shape.dim[0] *= self->lanes;
}

// Sets the types with the rows of all replicas; returns false if the op's
// result would have another type.
static bool join_types(const ls_cpu_batched *self, const ls_node *node,
                       const rows *r, ls_type *in, ls_type *out) {
  if (r->count == 0) return false;
  const ls_type first = ls_graph_type(self->graph, node->inputs[r->first]);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    in[i] = ls_graph_type(self->graph, node->inputs[i]);
    const bool is_scalar = in[i].shape.rank == 0;
    const bool differs = ls_cpu_batched_varies(self, node->inputs[i]);
    if (!is_row_operand(r, i) || is_scalar) {
      if (differs) return false;
      continue;
    }
    if (in[i].shape.dim[0] != first.shape.dim[0]) return false;
    join_rows(self, &in[i]);
  }
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    out[i] = node->outputs[i];
    if (out[i].shape.rank == 0 || out[i].shape.dim[0] != first.shape.dim[0])
      return false;
    join_rows(self, &out[i]);
  }
  return first.shape.rank > 0 && first.shape.dim[0] > 0;
}

// ---- Nodes -----------------------------------------------------------------
static void emit_varying(ls_cpu_batched *self, const ls_node *node) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_arena *temp = &compiler->temp;
  const uint32_t count = node->num_inputs;
  ls_type *in = ls_arena_new_array(temp, ls_type, count);
  ls_type *out = ls_arena_new_array(temp, ls_type, node->num_outputs);
  uint32_t *inputs = ls_arena_new_array(temp, uint32_t, count);
  bool *is_whole = ls_arena_new_array(temp, bool, count);
  if (!ls_cpu_has_memory(compiler, in != NULL && out != NULL &&
                                       inputs != NULL && is_whole != NULL))
    return;
  const rows r = ls_cpu_find_rows(self->graph, node);
  const bool joins = join_types(self, node, &r, in, out);
  for (uint32_t i = 0; i < count; ++i) {
    const ls_type type = ls_graph_type(self->graph, node->inputs[i]);
    is_whole[i] = !ls_cpu_batched_varies(self, node->inputs[i]);
    const bool repeats =
        joins && is_whole[i] && is_row_operand(&r, i) && type.shape.rank > 0;
    inputs[i] = repeats ? repeat_value(self, node, node->inputs[i])
                        : ls_cpu_batched_storage(self, node->inputs[i]);
    if (!joins) in[i] = type;
  }
  ls_cpu_use use;
  ls_status status = ls_cpu_prepare_use(compiler, self->graph, node, in,
                                        joins ? out : node->outputs, &use);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(compiler, self->graph, node, status);
    return;
  }
  use.inputs = inputs;
  use.is_whole = is_whole;
  use.lanes = joins ? 1 : self->lanes;
  use.first = joins ? 0 : self->first;
  ls_cpu_emit_use(compiler, self->scope, &use);
}

// Binds each result to its operand, repeated for each replica; emits nothing.
static void bind_barrier(ls_cpu_batched *self, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const uint64_t ref = node->inputs[i];
    ls_cpu_bind_ref(self->compiler, self->scope, ls_ref(node->id, i),
                    ls_cpu_batched_varies(self, ref)
                        ? ls_cpu_batched_storage(self, ref)
                        : repeat_value(self, node, ref));
  }
}

// ---- A class ---------------------------------------------------------------
static ls_status bind_arguments(ls_cpu_batched *self,
                                const ls_cpu_scope *outer) {
  ls_arena *temp = &self->compiler->temp;
  const ls_cpu_region *region = self->region;
  const uint32_t replicas = (uint32_t)self->compiler->share.replicas;
  LS_ARENA_SET_OR_RETURN(temp, uint32_t *, self->parts, region->num_split);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->is_concatenated,
                         region->num_arguments);
  for (uint32_t s = 0; s < region->num_split; ++s) {
    LS_ARENA_SET_OR_RETURN(temp, uint32_t, self->parts[s], self->lanes);
    for (uint32_t r = 0; r < self->lanes; ++r)
      self->parts[s][r] = ls_cpu_storage_of(
          self->compiler, outer,
          ls_cpu_argument_of(region, replicas, s, self->first + r));
    if (self->lanes > 1) continue;
    // Needs no copy: all replicas read the same storage.
    self->is_concatenated[s] = true;
    ls_cpu_bind_ref(self->compiler, self->scope, self->graph->parameters[s],
                    self->parts[s][0]);
  }
  for (uint32_t s = region->num_split; s < region->num_arguments; ++s) {
    self->is_concatenated[s] = true;
    const uint64_t ref = self->graph->parameters[s];
    ls_cpu_bind_ref(
        self->compiler, self->scope, ref,
        ls_cpu_wide_storage(self->compiler, outer,
                            ls_cpu_argument_of(region, replicas, s, 0),
                            ls_cpu_ref_size(self->graph, ref) *
                                ls_cpu_num_local(&self->compiler->share)));
  }
  return ls_ok();
}

static void scatter_results(ls_cpu_batched *self) {
  const ls_cpu_region *region = self->region;
  const uint32_t replicas = (uint32_t)self->compiler->share.replicas;
  for (uint32_t g = 0; g < region->num_gathered; ++g) {
    if (!region->is_gathered[g]) continue;
    const uint64_t ref = self->graph->results[g];
    const size_t size = ls_cpu_ref_size(self->graph, ref);
    uint32_t *parts = region->gathered + (size_t)g * replicas + self->first;
    for (uint32_t r = 0; r < self->replicas; ++r)
      parts[r] = ls_cpu_new_shared(self->compiler, size);
    const bool varies = ls_cpu_batched_varies(self, ref);
    const uint32_t joined = ls_cpu_batched_storage(self, ref);
    emit_copies(
        self, region->op,
        &(copies){"deal", varies ? ls_cpu_deal_loop : ls_cpu_deal_one_loop,
                  size, self->replicas, &joined, parts, 1, self->replicas});
  }
}

// Binds wide results to the storages of the parts, which are concatenated.
static void find_wide_results(ls_cpu_batched *self) {
  const ls_cpu_region *region = self->region;
  for (uint32_t g = region->num_gathered; g < region->num_given; ++g) {
    const uint64_t ref = self->graph->results[g];
    region->wide[g - region->num_gathered] =
        ls_cpu_batched_varies(self, ref) ? ls_cpu_batched_storage(self, ref)
                                         : repeat_value(self, region->op, ref);
  }
}

// Binds a node to the value of an equal node that shared code has computed from
// the first class.
static void bind_twin(ls_cpu_classes *classes, ls_cpu_batched *self,
                      const ls_node *node, uint32_t twin) {
  const ls_cpu_batched *first = &classes->items[0];
  if (node->type == LS_OP_PARAMETER) return;
  for (unsigned i = 0; i < node->num_outputs; ++i)
    ls_cpu_bind_ref(
        self->compiler, self->scope, ls_ref(node->id, i),
        ls_cpu_storage_of(self->compiler, first->scope,
                          ls_ref(first->graph->nodes[twin]->id, i)));
}

static bool is_met(const ls_cpu_batched *self, const ls_node *node) {
  if ((ls_node_info(node)->traits & LS_OP_MERGE) == 0) return false;
  for (uint32_t m = 0; m < self->region->num_merges; ++m)
    if (self->body->merges[m] == node) return true;
  return false;
}

static void emit_one(ls_cpu_classes *classes, ls_cpu_batched *self,
                     uint32_t position) {
  const ls_node *node = self->graph->nodes[position];
  const uint32_t twin = self->body->twins[position];
  if (self->is_merged[position] || is_met(self, node)) return;
  ls_cpu_send_before(classes, node);
  if (self != classes->items && twin != LS_NO_TWIN &&
      node->type != LS_OP_CONSTANT) {
    if (self->needs[position]) bind_twin(classes, self, node, twin);
  } else if (!self->varies[position] || node->type == LS_OP_PARAMETER) {
    ls_cpu_emit_node(self->compiler, self->scope, node);
  } else if (node->type == LS_OP_BARRIER) {
    bind_barrier(self, node);
  } else {
    emit_varying(self, node);
  }
}

// Emits the nodes of all classes that a merge needs from each.
static void emit_up_to(ls_cpu_classes *classes, const ls_cpu_addend *until) {
  for (uint32_t k = 0; k < classes->count; ++k) {
    ls_cpu_batched *self = &classes->items[k];
    const size_t end = until == NULL ? self->graph->num_nodes : until[k].before;
    while (self->emitted < end && !ls_cpu_failed(classes->compiler))
      emit_one(classes, self, self->emitted++);
  }
}

// ---- The op ----------------------------------------------------------------
bool ls_cpu_emit_batched(ls_cpu_compiler *compiler, ls_cpu_region *region,
                         const ls_cpu_scope *outer) {
  ls_cpu_classes classes;
  if (!ls_cpu_plan_classes(compiler, region, &classes))
    return ls_cpu_failed(compiler);
  for (uint32_t k = 0; k < classes.count; ++k) {
    const ls_status status = bind_arguments(&classes.items[k], outer);
    if (!ls_status_is_ok(status)) {
      ls_cpu_fail(compiler, status);
      return true;
    }
  }
  for (uint32_t e = 0; e < region->num_merges && !ls_cpu_failed(compiler);
       ++e) {
    const uint32_t m = classes.order[e];
    emit_up_to(&classes, &classes.addends[m * classes.count]);
    ls_cpu_merge_batched(&classes, m);
    ls_cpu_send_ready(&classes, e);
  }
  emit_up_to(&classes, NULL);
  for (uint32_t k = 0; k < classes.count && !ls_cpu_failed(compiler); ++k) {
    scatter_results(&classes.items[k]);
    find_wide_results(&classes.items[k]);
  }
  if (ls_cpu_has_remote(&compiler->share) && !ls_cpu_failed(compiler))
    ls_cpu_exchange_gathered(&classes);
  return true;
}

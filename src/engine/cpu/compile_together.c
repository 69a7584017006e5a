// SPDX-License-Identifier: Apache-2.0
//
// Replicas side by side.
//
// Where all replicas do the same, nothing parks between merges and no branch
// depends on a replica, there is no need for lanes: one stream goes through the
// body once, and each instruction computes its value for all replicas, whose
// parts lie one behind the other. Most ops treat rows apart (a row being what
// has one index in dimension 0); for these the replicas' rows are simply more
// rows, and the program is that of one replica with the whole batch. Others
// run their kernel once a replica, as blocks of one instruction. A merge is an
// instruction like any other; a gradient of weights that is merged at once is
// multiplied and added up in one (products.h).
//
// The bits are those of lanes: no kernel's rows depend on how many there are.
#include "base/runtime_internal.h"
#include "engine/cpu/compile_region.h"
#include "engine/cpu/products.h"
#include "engine/cpu/team.h"
#include "engine/cpu/together.h"

// Elements of a product from which on it matters, and how many times that its
// operands may be for it to be summed while it is multiplied.
enum { LEAST_ELEMENTS = 4096, MOST_OPERANDS = 2 };

typedef struct together {
  ls_cpu_compiler *compiler;
  ls_cpu_region *region;
  const ls_graph *graph;
  ls_cpu_scope *scope;
  uint32_t lanes;
  // By argument: the storages of its parts, one a replica, and whether they
  // have been lined up.
  uint32_t **parts;
  bool *is_lined_up;
} together;

static bool varies(const together *self, uint64_t ref) {
  return ls_graph_node_of(self->graph, ref)->varying;
}

// ---- Whether they can ------------------------------------------------------
static bool can_run(const ls_node *node) {
  if (!node->varying || node->type == LS_OP_PARAMETER ||
      node->type == LS_OP_BARRIER)
    return true;
  return node->num_regions == 0 && node->type != LS_OP_HOST &&
         ls_kernel_prepare_of(node->type) != NULL &&
         (ls_node_info(node)->traits & LS_OP_MERGE) == 0 &&
         node->num_inputs + node->num_outputs < LS_CPU_SPREAD_OPERANDS;
}

bool ls_cpu_can_go_together(const ls_cpu_compiler *self,
                            const ls_cpu_region *region) {
  if (self->replicas < 2 || region->num_bodies != 1 ||
      self->out->trunk != NULL ||
      ls_debug_lanes(self->out->backend->runtime) != LS_LANES_TOGETHER)
    return false;
  const ls_graph *graph = region->bodies[0].graph;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (!can_run(graph->nodes[i])) return false;
  return true;
}

// ---- Copies ----------------------------------------------------------------
// What an instruction is that no node asked for.
typedef struct extra {
  const ls_node *node;
  const char *kind;  // NULL: the node's op.
  ls_kernel_loop loop;
  const void *params;
  int64_t blocks, flops;
  size_t bytes;
  const uint32_t *in, *out;
  uint32_t num_in, num_out;
} extra;

static void emit_extra(together *self, const extra *e) {
  ls_cpu_compiler *compiler = self->compiler;
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

// Copies between one storage for each replica and one of all, a block a
// replica.
static void emit_copies(together *self, const ls_node *node, const char *kind,
                        ls_kernel_loop loop, size_t size, const uint32_t *in,
                        uint32_t num_in, const uint32_t *out,
                        uint32_t num_out) {
  size_t *params = ls_arena_new(&self->compiler->out->arena, size_t);
  if (params == NULL) {
    ls_cpu_fail(self->compiler, ls_out_of_memory());
    return;
  }
  *params = size;
  emit_extra(self, &(extra){.node = node,
                            .kind = kind,
                            .loop = loop,
                            .params = params,
                            .blocks = self->lanes,
                            .bytes = 2 * size * self->lanes,
                            .in = in,
                            .num_in = num_in,
                            .out = out,
                            .num_out = num_out});
}

// A value that is one for all replicas, once for each.
static uint32_t repeat(together *self, const ls_node *node, uint64_t ref) {
  const size_t size = ls_cpu_ref_size(self->graph, ref);
  const uint32_t one = ls_cpu_storage_of(self->compiler, self->scope, ref);
  const uint32_t all = ls_cpu_new_shared(self->compiler, size * self->lanes);
  emit_copies(self, node, "repeat", ls_cpu_repeat_loop, size, &one, 1, &all, 1);
  return all;
}

// The number of the argument that a value is, or NONE.
static uint32_t argument_of(const together *self, uint64_t ref) {
  for (uint32_t s = 0; s < self->region->num_split; ++s)
    if (self->graph->parameters[s] == ref) return s;
  return LS_CPU_NONE;
}

// The storage of a value: an argument is lined up when it is first used so.
static uint32_t storage_of(together *self, uint64_t ref) {
  const uint32_t s = argument_of(self, ref);
  if (s != LS_CPU_NONE && !self->is_lined_up[s]) {
    const size_t size = ls_cpu_ref_size(self->graph, ref);
    const uint32_t all = ls_cpu_new_shared(self->compiler, size * self->lanes);
    emit_copies(self, self->region->op, "line up", ls_cpu_line_up_loop, size,
                self->parts[s], self->lanes, &all, 1);
    ls_cpu_bind_ref(self->compiler, self->scope, ref, all);
    self->is_lined_up[s] = true;
  }
  return ls_cpu_storage_of(self->compiler, self->scope, ref);
}

// ---- Rows ------------------------------------------------------------------
// How many operands of a node, from `first` on, are rows that are computed
// apart; the others are used whole, for each row. None: it is something else.
typedef struct rows {
  uint32_t first, count;
} rows;

static bool keeps_rows(const ls_node *node, const char *axes_name) {
  const ls_attr *axes = ls_node_attr(node, axes_name);
  for (size_t i = 0; axes != NULL && i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == 0) return false;
  return axes != NULL;
}

static int32_t rank_of(const together *self, uint64_t ref) {
  return ls_graph_type(self->graph, ref).shape.rank;
}

static rows rows_of_product(const together *self, const ls_node *node) {
  const int32_t right = rank_of(self, node->inputs[1]);
  if (right > 2) {
    const bool alike = rank_of(self, node->inputs[0]) == right;
    return (rows){0, alike ? node->num_inputs : 0};
  }
  return (rows){0, ls_node_int(node, "transpose_a", 0) ? 0 : 1};
}

static rows rows_of(const together *self, const ls_node *node) {
  const rows none = {0}, all = {0, node->num_inputs};
  if (ls_node_info(node)->traits & LS_OP_RANDOM) return none;
  if (ls_node_info(node)->traits & LS_OP_ELEMENTWISE) return all;
  switch (node->type) {
  case LS_OP_DENSE:
  case LS_OP_MATMUL:
    return rows_of_product(self, node);
  case LS_OP_CONVOLUTION:
  case LS_OP_CONV_BIAS_ACT:
  case LS_OP_CONV_GRAD_INPUT:
  case LS_OP_LAYER_NORM:
  case LS_OP_RMS_NORM:
  case LS_OP_BATCH_NORM_INFERENCE:
    return (rows){0, 1};
  case LS_OP_GATHER:
    return ls_node_int(node, "axis", 0) == 0 ? (rows){1, 1} : none;
  case LS_OP_SOFTMAX:
  case LS_OP_LOG_SOFTMAX:
    return rank_of(self, node->inputs[0]) > 1 ? all : none;
  case LS_OP_REDUCE_SUM:
  case LS_OP_REDUCE_MAX:
  case LS_OP_REDUCE_MIN:
    return keeps_rows(node, "axes") ? all : none;
  case LS_OP_CROSS_ENTROPY:
  case LS_OP_CROSS_ENTROPY_GRAD:
  case LS_OP_REDUCE_WINDOW:
  case LS_OP_WINDOW_SUM_GRAD:
  case LS_OP_WINDOW_MAX_GRAD:
  case LS_OP_WINDOW_MAX_PICK:
  case LS_OP_ATTENTION:
  case LS_OP_ATTENTION_GRAD:
    return all;
  default:
    return none;
  }
}

static bool is_row_operand(const rows *r, uint32_t input) {
  return input >= r->first && input < r->first + r->count;
}

// Multiplies dimension 0 by the number of replicas.
static void join_rows(const together *self, ls_type *type) {
  type->shape.dim[0] *= self->lanes;
}

// Fills in the types of all replicas' rows; false: that is not what they are.
static bool join_types(const together *self, const ls_node *node, const rows *r,
                       ls_type *in, ls_type *out) {
  if (r->count == 0) return false;
  const ls_type first = ls_graph_type(self->graph, node->inputs[r->first]);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    in[i] = ls_graph_type(self->graph, node->inputs[i]);
    const bool is_scalar = in[i].shape.rank == 0;
    const bool differs = varies(self, node->inputs[i]);
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
static void emit_varying(together *self, const ls_node *node) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_arena *temp = &compiler->temp;
  const uint32_t count = node->num_inputs;
  ls_type *in = ls_arena_new_array(temp, ls_type, count);
  ls_type *out = ls_arena_new_array(temp, ls_type, node->num_outputs);
  uint32_t *inputs = ls_arena_new_array(temp, uint32_t, count);
  bool *is_whole = ls_arena_new_array(temp, bool, count);
  if (in == NULL || out == NULL || inputs == NULL || is_whole == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  const rows r = rows_of(self, node);
  const bool joins = join_types(self, node, &r, in, out);
  for (uint32_t i = 0; i < count; ++i) {
    const ls_type type = ls_graph_type(self->graph, node->inputs[i]);
    is_whole[i] = !varies(self, node->inputs[i]);
    const bool repeats =
        joins && is_whole[i] && is_row_operand(&r, i) && type.shape.rank > 0;
    inputs[i] = repeats ? repeat(self, node, node->inputs[i])
                        : storage_of(self, node->inputs[i]);
    if (!joins) in[i] = type;
  }
  ls_cpu_use use;
  ls_status status = ls_cpu_prepare_use(compiler, self->graph, node, in,
                                        joins ? out : node->outputs, &use);
  if (status != NULL) {
    ls_cpu_fail_at(compiler, self->graph, node, status);
    return;
  }
  use.inputs = inputs;
  use.is_whole = is_whole;
  use.lanes = joins ? 1 : self->lanes;
  ls_cpu_emit_use(compiler, self->scope, &use);
}

// Nothing is done: each result is its operand, once for each replica.
static void emit_barrier(together *self, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const uint64_t ref = node->inputs[i];
    ls_cpu_bind_ref(self->compiler, self->scope, ls_ref(node->id, i),
                    varies(self, ref) ? storage_of(self, ref)
                                      : repeat(self, node, ref));
  }
}

// ---- Merges ----------------------------------------------------------------
static uint32_t count_uses(const ls_graph *graph, uint64_t ref) {
  uint32_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t n = 0; n < graph->nodes[i]->num_inputs; ++n)
      count += graph->nodes[i]->inputs[n] == ref;
  for (size_t i = 0; i < graph->num_results; ++i)
    count += graph->results[i] == ref;
  return count;
}

// Whether a merge is a sum or mean of floats that are added as they are.
static bool is_sum(const ls_node *merge, bool *out_mean) {
  const ls_attr *attr = ls_node_attr(merge, "reduce");
  const char *reduce = attr == NULL ? "sum" : attr->as.string;
  const ls_dtype dtype = merge->outputs[0].dtype;
  *out_mean = strcmp(reduce, "mean") == 0;
  return merge->type == LS_OP_ALL_REDUCE &&
         (*out_mean || strcmp(reduce, "sum") == 0) &&
         (dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64);
}

// The product of what replicas have that only this merge uses, if its operands
// are small enough beside it; NULL: it is something else.
static const ls_node *product_of(const together *self, const ls_node *merge) {
  bool mean = false;
  const uint64_t ref = merge->inputs[0];
  const ls_node *node = ls_graph_node_of(self->graph, ref);
  if (!is_sum(merge, &mean) || node->type != LS_OP_MATMUL ||
      !ls_node_int(node, "transpose_a", 0) ||
      ls_node_int(node, "transpose_b", 0))
    return NULL;
  int64_t operands = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    const ls_shape shape = ls_graph_type(self->graph, node->inputs[i]).shape;
    if (shape.rank != 2 || !varies(self, node->inputs[i])) return NULL;
    operands += ls_shape_num_elements(shape);
  }
  const int64_t size = ls_shape_num_elements(node->outputs[0].shape);
  if (size < LEAST_ELEMENTS || operands > MOST_OPERANDS * size ||
      count_uses(self->graph, ref) != 1)
    return NULL;
  return node;
}

// Whether the node is computed by the merge that uses it.
static bool is_left_to_merge(const together *self, const ls_node *node) {
  if (node->type != LS_OP_MATMUL) return false;
  for (size_t i = 0; i < self->graph->num_nodes; ++i) {
    const ls_node *merge = self->graph->nodes[i];
    if (self->region->meets[i] && merge->inputs[0] >> 16 == node->id &&
        product_of(self, merge) != NULL)
      return true;
  }
  return false;
}

static void emit_products(together *self, const ls_node *merge,
                          const ls_node *product, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_type a = ls_graph_type(self->graph, product->inputs[0]);
  const ls_type b = ls_graph_type(self->graph, product->inputs[1]);
  ls_cpu_products products = {.dtype = a.dtype,
                              .m = a.shape.dim[1],
                              .n = b.shape.dim[1],
                              .k = a.shape.dim[0],
                              .replicas = self->lanes};
  is_sum(merge, &products.mean);
  ls_kernel_plan plan = {.kernels = compiler->kernels,
                         .arena = &compiler->out->arena};
  const ls_status status = ls_cpu_products_prepare(&products, &plan);
  if (status != NULL) {
    ls_cpu_fail_at(compiler, self->graph, merge, status);
    return;
  }
  uint32_t in[2];
  size_t bytes = ls_cpu_type_size(merge->outputs[0]);
  for (uint32_t i = 0; i < 2; ++i) {
    in[i] = storage_of(self, product->inputs[i]);
    bytes += self->lanes * ls_cpu_ref_size(self->graph, product->inputs[i]);
  }
  emit_extra(self, &(extra){.node = merge,
                            .kind = "sum of products",
                            .loop = plan.loop,
                            .params = plan.params,
                            .blocks = plan.blocks,
                            .flops = plan.flops,
                            .bytes = bytes,
                            .in = in,
                            .num_in = 2,
                            .out = &result,
                            .num_out = 1});
  ls_executable *out = compiler->out;
  if (plan.scratch > out->kernel_scratch) out->kernel_scratch = plan.scratch;
  out->facts.flops += plan.flops * compiler->trips;
}

static void emit_tree(together *self, const ls_node *merge, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_executable *out = compiler->out;
  const ls_type type = merge->outputs[0];
  ls_cpu_tree *tree = ls_arena_new(&out->arena, ls_cpu_tree);
  if (tree == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  const uint32_t argument = argument_of(self, merge->inputs[0]);
  *tree = (ls_cpu_tree){.dtype = type.dtype,
                        .count = ls_shape_num_elements(type.shape),
                        .replicas = self->lanes,
                        .kernels = compiler->kernels,
                        .apart = argument != LS_CPU_NONE &&
                                 !self->is_lined_up[argument]};
  is_sum(merge, &tree->mean);
  const size_t scratch = ls_cpu_tree_scratch(tree);
  if (scratch > out->kernel_scratch) out->kernel_scratch = scratch;
  const uint32_t all = tree->apart ? 0 : storage_of(self, merge->inputs[0]);
  emit_extra(self, &(extra){.node = merge,
                            .loop = ls_cpu_tree_loop,
                            .params = tree,
                            .blocks = ls_cpu_tree_blocks(tree),
                            .bytes = (self->lanes + 1) * ls_cpu_type_size(type),
                            .in = tree->apart ? self->parts[argument] : &all,
                            .num_in = tree->apart ? self->lanes : 1,
                            .out = &result,
                            .num_out = 1});
}

// Whatever else there is: step by step.
static void emit_any(together *self, const ls_node *merge, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_executable *out = compiler->out;
  ls_cpu_merge_all *all = ls_arena_new(&out->arena, ls_cpu_merge_all);
  ls_cpu_merge *steps = NULL;
  ls_status status =
      all == NULL ? ls_out_of_memory()
                  : ls_cpu_merge_prepare(compiler->kernels, &out->arena,
                                         self->graph, merge, merge->outputs[0],
                                         compiler->replicas, &steps);
  if (status != NULL) {
    ls_cpu_fail_at(compiler, self->graph, merge, status);
    return;
  }
  all->merge = steps;
  all->stride = ls_cpu_ref_size(self->graph, merge->inputs[0]);
  if (steps->scratch > out->kernel_scratch)
    out->kernel_scratch = steps->scratch;
  const uint32_t outputs[] = {
      result,
      ls_cpu_new_shared(compiler,
                        steps->stride * ls_cpu_merge_depth(self->lanes)),
      ls_cpu_new_shared(compiler, steps->widen.loop == NULL ? 0 : steps->bytes),
  };
  const uint32_t value = storage_of(self, merge->inputs[0]);
  emit_extra(self, &(extra){.node = merge,
                            .loop = ls_cpu_merge_all_loop,
                            .params = all,
                            .blocks = 1,
                            .in = &value,
                            .num_in = 1,
                            .out = outputs,
                            .num_out = 3});
}

static void emit_merge(together *self, const ls_node *merge) {
  ls_cpu_compiler *compiler = self->compiler;
  const uint32_t result =
      ls_cpu_new_shared(compiler, ls_cpu_type_size(merge->outputs[0]));
  ls_cpu_bind_ref(compiler, self->scope, ls_ref(merge->id, 0), result);
  const ls_node *product = product_of(self, merge);
  if (product != NULL) {
    emit_products(self, merge, product, result);
    return;
  }
  bool mean = false;
  if (is_sum(merge, &mean))
    emit_tree(self, merge, result);
  else
    emit_any(self, merge, result);
}

// ---- The op ----------------------------------------------------------------
static ls_status find_arguments(together *self, const ls_cpu_scope *outer) {
  ls_arena *temp = &self->compiler->temp;
  const ls_cpu_region *region = self->region;
  self->parts = ls_arena_new_array(temp, uint32_t *, region->num_split);
  self->is_lined_up = ls_arena_new_array(temp, bool, region->num_split);
  if (self->parts == NULL || self->is_lined_up == NULL)
    return ls_out_of_memory();
  for (uint32_t s = 0; s < region->num_split; ++s) {
    self->parts[s] = ls_arena_new_array(temp, uint32_t, self->lanes);
    if (self->parts[s] == NULL) return ls_out_of_memory();
    for (uint32_t r = 0; r < self->lanes; ++r)
      self->parts[s][r] = ls_cpu_storage_of(
          self->compiler, outer, region->op->inputs[s * self->lanes + r]);
  }
  return ls_ok();
}

static void deal_results(together *self) {
  const ls_cpu_region *region = self->region;
  for (uint32_t g = 0; g < region->num_gathered; ++g) {
    if (!region->is_gathered[g]) continue;
    const uint64_t ref = self->graph->results[g];
    const size_t size = ls_cpu_ref_size(self->graph, ref);
    uint32_t *parts = region->gathered + (size_t)g * self->lanes;
    for (uint32_t r = 0; r < self->lanes; ++r)
      parts[r] = ls_cpu_new_shared(self->compiler, size);
    const uint32_t all = storage_of(self, ref);
    emit_copies(self, region->op, "deal", ls_cpu_deal_loop, size, &all, 1,
                parts, self->lanes);
  }
}

void ls_cpu_emit_together(ls_cpu_compiler *compiler, ls_cpu_region *region,
                          const ls_cpu_scope *outer) {
  ls_cpu_body *body = &region->bodies[0];
  together self = {.compiler = compiler,
                   .region = region,
                   .graph = body->graph,
                   .scope = &body->scope,
                   .lanes = (uint32_t)compiler->replicas};
  const ls_status status = find_arguments(&self, outer);
  if (status != NULL) {
    ls_cpu_fail(compiler, status);
    return;
  }
  for (size_t i = 0; i < body->graph->num_nodes; ++i) {
    const ls_node *node = body->graph->nodes[i];
    if (ls_cpu_failed(compiler)) return;
    if (region->meets[i])
      emit_merge(&self, node);
    else if (!node->varying || node->type == LS_OP_PARAMETER)
      ls_cpu_emit_node(compiler, self.scope, node);
    else if (node->type == LS_OP_BARRIER)
      emit_barrier(&self, node);
    else if (!is_left_to_merge(&self, node))
      emit_varying(&self, node);
  }
  deal_results(&self);
}

// SPDX-License-Identifier: Apache-2.0
//
// Merges of replicas that run as one batch: of concatenated values, of the
// parts of an argument, or of products that are never stored per replica.
#include <math.h>

#include "engine/cpu/compile/batching.h"
#include "engine/cpu/kernels/batched.h"
#include "engine/cpu/product/products.h"

// Limits of a product that is summed while it is multiplied: LEAST_ELEMENTS of
// the result; MOST_OPERANDS: elements of its operands relative to the result's.
enum { LEAST_ELEMENTS = 4096, MOST_OPERANDS = 2 };

static const ls_node *merge_of(const ls_cpu_batched *self, uint32_t m) {
  return self->body->merges[m];
}

static const ls_node *operand_of(const ls_cpu_batched *self, uint32_t m) {
  return ls_graph_node_of(self->graph, merge_of(self, m)->inputs[0]);
}

static size_t position_of(const ls_cpu_batched *self, const ls_node *node) {
  return ls_graph_position(self->graph, node->id);
}

// Returns true for a sum or mean of floats that are added without conversion.
static bool is_sum(const ls_node *merge, bool *out_mean) {
  const ls_attr *attr = ls_node_attr(merge, LS_ATTR_ID_REDUCE);
  const char *reduce = attr == NULL ? "sum" : attr->as.string;
  const ls_dtype dtype = merge->outputs[0].dtype;
  *out_mean = strcmp(reduce, "mean") == 0;
  return merge->type == LS_OP_ALL_REDUCE &&
         (*out_mean || strcmp(reduce, "sum") == 0) &&
         (dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64);
}

// ---- Contributions of classes ----------------------------------------------
// Returns true, and the value, if a node is a scalar constant.
static bool is_scalar_constant(const ls_node *node, double *out_value) {
  if (node->type != LS_OP_CONSTANT || node->outputs[0].shape.rank != 0)
    return false;
  *out_value = ls_array_f64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array, 0);
  return true;
}

// Returns true if a node is -0 everywhere, as contributed by replicas without
// examples.
static bool is_nothing(const ls_cpu_batched *self, const ls_node *node) {
  double value = 0;
  if (node->type == LS_OP_BROADCAST)
    node = ls_graph_node_of(self->graph, node->inputs[0]);
  return is_scalar_constant(node, &value) && value == 0 && signbit(value);
}

// Returns true if a node is a product of the replicas' values whose operands
// are small relative to the result.
static bool is_product(const ls_cpu_batched *self, const ls_node *node) {
  if (node->type != LS_OP_MATMUL ||
      !ls_node_int(node, LS_ATTR_ID_TRANSPOSE_A) ||
      ls_node_int(node, LS_ATTR_ID_TRANSPOSE_B))
    return false;
  int64_t operands = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    const ls_shape shape = ls_graph_type(self->graph, node->inputs[i]).shape;
    if (shape.rank != 2 || !ls_cpu_batched_varies(self, node->inputs[i]))
      return false;
    operands += ls_shape_num_elements(shape);
  }
  const int64_t size = ls_shape_num_elements(node->outputs[0].shape);
  return size >= LEAST_ELEMENTS && operands <= MOST_OPERANDS * size;
}

// Finds a product that only the merge uses, and the number it is multiplied by.
static void find_product(const ls_cpu_batched *self, const uint32_t *uses,
                         const ls_node *node, ls_cpu_addend *out) {
  if (uses[position_of(self, node)] != 1) return;
  if (node->type == LS_OP_MUL) {
    const ls_node *factor = ls_graph_node_of(self->graph, node->inputs[1]);
    if (!is_scalar_constant(factor, &out->scale)) return;
    out->scales = out->scale != 1;  // A factor of 1 changes nothing.
    node = ls_graph_node_of(self->graph, node->inputs[0]);
    if (uses[position_of(self, node)] != 1) return;
  }
  if (!is_product(self, node)) return;
  out->kind = LS_CPU_COMES_PRODUCT;
  out->product = node;
  out->before = (uint32_t)position_of(self, node);
}

// Returns how many nodes must be emitted before the merge of a value. With
// other ranks the merge comes right after its operand, so that it travels early
// and together with others.
static uint32_t before_merge(const ls_cpu_batched *self, uint32_t m) {
  return (uint32_t)(ls_cpu_has_remote(&self->compiler->share)
                        ? position_of(self, operand_of(self, m)) + 1
                        : position_of(self, merge_of(self, m)));
}

static ls_cpu_addend addend_of(const ls_cpu_batched *self, const uint32_t *uses,
                               uint32_t m) {
  const ls_node *operand = operand_of(self, m);
  ls_cpu_addend made = {.before = before_merge(self, m)};
  if (is_nothing(self, operand))
    made = (ls_cpu_addend){.kind = LS_CPU_COMES_NOTHING};
  else
    find_product(self, uses, operand, &made);
  return made;
}

// Marks the nodes that the merge itself computes.
static void mark_merged(ls_cpu_batched *self, const uint32_t *uses, uint32_t m,
                        const ls_cpu_addend *c) {
  const size_t operand = position_of(self, operand_of(self, m));
  if (c->kind == LS_CPU_COMES_VALUE || uses[operand] != 1) return;
  self->is_merged[operand] = true;
  if (c->product != NULL) self->is_merged[position_of(self, c->product)] = true;
}

void ls_cpu_find_addends(ls_cpu_classes *self, uint32_t *const *uses,
                         uint32_t m) {
  ls_cpu_addend *addends = &self->addends[m * self->count];
  bool mean = false, has_value = false, has_product = false;
  const bool sums = is_sum(merge_of(&self->items[0], m), &mean);
  for (uint32_t k = 0; k < self->count; ++k) {
    addends[k] = addend_of(&self->items[k], uses[k], m);
    has_value |= addends[k].kind == LS_CPU_COMES_VALUE;
    has_product |= addends[k].kind == LS_CPU_COMES_PRODUCT;
  }
  for (uint32_t k = 0; k < self->count; ++k) {
    const bool is_value = !sums || (addends[k].kind == LS_CPU_COMES_PRODUCT
                                        ? has_value
                                        : !has_value && !has_product);
    if (is_value)
      addends[k] = (ls_cpu_addend){.before = before_merge(&self->items[k], m)};
    mark_merged(&self->items[k], uses[k], m, &addends[k]);
  }
}

// ---- Ranges ----------------------------------------------------------------
static bool covers_all_replicas(const ls_cpu_classes *self,
                                const ls_cpu_range *range) {
  return range->end - range->first == (uint32_t)self->compiler->share.replicas;
}

// Returns the part of a range that belongs to a class.
static ls_cpu_range intersect_range(const ls_cpu_batched *self,
                                    const ls_cpu_range *range) {
  const uint32_t end = self->first + self->replicas;
  return (ls_cpu_range){self->first > range->first ? self->first : range->first,
                        end < range->end ? end : range->end};
}

// ---- Sums of products ------------------------------------------------------
// Emits rows `first_row` to `end_row` of a sum.
static void emit_product_rows(ls_cpu_classes *self, uint32_t m,
                              const ls_cpu_range *range, int64_t first_row,
                              int64_t end_row, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_node *merge = merge_of(&self->items[0], m);
  const ls_cpu_addend *addends = &self->addends[m * self->count];
  ls_cpu_products products = {.dtype = merge->outputs[0].dtype,
                              .m = merge->outputs[0].shape.dim[0],
                              .n = merge->outputs[0].shape.dim[1],
                              .first = first_row,
                              .end = end_row,
                              .replicas = range->end - range->first,
                              .parts = ls_arena_new_array(&compiler->out->arena,
                                                          ls_cpu_product_part,
                                                          self->count)};
  uint32_t *in = ls_arena_new_array(&compiler->temp, uint32_t, 2 * self->count);
  if (!ls_cpu_has_memory(compiler, products.parts != NULL && in != NULL))
    return;
  is_sum(merge, &products.mean);
  products.mean = products.mean && covers_all_replicas(self, range);
  size_t bytes = ls_type_bytes(merge->outputs[0]);
  const ls_node *product = merge;  // Names the instruction.
  for (uint32_t k = 0; k < self->count; ++k) {
    ls_cpu_batched *class = &self->items[k];
    const ls_cpu_range some = intersect_range(class, range);
    if (addends[k].kind == LS_CPU_COMES_NOTHING || some.first >= some.end)
      continue;
    product = addends[k].product;
    const ls_shape shape =
        ls_graph_type(class->graph, product->inputs[0]).shape;
    const uint32_t at = products.num_parts++;
    products.parts[at] =
        (ls_cpu_product_part){.first = some.first - range->first,
                              .replicas = some.end - some.first,
                              .skipped = some.first - class->first,
                              .k = shape.dim[0],
                              .scale = addends[k].scale,
                              .scales = addends[k].scales};
    for (uint32_t i = 0; i < 2; ++i) {
      in[2 * at + i] = ls_cpu_batched_storage(class, product->inputs[i]);
      bytes += products.parts[at].replicas *
               ls_cpu_ref_size(class->graph, product->inputs[i]);
    }
  }
  ls_kernel_plan plan = {.kernels = compiler->kernels,
                         .arena = &compiler->out->arena};
  const ls_status status = ls_cpu_products_prepare(&products, &plan);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(compiler, self->items[0].graph, merge, status);
    return;
  }
  ls_cpu_emit_extra(compiler, &(ls_cpu_extra){.node = product,
                                              .kind = "sum of products",
                                              .loop = plan.loop,
                                              .params = plan.params,
                                              .blocks = plan.blocks,
                                              .flops = plan.flops,
                                              .bytes = bytes,
                                              .in = in,
                                              .num_in = 2 * products.num_parts,
                                              .out = &result,
                                              .num_out = 1});
  ls_cpu_need_scratch(compiler, plan.scratch, plan.blocks);
  compiler->out->facts.figures.flops += plan.flops * compiler->trips;
  compiler->out->facts.figures.bytes_accessed +=
      (double)bytes * compiler->trips;
}

static void emit_products(ls_cpu_classes *self, uint32_t m,
                          const ls_cpu_range *range, uint32_t result) {
  const ls_shape shape = merge_of(&self->items[0], m)->outputs[0].shape;
  emit_product_rows(self, m, range, 0, shape.dim[0], result);
}

// ---- Other merges ----------------------------------------------------------
// Contributions of replicas to a merge: the operands, and for each replica its
// part of an operand.
typedef struct sources {
  uint32_t *operands;
  uint32_t count;
  ls_cpu_merge_part *parts;  // One per replica of the range.
} sources;

// Appends a class's contributions.
static void add_sources(ls_cpu_batched *self, uint64_t ref,
                        const ls_cpu_range *range, sources *target) {
  const ls_cpu_range some = intersect_range(self, range);
  if (some.first >= some.end) return;
  const uint32_t argument = ls_cpu_batched_argument(self, ref);
  const bool apart =
      argument != LS_CPU_NONE && !self->is_concatenated[argument];
  const bool varies = ls_cpu_batched_varies(self, ref) && self->lanes > 1;
  const uint32_t first = target->count;
  if (apart)
    for (uint32_t r = some.first; r < some.end; ++r)
      target->operands[target->count++] =
          self->parts[argument][r - self->first];
  else
    target->operands[target->count++] = ls_cpu_batched_storage(self, ref);
  for (uint32_t r = some.first; r < some.end; ++r)
    target->parts[r - range->first] =
        apart ? (ls_cpu_merge_part){first + (r - some.first), 0}
              : (ls_cpu_merge_part){first, varies ? r - self->first : 0};
}

static bool find_sources(ls_cpu_classes *self, uint32_t m,
                         const ls_cpu_range *range, sources *out) {
  ls_cpu_compiler *compiler = self->compiler;
  const uint32_t replicas = range->end - range->first;
  *out = (sources){.operands =
                       ls_arena_new_array(&compiler->temp, uint32_t, replicas),
                   .parts = ls_arena_new_array(&compiler->out->arena,
                                               ls_cpu_merge_part, replicas)};
  if (!ls_cpu_has_memory(compiler, out->operands != NULL && out->parts != NULL))
    return false;
  for (uint32_t k = 0; k < self->count; ++k) {
    ls_cpu_batched *class = &self->items[k];
    const ls_cpu_range some = intersect_range(class, range);
    if (self->addends[m * self->count + k].kind == LS_CPU_COMES_NOTHING)
      for (uint32_t r = some.first; r < some.end; ++r)
        out->parts[r - range->first].operand = LS_CPU_NO_PART;
    else
      add_sources(class, merge_of(class, m)->inputs[0], range, out);
  }
  return true;
}

static void emit_tree(ls_cpu_classes *self, uint32_t m,
                      const ls_cpu_range *range, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_node *merge = merge_of(&self->items[0], m);
  const ls_type type = merge->outputs[0];
  ls_cpu_tree *tree = ls_arena_new(&compiler->out->arena, ls_cpu_tree);
  sources from;
  if (!ls_cpu_has_memory(compiler, tree != NULL)) return;
  if (!find_sources(self, m, range, &from)) return;
  *tree = (ls_cpu_tree){.dtype = type.dtype,
                        .count = ls_shape_num_elements(type.shape),
                        .replicas = range->end - range->first,
                        .kernels = compiler->kernels,
                        .parts = from.parts};
  is_sum(merge, &tree->mean);
  tree->mean = tree->mean && covers_all_replicas(self, range);
  uint32_t *there = ls_arena_new_array(&compiler->out->arena, uint32_t,
                                       (size_t)tree->replicas + 1);
  if (!ls_cpu_has_memory(compiler, there != NULL)) return;
  for (uint32_t r = 0; r < tree->replicas; ++r)
    there[r + 1] = there[r] + (from.parts[r].operand != LS_CPU_NO_PART);
  tree->there = there;
  ls_cpu_need_scratch(compiler, ls_cpu_tree_scratch(tree), LS_CPU_MANY_BLOCKS);
  ls_cpu_emit_extra(compiler,
                    &(ls_cpu_extra){.node = merge,
                                    .loop = ls_cpu_tree_loop,
                                    .params = tree,
                                    .blocks = ls_cpu_tree_blocks(tree),
                                    .bytes = (there[tree->replicas] + 1) *
                                             ls_type_bytes(type),
                                    .in = from.operands,
                                    .num_in = from.count,
                                    .out = &result,
                                    .num_out = 1});
}

// Finds the sizes of the contributions.
static void find_strides(const ls_cpu_classes *self, uint32_t m,
                         const ls_cpu_range *range, size_t *strides) {
  for (uint32_t k = 0; k < self->count; ++k) {
    const ls_cpu_batched *class = &self->items[k];
    const ls_cpu_range some = intersect_range(class, range);
    for (uint32_t r = some.first; r < some.end; ++r)
      strides[r - range->first] =
          ls_cpu_ref_size(class->graph, merge_of(class, m)->inputs[0]);
  }
}

// Emits merges that have no special kernel.
uint32_t ls_cpu_merge_steps(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *range,
                            const ls_cpu_merge *steps, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_arena *arena = &compiler->out->arena;
  const uint32_t replicas = range->end - range->first;
  ls_cpu_merge_all *params = ls_arena_new(arena, ls_cpu_merge_all);
  size_t *strides = ls_arena_new_array(arena, size_t, replicas);
  sources from;
  if (!ls_cpu_has_memory(compiler, params != NULL && strides != NULL)) return 0;
  if (!find_sources(self, m, range, &from)) return 0;
  find_strides(self, m, range, strides);
  *params = (ls_cpu_merge_all){.merge = steps,
                               .first = range->first,
                               .replicas = replicas,
                               .parts = from.parts,
                               .strides = strides};
  ls_cpu_need_scratch(compiler, steps->scratch, LS_CPU_MANY_BLOCKS);
  const uint32_t stack =
      ls_cpu_new_shared(compiler, steps->stride * ls_cpu_merge_depth(replicas));
  const uint32_t outputs[] = {
      result == LS_CPU_NONE ? stack : result,
      stack,
      ls_cpu_new_shared(compiler, steps->widen.loop == NULL ? 0 : steps->bytes),
  };
  ls_cpu_emit_extra(compiler,
                    &(ls_cpu_extra){.node = merge_of(&self->items[0], m),
                                    .loop = ls_cpu_merge_all_loop,
                                    .params = params,
                                    .blocks = 1,
                                    .in = from.operands,
                                    .num_in = from.count,
                                    .out = outputs,
                                    .num_out = 3});
  return stack;
}

static void emit_any(ls_cpu_classes *self, uint32_t m,
                     const ls_cpu_range *range, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_node *merge = merge_of(&self->items[0], m);
  ls_cpu_merge *steps = NULL;
  const ls_status status =
      ls_cpu_merge_prepare(compiler->kernels, &compiler->out->arena, merge,
                           merge->outputs[0], compiler->share.replicas, &steps);
  if (ls_status_is_ok(status))
    (void)ls_cpu_merge_steps(self, m, range, steps, result);
  else
    ls_cpu_fail_at(compiler, self->items[0].graph, merge, status);
}

static bool has_product(const ls_cpu_classes *self, uint32_t m) {
  for (uint32_t k = 0; k < self->count; ++k)
    if (self->addends[m * self->count + k].kind == LS_CPU_COMES_PRODUCT)
      return true;
  return false;
}

void ls_cpu_merge_batched(ls_cpu_classes *self, uint32_t m) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_node *merge = merge_of(&self->items[0], m);
  const uint32_t result =
      ls_cpu_new_shared(compiler, ls_type_bytes(merge->outputs[0]));
  for (uint32_t k = 0; k < self->count; ++k)
    ls_cpu_bind_ref(compiler, self->items[k].scope,
                    ls_ref(merge_of(&self->items[k], m)->id, 0), result);
  const ls_cpu_range full_range = {0, (uint32_t)compiler->share.replicas};
  bool mean = false;
  if (ls_cpu_has_remote(&compiler->share))
    ls_cpu_merge_on_ranks(self, m, result);
  else if (has_product(self, m))
    emit_products(self, m, &full_range, result);
  else if (is_sum(merge, &mean))
    emit_tree(self, m, &full_range, result);
  else
    emit_any(self, m, &full_range, result);
}

uint32_t ls_cpu_merge_range(ls_cpu_classes *self, uint32_t m,
                            const ls_cpu_range *range,
                            const ls_cpu_merge *steps, uint32_t result) {
  const ls_node *merge = merge_of(&self->items[0], m);
  bool mean = false;
  if (!has_product(self, m) && !is_sum(merge, &mean))
    return ls_cpu_merge_steps(self, m, range, steps, LS_CPU_NONE);
  const uint32_t sum = result != LS_CPU_NONE
                           ? result
                           : ls_cpu_new_shared(self->compiler, steps->bytes);
  if (has_product(self, m))
    emit_products(self, m, range, sum);
  else
    emit_tree(self, m, range, sum);
  return sum;
}

uint32_t ls_cpu_merge_rows(ls_cpu_classes *self, uint32_t m,
                           const ls_cpu_range *range, int64_t first,
                           int64_t end) {
  const ls_type type = merge_of(&self->items[0], m)->outputs[0];
  if (!has_product(self, m)) return LS_CPU_NONE;
  const uint32_t sum = ls_cpu_new_shared(
      self->compiler,
      (size_t)((end - first) * type.shape.dim[1]) * ls_dtype_size(type.dtype));
  emit_product_rows(self, m, range, first, end, sum);
  return sum;
}

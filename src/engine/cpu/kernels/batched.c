// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/batched.h"

#include "engine/cpu/kernels/loops.h"

// ---- Kernels ---------------------------------------------------------------
ls_status ls_cpu_per_lane_make(ls_arena *arena, ls_kernel_loop loop,
                               const void *params, int64_t blocks,
                               uint32_t lanes, uint32_t num_in,
                               uint32_t num_out, ls_cpu_per_lane **out_spread) {
  const uint32_t count = num_in + num_out;
  if (count > LS_CPU_PER_LANE_OPERANDS)
    return ls_internal("%u operands of one kernel", count);
  ls_cpu_per_lane *spread = ls_arena_allocate(
      arena, sizeof(*spread) + count * sizeof(*spread->strides));
  if (spread == NULL) return ls_out_of_memory();
  *spread = (ls_cpu_per_lane){.loop = loop,
                              .params = params,
                              .blocks = blocks,
                              .lanes = lanes,
                              .num_in = num_in,
                              .num_out = num_out};
  *out_spread = spread;
  return ls_ok();
}

void ls_cpu_per_lane_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const ls_cpu_per_lane *self = call->params;
  const void *in[LS_CPU_PER_LANE_OPERANDS];
  void *out[LS_CPU_PER_LANE_OPERANDS];
  ls_kernel_call each = *call;
  each.in = in;
  each.out = out;
  each.params = self->params;
  for (int64_t b = begin_block; b < end_block;) {
    const size_t lane = (size_t)(b / self->blocks);
    const int64_t first = b % self->blocks;
    const int64_t end = ls_min_i64(self->blocks, first + (end_block - b));
    const size_t *stride = self->strides;
    for (uint32_t i = 0; i < self->num_in; ++i)
      in[i] = (const char *)call->in[i] + lane * *stride++;
    for (uint32_t i = 0; i < self->num_out; ++i)
      out[i] = (char *)call->out[i] + lane * *stride++;
    each.replica = (int32_t)(self->first + lane);
    self->loop(&each, first, end);
    b += end - first;
  }
}

void ls_cpu_concatenate_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const size_t size = *(const size_t *)call->params;
  for (int64_t r = begin_block; r < end_block; ++r)
    memcpy((char *)call->out[0] + (size_t)r * size, call->in[r], size);
}

void ls_cpu_deal_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const size_t size = *(const size_t *)call->params;
  for (int64_t r = begin_block; r < end_block; ++r)
    memcpy(call->out[r], (const char *)call->in[0] + (size_t)r * size, size);
}

void ls_cpu_deal_one_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const size_t size = *(const size_t *)call->params;
  for (int64_t r = begin_block; r < end_block; ++r)
    memcpy(call->out[r], call->in[0], size);
}

void ls_cpu_repeat_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const size_t size = *(const size_t *)call->params;
  for (int64_t r = begin_block; r < end_block; ++r)
    memcpy((char *)call->out[0] + (size_t)r * size, call->in[0], size);
}

// ---- Merges ----------------------------------------------------------------
void ls_cpu_tree_add(const ls_cpu_kernels *kernels, ls_dtype dtype,
                     void *target, const void *a, const void *b,
                     int64_t count) {
  if (dtype == LS_DTYPE_F32) {
    kernels->add(target, a, b, (size_t)count);
    return;
  }
  double *sum = target;
  const double *left = a, *right = b;
  LS_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    sum[i] = left[i] + right[i];
}

#define MEAN(name, T)                                                          \
  static void mean_##name(T *target, const T *sum, int64_t count,              \
                          uint32_t replicas) {                                 \
    const T reciprocal = 1 / (T)replicas;                                      \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      target[i] = sum[i] * reciprocal;                                         \
  }
MEAN(f32, float)
MEAN(f64, double)

void ls_cpu_tree_mean(ls_dtype dtype, void *target, const void *sum,
                      int64_t count, uint32_t replicas) {
  if (dtype == LS_DTYPE_F32)
    mean_f32(target, sum, count, replicas);
  else
    mean_f64(target, sum, count, replicas);
}

// Elements of a block, and of a chunk that is added up at a time: partial sums
// of a chunk stay in the first cache.
enum { BLOCK = 4096, STRETCH = 512 };

int64_t ls_cpu_tree_blocks(const ls_cpu_tree *tree) {
  return ls_max_i64(1, ls_blocks_of(tree->count, BLOCK));
}

size_t ls_cpu_tree_scratch(const ls_cpu_tree *tree) {
  const size_t levels = 33U - (size_t)__builtin_clz(tree->replicas);
  return 2 * levels * STRETCH * ls_dtype_size(tree->dtype);
}

typedef struct stretch {
  const ls_cpu_tree *tree;
  const void *const *in;
  size_t offset;  // Offset of the chunk in bytes.
  int64_t count;
  bool is_streamed;  // True if operands and result fit no cache.
} stretch;

static const char *find_contribution(const stretch *s, uint32_t replica) {
  const ls_cpu_tree *tree = s->tree;
  const ls_cpu_merge_part part = tree->parts[replica];
  const size_t size = (size_t)tree->count * ls_dtype_size(tree->dtype);
  return (const char *)s->in[part.operand] + part.index * size + s->offset;
}

// Returns true if there is a kernel that adds this many operands at once, which
// reads memory along as many lines.
static bool at_once(const ls_cpu_tree *tree, uint32_t replicas) {
  return tree->dtype == LS_DTYPE_F32 && (replicas == 4 || replicas == 8);
}

// Counts the replicas from `lo` on, `replicas` of them, that contribute.
static uint32_t count_there(const ls_cpu_tree *tree, uint32_t lo,
                            uint32_t replicas) {
  return tree->there[lo + replicas] - tree->there[lo];
}

// Returns the sum of the contributions of `replicas` replicas from `lo` on, at
// least one of which contributes: at `target`, or a single contribution where
// it is. `room` has space for two chunks per level of the tree.
static const void *sum_range(const stretch *s, uint32_t lo, uint32_t replicas,
                             char *room, void *target) {
  const ls_cpu_tree *tree = s->tree;
  const size_t size = STRETCH * ls_dtype_size(tree->dtype);
  const void *in[8];
  if (replicas == 1) return find_contribution(s, lo);
  if (at_once(tree, replicas) && count_there(tree, lo, replicas) == replicas) {
    for (uint32_t i = 0; i < replicas; ++i)
      in[i] = find_contribution(s, lo + i);
    (replicas == 4 ? tree->kernels->add4 : tree->kernels->add8)(
        target, in, (size_t)s->count, s->is_streamed);
    return target;
  }
  const uint32_t half = 1U << (31 - __builtin_clz(replicas - 1));
  const uint32_t rest = replicas - half;
  if (count_there(tree, lo + half, rest) == 0)
    return sum_range(s, lo, half, room, target);
  if (count_there(tree, lo, half) == 0)
    return sum_range(s, lo + half, rest, room, target);
  in[0] = sum_range(s, lo, half, room + 2 * size, room);
  in[1] = sum_range(s, lo + half, rest, room + 2 * size, room + size);
  ls_cpu_tree_add(tree->kernels, tree->dtype, target, in[0], in[1], s->count);
  return target;
}

void ls_cpu_tree_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const ls_cpu_tree *tree = call->params;
  const size_t size = ls_dtype_size(tree->dtype);
  const int64_t end = ls_min_i64(tree->count, end_block * BLOCK);
  // A sum made in one call needs no chunks: it has no partial sums to keep in
  // the cache.
  const bool in_one_go = at_once(tree, tree->replicas) && !tree->mean &&
                         count_there(tree, 0, tree->replicas) == tree->replicas;
  const int64_t length = in_one_go ? end : STRETCH;
  const bool is_streamed =
      in_one_go &&
      ls_cpu_is_streamed((tree->replicas + 1) * (size_t)tree->count * size);
  for (int64_t i = begin_block * BLOCK; i < end; i += length) {
    const stretch s = {.tree = tree,
                       .in = call->in,
                       .offset = (size_t)i * size,
                       .count = ls_min_i64(length, end - i),
                       .is_streamed = is_streamed};
    void *target = (char *)call->out[0] + s.offset;
    const void *made = sum_range(&s, 0, tree->replicas, call->scratch, target);
    if (made != target) memcpy(target, made, (size_t)s.count * size);
    if (tree->mean)
      ls_cpu_tree_mean(tree->dtype, target, target, s.count, tree->replicas);
  }
}

void ls_cpu_merge_all_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  (void)begin_block;
  (void)end_block;
  const ls_cpu_merge_all *self = call->params;
  const ls_cpu_merge *merge = self->merge;
  ls_kernel_call each = *call;
  void *result = call->out[0];
  char *stack = call->out[1];
  const bool is_all = self->replicas == (uint32_t)merge->replicas;
  void *sum = is_all ? ls_cpu_merge_sum(merge, result) : NULL;
  for (uint32_t r = 0; r < self->replicas; ++r) {
    const ls_cpu_merge_part part = self->parts[r];
    const char *value =
        (const char *)call->in[part.operand] + part.index * self->strides[r];
    const ls_cpu_leaf leaf = ls_cpu_leaf_at(r, self->replicas);
    if (merge->offsets != NULL)
      ls_cpu_merge_put(merge, self->first + r, value, result);
    else
      ls_cpu_merge_add(merge, &each, &leaf, value, stack, sum, call->out[2]);
  }
  if (is_all && merge->offsets == NULL)
    ls_cpu_merge_end(merge, &each, stack, result);
}

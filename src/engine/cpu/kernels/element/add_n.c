// SPDX-License-Identifier: Apache-2.0
//
// Sums of several arrays along the canonical tree: a range of operands splits
// at the largest power of two below its length. The tree is walked for one
// chunk of elements after the other, so that what it holds stays in cache.
// 16-bit floats are summed in f32 and rounded once.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

typedef struct add_n_params {
  ls_elementwise pair;  // Adds two chunks.
  int64_t count, operands;
  size_t element;  // Bytes of an element of the arrays.
  size_t chunk;    // Bytes of a chunk in the type of the computation.
  ls_dtype half;   // f16 or bf16 (summed in f32), or NONE.
} add_n_params;

// The current chunk of every operand.
typedef struct add_n_chunk {
  const add_n_params *self;
  const void *const *in;
  int64_t at, count;
} add_n_chunk;

static int64_t split_of(int64_t count) {
  int64_t split = 1;
  while (split * 2 < count)
    split *= 2;
  return split;
}

// Returns operand `index` in the type of the computation: in place, or widened
// to `room`.
static const void *load_operand(const add_n_chunk *c, int64_t index,
                                void *room) {
  const void *from =
      (const char *)c->in[index] + (size_t)c->at * c->self->element;
  if (c->self->half == LS_DTYPE_NONE) return from;
  ls_widen(c->self->half, room, from, c->count);
  return room;
}

// Writes the sum of operands [begin, end), at least two, to `out`. Uses two
// chunks of `scratch` for each level of the tree; reads all operands but the
// first two only after `out` is first written.
static void add_range(const add_n_chunk *c, int64_t begin, int64_t end,
                      void *out, char *scratch) {
  const add_n_params *self = c->self;
  const int64_t middle = begin + split_of(end - begin);
  char *left_room = scratch, *right_room = scratch + self->chunk;
  char *below = scratch + 2 * self->chunk;
  const void *terms[2] = {out, right_room};
  if (middle - begin == 1)
    terms[0] = load_operand(c, begin, left_room);
  else
    add_range(c, begin, middle, out, below);
  if (end - middle == 1)
    terms[1] = load_operand(c, middle, right_room);
  else
    add_range(c, middle, end, right_room, below);
  self->pair.span(&self->pair, out, terms, c->count);
}

// Scratch: a chunk for the result, then two for each level.
static void add_n_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const add_n_params *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  char *scratch = call->scratch;
  for (int64_t k = begin_block * LS_BLOCK; k < end; k += LS_CHUNK) {
    const add_n_chunk chunk = {self, call->in, k,
                               ls_min_i64(LS_CHUNK, end - k)};
    void *out = (char *)call->out[0] + (size_t)k * self->element;
    const bool half = self->half != LS_DTYPE_NONE;
    add_range(&chunk, 0, self->operands, half ? (void *)scratch : out,
              scratch + self->chunk);
    if (half)
      ls_narrow(self->half, out, (const float *)call->scratch, chunk.count);
  }
}

// Bit i: operand i is read before the result is written, and only once.
static uint32_t in_place_of(const ls_node *node) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t times = 0;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      times += node->inputs[k] == node->inputs[i];
    if (times == 1) bits |= 1U << i;
  }
  return bits;
}

ls_status kernel_add_n(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (plan->num_in == 1) return kernel_copy(plan);
  LS_ARENA_NEW_OR_RETURN(plan->arena, add_n_params, self);
  self->pair.span = ls_span_of(LS_OP_ADD, ls_wide_dtype(dtype), plan->kernels);
  if (self->pair.span == NULL) return ls_kernel_unsupported(plan, dtype);
  self->half = ls_is_half(dtype) ? dtype : LS_DTYPE_NONE;
  self->count = ls_shape_num_elements(plan->out[0].shape);
  self->operands = (int64_t)plan->num_in;
  self->element = ls_dtype_size(dtype);
  self->chunk = (size_t)LS_CHUNK *
                (self->half != LS_DTYPE_NONE ? sizeof(float) : self->element);
  size_t levels = 0;
  while ((INT64_C(1) << levels) < self->operands)
    ++levels;
  plan->scratch = (1 + 2 * levels) * self->chunk;
  plan->in_place = in_place_of(plan->node);
  return ls_kernel_runs(plan, add_n_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}

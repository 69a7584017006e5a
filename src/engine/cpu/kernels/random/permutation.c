// SPDX-License-Identifier: Apache-2.0
//
// Random permutations: the indices in the order of 64-bit keys, two of each
// block of the op's key (base/values/random.h), equal keys by index.
//
// Keys are sorted byte by byte, from the lowest on, each pass keeping the order
// of the previous one. A byte that all keys have in common needs no pass.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/random/draw.h"

enum { PASSES = 8, VALUES = 256 };

typedef struct keyed {
  uint64_t key;
  int64_t index;
} keyed;

typedef struct permutation_params {
  ls_draw draw;
  int64_t count;
  bool wide;  // True for i64, false for i32.
} permutation_params;

static void draw_keys(const ls_random_source *source, keyed *items,
                      int64_t count) {
  for (int64_t i = 0; i < count; i += 2) {
    uint32_t bits[4];
    ls_random_source_bits(source, (uint64_t)(i / 2), bits);
    for (int64_t k = 0; k < ls_min_i64(2, count - i); ++k)
      items[i + k] =
          (keyed){(uint64_t)bits[2 * k] << 32 | bits[2 * k + 1], i + k};
  }
}

// Runs one pass: sorts `from` by byte `pass` of the keys into `target`.
static void sort_by_byte(keyed *target, const keyed *from, int64_t count,
                         int64_t places[VALUES], int pass) {
  int64_t place = 0;
  for (int v = 0; v < VALUES; ++v) {
    const int64_t size = places[v];
    places[v] = place;
    place += size;
  }
  for (int64_t i = 0; i < count; ++i)
    target[places[from[i].key >> (8 * pass) & (VALUES - 1)]++] = from[i];
}

static keyed *permutation_sort_keys(keyed *items, keyed *other, int64_t count) {
  for (int pass = 0; pass < PASSES; ++pass) {
    int64_t counts[VALUES] = {0};
    for (int64_t i = 0; i < count; ++i)
      ++counts[items[i].key >> (8 * pass) & (VALUES - 1)];
    if (counts[items[0].key >> (8 * pass) & (VALUES - 1)] == count) continue;
    sort_by_byte(other, items, count, counts, pass);
    keyed *sorted = other;
    other = items;
    items = sorted;
  }
  return items;
}

static void permutation_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const permutation_params *self = call->params;
  if (begin_block == end_block || self->count == 0) return;
  const ls_random_source source = ls_draw_source(&self->draw, call);
  keyed *items = call->scratch;
  draw_keys(&source, items, self->count);
  items = permutation_sort_keys(items, items + self->count, self->count);
  for (int64_t i = 0; i < self->count; ++i) {
    if (self->wide)
      ((int64_t *)call->out[0])[i] = items[i].index;
    else
      ((int32_t *)call->out[0])[i] = (int32_t)items[i].index;
  }
}

ls_status kernel_permutation(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  const int64_t count = ls_shape_num_elements(plan->out[0].shape);
  if (dtype != LS_DTYPE_I32 && dtype != LS_DTYPE_I64)
    return ls_kernel_unsupported(plan, dtype);
  if ((uint64_t)count > SIZE_MAX / (2 * sizeof(keyed)))
    return ls_invalid_argument("a permutation of %lld", (long long)count);
  LS_ARENA_NEW_OR_RETURN(plan->arena, permutation_params, self);
  *self = (permutation_params){ls_draw_of(plan->node), count,
                               dtype == LS_DTYPE_I64};
  plan->loop = permutation_loop;
  plan->params = self;
  plan->blocks = 1;
  plan->scratch = 2 * (size_t)count * sizeof(keyed);
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
//
// Random permutations: the indices in the order of 64-bit keys, two of each
// block of the op's key (base/values/random.h), equal keys by index.
//
// An item is an index, in the low bits, below the upper bits of its key. Items
// are sorted by some top bits, which have two to four times as many values as
// there are items, digit by digit, the lowest one first. Few are out of order
// then: they are inserted where they belong.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/random/draw.h"

enum { MOST_BITS = 11 };  // Most bits of a digit.

typedef struct permutation_params {
  ls_draw draw;
  const ls_cpu_kernels *kernels;
  int64_t count;
  unsigned index_bits;
  unsigned digits, digit_bits;
  bool wide;  // True for i64, false for i32.
} permutation_params;

static void draw_items(const permutation_params *self,
                       const ls_random_source *source, uint64_t *items) {
  enum { BLOCKS = 128 };
  for (int64_t i = 0; i < self->count; i += 2 * BLOCKS) {
    const int64_t count = ls_min_i64(2 * BLOCKS, self->count - i);
    uint32_t bits[4 * BLOCKS];
    self->kernels->random_bits(bits, source, (uint64_t)(i / 2),
                               (size_t)(count + 1) / 2);
    for (int64_t k = 0; k < count; ++k) {
      const uint64_t key = (uint64_t)bits[2 * k] << 32 | bits[2 * k + 1];
      items[i + k] =
          key >> self->index_bits << self->index_bits | (uint64_t)(i + k);
    }
  }
}

static uint64_t redraw_key(const permutation_params *self,
                           const ls_random_source *source, uint64_t item) {
  const uint64_t index = item & ((UINT64_C(1) << self->index_bits) - 1);
  uint32_t bits[4];
  ls_random_source_bits(source, index / 2, bits);
  return (uint64_t)bits[2 * (index % 2)] << 32 | bits[2 * (index % 2) + 1];
}

// Returns true if `item` belongs before `other`, which is of a lower index.
static bool is_before(const permutation_params *self,
                      const ls_random_source *source, uint64_t item,
                      uint64_t other) {
  if (item >> self->index_bits != other >> self->index_bits)
    return item < other;
  return redraw_key(self, source, item) < redraw_key(self, source, other);
}

// Sorts items by the `bits` bits above the `below` lowest ones. There is a
// place for each value of these.
static void sort_by_digit(uint64_t *restrict target,
                          const uint64_t *restrict from, size_t count,
                          unsigned below, unsigned bits,
                          uint64_t *restrict places) {
  const uint64_t last = (UINT64_C(1) << bits) - 1;
  memset(places, 0, sizeof(uint64_t) << bits);
  for (size_t i = 0; i < count; ++i)
    ++places[from[i] >> below & last];
  uint64_t place = 0;
  for (size_t v = 0; v <= last; ++v) {
    const uint64_t size = places[v];
    places[v] = place;
    place += size;
  }
  for (size_t i = 0; i < count; ++i)
    target[places[from[i] >> below & last]++] = from[i];
}

static void permutation_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const permutation_params *self = call->params;
  if (begin_block == end_block || self->count == 0) return;
  const ls_random_source source = ls_draw_source(&self->draw, call);
  const uint64_t mask = (UINT64_C(1) << self->index_bits) - 1;
  uint64_t *drawn = call->scratch, *items = drawn + self->count;
  uint64_t *places = items + self->count;
  draw_items(self, &source, items);
  for (unsigned digit = self->digits; digit > 0; --digit) {
    uint64_t *from = items;
    items = drawn;
    drawn = from;
    sort_by_digit(items, from, (size_t)self->count,
                  64 - digit * self->digit_bits, self->digit_bits, places);
  }
  for (int64_t i = 1; i < self->count; ++i) {
    const uint64_t item = items[i];
    if (item > (items[i - 1] | mask)) continue;
    int64_t at = i;
    for (; at > 0 && is_before(self, &source, item, items[at - 1]); --at)
      items[at] = items[at - 1];
    items[at] = item;
  }
  int64_t *wide = call->out[0];
  int32_t *narrow = call->out[0];
  const int64_t count = self->count;
  for (int64_t i = 0; self->wide && i < count; ++i)
    wide[i] = (int64_t)(items[i] & mask);
  for (int64_t i = 0; !self->wide && i < count; ++i)
    narrow[i] = (int32_t)(items[i] & mask);
}

ls_status kernel_permutation(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  const int64_t count = ls_shape_num_elements(plan->out[0].shape);
  if (dtype != LS_DTYPE_I32 && dtype != LS_DTYPE_I64)
    return ls_kernel_unsupported(plan, dtype);
  if ((uint64_t)count > INT64_MAX / (2 * sizeof(uint64_t)))
    return ls_invalid_argument("a permutation of %lld", (long long)count);
  LS_ARENA_NEW_OR_RETURN(plan->arena, permutation_params, self);
  *self = (permutation_params){.draw = ls_draw_of(plan->node),
                               .kernels = plan->kernels,
                               .count = count,
                               .index_bits = 1,
                               .wide = dtype == LS_DTYPE_I64};
  while (count >> self->index_bits > 0)
    ++self->index_bits;
  const unsigned bits = self->index_bits + 1;
  self->digits = (bits + MOST_BITS - 1) / MOST_BITS;
  self->digit_bits = (bits + self->digits - 1) / self->digits;
  plan->scratch =
      (2 * (size_t)count + ((size_t)1 << self->digit_bits)) * sizeof(uint64_t);
  return ls_kernel_runs(plan, permutation_loop, self, 1);
}

// SPDX-License-Identifier: Apache-2.0
//
// Random permutations: the indices in the order of 64-bit keys, two of each
// block of the op's key (base/values/random.h), equal keys by index.
//
// An item is an index, in the low bits, below the upper bits of its key. Items
// are sorted by as many top bits as there are items and some more, a digit at a
// time, from the lowest on, each pass keeping the order of the previous one.
// Few are out of order then: they are inserted where they belong.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/random/draw.h"

enum { MOST_DIGIT_BITS = 11 };

typedef struct permutation_params {
  ls_draw draw;
  const ls_cpu_kernels *kernels;
  int64_t count;
  unsigned index_bits;
  unsigned passes, digit_bits;
  bool wide;  // True for i64, false for i32.
} permutation_params;

static size_t places_bytes(const permutation_params *self) {
  return ((size_t)self->passes << self->digit_bits) * sizeof(uint64_t);
}

// Returns the digit of `item` that a pass sorts by.
static uint64_t digit_of(const permutation_params *self, uint64_t item,
                         unsigned pass) {
  const unsigned above = (self->passes - 1 - pass) * self->digit_bits;
  return item << above >> (64 - self->digit_bits);
}

// Counts the items of each digit too, pass after pass.
static void draw_items(const permutation_params *self,
                       const ls_random_source *source, uint64_t *items,
                       uint64_t *places) {
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
    for (unsigned pass = 0; pass < self->passes; ++pass)
      for (int64_t k = 0; k < count; ++k)
        ++places[(uint64_t)pass << self->digit_bits |
                 digit_of(self, items[i + k], pass)];
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

// Sorts `from` by a pass's digit into `target`. `places` has the number of
// items of each digit.
static void sort_by_digit(const permutation_params *self, uint64_t *target,
                          const uint64_t *from, uint64_t *places,
                          unsigned pass) {
  uint64_t place = 0;
  for (uint64_t v = 0; v < UINT64_C(1) << self->digit_bits; ++v) {
    const uint64_t size = places[v];
    places[v] = place;
    place += size;
  }
  for (int64_t i = 0; i < self->count; ++i)
    target[places[digit_of(self, from[i], pass)]++] = from[i];
}

static void permutation_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const permutation_params *self = call->params;
  if (begin_block == end_block || self->count == 0) return;
  const ls_random_source source = ls_draw_source(&self->draw, call);
  const uint64_t mask = (UINT64_C(1) << self->index_bits) - 1;
  uint64_t *items = call->scratch, *other = items + self->count;
  uint64_t *places = other + self->count;
  memset(places, 0, places_bytes(self));
  draw_items(self, &source, items, places);
  for (unsigned pass = 0; pass < self->passes; ++pass) {
    sort_by_digit(self, other, items,
                  places + ((size_t)pass << self->digit_bits), pass);
    uint64_t *sorted = other;
    other = items;
    items = sorted;
  }
  for (int64_t i = 1; i < self->count; ++i) {
    const uint64_t item = items[i];
    if (item > (items[i - 1] | mask)) continue;
    int64_t at = i;
    for (; at > 0 && is_before(self, &source, item, items[at - 1]); --at)
      items[at] = items[at - 1];
    items[at] = item;
  }
  for (int64_t i = 0; i < self->count; ++i) {
    if (self->wide)
      ((int64_t *)call->out[0])[i] = (int64_t)(items[i] & mask);
    else
      ((int32_t *)call->out[0])[i] = (int32_t)(items[i] & mask);
  }
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
  // Digits of 16 times as many values as there are items.
  self->passes = 1 + (self->index_bits + 3) / MOST_DIGIT_BITS;
  self->digit_bits = (self->index_bits + 4 + self->passes - 1) / self->passes;
  plan->scratch = 2 * (size_t)count * sizeof(uint64_t) + places_bytes(self);
  return ls_kernel_runs(plan, permutation_loop, self, 1);
}

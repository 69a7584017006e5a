// SPDX-License-Identifier: Apache-2.0
#include "data/shuffle.h"

#include "base/values/random.h"

// 32-bit numbers one after another.
typedef struct draws {
  ls_random_source source;
  uint64_t block;
  uint32_t bits[4];
  int next;
} draws;

static uint32_t draw(draws *d) {
  if (d->next == 4) {
    ls_random_source_bits(&d->source, d->block++, d->bits);
    d->next = 0;
  }
  return d->bits[d->next++];
}

// Uniform below `limit`, without bias: Lemire, ACM TOMACS 29 (2019).
static uint32_t draw_below(draws *d, uint32_t limit) {
  uint64_t product = (uint64_t)draw(d) * limit;
  if ((uint32_t)product < limit) {
    const uint32_t threshold = (uint32_t)(-limit) % limit;
    while ((uint32_t)product < threshold)
      product = (uint64_t)draw(d) * limit;
  }
  return (uint32_t)(product >> 32);
}

void ls_shuffle(uint64_t seed, uint64_t epoch, uint32_t *order, size_t count) {
  draws d = {.source = ls_random_source_make(
                 &(ls_random_key){.seed = seed, .step = epoch}),
             .next = 4};
  for (size_t i = 0; i < count; ++i)
    order[i] = (uint32_t)i;
  for (size_t left = count; left > 1; --left) {
    const uint32_t pick = draw_below(&d, (uint32_t)left);
    const uint32_t last = order[left - 1];
    order[left - 1] = order[pick];
    order[pick] = last;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The inputs' share of a gradient behind maxima of windows, by itself: the
// chains that conv_sparse.h states, in every table.
#include "support/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/floats.h"
#include "support/loop_case.h"

enum {
  IN = 32,  // Channels of w, of which the second slice is taken.
  MOST_OUT = 80,
  WINDOWS = 3,
  SLICE = 16,
  LINES = 4,
  PIXELS = 2 * WINDOWS + 2
};

typedef struct line {
  size_t out;
  float w[9][IN][MOST_OUT];  // The first `out` of each row are taken.
  float d[WINDOWS][MOST_OUT];
  uint8_t places[WINDOWS][MOST_OUT];
  float before[LINES][PIXELS][SLICE];
} line;

static float number(loop_random *random) {
  return (float)loop_random_between(random, -999999, 999999) * 1.5e-6F;
}

// Every third value or so is 0, so that places have odd and even numbers of
// others, and some have none.
static void fill(line *l, loop_random *random) {
  float *const w = &l->w[0][0][0], *const before = &l->before[0][0][0];
  float *const d = &l->d[0][0];
  uint8_t *const places = &l->places[0][0];
  for (size_t i = 0; i < sizeof(l->w) / sizeof(*w); ++i)
    w[i] = number(random);
  for (size_t i = 0; i < sizeof(l->before) / sizeof(*before); ++i)
    before[i] = number(random);
  for (size_t i = 0; i < WINDOWS * MOST_OUT; ++i) {
    const bool there = loop_random_between(random, 0, 2) != 0;
    d[i] = there ? number(random) : 0;
    places[i] = (uint8_t)loop_random_between(random, 0, 3);
  }
}

// Adds channel o of window i to the sums.
static void add_value(float sum[LINES][PIXELS][SLICE], const line *l, size_t i,
                      size_t o, bool pairs) {
  const size_t down = l->places[i][o] / 2, right = l->places[i][o] % 2;
  for (size_t t = 0; t < 9; ++t)
    for (size_t c = 0; c < SLICE; ++c) {
      const float w = l->w[t][IN - SLICE + c][o], d = l->d[i][o];
      float *to = &sum[down + t / 3][2 * i + right + t % 3][c];
      *to = pairs ? fmaf(rounded_to_bf16(d), rounded_to_bf16(w), *to)
                  : fmaf(d, w, *to);
    }
}

// A block of channels: in pairs, the second of two at a place comes first.
static void add_block(float dx[LINES][PIXELS][SLICE], const line *l,
                      size_t begin, size_t end, bool pairs) {
  float sum[LINES][PIXELS][SLICE] = {{{0}}};
  for (size_t i = 0; i < WINDOWS; ++i)
    for (uint8_t p = 0; p < 4; ++p) {
      size_t list[MOST_OUT], count = 0;
      for (size_t o = begin; o < end; ++o)
        if (l->d[i][o] != 0 && l->places[i][o] == p) list[count++] = o;
      for (size_t k = 0; k < count; ++k) {
        const size_t other = (k ^ 1) < count ? k ^ 1 : k;
        add_value(sum, l, i, list[pairs ? other : k], pairs);
      }
    }
  float *const to = &dx[0][0][0], *const from = &sum[0][0][0];
  for (size_t i = 0; i < LINES * PIXELS * SLICE; ++i)
    to[i] += from[i];
}

static void check(const ls_cpu_sparse_input *input, const line *l, bool pairs) {
  float got[LINES][PIXELS][SLICE], want[LINES][PIXELS][SLICE];
  memcpy(got, l->before, sizeof(got));
  memcpy(want, l->before, sizeof(want));
  float *const to[LINES] = {got[0][0], got[1][0], got[2][0], got[3][0]};
  float *taps = malloc(input->taps * sizeof(*taps));
  assert_non_null(taps);
  for (size_t o = 0; o < l->out; o += input->block) {
    const size_t left = l->out - o;
    const size_t block = left < input->block ? left : input->block;
    input->pack(taps, &l->w[0][IN - SLICE][o], IN, MOST_OUT, block);
    input->add(to, &l->d[0][o], &l->places[0][o], taps, WINDOWS, MOST_OUT,
               block);
    add_block(want, l, o, o + block, pairs);
  }
  free(taps);
  assert_memory_equal(got, want, sizeof(want));
}

TEST(every_table_adds_the_chains_that_are_stated) {
  static const char *const names[] = {"base", "v3", "v4"};
  loop_random random = {7};
  for (size_t out = SLICE; out <= MOST_OUT; out += SLICE) {
    line l = {.out = out};
    fill(&l, &random);
    for (size_t i = 0; i < 3; ++i) {
      const ls_cpu_kernels *table = ls_cpu_kernels_find(names[i]);
      if (table == NULL) continue;
      check(table->sparse_input, &l, false);
      check(table->sparse_input_bf16, &l, true);
      ls_cpu_kernels best = *table;  // With the instruction for it.
      ls_cpu_kernels_use_bf16(&best);
      check(best.sparse_input, &l, true);
    }
  }
}

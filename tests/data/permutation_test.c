// SPDX-License-Identifier: Apache-2.0
//
// Computed permutations: each number once, and no order more likely than
// another one.
#include "data/streams.h"

#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

TEST(each_number_comes_once) {
  enum { MOST = 5000 };
  static bool seen[MOST];
  static int64_t in[MOST], out[MOST];
  for (int64_t size = 1; size < MOST; size += 1 + size / 7) {
    const ls_permutation order = ls_permutation_make((uint64_t)size, 3, 4, 5);
    memset(seen, 0, sizeof(seen));
    for (int64_t i = 0; i < size; ++i)
      in[i] = size - 1 - i;
    ls_permutation_map(&order, in, (size_t)size, out);
    for (int64_t i = 0; i < size; ++i) {
      assert_in_range(out[i], 0, size - 1);
      assert_false(seen[out[i]]);
      seen[out[i]] = true;
      assert_int_equal(out[i], ls_permutation_at(&order, (uint64_t)in[i]));
    }
    ls_permutation_map(&order, in, (size_t)size, in);
    assert_memory_equal(in, out, (size_t)size * sizeof(*in));
  }
}

static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

TEST(the_largest_sizes_have_no_number_twice) {
  enum { COUNT = 200000 };
  const uint64_t sizes[] = {INT64_MAX, (UINT64_C(1) << 62) + 1,
                            UINT64_C(1) << 62, 10000000019, COUNT + 7};
  HEAP(int64_t, numbers) = malloc(COUNT * sizeof(*numbers));
  assert_non_null(numbers);
  for (size_t s = 0; s < 5; ++s) {
    const ls_permutation order = ls_permutation_make(sizes[s], 1, 0, 0);
    for (int64_t i = 0; i < COUNT; ++i)  // From both ends.
      numbers[i] = i % 2 ? i : (int64_t)sizes[s] - 1 - i;
    ls_permutation_map(&order, numbers, COUNT, numbers);
    qsort(numbers, COUNT, sizeof(*numbers), compare);
    assert_true(numbers[0] >= 0);
    assert_true((uint64_t)numbers[COUNT - 1] < sizes[s]);
    for (int i = 1; i < COUNT; ++i)
      assert_true(numbers[i] > numbers[i - 1]);
  }
}

// How far counts are from all alike, in standard deviations of what chance
// makes of that.
static double unlikeliness(const int64_t *counts, size_t cells, double each) {
  double chi = 0;
  for (size_t i = 0; i < cells; ++i)
    chi += ((double)counts[i] - each) * ((double)counts[i] - each) / each;
  const double freedom = (double)cells - 1;
  const double off = chi - freedom;
  return off * off / (2 * freedom);  // The square of the deviations.
}

static int order_of(const ls_permutation *order, int size) {
  int code = 0;
  for (int i = 0; i < size; ++i)
    code = code * size + (int)ls_permutation_at(order, (uint64_t)i);
  return code;
}

// All orders of 2 to 5 things, over seeds, streams and epochs.
TEST(all_orders_of_a_few_are_alike) {
  enum { TRIES = 120000 };
  const int orders[] = {0, 0, 2, 6, 24, 120};
  for (int size = 2; size <= 5; ++size)
    for (int what = 0; what < 3; ++what) {
      static int64_t by_code[3125], counts[120];
      memset(by_code, 0, sizeof(by_code));
      for (uint64_t k = 0; k < TRIES; ++k) {
        const ls_permutation order =
            ls_permutation_make((uint64_t)size, what == 0 ? k : 9,
                                what == 1 ? k : 9, what == 2 ? k : 9);
        ++by_code[order_of(&order, size)];
      }
      int found = 0;
      for (int code = 0; code < 3125; ++code)
        if (by_code[code] > 0) counts[found++] = by_code[code];
      assert_int_equal(found, orders[size]);
      assert_true(unlikeliness(counts, (size_t)found,
                               (double)TRIES / orders[size]) < 16);
    }
}

// Where each number goes, where two neighbours go, how many stay, and how two
// epochs hang together.
TEST(places_are_alike) {
  enum { SIZE = 23, TRIES = 40000 };
  static int64_t places[SIZE * SIZE], steps[SIZE], both[SIZE * SIZE];
  memset(places, 0, sizeof(places));
  memset(steps, 0, sizeof(steps));
  memset(both, 0, sizeof(both));
  int64_t stay = 0, same = 0;
  for (uint64_t k = 0; k < TRIES; ++k) {
    const ls_permutation a = ls_permutation_make(SIZE, k, 0, 0);
    const ls_permutation b = ls_permutation_make(SIZE, k, 0, 1);
    uint64_t before = ls_permutation_at(&a, SIZE - 1);
    for (uint64_t i = 0; i < SIZE; ++i) {
      const uint64_t at = ls_permutation_at(&a, i);
      const uint64_t then = ls_permutation_at(&b, i);
      ++places[i * SIZE + at];
      ++steps[(at + SIZE - before) % SIZE];
      stay += at == i;
      same += at == then;
      before = at;
      if (i == k % SIZE) ++both[at * SIZE + then];
    }
  }
  // Rows and columns have the same sum: fewer degrees, the same within 10%.
  assert_true(unlikeliness(places, SIZE * SIZE, (double)TRIES / SIZE) < 25);
  assert_int_equal(steps[0], 0);
  assert_true(unlikeliness(steps + 1, SIZE - 1,
                           (double)TRIES * SIZE / (SIZE - 1)) < 16);
  assert_true(unlikeliness(both, SIZE * SIZE, (double)TRIES / SIZE / SIZE) <
              16);
  assert_in_range(stay, TRIES - 1000, TRIES + 1000);  // 5 deviations: one each.
  assert_in_range(same, TRIES - 1000, TRIES + 1000);
}

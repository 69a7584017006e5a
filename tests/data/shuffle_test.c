// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <string.h>

#include "data/shuffle.h"

enum { MANY = 1000 };

static void every_order_is_a_permutation(void **state) {
  (void)state;
  static const size_t counts[] = {0, 1, 2, 7, MANY};
  for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); ++c) {
    uint32_t order[MANY];
    bool seen[MANY] = {false};
    ls_shuffle(1, 2, order, counts[c]);
    for (size_t i = 0; i < counts[c]; ++i) {
      assert_true(order[i] < counts[c] && !seen[order[i]]);
      seen[order[i]] = true;
    }
  }
}

static void seed_and_epoch_decide_the_order(void **state) {
  (void)state;
  uint32_t a[MANY], b[MANY];
  ls_shuffle(1, 2, a, MANY);
  ls_shuffle(1, 2, b, MANY);
  assert_memory_equal(a, b, sizeof(a));
  ls_shuffle(1, 3, b, MANY);
  assert_memory_not_equal(a, b, sizeof(a));
  ls_shuffle(2, 2, b, MANY);
  assert_memory_not_equal(a, b, sizeof(a));
}

static void orders_do_not_change_between_versions(void **state) {
  (void)state;
  uint32_t order[8];
  ls_shuffle(0, 0, order, 8);
  const uint32_t wanted[] = {2, 0, 6, 5, 4, 7, 3, 1};
  assert_memory_equal(order, wanted, sizeof(wanted));
}

// Each of the 24 orders of four comes up about equally often: the chi-square
// of 23 degrees of freedom is below its 99.99% point, 56.6.
static void orders_are_equally_likely(void **state) {
  (void)state;
  enum { DRAWS = 24000 };
  int counts[256] = {0};
  for (uint64_t epoch = 0; epoch < DRAWS; ++epoch) {
    uint32_t order[4];
    ls_shuffle(7, epoch, order, 4);
    ++counts[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6];
  }
  double chi = 0;
  int kinds = 0;
  for (int i = 0; i < 256; ++i) {
    if (counts[i] == 0) continue;
    ++kinds;
    chi += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000;
  }
  assert_int_equal(kinds, 24);
  assert_true(chi < 56.6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_order_is_a_permutation),
      cmocka_unit_test(seed_and_epoch_decide_the_order),
      cmocka_unit_test(orders_do_not_change_between_versions),
      cmocka_unit_test(orders_are_equally_likely),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/memory/allocator.h"

#include "support/expect.h"

LS_OWNED_POINTER(ls_counting_allocator, ls_counting_allocator_destroy)

static bool is_aligned(const void *memory, size_t alignment) {
  return (uintptr_t)memory % alignment == 0;
}

TEST(blocks_are_aligned_as_their_size_asks) {
  LS_OWN(ls_counting_allocator, counting) = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_allocator *const both[] = {ls_allocator_system(),
                                ls_counting_allocator_allocator(counting)};
  const size_t sizes[] = {0, 1, 15, 16, 100, 4095, 4096, 4097, 1 << 20};
  for (size_t a = 0; a < LS_COUNT_OF(both); ++a) {
    for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i) {
      char *memory = ls_allocate(both[a], sizes[i]);
      assert_non_null(memory);
      assert_true(is_aligned(memory, sizes[i] >= 4096 ? 64 : 16));
      memset(memory, 7, sizes[i]);
      ls_release(both[a], memory);
    }
    void *page = both[a]->allocate(both[a], 10, 4096);
    assert_true(page != NULL && is_aligned(page, 4096));
    ls_release(both[a], page);
  }
}

TEST(new_memory_is_zero) {
  ls_allocator *system = ls_allocator_system();
  uint64_t *items = ls_new_array(system, uint64_t, 1000);
  for (size_t i = 0; i < 1000; ++i)
    assert_int_equal(items[i], 0);
  ls_release(system, items);
  ls_release(system, NULL);
}

static void *refuse_nothing(ls_allocator *self, size_t size, size_t alignment) {
  (void)self;
  assert_int_not_equal(size, 0);
  return ls_allocator_system()->allocate(NULL, size, alignment);
}

static void release_to_system(ls_allocator *self, void *memory) {
  (void)self;
  ls_allocator_system()->release(NULL, memory);
}

TEST(no_allocator_is_asked_for_nothing) {
  ls_allocator allocator = {refuse_nothing, release_to_system};
  void *const blocks[] = {
      ls_allocate(&allocator, 0), ls_new_array(&allocator, int, 0),
      ls_allocate_large(&allocator, 0), ls_copy_text(&allocator, "", 0)};
  for (size_t i = 0; i < LS_COUNT_OF(blocks); ++i) {
    assert_non_null(blocks[i]);
    ls_release(&allocator, blocks[i]);
  }
}

TEST(products_that_do_not_fit_are_refused) {
  ls_allocator *system = ls_allocator_system();
  assert_null(ls_allocate_zeroed(system, SIZE_MAX / 2, 3));
  assert_null(system->allocate(system, SIZE_MAX - 3, 64));
  void *items = NULL;
  size_t capacity = 0;
  assert_false(ls_grow(system, &items, &capacity, SIZE_MAX, 1));
  assert_false(ls_grow(system, &items, &capacity, SIZE_MAX / 4, 64));
  assert_int_equal(capacity, 0);
}

TEST(growing_keeps_items_and_zeroes_new_ones) {
  ls_allocator *system = ls_allocator_system();
  int *items = NULL;
  size_t capacity = 0;
  for (int i = 0; i < 1000; ++i) {
    const size_t before = capacity;
    const size_t needed = (size_t)i + 1;
    assert_true(ls_grow(system, &items, &capacity, needed, sizeof(*items)));
    assert_true(capacity >= needed);
    assert_true(before == capacity || capacity >= 2 * before);
    assert_int_equal(items[i], 0);
    items[i] = i;
  }
  for (int i = 0; i < 1000; ++i)
    assert_int_equal(items[i], i);
  ls_release(system, items);
}

TEST(copied_text_ends_with_zero) {
  char *copy = ls_copy_text(ls_allocator_system(), "abcdef", 3);
  assert_string_equal(copy, "abc");
  ls_release(ls_allocator_system(), copy);
  assert_null(ls_copy_text(ls_allocator_system(), "", SIZE_MAX));
}

TEST(counts_follow_what_is_asked_and_given_back) {
  LS_OWN(ls_counting_allocator, counting) = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_allocator *allocator = ls_counting_allocator_allocator(counting);
  void *a = ls_allocate(allocator, 100);
  void *b = ls_allocate(allocator, 5000);
  ls_release(allocator, a);
  void *c = ls_allocate(allocator, 10);
  ls_allocator_counts counts = ls_counting_allocator_counts(counting);
  assert_int_equal(counts.allocations, 3);
  assert_int_equal(counts.live_blocks, 2);
  assert_int_equal(counts.live_bytes, 5010);
  assert_int_equal(counts.peak_bytes, 5100);
  ls_release(allocator, b);
  ls_release(allocator, c);
  counts = ls_counting_allocator_counts(counting);
  assert_int_equal(counts.live_blocks, 0);
  assert_int_equal(counts.live_bytes, 0);
}

TEST(the_nth_request_fails_once) {
  LS_OWN(ls_counting_allocator, counting) = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_allocator *allocator = ls_counting_allocator_allocator(counting);
  ls_release(allocator, ls_allocate(allocator, 1));
  ls_counting_allocator_fail_at(counting, 3);
  for (int i = 1; i <= 5; ++i) {
    void *memory = ls_allocate(allocator, 8);
    assert_true((memory == NULL) == (i == 3));
    ls_release(allocator, memory);
  }
  ls_counting_allocator_fail_at(counting, 1);
  ls_counting_allocator_fail_at(counting, 0);
  void *memory = ls_allocate(allocator, 8);
  assert_non_null(memory);
  ls_release(allocator, memory);
  assert_int_equal(ls_counting_allocator_counts(counting).allocations, 7);
}

TEST(counting_allocators_stack) {
  LS_OWN(ls_counting_allocator, below) = NULL;
  ls_counting_allocator *above = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &below));
  ls_allocator *lower = ls_counting_allocator_allocator(below);
  expect_ok(ls_counting_allocator_create(lower, &above));
  ls_allocator *upper = ls_counting_allocator_allocator(above);
  void *memory = ls_allocate(upper, 64);
  assert_int_equal(ls_counting_allocator_counts(below).live_blocks, 2);
  ls_release(upper, memory);
  ls_counting_allocator_destroy(above);
  assert_int_equal(ls_counting_allocator_counts(below).live_blocks, 0);
  ls_counting_allocator_fail_at(below, 1);
  expect_status(ls_counting_allocator_create(lower, &above),
                LS_RESOURCE_EXHAUSTED, "");
  assert_null(above);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/memory/arena.h"

#include "base/runtime_internal.h"
#include "base/threads/sanitizers.h"
#include "support/fault.h"
#include "support/sanitizer.h"

TEST(memory_is_zeroed_aligned_and_apart) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  unsigned char *pieces[300];
  for (size_t round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 300; ++i) {
      pieces[i] = ls_arena_allocate(&arena, i);
      assert_int_equal((uintptr_t)pieces[i] % 16, 0);
      for (size_t k = 0; k < i; ++k)
        assert_int_equal(pieces[i][k], 0);
      memset(pieces[i], (int)(i & 0xFF), i);
    }
    for (size_t i = 0; i < 300; ++i) {
      for (size_t k = 0; k < i; ++k)
        assert_int_equal(pieces[i][k], i & 0xFF);
    }
    ls_arena_reset(&arena);  // The second round meets used memory.
  }
}

TEST(blocks_double_and_large_requests_have_their_own) {
  ls_counting_allocator *counting = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_arena arena;
  ls_arena_init(&arena, ls_counting_allocator_allocator(counting));
  assert_int_equal(ls_arena_bytes(&arena), 0);
  for (int i = 0; i < 10000; ++i)
    assert_non_null(ls_arena_allocate(&arena, 64));
  // 640 KB: six doubling blocks, then nine or ten of 64 KiB; more where there
  // are gaps for the sanitizer.
  const uint64_t blocks = ls_counting_allocator_counts(counting).live_blocks;
  assert_in_range(blocks, 14, LS_SANITIZED ? 20 : 17);
  assert_non_null(ls_arena_allocate(&arena, 1 << 20));
  assert_int_equal(ls_counting_allocator_counts(counting).live_blocks,
                   blocks + 1);
  assert_int_equal(ls_arena_bytes(&arena),
                   ls_counting_allocator_counts(counting).live_bytes);
  ls_arena_reset(&arena);
  assert_int_equal(ls_counting_allocator_counts(counting).live_blocks, 1);
  ls_arena_deinit(&arena);
  assert_int_equal(ls_counting_allocator_counts(counting).live_blocks, 0);
  assert_int_equal(ls_arena_bytes(&arena), 0);
  ls_counting_allocator_destroy(counting);
}

TEST(copies_strings_and_formats) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const int numbers[] = {1, 2, 3};
  const int *copy = ls_arena_copy(&arena, numbers, sizeof(numbers));
  assert_memory_equal(copy, numbers, sizeof(numbers));
  assert_ptr_not_equal(copy, numbers);
  assert_string_equal(ls_arena_string(&arena, "dense/kernel"), "dense/kernel");
  assert_string_equal(ls_arena_string(&arena, ""), "");
  assert_string_equal(ls_arena_format(&arena, "%s_%d", "add", 12), "add_12");
  const uint64_t *items = ls_arena_new_array(&arena, uint64_t, 5);
  assert_int_equal(items[4], 0);
}

TEST(rollback_drops_what_came_after_the_mark) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  const ls_arena_mark_point empty = ls_arena_mark(&arena);
  char *kept = ls_arena_string(&arena, "kept");
  const ls_arena_mark_point mark = ls_arena_mark(&arena);
  const size_t bytes = ls_arena_bytes(&arena);
  const void *first = ls_arena_allocate(&arena, 100);
  for (int i = 0; i < 100; ++i)
    assert_non_null(ls_arena_allocate(&arena, 999));
  ls_arena_rollback(&arena, mark);
  assert_int_equal(ls_arena_bytes(&arena), bytes);
  assert_string_equal(kept, "kept");
  assert_ptr_equal(ls_arena_allocate(&arena, 100), first);
  ls_arena_rollback(&arena, empty);
  assert_int_equal(ls_arena_bytes(&arena), 0);
}

// Where nobody looks there is nothing to see.
TEST(what_is_not_handed_out_is_forbidden) {
#if defined(LS_ADDRESS_SANITIZER)
  ls_arena arena;
  ls_arena_init(&arena, ls_allocator_system());
  char *kept = ls_arena_allocate(&arena, 24);
  const ls_arena_mark_point mark = ls_arena_mark(&arena);
  for (size_t size = 0; size < 40; ++size) {
    char *piece = ls_arena_allocate(&arena, size);
    for (size_t i = 0; i < size; ++i)
      assert_false(__asan_address_is_poisoned(piece + i));
    assert_true(__asan_address_is_poisoned(piece + size));
    ls_arena_rollback(&arena, mark);
    assert_true(__asan_address_is_poisoned(piece));
  }
  assert_false(__asan_address_is_poisoned(kept + 23));
  ls_arena_reset(&arena);
  assert_true(__asan_address_is_poisoned(kept));
  ls_arena_deinit(&arena);
#else
  skip();
#endif
}

TEST(absurd_sizes_give_null) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_allocator_system());
  assert_null(ls_arena_allocate(&arena, SIZE_MAX));
  assert_null(ls_arena_allocate(&arena, SIZE_MAX - 20));
  assert_null(ls_arena_allocate_array(&arena, SIZE_MAX / 8, 16));
  assert_non_null(ls_arena_allocate(&arena, 1));
}

MEMORY_TEST(fill_arena) {
  LS_OWN_BEGUN(ls_arena, arena, ls_arena_init, ls_current_allocator());
  ls_status status = ls_ok();
  for (int i = 0; i < 50 && ls_status_is_ok(status); ++i) {
    if (ls_arena_format(&arena, "%0500d", i) == NULL) {
      status = ls_out_of_memory();
    }
  }
  return status;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdio.h>

#include "base/runtime_internal.h"
#include "support/expect.h"

TEST(pieces_become_one_string) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  assert_string_equal(ls_text_data(&text), "");
  ls_text_append(&text, "f32[");
  ls_text_append_format(&text, "%d,%d", 2, 3);
  ls_text_append_char(&text, ']');
  ls_text_append_bytes(&text, "abc", 1);
  assert_string_equal(ls_text_data(&text), "f32[2,3]a");
  assert_int_equal(text.size, 9);
  expect_ok(ls_text_status(&text));
  char *result = ls_text_finish(&text);
  assert_string_equal(result, "f32[2,3]a");
  ls_release(ls_allocator_system(), result);
  assert_string_equal(ls_text_data(&text), "");
}

TEST(an_empty_text_finishes_as_an_empty_string) {
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  char *result = ls_text_finish(&text);
  assert_string_equal(result, "");
  ls_release(ls_allocator_system(), result);
}

TEST(long_texts_grow) {
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  for (int i = 0; i < 1000; ++i)
    ls_text_append_format(&text, "%04d", i);
  assert_int_equal(text.size, 4000);
  assert_memory_equal(ls_text_data(&text) + 4 * 321, "0321", 4);
  ls_text_clear(&text);
  assert_string_equal(ls_text_data(&text), "");
  ls_text_append(&text, "again");
  assert_string_equal(ls_text_data(&text), "again");
}

TEST(a_failure_sticks_until_cleared) {
  ls_counting_allocator *counting = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_text text;
  ls_text_init(&text, ls_counting_allocator_allocator(counting));
  ls_counting_allocator_fail_at(counting, 1);
  ls_text_append(&text, "lost");
  ls_text_append(&text, "late");
  assert_string_equal(ls_text_data(&text), "");
  expect_status(ls_text_status(&text), LS_RESOURCE_EXHAUSTED, "");
  assert_null(ls_text_finish(&text));
  ls_text_append(&text, "fresh");
  expect_ok(ls_text_status(&text));
  assert_string_equal(ls_text_data(&text), "fresh");
  ls_text_deinit(&text);
  ls_counting_allocator_destroy(counting);
}

TEST(a_piece_that_does_not_fit_leaves_nothing) {
  ls_counting_allocator *counting = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  ls_text text;
  ls_text_init(&text, ls_counting_allocator_allocator(counting));
  ls_text_append(&text, "here");
  ls_counting_allocator_fail_at(counting, 1);
  ls_text_append_format(&text, "%0100d", 7);
  assert_string_equal(ls_text_data(&text), "here");
  ls_text_append_format(&text, "%d", 7);
  assert_string_equal(ls_text_data(&text), "here");
  expect_status(ls_text_status(&text), LS_RESOURCE_EXHAUSTED, "");
  ls_text_deinit(&text);
  ls_counting_allocator_destroy(counting);
}

TEST(numbers_are_as_printf_writes_them) {
  static const int64_t numbers[] = {0,    7,         10,        -1,
                                    -105, INT32_MIN, INT64_MAX, INT64_MIN};
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  for (size_t i = 0; i < LS_COUNT_OF(numbers); ++i) {
    char wanted[24];
    snprintf(wanted, sizeof(wanted), "%lld", (long long)numbers[i]);
    ls_text_clear(&text);
    ls_text_append_i64(&text, numbers[i]);
    assert_string_equal(ls_text_data(&text), wanted);
  }
}

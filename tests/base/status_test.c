// SPDX-License-Identifier: Apache-2.0
#include "lockstep/status.h"

#include <string.h>

#include "base/memory/own.h"
#include "base/status_cause.h"
#include "support/expect.h"

TEST(ok_is_null_and_has_nothing_to_say) {
  assert_null(ls_ok());
  assert_true(ls_status_is_ok(ls_ok()));
  assert_int_equal(ls_status_code(ls_ok()), LS_OK);
  assert_string_equal(ls_status_message(ls_ok()), "");
  assert_null(ls_status_file(ls_ok()));
  assert_int_equal(ls_status_line(ls_ok()), 0);
  assert_null(ls_status_clone(ls_ok()));
  assert_null(ls_status_annotate(ls_ok(), "not added"));
  ls_status_free(ls_ok());
}

TEST(a_status_keeps_code_text_and_place) {
  LS_OWN(ls_status, status) = ls_not_found("no '%s' in %d files", "loss", 3);
  const int line = __LINE__ - 1;
  assert_int_equal(ls_status_code(status), LS_NOT_FOUND);
  assert_false(ls_status_is_ok(status));
  assert_string_equal(ls_status_message(status), "no 'loss' in 3 files");
  assert_string_equal(ls_status_file(status), __FILE__);
  assert_int_equal(ls_status_line(status), line);
}

TEST(notes_follow_one_a_line) {
  LS_OWN(ls_status, status) = ls_invalid_argument("rank 9");
  status = ls_status_annotate(status, "reading '%s'", "a.npy");
  status = ls_status_annotate(status, "restoring");
  assert_string_equal(ls_status_message(status),
                      "rank 9\nreading 'a.npy'\nrestoring");
  assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
}

TEST(a_clone_lives_on_its_own) {
  ls_status status = ls_internal("first");
  LS_OWN(ls_status, clone) = ls_status_clone(status);
  status = ls_status_annotate(status, "later");
  assert_string_equal(ls_status_message(clone), "first");
  assert_int_equal(ls_status_line(clone), ls_status_line(status));
  ls_status_free(status);
  assert_int_equal(ls_status_code(clone), LS_INTERNAL);
}

TEST(out_of_memory_is_static_until_annotated) {
  LS_OWN(ls_status, status) = ls_out_of_memory();
  ls_status again = ls_out_of_memory();
  assert_ptr_equal(status, again);
  ls_status clone = ls_status_clone(status);
  assert_ptr_equal(clone, status);
  assert_int_equal(ls_status_code(status), LS_RESOURCE_EXHAUSTED);
  ls_status_free(status);
  status = ls_status_annotate(status, "making a graph");
  assert_string_equal(ls_status_message(status),
                      "out of memory\nmaking a graph");
  assert_string_equal(ls_status_message(again), "out of memory");
}

TEST(a_long_message_is_whole) {
  char text[5000];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  LS_OWN(ls_status, status) = ls_unimplemented("%s.", text);
  assert_int_equal(strlen(ls_status_message(status)), sizeof(text));
}

TEST(every_code_has_its_name) {
  assert_string_equal(ls_code_name(LS_OK), "OK");
  assert_string_equal(ls_code_name(LS_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  assert_string_equal(ls_code_name(LS_UNAVAILABLE), "UNAVAILABLE");
  assert_string_equal(ls_code_name(LS_DATA_LOSS), "DATA_LOSS");
  assert_string_equal(ls_code_name((ls_code)99), "UNKNOWN");
}

TEST(making_ok_gives_ok) {
  ls_status status = LS_STATUS(LS_OK, "nothing");
  assert_null(status);
}

static ls_status fail_at(int step, int *reached) {
  LS_RETURN_IF_ERROR(step == 0 ? ls_out_of_range("step 0") : ls_ok());
  *reached = 1;
  ls_status status = ls_ok();
  LS_GOTO_IF_ERROR(done, status, step == 1 ? ls_internal("one") : ls_ok());
  *reached = 2;
done:
  return status;
}

TEST(joining_keeps_the_first_error) {
  assert_null(ls_status_join(ls_ok(), ls_ok()));
  expect_status(ls_status_join(ls_ok(), ls_not_found("b")), LS_NOT_FOUND, "b");
  expect_status(ls_status_join(ls_internal("a"), ls_ok()), LS_INTERNAL, "a");
  expect_status(ls_status_join(ls_internal("a"), ls_not_found("b")),
                LS_INTERNAL, "a");
}

TEST(macros_leave_at_the_first_error) {
  int reached = 0;
  expect_status(fail_at(0, &reached), LS_OUT_OF_RANGE, "step 0");
  assert_int_equal(reached, 0);
  expect_status(fail_at(1, &reached), LS_INTERNAL, "one");
  assert_int_equal(reached, 1);
  expect_ok(fail_at(2, &reached));
  assert_int_equal(reached, 2);
}

TEST(an_optional_tells_zero_from_not_given) {
  const ls_opt none = {0};
  assert_false(none.set);
  assert_true(LS_SOME(0).set);
  assert_int_equal(LS_SOME(-3).value, -3);
}

TEST(a_cause_stays_with_clones_and_behind_notes) {
  ls_status status =
      ls_status_because(ls_invalid_argument("bad"), LS_CAUSE_NUMBERS);
  status = ls_status_annotate(status, "on the way up");
  const ls_status copy = ls_status_clone(status);
  assert_int_equal(ls_status_cause(status), LS_CAUSE_NUMBERS);
  assert_int_equal(ls_status_cause(copy), LS_CAUSE_NUMBERS);
  ls_status_free(copy);
  ls_status_free(status);
  assert_int_equal(ls_status_cause(ls_ok()), LS_CAUSE_UNKNOWN);
  // All failures without memory share one.
  assert_ptr_equal(ls_status_because(ls_out_of_memory(), LS_CAUSE_NUMBERS),
                   ls_out_of_memory());
  assert_int_equal(ls_status_cause(ls_out_of_memory()), LS_CAUSE_MEMORY);
  status = ls_status_annotate(ls_out_of_memory(), "on the way up");
  assert_int_equal(ls_status_cause(status), LS_CAUSE_MEMORY);
  ls_status_free(status);
}

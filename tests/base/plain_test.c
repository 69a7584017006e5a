// SPDX-License-Identifier: Apache-2.0
#include "base/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/text.h"
#include "lockstep/nest.h"
#include "support/comma.h"
#include "support/expect.h"

TEST(numbers_have_a_point_in_every_language) {
  if (!comma_begin()) skip();
  char direct[16], nest[16], outside[16];
  ls_format(direct, sizeof(direct), "%g", 0.5);
  const double read = ls_read_f64("0.5", NULL);
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  ls_text_append_format(&text, "%.2f", 0.5);
  LS_OWN(ls_status, status) = ls_invalid_argument("got %g", 0.5);
  status = ls_status_annotate(status, "beside %g", 1.5);
  ls_nest_print(ls_nest_f64(0.5), nest, sizeof(nest));
  // What the program prints itself is as it has chosen.
  snprintf(outside, sizeof(outside), "%g", 0.5);
  comma_end();
  assert_string_equal(direct, "0.5");
  assert_true(read == 0.5);
  assert_string_equal(ls_text_data(&text), "0.50");
  expect_contains(ls_status_message(status), "got 0.5");
  expect_contains(ls_status_message(status), "beside 1.5");
  assert_string_equal(nest, "0.5");
  assert_string_equal(outside, "0,5");
}

TEST(reading_tells_where_the_number_ends) {
  char *end = NULL;
  const char text[] = "-2.5e1,7";
  assert_true(ls_read_f64(text, &end) == -25.0);
  assert_ptr_equal(end, text + 6);
  assert_true(ls_read_f64("x", &end) == 0);
}

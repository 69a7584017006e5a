// SPDX-License-Identifier: Apache-2.0
//
// What feeds the cores: which input goes to which core, in which ways.
#include <stdio.h>
#include <string.h>

#include "support/fed.h"
#include "support/spec.h"

// ---- Inputs ----------------------------------------------------------------
// Rows in batches of what the call says; `user`: how many.
static ls_nest rows(void *user, ls_input_call *call) {
  const int64_t count = user != NULL ? *(const int64_t *)user : 1000;
  return ls_nest_dataset(
      fed_rows(count, ls_params_i64(call->params, "batch_size", 0)));
}

// ---- One call a host -------------------------------------------------------
static void a_host_shares_its_batch_out(void **state) {
  (void)state;
  LS_SPEC("E99 E117 E118");
  fed f;
  fed_begin(&f, (fed_facts){.pod = "virtual:2x2,cores=1,hosts=2",
                            .mode = LS_MODE_TRAIN,
                            .batch = 8,
                            .input = rows});
  assert_int_equal(f.num_calls, 2);
  for (int h = 0; h < 2; ++h) {
    char place[80], scope[80];
    assert_int_equal(f.seen[h].batch_size, 4);
    assert_int_equal(f.seen[h].mode, LS_MODE_TRAIN);
    assert_int_equal(f.seen[h].at.invocation, h);
    assert_int_equal(f.seen[h].at.num_invocations, 2);
    snprintf(place, sizeof(place), "/job:worker/task:%d/device:CPU:0", h);
    assert_string_equal(f.seen[h].at.host.text, place);
    snprintf(scope, sizeof(scope), "input_pipeline_task%d/", h);
    assert_string_equal(f.seen[h].scope, scope);
  }
  assert_false(f.feed.each_step);
  assert_int_equal(f.feed.num_iterators, 2);
  expect_ok(fed_run(&f, 3));
  for (int k = 0; k < 3; ++k)
    for (int h = 0; h < 2; ++h)
      for (int o = 0; o < 2; ++o)
        FED_EXPECT(&f, h, o, 4 * k + 2 * o, 4 * k + 2 * o + 1);
  // The next run goes on.
  expect_ok(fed_run(&f, 1));
  FED_EXPECT(&f, 1, 1, 14, 15);
  fed_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_host_shares_its_batch_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

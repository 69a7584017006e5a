// SPDX-License-Identifier: Apache-2.0
// Predictions whose session is lost on the way.
#include <string.h>

#include "support/estimator_ways.h"
#include "support/estimators.h"

static ls_status lose_once(void *user, ls_run_context *context, ls_nest all) {
  (void)context, (void)all;
  return ++*(int *)user == 2 ? LS_STATUS(LS_UNAVAILABLE, "gone") : ls_ok();
}

TEST(a_session_made_anew_has_the_same_checkpoint) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    float told[2][55];
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    c.folder = "anew";
    c.examples = 55;
    c.repeats = true;
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    estimator_case_train(&c, 4);
    c.repeats = false;
    for (int loses = 0; loses < 2; ++loses) {
      int runs = 0, rows = 0;
      ls_hook *hook = NULL;
      ls_nest row = {0};
      char path[] = "anew/model.ckpt-2";
      expect_ok(ls_hook_create(
          &(ls_hook_options){.user = &runs, .after_run = lose_once}, &hook));
      ls_predictions *p = estimator_predict(
          &c, (ls_estimator_prediction){.checkpoint = path,
                                        .hooks = &hook,
                                        .num_hooks = (size_t)loses});
      ls_hook_release(hook);
      memset(path, 'x', sizeof(path));
      ls_status status = ls_predictions_next(p, &row);
      for (; ls_status_is_ok(status); status = ls_predictions_next(p, &row)) {
        assert_true(rows < 55);
        told[loses][rows++] = (float)ls_array_f64(
            ls_nest_as_array(ls_nest_find(row, "probabilities")), 0);
      }
      expect_status(status, LS_OUT_OF_RANGE, "");
      assert_int_equal(rows, 55);
      assert_true(loses == 0 || runs > 2);
      ls_nest_release(row);
      expect_ok(ls_predictions_close(p));
    }
    assert_memory_equal(told[0], told[1], sizeof(told[0]));
  }
}

// SPDX-License-Identifier: Apache-2.0
// What a training leaves behind, as its configuration says, and what it tells.
#include <stdio.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "lockstep/saved_file.h"
#include "state/own.h"
#include "support/estimator_ways.h"

static bool is_saved(const char *folder, int64_t step) {
  char path[100];
  LS_OWN(ls_saved_file, file) = NULL;
  snprintf(path, sizeof(path), "%s/model.ckpt-%lld", folder, (long long)step);
  LS_OWN(ls_status, status) = ls_saved_file_open(path, &file);
  return ls_status_is_ok(status);
}

TEST(as_many_checkpoints_are_kept_as_are_wanted) {
  static const struct {
    ls_opt keep;
    int64_t first;  // The oldest that is kept, of steps 0, 1 ... 8.
  } rows[] = {{{true, 2}, 7}, {{false, 0}, 4}, {{true, 0}, 0}};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (size_t k = 0; k < LS_COUNT_OF(rows); ++k) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      c.folder = "kept";
      c.repeats = true;
      c.iterations = "1";
      c.save_steps = (ls_opt){true, 1};
      c.config.keep_checkpoint_max = rows[k].keep;
      estimator_case_begin(&c);
      estimator_case_train(&c, 8);
      for (int64_t step = 0; step <= 8; ++step)
        assert_int_equal(is_saved("kept", step), step >= rows[k].first);
    }
}

TEST(the_graph_is_written_unless_it_is_not_wanted) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (int wanted = 0; wanted < 2; ++wanted) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      c.folder = "graphs";
      c.save_steps = (ls_opt){true, 2};
      if (wanted == 0) c.config.checkpoint_save_graph_def = LS_FLAG_OFF;
      estimator_case_begin(&c);
      estimator_case_train(&c, 2);
      assert_int_equal(access("graphs/graph.ls", R_OK) == 0, wanted);
    }
}

// What is told of `k`: 0, of all replicas; 1, of the first.
typedef struct told_losses {
  double trained[2], evaluated[2];
} told_losses;

// The values are the same, what is told is not.
static told_losses tell_losses(estimator_case of) {
  estimator_case both[2];
  told_losses told;
  for (int k = 0; k < 2; ++k) {
    estimator_case *c = &both[k];
    LS_OWN(ls_nest, metrics) = ls_none();
    *c = of;
    c->folder = k == 0 ? "mean" : "first";
    c->save_steps = (ls_opt)LS_SOME(2);
    c->more.replica_0_loss = k == 1;
    estimator_case_begin(c);
    told.trained[k] = estimator_case_train(c, 4).loss;
    expect_ok(ls_estimator_evaluate(
        c->estimator,
        &(ls_estimator_evaluation){.input = estimator_input(c),
                                   .steps = LS_SOME(4)},
        &metrics));
    told.evaluated[k] = estimator_metric(metrics, "loss");
  }
  const bool same = of.replicas == 1;
  assert_int_equal(told.trained[0] == told.trained[1], same);
  assert_int_equal(told.evaluated[0] == told.evaluated[1], same);
  estimator_cases_expect_equal(&both[0], &both[1], 0);
  for (int k = 0; k < 2; ++k)
    estimator_case_end(&both[k]);
  return told;
}

// In a strategy as on cores, also of replicas of several sizes.
TEST(the_loss_of_the_first_replica_may_be_told) {
  for (int replicas = 1; replicas <= 3; replicas += 2)
    for (int64_t batch = 24; batch >= 22; batch -= 2) {
      const estimator_case of = {
          .replicas = replicas, .batch = batch, .any_batch = batch == 22};
      estimator_case on_tpu = of, in_strategy = of;
      on_tpu.way = ON_TPU;
      in_strategy.way = IN_STRATEGY;
      const told_losses a = tell_losses(on_tpu), b = tell_losses(in_strategy);
      assert_memory_equal(&a, &b, sizeof(a));
    }
}

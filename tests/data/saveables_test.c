// SPDX-License-Identifier: Apache-2.0
//
// Loops of a user's own, with noise and an iterator, resume to the bit.
#include "lockstep/saveables.h"

#include "base/values/array_internal.h"
#include "data/own.h"
#include "lockstep/dataset.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/scratch.h"
#include "support/values.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave)

enum { STEPS = 6 };

typedef struct loop {
  ls_variable *w;
  ls_strategy *strategy;
  ls_function *function;
  ls_iterator *batches;
} loop;

// w = w / 2 + the mean of the batch + noise.
static ls_nest step(ls_nest args, void *user) {
  const ls_tensor x = ls_convert(ls_nest_tensor(args, 0), LS_DTYPE_F32);
  const ls_tensor noisy =
      ls_add(x, ls_random_normal_like(LS_DTYPE_F32, x, 0, 1, NULL));
  const ls_tensor mean =
      ls_all_reduce(LS_REDUCE_MEAN, ls_reduce_mean(noisy, LS_ALL_AXES));
  return ls_leaf(ls_variable_assign(
      user, ls_add(ls_mul_scalar(ls_variable_read(user), 0.5), mean)));
}

static void begin(loop *l, int replicas) {
  const double zero = 0;
  l->w = variable_of("w", LS_DTYPE_F32, LS_SCALAR, &zero);
  l->strategy = mirrored_of(replicas);
  l->function = unnamed_function(step, l->w);
  ls_dataset *data = ls_dataset_shuffle(ls_dataset_range(0, 36, 1), NULL);
  data = ls_dataset_batch(data, &(ls_batch_options){.size = 6});
  data = ls_dataset_parts(data, replicas);
  expect_ok(ls_iterator_create(data, NULL, &l->batches));
  ls_dataset_release(data);
}

static void end(loop *l) {
  ls_iterator_release(l->batches);
  ls_function_release(l->function);
  ls_strategy_release(l->strategy);
  ls_variable_release(l->w);
}
LS_OWNED_STRUCT(loop, end)

static void run(loop *l, int steps) {
  LS_OWN(ls_nest, batch) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < steps; ++i) {
    expect_ok(ls_iterator_next(l->batches, &batch));
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(batch));
    expect_ok(
        ls_strategy_run(l->strategy, ls_traced(l->function), args, &result));
  }
}

static void open_checkpoints(const loop *l, const ls_saver *values,
                             ls_saveable states[2],
                             ls_checkpoints **out_checkpoints) {
  states[0] = ls_saveable_iterator("input", l->batches);
  states[1] = ls_saveable_function("step", l->function);
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = "run", .values = values, .states = states, .num_states = 2},
      out_checkpoints));
}

TEST(a_loop_with_noise_resumes_to_the_bit) {
  for (int replicas = 1; replicas <= 3; replicas += 2)
    for (int half = 0; half < STEPS; half += 3) {
      LS_OWN_BEGUN(loop, whole, begin, replicas);
      run(&whole, STEPS);
      for (int part = 0; part < 2; ++part) {
        LS_OWN_BEGUN(loop, l, begin, replicas);
        const ls_saver values = {.variables = &l.w, .num_variables = 1};
        ls_saveable states[2];
        ls_checkpoints *checkpoints = NULL;
        open_checkpoints(&l, &values, states, &checkpoints);
        if (part == 0) {
          run(&l, half);
          expect_ok(ls_checkpoints_save(checkpoints, half, NULL, 0));
        } else {
          ls_restore_report report;
          expect_ok(ls_checkpoints_restore(checkpoints, NULL, &report));
          run(&l, STEPS - half);
          LS_OWN(ls_array, wanted) = variable_array(whole.w);
          LS_OWN(ls_array, got) = variable_array(l.w);
          assert_true(ls_array_is_same(got, wanted));
        }
        expect_ok(ls_checkpoints_close(checkpoints));
      }
      remove_tree("run");
    }
}

TEST(states_of_nothing_are_refused) {
  const ls_saveable states[] = {ls_saveable_iterator("a", NULL),
                                ls_saveable_function("b", NULL)};
  ls_record *record = NULL;
  expect_ok(ls_record_create(&record));
  for (size_t i = 0; i < 2; ++i) {
    expect_status(states[i].save(states[i].self, record), LS_INVALID_ARGUMENT,
                  "is NULL");
    expect_status(states[i].restore(states[i].self, record),
                  LS_INVALID_ARGUMENT, "is NULL");
  }
  ls_record_destroy(record);
}

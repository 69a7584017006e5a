// SPDX-License-Identifier: Apache-2.0
//
// What a batch on replicas is as a whole.
#include "lockstep/train.h"
#include "lockstep/training_parts.h"

#include <math.h>

#include "support/expect.h"
#include "support/values.h"

// A PerReplica of arrays with these numbers of rows.
static ls_nest rows_of(const int64_t *counts, size_t replicas) {
  static const double zeros[16];
  ls_nest parts[4];
  for (size_t r = 0; r < replicas; ++r)
    parts[r] =
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(counts[r], 2), zeros));
  return ls_nest_distributed(LS_PER_REPLICA, parts, replicas);
}

static ls_nest numbers_of(const double *numbers, size_t replicas) {
  ls_nest parts[4];
  for (size_t r = 0; r < replicas; ++r)
    parts[r] = ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &numbers[r]));
  return ls_nest_distributed(LS_PER_REPLICA, parts, replicas);
}

TEST(a_mean_of_replicas_counts_their_examples) {
  LS_OWN(ls_nest, losses) = numbers_of((double[]){2, 5, 11}, 3);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_i64(1), rows_of((int64_t[]){3, 1, 2}, 3));
  double mean = 0;
  expect_ok(ls_train_mean(args, losses, &mean));
  assert_true(mean == (3 * 2 + 5 + 2 * 11) / 6.0);
  // Without examples each replica counts as one.
  expect_ok(ls_train_mean(ls_none(), losses, &mean));
  assert_true(mean == 6);
  // A replica without examples has no say, whatever its number is.
  LS_OWN(ls_nest, uneven) = rows_of((int64_t[]){3, 1, 0}, 3);
  LS_OWN(ls_nest, some) = numbers_of((double[]){2, 5, (double)NAN}, 3);
  expect_ok(ls_train_mean(uneven, some, &mean));
  assert_true(mean == 11 / 4.0);
}

TEST(what_has_no_mean_is_refused) {
  LS_OWN(ls_nest, losses) = numbers_of((double[]){2, 5}, 2);
  LS_OWN(ls_nest, rows) = rows_of((int64_t[]){1, 1, 1}, 3);
  double mean = 0;
  expect_status(ls_train_mean(rows, losses, &mean), LS_INVALID_ARGUMENT,
                "a mean of 2 numbers over the examples of 3 replicas");
  assert_true(isnan(mean));
  expect_status(ls_train_mean(ls_none(), rows, &mean), LS_INVALID_ARGUMENT,
                "a value that is no number");
  expect_status(ls_train_mean(ls_none(), ls_nest_i64(1), &mean),
                LS_INVALID_ARGUMENT, "a value that is no number");
}

// SPDX-License-Identifier: Apache-2.0
//
// A merge draws once for all replicas, and replicas draw their own numbers,
// also where both name one seed and stream.
#include "support/ways.h"

#include "lockstep/function.h"
#include "support/merges.h"
#include "support/values.h"

static ls_tensor draw(void) {
  return ls_random_normal(
      LS_DTYPE_F32, LS_SHAPE(2), 0, 1,
      &(ls_random_options){.seed = 3, .stream = LS_SOME(5), .fixed = true});
}

static ls_nest draw_in_merge(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args, (void)user;
  return ls_leaf(draw());
}

// Returns what is drawn, by the merge first if `user` says so, and the
// argument's sum: replicas whose arguments have other shapes run bodies of
// their own.
static ls_nest draw_step(ls_nest args, ways *self) {
  const bool *merge_first = self->user;
  ls_tensor own = *merge_first ? ls_failed_tensor() : draw();
  LS_OWN(ls_nest, common) = ls_replica_merge_call(
      ls_replica_context(), draw_in_merge, ls_none(), NULL);
  expect_ok(ls_nest_status(common));
  if (*merge_first) own = draw();
  return LS_LIST(ls_leaf(own), ls_nest_retain(common),
                 ls_leaf(ls_reduce_sum(argument(args, 0), LS_ALL_AXES)));
}

static ls_nest equal_rows(const ways *self, int step, int r) {
  (void)self, (void)step, (void)r;
  return LS_TUPLE(
      ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, 3), 1)));
}

static ls_nest other_rows(const ways *self, int step, int r) {
  (void)self, (void)step;
  return LS_TUPLE(
      ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(r + 1, 3), 1)));
}

static void replicas_draw_their_own(const ways *self) {
  const double first = ways_result(self, 0, 0, 0, 0);
  for (int r = 0; r < self->replicas; ++r) {
    // Replica 0 draws what is drawn once for all.
    ways_expect(self, "drawn for all", ways_result(self, 0, r, 1, 0), first, 0);
    if (r > 0 && ways_result(self, 0, r, 0, 0) == first)
      fail_msg("replica %d draws the numbers of replica 0", r);
  }
}

TEST(a_merge_and_replicas_draw_of_one_stream) {
  for (unsigned i = 0; i < 4; ++i) {
    const bool merge_first = (i & 1) != 0;
    const ways_case c = {.name = merge_first ? "merge first" : "replicas first",
                         .user = &merge_first,
                         .args = i < 2 ? equal_rows : other_rows,
                         .step = draw_step,
                         .check = replicas_draw_their_own};
    ways_hold(&c, 1);
  }
}

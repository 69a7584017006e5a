// SPDX-License-Identifier: Apache-2.0
//
// Sums of several values: in which order, and what is refused.
#include "support/expect.h"
#include "support/ways.h"

static ls_tensor number(ls_dtype dtype, double value) {
  return ls_fill(dtype, LS_SHAPE(1), value);
}

static ls_nest sums(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_tensor wide[] = {number(LS_DTYPE_F32, 1e8), number(LS_DTYPE_F32, 1),
                            number(LS_DTYPE_F32, -1e8),
                            number(LS_DTYPE_F32, 1)};
  const ls_tensor half[] = {number(LS_DTYPE_F16, 2048), number(LS_DTYPE_F16, 1),
                            number(LS_DTYPE_F16, 1), number(LS_DTYPE_F16, 0)};
  const ls_tensor brain[] = {number(LS_DTYPE_BF16, 256),
                             number(LS_DTYPE_BF16, 1), number(LS_DTYPE_BF16, 1),
                             number(LS_DTYPE_BF16, 0)};
  // Of one there is no op.
  const ls_tensor one = ls_add_n(wide, 1);
  if (one.graph != wide[0].graph || one.ref != wide[0].ref)
    return LS_FAIL(LS_INTERNAL, "the sum of one is another value");
  return LS_TUPLE(ls_leaf(ls_add_n(wide, 4)),
                  ls_leaf(ls_convert(ls_add_n(half, 4), LS_DTYPE_F32)),
                  ls_leaf(ls_convert(ls_add_n(brain, 4), LS_DTYPE_F32)));
}

// Left to right the first would be 1, and the others, rounded in between, 2048
// and 256.
static void expect_tree(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    assert_true(ways_result(self, 0, r, 0, 0) == 0);
    assert_true(ways_result(self, 0, r, 1, 0) == 2050);
    assert_true(ways_result(self, 0, r, 2, 0) == 258);
  }
}

static ls_nest other_shape(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_tensor items[] = {number(LS_DTYPE_F32, 1), number(LS_DTYPE_F32, 1),
                             ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1)};
  return ls_leaf(ls_add_n(items, 3));
}

static ls_nest other_type(ls_nest args, ways *self) {
  (void)args, (void)self;
  const ls_tensor items[] = {number(LS_DTYPE_F32, 1), number(LS_DTYPE_F64, 1)};
  return ls_leaf(ls_add_n(items, 2));
}

TEST(sums_go_along_the_canonical_tree) {
  LS_SPEC("O207");
  const ways_case cases[] = {
      {.name = "four", .step = sums, .check = expect_tree},
      {.name = "another shape",
       .step = other_shape,
       .refused = LS_INVALID_ARGUMENT,
       .says = "f32[2]"},
      {.name = "another type",
       .step = other_type,
       .refused = LS_INVALID_ARGUMENT,
       .says = "f64[1]"},
  };
  ways_hold(cases, sizeof(cases) / sizeof(*cases));
}

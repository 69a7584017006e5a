// SPDX-License-Identifier: Apache-2.0
//
// Kernels that take parts of values, join them and look up by index, against
// the reference over random shapes, large ones too.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

// With sanitizers a part of the rounds.
enum { SHARE = LS_SANITIZED ? 4 : 1 };

static ls_shape any_shape(loop_random *random, int32_t rank, bool empty) {
  return loop_any_shape(random, rank, empty, rank > 2 ? 150 : 900);
}

// Any type and a shape of rank `least` to 4.
static ls_type any_value(loop_random *random, int32_t least, bool empty) {
  const ls_dtype dtype = loop_any_type(random, LOOP_TYPES);
  const int32_t rank = (int32_t)loop_random_between(random, least, 4);
  return (ls_type){dtype, any_shape(random, rank, empty)};
}

// ---- Slices ----------------------------------------------------------------
TEST(slice_takes_every_stride_th_element) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 300 / SHARE; ++round) {
    const ls_type from = any_value(&random, 0, true);
    const size_t rank = (size_t)from.shape.rank;
    ls_type to = from;
    int64_t starts[LS_MAX_RANK], limits[LS_MAX_RANK], strides[LS_MAX_RANK];
    for (size_t i = 0; i < rank; ++i) {
      const int64_t size = from.shape.dim[i];
      const bool whole = loop_random_bits(&random) % 3 == 0;
      starts[i] = whole ? 0 : loop_random_between(&random, 0, size);
      limits[i] = whole ? size : loop_random_between(&random, starts[i], size);
      strides[i] = whole ? 1 : loop_random_between(&random, 1, 4);
      to.shape.dim[i] = (limits[i] - starts[i] + strides[i] - 1) / strides[i];
      if (whole) limits[i] = -1;
    }
    loop_case c = {.op = LS_OP_SLICE, .out = to};
    loop_case_attr(&c, LS_ATTR_IS("starts", starts, rank));
    loop_case_attr(&c, LS_ATTR_IS("limits", limits, rank));
    loop_case_attr(&c, LS_ATTR_IS("strides", strides, rank));
    loop_case_add(&c, from, 0, 99, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(reverse_turns_its_axes_around) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200 / SHARE; ++round) {
    const ls_type type = any_value(&random, 0, true);
    int64_t axes[LS_MAX_RANK];
    size_t count = 0;
    const uint32_t mask = loop_random_bits(&random);
    for (int32_t i = 0; i < type.shape.rank; ++i)
      if (mask >> i & 1) axes[count++] = i;
    loop_case c = {.op = LS_OP_REVERSE, .out = type};
    loop_case_attr(&c, LS_ATTR_IS("axes", axes, count));
    loop_case_add(&c, type, 0, 99, &random);
    loop_case_agrees(&c, 0);
  }
}

// Adds random starts, some out of range.
static void add_starts(loop_case *c, int32_t rank, loop_random *random) {
  for (int32_t i = 0; i < rank; ++i) {
    const ls_type type = {loop_any_index(random, true), LS_SCALAR};
    loop_case_add(c, type, -4, 13, random);
  }
}

static ls_type any_part(ls_type whole, loop_random *random) {
  ls_type part = whole;
  for (int32_t i = 0; i < whole.shape.rank; ++i)
    if (loop_random_bits(random) % 3 != 0)
      part.shape.dim[i] = loop_random_between(random, 0, whole.shape.dim[i]);
  return part;
}

TEST(dynamic_slice_clamps_its_starts) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200 / SHARE; ++round) {
    const ls_type from = any_value(&random, 0, true);
    loop_case c = {.op = LS_OP_DYNAMIC_SLICE, .out = any_part(from, &random)};
    loop_case_add(&c, from, 0, 99, &random);
    add_starts(&c, from.shape.rank, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(dynamic_update_slice_replaces_a_part) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200 / SHARE; ++round) {
    ls_type whole = any_value(&random, 0, true);
    if (round % 20 == 0) whole.shape = LS_SHAPE(300, 170);
    loop_case c = {.op = LS_OP_DYNAMIC_UPDATE_SLICE, .out = whole};
    loop_case_add(&c, whole, 0, 50, &random);
    loop_case_add(&c, any_part(whole, &random), 50, 99, &random);
    add_starts(&c, whole.shape.rank, &random);
    loop_case_agrees(&c, 0);
  }
}

// ---- Pad and concatenate ---------------------------------------------------
static void check_pad(ls_type from, loop_random *random) {
  ls_type to = from;
  int64_t low[LS_MAX_RANK], high[LS_MAX_RANK], interior[LS_MAX_RANK];
  for (int32_t i = 0; i < from.shape.rank; ++i) {
    low[i] = high[i] = interior[i] = 0;
    if (loop_random_bits(random) % 3 != 0) {
      low[i] = loop_random_between(random, -3, 4);
      high[i] = loop_random_between(random, -3, 4);
      interior[i] = loop_random_between(random, 0, 2);
    }
    const int64_t n = from.shape.dim[i];
    int64_t *out = &to.shape.dim[i];
    *out = n + (n > 0 ? (n - 1) * interior[i] : 0) + low[i] + high[i];
    if (*out < 0) {
      high[i] -= *out;
      *out = 0;
    }
  }
  const size_t rank = (size_t)from.shape.rank;
  loop_case c = {.op = LS_OP_PAD, .out = to};
  loop_case_attr(&c, LS_ATTR_IS("low", low, rank));
  loop_case_attr(&c, LS_ATTR_IS("high", high, rank));
  loop_case_attr(&c, LS_ATTR_IS("interior", interior, rank));
  loop_case_add(&c, from, 0, 50, random);
  loop_case_add(&c, (ls_type){from.dtype, LS_SCALAR}, 50, 99, random);
  loop_case_agrees(&c, 0);
}

TEST(pad_puts_a_value_around_between_and_cuts) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 300 / SHARE; ++round)
    check_pad(any_value(&random, 0, true), &random);
  check_pad((ls_type){LS_DTYPE_F32, LS_SHAPE(3, 60, 60, 7)}, &random);
  check_pad((ls_type){LS_DTYPE_F32, LS_SHAPE(20000)}, &random);
  for (int64_t columns = 1; columns < 10; ++columns)
    check_pad((ls_type){LS_DTYPE_BF16, LS_SHAPE(5000, columns)}, &random);
}

TEST(concatenate_joins_any_number_of_values) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150 / SHARE; ++round) {
    ls_type type = any_value(&random, 1, round % 10 == 0);
    const int32_t axis = loop_any_axis(&random, type.shape);
    const int64_t count = loop_random_between(&random, 1, 12);
    loop_case c = {.op = LS_OP_CONCATENATE};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      type.shape.dim[axis] = loop_random_between(&random, 0, i == 2 ? 300 : 5);
      sum += type.shape.dim[axis];
      loop_case_add(&c, type, 0, 99, &random);
    }
    type.shape.dim[axis] = sum;
    c.out = type;
    loop_case_agrees(&c, 0);
  }
}

TEST(concatenate_joins_values_in_long_rows) {
  loop_random random = {loop_random_seed()};
  for (int64_t rows = 1; rows < 4; ++rows) {
    loop_case c = {.op = LS_OP_CONCATENATE};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    int64_t sum = 0;
    for (int i = 0; i < LOOP_CASE_OPERANDS; ++i) {
      const int64_t size =
          i % 3 == 1 ? 0 : loop_random_between(&random, 1, 9000);
      loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(rows, size)}, 0, 99,
                    &random);
      sum += size;
    }
    c.out = (ls_type){LS_DTYPE_F32, LS_SHAPE(rows, sum)};
    loop_case_agrees(&c, 0);
  }
}

// ---- Lookups ---------------------------------------------------------------
// The shape of x with the axis replaced by the dimensions of the indices.
static ls_shape gathered(ls_shape x, ls_shape indices, int32_t axis) {
  ls_shape shape = {.rank = x.rank - 1 + indices.rank};
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = i < axis                  ? x.dim[i]
                   : i < axis + indices.rank ? indices.dim[i - axis]
                                             : x.dim[i + 1 - indices.rank];
  return shape;
}

TEST(gather_clamps_indices) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 250 / SHARE; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_TYPES);
    const ls_dtype index = loop_any_index(&random, round % 2 == 0);
    const ls_shape x = any_shape(&random, (int32_t)(1 + round % 3), false);
    const ls_shape indices =
        any_shape(&random, (int32_t)(round / 3 % 3), round % 7 == 0);
    const int32_t axis = loop_any_axis(&random, x);
    loop_case c = {.op = LS_OP_GATHER,
                   .out = {dtype, gathered(x, indices, axis)}};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    loop_case_add(&c, (ls_type){dtype, x}, 0, 99, &random);
    loop_case_add(&c, (ls_type){index, indices}, -3, 12, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(the_largest_u64_is_the_last_index) {
  LS_OWN(loop_case, c) = {.op = LS_OP_GATHER,
                          .out = {LS_DTYPE_F32, LS_SHAPE(2)}};
  loop_case_attr(&c, LS_ATTR_I("axis", 0));
  loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(3)},
                     (const float[]){5, 6, 7});
  loop_case_add_copy(&c, (ls_type){LS_DTYPE_U64, LS_SHAPE(2)},
                     (const uint64_t[]){UINT64_MAX, 0});
  HEAP(float, got) = loop_case_run(&c);
  assert_true(got[0] == 7 && got[1] == 5);
}

TEST(an_axis_without_elements_has_none_to_gather) {
  static const uint16_t ops[] = {LS_OP_GATHER, LS_OP_TAKE_ALONG};
  for (size_t i = 0; i < LS_COUNT_OF(ops); ++i) {
    LS_OWN(loop_case, c) = {.op = ops[i], .out = {LS_DTYPE_F32, LS_SHAPE(2)}};
    loop_case_attr(&c, LS_ATTR_I("axis", 0));
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(0)}, NULL);
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(2)}, NULL);
    expect_status(loop_case_prepare(&c), LS_INVALID_ARGUMENT,
                  "along axis 0 of f32[0], which is empty");
  }
}

static const char *const combinations[] = {"update", "add", "sub", "mul",
                                           "div",    "min", "max"};

static void check_scatter(const char *how, ls_dtype dtype, ls_shape x,
                          ls_shape indices, loop_random *random) {
  const int32_t axis = loop_any_axis(random, x);
  const ls_dtype index = loop_any_index(random, true);
  loop_case c = {.op = LS_OP_SCATTER, .out = {dtype, x}};
  loop_case_attr(&c, LS_ATTR_S("combine", how));
  loop_case_attr(&c, LS_ATTR_I("axis", axis));
  loop_case_add(&c, c.out, 1, 9, random);
  loop_case_add(&c, (ls_type){index, indices}, -3, 12, random);
  loop_case_add(&c, (ls_type){dtype, gathered(x, indices, axis)}, 1, 3, random);
  loop_case_agrees(&c, 0);
}

TEST(scatter_applies_updates_in_the_order_of_indices) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 280 / SHARE; ++round) {
    const size_t how = (size_t)round % LS_COUNT_OF(combinations);
    const ls_dtype dtype =
        loop_any_type(&random, how == 0 ? LOOP_TYPES : LOOP_NUMBERS);
    check_scatter(combinations[how], dtype,
                  any_shape(&random, (int32_t)(1 + round % 3), round % 9 == 0),
                  any_shape(&random, (int32_t)(round / 3 % 3), round % 7 == 0),
                  &random);
  }
  // Many blocks, and indices beyond one chunk.
  check_scatter("add", LS_DTYPE_F32, LS_SHAPE(1500, 50), LS_SHAPE(600),
                &random);
  check_scatter("add", LS_DTYPE_BF16, LS_SHAPE(40000), LS_SHAPE(900), &random);
  // Few elements of each index.
  for (int64_t n = 1; n <= 17; ++n)
    for (size_t how = 0; how < LS_COUNT_OF(combinations); ++how)
      check_scatter(combinations[how], loop_any_type(&random, LOOP_NUMBERS),
                    LS_SHAPE(9, n), LS_SHAPE(how == 3 ? 9 : 300), &random);
}

TEST(scatter_to_single_elements_goes_block_by_block_too) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_TYPES; ++t) {
    const size_t hows = t < LOOP_NUMBERS ? LS_COUNT_OF(combinations) : 1;
    for (size_t how = 0; how < hows; ++how) {
      const ls_shape x = LS_SHAPE(40000);
      loop_case c = {.op = LS_OP_SCATTER, .out = {loop_types[t], x}};
      loop_case_attr(&c, LS_ATTR_S("combine", combinations[how]));
      loop_case_attr(&c, LS_ATTR_I("axis", 0));
      loop_case_add(&c, c.out, 1, 9, &random);
      // Around the borders of blocks, each several times; and some outside.
      int32_t *at = loop_case_add(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(700)},
                                  -8, 8, &random);
      for (int i = 0; i < 700; ++i)
        at[i] += 16384 * (i % 4);
      loop_case_add(&c, (ls_type){loop_types[t], LS_SHAPE(700)}, 1, 3, &random);
      loop_case_agrees(&c, 0);
    }
  }
}

TEST(a_scatter_of_bools_only_updates) {
  LS_OWN(loop_case, c) = {.op = LS_OP_SCATTER,
                          .out = {LS_DTYPE_BOOL, LS_SHAPE(3)}};
  loop_case_attr(&c, LS_ATTR_S("combine", "add"));
  for (int i = 0; i < 3; ++i)
    loop_case_add_copy(
        &c, (ls_type){i == 1 ? LS_DTYPE_I32 : LS_DTYPE_BOOL, LS_SHAPE(3)},
        NULL);
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'scatter' has no CPU kernel for bool");
}

// ---- Along an axis ---------------------------------------------------------
// x, indices as long as updates, and where `adds` these.
static void check_along(bool adds, loop_random *random, int round) {
  const ls_dtype dtype =
      loop_any_type(random, adds ? LOOP_NUMBERS : LOOP_TYPES);
  const ls_dtype index = loop_any_index(random, adds || round % 2 == 0);
  ls_shape x =
      any_shape(random, (int32_t)(1 + round % 4), adds && round % 9 == 0);
  // Many short lines.
  if (round % 10 == 3)
    x = LS_SHAPE(6000, 1 + round / 10 % 3, 1 + round / 30 % 3);
  const int32_t axis = x.dim[0] == 6000 ? 1 : loop_any_axis(random, x);
  ls_shape lines = x;
  lines.dim[axis] = loop_random_between(random, 0, round % 5 == 0 ? 400 : 9);
  loop_case c = {.op = adds ? LS_OP_ADD_ALONG : LS_OP_TAKE_ALONG,
                 .out = {dtype, adds ? x : lines}};
  loop_case_attr(&c, LS_ATTR_I("axis", axis));
  loop_case_add(&c, (ls_type){dtype, x}, 1, 9, random);
  loop_case_add(&c, (ls_type){index, lines}, -3, 12, random);
  if (adds) loop_case_add(&c, (ls_type){dtype, lines}, 1, 3, random);
  loop_case_agrees(&c, 0);
}

TEST(take_along_looks_up_each_line) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200 / SHARE; ++round)
    check_along(false, &random, round);
}

TEST(add_along_adds_in_the_order_of_indices) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200 / SHARE; ++round)
    check_along(true, &random, round);
}

// ---- Clamp -----------------------------------------------------------------
TEST(clamp_keeps_between_scalars_or_elements) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 120 / SHARE; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_NUMBERS);
    const ls_shape shape = any_shape(&random, (int32_t)(round % 3), true);
    const ls_shape low = round / 3 % 2 == 0 ? LS_SCALAR : shape;
    const ls_shape high = round / 6 % 2 == 0 ? LS_SCALAR : shape;
    loop_case c = {.op = LS_OP_CLAMP, .out = {dtype, shape}};
    loop_case_add(&c, (ls_type){dtype, low}, 2, 8, &random);
    loop_case_add(&c, (ls_type){dtype, shape}, 0, 16, &random);
    loop_case_add(&c, (ls_type){dtype, high}, 6, 13, &random);
    loop_case_agrees(&c, 0);
  }
}

// By the statement: min(max(x, low), high), where the second one comes out of
// equal ones, and nan of any; of two, x's.
static float clamped(float low, float x, float high) {
  const float above = x > low || isnan(x) ? x : low;
  return above < high || isnan(above) ? above : high;
}

TEST(clamp_keeps_nan_and_the_signs_of_zeros_in_every_table) {
  static const float odd[] = {0.0F,  -0.0F,    NAN,      1.0F,
                              -1.0F, INFINITY, -INFINITY};
  static const char *const tables[] = {"base", "v3", "v4"};
  enum { ODD = 7, ALL = ODD * ODD * ODD };
  for (size_t t = 0; t < 4 * LS_COUNT_OF(tables); ++t) {
    if (ls_cpu_kernels_find(tables[t / 4]) == NULL) continue;
    for (int first = 0; first < (t % 4 == 0 ? 1 : ODD * ODD); ++first) {
      LS_OWN(loop_case, c) = {.op = LS_OP_CLAMP,
                              .out = {LS_DTYPE_F32, LS_SHAPE(ALL)},
                              .kernels = tables[t / 4]};
      float *data[3];
      for (int i = 0; i < 3; ++i) {
        const bool one = (i == 0 && t % 2 == 1) || (i == 2 && t % 4 >= 2);
        data[i] = loop_case_add_copy(
            &c, (ls_type){LS_DTYPE_F32, one ? LS_SCALAR : LS_SHAPE(ALL)}, NULL);
        for (int k = 0; k < (one ? 1 : ALL); ++k)
          data[i][k] = i == 0   ? odd[(k + first) % ODD]
                       : i == 1 ? odd[k / ODD % ODD]
                                : odd[(k / ODD / ODD + first / ODD) % ODD];
      }
      HEAP(float, got) = loop_case_run(&c);
      for (int k = 0; k < ALL; ++k) {
        const float want = clamped(data[0][t % 2 == 1 ? 0 : k], data[1][k],
                                   data[2][t % 4 >= 2 ? 0 : k]);
        assert_true(isnan(want) ? isnan(got[k])
                                : memcmp(&got[k], &want, sizeof(want)) == 0);
      }
    }
  }
}

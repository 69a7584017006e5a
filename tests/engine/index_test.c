// SPDX-License-Identifier: Apache-2.0
//
// Kernels that take parts of values, join them and look up by index, against
// naive references over random shapes.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype all_types[] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};
enum { NUMBERS = LS_COUNT_OF(all_types) - 1 };  // Without bool.

static ls_dtype any_type(loop_random *random, size_t count) {
  return all_types[loop_random_bits(random) % count];
}

// An integer type, signed if negative numbers are wanted.
static ls_dtype any_index(loop_random *random, bool is_signed) {
  return all_types[4 + loop_random_bits(random) % (is_signed ? 4 : 8)];
}

// Sizes of 0 to 9, often 1, now and then a large one.
static ls_shape any_shape(loop_random *random, int32_t rank, bool empty) {
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i) {
    shape.dim[i] = loop_random_between(random, empty ? 0 : 1, 9);
    if (loop_random_bits(random) % 4 == 0) shape.dim[i] = 1;
  }
  if (rank > 0 && loop_random_bits(random) % 8 == 0)
    shape.dim[loop_random_between(random, 0, rank - 1)] =
        loop_random_between(random, 40, rank > 2 ? 150 : 900);
  return shape;
}

static int32_t any_axis(loop_random *random, ls_shape shape) {
  return (int32_t)loop_random_between(random, 0, shape.rank - 1);
}

// The index along each dimension of element `at`, and back.
static void indices_of(ls_shape shape, int64_t at, int64_t *out) {
  for (int32_t i = shape.rank; i-- > 0;) {
    out[i] = at % shape.dim[i];
    at /= shape.dim[i];
  }
}

static int64_t element_of(ls_shape shape, const int64_t *indices) {
  int64_t at = 0;
  for (int32_t i = 0; i < shape.rank; ++i)
    at = at * shape.dim[i] + indices[i];
  return at;
}

static int64_t clamped(double index, int64_t last) {
  return index < 0 ? 0 : index > (double)last ? last : (int64_t)index;
}

// ---- Slices ----------------------------------------------------------------
static void slice_takes_every_stride_th_element(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 300; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    const ls_shape from = any_shape(&random, rank, true);
    ls_shape to = from;
    int64_t starts[LS_MAX_RANK], limits[LS_MAX_RANK], strides[LS_MAX_RANK];
    for (int32_t i = 0; i < rank; ++i) {
      const bool whole = loop_random_bits(&random) % 3 == 0;
      starts[i] = whole ? 0 : loop_random_between(&random, 0, from.dim[i]);
      limits[i] = whole ? from.dim[i]
                        : loop_random_between(&random, starts[i], from.dim[i]);
      strides[i] = whole ? 1 : loop_random_between(&random, 1, 4);
      to.dim[i] = (limits[i] - starts[i] + strides[i] - 1) / strides[i];
      if (whole) limits[i] = -1;
    }
    loop_case c = {.op = LS_OP_SLICE, .out = {dtype, to}};
    loop_case_attr(&c, LS_ATTR_IS("starts", starts, (size_t)rank));
    loop_case_attr(&c, LS_ATTR_IS("limits", limits, (size_t)rank));
    loop_case_attr(&c, LS_ATTR_IS("strides", strides, (size_t)rank));
    const void *x = loop_case_add(&c, (ls_type){dtype, from}, 0, 99, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(to, i, at);
      for (int32_t d = 0; d < rank; ++d)
        at[d] = starts[d] + at[d] * strides[d];
      loop_expect(&c, got, i, loop_read(dtype, x, element_of(from, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void reverse_turns_its_axes_around(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    const ls_shape shape = any_shape(&random, rank, true);
    int64_t axes[LS_MAX_RANK];
    size_t count = 0;
    const uint32_t mask = loop_random_bits(&random);
    for (int32_t i = 0; i < rank; ++i)
      if (mask >> i & 1) axes[count++] = i;
    loop_case c = {.op = LS_OP_REVERSE, .out = {dtype, shape}};
    loop_case_attr(&c, LS_ATTR_IS("axes", axes, count));
    const void *x = loop_case_add(&c, (ls_type){dtype, shape}, 0, 99, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(shape, i, at);
      for (size_t k = 0; k < count; ++k)
        at[axes[k]] = shape.dim[axes[k]] - 1 - at[axes[k]];
      loop_expect(&c, got, i, loop_read(dtype, x, element_of(shape, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

// Adds random starts for a part of a whole and says where it begins.
static void add_starts(loop_case *c, ls_shape whole, ls_shape part,
                       int64_t *out, loop_random *random) {
  for (int32_t i = 0; i < whole.rank; ++i) {
    const ls_type type = {any_index(random, true), LS_SCALAR};
    const void *start = loop_case_add(c, type, -4, 13, random);
    out[i] =
        clamped(loop_read(type.dtype, start, 0), whole.dim[i] - part.dim[i]);
  }
}

static ls_shape any_part(ls_shape whole, loop_random *random) {
  ls_shape part = whole;
  for (int32_t i = 0; i < whole.rank; ++i)
    if (loop_random_bits(random) % 3 != 0)
      part.dim[i] = loop_random_between(random, 0, whole.dim[i]);
  return part;
}

static void dynamic_slice_clamps_its_starts(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    const ls_shape from = any_shape(&random, rank, true);
    const ls_shape to = any_part(from, &random);
    loop_case c = {.op = LS_OP_DYNAMIC_SLICE, .out = {dtype, to}};
    const void *x = loop_case_add(&c, (ls_type){dtype, from}, 0, 99, &random);
    int64_t starts[LS_MAX_RANK];
    add_starts(&c, from, to, starts, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(to, i, at);
      for (int32_t d = 0; d < rank; ++d)
        at[d] += starts[d];
      loop_expect(&c, got, i, loop_read(dtype, x, element_of(from, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void dynamic_update_slice_replaces_a_part(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    ls_shape whole = any_shape(&random, rank, true);
    if (round % 20 == 0 && rank == 2) whole = LS_SHAPE(300, 170);
    const ls_shape part = any_part(whole, &random);
    loop_case c = {.op = LS_OP_DYNAMIC_UPDATE_SLICE, .out = {dtype, whole}};
    const void *x = loop_case_add(&c, (ls_type){dtype, whole}, 0, 50, &random);
    const void *u = loop_case_add(&c, (ls_type){dtype, part}, 50, 99, &random);
    int64_t starts[LS_MAX_RANK];
    add_starts(&c, whole, part, starts, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(whole); ++i) {
      int64_t at[LS_MAX_RANK];
      bool inside = true;
      indices_of(whole, i, at);
      for (int32_t d = 0; d < rank; ++d) {
        at[d] -= starts[d];
        inside = inside && at[d] >= 0 && at[d] < part.dim[d];
      }
      loop_expect(&c, got, i,
                  inside ? loop_read(dtype, u, element_of(part, at))
                         : loop_read(dtype, x, i),
                  0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

// ---- Pad and concatenate ---------------------------------------------------
static void check_pad(ls_dtype dtype, ls_shape from, loop_random *random) {
  ls_shape to = from;
  int64_t low[LS_MAX_RANK], high[LS_MAX_RANK], interior[LS_MAX_RANK];
  for (int32_t i = 0; i < from.rank; ++i) {
    low[i] = high[i] = interior[i] = 0;
    if (loop_random_bits(random) % 3 != 0) {
      low[i] = loop_random_between(random, -3, 4);
      high[i] = loop_random_between(random, -3, 4);
      interior[i] = loop_random_between(random, 0, 2);
    }
    const int64_t n = from.dim[i];
    to.dim[i] = n + (n > 0 ? (n - 1) * interior[i] : 0) + low[i] + high[i];
    if (to.dim[i] < 0) {
      high[i] -= to.dim[i];
      to.dim[i] = 0;
    }
  }
  const size_t rank = (size_t)from.rank;
  loop_case c = {.op = LS_OP_PAD, .out = {dtype, to}};
  loop_case_attr(&c, LS_ATTR_IS("low", low, rank));
  loop_case_attr(&c, LS_ATTR_IS("high", high, rank));
  loop_case_attr(&c, LS_ATTR_IS("interior", interior, rank));
  const void *x = loop_case_add(&c, (ls_type){dtype, from}, 0, 50, random);
  const void *value =
      loop_case_add(&c, (ls_type){dtype, LS_SCALAR}, 50, 99, random);
  void *got = loop_case_run(&c);
  for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
    int64_t at[LS_MAX_RANK];
    bool inside = true;
    indices_of(to, i, at);
    for (int32_t d = 0; d < from.rank; ++d) {
      at[d] -= low[d];
      inside = inside && at[d] >= 0 && at[d] % (interior[d] + 1) == 0 &&
               at[d] / (interior[d] + 1) < from.dim[d];
      at[d] /= interior[d] + 1;
    }
    loop_expect(&c, got, i,
                inside ? loop_read(dtype, x, element_of(from, at))
                       : loop_read(dtype, value, 0),
                0);
  }
  free(got);
  loop_case_deinit(&c);
}

static void pad_puts_a_value_around_between_and_cuts(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 300; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    check_pad(any_type(&random, LS_COUNT_OF(all_types)),
              any_shape(&random, rank, true), &random);
  }
  check_pad(LS_DTYPE_F32, LS_SHAPE(3, 60, 60, 7), &random);
  check_pad(LS_DTYPE_F32, LS_SHAPE(20000), &random);
}

static void concatenate_joins_any_number_of_values(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 1, 4);
    ls_shape shape = any_shape(&random, rank, round % 10 == 0);
    const int32_t axis = any_axis(&random, shape);
    const int64_t count = loop_random_between(&random, 1, 12);
    loop_case c = {.op = LS_OP_CONCATENATE};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      shape.dim[axis] = loop_random_between(&random, 0, i == 2 ? 300 : 5);
      sum += shape.dim[axis];
      loop_case_add(&c, (ls_type){dtype, shape}, 0, 99, &random);
    }
    shape.dim[axis] = sum;
    c.out = (ls_type){dtype, shape};
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i) {
      int64_t at[LS_MAX_RANK];
      uint32_t part = 0;
      indices_of(shape, i, at);
      while (at[axis] >= c.in[part].shape.dim[axis])
        at[axis] -= c.in[part++].shape.dim[axis];
      loop_expect(
          &c, got, i,
          loop_read(dtype, c.data[part], element_of(c.in[part].shape, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
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

// The element of the indices that `at`, in the gathered shape, is looked up by;
// `at` becomes the place in x but for the axis.
static int64_t index_element(ls_shape indices, int32_t axis, int32_t rank,
                             int64_t *at) {
  const int64_t element = element_of(indices, at + axis);
  int64_t x[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i)
    x[i] = i <= axis ? at[i] : at[i - 1 + indices.rank];
  for (int32_t i = 0; i < rank; ++i)
    at[i] = x[i];
  return element;
}

static void gather_clamps_indices(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 250; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const ls_dtype index = any_index(&random, round % 2 == 0);
    ls_shape x = any_shape(&random, (int32_t)(1 + round % 3), false);
    const ls_shape indices =
        any_shape(&random, (int32_t)(round / 3 % 3), round % 7 == 0);
    const int32_t axis = any_axis(&random, x);
    const ls_shape to = gathered(x, indices, axis);
    loop_case c = {.op = LS_OP_GATHER, .out = {dtype, to}};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    const void *data = loop_case_add(&c, (ls_type){dtype, x}, 0, 99, &random);
    const void *at_data =
        loop_case_add(&c, (ls_type){index, indices}, -3, 12, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(to, i, at);
      const int64_t k = index_element(indices, axis, x.rank, at);
      at[axis] = clamped(loop_read(index, at_data, k), x.dim[axis] - 1);
      loop_expect(&c, got, i, loop_read(dtype, data, element_of(x, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void the_largest_u64_is_the_last_index(void **state) {
  (void)state;
  loop_case c = {.op = LS_OP_GATHER, .out = {LS_DTYPE_F32, LS_SHAPE(2)}};
  loop_case_attr(&c, LS_ATTR_I("axis", 0));
  loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(3)},
                     (const float[]){5, 6, 7});
  loop_case_add_copy(&c, (ls_type){LS_DTYPE_U64, LS_SHAPE(2)},
                     (const uint64_t[]){UINT64_MAX, 0});
  float *got = loop_case_run(&c);
  assert_true(got[0] == 7 && got[1] == 5);
  free(got);
  loop_case_deinit(&c);
}

static void an_axis_without_elements_has_none_to_gather(void **state) {
  (void)state;
  static const uint16_t ops[] = {LS_OP_GATHER, LS_OP_TAKE_ALONG};
  for (size_t i = 0; i < LS_COUNT_OF(ops); ++i) {
    loop_case c = {.op = ops[i], .out = {LS_DTYPE_F32, LS_SHAPE(2)}};
    loop_case_attr(&c, LS_ATTR_I("axis", 0));
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(0)}, NULL);
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(2)}, NULL);
    expect_status(loop_case_prepare(&c), LS_INVALID_ARGUMENT,
                  "along axis 0 of f32[0]: there is nothing");
    loop_case_deinit(&c);
  }
}

typedef struct combination {
  const char *name;
  double (*apply)(double x, double y);
} combination;

static double take_update(double x, double y) { return (void)x, y; }
static double added(double x, double y) { return x + y; }
static double subtracted(double x, double y) { return x - y; }
static double multiplied(double x, double y) { return x * y; }
static double divided(double x, double y) { return x / y; }
static double smaller(double x, double y) { return x < y ? x : y; }
static double larger(double x, double y) { return x > y ? x : y; }

static const combination combinations[] = {
    {"update", take_update}, {"add", added},   {"sub", subtracted},
    {"mul", multiplied},     {"div", divided}, {"min", smaller},
    {"max", larger},
};

// `value` as it is stored, read again: rounded, or wrapped around.
static double stored(ls_dtype dtype, double value) {
  uint64_t room = 0;
  loop_write(
      dtype, &room, 0,
      loop_stored(dtype, ls_dtype_is_float(dtype) ? value : trunc(value)));
  return loop_read(dtype, &room, 0);
}

static void check_scatter(const combination *how, ls_dtype dtype, ls_shape x,
                          ls_shape indices, loop_random *random) {
  const int32_t axis = any_axis(random, x);
  const ls_dtype index = any_index(random, true);
  const ls_shape updates = gathered(x, indices, axis);
  loop_case c = {.op = LS_OP_SCATTER, .out = {dtype, x}};
  loop_case_attr(&c, LS_ATTR_S("combine", how->name));
  loop_case_attr(&c, LS_ATTR_I("axis", axis));
  const void *data = loop_case_add(&c, (ls_type){dtype, x}, 1, 9, random);
  const void *at_data =
      loop_case_add(&c, (ls_type){index, indices}, -3, 12, random);
  const void *u = loop_case_add(&c, (ls_type){dtype, updates}, 1, 3, random);
  void *got = loop_case_run(&c);
  const int64_t count = ls_shape_num_elements(x);
  double *want = calloc((size_t)count + 1, sizeof(*want));
  for (int64_t i = 0; i < count; ++i)
    want[i] = loop_read(dtype, data, i);
  // Row order of the updates visits each slice in the order of its indices.
  for (int64_t i = 0; i < ls_shape_num_elements(updates); ++i) {
    int64_t at[LS_MAX_RANK];
    indices_of(updates, i, at);
    const int64_t k = index_element(indices, axis, x.rank, at);
    const double row = loop_read(index, at_data, k);
    if (row < 0 || row >= (double)x.dim[axis]) continue;
    at[axis] = (int64_t)row;
    double *to = &want[element_of(x, at)];
    *to = stored(dtype, how->apply(*to, loop_read(dtype, u, i)));
  }
  for (int64_t i = 0; i < count; ++i)
    loop_expect(&c, got, i, want[i], 0);
  free(want);
  free(got);
  loop_case_deinit(&c);
}

static void scatter_applies_updates_in_the_order_of_indices(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 280; ++round) {
    const combination *how =
        &combinations[(size_t)round % LS_COUNT_OF(combinations)];
    const bool updates = strcmp(how->name, "update") == 0;
    ls_dtype dtype =
        any_type(&random, updates ? LS_COUNT_OF(all_types) : NUMBERS);
    // A double cannot say how 64 bits wrap around.
    if (!ls_dtype_is_float(dtype) && ls_dtype_size(dtype) == 8)
      dtype = LS_DTYPE_I32;
    check_scatter(how, dtype,
                  any_shape(&random, (int32_t)(1 + round % 3), round % 9 == 0),
                  any_shape(&random, (int32_t)(round / 3 % 3), round % 7 == 0),
                  &random);
  }
  // Many blocks, and indices beyond one chunk.
  check_scatter(&combinations[1], LS_DTYPE_F32, LS_SHAPE(1500, 50),
                LS_SHAPE(600), &random);
  check_scatter(&combinations[1], LS_DTYPE_BF16, LS_SHAPE(40000), LS_SHAPE(900),
                &random);
}

static void a_scatter_of_bools_only_updates(void **state) {
  (void)state;
  loop_case c = {.op = LS_OP_SCATTER, .out = {LS_DTYPE_BOOL, LS_SHAPE(3)}};
  loop_case_attr(&c, LS_ATTR_S("combine", "add"));
  for (int i = 0; i < 3; ++i)
    loop_case_add_copy(
        &c, (ls_type){i == 1 ? LS_DTYPE_I32 : LS_DTYPE_BOOL, LS_SHAPE(3)},
        NULL);
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'scatter' has no CPU kernel for bool");
  loop_case_deinit(&c);
}

// ---- Along an axis ---------------------------------------------------------
static void take_along_looks_up_each_line(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const ls_dtype index = any_index(&random, round % 2 == 0);
    const ls_shape x = any_shape(&random, (int32_t)(1 + round % 4), false);
    const int32_t axis = any_axis(&random, x);
    ls_shape to = x;
    to.dim[axis] = loop_random_between(&random, 0, round % 5 == 0 ? 400 : 9);
    loop_case c = {.op = LS_OP_TAKE_ALONG, .out = {dtype, to}};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    const void *data = loop_case_add(&c, (ls_type){dtype, x}, 0, 99, &random);
    const void *indices =
        loop_case_add(&c, (ls_type){index, to}, -3, 12, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(to, i, at);
      at[axis] = clamped(loop_read(index, indices, i), x.dim[axis] - 1);
      loop_expect(&c, got, i, loop_read(dtype, data, element_of(x, at)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void add_along_adds_in_the_order_of_indices(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 200; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const ls_dtype index = any_index(&random, true);
    const ls_shape x =
        any_shape(&random, (int32_t)(1 + round % 4), round % 9 == 0);
    const int32_t axis = any_axis(&random, x);
    ls_shape from = x;
    from.dim[axis] = loop_random_between(&random, 0, round % 5 == 0 ? 400 : 9);
    loop_case c = {.op = LS_OP_ADD_ALONG, .out = {dtype, x}};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    const void *data = loop_case_add(&c, (ls_type){dtype, x}, 1, 9, &random);
    const void *indices =
        loop_case_add(&c, (ls_type){index, from}, -3, 12, &random);
    const void *u = loop_case_add(&c, (ls_type){dtype, from}, 1, 3, &random);
    void *got = loop_case_run(&c);
    const int64_t count = ls_shape_num_elements(x);
    double *want = calloc((size_t)count + 1, sizeof(*want));
    for (int64_t i = 0; i < count; ++i)
      want[i] = loop_read(dtype, data, i);
    for (int64_t i = 0; i < ls_shape_num_elements(from); ++i) {
      int64_t at[LS_MAX_RANK];
      const double row = loop_read(index, indices, i);
      if (row < 0 || row >= (double)x.dim[axis]) continue;
      indices_of(from, i, at);
      at[axis] = (int64_t)row;
      double *to = &want[element_of(x, at)];
      *to = stored(dtype, *to + loop_read(dtype, u, i));
    }
    for (int64_t i = 0; i < count; ++i)
      loop_expect(&c, got, i, want[i], 0);
    free(want);
    free(got);
    loop_case_deinit(&c);
  }
}

// ---- Clamp -----------------------------------------------------------------
static void clamp_keeps_between_scalars_or_elements(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 120; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const ls_shape shape = any_shape(&random, (int32_t)(round % 3), true);
    const ls_shape low = round / 3 % 2 == 0 ? LS_SCALAR : shape;
    const ls_shape high = round / 6 % 2 == 0 ? LS_SCALAR : shape;
    loop_case c = {.op = LS_OP_CLAMP, .out = {dtype, shape}};
    const void *l = loop_case_add(&c, (ls_type){dtype, low}, 2, 8, &random);
    const void *x = loop_case_add(&c, (ls_type){dtype, shape}, 0, 16, &random);
    const void *h = loop_case_add(&c, (ls_type){dtype, high}, 6, 13, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i)
      loop_expect(&c, got, i,
                  fmin(fmax(loop_read(dtype, x, i),
                            loop_read(dtype, l, low.rank == 0 ? 0 : i)),
                       loop_read(dtype, h, high.rank == 0 ? 0 : i)),
                  0);
    free(got);
    loop_case_deinit(&c);
  }
}

static void clamp_of_nan_is_nan(void **state) {
  (void)state;
  for (int at = 0; at < 3; ++at) {
    loop_case c = {.op = LS_OP_CLAMP, .out = {LS_DTYPE_F32, LS_SHAPE(1)}};
    for (int i = 0; i < 3; ++i) {
      float *x =
          loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(1)}, NULL);
      x[0] = i == at ? NAN : (float)i;
    }
    float *got = loop_case_run(&c);
    assert_true(isnan(got[0]));
    free(got);
    loop_case_deinit(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slice_takes_every_stride_th_element),
      cmocka_unit_test(reverse_turns_its_axes_around),
      cmocka_unit_test(dynamic_slice_clamps_its_starts),
      cmocka_unit_test(dynamic_update_slice_replaces_a_part),
      cmocka_unit_test(pad_puts_a_value_around_between_and_cuts),
      cmocka_unit_test(concatenate_joins_any_number_of_values),
      cmocka_unit_test(gather_clamps_indices),
      cmocka_unit_test(the_largest_u64_is_the_last_index),
      cmocka_unit_test(an_axis_without_elements_has_none_to_gather),
      cmocka_unit_test(scatter_applies_updates_in_the_order_of_indices),
      cmocka_unit_test(a_scatter_of_bools_only_updates),
      cmocka_unit_test(take_along_looks_up_each_line),
      cmocka_unit_test(add_along_adds_in_the_order_of_indices),
      cmocka_unit_test(clamp_keeps_between_scalars_or_elements),
      cmocka_unit_test(clamp_of_nan_is_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

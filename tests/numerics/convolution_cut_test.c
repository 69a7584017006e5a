// SPDX-License-Identifier: Apache-2.0
//
// A convolution and its input's gradient give an image the bits it has alone,
// directly and by Winograd: a batch can be cut anywhere. The weights' gradient
// is a sum over the batch: its cut is a function of the shapes, never of the
// threads, the instruction set or the data.
#include "support/attrs.h"
#include "support/expect.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- Cases -----------------------------------------------------------------
typedef struct conv {
  const char *name;
  int64_t side, in, out, taps, stride;
  bool fast;  // By Winograd where it fits: 3 by 3 taps, 16 channels or more.
} conv;

static const conv convs[] = {
    {"an input layer", 14, 3, 16, 3, 1, false},
    {"3 by 3", 11, 16, 20, 3, 1, false},
    {"strided", 12, 8, 16, 3, 2, false},
    {"a projection", 12, 16, 8, 1, 2, false},
    {"1 by 1", 9, 20, 12, 1, 1, false},
    {"5 by 5", 13, 4, 6, 5, 1, false},
    {"Winograd", 14, 16, 32, 3, 1, true},
    {"Winograd, cut tiles", 13, 32, 16, 3, 1, true},
    {"Winograd, cut channels", 5, 65, 66, 3, 1, true},
};

typedef enum way { FORWARD, GRAD_INPUT, GRAD_WEIGHTS } way;
enum { IMAGES = LS_SANITIZED ? 5 : 7 };

static ls_type input_of(const conv *c, int64_t images) {
  return (ls_type){LS_DTYPE_F32, LS_SHAPE(images, c->side, c->side, c->in)};
}
static ls_type output_of(const conv *c, int64_t images) {
  const int64_t side = (c->side + c->stride - 1) / c->stride;
  return (ls_type){LS_DTYPE_F32, LS_SHAPE(images, side, side, c->out)};
}
static ls_type weights_of(const conv *c) {
  return (ls_type){LS_DTYPE_F32, LS_SHAPE(c->taps, c->taps, c->in, c->out)};
}
static size_t count_of(ls_type type) {
  return (size_t)ls_shape_num_elements(type.shape);
}

// What all images of a case are; a part of them is a batch.
typedef struct data {
  float *x, *y, *w;
} data;

static data make_data(const conv *c, int64_t images, loop_random *random) {
  data d = {malloc(count_of(input_of(c, images)) * sizeof(float)),
            malloc(count_of(output_of(c, images)) * sizeof(float)),
            malloc(count_of(weights_of(c)) * sizeof(float))};
  numbers_fill(LS_DTYPE_F32, d.x, count_of(input_of(c, images)), NUMBERS_SMALL,
               random);
  numbers_fill(LS_DTYPE_F32, d.y, count_of(output_of(c, images)), NUMBERS_SMALL,
               random);
  numbers_fill(LS_DTYPE_F32, d.w, count_of(weights_of(c)), NUMBERS_SMALL,
               random);
  return d;
}

static void free_data(data *d) {
  free(d->x);
  free(d->y);
  free(d->w);
}
LS_OWNED_STRUCT(data, free_data)

// Runs images [first, first + count) in one way; the caller frees the result.
// Both kinds of gradient and the product run whole, block by block and in
// ragged ranges inside.
static float *run(const conv *c, way how, const data *d, int64_t first,
                  int64_t count, const char *table, int64_t *out_blocks) {
  static const uint16_t ops[] = {LS_OP_CONVOLUTION, LS_OP_CONV_GRAD_INPUT,
                                 LS_OP_CONV_GRAD_WEIGHTS};
  static const int64_t one[] = {1, 1};
  const int64_t strides[] = {c->stride, c->stride};
  const ls_type x = input_of(c, count), y = output_of(c, count);
  const float *x_data = d->x + (size_t)first * count_of(input_of(c, 1));
  const float *y_data = d->y + (size_t)first * count_of(output_of(c, 1));
  LS_OWN(loop_case, run) = {.op = ops[how],
                            .out = how == FORWARD      ? y
                                   : how == GRAD_INPUT ? x
                                                       : weights_of(c),
                            .kernels = table,
                            .fast = c->fast};
  loop_case_attr(&run, LS_ATTR_IS("strides", strides, 2U));
  loop_case_attr(&run, LS_ATTR_IS("dilations", one, 2U));
  loop_case_attr(&run, LS_ATTR_B("same", true));
  if (how == GRAD_INPUT)
    loop_case_add_copy(&run, y, y_data);
  else
    loop_case_add_copy(&run, x, x_data);
  if (how == GRAD_WEIGHTS)
    loop_case_add_copy(&run, y, y_data);
  else
    loop_case_add_copy(&run, weights_of(c), d->w);
  float *got = loop_case_run(&run);
  *out_blocks = run.blocks;
  return got;
}

// ---- Cuts of the batch -----------------------------------------------------
static void expect_any_cut(const conv *c, way how, const data *d) {
  const ls_type type = how == FORWARD ? output_of(c, 1) : input_of(c, 1);
  int64_t blocks = 0;
  HEAP(float, whole) = run(c, how, d, 0, IMAGES, NULL, &blocks);
  for (int64_t size = 1; size < IMAGES; size += size)
    for (int64_t first = 0; first < IMAGES; first += size) {
      const int64_t count = first + size < IMAGES ? size : IMAGES - first;
      HEAP(float, part) = run(c, how, d, first, count, NULL, &blocks);
      expect_same_numbers(c->name, how == FORWARD ? "forward" : "backward",
                          LS_DTYPE_F32, whole + (size_t)first * count_of(type),
                          part, (size_t)count * count_of(type));
    }
}

TEST(an_image_has_the_bits_it_has_alone) {
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < LS_COUNT_OF(convs); ++i) {
    LS_OWN(data, d) = make_data(&convs[i], IMAGES, &random);
    expect_any_cut(&convs[i], FORWARD, &d);
    expect_any_cut(&convs[i], GRAD_INPUT, &d);
  }
}

// ---- Cuts of the work ------------------------------------------------------
TEST(the_cut_is_a_function_of_the_shapes) {
  loop_random random = {loop_random_seed()};
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < LS_COUNT_OF(convs); ++i) {
    const conv *c = &convs[i];
    LS_OWN(data, d) = make_data(c, IMAGES, &random);
    for (way how = FORWARD; how <= GRAD_WEIGHTS; ++how) {
      int64_t want_blocks = 0, blocks = 0;
      HEAP(float, want) =
          run(c, how, &d, 0, IMAGES, tables.at[0]->name, &want_blocks);
      const size_t count = how == FORWARD      ? count_of(output_of(c, IMAGES))
                           : how == GRAD_INPUT ? count_of(input_of(c, IMAGES))
                                               : count_of(weights_of(c));
      for (size_t t = 1; t < tables.count; ++t) {
        HEAP(float, got) =
            run(c, how, &d, 0, IMAGES, tables.at[t]->name, &blocks);
        assert_int_equal(blocks, want_blocks);
        expect_same_numbers(c->name, tables.at[t]->name, LS_DTYPE_F32, want,
                            got, count);
      }
    }
  }
}

// Enough tiles for the gradient of Winograd's algorithm: several parts.
TEST(winograds_weights_are_summed_alike_everywhere) {
  const conv c = {"Winograd's weights", 16, 16, 32, 3, 1, true};
  enum { MANY = 12 };
  loop_random random = {loop_random_seed()};
  const kernel_tables tables = kernel_tables_find();
  LS_OWN(data, d) = make_data(&c, MANY, &random);
  HEAP(float, want) = NULL;
  int64_t blocks = 0;
  for (size_t t = 0; t < tables.count; ++t) {
    float *got =
        run(&c, GRAD_WEIGHTS, &d, 0, MANY, tables.at[t]->name, &blocks);
    if (t == 0) {
      want = got;
      continue;
    }
    expect_same_numbers(c.name, tables.at[t]->name, LS_DTYPE_F32, want, got,
                        count_of(weights_of(&c)));
    free(got);
  }
  // It is another sum than over the taps.
  conv direct = c;
  direct.fast = false;
  HEAP(float, taps) = run(&direct, GRAD_WEIGHTS, &d, 0, MANY, NULL, &blocks);
  assert_memory_not_equal(taps, want, count_of(weights_of(&c)) * sizeof(float));
}

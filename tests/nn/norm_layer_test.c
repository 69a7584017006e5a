// SPDX-License-Identifier: Apache-2.0
// Layers that normalize, against plain C.
#include <math.h>

#include "base/memory/own.h"
#include "lockstep/layers.h"
#include "support/values.h"

LS_OWNED_POINTER(ls_norm_layer, ls_norm_layer_destroy)

enum { ROWS = 3, PLACES = 4, CHANNELS = 6, ALL = ROWS * PLACES * CHANNELS };

// ---- By example ------------------------------------------------------------
// (x - mean) / sqrt(variance + epsilon) over the elements that `same` puts with
// element i.
static double normalized(const double *x, int i, bool (*same)(int i, int k)) {
  double sum = 0, squares = 0;
  int count = 0;
  for (int k = 0; k < ALL; ++k) {
    if (!same(i, k)) continue;
    sum += x[k];
    squares += x[k] * x[k];
    ++count;
  }
  const double mean = sum / count;
  return (x[i] - mean) / sqrt(squares / count - mean * mean + 1e-5);
}

static bool same_row(int i, int k) { return i / CHANNELS == k / CHANNELS; }

static bool same_group(int i, int k) {
  return i / (PLACES * CHANNELS) == k / (PLACES * CHANNELS) &&
         i % CHANNELS / 3 == k % CHANNELS / 3;
}

static double root_mean_square(const double *x, int i) {
  double squares = 0;
  for (int k = 0; k < CHANNELS; ++k) {
    const double value = x[i / CHANNELS * CHANNELS + k];
    squares += value * value;
  }
  return x[i] / sqrt(squares / CHANNELS + 1e-5);
}

static double plain_norm(ls_norm_kind kind, const double *x, int i) {
  if (kind == LS_NORM_RMS) return root_mean_square(x, i);
  return normalized(x, i, kind == LS_NORM_LAYER ? same_row : same_group);
}

TEST(layers_normalize_as_plain_c_does) {
  double x[ALL], scale[CHANNELS], offset[CHANNELS], wanted[ALL];
  fill_numbers(x, ALL, 1);
  fill_numbers(scale, CHANNELS, 2);
  fill_numbers(offset, CHANNELS, 3);
  for (ls_norm_kind kind = LS_NORM_LAYER; kind <= LS_NORM_GROUP; ++kind) {
    LS_OWN(ls_norm_layer, layer) = NULL;
    expect_ok(ls_norm_layer_create(&(ls_norm_options){.kind = kind,
                                                      .channels = CHANNELS,
                                                      .groups = 2,
                                                      .dtype = LS_DTYPE_F64},
                                   &layer));
    ls_variable *variables[2] = {NULL};
    const size_t count = ls_norm_layer_variables(layer, variables, 2);
    assert_int_equal(count, kind == LS_NORM_RMS ? 1 : 2);
    assert_string_equal(ls_variable_name(variables[0]), "norm/scale");
    set_variable(variables[0], scale);
    if (count == 2) set_variable(variables[1], offset);
    for (int i = 0; i < ALL; ++i) {
      wanted[i] = plain_norm(kind, x, i) * scale[i % CHANNELS];
      if (count == 2) wanted[i] += offset[i % CHANNELS];
    }
    expect_ok(ls_frame_begin());
    expect_tensor(
        ls_norm_layer_apply(
            layer, eager_of(LS_DTYPE_F64, LS_SHAPE(ROWS, PLACES, CHANNELS), x)),
        wanted, ALL, 1e-10);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(a_layer_can_do_without_scale_and_offset) {
  double x[ALL], wanted[ALL];
  fill_numbers(x, ALL, 1);
  LS_OWN(ls_norm_layer, layer) = NULL;
  expect_ok(ls_norm_layer_create(&(ls_norm_options){.channels = CHANNELS,
                                                    .no_scale = true,
                                                    .no_offset = true,
                                                    .dtype = LS_DTYPE_F64},
                                 &layer));
  assert_int_equal(ls_norm_layer_variables(layer, NULL, 0), 0);
  for (int i = 0; i < ALL; ++i)
    wanted[i] = normalized(x, i, same_row);
  expect_ok(ls_frame_begin());
  expect_tensor(
      ls_norm_layer_apply(
          layer, eager_of(LS_DTYPE_F64, LS_SHAPE(ROWS, PLACES, CHANNELS), x)),
      wanted, ALL, 1e-10);
  expect_ok(ls_frame_end(NULL));
}

// Its mean is itself, and its root mean square what it is without a sign.
TEST(one_channel_is_enough) {
  static const double x[] = {3, -5}, wanted[][2] = {{0, 0}, {1, -1}};
  for (ls_norm_kind kind = LS_NORM_LAYER; kind <= LS_NORM_RMS; ++kind) {
    LS_OWN(ls_norm_layer, layer) = NULL;
    expect_ok(ls_norm_layer_create(
        &(ls_norm_options){.kind = kind, .channels = 1, .dtype = LS_DTYPE_F64},
        &layer));
    expect_ok(ls_frame_begin());
    expect_tensor(
        ls_norm_layer_apply(layer, eager_of(LS_DTYPE_F64, LS_SHAPE(2, 1), x)),
        wanted[kind], 2, 1e-5);
    expect_ok(ls_frame_end(NULL));
  }
}

static ls_nest cubes_of_norm(ls_nest args, void *user) {
  const ls_tensor y = ls_norm_layer_apply(user, ls_nest_tensor(args, 0));
  return ls_leaf(ls_reduce_sum(ls_mul(y, ls_square(y)), LS_ALL_AXES));
}

TEST(gradients_flow_to_scale_and_offset) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(
      array_of_numbers(LS_DTYPE_F64, LS_SHAPE(ROWS, PLACES, CHANNELS), 4)));
  for (ls_norm_kind kind = LS_NORM_LAYER; kind <= LS_NORM_GROUP; ++kind) {
    LS_OWN(ls_norm_layer, layer) = NULL;
    expect_ok(ls_norm_layer_create(&(ls_norm_options){.kind = kind,
                                                      .channels = CHANNELS,
                                                      .groups = 2,
                                                      .dtype = LS_DTYPE_F64},
                                   &layer));
    ls_variable *variables[2] = {NULL};
    const size_t count = ls_norm_layer_variables(layer, variables, 2);
    expect_variable_gradients(cubes_of_norm, layer, args, variables, count,
                              1e-6);
  }
}

TEST(layers_that_cannot_be_are_refused) {
  const struct {
    ls_norm_options options;
    const char *part;
  } rows[] = {
      {{.name = "n"}, "norm 'n' needs at least one channel"},
      {{.kind = LS_NORM_GROUP, .channels = 6, .groups = 4},
       "4 groups cannot share 6 channels"},
      {{.kind = LS_NORM_GROUP, .channels = 6}, "0 groups cannot share"},
      {{.channels = 1, .epsilon = -1}, "an epsilon above 0"},
      {{.kind = (ls_norm_kind)5, .channels = 1}, "there is no kind 5"},
      {{.channels = 1, .dtype = LS_DTYPE_BF16}, "also for 16-bit x"},
      {{.kind = LS_NORM_RMS, .channels = 1, .dtype = LS_DTYPE_F16},
       "not of f16"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    ls_norm_layer *layer = NULL;
    expect_status(ls_norm_layer_create(&rows[i].options, &layer),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(layer);
  }
}

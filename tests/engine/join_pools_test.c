// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and the maxima of windows behind them, as one op each way:
// against the same in f64, where they stay apart; which ones fit; what is left
// out; the same bytes on every instruction set and whatever is fetched.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/lowered.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/values.h"

// ---- A convolution and its maxima ------------------------------------------
typedef struct net {
  int64_t images, height, width, in, out, taps;
  ls_convolution_options how;
  ls_window_options windows;  // Of 2 by 2.
  bool bias, relu;
  bool after_relu;  // x is one's result.
  bool fetches_y;
  bool forward;  // No gradients.
  ls_dtype dtype;
  // Where it runs.
  ls_math math;
  const char *isa;
  // Instead of random numbers, if not NULL.
  void (*edit)(ls_array *x, ls_array *w, ls_array *by);
} net;

#define SAME .how = {.padding = LS_PADDING_SAME}
#define SHAPE(n, h, w, i, o)                                                   \
  .images = n, .height = h, .width = w, .in = i, .out = o, .taps = 3
#define PLAIN SHAPE(2, 8, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32

// Values in this order; those that are not asked for have none.
enum { TOP, DX, DW, DB, Y, VALUES };
enum { X, W, BIAS, BY, ARGS };

static ls_tensor convolve(const net *self, ls_nest args) {
  ls_tensor x = ls_nest_tensor(args, X);
  const ls_tensor w = ls_nest_tensor(args, W);
  if (self->after_relu) x = ls_relu(x);
  if (!self->bias && !self->relu) return ls_convolution(x, w, &self->how);
  return ls_conv_bias_act(x, w, ls_nest_tensor(args, BIAS),
                          self->relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
                          &self->how);
}

static ls_nest call_net(ls_nest args, void *user) {
  const net *self = user;
  const ls_tensor y = convolve(self, args);
  const ls_tensor top = ls_max_pool(y, LS_SHAPE(2, 2), &self->windows);
  const ls_tensor last = self->fetches_y ? y : top;
  if (self->forward) return LS_TUPLE(ls_leaf(top), ls_leaf(last));
  const ls_tensor square = ls_mul(ls_square(top), ls_nest_tensor(args, BY));
  const ls_nest loss = ls_leaf(ls_reduce_sum(square, LS_ALL_AXES));
  const ls_nest of[] = {ls_leaf(ls_nest_tensor(args, X)),
                        ls_leaf(ls_nest_tensor(args, W)),
                        ls_leaf(ls_nest_tensor(args, BIAS))};
  const ls_gradient_options zeros = {.unconnected_zero = true};
  ls_nest d[3] = {0};
  expect_ok(ls_gradients(&loss, 1, of, 3, &zeros, d));
  return LS_TUPLE(ls_leaf(top), d[0], d[1], d[2], ls_leaf(last));
}

// What came out, and the text of what ran.
typedef struct outcome {
  double *values[VALUES];
  size_t counts[VALUES];
  char *text;
} outcome;

static const char *environment_of(void *user, const char *name) {
  const net *self = user;
  if (self->isa != NULL && strcmp(name, "LS_ISA") == 0) return self->isa;
  return getenv(name);
}

static void keep(outcome *out, size_t at, const ls_array *array) {
  const size_t count = (size_t)ls_array_num_elements(array);
  out->counts[at] = count;
  out->values[at] = malloc((count + 1) * sizeof(double));
  for (size_t i = 0; i < count; ++i)
    out->values[at][i] = ls_array_f64(array, (int64_t)i);
}

static void call(const net *self, outcome *out) {
  const int64_t n = self->images, k = self->taps;
  ls_array *arrays[ARGS] = {
      array_of_numbers(self->dtype,
                       LS_SHAPE(n, self->height, self->width, self->in), 3),
      array_of_numbers(self->dtype, LS_SHAPE(k, k, self->in, self->out), 4),
      array_of_numbers(self->dtype, LS_SHAPE(self->out), 5),
      array_of_numbers(self->dtype, LS_SHAPE(self->out), 6)};
  if (self->edit != NULL) self->edit(arrays[X], arrays[W], arrays[BY]);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(arrays[X]), ls_nest_array(arrays[W]),
               ls_nest_array(arrays[BIAS]), ls_nest_array(arrays[BY]));
  LS_OWN(ls_function, function) =
      unnamed_function(call_net, (void *)(uintptr_t)self);
  LS_OWN(ls_nest, result) = call_results(function, args);
  *out = (outcome){.text = NULL};
  for (size_t i = 0; i < ls_nest_count(result); ++i)
    keep(out, i, ls_nest_as_array(ls_nest_item(result, i)));
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_function_print_lowered(function, &text));
  out->text = strdup(text);
}

static void run(const net *self, outcome *out) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.math = self->math,
                           .environment = environment_of,
                           .environment_user = (void *)(uintptr_t)self});
  call(self, out);
}

static void outcome_deinit(outcome *out) {
  for (size_t i = 0; i < VALUES; ++i)
    free(out->values[i]);
  free(out->text);
}
LS_OWNED_STRUCT(outcome, outcome_deinit)

static bool has(const outcome *out, const char *op) {
  char call_of[64];
  snprintf(call_of, sizeof(call_of), " %s(", op);
  return strstr(out->text, call_of) != NULL;
}

static void expect_same_values(const outcome *a, const outcome *b,
                               size_t count) {
  for (size_t i = 0; i < count; ++i) {
    assert_int_equal(a->counts[i], b->counts[i]);
    assert_memory_equal(a->values[i], b->values[i],
                        a->counts[i] * sizeof(double));
  }
}

// ---- Numbers ---------------------------------------------------------------
// Lines of fewer and more windows than are sorted at once, slices and blocks
// that are cut off, padding on every side, images that are cut, more groups of
// lines than one, heights and widths that are odd.
static const net nets[] = {
    {PLAIN, .relu = true},
    {PLAIN, .bias = true, .after_relu = true},
    {PLAIN},
    {SHAPE(2, 22, 24, 48, 80), .dtype = LS_DTYPE_F32, .relu = true},
    {SHAPE(1, 42, 40, 32, 48), SAME, .dtype = LS_DTYPE_F32, .bias = true},
    {SHAPE(17, 4, 2, 16, 32), .dtype = LS_DTYPE_F32, .relu = true,
     .how = {.low = LS_SHAPE(3, 2), .high = LS_SHAPE(1, 2)}},
    {SHAPE(3, 4, 4, 16, 16), .dtype = LS_DTYPE_F32, .after_relu = true},
    {SHAPE(3, 13, 15, 16, 32), .dtype = LS_DTYPE_F32, .relu = true,
     .after_relu = true},
    {SHAPE(2, 9, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32, .fetches_y = true},
    {SHAPE(2, 8, 7, 16, 16), SAME, .dtype = LS_DTYPE_F32},
    {SHAPE(1, 10, 300, 16, 16), SAME, .dtype = LS_DTYPE_F32, .relu = true},
};

// Of the largest number, in units of its last place.
static const double errors[] = {[LS_MATH_FAST] = 200,
                                [LS_MATH_DIRECT] = 20,
                                [LS_MATH_BF16] = 1 << 20,
                                [LS_MATH_BF16_DIRECT] = 1 << 17};

// Numbers that bf16 holds, and f32 the results: maxima stand where they should.
static void round_numbers(ls_array *x, ls_array *w, ls_array *by) {
  ls_array *const all[] = {x, w, by};
  for (size_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < ls_array_num_elements(all[i]); ++k)
      ls_array_set_f64(all[i], k, rint(ls_array_f64(all[i], k) * 8) / 8);
}

static void expect_near_f64(const net *self, size_t count) {
  net exact = *self;
  exact.dtype = LS_DTYPE_F64;
  LS_OWN(outcome, got) = {0};
  LS_OWN(outcome, want) = {0};
  run(self, &got);
  run(&exact, &want);
  assert_true(has(&got, self->fetches_y ? "pool_max" : "conv_pool_max"));
  assert_true(has(&got, "conv_pool_grad_input"));
  assert_true(has(&got, "conv_pool_grad_weights"));
  assert_false(has(&got, "reduce_window") || has(&got, "window_max_grad"));
  assert_true(self->relu || !has(&got, "relu_grad"));
  assert_null(strstr(want.text, "pool"));
  for (size_t i = 0; i < count; ++i) {
    double largest = 0;
    for (size_t k = 0; k < want.counts[i]; ++k)
      largest = fmax(largest, fabs(want.values[i][k]));
    assert_int_equal(got.counts[i], want.counts[i]);
    for (size_t k = 0; k < want.counts[i]; ++k)
      if (!(fabs(got.values[i][k] - want.values[i][k]) <=
            errors[self->math] * 0x1p-24 * largest))
        fail_msg("value %zu, element %zu: %g, wanted %g", i, k,
                 got.values[i][k], want.values[i][k]);
  }
}

TEST(joined_they_are_what_they_are_apart) {
  for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); ++i)
    for (ls_math math = LS_MATH_FAST; math <= LS_MATH_BF16_DIRECT; ++math) {
      if (LS_SANITIZED && math % 2 != i % 2) continue;
      net self = nets[i];
      self.math = math;
      if (math == LS_MATH_BF16_DIRECT) self.edit = round_numbers;
      // Winograd's error is large enough there for maxima to move.
      expect_near_f64(&self, math == LS_MATH_BF16 ? TOP + 1 : VALUES);
    }
}

TEST(every_instruction_set_gives_the_same_bytes) {
  static const char *const sets[] = {"base", "v3", "v4"};
  static const net small[] = {
      {PLAIN, .relu = true, .after_relu = true},
      {SHAPE(1, 10, 12, 48, 80), .dtype = LS_DTYPE_F32, .bias = true}};
  enum { MATHS = LS_MATH_BF16_DIRECT + 1 };
  for (size_t k = 0; k < 2 * MATHS; k += LS_SANITIZED ? 3 : 1) {
    LS_OWN(outcome, first) = {0};
    outcome next;
    for (size_t i = 0; i < 3; ++i) {
      net self = small[k / MATHS];
      self.math = (ls_math)(k % MATHS);
      self.isa = sets[i];
      run(&self, i == 0 ? &first : &next);
      if (i == 0) continue;
      expect_same_values(&first, &next, VALUES);
      outcome_deinit(&next);
    }
  }
}

TEST(who_else_wants_the_result_gets_it_and_bytes_stay) {
  for (ls_math math = LS_MATH_FAST; math <= LS_MATH_DIRECT; ++math) {
    net self = {PLAIN, .relu = true, .math = math};
    LS_OWN(outcome, joined) = {0};
    LS_OWN(outcome, apart) = {0};
    run(&self, &joined);
    self.fetches_y = true;
    run(&self, &apart);
    assert_true(has(&apart, "conv_bias_act") && has(&apart, "pool_max"));
    assert_true(has(&apart, "conv_pool_grad_input"));
    assert_true(has(&apart, "conv_pool_grad_weights"));
    assert_false(has(&apart, "conv_pool_max"));
    expect_same_values(&joined, &apart, Y);
  }
}

TEST(forward_alone_is_joined_too) {
  net self = {PLAIN, .relu = true, .forward = true};
  LS_OWN(outcome, joined) = {0};
  LS_OWN(outcome, apart) = {0};
  run(&self, &joined);
  assert_true(has(&joined, "conv_pool_max"));
  self.fetches_y = true;
  run(&self, &apart);
  assert_true(has(&apart, "reduce_window"));
  assert_false(has(&apart, "conv_pool_max"));
  expect_same_values(&joined, &apart, 1);
}

// ---- What does not fit -----------------------------------------------------
TEST(what_does_not_fit_stays_as_it_is) {
  static const net odd[] = {
      {SHAPE(2, 8, 8, 8, 16), SAME, .dtype = LS_DTYPE_F32},
      {SHAPE(2, 8, 8, 16, 24), SAME, .dtype = LS_DTYPE_F32},
      {SHAPE(2, 9, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32,
       .windows = {.padding = LS_PADDING_SAME, .strides = LS_SHAPE(2, 2)}},
      {SHAPE(0, 8, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32},
      {SHAPE(2, 8, 8, 16, 16), SAME, .dtype = LS_DTYPE_BF16},
      {.images = 2,
       .height = 8,
       .width = 8,
       .in = 16,
       .out = 16,
       .taps = 5,
       SAME,
       .dtype = LS_DTYPE_F32},
      {SHAPE(2, 8, 8, 16, 16), .dtype = LS_DTYPE_F32,
       .how = {.padding = LS_PADDING_SAME, .strides = LS_SHAPE(2, 2)}},
      {SHAPE(2, 10, 10, 16, 16), .dtype = LS_DTYPE_F32,
       .how = {.dilations = LS_SHAPE(2, 2)}},
      {SHAPE(2, 8, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32,
       .windows = {.strides = LS_SHAPE(1, 1)}},
      {SHAPE(2, 8, 8, 16, 16), SAME, .dtype = LS_DTYPE_F32,
       .windows = {.strides = LS_SHAPE(2, 2),
                   .low = LS_SHAPE(1, 1),
                   .high = LS_SHAPE(1, 1)}},
  };
  for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); ++i) {
    LS_OWN(outcome, out) = {0};
    run(&odd[i], &out);
    if (strstr(out.text, "pool") != NULL) fail_msg("net %zu is joined", i);
  }
}

// ---- Places ----------------------------------------------------------------
// A convolution that gives x itself, of which many numbers are equal.
static void give_x(ls_array *x, ls_array *w, ls_array *by) {
  (void)by;
  for (int64_t i = 0; i < ls_array_num_elements(x); ++i)
    ls_array_set_f64(x, i, (double)(i * 7919 % 5) - 2);
  for (int64_t i = 0; i < ls_array_num_elements(w); ++i)
    ls_array_set_f64(w, i, i / (16 * 16) == 4 && i / 16 % 16 == i % 16);
}

// So dx is the maxima's gradient, at their places.
TEST(the_first_of_equal_maxima_counts) {
  net self = {PLAIN, .edit = give_x, .math = LS_MATH_DIRECT};
  LS_OWN(outcome, got) = {0};
  LS_OWN(outcome, want) = {0};
  run(&self, &got);
  self.dtype = LS_DTYPE_F64;
  run(&self, &want);
  assert_true(has(&got, "conv_pool_grad_input"));
  for (size_t i = 0; i < want.counts[DX]; ++i) {
    assert_true((got.values[DX][i] != 0) == (want.values[DX][i] != 0));
    assert_true(fabs(got.values[DX][i] - want.values[DX][i]) < 1e-5);
  }
}

static void give_nan(ls_array *x, ls_array *w, ls_array *by) {
  give_x(x, w, by);
  ls_array_set_f64(x, 16, (double)NAN);  // Places 1 and 2 of window 0.
  ls_array_set_f64(x, 8 * 16, (double)NAN);
}

TEST(a_nan_is_a_maximum_and_the_first_one_counts) {
  net self = {SHAPE(1, 8, 8, 16, 16), .dtype = LS_DTYPE_F32,
              .edit = give_nan,       .how = {.padding = LS_PADDING_SAME},
              .forward = true,        .math = LS_MATH_DIRECT};
  LS_OWN(outcome, got) = {0};
  run(&self, &got);
  assert_true(has(&got, "conv_pool_max"));
  // The taps beside the middle are zeros, which a NaN does meet forward.
  for (size_t i = 0; i < got.counts[TOP]; ++i) {
    const size_t x = i / 16 % 4, y = i / 64;
    assert_true(isnan(got.values[TOP][i]) == (x + y < 2));
  }
}

// ---- What is left out ------------------------------------------------------
// What is 0 of the result's gradient is left out, but beside what is not finite
// it counts.
static void make_positive(ls_array *array) {
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, 1 + fabs(ls_array_f64(array, i)));
}

// Weights that make an output channel 0, so that no gradient comes from it.
static void give_infinity(ls_array *x, ls_array *w, ls_array *by) {
  (void)by;
  make_positive(x);
  for (int64_t i = 0; i < ls_array_num_elements(w); i += 16)
    ls_array_set_f64(w, i, -(double)INFINITY);
}

// One tap of one input channel alone.
static void give_one_infinity(ls_array *x, ls_array *w, ls_array *by) {
  (void)by;
  make_positive(x);
  ls_array_set_f64(w, 3 * 16, -(double)INFINITY);
}

// In the input: two values, and those of the last line and column.
static void give_infinite_x(ls_array *x, ls_array *w, ls_array *by) {
  (void)by;
  make_positive(w);
  for (int64_t i = 0; i < ls_array_num_elements(w); ++i)
    if (i % 3 != 0) ls_array_set_f64(w, i, -ls_array_f64(w, i));
  const int64_t last = ls_array_num_elements(x) - 1;
  ls_array_set_f64(x, 40 * 16 + 5, (double)INFINITY);
  ls_array_set_f64(x, last, (double)INFINITY);
}

static void expect_same_kinds(const outcome *got, const outcome *want,
                              size_t at) {
  assert_int_equal(got->counts[at], want->counts[at]);
  for (size_t i = 0; i < got->counts[at]; ++i) {
    assert_int_equal(isnan(got->values[at][i]), isnan(want->values[at][i]));
    assert_int_equal(isfinite(got->values[at][i]),
                     isfinite(want->values[at][i]));
  }
}

static bool any_nan(const outcome *o, size_t at) {
  for (size_t i = 0; i < o->counts[at]; ++i)
    if (isnan(o->values[at][i])) return true;
  return false;
}

TEST(what_is_not_finite_meets_zeros) {
  static const ls_math direct[] = {LS_MATH_DIRECT, LS_MATH_BF16_DIRECT};
  void (*const edits[])(ls_array *, ls_array *, ls_array *) = {
      give_infinity, give_one_infinity, give_infinite_x};
  for (int i = 0; i < 24; ++i) {
    net self = {SHAPE(2, 10, 10, 16, 16),
                .dtype = LS_DTYPE_F32,
                .relu = true,
                .math = direct[i % 2],
                .edit = edits[i / 8],
                .after_relu = i / 2 % 2 == 1};
    if (i / 4 % 2 == 1) {
      self.how.padding = LS_PADDING_SAME;
      self.height = 9;  // Its last line is in no window, nor its last column.
      self.width = 11;
    }
    LS_OWN(outcome, joined) = {0};
    LS_OWN(outcome, apart) = {0};
    run(&self, &joined);
    self.dtype = LS_DTYPE_F64;
    run(&self, &apart);
    assert_true(has(&joined, "conv_pool_grad_input"));
    assert_true(any_nan(&apart, i / 8 == 2 ? DW : DX));
    expect_same_kinds(&joined, &apart, DX);
    expect_same_kinds(&joined, &apart, DW);
  }
}

// By hand a lowered graph can have what the pass leaves alone.
TEST(other_channels_are_refused) {
  static const struct {
    const char *text, *message;
  } rows[] = {
      {"graph lowered \"g\" {\n"
       "  %1 = parameter() {dtype = f32, shape = shape[2,8,6,8], index = 0} : "
       "f32[2,8,6,8]\n"
       "  %2:2 = pool_max(%1) : f32[2,4,3,8], u8[2,4,3,8]\n"
       "  return %2:0\n"
       "}\n",
       "pool_max of channels in multiples of 16 only, not of 8"},
      {"graph lowered \"g\" {\n"
       "  %1 = parameter() {dtype = f32, shape = shape[2,8,6,16], index = 0} : "
       "f32[2,8,6,16]\n"
       "  %2 = parameter() {dtype = f32, shape = shape[3,3,16,24], index = 1} "
       ": f32[3,3,16,24]\n"
       "  %3:2 = conv_pool_max(%1, %2) : f32[2,3,2,24], u8[2,3,2,24]\n"
       "  return %3:0\n"
       "}\n",
       "conv_pool_max of channels in multiples of 16 only, not of 24"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(lowered, program) = {0};
    const ls_status status =
        lowered_create(&(lowered_options){.text = rows[i].text}, &program);
    expect_status(status, LS_UNIMPLEMENTED, rows[i].message);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Losses against plain C, and their gradients.
#include "lockstep/losses.h"

#include <math.h>

#include "base/memory/own.h"
#include "support/gradient_check.h"
#include "support/values.h"

enum { ROWS = 4, COLUMNS = 5, ALL = ROWS * COLUMNS };

// ---- Plain C ---------------------------------------------------------------
static double log_softmax(const double *row, int k) {
  double most = row[0], sum = 0;
  for (int i = 1; i < COLUMNS; ++i)
    most = fmax(most, row[i]);
  for (int i = 0; i < COLUMNS; ++i)
    sum += exp(row[i] - most);
  return row[k] - most - log(sum);
}

typedef struct data {
  double x[ALL], y[ALL];  // y: 0 to 1, rows sum to 1.
  double labels[ROWS];
} data;

static void fill(data *d) {
  fill_numbers(d->x, ALL, 5);
  fill_numbers(d->y, ALL, 6);
  for (int r = 0; r < ROWS; ++r) {
    double sum = 0;
    for (int i = 0; i < COLUMNS; ++i) {
      d->x[r * COLUMNS + i] *= 3;
      sum += d->y[r * COLUMNS + i] = fabs(d->y[r * COLUMNS + i]);
    }
    for (int i = 0; i < COLUMNS; ++i)
      d->y[r * COLUMNS + i] /= sum;
    d->labels[r] = (r * 3) % COLUMNS;
  }
}

typedef struct tensors {
  ls_tensor x, y, labels;
} tensors;

static tensors tensors_of(const data *d) {
  return (tensors){eager_of(LS_DTYPE_F64, LS_SHAPE(ROWS, COLUMNS), d->x),
                   eager_of(LS_DTYPE_F64, LS_SHAPE(ROWS, COLUMNS), d->y),
                   eager_of(LS_DTYPE_I32, LS_SHAPE(ROWS), d->labels)};
}

// ---- By class --------------------------------------------------------------
TEST(cross_entropy_is_minus_the_labels_log_probability) {
  data d;
  fill(&d);
  expect_ok(ls_frame_begin());
  const tensors t = tensors_of(&d);
  for (int smooth = 0; smooth < 2; ++smooth) {
    const double s = smooth == 1 ? 0.1 : 0;
    double rows[ROWS], sum = 0;
    for (int r = 0; r < ROWS; ++r) {
      const double *row = d.x + r * COLUMNS;
      rows[r] = -(1 - s) * log_softmax(row, (int)d.labels[r]);
      for (int i = 0; i < COLUMNS; ++i)
        rows[r] -= s / COLUMNS * log_softmax(row, i);
      sum += rows[r];
    }
    const double mean = sum / ROWS;
    expect_tensor(ls_cross_entropy_loss(t.x, t.labels, s, LS_REDUCTION_NONE),
                  rows, ROWS, 1e-12);
    expect_tensor(ls_cross_entropy_loss(t.x, t.labels, s, LS_REDUCTION_SUM),
                  &sum, 1, 1e-12);
    expect_tensor(ls_cross_entropy_loss(t.x, t.labels, s, LS_REDUCTION_MEAN),
                  &mean, 1, 1e-12);
  }
  expect_ok(ls_frame_end(NULL));
}

TEST(soft_targets_weigh_all_classes) {
  data d;
  fill(&d);
  double cross[ROWS] = {0}, divergence[ROWS] = {0};
  d.y[3] += d.y[2];
  d.y[2] = 0;  // 0 log 0 is 0.
  for (int i = 0; i < ALL; ++i) {
    const int r = i / COLUMNS;
    const double log_q = log_softmax(d.x + r * COLUMNS, i % COLUMNS);
    cross[r] -= d.y[i] * log_q;
    if (d.y[i] > 0) divergence[r] += d.y[i] * (log(d.y[i]) - log_q);
  }
  expect_ok(ls_frame_begin());
  const tensors t = tensors_of(&d);
  expect_tensor(ls_soft_cross_entropy_loss(t.x, t.y, LS_REDUCTION_NONE), cross,
                ROWS, 1e-12);
  expect_tensor(
      ls_kl_divergence_loss(ls_log_softmax(t.x), t.y, LS_REDUCTION_NONE),
      divergence, ROWS, 1e-12);
  expect_ok(ls_frame_end(NULL));
}

// ---- By element ------------------------------------------------------------
static double squared(double x, double y) { return (x - y) * (x - y); }
static double absolute(double x, double y) { return fabs(x - y); }
static double huber(double x, double y) {
  const double d = fabs(x - y);
  return d <= 0.75 ? d * d / 2 : 0.75 * (d - 0.375);
}
static double hinge(double x, double t) { return fmax(0, 1 - x * t); }
static double sigmoid_cross(double x, double t) {
  return -t * log(1 / (1 + exp(-x))) - (1 - t) * log(1 / (1 + exp(x)));
}

static ls_tensor huber_loss(ls_tensor x, ls_tensor y, ls_reduction reduction) {
  return ls_huber_loss(x, y, 0.75, reduction);
}

static const struct {
  const char *name;
  ls_tensor (*loss)(ls_tensor x, ls_tensor y, ls_reduction reduction);
  double (*plain)(double x, double y);
} element_rows[] = {
    {"squared", ls_mean_squared_error, squared},
    {"absolute", ls_mean_absolute_error, absolute},
    {"huber", huber_loss, huber},
    {"hinge", ls_hinge_loss, hinge},
    {"sigmoid", ls_sigmoid_cross_entropy_loss, sigmoid_cross},
};
enum { ELEMENT_ROWS = sizeof(element_rows) / sizeof(element_rows[0]) };

TEST(losses_by_element_are_as_in_plain_c) {
  data d;
  fill(&d);
  for (size_t k = 0; k < ELEMENT_ROWS; ++k) {
    double each[ALL], sum = 0;
    for (int i = 0; i < ALL; ++i)
      sum += each[i] = element_rows[k].plain(d.x[i], d.y[i]);
    const double mean = sum / ALL;
    expect_ok(ls_frame_begin());
    const tensors t = tensors_of(&d);
    expect_tensor(element_rows[k].loss(t.x, t.y, LS_REDUCTION_NONE), each, ALL,
                  1e-12);
    expect_tensor(element_rows[k].loss(t.x, t.y, LS_REDUCTION_SUM), &sum, 1,
                  1e-12);
    expect_tensor(element_rows[k].loss(t.x, t.y, LS_REDUCTION_MEAN), &mean, 1,
                  1e-12);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(weights_choose_rows) {
  const double losses[] = {1, 2, 3, 4}, weights[] = {0.5, 0, 2, 0};
  const double none[] = {0, 0, 0, 0};
  const double wanted = (0.5 + 6) / 2.5, zero = 0;
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F64, LS_SHAPE(4), losses);
  expect_tensor(
      ls_weighted_mean(x, eager_of(LS_DTYPE_F64, LS_SHAPE(4), weights)),
      &wanted, 1, 1e-15);
  expect_tensor(ls_weighted_mean(x, eager_of(LS_DTYPE_F64, LS_SHAPE(4), none)),
                &zero, 1, 0);
  expect_ok(ls_frame_end(NULL));
}

TEST(losses_without_weight_may_be_of_any_value) {
  const double losses[] = {NAN, 1, INFINITY, -INFINITY, 3};
  const double weights[] = {0, 1, 0, 0, 1};
  const double mean = 2, by_loss[] = {0, 0.5, 0, 0, 0.5};
  const double by_weight[] = {-1, -0.5, -1, -1, 0.5};
  ls_nest gradients[2];
  ls_tape *tape = NULL;
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F64, LS_SHAPE(5), losses);
  const ls_tensor w = eager_of(LS_DTYPE_F64, LS_SHAPE(5), weights);
  const ls_nest both[] = {ls_leaf(x), ls_leaf(w)};
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  expect_ok(ls_tape_watch(tape, w));
  const ls_tensor loss = ls_weighted_mean(x, w);
  expect_ok(ls_tape_end(tape));
  expect_tensor(loss, &mean, 1, 0);
  expect_ok(ls_tape_gradients(tape, ls_leaf(loss), both, 2, gradients));
  expect_tensor(gradients[0].as.tensor, by_loss, 5, 0);
  expect_tensor(gradients[1].as.tensor, by_weight, 5, 1e-15);
  ls_tape_release(tape);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_weighted_mean_of_16_bit_floats_is_summed_in_f32) {
  static const ls_dtype types[] = {LS_DTYPE_F16, LS_DTYPE_BF16};
  const double five = 5;
  expect_ok(ls_frame_begin());
  for (size_t d = 0; d < LS_COUNT_OF(types); ++d) {
    const ls_tensor x = ls_fill(types[d], LS_SHAPE(70000), 5);
    const ls_tensor mean = ls_weighted_mean(x, ls_scalar(LS_DTYPE_F32, 1));
    assert_int_equal(ls_tensor_dtype(mean), types[d]);
    expect_tensor(mean, &five, 1, 0);
  }
  expect_ok(ls_frame_end(NULL));
}

// Weights count as often as they are used.
TEST(weights_are_broadcast_to_the_losses) {
  const double losses[] = {1, 2, 3, 4, 5, 6};
  const double rows[] = {2, 0, 1}, half = 0.5;
  const double mean = 3.5, wanted = (2 * 3 + 11) / 6.0;
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F64, LS_SHAPE(3, 2), losses);
  expect_tensor(ls_weighted_mean(x, ls_scalar(LS_DTYPE_F64, half)), &mean, 1,
                1e-15);
  expect_tensor(
      ls_weighted_mean(x, eager_of(LS_DTYPE_F64, LS_SHAPE(3, 1), rows)),
      &wanted, 1, 1e-15);
  const ls_shape others[] = {LS_SHAPE(3), LS_SHAPE(2), LS_SHAPE(2, 1),
                             LS_SHAPE(1, 3, 2)};
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i)
    expect_status(ls_tensor_status(
                      ls_weighted_mean(x, ls_fill(LS_DTYPE_F64, others[i], 1))),
                  LS_INVALID_ARGUMENT, "for losses f64[3,2]: they need");
  expect_status(ls_tensor_status(ls_weighted_mean(
                    ls_scalar(LS_DTYPE_F64, 1),
                    eager_of(LS_DTYPE_F64, LS_SHAPE(3), rows))),
                LS_INVALID_ARGUMENT, "weights f64[3] for losses f64[]");
  expect_ok(ls_frame_end(NULL));
}

TEST(fractions_of_integers_are_refused) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 4);
  const ls_tensor y = ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 1);
  const char *says = "of i32[3]: convert it to a float first";
  expect_status(ls_tensor_status(ls_huber_loss(x, y, 2, LS_REDUCTION_NONE)),
                LS_UNIMPLEMENTED, says);
  expect_status(ls_tensor_status(ls_weighted_mean(x, y)), LS_UNIMPLEMENTED,
                says);
  expect_status(
      ls_tensor_status(ls_mean_squared_error(x, y, LS_REDUCTION_MEAN)),
      LS_UNIMPLEMENTED, "convert it to a float first");
  expect_ok(ls_tensor_status(ls_mean_squared_error(x, y, LS_REDUCTION_NONE)));
  expect_ok(ls_frame_end(NULL));
}

// ---- Gradients -------------------------------------------------------------
static ls_tensor smoothed(const ls_tensor *xs, size_t count, const void *user) {
  (void)count;
  (void)user;
  const ls_tensor labels = ls_iota(LS_DTYPE_I32, LS_SHAPE(ROWS), 0);
  return ls_cross_entropy_loss(xs[0], labels, 0.2, LS_REDUCTION_NONE);
}

static ls_tensor soft(const ls_tensor *xs, size_t count, const void *user) {
  (void)count;
  (void)user;
  return ls_soft_cross_entropy_loss(xs[0], xs[1], LS_REDUCTION_NONE);
}

static ls_tensor divergence(const ls_tensor *xs, size_t count,
                            const void *user) {
  (void)count;
  (void)user;
  return ls_kl_divergence_loss(ls_log_softmax(xs[0]), ls_softmax(xs[1]),
                               LS_REDUCTION_NONE);
}

static ls_tensor by_element(const ls_tensor *xs, size_t count,
                            const void *user) {
  (void)count;
  return element_rows[*(const size_t *)user].loss(xs[0], xs[1],
                                                  LS_REDUCTION_NONE);
}

TEST(gradients_are_difference_quotients) {
  const ls_shape shape = LS_SHAPE(ROWS, COLUMNS);
  const gradient_case cases[] = {
      {"smoothed", smoothed, NULL, {shape}, 1, 0, 0},
      {"soft", soft, NULL, {shape, shape}, 2, 0, 0},
      {"divergence", divergence, NULL, {shape, shape}, 2, 0, 0},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i)
    expect_gradients(&cases[i], 1);
  for (size_t k = 0; k < ELEMENT_ROWS; ++k)
    expect_gradients(
        &(gradient_case){
            element_rows[k].name, by_element, &k, {shape, shape}, 2, 0, 0},
        1);
}

// A class without probability in p has none of the gradient, also where q gives
// it none.
static ls_tensor divergence_from(ls_tensor p) {
  const double log_q[] = {log(0.25), -INFINITY, log(0.75)};
  return ls_kl_divergence_loss(eager_of(LS_DTYPE_F64, LS_SHAPE(3), log_q), p,
                               LS_REDUCTION_SUM);
}

static ls_tensor divergence_to(ls_tensor log_q) {
  const double p[] = {0.5, 0, 0.5};
  return ls_kl_divergence_loss(log_q, eager_of(LS_DTYPE_F64, LS_SHAPE(3), p),
                               LS_REDUCTION_SUM);
}

TEST(impossible_classes_leave_the_divergence_a_gradient) {
  const double p[] = {0.5, 0, 0.5}, log_q[] = {log(0.25), -INFINITY, log(0.75)};
  expect_gradient_at(divergence_from, LS_DTYPE_F64, p,
                     (double[]){1 + log(2), 0, 1 + log(0.5 / 0.75)}, 3, 1e-12);
  expect_gradient_at(divergence_to, LS_DTYPE_F64, log_q,
                     (double[]){-0.5, 0, -0.5}, 3, 1e-12);
}

TEST(targets_that_are_no_probabilities_are_not_hidden) {
  const double wrong[] = {NAN, -0.5};
  expect_ok(ls_frame_begin());
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i) {
    const double p[] = {0.5, wrong[i], 0.5};
    assert_true(isnan(
        item_of(divergence_from(eager_of(LS_DTYPE_F64, LS_SHAPE(3), p)))));
  }
  expect_ok(ls_frame_end(NULL));
}

TEST(a_huber_loss_without_a_limit_is_half_the_square) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F64, LS_SHAPE(2), (double[]){3, -1000});
  expect_tensor(
      ls_huber_loss(x, ls_scalar(LS_DTYPE_F64, 1), INFINITY, LS_REDUCTION_NONE),
      (double[]){2, 501000.5}, 2, 0);
  // Nor does a limit beyond the type limit anything.
  const ls_tensor near = eager_of(LS_DTYPE_F16, LS_SHAPE(2), (double[]){1, 2});
  expect_tensor(ls_huber_loss(near, ls_fill(LS_DTYPE_F16, LS_SHAPE(2), 0), 1e5,
                              LS_REDUCTION_NONE),
                (double[]){0.5, 2}, 2, 0);
  expect_ok(ls_frame_end(NULL));
}

// softplus(x) - x t: at 0 the slope is 1/2 - t, not what a maximum would say.
static ls_nest at_zero(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest y = ls_leaf(ls_sigmoid_cross_entropy_loss(
      x, ls_scalar(LS_DTYPE_F64, 1), LS_REDUCTION_SUM));
  const ls_nest from = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &from, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(sigmoid_cross_entropy_has_its_slope_at_zero) {
  const double zero = 0;
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F64, LS_SCALAR, &zero)));
  LS_OWN(ls_nest, got) = call_on(1, at_zero, NULL, args, 1);
  assert_true(fabs(ls_array_f64(ls_nest_as_array(got), 0) + 0.5) < 1e-15);
}

// Losses of logits whose signs are the targets.
static ls_tensor sure_losses(ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_tensor targets =
      ls_convert(ls_greater(x, ls_scalar(dtype, 0)), dtype);
  return ls_sigmoid_cross_entropy_loss(x, targets, LS_REDUCTION_NONE);
}

TEST(small_sigmoid_cross_entropies_keep_their_digits) {
  const double logits[] = {20, -20, 15};
  const double losses[] = {exp(-20), exp(-20), exp(-15)};
  const double slopes[] = {-exp(-20), exp(-20), -exp(-15)};
  expect_ok(ls_frame_begin());
  expect_tensor(sure_losses(eager_of(LS_DTYPE_F32, LS_SHAPE(3), logits)),
                losses, 3, 1e-12);
  expect_ok(ls_frame_end(NULL));
  expect_gradient_at(sure_losses, LS_DTYPE_F32, logits, slopes, 3, 1e-12);
}

TEST(losses_that_cannot_be_are_refused) {
  data d;
  fill(&d);
  expect_ok(ls_frame_begin());
  const tensors t = tensors_of(&d);
  expect_status(ls_tensor_status(ls_cross_entropy_loss(t.x, t.labels, 1.5,
                                                       LS_REDUCTION_MEAN)),
                LS_INVALID_ARGUMENT, "smoothing must be from 0 to 1, got 1.5");
  expect_status(
      ls_tensor_status(ls_huber_loss(t.x, t.y, -1, LS_REDUCTION_MEAN)),
      LS_INVALID_ARGUMENT, "delta must be above 0");
  expect_status(ls_tensor_status(ls_reduce_loss(t.x, (ls_reduction)7)),
                LS_INVALID_ARGUMENT, "there is no reduction 7");
  expect_ok(ls_frame_end(NULL));
}

TEST(a_missing_key_of_a_dict_is_named_by_the_op_that_reads_it) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 0);
  const char *const keys[] = {"label", "example"};
  const ls_nest items[] = {ls_leaf(x), ls_leaf(x)};
  LS_OWN(ls_nest, batch) = ls_nest_dict("", keys, items, 2);
  const ls_tensor lost = ls_nest_tensor(ls_nest_find(batch, "lable"), 0);
  expect_status(
      ls_tensor_status(ls_sub(x, lost)), LS_INVALID_ARGUMENT,
      "operand 1 of sub is a failed or zeroed tensor\nan item read before is "
      "no tensor: there is no key 'lable' in the dict: it has 'label', "
      "'example'\nin op sub");
  expect_ok(ls_frame_end(NULL));
}

TEST(weights_of_other_sizes_than_their_input_are_refused) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 0);
  const ls_tensor w = ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 5), 0);
  expect_status(
      ls_tensor_status(ls_dense(x, w, ls_fill(LS_DTYPE_F32, LS_SHAPE(5), 0),
                                LS_ACTIVATION_NONE)),
      LS_INVALID_ARGUMENT,
      "w must be [in, out] with the same float dtype, where `in` is x's last "
      "size");
  expect_ok(ls_frame_end(NULL));
}

TEST(distributions_of_another_shape_are_refused) {
  const ls_shape others[] = {LS_SHAPE(4, 1), LS_SHAPE(3), LS_SCALAR};
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 3), 0);
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); ++i) {
    const ls_tensor p = ls_fill(LS_DTYPE_F32, others[i], 1);
    const ls_tensor losses[] = {
        ls_soft_cross_entropy_loss(x, p, LS_REDUCTION_NONE),
        ls_softmax_cross_entropy_soft(x, p),
        ls_kl_divergence_loss(x, p, LS_REDUCTION_NONE)};
    for (size_t k = 0; k < sizeof(losses) / sizeof(*losses); ++k)
      expect_status(ls_tensor_status(losses[k]), LS_INVALID_ARGUMENT,
                    "they need the same shape");
  }
  expect_ok(ls_frame_end(NULL));
}

TEST(losses_of_unlike_dimensions_are_refused) {
  ls_tensor (*const losses[])(ls_tensor, ls_tensor, ls_reduction) = {
      ls_sigmoid_cross_entropy_loss, ls_mean_squared_error,
      ls_mean_absolute_error, huber_loss, ls_hinge_loss};
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(25, 1), 0);
  const ls_tensor y = ls_fill(LS_DTYPE_F32, LS_SHAPE(25), 0);
  const ls_tensor z = ls_fill(LS_DTYPE_F32, LS_SHAPE(7), 0);
  for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); ++i) {
    expect_status(ls_tensor_status(losses[i](x, y, LS_REDUCTION_MEAN)),
                  LS_INVALID_ARGUMENT,
                  "of f32[25,1] and f32[25]: they need as many dimensions as "
                  "each other, or one is a scalar; ls_reshape can make the "
                  "second f32[25,1]");
    expect_status(ls_tensor_status(losses[i](x, z, LS_REDUCTION_MEAN)),
                  LS_INVALID_ARGUMENT, "or one is a scalar\nin op");
    expect_ok(ls_tensor_status(losses[i](x, x, LS_REDUCTION_MEAN)));
    expect_ok(ls_tensor_status(
        losses[i](x, ls_scalar(LS_DTYPE_F32, 1), LS_REDUCTION_MEAN)));
  }
  expect_ok(ls_frame_end(NULL));
}

// SPDX-License-Identifier: Apache-2.0
//
// Rules of the optimizers.
#include <math.h>
#include <stdio.h>

#include "base/require.h"
#include "lockstep/optimizer_state.h"
#include "nn/optimizer.h"

// ---- Adam ------------------------------------------------------------------
// Adam and variants: AdamW and LAMB, which differ in how weight decay is
// applied and how the step is scaled; and Lion, which moves by a sign.

// Indices of the step's scalars: the factor of the first moment, and the factor
// of the second moment before the root. Adam's first factor includes the
// learning rate, which saves a pass over the weights.
enum { FIRST, SECOND };

// Returns 1 / (1 - beta^t).
static ls_tensor correction(double beta, ls_tensor t) {
  const ls_tensor power = ls_pow(ls_step_number(beta), t);
  const ls_tensor left = ls_sub(ls_step_number(1), power);
  return ls_div(ls_step_number(1), left);
}

static void adam_begin(const ls_optimizer *optimizer, ls_tensor t,
                       ls_step_scalars *scalars) {
  scalars->own[FIRST] = optimizer->no_momentum
                            ? ls_step_number(1)
                            : correction(optimizer->beta1, t);
  scalars->own[SECOND] = correction(optimizer->beta2, t);
}

static void begin_with_rate(const ls_optimizer *optimizer, ls_tensor t,
                            ls_step_scalars *scalars) {
  adam_begin(optimizer, t, scalars);
  scalars->own[FIRST] = ls_mul(scalars->own[FIRST], scalars->rate);
}

// Updates the moments, and returns the direction of the step; for Adam already
// times the learning rate.
static ls_tensor step_direction(ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  const ls_tensor g = update->gradient;
  ls_tensor m = g;
  size_t slot = 0;
  if (!optimizer->no_momentum) {
    m = ls_update_mix(optimizer->beta1, ls_update_read(update, slot), g);
    ls_update_slot(update, slot++, m);
  }
  const ls_tensor square = ls_square(g);
  const ls_tensor v =
      ls_update_mix(optimizer->beta2, ls_update_read(update, slot), square);
  ls_update_slot(update, slot, v);
  const ls_tensor *scalars = update->scalars->own;
  const ls_tensor root = ls_sqrt(ls_update_scale(v, scalars[SECOND]));
  const ls_tensor divisor = ls_add_scalar(root, optimizer->epsilon);
  return ls_div(ls_update_scale(m, scalars[FIRST]), divisor);
}

static void update_adam(ls_update *update, void *user) {
  (void)user;
  ls_update_move(update, step_direction(update));
}

static void update_adamw(ls_update *update, void *user) {
  (void)user;
  ls_tensor delta = step_direction(update);
  if (ls_update_decays(update))
    delta = ls_add(delta, ls_update_rate(update, ls_update_decay(update)));
  ls_update_move(update, delta);
}

static ls_tensor norm(ls_tensor x) {
  return ls_sqrt(ls_reduce_sum(ls_square(x), LS_ALL_AXES));
}

static void update_lamb(ls_update *update, void *user) {
  (void)user;
  ls_tensor d = step_direction(update);
  if (ls_update_decays(update)) d = ls_add(d, ls_update_decay(update));
  const ls_tensor long_w = norm(ls_update_value(update)), long_d = norm(d);
  const ls_dtype dtype = ls_tensor_dtype(long_w);
  const ls_tensor zero = ls_scalar(dtype, 0), one = ls_scalar(dtype, 1);
  const ls_tensor still = ls_equal(long_d, zero);
  const ls_tensor none = ls_or(ls_equal(long_w, zero), still);
  const ls_tensor ratio = ls_select(none, one, ls_div(long_w, long_d));
  ls_update_move(update, ls_mul(d, ls_update_rate(update, ratio)));
}

static const ls_optimizer_rule adam_rule = {.name = "adam",
                                            .learning_rate = 0.001,
                                            .counts = true,
                                            .update = update_adam};
static const ls_optimizer_rule adamw_rule = {.name = "adamw",
                                             .learning_rate = 0.001,
                                             .counts = true,
                                             .own_decay = true,
                                             .update = update_adamw};
static const ls_optimizer_rule lamb_rule = {.name = "lamb",
                                            .learning_rate = 0.001,
                                            .counts = true,
                                            .own_decay = true,
                                            .needs_all = true,
                                            .update = update_lamb};

static ls_status adam_create(const ls_optimizer_rule *base, ls_step_begin begin,
                             const ls_adam_options *options,
                             double weight_decay, double epsilon,
                             ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  ls_adam_options opts = options != NULL ? *options : (ls_adam_options){0};
  if (opts.beta1 == 0) opts.beta1 = 0.9;
  if (opts.beta2 == 0) opts.beta2 = 0.999;
  if (opts.epsilon == 0) opts.epsilon = epsilon;
  if (opts.weight_decay == 0) opts.weight_decay = weight_decay;
  LS_RETURN_IF_ERROR(ls_optimizer_check(base->name, "beta1", opts.beta1, 1));
  LS_RETURN_IF_ERROR(ls_optimizer_check(base->name, "beta2", opts.beta2, 1));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check(base->name, "epsilon", opts.epsilon, INFINITY));
  ls_optimizer_rule rule = *base;
  size_t slots = 0;
  if (!opts.no_momentum) rule.slots[slots++].name = "m";
  rule.slots[slots].name = "v";
  LS_RETURN_IF_ERROR(ls_optimizer_make(&rule, &opts, out_optimizer));
  ls_optimizer *optimizer = *out_optimizer;
  optimizer->begin = begin;
  optimizer->beta1 = opts.beta1;
  optimizer->beta2 = opts.beta2;
  optimizer->epsilon = opts.epsilon;
  optimizer->no_momentum = opts.no_momentum;
  return ls_ok();
}

ls_status ls_adam_create(const ls_adam_options *options,
                         ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  return adam_create(&adam_rule, begin_with_rate, options, 0, 1e-8,
                     out_optimizer);
}

ls_status ls_adamw_create(const ls_adam_options *options,
                          ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  return adam_create(&adamw_rule, begin_with_rate, options, 0.01, 1e-8,
                     out_optimizer);
}

ls_status ls_lamb_create(const ls_adam_options *options,
                         ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  return adam_create(&lamb_rule, adam_begin, options, 0, 1e-6, out_optimizer);
}

// ---- Lion -------------------------------------------------------------------
static void update_lion(ls_update *update, void *user) {
  const ls_optimizer *optimizer = user;
  const ls_tensor g = update->gradient, m = ls_update_read(update, 0);
  ls_tensor u = ls_sign(ls_update_mix(optimizer->beta1, m, g));
  ls_update_slot(update, 0, ls_update_mix(optimizer->beta2, m, g));
  if (ls_update_decays(update)) u = ls_add(u, ls_update_decay(update));
  ls_update_move(update, ls_update_rate(update, u));
}

static const ls_optimizer_rule lion_rule = {.name = "lion",
                                            .own_decay = true,
                                            .learning_rate = 0.0001,
                                            .slots = {{.name = "m"}},
                                            .update = update_lion};

ls_status ls_lion_create(const ls_lion_options *options,
                         ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_lion_options opts = options != NULL ? *options : (ls_lion_options){0};
  if (opts.beta1 == 0) opts.beta1 = 0.9;
  if (opts.beta2 == 0) opts.beta2 = 0.99;
  LS_RETURN_IF_ERROR(ls_optimizer_check("lion", "beta1", opts.beta1, 1));
  LS_RETURN_IF_ERROR(ls_optimizer_check("lion", "beta2", opts.beta2, 1));
  LS_RETURN_IF_ERROR(ls_optimizer_make(&lion_rule, &opts, out_optimizer));
  (*out_optimizer)->beta1 = opts.beta1;
  (*out_optimizer)->beta2 = opts.beta2;
  return ls_ok();
}

// ---- Adagrad ---------------------------------------------------------------
static void update_adagrad(ls_update *update, void *user) {
  const ls_optimizer *optimizer = user;
  const ls_tensor g = update->gradient;
  const ls_tensor square = ls_square(g);
  const ls_tensor sum = ls_add(ls_update_read(update, 0), square);
  ls_update_slot(update, 0, sum);
  const ls_tensor root = ls_sqrt(ls_add_scalar(sum, optimizer->epsilon));
  ls_update_move(update, ls_update_rate(update, ls_div(g, root)));
}

ls_status ls_adagrad_create(const ls_adagrad_options *options,
                            ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_adagrad_options opts =
      options != NULL ? *options : (ls_adagrad_options){0};
  if (opts.initial == 0) opts.initial = 0.1;
  if (opts.epsilon == 0) opts.epsilon = 1e-7;
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("adagrad", "initial sum", opts.initial, INFINITY));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("adagrad", "epsilon", opts.epsilon, INFINITY));
  const ls_optimizer_rule rule = {.name = "adagrad",
                                  .learning_rate = 0.01,
                                  .keeps_rows = true,
                                  .slots = {{"sum", opts.initial}},
                                  .update = update_adagrad};
  LS_RETURN_IF_ERROR(ls_optimizer_make(&rule, &opts, out_optimizer));
  (*out_optimizer)->epsilon = opts.epsilon;
  return ls_ok();
}

// ---- RMSProp ---------------------------------------------------------------
static void update_rmsprop(ls_update *update, void *user) {
  const ls_optimizer *optimizer = user;
  const double decay = optimizer->beta2;
  const ls_tensor g = update->gradient;
  size_t slot = 0;
  const ls_tensor square = ls_square(g);
  ls_tensor variance =
      ls_update_mix(decay, ls_update_read(update, slot), square);
  ls_update_slot(update, slot++, variance);
  if (optimizer->centered) {
    const ls_tensor mean =
        ls_update_mix(decay, ls_update_read(update, slot), g);
    ls_update_slot(update, slot++, mean);
    // Rounding can make the variance negative.
    variance = ls_relu(ls_sub(variance, ls_square(mean)));
  }
  const ls_tensor root = ls_sqrt(ls_add_scalar(variance, optimizer->epsilon));
  ls_tensor delta = ls_update_rate(update, ls_div(g, root));
  if (optimizer->momentum > 0) {
    delta =
        ls_add(ls_mul_scalar(ls_update_read(update, slot), optimizer->momentum),
               delta);
    ls_update_slot(update, slot, delta);
  }
  ls_update_move(update, delta);
}

ls_status ls_rmsprop_create(const ls_rmsprop_options *options,
                            ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  ls_rmsprop_options opts =
      options != NULL ? *options : (ls_rmsprop_options){0};
  if (opts.decay == 0) opts.decay = 0.9;
  if (opts.epsilon == 0) opts.epsilon = 1e-8;
  LS_RETURN_IF_ERROR(ls_optimizer_check("rmsprop", "decay", opts.decay, 1));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("rmsprop", "momentum", opts.momentum, INFINITY));
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("rmsprop", "epsilon", opts.epsilon, INFINITY));
  ls_optimizer_rule rule = {.name = "rmsprop",
                            .learning_rate = 0.001,
                            .slots = {{.name = "square"}},
                            .update = update_rmsprop};
  size_t slots = 1;
  if (opts.centered) rule.slots[slots++].name = "mean";
  if (opts.momentum > 0) rule.slots[slots].name = "momentum";
  LS_RETURN_IF_ERROR(ls_optimizer_make(&rule, &opts, out_optimizer));
  ls_optimizer *optimizer = *out_optimizer;
  optimizer->beta2 = opts.decay;
  optimizer->momentum = opts.momentum;
  optimizer->epsilon = opts.epsilon;
  optimizer->centered = opts.centered;
  return ls_ok();
}

// ---- SGD -------------------------------------------------------------------
static void update_plain(ls_update *update, void *user) {
  (void)user;
  ls_update_move(update, ls_update_rate(update, update->gradient));
}

static void update_momentum(ls_update *update, void *user) {
  const ls_optimizer *optimizer = user;
  const double momentum = optimizer->momentum;
  const ls_tensor g = update->gradient;
  const ls_tensor v =
      ls_add(ls_mul_scalar(ls_update_read(update, 0), momentum), g);
  ls_update_slot(update, 0, v);
  const ls_tensor direction =
      optimizer->nesterov ? ls_add(ls_mul_scalar(v, momentum), g) : v;
  ls_update_move(update, ls_update_rate(update, direction));
}

static const ls_optimizer_rule plain_rule = {.name = "sgd",
                                             .learning_rate = 0.01,
                                             .keeps_rows = true,
                                             .update = update_plain};
static const ls_optimizer_rule momentum_rule = {.name = "momentum",
                                                .learning_rate = 0.01,
                                                .slots = {{.name = "momentum"}},
                                                .update = update_momentum};

ls_status ls_sgd_create(const ls_sgd_options *options,
                        ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  const ls_sgd_options opts = options != NULL ? *options : (ls_sgd_options){0};
  LS_RETURN_IF_ERROR(
      ls_optimizer_check("sgd", "momentum", opts.momentum, INFINITY));
  if (opts.nesterov && opts.momentum == 0)
    return ls_invalid_argument("sgd: nesterov needs a momentum above 0");
  const ls_optimizer_rule *rule =
      opts.momentum > 0 ? &momentum_rule : &plain_rule;
  LS_RETURN_IF_ERROR(ls_optimizer_make(rule, &opts, out_optimizer));
  (*out_optimizer)->momentum = opts.momentum;
  (*out_optimizer)->nesterov = opts.nesterov;
  return ls_ok();
}

// ---- Optimizers by name -----------------------------------------------------
// Creates optimizers by the name of their kind, from one table.

static const double usual_momentum = 0.9;

// The kinds: a name, the constructor, its options, a struct that begins with
// LS_OPTIMIZER_FIELDS, and their fields that a name sets.
#define EACH_KIND(X)                                                           \
  X(sgd, sgd, sgd, .momentum = 0)                                              \
  X(momentum, sgd, sgd, .momentum = usual_momentum)                            \
  X(nesterov, sgd, sgd, .momentum = usual_momentum, .nesterov = true)          \
  X(adam, adam, adam, .beta1 = 0)                                              \
  X(adamw, adamw, adam, .beta1 = 0)                                            \
  X(lamb, lamb, adam, .beta1 = 0)                                              \
  X(adagrad, adagrad, adagrad, .initial = 0)                                   \
  X(rmsprop, rmsprop, rmsprop, .momentum = 0)                                  \
  X(lion, lion, lion, .beta1 = 0)

#define DEFINE_CREATE(name, kind, type, ...)                                   \
  static ls_status create_##name(const ls_optimizer_options *common,           \
                                 ls_optimizer **out_optimizer) {               \
    ls_##type##_options options = {__VA_ARGS__};                               \
    memcpy(&options, common, sizeof(*common));                                 \
    return ls_##kind##_create(&options, out_optimizer);                        \
  }
EACH_KIND(DEFINE_CREATE)

#define KIND_ROW(name, ...) {#name, create_##name},
static const struct {
  const char *name;
  ls_status (*create)(const ls_optimizer_options *common,
                      ls_optimizer **out_optimizer);
} kinds[] = {EACH_KIND(KIND_ROW)};

const char *ls_optimizer_kind(size_t index) {
  return index < LS_COUNT_OF(kinds) ? kinds[index].name : NULL;
}

static ls_status no_such_kind(const char *kind) {
  char all[128] = "";
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s", i > 0 ? ", " : "",
             kinds[i].name);
  }
  return ls_invalid_argument(
      "there is no optimizer '%s'; the optimizers are: %s", kind, all);
}

ls_status ls_optimizer_create(const char *kind,
                              const ls_optimizer_options *options,
                              ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer, kind);
  static const ls_optimizer_options defaults;
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    if (strcmp(kinds[i].name, kind) == 0)
      return kinds[i].create(options != NULL ? options : &defaults,
                             out_optimizer);
  }
  return no_such_kind(kind);
}

// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "nn/optimizer.h"

// w - rate * step, assigned.
static ls_op descend(const ls_optimizer *optimizer, ls_tensor rate,
                     ls_variable *variable, ls_tensor step) {
  const ls_tensor w = ls_variable_read(variable);
  const ls_tensor delta =
      ls_tensor_is_failed(rate)
          ? ls_mul_scalar(step, optimizer->learning_rate)
          : ls_mul(step, ls_convert(rate, ls_variable_dtype(variable)));
  return ls_tensor_op(ls_variable_assign(variable, ls_sub(w, delta)));
}

static void update_plain(const ls_optimizer *optimizer, ls_tensor rate,
                         ls_variable *variable, ls_variable *const *slots,
                         ls_tensor gradient, ls_op *out_ops) {
  (void)slots;
  out_ops[0] = descend(optimizer, rate, variable, gradient);
}

static void update_momentum(const ls_optimizer *optimizer, ls_tensor rate,
                            ls_variable *variable, ls_variable *const *slots,
                            ls_tensor gradient, ls_op *out_ops) {
  const double momentum = optimizer->momentum;
  const ls_tensor v =
      ls_add(ls_mul_scalar(ls_variable_read(slots[0]), momentum), gradient);
  out_ops[1] = ls_tensor_op(ls_variable_assign(slots[0], v));
  const ls_tensor step =
      optimizer->nesterov ? ls_add(ls_mul_scalar(v, momentum), gradient) : v;
  out_ops[0] = descend(optimizer, rate, variable, step);
}

static const ls_optimizer_rule plain_rule = {.name = "sgd",
                                             .update = update_plain};
static const ls_optimizer_rule momentum_rule = {.name = "momentum",
                                                .num_slots = 1,
                                                .slot_names = {"momentum"},
                                                .update = update_momentum};

ls_status ls_sgd_create(const ls_sgd_options *options,
                        ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  ls_sgd_options opts = options != NULL ? *options : (ls_sgd_options){0};
  if (opts.learning_rate == 0) opts.learning_rate = 0.01;
  if (!isfinite(opts.learning_rate) || opts.learning_rate < 0 ||
      !isfinite(opts.momentum) || opts.momentum < 0 || opts.decay_steps < 0)
    return ls_invalid_argument(
        "sgd needs a learning rate above 0, a momentum and decay steps of 0 or "
        "more, got %g, %g and %lld",
        opts.learning_rate, opts.momentum, (long long)opts.decay_steps);
  if (opts.nesterov && opts.momentum == 0)
    return ls_invalid_argument("sgd: nesterov needs a momentum above 0");
  const ls_optimizer_rule *rule =
      opts.momentum > 0 ? &momentum_rule : &plain_rule;
  LS_RETURN_IF_ERROR(ls_optimizer_make(rule, out_optimizer));
  (*out_optimizer)->learning_rate = opts.learning_rate;
  (*out_optimizer)->decay_steps = opts.decay_steps;
  (*out_optimizer)->momentum = opts.momentum;
  (*out_optimizer)->nesterov = opts.nesterov;
  return ls_ok();
}

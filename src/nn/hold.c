// SPDX-License-Identifier: Apache-2.0
// Steps made of several calls: each call adds its gradients to slots, and the
// last one moves the variables by their mean, in which calls are weighted by
// their examples. The slots hold the gradients of all replicas together, so
// that there is one sum for any number of replicas. A gradient of some rows is
// added to these rows of the sum, which has all rows.
#include "base/memory/own.h"
#include "graph/make/make.h"
#include "nn/optimizer.h"

bool ls_optimizer_holds(const ls_optimizer *optimizer) {
  return optimizer->accumulate > 1;
}

// ---- Sums ------------------------------------------------------------------
static ls_variable *held_sum(const ls_optimizer *optimizer,
                             ls_variable *const *slots) {
  return slots[optimizer->rule_slots];
}

// Multiplies a gradient by the call's weight. For a call without examples the
// result is -0.
static ls_tensor weighted_gradient(const ls_held_call *call, ls_tensor gradient,
                                   ls_dtype dtype) {
  const ls_tensor x =
      ls_update_scale(ls_convert(gradient, dtype), call->weight);
  return ls_select(ls_greater(call->weight, ls_scalar(LS_DTYPE_F64, 0)), x,
                   ls_scalar(dtype, -0.0));
}

ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           const ls_held_call *call, ls_variable *const *slots,
                           ls_tensor gradient) {
  ls_variable *slot = held_sum(optimizer, slots);
  const ls_dtype dtype = ls_variable_dtype(slot);
  ls_tensor rows, values;
  if (ls_find_rows(gradient, &rows, &values))
    return ls_variable_scatter(slot, LS_SCATTER_ADD, rows,
                               weighted_gradient(call, values, dtype));
  return ls_variable_assign(
      slot,
      ls_add(ls_variable_read(slot), weighted_gradient(call, gradient, dtype)));
}

ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype) {
  return ls_convert(ls_update_scale(sum, share), dtype);
}

ls_op ls_hold_nothing(const ls_optimizer *optimizer,
                      ls_variable *const *slots) {
  ls_variable *slot = held_sum(optimizer, slots);
  return ls_tensor_op(ls_variable_assign(
      slot, ls_fill(ls_variable_dtype(slot), ls_variable_shape(slot), 0)));
}

// ---- Calls -----------------------------------------------------------------
static ls_tensor sum_over_replicas(ls_tensor count) {
  return ls_all_reduce(LS_REDUCE_SUM, count);
}

ls_tensor ls_optimizer_examples(const ls_optimizer *optimizer,
                                const ls_shares *shares) {
  if (optimizer->over_replicas == LS_GRADIENTS_LIKE_LOSS)
    return ls_scalar(LS_DTYPE_F64, 1);
  return ls_cross_shard_sums(optimizer)
             ? ls_cross_shard_examples()
             : ls_shares_examples(shares, sum_over_replicas);
}

ls_status ls_hold_begin(ls_optimizer *optimizer, ls_tensor examples,
                        ls_held_call *out_call) {
  LS_RETURN_IF_ERROR(ls_optimizer_count_steps(optimizer));
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
  const ls_tensor one = ls_scalar(LS_DTYPE_F64, 1);
  const ls_tensor before = ls_variable_read(optimizer->examples);
  const ls_tensor given = ls_select(ls_greater(examples, zero), examples, one);
  const ls_tensor was = ls_variable_read(optimizer->first_examples);
  ls_held_call *call = out_call;
  call->first = ls_select(ls_greater(before, zero), was, given);
  call->weight = ls_div(examples, call->first);
  call->examples = ls_add(before, examples);
  call->total = ls_div(call->examples, call->first);
  return ls_ok();
}

typedef struct turn {
  ls_held_step step;
  void *user;
  const ls_held_call *call;
  ls_tensor calls;  // Number of calls, with this one.
} turn;

// Takes the step. Both branches return the number of calls since the last step,
// the number of their examples, and the number of the first call's examples.
static ls_nest take_step(ls_nest nothing, void *user) {
  (void)nothing;
  const turn *t = user;
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0), total = t->call->total;
  // If no call had examples, the mean gradient is zero.
  const ls_tensor share = ls_select(
      ls_greater(total, zero), ls_div(ls_scalar(LS_DTYPE_F64, 1), total), zero);
  const ls_status status = t->step(t->user, share);
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(zero),
                        ls_leaf(zero))
             : ls_fail(status);
}

static ls_nest hold_go_on(ls_nest nothing, void *user) {
  (void)nothing;
  const turn *t = user;
  return LS_TUPLE(ls_leaf(ls_identity(t->calls)),
                  ls_leaf(ls_identity(t->call->examples)),
                  ls_leaf(ls_identity(t->call->first)));
}

static ls_op keep_counts(const ls_optimizer *optimizer, ls_nest counts) {
  ls_variable *const variables[] = {optimizer->calls, optimizer->examples,
                                    optimizer->first_examples};
  ls_op ops[3];
  for (size_t i = 0; i < 3; ++i)
    ops[i] = ls_tensor_op(
        ls_variable_assign(variables[i], ls_nest_tensor(counts, i)));
  return ls_join_ops(ops, 3, NULL);
}

ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer,
                                   const ls_held_call *call, ls_held_step step,
                                   void *user, ls_op *out_op) {
  turn t = {step, user, call,
            ls_add_scalar(ls_variable_read(optimizer->calls), 1)};
  const ls_tensor due = ls_greater_equal(
      t.calls, ls_scalar_i64(LS_DTYPE_I64, optimizer->accumulate));
  LS_OWN(ls_nest, counts) = ls_cond(due, take_step, hold_go_on, &t);
  LS_RETURN_IF_ERROR(ls_nest_status(counts));
  *out_op = keep_counts(optimizer, counts);
  return ls_ok();
}

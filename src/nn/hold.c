// SPDX-License-Identifier: Apache-2.0
// Steps that several calls make together: each adds its gradients to slots, and
// the last one moves the variables by their mean. Gradients are held as those
// of all replicas, so there is one sum whatever their number. A gradient of
// some rows is added to those rows; the sum, of any number of calls, is of all
// rows.
#include "graph/make/make.h"
#include "nn/optimizer.h"

bool ls_optimizer_holds(const ls_optimizer *optimizer) {
  return optimizer->accumulate > 1;
}

// ---- Sums ------------------------------------------------------------------
static ls_variable *held(const ls_optimizer *optimizer,
                         ls_variable *const *slots) {
  return slots[optimizer->rule.num_slots];
}

ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           ls_variable *const *slots, ls_tensor gradient) {
  ls_variable *slot = held(optimizer, slots);
  const ls_dtype dtype = ls_variable_dtype(slot);
  ls_update_rows rows;
  if (ls_update_find_rows(gradient, &rows))
    return ls_variable_scatter(slot, LS_SCATTER_ADD, rows.indices,
                               ls_convert(rows.gradient, dtype));
  return ls_variable_assign(
      slot, ls_add(ls_variable_read(slot), ls_convert(gradient, dtype)));
}

ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype) {
  return ls_convert(ls_update_scale(sum, share), dtype);
}

ls_op ls_hold_nothing(const ls_optimizer *optimizer,
                      ls_variable *const *slots) {
  ls_variable *slot = held(optimizer, slots);
  return ls_tensor_op(ls_variable_assign(
      slot, ls_fill(ls_variable_dtype(slot), ls_variable_shape(slot), 0)));
}

// ---- Calls -----------------------------------------------------------------
typedef struct turn {
  ls_held_step step;
  void *user;
  ls_tensor calls;  // With this one.
} turn;

// Both branches give the number of calls since the last step.
static ls_nest take_step(ls_nest nothing, void *user) {
  (void)nothing;
  const turn *t = user;
  const ls_tensor share =
      ls_div(ls_scalar(LS_DTYPE_F64, 1), ls_convert(t->calls, LS_DTYPE_F64));
  const ls_status status = t->step(t->user, share);
  return ls_status_is_ok(status) ? ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0))
                                 : ls_fail(status);
}

static ls_nest go_on(ls_nest nothing, void *user) {
  (void)nothing;
  return ls_leaf(ls_identity(((const turn *)user)->calls));
}

ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer, ls_held_step step,
                                   void *user, ls_op *out_op) {
  LS_RETURN_IF_ERROR(ls_optimizer_count_steps(optimizer));
  turn t = {step, user, ls_add_scalar(ls_variable_read(optimizer->calls), 1)};
  const ls_tensor due = ls_greater_equal(
      t.calls, ls_scalar_i64(LS_DTYPE_I64, optimizer->accumulate));
  const ls_nest calls = ls_cond(due, take_step, go_on, &t);
  const ls_status status = ls_nest_status(calls);
  if (ls_status_is_ok(status))
    *out_op = ls_tensor_op(
        ls_variable_assign(optimizer->calls, ls_nest_tensor(calls, 0)));
  ls_nest_release(calls);
  return status;
}

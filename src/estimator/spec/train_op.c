// SPDX-License-Identifier: Apache-2.0
// What models train by.
#include "base/runtime_internal.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/ops.h"

static ls_status train_op_make(ls_optimizer *optimizer, ls_tensor loss,
                               ls_op *out_op) {
  ls_variable *step = NULL;
  if (optimizer == NULL)
    return ls_invalid_argument("a train op needs an optimizer");
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  const ls_op trained = ls_optimizer_minimize(optimizer, loss);
  const ls_tensor one = ls_op_is_failed(trained)
                            ? ls_failed_tensor()
                            : ls_scalar_i64(LS_DTYPE_I64, 1);
  // A replica that went on would meet the others at another place than they
  // are at, or with nothing, and that would be told in place of the cause.
  if (ls_tensor_is_failed(one)) return ls_graph_take_error(ls_graph_current());
  const ls_op ops[] = {trained,
                       ls_tensor_op(ls_variable_assign_add(step, one))};
  *out_op = ls_group(ops, 2, "train_op");
  return ls_ok();
}

ls_op ls_train_op(ls_optimizer *optimizer, ls_tensor loss) {
  ls_op made = {0};
  ls_trial trial;
  ls_trial_begin(&trial);
  const ls_status status =
      ls_trial_end(&trial, train_op_make(optimizer, loss, &made));
  return ls_status_is_ok(status)
             ? made
             : ls_tensor_op(ls_make_failed("train_op", status));
}

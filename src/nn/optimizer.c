// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizer.h"

#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/make.h"
#include "graph/variable.h"
#include "lockstep/gradients.h"
#include "lockstep/strategy.h"
#include "nn/reads.h"

// ---- Lifetime --------------------------------------------------------------
static void destroy_optimizer(ls_object *object) {
  ls_optimizer *optimizer = (ls_optimizer *)object;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&optimizer->slots, &at, &item);) {
    ls_variable **slots = item.value;
    for (size_t i = 0; i < optimizer->rule->num_slots; ++i)
      ls_variable_release(slots[i]);
    ls_release(optimizer->allocator, slots);
  }
  ls_map_deinit(&optimizer->slots);
  ls_variable_release(optimizer->step);
  ls_release(optimizer->allocator, optimizer);
}

static const ls_object_type optimizer_type = {.name = "optimizer",
                                              .destroy = destroy_optimizer};

ls_status ls_optimizer_make(const ls_optimizer_rule *rule,
                            ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  ls_allocator *allocator = ls_current_allocator();
  ls_optimizer *optimizer = ls_new(allocator, ls_optimizer);
  if (optimizer == NULL) return ls_out_of_memory();
  ls_object_init(&optimizer->object, &optimizer_type);
  optimizer->allocator = allocator;
  optimizer->rule = rule;
  ls_map_init(&optimizer->slots, allocator);
  *out_optimizer = optimizer;
  return ls_ok();
}

ls_optimizer *ls_optimizer_retain(ls_optimizer *optimizer) {
  return ls_object_retain(optimizer);
}

void ls_optimizer_release(ls_optimizer *optimizer) {
  ls_object_release(optimizer);
}

// ---- Slots -----------------------------------------------------------------
static ls_status create_slots(const ls_optimizer *optimizer,
                              ls_variable *variable, ls_variable **slots) {
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", ls_variable_name(variable));
  LS_NAME_SCOPE(scope) {
    for (size_t i = 0; i < optimizer->rule->num_slots; ++i)
      LS_RETURN_IF_ERROR(ls_variable_create(
          &(ls_variable_options){.name = optimizer->rule->slot_names[i],
                                 .dtype = ls_variable_dtype(variable),
                                 .shape = ls_variable_shape(variable),
                                 .trainable = LS_FLAG_OFF},
          &slots[i]));
  }
  return ls_ok();
}

// The slots of a variable, made when it is first moved. NULL when there is
// nothing to remember.
static ls_status slots_of(ls_optimizer *optimizer, ls_variable *variable,
                          ls_variable ***out_slots) {
  *out_slots = ls_map_find_u64(&optimizer->slots, variable->id);
  const size_t count = optimizer->rule->num_slots;
  if (*out_slots != NULL || count == 0) return ls_ok();
  ls_variable **slots =
      ls_new_array(optimizer->allocator, ls_variable *, count);
  if (slots == NULL) return ls_out_of_memory();
  ls_status status = create_slots(optimizer, variable, slots);
  if (ls_status_is_ok(status) &&
      !ls_map_insert_u64(&optimizer->slots, variable->id, slots))
    status = ls_out_of_memory();
  if (!ls_status_is_ok(status)) {
    for (size_t i = 0; i < count; ++i)
      ls_variable_release(slots[i]);
    ls_release(optimizer->allocator, slots);
    return status;
  }
  *out_slots = slots;
  return ls_ok();
}

// ---- Applying --------------------------------------------------------------
// The gradient of the whole batch from that of this replica's part: the mean,
// which is exact while all parts have the same number of examples. Weights for
// parts that differ belong here.
static ls_tensor global_gradient(ls_tensor gradient) {
  return ls_num_replicas() > 1 ? ls_all_reduce(LS_REDUCE_MEAN, gradient)
                               : gradient;
}

// This step's learning rate, a failed tensor where it does not change.
static ls_status rate_of(ls_optimizer *optimizer, ls_tensor *out_rate) {
  *out_rate = ls_failed_tensor();
  if (optimizer->decay_steps == 0) return ls_ok();
  if (optimizer->step == NULL)
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){
            .name = "step", .dtype = LS_DTYPE_I64, .trainable = LS_FLAG_OFF},
        &optimizer->step));
  const ls_tensor done =
      ls_convert(ls_variable_read(optimizer->step), LS_DTYPE_F32);
  const double slope =
      -optimizer->learning_rate / (double)optimizer->decay_steps;
  const ls_tensor rate =
      ls_add_scalar(ls_mul_scalar(done, slope), optimizer->learning_rate);
  *out_rate = ls_maximum(rate, ls_scalar(LS_DTYPE_F32, 0));
  return ls_ok();
}

// Moves one variable; writes 1 + num_slots ops.
static ls_status apply_one(ls_optimizer *optimizer, ls_tensor rate,
                           ls_variable *variable, ls_nest gradient,
                           ls_op *out_ops) {
  if (gradient.kind != LS_KIND_TENSOR)
    return LS_STATUS(LS_UNIMPLEMENTED,
                     "the gradient of variable '%s' is no plain tensor: such "
                     "gradients cannot be applied",
                     ls_variable_name(variable));
  ls_variable **slots = NULL;
  LS_RETURN_IF_ERROR(slots_of(optimizer, variable, &slots));
  optimizer->rule->update(optimizer, rate, variable, slots,
                          global_gradient(gradient.as.tensor), out_ops);
  return ls_ok();
}

static ls_op failed(ls_status status) {
  return ls_tensor_op(ls_make_failed("optimizer", status));
}

// One op that runs after all of them: in eager, where all have run, the first
// that failed or the last.
static ls_op join(const ls_optimizer *optimizer, const ls_op *ops,
                  size_t count) {
  if (!ls_graph_is_eager(ls_graph_current()))
    return ls_group(ops, count, optimizer->rule->name);
  for (size_t i = 0; i + 1 < count; ++i) {
    if (ls_tensor_is_failed(ls_op_output(ops[i], 0))) return ops[i];
  }
  return count > 0 ? ops[count - 1] : (ls_op){0};
}

// Adds all updates; writes their ops, room for which is there.
static ls_status apply_all(ls_optimizer *optimizer,
                           ls_variable *const *variables,
                           const ls_nest *gradients, size_t count, ls_op *ops,
                           size_t *out_num_ops) {
  size_t num_ops = 0;
  ls_tensor rate;
  LS_RETURN_IF_ERROR(rate_of(optimizer, &rate));
  for (size_t i = 0; i < count; ++i) {
    if (gradients[i].kind == LS_KIND_NONE) continue;
    LS_RETURN_IF_ERROR(
        apply_one(optimizer, rate, variables[i], gradients[i], ops + num_ops));
    num_ops += 1 + optimizer->rule->num_slots;
  }
  if (num_ops == 0)
    return ls_invalid_argument(
        "none of the %zu variables has a gradient: no path leads from them to "
        "the loss",
        count);
  if (optimizer->step != NULL)
    ops[num_ops++] = ls_tensor_op(ls_variable_assign_add(
        optimizer->step, ls_scalar_i64(LS_DTYPE_I64, 1)));
  *out_num_ops = num_ops;
  return ls_ok();
}

ls_op ls_optimizer_apply(ls_optimizer *optimizer, ls_variable *const *variables,
                         const ls_nest *gradients, size_t count) {
  const size_t room = count * (1 + optimizer->rule->num_slots) + 1;
  ls_op *ops = ls_new_array(optimizer->allocator, ls_op, room);
  if (ops == NULL) return failed(ls_out_of_memory());
  size_t num_ops = 0;
  ls_op result = {0};
  LS_NAME_SCOPE(optimizer->rule->name) {
    ls_status status =
        apply_all(optimizer, variables, gradients, count, ops, &num_ops);
    result = ls_status_is_ok(status) ? join(optimizer, ops, num_ops)
                                     : failed(status);
  }
  ls_release(optimizer->allocator, ops);
  return result;
}

// ---- Minimizing ------------------------------------------------------------
static ls_status check_loss(ls_tensor loss) {
  if (ls_graph_is_eager(ls_graph_current()))
    return ls_failed_precondition(
        "ls_optimizer_minimize works in functions and build graphs; in eager "
        "take the gradients from a tape and give them to ls_optimizer_apply");
  const ls_shape shape = ls_tensor_shape(loss);
  if (ls_dtype_is_float(ls_tensor_dtype(loss)) && shape.rank <= 0)
    return ls_ok();
  return ls_invalid_argument("a loss must be a float scalar, got %s",
                             LS_SHAPE_TEXT(ls_tensor_dtype(loss), shape));
}

static ls_status gradients_of(ls_allocator *allocator, ls_tensor loss,
                              ls_variable *const *variables, size_t count,
                              ls_nest *gradients) {
  ls_nest *xs = ls_new_array(allocator, ls_nest, count);
  if (xs == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    xs[i] = ls_nest_variable(variables[i]);
  const ls_nest y = ls_leaf(loss);
  ls_status status = ls_gradients(&y, 1, xs, count, NULL, gradients);
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(xs[i]);
  ls_release(allocator, xs);
  return status;
}

ls_op ls_optimizer_minimize(ls_optimizer *optimizer, ls_tensor loss) {
  if (loss.ref == 0) return (ls_op){0};  // The graph has its error already.
  ls_allocator *allocator = optimizer->allocator;
  ls_variable **variables = NULL;
  ls_nest *gradients = NULL;
  size_t count = 0;
  ls_op result = {0};
  ls_status status = ls_ok();
  LS_GOTO_IF_ERROR(done, status, check_loss(loss));
  LS_GOTO_IF_ERROR(done, status,
                   ls_reads_find(allocator, loss, &variables, &count));
  if (count == 0) {
    status = ls_invalid_argument(
        "nothing to train: no trainable variable is read on the way to '%s'",
        ls_tensor_name(loss));
    goto done;
  }
  gradients = ls_new_array(allocator, ls_nest, count);
  LS_GOTO_IF_ERROR(done, status, gradients ? ls_ok() : ls_out_of_memory());
  LS_GOTO_IF_ERROR(done, status,
                   gradients_of(allocator, loss, variables, count, gradients));
  result = ls_optimizer_apply(optimizer, variables, gradients, count);
done:
  for (size_t i = 0; gradients != NULL && i < count; ++i)
    ls_nest_release(gradients[i]);
  ls_release(allocator, gradients);
  ls_release(allocator, variables);
  return ls_status_is_ok(status) ? result : failed(status);
}

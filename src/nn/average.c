// SPDX-License-Identifier: Apache-2.0
// Moving averages of variables.
#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "nn/optimizer.h"
#include "nn/own.h"

struct ls_average {
  ls_allocator *allocator;
  char *name;
  double decay;
  size_t count;
  ls_variable **variables, **averages;
  ls_variable *step;  // Number of updates made so far, i64.
};

// ---- Lifetime --------------------------------------------------------------
void ls_average_destroy(ls_average *average) {
  if (average == NULL) return;
  for (size_t i = 0; i < average->count; ++i) {
    if (average->variables != NULL) ls_variable_release(average->variables[i]);
    if (average->averages != NULL) ls_variable_release(average->averages[i]);
  }
  ls_variable_release(average->step);
  ls_release(average->allocator, average->variables);
  ls_release(average->allocator, average->averages);
  ls_release(average->allocator, average->name);
  ls_release(average->allocator, average);
}

static ls_status create_average(const ls_average *average, size_t i) {
  const ls_variable *variable = average->variables[i];
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", ls_variable_name(variable));
  LS_NAME_SCOPE(scope);
  LS_BESIDE_SCOPE(variable);
  return ls_variable_create(
      &(ls_variable_options){.name = average->name,
                             .dtype = ls_variable_dtype(variable),
                             .shape = ls_variable_shape(variable),
                             .trainable = LS_FLAG_OFF},
      &average->averages[i]);
}

static ls_status average_fill(ls_average *average,
                              const ls_average_options *options) {
  ls_allocator *allocator = average->allocator;
  const char *name = options->name != NULL ? options->name : "average";
  average->name = ls_copy_text(allocator, name, strlen(name));
  average->variables = ls_new_array(allocator, ls_variable *, options->count);
  average->averages = ls_new_array(allocator, ls_variable *, options->count);
  if (average->name == NULL || average->variables == NULL ||
      average->averages == NULL)
    return ls_out_of_memory();
  average->count = options->count;
  for (size_t i = 0; i < options->count; ++i)
    average->variables[i] = ls_variable_retain(options->variables[i]);
  for (size_t i = 0; i < options->count; ++i)
    LS_RETURN_IF_ERROR(create_average(average, i));
  // Uses the strategy of the variables. A replica that runs op by op counts its
  // own updates.
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", average->name);
  LS_NAME_SCOPE(scope);
  LS_BESIDE_SCOPE(average->variables[0]);
  return ls_variable_create(&(ls_variable_options){.name = "step",
                                                   .dtype = LS_DTYPE_I64,
                                                   .trainable = LS_FLAG_OFF},
                            &average->step);
}

ls_status ls_average_create(const ls_average_options *options,
                            ls_average **out_average) {
  LS_REQUIRE_OUT(out_average, options);
  LS_REQUIRE_EACH(options->variables, options->count);
  const double decay = options->decay != 0 ? options->decay : 0.999;
  LS_RETURN_IF_ERROR(ls_optimizer_check("average", "decay", decay, 1));
  if (options->count == 0)
    return ls_invalid_argument("an average needs at least one variable");
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_average, average);
  average->allocator = allocator;
  average->decay = decay;
  LS_RETURN_IF_ERROR(LS_TRIAL(average_fill(average, options)));
  return ls_hand_over(&average, out_average);
}

size_t ls_average_variables(const ls_average *average, ls_variable **variables,
                            size_t capacity) {
  if (capacity > 0) variables[0] = average->step;
  for (size_t i = 0; i < average->count; ++i)
    if (i + 1 < capacity) variables[i + 1] = average->averages[i];
  return average->count + 1;
}

// ---- Updating --------------------------------------------------------------
// Returns (1 - decay) / (1 - decay^t), an f64 scalar, which is 1 at the first
// update.
static ls_tensor average_share(const ls_average *average, ls_tensor t) {
  const ls_tensor decay = ls_scalar(LS_DTYPE_F64, average->decay);
  const ls_tensor one = ls_scalar(LS_DTYPE_F64, 1);
  return ls_div(ls_sub(one, decay), ls_sub(one, ls_pow(decay, t)));
}

static void update_all(ls_average *average, ls_op *ops) {
  const ls_tensor t =
      ls_variable_assign_add(average->step, ls_scalar_i64(LS_DTYPE_I64, 1));
  const ls_tensor part = average_share(average, ls_convert(t, LS_DTYPE_F64));
  for (size_t i = 0; i < average->count; ++i) {
    const ls_tensor old = ls_variable_read(average->averages[i]);
    const ls_tensor w = ls_variable_read(average->variables[i]);
    ops[i] = ls_tensor_op(
        ls_variable_assign(average->averages[i],
                           ls_add(old, ls_update_scale(ls_sub(w, old), part))));
  }
  ops[average->count] = ls_tensor_op(t);
}

static void swap_all(ls_average *average, ls_op *ops) {
  for (size_t i = 0; i < average->count; ++i) {
    const ls_tensor mean = ls_variable_read(average->averages[i]);
    const ls_tensor w = ls_variable_read(average->variables[i]);
    ops[2 * i] = ls_tensor_op(ls_variable_assign(average->variables[i], mean));
    ops[2 * i + 1] = ls_tensor_op(ls_variable_assign(average->averages[i], w));
  }
}

// Adds up to two ops for each variable, and groups all of them.
static ls_op add_ops(ls_average *average,
                     void (*add)(ls_average *average, ls_op *ops),
                     size_t count) {
  LS_OWN_ARRAY(average->allocator, ls_op, ops, count);
  if (ops == NULL)
    return ls_tensor_op(ls_make_failed("average", ls_out_of_memory()));
  LS_NAME_SCOPE(average->name);
  add(average, ops);
  return ls_join_ops(ops, count, average->name);
}

ls_op ls_average_update(ls_average *average) {
  LS_MAKE_REQUIRE_FOR_OP(average);
  return add_ops(average, update_all, average->count + 1);
}

ls_op ls_average_swap(ls_average *average) {
  LS_MAKE_REQUIRE_FOR_OP(average);
  return add_ops(average, swap_all, 2 * average->count);
}

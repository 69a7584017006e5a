// SPDX-License-Identifier: Apache-2.0
// Moving averages of variables.
#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "distribute/variables/variable.h"
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
  // For 16-bit variables, whose averages are f32, else NULL: what a swapped
  // variable cannot hold of its average, 0 while they are not swapped.
  ls_variable **rests;
  ls_variable *step;  // Number of updates made so far, i64.
};

// ---- Lifetime --------------------------------------------------------------
void ls_average_destroy(ls_average *average) {
  if (average == NULL) return;
  for (size_t i = 0; i < average->count; ++i) {
    if (average->variables != NULL) ls_variable_release(average->variables[i]);
    if (average->averages != NULL) ls_variable_release(average->averages[i]);
    if (average->rests != NULL) ls_variable_release(average->rests[i]);
  }
  ls_variable_release(average->step);
  ls_release(average->allocator, average->variables);
  ls_release(average->allocator, average->averages);
  ls_release(average->allocator, average->rests);
  ls_release(average->allocator, average->name);
  ls_release(average->allocator, average);
}

static ls_status create_average(const ls_average *average, size_t i) {
  const ls_variable *variable = average->variables[i];
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", ls_variable_name(variable));
  LS_NAME_SCOPE(scope);
  LS_BESIDE_SCOPE(variable);
  const ls_dtype dtype = ls_wide_dtype(ls_variable_dtype(variable));
  ls_variable_options options = {.name = average->name,
                                 .dtype = dtype,
                                 .shape = ls_variable_shape(variable),
                                 .trainable = LS_FLAG_OFF};
  LS_RETURN_IF_ERROR(ls_variable_create(&options, &average->averages[i]));
  if (dtype == ls_variable_dtype(variable)) return ls_ok();
  char rest[LS_MAX_FULL_NAME + 2];
  snprintf(rest, sizeof(rest), "%s_rest", average->name);
  options.name = rest;
  return ls_variable_create(&options, &average->rests[i]);
}

static ls_status average_fill(ls_average *average,
                              const ls_average_options *options) {
  ls_allocator *allocator = average->allocator;
  const char *name = options->name != NULL ? options->name : "average";
  average->name = ls_copy_text(allocator, name, strlen(name));
  average->variables = ls_new_array(allocator, ls_variable *, options->count);
  average->averages = ls_new_array(allocator, ls_variable *, options->count);
  average->rests = ls_new_array(allocator, ls_variable *, options->count);
  if (average->name == NULL || average->variables == NULL ||
      average->averages == NULL || average->rests == NULL)
    return ls_out_of_memory();
  average->count = options->count;
  for (size_t i = 0; i < options->count; ++i)
    average->variables[i] = ls_variable_retain(options->variables[i]);
  for (size_t i = 0; i < options->count; ++i)
    LS_RETURN_IF_ERROR(create_average(average, i));
  // Uses the strategy of the variables.
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
  for (size_t i = 0; i < options->count; ++i)
    if (!ls_dtype_is_float(ls_variable_dtype(options->variables[i])))
      return ls_invalid_argument(
          "an average is of floats, and variable '%s' is %s",
          ls_variable_name(options->variables[i]),
          ls_dtype_name(ls_variable_dtype(options->variables[i])));
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
  size_t count = average->count + 1;
  for (size_t i = 0; i < average->count; ++i) {
    if (average->rests[i] == NULL) continue;
    if (count < capacity) variables[count] = average->rests[i];
    ++count;
  }
  return count;
}

// ---- Updating --------------------------------------------------------------
// Returns (1 - decay) / (1 - decay^t), an f64 scalar, which is 1 at the first
// update.
static ls_tensor average_share(const ls_average *average, ls_tensor t) {
  const ls_tensor decay = ls_scalar(LS_DTYPE_F64, average->decay);
  const ls_tensor one = ls_scalar(LS_DTYPE_F64, 1);
  const ls_tensor corrected = ls_sub(one, ls_pow(decay, t));
  return ls_div(ls_sub(one, decay), corrected);
}

// Returns a variable's value in its average's type.
static ls_tensor read_wide(const ls_average *average, size_t i) {
  return ls_convert(ls_variable_read(average->variables[i]),
                    ls_variable_dtype(average->averages[i]));
}

static size_t update_all(ls_average *average, ls_op *ops) {
  const ls_tensor t = ls_write_common(average->step, LS_OP_ASSIGN_ADD,
                                      ls_scalar_i64(LS_DTYPE_I64, 1));
  const ls_tensor part = average_share(average, ls_convert(t, LS_DTYPE_F64));
  for (size_t i = 0; i < average->count; ++i) {
    const ls_tensor old = ls_variable_read(average->averages[i]);
    const ls_tensor w = read_wide(average, i);
    ops[i] = ls_tensor_op(
        ls_write_common(average->averages[i], LS_OP_ASSIGN,
                        ls_add(old, ls_update_scale(ls_sub(w, old), part))));
  }
  ops[average->count] = ls_tensor_op(t);
  return average->count + 1;
}

static size_t swap_all(ls_average *average, ls_op *ops) {
  size_t count = 0;
  for (size_t i = 0; i < average->count; ++i) {
    ls_variable *variable = average->variables[i], *rest = average->rests[i];
    const ls_tensor mean = ls_variable_read(average->averages[i]);
    const ls_tensor near = ls_convert(mean, ls_variable_dtype(variable));
    ls_tensor w = read_wide(average, i);
    if (rest != NULL) {
      const ls_tensor left = ls_sub(mean, ls_convert(near, ls_tensor_dtype(w)));
      w = ls_add(w, ls_variable_read(rest));
      ops[count++] = ls_tensor_op(ls_write_common(rest, LS_OP_ASSIGN, left));
    }
    ops[count++] = ls_tensor_op(ls_write_common(variable, LS_OP_ASSIGN, near));
    ops[count++] =
        ls_tensor_op(ls_write_common(average->averages[i], LS_OP_ASSIGN, w));
  }
  return count;
}

// Adds up to three ops for each variable, and one, and groups all of them.
static ls_op add_ops(ls_average *average,
                     size_t (*add)(ls_average *average, ls_op *ops)) {
  LS_OWN_ARRAY(average->allocator, ls_op, ops, 3 * average->count + 1);
  if (ops == NULL)
    return ls_tensor_op(ls_make_failed("average", ls_out_of_memory()));
  LS_NAME_SCOPE(average->name);
  return ls_join_ops(ops, add(average, ops), average->name);
}

ls_op ls_average_update(ls_average *average) {
  LS_MAKE_REQUIRE_FOR_OP(average);
  return add_ops(average, update_all);
}

ls_op ls_average_swap(ls_average *average) {
  LS_MAKE_REQUIRE_FOR_OP(average);
  return add_ops(average, swap_all);
}

// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator of strategies whose replicas the step itself calls: it
// is built across replicas, on an element that has a value for each.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/training_loop.h"
#include "tpu/steps/step_context.h"
#include "tpu/steps/steps.h"

typedef struct across {
  ls_strategy *strategy;
  const ls_steps *options;
  ls_step_context *context;
  ls_allocator *allocator;
  ls_step_parts parts;  // Of the outputs, once the step is built.
} across;

// ---- The step --------------------------------------------------------------
static size_t count_ops(ls_nest made) {
  const size_t count = ls_distributed_count(made);
  return count == 0 ? made.kind != LS_KIND_NONE : count;
}

// The ops that a step has returned: one, or those of each replica.
static ls_status steps_across_list_ops(const across *a, ls_nest made,
                                       ls_op *ops) {
  char text[160];
  const size_t count = ls_distributed_count(made);
  for (size_t i = 0; i < count_ops(made); ++i) {
    const ls_nest one = count == 0 ? made : ls_distributed_component(made, i);
    if (one.kind != LS_KIND_OP && one.kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "a step of %s returns an op, a tensor, those of its replicas, or "
          "none; it has returned %s",
          a->strategy->label, ls_nest_print(made, text, sizeof(text)));
    ops[i] = one.kind == LS_KIND_OP ? one.as.op : ls_tensor_op(one.as.tensor);
  }
  return ls_ok();
}

// The values of the outputs behind the ops, then an op behind all.
static ls_status steps_across_list_values(across *a, const ls_op *ops,
                                          size_t num_ops, ls_nest *out_list) {
  LS_OWN_MEMORY(a->allocator, ls_nest, items) = NULL;
  LS_RETURN_IF_ERROR(ls_step_parts_take(&a->parts, a->context));
  items = ls_new_array(a->allocator, ls_nest, a->parts.num_values + 1);
  if (items == NULL) return ls_out_of_memory();
  {
    LS_CONTROL_SCOPE(ops, num_ops);
    for (size_t i = 0; i < a->parts.num_values; ++i)
      items[i] = ls_leaf(ls_identity(a->parts.values[i]));
  }
  items[a->parts.num_values] = ls_nest_op(ls_group(ops, num_ops, "step"));
  return ls_take_nest(
      ls_nest_sequence(LS_KIND_LIST, items, a->parts.num_values + 1), out_list);
}

static ls_nest steps_across_build_step(ls_nest values, void *user) {
  across *a = user;
  (void)values;  // The outputs of the step before: nobody sees them.
  LS_OWN(ls_nest, element) =
      ls_distributed_iterator_get_next(a->options->iterator);
  LS_OWN(ls_nest, made) = ls_none();
  ls_nest list = ls_none();
  ls_status status = ls_nest_status(element);
  if (ls_status_is_ok(status))
    status = ls_take_nest(a->options->fn(a->context, element, a->options->user),
                          &made);
  LS_OWN_ARRAY(a->allocator, ls_op, ops, count_ops(made) + 1);
  if (ls_status_is_ok(status) && ops == NULL) status = ls_out_of_memory();
  if (ls_status_is_ok(status)) status = steps_across_list_ops(a, made, ops);
  if (ls_status_is_ok(status))
    status = steps_across_list_values(a, ops, count_ops(made), &list);
  return ls_status_is_ok(status) ? list : ls_fail(status);
}

// ---- The loop --------------------------------------------------------------
// The values of a leaf: of what has one for each replica, all of them.
static size_t add_initial(ls_nest leaf, ls_nest *items) {
  const size_t count = ls_distributed_count(leaf);
  for (size_t i = 0; items != NULL && i < (count == 0 ? 1 : count); ++i)
    items[i] =
        ls_nest_retain(count == 0 ? leaf : ls_distributed_component(leaf, i));
  return count == 0 ? 1 : count;
}

static ls_status list_initial(const across *a, ls_nest *out_list) {
  const ls_nest initial = a->options->initial;
  const size_t leaves =
      initial.kind == LS_KIND_NONE ? 0 : ls_nest_num_leaves(initial);
  if (leaves == 0) return ls_ok();
  LS_OWN_ARRAY(a->allocator, ls_nest, each, leaves);
  size_t count = 0;
  if (each == NULL) return ls_out_of_memory();
  ls_nest_flatten(initial, each, leaves);
  for (size_t i = 0; i < leaves; ++i)
    count += add_initial(each[i], NULL);
  LS_OWN_ARRAY(a->allocator, ls_nest, items, count);
  ls_status status = items != NULL ? ls_ok() : ls_out_of_memory();
  for (size_t i = 0, at = 0; items != NULL && i < leaves; ++i)
    at += add_initial(each[i], items + at);
  if (items != NULL)
    status =
        ls_take_nest(ls_nest_sequence(LS_KIND_LIST, items, count), out_list);
  return status;
}

static ls_status steps_across_build(across *a, ls_nest *out_made) {
  const ls_opt iterations = a->options->iterations;
  if (!iterations.set || iterations.value == 1)
    return ls_take_nest(steps_across_build_step(ls_none(), a), out_made);
  const ls_training_loop loop = {.body = steps_across_build_step, .user = a};
  LS_OWN(ls_nest, initial) = ls_none();
  LS_RETURN_IF_ERROR(list_initial(a, &initial));
  return ls_training_repeat(iterations.value, &loop, initial, out_made);
}

// What a run makes, and what it gives.
static ls_status steps_across_finish(across *a, ls_nest made) {
  const size_t count = ls_nest_num_leaves(made);
  LS_OWN_ARRAY_OR_RETURN(a->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY_OR_RETURN(a->allocator, ls_op, ops, count);
  ls_nest_flatten(made, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ops[i] = leaves[i].kind == LS_KIND_OP ? leaves[i].as.op
                                          : ls_tensor_op(leaves[i].as.tensor);
  a->context->run_op = ls_group(ops, count, "group_deps");
  return ls_step_parts_give(&a->parts, leaves, a->context);
}

ls_status ls_steps_build_across(ls_strategy *strategy, const ls_steps *options,
                                ls_step_context *context) {
  across a = {.strategy = strategy,
              .options = options,
              .context = context,
              .allocator = ls_current_allocator()};
  LS_OWN(ls_nest, made) = ls_none();
  ls_status status = steps_across_build(&a, &made);
  if (ls_status_is_ok(status)) status = steps_across_finish(&a, made);
  ls_step_parts_drop(&a.parts);
  return status;
}

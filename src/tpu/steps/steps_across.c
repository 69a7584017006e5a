// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator for strategies whose replicas the step calls itself. The
// step is built across replicas, on an element with a value for each.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "tpu/steps/steps.h"

// ---- The step --------------------------------------------------------------
static size_t count_ops(ls_nest made) {
  const size_t count = ls_distributed_count(made);
  return count == 0 ? made.kind != LS_KIND_NONE : count;
}

// Lists the ops that a step returned: one op, or one per replica.
static ls_status list_ops(const ls_steps_build *build, ls_nest made,
                          ls_op *ops) {
  char text[160];
  const size_t count = ls_distributed_count(made);
  for (size_t i = 0; i < count_ops(made); ++i) {
    const ls_nest one = count == 0 ? made : ls_distributed_component(made, i);
    if (one.kind != LS_KIND_OP && one.kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "a step of %s must return an op, a tensor, those of its replicas, or "
          "none; it has returned %s",
          build->strategy->label, ls_nest_print(made, text, sizeof(text)));
    ops[i] = one.kind == LS_KIND_OP ? one.as.op : ls_tensor_op(one.as.tensor);
  }
  return ls_ok();
}

// Lists the outputs' values, which wait for the ops, and then one op that waits
// for everything.
static ls_status list_values(ls_steps_build *build, const ls_op *ops,
                             size_t num_ops, ls_nest *out_list) {
  ls_step_parts *parts = &build->parts;
  LS_OWN(ls_nest_builder, list) = {0};
  LS_RETURN_IF_ERROR(ls_step_parts_take(parts, build->context));
  {
    LS_CONTROL_SCOPE(ops, num_ops);
    for (size_t i = 0; i < parts->num_values; ++i)
      ls_nest_builder_append(&list, ls_leaf(ls_identity(parts->values[i])));
  }
  ls_nest_builder_append(&list, ls_nest_op(ls_group(ops, num_ops, "step")));
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status across_build_step(ls_steps_build *build, ls_nest *out_list) {
  const ls_steps *options = build->options;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_distributed_iterator_get_next(options->iterator), &element));
  LS_RETURN_IF_ERROR(
      ls_take_nest(options->fn(build->context, element, options->user), &made));
  LS_OWN_ARRAY_OR_RETURN(build->allocator, ls_op, ops, count_ops(made) + 1);
  LS_RETURN_IF_ERROR(list_ops(build, made, ops));
  return list_values(build, ops, count_ops(made), out_list);
}

// Lists the leaves' values; a distributed leaf contributes all its components.
static ls_status across_list_initial(const ls_steps_build *build,
                                     const ls_nest *leaves, size_t count,
                                     ls_nest *out_list) {
  LS_OWN(ls_nest_builder, list) = {0};
  (void)build;
  for (size_t i = 0; i < count; ++i) {
    const size_t parts = ls_distributed_count(leaves[i]);
    for (size_t r = 0; r < (parts == 0 ? 1 : parts); ++r)
      ls_nest_builder_append(
          &list,
          ls_nest_retain(parts == 0 ? leaves[i]
                                    : ls_distributed_component(leaves[i], r)));
  }
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status across_give(ls_steps_build *build, ls_nest *leaves,
                             size_t count) {
  (void)count;
  return ls_step_parts_give(&build->parts, leaves, build->context);
}

const ls_steps_kind ls_steps_across = {across_build_step, across_list_initial,
                                       across_give};

// SPDX-License-Identifier: Apache-2.0
//
// Other forms of replicated computations: over shards of the inputs, and with
// one replica.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "graph/context.h"
#include "graph/trial.h"
#include "lockstep/shard.h"

// ---- Options ---------------------------------------------------------------
typedef struct sharding {
  const ls_shard_options *options;  // Never NULL.
  ls_allocator *allocator;
  size_t shards;
} sharding;

static ls_status check_shards(sharding *s) {
  const ls_opt wanted = s->options->num_shards;
  const int64_t shards = wanted.set ? wanted.value : 1;
  if (shards < 1 || shards > LS_MAX_REPLICAS)
    return ls_invalid_argument("num_shards must be a positive integer of at "
                               "most %d, is %lld",
                               LS_MAX_REPLICAS, (long long)shards);
  s->shards = (size_t)shards;
  return ls_ok();
}

static int axis_of(const int *axes, size_t index) {
  return axes == NULL ? 0 : axes[index];
}

// ---- Inputs ----------------------------------------------------------------
static ls_status forms_check_inputs(const sharding *s, ls_nest inputs) {
  char text[160];
  const ls_shard_options *o = s->options;
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  if (inputs.kind != LS_KIND_NONE && inputs.kind != LS_KIND_LIST)
    return ls_invalid_argument("the inputs of a sharded computation are a "
                               "list of tensors or none, got %s",
                               ls_nest_print(inputs, text, sizeof(text)));
  const size_t count = ls_nest_count(inputs);
  for (size_t i = 0; i < count; ++i)
    if (ls_nest_item(inputs, i).kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "input %zu of a sharded computation is %s, not a tensor", i,
          ls_nest_print(ls_nest_item(inputs, i), text, sizeof(text)));
  if (o->input_axes != NULL && o->num_input_axes != count)
    return ls_invalid_argument("%zu axes for %zu inputs", o->num_input_axes,
                               count);
  return ls_ok();
}

static ls_status check_input(const sharding *s, ls_tensor x, size_t index) {
  const int axis = axis_of(s->options->input_axes, index);
  const ls_shape shape = ls_tensor_shape(x);
  if (ls_tensor_is_failed(x))
    return ls_invalid_argument("input %zu is a failed tensor", index);
  const bool is_known =
      shape.rank >= 0 && axis >= 0 && axis < shape.rank && shape.dim[axis] >= 0;
  if (!is_known)
    return ls_invalid_argument(
        "input %zu, %s, cannot be cut along axis %d: a dimension of known size "
        "is needed",
        index, LS_SHAPE_TEXT(ls_tensor_dtype(x), shape), axis);
  if (shape.dim[axis] % (int64_t)s->shards == 0) return ls_ok();
  return ls_invalid_argument("input %zu: dimension %d of size %lld cannot be "
                             "cut into %zu shards",
                             index, axis, (long long)shape.dim[axis],
                             s->shards);
}

// Lists shard number `shard` of each input.
static ls_nest forms_parts_of(const sharding *s, ls_nest inputs, size_t shard) {
  const size_t count = ls_nest_count(inputs);
  LS_OWN(ls_nest_builder, parts) = {0};
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor x = ls_nest_tensor(inputs, i);
    const int axis = axis_of(s->options->input_axes, i);
    const int64_t size = ls_tensor_shape(x).dim[axis] / (int64_t)s->shards;
    const int64_t first = (int64_t)shard * size;
    ls_nest_builder_append(
        &parts, s->shards == 1
                    ? ls_leaf(x)
                    : ls_leaf(ls_slice_axis(x, axis, first, first + size)));
  }
  return ls_nest_builder_finish(&parts, LS_KIND_LIST);
}

static ls_status cut_inputs(const sharding *s, ls_nest inputs,
                            ls_nest *out_inputs) {
  for (size_t i = 0; i < ls_nest_count(inputs); ++i)
    LS_RETURN_IF_ERROR(check_input(s, ls_nest_tensor(inputs, i), i));
  LS_OWN(ls_nest_builder, each) = {0};
  for (size_t shard = 0; shard < s->shards; ++shard)
    ls_nest_builder_append(&each, forms_parts_of(s, inputs, shard));
  *out_inputs = ls_nest_builder_finish(&each, LS_KIND_LIST);
  return ls_nest_status(*out_inputs);
}

// ---- Outputs ---------------------------------------------------------------
static ls_status check_outputs(const sharding *s, size_t count) {
  const ls_shard_options *o = s->options;
  if (o->output_axes != NULL && o->num_output_axes != count)
    return ls_invalid_argument("%zu axes for %zu outputs", o->num_output_axes,
                               count);
  if (o->outputs_from_all != NULL && o->num_outputs_from_all != 1 &&
      o->num_outputs_from_all != count)
    return ls_invalid_argument("outputs_from_all has %zu entries for %zu "
                               "outputs",
                               o->num_outputs_from_all, count);
  return ls_ok();
}

static bool is_joined(const ls_shard_options *o, size_t index) {
  if (o->outputs_from_all == NULL) return true;
  return o->outputs_from_all[o->num_outputs_from_all == 1 ? 0 : index];
}

static ls_tensor forms_join(const sharding *s, ls_nest outputs, size_t index,
                            ls_tensor *room) {
  const ls_nest first = ls_nest_item(outputs, 0);
  if (!is_joined(s->options, index)) return ls_nest_tensor(first, index);
  const bool scalars = ls_tensor_shape(ls_nest_tensor(first, index)).rank == 0;
  for (size_t shard = 0; shard < s->shards; ++shard) {
    const ls_tensor x = ls_nest_tensor(ls_nest_item(outputs, shard), index);
    room[shard] = scalars ? ls_reshape(x, LS_SHAPE(1)) : x;
  }
  return ls_concatenate(room, s->shards,
                        scalars ? 0 : axis_of(s->options->output_axes, index));
}

// Joins the shards' outputs; `outputs` has a list for each shard.
static ls_status join_outputs(const sharding *s, ls_nest outputs,
                              ls_nest *out_joined) {
  const ls_nest first = ls_nest_item(outputs, 0);
  if (first.kind == LS_KIND_OP) {
    *out_joined = ls_nest_sequence(LS_KIND_LIST, &first, 1);
    return check_outputs(s, 0);
  }
  const size_t count = ls_nest_count(first);
  if (first.kind != LS_KIND_LIST || count != ls_nest_num_leaves(first))
    return ls_invalid_argument(
        "a sharded computation returns a value or a list of values");
  LS_RETURN_IF_ERROR(check_outputs(s, count));
  LS_OWN_ARRAY_OR_RETURN(s->allocator, ls_tensor, room, s->shards);
  LS_OWN(ls_nest_builder, joined) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&joined, ls_leaf(forms_join(s, outputs, i, room)));
  *out_joined = ls_nest_builder_finish(&joined, LS_KIND_LIST);
  return ls_nest_status(*out_joined);
}

// ---- The calls -------------------------------------------------------------
static ls_status shard_here(sharding *s, ls_callback fn, void *user,
                            ls_nest inputs, ls_tensor *compile_status,
                            ls_nest *outputs) {
  LS_OWN(ls_nest, cut) = ls_none();
  LS_OWN(ls_nest, each) = ls_none();
  LS_RETURN_IF_ERROR(check_shards(s));
  LS_RETURN_IF_ERROR(forms_check_inputs(s, inputs));
  LS_RETURN_IF_ERROR(cut_inputs(s, inputs, &cut));
  const ls_replicate_options *o = s->options->replicate;
  LS_RETURN_IF_ERROR(compile_status == NULL
                         ? ls_replicate(fn, user, cut, o, &each)
                         : ls_split_compile_and_replicate(
                               fn, user, cut, o, compile_status, &each));
  LS_RETURN_IF_ERROR(join_outputs(s, each, outputs));
  return ls_graph_error(ls_graph_current());
}

static ls_status shard(ls_callback fn, void *user, ls_nest inputs,
                       const ls_shard_options *options,
                       ls_tensor *compile_status, ls_nest *outputs) {
  if (options != NULL) {
    const struct {
      const void *items;
      size_t count;
      const char *name;
    } lists[] = {
        {options->input_axes, options->num_input_axes, "input_axes"},
        {options->output_axes, options->num_output_axes, "output_axes"},
        {options->outputs_from_all, options->num_outputs_from_all,
         "outputs_from_all"}};
    for (size_t i = 0; i < LS_COUNT_OF(lists); ++i)
      if (lists[i].items == NULL && lists[i].count > 0)
        return ls_invalid_argument("%zu %s at NULL", lists[i].count,
                                   lists[i].name);
  }
  static const ls_shard_options defaults;
  sharding s = {.options = options != NULL ? options : &defaults,
                .allocator = ls_current_allocator()};
  ls_trial trial;
  ls_trial_begin(&trial);
  ls_nest made = ls_none();
  const ls_status status = ls_trial_end_with(
      &trial, shard_here(&s, fn, user, inputs, compile_status, &made), &made);
  if (!ls_status_is_ok(status) && compile_status != NULL)
    *compile_status = ls_failed_tensor();
  *outputs = made;
  return status;
}

ls_status ls_shard(ls_callback fn, void *user, ls_nest inputs,
                   const ls_shard_options *options, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(fn);
  return shard(fn, user, inputs, options, NULL, outputs);
}

ls_status ls_split_compile_and_shard(ls_callback fn, void *user, ls_nest inputs,
                                     const ls_shard_options *options,
                                     ls_tensor *compile_status,
                                     ls_nest *outputs) {
  LS_REQUIRE_OUT(compile_status);
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(fn);
  return shard(fn, user, inputs, options, compile_status, outputs);
}

ls_status ls_batch_parallel(ls_callback fn, void *user, ls_nest inputs,
                            int64_t num_shards,
                            const ls_replicate_options *options,
                            ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(fn);
  return shard(fn, user, inputs,
               &(ls_shard_options){.num_shards = LS_SOME(num_shards),
                                   .replicate = options},
               NULL, outputs);
}

ls_status ls_rewrite(ls_callback fn, void *user, ls_nest inputs,
                     const ls_replicate_options *options, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(fn);
  char text[160];
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  if (inputs.kind != LS_KIND_NONE && inputs.kind != LS_KIND_LIST &&
      inputs.kind != LS_KIND_TUPLE)
    return ls_invalid_argument("the inputs of a rewritten computation are a "
                               "list or a tuple or none, got %s",
                               ls_nest_print(inputs, text, sizeof(text)));
  const bool has_inputs = inputs.kind != LS_KIND_NONE;
  const ls_nest one = ls_nest_retain(inputs);
  LS_OWN(ls_nest, all) =
      has_inputs ? ls_nest_sequence(LS_KIND_LIST, &one, 1) : ls_none();
  LS_OWN(ls_nest, each) = ls_none();
  LS_RETURN_IF_ERROR(ls_replicate(fn, user, all, options, &each));
  *outputs = ls_nest_retain(ls_nest_item(each, 0));
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
// Outputs of steps: sets them, splits them into plain values and builds them
// again.
#include "tpu/steps/steps.h"

#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/values/values.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "tpu/strategy/strategy.h"

// ---- The object ------------------------------------------------------------
static void step_context_destroy(ls_object *object) {
  ls_step_context *self = (ls_step_context *)object;
  ls_nest_release(self->outputs);
  ls_nest_release(self->reductions);
  ls_nest_release(self->others);
  ls_release(self->allocator, self);
}

static const ls_object_type context_type = {.name = "context of steps",
                                            .destroy = step_context_destroy};

static ls_status empty_dict(ls_nest *dict) {
  return ls_nest_give(ls_nest_dict("", NULL, NULL, 0), dict);
}

ls_status ls_step_context_make(ls_step_context **out_context) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_step_context, self);
  ls_object_init(&self->object, &context_type);
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(empty_dict(&self->outputs));
  LS_RETURN_IF_ERROR(empty_dict(&self->reductions));
  LS_RETURN_IF_ERROR(empty_dict(&self->others));
  return ls_hand_over(&self, out_context);
}

LS_COUNTED(ls_step_context)

ls_op ls_step_context_run_op(const ls_step_context *context) {
  return context != NULL ? context->run_op : (ls_op){0};
}

ls_nest ls_step_context_outputs(const ls_step_context *context) {
  if (context == NULL)
    return ls_fail(ls_null_argument("ls_step_context_outputs", "context"));
  return ls_nest_retain(context->outputs);
}

ls_nest ls_step_context_non_tensor_outputs(const ls_step_context *context) {
  if (context == NULL)
    return ls_fail(
        ls_null_argument("ls_step_context_non_tensor_outputs", "context"));
  return ls_nest_retain(context->others);
}

// ---- Setting ---------------------------------------------------------------
// Sets `item`, which is taken over, under the key `name` of a dict.
static ls_status put_item(ls_nest *dict, const char *name, ls_nest item) {
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < ls_nest_count(*dict); ++i)
    if (strcmp(ls_nest_key(*dict, i), name) != 0)
      ls_nest_builder_append_named(&items, ls_nest_key(*dict, i),
                                   ls_nest_retain(ls_nest_item(*dict, i)));
  ls_nest_builder_append_named(&items, name, item);
  return ls_nest_give(ls_nest_builder_finish(&items, LS_KIND_DICT), dict);
}

static ls_status put_output(ls_step_context *self, const char *name,
                            ls_nest output, ls_opt reduce) {
  LS_RETURN_IF_ERROR(
      put_item(&self->reductions, name,
               reduce.set ? ls_nest_i64(reduce.value) : ls_none()));
  return put_item(&self->outputs, name, ls_nest_retain(output));
}

typedef struct setting {
  ls_step_context *context;
  const char *name;
  ls_opt reduce;
} setting;

static ls_status set_between(ls_strategy *strategy, const setting *s,
                             ls_nest output) {
  if (!s->reduce.set) return put_output(s->context, s->name, output, s->reduce);
  LS_OWN(ls_nest, reduced) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_reduce(strategy, (ls_reduce_op)s->reduce.value,
                                        output, &reduced));
  return put_output(s->context, s->name, reduced, s->reduce);
}

static ls_nest merge_output(ls_strategy *strategy, ls_nest args, void *user) {
  LS_RETURN_FAILED_IF_ERROR(set_between(strategy, user, ls_nest_item(args, 0)));
  return ls_none();
}

// Makes a tuple of one value per replica. In a TPU strategy, whose callback is
// called once for all replicas, the tuple has a single value.
static ls_status list_given(ls_strategy *strategy, ls_nest given,
                            ls_nest *out_values) {
  if (ls_tpu_strategy_of(strategy) != NULL || ls_distributed_count(given) > 0)
    return ls_strategy_results(strategy, given, false, out_values);
  const size_t count = (size_t)ls_strategy_num_replicas(strategy);
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t r = 0; r < count; ++r)
    ls_nest_builder_append(&items,
                           // The value is the same on all replicas and is
                           // stored once.
                           ls_nest_retain(given));
  return ls_take_nest(ls_nest_builder_finish(&items, LS_KIND_TUPLE),
                      out_values);
}

static ls_nest merge_other(ls_strategy *strategy, ls_nest args, void *user) {
  const setting *s = user;
  ls_nest values = ls_none();
  LS_RETURN_FAILED_IF_ERROR(
      list_given(strategy, ls_nest_item(args, 0), &values));
  LS_RETURN_FAILED_IF_ERROR(put_item(&s->context->others, s->name, values));
  return ls_none();
}

// Sets an output in a merge call: all replicas make the call, and it sets the
// output once for all.
static ls_status merge(ls_merge_function function, setting *s, ls_nest output) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(output));
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_OWN(ls_nest, made) =
      ls_replica_merge_call(ls_replica_context(), function, args, s);
  return ls_nest_status(made);
}

static ls_status step_context_check_reduce(const char *name, ls_opt reduce) {
  if (!reduce.set || reduce.value == LS_REDUCE_SUM ||
      reduce.value == LS_REDUCE_MEAN)
    return ls_ok();
  return ls_invalid_argument("output '%s' of a step is to be reduced by %lld: "
                             "LS_REDUCE_SUM and LS_REDUCE_MEAN are possible",
                             name, (long long)reduce.value);
}

ls_status ls_step_context_set_output(ls_step_context *context, const char *name,
                                     ls_nest output, ls_opt reduce) {
  LS_REQUIRE(context, name);
  LS_RETURN_IF_ERROR(ls_nest_status(output));
  LS_RETURN_IF_ERROR(step_context_check_reduce(name, reduce));
  setting s = {context, name, reduce};
  if (ls_in_cross_replica_context())
    return set_between(ls_strategy_current(), &s, output);
  if (!reduce.set)
    return ls_invalid_argument(
        "output '%s' of a step is set in a replica without a reduction: give "
        "LS_REDUCE_SUM or LS_REDUCE_MEAN",
        name);
  return merge(merge_output, &s, output);
}

ls_status ls_step_context_set_non_tensor_output(ls_step_context *context,
                                                const char *name,
                                                ls_nest output) {
  LS_REQUIRE(context, name);
  LS_RETURN_IF_ERROR(ls_nest_status(output));
  setting s = {context, name, {0}};
  if (ls_in_cross_replica_context())
    return put_item(&context->others, name, ls_nest_retain(output));
  return merge(merge_other, &s, output);
}

ls_status ls_step_context_set_outputs(ls_step_context *context,
                                      ls_nest outputs) {
  LS_REQUIRE(context);
  LS_RETURN_IF_ERROR(ls_nest_status(outputs));
  if (outputs.kind != LS_KIND_DICT)
    return ls_invalid_argument("the outputs of a step are a dict, got %s",
                               LS_NEST_TEXT(outputs));
  LS_RETURN_IF_ERROR(empty_dict(&context->reductions));
  return ls_nest_give(ls_nest_retain(outputs), &context->outputs);
}

// ---- Parts -----------------------------------------------------------------
void ls_step_parts_drop(ls_step_parts *parts) {
  ls_release(parts->allocator, parts->values);
  ls_release(parts->allocator, parts->sizes);
  *parts = (ls_step_parts){0};
}

// ---- Names -----------------------------------------------------------------
// An output and its name; outputs are sorted by name.
typedef struct named {
  const char *name;
  ls_nest output;
  bool is_reduced;
} named;

static named output_at(const ls_step_context *context, size_t i) {
  const size_t index = ls_nest_sorted_position(context->outputs, i);
  const char *name = ls_nest_key(context->outputs, index);
  return (named){name, ls_nest_item(context->outputs, index),
                 ls_nest_find(context->reductions, name).kind != LS_KIND_NONE};
}

// ---- Split into values -----------------------------------------------------
static ls_status take_leaf(ls_step_parts *parts, const named *n, ls_nest leaf) {
  const size_t count = ls_distributed_count(leaf);
  const size_t taken = count == 0 || n->is_reduced ? 1 : count;
  if (!LS_GROW(parts->allocator, parts->sizes, parts->sizes_capacity,
               parts->num_leaves + 1) ||
      !LS_GROW(parts->allocator, parts->values, parts->values_capacity,
               parts->num_values + taken))
    return ls_out_of_memory();
  parts->sizes[parts->num_leaves++] = count == 0 || n->is_reduced ? 0 : count;
  for (size_t i = 0; i < taken; ++i) {
    const ls_nest one = ls_distributed_component(leaf, i);
    ls_tensor *value = &parts->values[parts->num_values];
    LS_RETURN_IF_ERROR(ls_status_annotate(ls_distributed_as_tensor(one, value),
                                          "output '%s' of a step", n->name));
    ++parts->num_values;
  }
  return ls_ok();
}

ls_status ls_step_parts_take(ls_step_parts *parts,
                             const ls_step_context *context) {
  ls_step_parts_drop(parts);
  parts->allocator = context->allocator;
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    const size_t leaves = ls_nest_num_leaves(n.output);
    LS_OWN_ARRAY_OR_RETURN(context->allocator, ls_nest, each, leaves);
    ls_nest_flatten(n.output, each, leaves);
    for (size_t k = 0; k < leaves; ++k)
      LS_RETURN_IF_ERROR(take_leaf(parts, &n, each[k]));
  }
  return ls_ok();
}

// ---- Build from values -----------------------------------------------------
static ls_nest step_parts_give_leaf(size_t size, const ls_nest *values,
                                    ls_nest *room) {
  if (size == 0) return ls_nest_retain(values[0]);
  for (size_t i = 0; i < size; ++i)
    room[i] = ls_nest_retain(values[i]);
  return ls_nest_distributed(LS_PER_REPLICA, room, size);
}

typedef struct place {
  size_t leaf, value;
} place;

static ls_nest give_output(const ls_step_parts *parts, const ls_nest *values,
                           ls_nest output, place *at, ls_nest *room) {
  const size_t count = ls_nest_num_leaves(output);
  LS_OWN_ARRAY(parts->allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    const size_t size = parts->sizes[at->leaf++];
    leaves[i] = step_parts_give_leaf(size, values + at->value, room);
    at->value += size == 0 ? 1 : size;
  }
  return ls_nest_pack(output, leaves, count);
}

ls_status ls_step_parts_give(const ls_step_parts *parts, const ls_nest *values,
                             ls_step_context *context) {
  LS_OWN_ARRAY_OR_RETURN(context->allocator, ls_nest, room,
                         parts->num_values + 1);
  LS_OWN(ls_nest_builder, items) = {0};
  place at = {0};
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    ls_nest_builder_append_named(
        &items, n.name, give_output(parts, values, n.output, &at, room));
  }
  return ls_nest_give(ls_nest_builder_finish(&items, LS_KIND_DICT),
                      &context->outputs);
}

// ---- Outputs of a replicated computation -----------------------------------
// Reorders values from replica by replica to leaf by leaf.
static void sort_values(const ls_step_context *context, const ls_nest *values,
                        size_t leaves, size_t replicas, ls_step_parts *parts,
                        ls_nest *sorted) {
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    const size_t size = n.is_reduced ? 0 : replicas;
    for (size_t k = ls_nest_num_leaves(n.output); k > 0; --k) {
      const ls_nest *value = values + parts->num_leaves;
      parts->sizes[parts->num_leaves++] = size;
      for (size_t r = 0; r < (size == 0 ? 1 : size); ++r)
        sorted[parts->num_values++] = value[r * leaves];
    }
  }
}

ls_status ls_step_context_give(ls_step_context *context, const ls_nest *values,
                               size_t count, size_t replicas) {
  ls_allocator *allocator = context->allocator;
  if (count == 0)
    return ls_nest_give(ls_nest_dict("", NULL, NULL, 0), &context->outputs);
  LS_OWN(ls_step_parts, parts) = {.allocator = allocator};
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, sorted, count);
  LS_SET_ARRAY_OR_RETURN(allocator, size_t, parts.sizes, count / replicas);
  sort_values(context, values, count / replicas, replicas, &parts, sorted);
  return ls_step_parts_give(&parts, sorted, context);
}

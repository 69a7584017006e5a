// SPDX-License-Identifier: Apache-2.0
//
// Other forms of replicated computations: over shards of the inputs, and with
// one replica.
#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/gather/gather.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "graph/walk.h"
#include "lockstep/shard.h"
#include "tpu/pod/pod.h"

// ---- Options ---------------------------------------------------------------
typedef struct sharding {
  const ls_shard_options *options;  // Never NULL.
  ls_allocator *allocator;
  size_t shards;
} sharding;

static int axis_of(const int *axes, size_t index) {
  return axes == NULL ? 0 : axes[index];
}

// ---- Inputs ----------------------------------------------------------------
static ls_status forms_check_inputs(const sharding *s, ls_nest inputs) {
  const ls_shard_options *o = s->options;
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  if (inputs.kind != LS_KIND_NONE && inputs.kind != LS_KIND_LIST)
    return ls_invalid_argument("the inputs of a sharded computation are a list "
                               "of tensors or none, got %s",
                               LS_NEST_TEXT(inputs));
  const size_t count = ls_nest_count(inputs);
  for (size_t i = 0; i < count; ++i)
    if (ls_nest_item(inputs, i).kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "input %zu of a sharded computation is %s, not a tensor", i,
          LS_NEST_TEXT(ls_nest_item(inputs, i)));
  if (o->input_axes != NULL && o->num_input_axes != count)
    return ls_invalid_argument("%zu axes for %zu inputs", o->num_input_axes,
                               count);
  return ls_ok();
}

static ls_status check_input(const sharding *s, ls_tensor x, size_t index) {
  const int axis = ls_make_axis(x, axis_of(s->options->input_axes, index));
  const ls_shape shape = ls_tensor_shape(x);
  if (ls_tensor_is_failed(x))
    return ls_invalid_argument("input %zu is a failed tensor", index);
  const bool is_known =
      shape.rank >= 0 && axis >= 0 && axis < shape.rank && shape.dim[axis] >= 0;
  if (!is_known)
    return ls_invalid_argument("input %zu, %s, cannot be cut along axis %d: a "
                               "dimension of known size is needed",
                               index, LS_SHAPE_TEXT(ls_tensor_dtype(x), shape),
                               axis);
  if (shape.dim[axis] % (int64_t)s->shards == 0) return ls_ok();
  return ls_invalid_argument(
      "input %zu: dimension %d of size %lld cannot be cut into %zu shards",
      index, axis, (long long)shape.dim[axis], s->shards);
}

// Lists shard number `shard` of each input.
static ls_nest forms_parts_of(const sharding *s, ls_nest inputs, size_t shard) {
  const size_t count = ls_nest_count(inputs);
  LS_OWN(ls_nest_builder, parts) = {0};
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor x = ls_nest_tensor(inputs, i);
    const int axis = ls_make_axis(x, axis_of(s->options->input_axes, i));
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
    return ls_invalid_argument(
        "outputs_from_all has %zu entries for %zu outputs",
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
  const ls_opt wanted = s->options->num_shards;
  const int64_t shards = wanted.set ? wanted.value : 1;
  if (shards < 1 || shards > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "num_shards must be a positive integer of at most %d, is %lld",
        LS_MAX_REPLICAS, (long long)shards);
  s->shards = (size_t)shards;
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
  ls_nest made = ls_none();
  const ls_status status = LS_TRIAL_WITH(
      &made, shard_here(&s, fn, user, inputs, compile_status, &made));
  if (!ls_status_is_ok(status) && compile_status != NULL)
    *compile_status = ls_failed_tensor();
  *outputs = made;
  return status;
}

ls_status ls_shard(ls_callback fn, void *user, ls_nest inputs,
                   const ls_shard_options *options, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, fn);
  return shard(fn, user, inputs, options, NULL, outputs);
}

ls_status ls_split_compile_and_shard(ls_callback fn, void *user, ls_nest inputs,
                                     const ls_shard_options *options,
                                     ls_tensor *compile_status,
                                     ls_nest *outputs) {
  LS_REQUIRE_OUT(compile_status);
  LS_REQUIRE_OUT(outputs, fn);
  return shard(fn, user, inputs, options, compile_status, outputs);
}

ls_status ls_batch_parallel(ls_callback fn, void *user, ls_nest inputs,
                            int64_t num_shards,
                            const ls_replicate_options *options,
                            ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, fn);
  return shard(fn, user, inputs,
               &(ls_shard_options){.num_shards = LS_SOME(num_shards),
                                   .replicate = options},
               NULL, outputs);
}

ls_status ls_rewrite(ls_callback fn, void *user, ls_nest inputs,
                     const ls_replicate_options *options, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, fn);
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  if (inputs.kind != LS_KIND_NONE && inputs.kind != LS_KIND_LIST &&
      inputs.kind != LS_KIND_TUPLE)
    return ls_invalid_argument("the inputs of a rewritten computation are a "
                               "list or a tuple or none, got %s",
                               LS_NEST_TEXT(inputs));
  const bool has_inputs = inputs.kind != LS_KIND_NONE;
  const ls_nest one = ls_nest_retain(inputs);
  LS_OWN(ls_nest, all) =
      has_inputs ? ls_nest_sequence(LS_KIND_LIST, &one, 1) : ls_none();
  LS_OWN(ls_nest, each) = ls_none();
  LS_RETURN_IF_ERROR(ls_replicate(fn, user, all, options, &each));
  *outputs = ls_nest_retain(ls_nest_item(each, 0));
  return ls_ok();
}

// ---- For inference ----------------------------------------------------------
// Computations for serving read their variables once, outside of the
// computation, because nobody writes them while serving.

typedef struct inference {
  ls_flow flow;
  ls_callback fn;
  void *user;
  ls_map made;  // Variable -> number of its read, plus 1.
  ls_tensor *reads;
  size_t num_reads, capacity;
} inference;

static ls_tensor guarantee_constant(ls_variable *variable) {
  LS_CONTROL_SCOPE(NULL, 0);
  const ls_tensor value = ls_variable_read(variable);
  char name[LS_MAX_NAME + 2];
  snprintf(name, sizeof(name), "%s/", ls_variable_name(variable));
  LS_NAME_SCOPE(NULL);
  LS_NAME_SCOPE(name);
  return ls_op_output(
      ls_make_op(LS_OP_GUARANTEE_CONST, "GuaranteeConst", &value, 1, NULL, 0),
      0);
}

static ls_tensor read_outside(ls_flow *flow, ls_variable *variable) {
  inference *self = (inference *)flow;
  const size_t place = (size_t)(uintptr_t)ls_map_find_u64(
      &self->made, (uint64_t)(uintptr_t)variable);
  return place == 0 ? ls_failed_tensor() : self->reads[place - 1];
}

static ls_status note_made(const ls_creator *next,
                           const ls_variable_options *options, void *user,
                           ls_variable **out_variable) {
  inference *self = user;
  LS_RETURN_IF_ERROR(ls_creator_create(next, options, out_variable));
  if (LS_GROW(ls_current_allocator(), self->reads, self->capacity,
              self->num_reads + 1)) {
    self->reads[self->num_reads++] = guarantee_constant(*out_variable);
    if (ls_map_insert_u64(&self->made, (uint64_t)(uintptr_t)*out_variable,
                          (void *)(uintptr_t)self->num_reads))
      return ls_ok();
  }
  ls_variable_release(*out_variable);
  *out_variable = NULL;
  return ls_out_of_memory();
}

// ---- Checks ----------------------------------------------------------------
static ls_status inference_admit(ls_flow *flow, ls_op_spec *spec,
                                 ls_arena *memory) {
  (void)flow, (void)memory;
  for (size_t i = 0; i < spec->num_attrs; ++i) {
    const ls_attr *attr = &spec->attrs[i];
    if (attr->name == NULL || strcmp(attr->name, "variable") != 0) continue;
    return ls_unimplemented(
        "%s '%s' of variable '%s' in a computation for inference, which reads "
        "only variables that it has made, and writes none",
        ls_op_table[spec->type].name,
        spec->name != NULL ? spec->name : ls_op_table[spec->type].name,
        ls_variable_name((ls_variable *)attr->as.object));
  }
  return ls_ok();
}

static const ls_flow_type serving = {.name = "a computation for inference",
                                     .admit = inference_admit,
                                     .read = read_outside};

static ls_nest inference_call(ls_nest args, void *user) {
  inference *self = user;
  LS_SCOPE_BLOCK_(scope);
  ls_flow_begin(&scope, &self->flow);
  LS_CREATOR_SCOPE(note_made, self);
  return self->fn(args, self->user);
}

ls_status ls_rewrite_for_inference(ls_callback fn, void *user, ls_nest inputs,
                                   const ls_replicate_options *options,
                                   ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, fn);
  ls_allocator *allocator = ls_current_allocator();
  inference self = {.flow = {&serving}, .fn = fn, .user = user};
  LS_OWN_FIELD(allocator, self.reads);
  ls_map_init(&self.made, allocator);
  const ls_status status =
      ls_rewrite(inference_call, &self, inputs, options, outputs);
  ls_map_deinit(&self.made);
  return status;
}

// ---- Search graphs ---------------------------------------------------------
ls_status ls_validate_inference_rewrite(const ls_graph *graph) {
  LS_REQUIRE(graph);
  if (ls_graph_any_type(graph, LS_OP_GUARANTEE_CONST)) return ls_ok();
  return ls_failed_precondition(
      "graph '%s' has no op of type guarantee_const: none of its computations "
      "was rewritten for inference",
      graph->name);
}

static bool is_used(const ls_graph *graph, uint64_t id) {
  for (size_t i = 0; i < graph->num_results; ++i)
    if (ls_ref_id(graph->results[i]) == id) return true;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t k = 0; k < graph->nodes[i]->num_inputs; ++k)
      if (ls_ref_id(graph->nodes[i]->inputs[k]) == id) return true;
  return false;
}

ls_status ls_prune_unconnected_ops(ls_graph *graph) {
  LS_REQUIRE(graph);
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    if (node->type != LS_OP_PLACEHOLDER && node->type != LS_OP_READ) continue;
    if (ls_node_mark(node, LS_MARK_REPLICATE) == NULL ||
        is_used(walk.graph, node->id))
      continue;
    ls_node_drop_mark(node, LS_MARK_REPLICATE);
    ls_tpu_log(graph->runtime, LS_LOG_INFO,
               "op '%s' (%s), which is unused, is removed from its computation",
               ls_op_name((ls_op){walk.graph, node->id}),
               ls_node_info(node)->name);
  }
  return ls_ok();
}

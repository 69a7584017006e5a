// SPDX-License-Identifier: Apache-2.0
#include "lower/scope.h"

#include "base/memory/own.h"
#include "graph/compare/compare.h"
#include "graph/gather/gather.h"
#include "graph/walk.h"
#include "lower/ops.h"

static const ls_lower_function lower_table[LS_OP_COUNT] = {
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, ...)           \
  [LS_OP_##id] = lower_##lower,
#include "lockstep/ops.def"
#undef LS_OP
};

// ---- Scopes ----------------------------------------------------------------
ls_status ls_lower_scope_init(ls_lower_scope *scope, ls_lowering *all,
                              ls_lower_scope *outer, ls_graph *from,
                              ls_graph *to) {
  *scope = (ls_lower_scope){.all = all,
                            .outer = outer,
                            .from = from,
                            .to = to,
                            .replicas = outer == NULL ? 0 : outer->replicas,
                            .in_classes = outer != NULL && outer->in_classes,
                            .in_merge = outer != NULL && outer->in_merge,
                            .in_steps = outer != NULL && outer->in_steps,
                            .in_apart = outer != NULL && outer->in_apart};
  ls_map_init(&scope->values, all->allocator);
  ls_map_init(&scope->variables, all->allocator);
  ls_map_init(&scope->known, all->allocator);
  ls_text_init(&scope->key, all->allocator);
  return ls_ok();
}

void ls_lower_scope_deinit(ls_lower_scope *scope) {
  ls_map_deinit(&scope->values);
  ls_map_deinit(&scope->variables);
  ls_map_deinit(&scope->known);
  ls_text_deinit(&scope->key);
  ls_masks_destroy(scope->masks);
}

uint64_t ls_lowered(const ls_lower_scope *scope, uint64_t ref) {
  return (uint64_t)(uintptr_t)ls_map_find_u64(&scope->values, ref);
}

bool ls_is_fed(const uint64_t *feeds, size_t count, uint64_t ref) {
  for (size_t i = 0; i < count; ++i)
    if (feeds[i] == ref) return true;
  return false;
}

ls_status ls_lower_map(ls_lower_scope *scope, uint64_t from, uint64_t to) {
  const ls_lower_request *request = scope->all->request;
  if (scope->from == request->graph && ls_lowered(scope, from) != 0 &&
      ls_is_fed(request->feeds, request->num_feeds, from))
    return ls_ok();
  return ls_memory_status(
      ls_map_insert_u64(&scope->values, from, (void *)(uintptr_t)to));
}

ls_type ls_lowered_type(const ls_lower_scope *scope, uint64_t to_ref) {
  return ls_graph_type(scope->to, to_ref);
}

// ---- Needed nodes ----------------------------------------------------------
static ls_status add_written(ls_variable *variable, ls_allocator *allocator,
                             ls_variable ***list, size_t *count,
                             size_t *capacity) {
  if (ls_lower_lists(*list, *count, variable)) return ls_ok();
  LS_PUSH_OR_RETURN(allocator, *list, *count, *capacity, variable);
  return ls_ok();
}

ls_status ls_graph_written(const ls_graph *graph, ls_allocator *allocator,
                           ls_variable ***list, size_t *count,
                           size_t *capacity) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    if (ls_node_assigns(walk.node))
      LS_RETURN_IF_ERROR(add_written(ls_node_variable(walk.node), allocator,
                                     list, count, capacity));
  return ls_ok();
}

static void scope_mark(const ls_graph *graph, bool *needed, uint64_t id) {
  const size_t at = ls_graph_position(graph, id);
  if (at != SIZE_MAX) needed[at] = true;
}

static void mark_ref(const ls_lower_scope *scope, bool *needed, uint64_t ref) {
  if (ls_lowered(scope, ref) == 0)
    scope_mark(scope->from, needed, ls_ref_id(ref));
}

ls_status ls_lower_infer(ls_lower_scope *scope, const ls_node *node,
                         ls_type *out_type) {
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, ls_type, in, node->num_inputs);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i] = ls_lowered_type(scope, ls_lowered(scope, node->inputs[i]));
  const ls_op_spec spec = ls_node_spec(node);
  *out_type = (ls_type){0};
  ls_infer infer;
  LS_RETURN_IF_ERROR(ls_infer_run(&infer, &spec, in, node->num_inputs, out_type,
                                  &scope->to->arena));
  if (infer.num_out > 0) *out_type = infer.out[0];
  return ls_ok();
}

// Lowers a node. If the node is not kept, its shape rule runs once more, with
// known shapes; a node that is kept is checked when it is appended.
static ls_status lower_checked(ls_lower_scope *scope, ls_node *node) {
  ls_type unused;
  if ((ls_node_info(node)->traits & LS_OP_BUILD_ONLY) && node->num_regions == 0)
    LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &unused));
  LS_RETURN_IF_ERROR(ls_lower_place(scope, node));
  LS_RETURN_IF_ERROR(ls_mask_admit(scope, node, lower_table[node->type]));
  return lower_table[node->type](scope, node);
}

static ls_status lower_one(ls_lower_scope *scope, ls_node *node) {
  ls_status status = lower_checked(scope, node);
  if (ls_status_is_ok(status)) return status;
  char text[LS_MAX_FULL_NAME];
  status = ls_status_annotate(
      status, "in %s", ls_node_describe(scope->from, node, text, sizeof(text)));
  // Skips the ops of a step, which have added the cluster's name already.
  const char *outside = node->type == LS_OP_MERGE_CALL
                            ? NULL
                            : ls_node_mark(node, LS_MARK_OUTSIDE);
  return outside == NULL
             ? status
             : ls_status_annotate(status, "in outside compiled cluster '%s'",
                                  outside);
}

ls_status ls_lower_nodes(ls_lower_scope *scopes, size_t num_scopes,
                         const uint64_t *roots, size_t num_roots,
                         const ls_op *targets, size_t num_targets,
                         bool effects_are_roots) {
  const ls_lower_scope *scope = &scopes[0];
  ls_graph *from = scope->from;
  LS_OWN_ARRAY_OR_RETURN(scope->all->allocator, bool, needed, from->num_nodes);
  for (size_t i = 0; i < num_roots; ++i)
    mark_ref(scope, needed, roots[i]);
  for (size_t i = 0; i < num_targets; ++i)
    scope_mark(from, needed, targets[i].id);
  for (size_t i = from->num_nodes; i > 0; --i) {
    const ls_node *node = from->nodes[i - 1];
    if (!needed[i - 1] && effects_are_roots && ls_node_has_effects(node))
      needed[i - 1] = true;
    if (!needed[i - 1]) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      mark_ref(scope, needed, node->inputs[k]);
    for (uint32_t k = 0; k < node->num_control; ++k)
      scope_mark(from, needed, node->control[k]);
  }
  for (size_t i = 0; i < from->num_nodes; ++i)
    for (size_t k = 0; needed[i] && k < num_scopes; ++k)
      LS_RETURN_IF_ERROR(lower_one(&scopes[k], from->nodes[i]));
  return ls_ok();
}

// ---- Appending -------------------------------------------------------------
// Makes the key by which pure nodes are merged: type, operands, attributes.
// Returns false if the node is not pure. Without memory the key has failed.
static bool make_key(ls_lower_scope *scope, const ls_op_spec *spec,
                     const uint64_t *inputs) {
  const unsigned traits = ls_op_table[spec->type].traits;
  unsigned single = LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_LINEAR;
  // Operands that are equal in one class may differ in another.
  if (scope->in_classes) single |= LS_OP_MERGE;
  // Two barriers are not merged, because they keep their operands apart.
  if ((traits & single) || spec->num_regions != 0 ||
      spec->type == LS_OP_PARAMETER || spec->type == LS_OP_BARRIER)
    return false;
  ls_text *key = &scope->key;
  ls_text_clear(key);
  ls_text_append_bytes(key, &spec->type, sizeof(spec->type));
  ls_text_append_bytes(key, inputs, spec->num_inputs * sizeof(*inputs));
  // A merge draws once for all, replicas draw their own numbers.
  if (traits & LS_OP_RANDOM) ls_text_append_char(key, "rm"[scope->in_merge]);
  for (size_t i = 0; i < spec->num_attrs; ++i)
    ls_attr_append_key(key, &spec->attrs[i]);
  return true;
}

static ls_status infer_lowered(ls_lower_scope *scope, const ls_op_spec *spec,
                               const uint64_t *inputs, ls_arena *memory,
                               ls_infer *infer) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_type, types, spec->num_inputs + 2);
  for (size_t i = 0; i < spec->num_inputs; ++i)
    types[i] = ls_graph_type(scope->to, inputs[i]);
  LS_RETURN_IF_ERROR(ls_infer_run(infer, spec, types, spec->num_inputs,
                                  &types[spec->num_inputs], memory));
  for (size_t i = 0; i < infer->num_out; ++i)
    if (!ls_shape_is_known(infer->out[i].shape))
      return ls_invalid_argument(
          "the shape of result %zu, %s, is not known when it is to run: %stake "
          "its sizes from a tensor, by ls_random_normal_like, ls_iota_like, "
          "ls_broadcast_like or ls_reshape_like",
          i, LS_SHAPE_TEXT(infer->out[i].dtype, infer->out[i].shape),
          scope->replicas > 0 ? "sizes are unknown while replicas whose parts "
                                "differ are traced, so "
                              : "");
  return ls_ok();
}

// Drops marks: kernels that several ops share compare only the ops' own
// attributes.
static ls_status drop_marks(ls_lower_scope *scope, ls_op_spec *spec) {
  size_t own = 0;
  while (own < spec->num_attrs && ls_op_owns(spec->type, spec->attrs[own].id))
    ++own;
  if (own == spec->num_attrs) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, ls_attr, attrs, spec->num_attrs);
  memcpy(attrs, spec->attrs, own * sizeof(*attrs));
  for (size_t i = own; i < spec->num_attrs; ++i)
    if (ls_op_owns(spec->type, spec->attrs[i].id))
      attrs[own++] = spec->attrs[i];
  spec->attrs = attrs;
  spec->num_attrs = own;
  return ls_ok();
}

ls_status ls_lower_append(ls_lower_scope *scope, const ls_op_spec *wanted,
                          const uint64_t *inputs, const ls_node *origin,
                          ls_node **out_node) {
  ls_op_spec own = *wanted;
  const ls_op_spec *spec = &own;
  const ls_mask *mask = NULL;
  LS_RETURN_IF_ERROR(drop_marks(scope, &own));
  LS_RETURN_IF_ERROR(ls_mask_operands(scope, spec, &inputs, origin, &mask));
  const bool pure = make_key(scope, spec, inputs);
  if (pure) {
    // Fails without memory, because merging less would change the program's
    // fingerprint.
    LS_RETURN_IF_ERROR(ls_text_status(&scope->key));
    const uint64_t id = (uint64_t)(uintptr_t)ls_map_find(
        &scope->known, scope->key.data, scope->key.size);
    if (id != 0) {
      *out_node = ls_graph_node(scope->to, id);
      return ls_mask_results(scope, *out_node, false, mask);
    }
  }
  ls_infer infer;
  LS_OWN(ls_arena, memory) = {.allocator = scope->all->allocator};
  LS_RETURN_IF_ERROR(infer_lowered(scope, spec, inputs, &memory, &infer));
  ls_node *node = ls_graph_append(scope->to, spec, inputs, infer.num_out);
  LS_RETURN_IF_NO_MEMORY(node);
  memcpy(node->outputs, infer.out, infer.num_out * sizeof(*infer.out));
  if (origin != NULL) ls_node_take_place(node, scope->from, origin);
  node->once = scope->in_merge;
  *out_node = node;
  if (pure && !ls_map_insert(&scope->known, scope->key.data, scope->key.size,
                             (void *)(uintptr_t)node->id))
    return ls_out_of_memory();
  return ls_mask_results(scope, node, true, mask);
}

ls_status ls_lower_make(ls_lower_scope *scope, uint16_t type,
                        const uint64_t *inputs, size_t num_inputs,
                        const ls_attr *attrs, size_t num_attrs,
                        const ls_node *origin, uint64_t *out_ref) {
  ls_node *node = NULL;
  LS_RETURN_IF_ERROR(ls_lower_append(scope,
                                     &(ls_op_spec){.type = type,
                                                   .num_inputs = num_inputs,
                                                   .attrs = attrs,
                                                   .num_attrs = num_attrs},
                                     inputs, origin, &node));
  *out_ref = ls_ref(node->id, 0);
  return ls_ok();
}

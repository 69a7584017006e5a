// SPDX-License-Identifier: Apache-2.0

#include "base/memory/own.h"
#include "graph/context.h"
#include "graph/copy.h"
#include "graph/walk.h"

static bool is_done_once(const ls_node *node) {
  const unsigned once = LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_LINEAR;
  return node->type == LS_OP_READ || (ls_node_info(node)->traits & once) != 0;
}

bool ls_node_is_repeatable(const ls_node *node) {
  return !ls_node_any(node, is_done_once);
}

// ---- Regions ---------------------------------------------------------------
// Copies `region` into a new graph inside the current one. `captured` replace
// the captured values.
static ls_status copy_region(ls_graph *region, const ls_tensor *captured,
                             ls_arena *memory, ls_graph **out_graph) {
  ls_graph *current = ls_graph_resolve(ls_graph_current());
  LS_OWN(ls_held_graph, copy) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_make_like(region, current, &copy));
  ls_tensor *args =
      ls_arena_new_array(memory, ls_tensor, region->num_parameters);
  ls_tensor *results =
      ls_arena_new_array(memory, ls_tensor, region->num_results);
  uint64_t *refs = ls_arena_new_array(memory, uint64_t, region->num_results);
  LS_RETURN_IF_NO_MEMORY(args != NULL && results != NULL && refs != NULL);
  for (size_t i = 0; i < region->num_declared; ++i)
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        copy, ls_graph_type(region, region->parameters[i]), NULL, &args[i]));
  for (size_t i = 0; i < region->num_captures; ++i)
    args[region->num_declared + i] = captured[i];
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, copy);
  const ls_status status =
      ls_graph_inline(region, args, region->num_parameters, results);
  ls_scope_end(&scope);
  LS_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < region->num_results; ++i)
    LS_RETURN_IF_ERROR(ls_graph_import(copy, results[i], &refs[i]));
  LS_RETURN_IF_ERROR(ls_graph_set_results(copy, refs, region->num_results));
  // Copied random ops keep their streams, so later ones must not reuse them.
  if (copy->num_random < region->num_random)
    copy->num_random = region->num_random;
  return ls_hand_over(&copy, out_graph);
}

// ---- Ops -------------------------------------------------------------------
// Copies the regions and lists the copy's operands: those before the captures,
// then the captures of the new regions.
static ls_status copy_regions(const ls_node *node, const ls_tensor *inputs,
                              ls_arena *memory, ls_op_spec *spec) {
  const size_t leading = ls_node_captures(node, 0);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_graph *, regions, node->num_regions);
  spec->regions = regions;
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    LS_RETURN_IF_ERROR(copy_region(ls_graph_resolve(node->regions[r]),
                                   inputs + ls_node_captures(node, r), memory,
                                   &regions[r]));
    ++spec->num_regions;
  }
  const size_t captures = ls_count_captures(regions, node->num_regions);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_tensor, all, leading + captures);
  memcpy(all, inputs, leading * sizeof(*all));
  ls_list_captures(regions, node->num_regions, all + leading);
  spec->inputs = all;
  spec->num_inputs = leading + captures;
  return ls_ok();
}

static ls_status add_copy(ls_graph *from, const ls_node *node,
                          const ls_tensor *inputs, ls_op_spec *spec,
                          ls_arena *memory, ls_op *out_op) {
  if (node->num_regions != 0)
    LS_RETURN_IF_ERROR(copy_regions(node, inputs, memory, spec));
  ls_scope device = {0};
  if (node->device != NULL) ls_device_scope_begin(&device, node->device);
  *out_op = ls_op_add(spec);
  ls_scope_end(&device);
  if (!ls_op_is_failed(*out_op)) {
    spec->num_regions = 0;  // The op owns the regions now.
    return ls_ok();
  }
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  const ls_op original = {from, node->id};
  return graph->error != NULL
             ? ls_status_annotate(ls_graph_error(graph), "in a copy of '%s'",
                                  ls_op_name(original))
             : ls_internal("a copy of '%s' failed", ls_op_name(original));
}

ls_status ls_graph_copy_op(ls_graph *from, const ls_node *node,
                           const ls_tensor *inputs, const ls_op *control,
                           size_t num_control, ls_op *out_op) {
  *out_op = (ls_op){0};
  LS_OWN(ls_arena, memory) = {.allocator = from->allocator};
  ls_op_spec spec = {.type = node->type,
                     .name = node->base,
                     .inputs = inputs,
                     .num_inputs = node->num_inputs,
                     .control = control,
                     .num_control = num_control,
                     .attrs = node->attrs,
                     .num_attrs = node->num_attrs};
  const ls_status status = add_copy(from, node, inputs, &spec, &memory, out_op);
  for (size_t r = 0; r < spec.num_regions; ++r)
    ls_graph_free(spec.regions[r]);
  return status;
}

// ---- Whole bodies ----------------------------------------------------------
// Copies by position of the original, and the values of the parameters.
typedef struct copies {
  ls_op *ops;
  ls_tensor *parameters;
  const ls_tensor *known;  // NULL: no replaced values.
} copies;

static ls_tensor copy_of(const ls_graph *body, const copies *made,
                         uint64_t ref) {
  const size_t position = ls_graph_position(body, ls_ref_id(ref));
  const ls_node *node = body->nodes[position];
  if (node->type == LS_OP_PARAMETER)
    return made->parameters[ls_node_int(node, LS_ATTR_ID_INDEX)];
  if (made->known != NULL && made->known[position].ref != 0)
    return made->known[position];
  const ls_op op = made->ops[position];
  return op.id == 0 ? ls_failed_tensor() : ls_op_output(op, ls_ref_output(ref));
}

// Finds the scope of the same name below the current scope.
static ls_status copy_names(const ls_name_scope *names,
                            const ls_name_scope **out_names) {
  *out_names = ls_context_current()->scoped.names;
  if (names == NULL) return ls_ok();
  const ls_name_scope *parent = NULL;
  LS_RETURN_IF_ERROR(copy_names(names->parent, &parent));
  return ls_graph_name_scope(ls_graph_resolve(ls_graph_current()), parent,
                             names->name, false, out_names);
}

static ls_status copy_named(ls_graph *body, const ls_node *node,
                            const ls_tensor *inputs, const ls_op *control,
                            size_t num_control, ls_op *out_op) {
  const ls_name_scope *names = NULL;
  if (ls_graph_current()->kind != LS_GRAPH_EAGER)
    LS_RETURN_IF_ERROR(copy_names(node->scope, &names));
  ls_scope scope = {0};
  ls_name_scope_begin(&scope, NULL);
  ls_context_current()->scoped.names = names;
  const ls_status status =
      ls_graph_copy_op(body, node, inputs, control, num_control, out_op);
  ls_scope_end(&scope);
  return status;
}

// Lists the copies of a node's control inputs. Ops outside the body are kept if
// their graph encloses the copy, too; otherwise they have run already.
static size_t copy_control(const ls_graph *body, const ls_node *node,
                           const copies *made, ls_op *control) {
  size_t count = 0;
  for (uint32_t i = 0; i < node->num_control; ++i) {
    const ls_op copy = made->ops[ls_graph_position(body, node->control[i])];
    if (copy.id != 0) control[count++] = copy;  // A parameter has no copy.
  }
  for (size_t i = 0; i < body->num_waits_outside; ++i) {
    const ls_wait_outside *wait = &body->waits_outside[i];
    if (wait->id == node->id &&
        ls_context_is_inside(ls_graph_resolve(wait->outer.graph)))
      control[count++] = wait->outer;
  }
  return count;
}

static ls_status copy_body_op(ls_graph *body, size_t position,
                              const copies *made) {
  const ls_node *node = body->nodes[position];
  LS_OWN(ls_arena, memory) = {.allocator = body->allocator};
  ls_tensor *inputs = ls_arena_new_array(&memory, ls_tensor, node->num_inputs);
  ls_op *control = ls_arena_new_array(
      &memory, ls_op, node->num_control + body->num_waits_outside);
  LS_RETURN_IF_NO_MEMORY(inputs != NULL && control != NULL);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    inputs[i] = copy_of(body, made, node->inputs[i]);
  return copy_named(body, node, inputs, control,
                    copy_control(body, node, made, control),
                    &made->ops[position]);
}

ls_status ls_graph_inline(ls_graph *body, const ls_tensor *args,
                          size_t num_args, ls_tensor *results) {
  return ls_graph_inline_part(body, args, num_args, NULL, results);
}

static bool is_copied(const ls_graph *body, const ls_inline_part *part,
                      size_t position) {
  return body->nodes[position]->type != LS_OP_PARAMETER &&
         (part == NULL ||
          (part->keep[position] && part->known[position].ref == 0));
}

ls_status ls_graph_inline_part(ls_graph *body, const ls_tensor *args,
                               size_t num_args, const ls_inline_part *part,
                               ls_tensor *results) {
  body = ls_graph_resolve(body);
  if (num_args != body->num_parameters && num_args != body->num_declared)
    return ls_internal("graph '%s' has %zu parameters, %zu of them declared; "
                       "got %zu arguments",
                       body->name, body->num_parameters, body->num_declared,
                       num_args);
  LS_OWN(ls_arena, memory) = {.allocator = body->allocator};
  const copies made = {
      .ops = ls_arena_new_array(&memory, ls_op, body->num_nodes),
      .parameters =
          ls_arena_new_array(&memory, ls_tensor, body->num_parameters),
      .known = part == NULL ? NULL : part->known};
  LS_RETURN_IF_NO_MEMORY(made.ops != NULL && made.parameters != NULL);
  if (body->trains) ls_graph_note_training(ls_graph_current());
  if (body->unsaveable != NULL)
    LS_RETURN_IF_ERROR(
        ls_graph_note_unsaveable(ls_graph_current(), body->unsaveable));
  for (size_t i = 0; i < body->num_parameters; ++i)
    made.parameters[i] =
        i < num_args ? args[i] : body->captures[i - body->num_declared].outer;
  // The number before copying: the body may be the current graph, which grows.
  const size_t num_nodes = body->num_nodes;
  for (size_t i = 0; i < num_nodes; ++i)
    if (is_copied(body, part, i))
      LS_RETURN_IF_ERROR(copy_body_op(body, i, &made));
  for (size_t i = 0; i < body->num_results; ++i)
    results[i] = copy_of(body, &made, body->results[i]);
  return ls_ok();
}

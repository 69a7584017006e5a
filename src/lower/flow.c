// SPDX-License-Identifier: Apache-2.0
//
// Lowers branches and calls, and shares the lowering of all ops with regions.
#include "lower/flow.h"

#include "lower/apart.h"

ls_status ls_ref_list_push(ls_ref_list *list, uint64_t ref) {
  LS_PUSH_OR_RETURN(list->allocator, list->items, list->count, list->capacity,
                    ref);
  return ls_ok();
}

ls_status ls_ref_list_push_captures(ls_ref_list *list, ls_graph *const *regions,
                                    size_t count) {
  const size_t captures = ls_count_captures(regions, count);
  if (captures == 0) return ls_ok();
  LS_RETURN_IF_NO_MEMORY(LS_GROW(list->allocator, list->items, list->capacity,
                                 list->count + captures));
  list->count +=
      ls_list_capture_refs(regions, count, list->items + list->count);
  return ls_ok();
}

ls_status ls_lower_flow_begin(ls_lower_flow *f, ls_lower_scope *scope,
                              ls_node *node) {
  *f = (ls_lower_flow){.scope = scope, .node = node};
  f->inputs.allocator = scope->all->allocator;
  for (uint32_t i = 0; i < node->num_regions; ++i)
    LS_RETURN_IF_ERROR(ls_graph_written(node->regions[i], scope->all->allocator,
                                        &f->written, &f->num_written,
                                        &f->written_capacity));
  return ls_ok();
}

void ls_lower_flow_end(ls_lower_flow *f) {
  for (size_t i = 0; i < f->num_regions; ++i)
    ls_graph_free(f->regions[i]);
  ls_release(f->scope->all->allocator, f->regions);
  ls_release(f->scope->all->allocator, f->inputs.items);
  ls_release(f->scope->all->allocator, f->written);
}

// Replaces the containers in `apart` by their components in f->written.
static ls_status flow_take_apart(ls_lower_flow *f, const ls_lower_own *apart) {
  for (size_t k = 0; k < apart->count; ++k) {
    const ls_variable *container = apart->items[k];
    const size_t num_components = container->num_components;
    size_t count = 0;
    for (size_t i = 0; i < f->num_written; ++i)
      if (f->written[i] != container && f->written[i]->container != container)
        f->written[count++] = f->written[i];
    LS_RETURN_IF_NO_MEMORY(LS_GROW(f->scope->all->allocator, f->written,
                                   f->written_capacity,
                                   count + num_components));
    memcpy(f->written + count, container->components,
           num_components * sizeof(*f->written));
    f->num_written = count + num_components;
  }
  return ls_ok();
}

// Lowers the op with the variables that are known to differ by replica.
// `*out_again` is true if one more was found.
static ls_status flow_lower_with(ls_lower_scope *scope, ls_node *node,
                                 ls_status (*lower)(ls_lower_flow *f),
                                 ls_lower_own *apart, bool *out_again) {
  *out_again = false;
  LS_OWN(ls_lower_flow, f) = {.scope = scope};
  LS_RETURN_IF_ERROR(ls_lower_flow_begin(&f, scope, node));
  LS_RETURN_IF_ERROR(flow_take_apart(&f, apart));
  const ls_status status = lower(&f);
  *out_again = f.differs != NULL;
  if (!*out_again) return status;
  ls_status_free(status);
  return ls_lower_add_own(apart, scope->all->allocator, f.differs);
}

// Lowers a loop or branch with `lower`. If a variable gets a value for each
// replica inside, repeats this with the components as written variables.
static ls_status lower_around(ls_lower_scope *scope, ls_node *node,
                              ls_status (*lower)(ls_lower_flow *f)) {
  ls_lower_own apart = {0};
  LS_OWN_FIELD(scope->all->allocator, apart.items);
  for (bool again = true; again;)
    LS_RETURN_IF_ERROR(flow_lower_with(scope, node, lower, &apart, &again));
  return ls_ok();
}

// Reads a written variable; `where` is the scope outside of the regions, or a
// region's.
static ls_status read_written(ls_lower_flow *f, ls_lower_scope *where,
                              ls_variable *variable, uint64_t *out_ref) {
  bool differs = false;
  if (where->replicas == 0 && !where->in_merge)
    LS_RETURN_IF_ERROR(ls_lower_differs(where, variable, &differs));
  if (differs) f->differs = variable;
  return ls_lower_read(where, variable, out_ref);
}

ls_status ls_lower_flow_open(ls_lower_flow *f, ls_graph *from, const char *name,
                             ls_lower_scope *inner) {
  ls_graph *to = NULL;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(f->scope->all->allocator, f->regions,
                                 f->regions_capacity, f->num_regions + 1));
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_LOWERED, name,
                                   f->scope->to->runtime, f->scope->to, &to));
  f->regions[f->num_regions++] = to;
  return ls_lower_scope_init(inner, f->scope->all, f->scope, from, to);
}

ls_status ls_lower_flow_declare(ls_lower_scope *inner, ls_type type,
                                uint64_t *out_ref) {
  ls_tensor parameter;
  LS_RETURN_IF_ERROR(ls_graph_add_parameter(inner->to, type, NULL, &parameter));
  *out_ref = parameter.ref;
  return ls_ok();
}

// Records that `ref` is an outer stack inside of a region.
static ls_status pass_stack(ls_lower_flow *f, uint64_t outer,
                            const ls_lower_scope *inner, uint64_t ref) {
  ls_lowering *all = f->scope->all;
  return ls_lower_stack_set(all, inner->to, ref,
                            ls_lower_stack_of(all, f->scope->to, outer));
}

ls_status ls_lower_flow_map_captures(ls_lower_flow *f, ls_lower_scope *inner) {
  const ls_graph *from = inner->from;
  for (size_t i = 0; i < from->num_captures; ++i) {
    uint64_t ref = 0;
    const uint64_t outer = ls_lowered(f->scope, from->captures[i].outer.ref);
    if (outer == 0)
      return ls_internal("a captured value of '%s' was not lowered",
                         from->name);
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        inner->to, (ls_tensor){f->scope->to, outer}, &ref));
    LS_RETURN_IF_ERROR(pass_stack(f, outer, inner, ref));
    LS_RETURN_IF_ERROR(ls_lower_map(inner, from->captures[i].inner, ref));
  }
  return ls_ok();
}

ls_status ls_lower_flow_lower(ls_lower_scope *inner, size_t count) {
  const ls_graph *from = inner->from;
  return ls_lower_nodes(inner, count, from->results, from->num_results, NULL, 0,
                        true);
}

ls_lower_scope ls_lower_share_scope(const ls_lower_scope *scope,
                                    ls_graph *from) {
  ls_lower_scope inner = *scope;
  inner.from = from;
  inner.bodies = NULL;
  ls_map_init(&inner.values, scope->all->allocator);
  return inner;
}

ls_status ls_lower_flow_inline(ls_lower_scope *scope, ls_lower_scope *inner) {
  inner->variables = scope->variables;
  inner->known = scope->known;
  inner->key = scope->key;
  const ls_status status = ls_lower_flow_lower(inner, 1);
  scope->variables = inner->variables;
  scope->known = inner->known;
  scope->key = inner->key;
  return status;
}

// Records a lowered loop or branch of replicas that contains steps.
static ls_status note_steps(ls_lower_flow *f, const ls_node *made) {
  ls_lowering *all = f->scope->all;
  if (f->scope->replicas == 0 || !ls_holds_step(f->node)) return ls_ok();
  LS_PUSH_OR_RETURN(all->allocator, all->step_flows, all->num_step_flows,
                    all->step_flows_capacity,
                    (ls_step_flow){f->scope->to, made,
                                   ls_node_source(f->scope->from, f->node)});
  return ls_ok();
}

// Returns true if it is known that replicas take different paths through a loop
// or branch.
static bool is_apart_flow(const ls_lower_scope *scope, const ls_node *node) {
  const ls_op source = ls_node_source(scope->from, node);
  for (size_t i = 0; i < scope->all->num_apart && !scope->in_apart; ++i)
    if (scope->all->apart[i].graph == source.graph &&
        scope->all->apart[i].id == source.id)
      return ls_holds_step(node);
  return false;
}

// Makes the result of a branch that has none: zeros of the type of the other
// branch's result.
static ls_status make_zeros(ls_lower_flow *f, ls_lower_scope *inner,
                            size_t result, uint64_t *out_ref) {
  const ls_graph *other = f->regions[0];
  const ls_type type = ls_graph_type(other, other->results[result]);
  if (type.dtype == LS_DTYPE_VARIANT)
    return ls_unimplemented(
        "a stack together with outside compiled ops that write a variable, in "
        "a branch whose path differs between replicas");
  LS_OWN(ls_array, zero) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(type.dtype, LS_SCALAR, &zero));
  const ls_attr value = LS_OWN_A(VALUE, zero);
  LS_RETURN_IF_ERROR(ls_lower_make(inner, LS_OP_CONSTANT, NULL, 0, &value, 1,
                                   f->node, out_ref));
  return ls_lower_broadcast(inner, *out_ref, type.shape, f->node, out_ref);
}

// Sets the results of a region: the region's own, then the final values of
// written variables.
static ls_status flow_set_results(ls_lower_flow *f, ls_lower_scope *inner) {
  LS_OWN(ls_ref_list, results) = {.allocator = f->scope->all->allocator};
  for (size_t i = 0; i < inner->from->num_results; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(&results, ls_lowered(inner, inner->from->results[i])));
  for (size_t i = results.count; i < f->node->num_outputs; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(make_zeros(f, inner, i, &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&results, ref));
  }
  for (size_t i = 0; i < f->num_written; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(read_written(f, inner, f->written[i], &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&results, ref));
  }
  return ls_graph_set_results(inner->to, results.items, results.count);
}

ls_status ls_lower_flow_append(ls_lower_flow *f, const ls_attr *attrs,
                               size_t num_attrs, ls_node **out_node) {
  LS_RETURN_IF_ERROR(
      ls_ref_list_push_captures(&f->inputs, f->regions, f->num_regions));
  LS_RETURN_IF_ERROR(ls_lower_append(f->scope,
                                     &(ls_op_spec){
                                         .type = f->node->type,
                                         .num_inputs = f->inputs.count,
                                         .attrs = attrs,
                                         .num_attrs = num_attrs,
                                         .regions = f->regions,
                                         .num_regions = f->num_regions,
                                     },
                                     f->inputs.items, f->node, out_node));
  f->num_regions = 0;  // The node owns the regions now.
  return ls_ok();
}

// Makes the outputs of `made`, from number `first` on, the new values of the
// written variables.
static ls_status take_written(ls_lower_flow *f, const ls_node *made,
                              size_t first) {
  for (size_t i = 0; i < f->num_written; ++i)
    LS_RETURN_IF_ERROR(ls_lower_write(f->scope, f->written[i],
                                      ls_ref(made->id, (unsigned)(first + i))));
  return ls_ok();
}

// ---- Branches --------------------------------------------------------------
static ls_status branch_region(ls_lower_flow *f, size_t which,
                               const char *name) {
  LS_OWN(ls_lower_scope, inner) = {0};
  LS_RETURN_IF_ERROR(
      ls_lower_flow_open(f, f->node->regions[which], name, &inner));
  LS_RETURN_IF_ERROR(ls_lower_flow_map_captures(f, &inner));
  LS_RETURN_IF_ERROR(ls_lower_flow_lower(&inner, 1));
  return flow_set_results(f, &inner);
}

// Joins the facts of the output stack with those of both branches' results,
// because it is one of these stacks.
static ls_status join_stacks(ls_lower_flow *f, const ls_node *made,
                             unsigned output) {
  ls_lowering *all = f->scope->all;
  ls_lower_stack *result[2];
  for (size_t r = 0; r < 2; ++r)
    result[r] = ls_lower_stack_of(all, made->regions[r],
                                  made->regions[r]->results[output]);
  LS_RETURN_IF_ERROR(ls_lower_stack_unify(all, result[0], result[1]));
  return ls_lower_stack_set(all, f->scope->to, ls_ref(made->id, output),
                            result[0]);
}

static ls_status lower_branches(ls_lower_flow *f) {
  LS_RETURN_IF_ERROR(
      ls_ref_list_push(&f->inputs, ls_lowered(f->scope, f->node->inputs[0])));
  LS_RETURN_IF_ERROR(branch_region(f, 0, "cond_then"));
  LS_RETURN_IF_ERROR(branch_region(f, 1, "cond_else"));
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_lower_flow_append(f, NULL, 0, &made));
  for (unsigned i = 0; i < f->node->num_outputs; ++i) {
    LS_RETURN_IF_ERROR(
        ls_lower_map(f->scope, ls_ref(f->node->id, i), ls_ref(made->id, i)));
    LS_RETURN_IF_ERROR(join_stacks(f, made, i));
  }
  LS_RETURN_IF_ERROR(note_steps(f, made));
  return take_written(f, made, made->num_outputs - f->num_written);
}

ls_status lower_cond(ls_lower_scope *scope, ls_node *node) {
  if (is_apart_flow(scope, node)) return ls_lower_apart(scope, node);
  return lower_around(scope, node, lower_branches);
}

// ---- Calls -----------------------------------------------------------------
// Lowers a call by inlining the function's nodes into this scope. The inner
// scope has the same lowered graph, and hands its variables' values back.
ls_status lower_call(ls_lower_scope *scope, ls_node *node) {
  ls_graph *from = node->regions[0];
  LS_OWN(ls_shared_scope, inner) = ls_lower_share_scope(scope, from);
  for (size_t i = 0; i < from->num_parameters; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(&inner, from->parameters[i],
                                    ls_lowered(scope, node->inputs[i])));
  LS_RETURN_IF_ERROR(ls_lower_flow_inline(scope, &inner));
  for (size_t i = 0; i < from->num_results; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, (unsigned)i),
                                    ls_lowered(&inner, from->results[i])));
  return ls_ok();
}

// ---- Loops ------------------------------------------------------------------
// Lowers loops.

// The values of a lowered loop: the loop's own values, the variables that it
// writes, and, if values of the body are saved, the number of trips and a stack
// for each saved value.
typedef struct carrying {
  size_t carried, saved;
  bool saves;
  size_t count;             // Number of all values.
  ls_lower_stack **stacks;  // By position; NULL: the value is no stack.
} carrying;

static ls_status list_round(ls_lower_flow *f, carrying *r) {
  ls_lower_scope *scope = f->scope;
  r->carried = (size_t)ls_node_int(f->node, LS_ATTR_ID_NUM_CARRIED);
  r->saves = ls_node_attr(f->node, LS_ATTR_ID_NUM_SAVED) != NULL;
  r->saved = (size_t)ls_node_int(f->node, LS_ATTR_ID_NUM_SAVED);
  for (size_t i = 0; i < r->carried; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(&f->inputs, ls_lowered(scope, f->node->inputs[i])));
  for (size_t i = 0; i < f->num_written; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(read_written(f, scope, f->written[i], &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, ref));
  }
  if (r->saves) {
    uint64_t zero = 0;
    LS_RETURN_IF_ERROR(ls_lower_scalar(scope, LS_DTYPE_I64, 0, f->node, &zero));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, zero));
  }
  r->count = f->inputs.count + r->saved;
  LS_ARENA_SET_OR_RETURN(&scope->to->arena, ls_lower_stack *, r->stacks,
                         r->count);
  for (size_t i = 0; i < f->inputs.count; ++i)
    r->stacks[i] = ls_lower_stack_of(scope->all, scope->to, f->inputs.items[i]);
  for (size_t i = 0; i < r->saved; ++i) {
    ls_lower_stack *stack = ls_lower_stack_new(scope->all);
    uint64_t ref = 0;
    if (stack == NULL) return ls_out_of_memory();
    r->stacks[f->inputs.count] = stack;
    LS_RETURN_IF_ERROR(
        ls_lower_stack_make(scope, stack, NULL, 0, f->node, &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, ref));
  }
  return ls_ok();
}

static ls_status declare_round(ls_lower_flow *f, const carrying *r,
                               ls_lower_scope *inner) {
  for (size_t i = 0; i < r->count; ++i) {
    uint64_t ref = 0;
    const uint64_t initial = f->inputs.items[i];
    LS_RETURN_IF_ERROR(
        ls_lower_flow_declare(inner, ls_lowered_type(f->scope, initial), &ref));
    LS_RETURN_IF_ERROR(
        ls_lower_stack_set(f->scope->all, inner->to, ref, r->stacks[i]));
    if (i < r->carried)
      LS_RETURN_IF_ERROR(ls_lower_map(inner, inner->from->parameters[i], ref));
    else if (i < r->carried + f->num_written)
      LS_RETURN_IF_ERROR(ls_lower_set(inner, f->written[i - r->carried], ref));
  }
  return ls_ok();
}

// Names nodes that lowering adds to the loop's body after the loop.
static void name_after_loop(const ls_lower_flow *f, const ls_graph *body,
                            uint64_t ref) {
  ls_node_take_place(ls_graph_node_of(body, ref), f->scope->from, f->node);
}

// Counts a trip and pushes the saved values of the trip on their stacks.
static ls_status save_trip(ls_lower_flow *f, const carrying *r,
                           ls_lower_scope *body, ls_ref_list *results) {
  const size_t counter = r->carried + f->num_written;
  uint64_t one = 0, trips = 0;
  LS_RETURN_IF_ERROR(ls_lower_scalar(body, LS_DTYPE_I64, 1, NULL, &one));
  const uint64_t terms[] = {body->to->parameters[counter], one};
  LS_RETURN_IF_ERROR(
      ls_lower_make(body, LS_OP_ADD, terms, 2, NULL, 0, NULL, &trips));
  name_after_loop(f, body->to, trips);
  LS_RETURN_IF_ERROR(ls_ref_list_push(results, trips));
  for (size_t i = 0; i < r->saved; ++i) {
    const uint64_t value =
        ls_lowered(body, body->from->results[r->carried + i]);
    uint64_t pushed = 0;
    LS_RETURN_IF_ERROR(ls_lower_stack_push(
        body, body->to->parameters[counter + 1 + i], value, NULL, &pushed));
    name_after_loop(f, body->to, pushed);
    LS_RETURN_IF_ERROR(ls_ref_list_push(results, pushed));
  }
  return ls_ok();
}

static ls_status finish_body(ls_lower_flow *f, const carrying *r,
                             ls_lower_scope *body, ls_ref_list *results) {
  for (size_t i = 0; i < r->carried; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(results, ls_lowered(body, body->from->results[i])));
  for (size_t i = 0; i < f->num_written; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(read_written(f, body, f->written[i], &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(results, ref));
  }
  if (r->saves) LS_RETURN_IF_ERROR(save_trip(f, r, body, results));
  for (size_t i = 0; i < r->count; ++i)
    LS_RETURN_IF_ERROR(ls_lower_stack_unify(
        body->all, r->stacks[i],
        ls_lower_stack_of(body->all, body->to, results->items[i])));
  return ls_graph_set_results(body->to, results->items, results->count);
}

static ls_status fill_loop_region(ls_lower_flow *f, const carrying *r,
                                  size_t which, ls_lower_scope *inner) {
  LS_RETURN_IF_ERROR(declare_round(f, r, inner));
  LS_RETURN_IF_ERROR(ls_lower_flow_map_captures(f, inner));
  LS_RETURN_IF_ERROR(ls_lower_flow_lower(inner, 1));
  if (which == 0) {
    const uint64_t holds = ls_lowered(inner, inner->from->results[0]);
    return ls_graph_set_results(inner->to, &holds, 1);
  }
  LS_OWN(ls_ref_list, results) = {.allocator = f->scope->all->allocator};
  return finish_body(f, r, inner, &results);
}

// Returns true if the loop's trips are training steps; trips of a loop inside
// such a loop are not.
static bool counts_steps(const ls_lower_flow *f) {
  return ls_node_int(f->node, LS_ATTR_ID_COUNTS_STEPS) != 0 &&
         !f->scope->in_steps;
}

static ls_status loop_region(ls_lower_flow *f, const carrying *r, size_t which,
                             const char *name) {
  ls_lower_scope inner;
  LS_RETURN_IF_ERROR(
      ls_lower_flow_open(f, f->node->regions[which], name, &inner));
  inner.in_steps |= counts_steps(f);
  const ls_status status = fill_loop_region(f, r, which, &inner);
  ls_lower_scope_deinit(&inner);
  return status;
}

static ls_status lower_loop(ls_lower_flow *f) {
  carrying r = {0};
  LS_RETURN_IF_ERROR(list_round(f, &r));
  LS_RETURN_IF_ERROR(loop_region(f, &r, 0, "while_condition"));
  LS_RETURN_IF_ERROR(loop_region(f, &r, 1, "while_body"));
  const ls_attr attrs[] = {
      LS_OWN_I(NUM_CARRIED, (int64_t)r.count),
      LS_OWN_I(MAX_TRIPS, ls_node_int(f->node, LS_ATTR_ID_MAX_TRIPS)),
      LS_OWN_B(COUNTS_STEPS, true)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(
      ls_lower_flow_append(f, attrs, counts_steps(f) ? 3 : 2, &made));
  for (size_t i = 0; i < r.count; ++i)
    LS_RETURN_IF_ERROR(ls_lower_stack_set(f->scope->all, f->scope->to,
                                          ls_ref(made->id, (unsigned)i),
                                          r.stacks[i]));
  // Maps the outputs of the node. The lowered op has outputs for variables in
  // between.
  for (size_t i = 0, output = 0; i < r.count; ++i) {
    if (i >= r.carried && i < r.carried + f->num_written) continue;
    LS_RETURN_IF_ERROR(ls_lower_map(f->scope,
                                    ls_ref(f->node->id, (unsigned)output++),
                                    ls_ref(made->id, (unsigned)i)));
  }
  LS_RETURN_IF_ERROR(note_steps(f, made));
  return take_written(f, made, r.carried);
}

ls_status lower_while(ls_lower_scope *scope, ls_node *node) {
  if (is_apart_flow(scope, node)) return ls_lower_apart(scope, node);
  if (ls_condition_writes(node)) return ls_lower_turned(scope, node);
  return lower_around(scope, node, lower_loop);
}

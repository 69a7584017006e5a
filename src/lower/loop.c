// SPDX-License-Identifier: Apache-2.0
//
// Lowers loops.
#include "base/runtime_internal.h"
#include "lower/apart.h"

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
    LS_RETURN_IF_ERROR(ls_lower_flow_read(f, scope, f->written[i], &ref));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, ref));
  }
  if (r->saves) {
    uint64_t zero = 0;
    LS_RETURN_IF_ERROR(ls_lower_scalar(scope, LS_DTYPE_I64, 0, f->node, &zero));
    LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, zero));
  }
  r->count = f->inputs.count + r->saved;
  r->stacks = ls_arena_new_array(&scope->to->arena, ls_lower_stack *, r->count);
  if (r->stacks == NULL) return ls_out_of_memory();
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
  ls_node *node = ls_graph_node_of(body, ref);
  node->origin = ls_node_source(f->scope->from, f->node);
  node->file = f->node->file;
  node->line = f->node->line;
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
    LS_RETURN_IF_ERROR(ls_lower_flow_read(f, body, f->written[i], &ref));
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
  LS_RETURN_IF_ERROR(ls_lower_note_steps(f, made));
  return ls_lower_flow_take_written(f, made, r.carried);
}

ls_status lower_while(ls_lower_scope *scope, ls_node *node) {
  if (ls_lower_is_apart_flow(scope, node)) return ls_lower_apart(scope, node);
  if (ls_condition_writes(node)) return ls_lower_turned(scope, node);
  return ls_lower_flow_around(scope, node, lower_loop);
}

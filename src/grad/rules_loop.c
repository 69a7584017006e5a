// SPDX-License-Identifier: Apache-2.0
//
// The rule of loops.
//
// The gradient of a loop is a loop with the same number of iterations, last one
// first. Its loop values are: the number of iterations left; the gradients of
// the loop values that lead from a wanted value to a given gradient; the
// running sums of the gradients of captures and variables; and the stacks of
// saved values.
//
// The forward values that an iteration needs are known only after its gradient
// was built. So the gradient is first built in a graph of its own, the draft,
// and then copied into the body.
#include "base/memory/own.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "grad/rules.h"
#include "graph/copy.h"
#include "graph/trips.h"
#include "lockstep/shape_rules.h"

// A running sum over the iterations: of the gradients of a capture, or of a
// variable.
typedef struct loop_sum {
  size_t goal;
  size_t input;   // The loop's operand; for a variable its goal in the
  bool is_input;  // outer walk.
} loop_sum;

typedef struct loop {
  ls_backward *g;
  ls_graph *body, *draft;
  ls_forward *forward;
  size_t num_carried, num_saved;
  // Number of the loop's operand for the body's capture 0.
  size_t first_capture;
  // Size in words of a set: one bit per loop value, and the mark.
  size_t words;
  uint64_t *sources;  // By node position: the set of sources of its value.
  uint64_t *turning;  // Loop values whose gradients are loop values.
  uint64_t *useful;   // Loop values that lead to a wanted gradient.
  ls_gradient_inner walk;
  size_t num_turning;
  size_t *turning_goals;  // Goal for each of the values in `turning`.
  loop_sum *sums;
  size_t num_sums, num_sums_kept;
  size_t num_variables;
  size_t *variable_sources;
  uint64_t *results;  // Results of the draft of the gradient's body.
  size_t num_results;
} loop;
LS_OWNED_(loop, loop, ls_graph_free(ls_owned->draft))

// ---- Sets ------------------------------------------------------------------
// Returns true if the set has the item. Item `num_carried` is the mark, for a
// wanted capture or variable.
static bool rules_loop_has(const uint64_t *set, size_t item) {
  return (set[item / 64] >> item % 64 & 1) != 0;
}
static void rules_loop_add(uint64_t *set, size_t item) {
  set[item / 64] |= UINT64_C(1) << item % 64;
}
static void rules_loop_join(const loop *l, uint64_t *set,
                            const uint64_t *other) {
  for (size_t i = 0; i < l->words; ++i)
    set[i] |= other[i];
}
static bool is_empty(const loop *l, const uint64_t *set) {
  uint64_t all = 0;
  for (size_t i = 0; i < l->words; ++i)
    all |= set[i];
  return all == 0;
}
static uint64_t *sources_of(const loop *l, uint64_t ref) {
  return l->sources + ls_graph_position(l->body, ls_ref_id(ref)) * l->words;
}
static bool is_trainable(const loop *l, uint64_t ref) {
  return ls_dtype_is_trainable(ls_graph_type(l->body, ref).dtype);
}

// ---- Dependencies ----------------------------------------------------------
static void find_sources_of_parameter(const loop *l, const ls_node *node,
                                      uint64_t *set) {
  const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  if (index < l->num_carried) {
    if (is_trainable(l, ls_ref(node->id, 0))) rules_loop_add(set, index);
  } else if (l->g->wanted[l->first_capture + index - l->num_carried]) {
    rules_loop_add(set, l->num_carried);
  }
}

static void find_sources(const loop *l) {
  for (size_t i = 0; i < l->body->num_nodes; ++i) {
    const ls_node *node = l->body->nodes[i];
    uint64_t *set = l->sources + i * l->words;
    if (node->type == LS_OP_PARAMETER) {
      find_sources_of_parameter(l, node, set);
      continue;
    }
    if (ls_gradient_table[node->type] == gradient_none) continue;
    if (ls_gradient_walk_reads(l->g->walk, node))
      rules_loop_add(set, l->num_carried);
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      if (is_trainable(l, node->inputs[k]))
        rules_loop_join(l, set, sources_of(l, node->inputs[k]));
  }
}

// Returns true if a value with these sources leads to a wanted gradient.
static bool leads_on(const loop *l, const uint64_t *set) {
  if (rules_loop_has(set, l->num_carried)) return true;
  for (size_t k = 0; k < l->num_carried; ++k)
    if (rules_loop_has(set, k) &&
        (l->g->wanted[k] || rules_loop_has(l->useful, k)))
      return true;
  return false;
}

static bool comes_in(const loop *l, size_t output) {
  return output < l->g->num_outputs && l->g->dout[output].ref != 0;
}

// Returns true if the stack of saved value `saved` has a gradient that leads to
// a wanted one.
static bool is_saved_followed(const loop *l, size_t saved) {
  const uint64_t ref = l->body->results[l->num_carried + saved];
  return comes_in(l, l->num_carried + 1 + saved) && is_trainable(l, ref) &&
         leads_on(l, sources_of(l, ref));
}

static void find_useful(const loop *l) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < l->num_carried; ++i) {
      if (rules_loop_has(l->useful, i) ||
          !is_trainable(l, l->body->results[i]) ||
          !leads_on(l, sources_of(l, l->body->results[i])))
        continue;
      rules_loop_add(l->useful, i);
      changed = true;
    }
  }
}

static void find_turning(const loop *l) {
  for (size_t i = 0; i < l->num_carried; ++i)
    if (comes_in(l, i)) rules_loop_add(l->turning, i);
  for (size_t i = 0; i < l->num_saved; ++i)
    if (is_saved_followed(l, i))
      rules_loop_join(l, l->turning,
                      sources_of(l, l->body->results[l->num_carried + i]));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < l->num_carried; ++i) {
      if (!rules_loop_has(l->turning, i)) continue;
      const uint64_t *from = sources_of(l, l->body->results[i]);
      for (size_t k = 0; k < l->num_carried; ++k)
        if (rules_loop_has(from, k) && !rules_loop_has(l->turning, k)) {
          rules_loop_add(l->turning, k);
          changed = true;
        }
    }
  }
  for (size_t i = 0; i < l->num_carried; ++i)
    if (rules_loop_has(l->turning, i) && !l->g->wanted[i] &&
        !rules_loop_has(l->useful, i))
      l->turning[i / 64] &= ~(UINT64_C(1) << i % 64);
  l->turning[l->num_carried / 64] &= ~(UINT64_C(1) << l->num_carried % 64);
}

static ls_status look_around(loop *l, ls_backward *g) {
  ls_arena *arena = g->walk->context->arena;
  l->g = g;
  l->body = ls_graph_resolve(g->node->regions[1]);
  l->num_carried = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_CARRIED);
  l->num_saved = l->body->num_results - l->num_carried;
  l->first_capture = ls_node_captures(g->node, 1);
  l->words = l->num_carried / 64 + 1;
  LS_ARENA_SET_OR_RETURN(arena, uint64_t, l->sources,
                         (l->body->num_nodes + 1) * l->words);
  LS_ARENA_SET_OR_RETURN(arena, uint64_t, l->turning, l->words);
  LS_ARENA_SET_OR_RETURN(arena, uint64_t, l->useful, l->words);
  find_sources(l);
  find_useful(l);
  find_turning(l);
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
// Refuses a gradient that is taken inside a loop which does not contain this
// loop: the saved stacks are filled once, so that only one gradient can empty
// them.
static ls_status check_place(const loop *l) {
  const ls_forward *f = l->g->walk->forward;
  ls_graph *to = ls_graph_resolve(l->g->op.graph);
  while (f->graph != NULL && f->loop == NULL) {
    to = ls_graph_resolve(f->op.graph);
    f = f->outer;
  }
  if (f->loop != NULL) return ls_ok();  // The gradient is in the same loop.
  for (const ls_graph *at = ls_graph_resolve(ls_graph_current());
       at != NULL && at != to; at = at->parent)
    if (at->is_while_body || at->initial != NULL)
      return ls_unimplemented("the gradient of loop '%s' is taken inside "
                              "another, later loop, '%s'; take it outside",
                              ls_op_name(l->g->op), ls_graph_name(at));
  return ls_ok();
}

static ls_status rules_loop_check_captures(const loop *l) {
  for (size_t i = 0; i < l->body->num_captures; ++i)
    if (l->g->wanted[l->first_capture + i] &&
        ls_tensor_dtype(ls_op_input(l->g->op, l->first_capture + i)) ==
            LS_DTYPE_VARIANT)
      return ls_unimplemented("loop '%s' pops a stack that is not loop-carried",
                              ls_op_name(l->g->op));
  return ls_ok();
}

// ---- The draft -------------------------------------------------------------
static ls_status make_draft(loop *l) {
  ls_graph *around = ls_graph_resolve(ls_graph_current());
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "while_gradient",
                                   around->runtime, around, &l->draft));
  l->draft->is_while_body = true;
  for (size_t i = 0; i < l->num_carried; ++i) {
    ls_tensor gradient;
    if (!rules_loop_has(l->turning, i)) continue;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        l->draft, ls_graph_type(l->body, l->body->parameters[i]), NULL,
        &gradient));
    ++l->num_turning;
  }
  l->forward = ls_forward_region(l->g->walk->forward, l->g->op, 1, l->draft);
  return ls_memory_status(l->forward != NULL);
}

static ls_tensor turning_gradient(const loop *l, size_t number) {
  return (ls_tensor){l->draft, l->draft->parameters[number]};
}

static ls_status list_seeds(loop *l) {
  ls_gradient_inner *walk = &l->walk;
  LS_ARENA_SET_OR_RETURN(l->g->walk->context->arena, ls_gradient_seed,
                         walk->seeds, l->num_carried + l->num_saved);
  size_t number = 0;
  for (size_t i = 0; i < l->num_carried; ++i)
    if (rules_loop_has(l->turning, i))
      walk->seeds[walk->num_seeds++] = (ls_gradient_seed){
          {l->body, l->body->results[i]}, turning_gradient(l, number++)};
  for (size_t i = 0; i < l->num_saved; ++i) {
    if (!is_saved_followed(l, i)) continue;
    const uint64_t ref = l->body->results[l->num_carried + i];
    ls_gradient_seed *seed = &walk->seeds[walk->num_seeds++];
    seed->y = (ls_tensor){l->body, ref};
    LS_RETURN_IF_ERROR(
        ls_forward_take(l->forward, l->g->dout[l->num_carried + 1 + i],
                        ls_graph_type(l->body, ref), &seed->gradient));
  }
  return ls_ok();
}

static ls_status list_goals(loop *l) {
  const ls_backward *g = l->g;
  ls_arena *arena = g->walk->context->arena;
  ls_gradient_goal *variables = NULL;
  LS_RETURN_IF_ERROR(ls_gradient_walk_variables(
      g->walk, g->node, &variables, &l->variable_sources, &l->num_variables));
  const size_t most = l->num_turning + l->body->num_captures + l->num_variables;
  ls_gradient_inner *walk = &l->walk;
  LS_ARENA_SET_OR_RETURN(arena, ls_gradient_goal, walk->goals, most);
  LS_ARENA_SET_OR_RETURN(arena, size_t, l->turning_goals, l->num_turning);
  LS_ARENA_SET_OR_RETURN(arena, loop_sum, l->sums, most);
  size_t number = 0;
  for (size_t i = 0; i < l->num_carried; ++i) {
    if (!rules_loop_has(l->turning, i)) continue;
    l->turning_goals[number++] = walk->num_goals;
    walk->goals[walk->num_goals++].tensor =
        ls_gradient_parameter(l->forward, i);
  }
  for (size_t i = 0; i < l->body->num_captures; ++i) {
    const size_t input = l->first_capture + i;
    if (!g->wanted[input]) continue;
    l->sums[l->num_sums++] = (loop_sum){walk->num_goals, input, true};
    walk->goals[walk->num_goals++].tensor =
        ls_gradient_parameter(l->forward, l->num_carried + i);
  }
  for (size_t i = 0; i < l->num_variables; ++i) {
    l->sums[l->num_sums++] =
        (loop_sum){walk->num_goals, l->variable_sources[i], false};
    walk->goals[walk->num_goals++] = variables[i];
  }
  return ls_ok();
}

static ls_status rules_loop_add_result(loop *l, ls_tensor value) {
  if (ls_tensor_is_failed(value)) return ls_graph_error(l->draft);
  return ls_graph_import(l->draft, value, &l->results[l->num_results++]);
}

// Lists the gradients of this iteration's operands, then the stacks after their
// pops.
static ls_status rules_loop_list_results(loop *l) {
  const ls_gradient_goal *goals = l->walk.goals;
  const ls_forward_loop *saved = l->forward->loop;
  LS_ARENA_SET_OR_RETURN(l->g->walk->context->arena, uint64_t, l->results,
                         l->num_turning + l->num_sums + saved->num_stacks);
  for (size_t i = 0; i < l->num_turning; ++i) {
    ls_tensor gradient = goals[l->turning_goals[i]].gradient;
    if (gradient.ref == 0) gradient = ls_gradient_zeros(turning_gradient(l, i));
    LS_RETURN_IF_ERROR(rules_loop_add_result(l, gradient));
  }
  for (size_t i = 0; i < l->num_sums; ++i) {
    const ls_tensor gradient = goals[l->sums[i].goal].gradient;
    if (gradient.ref == 0) continue;
    l->sums[l->num_sums_kept++] = l->sums[i];
    LS_RETURN_IF_ERROR(rules_loop_add_result(l, gradient));
  }
  for (size_t i = 0; i < saved->num_stacks; ++i)
    l->results[l->num_results++] = saved->stacks[i].rest;
  return ls_graph_set_results(l->draft, l->results, l->num_results);
}

static ls_status walk_draft(loop *l) {
  LS_RETURN_IF_ERROR(ls_gradient_walk_inner(l->g, &l->walk));
  LS_RETURN_IF_ERROR(rules_loop_list_results(l));
  return ls_graph_error(l->draft);
}

static ls_status fill_draft(loop *l) {
  l->walk.forward = l->forward;
  LS_RETURN_IF_ERROR(list_seeds(l));
  LS_RETURN_IF_ERROR(list_goals(l));
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, l->draft);
  const ls_status status = walk_draft(l);
  ls_scope_end(&scope);
  return status;
}

// ---- The loop --------------------------------------------------------------
static ls_nest has_trips_left(ls_nest values, void *user) {
  (void)user;
  const ls_tensor none = ls_scalar_i64(LS_DTYPE_I64, 0);
  return ls_leaf(ls_greater(ls_nest_tensor(values, 0), none));
}

// Returns the value in the final body for a parameter of the draft.
static ls_tensor argument(const loop *l, ls_nest values, size_t parameter) {
  const ls_forward_loop *saved = l->forward->loop;
  if (parameter < l->num_turning) return ls_nest_tensor(values, 1 + parameter);
  const ls_capture *capture = &l->draft->captures[parameter - l->num_turning];
  for (size_t i = 0; i < saved->num_stacks; ++i)
    if (saved->stacks[i].capture == capture->inner)
      return ls_nest_tensor(values, 1 + l->num_turning + l->num_sums_kept + i);
  return capture->outer;
}

// Adds a term to a sum, which is f32 for 16-bit floats. Slices are added to
// their rows only, so that an iteration costs as much as the rows it looked up,
// not the whole table.
static ls_tensor rules_loop_add_term(ls_tensor sum, ls_tensor term) {
  ls_tensor indices, values;
  const ls_dtype dtype = ls_tensor_dtype(sum);
  return ls_tensor_is_slices(term, &indices, &values)
             ? ls_scatter(LS_SCATTER_ADD, sum, indices,
                          ls_convert(values, dtype))
             : ls_add(sum, ls_convert(term, dtype));
}

static ls_status build_trip(const loop *l, ls_nest values, ls_nest *leaves) {
  ls_arena *arena = l->g->walk->context->arena;
  const size_t count = l->draft->num_parameters;
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, args, count);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, made, l->num_results);
  for (size_t i = 0; i < count; ++i)
    args[i] = argument(l, values, i);
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I64, 1);
  leaves[0] = ls_leaf(ls_sub(ls_nest_tensor(values, 0), one));
  LS_RETURN_IF_ERROR(ls_graph_inline(l->draft, args, count, made));
  for (size_t i = 0; i < l->num_results; ++i) {
    const bool is_sum =
        i >= l->num_turning && i < l->num_turning + l->num_sums_kept;
    leaves[1 + i] = ls_leaf(
        is_sum ? rules_loop_add_term(ls_nest_tensor(values, 1 + i), made[i])
               : made[i]);
  }
  return ls_ok();
}

static ls_nest backward_trip(ls_nest values, void *user) {
  const loop *l = user;
  ls_nest *leaves = ls_arena_new_array(l->g->walk->context->arena, ls_nest,
                                       1 + l->num_results);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  LS_RETURN_FAILED_IF_ERROR(build_trip(l, values, leaves));
  return ls_nest_sequence(LS_KIND_LIST, leaves, 1 + l->num_results);
}

static ls_dtype type_of_sum(const loop *l, const loop_sum *sum) {
  return sum->is_input ? ls_tensor_dtype(ls_op_input(l->g->op, sum->input))
                       : ls_variable_dtype(l->walk.goals[sum->goal].variable);
}

// Makes the zero that a sum starts with.
static ls_tensor zero_sum(const loop *l, const loop_sum *sum) {
  const ls_dtype dtype = ls_wide_dtype(type_of_sum(l, sum));
  if (!sum->is_input)
    return ls_fill(dtype, ls_variable_shape(l->walk.goals[sum->goal].variable),
                   0);
  const ls_tensor zero = ls_scalar(dtype, 0);
  return ls_broadcast_like(zero, ls_gradient_input(l->g, sum->input));
}

static ls_status list_initial(const loop *l, ls_nest *leaves) {
  const ls_forward_loop *saved = l->forward->loop;
  ls_tensor trips;
  LS_RETURN_IF_ERROR(ls_forward_trips(l->forward, &trips));
  size_t count = 0;
  leaves[count++] = ls_leaf(trips);
  for (size_t i = 0; i < l->num_carried; ++i) {
    if (!rules_loop_has(l->turning, i)) continue;
    leaves[count++] = ls_leaf(
        comes_in(l, i) ? l->g->dout[i]
                       : ls_gradient_zeros(ls_gradient_output(l->g, i)));
  }
  for (size_t i = 0; i < l->num_sums_kept; ++i)
    leaves[count++] = ls_leaf(zero_sum(l, &l->sums[i]));
  for (size_t i = 0; i < saved->num_stacks; ++i)
    leaves[count++] = ls_leaf(saved->stacks[i].stack);
  return ls_ok();
}

// Passes the final gradients of loop values, and the sums, to the operands and
// variables.
static ls_status rules_loop_take_results(const loop *l, ls_nest made) {
  ls_backward *g = l->g;
  size_t next = 1;
  for (size_t i = 0; i < l->num_carried; ++i) {
    if (!rules_loop_has(l->turning, i)) continue;
    if (g->wanted[i]) g->din[i] = ls_nest_tensor(made, next);
    ++next;
  }
  for (size_t i = 0; i < l->num_sums_kept; ++i) {
    const loop_sum *sum = &l->sums[i];
    const ls_tensor total =
        ls_convert(ls_nest_tensor(made, next++), type_of_sum(l, sum));
    if (sum->is_input)
      g->din[sum->input] = total;
    else
      LS_RETURN_IF_ERROR(
          ls_gradient_walk_contribute(g->walk, sum->input, total));
  }
  return ls_ok();
}

// Returns a bound of the trips, or 0.
static int64_t most_trips(const loop *l) {
  const ls_node *node = l->g->node;
  ls_trips trips;
  return ls_node_count_trips(ls_graph_resolve(l->g->op.graph), node,
                             ls_graph_resolve(node->regions[0])->results[0],
                             &trips) &&
                 trips.limit < 0
             ? (trips.most > 0 ? trips.most : 1)
             : ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
}

static ls_status run_back(loop *l) {
  LS_ARENA_ARRAY_OR_RETURN(l->g->walk->context->arena, ls_nest, leaves,
                           1 + l->num_results);
  LS_RETURN_IF_ERROR(list_initial(l, leaves));
  LS_RETURN_IF_ERROR(ls_graph_error(ls_graph_current()));
  LS_OWN(ls_nest, made) =
      ls_while(has_trips_left, backward_trip, l,
               ls_nest_sequence(LS_KIND_LIST, leaves, 1 + l->num_results),
               most_trips(l));
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  return rules_loop_take_results(l, made);
}

ls_status gradient_while(ls_backward *g) {
  LS_OWN(loop, l) = {0};
  LS_RETURN_IF_ERROR(look_around(&l, g));
  bool followed = !is_empty(&l, l.turning);
  for (size_t i = 0; i < l.num_saved; ++i)
    followed |= is_saved_followed(&l, i);
  if (!followed) return ls_ok();
  LS_RETURN_IF_ERROR(check_place(&l));
  LS_RETURN_IF_ERROR(rules_loop_check_captures(&l));
  LS_RETURN_IF_ERROR(make_draft(&l));
  LS_RETURN_IF_ERROR(fill_draft(&l));
  return run_back(&l);
}

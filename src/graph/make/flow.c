// SPDX-License-Identifier: Apache-2.0
//
// Op makers: loops and branches. In a graph they are ops with regions; in eager
// mode, plain C control flow on known values.
#include "base/memory/own.h"
#include "graph/layers.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "lockstep/distributed.h"

// A loop or branch being built.
typedef struct flow {
  ls_graph *graph;
  ls_graph *regions[2];
  ls_tensor *inputs;
  size_t num_inputs, inputs_capacity;
} flow;

static ls_status flow_add_input(flow *f, ls_tensor tensor) {
  LS_PUSH_OR_RETURN(f->graph->allocator, f->inputs, f->num_inputs,
                    f->inputs_capacity, tensor);
  return ls_ok();
}

static ls_status add_captures(flow *f) {
  const size_t captures = ls_count_captures(f->regions, 2);
  if (captures == 0) return ls_ok();
  LS_RETURN_IF_NO_MEMORY(LS_GROW(f->graph->allocator, f->inputs,
                                 f->inputs_capacity, f->num_inputs + captures));
  f->num_inputs += ls_list_captures(f->regions, 2, f->inputs + f->num_inputs);
  return ls_ok();
}

static void drop_flow(flow *f) {
  ls_graph_free(f->regions[0]);
  ls_graph_free(f->regions[1]);
  ls_release(f->graph->allocator, f->inputs);
}
LS_OWNED_STRUCT(flow, drop_flow)

// Adds the leaves of a nest as tensors of the current graph.
static ls_status add_leaves(flow *f, ls_nest nest) {
  const size_t count = ls_nest_num_leaves(nest);
  LS_OWN_ARRAY_OR_RETURN(f->graph->allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(nest, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    ls_tensor tensor;
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_region_tensor(leaves[i], &tensor));
    LS_RETURN_IF_ERROR(ls_graph_import(f->graph, tensor, &ref));
    LS_RETURN_IF_ERROR(flow_add_input(f, (ls_tensor){f->graph, ref}));
  }
  return ls_ok();
}

// Makes region `r` and traces `callback` in it, with new parameters for the
// first `count` inputs. `*out_result` (may be NULL) becomes the nest it
// returned.
static ls_status trace_region(flow *f, size_t r, const char *name,
                              ls_flow_callback callback, void *user,
                              ls_nest like, size_t count, ls_nest *out_result) {
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, name, f->graph->runtime,
                                   f->graph, &f->regions[r]));
  LS_OWN_ARRAY_OR_RETURN(f->graph->allocator, ls_type, types, count + 1);
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(f->graph, f->inputs[i].ref);
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_region_parameters(f->regions[r], like, types, count, &args));
  if (count != 0) f->regions[r]->initial = f->inputs;
  const ls_status status =
      ls_region_trace(f->regions[r], callback, args, user, &result);
  f->regions[r]->initial = NULL;
  LS_RETURN_IF_ERROR(status);
  if (out_result != NULL) *out_result = ls_give(&result);
  return ls_ok();
}

// Replaces leaves by the outputs of an op, in order; a distributed value takes
// one output per component.
typedef struct packing {
  ls_op op;
  unsigned next;
} packing;

static ls_nest pack_leaf(ls_nest leaf, void *user) {
  packing *p = user;
  if (leaf.kind == LS_KIND_NONE || leaf.kind == LS_KIND_OP ||
      leaf.kind == LS_KIND_OBJECT)
    return ls_nest_retain(leaf);
  if (leaf.kind != LS_KIND_DISTRIBUTED)
    return ls_leaf(ls_op_output(p->op, p->next++));
  const size_t count = ls_distributed_count(leaf);
  LS_OWN_ARRAY(p->op.graph->allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] = pack_leaf(ls_distributed_component(leaf, i), p);
  return ls_nest_distributed(ls_distributed_kind_of(leaf), items, count);
}

static ls_status pack_outputs(ls_op op, ls_nest like, ls_nest *out_nest) {
  packing p = {.op = op};
  LS_OWN(ls_nest, packed) = ls_nest_map(like, pack_leaf, &p);
  LS_RETURN_IF_ERROR(ls_nest_status(packed));
  return ls_hand_over(&packed, out_nest);
}

static ls_nest flow_failed(const char *what, ls_status status) {
  const ls_status copy = ls_status_clone(status);
  ls_make_failed(what, status);  // Also sets the graph's error.
  return ls_fail(copy);
}

// ---- Loops -----------------------------------------------------------------
static ls_status truth_of(ls_nest nest, bool *out_truth) {
  const ls_tensor t = ls_nest_tensor(nest, 0);
  ls_node *node = ls_graph_node_of(t.graph, t.ref);
  if (node != NULL) ls_library_layers.eager->catch_up(t.graph, node);
  if (node != NULL && node->failure != NULL)
    return ls_status_clone(node->failure);
  if (node == NULL || node->values == NULL)
    return ls_invalid_argument("a condition must be one bool scalar");
  const ls_array *value = node->values[ls_ref_output(t.ref)];
  if (ls_array_dtype(value) != LS_DTYPE_BOOL || ls_array_shape(value).rank != 0)
    return ls_invalid_argument(
        "a condition must be one bool scalar, is %s",
        LS_SHAPE_TEXT(ls_array_dtype(value), ls_array_shape(value)));
  *out_truth = ls_array_i64(value, 0) != 0;
  return ls_ok();
}

static ls_status test_condition(ls_flow_callback condition, ls_nest values,
                                void *user, bool *out_holds) {
  LS_OWN(ls_nest, holds) = condition(values, user);
  LS_RETURN_IF_ERROR(ls_nest_status(holds));
  return truth_of(holds, out_holds);
}

static ls_nest eager_while(ls_flow_callback condition, ls_flow_callback body,
                           void *user, ls_nest values, int64_t max_trips) {
  ls_first_failure first;
  ls_status status = ls_ok();
  ls_failure_begin(&first);
  for (int64_t trip = 0; max_trips == 0 || trip < max_trips; ++trip) {
    bool go_on = false;
    status = test_condition(condition, values, user, &go_on);
    if (!ls_status_is_ok(status) || first.status != NULL || !go_on) break;
    const ls_nest next = body(values, user);
    ls_nest_release(values);
    values = next;
    if (ls_nest_is_failed(values) || first.status != NULL) break;
  }
  status = ls_failure_end(&first, status);
  if (ls_status_is_ok(status)) return values;
  ls_nest_release(values);
  return flow_failed("while", status);
}

// The limit of a loop's trips, and whether the trips count as steps.
typedef struct loop_trips {
  int64_t most;
  bool are_steps;
} loop_trips;

static ls_status build_while(flow *f, ls_flow_callback condition,
                             ls_flow_callback body, void *user, ls_nest initial,
                             loop_trips trips, ls_nest *out_result) {
  LS_RETURN_IF_ERROR(add_leaves(f, initial));
  const size_t carried = f->num_inputs;
  LS_OWN(ls_nest, after) = ls_none();
  LS_RETURN_IF_ERROR(trace_region(f, 0, "while_condition", condition, user,
                                  initial, carried, NULL));
  LS_RETURN_IF_ERROR(
      trace_region(f, 1, "while_body", body, user, initial, carried, &after));
  const ls_status same = ls_nest_same_structure(initial, after);
  if (!ls_status_is_ok(same))
    return ls_status_annotate(
        same, "between a loop's initial values and its body's results");
  LS_RETURN_IF_ERROR(add_captures(f));
  const ls_attr attrs[] = {LS_OWN_I(NUM_CARRIED, (int64_t)carried),
                           LS_OWN_I(MAX_TRIPS, trips.most),
                           LS_OWN_B(COUNTS_STEPS, true)};
  const ls_op op = ls_op_add(&(ls_op_spec){.type = LS_OP_WHILE,
                                           .inputs = f->inputs,
                                           .num_inputs = f->num_inputs,
                                           .attrs = attrs,
                                           .num_attrs = trips.are_steps ? 3 : 2,
                                           .regions = f->regions,
                                           .num_regions = 2});
  if (ls_op_is_failed(op)) return ls_graph_error(f->graph);
  f->regions[0] = f->regions[1] = NULL;
  return pack_outputs(op, initial, out_result);
}

static ls_nest make_while(ls_flow_callback condition, ls_flow_callback body,
                          void *user, ls_nest initial, loop_trips trips) {
  ls_graph *graph = ls_graph_current();
  if (graph == NULL) return initial;
  if (ls_nest_is_failed(initial)) {
    ls_make_failed("while", ls_nest_status(initial));
    return initial;
  }
  ls_status refusal = ls_ok();
  if (condition == NULL || body == NULL)
    refusal = ls_invalid_argument("the %s of a loop is NULL",
                                  condition == NULL ? "condition" : "body");
  else if (trips.most < 0)
    refusal = ls_invalid_argument("'max_trips' is %lld, must be at least 0",
                                  (long long)trips.most);
  if (!ls_status_is_ok(refusal)) {
    ls_nest_release(initial);
    return flow_failed("while", refusal);
  }
  if (graph->kind == LS_GRAPH_EAGER)
    return eager_while(condition, body, user, initial, trips.most);
  LS_OWN(flow, f) = {.graph = graph};
  ls_nest result = ls_none();
  const ls_status status =
      build_while(&f, condition, body, user, initial, trips, &result);
  ls_nest_release(initial);
  return ls_status_is_ok(status) ? result : flow_failed("while", status);
}

ls_nest ls_while(ls_flow_callback condition, ls_flow_callback body, void *user,
                 ls_nest initial, int64_t max_trips) {
  return make_while(condition, body, user, initial,
                    (loop_trips){.most = max_trips});
}

ls_nest ls_step_while(ls_flow_callback condition, ls_flow_callback body,
                      void *user, ls_nest initial, int64_t max_trips) {
  return make_while(condition, body, user, initial,
                    (loop_trips){.most = max_trips, .are_steps = true});
}

// ---- Branches --------------------------------------------------------------
static ls_status build_cond(flow *f, ls_tensor predicate, ls_flow_callback yes,
                            ls_flow_callback no, void *user,
                            ls_nest *out_result) {
  LS_OWN(ls_nest, first) = ls_none();
  LS_OWN(ls_nest, second) = ls_none();
  LS_RETURN_IF_ERROR(add_leaves(f, ls_leaf(predicate)));
  LS_RETURN_IF_ERROR(
      trace_region(f, 0, "cond_then", yes, user, ls_none(), 0, &first));
  LS_RETURN_IF_ERROR(
      trace_region(f, 1, "cond_else", no, user, ls_none(), 0, &second));
  LS_RETURN_IF_ERROR(ls_status_annotate(ls_nest_same_structure(first, second),
                                        "between the results of two branches"));
  LS_RETURN_IF_ERROR(add_captures(f));
  const ls_op op = ls_op_add(&(ls_op_spec){.type = LS_OP_COND,
                                           .inputs = f->inputs,
                                           .num_inputs = f->num_inputs,
                                           .regions = f->regions,
                                           .num_regions = 2});
  if (ls_op_is_failed(op)) return ls_graph_error(f->graph);
  f->regions[0] = f->regions[1] = NULL;
  return pack_outputs(op, first, out_result);
}

static ls_status no_branch(ls_flow_callback then_branch) {
  return ls_invalid_argument("the %s branch of a cond is NULL",
                             then_branch == NULL ? "first" : "second");
}

ls_nest ls_cond(ls_tensor predicate, ls_flow_callback then_branch,
                ls_flow_callback else_branch, void *user) {
  ls_graph *graph = NULL;
  LS_RETURN_FAILED_IF_ERROR(ls_graph_find_current(&graph));
  if (graph->kind == LS_GRAPH_EAGER) {
    bool holds = false;
    const ls_status status = truth_of(ls_leaf(predicate), &holds);
    if (!ls_status_is_ok(status)) return ls_fail(status);
    if (then_branch == NULL || else_branch == NULL)
      return ls_fail(no_branch(then_branch));
    return (holds ? then_branch : else_branch)(ls_none(), user);
  }
  if (then_branch == NULL || else_branch == NULL)
    return flow_failed("cond", no_branch(then_branch));
  LS_OWN(flow, f) = {.graph = graph};
  ls_nest result = ls_none();
  const ls_status status =
      build_cond(&f, predicate, then_branch, else_branch, user, &result);
  return ls_status_is_ok(status) ? result : flow_failed("cond", status);
}

// ---- Stacks -----------------------------------------------------------------
ls_tensor ls_stack_new(ls_dtype dtype, ls_shape shape) {
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, dtype), LS_OWN_SH(SHAPE, shape)};
  return ls_make(LS_OP_STACK_NEW, NULL, 0, attrs,
                 dtype == LS_DTYPE_NONE ? 0 : LS_COUNT_OF(attrs));
}

ls_tensor ls_stack_zeros(void) {
  const ls_attr attr = LS_OWN_B(ENDLESS, true);
  return ls_make(LS_OP_STACK_NEW, NULL, 0, &attr, 1);
}

ls_tensor ls_stack_push(ls_tensor stack, ls_tensor value) {
  const ls_tensor inputs[] = {stack, value};
  return ls_make(LS_OP_STACK_PUSH, inputs, 2, NULL, 0);
}

ls_op ls_stack_pop(ls_tensor stack, ls_dtype dtype, ls_shape shape) {
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, dtype), LS_OWN_SH(SHAPE, shape)};
  return ls_make_op(LS_OP_STACK_POP, NULL, &stack, 1, attrs,
                    LS_COUNT_OF(attrs));
}

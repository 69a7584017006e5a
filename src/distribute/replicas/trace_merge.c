// SPDX-License-Identifier: Apache-2.0
//
// Merge calls of traced replicas.
//
// The body has R parameters for each argument, one for each replica's value.
// Results of the function leave the body as one value for all, or R values. The
// merge op of replica 0 has the body; the merge ops of other replicas have
// stubs that refer to the body.
#include "base/values/nest_builder.h"
#include "distribute/replicas/rounds.h"

#include "base/memory/own.h"
#include "distribute/values/values.h"
#include "graph/copy.h"
#include "graph/slices.h"

// A control input of a merge: an op of the replicas, found by its position in
// each region, or an op of an enclosing graph.
typedef struct waited {
  ls_op op;
  size_t at;
} waited;

typedef struct merging {
  ls_rounds *rounds;
  size_t replicas;
  ls_graph *first;  // Replica 0's graph.
  ls_graph *body;
  uint64_t *refs;  // [replica][argument]: refs in the replicas' graphs.
  size_t num_args;
  // Results of the body: R refs for each value that differs between replicas,
  // then the values that are the same.
  uint64_t *gathered, *uniform;
  size_t num_gathered, num_uniform;  // Numbers of refs.
  size_t gathered_capacity, uniform_capacity;
  waited *control;
  size_t num_control, control_capacity;
} merging;

static ls_allocator *allocator_of(const merging *m) {
  return m->rounds->strategy->allocator;
}

// ---- Arguments -------------------------------------------------------------
static bool is_own(const ls_replica_task *task, ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.ref != 0 &&
         ls_graph_resolve(leaf.as.tensor.graph) == task->graph;
}

typedef struct replica_args {
  merging *m;
  const ls_replica_task *task;
  size_t count;
} replica_args;

// Counts a replica's values; stores them once there is room.
static ls_nest note_value(ls_nest leaf, void *user) {
  replica_args *a = user;
  const merging *m = a->m;
  if (leaf.kind == LS_KIND_SLICES) return ls_slices_map(leaf, note_value, user);
  if (leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.ref == 0)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "an argument of a merge call is a failed tensor");
  if (!is_own(a->task, leaf)) return ls_none();
  if (m->refs != NULL && a->count < m->num_args)
    m->refs[(size_t)a->task->replica->id * m->num_args + a->count] =
        leaf.as.tensor.ref;
  ++a->count;
  return ls_none();
}

static ls_status note_values(merging *m, size_t replica, size_t *out_count) {
  replica_args a = {.m = m, .task = &m->rounds->tasks[replica]};
  const ls_nest noted = ls_nest_map(a.task->merge_args, note_value, &a);
  const ls_status status = ls_nest_status(noted);
  ls_nest_release(noted);
  *out_count = a.count;
  // If an op maker failed, its failure is the root cause.
  if (a.task->graph->error == NULL) return status;
  ls_status_free(status);
  return ls_status_annotate(ls_graph_take_error(a.task->graph),
                            "on replica %zu", replica);
}

static ls_status find_values(merging *m) {
  size_t count = 0;
  LS_RETURN_IF_ERROR(note_values(m, 0, &m->num_args));
  LS_SET_ARRAY_OR_RETURN(allocator_of(m), uint64_t, m->refs,
                         m->replicas * m->num_args);
  for (size_t r = 0; r < m->replicas; ++r) {
    LS_RETURN_IF_ERROR(note_values(m, r, &count));
    if (count != m->num_args)
      return ls_invalid_argument(
          "the merge call has %zu tensors of replica 0 and %zu of replica %zu",
          m->num_args, count, r);
  }
  return ls_ok();
}

static ls_status trace_merge_add_parameters(merging *m) {
  for (size_t i = 0; i < m->num_args; ++i)
    for (size_t r = 0; r < m->replicas; ++r) {
      ls_tensor parameter;
      const ls_type type = ls_graph_type(m->rounds->tasks[r].graph,
                                         m->refs[r * m->num_args + i]);
      LS_RETURN_IF_ERROR(
          ls_graph_add_parameter(m->body, type, NULL, &parameter));
    }
  return ls_ok();
}

static ls_nest replace_value(ls_nest leaf, void *user) {
  replica_args *a = user;
  if (leaf.kind == LS_KIND_SLICES)
    return ls_slices_map(leaf, replace_value, user);
  if (!is_own(a->task, leaf)) return ls_nest_retain(leaf);
  const size_t at = a->count++ * a->m->replicas + (size_t)a->task->replica->id;
  return ls_leaf((ls_tensor){a->m->body, a->m->body->parameters[at]});
}

// Regroups the replicas' arguments.
static ls_status regroup_args(merging *m, ls_nest *out_args) {
  LS_OWN(ls_nest_builder, values) = {.allocator = allocator_of(m)};
  for (size_t r = 0; r < m->replicas; ++r) {
    replica_args a = {.m = m, .task = &m->rounds->tasks[r]};
    if (!ls_nest_builder_append(
            &values, ls_nest_map(a.task->merge_args, replace_value, &a)))
      return ls_take_nest(ls_give(&values.failed), out_args);
  }
  return ls_regroup(values.items, values.count, NULL, out_args);
}

// ---- Trace the function ----------------------------------------------------
static ls_status trace_merge_push(const merging *m, uint64_t **refs,
                                  size_t *count, size_t *capacity,
                                  ls_tensor tensor) {
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_graph_import(m->body, tensor, &ref));
  LS_PUSH_OR_RETURN(allocator_of(m), *refs, *count, *capacity, ref);
  return ls_ok();
}

// How a leaf of the result is returned.
typedef enum way { AS_IT_IS, FOR_ALL, FOR_EACH } way;

// Follows copies back to the value that was copied.
static ls_tensor origin_of(ls_tensor x) {
  for (const ls_node *node = ls_graph_node_of(x.graph, x.ref);
       node != NULL && node->type == LS_OP_IDENTITY;
       node = ls_graph_node_of(x.graph, x.ref))
    x = ls_op_input(ls_tensor_op(x), 0);
  return x;
}

static way trace_merge_way_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR) return FOR_ALL;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return AS_IT_IS;
  const size_t count = ls_distributed_count(leaf);
  for (size_t r = 0; r < count; ++r)
    if (ls_distributed_component(leaf, r).kind != LS_KIND_TENSOR)
      return AS_IT_IS;
  if (ls_distributed_kind_of(leaf) != LS_MIRRORED) return FOR_EACH;
  // Mirrored components are usually copies of one value. Results of an update
  // are not, because each replica's result is read from its own component.
  const ls_tensor first =
      origin_of(ls_distributed_component(leaf, 0).as.tensor);
  for (size_t r = 1; r < count; ++r)
    if (!ls_tensor_equal(
            first, origin_of(ls_distributed_component(leaf, r).as.tensor)))
      return FOR_EACH;
  return FOR_ALL;
}

// Refuses a component without a tensor beside one with a tensor: each replica
// needs an output of the op. A list counts as one with tensors.
static ls_status check_parts(ls_nest leaf) {
  const size_t count = ls_distributed_count(leaf);
  size_t other = count;
  bool has_tensors = false;
  for (size_t r = 0; r < count; ++r) {
    const ls_nest part = ls_distributed_component(leaf, r);
    if (part.kind != LS_KIND_TENSOR) other = r;
    has_tensors |= part.kind == LS_KIND_TENSOR || ls_nest_is_node(part);
  }
  return !has_tensors || other == count
             ? ls_ok()
             : ls_unimplemented(
                   "component %zu is %s: when replicas are traced, either each "
                   "component is a tensor or none has one",
                   other, LS_NEST_TEXT(ls_distributed_component(leaf, other)));
}

static ls_nest note_result(ls_nest leaf, void *user) {
  merging *m = user;
  if (ls_leaf_is_slices(leaf)) return ls_slices_map(leaf, note_result, user);
  const way how = trace_merge_way_of(leaf);
  ls_status status = ls_check_components(
      leaf,
      &(ls_device_list){.devices = ls_strategy_devices(m->rounds->strategy),
                        .count = m->replicas});
  if (ls_status_is_ok(status) && how == AS_IT_IS) status = check_parts(leaf);
  LS_RETURN_FAILED_IF_ERROR(
      ls_status_annotate(status, "in the result of a merge function"));
  if (how == FOR_ALL)
    status =
        trace_merge_push(m, &m->uniform, &m->num_uniform, &m->uniform_capacity,
                         ls_distributed_component(leaf, 0).as.tensor);
  for (size_t r = 0;
       how == FOR_EACH && r < m->replicas && ls_status_is_ok(status); ++r)
    status = trace_merge_push(m, &m->gathered, &m->num_gathered,
                              &m->gathered_capacity,
                              ls_distributed_component(leaf, r).as.tensor);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

// Lists further values of the body as results: those that cannot be computed
// again, mainly reads of variables, because gradients need them. Without a
// gradient they are dropped later.
static ls_status note_once(merging *m) {
  const size_t given = m->num_gathered + m->num_uniform;
  for (size_t i = 0; given > 0 && i < m->body->num_nodes; ++i) {
    const ls_node *node = m->body->nodes[i];
    if (node->num_regions == 0 && node->num_outputs == 1 &&
        node->outputs[0].dtype != LS_DTYPE_VARIANT &&
        !ls_node_is_repeatable(node))
      LS_RETURN_IF_ERROR(trace_merge_push(
          m, &m->uniform, &m->num_uniform, &m->uniform_capacity,
          (ls_tensor){m->body, ls_ref(node->id, 0)}));
  }
  return ls_ok();
}

static ls_status trace_merge_set_results(const merging *m) {
  const size_t count = m->num_gathered + m->num_uniform;
  LS_OWN_ARRAY_OR_RETURN(allocator_of(m), uint64_t, refs, count);
  for (size_t i = 0; i < count; ++i)
    refs[i] =
        i < m->num_gathered ? m->gathered[i] : m->uniform[i - m->num_gathered];
  return ls_graph_set_results(m->body, refs, count);
}

static ls_status trace_function(merging *m, ls_nest args, ls_nest *out_result) {
  const ls_replica_task *first = &m->rounds->tasks[0];
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, m->body);
  ls_status status = ls_take_nest(
      first->merge(m->rounds->strategy, args, first->merge_user), out_result);
  if (ls_status_is_ok(status)) {
    const ls_nest noted = ls_nest_map(*out_result, note_result, m);
    status = ls_nest_status(noted);
    ls_nest_release(noted);
  }
  ls_scope_end(&scope);
  if (m->body->error != NULL) {
    ls_status_free(status);
    status = ls_graph_take_error(m->body);
  }
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(note_once(m));
  return trace_merge_set_results(m);
}

// ---- The ops ---------------------------------------------------------------
// Finds the outer value that replica 0's graph captured as `ref`.
static ls_status captured(const merging *m, uint64_t ref, ls_tensor *out) {
  for (size_t i = 0; i < m->first->num_captures; ++i) {
    *out = m->first->captures[i].outer;
    if (m->first->captures[i].inner == ref) return ls_ok();
  }
  return ls_invalid_argument(
      "the merge function uses '%s', a value of replica 0; pass the replicas' "
      "values as arguments of the merge call",
      ls_tensor_name((ls_tensor){m->first, ref}));
}

static ls_status fill_inputs(const merging *m, size_t replica,
                             ls_tensor *inputs) {
  ls_graph *graph = m->rounds->tasks[replica].graph;
  for (size_t i = 0; i < m->num_args; ++i)
    inputs[i] = (ls_tensor){graph, m->refs[replica * m->num_args + i]};
  for (size_t i = 0; i < m->body->num_captures; ++i) {
    ls_tensor outer;
    LS_RETURN_IF_ERROR(captured(m, m->body->captures[i].outer.ref, &outer));
    inputs[m->num_args + i] = outer;
  }
  return ls_ok();
}

// Makes a replica's body: replica 0 gets the body itself, others a stub.
static ls_status body_for(const merging *m, size_t replica,
                          ls_graph **out_body) {
  *out_body = m->body;
  if (replica == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "merge", m->body->runtime,
                                   m->rounds->tasks[replica].graph, out_body));
  ls_graph_forward(*out_body, m->body);
  return ls_ok();
}

// Returns the control input for a replica: the op at its position in the
// replica's region, or the op of an enclosing graph.
static ls_op control_of(const merging *m, const waited *w, size_t replica) {
  ls_graph *graph = m->rounds->tasks[replica].graph;
  if (w->op.id != 0) return w->op;
  return w->at < graph->num_nodes ? (ls_op){graph, graph->nodes[w->at]->id}
                                  : (ls_op){0};
}

static ls_status add_control(merging *m, const ls_graph *graph, ls_op op) {
  waited w = {.op = op};
  if (ls_graph_resolve(op.graph) == graph)
    w = (waited){.at = ls_graph_position(graph, op.id)};
  for (size_t i = 0; i < m->num_control; ++i)
    if (m->control[i].op.id == w.op.id && m->control[i].at == w.at)
      return ls_ok();
  LS_PUSH_OR_RETURN(allocator_of(m), m->control, m->num_control,
                    m->control_capacity, w);
  return ls_ok();
}

// Collects the control dependencies of all replicas: the merge waits for each
// of them.
static ls_status join_control(merging *m) {
  for (size_t r = 0; r < m->replicas; ++r) {
    const ls_replica_task *task = &m->rounds->tasks[r];
    const ls_scope_state *there = &task->context.scoped;
    const ls_open_scope *s =
        there->graph == task->graph ? there->control : NULL;
    for (; s != NULL; s = s->before.control)
      for (size_t i = 0; i < s->own.control.count; ++i)
        LS_RETURN_IF_ERROR(add_control(m, task->graph, s->own.control.ops[i]));
  }
  return ls_ok();
}

static ls_status trace_merge_add_op(const merging *m, size_t replica,
                                    bool *out_taken, ls_op *out_op) {
  const size_t num_inputs = m->num_args + m->body->num_captures;
  LS_OWN_ARRAY_OR_RETURN(allocator_of(m), ls_tensor, inputs, num_inputs);
  LS_OWN_ARRAY_OR_RETURN(allocator_of(m), ls_op, control, m->num_control + 1);
  ls_graph *body = NULL, *graph = m->rounds->tasks[replica].graph;
  LS_RETURN_IF_ERROR(fill_inputs(m, replica, inputs));
  for (size_t i = 0; i < m->num_control; ++i)
    control[i] = control_of(m, &m->control[i], replica);
  LS_RETURN_IF_ERROR(body_for(m, replica, &body));
  const ls_attr attrs[] = {
      LS_OWN_I(REPLICAS, (int64_t)m->replicas),
      LS_OWN_I(NUM_ARGS, (int64_t)m->num_args),
      LS_OWN_I(NUM_GATHERED, (int64_t)(m->num_gathered / m->replicas))};
  ls_scope scope = {0}, controls = {0};
  ls_context_enter_graph(&scope, graph);
  if (m->num_control > 0)
    ls_control_scope_begin(&controls, control, m->num_control);
  *out_op = ls_op_add(&(ls_op_spec){.type = LS_OP_MERGE_CALL,
                                    .name = "merge_call",
                                    .inputs = inputs,
                                    .num_inputs = num_inputs,
                                    .attrs = attrs,
                                    .num_attrs = LS_COUNT_OF(attrs),
                                    .regions = &body,
                                    .num_regions = 1});
  ls_scope_end(&controls);
  ls_scope_end(&scope);
  *out_taken = !ls_op_is_failed(*out_op);
  if (*out_taken) return ls_ok();
  if (replica > 0) ls_graph_free(body);
  return ls_graph_take_error(graph);
}

// ---- Results of each replica -----------------------------------------------
typedef struct giving {
  ls_same_values *same;
  size_t replica, next_gathered, next_uniform;
  ls_op op;
} giving;

static ls_nest give_output(const giving *g, size_t output, bool same) {
  const ls_tensor made = ls_op_output(g->op, (unsigned)output);
  return same && !ls_same_values_add(g->same, made)
             ? ls_fail(ls_out_of_memory())
             : ls_leaf(made);
}

static ls_nest trace_merge_give_leaf(ls_nest leaf, void *user) {
  giving *g = user;
  if (ls_leaf_is_slices(leaf))
    return ls_slices_map(leaf, trace_merge_give_leaf, user);
  switch (trace_merge_way_of(leaf)) {
  case FOR_EACH:
    return give_output(g, g->next_gathered++,
                       ls_distributed_kind_of(leaf) == LS_MIRRORED);
  case FOR_ALL:
    return give_output(g, g->next_uniform++, true);
  default:
    return ls_nest_retain(ls_distributed_component(leaf, g->replica));
  }
}

static ls_status trace_merge_give_results(merging *m, ls_nest result,
                                          bool *out_taken) {
  for (size_t r = 0; r < m->replicas; ++r) {
    ls_replica_task *task = &m->rounds->tasks[r];
    bool taken = false;
    giving g = {.same = &task->same,
                .replica = r,
                .next_uniform = m->num_gathered / m->replicas};
    LS_RETURN_IF_ERROR(trace_merge_add_op(m, r, &taken, &g.op));
    if (r == 0) *out_taken = taken;
    ls_nest_release(task->merge_args);
    task->merge_args = ls_none();
    LS_RETURN_IF_ERROR(ls_take_nest(
        ls_nest_map(result, trace_merge_give_leaf, &g), &task->merged));
  }
  return ls_ok();
}

static ls_status trace_merge(merging *m, bool *out_taken) {
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "merge", m->first->runtime,
                                   m->first, &m->body));
  LS_RETURN_IF_ERROR(find_values(m));
  LS_RETURN_IF_ERROR(trace_merge_add_parameters(m));
  LS_RETURN_IF_ERROR(regroup_args(m, &args));
  LS_RETURN_IF_ERROR(trace_function(m, args, &result));
  LS_RETURN_IF_ERROR(join_control(m));
  return trace_merge_give_results(m, result, out_taken);
}

ls_status ls_trace_merge(ls_rounds *rounds) {
  merging m = {.rounds = rounds,
               .replicas = rounds->count,
               .first = rounds->tasks[0].graph};
  bool taken = false;
  const ls_status status = trace_merge(&m, &taken);
  ls_release(allocator_of(&m), m.control);
  ls_release(allocator_of(&m), m.refs);
  ls_release(allocator_of(&m), m.gathered);
  ls_release(allocator_of(&m), m.uniform);
  if (!taken) ls_graph_free(m.body);
  return ls_status_annotate(status, "in the merge call of %zu replicas",
                            m.replicas);
}

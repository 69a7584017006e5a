// SPDX-License-Identifier: Apache-2.0
//
// The rule of merge_call: a merge call of the gradients. Its body gets the
// forward arguments and every replica's gradients of the results, computes the
// forward values again, and walks back over them.
#include "base/runtime_internal.h"
#include "grad/rules.h"
#include "grad/walk.h"
#include "graph/context.h"
#include "graph/copy.h"
#include "graph/gather/gather.h"
#include "graph/make/make.h"

typedef struct merge_gradient {
  ls_backward *g;
  ls_arena *arena;
  size_t replicas, args, gathered;  // Numbers of the forward op.
  ls_graph *body;                   // Body of the forward op.
  ls_graph *made;                   // Body of the gradient op.
  ls_tensor *values;   // Values in `made` for the parameters of `body`.
  ls_tensor *results;  // Values in `made` for the results of `body`.
  ls_tensor *douts;    // [output][replica], in `made`, if given.
  ls_tensor *known;    // By node position in `body`: values not computed again.
  bool *has_gradient;  // By operand: true if it gets a gradient.
  size_t *reads;       // Positions of reads that get a gradient.
  size_t num_reads;
  size_t num_gathered;  // Gathered results of the gradient op.
  uint64_t *refs;       // Results of `made`.
  size_t num_refs;
} merge_gradient;
LS_OWNED_(merge_gradient, merge_gradient, ls_graph_free(ls_owned->made))

// ---- Computed again --------------------------------------------------------
static size_t first_result(const merge_gradient *m, size_t output) {
  return output < m->gathered
             ? output * m->replicas
             : m->gathered * m->replicas + (output - m->gathered);
}

static size_t num_results(const merge_gradient *m, size_t output) {
  return output < m->gathered ? m->replicas : 1;
}

static void rules_merge_need(const merge_gradient *m, bool *needed,
                             uint64_t ref) {
  needed[ls_graph_position(m->body, ls_ref_id(ref))] = true;
}

// Returns a value that cannot be computed again, which the forward op then
// returns as a further result.
static ls_tensor value_given(const merge_gradient *m, const ls_node *node) {
  const uint64_t ref = ls_ref(node->id, 0);
  if (node->num_regions != 0) return ls_failed_tensor();
  for (size_t i = m->gathered; i < m->g->node->num_outputs; ++i)
    if (m->body->results[first_result(m, i)] == ref)
      return ls_gradient_output(m->g, i);
  return ls_failed_tensor();
}

// Finds the nodes to compute again. Effects are refused, because a function
// that runs once for all must not repeat them.
static ls_status rules_merge_find_needed(const merge_gradient *m,
                                         bool *needed) {
  const ls_graph *body = m->body;
  for (size_t i = 0; i < m->g->num_outputs; ++i)
    for (size_t r = 0; m->g->dout[i].ref != 0 && r < num_results(m, i); ++r)
      rules_merge_need(m, needed, body->results[first_result(m, i) + r]);
  for (size_t i = body->num_nodes; i > 0; --i) {
    ls_node *node = body->nodes[i - 1];
    if (!needed[i - 1] || node->type == LS_OP_PARAMETER) continue;
    const bool again = ls_node_is_repeatable(node);
    if (!again) m->known[i - 1] = value_given(m, node);
    if (m->known[i - 1].ref != 0) continue;
    if (!again)
      return ls_not_found(
          "op '%s' (merge_call) has no gradient: its function's '%s' (%s) "
          "cannot be computed again; pass its result to the merge call as an "
          "argument, or wrap the merge call's result in ls_stop_gradient",
          ls_op_name(m->g->op), ls_node_name(m->body, node),
          ls_node_info(node)->name);
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      rules_merge_need(m, needed, node->inputs[k]);
  }
  return ls_ok();
}

static ls_status add_parameter(const merge_gradient *m, ls_type type,
                               ls_tensor *out) {
  return ls_graph_add_parameter(m->made, type, NULL, out);
}

static ls_status rules_merge_add_parameters(merge_gradient *m) {
  const ls_backward *g = m->g;
  const ls_graph *body = m->body;
  LS_ARENA_SET_OR_RETURN(m->arena, ls_tensor, m->values, body->num_parameters);
  LS_ARENA_SET_OR_RETURN(m->arena, ls_tensor, m->results, body->num_results);
  LS_ARENA_SET_OR_RETURN(m->arena, ls_tensor, m->douts,
                         g->num_outputs * m->replicas);
  for (size_t i = 0; i < body->num_declared; ++i)
    LS_RETURN_IF_ERROR(add_parameter(
        m, ls_graph_type(body, body->parameters[i]), &m->values[i]));
  for (size_t i = 0; i < g->num_outputs; ++i)
    for (size_t r = 0; g->dout[i].ref != 0 && r < m->replicas; ++r) {
      const size_t at = first_result(m, i) + (i < m->gathered ? r : 0);
      LS_RETURN_IF_ERROR(add_parameter(m,
                                       ls_graph_type(body, body->results[at]),
                                       &m->douts[i * m->replicas + r]));
    }
  for (size_t i = body->num_declared; i < body->num_parameters; ++i)
    m->values[i] = ls_gradient_input(m->g, m->args + i - body->num_declared);
  return ls_ok();
}

// ---- The walk --------------------------------------------------------------
typedef struct question {
  ls_nest *ys, *grad_ys, *xs, *stops, *answers;
  size_t num_ys, num_xs, num_stops;
} question;

// Returns true if the node at a position of the body reads a goal of the walk.
static bool reads_goal(const merge_gradient *m, size_t place) {
  return m->known[place].ref != 0 &&
         ls_gradient_goal_of_read(m->g->walk, m->body->nodes[place], 0) !=
             SIZE_MAX;
}

static ls_status make_question(const merge_gradient *m, question *q) {
  const ls_backward *g = m->g;
  const size_t ys = g->num_outputs * m->replicas;
  const size_t xs = m->body->num_parameters + m->body->num_nodes;
  LS_ARENA_ARRAY_OR_RETURN(m->arena, ls_nest, all, 2 * ys + 3 * xs);
  *q = (question){.ys = all,
                  .grad_ys = all + ys,
                  .xs = all + 2 * ys,
                  .stops = all + 2 * ys + xs,
                  .answers = all + 2 * ys + 2 * xs};
  for (size_t i = 0; i < g->num_outputs; ++i) {
    const ls_tensor *own = &m->douts[i * m->replicas];
    if (own[0].ref == 0) continue;
    const bool differs = i < m->gathered;
    for (size_t r = 0; r < num_results(m, i); ++r) {
      q->ys[q->num_ys] = ls_leaf(m->results[first_result(m, i) + r]);
      // A common result is one result on each replica; its gradients are added.
      q->grad_ys[q->num_ys++] =
          ls_leaf(differs ? own[r] : ls_add_n(own, m->replicas));
    }
  }
  for (size_t i = 0; i < g->num_inputs; ++i) {
    const size_t first =
        i < m->args ? i * m->replicas : m->body->num_declared + i - m->args;
    for (size_t r = 0; r < (i < m->args ? m->replicas : 1); ++r) {
      q->stops[q->num_stops++] = ls_leaf(m->values[first + r]);
      if (g->wanted[i]) q->xs[q->num_xs++] = ls_leaf(m->values[first + r]);
    }
  }
  for (size_t i = 0; i < m->body->num_nodes; ++i) {
    if (m->known[i].ref == 0) continue;
    q->stops[q->num_stops++] = ls_leaf(m->known[i]);
    if (reads_goal(m, i)) q->xs[q->num_xs++] = ls_leaf(m->known[i]);
  }
  return ls_ok();
}

static ls_status rules_merge_push(merge_gradient *m, ls_tensor result) {
  return ls_graph_import(m->made, result, &m->refs[m->num_refs++]);
}

// Takes the gradients: of each argument, one per replica; then of captures and
// variables.
static ls_status take_answers(merge_gradient *m, const question *q) {
  size_t next = 0;
  for (size_t i = 0; i < m->g->num_inputs; ++i) {
    if (!m->g->wanted[i]) continue;
    const size_t count = i < m->args ? m->replicas : 1;
    const ls_nest *own = &q->answers[next], *xs = &q->xs[next];
    next += count;
    for (size_t r = 0; r < count; ++r)
      m->has_gradient[i] = m->has_gradient[i] || own[r].kind == LS_KIND_TENSOR;
    if (!m->has_gradient[i]) continue;
    if (i < m->args) ++m->num_gathered;
    for (size_t r = 0; r < count; ++r)
      LS_RETURN_IF_ERROR(
          rules_merge_push(m, own[r].kind == LS_KIND_TENSOR
                                  ? own[r].as.tensor
                                  : ls_gradient_zeros(xs[r].as.tensor)));
  }
  for (size_t i = 0; i < m->body->num_nodes; ++i) {
    if (!reads_goal(m, i) || q->answers[next++].kind != LS_KIND_TENSOR)
      continue;
    m->reads[m->num_reads++] = i;
    LS_RETURN_IF_ERROR(rules_merge_push(m, q->answers[next - 1].as.tensor));
  }
  return ls_ok();
}

static ls_status walk_back(merge_gradient *m) {
  question q = {0};
  LS_RETURN_IF_ERROR(make_question(m, &q));
  const ls_gradient_options options = {.grad_ys = q.grad_ys,
                                       .aggregation =
                                           m->g->walk->context->aggregation,
                                       .stop_gradients = q.stops,
                                       .num_stop_gradients = q.num_stops};
  LS_RETURN_IF_ERROR(
      ls_gradients(q.ys, q.num_ys, q.xs, q.num_xs, &options, q.answers));
  return take_answers(m, &q);
}

static ls_status fill_body(merge_gradient *m, const bool *needed) {
  LS_RETURN_IF_ERROR(
      ls_graph_inline_part(m->body, m->values, m->body->num_parameters,
                           &(ls_inline_part){needed, m->known}, m->results));
  return walk_back(m);
}

static ls_status build_body(merge_gradient *m) {
  LS_ARENA_ARRAY_OR_RETURN(m->arena, bool, needed, m->body->num_nodes);
  LS_RETURN_IF_ERROR(rules_merge_find_needed(m, needed));
  LS_RETURN_IF_ERROR(rules_merge_add_parameters(m));
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, m->made);
  ls_status status = fill_body(m, needed);
  ls_scope_end(&scope);
  if (m->made->error != NULL) {
    ls_status_free(status);
    status = ls_graph_take_error(m->made);
  }
  return ls_status_is_ok(status)
             ? ls_graph_set_results(m->made, m->refs, m->num_refs)
             : status;
}

// ---- The op ----------------------------------------------------------------
static ls_status rules_merge_add_op(const merge_gradient *m, ls_op *out_op) {
  ls_backward *g = m->g;
  const size_t most = m->args + g->num_outputs + m->made->num_captures;
  LS_ARENA_ARRAY_OR_RETURN(m->arena, ls_tensor, inputs, most);
  size_t count = 0;
  for (size_t i = 0; i < m->args; ++i)
    inputs[count++] = ls_gradient_input(g, i);
  for (size_t i = 0; i < g->num_outputs; ++i)
    if (g->dout[i].ref != 0) inputs[count++] = g->dout[i];
  const ls_attr attrs[] = {LS_OWN_I(REPLICAS, (int64_t)m->replicas),
                           LS_OWN_I(NUM_ARGS, (int64_t)count),
                           LS_OWN_I(NUM_GATHERED, (int64_t)m->num_gathered)};
  count += ls_list_captures(&m->made, 1, inputs + count);
  ls_graph *body = m->made;
  *out_op = ls_op_add(&(ls_op_spec){.type = LS_OP_MERGE_CALL,
                                    .name = "merge_call",
                                    .inputs = inputs,
                                    .num_inputs = count,
                                    .attrs = attrs,
                                    .num_attrs = LS_COUNT_OF(attrs),
                                    .regions = &body,
                                    .num_regions = 1});
  return ls_ok();
}

// Gives the gradient of an outer value to replica 0, and zeros to the other
// replicas: the value and its gradient are the same for all, and the replicas'
// gradients are added outside.
static ls_tensor of_first_replica(ls_tensor gradient) {
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  const ls_tensor first = ls_equal(ls_replica_id(), zero);
  return ls_select(first, gradient, ls_gradient_zeros(gradient));
}

static ls_status differentiate_merge(merge_gradient *m) {
  ls_backward *g = m->g;
  ls_op op = {0};
  LS_RETURN_IF_ERROR(build_body(m));
  if (m->num_refs == 0) return ls_ok();
  LS_RETURN_IF_ERROR(rules_merge_add_op(m, &op));
  if (ls_op_is_failed(op)) return ls_ok();  // The walk finds the error.
  m->made = NULL;                           // The op owns the body now.
  unsigned own = 0, shared = (unsigned)m->num_gathered;
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (m->has_gradient[i])
      g->din[i] = i < m->args ? ls_op_output(op, own++)
                              : of_first_replica(ls_op_output(op, shared++));
  for (size_t i = 0; i < m->num_reads; ++i)
    LS_RETURN_IF_ERROR(
        ls_gradient_walk_read(g->walk, m->body->nodes[m->reads[i]],
                              of_first_replica(ls_op_output(op, shared++))));
  return ls_ok();
}

ls_status gradient_merge_call(ls_backward *g) {
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (graph != ls_graph_resolve(g->op.graph))
    return ls_failed_precondition(
        "the gradient of '%s' (merge_call) inside a nested function or the "
        "body of a loop or branch (control flow): take it in the replica's "
        "callback itself",
        ls_op_name(g->op));
  LS_OWN(merge_gradient, m) = {
      .g = g,
      .arena = g->walk->context->arena,
      .replicas = (size_t)ls_node_int(g->node, LS_ATTR_ID_REPLICAS),
      .args = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_ARGS),
      .gathered = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_GATHERED),
      .body = ls_graph_resolve(g->node->regions[0])};
  m.has_gradient = ls_arena_new_array(m.arena, bool, g->num_inputs);
  m.refs = ls_arena_new_array(m.arena, uint64_t,
                              m.body->num_parameters + m.body->num_nodes);
  m.known = ls_arena_new_array(m.arena, ls_tensor, m.body->num_nodes);
  m.reads = ls_arena_new_array(m.arena, size_t, m.body->num_nodes);
  if (m.has_gradient == NULL || m.refs == NULL || m.known == NULL ||
      m.reads == NULL)
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, "merge_gradient",
                                   graph->runtime, graph, &m.made));
  return differentiate_merge(&m);
}

// ---- Replicas ---------------------------------------------------------------
// Rules of collectives.

// The groups of the op, as an argument for another op; NULL: one group of all
// replicas.
typedef struct own_groups {
  ls_replica_groups groups;
  int32_t *members;
} own_groups;

static const ls_replica_groups *groups_of(const ls_backward *g,
                                          own_groups *out) {
  const ls_attr *attr = ls_node_attr(g->node, LS_ATTR_ID_GROUPS);
  *out = (own_groups){0};
  if (attr == NULL) return NULL;
  const size_t count = attr->as.ints.count;
  out->members = ls_new_array(ls_current_allocator(), int32_t, count);
  out->groups.size = (size_t)ls_node_int(g->node, LS_ATTR_ID_GROUP_SIZE);
  // Without memory `members` is NULL and `count` 0, which the op maker refuses.
  out->groups.count = out->members == NULL ? 0 : count / out->groups.size;
  out->groups.members = out->members;
  for (size_t i = 0; out->members != NULL && i < count; ++i)
    out->members[i] = (int32_t)attr->as.ints.items[i];
  return &out->groups;
}

static void drop_groups(own_groups *groups) {
  ls_release(ls_current_allocator(), groups->members);
}

// ---- Recorded results of collectives ---------------------------------------
static ls_status met_again(ls_backward *g) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  const char *op = ls_node_attr(g->node, LS_ATTR_ID_OP)->as.string;
  if (hooks == NULL || strcmp(op, ls_op_table[LS_OP_MERGE_CALL].name) != 0)
    return gradient_refused(g);
  ls_arena *arena = g->walk->context->arena;
  const size_t num_given = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_INPUTS);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, given, num_given);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, got, g->num_outputs);
  for (size_t i = 0; i < num_given; ++i)
    given[i] = ls_gradient_input(g, i);
  for (size_t i = 0; i < g->num_outputs; ++i)
    got[i] = ls_gradient_output(g, i);
  return hooks->merge_gradient(given, num_given, got, g->dout, g->num_outputs,
                               g->din);
}

// In a replica, applies the rule of the recorded collective, so that replicas
// exchange gradients. Outside of replicas, passes the gradient to the recorded
// results.
ls_status gradient_meeting(ls_backward *g) {
  if (g->walk->context->in_replica) {
    const uint16_t op = ls_node_met_as(g->node);
    return op != LS_OP_NONE ? ls_gradient_table[op](g) : met_again(g);
  }
  const size_t first = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_INPUTS);
  for (size_t i = 0; i < g->num_outputs; ++i)
    g->din[first + i] = g->dout[i];
  return ls_ok();
}

// ---- Collectives -----------------------------------------------------------
// Finds out if a collective computes the mean; refuses other than sum and mean.
static ls_status read_mean(const ls_backward *g, const char *name,
                           bool *out_is_mean) {
  const char *reduce = ls_node_attr(g->node, LS_ATTR_ID_REDUCE)->as.string;
  *out_is_mean = strcmp(reduce, "mean") == 0;
  if (*out_is_mean || strcmp(reduce, "sum") == 0) return ls_ok();
  return ls_not_found(
      "op %s has no gradient: only sum and mean have one; wrap its operand in "
      "ls_stop_gradient to stop the gradient",
      LS_OP_TEXT_BY(g->op, name, reduce));
}

// A replica's value contributes to the sum on every replica, so its gradient is
// the sum of all replicas' gradients.
ls_status gradient_all_reduce(ls_backward *g) {
  bool is_mean = false;
  LS_RETURN_IF_ERROR(read_mean(g, "all_reduce", &is_mean));
  const ls_reduce_op op = is_mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM;
  own_groups own;
  const ls_replica_groups *groups = groups_of(g, &own);
  g->din[0] = groups == NULL && g->node->type == LS_OP_MEETING
                  ? ls_all_reduce_met(op, g->dout[0])
                  : ls_all_reduce_in(op, g->dout[0], groups);
  drop_groups(&own);
  return ls_ok();
}

// The gradient has the layout of the value.
ls_status gradient_sharding(ls_backward *g) {
  static const ls_attr_id own[] = {LS_ATTR_ID_SHARDING, LS_ATTR_ID_TILE,
                                   LS_ATTR_ID_TILE_DEVICES};
  const char *mark = ls_node_mark(g->node, LS_MARK_SHARDING);
  ls_attr attrs[LS_COUNT_OF(own) + 1];
  size_t count = 0;
  for (size_t i = 0; i < LS_COUNT_OF(own); ++i) {
    const ls_attr *attr = ls_node_attr(g->node, own[i]);
    if (attr != NULL) attrs[count++] = *attr;
  }
  if (mark != NULL)
    attrs[count++] = (ls_attr){
        .name = LS_MARK_SHARDING, .kind = LS_ATTR_STRING, .as.string = mark};
  g->din[0] = ls_make(LS_OP_SHARDING, &g->dout[0], 1, attrs, count);
  return ls_ok();
}

// The gradient is the same op, applied to the result's gradient.
ls_status gradient_cross_replica_sum(ls_backward *g) {
  static const ls_attr_id own[] = {LS_ATTR_ID_REDUCE, LS_ATTR_ID_REPLICAS,
                                   LS_ATTR_ID_GROUPS, LS_ATTR_ID_GROUP_SIZE};
  ls_attr attrs[LS_COUNT_OF(own)];
  size_t count = 0;
  for (size_t i = 0; i < LS_COUNT_OF(own); ++i) {
    const ls_attr *attr = ls_node_attr(g->node, own[i]);
    if (attr != NULL) attrs[count++] = *attr;
  }
  g->din[0] = ls_make(LS_OP_CROSS_REPLICA_SUM, &g->dout[0], 1, attrs, count);
  return ls_ok();
}

// Each replica's rows are in the result of every replica: adds up the
// gradients, of which each replica takes its own rows.
ls_status gradient_all_gather(ls_backward *g) {
  own_groups own;
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  const ls_replica_groups *groups = groups_of(g, &own);
  g->din[0] =
      groups != NULL
          ? ls_reduce_scatter_in(LS_REDUCE_SUM, g->dout[0], axis, groups)
          : ls_reduce_scatter_like(LS_REDUCE_SUM, g->dout[0], axis,
                                   ls_gradient_input(g, 0));
  drop_groups(&own);
  return ls_ok();
}

// All replicas contribute to each part of the sum, so that each replica gathers
// the gradients of all parts.
ls_status gradient_reduce_scatter(ls_backward *g) {
  bool is_mean = false;
  LS_RETURN_IF_ERROR(read_mean(g, "reduce_scatter", &is_mean));
  own_groups own;
  const ls_attr *size = ls_node_attr(g->node, LS_ATTR_ID_GROUP_SIZE);
  const int64_t all = ls_node_int(g->node, LS_ATTR_ID_REPLICAS);
  g->din[0] =
      ls_all_gather_in(g->dout[0], (int)ls_node_int(g->node, LS_ATTR_ID_AXIS),
                       groups_of(g, &own));
  if (is_mean)
    g->din[0] =
        ls_mul_scalar(g->din[0], 1 / (double)(size != NULL ? size->as.i : all));
  drop_groups(&own);
  return ls_ok();
}

// Sends the gradients back the opposite way.
ls_status gradient_all_to_all(ls_backward *g) {
  own_groups own;
  g->din[0] = ls_all_to_all(
      g->dout[0], (int)ls_node_int(g->node, LS_ATTR_ID_CONCAT_AXIS),
      (int)ls_node_int(g->node, LS_ATTR_ID_SPLIT_AXIS), groups_of(g, &own));
  drop_groups(&own);
  return ls_ok();
}

ls_status gradient_permute(ls_backward *g) {
  const ls_attr *sources = ls_node_attr(g->node, LS_ATTR_ID_SOURCES);
  const size_t replicas = sources->as.ints.count;
  ls_allocator *allocator = ls_current_allocator();
  int32_t(*pairs)[2] = ls_allocate(allocator, replicas * sizeof(*pairs));
  if (pairs == NULL) return ls_out_of_memory();
  size_t count = 0;
  for (size_t r = 0; r < replicas; ++r) {
    if (sources->as.ints.items[r] < 0) continue;
    pairs[count][0] = (int32_t)r;
    pairs[count++][1] = (int32_t)sources->as.ints.items[r];
  }
  g->din[0] =
      ls_collective_permute(g->dout[0], (const int32_t(*)[2])pairs, count);
  ls_release(allocator, pairs);
  return ls_ok();
}

// Sums the gradients on the replica that was the source.
ls_status gradient_replica_broadcast(ls_backward *g) {
  const ls_tensor root =
      ls_scalar_i64(LS_DTYPE_I32, ls_node_int(g->node, LS_ATTR_ID_ROOT));
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, g->dout[0]);
  const ls_tensor zeros = ls_gradient_zeros(sum);
  g->din[0] = ls_select(ls_equal(ls_replica_id(), root), sum, zeros);
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
//
// Gradients through merge calls of replicas that run op by op.
//
// A replica's results of a merge call are recorded by an op `meeting`, whose
// operands are the replica's arguments. For the gradient the replicas merge
// again: the merge function's ops are differentiated once for all, from all
// replicas' results to all their arguments.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "distribute/replicas/rounds.h"
#include "grad/grad.h"
#include "grad/rules.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"

// ---- Record the results ----------------------------------------------------
typedef struct tensors {
  ls_allocator *allocator;
  ls_tensor *items;
  size_t count, capacity;
} tensors;

static bool may_have_gradient(ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.ref != 0 &&
         ls_dtype_is_trainable(ls_tensor_dtype(leaf.as.tensor));
}

static ls_nest note_tensor(ls_nest leaf, void *user) {
  tensors *all = user;
  if (!may_have_gradient(leaf)) return ls_none();
  if (!LS_GROW(all->allocator, all->items, all->capacity, all->count + 1))
    return ls_fail(ls_out_of_memory());
  all->items[all->count++] = leaf.as.tensor;
  return ls_none();
}

static ls_status note_tensors(ls_nest nest, tensors *all) {
  LS_OWN(ls_nest, noted) = ls_nest_map(nest, note_tensor, all);
  return ls_nest_status(noted);
}

typedef struct meeting {
  tensors given, got;
  size_t next;
  ls_op op;
} meeting;

// Most outputs of an eager op.
enum { MOST_RESULTS = 16 };

static ls_nest place_behind(ls_nest leaf, void *user) {
  meeting *m = user;
  if (!may_have_gradient(leaf)) return ls_nest_retain(leaf);
  const size_t at = m->next++, place = at % MOST_RESULTS;
  const size_t left = m->got.count - at;
  if (place == 0)
    m->op = ls_add_meeting(LS_OP_MERGE_CALL, m->given.items, m->given.count,
                           NULL, 0, m->got.items + at,
                           left < MOST_RESULTS ? left : MOST_RESULTS);
  const ls_tensor made = ls_op_output(m->op, (unsigned)place);
  return ls_leaf(ls_same_is_noted(leaf.as.tensor) ? ls_same_note(made) : made);
}

// Adds the variables that the merge function reads to the list of all replicas'
// arguments.
static ls_status note_reads(const ls_rounds *rounds, tensors *all) {
  ls_graph *graph = rounds->tasks[0].graph;
  for (size_t i = graph->num_nodes; i > 0; --i) {
    const ls_node *node = graph->nodes[i - 1];
    if (node->id < rounds->merge_first) break;
    // Eager ops that are not recorded have no attributes.
    if (node->id >= rounds->merge_end || node->type != LS_OP_READ ||
        node->num_attrs == 0)
      continue;
    const ls_nest read = ls_leaf((ls_tensor){graph, ls_ref(node->id, 0)});
    LS_RETURN_IF_ERROR(note_tensors(read, all));
  }
  return ls_ok();
}

static ls_status meet_tensors(meeting *m, const ls_rounds *rounds, ls_nest args,
                              ls_nest *made) {
  LS_RETURN_IF_ERROR(note_tensors(args, &m->given));
  LS_RETURN_IF_ERROR(note_tensors(*made, &m->got));
  if (m->got.count == 0) return ls_ok();
  LS_RETURN_IF_ERROR(note_reads(rounds, &m->given));
  if (m->given.count == 0) return ls_ok();
  const ls_nest met = ls_nest_map(*made, place_behind, m);
  ls_nest_release(*made);
  *made = met;
  return ls_ok();
}

ls_nest ls_merge_meeting(const ls_rounds *rounds, ls_nest args, ls_nest made) {
  if (ls_nest_is_failed(made)) return made;
  ls_allocator *allocator = ls_current_allocator();
  meeting m = {.given.allocator = allocator, .got.allocator = allocator};
  LS_OWN_FIELD(allocator, m.given.items);
  LS_OWN_FIELD(allocator, m.got.items);
  LS_OWN(ls_nest, result) = made;
  LS_RETURN_FAILED_IF_ERROR(meet_tensors(&m, rounds, args, &result));
  return ls_give(&result);
}

// ---- For all replicas ------------------------------------------------------
typedef struct walk_back {
  size_t replicas;
  ls_nest *ys, *grad_ys, *xs, *answers;
  size_t num_ys, num_xs;
} walk_back;

// Returns the operand whose value a copy or a collective passes on, else a
// failed tensor. Ops that are not recorded have no operands.
static ls_tensor passed_operand(ls_tensor x) {
  const ls_op op = ls_tensor_op(x);
  const ls_node *node = ls_graph_node(op.graph, op.id);
  if (node == NULL || node->num_inputs == 0) return ls_failed_tensor();
  if (node->type == LS_OP_IDENTITY) return ls_op_input(op, 0);
  if (node->type != LS_OP_MEETING) return ls_failed_tensor();
  return ls_op_input(op, (size_t)ls_node_int(node, LS_ATTR_ID_NUM_INPUTS) +
                             ls_ref_output(x.ref));
}

static bool merge_gradient_is_given(const walk_back *w, ls_tensor x) {
  for (size_t i = 0; i < w->num_xs; ++i)
    if (ls_tensor_equal(w->xs[i].as.tensor, x)) return true;
  return false;
}

// Follows copies back to the tensor that was copied, but not past an argument,
// which may itself be a result of an earlier merge.
static ls_tensor origin_of(const walk_back *w, ls_tensor x) {
  while (!merge_gradient_is_given(w, x)) {
    const ls_tensor next = passed_operand(x);
    if (ls_graph_node_of(next.graph, next.ref) == NULL) break;
    x = next;
  }
  return x;
}

// Adds a result with its gradient. A result that is the same on all replicas is
// added once, with the sum of the replicas' gradients.
static void merge_gradient_add_result(walk_back *w, ls_nest result,
                                      ls_nest gradient) {
  ls_allocator *allocator = ls_current_allocator();
  if (gradient.kind == LS_KIND_NONE) return;
  const ls_tensor first =
      origin_of(w, ls_distributed_component(result, 0).as.tensor);
  bool alike = true;
  for (size_t r = 1; r < w->replicas; ++r)
    alike =
        alike &&
        ls_tensor_equal(
            first, origin_of(w, ls_distributed_component(result, r).as.tensor));
  ls_tensor *terms =
      alike ? ls_new_array(allocator, ls_tensor, w->replicas) : NULL;
  for (size_t r = 0; r < w->replicas; ++r) {
    if (terms != NULL) {
      terms[r] = ls_distributed_component(gradient, r).as.tensor;
      continue;
    }
    w->ys[w->num_ys] = ls_distributed_component(result, r);
    w->grad_ys[w->num_ys++] = ls_distributed_component(gradient, r);
  }
  if (terms == NULL) return;
  w->ys[w->num_ys] = ls_leaf(first);
  w->grad_ys[w->num_ys++] = ls_leaf(ls_add_n(terms, w->replicas));
  ls_release(allocator, terms);
}

static bool was_given_before(const walk_back *w, size_t at) {
  for (size_t i = 0; i < at; ++i)
    if (ls_tensor_equal(w->xs[i].as.tensor, w->xs[at].as.tensor)) return true;
  return false;
}

// Returns the gradients of argument `arg`, one per replica. If several replicas
// passed the same tensor, the first of them gets the gradient.
static ls_nest answer_of(const walk_back *w, size_t arg) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, items, w->replicas);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  bool any = false;
  for (size_t r = 0; r < w->replicas; ++r)
    any = any || w->answers[arg * w->replicas + r].kind == LS_KIND_TENSOR;
  for (size_t r = 0; any && r < w->replicas; ++r) {
    const size_t at = arg * w->replicas + r;
    const bool own =
        w->answers[at].kind == LS_KIND_TENSOR && !was_given_before(w, at);
    items[r] =
        own ? w->answers[at] : ls_leaf(ls_gradient_zeros(w->xs[at].as.tensor));
  }
  return any ? ls_nest_distributed(LS_PER_REPLICA, items, w->replicas)
             : ls_none();
}

static ls_status run_walk(const walk_back *w) {
  ls_graph *graph = ls_graph_current();
  const ls_gradient_options options = {.grad_ys = w->grad_ys,
                                       .stop_gradients = w->xs,
                                       .num_stop_gradients = w->num_xs};
  // In an eager graph the walk may reach the first op.
  return ls_gradients_walk(graph, graph->kind == LS_GRAPH_EAGER, 0, w->ys,
                           w->num_ys, w->xs, w->num_xs, &options, w->answers);
}

static ls_nest walk_merged(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  const ls_nest given = ls_nest_item(args, 0), got = ls_nest_item(args, 1),
                gradients = ls_nest_item(args, 2);
  const size_t replicas = (size_t)ls_strategy_num_replicas(strategy);
  const size_t num_given = ls_nest_count(given), num_got = ls_nest_count(got);
  const size_t xs = num_given * replicas, ys = num_got * replicas;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_nest, all, 2 * xs + 2 * ys + num_given);
  if (all == NULL) return ls_fail(ls_out_of_memory());
  walk_back w = {.replicas = replicas,
                 .xs = all,
                 .answers = all + xs,
                 .ys = all + 2 * xs,
                 .grad_ys = all + 2 * xs + ys};
  ls_nest *items = all + 2 * xs + 2 * ys;
  for (size_t i = 0; i < num_given; ++i)
    for (size_t r = 0; r < replicas; ++r)
      w.xs[w.num_xs++] = ls_distributed_component(ls_nest_item(given, i), r);
  for (size_t i = 0; i < num_got; ++i)
    merge_gradient_add_result(&w, ls_nest_item(got, i),
                              ls_nest_item(gradients, i));
  const ls_status status = run_walk(&w);
  for (size_t i = 0; ls_status_is_ok(status) && i < num_given; ++i)
    items[i] = answer_of(&w, i);
  return ls_status_is_ok(status)
             ? ls_nest_sequence(LS_KIND_LIST, items, num_given)
             : ls_fail(status);
}

// ---- In a replica ----------------------------------------------------------
static ls_nest merge_gradient_list_of(const ls_tensor *values, size_t count) {
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&items,
                           values[i].ref == 0 ? ls_none() : ls_leaf(values[i]));
  return ls_nest_builder_finish(&items, LS_KIND_LIST);
}

ls_status ls_merge_gradient(const ls_tensor *given, size_t num_given,
                            const ls_tensor *got, const ls_tensor *gradients,
                            size_t num_got, ls_tensor *out_gradients) {
  LS_OWN(ls_nest, args) = LS_LIST(merge_gradient_list_of(given, num_given),
                                  merge_gradient_list_of(got, num_got),
                                  merge_gradient_list_of(gradients, num_got));
  LS_OWN(ls_nest, made) = ls_nest_is_failed(args)
                              ? ls_nest_retain(args)
                              : ls_replica_merge_call(ls_replica_context(),
                                                      walk_merged, args, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  for (size_t i = 0; i < num_given; ++i) {
    const ls_nest own = ls_nest_item(made, i);
    if (own.kind == LS_KIND_TENSOR) out_gradients[i] = own.as.tensor;
  }
  return ls_ok();
}

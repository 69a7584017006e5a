// SPDX-License-Identifier: Apache-2.0
//
// Runs of a TPU strategy: a callable as a replicated computation of the current
// graph, and its results put together.
#include "distribute/replicas/context.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "tpu/pod_fault.h"
#include "tpu/strategy.h"

typedef struct run {
  ls_strategy *strategy;
  ls_callback fn;
  void *user;
  ls_nest args;  // Of all replicas.
  ls_nest like;  // The structure of what `fn` has returned.
  size_t num_leaves;
} run;

// ---- Arguments -------------------------------------------------------------
// An argument that begins with a distributed variable is handed over as it is.
static bool is_bound(ls_nest arg) {
  while (ls_nest_is_node(arg) && ls_nest_count(arg) > 0) {
    ls_nest first;
    if (arg.kind != LS_KIND_DICT) {
      arg = ls_nest_item(arg, 0);
    } else {
      ls_nest_flatten(arg, &first, 1);
      arg = first;
    }
  }
  return ls_is_distributed_variable(arg);
}

typedef struct selection {
  size_t replica;
} selection;

static ls_nest select_leaf(ls_nest leaf, void *user) {
  const size_t replica = ((const selection *)user)->replica;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  char text[120];
  if (replica >= ls_distributed_count(leaf))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "the argument %s has no component for replica %zu",
                   ls_nest_print(leaf, text, sizeof(text)), replica);
  return ls_nest_retain(ls_distributed_component(leaf, replica));
}

// What replica r is given: its id, and the arguments that are not bound.
static ls_nest inputs_of(const run *r, size_t replica, ls_nest *room) {
  selection s = {replica};
  size_t count = 0;
  room[count++] = ls_nest_i64((int64_t)replica);
  for (size_t i = 0; i < ls_nest_count(r->args); ++i)
    if (!is_bound(ls_nest_item(r->args, i)))
      room[count++] = ls_nest_map(ls_nest_item(r->args, i), select_leaf, &s);
  return ls_nest_sequence(LS_KIND_LIST, room, count);
}

static ls_status list_inputs(const run *r, ls_nest *out_inputs) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  ls_allocator *allocator = r->strategy->allocator;
  ls_nest *each = ls_new_array(allocator, ls_nest, replicas);
  ls_nest *room = ls_new_array(allocator, ls_nest, ls_nest_count(r->args) + 1);
  ls_nest made = ls_fail(ls_out_of_memory());
  if (each != NULL && room != NULL) {
    for (size_t i = 0; i < replicas; ++i)
      each[i] = inputs_of(r, i, room);
    ls_nest_release(made);
    made = ls_nest_sequence(LS_KIND_LIST, each, replicas);
  }
  ls_release(allocator, each);
  ls_release(allocator, room);
  return ls_take_nest(made, out_inputs);
}

// The arguments as the callback gets them: bound ones where they were.
static ls_nest args_of(const run *r, ls_nest inputs) {
  const size_t count = ls_nest_count(r->args);
  ls_nest *items = ls_new_array(r->strategy->allocator, ls_nest, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  size_t next = 1;  // Behind the id.
  for (size_t i = 0; i < count; ++i) {
    const ls_nest arg = ls_nest_item(r->args, i);
    items[i] =
        ls_nest_retain(is_bound(arg) ? arg : ls_nest_item(inputs, next++));
  }
  const ls_nest made = r->args.kind == LS_KIND_NONE
                           ? ls_none()
                           : ls_nest_sequence(r->args.kind, items, count);
  ls_release(r->strategy->allocator, items);
  return made;
}

// The first value that has rows for each replica, where their number differs.
static ls_nest find_examples(const run *r, ls_nest inputs) {
  size_t next = 1;
  for (size_t i = 0; i < ls_nest_count(r->args); ++i) {
    const ls_nest arg = ls_nest_item(r->args, i);
    if (is_bound(arg)) continue;
    const ls_nest value = ls_nest_item(inputs, next++);
    if (arg.kind != LS_KIND_DISTRIBUTED || value.kind != LS_KIND_TENSOR)
      continue;
    const ls_shape shape = ls_tensor_shape(value.as.tensor);
    if (shape.rank < 1) continue;
    return shape.dim[0] == LS_UNKNOWN_DIM ? value : ls_none();
  }
  return ls_none();
}

// ---- Results ---------------------------------------------------------------
// How many of a top-level list are values: ops stand behind them.
static size_t count_values(ls_nest list) {
  size_t count = ls_nest_count(list);
  while (count > 0 && ls_nest_item(list, count - 1).kind == LS_KIND_OP)
    --count;
  return count;
}

static ls_status refuse_op(ls_nest leaf, size_t at) {
  return ls_invalid_argument("leaf %zu of the result is op '%s': ops stand "
                             "alone or in a list, behind all values",
                             at, ls_op_name(leaf.as.op));
}

// Keeps the structure; the computation itself returns values and ops behind
// each other.
static ls_status keep_structure(run *r, ls_nest made, ls_nest *leaves,
                                size_t count) {
  const bool is_list = made.kind == LS_KIND_LIST;
  if (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE) return ls_ok();
  bool nested = false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    nested |= ls_nest_is_node(ls_nest_item(made, i));
  r->num_leaves = is_list && !nested ? count_values(made) : count;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (leaves[i].kind == LS_KIND_OP && (!is_list || nested))
      return refuse_op(leaves[i], i);
  if (r->num_leaves == count) {
    r->like = ls_nest_retain(made);
    return ls_ok();
  }
  ls_nest *values =
      ls_new_array(r->strategy->allocator, ls_nest, r->num_leaves);
  if (values == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < r->num_leaves; ++i)
    values[i] = ls_nest_retain(leaves[i]);
  r->like = ls_nest_sequence(LS_KIND_LIST, values, r->num_leaves);
  ls_release(r->strategy->allocator, values);
  return ls_nest_status(r->like);
}

static ls_nest flatten(run *r, ls_nest made) {
  if (ls_nest_is_failed(made) || made.kind == LS_KIND_NONE) return made;
  const size_t count = ls_nest_num_leaves(made);
  ls_nest *leaves = ls_new_array(r->strategy->allocator, ls_nest, count);
  if (leaves == NULL) {
    ls_nest_release(made);
    return ls_fail(ls_out_of_memory());
  }
  ls_nest_flatten(made, leaves, count);
  const ls_status status = keep_structure(r, made, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(leaves[i]);
  const ls_nest flat = ls_nest_sequence(LS_KIND_LIST, leaves, count);
  ls_release(r->strategy->allocator, leaves);
  ls_nest_release(made);
  if (ls_status_is_ok(status)) return flat;
  ls_nest_release(flat);
  return ls_fail(status);
}

// One leaf of all replicas; `outputs` has a list of leaves for each.
static ls_nest join_leaf(const run *r, ls_nest outputs, size_t i,
                         ls_nest *room) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  for (size_t replica = 0; replica < replicas; ++replica)
    room[replica] = ls_nest_item(ls_nest_item(outputs, replica), i);
  if (replicas == 1 || room[0].kind == LS_KIND_NONE)
    return ls_nest_retain(room[0]);
  return ls_nest_distributed(LS_PER_REPLICA, room, replicas);
}

static ls_status join(const run *r, ls_nest outputs, ls_nest *out_result) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (r->like.kind == LS_KIND_NONE) return ls_ok();  // Nothing, or an op.
  ls_nest *leaves = ls_new_array(allocator, ls_nest, r->num_leaves);
  ls_nest *room = ls_new_array(allocator, ls_nest, replicas);
  ls_nest made = ls_none();
  ls_status status = ls_ok();
  if (leaves == NULL || room == NULL) {
    status = ls_out_of_memory();
  } else {
    for (size_t i = 0; i < r->num_leaves; ++i)
      leaves[i] = join_leaf(r, outputs, i, room);
    made = ls_nest_pack(r->like, leaves, r->num_leaves);
    status = ls_take_nest(made, out_result);
  }
  ls_release(allocator, leaves);
  ls_release(allocator, room);
  return status;
}

// ---- The replica -----------------------------------------------------------
// The callback once for all of them, in a replica's context.
static ls_nest call_replica(ls_nest inputs, void *user) {
  run *r = user;
  ls_replica *replica = NULL;
  ls_status status = ls_replicas_take(r->strategy, &replica);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_context *context = ls_context_current();
  replica->graph = ls_graph_resolve(ls_graph_current());
  replica->examples = find_examples(r, inputs);
  ls_distribution entry = {.strategy = r->strategy, .replica = replica};
  const ls_nest args = args_of(r, inputs);
  ls_nest made = ls_none();
  ls_distribution_push(context, &entry);
  if (ls_nest_is_failed(args)) {
    made = ls_nest_retain(args);
  } else {
    made = r->fn(args, r->user);
  }
  made = flatten(r, made);
  context->scoped.distribution = entry.outer;
  ls_nest_release(args);
  ls_replicas_give(r->strategy, replica);
  return made;
}

static ls_device_assignment *assignment_of(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self->assignment != NULL ? self->assignment : self->all_cores;
}

static ls_status build(ls_strategy *strategy, ls_callback fn, void *user,
                       ls_nest args, ls_nest *out_result) {
  run r = {.strategy = strategy, .fn = fn, .user = user, .args = args};
  ls_nest inputs = ls_none(), outputs = ls_none();
  ls_status status = list_inputs(&r, &inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate(
        call_replica, &r, inputs,
        &(ls_replicate_options){.assignment = assignment_of(strategy),
                                .soft_placement = LS_FLAG_ON,
                                .spmd = LS_FLAG_OFF},
        &outputs);
  if (ls_status_is_ok(status)) status = join(&r, outputs, out_result);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_nest_release(r.like);
  return status;
}

// ---- Tracing ---------------------------------------------------------------
static ls_status trace(const ls_tracer *tracer, ls_graph *graph,
                       const ls_function_options *function, ls_nest args,
                       ls_nest *out_result) {
  ls_scope scope = {0};
  if (ls_graph_resolve(ls_graph_current()) != graph)
    ls_context_enter_graph(&scope, graph);
  const ls_status status =
      build(tracer->self, function->call, function->user, args, out_result);
  ls_scope_end(&scope);
  return status;
}

// Under a tape replicas run op by op.
static ls_status call(const ls_tracer *tracer,
                      const ls_function_options *function, ls_nest args,
                      ls_nest *out_result) {
  return ls_replicas_call(tracer->self, function->call, args, function->user,
                          out_result);
}

ls_status ls_tpu_class_run(ls_strategy *strategy, ls_crossing *crossing,
                           ls_callable callable, ls_nest args,
                           ls_nest *results) {
  (void)crossing;  // Replicas run inside of it.
  if (callable.traced != NULL) {
    const ls_tracer tracer = {.key = strategy->id,
                              .replicas = strategy->num_replicas,
                              .trace = trace,
                              .call = call,
                              .self = strategy};
    if (ls_graph_is_eager(ls_graph_current()))
      LS_RETURN_IF_ERROR(ls_pod_pass_all(strategy->runtime,
                                         ls_strategy_devices(strategy),
                                         strategy->num_replicas, LS_DOOR_RUN));
    return ls_function_call_by(callable.traced, &tracer, args, results);
  }
  if (ls_graph_is_eager(ls_graph_current()))
    return ls_unimplemented("ls_strategy_run of a plain callback on %s in "
                            "eager: wrap the callback in a traced function "
                            "(ls_function_create), or run it from inside of "
                            "one",
                            strategy->label);
  return build(strategy, callable.plain, callable.user, args, results);
}

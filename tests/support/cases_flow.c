// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: control flow, custom gradients, variables and stacks.
#include "graph/context.h"
#include "graph/region.h"
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

static void draw_same(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 2);
  trial_add(t, shape);
  trial_add(t, shape);
}

// ---- Regions ---------------------------------------------------------------
// The results of region `index` for its declared parameters and then its
// captures.
static ref_tensor *run_region(const ref_op *op, uint32_t index,
                              const ref_tensor *declared,
                              const ref_tensor *captures) {
  const ls_graph *graph = ls_graph_resolve(op->node->regions[index]);
  ref_tensor *arguments =
      ref_allocate(op->run, graph->num_parameters, sizeof(*arguments));
  ref_tensor *results =
      ref_allocate(op->run, graph->num_results, sizeof(*results));
  for (size_t i = 0; i < graph->num_parameters; ++i)
    arguments[i] = i < graph->num_declared ? declared[i]
                                           : captures[i - graph->num_declared];
  ref_evaluate_graph(op->run, graph, arguments, results);
  return results;
}

static size_t captures_of(const ref_op *op, uint32_t index) {
  return ls_graph_resolve(op->node->regions[index])->num_captures;
}

static void give(const ref_op *op, const ref_tensor *values, ref_tensor *out) {
  for (size_t i = 0; i < op->num_out; ++i)
    out[i] = values[i];
}

static void compute_while(const ref_op *op, const ref_tensor *in,
                          ref_tensor *out) {
  const size_t carried = (size_t)ref_int(op, "num_carried", 0);
  const int64_t most = ref_int(op, "max_trips", 0);
  const ref_tensor *values = in;
  const ref_tensor *captured = in + carried;
  for (int64_t trip = 0; most == 0 || trip < most; ++trip) {
    if (run_region(op, 0, values, captured)->at[0].whole == 0) break;
    values = run_region(op, 1, values, captured + captures_of(op, 0));
  }
  give(op, values, out);
}

static void compute_cond(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  const bool holds = in->at[0].whole != 0;
  const ref_tensor *captured = in + 1 + (holds ? 0 : captures_of(op, 0));
  give(op, run_region(op, holds ? 0 : 1, NULL, captured), out);
}

static void compute_call(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  const size_t declared = ls_graph_resolve(op->node->regions[0])->num_declared;
  give(op, run_region(op, 0, in, in + declared), out);
}

static void compute_custom_gradient(const ref_op *op, const ref_tensor *in,
                                    ref_tensor *out) {
  give(op, in + ref_int(op, "num_inputs", 0), out);
}

// ---- Loops and branches ----------------------------------------------------
// What a loop uses from around it.
typedef struct around {
  ls_tensor limit, y, trips;
} around;

// (trip, x), while trip is below a number and, for one that only data knows,
// the sum of x is too.
static ls_nest goes_on(ls_nest values, void *user) {
  const around *a = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), a->trips));
}

static ls_nest goes_on_below(ls_nest values, void *user) {
  const around *a = user;
  const ls_tensor x = ls_nest_tensor(values, 1);
  const ls_tensor sum = ls_reduce_sum(ls_mul(x, x), LS_ALL_AXES);
  return ls_leaf(ls_less(sum, a->limit));
}

static ls_nest next(ls_nest values, void *user) {
  const around *a = user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  const ls_tensor x = ls_nest_tensor(values, 1);
  return LS_TUPLE(ls_leaf(ls_add(trip, ls_scalar(LS_DTYPE_I32, 1))),
                  ls_leaf(ls_add(ls_mul(x, a->y), x)));
}

static ls_nest make_while(const trial *t, const ls_tensor *xs) {
  (void)t;
  around a = {.y = xs[1], .trips = ls_scalar(LS_DTYPE_I32, 3)};
  return ls_while(goes_on, next, &a,
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_I32, 0)), ls_leaf(xs[0])),
                  0);
}

static ls_nest make_while_below(const trial *t, const ls_tensor *xs) {
  around a = {.y = xs[1], .limit = ls_scalar(t->dtype, 40)};
  return ls_while(goes_on_below, next, &a,
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_I32, 0)), ls_leaf(xs[0])),
                  4);
}

static ls_nest product(ls_nest none, void *user) {
  const ls_tensor *xs = user;
  (void)none;
  return ls_leaf(ls_mul(xs[0], xs[1]));
}

static ls_nest difference(ls_nest none, void *user) {
  const ls_tensor *xs = user;
  (void)none;
  return ls_leaf(ls_sub(xs[0], xs[1]));
}

// One branch after the other, so that both are taken by what is drawn.
static ls_nest make_cond(const trial *t, const ls_tensor *xs) {
  ls_tensor both[] = {xs[0], xs[1]};
  const ls_tensor zero = ls_scalar(t->dtype, 0);
  const ls_tensor sum = ls_reduce_sum(xs[0], LS_ALL_AXES);
  const ls_tensor above = ls_greater(sum, zero);
  const ls_nest a = ls_cond(above, product, difference, both);
  const ls_nest b = ls_cond(ls_not(above), product, difference, both);
  return LS_TUPLE(a, b);
}

// ---- Calls -----------------------------------------------------------------
static ls_nest callee(ls_nest args, void *user) {
  (void)user;
  ls_tensor xs[] = {ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)};
  return LS_TUPLE(product(ls_none(), xs), difference(ls_none(), xs));
}

// A function that is called while a graph is built becomes part of it; a text
// may hold a call.
static ls_status add_call(const ls_tensor *xs, ls_graph *graph,
                          ls_graph **out_body, ls_op *out_op) {
  const ls_type types[] = {{ls_tensor_dtype(xs[0]), ls_tensor_shape(xs[0])},
                           {ls_tensor_dtype(xs[1]), ls_tensor_shape(xs[1])}};
  ls_nest results = ls_none();
  LS_OWN(ls_nest, args) = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_FUNCTION, "body", graph->runtime,
                                   graph, out_body));
  LS_OWN(ls_nest, like) = LS_LIST(ls_leaf(xs[0]), ls_leaf(xs[1]));
  ls_status status = ls_region_parameters(*out_body, like, types, 2, &args);
  if (ls_status_is_ok(status))
    status = ls_region_trace(*out_body, callee, args, NULL, &results);
  ls_nest_release(results);
  LS_RETURN_IF_ERROR(status);
  *out_op = ls_op_add(&(ls_op_spec){.type = LS_OP_CALL,
                                    .inputs = xs,
                                    .num_inputs = 2,
                                    .regions = out_body,
                                    .num_regions = 1});
  if (!ls_op_is_failed(*out_op)) *out_body = NULL;
  return ls_ok();
}

static ls_nest make_call(const trial *t, const ls_tensor *xs) {
  (void)t;
  ls_graph *body = NULL;
  ls_op op = {0};
  const ls_status status = add_call(xs, ls_graph_current(), &body, &op);
  ls_graph_free(body);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)));
}

// ---- Custom gradients ------------------------------------------------------
static ls_nest forward(ls_nest inputs, void *user) {
  (void)user;
  const ls_tensor xs[] = {ls_nest_tensor(inputs, 0), ls_nest_tensor(inputs, 1)};
  return ls_leaf(ls_mul(xs[0], xs[1]));
}

static ls_nest backward(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                        void *user) {
  (void)outputs;
  (void)user;
  const ls_tensor dy = ls_nest_tensor(gradients, 0);
  return LS_LIST(ls_leaf(ls_mul(dy, ls_nest_tensor(inputs, 1))),
                 ls_leaf(ls_mul(dy, ls_nest_tensor(inputs, 0))));
}

static ls_nest make_custom(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_custom_gradient(forward, backward, NULL,
                            LS_LIST(ls_leaf(xs[0]), ls_leaf(xs[1])));
}

// ---- Variables -------------------------------------------------------------
static const ls_variable *variable_of(const ref_op *op) {
  return (const ls_variable *)ls_node_attr(op->node, LS_ATTR_ID_VARIABLE)
      ->as.object;
}

static void compute_read(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  (void)in;
  const ref_tensor held = ref_variable(op->run, variable_of(op));
  ref_copy(&held, out);
}

static void compute_assign(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
  const ls_dtype dtype = out->type.dtype;
  const ref_tensor held = ref_variable(op->run, variable_of(op));
  for (int64_t k = 0; k < out->count; ++k) {
    ref_number x = in->at[k];
    if (op->type != LS_OP_ASSIGN)
      x = ref_binary_number(op->type == LS_OP_ASSIGN_ADD ? LS_OP_ADD
                                                         : LS_OP_SUB,
                            dtype, held.at[k], x);
    out->at[k] = ref_stored(dtype, x);
  }
  ref_set_variable(op->run, variable_of(op), *out);
}

// Operands: indices and updates, for a scatter of what the variable holds.
static void compute_assign_scatter(const ref_op *op, const ref_tensor *in,
                                   ref_tensor *out) {
  const ref_tensor operands[] = {ref_variable(op->run, variable_of(op)), in[0],
                                 in[1]};
  ref_scatter(op, operands, out);
  ref_set_variable(op->run, variable_of(op), *out);
}

// A value, and a variable of the same type that is not trained.
static void draw_variable(trial *t) {
  draw_same(t);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.initial_array = t->operand[1]}, &t->variable));
}

static ls_nest make_read(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_add(xs[0], ls_variable_read(t->variable)));
}

// Reads before and after a write, in the order of the calls.
#define WRITE(name, write)                                                     \
  static ls_nest make_##name(const trial *t, const ls_tensor *xs) {            \
    const ls_tensor before = ls_variable_read(t->variable);                    \
    const ls_tensor given = write(t->variable, xs[0]);                         \
    const ls_tensor after = ls_variable_read(t->variable);                     \
    return LS_TUPLE(ls_leaf(ls_mul(before, xs[0])), ls_leaf(given),            \
                    ls_leaf(ls_add(after, xs[0])));                            \
  }
WRITE(assign, ls_variable_assign)
WRITE(assign_add, ls_variable_assign_add)
WRITE(assign_sub, ls_variable_assign_sub)

// A variable, and updates of some of its rows.
static void draw_rows(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  const double size = (double)shape.dim[0];
  trial_add(t, shape);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.initial_array = t->operand[0]}, &t->variable));
  shape.dim[0] = trial_between(t, 0, 4);
  trial_add_in(t, LS_DTYPE_I32, LS_SHAPE(shape.dim[0]), -2, size + 2);
  trial_add(t, shape);
}

static ls_nest make_assign_scatter(const trial *t, const ls_tensor *xs) {
  const ls_tensor before = ls_variable_read(t->variable);
  const ls_tensor added =
      ls_variable_scatter(t->variable, LS_SCATTER_ADD, xs[1], xs[2]);
  const ls_tensor put =
      ls_variable_scatter(t->variable, LS_SCATTER_UPDATE, xs[1], xs[2]);
  return LS_TUPLE(ls_leaf(ls_add(before, xs[0])), ls_leaf(added),
                  ls_leaf(ls_mul(put, xs[0])));
}

// ---- Stacks ----------------------------------------------------------------
static void compute_stack_new(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  (void)in;
  out->at[0].whole = ref_stack_create(op->run, ref_int(op, "endless", 0) != 0);
}

static void compute_stack_push(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  ref_stack_add(op->run, in->at[0].whole, in[1]);
  out->at[0] = in->at[0];
}

static void compute_stack_pop(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  out->at[0] = in->at[0];
  if (!ref_stack_take(op->run, in->at[0].whole, &out[1]))
    fail_msg("nothing is left on a stack");
}

// What is pushed last is taken first.
static ls_nest make_stack(const trial *t, const ls_tensor *xs) {
  const ls_shape shape = ls_array_shape(t->operand[0]);
  ls_tensor stack = ls_stack_new(t->dtype, shape);
  stack = ls_stack_push(ls_stack_push(stack, xs[0]), xs[1]);
  const ls_op first = ls_stack_pop(stack, t->dtype, shape);
  const ls_op second = ls_stack_pop(ls_op_output(first, 0), t->dtype, shape);
  return LS_TUPLE(ls_leaf(ls_op_output(first, 1)),
                  ls_leaf(ls_op_output(second, 1)));
}

// ---- Replicas --------------------------------------------------------------
// Outside of them there is one, with all that is to be reduced.
static ls_nest make_all_reduce(const trial *t, const ls_tensor *xs) {
  (void)t;
  return LS_TUPLE(ls_leaf(ls_all_reduce(LS_REDUCE_SUM, xs[0])),
                  ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, xs[1])));
}

static ls_nest make_extremes(const trial *t, const ls_tensor *xs) {
  (void)t;
  return LS_TUPLE(ls_leaf(ls_all_reduce(LS_REDUCE_MAX, xs[0])),
                  ls_leaf(ls_all_reduce(LS_REDUCE_MIN, xs[1])));
}

static ls_tensor flat(ls_tensor x) { return ls_reshape(x, LS_SHAPE(-1)); }

static ls_nest make_all_gather(const trial *t, const ls_tensor *xs) {
  const ls_shape shape = ls_array_shape(t->operand[0]);
  return LS_TUPLE(ls_leaf(ls_reshape(ls_all_gather(flat(xs[0]), 0), shape)),
                  ls_leaf(ls_reshape(ls_all_gather(flat(xs[1]), 0), shape)));
}

static ls_nest make_reduce_scatter(const trial *t, const ls_tensor *xs) {
  const ls_shape shape = ls_array_shape(t->operand[0]);
  const ls_tensor x = ls_reduce_scatter(LS_REDUCE_SUM, flat(xs[0]), 0);
  const ls_tensor y =
      ls_reduce_scatter_like(LS_REDUCE_MEAN, flat(xs[1]), 0, flat(xs[0]));
  return LS_TUPLE(ls_leaf(ls_reshape(x, shape)), ls_leaf(ls_reshape(y, shape)));
}

static ls_nest make_all_to_all(const trial *t, const ls_tensor *xs) {
  const ls_shape shape = ls_array_shape(t->operand[0]);
  return LS_TUPLE(
      ls_leaf(ls_reshape(ls_all_to_all(flat(xs[0]), 0, 0, NULL), shape)),
      ls_leaf(ls_reshape(ls_all_to_all(flat(xs[1]), 0, 0, NULL), shape)));
}

static ls_nest make_permute(const trial *t, const ls_tensor *xs) {
  static const int32_t pairs[1][2] = {{0, 0}};
  (void)t;
  return LS_TUPLE(ls_leaf(ls_collective_permute(xs[0], pairs, 1)),
                  ls_leaf(ls_collective_permute(xs[1], pairs, 1)));
}

static ls_nest make_broadcast_one(const trial *t, const ls_tensor *xs) {
  (void)t;
  return LS_TUPLE(ls_leaf(ls_collective_broadcast(xs[0], 0)),
                  ls_leaf(ls_collective_broadcast(xs[1], 0)));
}

static ls_nest make_replica_id(const trial *t, const ls_tensor *xs) {
  (void)t;
  (void)xs;
  return ls_leaf(ls_replica_id());
}

#define CASE(id, computed, types, maker, ...)                                  \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    __VA_ARGS__                                                                \
  }
#define FLOW(id, computed, maker)                                              \
  CASE(id, computed, NUMBERS, maker, .draw = draw_same, .slack = 8,            \
       .in_graphs = true, .gradient = 2)

const op_case flow_cases[] = {
    FLOW(WHILE, compute_while, make_while),
    FLOW(WHILE, compute_while, make_while_below),
    FLOW(COND, compute_cond, make_cond),
    FLOW(CALL, compute_call, make_call),
    CASE(CUSTOM_GRADIENT, compute_custom_gradient, NUMBERS, make_custom,
         .draw = draw_same, .in_graphs = true, .gradient = 2),
    CASE(READ, compute_read, NUMBERS, make_read, .draw = draw_variable),
    CASE(ASSIGN, compute_assign, NUMBERS, make_assign, .draw = draw_variable),
    CASE(ASSIGN_ADD, compute_assign, NUMBERS, make_assign_add,
         .draw = draw_variable),
    CASE(ASSIGN_SUB, compute_assign, NUMBERS, make_assign_sub,
         .draw = draw_variable),
    CASE(ASSIGN_SCATTER, compute_assign_scatter, NUMBERS, make_assign_scatter,
         .draw = draw_rows),
    CASE(STACK_NEW, compute_stack_new, EVERY, make_stack, .draw = draw_same,
         .in_graphs = true),
    CASE(STACK_PUSH, compute_stack_push, EVERY, make_stack, .draw = draw_same,
         .in_graphs = true, .gradient = 2),
    CASE(STACK_POP, compute_stack_pop, EVERY, make_stack, .draw = draw_same,
         .in_graphs = true, .gradient = 2),
    CASE(REPLICA_ID, ref_nothing, EVERY, make_replica_id),
    CASE(ALL_REDUCE, ref_copies, NUMBERS, make_all_reduce, .draw = draw_same,
         .gradient = 2),
    CASE(ALL_REDUCE, ref_copies, NUMBERS, make_extremes, .draw = draw_same),
    CASE(ALL_GATHER, ref_copies, EVERY, make_all_gather, .draw = draw_same,
         .gradient = 2),
    CASE(REDUCE_SCATTER, ref_copies, NUMBERS, make_reduce_scatter,
         .draw = draw_same, .gradient = 2),
    CASE(ALL_TO_ALL, ref_copies, EVERY, make_all_to_all, .draw = draw_same,
         .gradient = 2),
    CASE(PERMUTE, ref_copies, EVERY, make_permute, .draw = draw_same,
         .gradient = 2),
    CASE(REPLICA_BROADCAST, ref_copies, EVERY, make_broadcast_one,
         .draw = draw_same, .gradient = 2),
    {0},
};

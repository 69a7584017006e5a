// SPDX-License-Identifier: Apache-2.0
//
// What makes no sense is refused by a status: ops without their attributes,
// handles to nothing, kernels without functions.
#include "graph/op_table.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/expect.h"
#include "support/function.h"

static ls_status take_error(void) {
  return ls_graph_take_error(ls_graph_current());
}

// In a graph that is being built the error sticks to it, in eager to the value.
static void expect_refused(ls_op op, const char *part) {
  if (ls_graph_is_eager(ls_graph_current()) && !ls_op_is_failed(op)) {
    expect_status(ls_tensor_status(ls_op_output(op, 0)), LS_INVALID_ARGUMENT,
                  part);
    return;
  }
  expect_status(take_error(), LS_INVALID_ARGUMENT, part);
}

static void in_both(void (*body)(void)) {
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    body();
  }
  ls_graph_destroy(graph);
  expect_ok(ls_frame_begin());
  body();
  expect_ok(ls_frame_end(NULL));
}

// ---- Ops -------------------------------------------------------------------
static void add_every_op_bare(void) {
  const ls_tensor matrix = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 2), 1);
  const ls_tensor index = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 0);
  const ls_tensor few[] = {matrix, matrix, matrix, matrix, matrix, matrix};
  const ls_tensor mixed[] = {matrix, index, matrix, index, matrix, index};
  for (uint16_t type = LS_OP_NONE + 1; type < LS_OP_COUNT; ++type)
    for (size_t inputs = 0; inputs <= 6; ++inputs)
      for (int kind = 0; kind < 2; ++kind) {
        const ls_op op =
            ls_op_add(&(ls_op_spec){.type = type,
                                    .inputs = kind == 0 ? few : mixed,
                                    .num_inputs = inputs});
        if (!ls_op_is_failed(op))
          ls_status_free(ls_tensor_status(ls_op_output(op, 0)));
        ls_status_free(take_error());
      }
}

TEST(every_op_without_attributes_is_refused_or_made) {
  in_both(add_every_op_bare);
}

static void add_garbage(void) {
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  const ls_attr unnamed = {.kind = LS_ATTR_INT};
  const ls_attr strange = {.name = "mark", .kind = (ls_attr_kind)77};
  const ls_attr wrong = {.name = "dtype", .kind = LS_ATTR_INT, .as.i = 1};
  const ls_attr empty = {.name = "value", .kind = LS_ATTR_ARRAY};
  const ls_attr no_items = {
      .name = "permutation", .kind = LS_ATTR_INTS, .as.ints = {NULL, 1}};
  expect_refused(ls_op_add(NULL), "the spec of the op is NULL");
  expect_refused(ls_op_add(&(ls_op_spec){.type = 60000}),
                 "no type of op 60000");
  const ls_tensor pair[] = {x, x};  // What only passes make.
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_GELU_AGAIN,
                                         .inputs = pair,
                                         .num_inputs = 2}),
                 "no type of op");
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_NEG, .num_inputs = 1}),
                 "1 operands at NULL");
  expect_refused(
      ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP, .num_control = 2}),
      "2 control inputs at NULL");
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP, .num_attrs = 2}),
                 "2 attributes at NULL");
  expect_refused(ls_op_add(&(ls_op_spec){
                     .type = LS_OP_NO_OP, .attrs = &unnamed, .num_attrs = 1}),
                 "attribute 0 has no name");
  expect_refused(ls_op_add(&(ls_op_spec){
                     .type = LS_OP_NO_OP, .attrs = &strange, .num_attrs = 1}),
                 "attribute 0 has no name or kind");
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_CONVERT,
                                         .inputs = &x,
                                         .num_inputs = 1,
                                         .attrs = &wrong,
                                         .num_attrs = 1}),
                 "attribute 'dtype' is an integer, not a dtype");
  expect_refused(ls_op_add(&(ls_op_spec){
                     .type = LS_OP_CONVERT, .inputs = &x, .num_inputs = 1}),
                 "it needs the attribute 'dtype', a dtype");
  expect_refused(ls_op_add(&(ls_op_spec){
                     .type = LS_OP_CONSTANT, .attrs = &empty, .num_attrs = 1}),
                 "attribute 'value' is NULL");
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_TRANSPOSE,
                                         .inputs = &x,
                                         .num_inputs = 1,
                                         .attrs = &no_items,
                                         .num_attrs = 1}),
                 "attribute 'permutation' is NULL");
  expect_refused(
      ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP, .num_regions = 1}),
      "region 0 is NULL");
}

TEST(an_op_of_garbage_is_refused) { in_both(add_garbage); }

static void add_lists_at_null(void) {
  expect_refused(ls_tensor_op(ls_add_n(NULL, 2)), "at NULL");
  expect_refused(ls_tensor_op(ls_concatenate(NULL, 2, 0)), "");
  expect_refused(ls_tensor_op(ls_concatenate(NULL, 1, 0)), "");
  expect_refused(ls_sort_by(NULL, 2, 0, false), "at NULL");
  expect_refused(ls_tensor_op(ls_constant(NULL)), "NULL");
}

TEST(makers_refuse_lists_at_null) { in_both(add_lists_at_null); }

// ---- Handles ---------------------------------------------------------------
static void use_handles_to_nothing(void) {
  ls_graph *here = ls_graph_current();
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  const ls_tensor strange[] = {{here, UINT64_C(1) << 40},
                               {here, x.ref + 9},  // No such output.
                               {NULL, x.ref}};
  for (size_t i = 0; i < 3; ++i) {
    assert_int_equal(ls_tensor_dtype(strange[i]), LS_DTYPE_NONE);
    (void)ls_tensor_name(strange[i]);
    (void)ls_tensor_is_failed(strange[i]);
    (void)ls_op_name(ls_tensor_op(strange[i]));
    expect_refused(ls_tensor_op(ls_neg(strange[i])), "");
    ls_array *array = NULL;
    LS_OWN(ls_status, status) = ls_tensor_value(strange[i], &array);
    assert_false(ls_status_is_ok(status));
  }
}

TEST(handles_to_nothing_are_refused) { in_both(use_handles_to_nothing); }

TEST(a_session_refuses_handles_to_nothing) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  ls_tensor x;
  LS_OWN(ls_array, value) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  }
  expect_ok(ls_session_create(graph, &session));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &value));
  const ls_nest fetches[] = {
      ls_leaf((ls_tensor){graph, UINT64_C(1) << 40}),
      ls_leaf((ls_tensor){graph, x.ref + 1}),
      ls_leaf((ls_tensor){NULL, x.ref}),
      ls_nest_op((ls_op){graph, 12345}),
      ls_nest_op((ls_op){NULL, 1}),
      {.kind = (ls_kind)99},
  };
  ls_nest result = ls_none();
  for (size_t i = 0; i < sizeof(fetches) / sizeof(fetches[0]); ++i)
    expect_status(ls_session_run(session, fetches[i], NULL, 0, &result),
                  LS_INVALID_ARGUMENT, "");
  const ls_feed feeds[] = {{{graph, UINT64_C(1) << 40}, value},
                           {{graph, x.ref + 1}, value},
                           {{NULL, 1}, value},
                           {x, NULL}};
  for (size_t i = 0; i < 4; ++i)
    expect_status(ls_session_run(session, ls_leaf(x), &feeds[i], 1, &result),
                  LS_INVALID_ARGUMENT, "");
}

// ---- Host kernels ----------------------------------------------------------
static void call_without_functions(void) {
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  static const ls_host_kernel no_start = {.name = "lame"};
  static const ls_host_kernel no_name = {.start = finish_at_once};
  expect_refused(ls_host_call_add(NULL, NULL, &x, 1), "'kernel' is NULL");
  expect_refused(ls_host_call_add(&no_start, NULL, &x, 1),
                 "the host kernel 'lame' has no function to start a call");
  expect_refused(ls_host_call_add(&no_name, NULL, &x, 1), "or no name");
}

TEST(a_host_kernel_without_functions_is_refused) {
  in_both(call_without_functions);
}

// ---- What comes with a graph -----------------------------------------------
static void ask_for_a_parameter(void) {
  const ls_attr attrs[] = {
      {.name = "dtype", .kind = LS_ATTR_DTYPE, .as.dtype = LS_DTYPE_F32},
      {.name = "shape", .kind = LS_ATTR_SHAPE, .as.shape = LS_SHAPE(2)},
      {.name = "index", .kind = LS_ATTR_INT, .as.i = 7}};
  expect_refused(ls_op_add(&(ls_op_spec){.type = LS_OP_PARAMETER,
                                         .attrs = attrs,
                                         .num_attrs = LS_COUNT_OF(attrs)}),
                 "a parameter");
}

TEST(a_parameter_comes_with_its_graph_alone) { in_both(ask_for_a_parameter); }

// ---- Loops -----------------------------------------------------------------
static ls_nest same(ls_nest values, void *user) {
  (void)user;
  return ls_nest_retain(values);
}

static void loop_for_less_than_no_trips(void) {
  const ls_nest initial = ls_leaf(ls_scalar(LS_DTYPE_BOOL, 0));
  LS_OWN(ls_nest, after) = ls_while(same, same, NULL, initial, -1);
  expect_status(ls_nest_status(after), LS_INVALID_ARGUMENT,
                "'max_trips' is -1, must be at least 0");
  ls_status_free(take_error());
}

TEST(a_loop_has_at_least_no_trips) { in_both(loop_for_less_than_no_trips); }

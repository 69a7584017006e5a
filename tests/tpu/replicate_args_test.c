// SPDX-License-Identifier: Apache-2.0
//
// What a replicated computation is given and returns: forms, counts, types.
#include <stdio.h>
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/object.h"
#include "lockstep/ops.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"

static ls_nest give_back(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

static int num_called;
static ls_nest count_calls(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ++num_called;
  return LS_LIST(ls_leaf(f32_of(1)));
}

static ls_nest scalar_of(double value) { return ls_leaf(f32_of(value)); }

// ---- Inputs ----------------------------------------------------------------
static void expect_refused(computation *c, ls_nest inputs,
                           const char *const *parts, size_t count) {
  const size_t ops = ls_graph_num_ops(c->graph);
  num_called = 0;
  const ls_status status =
      ls_replicate(count_calls, NULL, inputs, NULL, &c->outputs);
  for (size_t i = 0; i + 1 < count; ++i)
    if (strstr(ls_status_message(status), parts[i]) == NULL)
      fail_msg("no '%s' in: %s", parts[i], ls_status_message(status));
  expect_status(status, LS_INVALID_ARGUMENT, parts[count - 1]);
  assert_int_equal(num_called, 0);
  assert_int_equal(ls_graph_num_ops(c->graph), ops);
  assert_int_equal(c->outputs.kind, LS_KIND_NONE);
  ls_nest_release(inputs);
}
#define EXPECT_REFUSED(c, inputs, ...)                                         \
  expect_refused(c, inputs, (const char *const[]){__VA_ARGS__},                \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

TEST(inputs_are_a_list_for_each_replica) {
  LS_SPEC("O93 O95");
  LS_OWN_BEGUN(computation, c, computation_open);
  EXPECT_REFUSED(&c, scalar_of(1), "a list with a list or tuple for each");
  EXPECT_REFUSED(&c, LS_LIST(LS_LIST(scalar_of(1)), scalar_of(2)),
                 "replica 1 are a list or a tuple, got", "f32[]");
  EXPECT_REFUSED(
      &c, LS_LIST(LS_LIST(scalar_of(1)), LS_TUPLE(scalar_of(1), scalar_of(2))),
      "replica 0 has 1 inputs", "replica 1 has 2");
  EXPECT_REFUSED(
      &c,
      LS_LIST(LS_LIST(LS_LIST(scalar_of(1))), LS_LIST(LS_TUPLE(scalar_of(1)))),
      "input 0 of replica 1");
  // A tuple beside a list is fine.
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(scalar_of(1)), LS_TUPLE(scalar_of(2)));
  expect_ok(ls_replicate(give_back, NULL, inputs, NULL, &c.outputs));
  assert_true(computation_output(&c, 1, 0) == 2);
}

TEST(without_inputs_there_is_one_replica) {
  LS_SPEC("O93 O94");
  LS_OWN_BEGUN(computation, c, computation_open);
  num_called = 0;
  expect_ok(ls_replicate(count_calls, NULL, ls_none(), NULL, &c.outputs));
  assert_int_equal(ls_nest_count(c.outputs), 1);
  assert_int_equal(num_called, 1);
  assert_true(computation_output(&c, 0, 0) == 1);
  // No replicas: nothing is built.
  const size_t ops = ls_graph_num_ops(c.graph);
  LS_OWN(ls_nest, none) = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  ls_nest_release(c.outputs);
  expect_ok(ls_replicate(count_calls, NULL, none, NULL, &c.outputs));
  assert_int_equal(c.outputs.kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(c.outputs), 0);
  assert_int_equal(num_called, 1);
  assert_int_equal(ls_graph_num_ops(c.graph), ops);
}

TEST(types_are_those_of_replica_0) {
  LS_SPEC("O96");
  LS_OWN_BEGUN(computation, c, computation_open);
  EXPECT_REFUSED(
      &c,
      LS_LIST(LS_LIST(scalar_of(1), ls_leaf(ls_scalar(LS_DTYPE_I32, 1))),
              LS_LIST(scalar_of(1), scalar_of(1))),
      "Replicas must have matching input types", "(f32, i32)",
      "replica 1 has (f32, f32)");
  const ls_tensor row = ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 0);
  EXPECT_REFUSED(&c, LS_LIST(LS_LIST(scalar_of(1)), LS_LIST(ls_leaf(row))),
                 "input 0 is f32[] on replica 0 and f32[3] on replica 1");
}

static ls_nest none_and_value(ls_nest args, void *user) {
  (void)user;
  assert_int_equal(ls_nest_item(args, 0).kind, LS_KIND_NONE);
  assert_int_equal(ls_nest_item(args, 1).kind, LS_KIND_TENSOR);
  return LS_LIST(ls_none(), ls_nest_retain(ls_nest_item(args, 1)));
}

TEST(none_is_none_on_all_and_variables_are_read) {
  LS_SPEC("O97 O108");
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_variable, v) =
      variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){4});
  const ls_nest leaf =
      ls_nest_object(LS_KIND_VARIABLE, (ls_object *)ls_variable_retain(v));
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_none(), leaf), LS_LIST(scalar_of(9), ls_nest_f64(5)));
  expect_ok(ls_replicate(none_and_value, NULL, inputs, NULL, &c.outputs));
  computation_initialize(&c, v);
  assert_int_equal(ls_nest_item(ls_nest_item(c.outputs, 1), 0).kind,
                   LS_KIND_NONE);
  assert_true(computation_output(&c, 0, 1) == 4);
  assert_true(computation_output(&c, 1, 1) == 5);
  // The number of the none is not taken by another input.
  op_named(c.graph, "input1");
  ls_op op;
  expect_status(ls_graph_lookup_op(c.graph, "input0", &op), LS_NOT_FOUND, "");
}

TEST(the_number_of_inputs_fits_what_is_declared) {
  LS_SPEC("O98 T81");
  static const char *const names[] = {"a", "b", "c"};
  static const struct {
    size_t count, optional;
    bool variadic;
    size_t inputs;
    const char *complaint;
  } rows[] = {
      {1, 0, false, 1, NULL},
      {1, 0, false, 2, "exactly 1 argument"},
      {2, 0, false, 1, "exactly 2 arguments"},
      {3, 1, false, 1, "at least 2 arguments"},
      {3, 1, false, 2, NULL},
      {3, 1, false, 4, "at most 3 arguments"},
      {2, 0, true, 1, "at least 2 arguments"},
      {2, 0, true, 4, NULL},
      {1, 1, false, 2, "at most 1 argument"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN_BEGUN(computation, c, computation_open);
    ls_nest items[4];
    for (size_t k = 0; k < rows[i].inputs; ++k)
      items[k] = scalar_of(1);
    LS_OWN(ls_nest, inputs) =
        LS_LIST(ls_nest_sequence(LS_KIND_LIST, items, rows[i].inputs));
    const ls_parameters parameters = {.names = names,
                                      .count = rows[i].count,
                                      .num_optional = rows[i].optional,
                                      .variadic = rows[i].variadic};
    const ls_status status = ls_replicate(
        count_calls, NULL, inputs,
        &(ls_replicate_options){.parameters = &parameters}, &c.outputs);
    if (rows[i].complaint == NULL) {
      expect_ok(status);
    } else {
      char supplied[40];
      snprintf(supplied, sizeof(supplied), "given %zu input%s (",
               rows[i].inputs, rows[i].inputs == 1 ? "" : "s");
      assert_non_null(strstr(ls_status_message(status), supplied));
      assert_non_null(strstr(ls_status_message(status), "constant"));
      const char *at = strstr(ls_status_message(status), rows[i].complaint);
      assert_non_null(at);
      assert_int_equal(at[strlen(rows[i].complaint)], ';');
      expect_status(status, LS_INVALID_ARGUMENT, "");
    }
  }
}

// ---- Results ---------------------------------------------------------------
typedef enum form {
  NONE,
  ALONE,
  OP_ALONE,
  EMPTY,
  TENSORS_AND_OP,
  OP_FIRST,
  NESTED,
  NESTED_OP,
  DICT,
  OBJECT,
  NUMBER,
} form;

static ls_nest return_form(ls_nest args, void *user) {
  const ls_nest x = ls_nest_retain(ls_nest_item(args, 0));
  const ls_op op = ls_group(NULL, 0, "mine");
  switch (*(const form *)user) {
  case NONE:
    return ls_none();
  case ALONE:
    return x;
  case OP_ALONE:
    return ls_nest_op(op);
  case EMPTY:
    return ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  case TENSORS_AND_OP:
    return LS_TUPLE(x, ls_none(), ls_leaf(f32_of(7)), ls_nest_op(op));
  case OP_FIRST:
    return LS_LIST(ls_nest_op(op), x);
  case NESTED:
    return LS_LIST(LS_TUPLE(x, ls_none()), ls_leaf(f32_of(7)));
  case NESTED_OP:
    return LS_LIST(LS_LIST(x), ls_nest_op(op));
  case DICT:
    return ls_nest_dict("", (const char *const[]){"k"}, &x, 1);
  case OBJECT:
    return LS_LIST(
        x, ls_nest_distributed(LS_PER_REPLICA, (const ls_nest[]){x, x}, 2));
  default:
    return LS_LIST(ls_nest_f64(2.5));
  }
}

static ls_status return_as(computation *c, form f) {
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  ls_nest_release(c->outputs);
  return ls_replicate(return_form, &f, inputs, NULL, &c->outputs);
}

TEST(flat_results_are_a_list_of_tensors) {
  LS_SPEC("O108 O109 O111 O112");
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(return_as(&c, ALONE));
  assert_int_equal(ls_nest_count(c.outputs), 2);
  assert_int_equal(ls_nest_item(c.outputs, 1).kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(ls_nest_item(c.outputs, 1)), 1);
  assert_true(computation_output(&c, 1, 0) == 2);
  // It went through the computation, on its first core.
  const ls_op output = op_named(c.graph, "output0");
  const ls_op inside = ls_tensor_op(ls_op_input(output, 0));
  assert_string_equal(ls_op_type_name(inside), "identity");
  assert_string_equal(ls_op_device(inside), "/device:TPU_REPLICATED_CORE:0");
  assert_string_equal(attr_text(inside, "_tpu_replicate"), "cluster");
  expect_ok(return_as(&c, TENSORS_AND_OP));
  for (size_t r = 0; r < 2; ++r) {
    const ls_nest own = ls_nest_item(c.outputs, r);
    assert_int_equal(own.kind, LS_KIND_LIST);
    assert_int_equal(ls_nest_count(own), 3);
    assert_int_equal(ls_nest_item(own, 1).kind, LS_KIND_NONE);
    assert_true(computation_output(&c, r, 2) == 7);
    // They wait for the op and for one of the computation.
    const ls_op shard = ls_tensor_op(ls_nest_tensor(own, 0));
    assert_int_equal(ls_op_num_control_inputs(shard), 2);
    assert_string_equal(ls_op_name(ls_op_control_input(shard, 0)), "mine_1");
    assert_string_equal(ls_op_type_name(ls_op_control_input(shard, 1)),
                        "no_op");
    assert_null(attr_text(shard, "_tpu_replicate"));
  }
  op_named(c.graph, "output_2_shard_1");
  expect_ok(return_as(&c, NUMBER));
  assert_true(computation_output(&c, 1, 0) == 2.5);
}

TEST(without_tensors_each_replica_has_an_op) {
  LS_SPEC("O108 O113");
  static const form forms[] = {NONE, OP_ALONE, EMPTY};
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN_BEGUN(computation, c, computation_open);
    expect_ok(return_as(&c, forms[i]));
    assert_int_equal(ls_nest_count(c.outputs), 2);
    for (size_t r = 0; r < 2; ++r) {
      const ls_nest own = ls_nest_item(c.outputs, r);
      assert_int_equal(own.kind, LS_KIND_OP);
      assert_string_equal(ls_op_name(own.as.op),
                          r == 0 ? "shard_0" : "shard_1");
      assert_int_equal(ls_op_num_control_inputs(own.as.op),
                       forms[i] == OP_ALONE ? 2 : 1);
      expect_ok(computation_run(&c, own));
    }
  }
}

TEST(nested_results_keep_their_form) {
  LS_SPEC("O110 O112");
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(return_as(&c, NESTED));
  const ls_nest own = ls_nest_item(c.outputs, 1);
  assert_int_equal(ls_nest_item(own, 0).kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_item(ls_nest_item(own, 0), 1).kind, LS_KIND_NONE);
  assert_true(computation_fetch(&c, ls_nest_tensor(ls_nest_item(own, 0), 0)) ==
              2);
  expect_ok(return_as(&c, DICT));
  assert_true(
      computation_fetch(
          &c, ls_nest_find(ls_nest_item(c.outputs, 1), "k").as.tensor) == 2);
}

TEST(other_results_are_refused) {
  LS_SPEC("O107 O108 O109 O110");
  static const struct {
    form form;
    const char *part;
  } rows[] = {
      {OP_FIRST, "zero or more Tensor values followed by zero or more "
                 "Operations"},
      {NESTED_OP, "a nested result holds op 'mine'"},
      {OBJECT, "in result 1"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN_BEGUN(computation, c, computation_open);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    const size_t ops = ls_graph_num_ops(c.graph);
    form f = rows[i].form;
    expect_status(ls_replicate(return_form, &f, inputs, NULL, &c.outputs),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_int_equal(c.outputs.kind, LS_KIND_NONE);
    assert_int_equal(ls_graph_num_ops(c.graph), ops);
    assert_int_equal(ls_num_shards(), 0);
    assert_null(attr_text(ls_tensor_op(f32_of(1)), "_tpu_replicate"));
    // Names are as before.
    expect_ok(return_as(&c, ALONE));
    op_named(c.graph, "cluster/pivot");
  }
}

// ---- Metadata --------------------------------------------------------------
TEST(metadata_says_what_is_known) {
  LS_SPEC("O101");
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(return_as(&c, ALONE));
  const ls_op op = op_named(c.graph, "tpu_replicate_metadata");
  static const struct {
    const char *name;
    int64_t value;
  } rows[] = {{"num_replicas", 2},
              {"use_tpu", 1},
              {"num_cores_per_replica", 1},
              {"allow_soft_placement", 0},
              {"use_spmd", 1}};
  const ls_attr *attr = NULL;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    expect_ok(ls_op_attr(op, rows[i].name, &attr));
    assert_int_equal(attr->as.i, rows[i].value);
  }
  assert_string_equal(attr_text(op, "topology"), "");
  assert_string_equal(attr_text(op, "step_marker_location"),
                      "STEP_MARK_AT_ENTRY");
  expect_ok(ls_op_attr(op, "device_assignment", &attr));
  assert_int_equal(attr->as.ints.count, 0);
  expect_ok(ls_op_attr(op, "host_compute_core", &attr));
  assert_int_equal(attr->as.strings.count, 0);
}

TEST(an_assignment_is_part_of_the_metadata) {
  LS_SPEC("O101 O105");
  const int32_t mesh[] = {2, 1, 1, 2};
  LS_OWN(ls_array, places) = NULL;
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, 4, 4), &places));
  for (int i = 0; i < 4; ++i) {
    ls_array_set_i64(places, 4 * i, i / 2);
    ls_array_set_i64(places, 4 * i + 3, i % 2);
  }
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  const int32_t shape[] = {1, 1, 1, 2};
  expect_ok(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.shape = shape,
                                      .shape_rank = 4,
                                      .num_replicas = LS_SOME(2),
                                      .order = LS_DEVICE_ORDER_MESH},
      &assignment));
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  LS_OWN(ls_nest, three) = computation_inputs(3);
  const ls_replicate_options options = {.assignment = assignment};
  expect_ok(ls_replicate(give_back, NULL, inputs, &options, &c.outputs));
  const ls_op op = op_named(c.graph, "tpu_replicate_metadata");
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op, "num_cores_per_replica", &attr));
  assert_int_equal(attr->as.i, 2);
  expect_ok(ls_op_attr(op, "device_assignment", &attr));
  static const int64_t wanted[] = {0, 0, 0, 0, 0, 0, 0, 1,
                                   1, 0, 0, 0, 1, 0, 0, 1};
  assert_int_equal(attr->as.ints.count, 16);
  assert_memory_equal(attr->as.ints.items, wanted, sizeof(wanted));
  expect_ok(ls_op_attr(op, "topology", &attr));
  size_t size = 0;
  const char *bytes = ls_topology_serialized(topology, &size);
  assert_int_equal(ls_array_num_elements(attr->as.array), size);
  assert_memory_equal(ls_array_data(attr->as.array), bytes, size);
  assert_true(computation_output(&c, 1, 0) == 2);
  ls_nest refused = ls_none();
  expect_status(ls_replicate(give_back, NULL, three, &options, &refused),
                LS_INVALID_ARGUMENT,
                "inputs for 3 replicas, and a device assignment of 2 with 2 "
                "cores each");
}

// ---- Shards ----------------------------------------------------------------
static ls_nest look_at_shards(ls_nest args, void *user) {
  *(int *)user = ls_num_shards();
  {
    LS_SCOPE_(ls_shard_scope_begin, 2);
    expect_status(ls_scope_status(), LS_UNIMPLEMENTED,
                  "tpu_shard_context cannot be nested");
  }
  return ls_nest_retain(args);
}

TEST(the_number_of_shards_is_that_of_replicas) {
  LS_SPEC("O102");
  int seen = 0;
  LS_OWN_BEGUN(computation, c, computation_open);
  assert_int_equal(ls_num_shards(), 0);
  computation_replicate(&c, 3, look_at_shards, &seen);
  assert_int_equal(seen, 3);
  assert_int_equal(ls_num_shards(), 0);
  {
    LS_SCOPE_(ls_shard_scope_begin, 4);
    assert_int_equal(ls_num_shards(), 4);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    ls_nest made = ls_none();
    expect_status(ls_replicate(give_back, NULL, inputs, NULL, &made),
                  LS_UNIMPLEMENTED, "tpu_shard_context cannot be nested");
  }
  assert_int_equal(ls_num_shards(), 0);
  const ls_op op = op_named(c.graph, "replicated_input_0");
  assert_string_equal(ls_op_name(ls_op_control_input(op, 0)),
                      "tpu_replicate_metadata");
}

TEST(eager_has_no_computations) {
  ls_nest outputs = ls_none();
  expect_status(ls_replicate(count_calls, NULL, ls_none(), NULL, &outputs),
                LS_FAILED_PRECONDITION, "in eager there is none");
}

TEST(what_is_needed_is_not_null) {
  LS_OWN_BEGUN(computation, c, computation_open);
  ls_tensor told;
  expect_status(ls_replicate(NULL, NULL, ls_none(), NULL, &c.outputs),
                LS_INVALID_ARGUMENT, "ls_replicate: fn is NULL");
  expect_status(ls_replicate(count_calls, NULL, ls_none(), NULL, NULL),
                LS_INVALID_ARGUMENT, "ls_replicate: outputs is NULL");
  expect_status(ls_split_compile_and_replicate(count_calls, NULL, ls_none(),
                                               NULL, NULL, &c.outputs),
                LS_INVALID_ARGUMENT,
                "ls_split_compile_and_replicate: compile_status is NULL");
  expect_status(ls_split_compile_and_replicate(count_calls, NULL, ls_none(),
                                               NULL, &told, NULL),
                LS_INVALID_ARGUMENT,
                "ls_split_compile_and_replicate: outputs is NULL");
  LS_OWN(ls_nest, made) = ls_outside_compilation(NULL, NULL, ls_none());
  expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT,
                "ls_outside_compilation: fn is NULL");
}

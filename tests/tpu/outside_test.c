// SPDX-License-Identifier: Apache-2.0
//
// Outside compilation: what its ops carry and where they are placed.
#include <string.h>

#include "graph/own.h"
#include "lockstep/function.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/replicate/replicate.h"

static ls_tensor outside(ls_callback fn, ls_tensor x) {
  const ls_nest made = ls_outside_compilation(fn, NULL, ls_leaf(x));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  return made.as.tensor;
}

// ---- Marks and numbers -----------------------------------------------------
static ls_nest three_clusters(ls_nest args, void *user) {
  ls_tensor *made = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  made[0] = outside(negate_leaf, x);
  made[1] = ls_add(made[0], x);
  made[2] = outside(negate_leaf, made[1]);
  made[3] = outside(negate_leaf, made[2]);
  return LS_LIST(ls_leaf(made[3]));
}

TEST(clusters_are_numbered_in_each_computation) {
  LS_SPEC("O1 O2 O15 O33 O38 O39 O115");
  LS_OWN_BEGUN(computation, c, computation_open);
  for (int again = 0; again < 2; ++again) {
    ls_tensor made[4];
    computation_replicate(&c, 2, three_clusters, made);
    static const char *const wanted[] = {"0", NULL, "1", "2"};
    for (int i = 0; i < 4; ++i) {
      expect_outside(made[i], wanted[i]);
      assert_string_equal(attr_text(ls_tensor_op(made[i]), "_tpu_replicate"),
                          again == 0 ? "cluster" : "cluster_1");
    }
    // The mark of the computation comes first.
    const ls_attr *attr = NULL;
    expect_ok(ls_op_attr(ls_tensor_op(made[0]), "_tpu_replicate", &attr));
    assert_string_equal(attr[1].name, "_xla_outside_compilation");
  }
}

static ls_nest nothing(ls_nest args, void *user) {
  ++*(int *)user;
  assert_int_equal(args.kind, LS_KIND_NONE);
  return ls_none();
}

static ls_nest call_nothing(ls_nest args, void *user) {
  const ls_nest made = ls_outside_compilation(nothing, user, ls_none());
  assert_int_equal(made.kind, LS_KIND_NONE);
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

TEST(the_function_is_called_once_and_may_give_nothing) {
  LS_SPEC("O38");
  int calls = 0;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, call_nothing, &calls);
  assert_int_equal(calls, 1);
}

TEST(without_a_computation_it_is_just_called) {
  LS_SPEC("O40");
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_tensor made = outside(negate_leaf, f32_of(3));
  expect_outside(made, NULL);
  assert_null(attr_text(ls_tensor_op(made), "_tpu_replicate"));
  assert_true(computation_fetch(&c, made) == -3);
}

// ---- Refusals --------------------------------------------------------------
static ls_nest call_outside(ls_nest args, void *user) {
  return ls_outside_compilation(negate_leaf, user, args);
}

static ls_nest nest_clusters(ls_nest args, void *user) {
  return ls_outside_compilation(call_outside, user, ls_nest_item(args, 0));
}

TEST(clusters_do_not_nest) {
  LS_SPEC("O32 O42 O107");
  LS_OWN_BEGUN(computation, c, computation_open);
  const size_t before = ls_graph_num_ops(c.graph);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  const size_t with_inputs = ls_graph_num_ops(c.graph);
  expect_status(ls_replicate(nest_clusters, NULL, inputs, NULL, &c.outputs),
                LS_UNIMPLEMENTED, "Cannot nest outside_compilation clusters");
  assert_int_equal(c.outputs.kind, LS_KIND_NONE);
  assert_int_equal(ls_graph_num_ops(c.graph), with_inputs);
  assert_true(with_inputs > before);
  expect_outside(ls_neg(f32_of(1)), NULL);
  assert_null(ls_flow_replicated());
}

static ls_nest leave_graph(ls_nest args, void *user) {
  static ls_scope scope;
  scope = (ls_scope){0};
  ls_graph_begin(&scope, user);
  return ls_nest_retain(args);
}

static ls_nest call_leave_graph(ls_nest args, void *user) {
  return ls_outside_compilation(leave_graph, user, ls_nest_item(args, 0));
}

static ls_nest refuse(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return LS_FAIL(LS_OUT_OF_RANGE, "not today");
}

static ls_nest call_refuse(ls_nest args, void *user) {
  return ls_outside_compilation(refuse, user, args);
}

// Leaves a scope of a kind open: a name, a device, a colocation or a control
// scope.
static ls_nest leave_scope(ls_nest args, void *user) {
  static ls_scope scope;
  static ls_op op;
  scope = (ls_scope){0};
  op = ls_tensor_op(args.as.tensor);
  switch (*(const int *)user) {
  case 0:
    ls_name_scope_begin(&scope, "left");
    break;
  case 1:
    ls_device_scope_begin(&scope, "/device:CPU:0");
    break;
  case 2:
    ls_colocate_scope_begin(&scope, op);
    break;
  default:
    ls_control_scope_begin(&scope, &op, 1);
  }
  return ls_nest_retain(args);
}

static ls_nest call_leave_scope(ls_nest args, void *user) {
  return ls_outside_compilation(leave_scope, user, ls_nest_item(args, 0));
}

TEST(scopes_of_any_kind_that_it_leaves_open_are_refused) {
  LS_SPEC("O42");
  static const char *const says[] = {
      "has left a name scope open", "has left a device scope open",
      "has left a colocation scope open", "has left a control scope open"};
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  for (int kind = 0; kind < 4; ++kind) {
    expect_status(
        ls_replicate(call_leave_scope, &kind, inputs, NULL, &c.outputs),
        LS_UNIMPLEMENTED, says[kind]);
    const ls_op after = ls_tensor_op(ls_neg(f32_of(1)));
    assert_null(strstr(ls_op_name(after), "left"));
    assert_string_equal(ls_op_device(after), "");
    assert_int_equal(ls_op_num_control_inputs(after), 0);
  }
}

TEST(what_it_leaves_open_is_refused_and_left) {
  LS_SPEC("O41 O42");
  LS_OWN(ls_graph, other) = NULL;
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(ls_graph_create("other", &other));
  const ls_nest inputs = computation_inputs(2);
  expect_status(ls_replicate(call_leave_graph, other, inputs, NULL, &c.outputs),
                LS_UNIMPLEMENTED,
                "Control-flow context cannot be different at start and end of "
                "an outside_compilation scope");
  assert_ptr_equal(ls_graph_current(), c.graph);
  expect_status(ls_replicate(call_refuse, NULL, inputs, NULL, &c.outputs),
                LS_OUT_OF_RANGE, "not today");
  ls_nest_release(inputs);
  computation_replicate(&c, 2, three_clusters, (ls_tensor[4]){{0}});
  assert_true(computation_output(&c, 1, 0) == 0);
}

TEST(scopes_of_a_context_are_entered_and_left_in_turn) {
  LS_SPEC("O8 O32 O33 O36");
  ls_tpu_context context;
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_op pivot = ls_group(NULL, 0, "pivot");
  expect_ok(ls_tpu_context_init(&context, "c", 2, pivot));
  assert_false(context.was_entered);
  assert_null(context.outside);
  assert_int_equal(context.outside_counter, 0);
  assert_int_equal(context.num_gradients, 0);
  assert_int_equal(context.num_host_compute_cores, 0);
  assert_int_equal(context.num_unsupported, 0);
  ls_scope scope = {0};
  ls_tpu_context_enter(&scope, &context);
  expect_status(ls_tpu_context_exit_outside(&context), LS_UNIMPLEMENTED,
                "Attempted to exit outside_compilation scope when not in "
                "scope");
  expect_ok(ls_tpu_context_enter_outside(&context, "mine"));
  expect_outside(f32_of(1), "mine");
  expect_status(ls_tpu_context_enter_outside(&context, NULL), LS_UNIMPLEMENTED,
                "Cannot nest outside_compilation clusters");
  expect_ok(ls_tpu_context_exit_outside(&context));
  expect_outside(f32_of(1), NULL);
  // A name that was given took no number.
  expect_ok(ls_tpu_context_enter_outside(&context, NULL));
  expect_outside(f32_of(1), "0");
  expect_ok(ls_tpu_context_exit_outside(&context));
  ls_scope_end(&scope);
  ls_tpu_context_deinit(&context);
}

// ---- Devices ---------------------------------------------------------------
static ls_nest on_a_task(ls_nest args, void *user) {
  ls_tensor *made = user;
  made[0] = ls_neg(args.as.tensor);
  LS_DEVICE_SCOPE("/task:3");
  LS_NAME_SCOPE("inside");
  made[1] = ls_neg(args.as.tensor);
  return ls_leaf(made[1]);
}

static ls_nest on_a_core(ls_nest args, void *user) {
  ls_tensor *made = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_NAME_SCOPE("around");
  {
    LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
    made[2] = ls_neg(x);
    ls_nest_release(ls_outside_compilation(on_a_task, made, ls_leaf(x)));
    made[3] = ls_neg(x);
  }
  return LS_LIST(ls_leaf(made[3]));
}

TEST(device_scopes_inside_do_not_reach_it) {
  LS_SPEC("O5 O10 O35 O37");
  ls_tensor made[4];
  LS_OWN_BEGUN(computation, c, computation_open);
  {
    LS_DEVICE_SCOPE("/job:w");
    computation_replicate(&c, 2, on_a_core, made);
  }
  static const char *const wanted[] = {"/job:w", "/job:w/task:3",
                                       "/job:w/device:TPU_REPLICATED_CORE:0",
                                       "/job:w/device:TPU_REPLICATED_CORE:0"};
  for (int i = 0; i < 4; ++i)
    assert_string_equal(ls_op_device(ls_tensor_op(made[i])), wanted[i]);
  assert_string_equal(ls_op_name(ls_tensor_op(made[1])), "around/inside/neg");
}

static ls_nest on_many_cores(ls_nest args, void *user) {
  (void)user;
  static const char *const devices[] = {
      "/device:TPU_REPLICATED_CORE:1", "/device:TPU_REPLICATED_CORE",
      "/device:CPU:0", "/device:TPU_REPLICATED_CORE:0"};
  ls_tpu_context *context = ls_tpu_context_current();
  assert_int_equal(context->num_host_compute_cores, 0);
  for (int i = 0; i < 4; ++i) {
    LS_DEVICE_SCOPE(devices[i]);
    outside(negate_leaf, ls_nest_tensor(args, 0));
  }
  assert_int_equal(context->num_host_compute_cores, 2);
  assert_string_equal(context->host_compute_cores[0], "0:1");
  assert_string_equal(context->host_compute_cores[1], "3:0");
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

TEST(cores_are_listed_where_one_is_asked_for) {
  LS_SPEC("O34 O62 O205 O64");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, on_many_cores, NULL);
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                       "host_compute_core", &attr));
  assert_int_equal(attr->kind, LS_ATTR_STRINGS);
  assert_int_equal(attr->as.strings.count, 2);
  assert_string_equal(attr->as.strings.items[0], "0:1");
  assert_string_equal(attr->as.strings.items[1], "3:0");
  // There is one core only.
  expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                "'0' is to exchange values on core 1 of a replica, which has "
                "1");
  int calls = 0;
  computation_replicate(&c, 2, call_nothing, &calls);
  expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata_1"),
                       "host_compute_core", &attr));
  assert_int_equal(attr->as.strings.count, 0);
}

TEST(cores_that_are_none_are_refused) {
  LS_SPEC("O63 O64");
  static const struct {
    const char *items[2];
    const char *part;
  } rows[] = {
      {{"0"}, "'0' in host_compute_core is no \"cluster:core\""},
      {{"0:1:2"}, "'0:1:2'"},
      {{"0:x"}, "'0:x' in host_compute_core has no number"},
      {{"0:0", "0:0"}, "cluster '0' is in host_compute_core twice"},
      {{"0:1"}, "core 1 of a replica, which has 1"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    int calls = 0;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, 2, call_nothing, &calls);
    const ls_attr attr = {
        .name = "host_compute_core",
        .kind = LS_ATTR_STRINGS,
        .as.strings = {rows[i].items, rows[i].items[1] == NULL ? 1 : 2}};
    expect_ok(
        ls_op_set_attr(op_named(c.graph, "tpu_replicate_metadata"), &attr));
    expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                  rows[i].part);
  }
}

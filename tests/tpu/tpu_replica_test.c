// SPDX-License-Identifier: Apache-2.0
//
// The replica context of TPU strategies: ids, devices, what replicas do
// together, and the call of one for all.
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/slices.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/summary.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/tpu_ways.h"

static const double counted[2 * TPU_RUN_REPLICAS] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// ---- Ids and devices -------------------------------------------------------
static ls_nest look_at_id(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ls_replica *replica = ls_replica_context();
  ls_tensor id = ls_failed_tensor();
  const char *device = NULL;
  assert_int_equal(ls_replica_number(), -1);
  expect_ok(ls_replica_id_in_sync_group(replica, &id));
  assert_int_equal(ls_tensor_dtype(id), LS_DTYPE_I32);
  assert_string_not_equal(ls_op_type_name(ls_tensor_op(id)), "constant");
  expect_ok(ls_replica_device(replica, &device));
  assert_string_equal(device, "/device:TPU_REPLICATED_CORE:0");
  return ls_leaf(id);
}

static void each_has_its_id(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == r);
}

static ls_nest look_alone(ls_nest args, void *user) {
  ls_replica *replica = ls_replica_context();
  ls_tensor id = ls_failed_tensor();
  const char *device = NULL, *devices[8];
  size_t count = 0;
  (void)args;
  assert_non_null(replica);
  assert_ptr_equal(ls_replica_strategy(replica), user);
  assert_ptr_equal(ls_strategy_current(), user);
  assert_int_equal(ls_replica_number(), 0);
  expect_ok(ls_replica_id_in_sync_group(replica, &id));
  if (!ls_graph_is_eager(ls_graph_current()))
    assert_string_equal(ls_op_type_name(ls_tensor_op(id)), "constant");
  expect_ok(ls_replica_device(replica, &device));
  expect_ok(ls_strategy_worker_devices(user, devices, 8, &count));
  assert_string_equal(device, devices[0]);
  return ls_leaf(id);
}

static ls_nest merge_and_look(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)user;
  expect_ok(ls_strategy_call_for_each_replica(s, look_alone, args, s, &made));
  return made;
}

static ls_nest look_in_merge(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), merge_and_look, args,
                               user);
}

static void all_see_replica_0(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == 0);
}

TEST(an_id_is_known_when_replicas_run) {
  LS_SPEC("T187 T188");
  tpu_run_all(&(tpu_step){.fn = look_at_id}, each_has_its_id);
  tpu_run_all(&(tpu_step){.fn = look_in_merge}, all_see_replica_0);
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    ls_nest made = ls_none();
    expect_ok(
        ls_strategy_call_for_each_replica(s, look_alone, ls_none(), s, &made));
    assert_true(item_of(made.as.tensor) == 0);
    LS_OWN_BEGUN(computation, c, computation_open);
    expect_ok(
        ls_strategy_call_for_each_replica(s, look_alone, ls_none(), s, &made));
    assert_true(computation_fetch(&c, made.as.tensor) == 0);
  }
}

typedef struct kept_replica {
  ls_replica *replica;
  ls_strategy *other;
} kept_replica;

static ls_nest keep_replica(ls_nest args, void *user) {
  kept_replica *kept = user;
  const char *device = NULL;
  ls_replica *mine = ls_replica_context();
  if (kept->replica != NULL)
    expect_status(ls_replica_device(kept->replica, &device),
                  LS_FAILED_PRECONDITION, "");
  kept->replica = mine;
  return ls_nest_retain(ls_nest_item(args, 0));
}

static ls_nest ask_across(ls_strategy *s, ls_nest args, void *user) {
  const char *device = NULL;
  (void)s;
  expect_status(ls_replica_device(user, &device), LS_FAILED_PRECONDITION,
                "cross-replica context");
  return ls_nest_retain(args);
}

static ls_nest ask_in_merge(ls_nest args, void *user) {
  (void)user;
  return ls_replica_merge_call(ls_replica_context(), ask_across,
                               ls_nest_item(args, 0), ls_replica_context());
}

static ls_nest ask_from_other(ls_nest args, void *user) {
  const char *device = NULL;
  const kept_replica *kept = user;
  (void)args;
  expect_status(ls_replica_device(kept->replica, &device),
                LS_FAILED_PRECONDITION, "cannot be mixed");
  return ls_none();
}

static ls_nest call_other(ls_nest args, void *user) {
  kept_replica *kept = user;
  ls_nest made = ls_none();
  (void)args;
  kept->replica = ls_replica_context();
  expect_status(ls_strategy_call_for_each_replica(kept->other, ask_from_other,
                                                  ls_none(), kept, &made),
                LS_FAILED_PRECONDITION, "cannot be mixed");
  return ls_none();
}

static void does_nothing(tpu_run *run) { (void)run; }

TEST(a_context_is_asked_where_it_is_current) {
  LS_SPEC("T188");
  const char *device = NULL;
  expect_status(ls_replica_device(NULL, &device), LS_FAILED_PRECONDITION,
                "needs a replica context");
  kept_replica kept = {.other = tpu_strategy_of(2)};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  for (int way = 0; way < NUM_TPU_WAYS; ++way) {
    LS_OWN(tpu_run, run) = {0};
    expect_ok(tpu_run_begin(&run, way, s,
                            &(tpu_step){.fn = keep_replica, .user = &kept}));
    expect_status(ls_replica_device(kept.replica, &device),
                  LS_FAILED_PRECONDITION, "has ended");
    kept.replica = NULL;
  }
  tpu_run_all(&(tpu_step){.fn = ask_in_merge}, does_nothing);
  tpu_run_all(&(tpu_step){.fn = call_other, .user = &kept}, does_nothing);
  ls_strategy_release(kept.other);
}

// ---- One for all -----------------------------------------------------------
typedef struct one_call {
  int calls;
  ls_nest args;
  bool fails;
} one_call;

static ls_nest count_call(ls_nest args, void *user) {
  one_call *call = user;
  ++call->calls;
  assert_int_equal(ls_nest_count(args), 2);
  for (size_t i = 0; i < 2; ++i) {
    const ls_nest got = ls_nest_item(args, i);
    const ls_nest given = ls_nest_item(call->args, i);
    assert_int_equal(got.kind, given.kind);
    assert_ptr_equal(got.as.ref, given.as.ref);
  }
  if (call->fails) return LS_FAIL(LS_ABORTED, "the callback's own");
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)), ls_nest_i64(5),
                 ls_none());
}

static void it_is_called_once(ls_strategy *s) {
  const ls_nest parts[] = {ls_leaf(f32_of(1)), ls_leaf(f32_of(2))};
  one_call call = {.args =
                       LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, 2),
                                ls_nest_distributed(LS_MIRRORED, parts, 2))};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_call_for_each_replica(s, count_call, call.args, &call,
                                              &made));
  assert_int_equal(call.calls, 1);
  assert_int_equal(made.kind, LS_KIND_LIST);
  assert_ptr_equal(ls_nest_item(made, 0).as.ref,
                   ls_nest_item(call.args, 0).as.ref);
  assert_true(ls_nest_number(ls_nest_item(made, 1)) == 5);
  assert_int_equal(ls_nest_item(made, 2).kind, LS_KIND_NONE);
  ls_nest_release(made);
  made = ls_none();
  call.fails = true;
  const ls_status status =
      ls_strategy_call_for_each_replica(s, count_call, call.args, &call, &made);
  assert_string_equal(ls_status_message(status), "the callback's own");
  expect_status(status, LS_ABORTED, "");
  assert_false(ls_has_strategy());
  assert_int_equal(ls_replica_number(), 0);
  expect_status(ls_strategy_call_for_each_replica(s, count_call, ls_nest_i64(1),
                                                  &call, &made),
                LS_INVALID_ARGUMENT, "a list or a tuple");
  assert_int_equal(call.calls, 2);
  ls_nest_release(call.args);
}

static ls_nest sum_alone(ls_nest args, void *user) {
  (void)user;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM,
                               ls_nest_item(args, 0));
}

static ls_nest meet_alone(ls_nest args, void *user) {
  ls_replica *replica = ls_replica_context();
  static const double weights[3] = {1, 2, 3};
  LS_OWN(ls_nest, made) =
      ls_replica_all_gather(replica, ls_nest_item(args, 0), 0);
  (void)user;
  expect_status(ls_nest_status(made), LS_FAILED_PRECONDITION,
                "all_gather of 3 replicas");
  ls_nest_release(made);
  made = ls_replica_weighted_mean(replica, ls_nest_item(args, 0), weights, 3);
  expect_status(ls_nest_status(made), LS_FAILED_PRECONDITION,
                "weighted_mean of 3 replicas");
  return ls_none();
}

static ls_nest call_in_merge(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_call_for_each_replica(s, sum_alone, args, user, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest sum_in_merge(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), call_in_merge, args, user);
}

static ls_nest call_in_replica(ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status = ls_strategy_call_for_each_replica(
      ls_strategy_current(), sum_alone, args, user, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static void all_have_the_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == n * (n + 1) / 2);
}

TEST(one_is_called_for_all) {
  LS_SPEC("T172");
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    it_is_called_once(s);
    // There is nobody to sum up with.
    const ls_nest args = LS_TUPLE(ls_leaf(f32_of(3)));
    ls_nest made = ls_none();
    const ls_status status =
        ls_strategy_call_for_each_replica(s, sum_alone, args, NULL, &made);
    if (n > 1)
      expect_status(status, LS_INVALID_ARGUMENT, "SUM of");
    else
      expect_ok(status);
    if (n > 1)
      expect_ok(
          ls_strategy_call_for_each_replica(s, meet_alone, args, NULL, &made));
    ls_nest_release(made);
    ls_nest_release(args);
    LS_OWN_BEGUN(computation, c, computation_open);
    it_is_called_once(s);
  }
  tpu_step step = {.fn = sum_in_merge, .numbers = counted};
  tpu_run_all(&step, all_have_the_sum);
  step.fn = call_in_replica;
  tpu_run_refused(&step, 2, LS_FAILED_PRECONDITION, "call_for_each_replica");
}

// ---- Gathering -------------------------------------------------------------
static ls_nest gather_nest(ls_nest args, void *user) {
  const int axis = *(const int *)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, nest) = ls_nest_dict(
      "", (const char *const[]){"k", "l"},
      (const ls_nest[]){LS_TUPLE(ls_leaf(x)), ls_leaf(ls_neg(x))}, 2);
  const ls_nest made = ls_replica_all_gather(ls_replica_context(), nest, axis);
  if (ls_nest_is_failed(made)) return made;
  assert_int_equal(made.kind, LS_KIND_DICT);
  assert_int_equal(ls_nest_find(made, "k").kind, LS_KIND_TUPLE);
  return made;
}

static void all_have_all_rows(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_int_equal(ls_array_num_elements(tpu_run_array(run, r, 0)), 2 * n);
    for (int i = 0; i < 2 * n; ++i) {
      assert_true(tpu_run_number(run, r, 0, i) == i + 1);
      assert_true(tpu_run_number(run, r, 1, i) == -(i + 1));
    }
  }
}

static void all_have_all_columns(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (int row = 0; row < 2; ++row)
      for (int k = 0; k < n; ++k)
        assert_true(tpu_run_number(run, r, 0, row * n + k) == 2 * k + row + 1);
}

static ls_nest gather_slices(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  const ls_nest slices = ls_nest_slices(
      ls_leaf(x), ls_broadcast(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(2)),
      ls_failed_tensor());
  LS_OWN(ls_nest, nest) = LS_LIST(ls_leaf(x), LS_TUPLE(slices));
  const size_t before = ls_graph_num_ops(ls_graph_current());
  const ls_nest made = ls_replica_all_gather(ls_replica_context(), nest, 0);
  assert_int_equal(ls_graph_num_ops(ls_graph_current()), before);
  return made;
}

// d sum_i w_r gathered_i / dx, w_r = r + 1: each gets the sum of all w.
static ls_nest gradient_of_gather(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest all =
      ls_replica_all_gather(ls_replica_context(), ls_leaf(x), 0);
  const ls_tensor place = ls_convert(
      ls_add(ls_replica_id(), ls_scalar_i64(LS_DTYPE_I32, 1)), LS_DTYPE_F32);
  // Each row counts as its number says.
  const ls_tensor y = ls_mul(ls_mul(all.as.tensor, all.as.tensor), place);
  const ls_nest xs = ls_leaf(x), ys = ls_leaf(y);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

static void each_has_its_slice_of_the_sum(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_int_equal(ls_array_num_elements(tpu_run_array(run, r, 0)), 2);
    for (int i = 0; i < 2; ++i)
      assert_true(tpu_run_number(run, r, 0, i) ==
                  n * (n + 1) / 2.0 * 2 * counted[2 * r + i]);
  }
}

// Replica r has r + 1 rows.
static ls_status gather_uneven(int way, ls_strategy *s) {
  static int axis = 0;
  computation c;
  const bool traced = way == TPU_TRACED;
  if (!traced) computation_open(&c);
  ls_nest items[2], made = ls_none(), each = ls_none(), result = ls_none();
  for (int r = 0; r < 2; ++r) {
    LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SHAPE(r + 1), counted);
    items[r] = traced ? ls_nest_array(ls_array_retain(array))
                      : ls_leaf(ls_constant(array));
  }
  ls_function *f = function_of(gather_nest, &axis);
  const ls_nest args = LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, 2));
  ls_status status = ls_strategy_run(
      s, way == TPU_GRAPH ? ls_plain(gather_nest, &axis) : ls_traced(f), args,
      &made);
  if (ls_status_is_ok(status) && !traced) {
    expect_ok(ls_strategy_local_results(s, made, &each));
    expect_ok(ls_session_create(c.graph, &c.session));
    status = ls_session_run(c.session, each, NULL, 0, &result);
  }
  ls_nest_release(result);
  ls_nest_release(each);
  ls_nest_release(made);
  ls_nest_release(args);
  ls_function_release(f);
  if (!traced) {
    ls_status_free(ls_graph_take_error(c.graph));
    computation_close(&c);
  }
  return status;
}

TEST(replicas_gather_in_their_order) {
  LS_SPEC("T189 T190");
  static int axes[] = {0, 1, 2, -1};
  tpu_step step = {.fn = gather_nest,
                   .user = &axes[0],
                   .numbers = counted,
                   .shape = LS_SHAPE(2)};
  tpu_run_all(&step, all_have_all_rows);
  step.shape = LS_SHAPE(2, 1);
  step.user = &axes[1];
  tpu_run_all(&step, all_have_all_columns);
  for (int n = 1; n <= 2; ++n) {
    step.user = &axes[2];
    tpu_run_refused(&step, n, LS_INVALID_ARGUMENT, "axis 2 of rank 2");
    step.user = &axes[3];
    tpu_run_refused(&step, n, LS_INVALID_ARGUMENT, "axis -1");
    step.user = &axes[0];
    tpu_run_refused(&(tpu_step){.fn = gather_nest, .user = &axes[0]}, n,
                    LS_INVALID_ARGUMENT, "rank 0");
    tpu_run_refused(&(tpu_step){.fn = gather_slices, .shape = LS_SHAPE(2)}, n,
                    LS_UNIMPLEMENTED, "IndexedSlices");
  }
  step.shape = LS_SHAPE(2);
  step.fn = gradient_of_gather;
  tpu_run_all(&step, each_has_its_slice_of_the_sum);
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  for (int way = 0; way < NUM_TPU_WAYS; ++way)
    expect_status(gather_uneven(way, s), LS_INVALID_ARGUMENT,
                  "one shape on all");
  // Under a tape replicas run op by op.
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  expect_status(gather_uneven(TPU_TRACED, s), LS_INVALID_ARGUMENT,
                "on replica 1");
  expect_ok(ls_tape_end(tape));
}

// ---- Reducing --------------------------------------------------------------
static ls_nest reduce_nest(ls_nest args, void *user) {
  ls_reduce_op op;
  const ls_status status = ls_reduce_op_parse(user, &op);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, nest) = LS_LIST(ls_leaf(x), LS_TUPLE(ls_leaf(ls_neg(x))));
  const ls_nest made = ls_replica_all_reduce(ls_replica_context(), op, nest);
  if (ls_nest_is_failed(made)) return made;
  assert_int_equal(ls_nest_item(made, 1).kind, LS_KIND_TUPLE);
  // Of w_r times it, w_r = r + 1.
  const ls_tensor y =
      ls_mul(ls_nest_tensor(made, 0),
             ls_convert(ls_add(ls_replica_id(), ls_scalar_i64(LS_DTYPE_I32, 1)),
                        LS_DTYPE_F32));
  const ls_nest xs = ls_leaf(x), ys = ls_leaf(y);
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1, NULL, &gradient));
  return LS_LIST(made, gradient);
}

static ls_nest reduce_by_max(ls_nest args, void *user) {
  (void)user;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MAX,
                               ls_nest_item(args, 0));
}

static void sums_and_gradients_are_sums(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < 3; ++i)
      assert_true(tpu_run_number(run, r, i, 0) ==
                  (i == 1 ? -1 : 1) * n * (n + 1) / 2);
}

static void means_and_gradients_are_means(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  const float mean = (float)(n * (n + 1) / 2) * (1.0f / (float)n);
  for (int r = 0; r < n; ++r)
    for (size_t i = 0; i < 3; ++i)
      assert_true((float)tpu_run_number(run, r, i, 0) ==
                  (i == 1 ? -mean : mean));
}

TEST(a_gradient_is_reduced_as_its_value) {
  LS_SPEC("T192");
  static char sum[] = "sUm", mean[] = "MEAN", product[] = "product";
  tpu_step step = {.fn = reduce_nest, .user = sum, .numbers = counted};
  tpu_run_all(&step, sums_and_gradients_are_sums);
  step.user = mean;
  tpu_run_all(&step, means_and_gradients_are_means);
  step.user = product;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "'product'");
  step.fn = reduce_by_max;
  tpu_run_refused(&step, 1, LS_INVALID_ARGUMENT, "MAX");
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "MAX");
}

// ---- What is captured ------------------------------------------------------
static ls_nest use_captured(ls_nest args, void *user) {
  ls_tensor x = ls_failed_tensor();
  (void)args;
  const ls_status status = ls_distributed_as_tensor(*(ls_nest *)user, &x);
  return ls_status_is_ok(status) ? ls_leaf(x) : ls_fail(status);
}

TEST(a_value_of_each_is_no_capture) {
  ls_nest items[2];
  for (int r = 0; r < 2; ++r)
    items[r] = ls_nest_array(
        array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){r + 1}));
  LS_OWN(ls_nest, captured) = ls_nest_distributed(LS_PER_REPLICA, items, 2);
  tpu_run_refused(&(tpu_step){.fn = use_captured, .user = &captured}, 2,
                  LS_FAILED_PRECONDITION, "hand it over as an argument");
}

// ---- Summaries and errors --------------------------------------------------
typedef struct records {
  char text[200];
} records;

static void note(void *user, const ls_summary_record *record) {
  records *r = user;
  snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text),
           "%s=%g ", record->tag, ls_array_f64(record->value, 0));
}

static ls_nest summarize_merged(ls_strategy *s, ls_nest args, void *user) {
  (void)s;
  (void)user;
  ls_summary("merged", ls_nest_tensor(args, 0));
  return ls_nest_retain(ls_nest_item(args, 0));
}

static ls_nest summarize(ls_nest args, void *user) {
  ls_summary("x", ls_nest_tensor(args, 0));
  return ls_replica_merge_call(ls_replica_context(), summarize_merged, args,
                               user);
}

TEST(summaries_are_of_replica_0) {
  LS_SPEC("T193");
  static const double tens[] = {10, 20, 30};
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    for (int way = 0; way < NUM_TPU_WAYS; ++way) {
      records r = {{0}};
      LS_OWN(ls_summary_writer, writer) = NULL;
      expect_ok(ls_summary_writer_create(note, &r, &writer));
      {
        LS_SUMMARY_SCOPE(writer);
        LS_OWN(tpu_run, run) = {0};
        expect_ok(tpu_run_begin(&run, way, s,
                                &(tpu_step){.fn = summarize, .numbers = tens}));
      }
      assert_string_equal(r.text, way == TPU_GRAPH_TRACED
                                      ? "f/x=10 f/merged=10 "
                                      : "x=10 merged=10 ");
    }
  }
}

// ---- Fetch and map ---------------------------------------------------------
static ls_variable *make_seven(void *user) {
  (void)user;
  return variable_of("seven", LS_DTYPE_F32, LS_SCALAR, (double[]){7});
}

static ls_nest twice(ls_nest value, void *user) {
  ls_tensor x = ls_failed_tensor();
  (void)user;
  expect_ok(ls_distributed_as_tensor(value, &x));
  return ls_leaf(ls_mul_scalar(x, 2));
}

static ls_nest fetch_twice(ls_strategy *s, ls_nest args, void *user) {
  const tpu_run *run = user;
  ls_nest made = ls_none();
  (void)args;
  LS_OWN(ls_nest, leaf) = ls_nest_variable(run->variable);
  const ls_status status = ls_strategy_fetch(s, leaf, NULL, twice, NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest fetch_in_merge(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), fetch_twice, args, user);
}

static ls_nest square_item(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return ls_leaf(ls_mul(x, x));
}

// Of what each device has made.
static ls_nest sum_of_items(ls_nest made) {
  ls_tensor sum = ls_scalar(LS_DTYPE_F32, 0);
  assert_int_equal(ls_distributed_kind_of(made), LS_PER_REPLICA);
  for (size_t d = 0; d < ls_distributed_count(made); ++d) {
    const ls_nest output = ls_distributed_component(made, d);
    assert_int_equal(ls_distributed_kind_of(output), LS_MAP_OUTPUT);
    for (size_t i = 0; i < ls_distributed_count(output); ++i)
      sum = ls_add(sum, ls_nest_tensor(ls_distributed_component(output, i), 0));
  }
  return ls_leaf(sum);
}

static ls_nest map_items(ls_strategy *s, ls_nest args, void *user) {
  const ls_nest items[] = {ls_leaf(ls_scalar(LS_DTYPE_F32, 2)),
                           ls_leaf(ls_scalar(LS_DTYPE_F32, 3)),
                           ls_leaf(ls_scalar(LS_DTYPE_F32, 4))};
  const bool *reduces = user;
  LS_OWN(ls_nest, made) = ls_none();
  ls_nest sum = ls_none();
  (void)args;
  ls_status status =
      ls_strategy_map(s, items, 3, square_item, ls_none(), NULL, &made);
  if (ls_status_is_ok(status)) {
    if (*reduces)
      status = ls_strategy_reduce(s, LS_REDUCE_SUM, made, &sum);
    else
      sum = sum_of_items(made);
  }
  return ls_status_is_ok(status) ? sum : ls_fail(status);
}

static ls_nest map_in_merge(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), map_items, args, user);
}

static void all_have_the_sum_of_squares(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == 4 + 9 + 16);
}

// A computation has no other device than its core: a component of another one
// and a sum over devices are not at hand there.
TEST(items_are_mapped_in_a_computation) {
  LS_SPEC("M146");
  static bool reduces = false, reduced = true;
  tpu_run_all(&(tpu_step){.fn = map_in_merge, .user = &reduces},
              all_have_the_sum_of_squares);
  for (int n = 1; n <= 3; n += 2)
    tpu_run_refused(&(tpu_step){.fn = map_in_merge, .user = &reduced}, n,
                    LS_FAILED_PRECONDITION,
                    "a PerReplica is used as one value outside of replicas");
}

TEST(nothing_is_fetched_in_a_computation) {
  LS_SPEC("M141");
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    for (int way = 0; way < NUM_TPU_WAYS; ++way) {
      LS_OWN(tpu_run, run) = {0};
      expect_status(tpu_run_begin(&run, way, s,
                                  &(tpu_step){.fn = fetch_in_merge,
                                              .user = &run,
                                              .make = make_seven}),
                    LS_UNIMPLEMENTED,
                    "a component of variable 'seven' in a replicated "
                    "computation");
    }
  }
}

static ls_nest fail_inside(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return LS_FAIL(LS_ABORTED, "the innermost's own");
}

static ls_nest fail_merged(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_call_for_each_replica(s, fail_inside, args, user, &made);
  assert_true(ls_in_cross_replica_context());
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest merge_and_fail(ls_nest args, void *user) {
  ls_replica *replica = ls_replica_context();
  const ls_nest made = ls_replica_merge_call(replica, fail_merged, args, user);
  assert_ptr_equal(ls_replica_context(), replica);
  return made;
}

TEST(errors_come_out_as_they_are) {
  LS_SPEC("T193");
  static const ls_callback failing[] = {fail_inside, merge_and_fail};
  for (int n = 1; n <= 3; n += 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
    for (size_t i = 0; i < 2; ++i)
      for (int way = 0; way < NUM_TPU_WAYS; ++way)
        for (int in_scope = 0; in_scope < 2; ++in_scope) {
          ls_scope scope = {0};
          tpu_run run;
          if (in_scope) ls_strategy_scope_begin(&scope, s);
          const ls_status status =
              tpu_run_begin(&run, way, s, &(tpu_step){.fn = failing[i]});
          // Of a traced function it is said, behind it, that it was.
          const char *text = ls_status_message(status);
          static const char own[] = "the innermost's own";
          assert_memory_equal(text, own, sizeof(own) - 1);
          assert_true(way != TPU_GRAPH || strcmp(text, own) == 0);
          expect_status(status, LS_ABORTED, "");
          if (way == TPU_TRACED) {
            assert_int_equal(ls_in_cross_replica_context(), in_scope);
            assert_int_equal(ls_has_strategy(), in_scope);
          }
          tpu_run_end(&run);
          ls_scope_end(&scope);
          assert_false(ls_has_strategy());
        }
    // And one that works behind it.
    LS_OWN(tpu_run, run) = {0};
    expect_ok(
        tpu_run_begin(&run, TPU_TRACED, s, &(tpu_step){.fn = look_at_id}));
  }
}

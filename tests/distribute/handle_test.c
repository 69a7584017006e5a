// SPDX-License-Identifier: Apache-2.0
//
// Handles over variables: caching and packed ones.
#include "lockstep/handles.h"

#include <pthread.h>

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- Caching scopes --------------------------------------------------------
static void expect_counts(uint64_t entered, uint64_t left) {
  const ls_caching_counts counts = ls_caching_counts_here();
  assert_int_equal(counts.entered, entered);
  assert_int_equal(counts.left, left);
  assert_int_equal(ls_in_caching_scope(), entered > left);
}

static ls_status leave_with_an_error(void) {
  {
    LS_CACHING_SCOPE;
    return LS_STATUS(LS_ABORTED, "on purpose");
  }
  return ls_ok();
}

static void *count_elsewhere(void *user) {
  (void)user;
  expect_counts(0, 0);
  {
    LS_CACHING_SCOPE;
    expect_counts(1, 0);
  }
  expect_counts(1, 1);
  return NULL;
}

TEST(scopes_are_counted_by_thread) {
  LS_SPEC("V64");
  expect_counts(0, 0);
  {
    LS_CACHING_SCOPE;
    expect_counts(1, 0);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, count_elsewhere, NULL), 0);
    pthread_join(other, NULL);
    expect_counts(1, 0);
  }
  expect_counts(1, 1);
  expect_status(leave_with_an_error(), LS_ABORTED, "on purpose");
  expect_counts(2, 2);
  for (int i = 0; i < 3; ++i) {
    LS_CACHING_SCOPE;
    if (i == 1) break;
  }
  expect_counts(4, 4);
}

TEST(a_scope_in_a_scope_is_refused) {
  LS_SPEC("V65");
  {
    LS_CACHING_SCOPE;
    const ls_caching_counts before = ls_caching_counts_here();
    {
      LS_CACHING_SCOPE;
      expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                    "cannot be nested");
    }
    expect_ok(ls_scope_status());
    expect_counts(before.entered, before.left);
    assert_true(ls_in_caching_scope());
  }
  assert_false(ls_in_caching_scope());
  {
    LS_CACHING_SCOPE;
    expect_ok(ls_scope_status());
  }
}

static ls_nest note_caching(ls_nest args, void *user) {
  (void)args;
  ((int *)user)[ls_replica_number()] = ls_in_caching_scope();
  return ls_none();
}

TEST(replicas_cache_as_who_started_them) {
  LS_SPEC("V66");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  int seen[2] = {-1, -1};
  {
    LS_CACHING_SCOPE;
    ls_nest_release(run_on(strategy, note_caching, ls_none(), seen));
  }
  assert_true(seen[0] == 1 && seen[1] == 1);
  ls_nest_release(run_on(strategy, note_caching, ls_none(), seen));
  assert_true(seen[0] == 0 && seen[1] == 0);
}

// ---- Caching variables -----------------------------------------------------
static ls_variable *plain_variable(const char *name, double initial) {
  ls_variable *v = NULL;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  ls_array_set_f64(array, 0, initial);
  ls_array_set_f64(array, 1, initial);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = array}, &v));
  return v;
}

static ls_variable *caching_of(ls_variable *v) {
  ls_variable *handle = NULL;
  expect_ok(ls_caching_variable_create(v, &handle));
  return handle;
}

static double first_of(ls_tensor x) {
  LS_OWN(ls_array, array) = tensor_array(x);
  return ls_array_f64(array, 0);
}

static ls_tensor both(double value) {
  return ls_broadcast(scalar_of(value), LS_SHAPE(2));
}

TEST(a_read_is_kept_for_the_scope) {
  LS_SPEC("V67 V68");
  LS_OWN(ls_variable, v) = plain_variable("v", 1);
  LS_OWN(ls_variable, c) = caching_of(v);
  assert_true(first_of(ls_variable_read(c)) == 1);
  ls_variable_assign(c, both(2));
  assert_true(first_of(ls_variable_read(c)) == 2);
  ls_variable_assign(v, both(1));
  {
    LS_CACHING_SCOPE;
    ls_tensor kept = ls_failed_tensor();
    // The first read in a frame that goes.
    expect_ok(ls_frame_begin());
    kept = ls_variable_read(c);
    assert_string_equal(ls_op_device(ls_tensor_op(kept)), "/device:CPU:0");
    assert_true(first_of(kept) == 1);
    expect_ok(ls_frame_end(NULL));
    // Writes go through, and are not seen.
    assert_true(first_of(ls_variable_assign(c, both(5))) == 5);
    assert_true(first_of(ls_variable_read(v)) == 5);
    assert_true(first_of(ls_variable_read(c)) == 1);
    assert_true(first_of(ls_variable_as_tensor(c)) == 1);
    const ls_nest leaf = ls_nest_variable(c);
    ls_tensor used = ls_failed_tensor();
    expect_ok(ls_distributed_as_tensor(leaf, &used));
    assert_true(first_of(used) == 1);
    ls_nest_release(leaf);
    // The same value, while it is there.
    const ls_tensor a = ls_variable_read(c), b = ls_variable_read(c);
    assert_int_equal(a.ref, b.ref);
  }
  assert_true(first_of(ls_variable_read(c)) == 5);
  // Scopes without a read owe nothing: the next one reads once.
  for (int i = 0; i < 3; ++i) {
    LS_CACHING_SCOPE;
  }
  {
    LS_CACHING_SCOPE;
    assert_true(first_of(ls_variable_read(c)) == 5);
    ls_variable_assign(c, both(6));
    assert_true(first_of(ls_variable_read(c)) == 5);
  }
  {
    LS_CACHING_SCOPE;
    assert_true(first_of(ls_variable_read(c)) == 6);
  }
}

TEST(rows_and_scatters_are_not_kept) {
  LS_SPEC("V68");
  LS_OWN(ls_variable, v) = plain_variable("v", 1);
  LS_OWN(ls_variable, c) = caching_of(v);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  {
    LS_CACHING_SCOPE;
    assert_true(first_of(ls_variable_read(c)) == 1);
    ls_variable_scatter(c, LS_SCATTER_ADD, index,
                        ls_reshape(scalar_of(2), LS_SHAPE(1)));
    assert_true(first_of(ls_variable_sparse_read(c, index)) == 3);
    assert_true(first_of(ls_variable_read(c)) == 1);
  }
}

typedef struct cached_reads {
  ls_variable *v, *c;
  double seen[2];
} cached_reads;

static ls_nest read_both(ls_nest args, void *user) {
  cached_reads *r = user;
  (void)args;
  r->seen[ls_replica_number()] = first_of(ls_variable_read(r->c));
  if (ls_replica_number() == 0) ls_variable_assign(r->v, both(9));
  return ls_none();
}

TEST(replicas_share_what_is_kept) {
  LS_SPEC("V67 V66");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  cached_reads r = {.v = plain_variable("v", 1)};
  r.c = caching_of(r.v);
  {
    LS_CACHING_SCOPE;
    ls_nest_release(run_on(strategy, read_both, ls_none(), &r));
  }
  assert_true(r.seen[0] == 1 && r.seen[1] == 1);
  assert_true(first_of(ls_variable_read(r.c)) == 9);
  ls_variable_release(r.c);
  ls_variable_release(r.v);
}

TEST(a_graph_keeps_its_own_read) {
  LS_SPEC("V67");
  LS_OWN(ls_graph, other) = graph_named("h");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_variable, c) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    v = plain_variable("v", 1);
    c = caching_of(v);
    {
      LS_CACHING_SCOPE;
      const ls_tensor a = ls_variable_read(c), b = ls_variable_read(c);
      assert_int_equal(a.ref, b.ref);
      assert_string_equal(ls_op_type_name(ls_tensor_op(a)), "identity");
    }
    const ls_tensor a = ls_variable_read(c), b = ls_variable_read(c);
    assert_int_not_equal(a.ref, b.ref);
  }
}

static ls_nest halve(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 0.5));
}

TEST(a_caching_variable_looks_like_the_one_behind_it) {
  LS_SPEC("V69");
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_variable *v = NULL, *c = NULL;
  LS_OWN(ls_variable, eager) = plain_variable("e", 4);
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_DEVICE_SCOPE("/cpu:1");
      expect_ok(
          ls_variable_create(&(ls_variable_options){.name = "w",
                                                    .dtype = LS_DTYPE_I32,
                                                    .shape = LS_SHAPE(3),
                                                    .trainable = LS_FLAG_OFF,
                                                    .constraint = halve,
                                                    .synchronization = ON_READ,
                                                    .aggregation = SUM},
                             &v));
    }
    c = caching_of(v);
    assert_string_equal(ls_variable_name(c), "w");
    assert_int_equal(ls_variable_dtype(c), LS_DTYPE_I32);
    assert_true(ls_shape_equal(ls_variable_shape(c), LS_SHAPE(3)));
    assert_string_equal(ls_variable_device(c), ls_variable_device(v));
    assert_string_not_equal(ls_variable_device(c), "");
    assert_false(ls_variable_is_trainable(c));
    assert_int_equal(ls_variable_synchronization_of(c), ON_READ);
    assert_int_equal(ls_variable_aggregation_of(c), SUM);
    assert_int_equal(ls_variable_initializer(c).id,
                     ls_variable_initializer(v).id);
    assert_true(ls_variable_has_constraint(c));
    assert_int_equal(ls_variable_id(c), ls_variable_id(v));
    ls_variable_release(c);
    ls_variable_release(v);
  }
  // What is saved and restored is the value behind it.
  c = caching_of(eager);
  ls_array *array = NULL;
  {
    LS_CACHING_SCOPE;
    ls_variable_read(c);
    ls_variable_assign(eager, both(7));
    expect_ok(ls_variable_value(c, &array));
    assert_true(ls_array_f64(array, 0) == 7);
    ls_array_set_f64(array, 0, 8);
    expect_ok(ls_variable_set_value(c, array));
    ls_array_release(array);
    assert_true(first_of(ls_variable_read(eager)) == 8);
  }
  ls_variable *none = NULL;
  expect_status(ls_caching_variable_create(c, &none), LS_INVALID_ARGUMENT,
                "plain");
  ls_variable_release(c);
}

// ---- Packed variables ------------------------------------------------------
static ls_variable *on_device(const char *device, const char *name,
                              double initial) {
  {
    LS_DEVICE_SCOPE(device);
    return plain_variable(name, initial);
  }
  return NULL;
}

TEST(what_cannot_be_packed_is_refused) {
  LS_SPEC("V135");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *a = on_device("/cpu:0", "a", 1), *packed = NULL;
  LS_OWN(ls_variable, whole) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_nest leaves[2] = {ls_nest_variable(a), ls_nest_f64(3)};
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_packed_variable_create(NULL, leaves, 1, &packed),
                  LS_FAILED_PRECONDITION, "eager");
  }
  expect_status(ls_packed_variable_create(NULL, leaves, 0, &packed),
                LS_INVALID_ARGUMENT, "no variables");
  expect_status(ls_packed_variable_create(NULL, leaves, 2, &packed),
                LS_INVALID_ARGUMENT, "element 1 is 3.0");
  leaves[1] = ls_nest_variable(whole);
  expect_status(ls_packed_variable_create(NULL, leaves, 2, &packed),
                LS_INVALID_ARGUMENT, "element 1 is MirroredVariable");
  ls_nest_release(leaves[1]);
  ls_variable *other = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){
          .name = "b", .dtype = LS_DTYPE_I64, .shape = LS_SHAPE(2)},
      &other));
  leaves[1] = ls_nest_variable(other);
  expect_status(ls_packed_variable_create(NULL, leaves, 2, &packed),
                LS_INVALID_ARGUMENT, "'b' (number 1) is i64[2]");
  ls_variable_release(other);
  assert_null(packed);
  ls_nest_release(leaves[0]);
  ls_nest_release(leaves[1]);
  ls_variable_release(a);
}

static ls_variable *packed_of(ls_variable *a, ls_variable *b) {
  const ls_nest leaves[2] = {ls_nest_variable(a), ls_nest_variable(b)};
  ls_variable *packed = NULL;
  expect_ok(ls_packed_variable_create("v/packed/", leaves, 2, &packed));
  ls_nest_release(leaves[0]);
  ls_nest_release(leaves[1]);
  return packed;
}

TEST(a_packed_variable_is_as_its_first) {
  LS_SPEC("V135");
  LS_OWN(ls_variable, a) = NULL;
  LS_OWN(ls_variable, b) = on_device("/cpu:1", "b", 2);
  {
    LS_DEVICE_SCOPE("/cpu:0");
    expect_ok(
        ls_variable_create(&(ls_variable_options){.name = "a",
                                                  .dtype = LS_DTYPE_F32,
                                                  .shape = LS_SHAPE(2),
                                                  .trainable = LS_FLAG_OFF,
                                                  .constraint = halve,
                                                  .synchronization = ON_READ,
                                                  .aggregation = MEAN},
                           &a));
  }
  LS_OWN(ls_variable, packed) = packed_of(a, b);
  assert_string_equal(ls_variable_name(packed), "v/packed/");
  assert_false(ls_variable_is_trainable(packed));
  assert_true(ls_shape_equal(ls_variable_shape(packed), LS_SHAPE(2)));
  assert_int_equal(ls_variable_dtype(packed), LS_DTYPE_F32);
  assert_int_equal(ls_variable_synchronization_of(packed), ON_READ);
  assert_int_equal(ls_variable_aggregation_of(packed), MEAN);
  assert_true(ls_variable_has_constraint(packed));
}

TEST(parts_are_found_by_device) {
  LS_SPEC("V136");
  LS_OWN(ls_variable, a) = on_device("/gpu:0", "a", 1);
  LS_OWN(ls_variable, b) = on_device("/cpu:1", "b", 2);
  LS_OWN(ls_variable, packed) = packed_of(a, b);
  ls_variable *found = NULL;
  expect_ok(ls_packed_variable_on(packed, "/gpu:0", &found));
  assert_ptr_equal(found, a);
  expect_ok(ls_packed_variable_on(
      packed, "/job:localhost/replica:0/task:0/device:CPU:1", &found));
  assert_ptr_equal(found, b);
  // The CPU of its host.
  expect_ok(ls_packed_variable_on(packed, "/cpu:0", &found));
  assert_ptr_equal(found, a);
  expect_status(ls_packed_variable_on(packed, "/gpu:3", &found),
                LS_INVALID_ARGUMENT, "GPU:3");
  assert_null(found);
}

static ls_nest read_on_two(ls_nest args, void *user) {
  (void)args;
  ls_tensor read[2] = {{0}};
  for (int i = 0; i < 2; ++i) {
    LS_DEVICE_SCOPE(i == 0 ? "/cpu:0" : "/cpu:1");
    ls_variable_assign_add(user, ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1));
    read[i] = ls_variable_read(user);
  }
  return LS_TUPLE(ls_leaf(read[0]), ls_leaf(read[1]));
}

TEST(the_current_device_says_which_part_is_meant) {
  LS_SPEC("V137");
  LS_OWN(ls_variable, a) = on_device("/cpu:0", "a", 1);
  LS_OWN(ls_variable, b) = on_device("/cpu:1", "b", 2);
  LS_OWN(ls_variable, packed) = packed_of(a, b);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  assert_true(first_of(ls_variable_read(packed)) == 1);
  {
    LS_DEVICE_SCOPE("/cpu:1");
    assert_true(first_of(ls_variable_read(packed)) == 2);
    assert_true(first_of(ls_variable_assign(packed, both(5))) == 5);
    ls_variable_scatter(packed, LS_SCATTER_ADD, index,
                        ls_reshape(scalar_of(2), LS_SHAPE(1)));
    assert_string_equal(ls_variable_device(packed), ls_variable_device(b));
  }
  assert_true(first_of(ls_variable_read(a)) == 1);
  assert_true(first_of(ls_variable_read(b)) == 7);
  {
    LS_DEVICE_SCOPE("/gpu:2");
    expect_status(ls_tensor_status(ls_variable_read(packed)),
                  LS_INVALID_ARGUMENT, "GPU:2");
    expect_status(ls_tensor_status(ls_variable_assign(packed, both(0))),
                  LS_INVALID_ARGUMENT, "GPU:2");
  }
  // In a function the device scope selects.
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(read_on_two, packed);
  for (int i = 1; i <= 2; ++i) {
    expect_ok(ls_function_call(function, ls_none(), &results));
    ls_array *const first = ls_nest_as_array(ls_nest_item(results, 0));
    ls_array *const second = ls_nest_as_array(ls_nest_item(results, 1));
    assert_true(ls_array_f64(first, 0) == 1 + i);
    assert_true(ls_array_f64(second, 0) == 7 + i);
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// Replicated variables: one on each logical core of a replica.
#include "graph/own.h"
#include "lockstep/export.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/variable_parts.h"
#include "lockstep/variable_recipe.h"
#include "support/computation.h"
#include "support/fault.h"
#include "support/logical_strategies.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/spec.h"

// ---- Of variables that there are -------------------------------------------
static ls_variable *core_variable(int core, double value) {
  static const char *const names[] = {"a", "b", "c"};
  ls_variable *v = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = names[core],
                             .initial_value =
                                 ls_broadcast(f32_of(value), LS_SHAPE(2)),
                             .synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM},
      &v));
  return v;
}

static ls_tensor both(double value) {
  return ls_broadcast(f32_of(value), LS_SHAPE(2));
}

// Three variables with 1, 2 and 3, and what is over them.
typedef struct cores {
  ls_variable *at[3], *all;
  computation *c;  // NULL: in eager.
} cores;

static void cores_open(cores *self, computation *c) {
  *self = (cores){.c = c};
  ls_nest leaves[3];
  if (c != NULL)
    computation_open(c);
  else
    expect_ok(ls_frame_begin());
  for (int i = 0; i < 3; ++i) {
    self->at[i] = core_variable(i, i + 1);
    leaves[i] = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = self->at[i]};
  }
  expect_ok(ls_replicated_variable_create("w/r:0", leaves, 3, &self->all));
  // Its initializer is that of all.
  if (c != NULL) computation_initialize(c, self->all);
}

static void cores_close(cores *self) {
  ls_variable_release(self->all);
  for (int i = 0; i < 3; ++i)
    ls_variable_release(self->at[i]);
  if (self->c != NULL)
    computation_close(self->c);
  else
    expect_ok(ls_frame_end(NULL));
}
LS_OWNED_STRUCT(cores, cores_close)

static double largest_of(const cores *self, ls_tensor x) {
  const ls_tensor scalar = ls_reduce_max(x, LS_ALL_AXES);
  return self->c != NULL ? computation_fetch(self->c, scalar) : item_of(scalar);
}

static void expect_cores(const cores *self, double a, double b, double c) {
  const double wanted[] = {a, b, c};
  assert_true(largest_of(self, ls_variable_read(self->all)) == a);
  assert_true(largest_of(self, ls_variable_as_tensor(self->all)) == a);
  for (int i = 0; i < 3; ++i)
    assert_true(largest_of(self, ls_variable_read(self->at[i])) == wanted[i]);
}

TEST(reads_use_core_0_and_writes_reach_all) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    computation graph;
    LS_OWN_BEGUN(cores, w, cores_open, in_graph ? &graph : NULL);
    assert_string_equal(ls_variable_name(w.all), "w/r:0");
    assert_string_equal(ls_variable_class_name(w.all), "TPUReplicatedVariable");
    assert_int_equal(ls_replicated_variable_num_cores(w.all), 3);
    assert_int_equal(ls_replicated_variable_num_cores(w.at[0]), 0);
    for (size_t i = 0; i < 3; ++i)
      assert_ptr_equal(ls_replicated_variable_on_core(w.all, i), w.at[i]);
    assert_null(ls_replicated_variable_on_core(w.all, 3));
    assert_int_equal(ls_variable_synchronization_of(w.all),
                     LS_SYNCHRONIZATION_NONE);
    assert_int_equal(ls_variable_aggregation_of(w.all), LS_AGGREGATION_NONE);
    expect_cores(&w, 1, 2, 3);
    assert_true(largest_of(&w, ls_variable_assign_add(w.all, both(4))) == 5);
    expect_cores(&w, 5, 6, 7);
    assert_true(largest_of(&w, ls_variable_assign_sub(w.all, both(1))) == 4);
    expect_cores(&w, 4, 5, 6);
    const ls_tensor at =
        ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
    const ls_tensor row = ls_reshape(f32_of(9), LS_SHAPE(1));
    assert_true(largest_of(&w, ls_variable_scatter_add(w.all, at, row)) == 13);
    expect_cores(&w, 13, 14, 15);
    // What is written to another core alone is not seen.
    largest_of(&w, ls_variable_assign(w.at[1], both(20)));
    expect_cores(&w, 13, 20, 15);
    assert_true(largest_of(&w, ls_variable_assign(w.all, both(7))) == 7);
    expect_cores(&w, 7, 7, 7);
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_variable_write(w.all, LS_WRITE_ASSIGN, ls_nest_f64(8),
                                &(ls_write_options){.name = "set"}, &made));
    assert_true(largest_of(&w, made.as.tensor) == 8);
    if (in_graph)
      assert_string_equal(ls_op_name(ls_tensor_op(made.as.tensor)), "set");
    expect_cores(&w, 8, 8, 8);
  }
}

static ls_nest add_and_read(ls_nest args, void *user) {
  const cores *w = user;
  (void)args;
  ls_variable_assign_add(w->all, both(1));
  return ls_leaf(ls_reduce_sum(ls_variable_read(w->all), LS_ALL_AXES));
}

TEST(a_function_writes_all_too) {
  LS_SPEC("V146");
  LS_OWN_BEGUN(cores, w, cores_open, NULL);
  LS_OWN(ls_nest, made) = call_on(1, add_and_read, &w, ls_none(), 2);
  assert_true(ls_nest_number(made) == 6);
  expect_cores(&w, 3, 4, 5);
}

TEST(saving_uses_core_0_and_restoring_reaches_all) {
  LS_SPEC("V146");
  LS_OWN_BEGUN(cores, w, cores_open, NULL);
  save(w.all);
  expect_ok(ls_tensor_status(ls_variable_assign(w.all, both(30))));
  restore(w.all);
  expect_cores(&w, 1, 1, 1);
  set_variable(w.all, (double[]){6, 6});
  expect_cores(&w, 6, 6, 6);
}

// ---- What is refused -------------------------------------------------------
static void expect_no_such(const ls_nest *leaves, size_t count,
                           const char *says) {
  ls_variable *made = NULL;
  expect_status(ls_replicated_variable_create("w", leaves, count, &made),
                LS_INVALID_ARGUMENT, says);
  assert_null(made);
}

TEST(variables_of_one_type_are_needed) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    computation graph;
    LS_OWN_BEGUN(cores, w, cores_open, in_graph ? &graph : NULL);
    LS_OWN(ls_variable, scalar) = NULL;
    LS_OWN(ls_variable, whole) = NULL;
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "s", .dtype = LS_DTYPE_F32}, &scalar));
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "i",
                                                        .dtype = LS_DTYPE_I32,
                                                        .shape = LS_SHAPE(2)},
                                 &whole));
    ls_nest leaves[2] = {{.kind = LS_KIND_VARIABLE, .as.ref = w.at[0]}};
    expect_no_such(leaves, 0, "no variables");
    leaves[1] = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = scalar};
    expect_no_such(leaves, 2, "'s' (number 1) is f32[]");
    leaves[1] = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = whole};
    expect_no_such(leaves, 2, "'i' (number 1) is i32[2]");
    leaves[1] = ls_nest_f64(3);
    expect_no_such(leaves, 2, "element 1 is");
    leaves[1] = (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = w.all};
    expect_no_such(leaves, 2, "element 1 is");
  }
}

static ls_nest ask_for_handle(ls_nest args, void *user) {
  const cores *w = user;
  (void)args;
  expect_handle(w->all, w->at[0]);
  return ls_leaf(f32_of(1));
}

static ls_nest miss_handle(ls_nest args, void *user) {
  const cores *w = user;
  (void)args;
  expect_handle(w->all, NULL);
  return ls_leaf(f32_of(1));
}

TEST(a_handle_is_there_in_computations_and_exports) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    computation graph;
    LS_OWN_BEGUN(cores, w, cores_open, in_graph ? &graph : NULL);
    expect_handle(w.all, NULL);
    for (int policy = 0; policy < 3; ++policy) {
      LS_EXPORT_SCOPE((ls_export_policy)policy);
      expect_handle(w.all, w.at[0]);
    }
    if (in_graph)
      computation_replicate(w.c, 2, ask_for_handle, &w);
    else
      ls_nest_release(call_on(1, miss_handle, &w, ls_none(), 1));
  }
}

// ---- Memory ----------------------------------------------------------------
typedef struct job {
  ls_strategy *s;
  ls_variable *v, *a, *b, *all;
} job;

static ls_status begin(void *self) {
  ((job *)self)->s = logical_strategy(FLAVOUR_CURRENT, 2, 2, LS_FLAG_ON);
  return ls_ok();
}

static ls_status make_plain(ls_variable **v) {
  return *v != NULL ? ls_ok()
                    : ls_variable_create(
                          &(ls_variable_options){.dtype = LS_DTYPE_F32}, v);
}

static ls_status make_and_write(job *j) {
  if (j->v == NULL) {
    LS_STRATEGY_SCOPE(j->s);
    LS_RETURN_IF_ERROR(make_plain(&j->v));
  }
  LS_RETURN_IF_ERROR(make_plain(&j->a));
  LS_RETURN_IF_ERROR(make_plain(&j->b));
  const ls_nest leaves[] = {{.kind = LS_KIND_VARIABLE, .as.ref = j->a},
                            {.kind = LS_KIND_VARIABLE, .as.ref = j->b}};
  if (j->all == NULL)
    LS_RETURN_IF_ERROR(
        ls_replicated_variable_create("all", leaves, 2, &j->all));
  LS_OWN(ls_nest, value) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_variable_write(j->all, LS_WRITE_ASSIGN, ls_nest_f64(3), NULL, &value));
  return ls_ok();
}

static ls_status act(void *self) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = make_and_write(self);
  expect_ok(ls_frame_end(NULL));
  return status;
}

static double outcome(void *self) {
  const job *j = self;
  double value = -1;
  read_variable(j->b, &value, 1);
  assert_int_equal(
      ls_replicated_variable_num_cores(ls_variable_component(j->v, 1)), 2);
  return value;
}

static void end(void *self) {
  job *j = self;
  ls_variable_release(j->all);
  ls_variable_release(j->a);
  ls_variable_release(j->b);
  ls_variable_release(j->v);
  ls_strategy_release(j->s);
  *j = (job){0};
}

TEST(they_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "replicated variables",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = end});
}

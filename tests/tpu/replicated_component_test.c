// SPDX-License-Identifier: Apache-2.0
//
// Components of variables of TPU strategies whose replicas have several cores
// that are one: each is a replicated variable.
#include <stdio.h>

#include "lockstep/export.h"
#include "lockstep/gradients.h"
#include "lockstep/logical_device.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/spec.h"

typedef struct made {
  ls_strategy *s;
  ls_variable *v;
  computation c;
  bool in_graph;
} made;

static void made_open(made *self, bool in_graph, int replicas, int num_cores,
                      ls_flag spmd) {
  *self = (made){.in_graph = in_graph};
  self->s = logical_strategy(FLAVOUR_CURRENT, replicas, num_cores, spmd);
  if (in_graph)
    computation_open(&self->c);
  else
    expect_ok(ls_frame_begin());
  self->v =
      variable_in(self->s, (variable_kind){.initial = 5,
                                           .aggregation = LS_AGGREGATION_MEAN});
  if (in_graph) computation_initialize(&self->c, self->v);
}

static void made_close(made *self) {
  ls_variable_release(self->v);
  if (self->in_graph)
    computation_close(&self->c);
  else
    expect_ok(ls_frame_end(NULL));
  ls_strategy_release(self->s);
}
LS_OWNED_STRUCT(made, made_close)

static double value_in(made *self, ls_tensor x) {
  return self->in_graph ? computation_fetch(&self->c, x) : item_of(x);
}

static void expect_everywhere(made *self, double value) {
  for (size_t r = 0; r < ls_variable_num_components(self->v); ++r) {
    ls_variable *part = ls_variable_component(self->v, r);
    assert_true(value_in(self, ls_variable_read(part)) == value);
    for (size_t k = 0; k < ls_replicated_variable_num_cores(part); ++k)
      assert_true(
          value_in(self, ls_variable_read(ls_replicated_variable_on_core(
                             part, k))) == value);
  }
}

static ls_nest miss_own_handle(ls_nest args, void *user) {
  (void)args;
  expect_handle(user, NULL);
  return ls_none();
}

// That of a whole is that of the component at hand.
static void expect_no_handle_of_a_whole(made *self) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_STRATEGY_SCOPE(self->s);
  if (!self->in_graph)
    expect_ok(ls_strategy_update(self->s, self->v, miss_own_handle, ls_none(),
                                 self->v, false, &results));
}

TEST(components_are_such_with_cores_as_one) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      LS_OWN_BEGUN(made, w, made_open, in_graph, replicas, 2, LS_FLAG_ON);
      assert_string_equal(ls_variable_name(w.v), "v");
      assert_int_equal(ls_variable_num_components(w.v), replicas);
      for (int32_t r = 0; r < replicas; ++r) {
        char name[32];
        ls_variable *part = ls_variable_component(w.v, (size_t)r);
        snprintf(name, sizeof(name), "v/r:%d", (int)r);
        assert_string_equal(ls_variable_name(part), name);
        assert_int_equal(ls_replicated_variable_num_cores(part), 2);
        assert_int_equal(ls_variable_synchronization_of(part),
                         LS_SYNCHRONIZATION_NONE);
        assert_int_equal(ls_variable_aggregation_of(part), LS_AGGREGATION_NONE);
        expect_handle(part, NULL);
        {
          LS_EXPORT_SCOPE(LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES);
          expect_handle(part, ls_replicated_variable_on_core(part, 0));
        }
        for (int32_t k = 0; k < 2; ++k) {
          ls_device_name device;
          expect_ok(ls_tpu_strategy_device(w.s, r, k, &device));
          assert_string_equal(ls_variable_device(ls_replicated_variable_on_core(
                                  part, (size_t)k)),
                              device.text);
        }
      }
      expect_no_handle_of_a_whole(&w);
      // The whole keeps its own.
      assert_int_equal(ls_variable_aggregation_of(w.v), LS_AGGREGATION_MEAN);
      expect_everywhere(&w, 5);
      for (int r = 0; r < replicas; ++r) {
        ls_variable *part = ls_variable_component(w.v, (size_t)r);
        assert_true(value_in(&w, ls_variable_assign_add(part, f32_of(2))) == 7);
      }
      expect_everywhere(&w, 7);
    }
}

TEST(others_are_plain) {
  static const struct {
    int cores;
    ls_flag spmd;
  } rows[] = {{1, LS_FLAG_ON}, {2, LS_FLAG_DEFAULT}, {2, LS_FLAG_OFF}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN_BEGUN(made, w, made_open, i % 2 != 0, 2, rows[i].cores,
                 rows[i].spmd);
    ls_variable *part = ls_variable_component(w.v, 1);
    assert_int_equal(ls_replicated_variable_num_cores(part), 0);
    assert_string_equal(ls_variable_name(part), "v/replica_1");
  }
}

static ls_nest add_replica(ls_nest args, void *user) {
  ls_variable *v = user;
  (void)args;
  ls_variable_assign_add(v, f32_of(2));
  return ls_leaf(ls_variable_read(v));
}

static ls_nest set_in_update(ls_nest args, void *user) {
  ls_variable *part = ls_nest_as_variable(ls_nest_item(args, 0));
  (void)user;
  assert_int_equal(ls_replicated_variable_num_cores(part), 2);
  return ls_leaf(ls_variable_assign(part, f32_of(11)));
}

TEST(a_step_and_an_update_write_all) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(made, w, made_open, in_graph, 2, 2, LS_FLAG_ON);
    ls_nest results = ls_none();
    if (in_graph) {
      expect_ok(ls_strategy_run(w.s, ls_plain(add_replica, w.v), ls_none(),
                                &w.c.outputs));
      assert_true(
          computation_fetch(
              &w.c, ls_distributed_component(w.c.outputs, 1).as.tensor) == 7);
    } else {
      LS_OWN(ls_function, f) = function_of(add_replica, w.v);
      expect_ok(ls_strategy_run(w.s, ls_traced(f), ls_none(), &results));
      assert_true(ls_nest_number(ls_distributed_component(results, 1)) == 7);
      ls_nest_release(results);
      results = ls_none();
    }
    expect_everywhere(&w, 7);
    {
      LS_STRATEGY_SCOPE(w.s);
      expect_ok(ls_strategy_update(w.s, w.v, set_in_update, ls_none(), NULL,
                                   true, &results));
    }
    if (in_graph) expect_ok(computation_run(&w.c, results));
    ls_nest_release(results);
    expect_everywhere(&w, 11);
  }
}

TEST(on_another_column_they_are_used_the_same) {
  LS_SPEC("V146");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(made, w, made_open, in_graph, 2, 2, LS_FLAG_ON);
    ls_variable *v = NULL;
    {
      LS_LOGICAL_DEVICE_SCOPE(w.s, 1);
      v = variable_in(w.s, (variable_kind){.name = "u", .initial = 5});
    }
    if (in_graph)
      expect_ok(computation_run(&w.c, ls_nest_op(ls_variable_initializer(v))));
    ls_variable_release(w.v);
    w.v = v;
    for (int32_t r = 0; r < 2; ++r)
      for (int32_t k = 0; k < 2; ++k) {
        ls_device_name device;
        ls_variable *part = ls_variable_component(v, (size_t)r);
        expect_ok(ls_tpu_strategy_device(w.s, r, k, &device));
        assert_string_equal(
            ls_variable_device(ls_replicated_variable_on_core(part, (size_t)k)),
            device.text);
      }
    expect_everywhere(&w, 5);
    for (size_t r = 0; r < 2; ++r)
      assert_true(
          value_in(&w, ls_variable_assign_add(ls_variable_component(v, r),
                                              f32_of(2))) == 7);
    expect_everywhere(&w, 7);
  }
}

TEST(reads_of_them_have_gradients) {
  LS_OWN_BEGUN(made, w, made_open, true, 2, 2, LS_FLAG_ON);
  ls_nest dx = ls_none(), x = ls_nest_variable(ls_variable_component(w.v, 1));
  const ls_nest y = ls_leaf(ls_square(ls_variable_read(x.as.ref)));
  expect_ok(ls_gradients(&y, 1, &x, 1, NULL, &dx));
  assert_true(computation_fetch(&w.c, ls_nest_tensor(dx, 0)) == 10);
  ls_nest_release(dx);
  ls_nest_release(x);
  made_close(&w);
  // On a tape.
  LS_OWN(ls_tape, tape) = NULL;
  ls_variable *found[4] = {0};
  made_open(&w, false, 2, 2, LS_FLAG_ON);
  expect_ok(ls_tape_begin(&tape));
  const ls_tensor z =
      ls_square(ls_variable_read(ls_variable_component(w.v, 1)));
  assert_int_equal(ls_tape_variables(tape, found, 4), 2);
  for (size_t r = 0; r < 2; ++r)
    assert_ptr_equal(found[r], ls_variable_component(w.v, r));
  x = ls_nest_variable(found[1]);
  expect_ok(ls_tape_gradients(tape, ls_leaf(z), &x, 1, &dx));
  assert_true(item_of(ls_nest_tensor(dx, 0)) == 10);
  ls_nest_release(dx);
  ls_nest_release(x);
}

TEST(a_whole_is_saved_as_core_0_of_replica_0) {
  LS_SPEC("V146");
  LS_OWN_BEGUN(made, w, made_open, false, 2, 2, LS_FLAG_ON);
  save(w.v);
  expect_entry("v", 5);
  ls_variable_assign(ls_variable_component(w.v, 0), f32_of(6));
  ls_variable_assign(ls_variable_component(w.v, 1), f32_of(9));
  save(w.v);
  expect_entry("v", 6);
  restore(w.v);
  expect_everywhere(&w, 6);
  // One that is held outlives the whole.
  LS_OWN(ls_variable, part) = ls_variable_retain(ls_variable_component(w.v, 1));
  ls_variable_release(w.v);
  w.v = NULL;
  assert_true(item_of(ls_variable_read(part)) == 6);
}

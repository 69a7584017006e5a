// SPDX-License-Identifier: Apache-2.0
//
// Where reduced and broadcast values go.
#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "support/placed.h"
#include "support/replicas.h"
#include "support/values.h"

static const ls_destinations at_value;  // None given.

TEST(destinations_are_names_and_values) {
  LS_SPEC("M69 M74");
  LS_OWN(ls_cross_device, ops) = to_one();
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_variable, plain) = NULL;
  ls_tensor there = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE("/cpu:3");
    there = scalar_of(0);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "p", .dtype = LS_DTYPE_F32}, &plain));
  }
  LS_OWN(ls_nest, value) =
      placed_values("CPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
  LS_OWN(ls_nest, container) = ls_nest_variable(v);
  LS_OWN(ls_nest, one) = ls_nest_variable(plain);
  const struct {
    ls_destinations where;
    const char *devices[2];
  } cases[] = {
      {{.value = value}, {"CPU:0", "CPU:1"}},
      {{.value = container}, {"CPU:0", "CPU:1"}},
      {{.value = ls_leaf(there)}, {"CPU:3"}},
      {{.value = one}, {"CPU:3"}},
      {{.device = "/gpu:1"}, {"GPU:1"}},
      {{.devices = (const char *[]){"/cpu:5", "CPU:2"}, .num_devices = 2},
       {"CPU:5", "CPU:2"}},
      {{.device = NULL}, {"CPU:0", "CPU:1"}},  // Those of the value.
      {{.devices = (const char *[]){NULL}}, {"CPU:0", "CPU:1"}},  // No name.
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, cases[c].where,
                                     &made));
    const size_t count = cases[c].devices[1] == NULL ? 1 : 2;
    assert_true(ls_is_mirrored(made));
    expect_numbers(made, (double[]){3, 3}, count);
    for (size_t i = 0; i < count; ++i) {
      assert_string_equal(component_on(made, i), cases[c].devices[i]);
      expect_contains(ls_distributed_device(made, i), cases[c].devices[i]);
    }
  }
  const struct {
    ls_destinations where;
    const char *says;
  } wrong[] = {
      {{.device = ""}, "destinations can not be empty"},
      {{.value = ls_leaf(scalar_of(1))}, "destinations can not be empty"},
      {{.devices = (const char *[]){"/cpu:0", ""}, .num_devices = 2},
       "destinations can not be empty"},
      {{.value = ls_nest_i64(3)}, "destinations can not be 3"},
      {{.device = "/foo:1"}, "foo"},
  };
  for (size_t c = 0; c < sizeof(wrong) / sizeof(*wrong); ++c) {
    ls_nest made = ls_none();
    expect_status(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value,
                                         wrong[c].where, &made),
                  LS_INVALID_ARGUMENT, wrong[c].says);
    expect_status(
        ls_cross_device_broadcast(ops, ls_leaf(there), wrong[c].where, &made),
        LS_INVALID_ARGUMENT, wrong[c].says);
  }
  ls_nest made = ls_none();  // A broadcast goes somewhere.
  expect_status(ls_cross_device_broadcast(ops, ls_leaf(there), at_value, &made),
                LS_INVALID_ARGUMENT, "destinations");
}

TEST(names_are_resolved_where_the_thread_is) {
  LS_SPEC("M70");
  LS_OWN(ls_cross_device, ops) = to_one();
  const ls_nest x = ls_leaf(scalar_of(2));
  LS_OWN(ls_nest, made) = ls_none();
  {
    LS_DEVICE_SCOPE("/job:worker/task:2");
    expect_ok(ls_cross_device_reduce(
        ops, LS_REDUCE_SUM, x, (ls_destinations){.device = "/cpu:1"}, &made));
  }
  assert_string_equal(ls_distributed_device(made, 0),
                      "/job:worker/replica:0/task:2/device:CPU:1");
}

TEST(components_are_joined_in_the_order_of_their_replicas) {
  LS_OWN(ls_cross_device, ops) = to_one();
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  static const char *const orders[][3] = {{"/cpu:0", "/cpu:1", "/cpu:2"},
                                          {"/cpu:2", "/cpu:1", "/cpu:0"},
                                          {"/cpu:1", "/cpu:2", "/cpu:0"},
                                          {"/cpu:2", "/cpu:0", "/cpu:1"}};
  for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); ++i) {
    ls_tensor items[3];
    for (size_t k = 0; k < 3; ++k) {
      LS_DEVICE_SCOPE(orders[i][k]);
      items[k] = ls_fill(LS_DTYPE_F32, LS_SHAPE(1), orders[i][k][5] - '0');
    }
    LS_OWN(ls_nest, value) = placed_on(orders[i], items, 3);
    LS_OWN(ls_nest, made) = ls_none();
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_cross_device_gather(
          ops, value, 0, (ls_destinations){.device = "/cpu:0"}, &made));
    }
    LS_OWN(ls_array, joined) =
        tensor_array(ls_nest_tensor(ls_distributed_component(made, 0), 0));
    for (int r = 0; r < 3; ++r)
      assert_true(ls_array_f64(joined, r) == r);
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// Tables in the scope of a TPU strategy: one on each host.
#include "lockstep/table.h"

#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/object.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

#define HOST(task) "/job:localhost/replica:0/task:" #task "/device:CPU:0"

static ls_table *numbers(void) {
  LS_OWN(ls_array, keys) =
      array_of(LS_DTYPE_I32, LS_SHAPE(2), (const double[]){5, 7});
  LS_OWN(ls_array, values) =
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (const double[]){0.5, 0.75});
  ls_table *table = NULL;
  expect_ok(ls_table_create(
      &(ls_table_options){.name = "numbers", .keys = keys, .values = values},
      &table));
  return table;
}

static bool is_distributed(ls_table *table) {
  LS_OWN(ls_nest, leaf) =
      ls_nest_object(LS_KIND_OBJECT, (ls_object *)ls_table_retain(table));
  return ls_is_distributed_table(leaf);
}

TEST(a_table_made_in_the_scope_is_one_on_each_host) {
  LS_SPEC("T132 T134 V149");
  LS_OWN(ls_strategy, s) = tpu_strategy_on(2, 2);
  LS_OWN(ls_table, before) = numbers();
  LS_OWN(ls_table, inside) = NULL;
  {
    LS_STRATEGY_SCOPE(s);
    inside = numbers();
  }
  LS_OWN(ls_table, after) = numbers();
  assert_int_equal(ls_table_num_hosts(inside), 2);
  assert_string_equal(ls_table_host(inside, 0), HOST(0));
  assert_string_equal(ls_table_host(inside, 1), HOST(1));
  assert_ptr_not_equal(ls_table_on_host(inside, 0),
                       ls_table_on_host(inside, 1));
  assert_true(is_distributed(inside));
  assert_int_equal(ls_table_num_hosts(before), 0);
  assert_int_equal(ls_table_num_hosts(after), 0);
  assert_false(is_distributed(before) || is_distributed(after));
}

TEST(the_table_of_the_current_devices_host_is_used) {
  LS_SPEC("T133 V150");
  LS_OWN(ls_strategy, s) = tpu_strategy_on(2, 1);
  LS_OWN(ls_table, table) = NULL;
  {
    LS_STRATEGY_SCOPE(s);
    table = numbers();
  }
  const struct {
    const char *device;
    size_t host;
  } cases[] = {{"/task:0/device:TPU:0", 0},
               {"/task:1/device:TPU:0", 1},
               {"/task:1/device:CPU:0", 1},
               {"/task:5/device:CPU:0", 0},
               {NULL, 0}};
  LS_OWN_BEGUN(computation, c, computation_open);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    LS_DEVICE_SCOPE(cases[i].device);
    assert_ptr_equal(ls_table_here(table),
                     ls_table_on_host(table, cases[i].host));
    const ls_tensor found =
        ls_table_lookup(table, ls_scalar_i64(LS_DTYPE_I32, 7));
    const ls_attr *state_of = NULL;
    expect_ok(ls_op_attr(ls_tensor_op(found), "state", &state_of));
    assert_ptr_equal(state_of->as.object,
                     ls_table_on_host(table, cases[i].host));
    assert_true(computation_fetch(&c, found) == 0.75);
    assert_true(computation_fetch(&c, ls_table_size(table)) == 2);
  }
}

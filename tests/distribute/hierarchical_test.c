// SPDX-License-Identifier: Apache-2.0
//
// Hierarchical copy: who adds, and who copies from whom.
#include <stdio.h>

#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "support/function.h"
#include "support/placed.h"

static ls_cross_device *hierarchical(long long num_packs) {
  ls_cross_device *ops = NULL;
  expect_ok(ls_hierarchical_copy_create(LS_SOME(num_packs), &ops));
  return ops;
}

TEST(main_devices_take_turns) {
  LS_SPEC("M90");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_cross_device, ops) = hierarchical(0);
  {
    LS_GRAPH_SCOPE(graph);
    ls_nest values[6], made = ls_none();
    const ls_destinations where[6] = {{.device = NULL}};
    for (size_t i = 0; i < 6; ++i)
      values[i] = placed_values("GPU", LS_DTYPE_F32, 4, 0,
                                (double[]){1, 2, 3, (double)i});
    expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where, 6,
                                           &made));
    for (size_t i = 0; i < 6; ++i) {
      const size_t mains[] = {i % 4, (i % 4 + 2) % 4};
      for (size_t d = 0; d < 4; ++d) {
        // Each device copies from the main one of its half, which copied the
        // total from the first.
        const ls_op copy = ls_tensor_op(ls_nest_tensor(
            ls_distributed_component(ls_nest_item(made, i), d), 0));
        const ls_op from = ls_tensor_op(ls_op_input(copy, 0));
        const ls_op total = ls_tensor_op(ls_op_input(from, 0));
        const size_t of_half = (mains[0] < 2) == (d < 2) ? mains[0] : mains[1];
        char name[80];
        snprintf(name, sizeof(name), LOCAL_DEVICE "GPU:%zu", of_half);
        assert_string_equal(ls_op_device(from), name);
        assert_string_equal(ls_op_type_name(from), "identity");
        snprintf(name, sizeof(name), LOCAL_DEVICE "GPU:%zu", mains[0]);
        assert_string_equal(ls_op_device(total), name);
        assert_string_equal(ls_op_type_name(total), "add_n");
        expect_fetched(ls_nest_item(made, i), d, (double[]){6 + (double)i}, 1);
      }
      ls_nest_release(values[i]);
    }
    assert_int_equal(count_ops(graph, "add_n", NULL), 6);
    ls_nest_release(made);
  }
}

TEST(any_number_of_devices_is_added_up) {
  LS_SPEC("M91");
  for (size_t n = 1; n <= 9; ++n) {
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_OWN(ls_cross_device, ops) = hierarchical(2);
    {
      LS_GRAPH_SCOPE(graph);
      double numbers[9];
      for (size_t d = 0; d < n; ++d)
        numbers[d] = (double)(1 << d);
      ls_nest values[3], made = ls_none();
      const ls_destinations where[3] = {{.device = NULL}};
      for (size_t i = 0; i < 3; ++i)
        values[i] = placed_values("GPU", LS_DTYPE_F32, n, 0, numbers);
      expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where,
                                             3, &made));
      for (size_t i = 0; i < 3; ++i) {
        for (size_t d = 0; d < n; ++d)
          expect_fetched(ls_nest_item(made, i), d,
                         (double[]){(double)((1 << n) - 1)}, 1);
        ls_nest_release(values[i]);
      }
      ls_nest_release(made);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// A write of every component, op by op. What has run has run: so all parts are
// looked at before one is written.
#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/ops.h"
#include "lockstep/strategy_extended.h"
#include "support/replicas.h"

static ls_tensor vector(int64_t count) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE(count), 1);
}

TEST(no_component_is_written_unless_all_can_be) {
  LS_SPEC("V94");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_frame_begin());
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .initial_value = vector(2)}, &v));
  }
  const ls_tensor twos = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 2);
  const ls_tensor bad[] = {
      vector(3), ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 2),
      ls_matmul(ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 2), 1), vector(3))};
  static const ls_write_op ops[] = {LS_WRITE_ASSIGN, LS_WRITE_ADD,
                                    LS_WRITE_SUB};
  for (size_t i = 0; i < LS_COUNT_OF(bad); ++i)
    for (size_t k = 0; k < LS_COUNT_OF(ops); ++k) {
      const ls_nest parts[] = {ls_leaf(twos), ls_leaf(bad[i])};
      const ls_nest value = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
      ls_nest made = ls_none();
      expect_status(ls_variable_write(v, ops[k], value, NULL, &made),
                    LS_INVALID_ARGUMENT, i < 2 ? "component 1" : "matmul");
      ls_nest_release(value);
      expect_components(v, (double[]){1, 1}, 2);
    }
  expect_ok(ls_frame_end(NULL));
}

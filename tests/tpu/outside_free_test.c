// SPDX-License-Identifier: Apache-2.0
//
// What is free in when outside compiled ops run, and where constants are: with
// and without cuts the values are the same bytes, and all of it is done when
// the computation is.
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/host.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/spec.h"

// ---- A function on the host that notes its calls --------------------------
static int num_calls;

static ls_status cube(ls_host_call *call) {
  const float x = *(const float *)call->inputs[0];
  const float cubed = x * x * x;
  __atomic_fetch_add(&num_calls, 1, __ATOMIC_RELAXED);
  memcpy(call->outputs[0], &cubed, sizeof(cubed));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel cube_kernel = {
    .name = "cube", .infer = infer_like_first, .start = cube};

static ls_nest call_cube(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(ls_op_output(ls_host_call_add(&cube_kernel, NULL, &x, 1), 0));
}

static ls_nest constant_outside(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(f32_of(0.1));
}

// A head that needs the inputs alone, a constant that is made outside and used
// by compiled ops, a middle, and a tail that only goes out.
static ls_nest head_and_tail(ls_nest args, void *user) {
  ls_tensor *constant = user;
  const ls_nest x = ls_nest_item(args, 0);
  const ls_nest head = ls_outside_compilation(call_cube, NULL, x);
  *constant =
      ls_outside_compilation(constant_outside, NULL, ls_none()).as.tensor;
  expect_outside(*constant, "1");
  const ls_tensor inside = ls_mul(ls_exp(x.as.tensor), *constant);
  expect_outside(inside, NULL);
  const ls_nest middle =
      ls_outside_compilation(call_cube, NULL, ls_leaf(inside));
  const ls_tensor sum =
      ls_all_reduce(LS_REDUCE_SUM, ls_add(middle.as.tensor, head.as.tensor));
  const ls_nest tail = ls_outside_compilation(call_cube, NULL, ls_leaf(sum));
  return LS_LIST(ls_leaf(inside), tail, head);
}

static const char *cut;
static const char *environment(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_CUT") == 0 ? cut : NULL;
}

static void compute(int replicas, float *values) {
  LS_OWN(counted, world) =
      counted_begin_with((ls_runtime_options){.environment = environment});
  ls_tensor constant;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, (size_t)replicas, head_and_tail, &constant);
  num_calls = 0;
  expect_ok(ls_session_create(c.graph, &c.session));
  LS_OWN(ls_nest, result) = session_results(c.session, c.outputs);
  // All clusters of all replicas have run.
  assert_int_equal(num_calls, 3 * replicas);
  for (int r = 0; r < replicas; ++r)
    for (size_t i = 0; i < 3; ++i)
      values[3 * r + (int)i] = (float)ls_nest_number(
          ls_nest_item(ls_nest_item(result, (size_t)r), i));
}

TEST(where_constants_are_and_what_runs_first_changes_no_bit) {
  LS_SPEC("O74 O80 O81");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    float whole[9], cuts[9];
    cut = "0";
    compute(replicas, whole);
    cut = NULL;
    compute(replicas, cuts);
    assert_memory_equal(whole, cuts, (size_t)(3 * replicas) * sizeof(*whole));
    for (int r = 0; r < replicas; ++r)
      assert_true(cuts[3 * r + 2] == (float)((r + 1) * (r + 1) * (r + 1)));
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// A runtime does not go while a callback of it runs, and says so.
#include "lockstep/host.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_runtime *made;

static ls_nest destroy_runtime(ls_nest args, void *user) {
  (void)args;
  (void)user;
  expect_status(ls_runtime_destroy(made), LS_FAILED_PRECONDITION,
                "while a callback of a function or of replicas runs");
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 3));
}

static ls_status start_destroy(ls_host_call *call) {
  const ls_status status = ls_runtime_destroy(made);
  *(float *)call->outputs[0] = ls_status_code(status) == LS_FAILED_PRECONDITION;
  ls_status_free(status);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status infer_scalar(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

static const ls_host_kernel destroys = {
    .name = "destroys", .infer = infer_scalar, .start = start_destroy};

static ls_nest call_host(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_op_output(ls_host_call_add(&destroys, NULL, NULL, 0), 0));
}

static void call_once(ls_callback callback, double wanted) {
  ls_function *function = NULL;
  ls_nest result = ls_none();
  expect_ok(
      ls_function_create(&(ls_function_options){.call = callback}, &function));
  expect_ok(ls_function_call(function, ls_none(), &result));
  assert_true(number_of(result) == wanted);
  ls_nest_release(result);
  ls_function_release(function);
}

static void a_callback_cannot_destroy_its_runtime(void **state) {
  (void)state;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.threads = 2}, &made));
  ls_runtime *before = ls_runtime_make_current(made);
  call_once(destroy_runtime, 3);
  call_once(call_host, 1);
  for (int replicas = 1; replicas <= 2; ++replicas) {
    ls_strategy *strategy = mirrored_of(replicas);
    ls_nest_release(run_on(strategy, destroy_runtime, ls_none(), NULL));
    ls_strategy_release(strategy);
  }
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(made));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_callback_cannot_destroy_its_runtime),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

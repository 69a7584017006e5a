// SPDX-License-Identifier: Apache-2.0
//
// A run of a TPU strategy has ended when it returns: nothing is left to wait
// for when the library is shut down.
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/host.h"
#include "lockstep/replicate.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

typedef struct job {
  ls_variable *variable;
} job;

static int calls;

static ls_status take_long(ls_host_call *call) {
  usleep(5000);
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel slow = {.name = "take_long", .start = take_long};

static ls_nest call_host(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return ls_nest_op(ls_host_call_add(&slow, NULL, &x, 1));
}

static ls_nest step(ls_nest args, void *user) {
  const job *j = user;
  const ls_tensor next =
      ls_variable_assign_add(j->variable, ls_scalar(LS_DTYPE_F32, 1));
  (void)args;
  (void)ls_outside_compilation(call_host, NULL, ls_leaf(next));
  return ls_none();
}

TEST(nothing_is_left_when_a_run_returns) {
  LS_SPEC("T9");
  for (int replicas = 1; replicas <= 4; replicas *= 4) {
    counted c = counted_begin(2);
    ls_strategy *strategy = tpu_strategy_of(replicas);
    job j = {NULL};
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "steps",
                                 .dtype = LS_DTYPE_F32,
                                 .aggregation =
                                     LS_AGGREGATION_ONLY_FIRST_REPLICA},
          &j.variable));
    }
    ls_function *f = function_of(step, &j);
    calls = 0;
    for (int run = 1; run <= 3; ++run) {
      LS_OWN(ls_nest, results) =
          strategy_results(strategy, ls_traced(f), ls_none());
      // Its calls of the host are over, and its writes are there.
      assert_int_equal(__atomic_load_n(&calls, __ATOMIC_RELAXED),
                       run * replicas);
      LS_OWN(ls_array, value) = variable_array(j.variable);
      assert_true(ls_array_f64(value, 0) == run);
    }
    ls_function_release(f);
    ls_variable_release(j.variable);
    ls_strategy_release(strategy);
    counted_end(&c);  // Which waits for nothing, and refuses nothing.
  }
}

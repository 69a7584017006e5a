// SPDX-License-Identifier: Apache-2.0
//
// Variables of TPU strategies survive any refused request for memory.
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"

typedef struct job {
  ls_strategy *strategy;
  ls_variable *lazy, *sum;
  ls_function *f;
  ls_nest result;
} job;

static ls_nest step(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  ls_variable_assign_add(j->sum, ls_scalar(LS_DTYPE_F32, 1));
  return ls_leaf(ls_add(ls_variable_read(j->sum), ls_variable_read(j->lazy)));
}

static ls_status begin(void *self) {
  job *j = self;
  j->strategy = tpu_strategy_of(2);
  j->f = function_of(step, j);
  return ls_ok();
}

static ls_status make(job *j) {
  static const char *const turned[] = {"/device:TPU:1", "/device:TPU:0"};
  LS_STRATEGY_SCOPE(j->strategy);
  if (j->lazy == NULL)
    LS_RETURN_IF_ERROR(
        ls_variable_create(&(ls_variable_options){.name = "lazy",
                                                  .dtype = LS_DTYPE_F32,
                                                  .batch_initialization = true},
                           &j->lazy));
  return j->sum != NULL
             ? ls_ok()
             : ls_variable_create(
                   &(ls_variable_options){.name = "sum",
                                          .dtype = LS_DTYPE_F32,
                                          .aggregation = LS_AGGREGATION_SUM,
                                          .devices = turned,
                                          .num_devices = 2},
                   &j->sum);
}

static ls_status act(void *self) {
  job *j = self;
  LS_RETURN_IF_ERROR(make(j));
  return ls_strategy_run(j->strategy, ls_traced(j->f), ls_none(), &j->result);
}

static double outcome(void *self) {
  return ls_nest_number(ls_distributed_component(((job *)self)->result, 1));
}

static void end(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_variable_release(j->lazy);
  ls_variable_release(j->sum);
  ls_function_release(j->f);
  ls_strategy_release(j->strategy);
  *j = (job){0};
}

TEST(variables_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "variables of a TPU strategy",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = end});
}

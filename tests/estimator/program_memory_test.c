// SPDX-License-Identifier: Apache-2.0
//
// Programs survive any refused request for memory.
#include "base/memory/own.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/metrics.h"
#include "lockstep/optimizer_state.h"
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/linear_model.h"

typedef struct job {
  programs p;
  linear_model m;
} job;

static ls_nest mean_label(ls_nest tensors, void *user) {
  static const char *const key = "label";
  (void)user;
  const ls_nest metric =
      ls_metric_mean(ls_nest_tensor(tensors, 0), ls_no_weights(), "label");
  return ls_nest_dict("", &key, &metric, 1);
}

static ls_nest first_cache(void *user, int64_t batch_size) {
  (void)user;
  return LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(batch_size), 0)));
}

// All that a program can have in the mode.
static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  static const char *const key = "out";
  const job *j = user;
  const bool predicts = call->mode == LS_MODE_PREDICT;
  const ls_nest out = ls_leaf(linear_model_output(&j->m, call->features));
  LS_OWN(ls_nest, list) =
      LS_LIST(predicts ? out : ls_nest_retain(call->labels));
  LS_OWN(ls_nest, dict) = ls_nest_dict("", &key, &out, 1);
  LS_RETURN_IF_ERROR(
      ls_status_join(ls_nest_status(list), ls_nest_status(dict)));
  ls_estimator_spec_options o = {.mode = call->mode};
  o.host_call = (ls_host_function){.call = negate_first, .tensors = list};
  if (predicts) o.predictions = dict;
  if (!predicts) o.loss = linear_model_loss(&j->m, call);
  if (call->mode == LS_MODE_TRAIN)
    o.train_op = ls_train_op(j->m.optimizer, o.loss);
  if (call->mode == LS_MODE_EVAL)
    o.eval_metrics = (ls_host_function){.call = mean_label, .tensors = list};
  const ls_tensor cache =
      ls_nest_tensor(ls_nest_find(call->params, "cache"), 0);
  if (!predicts) {
    o.cache = &cache;
    o.cache_size = 1;
  }
  return ls_tpu_estimator_spec_create(&o, out_spec);
}

static void begin(job *j, ls_estimator_mode mode, bool any_batch) {
  programs_begin_here(&j->p,
                      (programs_options){.mode = mode,
                                         .replicas = 3,
                                         .any_batch = any_batch,
                                         .no_labels = mode == LS_MODE_PREDICT,
                                         .pads = true,
                                         .cache = first_cache,
                                         .model = model_of,
                                         .user = j});
  LS_GRAPH_SCOPE(j->p.graph);
  linear_model_make(&j->m, true);
  if (mode == LS_MODE_TRAIN)
    expect_ok(ls_optimizer_prepare(j->m.optimizer, &j->m.w, 1));
}

static ls_status begin_training(void *self) {
  begin(self, LS_MODE_TRAIN, true);
  return ls_ok();
}
static ls_status begin_evaluation(void *self) {
  begin(self, LS_MODE_EVAL, true);
  return ls_ok();
}
static ls_status begin_prediction(void *self) {
  begin(self, LS_MODE_PREDICT, false);
  return ls_ok();
}

static ls_status act(void *self) {
  programs *p = &((job *)self)->p;
  ls_program_drop(&p->program);
  return programs_try(p);
}

static double outcome(void *self) {
  const programs *p = &((job *)self)->p;
  return (double)ls_graph_num_ops(p->graph);
}

static void end(void *self) {
  job *j = self;
  linear_model_drop(&j->m);
  programs_end_here(&j->p);
}

TEST(programs_survive_any_failed_request) {
  static const struct {
    const char *name;
    ls_status (*begin)(void *self);
  } rows[] = {{"a training", begin_training},
              {"an evaluation", begin_evaluation},
              {"a prediction", begin_prediction}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    refuse_each(&(fault_scenario){.name = rows[i].name,
                                  .size = sizeof(job),
                                  .begin = rows[i].begin,
                                  .act = act,
                                  .outcome = outcome,
                                  .end = end});
}

// ---- Checks of variables ---------------------------------------------------
static ls_status check_variables(void *self) {
  LS_OWN(ls_nest, ops) = ls_none();
  return ls_tpu_sync_ops(((job *)self)->p.graph, false, &ops);
}

static double count_errors_left(void *self) {
  LS_OWN(ls_status, left) = ls_graph_take_error(((job *)self)->p.graph);
  return ls_status_is_ok(left) ? 0 : 1;
}

TEST(checks_of_variables_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "checks",
                                .size = sizeof(job),
                                .begin = begin_training,
                                .act = check_variables,
                                .outcome = count_errors_left,
                                .end = end});
}

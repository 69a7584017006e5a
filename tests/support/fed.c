// SPDX-License-Identifier: Apache-2.0
#include "support/fed.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/estimator_hooks.h"
#include "support/bystander.h"

// ---- A world ---------------------------------------------------------------
static void note(void *user, const ls_log_line *line) {
  fed *self = user;
  if (line->level == LS_LOG_WARNING) {
    ++self->warnings;
    snprintf(self->last_warning, sizeof(self->last_warning), "%s", line->text);
  }
  if (line->level != LS_LOG_INFO) return;
  ++self->infos;
  const size_t used = strlen(self->infos_text);
  snprintf(self->infos_text + used, sizeof(self->infos_text) - used, "%s\n",
           line->text);
}

static const char *no_environment(void *user, const char *name) {
  (void)user, (void)name;
  return NULL;
}

static ls_nest call_input(void *user, ls_input_call *call) {
  fed *self = user;
  assert_true(self->num_calls < FED_CALLS);
  const int i = self->num_calls++;
  self->seen[i].batch_size = ls_params_i64(call->params, "batch_size", -1);
  self->seen[i].mode = call->mode;
  const ls_user_context *context = ls_params_context(call->params);
  if (context != NULL)
    expect_ok(ls_user_context_deployment(context, &self->seen[i].at));
  snprintf(self->seen[i].scope, sizeof(self->seen[i].scope), "%s",
           ls_name_scope_current());
  return self->facts.input(self->facts.user, call);
}

void fed_open(fed *self, fed_facts facts) {
  *self = (fed){.facts = facts};
  self->runtime =
      counted_begin_with((ls_runtime_options){.threads = 1,
                                              .log = note,
                                              .log_user = self,
                                              .environment = no_environment,
                                              .stall_ms = 20000});
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .master = facts.pod, .tpu = &facts.tpu, .random_seed = facts.seed},
      &self->config));
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = facts.pod}, &self->resolver));
  expect_ok(ls_tpu_initialize(self->resolver, NULL));
  bystander_begin(facts.pod);
  const ls_opt batch = facts.batch > 0 ? LS_SOME(facts.batch) : (ls_opt){0};
  expect_ok(ls_plans_create(
      &(ls_estimator_facts){
          .config = self->config,
          .batch_sizes = {batch, batch, batch, batch},
          .use_tpu = facts.not_on_cores ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
          .eval_on_tpu = facts.not_on_cores ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
          .any_batch = facts.options.any_batch},
      &self->plans));
  self->function = (ls_input_function){.call = call_input, .user = self};
  self->calls = (ls_estimator_calls){.input = &self->function,
                                     .config = self->config,
                                     .params = ls_nest_dict("", NULL, NULL, 0)};
  ls_status_free(
      ls_plans_get(self->plans, facts.mode, false, &self->calls.plan));
  expect_ok(ls_graph_create("g", &self->graph));
  ls_graph_begin(&self->scope, self->graph);
  ls_variable *step = NULL;
  expect_ok(ls_global_step_create(self->graph, &step));
}

ls_status fed_make(fed *self) {
  LS_RETURN_IF_ERROR(
      ls_plans_get(self->plans, self->facts.mode, false, &self->calls.plan));
  return ls_input_feed_make(&self->calls, &self->facts.options, &self->feed);
}

void fed_begin(fed *self, fed_facts facts) {
  fed_open(self, facts);
  expect_ok(fed_make(self));
}

void fed_close(fed *self) {
  ls_input_feed_drop(&self->feed);
  ls_scope_end(&self->scope);
  ls_session_destroy(self->session);
  ls_graph_destroy(self->graph);
  ls_nest_release(self->calls.params);
  ls_plans_destroy(self->plans);
  ls_run_config_release(self->config);
  expect_ok(ls_tpu_shutdown(self->resolver));
  ls_tpu_resolver_release(self->resolver);
  counted_end(&self->runtime);
}

void fed_refused(fed_facts facts, ls_code code, const char *says) {
  LS_OWN_BEGUN(fed, self, fed_open, facts);
  expect_status(fed_make(&self), code, says);
  assert_null(self.feed.queue);
  ls_status_free(ls_graph_take_error(self.graph));
}

// ---- Runs ------------------------------------------------------------------
static ls_status run(fed *self, ls_nest fetches, ls_nest *out_results) {
  *out_results = ls_none();
  if (self->session == NULL)
    expect_ok(ls_session_create(self->graph, &self->session));
  return ls_session_run(self->session, fetches, NULL, 0, out_results);
}

ls_status fed_run(fed *self, int64_t iterations) {
  LS_OWN(ls_nest, results) = ls_none();
  ls_variable *variable = NULL;
  const int32_t count = (int32_t)iterations;
  if (self->session == NULL)
    expect_ok(ls_session_create(self->graph, &self->session));
  if (!self->feed.each_step && self->facts.mode != LS_MODE_PREDICT) {
    LS_OWN(ls_array, value) = NULL;
    expect_ok(ls_iterations_per_loop(self->graph, &variable));
    expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &count, &value));
    expect_ok(ls_session_set_variable_value(self->session, variable, value));
  }
  return run(self, self->feed.ops, &results);
}

static ls_type shard_type(const fed *self, size_t i) {
  const ls_infeed_queue *queue = self->feed.queue;
  ls_type type = ls_infeed_queue_type(queue, i);
  expect_ok(ls_sharding_policy_shard_shape(
      ls_infeed_queue_policy(queue, i), type.shape, (ls_opt){0}, &type.shape));
  return type;
}

ls_nest fed_take(fed *self, int host, int ordinal) {
  enum { MOST = 8 };
  ls_type types[MOST];
  ls_nest items[MOST], results = ls_none();
  char device[80];
  const size_t count = ls_infeed_queue_num_elements(self->feed.queue);
  assert_true(count <= MOST);
  for (size_t i = 0; i < count; ++i)
    types[i] = shard_type(self, i);
  snprintf(device, sizeof(device), "/job:worker/task:%d/device:TPU:%d", host,
           ordinal);
  {
    LS_DEVICE_SCOPE(device);
    const ls_op op = ls_infeed_dequeue_tuple(types, count);
    for (size_t i = 0; i < count; ++i)
      items[i] = ls_leaf(ls_op_output(op, (unsigned)i));
  }
  LS_OWN(ls_nest, fetches) = ls_nest_sequence(LS_KIND_TUPLE, items, count);
  expect_ok(run(self, fetches, &results));
  return results;
}

ls_feed_element fed_values(fed *self, ls_nest tuple) {
  ls_feed_element values;
  expect_ok(ls_recorder_unflatten(self->feed.structure, tuple, &values));
  return values;
}

void fed_expect(fed *self, int host, int ordinal, const double *rows,
                size_t count) {
  LS_OWN(ls_nest, tuple) = fed_take(self, host, ordinal);
  const ls_array *array = ls_nest_as_array(ls_nest_item(tuple, 0));
  assert_int_equal(ls_array_num_elements(array), count);
  for (size_t i = 0; i < count; ++i)
    assert_true(ls_array_f64(array, (int64_t)i) == rows[i]);
}

// ---- Data ------------------------------------------------------------------
ls_dataset *fed_rows(int64_t count, int64_t batch) {
  ls_dataset *made = ls_dataset_range(0, count, 1);
  made =
      ls_dataset_convert(made, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32});
  return ls_dataset_batch(made, &(ls_batch_options){.size = batch});
}

ls_nest ten_fed_rows(void *user, ls_input_call *call) {
  (void)user;
  return ls_nest_dataset(
      fed_rows(10, ls_params_i64(call->params, "batch_size", 0)));
}

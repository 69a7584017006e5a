// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/early_stopping.h"
#include "lockstep/estimator.h"
#include "lockstep/estimator_config.h"
#include "lockstep/estimator_export.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/estimator_table.h"
#include "lockstep/iteration_count.h"
#include "lockstep/rendezvous.h"
#include "lockstep/shutdown_hooks.h"
#include "lockstep/tensor_tracer.h"
#include "lockstep/train_and_evaluate.h"
#include "support/refused.h"

TEST(refused_calls_of_early_stopping_leave_nothing) {
  REFUSED(ls_hook *, ls_early_stopping_hook(NULL, &out));
}

TEST(refused_calls_of_estimator_leave_nothing) {
  REFUSED(ls_estimator *, ls_estimator_create(NULL, &out));
  REFUSED(ls_nest, ls_estimator_evaluate(NULL, NULL, &out));
  REFUSED(ls_predictions *, ls_estimator_predict(NULL, NULL, &out));
  REFUSED(ls_training_end, ls_estimator_train(NULL, NULL, &out));
  REFUSED_TWO(char **, size_t,
              ls_estimator_variable_names(NULL, &out, &second));
  REFUSED(char *, ls_estimator_latest_checkpoint(NULL, &out));
  REFUSED(ls_array *, ls_estimator_variable_value(NULL, NULL, &out));
}

TEST(refused_calls_of_estimator_table_leave_nothing) {
  REFUSED_TWO(const ls_estimator_type *const *, size_t,
              ls_model_library_estimators(NULL, &out, &second));
  REFUSED(ls_nest, ls_estimator_first_batch(NULL, NULL, &out));
}

TEST(refused_calls_of_estimator_config_leave_nothing) {
  REFUSED(ls_loop_length, ls_loop_length_parse(NULL, &out));
  REFUSED_MEMORY(ls_run_config *, ls_run_config_create(NULL, &out));
  REFUSED(ls_run_config *, ls_run_config_replace(NULL, NULL, 0, NULL, &out));
  REFUSED_MEMORY(ls_run_config *, ls_tpu_run_config_create(NULL, &out));
}

TEST(refused_calls_of_estimator_export_leave_nothing) {
  REFUSED(char *, ls_estimator_export(NULL, NULL, &out));
  REFUSED(char *, ls_estimator_export_for_tpu(NULL, NULL, &out));
  REFUSED(ls_export_output, ls_export_output_with(NULL, ls_none(), &out));
  REFUSED(ls_export_outputs,
          ls_rewrite_model_for_inference((ls_estimator_mode){0}, NULL, NULL,
                                         ls_none(), NULL, &out));
}

TEST(refused_calls_of_estimator_functions_leave_nothing) {
  REFUSED(ls_device_assignment *, ls_user_context_assignment(NULL, &out));
  REFUSED(ls_input_deployment, ls_user_context_deployment(NULL, &out));
  REFUSED_TWO(ls_device_name, int64_t,
              ls_user_context_device_for_replica(NULL, -1, &out, &second));
  REFUSED(ls_device_name, ls_user_context_host(NULL, &out));
  REFUSED(int64_t, ls_user_context_num_hosts(NULL, &out));
  REFUSED(int64_t, ls_user_context_num_replicas(NULL, &out));
  REFUSED(ls_device_name,
          ls_user_context_place_host(NULL, (ls_opt){0}, (ls_opt){0}, &out));
  REFUSED(int64_t, ls_user_context_replicas_per_host(NULL, &out));
}

TEST(refused_calls_of_estimator_hooks_leave_nothing) {
  REFUSED(ls_hook *, ls_eval_iterations_hook(-1, &out));
  REFUSED(ls_op, ls_increase_eval_step((ls_tensor){0}, &out));
  REFUSED(ls_variable *, ls_iterations_per_loop(NULL, &out));
  REFUSED_MEMORY(ls_hook *, ls_predict_stop_hook((ls_tensor){0}, &out));
  REFUSED_MEMORY(ls_hook *, ls_stop_after_evals_hook(-1, &out));
  REFUSED(ls_hook *, ls_tpu_stop_hook((ls_loop_length){0}, (ls_opt){0},
                                      (ls_opt){0}, &out));
  REFUSED(ls_nest, ls_tpu_sync_ops(NULL, false, &out));
}

TEST(refused_calls_of_estimator_spec_leave_nothing) {
  REFUSED(ls_estimator_spec *, ls_estimator_spec_as_plain(NULL, &out));
  REFUSED(ls_estimator_spec *, ls_estimator_spec_create(NULL, &out));
  REFUSED(ls_estimator_spec *, ls_tpu_estimator_spec_create(NULL, &out));
}

TEST(refused_calls_of_iteration_count_leave_nothing) {
  REFUSED_MEMORY(ls_iteration_count *,
                 ls_iteration_count_create((ls_opt){0}, &out));
  REFUSED(int64_t, ls_iteration_count_get(NULL, 0, &out));
  REFUSED(_Bool, ls_within_percent(0, 0, 0, &out));
}

TEST(refused_calls_of_rendezvous_leave_nothing) {
  REFUSED_MEMORY(ls_rendezvous *, ls_rendezvous_create(0, &out));
}

TEST(refused_calls_of_shutdown_hooks_leave_nothing) {
  REFUSED(ls_hook *, ls_graceful_shutdown_hook(NULL, &out));
  REFUSED(ls_hook *, ls_preemption_hook(NULL, &out));
}

TEST(refused_calls_of_tensor_tracer_leave_nothing) {
  REFUSED_MEMORY(ls_host_function, ls_trace_cpu(ls_none(), &out));
  REFUSED_TWO(ls_tensor, ls_nest,
              ls_trace_tpu((ls_tensor){0}, (ls_op){0}, &out, &second));
}

TEST(refused_calls_of_train_and_evaluate_leave_nothing) {
  REFUSED(ls_exporter *, ls_exporter_create(NULL, &out));
  REFUSED(char *, ls_exporter_export(NULL, NULL, NULL, &out));
  REFUSED(ls_train_and_evaluation,
          ls_train_and_evaluate(NULL, NULL, NULL, &out));
}

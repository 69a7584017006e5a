// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/chain.h"
#include "lockstep/events.h"
#include "lockstep/hook.h"
#include "lockstep/models.h"
#include "lockstep/monitored_session.h"
#include "lockstep/optimizer_table.h"
#include "lockstep/strategy_step.h"
#include "lockstep/summary_ops.h"
#include "lockstep/tasks.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/refused.h"

TEST(refused_calls_of_chain_leave_nothing) {
  REFUSED(ls_chain_result, ls_chain_check(NULL, NULL, &out));
  REFUSED(ls_chain_result, ls_chain_check_data(NULL, NULL, NULL, NULL, &out));
}

TEST(refused_calls_of_events_leave_nothing) {
  REFUSED(ls_event_writer *, ls_event_writer_open(NULL, &out));
  REFUSED(size_t,
          ls_event_writer_summary(NULL, NULL, -1, -1, (ls_bytes){0}, &out));
  REFUSED(ls_event_numbers *, ls_events_read(NULL, NULL, &out));
}

TEST(refused_calls_of_hook_leave_nothing) {
  REFUSED_MEMORY(ls_hook *, ls_counter_hook(NULL, &out));
  REFUSED(ls_variable *, ls_eval_step_get(NULL, &out));
  REFUSED(ls_hook *, ls_feed_hook(NULL, NULL, &out));
  // A feed is counted that is not there.
  REFUSED_TWO(ls_nest, ls_hook *,
              ls_final_ops_hook(ls_none(), NULL, 1, &out, &second));
  REFUSED(ls_variable *, ls_global_step_create(NULL, &out));
  REFUSED(ls_variable *, ls_global_step_get(NULL, &out));
  REFUSED(ls_hook *, ls_hook_create(NULL, &out));
  REFUSED(ls_hook *, ls_log_hook(NULL, &out));
  REFUSED_MEMORY(ls_hook *, ls_nan_hook((ls_tensor){0}, (ls_flag){0}, &out));
  REFUSED(ls_hook *, ls_nan_hook_named(NULL, (ls_flag){0}, &out));
  REFUSED(ls_hook *, ls_profiler_hook(NULL, (ls_opt){0}, (ls_opt){0}, &out));
  REFUSED(size_t, ls_run_context_examples(NULL, NULL, 0, &out));
  REFUSED(double, ls_run_context_number(NULL, NULL, &out));
  REFUSED(int64_t, ls_run_context_steps(NULL, &out));
  REFUSED(ls_hook *, ls_saver_hook(NULL, &out));
  REFUSED(ls_hook *, ls_stop_at_step_hook((ls_opt){0}, (ls_opt){0}, &out));
  REFUSED(ls_hook *, ls_summary_hook(NULL, &out));
  REFUSED_MEMORY(ls_hook *, ls_wait_for_step_hook(-1, &out));
}

TEST(refused_calls_of_models_leave_nothing) {
  REFUSED(ls_model, ls_model_create(NULL, NULL, &out));
  REFUSED(ls_model_library, ls_model_library_open(NULL, &out));
  REFUSED(ls_nest, ls_model_synthetic_batch(NULL, -1, &out));
  REFUSED(ls_model_type, ls_model_type_adapt(NULL, NULL, 0, 0, &out));
}

TEST(refused_calls_of_optimizer_table_leave_nothing) {
  REFUSED_TWO(const ls_optimizer_rule *const *, size_t,
              ls_model_library_optimizers(NULL, &out, &second));
}

TEST(refused_calls_of_monitored_session_leave_nothing) {
  REFUSED(ls_monitored_session *, ls_monitored_session_create(NULL, &out));
}

TEST(refused_calls_of_strategy_step_leave_nothing) {
  REFUSED(ls_strategy_step *, ls_input_step_create(NULL, NULL, NULL, &out));
  REFUSED(ls_strategy_step *, ls_single_loss_step_create(NULL, &out));
  REFUSED(ls_step_monitor *, ls_step_monitor_create(NULL, NULL, &out));
  REFUSED(int64_t, ls_step_monitor_run_steps(NULL, (ls_opt){0}, &out));
  REFUSED(ls_strategy_step *, ls_strategy_step_create(NULL, &out));
  REFUSED(ls_op, ls_strategy_step_initialize(NULL, &out));
  REFUSED(ls_nest, ls_strategy_step_next(NULL, &out));
  REFUSED(ls_op, ls_strategy_step_run(NULL, &out));
}

TEST(refused_calls_of_summary_ops_leave_nothing) {
  REFUSED(ls_summary_writer *, ls_file_writer_create(NULL, &out));
  REFUSED_TWO(ls_nest, ls_nest, ls_file_writers_of(NULL, &out, &second));
}

TEST(refused_calls_of_train_leave_nothing) {
  REFUSED(ls_evaluator *, ls_evaluator_create(NULL, NULL, &out));
  REFUSED(ls_evaluation, ls_evaluator_run(NULL, NULL, &out));
  REFUSED(ls_progress *, ls_progress_create(NULL, &out));
  REFUSED(ls_train_result, ls_train(NULL, &out));
  REFUSED(ls_train_config *, ls_train_config_read(NULL, &out));
  REFUSED(char *, ls_train_config_text(NULL, &out));
  REFUSED(int64_t, ls_train_count_examples(NULL, &out));
  REFUSED_NUMBER(ls_train_mean(ls_none(), ls_none(), &out));
  REFUSED(ls_nest, ls_train_split(NULL, ls_none(), &out));
}

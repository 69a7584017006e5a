// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/device.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/runs.h"
#include "lockstep/session.h"
#include "lockstep/trace.h"
#include "support/refused.h"

TEST(refused_calls_of_device_leave_nothing) {
  REFUSED(const char *, ls_device_kernels(NULL, &out));
  REFUSED(ls_device_facts, ls_device_describe(NULL, &out));
}

TEST(refused_calls_of_eager_leave_nothing) {
  REFUSED_MEMORY(ls_tape *, ls_tape_begin(&out));
  REFUSED(ls_nest, ls_tape_gradients(NULL, ls_none(), NULL, 1, &out));
  REFUSED(double, ls_tensor_item((ls_tensor){0}, &out));
  REFUSED(ls_array *, ls_tensor_value((ls_tensor){0}, &out));
  REFUSED(ls_array *, ls_variable_value(NULL, &out));
}

TEST(refused_calls_of_function_leave_nothing) {
  REFUSED(ls_function *, ls_function_create(NULL, &out));
  REFUSED(ls_function *, ls_function_load(NULL, NULL, 0, &out));
  REFUSED(ls_function *, ls_function_make_concrete(NULL, ls_none(), &out));
  REFUSED(char *, ls_function_print_cost(NULL, &out));
  REFUSED(char *, ls_function_print_lowered(NULL, &out));
  REFUSED(char *, ls_function_print_plan(NULL, &out));
  REFUSED(ls_program_figures, ls_function_describe_program(NULL, &out));
  REFUSED(size_t, ls_function_list_instructions(NULL, NULL, 0, &out));
}

TEST(refused_calls_of_runs_leave_nothing) {
  REFUSED(char *, ls_runs_print(NULL, &out));
}

TEST(refused_calls_of_session_leave_nothing) {
  const ls_session_config config = {.cluster = &(ls_cluster_spec){0}};
  REFUSED_MEMORY(ls_session_config, ls_session_config_copy(&config, &out));
  REFUSED(ls_session *, ls_session_create(NULL, &out));
  REFUSED(ls_session *, ls_session_create_with(NULL, NULL, &out));
  REFUSED(ls_array *, ls_session_variable_value(NULL, NULL, &out));
}

TEST(refused_calls_of_trace_leave_nothing) {
  REFUSED(ls_trace *, ls_trace_begin(NULL, NULL, &out));
}

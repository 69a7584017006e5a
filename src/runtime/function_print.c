// SPDX-License-Identifier: Apache-2.0
//
// What a function's newest trace is, as text, and what it takes.
#include "base/require.h"
#include "lockstep/function_plan.h"
#include "runtime/function.h"

static ls_status print_lowered(ls_compiled *compiled, ls_store *store,
                               void *out_text) {
  (void)store;
  return ls_graph_print(ls_compiled_program(compiled)->body, out_text);
}

ls_status ls_function_print_lowered(const ls_function *function,
                                    char **out_text) {
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE(function);
  return ls_function_look(function, print_lowered, out_text);
}

static ls_status print_plan(ls_compiled *compiled, ls_store *store,
                            void *out_text) {
  (void)store;
  return ls_compiled_print_plan(compiled, out_text);
}

ls_status ls_function_print_plan(const ls_function *function, char **out_text) {
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE(function);
  return ls_function_look(function, print_plan, out_text);
}

// ---- What it takes ---------------------------------------------------------
static ls_status function_print_measure(ls_compiled *compiled, ls_store *store,
                                        void *on) {
  return ls_compiled_measure(compiled, store, *(const bool *)on);
}

ls_status ls_function_measure(ls_function *function, bool on) {
  LS_REQUIRE(function);
  return ls_function_look(function, function_print_measure, &on);
}

static ls_status print_cost(ls_compiled *compiled, ls_store *store,
                            void *out_text) {
  return ls_compiled_print_cost(compiled, store, out_text);
}

ls_status ls_function_print_cost(const ls_function *function, char **out_text) {
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE(function);
  return ls_function_look(function, print_cost, out_text);
}

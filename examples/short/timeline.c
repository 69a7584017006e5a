// SPDX-License-Identifier: Apache-2.0
// A timeline of all threads, for ui.perfetto.dev, and the memory of a step, as
// its plan has it.
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"

static ls_nest step(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(256, 256), 0, 1, NULL);
  return ls_leaf(ls_reduce_sum(ls_tanh(ls_matmul(x, x)), LS_ALL_AXES));
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_trace *trace = NULL;
  char *plan = NULL;
  ls_function *function = ls_function_in(bag, .call = step, .name = "step");
  ls_nest *result = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_trace_begin(ls_runtime_current(), NULL, &trace));
  ls_status status = ls_ok();
  for (int i = 0; ls_status_is_ok(status) && i < 10; ++i)
    status = ls_function_call(function, ls_none(), result);
  ls_trace_end(trace);
  if (ls_status_is_ok(status)) status = ls_trace_write(trace, "timeline.json");
  ls_trace_destroy(trace);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_function_print_plan(function, &plan));
  const char *bytes = strstr(plan, "bytes: shared ");
  long long shared = 0;
  if (bytes != NULL) (void)sscanf(bytes, "bytes: shared %lld", &shared);
  *first = (double)shared;
  *last = ls_nest_number(*result);
  ls_text_release(plan);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok =
      ls_status_is_ok(status) && first >= 256 * 256 * 4 && last != 0;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

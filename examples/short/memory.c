// SPDX-License-Identifier: Apache-2.0
// Memory and messages of one's own: a runtime whose allocator counts, and whose
// log goes to a function. After the first calls a step allocates nothing.
#include <stdio.h>

#include "lockstep/full.h"

static void note_line(void *user, const ls_log_line *line) {
  int *lines = user;
  ++*lines;
  printf("[%s] %s\n", line->source, line->text);
}

static ls_nest step(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(64, 64), 0, 1, NULL);
  return ls_leaf(ls_reduce_max(ls_matmul(x, x), LS_ALL_AXES));
}

static ls_status call_often(ls_counting_allocator *memory, double *first,
                            double *last) {
  ls_bag bag = {0};
  ls_function *function = ls_function_in(&bag, .call = step);
  ls_nest *result = ls_nest_in(&bag, ls_none());
  ls_status status = ls_bag_take_error(&bag);
  for (int i = 0; ls_status_is_ok(status) && i < 20; ++i) {
    status = ls_function_call(function, ls_none(), result);
    const ls_allocator_counts counts = ls_counting_allocator_counts(memory);
    *(i < 10 ? first : last) = (double)counts.allocations;
  }
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "example", "%s", "done");
  ls_bag_empty(&bag);
  return status;
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_counting_allocator *memory = NULL;
  ls_runtime *runtime = NULL;
  int lines = 0;
  (void)bag;
  LS_RETURN_IF_ERROR(ls_counting_allocator_create(NULL, &memory));
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){.allocator =
                                ls_counting_allocator_allocator(memory),
                            .log = note_line,
                            .log_user = &lines},
      &runtime);
  if (ls_status_is_ok(status)) {
    (void)ls_runtime_make_current(runtime);
    status = call_often(memory, first, last);
    (void)ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  ls_counting_allocator_destroy(memory);
  return ls_status_is_ok(status) && lines != 1 ? ls_internal("%d lines", lines)
                                               : status;
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first > 0 && last == first;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// The same bits on 1 and on 8 threads: a sum over a million numbers, whose
// order of addition does not depend on who adds.
#include <stdio.h>
#include <string.h>

#include "lockstep/lockstep.h"

static ls_nest sum(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(1000, 1000), 0, 1, NULL);
  return ls_leaf(ls_reduce_sum(ls_exp(x), LS_ALL_AXES));
}

static ls_status add_up(int threads, float *out_sum) {
  ls_bag bag = {0};
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(
      ls_runtime_create(&(ls_runtime_options){.threads = threads}, &runtime));
  (void)ls_runtime_make_current(runtime);
  ls_function *function = ls_function_in(&bag, .call = sum);
  ls_nest *result = ls_nest_in(&bag, ls_none());
  ls_status status = ls_bag_take_error(&bag);
  if (ls_status_is_ok(status))
    status = ls_function_call(function, ls_none(), result);
  if (ls_status_is_ok(status))
    memcpy(out_sum, ls_array_data(ls_nest_as_array(*result)), sizeof(*out_sum));
  ls_bag_empty(&bag);
  (void)ls_runtime_make_current(NULL);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

int main(void) {
  float one = 0, eight = 1;
  ls_status status = add_up(1, &one);
  if (ls_status_is_ok(status)) status = add_up(8, &eight);
  printf("%.9g and %.9g %s\n", (double)one, (double)eight,
         ls_status_message(status));
  ls_status_free(status);
  return memcmp(&one, &eight, sizeof(one)) == 0 ? 0 : 1;
}

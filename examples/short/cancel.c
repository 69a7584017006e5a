// SPDX-License-Identifier: Apache-2.0
// Cancelling: another thread ends a loop that would run for ever. Variables
// have the values of its last complete trip.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "lockstep/full.h"

static ls_nest is_true(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_greater_equal(ls_nest_tensor(values, 0),
                                  ls_scalar_i64(LS_DTYPE_I64, 0)));
}

static ls_nest count(ls_nest values, void *user) {
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I64, 1);
  (void)user;
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(values, 0), one)));
}

static ls_nest run_for_ever(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_nest zero = ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0));
  return ls_while(is_true, count, NULL, LS_LIST(zero), 0);
}

static void *cancel_soon(void *user) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  ls_cancel_request(user);
  return NULL;
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_cancel *cancel = NULL;
  pthread_t thread;
  ls_function *function = ls_function_in(bag, .call = run_for_ever);
  ls_nest *result = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_cancel_create(ls_runtime_current(), &cancel));
  (void)ls_cancel_make_current(cancel);
  ls_status status = ls_ok();
  if (pthread_create(&thread, NULL, cancel_soon, cancel) == 0) {
    status = ls_function_call(function, ls_none(), result);
    pthread_join(thread, NULL);
  }
  (void)ls_cancel_make_current(NULL);
  ls_cancel_destroy(cancel);
  *first = LS_CANCELLED;
  *last = ls_status_code(status);
  ls_status_free(status);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && last == first;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

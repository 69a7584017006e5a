// SPDX-License-Identifier: Apache-2.0
// A stream of data that never ends, from functions of one's own: the numbers of
// Fibonacci modulo 1000, in batches of eight.
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/full.h"

typedef struct fibonacci {
  int64_t previous, next;
} fibonacci;

static ls_status open_stream(void *user, int64_t epoch, void **out_state) {
  fibonacci *state = malloc(sizeof(*state));
  (void)user, (void)epoch;
  if (state == NULL) return ls_out_of_memory();
  *state = (fibonacci){0, 1};
  *out_state = state;
  return ls_ok();
}

static ls_status next_number(void *user, ls_nest *out_element) {
  fibonacci *state = user;
  const int64_t sum = (state->previous + state->next) % 1000;
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &state->next, &array));
  *state = (fibonacci){state->next, sum};
  *out_element = ls_nest_array(array);
  return ls_ok();
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_dataset *data = ls_dataset_from_generator(
      &(ls_generator_options){.element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                              .size = LS_SOME(LS_INFINITE),
                              .open = open_stream,
                              .next = next_number,
                              .close = free});
  data = ls_dataset_batch(data, &(ls_batch_options){.size = 8});
  ls_iterator *batches = ls_iterator_in(bag, ls_dataset_in(bag, data));
  ls_nest *batch = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
  *first = ls_array_f64(ls_nest_as_array(*batch), 7);
  LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
  *last = ls_array_f64(ls_nest_as_array(*batch), 7);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first == 21 && last == 987;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

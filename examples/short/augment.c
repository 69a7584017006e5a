// SPDX-License-Identifier: Apache-2.0
// A map on a data set: noise that is drawn anew in each epoch, by the random
// bits that each example is given, so that it does not depend on threads.
#include <math.h>
#include <stdio.h>

#include "lockstep/full.h"

enum { ROWS = 100, SIZE = 4 };

// A number in [-0.1, 0.1) of 64 random bits.
static float jitter(uint64_t bits) {
  return (float)(bits >> 40) / (float)(1 << 24) * 0.2f - 0.1f;
}

static ls_status add_noise(ls_nest element, ls_nest out,
                           const ls_map_call *call, void *user) {
  const float *x = ls_array_data(ls_nest_as_array(element));
  float *y = ls_nest_data(out, 0);
  (void)user;
  uint64_t bits = call->key;
  for (int i = 0; i < SIZE; ++i) {
    y[i] = x[i] + jitter(bits);
    bits = bits * 6364136223846793005u + 1442695040888963407u;
  }
  return ls_ok();
}

// Reads an epoch; sets the first number of its first example.
static ls_status read_epoch(ls_iterator *rows, ls_nest *row,
                            double *out_number) {
  for (int i = 0; i < ROWS; ++i) {
    LS_RETURN_IF_ERROR(ls_iterator_next(rows, row));
    if (i == 0) *out_number = ls_array_f64(ls_nest_as_array(*row), 0);
  }
  return ls_iterator_restart(rows);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_nest ones = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ROWS, SIZE));
  float *numbers = ls_nest_data(ones, 0);
  for (int i = 0; numbers != NULL && i < ROWS * SIZE; ++i)
    numbers[i] = 1;
  ls_dataset *data = ls_dataset_from_arrays(ones);
  data = ls_dataset_map(
      data,
      &(ls_map_options){.fill = add_noise,
                        .result = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(SIZE))});
  ls_iterator *rows = ls_iterator_in(bag, ls_dataset_in(bag, data));
  ls_nest *row = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(read_epoch(rows, row, first));
  return read_epoch(rows, row, last);
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok =
      ls_status_is_ok(status) && first != last && fabs(last - 1) <= 0.1;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

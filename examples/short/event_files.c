// SPDX-License-Identifier: Apache-2.0
// Event files for TensorBoard: numbers, a histogram and a text, from any code.
// `tensorboard --logdir event_files.runs` shows them.
#include <math.h>
#include <stdio.h>

#include "lockstep/full.h"

enum { STEPS = 20 };
static const char folder[] = "event_files.runs";

static ls_status write_values(ls_event_writer *writer) {
  ls_array *values = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(100), &values));
  ls_status status = ls_event_writer_text(writer, "about", 0, "A *decay*.");
  for (int64_t step = 0; ls_status_is_ok(status) && step < STEPS; ++step) {
    for (int64_t i = 0; i < 100; ++i)
      ls_array_set_f64(values, i, sin((double)i) * exp(-0.1 * (double)step));
    status = ls_status_join(
        ls_event_writer_scalar(writer, "size", step, exp(-0.1 * (double)step)),
        ls_event_writer_histogram(writer, "values", step, values));
  }
  ls_array_release(values);
  return status;
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_event_writer *writer = NULL;
  ls_event_numbers *numbers = NULL;
  (void)bag;
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){.folder = folder}, &writer));
  ls_status status = write_values(writer);
  LS_RETURN_IF_ERROR(ls_status_join(status, ls_event_writer_close(writer)));
  LS_RETURN_IF_ERROR(ls_events_read(folder, "size", &numbers));
  if (numbers->count >= STEPS) {
    *first = numbers->items[0].value;
    *last = numbers->items[numbers->count - 1].value;
  }
  ls_event_numbers_destroy(numbers);
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first == 1 && last < 0.2;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

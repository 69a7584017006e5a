// SPDX-License-Identifier: Apache-2.0
// An event file with one of each: half of check-events.
//
// Usage: events FOLDER
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/full.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "events: %s\n", ls_status_message(status));
  exit(1);
}

static ls_array *made(ls_dtype dtype, ls_shape shape, double scale) {
  ls_array *array = NULL;
  must(ls_array_create(dtype, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, (double)i * scale);
  return array;
}

static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest add_outside(ls_nest values, void *user) {
  return ls_leaf(ls_add(ls_nest_tensor(values, 0), *(const ls_tensor *)user));
}

static void add_graph(ls_event_writer *writer) {
  ls_graph *graph = NULL;
  must(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "x");
    const ls_tensor y =
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 3), "y");
    LS_NAME_SCOPE("layer");
    LS_DEVICE_SCOPE("/cpu:0");
    ls_exp(y);
    ls_nest_release(ls_while(below_three, add_outside, &x,
                             ls_leaf(ls_scalar(LS_DTYPE_F32, 1)), 0));
  }
  must(ls_event_writer_graph(writer, graph));
  ls_graph_destroy(graph);
}

// Steps 1 to 10, and from 6 on once more, as a run that goes on does.
static void add_scalars(const char *folder, int64_t first) {
  ls_event_writer *writer = NULL;
  must(ls_event_writer_open(
      &(ls_event_writer_options){.folder = folder, .first_step = first},
      &writer));
  for (int64_t step = first > 0 ? first : 1; step <= 10; ++step)
    must(ls_event_writer_scalar(writer, "again/x", step,
                                (double)step + (double)first));
  must(ls_event_writer_close(writer));
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  add_scalars(argv[1], 0);
  add_scalars(argv[1], 6);
  ls_event_writer *writer = NULL;
  must(ls_event_writer_open(
      &(ls_event_writer_options){.folder = argv[1], .first_step = 11},
      &writer));
  must(ls_event_writer_scalar(writer, "odd\xff", 11, -1e30));
  ls_array *floats = made(LS_DTYPE_F64, LS_SHAPE(1000), 0.25);
  must(ls_event_writer_histogram(writer, "weights", 12, floats));
  ls_array *none = made(LS_DTYPE_F32, LS_SHAPE(0), 1);
  must(ls_event_writer_histogram(writer, "none", 12, none));
  must(ls_event_writer_tensor(writer, "plain", 12, floats));
  must(ls_event_writer_tensor(writer, "nothing", 12, none));
  ls_array *bytes = made(LS_DTYPE_U8, LS_SHAPE(2, 4, 5, 3), 2);
  must(ls_event_writer_image(writer, "pictures", 13, bytes));
  must(ls_event_writer_text(writer, "note", 14, "**bold**, \xc3\xa4"));
  add_graph(writer);
  must(ls_event_writer_close(writer));
  ls_array_release(floats);
  ls_array_release(none);
  ls_array_release(bytes);
  must(ls_runtime_destroy(NULL));
  return 0;
}

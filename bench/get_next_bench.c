// SPDX-License-Identifier: Apache-2.0
//
// What it costs to read an iterator where nobody waits for elements: by a call,
// and by its op in a function and in a session, against the same program on an
// argument. A batch is 128 x 784 floats, which the line has before it is asked
// for; the programs read one number of it. And what it costs to save and to
// restore a position far into a data set, in time and in bytes.
//
// Usage: get_next_bench [ROUNDS]   (default 300)

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { ROWS = 4096, PIXELS = 784, BATCH = 128, MOST_ROUNDS = 10000 };

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "get_next_bench: %s\n", ls_status_message(status));
  exit(EXIT_FAILURE);
}

// ---- Batches ---------------------------------------------------------------
typedef struct bench {
  ls_iterator *iterator;
  ls_nest batch, results;
  ls_function *fed, *function;
  ls_session *session;
  ls_nest fetch;
} bench;

static ls_iterator *open_batches(void) {
  ls_array *rows = NULL;
  must(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ROWS, PIXELS), &rows));
  ls_dataset *data = ls_dataset_from_arrays(ls_nest_array(rows));
  data = ls_dataset_batch(ls_dataset_repeat(data, -1),
                          &(ls_batch_options){.size = BATCH});
  ls_iterator *iterator = NULL;
  must(ls_iterator_create(data, NULL, &iterator));
  ls_dataset_release(data);
  return iterator;
}

static ls_nest first_of(ls_nest batch) {
  return ls_leaf(ls_slice(ls_nest_tensor(batch, 0), LS_SHAPE(0, 0),
                          LS_SHAPE(1, 1), LS_SHAPE(1, 1)));
}

static ls_nest use_argument(ls_nest args, void *user) {
  (void)user;
  return first_of(args);
}

static ls_nest use_op(ls_nest args, void *user) {
  (void)args;
  const ls_nest batch = ls_iterator_get_next(user);
  must(ls_nest_status(batch));
  const ls_nest first = first_of(LS_TUPLE(batch));
  return first;
}

static void call_next(bench *b) {
  must(ls_iterator_next(b->iterator, &b->batch));
}

static void call_fed(bench *b) {
  must(ls_function_call(b->fed, b->batch, &b->results));
}

static void call_function(bench *b) {
  must(ls_function_call(b->function, ls_none(), &b->results));
}

static void call_session(bench *b) {
  must(ls_session_run(b->session, b->fetch, NULL, 0, &b->results));
}

static const struct {
  const char *name;
  void (*call)(bench *b);
} ways[] = {{"ls_iterator_next", call_next},
            {"a function of an argument", call_fed},
            {"a function with the op", call_function},
            {"a session with the op", call_session}};

static double times[4][MOST_ROUNDS];

// Long enough for threads to fill the line, and for them to fall asleep.
static void pause_for(double seconds) {
  const double end = machine_seconds() + seconds;
  while (machine_seconds() < end) {
  }
}

static void time_batches(int rounds) {
  bench b = {.iterator = open_batches()};
  must(
      ls_function_create(&(ls_function_options){.call = use_argument}, &b.fed));
  must(ls_function_create(
      &(ls_function_options){.call = use_op, .user = b.iterator}, &b.function));
  ls_graph *graph = NULL;
  must(ls_graph_create("next", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    b.fetch = use_op(ls_none(), b.iterator);
  }
  must(ls_session_create(graph, &b.session));
  must(ls_iterator_next(b.iterator, &b.batch));
  // One after the other: a thread is called once for several batches, and who
  // calls one pays for that.
  for (int w = 0; w < 4; ++w) {
    double sum = 0;
    for (int round = -5; round < rounds; ++round) {
      pause_for(400e-6);
      const double began = machine_seconds();
      ways[w].call(&b);
      if (round < 0) continue;
      times[w][round] = machine_seconds() - began;
      sum += times[w][round];
    }
    const double median = machine_median(times[w], (size_t)rounds);
    double best = median;
    for (int round = 0; round < rounds; ++round)
      if (times[w][round] < best) best = times[w][round];
    printf("%-28s %7.1f us least, %7.1f median, %7.1f mean\n", ways[w].name,
           best * 1e6, median * 1e6, sum / rounds * 1e6);
  }
  ls_nest_release(b.fetch);
  ls_session_destroy(b.session);
  ls_graph_destroy(graph);
  ls_function_release(b.fed);
  ls_function_release(b.function);
  ls_nest_release(b.batch);
  ls_nest_release(b.results);
  ls_iterator_release(b.iterator);
}

// ---- Positions -------------------------------------------------------------
static ls_status twice(ls_nest element, ls_nest out, const ls_map_call *call,
                       void *user) {
  (void)call, (void)user;
  *(int64_t *)ls_nest_data(out, 0) =
      2 * *(const int64_t *)ls_nest_data(element, 0);
  return ls_ok();
}

static ls_iterator *open_range(void) {
  ls_dataset *data = ls_dataset_range(0, 1000000000, 1);
  data = ls_dataset_map(
      ls_dataset_shuffle(data, NULL),
      &(ls_map_options){.name = "twice",
                        .fill = twice,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
  data = ls_dataset_batch(data, &(ls_batch_options){.size = 8});
  ls_iterator *iterator = NULL;
  must(ls_iterator_create(data, NULL, &iterator));
  ls_dataset_release(data);
  return iterator;
}

// Goes there, saves, restores in another iterator, and reads the same.
static void time_position(int64_t position) {
  ls_iterator *from = open_range(), *to = open_range();
  ls_nest wanted = ls_none(), got = ls_none();
  ls_record *record = NULL;
  char *text = NULL;
  size_t size = 0;
  must(ls_iterator_seek(from, position));
  const double began = machine_seconds();
  must(ls_record_create(&record));
  must(ls_iterator_save(from, record));
  must(ls_record_to_text(record, &text, &size));
  const double saved = machine_seconds();
  ls_record_destroy(record);
  const double begun = machine_seconds();
  must(ls_record_from_text("position", text, size, &record));
  must(ls_iterator_restore(to, record));
  const double restored = machine_seconds();
  must(ls_iterator_next(from, &wanted));
  must(ls_iterator_next(to, &got));
  const bool same = memcmp(ls_nest_data(wanted, 0), ls_nest_data(got, 0),
                           8 * sizeof(int64_t)) == 0;
  printf("batch %9lld of a range: saved in %6.1f us, restored in %6.1f us, "
         "%zu bytes: %s\n",
         (long long)position, (saved - began) * 1e6, (restored - begun) * 1e6,
         size,
         !same ? "WRONG"
         : saved - began < 1e-3 && restored - begun < 1e-3 && size <= 1024
             ? "1 ms and 1 KiB are met"
             : "1 ms and 1 KiB are MISSED");
  ls_text_release(text);
  ls_record_destroy(record);
  ls_nest_release(wanted);
  ls_nest_release(got);
  ls_iterator_release(from);
  ls_iterator_release(to);
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 300;
  if (rounds < 1 || rounds > MOST_ROUNDS) return 2;
  time_batches(rounds);
  time_position(0);
  time_position(1000);
  time_position(100000000);
  return 0;
}

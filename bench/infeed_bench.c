// SPDX-License-Identifier: Apache-2.0
//
// What goes through infeeds: tuples that loops of a host put and the loop of a
// replicated computation takes, in one session run, against memcpy of the same
// bytes from as many places; and numbers a second.
//
// Usage: infeed_bench [-c CORES] [-b BYTES] [-s STEPS] [-n ROUNDS] [-t THREADS]
//                     [-d DEPTH] [-h] [-w]
//   without -c and -b: 100 KB on 8 cores, then numbers on 1,024 cores
//   -h  a thread hands arrays over instead, without ops; by default both
//
//   -w  by the wall, not by the time of the thread that runs the loops

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/full.h"
#include "tpu/pod/core_queues.h"

enum { MOST_CORES = 4096, MOST_ROUNDS = 100, PER_HOST = 8, ARRAYS = 1024 };

typedef struct bench {
  int cores, bytes, steps, rounds, threads, depth;
  bool by_hand;  // A thread hands arrays over, which are in turn these.
  ls_array *arrays[ARRAYS];  // More than caches hold.
  ls_pod *pod;
  ls_infeed_queue *queue;
  ls_tensor values[MOST_CORES / PER_HOST];  // What a host puts.
} bench;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "infeed_bench: %s\n", ls_status_message(status));
  exit(1);
}

static int64_t elements(const bench *b) { return b->bytes / 4; }
static int cores_per_host(const bench *b) {
  return b->cores < PER_HOST ? b->cores : PER_HOST;
}

// Of the wall, or of this thread's processor, for which others do not count.
static clockid_t clock_at_hand = CLOCK_THREAD_CPUTIME_ID;
static double seconds(void) {
  struct timespec now;
  clock_gettime(clock_at_hand, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// ---- The loops -------------------------------------------------------------
// Looks at one number of each tuple, for which all of it must be there.
static ls_nest take(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_slice_axis(ls_nest_tensor(args, 1), 0, 0, 1);
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_reshape(x, LS_SCALAR)));
}

static ls_nest compute(ls_nest args, void *user) {
  bench *b = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {
      .body = take, .user = user, .infeed = b->queue};
  const ls_nest inputs = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  const ls_status status =
      ls_training_repeat(b->steps, &loop, inputs, &outputs);
  ls_nest_release(inputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

typedef struct host {
  const bench *b;
  int number;
} host;

static ls_nest always(ls_nest values, void *user) {
  (void)values, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
}

static ls_nest put(ls_nest values, void *user) {
  const host *h = user;
  char device[60];
  snprintf(device, sizeof(device), "/task:%d/device:CPU:0", h->number);
  LS_DEVICE_SCOPE(device);
  for (int i = 0; i < cores_per_host(h->b); ++i)
    (void)ls_infeed_enqueue_tuple(&h->b->values[h->number], 1, NULL, 0, i);
  return ls_nest_retain(values);
}

static ls_tensor put_loop(host *h) {
  const ls_nest made = ls_while(
      always, put, h, ls_leaf(ls_scalar(LS_DTYPE_F32, 0)), h->b->steps);
  const ls_tensor value = ls_nest_tensor(made, 0);
  ls_nest_release(made);
  return value;
}

// ---- A thread that feeds ---------------------------------------------------
static void *feed_all(void *user) {
  bench *b = user;
  ls_runtime_make_current(b->pod->runtime);
  for (int step = 0; step < b->steps; ++step)
    for (int core = 0; core < b->cores; ++core) {
      char device[60];
      snprintf(device, sizeof(device), "/task:%d/device:TPU:%d",
               core / cores_per_host(b), core % cores_per_host(b));
      const int i = (step * b->cores + core) % ARRAYS;
      check(ls_infeed_put(device, ls_nest_array(b->arrays[i])));
    }
  return NULL;
}

// ---- Building --------------------------------------------------------------
static void make_queue(bench *b) {
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(b->cores * elements(b));
  check(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &b->queue));
}

static ls_tensor device_loop(bench *b) {
  static ls_nest items[MOST_CORES];
  ls_nest outputs = ls_none();
  for (int r = 0; r < b->cores; ++r)
    items[r] = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, r)));
  const ls_nest inputs =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)b->cores);
  check(ls_replicate(compute, b, inputs, NULL, &outputs));
  ls_nest_release(inputs);
  const ls_tensor first = ls_nest_tensor(ls_nest_item(outputs, 0), 0);
  ls_nest_release(outputs);
  return first;
}

static void open_pod(bench *b) {
  const int hosts = b->cores / cores_per_host(b);
  const ls_pod_shape shape = {.mesh = {hosts, cores_per_host(b), 1, 1},
                              .hosts = hosts};
  char name[40];
  snprintf(name, sizeof(name), "bench of %d cores", b->cores);
  check(ls_pod_open(ls_runtime_current(), name, "", &shape, &b->pod));
  if (b->depth > 0) b->pod->queue_depth = b->depth;
  ls_pod_initialize(b->pod);
}

// ---- Measuring -------------------------------------------------------------
static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times, int count) {
  qsort(times, (size_t)count, sizeof(*times), ascending);
  return times[count / 2];
}

// The same bytes, to a place for each core.
static double copy_time(const bench *b, char *to) {
  const size_t size = (size_t)elements(b) * 4;
  const double begin = seconds();
  for (int step = 0; step < b->steps; ++step)
    for (int core = 0; core < b->cores; ++core) {
      const int i = (step * b->cores + core) % ARRAYS;
      memcpy(to + (size_t)core * size, ls_array_data(b->arrays[i]), size);
      __asm__ volatile("" ::"r"(to) : "memory");
    }
  return seconds() - begin;
}

static double run_time(bench *b, ls_session *session, ls_nest all,
                       const ls_feed *feed, ls_nest *results) {
  pthread_t thread;
  const double begin = seconds();
  if (b->by_hand) pthread_create(&thread, NULL, feed_all, b);
  check(ls_session_run(session, all, feed, 1, results));
  if (b->by_hand) pthread_join(thread, NULL);
  return seconds() - begin;
}

static void run(bench *b) {
  static host hosts[MOST_CORES / PER_HOST];
  static ls_nest fetches[MOST_CORES / PER_HOST + 1];
  const int num_hosts = b->cores / cores_per_host(b);
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  open_pod(b);
  make_queue(b);
  check(ls_graph_create("infeed", &graph));
  for (int i = 0; i < ARRAYS; ++i)
    check(ls_array_create(LS_DTYPE_F32, LS_SHAPE(elements(b)), &b->arrays[i]));
  char *place = malloc((size_t)elements(b) * 4 * (size_t)b->cores);
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor value =
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(elements(b)), "value");
    b->values[0] = value;
    for (int h = 0; h < num_hosts; ++h) {
      b->values[h] = value;
      hosts[h] = (host){b, h};
      fetches[h] = b->by_hand ? ls_none() : ls_leaf(put_loop(&hosts[h]));
    }
    fetches[num_hosts] = ls_leaf(device_loop(b));
  }
  const ls_nest all =
      ls_nest_sequence(LS_KIND_LIST, fetches, (size_t)num_hosts + 1);
  check(ls_session_create(graph, &session));
  const ls_feed feed = {b->values[0], b->arrays[0]};
  ls_nest results = ls_none();
  double times[MOST_ROUNDS], copies[MOST_ROUNDS];
  (void)run_time(b, session, all, &feed, &results);
  (void)copy_time(b, place);
  for (int i = 0; i < b->rounds; ++i) {
    copies[i] = copy_time(b, place);
    times[i] = run_time(b, session, all, &feed, &results);
  }
  const double time = median(times, b->rounds);
  const double copy = median(copies, b->rounds);
  const double tuples = (double)b->cores * b->steps;
  printf(
      "%s: %d cores, %d bytes, %d steps: %.0f tuples/s, %.2f GB/s; memcpy %.2f "
      "GB/s, ratio %.2f\n",
      b->by_hand ? "handed over" : "put by ops", b->cores, b->bytes, b->steps,
      tuples / time, tuples * b->bytes / time * 1e-9,
      tuples * b->bytes / copy * 1e-9, copy / time);
  ls_nest_release(all);
  ls_nest_release(results);
  for (int i = 0; i < ARRAYS; ++i)
    ls_array_release(b->arrays[i]);
  free(place);
  ls_session_destroy(session);
  ls_graph_destroy(graph);
  ls_infeed_queue_release(b->queue);
  ls_pod_shut_down(b->pod);
  ls_object_release(b->pod);
}

int main(int argc, char **argv) {
  bench b = {.steps = 200, .rounds = 5};
  for (int c = 0; (c = getopt(argc, argv, "c:b:s:n:t:d:hw")) != -1;) {
    if (c == '?') return 2;
    const int value = optarg != NULL ? atoi(optarg) : 0;
    if (c == 'h') b.by_hand = true;
    if (c == 'w') clock_at_hand = CLOCK_MONOTONIC;
    if (c == 'c') b.cores = value;
    if (c == 'b') b.bytes = value;
    if (c == 's') b.steps = value;
    if (c == 'n') b.rounds = value < MOST_ROUNDS ? value : MOST_ROUNDS;
    if (c == 't') b.threads = value;
    if (c == 'd') b.depth = value;
  }
  ls_runtime *runtime = NULL;
  check(
      ls_runtime_create(&(ls_runtime_options){.threads = b.threads}, &runtime));
  ls_runtime_make_current(runtime);
  const bool is_one = b.cores > 0, is_by_hand = b.by_hand;
  for (int k = 0; k < (is_one ? 1 : 4); ++k) {
    b.by_hand = is_one ? is_by_hand : k % 2 == 1;
    if (!is_one) b.cores = k < 2 ? 8 : 1024;
    if (!is_one || b.bytes == 0) b.bytes = k < 2 && !is_one ? 100000 : 4;
    run(&b);
  }
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints against what the machine does with as many bytes: a copy in
// memory on the same threads, write and fsync, read into memory that was
// touched before. All take turns; times are medians over the rounds, ratios are
// medians of each round's.
//
// A save blocks while it copies and is written while steps go on: those of the
// model mlp, on all threads, are timed with and without one. What restores read
// was written just before, so it comes from the system's cache.
//
// Usage: checkpoint_bench [-m MIB] [-t THREADS] [-n ROUNDS] [-d FOLDER] [-j]
//   -j  prints one line of JSON

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "common/machine.h"
#include "lockstep/full.h"

enum { MIB = 1 << 20, MOST_ROUNDS = 100, TENSORS = 64, PIECE = 8 * MIB };

typedef struct options {
  size_t bytes;
  int threads, rounds;
  const char *folder;
  bool json;
} options;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "checkpoint_bench: %s\n", ls_status_message(status));
  exit(1);
}

static void must(bool done, const char *what) {
  if (done) return;
  perror(what);
  exit(1);
}

// ---- Figures ---------------------------------------------------------------
typedef enum figure {
  COPY,     // memcpy, on all threads.
  BLOCK,    // What a save blocks.
  WRITE,    // write and fsync.
  DURABLE,  // From a save's beginning until it is on the disk.
  READ,     // read, by one thread, of what the system's cache has.
  RESTORE,
  READ_DISK,  // The same of what it has not.
  RESTORE_DISK,
  STEP,       // A step of a model, alone,
  STEP_SAVE,  //   and while a checkpoint is written.
  BESIDE,     // Until that one is on the disk.
  FIGURES
} figure;
static double times[FIGURES][MOST_ROUNDS];

static double median(figure f, int rounds) {
  double copy[MOST_ROUNDS];
  memcpy(copy, times[f], (size_t)rounds * sizeof(*copy));
  return machine_median(copy, (size_t)rounds);
}

static double ratio(figure a, figure b, int rounds) {
  double ratios[MOST_ROUNDS];
  for (int i = 0; i < rounds; ++i)
    ratios[i] = times[a][i] / times[b][i];
  return machine_median(ratios, (size_t)rounds);
}

// ---- Roofs -----------------------------------------------------------------
static char *from, *to;  // As many bytes as the variables have.
static char plain_path[4096], aside_path[4096];

static double write_plain(size_t bytes) {
  const double begin = machine_seconds();
  const int file = open(aside_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  must(file >= 0, aside_path);
  for (size_t at = 0; at < bytes; at += PIECE) {
    const size_t some = bytes - at < PIECE ? bytes - at : PIECE;
    must(write(file, from + at, some) == (ssize_t)some, aside_path);
  }
  must(fsync(file) == 0, aside_path);
  close(file);
  must(rename(aside_path, plain_path) == 0, plain_path);
  return machine_seconds() - begin;
}

// The whole file that a restore is going to read, with its head.
static double read_file(const char *path, size_t bytes) {
  const double begin = machine_seconds();
  const int file = open(path, O_RDONLY);
  must(file >= 0, path);
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = read(file, to + at, bytes - at);
    must(got > 0, path);
    at += (size_t)got;
  }
  close(file);
  return machine_seconds() - begin;
}

// The system's cache forgets a file.
static void forget(const char *path) {
  const int file = open(path, O_RDONLY);
  must(file >= 0, path);
  must(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
  close(file);
}

// ---- Steps of a model ------------------------------------------------------
typedef struct trainer {
  ls_model model;
  ls_function *function;
  ls_strategy *strategy;
  ls_nest args, results;
} trainer;

static void make_trainer(trainer *t) {
  const ls_model_type *type = ls_model_find("mlp");
  t->results = ls_none();
  check(ls_mirrored_strategy_create(&(ls_mirrored_options){0}, &t->strategy));
  check(ls_model_create(type, NULL, &t->model));
  check(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = t->model.self},
      &t->function));
  ls_nest batch = ls_none();
  check(ls_model_synthetic_batch(type, 512, &batch));
  check(ls_train_split(t->strategy, batch, &t->args));
  ls_nest_release(batch);
}

// Seconds of a step, over steps until so much time has passed.
static double run_steps(trainer *t, double seconds) {
  const double begin = machine_seconds();
  double now = begin;
  int steps = 0;
  do {
    check(ls_strategy_run(t->strategy, ls_traced(t->function), t->args,
                          &t->results));
    ++steps;
    now = machine_seconds();
  } while (now - begin < seconds);
  return (now - begin) / steps;
}

static void release_trainer(trainer *t) {
  ls_nest_release(t->results);
  ls_nest_release(t->args);
  ls_function_release(t->function);
  ls_model_destroy(&t->model);
  ls_strategy_release(t->strategy);
}

// ---- Checkpoints -----------------------------------------------------------
typedef struct world {
  ls_counting_allocator *counting;
  ls_runtime *runtime;
  ls_variable *variables[TENSORS];
  char names[TENSORS][16];
  ls_saver saver;
  ls_checkpoints *checkpoints;
  size_t save_bytes, restore_bytes;  // Memory that they took.
  const char *folder;
  double first;  // What the first save blocked.
} world;

static void make_variables(world *w, size_t bytes) {
  const int64_t size = (int64_t)(bytes / TENSORS / sizeof(float));
  for (int i = 0; i < TENSORS; ++i) {
    snprintf(w->names[i], sizeof(w->names[i]), "weights_%d", i);
    ls_array *array = NULL;
    check(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(size),
                               from + (size_t)i * (size_t)size * sizeof(float),
                               &array));
    check(ls_variable_create(
        &(ls_variable_options){.name = w->names[i], .initial_array = array},
        &w->variables[i]));
    ls_array_release(array);
  }
  w->saver = (ls_saver){.variables = w->variables, .num_variables = TENSORS};
}

static size_t live(const world *w) {
  return ls_counting_allocator_counts(w->counting).live_bytes;
}

static size_t peak(const world *w) {
  return ls_counting_allocator_counts(w->counting).peak_bytes;
}

static double save(world *w, int64_t step) {
  const double begin = machine_seconds();
  check(ls_checkpoints_save(w->checkpoints, step, NULL, 0));
  return machine_seconds() - begin;
}

static double restore(world *w) {
  const double begin = machine_seconds();
  check(ls_checkpoints_restore(w->checkpoints, NULL, NULL));
  return machine_seconds() - begin;
}

// Also the memory that saves and restores take, at their first time.
static void open_and_measure_memory(world *w, const char *folder) {
  const ls_checkpoints_options kept = {
      .folder = folder, .values = &w->saver, .keep = LS_SOME(1)};
  // Nothing has been more than what there is now and a part of this.
  const size_t before = live(w);
  check(ls_checkpoints_open(&kept, &w->checkpoints));
  w->first = save(w, 1);
  check(ls_checkpoints_wait(w->checkpoints));
  w->save_bytes = peak(w) - before;
  check(ls_checkpoints_close(w->checkpoints));
  ls_checkpoints_options again = kept;
  again.background = LS_FLAG_OFF;
  check(ls_checkpoints_open(&again, &w->checkpoints));
  // Makes what restores take visible behind the peak of the save.
  void *filler = ls_allocate(ls_counting_allocator_allocator(w->counting),
                             peak(w) - live(w));
  const size_t high = peak(w);
  (void)restore(w);
  w->restore_bytes = peak(w) - high;
  ls_release(ls_counting_allocator_allocator(w->counting), filler);
  check(ls_checkpoints_close(w->checkpoints));
  check(ls_checkpoints_open(&kept, &w->checkpoints));
  (void)save(w, 2);
}

// Steps from the beginning of a save until it is on the disk: its .json is
// there. Also how long that took.
static double steps_beside_a_save(world *w, trainer *t, int64_t step,
                                  double *out_durable) {
  char path[4200];
  snprintf(path, sizeof(path), "%s/model.ckpt-%lld.json", w->folder,
           (long long)step);
  (void)save(w, step);
  const double begin = machine_seconds();
  int steps = 0;
  for (; steps == 0 || access(path, F_OK) != 0; ++steps)
    (void)run_steps(t, 0);
  *out_durable = machine_seconds() - begin;
  check(ls_checkpoints_wait(w->checkpoints));
  return *out_durable / steps;
}

// So that nobody pays for what another has left to do, such as blocks that were
// freed.
static void settle(void) { sync(); }

static void run_round(world *w, trainer *t, const options *o, int i) {
  const int64_t step = 10 + 2 * i;
  check(ls_checkpoints_wait(w->checkpoints));
  times[COPY][i] = machine_copy_run(o->threads, to, from, o->bytes);
  settle();
  times[WRITE][i] = write_plain(o->bytes);
  settle();
  const double begin = machine_seconds();
  times[BLOCK][i] = save(w, step);
  check(ls_checkpoints_wait(w->checkpoints));
  times[DURABLE][i] = machine_seconds() - begin;
  char path[4200];
  snprintf(path, sizeof(path), "%s/model.ckpt-%lld.safetensors", w->folder,
           (long long)step);
  forget(path);
  times[READ_DISK][i] = read_file(path, o->bytes);
  forget(path);
  times[RESTORE_DISK][i] = restore(w);
  times[READ][i] = read_file(path, o->bytes);
  times[RESTORE][i] = restore(w);
  times[STEP][i] = run_steps(t, times[DURABLE][i] * 0.8);
  times[STEP_SAVE][i] = steps_beside_a_save(w, t, step + 1, &times[BESIDE][i]);
}

// ---- What came out ---------------------------------------------------------
static void print_row(const char *what, double value, double roof,
                      double target) {
  printf("%-44s %9.3f %9.3f   %s\n", what, value / roof, target,
         value / roof <= target ? "met" : "NOT MET");
}

static void print(const world *w, const options *o) {
  const int n = o->rounds;
  const double mib = (double)o->bytes / MIB;
  const char *const names[FIGURES] = {"memcpy",
                                      "save blocks",
                                      "write + fsync",
                                      "save is durable",
                                      "read",
                                      "restore",
                                      "read from the disk",
                                      "restore from the disk",
                                      "step",
                                      "step beside a save",
                                      "durable beside steps"};
  if (o->json) {
    printf("{\"mib\": %.0f, \"threads\": %d", mib, o->threads);
    for (int f = 0; f < FIGURES; ++f)
      printf(", \"%s\": %.6f", names[f], median((figure)f, n));
    printf("}\n");
    return;
  }
  printf("%.0f MiB in %d variables, %d threads, %d rounds\n", mib, TENSORS,
         o->threads, n);
  for (int f = 0; f < FIGURES; ++f)
    printf("%-44s %9.2f ms %9.2f GB/s\n", names[f], median((figure)f, n) * 1e3,
           f < STEP ? (double)o->bytes * 1e-9 / median((figure)f, n) : 0);
  printf("%-44s %9.2f ms\n", "the first save blocks", w->first * 1e3);
  printf("%-44s %9s %9s\n", "", "ratio", "target");
  print_row("a save blocks, in memcpys", ratio(BLOCK, COPY, n), 1, 1.3);
  print_row("memory of a save, in states", (double)w->save_bytes,
            (double)o->bytes, 1.05);
  print_row("durable, in write + fsync", ratio(DURABLE, WRITE, n), 1, 1.1);
  print_row("steps beside a save", ratio(STEP_SAVE, STEP, n), 1, 1.1);
  print_row("restore, in reads by one thread", ratio(RESTORE, READ, n), 1,
            1.15);
  print_row("restore from the disk, in reads",
            ratio(RESTORE_DISK, READ_DISK, n), 1, 1.15);
  print_row("memory of a restore, in 8 MiB", (double)w->restore_bytes, 8 * MIB,
            1);
}

static options parse(int argc, char **argv) {
  options o = {(size_t)512 * MIB, 2, 5, ".", false};
  int c = 0;
  while ((c = getopt(argc, argv, "m:t:n:d:j")) != -1) {
    if (c == 'm') o.bytes = (size_t)atoi(optarg) * MIB;
    if (c == 't') o.threads = atoi(optarg);
    if (c == 'n') o.rounds = atoi(optarg);
    if (c == 'd') o.folder = optarg;
    if (c == 'j') o.json = true;
    if (c == '?') exit(2);
  }
  if (o.rounds < 1 || o.rounds > MOST_ROUNDS || o.bytes < MIB) exit(2);
  return o;
}

int main(int argc, char **argv) {
  const options o = parse(argc, argv);
  char folder[4000], command[4100];
  snprintf(folder, sizeof(folder), "%s/checkpoint_bench.%d", o.folder,
           (int)getpid());
  from = ls_allocate_large(ls_allocator_system(), o.bytes);
  to = ls_allocate_large(ls_allocator_system(), o.bytes);
  must(from != NULL && to != NULL, "memory");
  for (size_t i = 0; i < o.bytes; ++i)
    from[i] = (char)(i * 2654435761u >> 13);
  memset(to, 1, o.bytes);

  world w = {0};
  trainer t = {0};
  check(ls_counting_allocator_create(NULL, &w.counting));
  check(ls_runtime_create(
      &(ls_runtime_options){.allocator =
                                ls_counting_allocator_allocator(w.counting),
                            .threads = o.threads},
      &w.runtime));
  ls_runtime_make_current(w.runtime);
  make_variables(&w, o.bytes);
  w.folder = folder;
  open_and_measure_memory(&w, folder);
  snprintf(plain_path, sizeof(plain_path), "%s/plain", folder);
  snprintf(aside_path, sizeof(aside_path), "%s/plain.new", folder);
  make_trainer(&t);
  (void)run_steps(&t, 0.3);
  for (int i = 0; i < o.rounds; ++i)
    run_round(&w, &t, &o, i);
  print(&w, &o);
  check(ls_checkpoints_close(w.checkpoints));
  release_trainer(&t);
  for (int i = 0; i < TENSORS; ++i)
    ls_variable_release(w.variables[i]);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(w.runtime));
  ls_counting_allocator_destroy(w.counting);
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  return system(command) == 0 ? 0 : 1;
}

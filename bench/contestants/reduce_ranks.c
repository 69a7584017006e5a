// SPDX-License-Identifier: Apache-2.0
//
// Contestants of bench/all_reduce --ranks, under mpirun: a sum over the ranks
// of a vector each, in the canonical order, by exchanges of a communicator over
// MPI, and MPI_Allreduce of the same MPI. They take turns, and rank 0 prints a
// line for each size:
//
//   {"bytes": 4, "ours": [...], "mpi": [...], "exact": true}
//
// with the microseconds of each sum, in turns of equal length; "exact" says
// that MPI's sums have the bits of ours.
//
// Usage: reduce_ranks SECONDS TURNS BYTES...

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/mpi.h"

enum { MOST_RANKS = 64, MOST_TIMES = 4096, SMALL = 16 << 10 };

typedef struct contest {
  ls_communicator *ranks;
  size_t count;  // Floats of a vector.
  float *vector, *sum, *sum_of_mpi;
  float *parts;   // Of each rank: a vector if it is small, or else its part.
  uint64_t step;  // Number of sums so far.
  bool uses_mpi;
} contest;

// ---- Our sum ---------------------------------------------------------------
static void add(float *restrict to, const float *restrict other, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] += other[i];
}

static void add_two(float *restrict to, const float *restrict left,
                    const float *restrict right, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = left[i] + right[i];
}

// Adds what the ranks have, one behind the other with a stride, in the order of
// a balanced tree, and writes the sum.
static void add_up(float *to, float *parts, size_t stride, size_t count,
                   int32_t ranks) {
  int32_t step = 1;
  for (; 2 * step < ranks; step *= 2)
    for (int32_t k = 0; k + step < ranks; k += 2 * step)
      add(parts + (size_t)k * stride, parts + (size_t)(k + step) * stride,
          count);
  if (ranks > 1)
    add_two(to, parts, parts + (size_t)step * stride, count);
  else
    memcpy(to, parts, count * sizeof(*to));
}

static size_t first_of(const contest *self, int32_t rank) {
  return self->count * (size_t)rank / (size_t)self->ranks->ranks;
}

// Sends everything to all: one latency.
static ls_status sum_small(contest *self) {
  const ls_communicator *ranks = self->ranks;
  const size_t size = self->count * sizeof(float);
  const ls_exchange_name name = {.step = self->step};
  memcpy(self->parts + (size_t)ranks->rank * self->count, self->vector, size);
  LS_RETURN_IF_ERROR(
      ls_communicator_gather(self->ranks, &name, self->parts, size));
  add_up(self->sum, self->parts, self->count, self->count, ranks->ranks);
  return ls_ok();
}

// Sends part j to rank j, which adds it up and sends the sum to all.
static ls_status sum_large(contest *self) {
  const int32_t rank = self->ranks->rank, ranks = self->ranks->ranks;
  const size_t first = first_of(self, rank);
  const size_t own = first_of(self, rank + 1) - first;
  ls_exchange_piece pieces[2 * MOST_RANKS];
  for (int32_t k = 0; k < ranks; ++k) {
    const size_t at = first_of(self, k);
    pieces[2 * k] = (ls_exchange_piece){
        self->vector + at, (first_of(self, k + 1) - at) * sizeof(float),
        .from = rank, .to = k};
    pieces[2 * k + 1] =
        (ls_exchange_piece){self->parts + (size_t)k * own, own * sizeof(float),
                            .from = k, .to = rank};
  }
  memcpy(self->parts + (size_t)rank * own, self->vector + first,
         own * sizeof(float));
  LS_RETURN_IF_ERROR(ls_communicator_exchange(
      self->ranks, &(ls_exchange_name){.step = self->step}, pieces,
      2 * (size_t)ranks));
  add_up(self->sum + first, self->parts, own, own, ranks);
  for (int32_t k = 0; k < ranks; ++k) {
    const size_t at = first_of(self, k);
    pieces[k] = (ls_exchange_piece){
        self->sum + at, (first_of(self, k + 1) - at) * sizeof(float), .from = k,
        .to = LS_EACH_RANK};
  }
  return ls_communicator_exchange(
      self->ranks, &(ls_exchange_name){.step = self->step, .phase = 1}, pieces,
      (size_t)ranks);
}

static ls_status sum_once(contest *self) {
  ++self->step;
  if (!self->uses_mpi)
    return self->count * sizeof(float) <= SMALL ? sum_small(self)
                                                : sum_large(self);
  MPI_Allreduce(self->vector, self->sum_of_mpi, (int)self->count, MPI_FLOAT,
                MPI_SUM, MPI_COMM_WORLD);
  return ls_ok();
}

// ---- Turns -----------------------------------------------------------------
// Times so many sums, all ranks from the same moment on.
static ls_status take_turn(contest *self, bool uses_mpi, int count,
                           double *times) {
  self->uses_mpi = uses_mpi;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(sum_once(self));
    times[i] = (machine_seconds() - before) * 1e6;
  }
  return ls_ok();
}

// Finds how many sums fill the seconds of a turn, the same on all ranks.
static ls_status count_sums(contest *self, double seconds, int *out_count) {
  double times[8], total = 0;
  LS_RETURN_IF_ERROR(take_turn(self, false, 8, times));
  LS_RETURN_IF_ERROR(take_turn(self, true, 8, times));
  for (int i = 0; i < 8; ++i)
    total += times[i];
  const double wanted = seconds * 8e6 / total;
  *out_count = wanted < 3 ? 3 : wanted > MOST_TIMES ? MOST_TIMES : (int)wanted;
  MPI_Bcast(out_count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return ls_ok();
}

static void print_times(const char *name, const double *times, int count) {
  printf("\"%s\": [", name);
  for (int i = 0; i < count; ++i)
    printf("%s%.4g", i > 0 ? "," : "", times[i]);
  printf("], ");
}

static ls_status time_size(contest *self, double seconds, int turns) {
  double *times[2] = {NULL, NULL};
  int count = 0;
  LS_RETURN_IF_ERROR(count_sums(self, seconds, &count));
  for (int i = 0; i < 2; ++i)
    times[i] = calloc((size_t)(turns * count), sizeof(double));
  for (int turn = 0; turn < 2 * turns; ++turn) {
    // The first of a round is another one each time.
    const bool uses_mpi = (turn + turn / 2) % 2 == 1;
    LS_RETURN_IF_ERROR(
        take_turn(self, uses_mpi, count, times[uses_mpi] + turn / 2 * count));
  }
  if (self->ranks->rank == 0) {
    printf("{\"bytes\": %zu, ", self->count * sizeof(float));
    print_times("ours", times[0], turns * count);
    print_times("mpi", times[1], turns * count);
    printf("\"exact\": %s}\n",
           memcmp(self->sum, self->sum_of_mpi, self->count * sizeof(float)) == 0
               ? "true"
               : "false");
    fflush(stdout);
  }
  free(times[0]);
  free(times[1]);
  return ls_ok();
}

// ---- Main ------------------------------------------------------------------
static ls_status run_size(ls_communicator *ranks, size_t size, double seconds,
                          int turns) {
  contest self = {.ranks = ranks, .count = size / sizeof(float)};
  self.vector = malloc(size);
  self.sum = malloc(size);
  self.sum_of_mpi = malloc(size);
  self.parts = malloc((size + sizeof(float)) * (size_t)ranks->ranks);
  for (size_t i = 0; i < self.count; ++i)
    self.vector[i] = (float)(ranks->rank + 1) / (float)(i % 1000 + 3);
  const ls_status status = time_size(&self, seconds, turns);
  free(self.vector);
  free(self.sum);
  free(self.sum_of_mpi);
  free(self.parts);
  return status;
}

int main(int argc, char **argv) {
  ls_communicator *ranks = NULL;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  ls_status status = ls_mpi_open(
      &(ls_mpi_options){.communicator =
                            LS_SOME((long long)MPI_Comm_c2f(MPI_COMM_WORLD))},
      &ranks);
  for (int i = 3; i < argc && ls_status_is_ok(status); ++i)
    status = run_size(ranks, strtoull(argv[i], NULL, 10), atof(argv[1]),
                      atoi(argv[2]));
  if (ls_status_is_ok(status)) status = ls_mpi_close(ranks);
  if (!ls_status_is_ok(status)) {
    fprintf(stderr, "%s: %s\n", ls_code_name(ls_status_code(status)),
            ls_status_message(status));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}

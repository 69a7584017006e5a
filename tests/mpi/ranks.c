// SPDX-License-Identifier: Apache-2.0
//
// A rank of `mpirun`, which initializes MPI by itself: exchanges of every form,
// and trainings that give the bytes of one process. Prints what went wrong, and
// ends with 1 then.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/mpi.h"
#include "support/crossing.h"
#include "support/rank_job.h"
#include "support/small_models.h"

// ---- Exchanges -------------------------------------------------------------
static ls_status check_ranks(const ls_communicator *ranks, int expected) {
  if (ranks->ranks != expected || ranks->local_ranks != expected ||
      ranks->local_rank != ranks->rank)
    return ls_internal("rank %d of %d, here %d of %d; %d were started",
                       ranks->rank, ranks->ranks, ranks->local_rank,
                       ranks->local_ranks, expected);
  for (int32_t k = 0; k < ranks->ranks; ++k)
    if (strcmp(ranks->host(ranks, k), ranks->host(ranks, 0)) != 0)
      return ls_internal("rank %d is on host '%s'", k, ranks->host(ranks, k));
  return ls_ok();
}

static ls_status exchange_all(ls_communicator *ranks) {
  size_t sizes[] = {0, 1, 999, 4000, 4001, 70000, 1 << 20};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i)
    LS_RETURN_IF_ERROR(cross(ranks, &sizes[i]));
  for (int i = 0; i < 6; ++i)
    LS_RETURN_IF_ERROR(cross_in_disorder(ranks, NULL));
  return gather_and_broadcast(ranks, NULL);
}

// ---- Trainings -------------------------------------------------------------
// Trains as a rank and alone, and compares what each step gives, and the
// variables at the end.
static ls_status train_both(ls_communicator *ranks, const ls_model_type *type,
                            int replicas, int64_t batch) {
  LS_OWN(rank_job, alone) = {.type = type,
                             .replicas = replicas,
                             .steps = 5,
                             .threads = 1,
                             .batch = batch};
  LS_OWN(rank_job, together) = alone;
  rank_job_init(&alone);
  rank_job_init(&together);
  LS_RETURN_IF_ERROR(ls_standin_run(1, rank_job_train, &alone));
  LS_RETURN_IF_ERROR(rank_job_train(ranks, &together));
  const rank_record *expected = &alone.records[0];
  const rank_record *got = &together.records[ranks->rank];
  if (expected->size == 0 || got->size != expected->size ||
      memcmp(got->bytes, expected->bytes, got->size) != 0)
    return ls_internal("rank %d of %d has other bytes of %s", ranks->rank,
                       ranks->ranks, type->name);
  return ls_ok();
}

static ls_status train_all(ls_communicator *ranks) {
  LS_RETURN_IF_ERROR(train_both(ranks, &small_mlp, 8, 64));
  LS_RETURN_IF_ERROR(train_both(ranks, &small_mlp, 8, 61));
  LS_RETURN_IF_ERROR(train_both(ranks, &small_cnn, 8, 64));
  return train_both(ranks, &small_gpt, 8, 32);
}

static ls_status run_tests(ls_communicator *ranks, int expected) {
  LS_RETURN_IF_ERROR(check_ranks(ranks, expected));
  LS_RETURN_IF_ERROR(exchange_all(ranks));
  return train_all(ranks);
}

int main(int argc, char **argv) {
  ls_communicator *ranks = NULL;
  ls_status status = ls_mpi_open(NULL, &ranks);
  if (ls_status_is_ok(status)) {
    status = run_tests(ranks, argc > 1 ? atoi(argv[1]) : 0);
    if (!ls_status_is_ok(status)) ranks->cancel(ranks, status);
  }
  status = ls_status_join(status, ls_mpi_close(ranks));
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "%s: %s\n", ls_code_name(ls_status_code(status)),
          ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}

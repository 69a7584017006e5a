// SPDX-License-Identifier: Apache-2.0
//
// A program of MPI's own, of three processes, which lends communicators: all
// of its processes become ranks, or some of them; ranks fail and end; and MPI
// is the program's again in the end.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/mpi.h"
#include "support/crossing.h"

enum { RANKS = 3 };

typedef ls_status (*rank_function)(ls_communicator *ranks, void *user);

// Runs a function on ranks of a communicator, and closes them.
static ls_status run_on(MPI_Comm comm, rank_function function, void *user) {
  ls_communicator *ranks = NULL;
  const ls_mpi_options options = {.communicator =
                                      LS_SOME((long long)MPI_Comm_c2f(comm))};
  LS_RETURN_IF_ERROR(ls_mpi_open(&options, &ranks));
  ls_status status = function(ranks, user);
  if (!ls_status_is_ok(status)) ranks->cancel(ranks, status);
  return ls_status_join(status, ls_mpi_close(ranks));
}

static ls_status expect(ls_status status, ls_code code, const char *part) {
  if (ls_status_code(status) == code &&
      strstr(ls_status_message(status), part) != NULL) {
    ls_status_free(status);
    return ls_ok();
  }
  return ls_status_annotate(ls_status_join(status, ls_internal("it is OK")),
                            "expected %s and '%s'", ls_code_name(code), part);
}

// ---- Failures and ends -----------------------------------------------------
// Exchanges something with rank 1, which does not answer.
static ls_status exchange_in_vain(ls_communicator *ranks, size_t size,
                                  int32_t salt) {
  crossing each;
  crossing_init(&each, ranks, size, salt);
  ls_status status = ranks->start(ranks, &each.exchange);
  if (ls_status_is_ok(status)) status = ranks->wait(ranks, &each.exchange);
  crossing_deinit(&each, ranks);
  return status;
}

// Waits for exchanges, small and large, some of which may be refused already.
static ls_status wait_for_rank_one(ls_communicator *ranks, ls_code code,
                                   const char *part) {
  crossing large;
  crossing_init(&large, ranks, 1 << 20, 2);
  ls_status status = ranks->start(ranks, &large.exchange);
  if (ls_status_is_ok(status)) {
    status = expect(exchange_in_vain(ranks, 16, 1), code, part);
    status = ls_status_join(
        status, expect(ranks->wait(ranks, &large.exchange), code, part));
  } else {
    status = expect(status, code, part);
  }
  crossing_deinit(&large, ranks);
  LS_RETURN_IF_ERROR(status);
  return expect(exchange_in_vain(ranks, 1 << 20, 3), code, part);
}

static ls_status fail_on_rank_one(ls_communicator *ranks, void *user) {
  size_t size = 70000;
  (void)user;
  if (ranks->rank == 1) {
    ls_status status = LS_STATUS(LS_DATA_LOSS, "the file is torn");
    ranks->cancel(ranks, status);
    ls_status_free(status);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(wait_for_rank_one(ranks, LS_DATA_LOSS, "on rank 1 of 3"));
  return expect(cross(ranks, &size), LS_DATA_LOSS, "the file is torn");
}

static ls_status end_on_rank_one(ls_communicator *ranks, void *user) {
  (void)user;
  if (ranks->rank == 1) return ls_ok();
  return wait_for_rank_one(ranks, LS_FAILED_PRECONDITION, "has ended");
}

// ---- Failures of MPI -------------------------------------------------------
// MPI's own function, of which calls from some number on fail.
static int num_receives, first_bad = INT_MAX, num_cancels;

LS_API int MPI_Irecv(void *data, int count, MPI_Datatype type, int source,
                     int tag, MPI_Comm comm, MPI_Request *request) {
  return ++num_receives < first_bad
             ? PMPI_Irecv(data, count, type, source, tag, comm, request)
             : MPI_ERR_INTERN;
}

LS_API int MPI_Cancel(MPI_Request *request) {
  ++num_cancels;
  return PMPI_Cancel(request);
}

// Expects that what was begun is cancelled before its memory is free.
static ls_status fail_to_open(void) {
  ls_communicator *ranks = NULL;
  num_receives = num_cancels = 0;
  first_bad = 6;
  const ls_mpi_options options = {
      .communicator = LS_SOME((long long)MPI_Comm_c2f(MPI_COMM_SELF))};
  const ls_status status = expect(ls_mpi_open(&options, &ranks), LS_UNAVAILABLE,
                                  "receive messages");
  first_bad = INT_MAX;
  LS_RETURN_IF_ERROR(status);
  return num_receives == 6 && num_cancels == 5
             ? ls_ok()
             : ls_internal("%d of %d receives were cancelled", num_cancels,
                           num_receives - 1);
}

// Lets rank 1 fail to receive.
static ls_status fail_to_receive(ls_communicator *ranks, void *user) {
  (void)user;
  first_bad = ranks->rank == 1 ? 0 : INT_MAX;
  ls_status status = ls_ok();
  for (int32_t i = 0; i < 100 && ls_status_is_ok(status); ++i)
    status = exchange_in_vain(ranks, 16, i);
  first_bad = INT_MAX;
  LS_RETURN_IF_ERROR(expect(status, LS_UNAVAILABLE, "rank 1 cannot receive"));
  return ranks->failed_rank == 1
             ? ls_ok()
             : ls_internal("rank %d has failed, not 1", ranks->failed_rank);
}

// ---- The program -----------------------------------------------------------
static ls_status refuse(long long handle, const char *part) {
  ls_communicator *ranks = NULL;
  return expect(ls_mpi_open(&(ls_mpi_options){.communicator = LS_SOME(handle)},
                            &ranks),
                LS_INVALID_ARGUMENT, part);
}

static ls_status refuse_no_communicator(void) {
  LS_RETURN_IF_ERROR(refuse(MPI_Comm_c2f(MPI_COMM_NULL), "of this handle"));
  LS_RETURN_IF_ERROR(refuse(99999, "communicator 99999: MPI has none"));
  return refuse(1LL << 32, "communicator 4294967296: handles");
}

static ls_status run_tests(int rank) {
  MPI_Comm some = MPI_COMM_NULL;
  size_t size = 5000;
  LS_RETURN_IF_ERROR(run_on(MPI_COMM_WORLD, gather_and_broadcast, NULL));
  LS_RETURN_IF_ERROR(run_on(MPI_COMM_SELF, cross, &size));
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1, 0, &some);
  LS_RETURN_IF_ERROR(run_on(some, cross, &size));
  MPI_Comm_free(&some);
  LS_RETURN_IF_ERROR(run_on(MPI_COMM_WORLD, fail_on_rank_one, NULL));
  LS_RETURN_IF_ERROR(run_on(MPI_COMM_WORLD, end_on_rank_one, NULL));
  LS_RETURN_IF_ERROR(refuse_no_communicator());
  LS_RETURN_IF_ERROR(fail_to_open());
  LS_RETURN_IF_ERROR(run_on(MPI_COMM_WORLD, cross_in_disorder, NULL));
  // Rank 1 does not hear that the others end.
  const ls_status last = run_on(MPI_COMM_WORLD, fail_to_receive, NULL);
  return rank == 1 ? expect(last, LS_UNAVAILABLE, "does not end") : last;
}

int main(int argc, char **argv) {
  int level = 0, rank = 0, sum = 0;
  const bool is_funneled = argc > 1 && strcmp(argv[1], "funneled") == 0;
  MPI_Init_thread(&argc, &argv,
                  is_funneled ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE,
                  &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ls_status status = run_tests(rank);
  if (!ls_status_is_ok(status)) {
    fprintf(stderr, "rank %d: %s: %s\n", rank,
            ls_code_name(ls_status_code(status)), ls_status_message(status));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return sum == RANKS * (RANKS - 1) / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

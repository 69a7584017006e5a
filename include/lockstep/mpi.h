// SPDX-License-Identifier: Apache-2.0
// Layer: net
//
// Ranks over MPI: the communicator of the processes that `mpirun -n 4 PROGRAM`
// starts, or of those of a communicator of the program's own.
//
//   ls_communicator *ranks = NULL;
//   ls_status status = ls_mpi_open(NULL, &ranks);
//   ... ls_runtime_create(&(ls_runtime_options){.communicator = ranks}, ...)
//   ... ls_runtime_destroy(runtime)
//   status = ls_mpi_close(ranks);
//
// The library itself is not linked with MPI: it loads a module for the MPI that
// is there, Open MPI or MPICH. A process becomes a rank by ls_mpi_open only,
// never because of its environment.
//
// Threads: ls_mpi_open and ls_mpi_close are for the thread that initializes
// MPI. The communicator is thread-safe, and calls MPI on one thread at a time.
// A program that has initialized MPI itself chooses: with MPI_THREAD_FUNNELED
// it makes all calls that train on the thread that did so, with
// MPI_THREAD_SERIALIZED on no two threads at the same time, and MPI is called
// inside these calls only, so that no rank is found to be lost or slow between
// them; with MPI_THREAD_MULTIPLE a thread of the communicator does so all the
// time. ls_mpi_find_launcher is thread-safe.
#ifndef LOCKSTEP_MPI_H_
#define LOCKSTEP_MPI_H_

#include "lockstep/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

// Options of ranks over MPI. Zero in a field means its default.
typedef struct ls_mpi_options {
  // MPI_Comm_c2f of a communicator, whose processes become the ranks. The
  // program has initialized MPI, and finalizes it after ls_mpi_close. Default:
  // MPI's world, with an MPI that is initialized here and finalized by
  // ls_mpi_close, unless the program has initialized it.
  ls_opt communicator;
  const char *(*environment)(void *user, const char *name);  // Default: getenv.
  void *environment_user;
} ls_mpi_options;

// Opens a communicator over MPI; all its ranks make the call, which waits for
// them. `options` may be NULL. The environment's LS_MPI may name the module's
// file.
//   LS_NOT_FOUND            there is no module or no MPI: says what to install.
//   LS_FAILED_PRECONDITION  MPI is for one thread only or has been finalized;
//                           the module is of another release; or the launcher
//                           has started other processes than MPI knows: both
//                           belong to different MPIs.
//   LS_INVALID_ARGUMENT     there is no such communicator.
//   LS_UNAVAILABLE          MPI reports an error.
//   LS_UNIMPLEMENTED        the program is linked statically with a C library
//                           that cannot load modules then.
LS_API LS_MUST_USE ls_status ls_mpi_open(const ls_mpi_options *options,
                                         ls_communicator **out_communicator);

// Ends this rank: waits until all others end too, and releases the communicator
// in any case; NULL is fine. Its runtime has been destroyed.
//   LS_UNAVAILABLE  after a failure of the communicator, a rank has not ended
//                   for 5 seconds: names it. MPI stays initialized, as its end
//                   would wait for that rank; the process ends with a code that
//                   is not 0, on which the launcher ends the others.
LS_API LS_MUST_USE ls_status ls_mpi_close(ls_communicator *communicator);

// Launcher of a process, by its environment.
typedef struct ls_mpi_launcher {
  const char *name;      // Such as "mpirun of Open MPI"; NULL: there is none.
  const char *variable;  // The number of processes; may be NULL.
  int32_t ranks;         // 0: the environment does not give it.
} ls_mpi_launcher;

// Finds the launcher that has started this process. A program that trains by
// itself refuses to run under one: it would be many equal trainings.
LS_API ls_mpi_launcher ls_mpi_find_launcher(const ls_mpi_options *options);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MPI_H_

// SPDX-License-Identifier: Apache-2.0
//
// Module: the part of the library that calls MPI. It is a shared object of its
// own for each MPI, loaded when it is needed (net/mpi.c), and needs no symbol
// of the library, which may be linked statically: the services are what it
// calls.
#ifndef LS_NET_MPI_MODULE_H_
#define LS_NET_MPI_MODULE_H_

#include "lockstep/allocator.h"
#include "net/wire.h"

// Functions of the library that a module calls.
typedef struct ls_mpi_services {
  ls_allocator *allocator;
  bool (*grow)(ls_allocator *allocator, void *array, size_t *capacity,
               size_t needed, size_t item_size);
  ls_status (*make_status)(ls_code code, const char *file, int line,
                           const char *format, ...) LS_PRINTF(4, 5);
  void (*yield)(void);
  void (*sleep)(int64_t nanos);
} ls_mpi_services;

// A wire over MPI. All its messages travel in a communicator of its own.
typedef struct ls_mpi_wire ls_mpi_wire;
struct ls_mpi_wire {
  ls_wire wire;
  int32_t rank, ranks;
  int32_t local_rank, local_ranks;  // Among the ranks of this machine.
  // The program calls MPI, too, and not at the same time as another thread.
  bool is_shared;
  // Returns the name of the machine of a rank.
  const char *(*host)(const ls_mpi_wire *self, int32_t rank);
  // Ends the wire. `has_met`: every rank closes its own; otherwise MPI stays
  // initialized, as nobody may wait for the others. `has_failed`, the same on
  // all ranks then: data may have been sent that nobody receives.
  void (*close)(ls_mpi_wire *self, bool has_met, bool has_failed);
};

// The one symbol of a module.
typedef struct ls_mpi_module {
  const char *release;  // LS_VERSION of the library that it belongs to.
  // Opens a wire among the ranks of MPI's world, initializing MPI if nobody
  // has, or of a communicator's handle in Fortran. All of them make the call.
  ls_status (*open)(const ls_mpi_services *services,
                    const int32_t *communicator, ls_mpi_wire **out_wire);
} ls_mpi_module;

#endif  // LS_NET_MPI_MODULE_H_

// SPDX-License-Identifier: Apache-2.0
//
// Start and end of MPI, and of a wire over it: here alone, calls are
// collective.
#include "net/mpi/module.h"

#include <unistd.h>

#include "lockstep/version.h"
#include "net/mpi/mpi_wire.h"

static const char *host_of(const ls_mpi_wire *wire, int32_t rank) {
  return ((const ls_mpi *)wire)->hosts[rank];
}

static void release_all(ls_mpi *self) {
  ls_allocator *allocator = self->services.allocator;
  for (size_t i = 0; i < self->num_sends; ++i)
    allocator->release(allocator, self->sends[i]);
  allocator->release(allocator, self->sends);
  allocator->release(allocator, self->transfers);
  allocator->release(allocator, self->requests);
  allocator->release(allocator, self->statuses);
  allocator->release(allocator, self->ended);
  allocator->release(allocator, self->hosts);
  allocator->release(allocator, self);
}

static void close_wire(ls_mpi_wire *wire, bool has_met, bool has_failed) {
  ls_mpi *self = (ls_mpi *)wire;
  const bool has_ended = ls_mpi_end(self);
  // Data that was sent in vain would come in a later communicator, as MPI gives
  // the identity of one that was freed to another.
  if (has_met && !has_failed) MPI_Comm_free(&self->comm);
  if (has_met && self->is_finalized_here) MPI_Finalize();
  // MPI may still look at memory of requests that have not ended.
  if (has_ended || (has_met && self->is_finalized_here)) release_all(self);
}

// ---- Opening ---------------------------------------------------------------
// Initializes MPI, if nobody has, and checks what threads may do.
static ls_status initialize(ls_mpi *self, bool has_host) {
  int is_initialized = 0, is_finalized = 0, level = 0;
  MPI_Finalized(&is_finalized);
  MPI_Initialized(&is_initialized);
  if (is_finalized)
    return LS_MPI_STATUS(
        self, LS_FAILED_PRECONDITION,
        "MPI is finalized, and cannot be initialized twice in a process");
  if (!is_initialized && has_host)
    return LS_MPI_STATUS(
        self, LS_FAILED_PRECONDITION,
        "a communicator of MPI was given, which is not initialized");
  if (is_initialized)
    MPI_Query_thread(&level);
  else
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
  self->is_finalized_here = !is_initialized;
  self->base.is_shared =
      level < (is_initialized ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED);
  if (level >= MPI_THREAD_FUNNELED) return ls_ok();
  return LS_MPI_STATUS(self, LS_FAILED_PRECONDITION,
                       "MPI is initialized for programs without threads: call "
                       "MPI_Init_thread with MPI_THREAD_FUNNELED");
}

// Returns true for a communicator of one group; nothing else ends the program.
static bool has_group(MPI_Comm comm) {
  // MPI reports a bad handle to the first; from version 4 on, to the second.
  const MPI_Comm places[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  MPI_Errhandler handlers[2];
  int is_inter = 0;
  if (comm == MPI_COMM_NULL) return false;
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_get_errhandler(places[i], &handlers[i]);
    MPI_Comm_set_errhandler(places[i], MPI_ERRORS_RETURN);
  }
  const int code = MPI_Comm_test_inter(comm, &is_inter);
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_set_errhandler(places[i], handlers[i]);
    MPI_Errhandler_free(&handlers[i]);
  }
  return code == MPI_SUCCESS && !is_inter;
}

static ls_status duplicate(ls_mpi *self, const int32_t *communicator) {
  const MPI_Comm from = communicator == NULL
                            ? MPI_COMM_WORLD
                            : MPI_Comm_f2c((MPI_Fint)*communicator);
  if (communicator != NULL && !has_group(from))
    return LS_MPI_STATUS(
        self, LS_INVALID_ARGUMENT,
        "communicator %d: MPI has none of this handle among ranks of one group",
        *communicator);
  LS_RETURN_IF_ERROR(ls_mpi_check(self, MPI_Comm_dup(from, &self->comm),
                                  "duplicate the communicator"));
  return ls_mpi_check(self,
                      MPI_Comm_set_errhandler(self->comm, MPI_ERRORS_RETURN),
                      "report errors");
}

// Finds out which ranks share this machine.
static ls_status find_neighbours(ls_mpi *self) {
  MPI_Comm local = MPI_COMM_NULL;
  int rank = 0, ranks = 0;
  LS_RETURN_IF_ERROR(
      ls_mpi_check(self,
                   MPI_Comm_split_type(self->comm, MPI_COMM_TYPE_SHARED, 0,
                                       MPI_INFO_NULL, &local),
                   "group the ranks of a machine"));
  MPI_Comm_rank(local, &rank);
  MPI_Comm_size(local, &ranks);
  self->base.local_rank = rank;
  self->base.local_ranks = ranks;
  MPI_Comm_free(&local);
  return ls_ok();
}

static ls_status find_ranks(ls_mpi *self) {
  ls_allocator *allocator = self->services.allocator;
  int rank = 0, ranks = 0, size = 0;
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  MPI_Comm_rank(self->comm, &rank);
  MPI_Comm_size(self->comm, &ranks);
  self->base.rank = rank;
  self->base.ranks = ranks;
  self->base.host = host_of;
  LS_RETURN_IF_ERROR(find_neighbours(self));
  MPI_Get_processor_name(name, &size);
  self->hosts =
      allocator->allocate(allocator, (size_t)ranks * sizeof(*self->hosts), 1);
  if (self->hosts == NULL)
    return LS_MPI_STATUS(self, LS_RESOURCE_EXHAUSTED, "out of memory");
  return ls_mpi_check(self,
                      MPI_Allgather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR,
                                    self->hosts, MPI_MAX_PROCESSOR_NAME,
                                    MPI_CHAR, self->comm),
                      "gather the names of machines");
}

// Chooses limits that depend on MPI and on the machine.
static void choose_limits(ls_mpi *self) {
  enum { SPINS = 200 };
  int *bound = NULL, has_bound = 0;
  MPI_Comm_get_attr(self->comm, MPI_TAG_UB, &bound, &has_bound);
  self->tags = has_bound ? *bound : 32767;  // The least that MPI promises.
#ifdef OPEN_MPI  // It yields by itself where ranks share cores.
  self->spins = SPINS;
#else
  const bool has_cores =
      self->base.local_ranks <= sysconf(_SC_NPROCESSORS_ONLN);
  self->spins = has_cores ? SPINS : 0;
#endif
}

static ls_status open_in(ls_mpi *self, const int32_t *communicator) {
  LS_RETURN_IF_ERROR(initialize(self, communicator != NULL));
  LS_RETURN_IF_ERROR(duplicate(self, communicator));
  LS_RETURN_IF_ERROR(find_ranks(self));
  choose_limits(self);
  const ls_status status = ls_mpi_begin(self);
  if (!ls_status_is_ok(status)) (void)ls_mpi_end(self);
  return status;
}

static ls_status open_wire(const ls_mpi_services *services,
                           const int32_t *communicator,
                           ls_mpi_wire **out_wire) {
  ls_allocator *allocator = services->allocator;
  ls_mpi *self = allocator->allocate(allocator, sizeof(*self), sizeof(void *));
  if (self == NULL)
    return services->make_status(LS_RESOURCE_EXHAUSTED, __FILE__, __LINE__,
                                 "out of memory");
  *self = (ls_mpi){.services = *services, .base.close = close_wire};
  const ls_status status = open_in(self, communicator);
  if (ls_status_is_ok(status))
    *out_wire = &self->base;
  else
    release_all(self);
  return status;
}

LS_API extern const ls_mpi_module ls_mpi_module_table;
const ls_mpi_module ls_mpi_module_table = {LS_VERSION, open_wire};

// SPDX-License-Identifier: Apache-2.0
// Layer: net
//
// Simulated ranks: processes with their clocks and the disk that they share,
// in one process, with faults and an order of events that a seed gives. Equal
// seeds and faults give equal logs.
//
// One rank runs at a time: until it waits, uses the disk or sleeps; then the
// seed decides which is next. Time is simulated: an event takes some
// microseconds, and waits take what they wait for. Events are messages, turns
// of a rank and steps of its calls of the disk, counted over all ranks and runs
// of a simulation; a fault strikes at an event. The disk is in memory and keeps
// its files from run to run.
//
// Threads: a simulation is for one thread at a time; while it runs, for its
// ranks' threads. Only the thread on which a rank's function is called makes
// exchanges and uses the disk: without threads for input and with saves in the
// foreground, training does so.
#ifndef LOCKSTEP_SIMULATION_H_
#define LOCKSTEP_SIMULATION_H_

#include "lockstep/communicator.h"
#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_fault_kind {
  // Faults of a message:
  LS_FAULT_LATE,   // it arrives `nanos` late,
  LS_FAULT_LOST,   // never,
  LS_FAULT_TWICE,  // twice,
  LS_FAULT_CUT,    // or in part.
  // Faults of a call of the disk:
  LS_FAULT_DISK,  // it fails, after writing half of the data;
  LS_FAULT_FULL,  // it fails if it writes, as all do for `nanos`.
  // Faults of the rank with the event, whatever that is:
  LS_FAULT_KILL,   // it dies, without a word;
  LS_FAULT_POWER,  // all ranks die, and the disk loses some of what was not
                   // synced;
  LS_FAULT_STOP,   // it does nothing for `nanos` once it waits;
  LS_FAULT_JUMP,   // the wall clock jumps by `nanos`, forwards or backwards.
  LS_FAULT_KINDS,
} ls_fault_kind;

typedef struct ls_fault {
  ls_fault_kind kind;
  int64_t at;  // Number of an event, from 1 on: the first of its sort from
               // there on is struck.
  int64_t nanos;
  // Set when the fault strikes.
  int64_t event;   // Number of the event; 0: it has not struck.
  int64_t time;    // In nanoseconds.
  int32_t rank;    // Rank of the event, and
  int32_t to;      // the receiver of its message; -1: it is none.
  char path[160];  // File of the disk's call; "": it is none.
} ls_fault;
// Returns the name of a kind: "late".
LS_API const char *ls_fault_name(ls_fault_kind kind);

typedef struct ls_simulation ls_simulation;
typedef struct ls_simulation_options {
  uint64_t seed;
  ls_fault *faults;  // Lent; each strikes once.
  size_t num_faults;
} ls_simulation_options;

// Creates a simulation with an empty disk, at time 0. The caller owns it.
LS_API LS_MUST_USE ls_status ls_simulation_create(
    const ls_simulation_options *options, ls_simulation **out_simulation);
LS_API void ls_simulation_destroy(ls_simulation *self);  // NULL is fine.

// Runs the function for each rank, as ls_standin_run does, until all have
// ended, each after the others or a failure. Returns the first failure of a
// rank that lives. May be called again: ranks that died are there again.
//   LS_INVALID_ARGUMENT   less than one rank.
//   LS_DEADLINE_EXCEEDED  ranks did not end within ten minutes of simulated
//                         time.
LS_API LS_MUST_USE ls_status ls_simulation_run(ls_simulation *self,
                                               int32_t ranks,
                                               ls_rank_function function,
                                               void *user);
// Sets, in the options of a runtime, what a simulated rank has: its
// communicator, clock, disk, and one thread.
LS_API void ls_simulation_set_rank(ls_communicator *rank,
                                   ls_runtime_options *options);
// Lets time pass, between two runs.
LS_API void ls_simulation_wait(ls_simulation *self, int64_t nanos);

// Adds a line to the log, as the rank's. Returns false, and adds none, if the
// rank has died.
LS_API bool ls_simulation_say(ls_communicator *rank, const char *text);
// Adds a line to the log, between two runs.
LS_API void ls_simulation_note(ls_simulation *self, const char *text);
// Returns the log: a line for each message, each step that writes to the disk,
// each fault and each line added. Valid until the next call.
LS_API const char *ls_simulation_log(const ls_simulation *self);
LS_API int64_t ls_simulation_events(const ls_simulation *self);
LS_API int64_t ls_simulation_now(const ls_simulation *self);
// Returns the contents of a file on the disk, with a zero at the end, valid
// until it changes; NULL: there is none.
LS_API const char *ls_simulation_file(const ls_simulation *self,
                                      const char *path, size_t *out_size);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SIMULATION_H_

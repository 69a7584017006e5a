// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// What a training does about a TPU system that goes, or parts of it: hosts that
// say that they will, hosts that must hear from us, and systems that a lookup
// says are gone for good. The library never ends the process.
//
// Settings of the environment that begin with TF_ are also read with LS_ in
// front instead, which wins.
//
// Threads: as of hooks; of a runtime's watchdog any thread starts and stops it.
#ifndef LOCKSTEP_SHUTDOWN_HOOKS_H_
#define LOCKSTEP_SHUTDOWN_HOOKS_H_

#include "lockstep/hook.h"
#include "lockstep/tpu_system.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Hosts that will go ----------------------------------------------------
typedef enum ls_shutdown_mode {
  // As the environment's TF_TPU_GRACEFUL_SHUTDOWN_MODE says:
  // "shutdown_worker", which is the default, "shutdown_computation", or "", by
  // which there is no hook.
  LS_SHUTDOWN_OF_ENVIRONMENT,
  LS_SHUTDOWN_WORKER,       // Those hosts are shut down; the training goes on.
  LS_SHUTDOWN_COMPUTATION,  // All are, and the training ends with ABORTED.
  LS_SHUTDOWN_NONE,
} ls_shutdown_mode;

// Zero in a field means its default.
typedef struct ls_graceful_shutdown_options {
  ls_tpu_resolver *resolver;  // Whose hosts. Required; retained.
  ls_shutdown_mode mode;
  // Where checkpoints go if no hook of the session saves any:
  // <folder>/model.ckpt-<step>. Default: nowhere.
  const char *folder;
  ls_flag saves;      // Off: nothing is saved. Default on.
  ls_opt timeout_ms;  // How long a host may take to answer. Default 60000.
} ls_graceful_shutdown_options;

// A hook that behind each run asks all hosts of the system how they are. Where
// one will go, or does not answer in time, it saves a checkpoint, by the hook
// of its session that saves, and has hosts shut down. With several such hooks
// nothing is saved, and the log says so. A host that cannot say how it is, or
// not within 5 seconds when the session is made, and a system of which nothing
// is known but addresses: nothing is asked, with a warning. `*out_hook` is NULL
// if there shall be none.
//   LS_INVALID_ARGUMENT     the environment has another mode: names it.
//   LS_FAILED_PRECONDITION  when the session is made: something would be saved,
//                           and there is no global step.
LS_API LS_MUST_USE ls_status ls_graceful_shutdown_hook(
    const ls_graceful_shutdown_options *options, ls_hook **out_hook);

// ---- Hosts that must hear from us ------------------------------------------
// Has the hosts of a system go of which nobody asks for `timeout_seconds` how
// they are (ls_pod_watch), and a thread ask each tenth of that, at least each
// minute, of the runtime's clock. Failures to answer are borne. A system has
// one watchdog: while it is at work, nothing happens here.
//   LS_INVALID_ARGUMENT  a time below 1.
//   LS_UNIMPLEMENTED     another system than a local or virtual one.
LS_API LS_MUST_USE ls_status ls_watchdog_start(ls_tpu_resolver *resolver,
                                               int64_t timeout_seconds);
// The same for as many seconds as the environment's TF_TPU_WATCHDOG_TIMEOUT
// says; 0, which is the default: none.
//   LS_INVALID_ARGUMENT  no such number: names it.
LS_API LS_MUST_USE ls_status
ls_watchdog_start_by_environment(ls_tpu_resolver *resolver);
// Ends all of the runtime's: hosts stay. Does nothing without one.
LS_API void ls_watchdog_stop(void);

// ---- Systems that are gone for good ----------------------------------------
// Zero in a field means its default.
typedef struct ls_preemption_options {
  ls_tpu_resolver *resolver;  // Required; retained.
  // Asked to stop, so that also who waits for a session ends: that of the
  // monitored session. Lent for the hook's life. Default: none.
  ls_train_stop *stop;
  const char *folder;   // As above.
  ls_opt poll_seconds;  // Default 30.
} ls_preemption_options;

// A hook with a thread that asks the resolver's lookup for the state of the
// system, from the hook's begin on, before there is a session. Where that is
// PREEMPTED or TERMINATED, the training stops behind the run it is in, its
// checkpoint is saved, and it ends with UNAVAILABLE, which names system and
// state. `*out_hook` is NULL if the system is not one that is looked up.
LS_API LS_MUST_USE ls_status
ls_preemption_hook(const ls_preemption_options *options, ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHUTDOWN_HOOKS_H_

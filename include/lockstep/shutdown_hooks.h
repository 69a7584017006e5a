// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Reactions of a training to the loss of a TPU system, or parts of it: hosts
// that announce their shutdown, hosts that need a heartbeat, and systems that a
// lookup reports as gone for good. The library never ends the process.
//
// Environment variables that begin with TF_ are also read with LS_ in its
// place, which takes precedence.
//
// Threads: as for hooks; any thread may start and stop a runtime's watchdog.
#ifndef LOCKSTEP_SHUTDOWN_HOOKS_H_
#define LOCKSTEP_SHUTDOWN_HOOKS_H_

#include "lockstep/hook.h"
#include "lockstep/tpu_system.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Hosts that will shut down ---------------------------------------------
typedef enum ls_shutdown_mode {
  // Mode of the environment's TF_TPU_GRACEFUL_SHUTDOWN_MODE: "shutdown_worker",
  // the default, "shutdown_computation", or "", for no hook.
  LS_SHUTDOWN_OF_ENVIRONMENT,
  LS_SHUTDOWN_WORKER,  // Shuts down those hosts; the training continues.
  // Shuts down all hosts, and ends the training with ABORTED.
  LS_SHUTDOWN_COMPUTATION,
  LS_SHUTDOWN_NONE,
} ls_shutdown_mode;

// Zero in a field means its default.
typedef struct ls_graceful_shutdown_options {
  ls_tpu_resolver *resolver;  // Resolver of the hosts. Required; retained.
  ls_shutdown_mode mode;
  // Folder of checkpoints if no hook of the session saves any:
  // <folder>/model.ckpt-<step>. Default: none are saved.
  const char *folder;
  ls_flag saves;      // Off: does not save. Default on.
  ls_opt timeout_ms;  // Time that a host may take to answer. Default 60000.
} ls_graceful_shutdown_options;

// Makes a hook that after each run queries the state of all hosts of the
// system. When one will shut down, or does not answer in time, it saves a
// checkpoint, through the saver hook of its session, and shuts hosts down. With
// several saver hooks it saves nothing, and the log says so. If a host cannot
// report its state, or does not within 5 seconds when the session is created,
// and for a system known by addresses only, it queries nothing, with a warning.
// `*out_hook` is NULL if the mode has no hook.
//   LS_INVALID_ARGUMENT     the environment has another mode: names it.
//   LS_FAILED_PRECONDITION  when the session is created: it would save, and
//                           there is no global step.
LS_API LS_MUST_USE ls_status ls_graceful_shutdown_hook(
    const ls_graceful_shutdown_options *options, ls_hook **out_hook);

// ---- Hosts that need a heartbeat -------------------------------------------
// Makes the hosts of a system shut down if their state is not queried for
// `timeout_seconds` (ls_pod_watch), and starts a thread that queries it every
// tenth of that, at least every minute, of the runtime's clock. Failures to
// answer are ignored. A system has one watchdog: while it runs, this does
// nothing.
//   LS_INVALID_ARGUMENT  a time below 1.
//   LS_UNIMPLEMENTED     another system than a local or virtual one.
LS_API LS_MUST_USE ls_status ls_watchdog_start(ls_tpu_resolver *resolver,
                                               int64_t timeout_seconds);
// Starts a watchdog with the timeout of the environment's
// TF_TPU_WATCHDOG_TIMEOUT; 0, the default: none.
//   LS_INVALID_ARGUMENT  no such number: names it.
LS_API LS_MUST_USE ls_status
ls_watchdog_start_by_environment(ls_tpu_resolver *resolver);
// Stops all watchdogs of the runtime: hosts stay. Does nothing without one.
LS_API void ls_watchdog_stop(void);

// ---- Preempted systems -----------------------------------------------------
// Zero in a field means its default.
typedef struct ls_preemption_options {
  ls_tpu_resolver *resolver;  // Required; retained.
  // Stop of the monitored session, requested so that a wait for a session ends
  // too. Lent for the hook's life. Default: none.
  ls_train_stop *stop;
  const char *folder;   // See ls_graceful_shutdown_options.
  ls_opt poll_seconds;  // Default 30.
} ls_preemption_options;

// Makes a hook with a thread that queries the system's state from the
// resolver's lookup, from the hook's begin on, before there is a session. When
// that is PREEMPTED or TERMINATED, the training stops after the current run,
// its checkpoint is saved, and it ends with UNAVAILABLE, which names system and
// state. `*out_hook` is NULL if the system does not come from a lookup.
LS_API LS_MUST_USE ls_status
ls_preemption_hook(const ls_preemption_options *options, ls_hook **out_hook);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHUTDOWN_HOOKS_H_

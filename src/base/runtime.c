// SPDX-License-Identifier: Apache-2.0
// Runtime: creation, the current one, slots.
#include "lockstep/runtime.h"
#include "base/threads/locked.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "base/trace.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/version.h"

// ---- Options ----------------------------------------------------------------
enum { MAX_THREADS = 4096, MAX_DEVICES = 1024, NANOS_PER_MS = 1000000 };

// Returns true for a name of a topology: a kind, and one to three sizes. Some
// plug-ins end the process at others.
static bool is_topology(const char *name) {
  const size_t kind = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
  const char *at = name + kind;
  if (kind == 0 || *at != ':') return false;
  for (int axis = 0; axis < 3 && (axis == 0 || *at == 'x'); ++axis) {
    const size_t digits = strspn(++at, "0123456789");
    if (digits == 0 || digits > 4 || *at == '0') return false;
    at += digits;
  }
  return *at == '\0' || strcmp(at, "_twisted") == 0 ||
         strcmp(at, "_untwisted") == 0;
}

static ls_status check_topology(const char *topology, const char *device) {
  if (topology == NULL) return ls_ok();
  if (!is_topology(topology))
    return ls_invalid_argument("there is no topology '%s'; a name has a kind "
                               "and sizes, such as v5e:2x2 or v4:2x2x1",
                               topology);
  if (strcmp(device, "cpu") == 0)
    return ls_invalid_argument(
        "topology '%s' is for devices with a plug-in, not for device 'cpu'",
        topology);
  return ls_ok();
}

static ls_status check_device(const ls_runtime_options *options) {
  static const char *const names[] = {"cpu", "gpu", "tpu", "pjrt"};
  const char *device = options->device != NULL ? options->device : names[0];
  bool is_known = strncmp(device, "pjrt:", 5) == 0 && device[5] != '\0';
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    is_known |= strcmp(device, names[i]) == 0;
  if (!is_known)
    return ls_invalid_argument("there is no device '%s'; there are cpu, gpu, "
                               "tpu, pjrt, and pjrt:PATH of a plug-in",
                               device);
  if (options->num_devices < 0 || options->num_devices > MAX_DEVICES)
    return ls_invalid_argument("a runtime with %d devices; 1 to %d are "
                               "possible, 0 for all that there are",
                               options->num_devices, MAX_DEVICES);
  if (options->num_devices > 1 && strcmp(device, "cpu") == 0)
    return ls_invalid_argument("a runtime with %d devices 'cpu': the CPU "
                               "engine is one, which uses all cores",
                               options->num_devices);
  return check_topology(options->topology, device);
}

static ls_status check_options(const ls_runtime_options *options) {
  if ((unsigned)options->math > LS_MATH_BF16_DIRECT)
    return ls_invalid_argument("there is no math %d", (int)options->math);
  if (options->threads < 0 || options->threads > MAX_THREADS)
    return ls_invalid_argument("a runtime with %d threads; 1 to %d are "
                               "possible, 0 for the machine's cores",
                               options->threads, MAX_THREADS);
  const ls_opt inputs = options->input_threads;
  if (inputs.set && (inputs.value < 0 || inputs.value > MAX_THREADS))
    return ls_invalid_argument(
        "a runtime with %lld input threads; 0 to %d are possible", inputs.value,
        MAX_THREADS);
  if (options->input_bytes < 0)
    return ls_invalid_argument("iterators that may hold %lld bytes",
                               (long long)options->input_bytes);
  if (options->stall_ms > INT64_MAX / NANOS_PER_MS)
    return ls_invalid_argument("a stall limit of %lld ms",
                               (long long)options->stall_ms);
  if (options->cpus < 0 || options->gpus < 0)
    return ls_invalid_argument("a runtime that sees %d CPUs and %d GPUs",
                               options->cpus, options->gpus);
  return check_device(options);
}

enum { STALL_MS = 30000 };
enum { INPUT_BYTES = 256 << 20 };

// The default runtime. Guarded by the lock while it is made; read without the
// lock afterwards.
static ls_mutex default_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static ls_runtime *default_runtime;

const char *ls_system_environment(void *user, const char *name) {
  (void)user;
  return getenv(name);
}

// ---- Creation --------------------------------------------------------------
static void complain(void *to, const char *line) {
  ls_runtime_log(to, LS_LOG_WARNING, "debug", "%s", line);
}

// Frees the runtime, also if it is only partly made.
static void free_runtime(ls_runtime *runtime) {
  ls_workers_destroy(runtime->workers);
  ls_cores_destroy(runtime->cores);
  ls_host_threads_destroy(runtime->host_threads);
  ls_input_threads_destroy(runtime->inputs);
  ls_map_deinit(&runtime->log_counts);
  ls_gauges_deinit(runtime);
  ls_span_seats_destroy(runtime);
  ls_mutex_deinit(&runtime->timers.lock);
  ls_mutex_deinit(&runtime->lock);
  ls_debug_deinit(&runtime->debug, runtime->own);
  ls_counting_allocator_destroy(runtime->counting);
  ls_release(runtime->own, runtime->device);
  ls_release(runtime->own, runtime->topology);
  ls_release(runtime->own, runtime);
}

// With LS_FAULT, wraps the runtime's allocator in one that fails on request.
static ls_status install_fault(ls_runtime *runtime) {
  if (runtime->debug.fault_at == 0) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_counting_allocator_create(runtime->own, &runtime->counting));
  runtime->allocator = ls_counting_allocator_allocator(runtime->counting);
  ls_counting_allocator_fail_at(runtime->counting, runtime->debug.fault_at);
  return ls_ok();
}

static ls_status init_runtime(ls_runtime *runtime,
                              const ls_runtime_options *options) {
  const bool has_sink = options->log != NULL;
  runtime->log = has_sink ? options->log : ls_log_to_standard_error;
  runtime->log_user = has_sink ? options->log_user : runtime;
  runtime->clock = options->clock ? *options->clock : *ls_clock_system();
  runtime->file_system =
      options->file_system ? *options->file_system : *ls_file_system_system();
  runtime->environment =
      options->environment ? options->environment : ls_system_environment;
  runtime->environment_user = options->environment_user;
  runtime->allocator = runtime->own;
  LS_RETURN_IF_ERROR(ls_mutex_init(&runtime->timers.lock));
  LS_RETURN_IF_ERROR(ls_mutex_init_recursive(&runtime->lock));
  LS_RETURN_IF_ERROR(
      ls_debug_init(&runtime->debug, runtime->own, runtime->environment,
                    runtime->environment_user, complain, runtime));
  if (!has_sink && ls_debug_log_levels(runtime) == 0) runtime->log = NULL;
  runtime->math = options->math;
  runtime->num_devices = options->num_devices;
  runtime->exact_bits = options->exact_bits;
  runtime->find_nan = options->find_nan;
  if (options->device != NULL && strcmp(options->device, "cpu") != 0) {
    LS_RETURN_IF_ERROR(
        ls_keep_text(runtime->own, options->device, &runtime->device));
  }
  if (options->topology != NULL) {
    LS_RETURN_IF_ERROR(
        ls_keep_text(runtime->own, options->topology, &runtime->topology));
  }
  const int64_t stall_ms = options->stall_ms;
  runtime->stall_nanos = stall_ms < 0    ? INT64_MAX
                         : stall_ms == 0 ? (int64_t)STALL_MS * NANOS_PER_MS
                                         : stall_ms * NANOS_PER_MS;
  runtime->threads = options->threads;
  if (runtime->threads == 0) runtime->threads = runtime->debug.threads;
  if (runtime->threads == 0) {
    LS_RETURN_IF_ERROR(ls_cores_create(runtime->own, &runtime->cores));
    runtime->threads = ls_cores_count(runtime->cores);
  }
  runtime->input_threads = options->input_threads.set
                               ? (int)options->input_threads.value
                               : runtime->threads;
  runtime->input_bytes = options->input_bytes;
  if (runtime->input_bytes == 0) runtime->input_bytes = INPUT_BYTES;
  runtime->cpus = options->cpus == 0 ? 1 : options->cpus;
  runtime->gpus = options->gpus;
  runtime->communicator = options->communicator;
  LS_RETURN_IF_ERROR(install_fault(runtime));
  ls_map_init(&runtime->log_counts, runtime->allocator);
  ls_map_init(&runtime->gauges, runtime->allocator);
  return ls_ok();
}

ls_status ls_runtime_create(const ls_runtime_options *options,
                            ls_runtime **out_runtime) {
  LS_REQUIRE_OUT(out_runtime);
  const ls_runtime_options none = {0};
  if (options == NULL) options = &none;
  LS_RETURN_IF_ERROR(check_options(options));
  ls_allocator *allocator =
      options->allocator ? options->allocator : ls_allocator_system();
  ls_runtime *runtime = ls_new(allocator, ls_runtime);
  if (runtime == NULL) return ls_out_of_memory();
  runtime->own = allocator;
  ls_status status = init_runtime(runtime, options);
  if (!ls_status_is_ok(status)) {
    free_runtime(runtime);
    return status;
  }
  *out_runtime = runtime;
  return ls_ok();
}

// ---- Destruction -----------------------------------------------------------
// Refuses if objects of the kinds before `end` are alive; names the first of
// their kinds. The number of variables is left out: it includes components.
static ls_status check_made(const ls_runtime *runtime, ls_made end) {
  static const char *const kinds[] = {
      "function",     "session",           "graph",      "estimator",
      "hook",         "checkpoint folder", "saved file", "cancel",
      "event writer", "iterator",          "variable"};
  _Static_assert(sizeof(kinds) / sizeof(kinds[0]) == LS_MADE_COUNT,
                 "a kind has a name");
  for (size_t i = 0; i < end; ++i) {
    const int count = __atomic_load_n(&runtime->made[i], __ATOMIC_ACQUIRE);
    if (count == 0) continue;
    const bool has_parts = i == LS_MADE_VARIABLE;
    char number[16] = "its";
    if (!has_parts) snprintf(number, sizeof(number), "%d", count);
    return ls_failed_precondition(
        "a runtime cannot be destroyed while objects created under it exist: "
        "release %s %s%s first",
        number, kinds[i], count == 1 && !has_parts ? "" : "s");
  }
  return ls_ok();
}

// Destroys the layers' state, the highest layer first.
static void destroy_slots(ls_runtime *runtime) {
  for (int i = LS_SLOT_COUNT - 1; i >= 0; --i) {
    ls_runtime_slot_state *slot = &runtime->slots[i];
    if (slot->state == NULL) continue;
    if (slot->destroy != NULL) slot->destroy(slot->state);
    slot->destroy = NULL;
    __atomic_store_n(&slot->state, NULL, __ATOMIC_RELEASE);
  }
}

static ls_status destroy_runtime(ls_runtime *runtime) {
  if (__atomic_load_n(&runtime->callbacks, __ATOMIC_RELAXED) > 0)
    return ls_failed_precondition(
        "a runtime cannot be destroyed while a callback of a function or of "
        "replicas runs under it");
  if (__atomic_load_n(&runtime->trace, __ATOMIC_ACQUIRE) != NULL)
    return ls_failed_precondition(
        "a runtime cannot be destroyed while it is being traced: end the trace "
        "and destroy it (ls_trace_destroy)");
  if (runtime->host_threads != NULL)
    LS_RETURN_IF_ERROR(ls_host_threads_check(runtime->host_threads));
  LS_RETURN_IF_ERROR(check_made(runtime, LS_MADE_EVENT_WRITER));
  for (const ls_making *at = ls_this_thread.work.making; at != NULL;
       at = at->outer)
    if (at->runtime == runtime)
      return ls_failed_precondition(
          "a runtime cannot be destroyed by a function of a data set that runs "
          "under it");
  ls_runtime *before = ls_runtime_make_current(runtime);
  if (runtime->forget_ops != NULL) runtime->forget_ops(runtime);
  const ls_status status = check_made(runtime, LS_MADE_COUNT);
  const bool goes = ls_status_is_ok(status);
  if (goes) destroy_slots(runtime);
  ls_this_thread.work.runtime = goes && before == runtime ? NULL : before;
  if (goes) free_runtime(runtime);
  return status;
}

ls_status ls_runtime_destroy(ls_runtime *runtime) {
  ls_mutex_lock(&default_lock);
  const bool is_default = runtime == NULL || runtime == default_runtime;
  if (!is_default) {
    ls_mutex_unlock(&default_lock);
    return destroy_runtime(runtime);
  }
  ls_status status = ls_ok();
  if (default_runtime != NULL) status = destroy_runtime(default_runtime);
  if (ls_status_is_ok(status))
    __atomic_store_n(&default_runtime, NULL, __ATOMIC_RELEASE);
  ls_mutex_unlock(&default_lock);
  return status;
}

// ---- The current runtime ---------------------------------------------------
static ls_runtime *make_default(void) {
  ls_mutex_lock(&default_lock);
  ls_runtime *runtime = default_runtime;
  if (runtime == NULL) {
    // All options are valid, so that only memory can be missing.
    ls_status_free(ls_runtime_create(NULL, &runtime));
    __atomic_store_n(&default_runtime, runtime, __ATOMIC_RELEASE);
  }
  ls_mutex_unlock(&default_lock);
  return runtime;
}

ls_runtime *ls_runtime_current(void) {
  ls_runtime *runtime = ls_this_thread.work.runtime;
  if (runtime != NULL) return runtime;
  runtime = __atomic_load_n(&default_runtime, __ATOMIC_ACQUIRE);
  return runtime != NULL ? runtime : make_default();
}

ls_runtime *ls_runtime_make_current(ls_runtime *runtime) {
  ls_runtime *before = ls_this_thread.work.runtime;
  ls_this_thread.work.runtime = runtime;
  return before;
}

ls_allocator *ls_current_allocator(void) {
  const ls_runtime *runtime = ls_runtime_current();
  return runtime == NULL ? ls_allocator_system() : runtime->allocator;
}

// ---- Getters ---------------------------------------------------------------
int ls_runtime_threads(const ls_runtime *runtime) { return runtime->threads; }
int ls_runtime_input_threads(const ls_runtime *runtime) {
  return runtime->input_threads;
}

int ls_runtime_cpus(const ls_runtime *runtime) { return runtime->cpus; }

int ls_runtime_gpus(const ls_runtime *runtime) { return runtime->gpus; }

const char *ls_runtime_device(const ls_runtime *runtime) {
  return runtime->device != NULL ? runtime->device : "cpu";
}

int ls_runtime_num_devices(const ls_runtime *runtime) {
  return runtime->num_devices;
}

const char *ls_runtime_topology(const ls_runtime *runtime) {
  return runtime->topology;
}

bool ls_runtime_exact_bits(const ls_runtime *runtime) {
  return runtime->exact_bits;
}

bool ls_runtime_finds_nan(const ls_runtime *runtime) {
  return runtime->find_nan;
}

ls_math ls_runtime_math(const ls_runtime *runtime) { return runtime->math; }

// ---- The first NaN ---------------------------------------------------------
void ls_runtime_note_nan(ls_runtime *runtime, bool is_made, const char *text,
                         ls_nan_row row) {
  ls_mutex_lock(&runtime->lock);
  if (runtime->nan[0] == '\0' || (is_made && !runtime->nan_is_made)) {
    snprintf(runtime->nan, sizeof(runtime->nan), "%s", text);
    runtime->nan_is_made = is_made;
    runtime->nan_row = row;
  }
  ls_mutex_unlock(&runtime->lock);
}

bool ls_runtime_take_nan(ls_runtime *runtime, char *text, size_t size) {
  if (runtime == NULL || !runtime->find_nan || text == NULL || size == 0)
    return false;
  ls_mutex_lock(&runtime->lock);
  snprintf(text, size, "%s", runtime->nan);
  runtime->nan[0] = '\0';
  ls_mutex_unlock(&runtime->lock);
  return text[0] != '\0';
}

void ls_runtime_watch_ops(ls_runtime *runtime, ls_op_watch watch, void *user) {
  if (runtime == NULL) return;
  runtime->watch = watch;
  runtime->watch_user = user;
}

const char *ls_math_name(ls_math math) {
  static const char *const names[] = {[LS_MATH_FAST] = "fast",
                                      [LS_MATH_DIRECT] = "direct",
                                      [LS_MATH_BF16] = "bf16",
                                      [LS_MATH_BF16_DIRECT] = "bf16-direct"};
  return (size_t)math < LS_COUNT_OF(names) ? names[math] : NULL;
}

ls_allocator *ls_runtime_allocator(ls_runtime *runtime) {
  return runtime->allocator;
}

ls_status ls_runtime_workers(ls_runtime *runtime, ls_workers **out_workers) {
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  if (runtime->workers == NULL) {
    status = ls_workers_create(runtime->allocator, runtime->threads,
                               &runtime->workers);
    if (ls_status_is_ok(status)) {
      ls_workers_take_cores(runtime->workers, runtime->cores);
      runtime->cores = NULL;
    }
  }
  *out_workers = runtime->workers;
  ls_runtime_unlock(runtime);
  return status;
}

ls_status ls_runtime_host_threads(ls_runtime *runtime,
                                  ls_host_threads **out_threads) {
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  if (runtime->host_threads == NULL)
    status = ls_host_threads_create(runtime->allocator, &runtime->host_threads);
  *out_threads = runtime->host_threads;
  ls_runtime_unlock(runtime);
  return status;
}

ls_status ls_runtime_inputs(ls_runtime *runtime,
                            ls_input_threads **out_threads) {
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  if (runtime->inputs == NULL && runtime->input_threads > 0)
    status = ls_input_threads_create(runtime->allocator, runtime,
                                     runtime->input_threads, &runtime->inputs);
  *out_threads = runtime->inputs;
  ls_runtime_unlock(runtime);
  return status;
}

size_t ls_runtime_abandoned_calls(ls_runtime *runtime) {
  ls_host_threads *threads = LS_RUNTIME_LOCKED(runtime, runtime->host_threads);
  if (threads == NULL) return 0;
  return LS_LOCKED(&threads->lock, threads->num_abandoned);
}

int64_t ls_runtime_stall_nanos(const ls_runtime *runtime) {
  return runtime->stall_nanos;
}

struct ls_communicator *ls_runtime_communicator(const ls_runtime *runtime) {
  return runtime->communicator;
}

const ls_file_system *ls_runtime_files(const ls_runtime *runtime) {
  return &runtime->file_system;
}

const char *ls_runtime_environment(const ls_runtime *runtime,
                                   const char *name) {
  return runtime->environment(runtime->environment_user, name);
}

const char *ls_version(void) { return LS_VERSION; }

// ---- Slots -----------------------------------------------------------------
void *ls_runtime_slot(const ls_runtime *runtime, ls_slot slot) {
  return __atomic_load_n(&runtime->slots[slot].state, __ATOMIC_ACQUIRE);
}

void ls_runtime_set_slot(ls_runtime *runtime, ls_slot slot, void *state,
                         void (*destroy)(void *state)) {
  ls_runtime_lock(runtime);
  runtime->slots[slot].destroy = destroy;
  __atomic_store_n(&runtime->slots[slot].state, state, __ATOMIC_RELEASE);
  ls_runtime_unlock(runtime);
}

void ls_runtime_lock(ls_runtime *runtime) { ls_mutex_lock(&runtime->lock); }

void ls_runtime_unlock(ls_runtime *runtime) { ls_mutex_unlock(&runtime->lock); }

// ---- Clock -----------------------------------------------------------------
static int64_t read_clock(clockid_t which) {
  struct timespec now = {0};
  clock_gettime(which, &now);
  return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

static int64_t system_now(void *user) {
  (void)user;
  return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_wall(void *user) {
  (void)user;
  return read_clock(CLOCK_REALTIME);
}

static void system_sleep(void *user, int64_t nanos) {
  (void)user;
  ls_thread_sleep(nanos);
}

const ls_clock *ls_clock_system(void) {
  static const ls_clock clock = {system_now, system_wall, system_sleep, NULL};
  return &clock;
}

int64_t ls_runtime_now(const ls_runtime *runtime) {
  return runtime->clock.now(runtime->clock.user);
}

int64_t ls_runtime_wall(const ls_runtime *runtime) {
  return runtime->clock.wall(runtime->clock.user);
}

void ls_runtime_sleep(const ls_runtime *runtime, int64_t nanos) {
  runtime->clock.sleep(runtime->clock.user, nanos);
}

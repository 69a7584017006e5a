// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/pod.h"

#include <ctype.h>

#include "base/require.h"

// ---- Kinds -----------------------------------------------------------------
typedef struct fault_row {
  const char *name;  // The fault's name in the names of pods.
  // Bits: the fault points at which the fault begins and counts steps.
  unsigned doors;
  // Bits: the fault points that the fault still affects once it has begun.
  unsigned felt;
  bool of_host;  // True if the fault affects all cores of its host.
  bool stays;  // True if the fault lasts until the system is initialized again.
  bool needs_nanos, needs_bytes;
} fault_row;

enum {
  COMPILE = 1 << LS_DOOR_COMPILE,
  RUN = 1 << LS_DOOR_RUN,
  DEQUEUE = 1 << LS_DOOR_DEQUEUE,
  ENQUEUE = 1 << LS_DOOR_ENQUEUE,
  OUTFEED = 1 << LS_DOOR_OUTFEED,
  HEALTH = 1 << LS_DOOR_HEALTH,
};

enum { NUM_KINDS = LS_POD_NO_HEARTBEAT + 1 };
static const fault_row fault_rows[NUM_KINDS] = {
    [LS_POD_HOST_PREEMPTED] = {"preempt", RUN | DEQUEUE, ENQUEUE | HEALTH,
                               .of_host = true, .stays = true},
    [LS_POD_CORE_LOST] = {"lost", RUN | DEQUEUE, ENQUEUE, .stays = true},
    [LS_POD_TUPLE_LOST] = {"drop", ENQUEUE, .stays = false},
    [LS_POD_TUPLE_LATE] = {"late", ENQUEUE, .needs_nanos = true},
    [LS_POD_TUPLE_CHANGED] = {"change", ENQUEUE, .stays = false},
    [LS_POD_INFEED_CLOSED] = {"close", ENQUEUE, .stays = false},
    [LS_POD_CORE_SLOW] = {"slow", RUN | DEQUEUE | OUTFEED, .needs_nanos = true},
    [LS_POD_OUTFEED_FAILS] = {"fail", OUTFEED, .stays = false},
    [LS_POD_COMPILE_FAILS] = {"compile", COMPILE, .of_host = true},
    [LS_POD_MEMORY_SHORT] = {"memory", COMPILE, .stays = true,
                             .needs_bytes = true},
    [LS_POD_HOST_LAME] = {"lame", HEALTH, .of_host = true, .stays = true},
    [LS_POD_HOST_SILENT] = {"silent", HEALTH, .of_host = true, .stays = true},
    [LS_POD_NO_HEARTBEAT] = {"noheartbeat", HEALTH, .of_host = true,
                             .stays = true},
};

// A planned fault.
struct ls_planned_fault {
  ls_pod_fault fault;  // The fault; the pod owns the text in it.
  // The core whose steps count: for a fault of a host, the first core that
  // passes.
  const ls_core *counted;
  int64_t steps[LS_POD_DOORS];
  bool happened;
};

// ---- Plan ------------------------------------------------------------------
static ls_status check_fault(const ls_pod *pod, const ls_pod_fault *fault) {
  if ((unsigned)fault->kind >= NUM_KINDS)
    return ls_invalid_argument("there is no kind %d of fault",
                               (int)fault->kind);
  const fault_row *row = &fault_rows[fault->kind];
  if (fault->host < 0 || fault->host >= pod->num_hosts || fault->core < 0 ||
      fault->core >= pod->cores_per_host)
    return ls_invalid_argument("fault %s of host %d core %d: pod '%s' has "
                               "hosts 0 to %d of cores 0 to %d",
                               row->name, fault->host, fault->core, pod->name,
                               pod->num_hosts - 1, pod->cores_per_host - 1);
  if (fault->at_step < 0 || fault->every < 0 || fault->nanos < 0 ||
      fault->bytes < 0)
    return ls_invalid_argument("fault %s at step %lld, every %lld, for %lld "
                               "ns, of %lld bytes: none can be below 0",
                               row->name, (long long)fault->at_step,
                               (long long)fault->every, (long long)fault->nanos,
                               (long long)fault->bytes);
  if (row->needs_nanos && fault->nanos == 0)
    return ls_invalid_argument("fault %s needs a delay: set nanos", row->name);
  if (row->needs_bytes && fault->bytes == 0)
    return ls_invalid_argument("fault %s needs a size: set bytes", row->name);
  return ls_ok();
}

static ls_status plan(ls_pod *pod, const ls_pod_fault *fault, bool happened) {
  LS_RETURN_IF_ERROR(check_fault(pod, fault));
  const char *text = fault->text != NULL ? fault->text : "planned";
  char *kept = ls_copy_text(pod->allocator, text, strlen(text));
  if (kept == NULL) return ls_out_of_memory();
  ls_mutex_lock(&pod->lock);
  const bool fits = LS_GROW(pod->allocator, pod->faults, pod->faults_capacity,
                            pod->num_faults + 1);
  if (fits) {
    struct ls_planned_fault *planned = &pod->faults[pod->num_faults];
    *planned = (struct ls_planned_fault){.fault = *fault, .happened = happened};
    planned->fault.text = kept;
    __atomic_store_n(&pod->num_faults, pod->num_faults + 1, __ATOMIC_RELEASE);
  }
  ls_mutex_unlock(&pod->lock);
  if (fits) return ls_ok();
  ls_release(pod->allocator, kept);
  return ls_out_of_memory();
}

ls_status ls_pod_inject(ls_pod *pod, const ls_pod_fault *fault) {
  LS_REQUIRE(pod, fault);
  return plan(pod, fault, false);
}

void ls_pod_heal(ls_pod *pod) {
  ls_mutex_lock(&pod->lock);
  for (size_t i = 0; i < pod->num_faults; ++i)
    ls_release(pod->allocator, pod->faults[i].fault.text);
  __atomic_store_n(&pod->num_faults, 0, __ATOMIC_RELEASE);
  ls_mutex_unlock(&pod->lock);
}

void ls_pod_restart_faults(ls_pod *pod) {
  ls_mutex_lock(&pod->lock);
  size_t kept = 0;
  for (size_t i = 0; i < pod->num_faults; ++i) {
    struct ls_planned_fault planned = pod->faults[i];
    if (planned.happened && planned.fault.every == 0) {
      ls_release(pod->allocator, planned.fault.text);
      continue;
    }
    planned.happened = false;
    memset(planned.steps, 0, sizeof(planned.steps));
    pod->faults[kept++] = planned;
  }
  __atomic_store_n(&pod->num_faults, kept, __ATOMIC_RELEASE);
  ls_mutex_unlock(&pod->lock);
}

// ---- Pass ------------------------------------------------------------------
// Returns true if the fault happens to this core now. Requires the pod's lock.
static bool fault_happens(struct ls_planned_fault *planned, const ls_core *core,
                          ls_pod_door door) {
  const ls_pod_fault *fault = &planned->fault;
  const fault_row *row = &fault_rows[fault->kind];
  if (((row->doors | row->felt) & 1u << door) == 0 ||
      core->host != fault->host ||
      (!row->of_host && core->ordinal != fault->core))
    return false;
  if ((row->doors & 1u << door) == 0) return planned->happened;
  if (planned->counted == NULL) planned->counted = core;
  if (planned->happened && row->stays) return true;
  if (planned->counted != core) return false;
  const int64_t behind = planned->steps[door]++ - fault->at_step;
  const bool is_due = behind == 0 || (behind > 0 && fault->every > 0 &&
                                      behind % fault->every == 0);
  planned->happened |= is_due;
  return is_due;
}

// The joint effect of all faults that happen at once.
typedef struct effect {
  ls_status status;  // The first failure.
  ls_pod_passing passing;
} effect;

static ls_status core_is_gone(const ls_core *core, ls_pod_fault_kind kind) {
  const char *job = core->pod->job[0] != '\0' ? core->pod->job : "localhost";
  ls_device_name name;
  if (kind == LS_POD_HOST_PREEMPTED)
    return LS_STATUS(
        LS_UNAVAILABLE,
        "host /job:%s/task:%d of TPU system '%s' was preempted: initialize the "
        "system again and resume from the last checkpoint",
        job, core->host, core->pod->name);
  ls_core_device(core, &name);
  return LS_STATUS(LS_UNAVAILABLE,
                   "core %s of TPU system '%s' was lost: initialize the system "
                   "again and resume from the last checkpoint",
                   name.text, core->pod->name);
}

static void pod_fault_apply(const struct ls_planned_fault *planned,
                            const ls_core *core, effect *out) {
  const ls_pod_fault *fault = &planned->fault;
  switch (fault->kind) {
  case LS_POD_HOST_PREEMPTED:
  case LS_POD_CORE_LOST:
    out->status = ls_status_join(out->status, core_is_gone(core, fault->kind));
    break;
  case LS_POD_TUPLE_LOST:
    out->passing.loses = true;
    break;
  case LS_POD_TUPLE_CHANGED:
    out->passing.changes = true;
    break;
  case LS_POD_INFEED_CLOSED:
    out->passing.closes = true;
    break;
  case LS_POD_TUPLE_LATE:
  case LS_POD_CORE_SLOW:
    out->passing.nanos += fault->nanos;
    break;
  case LS_POD_COMPILE_FAILS:
    out->status = ls_status_join(
        out->status,
        ls_invalid_argument(
            "compilation for host %d of TPU system '%s' failed: %s", core->host,
            core->pod->name, fault->text));
    break;
  case LS_POD_MEMORY_SHORT:
    if (out->passing.bytes == 0 || fault->bytes < out->passing.bytes)
      out->passing.bytes = fault->bytes;
    break;
  case LS_POD_HOST_LAME:
    out->passing.lame = true;
    break;
  case LS_POD_HOST_SILENT:
    out->passing.silent = true;
    break;
  case LS_POD_NO_HEARTBEAT:
    out->passing.tells = false;
    break;
  case LS_POD_OUTFEED_FAILS: {
    ls_device_name name;
    ls_core_device(core, &name);
    out->status = ls_status_join(
        out->status, LS_STATUS(LS_ABORTED, "the outfeed of %s failed: %s",
                               name.text, fault->text));
    break;
  }
  }
}

// Fails a host of a watched pod if its health checks have stopped for too long.
// Calls that pass a fault point do this check, because a host here has no
// thread that could end itself.
static ls_status check_watch(ls_pod *pod, int32_t host) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  const int64_t most = pod->watched;
  const int64_t waited = most > 0 ? now - pod->asked[host] : 0;
  const bool goes = waited > most;
  if (goes) pod->asked[host] = INT64_MAX;  // A host is lost only once.
  ls_mutex_unlock(&pod->lock);
  if (!goes) return ls_ok();
  ls_runtime_log(pod->runtime, LS_LOG_WARNING, "tpu",
                 "host %d of TPU system '%s' shuts down: its health was not "
                 "queried for %.1f s",
                 host, pod->name, (double)waited * 1e-9);
  return ls_pod_shut_down_host(pod, host);
}

ls_status ls_pod_pass_slowly(ls_core *core, ls_pod_door door,
                             ls_pod_passing *out_passing) {
  ls_pod *pod = core->pod;
  effect all = {.passing = {.tells = true}};
  *out_passing = all.passing;
  LS_RETURN_IF_ERROR(check_watch(pod, core->host));
  ls_mutex_lock(&pod->lock);
  for (size_t i = 0; i < pod->num_faults; ++i)
    if (fault_happens(&pod->faults[i], core, door))
      pod_fault_apply(&pod->faults[i], core, &all);
  ls_mutex_unlock(&pod->lock);
  *out_passing = all.passing;
  if (all.passing.nanos > 0) {
    ls_device_name name;
    ls_core_device(core, &name);
    ls_runtime_log(pod->runtime, LS_LOG_WARNING, "tpu",
                   "%s of %s takes %.3f ms longer than others",
                   door == LS_DOOR_ENQUEUE ? "a tuple" : "a step", name.text,
                   (double)all.passing.nanos * 1e-6);
  }
  return all.status;
}

ls_status ls_pod_pass_all(ls_pod *pod, const char *const *devices,
                          int32_t count, ls_pod_door door) {
  int64_t nanos = 0;
  for (int32_t i = 0; i < count; ++i) {
    ls_core *core = ls_pod_core_at(pod, devices[i]);
    ls_pod_passing passing;
    if (core == NULL) continue;
    LS_RETURN_IF_ERROR(ls_pod_pass(core, door, &passing));
    if (passing.nanos > nanos) nanos = passing.nanos;
  }
  if (nanos > 0) ls_runtime_sleep(pod->runtime, nanos);
  return ls_ok();
}

// ---- Hosts -----------------------------------------------------------------
int32_t ls_pod_num_hosts(const ls_pod *pod) { return pod->num_hosts; }

static ls_status check_host(const ls_pod *pod, int32_t host) {
  if (host >= 0 && host < pod->num_hosts) return ls_ok();
  return ls_invalid_argument("there is no host %d: pod '%s' has hosts 0 to %d",
                             host, pod->name, pod->num_hosts - 1);
}

static void pod_note_asked(ls_pod *pod, int32_t host) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  if (pod->asked != NULL) pod->asked[host] = now;
  ls_mutex_unlock(&pod->lock);
}

ls_status ls_pod_ask_health(ls_pod *pod, int32_t host, int64_t timeout_nanos,
                            ls_pod_health *out_health) {
  LS_REQUIRE_OUT(out_health, pod);
  *out_health = LS_POD_HEALTHY;
  LS_RETURN_IF_ERROR(check_host(pod, host));
  if (timeout_nanos < 1)
    return ls_invalid_argument(
        "a time of %lld ns to answer in: it is at least 1",
        (long long)timeout_nanos);
  ls_pod_passing passing;
  LS_RETURN_IF_ERROR(
      ls_pod_pass(ls_pod_core(pod, host, 0), LS_DOOR_HEALTH, &passing));
  if (!passing.tells)
    return ls_unimplemented("host %d of TPU system '%s' cannot report its "
                            "health: it has no heartbeat",
                            host, pod->name);
  if (passing.silent) {
    ls_runtime_sleep(pod->runtime, timeout_nanos);
    return LS_STATUS(
        LS_DEADLINE_EXCEEDED,
        "host %d of TPU system '%s' has not reported its health within %.3f s",
        host, pod->name, (double)timeout_nanos * 1e-9);
  }
  pod_note_asked(pod, host);
  if (passing.lame) *out_health = LS_POD_LAME;
  return ls_ok();
}

ls_status ls_pod_shut_down_host(ls_pod *pod, int32_t host) {
  LS_REQUIRE(pod);
  LS_RETURN_IF_ERROR(check_host(pod, host));
  return plan(pod, &(ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED, .host = host},
              true);
}

// ---- Faults in pod names ---------------------------------------------------
// Reads a word followed by a number of up to 31 bits, such as "host12".
static bool read_number(const char **at, const char *end, const char *word,
                        int64_t *out) {
  const size_t length = strlen(word);
  const char *next = *at + length;
  if ((size_t)(end - *at) <= length || strncmp(*at, word, length) != 0 ||
      !isdigit((unsigned char)*next))
    return false;
  int64_t value = 0;
  for (; next < end && isdigit((unsigned char)*next); ++next)
    if (value <= INT32_MAX) value = 10 * value + (*next - '0');
  if (value > INT32_MAX) return false;
  *out = value;
  *at = next;
  return true;
}

typedef struct unit {
  const char *name;
  int64_t size;
} unit;

// Reads an amount with its unit, such as "5ms". The list `units` ends with a
// unit without a name.
static bool read_amount(const char **at, const char *end, const unit *units,
                        int64_t *out) {
  const char *next = *at;
  int64_t value = 0;
  if (!read_number(&next, end, "", &value)) return false;
  for (; units->name != NULL; ++units) {
    const size_t length = strlen(units->name);
    if ((size_t)(end - next) < length ||
        strncmp(next, units->name, length) != 0)
      continue;
    *at = next + length;
    *out = value * units->size;
    return true;
  }
  return false;
}

static const unit times[] = {
    {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};
static const unit sizes[] = {
    {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};

static bool read_kind(const char **at, const char *end,
                      ls_pod_fault_kind *out) {
  for (size_t i = 0; i < NUM_KINDS; ++i) {
    const char *name = fault_rows[i].name;
    const size_t length = strlen(name);
    if ((size_t)(end - *at) <= length || (*at)[length] != '@' ||
        strncmp(*at, name, length) != 0)
      continue;
    *out = (ls_pod_fault_kind)i;
    *at += length + 1;
    return true;
  }
  return false;
}

const char *ls_pod_fault_parse(const char *text, size_t size,
                               ls_pod_fault *out_fault) {
  const char *at = text, *end = text + size;
  int64_t host = 0, core = 0;
  *out_fault = (ls_pod_fault){0};
  if (!read_kind(&at, end, &out_fault->kind))
    return "is no fault: its kinds are preempt, lost, drop, late, change, "
           "close, slow, fail, compile, memory, lame, silent and noheartbeat, "
           "followed by @";
  if (!read_number(&at, end, "host", &host))
    return "has no host: hostH or hostH.coreC must follow the @";
  (void)(at < end && *at == '.' && read_number(&at, end, ".core", &core));
  out_fault->host = (int32_t)host;
  out_fault->core = (int32_t)core;
  while (at < end) {
    const bool reads =
        *at++ == ':' && (read_number(&at, end, "step", &out_fault->at_step) ||
                         read_number(&at, end, "every", &out_fault->every) ||
                         read_amount(&at, end, times, &out_fault->nanos) ||
                         read_amount(&at, end, sizes, &out_fault->bytes));
    if (!reads)
      return "is no fault: the host may be followed by :stepK, :everyN, a "
             "duration such as :5ms and a size such as :64MiB";
  }
  const fault_row *row = &fault_rows[out_fault->kind];
  if (row->needs_nanos && out_fault->nanos == 0)
    return "needs a duration such as :5ms";
  if (row->needs_bytes && out_fault->bytes == 0)
    return "needs a size such as :64MiB";
  return NULL;
}

// ---- Health checks ---------------------------------------------------------
ls_status ls_pod_watch(ls_pod *pod, int64_t timeout_nanos) {
  LS_REQUIRE(pod);
  if (timeout_nanos < 0)
    return ls_invalid_argument(
        "a time of %lld ns in which to ask hosts: it is 0 or more",
        (long long)timeout_nanos);
  ls_mutex_lock(&pod->lock);
  if (pod->asked == NULL && timeout_nanos > 0)
    pod->asked = ls_new_array(pod->allocator, int64_t, (size_t)pod->num_hosts);
  const bool fits = pod->asked != NULL || timeout_nanos == 0;
  if (fits) __atomic_store_n(&pod->watched, timeout_nanos, __ATOMIC_RELAXED);
  ls_mutex_unlock(&pod->lock);
  if (!fits) return ls_out_of_memory();
  ls_pod_restart_watch(pod);
  return ls_ok();
}

void ls_pod_restart_watch(ls_pod *pod) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  for (int32_t i = 0; pod->asked != NULL && i < pod->num_hosts; ++i)
    pod->asked[i] = now;
  ls_mutex_unlock(&pod->lock);
}

// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod_fault.h"

#include <ctype.h>
#include <stdio.h>

#include "base/require.h"

// A fault that is planned.
struct ls_planned_fault {
  ls_pod_fault fault;  // Its text is the pod's.
  // Whose steps count: of a host the core that came by first.
  const ls_core *counted;
  int64_t steps[LS_POD_DOORS];
  bool happened;
};

// ---- The table of them -----------------------------------------------------
// Where each kind stands, and what a name calls it.
typedef struct kind_row {
  const char *name;
  unsigned doors;
  bool of_host;  // Any of its cores.
  bool stays;    // Until the system begins anew.
  bool needs_nanos;
} kind_row;

enum {
  RUN = 1 << LS_DOOR_RUN,
  DEQUEUE = 1 << LS_DOOR_DEQUEUE,
  ENQUEUE = 1 << LS_DOOR_ENQUEUE,
  OUTFEED = 1 << LS_DOOR_OUTFEED,
};

static const kind_row kinds[] = {
    [LS_POD_HOST_PREEMPTED] = {"preempt", RUN | DEQUEUE, true, true, false},
    [LS_POD_CORE_LOST] = {"lost", RUN | DEQUEUE, false, true, false},
    [LS_POD_TUPLE_LOST] = {"drop", ENQUEUE, false, false, false},
    [LS_POD_TUPLE_LATE] = {"late", ENQUEUE, false, false, true},
    [LS_POD_TUPLE_CHANGED] = {"change", ENQUEUE, false, false, false},
    [LS_POD_INFEED_CLOSED] = {"close", ENQUEUE, false, false, false},
    [LS_POD_CORE_SLOW] = {"slow", RUN | DEQUEUE, false, false, true},
    [LS_POD_OUTFEED_FAILS] = {"fail", OUTFEED, false, false, false},
};

static ls_status check_fault(const ls_pod *pod, const ls_pod_fault *fault) {
  if ((size_t)fault->kind >= LS_COUNT_OF(kinds))
    return ls_invalid_argument("there is no kind %d of fault",
                               (int)fault->kind);
  const kind_row *row = &kinds[fault->kind];
  if (fault->host < 0 || fault->host >= pod->num_hosts || fault->core < 0 ||
      fault->core >= pod->cores_per_host)
    return ls_invalid_argument(
        "fault %s of host %d core %d: pod '%s' has hosts "
        "0 to %d of cores 0 to %d",
        row->name, fault->host, fault->core, pod->name, pod->num_hosts - 1,
        pod->cores_per_host - 1);
  if (fault->at_step < 0 || fault->every < 0 || fault->nanos < 0)
    return ls_invalid_argument(
        "fault %s at step %lld, every %lld, for %lld ns: "
        "none can be below 0",
        row->name, (long long)fault->at_step, (long long)fault->every,
        (long long)fault->nanos);
  if (row->needs_nanos && fault->nanos == 0)
    return ls_invalid_argument("fault %s says nothing of how long: it needs "
                               "nanos",
                               row->name);
  return ls_ok();
}

ls_status ls_pod_inject(ls_pod *pod, const ls_pod_fault *fault) {
  LS_REQUIRE(pod);
  LS_REQUIRE(fault);
  LS_RETURN_IF_ERROR(check_fault(pod, fault));
  const char *text = fault->text != NULL ? fault->text : "planned";
  char *kept = ls_copy_text(pod->allocator, text, strlen(text));
  if (kept == NULL) return ls_out_of_memory();
  ls_mutex_lock(&pod->lock);
  const bool fits = ls_grow(pod->allocator, &pod->faults, &pod->faults_capacity,
                            pod->num_faults + 1, sizeof(*pod->faults));
  if (fits) {
    struct ls_planned_fault *planned = &pod->faults[pod->num_faults];
    *planned = (struct ls_planned_fault){.fault = *fault};
    planned->fault.text = kept;
    __atomic_store_n(&pod->num_faults, pod->num_faults + 1, __ATOMIC_RELEASE);
  }
  ls_mutex_unlock(&pod->lock);
  if (fits) return ls_ok();
  ls_release(pod->allocator, kept);
  return ls_out_of_memory();
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

// ---- Passing ---------------------------------------------------------------
// Whether it happens to this core now. With the pod's lock held.
static bool happens(struct ls_planned_fault *planned, const ls_core *core,
                    ls_pod_door door) {
  const ls_pod_fault *fault = &planned->fault;
  const kind_row *row = &kinds[fault->kind];
  if ((row->doors & 1u << door) == 0 || core->host != fault->host ||
      (!row->of_host && core->ordinal != fault->core))
    return false;
  if (planned->counted == NULL) planned->counted = core;
  if (planned->happened && row->stays) return true;
  if (planned->counted != core) return false;
  const int64_t behind = planned->steps[door]++ - fault->at_step;
  const bool is_due = behind == 0 || (behind > 0 && fault->every > 0 &&
                                      behind % fault->every == 0);
  planned->happened |= is_due;
  return is_due;
}

// What comes of all that happen at once.
typedef struct effect {
  ls_status status;  // The first.
  int64_t nanos;
  ls_pod_passing passing;
} effect;

static ls_status gone(const ls_core *core, ls_pod_fault_kind kind) {
  const char *job = core->pod->job[0] != '\0' ? core->pod->job : "localhost";
  ls_device_name name;
  if (kind == LS_POD_HOST_PREEMPTED)
    return LS_STATUS(LS_UNAVAILABLE,
                     "host /job:%s/task:%d of TPU system '%s' was preempted: "
                     "initialize the system anew and go on from what was saved",
                     job, core->host, core->pod->name);
  ls_core_device(core, &name);
  return LS_STATUS(LS_UNAVAILABLE,
                   "core %s of TPU system '%s' was lost: initialize the system "
                   "anew and go on from what was saved",
                   name.text, core->pod->name);
}

static void apply(const struct ls_planned_fault *planned, const ls_core *core,
                  effect *out) {
  const ls_pod_fault *fault = &planned->fault;
  switch (fault->kind) {
  case LS_POD_HOST_PREEMPTED:
  case LS_POD_CORE_LOST:
    out->status = ls_status_join(out->status, gone(core, fault->kind));
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
    out->nanos += fault->nanos;
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

ls_status ls_pod_pass_slowly(ls_core *core, ls_pod_door door,
                             ls_pod_passing *out_passing) {
  ls_pod *pod = core->pod;
  effect all = {0};
  ls_mutex_lock(&pod->lock);
  for (size_t i = 0; i < pod->num_faults; ++i)
    if (happens(&pod->faults[i], core, door))
      apply(&pod->faults[i], core, &all);
  ls_mutex_unlock(&pod->lock);
  *out_passing = all.passing;
  if (all.nanos > 0) {
    ls_device_name name;
    ls_core_device(core, &name);
    ls_runtime_log(pod->runtime, LS_LOG_WARNING, "tpu",
                   "%s of %s takes %.3f ms longer than others",
                   door == LS_DOOR_ENQUEUE ? "a tuple" : "a step", name.text,
                   (double)all.nanos * 1e-6);
    ls_runtime_sleep(pod->runtime, all.nanos);
  }
  return all.status;
}

ls_status ls_pod_pass_all(ls_runtime *runtime, const char *const *devices,
                          int32_t count, ls_pod_door door) {
  for (int32_t i = 0; i < count; ++i) {
    ls_core *core = NULL;
    ls_pod_passing passing;
    ls_status_free(ls_pod_lookup_core(runtime, devices[i], &core));
    if (core != NULL) LS_RETURN_IF_ERROR(ls_pod_pass(core, door, &passing));
  }
  return ls_ok();
}

// ---- In names --------------------------------------------------------------
// Reads a word and a number of up to 31 bits behind it: "host12".
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

static bool read_duration(const char **at, const char *end, int64_t *out) {
  static const struct {
    const char *unit;
    int64_t nanos;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  int64_t value = 0;
  if (!read_number(at, end, "", &value)) return false;
  for (size_t i = 0; i < LS_COUNT_OF(units); ++i) {
    const size_t length = strlen(units[i].unit);
    if ((size_t)(end - *at) < length ||
        strncmp(*at, units[i].unit, length) != 0)
      continue;
    *at += length;
    *out = value * units[i].nanos;
    return true;
  }
  return false;
}

static bool read_kind(const char **at, const char *end,
                      ls_pod_fault_kind *out) {
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    const size_t length = strlen(kinds[i].name);
    if ((size_t)(end - *at) <= length || (*at)[length] != '@' ||
        strncmp(*at, kinds[i].name, length) != 0)
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
           "close, slow and fail, followed by @";
  if (!read_number(&at, end, "host", &host))
    return "has no host: hostH or hostH.coreC stands behind the @";
  (void)(at < end && *at == '.' && read_number(&at, end, ".core", &core));
  out_fault->host = (int32_t)host;
  out_fault->core = (int32_t)core;
  while (at < end) {
    const bool reads =
        *at++ == ':' && (read_number(&at, end, "step", &out_fault->at_step) ||
                         read_number(&at, end, "every", &out_fault->every) ||
                         read_duration(&at, end, &out_fault->nanos));
    if (!reads)
      return "is no fault: behind the host may stand :stepK, :everyN and a "
             "duration such as :5ms";
  }
  return kinds[out_fault->kind].needs_nanos && out_fault->nanos == 0
             ? "says nothing of how long: a duration such as :5ms"
             : NULL;
}

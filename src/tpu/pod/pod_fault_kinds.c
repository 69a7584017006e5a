// SPDX-License-Identifier: Apache-2.0
//
// The table of kinds of faults, and how names say them.
#include "tpu/pod/pod_fault_kinds.h"

#include <ctype.h>

enum {
  COMPILE = 1 << LS_DOOR_COMPILE,
  RUN = 1 << LS_DOOR_RUN,
  DEQUEUE = 1 << LS_DOOR_DEQUEUE,
  ENQUEUE = 1 << LS_DOOR_ENQUEUE,
  OUTFEED = 1 << LS_DOOR_OUTFEED,
  HEALTH = 1 << LS_DOOR_HEALTH,
};

const ls_pod_fault_row ls_pod_fault_rows[LS_POD_FAULT_KINDS] = {
    [LS_POD_HOST_PREEMPTED] = {"preempt", RUN | DEQUEUE, ENQUEUE | HEALTH,
                               .of_host = true, .stays = true},
    [LS_POD_CORE_LOST] = {"lost", RUN | DEQUEUE, ENQUEUE, .stays = true},
    [LS_POD_TUPLE_LOST] = {"drop", ENQUEUE, 0},
    [LS_POD_TUPLE_LATE] = {"late", ENQUEUE, .needs_nanos = true},
    [LS_POD_TUPLE_CHANGED] = {"change", ENQUEUE, 0},
    [LS_POD_INFEED_CLOSED] = {"close", ENQUEUE, 0},
    [LS_POD_CORE_SLOW] = {"slow", RUN | DEQUEUE | OUTFEED, .needs_nanos = true},
    [LS_POD_OUTFEED_FAILS] = {"fail", OUTFEED, 0},
    [LS_POD_COMPILE_FAILS] = {"compile", COMPILE, .of_host = true},
    [LS_POD_MEMORY_SHORT] = {"memory", COMPILE, .stays = true,
                             .needs_bytes = true},
    [LS_POD_HOST_LAME] = {"lame", HEALTH, .of_host = true, .stays = true},
    [LS_POD_HOST_SILENT] = {"silent", HEALTH, .of_host = true, .stays = true},
    [LS_POD_NO_HEARTBEAT] = {"noheartbeat", HEALTH, .of_host = true,
                             .stays = true},
};

// ---- In names --------------------------------------------------------------
// Reads a word and a number of up to 31 bits behind it: "host12".
static bool pod_fault_kinds_read_number(const char **at, const char *end,
                                        const char *word, int64_t *out) {
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

// A number of units: "5ms". `units` end with one without a name.
static bool read_amount(const char **at, const char *end, const unit *units,
                        int64_t *out) {
  const char *next = *at;
  int64_t value = 0;
  if (!pod_fault_kinds_read_number(&next, end, "", &value)) return false;
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
  for (size_t i = 0; i < LS_POD_FAULT_KINDS; ++i) {
    const char *name = ls_pod_fault_rows[i].name;
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
  if (!pod_fault_kinds_read_number(&at, end, "host", &host))
    return "has no host: hostH or hostH.coreC stands behind the @";
  (void)(at < end && *at == '.' &&
         pod_fault_kinds_read_number(&at, end, ".core", &core));
  out_fault->host = (int32_t)host;
  out_fault->core = (int32_t)core;
  while (at < end) {
    const bool reads =
        *at++ == ':' &&
        (pod_fault_kinds_read_number(&at, end, "step", &out_fault->at_step) ||
         pod_fault_kinds_read_number(&at, end, "every", &out_fault->every) ||
         read_amount(&at, end, times, &out_fault->nanos) ||
         read_amount(&at, end, sizes, &out_fault->bytes));
    if (!reads)
      return "is no fault: behind the host may stand :stepK, :everyN, a "
             "duration such as :5ms and a size such as :64MiB";
  }
  const ls_pod_fault_row *row = &ls_pod_fault_rows[out_fault->kind];
  if (row->needs_nanos && out_fault->nanos == 0)
    return "says nothing of how long: a duration such as :5ms";
  if (row->needs_bytes && out_fault->bytes == 0)
    return "says nothing of how much: a size such as :64MiB";
  return NULL;
}

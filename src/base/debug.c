// SPDX-License-Identifier: Apache-2.0
// Reads debug switches from the environment.
#include "base/debug.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "lockstep/runtime_settings.h"

typedef enum debug_switch {
#define LS_SWITCH(id, variable, form, help) SWITCH_##id,
#include "base/debug.def"
#undef LS_SWITCH
} debug_switch;

static const char *const variables[] = {
#define LS_SWITCH(id, variable, form, help) variable,
#include "base/debug.def"
#undef LS_SWITCH
};

static const char *const forms[] = {
#define LS_SWITCH(id, variable, form, help) form,
#include "base/debug.def"
#undef LS_SWITCH
};

static const char *const areas[] = {
#define LS_DEBUG_AREA_ROW(id, name, help) name,
#include "base/debug.def"
#undef LS_DEBUG_AREA_ROW
};

const char *ls_debug_switches_help(void) {
  return
#define LS_SWITCH(id, variable, form, help) variable "=" form "  " help "\n"
#include "base/debug.def"
#undef LS_SWITCH
#define LS_DEBUG_AREA_ROW(id, name, help) "  area " name "  " help "\n"
#include "base/debug.def"
#undef LS_DEBUG_AREA_ROW
      ;
}

// ---- Values ----------------------------------------------------------------
// Reads a decimal number from 0 to `limit` that takes up all `size` bytes.
static bool debug_read_number(const char *text, size_t size, uint64_t limit,
                              uint64_t *out_value) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) {
      return false;
    }
  }
  *out_value = value;
  return size > 0 && value <= limit;
}

// Reads one "area" or "area:level" of LS_DEBUG.
static bool read_area(ls_debug *debug, const char *text, size_t size) {
  const char *colon = memchr(text, ':', size);
  const size_t name_size = colon == NULL ? size : (size_t)(colon - text);
  uint64_t level = 1;
  if (colon != NULL &&
      !debug_read_number(colon + 1, size - name_size - 1, 9, &level)) {
    return false;
  }
  for (size_t i = 0; i < LS_COUNT_OF(areas); ++i) {
    if (strlen(areas[i]) == name_size &&
        memcmp(areas[i], text, name_size) == 0) {
      debug->level[i] = (int)level;
      return true;
    }
  }
  return false;
}

static bool read_areas(ls_debug *debug, const char *text) {
  for (;;) {
    const size_t size = strcspn(text, ",");
    if (!read_area(debug, text, size)) return false;
    if (text[size] == '\0') return true;
    text += size + 1;
  }
}

static bool read_isa(ls_debug *debug, const char *text) {
  static const struct {
    const char *name;
    ls_isa isa;
  } rows[] = {{"base", LS_ISA_BASE}, {"v3", LS_ISA_V3}, {"v4", LS_ISA_V4}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (strcmp(rows[i].name, text) == 0) {
      debug->isa = rows[i].isa;
      return true;
    }
  }
  return false;
}

static bool read_lanes(ls_debug *debug, const char *text) {
  static const struct {
    const char *name;
    ls_lanes_by lanes;
  } rows[] = {{"cost", LS_LANES_BY_COST},
              {"threads", LS_LANES_BY_THREADS},
              {"blocks", LS_LANES_BY_BLOCKS}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (strcmp(rows[i].name, text) != 0) continue;
    debug->lanes = rows[i].lanes;
    return true;
  }
  return false;
}

static bool read_log(ls_debug *debug, const char *text) {
  static const char *const levels[] = {"off", "error", "warning", "info",
                                       "debug"};
  for (size_t i = 0; i < LS_COUNT_OF(levels); ++i) {
    if (strcmp(levels[i], text) != 0) continue;
    debug->log_levels = LS_SOME((long long)i);
    return true;
  }
  return false;
}

bool ls_log_is_shown(ls_log_level level) {
  ls_debug debug = {0};
  const char *text = getenv(variables[SWITCH_LOG]);
  if (text == NULL || !read_log(&debug, text)) return true;
  return (int)level < (int)debug.log_levels.value;
}

// Reads one switch into `debug`; returns false if the text is malformed.
static bool read_switch(ls_debug *debug, debug_switch which, const char *text) {
  uint64_t number = 0;
  switch (which) {
  case SWITCH_LOG:
    return read_log(debug, text);
  case SWITCH_DEBUG: {
    ls_debug read = {0};  // Becomes `*debug` only if all of the text is valid.
    if (!read_areas(&read, text)) return false;
    memcpy(debug->level, read.level, sizeof(read.level));
    return true;
  }
  case SWITCH_DUMP:
    return true;  // Any text is a valid folder; the caller copies it.
  case SWITCH_MPI:
    return true;  // Read by net/mpi.c, before there is a runtime.
  case SWITCH_PJRT_PLUGIN:
  case SWITCH_PJRT_CACHE:
    return true;  // Read by engine/pjrt.
  case SWITCH_VERIFY:
    if (!debug_read_number(text, strlen(text), 1, &number)) return false;
    debug->verify = number == 1;
    return true;
  case SWITCH_FAULT: {
    static const char prefix[] = "alloc:";
    const size_t size = sizeof(prefix) - 1;
    if (strncmp(text, prefix, size) != 0) return false;
    return debug_read_number(text + size, strlen(text + size), UINT64_MAX,
                             &debug->fault_at);
  }
  case SWITCH_THREADS:
    if (!debug_read_number(text, strlen(text), 4096, &number) || number == 0) {
      return false;
    }
    debug->threads = (int)number;
    return true;
  case SWITCH_ISA:
    return read_isa(debug, text);
  case SWITCH_LANES:
    return read_lanes(debug, text);
  case SWITCH_CUT:
    if (!debug_read_number(text, strlen(text), 1, &number)) return false;
    debug->uncut = number == 0;
    return true;
  }
  return false;
}

ls_status
ls_debug_init(ls_debug *debug, ls_allocator *allocator,
              const char *(*environment)(void *user, const char *name),
              void *user, void (*complain)(void *to, const char *line),
              void *to) {
  *debug = (ls_debug){0};
  for (size_t i = 0; i < LS_COUNT_OF(variables); ++i) {
    const char *text = environment(user, variables[i]);
    if (text == NULL || text[0] == '\0') continue;
    if (i == SWITCH_DUMP) {
      LS_RETURN_IF_ERROR(ls_keep_text(allocator, text, &debug->dump_directory));
    } else if (!read_switch(debug, (debug_switch)i, text)) {
      char line[256];
      snprintf(line, sizeof(line), "%s=%.100s is ignored: it should be %s",
               variables[i], text, forms[i]);
      complain(to, line);
    }
  }
  return ls_ok();
}

void ls_debug_deinit(ls_debug *debug, ls_allocator *allocator) {
  ls_release(allocator, debug->dump_directory);
  *debug = (ls_debug){0};
}

// ---- Questions -------------------------------------------------------------
int ls_debug_level(const ls_runtime *runtime, ls_debug_area area) {
  return runtime->debug.level[area];
}

int ls_debug_log_levels(const ls_runtime *runtime) {
  const ls_debug *debug = &runtime->debug;
  if (debug->log_levels.set) return (int)debug->log_levels.value;
  for (size_t i = 0; i < LS_DEBUG_AREA_COUNT; ++i)
    if (debug->level[i] > 0) return LS_LOG_DEBUG + 1;
  return LS_LOG_INFO + 1;
}

bool ls_debug_verify(const ls_runtime *runtime) {
  return runtime->debug.verify;
}

ls_lanes_by ls_debug_lanes(const ls_runtime *runtime) {
  return runtime->debug.lanes;
}

bool ls_debug_cut(const ls_runtime *runtime) { return !runtime->debug.uncut; }

ls_isa ls_debug_isa(const ls_runtime *runtime) { return runtime->debug.isa; }

const char *ls_debug_dump_directory(const ls_runtime *runtime) {
  return runtime->debug.dump_directory;
}

uint64_t ls_debug_count_dump(ls_runtime *runtime) {
  return __atomic_add_fetch(&runtime->debug.dumps, 1, __ATOMIC_RELAXED);
}

// SPDX-License-Identifier: Apache-2.0
#include "estimator/spec/tracer_flags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "base/text.h"
#include "estimator/config/config.h"

static const char variable[] = "TENSOR_TRACER_FLAGS";
static const char blanks[] = " \t\r\n";

static const char *const mode_names[LS_TRACE_MODES] = {
    "nan-inf", "part-tensor", "full-tensor", "norm", "max-abs"};

const char *ls_trace_mode_name(ls_trace_mode mode) { return mode_names[mode]; }

// ---- One flag --------------------------------------------------------------
typedef struct flag {
  const char *start;         // Begins with "--".
  const char *name, *value;  // Not zero-terminated. Value NULL: none.
  size_t name_size, value_size;
} flag;

// Reads the flag at `*at` and advances past it. Returns false at the end. For a
// word that is not a flag, name is NULL.
static bool next_flag(const char **at, flag *out) {
  const char *text = *at + strspn(*at, blanks);
  *out = (flag){.start = text, .name = text};
  if (*text == '\0') return false;
  if (strncmp(text, "--", 2) == 0) {
    out->name = text + 2;
    out->name_size = strcspn(out->name, " \t\r\n=");
  }
  text = out->name_size > 0 ? out->name + out->name_size
                            : text + strcspn(text, blanks);
  if (out->name_size > 0 && *text == '=') {
    const char quote = text[1];
    const bool quoted =
        (quote == '\'' || quote == '"') && strchr(text + 2, quote) != NULL;
    out->value = text + (quoted ? 2 : 1);
    out->value_size = quoted ? (size_t)(strchr(out->value, quote) - out->value)
                             : strcspn(out->value, blanks);
    text = out->value + out->value_size + (quoted ? 1 : 0);
  }
  *at = text;
  return true;
}

static bool is_named(const flag *f, const char *name) {
  return f->name_size == strlen(name) &&
         strncmp(f->name, name, f->name_size) == 0;
}

static bool is_on(const flag *f) {
  static const char *const yes[] = {"1", "t", "true", "y", "yes"};
  if (f->value == NULL) return true;
  for (size_t i = 0; i < LS_COUNT_OF(yes); ++i)
    if (f->value_size == strlen(yes[i]) &&
        strncasecmp(f->value, yes[i], f->value_size) == 0)
      return true;
  return false;
}

// ---- Apply flags -----------------------------------------------------------
typedef struct reading {
  ls_arena *memory;
  const char *name;  // Name of the parsed text, for messages.
  ls_tracer_flags *out;
} reading;

static ls_status set_enabled(reading *r, const flag *f) {
  r->out->enabled = is_on(f);
  return ls_ok();
}

static ls_status set_scalars(reading *r, const flag *f) {
  r->out->scalars = is_on(f);
  return ls_ok();
}

static ls_status set_mode(reading *r, const flag *f) {
  for (int i = 0; i < LS_TRACE_MODES; ++i)
    if (f->value != NULL && f->value_size == strlen(mode_names[i]) &&
        strncmp(f->value, mode_names[i], f->value_size) == 0) {
      r->out->mode = (ls_trace_mode)i;
      return ls_ok();
    }
  return ls_invalid_argument("%s: there is no trace_mode '%.*s'; the modes are "
                             "nan-inf, part-tensor, full-tensor, norm, max-abs",
                             r->name, (int)f->value_size,
                             f->value != NULL ? f->value : "");
}

// Reads a number at `*at` and advances past it.
static bool tracer_flags_read_number(const char **at, int64_t *out) {
  char *end = NULL;
  errno = 0;
  if (**at < '0' || **at > '9') return false;
  *out = strtoll(*at, &end, 10);
  *at = end;
  return errno == 0;
}

static ls_status set_range(reading *r, const flag *f) {
  const char *at = f->value != NULL ? f->value : "";
  if (tracer_flags_read_number(&at, &r->out->first) && *at++ == ':' &&
      tracer_flags_read_number(&at, &r->out->last) &&
      at == f->value + f->value_size && r->out->first <= r->out->last)
    return ls_ok();
  return ls_invalid_argument(
      "%s: op_range is '%.*s', expected A:B with numbers 0 <= A <= B", r->name,
      (int)f->value_size, f->value != NULL ? f->value : "");
}

static ls_status set_list(reading *r, const flag *f, ls_tracer_list list) {
  char *text = f->value != NULL ? ls_arena_format(r->memory, "%.*s",
                                                  (int)f->value_size, f->value)
                                : ls_arena_string(r->memory, "");
  if (text == NULL) return ls_out_of_memory();
  size_t most = 1;
  for (const char *at = text; *at != '\0'; ++at)
    most += *at == ',';
  LS_ARENA_ARRAY_OR_RETURN(r->memory, const char *, items, most);
  size_t count = 0;
  for (char *rest = text, *item; (item = strsep(&rest, ",")) != NULL;)
    if (item[0] != '\0') items[count++] = item;
  if (count == 0)
    return ls_invalid_argument("%s: --%.*s lists no pattern", r->name,
                               (int)f->name_size, f->name);
  r->out->patterns[list] = items;
  r->out->num_patterns[list] = count;
  return ls_ok();
}

static const struct {
  const char *name;
  ls_status (*set)(reading *r, const flag *f);
  ls_tracer_list list;  // Set if there is no function.
} flags[] = {
    {"enable", set_enabled, 0},
    {"trace_mode", set_mode, 0},
    {"trace_scalar", set_scalars, 0},
    {"op_range", set_range, 0},
    {"included_opnames", NULL, LS_TRACER_INCLUDED_NAMES},
    {"included_optypes", NULL, LS_TRACER_INCLUDED_TYPES},
    {"excluded_opnames", NULL, LS_TRACER_EXCLUDED_NAMES},
    {"excluded_optypes", NULL, LS_TRACER_EXCLUDED_TYPES},
};

static ls_status tracer_flags_refuse(const reading *r, const flag *f) {
  LS_OWN(ls_text, names) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i)
    ls_text_append_format(&names, "%s--%s", i > 0 ? ", " : "", flags[i].name);
  const size_t size =
      f->name_size > 0 ? f->name_size + 2 : strcspn(f->start, blanks);
  LS_RETURN_IF_ERROR(ls_text_status(&names));
  return ls_invalid_argument("%s: there is no flag '%.*s'; the flags are %s",
                             r->name, (int)size, f->start,
                             ls_text_data(&names));
}

static ls_status tracer_flags_set(reading *r, const flag *f) {
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i)
    if (f->name_size > 0 && is_named(f, flags[i].name))
      return flags[i].set != NULL ? flags[i].set(r, f)
                                  : set_list(r, f, flags[i].list);
  return tracer_flags_refuse(r, f);
}

static ls_status parse_flags(ls_arena *memory, const char *name,
                             const char *text, ls_tracer_flags *out_flags) {
  reading r = {memory, name, out_flags};
  flag f;
  *out_flags = (ls_tracer_flags){.last = INT64_MAX};
  while (next_flag(&text, &f))
    LS_RETURN_IF_ERROR(tracer_flags_set(&r, &f));
  return ls_ok();
}

// ---- The environment -------------------------------------------------------
ls_status ls_tracer_flags_read(ls_arena *memory, ls_tracer_flags *out_flags) {
  ls_setting setting;
  ls_setting_read(ls_runtime_current(), variable, &setting);
  return parse_flags(memory, setting.name,
                     setting.value != NULL ? setting.value : "", out_flags);
}

// Reads the flag `enable`; if it is repeated, its first value counts.
bool ls_tensor_tracer_is_on(void) {
  ls_runtime *runtime = ls_runtime_current();
  ls_setting setting;
  flag f;
  if (runtime == NULL) return false;
  ls_setting_read(runtime, variable, &setting);
  const char *at = setting.value != NULL ? setting.value : "";
  while (next_flag(&at, &f))
    if (is_named(&f, "enable")) return is_on(&f);
  return false;
}

// ---- Ops -------------------------------------------------------------------
static bool tracer_flags_fits(const ls_tracer_flags *f, ls_tracer_list list,
                              const char *text) {
  for (size_t i = 0; i < f->num_patterns[list]; ++i)
    if (ls_pattern_fits(f->patterns[list][i], text)) return true;
  return false;
}

bool ls_tracer_flags_take(const ls_tracer_flags *f, const char *name,
                          const char *type) {
  const bool chooses = f->num_patterns[LS_TRACER_INCLUDED_NAMES] > 0 ||
                       f->num_patterns[LS_TRACER_INCLUDED_TYPES] > 0;
  return (!chooses || tracer_flags_fits(f, LS_TRACER_INCLUDED_NAMES, name) ||
          tracer_flags_fits(f, LS_TRACER_INCLUDED_TYPES, type)) &&
         !tracer_flags_fits(f, LS_TRACER_EXCLUDED_NAMES, name) &&
         !tracer_flags_fits(f, LS_TRACER_EXCLUDED_TYPES, type);
}

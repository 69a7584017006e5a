// SPDX-License-Identifier: Apache-2.0
#include "base/device_parts.h"

#include "base/require.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A name that is as long as this leaves room for the other parts of a canonical
// name.
enum {
  MAX_PART = LS_MAX_DEVICE_PART,
  MAX_TYPE = MAX_PART - (int)sizeof("device::1073741824")
};

static const ls_device_parts nothing = {
    .replica = LS_LEFT_OUT, .task = LS_LEFT_OUT, .index = LS_LEFT_OUT};

// ---- Parsing ---------------------------------------------------------------
static ls_status parse_number(const char *name, const char *noun,
                              const char *text, int *out_number) {
  *out_number = LS_LEFT_OUT;
  if (strcmp(text, "*") == 0) return ls_ok();
  char *end = NULL;
  const long number = strtol(text, &end, 10);
  if (!isdigit((unsigned char)text[0]) || *end != '\0' || number > 1 << 30)
    return ls_invalid_argument("device '%s': %s '%s' is no number", name, noun,
                               text);
  *out_number = (int)number;
  return ls_ok();
}

// Returns true for cpu, gpu and tpu in any case; canonical names have them in
// capitals.
static bool is_short_type(const char *text) {
  return strcasecmp(text, "cpu") == 0 || strcasecmp(text, "gpu") == 0 ||
         strcasecmp(text, "tpu") == 0;
}

static void raise_to_capitals(char *text) {
  for (; *text != '\0'; ++text)
    *text = (char)toupper((unsigned char)*text);
}

static ls_status device_name_set_type(const char *name, const char *type,
                                      const char *index, ls_device_parts *out) {
  if (out->type[0] != '\0')
    return ls_invalid_argument("device '%s' names two device types", name);
  if (strlen(type) > MAX_TYPE)
    return ls_invalid_argument(
        "device '%.80s' has a type of %zu characters; up to %d are possible",
        name, strlen(type), (int)MAX_TYPE);
  snprintf(out->type, sizeof(out->type), "%s", type);
  return index == NULL ? ls_ok()
                       : parse_number(name, "index", index, &out->index);
}

static ls_status refuse_empty(const char *name, const char *noun,
                              const char *example) {
  return ls_invalid_argument(
      "device '%.80s' has an empty %s: write one, as in '%s', or leave it out",
      name, noun, example);
}

// Stores the type of "/device:TYPE:i": cpu and gpu are raised to capitals,
// other types must be in capitals already.
static ls_status set_long_type(const char *name, char *value,
                               ls_device_parts *out) {
  if (value[0] == '\0' || value[0] == ':')
    return refuse_empty(name, "device type", "/device:CPU:0");
  char *index = strchr(value, ':');
  if (index != NULL) *index++ = '\0';
  if (strcmp(value, "*") == 0) value[0] = '\0';
  if (strcmp(value, "cpu") == 0 || strcmp(value, "gpu") == 0)
    raise_to_capitals(value);
  for (const char *c = value; *c != '\0'; ++c)
    if (islower((unsigned char)*c))
      return ls_invalid_argument("device '%s': there is no device type '%s'",
                                 name, value);
  return device_name_set_type(name, value, index, out);
}

// Parts seen so far in a name; a second type is refused.
typedef struct attributes {
  bool job, replica, task;
} attributes;

static ls_status note_attribute(const char *name, const char *noun, bool *has) {
  if (*has)
    return ls_invalid_argument("device '%s' names two %ss: leave one out", name,
                               noun);
  *has = true;
  return ls_ok();
}

static ls_status parse_job(const char *name, const char *value,
                           ls_device_parts *out) {
  if (value[0] == '\0') return refuse_empty(name, "job", "/job:worker");
  snprintf(out->job, sizeof(out->job), "%s", value);
  return ls_ok();
}

// Parses one part: "job:worker", "device:CPU:0", or the short "cpu:0".
static ls_status parse_part(const char *name, char *part, attributes *has,
                            ls_device_parts *out) {
  char *value = strchr(part, ':');
  if (value != NULL) *value++ = '\0';
  if (is_short_type(part)) {
    raise_to_capitals(part);
    return device_name_set_type(name, part, value, out);
  }
  if (value == NULL) value = part + strlen(part);
  if (strcmp(part, "job") == 0) {
    LS_RETURN_IF_ERROR(note_attribute(name, part, &has->job));
    return parse_job(name, value, out);
  }
  if (strcmp(part, "replica") == 0) {
    LS_RETURN_IF_ERROR(note_attribute(name, part, &has->replica));
    return parse_number(name, "replica", value, &out->replica);
  }
  if (strcmp(part, "task") == 0) {
    LS_RETURN_IF_ERROR(note_attribute(name, part, &has->task));
    return parse_number(name, "task", value, &out->task);
  }
  if (strcmp(part, "device") == 0) return set_long_type(name, value, out);
  return ls_invalid_argument("device '%s': there is no attribute '%s'", name,
                             part);
}

ls_status ls_device_parse(const char *name, ls_device_parts *out) {
  *out = nothing;
  if (name == NULL || name[0] == '\0') return ls_ok();
  bool has_part = false;
  attributes has = {false};
  for (const char *at = name; *at != '\0';) {
    const char *end = strchr(at, '/');
    const size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
    char part[MAX_PART];
    if (length >= sizeof(part))
      return ls_invalid_argument(
          "device '%.80s' has a part of %zu characters; up to %d are possible",
          name, length, MAX_PART - 1);
    memcpy(part, at, length);
    part[length] = '\0';
    has_part |= length > 0;
    if (length > 0) LS_RETURN_IF_ERROR(parse_part(name, part, &has, out));
    at += length + (end != NULL);
  }
  return has_part ? ls_ok() : refuse_empty(name, "part", "/job:worker/task:1");
}

// ---- Printing --------------------------------------------------------------
// Takes parts that `name` leaves out from `from`.
static void device_name_fill(ls_device_parts *name,
                             const ls_device_parts *from) {
  if (name->job[0] == '\0') memcpy(name->job, from->job, sizeof(name->job));
  if (name->replica == LS_LEFT_OUT) name->replica = from->replica;
  if (name->task == LS_LEFT_OUT) name->task = from->task;
  if (name->type[0] == '\0') memcpy(name->type, from->type, sizeof(name->type));
  if (name->index == LS_LEFT_OUT) name->index = from->index;
}

void ls_device_print(const ls_device_parts *name, ls_device_name *out) {
  char text[2 * LS_MAX_DEVICE_NAME] = "";
  size_t at = 0;
  const size_t size = sizeof(text);
  if (name->job[0] != '\0')
    at += (size_t)snprintf(text, size, "/job:%s", name->job);
  if (name->replica != LS_LEFT_OUT)
    at += (size_t)snprintf(text + at, size - at, "/replica:%d", name->replica);
  if (name->task != LS_LEFT_OUT)
    at += (size_t)snprintf(text + at, size - at, "/task:%d", name->task);
  const char *type = name->type[0] != '\0' ? name->type : "*";
  if (name->index != LS_LEFT_OUT)
    snprintf(text + at, size - at, "/device:%s:%d", type, name->index);
  else if (name->type[0] != '\0')
    snprintf(text + at, size - at, "/device:%s:*", type);
  memcpy(out->text, text, sizeof(out->text) - 1);
  out->text[sizeof(out->text) - 1] = '\0';
}

static ls_status parse_both(const char *function, const char *name,
                            const char *around, ls_device_parts *out_name,
                            ls_device_parts *out_around) {
  if (name == NULL) return ls_null_argument(function, "name");
  LS_RETURN_IF_ERROR(ls_device_parse(name, out_name));
  return ls_device_parse(around, out_around);
}

ls_status ls_device_canonical(const char *name, const char *fallback,
                              ls_device_name *out_name) {
  LS_REQUIRE(out_name);
  static const ls_device_parts local = {
      .job = "localhost", .replica = 0, .task = 0, .type = "CPU", .index = 0};
  ls_device_parts own, around;
  const ls_status status = parse_both(__func__, name, fallback, &own, &around);
  out_name->text[0] = '\0';  // `out_name` may be one of the arguments.
  LS_RETURN_IF_ERROR(status);
  device_name_fill(&own, &around);
  device_name_fill(&own, &local);
  ls_device_print(&own, out_name);
  return ls_ok();
}

ls_status ls_device_merge(const char *name, const char *around,
                          ls_device_name *out_name) {
  LS_REQUIRE(out_name);
  ls_device_parts own, outer;
  const ls_status status = parse_both(__func__, name, around, &own, &outer);
  out_name->text[0] = '\0';  // `out_name` may be one of the arguments.
  LS_RETURN_IF_ERROR(status);
  device_name_fill(&own, &outer);
  ls_device_print(&own, out_name);
  return ls_ok();
}

ls_status ls_device_host(const char *name, ls_device_name *out_name) {
  LS_REQUIRE(out_name);
  ls_device_parts own, nothing_around;
  const ls_status status =
      parse_both(__func__, name, NULL, &own, &nothing_around);
  out_name->text[0] = '\0';  // `out_name` may be `name`.
  LS_RETURN_IF_ERROR(status);
  snprintf(own.type, sizeof(own.type), "CPU");
  own.index = 0;
  ls_device_print(&own, out_name);
  return ls_ok();
}

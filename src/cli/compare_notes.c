// SPDX-License-Identifier: Apache-2.0
// What stands beside values: members of JSON and of records.
#include <stdio.h>
#include <string.h>

#include "cli/compare.h"

// ---- Records ---------------------------------------------------------------
// The first bytes of a member's value, for a line.
enum { MOST_VALUE = 60 };
static int shown(size_t size) {
  return (int)(size < MOST_VALUE ? size : MOST_VALUE);
}
static const char *cut(size_t size) { return size > MOST_VALUE ? "..." : ""; }

// Lines of `what`; of members that are objects on both sides those inside.
static void compare(const char *what, const char *a, const char *b, int depth) {
  enum { DEEPEST = 8 };
  cli_member one, other;
  char key[200];
  for (const char *at = a; cli_json_next(&at, &one);) {
    snprintf(key, sizeof(key), "%.*s", (int)one.key_size, one.key);
    // A file's own, which says nothing more.
    if (depth == 1 && strcmp(key, "crc32c") == 0) continue;
    if (!cli_json_find(b, key, &other)) {
      printf("%s %s: only in the first\n", what, key);
    } else if (one.value_size == other.value_size &&
               memcmp(one.value, other.value, one.value_size) == 0) {
      continue;
    } else if (*one.value == '{' && *other.value == '{' && depth < DEEPEST) {
      char inner[400];
      snprintf(inner, sizeof(inner), "%s %s", what, key);
      compare(inner, one.value, other.value, depth + 1);
    } else {
      printf("%s %s: %.*s%s and %.*s%s\n", what, key, shown(one.value_size),
             one.value, cut(one.value_size), shown(other.value_size),
             other.value, cut(other.value_size));
    }
  }
  for (const char *at = b; cli_json_next(&at, &other);) {
    snprintf(key, sizeof(key), "%.*s", (int)other.key_size, other.key);
    if (!cli_json_find(a, key, &one))
      printf("%s %s: only in the second\n", what, key);
  }
}

void cli_compare_members(const char *what, const char *a, const char *b) {
  compare(what, a, b, 1);
}

static ls_status compare_records(const char *what, const ls_record *a,
                                 const ls_record *b) {
  char *one = NULL, *other = NULL;
  size_t size = 0;
  ls_status status = ls_record_to_text(a, &one, &size);
  if (ls_status_is_ok(status)) status = ls_record_to_text(b, &other, &size);
  if (ls_status_is_ok(status)) cli_compare_members(what, one, other);
  ls_text_release(one);
  ls_text_release(other);
  return status;
}

ls_status cli_compare_notes(const ls_saved_file *a, const ls_saved_file *b,
                            bool states) {
  ls_record *identity[2] = {NULL}, *state[2] = {NULL};
  ls_status status = ls_saved_file_records(a, &identity[0], &state[0]);
  if (ls_status_is_ok(status))
    status = ls_saved_file_records(b, &identity[1], &state[1]);
  if (ls_status_is_ok(status))
    status = compare_records("run", identity[0], identity[1]);
  if (ls_status_is_ok(status) && states)
    status = compare_records("state", state[0], state[1]);
  for (int i = 0; i < 2; ++i) {
    ls_record_destroy(identity[i]);
    ls_record_destroy(state[i]);
  }
  return status;
}

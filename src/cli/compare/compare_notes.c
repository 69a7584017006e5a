// SPDX-License-Identifier: Apache-2.0
// Comparison of members of JSON objects and records.
#include <stdio.h>
#include <string.h>

#include "cli/compare/compare.h"

// ---- Records ---------------------------------------------------------------
// Most bytes of a member's value that are printed.
enum { MOST_VALUE = 60 };
static int shown_size(size_t size) {
  return (int)(size < MOST_VALUE ? size : MOST_VALUE);
}
static const char *cut_mark(size_t size) {
  return size > MOST_VALUE ? "..." : "";
}

// Prints a difference as JSON; a side without the member is NULL.
static void print_member_json(const char *title, const char *key,
                              const cli_member *one, const cli_member *other) {
  const cli_member *const both[] = {one, other};
  printf("{\"in\":");
  cli_print_json(title);
  printf(",\"member\":");
  cli_print_json(key);
  printf(",\"values\":[");
  for (int i = 0; i < 2; ++i) {
    const cli_member *member = both[i];
    printf("%s%.*s", i == 0 ? "" : ",",
           member != NULL ? (int)member->value_size : 4,
           member != NULL ? member->value : "null");
  }
  printf("]}\n");
}

static void print_member_text(const char *title, const char *key,
                              const cli_member *one, const cli_member *other) {
  if (one == NULL || other == NULL)
    printf("%s %s: only in the %s\n", title, key,
           other == NULL ? "first" : "second");
  else
    printf("%s %s: %.*s%s and %.*s%s\n", title, key,
           shown_size(one->value_size), one->value, cut_mark(one->value_size),
           shown_size(other->value_size), other->value,
           cut_mark(other->value_size));
}

typedef void (*member_printer)(const char *title, const char *key,
                               const cli_member *one, const cli_member *other);

// Prints lines of `what`, recursing into members that are objects on both
// sides.
static void compare_members(const char *title, const char *a, const char *b,
                            int depth, member_printer print) {
  enum { DEEPEST = 8 };
  cli_member one, other;
  char key[200];
  for (const char *at = a; cli_json_next(&at, &one);) {
    snprintf(key, sizeof(key), "%.*s", (int)one.key_size, one.key);
    // The file's own checksum differs whenever its content does.
    if (depth == 1 && strcmp(key, "crc32c") == 0) continue;
    if (!cli_json_find(b, key, &other)) {
      print(title, key, &one, NULL);
    } else if (one.value_size == other.value_size &&
               memcmp(one.value, other.value, one.value_size) == 0) {
      continue;
    } else if (*one.value == '{' && *other.value == '{' && depth < DEEPEST) {
      char inner[400];
      snprintf(inner, sizeof(inner), "%s %s", title, key);
      compare_members(inner, one.value, other.value, depth + 1, print);
    } else {
      print(title, key, &one, &other);
    }
  }
  for (const char *at = b; cli_json_next(&at, &other);) {
    snprintf(key, sizeof(key), "%.*s", (int)other.key_size, other.key);
    if (!cli_json_find(a, key, &one)) print(title, key, NULL, &other);
  }
}

void cli_compare_members(const char *title, const char *a, const char *b,
                         bool json) {
  compare_members(title, a, b, 1, json ? print_member_json : print_member_text);
}

static ls_status compare_records(const char *title, const ls_record *a,
                                 const ls_record *b, bool json) {
  CLI_OWN(text, one) = NULL;
  CLI_OWN(text, other) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_to_text(a, &one, &size));
  LS_RETURN_IF_ERROR(ls_record_to_text(b, &other, &size));
  cli_compare_members(title, one, other, json);
  return ls_ok();
}

ls_status cli_compare_notes(const ls_saved_file *a, const ls_saved_file *b,
                            bool states, bool json) {
  CLI_OWN(ls_record, identity_a) = NULL;
  CLI_OWN(ls_record, identity_b) = NULL;
  CLI_OWN(ls_record, states_a) = NULL;
  CLI_OWN(ls_record, states_b) = NULL;
  LS_RETURN_IF_ERROR(ls_saved_file_records(a, &identity_a, &states_a));
  LS_RETURN_IF_ERROR(ls_saved_file_records(b, &identity_b, &states_b));
  LS_RETURN_IF_ERROR(compare_records("run", identity_a, identity_b, json));
  return states ? compare_records("state", states_a, states_b, json) : ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <string.h>

void expect_status_at(ls_status status, ls_code code, const char *part,
                      const char *file, int line) {
  const ls_code got = ls_status_code(status);
  const bool found = strstr(ls_status_message(status), part) != NULL;
  if (got != code || !found) {
    print_error("wanted %s with '%s', got %s: %s\n", ls_code_name(code), part,
                ls_code_name(got), ls_status_message(status));
  }
  ls_status_free(status);
  if (got != code || !found) _fail(file, line);
}

void expect_contains_at(const char *text, const char *part, const char *file,
                        int line) {
  if (strstr(text, part) != NULL) return;
  print_error("wanted '%s' in '%s'\n", part, text);
  _fail(file, line);
}

int count_parts(const char *text, const char *part) {
  int count = 0;
  while ((text = strstr(text, part)) != NULL) {
    text += strlen(part);
    ++count;
  }
  return count;
}

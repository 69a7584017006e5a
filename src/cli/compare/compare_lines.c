// SPDX-License-Identifier: Apache-2.0
// Comparison of lines of metrics.jsonl.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/compare.h"

ls_status cli_read_text(const char *folder, const char *name, char **out_text,
                        size_t *out_size) {
  char path[PATH_MAX];
  *out_text = NULL;
  if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
    return ls_ok();
  CLI_OWN(FILE, file) = NULL;
  const ls_status status = cli_open_file(path, &file);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    ls_status_free(status);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  const long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
  rewind(file);
  if (size < 0) return ls_out_of_memory();
  CLI_OWN_ARRAY_OR_RETURN(char, text, (size_t)size + 1);
  if (fread(text, 1, (size_t)size, file) != (size_t)size)
    return ls_invalid_argument("'%s' cannot be read", path);
  *out_text = cli_give(&text);
  if (out_size != NULL) *out_size = (size_t)size;
  return ls_ok();
}

// ---- Lines -----------------------------------------------------------------
void cli_line_next(const char **at, cli_line *line) {
  cli_member member;
  if (line->text != NULL && line->kind == CLI_LINE_OF_STEPS)
    line->before = line->step;
  line->text = NULL;
  const char *text = *at, *end = text == NULL ? NULL : strchr(text, '\n');
  if (end == NULL) return;  // The last line may be truncated.
  *at = end + 1;
  if (!cli_json_find(text, "step", &member)) return;
  line->text = text;
  line->step = strtoll(member.value, NULL, 10);
  line->kind = cli_json_find(text, "checksum", &member)    ? CLI_LINE_OF_SUM
               : cli_json_find(text, "test_loss", &member) ? CLI_LINE_OF_TEST
                                                           : CLI_LINE_OF_STEPS;
  // Lines of earlier versions do not tell the number of their steps.
  if (cli_json_find(text, "steps", &member))
    line->before = line->step - strtoll(member.value, NULL, 10);
}

int cli_line_order(const cli_line *a, const cli_line *b) {
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  return (int)a->kind - (int)b->kind;
}

bool cli_lines_match(const cli_line *a, const cli_line *b) {
  return cli_line_order(a, b) == 0 &&
         (a->kind != CLI_LINE_OF_STEPS || a->before == b->before);
}

bool cli_line_seek(const char **at, cli_line *line, const cli_line *wanted) {
  while (line->text != NULL && cli_line_order(line, wanted) < 0)
    cli_line_next(at, line);
  return line->text != NULL && cli_lines_match(line, wanted);
}

int64_t cli_last_step(const char *text) {
  int64_t last = 0;
  cli_line line = {.text = NULL};
  for (cli_line_next(&text, &line); line.text != NULL;
       cli_line_next(&text, &line))
    if (line.step > last) last = line.step;
  return last;
}

// ---- Members ---------------------------------------------------------------
// Prints a number with its bits, a text as it is.
static void print_value(const cli_member *member) {
  char text[64];
  uint64_t bits = 0;
  const int size = (int)member->value_size;
  if (size > 1 && member->value[0] == '"') {
    printf("%.*s", size - 2, member->value + 1);
    return;
  }
  snprintf(text, sizeof(text), "%.*s", size, member->value);
  const double value = strtod(text, NULL);
  memcpy(&bits, &value, sizeof(bits));
  printf("%s (0x%016llx)", text, (unsigned long long)bits);
}

static void print_members(const cli_line *line, const char *key,
                          const cli_member *one, const cli_member *other,
                          bool json) {
  if (json) {
    printf("{\"in\":\"metrics.jsonl\",\"step\":%lld,\"member\":",
           (long long)line->step);
    cli_print_json(key);
    printf(",\"values\":[\"");
    print_value(one);
    printf("\",\"");
    print_value(other);
    printf("\"]}\n");
    return;
  }
  printf("metrics.jsonl: first at step %lld: %s is ", (long long)line->step,
         key);
  print_value(one);
  printf(" and ");
  print_value(other);
  printf("\n");
}

static bool is_time(const char *key) {
  static const char *const times[] = {"seconds", "examples_per_second",
                                      "budget"};
  for (size_t i = 0; i < sizeof(times) / sizeof(*times); ++i)
    if (strcmp(times[i], key) == 0) return true;
  return false;
}

bool cli_lines_are_equal(const cli_line *a, const cli_line *b, bool json) {
  cli_member one, other;
  for (const char *at = a->text; cli_json_next(&at, &one);) {
    char key[64];
    snprintf(key, sizeof(key), "%.*s", (int)one.key_size, one.key);
    if (is_time(key) || !cli_json_find(b->text, key, &other)) continue;
    if (one.value_size == other.value_size &&
        memcmp(one.value, other.value, one.value_size) == 0)
      continue;
    print_members(a, key, &one, &other, json);
    return false;
  }
  return true;
}

// SPDX-License-Identifier: Apache-2.0
// Comparison of lines of metrics.jsonl.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/compare.h"
#include "cli/data/json_text.h"

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
  // A zero, as of a crash of the machine, would end the text: its line is
  // damaged.
  for (long i = 0; i < size && out_size == NULL; ++i)
    if (text[i] == '\0') text[i] = '?';
  if (out_size != NULL) *out_size = (size_t)size;
  return cli_hand_over(&text, out_text);
}

// ---- Lines -----------------------------------------------------------------
// Returns true if a line, which ends at `end`, is an object with a step.
static bool is_whole(const char *text, const char *end, cli_member *out_step) {
  cli_member member;
  const char *at = text;
  while (at < end && cli_json_next(&at, &member))
    continue;
  return at < end && *at == '}' && cli_json_find(text, "step", out_step);
}

void cli_line_next(const char **at, cli_line *line) {
  cli_member member;
  if (line->text != NULL && line->kind == CLI_LINE_OF_STEPS)
    line->before = line->step;
  line->text = NULL;
  const char *text = NULL, *end = *at;
  for (; end != NULL; ++line->damaged) {
    text = *at;
    end = strchr(text, '\n');
    if (end == NULL) return;  // The last line may be truncated.
    *at = end + 1;
    if (is_whole(text, end, &member)) break;
  }
  if (end == NULL) return;
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

// Finds the step before the first that the lines of a run are about;
// INT64_MAX: they do not tell.
static int64_t first_of_lines(const char *text) {
  int64_t first = INT64_MAX;
  cli_line line = {.text = NULL};
  do {
    cli_line_next(&text, &line);
    if (line.text == NULL || line.damaged > 0) continue;
    const bool has_steps = line.kind == CLI_LINE_OF_STEPS;
    const int64_t before = has_steps ? line.before : line.step - 1;
    if (before < first) first = before;
  } while (line.text != NULL && line.kind != CLI_LINE_OF_STEPS);
  return first;
}

ls_status cli_find_first_step(const char *folder, bool is_estimator,
                              int64_t *out_step) {
  CLI_OWN_MEMORY(char, metrics) = NULL;
  CLI_OWN_MEMORY(char, chain) = NULL;
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  size_t count = 0;
  cli_line line = {.text = NULL};
  LS_RETURN_IF_ERROR(cli_read_text(folder, "metrics.jsonl", &metrics, NULL));
  LS_RETURN_IF_ERROR(cli_read_text(folder, "chain.jsonl", &chain, NULL));
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(folder, &steps, &count));
  int64_t first = first_of_lines(metrics);
  const char *at = chain;
  cli_line_next(&at, &line);
  if (line.text != NULL && line.step < first) first = line.step;
  // An estimator's run has the checkpoint from which it goes on.
  const bool is_own =
      count > 0 && (steps[0] < first || (steps[0] == first && !is_estimator));
  *out_step = is_own || first == INT64_MAX ? 0 : first;
  return ls_ok();
}

// ---- Members ---------------------------------------------------------------
static bool have_same_value(const cli_member *a, const cli_member *b) {
  return a->value_size == b->value_size &&
         memcmp(a->value, b->value, a->value_size) == 0;
}

// Returns true if a value, which may be of a damaged file, is JSON.
static bool is_json(const cli_member *member) {
  const char *end = member->value + member->value_size;
  cli_cursor c = {.text = member->value, .at = member->value, .end = end};
  CLI_OWN(ls_status, status) = cli_cursor_skip(&c, NULL);
  size_t size = 1;
  for (const char *at = member->value; at < end && size > 0; at += size)
    size = cli_utf8_size(at, (size_t)(end - at));
  return ls_status_is_ok(status) && c.at == end && size > 0;
}

// Prints a value as JSON: one that is none as a text; NULL, a missing one, as
// null.
static void print_json_value(const cli_member *member) {
  if (member == NULL)
    printf("null");
  else if (is_json(member))
    printf("%.*s", (int)member->value_size, member->value);
  else
    cli_write_json(stdout, member->value, member->value_size);
}

// Prints a number with its bits, a text or a long number as it is, or NULL, a
// missing member.
static void print_value(const cli_member *member, bool json) {
  const char *quote = json ? "\"" : "";
  char text[64], *end = text;
  uint64_t bits = 0;
  if (member == NULL) {
    printf(json ? "null" : "missing");
    return;
  }
  const size_t size = member->value_size;
  const bool is_text = size > 1 && member->value[0] == '"';
  snprintf(text, sizeof(text), "%.*s", (int)size, member->value);
  const double value = strtod(text, &end);
  memcpy(&bits, &value, sizeof(bits));
  if (end > text && *end == '\0' && size < sizeof(text))
    printf("%s%s (0x%016llx)%s", quote, text, (unsigned long long)bits, quote);
  else if (json && is_text)
    print_json_value(member);
  else if (json)
    cli_write_json(stdout, member->value, size);
  else
    cli_print_clean_bytes(member->value + is_text, size - 2 * is_text);
}

// Returns the member that a difference is about; one of them may be NULL.
static const cli_member *choose_member(const cli_member *one,
                                       const cli_member *other) {
  return one != NULL ? one : other;
}

// Prints a member in which two lines differ; a line without it has NULL.
static void print_members(const cli_line *line, const cli_member *one,
                          const cli_member *other, bool json) {
  const cli_member *member = choose_member(one, other);
  if (json) {
    printf("{\"in\":\"metrics.jsonl\",\"step\":%lld,\"member\":",
           (long long)line->step);
    cli_write_json(stdout, member->key, member->key_size);
  } else {
    printf("metrics.jsonl: first at step %lld: ", (long long)line->step);
    cli_print_clean_bytes(member->key, member->key_size);
  }
  printf(json ? ",\"values\":[" : " is ");
  print_value(one, json);
  printf(json ? "," : " and ");
  print_value(other, json);
  printf(json ? "]}\n" : "\n");
}

static bool has_key(const cli_member *member, const char *const *keys) {
  for (; *keys != NULL; ++keys)
    if (cli_json_is_key(member, *keys)) return true;
  return false;
}

// Compares the members of `a` with those of `b`. With `only_missing` just finds
// those that `b` lacks. Returns false after printing one.
static bool have_equal_members(const cli_line *a, const cli_line *b,
                               bool only_missing, bool json) {
  static const char *const times[] = {"seconds", "examples_per_second",
                                      "budget", NULL};
  // Members that flags add on which no step depends, or earlier versions lack.
  static const char *const extras[] = {"steps",  "gradient_norm", "best_step",
                                       "waited", "stopped_early", NULL};
  cli_member one, other;
  for (const char *at = a->text; cli_json_next(&at, &one);) {
    if (has_key(&one, times)) continue;
    const bool found = cli_json_find_like(b->text, &one, &other);
    if (found ? only_missing || have_same_value(&one, &other)
              : has_key(&one, extras))
      continue;
    if (only_missing)
      print_members(a, NULL, &one, json);
    else
      print_members(a, &one, found ? &other : NULL, json);
    return false;
  }
  return true;
}

bool cli_lines_are_equal(const cli_line *a, const cli_line *b, bool json) {
  return have_equal_members(a, b, false, json) &&
         have_equal_members(b, a, true, json);
}

// ---- Records ---------------------------------------------------------------
// Most bytes of a member's value that are printed.
enum { MOST_VALUE = 60 };
static void print_cut(const cli_member *member) {
  const bool cut = member->value_size > MOST_VALUE;
  cli_print_clean_bytes(member->value, cut ? MOST_VALUE : member->value_size);
  if (cut) printf("...");
}

// Prints a difference as JSON; a side without the member is NULL.
static void print_member_json(const char *title, const cli_member *one,
                              const cli_member *other) {
  const cli_member *named = choose_member(one, other);
  cli_print_text('{', "in", title);
  printf(",\"member\":");
  cli_write_json(stdout, named->key, named->key_size);
  printf(",\"values\":[");
  print_json_value(one);
  printf(",");
  print_json_value(other);
  printf("]}\n");
}

static void print_member_text(const char *title, const cli_member *one,
                              const cli_member *other) {
  const cli_member *named = choose_member(one, other);
  cli_print_clean(title);
  printf(" ");
  cli_print_clean_bytes(named->key, named->key_size);
  if (one == NULL || other == NULL) {
    printf(": only in the %s\n", other == NULL ? "first" : "second");
    return;
  }
  printf(": ");
  print_cut(one);
  printf(" and ");
  print_cut(other);
  printf("\n");
}

typedef void (*member_printer)(const char *title, const cli_member *one,
                               const cli_member *other);

// Prints the members that differ, recursing into members that are objects on
// both sides.
static void compare_members(const char *title, const char *a, const char *b,
                            int depth, member_printer print) {
  enum { DEEPEST = 8 };
  cli_member one, other;
  for (const char *at = a; cli_json_next(&at, &one);) {
    // The file's own checksum differs whenever its content does.
    if (depth == 1 && cli_json_is_key(&one, "crc32c")) continue;
    if (!cli_json_find_like(b, &one, &other)) {
      print(title, &one, NULL);
    } else if (have_same_value(&one, &other)) {
      continue;
    } else if (*one.value == '{' && *other.value == '{' && depth < DEEPEST) {
      char inner[400];
      snprintf(inner, sizeof(inner), "%s %.*s", title, (int)one.key_size,
               one.key);
      compare_members(inner, one.value, other.value, depth + 1, print);
    } else {
      print(title, &one, &other);
    }
  }
  for (const char *at = b; cli_json_next(&at, &other);)
    if (!cli_json_find_like(a, &other, &one)) print(title, NULL, &other);
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

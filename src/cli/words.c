// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "cli/data/json_text.h"

// ---- Lists -----------------------------------------------------------------
static size_t count_words(const char *text) {
  size_t count = 1;
  for (; *text != '\0'; ++text)
    count += *text == ',';
  return count;
}

// Splits a word such as "OLD=NEW" in two; `form` is shown in messages.
static bool cut_map(const char *command, const char *flag, const char *form,
                    char *word, ls_name_map *out) {
  char *equals = strchr(word, '=');
  if (equals == NULL || equals == word || equals[1] == '\0' ||
      strchr(equals + 1, '=') != NULL)
    return cli_refuse(command, "--%s has '%s', expected %s", flag, word, form);
  *equals = '\0';
  *out = (ls_name_map){.from = word, .to = equals + 1};
  return true;
}

bool cli_words_open(const char *command, const char *flag, const char *text,
                    const char *map, cli_words *out) {
  *out = (cli_words){0};
  if (text == NULL) return true;
  const size_t count = count_words(text);
  out->text = cli_allocate(strlen(text) + 1);
  out->items = cli_allocate(count * sizeof(*out->items));
  out->maps = cli_allocate(count * sizeof(*out->maps));
  if (out->text == NULL || out->items == NULL || out->maps == NULL) {
    (void)cli_report(command, ls_out_of_memory());
    return false;
  }
  memcpy(out->text, text, strlen(text) + 1);
  for (char *at = out->text; at != NULL;) {
    char *comma = strchr(at, ',');
    if (comma != NULL) *comma = '\0';
    if (at[0] == '\0')
      return cli_refuse(command, "--%s is '%s', which has an empty name", flag,
                        text);
    out->items[out->count] = at;
    if (map != NULL && !cut_map(command, flag, map, at, &out->maps[out->count]))
      return false;
    ++out->count;
    at = comma != NULL ? comma + 1 : NULL;
  }
  return true;
}

bool cli_words_read(const char *command, const char *flag, const char *text,
                    const char *map) {
  cli_words words;
  const bool good = cli_words_open(command, flag, text, map, &words);
  cli_words_close(&words);
  return good;
}

const char *cli_words_value(const cli_words *words, const char *name) {
  const char *other = NULL;
  for (size_t i = 0; i < words->count; ++i) {
    if (strcmp(words->maps[i].from, name) == 0) return words->maps[i].to;
    if (strcmp(words->maps[i].from, "*") == 0) other = words->maps[i].to;
  }
  return other;
}

void cli_words_close(cli_words *words) {
  cli_release(words->text);
  cli_release(words->items);
  cli_release(words->maps);
  *words = (cli_words){0};
}

// ---- Patterns --------------------------------------------------------------
static bool words_fits(const char *pattern, const char *name) {
  return fnmatch(pattern, name, FNM_NOESCAPE) == 0;
}

bool cli_words_fit(const cli_words *words, const char *name) {
  for (size_t i = 0; i < words->count; ++i) {
    if (words_fits(words->items[i], name)) return true;
  }
  return words->count == 0;
}

static ls_status fits_array(const char *pattern, const ls_saved_file *file,
                            bool *out_fits) {
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries && !*out_fits; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    *out_fits = words_fits(pattern, entry.name);
  }
  return ls_ok();
}

ls_status cli_words_check(const cli_words *words, const ls_saved_file *a,
                          const ls_saved_file *b) {
  for (size_t i = 0; i < words->count; ++i) {
    bool found = false;
    LS_RETURN_IF_ERROR(fits_array(words->items[i], a, &found));
    if (b != NULL) LS_RETURN_IF_ERROR(fits_array(words->items[i], b, &found));
    if (!found)
      return ls_not_found(
          "there is no array '%s'; 'lockstep checkpoint show' lists all arrays",
          words->items[i]);
  }
  return ls_ok();
}

// ---- JSON ------------------------------------------------------------------
bool cli_json_next(const char **at, cli_member *out) {
  cli_cursor c = {.text = *at, .at = *at};
  if (!cli_cursor_take(&c, '{') && !cli_cursor_take(&c, ',')) return false;
  CLI_OWN(ls_status, key) = cli_cursor_string(&c, &out->key, &out->key_size);
  if (!ls_status_is_ok(key) || !cli_cursor_take(&c, ':')) return false;
  cli_cursor_space(&c);
  out->value = c.at;
  // Other words than those of JSON are for the caller, such as NaN.
  const size_t size = strcspn(c.at, "\"{[,]} \t\r\n");
  c.at += size;
  CLI_OWN(ls_status, value) = size > 0 ? ls_ok() : cli_cursor_skip(&c, NULL);
  out->value_size = (size_t)(c.at - out->value);
  if (ls_status_is_ok(value)) *at = c.at;
  return ls_status_is_ok(value);
}

bool cli_json_is_key(const cli_member *member, const char *key) {
  return member->key_size == strlen(key) &&
         memcmp(member->key, key, member->key_size) == 0;
}

bool cli_json_find_like(const char *object, const cli_member *like,
                        cli_member *out) {
  while (cli_json_next(&object, out))
    if (out->key_size == like->key_size &&
        memcmp(out->key, like->key, out->key_size) == 0)
      return true;
  return false;
}

bool cli_json_find(const char *object, const char *key, cli_member *out) {
  const cli_member like = {.key = key, .key_size = strlen(key)};
  return cli_json_find_like(object, &like, out);
}

ls_status cli_read_flags(const char *path, char **out_text) {
  CLI_OWN(FILE, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  CLI_OWN_ARRAY_OR_RETURN(char, text, 2 * CLI_MOST_FLAGS);
  const size_t size = fread(text, 1, CLI_MOST_FLAGS, file);
  if (size == CLI_MOST_FLAGS)
    return ls_invalid_argument("'%s' has more than 1 MiB: it is no file of "
                               "flags",
                               path);
  if (strlen(text) != size) return ls_invalid_argument("'%s' is no text", path);
  return cli_hand_over(&text, out_text);
}

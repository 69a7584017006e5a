// SPDX-License-Identifier: Apache-2.0
// Parses lists, "a,b", and lists of maps, "old=new,x/=y/"; and finds members in
// JSON text.
#ifndef LS_CLI_WORDS_H_
#define LS_CLI_WORDS_H_

#include "cli/cli.h"

// Zeroed: the list of a flag that was not given.
typedef struct cli_words {
  char *text;
  const char **items;  // NULL: not given.
  ls_name_map *maps;   // For a list of maps.
  size_t count;
} cli_words;
// Reads the value of a flag; NULL: not given. `map` is the form of a map for
// messages, "OLD=NEW"; NULL: a list of names. Reports an error, or lack of
// memory, and returns false.
bool cli_words_open(const char *command, const char *flag, const char *text,
                    const char *map, cli_words *out);
// Returns true if the value is valid, without keeping it.
bool cli_words_read(const char *command, const char *flag, const char *text,
                    const char *map);
void cli_words_close(cli_words *words);  // Accepts zeroed words.
CLI_OWNED_STRUCT(cli_words, cli_words_close)
// Returns what a list of maps has for a name, else what it has for *; NULL:
// neither.
const char *cli_words_value(const cli_words *words, const char *name);
// The first returns true if a name matches one of the patterns, or there are
// none; the second returns OK if each pattern matches an array of one of the
// files, of which `b` may be NULL.
bool cli_words_fit(const cli_words *words, const char *name);
ls_status cli_words_check(const cli_words *words, const ls_saved_file *a,
                          const ls_saved_file *b);

// Rows of tables of flags.
#define CLI_ONLY_OPTION(place)                                                 \
  CLI_ROW("only", CLI_TEXT, (place), "A,B",                                    \
          "only these arrays, by name or pattern: 'dense/*,head/*'")

// ---- JSON ------------------------------------------------------------------
// A member of an object in the text.
typedef struct cli_member {
  const char *key, *value;
  size_t key_size, value_size;
} cli_member;
// Advances `*at`, which starts at the object's brace, past its next member.
// Returns false at the end, or for invalid JSON.
bool cli_json_next(const char **at, cli_member *out);
bool cli_json_is_key(const cli_member *member, const char *key);
// Finds the member with this key. Returns false if there is none.
bool cli_json_find(const char *object, const char *key, cli_member *out);
// Finds the member with the key of `like`, a member of another object.
bool cli_json_find_like(const char *object, const cli_member *like,
                        cli_member *out);
// Reads a file of flags, followed by as much room for the texts of its values;
// the caller owns it (cli_release).
//   LS_INVALID_ARGUMENT  it is no text, or too long.
enum { CLI_MOST_FLAGS = 1 << 20 };
ls_status cli_read_flags(const char *path, char **out_text);
// Copies a member's value as a text: that of a string without quotes and
// escapes, any other value as it is written. Cuts it to `size` bytes. Returns
// false if a part is no text, and copies what is before.
bool cli_json_copy(const cli_member *member, char *text, size_t size);

#endif  // LS_CLI_WORDS_H_

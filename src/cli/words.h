// SPDX-License-Identifier: Apache-2.0
// Lists in one word, "a,b", maps in one, "old=new,x/=y/", and members of JSON.
#ifndef LS_CLI_WORDS_H_
#define LS_CLI_WORDS_H_

#include "cli/cli.h"

// Zeroed: an empty one, of a flag that was not given.
typedef struct cli_words {
  char *text;
  const char **items;  // NULL: not given.
  ls_name_map *maps;   // Of a list of maps.
  size_t count;
} cli_words;
// Reads the value of a flag; NULL: it was not given. `map` is what a word of a
// list of maps is to be, "OLD=NEW"; NULL: of names. False: something is wrong,
// which has been said, or there is no memory.
bool cli_words_open(const char *command, const char *flag, const char *text,
                    const char *map, cli_words *out);
// Whether it can be read.
bool cli_words_read(const char *command, const char *flag, const char *text,
                    const char *map);
void cli_words_close(cli_words *words);  // Zeroed is fine.
CLI_OWNED_STRUCT(cli_words, cli_words_close)
// Whether a name fits one of the patterns, or there are none; and OK if each
// pattern fits an array of one of the files, of which `b` may be NULL.
bool cli_words_fit(const cli_words *words, const char *name);
ls_status cli_words_check(const cli_words *words, const ls_saved_file *a,
                          const ls_saved_file *b);

// Rows of tables of flags.
#define CLI_ONLY_OPTION(place)                                                 \
  {                                                                            \
    "only", CLI_TEXT, (place), "A,B",                                          \
        "these arrays alone, by name or pattern: 'dense/*,head/*'", 0          \
  }

// ---- JSON ------------------------------------------------------------------
// A member of an object, where it stands.
typedef struct cli_member {
  const char *key, *value;
  size_t key_size, value_size;
} cli_member;
// Moves `*at`, which begins at the object's brace, behind its next member.
// False: there is none, or what stands there is no JSON.
bool cli_json_next(const char **at, cli_member *out);
// The member of this key of an object. False: there is none.
bool cli_json_find(const char *object, const char *key, cli_member *out);

#endif  // LS_CLI_WORDS_H_

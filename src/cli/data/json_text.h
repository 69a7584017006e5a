// SPDX-License-Identifier: Apache-2.0
// Strict reading of JSON: positions in a text, and values as arrays.
#ifndef LS_CLI_DATA_JSON_TEXT_H_
#define LS_CLI_DATA_JSON_TEXT_H_

#include "cli/cli.h"

// A position in a JSON text (RFC 8259).
typedef struct cli_cursor {
  const char *text, *at;
  const char *end;  // NULL: the text ends by a zero byte.
  int64_t lines;  // Lines before the text, for errors.
} cli_cursor;

void cli_cursor_space(cli_cursor *c);  // Skips white space.
// Skips white space, then this character, and returns true; or stays there.
bool cli_cursor_take(cli_cursor *c, char wanted);
// Checks and skips a value of any kind, nested up to 64 deep; `*out_count`
// (NULL: not needed) is its number of items or members.
ls_status cli_cursor_skip(cli_cursor *c, int64_t *out_count);
// Takes a string: its text between the quotes, with escapes as they are.
ls_status cli_cursor_string(cli_cursor *c, const char **out, size_t *out_size);
// Takes a string and decodes its escapes; the caller owns it (cli_release).
ls_status cli_cursor_name(cli_cursor *c, char **out_name);
// Makes an error that names the position: the line, the byte in it.
ls_status cli_cursor_error(const cli_cursor *c, const char *expected);

// An array of known shape that is read from checked values.
typedef struct cli_filler {
  const char *noun;  // For errors. Default "input".
  const char *name;  // The input's.
  ls_dtype dtype;
  ls_shape shape;
  ls_array *array;             // NULL for strings.
  void *data;                  // NULL: checks alone.
  int64_t filled;              // Elements so far.
  int64_t place[LS_MAX_RANK];  // Indices of the element that is read.
} cli_filler;
// Reads all elements, or those of row `row` (-1: all). Rows come in order.
ls_status cli_filler_read(cli_filler *f, cli_cursor *c, int64_t row);

#endif  // LS_CLI_DATA_JSON_TEXT_H_

// SPDX-License-Identifier: Apache-2.0
//
// The lexer of the text form: one token ahead, each with its line.
//
//   word    [A-Za-z_][A-Za-z0-9_]*
//   number  [+-]? digits, point, exponent; 0x...; -inf
//   string  "..." with \" \\ \xHH, on one line
//   mark    one of = ( ) { } [ ] , : # @ % ^ ? or ...
//
// Blanks, line ends and comments (// to the end of the line) separate tokens.
#ifndef LS_GRAPH_TEXT_LEXER_H_
#define LS_GRAPH_TEXT_LEXER_H_

#include "base/memory/arena.h"

typedef enum ls_token_kind {
  LS_TOKEN_END,
  LS_TOKEN_WORD,
  LS_TOKEN_NUMBER,
  LS_TOKEN_STRING,  // `text` and `size` exclude the quotes.
  LS_TOKEN_MARK,
  LS_TOKEN_BAD,  // A stray character, or a string without an end.
} ls_token_kind;

typedef struct ls_token {
  ls_token_kind kind;
  const char *text;
  size_t size;
  int line;
} ls_token;

typedef struct ls_lexer {
  const char *at;  // Position after the token.
  const char *end;
  int line;
  ls_token token;  // The next token.
} ls_lexer;

// Begins at the first token. `text` must live as long as the lexer.
void ls_lexer_init(ls_lexer *lexer, const char *text, size_t size);
// Advances to the next token.
void ls_lexer_next(ls_lexer *lexer);

// Returns true if the next token is this mark or word.
bool ls_lexer_at(const ls_lexer *lexer, const char *text);
// Takes the next token if it is this mark or word; returns true if so.
bool ls_lexer_accept(ls_lexer *lexer, const char *text);
// Takes this mark or word; fails with INVALID_ARGUMENT if another token is
// next.
LS_MUST_USE ls_status ls_lexer_expect(ls_lexer *lexer, const char *text);
// Makes an INVALID_ARGUMENT with the line, the token and what was expected.
LS_MUST_USE ls_status ls_lexer_wanted(const ls_lexer *lexer,
                                      const char *wanted);

// Takes an integer within the limits.
LS_MUST_USE ls_status ls_lexer_integer(ls_lexer *lexer, const char *what,
                                       int64_t least, int64_t most,
                                       int64_t *out_value);
// Takes a string and resolves its escapes, in `arena`, zero-terminated. If
// `out_size` is NULL it must not contain a zero byte.
LS_MUST_USE ls_status ls_lexer_string(ls_lexer *lexer, const char *what,
                                      ls_arena *arena, char **out_text,
                                      size_t *out_size);

#endif  // LS_GRAPH_TEXT_LEXER_H_

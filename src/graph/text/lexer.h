// SPDX-License-Identifier: Apache-2.0
//
// The lexer of the text form: one token ahead, each with its line.
//
//   word    [A-Za-z_][A-Za-z0-9_]*
//   number  [+-]? digits, point, exponent; 0x...; -inf
//   string  "..." with \" \\ \xHH, on one line
//   mark    one of = ( ) { } [ ] , : # @ % ^ ? or ...
//
// Blanks, line ends and comments (// to the end of the line) part tokens.
#ifndef LS_GRAPH_TEXT_LEXER_H_
#define LS_GRAPH_TEXT_LEXER_H_

#include "base/memory/arena.h"

typedef enum ls_token_kind {
  LS_TOKEN_END,
  LS_TOKEN_WORD,
  LS_TOKEN_NUMBER,
  LS_TOKEN_STRING,  // `text` and `size` are what stands between the quotes.
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
  const char *at;  // Behind the token.
  const char *end;
  int line;
  ls_token token;  // The next one.
} ls_lexer;

// `text` must live as long as the lexer.
void ls_lexer_init(ls_lexer *lexer, const char *text, size_t size);
// Goes on to the token after this one.
void ls_lexer_next(ls_lexer *lexer);

// Returns true if the next token is this mark or word.
bool ls_lexer_at(const ls_lexer *lexer, const char *text);
// The same, and takes it.
bool ls_lexer_accept(ls_lexer *lexer, const char *text);
// Takes the mark or word. INVALID_ARGUMENT if another token is next.
LS_MUST_USE ls_status ls_lexer_expect(ls_lexer *lexer, const char *text);
// INVALID_ARGUMENT: the line, what stands there, what would be right.
LS_MUST_USE ls_status ls_lexer_wanted(const ls_lexer *lexer,
                                      const char *wanted);

// An integer between the limits.
LS_MUST_USE ls_status ls_lexer_integer(ls_lexer *lexer, const char *what,
                                       int64_t least, int64_t most,
                                       int64_t *out_value);
// A string without its escapes, in `arena`, zero-terminated. `out_size` may be
// NULL: then it must not hold a zero byte.
LS_MUST_USE ls_status ls_lexer_string(ls_lexer *lexer, const char *what,
                                      ls_arena *arena, char **out_text,
                                      size_t *out_size);

#endif  // LS_GRAPH_TEXT_LEXER_H_

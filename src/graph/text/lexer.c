// SPDX-License-Identifier: Apache-2.0
#include "graph/text/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static char peek(const ls_lexer *lexer, size_t ahead) {
  return ahead < (size_t)(lexer->end - lexer->at) ? lexer->at[ahead] : '\0';
}

static void skip_blanks(ls_lexer *lexer) {
  while (lexer->at < lexer->end) {
    const char c = *lexer->at;
    if (c == '/' && peek(lexer, 1) == '/') {
      while (lexer->at < lexer->end && *lexer->at != '\n')
        ++lexer->at;
      continue;
    }
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
    if (c == '\n') ++lexer->line;
    ++lexer->at;
  }
}

// ---- Tokens ----------------------------------------------------------------
static size_t word_size(const ls_lexer *lexer, size_t from) {
  while (ls_lexer_is_letter(peek(lexer, from)) ||
         ls_lexer_is_digit(peek(lexer, from)))
    ++from;
  return from;
}

// Returns the length of a text that looks like a number; the parser checks it.
static size_t number_size(const ls_lexer *lexer) {
  size_t n = peek(lexer, 0) == '-' || peek(lexer, 0) == '+' ? 1 : 0;
  for (;; ++n) {
    const char c = peek(lexer, n);
    const char before = n > 0 ? peek(lexer, n - 1) : '\0';
    const bool sign =
        (c == '-' || c == '+') && (before == 'e' || before == 'E');
    const bool point = c == '.' && peek(lexer, n + 1) != '.';
    if (!ls_lexer_is_digit(c) && !ls_lexer_is_letter(c) && !point && !sign)
      return n;
  }
}

static void lex_string(ls_lexer *lexer) {
  size_t n = 1;
  while (peek(lexer, n) != '"') {
    if (peek(lexer, n) == '\\') ++n;
    if (lexer->at + n >= lexer->end || peek(lexer, n) == '\n') {
      lexer->token.kind = LS_TOKEN_BAD;
      return;
    }
    ++n;
  }
  lexer->token.kind = LS_TOKEN_STRING;
  lexer->token.text = lexer->at + 1;
  lexer->token.size = n - 1;
  lexer->at += n + 1;
}

void ls_lexer_next(ls_lexer *lexer) {
  skip_blanks(lexer);
  lexer->token =
      (ls_token){.kind = LS_TOKEN_END, .text = lexer->at, .line = lexer->line};
  if (lexer->at == lexer->end) return;
  const char c = *lexer->at;
  const char after = peek(lexer, 1);
  size_t size = 1;
  if (c == '"') {
    lexer->token.size = 1;
    lex_string(lexer);
    return;
  }
  if (ls_lexer_is_letter(c)) {
    lexer->token.kind = LS_TOKEN_WORD;
    size = word_size(lexer, 1);
  } else if (ls_lexer_is_digit(c) ||
             ((c == '-' || c == '+') &&
              (ls_lexer_is_digit(after) || after == 'i'))) {
    lexer->token.kind = LS_TOKEN_NUMBER;
    size = number_size(lexer);
  } else if (c == '.' && after == '.' && peek(lexer, 2) == '.') {
    lexer->token.kind = LS_TOKEN_MARK;
    size = 3;
  } else {
    const bool known = c != '\0' && strchr("=(){}[],:#@%^?", c) != NULL;
    lexer->token.kind = known ? LS_TOKEN_MARK : LS_TOKEN_BAD;
    lexer->token.size = 1;
    if (!known) return;  // Does not advance.
  }
  lexer->token.size = size;
  lexer->at += size;
}

void ls_lexer_init(ls_lexer *lexer, const char *text, size_t size) {
  *lexer = (ls_lexer){.at = text, .end = text + size, .line = 1};
  ls_lexer_next(lexer);
}

bool ls_lexer_at(const ls_lexer *lexer, const char *text) {
  const ls_token *token = &lexer->token;
  return (token->kind == LS_TOKEN_MARK || token->kind == LS_TOKEN_WORD) &&
         token->size == strlen(text) &&
         memcmp(token->text, text, token->size) == 0;
}

bool ls_lexer_accept(ls_lexer *lexer, const char *text) {
  if (!ls_lexer_at(lexer, text)) return false;
  ls_lexer_next(lexer);
  return true;
}

ls_status ls_lexer_expect(ls_lexer *lexer, const char *text) {
  if (ls_lexer_accept(lexer, text)) return ls_ok();
  char wanted[64];
  snprintf(wanted, sizeof(wanted), "'%s'", text);
  return ls_lexer_wanted(lexer, wanted);
}

ls_status ls_lexer_wanted(const ls_lexer *lexer, const char *wanted) {
  const ls_token *token = &lexer->token;
  if (token->kind == LS_TOKEN_END)
    return ls_invalid_argument("line %d: the text ends, expected %s",
                               token->line, wanted);
  if (token->kind == LS_TOKEN_BAD && *token->text == '"')
    return ls_invalid_argument("line %d: an unterminated string, expected %s",
                               token->line, wanted);
  char found[36];
  size_t n = 0;
  for (; n < token->size && n + 1 < sizeof(found); ++n)
    found[n] =
        token->text[n] >= ' ' && token->text[n] < 0x7f ? token->text[n] : '?';
  found[n] = '\0';
  return ls_invalid_argument("line %d: found '%s%s', expected %s", token->line,
                             found, n < token->size ? "..." : "", wanted);
}

// ---- Numbers and strings ---------------------------------------------------
ls_status ls_lexer_integer(ls_lexer *lexer, const char *what, int64_t least,
                           int64_t most, int64_t *out_value) {
  const ls_token *token = &lexer->token;
  char buffer[32];
  if (token->kind != LS_TOKEN_NUMBER || token->size >= sizeof(buffer))
    return ls_lexer_wanted(lexer, what);
  memcpy(buffer, token->text, token->size);
  buffer[token->size] = '\0';
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(buffer, &end, 10);
  if (*end != '\0') return ls_lexer_wanted(lexer, what);
  if (errno == ERANGE || value < least || value > most)
    return ls_invalid_argument("line %d: %s is %s; %lld to %lld is possible",
                               token->line, what, buffer, (long long)least,
                               (long long)most);
  *out_value = value;
  ls_lexer_next(lexer);
  return ls_ok();
}

static int hex_digit(char c) {
  if (ls_lexer_is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Writes the string's bytes; returns false at an invalid escape.
static bool unescape(const ls_token *token, char *out, size_t *out_size) {
  size_t n = 0;
  for (size_t i = 0; i < token->size; ++i) {
    char c = token->text[i];
    if (c == '\\') {
      c = token->text[++i];  // The lexer has checked that a character follows.
      if (c == 'x') {
        if (token->size - i < 3) return false;
        const int high = hex_digit(token->text[i + 1]);
        const int low = hex_digit(token->text[i + 2]);
        if (high < 0 || low < 0) return false;
        c = (char)(high * 16 + low);
        i += 2;
      } else if (c != '"' && c != '\\') {
        return false;
      }
    }
    out[n++] = c;
  }
  out[n] = '\0';
  *out_size = n;
  return true;
}

ls_status ls_lexer_string(ls_lexer *lexer, const char *what, ls_arena *arena,
                          char **out_text, size_t *out_size) {
  const ls_token *token = &lexer->token;
  size_t size = 0;
  if (token->kind != LS_TOKEN_STRING) return ls_lexer_wanted(lexer, what);
  char *text = ls_arena_allocate(arena, token->size + 1);
  if (text == NULL) return ls_out_of_memory();
  if (!unescape(token, text, &size))
    return ls_invalid_argument(
        "line %d: an escape in %s is not one of \\\" \\\\ \\xHH", token->line,
        what);
  if (out_size == NULL && strlen(text) != size)
    return ls_invalid_argument("line %d: %s contains a zero byte", token->line,
                               what);
  *out_text = text;
  if (out_size != NULL) *out_size = size;
  ls_lexer_next(lexer);
  return ls_ok();
}

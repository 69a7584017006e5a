// SPDX-License-Identifier: Apache-2.0
// The text form: lexer, parser and printer. README.md has the grammar.
#ifndef LS_GRAPH_TEXT_TEXT_H_
#define LS_GRAPH_TEXT_TEXT_H_

#include "base/memory/arena.h"
#include "base/memory/map.h"
#include "base/text.h"
#include "graph/graph.h"
#include "graph/variables/variable.h"

// ---- Lexer -----------------------------------------------------------------
// The lexer of the text form: one token ahead, each with its line.
//
//   word    [A-Za-z_][A-Za-z0-9_]*
//   number  [+-]? digits, point, exponent; 0x...; -inf
//   string  "..." with \" \\ \xHH, on one line
//   mark    one of = ( ) { } [ ] , : # @ % ^ ? or ...
//
// Blanks, line ends and comments (// to the end of the line) separate tokens.

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

// Returns true if a word may begin with it.
static inline bool ls_lexer_is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool ls_lexer_is_digit(char c) { return c >= '0' && c <= '9'; }

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

// Takes an integer from `least` to `most`; `what` names it in messages.
LS_MUST_USE ls_status ls_lexer_integer(ls_lexer *lexer, const char *what,
                                       int64_t least, int64_t most,
                                       int64_t *out_value);
// Takes a string and resolves its escapes. The text is in `arena` and ends with
// a zero; if `out_size` is NULL, a zero byte inside is refused.
LS_MUST_USE ls_status ls_lexer_string(ls_lexer *lexer, const char *what,
                                      ls_arena *arena, char **out_text,
                                      size_t *out_size);

// ---- Parser ----------------------------------------------------------------
// Declarations shared by the parts of the parser. README.md has the grammar.

typedef struct ls_parser {
  ls_lexer lexer;
  ls_arena scratch;  // Parts of an op until it is made.
  ls_runtime *runtime;
  const ls_host_kernel *const *kernels;
  size_t num_kernels;
  ls_map variables;  // Declared variables: name + '#' + number -> ls_variable.
  int depth;         // Depth of regions.
} ls_parser;

// A growing list in the parser's scratch memory.
typedef struct ls_parse_list {
  void *items;
  size_t count, capacity;
} ls_parse_list;
// Returns room for one more item at the end, NULL without memory.
void *ls_parse_push(ls_parser *parser, ls_parse_list *list, size_t item_size);

// Parses a type such as f32[2,?].
ls_status ls_parse_type(ls_parser *parser, ls_type *out_type);
// Parses a float of `dtype` into `out`.
ls_status ls_parse_float(ls_parser *parser, ls_dtype dtype, void *out);
ls_status ls_parse_bool(ls_parser *parser, bool *out_value);
// Parses the elements after an array's type: [1, 2.5] or base64 "...". The
// caller owns the array.
ls_status ls_parse_array(ls_parser *parser, ls_type type, ls_array **out_array);
// Parses {name = value, ...} or nothing. The attributes are in scratch memory;
// their arrays and objects hold references, released by ls_parse_release_attrs.
ls_status ls_parse_attrs(ls_parser *parser, ls_parse_list *out_attrs);
void ls_parse_release_attrs(const ls_parse_list *attrs);
// Parses %3 or %3:1. If `graph` is given it must have that value.
ls_status ls_parse_ref(ls_parser *parser, const ls_graph *graph,
                       uint64_t *out_ref);
// Parses the collections that follow a graph, and adds them to it.
ls_status ls_parse_collections(ls_parser *parser, ls_graph *graph);
// Parses @"name" or @"name"#2, borrowed; NULL if it was not declared.
ls_status ls_parse_variable(ls_parser *parser, ls_variable **out_variable);

// ---- Printer ---------------------------------------------------------------
// Prints the parts of the text form. README.md has the grammar.

// Arrays up to this size are printed as numbers, larger ones in base64.
enum { LS_PRINT_INLINE_BYTES = 64 };

// Prints "text" in quotes and escapes all but printable ASCII.
void ls_print_string(ls_text *out, const char *text, size_t size);
// Prints a type such as f32[2,?].
void ls_print_type(ls_text *out, ls_type type);
// Prints %3 for an op with one output, %3:1 for one with several.
void ls_print_ref(ls_text *out, const ls_graph *graph, uint64_t ref);
// Prints an array's element: a number, bool or string.
void ls_print_element(ls_text *out, const ls_array *array, int64_t index);
// Prints the value of any attribute but an object.
void ls_print_value(ls_text *out, const ls_attr *attr);
// Returns true if a name can be printed without quotes.
bool ls_print_is_word(const char *text);

// Begins a text that ls_text_release can free, because it stores its allocator.
void ls_print_begin(ls_text *out, ls_allocator *allocator);
ls_status ls_print_end(ls_text *out, char **out_text);
// Makes such a text.
LS_MUST_USE ls_status ls_print_copy(ls_allocator *allocator, const char *text,
                                    char **out_text);
// Makes a zeroed array that stores its allocator; NULL without memory.
void *ls_print_array(ls_allocator *allocator, size_t count, size_t size);
void ls_print_array_release(void *array);

#endif  // LS_GRAPH_TEXT_TEXT_H_

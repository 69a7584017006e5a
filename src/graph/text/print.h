// SPDX-License-Identifier: Apache-2.0
//
// Printing of the parts of the text form. README.md has the grammar; parse.h
// has the parser.
#ifndef LS_GRAPH_TEXT_PRINT_H_
#define LS_GRAPH_TEXT_PRINT_H_

#include "base/text.h"
#include "graph/graph.h"

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

#endif  // LS_GRAPH_TEXT_PRINT_H_

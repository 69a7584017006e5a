// SPDX-License-Identifier: Apache-2.0
//
// The pieces of the text form, as the printer writes them. README.md has the
// grammar; parse.h the way back.
#ifndef LS_GRAPH_TEXT_PRINT_H_
#define LS_GRAPH_TEXT_PRINT_H_

#include "base/text.h"
#include "graph/graph.h"

// Arrays up to this size stand as numbers, larger ones in base64.
enum { LS_PRINT_INLINE_BYTES = 64 };

// "text" in quotes; what is no printable ASCII is escaped.
void ls_print_string(ls_text *out, const char *text, size_t size);
// f32[2,?]
void ls_print_type(ls_text *out, ls_type type);
// %3 of an op with one output, %3:1 of one with several.
void ls_print_ref(ls_text *out, const ls_graph *graph, uint64_t ref);
// A number, a bool or a string of an array.
void ls_print_element(ls_text *out, const ls_array *array, int64_t index);
// The value of any attribute but an object.
void ls_print_value(ls_text *out, const ls_attr *attr);
// Returns true if it can stand without quotes where a name is expected.
bool ls_print_is_word(const char *text);

// A text that ls_text_release can free: it remembers its allocator.
void ls_print_begin(ls_text *out, ls_allocator *allocator);
ls_status ls_print_end(ls_text *out, char **out_text);

#endif  // LS_GRAPH_TEXT_PRINT_H_

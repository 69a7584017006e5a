// SPDX-License-Identifier: Apache-2.0
#ifndef LS_GRAPH_COMPARE_EQUAL_H_
#define LS_GRAPH_COMPARE_EQUAL_H_

#include "base/text.h"
#include "graph/graph.h"

// Whether two regions of one parent are the same op for op: types, operands,
// own attributes, captured values, results, child regions. Names and marks are
// not compared.
// If not, the first difference is written into `difference`.
bool ls_graph_equal(ls_graph *a, ls_graph *b, char *difference, size_t size);

// The same, whatever the captured values are.
bool ls_graph_equal_inside(ls_graph *a, ls_graph *b, char *difference,
                           size_t size);

// Whether two attributes have the same name, kind and value.
bool ls_attr_equal(const ls_attr *a, const ls_attr *b);

// Appends what an attribute is to a key: its name, and what its value is by.
void ls_attr_append_key(ls_text *key, const ls_attr *attr);

#endif  // LS_GRAPH_COMPARE_EQUAL_H_

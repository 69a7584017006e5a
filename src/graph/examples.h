// SPDX-License-Identifier: Apache-2.0
//
// What the code at hand has been told about its number of examples: a list of
// entries, innermost first, each on the C stack of whoever entered it.
// distribute/replicas/examples.c finds the one that holds.
#ifndef LS_GRAPH_EXAMPLES_H_
#define LS_GRAPH_EXAMPLES_H_

#include "graph/context.h"

typedef enum ls_examples_source {
  LS_EXAMPLES_GIVEN,      // `count`, as a scope says.
  LS_EXAMPLES_ALIKE,      // The rows of `rows`; all replicas have as many.
  LS_EXAMPLES_ARGUMENTS,  // Those of `rows`, an argument, unless a replica
                          // knows better.
} ls_examples_source;

typedef struct ls_examples_entry {
  const struct ls_examples_entry *outer;
  const ls_graph *graph;  // Where it was entered; NULL: eager.
  ls_examples_source source;
  ls_tensor count;
  ls_nest rows;  // Lent; none: there are none.
} ls_examples_entry;

// The first leaf of `args` that is a tensor or array with rows, lent; none.
ls_nest ls_examples_rows(ls_nest args);

// From here to the leaving the rows of `args` say how many examples there are.
// That holds in the graph where it is entered and in its regions, not in
// functions called there, which have arguments of their own. Both the entry and
// `args` stay until then.
void ls_examples_enter(ls_examples_entry *entry, ls_examples_source source,
                       ls_nest args);
void ls_examples_push(ls_context *context, ls_examples_entry *entry);
void ls_examples_leave(const ls_examples_entry *entry);

#endif  // LS_GRAPH_EXAMPLES_H_

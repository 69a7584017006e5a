// SPDX-License-Identifier: Apache-2.0
#include "graph/examples.h"

#include "lockstep/array.h"

static bool has_rows(ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR
             ? ls_tensor_shape(leaf.as.tensor).rank >= 1
             : leaf.kind == LS_KIND_ARRAY &&
                   ls_array_shape(ls_nest_as_array(leaf)).rank >= 1;
}

ls_nest ls_examples_rows(ls_nest args) {
  if (has_rows(args)) return args;
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(args) && found.kind == LS_KIND_NONE; ++i)
    found = ls_examples_rows(ls_nest_item(args, i));
  return found;
}

void ls_examples_push(ls_context *context, ls_examples_entry *entry) {
  entry->outer = context->scoped.examples;
  entry->graph = ls_context_graph();
  context->scoped.examples = entry;
}

void ls_examples_enter(ls_examples_entry *entry, ls_examples_source source,
                       ls_nest args) {
  *entry =
      (ls_examples_entry){.source = source, .rows = ls_examples_rows(args)};
  ls_examples_push(ls_context_current(), entry);
}

void ls_examples_leave(const ls_examples_entry *entry) {
  ls_context_current()->scoped.examples = entry->outer;
}

// SPDX-License-Identifier: Apache-2.0
// Builder: a list, tuple or dict that is made item by item.
//
//   LS_OWN(ls_nest_builder, list) = {0};
//   for (size_t i = 0; i < count; ++i)
//     ls_nest_builder_append(&list, item_of(i));
//   return ls_nest_builder_finish(&list, LS_KIND_LIST);
//
// The first failure sticks, a failed item or a lack of memory: later items
// are dropped and the finished nest is the failed one, so items need no check.
//
// It grows as it goes: not for a step that is run over and over.
#ifndef LS_BASE_VALUES_NEST_BUILDER_H_
#define LS_BASE_VALUES_NEST_BUILDER_H_

#include "base/memory/own.h"

// Zeroed: no items yet, whose memory is the current runtime's.
typedef struct ls_nest_builder {
  const char *tag;  // Type tag of a dict, type name of a named tuple, or NULL.
  ls_allocator *allocator;
  ls_nest *items;
  char **names;  // Of the same room as `items`; NULL of unnamed ones.
  size_t count;
  size_t items_capacity;
  size_t names_capacity;
  ls_nest failed;  // None as long as all is well.
} ls_nest_builder;

// Adds an item, which is taken over. Returns false after a failure.
bool ls_nest_builder_append(ls_nest_builder *builder, ls_nest item);
// The same with a key, which is copied. Of the items of a nest all or none have
// one.
bool ls_nest_builder_append_named(ls_nest_builder *builder, const char *name,
                                  ls_nest item);
// Makes the nest, the caller's, or the failed one. A tuple whose items have
// names, or which has a tag, is a named one. The builder is empty afterwards
// and can be used again.
ls_nest ls_nest_builder_finish(ls_nest_builder *builder, ls_kind kind);
// Drops what there is. A zeroed builder is fine.
void ls_nest_builder_deinit(ls_nest_builder *builder);

LS_OWNED_STRUCT(ls_nest_builder, ls_nest_builder_deinit)

#endif  // LS_BASE_VALUES_NEST_BUILDER_H_

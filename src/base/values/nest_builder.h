// SPDX-License-Identifier: Apache-2.0
// Builder: makes a list, tuple or dict item by item.
//
//   LS_OWN(ls_nest_builder, list) = {0};
//   for (size_t i = 0; i < count; ++i)
//     ls_nest_builder_append(&list, item_of(i));
//   return ls_nest_builder_finish(&list, LS_KIND_LIST);
//
// The first failure sticks, be it a failed item or a lack of memory: later
// items are dropped and the finished nest is the failed one, so items need no
// check.
//
// Allocates as it grows: not for a step that runs over and over.
#ifndef LS_BASE_VALUES_NEST_BUILDER_H_
#define LS_BASE_VALUES_NEST_BUILDER_H_

#include "base/memory/own.h"

// A builder. Zeroed: no items yet. Its memory comes from the current runtime.
typedef struct ls_nest_builder {
  const char *tag;  // Type tag of a dict, type name of a named tuple, or NULL.
  ls_allocator *allocator;
  ls_nest *items;
  char **names;  // As long as `items`; NULL if items have no names.
  size_t count;
  size_t items_capacity;
  size_t names_capacity;
  ls_nest failed;  // The first failure, or an empty nest.
} ls_nest_builder;

// Appends an item and takes it over. Returns false after a failure.
bool ls_nest_builder_append(ls_nest_builder *builder, ls_nest item);
// Appends an item with a copy of its key. Either all items of a nest have keys
// or none.
bool ls_nest_builder_append_named(ls_nest_builder *builder, const char *name,
                                  ls_nest item);
// Makes the nest, which the caller owns, or returns the failed one. A tuple
// with a tag, or whose items have names, becomes a named tuple. The builder is
// empty afterwards and can be used again.
ls_nest ls_nest_builder_finish(ls_nest_builder *builder, ls_kind kind);
// Releases the items. Accepts a zeroed builder.
void ls_nest_builder_deinit(ls_nest_builder *builder);

LS_OWNED_STRUCT(ls_nest_builder, ls_nest_builder_deinit)

// A list of nests, empty at first, that are released together.
typedef struct ls_nests {
  ls_allocator *allocator;
  ls_nest *items;
  size_t count;
} ls_nests;
LS_PRIVATE_API LS_MUST_USE ls_status ls_nests_init(ls_nests *nests,
                                                   ls_allocator *allocator,
                                                   size_t count);
// Releases the nests. Accepts a zeroed list.
LS_PRIVATE_API void ls_nests_deinit(ls_nests *nests);
LS_OWNED_STRUCT(ls_nests, ls_nests_deinit)

#endif  // LS_BASE_VALUES_NEST_BUILDER_H_

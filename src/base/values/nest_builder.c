// SPDX-License-Identifier: Apache-2.0
// The builder of nests: growth, and the sticky failure.
#include "base/values/nest_builder.h"

#include "base/runtime_internal.h"

// Makes room for an item and copies its name, if it has one.
static bool add_name(ls_nest_builder *builder, const char *name) {
  if (builder->allocator == NULL) builder->allocator = ls_current_allocator();
  ls_allocator *allocator = builder->allocator;
  const size_t needed = builder->count + 1;
  if (!LS_GROW(allocator, builder->items, builder->items_capacity, needed))
    return false;
  if (name == NULL) return true;
  if (!LS_GROW(allocator, builder->names, builder->names_capacity, needed))
    return false;
  char *copy = ls_copy_text(allocator, name, strlen(name));
  builder->names[builder->count] = copy;
  return copy != NULL;
}

static bool append_item(ls_nest_builder *builder, const char *name,
                        ls_nest item) {
  if (ls_nest_is_failed(builder->failed)) {
    ls_nest_release(item);
    return false;
  }
  if (!ls_nest_is_failed(item) && !add_name(builder, name)) {
    ls_nest_release(item);
    item = ls_fail(ls_out_of_memory());
  }
  if (ls_nest_is_failed(item)) {
    builder->failed = item;
    return false;
  }
  builder->items[builder->count++] = item;
  return true;
}

bool ls_nest_builder_append(ls_nest_builder *builder, ls_nest item) {
  return append_item(builder, NULL, item);
}

bool ls_nest_builder_append_named(ls_nest_builder *builder, const char *name,
                                  ls_nest item) {
  return append_item(builder, name, item);
}

static ls_nest make_nest(const ls_nest_builder *builder, ls_kind kind) {
  const char *const *names = (const char *const *)builder->names;
  if (kind == LS_KIND_DICT)
    return ls_nest_dict(builder->tag, names, builder->items, builder->count);
  if (names != NULL || builder->tag != NULL)
    return ls_nest_named_tuple(builder->tag, names, builder->items,
                               builder->count);
  return ls_nest_sequence(kind, builder->items, builder->count);
}

ls_nest ls_nest_builder_finish(ls_nest_builder *builder, ls_kind kind) {
  ls_nest made = ls_give(&builder->failed);
  if (!ls_nest_is_failed(made)) {
    made = make_nest(builder, kind);
    for (size_t i = 0; i < builder->count; ++i)
      builder->items[i] = ls_none();  // The finished nest owns the item.
  }
  ls_nest_builder_deinit(builder);
  return made;
}

void ls_nest_builder_deinit(ls_nest_builder *builder) {
  for (size_t i = 0; i < builder->count; ++i)
    ls_nest_release(builder->items[i]);
  for (size_t i = 0; i < builder->names_capacity; ++i)
    ls_release(builder->allocator, builder->names[i]);
  if (builder->allocator != NULL) {
    ls_release(builder->allocator, builder->items);
    ls_release(builder->allocator, builder->names);
  }
  ls_nest_release(builder->failed);
  *builder = (ls_nest_builder){0};
}

// ---- Lists -----------------------------------------------------------------
ls_status ls_nests_init(ls_nests *nests, ls_allocator *allocator,
                        size_t count) {
  *nests = (ls_nests){.allocator = allocator,
                      .items = ls_new_array(allocator, ls_nest, count),
                      .count = count};
  return ls_memory_status(nests->items != NULL);
}

void ls_nests_deinit(ls_nests *nests) {
  for (size_t i = 0; nests->items != NULL && i < nests->count; ++i)
    ls_nest_release(nests->items[i]);
  if (nests->items != NULL) ls_release(nests->allocator, nests->items);
}

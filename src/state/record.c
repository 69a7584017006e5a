// SPDX-License-Identifier: Apache-2.0
#include "state/record.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "state/own.h"

static ls_record *new_record(ls_allocator *allocator, int depth) {
  ls_record *record = ls_new(allocator, ls_record);
  if (record == NULL) return NULL;
  record->allocator = allocator;
  record->depth = depth;
  ls_map_init(&record->entries, allocator);
  return record;
}

static void release_entry(ls_allocator *allocator, ls_record_entry *entry) {
  if (entry == NULL) return;
  ls_record_destroy(entry->inner);
  ls_release(allocator, entry);
}

ls_status ls_record_create(ls_record **out_record) {
  LS_REQUIRE_OUT(out_record);
  *out_record = new_record(ls_current_allocator(), 1);
  return *out_record == NULL ? ls_out_of_memory() : ls_ok();
}

void ls_record_destroy(ls_record *record) {
  if (record == NULL) return;
  ls_record_clear(record);
  ls_map_deinit(&record->entries);
  ls_release(record->allocator, record);
}

void ls_record_clear(ls_record *record) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&record->entries, &at, &item);)
    release_entry(record->allocator, item.value);
  ls_map_clear(&record->entries);
}

// ---- Setting ---------------------------------------------------------------
static ls_status check_name(const char *name) {
  if (name[0] == '\0')
    return ls_invalid_argument("an entry of a record needs a name");
  if (!ls_json_is_utf8(name))
    return ls_invalid_argument(
        "the name of an entry of a record must be UTF-8: '%s' is not", name);
  if (strcmp(name, LS_RECORD_BYTES) == 0 || strcmp(name, LS_RECORD_TEXT) == 0)
    return ls_invalid_argument(
        "no entry of a record can be called '%s', which marks bytes in files",
        name);
  return ls_ok();
}

// Puts an entry with a copy of `size` bytes under the name, in place of what
// was there; takes `inner` over.
static ls_status record_put(ls_record *record, const char *name,
                            const ls_record_entry *like, const void *data) {
  const size_t size = like->size;
  ls_allocator *allocator = record->allocator;
  ls_status status = check_name(name);
  ls_record_entry *entry = NULL;
  if (ls_status_is_ok(status)) {
    entry = size > SIZE_MAX / 2
                ? NULL
                : ls_allocate(allocator, sizeof(*entry) + size + 1);
    if (entry == NULL) status = ls_out_of_memory();
  }
  if (!ls_status_is_ok(status)) {
    ls_record_destroy(like->inner);
    return status;
  }
  *entry = *like;
  if (size > 0) memcpy(entry->data, data, size);
  entry->data[size] = '\0';
  ls_record_entry *before = ls_map_find(&record->entries, name, strlen(name));
  if (!ls_map_insert_text(&record->entries, name, entry)) {
    release_entry(allocator, entry);
    return ls_out_of_memory();
  }
  release_entry(allocator, before);
  return ls_ok();
}

ls_status ls_record_set_i64(ls_record *record, const char *name,
                            int64_t value) {
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  return record_put(record, name,
                    &(ls_record_entry){.kind = LS_ENTRY_I64, .number = value},
                    NULL);
}

ls_status ls_record_set_text(ls_record *record, const char *name,
                             const char *value) {
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_REQUIRE(value);
  return record_put(
      record, name,
      &(ls_record_entry){.kind = LS_ENTRY_TEXT, .size = strlen(value)}, value);
}

ls_status ls_record_set_bytes(ls_record *record, const char *name,
                              const void *data, size_t size) {
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_REQUIRE_ITEMS(data, size);
  return record_put(record, name,
                    &(ls_record_entry){.kind = LS_ENTRY_BYTES, .size = size},
                    data);
}

ls_status ls_record_add(ls_record *record, const char *name,
                        ls_record **out_inner) {
  LS_REQUIRE_OUT(out_inner);
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  if (record->depth >= LS_RECORD_DEPTH)
    return ls_invalid_argument(
        "records can be inside each other %d times; '%s' would be one more",
        LS_RECORD_DEPTH, name);
  ls_record *inner = new_record(record->allocator, record->depth + 1);
  if (inner == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(record_put(
      record, name, &(ls_record_entry){.kind = LS_ENTRY_RECORD, .inner = inner},
      NULL));
  *out_inner = inner;
  return ls_ok();
}

// Adds what is in `from` to an empty record.
static ls_status record_add_all(ls_record *to, const ls_record *from) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&from->entries, &at, &item);) {
    const ls_record_entry *entry = item.value;
    if (entry->kind == LS_ENTRY_RECORD) {
      ls_record *inner = NULL;
      LS_RETURN_IF_ERROR(ls_record_add(to, item.key, &inner));
      LS_RETURN_IF_ERROR(record_add_all(inner, entry->inner));
    } else {
      LS_RETURN_IF_ERROR(record_put(to, item.key, entry, entry->data));
    }
  }
  return ls_ok();
}

ls_status ls_record_copy(ls_record *to, const ls_record *from) {
  LS_REQUIRE(to);
  LS_REQUIRE(from);
  // Aside, as one may be inside the other.
  LS_OWN(ls_record, made) = new_record(to->allocator, to->depth);
  LS_RETURN_IF_NO_MEMORY(made);
  LS_RETURN_IF_ERROR(record_add_all(made, from));
  const ls_map entries = to->entries;
  to->entries = made->entries;
  made->entries = entries;
  return ls_ok();
}

// ---- Looking ---------------------------------------------------------------
static const char *kind_text(ls_entry_kind kind) {
  static const char *const texts[] = {"a number", "a text", "bytes",
                                      "a record"};
  return texts[kind];
}

static ls_status not_found(const ls_record *record, const char *name) {
  LS_OWN(ls_text, names) = {0};
  ls_text_init(&names, record->allocator);
  ls_map_item item;
  for (size_t at = 0;
       names.size < 200 && ls_map_next(&record->entries, &at, &item);)
    ls_text_append_format(&names, "%s'%s'", names.size > 0 ? ", " : "",
                          (const char *)item.key);
  return LS_STATUS(LS_NOT_FOUND,
                   "the record has no '%s'; its %zu entries are: %s", name,
                   ls_map_count(&record->entries), ls_text_data(&names));
}

static ls_status record_look_up(const ls_record *record, const char *name,
                                ls_entry_kind kind,
                                const ls_record_entry **out) {
  *out = ls_map_find(&record->entries, name, strlen(name));
  if (*out == NULL) return not_found(record, name);
  if ((*out)->kind != kind)
    return ls_invalid_argument("'%s' of the record is %s, not %s", name,
                               kind_text((*out)->kind), kind_text(kind));
  return ls_ok();
}

ls_status ls_record_get_i64(const ls_record *record, const char *name,
                            int64_t *out_value) {
  LS_REQUIRE_OUT(out_value);
  const ls_record_entry *entry = NULL;
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_RETURN_IF_ERROR(record_look_up(record, name, LS_ENTRY_I64, &entry));
  *out_value = entry->number;
  return ls_ok();
}

ls_status ls_record_get_text(const ls_record *record, const char *name,
                             const char **out_value) {
  LS_REQUIRE_OUT(out_value);
  const ls_record_entry *entry = NULL;
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_RETURN_IF_ERROR(record_look_up(record, name, LS_ENTRY_TEXT, &entry));
  *out_value = entry->data;
  return ls_ok();
}

ls_status ls_record_get_bytes(const ls_record *record, const char *name,
                              const void **out_data, size_t *out_size) {
  LS_REQUIRE_OUT(out_data);
  LS_REQUIRE_OUT(out_size);
  const ls_record_entry *entry = NULL;
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_RETURN_IF_ERROR(record_look_up(record, name, LS_ENTRY_BYTES, &entry));
  *out_data = entry->data;
  *out_size = entry->size;
  return ls_ok();
}

ls_status ls_record_find(const ls_record *record, const char *name,
                         const ls_record **out_inner) {
  LS_REQUIRE_OUT(out_inner);
  const ls_record_entry *entry = NULL;
  LS_REQUIRE(record);
  LS_REQUIRE(name);
  LS_RETURN_IF_ERROR(record_look_up(record, name, LS_ENTRY_RECORD, &entry));
  *out_inner = entry->inner;
  return ls_ok();
}

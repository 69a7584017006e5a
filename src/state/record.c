// SPDX-License-Identifier: Apache-2.0
#include "state/record.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/text/text.h"
#include "io/bytes.h"
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

// Stores an entry with a copy of `size` bytes under the name, in place of an
// earlier one.
static ls_status record_put(ls_record *record, const char *name,
                            const ls_record_entry *like, const void *data) {
  const size_t size = like->size;
  ls_allocator *allocator = record->allocator;
  LS_RETURN_IF_ERROR(check_name(name));
  LS_RETURN_IF_NO_MEMORY(size <= SIZE_MAX / 2);
  LS_OWN_MEMORY(allocator, ls_record_entry, entry) =
      ls_allocate(allocator, sizeof(*entry) + size + 1);
  LS_RETURN_IF_NO_MEMORY(entry);
  *entry = *like;
  if (size > 0 && data != NULL) memcpy(entry->data, data, size);
  entry->data[size] = '\0';
  ls_record_entry *former = ls_map_find(&record->entries, name, strlen(name));
  LS_RETURN_IF_NO_MEMORY(ls_map_insert_text(&record->entries, name, entry));
  entry = NULL;
  release_entry(allocator, former);
  return ls_ok();
}

ls_status ls_record_set_i64(ls_record *record, const char *name,
                            int64_t value) {
  LS_REQUIRE(record, name);
  return record_put(record, name,
                    &(ls_record_entry){.kind = LS_ENTRY_I64, .number = value},
                    NULL);
}

ls_status ls_record_set_text(ls_record *record, const char *name,
                             const char *value) {
  LS_REQUIRE(record, name, value);
  return record_put(
      record, name,
      &(ls_record_entry){.kind = LS_ENTRY_TEXT, .size = strlen(value)}, value);
}

ls_status ls_record_set_bytes(ls_record *record, const char *name,
                              const void *data, size_t size) {
  LS_REQUIRE(record, name);
  LS_REQUIRE_ITEMS(data, size);
  return record_put(record, name,
                    &(ls_record_entry){.kind = LS_ENTRY_BYTES, .size = size},
                    data);
}

ls_status ls_record_add(ls_record *record, const char *name,
                        ls_record **out_inner) {
  LS_REQUIRE_OUT(out_inner, record, name);
  if (record->depth >= LS_RECORD_DEPTH)
    return ls_invalid_argument(
        "records can be inside each other %d times; '%s' would be one more",
        LS_RECORD_DEPTH, name);
  LS_OWN(ls_record, inner) = new_record(record->allocator, record->depth + 1);
  LS_RETURN_IF_NO_MEMORY(inner);
  LS_RETURN_IF_ERROR(record_put(
      record, name, &(ls_record_entry){.kind = LS_ENTRY_RECORD, .inner = inner},
      NULL));
  return ls_hand_over(&inner, out_inner);
}

// Copies all entries of `from` to an empty record.
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
  LS_REQUIRE(to, from);
  // Copies first, as one of the records may be inside the other.
  LS_OWN(ls_record, made) = new_record(to->allocator, to->depth);
  LS_RETURN_IF_NO_MEMORY(made);
  LS_RETURN_IF_ERROR(record_add_all(made, from));
  const ls_map entries = to->entries;
  to->entries = made->entries;
  made->entries = entries;
  return ls_ok();
}

// ---- Getters ---------------------------------------------------------------
static const char *kind_text(ls_entry_kind kind) {
  static const char *const texts[] = {"a number", "a text", "bytes",
                                      "a record"};
  return texts[kind];
}

static ls_status not_found(const ls_record *record, const char *name) {
  LS_OWN(ls_text, names) = {.allocator = record->allocator};
  ls_map_item item;
  for (size_t at = 0;
       names.size < 200 && ls_map_next(&record->entries, &at, &item);)
    ls_text_append_format(&names, "%s'%s'", names.size > 0 ? ", " : "",
                          (const char *)item.key);
  return LS_STATUS(LS_NOT_FOUND,
                   "the record has no '%s'; its %zu entries are: %s", name,
                   ls_map_count(&record->entries), ls_text_data(&names));
}

// `function` is the getter, for messages.
static ls_status record_look_up(const char *function, const ls_record *record,
                                const char *name, ls_entry_kind kind,
                                const ls_record_entry **out) {
  if (record == NULL) return ls_null_argument(function, "record");
  if (name == NULL) return ls_null_argument(function, "name");
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
  LS_RETURN_IF_ERROR(
      record_look_up(__func__, record, name, LS_ENTRY_I64, &entry));
  *out_value = entry->number;
  return ls_ok();
}

ls_status ls_record_get_text(const ls_record *record, const char *name,
                             const char **out_value) {
  LS_REQUIRE_OUT(out_value);
  const ls_record_entry *entry = NULL;
  LS_RETURN_IF_ERROR(
      record_look_up(__func__, record, name, LS_ENTRY_TEXT, &entry));
  *out_value = entry->data;
  return ls_ok();
}

ls_status ls_record_get_bytes(const ls_record *record, const char *name,
                              const void **out_data, size_t *out_size) {
  LS_REQUIRE_OUT(out_data);
  LS_REQUIRE_OUT(out_size);
  const ls_record_entry *entry = NULL;
  LS_RETURN_IF_ERROR(
      record_look_up(__func__, record, name, LS_ENTRY_BYTES, &entry));
  *out_data = entry->data;
  *out_size = entry->size;
  return ls_ok();
}

ls_status ls_record_find(const ls_record *record, const char *name,
                         const ls_record **out_inner) {
  LS_REQUIRE_OUT(out_inner);
  const ls_record_entry *entry = NULL;
  LS_RETURN_IF_ERROR(
      record_look_up(__func__, record, name, LS_ENTRY_RECORD, &entry));
  *out_inner = entry->inner;
  return ls_ok();
}

// ---- Writing ---------------------------------------------------------------
static void write_base64(ls_json_writer *json, const char *mark,
                         const ls_record_entry *entry) {
  ls_json_begin(json, '{');
  ls_json_key(json, mark);
  ls_json_base64(json, entry->data, entry->size);
  ls_json_end(json, '}');
}

void ls_record_write(const ls_record *record, ls_json_writer *json) {
  ls_map_item item;
  ls_json_begin(json, '{');
  for (size_t at = 0; ls_map_next(&record->entries, &at, &item);) {
    const ls_record_entry *entry = item.value;
    ls_json_key(json, item.key);
    if (entry->kind == LS_ENTRY_I64)
      ls_json_i64(json, entry->number);
    else if (entry->kind == LS_ENTRY_RECORD)
      ls_record_write(entry->inner, json);
    else if (entry->kind == LS_ENTRY_BYTES)
      write_base64(json, LS_RECORD_BYTES, entry);
    else if (ls_json_is_utf8(entry->data))
      ls_json_string(json, entry->data);
    else
      write_base64(json, LS_RECORD_TEXT, entry);
  }
  ls_json_end(json, '}');
}

// Returns the number of JSON values that a record becomes.
static size_t record_json_count_values(const ls_record *record) {
  size_t count = 0;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&record->entries, &at, &item);) {
    const ls_record_entry *entry = item.value;
    count += entry->kind == LS_ENTRY_I64 ? 1 : 2;
    if (entry->kind == LS_ENTRY_RECORD)
      count += record_json_count_values(entry->inner);
  }
  return count;
}

ls_status ls_record_to_text(const ls_record *record, char **out_text,
                            size_t *out_size) {
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE_OUT(out_size, record);
  const size_t count = record_json_count_values(record);
  if (count > LS_RECORD_ENTRIES)
    return ls_invalid_argument(
        "a record of %zu entries is too large for a file, which has at most %d",
        count, LS_RECORD_ENTRIES);
  ls_text text;
  ls_print_begin(&text, record->allocator);
  const size_t start = text.size;
  ls_record_write(record, &(ls_json_writer){.text = &text});
  const size_t size = text.size - start;
  LS_RETURN_IF_ERROR(ls_print_end(&text, out_text));
  *out_size = size;
  return ls_ok();
}

// ---- Reading ---------------------------------------------------------------
// Returns true for {"MARK": "..."}.
static bool is_marked(const ls_json *value, const char *mark) {
  const ls_json *only = value->first;
  return only != NULL && only->next == NULL && only->kind == LS_JSON_STRING &&
         strcmp(only->key, mark) == 0;
}

static ls_status not_readable(const char *name, const char *key,
                              const char *wanted) {
  return ls_invalid_argument("%s: '%s' is no value of a record: %s", name, key,
                             wanted);
}

static ls_status read_base64(ls_record *record, const char *name,
                             const ls_json *value) {
  const ls_json *only = value->first;
  const bool is_text = strcmp(only->key, LS_RECORD_TEXT) == 0;
  const size_t size = ls_base64_size(only->string, only->string_size);
  if (size == SIZE_MAX)
    return not_readable(name, value->key, "base64 digits, by fours");
  LS_OWN_MEMORY(record->allocator, char, data) =
      ls_allocate(record->allocator, size + 1);
  LS_RETURN_IF_NO_MEMORY(data);
  data[size] = '\0';
  if (!ls_base64_decode(only->string, data, size))
    return not_readable(name, value->key, "base64 digits");
  else if (is_text && strlen(data) != size)
    return not_readable(name, value->key, "a text without zero bytes");
  else if (is_text)
    return ls_record_set_text(record, value->key, data);
  else
    return ls_record_set_bytes(record, value->key, data, size);
}

static ls_status read_entry(ls_record *record, const char *name,
                            const ls_json *value) {
  if (value->kind == LS_JSON_NUMBER && value->is_integer)
    return ls_record_set_i64(record, value->key, value->integer);
  if (value->kind == LS_JSON_STRING) {
    if (strlen(value->string) != value->string_size)
      return not_readable(name, value->key, "a text without \\u0000");
    return ls_record_set_text(record, value->key, value->string);
  }
  if (value->kind != LS_JSON_OBJECT)
    return not_readable(name, value->key,
                        "an integer of 64 bits, a text, or an object of these");
  if (is_marked(value, LS_RECORD_BYTES) || is_marked(value, LS_RECORD_TEXT))
    return read_base64(record, name, value);
  ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_add(record, value->key, &inner));
  return ls_record_read(inner, name, value);
}

ls_status ls_record_read(ls_record *record, const char *name,
                         const ls_json *value) {
  if (value->kind != LS_JSON_OBJECT)
    return ls_invalid_argument("%s: a record is a JSON object", name);
  for (const ls_json *entry = value->first; entry != NULL; entry = entry->next)
    LS_RETURN_IF_ERROR(ls_status_annotate(read_entry(record, name, entry),
                                          "in '%s' of %s", entry->key, name));
  return ls_ok();
}

ls_status ls_record_from_text(const char *name, const char *text, size_t size,
                              ls_record **out_record) {
  LS_REQUIRE_OUT(out_record, name);
  LS_REQUIRE_ITEMS(text, size);
  LS_OWN(ls_record, record) = NULL;
  const ls_json *value = NULL;
  LS_OWN(ls_arena, arena) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(
      ls_json_parse_up_to(&arena, name, text == NULL ? "" : text, size,
                          (ls_json_limits){.depth = LS_RECORD_LEVELS}, &value));
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(ls_record_read(record, name, value));
  return ls_hand_over(&record, out_record);
}

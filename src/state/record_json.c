// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/text/print.h"
#include "io/base64.h"
#include "state/record.h"

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

// Values of JSON that it becomes.
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
  LS_REQUIRE_OUT(out_size);
  LS_REQUIRE(record);
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
// Whether it is {"MARK": "..."}.
static bool is_marked(const ls_json *value, const char *mark) {
  const ls_json *only = value->first;
  return only != NULL && only->next == NULL && only->kind == LS_JSON_STRING &&
         strcmp(only->key, mark) == 0;
}

static ls_status not_readable(const char *name, const char *key,
                              const char *wanted) {
  return ls_invalid_argument("%s: '%s' is not what a record holds: %s", name,
                             key, wanted);
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
    return not_readable(
        name, value->key,
        "a whole number of 64 bits, a text, or an object of those");
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
  for (const ls_json *it = value->first; it != NULL; it = it->next) {
    ls_status status = read_entry(record, name, it);
    if (!ls_status_is_ok(status))
      return ls_status_annotate(status, "in '%s' of %s", it->key, name);
  }
  return ls_ok();
}

ls_status ls_record_from_text(const char *name, const char *text, size_t size,
                              ls_record **out_record) {
  LS_REQUIRE_OUT(out_record);
  LS_REQUIRE(name);
  LS_REQUIRE_ITEMS(text, size);
  LS_OWN(ls_arena, arena) = {0};
  ls_record *record = NULL;
  const ls_json *value = NULL;
  ls_arena_init(&arena, ls_current_allocator());
  ls_status status =
      ls_json_parse(&arena, name, text == NULL ? "" : text, size, &value);
  if (ls_status_is_ok(status)) status = ls_record_create(&record);
  if (ls_status_is_ok(status)) status = ls_record_read(record, name, value);
  if (!ls_status_is_ok(status)) {
    ls_record_destroy(record);
    record = NULL;
  }
  *out_record = record;
  return status;
}

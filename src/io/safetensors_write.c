// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "io/safetensors.h"

static const char reserved_name[] = "__metadata__";
enum { DIGITS = LS_SAFETENSORS_DIGITS };
// Alignment of the first element in the file: the system copies whole cache
// lines faster.
enum { ALIGNMENT = 64 };

// ---- Layout ----------------------------------------------------------------
static ls_status check_entries(ls_allocator *allocator,
                               const ls_safetensors_entry *entries,
                               size_t count) {
  LS_OWN(ls_map, names) = {0};
  ls_map_init(&names, allocator);
  for (size_t i = 0; i < count; ++i) {
    const ls_safetensors_entry *entry = &entries[i];
    if (strcmp(entry->name, reserved_name) == 0) {
      return ls_invalid_argument(
          "an array cannot be called '%s' in a safetensors file",
          reserved_name);
    } else if (!ls_json_is_utf8(entry->name)) {
      return ls_invalid_argument("the name of an array for a safetensors file "
                                 "must be UTF-8: '%s' is not",
                                 entry->name);
    } else if (ls_map_find_text(&names, entry->name) != NULL) {
      return ls_invalid_argument(
          "two arrays for a safetensors file are called '%s': give one of "
          "their layers or optimizers another .name",
          entry->name);
    } else if (ls_safetensors_dtype_name(entry->dtype) == NULL) {
      return ls_invalid_argument(
          "array '%s' is %s, which safetensors files do not support",
          entry->name, ls_dtype_name(entry->dtype));
    } else if (!ls_map_insert_text(&names, entry->name, &names)) {
      return ls_out_of_memory();
    }
  }
  return ls_ok();
}

// A map from the order of the file, widest elements first, to the caller's
// arrays.
typedef struct order {
  ls_safetensors_entry *entries;
  size_t count;
  size_t width, next;
} order;

static ls_safetensors_entry *order_next(order *o) {
  for (; o->width > 0; o->width /= 2, o->next = 0) {
    while (o->next < o->count) {
      ls_safetensors_entry *entry = &o->entries[o->next++];
      if (ls_dtype_size(entry->dtype) == o->width) return entry;
    }
  }
  return NULL;
}

static void safetensors_write_print_array(ls_json_writer *json,
                                          const ls_safetensors_entry *entry) {
  ls_json_key(json, entry->name);
  ls_json_begin(json, '{');
  ls_json_key(json, "dtype");
  ls_json_string(json, ls_safetensors_dtype_name(entry->dtype));
  ls_json_key(json, "shape");
  ls_json_begin(json, '[');
  for (int i = 0; i < entry->shape.rank; ++i)
    ls_json_i64(json, entry->shape.dim[i]);
  ls_json_end(json, ']');
  ls_json_key(json, "data_offsets");
  ls_json_begin(json, '[');
  ls_json_i64(json, entry->offset);
  ls_json_i64(json, entry->offset + (int64_t)entry->size);
  ls_json_end(json, ']');
  ls_json_end(json, '}');
}

// Writes zeros in place of the checksums of `count` arrays and of the header.
static void print_sums(ls_json_writer *json, size_t count) {
  ls_json_key(json, LS_SAFETENSORS_SUMS);
  ls_json_string(json, "");
  if (json->text->failed) return;
  --json->text->size;  // Removes the quotation mark.
  for (size_t i = 0; i <= count; ++i)
    ls_text_append(json->text, "00000000");
  ls_text_append_char(json->text, '"');
}

static void print_notes(ls_json_writer *json, const ls_safetensors_note *notes,
                        size_t count, bool sums, size_t num_entries) {
  if (count == 0 && !sums) return;
  ls_json_key(json, reserved_name);
  ls_json_begin(json, '{');
  if (sums) print_sums(json, num_entries);
  for (size_t i = 0; i < count; ++i) {
    ls_json_key(json, notes[i].key);
    ls_json_string(json, notes[i].value);
  }
  ls_json_end(json, '}');
}

ls_status ls_safetensors_lay_out(ls_text *text, ls_safetensors_entry *entries,
                                 size_t count, const ls_safetensors_note *notes,
                                 size_t num_notes, bool sums,
                                 size_t *out_size) {
  LS_RETURN_IF_ERROR(check_entries(text->allocator, entries, count));
  ls_text_append_bytes(text, "\0\0\0\0\0\0\0", 8);
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  print_notes(&json, notes, num_notes, sums, count);
  int64_t offset = 0;
  order o = {.entries = entries, .count = count, .width = 8};
  for (ls_safetensors_entry *entry; (entry = order_next(&o)) != NULL;) {
    entry->size = (size_t)ls_shape_num_elements(entry->shape) *
                  ls_dtype_size(entry->dtype);
    entry->offset = offset;
    offset += (int64_t)entry->size;
    safetensors_write_print_array(&json, entry);
  }
  ls_json_end(&json, '}');
  while (text->size % ALIGNMENT != 0 && !text->failed)
    ls_text_append_char(text, ' ');
  LS_RETURN_IF_ERROR(ls_text_status(text));
  ls_store_le64(text->data, text->size - 8);
  for (size_t i = 0; i < count; ++i)
    entries[i].offset += (int64_t)text->size;
  *out_size = text->size + (size_t)offset;
  return ls_ok();
}

static void put_digits(char *to, uint32_t crc) {
  for (int i = 0; i < DIGITS; ++i)
    to[i] = "0123456789abcdef"[crc >> (28 - 4 * i) & 15];
}

void ls_safetensors_seal(char *header, size_t size,
                         const ls_safetensors_entry *entries, size_t count,
                         const uint32_t *crcs) {
  char *first = header + LS_SAFETENSORS_SUMS_AT;
  char *digits = first;
  order o = {.entries = (ls_safetensors_entry *)(uintptr_t)entries,
             .count = count,
             .width = 8};
  for (const ls_safetensors_entry *entry; (entry = order_next(&o)) != NULL;)
    put_digits(digits += DIGITS, crcs[entry - entries]);
  put_digits(first, ls_crc32c(0, header, size));
}

// ---- Entry by entry --------------------------------------------------------
struct ls_safetensors_writer {
  ls_allocator *allocator;
  const ls_file_system *files;
  void *file;
  const ls_safetensors_entry *entries;
  size_t num_entries;
  uint32_t *crcs;  // One per written entry.
  ls_text header;  // Written at the file's end.
};

static void drop_writer(ls_safetensors_writer *self) {
  ls_text_deinit(&self->header);
  ls_release(self->allocator, self->crcs);
  ls_release(self->allocator, self);
}

LS_OWNED_POINTER(ls_safetensors_writer, drop_writer)

ls_status ls_safetensors_create(ls_runtime *runtime, const char *path,
                                ls_safetensors_entry *entries,
                                size_t num_entries,
                                const ls_safetensors_note *notes,
                                size_t num_notes,
                                ls_safetensors_writer **out_writer) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const ls_file_system *files = ls_runtime_files(runtime);
  *out_writer = NULL;
  if (files->create == NULL)
    return ls_unimplemented("writing '%s': the file system has no writing in "
                            "parts",
                            path);
  LS_OWN_NEW_OR_RETURN(allocator, ls_safetensors_writer, self);
  *self = (ls_safetensors_writer){.allocator = allocator,
                                  .files = files,
                                  .entries = entries,
                                  .num_entries = num_entries};
  size_t size = 0;
  ls_text_init(&self->header, allocator);
  LS_SET_ARRAY_OR_RETURN(allocator, uint32_t, self->crcs, num_entries + 1);
  LS_RETURN_IF_ERROR(ls_safetensors_lay_out(&self->header, entries, num_entries,
                                            notes, num_notes, true, &size));
  LS_RETURN_IF_ERROR(files->create(files->user, path, false, &self->file));
  return ls_hand_over(&self, out_writer);
}

// Writes in pieces, so that a piece is in a cache for its checksum.
ls_status ls_safetensors_put(ls_safetensors_writer *writer,
                             const ls_safetensors_entry *entry,
                             const void *data, uint32_t *out_crc) {
  enum { PIECE = 1 << 20 };
  const ls_file_system *files = writer->files;
  uint32_t crc = 0;
  for (size_t at = 0; at < entry->size; at += PIECE) {
    const char *from = (const char *)data + at;
    const size_t left = entry->size - at;
    const size_t some = left < PIECE ? left : PIECE;
    crc = ls_crc32c(crc, from, some);
    LS_RETURN_IF_ERROR(files->write_at(
        files->user, writer->file, entry->offset + (int64_t)at, from, some));
  }
  writer->crcs[entry - writer->entries] = crc;
  if (out_crc != NULL) *out_crc = crc;
  return ls_ok();
}

ls_status ls_safetensors_finish(ls_safetensors_writer *writer, bool keep) {
  if (writer == NULL) return ls_ok();
  const ls_file_system *files = writer->files;
  ls_text *header = &writer->header;
  ls_status status = ls_ok();
  if (keep) {
    ls_safetensors_seal(header->data, header->size, writer->entries,
                        writer->num_entries, writer->crcs);
    status = files->write_at(files->user, writer->file, 0, header->data,
                             header->size);
  }
  keep &= ls_status_is_ok(status);
  status =
      ls_status_join(status, files->finish(files->user, writer->file, keep));
  drop_writer(writer);
  return status;
}

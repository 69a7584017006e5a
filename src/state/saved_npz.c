// SPDX-License-Identifier: Apache-2.0
#include "state/saved_npz.h"

#include <string.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "io/inflate.h"

ls_status ls_saved_npz_is(const ls_file *file, bool *out_is) {
  char head[4] = "";
  *out_is = false;
  if (file->size < (int64_t)sizeof(head)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_file_read(file, 0, head, sizeof(head)));
  // A member's header; the directory's end, if there is no member.
  *out_is = memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0;
  return ls_ok();
}

// ---- Members ---------------------------------------------------------------
// A packed member's bytes as a file, both the caller's.
typedef struct member {
  char *data;
  ls_file *file;
  ls_npy_header header;
} member;

static void close_member(const ls_saved_npz *npz, member *it) {
  ls_file_close(it->file);
  ls_release(npz->zip.allocator, it->data);
}

static ls_status open_member(const ls_saved_npz *npz, size_t index,
                             member *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  ls_allocator *allocator = npz->zip.allocator;
  *out = (member){0};
  LS_RETURN_IF_ERROR(ls_zip_read(&npz->zip, entry, allocator, &out->data));
  ls_status status = ls_file_open_bytes(allocator, entry->name, out->data,
                                        (size_t)entry->size, &out->file);
  if (ls_status_is_ok(status))
    status =
        ls_npy_open(out->file, entry->name, 0, out->file->size, &out->header);
  if (!ls_status_is_ok(status)) close_member(npz, out);
  return status;
}

static ls_status read_header(const ls_saved_npz *npz, size_t index,
                             ls_npy_header *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  int64_t from = 0;
  if (entry->deflated) {
    member it;
    LS_RETURN_IF_ERROR(open_member(npz, index, &it));
    *out = it.header;
    close_member(npz, &it);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_zip_locate(&npz->zip, entry, &from));
  return ls_npy_open(npz->file, entry->name, from, entry->size, out);
}

// `known` are the arrays before this one, by name.
static ls_status saved_npz_look_at(ls_saved_npz *npz, size_t index,
                                   ls_map *known) {
  const char *name = npz->zip.entries[index].name;
  const size_t length = strlen(name);
  const bool ends = length > 4 && strcmp(name + length - 4, ".npy") == 0;
  ls_npy_header *header = &npz->headers[npz->num_entries];
  LS_RETURN_IF_ERROR(ls_status_annotate(read_header(npz, index, header),
                                        "while reading '%s'", npz->file->path));
  ls_safetensors_entry *entry = &npz->entries[npz->num_entries];
  *entry = (ls_safetensors_entry){
      .name = ls_arena_format(&npz->names, "%.*s",
                              (int)(ends ? length - 4 : length), name),
      .dtype = header->dtype,
      .shape = header->shape,
      .offset = (int64_t)index};
  if (entry->name == NULL) return ls_out_of_memory();
  if (entry->dtype == LS_DTYPE_STRING)
    return ls_invalid_argument("'%s' has array '%s' of texts, which is no "
                               "value of a variable",
                               npz->file->path, entry->name);
  entry->size =
      (size_t)ls_shape_num_elements(entry->shape) * ls_dtype_size(entry->dtype);
  if (ls_map_find_text(known, entry->name) != NULL)
    return ls_invalid_argument("'%s' has two arrays called '%s'",
                               npz->file->path, entry->name);
  ++npz->num_entries;
  return ls_map_insert_text(known, entry->name, entry) ? ls_ok()
                                                       : ls_out_of_memory();
}

// ---- The file --------------------------------------------------------------
ls_status ls_saved_npz_open(ls_file *file, ls_saved_npz *out) {
  ls_allocator *allocator = file->allocator;
  *out = (ls_saved_npz){.file = file};
  ls_arena_init(&out->names, allocator);
  ls_status status = ls_zip_open(file, allocator, &out->zip);
  if (ls_status_is_ok(status)) {
    out->entries =
        ls_new_array(allocator, ls_safetensors_entry, out->zip.count + 1);
    out->headers = ls_new_array(allocator, ls_npy_header, out->zip.count + 1);
    if (out->entries == NULL || out->headers == NULL)
      status = ls_out_of_memory();
  }
  ls_map known;
  ls_map_init(&known, allocator);
  for (size_t i = 0; ls_status_is_ok(status) && i < out->zip.count; ++i)
    status = saved_npz_look_at(out, i, &known);
  ls_map_deinit(&known);
  if (!ls_status_is_ok(status)) ls_saved_npz_close(out);
  return status;
}

void ls_saved_npz_close(ls_saved_npz *npz) {
  if (npz->file == NULL) return;
  ls_release(npz->file->allocator, npz->entries);
  ls_release(npz->file->allocator, npz->headers);
  ls_arena_deinit(&npz->names);
  ls_zip_close(&npz->zip);
  ls_file_close(npz->file);
  *npz = (ls_saved_npz){0};
}

// ---- Elements --------------------------------------------------------------
// Straight from the file; the checksum is of what stands before, too.
static ls_status read_stored(const ls_saved_npz *npz,
                             const ls_safetensors_entry *entry, void *data) {
  const ls_zip_entry *stored = &npz->zip.entries[entry->offset];
  const ls_npy_header *header = &npz->headers[entry - npz->entries];
  int64_t from = 0;
  LS_RETURN_IF_ERROR(ls_zip_locate(&npz->zip, stored, &from));
  const size_t before = (size_t)(header->data_offset - from);
  LS_OWN_MEMORY(npz->zip.allocator, char, head) =
      ls_allocate(npz->zip.allocator, before);
  LS_RETURN_IF_NO_MEMORY(head);
  LS_RETURN_IF_ERROR(ls_file_read(npz->file, from, head, before));
  LS_RETURN_IF_ERROR(
      ls_file_read(npz->file, header->data_offset, data, entry->size));
  if (ls_crc32(ls_crc32(0, head, before), data, entry->size) != stored->crc)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is damaged: array '%s' has another checksum",
                     npz->file->path, entry->name);
  ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  return ls_ok();
}

static ls_status saved_npz_read_packed(const ls_saved_npz *npz,
                                       const ls_safetensors_entry *entry,
                                       void *data) {
  member it;
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(open_member(npz, (size_t)entry->offset, &it));
  const ls_npy_header *header = &it.header;
  ls_status status = ls_ok();
  if (header->dtype != entry->dtype ||
      !ls_shape_equal(header->shape, entry->shape)) {
    status = LS_STATUS(LS_DATA_LOSS, "'%s' has another array '%s' now",
                       npz->file->path, entry->name);
  } else if (!header->fortran) {
    if (entry->size > 0)
      memcpy(data, it.data + header->data_offset, entry->size);
    ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  } else {
    status = ls_npy_read_elements(it.file, header, &array);
    if (ls_status_is_ok(status))
      memcpy(data, ls_array_data(array), entry->size);
    ls_array_release(array);
  }
  close_member(npz, &it);
  return status;
}

ls_status ls_saved_npz_get(const ls_saved_npz *npz,
                           const ls_safetensors_entry *entry, void *data) {
  const bool whole = npz->zip.entries[entry->offset].deflated ||
                     npz->headers[entry - npz->entries].fortran;
  return ls_status_annotate(whole ? saved_npz_read_packed(npz, entry, data)
                                  : read_stored(npz, entry, data),
                            "while reading array '%s' of '%s'", entry->name,
                            npz->file->path);
}

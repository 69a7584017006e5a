// SPDX-License-Identifier: Apache-2.0
#include "state/saved.h"

#include <string.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "io/inflate.h"

ls_status ls_saved_npz_is(const ls_file *file, bool *out_is) {
  char head[4] = "";
  *out_is = false;
  if (file->size < (int64_t)sizeof(head)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_file_read(file, 0, head, sizeof(head)));
  // A zip file starts with a member's header, or if empty with the directory's
  // end.
  *out_is = memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0;
  return ls_ok();
}

// ---- Members ---------------------------------------------------------------
// The bytes of a packed member as a file.
typedef struct member {
  ls_allocator *allocator;
  char *data;
  ls_file *file;
  ls_npy_header header;
} member;

static void member_deinit(member *self) {
  ls_file_close(self->file);
  ls_release(self->allocator, self->data);
}
LS_OWNED_STRUCT(member, member_deinit)

static ls_status open_member(const ls_saved_npz *npz, size_t index,
                             member *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  out->allocator = npz->zip.allocator;
  LS_RETURN_IF_ERROR(ls_zip_read(&npz->zip, entry, out->allocator, &out->data));
  LS_RETURN_IF_ERROR(ls_file_open_bytes(out->allocator, entry->name, out->data,
                                        (size_t)entry->size, &out->file));
  return ls_npy_open(out->file, entry->name, 0, out->file->size, &out->header);
}

static ls_status read_header(const ls_saved_npz *npz, size_t index,
                             ls_npy_header *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  int64_t begin = 0;
  if (entry->deflated) {
    LS_OWN(member, packed) = {0};
    LS_RETURN_IF_ERROR(open_member(npz, index, &packed));
    *out = packed.header;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_zip_locate(&npz->zip, entry, &begin));
  return ls_npy_open(npz->file, entry->name, begin, entry->size, out);
}

// Reads a member's header; `known` has the earlier arrays by name.
static ls_status read_member(ls_saved_npz *npz, size_t index, ls_map *known) {
  const char *name = npz->zip.entries[index].name;
  const size_t length = strlen(name);
  if (strcmp(name, "data.pkl") == 0 ||
      (length > 9 && strcmp(name + length - 9, "/data.pkl") == 0))
    return ls_unimplemented(
        "'%s' is a file of torch.save, which is not read: save the state_dict "
        "with safetensors.torch.save_file as .safetensors "
        "(docs/from-pytorch.md)",
        npz->file->path);
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
    return ls_invalid_argument(
        "'%s' has array '%s' of texts, which is no value of a variable",
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
static ls_status read_members(ls_saved_npz *self) {
  ls_allocator *allocator = self->file->allocator;
  LS_RETURN_IF_ERROR(ls_zip_open(self->file, allocator, &self->zip));
  const size_t count = self->zip.count + 1;
  self->entries = ls_new_array(allocator, ls_safetensors_entry, count);
  self->headers = ls_new_array(allocator, ls_npy_header, count);
  LS_RETURN_IF_NO_MEMORY(self->entries != NULL && self->headers != NULL);
  LS_OWN(ls_map, known) = {0};
  ls_map_init(&known, allocator);
  for (size_t i = 0; i < self->zip.count; ++i)
    LS_RETURN_IF_ERROR(read_member(self, i, &known));
  return ls_ok();
}

ls_status ls_saved_npz_open(ls_file *file, ls_saved_npz *out) {
  *out = (ls_saved_npz){.file = file};
  ls_arena_init(&out->names, file->allocator);
  const ls_status status = read_members(out);
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
// Reads directly from the file; the checksum also covers the bytes before the
// elements.
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
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' is damaged: the checksum of array '%s' does not match",
        npz->file->path, entry->name);
  ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  return ls_ok();
}

static ls_status read_packed(const ls_saved_npz *npz,
                             const ls_safetensors_entry *entry, void *data) {
  LS_OWN(member, packed) = {0};
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(open_member(npz, (size_t)entry->offset, &packed));
  const ls_npy_header *header = &packed.header;
  if (header->dtype != entry->dtype ||
      !ls_shape_equal(header->shape, entry->shape))
    return LS_STATUS(LS_DATA_LOSS, "'%s' has another array '%s' now",
                     npz->file->path, entry->name);
  if (header->fortran) {
    LS_RETURN_IF_ERROR(ls_npy_read_elements(packed.file, header, &array));
    memcpy(data, ls_array_data(array), entry->size);
    return ls_ok();
  }
  if (entry->size > 0)
    memcpy(data, packed.data + header->data_offset, entry->size);
  ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  return ls_ok();
}

ls_status ls_saved_npz_get(const ls_saved_npz *npz,
                           const ls_safetensors_entry *entry, void *data) {
  const bool whole = npz->zip.entries[entry->offset].deflated ||
                     npz->headers[entry - npz->entries].fortran;
  return ls_status_annotate(
      whole ? read_packed(npz, entry, data) : read_stored(npz, entry, data),
      "while reading array '%s' of '%s'", entry->name, npz->file->path);
}

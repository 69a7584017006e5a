// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"
#include "base/memory/own.h"
#include "base/text.h"
#include "io/bytes.h"
#include "io/inflate.h"
#include "io/zip.h"

struct ls_zip_writer {
  ls_allocator *allocator;
  ls_file_writer file;
  uint64_t count;
  ls_text directory;
};

enum { VERSION = 20, VERSION_64 = 45, UTF_8_NAMES = 0x0800 };
// 1980-01-01, the format's first day: equal contents give equal files.
enum { FIRST_DAY = 1 << 5 | 1 };

ls_status ls_zip_writer_open(ls_runtime *runtime, const char *path,
                             ls_zip_writer **out_writer) {
  *out_writer = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, ls_zip_writer, writer) =
      ls_new(allocator, ls_zip_writer);
  LS_RETURN_IF_NO_MEMORY(writer);
  writer->allocator = allocator;
  ls_text_init(&writer->directory, allocator);
  LS_RETURN_IF_ERROR(ls_file_writer_begin(&writer->file, runtime, path));
  return ls_hand_over(&writer, out_writer);
}

// ---- Records ---------------------------------------------------------------
static void add_16(ls_text *text, uint64_t value) {
  unsigned char bytes[2];
  ls_store_le16(bytes, (uint16_t)value);
  ls_text_append_bytes(text, bytes, 2);
}
static void add_32(ls_text *text, uint64_t value) {
  unsigned char bytes[4];
  ls_store_le32(bytes, value > UINT32_MAX ? UINT32_MAX : (uint32_t)value);
  ls_text_append_bytes(text, bytes, 4);
}
static void add_64(ls_text *text, uint64_t value) {
  unsigned char bytes[8];
  ls_store_le64(bytes, value);
  ls_text_append_bytes(text, bytes, 8);
}

typedef struct zip_member {
  const char *name;
  size_t name_size;
  bool deflated;
  uint32_t crc;
  uint64_t packed_size, size, header;
} zip_member;

// Writes the fields common to header and directory entry.
static void add_common(ls_text *text, const zip_member *member, bool wide) {
  add_16(text, wide ? VERSION_64 : VERSION);
  add_16(text, UTF_8_NAMES);
  add_16(text, member->deflated ? 8 : 0);
  add_16(text, 0);
  add_16(text, FIRST_DAY);
  add_32(text, member->crc);
  add_32(text, wide ? UINT32_MAX : member->packed_size);
  add_32(text, wide ? UINT32_MAX : member->size);
  add_16(text, member->name_size);
}

static bool needs_64_bits(const zip_member *member) {
  return member->packed_size >= UINT32_MAX || member->size >= UINT32_MAX;
}

static void add_header(ls_text *text, const zip_member *member) {
  const bool wide = needs_64_bits(member);
  add_32(text, 0x04034b50);
  add_common(text, member, wide);
  add_16(text, wide ? 20 : 0);
  ls_text_append_bytes(text, member->name, member->name_size);
  if (!wide) return;
  add_16(text, 1);
  add_16(text, 16);
  add_64(text, member->size);
  add_64(text, member->packed_size);
}

static void add_entry(ls_text *text, const zip_member *member) {
  const bool wide = needs_64_bits(member) || member->header >= UINT32_MAX;
  add_32(text, 0x02014b50);
  add_16(text, wide ? VERSION_64 : VERSION);
  add_common(text, member, wide);
  add_16(text, wide ? 28 : 0);
  add_16(text, 0);  // No comment,
  add_16(text, 0);  // first disk,
  add_16(text, 0);  // no attributes.
  add_32(text, 0);
  add_32(text, wide ? UINT32_MAX : member->header);
  ls_text_append_bytes(text, member->name, member->name_size);
  if (!wide) return;
  add_16(text, 1);
  add_16(text, 24);
  add_64(text, member->size);
  add_64(text, member->packed_size);
  add_64(text, member->header);
}

static void add_end(ls_text *text, uint64_t count, uint64_t size,
                    uint64_t offset) {
  if (count >= UINT16_MAX || size >= UINT32_MAX || offset >= UINT32_MAX) {
    add_32(text, 0x06064b50);
    add_64(text, 44);
    add_16(text, VERSION_64);
    add_16(text, VERSION_64);
    add_64(text, 0);
    add_64(text, count);
    add_64(text, count);
    add_64(text, size);
    add_64(text, offset);
    add_32(text, 0x07064b50);
    add_32(text, 0);
    add_64(text, offset + size);
    add_32(text, 1);
  }
  const uint64_t few = count > UINT16_MAX ? UINT16_MAX : count;
  add_32(text, 0x06054b50);
  add_32(text, 0);
  add_16(text, few);
  add_16(text, few);
  add_32(text, size);
  add_32(text, offset);
  add_16(text, 0);
}

// ---- Members ---------------------------------------------------------------
// Packs both pieces into one block.
static ls_status pack_pieces(ls_zip_writer *writer, const void *head,
                             size_t head_size, const void *data, size_t size,
                             char **out_packed, size_t *out_size) {
  LS_OWN(ls_text, both_pieces) = {.allocator = writer->allocator};
  ls_text_append_bytes(&both_pieces, head, head_size);
  ls_text_append_bytes(&both_pieces, data, size);
  LS_RETURN_IF_ERROR(ls_text_status(&both_pieces));
  return ls_deflate(writer->allocator, LS_PACKING_DEFLATE, both_pieces.data,
                    both_pieces.size, out_packed, out_size);
}

// Writes the header and the bytes, then remembers the directory entry.
static ls_status write_member(ls_zip_writer *writer, const zip_member *member,
                              const void *head, size_t head_size,
                              const void *data, size_t size) {
  LS_OWN(ls_text, header) = {.allocator = writer->allocator};
  add_header(&header, member);
  LS_RETURN_IF_ERROR(ls_text_status(&header));
  LS_RETURN_IF_ERROR(
      ls_file_writer_add(&writer->file, header.data, header.size));
  LS_RETURN_IF_ERROR(ls_file_writer_add(&writer->file, head, head_size));
  LS_RETURN_IF_ERROR(ls_file_writer_add(&writer->file, data, size));
  add_entry(&writer->directory, member);
  ++writer->count;
  return ls_text_status(&writer->directory);
}

static ls_status add_member(ls_zip_writer *writer, const zip_member *member,
                            const void *head, size_t head_size,
                            const void *data, size_t size) {
  const ls_status status =
      write_member(writer, member, head, head_size, data, size);
  writer->file.failed |= !ls_status_is_ok(status);
  return status;
}

ls_status ls_zip_add(ls_zip_writer *writer, const char *name, bool deflated,
                     const void *head, size_t head_size, const void *data,
                     size_t size) {
  zip_member member = {.name = name,
                       .name_size = strlen(name),
                       .deflated = deflated,
                       .crc =
                           ls_crc32(ls_crc32(0, head, head_size), data, size),
                       .packed_size = head_size + size,
                       .size = head_size + size,
                       .header = (uint64_t)writer->file.written};
  if (member.name_size > UINT16_MAX)
    return ls_invalid_argument(
        "a zip entry's name has %zu bytes; at most 65535", member.name_size);
  if (writer->file.failed) {
    return ls_failed_precondition(
        "an earlier write of a zip file failed; it will not be kept");
  }
  if (!deflated)
    return add_member(writer, &member, head, head_size, data, size);
  LS_OWN_MEMORY(writer->allocator, char, packed) = NULL;
  size_t packed_size = 0;
  LS_RETURN_IF_ERROR(
      pack_pieces(writer, head, head_size, data, size, &packed, &packed_size));
  member.packed_size = packed_size;
  return add_member(writer, &member, NULL, 0, packed, packed_size);
}

static ls_status write_directory(ls_zip_writer *writer) {
  ls_text *directory = &writer->directory;
  add_end(directory, writer->count, directory->size,
          (uint64_t)writer->file.written);
  LS_RETURN_IF_ERROR(ls_text_status(directory));
  return ls_file_writer_add(&writer->file, directory->data, directory->size);
}

ls_status ls_zip_writer_close(ls_zip_writer *writer, bool keep) {
  if (writer == NULL) return ls_ok();
  ls_status status = ls_ok();
  if (keep && !writer->file.failed) status = write_directory(writer);
  status = ls_file_writer_end(&writer->file, keep, status);
  ls_text_deinit(&writer->directory);
  ls_release(writer->allocator, writer);
  return status;
}

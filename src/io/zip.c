// SPDX-License-Identifier: Apache-2.0
// Zip files. The end of the file locates the directory; files or members of 4
// GiB and more have 64-bit sizes in separate fields. Only the directory is
// trusted, except for the start of a member's bytes, which only the member's
// own header gives.
#include "io/zip.h"

#include "base/status_cause.h"
#include "io/bytes.h"
#include "io/inflate.h"
#include "io/reader.h"

enum {
  END_SIZE = 22,
  END_64_PLACE_SIZE = 20,
  END_64_SIZE = 56,
  ENTRY_SIZE = 46,
  HEADER_SIZE = 30,
  COMMENT_MOST = 65535,
  STORED = 0,
  DEFLATED = 8,
};
#define LS_ZIP_END UINT32_C(0x06054b50)
#define LS_ZIP_END_64_PLACE UINT32_C(0x07064b50)
#define LS_ZIP_END_64 UINT32_C(0x06064b50)
#define LS_ZIP_ENTRY UINT32_C(0x02014b50)
#define LS_ZIP_HEADER UINT32_C(0x04034b50)

// ---- The end ---------------------------------------------------------------
typedef struct zip_end {
  // Number of entries, size and offset of the directory.
  uint64_t count, size, offset;
} zip_end;

static ls_status report_damage(const ls_file *file, int64_t at,
                               const char *problem) {
  return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged zip file: %s at byte %lld",
                   file->path, problem, (long long)at);
}

// Finds the end record, which is followed by at most a comment.
static ls_status find_end(const ls_file *file, unsigned char *tail, size_t size,
                          size_t *out_at) {
  LS_RETURN_IF_ERROR(
      ls_file_read(file, file->size - (int64_t)size, tail, size));
  for (size_t at = size - END_SIZE + 1; at-- > 0;) {
    if (ls_load_le32(tail + at) != LS_ZIP_END) continue;
    if (at + END_SIZE + ls_load_le16(tail + at + 20) != size) continue;
    *out_at = at;
    return ls_ok();
  }
  return ls_invalid_argument("'%s' is no zip file: no directory is named at "
                             "its end, or the end is cut off",
                             file->path);
}

static ls_status read_end_64(const ls_file *file, int64_t end, zip_end *out) {
  unsigned char place[END_64_PLACE_SIZE], data[END_64_SIZE];
  const int64_t at = end - END_64_PLACE_SIZE;
  if (at < 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_file_read(file, at, place, sizeof(place)));
  if (ls_load_le32(place) != LS_ZIP_END_64_PLACE) return ls_ok();
  const uint64_t from = ls_load_le64(place + 8);
  if (from > (uint64_t)at || (uint64_t)at - from < END_64_SIZE)
    return report_damage(file, at, "the place of its 64-bit end");
  LS_RETURN_IF_ERROR(ls_file_read(file, (int64_t)from, data, sizeof(data)));
  if (ls_load_le32(data) != LS_ZIP_END_64)
    return report_damage(file, (int64_t)from, "its 64-bit end");
  *out = (zip_end){.count = ls_load_le64(data + 32),
                   .size = ls_load_le64(data + 40),
                   .offset = ls_load_le64(data + 48)};
  return ls_ok();
}

static ls_status read_end(const ls_file *file, ls_allocator *allocator,
                          zip_end *out) {
  const int64_t most = END_SIZE + COMMENT_MOST;
  const size_t size = (size_t)(file->size < most ? file->size : most);
  if (size < END_SIZE) {
    return ls_invalid_argument("'%s' is no zip file: it has %zu bytes, the "
                               "least is %d",
                               file->path, size, END_SIZE);
  }
  LS_OWN_ARRAY_OR_RETURN(allocator, unsigned char, tail, size);
  size_t at = 0;
  LS_RETURN_IF_ERROR(find_end(file, tail, size, &at));
  const unsigned char *end = tail + at;
  const int64_t place = file->size - (int64_t)(size - at);
  *out = (zip_end){ls_load_le16(end + 10), ls_load_le32(end + 12),
                   ls_load_le32(end + 16)};
  if (ls_load_le16(end + 4) != 0 && ls_load_le16(end + 4) != 0xffff)
    return ls_unimplemented("'%s' is one of several parts of a zip file; they "
                            "must be one file",
                            file->path);
  LS_RETURN_IF_ERROR(read_end_64(file, place, out));
  if (out->offset > (uint64_t)place ||
      out->size > (uint64_t)place - out->offset ||
      out->count > out->size / ENTRY_SIZE)
    return report_damage(file, place, "the place of its directory");
  return ls_ok();
}

// ---- The directory ---------------------------------------------------------
// Reads the 64-bit sizes that the 32-bit fields refer to.
static ls_status read_extra(const ls_zip *zip, const unsigned char *entry,
                            int64_t at, ls_zip_entry *out) {
  const unsigned char *extra = entry + ENTRY_SIZE + ls_load_le16(entry + 28);
  size_t left = ls_load_le16(entry + 30);
  int64_t *const wide[] = {&out->size, &out->packed_size, &out->header};
  while (left >= 4) {
    const size_t size = ls_load_le16(extra + 2);
    if (size > left - 4)
      return report_damage(zip->file, at, "an entry's extra data");
    if (ls_load_le16(extra) == 1) {
      const unsigned char *value = extra + 4;
      for (size_t i = 0; i < LS_COUNT_OF(wide); ++i) {
        if (*wide[i] != UINT32_MAX) continue;
        if (value + 8 > extra + 4 + size)
          return report_damage(zip->file, at, "an entry's sizes of 64 bits");
        const uint64_t found = ls_load_le64(value);
        *wide[i] = found > INT64_MAX ? INT64_MAX : (int64_t)found;
        value += 8;
      }
      return ls_ok();
    }
    extra += 4 + size;
    left -= 4 + size;
  }
  return ls_ok();
}

static ls_status check_entry(const ls_zip *zip, const ls_zip_entry *entry,
                             unsigned flags, unsigned method, int64_t at) {
  const char *path = zip->file->path;
  if ((flags & 1) != 0)
    return ls_unimplemented("'%s' entry '%s' is encrypted", path, entry->name);
  if (method != STORED && method != DEFLATED) {
    return ls_unimplemented("'%s' entry '%s' is packed by method %u; stored "
                            "(0) and deflated (8) ones are read",
                            path, entry->name, method);
  }
  if (entry->header > zip->file->size ||
      entry->packed_size > zip->file->size - entry->header)
    return report_damage(zip->file, at, "an entry is beyond the file's end");
  const size_t most = ls_gzip_most((size_t)entry->packed_size);
  if (method == STORED ? entry->size != entry->packed_size
                       : (uint64_t)entry->size > most) {
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' entry '%s' has an impossible size of %lld bytes in %lld", path,
        entry->name, (long long)entry->size, (long long)entry->packed_size);
  }
  return ls_ok();
}

// Reads one entry of `size` bytes at most; appends its name to `*names`.
static ls_status read_zip_entry(const ls_zip *zip, const unsigned char *data,
                                size_t size, int64_t at, char **names,
                                ls_zip_entry *out, size_t *out_size) {
  if (size < ENTRY_SIZE || ls_load_le32(data) != LS_ZIP_ENTRY)
    return report_damage(zip->file, at, "an entry of its directory");
  const size_t name = ls_load_le16(data + 28);
  *out_size =
      ENTRY_SIZE + name + ls_load_le16(data + 30) + ls_load_le16(data + 32);
  if (*out_size > size)
    return report_damage(zip->file, at, "an entry of its directory");
  const unsigned method = ls_load_le16(data + 10);
  *out = (ls_zip_entry){.name = *names,
                        .deflated = method == DEFLATED,
                        .crc = ls_load_le32(data + 16),
                        .packed_size = ls_load_le32(data + 20),
                        .size = ls_load_le32(data + 24),
                        .header = ls_load_le32(data + 42)};
  memcpy(*names, data + ENTRY_SIZE, name);
  (*names)[name] = '\0';
  *names += name + 1;
  LS_RETURN_IF_ERROR(read_extra(zip, data, at, out));
  return check_entry(zip, out, ls_load_le16(data + 8), method, at);
}

static ls_status read_directory(ls_zip *zip, const zip_end *end,
                                const unsigned char *data) {
  char *names = zip->names;
  size_t at = 0;
  // Limits the total: members that share bytes would expand a small file.
  int64_t total = 0;
  while (zip->count < end->count) {
    size_t size = 0;
    LS_RETURN_IF_ERROR(read_zip_entry(zip, data + at, (size_t)end->size - at,
                                      (int64_t)(end->offset + at), &names,
                                      &zip->entries[zip->count], &size));
    at += size;
    total += zip->entries[zip->count++].packed_size;
    if (total > zip->file->size)
      return report_damage(zip->file, (int64_t)(end->offset + at),
                           "members that overlap, by the directory,");
  }
  return ls_ok();
}

ls_status ls_zip_open(const ls_file *file, ls_allocator *allocator,
                      ls_zip *out_zip) {
  *out_zip = (ls_zip){0};
  zip_end end = {0};
  LS_RETURN_IF_ERROR(read_end(file, allocator, &end));
  LS_OWN(ls_zip, zip) = {.allocator = allocator, .file = file};
  // Names fit in the directory's size, since an entry is longer than its name
  // and a zero.
  LS_OWN_MEMORY(allocator, unsigned char, data) =
      ls_allocate(allocator, (size_t)end.size);
  zip.names = ls_allocate(allocator, (size_t)end.size);
  zip.entries = ls_new_array(allocator, ls_zip_entry, (size_t)end.count);
  if (data == NULL || zip.names == NULL || zip.entries == NULL)
    return LS_NO_MEMORY("no memory for the directory of '%s', %llu bytes",
                        file->path, (unsigned long long)end.size);
  LS_RETURN_IF_ERROR(
      ls_file_read(file, (int64_t)end.offset, data, (size_t)end.size));
  LS_RETURN_IF_ERROR(read_directory(&zip, &end, data));
  return ls_hand_over(&zip, out_zip);
}

void ls_zip_close(ls_zip *zip) {
  ls_release(zip->allocator, zip->entries);
  ls_release(zip->allocator, zip->names);
  *zip = (ls_zip){0};
}

// ---- Members ---------------------------------------------------------------
ls_status ls_zip_locate(const ls_zip *zip, const ls_zip_entry *entry,
                        int64_t *out_offset) {
  unsigned char header[HEADER_SIZE];
  *out_offset = 0;
  LS_RETURN_IF_ERROR(
      ls_file_read(zip->file, entry->header, header, sizeof(header)));
  if (ls_load_le32(header) != LS_ZIP_HEADER)
    return report_damage(zip->file, entry->header, "a member's header");
  *out_offset = entry->header + HEADER_SIZE + ls_load_le16(header + 26) +
                ls_load_le16(header + 28);
  if (*out_offset > zip->file->size - entry->packed_size)
    return report_damage(zip->file, entry->header, "a member that is cut off");
  return ls_ok();
}

static ls_status unpack_member(const ls_zip *zip, const ls_zip_entry *entry,
                               int64_t from, ls_allocator *allocator,
                               char *out) {
  if (!entry->deflated)
    return ls_file_read(zip->file, from, out, (size_t)entry->size);
  if (entry->packed_size == 0)
    return report_damage(zip->file, entry->header,
                         "a deflated member of no bytes");
  LS_OWN(ls_reader, reader) = {0};
  LS_RETURN_IF_ERROR(
      ls_reader_open(zip->file, allocator,
                     &(ls_reader_options){.from = from,
                                          .size = entry->packed_size,
                                          .packing = LS_PACKING_DEFLATE},
                     &reader));
  int64_t done = 0;
  while (true) {
    LS_RETURN_IF_ERROR(ls_reader_need(&reader, 1));
    const int64_t left = entry->size - done;
    // The data have ended, or are longer than declared.
    if (reader.size == 0 || (int64_t)reader.size > left) break;
    memcpy(out + done, reader.data, reader.size);
    done += (int64_t)reader.size;
    ls_reader_take(&reader, reader.size);
  }
  if (done == entry->size && reader.size == 0) return ls_ok();
  return LS_STATUS(
      LS_DATA_LOSS,
      "'%s' entry '%s' has %s bytes than the %lld of the directory",
      zip->file->path, entry->name, reader.size > 0 ? "more" : "less",
      (long long)entry->size);
}

static ls_status read_member(const ls_zip *zip, const ls_zip_entry *entry,
                             ls_allocator *allocator, int64_t from,
                             char **out_data) {
  LS_OWN_MEMORY(allocator, char, data) =
      ls_allocate(allocator, (size_t)entry->size);
  if (data == NULL) {
    return LS_NO_MEMORY("no memory for %lld bytes of '%s' entry '%s'",
                        (long long)entry->size, zip->file->path, entry->name);
  }
  LS_RETURN_IF_ERROR(unpack_member(zip, entry, from, allocator, data));
  const uint32_t crc = ls_crc32(0, data, (size_t)entry->size);
  if (crc != entry->crc)
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' entry '%s' is damaged: its checksum is %08x, its "
                     "%lld bytes make %08x",
                     zip->file->path, entry->name, (unsigned)entry->crc,
                     (long long)entry->size, (unsigned)crc);
  return ls_hand_over(&data, out_data);
}

ls_status ls_zip_read(const ls_zip *zip, const ls_zip_entry *entry,
                      ls_allocator *allocator, char **out_data) {
  *out_data = NULL;
  int64_t from = 0;
  if (entry->deflated)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_gzip_check_proportion(
                               zip->file->path, (uint64_t)entry->packed_size,
                               (uint64_t)entry->size,
                               "store it without packing, as numpy.savez does"),
                           "while reading entry '%s'", entry->name));
  LS_RETURN_IF_ERROR(ls_zip_locate(zip, entry, &from));
  return ls_status_annotate(read_member(zip, entry, allocator, from, out_data),
                            "while reading entry '%s'", entry->name);
}

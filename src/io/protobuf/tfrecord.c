// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf/tfrecord.h"

#include "io/bytes.h"
#include "io/crc32c.h"

static uint32_t masked_crc(const void *data, size_t size) {
  return ls_crc32c_mask(ls_crc32c(0, data, size));
}

// ---- Frames ----------------------------------------------------------------
// Reads the size from a record's head; `left` is the number of bytes of the
// file after the head, -1 if unknown.
static ls_status read_head(const ls_record_place *place,
                           const unsigned char *head, int64_t left, bool check,
                           size_t *out_size) {
  const uint64_t size = ls_load_le64(head);
  *out_size = 0;
  if (check && ls_load_le32(head + 8) != masked_crc(head, 8)) {
    return LS_STATUS(LS_DATA_LOSS,
                     LS_RECORD_FORMAT ": the checksum of its length is %08x, "
                                      "its length, %llu, makes %08x%s",
                     LS_RECORD_ARGUMENTS(place),
                     (unsigned)ls_load_le32(head + 8), (unsigned long long)size,
                     (unsigned)masked_crc(head, 8),
                     place->record == 0 ? "; is this a TFRecord file?" : "");
  }
  const uint64_t most =
      left >= LS_TFRECORD_FOOT ? (uint64_t)(left - LS_TFRECORD_FOOT) : 0;
  if (left >= 0 && (size > most || left < LS_TFRECORD_FOOT)) {
    return LS_STATUS(
        LS_DATA_LOSS,
        LS_RECORD_FORMAT " is cut off: it has %llu "
                         "bytes and a checksum of 4, the file has %lld more",
        LS_RECORD_ARGUMENTS(place), (unsigned long long)size, (long long)left);
  }
  if (left < 0 && size > LS_TFRECORD_PACKED_MOST) {
    return ls_invalid_argument(
        LS_RECORD_FORMAT " (unpacked) has %llu bytes; of a packed "
                         "file records of at most %d are read",
        LS_RECORD_ARGUMENTS(place), (unsigned long long)size,
        LS_TFRECORD_PACKED_MOST);
  }
  *out_size = (size_t)size;
  return ls_ok();
}

static ls_status check_data(const ls_record_place *place,
                            const unsigned char *data, size_t size) {
  const uint32_t want = ls_load_le32(data + size);
  const uint32_t found = masked_crc(data, size);
  if (want == found) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   LS_RECORD_FORMAT " is damaged: the checksum of "
                                    "its %zu bytes is %08x, they make %08x",
                   LS_RECORD_ARGUMENTS(place), size, (unsigned)want,
                   (unsigned)found);
}

ls_status ls_tfrecord_open_frame(const ls_record_place *place,
                                 const void *frame, size_t size, bool check,
                                 ls_bytes *out_bytes) {
  const unsigned char *head = frame;
  size_t found = 0;
  *out_bytes = (ls_bytes){0};
  if (size < LS_TFRECORD_HEAD + LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     LS_RECORD_FORMAT " has %zu bytes in all; the "
                                      "least is 16",
                     LS_RECORD_ARGUMENTS(place), size);
  }
  LS_RETURN_IF_ERROR(read_head(place, head, (int64_t)(size - LS_TFRECORD_HEAD),
                               check, &found));
  if (found != size - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     LS_RECORD_FORMAT " has %zu bytes; %zu when "
                                      "the file was opened: it has changed",
                     LS_RECORD_ARGUMENTS(place), found,
                     size - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT);
  }
  if (check)
    LS_RETURN_IF_ERROR(check_data(place, head + LS_TFRECORD_HEAD, found));
  *out_bytes = (ls_bytes){(const char *)head + LS_TFRECORD_HEAD, found};
  return ls_ok();
}

void ls_tfrecord_frame(const void *data, size_t size,
                       unsigned char head[LS_TFRECORD_HEAD],
                       unsigned char foot[LS_TFRECORD_FOOT]) {
  ls_store_le64(head, size);
  ls_store_le32(head + 8, masked_crc(head, 8));
  ls_store_le32(foot, masked_crc(data, size));
}

// ---- Reading ---------------------------------------------------------------
static ls_status cut_head(const ls_record_place *place, size_t size) {
  return LS_STATUS(LS_DATA_LOSS,
                   LS_RECORD_FORMAT " is cut off: its head has 12 "
                                    "bytes, the file %zu more",
                   LS_RECORD_ARGUMENTS(place), size);
}

ls_status ls_tfrecord_next_head(ls_reader *reader, ls_record_place *place,
                                bool check, size_t *out_size) {
  place->file = reader->file->path;
  place->offset = reader->position;
  LS_RETURN_IF_ERROR(ls_reader_need(reader, LS_TFRECORD_HEAD));
  if (reader->size == 0)
    return ls_out_of_range("'%s' has %lld records", place->file,
                           (long long)place->record);
  if (reader->size < LS_TFRECORD_HEAD) return cut_head(place, reader->size);
  const int64_t left = reader->inflater != NULL
                           ? -1
                           : reader->end - reader->position - LS_TFRECORD_HEAD;
  LS_RETURN_IF_ERROR(read_head(place, (const unsigned char *)reader->data, left,
                               check, out_size));
  ls_reader_take(reader, LS_TFRECORD_HEAD);
  return ls_ok();
}

ls_status ls_tfrecord_next(ls_reader *reader, ls_record_place *place,
                           bool check, ls_bytes *out_bytes) {
  size_t size = 0;
  *out_bytes = (ls_bytes){0};
  LS_RETURN_IF_ERROR(ls_tfrecord_next_head(reader, place, check, &size));
  LS_RETURN_IF_ERROR(ls_reader_need(reader, size + LS_TFRECORD_FOOT));
  if (reader->size < size + LS_TFRECORD_FOOT) {
    return LS_STATUS(LS_DATA_LOSS,
                     LS_RECORD_FORMAT
                     " (unpacked) is cut off: it "
                     "has %zu bytes and a checksum of 4, the file has %zu more",
                     LS_RECORD_ARGUMENTS(place), size, reader->size);
  }
  const unsigned char *data = (const unsigned char *)reader->data;
  if (check) LS_RETURN_IF_ERROR(check_data(place, data, size));
  *out_bytes = (ls_bytes){(const char *)data, size};
  ls_reader_take(reader, size + LS_TFRECORD_FOOT);
  ++place->record;
  return ls_ok();
}

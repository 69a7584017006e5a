// SPDX-License-Identifier: Apache-2.0
// TFRecord files: a sequence of records, each the 8 bytes of its length, the
// masked CRC-32C of those, its bytes, and their masked CRC-32C; little-endian.
// A whole file may be packed with gzip.
//
// Thread-safe, but for readers and writers.
#ifndef LS_IO_PROTOBUF_TFRECORD_H_
#define LS_IO_PROTOBUF_TFRECORD_H_

#include "base/export.h"
#include "io/reader.h"
#include "lockstep/array.h"

enum {
  LS_TFRECORD_HEAD = 12,  // Size of a record's head,
  LS_TFRECORD_FOOT = 4,   // and of its foot.
  // The longest record read from a packed file, whose unpacked size is unknown.
  LS_TFRECORD_PACKED_MOST = 1 << 30,
};

// Position of a record, for messages.
typedef struct ls_record_place {
  const char *file;
  int64_t record;  // Counts from 0.
  int64_t offset;  // Offset of the record in the file.
} ls_record_place;
// The format of a position in messages, and its arguments.
#define LS_RECORD_FORMAT "'%s' record %lld at byte %lld"
#define LS_RECORD_ARGUMENTS(place)                                             \
  (place)->file, (long long)(place)->record, (long long)(place)->offset

// Returns the bytes of a complete record `frame`, lent; verifies the checksums
// if `check`.
//   LS_DATA_LOSS  a checksum or the length differs.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_tfrecord_open_frame(const ls_record_place *place, const void *frame,
                       size_t size, bool check, ls_bytes *out_bytes);

// Reads the next record of a reader that is at a record's start; sets record
// and offset of `place`. The bytes are in the reader's window, until its next
// use.
//   LS_OUT_OF_RANGE  there is none.
//   LS_DATA_LOSS     damaged or cut off.
LS_PRIVATE_API LS_MUST_USE ls_status ls_tfrecord_next(ls_reader *reader,
                                                      ls_record_place *place,
                                                      bool check,
                                                      ls_bytes *out_bytes);

// Reads the head at the position of a reader and moves past it; arguments and
// errors as in ls_tfrecord_next.
LS_PRIVATE_API LS_MUST_USE ls_status ls_tfrecord_next_head(
    ls_reader *reader, ls_record_place *place, bool check, size_t *out_size);

// Makes the head and the foot of a record.
LS_PRIVATE_API void ls_tfrecord_frame(const void *data, size_t size,
                                      unsigned char head[LS_TFRECORD_HEAD],
                                      unsigned char foot[LS_TFRECORD_FOOT]);

#endif  // LS_IO_PROTOBUF_TFRECORD_H_

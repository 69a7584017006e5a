// SPDX-License-Identifier: Apache-2.0
// TFRecord files: one record after another, each as the 8 bytes of its length,
// the masked CRC-32C of those, its bytes, and their masked CRC-32C;
// little-endian. A whole file may be packed with gzip.
//
// Thread-safe, but for readers and writers.
#ifndef LS_IO_PROTOBUF_TFRECORD_H_
#define LS_IO_PROTOBUF_TFRECORD_H_

#include "io/offsets.h"
#include "io/reader.h"
#include "lockstep/array.h"

enum {
  LS_TFRECORD_HEAD = 12,  // Bytes before a record,
  LS_TFRECORD_FOOT = 4,   // and after it.
  // The longest record read from a packed file, whose unpacked size is unknown.
  LS_TFRECORD_PACKED_MOST = 1 << 30,
};

// Position of a record, for messages.
typedef struct ls_record_place {
  const char *file;
  int64_t record;  // Counts from 0.
  int64_t offset;  // Its start in the file.
} ls_record_place;

// Fills `offsets` with the starts of a plain file's records. Checks lengths,
// but does not read the records' bytes.
//   LS_DATA_LOSS  names file, record and byte.
LS_MUST_USE ls_status ls_tfrecord_scan(const ls_file *file,
                                       ls_offsets *offsets);

// Returns the bytes of a complete record `frame`; lent. `check`: verifies the
// checksums.
//   LS_DATA_LOSS  a checksum or the length differs.
LS_MUST_USE ls_status ls_tfrecord_open_frame(const ls_record_place *place,
                                             const void *frame, size_t size,
                                             bool check, ls_bytes *out_bytes);

// Reads the next record of a reader at a record's start; sets record and offset
// of `place`, which is for messages. The bytes are in the reader's window,
// until its next use.
//   LS_OUT_OF_RANGE  there is none.
//   LS_DATA_LOSS     damaged or cut off.
LS_MUST_USE ls_status ls_tfrecord_next(ls_reader *reader,
                                       ls_record_place *place, bool check,
                                       ls_bytes *out_bytes);

// Makes the head and the foot of a record.
void ls_tfrecord_frame(const void *data, size_t size,
                       unsigned char head[LS_TFRECORD_HEAD],
                       unsigned char foot[LS_TFRECORD_FOOT]);

// ---- Writing ---------------------------------------------------------------
typedef struct ls_tfrecord_output ls_tfrecord_output;

// Begins a file, which becomes visible when the writer is closed; the caller
// closes it.
LS_MUST_USE ls_status ls_tfrecord_output_open(ls_runtime *runtime,
                                              const char *path,
                                              ls_tfrecord_output **out_writer);
LS_MUST_USE ls_status ls_tfrecord_output_add(ls_tfrecord_output *writer,
                                             const void *data, size_t size);
// Ends the file; it becomes visible if `keep` and nothing failed. Accepts NULL.
LS_MUST_USE ls_status ls_tfrecord_output_close(ls_tfrecord_output *writer,
                                               bool keep);

#endif  // LS_IO_PROTOBUF_TFRECORD_H_

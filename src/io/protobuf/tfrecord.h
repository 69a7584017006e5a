// SPDX-License-Identifier: Apache-2.0
// TFRecord files: one record after another, each as the 8 bytes of its length,
// the masked CRC-32C of those, its bytes, and the masked CRC-32C of them;
// little-endian. A file may be gzip as a whole.
//
// Thread-safe, but for readers and writers.
#ifndef LS_IO_PROTOBUF_TFRECORD_H_
#define LS_IO_PROTOBUF_TFRECORD_H_

#include "io/offsets.h"
#include "io/reader.h"
#include "lockstep/array.h"

enum {
  LS_TFRECORD_HEAD = 12,  // Before a record's bytes,
  LS_TFRECORD_FOOT = 4,   // and behind them.
  // The longest record that comes out of a packed file, of which nobody knows
  // how much more there is.
  LS_TFRECORD_PACKED_MOST = 1 << 30,
};

// Whose record it is, for messages.
typedef struct ls_record_place {
  const char *file;
  int64_t record;  // From 0.
  int64_t offset;  // Where it begins in the file.
} ls_record_place;

// Where the records of a plain file begin: `offsets` is filled. Lengths are
// checked, bytes are not looked at.
//   LS_DATA_LOSS  names file, record and byte.
LS_MUST_USE ls_status ls_tfrecord_scan(const ls_file *file,
                                       ls_offsets *offsets);

// The bytes of a record of which all is there, `frame`; lent. `check`: that
// its checksums are right.
//   LS_DATA_LOSS  they are not, or its length is another one.
LS_MUST_USE ls_status ls_tfrecord_open_frame(const ls_record_place *place,
                                             const void *frame, size_t size,
                                             bool check, ls_bytes *out_bytes);

// The next record of a reader at a record's start; `place` is for messages, its
// record and offset are set here. The bytes are in the reader's window, until
// its next use.
//   LS_OUT_OF_RANGE  there is none.
//   LS_DATA_LOSS     damaged or cut off.
LS_MUST_USE ls_status ls_tfrecord_next(ls_reader *reader,
                                       ls_record_place *place, bool check,
                                       ls_bytes *out_bytes);

// The head and the foot of a record.
void ls_tfrecord_frame(const void *data, size_t size,
                       unsigned char head[LS_TFRECORD_HEAD],
                       unsigned char foot[LS_TFRECORD_FOOT]);

// ---- Writing ---------------------------------------------------------------
typedef struct ls_tfrecord_output ls_tfrecord_output;

// Begins a file, which is seen when the writer is closed; the caller closes it.
LS_MUST_USE ls_status ls_tfrecord_output_open(ls_runtime *runtime,
                                              const char *path,
                                              ls_tfrecord_output **out_writer);
LS_MUST_USE ls_status ls_tfrecord_output_add(ls_tfrecord_output *writer,
                                             const void *data, size_t size);
// Ends it. The file is there if `keep` and all went well. NULL is fine.
LS_MUST_USE ls_status ls_tfrecord_output_close(ls_tfrecord_output *writer,
                                               bool keep);

#endif  // LS_IO_PROTOBUF_TFRECORD_H_

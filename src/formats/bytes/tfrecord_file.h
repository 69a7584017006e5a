// SPDX-License-Identifier: Apache-2.0
// TFRecord files: finds where their records start, and writes them.
// io/protobuf/tfrecord.h reads single records.
//
// Thread-safe, but for writers.
#ifndef LS_FORMATS_BYTES_TFRECORD_FILE_H_
#define LS_FORMATS_BYTES_TFRECORD_FILE_H_

#include "formats/bytes/offsets.h"

// Fills `offsets` with the starts of a plain file's records. Checks lengths,
// but does not read the records' bytes.
//   LS_DATA_LOSS  names file, record and byte.
LS_MUST_USE ls_status ls_tfrecord_scan(const ls_file *file,
                                       ls_offsets *offsets);

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

#endif  // LS_FORMATS_BYTES_TFRECORD_FILE_H_

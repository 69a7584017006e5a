// SPDX-License-Identifier: Apache-2.0
// Parts of a run that its chain names: files, and data sets in memory. A part's
// SHA-256 shows that it is the same; CRCs of its blocks show where it is not.
#ifndef LS_TRAIN_CHAIN_PARTS_H_
#define LS_TRAIN_CHAIN_PARTS_H_

#include "base/threads/worker.h"
#include "data/dataset.h"
#include "io/json.h"
#include "io/sha256.h"

// Most blocks of a part.
enum { LS_PART_BLOCKS = 256 };

typedef struct ls_part {
  ls_sha256 sha;
  uint64_t bytes;    // Bytes so far.
  uint64_t block;    // Bytes of a block; 0: not begun.
  uint64_t element;  // Bytes of an element of a data set; 0: a file.
  uint32_t crcs[LS_PART_BLOCKS];
} ls_part;
// Begins a part with one block.
void ls_part_begin(ls_part *part);

// A reader of parts; its buffer is made at first use.
typedef struct ls_part_reader {
  ls_runtime *runtime;
  char *buffer;
  const ls_worker *worker;  // Reading ends early once it is stopped, if set.
} ls_part_reader;
void ls_part_reader_deinit(ls_part_reader *self);
LS_OWNED_STRUCT(ls_part_reader, ls_part_reader_deinit)

// Adds the bytes of a file from `from` up to `to` (-1: the end) to a part,
// which gets blocks for the file's size if it is zeroed.
LS_MUST_USE ls_status ls_part_add_file(ls_part_reader *self, const char *path,
                                       int64_t from, int64_t to, ls_part *part);
// Reads everything that data sets read, each source once, and passes each part
// with its name; one that has not begun cannot be read again. Data sets may be
// NULL.
//   LS_CANCELLED  the worker was stopped.
typedef ls_status (*ls_part_taker)(void *user, const char *name,
                                   const ls_part *part);
LS_MUST_USE ls_status ls_parts_of_data(ls_part_reader *self,
                                       const ls_dataset *const *datasets,
                                       size_t count, ls_part_taker take,
                                       void *user);

void ls_part_write(ls_json_writer *json, const char *name, const ls_part *part);
// Returns true if a part is the one that was written; else appends what
// differs: "has 9 bytes, it had 8", "differs in bytes 64 to 127 of 200".
bool ls_part_matches(const ls_json *written, const ls_part *part,
                     ls_text *difference);

#endif  // LS_TRAIN_CHAIN_PARTS_H_

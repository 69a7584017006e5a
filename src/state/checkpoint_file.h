// SPDX-License-Identifier: Apache-2.0
// One checkpoint: its two files, written and read.
#ifndef LS_STATE_CHECKPOINT_FILE_H_
#define LS_STATE_CHECKPOINT_FILE_H_

#include "base/text.h"
#include "io/json.h"
#include "lockstep/checkpoint.h"
#include "state/ranks.h"
#include "state/saver_file.h"
#include "state/snapshot.h"

enum { LS_CHECKPOINT_FORMAT = 1, LS_CHECKPOINT_TAIL_SIZE = 21 };
// The end of a .json: the checksum of all bytes before.
#define LS_CHECKPOINT_TAIL ",\"crc32c\":\"%08x\"}"

// By which ranks find out whether they see the same folder.
#define LS_CHECKPOINT_NONCE "checkpoint.ranks"

// What is written: copies, so that a thread may write them.
typedef struct ls_checkpoint_content {
  int64_t step;
  int64_t wall;  // Nanoseconds since 1970.
  ls_snapshot values;
  ls_record *identity, *state;  // The caller's.
  ls_checkpoint_metric *metrics;
  size_t num_metrics;
  ls_pause pause;
} ls_checkpoint_content;

// FOLDER/model.ckpt-<step>.EXTENSION
void ls_checkpoint_path(ls_text *path, const char *folder, int64_t step,
                        const char *extension);
// The step that a name in the folder is of: -1, it is no "model.ckpt-N" with
// this extension.
int64_t ls_checkpoint_step_of(const char *name, const char *extension);

// `is_there`: there is one of this step already, which counts until the new one
// does. Of several ranks, whose folder is the same, rank 0 writes and the
// others help: each writes the part of the values that it has.
LS_MUST_USE ls_status ls_checkpoint_file_write(
    ls_runtime *runtime, const char *folder,
    const ls_checkpoint_content *content, bool is_there, ls_ranks *ranks);
LS_MUST_USE ls_status
ls_checkpoint_file_help(ls_runtime *runtime, const char *folder,
                        const ls_checkpoint_content *content, ls_ranks *ranks);

// What was read, all of whose checksums are right.
typedef struct ls_checkpoint_file {
  ls_arena arena;
  const ls_json *root;
  ls_safetensors_file values;
  char *path;  // Of the .json.
} ls_checkpoint_file;

//   LS_DATA_LOSS  names the file and the entry
LS_MUST_USE ls_status ls_checkpoint_file_read(ls_runtime *runtime,
                                              const char *folder, int64_t step,
                                              ls_checkpoint_file *out);
// The same, but values are not read.
LS_MUST_USE ls_status ls_checkpoint_file_open(ls_runtime *runtime,
                                              const char *folder, int64_t step,
                                              ls_checkpoint_file *out);
// Whether these of its entries have the checksums they should have.
LS_MUST_USE ls_status ls_checkpoint_file_check(const ls_checkpoint_file *self,
                                               size_t first, size_t count);
// Reads entries' elements, and looks at their checksums.
LS_MUST_USE ls_status ls_checkpoint_file_get(const ls_checkpoint_file *self,
                                             ls_workers *workers,
                                             ls_safetensors_wish *wishes,
                                             size_t count);
// The .json alone: who reads no values needs no more.
LS_MUST_USE ls_status ls_checkpoint_file_read_notes(ls_runtime *runtime,
                                                    const char *folder,
                                                    int64_t step,
                                                    ls_checkpoint_file *out);
// Its text, into one with an arena and a path.
LS_MUST_USE ls_status ls_checkpoint_file_parse(ls_checkpoint_file *self,
                                               const char *text, size_t size,
                                               int64_t step);
void ls_checkpoint_file_deinit(ls_checkpoint_file *self);  // Zeroed is fine.

#endif  // LS_STATE_CHECKPOINT_FILE_H_

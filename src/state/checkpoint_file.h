// SPDX-License-Identifier: Apache-2.0
// A checkpoint: its two files, written and read by one rank or several.
#ifndef LS_STATE_CHECKPOINT_FILE_H_
#define LS_STATE_CHECKPOINT_FILE_H_

#include "io/json.h"
#include "lockstep/checkpoint.h"
#include "lockstep/saver.h"
#include "net/agreement.h"
#include "state/saver_file.h"
#include "state/snapshot.h"

// Gathers the values of components that exist only on their replicas' ranks.
LS_MUST_USE ls_status ls_ranks_gather_parts(ls_ranks *ranks,
                                            const ls_saver *values);

// ---- Two files -------------------------------------------------------------
enum { LS_CHECKPOINT_FORMAT = 1, LS_CHECKPOINT_TAIL_SIZE = 21 };
// The end of a .json: the checksum of all earlier bytes.
#define LS_CHECKPOINT_TAIL ",\"crc32c\":\"%08x\"}"
// The last key but that of a .json whose values are being replaced: the .json
// of the values before.
#define LS_CHECKPOINT_BEFORE "before"

// The file with which ranks find out if they see the same folder.
#define LS_CHECKPOINT_NONCE "checkpoint.ranks"

// Contents of a checkpoint to write: copies, so that a thread may write them.
typedef struct ls_checkpoint_content {
  int64_t step;
  int64_t wall;  // Nanoseconds since 1970.
  ls_snapshot values;
  ls_record *identity, *state;  // Given by the caller.
  ls_checkpoint_metric *metrics;
  size_t num_metrics;
  ls_pause pause;
} ls_checkpoint_content;

// Appends the path FOLDER/model.ckpt-<step>.EXTENSION.
void ls_checkpoint_path(ls_text *path, const char *folder, int64_t step,
                        const char *extension);
// Returns a metric from the value in a .json, which may be NULL; NaN: none.
double ls_checkpoint_metric_of(const ls_json *value);
// Returns the step N of a file name "model.ckpt-N" with this extension, else
// -1.
int64_t ls_checkpoint_step_of(const char *name, const char *extension);

// Writes a checkpoint. If `is_there`, an existing one of this step stays valid
// until it is replaced. If ranks share the folder, each writes its part of the
// values, and rank 0 all else.
LS_MUST_USE ls_status ls_checkpoint_file_write(
    ls_runtime *runtime, const char *folder,
    const ls_checkpoint_content *content, bool is_there, ls_ranks *ranks);
LS_MUST_USE ls_status
ls_checkpoint_file_help(ls_runtime *runtime, const char *folder,
                        const ls_checkpoint_content *content, ls_ranks *ranks);

// A checkpoint that was read and verified.
typedef struct ls_checkpoint_file {
  ls_arena arena;
  const ls_json *root;
  ls_safetensors_file values;
  char *path;  // Path of the .json.
} ls_checkpoint_file;

// Reads a checkpoint and verifies all checksums.
//   LS_DATA_LOSS  names the file and the entry
LS_MUST_USE ls_status ls_checkpoint_file_read(ls_runtime *runtime,
                                              const char *folder, int64_t step,
                                              ls_checkpoint_file *out);
// Opens a checkpoint without reading values.
LS_MUST_USE ls_status ls_checkpoint_file_open(ls_runtime *runtime,
                                              const char *folder, int64_t step,
                                              ls_checkpoint_file *out);
// Verifies the checksums of some entries.
LS_MUST_USE ls_status ls_checkpoint_file_check(const ls_checkpoint_file *self,
                                               size_t first, size_t count);
// Reads entries' elements and verifies their checksums.
LS_MUST_USE ls_status ls_checkpoint_file_get(const ls_checkpoint_file *self,
                                             ls_workers *workers,
                                             ls_safetensors_wish *wishes,
                                             size_t count);
// Reads only the .json.
LS_MUST_USE ls_status ls_checkpoint_file_read_notes(ls_runtime *runtime,
                                                    const char *folder,
                                                    int64_t step,
                                                    ls_checkpoint_file *out);
// Parses the text of a .json; `self` has an arena and a path.
LS_MUST_USE ls_status ls_checkpoint_file_parse(ls_checkpoint_file *self,
                                               const char *text, size_t size,
                                               int64_t step);
// Returns the record under a key, such as "state"; an empty one if there is
// none. The caller owns it.
LS_MUST_USE ls_status ls_checkpoint_file_record(const ls_checkpoint_file *self,
                                                const char *key,
                                                ls_record **out_record);
void ls_checkpoint_file_deinit(ls_checkpoint_file *self);  // Accepts zeroed.
LS_OWNED_STRUCT(ls_checkpoint_file, ls_checkpoint_file_deinit)

// ---- Damaged checkpoints ---------------------------------------------------
// The newest checkpoints of a folder that are damaged, so that an older one is
// used; logs one warning for all. Zeroed: none.
typedef struct ls_passed_over {
  int64_t newest;  // Step of the newest damaged one.
  size_t count;
  ls_status failure;  // Failure of the newest damaged one.
} ls_passed_over;

// Adds a damaged checkpoint of an earlier step; takes `failure` over.
void ls_passed_over_add(ls_passed_over *self, int64_t step, ls_status failure);
// Logs the warning, if any, that the checkpoint of step `taken` is used
// instead. Resets.
void ls_passed_over_log(ls_passed_over *self, ls_runtime *runtime,
                        const char *folder, int64_t taken);
// Returns the failure of the newest damaged checkpoint, OK if there is none.
// Resets.
LS_MUST_USE ls_status ls_passed_over_end(ls_passed_over *self,
                                         const char *folder);
void ls_passed_over_deinit(ls_passed_over *self);

#endif  // LS_STATE_CHECKPOINT_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Chains of runs: chain.jsonl in a run folder holds hashes (SHA-256) of its
// configuration, data, checkpoints and metrics, each line with the hash of the
// line before it (`attest` of ls_train_options). A check names what was changed
// since. It cannot recognize a chain that was made again to fit: keep its head,
// the hash of its last line, elsewhere.
//
// Threads: any threads may check.
#ifndef LOCKSTEP_CHAIN_H_
#define LOCKSTEP_CHAIN_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Gets a text without a newline for each difference, and for each remark on
// something that a run which was stopped may have left.
typedef struct ls_chain_report {
  void (*tell)(void *user, const char *text, bool differs);
  void *user;
} ls_chain_report;

typedef struct ls_chain_result {
  int64_t lines, checkpoints;  // Numbers of those that were checked.
  int64_t gone;                // Checkpoints that were removed, as `keep` says.
  int64_t parts;               // Files and arrays of the data.
  int64_t differences;
  char head[65];  // Hash of the last line, in hexadecimal.
} ls_chain_result;

// Checks the chain itself, config.json, metrics.jsonl up to the last save,
// checkpoints and the final model.
//   LS_NOT_FOUND  the run has no chain.
LS_API LS_MUST_USE ls_status ls_chain_check(const char *run_folder,
                                            const ls_chain_report *report,
                                            ls_chain_result *out_result);
// Checks every byte of the data; `test` may be NULL. Files are those that the
// data sets read, wherever they are now; of other data sets, elements of known
// shapes are read once. Streams without files are not covered, and remarked on;
// nor are data that functions of the program read or make, but their inputs.
//   LS_NOT_FOUND  the run has no chain.
LS_API LS_MUST_USE ls_status ls_chain_check_data(const char *run_folder,
                                                 const ls_dataset *train,
                                                 const ls_dataset *test,
                                                 const ls_chain_report *report,
                                                 ls_chain_result *out_result);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CHAIN_H_

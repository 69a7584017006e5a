// SPDX-License-Identifier: Apache-2.0
// A small run with all that a run can have: dropout, a shuffle, a map on input
// threads, an optimizer's slots, a variable that differs from replica to
// replica, and a log of the examples that its steps have taken.
#ifndef LS_TESTS_SUPPORT_RESUMABLE_H_
#define LS_TESTS_SUPPORT_RESUMABLE_H_

#include "lockstep/train.h"

enum {
  RESUMABLE_EXAMPLES = 83,
  RESUMABLE_BATCH = 8,
  RESUMABLE_STEPS_PER_EPOCH = 11,
  RESUMABLE_STEPS = 33,
  RESUMABLE_MOST_TEXT = 600,
};

// Zero in a field is its default.
typedef struct resumable {
  const char *folder;  // Required.
  const char *events;  // Folder of event files. Default: none.
  const char *log;     // The examples' log. Default: none.
  int64_t replicas, seed;
  double rate;    // Of dropout. Default 0.5.
  int data_seed;  // Another one is other data of the same size.
  int32_t ranks;  // Stand-ins. Default 1.
  int threads;    // Default 2.
  ls_math math;
  int64_t batch_size;
  int64_t steps;  // Default RESUMABLE_STEPS.
  bool resume, inexact, overwrite;
  const ls_warm_start *warm_start;
  int64_t save_steps;
  ls_opt keep;
  const char *keep_best;
  bool save_goes_on;
  ls_flag save_background;
  const char *tpu;     // The system whose cores the replicas are on.
  int64_t iterations;  // Steps in a loop.
  ls_flag loop_infeed;
  bool convolves;  // The first layer is a convolution.
  int64_t units;   // Of the first layer, or its filters. Default 5.
  // The step makes its ops in another order, as another compiler may.
  bool ops_reordered;
  bool writes_reordered;  // The step writes its variables in another order.
  bool with_test;
  bool stream;  // The data are read from the start to the end.
  // From this example on, counted as they are made, the input hangs until the
  // run has been stopped and is saved; 0: never.
  int64_t slow_from;
  int test_micros;  // What each example of the test set takes to be made.
  const ls_train_stop *stop;
  int64_t stop_at;    // After this step; 0: never.
  int stops_on_rank;  // That one alone.
  const ls_file_system *files;
  const ls_file_system *rank_files;  // One a rank, in place of `files`.
  void (*log_line)(void *user, const ls_log_line *line);
  void *log_user;
  void (*reported)(const ls_train_report *report);
  ls_status (*make_hook)(ls_hook **out_hook);  // One a rank. Default: none.
  int64_t check_ranks;
  bool attest;
  int64_t spoil_at;  // After this step a variable is changed; 0: never.
  // The run of rank `odd_rank`, if it differs. Default: none.
  const struct resumable *odd;
  int odd_rank;
  char (*seen)[RESUMABLE_MOST_TEXT];  // Code and message of each rank.
  int32_t *blamed;  // The rank that each takes for the failed one.
} resumable;

// Runs under runtimes of its own, as other processes would.
ls_status resumable_run(const resumable *run, ls_train_result *result);
// That the log has each step once, and each example once an epoch.
void expect_each_example_once(const char *log, int64_t steps);

// ---- Files -----------------------------------------------------------------
char *read_folder_file(const char *folder, const char *name, size_t *out_size);
void expect_same_file(const char *a, const char *b, const char *name);
// Takes away all files in a folder, and the folder.
void remove_folder(const char *folder);

#endif  // LS_TESTS_SUPPORT_RESUMABLE_H_

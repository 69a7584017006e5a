// SPDX-License-Identifier: Apache-2.0
// What the commands for estimators share: flags, and an estimator of them.
#ifndef LS_CLI_ESTIMATOR_H_
#define LS_CLI_ESTIMATOR_H_

#include "cli/models.h"
#include "cli/words.h"

// What was asked for; zero or NULL: it was not, and as `keep` and `seed` -1.
typedef struct estimator_flags {
  const char *model, *folder, *tpu, *params, *math, *trace;
  int64_t threads, replicas, batch_size, steps, seed;
  // Of a training.
  const char *run_folder, *resume, *iterations;
  const char *warm_start, *warm_only, *warm_map;
  int64_t save_seconds, save_steps, keep, grace, eval_seconds;
  bool quiet;
  // Of others.
  const char *checkpoint, *name, *keys, *out;
  // Of those that are linked in.
  bool estimator;
  cli_data data;
  int64_t limit;
  bool json, onnx, stablehlo;
} estimator_flags;

// Rows of tables of flags.
#define CLI_ESTIMATOR_MODEL_OPTION(place)                                      \
  {                                                                            \
    "model", CLI_TEXT, (place), "PATH",                                        \
        "the shared library that has the estimator: ./mine.so, or\n"           \
        "./mine.so:NAME",                                                      \
        0                                                                      \
  }
// Of estimators that are made of the library's models.
#define CLI_LINKED_OPTION(place)                                               \
  {                                                                            \
    "estimator", CLI_FLAG, (place), NULL,                                      \
        "--model is one of the library's, as an estimator", 0                  \
  }
#define CLI_LINKED_DATA_OPTIONS(place)                                         \
  {"data",                                                                     \
   CLI_TEXT,                                                                   \
   &(place)->data,                                                             \
   "NAME|PATH",                                                                \
   "with --estimator: its data (default fashion-mnist); see\n"                 \
   "'lockstep train --help'",                                                  \
   0},                                                                         \
      {"test",                                                                 \
       CLI_TEXT,                                                               \
       &(place)->test,                                                         \
       "PATH",                                                                 \
       "other files to evaluate and predict on",                               \
       0},                                                                     \
      {"split",                                                                \
       CLI_REAL,                                                               \
       &(place)->split,                                                        \
       "X",                                                                    \
       "how much of data without a test set is held out for that",             \
       0},                                                                     \
      CLI_FEATURES_OPTION(&(place)->features)
#define CLI_PARAM_OPTION(place)                                                \
  {                                                                            \
    "param", CLI_TEXT, (place), "NAME=N,...",                                  \
        "numbers for the model function and the input function, by\n"          \
        "name: those of the training for all that comes behind it;\n"          \
        "with --estimator: learning_rate",                                     \
        0                                                                      \
  }
#define CLI_TPU_OPTION(place)                                                  \
  {                                                                            \
    "tpu", CLI_TEXT, (place), "NAME",                                          \
        "on the cores of this TPU system: virtual:2x2 for chips of\n"          \
        "2 cores, with ,cores=N and ,hosts=N for others; local:\n"             \
        "this machine's (default: on the CPU alone)",                          \
        0                                                                      \
  }
#define CLI_CHECKPOINT_OPTION(place)                                           \
  {                                                                            \
    "checkpoint", CLI_TEXT, (place), "PATH",                                   \
        "which of the run's: RUN/model.ckpt-STEP (default: the\n"              \
        "newest)",                                                             \
        0                                                                      \
  }

// An estimator and all that it stands on.
typedef struct cli_estimator {
  const ls_estimator_type *type;
  ls_runtime *runtime;
  ls_trace *trace;
  ls_strategy *strategy;
  ls_run_config *config;
  cli_words warm_only, warm_maps;
  ls_warm_start warm;
  ls_nest params;
  ls_estimator *estimator;
} cli_estimator;
// Makes it as asked for, with `folder` as its model folder and a batch size for
// `mode`. It is to be closed also after a failure.
ls_status cli_estimator_open(const char *command, const estimator_flags *flags,
                             const ls_estimator_type *type,
                             ls_estimator_mode mode, cli_estimator *out);
// Adds to an error of missing memory the --batch-size that was given.
ls_status cli_estimator_note_batch(const estimator_flags *flags,
                                   ls_status status);
// Returns `code`, or CLI_FAILED if something of it still ran.
int cli_estimator_close(const char *command, cli_estimator *estimator,
                        int code);
// Whether its folder has a checkpoint, whole or not.
ls_status cli_estimator_has_run(const cli_estimator *estimator, bool *out_has);
// FAILED_PRECONDITION where the folder has none: there is nothing to use.
ls_status cli_estimator_was_trained(const cli_estimator *estimator);

// Reads a command's words. False: it ends, with `*out_code`.
bool cli_estimator_parse(const cli_syntax *syntax, const estimator_flags *flags,
                         const ls_estimator_type *type, int argc, char **argv,
                         int *out_code);

// What --data and its kin say, for an estimator that is linked in. False: they
// are not for this one, which has been said.
bool cli_linked_data(const char *command, const ls_estimator_type *type,
                     const cli_data *data);
bool cli_is_linked(const ls_estimator_type *type);
// Whether one that is linked in has a parameter of that name: others may have
// any. Says so if not.
bool cli_linked_takes(const char *command, const ls_estimator_type *type,
                      const char *param);

// Prints metrics, a line each, or one of JSON.
void cli_print_metrics(ls_nest metrics, bool json);

#endif  // LS_CLI_ESTIMATOR_H_

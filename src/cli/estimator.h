// SPDX-License-Identifier: Apache-2.0
// Flags shared by the commands for estimators, and the estimator made from
// them.
#ifndef LS_CLI_ESTIMATOR_H_
#define LS_CLI_ESTIMATOR_H_

#include "cli/train/train_flags.h"
#include "cli/words.h"

// Values of the flags. Zero or NULL (as in train_flags): not given. Commands
// other than `train` use its members for the same flags.
typedef struct estimator_flags {
  train_flags train;
  const char *folder, *params;
  // Flags of `train`.
  const char *iterations;
  int64_t eval_seconds;
  // Flags of the other commands.
  const char *data, *features, *checkpoint, *name, *keys, *out;
  int64_t limit;
  bool json, onnx, stablehlo;
  char room[PATH_MAX], saved[PATH_MAX + 32];  // RUN@STEP's folder and file.
} estimator_flags;

// Rows of flag tables.
#define CLI_ESTIMATOR_OPTIONS(flags)                                           \
  CLI_RUN_MODEL_OPTIONS(&(flags)->train.asked.model, &(flags)->train.estimator)
#define CLI_LINKED_DATA_OPTIONS(flags)                                         \
  CLI_ROW("data", CLI_TEXT, &(flags)->data, "NAME|PATH",                       \
          "of a model of the library: other data than the run's; all of it "   \
          "if it has no test set of its own; see 'lockstep train'"),           \
      CLI_FEATURES_OPTION(&(flags)->features)
#define CLI_PARAM_OPTION(place)                                                \
  CLI_ROW("param", CLI_TEXT, (place), "NAME=N,...",                            \
          "numbers for the model and input functions, by name (default: the "  \
          "run's); of a model of the library: learning_rate")
#define CLI_TPU_OPTION(place)                                                  \
  CLI_ROW("tpu", CLI_TEXT, (place), "NAME",                                    \
          "run on the cores of this TPU system: virtual:2x2, with ,cores=N "   \
          "and ,hosts=N for other pods; local: this machine's (default: on "   \
          "the CPU alone)")
#define CLI_CHECKPOINT_OPTION(place)                                           \
  CLI_ROW(                                                                     \
      "checkpoint", CLI_TEXT, (place), "PATH",                                 \
      "a checkpoint of the run: RUN/model.ckpt-STEP (default: the newest)")

// An estimator and everything it needs.
typedef struct cli_estimator {
  const ls_estimator_type *type;
  ls_runtime *runtime;
  ls_trace *trace;
  ls_strategy *strategy;
  ls_run_config *config;
  cli_warm warm;
  ls_nest params;
  ls_estimator *estimator;
} cli_estimator;
// Opens an estimator by the flags, with `folder` as its model folder and a
// batch size for `mode`. Close it even after a failure.
ls_status cli_estimator_open(const char *command, const estimator_flags *flags,
                             const ls_estimator_type *type,
                             ls_estimator_mode mode, cli_estimator *out);
// Adds the value of --batch-size to an out-of-memory error.
ls_status cli_estimator_note_batch(const estimator_flags *flags,
                                   ls_status status);
// Closes an estimator. Returns `code`, or CLI_FAILED if something in it was
// still running.
int cli_estimator_close(const char *command, cli_estimator *estimator,
                        int code);
// Returns FAILED_PRECONDITION if the folder has no checkpoint to use.
ls_status cli_estimator_was_trained(const cli_estimator *estimator);

// Returns true if a training with these flags evaluates on its way.
bool cli_estimator_tests(const estimator_flags *flags);
// Checks the flags. Returns false, and reports it, if one is wrong.
bool cli_estimator_check(const char *command, const estimator_flags *flags,
                         const ls_estimator_type *type);

// Check the text of --param, and parse one that was checked: fails only without
// memory.
bool cli_params_check(const char *command, const char *text,
                      const ls_estimator_type *type);
ls_status cli_params_read(const char *command, const char *text,
                          ls_nest *params);

// ---- Resumed trainings -----------------------------------------------------
// Texts of flags that are from the run's folder.
typedef struct cli_kept_flags {
  char *text, *params;
} cli_kept_flags;
void cli_kept_flags_close(cli_kept_flags *kept);  // Accepts zeroed ones.
CLI_OWNED_STRUCT(cli_kept_flags, cli_kept_flags_close)
// Takes the flags on which bits depend from the run in a folder (NULL: none).
// `train` is refused others unless --allow-inexact is given; other commands may
// have others. Returns an exit code; reports a failure. All ranks call it.
int cli_estimator_recall(const char *command, const char *folder,
                         estimator_flags *flags, const ls_estimator_type *type,
                         cli_kept_flags *kept);
// Prints what estimator.json has of these flags, as a file or in one line; the
// caller owns the text (cli_release).
ls_status cli_estimator_print(const estimator_flags *flags,
                              const ls_estimator_type *type, bool is_line,
                              char **out_text);
// Writes the file to the folder, which exists and is this process's alone.
ls_status cli_estimator_keep(const char *folder, const char *text);

// Copies a checkpoint and the flags of a run to a new folder, to go on there.
ls_status cli_estimator_branch(const char *from, int64_t step, const char *to);
// Finds the library's model in a file of flags, that of an estimator's run or,
// if `is_any`, of any. False: none.
bool cli_estimator_kept_model(const char *path, bool is_any, char *model,
                              size_t size);

// ---- The library's models --------------------------------------------------
bool cli_is_linked(const ls_estimator_type *type);
// Opens the data and adapts the model, for an estimator of these flags. A new
// run finds sizes, classes and the normalization in its data.
ls_status cli_linked_open(const char *command, const estimator_flags *flags,
                          ls_estimator_mode mode);
// Returns the task of the model.
const ls_task *cli_linked_task(void);
// Returns the number of steps of an epoch of the training set.
int64_t cli_linked_epoch(void);
// Returns the configuration, with what was found; of a training with the total
// number of steps.
const ls_train_config *cli_linked_config(void);
// Releases what was found.
void cli_linked_close(void);
// Prints the origin of the next example that was predicted, after `number`
// others: see cli_print_origin.
ls_status cli_linked_print_origin(int64_t number);
// Returns true if estimators made from the library's models can have that
// parameter (other estimators may have any); reports it if not.
bool cli_linked_takes(const char *command, const ls_estimator_type *type,
                      const ls_name_map *param);

// Prints metrics, one per line, or one line of JSON.
void cli_print_metrics(ls_nest metrics, bool json);

// ---- Lookup of --model -----------------------------------------------------
// A model or an estimator; one of the two is set.
typedef struct cli_found {
  const ls_model_type *model;
  const ls_estimator_type *estimator;
} cli_found;
// Finds a model of the library or of a file, or a row of a shared library.
// Reports a problem and returns false.
bool cli_find_type(const char *command, const char *text, cli_found *out);
// Finds "./mine.so", or "./mine.so:NAME" if it has several rows. Reports a
// problem and returns false.
bool cli_find_in_library(const char *command, const char *text, cli_found *out);

// Returns one of the library's models as an estimator; valid until the next
// call.
const ls_estimator_type *cli_linked_estimator(const ls_model_type *model);

// Finds the estimator that --model names among a command's words; with
// --estimator, or a run of one, also one of the library's models. NULL if it
// names no estimator. Reports a problem with its library and returns false.
bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type);

// ---- Commands --------------------------------------------------------------
// Commands for which --model names an estimator.
int cli_estimator_train(const ls_estimator_type *type, int argc, char **argv);
// Makes steps of the run in `resume` again, as cli_train_run does, or of a new
// one with these parameters, in a folder that is removed.
int cli_estimator_make_again(const ls_estimator_type *type, const char *params,
                             const train_flags *train);
int cli_estimator_eval(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_predict(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_export(const ls_estimator_type *type, int argc, char **argv);

#endif  // LS_CLI_ESTIMATOR_H_

// SPDX-License-Identifier: Apache-2.0
// Flags of lockstep train, and the configuration made from them.
#ifndef LS_CLI_TRAIN_FLAGS_H_
#define LS_CLI_TRAIN_FLAGS_H_

#include <limits.h>

#include "cli/cli.h"
#include "cli/words.h"

// Steps of the run in --resume that are made again, in memory.
typedef struct cli_again {
  const char *command;
  ls_hook_options hook;  // Called around the steps.
  ls_train_log log;      // Gets the lines of metrics.
  // Set before the first step.
  const ls_model *model;
  ls_strategy *strategy;
  int64_t seed;
  // Checks the data before the steps, if it is set; no step is made if it sets
  // `is_checked`.
  ls_status (*check)(void *user, const ls_dataset *train,
                     const ls_dataset *test);
  void *check_user;
  bool is_checked;
  ls_schedule schedule;  // Instead of the run's, unless it is constant.
  bool ends_at_nan;      // A loss that is no number is no failure.
  bool is_untested;      // The test set is held out, and not used.
} cli_again;

// Values of the flags. Zero (`seed`, `keep` and `steps`: -1): not given.
typedef struct train_flags {
  ls_train_config asked;
  const char *run_folder, *trace, *events, *tpu;
  const char *config;   // --config: a file with flags.
  const char *find_lr;  // --find-lr: "" or the range.
  const char *label;    // --label, and room to add it to --features.
  char features[1024];
  // --resume: the run's folder, and the step to go on from in another folder.
  const char *resume;
  char resume_folder[PATH_MAX];
  ls_opt resume_step;
  char warm_start[PATH_MAX + 64];  // The checkpoint of --warm-start RUN@STEP.
  // The .json of a checkpoint, which has the resumed run's configuration; "":
  // its config.json has it.
  char config_path[PATH_MAX + 64];
  int64_t grace, iterations;
  bool overwrite, quiet, inexact, attest;
  bool gradient_norm, normalize, flip;
  bool own_events;          // An estimator's run has --events without a folder.
  bool any_metric;          // An estimator's evaluations have any metrics.
  double spike;             // --find-spike; 0: not given.
  int64_t steps;            // --steps of a model, until `asked` has them.
  bool only_saves;          // --steps 0.
  bool estimator;           // Used by cli_find_estimator only.
  cli_again *again;         // NULL: trains.
  int64_t seeds;            // --seeds.
  ls_train_result *result;  // Set to the run's result; NULL: not wanted.
} train_flags;

// The value of --layout.
enum { CLI_MOST_FLAT = 8 };
typedef struct cli_layout {
  char text[512];  // Storage of names.
  ls_layout layout;
  ls_flat_kernel flat[CLI_MOST_FLAT];
  size_t count;
} cli_layout;
// Reads it; reports a problem and returns false.
bool cli_layout_read(const char *text, cli_layout *out);
// A warm start by the flags or configuration of a run.
typedef struct cli_warm {
  cli_words only, except, maps;
  cli_layout layout;
  ls_warm_start start;  // Without a path: none.
} cli_warm;
// Opens it; it must not move afterwards. Close it even after a failure.
//   LS_INVALID_ARGUMENT  a list or the layout cannot be read.
ls_status cli_warm_open(const ls_train_config *config, cli_warm *out);
void cli_warm_close(cli_warm *warm);  // Accepts a zeroed one.
CLI_OWNED_STRUCT(cli_warm, cli_warm_close)

// Makes steps of a run with the configuration that it had when it saved the
// checkpoint of `step`.
void cli_train_as_saved(train_flags *flags, const char *folder, int64_t step);
// Formats "the batch has examples 3, 17 and 30 more" (breakpoint.c).
void cli_name_examples(const ls_run_context *context, char *text, size_t size);

#define CLI_FIND_SPIKE_OPTION(flags)                                           \
  {                                                                            \
    "find-spike", CLI_REAL, &(flags)->spike, "X",                              \
        "stop at the first step whose loss is above X, and name its\n"         \
        "examples"                                                             \
  }
// Returns OK if the loss of the last step is at most the bound of --find-spike.
//   LS_OUT_OF_RANGE  a spike: names the step, the loss and examples.
ls_status cli_check_spike(const train_flags *flags,
                          const ls_run_context *context);

// Makes a hook that checks so after each step.
ls_status cli_spike_hook(const train_flags *flags, ls_hook **out_hook);

// Sets flags to the members of the file of --config, except those that the
// command line has given, which are the values before the call; then parses
// the command line again. `defaults` are the flags before they were parsed.
// `*out_text`, which the caller owns (cli_release), holds the texts. Returns an
// exit code.
int cli_train_read_config(const cli_syntax *syntax, int argc, char **argv,
                          const train_flags *defaults, train_flags *flags,
                          char **out_text);

typedef int (*cli_train_call)(const cli_syntax *syntax, train_flags *flags,
                              void *user);
// A command with the flags of train, and more.
typedef struct cli_train_words {
  // Words of the command. Its own flags follow those of train; with an
  // `operand_form` the operand is the model.
  cli_syntax syntax;
  // Sets what the syntax has of the operand; false: reports that there is no
  // such model. May be NULL.
  bool (*find)(const char *model, cli_syntax *syntax, void *user);
  cli_train_call run;
  void *user;
} cli_train_words;
// Reads the flags and calls `run`; returns an exit code.
int cli_with_train_flags(const cli_train_words *words, int argc, char **argv);

// The data of a training, and what is found in them.
typedef struct cli_opened {
  const char *data, *test;    // As the user has named them.
  bool is_new;                // Sizes, classes and means are to be found.
  const char *command;        // Reports resizing; NULL: silent.
  ls_train_config *config;    // Is completed.
  const ls_model_type *type;  // Becomes `adapted`, if need be: cli_run_type.
  ls_model_type adapted;
  cli_classes classes;
  char *normalization;
  ls_dataset *train, *tested;
  int64_t examples, steps;  // Per epoch; of the whole training.
} cli_opened;
// Opens them; close them even after a failure. It must not move.
ls_status cli_open_training(const train_flags *flags, bool tests,
                            cli_opened *io);
void cli_close_training(cli_opened *set);  // Accepts a zeroed one.

// Lets a run that was started again, or has --resume auto, resume or begin
// anew; returns an exit code.
int cli_train_restart(train_flags *flags);
// Trains, or makes steps again, as the flags say; returns an exit code.
int cli_train_run(const cli_syntax *syntax, train_flags *flags);
// Asks for runs of one step each, to hooks that look at every step.
ls_status cli_make_one_step(void *user, ls_run_context *context,
                            ls_run_wish *wish);
// Ends steps that are made again, the last of which is `steps`: after a signal
// says so. Returns an exit code.
int cli_end_again(const cli_again *again, int64_t steps);
// Trains with rates that grow from step to step, and prints how the loss
// follows them and which rate to take. `run` is the command's.
int cli_train_find_rate(const cli_syntax *syntax, const train_flags *flags,
                        cli_train_call run, void *user);
// Returns true for a flag of runs, which cannot be given with --find-lr.
bool cli_find_rate_replaces(const char *flag);
// Returns true if the flags are those of several runs.
bool cli_train_has_seeds(const train_flags *flags);
// Trains once for each of several seeds, by the command's `run`, which checks
// the flags of each and sets their `result`; prints the mean results.
int cli_train_seeds(const cli_syntax *syntax, const train_flags *flags,
                    cli_train_call run, void *user);

// Returns the name of the command, for messages.
const char *cli_train_command(const train_flags *flags);
// Returns the step of --resume RUN@STEP; not set if steps are made again, which
// resume at steps that the command finds.
ls_opt cli_train_named_step(const train_flags *flags);
// Returns true if the flags are compatible; reports a conflict.
bool cli_train_check(train_flags *flags);
// Reports that a resumed run has another value of a flag; returns true if that
// is allowed.
bool cli_train_differs(const train_flags *flags, const char *flag,
                       const char *asked, const char *has);
// Returns true if the optimizer of the flags is that of a run which has one of
// a shared library, from the same file, or if that is allowed; reports a
// difference.
bool cli_train_optimizer_agrees(const train_flags *flags, const char *has,
                                const char *has_sha256);
// Returns true if the flags match the run's configuration; reports a
// difference. Allowed differences are a later end, other threads, and moved
// data. cli_run_model checks the model.
bool cli_train_agrees(const cli_syntax *syntax, const train_flags *flags,
                      const ls_train_config *config);

// Refuses optimizer flags for the model's own optimizer, which supports only a
// learning rate and a linear schedule: that of a run which has `has`, "" if it
// is new. Returns true if there are none.
bool cli_train_check_optimizer(const ls_train_config *asked, const char *has);

// Returns a flag's value as a text, which may be in `room`, of PATH_MAX bytes;
// "" if it was not given.
const char *cli_train_flag_text(const char *name, cli_kind kind,
                                const void *value, char *room);

// Returns true for settings on which no step depends, by a flag's name or a
// member's: a resumed run keeps those that are not given.
bool cli_train_is_setting(const char *name);

// Makes a new run's configuration from the flags and defaults.
ls_train_config cli_train_fresh(const train_flags *flags);
// Makes a resumed run's configuration, with the end and the data paths of the
// flags.
ls_train_config cli_train_resumed(const cli_syntax *syntax,
                                  const train_flags *flags,
                                  const ls_train_config *resumed,
                                  const char *model);

#endif  // LS_CLI_TRAIN_FLAGS_H_

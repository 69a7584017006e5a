// SPDX-License-Identifier: Apache-2.0
// The program's parts share this: its commands, flags and messages. Results go
// to standard output, all that is said besides to standard error.
#ifndef LS_CLI_CLI_H_
#define LS_CLI_CLI_H_

#include "cli/own.h"

// What the program ends with. A run that a signal stopped ends with 128 and the
// signal's number, as a shell says it: 130 for Ctrl-C.
enum {
  CLI_OK = 0,
  CLI_FAILED = 1,  // What was asked for could not be done.
  CLI_USAGE = 2,   // It was not asked for rightly.
  CLI_LATE = 3,    // A run that was to end had to before it was saved.
  CLI_SIGNAL = 128,
};

// ---- Signals ---------------------------------------------------------------
// From here on SIGINT, SIGTERM and, unless it is ignored, SIGHUP end the
// program with a line and code CLI_SIGNAL and their number. First thing in
// main.
void cli_signals_begin(void);
// From here on the first of them asks a run to stop instead, by what is
// returned. The next one, or `grace` seconds (0: for ever), end the program
// with CLI_LATE; once the run is saved, with the code of the first one.
const ls_train_stop *cli_signals_defer(unsigned grace);
// Nothing would be lost any more.
void cli_signals_saved(void);
// The signal that has asked; 0: none.
int cli_signals_first(void);

// ---- Commands --------------------------------------------------------------
// `argv` holds what follows the command's name. Each returns an exit code.
int cli_train(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_data_command(int argc, char **argv);
int cli_checkpoint(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_graph(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_help(int argc, char **argv);

typedef struct cli_command {
  const char *name;
  const char *about;  // One line.
  int (*run)(int argc, char **argv);
} cli_command;
// The table of commands, ended by a row without a name.
extern const cli_command cli_commands[];

// ---- Flags -----------------------------------------------------------------
typedef enum cli_kind {
  CLI_FLAG,   // bool: given or not.
  CLI_COUNT,  // int64_t: a whole number from `least` on.
  CLI_REAL,   // double: a number above 0.
  CLI_TEXT,   // const char *: lent from argv.
  CLI_MAYBE,  // The same; "" without a word that is no flag behind it.
} cli_kind;

typedef struct cli_option {
  const char *name;  // Without its dashes.
  cli_kind kind;
  void *value;       // Where it goes; holds the default.
  const char *form;  // What stands behind it, in the help: "N".
  const char *help;  // One line or more.
  int64_t least;
} cli_option;

typedef struct cli_syntax {
  const char *command;
  const char *about;  // What the command does: sentences, for its help.
  const char *subject, *description;  // What it does that to. May be NULL.
  const cli_option *options;
  size_t num_options;
  const char *operand_form;  // "MODEL"; NULL: the command takes none.
  const char **operand;      // Required where there is a form. Several go
  size_t *num_operands;      // behind it, if this is not NULL.
} cli_syntax;

// Two fields of cli_syntax, of a table of flags.
#define CLI_OPTIONS(table)                                                     \
  .options = (table), .num_options = sizeof(table) / sizeof((table)[0])

// Reads the flags and the operand of a command. False: the command ends, with
// `*out_exit`, for its help was asked for and printed, or something was wrong
// and said so.
bool cli_parse(const cli_syntax *syntax, int argc, char **argv, int *out_exit);

// The one of the names nearest to `text`, NULL if none is near.
const char *cli_nearest(const char *text, const char *const *names,
                        size_t count);

// ---- Services --------------------------------------------------------------
// Prints "lockstep COMMAND: ..." and a newline to standard error.
void cli_say(const char *command, const char *format, ...) LS_PRINTF(2, 3);
// Says and frees the status. Returns CLI_FAILED.
int cli_report(const char *command, ls_status status);

// Opens a regular file to be read; never waits for the writer of a fifo.
//   LS_NOT_FOUND         there is no such file.
//   LS_INVALID_ARGUMENT  it is a folder, a fifo, a device.
ls_status cli_open_file(const char *path, FILE **out_file);

// Of the log of runtimes, from here on.
void cli_show_warnings_alone(void);

// Prints a number as JSON, with so many digits: null where it is not finite.
void cli_print_real(double value, int digits);
// Prints a text as JSON, with its quotes, to standard output.
void cli_print_json(const char *text);
void cli_print_json_bytes(const char *bytes, size_t size);

// Prints arrays, and nests of them, as JSON; and of a dict of arrays one row,
// without the brace behind it.
void cli_print_values(ls_nest values);
void cli_print_row(ls_nest values, int64_t row);

// A runtime that only reads, by so many input threads (-1: as many as cores).
ls_status cli_runtime_open_input(int64_t threads, ls_runtime **out_runtime);
// Creates a runtime with this many threads (0: as many as cores) and this math
// (NULL: fast) whose log goes to standard error, and makes it current.
ls_status cli_runtime_open(int64_t threads, const char *math,
                           ls_runtime **out_runtime);
// The same for the run in a folder, with the math it was made with where `math`
// is NULL. The caller owns its configuration, and both also after a failure.
ls_status cli_run_open(const char *run_folder, int64_t threads,
                       const char *math, ls_runtime **out_runtime,
                       ls_train_config **out_config);
// Calls `body` with a runtime that reads, by all threads. Reports what failed;
// returns an exit code.
int cli_with_runtime(const char *command, ls_status (*body)(void *user),
                     void *user);
// A command about the run in a folder.
typedef struct cli_run {
  const char *command, *folder;
  int64_t threads;
  const char *math;   // As cli_run_open says.
  const char *model;  // As it was named, or NULL; then that of the run.
} cli_run;
// Calls `body` with the run's configuration and model, under a runtime.
// Reports what failed; returns an exit code.
int cli_with_run(cli_run *run,
                 ls_status (*body)(void *user, const ls_train_config *config,
                                   const ls_model_type *type),
                 void *user);
// Finishes or undoes the overwriting of a run whose process was killed, where a
// path is such a run's folder.
ls_status cli_recover_run(const char *path);
// Adds to the error of a file, such as a full disk, what the run in a folder
// (NULL: none) has saved, and how to go on.
ls_status cli_note_saved(const char *run_folder, ls_status status);
// "fast", "direct" or "bf16".
const char *cli_math_name(const ls_runtime *runtime);
// Destroys it. Returns `code`, or CLI_FAILED if something of it still ran.
int cli_runtime_close(const char *command, ls_runtime *runtime, int code);

// Ctrl-\ (SIGQUIT) prints who is where in the runtime's runs, which go on, to
// standard error from now on, until the watch ends. One at a time, and before
// any thread is started. Ending one that never began is fine.
ls_status cli_watch_begin(ls_runtime *runtime);
void cli_watch_end(void);

// Traces the runtime from here on, for a file that can be written; without a
// path nothing is done, and the trace is NULL.
ls_status cli_trace_begin(ls_runtime *runtime, const char *path,
                          ls_trace **out_trace);
// Writes and destroys it. Returns `code`, or CLI_FAILED where that was CLI_OK
// and the file cannot be written, which is said.
int cli_trace_end(const char *command, ls_trace *trace, int code);

// ---- Models and data -------------------------------------------------------
// The model of this name, or of a shared library: "./mine.so", or
// "./mine.so:NAME" where it has more than one. NULL when there is none, which
// has been said.
const ls_model_type *cli_find_model(const char *command, const char *text);
// Whether the text names a shared library.
bool cli_is_library(const char *text);
// The model of a run whose configuration has `kept`, where the user has named
// `named` (NULL: none). A shared library is only ever the one that was named.
// False where there is none, which has been said.
bool cli_run_model(const char *command, const char *run_folder,
                   const char *kept, const char *named, const char **out_model);
// The same text with the whole path of a shared library, perhaps in `buffer`.
const char *cli_full_model(const char *text, char *buffer, size_t size);

// A folder of its own for a run that was not given one: the first of
// runs/NAME-1, runs/NAME-2, ... that was not there, also where many runs begin
// at once.
ls_status cli_choose_folder(const char *name, char *buffer, size_t size);

// Whether the value of a flag is one of these; says so if not.
bool cli_choose(const char *command, const char *flag, const char *value,
                const char *const *choices, size_t count);
// Whether --precision has a value that means something.
bool cli_check_precision(const char *command, const char *precision);
// Whether --math has; NULL means that it is not given, which is fine.
bool cli_check_math(const char *command, const char *math);
// Both together, where either may be NULL. Precision bf16 is a math.
bool cli_check_arithmetic(const char *command, const char *precision,
                          const char **math);
// Rows of tables of flags, which several commands have.
#define CLI_THREADS_OPTION(place)                                              \
  {                                                                            \
    "threads", CLI_COUNT, (place), "N",                                        \
        "compute threads (default: one per core)", 1                           \
  }
#define CLI_BATCH_OPTION(place)                                                \
  {                                                                            \
    "batch-size", CLI_COUNT, (place), "N",                                     \
        "examples a step, of all replicas (default: the model's)", 1           \
  }
#define CLI_PRECISION_OPTION(place)                                            \
  {                                                                            \
    "precision", CLI_TEXT, (place), "NAME",                                    \
        "f32 (default); f64; bf16: as f32, but products and\n"                 \
        "convolutions of operands rounded to bf16",                            \
        0                                                                      \
  }
#define CLI_TRACE_OPTION(place)                                                \
  {                                                                            \
    "trace", CLI_TEXT, (place), "FILE",                                        \
        "write what each thread did when to this file, for\n"                  \
        "ui.perfetto.dev or chrome://tracing",                                 \
        0                                                                      \
  }
#define CLI_MATH_OPTION(place)                                                 \
  {                                                                            \
    "math", CLI_TEXT, (place), "NAME",                                         \
        "fast (default): convolutions also by Winograd's\n"                    \
        "algorithm; direct: always as sums over the taps",                     \
        0                                                                      \
  }
// Of commands that take another table of flags with it.
#define CLI_AS_ESTIMATOR_OPTION(place)                                         \
  {                                                                            \
    "estimator", CLI_FLAG, (place), NULL,                                      \
        "the model as an estimator: other flags, for --help behind\n"          \
        "it",                                                                  \
        0                                                                      \
  }
#define CLI_RUN_MODEL_OPTIONS(model_place, estimator_place)                    \
  {"model",                                                                    \
   CLI_TEXT,                                                                   \
   (model_place),                                                              \
   "PATH",                                                                     \
   "where the run's shared library of models is; none is\n"                    \
   "loaded that is not named here; or that of an estimator,\n"                 \
   "which has flags of its own, for --help behind it",                         \
   0},                                                                         \
      CLI_AS_ESTIMATOR_OPTION(estimator_place)
// Three rows; cli_check_export looks at them.
#define CLI_EXPORT_OPTIONS(onnx_place, stablehlo_place, batch_place)           \
  {"onnx",                                                                     \
   CLI_FLAG,                                                                   \
   (onnx_place),                                                               \
   NULL,                                                                       \
   "also as model.onnx, for any batch size",                                   \
   0},                                                                         \
      {"stablehlo",                                                            \
       CLI_FLAG,                                                               \
       (stablehlo_place),                                                      \
       NULL,                                                                   \
       "also as serve.stablehlo.mlir, for one batch size",                     \
       0},                                                                     \
  {                                                                            \
    "batch-size", CLI_COUNT, (batch_place), "N",                               \
        "the batch size of --stablehlo (default 1)", 1                         \
  }
#define CLI_FEATURES_OPTION(place)                                             \
  {                                                                            \
    "features", CLI_TEXT, (place), "A,B",                                      \
        "which parts of .npz, .csv or .tfrecord files are examples\n"          \
        "and labels: x,y; of a CSV the label alone, or columns and\n"          \
        "the label behind them, * for all others; with types as in\n"          \
        "image=u8[28,28],label=i64, image=image, '*=f32,label'",               \
        0                                                                      \
  }
// Whether a batch size has what it is for.
bool cli_check_export(int64_t batch_size, bool stablehlo);
// The type of weights, and of all that is computed with them.
ls_status cli_precision(const char *precision, ls_dtype *out_dtype);

// The classes of labels that are texts.
typedef struct cli_classes {
  const char *names;  // One a line; NULL or "": they are not known.
  bool may_find;      // Then those that there are.
  char *found;        // What `names` is then; the caller's (cli_release).
} cli_classes;

// What to learn from. NULL or zero in a field: it was not given.
typedef struct cli_data {
  const char *data;      // Required.
  const char *test;      // What to test on.
  const char *features;  // Which parts are examples and labels.
  double split;          // How much is kept for the test, of all.
  bool whole;            // The test is on all of `data` that has no test set.
  bool kept;             // The features are those of a run's other data.
  const char *command;   // Who says how images are resized. NULL: nobody.
  cli_classes *classes;  // NULL: labels are numbers.
} cli_data;
// Opens it, or a part of it: `train` and `test` may be NULL. What is opened is
// the caller's, also after a failure.
ls_status cli_open_data(const cli_data *data, const ls_model_type *type,
                        ls_dataset **train, ls_dataset **test);
// Opens the test set for a run: of other data, all of what has none of its own;
// of the run's where `data` is NULL. `features` is NULL where not given.
ls_status cli_open_run_test(const ls_train_config *config, const char *data,
                            const char *features, const char *command,
                            const ls_model_type *type, ls_dataset **test);
// Whether --data names files or a folder.
bool cli_is_place(const char *data);
// The same name with the whole paths of files or a folder, perhaps in `buffer`,
// which has PATH_MAX bytes.
const char *cli_full_data(const char *data, char *buffer);

// Creates a model with metrics and its optimizer, as configured for a run of so
// many steps.
ls_status cli_create_model(const ls_train_config *config,
                           const ls_model_type *type, int64_t steps,
                           ls_model *out_model);

// What bench and graph run: a model, its training step and a made-up batch.
typedef struct cli_step {
  ls_model model;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest args;  // Split among the replicas.
} cli_step;
// Zero in a field means its default.
typedef struct cli_step_options {
  int64_t replicas;       // Required.
  int64_t batch_size;     // Default: the model's.
  const char *precision;  // Default "f32".
  bool tpu;               // Of a TPU strategy on so many cores.
} cli_step_options;
ls_status cli_step_open(const ls_model_type *type,
                        const cli_step_options *options, cli_step *out_step);
void cli_step_close(cli_step *step);
CLI_OWNED_STRUCT(cli_step, cli_step_close)

#endif  // LS_CLI_CLI_H_

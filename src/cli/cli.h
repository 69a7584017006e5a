// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the program's parts: commands, flags and messages.
// Results go to standard output, messages to standard error.
#ifndef LS_CLI_CLI_H_
#define LS_CLI_CLI_H_

#include <limits.h>

#include "cli/own.h"

// Exit codes of the program. A run stopped by a signal exits with 128 plus the
// signal's number, as in a shell: 130 for Ctrl-C.
enum {
  CLI_OK = 0,
  CLI_FAILED = 1,      // The command failed.
  CLI_USAGE = 2,       // Usage error.
  CLI_LATE = 3,        // Interrupted before the run was saved.
  CLI_OTHER_RANK = 4,  // Another rank failed, and says why.
  CLI_SIGNAL = 128,
};

// ---- Signals ---------------------------------------------------------------
// Makes SIGINT, SIGTERM and, unless it is ignored, SIGHUP end the program with
// a line and code CLI_SIGNAL plus their number. Called first in main.
void cli_signals_begin(void);
// Calls `handler` for a signal; but SIGHUP, that of a closed terminal, stays
// ignored under nohup.
void cli_signals_handle(int number, void (*handler)(int));
// Makes the first of these signals set the returned stop, which runs check. A
// second one, or `grace` seconds (0: no limit), ends the program with CLI_LATE
// or, once the run is saved, with the first signal's code.
const ls_train_stop *cli_signals_defer(unsigned grace);
// Records that the run is saved.
void cli_signals_saved(void);
// Returns the signal that requested the stop; 0: none.
int cli_signals_first(void);

// ---- Commands --------------------------------------------------------------
// Commands. `argv` holds the words after the command's name. Each returns an
// exit code.
int cli_train(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_report_runs(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_data_command(int argc, char **argv);
int cli_checkpoint(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_simulate(int argc, char **argv);
int cli_summary(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_graph(int argc, char **argv);
int cli_compile(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_help(int argc, char **argv);

typedef struct cli_command {
  const char *name;
  const char *about;  // One line.
  int (*run)(int argc, char **argv);
} cli_command;
// The table of commands, ended by a row without a name.
extern const cli_command cli_commands[];

// Prints the declaration and the comment of a name of the library; returns an
// exit code. `reports`: says that there is none.
int cli_help_name(const char *name, bool reports);

// ---- Flags -----------------------------------------------------------------
typedef enum cli_kind {
  CLI_FLAG,   // bool: given or not.
  CLI_COUNT,  // int64_t: a whole number from 1 on.
  CLI_COUNT_OR_ZERO,
  CLI_REAL,  // double: a number above 0.
  CLI_REAL_OR_ZERO,
  CLI_TEXT,   // const char *: lent from argv.
  CLI_MAYBE,  // CLI_TEXT with an optional value, "" by default.
} cli_kind;

typedef struct cli_option {
  const char *name;  // Name without dashes.
  cli_kind kind;
  void *value;       // Destination; holds the default.
  const char *form;  // Placeholder of the value in the help: "N".
  const char *help;  // One line or more.
} cli_option;

// Flags that a command has only for the other kind of run, with the reason.
typedef struct cli_refusal {
  const char *names;  // "only,map"
  const char *reason;
} cli_refusal;
typedef struct cli_refusals {
  const char *kind;  // The kind that lacks them: "models".
  const cli_refusal *rows;
  size_t count;
} cli_refusals;

typedef struct cli_syntax {
  const char *command;
  const char *about;  // Description of the command, for its help.
  const char *subject, *description;  // Object of the command. May be NULL.
  const cli_option *options;
  size_t num_options;
  cli_refusals refused;      // Zeroed: none.
  const char *operand_form;  // "MODEL"; NULL: the command takes none.
  const char **operand;      // A required operand.
  size_t *num_operands;      // There may be several: their number, of which at
                             // least one, moved to the first words of argv.
} cli_syntax;

// Flags of `train`, and of the commands that use a run, that models, or
// estimators, or those of shared libraries, do not have.
// cli_refusal_find returns the reason; NULL: such a flag is not refused.
const char *cli_refusal_find(const cli_refusals *refused, const char *name,
                             size_t size);
extern const cli_refusals cli_train_refused_by_models;
extern const cli_refusals cli_use_refused_by_models;
extern const cli_refusals cli_train_refused_by_libraries;
extern const cli_refusals cli_use_refused_by_estimators;

// Initializes two fields of cli_syntax from a table of flags.
#define CLI_OPTIONS(table)                                                     \
  .options = (table), .num_options = sizeof(table) / sizeof((table)[0])

// Reads the flags and the operand of a command. Returns false if the command
// must exit with `*out_exit`: after printing its help, or after reporting a
// usage error.
bool cli_parse(const cli_syntax *syntax, int argc, char **argv, int *out_exit);
// The line in which a rank says how it has ended: its number, and its status as
// waitpid gives it.
#define CLI_RANK_ENDED "\001lockstep rank %lld ended: %d"
// Runs a program as one of the ranks that `lockstep launch` has started, and
// says how it ends. The program is told by LS_RESTART how often it was started
// before. Returns the exit code.
int cli_run_as_rank(char **program, int64_t restart);

// Counts the words before "--".
int cli_count_own(int argc, char **argv);
#define CLI_PARSE_OR_RETURN(syntax, argc, argv)                                \
  do {                                                                         \
    int exit_code = CLI_OK;                                                    \
    if (!cli_parse(syntax, argc, argv, &exit_code)) return exit_code;          \
  } while (0)

// Finds a flag by its name; NULL if there is none.
const cli_option *cli_option_find(const cli_syntax *syntax, const char *name,
                                  size_t size);
// Sets a flag that takes a value, which is lent. If the value is not valid,
// returns false, and `wanted` says what is.
bool cli_option_set(const cli_option *option, const char *text, char *wanted,
                    size_t size);

// Returns the name most similar to `text`, NULL if none is similar.
const char *cli_nearest(const char *text, const char *const *names,
                        size_t count);
// Returns the flag of a command that an unknown one may mean, as it is similar
// or has that name in other programs, then maybe with a value: "device gpu".
const char *cli_nearest_flag(const cli_syntax *syntax, const char *flag,
                             size_t size);

// ---- Services --------------------------------------------------------------
// Prints "lockstep COMMAND: ..." and a newline to standard error; nothing on
// other ranks than the first.
void cli_say(const char *command, const char *format, ...) LS_PRINTF(2, 3);
// Say why a command ends, on the first rank that has a reason; the values are
// false and CLI_USAGE.
bool cli_refuse(const char *command, const char *format, ...) LS_PRINTF(2, 3);
#define cli_misuse(...) (cli_refuse(__VA_ARGS__), CLI_USAGE)
// Prints and frees a failure, and returns CLI_FAILED; CLI_OK if it is none.
int cli_report(const char *command, ls_status status);

// Opens a regular file for reading; never waits for the writer of a fifo.
//   LS_NOT_FOUND         there is no such file.
//   LS_INVALID_ARGUMENT  it is a folder, a fifo, a device.
ls_status cli_open_file(const char *path, FILE **out_file);

// A file that is written beside its path, and moved there once it is whole.
typedef struct cli_new_file {
  const char *path;  // Lent.
  FILE *file;
  char aside[PATH_MAX];
} cli_new_file;
// Begins a file, which the caller finishes if this succeeds.
//   LS_INVALID_ARGUMENT  at the path is a link, a folder, a fifo, a device.
ls_status cli_create_file(const char *path, cli_new_file *out);
// Moves the file to its path, or removes it if `status` or a write has failed.
// Returns the first failure; takes over `status`.
ls_status cli_finish_file(cli_new_file *self, ls_status status);

// Gets the processor's name from the system; "unknown" without an answer.
void cli_processor_name(char *name, size_t size);

// Limits the log of runtimes created later to warnings and errors.
void cli_show_warnings_alone(void);

// Prints an untrusted text without control characters, or bytes that are no
// UTF-8, to standard output.
void cli_print_clean(const char *text);
void cli_print_clean_bytes(const char *bytes, size_t size);
// Prints a number as JSON with `digits` digits; null if it is not finite.
void cli_print_real(double value, int digits);
// Prints a text as a JSON string to standard output.
void cli_print_json(const char *text);
void cli_print_json_bytes(const char *bytes, size_t size);
// Print a member of an object, a number or a text, after `before`: '{' or ','.
void cli_print_member(char before, const char *name, double value, int digits);
void cli_print_text(char before, const char *name, const char *text);

// Print nests of arrays as JSON, and one row of a dict of arrays without its
// closing brace.
void cli_print_values(ls_nest values);
void cli_print_row(ls_nest values, int64_t row);
// Returns the real (0) or the imaginary (1) part of an element of a complex
// array.
double cli_array_part(const ls_array *array, int64_t index, int part);
// Returns the number of bytes of the UTF-8 character at `text`; 0: none.
size_t cli_utf8_size(const char *text, size_t size);
bool cli_is_utf8(const char *text, size_t size);
// Write to a file: a number, a string (bytes that are no UTF-8 become U+FFFD),
// a nest, a row of an array.
void cli_write_real(FILE *to, double value, int digits);
void cli_write_json(FILE *to, const char *bytes, size_t size);
void cli_write_values(FILE *to, ls_nest values);
void cli_write_row(FILE *to, const ls_array *array, int64_t row);

// Begins to read a data set, element by element.
ls_status cli_begin_rows(ls_dataset *dataset, ls_iterator **out_iterator);
// Gets the next element. At the end does `at_end`, such as `break`; returns
// from the enclosing function after another failure.
#define CLI_NEXT_OR(at_end, iterator, element)                                 \
  CLI_OWN(ls_status, status) = ls_iterator_next(iterator, element);            \
  if (ls_status_code(status) == LS_OUT_OF_RANGE) at_end;                       \
  if (!ls_status_is_ok(status)) return cli_give(&status)

// Opens a runtime for reading only, with this many input threads (-1: one per
// core).
ls_status cli_runtime_open_input(int64_t threads, ls_runtime **out_runtime);
// Values of the flags of CLI_DEVICE_OPTIONS: devices of all runtimes that the
// command creates from then on.
typedef struct cli_device_flags {
  const char *name, *bits, *topology;
  int64_t count;
  bool find_nan;  // --find-nan.
} cli_device_flags;
extern cli_device_flags cli_device;
// Returns true if these values are valid; otherwise reports them.
bool cli_check_device(const char *command);
// Creates a runtime with this many threads (0: as many as cores) and this math
// (NULL: fast) whose log goes to standard error, and makes it current.
ls_status cli_runtime_open(int64_t threads, const char *math,
                           ls_runtime **out_runtime);
// Finds the math whose name is kept in the file at `path`.
ls_status cli_kept_math(const char *path, const char *kept,
                        const char **out_math);
// Opens a runtime for the run in a folder, with the run's math if `math` is
// NULL. The caller owns the configuration and the runtime, even after a
// failure.
ls_status cli_run_open(const char *run_folder, int64_t threads,
                       const char *math, ls_runtime **out_runtime,
                       ls_train_config **out_config);
// Calls `body` with a runtime for reading, on all threads. Reports a failure;
// returns an exit code.
int cli_with_runtime(const char *command, ls_status (*body)(void *user),
                     void *user);
// A command about the run in a folder.
typedef struct cli_run {
  const char *command, *folder;
  int64_t threads;
  const char *math;   // See cli_run_open.
  const char *model;  // The user's model; NULL: the run's.
  // Set by cli_with_run: the checkpoint that `folder` named, RUN@STEP, in its
  // folder; "": the newest.
  char room[PATH_MAX], checkpoint[PATH_MAX + 32];
  ls_opt step;  // Step of that checkpoint.
} cli_run;
// Calls `body` with the run's configuration and model, under a runtime. Reports
// a failure; returns an exit code.
int cli_with_run(cli_run *run,
                 ls_status (*body)(void *user, const ls_train_config *config,
                                   const ls_model_type *type),
                 void *user);
// Sets the model's variables to the run's, of the checkpoint that was named, in
// eager or in a session.
ls_status cli_load_run(const cli_run *run, const ls_model *model,
                       ls_session *session);
// Opens a checkpoint of a run, and reads no values.
ls_status cli_open_step(const char *folder, int64_t step, ls_saved_file **out);
// Finishes or undoes an interrupted overwriting of a run, if the path is such a
// run's folder.
ls_status cli_recover_run(const char *path);
// Returns true if the overwriting of a run in this folder was interrupted, or
// is going on.
bool cli_is_overwritten(const char *path);
// Lists the steps of a folder's checkpoints. Free the list with cli_release.
ls_status cli_checkpoint_steps(const char *folder, int64_t **out_steps,
                               size_t *out_count);
// Finds out if a folder has checkpoints, also a killed run's or a copy, without
// their list. A missing folder has none.
ls_status cli_has_checkpoints(const char *folder, bool *out_has);
// Adds to a failure to find a run in a folder that --seeds has made where its
// runs are.
ls_status cli_note_seeds(const char *folder, ls_status status);
// Adds to a file error, such as a full disk, a note about the saved steps of
// the run in a folder (NULL: none) and how to continue it.
ls_status cli_note_saved(const char *run_folder, ls_status status);
// Returns "fast", "direct" or "bf16".
const char *cli_math_name(const ls_runtime *runtime);
// Destroys a runtime. Returns `code`, or CLI_FAILED if something in it was
// still running.
int cli_runtime_close(const char *command, ls_runtime *runtime, int code);

// Makes Ctrl-\ (SIGQUIT) print the table of the runtime's runs to standard
// error until the watch ends; the runs continue. There is one watch at a time,
// begun before any thread is started. Ending a watch that never began does
// nothing.
ls_status cli_watch_begin(ls_runtime *runtime);
void cli_watch_end(void);
// Makes it call `print` after the table (NULL: nothing more), by the watch's
// thread.
void cli_watch_also(void (*print)(void *user), void *user);

// Begins a trace of the runtime, for a file that can be written; without a path
// it does nothing, and the trace is NULL.
ls_status cli_trace_begin(ls_runtime *runtime, const char *path,
                          ls_trace **out_trace);
// Writes and destroys a trace. Returns `code`, or CLI_FAILED if that was CLI_OK
// and the file cannot be written, which is reported.
int cli_trace_end(const char *command, ls_trace *trace, int code);

// ---- Models and data -------------------------------------------------------
// Returns the value of a flag, such as "--model", at argv[at]; NULL if another
// word is there.
const char *cli_value_at(int argc, char **argv, int at, const char *flag);
// Returns the model of this name, of an ONNX or StableHLO file, or of a shared
// library: "./mine.so", or "./mine.so:NAME" if it has more than one. NULL if
// there is none, which is reported.
const ls_model_type *cli_find_model(const char *command, const char *text);
// Returns true if the text names a shared library.
bool cli_is_library(const char *text);
// Returns true if the text names a file of a model: ONNX, or StableHLO's text.
bool cli_is_model_file(const char *text);
// Selects the model of a run whose configuration has `kept`, if the user has
// named `named` (NULL: none) and, if it is set, the step. A shared library must
// be named by the user; a model file, which is no code, only if it has moved.
// Returns false if there is none, which is reported.
bool cli_run_model(const char *command, const char *run_folder, ls_opt step,
                   const char *kept, const char *named, const char **out_model);
// Refuses to load the model or the optimizer, `flag`, of a run, which is in the
// library `kept`, as code that the user has not named.
bool cli_refuse_library(const char *command, const char *flag,
                        const char *run_folder, ls_opt step, const char *kept);

// The optimizer of a shared library, of which a program has one at most.
typedef struct cli_optimizer {
  const ls_optimizer_rule *rule;  // NULL: none was found.
  char text[PATH_MAX + 256];      // "/dir/mine.so:NAME", as configurations say.
  char sha256[65];                // Hash of the file.
} cli_optimizer;
const cli_optimizer *cli_own_optimizer(void);
// Finds "./mine.so" or "./mine.so:NAME". Reports a problem and returns false.
bool cli_find_optimizer(const char *command, const char *text);
// Sets it in a configuration whose optimizer is of a shared library.
void cli_note_optimizer(ls_train_config *config);

// Quotes a text as one word for a shell; it may be in `buffer`.
const char *cli_quote(const char *text, char *buffer, size_t size);
// Returns true for the folder of a model's run.
bool cli_is_run(const char *folder);
// Splits RUN@STEP and RUN/model.ckpt-STEP, with or without an extension, into
// the run folder, of PATH_MAX bytes, and the step. Any other text is a folder
// alone, as is that of a folder which exists. Finds the step of RUN@best and
// RUN@last, unless `command` is NULL; reports a failure and returns false.
bool cli_split_step(const char *command, const char *text, char *folder,
                    ls_opt *out_step);
// Returns the text with the absolute path of a shared library or a model file,
// which may be in `buffer`.
const char *cli_full_model(const char *text, char *buffer, size_t size);

// Creates a folder, and those above it, unless it is there; tells if it is new.
ls_status cli_make_folder(const char *path, bool *out_made);
// Creates a folder for a run without --run-dir: the first of runs/NAME-1,
// runs/NAME-2, ... that does not exist, also if many runs begin at once. Rank 0
// does so for all ranks.
ls_status cli_choose_folder(const char *name, char *buffer, size_t size);

// Returns true if a flag's value is one of the choices; otherwise reports it.
bool cli_choose(const char *command, const char *flag, const char *value,
                const char *const *choices, size_t count);
// Returns true if --precision has a valid value.
bool cli_check_precision(const char *command, const char *precision);
// Returns true if --math has a valid value or is not given (NULL).
bool cli_check_math(const char *command, const char *math);
// Checks --precision and --math, either of which may be NULL. Precision bf16 is
// a math.
bool cli_check_arithmetic(const char *command, const char *precision,
                          const char **math);
// Rows of flags shared by several commands.
#define CLI_ROW(name, kind, place, form, help)                                 \
  { name, kind, place, form, help }
#define CLI_THREADS_OPTION(place)                                              \
  CLI_ROW("threads", CLI_COUNT_OR_ZERO, (place), "N",                          \
          "compute threads (default, and 0: one per core)")
#define CLI_BATCH_OPTION(place)                                                \
  CLI_ROW("batch-size", CLI_COUNT, (place), "N",                               \
          "global batch size (default: the model's)")
#define CLI_PRECISION_OPTION(place)                                            \
  CLI_ROW("precision", CLI_TEXT, (place), "NAME",                              \
          "f32 (default); f64; bf16: f32, except that products and "           \
          "convolutions round operands to bf16")
#define CLI_TRACE_OPTION(place)                                                \
  CLI_ROW("trace", CLI_TEXT, (place), "FILE",                                  \
          "write a timeline of all threads to this file, for ui.perfetto.dev " \
          "or chrome://tracing")
#define CLI_MATH_OPTION(place)                                                 \
  CLI_ROW("math", CLI_TEXT, (place), "NAME",                                   \
          "fast (default): convolutions may use Winograd's algorithm; "        \
          "direct: they always sum over the taps")
#define CLI_TOPOLOGY_OPTION(about)                                             \
  CLI_ROW("topology", CLI_TEXT, &cli_device.topology, "NAME",                  \
          about " these devices, which need not be here:\n"                    \
                "v5e:2x2, v4:2x2x1, ... (--device is then tpu by default)")
#define CLI_DEVICE_OPTIONS                                                     \
  CLI_ROW("device", CLI_TEXT, &cli_device.name, "NAME",                        \
          "where programs run: cpu (default), gpu, tpu, or pjrt:FILE, a "      \
          "plug-in (pjrt: that of LS_PJRT_PLUGIN)"),                           \
      CLI_ROW("devices", CLI_COUNT, &cli_device.count, "N",                    \
              "share the replicas among N devices (default: all)"),            \
      CLI_ROW("bits", CLI_TEXT, &cli_device.bits, "NAME",                      \
              "fast (default); exact: a device sums in the order of "          \
              "replicas, the same bits whatever the number of devices")
#define CLI_FIND_NAN_OPTION                                                    \
  CLI_ROW("find-nan", CLI_FLAG, &cli_device.find_nan, NULL,                    \
          "if the loss is NaN, say which op made the first one: runs op by "   \
          "op, some times slower, with the same bits")
// A flag that is also in the tables of other commands.
#define CLI_AS_ESTIMATOR_OPTION(place)                                         \
  CLI_ROW("estimator", CLI_FLAG, (place), NULL,                                \
          "use the model as an estimator, with other flags: add --help to "    \
          "list them")
#define CLI_RUN_MODEL_OPTIONS(model_place, estimator_place)                    \
  CLI_ROW("model", CLI_TEXT, model_place, "PATH",                              \
          "the run's shared library of models, which is loaded only if it is " \
          "named here; or that of an estimator, which has flags of its own: "  \
          "add --help to list them"),                                          \
      CLI_AS_ESTIMATOR_OPTION(estimator_place)
// Rows of three flags, which cli_check_export checks.
#define CLI_EXPORT_OPTIONS(onnx_place, stablehlo_place, batch_place)           \
  CLI_ROW("onnx", CLI_FLAG, onnx_place, NULL,                                  \
          "also write model.onnx, for any batch size"),                        \
      CLI_ROW("stablehlo", CLI_FLAG, stablehlo_place, NULL,                    \
              "also write serve.stablehlo.mlir, for one batch size"),          \
      CLI_ROW("batch-size", CLI_COUNT, batch_place, "N",                       \
              "batch size of --stablehlo (default 1)")
#define CLI_FEATURES_OPTION(place)                                             \
  CLI_ROW("features", CLI_TEXT, (place), "A,B",                                \
          "parts of .npz, .csv, .jsonl or .tfrecord files that are examples "  \
          "and labels: x,y; of rows the label alone, or columns followed by "  \
          "the label, * for all others, ; before several labels: '*;A,B'; "    \
          "with types as in image=u8[28,28],label=i64, image=image, "          \
          "'*=f32,label'")
#define CLI_MISSING_OPTION(place)                                              \
  CLI_ROW("missing", CLI_TEXT, (place), "COLUMN=VALUE,...",                    \
          "values of columns of .csv and .jsonl files where a row has none: "  \
          "an empty field, NA, N/A, NaN, null or None; * is all other columns")
#define CLI_TASK_OPTION(place)                                                 \
  CLI_ROW("task", CLI_TEXT, (place), "NAME",                                   \
          "classification, regression or multi-label: several labels "         \
          "of 0 or 1 for each example (default: the model's)")
#define CLI_OUTPUTS_OPTION(place, default_text)                                \
  CLI_ROW("outputs", CLI_COUNT, (place), "N",                                  \
          "classes, or with --task numbers, that the model predicts "          \
          "(default: " default_text ")")
// Returns true if --task has a valid value or is not given (NULL or "").
bool cli_check_task(const char *command, const char *task);
// Adapts a type to the values of --task and --outputs, as cli_run_type; a task
// of numbers has one by default. Reports a failure and returns false.
bool cli_flagged_type(const char *command, const char *task, int64_t outputs,
                      const ls_model_type **type, ls_model_type *room);
// Returns true if a model gives each pixel of an image a class.
bool cli_has_pixels(const ls_model_type *type);
// Returns the number of examples to predict at once: fewer if each has many
// labels.
int64_t cli_batch_of(const ls_model_type *type);
// Returns true if a batch size is given only with --stablehlo.
bool cli_check_export(int64_t batch_size, bool stablehlo);
// Refuses a batch of more examples than there are.
ls_status cli_check_batch(int64_t batch_size, int64_t examples);
// Returns the dtype of weights and computation.
ls_status cli_precision(const char *precision, ls_dtype *out_dtype);

// Classes of text labels, and texts of columns that are one-hot.
typedef struct cli_classes {
  const char *names;    // One per line; NULL or "": unknown.
  bool may_find;        // Finds unknown names in the data.
  char *found;          // The names found, which the caller owns (cli_release).
  char file[PATH_MAX];  // File or folder that has them, or "".
  // As in ls_train_config; NULL or "": none, unknown.
  const char *one_hot, *categories, *missing;
  char *found_categories;  // Like `found`.
  // As in ls_train_config; NULL or "": unknown.
  const char *columns, *bytes;
  bool normalizes;      // Whole numbers are normalized, not found to be bytes.
  char *found_columns;  // Like `found`.
} cli_classes;
// Releases what was found.
void cli_classes_release(cli_classes *classes);
CLI_OWNED_STRUCT(cli_classes, cli_classes_release)

// Data flags. NULL or zero in a field: not given.
typedef struct cli_data {
  const char *data;      // Required.
  const char *test;      // Test data; "none": trains on all.
  const char *features;  // Parts that are examples and labels.
  double split;          // Fraction held out for the test.
  bool whole;            // Without a test set all of `data` is one.
  bool untested;         // Set for `test` "none".
  bool kept;             // `features` is only for the run's own data.
  const char *command;   // Command that reports resizing. NULL: silent.
  cli_classes *classes;  // NULL: labels are numbers.
  const ls_task *task;   // Task of the labels, without a model that has one.
  int64_t least_outputs;  // Outputs of the run that a new one starts with.
  // Labels may be missing; `names` gets the examples' files or rows: see
  // cli_open_examples.
  bool no_labels;
  ls_dataset **names;
} cli_data;
// Finds the number of elements of an example, and of outputs, that the data
// need, if the model takes any number and not this one as it is.
ls_status cli_find_sizes(const cli_data *data, const ls_model_type *type,
                         ls_train_config *config);
// Returns the task of a configuration, else the type's.
const ls_task *cli_task_of(const ls_train_config *config,
                           const ls_model_type *type);
// Opens training and test data; `train` or `test` may be NULL. The caller owns
// the opened sets, even after a failure.
ls_status cli_open_data(const cli_data *data, const ls_model_type *type,
                        ls_dataset **train, ls_dataset **test);
// Adds to a failure to find the data of a run the flag that names its new
// place.
ls_status cli_note_moved(ls_status status);
// Opens a run's test set: from `data`, or all of `data` if that has none; from
// the run's own data if `data` is NULL. `features` may be NULL.
ls_status cli_open_run_test(const ls_train_config *config, const char *data,
                            const char *features, const char *command,
                            const ls_model_type *type, ls_dataset **test);
// Opens examples to predict, with or without labels: all of `data`, or the
// run's test set if that is NULL. `*out_origins` are scalars in the same order:
// names of the examples' files, or numbers of rows of data of which a part is
// held out; NULL: the rows are counted from 0.
ls_status cli_open_examples(const ls_train_config *config, const char *data,
                            const char *features, const char *command,
                            const ls_model_type *type, ls_dataset **out,
                            ls_dataset **out_origins);
// Prints the file or the row of an example, an element of these, as a member of
// JSON after a comma; none: the row is `number`.
void cli_print_origin(ls_nest origin, int64_t number);
// Makes the images of a training set random, as the run is configured.
ls_status cli_augment(const ls_train_config *config, ls_dataset **train);
// Returns true if --data names files or a folder.
bool cli_is_place(const char *data);
// Makes paths of files or a folder absolute, in `buffer` of PATH_MAX bytes.
//   LS_INVALID_ARGUMENT  a list does not fit, or the current folder has a comma.
ls_status cli_full_data(const char **data, char *buffer);

// Computes the means and deviations of the examples of a training set, in the
// form of ls_train_config.normalize; the caller owns the text (cli_release).
ls_status cli_find_normalization(const ls_model_type *type, ls_dataset *dataset,
                                 char **out_text);
// Makes the arrays of such a text, which the caller owns; NULL for "" or NULL.
ls_status cli_read_normalization(const ls_model_type *type, const char *text,
                                 ls_array **out_mean, ls_array **out_deviation);

// Finds the type of a run's model: a copy in `room`, if its task, or the number
// of its inputs or outputs, is not the type's.
ls_status cli_run_type(const ls_train_config *config,
                       const ls_model_type **type, ls_model_type *room);
// Creates a model with metrics and its optimizer, as configured for a run of
// `steps` steps.
ls_status cli_create_model(const ls_train_config *config,
                           const ls_model_type *type, int64_t steps,
                           ls_model *out_model);

// A model built for inference, in a graph that must outlive it.
typedef struct cli_inference {
  ls_model model;
  ls_tensor examples, logits;  // `examples` is a placeholder.
  ls_nest predictions;         // None if an example has no list of outputs.
} cli_inference;
ls_status cli_build_inference(const ls_train_config *config,
                              const ls_model_type *type, ls_graph *graph,
                              cli_inference *out);
void cli_inference_close(cli_inference *self);
CLI_OWNED_STRUCT(cli_inference, cli_inference_close)

// Creates it without metrics and with this optimizer, if it is not NULL.
ls_status cli_create_model_by(const ls_train_config *config,
                              const ls_model_type *type, int64_t steps,
                              ls_optimizer *optimizer, ls_model *out_model);

// Creates a function, named `name`, that makes predictions of a batch; the
// model is lent.
ls_status cli_create_prediction(ls_model *model, const char *name,
                                ls_function **out_function);

// Creates it with another schedule of its learning rate.
//   LS_UNIMPLEMENTED  the model has an optimizer of its own, and ignores it.
ls_status cli_create_scheduled(const ls_train_config *config,
                               const ls_model_type *type,
                               const ls_schedule *schedule,
                               ls_model *out_model);

// Flags of a command that runs a model's training step.
typedef struct cli_step_flags {
  const char *model, *precision, *math, *trace;
  int64_t replicas, threads;
  int64_t batch_size;  // 0: the model's, or that of an estimator's input.
  int64_t steps;       // A loop of so many; 0: one step.
  bool tpu;            // Uses a TPU strategy with as many cores.
  const char *task, *params;
  int64_t outputs;
  int64_t inputs;  // Count of a run that MODEL names; 0: the model's.
  // Found by cli_step_find: one of the two.
  const ls_model_type *type;
  const struct ls_estimator_type *estimator;
  ls_model_type adapted;  // See cli_flagged_type.
} cli_step_flags;
#define CLI_STEP_TASK_OPTIONS(flags)                                           \
  CLI_TASK_OPTION(&(flags)->task),                                             \
      CLI_OUTPUTS_OPTION(&(flags)->outputs, "the model's, or one number"),     \
      CLI_STEP_PARAM_OPTION(&(flags)->params)
#define CLI_STEP_PARAM_OPTION(place)                                           \
  CLI_ROW("param", CLI_TEXT, (place), "NAME=N,...",                            \
          "numbers for an estimator's functions, by name")
// Finds the model, with its batch size, or the estimator that a flag names.
// Reports a problem and returns false.
bool cli_step_find(const char *command, cli_step_flags *flags);
// Checks the flags, finds the model, opens a runtime and calls `body`, with a
// trace if one is wanted. Reports a failure; returns an exit code.
int cli_with_step(const char *command, cli_step_flags *flags,
                  ls_status (*body)(void *user, ls_runtime *runtime),
                  void *user);
// A training step of a model with a synthetic batch, or of an estimator with
// the first batch of its input; or a loop of steps, each of which takes such a
// batch from the infeed.
typedef struct cli_step {
  const cli_step_flags *flags;
  ls_nest batch;  // Batch of all replicas.
  ls_model model;
  struct ls_estimator *estimator;  // In place of the model.
  ls_callback call;                // Makes a step of a batch,
  void *user;                      // with the model or the estimator.
  ls_strategy *strategy;
  ls_function *function;
  ls_nest args;  // Split among the replicas; none for a loop.
} cli_step;
// Sets the batch size of an estimator's input.
ls_status cli_step_open(cli_step_flags *flags, cli_step *out_step);
// Runs the step or loop once. NULL: its results are not wanted.
ls_status cli_step_run(const cli_step *step, ls_nest *results);
void cli_step_close(cli_step *step);
CLI_OWNED_STRUCT(cli_step, cli_step_close)

// ---- The terminal ----------------------------------------------------------
// Returns true if standard error is a terminal that can rewrite a line.
bool cli_can_rewrite(const ls_runtime *runtime);
// Returns the time of a clock that only goes forward, in seconds.
double cli_now(void);
// Writes seconds as 0:07, 12:34 or 1:02:03.
void cli_print_duration(double seconds, char *text, size_t size);

// Current size of a terminal; 0 if unknown.
typedef struct cli_window {
  int columns, rows;
} cli_window;
cli_window cli_window_of(int descriptor);

// Writes progress to standard error: a text without newline leaves the line
// open, to be rewritten. Thread-safe, like cli_clear_progress.
void cli_show_progress(const char *text);
// Clears an open progress line, so that the next output has a line of its own.
void cli_clear_progress(void);

// Opens the line of a training, which is rewritten on a terminal.
ls_status cli_progress_open(const ls_runtime *runtime, ls_progress **out);

#endif  // LS_CLI_CLI_H_

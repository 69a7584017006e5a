// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// The training loop: epochs of steps, evaluation, a folder with the run's
// configuration, metrics and checkpoints, progress reports, and stopping.
//
// The library prints nothing and sets no signal handler: reports go to the
// caller's function, and a handler of the caller's requests a stop.
//
// Threads: a training run belongs to the thread that calls; any thread and any
// signal handler may request it to stop.
#ifndef LOCKSTEP_TRAIN_H_
#define LOCKSTEP_TRAIN_H_

#include "lockstep/data.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Stopping --------------------------------------------------------------
// A request that a loop end after its current step. Zeroed: not requested.
typedef struct ls_train_stop {
  int requested;  // Only these two functions access it.
} ls_train_stop;
// Request a stop, from any thread or a signal handler, and test for it.
LS_API void ls_train_stop_request(ls_train_stop *stop);
LS_API bool ls_train_stop_requested(const ls_train_stop *stop);

// ---- Evaluation ------------------------------------------------------------
// Means over all labels of a data set: over its examples, or for texts over all
// tokens. `accuracy` is the metric of the model's task (ls_task.metric), here
// and below.
typedef struct ls_evaluation {
  int64_t examples;
  double loss, accuracy;
  // For labels of two dimensions, classes of pixels: the mean intersection over
  // union. This is, of the pixels that have a class in the labels or in the
  // predictions, the fraction that have it in both, as a mean over all classes
  // with such pixels. Else NaN.
  double mean_iou;
} ls_evaluation;

// ---- Training --------------------------------------------------------------
// Time budget of some steps, in seconds: the parts add up to the whole.
typedef struct ls_train_budget {
  double whole;
  double input;             // Waiting for the next batch.
  const char *input_stage;  // Stage with the most input time; lent.
  double compute;
  double collective;    // Waiting for replicas of other processes.
  ls_opt slowest_rank;  // Rank waited for longest, if known.
  double host;          // Waiting for host functions.
  double save;
  double rest;  // Waiting for variables used elsewhere, reports, logs.
} ls_train_budget;

// Progress of a run, after each step.
typedef struct ls_train_report {
  int64_t epoch, num_epochs;            // Epochs count from 1.
  int64_t epoch_step, steps_per_epoch;  // Steps made in this epoch.
  int64_t step, num_steps;              // Steps of the whole run.
  // Means over this epoch so far, or since the run was resumed.
  double loss, accuracy;
  int64_t steps;               // Number of these steps.
  double examples_per_second;  // Speed over the same steps.
  double seconds;              // Duration of the whole run.
  double seconds_left;         // Estimated by the steps of this epoch.
  // Budget of the steps of this epoch so far, or since the run was resumed.
  ls_train_budget budget;
  bool epoch_end;  // The epoch's last report.
  bool tested;     // `test` is set: an evaluation on the test set.
  ls_evaluation test;
  // With `stop_early`: the step of the best evaluation so far (0: none), the
  // number of evaluations since then, and whether that ends the run.
  int64_t best_step, waited;
  bool stops_early;
  // The run was requested to stop, and everything it needs to resume is on the
  // disk, if there is a folder and anything to save: the last report. The run
  // then only waits for input being read, and frees memory.
  bool stopped;
  const ls_task *task;  // Task of the model.
} ls_train_report;

// Configuration of a run: enough to repeat it. Stored in config.json. Texts are
// lent. Zero in a field means its default.
typedef struct ls_train_config {
  const char *model;      // Name or origin of the model. Default: the name.
  const char *data;       // Name or origin of the data. Default "".
  const char *precision;  // Default "f32".
  const char *math;       // "fast", "direct" or "bf16". Default "fast".
  // Kind of optimizer, or the path and name of one of a shared library. Default
  // "": the model's own.
  const char *optimizer;
  const char *optimizer_sha256;  // Hash of that library. Default "": none.
  const char *schedule;   // Schedule of the learning rate. Default "constant".
  int64_t replicas, threads, batch_size, epochs, steps, seed, warmup;
  int64_t accumulate;  // Batches per step of the optimizer.
  double learning_rate, weight_decay, clip_norm;
  const char *test;      // Test data, if it has another name.
  const char *features;  // Parts of the data that are examples and labels.
  const char *classes;   // Names, one per line, if labels are texts.
  // Columns of texts that become numbers, a 1 for the text and 0 for all
  // others: "A,B"; and their texts: for each column a line of its name, a line
  // of each text, and an empty line. Default "": none.
  const char *one_hot, *categories;
  // Values of missing fields of columns: "A=0,B=none"; * is all other columns.
  // Default "": none.
  const char *missing;
  // Names of the examples' columns, one per line, if they have names; a tab and
  // the count of numbers follow the name of an array. Default "": unknown.
  const char *columns;
  // "yes": whole numbers of examples, in rows or lists, count as bytes; "no".
  // Default "": unknown.
  const char *bytes;
  // Images of the training set are moved by up to `crop` pixels in each
  // direction, and half of them are flipped, at random.
  int64_t crop;
  bool flip;
  // Normalization of examples, "MEAN,DEVIATION;..." for each number of an
  // example, or for each channel of an image. Default "": none.
  const char *normalize;
  int64_t inputs;  // As in ls_model_options.
  // Task and outputs of the model, as in ls_model_type_adapt. Default: its own.
  const char *task;
  int64_t outputs;
  double split;  // Fraction of the data kept for the test.
  // Checkpoints to keep, as in ls_train_options; if the run set none, the
  // defaults. `keep` 0: all.
  int64_t keep;
  const char *keep_best;
  double keep_every_hours;
  const char *stop_early;  // As in ls_train_options, like the next two.
  int64_t patience;
  double min_delta;
  int64_t test_steps;  // Batches of an evaluation; 0: the whole test set.
  // Intervals of saves, in seconds and in steps, of checksums and of checks of
  // ranks, as in ls_train_options.
  int64_t save_every, save_every_steps, checksum, check_ranks;
  // As in ls_train_options; `events`: in the run folder.
  bool gradient_norm, attest, events;
  // Source of the model's initial values ("": its own); the selected variables,
  // "a,b/*", the exceptions, and renamings, "old=new,x/=y/".
  const char *warm_start, *warm_only, *warm_except, *warm_map;
  // Layout of that source's kernels: "own", or "torch" and the images that
  // dense kernels have as inputs: "torch,hidden/kernel=64x14x14". Default "".
  const char *warm_layout;
} ls_train_config;

// Reads config.json of a run folder, or the copy in one of its checkpoints,
// RUN/model.ckpt-STEP.json. Missing entries have their defaults, and texts are
// never NULL. The caller owns the result, texts included. If config.json was
// changed after it was written, or is missing, the copy in the newest
// checkpoint is used, with a line in the log.
//   LS_NOT_FOUND         there is no run, or no such checkpoint.
//   LS_INVALID_ARGUMENT  invalid content: names the line or the entry.
//   LS_DATA_LOSS         its checksum does not match, and no checkpoint has a
//                        copy.
LS_API LS_MUST_USE ls_status ls_train_config_read(const char *run_folder,
                                                  ls_train_config **out_config);
LS_API void ls_train_config_destroy(ls_train_config *config);  // NULL is fine.
// Returns true if the run keeps the checkpoint with the highest value of
// `keep_best`, not the lowest.
LS_API bool ls_train_config_keeps_highest(const ls_train_config *config);

// Sets the model's variables to the values last saved by the run in the folder:
// those of its newest intact checkpoint, else model.safetensors. The run may
// continue meanwhile.
//   LS_NOT_FOUND         it has saved none.
//   LS_DATA_LOSS         the file is damaged, or lacks one of them.
//   LS_INVALID_ARGUMENT  it belongs to another model.
LS_API LS_MUST_USE ls_status ls_train_load(const char *run_folder,
                                           const ls_model *model);

// Gets the lines of metrics.jsonl, with or without a run folder, on the rank
// that would write them. Each ends with a newline.
typedef struct ls_train_log {
  void (*line)(void *user, const char *text);
  void *user;
} ls_train_log;

typedef struct ls_warm_start ls_warm_start;  // lockstep/training_parts.h
typedef struct ls_saveable ls_saveable;      // lockstep/checkpoint.h
typedef struct ls_hook ls_hook;              // lockstep/hook.h
// Options of a training. Zero in a field means its default.
typedef struct ls_train_options {
  const ls_model *model;  // Required; made with `.metrics`. Lent.
  ls_strategy *strategy;  // Required. Lent.
  ls_dataset *train;      // Required: examples and labels. Lent.
  // Number of examples in `train`. Default: they are counted.
  int64_t num_examples;
  ls_dataset *test;    // Evaluated after each epoch. Default: none.
  int64_t batch_size;  // Global batch size. Default: the model's.
  int64_t epochs;      // Default: the model's, or as many as `steps` needs.
  int64_t steps;       // Number of steps to end after. Default: no limit.
  bool only_saves;     // Ends before the first step: saves initial values.
  int64_t seed;        // Seed of the order of examples and of random ops.
  // Number of steps that run as one program, a training loop in the replicas:
  // with the same bits. A loop ends early where something happens between
  // steps: at the end of an epoch, at a line of metrics.jsonl, at a save by
  // steps, at a stop. Steps on the first batch and on a partial one are single
  // runs, and so are all if replicas get parts of different sizes; a line in
  // the log then says so. Default 1.
  int64_t iterations_per_loop;
  // On: each iteration of a loop takes its batch from the infeeds of the
  // strategy's cores, which a thread feeds meanwhile; off: a loop's batches are
  // its arguments. Default: on for a strategy of TPU cores of this process.
  ls_flag loop_infeed;
  const char *run_folder;  // Default: none.
  bool overwrite;          // Replaces an existing run; see below.
  bool resume;             // Resumes an existing run.
  // Folder of another run to go on from: from its newest intact checkpoint, or
  // that of step `from_step`, with the bits that the other run has from there.
  // It stays as it is: `run_folder`, if given, is that of a new run.
  const char *from;
  ls_opt from_step;
  bool inexact;  // Resumes even a different run: results will differ.
  // Initial values of the model's variables, but not of the optimizer's;
  // ignored by a run that goes on from a checkpoint. Default: their own.
  const ls_warm_start *warm_start;
  // Interval of saves, in addition to the end. Default: 60 seconds, if no steps
  // are given. With steps, a save waits for the previous one.
  int64_t save_seconds, save_steps;
  bool save_goes_on;        // Makes a failed save a warning in the log.
  ls_flag save_background;  // Off: a step waits for its save. Default on.
  ls_opt keep;  // Number of newest checkpoints to keep; 0: all. Default 5.
  // Also keeps one per this many hours. Default: none.
  double keep_every_hours;
  // Metric whose best checkpoint is kept too: "loss" and the task's metric,
  // "accuracy", of the steps since the previous save or the begin of the epoch;
  // "test_loss" and "test_accuracy", for which a checkpoint is saved after each
  // evaluation.
  // Default: none.
  const char *keep_best;
  // Metric of the evaluations that ends the run, "test_loss" or
  // "test_accuracy", once it has not become better for `patience` epochs: lower
  // for a loss or an error, higher for an accuracy, or as ":min" or ":max"
  // after it says.
  // Without `keep_best` its best checkpoint is kept. The run's end is that of a
  // complete one; one that resumes goes on counting. Default: none.
  const char *stop_early;
  int64_t patience;  // Default 3.
  double min_delta;  // A value that is better by no more does not count.
  // Other objects whose state belongs to the run, such as a counter of the
  // model's. Lent.
  const ls_saveable *states;
  size_t num_states;
  const char *events;  // Folder of event files for TensorBoard; "": the
                       // run folder's `events`. Default: none.
  // Base of config.json; the fields above, the strategy and the runtime
  // override its fields. Default: all zero.
  const ls_train_config *config;
  // Number of steps after which ranks compare checksums of their variables,
  // from before the first step on; 0: never. A difference is LS_DATA_LOSS, and
  // names the rank, the variable and the step. Costs a hash of all variables.
  int64_t check_ranks;
  // Number of steps after which metrics.jsonl gets a line with a checksum, 64
  // bits of a hash of all variables, the optimizer's too; 0: never.
  int64_t checksum;
  // Adds the norm of the gradients of the last step to the lines of
  // metrics.jsonl: of all weights together, of the whole batch, as the weights
  // moved by it (clipped, the mean of an accumulation, before weight decay).
  // Each step stores its gradients for it: memory of as many weights.
  bool gradient_norm;
  // Adds a chain of hashes of the run's configuration, data, checkpoints and
  // metrics to the run folder (lockstep/chain.h). A run that resumes goes on
  // with the chain that is there. Costs a hash of each file that is written,
  // and one of all data, on other threads.
  bool attest;
  int64_t log_every;          // Steps per line of metrics.jsonl. Default 100.
  ls_train_log log;           // Gets these lines. Default: none.
  const ls_train_stop *stop;  // Default: never.
  void (*report)(void *user, const ls_train_report *report);  // Default: none.
  void *report_user;
  // Called around its runs, in this order: after the report, before a save.
  // Each must work with functions (lockstep/hook.h). If one guards the loss
  // (ls_nan_hook_named), it decides what happens at a NaN. Default: none.
  ls_hook *const *hooks;  // Retained.
  size_t num_hooks;
} ls_train_options;

// Result of a training.
typedef struct ls_train_result {
  // Steps of the whole run, including those before it was resumed.
  int64_t steps;
  double seconds;  // Duration of the whole run.
  bool stopped;    // A stop was requested.
  bool tested;
  ls_evaluation test;  // The last evaluation.
  // With `stop_early`: it has ended the run; the step of the best evaluation
  // (0: none), and its value.
  bool stopped_early;
  int64_t best_step;
  double best;
  const ls_task *task;  // Task of the model.
} ls_train_result;

// Trains. Each epoch visits every example once, in an order of its own; the
// last batch may be smaller, and replicas get parts that differ by one. The run
// folder gets
//   config.json          the configuration, with defaults filled in
//   metrics.jsonl        a line per `log_every` steps and per evaluation
//   model.ckpt-N.*       checkpoints: everything to resume after N steps
//                        (lockstep/checkpoint.h); `checkpoint` lists them
//   model.safetensors    the model's variables alone, at the end
// A checkpoint is a copy of the state, written while the run continues; if it
// cannot be written, the next step fails. At the end, and at a stop, the last
// one is on the disk. A request to stop is no failure: it ends the run after
// the current step, or while it waits for prefetched input.
//
// Event files (lockstep/events.h) are in two subfolders of `events`, which
// TensorBoard overlays: `train` gets the values of metrics.jsonl, the learning
// rate, the budget's parts as shares of the whole, the graph of the step, and
// after each epoch histograms of all trained variables; `test` gets
// evaluations. A run that replaces another one deletes those in its folder.
//
// A resumed run starts at its newest intact checkpoint and has the bits that it
// would have had without a pause, on any number of threads and ranks. It is
// refused if model, program, numerics, math, replicas, batch size, seed, or the
// data's number, types or contents differ: of files of more than 16 MiB parts
// are compared. `epochs` and `steps` may differ, and the optimizer's schedule
// applies. The same holds for a run that goes on `from` another one. A run that
// never saved anything starts from scratch; one with a
// `checkpoint.safetensors`, written by former versions, resumes from that.
//
// Of ranks that train together, rank 0 has the run folder; each writes its part
// of the checkpoints, which equal those of one rank, unless the others do not
// see that folder: then rank 0 writes all, and sends the restored values. If
// any rank is requested to stop, all stop after the same step; a failed write
// of one of them ends the run of all, and names it. Ranks whose options, data
// or initial values differ are refused before the first step.
//
// Steps before an error are in metrics.jsonl; a run without a step leaves none.
// A run that is to be overwritten is kept until the first new checkpoint, and
// restored if there is none.
//   LS_INVALID_ARGUMENT     a batch that the replicas cannot share evenly, a
//                           data set that does not fit, a different run to
//                           resume, and other invalid options, such as a hook
//                           for sessions. After the first step: a model without
//                           variables, or whose step returns no "loss" or
//                           "accuracy" or updates no trainable variable; a run
//                           to resume with another program; both `resume` and
//                           `from`, or a `from_step` without `from`.
//   LS_ALREADY_EXISTS       the folder holds a run.
//   LS_FAILED_PRECONDITION  another run, of this process or of one that is
//                           named, writes to the folder.
//   LS_NOT_FOUND            it holds none to resume; the folder `from` holds no
//                           checkpoint, or none of that step; the source of
//                           initial values does not exist, or lacks a variable.
//   LS_DATA_LOSS            no checkpoint is intact.
//   LS_OUT_OF_RANGE         the loss has become NaN or infinite.
// A hook's failure is the run's, with the hook's name.
LS_API LS_MUST_USE ls_status ls_train(const ls_train_options *options,
                                      ls_train_result *out_result);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAIN_H_

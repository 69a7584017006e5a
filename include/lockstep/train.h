// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// The training loop: epochs of steps, evaluation, a folder that keeps what the
// run was and how it went, progress for people, and a way to stop.
//
// The library prints nothing and sets no signal handler: lines of progress go
// to the caller's function, and a handler of the caller's requests the stop.
//
// Threads: a training run is one thread's, the one that calls; any thread and
// any signal handler may ask it to stop.
#ifndef LOCKSTEP_TRAIN_H_
#define LOCKSTEP_TRAIN_H_

#include "lockstep/data.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Stopping --------------------------------------------------------------
// A request that a loop should end after the step it is in. Zeroed: none yet.
typedef struct ls_train_stop {
  int requested;  // Touched by these two functions only.
} ls_train_stop;
// From any thread, and from a signal handler.
LS_API void ls_train_stop_request(ls_train_stop *stop);
LS_API bool ls_train_stop_requested(const ls_train_stop *stop);

// ---- Evaluation ------------------------------------------------------------
// Means over all labels of a dataset: over its examples, or of texts over all
// tokens.
typedef struct ls_evaluation {
  int64_t examples;
  double loss, accuracy;
} ls_evaluation;

// ---- Training --------------------------------------------------------------
// Where the time of some steps went, in seconds: the parts are the whole.
typedef struct ls_train_budget {
  double whole;
  double input;             // Waiting for the next batch,
  const char *input_stage;  //   and the stage that took most of it; lent.
  double compute;
  double collective;    // Waiting for replicas of other processes,
  ls_opt slowest_rank;  //   and who was waited for longest, where known.
  double host;          // Waiting for functions on the host.
  double save;
  double rest;  // Waiting for variables that others use, reports, logs.
} ls_train_budget;

// How far a run is, after each step.
typedef struct ls_train_report {
  int64_t epoch, num_epochs;            // This one counts from 1.
  int64_t epoch_step, steps_per_epoch;  // Steps done in this epoch.
  int64_t step, num_steps;              // In the whole run.
  double loss, accuracy;                // Means over this epoch so far, since
  double examples_per_second;           // the run was resumed. The speed too.
  double seconds;                       // Of the whole run.
  double seconds_left;                  // By the steps of this epoch.
  // Of the steps of this epoch so far, or since the run was resumed.
  ls_train_budget budget;
  bool epoch_end;  // The epoch's last report.
  bool tested;     // It has an evaluation on the test set.
  ls_evaluation test;
  // The run was asked to stop, and all that it goes on from is on the disk, if
  // there is a folder and anything to save: the last report. What is left to do
  // is to wait for input that is just being read, and to give memory back.
  bool stopped;
} ls_train_report;

// What a run was made with: enough to do it again. Kept in config.json. Texts
// are lent. Zero in a field means its default.
typedef struct ls_train_config {
  const char *model;      // Its name, or where it is from. Default: the name.
  const char *data;       // The same. Default "".
  const char *precision;  // Default "f32".
  const char *math;       // "fast", "direct" or "bf16". Default "fast".
  const char *optimizer;  // Its kind. Default "": the model's own.
  const char *schedule;   // Of the learning rate. Default "constant".
  int64_t replicas, threads, batch_size, epochs, steps, seed, warmup;
  int64_t accumulate;  // Batches that make a step of the optimizer.
  double learning_rate, weight_decay, clip_norm;
  const char *test;      // What it is tested on, if that has another name.
  const char *features;  // Which parts of the data are examples and labels.
  const char *classes;   // Names, one a line, where labels are texts.
  double split;          // How much of the data is kept for the test.
  // Checkpoints, as ls_train_options has them; of a run that did not say, the
  // defaults. 0 as `keep` is all of them.
  int64_t keep;
  const char *keep_best;
  double keep_every_hours;
  // What its model started with, "": nothing else; which variables, "a,b/*",
  // and which not, and other names, "old=new,x/=y/".
  const char *warm_start, *warm_only, *warm_except, *warm_map;
} ls_train_config;

// Reads config.json of a run folder. What it does not say has its default, and
// texts are never NULL. The caller owns the result, texts included. Where it is
// not as it was written, what the newest checkpoint keeps of it counts, with a
// line in the log.
//   LS_NOT_FOUND         there is no run.
//   LS_INVALID_ARGUMENT  what is in it cannot be: names the line or the entry.
//   LS_DATA_LOSS         its checksum is another, and no checkpoint has it.
LS_API LS_MUST_USE ls_status ls_train_config_read(const char *run_folder,
                                                  ls_train_config **out_config);
LS_API void ls_train_config_destroy(ls_train_config *config);  // NULL is fine.

// Gives the model's variables the values that the run in the folder has saved
// last: those of its newest checkpoint that is whole, else model.safetensors.
// The run may go on meanwhile.
//   LS_NOT_FOUND         it has saved none.
//   LS_DATA_LOSS         the file is damaged, or lacks one of them.
//   LS_INVALID_ARGUMENT  it is another model's.
LS_API LS_MUST_USE ls_status ls_train_load(const char *run_folder,
                                           const ls_model *model);

typedef struct ls_warm_start ls_warm_start;  // lockstep/training_parts.h
typedef struct ls_saveable ls_saveable;      // lockstep/checkpoint.h
typedef struct ls_hook ls_hook;              // lockstep/hook.h
// What to train and how. Zero in a field means its default.
typedef struct ls_train_options {
  const ls_model *model;  // Required; made with `.metrics`. Lent.
  ls_strategy *strategy;  // Required. Lent.
  ls_dataset *train;      // Required: examples and labels. Lent.
  int64_t num_examples;   // In it. Default: they are counted.
  ls_dataset *test;       // Evaluated after each epoch. Default: none.
  int64_t batch_size;     // Of all replicas. Default: the model's.
  int64_t epochs;         // Default: the model's, or as `steps` needs.
  int64_t steps;          // End after so many. Default: no limit.
  int64_t seed;           // Of the order of examples and of random ops.
  // Steps that run as one program, a training loop in the replicas: to the same
  // bits. A loop ends before its time where something is done between steps: at
  // the end of an epoch, at a line of metrics.jsonl, at a save by steps, at a
  // stop. Steps on the first batch and on one that is not full are runs of
  // their own, and so are all where replicas get parts of other sizes; then a
  // line in the log tells. Default 1.
  int64_t iterations_per_loop;
  // Whether each trip takes its batch from the infeeds of the strategy's cores,
  // which a thread feeds meanwhile; off: a loop's batches are its arguments.
  // Default: on where the strategy is one of TPU cores of this process.
  ls_flag loop_infeed;
  const char *run_folder;  // Default: none is written.
  bool overwrite;          // Replace a run that is there; see below.
  bool resume;             // Go on with the run that is there.
  bool inexact;            // Even if it is another one: results will differ.
  // The model's variables start with these, the optimizer's do not; not where a
  // run goes on from what it has saved. Default: with their own.
  const ls_warm_start *warm_start;
  // When it is saved, besides the end. Default: each 60 seconds, if no steps
  // are said. By steps a save waits for the one before.
  int64_t save_seconds, save_steps;
  bool save_goes_on;        // A save that failed is a warning in the log.
  ls_flag save_background;  // Off: a step waits for its save. Default on.
  ls_opt keep;  // The newest so many checkpoints; 0: all. Default 5.
  double keep_every_hours;  // Also one of each so many hours. Default: none.
  // Also the one where this is best: "loss" and "accuracy" of the steps since
  // the save before; "test_loss" and "test_accuracy", of which one is saved
  // after each evaluation. Default: none.
  const char *keep_best;
  // What else has a state that belongs to the run, such as a counter of the
  // model's. Lent.
  const ls_saveable *states;
  size_t num_states;
  const char *events;  // Folder of event files for TensorBoard; "": the
                       // run folder's `events`. Default: none.
  // For config.json; what the fields above, the strategy and the runtime say
  // takes the place of what it says. Default: all zero.
  const ls_train_config *config;
  int64_t log_every;          // Steps a line of metrics.jsonl. Default 100.
  const ls_train_stop *stop;  // Default: never.
  void (*report)(void *user, const ls_train_report *report);  // Default: none.
  void *report_user;
  // Called around its runs, in this order: behind the report, before a save.
  // Each must be one for functions (lockstep/hook.h). Where one guards the loss
  // (ls_nan_hook_named), what becomes of a loss that is no number is its
  // choice. Default: none.
  ls_hook *const *hooks;  // Retained.
  size_t num_hooks;
} ls_train_options;

// How it went.
typedef struct ls_train_result {
  int64_t steps;   // Of the whole run, also those before it was resumed.
  double seconds;  // The same.
  bool stopped;    // By request.
  bool tested;
  ls_evaluation test;  // The last one.
} ls_train_result;

// Trains. Each epoch deals every example once, in an order of its own; the
// last batch may be smaller, and replicas get parts that differ by one. The run
// folder gets
//   config.json          what was asked for, with defaults filled in
//   metrics.jsonl        a line per `log_every` steps and per evaluation
//   model.ckpt-N.*       checkpoints: all that the run goes on from after N
//                        steps (lockstep/checkpoint.h); `checkpoint` lists them
//   model.safetensors    the model's variables alone, at the end
// A checkpoint is a copy of the state, written while the run goes on; one that
// could not be written is the next step's failure. At the end, and when
// stopped, the last one is on the disk. A request to stop is no failure: it
// ends the run after the step it is in, or while it waits for input that is
// made ahead of it.
//
// Event files (lockstep/events.h) are in two folders of `events`, which
// TensorBoard draws over each other: `train` gets what metrics.jsonl gets, the
// learning rate, the budget's parts as shares of the whole, the graph of the
// step, and after each epoch histograms of all that is trained; `test` gets
// evaluations. A run that replaces another one takes away those in its folder.
//
// A resumed run starts at its newest checkpoint that is whole and gives the
// bits that it would have given without a pause, on any number of threads and
// ranks. It is refused where model, program, numerics, math, replicas, batch
// size, seed, or the data's number, types or contents are others: of files of
// more than 16 MiB parts are looked at. `epochs` and `steps` may be other ones,
// and a schedule is as the optimizer has it. A run that never came to save
// anything starts anew; one that has a `checkpoint.safetensors`, as former
// versions left, goes on from that.
//
// Of ranks that train together, rank 0 has the run folder; each writes its part
// of the checkpoints, which are those of one rank, unless the others do not see
// that folder: then rank 0 writes all, and sends what they go on from. Whoever
// is asked to stop, all stop after the same step; what one of them cannot write
// ends the run of all, and names it.
//
// Steps before an error are in metrics.jsonl; a run without a step leaves none.
// A run that it is to overwrite is kept until its first checkpoint, else back.
//   LS_INVALID_ARGUMENT  what the replicas cannot share evenly, a dataset that
//                        does not fit, a run to resume that is another one, and
//                        other options that cannot be, as a hook for sessions.
//                        After the first step: a model without variables, or
//                        whose step gives no "loss" or "accuracy" or changes
//                        nothing that is trained; a run to resume that is of
//                        another program.
//   LS_ALREADY_EXISTS    the folder holds a run.
//   LS_FAILED_PRECONDITION  another run, of this process or of one that is
//                        named, writes to the folder.
//   LS_NOT_FOUND         it holds none to resume; what it is to start with is
//                        not there, or lacks a variable.
//   LS_DATA_LOSS         no checkpoint is whole.
//   LS_OUT_OF_RANGE      the loss is no number any more.
// A hook's failure is the run's, with the hook's name.
LS_API LS_MUST_USE ls_status ls_train(const ls_train_options *options,
                                      ls_train_result *out_result);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAIN_H_

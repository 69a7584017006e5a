// SPDX-License-Identifier: Apache-2.0
// Input of estimators: structure of elements, feeds of cores, input on CPUs.
#ifndef LS_ESTIMATOR_INPUT_INPUT_H_
#define LS_ESTIMATOR_INPUT_INPUT_H_

#include "base/values/nest_builder.h"
#include "distribute/input/feed.h"
#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/infeed.h"
#include "lockstep/iterator.h"

// ---- Structure -------------------------------------------------------------
// The structure of the tuples that are fed to cores, recorded from the input
// function's first element.
typedef struct ls_recorder {
  ls_nest dims;  // Partitions of features and labels; none: there are none.
  ls_nest structure;  // Dict of features, labels, mask, signals; none at first.
  ls_shape *parts;    // One per leaf; a shape of unknown rank: not partitioned.
  ls_allocator *allocator;
} ls_recorder;

// Begins a recorder with the partitions `dims`
// (ls_tpu_config.input_partition_dims), to which it holds a reference.
ls_recorder ls_recorder_begin(ls_nest dims);
void ls_recorder_deinit(ls_recorder *self);  // May be zeroed.
LS_OWNED_STRUCT(ls_recorder, ls_recorder_deinit)

// Records the structure of the first element; later elements must have the same
// structure.
//   LS_INVALID_ARGUMENT  the partitions have another structure
LS_MUST_USE ls_status ls_recorder_note(ls_recorder *self,
                                       const ls_feed_element *fed);
// Lists the leaves as tensors of the current graph, in order of flattening.
//   LS_INVALID_ARGUMENT  the structure is not the recorded one
LS_MUST_USE ls_status ls_recorder_flatten(const ls_recorder *self,
                                          const ls_feed_element *fed,
                                          ls_nest *out_list);
// Returns the partition of each leaf over a replica's cores, borrowed; NULL:
// none is partitioned.
//   LS_FAILED_PRECONDITION  nothing was recorded
LS_MUST_USE ls_status ls_recorder_parts(const ls_recorder *self,
                                        const ls_shape **out_parts,
                                        size_t *out_count);

// Restores an element from its flat list and a recorded structure. The caller
// releases the nests.
//   LS_INVALID_ARGUMENT  another number of elements
LS_MUST_USE ls_status ls_recorder_unflatten(ls_nest structure, ls_nest elements,
                                            ls_feed_element *out_fed);

// ---- Predictions -----------------------------------------------------------
// Predictions: the signals of a batch, and which of its rows are not padding:
// the first ones of each replica.

// Returns the stop signal of a batch: stopping[0][0] of [batch, 1], a bool
// scalar in the current graph.
ls_tensor ls_stopping_signal(ls_nest signals);
// Returns true if a signal says stop: of a tensor as an op's value, of a scalar
// or array as a bool.
//   failed  the signal is not a bool
ls_nest ls_should_stop(ls_nest signal);

// Checks that predictions, a dict of tensors or arrays, have one row for each
// element of the batch's mask; of tensors only known sizes are checked.
//   LS_INVALID_ARGUMENT  names the key of a prediction with other rows
LS_MUST_USE ls_status ls_predictions_check(ls_nest predictions, int64_t rows);

// Returns true if a row is not padding: `padding` is an i32 array with 1 for
// rows of padding, or none.
bool ls_prediction_is_kept(ls_nest padding, int64_t row);
// Counts the rows that are not padding. If `padding` is none, counts the rows
// of the first leaf, if that has rows.
//   LS_INVALID_ARGUMENT  a prediction lacks rows
LS_MUST_USE ls_status ls_predictions_keep(ls_nest predictions, ls_nest padding,
                                          int64_t *out_rows);
// Returns copies of each leaf without padding; the leaves unchanged if nothing
// is padded or the batch says stop. The caller releases them.
LS_MUST_USE ls_status ls_predictions_rows(ls_nest predictions, ls_nest padding,
                                          bool stops, ls_nest *out_rows);

// ---- Start of data sets ----------------------------------------------------
// Makes the hook that starts iterators when a session begins: at the restored
// position, else at the start. Holds references.
LS_MUST_USE ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                                    ls_hook **out_hook);

// ---- Feeds of cores --------------------------------------------------------
// Feeds of a program's cores: ops on the hosts. An input function called in the
// current graph makes them.

typedef struct ls_input_feed_options {
  // Batch axis of each tensor, borrowed; default 0. Batches are padded along
  // this axis, and cut if one element serves the replicas of a host.
  const int64_t *batch_axis;
  size_t num_batch_axes;
  // True to accept batches of any size: they are padded to the program's size
  // and get a mask. A batch for several replicas is split evenly (sizes differ
  // by at most one, larger shares first), and each share is padded at its end.
  // Hosts whose data have ended feed padding until all hosts' data have ended.
  bool any_batch;
} ls_input_feed_options;

typedef struct ls_input_feed {
  // The queue from which the program dequeues a tuple for each replica. Holds a
  // reference.
  ls_infeed_queue *queue;
  // List of the ops that feed. A run of them feeds one step (`each_step`), or
  // as many steps as the loop variable says, or everything up to the stop
  // signal. On ranks `ops` are those of this rank's hosts.
  ls_nest ops, all_ops;
  bool each_step;
  // List of ops that tell all cores that the input has ended.
  ls_nest close_ops;
  ls_nest structure;  // Structure of tuples: features, labels, mask, signals.
  // Starts the data sets in each session, at the position that a checkpoint
  // restored, else at the start. NULL without data sets.
  ls_hook *hook;
  // Iterators whose positions go into checkpoints, by host. A position counts
  // the steps that were fed, not the elements that were read ahead. Holds
  // references.
  ls_iterator **iterators;
  int32_t *ranks;  // The rank that draws from each.
  size_t num_iterators;
} ls_input_feed;

// Calls the input function for all hosts or cores. Modes that run on CPUs
// use ls_cpu_input.
LS_MUST_USE ls_status ls_input_feed_make(const ls_estimator_calls *calls,
                                         const ls_input_feed_options *options,
                                         ls_input_feed *out_feed);
void ls_input_feed_drop(ls_input_feed *feed);  // May be zeroed.

// Sets the number of steps that the next run feeds and makes.
LS_MUST_USE ls_status ls_load_iterations(const ls_run_context *context,
                                         ls_variable *variable, int64_t count);

// ---- For tests -------------------------------------------------------------
// Sets if ops of plain values are put into loops on the hosts, too. Default
// off; per runtime.
LS_MUST_USE ls_status ls_input_feed_set_loops(bool on);

// ---- Enqueue functions -----------------------------------------------------
// Enqueue functions: ops that feed one step to the replicas of a host, or to
// all.
//
// Making an enqueue function calls the input function, if one call serves
// several replicas. The ops are built later and once, possibly in the body of a
// loop; building them also sets the queue that they feed.
//
// A loop for several hosts reads the elements of all before it feeds one, and
// feeds all or none: the first host whose data end, ends the loop, unless its
// padding goes on until the data of all hosts have ended.

// Options; all are borrowed.
typedef struct ls_enqueue_options {
  const ls_estimator_calls *calls;
  const ls_input_feed_options *feed;
  ls_recorder *recorder;
  int64_t feeder;  // Number of the feeder in the plan.
  // True to feed padding after the end of the data until all feeders' data have
  // ended.
  bool goes_on;
} ls_enqueue_options;

// The elements of a step that were read and not fed yet. Holds references.
typedef struct ls_enqueue_values {
  // A list of tensors that is cut over the replicas, or one list per replica;
  // none: nothing was read.
  ls_nest values;
  ls_op *givers;  // Ops that must run when all reads are done.
  size_t num_givers;
  ls_nest signals;
  ls_nest ended;  // Bool scalars; all true if only padding was read.
} ls_enqueue_values;

typedef struct ls_enqueue {
  ls_enqueue_options options;
  const ls_plan *plan;
  int64_t host;
  ls_device_name place;    // Device of the host.
  char *names;             // Name scope in which the enqueue function was made.
  int64_t num_replicas;    // Number of replicas to feed.
  ls_feed_source source;   // None if each core has a source of its own.
  ls_infeed_queue *queue;  // Set when built; NULL before.
  ls_enqueue_values read;
  ls_allocator *allocator;
} ls_enqueue;

LS_MUST_USE ls_status ls_enqueue_init(ls_enqueue *self,
                                      const ls_enqueue_options *options);
void ls_enqueue_deinit(ls_enqueue *self);  // May be zeroed.
// Builds the ops, a list; `*out_signals` are the signals of a prediction, a
// dict, else none.
//   LS_FAILED_PRECONDITION  the ops were built before
LS_MUST_USE ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                                       ls_nest *out_signals);
// Builds the ops that read into `read`. ls_enqueue_feed then builds the ops
// that feed from there.
LS_MUST_USE ls_status ls_enqueue_read(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops);
// Makes a queue for the tuples of an enqueue function; sets only how they are
// partitioned over a replica's cores.
LS_MUST_USE ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                            ls_infeed_queue **out_queue);

// Builds a loop of the ops, on the host of the current device scope. It runs as
// often as the loop variable says; for predictions until a fed signal says
// stop. Returns the loop's last value, a scalar: the count or the signal.
// The loop fails with OUT_OF_RANGE where the data of a host have ended or, if
// padding goes on, those of all hosts.
LS_MUST_USE ls_status ls_enqueue_loop(ls_enqueue *enqueues, size_t count,
                                      ls_tensor *out_last);

// Appends the ops of a list.
void ls_append_ops(ls_nest_builder *list, ls_nest ops);

// ---- Input on CPUs ---------------------------------------------------------
// Input on CPUs: features and labels for a model or, with a strategy in the
// plan, for the models in its replicas, which get shares of each batch.

typedef struct ls_cpu_input {
  // Values of the current graph; PerReplica with several replicas. `labels` may
  // be none.
  ls_nest features, labels;
  // PerReplica numbers of examples, i64; none if all replicas have as many.
  ls_nest examples;
  // Starts the data set in each session: at the position that a checkpoint
  // restored, else at its start. If batches differ in size or are shared out,
  // the hook also feeds each run a batch, and ends the loop after the last one
  // (OUT_OF_RANGE); else the graph reads them. NULL without a data set.
  ls_hook *hook;
  ls_iterator *iterator;
  // The dimension of the first feature whose size is the number of examples.
  int64_t axis;
} ls_cpu_input;

// Calls the input function in the current graph, in the strategy's scope.
//   LS_INVALID_ARGUMENT  SLICED input; a tuple that is not a pair; with a
//                        strategy, no data set
LS_MUST_USE ls_status ls_cpu_input_make(const ls_estimator_calls *calls,
                                        ls_cpu_input *out_input);
void ls_cpu_input_drop(ls_cpu_input *input);  // May be zeroed.
// Returns the number of examples in the batch that was fed last, or in each
// batch of a fixed size; -1 if not known.
int64_t ls_cpu_input_rows(const ls_cpu_input *input);

#endif  // LS_ESTIMATOR_INPUT_INPUT_H_

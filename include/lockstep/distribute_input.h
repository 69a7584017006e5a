// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Input of strategies: a data set for all replicas.
//
//   ls_nest data = ls_none(), batch = ls_none();
//   ls_status status = ls_strategy_distribute_dataset(strategy, dataset,
//                                                     &data);
//   ...
//   status = ls_distributed_iterator_create(data, NULL, &iterator);
//   while (ls_status_is_ok(status = ls_distributed_iterator_next(iterator,
//                                                                &batch)))
//     status = ls_strategy_run(strategy, ls_traced(step), batch, &results);
//
// A data set of batches is split: part i of each batch goes to replica i, as a
// view, whatever hosts and processes there are. Sizes of parts differ by at
// most one. Each host can also read its own files, or the whole data set, and a
// function can give each host a data set of its own.
//
// Such hosts' elements are numbered host by host, in the order of their first
// replicas: a host with n replicas has the next n numbers. Element i goes to
// replica i. So where an assignment alternates between hosts, as that of a ring
// does, a replica may get an element of another host, which is copied to it:
// replicas 0 to 3 on hosts A, B, A, B get elements of A, A, B, B.
//
// Threads: a distributed data set never changes; an iterator belongs to one
// thread at a time, or to the runs that read it by ops, each of which gets an
// element.
#ifndef LOCKSTEP_DISTRIBUTE_INPUT_H_
#define LOCKSTEP_DISTRIBUTE_INPUT_H_

#include "lockstep/iterator.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Contexts ---------------------------------------------------------------
// Computes the part of a global batch that each replica gets. Zero in a field
// of a context means its default: pipeline 0 of 1, 1 replica.
//   LS_INVALID_ARGUMENT  it does not divide evenly: names both numbers.
LS_API LS_MUST_USE ls_status ls_input_context_per_replica_batch_size(
    ls_input_context context, int64_t global_batch, int64_t *out_size);
// Prints the pipeline's number and their count into `buffer`, cut to `size`;
// returns `buffer`.
LS_API const char *ls_input_context_print(ls_input_context context,
                                          char *buffer, size_t size);
// Prints the replica's number and their count, as given to an
// ls_value_function.
LS_API const char *ls_value_context_print(int32_t replica, int32_t replicas,
                                          char *buffer, size_t size);

// ---- Options ----------------------------------------------------------------
// Number of data sets from a function: one per host, or one per replica.
typedef enum ls_replication_mode {
  LS_PIPELINE_PER_WORKER,
  LS_PIPELINE_PER_REPLICA,
} ls_replication_mode;

// Selects what a host reads of a data set.
typedef enum ls_shard_policy {
  LS_SHARD_DEFAULT,  // DATA; AUTO with whole elements.
  LS_SHARD_AUTO,     // FILE if a source reads files, else DATA.
  LS_SHARD_FILE,     // Host h of H reads files h, h + H, ...
  LS_SHARD_DATA,     // Reads its replicas' parts of each batch.
  LS_SHARD_OFF,      // Reads everything.
  LS_SHARD_HINT,     // Reads its shard, at ls_dataset_shard_hint.
} ls_shard_policy;

// Zero in a field means its default.
//
// Hosts are those of the strategy's devices. With ranks, each rank is a host
// where each reads by itself: with FILE, OFF and HINT, AUTO that finds files,
// round_up, and data sets from a function. The elements then depend on the
// number of ranks; otherwise they do not.
typedef struct ls_input_options {
  ls_flag fetch_to_device;  // Off: values stay on the host. Default on.
  ls_replication_mode replication;
  // For data sets from a function, per replica, not fetched.
  bool place_dataset_on_device;
  // Number of values prefetched for each replica, at most 2^20; 0: none.
  // Default 1.
  ls_opt per_replica_buffer_size;
  ls_shard_policy sharding;
  // Each replica gets a whole element instead of a part of one. An incomplete
  // last group is dropped, with a line in the log.
  bool whole_elements;
  // Parts have ceil(rows / replicas) rows, the last ones fewer or none, and are
  // assigned to hosts round-robin.
  bool round_up;
  // Devices have buffers, if whole_elements is set. Default: the strategy's
  // setting, else on while a graph is built and off in eager, where on is
  // refused.
  ls_flag prefetch;
} ls_input_options;

// ---- Distributed data sets --------------------------------------------------
// Does what ls_strategy_distribute_dataset does, with options (NULL: all
// defaults). The result, which the caller owns, is a distributed data set, an
// object leaf; on the default strategy it is the data set itself.
//   LS_UNIMPLEMENTED     a pipeline per replica: give a function.
//   LS_INVALID_ARGUMENT  a leaf cannot be fetched or split, or replicas do not
//                        divide evenly over the hosts: names it.
//   LS_NOT_FOUND         FILE, and no source reads files.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_dataset_with(
    ls_strategy *strategy, ls_nest dataset, const ls_input_options *options,
    ls_nest *out_dataset);
// Does what ls_strategy_distribute_datasets_from_function does, with options.
// The function is called once per host, in order, in a device scope of that
// host; it gives an element for each of the host's replicas in each step, which
// go unchanged to the replicas with their numbers (see above). In an
// incomplete last group the other replicas get empty elements if a size of the
// elements is not known; else the group is dropped, with a line in the log. It
// returns a data set or an ls_nest_input_callable. With a pipeline per replica
// it is called for each replica, and replica i gets the elements of data set i.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_datasets_from_function_with(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    const ls_input_options *options, ls_nest *out_dataset);

// Wraps a source of elements that is no data set in an object leaf: `next` is
// called once per replica in each step, and fails with OUT_OF_RANGE at the end.
// `element`, taken over, has the elements' types: leaves of ls_nest_spec.
// `release` (may be NULL) is called with `user` when the leaf is destroyed, or
// at once if it cannot be made.
typedef ls_nest (*ls_input_next)(void *user);
LS_API ls_nest ls_nest_input_callable(ls_nest element, ls_input_next next,
                                      void *user, void (*release)(void *user));

// Marks where HINT shards: each host reads a shard of the data set before this
// point. It changes nothing otherwise.
LS_API ls_dataset *ls_dataset_shard_hint(ls_dataset *dataset);

// Prefetches elements to a device, unchanged; with several devices elements
// become lists with one per device, where an incomplete last list is dropped.
// Keeps `buffer` lists ahead, at least 1. Default 1.
//   LS_INVALID_ARGUMENT  no device, or an invalid name; a buffer of 0.
// It must be the last maker: other makers on it return LS_UNIMPLEMENTED.
LS_API ls_dataset *ls_dataset_prefetch_to_device(ls_dataset *dataset,
                                                 const char *device,
                                                 ls_opt buffer);
LS_API ls_dataset *ls_dataset_prefetch_to_devices(ls_dataset *dataset,
                                                  const char *const *devices,
                                                  size_t num_devices,
                                                  ls_opt buffer);

// Zero in a field means its default.
typedef struct ls_array_dataset_options {
  // Session of the variables; required while a graph is built.
  ls_session *session;
  // Bytes written at a time, rounded up to rows. Default 64 MiB.
  int64_t slice_bytes;
} ls_array_dataset_options;
// Stores arrays (a lent nest) on the strategy's first host, in variables that
// are neither trainable nor mirrored nor in a collection, and makes a data set
// of the rows they have now. The caller owns `*out_variables`, a nest of the
// variables, if it is not NULL, and the data set.
//   LS_INVALID_ARGUMENT  a leaf is no array or has no rows; no session while a
//                        graph is built.
LS_API LS_MUST_USE ls_status
ls_strategy_array_dataset(ls_strategy *strategy, ls_nest arrays,
                          const ls_array_dataset_options *options,
                          ls_nest *out_variables, ls_dataset **out_dataset);

// Returns the types of elements: for each leaf a PerReplica of ls_nest_spec
// leaves; plain ones where values are not wrapped. The caller owns the nest.
LS_API LS_MUST_USE ls_status ls_distributed_dataset_spec(ls_nest dataset,
                                                         ls_nest *out_spec);
// Returns the number of elements, LS_INFINITE, or LS_UNKNOWN_SIZE.
LS_API int64_t ls_distributed_dataset_cardinality(ls_nest dataset);
// Returns the device of a replica's value: the replica's own or, if the value
// is neither fetched nor made there, its host. Lent; "" for other nests.
LS_API const char *ls_distributed_dataset_placement(ls_nest dataset,
                                                    int32_t replica);

// ---- Iterators --------------------------------------------------------------
typedef struct ls_distributed_iterator ls_distributed_iterator;

typedef enum ls_iterator_kind {
  LS_ITERATOR_PLAIN,     // For programs that call next; not in a build graph.
  LS_ITERATOR_ONE_SHOT,  // Runs through once, anywhere; never restarted.
  // For build graphs: started, and restarted, by running its initializer.
  LS_ITERATOR_INITIALIZABLE,
} ls_iterator_kind;

// Zero in a field means its default.
typedef struct ls_distributed_iterator_options {
  const char *name;  // For messages. Copied. Default "iterator".
  uint64_t seed;     // Seed of all random choices of the data sets.
  ls_iterator_kind kind;
} ls_distributed_iterator_options;

// Creates an iterator at the start of a distributed data set, or of a data set,
// which it retains. The caller owns a reference.
//   LS_FAILED_PRECONDITION  a plain one while a graph is built for sessions, an
//                           initializable one elsewhere.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_create(
    ls_nest dataset, const ls_distributed_iterator_options *options,
    ls_distributed_iterator **out_iterator);
LS_API ls_distributed_iterator *
ls_distributed_iterator_retain(ls_distributed_iterator *iterator);
LS_API void ls_distributed_iterator_release(ls_distributed_iterator *iterator);

// Reads the next element: a PerReplica for each leaf. Parts of a batch are
// views of it. `*element` is in-out: its old value is released (start with a
// zeroed nest).
//   LS_OUT_OF_RANGE         the end, at every further call too. `*element`
//                           stays.
//   LS_FAILED_PRECONDITION  inside a replica, of any strategy; an iterator that
//                           is not initialized.
// A failure belongs to that element: the next call reads the one after it. With
// ranks that read rows of their own a failure ends the job: the others would be
// a step ahead.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_next(
    ls_distributed_iterator *iterator, ls_nest *element);
// Reads the next element, where the end is a value: `*out_has_value` is false,
// and `*element` stays.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_next_as_optional(
    ls_distributed_iterator *iterator, bool *out_has_value, ls_nest *element);
// Returns the next element as tensors: each run of the op reads one element,
// which all consumers see. In eager the arrays themselves.
//   LS_INVALID_ARGUMENT     a leaf has no known shape: names it.
//   LS_FAILED_PRECONDITION  inside a replica, of any strategy or of a
//                           replicated computation; other ranks have some of
//                           its values, because it was distributed in eager.
// A run that reaches the end fails with OUT_OF_RANGE.
LS_PLACED ls_nest
ls_distributed_iterator_get_next(ls_distributed_iterator *iterator);
// Returns the next element as a tuple (has_value, element); zeros if it has no
// value. In eager their dimensions that are not known are 0.
LS_PLACED ls_nest
ls_distributed_iterator_get_next_as_optional(ls_distributed_iterator *iterator);

// Go to the start of the next epoch, and of any epoch. A callable is called
// again.
//   LS_FAILED_PRECONDITION  a one-shot iterator.
LS_API LS_MUST_USE ls_status
ls_distributed_iterator_restart(ls_distributed_iterator *iterator);
LS_API LS_MUST_USE ls_status ls_distributed_iterator_seek_epoch(
    ls_distributed_iterator *iterator, int64_t epoch);
// Returns the op that starts an initializable iterator: its first run starts
// epoch 0, each further run the next epoch. There is only one such op.
//   LS_FAILED_PRECONDITION  another kind of iterator.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_initializer(
    ls_distributed_iterator *iterator, ls_op *out_op);
LS_API int64_t
ls_distributed_iterator_epoch(const ls_distributed_iterator *iterator);
// Returns the number of elements read in this epoch.
LS_API int64_t
ls_distributed_iterator_position(const ls_distributed_iterator *iterator);

// Save the position, after the last element read, into an empty record, and
// restore it. For split batches it is a number of batches, so that it can be
// restored on any number of hosts and replicas. If the position turns out not
// to exist, the iterator is at the start of the epoch it was in.
//   LS_INVALID_ARGUMENT  it belongs to another data set, or another number of
//                        pipelines: names both; no such position.
//   LS_NOT_FOUND         an entry is missing in the record.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_save(
    ls_distributed_iterator *iterator, ls_record *record);
LS_API LS_MUST_USE ls_status ls_distributed_iterator_restore(
    ls_distributed_iterator *iterator, const ls_record *record);

// Distribute a data set and create its initializable iterator, on all of a
// strategy's devices: of a data set of batches, which are split, or of a
// function's data sets, one per host. The caller owns the iterator.
//   LS_INVALID_ARGUMENT  another mode than a pipeline per worker; the function
//                        returns neither a data set nor a callable.
LS_API LS_MUST_USE ls_status
ls_strategy_make_dataset_iterator(ls_strategy *strategy, ls_nest dataset,
                                  ls_distributed_iterator **out_iterator);
LS_API LS_MUST_USE ls_status ls_strategy_make_input_fn_iterator(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_replication_mode mode, ls_distributed_iterator **out_iterator);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DISTRIBUTE_INPUT_H_

// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Input of strategies: a data set for all replicas.
//
//   ls_nest data = ls_none(), batch = ls_none();
//   ls_status status = ls_strategy_distribute_dataset(strategy, dataset,
//   &data);
//   ...
//   status = ls_distributed_iterator_create(data, NULL, &iterator);
//   while (ls_status_is_ok(status = ls_distributed_iterator_next(iterator,
//                                                                &batch)))
//     status = ls_strategy_run(strategy, ls_traced(step), batch, &results);
//
// A data set of batches is split: part i of each batch goes to replica i, as a
// view, whatever hosts and processes there are. Sizes of parts differ by at
// most one. Hosts can also read files, or all there is, by themselves, and
// functions can give each a data set of its own.
//
// Threads: a distributed data set never changes; an iterator belongs to one
// thread at a time, or to the runs that read it by ops, which get an element
// each.
#ifndef LOCKSTEP_DISTRIBUTE_INPUT_H_
#define LOCKSTEP_DISTRIBUTE_INPUT_H_

#include "lockstep/iterator.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Contexts ---------------------------------------------------------------
// The part of a global batch that each replica gets. Zero in a field of a
// context means its default: pipeline 0 of 1, 1 replica.
//   LS_INVALID_ARGUMENT  it does not come out even: names both numbers.
LS_API LS_MUST_USE ls_status ls_input_context_per_replica_batch_size(
    ls_input_context context, int64_t global_batch, int64_t *out_size);
// Which pipeline of how many. Printed into `buffer`, cut to `size`; returns
// `buffer`.
LS_API const char *ls_input_context_print(ls_input_context context,
                                          char *buffer, size_t size);
// The same of what an ls_value_function is given: which replica of how many.
LS_API const char *ls_value_context_print(int32_t replica, int32_t replicas,
                                          char *buffer, size_t size);

// ---- Options ----------------------------------------------------------------
// Of data sets from a function: one for each host, or one for each replica.
typedef enum ls_replication_mode {
  LS_PIPELINE_PER_WORKER,
  LS_PIPELINE_PER_REPLICA,
} ls_replication_mode;

// What a host reads of a data set.
typedef enum ls_shard_policy {
  LS_SHARD_DEFAULT,  // DATA; AUTO with whole elements.
  LS_SHARD_AUTO,     // FILE if a source reads files, else DATA.
  LS_SHARD_FILE,     // Its files: those of number h, h + H, ...
  LS_SHARD_DATA,     // Its replicas' parts of each batch.
  LS_SHARD_OFF,      // All of it.
  LS_SHARD_HINT,     // Its shard, where ls_dataset_shard_hint stands.
} ls_shard_policy;

// Zero in a field means its default.
//
// Hosts are those of the strategy's devices. With ranks, these are hosts where
// each reads by itself: with FILE, OFF and HINT, AUTO that finds files,
// round_up, and data sets from a function. Then what comes out depends on how
// many there are; else it does not.
typedef struct ls_input_options {
  ls_flag fetch_to_device;  // Off: values stay on the host. Default on.
  ls_replication_mode replication;
  bool place_dataset_on_device;  // A function's, per replica, not fetched.
  // Values ahead of use, for each replica; 0: none. Default 1.
  ls_opt per_replica_buffer_size;
  ls_shard_policy sharding;
  // Each replica gets a whole element in place of a part of one. A last group
  // that is not complete is left out, with a line in the log.
  bool whole_elements;
  // Parts of ceil(rows / replicas), the last ones shorter or empty, dealt to
  // hosts in turns.
  bool round_up;
  // With whole elements: whether devices have buffers. Default: as the strategy
  // says, else on while a graph is built and off in eager, where on is refused.
  ls_flag prefetch;
} ls_input_options;

// ---- Distributed data sets --------------------------------------------------
// ls_strategy_distribute_dataset, with options (NULL: all defaults). The result
// is a distributed data set, an object leaf; on the default strategy the data
// set itself.
//   LS_UNIMPLEMENTED     a pipeline for each replica: give a function.
//   LS_INVALID_ARGUMENT  a leaf that cannot be fetched or cut, replicas that do
//                        not come out even on the hosts: names it.
//   LS_NOT_FOUND         FILE, and no source reads files.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_dataset_with(
    ls_strategy *strategy, ls_nest dataset, const ls_input_options *options,
    ls_nest *out_dataset);
// ls_strategy_distribute_datasets_from_function, with options. The function is
// called once for each host, in order, in a device scope of it; its elements go
// to the host's replicas in turns, as they are. It gives a data set or an
// ls_nest_input_callable. With a pipeline for each replica it is called for
// each, and replica i gets the elements of data set i.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_datasets_from_function_with(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    const ls_input_options *options, ls_nest *out_dataset);

// A source of elements that is no data set: `next` is called once for each
// replica in each step, and fails with OUT_OF_RANGE at the end. `element` says
// what it gives: leaves of ls_nest_spec, taken over. `release` (may be NULL) is
// called with `user` at its end, or at once if it cannot be made. An object
// leaf.
typedef ls_nest (*ls_input_next)(void *user);
LS_API ls_nest ls_nest_input_callable(ls_nest element, ls_input_next next,
                                      void *user, void (*release)(void *user));

// Says where HINT is to cut: each host reads a shard of what stands before.
// Else it changes nothing.
LS_API ls_dataset *ls_dataset_shard_hint(ls_dataset *dataset);

// Elements ahead of use on a device, as they are; on several devices, lists of
// one for each, of which a last one that is not complete is left out. `buffer`
// lists are ahead, at least 1. Default 1.
//   LS_INVALID_ARGUMENT  no device, or no name of one; a buffer of none.
// It is the last step: other makers give LS_UNIMPLEMENTED.
LS_API ls_dataset *ls_dataset_prefetch_to_device(ls_dataset *dataset,
                                                 const char *device,
                                                 ls_opt buffer);
LS_API ls_dataset *ls_dataset_prefetch_to_devices(ls_dataset *dataset,
                                                  const char *const *devices,
                                                  size_t num_devices,
                                                  ls_opt buffer);

// Zero in a field means its default.
typedef struct ls_array_dataset_options {
  ls_session *session;  // Whose variables; needed while a graph is built.
  int64_t slice_bytes;  // Written at a time, rounded up to rows. 64 MiB.
} ls_array_dataset_options;
// Arrays (a lent nest) on the strategy's first host: variables there that are
// neither trained nor mirrored nor in a collection, as a nest of the caller's
// (`out_variables`; NULL: of nobody's), and a data set of the rows that they
// have now.
//   LS_INVALID_ARGUMENT  a leaf that is no array or has no rows; no session
//                        while a graph is built.
LS_API LS_MUST_USE ls_status
ls_strategy_array_dataset(ls_strategy *strategy, ls_nest arrays,
                          const ls_array_dataset_options *options,
                          ls_nest *out_variables, ls_dataset **out_dataset);

// What elements are: a nest with a PerReplica of ls_nest_spec leaves for each
// leaf; where values are not wrapped, plain ones. The caller owns it.
LS_API LS_MUST_USE ls_status ls_distributed_dataset_spec(ls_nest dataset,
                                                         ls_nest *out_spec);
// How many elements it has, LS_INFINITE, or LS_UNKNOWN_SIZE.
LS_API int64_t ls_distributed_dataset_cardinality(ls_nest dataset);
// Returns the device that a replica's value names: the replica's own or, if the
// value is neither fetched nor made there, its host. Lent; "" for others.
LS_API const char *ls_distributed_dataset_placement(ls_nest dataset,
                                                    int32_t replica);

// ---- Iterators --------------------------------------------------------------
typedef struct ls_distributed_iterator ls_distributed_iterator;

typedef enum ls_iterator_kind {
  LS_ITERATOR_PLAIN,     // For programs that call next; not in a build graph.
  LS_ITERATOR_ONE_SHOT,  // Once through, anywhere; never started again.
  // In a build graph: started, also again and again, by running its
  // initializer.
  LS_ITERATOR_INITIALIZABLE,
} ls_iterator_kind;

// Zero in a field means its default.
typedef struct ls_distributed_iterator_options {
  const char *name;  // For messages. Copied. Default "iterator".
  uint64_t seed;     // Of all that the data sets draw.
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

// The next element: of each leaf a PerReplica. Parts of a batch are views of
// it. `*element` is in-out: what it held is released (start with a zeroed
// nest).
//   LS_OUT_OF_RANGE         the end, again and again. `*element` stays.
//   LS_FAILED_PRECONDITION  inside of a replica, of any strategy; one that is
//                           not initialized.
// A failure is that element's: the next call gives the one behind it. Of ranks
// that read rows of their own it ends the job: the others would be a step
// ahead.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_next(
    ls_distributed_iterator *iterator, ls_nest *element);
// The same where the end is a value: `*out_has_value` is false, `*element`
// stays.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_next_as_optional(
    ls_distributed_iterator *iterator, bool *out_has_value, ls_nest *element);
// The next element as tensors: each run of the op reads one, which all that is
// made of it sees. In eager the arrays themselves.
//   LS_INVALID_ARGUMENT     a leaf without a known shape: names it.
//   LS_FAILED_PRECONDITION  inside of a replica, of any strategy or of a
//                           replicated computation; other ranks have some of
//                           its values, as it was distributed in eager.
// A run that comes to the end fails with OUT_OF_RANGE.
LS_PLACED ls_nest
ls_distributed_iterator_get_next(ls_distributed_iterator *iterator);
// The same as a tuple (has_value, element); without a value zeros.
LS_PLACED ls_nest
ls_distributed_iterator_get_next_as_optional(ls_distributed_iterator *iterator);

// Goes to the start of the next epoch, and of any. A callable is asked again.
//   LS_FAILED_PRECONDITION  a one-shot iterator.
LS_API LS_MUST_USE ls_status
ls_distributed_iterator_restart(ls_distributed_iterator *iterator);
LS_API LS_MUST_USE ls_status ls_distributed_iterator_seek_epoch(
    ls_distributed_iterator *iterator, int64_t epoch);
// The op that starts an initializable one: at the first run epoch 0, then the
// next one. There is one only.
//   LS_FAILED_PRECONDITION  another kind.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_initializer(
    ls_distributed_iterator *iterator, ls_op *out_op);
LS_API int64_t
ls_distributed_iterator_epoch(const ls_distributed_iterator *iterator);
// How many elements of this epoch it has given.
LS_API int64_t
ls_distributed_iterator_position(const ls_distributed_iterator *iterator);

// Where it is, behind what `next` has given, into an empty record; and back.
// For batches that are split this is a number of batches, so that it is
// restored on any number of hosts and replicas. Where there turns out to be no
// such place, it stands at the start of the epoch that it was in.
//   LS_INVALID_ARGUMENT  another data set's, or another number of pipelines:
//                        names both; no place.
//   LS_NOT_FOUND         something is missing in the record.
LS_API LS_MUST_USE ls_status ls_distributed_iterator_save(
    ls_distributed_iterator *iterator, ls_record *record);
LS_API LS_MUST_USE ls_status ls_distributed_iterator_restore(
    ls_distributed_iterator *iterator, const ls_record *record);

// Both at once, on all of a strategy's devices: an initializable iterator of a
// data set of batches, which are split, or of a function's data sets, one for
// each host.
//   LS_INVALID_ARGUMENT  another mode than a pipeline for each worker; a
//                        function that gives neither data set nor callable.
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

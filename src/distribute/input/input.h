// SPDX-License-Identifier: Apache-2.0
//
// Distributed data sets and their iterators: the fields.
//
// A distributed data set is pipelines and a way to make each replica's value of
// what they give:
//
//   SPLIT    one pipeline of batches; parts of a batch are the values
//   REBATCH  a pipeline a host; its rows, in batches of other sizes
//   WHOLE    elements as they are: of one pipeline, of one a host, or of one a
//            replica
#ifndef LS_DISTRIBUTE_INPUT_INPUT_H_
#define LS_DISTRIBUTE_INPUT_INPUT_H_

#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "distribute/base/class.h"
#include "distribute/base/hosts.h"
#include "distribute/input/rows.h"
#include "lockstep/distribute_input.h"
#include "lockstep/object.h"

typedef enum ls_input_cut {
  LS_INPUT_SPLIT,
  LS_INPUT_REBATCH,
  LS_INPUT_WHOLE,
} ls_input_cut;

typedef struct ls_input_callable ls_input_callable;

// A data set, a callable, or neither: another rank's.
typedef struct ls_pipeline {
  ls_dataset *dataset;
  ls_input_callable *callable;
} ls_pipeline;

typedef struct ls_distributed_dataset {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_strategy *strategy;  // NULL: a data set of no strategy.
  ls_host_map map;
  size_t num_replicas;
  // Replicas that this process hosts.
  size_t first_own, end_own;
  ls_input_cut cut;
  ls_row_shares shares;   // Of a batch's rows, one part a replica.
  bool wraps;             // Values are PerReplicas, also of one replica.
  bool is_partial;        // Replicas without data get empty values.
  bool is_endless;        // No pipeline of this process has an end.
  bool is_never_partial;  // Whatever shapes are.
  bool drops_group;       // An incomplete last group, with a line in the log.
  // The device of each replica's value, lent: its own or, not fetched to
  // devices, its host; NULL: unknown.
  const char **places;
  bool is_part;         // SPLIT: the pipeline gives (this rank's rows, rows).
  bool is_turns;        // WHOLE: it gives this rank's elements alone.
  bool is_per_replica;  // A pipeline a replica.
  int64_t batch_rows;   // REBATCH: of all hosts in a step; -1: as they come.
  int64_t elements;     // WHOLE, in turns: of all ranks; below 0: endless.
  int64_t buffer;       // Elements ahead, a replica; -1: as iterators do.
  ls_pipeline *pipelines;
  size_t num_pipelines;  // 1, one a host, or one a replica.
  char *text;            // Describes the data set that positions belong to.
  // Specs of the pipelines' elements.
  ls_nest structure;
  ls_leaf_spec *leaves;
  size_t num_leaves;
  uint64_t num_iterators;  // Made so far. Atomic.
} ls_distributed_dataset;

// The data set of a leaf, a reference of the caller's; one of `data/` becomes
// one of no strategy.
LS_MUST_USE ls_status ls_input_data_of(ls_nest leaf,
                                       ls_distributed_dataset **out_data);
LS_OWNED_POINTER(ls_distributed_dataset, ls_object_release)
// The pipeline of a value; the part of a batch that it is; whether this process
// reads it.
size_t ls_input_pipeline_of(const ls_distributed_dataset *data, size_t value);
size_t ls_input_part_of(const ls_distributed_dataset *data, size_t value);
static inline bool ls_input_is_own(const ls_distributed_dataset *data,
                                   size_t value) {
  return value >= data->first_own && value < data->end_own;
}

// ---- Making -----------------------------------------------------------------
// Makes one of a strategy (NULL: none) without pipelines.
LS_MUST_USE ls_status ls_input_make_data(ls_runtime *runtime,
                                         ls_strategy *strategy, size_t replicas,
                                         ls_distributed_dataset **out_data);
// Makes room for pipelines.
LS_MUST_USE ls_status ls_input_add_pipelines(ls_distributed_dataset *data,
                                             size_t count);
// Describes the data set that positions belong to.
LS_MUST_USE ls_status ls_input_set_text(ls_distributed_dataset *data,
                                        const ls_dataset *dataset);

// ---- What strategies do -----------------------------------------------------
// A class's `distribute`, where each replica has a device: of several cores the
// first. Options are checked.
LS_MUST_USE ls_status ls_input_distribute(ls_strategy *strategy,
                                          const ls_input_request *request,
                                          ls_nest *out_value);
// Chooses how many values are ahead of each replica.
LS_MUST_USE ls_status ls_input_choose_buffer(const ls_strategy *strategy,
                                             const ls_input_options *options,
                                             int64_t *out_buffer);

// ---- Elements ---------------------------------------------------------------
// Leaf `index` of a structure, as "[0]['image']", in `buffer`.
const char *ls_input_leaf_path(ls_nest structure, size_t index, char *buffer,
                               size_t size);
// Copies the specs of the pipelines' elements.
LS_MUST_USE ls_status ls_input_set_spec(ls_distributed_dataset *data,
                                        const ls_element_spec *spec);
// Checks that no leaf of a nest of ls_nest_spec, or of PerReplicas of them, is
// sparse or ragged.
LS_MUST_USE ls_status ls_input_check_dense(ls_nest specs, const char *label);
// Checks that all leaves have rows.
LS_MUST_USE ls_status ls_input_check_rows(const ls_element_spec *spec);
// Returns true if the shape of a leaf of replicas' values is not known; of
// sparse and ragged ones dimension 0 counts.
bool ls_input_has_unknown(const ls_distributed_dataset *data);
// The type of values; of an empty one; of one replica's, which may be known
// better.
ls_type ls_input_value_type(const ls_distributed_dataset *data, size_t leaf);
ls_type ls_input_empty_type(const ls_distributed_dataset *data, size_t leaf);
ls_type ls_input_type_of(const ls_distributed_dataset *data, size_t leaf,
                         size_t replica);
// The rows of all batches where they are the same, else -1; `*out_batched`:
// whether it was batched at all.
int64_t ls_input_batch_rows(const ls_dataset *dataset, bool *out_batched);

// ---- Shards -----------------------------------------------------------------
// Returns true if one of its sources reads files; if it has a hint.
bool ls_input_reads_files(const ls_dataset *dataset);
bool ls_input_has_hint(const ls_dataset *dataset);
// The shard of host `index` of `count`: by FILE, DATA (of elements), OFF or
// HINT. The caller's; failed as makers fail.
ls_dataset *ls_input_shard(ls_dataset *dataset, ls_shard_policy policy,
                           int64_t count, int64_t index);
// Replicas `first` to `end` of `replicas` of each batch: (element, rows), where
// rows, an i64, counts those of the whole batch. NULL: batches are not made of
// rows at the end of it.
ls_dataset *ls_input_part(ls_dataset *dataset, int64_t replicas, int64_t first,
                          int64_t end);

// Elements first + k replicas to end - 1 + k replicas, of known shapes. NULL:
// it is not indexed, they have none, or there are none.
ls_dataset *ls_input_turns(ls_dataset *dataset, int64_t replicas, int64_t first,
                           int64_t end);

// ---- Callables --------------------------------------------------------------
struct ls_input_callable {
  ls_object object;
  ls_allocator *allocator;
  ls_input_next next;
  void *user;
  void (*release)(void *user);
  ls_nest element;    // Specs of its elements.
  ls_nest structure;  // The same as in an ls_element_spec.
  ls_leaf_spec *leaves;
  size_t num_leaves;
};
ls_input_callable *ls_nest_as_input_callable(ls_nest leaf);  // NULL: none.
LS_MUST_USE ls_status ls_input_callable_next(ls_input_callable *callable,
                                             ls_nest *element);

// ---- Iterators --------------------------------------------------------------
// A host's position in the batches that it rebatches.
typedef struct ls_input_rows {
  ls_nest batch;       // The one that rows are taken from; none at first.
  int64_t batches;     // Read so far in the epoch.
  int64_t rows, next;  // Of that batch, and the first unused one.
  int64_t taken;       // Pieces so far, in the epoch or of this batch.
  bool ended;
} ls_input_rows;

struct ls_distributed_iterator {
  ls_object object;
  ls_distributed_dataset *data;
  ls_allocator *allocator;
  char *name;
  ls_iterator_kind kind;
  uint64_t seed;
  ls_iterator **sources;  // One a pipeline; NULL: it is called, or another's.
  ls_input_rows *rows;    // REBATCH: one a host.
  // Batches that are split, in turn: the latest one may still be in use.
  ls_nest wholes[2];
  size_t turn;
  ls_nest *parts;     // Of each leaf, one a replica.
  ls_array **absent;  // Stand in for others' values of a leaf; NULL: none.
  int64_t given, epoch;
  bool ended, started;
  bool is_partial;  // As the data set; on ranks, of all of them.
  uint64_t number;  // Among the data set's: its name among ranks.
  uint64_t exchanges;
  ls_mutex lock;  // One op at a time is at work.
  ls_op initializer;
  int num_ops;
};

// Fills `parts` with the next values. OUT_OF_RANGE: no replica has one, or not
// all that must.
LS_MUST_USE ls_status ls_input_fill(ls_distributed_iterator *iterator);
// Puts the next batch of a host in place of the one it has.
LS_MUST_USE ls_status ls_input_read_batch(ls_distributed_iterator *iterator,
                                          size_t host);
// Returns true if a replica has a value in `parts`.
static inline bool ls_input_has(const ls_distributed_iterator *iterator,
                                size_t replica) {
  return iterator->parts[replica].kind != LS_KIND_NONE;
}
// An element's leaves, lent: as many as there must be. The caller releases
// `*out_leaves`, also after a failure.
LS_MUST_USE ls_status ls_input_leaves(const ls_distributed_iterator *iterator,
                                      ls_nest element, ls_nest **out_leaves);
// The rows that all of a batch's leaves have.
LS_MUST_USE ls_status ls_input_rows_in(const ls_distributed_iterator *iterator,
                                       const ls_nest *leaves,
                                       int64_t *out_rows);

// Makes an element of `parts`, which are taken over; releases them.
LS_MUST_USE ls_status ls_input_pack(ls_distributed_iterator *iterator,
                                    ls_nest *element);
void ls_input_release_parts(ls_distributed_iterator *iterator);
// The next element, wherever the thread is.
LS_MUST_USE ls_status ls_input_advance(ls_distributed_iterator *iterator,
                                       ls_nest *element);
// The same where the end is a value: there is none.
LS_MUST_USE ls_status ls_input_try_advance(ls_distributed_iterator *iterator,
                                           ls_nest *element,
                                           bool *out_has_value);
LS_MUST_USE ls_status ls_input_start_epoch(ls_distributed_iterator *iterator,
                                           int64_t epoch);
// Checks that the thread is not in a replica of the iterator's strategy.
LS_MUST_USE ls_status
ls_input_check_place(const ls_distributed_iterator *iterator, const char *what);

// ---- Ranks ------------------------------------------------------------------
// A value that another rank has.
LS_MUST_USE ls_status ls_input_absent(ls_distributed_iterator *iterator,
                                      size_t leaf, ls_dtype dtype,
                                      ls_shape shape, ls_nest *out_value);
// Exchanges with all ranks which values each has; others' are absent ones then.
// `own`, taken over, is the result here; a failure ends all.
LS_MUST_USE ls_status ls_input_exchange(ls_distributed_iterator *iterator,
                                        ls_status own);

#endif  // LS_DISTRIBUTE_INPUT_INPUT_H_

// SPDX-License-Identifier: Apache-2.0
//
// Distributed data sets and their iterators, private part: the fields.
//
// A distributed data set has pipelines, and makes the replicas' values from the
// pipelines' elements in one of three ways:
//   SPLIT    one pipeline of batches; a value is a part of a batch
//   REBATCH  a pipeline per host; a value is a batch of another size
//   WHOLE    a value is an element of the only pipeline, of a host's pipeline
//            or of a replica's own pipeline
#ifndef LS_DISTRIBUTE_INPUT_INPUT_H_
#define LS_DISTRIBUTE_INPUT_INPUT_H_

#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "distribute/base/strategy.h"
#include "distribute/input/feed.h"
#include "lockstep/distribute_input.h"
#include "lockstep/object.h"

typedef enum ls_input_cut {
  LS_INPUT_SPLIT,
  LS_INPUT_REBATCH,
  LS_INPUT_WHOLE,
} ls_input_cut;

typedef struct ls_input_callable ls_input_callable;

// The source of elements: a data set, a callable, or neither if another rank
// reads it.
typedef struct ls_pipeline {
  ls_dataset *dataset;
  ls_input_callable *callable;
} ls_pipeline;

typedef struct ls_distributed_dataset {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_strategy *strategy;  // NULL: the data set belongs to no strategy.
  ls_host_map map;
  size_t num_replicas;
  // Range of the replicas that are in this process.
  size_t first_own, end_own;
  ls_input_cut cut;
  // How the rows of a batch are shared among the replicas.
  ls_row_shares shares;
  bool wraps;       // True if values are PerReplicas with one replica, too.
  bool is_partial;  // True if replicas without data get empty values.
  bool is_endless;  // True if no pipeline of this process has an end.
  // True if no step can be partial, whatever the shapes.
  bool is_never_partial;
  // Device of each replica's value, borrowed: the replica's device or, if
  // values stay on hosts, the host; NULL: not known.
  const char **places;
  bool is_part;  // SPLIT: true for elements (this rank's rows, number of rows).
  bool is_turns;  // WHOLE: true if the pipeline has this rank's elements only.
  bool is_per_replica;  // True if there is one pipeline per replica.
  // REBATCH: rows of all hosts in a step; -1: as many as there are.
  int64_t batch_rows;
  // WHOLE with is_turns: number of elements for all ranks; below 0: endless.
  int64_t elements;
  int64_t buffer;  // Elements read ahead per replica; -1: default.
  ls_pipeline *pipelines;
  size_t num_pipelines;  // 1, one per host, or one per replica.
  char *text;  // Description of the data set; saved positions must match.
  // Specs of the elements of the pipelines.
  ls_nest structure;
  ls_leaf_spec *leaves;
  size_t num_leaves;
  uint64_t num_iterators;  // Number of iterators made so far. Atomic.
} ls_distributed_dataset;

// Returns the distributed data set of a leaf, with a reference for the caller.
// A plain data set is wrapped as one without a strategy.
LS_MUST_USE ls_status ls_input_data_of(ls_nest leaf,
                                       ls_distributed_dataset **out_data);
LS_OWNED_POINTER(ls_distributed_dataset, ls_object_release)
// Three functions about a replica's value: the pipeline from which it comes,
// the part of a batch that it is, and whether this process reads it.
size_t ls_input_pipeline_of(const ls_distributed_dataset *data, size_t value);
size_t ls_input_part_of(const ls_distributed_dataset *data, size_t value);
static inline bool ls_input_is_own(const ls_distributed_dataset *data,
                                   size_t value) {
  return value >= data->first_own && value < data->end_own;
}

// ---- Making -----------------------------------------------------------------
// Makes a data set for a strategy (NULL: none), without pipelines.
LS_MUST_USE ls_status ls_input_make_data(ls_runtime *runtime,
                                         ls_strategy *strategy, size_t replicas,
                                         ls_distributed_dataset **out_data);
// Allocates the pipelines of a data set.
LS_MUST_USE ls_status ls_input_add_pipelines(ls_distributed_dataset *data,
                                             size_t count);
// Sets the description that saved positions must match.
LS_MUST_USE ls_status ls_input_set_text(ls_distributed_dataset *data,
                                        const ls_dataset *dataset);

// ---- For classes of strategies ----------------------------------------------
// Implements the class's `distribute` for strategies whose replicas have
// devices (the first of several cores). The caller has checked the options.
LS_MUST_USE ls_status ls_input_distribute(ls_strategy *strategy,
                                          const ls_input_request *request,
                                          ls_nest *out_value);
// Chooses how many values are read ahead for each replica.
LS_MUST_USE ls_status ls_input_choose_buffer(const ls_strategy *strategy,
                                             const ls_input_options *options,
                                             int64_t *out_buffer);

// ---- Elements ---------------------------------------------------------------
// Writes the path of leaf `index` of a structure, such as "[0]['image']", or
// "0" for a structure that is one leaf.
const char *ls_input_leaf_path(ls_nest structure, size_t index, char *buffer,
                               size_t size);
// Copies the specs of the pipelines' elements into the data set.
LS_MUST_USE ls_status ls_input_set_spec(ls_distributed_dataset *data,
                                        const ls_element_spec *spec);
// Checks that no leaf of `specs` is sparse or ragged; the specs are
// ls_nest_spec or PerReplicas of them.
LS_MUST_USE ls_status ls_input_check_dense(ls_nest specs, const char *label);
// Checks that all leaves of an element have rows.
LS_MUST_USE ls_status ls_input_check_rows(const ls_element_spec *spec);
// Returns true if a leaf of the replicas' values has an unknown shape; in
// sparse and ragged leaves only dimension 0 counts.
bool ls_input_has_unknown(const ls_distributed_dataset *data);
// Three types of a leaf: of any replica's value; of an empty value; and of one
// replica's value, which may be more specific.
ls_type ls_input_value_type(const ls_distributed_dataset *data, size_t leaf);
ls_type ls_input_empty_type(const ls_distributed_dataset *data, size_t leaf);
ls_type ls_input_type_of(const ls_distributed_dataset *data, size_t leaf,
                         size_t replica);
// Returns the number of rows of all batches, -1 if it varies. `*out_batched` is
// true if the data set makes batches.
int64_t ls_input_batch_rows(const ls_dataset *dataset, bool *out_batched);

// ---- Shards -----------------------------------------------------------------
// Returns true if a source of the data set reads files. The second function
// returns true if the data set has a shard hint.
bool ls_input_reads_files(const ls_dataset *dataset);
bool ls_input_has_hint(const ls_dataset *dataset);
// Makes the shard of host `index` of `count`: by FILE, DATA (elements), OFF or
// HINT. The caller releases it; the data set is failed on error.
ls_dataset *ls_input_shard(ls_dataset *dataset, ls_shard_policy policy,
                           int64_t count, int64_t index);
// Makes a data set with the rows of replicas `first` to `end` of `replicas` in
// each batch. Its elements are pairs: the rows, and the number of rows of the
// whole batch, an i64. NULL if the last step does not batch rows.
ls_dataset *ls_input_part(ls_dataset *dataset, int64_t replicas, int64_t first,
                          int64_t end);

// Makes a data set with the elements first + k replicas to end - 1 + k
// replicas, for each k; their shapes are known. NULL if the data set is not
// indexed, is empty, or has unknown shapes.
ls_dataset *ls_input_turns(ls_dataset *dataset, int64_t replicas, int64_t first,
                           int64_t end);

// ---- Callables --------------------------------------------------------------
struct ls_input_callable {
  ls_object object;
  ls_allocator *allocator;
  ls_input_next next;
  void *user;
  void (*release)(void *user);
  ls_nest element;    // Specs of the callable's elements,
  ls_nest structure;  // and the same specs in the form of an ls_element_spec.
  ls_leaf_spec *leaves;
  size_t num_leaves;
};
// Returns NULL if the leaf is no input callable.
ls_input_callable *ls_nest_as_input_callable(ls_nest leaf);
LS_MUST_USE ls_status ls_input_callable_next(ls_input_callable *callable,
                                             ls_nest *element);

// ---- Iterators --------------------------------------------------------------
// The position of a host in the batches that it cuts into others.
typedef struct ls_input_rows {
  ls_nest batch;       // Batch that rows are taken from; none at first.
  int64_t batches;     // Number of batches read in the epoch.
  int64_t rows, next;  // Rows of the batch, and its first unused row.
  int64_t taken;       // Pieces taken, in the epoch or from this batch.
  bool ended;
  bool has_failed;  // True in the rest of a step if its batch failed.
} ls_input_rows;

struct ls_distributed_iterator {
  ls_object object;
  ls_distributed_dataset *data;
  ls_allocator *allocator;
  char *name;
  ls_iterator_kind kind;
  uint64_t seed;
  // One iterator per pipeline; NULL: a callable, or another rank's pipeline.
  ls_iterator **sources;
  ls_input_rows *rows;  // REBATCH: one per host.
  // SPLIT: the last two batches in turn, because the latest one may still be in
  // use.
  ls_nest wholes[2];
  size_t turn;
  ls_nest *parts;  // Values of each leaf, one per replica.
  // Absent values that stand for other ranks' values of a leaf, or NULL.
  ls_array **absent;
  int64_t given, epoch;
  bool ended, started;
  // As in the data set; with ranks, all ranks decide together.
  bool is_partial;
  uint64_t number;  // Number in the data set, by which ranks find each other.
  uint64_t exchanges;
  ls_mutex lock;  // Taken by the op that is reading.
  ls_op initializer;
  int num_ops;
};

// Fills `parts` with the next values. Fails with OUT_OF_RANGE if no replica has
// a value, or if a replica that needs a value has none.
LS_MUST_USE ls_status ls_input_fill(ls_distributed_iterator *iterator);
// Replaces a host's batch by the next one.
LS_MUST_USE ls_status ls_input_read_batch(ls_distributed_iterator *iterator,
                                          size_t host);
// Returns true if a replica has a value in `parts` now.
static inline bool ls_input_has(const ls_distributed_iterator *iterator,
                                size_t replica) {
  return iterator->parts[replica].kind != LS_KIND_NONE;
}
// Lists an element's leaves, borrowed, and checks their number. The caller
// frees `*out_leaves`, on failure, too.
LS_MUST_USE ls_status ls_input_leaves(const ls_distributed_iterator *iterator,
                                      ls_nest element, ls_nest **out_leaves);
// Returns the number of rows of a batch, which must be the same for all leaves.
LS_MUST_USE ls_status ls_input_rows_in(const ls_distributed_iterator *iterator,
                                       const ls_nest *leaves,
                                       int64_t *out_rows);

// Makes an element from `parts`, which are taken over and cleared.
LS_MUST_USE ls_status ls_input_pack(ls_distributed_iterator *iterator,
                                    ls_nest *element);
void ls_input_release_parts(ls_distributed_iterator *iterator);
// Reads the next element, in any context.
LS_MUST_USE ls_status ls_input_advance(ls_distributed_iterator *iterator,
                                       ls_nest *element);
// Reads the next element; the end is reported as a value, not as a failure.
LS_MUST_USE ls_status ls_input_try_advance(ls_distributed_iterator *iterator,
                                           ls_nest *element,
                                           bool *out_has_value);
LS_MUST_USE ls_status ls_input_start_epoch(ls_distributed_iterator *iterator,
                                           int64_t epoch);
// Checks that the thread is not in a replica of the iterator's strategy.
LS_MUST_USE ls_status
ls_input_check_place(const ls_distributed_iterator *iterator, const char *what);

#endif  // LS_DISTRIBUTE_INPUT_INPUT_H_

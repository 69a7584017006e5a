// SPDX-License-Identifier: Apache-2.0
// Data sets and functions shared by classes and their stages, which read
// streams.
#ifndef LS_DATA_STREAMS_H_
#define LS_DATA_STREAMS_H_

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"
#include "data/stage.h"

// ---- Permutations ----------------------------------------------------------
// Permutations of 0 to n - 1 are computed, not stored: a Feistel network over
// the next power of two, applied repeatedly until the result is below n (Black
// and Rogaway, CT-RSA 2002). A key selects the permutation.
enum { LS_PERMUTATION_ROUNDS = 32 };

typedef struct ls_permutation {
  uint64_t size;
  int low_bits, high_bits;  // Bits of the two halves of a number.
  int rounds;
  uint64_t keys[LS_PERMUTATION_ROUNDS];
} ls_permutation;

// Makes a permutation of 0 to `size` - 1; `size` is at most 2^63.
ls_permutation ls_permutation_make(uint64_t size, uint64_t seed,
                                   uint64_t stream, uint64_t epoch);
// Returns the image of `index`, which is below the size.
uint64_t ls_permutation_at(const ls_permutation *self, uint64_t index);
// Maps many indices, several times as fast; `out` may be `indices`.
void ls_permutation_map(const ls_permutation *self, const int64_t *indices,
                        size_t count, int64_t *out);

// Take, skip, shard: elements first + i * stride of the input.
typedef struct ls_part_dataset {
  ls_dataset base;
  int64_t first, stride;
  int64_t count;  // Take and skip: the count of the options.
} ls_part_dataset;

typedef struct ls_repeat_dataset {
  ls_dataset base;
  int64_t times;  // Negative: repeats for ever.
} ls_repeat_dataset;

typedef struct ls_shuffle_dataset {
  ls_dataset base;
  ls_shuffle_options options;
} ls_shuffle_dataset;
// Returns the order of a block of `size` elements; a shuffle without a buffer
// is one block.
ls_permutation ls_shuffle_order(const ls_shuffle_dataset *self, uint64_t seed,
                                int64_t epoch, int64_t block, int64_t size);

typedef struct ls_map_dataset {
  ls_dataset base;
  ls_map_options options;  // `result` is empty.
  char name[64];
} ls_map_dataset;
// Applies the function to an element of the input, in-out. `kept` has nests to
// reuse.
LS_MUST_USE ls_status ls_map_apply(const ls_map_dataset *self, ls_nest element,
                                   const ls_map_call *call, ls_nest *result);

// Makes the description of a call that a user function gets.
ls_map_call ls_map_call_make(uint64_t seed, uint64_t stream, int64_t epoch,
                             int64_t id);

typedef struct ls_zip_dataset {
  ls_dataset base;
  ls_nest shape;  // The structure; its leaves are empty, one per input.
} ls_zip_dataset;
// Packs the inputs' elements, which it takes over, into one.
ls_nest ls_zip_pack(const ls_zip_dataset *self, const ls_nest *elements);

typedef struct ls_batch_dataset {
  ls_dataset base;
  ls_batch_options options;  // The data set owns copies of its lists.
  ls_shape *padded_shapes;   // NULL: no padding.
  double *padding;
} ls_batch_dataset;
// Makes the batch of `count` elements, with mask and ids as the options say,
// in-out.
LS_MUST_USE ls_status ls_batch_stack(const ls_batch_dataset *self,
                                     const ls_nest *elements, size_t count,
                                     const int64_t *ids, ls_nest *batch);

// For data sets that start with an ls_batch_dataset: copies the options' lists,
// and makes the spec of batches of so many rows.
LS_MUST_USE ls_status ls_batch_copy_lists(ls_batch_dataset *self);
LS_MUST_USE ls_status ls_batch_set_spec(ls_batch_dataset *self, int64_t rows);
void ls_batch_destroy(ls_dataset *dataset);

// Stage classes of the data sets.
extern const ls_stage_class ls_take_stage, ls_skip_stage, ls_shard_stage;
extern const ls_stage_class ls_repeat_stage, ls_shuffle_stage, ls_map_stage;
extern const ls_stage_class ls_concatenate_stage, ls_zip_stage, ls_batch_stage;
extern const ls_stage_class ls_prefetch_stage;

// ---- Anchors ---------------------------------------------------------------
// Anchors: saved positions of the input, for a stage that reads ahead.
//
// The input's state is kept every so many elements. A position is saved as the
// last anchor before it and the number of elements to read again from there.
typedef struct ls_anchor_place {
  int64_t at;         // Number of elements read up to the anchor.
  int64_t uses;       // Number of later elements in use, by ls_anchors_use.
  ls_record *record;  // The input's state.
} ls_anchor_place;

typedef struct ls_anchors {
  ls_allocator *allocator;
  ls_stage *input;
  int64_t every;  // Elements between anchors.
  int64_t read;   // Elements read since the start or the restore.
  bool ended;     // The input has ended.
  ls_anchor_place *items;
  size_t count, capacity;
} ls_anchors;

// Initializes anchors for `input`, which is lent.
void ls_anchors_init(ls_anchors *anchors, ls_stage *input, int64_t every);
void ls_anchors_deinit(ls_anchors *anchors);
// Drops all anchors, after the input was restarted or restored.
void ls_anchors_reset(ls_anchors *anchors);

// Keeps the input's state if it is time to. Call before each read; fails only
// before the first.
LS_MUST_USE ls_status ls_anchors_keep(ls_anchors *anchors);
// Reads the input's next element, and counts it even if reading fails.
LS_MUST_USE ls_status ls_anchors_read(ls_anchors *anchors, ls_nest *element);
// Does both. Without the first state the element that is read fails.
LS_MUST_USE ls_status ls_anchors_next(ls_anchors *anchors, ls_nest *element);
// Drops anchors needed only for elements before number `at`.
void ls_anchors_drop(ls_anchors *anchors, int64_t at);

// For a stage that holds elements for long: notes that element number `at` will
// (`uses` 1) or will not (-1) be read again, and drops anchors without uses.
void ls_anchors_use(ls_anchors *anchors, int64_t at, int64_t uses);
void ls_anchors_sweep(ls_anchors *anchors);

// Save and restore the input's position after `at` elements: its state under
// "input0" and the number of elements to read from there under "again".
//   LS_RESOURCE_EXHAUSTED  no memory; saving: none for the state before, either
LS_MUST_USE ls_status ls_anchors_save(ls_anchors *anchors, int64_t at,
                                      ls_record *record);
LS_MUST_USE ls_status ls_anchors_restore(ls_anchors *anchors,
                                         const ls_record *record);

// Saves all anchors without their uses. To restore: begin, go to each element
// to be read again in rising order and read it, end.
LS_MUST_USE ls_status ls_anchors_save_all(ls_anchors *anchors,
                                          ls_record *record);
LS_MUST_USE ls_status ls_anchors_begin_all(ls_anchors *anchors,
                                           const ls_record *record);
LS_MUST_USE ls_status ls_anchors_go_to(ls_anchors *anchors, int64_t at);
LS_MUST_USE ls_status ls_anchors_end_all(ls_anchors *anchors,
                                         const ls_record *record);

#endif  // LS_DATA_STREAMS_H_

// SPDX-License-Identifier: Apache-2.0
// Data sets and functions that classes share with their stages, which read
// streams.
#ifndef LS_DATA_STREAMS_H_
#define LS_DATA_STREAMS_H_

#include "data/dataset.h"
#include "data/permutation.h"
#include "data/stage.h"

// Take, skip, shard: elements first + i * stride of the input.
typedef struct ls_part_dataset {
  ls_dataset base;
  int64_t first, stride;
  int64_t count;  // Of take and skip, as it was asked for.
} ls_part_dataset;

typedef struct ls_repeat_dataset {
  ls_dataset base;
  int64_t times;  // Below 0: for ever.
} ls_repeat_dataset;

typedef struct ls_shuffle_dataset {
  ls_dataset base;
  ls_shuffle_options options;
} ls_shuffle_dataset;
// The order of a block of `size` elements, of which a shuffle without a buffer
// has one.
ls_permutation ls_shuffle_order(const ls_shuffle_dataset *self, uint64_t seed,
                                int64_t epoch, int64_t block, int64_t size);

typedef struct ls_map_dataset {
  ls_dataset base;
  ls_map_options options;  // `result` is none.
  char name[64];
  ls_user *user;
} ls_map_dataset;
// The result of an element of the input, in-out. `kept` has what it may use
// again.
LS_MUST_USE ls_status ls_map_apply(const ls_map_dataset *self, ls_nest element,
                                   const ls_map_call *call, ls_nest *result);

// What a function of the caller's is told of an element.
ls_map_call ls_map_call_make(uint64_t seed, uint64_t stream, int64_t epoch,
                             int64_t id);

typedef struct ls_zip_dataset {
  ls_dataset base;
  ls_nest shape;  // Its leaves are nothing, one an input.
} ls_zip_dataset;
// The elements of the inputs, taken over, as one.
ls_nest ls_zip_pack(const ls_zip_dataset *self, const ls_nest *elements);

typedef struct ls_batch_dataset {
  ls_dataset base;
  ls_batch_options options;  // Lists are copies.
  ls_shape *padded_shapes;   // NULL: not padded.
  double *padding;
} ls_batch_dataset;
// The batch of `count` elements, with mask and ids as the options say, in-out.
LS_MUST_USE ls_status ls_batch_stack(const ls_batch_dataset *self,
                                     const ls_nest *elements, size_t count,
                                     const int64_t *ids, ls_nest *batch);

// For data sets that begin as a batch does: makes lists of the options its own,
// and says what batches of so many rows are.
LS_MUST_USE ls_status ls_batch_copy_lists(ls_batch_dataset *self);
LS_MUST_USE ls_status ls_batch_set_spec(ls_batch_dataset *self, int64_t rows);
void ls_batch_destroy(ls_dataset *dataset);

// (element, mask, ids), or what of it the options ask for; the element, of
// `rows`, is taken over.
ls_nest ls_batch_wrap(const ls_batch_dataset *self, ls_nest element,
                      int64_t rows, const int64_t *ids, size_t count);

// Reading of streams.
extern const ls_stage_class ls_take_stage, ls_skip_stage, ls_shard_stage;
extern const ls_stage_class ls_repeat_stage, ls_shuffle_stage, ls_map_stage;
extern const ls_stage_class ls_concatenate_stage, ls_zip_stage, ls_batch_stage;
extern const ls_stage_class ls_prefetch_stage;

#endif  // LS_DATA_STREAMS_H_

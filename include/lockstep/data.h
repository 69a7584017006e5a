// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data: labelled examples in memory, and the batches they are dealt in.
//
// The order of examples is a function of (seed, epoch) alone, so that a run can
// be repeated, and continued at any batch.
//
// Threads: a dataset never changes, and is read by any number of threads at the
// same time; a batcher belongs to one thread at a time.
#ifndef LOCKSTEP_DATA_H_
#define LOCKSTEP_DATA_H_

#include "lockstep/distributed.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Datasets --------------------------------------------------------------
// Examples with labels: one each, or a shape of them, such as the next token at
// every place of a text. Counted, immutable.
typedef struct ls_examples ls_examples;

// A dataset of the rows of two arrays, which are retained and must not change:
// examples [n, ...] of u8, i32 or f32, labels [n, ...] of any integer type.
//   LS_INVALID_ARGUMENT  other types or shapes, or numbers of rows that differ.
LS_API LS_MUST_USE ls_status ls_examples_create(ls_array *examples,
                                                ls_array *labels,
                                                ls_examples **out_dataset);
// Fashion-MNIST: u8 images [60000, 28, 28] (`train`) or [10000, 28, 28], with
// labels 0 to 9, from the four IDX files, plain or gzip, in `directory` (NULL:
// where Debian's package dataset-fashion-mnist puts them). Files of the same
// names with other content of this kind, such as MNIST, do as well.
//   LS_NOT_FOUND  no such file; the message has the path.
//   LS_DATA_LOSS  a file is cut off or damaged.
LS_API LS_MUST_USE ls_status ls_examples_fashion_mnist(
    const char *directory, bool train, ls_examples **out_dataset);

// Which part of a text, and in what pieces. Zero in a field means its default.
typedef struct ls_text_options {
  int64_t length;  // Bytes in an example. Default 128.
  // The last tenth of the pieces, at least one, to test on. Default: those
  // before, to train on.
  bool test;
} ls_text_options;
// Any file as a text of bytes: u8 examples [n, length], piece after piece, with
// the byte behind each byte as its label, [n, length]. What is left at the end
// and fills no piece is not used. `options` may be NULL.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  a length below 1, or a file that is too short for two
//                        pieces and the byte behind them.
LS_API LS_MUST_USE ls_status ls_examples_text(const char *path,
                                              const ls_text_options *options,
                                              ls_examples **out_dataset);

// Which made-up examples. Zero in a field means its default.
typedef struct ls_synthetic_options {
  int64_t size;         // Examples. Default 1024.
  ls_dtype dtype;       // f32, or i32 for texts of tokens. Default f32.
  ls_shape shape;       // Of an example. Default: a scalar.
  int64_t num_classes;  // Default 2. Of texts: the number of tokens.
  int64_t seed;
  int64_t sample;  // Another draw from the same classes: 0 to train, 1 to test.
} ls_synthetic_options;
// Examples that can be learnt and need no file. `options` may be NULL.
//   f32  in [0, 1), a pattern per class with noise; a label each.
//   i32  texts in which three tokens of four are the one that follows the token
//        before in this language, the others any; labels are the next tokens,
//        shaped as the example.
LS_API LS_MUST_USE ls_status ls_examples_synthetic(
    const ls_synthetic_options *options, ls_examples **out_dataset);

LS_API ls_examples *ls_examples_retain(ls_examples *dataset);
LS_API void ls_examples_release(ls_examples *dataset);  // NULL is fine.

LS_API int64_t ls_examples_size(const ls_examples *dataset);
// The shape of one example, and of its labels.
LS_API ls_shape ls_examples_example_shape(const ls_examples *dataset);
LS_API ls_shape ls_examples_label_shape(const ls_examples *dataset);
// The largest label plus one.
LS_API int64_t ls_examples_num_classes(const ls_examples *dataset);
// Lent: valid as long as the dataset. Labels are i32 here.
LS_API ls_array *ls_examples_examples(const ls_examples *dataset);
LS_API ls_array *ls_examples_labels(const ls_examples *dataset);

// ---- Batches ---------------------------------------------------------------
// Deals a dataset in batches, epoch after epoch.
typedef struct ls_batcher ls_batcher;

// How to deal. Zero in a field means its default.
typedef struct ls_batcher_options {
  int64_t batch_size;   // Default 32.
  bool shuffle;         // Another order each epoch. Default: as they stand.
  int64_t seed;         // Of the orders.
  bool drop_remainder;  // Leave out a last batch that is not full.
  // What examples are dealt in: f32, u8 ones scaled to [0, 1]; or i32, u8 ones
  // as the numbers they are. Default: i32 for i32 examples, else f32.
  ls_dtype dtype;
  // Deal into the arrays of the batch before even where others hold them, too:
  // views of them, say, which then show the new batch. For who has done with
  // the old one. Default: only where nobody else does.
  bool in_place;
  // Deal a batch as the parts of so many replicas, what ls_strategy_run takes:
  // PerReplicas of views of one array; numbers of examples differ by at most
  // one, larger ones first. Default: whole batches, which a strategy of several
  // replicas would give to each of them.
  int64_t replicas;
  ls_shape example_shape;  // What to make of an example, such as [784] of
                           // [28, 28]. Default (a scalar): as it is.
} ls_batcher_options;

// Creates a batcher at the start of epoch 0. It retains the dataset. `options`
// may be NULL. The caller owns it.
//   LS_INVALID_ARGUMENT  a batch size below 1, or one that drops everything,
//                        fewer than no replicas, or an example shape or type
//                        that does not fit.
LS_API LS_MUST_USE ls_status
ls_batcher_create(ls_examples *dataset, const ls_batcher_options *options,
                  ls_batcher **out_batcher);
LS_API void ls_batcher_destroy(ls_batcher *batcher);  // NULL is fine.

// Batches in an epoch.
LS_API int64_t ls_batcher_num_batches(const ls_batcher *batcher);
// Goes to batch `batch` of epoch `epoch`: the next one that is dealt. Behind
// the last batch is the end of the epoch.
//   LS_INVALID_ARGUMENT  no such place.
LS_API LS_MUST_USE ls_status ls_batcher_seek(ls_batcher *batcher, int64_t epoch,
                                             int64_t batch);
// Where it stands.
LS_API int64_t ls_batcher_epoch(const ls_batcher *batcher);
LS_API int64_t ls_batcher_batch(const ls_batcher *batcher);

// The next batch: a tuple of examples [b, ...], in the type of the options, and
// i32 labels [b, ...], or of PerReplicas of those. `*batch` is in-out: arrays
// of the right type that nobody else holds (or `in_place`) are filled in place,
// else it is released and made anew (start with a zeroed nest).
//   LS_OUT_OF_RANGE  the end of the epoch, not a fault: the next call gives the
//                    first batch of the next one. `*batch` stays.
LS_API LS_MUST_USE ls_status ls_batcher_next(ls_batcher *batcher,
                                             ls_nest *batch);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DATA_H_

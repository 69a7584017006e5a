// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets to start with: labelled examples, tuples of an example and its
// label, or labels. What they are made into on the way to a model: dataset.h.
//
// Threads: as dataset.h.
#ifndef LOCKSTEP_DATA_H_
#define LOCKSTEP_DATA_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fashion-MNIST: u8 images [28, 28], 60,000 of them (`train`) or 10,000, with
// u8 labels 0 to 9, from the four IDX files, plain or gzip, in `directory`
// (NULL: where Debian's package dataset-fashion-mnist puts them). Files of the
// same names with other content of this kind, such as MNIST, do as well. Link
// with liblockstep-io (pkg-config lockstep-io).
//   LS_NOT_FOUND  no such file; the message has the path.
//   LS_DATA_LOSS  a file is cut off or damaged.
LS_API ls_dataset *ls_dataset_fashion_mnist(const char *directory, bool train);

// Which part of a text, and in what pieces. Zero in a field means its default.
typedef struct ls_text_options {
  int64_t length;  // Bytes in an example. Default 128.
  // The last tenth of the pieces, at least one, to test on. Default: those
  // before, to train on.
  bool test;
} ls_text_options;
// Any file as a text of bytes: u8 examples [length], piece after piece, with
// the byte behind each byte as its label, u8 [length]. What is left at the end
// and fills no piece is not used. `options` may be NULL.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  a length below 1, or a file that is too short for two
//                        pieces and the byte behind them.
LS_API ls_dataset *ls_dataset_text(const char *path,
                                   const ls_text_options *options);

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
//   f32  in [0, 1), a pattern per class with noise; an i32 label each.
//   i32  texts in which three tokens of four are the one that follows the token
//        before in this language, the others any; labels are the next tokens,
//        shaped as the example.
LS_API ls_dataset *ls_dataset_synthetic(const ls_synthetic_options *options);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DATA_H_

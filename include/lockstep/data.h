// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets to start with: labelled examples as tuples of an example and its
// label (or labels). For transforming them see dataset.h.
//
// Threads: as in dataset.h.
#ifndef LOCKSTEP_DATA_H_
#define LOCKSTEP_DATA_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads Fashion-MNIST: u8 images [28, 28], 60,000 of them (`train`) or 10,000,
// with u8 labels 0 to 9, from the four IDX files, plain or gzip, in `directory`
// (NULL: the folder of Debian's package dataset-fashion-mnist). Files of the
// same names with other content of this kind, such as MNIST, work as well. Link
// with liblockstep-io (pkg-config lockstep-io).
//   LS_NOT_FOUND  no such file; the message has the path.
//   LS_DATA_LOSS  a file is truncated or damaged.
LS_API ls_dataset *ls_dataset_fashion_mnist(const char *directory, bool train);

// Selects a part of a text and its pieces. Zero in a field means its default.
typedef struct ls_text_options {
  int64_t length;  // Bytes per example. Default 128.
  // Selects the last tenth of the pieces, at least one, for testing. Default:
  // the earlier ones, for training.
  bool test;
  bool whole;  // Selects all pieces.
  // Refuses bytes from this number on, which are no classes of the model.
  // Default 256: none.
  int64_t num_classes;
} ls_text_options;
// Reads any file as a text of bytes: u8 examples [length], piece after piece,
// labelled with the byte that follows each byte, u8 [length]. A rest at the end
// that fills no piece is not used. `options` may be NULL.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  the length is below 1, the file is too short for two
//                        pieces (`whole`: for one) and the byte after them, or
//                        has a byte that is refused: names its offset.
LS_API ls_dataset *ls_dataset_text(const char *path,
                                   const ls_text_options *options);
// Reads several files as one text, one after the other.
//   LS_INVALID_ARGUMENT  also: there is no path.
LS_API ls_dataset *ls_dataset_texts(const char *const *paths, size_t num_paths,
                                    const ls_text_options *options);

// Selects the generated examples. Zero in a field means its default.
typedef struct ls_synthetic_options {
  int64_t size;         // Number of examples. Default 1024.
  ls_dtype dtype;       // f32, or i32 for texts of tokens. Default f32.
  ls_shape shape;       // Shape of an example. Default: a scalar.
  int64_t num_classes;  // Default 2. For texts the number of tokens.
  int64_t seed;
  // Selects another draw from the same classes: 0 to train, 1 to test.
  int64_t sample;
  // Shape of an example's labels, whose number divides that of its elements.
  // Default: a scalar, for texts the example's shape.
  ls_shape label_shape;
} ls_synthetic_options;
// Generates examples that a model can learn and that need no file. `options`
// may be NULL.
//   f32  in [0, 1), a pattern per class with noise; i32 labels: one, or in four
//        parts of the example a class each, whose pattern is that of the
//        elements of one label, such as a pixel's color.
//   i32  texts in which three tokens of four are the one that follows the
//        previous token in this language, the others any; labels are the
//        next tokens, shaped as the example.
LS_API ls_dataset *ls_dataset_synthetic(const ls_synthetic_options *options);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DATA_H_

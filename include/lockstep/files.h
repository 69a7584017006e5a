// SPDX-License-Identifier: Apache-2.0
// Layer: formats
//
// Data sets read from files, and files written: link with liblockstep-io.
//
//   ls_dataset *d = ls_dataset_tfrecords(LS_PATHS("data/train-*.tfrecord"),
//       &(ls_tfrecord_options){
//           .features =
//               (ls_tfrecord_feature[]){
//                   {.name = "image",
//                    .dtype = LS_DTYPE_U8,
//                    .shape = LS_SHAPE(784)},
//                   {.name = "label", .dtype = LS_DTYPE_I64}},
//           .num_features = 2});
//
// A path's last part may be a pattern: `*`, `?` and `[a-z]` stand for the names
// that fit, sorted; `[*]` is a star. Several files are one data set, one behind
// the other. They are opened by the maker, must not change, and are read in
// ranges, from any thread, when elements are needed, up to 64 of a data set
// open at a time: a file that someone cuts off meanwhile is DATA_LOSS with its
// name and the byte. The first 64 MiB of files, unless an option says
// otherwise, are read whole by the maker, those that fit.
//
// Where numbers are read from records and shuffled by blocks, right behind the
// files, blocks of up to 16 MiB are read at once, and up to four of them kept
// in memory; other records that are not beside one another are read one by one.
//
// All but packed files (gzip: lines and TFRecord) are indexed: element i is
// found at once; packed ones are streams, read from the start to the end. For
// lines, CSV and TFRecord a pass over the files finds where elements begin, 8
// bytes of memory each; an option keeps what it has found beside the file, as
// FILE.index, for as long as the file has that size and time.
//
// What goes wrong in a maker stays in the data set that it gives: see
// dataset.h.
//   LS_NOT_FOUND         no such file, or none that fits a pattern
//   LS_INVALID_ARGUMENT  the file is none of its kind, or options do not fit it
//   LS_DATA_LOSS         cut off or damaged: names file, record or line, byte
//
// Threads: as dataset.h says; a writer belongs to one thread at a time.
#ifndef LOCKSTEP_FILES_H_
#define LOCKSTEP_FILES_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Paths and their number, two arguments: LS_PATHS("a", "b-*.txt"). In C++ give
// an array and its length.
#ifndef __cplusplus
#define LS_PATHS(...)                                                          \
  (const char *const[]){__VA_ARGS__},                                          \
      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
#endif

// The names of the files that fit a path with a pattern, sorted: string
// scalars.
LS_API ls_dataset *ls_dataset_files(const char *pattern);

// ---- Arrays in files -------------------------------------------------------
// Their rows, of dimension 0. Zero in a field means its default.
typedef struct ls_columns_options {
  // Whether elements are read when the data set is made, rather than when they
  // are needed. Default: see above. What is packed always is.
  ls_flag load;
} ls_columns_options;

// IDX files, such as MNIST's, plain or gzip. Of one file elements are its rows,
// of several tuples with a row of each.
LS_API ls_dataset *ls_dataset_idx(const char *const *paths, size_t num_paths,
                                  const ls_columns_options *options);
// The rows of NumPy's array. Not of Fortran's order, unless it is loaded.
LS_API ls_dataset *ls_dataset_npy(const char *path,
                                  const ls_columns_options *options);
// Dicts with a row of each array of an npz file: of the arrays of these names,
// all if `num_names` is 0. Checksums are looked at where arrays are packed.
LS_API ls_dataset *ls_dataset_npz(const char *path, const char *const *names,
                                  size_t num_names,
                                  const ls_columns_options *options);

// ---- Records ---------------------------------------------------------------
// Records of one size, one behind the other. Zero in a field means its default.
typedef struct ls_records_options {
  int64_t size;            // Of a record, in bytes. At least 1.
  int64_t header, footer;  // Bytes of each file that are none, at its ends.
  ls_flag load;            // Whether files are read by the maker: see above.
} ls_records_options;
// u8 [size].
LS_API ls_dataset *ls_dataset_records(const char *const *paths,
                                      size_t num_paths,
                                      const ls_records_options *options);

// Zero in a field means its default.
typedef struct ls_lines_options {
  ls_flag keep_index;  // Default off.
  ls_flag load;        // Whether files are read by the maker: see above.
} ls_lines_options;
// String scalars: lines, without the LF or CR LF at their ends. Gzip files are
// seen as such.
LS_API ls_dataset *ls_dataset_lines(const char *const *paths, size_t num_paths,
                                    const ls_lines_options *options);

// ---- CSV -------------------------------------------------------------------
typedef struct ls_csv_column {
  const char *name;
  // Any of floats, integers, bool and string. Default: i64, f32 or string, what
  // the first 100 rows of the first file are.
  ls_dtype dtype;
  // What an empty field is read as. Default: it is refused, but as a string.
  const char *missing;
  bool stacked;  // One of those that make up one array.
} ls_csv_column;

// Zero in a field means its default.
typedef struct ls_csv_options {
  // The columns that are wanted, by name. Default: all.
  const ls_csv_column *columns;
  size_t num_columns;
  // Whether each file begins with a line of names. Default on. Off: `columns`
  // are all there are, in their order.
  ls_flag header;
  char delimiter;      // Default ','.
  ls_flag keep_index;  // Default off.
  ls_flag load;        // Whether files are read by the maker: see above.
  // The name of the array [n] of the n columns that are stacked, in the order
  // of `columns`: numbers of one type. Default "values".
  const char *stack;
} ls_csv_options;
// Dicts of scalars, one a column, but for those that are stacked. `options` may
// be NULL.
LS_API ls_dataset *ls_dataset_csv(const char *const *paths, size_t num_paths,
                                  const ls_csv_options *options);

// ---- TFRecord --------------------------------------------------------------
// A feature of tf.Example. Zero in a field means its default.
typedef struct ls_tfrecord_feature {
  const char *name;
  // String: lists of bytes. Floats: lists of floats. Integers and bool: lists
  // of integers, which must be within bounds. All but string also take one
  // bytes value, which is then the elements themselves, little-endian.
  ls_dtype dtype;
  // Default: a scalar. [-1]: as many as there are.
  ls_shape shape;
  // Examples may lack it: all elements are `missing` then, or empty strings,
  // or, of shape [-1], none. Default: refused.
  bool optional;
  double missing;
} ls_tfrecord_feature;

// Zero in a field means its default.
typedef struct ls_tfrecord_options {
  // Default: none, and elements are the records' bytes, string scalars.
  const ls_tfrecord_feature *features;
  size_t num_features;
  ls_flag check;       // That checksums of records are right. Default on.
  ls_flag keep_index;  // Default off.
  ls_flag load;        // Whether files are read by the maker: see above.
} ls_tfrecord_options;
// Records of TFRecord files; with features dicts of them. Gzip files are seen
// as such. `options` may be NULL.
LS_API ls_dataset *ls_dataset_tfrecords(const char *const *paths,
                                        size_t num_paths,
                                        const ls_tfrecord_options *options);

// ---- Images ----------------------------------------------------------------
// How to read a folder of images. Zero in a field means its default.
typedef struct ls_image_folder_options {
  // What images are resized to, both or none. Default: as they are, so that
  // elements differ in shape.
  int64_t height, width;
  // Cut off what is too high or too wide for the shape, evenly at both ends,
  // before an image is resized. Default: it is stretched to the shape.
  bool cut;
  int channels;         // As ls_image_options (image.h) says. Default 3.
  int64_t most_pixels;  // The same.
  bool allow_damaged;   // The same.
} ls_image_folder_options;
// Images by class: elements (u8 [height, width, channels], i32 label) of the
// files folder/CLASS/NAME.png, .jpg and .jpeg. Classes are the folders in it,
// sorted by the bytes of their names, and labels their numbers from 0; elements
// are sorted by class and name. Names with a point in front and other files are
// passed over. The names are kept in memory; files are read and decoded when
// their element is, on whatever thread that is. `options` may be NULL.
//   LS_NOT_FOUND  no such folder, none in it, or none of the files in one.
// An image that cannot be read is that element's failure and names the file.
LS_API ls_dataset *
ls_dataset_image_folder(const char *folder,
                        const ls_image_folder_options *options);
// The name of a class of such a data set, lent; NULL: there is none of this
// label, or the data set is another.
LS_API const char *ls_image_folder_class(const ls_dataset *dataset,
                                         int64_t label);

// What the first record of these files has, a tf.Example: a dict with an array
// [n] of each feature's n values by its name, string, f32 or i64; none of a
// feature without a list. Failed, where it cannot be read. The caller's.
//   LS_OUT_OF_RANGE  there is no record.
LS_API ls_nest ls_tfrecord_first_example(const char *const *paths,
                                         size_t num_paths);

// ---- Writing ---------------------------------------------------------------
// A file is written aside and seen when it is whole; one that is there is
// replaced then.

// An array, as NumPy reads it.
//   LS_UNIMPLEMENTED  bf16, strings and what else NumPy has not
LS_API LS_MUST_USE ls_status ls_npy_write(const char *path,
                                          const ls_array *array);
// The arrays of a dict, lent, by their keys, as numpy.load reads them.
// `packed`: deflated; default off.
//   LS_INVALID_ARGUMENT  no dict, or an item that is no array
LS_API LS_MUST_USE ls_status ls_npz_write(const char *path, ls_nest arrays,
                                          ls_flag packed);

// Writes a TFRecord file. Thread-compatible.
typedef struct ls_tfrecord_writer ls_tfrecord_writer;
// The caller closes it.
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_open(const char *path, ls_tfrecord_writer **out_writer);
LS_API LS_MUST_USE ls_status ls_tfrecord_writer_write(
    ls_tfrecord_writer *writer, const void *data, size_t size);
// A dict of arrays, lent, as a tf.Example: strings as bytes values, floats as
// floats, integers and bool as integers, row by row; u8 of rank 1 and more as
// one bytes value, which is how images are kept.
//   LS_INVALID_ARGUMENT  no dict, or an item that is no such array
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_write_example(ls_tfrecord_writer *writer, ls_nest features);
// Ends it. The file is there if `keep` and all went well. NULL is fine.
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_close(ls_tfrecord_writer *writer, bool keep);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FILES_H_

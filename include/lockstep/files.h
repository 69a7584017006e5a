// SPDX-License-Identifier: Apache-2.0
// Layer: formats
//
// Data sets read from files, and writers of files. Link with liblockstep-io
// (pkg-config lockstep-io).
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
// A path's last part may be a pattern: `*`, `?` and `[a-z]` match names, which
// are sorted; `[*]` is a star. Several files are concatenated into one data
// set. The maker opens them; they must not change, and are read in ranges, from
// any thread, when elements are needed, with up to 64 of a data set open at a
// time: a file that is truncated meanwhile is DATA_LOSS with its name and the
// byte. The maker reads the first files that fit into 64 MiB completely, unless
// an option says otherwise.
//
// A shuffle by blocks that stands directly after record files of numbers reads
// blocks of up to 16 MiB at once and keeps up to four of them in memory; other
// records that are not adjacent are read one by one.
//
// All files but compressed ones (gzip: lines and TFRecord) are indexed: element
// i is found at once; compressed ones are streams, read from the start to the
// end. For lines, CSV and TFRecord a pass over the files finds where elements
// begin, with 8 bytes of memory each; an option keeps the index next to the
// file, as FILE.index, valid as long as the file has that size and time.
//
// A maker that fails returns a data set that holds the failure: see dataset.h.
//   LS_NOT_FOUND         no such file, or none that matches a pattern
//   LS_INVALID_ARGUMENT  the file is of another kind, or options do not fit it
//   LS_DATA_LOSS         truncated or damaged: names file, record or line, byte
//
// Threads: as in dataset.h; a writer belongs to one thread at a time.
#ifndef LOCKSTEP_FILES_H_
#define LOCKSTEP_FILES_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Paths and their number, two arguments: LS_PATHS("a", "b-*.txt"). In C++ pass
// an array and its length.
#ifndef __cplusplus
#define LS_PATHS(...)                                                          \
  (const char *const[]){__VA_ARGS__},                                          \
      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
#endif

// Makes a data set of the names of the files that match a pattern, sorted:
// string scalars.
LS_API ls_dataset *ls_dataset_files(const char *pattern);

// ---- Arrays in files -------------------------------------------------------
// Options of rows of arrays, along dimension 0. Zero in a field means its
// default.
typedef struct ls_columns_options {
  // On: the maker reads all elements; off: they are read when needed. Default:
  // see above. Compressed arrays are always read by the maker.
  ls_flag load;
} ls_columns_options;

// Reads IDX files, such as MNIST's, plain or gzip. With one file elements are
// its rows, with several tuples with a row of each.
LS_API ls_dataset *ls_dataset_idx(const char *const *paths, size_t num_paths,
                                  const ls_columns_options *options);
// Reads the rows of a NumPy array. In Fortran order only if it is loaded.
LS_API ls_dataset *ls_dataset_npy(const char *path,
                                  const ls_columns_options *options);
// Reads dicts with a row of each array of an npz file: of the named arrays, or
// all if `num_names` is 0. Verifies checksums of compressed arrays.
LS_API ls_dataset *ls_dataset_npz(const char *path, const char *const *names,
                                  size_t num_names,
                                  const ls_columns_options *options);

// ---- Records ---------------------------------------------------------------
// Options of concatenated records of one size. Zero in a field means its
// default.
typedef struct ls_records_options {
  int64_t size;  // Bytes per record. At least 1.
  // Bytes at the start and end of each file that belong to no record.
  int64_t header, footer;
  ls_flag load;  // On: the maker reads the files: see above.
} ls_records_options;
// Reads records as u8 [size].
LS_API ls_dataset *ls_dataset_records(const char *const *paths,
                                      size_t num_paths,
                                      const ls_records_options *options);

// Zero in a field means its default.
typedef struct ls_lines_options {
  ls_flag keep_index;  // Keeps FILE.index. Default off.
  ls_flag load;        // On: the maker reads the files: see above.
} ls_lines_options;
// Reads lines as string scalars, without the LF or CR LF at their ends.
// Recognizes gzip files.
LS_API ls_dataset *ls_dataset_lines(const char *const *paths, size_t num_paths,
                                    const ls_lines_options *options);

// ---- CSV -------------------------------------------------------------------
typedef struct ls_csv_column {
  const char *name;
  // Any of floats, integers, bool and string. Default: the first of i64, f32
  // and string that fits the first 100 rows of the first file, and `missing`.
  ls_dtype dtype;
  // Value of a field that is empty or, without quotes, "NA", "N/A", "NaN",
  // "null" or "None", in any letters. Default: an empty field is refused,
  // except in a string column, and the words are values like others.
  const char *missing;
  bool stacked;  // One of the columns that are stacked into one array.
} ls_csv_column;

// Zero in a field means its default.
typedef struct ls_csv_options {
  // Columns to read, by name. Default: all, which have a name each.
  const ls_csv_column *columns;
  size_t num_columns;
  // On: each file begins with a line of names, without spaces around those that
  // have no quotes. Default on. Off: `columns` are all there are, in order.
  ls_flag header;
  char delimiter;      // Default ','.
  ls_flag keep_index;  // Keeps FILE.index. Default off.
  ls_flag load;        // On: the maker reads the files: see above.
  // Name of the array [n] of the n stacked columns, in the order of `columns`:
  // numbers of one type. Default "values".
  const char *stack;
} ls_csv_options;
// Reads rows as dicts of scalars, one per column that is not stacked. `options`
// may be NULL.
LS_API ls_dataset *ls_dataset_csv(const char *const *paths, size_t num_paths,
                                  const ls_csv_options *options);

// ---- TFRecord --------------------------------------------------------------
// A feature of tf.Example. Zero in a field means its default.
typedef struct ls_tfrecord_feature {
  const char *name;
  // String: lists of bytes. Floats: lists of floats. Integers and bool: lists
  // of integers, which must be within the type's range. All but string also
  // accept one bytes value, which holds the elements themselves, little-endian.
  ls_dtype dtype;
  // Default: a scalar. [-1]: as many as the example has.
  ls_shape shape;
  // Allows examples without it: all elements are then `missing`, or empty
  // strings; with shape [-1] there are none. Default: they are refused.
  // `missing` must be a value of the type.
  bool optional;
  double missing;
} ls_tfrecord_feature;

// Zero in a field means its default.
typedef struct ls_tfrecord_options {
  // Default: none; elements are then the records' bytes, string scalars.
  const ls_tfrecord_feature *features;
  size_t num_features;
  ls_flag check;       // Verifies checksums of records. Default on.
  ls_flag keep_index;  // Keeps FILE.index. Default off.
  ls_flag load;        // On: the maker reads the files: see above.
} ls_tfrecord_options;
// Reads records of TFRecord files; with features as dicts of them. Recognizes
// gzip files. `options` may be NULL.
LS_API ls_dataset *ls_dataset_tfrecords(const char *const *paths,
                                        size_t num_paths,
                                        const ls_tfrecord_options *options);

// ---- Images ----------------------------------------------------------------
// Options of a folder of images. Zero in a field means its default.
typedef struct ls_image_folder_options {
  // Size to resize images to; set both or none. Default: unchanged, so that
  // elements differ in shape.
  int64_t height, width;
  // Crops an image to the shape's aspect ratio, evenly at both ends, before it
  // is resized. Default: stretches it to the shape.
  bool cut;
  int channels;         // See ls_image_options (image.h). Default 3.
  int64_t most_pixels;  // See ls_image_options.
  bool allow_damaged;   // See ls_image_options.
} ls_image_folder_options;
// Reads images by class: elements (u8 [height, width, channels], i32 label) of
// the files folder/CLASS/NAME.png, .jpg and .jpeg. Classes are the subfolders,
// sorted by the bytes of their names, and labels their numbers from 0; elements
// are sorted by class and name. Skips names that begin with a dot and other
// files. Keeps the names in memory; reads and decodes a file when its element
// is read, on the reading thread. `options` may be NULL.
//   LS_NOT_FOUND  no such folder, no folder in it, or no image in one.
// A file that cannot be read is a failure of its element, and names the file.
LS_API ls_dataset *
ls_dataset_image_folder(const char *folder,
                        const ls_image_folder_options *options);
// Returns the name of a class of such a data set, lent; NULL if it has no such
// label, or is another data set.
LS_API const char *ls_image_folder_class(const ls_dataset *dataset,
                                         int64_t label);
// Prints the path of an element's file within the folder, "cats/1.png", into
// `buffer`, cut to `size`. Returns false if there is no such element, or it is
// another data set.
LS_API bool ls_image_folder_file(const ls_dataset *dataset, int64_t index,
                                 char *buffer, size_t size);

// Reads the first record of these files, a tf.Example: a dict with an array [n]
// of each feature's n values by its name, string, f32 or i64; a none leaf for a
// feature without a list. Failed if it cannot be read. The caller owns the
// nest.
//   LS_OUT_OF_RANGE  there is no record.
LS_API ls_nest ls_tfrecord_first_example(const char *const *paths,
                                         size_t num_paths);

// ---- Writing ---------------------------------------------------------------
// A file is written under a temporary name and becomes visible when it is
// complete, replacing an existing one.

// Writes an array in NumPy's format.
//   LS_UNIMPLEMENTED  bf16, strings and other types that NumPy lacks
LS_API LS_MUST_USE ls_status ls_npy_write(const char *path,
                                          const ls_array *array);
// Writes the arrays of a dict, lent, by their keys, for numpy.load. `packed`:
// deflated; default off.
//   LS_INVALID_ARGUMENT  no dict, or an item that is no array
LS_API LS_MUST_USE ls_status ls_npz_write(const char *path, ls_nest arrays,
                                          ls_flag packed);

// Reads an array from the bytes of an npy file. The caller owns it.
//   LS_INVALID_ARGUMENT  no npy file
//   LS_UNIMPLEMENTED     elements that arrays lack: objects, times, structures
//   LS_DATA_LOSS         fewer or more bytes than its header says
LS_API LS_MUST_USE ls_status ls_npy_parse(const void *data, size_t size,
                                          ls_array **out_array);
// Reads the arrays of the bytes of an npz file: a dict by their names, which
// the caller owns. Refuses members of more than `most_bytes` together, before
// it unpacks the member that exceeds them.
//   LS_INVALID_ARGUMENT  no npz file, or too many bytes
//   LS_DATA_LOSS         damaged: names the member
LS_API LS_MUST_USE ls_status ls_npz_parse(const void *data, size_t size,
                                          size_t most_bytes,
                                          ls_nest *out_arrays);
// Makes an array of u8, which the caller owns, with the bytes of an npy file.
//   LS_UNIMPLEMENTED  as in ls_npy_write
LS_API LS_MUST_USE ls_status ls_npy_print(const ls_array *array,
                                          ls_array **out_bytes);

// Writes a TFRecord file. Thread-compatible.
typedef struct ls_tfrecord_writer ls_tfrecord_writer;
// Opens a writer; the caller closes it.
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_open(const char *path, ls_tfrecord_writer **out_writer);
LS_API LS_MUST_USE ls_status ls_tfrecord_writer_write(
    ls_tfrecord_writer *writer, const void *data, size_t size);
// Writes a dict of arrays, lent, as a tf.Example: strings as bytes values,
// floats as f32, integers and bool as i64, row by row; u8 of rank 1 and more as
// one bytes value, as images are stored.
//   LS_INVALID_ARGUMENT  no dict, no such array, or a u64 beyond i64
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_write_example(ls_tfrecord_writer *writer, ls_nest features);
// Closes the writer. The file exists afterwards if `keep` is true and nothing
// failed. NULL is fine.
LS_API LS_MUST_USE ls_status
ls_tfrecord_writer_close(ls_tfrecord_writer *writer, bool keep);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FILES_H_

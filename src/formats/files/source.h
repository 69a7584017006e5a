// SPDX-License-Identifier: Apache-2.0
// Data sets of records in files, one file after the other.
//
// An open file with its records' offsets is counted, and shared by a data set
// and its shards. A format with its options (the decoder, counted too) defines
// the records.
#ifndef LS_FORMATS_FILES_SOURCE_H_
#define LS_FORMATS_FILES_SOURCE_H_

#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "data/dataset.h"
#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"
#include "io/reader.h"
#include "lockstep/files.h"

// ---- Files -----------------------------------------------------------------
// Ends a message about a number that is no byte: how the command reads it.
#define LS_BYTES_HINT                                                          \
  "; the command takes whole numbers as bytes where the first ones of the "    \
  "training are: train with --features '"

typedef struct ls_source_file {
  ls_object object;
  ls_allocator *allocator;
  ls_file *file;
  char *bytes;  // The file's bytes if loaded, otherwise NULL.
  ls_packing packing;
  ls_offsets offsets;  // Empty for packed files and records of one size.
  int64_t count;       // Number of records; -1 for packed files.
} ls_source_file;

LS_OWNED_POINTER(ls_source_file, ls_object_release)
// Opens a file in a pool, which may be NULL; the caller owns it.
LS_MUST_USE ls_status ls_source_file_open(const char *path, ls_file_pool *pool,
                                          ls_source_file **out_file);

// Returns true if elements of `size` bytes should be loaded, given the option
// and the bytes loaded so far for the data set, `*loaded`, to which it adds
// them.
bool ls_source_loads(ls_flag load, int64_t size, int64_t *loaded);

// Lists the files that paths and patterns name, in order: one block that the
// caller owns.
LS_MUST_USE ls_status ls_source_paths(const char *const *paths, size_t count,
                                      ls_allocator *allocator,
                                      const char ***out_paths,
                                      size_t *out_count);

// Appends a file to a data set's description: "name:size", without its folders,
// so that the file may move.
void ls_source_describe(const ls_file *file, ls_text *text);

// ---- Records ---------------------------------------------------------------
// Position of a record, for messages and decoders.
typedef struct ls_record_at {
  const ls_file *file;
  int64_t record;  // Counts from 0.
  int64_t offset;
  bool opened;  // `next` has already checked and unpacked its bytes.
} ls_record_at;

struct ls_record_decoder;

typedef struct ls_record_format {
  const char *name;  // Name in messages, such as "tfrecords".
  // Finds where records begin: fills file->offsets and file->count.
  ls_status (*scan)(const struct ls_record_decoder *decoder,
                    ls_source_file *file);
  // Checks a file whose offsets are known. NULL: nothing to check.
  ls_status (*check)(const struct ls_record_decoder *decoder,
                     const ls_source_file *file);
  // True if `read` and `make` overwrite a record's bytes.
  bool writes;
  // For elements that are rows: decodes a record to row `k` of rows[leaf].
  ls_status (*read)(const struct ls_record_decoder *decoder, ls_fetch *fetch,
                    const ls_record_at *at, char *bytes, size_t size,
                    const size_t *row_sizes, void *const *rows, size_t k);
  // For elements not filled in place: decodes a record to an element, in-out.
  ls_status (*make)(const struct ls_record_decoder *decoder, ls_fetch *fetch,
                    const ls_record_at *at, char *bytes, size_t size,
                    ls_nest *element);
  // For formats whose files may be packed: reads the next record of a reader,
  // number at->record, into its window, checked and without its frame; sets
  // at->offset. OUT_OF_RANGE: the end.
  ls_status (*next)(const struct ls_record_decoder *decoder, ls_reader *reader,
                    ls_record_at *at, char **bytes, size_t *size);
  // Appends the options to a data set's description.
  void (*describe)(const struct ls_record_decoder *decoder, ls_text *text);
  void (*destroy)(struct ls_record_decoder *decoder);  // May be NULL.
} ls_record_format;

// A record format with its options; immutable once it is in a data set. First
// member of each decoder.
typedef struct ls_record_decoder {
  ls_object object;
  ls_allocator *allocator;
  const ls_record_format *format;
  ls_nest spec;  // Spec with ls_nest_spec leaves.
  // Identifies options on which saved offsets depend. 0: offsets are not saved.
  uint32_t index_kind;
  ls_flag load;
} ls_record_decoder;

// Makes a zeroed decoder of `bytes` bytes; NULL without memory.
ls_record_decoder *ls_record_decoder_new(const ls_record_format *format,
                                         size_t bytes);

struct ls_windows;
typedef struct ls_record_source {
  ls_dataset base;
  ls_record_decoder *decoder;
  ls_source_file **files;
  size_t num_files;
  int64_t *first;              // First element of each file, then the total.
  struct ls_windows *windows;  // For indexed data sets.
} ls_record_source;

// Makes the data set of these files. Takes over `decoder` and `status`, the
// failure of making the decoder, if any.
ls_dataset *ls_record_source_new(const char *const *paths, size_t num_paths,
                                 ls_record_decoder *decoder, ls_status status);
// Decodes a record to an element, in-out.
LS_MUST_USE ls_status ls_record_source_element(const ls_record_source *self,
                                               ls_fetch *fetch,
                                               const ls_record_at *at,
                                               char *bytes, size_t size,
                                               ls_nest *element);

// Stage class that reads the files sequentially.
extern const struct ls_stage_class ls_record_stage;

// Replaces `*element` by a string scalar of these bytes.
LS_MUST_USE ls_status ls_element_of_bytes(const void *data, size_t size,
                                          ls_nest *element);

// ---- Features --------------------------------------------------------------
// Features of tf.Examples as elements: dicts with a leaf per feature.
typedef struct ls_features ls_features;

// Copies the requested features.
//   LS_INVALID_ARGUMENT  a feature without a name, given twice, or of an
//                        unsupported type or shape.
LS_MUST_USE ls_status ls_features_create(const ls_tfrecord_feature *features,
                                         size_t count, ls_features **out);
void ls_features_destroy(ls_features *features);  // Accepts NULL.
LS_OWNED_POINTER(ls_features, ls_features_destroy)
// Returns the spec of elements: a dict of ls_nest_spec leaves.
ls_nest ls_features_spec(const ls_features *features);
void ls_features_describe(const ls_features *features, ls_text *text);

// Reads the features of an example into row `k` of rows[leaf]. All shapes must
// be known and all types plain numbers. `place` is the example's position.
//   LS_INVALID_ARGUMENT  a feature is missing, of another kind, of another
//                        number of values, or out of bounds: names file,
//                        record, feature and both values.
LS_MUST_USE ls_status ls_features_read(
    const ls_features *features, ls_fetch *fetch, const ls_record_place *place,
    ls_bytes example, const size_t *row_sizes, void *const *rows, size_t k);
// Makes an element of any features, in-out.
LS_MUST_USE ls_status ls_features_make(const ls_features *features,
                                       ls_fetch *fetch,
                                       const ls_record_place *place,
                                       ls_bytes example, ls_nest *element);

// ---- Windows ---------------------------------------------------------------
// Windows: ranges of files in memory, for elements that will all be read soon,
// in any order, as by a shuffle by blocks. Threads that need the same window
// read its parts in parallel; a thread that finds no window, or not yet the
// bytes it needs, reads for itself. So no thread waits for another.

enum {
  LS_WINDOWS = 4,                  // Number of windows per data set.
  LS_FILE_WINDOW_MOST = 16 << 20,  // Largest size of a window.
  LS_FILE_WINDOW_PART = 256 << 10  // Size of a part; at most 64 parts.
};

typedef enum ls_file_window_state {
  LS_FILE_WINDOW_EMPTY,
  LS_FILE_WINDOW_BEING_READ,
  LS_FILE_WINDOW_READ
} ls_file_window_state;

typedef struct ls_file_window {
  ls_file_window_state state;
  const ls_source_file *file;
  int64_t first, count;  // Range of records of the file.
  char *bytes;           // Bytes from record `first` on.
  size_t size;           // Size in bytes of the window's records.
  size_t capacity;       // Capacity of `bytes`, which is reused.
  int parts_begun, parts_done;
  uint64_t there;  // A bit for each part that was read. Atomic.
  int64_t taken;   // Number of records read from the window.
  int users;
} ls_file_window;

typedef struct ls_windows {
  ls_allocator *allocator;
  ls_mutex lock;
  ls_file_window all[LS_WINDOWS];
} ls_windows;

LS_MUST_USE ls_status ls_windows_init(ls_windows *windows,
                                      ls_allocator *allocator);
void ls_windows_deinit(ls_windows *windows);

// Returns the window of these records, to read about `wanted` of them; call
// ls_windows_leave afterwards. Reads the parts that no thread has begun. A new
// window replaces one whose records have mostly been read. NULL: none is free,
// or there is no memory.
ls_file_window *ls_windows_enter(ls_windows *windows,
                                 const ls_source_file *file, int64_t first,
                                 int64_t count, int64_t wanted);
// Returns bytes of the file in a window; NULL if they are not there (yet).
char *ls_file_window_find(const ls_file_window *window, int64_t offset,
                          size_t size);
void ls_windows_leave(ls_windows *windows,
                      ls_file_window *window);  // Accepts NULL.

#endif  // LS_FORMATS_FILES_SOURCE_H_

// SPDX-License-Identifier: Apache-2.0
// Data sets made of files, one behind the other: what they have in common.
//
// An open file and where its records begin are counted, and shared by a data
// set and its shards. What a record is, a format says, with what it was told
// (its decoder, counted too).
#ifndef LS_FORMATS_FILES_SOURCE_H_
#define LS_FORMATS_FILES_SOURCE_H_

#include "data/dataset.h"
#include "formats/bytes/offsets.h"
#include "io/reader.h"
#include "lockstep/files.h"

// ---- Files -----------------------------------------------------------------
typedef struct ls_source_file {
  ls_object object;
  ls_allocator *allocator;
  ls_file *file;
  char *bytes;  // All of it, which `file` is then in memory; NULL: not read.
  ls_packing packing;
  ls_offsets offsets;  // None of packed ones and of records of one size.
  int64_t count;       // Records; -1 of packed ones.
} ls_source_file;

LS_OWNED_POINTER(ls_source_file, ls_object_release)
// Opens a file, of a pool or NULL; the caller owns it.
LS_MUST_USE ls_status ls_source_file_open(const char *path, ls_file_pool *pool,
                                          ls_source_file **out_file);

// Reads all of it, so that nothing is read from the disk any more.
LS_MUST_USE ls_status ls_source_file_load(ls_source_file *file);
// Whether elements of `size` bytes are read by the maker, by the option and by
// how much has been read for the data set: `*loaded`, which is moved on.
bool ls_source_loads(ls_flag load, int64_t size, int64_t *loaded);

// The files that paths and patterns name, in order: one block of the caller's.
LS_MUST_USE ls_status ls_source_paths(const char *const *paths, size_t count,
                                      ls_allocator *allocator,
                                      const char ***out_paths,
                                      size_t *out_count);

// Appends a file as descriptions of data sets have it: "name:size", without its
// folders, so that it may move.
void ls_source_describe(const ls_file *file, ls_text *text);

// ---- Records ---------------------------------------------------------------
// A record, for messages and for those who read it.
typedef struct ls_record_at {
  const ls_file *file;
  int64_t record;  // From 0.
  int64_t offset;
  bool opened;  // Its bytes are what `next` has given.
} ls_record_at;

struct ls_record_decoder;

typedef struct ls_record_format {
  const char *name;  // "tfrecords".
  // Where records begin: fills file->offsets and file->count.
  ls_status (*scan)(const struct ls_record_decoder *decoder,
                    ls_source_file *file);
  // Whether a file fits, once its offsets are known. NULL: any does.
  ls_status (*check)(const struct ls_record_decoder *decoder,
                     const ls_source_file *file);
  // Whether `read` and `make` write into a record's bytes.
  bool writes;
  // Of rows: a record's bytes, as element `k` of what
  // begins at rows[leaf].
  ls_status (*read)(const struct ls_record_decoder *decoder, ls_fetch *fetch,
                    const ls_record_at *at, char *bytes, size_t size,
                    const size_t *row_sizes, void *const *rows, size_t k);
  // Of others: as an element, in-out.
  ls_status (*make)(const struct ls_record_decoder *decoder, ls_fetch *fetch,
                    const ls_record_at *at, char *bytes, size_t size,
                    ls_nest *element);
  // Of those that may be packed: the next record of a reader, number
  // at->record, in its window, checked and without what is around it; sets
  // at->offset. OUT_OF_RANGE: the end.
  ls_status (*next)(const struct ls_record_decoder *decoder, ls_reader *reader,
                    ls_record_at *at, char **bytes, size_t *size);
  // Appends the options.
  void (*describe)(const struct ls_record_decoder *decoder, ls_text *text);
  void (*destroy)(struct ls_record_decoder *decoder);  // NULL: nothing.
} ls_record_format;

// What records are made into; immutable once it is in a data set. Every
// decoder's first member.
typedef struct ls_record_decoder {
  ls_object object;
  ls_allocator *allocator;
  const ls_record_format *format;
  ls_nest spec;  // Leaves of ls_nest_spec.
  // Of kept offsets: what they depend on beside the file. 0: they are not kept.
  uint32_t index_kind;
  ls_flag load;
} ls_record_decoder;

// A zeroed decoder of `bytes`; NULL: no memory.
ls_record_decoder *ls_record_decoder_new(const ls_record_format *format,
                                         size_t bytes);

struct ls_windows;
typedef struct ls_record_source {
  ls_dataset base;
  ls_record_decoder *decoder;
  ls_source_file **files;
  size_t num_files;
  int64_t *first;  // The first element of each file, and behind the last.
  struct ls_windows *windows;  // Of indexed ones.
} ls_record_source;

// The data set of these files. `decoder` is taken over; `status` (taken over)
// is what went wrong with it.
ls_dataset *ls_record_source_new(const char *const *paths, size_t num_paths,
                                 ls_record_decoder *decoder, ls_status status);
// One record as an element, in-out.
LS_MUST_USE ls_status ls_record_source_element(const ls_record_source *self,
                                               ls_fetch *fetch,
                                               const ls_record_at *at,
                                               char *bytes, size_t size,
                                               ls_nest *element);

// Reads the files from the start to the end.
extern const struct ls_stage_class ls_record_stage;

// A string scalar of these bytes in place of `*element`.
LS_MUST_USE ls_status ls_element_of_bytes(const void *data, size_t size,
                                          ls_nest *element);

#endif  // LS_FORMATS_FILES_SOURCE_H_

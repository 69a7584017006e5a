// SPDX-License-Identifier: Apache-2.0
// Safetensors: named arrays in one file that other tools read too. Eight bytes
// with the size of a JSON header, the header, the elements, little-endian.
//
// What we write here holds checksums: the first note in the header,
// LS_SAFETENSORS_SUMS, has 8 hexadecimal digits for the header (with its size;
// these digits count as zeros) and 8 for the elements of each array, in the
// order of the header, CRC-32C. Reading compares them. Files of others have
// none, and those of checkpoints have theirs in the .json.
//
// Elements stand without gaps, arrays with wider elements first, so that each
// one is aligned for its type; the first one at a cache line.
#ifndef LS_IO_SAFETENSORS_H_
#define LS_IO_SAFETENSORS_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/threads/workers.h"
#include "lockstep/array.h"

typedef struct ls_safetensor {
  const char *name;
  ls_array *array;
} ls_safetensor;

// An array's place in a file, without its elements.
typedef struct ls_safetensors_entry {
  const char *name;
  ls_dtype dtype;
  ls_shape shape;
  int64_t offset;  // Of its elements, in the file.
  size_t size;     // In bytes.
  bool has_crc;    // Read: the file says the checksum of the elements.
  uint32_t crc;
} ls_safetensors_entry;

// A note in the header.
typedef struct ls_safetensors_note {
  const char *key, *value;
} ls_safetensors_note;

#define LS_SAFETENSORS_SUMS "ls.crc32c"
// Where a header with checksums begins, behind its size, and the first digit.
#define LS_SAFETENSORS_SUMS_BEGIN                                              \
  "{\"__metadata__\":{\"" LS_SAFETENSORS_SUMS "\":\""
enum {
  LS_SAFETENSORS_SUMS_AT = 8 + sizeof(LS_SAFETENSORS_SUMS_BEGIN) - 1,
  LS_SAFETENSORS_DIGITS = 8  // Of a checksum.
};

// ---- Where everything is ---------------------------------------------------
// Fills in the offsets and sizes of entries, and appends the header, with its
// size before it, to a text that is empty. `*out_size` is that of the file.
// With `sums` there is room for checksums, which ls_safetensors_seal fills in.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_lay_out(ls_text *text,
                                             ls_safetensors_entry *entries,
                                             size_t num_entries,
                                             const ls_safetensors_note *notes,
                                             size_t num_notes, bool sums,
                                             size_t *out_size);
// `crcs` has one number an entry, in the order of `entries`, as they were laid
// out.
void ls_safetensors_seal(char *header, size_t size,
                         const ls_safetensors_entry *entries,
                         size_t num_entries, const uint32_t *crcs);

// ---- Files that are written bit by bit -------------------------------------
// A file whose arrays are written from wherever they are, in any order. Nobody
// sees it before it is finished.
typedef struct ls_safetensors_writer ls_safetensors_writer;

// Begins a file with these entries, whose offsets and sizes are filled in; they
// are lent until it is finished, which writes the header with the checksums.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_create(
    ls_runtime *runtime, const char *path, ls_safetensors_entry *entries,
    size_t num_entries, const ls_safetensors_note *notes, size_t num_notes,
    ls_safetensors_writer **out_writer);
// Writes the elements of one of these entries; `*out_crc`, if not NULL, is
// their CRC-32C. By any threads at the same time.
LS_MUST_USE ls_status ls_safetensors_put(ls_safetensors_writer *writer,
                                         const ls_safetensors_entry *entry,
                                         const void *data, uint32_t *out_crc);
// Ends the writing, in any case; with `keep` the file is synced and takes its
// place, else it is taken away. NULL is fine.
LS_MUST_USE ls_status ls_safetensors_finish(ls_safetensors_writer *writer,
                                            bool keep);

// ---- Files that are read bit by bit ----------------------------------------
// An open file, and what its header says.
typedef struct ls_safetensors_file {
  ls_safetensors_entry *entries;
  size_t num_entries;
  ls_safetensors_note *notes;
  size_t num_notes;
  uint32_t header_crc;
  char *path;
  ls_runtime *runtime;
  ls_arena *arena;  // Of the names and notes.
  void *handle;     // The file system's.
} ls_safetensors_file;

// As ls_safetensors_decode says of faults.
LS_MUST_USE ls_status ls_safetensors_open(ls_runtime *runtime, const char *path,
                                          ls_safetensors_file *out_file);
void ls_safetensors_close(ls_safetensors_file *file);  // Zeroed is fine.
// Reads an entry's elements; `*out_crc`, if not NULL, is their CRC-32C. By any
// threads at the same time.
//   LS_DATA_LOSS  the file has been cut off meanwhile; the elements have
//   another
//                 checksum than the file says: names both.
LS_MUST_USE ls_status ls_safetensors_get(const ls_safetensors_file *file,
                                         const ls_safetensors_entry *entry,
                                         void *data, uint32_t *out_crc);
// That of elements that were read in pieces is the one that the file says, if
// it says one.
LS_MUST_USE ls_status ls_safetensors_check(const ls_safetensors_file *file,
                                           const ls_safetensors_entry *entry,
                                           uint32_t crc);
// An entry that is wanted of a file.
typedef struct ls_safetensors_wish {
  const ls_safetensors_entry *entry;
  void *data;    // Where its elements go. NULL: nowhere, they are only read.
  uint32_t crc;  // The CRC-32C of its elements, with LS_SUMS_ALL.
} ls_safetensors_wish;
// Checksums to compute while entries are read.
typedef enum ls_sums {
  LS_SUMS_HELD,  // Those that the file holds; they are compared.
  LS_SUMS_ALL,   // Also where the file holds none.
  LS_SUMS_NONE,  // None: the entries were read and compared before.
} ls_sums;
// Reads many entries, piece by piece by all workers; NULL, or where they cannot
// be had: by the caller.
LS_MUST_USE ls_status ls_safetensors_get_many(const ls_safetensors_file *file,
                                              ls_workers *workers,
                                              ls_safetensors_wish *wishes,
                                              size_t count, ls_sums sums);
// The entry of this name; NULL without one.
const ls_safetensors_entry *
ls_safetensors_entry_of(const ls_safetensors_file *file, const char *name);

// ---- Whole files -----------------------------------------------------------
// The bytes of a file, which the caller gives back with ls_release. Everything
// is lent.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_encode(ls_allocator *allocator,
                                            const ls_safetensor *tensors,
                                            size_t num_tensors,
                                            const ls_safetensors_note *notes,
                                            size_t num_notes, char **out_bytes,
                                            size_t *out_size);
// The same, into a file that is replaced as a whole.
LS_MUST_USE ls_status ls_safetensors_write(
    ls_runtime *runtime, const char *path, const ls_safetensor *tensors,
    size_t num_tensors, const ls_safetensors_note *notes, size_t num_notes);

// What a file holds, in the order of its header.
typedef struct ls_safetensors {
  ls_safetensor *tensors;
  size_t num_tensors;
  ls_safetensors_note *notes;
  size_t num_notes;
  ls_arena *arena;  // Of the names and notes.
  ls_allocator *allocator;
} ls_safetensors;

// Reads a file's bytes; arrays are copies. `name` is what messages call it.
// However the header is made, its memory is a few times its size.
//   LS_DATA_LOSS         cut off, elements are not where the header says,
//                        arrays overlap or leave a hole, or a checksum is
//                        another one.
//   LS_INVALID_ARGUMENT  the header is no such JSON.
LS_MUST_USE ls_status ls_safetensors_decode(ls_allocator *allocator,
                                            const char *name, const void *bytes,
                                            size_t size,
                                            ls_safetensors *out_file);
LS_MUST_USE ls_status ls_safetensors_read(ls_runtime *runtime, const char *path,
                                          ls_safetensors *out_file);
// Frees the list and its references to the arrays. Zeroed is fine.
void ls_safetensors_deinit(ls_safetensors *file);
// The array of this name, lent; NULL without one.
ls_array *ls_safetensors_find(const ls_safetensors *file, const char *name);

#endif  // LS_IO_SAFETENSORS_H_

// SPDX-License-Identifier: Apache-2.0
// Safetensors: named arrays in one file that other tools read too. Eight bytes
// with the size of a JSON header, the header, the elements, little-endian.
//
// Files written here hold checksums: the first note in the header,
// LS_SAFETENSORS_SUMS, has 8 hexadecimal digits for the header (with its size;
// these digits count as zeros) and 8 for the elements of each array, in the
// order of the header, CRC-32C. Reading verifies them. Files of other writers
// have none, and those of checkpoints have theirs in the .json.
//
// Elements are stored without gaps, arrays with wider elements first, so that
// each one is aligned for its type; the first one at a cache line.
#ifndef LS_IO_SAFETENSORS_H_
#define LS_IO_SAFETENSORS_H_

#include "base/memory/arena.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/threads/workers.h"
#include "lockstep/array.h"
#include "lockstep/shape.h"

// Name, type and position of an array in a file.
typedef struct ls_safetensors_entry {
  const char *name;
  ls_dtype dtype;
  ls_shape shape;
  int64_t offset;  // Position of its elements in the file.
  size_t size;     // Size in bytes.
  bool has_crc;    // Reading: the file has a checksum of this array.
  uint32_t crc;
} ls_safetensors_entry;

// A note: a key and a text in the header.
typedef struct ls_safetensors_note {
  const char *key, *value;
} ls_safetensors_note;

#define LS_SAFETENSORS_SUMS "ls.crc32c"
// How a header with checksums starts after its size, up to the first digit.
#define LS_SAFETENSORS_SUMS_BEGIN                                              \
  "{\"__metadata__\":{\"" LS_SAFETENSORS_SUMS "\":\""
enum {
  LS_SAFETENSORS_SUMS_AT = 8 + sizeof(LS_SAFETENSORS_SUMS_BEGIN) - 1,
  LS_SAFETENSORS_DIGITS = 8  // Digits of a checksum.
};

// ---- Layout ----------------------------------------------------------------
// Lays out a file: fills in the offsets and sizes of entries, and appends the
// header, with its size before it, to an empty text. `*out_size` is the size of
// the file. With `sums` there is room for checksums, which ls_safetensors_seal
// fills in.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_lay_out(ls_text *text,
                                             ls_safetensors_entry *entries,
                                             size_t num_entries,
                                             const ls_safetensors_note *notes,
                                             size_t num_notes, bool sums,
                                             size_t *out_size);
// Fills in the checksums; `crcs` has one per entry, in the order of `entries`
// as they were laid out.
void ls_safetensors_seal(char *header, size_t size,
                         const ls_safetensors_entry *entries,
                         size_t num_entries, const uint32_t *crcs);

// ---- Writing in pieces -----------------------------------------------------
// A file whose arrays are written from any memory, in any order. It becomes
// visible when it is finished.
typedef struct ls_safetensors_writer ls_safetensors_writer;

// Begins a file with these entries, which are lent until the file is finished,
// and fills in their offsets and sizes.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_create(
    ls_runtime *runtime, const char *path, ls_safetensors_entry *entries,
    size_t num_entries, const ls_safetensors_note *notes, size_t num_notes,
    ls_safetensors_writer **out_writer);
// Writes the elements of an entry; `*out_crc`, if not NULL, is their CRC-32C.
// Thread-safe.
LS_MUST_USE ls_status ls_safetensors_put(ls_safetensors_writer *writer,
                                         const ls_safetensors_entry *entry,
                                         const void *data, uint32_t *out_crc);
// Ends the file. With `keep` writes the header with the checksums, syncs the
// file and moves it into place, otherwise removes it. Accepts NULL.
LS_MUST_USE ls_status ls_safetensors_finish(ls_safetensors_writer *writer,
                                            bool keep);

// ---- Reading in pieces -----------------------------------------------------
// An open file and its header.
typedef struct ls_safetensors_file {
  ls_safetensors_entry *entries;
  size_t num_entries;
  ls_safetensors_note *notes;
  size_t num_notes;
  uint32_t header_crc;
  char *path;
  ls_runtime *runtime;
  ls_arena arena;  // Memory of the names and notes.
  void *handle;    // The file system's handle.
} ls_safetensors_file;

// Opens a file. For any header the memory needed is a few times its size.
//   LS_DATA_LOSS         cut off, elements are not where the header says,
//                        arrays overlap or leave a hole, or the header's
//                        checksum differs.
//   LS_INVALID_ARGUMENT  the header is not such JSON.
LS_MUST_USE ls_status ls_safetensors_open(ls_runtime *runtime, const char *path,
                                          ls_safetensors_file *out_file);
void ls_safetensors_close(ls_safetensors_file *file);  // Accepts a zeroed file.
// Reads an entry's elements; `*out_crc`, if not NULL, is their CRC-32C.
// Thread-safe.
LS_OWNED_STRUCT(ls_safetensors_file, ls_safetensors_close)
// LS_DATA_LOSS  the file has been cut off meanwhile, or the elements' checksum
//                 differs from that in the file: names both.
LS_MUST_USE ls_status ls_safetensors_get(const ls_safetensors_file *file,
                                         const ls_safetensors_entry *entry,
                                         void *data, uint32_t *out_crc);
// Compares the checksum of elements read in pieces with that in the file, if it
// has one.
LS_MUST_USE ls_status ls_safetensors_check(const ls_safetensors_file *file,
                                           const ls_safetensors_entry *entry,
                                           uint32_t crc);
// A request for one entry of a file.
typedef struct ls_safetensors_wish {
  const ls_safetensors_entry *entry;
  void *data;    // Destination of the elements. NULL: only checked.
  uint32_t crc;  // CRC-32C of the elements, with LS_SUMS_ALL.
} ls_safetensors_wish;
// Checksums to compute while entries are read.
typedef enum ls_sums {
  LS_SUMS_HELD,  // Compares checksums that the file has.
  LS_SUMS_ALL,   // Computes checksums of all entries.
  LS_SUMS_NONE,  // None: entries were verified before.
} ls_sums;
// Reads many entries, piece by piece on all workers, or on the caller's thread
// if `workers` is NULL or busy.
LS_MUST_USE ls_status ls_safetensors_get_many(const ls_safetensors_file *file,
                                              ls_workers *workers,
                                              ls_safetensors_wish *wishes,
                                              size_t count, ls_sums sums);
// Returns the entry of this name, or NULL.
const ls_safetensors_entry *
ls_safetensors_entry_of(const ls_safetensors_file *file, const char *name);

// Returns the name of a dtype; NULL if the format does not have it.
static inline const char *ls_safetensors_dtype_name(ls_dtype dtype) {
  static const char *const names[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = "F64",   [LS_DTYPE_F32] = "F32", [LS_DTYPE_F16] = "F16",
      [LS_DTYPE_BF16] = "BF16", [LS_DTYPE_I8] = "I8",   [LS_DTYPE_I16] = "I16",
      [LS_DTYPE_I32] = "I32",   [LS_DTYPE_I64] = "I64", [LS_DTYPE_U8] = "U8",
      [LS_DTYPE_U16] = "U16",   [LS_DTYPE_U32] = "U32", [LS_DTYPE_U64] = "U64",
      [LS_DTYPE_BOOL] = "BOOL",
  };
  return names[dtype];
}

#endif  // LS_IO_SAFETENSORS_H_

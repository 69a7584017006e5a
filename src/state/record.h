// SPDX-License-Identifier: Apache-2.0
// Records, for code that writes them into its own files.
#ifndef LS_STATE_RECORD_H_
#define LS_STATE_RECORD_H_

#include "base/memory/map.h"
#include "io/json.h"
#include "lockstep/record.h"

typedef enum ls_entry_kind {
  LS_ENTRY_I64,
  LS_ENTRY_TEXT,
  LS_ENTRY_BYTES,
  LS_ENTRY_RECORD,
} ls_entry_kind;

typedef struct ls_record_entry {
  ls_entry_kind kind;
  int64_t number;
  ls_record *inner;
  size_t size;  // Bytes of the data below, without the zero.
  char data[];
} ls_record_entry;

struct ls_record {
  ls_allocator *allocator;
  ls_map entries;  // Entries by name.
  int depth;       // 1, and one more in each inner record.
};

// Limits: nested records, of which a pipeline needs up to one for each of at
// most 1000 data sets; levels of JSON, with some room for what surrounds a
// record; and values.
enum {
  LS_RECORD_DEPTH = 1080,
  LS_RECORD_LEVELS = LS_RECORD_DEPTH + 16,
  LS_RECORD_ENTRIES = 65000
};

// Names that mark bytes, and texts that are not UTF-8, in JSON.
#define LS_RECORD_BYTES "base64"
#define LS_RECORD_TEXT "base64 text"

// Write a record as one JSON value, and read it into an empty record. `name` is
// the file's name in messages.
void ls_record_write(const ls_record *record, ls_json_writer *json);
LS_MUST_USE ls_status ls_record_read(ls_record *record, const char *name,
                                     const ls_json *value);

#endif  // LS_STATE_RECORD_H_

// SPDX-License-Identifier: Apache-2.0
// Records, as those see them that write them into files of their own.
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
  size_t size;  // Of what follows, without its zero byte.
  char data[];
} ls_record_entry;

struct ls_record {
  ls_allocator *allocator;
  ls_map entries;  // By name.
  int depth;       // 1, and one more in each.
};

// Limits of JSON readers, less what may stand around a record and in it.
enum { LS_RECORD_DEPTH = 48, LS_RECORD_ENTRIES = 65000 };

// The names that mark bytes, and texts that are no UTF-8, in JSON.
#define LS_RECORD_BYTES "base64"
#define LS_RECORD_TEXT "base64 text"

// As one JSON value, and back: into an empty record. `name` is what messages
// call the file.
void ls_record_write(const ls_record *record, ls_json_writer *json);
LS_MUST_USE ls_status ls_record_read(ls_record *record, const char *name,
                                     const ls_json *value);

#endif  // LS_STATE_RECORD_H_

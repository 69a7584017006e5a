// SPDX-License-Identifier: Apache-2.0
// A runtime over files in memory, whose clocks stand still, and the event files
// that are written in it.
#ifndef LS_TESTS_SUPPORT_EVENT_FILES_H_
#define LS_TESTS_SUPPORT_EVENT_FILES_H_

#include "base/memory/own.h"
#include "support/counted.h"
#include "support/event_records.h"
#include "support/memory_files.h"

enum { EVENT_FILES_MOST = 4096, EVENT_FILES_SECONDS = 1700000000 };

typedef struct event_files {
  memory_files files;
  counted memory;
  int64_t nanos;  // What the clock shows; the other one, seconds more.
  ls_bytes events[EVENT_FILES_MOST];
} event_files;

void event_files_begin(event_files *self);
void event_files_end(event_files *self);
LS_OWNED_STRUCT(event_files, event_files_end)
// The nth event file, in the order of names; NULL: there is none.
const memory_file *event_files_nth(const event_files *self, size_t nth);
// Reads its events; their number.
size_t event_files_read(event_files *self, size_t nth);

#endif  // LS_TESTS_SUPPORT_EVENT_FILES_H_

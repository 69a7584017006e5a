// SPDX-License-Identifier: Apache-2.0
#include "support/event_files.h"

#include <string.h>

#include "support/expect.h"

static int64_t now(void *user) { return ((const event_files *)user)->nanos; }
static int64_t wall(void *user) {
  return ((const event_files *)user)->nanos +
         INT64_C(1000000000) * EVENT_FILES_SECONDS;
}
static void sleep_on(void *user, int64_t nanos) {
  ((event_files *)user)->nanos += nanos;
}

void event_files_begin(event_files *self) {
  *self = (event_files){.nanos = 500000000};
  static ls_file_system files;
  files = memory_files_system(&self->files);
  const ls_clock clock = {now, wall, sleep_on, self};
  self->memory = counted_begin_with((ls_runtime_options){
      .file_system = &files, .clock = &clock, .threads = 1});
}

void event_files_end(event_files *self) {
  counted_end(&self->memory);
  memory_files_clear(&self->files);
}

const memory_file *event_files_nth(const event_files *self, size_t nth) {
  const memory_file *found[MEMORY_FILES_MOST] = {NULL};
  size_t count = 0;
  for (size_t i = 0; i < self->files.count; ++i) {
    const memory_file *file = &self->files.items[i];
    if (file->folder || strstr(file->path, "events.out") == NULL) continue;
    size_t at = count++;
    for (; at > 0 && strcmp(found[at - 1]->path, file->path) > 0; --at)
      found[at] = found[at - 1];
    found[at] = file;
  }
  return nth < count ? found[nth] : NULL;
}

size_t event_files_read(event_files *self, size_t nth) {
  const memory_file *file = event_files_nth(self, nth);
  assert_non_null(file);
  return event_records(file->data, file->size, self->events, EVENT_FILES_MOST);
}

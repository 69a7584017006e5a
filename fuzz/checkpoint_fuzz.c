// SPDX-License-Identifier: Apache-2.0
// Any text, with the right checksum behind it, is a checkpoint's .json or a
// status; what it says of its run and its states are records or a status.
#include <stdlib.h>
#include <string.h>

#include "io/crc32c.h"
#include "state/checkpoint_file.h"
#include "state/record.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void read_member(const ls_checkpoint_file *file, const char *key) {
  const ls_json *member = ls_json_find(file->root, key);
  ls_record *record = NULL;
  if (member == NULL) return;
  ls_status status = ls_record_create(&record);
  if (ls_status_is_ok(status)) status = ls_record_read(record, key, member);
  ls_status_free(status);
  ls_record_destroy(record);
}

static ls_status parse(const char *text, size_t size, int64_t step) {
  ls_checkpoint_file file = {.path = (char[]){"fuzz"}};
  ls_arena_init(&file.arena, ls_allocator_system());
  const ls_status status = ls_checkpoint_file_parse(&file, text, size, step);
  if (ls_status_is_ok(status)) {
    read_member(&file, "identity");
    read_member(&file, "state");
  }
  ls_checkpoint_file_deinit(&file);
  return status;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  ls_allocator *allocator = ls_allocator_system();
  ls_text text;
  ls_text_init(&text, allocator);
  // As it is: of what was cut off or flipped nothing is taken.
  ls_text_append_bytes(&text, data, size);
  ls_status_free(parse(ls_text_data(&text), size, 3));
  ls_text_append_format(&text, LS_CHECKPOINT_TAIL,
                        ls_crc32c(0, ls_text_data(&text), size));
  if (ls_status_is_ok(ls_text_status(&text)))
    ls_status_free(parse(ls_text_data(&text), text.size, 3));
  ls_text_deinit(&text);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any text gives a record or a status; what a record is written as reads back
// and is written the same again.
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h"
#include "lockstep/record.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void must(ls_status status) {
  if (!ls_status_is_ok(status)) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  ls_record *record = NULL, *again = NULL, *copy = NULL;
  char *first = NULL, *second = NULL;
  size_t first_size = 0, second_size = 0;
  ls_status status =
      ls_record_from_text("fuzz", (const char *)data, size, &record);
  if (ls_status_is_ok(status)) {
    ls_status written = ls_record_to_text(record, &first, &first_size);
    if (ls_status_is_ok(written)) {
      must(ls_record_from_text("again", first, first_size, &again));
      must(ls_record_create(&copy));
      must(ls_record_copy(copy, again));
      must(ls_record_to_text(copy, &second, &second_size));
      if (first_size != second_size || memcmp(first, second, first_size) != 0)
        abort();
    }
    ls_status_free(written);
  }
  ls_status_free(status);
  ls_text_release(first);
  ls_text_release(second);
  ls_record_destroy(copy);
  ls_record_destroy(again);
  ls_record_destroy(record);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/checkpoint.h"
#include "lockstep/record.h"
#include "lockstep/saved_file.h"
#include "support/refused.h"

TEST(refused_calls_of_checkpoint_leave_nothing) {
  REFUSED(size_t, ls_checkpoints_list(NULL, NULL, 0, &out));
  REFUSED(ls_checkpoints *, ls_checkpoints_open(NULL, &out));
}

TEST(refused_calls_of_record_leave_nothing) {
  REFUSED(ls_record *, ls_record_add(NULL, NULL, &out));
  REFUSED_MEMORY(ls_record *, ls_record_create(&out));
  REFUSED(const ls_record *, ls_record_find(NULL, NULL, &out));
  REFUSED(ls_record *, ls_record_from_text(NULL, NULL, 0, &out));
  REFUSED_TWO(const void *, size_t,
              ls_record_get_bytes(NULL, NULL, &out, &second));
  REFUSED(int64_t, ls_record_get_i64(NULL, NULL, &out));
  REFUSED(const char *, ls_record_get_text(NULL, NULL, &out));
  REFUSED_TWO(char *, size_t, ls_record_to_text(NULL, &out, &second));
}

TEST(refused_calls_of_saved_file_leave_nothing) {
  REFUSED(ls_variable *, ls_saved_file_create_variable(NULL, NULL, NULL, &out));
  REFUSED(ls_saved_entry, ls_saved_file_entry(NULL, 0, &out));
  REFUSED(ls_saved_file *, ls_saved_file_open(NULL, &out));
  REFUSED(ls_saved_file *, ls_saved_file_open_unread(NULL, &out));
  REFUSED(ls_array *, ls_saved_file_read(NULL, 0, &out));
  REFUSED_TWO(ls_record *, ls_record *,
              ls_saved_file_records(NULL, &out, &second));
  REFUSED(size_t, ls_saved_file_write(NULL, NULL, NULL, &out));
  REFUSED(size_t, ls_saved_steps(NULL, NULL, 0, &out));
}

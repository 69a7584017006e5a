// SPDX-License-Identifier: Apache-2.0
// Any bytes are rows of CSV or give a status; fields lie in their rows, and
// what is of a kind is read as such. Any bytes are lines, found by a scan as
// they come one by one.
#include <stdlib.h>

#include "formats/bytes/csv.h"
#include "formats/bytes/offsets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_row(char *row, size_t size) {
  ls_csv_field fields[16];
  size_t count = 0;
  ls_csv_split(row, size, ',', fields, 16, &count);
  if (count == 0) abort();
  for (size_t i = 0; i < count && i < 16; ++i) {
    const ls_csv_field *field = &fields[i];
    if (field->text < row || field->text + field->size > row + size) abort();
    int64_t integer = 0;
    float number = 0;
    bool truth = false;
    const ls_dtype kind = ls_csv_kind(field);
    const bool is_integer = ls_csv_read(field, LS_DTYPE_I64, &integer);
    const bool is_number = ls_csv_read(field, LS_DTYPE_F32, &number);
    (void)!ls_csv_read(field, LS_DTYPE_BOOL, &truth);
    if (is_integer != (kind == LS_DTYPE_I64)) abort();
    // A number may be beyond what f32 holds.
    if (is_number && kind != LS_DTYPE_I64 && kind != LS_DTYPE_F32) abort();
    if (!is_number && kind == LS_DTYPE_I64) abort();
  }
}

static void look_at_rows(const ls_file *file, const uint8_t *data) {
  ls_offsets offsets;
  ls_offsets_init(&offsets, ls_allocator_system());
  ls_status status = ls_csv_scan(file, ',', 0, &offsets);
  if (ls_status_is_ok(status)) {
    for (int64_t i = 0; i < ls_offsets_count(&offsets); ++i) {
      const int64_t from = offsets.items[i];
      const size_t size = (size_t)(offsets.items[i + 1] - from);
      char *row = malloc(size);
      if (row == NULL) abort();
      memcpy(row, data + from, size);
      look_at_row(row, size);
      free(row);
    }
  }
  ls_status_free(status);
  ls_offsets_deinit(&offsets);
}

static void look_at_lines(const ls_file *file, const uint8_t *data) {
  ls_offsets offsets;
  ls_offsets_init(&offsets, ls_allocator_system());
  ls_reader reader;
  if (!ls_status_is_ok(ls_lines_scan(file, &offsets)) ||
      !ls_status_is_ok(ls_reader_open(file, ls_allocator_system(),
                                      &(ls_reader_options){.chunk = 3},
                                      &reader)))
    abort();
  for (int64_t i = 0; i < ls_offsets_count(&offsets); ++i) {
    const int64_t from = offsets.items[i];
    const ls_bytes line = ls_line_trim((const char *)data + from,
                                       (size_t)(offsets.items[i + 1] - from));
    ls_bytes next;
    if (!ls_status_is_ok(ls_lines_next(&reader, &next)) ||
        next.size != line.size || memcmp(next.data, line.data, line.size) != 0)
      abort();
  }
  ls_bytes next;
  ls_status end = ls_lines_next(&reader, &next);
  if (ls_status_code(end) != LS_OUT_OF_RANGE) abort();
  ls_status_free(end);
  ls_reader_close(&reader);
  ls_offsets_deinit(&offsets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_file *file = NULL;
  if (!ls_status_is_ok(
          ls_file_open_bytes(ls_allocator_system(), "fuzz", data, size, &file)))
    abort();
  look_at_rows(file, data);
  look_at_lines(file, data);
  ls_file_close(file);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any two files are a checkpoint or give a status; what is whole is read whole,
// its records too. An input is a byte, the size of the .json in two, that file,
// and the values'. The byte says whether checksums are made right first: that
// of the .json, whose end is written anew, and, in members that are put in
// front of it, those of the values.
#include "base/text.h"
#include "bytes_files.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "state/checkpoint_file.h"
#include "state/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLACE "run/model.ckpt-1"
enum { MOST_ENTRIES = 64 };

static void must(ls_status status) {
  if (!ls_status_is_ok(status)) abort();
}

// What a checkpoint would say of these values.
static ls_status print_sums(const ls_safetensors_file *file, ls_text *out) {
  ls_safetensors_wish wishes[MOST_ENTRIES] = {{0}};
  ls_workers *workers = NULL;
  ls_json_writer json = {.text = out};
  must(ls_runtime_workers(bytes_files_runtime(), &workers));
  if (file->num_entries > MOST_ENTRIES) return ls_invalid_argument("too many");
  for (size_t i = 0; i < file->num_entries; ++i)
    wishes[i].entry = &file->entries[i];
  LS_RETURN_IF_ERROR(ls_safetensors_get_many(file, workers, wishes,
                                             file->num_entries, LS_SUMS_ALL));
  ls_json_begin(&json, '{');
  ls_json_key(&json, "header_crc32c");
  ls_json_i64(&json, file->header_crc);
  ls_json_key(&json, "crc32c");
  ls_json_begin(&json, '{');
  for (size_t i = 0; i < file->num_entries; ++i) {
    ls_json_key(&json, file->entries[i].name);
    ls_json_i64(&json, (int64_t)wishes[i].crc);
  }
  ls_json_end(&json, '}');
  ls_json_end(&json, '}');
  return ls_ok();
}

// The .json, as it would be written.
static void make_right(const char *text, size_t size, bool values,
                       ls_text *out) {
  ls_safetensors_file file;
  if (values) {
    ls_text_append(out, "{\"format\":1,\"step\":1,\"values\":");
    ls_status status =
        ls_safetensors_open(bytes_files_runtime(), PLACE ".safetensors", &file);
    if (ls_status_is_ok(status)) {
      ls_status_free(print_sums(&file, out));
      ls_safetensors_close(&file);
    }
    ls_status_free(status);
  }
  ls_text_append_bytes(out, text, size);
  ls_text_append_format(out, LS_CHECKPOINT_TAIL,
                        ls_crc32c(0, out->data, out->size));
}

static void read_records(const ls_checkpoint_file *file) {
  static const char *const keys[] = {"identity", "state", "metrics"};
  for (size_t i = 0; i < 3; ++i) {
    const ls_json *member = ls_json_find(file->root, keys[i]);
    ls_record *record = NULL;
    must(ls_record_create(&record));
    if (member != NULL)
      ls_status_free(ls_record_read(record, file->path, member));
    ls_record_destroy(record);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  const char *text = (const char *)data + 3;
  size_t text_size = ls_load_le16(data + 1);
  if (text_size > size - 3) text_size = size - 3;
  ls_checkpoint_file file = {0};
  ls_text right;
  ls_runtime *runtime = bytes_files_runtime();
  ls_text_init(&right, ls_allocator_system());
  bytes_files[1] = (bytes_file){PLACE ".safetensors", text + text_size,
                                size - 3 - text_size};
  if (data[0] % 2 == 1)
    make_right(text, text_size, data[0] % 4 == 3, &right);
  else
    ls_text_append_bytes(&right, text, text_size);
  bytes_files[0] =
      (bytes_file){PLACE ".json", ls_text_data(&right), right.size};
  ls_status notes = ls_checkpoint_file_read_notes(runtime, "run", 1, &file);
  if (ls_status_is_ok(notes)) {
    read_records(&file);
    ls_checkpoint_file_deinit(&file);
  }
  ls_status all = ls_checkpoint_file_read(runtime, "run", 1, &file);
  if (ls_status_is_ok(all) && !ls_status_is_ok(notes)) abort();
  if (ls_status_is_ok(all)) ls_checkpoint_file_deinit(&file);
  ls_status_free(notes);
  ls_status_free(all);
  ls_text_deinit(&right);
  return 0;
}

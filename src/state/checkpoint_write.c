// SPDX-License-Identifier: Apache-2.0
#include "base/threads/threads.h"
#include "io/crc32c.h"
#include "state/checkpoint_file.h"
#include "state/record.h"

void ls_checkpoint_path(ls_text *path, const char *folder, int64_t step,
                        const char *extension) {
  ls_text_clear(path);
  ls_text_append_format(path, "%s/model.ckpt-%lld.%s", folder, (long long)step,
                        extension);
}

int64_t ls_checkpoint_step_of(const char *name, const char *extension) {
  static const char head[] = "model.ckpt-";
  const size_t length = sizeof(head) - 1;
  int64_t step = 0;
  if (strncmp(name, head, length) != 0) return -1;
  const char *at = name + length;
  if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
    return -1;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (__builtin_mul_overflow(step, 10, &step) ||
        __builtin_add_overflow(step, *at - '0', &step))
      return -1;
  }
  return *at == '.' && strcmp(at + 1, extension) == 0 ? step : -1;
}

// ---- Values ----------------------------------------------------------------
// Checksums, beside the writing: they take a processor, it takes the disk.
typedef struct summing {
  ls_thread thread;
  const ls_snapshot *values;
  uint32_t *crcs;  // Of entries.
} summing;

static void sum_up(void *user) {
  const summing *self = user;
  ls_thread_give_way();
  ls_snapshot_sum(self->values, self->crcs);
}

static ls_status write_and_sum(const ls_file_system *files, void *file,
                               const ls_snapshot *values, uint32_t *crcs) {
  enum { LEAST_BESIDE = 8 << 20 };
  summing sums = {.values = values, .crcs = crcs};
  ls_status failure = ls_ok();
  const bool beside = values->end - values->begin >= LEAST_BESIDE;
  if (beside) failure = ls_thread_start(&sums.thread, "ls-sum", sum_up, &sums);
  // Without a thread by this one.
  if (!beside || !ls_status_is_ok(failure)) ls_snapshot_sum(values, crcs);
  ls_status_free(failure);
  const ls_status status = ls_snapshot_write(values, files, file);
  ls_thread_join(&sums.thread);
  return status;
}

// `crcs` are set to the checksums of entries.
static ls_status write_values(ls_runtime *runtime, const char *path,
                              const ls_snapshot *values, uint32_t *crcs) {
  const ls_file_system *files = ls_runtime_files(runtime);
  void *file = NULL;
  if (files->create == NULL)
    return ls_unimplemented("writing '%s': the file system has no writing in "
                            "parts",
                            path);
  LS_RETURN_IF_ERROR(files->create(files->user, path, false, &file));
  ls_status status = write_and_sum(files, file, values, crcs);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, files->finish(files->user, file, keep));
}

// ---- The rest --------------------------------------------------------------
static void print_values(ls_json_writer *json, const uint32_t *crcs,
                         const ls_snapshot *values) {
  ls_json_key(json, "values");
  ls_json_begin(json, '{');
  ls_json_key(json, "header_crc32c");
  ls_json_i64(json, values->header_crc);
  ls_json_key(json, "crc32c");
  ls_json_begin(json, '{');
  for (size_t i = 0; i < values->count; ++i) {
    ls_json_key(json, values->entries[i].name);
    ls_json_i64(json, crcs[i]);
  }
  ls_json_end(json, '}');
  ls_json_end(json, '}');
}

static void print_record(ls_json_writer *json, const char *key,
                         const ls_record *record) {
  if (record == NULL) return;
  ls_json_key(json, key);
  ls_record_write(record, json);
}

static void print_content(ls_text *text, const ls_checkpoint_content *content,
                          const uint32_t *crcs) {
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  ls_json_key(&json, "format");
  ls_json_i64(&json, LS_CHECKPOINT_FORMAT);
  ls_json_key(&json, "step");
  ls_json_i64(&json, content->step);
  ls_json_key(&json, "wall");
  ls_json_i64(&json, content->wall);
  ls_json_key(&json, "metrics");
  ls_json_begin(&json, '{');
  for (size_t i = 0; i < content->num_metrics; ++i) {
    ls_json_key(&json, content->metrics[i].name);
    ls_json_f64(&json, content->metrics[i].value);
  }
  ls_json_end(&json, '}');
  print_record(&json, "identity", content->identity);
  print_record(&json, "state", content->state);
  print_values(&json, crcs, &content->values);
  // The checksum is of all that stands before it.
  const uint32_t crc = ls_crc32c(0, text->data, text->size);
  ls_text_append_format(text, LS_CHECKPOINT_TAIL, crc);
}

static ls_status write_rest(ls_runtime *runtime, const char *path,
                            const ls_checkpoint_content *content,
                            const uint32_t *crcs) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_text text;
  ls_text_init(&text, ls_runtime_allocator(runtime));
  print_content(&text, content, crcs);
  ls_status status = ls_text_status(&text);
  if (ls_status_is_ok(status))
    status = files->write(files->user, path, text.data, text.size);
  ls_text_deinit(&text);
  return status;
}

ls_status ls_checkpoint_file_write(ls_runtime *runtime, const char *folder,
                                   const ls_checkpoint_content *content) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  uint32_t *crcs = ls_new_array(allocator, uint32_t, content->values.count);
  if (crcs == NULL) return ls_out_of_memory();
  ls_text path;
  ls_text_init(&path, allocator);
  ls_checkpoint_path(&path, folder, content->step, "safetensors");
  ls_status status = ls_text_status(&path);
  if (ls_status_is_ok(status))
    status = write_values(runtime, ls_text_data(&path), &content->values, crcs);
  ls_checkpoint_path(&path, folder, content->step, "json");
  if (ls_status_is_ok(status)) status = ls_text_status(&path);
  if (ls_status_is_ok(status))
    status = write_rest(runtime, ls_text_data(&path), content, crcs);
  ls_text_deinit(&path);
  ls_release(allocator, crcs);
  return status;
}

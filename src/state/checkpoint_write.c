// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/memory/own.h"
#include "base/threads/worker.h"
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
  for (; *at >= '0' && *at <= '9'; ++at)
    if (__builtin_mul_overflow(step, 10, &step) ||
        __builtin_add_overflow(step, *at - '0', &step))
      return -1;
  return *at == '.' && strcmp(at + 1, extension) == 0 ? step : -1;
}

// ---- Values ----------------------------------------------------------------
// Computes checksums on another thread while this one writes: checksums need
// the processor, writing the disk.
typedef struct summing {
  ls_worker worker;
  const ls_snapshot *values;
  uint32_t *crcs;  // One per entry.
} summing;

static void sum_up(void *user) {
  const summing *self = user;
  ls_worker_give_way();
  ls_snapshot_sum(self->values, self->crcs);
}

// ---- The .json -------------------------------------------------------------
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

// The text of an infinite metric, which JSON has no number for.
#define INFINITE "Infinity"

double ls_checkpoint_metric_of(const ls_json *value) {
  if (value != NULL && value->kind == LS_JSON_NUMBER) return value->number;
  const char *text =
      value != NULL && value->kind == LS_JSON_STRING ? value->string : "";
  return strcmp(text, INFINITE) == 0       ? (double)INFINITY
         : strcmp(text, "-" INFINITE) == 0 ? -(double)INFINITY
                                           : (double)NAN;
}

// Prints the .json; `before` is the .json that it replaces, or NULL.
static void print_content(ls_text *text, const ls_checkpoint_content *content,
                          const uint32_t *crcs, const char *before) {
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
    const double value = content->metrics[i].value;
    if (isinf(value))
      ls_json_string(&json, value > 0 ? INFINITE : "-" INFINITE);
    else
      ls_json_f64(&json, value);
  }
  ls_json_end(&json, '}');
  print_record(&json, "identity", content->identity);
  print_record(&json, "state", content->state);
  print_values(&json, crcs, &content->values);
  if (before != NULL) {
    ls_json_key(&json, LS_CHECKPOINT_BEFORE);
    ls_text_append(text, before);
  }
  // The checksum covers the text so far.
  const uint32_t crc = ls_crc32c(0, text->data, text->size);
  ls_text_append_format(text, LS_CHECKPOINT_TAIL, crc);
}

// ---- The files -------------------------------------------------------------
typedef struct writing {
  ls_runtime *runtime;
  const ls_file_system *files;
  const ls_checkpoint_content *content;
  ls_text values_path, notes_path;
  uint32_t *crcs;  // One per entry.
  char *before;    // The existing .json of the step, or NULL.
  void *file;      // Temporary file of the values.
  ls_ranks *ranks;
  uint32_t *all;  // Checksums of all ranks' parts; NULL: a single rank.
} writing;

static ls_status write_notes(const writing *w, const char *before) {
  LS_OWN(ls_text, text) = {.allocator = ls_runtime_allocator(w->runtime)};
  print_content(&text, w->content, w->crcs, before);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return w->files->write(w->files->user, ls_text_data(&w->notes_path),
                         text.data, text.size);
}

static ls_status end_values(writing *w, bool keep) {
  void *file = w->file;
  w->file = NULL;
  return file == NULL ? ls_ok() : w->files->finish(w->files->user, file, keep);
}

// Writes the values first: they are no checkpoint without a .json. Removes them
// if there is none then: a full disk needs the room.
static ls_status write_new(writing *w) {
  const ls_file_system *files = w->files;
  bool exists = true;
  LS_RETURN_IF_ERROR(end_values(w, true));
  const ls_status status = write_notes(w, NULL);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(
      files->exists(files->user, ls_text_data(&w->notes_path), &exists));
  if (!exists)
    ls_status_free(files->remove(files->user, ls_text_data(&w->values_path)));
  return status;
}

// Replaces a checkpoint. Since two files cannot be replaced at once, the .json
// that is written first fits the new values and, by a copy of the old root, the
// old ones.
static ls_status write_over(writing *w) {
  LS_RETURN_IF_ERROR(w->files->sync(w->files->user, w->file));
  LS_RETURN_IF_ERROR(write_notes(w, w->before));
  LS_RETURN_IF_ERROR(end_values(w, true));
  return write_notes(w, NULL);
}

// Cuts a .json whose replacement was not finished, with roots in roots, down to
// the one at offset `begin`, which fits the values.
static void cut_before(writing *w, const ls_json *root, size_t begin,
                       size_t size) {
  size_t end = size;
  for (; root->at != begin; root = ls_json_find(root, LS_CHECKPOINT_BEFORE))
    end -= LS_CHECKPOINT_TAIL_SIZE;
  const ls_json *older = ls_json_find(root, LS_CHECKPOINT_BEFORE);
  memmove(w->before, w->before + begin, size - begin);
  if (older == NULL) {
    w->before[end - begin] = '\0';
    return;
  }
  char *tail = w->before +
               (older->at - strlen(",\"" LS_CHECKPOINT_BEFORE "\":") - begin);
  const uint32_t crc = ls_crc32c(0, w->before, (size_t)(tail - w->before));
  snprintf(tail, LS_CHECKPOINT_TAIL_SIZE + 1, LS_CHECKPOINT_TAIL, crc);
}

// Reads the existing .json of this step, if it is undamaged.
static ls_status read_before(writing *w, const char *folder) {
  const int64_t step = w->content->step;
  size_t size = 0;
  LS_OWN(ls_checkpoint_file, file) = {0};
  LS_OWN(ls_checkpoint_file, fitting) = {0};
  LS_RETURN_IF_ERROR(
      ls_checkpoint_file_read_notes(w->runtime, folder, step, &file));
  const bool is_unfinished =
      ls_json_find(file.root, LS_CHECKPOINT_BEFORE) != NULL;
  if (is_unfinished)
    LS_RETURN_IF_ERROR(
        ls_checkpoint_file_open(w->runtime, folder, step, &fitting));
  LS_RETURN_IF_ERROR(
      w->files->read(w->files->user, ls_text_data(&w->notes_path), SIZE_MAX,
                     ls_runtime_allocator(w->runtime), &w->before, &size));
  if (is_unfinished) cut_before(w, file.root, fitting.root->at, size);
  return ls_ok();
}

// ---- Ranks -----------------------------------------------------------------
// Joins the checksums of an entry's parts on all ranks.
static uint32_t join_parts(const writing *w, size_t entry) {
  const ls_snapshot *values = &w->content->values;
  const size_t ranks = ls_ranks_count(w->ranks);
  uint32_t crc = 0;
  for (size_t k = 0; k < ranks; ++k) {
    const size_t begin = ls_snapshot_begin_of(values->size, k, ranks);
    const size_t end = ls_snapshot_begin_of(values->size, k + 1, ranks);
    crc = ls_crc32c_join(
        crc, w->all[k * values->count + entry],
        ls_snapshot_overlap(&values->entries[entry], begin, end));
  }
  return crc;
}

// Waits until all ranks have written, and collects their checksums.
static ls_status meet_written(writing *w, ls_status own) {
  const size_t count = w->content->values.count;
  LS_RETURN_IF_ERROR(ls_ranks_agree(w->ranks, own));
  if (w->all == NULL) return ls_ok();
  memcpy(w->all + ls_ranks_own(w->ranks) * count, w->crcs,
         count * sizeof(*w->crcs));
  LS_RETURN_IF_ERROR(
      ls_ranks_gather(w->ranks, w->all, count * sizeof(*w->crcs)));
  for (size_t i = 0; i < count; ++i)
    w->crcs[i] = join_parts(w, i);
  return ls_ok();
}

// ---- Writing a checkpoint --------------------------------------------------
static ls_status create_values(writing *w, bool join) {
  const char *path = ls_text_data(&w->values_path);
  if (w->files->create == NULL)
    return ls_unimplemented(
        "writing '%s': the file system has no writing in parts", path);
  return w->files->create(w->files->user, path, join, &w->file);
}

static ls_status write_and_sum(const writing *w) {
  const ls_snapshot *values = &w->content->values;
  enum { LEAST_BESIDE = 8 << 20 };
  summing sums = {.values = values, .crcs = w->crcs};
  ls_status failure = ls_ok();
  const bool beside = values->end - values->begin >= LEAST_BESIDE;
  if (beside)
    failure = ls_worker_start(&sums.worker, "ls-sum", NULL, sum_up, &sums);
  // Computes the checksums on this thread if none could be started.
  if (!beside || !ls_status_is_ok(failure)) ls_snapshot_sum(values, w->crcs);
  ls_status_free(failure);
  const ls_status status =
      ls_snapshot_write(values, w->files, w->file, w->content->pause);
  ls_worker_join(&sums.worker);
  return status;
}

static ls_status checkpoint_write_prepare(writing *w, const char *folder) {
  const int64_t step = w->content->step;
  const size_t count = w->content->values.count;
  const size_t ranks = ls_ranks_count(w->ranks);
  ls_allocator *allocator = ls_runtime_allocator(w->runtime);
  ls_checkpoint_path(&w->values_path, folder, step, "safetensors");
  ls_checkpoint_path(&w->notes_path, folder, step, "json");
  LS_RETURN_IF_ERROR(ls_text_status(&w->values_path));
  LS_RETURN_IF_ERROR(ls_text_status(&w->notes_path));
  LS_SET_ARRAY_OR_RETURN(allocator, uint32_t, w->crcs, count);
  if (ranks == 1 || count == 0) return ls_ok();
  w->all = ls_new_array(allocator, uint32_t, ranks * count);
  return w->all == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_status begin_both(writing *w, const char *folder, bool is_there) {
  LS_RETURN_IF_ERROR(checkpoint_write_prepare(w, folder));
  const ls_status status = is_there ? read_before(w, folder) : ls_ok();
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
  ls_status_free(status);  // A checkpoint that cannot be read is no fallback.
  return create_values(w, false);
}

static ls_status write_both(writing *w, const char *folder, bool is_there) {
  LS_RETURN_IF_ERROR(ls_ranks_agree(w->ranks, begin_both(w, folder, is_there)));
  LS_RETURN_IF_ERROR(meet_written(w, write_and_sum(w)));
  return w->before != NULL ? write_over(w) : write_new(w);
}

static ls_status write_part(writing *w) {
  LS_RETURN_IF_ERROR(create_values(w, true));
  LS_RETURN_IF_ERROR(write_and_sum(w));
  return end_values(w, true);
}

static ls_status checkpoint_write_help(writing *w, const char *folder) {
  // Waits for rank 0 to make the file.
  LS_RETURN_IF_ERROR(
      ls_ranks_agree(w->ranks, checkpoint_write_prepare(w, folder)));
  return meet_written(w, write_part(w));
}

static void checkpoint_write_init(writing *w, ls_runtime *runtime,
                                  const ls_checkpoint_content *content,
                                  ls_ranks *ranks) {
  *w = (writing){.runtime = runtime,
                 .files = ls_runtime_files(runtime),
                 .content = content,
                 .ranks = ranks};
  ls_text_init(&w->values_path, ls_runtime_allocator(runtime));
  ls_text_init(&w->notes_path, ls_runtime_allocator(runtime));
}

static ls_status end_writing(writing *w, ls_status status) {
  ls_allocator *allocator = ls_runtime_allocator(w->runtime);
  status = ls_status_join(status, end_values(w, false));
  ls_text_deinit(&w->values_path);
  ls_text_deinit(&w->notes_path);
  ls_release(allocator, w->crcs);
  ls_release(allocator, w->all);
  ls_release(allocator, w->before);
  return status;
}

ls_status ls_checkpoint_file_write(ls_runtime *runtime, const char *folder,
                                   const ls_checkpoint_content *content,
                                   bool is_there, ls_ranks *ranks) {
  writing w;
  checkpoint_write_init(&w, runtime, content, ranks);
  return end_writing(&w, write_both(&w, folder, is_there));
}

ls_status ls_checkpoint_file_help(ls_runtime *runtime, const char *folder,
                                  const ls_checkpoint_content *content,
                                  ls_ranks *ranks) {
  writing w;
  checkpoint_write_init(&w, runtime, content, ranks);
  return end_writing(&w, checkpoint_write_help(&w, folder));
}

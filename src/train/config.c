// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/text/text.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "lockstep/training_parts.h"
#include "state/own.h"
#include "state/record.h"
#include "state/saved.h"
#include "train/folder/run_folder.h"

// Largest size of a config file.
static const size_t most_bytes = 1 << 20;
// Default number of checkpoints to keep.
static const int64_t default_keep = 5;

typedef enum entry_kind { TEXT, WHOLE, REAL, FLAG } entry_kind;

// Rows of the table: the default of a TEXT, the bounds of a number.
#define ENTRY_TEXT(name, text)                                                 \
  { #name, TEXT, offsetof(ls_train_config, name), text, 0, 0 }
#define ENTRY_NUMBER(kind, name, least, most)                                  \
  { #name, kind, offsetof(ls_train_config, name), NULL, least, most }
#define ENTRY_COUNT(name) ENTRY_NUMBER(WHOLE, name, 0, INT32_MAX)
static const struct {
  const char *key;
  entry_kind kind;
  size_t offset;
  const char *text;
  double least, most;
} entries[] = {
    ENTRY_TEXT(model, ""),
    ENTRY_TEXT(data, ""),
    ENTRY_COUNT(replicas),
    ENTRY_NUMBER(WHOLE, threads, 0, 4096),
    ENTRY_TEXT(precision, "f32"),
    ENTRY_TEXT(math, "fast"),
    ENTRY_NUMBER(WHOLE, batch_size, 0, INFINITY),
    ENTRY_NUMBER(WHOLE, epochs, 0, INFINITY),
    ENTRY_NUMBER(WHOLE, steps, 0, INFINITY),
    ENTRY_TEXT(optimizer, ""),
    ENTRY_TEXT(optimizer_sha256, ""),
    ENTRY_NUMBER(REAL, learning_rate, -DBL_MAX, DBL_MAX),
    ENTRY_TEXT(schedule, "constant"),
    ENTRY_COUNT(warmup),
    ENTRY_NUMBER(REAL, weight_decay, 0, DBL_MAX),
    ENTRY_NUMBER(REAL, clip_norm, 0, DBL_MAX),
    ENTRY_COUNT(accumulate),
    ENTRY_NUMBER(WHOLE, seed, -INFINITY, INFINITY),
    ENTRY_TEXT(test, ""),
    ENTRY_NUMBER(REAL, split, 0, 1),
    ENTRY_TEXT(features, ""),
    ENTRY_TEXT(classes, ""),
    ENTRY_TEXT(one_hot, ""),
    ENTRY_TEXT(categories, ""),
    ENTRY_TEXT(missing, ""),
    ENTRY_TEXT(columns, ""),
    ENTRY_TEXT(bytes, ""),
    ENTRY_COUNT(crop),
    ENTRY_NUMBER(FLAG, flip, 0, 0),
    ENTRY_TEXT(normalize, ""),
    ENTRY_COUNT(inputs),
    ENTRY_TEXT(task, ""),
    ENTRY_COUNT(outputs),
    ENTRY_NUMBER(WHOLE, keep, 0, INFINITY),
    ENTRY_TEXT(keep_best, ""),
    ENTRY_NUMBER(REAL, keep_every_hours, 0, DBL_MAX),
    ENTRY_TEXT(stop_early, ""),
    ENTRY_COUNT(patience),
    ENTRY_NUMBER(REAL, min_delta, 0, DBL_MAX),
    ENTRY_COUNT(test_steps),
    ENTRY_NUMBER(WHOLE, save_every, 0, INFINITY),
    ENTRY_NUMBER(WHOLE, save_every_steps, 0, INFINITY),
    ENTRY_NUMBER(WHOLE, checksum, 0, INFINITY),
    ENTRY_NUMBER(WHOLE, check_ranks, 0, INFINITY),
    ENTRY_NUMBER(FLAG, gradient_norm, 0, 0),
    ENTRY_NUMBER(FLAG, attest, 0, 0),
    ENTRY_NUMBER(FLAG, events, 0, 0),
    ENTRY_TEXT(warm_start, ""),
    ENTRY_TEXT(warm_only, ""),
    ENTRY_TEXT(warm_except, ""),
    ENTRY_TEXT(warm_map, ""),
    ENTRY_TEXT(warm_layout, ""),
};

// ---- Writing ---------------------------------------------------------------
void ls_train_config_print(const ls_train_config *config, ls_text *text) {
  const size_t begin = text->size;
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  for (size_t i = 0; i < LS_COUNT_OF(entries); ++i) {
    const void *at = (const char *)config + entries[i].offset;
    ls_json_key(&json, entries[i].key);
    if (entries[i].kind == WHOLE) {
      ls_json_i64(&json, *(const int64_t *)at);
    } else if (entries[i].kind == REAL) {
      ls_json_f64(&json, *(const double *)at);
    } else if (entries[i].kind == FLAG) {
      ls_json_bool(&json, *(const bool *)at);
    } else {
      const char *value = *(const char *const *)at;
      ls_json_string(&json, value != NULL ? value : entries[i].text);
    }
  }
  // The checksum covers the text so far.
  if (!ls_status_is_ok(ls_text_status(text))) return;
  const uint32_t crc = ls_crc32c(0, text->data + begin, text->size - begin);
  ls_text_append_format(text, LS_CHECKPOINT_TAIL "\n", crc);
}

ls_status ls_train_config_text(const ls_train_config *config, char **out_text) {
  LS_REQUIRE_OUT(out_text, config);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_OWN(ls_text, text) = {0};
  ls_print_begin(&text, ls_runtime_allocator(runtime));
  ls_train_config_print(config, &text);
  return ls_print_end(&text, out_text);
}

// ---- Reading ---------------------------------------------------------------
// State of reading; the caller gets the first field.
typedef struct read_config {
  ls_train_config config;
  ls_allocator *allocator;
  ls_arena arena;  // Holds the texts.
} read_config;

void ls_train_config_destroy(ls_train_config *config) {
  read_config *read = (read_config *)config;
  if (read == NULL) return;
  ls_arena_deinit(&read->arena);
  ls_release(read->allocator, read);
}

// Checks that a number is one that a flag or an option could have set.
static ls_status check_bounds(const char *path, size_t entry, double number) {
  const double least = entries[entry].least, most = entries[entry].most;
  if (number >= least && number <= most) return ls_ok();
  if (!(number >= least))
    return ls_invalid_argument("'%s': \"%s\" is %.9g, expected %.9g or more",
                               path, entries[entry].key, number, least);
  return ls_invalid_argument("'%s': \"%s\" is %.9g, expected %.9g at most",
                             path, entries[entry].key, number, most);
}

static ls_status read_entry(const char *path, size_t entry,
                            const ls_json *value, void *to) {
  const char *key = entries[entry].key;
  const entry_kind kind = entries[entry].kind;
  static const char *const wanted[] = {
      [TEXT] = "a text",
      [WHOLE] = "a whole number",
      [REAL] = "a number",
      [FLAG] = "true or false",
  };
  static const ls_json_kind kinds[] = {[TEXT] = LS_JSON_STRING,
                                       [WHOLE] = LS_JSON_NUMBER,
                                       [REAL] = LS_JSON_NUMBER,
                                       [FLAG] = LS_JSON_BOOL};
  if (value->kind != kinds[kind] || (kind == WHOLE && !value->is_integer))
    return ls_invalid_argument("'%s': \"%s\" is not %s", path, key,
                               wanted[kind]);
  if (kind == WHOLE || kind == REAL)
    LS_RETURN_IF_ERROR(check_bounds(
        path, entry, kind == WHOLE ? (double)value->integer : value->number));
  if (kind == TEXT)
    *(const char **)to = value->string;
  else if (kind == FLAG)
    *(bool *)to = value->boolean;
  else if (kind == WHOLE)
    *(int64_t *)to = value->integer;
  else
    *(double *)to = value->number;
  return ls_ok();
}

ls_status ls_train_config_check_sum(const char *path, const ls_json *json,
                                    const char *bytes, size_t size) {
  enum { TAIL = LS_CHECKPOINT_TAIL_SIZE + 1 };
  char tail[TAIL + 1];
  if (ls_json_find(json, "crc32c") == NULL) return ls_ok();
  if (size >= TAIL) {
    snprintf(tail, sizeof(tail), LS_CHECKPOINT_TAIL "\n",
             ls_crc32c(0, bytes, size - TAIL));
    if (memcmp(tail, bytes + size - TAIL, TAIL) == 0) return ls_ok();
  }
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is damaged: its checksum does not match; remove its "
                   "\"crc32c\" when editing it",
                   path);
}

static ls_status config_parse(read_config *read, const char *path,
                              const char *bytes, size_t size,
                              const ls_json **out_json) {
  LS_RETURN_IF_ERROR(ls_json_parse(&read->arena, path, bytes, size, out_json));
  return (*out_json)->kind == LS_JSON_OBJECT
             ? ls_train_config_check_sum(path, *out_json, bytes, size)
             : ls_invalid_argument("'%s' has no JSON object", path);
}

static ls_status read_entries(read_config *read, const char *path,
                              const ls_json *json) {
  read->config.keep = default_keep;
  for (size_t i = 0; i < LS_COUNT_OF(entries); ++i) {
    void *to = (char *)&read->config + entries[i].offset;
    const ls_json *value = ls_json_find(json, entries[i].key);
    if (value != NULL)
      LS_RETURN_IF_ERROR(read_entry(path, i, value, to));
    else if (entries[i].kind == TEXT)
      *(const char **)to = entries[i].text;
  }
  if (read->config.model[0] == '\0')
    return ls_invalid_argument("'%s' names no \"model\"", path);
  return ls_ok();
}

// ---- Copies in checkpoints -------------------------------------------------
static ls_status find_kept(const ls_checkpoint_file *file, ls_record *state,
                           const char **out_text) {
  const ls_record *run = NULL;
  const ls_json *member = ls_json_find(file->root, "state");
  if (member == NULL) return ls_not_found("'%s' has no states", file->path);
  LS_RETURN_IF_ERROR(ls_record_read(state, file->path, member));
  LS_RETURN_IF_ERROR(ls_record_find(state, LS_CONFIG_STATE, &run));
  return ls_record_get_text(run, LS_CONFIG_ENTRY, out_text);
}

static ls_status read_checkpoint(ls_runtime *runtime, const char *run_folder,
                                 int64_t step, read_config *read) {
  LS_OWN(ls_checkpoint_file, file) = {0};
  LS_RETURN_IF_ERROR(
      ls_checkpoint_file_read_notes(runtime, run_folder, step, &file));
  const char *text = NULL;
  const ls_json *json = NULL;
  LS_OWN(ls_record, state) = NULL;
  LS_RETURN_IF_ERROR(ls_record_create(&state));
  LS_RETURN_IF_ERROR(find_kept(&file, state, &text));
  LS_RETURN_IF_ERROR(config_parse(read, file.path, text, strlen(text), &json));
  return read_entries(read, file.path, json);
}

// Reads the config from the newest checkpoint that has one.
static ls_status read_newest(ls_runtime *runtime, const char *run_folder,
                             read_config *read, int64_t *out_step) {
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), int64_t, steps) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_saved_find_steps(runtime, run_folder, &steps, &count));
  ls_status status = ls_not_found("no checkpoint has it");
  for (size_t i = count; i > 0 && !ls_status_is_ok(status); --i) {
    ls_status_free(status);
    *out_step = steps[i - 1];
    status = read_checkpoint(runtime, run_folder, *out_step, read);
  }
  return status;
}

// Reads the config from a checkpoint; `why` is the failure of reading the file.
static ls_status take_kept(ls_runtime *runtime, const char *run_folder,
                           read_config *read, ls_status why) {
  int64_t step = 0;
  const ls_status kept = read_newest(runtime, run_folder, read, &step);
  if (!ls_status_is_ok(kept)) {
    ls_status_free(kept);
    return why;
  }
  ls_runtime_log(runtime, LS_LOG_WARNING, "train",
                 "using the configuration in the checkpoint of step %lld: %s",
                 (long long)step,
                 ls_status_code(why) == LS_NOT_FOUND ? "config.json is missing"
                                                     : ls_status_message(why));
  ls_status_free(why);
  return kept;
}

// ---- The file --------------------------------------------------------------
static ls_status config_read_file(ls_runtime *runtime, const char *run_folder,
                                  read_config *read) {
  const ls_file_system *files = ls_runtime_files(runtime);
  const char *slash = strrchr(run_folder, '/');
  const int64_t step =
      slash == NULL ? -1 : ls_checkpoint_step_of(slash + 1, "json");
  if (step >= 0) {
    const char *folder = ls_arena_format(&read->arena, "%.*s",
                                         (int)(slash - run_folder), run_folder);
    LS_RETURN_IF_NO_MEMORY(folder);
    return read_checkpoint(runtime, folder, step, read);
  }
  const char *path =
      ls_arena_format(&read->arena, "%s/config.json", run_folder);
  LS_RETURN_IF_ERROR(ls_run_folder_recover(runtime, run_folder));
  if (path == NULL) return ls_out_of_memory();
  bool exists = false;
  LS_RETURN_IF_ERROR(files->exists(files->user, path, &exists));
  if (!exists)
    return take_kept(
        runtime, run_folder, read,
        ls_not_found("'%s' is no run folder: it has no config.json",
                     run_folder));
  LS_OWN_MEMORY(read->allocator, char, bytes) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->read(files->user, path, most_bytes, read->allocator,
                                 &bytes, &size));
  const ls_json *json = NULL;
  const ls_status status = config_parse(read, path, bytes, size, &json);
  if (ls_status_is_ok(status)) return read_entries(read, path, json);
  return ls_status_code(status) == LS_RESOURCE_EXHAUSTED
             ? status
             : take_kept(runtime, run_folder, read, status);
}

ls_status ls_train_config_read(const char *run_folder,
                               ls_train_config **out_config) {
  LS_REQUIRE_OUT(out_config, run_folder);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, read_config, read);
  read->allocator = allocator;
  ls_arena_init(&read->arena, allocator);
  const ls_status status = config_read_file(runtime, run_folder, read);
  if (!ls_status_is_ok(status))
    ls_train_config_destroy(&read->config);
  else
    *out_config = &read->config;
  return status;
}

// SPDX-License-Identifier: Apache-2.0
#include "train/config.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "io/json.h"

// A longer file is no config.
static const size_t most_bytes = 1 << 20;
// Of a run that does not say.
static const int64_t default_keep = 5;

typedef enum entry_kind { TEXT, WHOLE, REAL } entry_kind;

// `text` is what a TEXT is where nothing is said.
#define ENTRY(kind, name, text)                                                \
  { #name, kind, offsetof(ls_train_config, name), text }
static const struct {
  const char *key;
  entry_kind kind;
  size_t offset;
  const char *text;
} entries[] = {
    ENTRY(TEXT, model, ""),           ENTRY(TEXT, data, ""),
    ENTRY(WHOLE, replicas, NULL),     ENTRY(WHOLE, threads, NULL),
    ENTRY(TEXT, precision, "f32"),    ENTRY(TEXT, math, "fast"),
    ENTRY(WHOLE, batch_size, NULL),   ENTRY(WHOLE, epochs, NULL),
    ENTRY(WHOLE, steps, NULL),        ENTRY(TEXT, optimizer, ""),
    ENTRY(REAL, learning_rate, NULL), ENTRY(TEXT, schedule, "constant"),
    ENTRY(WHOLE, warmup, NULL),       ENTRY(REAL, weight_decay, NULL),
    ENTRY(REAL, clip_norm, NULL),     ENTRY(WHOLE, accumulate, NULL),
    ENTRY(WHOLE, seed, NULL),         ENTRY(TEXT, test, ""),
    ENTRY(REAL, split, NULL),         ENTRY(TEXT, features, ""),
    ENTRY(TEXT, classes, ""),         ENTRY(WHOLE, keep, NULL),
    ENTRY(TEXT, keep_best, ""),       ENTRY(REAL, keep_every_hours, NULL),
    ENTRY(TEXT, warm_start, ""),      ENTRY(TEXT, warm_only, ""),
    ENTRY(TEXT, warm_map, ""),
};

// ---- Writing ---------------------------------------------------------------
void ls_train_config_print(const ls_train_config *config, ls_text *text) {
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  for (size_t i = 0; i < LS_COUNT_OF(entries); ++i) {
    const void *at = (const char *)config + entries[i].offset;
    ls_json_key(&json, entries[i].key);
    if (entries[i].kind == WHOLE) {
      ls_json_i64(&json, *(const int64_t *)at);
    } else if (entries[i].kind == REAL) {
      ls_json_f64(&json, *(const double *)at);
    } else {
      const char *value = *(const char *const *)at;
      ls_json_string(&json, value != NULL ? value : entries[i].text);
    }
  }
  ls_json_end(&json, '}');
  ls_text_append_char(text, '\n');
}

// ---- Reading ---------------------------------------------------------------
// What a caller gets is the first field.
typedef struct read_config {
  ls_train_config config;
  ls_allocator *allocator;
  ls_arena arena;  // Of the texts.
} read_config;

void ls_train_config_destroy(ls_train_config *config) {
  read_config *read = (read_config *)config;
  if (read == NULL) return;
  ls_arena_deinit(&read->arena);
  ls_release(read->allocator, read);
}

static ls_status read_entry(const char *path, const char *key, entry_kind kind,
                            const ls_json *value, void *to) {
  static const char *const wanted[] = {
      [TEXT] = "a text",
      [WHOLE] = "a whole number",
      [REAL] = "a number",
  };
  const bool number = value->kind == LS_JSON_NUMBER;
  if (kind == TEXT ? value->kind != LS_JSON_STRING
                   : !number || (kind == WHOLE && !value->is_integer))
    return ls_invalid_argument("'%s': \"%s\" is not %s", path, key,
                               wanted[kind]);
  if (kind == TEXT)
    *(const char **)to = value->string;
  else if (kind == WHOLE)
    *(int64_t *)to = value->integer;
  else
    *(double *)to = value->number;
  return ls_ok();
}

static ls_status parse(read_config *read, const char *path, const char *bytes,
                       size_t size) {
  const ls_json *json = NULL;
  LS_RETURN_IF_ERROR(ls_json_parse(&read->arena, path, bytes, size, &json));
  if (json->kind != LS_JSON_OBJECT)
    return ls_invalid_argument("'%s' holds no JSON object", path);
  read->config.keep = default_keep;
  for (size_t i = 0; i < LS_COUNT_OF(entries); ++i) {
    void *to = (char *)&read->config + entries[i].offset;
    const ls_json *value = ls_json_find(json, entries[i].key);
    if (value != NULL)
      LS_RETURN_IF_ERROR(
          read_entry(path, entries[i].key, entries[i].kind, value, to));
    else if (entries[i].kind == TEXT)
      *(const char **)to = entries[i].text;
  }
  if (read->config.model[0] == '\0')
    return ls_invalid_argument("'%s' names no \"model\"", path);
  return ls_ok();
}

static ls_status read_file(ls_runtime *runtime, const char *run_folder,
                           read_config *read) {
  const ls_file_system *files = ls_runtime_files(runtime);
  const char *path =
      ls_arena_format(&read->arena, "%s/config.json", run_folder);
  if (path == NULL) return ls_out_of_memory();
  bool exists = false;
  LS_RETURN_IF_ERROR(files->exists(files->user, path, &exists));
  if (!exists)
    return ls_not_found("'%s' is no run folder: it has no config.json",
                        run_folder);
  char *bytes = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->read(files->user, path, most_bytes, read->allocator,
                                 &bytes, &size));
  const ls_status status = parse(read, path, bytes, size);
  ls_release(read->allocator, bytes);
  return status;
}

ls_status ls_train_config_read(const char *run_folder,
                               ls_train_config **out_config) {
  LS_REQUIRE(run_folder);
  LS_REQUIRE(out_config);
  *out_config = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  read_config *read = ls_new(allocator, read_config);
  if (read == NULL) return ls_out_of_memory();
  read->allocator = allocator;
  ls_arena_init(&read->arena, allocator);
  const ls_status status = read_file(runtime, run_folder, read);
  if (!ls_status_is_ok(status))
    ls_train_config_destroy(&read->config);
  else
    *out_config = &read->config;
  return status;
}

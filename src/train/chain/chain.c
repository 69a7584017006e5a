// SPDX-License-Identifier: Apache-2.0
#include "train/chain/chain.h"

#include <stdio.h>

#include "lockstep/version.h"

#define TAIL ",\"sha256\":\""
// A tail's size, with the hash, a quote and a brace.
enum { TAIL_SIZE = sizeof(TAIL) - 1 + LS_SHA256_TEXT - 1 + 2 };

static void name_file(const char *folder, const char *name, ls_text *path) {
  ls_text_clear(path);
  ls_text_append_format(path, "%s/%s", folder, name);
}

static void hash_line(const char *text, size_t size,
                      char hash[LS_SHA256_TEXT]) {
  ls_sha256 sha;
  ls_sha256_init(&sha);
  ls_sha256_add(&sha, text, size);
  ls_sha256_print(&sha, hash);
}

// ---- Reading ---------------------------------------------------------------
const char *ls_chain_text(const ls_json *object, const char *key) {
  const ls_json *found = object != NULL ? ls_json_find(object, key) : NULL;
  return found != NULL && found->kind == LS_JSON_STRING ? found->string : "";
}

int64_t ls_chain_number(const ls_json *object, const char *key) {
  const ls_json *found = object != NULL ? ls_json_find(object, key) : NULL;
  return found != NULL && found->is_integer ? found->integer : -1;
}

// Reads a line; `head` has the hash of the line before it, and gets that of
// this one.
static ls_status read_line(ls_chain_lines *self, const char *text, size_t size,
                           ls_chain_line *line) {
  char hash[LS_SHA256_TEXT], said[LS_SHA256_TEXT] = "";
  const ls_json *root = NULL;
  const char *tail = size > TAIL_SIZE ? text + size - TAIL_SIZE : text;
  if (size > TAIL_SIZE && strncmp(tail, TAIL, sizeof(TAIL) - 1) == 0)
    memcpy(said, tail + sizeof(TAIL) - 1, sizeof(said) - 1);
  hash_line(text, (size_t)(tail - text), hash);
  if (strcmp(said, hash) == 0) {
    const ls_status status =
        ls_json_parse(&self->arena, LS_CHAIN_FILE, text, size, &root);
    if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
    ls_status_free(status);
  }
  if (root != NULL && root->kind == LS_JSON_OBJECT) line->root = root;
  line->follows = line->root == NULL ||
                  strcmp(ls_chain_text(root, "before"), self->head) == 0;
  memcpy(self->head, said, sizeof(said));
  return ls_ok();
}

ls_status ls_chain_read(ls_runtime *runtime, const char *folder,
                        ls_chain_lines *out) {
  const ls_file_system *files = ls_runtime_files(runtime);
  *out = (ls_chain_lines){.allocator = ls_runtime_allocator(runtime)};
  ls_arena_init(&out->arena, out->allocator);
  LS_OWN(ls_text, path) = {.allocator = out->allocator};
  name_file(folder, LS_CHAIN_FILE, &path);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(files->read(files->user, ls_text_data(&path), SIZE_MAX,
                                 out->allocator, &out->text, &out->size));
  size_t lines = 0;
  for (size_t i = 0; i < out->size; ++i)
    lines += out->text[i] == '\n';
  LS_ARENA_SET_OR_RETURN(&out->arena, ls_chain_line, out->items, lines + 1);
  for (; out->count < lines; ++out->count) {
    const char *at = out->text + out->complete;
    const char *end = memchr(at, '\n', out->size - out->complete);
    const size_t size = (size_t)(end - at);
    LS_RETURN_IF_ERROR(read_line(out, at, size, &out->items[out->count]));
    out->complete += size + 1;
  }
  return ls_ok();
}

void ls_chain_lines_deinit(ls_chain_lines *self) {
  if (self->allocator == NULL) return;
  ls_arena_deinit(&self->arena);
  ls_release(self->allocator, self->text);
  *self = (ls_chain_lines){0};
}

// ---- Lines -----------------------------------------------------------------
static ls_json_writer begin_line(ls_chain *self, const char *event,
                                 int64_t step) {
  ls_json_writer json = {.text = &self->text};
  ls_text_clear(&self->text);
  ls_json_begin(&json, '{');
  ls_json_key(&json, "event");
  ls_json_string(&json, event);
  ls_json_key(&json, "step");
  ls_json_i64(&json, step);
  return json;
}

static void write_text(ls_json_writer *json, const char *key,
                       const char *text) {
  ls_json_key(json, key);
  ls_json_any_string(json, text);
}

// Writes a member whose value is JSON.
static void write_json(ls_json_writer *json, const char *key, const char *text,
                       size_t size) {
  ls_json_key(json, key);
  ls_text_append_bytes(json->text, text, size);
  json->comma = true;
}

static void write_metrics(ls_json_writer *json, const ls_sha256 *metrics) {
  char hash[LS_SHA256_TEXT];
  ls_sha256_print(metrics, hash);
  ls_json_key(json, "metrics");
  ls_json_begin(json, '{');
  ls_json_key(json, "bytes");
  ls_json_i64(json, (int64_t)metrics->size);
  write_text(json, "sha256", hash);
  ls_json_end(json, '}');
}

// Writes parts that are files of the run.
static ls_status write_files(ls_chain *self, ls_json_writer *json,
                             const char *const *names, size_t count) {
  ls_json_key(json, "parts");
  ls_json_begin(json, '[');
  for (size_t i = 0; i < count; ++i) {
    ls_part part = {0};
    name_file(self->folder, names[i], &self->path);
    LS_RETURN_IF_ERROR(ls_text_status(&self->path));
    LS_RETURN_IF_ERROR(ls_part_add_file(
        &self->reader, ls_text_data(&self->path), 0, -1, &part));
    ls_part_write(json, names[i], &part);
  }
  ls_json_end(json, ']');
  return ls_ok();
}

static ls_status write_checkpoint(ls_chain *self, ls_json_writer *json,
                                  int64_t step) {
  char names[2][64];
  snprintf(names[0], sizeof(names[0]), "model.ckpt-%lld.safetensors",
           (long long)step);
  snprintf(names[1], sizeof(names[1]), "model.ckpt-%lld.json", (long long)step);
  return write_files(self, json, (const char *const[]){names[0], names[1]}, 2);
}

// Removes a line that is not complete from the end of the file.
static ls_status cut_line(ls_chain *self, const ls_chain_lines *lines) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  name_file(self->folder, LS_CHAIN_FILE, &self->path);
  LS_RETURN_IF_ERROR(ls_text_status(&self->path));
  return lines->complete < lines->size
             ? files->write(files->user, ls_text_data(&self->path), lines->text,
                            lines->complete)
             : ls_ok();
}

// Removes what a failed call, as on a full disk, has left of its line.
static ls_status mend_file(ls_chain *self) {
  LS_OWN(ls_chain_lines, lines) = {0};
  if (!self->is_torn) return ls_ok();
  LS_RETURN_IF_ERROR(ls_chain_read(self->runtime, self->folder, &lines));
  LS_RETURN_IF_ERROR(cut_line(self, &lines));
  self->is_torn = false;
  return ls_ok();
}

// Adds the line to the file; the first one replaces the file.
static ls_status end_line(ls_chain *self, ls_json_writer *json) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  ls_text *text = &self->text;
  char hash[LS_SHA256_TEXT];
  LS_RETURN_IF_ERROR(mend_file(self));
  write_text(json, "before", self->head);
  LS_RETURN_IF_ERROR(ls_text_status(text));
  hash_line(text->data, text->size, hash);
  ls_text_append_format(text, TAIL "%s\"}\n", hash);
  name_file(self->folder, LS_CHAIN_FILE, &self->path);
  LS_RETURN_IF_ERROR(ls_text_status(text));
  LS_RETURN_IF_ERROR(ls_text_status(&self->path));
  self->is_torn = self->has_lines;
  LS_RETURN_IF_ERROR((self->has_lines ? files->append : files->write)(
      files->user, ls_text_data(&self->path), text->data, text->size));
  self->is_torn = false;
  self->has_lines = true;
  memcpy(self->head, hash, sizeof(hash));
  return ls_ok();
}

// ---- Data ------------------------------------------------------------------
static ls_status write_data_part(void *user, const char *name,
                                 const ls_part *part) {
  ls_part_write(user, name, part);
  return ls_ok();
}

static void hash_data(void *user) {
  ls_chain *self = user;
  int64_t number = 0;
  ls_worker_give_way();
  while (ls_worker_next(&self->worker, &number)) {
    ls_json_writer json = {.text = &self->parts};
    LS_OWN(ls_part_reader, reader) = {.runtime = self->runtime,
                                      .worker = &self->worker};
    ls_json_begin(&json, '[');
    self->failure =
        ls_parts_of_data(&reader, self->data, 2, write_data_part, &json);
    ls_json_end(&json, ']');
  }
}

// Adds the line of the data, once they are hashed.
static ls_status add_data(ls_chain *self, int64_t step) {
  const char *identity = self->identity;
  if (identity == NULL || !ls_worker_is_idle(&self->worker)) return ls_ok();
  self->identity = NULL;
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_give(&self->failure), "while hashing the data"));
  LS_RETURN_IF_ERROR(ls_text_status(&self->parts));
  ls_json_writer json = begin_line(self, "data", step);
  write_text(&json, "identity", identity);
  write_json(&json, "parts", self->parts.data, self->parts.size);
  return end_line(self, &json);
}

// ---- The run's events ------------------------------------------------------
// Takes what a former process has written, without a line that it has not
// completed. Finds out if the checkpoint of the step, and the data, are in it.
static ls_status take_lines(ls_chain *self, const ls_chain_start *start,
                            bool *out_has_step, bool *out_has_data) {
  LS_OWN(ls_chain_lines, lines) = {0};
  LS_RETURN_IF_ERROR(ls_chain_read(self->runtime, start->folder, &lines));
  for (size_t i = 0; i < lines.count; ++i) {
    const ls_json *root = lines.items[i].root;
    *out_has_step |= ls_chain_number(root, "step") == start->step &&
                     ls_json_find(root, "parts") != NULL &&
                     strcmp(ls_chain_text(root, "event"), "data") != 0;
    *out_has_data |=
        strcmp(ls_chain_text(root, "identity"), start->identity) == 0;
  }
  self->has_lines = lines.count > 0;
  memcpy(self->head, lines.head, sizeof(lines.head));
  return cut_line(self, &lines);
}

static ls_status begin_data(ls_chain *self, const ls_chain_start *start) {
  self->data[0] = start->train;
  self->data[1] = start->test;
  self->identity = start->identity;
  LS_RETURN_IF_ERROR(ls_worker_start(&self->worker, "ls-hash", self->runtime,
                                     hash_data, self));
  return ls_worker_post(&self->worker, 0);
}

ls_status ls_chain_begin(ls_chain *self, ls_runtime *runtime,
                         const ls_chain_start *start) {
  bool has_step = start->step == 0, has_data = false;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_chain made = {.runtime = runtime,
                   .folder = start->folder,
                   .reader = {.runtime = runtime}};
  ls_text_init(&made.path, allocator);
  ls_text_init(&made.text, allocator);
  ls_text_init(&made.parts, allocator);
  *self = made;
  if (start->resumes) {
    const ls_status status = take_lines(self, start, &has_step, &has_data);
    if (ls_status_code(status) != LS_NOT_FOUND) LS_RETURN_IF_ERROR(status);
    ls_status_free(status);
  }
  if (!start->attest && !self->has_lines) {
    ls_chain_deinit(self);
    return ls_ok();
  }
  ls_json_writer json =
      begin_line(self, start->resumes ? "resume" : "begin", start->step);
  write_text(&json, "version", ls_version());
  write_text(&json, "numerics", start->numerics);
  write_json(&json, "config", start->config, strcspn(start->config, "\n"));
  if (start->keep > 0) {
    ls_json_key(&json, "keep");
    ls_json_i64(&json, start->keep);
  }
  if (start->resumes && !has_step)
    LS_RETURN_IF_ERROR(write_checkpoint(self, &json, start->step));
  write_metrics(&json, start->metrics);
  LS_RETURN_IF_ERROR(end_line(self, &json));
  return has_data ? ls_ok() : begin_data(self, start);
}

ls_status ls_chain_save(void *chain, int64_t step) {
  ls_chain *self = chain;
  LS_RETURN_IF_ERROR(add_data(self, step));
  ls_json_writer json = begin_line(self, "save", step);
  LS_RETURN_IF_ERROR(write_checkpoint(self, &json, step));
  write_metrics(&json, &self->metrics);
  return end_line(self, &json);
}

ls_status ls_chain_end(ls_chain *self, int64_t step, const char *model,
                       bool stops, const ls_sha256 *metrics) {
  if (self->runtime == NULL) return ls_ok();
  if (!stops) ls_worker_wait(&self->worker);
  LS_RETURN_IF_ERROR(add_data(self, step));
  ls_json_writer json = begin_line(self, "end", step);
  LS_RETURN_IF_ERROR(write_files(self, &json, &model, model != NULL));
  write_metrics(&json, metrics);
  return end_line(self, &json);
}

void ls_chain_deinit(ls_chain *self) {
  if (self->runtime == NULL) return;
  ls_worker_join(&self->worker);
  ls_status_free(self->failure);
  ls_part_reader_deinit(&self->reader);
  ls_text_deinit(&self->path);
  ls_text_deinit(&self->text);
  ls_text_deinit(&self->parts);
  *self = (ls_chain){0};
}

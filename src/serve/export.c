// SPDX-License-Identifier: Apache-2.0
//
// Writes the folder of an export: everything is checked and made in a temporary
// folder, which is then renamed; a failed export leaves nothing.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/text/text.h"
#include "graph/variables/variable.h"
#include "io/safetensors.h"
#include "serve/serving.h"

static const char assets_name[] = "assets.extra";
enum { TRIES = 10, NANOS = 1000000000 };

// One graph, ready to be written.
typedef struct part {
  const char *name;  // Tags, such as serve+tpu.
  ls_graph *copy;
  ls_text text;
} part;

typedef struct export {
  const ls_serving_options *options;
  ls_runtime *runtime;
  const ls_file_system *files;
  ls_arena memory;
  part *parts;
  ls_variable **variables;  // Variables of all graphs that have their own.
  size_t num_variables;
  ls_serve_signatures first;  // Signatures of the first graph.
  // The folder while it is being made, and its final name.
  const char *temporary, *folder;
  const char **made;  // Files and folders to remove after a failure.
  size_t num_made, capacity;
}
export;

static const char *const default_tags[] = {LS_SERVING_TAG};

static void tags_of(const ls_serving_graph *graph, const char *const **out_tags,
                    size_t *out_count) {
  const bool given = graph->num_tags > 0 || graph->tags != NULL;
  *out_tags = given ? graph->tags : default_tags;
  *out_count = given ? graph->num_tags : 1;
}

// ---- Graphs ----------------------------------------------------------------
static ls_status add_variables(export *e, const ls_graph *graph) {
  ls_variable **list = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_serve_variables(graph, &e->memory, &list, &count));
  LS_ARENA_ARRAY_OR_RETURN(&e->memory, ls_variable *, all,
                           e->num_variables + count + 1);
  if (e->num_variables > 0)
    memcpy(all, e->variables, e->num_variables * sizeof(*all));
  memcpy(all + e->num_variables, list, count * sizeof(*all));
  e->variables = all;
  e->num_variables += count;
  return ls_ok();
}

static ls_status export_prepare(export *e, size_t index) {
  const ls_serving_graph *given = &e->options->graphs[index];
  part *p = &e->parts[index];
  const char *const *tags = NULL;
  size_t num_tags = 0;
  tags_of(given, &tags, &num_tags);
  LS_RETURN_IF_ERROR(ls_serve_tags_name(tags, num_tags, &e->memory, &p->name));
  for (size_t i = 0; i < index; ++i)
    if (strcmp(e->parts[i].name, p->name) == 0)
      return ls_invalid_argument("two graphs of an export have the tags '%s'",
                                 p->name);
  ls_serve_signatures signatures;
  LS_RETURN_IF_ERROR(ls_serve_check(given, &e->memory, &signatures));
  if (index == 0) e->first = signatures;
  LS_RETURN_IF_ERROR(ls_serve_prune((ls_graph *)(uintptr_t)given->graph,
                                    &signatures, &e->memory, &p->copy));
  if (!given->shares_variables) LS_RETURN_IF_ERROR(add_variables(e, p->copy));
  char *text = NULL;
  LS_RETURN_IF_ERROR(ls_graph_print(p->copy, &text));
  ls_serve_write_head(&signatures, tags, num_tags, &p->text);
  ls_text_append(&p->text, text);
  ls_text_release(text);
  return ls_text_status(&p->text);
}

// ---- The folder ------------------------------------------------------------
static ls_status check_asset(const ls_serving_asset *asset) {
  if (asset->name == NULL || asset->path == NULL)
    return ls_invalid_argument("an asset needs a name and a path");
  return ls_inner_path_check("the name of an asset", assets_name, asset->name);
}

static ls_status exists(const export *e, const char *path, bool *out_exists) {
  return e->files->exists(e->files->user, path, out_exists);
}

// Returns true if an export made this folder, a day ago or more, and its
// process is gone; for a shorter time it may be one of another machine.
static bool is_left(const export *e, const ls_file_entry *entry) {
  enum { DAY = 86400 };
  const long long now = (long long)(ls_runtime_wall(e->runtime) / NANOS);
  long long made = 0;
  long process = 0;
  int size = 0;
  return entry->is_folder &&
         sscanf(entry->name, "temp-%lld-%ld-%*u%n", &made, &process, &size) ==
             2 &&
         size > 0 && entry->name[size] == '\0' && now - made >= DAY &&
         process > 0 && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

// Removes what exports that were killed have left, as far as possible.
static void remove_left(const export *e) {
  LS_OWN_MEMORY(e->memory.allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  if (e->files->list == NULL) return;
  ls_status_free(e->files->list(e->files->user, e->options->base,
                                e->memory.allocator, &entries, &count));
  for (size_t i = 0; i < count; ++i)
    if (is_left(e, &entries[i]))
      ls_status_free(
          ls_folder_remove_entry(e->files, e->options->base, &entries[i]));
}

// Chooses the name of the unfinished folder, which no other export has, also of
// another process.
static ls_status choose_temporary(export *e) {
  static unsigned last;
  const long long now = (long long)(ls_runtime_wall(e->runtime) / NANOS);
  bool there = true;
  while (there) {
    const unsigned number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    e->temporary =
        ls_arena_format(&e->memory, "%s/temp-%lld-%ld-%u", e->options->base,
                        now, (long)getpid(), number);
    LS_RETURN_IF_NO_MEMORY(e->temporary);
    LS_RETURN_IF_ERROR(exists(e, e->temporary, &there));
  }
  return ls_ok();
}

// Renames the folder, unless another export has the name, perhaps since just
// now. A name that was given, but not kept safely, is taken back.
static ls_status try_folder(const export *e, bool *out_taken) {
  bool is_left = true;
  LS_RETURN_IF_ERROR(exists(e, e->folder, out_taken));
  if (*out_taken) return ls_ok();
  const ls_status status =
      e->files->rename(e->files->user, e->temporary, e->folder);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(exists(e, e->temporary, &is_left));
  if (!is_left) {
    ls_status_free(e->files->rename(e->files->user, e->folder, e->temporary));
    return status;
  }
  const ls_status looked = exists(e, e->folder, out_taken);
  if (!*out_taken) return ls_status_join(status, looked);
  ls_status_free(status);
  return looked;
}

// Gives the folder its name, a time in seconds.
static ls_status name_folder(export *e) {
  const char *base = e->options->base;
  for (int i = 0; i < TRIES; ++i) {
    if (i > 0) ls_runtime_sleep(e->runtime, NANOS);
    const long long now = (long long)(ls_runtime_wall(e->runtime) / NANOS);
    bool taken = false;
    e->folder = ls_arena_format(&e->memory, "%s/%lld", base, now);
    LS_RETURN_IF_NO_MEMORY(e->folder);
    LS_RETURN_IF_ERROR(try_folder(e, &taken));
    if (!taken) return ls_ok();
    ls_runtime_log(e->runtime, LS_LOG_WARNING, "serve",
                   "'%s' is there already: waiting for the next second (try %d "
                   "of %d)",
                   e->folder, i + 1, TRIES);
  }
  return LS_STATUS(LS_FAILED_PRECONDITION,
                   "no folder for an export under '%s' in %d tries: '%s' is "
                   "there, too",
                   base, TRIES, e->folder);
}

static ls_status note_made(export *e, const char *path) {
  LS_PUSH_OR_RETURN(e->memory.allocator, e->made, e->num_made, e->capacity,
                    path);
  return ls_ok();
}

static ls_status export_name_file(export *e, const char *name,
                                  const char **out_path) {
  *out_path = ls_arena_format(&e->memory, "%s/%s", e->temporary, name);
  return *out_path == NULL ? ls_out_of_memory() : note_made(e, *out_path);
}

static ls_status export_write_text(export *e, const part *p) {
  const char *path = NULL;
  const char *name = ls_arena_format(&e->memory, "%s.ls", p->name);
  if (name == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(export_name_file(e, name, &path));
  return e->files->write(e->files->user, path, ls_text_data(&p->text),
                         p->text.size);
}

// Makes the folders of a path below `temporary`.
static ls_status make_folders(export *e, const char *path) {
  for (const char *at = path + strlen(e->temporary) + 1;
       (at = strchr(at, '/')) != NULL; ++at) {
    char *folder = ls_arena_string(&e->memory, path);
    bool there = false;
    if (folder == NULL) return ls_out_of_memory();
    folder[at - path] = '\0';
    LS_RETURN_IF_ERROR(exists(e, folder, &there));
    if (there) continue;
    LS_RETURN_IF_ERROR(e->files->make_directories(e->files->user, folder));
    LS_RETURN_IF_ERROR(note_made(e, folder));
  }
  return ls_ok();
}

static ls_status copy_asset(export *e, const ls_serving_asset *asset) {
  LS_OWN_MEMORY(e->memory.allocator, char, data) = NULL;
  size_t size = 0;
  const char *path = ls_arena_format(&e->memory, "%s/%s/%s", e->temporary,
                                     assets_name, asset->name);
  bool there = false;
  if (path == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(exists(e, path, &there));
  if (there)
    return ls_invalid_argument("there are two assets '%s'", asset->name);
  LS_RETURN_IF_ERROR(make_folders(e, path));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(e->files->read(e->files->user, asset->path, SIZE_MAX,
                                        e->memory.allocator, &data, &size),
                         "asset '%s'", asset->name));
  LS_RETURN_IF_ERROR(note_made(e, path));
  return e->files->write(e->files->user, path, data, size);
}

// ---- ONNX and StableHLO ----------------------------------------------------
static ls_status of_file(void *user, ls_variable *variable,
                         ls_array **out_array) {
  const ls_safetensors_file *file = user;
  const ls_safetensors_entry *entry =
      ls_safetensors_entry_of(file, variable->name);
  LS_OWN(ls_array, array) = NULL;
  if (entry == NULL)
    return LS_STATUS(LS_NOT_FOUND, "'%s' has no variable '%s'", file->path,
                     variable->name);
  LS_RETURN_IF_ERROR(ls_array_create(entry->dtype, entry->shape, &array));
  LS_RETURN_IF_ERROR(
      ls_safetensors_get(file, entry, ls_array_mutable_data(array), NULL));
  *out_array = ls_give(&array);
  return ls_ok();
}

// Makes a file name, BEGIN.END, or for a signature other than the default
// BEGIN.KEY.END.
static ls_status name_translation(export *e, const ls_serve_signature *s,
                                  const char *begin, const char *end,
                                  const char **out_path) {
  const bool plain = strcmp(s->key, LS_SERVING_DEFAULT) == 0;
  if (strchr(s->key, '/') != NULL)
    return ls_unimplemented("a file for signature '%s', whose key has a '/'",
                            s->key);
  const char *name =
      plain ? ls_arena_format(&e->memory, "%s.%s", begin, end)
            : ls_arena_format(&e->memory, "%s.%s.%s", begin, s->key, end);
  return name == NULL ? ls_out_of_memory()
                      : export_name_file(e, name, out_path);
}

static ls_status write_onnx(export *e, ls_graph *graph, const char *values) {
  LS_OWN(ls_safetensors_file, file) = {0};
  LS_RETURN_IF_ERROR(ls_safetensors_open(e->runtime, values, &file));
  const ls_serve_source source = {of_file, &file};
  for (size_t i = 0; i < e->first.count; ++i) {
    const char *path = NULL;
    LS_RETURN_IF_ERROR(
        name_translation(e, &e->first.items[i], "model", "onnx", &path));
    LS_RETURN_IF_ERROR(
        ls_serve_write_onnx(graph, &e->first.items[i], &source, path));
  }
  return ls_ok();
}

static ls_status write_stablehlo(export *e, ls_graph *graph) {
  const int64_t batch = e->options->batch_size;
  for (size_t i = 0; i < e->first.count; ++i) {
    const char *path = NULL;
    LS_RETURN_IF_ERROR(name_translation(e, &e->first.items[i], "serve",
                                        "stablehlo.mlir", &path));
    LS_RETURN_IF_ERROR(ls_serve_write_stablehlo(graph, &e->first.items[i],
                                                batch > 0 ? batch : 1, path));
  }
  return ls_ok();
}

// ---- All files -------------------------------------------------------------
static ls_status export_fill(export *e) {
  const ls_serving_options *o = e->options;
  const char *path = NULL;
  LS_RETURN_IF_ERROR(export_name_file(e, LS_SERVE_VALUES_NAME, &path));
  LS_RETURN_IF_ERROR(ls_serve_write_values(o, e->variables, e->num_variables,
                                           &e->memory, path));
  for (size_t i = 0; i < o->num_graphs; ++i)
    LS_RETURN_IF_ERROR(export_write_text(e, &e->parts[i]));
  for (size_t i = 0; i < o->num_assets; ++i)
    LS_RETURN_IF_ERROR(copy_asset(e, &o->assets[i]));
  ls_graph *first = (ls_graph *)(uintptr_t)o->graphs[0].graph;
  if (o->onnx == LS_FLAG_ON) LS_RETURN_IF_ERROR(write_onnx(e, first, path));
  return o->stablehlo == LS_FLAG_ON ? write_stablehlo(e, first) : ls_ok();
}

// Removes a failed export; keeps the first failure.
static void take_away(const export *e) {
  for (size_t i = e->num_made; i-- > 0;)
    ls_status_free(e->files->remove(e->files->user, e->made[i]));
}

static ls_status make_folder(export *e) {
  LS_RETURN_IF_ERROR(e->files->make_directories(e->files->user, e->temporary));
  LS_RETURN_IF_ERROR(export_fill(e));
  return name_folder(e);
}

static ls_status export_make(export *e) {
  remove_left(e);
  LS_RETURN_IF_ERROR(choose_temporary(e));
  LS_RETURN_IF_ERROR(note_made(e, e->temporary));
  const ls_status status = make_folder(e);
  if (!ls_status_is_ok(status)) take_away(e);
  return status;
}

// Checks that computations for TPUs are in inference mode.
static ls_status export_check_mode(const export *e,
                                   const ls_serving_graph *graph) {
  const char *mode = e->options->mode;
  if (mode == NULL || strcmp(mode, "predict") == 0) return ls_ok();
  for (size_t i = 0; i < graph->num_tags && graph->tags != NULL; ++i)
    if (graph->tags[i] != NULL &&
        strcmp(graph->tags[i], LS_SERVING_TPU_TAG) == 0)
      return ls_unimplemented(
          "an export for TPUs of mode '%s': only mode 'predict' is supported",
          mode);
  return ls_ok();
}

// ---- Export ----------------------------------------------------------------
static ls_status export_check_options(const export *e) {
  const ls_serving_options *o = e->options;
  if (o->base == NULL || o->base[0] == '\0')
    return ls_invalid_argument("an export needs a base folder");
  if (o->num_graphs == 0) return ls_invalid_argument("an export needs a graph");
  if (o->batch_size < 0)
    return ls_invalid_argument("batch size %lld of an export's StableHLO: it "
                               "is at least 1",
                               (long long)o->batch_size);
  if (e->files->rename == NULL)
    return ls_unimplemented("the file system does not rename, which exports "
                            "need");
  for (size_t i = 0; i < o->num_assets; ++i)
    LS_RETURN_IF_ERROR(check_asset(&o->assets[i]));
  for (size_t i = 0; i < o->num_graphs; ++i)
    LS_RETURN_IF_ERROR(export_check_mode(e, &o->graphs[i]));
  return ls_ok();
}

static ls_status export_run(export *e, char **out_path) {
  LS_RETURN_IF_ERROR(export_check_options(e));
  const size_t count = e->options->num_graphs;
  LS_ARENA_SET_OR_RETURN(&e->memory, part, e->parts, count);
  memset(e->parts, 0, count * sizeof(*e->parts));
  for (size_t i = 0; i < count; ++i)
    ls_text_init(&e->parts[i].text, e->memory.allocator);
  ls_status status = ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = export_prepare(e, i);
  if (ls_status_is_ok(status)) status = export_make(e);
  for (size_t i = 0; i < count; ++i) {
    ls_text_deinit(&e->parts[i].text);
    ls_graph_free(e->parts[i].copy);
  }
  LS_RETURN_IF_ERROR(status);
  ls_text path;
  ls_print_begin(&path, e->memory.allocator);
  ls_text_append(&path, e->folder);
  return ls_print_end(&path, out_path);
}

ls_status ls_serving_export(const ls_serving_options *options,
                            char **out_path) {
  LS_REQUIRE_OUT(out_path, options);
  LS_REQUIRE_ITEMS(options->graphs, options->num_graphs);
  LS_REQUIRE_ITEMS(options->assets, options->num_assets);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  export e = {.options = options,
              .runtime = runtime,
              .files = ls_runtime_files(runtime)};
  ls_arena_init(&e.memory, ls_runtime_allocator(runtime));
  const ls_status status = export_run(&e, out_path);
  ls_release(e.memory.allocator, e.made);
  ls_arena_deinit(&e.memory);
  return status;
}

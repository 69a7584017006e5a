// SPDX-License-Identifier: Apache-2.0
//
// Loads exports and runs their signatures.
#include "serve/serving.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/saver.h"
#include "lockstep/shape_rules.h"

// ---- Loading ---------------------------------------------------------------
// Reports a missing file; lists the existing ones.
static ls_status not_there(ls_serving *self, const char *folder,
                           const char *name) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  ls_allocator *allocator = self->memory.allocator;
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  LS_OWN(ls_text, known) = {.allocator = allocator};
  if (files->list != NULL)
    LS_RETURN_IF_ERROR(
        files->list(files->user, folder, allocator, &entries, &count));
  for (size_t i = 0; i < count; ++i) {
    const size_t size = strlen(entries[i].name);
    if (size > 3 && strcmp(entries[i].name + size - 3, ".ls") == 0)
      ls_text_append_format(&known, "%s '%s'", known.size > 0 ? "," : "",
                            entries[i].name);
  }
  return LS_STATUS(LS_NOT_FOUND, "'%s' has no '%s.ls'; it has%s", folder, name,
                   known.size > 0 ? ls_text_data(&known) : " no program");
}

static ls_status read_text(ls_serving *self, const char *folder,
                           const char *name, const char *path,
                           char **out_text) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  bool there = false;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->exists(files->user, path, &there));
  if (!there) return not_there(self, folder, name);
  LS_RETURN_IF_ERROR(files->read(files->user, path, SIZE_MAX,
                                 self->memory.allocator, out_text, &size));
  if (memchr(*out_text, '\0', size) == NULL) return ls_ok();
  ls_release(self->memory.allocator, *out_text);
  *out_text = NULL;
  return ls_invalid_argument("'%s' has a zero byte: it is no text", path);
}

static ls_status load_parse(ls_serving *self, const char *path,
                            const char *text,
                            const ls_serving_load_options *options) {
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_graph_parse(text, options->kernels,
                                        options->num_kernels, &self->graph),
                         "'%s'", path));
  if (self->graph->kind != LS_GRAPH_BUILD)
    return ls_invalid_argument("'%s' has no build graph", path);
  return ls_serve_read_head(path, text, self->graph, &self->memory,
                            &self->signatures);
}

static void load_describe(const ls_serve_value *values, size_t count,
                          ls_serving_value *out) {
  for (size_t i = 0; i < count; ++i) {
    out[i].name = values[i].name;
    out[i].type = ls_graph_type(values[i].tensor.graph, values[i].tensor.ref);
  }
}

static ls_status describe_all(ls_serving *self) {
  ls_arena *memory = &self->memory;
  LS_ARENA_SET_OR_RETURN(memory, ls_serving_info, self->infos,
                         self->signatures.count + 1);
  for (size_t i = 0; i < self->signatures.count; ++i) {
    const ls_serve_signature *s = &self->signatures.items[i];
    ls_serving_value *inputs =
        ls_arena_new_array(memory, ls_serving_value, s->num_inputs + 1);
    ls_serving_value *outputs =
        ls_arena_new_array(memory, ls_serving_value, s->num_outputs + 1);
    if (inputs == NULL || outputs == NULL) return ls_out_of_memory();
    load_describe(s->inputs, s->num_inputs, inputs);
    load_describe(s->outputs, s->num_outputs, outputs);
    self->infos[i] = (ls_serving_info){.key = s->key,
                                       .kind = s->kind,
                                       .inputs = inputs,
                                       .outputs = outputs,
                                       .num_inputs = s->num_inputs,
                                       .num_outputs = s->num_outputs};
  }
  return ls_ok();
}

static ls_status load_values(ls_serving *self, const char *folder) {
  LS_RETURN_IF_ERROR(ls_serve_variables(
      self->graph, &self->memory, &self->variables, &self->num_variables));
  LS_RETURN_IF_ERROR(ls_session_create(self->graph, &self->session));
  const char *path =
      ls_arena_format(&self->memory, "%s/" LS_SERVE_VALUES_NAME, folder);
  if (path == NULL) return ls_out_of_memory();
  if (self->num_variables == 0) return ls_ok();
  return ls_saver_restore(&(ls_saver){.variables = self->variables,
                                      .num_variables = self->num_variables,
                                      .session = self->session},
                          path);
}

static ls_status load(ls_serving *self, const char *folder,
                      const ls_serving_load_options *options) {
  static const char *const serve[] = {LS_SERVING_TAG};
  const bool given = options->tags != NULL || options->num_tags > 0;
  const char *name = NULL;
  LS_OWN_MEMORY(self->memory.allocator, char, text) = NULL;
  LS_RETURN_IF_ERROR(ls_serve_tags_name(given ? options->tags : serve,
                                        given ? options->num_tags : 1,
                                        &self->memory, &name));
  const char *path = ls_arena_format(&self->memory, "%s/%s.ls", folder, name);
  if (path == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(read_text(self, folder, name, path, &text));
  LS_RETURN_IF_ERROR(load_parse(self, path, text, options));
  LS_RETURN_IF_ERROR(describe_all(self));
  return load_values(self, folder);
}

void ls_serving_destroy(ls_serving *serving) {
  if (serving == NULL) return;
  ls_session_destroy(serving->session);
  ls_graph_free(serving->graph);
  ls_allocator *allocator = serving->memory.allocator;
  ls_arena_deinit(&serving->memory);
  ls_release(allocator, serving);
}
LS_OWNED_POINTER(ls_serving, ls_serving_destroy)

ls_status ls_serving_load(const char *folder,
                          const ls_serving_load_options *options,
                          ls_serving **out_serving) {
  LS_REQUIRE_OUT(out_serving, folder);
  static const ls_serving_load_options defaults = {0};
  if (options == NULL) options = &defaults;
  LS_REQUIRE_ITEMS(options->kernels, options->num_kernels);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_serving, made);
  made->runtime = runtime;
  ls_arena_init(&made->memory, allocator);
  LS_OWN(ls_serving, self) = made;
  LS_RETURN_IF_ERROR(load(self, folder, options));
  *out_serving = ls_give(&self);
  return ls_ok();
}

// ---- Getters ---------------------------------------------------------------
size_t ls_serving_num_signatures(const ls_serving *serving) {
  return serving->signatures.count;
}

ls_status ls_serving_signature_info(const ls_serving *serving, size_t index,
                                    ls_serving_info *out_info) {
  LS_REQUIRE_OUT(out_info, serving);
  if (index >= serving->signatures.count)
    return LS_STATUS(LS_OUT_OF_RANGE, "signature %zu of %zu", index,
                     serving->signatures.count);
  *out_info = serving->infos[index];
  return ls_ok();
}

// ---- Running ---------------------------------------------------------------
static bool has_input(const ls_serve_signature *s, const char *name) {
  for (size_t i = 0; i < s->num_inputs; ++i)
    if (strcmp(s->inputs[i].name, name) == 0) return true;
  return false;
}

static ls_status take_input(const ls_serve_signature *s, size_t index,
                            ls_nest inputs, ls_feed *out_feed) {
  const ls_serve_value *want = &s->inputs[index];
  const ls_array *array = ls_nest_as_array(ls_nest_find(inputs, want->name));
  if (array == NULL)
    return ls_invalid_argument("signature '%s' needs an array for input '%s'",
                               s->key, want->name);
  const ls_type type = ls_graph_type(want->tensor.graph, want->tensor.ref);
  if (ls_array_dtype(array) != type.dtype ||
      !ls_shape_compatible(ls_array_shape(array), type.shape))
    return ls_invalid_argument(
        "input '%s' of signature '%s' is %s, got %s", want->name, s->key,
        LS_SHAPE_TEXT(type.dtype, type.shape),
        LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
  *out_feed = (ls_feed){.tensor = want->tensor, .value = array};
  return ls_ok();
}

static ls_status load_run(ls_serving *self, const ls_serve_signature *s,
                          ls_nest inputs, ls_arena *memory, ls_nest *outputs) {
  if (inputs.kind != LS_KIND_DICT &&
      (inputs.kind != LS_KIND_NONE || s->num_inputs > 0))
    return ls_invalid_argument("the inputs of signature '%s' must be a dict of "
                               "arrays",
                               s->key);
  for (size_t i = 0; i < ls_nest_count(inputs); ++i)
    if (!has_input(s, ls_nest_key(inputs, i)))
      return ls_invalid_argument("signature '%s' has no input '%s'", s->key,
                                 ls_nest_key(inputs, i));
  ls_feed *feeds = ls_arena_new_array(memory, ls_feed, s->num_inputs + 1);
  ls_nest *leaves = ls_arena_new_array(memory, ls_nest, s->num_outputs + 1);
  const char **names =
      ls_arena_new_array(memory, const char *, s->num_outputs + 1);
  if (feeds == NULL || leaves == NULL || names == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < s->num_inputs; ++i)
    LS_RETURN_IF_ERROR(take_input(s, i, inputs, &feeds[i]));
  for (size_t i = 0; i < s->num_outputs; ++i) {
    leaves[i] = ls_leaf(s->outputs[i].tensor);
    names[i] = s->outputs[i].name;
  }
  LS_OWN(ls_nest, fetches) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_dict("", names, leaves, s->num_outputs), &fetches));
  const ls_status status =
      ls_session_run(self->session, fetches, feeds, s->num_inputs, outputs);
  return ls_status_annotate(status, "signature '%s'", s->key);
}

ls_status ls_serving_run(ls_serving *serving, const char *key, ls_nest inputs,
                         ls_nest *outputs) {
  LS_REQUIRE(outputs, serving);
  const ls_serve_signature *signature = NULL;
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &signature));
  LS_OWN(ls_arena, memory) = {.allocator = serving->memory.allocator};
  return load_run(serving, signature, inputs, &memory, outputs);
}

// ---- Texts -----------------------------------------------------------------
ls_status ls_serving_create_decoder(ls_serving *serving, const char *key,
                                    const char *output,
                                    ls_decoder **out_decoder) {
  LS_REQUIRE_OUT(out_decoder, serving, output);
  const ls_serve_signature *s = NULL;
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &s));
  if (s->num_inputs != 1)
    return ls_invalid_argument("signature '%s' has %zu inputs: a decoder has "
                               "one, of tokens",
                               s->key, s->num_inputs);
  for (size_t i = 0; i < s->num_outputs; ++i)
    if (strcmp(s->outputs[i].name, output) == 0)
      return ls_status_annotate(
          ls_decoder_create(serving->session, s->inputs[0].tensor,
                            s->outputs[i].tensor, out_decoder),
          "signature '%s'", s->key);
  return ls_invalid_argument("signature '%s' has no output '%s'", s->key,
                             output);
}

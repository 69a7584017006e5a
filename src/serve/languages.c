// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "emit/stablehlo_module.h"
#include "graph/variables/variable.h"
#include "serve/lowered.h"
#include "serve/serving.h"

static ls_status write_file(const ls_text *text, const char *path) {
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  return files->write(files->user, path, ls_text_data(text), text->size);
}

// ---- ONNX ------------------------------------------------------------------
static ls_status get_values(const ls_program *program,
                            const ls_serve_source *source, ls_array **values) {
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].read)
      LS_RETURN_IF_ERROR(source->get(
          source->user, (ls_variable *)program->uses[i].variable, &values[i]));
  return ls_ok();
}

static ls_status to_onnx(const ls_lowered_signature *lowered,
                         const ls_serve_source *source, ls_arena *memory,
                         const char *path) {
  const ls_program *program = lowered->programs[0];
  LS_OWN_ARRAY_OR_RETURN(memory->allocator, ls_array *, values,
                         program->num_uses + 1);
  LS_OWN(ls_text, text) = {.allocator = memory->allocator};
  ls_status status = get_values(program, source, values);
  if (ls_status_is_ok(status))
    status = ls_write_onnx(lowered, values, memory, &text);
  for (size_t i = 0; i < program->num_uses; ++i)
    ls_array_release(values[i]);
  LS_RETURN_IF_ERROR(status);
  return write_file(&text, path);
}

static ls_status write_onnx(ls_graph *graph,
                            const ls_serve_signature *signature,
                            const ls_serve_source *source, const char *path) {
  LS_OWN(ls_lowered_signature, lowered) = {0};
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  LS_RETURN_IF_ERROR(
      ls_lower_signature(graph, signature, 0, &memory, &lowered));
  return to_onnx(&lowered, source, &memory, path);
}

ls_status ls_serve_write_onnx(ls_graph *graph,
                              const ls_serve_signature *signature,
                              const ls_serve_source *source, const char *path) {
  return ls_status_annotate(write_onnx(graph, signature, source, path),
                            "signature '%s' as ONNX", signature->key);
}

// ---- StableHLO -------------------------------------------------------------
static ls_status write_stablehlo(ls_graph *graph,
                                 const ls_serve_signature *signature,
                                 int64_t batch_size, const char *path) {
  LS_OWN(ls_lowered_signature, lowered) = {0};
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  LS_OWN(ls_text, text) = {.allocator = graph->allocator};
  LS_RETURN_IF_ERROR(
      ls_lower_signature(graph, signature, batch_size, &memory, &lowered));
  LS_RETURN_IF_ERROR(ls_write_stablehlo(&lowered, &memory, &text));
  return write_file(&text, path);
}

ls_status ls_serve_write_stablehlo(ls_graph *graph,
                                   const ls_serve_signature *signature,
                                   int64_t batch_size, const char *path) {
  return ls_status_annotate(write_stablehlo(graph, signature, batch_size, path),
                            "signature '%s' as StableHLO", signature->key);
}

// ---- From a loaded export --------------------------------------------------
static ls_status of_session(void *user, ls_variable *variable,
                            ls_array **out_array) {
  return ls_session_variable_value(user, variable, out_array);
}

ls_status ls_serving_write_onnx(const ls_serving *serving, const char *key,
                                const char *path) {
  LS_REQUIRE(serving, path);
  const ls_serve_signature *signature = NULL;
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &signature));
  return ls_serve_write_onnx(serving->graph, signature,
                             &(ls_serve_source){of_session, serving->session},
                             path);
}

ls_status ls_serving_write_stablehlo(const ls_serving *serving, const char *key,
                                     int64_t batch_size, const char *path) {
  LS_REQUIRE(serving, path);
  const ls_serve_signature *signature = NULL;
  if (batch_size < 1)
    return ls_invalid_argument("batch size %lld: it is at least 1",
                               (long long)batch_size);
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &signature));
  return ls_serve_write_stablehlo(serving->graph, signature, batch_size, path);
}

// ---- StableHLO -------------------------------------------------------------
// Makes attributes: ls.input = "x", more.
static const char *name_mark(ls_arena *memory, const char *kind,
                             const char *name, const char *more) {
  LS_OWN(ls_text, text) = {.allocator = memory->allocator};
  ls_text_append_format(&text, "ls.%s = \"", kind);
  for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; ++at)
    if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
      ls_text_append_format(&text, "\\%02X", *at);
    else
      ls_text_append_char(&text, (char)*at);
  ls_text_append_format(&text, "\"%s", more);
  return text.failed ? NULL : ls_arena_string(memory, ls_text_data(&text));
}

static bool has_null(const char *const *items, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (items[i] == NULL) return true;
  return false;
}

ls_status ls_write_stablehlo(const ls_lowered_signature *self, ls_arena *memory,
                             ls_text *out) {
  const ls_serve_signature *s = self->signature;
  const ls_program *program = self->programs[0];
  const size_t num_arguments = s->num_inputs + program->num_uses;
  const char **arguments =
      ls_arena_new_array(memory, const char *, num_arguments + 1);
  const char **outputs =
      ls_arena_new_array(memory, const char *, s->num_outputs + 1);
  uint64_t *results = ls_arena_new_array(memory, uint64_t, s->num_outputs + 1);
  if (arguments == NULL || outputs == NULL || results == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < s->num_inputs; ++i)
    arguments[i] = name_mark(memory, "input", s->inputs[i].name, "");
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_variable *variable =
        (const ls_variable *)program->uses[i].variable;
    arguments[s->num_inputs + i] =
        name_mark(memory, "variable", variable->name,
                  variable->trainable ? "" : ", ls.trainable = false");
  }
  for (size_t i = 0; i < s->num_outputs; ++i) {
    outputs[i] = name_mark(memory, "output", s->outputs[i].name, "");
    results[i] = program->body->results[self->outputs[i]];
  }
  if (has_null(arguments, num_arguments) || has_null(outputs, s->num_outputs))
    return ls_out_of_memory();
  return ls_hlo_write_module(&(ls_hlo_module){.source = ls_lowered_source(self),
                                              .highest = true,
                                              .argument_marks = arguments,
                                              .results = results,
                                              .num_results = s->num_outputs,
                                              .result_marks = outputs},
                             memory, out);
}

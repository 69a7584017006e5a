// SPDX-License-Identifier: Apache-2.0

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
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
  LS_REQUIRE(serving);
  LS_REQUIRE(path);
  const ls_serve_signature *signature = NULL;
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &signature));
  return ls_serve_write_onnx(serving->graph, signature,
                             &(ls_serve_source){of_session, serving->session},
                             path);
}

ls_status ls_serving_write_stablehlo(const ls_serving *serving, const char *key,
                                     int64_t batch_size, const char *path) {
  LS_REQUIRE(serving);
  LS_REQUIRE(path);
  const ls_serve_signature *signature = NULL;
  if (batch_size < 1)
    return ls_invalid_argument("batch size %lld: it is at least 1",
                               (long long)batch_size);
  LS_RETURN_IF_ERROR(ls_serve_find(&serving->signatures, key, &signature));
  return ls_serve_write_stablehlo(serving->graph, signature, batch_size, path);
}

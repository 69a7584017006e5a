// SPDX-License-Identifier: Apache-2.0
//
// Exported programs: any bytes give signatures or one status. Signatures that
// are read are written as the same bytes, and each as ONNX and StableHLO, or
// says why not.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/lowered.h"
#include "serve/serving.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "serving_fuzz: %s\n", what);
  abort();
}

// OK, or the fault of what was given.
static void expect_answer(ls_status status) {
  const ls_code code = ls_status_code(status);
  check(code == LS_OK || code == LS_INVALID_ARGUMENT ||
            code == LS_UNIMPLEMENTED || code == LS_RESOURCE_EXHAUSTED,
        ls_status_message(status));
  ls_status_free(status);
}

// ---- Heads -----------------------------------------------------------------
static void check_head(ls_graph *graph, const ls_serve_signatures *signatures,
                       ls_arena *memory) {
  ls_text first, again;
  ls_serve_signatures read;
  ls_text_init(&first, memory->allocator);
  ls_text_init(&again, memory->allocator);
  ls_serve_write_head(signatures, NULL, 0, &first);
  const ls_status status =
      ls_serve_read_head("again", ls_text_data(&first), graph, memory, &read);
  check(ls_status_is_ok(status), "what was written is not read");
  ls_serve_write_head(&read, NULL, 0, &again);
  check(strcmp(ls_text_data(&first), ls_text_data(&again)) == 0,
        "signatures changed on their way");
  ls_text_deinit(&first);
  ls_text_deinit(&again);
}

// ---- Languages -------------------------------------------------------------
enum { MOST_VALUE = 1 << 20 };

// Zeros for each variable; false: one is too large for a fuzzer.
static bool make_values(const ls_program *program, ls_array **values) {
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_type type = program->uses[i].type;
    int64_t bytes = (int64_t)ls_dtype_size(type.dtype);
    for (int32_t k = 0; k < type.shape.rank && bytes <= MOST_VALUE; ++k)
      bytes *= type.shape.dim[k] < MOST_VALUE ? type.shape.dim[k] : MOST_VALUE;
    if (bytes > MOST_VALUE) return false;
    ls_status_free(ls_array_create(type.dtype, type.shape, &values[i]));
    if (values[i] == NULL) return false;
  }
  return true;
}

static void write_both(const ls_lowered_signature *lowered, bool any,
                       ls_arena *memory) {
  const ls_program *program = lowered->programs[0];
  ls_array **values = calloc(program->num_uses + 1, sizeof(ls_array *));
  check(values != NULL, "no memory");
  ls_text text;
  ls_text_init(&text, memory->allocator);
  if (make_values(program, values))
    expect_answer(any ? ls_write_onnx(lowered, values, memory, &text)
                      : ls_write_stablehlo(lowered, memory, &text));
  ls_text_deinit(&text);
  for (size_t i = 0; i < program->num_uses; ++i)
    ls_array_release(values[i]);
  free(values);
}

static void translate(ls_graph *graph, const ls_serve_signature *signature,
                      int64_t batch) {
  ls_arena memory;
  ls_lowered_signature lowered;
  ls_arena_init(&memory, graph->allocator);
  const ls_status status =
      ls_lower_signature(graph, signature, batch, &memory, &lowered);
  if (ls_status_is_ok(status))
    write_both(&lowered, batch == 0, &memory);
  else
    expect_answer(status);
  ls_lowered_signature_deinit(&lowered);
  ls_arena_deinit(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  check(text != NULL, "no memory");
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  ls_graph *graph = NULL;
  ls_status status = ls_graph_parse(text, NULL, 0, &graph);
  if (ls_status_is_ok(status)) {
    ls_arena memory;
    ls_serve_signatures signatures;
    ls_arena_init(&memory, graph->allocator);
    status = ls_serve_read_head("text", text, graph, &memory, &signatures);
    if (ls_status_is_ok(status)) {
      check_head(graph, &signatures, &memory);
      for (size_t i = 0; i < signatures.count; ++i) {
        translate(graph, &signatures.items[i], 0);
        translate(graph, &signatures.items[i], 3);
      }
    }
    ls_arena_deinit(&memory);
    ls_graph_destroy(graph);
  }
  expect_answer(status);
  free(text);
  return 0;
}

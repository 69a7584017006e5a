// SPDX-License-Identifier: Apache-2.0
//
// Writes a signature as a StableHLO module, whose arguments are its inputs and
// then its variables.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "emit/stablehlo_module.h"
#include "graph/variables/variable.h"
#include "serve/lowered.h"

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

// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo_module.h"

#include "base/runtime_internal.h"

static void append_mark(ls_text *out, const char *const *marks, size_t index) {
  if (marks != NULL && marks[index] != NULL)
    ls_text_append_format(out, " {%s}", marks[index]);
}

static void declare_argument(ls_hlo *h, const ls_hlo_module *module,
                             size_t index, ls_text *out) {
  const ls_graph *body = module->source.body;
  const uint64_t ref = body->parameters[index];
  const ls_dtype dtype = ls_graph_type(body, ref).dtype;
  const ls_batch_dims dims = ls_emit_source_dims(&module->source, ref);
  const char *name = ls_arena_format(h->e.memory, "%%arg%zu", index);
  if (name == NULL) ls_emit_fail(&h->e, ls_out_of_memory());
  if (!ls_status_is_ok(h->e.status)) return;
  ls_emit_bind(&h->e, ref, ls_emit_value(&h->e, dtype, dims, name));
  ls_text_append_format(out, "%s%s: ", index > 0 ? ", " : "", name);
  ls_hlo_append_type(h, out, dtype, &dims);
  append_mark(out, module->argument_marks, index);
}

static void write_results(ls_hlo *h, const ls_hlo_module *module,
                          ls_text *out) {
  for (size_t i = 0; i < module->num_results; ++i) {
    const ls_emitted_value value =
        *ls_emit_look(&h->e, ls_emit_of(&h->e, module->results[i]));
    if (i > 0) ls_text_append(out, ", ");
    ls_hlo_append_type(h, out, value.dtype, &value.dims);
    append_mark(out, module->result_marks, i);
  }
}

static void write_return(ls_hlo *h, const ls_hlo_module *module) {
  ls_text_append(&h->body, "    return");
  for (size_t i = 0; i < module->num_results; ++i) {
    ls_text_append(&h->body, i > 0 ? ", " : " ");
    ls_hlo_name(h, ls_emit_of(&h->e, module->results[i]));
  }
  for (size_t i = 0; i < module->num_results; ++i) {
    ls_text_append(&h->body, i > 0 ? ", " : " : ");
    ls_hlo_type(h, ls_emit_of(&h->e, module->results[i]));
  }
  ls_text_append_char(&h->body, '\n');
}

static void hlo_deinit(ls_hlo *h) {
  ls_text_deinit(&h->body);
  ls_emitter_deinit(&h->e);
}
LS_OWNED_STRUCT(ls_hlo, hlo_deinit)

ls_status ls_hlo_write_module(const ls_hlo_module *module, ls_arena *memory,
                              ls_text *out) {
  LS_OWN(ls_hlo, h) = {.highest = module->highest};
  ls_emitter_init(&h.e, &ls_stablehlo_language, module->source, memory, &h);
  ls_text_init(&h.body, memory->allocator);
  ls_text_append(out, "module @lockstep {\n  func.func public @main(");
  for (size_t i = 0; i < module->source.body->num_parameters; ++i)
    declare_argument(&h, module, i, out);
  ls_text_append(out, ") -> (");
  ls_status_free(ls_emit_program(&h.e));
  if (ls_status_is_ok(h.e.status)) {
    write_return(&h, module);
    write_results(&h, module, out);
  }
  ls_text_append(out, ") {\n");
  ls_text_append_bytes(out, ls_text_data(&h.body), h.body.size);
  ls_text_append(out, "  }\n}\n");
  LS_RETURN_IF_ERROR(ls_status_clone(h.e.status));
  LS_RETURN_IF_ERROR(ls_text_status(&h.body));
  return ls_text_status(out);
}

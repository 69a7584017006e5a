// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo_module.h"

#include "base/runtime_internal.h"

static void append_mark(ls_text *out, const char *const *marks, size_t index) {
  if (marks != NULL && marks[index] != NULL)
    ls_text_append_format(out, " {%s}", marks[index]);
}

static ls_emitted declare_argument(ls_hlo *h, size_t index, ls_type type,
                                   const ls_batch_dims *dims, ls_text *out) {
  const char *name = ls_arena_format(h->e.memory, "%%arg%zu", index);
  if (name == NULL) ls_emit_fail(&h->e, ls_out_of_memory());
  if (!ls_status_is_ok(h->e.status)) return 0;
  ls_text_append_format(out, "%s%s: ", index > 0 ? ", " : "", name);
  ls_hlo_append_type(h, out, type.dtype, dims);
  return ls_emit_value(&h->e, type.dtype, *dims, name);
}

static void declare_parameter(ls_hlo *h, const ls_hlo_module *module,
                              size_t index, ls_text *out) {
  const uint64_t ref = module->source.body->parameters[index];
  const ls_batch_dims dims = ls_emit_source_dims(&module->source, ref);
  const ls_type type = ls_graph_type(module->source.body, ref);
  ls_emit_bind(&h->e, ref, declare_argument(h, index, type, &dims, out));
  append_mark(out, module->argument_marks, index);
}

// Declares step, seed and replica after the parameters.
static void declare_run(ls_hlo *h, size_t index, ls_text *out) {
  ls_emitted *const scalars[] = {&h->e.step, &h->e.seed, &h->e.replica};
  const ls_batch_dims dims = {0};
  for (size_t i = 0; i < sizeof(scalars) / sizeof(*scalars); ++i)
    *scalars[i] = declare_argument(
        h, index + i, (ls_type){.dtype = LS_DTYPE_U64}, &dims, out);
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

static ls_status write_module(const ls_hlo_module *module, bool draws,
                              ls_arena *memory, ls_text *out) {
  LS_OWN(ls_hlo, h) = {.highest = module->highest};
  ls_emitter_init(&h.e, &ls_stablehlo_language, module->source, memory, &h);
  ls_text_init(&h.body, memory->allocator);
  ls_text_append(out, "module @lockstep {\n  func.func public @main(");
  const size_t num_parameters = module->source.body->num_parameters;
  for (size_t i = 0; i < num_parameters; ++i)
    declare_parameter(&h, module, i, out);
  if (draws) declare_run(&h, num_parameters, out);
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

ls_status ls_hlo_write_module(const ls_hlo_module *module, ls_arena *memory,
                              ls_text *out) {
  return write_module(module, false, memory, out);
}

// ---- Programs ---------------------------------------------------------------
// Returns true if an op at any depth draws numbers or asks for its replica.
static bool graph_draws(const ls_graph *graph) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if ((ls_node_info(node)->traits & LS_OP_RANDOM) != 0 ||
        node->type == LS_OP_REPLICA_ID)
      return true;
    for (uint32_t k = 0; k < node->num_regions; ++k)
      if (graph_draws(node->regions[k])) return true;
  }
  return false;
}

static ls_status mark_aliases(const ls_hlo_program *program, ls_arena *memory,
                              const char *const **out_marks) {
  const size_t count = program->body->num_parameters;
  LS_ARENA_ARRAY_OR_RETURN(memory, const char *, marks, count + 1);
  for (size_t i = 0; i < count && program->aliases != NULL; ++i) {
    if (program->aliases[i] < 0) continue;
    marks[i] = ls_arena_format(memory, "tf.aliasing_output = %d : i32",
                               program->aliases[i]);
    if (marks[i] == NULL) return ls_out_of_memory();
  }
  *out_marks = marks;
  return ls_ok();
}

static ls_status same_slots(ls_arena *memory, size_t count,
                            ls_hlo_slot **out_slots) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_hlo_slot, slots, count + 1);
  for (size_t i = 0; i < count; ++i)
    slots[i] = (ls_hlo_slot){.first = (uint32_t)i};
  *out_slots = slots;
  return ls_ok();
}

ls_status ls_hlo_write_program(const ls_hlo_program *program, ls_arena *memory,
                               ls_text *out, ls_hlo_layout *out_layout) {
  const ls_graph *body = program->body;
  *out_layout = (ls_hlo_layout){.num_arguments = body->num_parameters,
                                .num_results = body->num_results,
                                .draws = graph_draws(body)};
  ls_hlo_module module = {.source = {.body = program->body},
                          .highest = program->highest,
                          .results = body->results,
                          .num_results = body->num_results};
  if (program->num_devices != 1)
    return ls_unimplemented("a program for %d devices", program->num_devices);
  LS_RETURN_IF_ERROR(
      same_slots(memory, body->num_parameters, &out_layout->arguments));
  LS_RETURN_IF_ERROR(
      same_slots(memory, body->num_results, &out_layout->results));
  LS_RETURN_IF_ERROR(mark_aliases(program, memory, &module.argument_marks));
  return write_module(&module, out_layout->draws, memory, out);
}

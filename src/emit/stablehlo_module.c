// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo_module.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/walk.h"

// A module that is written.
typedef struct writing {
  ls_hlo h;
  const ls_hlo_module *module;
  const ls_hlo_program *program;  // NULL: no program, but an export.
  ls_hlo_layout layout;
  bool calls_host;
  ls_emitted_list arguments, results;  // Including those of the run.
} writing;

static void writing_deinit(writing *w) {
  ls_text_deinit(&w->h.body);
  ls_emitter_deinit(&w->h.e);
}
LS_OWNED_STRUCT(writing, writing_deinit)

// ---- Arguments -------------------------------------------------------------
static ls_emitted declare_argument(writing *w, ls_dtype dtype,
                                   ls_batch_dims dims) {
  ls_emitter *e = &w->h.e;
  const char *name = ls_arena_format(e->memory, "%%arg%zu", w->arguments.count);
  if (name == NULL) ls_emit_fail(e, ls_out_of_memory());
  const ls_emitted value = ls_emit_value(e, dtype, dims, name);
  w->arguments.items[w->arguments.count++] = value;
  return value;
}

// Declares an argument for parameters of the body: one, or one of each device.
static void declare_slot(writing *w, ls_hlo_slot slot) {
  ls_emitter *e = &w->h.e;
  const ls_emit_source *source = &w->module->source;
  const uint64_t *refs = source->body->parameters + slot.first;
  const ls_emitted value =
      declare_argument(w, ls_graph_type(source->body, *refs).dtype,
                       ls_emit_source_dims(source, *refs));
  if (slot.stride == 0) ls_emit_bind(e, *refs, value);
  for (int32_t d = 0; slot.stride > 0 && d < e->num_devices; ++d)
    ls_emit_bind(e, refs[(size_t)d * slot.stride], ls_emit_owned(e, value, d));
}

static ls_status declare_arguments(writing *w) {
  const ls_batch_dims scalar = {0};
  ls_emitter *e = &w->h.e;
  for (size_t i = 0; i < w->layout.num_arguments; ++i)
    declare_slot(w, w->layout.arguments[i]);
  if (w->layout.draws) {
    e->step = declare_argument(w, LS_DTYPE_U64, scalar);
    e->seed = declare_argument(w, LS_DTYPE_U64, scalar);
    e->replica = declare_argument(w, LS_DTYPE_U64, scalar);
  }
  if (w->calls_host && !e->around.is_around)
    ls_emit_begin_host(e, declare_argument(w, LS_DTYPE_U64, scalar));
  if (e->around.loop != NULL)
    e->around.num_trips = declare_argument(w, LS_DTYPE_U64, scalar);
  return ls_status_clone(e->status);
}

// Returns the result that takes over the memory of an argument, or -1.
static int32_t alias_of(const writing *w, ls_hlo_slot slot) {
  if (w->program == NULL || w->program->aliases == NULL) return -1;
  const int32_t result = w->program->aliases[slot.first];
  for (size_t i = 0; i < w->layout.num_results; ++i)
    if (result >= 0 && w->layout.results[i].first == (uint32_t)result &&
        (w->layout.results[i].stride == 0) == (slot.stride == 0))
      return (int32_t)i;
  return -1;
}

static void write_arguments(writing *w, ls_text *out) {
  const char *const *marks = w->module->argument_marks;
  for (size_t i = 0; i < w->arguments.count; ++i) {
    const ls_emitted_value value =
        *ls_emit_look(&w->h.e, w->arguments.items[i]);
    ls_text_append(out, i > 0 ? ", " : "");
    ls_emit_name(&w->h.e, w->arguments.items[i], out);
    ls_text_append(out, ": ");
    ls_hlo_append_type(&w->h, out, value.dtype, &value.dims);
    if (i >= w->layout.num_arguments) continue;
    const int32_t alias = alias_of(w, w->layout.arguments[i]);
    if (alias >= 0)
      ls_text_append_format(out, " {tf.aliasing_output = %d : i32}", alias);
    else if (marks != NULL)
      ls_text_append_format(out, " {%s}", marks[i]);
  }
}

// ---- Results ---------------------------------------------------------------
static ls_status find_results(writing *w) {
  ls_emitter *e = &w->h.e;
  const ls_hlo_module *module = w->module;
  LS_RETURN_IF_ERROR(ls_hlo_find_results(
      e, module->results, module->num_results, w->results.items, &w->layout));
  w->results.count = w->layout.num_results;
  w->layout.counts = w->program != NULL && e->steps != 0;
  if (w->layout.counts) w->results.items[w->results.count++] = e->steps;
  ls_emit_append(e, &w->arguments, e->around.taken);
  ls_emit_append(e, &w->results, e->around.given);
  return ls_status_clone(e->status);
}

static void write_results(writing *w, ls_text *out) {
  const char *const *marks = w->module->result_marks;
  for (size_t i = 0; i < w->results.count; ++i) {
    const ls_emitted_value value = *ls_emit_look(&w->h.e, w->results.items[i]);
    if (i > 0) ls_text_append(out, ", ");
    ls_hlo_append_type(&w->h, out, value.dtype, &value.dims);
    if (marks != NULL) ls_text_append_format(out, " {%s}", marks[i]);
  }
}

static void write_return(writing *w) {
  ls_text *body = &w->h.body;
  ls_text_append(body, "    return");
  ls_hlo_names(&w->h.e, w->results.items, w->results.count);
  if (w->results.count > 0) ls_text_append(body, " : ");
  ls_hlo_types(&w->h.e, w->results.items, w->results.count);
  ls_text_append_char(body, '\n');
}

// ---- Modules ---------------------------------------------------------------
static ls_status make_lists(writing *w) {
  enum { RUN_ARGUMENTS = 4, RUN_RESULTS = 1 };
  ls_emitter *e = &w->h.e;
  w->arguments.items =
      ls_emit_new_list(e, w->layout.num_arguments + RUN_ARGUMENTS);
  w->results.items = ls_emit_new_list(e, w->module->num_results + RUN_RESULTS);
  return ls_status_clone(e->status);
}

// Writes the head last, as results are known then.
static ls_status write_module(writing *w, ls_arena *memory, ls_text *out) {
  LS_RETURN_IF_ERROR(ls_hlo_find_arguments(
      w->module->source.body, w->h.e.num_devices, memory, &w->layout));
  LS_RETURN_IF_ERROR(make_lists(w));
  if (w->calls_host) ls_emit_find_around(&w->h.e, w->program->room);
  LS_RETURN_IF_ERROR(declare_arguments(w));
  LS_RETURN_IF_ERROR(ls_emit_program(&w->h.e));
  LS_RETURN_IF_ERROR(find_results(w));
  ls_text_append(out, "module @lockstep {\n  func.func public @main(");
  write_arguments(w, out);
  ls_text_append(out, ") -> (");
  write_results(w, out);
  ls_text_append(out, ") {\n");
  write_return(w);
  ls_text_append_bytes(out, ls_text_data(&w->h.body), w->h.body.size);
  ls_text_append(out, "  }\n}\n");
  LS_RETURN_IF_ERROR(ls_status_clone(w->h.e.status));
  LS_RETURN_IF_ERROR(ls_text_status(&w->h.body));
  return ls_text_status(out);
}

static void init_writing(writing *w, const ls_hlo_module *module,
                         ls_arena *memory) {
  w->module = module;
  w->h.highest = module->highest;
  ls_emitter_init(&w->h.e, &ls_stablehlo_language, module->source, memory,
                  &w->h);
  ls_text_init(&w->h.body, memory->allocator);
}

ls_status ls_hlo_write_module(const ls_hlo_module *module, ls_arena *memory,
                              ls_text *out) {
  LS_OWN(writing, w) = {0};
  init_writing(&w, module, memory);
  return write_module(&w, memory, out);
}

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

ls_status ls_hlo_write_program(const ls_hlo_program *program, ls_arena *memory,
                               ls_text *out, ls_hlo_layout *out_layout) {
  const ls_hlo_module module = {.source = {.body = program->body},
                                .highest = program->highest,
                                .results = program->body->results,
                                .num_results = program->body->num_results};
  LS_OWN(writing, w) = {.program = program,
                        .layout = {.draws = graph_draws(program->body)}};
  init_writing(&w, &module, memory);
  w.h.bf16 = program->bf16;
  w.h.e.exact = program->exact;
  w.h.e.num_devices = program->num_devices;
  w.calls_host = ls_graph_any_type(program->body, LS_OP_HOST);
  const ls_status status = write_module(&w, memory, out);
  w.layout.hosts = w.h.e.hosts;
  w.layout.num_hosts = w.h.e.num_hosts;
  w.layout.around = w.h.e.around;
  *out_layout = w.layout;
  return status;
}

// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo_module.h"

#include "base/memory/own.h"
#include "graph/walk.h"

// ---- Slots ------------------------------------------------------------------
// Finds which values of a program each device of several takes and gives.

enum { NO_PARAMETER = UINT32_MAX };

// The slot of each parameter, and the device that takes it.
typedef struct claim {
  ls_hlo_slot slot;
  int32_t owner;  // Number + 1; 0: all devices take it.
} claim;

typedef struct argument_search {
  int32_t num_devices;
  claim *claims;
  ls_arena *memory;
} argument_search;

// Returns the program's parameter that a ref of this graph is, by those that
// the graph's parameters are.
static uint32_t parameter_of(const ls_graph *graph, const uint32_t *known,
                             uint64_t ref) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  return node->type == LS_OP_PARAMETER
             ? known[ls_node_int(node, LS_ATTR_ID_INDEX)]
             : (uint32_t)NO_PARAMETER;
}

// Claims the parameters of one lane, one for each device, if their positions
// have a common distance and nobody claims them otherwise.
static void claim_lane(argument_search *s, const uint32_t *parameters,
                       int32_t lanes) {
  const uint32_t first = parameters[0];
  if (first == NO_PARAMETER || parameters[lanes] == NO_PARAMETER ||
      parameters[lanes] <= first)
    return;
  const ls_hlo_slot slot = {.first = first,
                            .stride = parameters[lanes] - first};
  for (int32_t pass = 0; pass < 2; ++pass)
    for (int32_t d = 0; d < s->num_devices; ++d) {
      const uint32_t at = parameters[d * lanes];
      if (at != first + (uint32_t)d * slot.stride) return;
      claim *own = &s->claims[at];
      if (own->owner != 0 && (own->owner != d + 1 || own->slot.first != first ||
                              own->slot.stride != slot.stride))
        return;
      if (pass == 1) *own = (claim){slot, d + 1};
    }
}

static ls_status claim_replicas(argument_search *s, const ls_graph *graph,
                                const uint32_t *known, const ls_node *node) {
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  const size_t split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT);
  const int32_t lanes = (int32_t)replicas / s->num_devices;
  LS_ARENA_ARRAY_OR_RETURN(s->memory, uint32_t, parameters, replicas + 1);
  if (lanes * s->num_devices != (int32_t)replicas) return ls_ok();
  for (size_t i = 0; i < split; ++i) {
    for (size_t r = 0; r < replicas; ++r)
      parameters[r] =
          parameter_of(graph, known, node->inputs[i * replicas + r]);
    for (int32_t lane = 0; lane < lanes; ++lane)
      claim_lane(s, parameters + lane, lanes);
  }
  return ls_ok();
}

// Looks for replicas in a graph and its regions.
static ls_status search_graph(argument_search *s, const ls_graph *graph,
                              const uint32_t *known) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type == LS_OP_REPLICATE) {
      LS_RETURN_IF_ERROR(claim_replicas(s, graph, known, node));
      continue;
    }
    for (uint32_t r = 0; r < node->num_regions; ++r) {
      const ls_graph *region = node->regions[r];
      LS_ARENA_ARRAY_OR_RETURN(s->memory, uint32_t, inner,
                               region->num_parameters + 1);
      for (size_t k = 0; k < region->num_parameters; ++k) {
        const size_t at =
            k < region->num_declared
                ? k
                : ls_node_captures(node, r) + k - region->num_declared;
        inner[k] = parameter_of(graph, known, node->inputs[at]);
      }
      LS_RETURN_IF_ERROR(search_graph(s, region, inner));
    }
  }
  return ls_ok();
}

// Finds the arguments of a module: a parameter that one replica takes stands in
// the list of the replica's device, others in all lists.
static ls_status find_arguments(const ls_graph *body, int32_t num_devices,
                                ls_arena *memory, ls_hlo_layout *layout) {
  const size_t count = body->num_parameters;
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_hlo_slot, slots, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, claim, claims, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, uint32_t, known, count + 1);
  argument_search search = {num_devices, claims, memory};
  for (size_t i = 0; i < count; ++i)
    known[i] = (uint32_t)i;
  if (num_devices > 1) LS_RETURN_IF_ERROR(search_graph(&search, body, known));
  layout->arguments = slots;
  layout->num_arguments = 0;
  for (size_t i = 0; i < count; ++i)
    if (claims[i].owner < 2)
      slots[layout->num_arguments++] =
          claims[i].owner == 1 ? claims[i].slot
                               : (ls_hlo_slot){.first = (uint32_t)i};
  return ls_ok();
}

// ---- Results ---------------------------------------------------------------
static bool is_part(ls_emitter *e, const uint64_t *refs, size_t first,
                    size_t at, int32_t device) {
  const ls_emitted_value a = *ls_emit_look(e, ls_emit_owned_of(e, refs[first]));
  const ls_emitted_value b = *ls_emit_look(e, ls_emit_owned_of(e, refs[at]));
  return a.owner == 1 && b.owner == device + 1 && a.origin == b.origin;
}

// Returns the distance of the results of one lane from device to device; 0: it
// is not the same everywhere.
static size_t distance_of(ls_emitter *e, const uint64_t *refs, size_t count,
                          size_t first) {
  const size_t devices = (size_t)e->num_devices;
  for (size_t step = 1; devices > 1 && first + (devices - 1) * step < count;
       ++step) {
    size_t d = 0;
    while (d < devices && is_part(e, refs, first, first + d * step, (int32_t)d))
      ++d;
    if (d == devices) return step;
  }
  return 0;
}

// Finds the results after the ops were emitted: writes their values.
static ls_status hlo_find_results(ls_emitter *e, const uint64_t *refs,
                                  size_t count, ls_emitted *values,
                                  ls_hlo_layout *layout) {
  LS_ARENA_ARRAY_OR_RETURN(e->memory, ls_hlo_slot, slots, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(e->memory, bool, is_found, count + 1);
  layout->results = slots;
  layout->num_results = 0;
  for (size_t i = 0; i < count; ++i) {
    if (is_found[i]) continue;
    const size_t step = distance_of(e, refs, count, i);
    for (int32_t d = 0; step > 0 && d < e->num_devices; ++d)
      is_found[i + (size_t)d * step] = true;
    values[layout->num_results] =
        step > 0 ? ls_emit_owned_of(e, refs[i]) : ls_emit_of(e, refs[i]);
    slots[layout->num_results++] = (ls_hlo_slot){(uint32_t)i, (uint32_t)step};
  }
  return ls_ok();
}

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
  LS_RETURN_IF_ERROR(hlo_find_results(e, module->results, module->num_results,
                                      w->results.items, &w->layout));
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
  LS_RETURN_IF_ERROR(find_arguments(w->module->source.body, w->h.e.num_devices,
                                    memory, &w->layout));
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

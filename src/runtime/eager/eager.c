// SPDX-License-Identifier: Apache-2.0
#include "runtime/eager/eager.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/values/array_internal.h"
#include "graph/compare/compare.h"

// ---- Variables -------------------------------------------------------------
// Variables of the eager graph: their values are in the runtime's store.
// Returns the delayed draw of a value, which the caller releases; NULL if the
// value exists. Another thread may read the value meanwhile, which draws it.
static ls_late_draw *late_draw_of(ls_tensor value) {
  if (value.graph == NULL || value.graph->kind != LS_GRAPH_EAGER) return NULL;
  ls_runtime *runtime = ls_eager_of(value.graph)->state->runtime;
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  if (node == NULL) return NULL;
  return LS_RUNTIME_LOCKED(runtime, ls_object_retain(node->late));
}

static ls_status eager_initialize(ls_variable *variable, ls_tensor value) {
  ls_runtime_state *state = NULL;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  ls_late_draw *late = late_draw_of(value);
  if (late != NULL) {
    const ls_status status =
        ls_store_fill(state->store, variable, late->compiled, late->step);
    ls_object_release(late);
    return status;
  }
  LS_RETURN_IF_ERROR(ls_tensor_value(value, &array));
  return ls_store_write(state->store, variable, array);
}

static ls_status eager_initialize_zero(ls_variable *variable) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  return ls_store_add_zero(state->store, variable);
}

static ls_status eager_reserve(ls_variable *variable) {
  ls_runtime_state *state = NULL;
  ls_place *place = NULL;
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  LS_RETURN_IF_ERROR(ls_store_place(state->store, variable, &place));
  return ls_place_buffer(state->store, place, &buffer);
}

void ls_eager_forget(ls_variable *variable) {
  ls_runtime_state *state = ls_runtime_slot(variable->runtime, LS_SLOT_RUNTIME);
  if (state == NULL) return;
  // Components that are still referenced keep their values.
  bool lives_on = false;
  for (size_t i = 0; i < variable->num_components; ++i)
    lives_on |= !ls_object_is_unique(variable->components[i]);
  if (lives_on) ls_status_free(ls_store_split(state->store, variable));
  ls_store_forget(state->store, variable);
}

ls_status ls_eager_join(ls_variable *container) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(container->runtime, &state));
  return ls_store_join(state->store, container);
}

// Reads a value made of several components, on the current device.
static ls_status read_parts(ls_variable *container, ls_array **out_array) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_unimplemented(
        "the value of variable '%s' on the host, in graph '%s'",
        container->name, graph->name);
  {
    LS_STOP_RECORDING_SCOPE;
    LS_RETURN_IF_ERROR(ls_frame_begin());
    const ls_status status =
        ls_tensor_value(ls_variable_read(container), out_array);
    ls_status_free(ls_frame_end(NULL));
    return status;
  }
  return ls_ok();
}

// Finds the store of a variable that is about to be read or written.
static ls_status find_store(ls_variable *variable, ls_store **out_store) {
  if (variable->graph != NULL)
    return ls_unimplemented(
        "the value of variable '%s' on the host: it is of graph '%s', take a "
        "session's (ls_session_variable_value)",
        variable->name, variable->graph->name);
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_variable_settle(variable));
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  *out_store = state->store;
  return ls_ok();
}

ls_status ls_variable_value(ls_variable *variable, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array, variable);
  ls_store *store = NULL;
  variable = ls_variable_meant(variable);
  LS_RETURN_IF_ERROR(find_store(variable, &store));
  if (variable->num_components > 0 &&
      (variable->synchronization == LS_SYNCHRONIZATION_ON_READ ||
       !ls_store_is_shared(store, variable)))
    return read_parts(variable, out_array);
  return ls_store_read(store, variable, out_array);
}

ls_status ls_variable_set_value(ls_variable *variable, const ls_array *array) {
  LS_REQUIRE(variable, array);
  ls_store *store = NULL;
  variable = ls_variable_meant(variable);
  LS_RETURN_IF_ERROR(find_store(variable, &store));
  return ls_store_set(store, variable, array);
}

// FEW: operands or results of an op for which no memory is allocated.
// MAX_CACHED_BYTES: bytes of all cached ops.
enum { FEW = 16, MAX_CACHED_OPS = 4096, MAX_CACHED_BYTES = 128 << 20 };

// ---- Values ----------------------------------------------------------------
static ls_status refuse_stale(void) {
  return ls_invalid_argument(
      "a stale or failed eager handle: its value has gone with its frame");
}

// Returns (lends) the value of a ref of an eager graph.
static ls_status eager_value(const ls_graph *graph, uint64_t ref,
                             ls_array **out_array) {
  ls_node *node = ls_graph_node_of(graph, ref);
  *out_array = NULL;
  if (node == NULL) return refuse_stale();
  ls_eager_catch_up(graph, node);
  // A failed op has one output in place of all that it would have.
  if (node->failure != NULL) return ls_status_clone(node->failure);
  if (ls_ref_output(ref) >= node->num_outputs) return refuse_stale();
  *out_array = node->values[ls_ref_output(ref)];
  return ls_ok();
}

ls_op ls_eager_fail(ls_graph *graph, ls_status status) {
  ls_first_failure *first = ls_context_current()->failure;
  if (first != NULL && first->status == NULL) {
    first->status = ls_status_clone(status);
    first->is_unplaced = true;
  }
  const ls_op_spec spec = {.type = LS_OP_CONSTANT};
  ls_node *node = ls_graph_append(graph, &spec, NULL, 1);
  if (node == NULL) {  // The graph reports the error when the handle is used.
    ls_graph_fail(graph, status);
    return (ls_op){0};
  }
  node->outputs[0].shape = LS_SHAPE_UNKNOWN;
  node->failure = status;
  return (ls_op){graph, node->id};
}

// Makes a node with these values, which it retains.
static ls_op eager_keep(ls_graph *graph, const ls_op_spec *spec,
                        const uint64_t *input_refs, ls_array *const *values,
                        size_t count) {
  const bool recording = ls_eager_is_recording(graph);
  const ls_op_spec bare = {.type = spec->type};
  ls_node *node = recording ? ls_graph_append(graph, spec, input_refs, count)
                            : ls_graph_append(graph, &bare, NULL, count);
  if (node == NULL) return ls_eager_fail(graph, ls_out_of_memory());
  node->device = ls_context_current()->scoped.device;
  node->values = ls_arena_new_array(&graph->arena, ls_array *, count);
  if (node->values == NULL) {
    node->failure = ls_out_of_memory();
    return (ls_op){graph, node->id};
  }
  for (size_t i = 0; i < count; ++i) {
    node->values[i] = ls_array_retain(values[i]);
    node->outputs[i] =
        (ls_type){ls_array_dtype(values[i]), ls_array_shape(values[i])};
  }
  return (ls_op){graph, node->id};
}

static ls_status annotate_op(ls_status status, uint16_t type) {
  return ls_status_annotate(status, "in eager op %s", ls_op_table[type].name);
}

// ---- Compiling one op ------------------------------------------------------
// Makes a function graph of a single op whose parameters have the operands'
// types.
static ls_status one_op_graph(ls_runtime *runtime, const ls_op_spec *spec,
                              const ls_type *in, const ls_type *out,
                              size_t num_out, ls_graph **out_graph) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_make(
      LS_GRAPH_FUNCTION, ls_op_table[spec->type].name, runtime, NULL, &graph));
  *out_graph = graph;  // The caller frees it, also after a failure.
  LS_ARENA_ARRAY_OR_RETURN(&graph->arena, uint64_t, inputs, spec->num_inputs);
  LS_ARENA_ARRAY_OR_RETURN(&graph->arena, uint64_t, refs, num_out);
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(graph, in[i], NULL, &parameter));
    inputs[i] = parameter.ref;
  }
  ls_op_spec bare = *spec;
  bare.num_control = 0;
  ls_node *node = ls_graph_append(graph, &bare, inputs, num_out);
  if (node == NULL) return ls_out_of_memory();
  memcpy(node->outputs, out, num_out * sizeof(*out));
  for (size_t i = 0; i < num_out; ++i)
    refs[i] = ls_ref(node->id, (unsigned)i);
  return ls_graph_set_results(graph, refs, num_out);
}

static ls_status compile_op(ls_runtime_state *state, const ls_op_spec *spec,
                            const ls_type *in, const ls_type *out,
                            size_t num_out, ls_compiled **out_compiled) {
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(
      one_op_graph(state->runtime, spec, in, out, num_out, &graph));
  return ls_compile(state->runtime,
                    &(ls_lower_request){.graph = graph,
                                        .fetches = graph->results,
                                        .num_fetches = graph->num_results,
                                        .feeds = graph->parameters,
                                        .feed_types = in,
                                        .num_feeds = graph->num_parameters,
                                        .effects_are_roots = true,
                                        .on_host = true},
                    out_compiled);
}

static ls_status op_key(const ls_op_spec *spec, const ls_type *in,
                        ls_text *key) {
  ls_text_append_bytes(key, &spec->type, sizeof(spec->type));
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    ls_text_append_bytes(key, &in[i].dtype, sizeof(in[i].dtype));
    ls_text_append_bytes(key, &in[i].shape.rank, sizeof(int32_t));
    ls_text_append_bytes(key, in[i].shape.dim,
                         (size_t)in[i].shape.rank * sizeof(int64_t));
  }
  for (size_t i = 0; i < spec->num_attrs; ++i)
    if (!ls_attr_is_mark(&spec->attrs[i]))
      ls_attr_append_key(key, &spec->attrs[i]);
  return ls_text_status(key);
}

// Finds the op's program in the cache, or compiles it; the runtime's lock is
// held. The caller owns a reference.
static ls_status find_or_compile_op(ls_runtime_state *state, const ls_text *key,
                                    const ls_op_spec *spec, const ls_type *in,
                                    const ls_type *out, size_t num_out,
                                    ls_compiled **out_compiled) {
  ls_compiled *known = ls_map_find(&state->eager_ops, key->data, key->size);
  if (known != NULL) {
    *out_compiled = ls_compiled_retain(known);
    return ls_ok();
  }
  if (ls_map_count(&state->eager_ops) >= MAX_CACHED_OPS ||
      state->eager_bytes >= MAX_CACHED_BYTES)
    ls_runtime_state_drop_ops(state);
  LS_OWN(ls_compiled, made) = NULL;
  LS_RETURN_IF_ERROR(compile_op(state, spec, in, out, num_out, &made));
  LS_RETURN_IF_NO_MEMORY(
      ls_map_insert(&state->eager_ops, key->data, key->size, made));
  state->eager_bytes += ls_compiled_bytes(made);
  *out_compiled = ls_compiled_retain(made);
  made = NULL;  // Owned by the cache now.
  return ls_ok();
}

static ls_status find_op(ls_runtime_state *state, const ls_op_spec *spec,
                         const ls_type *in, const ls_type *out, size_t num_out,
                         ls_compiled **out_compiled) {
  LS_OWN(ls_text, key) = {.allocator = state->allocator};
  LS_RETURN_IF_ERROR(op_key(spec, in, &key));
  ls_runtime_lock(state->runtime);
  const ls_status status =
      find_or_compile_op(state, &key, spec, in, out, num_out, out_compiled);
  ls_runtime_unlock(state->runtime);
  return status;
}

// ---- Running one op --------------------------------------------------------
static ls_status run_compiled(ls_runtime_state *state, ls_compiled *compiled,
                              uint64_t step, int32_t replica,
                              ls_array *const *in, size_t num_in,
                              ls_array **out, size_t num_out) {
  const void *few_in[FEW];
  void *few_out[2 * FEW];
  LS_OWN_MEMORY(state->allocator, const void *, many_in) =
      num_in > FEW ? ls_new_array(state->allocator, const void *, num_in)
                   : NULL;
  LS_OWN_MEMORY(state->allocator, void *, many_out) =
      num_out > FEW ? ls_new_array(state->allocator, void *, 2 * num_out)
                    : NULL;
  const void **inputs = num_in > FEW ? many_in : few_in;
  void **outputs = num_out > FEW ? many_out : few_out;
  void **arrays = outputs + num_out;
  LS_RETURN_IF_NO_MEMORY(inputs != NULL && outputs != NULL);
  for (size_t i = 0; i < num_in; ++i)
    inputs[i] = ls_array_data(in[i]);
  for (size_t i = 0; i < num_out; ++i) {
    const ls_type type = ls_compiled_output(compiled, i);
    LS_RETURN_IF_ERROR(
        ls_array_create_unwritten(type.dtype, type.shape, &out[i]));
    ls_array_lend(out[i]);
    arrays[i] = out[i];
    outputs[i] = ls_array_mutable_data(out[i]);
  }
  bool is_stale = false;  // Stays false: the program uses no variables.
  const ls_status status = ls_compiled_run(compiled, state->store,
                                           &(ls_run_args){.inputs = inputs,
                                                          .outputs = outputs,
                                                          .arrays = arrays,
                                                          .step = step,
                                                          .replica = replica},
                                           &is_stale);
  ls_compiled_drop_large(compiled, state->store);
  return status;
}

// Returns the step for an op that draws. Only such ops advance the step, so
// that others change no draw.
static uint64_t next_step(ls_runtime_state *state, uint16_t type) {
  if ((ls_op_table[type].traits & LS_OP_RANDOM) == 0) return 0;
  return __atomic_fetch_add(&state->eager_random, 1, __ATOMIC_RELAXED);
}

static ls_status eager_run_op(ls_graph *graph, const ls_op_spec *spec,
                              ls_array *const *in, const ls_type *in_types,
                              const ls_type *out, size_t num_out,
                              ls_array **values) {
  ls_runtime_state *state = ls_eager_of(graph)->state;
  LS_OWN(ls_compiled, compiled) = NULL;
  LS_RETURN_IF_ERROR(find_op(state, spec, in_types, out, num_out, &compiled));
  return run_compiled(state, compiled, next_step(state, spec->type),
                      ls_context_replica(), in, spec->num_inputs, values,
                      num_out);
}

// ---- Late draws ------------------------------------------------------------
static void destroy_late(ls_object *object) {
  ls_late_draw *late = (ls_late_draw *)object;
  ls_compiled_release(late->compiled);
  ls_release(late->allocator, late);
}

static const ls_object_type late_type = {.name = "late draw",
                                         .destroy = destroy_late};
LS_OWNED_POINTER(ls_late_draw, ls_object_release)

static bool can_be_late(const ls_graph *graph, const ls_op_spec *spec) {
  return (spec->type == LS_OP_RANDOM_UNIFORM ||
          spec->type == LS_OP_RANDOM_NORMAL ||
          spec->type == LS_OP_RANDOM_TRUNCATED_NORMAL) &&
         spec->num_inputs == 0 && !ls_eager_is_recording(graph) &&
         ls_context_replica() == 0;  // Other replicas' values may be read
                                     // elsewhere.
}

static ls_status keep_late(ls_graph *graph, const ls_op_spec *spec,
                           const ls_type *out, ls_op *out_op) {
  ls_runtime_state *state = ls_eager_of(graph)->state;
  LS_NEW_OR_RETURN(state->allocator, ls_late_draw, made);
  ls_object_init(&made->object, &late_type);
  made->allocator = state->allocator;
  LS_OWN(ls_late_draw, late) = made;
  LS_RETURN_IF_ERROR(find_op(state, spec, NULL, out, 1, &late->compiled));
  LS_ARENA_ARRAY_OR_RETURN(&graph->arena, ls_array *, values, 1);
  ls_node *node =
      ls_graph_append(graph, &(ls_op_spec){.type = spec->type}, NULL, 1);
  LS_RETURN_IF_NO_MEMORY(node);
  late->step = next_step(state, spec->type);
  node->device = ls_context_current()->scoped.device;
  node->outputs[0] = out[0];
  node->values = values;
  node->late = &ls_give(&late)->object;
  *out_op = (ls_op){graph, node->id};
  return ls_ok();
}

void ls_eager_catch_up(const ls_graph *graph, ls_node *node) {
  if (__atomic_load_n(&node->late, __ATOMIC_ACQUIRE) == NULL) return;
  ls_runtime_state *state = ls_eager_of(graph)->state;
  ls_runtime_lock(state->runtime);
  ls_late_draw *late = (ls_late_draw *)node->late;
  if (late != NULL) {  // No other thread has drawn the value yet.
    // A cancel requested now must not affect an op made earlier.
    ls_cancel *cancel = ls_cancel_make_current(NULL);
    const ls_status status = run_compiled(state, late->compiled, late->step, 0,
                                          NULL, 0, node->values, 1);
    ls_cancel_make_current(cancel);
    if (!ls_status_is_ok(status))
      node->failure = annotate_op(status, node->type);
    __atomic_store_n(&node->late, NULL, __ATOMIC_RELEASE);
    ls_object_release(late);
  }
  ls_runtime_unlock(state->runtime);
}

static const ls_attr *find_attr(const ls_op_spec *spec, ls_attr_id id) {
  return ls_attr_find(spec->attrs, spec->num_attrs, id);
}

// A write whose new value depends on the old one and on operands.
typedef struct variable_change {
  ls_graph *graph;
  const ls_op_spec *spec;
  ls_array *const *in;
  const ls_type *in_types;
  ls_type type;  // Type of the variable.
} variable_change;

static ls_status change_variable(ls_array *before, void *user,
                                 ls_array **out_after) {
  const variable_change *c = user;
  const ls_op_spec *spec = c->spec;
  const bool scatters = spec->type == LS_OP_ASSIGN_SCATTER;
  const ls_attr how =
      scatters ? *find_attr(spec, LS_ATTR_ID_COMBINE) : (ls_attr){0};
  const ls_op_spec change = {.type = scatters ? LS_OP_SCATTER
                                     : spec->type == LS_OP_ASSIGN_ADD
                                         ? LS_OP_ADD
                                         : LS_OP_SUB,
                             .num_inputs = 1 + spec->num_inputs,
                             .attrs = &how,
                             .num_attrs = scatters};
  ls_array *operands[3] = {before};
  ls_type types[3] = {c->type};
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    operands[1 + i] = c->in[i];
    types[1 + i] = c->in_types[i];
  }
  return eager_run_op(c->graph, &change, operands, types, &c->type, 1,
                      out_after);
}

// Reads and writes variables in the store, without a program.
static ls_status run_variable_op(ls_graph *graph, const ls_op_spec *spec,
                                 ls_array *const *in, const ls_type *in_types,
                                 ls_array **values) {
  ls_store *store = ls_eager_of(graph)->state->store;
  ls_variable *variable =
      (ls_variable *)find_attr(spec, LS_ATTR_ID_VARIABLE)->as.object;
  if (spec->type == LS_OP_READ)
    return ls_store_read(store, variable, &values[0]);
  if (spec->type == LS_OP_IS_INITIALIZED) {
    LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_BOOL, LS_SCALAR, &values[0]));
    ls_array_set_f64(values[0], 0, ls_store_has_value(store, variable));
    return ls_ok();
  }
  if (spec->type == LS_OP_ASSIGN) {
    values[0] = ls_array_retain(in[0]);
    return ls_store_write(store, variable, in[0]);
  }
  return ls_store_update(
      store, variable, change_variable,
      &(variable_change){graph, spec, in, in_types, variable->type},
      &values[0]);
}

static ls_status run_on(ls_graph *graph, const ls_op_spec *spec,
                        ls_array *const *in, const ls_type *types,
                        const ls_type *out, size_t num_out, ls_array **values) {
  switch (spec->type) {
  case LS_OP_CONSTANT:
    values[0] = ls_array_retain(find_attr(spec, LS_ATTR_ID_VALUE)->as.array);
    return ls_ok();
  case LS_OP_IDENTITY:
  case LS_OP_STOP_GRADIENT:
  case LS_OP_SHARDING:
    values[0] = ls_array_retain(in[0]);
    return ls_ok();
  case LS_OP_BARRIER:
  case LS_OP_CUSTOM_GRADIENT:  // Returns its last operands.
  case LS_OP_MEETING:
    for (size_t i = 0; i < num_out; ++i)
      values[i] = ls_array_retain(in[spec->num_inputs - num_out + i]);
    return ls_ok();
  case LS_OP_READ:
  case LS_OP_IS_INITIALIZED:
  case LS_OP_ASSIGN:
  case LS_OP_ASSIGN_ADD:
  case LS_OP_ASSIGN_SUB:
  case LS_OP_ASSIGN_SCATTER:
    return run_variable_op(graph, spec, in, types, values);
  default:
    return eager_run_op(graph, spec, in, types, out, num_out, values);
  }
}

static ls_status run_any(ls_graph *graph, const ls_op_spec *spec,
                         const uint64_t *input_refs, const ls_type *out,
                         size_t num_out, ls_array **values) {
  ls_array *few[FEW], **in = few;
  ls_type few_types[FEW], *types = few_types;
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  if (spec->num_inputs > FEW) {
    in = ls_arena_new_array(&memory, ls_array *, spec->num_inputs);
    types = ls_arena_new_array(&memory, ls_type, spec->num_inputs);
    LS_RETURN_IF_NO_MEMORY(in != NULL && types != NULL);
  }
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    LS_RETURN_IF_ERROR(eager_value(graph, input_refs[i], &in[i]));
    types[i] = ls_graph_type(graph, input_refs[i]);
  }
  return run_on(graph, spec, in, types, out, num_out, values);
}

static ls_op eager_run(ls_graph *graph, const ls_op_spec *spec,
                       const uint64_t *input_refs, const ls_type *out,
                       size_t num_out) {
  ls_array *few[FEW] = {0}, **values = few;
  if (num_out > FEW)
    values = ls_new_array(graph->allocator, ls_array *, num_out);
  if (values == NULL) return ls_eager_fail(graph, ls_out_of_memory());
  ls_op op = {0};
  ls_status status = ls_ok();
  if (can_be_late(graph, spec)) {
    status = keep_late(graph, spec, out, &op);
  } else {
    status = run_any(graph, spec, input_refs, out, num_out, values);
    if (ls_status_is_ok(status))
      op = eager_keep(graph, spec, input_refs, values, num_out);
  }
  if (!ls_status_is_ok(status))
    op = ls_eager_fail(graph, annotate_op(status, spec->type));
  for (size_t i = 0; i < num_out; ++i)
    ls_array_release(values[i]);
  if (values != few) ls_release(graph->allocator, values);
  return op;
}

// ---- Public values ---------------------------------------------------------
static ls_status refuse_built(ls_tensor tensor) {
  if (tensor.ref == 0 || tensor.graph == NULL) {
    ls_graph *graph = NULL;
    LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
    const ls_status status = ls_graph_is_eager(graph)
                                 ? ls_graph_take_error(graph)
                                 : ls_graph_error(graph);
    return !ls_status_is_ok(status)
               ? status
               : ls_invalid_argument("a failed tensor has no value");
  }
  return ls_failed_precondition(
      "'%s' belongs to graph '%s' that is being built and has no value yet; "
      "return it from the function or fetch it with a session",
      ls_tensor_name(tensor), tensor.graph->name);
}

static ls_status status_of(ls_tensor tensor) {
  ls_node *node = ls_graph_node_of(tensor.graph, tensor.ref);
  if (node == NULL) return refuse_stale();  // Also for ops without outputs.
  ls_eager_catch_up(tensor.graph, node);
  return ls_status_clone(node->failure);
}

ls_status ls_tensor_status(ls_tensor tensor) {
  if (tensor.ref == 0 || tensor.graph == NULL ||
      tensor.graph->kind != LS_GRAPH_EAGER)
    return refuse_built(tensor);
  const ls_status status = status_of(tensor);
  ls_failure_hand_over(status);
  return status;
}

ls_status ls_made_status(ls_tensor tensor) {
  ls_graph *graph = ls_graph_current();
  if (tensor.ref != 0 && tensor.graph != NULL)
    return tensor.graph->kind == LS_GRAPH_EAGER ? status_of(tensor) : ls_ok();
  const ls_status error =
      graph == NULL ? ls_out_of_memory() : ls_graph_take_error(graph);
  return error != NULL ? error
                       : ls_invalid_argument("a value is a failed tensor");
}

ls_status ls_tensor_value(ls_tensor tensor, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  if (tensor.ref == 0 || tensor.graph == NULL ||
      tensor.graph->kind != LS_GRAPH_EAGER)
    return refuse_built(tensor);
  const ls_status status = eager_value(tensor.graph, tensor.ref, out_array);
  ls_failure_hand_over(status);
  if (ls_status_is_ok(status)) ls_array_retain(*out_array);
  return status;
}

ls_status ls_tensor_item(ls_tensor tensor, double *out_item) {
  LS_REQUIRE_OUT(out_item);
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_tensor_value(tensor, &array));
  if (ls_array_num_elements(array) != 1)
    return ls_invalid_argument(
        "one element was requested, but the tensor is %s",
        LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
  *out_item = ls_array_f64(array, 0);
  return ls_ok();
}

ls_tensor ls_tensor_from_array(ls_array *array) { return ls_constant(array); }

const ls_eager_vtable ls_runtime_eager = {
    .graph = ls_eager_graph,
    .run = eager_run,
    .catch_up = ls_eager_catch_up,
    .drop_since = ls_eager_drop_since,
    .fail = ls_eager_fail,
    .initialize = eager_initialize,
    .initialize_zero = eager_initialize_zero,
    .reserve = eager_reserve,
    .forget = ls_eager_forget,
};

// SPDX-License-Identifier: Apache-2.0
#include "base/threads/locked.h"
#include "runtime/compiled.h"

#include "base/runtime_internal.h"
#include "base/trace.h"
#include "engine/backend.h"
#include "graph/text/text.h"
#include "graph/walk.h"
#include "runtime/eager/eager.h"
#include "runtime/program.h"
#include "runtime/ranks.h"

// Removes the program from the cache, unless another one has replaced it.
static void program_forget(ls_compiled *compiled) {
  if (compiled->key == NULL) return;
  ls_runtime *runtime = compiled->program->runtime;
  ls_runtime_lock(runtime);
  ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (ls_map_find(&state->programs, compiled->key, compiled->key_size) ==
      compiled)
    ls_map_remove(&state->programs, compiled->key, compiled->key_size);
  ls_runtime_unlock(runtime);
  ls_release(compiled->allocator, compiled->key);
}

static void destroy_compiled(ls_object *object) {
  ls_compiled *compiled = (ls_compiled *)object;
  program_forget(compiled);
  ls_compiled_drop_bound(compiled, compiled->idle);
  if (compiled->executable != NULL)
    compiled->backend->vtable->release_executable(compiled->executable);
  ls_object_release(compiled->program);
  ls_release(compiled->allocator, compiled->touches);
  ls_release(compiled->allocator, compiled->ops);
  ls_release(compiled->allocator, compiled);
}

static const ls_object_type compiled_type = {.name = "compiled program",
                                             .destroy = destroy_compiled};

// ---- Compiling -------------------------------------------------------------
// Adds host kernels, their states and resources, of which the fingerprint has
// only types. A program holds references to them, so their addresses are unique
// while it is in the cache.
static void key_objects(const ls_graph *graph, ls_text *key) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);)
    for (uint32_t k = 0; k < walk.node->num_attrs; ++k) {
      const ls_attr *attr = &walk.node->attrs[k];
      if (attr->kind == LS_ATTR_OBJECT)
        ls_text_append_bytes(key, &attr->as.object, sizeof(attr->as.object));
      if (attr->kind == LS_ATTR_KERNEL)
        ls_text_append_bytes(key, &attr->as.kernel, sizeof(attr->as.kernel));
      if (attr->kind == LS_ATTR_ARRAY &&
          (ls_array_dtype(attr->as.array) == LS_DTYPE_RESOURCE ||
           ls_array_dtype(attr->as.array) == LS_DTYPE_VARIANT))
        ls_text_append_bytes(key, &attr->as.array, sizeof(attr->as.array));
    }
}

// Makes the cache's key: the body's fingerprint, and the variable and object of
// each use. Two models of equal shape differ in these.
static ls_status cache_key(const ls_program *program, ls_text *key) {
  ls_text_append_bytes(key, program->fingerprint, sizeof(program->fingerprint));
  ls_text_append_bytes(key, &program->on_host, sizeof(program->on_host));
  for (size_t i = 0; i < program->num_uses; ++i) {
    const uint64_t id = ((ls_variable *)program->uses[i].variable)->id;
    const bool states[] = {program->uses[i].split_before,
                           program->uses[i].split_after};
    ls_text_append_bytes(key, &id, sizeof(id));
    ls_text_append_bytes(key, states, sizeof(states));
  }
  for (size_t i = 0; i < program->num_expects; ++i) {
    const ls_expectation *expects = &program->expects[i];
    const uint64_t id = ((ls_variable *)expects->variable)->id;
    ls_text_append_bytes(key, &id, sizeof(id));
    ls_text_append_bytes(key, &expects->initialized,
                         sizeof(expects->initialized));
  }
  ls_text_append_bytes(key, program->padded,
                       program->num_padded * sizeof(*program->padded));
  ls_text_append_bytes(key, program->devices,
                       program->num_devices * sizeof(*program->devices));
  key_objects(program->body, key);
  for (size_t i = 0; i < program->num_launches; ++i)
    program->runtime->launches->identify(program->launches[i], key);
  if (ls_ranks_share(program))
    ls_text_append_bytes(key, &program->strategy, sizeof(program->strategy));
  return ls_text_status(key);
}

// Returns true for a random op that depends on the step.
static bool draws_by_step(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_RANDOM) != 0 &&
         ls_node_int(node, LS_ATTR_ID_FIXED) == 0;
}

// Adds a use, in the order of families; an existing one may become a write.
static void touch(ls_compiled *compiled, const ls_variable *variable,
                  bool written) {
  ls_touch *touches = compiled->touches;
  size_t at = compiled->num_touches;
  while (at > 0 && touches[at - 1].family > variable->family)
    --at;
  if (at > 0 && touches[at - 1].family == variable->family) {
    touches[at - 1].written |= written;
    return;
  }
  memmove(touches + at + 1, touches + at,
          (compiled->num_touches++ - at) * sizeof(*touches));
  touches[at] = (ls_touch){variable->family, written, variable->name};
}

static ls_status list_touches(ls_compiled *compiled) {
  const ls_program *program = compiled->program;
  LS_SET_ARRAY_OR_RETURN(compiled->allocator, ls_touch, compiled->touches,
                         program->num_uses + program->num_expects + 1);
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    const ls_variable *variable = (ls_variable *)use->variable;
    compiled->distributed |=
        variable->family != variable->id || variable->num_components > 0;
    touch(compiled, variable, use->written);
  }
  for (size_t i = 0; i < program->num_expects; ++i)
    touch(compiled, (ls_variable *)program->expects[i].variable, false);
  return ls_ok();
}

// Returns true for a host call that may wait.
static bool waits_for_host(const ls_node *node) {
  enum { AT_ONCE = LS_HOST_INLINE, HOW = LS_HOST_INLINE | LS_HOST_WAITS };
  return node->type == LS_OP_HOST &&
         (ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->flags & HOW) !=
             AT_ONCE;
}

// Returns true if a loop updates variables: then a run consists of many steps.
static bool loops_over_variables(const ls_program *program) {
  const ls_graph *body = program->body;
  for (size_t i = program->num_outputs; i < body->num_results; ++i) {
    const ls_node *node = ls_graph_node_of(body, body->results[i]);
    if (node->type == LS_OP_WHILE) return true;
  }
  return false;
}

// Returns true if a run may take long. Other runs do not wait for such runs.
static bool is_long(const ls_program *program) {
  return ls_graph_any(program->body, waits_for_host) ||
         loops_over_variables(program);
}

// Compiles. New values of variables are kept apart in a long run, and if the
// program may fail after writing some: a failure leaves the old values.
static ls_status make_executable(ls_compiled *compiled) {
  ls_backend *backend = compiled->backend;
  ls_program *program = compiled->program;
  program->apart = is_long(program);
  LS_RETURN_IF_ERROR(
      backend->vtable->compile(backend, program, &compiled->executable));
  if (program->apart || !backend->vtable->facts(compiled->executable).tears)
    return ls_ok();
  backend->vtable->release_executable(compiled->executable);
  compiled->executable = NULL;
  program->apart = true;
  return backend->vtable->compile(backend, program, &compiled->executable);
}

// Checks the program's computations for TPU cores.
static ls_status check_launches(const ls_compiled *compiled) {
  const ls_program *program = compiled->program;
  if (program->num_launches == 0) return ls_ok();
  const ls_plan_facts facts =
      compiled->backend->vtable->facts(compiled->executable);
  for (size_t i = 0; i < program->num_launches; ++i)
    LS_RETURN_IF_ERROR(program->runtime->launches->check(program->launches[i],
                                                         program, &facts));
  return ls_ok();
}

static ls_status compile(ls_backend *backend, ls_program *program,
                         ls_compiled **out_compiled) {
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_compiled, compiled);
  ls_object_init(&compiled->object, &compiled_type);
  compiled->allocator = allocator;
  compiled->backend = backend;
  compiled->program = ls_object_retain(program);
  compiled->draws = ls_graph_any(program->body, draws_by_step);
  LS_RETURN_IF_ERROR(list_touches(compiled));
  LS_RETURN_IF_ERROR(ls_ranks_list_ops(program, &compiled->ops));
  const int64_t began = ls_runtime_now(backend->runtime);
  LS_RETURN_IF_ERROR(make_executable(compiled));
  compiled->compile_nanos = ls_runtime_now(backend->runtime) - began;
  LS_RETURN_IF_ERROR(check_launches(compiled));
  const ls_plan_facts facts = backend->vtable->facts(compiled->executable);
  compiled->program_bytes =
      program->body->arena.bytes + facts.table_bytes + facts.constant_bytes;
  compiled->instance_bytes = (size_t)facts.figures.temporary_bytes;
  return ls_hand_over(&compiled, out_compiled);
}

// Retains a program from the cache; NULL if its last reference is already gone.
static ls_compiled *retain_if_alive(ls_compiled *compiled) {
  if (compiled == NULL) return NULL;
  int *references = &compiled->object.references;
  int seen = __atomic_load_n(references, __ATOMIC_RELAXED);
  while (seen > 0)
    if (__atomic_compare_exchange_n(references, &seen, seen + 1, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return compiled;
  return NULL;
}

static ls_status find_or_compile(ls_runtime_state *state, ls_backend *backend,
                                 ls_program *program, const ls_text *key,
                                 ls_compiled **out_compiled) {
  *out_compiled =
      retain_if_alive(ls_map_find(&state->programs, key->data, key->size));
  if (*out_compiled != NULL) return ls_ok();
  LS_OWN(ls_compiled, made) = NULL;
  LS_RETURN_IF_ERROR(compile(backend, program, &made));
  made->key = ls_copy_text(state->allocator, key->data, key->size);
  made->key_size = key->size;
  LS_RETURN_IF_NO_MEMORY(
      made->key != NULL &&
      ls_map_insert(&state->programs, key->data, key->size, made));
  return ls_hand_over(&made, out_compiled);
}

static ls_status lower_and_compile(ls_runtime *runtime,
                                   const ls_lower_request *request,
                                   ls_compiled **out_compiled) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  LS_OWN(ls_program, program) = NULL;
  LS_RETURN_IF_ERROR(ls_lower(backend, request, &program));
  LS_OWN(ls_text, key) = {.allocator = state->allocator};
  LS_RETURN_IF_ERROR(cache_key(program, &key));
  return LS_RUNTIME_LOCKED(
      runtime, find_or_compile(state, backend, program, &key, out_compiled));
}

ls_status ls_compile(ls_runtime *runtime, const ls_lower_request *request,
                     ls_compiled **out_compiled) {
  *out_compiled = NULL;
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = lower_and_compile(runtime, request, out_compiled);
  if (began != LS_NO_SPAN)
    ls_span_end(runtime, &(ls_span){.kind = "compile",
                                    .name = request->graph->name,
                                    .began = began});
  return status;
}

// ---- Accessors -------------------------------------------------------------
LS_COUNTED(ls_compiled)

const ls_program *ls_compiled_program(const ls_compiled *compiled) {
  return compiled->program;
}

ls_type ls_compiled_output(const ls_compiled *compiled, size_t i) {
  const ls_graph *body = compiled->program->body;
  return ls_graph_type(body, body->results[i]);
}

bool ls_compiled_draws(const ls_compiled *compiled) { return compiled->draws; }

bool ls_compiled_is_late(const ls_compiled *compiled) {
  return compiled->backend->vtable->facts(compiled->executable).is_late;
}

ls_program_figures ls_compiled_figures(const ls_compiled *compiled) {
  ls_program_figures figures =
      compiled->backend->vtable->facts(compiled->executable).figures;
  figures.compile_seconds += (double)compiled->compile_nanos * 1e-9;
  return figures;
}

ls_status ls_compiled_list_instructions(const ls_compiled *compiled,
                                        ls_instruction_figures *instructions,
                                        size_t capacity, size_t *out_count) {
  const ls_executable *executable = compiled->executable;
  const struct ls_backend_vtable *vtable = compiled->backend->vtable;
  return vtable->list_instructions != NULL
             ? vtable->list_instructions(executable, instructions, capacity,
                                         out_count)
             : ls_unimplemented(
                   "listing the instructions of a program of back end '%s'",
                   vtable->name);
}

ls_status ls_compiled_print_plan(const ls_compiled *compiled, char **out_text) {
  LS_OWN(ls_text, text) = {0};
  *out_text = NULL;
  ls_print_begin(&text, compiled->allocator);
  LS_RETURN_IF_ERROR(
      compiled->backend->vtable->print_plan(compiled->executable, &text));
  return ls_print_end(&text, out_text);
}

// ---- State -----------------------------------------------------------------
void ls_runtime_state_drop_ops(ls_runtime_state *state) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&state->eager_ops, &at, &item);)
    ls_compiled_release(item.value);
  ls_map_clear(&state->eager_ops);
  state->eager_bytes = 0;
}

static void destroy_state(void *pointer) {
  ls_runtime_state *state = pointer;
  ls_eager_graphs_deinit(state);
  ls_runtime_state_drop_ops(state);
  ls_map_deinit(&state->eager_ops);
  ls_map_deinit(&state->programs);
  ls_map_deinit(&state->compared);
  ls_map_deinit(&state->comparisons);
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&state->runs, &at, &item);)
    ls_release(state->allocator, item.value);
  ls_map_deinit(&state->runs);
  ls_store_destroy(state->store);
  ls_release(state->allocator, state);
}

static void forget_ops(ls_runtime *runtime) {
  ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  ls_runtime_state_drop_ops(state);
  ls_eager_graphs_forget(state);
}

static ls_status make_state(ls_runtime *runtime, ls_runtime_state **out_state) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_runtime_state, state);
  static uint64_t last_serial;
  state->serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
  state->runtime = runtime;
  state->allocator = allocator;
  ls_map_init(&state->programs, allocator);
  ls_map_init(&state->compared, allocator);
  ls_map_init(&state->comparisons, allocator);
  ls_map_init(&state->runs, allocator);
  ls_map_init(&state->eager_ops, allocator);
  ls_eager_graphs_init(state);
  const ls_status status = ls_store_create(runtime, &state->store);
  if (!ls_status_is_ok(status)) {
    destroy_state(state);
    return status;
  }
  ls_runtime_set_slot(runtime, LS_SLOT_RUNTIME, state, destroy_state);
  runtime->forget_ops = forget_ops;
  *out_state = state;
  return ls_ok();
}

ls_status ls_runtime_state_get(ls_runtime *runtime,
                               ls_runtime_state **out_state) {
  *out_state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (*out_state != NULL) return ls_ok();
  ls_status status = ls_ok();
  ls_runtime_lock(runtime);
  *out_state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (*out_state == NULL) status = make_state(runtime, out_state);
  ls_runtime_unlock(runtime);
  return status;
}

ls_status ls_runtime_number_for_ranks(ls_runtime *runtime,
                                     uint64_t *out_number) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  *out_number = __atomic_add_fetch(&state->numbers_for_ranks, 1, __ATOMIC_RELAXED);
  return ls_ok();
}

void ls_runtime_return_number(ls_runtime *runtime, uint64_t number) {
  ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  if (state != NULL)
    (void)__atomic_compare_exchange_n(&state->numbers_for_ranks, &number,
                                      number - 1, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

// SPDX-License-Identifier: Apache-2.0
#include "runtime/program.h"

#include "base/runtime_internal.h"
#include "graph/text/print.h"
#include "lockstep/trunk.h"
#include "runtime/state.h"

// A program bound to a store; a list of idle ones.
typedef struct bound {
  struct bound *next;
  uint64_t store_id;
  ls_instance *instance;
} bound;

struct ls_compiled {
  ls_object object;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_program *program;
  ls_executable *executable;
  char *key;  // In the runtime's program cache, which does not own it.
  size_t key_size;
  bool distributed;  // Uses a distributed variable or a part of one.
  bool draws;        // By the step.
  bound *idle;       // One is taken and given back with an atomic exchange.
  uint64_t checked;  // The store where every variable was seen to have a value.
};

static void destroy_bound(ls_compiled *compiled, bound *b) {
  while (b != NULL) {
    bound *next = b->next;
    if (b->instance != NULL)
      compiled->backend->vtable->destroy_instance(b->instance);
    ls_release(compiled->allocator, b);
    b = next;
  }
}

// Leaves the cache, unless another has taken the place meanwhile.
static void forget(ls_compiled *compiled) {
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
  forget(compiled);
  destroy_bound(compiled, compiled->idle);
  if (compiled->executable != NULL)
    compiled->backend->vtable->release_executable(compiled->executable);
  ls_object_release(compiled->program);
  ls_release(compiled->allocator, compiled);
}

static const ls_object_type compiled_type = {.name = "compiled program",
                                             .destroy = destroy_compiled};

// ---- Compiling -------------------------------------------------------------
// Host kernels, their states and resources, which the fingerprint knows by type
// only.
// A program holds them, so while it is in the cache no other lies there.
static void key_objects(const ls_graph *graph, ls_text *key) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_attrs; ++k) {
      const ls_attr *attr = &node->attrs[k];
      if (attr->kind == LS_ATTR_OBJECT)
        ls_text_append_bytes(key, &attr->as.object, sizeof(attr->as.object));
      if (attr->kind == LS_ATTR_KERNEL)
        ls_text_append_bytes(key, &attr->as.kernel, sizeof(attr->as.kernel));
      if (attr->kind == LS_ATTR_ARRAY &&
          (ls_array_dtype(attr->as.array) == LS_DTYPE_RESOURCE ||
           ls_array_dtype(attr->as.array) == LS_DTYPE_VARIANT))
        ls_text_append_bytes(key, &attr->as.array, sizeof(attr->as.array));
    }
    for (uint32_t k = 0; k < node->num_regions; ++k)
      key_objects(ls_graph_resolve(node->regions[k]), key);
  }
}

// The cache's key: the body's fingerprint, and which variable and object stands
// where. Uses differ between two models of equal shape, so they are part of it.
static ls_status cache_key(const ls_program *program, int32_t replicas,
                           ls_text *key) {
  ls_text_append_bytes(key, program->fingerprint, sizeof(program->fingerprint));
  ls_text_append_bytes(key, &replicas, sizeof(replicas));
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
  key_objects(program->body, key);
  return ls_text_status(key);
}

// What of the replicas runs here: on several ranks each one's share.
static ls_lanes lanes_of(const ls_trunk *trunk, int32_t replicas) {
  ls_lanes lanes = {.replicas = replicas, .cores = 1, .count = replicas};
  if (trunk == NULL || replicas == 1) return lanes;
  lanes.first = ls_trunk_first(trunk, trunk->rank, replicas);
  lanes.count = ls_trunk_first(trunk, trunk->rank + 1, replicas) - lanes.first;
  return lanes;
}

// Whether it has a random op that the step counts for.
static bool draws(const ls_graph *graph) {
  bool found = false;
  for (size_t i = 0; i < graph->num_nodes && !found; ++i) {
    const ls_node *node = graph->nodes[i];
    found = (ls_node_info(node)->traits & LS_OP_RANDOM) != 0 &&
            ls_node_int(node, LS_ATTR_ID_FIXED) == 0;
    for (uint32_t k = 0; k < node->num_regions && !found; ++k)
      found = draws(ls_graph_resolve(node->regions[k]));
  }
  return found;
}

static ls_status compile(ls_backend *backend, ls_program *program,
                         int32_t replicas, ls_compiled **out_compiled) {
  ls_runtime *runtime = backend->runtime;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_compiled *compiled = ls_new(allocator, ls_compiled);
  if (compiled == NULL) return ls_out_of_memory();
  ls_object_init(&compiled->object, &compiled_type);
  compiled->allocator = allocator;
  compiled->backend = backend;
  compiled->program = ls_object_retain(program);
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_variable *variable = (ls_variable *)program->uses[i].variable;
    compiled->distributed |=
        variable->num_components > 0 || variable->container != NULL;
  }
  compiled->draws = draws(program->body);
  const ls_status status = backend->vtable->compile(
      backend, program, lanes_of(ls_runtime_trunk(runtime), replicas),
      &compiled->executable);
  if (ls_status_is_ok(status))
    *out_compiled = compiled;
  else
    ls_compiled_release(compiled);
  return status;
}

// A program in the cache may be on its way out: its last reference has gone,
// but it has not left yet. Then it is as if it were not there.
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
                                 ls_program *program, int32_t replicas,
                                 const ls_text *key,
                                 ls_compiled **out_compiled) {
  *out_compiled =
      retain_if_alive(ls_map_find(&state->programs, key->data, key->size));
  if (*out_compiled != NULL) return ls_ok();
  ls_compiled *made = NULL;
  LS_RETURN_IF_ERROR(compile(backend, program, replicas, &made));
  made->key = ls_copy_text(state->allocator, key->data, key->size);
  made->key_size = key->size;
  if (made->key == NULL ||
      !ls_map_insert(&state->programs, key->data, key->size, made)) {
    ls_compiled_release(made);
    return ls_out_of_memory();
  }
  *out_compiled = made;
  return ls_ok();
}

ls_status ls_compile(ls_runtime *runtime, const ls_lower_request *request,
                     int32_t replicas, ls_compiled **out_compiled) {
  *out_compiled = NULL;
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  ls_program *program = NULL;
  LS_RETURN_IF_ERROR(ls_lower(backend, request, &program));
  ls_text key;
  ls_text_init(&key, state->allocator);
  ls_status status = cache_key(program, replicas, &key);
  if (ls_status_is_ok(status)) {
    ls_runtime_lock(runtime);
    status =
        find_or_compile(state, backend, program, replicas, &key, out_compiled);
    ls_runtime_unlock(runtime);
  }
  ls_text_deinit(&key);
  ls_object_release(program);
  return status;
}

// ---- Accessors -------------------------------------------------------------
ls_compiled *ls_compiled_retain(ls_compiled *compiled) {
  return ls_object_retain(compiled);
}

void ls_compiled_release(ls_compiled *compiled) { ls_object_release(compiled); }

const ls_program *ls_compiled_program(const ls_compiled *compiled) {
  return compiled->program;
}

ls_type ls_compiled_output(const ls_compiled *compiled, size_t i) {
  const ls_graph *body = compiled->program->body;
  return ls_graph_type(body, body->results[i]);
}

bool ls_compiled_draws(const ls_compiled *compiled) { return compiled->draws; }

ls_status ls_compiled_print_plan(const ls_compiled *compiled, char **out_text) {
  ls_text text;
  *out_text = NULL;
  ls_print_begin(&text, compiled->allocator);
  ls_status status =
      compiled->backend->vtable->print_plan(compiled->executable, &text);
  if (ls_status_is_ok(status)) status = ls_print_end(&text, out_text);
  ls_text_deinit(&text);
  return status;
}

// ---- Running ---------------------------------------------------------------
static ls_status bind(ls_compiled *compiled, ls_store *store,
                      bound **out_bound) {
  const ls_program *program = compiled->program;
  bound *b = ls_new(compiled->allocator, bound);
  ls_buffer **buffers =
      ls_new_array(compiled->allocator, ls_buffer *, program->num_uses + 1);
  ls_status status =
      b == NULL || buffers == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < program->num_uses && ls_status_is_ok(status); ++i)
    status = ls_store_buffer(store, (ls_variable *)program->uses[i].variable,
                             &buffers[i]);
  if (ls_status_is_ok(status)) {
    b->store_id = ls_store_id(store);
    status = compiled->backend->vtable->bind(compiled->executable, buffers,
                                             &b->instance);
  }
  ls_release(compiled->allocator, buffers);
  if (ls_status_is_ok(status))
    *out_bound = b;
  else
    ls_release(compiled->allocator, b);
  return status;
}

// Takes the idle list whole, keeps the first of this store, puts the rest back.
static bound *take_idle(ls_compiled *compiled, uint64_t store_id) {
  bound *list = __atomic_exchange_n(&compiled->idle, NULL, __ATOMIC_ACQ_REL);
  if (list == NULL || (list->next == NULL && list->store_id == store_id))
    return list;
  bound *found = NULL;
  for (bound **at = &list; *at != NULL; at = &(*at)->next) {
    if ((*at)->store_id != store_id) continue;
    found = *at;
    *at = found->next;
    found->next = NULL;
    break;
  }
  list = __atomic_exchange_n(&compiled->idle, list, __ATOMIC_ACQ_REL);
  destroy_bound(compiled, list);  // Another thread's, a moment's surplus.
  return found;
}

static void give_back(ls_compiled *compiled, bound *b) {
  b->next = __atomic_exchange_n(&compiled->idle, NULL, __ATOMIC_ACQ_REL);
  bound *lost = __atomic_exchange_n(&compiled->idle, b, __ATOMIC_ACQ_REL);
  destroy_bound(compiled, lost);
}

// An instance on `store`, idle or new.
static ls_status take(ls_compiled *compiled, ls_store *store,
                      bound **out_bound) {
  *out_bound = take_idle(compiled, ls_store_id(store));
  return *out_bound != NULL ? ls_ok() : bind(compiled, store, out_bound);
}

// Every variable that is read must have a value. Asked once for each store:
// a value never goes away.
static ls_status check_values(ls_compiled *compiled, ls_store *store) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_variable *variable = (ls_variable *)program->uses[i].variable;
    if (program->uses[i].read && !ls_store_has_value(store, variable))
      return ls_failed_precondition(
          "variable '%s' is read but was never initialized; run its "
          "initializer (ls_global_initializer) or assign a value first",
          variable->name);
  }
  return ls_ok();
}

bool ls_compiled_fits(const ls_compiled *compiled, const ls_store *store) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_expects; ++i)
    if (ls_store_has_value(store,
                           (ls_variable *)program->expects[i].variable) !=
        program->expects[i].initialized)
      return false;
  for (size_t i = 0; compiled->distributed && i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    const ls_variable *variable = (ls_variable *)use->variable;
    const ls_variable *container =
        variable->num_components > 0 ? variable : variable->container;
    // A component that is given a buffer of its own says nothing by itself.
    if (container == NULL || (container != variable && !use->split_before))
      continue;
    if (ls_store_is_shared(store, container) == use->split_before) return false;
  }
  return true;
}

// What the run has left: values, and whether they are shared.
static void note_writes(const ls_compiled *compiled, ls_store *store) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    const ls_variable *variable = (ls_variable *)use->variable;
    if (use->written) ls_store_mark_written(store, variable);
    if (variable->num_components > 0 && (use->written || use->split_after))
      ls_store_set_shared(store, variable, !use->split_after);
  }
}

ls_status ls_compiled_run(ls_compiled *compiled, ls_store *store,
                          const ls_run_args *args) {
  const uint64_t id = ls_store_id(store);
  const bool checked =
      __atomic_load_n(&compiled->checked, __ATOMIC_ACQUIRE) == id;
  if (!checked) LS_RETURN_IF_ERROR(check_values(compiled, store));
  bound *b = NULL;
  LS_RETURN_IF_ERROR(take(compiled, store, &b));
  const ls_status status = compiled->backend->vtable->run(b->instance, args);
  give_back(compiled, b);
  LS_RETURN_IF_ERROR(status);
  if (!checked || compiled->distributed) {
    note_writes(compiled, store);
    __atomic_store_n(&compiled->checked, id, __ATOMIC_RELEASE);
  }
  return ls_ok();
}

ls_status ls_compiled_fill(const ls_compiled *compiled, ls_buffer *buffer,
                           uint64_t step) {
  return compiled->backend->vtable->fill(buffer, compiled->executable,
                                         &(ls_run_args){.step = step});
}

ls_status ls_compiled_measure(ls_compiled *compiled, ls_store *store, bool on) {
  bound *b = NULL;
  LS_RETURN_IF_ERROR(take(compiled, store, &b));
  const ls_status status = compiled->backend->vtable->measure(b->instance, on);
  give_back(compiled, b);
  return status;
}

ls_status ls_compiled_print_cost(ls_compiled *compiled, ls_store *store,
                                 char **out_text) {
  bound *b = NULL;
  ls_text text;
  *out_text = NULL;
  LS_RETURN_IF_ERROR(take(compiled, store, &b));
  ls_print_begin(&text, compiled->allocator);
  ls_status status = compiled->backend->vtable->print_cost(b->instance, &text);
  if (ls_status_is_ok(status)) status = ls_print_end(&text, out_text);
  ls_text_deinit(&text);
  give_back(compiled, b);
  return status;
}

void ls_compiled_forget_store(ls_compiled *compiled, const ls_store *store) {
  bound *b = NULL;
  while ((b = take_idle(compiled, ls_store_id(store))) != NULL)
    destroy_bound(compiled, b);
}

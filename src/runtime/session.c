// SPDX-License-Identifier: Apache-2.0
//
// Sessions: a run is a function made of a pruned graph. Fetches and feeds with
// their types are the signature, and programs come from the common cache.
#include "lockstep/session.h"
#include "base/threads/locked.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/threads/thread_state.h"
#include "base/trace.h"
#include "base/values/nest_internal.h"
#include "runtime/own.h"
#include "runtime/plan.h"
#include "runtime/signature.h"
#include "runtime/store.h"

// ---- Configurations ---------------------------------------------------------
ls_status ls_session_config_copy(const ls_session_config *config,
                                 ls_session_config *out_copy) {
  LS_REQUIRE_OUT(out_copy);
  ls_session_config copy = {0};
  if (config != NULL) copy = *config;
  copy.cluster = NULL;
  const ls_status status = ls_cluster_spec_copy(
      config != NULL ? config->cluster : NULL, &copy.cluster);
  *out_copy = ls_status_is_ok(status) ? copy : (ls_session_config){0};
  return status;
}

void ls_session_config_deinit(ls_session_config *config) {
  if (config == NULL) return;
  ls_cluster_spec_destroy(config->cluster);
  *config = (ls_session_config){0};
}

static ls_status session_config_check_flag(const char *name, ls_flag flag,
                                           const char *off) {
  if ((unsigned)flag > LS_FLAG_OFF)
    return ls_invalid_argument("a session's %s %d is no flag", name, (int)flag);
  return flag != LS_FLAG_OFF
             ? ls_ok()
             : ls_unimplemented("a session with %s off: %s", name, off);
}

static ls_status session_config_check(const ls_session_config *config) {
  if (config == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(session_config_check_flag(
      "isolate_session_state", config->isolate_session_state,
      "each session has its own variables"));
  LS_RETURN_IF_ERROR(session_config_check_flag(
      "soft_placement", config->soft_placement,
      "ops run on a device that has a kernel, whatever device they name"));
  const ls_cluster_spec *cluster = config->cluster;
  for (size_t i = 0; cluster != NULL && i < cluster->num_jobs; ++i)
    if (cluster->jobs[i].num_addresses > 0)
      return ls_unimplemented(
          "a session that connects to '%s' of job '%s': it runs in this "
          "process, and where ranks are, on the ranks of the job",
          cluster->jobs[i].addresses[0], cluster->jobs[i].name);
  return ls_ok();
}

enum { DESTROYED = 1 << 30 };

struct ls_session {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_graph *graph;
  ls_store *store;
  ls_mutex lock;  // Guards the plans.
  ls_map plans;   // Key -> plan.
  ls_precompiled *precompiled;
  // Runs so far that draw, and others; a loop that counts steps counts as many.
  uint64_t draws, runs;
  // For closing: the cancel of running runs, their number (atomic), and a
  // signal of the last one.
  ls_cancel *closing;
  uint32_t num_running;  // Plus DESTROYED: then the last run frees the session.
  ls_condition idle;
};

ls_status ls_session_create(ls_graph *graph, ls_session **out_session) {
  LS_REQUIRE_OUT(out_session, graph);
  return ls_session_create_with(graph, NULL, out_session);
}

ls_status ls_session_create_with(ls_graph *graph,
                                 const ls_session_config *config,
                                 ls_session **out_session) {
  LS_REQUIRE_OUT(out_session, graph);
  if (graph->kind != LS_GRAPH_BUILD)
    return ls_invalid_argument(
        "a session needs a build graph made by ls_graph_create");
  LS_RETURN_IF_ERROR(session_config_check(config));
  LS_OWN_NEW_OR_RETURN(graph->allocator, ls_session, session);
  session->runtime = graph->runtime;
  ls_runtime_note_made(session->runtime, LS_MADE_SESSION);
  ls_graph_begin_session(graph);
  session->allocator = graph->allocator;
  session->graph = graph;
  ls_map_init(&session->plans, session->allocator);
  LS_RETURN_IF_ERROR(ls_mutex_init(&session->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&session->idle));
  LS_RETURN_IF_ERROR(ls_cancel_create(session->runtime, &session->closing));
  LS_RETURN_IF_ERROR(ls_store_create(session->runtime, &session->store));
  return ls_hand_over(&session, out_session);
}

static void free_session(ls_session *session) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&session->plans, &at, &item);)
    ls_plan_destroy(item.value);
  ls_map_deinit(&session->plans);
  ls_precompiled_destroy(session->precompiled);
  ls_store_destroy(session->store);
  ls_cancel_destroy(session->closing);
  ls_condition_deinit(&session->idle);
  ls_mutex_deinit(&session->lock);
  ls_graph_end_session(session->graph);
  ls_runtime_release(session->runtime, LS_MADE_SESSION, session);
}

// A host function may destroy the session that runs it.
void ls_session_destroy(ls_session *session) {
  if (session == NULL) return;
  if (__atomic_fetch_or(&session->num_running, DESTROYED, __ATOMIC_SEQ_CST) !=
      0)
    return;
  // The last run may have yet to release the lock.
  ls_mutex_lock(&session->lock);
  ls_mutex_unlock(&session->lock);
  free_session(session);
}

ls_store *ls_session_store(const ls_session *session) { return session->store; }

// ---- One run ---------------------------------------------------------------
// A run's request, in terms of lowering.
typedef struct request {
  ls_session *session;
  ls_nest fetches;  // Checked by check_fetch.
  ls_nest *leaves;  // Leaves of the fetches, and as many for the results.
  size_t num_leaves;
  uint64_t *refs;
  size_t num_refs;
  ls_op *targets;
  size_t num_targets;
  uint64_t *feed_refs;
  ls_type *feed_types;
  const void **inputs;
  size_t num_feeds;
  void **places;       // Scratch for ls_results_open,
  size_t num_outputs;  // for so many outputs.
  uint64_t *runs;      // The session's count of such runs; NULL before a run.
  uint64_t number;     // The run's number by it.
  ls_arena memory;
} request;

// Checks a fetch: a tensor or op of this graph, and not excluded.
static ls_status check_fetch(const request *r, ls_nest leaf) {
  const bool is_tensor = leaf.kind == LS_KIND_TENSOR;
  ls_graph *graph = is_tensor ? leaf.as.tensor.graph : leaf.as.op.graph;
  const ls_graph *own = r->session->graph;
  if (graph == own) {
    const ls_node *node = is_tensor
                              ? ls_graph_node_of(graph, leaf.as.tensor.ref)
                              : ls_graph_node(graph, leaf.as.op.id);
    if (node == NULL ||
        (is_tensor && ls_ref_output(leaf.as.tensor.ref) >= node->num_outputs))
      return ls_invalid_argument(
          "a fetch is a stale handle: graph '%s' has no such op or output",
          graph->name);
    if (!node->not_fetched) return ls_ok();
    return ls_invalid_argument("op '%s' (%s) has been marked as not fetchable",
                               ls_op_name((ls_op){graph, node->id}),
                               ls_node_info(node)->name);
  }
  const ls_status error = ls_graph_error(own);
  if (graph == NULL && error != NULL) return error;
  ls_status_free(error);
  return ls_invalid_argument(
      "a fetch belongs to graph '%s', the session runs '%s'",
      graph == NULL ? "(failed)" : graph->name, own->name);
}

static ls_status refuse_fetch(ls_nest leaf) {
  return ls_invalid_argument("%s cannot be fetched: tensors and ops can (read "
                             "a variable with ls_variable_read)",
                             LS_NEST_TEXT(leaf));
}

// Checks the components of a distributed value.
static ls_nest fetch_components(const request *r, ls_nest leaf) {
  const size_t count = ls_distributed_count(leaf);
  for (size_t i = 0; i < count; ++i) {
    const ls_nest part = ls_distributed_component(leaf, i);
    LS_RETURN_FAILED_IF_ERROR(part.kind == LS_KIND_TENSOR ? check_fetch(r, part)
                                                          : refuse_fetch(leaf));
  }
  return ls_nest_retain(leaf);
}

static ls_nest fetch_leaf(ls_nest leaf, void *user) {
  ls_status status = ls_ok();
  switch (leaf.kind) {
  case LS_KIND_TENSOR:
  case LS_KIND_OP:
    status = check_fetch(user, leaf);
    return ls_status_is_ok(status) ? leaf : ls_fail(status);
  case LS_KIND_NONE:
    return leaf;
  case LS_KIND_DISTRIBUTED:
    return fetch_components(user, leaf);
  case LS_KIND_FAILED:
    return ls_nest_retain(leaf);
  default:
    return ls_fail(refuse_fetch(leaf));
  }
}

static ls_status gather_fetches(request *r, ls_nest fetches) {
  r->fetches = ls_nest_map(fetches, fetch_leaf, r);
  LS_RETURN_IF_ERROR(ls_nest_status(r->fetches));
  r->num_leaves = ls_nest_num_leaves(r->fetches);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_nest, r->leaves, 2 * r->num_leaves + 1);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_op, r->targets, r->num_leaves + 1);
  ls_nest_flatten(r->fetches, r->leaves, r->num_leaves);
  const size_t values = ls_trace_list_refs(r->leaves, r->num_leaves, NULL);
  r->refs = ls_arena_new_array(&r->memory, uint64_t, values + 1);
  r->places = ls_arena_new_array(&r->memory, void *, 2 * values + 1);
  r->num_outputs = values;
  if (r->refs == NULL || r->places == NULL) return ls_out_of_memory();
  r->num_refs = ls_trace_list_refs(r->leaves, r->num_leaves, r->refs);
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (r->leaves[i].kind == LS_KIND_OP)
      r->targets[r->num_targets++] = r->leaves[i].as.op;
  return ls_ok();
}

static ls_status gather_feeds(request *r, const ls_feed *feeds, size_t count) {
  LS_ARENA_SET_OR_RETURN(&r->memory, uint64_t, r->feed_refs, count + 1);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_type, r->feed_types, count + 1);
  LS_ARENA_SET_OR_RETURN(&r->memory, const void *, r->inputs, count + 1);
  for (size_t i = 0; i < count; ++i) {
    if (feeds[i].tensor.graph != r->session->graph)
      return ls_invalid_argument("feed %zu is no tensor of graph '%s'", i,
                                 r->session->graph->name);
    const ls_node *node =
        ls_graph_node_of(r->session->graph, feeds[i].tensor.ref);
    if (node == NULL || ls_ref_output(feeds[i].tensor.ref) >= node->num_outputs)
      return ls_invalid_argument(
          "feed %zu is a stale handle: graph '%s' has no such op or output", i,
          r->session->graph->name);
    if (node->not_fed)
      return ls_invalid_argument("tensor '%s' may not be fed",
                                 ls_tensor_name(feeds[i].tensor));
    if (feeds[i].value == NULL)
      return ls_invalid_argument("the value fed to '%s' is NULL",
                                 ls_tensor_name(feeds[i].tensor));
    for (size_t k = 0; k < i; ++k)
      if (feeds[k].tensor.ref == feeds[i].tensor.ref)
        return ls_invalid_argument("'%s' is fed twice",
                                   ls_tensor_name(feeds[i].tensor));
    r->feed_refs[i] = feeds[i].tensor.ref;
    r->feed_types[i] = (ls_type){ls_array_dtype(feeds[i].value),
                                 ls_array_shape(feeds[i].value)};
    r->inputs[i] = ls_array_data(feeds[i].value);
  }
  r->num_feeds = count;
  return ls_ok();
}

static ls_status make_plan(request *r, ls_plan **out_plan) {
  ls_session *session = r->session;
  const ls_lower_request wanted = {.graph = session->graph,
                                   .fetches = r->refs,
                                   .num_fetches = r->num_refs,
                                   .feeds = r->feed_refs,
                                   .feed_types = r->feed_types,
                                   .num_feeds = r->num_feeds,
                                   .targets = r->targets,
                                   .num_targets = r->num_targets,
                                   .variables =
                                       ls_store_states(session->store)};
  LS_RETURN_IF_ERROR(
      ls_plan_from_precompiled(session->precompiled, &wanted, out_plan));
  return *out_plan != NULL
             ? ls_ok()
             : ls_plan_create(&wanted, session->store, &session->precompiled,
                              &r->memory, out_plan);
}

static ls_status plan_key(const request *r, ls_text *key) {
  ls_text_init(key, r->session->allocator);
  ls_text_append_bytes(key, r->refs, r->num_refs * sizeof(*r->refs));
  for (size_t i = 0; i < r->num_targets; ++i) {
    const uint64_t id = ls_ref(r->targets[i].id, LS_MAX_OUTPUTS - 1);
    ls_text_append_bytes(key, &id, sizeof(id));
  }
  for (size_t i = 0; i < r->num_feeds; ++i) {
    ls_text_append_bytes(key, &r->feed_refs[i], sizeof(uint64_t));
    ls_text_append_bytes(key, &r->feed_types[i].dtype, sizeof(ls_dtype));
    ls_text_append_bytes(key, &r->feed_types[i].shape, sizeof(ls_shape));
  }
  ls_text_append_bytes(key, &r->num_refs, sizeof(r->num_refs));
  return ls_text_status(key);
}

// Drops plans that no run can use any more, unless another run may use one now:
// then a later call drops them. The lock is held.
static void drop_stale(ls_session *session, ls_plan **list) {
  if ((__atomic_load_n(&session->num_running, __ATOMIC_SEQ_CST) &
       ~(uint32_t)DESTROYED) > 1)
    return;
  while (*list != NULL) {
    ls_plan *plan = *list;
    if (ls_plan_is_current(plan)) {
      list = &plan->next;
      continue;
    }
    *list = plan->next;
    plan->next = NULL;
    ls_plan_destroy(plan);
  }
}

// Finds or makes the plan; the session's lock is held.
static ls_status find_or_make_plan(request *r, const ls_text *key,
                                   ls_plan **out_plan) {
  ls_session *session = r->session;
  ls_plan *first = ls_map_find(&session->plans, key->data, key->size);
  *out_plan = first;
  while (*out_plan != NULL && !ls_plan_fits(*out_plan))
    *out_plan = (*out_plan)->next;
  if (*out_plan != NULL) return ls_ok();
  LS_OWN(ls_plan, plan) = NULL;
  LS_RETURN_IF_ERROR(make_plan(r, &plan));
  LS_RETURN_IF_NO_MEMORY(
      ls_map_insert(&session->plans, key->data, key->size, plan));
  drop_stale(session, &first);
  plan->next = first;
  return ls_hand_over(&plan, out_plan);
}

static ls_status find_plan(request *r, ls_plan **out_plan) {
  LS_OWN(ls_text, key) = {0};
  LS_RETURN_IF_ERROR(plan_key(r, &key));
  return LS_LOCKED(&r->session->lock, find_or_make_plan(r, &key, out_plan));
}

// Reads the graph's global step, if it has one: random draws depend on it.
static ls_status read_global_step(const ls_session *session, uint64_t *step) {
  const ls_graph *graph = session->graph;
  ls_nest leaf = ls_none();
  int64_t value = 0;
  const size_t count =
      ls_graph_collection(graph, LS_COLLECTION_GLOBAL_STEP, &leaf, 1);
  if (count == 0) return ls_ok();
  if (count > 1 || leaf.kind != LS_KIND_VARIABLE)
    return ls_failed_precondition(
        "graph '%s' has %zu global steps: random ops draw by the value of the "
        "one variable in collection '" LS_COLLECTION_GLOBAL_STEP "'",
        graph->name, count);
  LS_RETURN_IF_ERROR(ls_store_read_count(session->store, leaf.as.ref, &value));
  *step = (uint64_t)value;
  return ls_ok();
}

// Counts the run, once: later numbers may be taken when a stale plan is
// replaced.
static void number_run(request *r, uint64_t *runs) {
  if (r->runs == runs) return;
  r->runs = runs;
  r->number = __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED);
}

// Runs a plan; `*out_stale`: it no longer fits the store.
static ls_status run_plan(request *r, ls_nest *results, bool *out_stale) {
  ls_plan *p = NULL;
  LS_RETURN_IF_ERROR(find_plan(r, &p));
  ls_session *session = r->session;
  number_run(r, ls_plan_draws(p) ? &session->draws : &session->runs);
  uint64_t step = r->number;
  if (ls_plan_draws(p)) LS_RETURN_IF_ERROR(read_global_step(session, &step));
  if (p->results.num_outputs > r->num_outputs) {
    r->num_outputs = p->results.num_outputs;
    LS_ARENA_SET_OR_RETURN(&r->memory, void *, r->places, 2 * r->num_outputs);
  }
  uint64_t steps = 1;
  ls_run_args args = {.inputs = r->inputs,
                      .given = r->feed_types,
                      .step = step,
                      .steps = &steps,
                      .cancels = {[1] = session->closing}};
  ls_former_results former;
  const ls_result_inputs read = {
      .feeds = r->inputs, .types = r->feed_types, .num_feeds = r->num_feeds};
  LS_RETURN_IF_ERROR(ls_results_open(r->fetches, &p->results, read, r->leaves,
                                     results, r->places, &args, &former));
  const ls_status status = ls_plan_run(p, &args, &r->memory, out_stale);
  if (steps > 1) __atomic_fetch_add(r->runs, steps - 1, __ATOMIC_RELAXED);
  return ls_results_close(former, status, results);
}

static ls_status session_run(request *r, ls_nest fetches, const ls_feed *feeds,
                             size_t num_feeds, ls_nest *results) {
  LS_RETURN_IF_ERROR(gather_fetches(r, fetches));
  LS_RETURN_IF_ERROR(gather_feeds(r, feeds, num_feeds));
  for (;;) {
    bool stale = false;
    const ls_status status = run_plan(r, results, &stale);
    if (!stale) return status;
    ls_status_free(status);
  }
}

// ---- Closing ---------------------------------------------------------------
// Counts a run before checking if the session is closed; a close sets the
// cancel before it reads the count. So one of them sees the other.
static ls_status session_enter(ls_session *session) {
  __atomic_add_fetch(&session->num_running, 1, __ATOMIC_SEQ_CST);
  return ls_cancel_is_requested(session->closing)
             ? ls_failed_precondition("the session is closed")
             : ls_ok();
}

// Ends a run. May free the session.
static void session_leave(ls_session *session) {
  if (__atomic_load_n(&session->closing->requested, __ATOMIC_SEQ_CST)) {
    // Signals under the lock, since the session may be freed once the lock is
    // released.
    ls_mutex_lock(&session->lock);
    const uint32_t left =
        __atomic_sub_fetch(&session->num_running, 1, __ATOMIC_SEQ_CST);
    ls_condition_broadcast(&session->idle);
    ls_mutex_unlock(&session->lock);
    if (left == DESTROYED) free_session(session);
    return;
  }
  if (__atomic_sub_fetch(&session->num_running, 1, __ATOMIC_SEQ_CST) ==
      DESTROYED)
    free_session(session);
}

bool ls_session_is_closing(const ls_session *session) {
  return ls_cancel_is_requested(session->closing);
}

void ls_session_request_close(ls_session *session) {
  ls_cancel_request(session->closing);
}

ls_status ls_session_close(ls_session *session) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  LS_REQUIRE(session);
  ls_cancel_request(session->closing);
  // A host function may be part of a run of this session, so it must not wait.
  if (ls_this_thread.work.run != 0) return ls_ok();
  ls_mutex_lock(&session->lock);
  while ((__atomic_load_n(&session->num_running, __ATOMIC_SEQ_CST) &
          ~(uint32_t)DESTROYED) > 0)
    (void)ls_condition_wait_for(&session->idle, &session->lock, LOOK_NANOS);
  ls_mutex_unlock(&session->lock);
  return ls_ok();
}

ls_status ls_session_run(ls_session *session, ls_nest fetches,
                         const ls_feed *feeds, size_t num_feeds,
                         ls_nest *results) {
  LS_REQUIRE(results, session);
  LS_REQUIRE_ITEMS(feeds, num_feeds);
  LS_RETURN_IF_ERROR(ls_graph_error(session->graph));
  request r = {.session = session};
  ls_arena_init(&r.memory, session->allocator);
  const int64_t began = ls_span_begin(session->runtime);
  ls_status status = session_enter(session);
  if (ls_status_is_ok(status)) {
    status = session_run(&r, fetches, feeds, num_feeds, results);
    if (ls_status_code(status) == LS_CANCELLED &&
        ls_cancel_is_requested(session->closing))
      status = ls_status_annotate(status, "as its session was closed");
  }
  if (began != LS_NO_SPAN)
    ls_span_end(session->runtime, &(ls_span){.kind = "run",
                                             .name = session->graph->name,
                                             .began = began});
  ls_nest_release(r.fetches);
  ls_arena_deinit(&r.memory);
  session_leave(session);
  return status;
}

static ls_status check_variable(const ls_session *session,
                                const ls_variable *variable) {
  if (variable->graph == session->graph) return ls_ok();
  return variable->graph == NULL
             ? ls_invalid_argument(
                   "variable '%s' is an eager one, the session runs '%s'",
                   variable->name, session->graph->name)
             : ls_invalid_argument(
                   "variable '%s' is of graph '%s', the session runs '%s'",
                   variable->name, variable->graph->name, session->graph->name);
}

ls_status ls_session_variable_value(ls_session *session, ls_variable *variable,
                                    ls_array **out_array) {
  LS_REQUIRE_OUT(out_array, session, variable);
  LS_RETURN_IF_ERROR(check_variable(session, variable));
  return ls_store_get(session->store, variable, out_array);
}

ls_status ls_session_set_variable_value(ls_session *session,
                                        ls_variable *variable,
                                        const ls_array *array) {
  LS_REQUIRE(session, variable, array);
  LS_RETURN_IF_ERROR(check_variable(session, variable));
  return ls_store_set(session->store, variable, array);
}

// SPDX-License-Identifier: Apache-2.0
#include "runtime/function.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/trace.h"
#include "base/values/nest_internal.h"
#include "graph/context.h"
#include "graph/region.h"
#include "lockstep/function_plan.h"
#include "lockstep/slices.h"
#include "runtime/eager/eager.h"
#include "runtime/own.h"
#include "runtime/signature.h"

// One trace: a function graph for one signature, and its program.
typedef struct trace {
  // Newest first: all traces, and those of a bucket. They stay after a drop: a
  // search may use them.
  struct trace *next, *next_alike;
  struct trace *next_dropped;
  uint64_t tracer_key;
  uint64_t options;
  int32_t replicas;
  int32_t exporting;  // The export being traced; see graph/context.h.
  int32_t replica;  // The replica that runs op by op and has called it, plus 1.
  ls_signature signature;
  ls_graph *graph;
  bool borrows;     // True if the graph is that of an earlier trace.
  ls_nest results;  // Structure of a call's results.
  ls_result_map result_map;
  size_t num_result_leaves;
  ls_compiled *compiled;
} trace;

enum { BUCKETS = 128, FEW_TRACES = 8, MANY_TRACES = 16 };

static const size_t RELEASED = ~(SIZE_MAX >> 1);

// Temporary memory of a call. A function keeps one for reuse.
typedef struct call_room {
  ls_nest *leaves;
  const void **inputs;
  void **outputs;
  size_t leaves_capacity, inputs_capacity, outputs_capacity;
  bool has_step;  // The call has its number,
  uint64_t step;  // which is this.
} call_room;

struct ls_function {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_function_options options;
  char *name;
  ls_mutex lock;            // Guards adding and dropping traces.
  trace *traces;            // Read without the lock.
  trace *buckets[BUCKETS];  // The same by hash of signature.
  trace *dropped;           // Invisible to new calls; freed when no call runs.
  // Number of running calls and of uses of a trace, plus RELEASED once the last
  // reference is gone: then the last call frees the function.
  size_t running;
  size_t num_traces;
  uint64_t step;  // Number of steps so far, for random ops.
  bool compiles_only;
  bool is_told;     // Many traces for values of a host scalar were reported.
  call_room *room;  // Taken and given back by an atomic exchange.
};

// ---- Creating and destroying -----------------------------------------------
static void destroy_trace(ls_function *function, trace *t) {
  if (t == NULL) return;
  ls_compiled_release(t->compiled);
  if (!t->borrows) ls_graph_free(t->graph);
  ls_nest_release(t->results);
  ls_result_map_deinit(&t->result_map, function->allocator);
  ls_signature_deinit(&t->signature);
  ls_release(function->allocator, t);
}

static void destroy_room(ls_function *function, call_room *room) {
  if (room == NULL) return;
  ls_release(function->allocator, room->leaves);
  ls_release(function->allocator, room->inputs);
  ls_release(function->allocator, room->outputs);
  ls_release(function->allocator, room);
}

// Frees dropped traces unless a call runs, which may use one: then the last
// call to return frees them. Later calls cannot find them.
static void free_dropped(ls_function *function) {
  trace *list = NULL;
  ls_mutex_lock(&function->lock);
  if ((__atomic_load_n(&function->running, __ATOMIC_SEQ_CST) & ~RELEASED) ==
      0) {
    list = function->dropped;
    __atomic_store_n(&function->dropped, NULL, __ATOMIC_SEQ_CST);
  }
  ls_mutex_unlock(&function->lock);
  while (list != NULL) {
    trace *next = list->next_dropped;
    destroy_trace(function, list);
    list = next;
  }
}

static void function_enter(ls_function *function) {
  __atomic_fetch_add(&function->running, 1, __ATOMIC_SEQ_CST);
}

static void free_function(ls_function *function);

// Ends a call. May free the function.
static void function_leave(ls_function *function) {
  const size_t left =
      __atomic_sub_fetch(&function->running, 1, __ATOMIC_SEQ_CST);
  if (left == RELEASED)
    free_function(function);
  else if (left == 0 &&
           __atomic_load_n(&function->dropped, __ATOMIC_SEQ_CST) != NULL)
    free_dropped(function);
}

// Leaves a trace that calls cannot find any more to free_dropped; the lock is
// held.
static void drop_trace(ls_function *function, trace *t) {
  t->next_dropped = function->dropped;
  __atomic_store_n(&function->dropped, t, __ATOMIC_SEQ_CST);
}

static trace **bucket_of(ls_function *function, uint64_t hash) {
  return &function->buckets[hash % BUCKETS];
}

void ls_function_clear(ls_function *function) {
  ls_mutex_lock(&function->lock);
  for (size_t i = 0; i < BUCKETS; ++i)
    __atomic_store_n(&function->buckets[i], NULL, __ATOMIC_SEQ_CST);
  trace *list = __atomic_exchange_n(&function->traces, NULL, __ATOMIC_SEQ_CST);
  for (trace *t = list; t != NULL; t = t->next)
    drop_trace(function, t);
  ls_mutex_unlock(&function->lock);
  free_dropped(function);
}

static void free_function(ls_function *function) {
  if (function->traces != NULL) ls_function_clear(function);
  destroy_room(function, function->room);
  if (function->options.release != NULL)
    function->options.release(function->options.user);
  ls_mutex_deinit(&function->lock);
  ls_release(function->allocator, function->name);
  ls_runtime_release(function->runtime, LS_MADE_FUNCTION, function);
}

// The function's callback or a host function that it runs may release the last
// reference: the call continues, and frees the function at its end.
static void destroy_function(ls_object *object) {
  ls_function *function = (ls_function *)object;
  if (__atomic_fetch_or(&function->running, RELEASED, __ATOMIC_SEQ_CST) == 0)
    free_function(function);
}

static const ls_object_type function_type = {.name = "function",
                                             .destroy = destroy_function};

ls_status ls_function_create(const ls_function_options *options,
                             ls_function **out_function) {
  LS_REQUIRE_OUT(out_function, options);
  if (options->call == NULL)
    return ls_invalid_argument("a function needs a callback to trace");
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_function, function);
  ls_object_init(&function->object, &function_type);
  function->allocator = allocator;
  function->runtime = runtime;
  ls_runtime_note_made(runtime, LS_MADE_FUNCTION);
  const char *name = options->name != NULL ? options->name : "function";
  LS_RETURN_IF_ERROR(ls_keep_text(allocator, name, &function->name));
  LS_RETURN_IF_ERROR(ls_mutex_init(&function->lock));
  function->options = *options;
  function->options.name = function->name;
  return ls_hand_over(&function, out_function);
}

LS_COUNTED(ls_function)

// ---- Tracing ---------------------------------------------------------------
static ls_status trace_plain(const ls_tracer *tracer, ls_graph *graph,
                             const ls_function_options *function, ls_nest args,
                             ls_nest *out_result) {
  (void)tracer;
  return ls_region_trace(graph, function->call, args, function->user,
                         out_result);
}

static ls_status compile_trace(ls_function *function, trace *t) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(function->runtime, &state));
  LS_RETURN_IF_ERROR(ls_result_map_init(&t->result_map, function->allocator,
                                        t->graph->num_results));
  ls_lower_request request = {.graph = t->graph,
                              .fetches = t->graph->results,
                              .num_fetches = t->graph->num_results,
                              .feeds = t->graph->parameters,
                              .feed_types = t->signature.types,
                              .num_feeds = t->graph->num_declared,
                              .effects_are_roots = true,
                              .variables = ls_store_states(state->store),
                              .outputs = t->result_map.outputs};
  LS_OWN(ls_arena, memory) = {.allocator = function->allocator};
  LS_OWN(ls_held_graph, copy) = NULL;
  LS_RETURN_IF_ERROR(ls_lower_gather(&request, &memory, &copy));
  LS_RETURN_IF_ERROR(ls_compile(function->runtime, &request, &t->compiled));
  t->num_result_leaves = ls_nest_num_leaves(t->results);
  return ls_result_map_finish(&t->result_map, function->allocator, &t->compiled,
                              1);
}

// Refuses endless recursion of functions: each running callback takes stack.
// After an OK the caller must call end_callback.
static ls_status begin_callback(const ls_function *function) {
  ls_runtime_work *work = ls_runtime_work_here();
  if (work->callbacks >= LS_MAX_NESTED_CALLS)
    return ls_failed_precondition(
        "function '%s' is called %d callbacks deep: does it call itself?",
        function->name, LS_MAX_NESTED_CALLS);
  ++work->callbacks;
  ls_nest_forget_missing();
  ls_runtime_begin_callback(function->runtime);
  return ls_ok();
}

static void end_callback(const ls_function *function) {
  --ls_runtime_work_here()->callbacks;
  ls_nest_forget_missing();
  ls_runtime_end_callback(function->runtime);
}

static ls_status trace_into(ls_function *function, const ls_tracer *tracer,
                            trace *t, ls_nest args) {
  LS_RETURN_IF_ERROR(
      ls_signature_init(&t->signature, function->allocator, args));
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_FUNCTION, function->name,
                                   function->runtime, ls_graph_current(),
                                   &t->graph));
  LS_OWN(ls_nest, parameters) =
      ls_trace_parameters(t->graph, &t->signature, args);
  LS_RETURN_IF_ERROR(ls_nest_status(parameters));
  LS_RETURN_IF_ERROR(begin_callback(function));
  const ls_status status =
      (tracer->trace != NULL ? tracer->trace : trace_plain)(
          tracer, t->graph, &function->options, parameters, &t->results);
  end_callback(function);
  LS_RETURN_IF_ERROR(status);
  if (ls_nest_has_slices(t->results))
    return ls_unimplemented("slices as a result of a run in eager: return "
                            "their indices and values");
  if (tracer->trace != NULL)
    LS_RETURN_IF_ERROR(ls_trace_set_results(t->graph, t->results));
  return compile_trace(function, t);
}

// Compiles the graph of a trace for the store's variables as they are now.
static ls_status lower_again(ls_function *function, const trace *like, trace *t,
                             ls_nest args) {
  LS_RETURN_IF_ERROR(
      ls_signature_init(&t->signature, function->allocator, args));
  t->graph = like->graph;
  t->borrows = true;
  t->results = ls_nest_retain(like->results);
  return compile_trace(function, t);
}

static void end_span(const ls_function *function, const char *kind,
                     int64_t began) {
  if (began != LS_NO_SPAN)
    ls_span_end(
        function->runtime,
        &(ls_span){.kind = kind, .name = function->name, .began = began});
}

static void remove_from_bucket(ls_function *function, const trace *t) {
  trace **at = bucket_of(function, t->signature.hash);
  while (*at != t)
    at = &(*at)->next_alike;
  __atomic_store_n(at, t->next_alike, __ATOMIC_SEQ_CST);
}

// Drops traces that no call can run any more; the lock is held.
static void drop_stale(ls_function *function) {
  trace **at = &function->traces;
  while (*at != NULL) {
    trace *t = *at;
    if (ls_compiled_is_current(t->compiled)) {
      at = &t->next;
      continue;
    }
    __atomic_store_n(at, t->next, __ATOMIC_SEQ_CST);
    remove_from_bucket(function, t);
    drop_trace(function, t);
  }
}

static bool is_listed(const ls_function *function, const trace *wanted) {
  const trace *t = function->traces;
  while (t != NULL && t != wanted)
    t = t->next;
  return t != NULL;
}

// Adds a trace to those that calls find; the lock is held.
static void list_trace(ls_function *function, trace *t) {
  trace **bucket = bucket_of(function, t->signature.hash);
  t->next = function->traces;
  t->next_alike = *bucket;
  __atomic_store_n(&function->traces, t, __ATOMIC_SEQ_CST);
  __atomic_store_n(bucket, t, __ATOMIC_SEQ_CST);
}

// Returns the leaf whose values made many traces, one each, at the first call
// that finds so; else -1. The lock is held.
static int64_t find_retraced_leaf(ls_function *function) {
  int64_t leaf = -1;
  size_t count = 0;
  if (function->is_told || function->num_traces % MANY_TRACES != 0) return -1;
  for (const trace *t = function->traces->next; t != NULL; t = t->next) {
    const int64_t other =
        ls_signature_other_scalar(&function->traces->signature, &t->signature);
    count += other >= 0;
    if (other >= 0) leaf = other;
  }
  function->is_told = count + 1 >= MANY_TRACES;
  return function->is_told ? leaf : -1;
}

static void warn_of_scalar(const ls_function *function, ls_nest args,
                           size_t leaf) {
  size_t argument = 0, leaves = 0;
  for (; argument + 1 < ls_nest_count(args); ++argument) {
    leaves += ls_nest_num_leaves(ls_nest_item(args, argument));
    if (leaves > leaf) break;
  }
  ls_runtime_log(
      function->runtime, LS_LOG_WARNING, "runtime",
      "function '%s' was traced for %d values of a host scalar in argument "
      "%zu: pass an array (ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, "
      "...)), of which one trace takes any value",
      function->name, MANY_TRACES, argument);
}

// Adds a trace of these arguments; `like`, unless it is NULL, is one whose
// program does not fit the store.
static ls_status add_trace(ls_function *function, const ls_tracer *tracer,
                           ls_nest args, const trace *like, trace **out_trace) {
  LS_NEW_OR_RETURN(function->allocator, trace, t);
  t->tracer_key = tracer->key;
  t->options = tracer->options;
  t->replicas = tracer->replicas > 0 ? tracer->replicas : 1;
  t->exporting = ls_context_current()->scoped.exporting;
  t->replica = ls_context_current()->replica;
  const int64_t began = ls_span_begin(function->runtime);
  const ls_status status = like != NULL ? lower_again(function, like, t, args)
                                        : trace_into(function, tracer, t, args);
  end_span(function, "trace", began);
  if (!ls_status_is_ok(status)) {
    destroy_trace(function, t);
    return ls_status_annotate(status, "while tracing function '%s'",
                              function->name);
  }
  int64_t retraced = -1;
  ls_mutex_lock(&function->lock);
  drop_stale(function);
  if (like == NULL || is_listed(function, like)) {
    list_trace(function, t);
    __atomic_fetch_add(&function->num_traces, like == NULL, __ATOMIC_RELAXED);
    if (like == NULL) retraced = find_retraced_leaf(function);
  } else {
    drop_trace(function, t);  // For this call alone: the graph is `like`'s.
  }
  ls_mutex_unlock(&function->lock);
  if (retraced >= 0) warn_of_scalar(function, args, (size_t)retraced);
  *out_trace = t;
  return ls_ok();
}

// ---- Calling ---------------------------------------------------------------
static bool function_make_room(ls_function *function, call_room *room,
                               size_t leaves, size_t inputs, size_t outputs) {
  ls_allocator *allocator = function->allocator;
  return (leaves <= room->leaves_capacity ||
          LS_GROW(allocator, room->leaves, room->leaves_capacity, leaves)) &&
         (inputs <= room->inputs_capacity ||
          LS_GROW(allocator, room->inputs, room->inputs_capacity, inputs)) &&
         (outputs <= room->outputs_capacity ||
          LS_GROW(allocator, room->outputs, room->outputs_capacity, outputs));
}

// Flattens the arguments, and finds a trace whose program fits the store; else
// sets `*out_like` to another one of these arguments, NULL if there is none.
// Compares with each of few traces: hashing all components would take longer.
static trace *find_trace(ls_function *function, const ls_tracer *tracer,
                         ls_nest args, ls_nest *leaves, trace **out_like) {
  const size_t num_leaves = ls_nest_num_leaves(args);
  ls_nest_flatten(args, leaves, num_leaves);
  const bool hashes = ls_function_num_traces(function) > FEW_TRACES;
  const uint64_t hash = hashes ? ls_signature_hash(leaves, num_leaves) : 0;
  trace **at = hashes ? bucket_of(function, hash) : &function->traces, *t;
  const ls_runtime_state *state =
      ls_runtime_slot(function->runtime, LS_SLOT_RUNTIME);
  const int32_t replicas = tracer->replicas > 0 ? tracer->replicas : 1;
  const int32_t exporting = ls_context_current()->scoped.exporting;
  const int32_t replica = ls_context_current()->replica;
  *out_like = NULL;
  for (; (t = __atomic_load_n(at, __ATOMIC_SEQ_CST)) != NULL;
       at = hashes ? &t->next_alike : &t->next) {
    if ((hashes && t->signature.hash != hash) || t->tracer_key != tracer->key ||
        t->options != tracer->options || t->replicas != replicas ||
        t->exporting != exporting || t->replica != replica ||
        !ls_signature_matches(&t->signature, args, leaves))
      continue;
    if (ls_compiled_fits(t->compiled, state->store)) return t;
    // A graph for TPU systems is one for those that there were.
    if (ls_compiled_program(t->compiled)->num_launches == 0) *out_like = t;
  }
  return NULL;
}

// Refuses a program with effects after a failure that is recorded.
static ls_status check_earlier(const ls_graph *graph) {
  LS_OWN(ls_status, earlier) = ls_failure_earlier();
  for (size_t i = 0; earlier != NULL && i < graph->num_nodes; ++i)
    if (ls_node_has_effects(graph->nodes[i])) return ls_status_clone(earlier);
  return ls_ok();
}

// Runs a trace; `*out_stale`: its program no longer fits the store.
static ls_status run_trace(ls_function *function, const trace *t,
                           call_room *room, ls_result_inputs inputs,
                           ls_nest *results, bool *out_stale) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(function->runtime, &state));
  LS_RETURN_IF_ERROR(
      ls_signature_arrays(&t->signature, room->leaves, room->inputs));
  uint64_t steps = 1;
  ls_run_args args = {.inputs = room->inputs,
                      .given = t->signature.types,
                      .steps = &steps,
                      .seed = (uint64_t)function->options.seed,
                      .replica = ls_context_replica()};
  ls_former_results former;
  LS_RETURN_IF_ERROR(ls_results_open(t->results, &t->result_map, inputs,
                                     room->leaves, results, room->outputs,
                                     &args, &former));
  // Once: later numbers may be taken when a stale trace is replaced.
  if (!room->has_step)
    room->step = __atomic_fetch_add(&function->step, 1, __ATOMIC_RELAXED);
  room->has_step = true;
  args.step = room->step;
  const ls_status status =
      ls_compiled_run(t->compiled, state->store, &args, out_stale);
  if (steps > 1)
    __atomic_fetch_add(&function->step, steps - 1, __ATOMIC_RELAXED);
  return ls_results_close(former, status, results);
}

static ls_status call_trace(ls_function *function, const ls_tracer *tracer,
                            call_room *room, ls_nest args, ls_nest *results,
                            bool *out_stale) {
  const size_t leaves = ls_nest_num_leaves(args);
  if (!function_make_room(function, room, leaves + 1, 1, 1))
    return ls_out_of_memory();
  trace *like = NULL;
  trace *t = find_trace(function, tracer, args, room->leaves, &like);
  if (t == NULL)
    LS_RETURN_IF_ERROR(add_trace(function, tracer, args, like, &t));
  if (__atomic_load_n(&function->compiles_only, __ATOMIC_RELAXED))
    return ls_ok();
  LS_RETURN_IF_ERROR(check_earlier(t->graph));
  if (!function_make_room(function, room, leaves + 2 * t->num_result_leaves,
                          t->signature.num_slots,
                          2 * t->result_map.num_outputs))
    return ls_out_of_memory();
  const ls_result_inputs inputs = {.lent = args.as.ref};
  return run_trace(function, t, room, inputs, results, out_stale);
}

static ls_status call_with_room(ls_function *function, const ls_tracer *tracer,
                                call_room *room, ls_nest args,
                                ls_nest *results) {
  room->has_step = false;
  for (;;) {
    bool stale = false;
    const ls_status status =
        call_trace(function, tracer, room, args, results, &stale);
    if (!stale) return status;
    ls_status_free(status);
  }
}

static ls_nest record_plain(const ls_function *function, ls_nest args) {
  ls_examples_entry examples;
  ls_examples_enter(&examples, LS_EXAMPLES_ARGUMENTS, args);
  const ls_nest made = function->options.call(args, function->options.user);
  ls_examples_leave(&examples);
  return made;
}

// Records the callback's ops in the graph, traced by the function itself or by
// a strategy.
static ls_nest function_record(const ls_function *function,
                               const ls_tracer *tracer, ls_graph *graph,
                               ls_nest args) {
  ls_nest made = ls_none();
  if (tracer->trace == NULL) return record_plain(function, args);
  return ls_made_nest(
      graph->kind == LS_GRAPH_EAGER
          ? tracer->call(tracer, &function->options, args, &made)
          : tracer->trace(tracer, graph, &function->options, args, &made),
      &made);
}

// Calls the callback inside a graph being built, or under a tape.
static ls_status call_inline(ls_function *function, const ls_tracer *tracer,
                             ls_graph *graph, ls_nest args, ls_nest *results) {
  const size_t first = graph->num_nodes;
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(begin_callback(function));
  {
    LS_NAME_SCOPE(function->name);
    const ls_nest tensors = ls_trace_constants(args);
    made = ls_nest_is_failed(tensors)
               ? ls_nest_retain(tensors)
               : function_record(function, tracer, graph, tensors);
    made = ls_bring_effects(graph, first, made);
    ls_nest_release(tensors);
  }
  end_callback(function);
  return ls_nest_give(made, results);
}

static ls_status call_values(ls_function *function, const ls_tracer *tracer,
                             ls_graph *graph, ls_nest args, ls_nest *results) {
  if (graph->kind != LS_GRAPH_EAGER || ls_eager_is_recording(graph)) {
    function_enter(function);
    const ls_status inlined =
        call_inline(function, tracer, graph, args, results);
    function_leave(function);
    return inlined;
  }
  call_room *room =
      __atomic_exchange_n(&function->room, NULL, __ATOMIC_ACQ_REL);
  if (room == NULL) room = ls_new(function->allocator, call_room);
  if (room == NULL) return ls_out_of_memory();
  function_enter(function);
  const int64_t began = ls_span_begin(function->runtime);
  const ls_status status =
      call_with_room(function, tracer, room, args, results);
  end_span(function, "call", began);
  room = __atomic_exchange_n(&function->room, room, __ATOMIC_ACQ_REL);
  destroy_room(function, room);  // A concurrent call has put its room there.
  function_leave(function);
  return status;
}

ls_status ls_function_call_by(ls_function *function, const ls_tracer *tracer,
                              ls_nest args, ls_nest *results) {
  if (function == NULL) return ls_invalid_argument("the function is NULL");
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  if (!ls_trace_has_others(args))
    return call_values(function, tracer, graph, args, results);
  LS_OWN(ls_nest, values) = ls_trace_tensors(args);
  LS_RETURN_IF_ERROR(ls_nest_status(values));
  return call_values(function, tracer, graph, values, results);
}

// ---- Getters ---------------------------------------------------------------
const ls_function_options *ls_function_options_of(const ls_function *function) {
  return &function->options;
}

uint64_t ls_function_steps(const ls_function *function) {
  return __atomic_load_n(&function->step, __ATOMIC_RELAXED);
}

void ls_function_set_steps(ls_function *function, uint64_t steps) {
  __atomic_store_n(&function->step, steps, __ATOMIC_RELAXED);
}

void ls_function_set_compiles_only(ls_function *function, bool on) {
  __atomic_store_n(&function->compiles_only, on, __ATOMIC_RELAXED);
}

size_t ls_function_num_traces(const ls_function *function) {
  return __atomic_load_n(&function->num_traces, __ATOMIC_RELAXED);
}

const ls_graph *ls_function_graph(const ls_function *function) {
  const trace *t = __atomic_load_n(&function->traces, __ATOMIC_SEQ_CST);
  return t == NULL ? NULL : t->graph;
}

ls_status ls_function_look(const ls_function *function,
                           ls_status (*look)(ls_compiled *compiled,
                                             ls_store *store, void *user),
                           void *user) {
  ls_runtime_state *state = NULL;
  ls_function *writable = (ls_function *)(uintptr_t)function;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(function->runtime, &state));
  function_enter(writable);
  const trace *t = __atomic_load_n(&function->traces, __ATOMIC_SEQ_CST);
  const ls_status status =
      t != NULL ? look(t->compiled, state->store, user)
                : ls_failed_precondition(
                      "function '%s' has no program yet; call it first",
                      function->name);
  function_leave(writable);
  return status;
}

ls_status ls_function_trace(ls_function *function, ls_nest args,
                            const ls_graph **out_graph) {
  static const ls_tracer alone;
  *out_graph = NULL;
  LS_OWN_ARRAY_OR_RETURN(function->allocator, ls_nest, leaves,
                         ls_nest_num_leaves(args) + 1);
  function_enter(function);
  trace *like = NULL;
  trace *t = find_trace(function, &alone, args, leaves, &like);
  const ls_status status =
      t != NULL ? ls_ok() : add_trace(function, &alone, args, like, &t);
  if (ls_status_is_ok(status)) *out_graph = t->graph;
  function_leave(function);
  return status;
}

const ls_graph *ls_function_graph_here(const ls_function *function) {
  const int32_t exporting = ls_context_current()->scoped.exporting;
  const trace *t = __atomic_load_n(&function->traces, __ATOMIC_SEQ_CST);
  while (t != NULL && t->exporting != exporting)
    t = __atomic_load_n(&t->next, __ATOMIC_SEQ_CST);
  return t != NULL ? t->graph : ls_function_graph(function);
}

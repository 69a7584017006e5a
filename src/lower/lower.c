// SPDX-License-Identifier: Apache-2.0
// Lowers a request to a program: parameters, nodes and results; then drops
// unused nodes and verifies the graph.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/compare/compare.h"
#include "graph/gather/gather.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"
#include "lockstep/shape_rules.h"
#include "lower/ops.h"

// ---- Uses -----------------------------------------------------------------
// Marks the variables that the program reads: their parameter is used by an op,
// or is a result other than the variable's own final value.
static ls_status mark_reads(ls_program *program) {
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, program->body));
  for (size_t u = 0; u < program->num_uses; ++u) {
    const uint64_t parameter =
        program->body->parameters[program->num_inputs + u];
    program->uses[u].read = ls_rewrite_count_uses(&r, ls_ref_id(parameter)) > 0;
  }
  return ls_rewrite_end(&r);
}

// Returns true if a program takes nothing, gives nothing, and reads no
// variable: it writes initial values.
static bool only_writes(const ls_program *program) {
  bool reads = program->num_inputs + program->num_outputs > 0;
  for (size_t u = 0; u < program->num_uses; ++u)
    reads |= program->uses[u].read;
  return !reads;
}

// Properties of a program's ops that decide if a device computes it.
typedef struct op_traits {
  bool computes;       // There is more than calls of the host and values.
  bool waits;          // A call may wait for another program.
  bool takes_input;    // A call takes input.
  bool gives_strings;  // No device has strings.
  // Replicas have values of other shapes: the last, short batch of an epoch.
  // All devices run one program of one shape.
  bool has_several_shapes;
} op_traits;

static op_traits find_traits(const ls_program *program) {
  op_traits t = {0};
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, program->body); ls_graph_walk_next(&walk);) {
    const ls_node *node = walk.node;
    const uint32_t flags =
        node->type == LS_OP_HOST
            ? ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel->flags
            : 0;
    const uint32_t input = flags & (LS_HOST_WAITS | LS_HOST_ENDS);
    t.computes |= node->type != LS_OP_HOST && node->type != LS_OP_CONSTANT &&
                  node->type != LS_OP_PARAMETER;
    t.waits |= input == LS_HOST_WAITS && (flags & LS_HOST_ON_CORES) == 0;
    t.takes_input |= input == (LS_HOST_WAITS | LS_HOST_ENDS);
    t.has_several_shapes |=
        node->type == LS_OP_REPLICATE && node->num_regions > 1;
    for (uint32_t i = 0; i < node->num_outputs; ++i)
      t.gives_strings |= node->outputs[i].dtype == LS_DTYPE_STRING;
  }
  return t;
}

// Leaves programs on the host that are of no use to a device, or too much for
// it: as a device computes one program after another, what waits for other
// programs and what prepares their input would keep them from running.
static ls_status decide_host(const ls_backend *backend, ls_program *program) {
  if (backend->host == NULL || backend->host == backend) return ls_ok();
  LS_RETURN_IF_ERROR(mark_reads(program));
  const op_traits t = find_traits(program);
  if (!program->on_host && t.has_several_shapes)
    ls_runtime_log(program->runtime, LS_LOG_INFO, "lower",
                   "the CPU computes a program whose replicas have values of "
                   "different shapes: a batch that they cannot share evenly");
  program->on_host |= !t.computes || only_writes(program) || t.waits ||
                      t.gives_strings || t.has_several_shapes ||
                      (program->num_uses == 0 && t.takes_input);
  return ls_ok();
}

// ---- Making ---------------------------------------------------------------
static void destroy_program(ls_object *object) {
  ls_program *program = (ls_program *)object;
  ls_allocator *allocator = ls_runtime_allocator(program->runtime);
  for (size_t i = 0; i < program->num_uses; ++i)
    ls_object_release(program->uses[i].variable);
  ls_release(allocator, program->uses);
  ls_release(allocator, program->padded);
  for (size_t i = 0; i < program->num_expects; ++i)
    ls_object_release(program->expects[i].variable);
  ls_release(allocator, program->expects);
  for (size_t i = 0; i < program->num_launches; ++i)
    ls_object_release(program->launches[i]);
  ls_release(allocator, program->launches);
  ls_release(allocator, program->devices);
  ls_graph_free(program->body);
  ls_release(allocator, program);
}

static const ls_object_type program_type = {.name = "program",
                                            .destroy = destroy_program};

// Refuses stacks among a program's inputs and outputs, because no stack
// outlives a run.
static ls_status check_border(const ls_lower_request *request) {
  for (size_t i = 0; i < request->num_feeds + request->num_fetches; ++i) {
    const bool is_feed = i < request->num_feeds;
    const ls_tensor value = {
        request->graph,
        is_feed ? request->feeds[i] : request->fetches[i - request->num_feeds]};
    if (ls_tensor_dtype(value) != LS_DTYPE_VARIANT) continue;
    return ls_unimplemented(
        "'%s' is %s: a stack lives inside one run and cannot %s it",
        ls_tensor_name(value), ls_dtype_name(LS_DTYPE_VARIANT),
        is_feed ? "enter" : "leave");
  }
  return ls_ok();
}

static ls_status add_inputs(ls_lower_scope *scope,
                            const ls_lower_request *request) {
  for (size_t i = 0; i < request->num_feeds; ++i) {
    const ls_type built = ls_graph_type(request->graph, request->feeds[i]);
    const ls_type given = request->feed_types[i];
    if (built.dtype != given.dtype ||
        !ls_shape_compatible(built.shape, given.shape))
      return ls_invalid_argument(
          "'%s' is %s, the value fed is %s",
          ls_tensor_name((ls_tensor){request->graph, request->feeds[i]}),
          LS_SHAPE_TEXT(built.dtype, built.shape),
          LS_SHAPE_TEXT(given.dtype, given.shape));
    const ls_buckets *buckets = scope->all->buckets;
    ls_type type = given;
    if (buckets != NULL && buckets->padded[i] != 0)
      type.shape.dim[0] = buckets->padded[i];
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(
        ls_graph_add_parameter(scope->to, type, NULL, &parameter));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, request->feeds[i], parameter.ref));
  }
  return ls_ok();
}

// Adds parameters for the real sizes of padded inputs, after the inputs.
static ls_status add_sizes(ls_lower_scope *scope) {
  const ls_buckets *buckets = scope->all->buckets;
  ls_program *program = scope->all->program;
  if (buckets == NULL) return ls_ok();
  LS_SET_ARRAY_OR_RETURN(scope->all->allocator, uint32_t, program->padded,
                         buckets->num_padded);
  for (size_t i = 0; i < buckets->num_feeds; ++i) {
    ls_tensor parameter;
    if (buckets->padded[i] == 0) continue;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        scope->to, (ls_type){LS_DTYPE_I32, LS_SCALAR}, NULL, &parameter));
    buckets->sizes[i] = parameter.ref;
    program->padded[program->num_padded++] = (uint32_t)i;
  }
  return ls_ok();
}

// Lists the outputs. Fetches of one value share an output.
static ls_status list_outputs(ls_lower_scope *scope,
                              const ls_lower_request *request,
                              uint64_t *results) {
  size_t count = 0;
  LS_OWN(ls_map, outputs) = {0};  // Ref -> 1 + index of the output.
  ls_map_init(&outputs, scope->all->allocator);
  for (size_t i = 0; i < request->num_fetches; ++i) {
    const uint64_t ref = ls_lowered(scope, request->fetches[i]);
    const bool shared = request->outputs != NULL;
    const uintptr_t known =
        shared ? (uintptr_t)ls_map_find_u64(&outputs, ref) : 0;
    if (known == 0) results[count++] = ref;
    if (shared)
      request->outputs[i] = (uint32_t)(known != 0 ? known : count) - 1;
    if (shared && known == 0 &&
        !ls_map_insert_u64(&outputs, ref, (void *)(uintptr_t)count))
      return ls_out_of_memory();
  }
  scope->all->program->num_outputs = count;
  return ls_ok();
}

static ls_status lower_set_results(ls_lower_scope *scope,
                                   const ls_lower_request *request) {
  ls_program *program = scope->all->program;
  ls_allocator *allocator = scope->all->allocator;
  LS_RETURN_IF_ERROR(ls_lower_containers(scope));
  LS_OWN_ARRAY_OR_RETURN(allocator, uint64_t, results,
                         request->num_fetches + program->num_uses);
  LS_RETURN_IF_ERROR(list_outputs(scope, request, results));
  size_t count = program->num_outputs;
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written)
      results[count++] =
          ls_lower_known(scope, (ls_variable *)program->uses[i].variable);
  return ls_graph_set_results(scope->to, results, count);
}

static ls_status lower_finish(ls_backend *backend, ls_program *program) {
  ls_runtime *runtime = program->runtime;
  const struct ls_backend_vtable *vtable = backend->vtable;
  LS_RETURN_IF_ERROR(decide_host(backend, program));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, program->body, "lower", false));
  LS_RETURN_IF_ERROR(ls_drop_unused(program->body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, program->body, "drop_unused",
                                   vtable->prepare == NULL));
  if (vtable->prepare != NULL)
    LS_RETURN_IF_ERROR(vtable->prepare(backend, program));
  LS_RETURN_IF_ERROR(ls_check_stacks(program->body));
  LS_RETURN_IF_ERROR(mark_reads(program));
  LS_RETURN_IF_ERROR(ls_graph_verify(program->body));
  ls_graph_identify(program->body, program->fingerprint);
  return ls_ok();
}

static ls_status lower_request(ls_lowering *all,
                               const ls_lower_request *request) {
  ls_program *program = all->program;
  LS_RETURN_IF_ERROR(check_border(request));
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_LOWERED, request->graph->name,
                                   all->runtime, NULL, &program->body));
  LS_OWN(ls_lower_scope, scope) = {0};
  LS_RETURN_IF_ERROR(
      ls_lower_scope_init(&scope, all, NULL, request->graph, program->body));
  LS_RETURN_IF_ERROR(add_inputs(&scope, request));
  LS_RETURN_IF_ERROR(add_sizes(&scope));
  LS_RETURN_IF_ERROR(ls_lower_nodes(
      &scope, 1, request->fetches, request->num_fetches, request->targets,
      request->num_targets, request->effects_are_roots));
  LS_RETURN_IF_ERROR(lower_set_results(&scope, request));
  program->num_inputs = request->num_feeds + program->num_padded;
  return ls_ok();
}

ls_status ls_lower_gather(ls_lower_request *request, ls_arena *memory,
                          ls_graph **out_copy) {
  *out_copy = NULL;
  // A graph with an error is incomplete; ls_lower reports the error.
  if (request->graph->error != NULL) return ls_ok();
  ls_gathered gathered;
  LS_RETURN_IF_ERROR(ls_graph_gather(
      &(ls_gather_request){.graph = request->graph,
                           .fetches = request->fetches,
                           .num_fetches = request->num_fetches,
                           .feeds = request->feeds,
                           .num_feeds = request->num_feeds,
                           .targets = request->targets,
                           .num_targets = request->num_targets,
                           .effects_are_roots = request->effects_are_roots},
      memory, &gathered));
  if (gathered.graph == NULL) return ls_ok();
  gathered.graph->strategy = request->graph->strategy;
  *out_copy = request->graph = gathered.graph;
  request->fetches = gathered.fetches;
  request->feeds = gathered.feeds;
  request->targets = gathered.targets;
  request->num_targets = gathered.num_targets;
  return ls_ok();
}

static void lowering_deinit(ls_lowering *all) {
  ls_map_deinit(&all->stacks);
  ls_text_deinit(&all->launched);
  ls_release(all->allocator, all->containers);
  ls_release(all->allocator, all->met);
  ls_release(all->allocator, all->step_flows);
  ls_release(all->allocator, all->apart);
}
LS_OWNED_STRUCT(ls_lowering, lowering_deinit)

static ls_status lower(ls_backend *backend, const ls_lower_request *request,
                       const ls_buckets *buckets, ls_program **out_program) {
  ls_runtime *runtime = backend->runtime;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_program, made);
  ls_object_init(&made->object, &program_type);
  made->runtime = runtime;
  made->strategy = request->graph->strategy;
  made->on_host = request->on_host;
  LS_OWN(ls_program, program) = made;
  LS_OWN(ls_lowering, all) = {.runtime = runtime,
                              .allocator = allocator,
                              .request = request,
                              .program = program,
                              .device = LS_DEVICE_ANY,
                              .buckets = buckets,
                              .variables = &request->variables};
  ls_map_init(&all.stacks, allocator);
  ls_text_init(&all.launched, allocator);
  LS_RETURN_IF_ERROR(lower_request(&all, request));
  LS_RETURN_IF_ERROR(ls_lower_choose_device(&all));
  LS_RETURN_IF_ERROR(lower_finish(backend, program));
  return ls_hand_over(&program, out_program);
}

// ---- Buckets --------------------------------------------------------------
// Lowers the program for all sizes of a bucket, in place of the program for one
// size.
static ls_status lower_bucket(ls_backend *backend,
                              const ls_lower_request *request, ls_arena *memory,
                              ls_program **program) {
  ls_buckets buckets;
  ls_lower_request own = *request;
  ls_program *made = NULL;
  LS_RETURN_IF_ERROR(ls_find_buckets(request, memory, &buckets));
  if (buckets.count == 0) return ls_ok();
  if (request->outputs != NULL) {
    LS_ARENA_SET_OR_RETURN(memory, uint32_t, own.outputs,
                           request->num_fetches + 1);
  }
  LS_RETURN_IF_ERROR(lower(backend, &own, &buckets, &made));
  if (request->outputs != NULL)
    memcpy(request->outputs, own.outputs,
           request->num_fetches * sizeof(*own.outputs));
  ls_object_release(*program);
  *program = made;
  return ls_ok();
}

static void log_no_bucket(const ls_lower_request *request, ls_status status) {
  const char *name = request->graph->name;
  char key[700], why[500];
  snprintf(why, sizeof(why), "%s", ls_status_message(status));
  for (char *at = why; (at = strchr(at, '\n')) != NULL;)
    *at = ' ';  // Keeps the message on one line.
  snprintf(key, sizeof(key), "no bucket of '%.150s': %s", name, why);
  ls_log_limited(request->graph->runtime, key, 1, LS_LOG_INFO, "lower",
                 "'%s' has a program for each size, not one for the sizes of a "
                 "bucket: %s",
                 name, why);
}

ls_status ls_lower(ls_backend *backend, const ls_lower_request *request,
                   ls_program **out_program) {
  *out_program = NULL;
  if (request->graph->error != NULL)
    return ls_status_clone(request->graph->error);
  LS_OWN(ls_program, program) = NULL;
  LS_RETURN_IF_ERROR(lower(backend, request, NULL, &program));
  LS_OWN(ls_arena,
         memory) = {.allocator = ls_runtime_allocator(backend->runtime)};
  ls_status status = lower_bucket(backend, request, &memory, &program);
  if (!ls_status_is_ok(status) &&
      ls_status_code(status) != LS_RESOURCE_EXHAUSTED) {
    log_no_bucket(request, status);
    ls_status_free(status);
    status = ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  return ls_hand_over(&program, out_program);
}

// SPDX-License-Identifier: Apache-2.0
//
// Builds a replicated computation in the graph: the ops around it, and its own
// ops while its context is entered.
#include "tpu/replicate/replicate.h"

#include <stdio.h>

#include "base/device_parts.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/context.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "graph/trial.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/system_id.h"
#include "tpu/pod/topology.h"

bool ls_op_is_replicated(ls_op op) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  return node != NULL && ls_node_mark(node, LS_MARK_REPLICATE) != NULL;
}

int32_t ls_num_shards(void) { return ls_context_current()->scoped.shards; }

void ls_shard_scope_begin(ls_scope *scope, int32_t count) {
  const int32_t around = ls_context_replicas_here();
  if (around != 0 || count < 1) {
    ls_context_refuse(
        scope,
        around != 0
            ? ls_unimplemented(
                  "tpu_shard_context cannot be nested: it is of %d shards here",
                  around)
            : ls_invalid_argument(
                  "a computation of %d shards: at least one is needed", count));
    return;
  }
  ls_context_open(scope, &ls_graph_scopes.flow)->scoped.shards = count;
}

// ---- Around the computation ------------------------------------------------
static ls_status add_inputs(ls_replication *r) {
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_tensor, r->inputs, r->num_inputs + 1);
  for (size_t i = 0; i < r->num_inputs; ++i) {
    const ls_tensor *values = &r->values[i * r->replicas];
    if (values[0].ref == 0) continue;
    char name[32];
    snprintf(name, sizeof(name), "input%zu", i);
    r->inputs[i] = ls_op_output(ls_make_op(LS_OP_TPU_REPLICATED_INPUT, name,
                                           values, r->replicas, NULL, 0),
                                0);
    if (ls_tensor_is_failed(r->inputs[i])) return ls_graph_error(r->graph);
  }
  return ls_ok();
}

// Opens a new scope, names the computation after it, and makes its pivot there.
static ls_status begin_context(ls_replication *r) {
  char base[LS_MAX_NAME];
  const ls_graph *whole = ls_graph_whole(r->graph);
  const bool in_function = whole->kind == LS_GRAPH_FUNCTION;
  snprintf(base, sizeof(base), "cluster%s%.*s", in_function ? "_" : "",
           LS_MAX_NAME / 2, in_function ? whole->name : "");
  LS_NAME_SCOPE(base);
  LS_RETURN_IF_ERROR(ls_scope_status());
  const char *scope = ls_name_scope_current();
  char *name = ls_arena_string(&r->memory, scope);
  if (name == NULL || name[0] == '\0') return ls_out_of_memory();
  name[strlen(name) - 1] = '\0';
  const ls_attr attr = {
      .name = "_pivot_for_cluster", .kind = LS_ATTR_STRING, .as.string = name};
  const ls_op pivot = ls_op_add(&(ls_op_spec){
      .type = LS_OP_NO_OP, .name = "pivot", .attrs = &attr, .num_attrs = 1});
  if (ls_op_is_failed(pivot)) return ls_graph_error(r->graph);
  LS_RETURN_IF_ERROR(
      ls_tpu_context_init(&r->context, name, (int32_t)r->replicas, pivot));
  r->context.around.assignment = r->options->assignment;
  r->context.around.id = r->system;
  r->context.spmd = r->options->xla.spmd != LS_FLAG_OFF;
  return ls_ok();
}

// The assignment as attributes: cores of a replica, four numbers a core, and
// the topology's bytes.
typedef struct placement {
  int64_t cores;
  int64_t *numbers;
  size_t count;
  ls_attr topology;
} placement;

static ls_status find_placement(ls_replication *r, placement *out) {
  const ls_device_assignment *assignment = r->options->assignment;
  *out = (placement){.cores = 1,
                     .topology = {.name = "topology",
                                  .kind = LS_ATTR_STRING,
                                  .as.string = ""}};
  if (assignment == NULL) return ls_ok();
  out->cores = ls_device_assignment_num_cores_per_replica(assignment);
  LS_ARENA_SET_OR_RETURN(&r->memory, int64_t, out->numbers,
                         r->replicas * (size_t)out->cores * 4);
  for (size_t replica = 0; replica < r->replicas; ++replica)
    for (int64_t core = 0; core < out->cores; ++core) {
      ls_coordinate place;
      LS_RETURN_IF_ERROR(ls_device_assignment_place(
          assignment, (int32_t)replica, (int32_t)core, &place));
      for (int i = 0; i < LS_MESH_RANK; ++i)
        out->numbers[out->count++] = place.at[i];
    }
  size_t size = 0;
  const void *bytes =
      ls_topology_serialized(ls_device_assignment_topology(assignment), &size);
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(LS_DTYPE_U8, LS_SHAPE((int64_t)size),
                                          bytes, &array));
  out->topology =
      (ls_attr){.name = "topology", .kind = LS_ATTR_ARRAY, .as.array = array};
  return ls_ok();
}

static ls_status add_metadata(ls_replication *r) {
  const ls_replicate_options *o = r->options;
  placement where;
  int64_t *padding = NULL;
  size_t num_padding = 0;
  LS_RETURN_IF_ERROR(ls_replication_padding_map(r, &padding, &num_padding));
  LS_RETURN_IF_ERROR(find_placement(r, &where));
  const ls_attr attrs[] = {
      LS_OWN_I(NUM_REPLICAS, (int64_t)r->replicas),
      LS_OWN_B(USE_TPU, o->use_tpu != LS_FLAG_OFF),
      LS_OWN_I(NUM_CORES_PER_REPLICA, where.cores),
      where.topology,
      LS_OWN_IS(DEVICE_ASSIGNMENT, where.numbers, where.count),
      {.name = LS_MARK_HOST_CORES, .kind = LS_ATTR_STRINGS},
      LS_OWN_S(STEP_MARKER_LOCATION, o->on_device_loop == LS_FLAG_ON
                                         ? "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP"
                                         : "STEP_MARK_AT_ENTRY"),
      LS_OWN_B(ALLOW_SOFT_PLACEMENT, o->soft_placement == LS_FLAG_ON),
      LS_OWN_B(USE_SPMD, o->xla.spmd != LS_FLAG_OFF),
      LS_OWN_IS(PADDING_MAP, padding, num_padding)};
  r->metadata = ls_make_op(LS_OP_TPU_REPLICATE_METADATA, NULL, NULL, 0, attrs,
                           LS_COUNT_OF(attrs) - (num_padding == 0));
  if (where.topology.kind == LS_ATTR_ARRAY)
    ls_array_release(where.topology.as.array);
  return ls_op_is_failed(r->metadata) ? ls_graph_error(r->graph) : ls_ok();
}

static ls_status set_mark(const ls_replication *r, const char *name,
                          const char *text) {
  return ls_node_set_attr(
      r->graph, ls_graph_node(r->metadata.graph, r->metadata.id),
      &(ls_attr){.name = name, .kind = LS_ATTR_STRING, .as.string = text});
}

// Marks the computation with the mesh of the assignment's topology; without an
// assignment, of the system as it is now.
static ls_status mark_mesh(const ls_replication *r) {
  const ls_device_assignment *assignment = r->options->assignment;
  int64_t sizes[LS_POD_SIZES];
  if (assignment != NULL && assignment->topology->system != NULL) {
    ls_topology_sizes(assignment->topology, sizes);
  } else {
    ls_pod *pod = ls_pod_of_id(r->graph->runtime, r->system);
    if (pod == NULL) return ls_ok();
    ls_pod_sizes(pod, sizes);
    ls_object_release(pod);
  }
  return ls_node_set_attr(r->graph,
                          ls_graph_node(r->metadata.graph, r->metadata.id),
                          &(ls_attr){.name = LS_MARK_MESH,
                                     .kind = LS_ATTR_INTS,
                                     .as.ints = {sizes, LS_POD_SIZES}});
}

// Marks the computation with its system. A topology that belongs to no system
// gives no mark: it may have cores that the local system lacks, and still runs.
static ls_status mark_system(const ls_replication *r) {
  const ls_device_assignment *assignment = r->options->assignment;
  const ls_system_id *id = r->system;
  if (id == NULL || (id->job[0] == '\0' && assignment != NULL &&
                     assignment->topology->system == NULL))
    return ls_ok();
  LS_RETURN_IF_ERROR(set_mark(r, LS_MARK_SYSTEM, id->name));
  if (id->job[0] != '\0') LS_RETURN_IF_ERROR(set_mark(r, LS_MARK_JOB, id->job));
  return mark_mesh(r);
}

// Marks the computation with the hosts of the replicas' cores, if there are
// several hosts.
static ls_status note_hosts(ls_replication *r) {
  const char *const *hosts = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_replication_hosts(r, &hosts, &count));
  if (count == 0) return ls_ok();
  return ls_node_set_attr(r->graph,
                          ls_graph_node(r->metadata.graph, r->metadata.id),
                          &(ls_attr){.name = LS_MARK_HOSTS,
                                     .kind = LS_ATTR_STRINGS,
                                     .as.strings = {hosts, count}});
}

// Adds the marks that are known only after the computation was built.
static ls_status finish_metadata(const ls_replication *r) {
  const ls_tpu_context *context = &r->context;
  LS_RETURN_IF_ERROR(mark_system(r));
  if (context->num_host_compute_cores == 0) return ls_ok();
  ls_node *node = ls_graph_node(r->metadata.graph, r->metadata.id);
  return ls_node_set_attr(
      r->graph, node,
      &(ls_attr){
          .name = LS_MARK_HOST_CORES,
          .kind = LS_ATTR_STRINGS,
          .as.strings = {(const char *const *)context->host_compute_cores,
                         context->num_host_compute_cores}});
}

// ---- Arguments -------------------------------------------------------------
// Appends the elements of an infeed tuple to the arguments.
static ls_status append_infeed(ls_replication *r, ls_nest *args) {
  ls_infeed_queue *queue = r->options->infeed;
  LS_OWN(ls_nest, tuple) = ls_none();
  if (queue == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_infeed_queue_set_num_shards(queue, (int64_t)r->replicas));
  LS_RETURN_IF_ERROR(ls_infeed_queue_dequeue(queue, -1, &tuple));
  const size_t given = ls_nest_count(*args), more = ls_nest_count(tuple);
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_nest, items, given + more + 1);
  for (size_t i = 0; i < given + more; ++i)
    items[i] = ls_nest_retain(i < given ? ls_nest_item(*args, i)
                                        : ls_nest_item(tuple, i - given));
  const ls_nest all = ls_nest_sequence(args->kind, items, given + more);
  ls_nest_release(*args);
  *args = all;
  return ls_nest_status(all);
}

// Binds the arguments to the callback's parameters.
static ls_status bind(const ls_replication *r, ls_nest *args) {
  ls_nest bound = ls_none();
  if (r->options->parameters == NULL) return ls_ok();
  const ls_status status =
      ls_parameters_bind(r->options->parameters, "a replicated computation",
                         *args, ls_none(), &bound);
  ls_nest_release(*args);
  *args = bound;
  return status;
}

// ---- Inside the computation ------------------------------------------------
// Passes each input through an op, so that unused inputs are consumed as well.
static ls_status enter_inputs(ls_replication *r, ls_nest *out_args) {
  ls_nest *leaves = ls_arena_new_array(&r->memory, ls_nest, r->num_leaves + 1);
  ls_tensor *values =
      ls_arena_new_array(&r->memory, ls_tensor, r->num_inputs + 1);
  if (leaves == NULL || values == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < r->num_inputs; ++i) {
    if (r->inputs[i].ref == 0) continue;
    char name[40];
    snprintf(name, sizeof(name), "replicated_input_%zu", i);
    values[i] = ls_identity_named(r->inputs[i], name);
    if (ls_tensor_is_failed(values[i])) return ls_graph_error(r->graph);
  }
  LS_RETURN_IF_ERROR(ls_replication_unpad(r, values));
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (values[i].ref != 0) leaves[i] = ls_leaf(values[i]);
  *out_args = r->first.kind == LS_KIND_NONE
                  ? ls_nest_sequence(LS_KIND_TUPLE, NULL, 0)
                  : ls_nest_pack(r->first, leaves, r->num_leaves);
  LS_RETURN_IF_ERROR(ls_nest_status(*out_args));
  LS_RETURN_IF_ERROR(append_infeed(r, out_args));
  return bind(r, out_args);
}

// Creates a variable without its partitioner: a computation's variables are not
// partitioned.
static ls_status create_whole(const ls_creator *next,
                              const ls_variable_options *options, void *user,
                              ls_variable **out_variable) {
  const ls_replication *r = user;
  ls_variable_options whole = *options;
  if (whole.partitioner != NULL)
    ls_tpu_log(r->graph->runtime, LS_LOG_WARNING,
               "the partitioner of variable '%s' is ignored: variables of "
               "computation '%s' are not partitioned",
               options->name != NULL ? options->name : "Variable",
               r->context.name);
  whole.partitioner = NULL;
  return ls_creator_create(next, &whole, out_variable);
}

static ls_status build_inside(ls_replication *r, ls_callback fn, void *user,
                              ls_outputs *outputs) {
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(add_metadata(r));
  LS_RETURN_IF_ERROR(note_hosts(r));
  LS_CONTROL_SCOPE(&r->metadata, 1);
  LS_CREATOR_SCOPE(create_whole, r);
  LS_SCOPE_(ls_shard_scope_begin, (int32_t)r->replicas);
  LS_RETURN_IF_ERROR(ls_scope_status());
  LS_RETURN_IF_ERROR(enter_inputs(r, &args));
  ls_examples_entry examples;
  ls_examples_enter(&examples, LS_EXAMPLES_ARGUMENTS, args);
  made = fn(args, user);
  ls_examples_leave(&examples);
  // If an op maker failed in the callback, that failure is the root cause.
  LS_RETURN_IF_ERROR(ls_graph_error(r->graph));
  return ls_outputs_take(r, made, outputs);
}

// Builds the computation and the ops around it.
static ls_status build_replication(ls_replication *r, ls_callback fn,
                                   void *user, ls_nest *results) {
  ls_outputs outputs = {0};
  LS_RETURN_IF_ERROR(add_inputs(r));
  LS_RETURN_IF_ERROR(begin_context(r));
  ls_scope scope = {0};
  ls_tpu_context_enter(&scope, &r->context);
  ls_status status = ls_scope_status();
  if (ls_status_is_ok(status)) status = build_inside(r, fn, user, &outputs);
  ls_scope_end(&scope);
  ls_tpu_context_report(&r->context);
  LS_OWN(ls_nest, like) = outputs.like;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(finish_metadata(r));
  return ls_outputs_give(r, &outputs, results);
}

static ls_status add_compile_status(const ls_replication *r,
                                    ls_tensor *out_status) {
  const ls_attr attr = {.name = LS_MARK_COMPILED,
                        .kind = LS_ATTR_STRING,
                        .as.string = r->context.name};
  LS_CONTROL_SCOPE(&r->metadata, 1);
  if (r->options->use_tpu == LS_FLAG_OFF) {
    *out_status = (ls_tensor){0};
    const ls_op op = ls_op_add(
        &(ls_op_spec){.type = LS_OP_NO_OP, .name = "compilation_status"});
    return ls_op_is_failed(op) ? ls_graph_error(r->graph) : ls_ok();
  }
  *out_status = ls_make(LS_OP_TPU_COMPILATION_RESULT, NULL, 0, &attr, 1);
  return ls_tensor_is_failed(*out_status) ? ls_graph_error(r->graph) : ls_ok();
}

// ---- The calls -------------------------------------------------------------
ls_status ls_check_xla_options(const ls_xla_options *options) {
  if ((unsigned)options->spmd > LS_FLAG_OFF)
    return ls_invalid_argument("spmd %d is no flag", (int)options->spmd);
  if ((unsigned)options->dynamic_padder > LS_FLAG_OFF)
    return ls_invalid_argument("dynamic_padder %d is no flag",
                               (int)options->dynamic_padder);
  return ls_ok();
}

static ls_status replicate_check_options(const ls_replicate_options *options) {
  if ((unsigned)options->soft_placement > LS_FLAG_OFF)
    return ls_invalid_argument("soft_placement %d is no flag",
                               (int)options->soft_placement);
  if ((unsigned)options->on_device_loop > LS_FLAG_OFF)
    return ls_invalid_argument("on_device_loop %d is no flag",
                               (int)options->on_device_loop);
  if ((unsigned)options->use_tpu > LS_FLAG_OFF)
    return ls_invalid_argument("use_tpu %d is no flag", (int)options->use_tpu);
  LS_RETURN_IF_ERROR(ls_check_xla_options(&options->xla));
  if ((unsigned)options->padding > LS_PADDING_POWER_OF_TWO)
    return ls_invalid_argument("padding %d is no policy",
                               (int)options->padding);
  return ls_ok();
}

// Finds the system of an assignment whose topology names none.
static ls_status find_by_topology(ls_runtime *runtime,
                                  const ls_topology *topology,
                                  ls_system_id **out_id) {
  LS_OWN(ls_pod, pod) = NULL;
  LS_OWN(ls_pod, other) = NULL;
  ls_pod_of_topology(runtime, topology, &pod, &other);
  if (other != NULL)
    return ls_failed_precondition(
        "the device assignment may be of TPU system '%s' of job %s or of '%s' "
        "of job %s, which have one topology: make it of the topology that "
        "ls_tpu_initialize has given",
        pod->name, ls_job_text(pod->job), other->name, ls_job_text(other->job));
  else if (pod != NULL)
    *out_id = ls_object_retain(pod->id);
  return ls_ok();
}

// Makes the runtime's TPU state, in which programs with replicated computations
// find the launch functions.
static ls_status begin_launches(ls_runtime *runtime) {
  ls_runtime_lock(runtime);
  const bool has_state = ls_tpu_state_get(runtime) != NULL;
  ls_runtime_unlock(runtime);
  return has_state ? ls_ok() : ls_out_of_memory();
}

static ls_status replicate_find_system(ls_replication *r) {
  const ls_device_assignment *assignment = r->options->assignment;
  ls_runtime *runtime = r->graph->runtime;
  ls_device_parts device;
  LS_RETURN_IF_ERROR(begin_launches(runtime));
  if (r->system != NULL) {
    ls_object_retain(r->system);
    return ls_ok();
  }
  if (assignment != NULL && assignment->topology->system != NULL) {
    r->system = ls_object_retain(assignment->topology->system);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(
      ls_device_parse(ls_context_current()->scoped.device, &device));
  if (assignment != NULL && device.job[0] == '\0')
    return find_by_topology(runtime, assignment->topology, &r->system);
  const ls_status status = ls_system_here(runtime, "a replicated computation",
                                          device.job, &r->system);
  if (r->options->use_tpu != LS_FLAG_OFF ||
      ls_status_code(status) != LS_FAILED_PRECONDITION)
    return status;
  ls_status_free(status);  // A computation on the hosts' CPUs needs no system.
  return ls_ok();
}

static ls_status replicate_here(ls_replication *r, ls_callback fn, void *user,
                                ls_nest inputs, ls_tensor *compile_status,
                                ls_nest *outputs) {
  LS_RETURN_IF_ERROR(ls_replication_take_inputs(r, inputs));
  if (r->replicas == 0) {
    *outputs = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
    return ls_nest_status(*outputs);
  }
  LS_RETURN_IF_ERROR(build_replication(r, fn, user, outputs));
  return compile_status == NULL ? ls_ok()
                                : add_compile_status(r, compile_status);
}

static ls_status replicate(ls_system_id *system, const char *const *devices,
                           ls_callback fn, void *user, ls_nest inputs,
                           const ls_replicate_options *options,
                           ls_tensor *compile_status, ls_nest *outputs) {
  static const ls_replicate_options defaults;
  LS_RETURN_IF_ERROR(ls_scope_status());
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (graph == NULL) return ls_out_of_memory();
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "a replicated computation needs a graph that is being built: in eager "
        "there is none; use a traced function");
  ls_replication r = {.options = options != NULL ? options : &defaults,
                      .devices = devices,
                      .system = system,
                      .graph = graph,
                      .context.allocator = graph->allocator};
  LS_RETURN_IF_ERROR(replicate_check_options(r.options));
  LS_RETURN_IF_ERROR(replicate_find_system(&r));
  ls_arena_init(&r.memory, graph->allocator);
  ls_nest made = ls_none();
  const ls_status status = LS_TRIAL_WITH(
      &made, replicate_here(&r, fn, user, inputs, compile_status, &made));
  ls_tpu_context_deinit(&r.context);
  ls_arena_deinit(&r.memory);
  ls_object_release(r.system);
  if (!ls_status_is_ok(status) && compile_status != NULL)
    *compile_status = ls_failed_tensor();
  *outputs = made;
  return status;
}

ls_status ls_replicate(ls_callback fn, void *user, ls_nest inputs,
                       const ls_replicate_options *options, ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs, fn);
  return replicate(NULL, NULL, fn, user, inputs, options, NULL, outputs);
}

ls_status ls_replicate_at(ls_system_id *system, const char *const *devices,
                          ls_callback fn, void *user, ls_nest inputs,
                          const ls_replicate_options *options,
                          ls_nest *outputs) {
  return replicate(system, devices, fn, user, inputs, options, NULL, outputs);
}

ls_status ls_split_compile_and_replicate(ls_callback fn, void *user,
                                         ls_nest inputs,
                                         const ls_replicate_options *options,
                                         ls_tensor *compile_status,
                                         ls_nest *outputs) {
  LS_REQUIRE_OUT(compile_status);
  LS_REQUIRE_OUT(outputs, fn);
  return replicate(NULL, NULL, fn, user, inputs, options, compile_status,
                   outputs);
}

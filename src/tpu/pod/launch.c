// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_internal.h"
#include "base/text.h"
#include "graph/gather/gather.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/system_id.h"
#include "tpu/pod/topology.h"

// A run of replicated computations on the cores of a pod, for one
// initialization of the pod; `pod` is NULL for a system outside this process.
typedef struct launch {
  ls_object object;
  ls_allocator *allocator;
  const ls_tpu_state *state;  // The runtime's table.
  ls_pod *pod;                // NULL: no faults are injected.
  uint64_t generation;
  int32_t replicas, cores_per_replica;
  size_t count;
  const ls_core *cores[];  // Ordered by replica, then by logical core.
} launch;
LS_OWNED_POINTER(launch, ls_object_release)

static void destroy_launch(ls_object *object) {
  launch *self = (launch *)object;
  ls_object_release(self->pod);
  ls_release(self->allocator, self);
}

static const ls_object_type launch_type = {.name = "launch",
                                           .destroy = destroy_launch};

// ---- Making ----------------------------------------------------------------
// Returns core `i` of the assignment, which has four numbers per core; without
// an assignment, core `i` of the pod. NULL if the pod has no such core.
static const ls_core *core_at(const ls_pod *pod, const ls_attr *numbers,
                              size_t i) {
  int32_t owner = -1;
  if (numbers->as.ints.count == 0) {
    owner = i < (size_t)ls_pod_num_cores(pod) ? (int32_t)i : -1;
  } else {
    ls_coordinate place;
    for (int k = 0; k < LS_MESH_RANK; ++k)
      place.at[k] =
          (int32_t)numbers->as.ints.items[i * LS_MESH_RANK + (size_t)k];
    ls_status_free(ls_topology_owner(pod->topology, place, &owner));
  }
  return owner < 0 ? NULL : &pod->cores[owner];
}

static ls_status refuse_core(const ls_pod *pod, size_t i) {
  return ls_failed_precondition(
      "core %zu of the computation is not one of TPU system '%s', which has %d "
      "cores: it was built for another system",
      i, pod->name, ls_pod_num_cores(pod));
}

// Collects the launch's cores. If the assignment is for a system outside this
// process, there are no cores, and no faults.
static ls_status launch_fill(launch *self, const ls_attr *numbers) {
  const size_t wanted = self->count;
  self->count = 0;
  for (size_t i = 0; i < wanted; ++i) {
    const ls_core *core = core_at(self->pod, numbers, i);
    if (core == NULL &&
        (self->pod->job[0] != '\0' || self->pod->cores[0].device >= 0))
      return refuse_core(self->pod, i);
    if (core != NULL) self->cores[self->count++] = core;
  }
  return ls_ok();
}

// Checks that the pod has the sizes for which the computation was built:
// another system may have taken the name since.
static ls_status launch_check_sizes(const ls_pod *pod, const ls_node *node) {
  const ls_attr *built = ls_node_attr_named(node, LS_MARK_MESH);
  return built != NULL && built->kind == LS_ATTR_INTS &&
                 built->as.ints.count == LS_POD_SIZES
             ? ls_pod_check_sizes(pod, built->as.ints.items)
             : ls_ok();
}

// Reads the system from the marks of the metadata; NULL means the local one.
static ls_status read_id(ls_runtime *runtime, const ls_node *node,
                         ls_system_id **out_id) {
  const char *name = ls_node_mark(node, LS_MARK_SYSTEM);
  const char *job = ls_node_mark(node, LS_MARK_JOB);
  *out_id = NULL;
  return name == NULL ? ls_ok()
                      : ls_system_id_create(ls_runtime_allocator(runtime), name,
                                            job != NULL ? job : "", out_id);
}

// Returns an attribute of the metadata by name; NULL if its kind is wrong,
// which is possible in graphs read from text.
static const ls_attr *metadata_attr(const ls_node *node, ls_attr_id id) {
  const ls_attr *attr = ls_node_attr_named(node, ls_attr_table[id].name);
  return attr != NULL && attr->kind == ls_attr_table[id].kind ? attr : NULL;
}

static int64_t metadata_int(const ls_node *node, ls_attr_id id,
                            int64_t otherwise) {
  const ls_attr *attr = metadata_attr(node, id);
  return attr != NULL ? attr->as.i : otherwise;
}

// Checks the cores' numbers, because marks read from text can hold anything.
static ls_status launch_check_cores(int64_t replicas, int64_t cores,
                                    const ls_attr *numbers) {
  const size_t given = numbers != NULL ? numbers->as.ints.count : 0;
  if (cores < 1 || cores > LS_MAX_POD_CORES)
    return ls_invalid_argument(
        "a computation of %lld cores per replica: 1 to %d are possible",
        (long long)cores, LS_MAX_POD_CORES);
  return given == 0 || given == (size_t)(replicas * cores) * LS_MESH_RANK
             ? ls_ok()
             : ls_invalid_argument(
                   "a computation has a device assignment of %zu numbers: %lld "
                   "replicas of %lld cores have %d a core",
                   given, (long long)replicas, (long long)cores, LS_MESH_RANK);
}

static ls_status make_for(ls_runtime *runtime, const ls_node *node,
                          const ls_system_id *id, ls_object **out_launch) {
  static const ls_attr none;
  const bool is_several = node->type == LS_OP_REPLICATE;
  const int64_t replicas = ls_node_int(
      node, is_several ? LS_ATTR_ID_REPLICAS : LS_ATTR_ID_NUM_REPLICAS);
  const ls_attr *numbers = metadata_attr(node, LS_ATTR_ID_DEVICE_ASSIGNMENT);
  const int64_t cores = metadata_int(node, LS_ATTR_ID_NUM_CORES_PER_REPLICA, 1);
  ls_pod_of_now now;
  LS_RETURN_IF_ERROR(launch_check_cores(replicas, cores, numbers));
  LS_RETURN_IF_ERROR(ls_pod_ready(runtime, id, &now));
  LS_OWN(ls_pod, pod) = now.pod;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const size_t count = pod == NULL ? 0 : (size_t)(replicas * cores);
  LS_OWN(launch, self) = ls_allocate_zeroed(
      allocator, 1, sizeof(*self) + count * sizeof(self->cores[0]));
  LS_RETURN_IF_NO_MEMORY(self);
  ls_object_init(&self->object, &launch_type);
  self->allocator = allocator;
  self->state = ls_tpu_state_find(runtime);
  self->pod = ls_give(&pod);
  self->generation = now.generation;
  self->replicas = (int32_t)replicas;
  self->cores_per_replica = (int32_t)cores;
  self->count = count;
  if (self->pod != NULL && id != NULL)
    LS_RETURN_IF_ERROR(launch_check_sizes(self->pod, node));
  if (self->pod != NULL)
    LS_RETURN_IF_ERROR(launch_fill(self, numbers != NULL ? numbers : &none));
  *out_launch = &ls_give(&self)->object;
  return ls_ok();
}

static ls_status launch_make(ls_runtime *runtime, const ls_node *node,
                             ls_object **out_launch) {
  LS_OWN(ls_system_id, id) = NULL;
  *out_launch = NULL;
  // A computation for the hosts' CPUs has no cores.
  if (metadata_int(node, LS_ATTR_ID_USE_TPU, 1) == 0) return ls_ok();
  LS_RETURN_IF_ERROR(read_id(runtime, node, &id));
  return make_for(runtime, node, id, out_launch);
}

static void identify(const ls_object *object, ls_text *key) {
  const launch *self = (const launch *)object;
  ls_text_append_bytes(key, &self->pod, sizeof(self->pod));
  ls_text_append_bytes(key, &self->generation, sizeof(self->generation));
  ls_text_append_bytes(key, &self->replicas, sizeof(self->replicas));
  ls_text_append_bytes(key, self->cores, self->count * sizeof(self->cores[0]));
}

static int32_t device_of(const ls_object *object, int32_t replica) {
  const launch *self = (const launch *)object;
  const size_t core = (size_t)replica * (size_t)self->cores_per_replica;
  return core < self->count ? self->cores[core]->device : -1;
}

// Returns false if the launch's system has changed or is gone: the launch is
// then made again, or refused.
static bool is_current(const ls_object *object) {
  const launch *self = (const launch *)object;
  const uint64_t now =
      self->pod != NULL
          ? ls_pod_generation(self->pod)
          : __atomic_load_n(&self->state->changes, __ATOMIC_ACQUIRE);
  return now == self->generation &&
         (self->pod == NULL || !ls_pod_is_gone(self->pod));
}

// ---- Memory of a core ------------------------------------------------------
// The memory of a core: a program needs room for its variables, its constants,
// and a share of the working memory.
typedef struct core_memory {
  const ls_program *program;
  const ls_plan_facts *facts;
  int32_t replicas, cores_per_replica;
} core_memory;

static int64_t core_memory_bytes(const core_memory *memory) {
  const ls_program *program = memory->program;
  const ls_plan_facts *facts = memory->facts;
  int64_t bytes = (int64_t)facts->constant_bytes;
  for (size_t i = 0; i < program->num_uses; ++i)
    bytes += (int64_t)ls_type_bytes(program->uses[i].type);
  // Replicas split the memory that they share, and the cores of a replica split
  // its memory evenly.
  const int64_t shared = (int64_t)facts->shared_bytes / memory->replicas +
                         (int64_t)facts->frame_bytes;
  return bytes + shared / memory->cores_per_replica;
}

// ---- Largest values --------------------------------------------------------
enum { LARGEST = 3 };

typedef struct large_value {
  int64_t bytes;
  const ls_variable *variable;  // The variable; NULL: the value is a node's.
  const ls_node *node;          // The node in `graph`; NULL: a variable.
  const ls_graph *graph;
} large_value;

static void note_value(large_value *values, large_value value) {
  for (int i = 0; i < LARGEST; ++i) {
    if (value.bytes <= values[i].bytes) continue;
    const large_value smaller = values[i];
    values[i] = value;
    value = smaller;
  }
}

static void note_nodes(large_value *values, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_node *node = walk.node;
    if (node->type == LS_OP_PARAMETER || node->num_regions > 0) continue;
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      note_value(values, (large_value){
                             .bytes = (int64_t)ls_type_bytes(node->outputs[k]),
                             .node = node,
                             .graph = walk.graph});
  }
}

static void print_value(ls_text *text, const large_value *value) {
  if (value->variable != NULL) {
    ls_text_append_format(text, "%lld of variable '%s'",
                          (long long)value->bytes, value->variable->name);
    return;
  }
  const ls_op source =
      ls_node_source((ls_graph *)(uintptr_t)value->graph, value->node);
  ls_text_append_format(text, "%lld of %s", (long long)value->bytes,
                        ls_node_info(value->node)->name);
  if (ls_graph_node(source.graph, source.id) != NULL &&
      source.graph != value->graph)
    ls_text_append_format(text, " '%s'", ls_op_name(source));
}

// Checks the memory of a core.
//   LS_RESOURCE_EXHAUSTED  names the need, the limit and the largest values
static ls_status check_core_memory(const ls_core *core, int64_t limit,
                                   const core_memory *memory) {
  const int64_t bytes = core_memory_bytes(memory);
  if (bytes <= limit) return ls_ok();
  const ls_program *program = memory->program;
  large_value values[LARGEST] = {{0}};
  for (size_t i = 0; i < program->num_uses; ++i)
    note_value(
        values,
        (large_value){.bytes = (int64_t)ls_type_bytes(program->uses[i].type),
                      .variable = (ls_variable *)program->uses[i].variable});
  note_nodes(values, program->body);
  LS_OWN(ls_text, text) = {.allocator = core->pod->allocator};
  for (int i = 0; i < LARGEST && values[i].bytes > 0; ++i) {
    if (i > 0) ls_text_append(&text, ", ");
    print_value(&text, &values[i]);
  }
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  ls_device_name name;
  ls_core_device(core, &name);
  return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                   "the program needs %lld bytes of core %s, which has %lld; "
                   "its largest values: %s",
                   (long long)bytes, name.text, (long long)limit,
                   text.data != NULL ? text.data : "none");
}

// ---- Fault points ----------------------------------------------------------
// Passes the compile fault point of each core, once even where a replica is
// listed for several programs.
static ls_status pass_compile(const launch *self, int64_t *limits) {
  for (size_t i = 0; i < self->count; ++i) {
    ls_pod_passing passing;
    LS_RETURN_IF_ERROR(ls_pod_pass((ls_core *)(uintptr_t)self->cores[i],
                                   LS_DOOR_COMPILE, &passing));
    limits[i] = self->pod->core_bytes;
    if (passing.bytes > 0 && (limits[i] == 0 || passing.bytes < limits[i]))
      limits[i] = passing.bytes;
  }
  return ls_ok();
}

static ls_status launch_check(ls_object *object, const ls_program *program,
                              const ls_plan_facts *facts) {
  const launch *self = (const launch *)object;
  ls_allocator *allocator = self->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, int64_t, limits, self->count + 1);
  LS_RETURN_IF_ERROR(pass_compile(self, limits));
  size_t least = self->count;  // The core with the least memory.
  for (size_t i = 0; i < self->count; ++i)
    if (limits[i] > 0 && (least == self->count || limits[i] < limits[least]))
      least = i;
  if (least < self->count)
    LS_RETURN_IF_ERROR(check_core_memory(
        self->cores[least], limits[least],
        &(core_memory){.program = program,
                       .facts = facts,
                       .replicas = self->replicas,
                       .cores_per_replica = self->cores_per_replica}));
  return ls_ok();
}

static ls_status pass_fault_points(ls_object *object) {
  const launch *self = (const launch *)object;
  int64_t nanos = 0;
  if (self->pod == NULL || ls_pod_is_undisturbed(self->pod)) return ls_ok();
  for (size_t i = 0; i < self->count; ++i) {
    ls_pod_passing passing;
    LS_RETURN_IF_ERROR(ls_pod_pass((ls_core *)(uintptr_t)self->cores[i],
                                   LS_DOOR_RUN, &passing));
    if (passing.nanos > nanos) nanos = passing.nanos;
  }
  if (nanos > 0) ls_runtime_sleep(self->pod->runtime, nanos);
  return ls_ok();
}

const ls_launch_type ls_tpu_launches = {.make = launch_make,
                                        .identify = identify,
                                        .is_current = is_current,
                                        .check = launch_check,
                                        .device = device_of,
                                        .pass = pass_fault_points};

// SPDX-License-Identifier: Apache-2.0
// The inputs of a replicated computation.
#include <stdio.h>

#include "base/device_parts.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "graph/region.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/replicate.h"

static ls_status check_form(ls_nest inputs) {
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  if (inputs.kind != LS_KIND_LIST)
    return ls_invalid_argument(
        "the inputs of a replicated computation are a list with a list or "
        "tuple for each replica, got %s",
        LS_NEST_TEXT(inputs));
  const size_t count = ls_nest_count(ls_nest_item(inputs, 0));
  for (size_t r = 0; r < ls_nest_count(inputs); ++r) {
    const ls_nest own = ls_nest_item(inputs, r);
    if (!ls_replicate_is_sequence(own))
      return ls_invalid_argument(
          "the inputs of replica %zu are a list or a tuple, got %s", r,
          LS_NEST_TEXT(own));
    if (ls_nest_count(own) != count)
      return ls_invalid_argument("replica 0 has %zu inputs, replica %zu has "
                                 "%zu: all have the same number",
                                 count, r, ls_nest_count(own));
    const ls_nest first = ls_nest_item(inputs, 0);
    for (size_t i = 0; i < count; ++i)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          ls_nest_same_structure(ls_nest_item(first, i), ls_nest_item(own, i)),
          "in input %zu of replica %zu, which has another structure than "
          "replica 0's",
          i, r));
  }
  return ls_ok();
}

// Lists the types of a replica's leaves, as a text in the arena.
static const char *types_of(ls_replication *r, size_t replica) {
  char *text = ls_arena_string(&r->memory, "(");
  for (size_t i = 0; i < r->num_inputs && text != NULL; ++i) {
    const ls_tensor value = r->values[i * r->replicas + replica];
    text = ls_arena_format(
        &r->memory, "%s%s%s", text, i == 0 ? "" : ", ",
        value.ref == 0 ? "none" : ls_dtype_name(ls_tensor_dtype(value)));
  }
  if (text != NULL) text = ls_arena_format(&r->memory, "%s)", text);
  return text == NULL ? "" : text;
}

// Takes a replica's inputs, which must have the structure of replica 0's. A
// leaf that is none in replica 0 must be none in all replicas.
static ls_status take_replica(ls_replication *r, ls_nest own, size_t replica) {
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_nest, leaves, r->num_inputs + 1);
  ls_nest_flatten(own, leaves, r->num_inputs);
  for (size_t i = 0; i < r->num_inputs; ++i) {
    ls_tensor *const of_all = &r->values[i * r->replicas];
    if (replica > 0 && of_all[0].ref == 0) continue;
    if (leaves[i].kind != LS_KIND_NONE) {
      LS_RETURN_IF_ERROR(ls_status_annotate(
          ls_region_tensor(leaves[i], &of_all[replica]),
          "in leaf %zu of the inputs of replica %zu", i, replica));
      continue;
    }
    if (replica > 0)
      return ls_invalid_argument("leaf %zu of the inputs is none on replica "
                                 "%zu and a value on replica 0",
                                 i, replica);
  }
  return ls_ok();
}

static ls_status inputs_check_types(ls_replication *r) {
  for (size_t i = 0; i < r->num_inputs; ++i) {
    const ls_tensor *const of_all = &r->values[i * r->replicas];
    if (of_all[0].ref == 0) continue;
    for (size_t replica = 1; replica < r->replicas; ++replica) {
      if (ls_tensor_dtype(of_all[replica]) != ls_tensor_dtype(of_all[0]))
        return ls_invalid_argument("Replicas must have matching input types: "
                                   "replica 0 has %s, replica %zu has %s",
                                   types_of(r, 0), replica,
                                   types_of(r, replica));
      const ls_shape own = ls_tensor_shape(of_all[replica]);
      const ls_shape first = ls_tensor_shape(of_all[0]);
      if (own.rank >= 0 && first.rank >= 0 && own.rank != first.rank)
        return ls_invalid_argument(
            "input %zu is %s on replica 0 and %s on replica %zu: shapes of one "
            "rank are needed",
            i, LS_SHAPE_TEXT(ls_tensor_dtype(of_all[0]), first),
            LS_SHAPE_TEXT(ls_tensor_dtype(of_all[0]), own), replica);
    }
  }
  return ls_ok();
}

static ls_status check_arity(const ls_replication *r) {
  return ls_check_arity(r->options->parameters, "the computation", r->first,
                        r->options->infeed, true);
}

// Checks the number of replicas. It must be the assignment's; without an
// assignment, the number of the system's cores, or one.
static ls_status inputs_check_cores(const ls_replication *r) {
  const ls_device_assignment *assignment = r->options->assignment;
  if (assignment != NULL) {
    const int32_t replicas = ls_device_assignment_num_replicas(assignment);
    if ((size_t)replicas == r->replicas) return ls_ok();
    return ls_invalid_argument(
        "inputs for %zu replicas, and a device assignment of %d with %d cores "
        "each",
        r->replicas, replicas,
        ls_device_assignment_num_cores_per_replica(assignment));
  }
  if (r->replicas == 1 || r->options->use_tpu == LS_FLAG_OFF) return ls_ok();
  LS_OWN(ls_pod, pod) = ls_pod_of_id(r->graph->runtime, r->system);
  if (pod != NULL && r->replicas != (size_t)ls_pod_num_cores(pod))
    return ls_invalid_argument(
        "%zu replicas without a device assignment on TPU system '%s' of %d "
        "cores (%d hosts with %d each): one is possible, or one on each core",
        r->replicas, pod->name, ls_pod_num_cores(pod), pod->num_hosts,
        pod->cores_per_host);
  return ls_ok();
}

ls_status ls_replication_take_inputs(ls_replication *r, ls_nest inputs) {
  r->first = ls_none();
  r->replicas = 1;
  if (inputs.kind == LS_KIND_NONE) {
    LS_RETURN_IF_ERROR(check_arity(r));
    LS_RETURN_IF_ERROR(inputs_check_cores(r));
    return ls_replication_pad(r);
  }
  LS_RETURN_IF_ERROR(check_form(inputs));
  r->replicas = ls_nest_count(inputs);
  if (r->replicas == 0) return ls_ok();
  if (r->replicas > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "inputs for %zu replicas: at most %d are possible", r->replicas,
        LS_MAX_REPLICAS);
  r->first = ls_nest_item(inputs, 0);
  LS_RETURN_IF_ERROR(check_arity(r));
  LS_RETURN_IF_ERROR(inputs_check_cores(r));
  r->num_inputs = r->num_leaves = ls_nest_num_leaves(r->first);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_tensor, r->values,
                         r->num_inputs * r->replicas + 1);
  for (size_t replica = 0; replica < r->replicas; ++replica)
    LS_RETURN_IF_ERROR(take_replica(r, ls_nest_item(inputs, replica), replica));
  LS_RETURN_IF_ERROR(inputs_check_types(r));
  return ls_replication_pad(r);
}

// Describes a wrong number of arguments; returns NULL if the number is right.
static const char *describe_count(const ls_parameters *parameters, size_t given,
                                  size_t *out_number) {
  const size_t least = parameters->count - parameters->num_optional;
  const bool is_exact = parameters->num_optional == 0 && !parameters->variadic;
  *out_number = least;
  if (given < least) return is_exact ? "exactly" : "at least";
  *out_number = parameters->count;
  if (given <= parameters->count || parameters->variadic) return NULL;
  return is_exact ? "exactly" : "at most";
}

static void append_names(ls_text *text, ls_nest inputs) {
  for (size_t i = 0; i < ls_nest_count(inputs); ++i) {
    const ls_nest item = ls_nest_item(inputs, i);
    ls_text_append(text, i == 0 ? " (" : ", ");
    ls_text_append(text, item.kind == LS_KIND_TENSOR
                             ? ls_tensor_name(item.as.tensor)
                             : LS_NEST_TEXT(item));
  }
  if (ls_nest_count(inputs) > 0) ls_text_append(text, ")");
}

static const char *plural_end(size_t count) { return count == 1 ? "" : "s"; }

ls_status ls_check_arity(const ls_parameters *parameters, const char *noun,
                         ls_nest inputs, const ls_infeed_queue *queue,
                         bool takes_infeed) {
  if (parameters == NULL) return ls_ok();
  const size_t count = ls_nest_count(inputs);
  const size_t elements =
      queue == NULL ? 0 : ls_infeed_queue_num_elements(queue);
  size_t number = 0;
  const char *wrong = describe_count(
      parameters, count + (takes_infeed ? elements : 0), &number);
  if (wrong == NULL) return ls_ok();
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&text, "it is given %zu input%s", count,
                        plural_end(count));
  append_names(&text, inputs);
  if (queue != NULL && takes_infeed)
    ls_text_append_format(&text, " and %zu element%s of infeed queue '%s'",
                          elements, plural_end(elements),
                          ls_infeed_queue_name(queue));
  else if (queue != NULL)
    ls_text_append_format(&text, "; the infeed is not passed to the condition");
  return ls_invalid_argument("%s takes %s %zu argument%s; %s", noun, wrong,
                             number, plural_end(number), ls_text_data(&text));
}

// ---- Hosts of cores --------------------------------------------------------
// Finds the hosts of a computation's cores, if there are several.

// Finds the job of the devices on which the cores are, if known.
static ls_status find_job(const ls_replication *r, ls_device_parts *out) {
  *out = (ls_device_parts){0};
  if (r->devices != NULL) return ls_device_parse(r->devices[0], out);
  if (r->system != NULL)
    snprintf(out->job, sizeof(out->job), "%s", r->system->job);
  return ls_ok();
}

// Finds the host of a core. Without an assignment the replicas take the
// system's cores in order.
static ls_status host_of(const ls_replication *r, const ls_pod *pod,
                         const char *job, size_t replica, size_t core,
                         ls_device_name *out) {
  if (r->options->assignment != NULL)
    return ls_device_assignment_host(r->options->assignment, (int32_t)replica,
                                     (int32_t)core, job, out);
  const int task = (int)replica / pod->cores_per_host;
  ls_device_parts parts = {.replica = -1, .task = task, .index = 0};
  memcpy(parts.type, "CPU", sizeof("CPU"));
  snprintf(parts.job, sizeof(parts.job), "%s", job);
  ls_device_print(&parts, out);
  return ls_ok();
}

static ls_status list_hosts(ls_replication *r, const ls_pod *pod,
                            const char *const **out_hosts, size_t *out_count) {
  const ls_device_assignment *assignment = r->options->assignment;
  *out_count = 0;
  const bool several =
      assignment != NULL
          ? ls_topology_num_tasks(ls_device_assignment_topology(assignment)) > 1
          : pod != NULL && pod->num_hosts > 1 && r->replicas > 1;
  if (!several) return ls_ok();
  const size_t cores =
      assignment != NULL
          ? (size_t)ls_device_assignment_num_cores_per_replica(assignment)
          : 1;
  ls_device_parts job;
  LS_RETURN_IF_ERROR(find_job(r, &job));
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, const char *, hosts,
                           r->replicas *cores + 1);
  for (size_t replica = 0; replica < r->replicas; ++replica)
    for (size_t core = 0; core < cores; ++core) {
      ls_device_name name;
      LS_RETURN_IF_ERROR(host_of(r, pod, job.job, replica, core, &name));
      hosts[*out_count] = ls_arena_string(&r->memory, name.text);
      if (hosts[(*out_count)++] == NULL) return ls_out_of_memory();
    }
  *out_hosts = hosts;
  return ls_ok();
}

ls_status ls_replication_hosts(ls_replication *r, const char *const **out_hosts,
                               size_t *out_count) {
  LS_OWN(ls_pod, pod) = ls_pod_of_id(r->graph->runtime, r->system);
  return list_hosts(r, pod, out_hosts, out_count);
}

// SPDX-License-Identifier: Apache-2.0
//
// Finds the hosts of a computation's cores, if there are several.
#include <stdio.h>

#include "base/device_parts.h"
#include "base/runtime_internal.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/replicate.h"

// Finds the job of the devices, as far as it is known.
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
  const char **hosts =
      ls_arena_new_array(&r->memory, const char *, r->replicas *cores + 1);
  if (hosts == NULL) return ls_out_of_memory();
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

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster.h"

#include "base/memory/arena.h"
#include "base/require.h"
#include "base/runtime_internal.h"

// A cluster spec and the memory it points to.
typedef struct cluster {
  ls_cluster_spec spec;
  ls_arena arena;
} cluster;

static ls_status copy_job(ls_arena *arena, const ls_cluster_job *job,
                          ls_cluster_job *out) {
  if (job->name == NULL)
    return ls_invalid_argument("a job of a cluster has no name");
  if (job->addresses == NULL && job->num_addresses > 0)
    return ls_invalid_argument("job '%s' of a cluster has %zu addresses at "
                               "NULL",
                               job->name, job->num_addresses);
  const char **addresses =
      ls_arena_new_array(arena, const char *, job->num_addresses + 1);
  out->name = ls_arena_string(arena, job->name);
  if (addresses == NULL || out->name == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < job->num_addresses; ++i) {
    if (job->addresses[i] == NULL)
      return ls_invalid_argument("address %zu of job '%s' is NULL", i,
                                 job->name);
    addresses[i] = ls_arena_string(arena, job->addresses[i]);
    if (addresses[i] == NULL) return ls_out_of_memory();
  }
  out->addresses = addresses;
  out->num_addresses = job->num_addresses;
  return ls_ok();
}

static ls_status copy_jobs(const ls_cluster_spec *spec, cluster *made) {
  ls_cluster_job *jobs =
      ls_arena_new_array(&made->arena, ls_cluster_job, spec->num_jobs + 1);
  if (jobs == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < spec->num_jobs; ++i)
    LS_RETURN_IF_ERROR(copy_job(&made->arena, &spec->jobs[i], &jobs[i]));
  made->spec = (ls_cluster_spec){jobs, spec->num_jobs};
  return ls_ok();
}

ls_status ls_cluster_spec_copy(const ls_cluster_spec *spec,
                               ls_cluster_spec **out_copy) {
  LS_REQUIRE_OUT(out_copy);
  if (spec == NULL) return ls_ok();
  LS_REQUIRE_ITEMS(spec->jobs, spec->num_jobs);
  ls_allocator *allocator = ls_current_allocator();
  cluster *made = ls_new(allocator, cluster);
  if (made == NULL) return ls_out_of_memory();
  ls_arena_init(&made->arena, allocator);
  const ls_status status = copy_jobs(spec, made);
  if (ls_status_is_ok(status))
    *out_copy = &made->spec;
  else
    ls_cluster_spec_destroy(&made->spec);
  return status;
}

void ls_cluster_spec_destroy(ls_cluster_spec *spec) {
  if (spec == NULL) return;
  cluster *made = (cluster *)spec;
  ls_allocator *allocator = made->arena.allocator;
  ls_arena_deinit(&made->arena);
  ls_release(allocator, made);
}

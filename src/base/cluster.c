// SPDX-License-Identifier: Apache-2.0
#include "base/device_parts.h"

#include <stdio.h>
#include <string.h>

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
    return ls_invalid_argument(
        "job '%s' of a cluster has %zu addresses at NULL", job->name,
        job->num_addresses);
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
  LS_ARENA_ARRAY_OR_RETURN(&made->arena, ls_cluster_job, jobs,
                           spec->num_jobs + 1);
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

// ---- Training clusters -----------------------------------------------------
static const char *const cluster_jobs[] = {"chief", "worker", "evaluator",
                                           "ps"};

static bool is_cluster_job(const char *name) {
  for (size_t i = 0; i < LS_COUNT_OF(cluster_jobs); ++i)
    if (strcmp(cluster_jobs[i], name) == 0) return true;
  return false;
}

static size_t cluster_count(const ls_cluster_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->num_jobs; ++i)
    if (strcmp(spec->jobs[i].name, name) == 0)
      return spec->jobs[i].num_addresses;
  return 0;
}

static ls_status check_job(const ls_cluster_spec *spec, size_t at) {
  const ls_cluster_job *job = &spec->jobs[at];
  if (job->name == NULL || !is_cluster_job(job->name))
    return ls_invalid_argument(
        "job '%s' of a cluster is none of chief, worker, evaluator, ps",
        job->name != NULL ? job->name : "NULL");
  for (size_t i = 0; i < at; ++i)
    if (strcmp(spec->jobs[i].name, job->name) == 0)
      return ls_invalid_argument("a cluster has job '%s' twice", job->name);
  if (job->num_addresses > INT32_MAX)
    return ls_invalid_argument("job '%s' of a cluster has %zu tasks", job->name,
                               job->num_addresses);
  const bool is_single = strcmp(job->name, cluster_jobs[0]) == 0 ||
                         strcmp(job->name, cluster_jobs[2]) == 0;
  return !is_single || job->num_addresses <= 1
             ? ls_ok()
             : ls_invalid_argument(
                   "a cluster has %zu tasks of job '%s': there is at most one",
                   job->num_addresses, job->name);
}

static ls_status check_spec(const ls_cluster_spec *spec) {
  for (size_t i = 0; i < spec->num_jobs; ++i)
    LS_RETURN_IF_ERROR(check_job(spec, i));
  return ls_ok();
}

ls_status ls_cluster_find_task(const ls_cluster_spec *spec,
                               const char *task_type, int32_t task_id,
                               ls_cluster_task *out_task) {
  LS_REQUIRE_OUT(out_task, spec, task_type);
  LS_REQUIRE_ITEMS(spec->jobs, spec->num_jobs);
  LS_RETURN_IF_ERROR(check_spec(spec));
  const size_t count = cluster_count(spec, task_type);
  if (!is_cluster_job(task_type))
    return ls_invalid_argument(
        "task type '%s' is none of chief, worker, evaluator, ps", task_type);
  if (task_id < 0 || (size_t)task_id >= count)
    return ls_invalid_argument(
        "task id %d of job '%s', of which the cluster has %zu tasks", task_id,
        task_type, count);
  const int32_t chiefs = (int32_t)cluster_count(spec, "chief");
  const bool works = strcmp(task_type, "worker") == 0;
  const bool leads = strcmp(task_type, "chief") == 0;
  const bool evaluates = strcmp(task_type, "evaluator") == 0;
  out_task->is_chief =
      leads || evaluates || (works && chiefs == 0 && task_id == 0);
  out_task->id = works ? chiefs + task_id : leads || evaluates ? task_id : -1;
  out_task->num_workers = evaluates
                              ? (int32_t)count
                              : chiefs + (int32_t)cluster_count(spec, "worker");
  return ls_ok();
}

void ls_cluster_device(const ls_cluster_spec *spec, int32_t worker,
                       const char *type, int32_t index,
                       ls_device_name *out_name) {
  const int32_t chiefs = (int32_t)cluster_count(spec, "chief");
  snprintf(out_name->text, sizeof(out_name->text),
           "/job:%s/task:%d/device:%s:%d", worker < chiefs ? "chief" : "worker",
           worker < chiefs ? worker : worker - chiefs, type, index);
}

ls_status ls_cluster_devices(const ls_cluster_spec *spec, int32_t gpus,
                             ls_device_name *devices, size_t capacity,
                             size_t *out_count) {
  LS_REQUIRE_OUT(out_count, spec);
  LS_REQUIRE_ITEMS(spec->jobs, spec->num_jobs);
  LS_REQUIRE_ITEMS(devices, capacity);
  LS_RETURN_IF_ERROR(check_spec(spec));
  if (gpus < 0) return ls_invalid_argument("%d GPUs of each worker", gpus);
  const size_t workers =
      cluster_count(spec, "chief") + cluster_count(spec, "worker");
  const size_t each = gpus == 0 ? 1 : (size_t)gpus;
  *out_count = workers * each;
  for (size_t i = 0; i < *out_count && i < capacity; ++i)
    ls_cluster_device(spec, (int32_t)(i / each), gpus == 0 ? "CPU" : "GPU",
                      (int32_t)(i % each), &devices[i]);
  return ls_ok();
}

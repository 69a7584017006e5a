// SPDX-License-Identifier: Apache-2.0
//
// Reads the role of a process in its cluster from TF_CONFIG in the environment.
#include <errno.h>
#include <stdlib.h>

#include "estimator/config/config.h"
#include "lockstep/runtime_settings.h"

static const char variable[] = "TF_CONFIG";

// ---- Reading ---------------------------------------------------------------
// Parses TF_CONFIG, in the configuration's memory; the result is NULL if the
// variable is not set.
static ls_status environment_read_all(ls_run_config *config,
                                      const ls_json **out) {
  const char *text = ls_runtime_environment(config->runtime, variable);
  *out = NULL;
  if (text == NULL || text[0] == '\0') return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_json_parse(&config->arena, variable, text, strlen(text), out));
  return (*out)->kind == LS_JSON_OBJECT
             ? ls_ok()
             : ls_invalid_argument("%s is no JSON object", variable);
}

static const ls_json *environment_find(const ls_json *object, const char *key) {
  const ls_json *found = object != NULL ? ls_json_find(object, key) : NULL;
  return found != NULL && found->kind != LS_JSON_NULL ? found : NULL;
}

// Reads a member's text; if the member is missing, `*text` stays unchanged.
static ls_status find_text(const ls_json *object, const char *key,
                           const char **text) {
  const ls_json *found = environment_find(object, key);
  if (found == NULL) return ls_ok();
  if (found->kind != LS_JSON_STRING)
    return ls_invalid_argument("%s: %s is no string", variable, key);
  *text = found->string;
  return ls_ok();
}

static ls_status find_object(const ls_json *object, const char *key,
                             const ls_json **out) {
  *out = environment_find(object, key);
  return *out == NULL || (*out)->kind == LS_JSON_OBJECT
             ? ls_ok()
             : ls_invalid_argument("%s: %s is no JSON object", variable, key);
}

ls_status ls_run_config_find_service(ls_run_config *config, const char *key,
                                     const char **out_text) {
  const ls_json *all = NULL, *service = NULL;
  *out_text = NULL;
  LS_RETURN_IF_ERROR(environment_read_all(config, &all));
  LS_RETURN_IF_ERROR(find_object(all, "service", &service));
  return find_text(service, key, out_text);
}

// ---- The cluster -----------------------------------------------------------
static ls_status read_job(ls_run_config *config, const ls_json *tasks,
                          ls_cluster_job *out) {
  size_t count = 0;
  if (tasks->kind != LS_JSON_ARRAY)
    return ls_invalid_argument(
        "%s: job '%s' of the cluster is no list of addresses", variable,
        tasks->key);
  for (const ls_json *at = tasks->first; at != NULL; at = at->next, ++count)
    if (at->kind != LS_JSON_STRING)
      return ls_invalid_argument("%s: task %zu of job '%s' has no address",
                                 variable, count, tasks->key);
  LS_ARENA_ARRAY_OR_RETURN(&config->arena, const char *, addresses, count + 1);
  count = 0;
  for (const ls_json *at = tasks->first; at != NULL; at = at->next)
    addresses[count++] = at->string;
  *out = (ls_cluster_job){tasks->key, addresses, count};
  return ls_ok();
}

static int compare_jobs(const void *a, const void *b) {
  return strcmp(((const ls_cluster_job *)a)->name,
                ((const ls_cluster_job *)b)->name);
}

// Reads the jobs of the cluster, which are then sorted by name.
static ls_status read_cluster(ls_run_config *config, const ls_json *cluster) {
  size_t count = 0;
  if (cluster == NULL) return ls_ok();
  for (const ls_json *at = cluster->first; at != NULL; at = at->next)
    ++count;
  LS_ARENA_ARRAY_OR_RETURN(&config->arena, ls_cluster_job, jobs, count + 1);
  count = 0;
  for (const ls_json *at = cluster->first; at != NULL; at = at->next)
    LS_RETURN_IF_ERROR(read_job(config, at, &jobs[count++]));
  qsort(jobs, count, sizeof(*jobs), compare_jobs);
  config->cluster = (ls_cluster_spec){jobs, count};
  return ls_ok();
}

static const ls_cluster_job *job_of(const ls_cluster_spec *cluster,
                                    const char *name) {
  for (size_t i = 0; i < cluster->num_jobs; ++i)
    if (strcmp(cluster->jobs[i].name, name) == 0) return &cluster->jobs[i];
  return NULL;
}

static size_t num_tasks(const ls_cluster_spec *cluster, const char *name) {
  const ls_cluster_job *job = job_of(cluster, name);
  return job != NULL ? job->num_addresses : 0;
}

// ---- The task --------------------------------------------------------------
typedef struct task {
  const char *type;
  bool has_index;
  int64_t index;
} task;

// Reads an integer: digits with an optional '-'. Returns false for other texts
// and for numbers that are too large.
static bool read_whole(const char *text, int64_t *out) {
  const char *digits = text + (text[0] == '-');
  char *end = NULL;
  if (digits[0] < '0' || digits[0] > '9') return false;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return *end == '\0' && errno == 0;
}

static ls_status read_task(const ls_json *all, task *out) {
  const ls_json *object = NULL;
  LS_RETURN_IF_ERROR(find_object(all, "task", &object));
  LS_RETURN_IF_ERROR(find_text(object, "type", &out->type));
  const ls_json *index = environment_find(object, "index");
  if (index == NULL) return ls_ok();
  // Accepts a number in quotes, because some schedulers write numbers as texts.
  out->has_index = true;
  out->index = index->integer;
  if (index->kind == LS_JSON_NUMBER && index->is_integer) return ls_ok();
  if (index->kind == LS_JSON_STRING && read_whole(index->string, &out->index))
    return ls_ok();
  return ls_invalid_argument("%s: the task's index is no whole number",
                             variable);
}

// Finds the leader: "chief", or in old clusters "master".
static ls_status find_chief(const ls_cluster_spec *cluster,
                            const char **out_chief) {
  const bool is_legacy = job_of(cluster, "master") != NULL;
  *out_chief = is_legacy ? "master" : "chief";
  if (is_legacy && job_of(cluster, "chief") != NULL)
    return ls_invalid_argument(
        "%s: the cluster has a 'master' and a 'chief': one of them leads",
        variable);
  const size_t count = num_tasks(cluster, *out_chief);
  return count == 1 ? ls_ok()
                    : ls_invalid_argument("%s: the cluster has %zu tasks of "
                                          "job '%s', must have exactly one",
                                          variable, count, *out_chief);
}

static ls_status check_task(const ls_cluster_spec *cluster, const task *t) {
  if (t->type == NULL || t->type[0] == '\0')
    return ls_invalid_argument("%s: with a cluster the task's type must be set",
                               variable);
  if (!t->has_index)
    return ls_invalid_argument(
        "%s: with a cluster the index of task '%s' must be set", variable,
        t->type);
  if (t->index > INT32_MAX)
    return ls_invalid_argument("%s: index %lld of task '%s' is above %d",
                               variable, (long long)t->index, t->type,
                               INT32_MAX);
  if (t->index < 0)
    return ls_invalid_argument(
        "%s: index %lld of task '%s' must not be negative", variable,
        (long long)t->index, t->type);
  if (strcmp(t->type, "evaluator") == 0)
    return job_of(cluster, "master") == NULL
               ? ls_ok()
               : ls_invalid_argument(
                     "%s: a cluster with a 'master' has no task 'evaluator'",
                     variable);
  const ls_cluster_job *job = job_of(cluster, t->type);
  if (job == NULL)
    return ls_invalid_argument("%s: task '%s' is no job of the cluster",
                               variable, t->type);
  return (size_t)t->index < job->num_addresses
             ? ls_ok()
             : ls_invalid_argument(
                   "%s: index %lld of task '%s', of which the cluster has %zu",
                   variable, (long long)t->index, t->type, job->num_addresses);
}

// ---- Derived values --------------------------------------------------------
// Returns the global id of this process: the chief has id 0, then ids go by job
// and index, with "ps" last.
static int64_t global_id(const ls_cluster_spec *cluster, const char *chief,
                         const task *t) {
  int64_t id = t->index;
  if (strcmp(t->type, chief) == 0) return 0;
  const bool is_ps = strcmp(t->type, "ps") == 0;
  for (size_t i = 0; i < cluster->num_jobs; ++i) {
    const ls_cluster_job *job = &cluster->jobs[i];
    const bool leads = strcmp(job->name, chief) == 0;
    const bool before = leads || (strcmp(job->name, "ps") != 0 &&
                                  (is_ps || strcmp(job->name, t->type) < 0));
    if (before && strcmp(job->name, t->type) != 0)
      id += (int64_t)job->num_addresses;
  }
  return id;
}

static ls_status set_master(ls_run_config *config, const task *t,
                            const char *given) {
  const ls_cluster_spec *cluster = &config->cluster;
  config->values.master = given != NULL ? given : "";
  if (given != NULL ||
      (cluster->num_jobs == 1 && cluster->jobs[0].num_addresses == 1))
    return ls_ok();
  config->values.master =
      ls_arena_format(&config->arena, "grpc://%s",
                      job_of(cluster, t->type)->addresses[t->index]);
  return config->values.master != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status join_cluster(ls_run_config *config, const task *t,
                              const char *master, const char *eval_master) {
  ls_run_values *values = &config->values;
  const ls_cluster_spec *cluster = &config->cluster;
  const char *chief = NULL;
  LS_RETURN_IF_ERROR(find_chief(cluster, &chief));
  LS_RETURN_IF_ERROR(check_task(cluster, t));
  values->task_type = t->type;
  values->task_id = (int32_t)t->index;
  values->is_chief = strcmp(t->type, chief) == 0;
  if (strcmp(t->type, "evaluator") == 0) {
    config->cluster = (ls_cluster_spec){0};
    values->master = "";
    values->evaluation_master = eval_master != NULL ? eval_master : "";
    return ls_ok();
  }
  values->num_ps = (int32_t)num_tasks(cluster, "ps");
  values->num_workers = (int32_t)(num_tasks(cluster, "worker") + 1);
  values->global_id = (ls_opt){true, global_id(cluster, chief, t)};
  return set_master(config, t, master);
}

static ls_status stand_alone(ls_run_config *config, const task *t,
                             const char *master, const char *eval_master) {
  ls_run_values *values = &config->values;
  if (t->type != NULL && strcmp(t->type, "worker") != 0)
    return ls_invalid_argument(
        "%s: without a cluster the task's type must be 'worker', got '%s'",
        variable, t->type);
  if (t->index != 0)
    return ls_invalid_argument(
        "%s: without a cluster the task's index must be 0, got %lld", variable,
        (long long)t->index);
  values->task_type = "worker";
  values->master = master != NULL ? master : "";
  values->evaluation_master =
      eval_master != NULL ? eval_master : values->master;
  values->is_chief = true;
  values->num_workers = 1;
  values->global_id = (ls_opt){true, 0};
  return ls_ok();
}

// Sets model_dir; if the options have it, too, the two must be equal.
static ls_status set_model_dir(ls_run_config *config, const ls_json *all) {
  const char *dir = NULL;
  ls_run_values *values = &config->values;
  LS_RETURN_IF_ERROR(find_text(all, "model_dir", &dir));
  if (dir == NULL) return ls_ok();
  if (dir[0] == '\0')
    return ls_invalid_argument("%s: model_dir should be non-empty", variable);
  if (values->model_dir != NULL && strcmp(values->model_dir, dir) != 0)
    return ls_invalid_argument("model_dir is '%s' in the configuration and "
                               "'%s' in %s: both must be the same",
                               values->model_dir, dir, variable);
  values->model_dir = dir;
  return ls_ok();
}

ls_status ls_run_config_read_environment(ls_run_config *config) {
  const ls_json *all = NULL, *object = NULL;
  const char *master = NULL, *eval_master = NULL;
  task t = {0};
  config->values.evaluation_master = "";
  config->values.cluster = &config->cluster;
  LS_RETURN_IF_ERROR(environment_read_all(config, &all));
  LS_RETURN_IF_ERROR(set_model_dir(config, all));
  LS_RETURN_IF_ERROR(find_object(all, "service", &object));
  LS_RETURN_IF_ERROR(find_text(all, "session_master", &master));
  LS_RETURN_IF_ERROR(find_text(all, "eval_session_master", &eval_master));
  LS_RETURN_IF_ERROR(read_task(all, &t));
  LS_RETURN_IF_ERROR(find_object(all, "cluster", &object));
  LS_RETURN_IF_ERROR(read_cluster(config, object));
  return config->cluster.num_jobs > 0
             ? join_cluster(config, &t, master, eval_master)
             : stand_alone(config, &t, master, eval_master);
}

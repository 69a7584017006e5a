// SPDX-License-Identifier: Apache-2.0
//
// Configurations of estimators: defaults, checks, and copies with changed
// fields.
#include "estimator/config/config.h"

#include "base/require.h"
#include "base/text.h"
#include "estimator/own.h"

// ---- The object ------------------------------------------------------------
static void run_config_destroy(ls_object *object) {
  ls_run_config *self = (ls_run_config *)object;
  ls_allocator *allocator = self->arena.allocator;
  ls_session_config_deinit(&self->session);
  ls_nest_release(self->tpu.input_partition_dims);
  ls_strategy_release(self->values.train_distribute);
  ls_strategy_release(self->values.eval_distribute);
  ls_tpu_resolver_release(self->values.resolver);
  ls_arena_deinit(&self->arena);
  ls_release(allocator, self);
}

static const ls_object_type type = {.name = "run configuration",
                                    .destroy = run_config_destroy};

static ls_status run_config_make(ls_runtime *runtime, ls_run_config **out) {
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_SET_ARRAY_OR_RETURN(allocator, ls_run_config, *out, 1);
  ls_object_init(&(*out)->object, &type);
  (*out)->runtime = runtime;
  ls_arena_init(&(*out)->arena, allocator);
  return ls_ok();
}

LS_COUNTED(ls_run_config)

const ls_run_values *ls_run_config_values(const ls_run_config *config) {
  return &config->values;
}

ls_status ls_run_config_text(ls_run_config *config, const char *text,
                             const char **out_text) {
  *out_text = text == NULL ? NULL : ls_arena_string(&config->arena, text);
  return text == NULL || *out_text != NULL ? ls_ok() : ls_out_of_memory();
}

// ---- Numbers ---------------------------------------------------------------
#define NUMBER(field, lowest)                                                  \
  {                                                                            \
    .name = #field, .given = offsetof(ls_run_config_options, field),           \
    .kept = offsetof(ls_run_values, field), .least = lowest                    \
  }
// A number that is given as an option and kept as a value.
static const struct number_field {
  const char *name;
  size_t given, kept;
  int64_t least;
} numbers[] = {
    NUMBER(random_seed, INT64_MIN),    NUMBER(save_summary_steps, 0),
    NUMBER(save_checkpoints_steps, 0), NUMBER(save_checkpoints_secs, 0),
    NUMBER(keep_checkpoint_max, 0),    NUMBER(keep_checkpoint_every_n_hours, 1),
    NUMBER(log_step_count_steps, 1),   NUMBER(session_creation_timeout_secs, 1),
};

// ---- Checks ----------------------------------------------------------------
static ls_status check_flags(const ls_run_config_options *o) {
  const struct {
    const char *field;
    ls_flag flag;
  } flags[] = {{"checkpoints", o->checkpoints},
               {"log_step_count", o->log_step_count},
               {"checkpoint_save_graph_def", o->checkpoint_save_graph_def}};
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i)
    if ((unsigned)flags[i].flag > LS_FLAG_OFF)
      return ls_invalid_argument("%s %d is no flag", flags[i].field,
                                 (int)flags[i].flag);
  return ls_ok();
}

static ls_status run_config_check(const ls_run_values *v) {
  if (v->save_checkpoints_steps.set && v->save_checkpoints_secs.set)
    return ls_invalid_argument(
        "save_checkpoints_steps and save_checkpoints_secs are both set: one "
        "can be");
  if (v->model_dir != NULL && v->model_dir[0] == '\0')
    return ls_invalid_argument("model_dir should be non-empty");
  for (size_t i = 0; i < LS_COUNT_OF(numbers); ++i) {
    const ls_opt number =
        *(const ls_opt *)(const void *)((const char *)v + numbers[i].kept);
    if (number.set && number.value < numbers[i].least)
      return ls_invalid_argument("%s should be %s, got %lld", numbers[i].name,
                                 numbers[i].least == 0 ? ">= 0" : "> 0",
                                 (long long)number.value);
  }
  if (v->protocol == NULL || strcmp(v->protocol, "grpc") == 0 ||
      strcmp(v->protocol, "grpc+verbs") == 0)
    return ls_ok();
  return ls_invalid_argument("protocol '%.80s' should be grpc or grpc+verbs",
                             v->protocol);
}

// ---- Defaults --------------------------------------------------------------
static ls_opt or_else(ls_opt given, int64_t otherwise) {
  return given.set ? given : (ls_opt){true, otherwise};
}

static ls_status set_session(ls_run_config *self,
                             const ls_session_config *config) {
  self->values.session_config = NULL;
  ls_session_config_deinit(&self->session);
  if (config == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_session_config_copy(config, &self->session));
  self->values.session_config = &self->session;
  return ls_ok();
}

static void set_strategy(ls_strategy **kept, ls_strategy *strategy) {
  ls_strategy *before = *kept;
  *kept = ls_object_retain(strategy);
  ls_strategy_release(before);
}

static ls_status run_config_take(ls_run_config *self,
                                 const ls_run_config_options *o) {
  ls_run_values *v = &self->values;
  LS_RETURN_IF_ERROR(check_flags(o));
  const bool given =
      o->save_checkpoints_steps.set || o->save_checkpoints_secs.set;
  if (given && o->checkpoints == LS_FLAG_OFF)
    return ls_invalid_argument(
        "checkpoints are off, and save_checkpoints_%s is set",
        o->save_checkpoints_steps.set ? "steps" : "secs");
  if (o->log_step_count_steps.set && o->log_step_count == LS_FLAG_OFF)
    return ls_invalid_argument(
        "log_step_count is off, and log_step_count_steps is set");
  v->random_seed = o->random_seed;
  v->save_summary_steps = or_else(o->save_summary_steps, 100);
  v->save_checkpoints_steps = o->save_checkpoints_steps;
  v->save_checkpoints_secs = given || o->checkpoints == LS_FLAG_OFF
                                 ? o->save_checkpoints_secs
                                 : (ls_opt){true, 600};
  v->keep_checkpoint_max = or_else(o->keep_checkpoint_max, 5);
  v->keep_checkpoint_every_n_hours =
      or_else(o->keep_checkpoint_every_n_hours, 10000);
  v->log_step_count_steps = o->log_step_count == LS_FLAG_OFF
                                ? (ls_opt){0}
                                : or_else(o->log_step_count_steps, 100);
  v->session_creation_timeout_secs =
      or_else(o->session_creation_timeout_secs, 7200);
  v->checkpoint_save_graph_def = o->checkpoint_save_graph_def != LS_FLAG_OFF;
  set_strategy(&v->train_distribute, o->train_distribute);
  set_strategy(&v->eval_distribute, o->eval_distribute);
  LS_RETURN_IF_ERROR(ls_run_config_text(self, o->model_dir, &v->model_dir));
  LS_RETURN_IF_ERROR(ls_run_config_text(self, o->protocol, &v->protocol));
  LS_RETURN_IF_ERROR(set_session(self, o->session_config));
  LS_RETURN_IF_ERROR(run_config_check(v));
  return ls_run_config_read_environment(self);
}

ls_status ls_run_config_create(const ls_run_config_options *options,
                               ls_run_config **out_config) {
  LS_REQUIRE_OUT(out_config);
  static const ls_run_config_options defaults;
  if (options == NULL) options = &defaults;
  if (options->tpu != NULL || options->resolver != NULL ||
      options->master != NULL || options->evaluation_master != NULL)
    return ls_invalid_argument(
        "tpu, resolver, master and evaluation_master are of runs on a TPU "
        "system (ls_tpu_run_config_create)");
  LS_OWN(ls_run_config, made) = NULL;
  LS_RETURN_IF_ERROR(run_config_make(ls_runtime_current(), &made));
  LS_RETURN_IF_ERROR(run_config_take(made, options));
  return ls_hand_over(&made, out_config);
}

// ---- TPU systems -----------------------------------------------------------
// Makes sessions use the system's cluster.
static ls_status join_system(ls_run_config *self, ls_tpu_resolver *resolver) {
  ls_run_values *v = &self->values;
  ls_master master;
  LS_RETURN_IF_ERROR(
      ls_tpu_resolver_master(resolver, NULL, (ls_opt){0}, &master));
  LS_RETURN_IF_ERROR(ls_run_config_text(self, master.text, &v->master));
  if (v->session_config == NULL)
    LS_RETURN_IF_ERROR(set_session(
        self, &(ls_session_config){.soft_placement = LS_FLAG_ON,
                                   .isolate_session_state = LS_FLAG_ON}));
  ls_cluster_spec *spec = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(resolver, &spec));
  if (spec->num_jobs > 0)
    self->session.cluster = spec;
  else
    ls_cluster_spec_destroy(spec);
  return ls_ok();
}

static ls_status set_masters(ls_run_config *self,
                             const ls_run_config_options *o) {
  ls_run_values *v = &self->values;
  if (o->master != NULL && o->resolver != NULL)
    return ls_invalid_argument("master and resolver are both given: the master "
                               "is that of the resolver's system");
  if (o->resolver != NULL && o->session_config != NULL &&
      o->session_config->cluster != NULL)
    return ls_invalid_argument("session_config has a cluster, and a resolver "
                               "is given, which has its own");
  if (o->resolver != NULL)
    LS_RETURN_IF_ERROR(join_system(self, o->resolver));
  else if (o->master != NULL)
    LS_RETURN_IF_ERROR(ls_run_config_text(self, o->master, &v->master));
  if (o->evaluation_master != NULL)
    return ls_run_config_text(self, o->evaluation_master,
                              &v->evaluation_master);
  if (v->evaluation_master[0] == '\0' && strcmp(v->task_type, "evaluator") != 0)
    v->evaluation_master = v->master;
  return ls_ok();
}

static ls_status take_tpu(ls_run_config *self, const ls_run_config_options *o) {
  LS_RETURN_IF_ERROR(run_config_take(self, o));
  LS_RETURN_IF_ERROR(ls_run_config_set_tpu(self, o->tpu));
  LS_RETURN_IF_ERROR(ls_run_config_find_job(self));
  LS_RETURN_IF_ERROR(set_masters(self, o));
  self->values.resolver = ls_object_retain(o->resolver);
  return ls_run_config_check_job(self);
}

ls_status ls_tpu_run_config_create(const ls_run_config_options *options,
                                   ls_run_config **out_config) {
  LS_REQUIRE_OUT(out_config);
  static const ls_run_config_options defaults;
  LS_OWN(ls_run_config, made) = NULL;
  LS_RETURN_IF_ERROR(run_config_make(ls_runtime_current(), &made));
  LS_RETURN_IF_ERROR(take_tpu(made, options != NULL ? options : &defaults));
  return ls_hand_over(&made, out_config);
}

// ---- Copies ----------------------------------------------------------------
static ls_status copy_cluster(ls_run_config *to, const ls_cluster_spec *from) {
  LS_ARENA_ARRAY_OR_RETURN(&to->arena, ls_cluster_job, jobs,
                           from->num_jobs + 1);
  for (size_t i = 0; i < from->num_jobs; ++i) {
    const ls_cluster_job *job = &from->jobs[i];
    LS_ARENA_ARRAY_OR_RETURN(&to->arena, const char *, addresses,
                             job->num_addresses + 1);
    LS_RETURN_IF_ERROR(ls_run_config_text(to, job->name, &jobs[i].name));
    for (size_t k = 0; k < job->num_addresses; ++k)
      LS_RETURN_IF_ERROR(
          ls_run_config_text(to, job->addresses[k], &addresses[k]));
    jobs[i].addresses = addresses;
    jobs[i].num_addresses = job->num_addresses;
  }
  to->cluster = (ls_cluster_spec){jobs, from->num_jobs};
  to->values.cluster = &to->cluster;
  return ls_ok();
}

static ls_status run_config_copy(const ls_run_config *from, ls_run_config *to) {
  const ls_run_values *v = &from->values;
  ls_run_values *out = &to->values;
  *out = *v;
  out->session_config = NULL;
  out->tpu = NULL;
  ls_object_retain(out->train_distribute);
  ls_object_retain(out->eval_distribute);
  ls_object_retain(out->resolver);
  const char **texts[] = {&out->model_dir, &out->protocol, &out->task_type,
                          &out->master, &out->evaluation_master};
  for (size_t i = 0; i < LS_COUNT_OF(texts); ++i)
    LS_RETURN_IF_ERROR(ls_run_config_text(to, *texts[i], texts[i]));
  LS_RETURN_IF_ERROR(set_session(to, v->session_config));
  LS_RETURN_IF_ERROR(copy_cluster(to, &from->cluster));
  return v->tpu != NULL ? ls_run_config_set_tpu(to, v->tpu) : ls_ok();
}

// ---- Replace ---------------------------------------------------------------
static const char tpu_field[] = "tpu_config";
static const char *const fields_of_all[] = {
    "model_dir",
    "random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "session_creation_timeout_secs",
    "checkpoint_save_graph_def",
    "protocol",
    "train_distribute",
    "eval_distribute",
};

static ls_status no_such_field(const ls_run_config *self, const char *field) {
  ls_text text = {.allocator = self->arena.allocator};
  for (size_t i = 0; i < LS_COUNT_OF(fields_of_all); ++i)
    ls_text_append_format(&text, "%s%s", i == 0 ? "" : ", ", fields_of_all[i]);
  if (self->values.tpu != NULL) ls_text_append_format(&text, ", %s", tpu_field);
  const ls_status status = ls_invalid_argument(
      "field '%.80s' of a run configuration cannot be replaced; allowed are %s",
      field, ls_text_data(&text));
  ls_text_deinit(&text);
  return status;
}

static ls_status replace_one(ls_run_config *self, const char *field,
                             const ls_run_config_options *o) {
  ls_run_values *v = &self->values;
  for (size_t i = 0; i < LS_COUNT_OF(numbers); ++i)
    if (strcmp(field, numbers[i].name) == 0) {
      const void *given = (const char *)o + numbers[i].given;
      void *kept = (char *)v + numbers[i].kept;
      *(ls_opt *)kept = *(const ls_opt *)given;
      return ls_ok();
    }
  if (strcmp(field, "model_dir") == 0)
    return ls_run_config_text(self, o->model_dir, &v->model_dir);
  if (strcmp(field, "protocol") == 0)
    return ls_run_config_text(self, o->protocol, &v->protocol);
  if (strcmp(field, "session_config") == 0)
    return set_session(self, o->session_config);
  if (strcmp(field, "train_distribute") == 0) {
    set_strategy(&v->train_distribute, o->train_distribute);
    return ls_ok();
  }
  if (strcmp(field, "eval_distribute") == 0) {
    set_strategy(&v->eval_distribute, o->eval_distribute);
    return ls_ok();
  }
  if (strcmp(field, "checkpoint_save_graph_def") == 0) {
    v->checkpoint_save_graph_def = o->checkpoint_save_graph_def != LS_FLAG_OFF;
    return ls_ok();
  }
  if (strcmp(field, tpu_field) != 0 || v->tpu == NULL)
    return no_such_field(self, field);
  LS_RETURN_IF_ERROR(ls_run_config_set_tpu(self, o->tpu));
  LS_RETURN_IF_ERROR(ls_run_config_find_job(self));
  return ls_run_config_check_job(self);
}

// A new save interval replaces the other kind of interval, unless both are
// given.
static ls_status replace_intervals(ls_run_config *self,
                                   const char *const *fields, size_t count) {
  ls_run_values *v = &self->values;
  bool steps = false, secs = false;
  for (size_t i = 0; i < count; ++i) {
    steps = steps || (strcmp(fields[i], "save_checkpoints_steps") == 0 &&
                      v->save_checkpoints_steps.set);
    secs = secs || (strcmp(fields[i], "save_checkpoints_secs") == 0 &&
                    v->save_checkpoints_secs.set);
  }
  if (steps && !secs) v->save_checkpoints_secs = (ls_opt){0};
  if (secs && !steps) v->save_checkpoints_steps = (ls_opt){0};
  return run_config_check(v);
}

ls_status ls_run_config_replace(const ls_run_config *config,
                                const char *const *fields, size_t num_fields,
                                const ls_run_config_options *values,
                                ls_run_config **out_config) {
  LS_REQUIRE_OUT(out_config, config);
  LS_REQUIRE_EACH(fields, num_fields);
  LS_REQUIRE(values);
  LS_OWN(ls_run_config, made) = NULL;
  LS_RETURN_IF_ERROR(check_flags(values));
  LS_RETURN_IF_ERROR(run_config_make(config->runtime, &made));
  LS_RETURN_IF_ERROR(run_config_copy(config, made));
  for (size_t i = 0; i < num_fields; ++i)
    LS_RETURN_IF_ERROR(replace_one(made, fields[i], values));
  LS_RETURN_IF_ERROR(replace_intervals(made, fields, num_fields));
  return ls_hand_over(&made, out_config);
}

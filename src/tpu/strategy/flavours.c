// SPDX-License-Identifier: Apache-2.0
//
// API variants of TPU strategies. They compute the same and differ in how they
// are made and in what they offer.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "tpu/pod/pod.h"
#include "tpu/strategy/strategy.h"

static const ls_tpu_flavour current = {
    .name = "TPU strategy", .version = "V2", .has_logical_devices = true};

static const ls_tpu_flavour experimental = {
    .name = "experimental TPU strategy",
    .version = "V2",
    .symbol = "ls_tpu_strategy_experimental_create",
    .instead = "ls_tpu_strategy_create"};

static const ls_tpu_flavour v1 = {.name = "V1 TPU strategy", .version = "V1"};

// ---- Create ----------------------------------------------------------------
static ls_status set_number(ls_runtime *runtime, const char *gauge,
                            int64_t number) {
  return ls_gauge_set(runtime, gauge, "", &(ls_gauge_value){.number = number});
}

// Publishes the kind of strategy in the runtime's gauges.
static ls_status publish_kind(const ls_strategy *strategy,
                              const ls_tpu_flavour *flavour) {
  ls_runtime *runtime = strategy->runtime;
  LS_RETURN_IF_ERROR(ls_gauge_set(runtime, "strategy", flavour->version,
                                  &(ls_gauge_value){.text = "TPUStrategy"}));
  LS_RETURN_IF_ERROR(
      set_number(runtime, "num_workers", ls_tpu_strategy_num_hosts(strategy)));
  return set_number(runtime, "num_replicas_per_worker",
                    ls_tpu_strategy_num_replicas_per_host(strategy));
}

static ls_status flavours_create(const ls_tpu_options *options,
                                 const ls_tpu_flavour *flavour,
                                 int64_t steps_per_run,
                                 ls_strategy **out_strategy) {
  static const ls_tpu_options defaults;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  if (flavour->symbol != NULL)
    ls_tpu_log(runtime, LS_LOG_WARNING, "%s is deprecated: use %s",
               flavour->symbol, flavour->instead);
  LS_OWN(ls_strategy, made) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_strategy_make(options != NULL ? options : &defaults,
                                          flavour, steps_per_run, &made));
  made->is_v1 = flavour == &v1;
  LS_RETURN_IF_ERROR(publish_kind(made, flavour));
  *out_strategy = ls_give(&made);
  return ls_ok();
}

ls_status ls_tpu_strategy_create(const ls_tpu_options *options,
                                 ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  return flavours_create(options, &current, 1, out_strategy);
}

ls_status ls_tpu_strategy_experimental_create(const ls_tpu_options *options,
                                              ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  return flavours_create(options, &experimental, 1, out_strategy);
}

ls_status ls_tpu_strategy_v1_create(const ls_tpu_v1_options *options,
                                    ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  static const ls_tpu_v1_options defaults;
  if (options == NULL) options = &defaults;
  const ls_opt steps = options->steps_per_run;
  if (steps.set && steps.value < 1)
    return ls_invalid_argument("a V1 TPU strategy of %lld steps per run: at "
                               "least 1 is needed",
                               (long long)steps.value);
  return flavours_create(&(ls_tpu_options){.name = options->name,
                                           .resolver = options->resolver,
                                           .assignment = options->assignment},
                         &v1, steps.set ? steps.value : 1, out_strategy);
}

// ---- Properties ------------------------------------------------------------
int64_t ls_tpu_strategy_steps_per_run(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL ? self->steps_per_run : 0;
}

bool ls_tpu_strategy_spmd(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self != NULL && self->spmd;
}

int32_t ls_tpu_strategy_local_replica_id(const ls_strategy *strategy,
                                         int32_t replica) {
  return ls_tpu_strategy_of(strategy) != NULL && replica >= 0 &&
                 replica < strategy->num_replicas
             ? replica
             : -1;
}

// ---- Session configurations ------------------------------------------------
ls_status ls_tpu_strategy_update_config(const ls_strategy *strategy,
                                        const ls_session_config *config,
                                        ls_session_config *out_config) {
  LS_REQUIRE_OUT(out_config);
  LS_REQUIRE(strategy);
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  if (self == NULL)
    return ls_invalid_argument("%s is no TPU strategy: it has no cluster",
                               strategy->label);
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(self->resolver, &spec));
  LS_RETURN_IF_ERROR(ls_session_config_copy(config, out_config));
  out_config->isolate_session_state = LS_FLAG_ON;
  if (spec->num_jobs > 0) {
    ls_cluster_spec_destroy(out_config->cluster);
    out_config->cluster = ls_give(&spec);
  }
  return ls_ok();
}

ls_status ls_tpu_strategy_configure(const ls_strategy *strategy,
                                    ls_session_config *config,
                                    const ls_cluster_spec *cluster,
                                    const char *task_type, ls_opt task_id) {
  (void)cluster;
  (void)task_type;
  (void)task_id;
  ls_session_config updated;
  if (config == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tpu_strategy_update_config(strategy, config, &updated));
  ls_session_config_deinit(config);
  *config = updated;
  return ls_ok();
}

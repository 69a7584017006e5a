// SPDX-License-Identifier: Apache-2.0
//
// Plans: all that follows for a mode from an estimator's configuration and its
// system. Each is resolved and checked once; what is built reads fields.
//
// Thread-compatible.
#ifndef LS_ESTIMATOR_CONFIG_PLAN_H_
#define LS_ESTIMATOR_CONFIG_PLAN_H_

#include "lockstep/estimator_functions.h"
#include "tpu/system/resolver.h"

// The options of an estimator that plans follow from. Zero in a field means its
// default.
typedef struct ls_estimator_facts {
  ls_run_config *config;             // Of a TPU run; retained.
  ls_opt batch_sizes[LS_NUM_MODES];  // Of all replicas together.
  ls_flag use_tpu, eval_on_tpu;      // Default on.
  // Any size of batch can be shared out: the last parts are padded.
  bool any_batch;
} ls_estimator_facts;

// The first core of a replica: its host, and its number there.
typedef struct ls_replica_core {
  int32_t host, ordinal;
} ls_replica_core;

// The system of one master.
typedef struct ls_plan_system {
  const char *master;
  const char *job;  // The one whose devices are named; NULL: none.
  ls_tpu_resolver *resolver;
  ls_tpu_metadata *metadata;  // NULL: one core is used, whatever there is.
  int64_t num_cores, num_hosts, cores_per_host;
  ls_device_assignment *assignment;  // NULL: replicas have one core.
  int64_t num_replicas, replicas_per_host;
  ls_replica_core *replicas;
} ls_plan_system;

// Asks the system of a master of the configuration and checks, in this
// order, job, cores, replicas, and that the configuration fits. `one_core`:
// asks nothing. Zeroes `system` on failure.
LS_MUST_USE ls_status ls_plan_system_init(ls_plan_system *system,
                                          const ls_run_values *config,
                                          const char *master, bool one_core);
void ls_plan_system_deinit(ls_plan_system *system);  // Zeroed is fine.

// How elements of the input come to replicas.
typedef enum ls_feed_way {
  LS_FEED_CORES,     // The input function is called for each core.
  LS_FEED_HOSTS,     // One of a host is cut over its replicas.
  LS_FEED_REPLICAS,  // Each replica gets one of its host's.
  LS_FEED_SLICES,    // One is cut over all replicas.
  LS_FEED_ALL,       // One is given to all.
  LS_NUM_FEED_WAYS,
} ls_feed_way;
typedef struct ls_estimator_input {
  ls_feed_way way;
  bool broadcast;    // One host feeds all: SLICES, or ALL.
  bool per_replica;  // Each is on several hosts, and is fed by the first.
  // Feeders: one for each host, for each replica or for all; and how many
  // replicas one feeds.
  int64_t num_feeders, replicas_per_feeder;
} ls_estimator_input;

typedef struct ls_plan {
  ls_runtime *runtime;
  const ls_run_values *config;
  ls_estimator_mode mode;
  bool exports;  // The model is built to be exported.
  bool on_cpu;
  bool any_batch;
  // Sizes for all replicas, for a call of the input function, for a replica.
  // Unset on a CPU where none was given.
  ls_opt batch_size, input_batch_size, model_batch_size;
  ls_estimator_input input;
  int64_t host_call_every;  // In steps; 1 but in trainings.
  ls_strategy *strategy;    // Trains or evaluates on CPUs; NULL: none does.
  const ls_plan_system *system;  // NULL: on a CPU.
} ls_plan;

// The plans of an estimator, for each mode and its exports.
typedef struct ls_plans ls_plans;
LS_MUST_USE ls_status ls_plans_create(const ls_estimator_facts *facts,
                                      ls_plans **out_plans);
void ls_plans_destroy(ls_plans *plans);  // NULL is fine.
// Gives the plan of a mode, lent for the life of `plans`. Each system is asked
// once, and again after a failure.
//   LS_FAILED_PRECONDITION  no mode; replicas do not divide the cores.
//   LS_INVALID_ARGUMENT     the configuration does not fit the system.
//   LS_NOT_FOUND            the system has no TPU.
LS_MUST_USE ls_status ls_plans_get(ls_plans *plans, ls_estimator_mode mode,
                                   bool exports, const ls_plan **out_plan);

// The name of a mode in messages and exports.
const char *ls_estimator_mode_name(ls_estimator_mode mode);
// Finds the job whose devices a configuration names, lent. NULL: none.
LS_MUST_USE ls_status ls_configured_job(const ls_run_values *config,
                                        const char *master,
                                        const char **out_job);

// ---- Of a plan for cores ---------------------------------------------------
static inline const ls_tpu_config *ls_plan_tpu(const ls_plan *plan) {
  return plan->config->tpu;
}
static inline bool ls_plan_is_model_parallel(const ls_plan *plan) {
  return plan->system->assignment != NULL;
}
// The device for a host's ops; without a job all hosts are one.
ls_device_name ls_plan_host(const ls_plan *plan, int64_t host);
// The host of a replica's first core.
ls_device_name ls_plan_replica_host(const ls_plan *plan, int64_t replica);
// The host of a feeder, and the replica that it feeds as its shard `shard`; -1:
// it has no more.
int64_t ls_plan_feeder_host(const ls_plan *plan, int64_t feeder);
int64_t ls_plan_fed_replica(const ls_plan *plan, int64_t feeder, int64_t shard);
// The pod; NULL: it is not there, or not of this process. The caller releases
// it.
ls_pod *ls_plan_pod(const ls_plan *plan);
// Marks what is made in the current graph, until the end of the block, as the
// plan's system's own.
#define LS_PLAN_SYSTEM_SCOPE(plan)                                             \
  ls_system_flow ls_plan_flow_;                                                \
  LS_SCOPE_(ls_system_scope_begin, &ls_plan_flow_, (plan)->system->resolver->id)

// ---- As users see it -------------------------------------------------------
// A call of an input function, or of a model function.
struct ls_user_context {
  ls_object object;
  const ls_plan *plan;
  bool is_input;
  // Fields of an input function.
  ls_device_name host;
  int64_t invocation;
};
// Makes a leaf of a copy of one.
ls_nest ls_user_context_leaf(const ls_user_context *like);

// ---- Systems of plans (plan_system.c) --------------------------------------
// Asks the system behind a master of the configuration and checks, in this
// order, job, cores, replicas, and that the configuration fits. `one_core`:
// asks nothing. Zeroes `system` on failure.
LS_MUST_USE ls_status ls_plan_system_init(ls_plan_system *system,
                                          const ls_run_values *config,
                                          const char *master, bool one_core);
void ls_plan_system_deinit(ls_plan_system *system);  // Zeroed is fine.

#endif  // LS_ESTIMATOR_CONFIG_PLAN_H_

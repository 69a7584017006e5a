// SPDX-License-Identifier: Apache-2.0
//
// Plans: all settings of a mode that follow from an estimator's configuration
// and its system. A plan is resolved and checked once; the code that builds
// graphs only reads it.
//
// Thread-compatible.
#ifndef LS_ESTIMATOR_CONFIG_PLAN_H_
#define LS_ESTIMATOR_CONFIG_PLAN_H_

#include "lockstep/communicator.h"
#include "lockstep/estimator_functions.h"
#include "tpu/system/resolver.h"

// The options of an estimator on which plans depend. A zero field has its
// default.
typedef struct ls_estimator_facts {
  ls_run_config *config;  // Configuration of a TPU run; holds a reference.
  ls_opt batch_sizes[LS_NUM_MODES];  // For all replicas together, by mode.
  ls_flag use_tpu, eval_on_tpu;      // On by default.
  // True to accept any batch size, or so in all modes but trainings; shorter
  // shares are padded.
  bool any_batch, any_use_batch;
} ls_estimator_facts;

// The first core of a replica: its host, and its ordinal on the host.
typedef struct ls_replica_core {
  int32_t host, ordinal;
} ls_replica_core;

// The system that a master names.
typedef struct ls_plan_system {
  ls_allocator *allocator;
  const char *master;
  const char *job;  // Job in device names; NULL: none.
  ls_tpu_resolver *resolver;
  ls_tpu_metadata *metadata;  // NULL: one core, without a query of the system.
  int64_t num_cores, num_hosts, cores_per_host;
  ls_device_assignment *assignment;  // NULL: replicas have one core.
  int64_t num_replicas, replicas_per_host;
  ls_replica_core *replicas;
} ls_plan_system;

// Queries the system of one of the configuration's masters and checks, in this
// order, its job, cores and replicas, and that the configuration fits it.
// `one_core`: the system is not queried and has one core. Zeroes `system` on
// failure.
LS_MUST_USE ls_status ls_plan_system_init(ls_plan_system *system,
                                          const ls_run_values *config,
                                          const char *master, bool one_core);
void ls_plan_system_deinit(ls_plan_system *system);  // May be zeroed.

// How elements of the input reach the replicas.
typedef enum ls_feed_way {
  LS_FEED_CORES,     // The input function is called for each core.
  LS_FEED_HOSTS,     // An element is cut over the replicas of its host.
  LS_FEED_REPLICAS,  // Each replica gets an element of its host.
  LS_FEED_SLICES,    // An element is cut over all replicas.
  LS_FEED_ALL,       // An element is given to all replicas.
  LS_NUM_FEED_WAYS,
} ls_feed_way;
typedef struct ls_estimator_input {
  ls_feed_way way;
  bool broadcast;    // One host feeds all replicas: SLICES or ALL.
  bool per_replica;  // Replicas lie across hosts; the first one feeds each.
  // Number of feeders: one per host, one per replica, or one for all. Then the
  // number of replicas that each feeder feeds.
  int64_t num_feeders, replicas_per_feeder;
} ls_estimator_input;

typedef struct ls_plan {
  ls_runtime *runtime;
  const ls_run_values *config;
  ls_estimator_mode mode;
  bool exports;  // The model is built for an export.
  bool on_cpu;
  bool any_batch;
  // Batch sizes: of all replicas together, of a call of the input function, and
  // of a replica. Unset on a CPU if no batch size was given.
  ls_opt batch_size, input_batch_size, model_batch_size;
  ls_estimator_input input;
  int64_t host_call_every;  // Steps between host calls; 1 except in trainings.
  // Strategy for training or evaluating on CPUs, or NULL.
  ls_strategy *strategy;
  const ls_plan_system *system;  // NULL: the mode runs on a CPU.
} ls_plan;

// The plans of an estimator, for each mode and its exports.
typedef struct ls_plans ls_plans;
LS_MUST_USE ls_status ls_plans_create(const ls_estimator_facts *facts,
                                      ls_plans **out_plans);
void ls_plans_destroy(ls_plans *plans);  // NULL is allowed.
// Returns the plan of a mode, borrowed from `plans`. Each system is queried
// once, and again after a failure.
//   LS_FAILED_PRECONDITION  no such mode; replicas do not divide the cores
//   LS_INVALID_ARGUMENT     the configuration does not fit the system
//   LS_NOT_FOUND            the system has no TPU
LS_MUST_USE ls_status ls_plans_get(ls_plans *plans, ls_estimator_mode mode,
                                   bool exports, const ls_plan **out_plan);

// Returns the name of a mode in messages and exports.
const char *ls_estimator_mode_name(ls_estimator_mode mode);
// Finds the job in device names for a configuration, borrowed; NULL: none.
LS_MUST_USE ls_status ls_configured_job(const ls_run_values *config,
                                        const char *master,
                                        const char **out_job);

// ---- Plans for cores -------------------------------------------------------
static inline const ls_tpu_config *ls_plan_tpu(const ls_plan *plan) {
  return plan->config->tpu;
}
static inline bool ls_plan_is_model_parallel(const ls_plan *plan) {
  return plan->system->assignment != NULL;
}
// Returns the device of ops on a host; without a job, all hosts have the same
// device.
ls_device_name ls_plan_host(const ls_plan *plan, int64_t host);
// Returns the host of a replica's first core.
ls_device_name ls_plan_replica_host(const ls_plan *plan, int64_t replica);
// Returns the host of a feeder. The second function returns the replica that a
// feeder feeds as shard `shard`, or -1.
int64_t ls_plan_feeder_host(const ls_plan *plan, int64_t feeder);
int64_t ls_plan_fed_replica(const ls_plan *plan, int64_t feeder, int64_t shard);
// Returns the plan's pod; NULL if it does not exist or is outside this process.
// The caller releases it.
ls_pod *ls_plan_pod(const ls_plan *plan);
// Makes the plan's system the current one until the end of the block.
#define LS_PLAN_SYSTEM_SCOPE(plan)                                             \
  ls_system_flow ls_plan_flow_;                                                \
  LS_SCOPE_(ls_system_scope_begin, &ls_plan_flow_, (plan)->system->resolver->id)

// ---- Ranks (plan_system.c) --------------------------------------------------
// Host h of H is on rank h P / H of P, rounded down, which alone draws the
// input of its feeders. Rank 0, with the first host, takes what the cores send
// to hosts. Functions that return true for "this rank" do so in a process that
// is alone.

// Returns the communicator if ranks share the replicas; NULL: this process has
// all of them.
ls_communicator *ls_plan_ranks(const ls_plan *plan);
// Returns the rank that runs the input of a feeder, that of a replica's feeder,
// and the rank that runs a replica; 0 in a process that is alone.
int32_t ls_plan_feeder_rank(const ls_plan *plan, int64_t feeder);
int32_t ls_plan_fed_from(const ls_plan *plan, int64_t replica);
int32_t ls_plan_replica_rank(const ls_plan *plan, int64_t replica);
int32_t ls_plan_rank(const ls_plan *plan);  // This one.
// Returns true if this rank writes files and runs the functions of hosts.
bool ls_plan_leads(const ls_plan *plan);
// Checks that a job of the plan's mode can run on the ranks of the runtime.
//   LS_UNIMPLEMENTED     only trainings and evaluations on cores can, with one
//                        core for each replica.
//   LS_INVALID_ARGUMENT  there are fewer replicas than ranks.
LS_MUST_USE ls_status ls_plan_check_ranks(const ls_plan *plan);

// ---- User contexts ---------------------------------------------------------
// The context of a call of an input or model function.
struct ls_user_context {
  ls_object object;
  ls_allocator *allocator;  // Set in leaves.
  const ls_plan *plan;
  bool is_input;
  // Fields for input functions.
  ls_device_name host;
  int64_t invocation;
};
// Makes a nest leaf with a copy of a context.
ls_nest ls_user_context_leaf(const ls_user_context *like);

#endif  // LS_ESTIMATOR_CONFIG_PLAN_H_

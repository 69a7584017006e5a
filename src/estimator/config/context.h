// SPDX-License-Identifier: Apache-2.0
//
// What an estimator's parts ask while they build: sizes of batches, how many
// shards, hosts and cores, and where things are.
//
// A context is a value: a mode, and what all modes share, which its first owner
// has and which is filled as it is asked for.
//
// Thread-compatible.
#ifndef LS_ESTIMATOR_CONFIG_CONTEXT_H_
#define LS_ESTIMATOR_CONFIG_CONTEXT_H_

#include "base/runtime_internal.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/object.h"

// What an estimator is made with. Zero in a field means its default.
typedef struct ls_estimator_facts {
  ls_run_config *config;  // Of a TPU run; retained.
  ls_opt train_batch_size, eval_batch_size, predict_batch_size;
  ls_flag use_tpu, eval_on_tpu;  // Default on.
  // Any size of batch can be shared out: the last parts are padded.
  bool any_batch;
} ls_estimator_facts;

typedef struct ls_estimator_systems ls_estimator_systems;
typedef struct ls_estimator_context {
  ls_estimator_systems *systems;  // Of the first owner.
  ls_estimator_mode mode;
  bool exports;  // What is built is to be exported.
} ls_estimator_context;

// Without a mode. The owner deinits it when no copy is used any more.
LS_MUST_USE ls_status ls_estimator_context_init(
    const ls_estimator_facts *facts, ls_estimator_context *out_context);
void ls_estimator_context_deinit(ls_estimator_context *context);
// The same, in a mode.
ls_estimator_context ls_estimator_with_mode(ls_estimator_context context,
                                            ls_estimator_mode mode,
                                            bool exports);
// As messages and exports call it.
const char *ls_estimator_mode_name(ls_estimator_mode mode);

// All that follows refuses a context without a mode (FAILED_PRECONDITION), and
// passes on what asking the system says.

// Lent. One core: metadata of a system of one.
LS_MUST_USE ls_status ls_estimator_metadata(
    ls_estimator_context context, const ls_tpu_metadata **out_metadata);
// That of a mode: the evaluation's has its own. Lent.
LS_MUST_USE ls_status ls_estimator_master(ls_estimator_context context,
                                          const char **out_master);
// Needs no mode.
bool ls_estimator_is_model_parallel(ls_estimator_context context);
// Lent; NULL: replicas have one core.
LS_MUST_USE ls_status ls_estimator_assignment(
    ls_estimator_context context, ls_device_assignment **out_assignment);

//   LS_INVALID_ARGUMENT     a replica has more cores than there are.
//   LS_FAILED_PRECONDITION  they do not divide: names both.
LS_MUST_USE ls_status ls_estimator_num_replicas(ls_estimator_context context,
                                                int64_t *out_count);
LS_MUST_USE ls_status ls_estimator_replicas_per_host(
    ls_estimator_context context, int64_t *out_count);
LS_MUST_USE ls_status ls_estimator_num_hosts(ls_estimator_context context,
                                             int64_t *out_count);

// How input is fed.
typedef struct ls_estimator_input {
  bool per_core, per_host_v2, broadcast, sliced, replica_across_hosts;
} ls_estimator_input;
LS_MUST_USE ls_status ls_estimator_input_of(ls_estimator_context context,
                                            ls_estimator_input *out_input);

// Whether it runs on CPUs. Where it does not, what the configuration says is
// checked, once for each mode.
LS_MUST_USE ls_status ls_estimator_runs_on_cpu(ls_estimator_context context,
                                               bool *out_is_cpu);

// Not set: no batch size was given, on a CPU.
LS_MUST_USE ls_status
ls_estimator_input_batch_size(ls_estimator_context context, ls_opt *out_size);
LS_MUST_USE ls_status
ls_estimator_model_batch_size(ls_estimator_context context, ls_opt *out_size);

// The job on whose devices things are, lent; NULL: none.
LS_MUST_USE ls_status ls_estimator_job(ls_estimator_context context,
                                       const char **out_job);
// Where a host's ops go: of a host, or of a replica; with neither set host 0.
//   LS_FAILED_PRECONDITION  both are set.
LS_MUST_USE ls_status ls_estimator_place_host(ls_estimator_context context,
                                              ls_opt host, ls_opt replica,
                                              ls_device_name *out_name);
LS_MUST_USE ls_status ls_estimator_place_core(ls_estimator_context context,
                                              int64_t core,
                                              ls_device_name *out_name);
// The number on its host of the core that shard `shard` of a host is for.
LS_MUST_USE ls_status ls_estimator_ordinal(ls_estimator_context context,
                                           int64_t host, int64_t shard,
                                           int64_t *out_ordinal);
// The host's device and a replica's number there.
LS_MUST_USE ls_status
ls_estimator_device_for_replica(ls_estimator_context context, int64_t replica,
                                ls_device_name *out_host, int64_t *out_ordinal);

// ---- As users see it -------------------------------------------------------
// A call of an input function, or of a model function.
struct ls_user_context {
  ls_object object;
  ls_estimator_context context;
  bool is_input;
  // Of an input function.
  ls_device_name host;
  int64_t invocation;
};
// One of these, copied, as a leaf.
ls_nest ls_user_context_leaf(const ls_user_context *like);

#endif  // LS_ESTIMATOR_CONFIG_CONTEXT_H_

// SPDX-License-Identifier: Apache-2.0
#include "tpu/strategy.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "tpu/pod.h"

// ---- Where its replicas are -------------------------------------------------
static ls_status place_by_assignment(ls_strategy *strategy,
                                     const ls_device_assignment *assignment) {
  for (int32_t r = 0; r < strategy->num_replicas; ++r) {
    ls_device_name name;
    LS_RETURN_IF_ERROR(
        ls_device_assignment_device(assignment, r, 0, NULL, &name));
    LS_RETURN_IF_ERROR(ls_strategy_place(strategy, r, name.text));
  }
  return ls_ok();
}

static ls_status place_on_pod(ls_strategy *strategy, const ls_pod *pod) {
  for (int32_t r = 0; r < strategy->num_replicas; ++r) {
    ls_device_name name;
    ls_core_device(&pod->cores[r], &name);
    LS_RETURN_IF_ERROR(ls_strategy_place(strategy, r, name.text));
  }
  return ls_ok();
}

// Cores of a pod compute, unlike other devices that are no CPUs.
static ls_status place(ls_strategy *strategy, const ls_tpu_options *options,
                       const ls_pod *pod) {
  LS_RETURN_IF_ERROR(options->assignment != NULL
                         ? place_by_assignment(strategy, options->assignment)
                         : place_on_pod(strategy, pod));
  strategy->no_cpu = NULL;
  return ls_strategy_set_label(strategy, options->name);
}

ls_status ls_tpu_strategy_create(const ls_tpu_options *options,
                                 ls_strategy **out_strategy) {
  static const ls_tpu_options defaults;
  LS_REQUIRE(out_strategy);
  *out_strategy = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  if (options == NULL) options = &defaults;
  const ls_pod *pod =
      options->assignment == NULL ? ls_pod_of_job(runtime, "") : NULL;
  if (options->assignment == NULL && pod == NULL)
    return ls_not_found("a TPU strategy without an assignment: there is no TPU "
                        "in the local system");
  const int32_t replicas =
      pod != NULL ? ls_pod_num_cores(pod)
                  : ls_device_assignment_num_replicas(options->assignment);
  if (replicas < 1 || replicas > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "a TPU strategy of %d replicas: 1 to %d are possible", replicas,
        LS_MAX_REPLICAS);
  ls_strategy *strategy = NULL;
  LS_RETURN_IF_ERROR(
      ls_strategy_make(&ls_tpu_strategy_class, runtime, replicas, &strategy));
  ls_status status = place(strategy, options, pod);
  if (ls_status_is_ok(status))
    status = ls_strategy_set_cross_device(strategy, NULL);
  if (ls_status_is_ok(status))
    *out_strategy = strategy;
  else
    ls_strategy_release(strategy);
  return status;
}

// ---- Its class -------------------------------------------------------------
const ls_strategy_class ls_tpu_strategy_class = {
    .name = "TPU strategy",
    .size = sizeof(ls_tpu_strategy),
    .distributes = true,
    .classes = &ls_mirrored_classes,
    .policies = &ls_mirrored_policies,
    .run = ls_tpu_class_run,
    .reduce = ls_mirrored_reduce,
    .reduce_to = ls_mirrored_reduce_to,
    .batch_reduce_to = ls_mirrored_batch_reduce_to,
    .broadcast_to = ls_mirrored_broadcast_to,
    .gather = ls_mirrored_gather,
    .fetch = ls_mirrored_fetch,
    .update = ls_mirrored_update,
    .update_non_slot = ls_mirrored_update_non_slot,
    .map = ls_mirrored_map,
    .create_variable = ls_mirrored_create_variable,
    .distribute = ls_mirrored_distribute,
    .non_slot_devices = ls_mirrored_non_slot_devices,
};

// SPDX-License-Identifier: Apache-2.0
//
// Mirrored strategies: one replica on each of several devices of a machine.
#include <stdio.h>
#include <stdlib.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/strategy_extended.h"

// ---- Place the replicas -----------------------------------------------------
// The devices that were requested: names, or a type and a number.
typedef struct placement {
  const char *const *names;
  const char *type;
  long long count;
} placement;

// Chooses the devices; without options, all devices of the machine.
static ls_status mirrored_choose(const ls_runtime *runtime,
                                 const ls_mirrored_options *options,
                                 placement *out) {
  const int gpus = ls_runtime_gpus(runtime);
  *out = (placement){.type = gpus > 0 ? "GPU" : "CPU",
                     .count = gpus > 0 ? gpus : ls_runtime_cpus(runtime)};
  if (options == NULL) return ls_ok();
  const bool listed = options->devices != NULL;
  if (listed && options->num_gpus.set)
    return ls_invalid_argument("a mirrored strategy is given both devices and "
                               "num_gpus");
  if (options->num_replicas.set && (listed || options->num_gpus.set))
    return ls_invalid_argument("a mirrored strategy is given both num_replicas "
                               "and %s",
                               listed ? "devices" : "num_gpus");
  if (listed) {
    *out = (placement){.names = options->devices,
                       .count = (long long)options->num_devices};
    if (options->num_devices == 0)
      return ls_invalid_argument("a mirrored strategy on an empty list of "
                                 "devices: at least one device must be given");
  } else if (options->num_gpus.set) {
    *out = (placement){.type = "GPU", .count = options->num_gpus.value};
    if (out->count == 0)
      return ls_invalid_argument("a mirrored strategy with num_gpus 0: at "
                                 "least one device must be given");
  } else if (options->num_replicas.set) {
    *out = (placement){.type = "CPU", .count = options->num_replicas.value};
  }
  if (out->count < 1 || out->count > LS_MAX_REPLICAS)
    return ls_invalid_argument(
        "a mirrored strategy of %lld replicas: 1 to %d are possible",
        out->count, LS_MAX_REPLICAS);
  return ls_ok();
}

static void mirrored_list_devices(const ls_strategy *strategy, char *text,
                                  size_t size) {
  size_t at = 0;
  for (int32_t i = 0; i < strategy->num_replicas && at < size; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ", ",
                           ls_strategy_device(strategy, i));
}

static int compare_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ls_status check_unique(const ls_strategy *strategy) {
  const size_t count = (size_t)strategy->num_replicas;
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, const char *, sorted, count);
  memcpy(sorted, ls_strategy_devices(strategy), count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), compare_text);
  for (size_t i = 1; i < count; ++i) {
    if (strcmp(sorted[i - 1], sorted[i]) != 0) continue;
    char all[600];
    mirrored_list_devices(strategy, all, sizeof(all));
    return ls_invalid_argument("devices names '%s' twice: %s", sorted[i], all);
  }
  return ls_ok();
}

static size_t worker_length(const char *device) {
  const char *end = strstr(device, "/device:");
  return end == NULL ? strlen(device) : (size_t)(end - device);
}

static bool is_local(const char *device) {
  return strncmp(device, "/job:localhost/", 15) == 0;
}

// Checks that all devices are on one worker; several workers need several
// processes.
static ls_status check_workers(const ls_strategy *strategy,
                               const placement *place) {
  const char *first = ls_strategy_device(strategy, 0);
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    const char *device = ls_strategy_device(strategy, i);
    if (is_local(device) != is_local(first))
      return ls_invalid_argument("devices of this machine (job localhost) are "
                                 "mixed with '%s' and '%s'",
                                 first, device);
    if (!is_local(device) && place->names != NULL &&
        strstr(place->names[i], "/task:") == NULL)
      return ls_invalid_argument("device '%s' is of another job and names no "
                                 "task",
                                 place->names[i]);
    const size_t length = worker_length(device);
    if (length == worker_length(first) && strncmp(device, first, length) == 0)
      continue;
    const ls_graph *graph = ls_graph_current();
    return graph != NULL && ls_graph_is_eager(graph)
               ? ls_failed_precondition("a mirrored strategy on devices of "
                                        "several workers does not work in "
                                        "eager mode")
               : ls_unimplemented("in-graph multi-worker: a mirrored strategy "
                                  "on '%s' and '%s'",
                                  first, device);
  }
  return ls_ok();
}

static ls_status set_devices(ls_strategy *strategy, const placement *place) {
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    char text[64];
    snprintf(text, sizeof(text), "/device:%s:%d",
             place->type != NULL ? place->type : "", i);
    LS_RETURN_IF_ERROR(ls_strategy_place(
        strategy, i, place->names != NULL ? place->names[i] : text));
  }
  LS_RETURN_IF_ERROR(check_unique(strategy));
  return check_workers(strategy, place);
}

// Sets the options other than devices.
static ls_status set_options(ls_strategy *strategy,
                             const ls_mirrored_options *options) {
  strategy->prefetch = options->prefetch;
  strategy->uses_policies = options->variable_policies == LS_FLAG_ON;
  const char *prefix = options->scope_prefix;
  if (prefix == NULL) return ls_ok();
  const size_t length = strlen(prefix);
  if (length == 0 || length > 100 || strchr(prefix, '/') != NULL)
    return ls_invalid_argument("scope_prefix '%.120s' is no part of a name: "
                               "1 to 100 characters without '/'",
                               prefix);
  strategy->scope_prefix = ls_copy_text(strategy->allocator, prefix, length);
  return strategy->scope_prefix != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_mirrored_strategy_create(const ls_mirrored_options *options,
                                      ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  if (options != NULL) LS_REQUIRE_EACH(options->devices, options->num_devices);
  placement place;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(mirrored_choose(runtime, options, &place));
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_strategy_make(&ls_mirrored_strategy_class, runtime,
                                      (int32_t)place.count, &strategy));
  LS_RETURN_IF_ERROR(set_devices(strategy, &place));
  LS_RETURN_IF_ERROR(
      ls_strategy_set_label(strategy, options != NULL ? options->name : NULL));
  LS_RETURN_IF_ERROR(ls_strategy_set_cross_device(
      strategy, options != NULL ? options->cross_device : NULL));
  if (options != NULL) LS_RETURN_IF_ERROR(set_options(strategy, options));
  *out_strategy = ls_give(&strategy);
  return ls_ok();
}

ls_status ls_one_device_strategy_create(const char *device,
                                        ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  LS_REQUIRE(device);
  return ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = &device, .num_devices = 1},
      out_strategy);
}

// ---- Its class -------------------------------------------------------------
const ls_strategy_class ls_mirrored_strategy_class = {
    .name = "mirrored strategy",
    .size = sizeof(ls_strategy),
    .distributes = true,
    .classes = &ls_mirrored_classes,
    .policies = &ls_mirrored_policies,
    .run = ls_mirrored_run,
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
    .distribute = ls_input_distribute,
    .value_container = ls_value_container,
    .non_slot_devices = ls_mirrored_non_slot_devices,
};

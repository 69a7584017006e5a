// SPDX-License-Identifier: Apache-2.0
// Resolvers: their options, checked and completed.
#include "tpu/system/resolver.h"

#include <stdio.h>

#include "base/require.h"
#include "io/json.h"
#include "lockstep/runtime_settings.h"
#include "net/address.h"
#include "tpu/own.h"

enum { DEVICE_RETRIES = 120, METADATA_RETRIES = 288, RETRY_MS = 1000 };
static const char local_shape[] = "2x2";

static void destroy_resolver(ls_object *object) {
  ls_tpu_resolver *resolver = (ls_tpu_resolver *)object;
  ls_allocator *allocator = resolver->arena.allocator;
  ls_topology_release(resolver->topology);
  ls_object_release(resolver->id);
  ls_mutex_deinit(&resolver->lock);
  ls_arena_deinit(&resolver->arena);
  ls_release(allocator, resolver);
}

static void print_resolver(const ls_object *object, char *buffer, size_t size) {
  snprintf(buffer, size, "TPU resolver '%s'",
           ((const ls_tpu_resolver *)object)->name);
}

static const ls_object_type resolver_type = {.name = "TPU resolver",
                                             .destroy = destroy_resolver,
                                             .print = print_resolver};

// ---- Name ------------------------------------------------------------------
static bool resolver_is_given(const char *text) {
  return text != NULL && text[0] != '\0';
}

static ls_status resolver_keep(ls_arena *arena, const char **text) {
  if (*text == NULL) return ls_ok();
  *text = ls_arena_string(arena, *text);
  return *text != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status given_name(const ls_tpu_resolver_options *options,
                            const char **out_name) {
  *out_name = options->name;
  if (options->names == NULL)
    return options->num_names == 0
               ? ls_ok()
               : ls_invalid_argument("names is NULL, with %zu names",
                                     options->num_names);
  if (resolver_is_given(options->name))
    return ls_invalid_argument(
        "a TPU resolver is given both name '%s' and a list of names",
        options->name);
  if (options->num_names == 0)
    return ls_invalid_argument(
        "a TPU resolver with an empty list of names: at least one is needed");
  if (options->num_names > 1)
    return ls_unimplemented(
        "a TPU resolver of %zu names: only one system, '%s', can be used",
        options->num_names, options->names[0] != NULL ? options->names[0] : "");
  *out_name = options->names[0];
  return ls_ok();
}

static ls_status config_text(const ls_json *config, const char *key,
                             const char **out_text) {
  const ls_json *member = ls_json_find(config, key);
  if (member == NULL || member->kind == LS_JSON_NULL) return ls_ok();
  if (member->kind != LS_JSON_STRING)
    return ls_invalid_argument("TPU_CONFIG: %s is no string", key);
  if (!resolver_is_given(*out_text)) *out_text = member->string;
  return ls_ok();
}

// Reads {"tpu_node_name": ..., "project": ..., "zone": ...}.
static ls_status read_config(ls_tpu_resolver *resolver, const char *text) {
  const ls_json *config = NULL;
  LS_RETURN_IF_ERROR(ls_json_parse(&resolver->arena, "TPU_CONFIG", text,
                                   strlen(text), &config));
  if (config->kind != LS_JSON_OBJECT)
    return ls_invalid_argument("TPU_CONFIG is no JSON object: it may have "
                               "tpu_node_name, project and zone");
  LS_RETURN_IF_ERROR(config_text(config, "tpu_node_name", &resolver->name));
  LS_RETURN_IF_ERROR(config_text(config, "project", &resolver->project));
  return config_text(config, "zone", &resolver->zone);
}

static ls_status resolver_find_name(ls_tpu_resolver *resolver) {
  static const char *const variables[] = {"KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS",
                                          "TPU_NAME"};
  LS_RETURN_IF_ERROR(given_name(&resolver->options, &resolver->name));
  for (size_t i = 0;
       i < LS_COUNT_OF(variables) && !resolver_is_given(resolver->name); ++i)
    resolver->name = ls_runtime_environment(resolver->runtime, variables[i]);
  const char *config = ls_runtime_environment(resolver->runtime, "TPU_CONFIG");
  if (!resolver_is_given(resolver->name) && resolver_is_given(config))
    LS_RETURN_IF_ERROR(read_config(resolver, config));
  if (resolver->name == NULL) resolver->name = "";
  return ls_ok();
}

static ls_status read_name(ls_tpu_resolver *resolver) {
  static const char virtual_prefix[] = "virtual:", address_prefix[] = "grpc://";
  const char *name = resolver->name;
  if (strncmp(name, virtual_prefix, strlen(virtual_prefix)) == 0) {
    resolver->kind = LS_TPU_VIRTUAL;
    return ls_pod_shape_parse(name, name + strlen(virtual_prefix),
                              &resolver->shape);
  }
  if (strncmp(name, address_prefix, strlen(address_prefix)) == 0) {
    const char *const *addresses = NULL;
    size_t count = 0;
    resolver->kind = LS_TPU_ADDRESSES;
    return ls_tpu_split_addresses(&resolver->arena, name, &addresses, &count);
  }
  resolver->kind = LS_TPU_NAMED;
  if (name[0] != '\0' && strcmp(name, "local") != 0) return ls_ok();
  resolver->kind = LS_TPU_LOCAL;
  const char *shape = resolver->options.local;
  if (!resolver_is_given(shape))
    shape = ls_runtime_environment(resolver->runtime, "LS_LOCAL_POD");
  resolver->of_devices =
      !resolver_is_given(shape) &&
      strcmp(ls_runtime_device(resolver->runtime), "cpu") != 0;
  if (resolver->of_devices) return ls_ok();
  shape = ls_arena_string(&resolver->arena,
                          resolver_is_given(shape) ? shape : local_shape);
  return shape != NULL ? ls_pod_shape_parse("local", shape, &resolver->shape)
                       : ls_out_of_memory();
}

// ---- Making ----------------------------------------------------------------
static ls_status set_coordinator(ls_tpu_resolver *resolver) {
  resolver->coordinator = resolver->options.coordinator;
  resolver->coordinator_address = resolver->options.coordinator_address;
  if (resolver_is_given(resolver->coordinator_address)) {
    if (!resolver_is_given(resolver->coordinator))
      resolver->coordinator = "coordinator";
    return ls_ok();
  }
  resolver->coordinator_address = NULL;
  if (!resolver_is_given(resolver->coordinator) || ls_tpu_is_pod(resolver))
    return ls_ok();
  char address[LS_FREE_ADDRESS];
  LS_RETURN_IF_ERROR(ls_net_free_address(address));
  resolver->coordinator_address = ls_arena_string(&resolver->arena, address);
  return resolver->coordinator_address != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status check_numbers(const ls_tpu_resolver_options *options) {
  const ls_opt numbers[] = {options->device_retries, options->metadata_retries,
                            options->retry_ms};
  for (size_t i = 0; i < LS_COUNT_OF(numbers); ++i)
    if (numbers[i].set &&
        (numbers[i].value < 0 || numbers[i].value > INT32_MAX))
      return ls_invalid_argument(
          "a TPU resolver with %s %lld: 0 to %d are possible",
          i == 2 ? "retry_ms" : "retries", numbers[i].value, INT32_MAX);
  if (options->queue_depth < 0)
    return ls_invalid_argument("a TPU resolver with queues of %d tuples",
                               options->queue_depth);
  if (options->core_bytes < 0)
    return ls_invalid_argument("a TPU resolver with cores of %lld bytes",
                               (long long)options->core_bytes);
  return ls_ok();
}

static ls_status init_resolver(ls_tpu_resolver *resolver) {
  ls_tpu_resolver_options *options = &resolver->options;
  LS_RETURN_IF_ERROR(check_numbers(options));
  if (!options->device_retries.set)
    options->device_retries = LS_SOME(DEVICE_RETRIES);
  if (!options->metadata_retries.set)
    options->metadata_retries = LS_SOME(METADATA_RETRIES);
  if (!options->retry_ms.set) options->retry_ms = LS_SOME(RETRY_MS);
  resolver->zone = options->zone;
  resolver->project = options->project;
  resolver->job = resolver_is_given(options->job) ? options->job : "worker";
  LS_RETURN_IF_ERROR(ls_mutex_init(&resolver->lock));
  LS_RETURN_IF_ERROR(resolver_find_name(resolver));
  LS_RETURN_IF_ERROR(resolver_keep(&resolver->arena, &resolver->name));
  LS_RETURN_IF_ERROR(read_name(resolver));
  LS_RETURN_IF_ERROR(set_coordinator(resolver));
  resolver->shape.queue_depth = options->queue_depth;
  resolver->shape.core_bytes = options->core_bytes;
  const char **texts[] = {&resolver->zone, &resolver->project, &resolver->job,
                          &resolver->coordinator,
                          &resolver->coordinator_address};
  for (size_t i = 0; i < LS_COUNT_OF(texts); ++i)
    LS_RETURN_IF_ERROR(resolver_keep(&resolver->arena, texts[i]));
  resolver->task_type = resolver->job;
  LS_RETURN_IF_ERROR(
      ls_system_id_create(resolver->arena.allocator, ls_tpu_pod_name(resolver),
                          ls_tpu_pod_job(resolver), &resolver->id));
  ls_device_name device;  // The result of parsing; only success matters.
  return ls_tpu_system_device(resolver->job, &device);
}

ls_status ls_tpu_resolver_create(const ls_tpu_resolver_options *options,
                                 ls_tpu_resolver **out_resolver) {
  LS_REQUIRE_OUT(out_resolver);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_tpu_resolver, resolver);
  ls_object_init(&resolver->object, &resolver_type);
  ls_arena_init(&resolver->arena, allocator);
  resolver->runtime = runtime;
  if (options != NULL) resolver->options = *options;
  LS_RETURN_IF_ERROR(init_resolver(resolver));
  return ls_hand_over(&resolver, out_resolver);
}

ls_status ls_tpu_resolver_connect(const ls_tpu_resolver_options *options,
                                  ls_tpu_resolver **out_resolver) {
  LS_REQUIRE_OUT(out_resolver);
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(options, &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_connect(resolver));
  LS_RETURN_IF_ERROR(ls_tpu_initialize(resolver, &topology));
  return ls_hand_over(&resolver, out_resolver);
}

LS_COUNTED(ls_tpu_resolver)

// ---- Properties ------------------------------------------------------------
const char *ls_tpu_resolver_name(const ls_tpu_resolver *resolver) {
  return resolver->name;
}

const char *ls_tpu_resolver_zone(const ls_tpu_resolver *resolver) {
  return resolver->zone;
}

const char *ls_tpu_resolver_project(const ls_tpu_resolver *resolver) {
  return resolver->project;
}

const char *ls_tpu_resolver_job(const ls_tpu_resolver *resolver) {
  return resolver->job;
}

const char *ls_tpu_resolver_coordinator(const ls_tpu_resolver *resolver) {
  return resolver->coordinator;
}

const char *
ls_tpu_resolver_coordinator_address(const ls_tpu_resolver *resolver) {
  return resolver->coordinator_address;
}

const char *ls_tpu_resolver_environment(const ls_tpu_resolver *resolver) {
  (void)resolver;
  return "";
}

ls_device_name
ls_tpu_resolver_coordination_leader(const ls_tpu_resolver *resolver) {
  ls_device_name name;
  snprintf(name.text, sizeof(name.text), "/job:%s/task:0", resolver->job);
  return name;
}

const char *ls_tpu_resolver_task_type(const ls_tpu_resolver *resolver) {
  return resolver->task_type;
}

int32_t ls_tpu_resolver_task_id(const ls_tpu_resolver *resolver) {
  return resolver->task_id;
}

ls_status ls_tpu_resolver_set_task(ls_tpu_resolver *resolver, const char *type,
                                   int32_t id) {
  LS_REQUIRE(resolver, type);
  if (id < 0) return ls_invalid_argument("task %d is below 0", id);
  ls_mutex_lock(&resolver->lock);
  const char *kept = ls_arena_string(&resolver->arena, type);
  if (kept != NULL) {
    resolver->task_type = kept;
    resolver->task_id = id;
  }
  ls_mutex_unlock(&resolver->lock);
  return kept != NULL ? ls_ok() : ls_out_of_memory();
}

const char *ls_tpu_resolver_hardware(const ls_tpu_resolver *resolver,
                                     size_t *out_size) {
  const ls_topology *topology =
      __atomic_load_n(&resolver->topology, __ATOMIC_ACQUIRE);
  *out_size = 0;
  return topology == NULL ? NULL : ls_topology_hardware(topology, out_size);
}

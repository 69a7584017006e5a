// SPDX-License-Identifier: Apache-2.0
#include "engine/pjrt/client.h"

#include <stdio.h>

#include "base/memory/allocator.h"
#include "io/protobuf/protobuf.h"
#include "lockstep/runtime_settings.h"

// Appends text that a plug-in lends, with its line breaks as blanks.
static ls_status read_text(const ls_pjrt_client *self, ls_pjrt_slot slot,
                           void *object, ls_text *out) {
  LS_PJRT_ARGS(ls_pjrt_text_args, args, .object = object);
  LS_RETURN_IF_ERROR(ls_pjrt_call(self->plugin, slot, &args));
  for (size_t i = 0; i < args.text_size; ++i)
    ls_text_append_char(out, args.text[i] == '\n' ? ' ' : args.text[i]);
  return ls_text_status(out);
}

static ls_status create_client(ls_pjrt_client *self, int count) {
  static const char name[] = "cpu_device_count";
  const ls_pjrt_named_value option = {.size = sizeof(option),
                                      .name = name,
                                      .name_size = sizeof(name) - 1,
                                      .kind = LS_PJRT_INT64,
                                      .value.number = count,
                                      .value_size = 1};
  LS_PJRT_ARGS(ls_pjrt_create_args, args, .options = &option,
               .num_options = count > 0);
  LS_RETURN_IF_ERROR(ls_pjrt_call(self->plugin, LS_PJRT_Client_Create, &args));
  self->handle = args.client;
  return ls_ok();
}

// Makes the client with so many virtual devices; plug-ins for others than CPUs
// refuse to.
static ls_status create_any_client(ls_pjrt_client *self,
                                   const ls_runtime *runtime) {
  const int count = ls_runtime_num_devices(runtime);
  if (count > 0 && strncmp(ls_runtime_device(runtime), "pjrt", 4) == 0) {
    const ls_status status = create_client(self, count);
    if (ls_status_code(status) != LS_INVALID_ARGUMENT) return status;
    ls_status_free(status);
  }
  return create_client(self, 0);
}

static ls_status create_topology(ls_pjrt_client *self, const char *name) {
  int x = 0, y = 0, z = 0;
  // libtpu would end the process while it compiles.
  if (sscanf(name, "v5e:%4dx%4dx%4d", &x, &y, &z) > 0 &&
      (x > 16 || y > 16 || z > 1))
    return ls_invalid_argument("topology '%s': a pod of v5e has 16x16 chips",
                               name);
  LS_PJRT_ARGS(ls_pjrt_topology_args, args, .name = name,
               .name_size = strlen(name));
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_pjrt_call(self->plugin, LS_PJRT_TopologyDescription_Create, &args),
      "of topology '%s'", name));
  self->topology = args.topology;
  return ls_ok();
}

static ls_status check_platform(const ls_pjrt_client *self,
                                const ls_runtime *runtime) {
  static const char *const gpus[] = {"cuda", "rocm", "gpu", "sycl"};
  const char *device = ls_runtime_device(runtime);
  const char *platform = ls_text_data(&self->platform);
  bool fits = strncmp(device, "pjrt", 4) == 0 || strcmp(device, platform) == 0;
  for (size_t i = 0; i < LS_COUNT_OF(gpus) && strcmp(device, "gpu") == 0; ++i)
    fits |= strcmp(platform, gpus[i]) == 0;
  return fits ? ls_ok()
              : ls_failed_precondition("device '%s': plug-in '%s' has devices "
                                       "of platform '%s'",
                                       device, self->plugin->path, platform);
}

// Returns the object that has the devices.
static void *source_of(const ls_pjrt_client *self) {
  return self->topology != NULL ? (void *)self->topology : self->handle;
}

// Returns the description of a device. Lent.
static ls_status client_device(const ls_pjrt_client *self, int32_t device,
                               PJRT_DeviceDescription **out_description) {
  if (self->topology != NULL) {
    *out_description = self->descriptions[device];
    return ls_ok();
  }
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = self->devices[device]);
  const ls_status status =
      ls_pjrt_call(self->plugin, LS_PJRT_Device_GetDescription, &args);
  *out_description = args.answer.object;
  return status;
}

static ls_status find_devices(ls_pjrt_client *self, const ls_runtime *runtime) {
  const int wanted = ls_runtime_num_devices(runtime);
  const bool is_topology = self->topology != NULL;
  LS_PJRT_ARGS(ls_pjrt_devices_args, args, .object = source_of(self));
  LS_RETURN_IF_ERROR(ls_pjrt_call(
      self->plugin,
      is_topology ? LS_PJRT_TopologyDescription_GetDeviceDescriptions
                  : LS_PJRT_Client_AddressableDevices,
      &args));
  if (args.count == 0)
    return LS_STATUS(LS_UNAVAILABLE, "plug-in '%s' has no devices",
                     self->plugin->path);
  if ((size_t)wanted > args.count)
    return ls_invalid_argument("num_devices is %d; plug-in '%s' has %zu",
                               wanted, self->plugin->path, args.count);
  if (is_topology)
    self->descriptions = args.descriptions;
  else
    self->devices = args.devices;
  self->num_devices = wanted > 0 ? wanted : (int32_t)args.count;
  PJRT_DeviceDescription *first = NULL;
  LS_RETURN_IF_ERROR(client_device(self, 0, &first));
  return read_text(self, LS_PJRT_DeviceDescription_Kind, first, &self->kind);
}

ls_status ls_pjrt_client_locate(const ls_pjrt_client *self, int32_t device,
                                ls_device_location *out_location) {
  PJRT_DeviceDescription *description = NULL;
  LS_RETURN_IF_ERROR(client_device(self, device, &description));
  LS_PJRT_ARGS(ls_pjrt_object_args, process, .object = description);
  LS_PJRT_ARGS(ls_pjrt_values_args, args, .object = description);
  LS_RETURN_IF_ERROR(ls_pjrt_call(
      self->plugin, LS_PJRT_DeviceDescription_ProcessIndex, &process));
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(self->plugin, LS_PJRT_DeviceDescription_Attributes, &args));
  const int64_t *coords = NULL, *core = NULL;
  for (size_t i = 0; i < args.count; ++i) {
    const ls_pjrt_named_value *value = &args.values[i];
    if (value->kind == LS_PJRT_INT64_LIST && value->value_size == 3 &&
        ls_pjrt_is_named(value, "coords"))
      coords = value->value.numbers;
    if (value->kind == LS_PJRT_INT64 && ls_pjrt_is_named(value, "core_on_chip"))
      core = &value->value.number;
  }
  *out_location =
      (ls_device_location){.host = process.answer.number, .at = {device}};
  for (int k = 0; coords != NULL && core != NULL && k < 4; ++k)
    out_location->at[k] = (int32_t)(k < 3 ? coords[k] : *core);
  return ls_ok();
}

ls_status ls_pjrt_client_init(ls_pjrt_client *self, ls_runtime *runtime) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *self = (ls_pjrt_client){0};
  ls_text_init(&self->platform, allocator);
  ls_text_init(&self->version, allocator);
  ls_text_init(&self->kind, allocator);
  LS_RETURN_IF_ERROR(ls_pjrt_plugin_load(runtime, &self->plugin));
  const char *topology = ls_runtime_topology(runtime);
  LS_RETURN_IF_ERROR(topology != NULL ? create_topology(self, topology)
                                      : create_any_client(self, runtime));
  LS_RETURN_IF_ERROR(read_text(self,
                               topology != NULL
                                   ? LS_PJRT_TopologyDescription_PlatformName
                                   : LS_PJRT_Client_PlatformName,
                               source_of(self), &self->platform));
  LS_RETURN_IF_ERROR(read_text(self,
                               topology != NULL
                                   ? LS_PJRT_TopologyDescription_PlatformVersion
                                   : LS_PJRT_Client_PlatformVersion,
                               source_of(self), &self->version));
  LS_RETURN_IF_ERROR(check_platform(self, runtime));
  return find_devices(self, runtime);
}

void ls_pjrt_client_deinit(ls_pjrt_client *self) {
  if (self->handle != NULL)
    ls_pjrt_destroy(self->plugin, LS_PJRT_Client_Destroy, self->handle);
  if (self->topology != NULL)
    ls_pjrt_destroy(self->plugin, LS_PJRT_TopologyDescription_Destroy,
                    self->topology);
  ls_text_deinit(&self->platform);
  ls_text_deinit(&self->version);
  ls_text_deinit(&self->kind);
}

// ---- Compile options --------------------------------------------------------
// CompileOptionsProto: how a plug-in compiles a program.

enum { BUILD_OPTIONS = 3, OVERRIDES = 7 };  // CompileOptionsProto
enum { ORDINAL = 1, REPLICAS = 4, PARTITIONS = 5, ASSIGNMENT = 9 };  // Build.
enum { NUM_ROWS = 1, NUM_COLUMNS = 2, COLUMN = 3 };  // DeviceAssignmentProto
enum { KEY = 1, VALUE = 2 };                         // An entry of a map.
enum { AS_BOOL = 2, AS_NUMBER = 3 };                 // OptionOverrideProto

// A debug option of XLA.
typedef struct debug_option {
  const char *name;
  unsigned kind;
  int64_t value;
} debug_option;

// Options for GPUs with which results do not differ from run to run, and a
// replica's products are not joined with another's.
static const debug_option exact_options[] = {
    {"xla_gpu_deterministic_ops", AS_BOOL, 1},
    {"xla_gpu_exclude_nondeterministic_ops", AS_BOOL, 1},
    {"xla_gpu_dot_merger_threshold_mb", AS_NUMBER, 0},
};

// An option for CPUs with which a maximum keeps a NaN.
static const debug_option nan_option = {"xla_cpu_enable_fast_min_max", AS_BOOL,
                                        0};

static void write_override(ls_text *out, const debug_option *option) {
  const size_t entry = ls_proto_begin(out, OVERRIDES);
  ls_proto_string(out, KEY, option->name);
  const size_t value = ls_proto_begin(out, VALUE);
  ls_proto_i64(out, option->kind, option->value);
  ls_proto_end(out, value);
  ls_proto_end(out, entry);
}

// Writes the devices of replicas: one column, since there are no partitions.
static ls_status write_assignment(const ls_pjrt_client *client,
                                  const ls_pjrt_options *options,
                                  ls_text *out) {
  const size_t assignment = ls_proto_begin(out, ASSIGNMENT);
  ls_proto_i64(out, NUM_ROWS, options->num_devices);
  ls_proto_i64(out, NUM_COLUMNS, 1);
  const size_t column = ls_proto_begin(out, COLUMN);
  for (int32_t i = 0; i < options->num_devices; ++i) {
    PJRT_DeviceDescription *device = NULL;
    LS_RETURN_IF_ERROR(client_device(client, options->devices[i], &device));
    LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = device);
    LS_RETURN_IF_ERROR(
        ls_pjrt_call(client->plugin, LS_PJRT_DeviceDescription_Id, &args));
    ls_proto_i64(out, 1, args.answer.number);
  }
  ls_proto_end(out, column);
  ls_proto_end(out, assignment);
  return ls_ok();
}

ls_status ls_pjrt_write_options(const ls_pjrt_client *client,
                                const ls_pjrt_options *options, ls_text *out) {
  const char *platform = ls_text_data(&client->platform);
  const bool is_gpu =
      strcmp(platform, "cuda") == 0 || strcmp(platform, "rocm") == 0;
  // Without a number of replicas XLA would end the process.
  const size_t build = ls_proto_begin(out, BUILD_OPTIONS);
  ls_proto_i64(out, ORDINAL, -1);
  ls_proto_i64(out, REPLICAS, options->num_devices);
  ls_proto_i64(out, PARTITIONS, 1);
  LS_RETURN_IF_ERROR(write_assignment(client, options, out));
  ls_proto_end(out, build);
  for (size_t i = 0; options->exact && is_gpu && i < LS_COUNT_OF(exact_options);
       ++i)
    write_override(out, &exact_options[i]);
  if (strcmp(platform, "cpu") == 0) write_override(out, &nan_option);
  return ls_text_status(out);
}

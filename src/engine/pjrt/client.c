// SPDX-License-Identifier: Apache-2.0
#include "engine/pjrt/client.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
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

static ls_status find_devices(ls_pjrt_client *self, const ls_runtime *runtime) {
  const int wanted = ls_runtime_num_devices(runtime);
  LS_PJRT_ARGS(ls_pjrt_devices_args, args, .object = self->handle);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(self->plugin, LS_PJRT_Client_AddressableDevices, &args));
  if (args.count == 0)
    return LS_STATUS(LS_UNAVAILABLE, "plug-in '%s' has no devices",
                     self->plugin->path);
  if ((size_t)wanted > args.count)
    return ls_invalid_argument("num_devices is %d; plug-in '%s' has %zu",
                               wanted, self->plugin->path, args.count);
  self->devices = args.devices;
  self->num_devices = wanted > 0 ? wanted : (int32_t)args.count;
  LS_PJRT_ARGS(ls_pjrt_object_args, description, .object = args.devices[0]);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(self->plugin, LS_PJRT_Device_GetDescription, &description));
  return read_text(self, LS_PJRT_DeviceDescription_Kind,
                   description.answer.object, &self->kind);
}

ls_status ls_pjrt_client_init(ls_pjrt_client *self, ls_runtime *runtime) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *self = (ls_pjrt_client){0};
  ls_text_init(&self->platform, allocator);
  ls_text_init(&self->version, allocator);
  ls_text_init(&self->kind, allocator);
  LS_RETURN_IF_ERROR(ls_pjrt_plugin_load(runtime, &self->plugin));
  LS_RETURN_IF_ERROR(create_any_client(self, runtime));
  LS_RETURN_IF_ERROR(read_text(self, LS_PJRT_Client_PlatformName, self->handle,
                               &self->platform));
  LS_RETURN_IF_ERROR(read_text(self, LS_PJRT_Client_PlatformVersion,
                               self->handle, &self->version));
  LS_RETURN_IF_ERROR(check_platform(self, runtime));
  return find_devices(self, runtime);
}

void ls_pjrt_client_deinit(ls_pjrt_client *self) {
  if (self->handle != NULL)
    ls_pjrt_destroy(self->plugin, LS_PJRT_Client_Destroy, self->handle);
  ls_text_deinit(&self->platform);
  ls_text_deinit(&self->version);
  ls_text_deinit(&self->kind);
}

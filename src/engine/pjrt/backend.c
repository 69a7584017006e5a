// SPDX-License-Identifier: Apache-2.0
//
// The back end of a PJRT plug-in: its table of functions and its identity.
#include "base/runtime_internal.h"
#include "engine/pjrt/pjrt.h"
#include "graph/passes/passes.h"
#include "lockstep/communicator.h"
#include "lockstep/runtime_settings.h"

static ls_status prepare(ls_backend *self, ls_program *program) {
  return program->on_host
             ? self->host->vtable->prepare(self->host, program)
             : ls_watch_pass(self->runtime, program->body, "device", true);
}

static void stream_copy(ls_backend *self, void *target, const void *from,
                        size_t size) {
  self->host->vtable->stream_copy(self->host, target, from, size);
}

static const char *numerics_id(ls_backend *self) {
  return ls_text_data(&ls_pjrt_of(self)->numerics_id);
}

static void describe_devices(const ls_backend *self,
                             ls_device_facts *out_facts) {
  const ls_pjrt_client *client = &ls_pjrt_of(self)->client;
  const char *platform = ls_text_data(&client->platform);
  *out_facts = (ls_device_facts){.type = strcmp(platform, "cpu") == 0   ? "CPU"
                                         : strcmp(platform, "tpu") == 0 ? "TPU"
                                                                        : "GPU",
                                 .count = client->num_devices,
                                 .kind = ls_text_data(&client->kind),
                                 .platform = ls_text_data(&client->version),
                                 .plugin = client->plugin->path};
}

static ls_status locate_device(const ls_backend *self, int32_t device,
                               ls_device_location *out_location) {
  return ls_pjrt_client_locate(&ls_pjrt_of(self)->client, device, out_location);
}

static const struct ls_backend_vtable pjrt_vtable = {
    .name = "pjrt",
    .prepare = prepare,
    .compile = ls_pjrt_compile,
    .release_executable = ls_pjrt_release_executable,
    .facts = ls_pjrt_facts,
    .print_plan = ls_pjrt_print_plan,
    .bind = ls_pjrt_bind,
    .rebind = ls_pjrt_rebind,
    .destroy_instance = ls_pjrt_destroy_instance,
    .start = ls_pjrt_start,
    .advance = ls_pjrt_advance,
    .wait = ls_pjrt_wait,
    .stop = ls_pjrt_stop,
    .finish = ls_pjrt_finish,
    .measure = ls_pjrt_measure,
    .print_cost = ls_pjrt_print_cost,
    .create_buffer = ls_pjrt_create_buffer,
    .upload = ls_pjrt_upload,
    .download = ls_pjrt_download,
    .look = ls_pjrt_look,
    .stream_copy = stream_copy,
    .overwrite = ls_pjrt_overwrite,
    .copy = ls_pjrt_copy,
    .fill = ls_pjrt_fill,
    .numerics_id = numerics_id,
    .describe = describe_devices,
    .locate = locate_device,
};

ls_status ls_pjrt_backend_destroy(void *state) {
  ls_pjrt_backend *self = state;
  ls_status status = ls_ok();
  ls_pjrt_end_arrivals(self);
  ls_mutex_deinit(&self->arrivals_lock);
  for (int32_t i = 0; self->launching != NULL && i < self->client.num_devices;
       ++i)
    ls_mutex_deinit(&self->launching[i]);
  ls_release(ls_runtime_allocator(self->base.runtime), self->launching);
  ls_pjrt_client_deinit(&self->client);
  ls_text_deinit(&self->numerics_id);
  ls_text_deinit(&self->cache_folder);
  if (self->base.host != NULL) status = ls_cpu_backend_destroy(self->base.host);
  ls_release(ls_runtime_allocator(self->base.runtime), self);
  return status;
}

static void destroy_backend(ls_pjrt_backend *self) {
  ls_status_free(ls_pjrt_backend_destroy(self));
}
LS_OWNED_POINTER(ls_pjrt_backend, destroy_backend)

// Makes the id: whatever decides bits, as far as the plug-in tells.
static ls_status make_numerics_id(ls_pjrt_backend *self) {
  const ls_pjrt_client *client = &self->client;
  ls_text *id = &self->numerics_id;
  ls_text_append_format(
      id, "pjrt-1 %s %s, %s, %s", ls_text_data(&client->platform),
      ls_text_data(&client->version), ls_text_data(&client->kind),
      self->bf16      ? "bf16"
      : self->highest ? "f32"
                      : "default");
  // With exact bits the number of devices does not matter.
  if (self->exact)
    ls_text_append(id, ", exact");
  else
    ls_text_append_format(id, ", %d devices", client->num_devices);
  return ls_text_status(id);
}

ls_status ls_pjrt_backend_create(ls_runtime *runtime,
                                 ls_backend **out_backend) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const ls_communicator *communicator = ls_runtime_communicator(runtime);
  *out_backend = NULL;
  if (communicator != NULL && communicator->ranks > 1)
    return ls_unimplemented(
        "%d processes that train in step with device '%s': only the CPU engine "
        "exchanges values between processes",
        communicator->ranks, ls_runtime_device(runtime));
  if (ls_runtime_finds_nan(runtime))
    return ls_unimplemented("find_nan with device '%s': only the CPU engine "
                            "looks for the op that makes a NaN",
                            ls_runtime_device(runtime));
  LS_NEW_OR_RETURN(allocator, ls_pjrt_backend, made);
  made->base = (ls_backend){.vtable = &pjrt_vtable, .runtime = runtime};
  ls_text_init(&made->numerics_id, allocator);
  ls_text_init(&made->cache_folder, allocator);
  made->exact = ls_runtime_exact_bits(runtime);
  const ls_math math = ls_runtime_math(runtime);
  made->highest = made->exact || math == LS_MATH_DIRECT;
  made->bf16 = math == LS_MATH_BF16 || math == LS_MATH_BF16_DIRECT;
  LS_OWN(ls_pjrt_backend, self) = made;
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->arrivals_lock));
  LS_RETURN_IF_ERROR(ls_pjrt_client_init(&self->client, runtime));
  self->launching =
      ls_new_array(allocator, ls_mutex, (size_t)self->client.num_devices);
  LS_RETURN_IF_NO_MEMORY(self->launching);
  for (int32_t i = 0; i < self->client.num_devices; ++i)
    LS_RETURN_IF_ERROR(ls_mutex_init(&self->launching[i]));
  LS_RETURN_IF_ERROR(make_numerics_id(self));
  LS_RETURN_IF_ERROR(ls_pjrt_cache_init(self));
  LS_RETURN_IF_ERROR(ls_cpu_backend_create(runtime, &self->base.host));
  *out_backend = &ls_give(&self)->base;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
//
// Instances: memory for the runs of an executable, and its variables' buffers.
// Runs of programs on_host are the CPU engine's.
#include "base/runtime_internal.h"
#include "engine/pjrt/host.h"
#include "engine/pjrt/pjrt.h"
#include "graph/passes/passes.h"
#include "lockstep/communicator.h"
#include "lockstep/runtime_settings.h"

static ls_pjrt_instance *instance_of(const ls_instance *instance) {
  return (ls_pjrt_instance *)(uintptr_t)instance;
}

static ls_allocator *allocator_of(const ls_pjrt_instance *self) {
  return ls_runtime_allocator(self->executable->backend->base.runtime);
}

// Counts the buffers: old values, then new ones.
static size_t num_buffers(const ls_pjrt_instance *self) {
  const ls_program *program = self->executable->program;
  return program->num_uses * (program->apart ? 2 : 1);
}

ls_pjrt_buffer *ls_pjrt_new_buffer(const ls_pjrt_instance *self, size_t use) {
  const ls_program *program = self->executable->program;
  const size_t first = program->apart ? program->num_uses : 0;
  return (ls_pjrt_buffer *)self->buffers[first + use];
}

// ---- Binding ---------------------------------------------------------------
static void ls_pjrt_destroy_instance(ls_instance *instance) {
  ls_pjrt_instance *self = instance_of(instance);
  if (self == NULL) return;
  ls_allocator *allocator = allocator_of(self);
  const ls_pjrt_executable *executable = self->executable;
  const size_t num_scalars = LS_PJRT_SCALARS * (size_t)executable->num_devices;
  if (self->host != NULL)
    ls_pjrt_host_table(self->executable)->destroy_instance(self->host);
  ls_pjrt_hosts_destroy(self->hosts);
  ls_pjrt_around_destroy(self->around);
  ls_status_free(ls_pjrt_run_drain(self, self->num_launched));
  for (size_t i = 0; self->buffers != NULL && i < num_buffers(self); ++i)
    ls_object_release(self->buffers[i]);
  for (size_t i = 0; self->scalar_parts != NULL && i < num_scalars; ++i)
    ls_pjrt_destroy(ls_pjrt_client_of(self)->plugin, LS_PJRT_Buffer_Destroy,
                    self->scalar_parts[i]);
  ls_arena_deinit(&self->arena);
  ls_pjrt_release_executable((ls_executable *)self->executable);
  ls_release(allocator, self);
}

static void destroy_instance(ls_pjrt_instance *self) {
  ls_pjrt_destroy_instance((ls_instance *)self);
}
LS_OWNED_POINTER(ls_pjrt_instance, destroy_instance)

// Makes the lists of a run: a launch takes arguments and gives results by
// device.
static ls_status make_lists(ls_pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  ls_arena *arena = &self->arena;
  const size_t devices = (size_t)executable->num_devices;
  const ls_emit_around *around = &executable->layout.around;
  const size_t arguments =
      executable->layout.num_arguments + LS_PJRT_SCALARS + around->taken.count;
  const size_t results = ls_pjrt_num_results(executable);
  PJRT_Buffer **items =
      ls_arena_new_array(arena, PJRT_Buffer *, devices * (arguments + results));
  self->arguments = ls_arena_new_array(arena, PJRT_Buffer **, 2 * devices);
  self->sent = ls_arena_new_array(arena, PJRT_Buffer *, devices * arguments);
  self->events =
      ls_arena_new_array(arena, PJRT_Event *,
                         devices * (arguments + around->given.count + 2) +
                             executable->program->num_outputs);
  self->scalar_parts =
      ls_arena_new_array(arena, PJRT_Buffer *, devices * LS_PJRT_SCALARS);
  self->launched =
      ls_arena_new_array(arena, PJRT_Event *, devices * LS_PJRT_LAUNCHES);
  LS_RETURN_IF_NO_MEMORY(items != NULL && self->arguments != NULL &&
                         self->sent != NULL && self->events != NULL &&
                         self->scalar_parts != NULL && self->launched != NULL);
  self->results = self->arguments + devices;
  for (size_t d = 0; d < devices; ++d, items += arguments + results) {
    self->arguments[d] = items;
    self->results[d] = items + arguments;
  }
  if (executable->layout.num_hosts > 0)
    LS_RETURN_IF_ERROR(ls_pjrt_hosts_create(self, &self->hosts));
  if (self->hosts != NULL && around->is_around)
    LS_RETURN_IF_ERROR(ls_pjrt_around_create(self, &self->around));
  return ls_ok();
}

static void retain_buffers(ls_pjrt_instance *self, ls_buffer *const *buffers,
                           size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i] == self->buffers[i]) continue;
    ls_object_release(self->buffers[i]);
    self->buffers[i] = ls_object_retain(buffers[i]);
    self->host_buffers[i] =
        buffers[i] == NULL ? NULL : ((ls_pjrt_buffer *)buffers[i])->host;
  }
}

static ls_status ls_pjrt_bind(ls_executable *executable,
                              ls_buffer *const *buffers,
                              ls_instance **out_instance) {
  ls_pjrt_executable *made = (ls_pjrt_executable *)executable;
  ls_allocator *allocator = ls_runtime_allocator(made->backend->base.runtime);
  *out_instance = NULL;
  LS_NEW_OR_RETURN(allocator, ls_pjrt_instance, raw);
  raw->executable = made;
  ls_arena_init(&raw->arena, allocator);
  ls_count_retain(&made->references);
  LS_OWN(ls_pjrt_instance, self) = raw;
  self->buffers =
      ls_arena_new_array(&self->arena, ls_buffer *, num_buffers(self) + 1);
  self->host_buffers =
      ls_arena_new_array(&self->arena, ls_buffer *, num_buffers(self) + 1);
  LS_RETURN_IF_NO_MEMORY(self->buffers != NULL && self->host_buffers != NULL);
  retain_buffers(self, buffers, made->program->num_uses);
  LS_RETURN_IF_ERROR(
      made->host == NULL
          ? make_lists(self)
          : ls_pjrt_host_table(self->executable)
                ->bind(made->host, self->host_buffers, &self->host));
  *out_instance = (ls_instance *)ls_give(&self);
  return ls_ok();
}

static void ls_pjrt_rebind(ls_instance *instance, ls_buffer *const *buffers) {
  ls_pjrt_instance *self = instance_of(instance);
  retain_buffers(self, buffers, num_buffers(self));
  if (self->host != NULL)
    ls_pjrt_host_table(self->executable)
        ->rebind(self->host, self->host_buffers);
}

// ---- Runs on the host ------------------------------------------------------
static ls_status start_on_host(ls_pjrt_instance *self,
                               const ls_run_args *args) {
  const ls_program *program = self->executable->program;
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].read)
      LS_RETURN_IF_ERROR(
          ls_pjrt_buffer_to_host((ls_pjrt_buffer *)self->buffers[i]));
  return ls_pjrt_host_table(self->executable)->start(self->host, args);
}

// Drops values on devices that the run has replaced on the host; a failed run
// may have written some of them.
static ls_status finish_on_host(ls_pjrt_instance *self, bool *out_keeps) {
  const ls_program *program = self->executable->program;
  const ls_status status =
      ls_pjrt_host_table(self->executable)->finish(self->host, out_keeps);
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written && (*out_keeps || program->uses[i].read))
      ls_pjrt_buffer_keep_host(ls_pjrt_new_buffer(self, i));
  return status;
}

// ---- Runs ------------------------------------------------------------------
static ls_status ls_pjrt_start(ls_instance *instance, const ls_run_args *args) {
  ls_pjrt_instance *self = instance_of(instance);
  if (self->host != NULL) return start_on_host(self, args);
  ls_runtime *runtime = self->executable->backend->base.runtime;
  LS_RETURN_IF_ERROR(ls_pjrt_run_prepare(self, args));
  if (ls_runtime_topology(runtime) != NULL) {
    if (self->around != NULL)
      LS_RETURN_IF_ERROR(ls_pjrt_around_find_code(self, self->trips));
    return LS_STATUS(LS_UNAVAILABLE,
                     "the program is compiled for topology '%s', which has no "
                     "devices here that run it",
                     ls_runtime_topology(runtime));
  }
  if (ls_cancel_any(args->cancels))
    return LS_STATUS(LS_CANCELLED, "the run was cancelled");
  LS_RETURN_IF_ERROR(ls_pjrt_run_start(self, args));
  // A run with host calls does not count as work: its calls may stall.
  if (self->hosts == NULL) ls_runtime_begin_work(runtime);
  return ls_ok();
}

static ls_run_state ls_pjrt_advance(ls_instance *instance) {
  ls_pjrt_instance *self = instance_of(instance);
  if (self->host != NULL)
    return ls_pjrt_host_table(self->executable)->advance(self->host);
  if (self->hosts != NULL ? !ls_pjrt_hosts_has_ended(self->hosts)
                          : !ls_pjrt_run_advance(self))
    return LS_RUN_WAITS;
  const bool fails =
      !ls_status_is_ok(self->status) ||
      (self->hosts != NULL && ls_pjrt_hosts_are_over(self->hosts));
  return fails ? LS_RUN_FAILED : LS_RUN_ENDED;
}

static void ls_pjrt_wait(ls_instance *const *instances, size_t count) {
  enum { MOST = 64 };
  ls_instance *hosts[MOST];
  ls_pjrt_hosts *hosted[MOST];
  size_t num_hosts = 0, num_hosted = 0;
  for (size_t i = 0; i < count; ++i) {
    ls_pjrt_instance *self = instance_of(instances[i]);
    if (self->host == NULL && self->hosts == NULL) {
      ls_pjrt_run_wait(self);  // It ends by itself, and nothing can stop it.
      return;
    }
    if (self->hosts != NULL && num_hosted < MOST)
      hosted[num_hosted++] = self->hosts;
    if (self->host != NULL && num_hosts < MOST) hosts[num_hosts++] = self->host;
  }
  if (num_hosted > 0)
    ls_pjrt_hosts_wait(hosted, num_hosted, num_hosts > 0);
  else
    ls_pjrt_host_table(instance_of(instances[0])->executable)
        ->wait(hosts, num_hosts);
}

static void ls_pjrt_stop(ls_instance *instance, ls_status status) {
  ls_pjrt_instance *self = instance_of(instance);
  if (self->host != NULL)
    ls_pjrt_host_table(self->executable)->stop(self->host, status);
  else if (self->hosts != NULL)
    ls_pjrt_hosts_stop(self->hosts, status);
  else
    ls_pjrt_run_fail(self, status);
}

static ls_status ls_pjrt_finish(ls_instance *instance, bool *out_keeps) {
  ls_pjrt_instance *self = instance_of(instance);
  if (self->host != NULL) return finish_on_host(self, out_keeps);
  ls_runtime *runtime = self->executable->backend->base.runtime;
  const ls_status status = ls_pjrt_run_finish(self);
  if (self->hosts == NULL) ls_runtime_end_work(runtime);
  *out_keeps = ls_status_is_ok(status) || self->keeps;
  if (*out_keeps) ls_runtime_note_move(runtime);
  return status;
}

// ---- Costs -----------------------------------------------------------------
static ls_status refuse_costs(void) {
  return ls_unimplemented("times of instructions on a device of a plug-in: "
                          "measure them with its own profiler");
}

static ls_status ls_pjrt_measure(ls_instance *instance, bool on) {
  const ls_pjrt_instance *self = instance_of(instance);
  return self->host != NULL
             ? ls_pjrt_host_table(self->executable)->measure(self->host, on)
             : refuse_costs();
}

static ls_status ls_pjrt_print_cost(const ls_instance *instance,
                                    ls_text *text) {
  const ls_pjrt_instance *self = instance_of(instance);
  return self->host != NULL ? ls_pjrt_host_table(self->executable)
                                  ->print_cost(self->host, text)
                            : refuse_costs();
}

// ---- Back end ---------------------------------------------------------------
// The back end of a PJRT plug-in: its table of functions and its identity.

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

void ls_pjrt_backend_destroy(void *state) {
  ls_pjrt_backend *self = state;
  ls_pjrt_end_arrivals(self);
  ls_mutex_deinit(&self->arrivals_lock);
  for (int32_t i = 0; self->launching != NULL && i < self->client.num_devices;
       ++i)
    ls_mutex_deinit(&self->launching[i]);
  ls_release(ls_runtime_allocator(self->base.runtime), self->launching);
  ls_pjrt_client_deinit(&self->client);
  ls_text_deinit(&self->numerics_id);
  ls_text_deinit(&self->cache_folder);
  if (self->base.host != NULL) ls_cpu_backend_destroy(self->base.host);
  ls_release(ls_runtime_allocator(self->base.runtime), self);
}

static void destroy_backend(ls_pjrt_backend *self) {
  ls_pjrt_backend_destroy(self);
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
  LS_SET_ARRAY_OR_RETURN(allocator, ls_mutex, self->launching,
                         (size_t)self->client.num_devices);
  for (int32_t i = 0; i < self->client.num_devices; ++i)
    LS_RETURN_IF_ERROR(ls_mutex_init(&self->launching[i]));
  LS_RETURN_IF_ERROR(make_numerics_id(self));
  LS_RETURN_IF_ERROR(ls_pjrt_cache_init(self));
  LS_RETURN_IF_ERROR(ls_cpu_backend_create(runtime, &self->base.host));
  *out_backend = &ls_give(&self)->base;
  return ls_ok();
}

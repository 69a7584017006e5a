// SPDX-License-Identifier: Apache-2.0
//
// Instances and runs. A run on devices sends its inputs, launches the
// executable, asks for the outputs, and waits for the events of all of these:
// nothing else waits for a device, and no status of an event is dropped.
#include "base/cancel.h"
#include "base/runtime_internal.h"
#include "engine/pjrt/pjrt.h"

// Values that a program which draws takes after its parameters.
enum { STEP, SEED, REPLICA, NUM_SCALARS };

typedef struct pjrt_instance {
  ls_pjrt_executable *executable;  // Counted.
  ls_buffer **buffers;             // Retained; see rebind in engine/backend.h.
  ls_instance *host;               // The CPU engine's, for programs on_host.
  ls_buffer **host_buffers;        // The host's of `buffers`; lent.
  // The rest is for devices. Lists of each device.
  PJRT_Buffer ***arguments, ***results;
  PJRT_Buffer **memory;  // Memory of the lists.
  PJRT_Buffer **sent;    // Inputs that were sent to devices in this run.
  size_t num_sent;
  PJRT_Event **events;  // This run's: inputs sent, launch, outputs.
  size_t num_events, num_ready;
  size_t num_needed;  // The first events: if one fails there are no results.
  uint64_t scalars[NUM_SCALARS];
  PJRT_Buffer **scalar_parts;  // By scalar and device; NULL: not sent.
  bool has_launched, has_failed;
  uint64_t *steps;  // See ls_run_args.
  ls_status status;
} pjrt_instance;

static pjrt_instance *instance_of(const ls_instance *instance) {
  return (pjrt_instance *)(uintptr_t)instance;
}

static const struct ls_backend_vtable *host_table(const pjrt_instance *self) {
  return self->executable->backend->base.host->vtable;
}

static const ls_pjrt_client *client_of(const pjrt_instance *self) {
  return &self->executable->backend->client;
}

static ls_allocator *allocator_of(const pjrt_instance *self) {
  return ls_runtime_allocator(self->executable->backend->base.runtime);
}

// Counts the buffers: old values, then new ones.
static size_t num_buffers(const pjrt_instance *self) {
  const ls_program *program = self->executable->program;
  return program->num_uses * (program->apart ? 2 : 1);
}

// Returns the buffer of a use's new value.
static ls_pjrt_buffer *new_buffer(const pjrt_instance *self, size_t use) {
  const ls_program *program = self->executable->program;
  const size_t first = program->apart ? program->num_uses : 0;
  return (ls_pjrt_buffer *)self->buffers[first + use];
}

// ---- Binding ---------------------------------------------------------------
void ls_pjrt_destroy_instance(ls_instance *instance) {
  pjrt_instance *self = instance_of(instance);
  if (self == NULL) return;
  ls_allocator *allocator = allocator_of(self);
  const ls_pjrt_executable *executable = self->executable;
  const size_t num_scalars = NUM_SCALARS * (size_t)executable->num_devices;
  if (self->host != NULL) host_table(self)->destroy_instance(self->host);
  for (size_t i = 0; self->buffers != NULL && i < num_buffers(self); ++i)
    ls_object_release(self->buffers[i]);
  for (size_t i = 0; self->scalar_parts != NULL && i < num_scalars; ++i)
    ls_pjrt_destroy(client_of(self)->plugin, LS_PJRT_Buffer_Destroy,
                    self->scalar_parts[i]);
  ls_release(allocator, self->buffers);
  ls_release(allocator, self->host_buffers);
  ls_release(allocator, self->arguments);
  ls_release(allocator, self->memory);
  ls_release(allocator, self->sent);
  ls_release(allocator, self->events);
  ls_release(allocator, self->scalar_parts);
  ls_pjrt_release_executable((ls_executable *)self->executable);
  ls_release(allocator, self);
}

static void destroy_instance(pjrt_instance *self) {
  ls_pjrt_destroy_instance((ls_instance *)self);
}
LS_OWNED_POINTER(pjrt_instance, destroy_instance)

// Makes the lists of a run: a launch takes arguments and gives results by
// device.
static ls_status make_lists(pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  ls_allocator *allocator = allocator_of(self);
  const size_t devices = (size_t)executable->num_devices;
  const size_t arguments = executable->layout.num_arguments + NUM_SCALARS;
  const size_t results = executable->layout.num_results;
  self->arguments = ls_new_array(allocator, PJRT_Buffer **, 2 * devices);
  self->memory =
      ls_new_array(allocator, PJRT_Buffer *, devices * (arguments + results));
  self->sent = ls_new_array(allocator, PJRT_Buffer *, devices * arguments);
  self->events = ls_new_array(allocator, PJRT_Event *,
                              devices * (arguments + 1) +
                                  executable->program->num_outputs);
  self->scalar_parts =
      ls_new_array(allocator, PJRT_Buffer *, devices * NUM_SCALARS);
  LS_RETURN_IF_NO_MEMORY(self->arguments != NULL && self->memory != NULL &&
                         self->sent != NULL && self->events != NULL &&
                         self->scalar_parts != NULL);
  self->results = self->arguments + devices;
  for (size_t d = 0; d < devices; ++d) {
    self->arguments[d] = self->memory + d * (arguments + results);
    self->results[d] = self->arguments[d] + arguments;
  }
  return ls_ok();
}

static void retain_buffers(pjrt_instance *self, ls_buffer *const *buffers,
                           size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i] == self->buffers[i]) continue;
    ls_object_release(self->buffers[i]);
    self->buffers[i] = ls_object_retain(buffers[i]);
    self->host_buffers[i] =
        buffers[i] == NULL ? NULL : ((ls_pjrt_buffer *)buffers[i])->host;
  }
}

ls_status ls_pjrt_bind(ls_executable *executable, ls_buffer *const *buffers,
                       ls_instance **out_instance) {
  ls_pjrt_executable *made = (ls_pjrt_executable *)executable;
  ls_allocator *allocator = ls_runtime_allocator(made->backend->base.runtime);
  *out_instance = NULL;
  LS_NEW_OR_RETURN(allocator, pjrt_instance, raw);
  raw->executable = made;
  ls_count_retain(&made->references);
  LS_OWN(pjrt_instance, self) = raw;
  self->buffers = ls_new_array(allocator, ls_buffer *, num_buffers(self));
  self->host_buffers = ls_new_array(allocator, ls_buffer *, num_buffers(self));
  LS_RETURN_IF_NO_MEMORY(self->buffers != NULL && self->host_buffers != NULL);
  retain_buffers(self, buffers, made->program->num_uses);
  LS_RETURN_IF_ERROR(made->host == NULL
                         ? make_lists(self)
                         : host_table(self)->bind(
                               made->host, self->host_buffers, &self->host));
  *out_instance = (ls_instance *)ls_give(&self);
  return ls_ok();
}

void ls_pjrt_rebind(ls_instance *instance, ls_buffer *const *buffers) {
  pjrt_instance *self = instance_of(instance);
  retain_buffers(self, buffers, num_buffers(self));
  if (self->host != NULL)
    host_table(self)->rebind(self->host, self->host_buffers);
}

// ---- Runs on the host ------------------------------------------------------
static ls_status start_on_host(pjrt_instance *self, const ls_run_args *args) {
  const ls_program *program = self->executable->program;
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].read)
      LS_RETURN_IF_ERROR(
          ls_pjrt_buffer_to_host((ls_pjrt_buffer *)self->buffers[i]));
  return host_table(self)->start(self->host, args);
}

// Drops values on devices that the run has replaced on the host; a failed run
// may have written some of them.
static ls_status finish_on_host(pjrt_instance *self, bool *out_keeps) {
  const ls_program *program = self->executable->program;
  const ls_status status = host_table(self)->finish(self->host, out_keeps);
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written && (*out_keeps || program->uses[i].read))
      ls_pjrt_buffer_keep_host(new_buffer(self, i));
  return status;
}

// ---- Arguments -------------------------------------------------------------
static void push_event(pjrt_instance *self, PJRT_Event *event) {
  if (event != NULL) self->events[self->num_events++] = event;
}

static ls_status send_value(pjrt_instance *self, ls_type type, const void *data,
                            int32_t device, PJRT_Buffer **out_buffer) {
  PJRT_Event *done = NULL;
  LS_RETURN_IF_ERROR(
      ls_pjrt_send(client_of(self), type, data, device, out_buffer, &done));
  push_event(self, done);
  return ls_ok();
}

static ls_status take_argument(pjrt_instance *self, const ls_run_args *args,
                               uint32_t index, int32_t device,
                               PJRT_Buffer **out_argument) {
  const ls_program *program = self->executable->program;
  if (index >= program->num_inputs) {
    ls_buffer *buffer = self->buffers[index - program->num_inputs];
    return ls_pjrt_buffer_part((ls_pjrt_buffer *)buffer, device, out_argument);
  }
  const ls_type type =
      ls_graph_type(program->body, program->body->parameters[index]);
  LS_RETURN_IF_ERROR(
      send_value(self, type, args->inputs[index], device, out_argument));
  self->sent[self->num_sent++] = *out_argument;
  return ls_ok();
}

// Sends the scalars that differ from those of the last run.
static ls_status take_scalars(pjrt_instance *self, const ls_run_args *args) {
  const uint64_t values[NUM_SCALARS] = {
      [STEP] = args->step,
      [SEED] = args->seed,
      [REPLICA] = (uint64_t)args->replica,
  };
  const ls_pjrt_executable *executable = self->executable;
  const int32_t devices = executable->num_devices;
  for (int32_t i = 0; i < NUM_SCALARS; ++i)
    for (int32_t d = 0; d < devices; ++d) {
      PJRT_Buffer **part = &self->scalar_parts[i * devices + d];
      if (values[i] != self->scalars[i]) {
        ls_pjrt_destroy(client_of(self)->plugin, LS_PJRT_Buffer_Destroy, *part);
        *part = NULL;
        if (d == devices - 1) self->scalars[i] = values[i];
      }
    }
  for (int32_t i = 0; i < NUM_SCALARS; ++i)
    for (int32_t d = 0; d < devices; ++d) {
      PJRT_Buffer **part = &self->scalar_parts[i * devices + d];
      if (*part == NULL)
        LS_RETURN_IF_ERROR(send_value(self, (ls_type){LS_DTYPE_U64, LS_SCALAR},
                                      &self->scalars[i], d, part));
      self->arguments[d][executable->layout.num_arguments + (size_t)i] = *part;
    }
  return ls_ok();
}

static ls_status take_arguments(pjrt_instance *self, const ls_run_args *args) {
  const ls_hlo_layout *layout = &self->executable->layout;
  for (int32_t d = 0; d < self->executable->num_devices; ++d)
    for (size_t a = 0; a < layout->num_arguments; ++a) {
      const ls_hlo_slot slot = layout->arguments[a];
      LS_RETURN_IF_ERROR(take_argument(self, args,
                                       slot.first + (uint32_t)d * slot.stride,
                                       d, &self->arguments[d][a]));
    }
  return layout->draws ? take_scalars(self, args) : ls_ok();
}

// ---- Launching -------------------------------------------------------------
// Drops the arguments that the launch has taken, or those of them that are
// gone.
static void drop_donated(pjrt_instance *self, bool only_deleted) {
  const ls_pjrt_executable *executable = self->executable;
  const ls_hlo_layout *layout = &executable->layout;
  const size_t num_inputs = executable->program->num_inputs;
  for (int32_t d = 0; d < executable->num_devices; ++d)
    for (size_t a = 0; a < layout->num_arguments; ++a) {
      const uint32_t index = layout->arguments[a].first +
                             (uint32_t)d * layout->arguments[a].stride;
      if (executable->aliases[index] < 0) continue;
      LS_PJRT_ARGS(ls_pjrt_flag_args, args, .object = self->arguments[d][a]);
      args.flag = true;
      if (only_deleted)
        ls_status_free(ls_pjrt_call(client_of(self)->plugin,
                                    LS_PJRT_Buffer_IsDeleted, &args));
      if (args.flag)
        ls_pjrt_buffer_drop((ls_pjrt_buffer *)self->buffers[index - num_inputs],
                            d);
    }
}

static ls_status launch_executable(pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  LS_PJRT_ARGS(ls_pjrt_execute_options, options, .launch = 0);
  LS_PJRT_ARGS(ls_pjrt_execute_args, args, .executable = executable->loaded,
               .options = &options,
               .arguments = (PJRT_Buffer *const *const *)self->arguments,
               .num_devices = (size_t)executable->num_devices,
               .num_arguments = executable->layout.num_arguments +
                                (executable->layout.draws ? NUM_SCALARS : 0),
               .results = self->results,
               .events = self->events + self->num_events);
  const ls_status status = ls_pjrt_call(
      client_of(self)->plugin, LS_PJRT_LoadedExecutable_Execute, &args);
  self->has_launched = ls_status_is_ok(status);
  // A launch that was refused may have taken some arguments.
  drop_donated(self, !self->has_launched);
  if (!self->has_launched) return status;
  PJRT_Event **launched = args.events;
  for (int32_t d = 0; d < executable->num_devices; ++d)
    push_event(self, launched[d]);
  self->num_needed = self->num_events;
  return ls_ok();
}

// Asks for the outputs that the caller wants.
static ls_status fetch_outputs(pjrt_instance *self, const ls_run_args *args) {
  const ls_pjrt_executable *executable = self->executable;
  const ls_hlo_layout *layout = &executable->layout;
  const ls_graph *body = executable->program->body;
  for (int32_t d = 0; d < executable->num_devices; ++d)
    for (size_t k = 0; k < layout->num_results; ++k) {
      const ls_hlo_slot slot = layout->results[k];
      const uint32_t index = slot.first + (uint32_t)d * slot.stride;
      if (index >= executable->program->num_outputs ||
          args->outputs[index] == NULL || (d > 0 && slot.stride == 0))
        continue;
      PJRT_Event *done = NULL;
      LS_RETURN_IF_ERROR(ls_pjrt_fetch(
          client_of(self), ls_graph_type(body, body->results[index]),
          self->results[d][k], args->outputs[index], &done));
      push_event(self, done);
    }
  return ls_ok();
}

// ---- Ends ------------------------------------------------------------------
// Keeps the first failure of a run.
static void fail_run(pjrt_instance *self, ls_status status) {
  if (ls_status_is_ok(self->status))
    self->status = status;
  else
    ls_status_free(status);
}

// Takes the status of the next event, waiting for it.
static void take_event(pjrt_instance *self) {
  PJRT_Event *event = self->events[self->num_ready];
  ls_status status = ls_pjrt_await(client_of(self)->plugin, event);
  self->has_failed |=
      !ls_status_is_ok(status) && self->num_ready < self->num_needed;
  ++self->num_ready;
  fail_run(self, status);
}

static void destroy_buffers(pjrt_instance *self, PJRT_Buffer **list,
                            size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ls_pjrt_destroy(client_of(self)->plugin, LS_PJRT_Buffer_Destroy, list[i]);
    list[i] = NULL;
  }
}

// Gives the new values of variables to their buffers.
static void publish_values(pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  const ls_hlo_layout *layout = &executable->layout;
  const size_t num_outputs = executable->program->num_outputs;
  for (size_t i = 0; i < executable->num_written; ++i)
    ls_pjrt_buffer_renew(new_buffer(self, executable->written[i]));
  for (int32_t d = 0; d < executable->num_devices; ++d)
    for (size_t k = 0; k < layout->num_results; ++k) {
      const ls_hlo_slot slot = layout->results[k];
      const size_t index = slot.first + (size_t)d * slot.stride;
      if (index < num_outputs) continue;
      const size_t use = executable->written[index - num_outputs];
      new_buffer(self, use)->parts[d] = self->results[d][k];
      self->results[d][k] = NULL;
    }
}

// Marks the variables whose old values the failed launch has taken.
static void mark_lost(pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  size_t num_lost = 0;
  for (size_t i = 0; i < executable->num_written; ++i) {
    ls_buffer *buffer = self->buffers[executable->written[i]];
    buffer->lost = !ls_pjrt_buffer_has_value((ls_pjrt_buffer *)buffer);
    num_lost += buffer->lost;
  }
  if (num_lost > 0)
    self->status = ls_status_annotate(
        self->status,
        "the run had taken the values of %zu variables, which are lost: "
        "restore or initialize them",
        num_lost);
}

// Ends a run on devices, whether it was launched or not.
static void end_run(pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  const size_t devices = (size_t)executable->num_devices;
  while (self->num_ready < self->num_events)
    take_event(self);
  destroy_buffers(self, self->sent, self->num_sent);
  if (self->has_launched && !self->has_failed)
    publish_values(self);
  else
    mark_lost(self);
  for (size_t d = 0; d < devices && self->has_launched; ++d)
    destroy_buffers(self, self->results[d], executable->layout.num_results);
  // Scalars that were not sent well are sent again.
  if (!ls_status_is_ok(self->status))
    destroy_buffers(self, self->scalar_parts, devices * NUM_SCALARS);
}

static ls_status start_on_devices(pjrt_instance *self,
                                  const ls_run_args *args) {
  self->num_events = self->num_ready = self->num_needed = self->num_sent = 0;
  self->has_launched = self->has_failed = false;
  LS_RETURN_IF_ERROR(take_arguments(self, args));
  LS_RETURN_IF_ERROR(launch_executable(self));
  return fetch_outputs(self, args);
}

// ---- Runs ------------------------------------------------------------------
ls_status ls_pjrt_start(ls_instance *instance, const ls_run_args *args) {
  pjrt_instance *self = instance_of(instance);
  if (self->host != NULL) return start_on_host(self, args);
  if (ls_cancel_any(args->cancels))
    return LS_STATUS(LS_CANCELLED, "the run was cancelled");
  self->steps = args->steps;
  self->status = start_on_devices(self, args);
  if (!ls_status_is_ok(self->status)) {
    end_run(self);
    return ls_give(&self->status);
  }
  ls_runtime_begin_work(self->executable->backend->base.runtime);
  return ls_ok();
}

static bool is_ready(const pjrt_instance *self) {
  LS_PJRT_ARGS(ls_pjrt_flag_args, args,
               .object = self->events[self->num_ready]);
  // An event that cannot tell is waited for.
  const ls_status status =
      ls_pjrt_call(client_of(self)->plugin, LS_PJRT_Event_IsReady, &args);
  ls_status_free(status);
  return args.flag || !ls_status_is_ok(status);
}

ls_run_state ls_pjrt_advance(ls_instance *instance) {
  pjrt_instance *self = instance_of(instance);
  if (self->host != NULL) return host_table(self)->advance(self->host);
  while (self->num_ready < self->num_events) {
    if (!is_ready(self)) return LS_RUN_WAITS;
    take_event(self);
  }
  return ls_status_is_ok(self->status) ? LS_RUN_ENDED : LS_RUN_FAILED;
}

void ls_pjrt_wait(ls_instance *const *instances, size_t count) {
  enum { MOST = 64 };
  ls_instance *hosts[MOST];
  size_t num_hosts = 0;
  for (size_t i = 0; i < count; ++i) {
    pjrt_instance *self = instance_of(instances[i]);
    if (self->host == NULL) {  // It ends by itself, and nothing can stop it.
      take_event(self);
      return;
    }
    if (num_hosts < MOST) hosts[num_hosts++] = self->host;
  }
  host_table(instance_of(instances[0]))->wait(hosts, num_hosts);
}

void ls_pjrt_stop(ls_instance *instance, ls_status status) {
  pjrt_instance *self = instance_of(instance);
  if (self->host != NULL)
    host_table(self)->stop(self->host, status);
  else
    fail_run(self, status);
}

ls_status ls_pjrt_finish(ls_instance *instance, bool *out_keeps) {
  pjrt_instance *self = instance_of(instance);
  if (self->host != NULL) return finish_on_host(self, out_keeps);
  ls_runtime *runtime = self->executable->backend->base.runtime;
  end_run(self);
  ls_runtime_end_work(runtime);
  *out_keeps = ls_status_is_ok(self->status);
  if (*out_keeps) ls_runtime_note_move(runtime);
  if (self->steps != NULL && *self->steps == 0) *self->steps = 1;
  return ls_give(&self->status);
}

// ---- Costs -----------------------------------------------------------------
static ls_status refuse_costs(void) {
  return ls_unimplemented("times of instructions on a device of a plug-in: "
                          "measure them with its own profiler");
}

ls_status ls_pjrt_measure(ls_instance *instance, bool on) {
  const pjrt_instance *self = instance_of(instance);
  return self->host != NULL ? host_table(self)->measure(self->host, on)
                            : refuse_costs();
}

ls_status ls_pjrt_print_cost(const ls_instance *instance, ls_text *text) {
  const pjrt_instance *self = instance_of(instance);
  return self->host != NULL ? host_table(self)->print_cost(self->host, text)
                            : refuse_costs();
}

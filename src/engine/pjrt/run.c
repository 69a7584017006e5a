// SPDX-License-Identifier: Apache-2.0
//
// Runs on devices. A run sends its inputs, launches the executable and asks for
// the outputs; then it waits until its inputs have been read and, unless the
// results may arrive late, for the launch and the outputs. The status of each
// event reaches a caller: that of a late launch comes with its outputs, and to
// a later run of the instance.
#include "engine/pjrt/host.h"

// ---- Arguments -------------------------------------------------------------
static void push_event(ls_pjrt_instance *self, PJRT_Event *event) {
  if (event != NULL) self->events[self->num_events++] = event;
}

static ls_status send_value(ls_pjrt_instance *self, ls_type type,
                            const void *data, int32_t device,
                            PJRT_Buffer **out_buffer) {
  PJRT_Event *done = NULL;
  LS_RETURN_IF_ERROR(ls_pjrt_send(ls_pjrt_client_of(self), type, data, device,
                                  out_buffer, &done));
  push_event(self, done);
  return ls_ok();
}

ls_status ls_pjrt_run_send(ls_pjrt_instance *self, ls_type type,
                           const void *data, int32_t device, size_t at) {
  PJRT_Buffer **argument = &self->arguments[device][at];
  LS_RETURN_IF_ERROR(send_value(self, type, data,
                                self->executable->devices[device], argument));
  self->sent[self->num_sent++] = *argument;
  return ls_ok();
}

static ls_status take_argument(ls_pjrt_instance *self, const ls_run_args *args,
                               size_t index, int32_t device, size_t at) {
  const ls_program *program = self->executable->program;
  if (index < program->num_inputs)
    return ls_pjrt_run_send(
        self, ls_graph_type(program->body, program->body->parameters[index]),
        args->inputs[index], device, at);
  ls_buffer *buffer = self->buffers[index - program->num_inputs];
  return ls_pjrt_buffer_part((ls_pjrt_buffer *)buffer,
                             self->executable->devices[device],
                             &self->arguments[device][at]);
}

static void destroy_buffers(const ls_pjrt_instance *self, PJRT_Buffer **list,
                            size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ls_pjrt_destroy(ls_pjrt_client_of(self)->plugin, LS_PJRT_Buffer_Destroy,
                    list[i]);
    list[i] = NULL;
  }
}

// Sends the scalar if it differs from that of the last run.
ls_status ls_pjrt_run_take(ls_pjrt_instance *self, size_t index,
                           uint64_t value) {
  const ls_pjrt_executable *executable = self->executable;
  const size_t at = self->num_arguments++;
  const size_t devices = (size_t)executable->num_devices;
  PJRT_Buffer **parts = self->scalar_parts + index * devices;
  if (self->scalars[index] != value) destroy_buffers(self, parts, devices);
  self->scalars[index] = value;
  for (size_t d = 0; d < devices; ++d) {
    if (parts[d] == NULL)
      LS_RETURN_IF_ERROR(send_value(self, (ls_type){LS_DTYPE_U64, LS_SCALAR},
                                    &self->scalars[index],
                                    executable->devices[d], &parts[d]));
    self->arguments[d][at] = parts[d];
  }
  return ls_ok();
}

static ls_status take_arguments(ls_pjrt_instance *self,
                                const ls_run_args *args) {
  const ls_hlo_layout *layout = &self->executable->layout;
  for (int32_t d = 0; d < self->executable->num_devices; ++d)
    for (size_t a = 0; a < layout->num_arguments; ++a)
      LS_RETURN_IF_ERROR(take_argument(
          self, args, ls_hlo_slot_at(layout->arguments[a], d), d, a));
  const uint64_t scalars[LS_PJRT_SCALARS] = {
      args->step, args->seed, (uint64_t)args->replica,
      self->hosts != NULL ? ls_pjrt_hosts_begin(self->hosts, args) : 0};
  const bool is_inside = self->hosts != NULL && self->around == NULL;
  self->num_arguments = layout->num_arguments;
  for (size_t i = 0; i < LS_PJRT_SCALARS; ++i)
    if (i == LS_PJRT_RUN ? is_inside : layout->draws)
      LS_RETURN_IF_ERROR(ls_pjrt_run_take(self, i, scalars[i]));
  return ls_ok();
}

// ---- Launching -------------------------------------------------------------
// Takes the devices for a launch, or gives them back. Two programs on several
// devices must come to all of these in one order, or each would wait on one
// device for the other; plug-ins do not see to it. Devices are locked in the
// order of their numbers.
static void hold_devices(const ls_pjrt_executable *self, bool holds) {
  const ls_pjrt_backend *backend = self->backend;
  for (int32_t i = 0; self->num_devices > 1 && i < backend->client.num_devices;
       ++i) {
    bool is_used = false;
    for (int32_t d = 0; d < self->num_devices; ++d)
      is_used |= self->devices[d] == i;
    if (is_used && holds) ls_mutex_lock(&backend->launching[i]);
    if (is_used && !holds) ls_mutex_unlock(&backend->launching[i]);
  }
}

// Drops the arguments that the launch has taken, or those of them that are
// gone.
static void drop_donated(ls_pjrt_instance *self, bool only_deleted) {
  const ls_pjrt_executable *executable = self->executable;
  const ls_hlo_layout *layout = &executable->layout;
  const size_t num_inputs = executable->program->num_inputs;
  for (int32_t d = 0; d < executable->num_devices; ++d)
    for (size_t a = 0; a < layout->num_arguments; ++a) {
      const size_t index = ls_hlo_slot_at(layout->arguments[a], d);
      if (executable->aliases[index] < 0) continue;
      LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = self->arguments[d][a]);
      args.answer.flag = true;
      if (only_deleted)
        ls_status_free(ls_pjrt_call(ls_pjrt_client_of(self)->plugin,
                                    LS_PJRT_Buffer_IsDeleted, &args));
      if (args.answer.flag)
        ls_pjrt_buffer_drop((ls_pjrt_buffer *)self->buffers[index - num_inputs],
                            executable->devices[d]);
    }
}

static ls_status launch_executable(ls_pjrt_instance *self, bool late) {
  const ls_pjrt_executable *executable = self->executable;
  const size_t devices = (size_t)executable->num_devices;
  PJRT_Event **launched =
      self->launched + self->num_launched % LS_PJRT_LAUNCHES * devices;
  LS_PJRT_ARGS(ls_pjrt_execute_options, options, .launch = 0);
  LS_PJRT_ARGS(ls_pjrt_execute_args, args, .executable = self->code->loaded,
               .options = &options,
               .arguments = (PJRT_Buffer *const *const *)self->arguments,
               .num_devices = devices, .num_arguments = self->num_arguments,
               .results = self->results, .events = launched);
  hold_devices(executable, true);
  const ls_status status = ls_pjrt_call(
      ls_pjrt_client_of(self)->plugin, LS_PJRT_LoadedExecutable_Execute, &args);
  hold_devices(executable, false);
  self->has_launched = ls_status_is_ok(status);
  // A launch that was refused may have taken some arguments.
  drop_donated(self, !self->has_launched);
  if (!self->has_launched) return status;
  for (size_t d = 0; d < devices && !late; ++d) {
    push_event(self, launched[d]);
    launched[d] = NULL;
  }
  ++self->num_launched;
  if (!late) self->num_ended = self->num_launched;
  self->num_needed = self->num_events;
  return ls_ok();
}

ls_status ls_pjrt_run_drain(ls_pjrt_instance *self, size_t end) {
  ls_status status = ls_ok();
  for (; self->num_ended < end; ++self->num_ended)
    for (size_t d = 0; d < (size_t)self->executable->num_devices; ++d) {
      PJRT_Event **event =
          &self->launched[self->num_ended % LS_PJRT_LAUNCHES *
                              (size_t)self->executable->num_devices +
                          d];
      status = ls_status_join(
          status, ls_pjrt_await(ls_pjrt_client_of(self)->plugin, *event));
      *event = NULL;
    }
  return status;
}

static bool is_ready(const ls_pjrt_instance *self, PJRT_Event *event) {
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = event);
  if (event == NULL) return true;
  // An event that cannot tell is waited for.
  const ls_status status = ls_pjrt_call(ls_pjrt_client_of(self)->plugin,
                                        LS_PJRT_Event_IsReady, &args);
  ls_status_free(status);
  return args.answer.flag || !ls_status_is_ok(status);
}

// Takes late launches that have ended, and waits for the oldest if there are
// too many; for all before a launch that is not late.
static ls_status take_launches(ls_pjrt_instance *self, bool late) {
  if (!late) return ls_pjrt_run_drain(self, self->num_launched);
  const size_t devices = (size_t)self->executable->num_devices;
  if (self->num_launched - self->num_ended == LS_PJRT_LAUNCHES)
    LS_RETURN_IF_ERROR(ls_pjrt_run_drain(self, self->num_ended + 1));
  while (self->num_ended < self->num_launched) {
    PJRT_Event *const *events =
        self->launched + self->num_ended % LS_PJRT_LAUNCHES * devices;
    for (size_t d = 0; d < devices; ++d)
      if (!is_ready(self, events[d])) return ls_ok();
    LS_RETURN_IF_ERROR(ls_pjrt_run_drain(self, self->num_ended + 1));
  }
  return ls_ok();
}

ls_status ls_pjrt_run_fetch(ls_pjrt_instance *self, ls_type type,
                            PJRT_Buffer *buffer, void *data) {
  PJRT_Event *done = NULL;
  LS_RETURN_IF_ERROR(
      ls_pjrt_fetch(ls_pjrt_client_of(self), type, buffer, data, &done));
  push_event(self, done);
  return ls_ok();
}

static ls_status fetch_output(ls_pjrt_instance *self, const ls_run_args *args,
                              size_t index, PJRT_Buffer *result) {
  const ls_graph *body = self->executable->program->body;
  if (args->outputs == NULL)
    return args->arrays[index] == NULL
               ? ls_ok()
               : ls_pjrt_fetch_late(self->executable->backend, result,
                                    args->arrays[index]);
  return args->outputs[index] == NULL
             ? ls_ok()
             : ls_pjrt_run_fetch(self,
                                 ls_graph_type(body, body->results[index]),
                                 result, args->outputs[index]);
}

static ls_status fetch_outputs(ls_pjrt_instance *self,
                               const ls_run_args *args) {
  const ls_hlo_layout *layout = &self->executable->layout;
  for (int32_t d = 0; d < self->executable->num_devices; ++d)
    for (size_t k = 0; k < layout->num_results; ++k) {
      const ls_hlo_slot slot = layout->results[k];
      const size_t index = ls_hlo_slot_at(slot, d);
      if (index < self->executable->program->num_outputs &&
          (d == 0 || slot.stride > 0))
        LS_RETURN_IF_ERROR(
            fetch_output(self, args, index, self->results[d][k]));
    }
  // The number of steps that loops made.
  return !layout->counts
             ? ls_ok()
             : ls_pjrt_run_fetch(self, (ls_type){LS_DTYPE_U64, LS_SCALAR},
                                 self->results[0][layout->num_results],
                                 &self->num_steps);
}

// ---- Ends ------------------------------------------------------------------
void ls_pjrt_run_fail(ls_pjrt_instance *self, ls_status status) {
  self->status = ls_status_join(self->status, status);
}

void ls_pjrt_run_wait(ls_pjrt_instance *self) {
  ls_status status = ls_pjrt_await(ls_pjrt_client_of(self)->plugin,
                                   self->events[self->num_ready]);
  self->has_failed |=
      !ls_status_is_ok(status) && self->num_ready < self->num_needed;
  ++self->num_ready;
  ls_pjrt_run_fail(self, status);
}

bool ls_pjrt_run_advance(ls_pjrt_instance *self) {
  while (self->num_ready < self->num_events) {
    if (!is_ready(self, self->events[self->num_ready])) return false;
    ls_pjrt_run_wait(self);
  }
  return true;
}

// Gives the new values of variables to their buffers.
static void publish_values(ls_pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  const ls_hlo_layout *layout = &executable->layout;
  const size_t num_outputs = executable->program->num_outputs;
  for (size_t i = 0; i < executable->num_written; ++i)
    ls_pjrt_buffer_renew(ls_pjrt_new_buffer(self, executable->written[i]));
  for (int32_t d = 0; d < executable->num_devices; ++d)
    for (size_t k = 0; k < layout->num_results; ++k) {
      const size_t index = ls_hlo_slot_at(layout->results[k], d);
      if (index < num_outputs) continue;
      const size_t use = executable->written[index - num_outputs];
      ls_pjrt_new_buffer(self, use)->parts[executable->devices[d]] =
          self->results[d][k];
      self->results[d][k] = NULL;
    }
}

// Marks the variables whose old values the failed launch has taken.
static void mark_lost(ls_pjrt_instance *self) {
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

// Returns true if all new values of variables are results of this loop.
static bool are_results_of(const ls_pjrt_executable *self, uint64_t loop) {
  const ls_graph *body = self->program->body;
  for (size_t i = self->program->num_outputs; i < body->num_results; ++i)
    if (ls_graph_node_of(body, body->results[i])->id != loop) return false;
  return loop != 0;
}

// Ends the calls of the host: the first failure of one is the run's, which
// keeps whole trips of a loop that all variables go round.
static void finish_hosts(ls_pjrt_instance *self) {
  uint64_t loop = 0;
  const ls_status status = ls_pjrt_hosts_finish(self->hosts, &loop);
  if (ls_status_is_ok(status)) return;
  self->keeps = ls_status_is_ok(self->status) && self->has_launched &&
                are_results_of(self->executable, loop);
  self->has_failed = !self->keeps;
  ls_status_free(self->status);
  self->status = status;
}

ls_status ls_pjrt_run_finish(ls_pjrt_instance *self) {
  const ls_pjrt_executable *executable = self->executable;
  const size_t devices = (size_t)executable->num_devices;
  if (self->hosts != NULL) finish_hosts(self);
  while (self->num_ready < self->num_events)
    ls_pjrt_run_wait(self);
  destroy_buffers(self, self->sent, self->num_sent);
  if (self->has_launched && !self->has_failed)
    publish_values(self);
  else
    mark_lost(self);
  for (size_t d = 0; d < devices && self->has_launched; ++d)
    destroy_buffers(self, self->results[d], ls_pjrt_num_results(executable));
  // Scalars that were not sent well are sent again.
  if (!ls_status_is_ok(self->status))
    destroy_buffers(self, self->scalar_parts, devices * LS_PJRT_SCALARS);
  if (self->steps != NULL && self->num_steps > *self->steps)
    *self->steps = self->num_steps;
  return ls_give(&self->status);
}

// Waits until all inputs are on their devices: a device that lacks one would
// fail alone, and XLA ends the process where others wait for it.
static ls_status await_inputs(ls_pjrt_instance *self) {
  while (self->num_ready < self->num_events)
    ls_pjrt_run_wait(self);
  return ls_give(&self->status);
}

static ls_status run_start(ls_pjrt_instance *self, const ls_run_args *args) {
  LS_RETURN_IF_ERROR(
      ls_pjrt_check_labels(self->executable, NULL, args->inputs, 1));
  LS_RETURN_IF_ERROR(take_launches(self, args->outputs == NULL));
  LS_RETURN_IF_ERROR(take_arguments(self, args));
  if (self->executable->num_devices > 1) LS_RETURN_IF_ERROR(await_inputs(self));
  if (self->hosts != NULL) return ls_pjrt_hosts_launch(self->hosts);
  LS_RETURN_IF_ERROR(launch_executable(self, args->outputs == NULL));
  return fetch_outputs(self, args);
}

static ls_status run_hosted(ls_pjrt_instance *self) {
  if (self->around != NULL) {
    LS_RETURN_IF_ERROR(ls_pjrt_around_begin(self));
    if (self->executable->num_devices > 1)
      LS_RETURN_IF_ERROR(await_inputs(self));
  }
  LS_RETURN_IF_ERROR(launch_executable(self, false));
  LS_RETURN_IF_ERROR(fetch_outputs(self, self->args));
  return self->around != NULL ? ls_pjrt_around_fetch(self) : ls_ok();
}

void ls_pjrt_run_hosted(ls_pjrt_instance *self) {
  ls_pjrt_run_fail(self, run_hosted(self));
  while (self->num_ready < self->num_events)
    ls_pjrt_run_wait(self);
  if (self->around != NULL && ls_status_is_ok(self->status))
    ls_pjrt_around_end(self);
}

// Reads a number that is an input or the value of a variable.
static ls_status read_number(const ls_pjrt_instance *self,
                             const ls_run_args *args, size_t index,
                             int64_t *out) {
  const ls_program *program = self->executable->program;
  const ls_graph *body = program->body;
  const void *data = NULL;
  *out = 0;
  if (index < program->num_inputs)
    data = args->inputs[index];
  else
    LS_RETURN_IF_ERROR(
        ls_pjrt_look(self->buffers[index - program->num_inputs], &data));
  if (data == NULL) return ls_ok();
  *out = ls_graph_type(body, body->parameters[index]).dtype == LS_DTYPE_I64
             ? *(const int64_t *)data
             : *(const int32_t *)data;
  return ls_ok();
}

ls_status ls_pjrt_run_prepare(ls_pjrt_instance *self, const ls_run_args *args) {
  const ls_emit_around *around = &self->executable->layout.around;
  self->trips = around->trips.most;
  if (around->loop != NULL && around->trips.limit >= 0) {
    LS_RETURN_IF_ERROR(
        read_number(self, args, (size_t)around->trips.limit, &self->trips));
    if (around->trips.most > 0 && self->trips > around->trips.most)
      self->trips = around->trips.most;
    if (self->trips < 0) self->trips = 0;
    return ls_ok();
  }
  self->code = self->executable->codes;
  return ls_ok();
}

ls_status ls_pjrt_run_start(ls_pjrt_instance *self, const ls_run_args *args) {
  self->num_events = self->num_ready = self->num_needed = self->num_sent = 0;
  self->has_launched = self->has_failed = self->keeps = false;
  self->steps = args->steps;
  self->num_steps = 1;
  self->args = args;
  const ls_status status = run_start(self, args);
  if (ls_status_is_ok(status))
    return ls_ok();  // Another thread may run it now.
  self->status = status;
  return ls_pjrt_run_finish(self);
}

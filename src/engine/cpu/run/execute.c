// SPDX-License-Identifier: Apache-2.0
//
// Execution: one interpreter for all streams, and the order in which they run.
//
// The caller's thread alternates between the shared stream, until it parks, and
// a round over the lanes (lanes.h), each until it parks or ends. If neither
// progresses and no host call is under way, the run is deadlocked.
#include "base/runtime_internal.h"
#include "base/threads/workers.h"
#include "engine/cpu/run/host_call.h"
#include "engine/cpu/run/instance.h"
#include "engine/cpu/run/lanes.h"
#include "engine/cpu/run/numbers.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/sums.h"
#include "net/waiting.h"

// ---- Streams ---------------------------------------------------------------
static inline void **resolve_all(const ls_executable *executable,
                                 const ls_cpu_worker *worker,
                                 const ls_cpu_instruction *instruction) {
  const ls_cpu_place *places = executable->places + instruction->operand;
  const uint32_t count = instruction->num_in + instruction->num_out;
  void **operands = worker->operands;
  for (uint32_t i = 0; i < count; ++i)
    operands[i] = ls_cpu_resolve(worker, places[i]);
  return operands;
}

// Executes a push or a pop. Returns false if the run has failed.
static bool use_stack(ls_instance *self, ls_cpu_worker *worker,
                      ls_cpu_stack_pool *pools, uint32_t pc, void **operands) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[pc];
  ls_cpu_stack *stack = *(ls_cpu_stack **)operands[0];
  const size_t size = (size_t)at->size;
  ls_status status =
      at->code == LS_CPU_STACK_PUSH
          ? ls_cpu_stack_push(&self->stacks, pools, stack, operands[1], size,
                              operands[2])
          : ls_cpu_stack_pop(&self->stacks, pools, executable, stack,
                             operands[2], size, at->number != 0, operands[1]);
  if (ls_status_is_ok(status)) return true;
  ls_cpu_worker_fail(
      worker, ls_status_annotate(status, "in %s", executable->notes[pc].label));
  return false;
}

// Checks labels. Returns false if the run has failed.
static bool check_labels(ls_instance *self, ls_cpu_worker *worker, uint32_t pc,
                         void *const *operands) {
  const ls_executable *executable = self->executable;
  ls_status status =
      ls_labels_check(executable->instructions[pc].params, operands[0]);
  if (ls_status_is_ok(status)) return true;
  ls_cpu_worker_fail(
      worker, ls_status_annotate(status, "in %s", executable->notes[pc].label));
  return false;
}

// Stopwatch of the current instruction.
typedef struct meter {
  const ls_runtime *clock;
  ls_cpu_cost *costs;  // NULL: not measured.
  ls_cpu_cost *at;
  uint64_t since;
  // Number of workers at work in parallel: the time of each counts for a part.
  uint64_t workers;
} meter;

// Adds the elapsed time to the current instruction and switches to the next.
static void meter_move(meter *m, ls_cpu_cost *next) {
  const uint64_t now_ns = (uint64_t)ls_runtime_now(m->clock);
  if (m->at != NULL) {
    m->at->nanos += (now_ns - m->since) / m->workers;
    ++m->at->runs;
  }
  m->at = next;
  m->since = now_ns;
}

static ls_status start_sums(ls_instance *self, const ls_cpu_instruction *at,
                            uint64_t iteration) {
  const ls_cpu_sums *sums = at->params;
  void **operands = self->flights[sums->index].operands;
  for (uint32_t i = 0; i < at->num_in + at->num_out; ++i)
    operands[i] = ls_cpu_resolve(&self->workers[0],
                                 self->executable->places[at->operand + i]);
  return ls_cpu_sums_start(self, sums, at, iteration);
}

// Runs an instruction that exchanges values with other ranks. Returns false if
// the run has failed.
static bool run_exchange(ls_instance *self, ls_cpu_worker *worker,
                         const ls_cpu_instruction *at, uint64_t iteration) {
  ls_status status =
      at->code == LS_CPU_EXCHANGE ? ls_cpu_exchange_batched(self, at, iteration)
      : at->code == LS_CPU_SUMS_START ? start_sums(self, at, iteration)
                                      : ls_cpu_sums_finish(self, at->params);
  if (ls_status_is_ok(status)) return true;
  ls_cpu_worker_fail(worker, ls_cpu_annotate_merge(self, at, status));
  return false;
}

// Sends the results of all replicas to all ranks. Returns false if the run has
// failed.
static bool share_results(ls_instance *self, ls_cpu_worker *worker) {
  if (self->executable->communicator == NULL) return true;
  ls_status status = ls_cpu_exchange_results(self);
  if (ls_status_is_ok(status)) return true;
  ls_cpu_worker_fail(worker, status);
  return false;
}

static ls_status cancelled_status(void) {
  return LS_STATUS(LS_CANCELLED, "the run was cancelled");
}

static int32_t event_id(const ls_instance *self, const ls_cpu_stream *stream) {
  return stream == &self->main ? LS_CPU_MAIN : stream->replica;
}

bool ls_cpu_run_stream(ls_instance *self, ls_cpu_worker *worker,
                       ls_cpu_stream *stream) {
  const ls_executable *executable = self->executable;
  const ls_cpu_team *team = worker->team;
  const ls_cpu_instruction *code = executable->instructions;
  ls_kernel_call call = {
      .scratch = team->scratch,
      .step = stream->step,
      .seed = self->seed,
      .iteration = stream->iteration,
      .replica = stream->replica,
      .team = team,
  };
  ls_cpu_stack_pool *pools = ls_cpu_stacks_of(
      &self->stacks,
      stream == &self->main ? 0 : (size_t)(stream - self->lanes) + 1);
  meter time = {executable->backend->runtime, .costs = worker->costs,
                .workers = ls_cpu_workers_in(self, worker)};
  const int64_t began = ls_cpu_span_begin(self);
  const uint32_t begin = stream->pc;
  uint32_t pc = begin;
  for (bool has_moved = false;; has_moved = true) {
    const ls_cpu_instruction *at = &code[pc];
    LS_CPU_SET(stream->pc, pc);
    if (time.costs != NULL) meter_move(&time, &time.costs[pc]);
    void **operands = NULL;
    bool parks = false;
    switch (at->code) {
    case LS_CPU_KERNEL:
      operands = resolve_all(executable, worker, at);
      call.in = (const void *const *)operands;
      call.out = operands + at->num_in;
      call.params = at->params;
      call.adds = at->adds_to != 0 && worker->adds[at->adds_to - 1];
      if (worker->numbers != NULL)
        ls_cpu_numbers_before(self, worker, pc, operands);
      if (at->number != 0)
        ls_cpu_team_run(team, at->loop, &call, at->size);
      else
        at->loop(&call, 0, at->size);
      if (worker->numbers != NULL)
        ls_cpu_numbers_after(self, worker, stream->replica, pc, operands);
      if (self->num_incomplete > 0) ls_cpu_sums_proceed(self);
      ++pc;
      continue;
    case LS_CPU_COPY:
      operands = resolve_all(executable, worker, at);
      memcpy(operands[1], operands[0], (size_t)at->size);
      ++pc;
      continue;
    case LS_CPU_LABELS:
      parks =
          !check_labels(self, worker, pc, resolve_all(executable, worker, at));
      break;
    case LS_CPU_BRANCH:
      operands = resolve_all(executable, worker, at);
      pc = *(const uint8_t *)operands[0] != 0 ? pc + 1 : at->target;
      continue;
    case LS_CPU_JUMP:
      pc = at->target;
      continue;
    case LS_CPU_LOOP_BEGIN: {
      ls_cpu_loop_state *state = resolve_all(executable, worker, at)[0];
      *state = (ls_cpu_loop_state){.outer_iteration = call.iteration,
                                   .outer_step = call.step};
      ++pc;
      continue;
    }
    case LS_CPU_LOOP_NEXT: {
      parks = executable->may_stop && ls_cancel_any(self->cancels);
      if (parks) {
        ls_cpu_worker_fail(worker, cancelled_status());
        break;
      }
      ls_cpu_loop_state *state = resolve_all(executable, worker, at)[0];
      const int64_t trip = state->trips++;
      if (at->size > 0 && trip == at->size) {
        pc = at->target;
        continue;
      }
      if (at->number != 0) {
        if (trip > stream->steps) stream->steps = trip;
        call.step = state->outer_step + (uint64_t)trip;
      } else {
        call.iteration = ls_cpu_iteration(state->outer_iteration, trip);
      }
      ++pc;
      continue;
    }
    case LS_CPU_LOOP_END: {
      const ls_cpu_loop_state *state = resolve_all(executable, worker, at)[0];
      call.iteration = state->outer_iteration;
      call.step = state->outer_step;
      if (at->number != 0 && state->trips - 1 > stream->steps)
        stream->steps = state->trips - 1;
      ++pc;
      continue;
    }
    case LS_CPU_STACK_NEW:
      operands = resolve_all(executable, worker, at);
      *(ls_cpu_stack **)operands[0] = &pools[at->number].empty;
      ++pc;
      continue;
    case LS_CPU_STACK_PUSH:
    case LS_CPU_STACK_POP:
      parks = !use_stack(self, worker, pools, pc,
                         resolve_all(executable, worker, at));
      break;
    case LS_CPU_HOST_START:
      ls_cpu_start_host(self, stream, at, resolve_all(executable, worker, at));
      ls_cpu_record(&worker->recorder, LS_CPU_EVENT_HOST,
                    event_id(self, stream), pc, pc);
      ++pc;
      continue;
    case LS_CPU_HOST_FINISH:
      parks = !ls_cpu_finish_host(self, worker, stream, at,
                                  resolve_all(executable, worker, at)) ||
              !ls_status_is_ok(worker->status);
      break;
    case LS_CPU_LAUNCH:
      stream->iteration = call.iteration;
      stream->step = call.step;
      ls_cpu_launch_lanes(self, at);
      break;
    case LS_CPU_AWAIT:
      parks = self->slots[at->number].generation == 0;
      break;
    case LS_CPU_PUBLISH:
      self->published = at->number;
      break;
    case LS_CPU_JOIN:
      parks = self->num_running > 0 || !share_results(self, worker);
      if (parks) break;
      pc = at->target;
      continue;
    case LS_CPU_EQUAL:
      operands = resolve_all(executable, worker, at);
      ls_cpu_merge_equal(at->params, &call, operands[0], operands[1],
                         operands[2], operands[3]);
      break;
    case LS_CPU_EXCHANGE:
    case LS_CPU_SUMS_START:
    case LS_CPU_SUMS_FINISH:
      parks = !run_exchange(self, worker, at, call.iteration);
      break;
    case LS_CPU_SELECT:
      pc = ((const uint32_t *)at->params)[stream->replica] == at->number
               ? at->target
               : pc + 1;
      continue;
    case LS_CPU_WAIT:
      parks = self->published < at->number;
      break;
    case LS_CPU_TURN:
      parks = ls_cpu_arrived_beyond(self, self->launch->params, at->number,
                                    stream->replica) != 0;
      break;
    case LS_CPU_POST:
      parks = !ls_cpu_post(self, worker, stream, at, &call,
                           resolve_all(executable, worker, at));
      break;
    case LS_CPU_MEET:
      // The lane that posts last also waits for the next round, to keep the
      // order.
      parks = self->slots[at->number].generation == stream->generation ||
              self->round == stream->round;
      if (parks) break;
      operands = resolve_all(executable, worker, at);
      memcpy(operands[1], operands[0], (size_t)at->size);
      break;
    case LS_CPU_END:
      LS_CPU_SET(stream->has_ended, true);
      parks = true;
      has_moved = true;
      break;
    case LS_CPU_NOTHING:
      break;
    }
    if (parks) {
      if (time.costs != NULL) meter_move(&time, NULL);
      stream->iteration = call.iteration;
      stream->step = call.step;
      if (has_moved) {
        ls_cpu_record(&worker->recorder, LS_CPU_EVENT_RUN,
                      event_id(self, stream), begin, pc);
        ls_cpu_span_stream(self, stream, begin, began);
      }
      return has_moved;
    }
    ++pc;
  }
}

// Advances all streams. Returns true when the run ends, false when it waits for
// the host.
static bool run_streams(ls_instance *self, ls_cpu_worker *worker) {
  ls_runtime *runtime = self->executable->backend->runtime;
  for (;;) {
    self->host_seen = ls_cpu_host_events(self);
    bool has_moved = ls_cpu_run_stream(self, worker, &self->main);
    if (!ls_status_is_ok(worker->status) || self->main.has_ended) return true;
    if (self->num_running > 0 && ls_cpu_run_round(self)) has_moved = true;
    if (!ls_status_is_ok(worker->status)) return true;
    if (!has_moved) break;
    ls_runtime_note_move(runtime);
  }
  if (!ls_cpu_host_is_idle(self)) return false;
  ls_cpu_worker_fail(worker, ls_cpu_deadlock(self));
  return true;
}

// ---- Runs ------------------------------------------------------------------
static ls_status set_bases(ls_instance *self, const ls_run_args *args) {
  const ls_executable *executable = self->executable;
  const ls_program *program = executable->program;
  char **inputs = self->workers[0].bases + ls_cpu_base_inputs();
  for (size_t i = 0; i < program->num_inputs; ++i) {
    // Casts const away: inputs are never written.
    inputs[i] = (char *)(uintptr_t)args->inputs[i];
  }
  char **outputs = self->workers[0].bases + ls_cpu_base_outputs(executable);
  for (size_t i = 0; i < program->num_outputs; ++i) {
    outputs[i] = args->outputs == NULL ? NULL : args->outputs[i];
    if (outputs[i] != NULL) continue;
    LS_RETURN_IF_ERROR(ls_cpu_make_spares(self));
    outputs[i] = self->spares + executable->spare_offsets[i];
  }
  return ls_ok();
}

// Initializes the state of a run.
static ls_status init_run(ls_instance *self, const ls_run_args *args) {
  // Makes records in place of those that a failed run has abandoned.
  LS_RETURN_IF_ERROR(ls_cpu_init_host(self));
  LS_RETURN_IF_ERROR(set_bases(self, args));
  LS_CPU_SET(self->step, args->step);
  self->number = args->number;
  self->limit = ls_exchange_limit();
  self->seed = args->seed;
  self->run = args->run;
  self->is_at_end = false;
  self->steps = args->steps;
  memcpy(self->cancels, args->cancels, sizeof(self->cancels));
  LS_CPU_SET(self->num_running, 0);
  LS_CPU_SET(self->main.pc, 0);
  self->main.iteration = 0;
  self->main.step = args->step;
  self->main.steps = 0;
  if (self->executable->lanes_count_steps)
    for (uint32_t i = 0; i < self->executable->num_lanes; ++i)
      self->lanes[i].steps = 0;
  self->main.replica = args->replica;
  LS_CPU_SET(self->main.has_ended, false);
  self->runs += self->workers[0].costs != NULL;
  if (self->workers[0].numbers != NULL) ls_cpu_numbers_begin(self);
  ls_cpu_stacks_reset(&self->stacks);
  ls_cpu_record(&self->workers[0].recorder, LS_CPU_EVENT_STEP, LS_CPU_MAIN,
                (uint32_t)args->step, 0);
  LS_CPU_SET(self->is_running, true);
  return ls_ok();
}

// Returns how many steps the run has made. A trip in which it failed counts if
// variables have the values of the trip.
static uint64_t count_steps(const ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_cpu_trips *trips = &executable->trips;
  const ls_cpu_instruction *loop = &executable->instructions[trips->begin];
  int64_t most = self->main.steps > 1 ? self->main.steps : 1;
  if (trips->has_trips && loop->number != 0 && self->main.pc > trips->last &&
      self->main.pc < loop->target) {
    const ls_cpu_loop_state *state = ls_cpu_resolve(
        &self->workers[0], executable->places[loop->operand]);
    if (state->trips > most) most = state->trips;
  }
  for (uint32_t i = 0;
       executable->lanes_count_steps && i < executable->num_lanes; ++i)
    if (self->lanes[i].steps > most) most = self->lanes[i].steps;
  return (uint64_t)most;
}

ls_status ls_cpu_start(ls_instance *self, const ls_run_args *args) {
  if (ls_cancel_any(args->cancels)) return cancelled_status();
  return init_run(self, args);
}

ls_run_state ls_cpu_advance(ls_instance *self) {
  ls_cpu_worker *caller = &self->workers[0];
  if (ls_cancel_any(self->cancels))
    ls_cpu_worker_fail(caller, cancelled_status());
  if (!ls_status_is_ok(caller->status)) return LS_RUN_FAILED;
  ls_runtime *runtime = self->executable->backend->runtime;
  self->float_mode = ls_float_mode_enter();
  ls_runtime_begin_work(runtime);
  const bool is_over = run_streams(self, caller);
  ls_runtime_end_work(runtime);
  ls_float_mode_leave(self->float_mode);
  if (!ls_status_is_ok(caller->status)) return LS_RUN_FAILED;
  return is_over ? LS_RUN_ENDED : LS_RUN_WAITS;
}

void ls_cpu_stop(ls_instance *self, ls_status status) {
  ls_cpu_worker_fail(&self->workers[0], status);
}

// Returns true if variables hold values of whole trips at the current position.
static bool is_between_trips(const ls_instance *self) {
  const ls_cpu_trips *trips = &self->executable->trips;
  const uint32_t pc = self->main.pc;
  return trips->has_trips && trips->begin <= pc &&
         (pc < trips->first || pc > trips->last);
}

// Adds the status of the interrupted host call to that of a cancelled run.
// Takes ownership of both.
static ls_status join_call_status(ls_status status, ls_status call) {
  if (ls_status_is_ok(call) || ls_status_code(status) != LS_CANCELLED) {
    ls_status_free(call);
    return status;
  }
  const ls_status joined =
      LS_STATUS(LS_CANCELLED, "%s: %s", ls_status_message(status),
                ls_status_message(call));
  ls_status_free(status);
  ls_status_free(call);
  return joined;
}

ls_status ls_cpu_finish_run(ls_instance *self, bool *out_keeps) {
  ls_status status = self->workers[0].status;
  self->workers[0].status = NULL;
  *out_keeps = ls_status_is_ok(status) || is_between_trips(self);
  if (ls_status_is_ok(status)) {
    ls_runtime_note_move(self->executable->backend->runtime);
  } else {
    ls_communicator *communicator = self->executable->communicator;
    if (communicator != NULL && !self->is_at_end)
      communicator->cancel(communicator, status);
    ls_cpu_sums_drain(self);
    status = join_call_status(
        status, ls_cpu_drain_host(self, ls_status_code(status) !=
                                            LS_DEADLINE_EXCEEDED));
  }
  if (self->workers[0].numbers != NULL) ls_cpu_numbers_end(self);
  ls_cpu_return_all_lent(self);
  LS_CPU_SET(self->is_running, false);
  if (self->steps != NULL && count_steps(self) > *self->steps)
    *self->steps = count_steps(self);
  return status;
}

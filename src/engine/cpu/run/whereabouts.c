// SPDX-License-Identifier: Apache-2.0
//
// The position report of a run that cannot continue, or that somebody inspects.
// The run may progress while it is printed, so each variable that changes in a
// run is loaded once, and the lines need not fit together.

#include "base/plain.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "engine/cpu/run/host_call.h"
#include "engine/cpu/run/lanes.h"

// ---- Positions -------------------------------------------------------------
static void print_place(const ls_instance *self, uint32_t pc, ls_text *text) {
  const ls_executable *executable = self->executable;
  const ls_cpu_note *note = &executable->notes[pc];
  const ls_cpu_code code = executable->instructions[pc].code;
  if (code == LS_CPU_END) {
    ls_text_append(text, "the end");
  } else if (note->label != NULL) {
    ls_text_append(text, note->label);
  } else {
    const bool is_kernel = code == LS_CPU_KERNEL && note->kind == NULL;
    ls_text_append_format(text, "%s '%s'",
                          is_kernel && note->node != NULL
                              ? ls_node_info(note->node)->name
                          : note->kind != NULL ? note->kind
                                               : ls_cpu_code_name(code),
                          note->name != NULL ? note->name : "");
  }
}

// Describes the activity of a stream at an instruction.
static const char *activity_at(const ls_cpu_instruction *at) {
  switch (at->code) {
  case LS_CPU_WAIT:
    return "waiting for the value of";
  case LS_CPU_AWAIT:
  case LS_CPU_MEET:
    return "waiting for other replicas at";
  case LS_CPU_TURN:
  case LS_CPU_POST:
    return "waiting for lower replicas at";
  case LS_CPU_HOST_START:
  case LS_CPU_HOST_FINISH:
    return "waiting for the host in";
  case LS_CPU_JOIN:
    return "waiting for the replicas to end";
  case LS_CPU_EXCHANGE:
  case LS_CPU_SUMS_START:
  case LS_CPU_SUMS_FINISH:
    return "with other ranks at";
  default:
    return "in";
  }
}

// Prints the time of the oldest host call that a stream at this position waits
// for.
static void print_host_time(const ls_instance *self, uint32_t pc,
                            ls_text *text) {
  const ls_executable *executable = self->executable;
  if (executable->instructions[pc].code != LS_CPU_HOST_FINISH) return;
  const int64_t now_ns = ls_runtime_now(executable->backend->runtime);
  int64_t longest = 0;
  for (uint32_t i = 0; i <= executable->num_lanes; ++i) {
    const ls_cpu_stream *stream = i == 0 ? &self->main : &self->lanes[i - 1];
    if (LS_CPU_SEEN(stream->pc) != pc) continue;
    const int64_t time = now_ns - LS_CPU_SEEN(stream->host_since);
    if (time > longest) longest = time;
  }
  ls_text_append_format(text, ", for %.3g s", (double)longest * 1e-9);
  const ls_cpu_host *host = executable->instructions[pc].params;
  char words[256] = "";
  if (host->kernel->tell == NULL) return;
  host->kernel->tell(host->state, words, sizeof(words));
  ls_text_append_format(text, ": %s", words);
}

// ---- Lanes -----------------------------------------------------------------
// Prints numbers as ranges: "0-2, 5 and 7 more".
typedef struct ranges {
  ls_text *text;
  int32_t begin, end;  // The open range; empty: none.
  uint32_t printed, count;
} ranges;

static void close_range(ranges *self) {
  enum { MOST = 8 };
  if (self->begin == self->end) return;
  if (self->printed++ < MOST) {
    ls_text_append_format(self->text, "%s%d", self->printed == 1 ? "" : ", ",
                          self->begin);
    if (self->end - self->begin > 1)
      ls_text_append_format(self->text, "-%d", self->end - 1);
    self->count += (uint32_t)(self->end - self->begin);
  }
}

static void add_number(ranges *self, int32_t number) {
  if (number != self->end || self->begin == self->end) {
    close_range(self);
    self->begin = number;
  }
  self->end = number + 1;
}

static void end_ranges(ranges *self, uint32_t with_others) {
  close_range(self);
  if (with_others > self->count) {
    ls_text_append_format(self->text, " and %u more",
                          with_others - self->count);
  }
}

// Selects lanes of a launch: those at a position, or those that have posted, or
// not posted, to a slot.
typedef struct lane_choice {
  const ls_cpu_launch *launch;
  uint32_t pc;
  bool by_slot;
  uint32_t slot;
  bool has_posted;
} lane_choice;

static const ls_cpu_stream *lane_of(const ls_instance *self,
                                    const ls_cpu_launch *launch, int32_t r) {
  return &self->lanes[r - launch->share.first];
}

static bool selects_lane(const ls_instance *self, const lane_choice *choice,
                         int32_t r) {
  const ls_cpu_stream *lane = lane_of(self, choice->launch, r);
  if (!choice->by_slot)
    return !LS_CPU_SEEN(lane->has_ended) && LS_CPU_SEEN(lane->pc) == choice->pc;
  return (ls_cpu_arrived_beyond(self, choice->launch, choice->slot, r) > 0) ==
         choice->has_posted;
}

static uint32_t count_lanes(const ls_instance *self,
                            const lane_choice *choice) {
  const ls_cpu_share *share = &choice->launch->share;
  uint32_t count = 0;
  for (int32_t r = share->first; r < share->end; ++r)
    count += selects_lane(self, choice, r);
  return count;
}

static void print_lanes(const ls_instance *self, const lane_choice *choice,
                        ls_text *text) {
  const ls_cpu_share *share = &choice->launch->share;
  const uint32_t count = count_lanes(self, choice);
  ranges numbers = {.text = text, .begin = -1, .end = -1};
  ls_text_append(text, count == 1 ? "replica " : "replicas ");
  for (int32_t r = share->first; r < share->end; ++r)
    if (selects_lane(self, choice, r)) add_number(&numbers, r);
  end_ranges(&numbers, count);
}

// Prints the replicas whose calls are under way, for a call of all replicas.
static void print_calls(const ls_instance *self, uint32_t pc, ls_text *text) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[pc];
  if (at->code != LS_CPU_HOST_FINISH) return;
  const ls_cpu_host *host = at->params;
  if (!host->is_for_all) return;
  const ls_cpu_site *site = &self->sites[host->site];
  if (site->count < 2) return;
  ranges numbers = {.text = text, .begin = -1, .end = -1};
  uint32_t count = 0;
  ls_text_append(text, ", whose calls are out for replicas ");
  for (uint32_t i = 0; i < site->count; ++i) {
    if (!LS_CPU_SEEN(site->is_out[i])) continue;
    add_number(&numbers, host->share.first + (int32_t)i);
    ++count;
  }
  end_ranges(&numbers, count);
}

// Returns true if a lower lane stands at the same position.
static bool is_printed(const ls_instance *self, const ls_cpu_launch *launch,
                       int32_t replica) {
  const lane_choice same = {
      .launch = launch, .pc = LS_CPU_SEEN(lane_of(self, launch, replica)->pc)};
  for (int32_t r = launch->share.first; r < replica; ++r)
    if (selects_lane(self, &same, r)) return true;
  return false;
}

static void print_all_lanes(const ls_instance *self,
                            const ls_cpu_launch *launch, ls_text *text) {
  const ls_executable *executable = self->executable;
  uint32_t num_ended = 0;
  for (int32_t r = launch->share.first; r < launch->share.end; ++r) {
    const ls_cpu_stream *lane = lane_of(self, launch, r);
    if (LS_CPU_SEEN(lane->has_ended)) {
      ++num_ended;
      continue;
    }
    if (is_printed(self, launch, r)) continue;
    const uint32_t pc = LS_CPU_SEEN(lane->pc);
    ls_text_append(text, "  ");
    print_lanes(self, &(lane_choice){.launch = launch, .pc = pc}, text);
    ls_text_append_format(text, ": %s ",
                          activity_at(&executable->instructions[pc]));
    print_place(self, pc, text);
    print_host_time(self, pc, text);
    ls_text_append_char(text, '\n');
  }
  if (num_ended > 0) {
    ls_text_append_format(text, "  %u replica%s ended\n", num_ended,
                          num_ended == 1 ? " has" : "s have");
  }
}

// ---- Merges ----------------------------------------------------------------
static bool is_of_launch(const ls_cpu_launch *launch, uint32_t slot) {
  return slot >= launch->first_slot &&
         slot < launch->first_slot + launch->num_slots;
}

// Prints the merges that some replicas have reached and others have not.
static void print_merges(const ls_instance *self, const ls_cpu_launch *launch,
                         ls_text *text) {
  const ls_executable *executable = self->executable;
  const uint32_t replicas = ls_cpu_num_local(&launch->share);
  for (uint32_t pc = 0; pc < executable->num_instructions; ++pc) {
    const ls_cpu_instruction *at = &executable->instructions[pc];
    if (at->code != LS_CPU_POST) continue;
    if (!is_of_launch(launch, at->number)) continue;
    lane_choice choice = {.launch = launch,
                          .by_slot = true,
                          .slot = at->number,
                          .has_posted = true};
    const uint32_t arrived = count_lanes(self, &choice);
    if (arrived == 0 || arrived >= replicas) continue;
    ls_text_append(text, "  at ");
    print_place(self, pc, text);
    ls_text_append(text, ": ");
    print_lanes(self, &choice, text);
    ls_text_append(text, " arrived, ");
    choice.has_posted = false;
    print_lanes(self, &choice, text);
    ls_text_append(text, " not\n");
  }
}

// ---- Events ----------------------------------------------------------------
static void print_event(const ls_instance *self, const ls_cpu_event *event,
                        ls_text *text) {
  const uint64_t path = LS_CPU_SEEN(event->path);
  const uint64_t stream = LS_CPU_SEEN(event->who);
  const uint32_t from = (uint32_t)(path >> 32), target = (uint32_t)path;
  const int32_t replica = (int32_t)(uint32_t)stream;
  const ls_cpu_event_kind kind = (ls_cpu_event_kind)(stream >> 32);
  const size_t most = self->executable->num_instructions;
  if (kind == LS_CPU_EVENT_STEP) {
    ls_text_append_format(text, "    step %u began\n", from);
    return;
  }
  // The halves of two different events may not fit together.
  if (kind == LS_CPU_EVENT_NONE || from >= most || target >= most) return;
  if (replica == LS_CPU_MAIN)
    ls_text_append(text, "    shared code");
  else
    ls_text_append_format(text, "    replica %d", replica);
  ls_text_append(text, kind == LS_CPU_EVENT_HOST ? " called the host in "
                                                 : " ran from ");
  print_place(self, from, text);
  if (kind == LS_CPU_EVENT_RUN) {
    ls_text_append(text, " to ");
    print_place(self, target, text);
  }
  ls_text_append_char(text, '\n');
}

static void print_events(const ls_instance *self,
                         const ls_cpu_recorder *recorder, ls_text *text) {
  enum { MOST_EVENTS = 16 };
  const uint32_t count = LS_CPU_SEEN(recorder->count);
  const uint32_t num_events = count < MOST_EVENTS ? count : MOST_EVENTS;
  ls_text_append(text, "  the last events, newest first:\n");
  for (uint32_t i = 1; i <= num_events; ++i)
    print_event(self, &recorder->events[(count - i) % LS_CPU_EVENTS], text);
}

// ---- The table -------------------------------------------------------------
static void print_places(const ls_instance *self, ls_text *text) {
  const uint32_t pc = LS_CPU_SEEN(self->main.pc);
  const ls_cpu_instruction *at = &self->executable->instructions[pc];
  ls_text_append_format(text, "step %llu\n",
                        (unsigned long long)LS_CPU_SEEN(self->step));
  ls_text_append_format(text, "  shared code: %s", activity_at(at));
  if (at->code != LS_CPU_JOIN) {
    ls_text_append_char(text, ' ');
    print_place(self, pc, text);
    print_calls(self, pc, text);
    print_host_time(self, pc, text);
  }
  ls_text_append_char(text, '\n');
  // Reads the launch once: a running program may reach the next launch.
  const ls_cpu_instruction *launch = LS_CPU_SEEN(self->launch);
  if (LS_CPU_SEEN(self->num_running) > 0 && launch != NULL) {
    print_all_lanes(self, launch->params, text);
    print_merges(self, launch->params, text);
  }
}

void ls_cpu_print_whereabouts(const ls_instance *self, ls_text *text) {
  print_places(self, text);
  for (int i = 0; i < self->num_workers; ++i)
    print_events(self, &self->workers[i].recorder, text);
}

static ls_status make_report(const ls_instance *self, ls_code code,
                             const char *summary) {
  LS_OWN(ls_text, text) = {.allocator = self->allocator};
  ls_cpu_print_whereabouts(self, &text);
  if (text.size > 0) text.data[text.size - 1] = '\0';  // A newline.
  return LS_STATUS(code, "%s\n%s", summary, ls_text_data(&text));
}

ls_status ls_cpu_deadlock(const ls_instance *self) {
  return make_report(self, LS_FAILED_PRECONDITION,
                     "the replicas wait for each other: not all come to the "
                     "same collectives");
}

void ls_cpu_print_other(const ls_instance *self, ls_text *text) {
  ls_text_append(text, "\nand another run in ");
  print_places(self, text);
  if (text->size > 0) text->data[--text->size] = '\0';  // A newline.
}

// Appends the positions of the other runs that the same thread drives, and of
// all other runs, for which this one may be waiting.
static ls_status add_others(ls_status status, const ls_instance *self,
                            ls_instance *const *parts, size_t count) {
  ls_text text = {.allocator = self->allocator};
  for (size_t i = 0; i < count; ++i) {
    if (parts[i] == self) continue;
    ls_text_append(&text, "\nand another part in ");
    print_places(parts[i], &text);
    if (text.size > 0) text.data[--text.size] = '\0';  // A newline.
  }
  ls_cpu_backend_print_others(self, parts, count, &text);
  ls_status with_others = status;
  if (text.size > 0) {
    with_others = LS_STATUS(LS_DEADLINE_EXCEEDED, "%s%s",
                            ls_status_message(status), ls_text_data(&text));
    ls_status_free(status);
  }
  ls_text_deinit(&text);
  return with_others;
}

ls_status ls_cpu_stalled(const ls_instance *self, ls_instance *const *parts,
                         size_t count) {
  char summary[128];
  ls_format(summary, sizeof(summary),
            "no progress for %.3g s; the runs wait at:",
            (double)ls_runtime_stall_nanos(self->executable->backend->runtime) *
                1e-9);
  const ls_status status = make_report(self, LS_DEADLINE_EXCEEDED, summary);
  return count == 0 ? status : add_others(status, self, parts, count);
}

// SPDX-License-Identifier: Apache-2.0
//
// Flight recorder: the last events of each worker.
//
// It is always on, so it must cost next to nothing: no lock, no clock, two
// stores per event, and few events: a range of instructions that a stream ran,
// a host call, the start of a step. The pc of a stream is its current position.
// Another thread that reads the events sees each half of an event whole, but
// the halves may belong to an old and a new event.
#ifndef LS_ENGINE_CPU_RUN_RECORDER_H_
#define LS_ENGINE_CPU_RUN_RECORDER_H_

#include <stdint.h>

// Store and load variables that other threads read, without any order.
#define LS_CPU_SET(place, value)                                               \
  __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define LS_CPU_SEEN(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

typedef enum ls_cpu_event_kind {
  LS_CPU_EVENT_NONE,
  LS_CPU_EVENT_STEP,  // A run began; from: low bits of its step.
  LS_CPU_EVENT_RUN,   // A stream ran and parked, or ended.
  LS_CPU_EVENT_HOST,  // It started a host call at `from`.
} ls_cpu_event_kind;

enum { LS_CPU_EVENTS = 32, LS_CPU_MAIN = -1 };

typedef struct ls_cpu_event {
  uint64_t path;  // Positions of instructions: from << 32 | to.
  uint64_t who;   // kind << 32 | replica; LS_CPU_MAIN: shared code.
} ls_cpu_event;

// The newest LS_CPU_EVENTS of a worker.
typedef struct ls_cpu_recorder {
  ls_cpu_event events[LS_CPU_EVENTS];
  uint32_t count;  // Events recorded in total.
} ls_cpu_recorder;

static inline void ls_cpu_record(ls_cpu_recorder *self, ls_cpu_event_kind kind,
                                 int32_t replica, uint32_t from,
                                 uint32_t target) {
  ls_cpu_event *event = &self->events[self->count % LS_CPU_EVENTS];
  LS_CPU_SET(event->path, (uint64_t)from << 32 | target);
  LS_CPU_SET(event->who, (uint64_t)kind << 32 | (uint32_t)replica);
  LS_CPU_SET(self->count, self->count + 1);
}

#endif  // LS_ENGINE_CPU_RUN_RECORDER_H_

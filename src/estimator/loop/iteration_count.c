// SPDX-License-Identifier: Apache-2.0
#include "lockstep/iteration_count.h"

#include <math.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "estimator/config/positive.h"

typedef struct sample {
  double seconds;  // Of all its steps.
  int64_t steps;
} sample;

struct ls_iteration_count {
  ls_allocator *allocator;
  sample *ring;
  size_t capacity, count;
  int64_t seen;  // Samples ever.
  double last;   // What was told.
};

ls_status ls_iteration_count_create(ls_opt capacity, ls_iteration_count **out) {
  LS_REQUIRE_OUT(out);
  enum { CAPACITY = 20 };
  if (capacity.set)
    LS_RETURN_IF_ERROR(ls_check_positive("capacity", capacity.value));
  ls_allocator *allocator = ls_current_allocator();
  const size_t size = capacity.set ? (size_t)capacity.value : CAPACITY;
  ls_iteration_count *self = ls_new(allocator, ls_iteration_count);
  sample *ring = ls_new_array(allocator, sample, size);
  if (self == NULL || ring == NULL) {
    ls_release(allocator, self);
    ls_release(allocator, ring);
    return ls_out_of_memory();
  }
  *self = (ls_iteration_count){
      .allocator = allocator, .ring = ring, .capacity = size, .last = 1};
  *out = self;
  return ls_ok();
}

void ls_iteration_count_destroy(ls_iteration_count *self) {
  if (self == NULL) return;
  ls_release(self->allocator, self->ring);
  ls_release(self->allocator, self);
}

void ls_iteration_count_update(ls_iteration_count *self, double seconds,
                               int64_t steps) {
  if (seconds <= 0 || steps <= 0) return;
  self->ring[(size_t)self->seen % self->capacity] = (sample){seconds, steps};
  ++self->seen;
  if (self->count < self->capacity) ++self->count;
}

// ---- What it has learnt ----------------------------------------------------
static double step_time(sample s) { return s.seconds / (double)s.steps; }

static double mean_step_time(const ls_iteration_count *self) {
  double sum = 0;
  for (size_t i = 0; i < self->count; ++i)
    sum += step_time(self->ring[i]);
  return sum / (double)self->count;
}

static double mean_run_time(const ls_iteration_count *self) {
  double sum = 0;
  for (size_t i = 0; i < self->count; ++i)
    sum += self->ring[i].seconds;
  return sum / (double)self->count;
}

static double deviation(const ls_iteration_count *self) {
  const double mean = mean_step_time(self);
  double sum = 0;
  for (size_t i = 0; i < self->count; ++i)
    sum += pow(step_time(self->ring[i]) - mean, 2);
  return sqrt(sum / (double)self->count);
}

ls_status ls_within_percent(double actual, double target, double percent,
                            bool *out_is) {
  LS_REQUIRE_OUT(out_is);
  if (actual == 0 || target == 0)
    return ls_invalid_argument("whether %g is within %g percent of %g: neither "
                               "may be 0",
                               actual, percent, target);
  *out_is = fabs(actual - target) / target <= percent / 100;
  return ls_ok();
}

static ls_status is_stable(const ls_iteration_count *self, double seconds,
                           bool *out_is) {
  const sample last = self->ring[(size_t)(self->seen - 1) % self->capacity];
  *out_is = false;
  if (deviation(self) >= 0.03 || self->seen <= (int64_t)self->capacity)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_within_percent(last.seconds, seconds, 10, out_is));
  return *out_is ? ls_ok()
                 : ls_within_percent(mean_run_time(self), seconds, 5, out_is);
}

ls_status ls_iteration_count_get(ls_iteration_count *self, double seconds,
                                 int64_t *out_steps) {
  LS_REQUIRE_OUT(out_steps);
  LS_REQUIRE(self);
  bool stable = false;
  *out_steps = 1;
  if (!(seconds > 0))
    return ls_invalid_argument(
        "how many steps fit into %g seconds: more than 0 "
        "are needed",
        seconds);
  if (self->count == 0) return ls_ok();
  LS_RETURN_IF_ERROR(is_stable(self, seconds, &stable));
  if (!stable) self->last = fmax(seconds / mean_step_time(self), 1);
  // 2^62 is more than there are steps, and a number of both kinds.
  *out_steps = (int64_t)fmin(floor(self->last + 0.5), 0x1p62);
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "data/allowance.h"

ls_allowance ls_allowance_of(ls_runtime *runtime, const ls_dataset *dataset) {
  ls_allowance self = {.runtime = runtime, .is_measured = dataset->rows};
  for (size_t i = 0; dataset->rows && i < dataset->num_leaves; ++i)
    self.guess += (int64_t)dataset->row_sizes[i];
  return self;
}

// The guess grows at once with larger elements and shrinks slowly with smaller
// ones.
void ls_allowance_measure(ls_allowance *self, int64_t bytes) {
  self->guess -= self->guess / 8;
  if (bytes > self->guess) self->guess = bytes;
  self->is_measured = true;
}

bool ls_allowance_count(const ls_allowance *self, int64_t bytes, bool must) {
  ls_runtime *runtime = self->runtime;
  const int64_t held =
      __atomic_add_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  if (must || held <= runtime->input_bytes) return true;
  __atomic_sub_fetch(&runtime->input_buffered, bytes, __ATOMIC_RELAXED);
  return false;
}

bool ls_allowance_has_room(const ls_allowance *self) {
  const int64_t held =
      __atomic_load_n(&self->runtime->input_buffered, __ATOMIC_RELAXED);
  return self->is_measured && held + self->guess <= self->runtime->input_bytes;
}

bool ls_allowance_is_small(const ls_allowance *self, int64_t elements) {
  enum { PARTS = 8 };
  return self->is_measured &&
         self->guess <= self->runtime->input_bytes / PARTS / elements;
}

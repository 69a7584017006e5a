// SPDX-License-Identifier: Apache-2.0
#include "support/counted.h"

#include "support/bystander.h"
#include "support/expect.h"

counted counted_begin(int threads) {
  return counted_begin_with(
      (ls_runtime_options){.threads = threads, .input_threads = LS_SOME(0)});
}

counted counted_begin_with(ls_runtime_options options) {
  counted self = {0};
  expect_ok(ls_counting_allocator_create(NULL, &self.memory));
  options.allocator = ls_counting_allocator_allocator(self.memory);
  expect_ok(ls_runtime_create(&options, &self.runtime));
  self.outside = ls_runtime_make_current(self.runtime);
  return self;
}

void counted_end(counted *self) {
  bystander_end(self->runtime);
  ls_runtime_make_current(self->outside);
  expect_ok(ls_runtime_destroy(self->runtime));
  assert_int_equal(counted_now(self).live_blocks, 0);
  ls_counting_allocator_destroy(self->memory);
}

ls_allocator_counts counted_now(const counted *self) {
  return ls_counting_allocator_counts(self->memory);
}

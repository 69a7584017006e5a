// SPDX-License-Identifier: Apache-2.0
// Fills: a buffer gets what a run of the program gives, whenever that happens.
#include "support/counted.h"
#include "support/expect.h"
#include "support/lowered.h"
#include "support/sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 5, MOST_BYTES = 8 * 300000, BUFFERS = 12 };

// A program of one draw, and what a run of it gives.
typedef struct drawn {
  lowered program;
  ls_type type;
  size_t size;
  char *wanted;
} drawn;

static drawn draw_begin(const char *op, const char *attrs, ls_dtype dtype,
                        int count) {
  drawn self = {.type = {dtype, LS_SHAPE(count)},
                .size = (size_t)count * ls_dtype_size(dtype)};
  char text[300];
  snprintf(text, sizeof(text),
           "graph lowered \"p\" { %%1 = %s() {dtype = %s, sizes = sizes[%d], "
           "%s} : %s[%d] return %%1 }",
           op, ls_dtype_name(dtype), count, attrs, ls_dtype_name(dtype), count);
  expect_ok(lowered_create(&(lowered_options){.text = text}, &self.program));
  self.wanted = calloc(1, MOST_BYTES);
  assert_non_null(self.wanted);
  expect_ok(ls_backend_run(
      self.program.backend, self.program.instance,
      &(ls_run_args){.outputs = (void *const[]){self.wanted}, .step = STEP}));
  return self;
}

static void draw_end(drawn *self) {
  lowered_destroy(&self->program);
  free(self->wanted);
}
LS_OWNED_STRUCT(drawn, draw_end)

static ls_buffer *filled(const drawn *self) {
  ls_buffer *buffer = NULL;
  const struct ls_backend_vtable *vtable = self->program.backend->vtable;
  expect_ok(vtable->create_buffer(self->program.backend, self->type, &buffer));
  expect_ok(vtable->fill(buffer, self->program.executable,
                         &(ls_run_args){.step = STEP}));
  return buffer;
}

static void expect_bytes(const ls_buffer *buffer, const void *wanted,
                         size_t size) {
  static char got[MOST_BYTES];
  expect_ok(buffer->backend->vtable->download(buffer, got));
  assert_memory_equal(got, wanted, size);
}

static const char normal[] =
    "mean = 1.0, deviation = 2.0, seed = 3, stream = 4";

TEST(a_fill_gives_what_a_run_gives) {
  static const char *const ops[] = {"random_normal", "random_truncated_normal",
                                    "random_uniform"};
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16};
  static const int counts[] = {1, 1000, 300000};
  for (int threads = 1; threads <= 4; threads += LS_SANITIZED ? 3 : 1) {
    LS_OWN(counted, memory) = counted_begin(threads);
    for (size_t i = 0; i < 3 * 3 * 3; ++i) {
      const char *op = ops[i / 9];
      LS_OWN(drawn, d) = draw_begin(
          op, i / 9 == 2 ? "low = -1.0, high = 3.0, stream = 4" : normal,
          dtypes[i / 3 % 3], counts[i % 3]);
      ls_buffer *buffer = filled(&d);
      expect_bytes(buffer, d.wanted, d.size);
      ls_object_release(buffer);
    }
  }
}

TEST(what_is_bound_is_filled) {
  for (int threads = 1; threads <= 3; ++threads) {
    LS_OWN(counted, memory) = counted_begin(threads);
    LS_OWN(drawn, d) =
        draw_begin("random_normal", normal, LS_DTYPE_F32, 300000);
    LS_OWN(lowered, copy) = {0};
    expect_ok(lowered_create(
        &(lowered_options){
            .text = "graph lowered \"p\" { %1 = parameter() {dtype = f32, "
                    "shape = shape[300000], index = 0} : f32[300000] "
                    "%2 = neg(%1) : f32[300000] %3 = neg(%2) : f32[300000] "
                    "return %3 }",
            .num_uses = 1},
        &copy));
    ls_buffer *buffers[BUFFERS];
    HEAP(float, got) = calloc(1, d.size);
    for (int i = 0; i < BUFFERS; ++i)
      buffers[i] = filled(&d);
    for (int i = 0; i < BUFFERS; ++i) {
      ls_instance *instance = NULL;
      expect_ok(d.program.backend->vtable->bind(copy.executable, &buffers[i],
                                                &instance));
      expect_ok(
          ls_backend_run(d.program.backend, instance,
                         &(ls_run_args){.outputs = (void *const[]){got}}));
      assert_memory_equal(got, d.wanted, d.size);
      d.program.backend->vtable->destroy_instance(instance);
      ls_object_release(buffers[i]);
    }
  }
}

TEST(a_fill_that_is_not_wanted_leaves_nothing_behind) {
  LS_OWN(counted, memory) = counted_begin(2);
  LS_OWN(drawn, d) = draw_begin("random_normal", normal, LS_DTYPE_F32, 300000);
  HEAP(char, other) = malloc(d.size);
  memset(other, 7, d.size);
  const struct ls_backend_vtable *vtable = d.program.backend->vtable;
  ls_object_release(filled(&d));  // From here on there is a slab.
  const uint64_t before = counted_now(&memory).live_bytes;
  for (int round = 0; round < 10; ++round) {
    ls_buffer *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; ++i)
      buffers[i] = filled(&d);
    for (int i = BUFFERS; i-- > 0;) {
      if (i % 3 == 0) expect_ok(vtable->upload(buffers[i], other));
      if (i % 3 == 1)
        expect_ok(vtable->fill(buffers[i], d.program.executable,
                               &(ls_run_args){.step = STEP}));
      if (i % 3 == 2) ls_object_release(buffers[i]);
    }
    for (int i = 0; i < BUFFERS; ++i) {
      if (i % 3 == 2) continue;
      expect_bytes(buffers[i], i % 3 == 0 ? other : d.wanted, d.size);
      ls_object_release(buffers[i]);
    }
  }
  assert_int_equal(counted_now(&memory).live_bytes, before);
}

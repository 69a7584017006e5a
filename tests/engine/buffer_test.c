// SPDX-License-Identifier: Apache-2.0
// Buffers side by side: their zeros and their memory.
#include "support/counted.h"
#include "support/expect.h"

#include <string.h>

#include "engine/backend.h"

enum { COUNT = 1 << 14, BUFFERS = 300 };  // Of 64 KiB: more than two slabs.

static ls_buffer *make(ls_backend *backend) {
  ls_buffer *buffer = NULL;
  expect_ok(backend->vtable->create_buffer(
      backend, (ls_type){LS_DTYPE_F32, LS_SHAPE(COUNT)}, &buffer));
  return buffer;
}

static bool is_filled(const ls_buffer *buffer, int byte) {
  static unsigned char data[COUNT * 4];
  memset(data, 1, sizeof(data));
  expect_ok(buffer->backend->vtable->download(buffer, data));
  return data[0] == byte && memcmp(data, data + 1, sizeof(data) - 1) == 0;
}

static void fill(ls_buffer *buffer, int byte) {
  static unsigned char data[COUNT * 4];
  memset(data, byte, sizeof(data));
  expect_ok(buffer->backend->vtable->upload(buffer, data));
}

TEST(buffers_do_not_overlap_and_give_their_memory_back) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_backend *backend = NULL;
  expect_ok(ls_runtime_backend(memory.runtime, &backend));
  ls_object_release(make(backend));
  const uint64_t before = counted_now(&memory).live_bytes;
  ls_buffer *buffers[BUFFERS];
  for (int i = 0; i < BUFFERS; ++i) {
    buffers[i] = make(backend);
    assert_true(is_filled(buffers[i], 0));
    assert_int_equal((uintptr_t)buffers[i]->data % 64, 0);
    fill(buffers[i], i % 255 + 1);
  }
  for (int i = 0; i < BUFFERS; ++i)
    assert_true(is_filled(buffers[i], i % 255 + 1));
  for (int i = 0; i < BUFFERS; ++i)
    ls_object_release(buffers[i]);
  assert_int_equal(counted_now(&memory).live_bytes, before);
}

TEST(memory_that_serves_again_is_zeros_again) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_backend *backend = NULL;
  expect_ok(ls_runtime_backend(memory.runtime, &backend));
  uint64_t peak = 0;
  for (int i = 0; i < 2 * BUFFERS; ++i) {
    ls_buffer *buffer = make(backend);
    assert_true(is_filled(buffer, 0));
    fill(buffer, 7);
    ls_object_release(buffer);
    if (i == 0) peak = counted_now(&memory).peak_bytes;
  }
  assert_int_equal(counted_now(&memory).peak_bytes, peak);
}

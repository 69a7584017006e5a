// SPDX-License-Identifier: Apache-2.0
#include "io/gzip.h"

#include <limits.h>
#include <zlib.h>

bool ls_gzip_is(const void *data, size_t size) {
  const unsigned char *bytes = data;
  return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// ---- Memory ----------------------------------------------------------------
static void *gzip_allocate(void *allocator, unsigned count, unsigned size) {
  return ls_allocate_zeroed(allocator, count, size);
}

static void gzip_release(void *allocator, void *memory) {
  ls_release(allocator, memory);
}

// State of unpacking.
typedef struct inflation {
  const char *name;
  z_stream stream;
  const unsigned char *data;
  size_t size;  // Size of the input.
  char *out;
  size_t out_size, room;
} inflation;

// Returns the position in the input, for messages.
static size_t input_position(const inflation *self) {
  return (size_t)(self->stream.next_in - self->data);
}

static unsigned clamp_size(size_t size) {
  return size > UINT_MAX ? UINT_MAX : (unsigned)size;
}

// Unpacks until a member has ended with its checksum, or the room is full.
static ls_status inflate_member(inflation *self) {
  while (self->out_size < self->room) {
    self->stream.avail_in = clamp_size(self->size - input_position(self));
    self->stream.next_out = (unsigned char *)self->out + self->out_size;
    self->stream.avail_out = clamp_size(self->room - self->out_size);
    const int result = inflate(&self->stream, Z_NO_FLUSH);
    self->out_size = (size_t)((char *)self->stream.next_out - self->out);
    if (result == Z_STREAM_END) return ls_ok();
    if (result == Z_MEM_ERROR) return ls_out_of_memory();
    if (result == Z_BUF_ERROR ||
        (result == Z_OK && input_position(self) == self->size &&
         self->stream.avail_out > 0)) {
      return LS_STATUS(
          LS_DATA_LOSS,
          "'%s' is cut off: the gzip data continue after its end at byte %zu",
          self->name, self->size);
    }
    if (result != Z_OK) {
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' is damaged gzip data near byte %zu%s%s",
                       self->name, input_position(self),
                       self->stream.msg != NULL ? ": " : "",
                       self->stream.msg != NULL ? self->stream.msg : "");
    }
  }
  return ls_ok();
}

static ls_status inflate_all(inflation *self) {
  for (;;) {
    LS_RETURN_IF_ERROR(inflate_member(self));
    const size_t at = input_position(self);
    if (self->out_size == self->room || at == self->size) return ls_ok();
    if (!ls_gzip_is(self->data + at, self->size - at)) {
      return LS_STATUS(LS_DATA_LOSS, "'%s' has %zu bytes after its gzip data",
                       self->name, self->size - at);
    }
    if (inflateReset(&self->stream) != Z_OK) return ls_out_of_memory();
  }
}

size_t ls_gzip_most(size_t size) {
  // Deflate makes at most 1032 bytes of one.
  size_t most = 0;
  return __builtin_mul_overflow(size, (size_t)1032, &most) ? SIZE_MAX : most;
}

ls_status ls_gzip_check_proportion(const char *name, uint64_t packed_size,
                                   uint64_t size, const char *advice) {
  enum { FREE = 256 << 20, TIMES = 100 };
  if (size <= FREE || size / TIMES <= packed_size) return ls_ok();
  return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                   "'%s' compresses %llu bytes to %llu, by more than a factor "
                   "of %d, and would be decompressed completely: %s",
                   name, (unsigned long long)size,
                   (unsigned long long)packed_size, TIMES, advice);
}

ls_status ls_gzip_inflate(ls_allocator *allocator, const char *name,
                          const void *data, size_t size, void *out, size_t room,
                          size_t *out_size) {
  *out_size = 0;
  if (!ls_gzip_is(data, size)) {
    return LS_STATUS(LS_DATA_LOSS, "'%s' is no gzip file: it begins otherwise",
                     name);
  }
  inflation self = {.name = name,
                    .data = data,
                    .size = size,
                    .out = out,
                    .room = room,
                    .stream = {.next_in = (unsigned char *)(uintptr_t)data,
                               .zalloc = gzip_allocate,
                               .zfree = gzip_release,
                               .opaque = allocator}};
  // 15 + 16: the largest window, and a gzip header.
  if (inflateInit2(&self.stream, 15 + 16) != Z_OK) return ls_out_of_memory();
  const ls_status status = inflate_all(&self);
  inflateEnd(&self.stream);
  if (ls_status_is_ok(status)) *out_size = self.out_size;
  return status;
}

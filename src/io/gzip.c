// SPDX-License-Identifier: Apache-2.0
#include "io/gzip.h"

#include <limits.h>
#include <zlib.h>

bool ls_gzip_is(const void *data, size_t size) {
  const unsigned char *bytes = data;
  return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// ---- Memory ----------------------------------------------------------------
static void *zlib_allocate(void *allocator, unsigned count, unsigned size) {
  return ls_allocate_zeroed(allocator, count, size);
}

static void zlib_release(void *allocator, void *memory) {
  ls_release(allocator, memory);
}

// What is being inflated.
typedef struct inflation {
  const char *name;
  z_stream stream;
  const unsigned char *data;
  size_t size;  // Of the input.
  char *out;
  size_t out_size, room;
} inflation;

// Where the input stands, for messages.
static size_t input_position(const inflation *it) {
  return (size_t)(it->stream.next_in - it->data);
}

static unsigned clamp(size_t size) {
  return size > UINT_MAX ? UINT_MAX : (unsigned)size;
}

// Until a member has ended with its checksum, or the room is full.
static ls_status inflate_member(inflation *it) {
  while (it->out_size < it->room) {
    it->stream.avail_in = clamp(it->size - input_position(it));
    it->stream.next_out = (unsigned char *)it->out + it->out_size;
    it->stream.avail_out = clamp(it->room - it->out_size);
    const int result = inflate(&it->stream, Z_NO_FLUSH);
    it->out_size = (size_t)((char *)it->stream.next_out - it->out);
    if (result == Z_STREAM_END) return ls_ok();
    if (result == Z_MEM_ERROR) return ls_out_of_memory();
    if (result == Z_BUF_ERROR ||
        (result == Z_OK && input_position(it) == it->size &&
         it->stream.avail_out > 0)) {
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' is cut off: the gzip data go on behind its end "
                       "at byte %zu",
                       it->name, it->size);
    }
    if (result != Z_OK) {
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' is damaged gzip data near byte %zu%s%s", it->name,
                       input_position(it), it->stream.msg != NULL ? ": " : "",
                       it->stream.msg != NULL ? it->stream.msg : "");
    }
  }
  return ls_ok();
}

static ls_status inflate_all(inflation *it) {
  for (;;) {
    LS_RETURN_IF_ERROR(inflate_member(it));
    const size_t at = input_position(it);
    if (it->out_size == it->room || at == it->size) return ls_ok();
    if (!ls_gzip_is(it->data + at, it->size - at)) {
      return LS_STATUS(LS_DATA_LOSS, "'%s' has %zu bytes behind its gzip data",
                       it->name, it->size - at);
    }
    if (inflateReset(&it->stream) != Z_OK) return ls_out_of_memory();
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
                   "'%s' packs %llu bytes into %llu, more than %d times as "
                   "much, and would be unpacked whole: %s",
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
  inflation it = {.name = name,
                  .data = data,
                  .size = size,
                  .out = out,
                  .room = room,
                  .stream = {.next_in = (unsigned char *)(uintptr_t)data,
                             .zalloc = zlib_allocate,
                             .zfree = zlib_release,
                             .opaque = allocator}};
  // 15 + 16: the largest window, and a gzip header.
  if (inflateInit2(&it.stream, 15 + 16) != Z_OK) return ls_out_of_memory();
  const ls_status status = inflate_all(&it);
  inflateEnd(&it.stream);
  if (ls_status_is_ok(status)) *out_size = it.out_size;
  return status;
}

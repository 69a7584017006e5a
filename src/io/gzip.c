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
  ls_allocator *allocator;
  const char *name;
  z_stream stream;
  size_t size;  // Of the input.
  size_t limit;
  char *out;
  size_t out_size, out_capacity;
} inflation;

// Where the input stands, for messages.
static size_t input_position(const inflation *it, const unsigned char *data) {
  return (size_t)(it->stream.next_in - data);
}

// Room for more output: doubling, but for the last byte, which is for the zero.
static ls_status make_room(inflation *it) {
  if (it->out_size + 1 < it->out_capacity) return ls_ok();
  if (it->out_size > it->limit) {
    return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                     "'%s' inflates to more than %zu bytes", it->name,
                     it->limit);
  }
  const size_t capacity = it->out_capacity * 2;
  char *grown = ls_allocate(it->allocator, capacity);
  if (grown == NULL) {
    return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                     "no memory for %zu bytes of '%s', inflated", capacity,
                     it->name);
  }
  memcpy(grown, it->out, it->out_size);
  ls_release(it->allocator, it->out);
  it->out = grown;
  it->out_capacity = capacity;
  return ls_ok();
}

static unsigned clamp(size_t size) {
  return size > UINT_MAX ? UINT_MAX : (unsigned)size;
}

// One member, from its header to its checksum.
static ls_status inflate_member(inflation *it, const unsigned char *data) {
  for (;;) {
    LS_RETURN_IF_ERROR(make_room(it));
    const size_t left = it->size - input_position(it, data);
    it->stream.avail_in = clamp(left);
    it->stream.next_out = (unsigned char *)it->out + it->out_size;
    it->stream.avail_out = clamp(it->out_capacity - it->out_size - 1);
    const int result = inflate(&it->stream, Z_NO_FLUSH);
    it->out_size = (size_t)((char *)it->stream.next_out - it->out);
    if (result == Z_STREAM_END) return ls_ok();
    if (result == Z_MEM_ERROR) return ls_out_of_memory();
    if (result == Z_BUF_ERROR ||
        (result == Z_OK && input_position(it, data) == it->size &&
         it->stream.avail_out > 0)) {
      return LS_STATUS(LS_DATA_LOSS,
                       "'%s' is cut off: the gzip data go on behind its end "
                       "at byte %zu",
                       it->name, it->size);
    }
    if (result != Z_OK) {
      return LS_STATUS(
          LS_DATA_LOSS, "'%s' is damaged gzip data near byte %zu%s%s", it->name,
          input_position(it, data), it->stream.msg != NULL ? ": " : "",
          it->stream.msg != NULL ? it->stream.msg : "");
    }
  }
}

static ls_status inflate_all(inflation *it, const unsigned char *data) {
  for (;;) {
    LS_RETURN_IF_ERROR(inflate_member(it, data));
    const size_t at = input_position(it, data);
    if (at == it->size) break;
    if (!ls_gzip_is(data + at, it->size - at)) {
      return LS_STATUS(LS_DATA_LOSS, "'%s' has %zu bytes behind its gzip data",
                       it->name, it->size - at);
    }
    if (inflateReset(&it->stream) != Z_OK) return ls_out_of_memory();
  }
  if (it->out_size <= it->limit) return ls_ok();
  return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                   "'%s' inflates to more than %zu bytes", it->name, it->limit);
}

// How much comes out, as the end of the file says: a hint, to save growing.
static size_t expected_size(const unsigned char *data, size_t size,
                            size_t limit) {
  const size_t least = 256;
  if (size < 18) return least;
  const unsigned char *end = data + size - 4;
  const size_t told = (size_t)end[0] | (size_t)end[1] << 8 |
                      (size_t)end[2] << 16 | (size_t)end[3] << 24;
  // Deflate makes at most 1032 bytes of one: more is no hint but damage.
  if (told > limit || told / 1032 > size) return least;
  return told < least ? least : told;
}

ls_status ls_gzip_inflate(ls_allocator *allocator, const char *name,
                          const void *data, size_t size, size_t limit,
                          char **out_data, size_t *out_size) {
  *out_data = NULL;
  *out_size = 0;
  if (!ls_gzip_is(data, size)) {
    return LS_STATUS(LS_DATA_LOSS, "'%s' is no gzip file: it begins otherwise",
                     name);
  }
  inflation it = {.allocator = allocator,
                  .name = name,
                  .size = size,
                  .limit = limit,
                  .stream = {.next_in = (unsigned char *)(uintptr_t)data,
                             .zalloc = zlib_allocate,
                             .zfree = zlib_release,
                             .opaque = allocator}};
  // Two more: for the zero, and so that the end shows without growing.
  it.out_capacity = expected_size(data, size, limit) + 2;
  it.out = ls_allocate(allocator, it.out_capacity);
  if (it.out == NULL) {
    return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                     "no memory for %zu bytes of '%s', inflated",
                     it.out_capacity, name);
  }
  // 15 + 16: the largest window, and a gzip header.
  if (inflateInit2(&it.stream, 15 + 16) != Z_OK) {
    ls_release(allocator, it.out);
    return ls_out_of_memory();
  }
  ls_status status = inflate_all(&it, data);
  inflateEnd(&it.stream);
  if (!ls_status_is_ok(status)) {
    ls_release(allocator, it.out);
    return status;
  }
  it.out[it.out_size] = '\0';
  *out_data = it.out;
  *out_size = it.out_size;
  return ls_ok();
}

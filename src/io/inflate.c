// SPDX-License-Identifier: Apache-2.0
#include "io/inflate.h"

#include <limits.h>
#include <zlib.h>

#include "io/gzip.h"

struct ls_inflater {
  ls_allocator *allocator;
  z_stream stream;
  ls_packing packing;
  bool begun;    // The stream is there, to be ended.
  bool between;  // A gzip member has ended; another may begin.
  bool ended;
};

static void *zlib_allocate(void *allocator, unsigned count, unsigned size) {
  return ls_allocate_zeroed(allocator, count, size);
}

static void zlib_release(void *allocator, void *memory) {
  ls_release(allocator, memory);
}

// 15: the largest window; 16 more: a gzip header; negative: no header.
static int window_of(ls_packing packing) {
  return packing == LS_PACKING_GZIP ? 15 + 16 : -15;
}

ls_status ls_inflater_create(ls_allocator *allocator, ls_packing packing,
                             ls_inflater **out_inflater) {
  *out_inflater = NULL;
  ls_inflater *inflater = ls_new(allocator, ls_inflater);
  if (inflater == NULL) return ls_out_of_memory();
  inflater->allocator = allocator;
  inflater->packing = packing;
  inflater->stream = (z_stream){
      .zalloc = zlib_allocate, .zfree = zlib_release, .opaque = allocator};
  inflater->begun = inflateInit2(&inflater->stream, window_of(packing)) == Z_OK;
  if (!inflater->begun) {
    ls_inflater_destroy(inflater);
    return ls_out_of_memory();
  }
  *out_inflater = inflater;
  return ls_ok();
}

void ls_inflater_destroy(ls_inflater *inflater) {
  if (inflater == NULL) return;
  if (inflater->begun) inflateEnd(&inflater->stream);
  ls_release(inflater->allocator, inflater);
}

static const char *word(const ls_inflater *inflater) {
  return inflater->packing == LS_PACKING_GZIP ? "gzip" : "deflate";
}

static ls_status cut_off(const ls_inflater *inflater, const ls_inflation *now) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is cut off: the %s data go on behind byte %lld",
                   now->name, word(inflater), (long long)now->position);
}

static void use(ls_inflation *now, size_t size) {
  now->in += size;
  now->in_size -= size;
  now->position += (int64_t)size;
}

// Behind a member: the end, or the two bytes that begin another one.
static ls_status look_behind_member(ls_inflater *inflater, ls_inflation *now,
                                    bool *out_goes_on) {
  *out_goes_on = false;
  if (now->in_size == 0) {
    inflater->ended = now->is_last;
    return ls_ok();
  }
  // One byte alone cannot tell; the caller's next piece begins with it.
  if (now->in_size == 1 && !now->is_last) return ls_ok();
  if (!ls_gzip_is(now->in, now->in_size)) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' has something else behind its gzip data, at byte "
                     "%lld",
                     now->name, (long long)now->position);
  }
  if (inflateReset(&inflater->stream) != Z_OK) return ls_out_of_memory();
  inflater->between = false;
  *out_goes_on = true;
  return ls_ok();
}

static unsigned clamp(size_t size) {
  return size > UINT_MAX ? UINT_MAX : (unsigned)size;
}

// One call of zlib's. `*out_result` is Z_OK, Z_STREAM_END or Z_BUF_ERROR.
static ls_status step(ls_inflater *inflater, ls_inflation *now,
                      int *out_result) {
  z_stream *stream = &inflater->stream;
  stream->next_in = (unsigned char *)(uintptr_t)now->in;
  stream->avail_in = clamp(now->in_size);
  stream->next_out = (unsigned char *)now->out;
  stream->avail_out = clamp(now->room);
  const int result = inflate(stream, Z_NO_FLUSH);
  use(now, (size_t)(stream->next_in - now->in));
  const size_t made = (size_t)((char *)stream->next_out - now->out);
  now->out += made;
  now->room -= made;
  *out_result = result;
  if (result == Z_MEM_ERROR) return ls_out_of_memory();
  if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
    return ls_ok();
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged %s data near byte %lld%s%s",
                   now->name, word(inflater), (long long)now->position,
                   stream->msg != NULL ? ": " : "",
                   stream->msg != NULL ? stream->msg : "");
}

ls_status ls_inflater_run(ls_inflater *inflater, ls_inflation *now,
                          bool *out_ended) {
  *out_ended = false;
  while (!inflater->ended) {
    if (inflater->between) {
      bool goes_on = false;
      LS_RETURN_IF_ERROR(look_behind_member(inflater, now, &goes_on));
      if (!goes_on) break;
    }
    const size_t before = now->in_size + now->room;
    int result = Z_OK;
    LS_RETURN_IF_ERROR(step(inflater, now, &result));
    if (result == Z_STREAM_END) {
      inflater->between = inflater->packing == LS_PACKING_GZIP;
      inflater->ended = !inflater->between;
    } else if (now->room == 0) {
      break;
    } else if (now->in_size == 0 || now->in_size + now->room == before) {
      if (now->is_last) return cut_off(inflater, now);
      break;
    }
  }
  *out_ended = inflater->ended;
  return ls_ok();
}

ls_status ls_deflate(ls_allocator *allocator, ls_packing packing,
                     const void *data, size_t size, char **out_data,
                     size_t *out_size) {
  *out_data = NULL;
  *out_size = 0;
  z_stream stream = {
      .zalloc = zlib_allocate, .zfree = zlib_release, .opaque = allocator};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                   window_of(packing), 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return ls_out_of_memory();
  // zlib's bound, and its counters are of 64 bits where sizes are.
  const size_t room = deflateBound(&stream, size);
  char *out = ls_allocate(allocator, room);
  size_t used = 0, made = 0;
  int result = out == NULL ? Z_MEM_ERROR : Z_OK;
  while (result == Z_OK) {
    stream.next_in = (unsigned char *)(uintptr_t)data + used;
    stream.avail_in = clamp(size - used);
    stream.next_out = (unsigned char *)out + made;
    stream.avail_out = clamp(room - made);
    const bool last = stream.avail_in == size - used;
    result = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    used = (size_t)(stream.next_in - (unsigned char *)(uintptr_t)data);
    made = (size_t)((char *)stream.next_out - out);
  }
  deflateEnd(&stream);
  if (result != Z_STREAM_END) {
    ls_release(allocator, out);
    return ls_out_of_memory();
  }
  *out_data = out;
  *out_size = made;
  return ls_ok();
}

uint32_t ls_crc32(uint32_t crc, const void *data, size_t size) {
  return size == 0 ? crc : (uint32_t)crc32_z(crc, data, size);
}

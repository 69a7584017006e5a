// SPDX-License-Identifier: Apache-2.0
#include "io/inflate.h"

#ifdef LS_HAVE_ZLIB

#include <limits.h>
#include <zlib.h>

struct ls_inflater {
  ls_allocator *allocator;
  z_stream stream;
  ls_packing packing;
  bool begun;    // The stream was initialized and must be ended.
  bool between;  // A gzip member has ended; another may begin.
  bool ended;
};

static void *inflater_allocate(void *allocator, unsigned count, unsigned size) {
  return ls_allocate_zeroed(allocator, count, size);
}

static void inflater_release(void *allocator, void *memory) {
  ls_release(allocator, memory);
}

// Returns zlib's window: 15 is the largest; 16 more: a gzip header; negative:
// no header.
static int window_of(ls_packing packing) {
  if (packing == LS_PACKING_ZLIB) return 15;
  return packing == LS_PACKING_GZIP ? 15 + 16 : -15;
}

ls_status ls_inflater_create(ls_allocator *allocator, ls_packing packing,
                             ls_inflater **out_inflater) {
  *out_inflater = NULL;
  LS_NEW_OR_RETURN(allocator, ls_inflater, inflater);
  inflater->allocator = allocator;
  inflater->packing = packing;
  inflater->stream = (z_stream){.zalloc = inflater_allocate,
                                .zfree = inflater_release,
                                .opaque = allocator};
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

static const char *packing_name(const ls_inflater *inflater) {
  return inflater->packing == LS_PACKING_GZIP ? "gzip" : "deflate";
}

static ls_status inflate_report_cut_off(const ls_inflater *inflater,
                                        const ls_inflation *progress) {
  return LS_STATUS(
      LS_DATA_LOSS, "'%s' is cut off: the %s data continue after byte %lld",
      progress->name, packing_name(inflater), (long long)progress->position);
}

static void advance_input(ls_inflation *progress, size_t size) {
  progress->in += size;
  progress->in_size -= size;
  progress->position += (int64_t)size;
}

// Reads what follows a member: padding of zeros, the end, or the two bytes that
// begin another one.
static ls_status look_behind_member(ls_inflater *inflater,
                                    ls_inflation *progress, bool *out_goes_on) {
  *out_goes_on = false;
  while (progress->in_size > 0 && progress->in[0] == '\0')
    advance_input(progress, 1);
  if (progress->in_size == 0) {
    inflater->ended = progress->is_last;
    return ls_ok();
  }
  // A single byte is not enough; the caller's next piece begins with it.
  if (progress->in_size == 1 && !progress->is_last) return ls_ok();
  if (!ls_gzip_is(progress->in, progress->in_size)) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' has other data after its gzip data, at byte %lld",
                     progress->name, (long long)progress->position);
  }
  if (inflateReset(&inflater->stream) != Z_OK) return ls_out_of_memory();
  inflater->between = false;
  *out_goes_on = true;
  return ls_ok();
}

static unsigned clamp_size(size_t size) {
  return size > UINT_MAX ? UINT_MAX : (unsigned)size;
}

// Calls zlib once. `*out_result` is Z_OK, Z_STREAM_END or Z_BUF_ERROR.
static ls_status run_zlib(ls_inflater *inflater, ls_inflation *progress,
                          int *out_result) {
  z_stream *stream = &inflater->stream;
  stream->next_in = (unsigned char *)(uintptr_t)progress->in;
  stream->avail_in = clamp_size(progress->in_size);
  stream->next_out = (unsigned char *)progress->out;
  stream->avail_out = clamp_size(progress->room);
  const int result = inflate(stream, Z_NO_FLUSH);
  advance_input(progress, (size_t)(stream->next_in - progress->in));
  const size_t made = (size_t)((char *)stream->next_out - progress->out);
  progress->out += made;
  progress->room -= made;
  *out_result = result;
  if (result == Z_MEM_ERROR) return ls_out_of_memory();
  if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
    return ls_ok();
  return LS_STATUS(
      LS_DATA_LOSS, "'%s' is damaged %s data near byte %lld%s%s",
      progress->name, packing_name(inflater), (long long)progress->position,
      stream->msg != NULL ? ": " : "", stream->msg != NULL ? stream->msg : "");
}

ls_status ls_inflater_run(ls_inflater *inflater, ls_inflation *progress,
                          bool *out_ended) {
  *out_ended = false;
  while (!inflater->ended) {
    if (inflater->between) {
      bool goes_on = false;
      LS_RETURN_IF_ERROR(look_behind_member(inflater, progress, &goes_on));
      if (!goes_on) break;
    }
    const size_t before = progress->in_size + progress->room;
    int result = Z_OK;
    LS_RETURN_IF_ERROR(run_zlib(inflater, progress, &result));
    if (result == Z_STREAM_END) {
      inflater->between = inflater->packing == LS_PACKING_GZIP;
      inflater->ended = !inflater->between;
    } else if (progress->room == 0) {
      break;
    } else if (progress->in_size == 0 ||
               progress->in_size + progress->room == before) {
      if (progress->is_last) return inflate_report_cut_off(inflater, progress);
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
  z_stream stream = {.zalloc = inflater_allocate,
                     .zfree = inflater_release,
                     .opaque = allocator};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                   window_of(packing), 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return ls_out_of_memory();
  // zlib's bound, and its counters have 64 bits where sizes have.
  const size_t room = deflateBound(&stream, size);
  char *out = ls_allocate(allocator, room);
  size_t used = 0, made = 0;
  int result = out == NULL ? Z_MEM_ERROR : Z_OK;
  while (result == Z_OK) {
    stream.next_in = (unsigned char *)(uintptr_t)data + used;
    stream.avail_in = clamp_size(size - used);
    stream.next_out = (unsigned char *)out + made;
    stream.avail_out = clamp_size(room - made);
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

#else  // Without zlib

struct ls_inflater {
  ls_allocator *allocator;
};

static ls_status no_zlib(const char *action) {
  return LS_STATUS(LS_UNIMPLEMENTED,
                   "%s is not possible: liblockstep was built without zlib "
                   "(zlib1g-dev)",
                   action);
}

ls_status ls_inflater_create(ls_allocator *allocator, ls_packing packing,
                             ls_inflater **out_inflater) {
  (void)allocator, (void)packing;
  *out_inflater = NULL;
  return no_zlib("reading compressed data");
}

void ls_inflater_destroy(ls_inflater *inflater) {
  if (inflater != NULL) ls_release(inflater->allocator, inflater);
}

ls_status ls_inflater_run(ls_inflater *inflater, ls_inflation *progress,
                          bool *out_ended) {
  (void)inflater, (void)progress;
  *out_ended = false;
  return no_zlib("reading compressed data");
}

ls_status ls_deflate(ls_allocator *allocator, ls_packing packing,
                     const void *data, size_t size, char **out_data,
                     size_t *out_size) {
  (void)allocator, (void)packing, (void)data, (void)size;
  *out_data = NULL;
  *out_size = 0;
  return no_zlib("compressing data");
}

// Sums four bits at a time: archives of a build without zlib are few.
uint32_t ls_crc32(uint32_t crc, const void *data, size_t size) {
  static const uint32_t table[16] = {
      0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
      0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  const unsigned char *at = data;
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= at[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

#endif

// ---- Whole gzip files ------------------------------------------------------
bool ls_gzip_is(const void *data, size_t size) {
  const unsigned char *bytes = data;
  return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
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
  LS_OWN(ls_inflater, inflater) = NULL;
  LS_RETURN_IF_ERROR(ls_inflater_create(allocator, LS_PACKING_GZIP, &inflater));
  ls_inflation inflation = {.name = name,
                            .in = data,
                            .in_size = size,
                            .is_last = true,
                            .out = out,
                            .room = room};
  bool ended = false;
  LS_RETURN_IF_ERROR(ls_inflater_run(inflater, &inflation, &ended));
  *out_size = room - inflation.room;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "io/gzip.h"

#include "io/inflate.h"

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

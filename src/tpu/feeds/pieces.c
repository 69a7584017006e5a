// SPDX-License-Identifier: Apache-2.0
#include "tpu/feeds/pieces.h"

#include <inttypes.h>
#include <string.h>

int64_t ls_components_count(ls_shape parts) {
  int64_t count = 1;
  for (int32_t k = 0; k < parts.rank; ++k)
    if (__builtin_mul_overflow(count, parts.dim[k], &count)) return INT64_MAX;
  return count;
}

ls_status ls_components_check_count(ls_shape parts, int64_t cores) {
  if (ls_components_are_whole(parts)) return ls_ok();
  for (int32_t k = 0; k < parts.rank; ++k)
    if (parts.dim[k] < 1)
      return ls_invalid_argument("the partition dims %s must all be at least 1",
                                 LS_PARTS_TEXT(parts));
  const int64_t count = ls_components_count(parts);
  if (count == 1 || count == cores) return ls_ok();
  return ls_invalid_argument("the partition dims %s make %" PRId64
                             " pieces; a replica has %" PRId64 " cores",
                             LS_PARTS_TEXT(parts), count, cores);
}

ls_status ls_components_check(ls_shape shape, ls_shape parts, int64_t cores) {
  if (ls_components_are_whole(parts)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_components_check_count(parts, cores));
  if (ls_components_count(parts) == 1) return ls_ok();
  if (!ls_shape_is_known(shape))
    return ls_invalid_argument("a value of shape %s cannot be cut by the "
                               "partition dims %s: its shape must be known",
                               LS_PARTS_TEXT(shape), LS_PARTS_TEXT(parts));
  if (shape.rank != parts.rank)
    return ls_invalid_argument("a value of shape %s cannot be cut by the "
                               "partition dims %s: there must be one for each "
                               "dimension",
                               LS_PARTS_TEXT(shape), LS_PARTS_TEXT(parts));
  return ls_ok();
}

static int64_t pieces_least(int64_t a, int64_t b) { return a < b ? a : b; }

bool ls_piece_of(ls_shape shape, ls_shape parts, int64_t core,
                 ls_piece *out_piece) {
  *out_piece = (ls_piece){.start = {.rank = shape.rank}, .shape = shape};
  if (ls_components_are_whole(parts)) return true;
  if (ls_components_count(parts) == 1) return core == 0;
  for (int32_t k = parts.rank; k-- > 0;) {
    const int64_t size = shape.dim[k], at = core % parts.dim[k];
    const int64_t most = (size + parts.dim[k] - 1) / parts.dim[k];
    core /= parts.dim[k];
    out_piece->start.dim[k] = pieces_least(at * most, size);
    out_piece->shape.dim[k] =
        pieces_least(most, size - out_piece->start.dim[k]);
  }
  return true;
}

void ls_piece_copy(const ls_piece *piece, ls_shape shape, size_t item,
                   const void *from, void *to) {
  const char *source = from;
  if (ls_shape_num_elements(piece->shape) == 0) return;
  if (shape.rank == 0) {
    memcpy(to, from, item);
    return;
  }
  const int32_t last = shape.rank - 1;
  const size_t row = (size_t)piece->shape.dim[last] * item;
  int64_t at[LS_MAX_RANK] = {0};
  for (;;) {
    int64_t place = 0;
    for (int32_t k = 0; k <= last; ++k)
      place = place * shape.dim[k] + piece->start.dim[k] + at[k];
    memcpy((char *)to + (size_t)place * item, source, row);
    source += row;
    int32_t k = last;
    while (--k >= 0 && ++at[k] == piece->shape.dim[k])
      at[k] = 0;
    if (k < 0) return;
  }
}

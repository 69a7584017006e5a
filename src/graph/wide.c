// SPDX-License-Identifier: Apache-2.0
#include "graph/wide.h"

#include <string.h>

ls_status ls_wide_type(ls_type part, int64_t replicas, ls_type *out_type) {
  const int32_t rank = part.shape.rank;
  *out_type = part;
  if (part.dtype == LS_DTYPE_RESOURCE || part.dtype == LS_DTYPE_VARIANT)
    return ls_unimplemented("a wide value of %s: it holds numbers and strings",
                            ls_dtype_name(part.dtype));
  if (rank < 0) return ls_ok();
  if (rank == LS_MAX_RANK)
    return ls_invalid_argument(
        "a wide value of %s would have %d dimensions; there are at most %d",
        LS_SHAPE_TEXT(part.dtype, part.shape), rank + 1, LS_MAX_RANK);
  memmove(out_type->shape.dim + 1, part.shape.dim,
          (size_t)rank * sizeof(*part.shape.dim));
  out_type->shape.dim[0] = replicas;
  ++out_type->shape.rank;
  return ls_ok();
}

ls_status ls_wide_part(ls_type wide, int64_t replicas, ls_type *out_type) {
  const int32_t rank = wide.shape.rank;
  *out_type = wide;
  if (rank < 0) return ls_ok();
  if (rank == 0 || (wide.shape.dim[0] >= 0 && wide.shape.dim[0] != replicas))
    return ls_invalid_argument("%s is no wide value of %lld replicas",
                               LS_SHAPE_TEXT(wide.dtype, wide.shape),
                               (long long)replicas);
  memmove(out_type->shape.dim, wide.shape.dim + 1,
          (size_t)(rank - 1) * sizeof(*wide.shape.dim));
  out_type->shape.dim[rank - 1] = 0;
  --out_type->shape.rank;
  return ls_ok();
}

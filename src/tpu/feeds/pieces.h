// SPDX-License-Identifier: Apache-2.0
// Values cut over the logical cores of a replica.
//
// Each dimension is cut greedily: pieces of ceil(size / parts), then the rest,
// then empty ones. Pieces are numbered row by row over the parts.
//
// Thread-safe: functions of their arguments alone.
#ifndef LS_TPU_FEEDS_PIECES_H_
#define LS_TPU_FEEDS_PIECES_H_

#include "lockstep/shape.h"

// How many parts along each dimension; a rank of -1 is all of it on each core.
static inline bool ls_components_are_whole(ls_shape parts) {
  return parts.rank == LS_UNKNOWN_RANK;
}
// Their product; 1 of a whole.
int64_t ls_components_count(ls_shape parts);

// Whether a value of this shape can be cut so over the cores of a replica.
LS_MUST_USE ls_status ls_components_check(ls_shape shape, ls_shape parts,
                                          int64_t cores);
// The same of what is known without a shape.
LS_MUST_USE ls_status ls_components_check_count(ls_shape parts, int64_t cores);

typedef struct ls_piece {
  ls_shape start, shape;
} ls_piece;

// Piece `core`; false: that core gets none.
bool ls_piece_of(ls_shape shape, ls_shape parts, int64_t core,
                 ls_piece *out_piece);
// Copies a piece to its place in the whole.
void ls_piece_copy(const ls_piece *piece, ls_shape shape, size_t item,
                   const void *from, void *to);

// "[2,1]", "[]".
#define LS_PARTS_TEXT(parts) LS_SHAPE_TEXT(LS_DTYPE_F32, parts) + 3

#endif  // LS_TPU_FEEDS_PIECES_H_

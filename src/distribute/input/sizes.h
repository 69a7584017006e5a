// SPDX-License-Identifier: Apache-2.0
//
// How many rows each replica gets of a batch. The even sizes, which are the
// default, are ls_part_rows.
#ifndef LS_DISTRIBUTE_INPUT_SIZES_H_
#define LS_DISTRIBUTE_INPUT_SIZES_H_

#include "base/values/nest_internal.h"

// Where an even part begins; that of part `parts` is the number of rows.
static inline int64_t ls_part_begin(int64_t rows, int64_t parts, int64_t part) {
  const int64_t longer = rows % parts;
  return part * (rows / parts) + (part < longer ? part : longer);
}

// Part `part` of `rows` in `parts` of ceil(rows / parts), the last ones shorter
// or empty.
static inline int64_t ls_part_rows_up(int64_t rows, int64_t parts,
                                      int64_t part) {
  const int64_t most = rows / parts + (rows % parts > 0);
  const int64_t left = rows - part * most;
  return left < 0 ? 0 : left < most ? left : most;
}

// A host that reads rows of its own cuts them into these sizes, one after
// another, over and over: the even sizes of a batch of `rows` in `parts`, from
// number `first` on. So all hosts together use `rows` in each step.
static inline int64_t ls_cyclic_rows(int64_t rows, int64_t parts, int64_t first,
                                     int64_t index) {
  return ls_part_rows(rows, parts, (first + index) % parts);
}

// The rows of a slice of an array: as many as reach so many bytes.
static inline int64_t ls_slice_rows(int64_t bytes, int64_t bytes_of_row) {
  return bytes_of_row > 0 ? (bytes + bytes_of_row - 1) / bytes_of_row : bytes;
}

// The part of a batch that is value `index` of host `host`, where parts are
// dealt to hosts in turns.
static inline size_t ls_dealt_part(size_t hosts, size_t host, size_t index) {
  return host + index * hosts;
}

#endif  // LS_DISTRIBUTE_INPUT_SIZES_H_

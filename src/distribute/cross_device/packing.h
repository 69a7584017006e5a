// SPDX-License-Identifier: Apache-2.0
//
// Packing: moves several tensors of a batch over the devices as one. Each
// device has a row of tensors with the same columns; groups of columns are
// flattened, joined, possibly cut into pieces, and unpacked afterwards.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_

#include "distribute/values/values.h"

// The tensors of one device.
typedef struct ls_tensor_row {
  ls_tensor *items;
  size_t count;
} ls_tensor_row;

// Allocates rows of `count` tensors each in one block, released with
// rows[0].items and rows. NULL without memory.
ls_tensor_row *ls_tensor_rows(ls_allocator *allocator, size_t num_rows,
                              size_t count);
void ls_tensor_rows_release(ls_allocator *allocator, ls_tensor_row *rows);

// Columns that are packed together.
typedef struct ls_pack_group {
  size_t *columns;
  size_t count;
  size_t pieces;  // 0: a single column that is not packed.
} ls_pack_group;

// Packed tensors, and how they are packed.
typedef struct ls_packed {
  ls_allocator *allocator;
  const ls_tensor_row *rows;  // The unpacked rows, borrowed.
  size_t num_rows;
  const ls_device_set *devices;  // Devices of the rows, borrowed.
  const char *scope;  // Name scope of packing and unpacking ops, or NULL.
  const char *unpack_scope;
  ls_pack_group *groups;
  size_t num_groups;
  size_t *columns;        // Columns of all groups.
  ls_tensor_row *flat;    // Flattened tensors of groups with pieces.
  ls_tensor_row *pieces;  // The tensors to reduce.
} ls_packed;

// Joins all columns of a dtype, with dtypes in order of appearance, and cuts
// each into `num_packs` pieces; the last takes the remainder. Makes one piece
// if sizes are not known while building.
//   LS_INVALID_ARGUMENT  no packs; rows of different lengths
ls_status ls_pack_joined(const ls_tensor_row *rows, size_t num_rows,
                         const ls_device_set *devices, int64_t num_packs,
                         ls_packed *out_packed);
// Joins runs of two to `max_group` (default 16) consecutive f32 columns of at
// most `max_bytes` (default 1 MiB) each; the other columns follow.
//   LS_INVALID_ARGUMENT  a limit below 1; rows of different lengths
ls_status ls_pack_small(const ls_tensor_row *rows, size_t num_rows,
                        const ls_device_set *devices, ls_opt max_bytes,
                        ls_opt max_group, ls_packed *out_packed);
// Unpacks reduced pieces into `rows`, with the original shapes.
ls_status ls_unpack(const ls_packed *packed, const ls_tensor_row *reduced,
                    ls_tensor_row *rows);
void ls_packed_deinit(ls_packed *packed);
LS_OWNED_STRUCT(ls_packed, ls_packed_deinit)

// Splits ascending indices into runs of two to `limit` (0: 32) consecutive
// ones, each given by its first and last, and single indices. The two outputs
// have room for `count`.
typedef struct ls_index_range {
  size_t first, last;
} ls_index_range;
void ls_index_ranges(const size_t *indices, size_t count, size_t limit,
                     ls_index_range *ranges, size_t *out_num_ranges,
                     size_t *singles, size_t *out_num_singles);

// ---- Hierarchical ----------------------------------------------------------
// Two main devices, one for each half of the devices, alternate from value to
// value.
//
// Reduces the `index`-th value of a batch: the sum of `items`, one a device, on
// the first main device, copied to both, and from there to each device of its
// half; with an odd number of devices the second half has one more. The sum is
// in canonical order, regardless of the halves.
void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_

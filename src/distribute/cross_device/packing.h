// SPDX-License-Identifier: Apache-2.0
//
// Packing: several tensors of a batch go over the devices as one. Each device
// has a row of tensors, the same columns in each; groups of columns are
// flattened, joined and perhaps cut into pieces, and put back afterwards.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_

#include "distribute/values/values.h"

// The tensors of one device.
typedef struct ls_tensor_row {
  ls_tensor *items;
  size_t count;
} ls_tensor_row;

// Rows of `count` tensors each, in one piece of memory, released with
// rows[0].items and rows. NULL: no memory.
ls_tensor_row *ls_tensor_rows(ls_allocator *allocator, size_t num_rows,
                              size_t count);
void ls_tensor_rows_release(ls_allocator *allocator, ls_tensor_row *rows);

// Columns that go together.
typedef struct ls_pack_group {
  size_t *columns;
  size_t count;
  size_t pieces;  // 0: the only column goes as it is.
} ls_pack_group;

// Packed tensors, and how they were packed.
typedef struct ls_packed {
  ls_allocator *allocator;
  const ls_tensor_row *rows;  // Lent: what was packed.
  size_t num_rows;
  const ls_device_set *devices;  // Of the rows, lent.
  const char *scope;             // What ops are made in, and out of; or NULL.
  const char *unpack_scope;
  ls_pack_group *groups;
  size_t num_groups;
  size_t *columns;        // Of all groups.
  ls_tensor_row *flat;    // Each tensor of a group with pieces, flattened.
  ls_tensor_row *pieces;  // What is to be reduced.
} ls_packed;

// Joins all columns of a dtype, dtypes by first appearance, and cuts each into
// `num_packs` pieces, of which the last is as large as the rest; into one where
// sizes are not known while building.
//   LS_INVALID_ARGUMENT  no packs; rows of other lengths.
ls_status ls_pack_joined(const ls_tensor_row *rows, size_t num_rows,
                         const ls_device_set *devices, int64_t num_packs,
                         ls_packed *out_packed);
// Joins runs of two to `max_group` (default 16) consecutive columns of f32 that
// have at most `max_bytes` (default 1 MiB) each; the others follow.
//   LS_INVALID_ARGUMENT  a limit that is not above 0; rows of other lengths.
ls_status ls_pack_small(const ls_tensor_row *rows, size_t num_rows,
                        const ls_device_set *devices, ls_opt max_bytes,
                        ls_opt max_group, ls_packed *out_packed);
// Puts reduced pieces back: `rows` get the shape of what was packed.
ls_status ls_unpack(const ls_packed *packed, const ls_tensor_row *reduced,
                    ls_tensor_row *rows);
void ls_packed_deinit(ls_packed *packed);
LS_OWNED_STRUCT(ls_packed, ls_packed_deinit)

// Cuts ascending indices into runs of consecutive ones, of two to `limit` (0:
// 32), each as its first and last, and what is left. Both have room for
// `count`.
typedef struct ls_index_range {
  size_t first, last;
} ls_index_range;
void ls_index_ranges(const size_t *indices, size_t count, size_t limit,
                     ls_index_range *ranges, size_t *out_num_ranges,
                     size_t *singles, size_t *out_num_singles);

// ---- Hierarchical ----------------------------------------------------------
// Two main devices, one for each half of the devices, which alternate from
// value to value.
//
// Reduces the `index`-th value of a batch: the sum of `items`, one a device, on
// the first main device, copied to both, and from there to each device of the
// half; of an odd number of devices the second half has one more. The sum is
// one sum in the canonical order, whatever the halves.
void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_PACKING_H_

// SPDX-License-Identifier: Apache-2.0
#include "distribute/cross_device/cross_device.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "runtime/eager/eager.h"

ls_tensor_row *ls_tensor_rows(ls_allocator *allocator, size_t num_rows,
                              size_t count) {
  size_t total = 0;
  if (__builtin_mul_overflow(num_rows, count, &total) || total == SIZE_MAX)
    return NULL;
  ls_tensor_row *rows = ls_new_array(allocator, ls_tensor_row, num_rows);
  ls_tensor *items = ls_new_array(allocator, ls_tensor, total);
  if (rows == NULL || items == NULL) {
    ls_release(allocator, rows);
    ls_release(allocator, items);
    return NULL;
  }
  rows[0].items = items;  // Set even if there are no rows.
  for (size_t r = 0; r < num_rows; ++r)
    rows[r] = (ls_tensor_row){items + r * count, count};
  return rows;
}

void ls_tensor_rows_release(ls_allocator *allocator, ls_tensor_row *rows) {
  if (rows != NULL) ls_release(allocator, rows[0].items);
  ls_release(allocator, rows);
}

// ---- Runs of indices -------------------------------------------------------
void ls_index_ranges(const size_t *indices, size_t count, size_t limit,
                     ls_index_range *ranges, size_t *out_num_ranges,
                     size_t *singles, size_t *out_num_singles) {
  enum { USUAL_LIMIT = 32 };
  if (limit == 0) limit = USUAL_LIMIT;
  *out_num_ranges = *out_num_singles = 0;
  for (size_t i = 0, length; i < count; i += length) {
    length = 1;
    while (i + length < count && length < limit &&
           indices[i + length] == indices[i] + length)
      ++length;
    if (length == 1)
      singles[(*out_num_singles)++] = indices[i];
    else
      ranges[(*out_num_ranges)++] =
          (ls_index_range){indices[i], indices[i] + length - 1};
  }
}

// ---- Groups ----------------------------------------------------------------
static ls_status packing_init(ls_packed *p, const ls_tensor_row *rows,
                              size_t num_rows, const ls_device_set *devices) {
  *p = (ls_packed){.allocator = ls_current_allocator(),
                   .rows = rows,
                   .num_rows = num_rows,
                   .devices = devices};
  for (size_t r = 1; r < num_rows; ++r)
    if (rows[r].count != rows[0].count)
      return ls_invalid_argument(
          "replica 0 offers %zu tensors to pack, replica %zu offers %zu",
          rows[0].count, r, rows[r].count);
  const size_t count = rows[0].count;
  p->groups = ls_new_array(p->allocator, ls_pack_group, count);
  p->columns = ls_new_array(p->allocator, size_t, count);
  p->flat = ls_tensor_rows(p->allocator, num_rows, count);
  return p->groups == NULL || p->columns == NULL || p->flat == NULL
             ? ls_out_of_memory()
             : ls_ok();
}

void ls_packed_deinit(ls_packed *p) {
  ls_release(p->allocator, p->groups);
  ls_release(p->allocator, p->columns);
  ls_tensor_rows_release(p->allocator, p->flat);
  ls_tensor_rows_release(p->allocator, p->pieces);
  *p = (ls_packed){0};
}

// Counts the elements of a group's columns; -1: not known.
static int64_t packing_elements_of(const ls_packed *p,
                                   const ls_pack_group *group) {
  int64_t total = 0;
  for (size_t i = 0; i < group->count; ++i) {
    const ls_shape shape = ls_tensor_shape(p->rows[0].items[group->columns[i]]);
    if (!ls_shape_is_known(shape)) return -1;
    total += ls_shape_num_elements(shape);
  }
  return total;
}

// Adds a group for each type of `count` columns, from `first` on upwards or
// downwards: `step` is 1 or -1.
static void group_by_types(ls_packed *p, size_t first, ptrdiff_t step,
                           size_t count, size_t *used) {
  const ls_tensor *items = p->rows[0].items + first;
  for (size_t i = 0; i < count; ++i) {
    const ls_dtype dtype = ls_tensor_dtype(items[step * (ptrdiff_t)i]);
    bool seen = false;
    for (size_t k = 0; k < i && !seen; ++k)
      seen = ls_tensor_dtype(items[step * (ptrdiff_t)k]) == dtype;
    if (seen) continue;
    ls_pack_group *group = &p->groups[p->num_groups++];
    *group = (ls_pack_group){.columns = p->columns + *used};
    for (size_t k = i; k < count; ++k)
      if (ls_tensor_dtype(items[step * (ptrdiff_t)k]) == dtype)
        group->columns[group->count++] =
            (size_t)((ptrdiff_t)first + step * (ptrdiff_t)k);
    *used += group->count;
  }
}

static bool is_small(ls_tensor x, int64_t max_bytes) {
  const ls_shape shape = ls_tensor_shape(x);
  return ls_tensor_dtype(x) == LS_DTYPE_F32 && ls_shape_is_known(shape) &&
         ls_shape_num_elements(shape) <= max_bytes / (int64_t)sizeof(float);
}

// Groups runs of small columns. Each remaining column gets a group of its own,
// after these.
static ls_status group_small(ls_packed *p, int64_t max_bytes,
                             size_t max_group) {
  const size_t count = p->rows[0].count;
  LS_OWN_ARRAY(p->allocator, size_t, room, 2 * count);
  LS_OWN_ARRAY(p->allocator, ls_index_range, ranges, count);
  size_t num_small = 0, num_ranges = 0, num_singles = 0, used = 0;
  if (room != NULL && ranges != NULL) {
    for (size_t c = 0; c < count; ++c)
      if (is_small(p->rows[0].items[c], max_bytes)) room[num_small++] = c;
    ls_index_ranges(room, num_small, max_group, ranges, &num_ranges,
                    room + count, &num_singles);
    for (size_t i = 0; i < num_ranges; ++i) {
      const ls_index_range range = ranges[i];
      ls_pack_group *group = &p->groups[p->num_groups++];
      *group = (ls_pack_group){.columns = p->columns + used, .pieces = 1};
      for (size_t c = range.first; c <= range.last; ++c)
        group->columns[group->count++] = c;
      used += group->count;
    }
    for (size_t c = 0, next = 0; c < count; ++c) {
      if (next < num_ranges && c == ranges[next].first) {
        c = ranges[next++].last;
        continue;
      }
      p->columns[used] = c;
      p->groups[p->num_groups++] =
          (ls_pack_group){.columns = p->columns + used++, .count = 1};
    }
  }
  const bool made = room != NULL && ranges != NULL;
  return made ? ls_ok() : ls_out_of_memory();
}

// Returns the size of a column in bytes; -1: not known.
static int64_t packing_bytes_of(const ls_packed *p, size_t column) {
  const ls_tensor x = p->rows[0].items[column];
  const ls_shape shape = ls_tensor_shape(x);
  return ls_shape_is_known(shape)
             ? ls_shape_num_elements(shape) *
                   (int64_t)ls_dtype_size(ls_tensor_dtype(x))
             : -1;
}

static void group_by_size(ls_packed *p, int64_t most) {
  const size_t count = p->rows[0].count;
  size_t used = 0, begin = 0;
  int64_t held = 0;
  for (size_t c = 0; most > 0 && c < count; ++c) {
    if (packing_bytes_of(p, c) >= 0) continue;
    ls_log_limited(
        ls_runtime_current(), "pack by size", 10, LS_LOG_WARNING, "distribute",
        "value %zu of a batch has no known size: the batch is one pack", c);
    most = 0;
  }
  for (size_t i = 0; i < count; ++i) {
    if (most > 0 && held > most) {
      group_by_types(p, count - 1 - begin, -1, i - begin, &used);
      begin = i;
      held = 0;
    }
    held += packing_bytes_of(p, count - 1 - i);
  }
  group_by_types(p, count - 1 - begin, -1, count - begin, &used);
  for (size_t g = 0; g < p->num_groups; ++g)
    p->groups[g].pieces = p->groups[g].count > 1;
}

// ---- Packing ---------------------------------------------------------------
// Colocates the ops of a row with its first tensor; in graphs where colocation
// has no effect, uses the row's device.
static void begin_beside(const ls_packed *p, ls_scope *scope, size_t row,
                         ls_tensor first) {
  if (ls_graph_current() == first.graph && !ls_graph_is_eager(first.graph) &&
      ls_op_device(ls_tensor_op(first))[0] != '\0')
    ls_colocate_scope_begin(scope, ls_tensor_op(first));
  else
    ls_device_scope_begin(scope, p->devices->names[row].text);
}

static void pack_group(ls_packed *p, const ls_pack_group *group, size_t row,
                       size_t piece) {
  const ls_tensor_row *from = &p->rows[row];
  ls_tensor *to = p->pieces[row].items + piece;
  if (group->pieces == 0) {
    to[0] = from->items[group->columns[0]];
    return;
  }
  // The flat tensors of a group are adjacent.
  ls_tensor *flat = p->flat[row].items + (group->columns - p->columns);
  ls_scope scope = {0};
  begin_beside(p, &scope, row, from->items[group->columns[0]]);
  for (size_t i = 0; i < group->count; ++i)
    flat[i] = ls_reshape(from->items[group->columns[i]], LS_SHAPE(-1));
  const ls_tensor joined = ls_concatenate(flat, group->count, 0);
  const int64_t pieces = (int64_t)group->pieces;
  const int64_t size = pieces == 1 ? 0 : packing_elements_of(p, group) / pieces;
  for (int64_t i = 0; i < pieces; ++i)
    to[i] = pieces == 1 ? joined
                        : ls_slice_axis(joined, 0, i * size,
                                        i + 1 < pieces ? (i + 1) * size : -1);
  ls_scope_end(&scope);
}

// Returns the number of items of a group in a row of pieces.
static size_t num_pieces(const ls_pack_group *group) {
  return group->pieces == 0 ? 1 : group->pieces;
}

static ls_status pack(ls_packed *p) {
  size_t pieces = 0;
  for (size_t g = 0; g < p->num_groups; ++g)
    if (__builtin_add_overflow(pieces, num_pieces(&p->groups[g]), &pieces))
      return ls_out_of_memory();
  p->pieces = ls_tensor_rows(p->allocator, p->num_rows, pieces);
  if (p->pieces == NULL) return ls_out_of_memory();
  ls_scope names = {0};
  if (p->scope != NULL) ls_name_scope_begin(&names, p->scope);
  for (size_t r = 0; r < p->num_rows; ++r) {
    size_t piece = 0;
    for (size_t g = 0; g < p->num_groups; ++g) {
      pack_group(p, &p->groups[g], r, piece);
      piece += num_pieces(&p->groups[g]);
    }
  }
  ls_scope_end(&names);
  for (size_t r = 0; r < p->num_rows; ++r)
    for (size_t i = 0; i < pieces; ++i)
      LS_RETURN_IF_ERROR(ls_made_status(p->pieces[r].items[i]));
  return ls_ok();
}

ls_status ls_pack_joined(const ls_tensor_row *rows, size_t num_rows,
                         const ls_device_set *devices, int64_t num_packs,
                         ls_packed *out_packed) {
  *out_packed = (ls_packed){0};
  if (num_packs <= 0)
    return ls_invalid_argument("num_packs %lld: one pack at least",
                               (long long)num_packs);
  LS_OWN(ls_packed, packed) = {0};
  LS_RETURN_IF_ERROR(packing_init(&packed, rows, num_rows, devices));
  size_t used = 0;
  group_by_types(&packed, 0, 1, packed.rows[0].count, &used);
  for (size_t g = 0; g < packed.num_groups; ++g)
    packed.groups[g].pieces =
        packing_elements_of(&packed, &packed.groups[g]) < 0 ? 1
                                                            : (size_t)num_packs;
  LS_RETURN_IF_ERROR(pack(&packed));
  return ls_hand_over(&packed, out_packed);
}

ls_status ls_pack_by_size(const ls_tensor_row *rows, size_t num_rows,
                          const ls_device_set *devices, int64_t most,
                          ls_packed *out_packed) {
  *out_packed = (ls_packed){0};
  LS_OWN(ls_packed, packed) = {0};
  LS_RETURN_IF_ERROR(packing_init(&packed, rows, num_rows, devices));
  group_by_size(&packed, most);
  LS_RETURN_IF_ERROR(pack(&packed));
  return ls_hand_over(&packed, out_packed);
}

ls_status ls_pack_small(const ls_tensor_row *rows, size_t num_rows,
                        const ls_device_set *devices, ls_opt max_bytes,
                        ls_opt max_group, ls_packed *out_packed) {
  enum { USUAL_BYTES = 1048576, USUAL_GROUP = 16 };
  const long long bytes = max_bytes.set ? max_bytes.value : USUAL_BYTES;
  const long long group = max_group.set ? max_group.value : USUAL_GROUP;
  *out_packed = (ls_packed){0};
  if (bytes <= 0 || group <= 0)
    return ls_invalid_argument("small tensors are packed up to max_bytes %lld "
                               "and max_group %lld: both are above 0",
                               bytes, group);
  LS_OWN(ls_packed, packed) = {0};
  LS_RETURN_IF_ERROR(packing_init(&packed, rows, num_rows, devices));
  packed.scope = "pack";
  packed.unpack_scope = "unpack";
  LS_RETURN_IF_ERROR(group_small(&packed, bytes, (size_t)group));
  LS_RETURN_IF_ERROR(pack(&packed));
  return ls_hand_over(&packed, out_packed);
}

// ---- Unpacking -------------------------------------------------------------
static ls_status unpack_group(const ls_packed *p, const ls_pack_group *group,
                              size_t row, const ls_tensor *pieces,
                              ls_tensor *items) {
  if (group->pieces == 0) {
    items[group->columns[0]] = pieces[0];
    return ls_ok();
  }
  const ls_tensor *flat = p->flat[row].items + (group->columns - p->columns);
  ls_scope scope = {0};
  begin_beside(p, &scope, row, pieces[0]);
  const ls_op parts = ls_split_like(ls_concatenate(pieces, group->pieces, 0),
                                    flat, group->count, 0);
  for (size_t i = 0; i < group->count; ++i)
    items[group->columns[i]] =
        ls_reshape_like(ls_op_output(parts, (unsigned)i),
                        p->rows[row].items[group->columns[i]]);
  ls_scope_end(&scope);
  for (size_t i = 0; i < group->count; ++i)
    LS_RETURN_IF_ERROR(ls_made_status(items[group->columns[i]]));
  return ls_ok();
}

ls_status ls_unpack(const ls_packed *p, const ls_tensor_row *reduced,
                    ls_tensor_row *rows) {
  ls_scope names = {0};
  if (p->unpack_scope != NULL) ls_name_scope_begin(&names, p->unpack_scope);
  ls_status status = ls_ok();
  for (size_t r = 0; r < p->num_rows; ++r) {
    size_t piece = 0;
    for (size_t g = 0; g < p->num_groups && ls_status_is_ok(status); ++g) {
      status = unpack_group(p, &p->groups[g], r, reduced[r].items + piece,
                            rows[r].items);
      piece += num_pieces(&p->groups[g]);
    }
  }
  ls_scope_end(&names);
  return status;
}

static ls_tensor copy_on(const char *device, ls_tensor x) {
  LS_DEVICE_SCOPE(device);
  return ls_identity(x);
}

void ls_hierarchical_copy(const ls_tensor *items, const ls_device_set *devices,
                          size_t index, ls_tensor *out_items) {
  const size_t count = devices->count, half = count / 2;
  if (count == 1) {
    out_items[0] = copy_on(devices->names[0].text, items[0]);
    return;
  }
  const size_t mains[2] = {index % count, (index % count + half) % count};
  ls_tensor total = ls_failed_tensor(), copies[2];
  {
    LS_DEVICE_SCOPE(devices->names[mains[0]].text);
    total = ls_add_n(items, count);
  }
  for (size_t i = 0; i < 2; ++i)
    copies[i] = copy_on(devices->names[mains[i]].text, total);
  // Alternates between the first and the second main device.
  const bool first_half = mains[0] < half;
  for (size_t d = 0; d < count; ++d)
    out_items[d] = copy_on(devices->names[d].text,
                           copies[(d < half) == first_half ? 0 : 1]);
}

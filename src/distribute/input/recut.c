// SPDX-License-Identifier: Apache-2.0
//
// Rows of a host's batches, cut into other batches.
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/input/input.h"
#include "distribute/input/sizes.h"

// Another batch, in place of the one that is used up. One that fails is passed
// over: it has no rows.
ls_status ls_input_read_batch(ls_distributed_iterator *it, size_t host) {
  ls_input_rows *from = &it->rows[host];
  LS_OWN_MEMORY(it->allocator, ls_nest, leaves) = NULL;
  if (from->ended) return ls_out_of_range("no more rows");
  ls_status status = ls_iterator_next(it->sources[host], &from->batch);
  from->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  if (from->ended) return status;
  ++from->batches;
  from->next = from->rows = 0;
  LS_RETURN_IF_ERROR(status);
  status = ls_input_leaves(it, from->batch, &leaves);
  if (ls_status_is_ok(status))
    status = ls_input_rows_in(it, leaves, &from->rows);
  return status;
}

// Behind what the replica has already, which becomes one array with it.
static ls_status append_rows(ls_nest *to, ls_nest more) {
  const ls_array *a = ls_nest_as_array(*to), *b = ls_nest_as_array(more);
  if (a == NULL || b == NULL)
    return ls_unimplemented(
        "rows of several batches as one of sparse or ragged "
        "leaves: batch sizes are to fit");
  ls_shape shape = ls_array_shape(a);
  shape.dim[0] += ls_array_shape(b).dim[0];
  const ls_dtype dtype = ls_array_dtype(a);
  const ls_shape one = ls_array_shape(b);
  for (int d = 1; d < shape.rank; ++d)
    if (shape.rank != one.rank || shape.dim[d] != one.dim[d])
      return ls_invalid_argument("rows of %s and of %s are not put together",
                                 LS_SHAPE_TEXT(dtype, ls_array_shape(a)),
                                 LS_SHAPE_TEXT(dtype, one));
  const size_t size = ls_array_size(a) + ls_array_size(b);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, char, bytes) = ls_allocate(allocator, size + 1);
  LS_RETURN_IF_NO_MEMORY(bytes);
  memcpy(bytes, ls_array_data(a), ls_array_size(a));
  memcpy(bytes + ls_array_size(a), ls_array_data(b), ls_array_size(b));
  ls_array *made = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(dtype, shape, bytes, &made));
  ls_nest_release(*to);
  *to = ls_nest_array(made);
  return ls_ok();
}

static ls_status append_leaf(ls_nest *part, ls_nest rows) {
  if (part->kind == LS_KIND_NONE) {
    *part = rows;
    return ls_ok();
  }
  const ls_status status = append_rows(part, rows);
  ls_nest_release(rows);
  return status;
}

static ls_status recut_append(ls_distributed_iterator *it, size_t host,
                              int64_t count, size_t replica) {
  const ls_distributed_dataset *data = it->data;
  ls_input_rows *from = &it->rows[host];
  LS_OWN_MEMORY(it->allocator, ls_nest, leaves) = NULL;
  ls_status status = ls_input_leaves(it, from->batch, &leaves);
  for (size_t l = 0; l < data->num_leaves && ls_status_is_ok(status); ++l) {
    ls_nest rows = ls_none();
    status = ls_input_take_part(leaves[l], from->next, count, &rows);
    if (ls_status_is_ok(status))
      status = append_leaf(&it->parts[l * data->num_replicas + replica], rows);
  }
  from->next += count;
  return status;
}

// Of each batch as many pieces as there are replicas, the last ones shorter or
// empty.
static ls_status take_part(ls_distributed_iterator *it, size_t host,
                           size_t replica) {
  ls_input_rows *from = &it->rows[host];
  const int64_t parts = (int64_t)it->data->num_replicas;
  if (from->batches == 0 || from->taken == parts) {
    LS_RETURN_IF_ERROR(ls_input_read_batch(it, host));
    from->taken = 0;
  }
  return recut_append(
      it, host, ls_part_rows_up(from->rows, parts, from->taken++), replica);
}

// Sizes by turns, over the borders of batches; at the end a short piece.
static ls_status take_cyclic(ls_distributed_iterator *it, size_t host,
                             size_t replica) {
  const ls_distributed_dataset *data = it->data;
  ls_input_rows *from = &it->rows[host];
  int64_t left =
      ls_cyclic_rows(data->cut_rows, (int64_t)data->num_replicas,
                     (int64_t)data->map.hosts[host].first, from->taken);
  // A piece of no rows also needs that there are some.
  for (bool any = false; !any || left > 0;) {
    while (from->next == from->rows) {
      const ls_status status = ls_input_read_batch(it, host);
      if (ls_status_is_ok(status)) continue;
      const bool ends = ls_status_code(status) == LS_OUT_OF_RANGE;
      if (any || !ends) ++from->taken;
      if (!any || !ends) return status;
      ls_status_free(status);
      return ls_ok();
    }
    const int64_t there = from->rows - from->next;
    const int64_t count = left < there ? left : there;
    LS_RETURN_IF_ERROR(recut_append(it, host, count, replica));
    left -= count;
    any = true;
  }
  ++from->taken;
  return ls_ok();
}

ls_status ls_input_take_rows(ls_distributed_iterator *it, size_t host,
                             size_t replica) {
  return it->data->cut_rows < 0 ? take_part(it, host, replica)
                                : take_cyclic(it, host, replica);
}

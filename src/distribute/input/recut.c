// SPDX-License-Identifier: Apache-2.0
//
// Rebatching: rows of a host's batches in batches of other sizes.
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/input/input.h"
#include "distribute/input/rows.h"

// Reads another batch in place of the one that is used up. One that fails has
// no rows, and is skipped.
ls_status ls_input_read_batch(ls_distributed_iterator *self, size_t host) {
  ls_input_rows *from = &self->rows[host];
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  if (from->ended) return ls_out_of_range("no more rows");
  const ls_status status = ls_iterator_next(self->sources[host], &from->batch);
  from->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  if (from->ended) return status;
  ++from->batches;
  from->next = from->rows = 0;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_input_leaves(self, from->batch, &leaves));
  return ls_input_rows_in(self, leaves, &from->rows);
}

// Appends rows to those that a replica has: together they are one array.
static ls_status append_rows(ls_nest *part, ls_nest rows) {
  const ls_array *a = ls_nest_as_array(*part), *b = ls_nest_as_array(rows);
  if (a == NULL || b == NULL)
    return ls_unimplemented(
        "rows of several batches as one of sparse or ragged "
        "leaves: batch sizes are to fit");
  ls_shape shape = ls_array_shape(a);
  const ls_dtype dtype = ls_array_dtype(a);
  const ls_shape added = ls_array_shape(b);
  shape.dim[0] += added.dim[0];
  for (int d = 1; d < shape.rank; ++d)
    if (shape.rank != added.rank || shape.dim[d] != added.dim[d])
      return ls_invalid_argument("rows of %s and of %s are not put together",
                                 LS_SHAPE_TEXT(dtype, ls_array_shape(a)),
                                 LS_SHAPE_TEXT(dtype, added));
  const size_t num_bytes = ls_array_size(a) + ls_array_size(b);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, char, bytes) = ls_allocate(allocator, num_bytes + 1);
  LS_RETURN_IF_NO_MEMORY(bytes);
  memcpy(bytes, ls_array_data(a), ls_array_size(a));
  memcpy(bytes + ls_array_size(a), ls_array_data(b), ls_array_size(b));
  ls_array *joined = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(dtype, shape, bytes, &joined));
  ls_nest_release(*part);
  *part = ls_nest_array(joined);
  return ls_ok();
}

// Moves the host's next rows to a replica. Those of a failure are used, too.
static ls_status recut_append(ls_distributed_iterator *self, size_t host,
                              int64_t count, size_t replica) {
  const ls_distributed_dataset *data = self->data;
  ls_input_rows *from = &self->rows[host];
  const int64_t first = from->next;
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  from->next += count;
  LS_RETURN_IF_ERROR(ls_input_leaves(self, from->batch, &leaves));
  for (size_t l = 0; l < data->num_leaves; ++l) {
    LS_OWN(ls_nest, rows) = ls_none();
    ls_nest *part = &self->parts[l * data->num_replicas + replica];
    LS_RETURN_IF_ERROR(ls_rows_take(leaves[l], 0, first, count, &rows));
    if (part->kind == LS_KIND_NONE)
      *part = ls_give(&rows);
    else
      LS_RETURN_IF_ERROR(append_rows(part, rows));
  }
  return ls_ok();
}

// Takes one of the pieces of a batch, as many as there are replicas.
static ls_status take_piece(ls_distributed_iterator *self, size_t host,
                            size_t replica) {
  ls_input_rows *from = &self->rows[host];
  const ls_row_shares *shares = &self->data->shares;
  if (from->batches == 0 || from->taken == shares->parts) {
    LS_RETURN_IF_ERROR(ls_input_read_batch(self, host));
    from->taken = 0;
  }
  const int64_t count = ls_shares_rows(shares, from->rows, from->taken++);
  return recut_append(self, host, count, replica);
}

// Takes a piece of the sizes in turn, over the borders of batches; at the end a
// short one.
static ls_status take_cyclic(ls_distributed_iterator *self, size_t host,
                             size_t replica) {
  const ls_distributed_dataset *data = self->data;
  ls_input_rows *from = &self->rows[host];
  int64_t left =
      ls_cyclic_rows(&data->shares, data->cut_rows,
                     (int64_t)data->map.hosts[host].first, from->taken);
  // A piece of no rows also needs that there are some.
  for (bool has_rows = false; !has_rows || left > 0;) {
    while (from->next == from->rows) {
      const ls_status status = ls_input_read_batch(self, host);
      if (ls_status_is_ok(status)) continue;
      const bool ends = ls_status_code(status) == LS_OUT_OF_RANGE;
      if (has_rows || !ends) ++from->taken;
      if (!has_rows || !ends) return status;
      ls_status_free(status);
      return ls_ok();
    }
    const int64_t available = from->rows - from->next;
    const int64_t count = left < available ? left : available;
    LS_RETURN_IF_ERROR(recut_append(self, host, count, replica));
    left -= count;
    has_rows = true;
  }
  ++from->taken;
  return ls_ok();
}

ls_status ls_input_take_rows(ls_distributed_iterator *self, size_t host,
                             size_t replica) {
  return self->data->cut_rows < 0 ? take_piece(self, host, replica)
                                  : take_cyclic(self, host, replica);
}

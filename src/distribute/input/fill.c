// SPDX-License-Identifier: Apache-2.0
//
// Fills in each replica's next value: a part of a batch, rows of its host, or
// an element.
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "data/composite.h"
#include "distribute/base/strategy.h"
#include "distribute/input/feed.h"
#include "distribute/input/input.h"
#include "lockstep/communicator.h"

// ---- Ranks -----------------------------------------------------------------
// Input on several ranks. Other ranks' values are absent here: arrays of the
// right type whose data is not read. Where a rank cannot know the type of
// another rank's value, or whether there is one, all ranks report their values
// to each other.

// Makes the absent value that stands for another rank's value; all absent
// values of one leaf and shape are the same array.
static ls_status input_absent(ls_distributed_iterator *self, size_t leaf,
                              ls_dtype dtype, ls_shape shape,
                              ls_nest *out_value) {
  ls_array **kept = &self->absent[leaf];
  if (*kept == NULL || ls_array_dtype(*kept) != dtype ||
      !ls_shape_equal(ls_array_shape(*kept), shape)) {
    ls_array *made = NULL;
    LS_RETURN_IF_ERROR(ls_array_create(dtype, shape, &made));
    ls_array_mark_absent(made);
    ls_array_release(*kept);
    *kept = made;
  }
  *out_value = ls_nest_array(ls_array_retain(*kept));
  return ls_ok();
}

// ---- Reports ----------------------------------------------------------------
// A replica's report: flags for its value and its pipeline, then the sizes of
// its leaves; without a value the sizes of empty leaves.
enum { HAS_VALUE = 1, IS_ENDLESS = 2, IS_UNKNOWN = 4, IS_WHOLE = 8 };

static ls_status count_words(const ls_distributed_iterator *self,
                             size_t *out_count) {
  const ls_distributed_dataset *data = self->data;
  char path[200];
  *out_count = 1;
  for (size_t l = 0; l < data->num_leaves; ++l) {
    const ls_leaf_spec *leaf = &data->leaves[l];
    if (leaf->kind != LS_LEAF_DENSE || leaf->type.shape.rank < 0)
      return ls_unimplemented(
          "leaf %s of iterator '%s' on several ranks, which read by "
          "themselves: only dense ones of a known rank are possible",
          ls_input_leaf_path(data->structure, l, path, sizeof(path)),
          self->name);
    *out_count += (size_t)leaf->type.shape.rank;
  }
  return ls_ok();
}

static ls_status report_values(const ls_distributed_iterator *self,
                               size_t replica, int64_t *words) {
  const ls_distributed_dataset *data = self->data;
  const bool has = ls_input_has(self, replica);
  words[0] = (has ? HAS_VALUE : 0) | (data->is_endless ? IS_ENDLESS : 0) |
             (ls_input_has_unknown(data) ? IS_UNKNOWN : 0) |
             (data->is_never_partial ? IS_WHOLE : 0);
  for (size_t l = 0, at = 1; l < data->num_leaves; ++l) {
    ls_shape shape = ls_input_empty_type(data, l).shape;
    const int32_t rank = shape.rank;
    const ls_array *array =
        ls_nest_as_array(self->parts[l * data->num_replicas + replica]);
    if (array != NULL) shape = ls_array_shape(array);
    if ((has && array == NULL) || shape.rank != rank)
      return ls_internal(
          "an element of iterator '%s' differs from the spec of its data set",
          self->name);
    for (int d = 0; d < rank; ++d)
      words[at++] = shape.dim[d];
  }
  return ls_ok();
}

// Takes another rank's report of a value. Empty values are reported, too,
// because all ranks must know their shape.
static ls_status take_reported(ls_distributed_iterator *self, size_t replica,
                               const int64_t *words) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0, at = 1; l < data->num_leaves; ++l) {
    const ls_type *type = &data->leaves[l].type;
    ls_shape shape = type->shape;
    for (int d = 0; d < shape.rank; ++d)
      shape.dim[d] = words[at++];
    LS_RETURN_IF_ERROR(
        input_absent(self, l, type->dtype, shape,
                     &self->parts[l * data->num_replicas + replica]));
  }
  return ls_ok();
}

// Decides for all ranks if the step has values, and which.
static ls_status decide_step(ls_distributed_iterator *self,
                             const int64_t *words, size_t size) {
  const ls_distributed_dataset *data = self->data;
  size_t have = 0;
  int64_t all = -1, any = 0;
  for (size_t r = 0; r < data->num_replicas; ++r) {
    have += (words[r * size] & HAS_VALUE) != 0;
    all &= words[r * size];
    any |= words[r * size];
  }
  self->is_partial = (any & IS_UNKNOWN) != 0 && (all & IS_ENDLESS) == 0 &&
                     (any & IS_WHOLE) == 0;
  if (have == 0 || (have < data->num_replicas && !self->is_partial))
    return ls_ok();
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_is_own(data, r))
      LS_RETURN_IF_ERROR(take_reported(self, r, &words[r * size]));
  return ls_ok();
}

static ls_status exchange_reports(ls_distributed_iterator *self,
                                  ls_communicator *communicator, size_t size,
                                  int64_t *words, ls_exchange_piece *pieces) {
  const ls_distributed_dataset *data = self->data;
  for (size_t r = data->first_own; r < data->end_own; ++r)
    LS_RETURN_IF_ERROR(report_values(self, r, &words[r * size]));
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    const int32_t replicas = (int32_t)data->num_replicas;
    const size_t first =
        (size_t)ls_communicator_first(communicator, k, replicas);
    const size_t end =
        (size_t)ls_communicator_first(communicator, k + 1, replicas);
    pieces[k] =
        (ls_exchange_piece){.data = &words[first * size],
                            .size = (end - first) * size * sizeof(*words),
                            .from = k,
                            .to = LS_EACH_RANK};
  }
  // A collective's name that no program uses.
  const ls_exchange_name name = {
      .program = {ls_hash(self->name, strlen(self->name), 0), self->number},
      .step = data->strategy->number,
      .iteration = self->exchanges++,
      .merge = UINT32_MAX - 1,
  };
  LS_RETURN_IF_ERROR(ls_communicator_exchange(communicator, &name, pieces,
                                              (size_t)communicator->ranks));
  return decide_step(self, words, size);
}

// Tells all ranks which values each rank has; other ranks' values become absent
// values here. `own`, taken over, is this rank's result; a failure ends all
// ranks.
static ls_status input_exchange(ls_distributed_iterator *self, ls_status own) {
  ls_communicator *communicator = ls_runtime_communicator(self->data->runtime);
  size_t size = 0;
  LS_OWN_MEMORY(self->allocator, int64_t, words) = NULL;
  LS_OWN_MEMORY(self->allocator, ls_exchange_piece, pieces) = NULL;
  if (ls_status_is_ok(own)) own = count_words(self, &size);
  if (ls_status_is_ok(own)) {
    words =
        ls_new_array(self->allocator, int64_t, self->data->num_replicas * size);
    pieces = ls_new_array(self->allocator, ls_exchange_piece,
                          (size_t)communicator->ranks);
    own = words == NULL || pieces == NULL
              ? ls_out_of_memory()
              : exchange_reports(self, communicator, size, words, pieces);
  }
  // Ends the other ranks, which would wait for this rank.
  if (!ls_status_is_ok(own)) communicator->cancel(communicator, own);
  return own;
}

static ls_nest *fill_part_of(ls_distributed_iterator *self, size_t leaf,
                             size_t replica) {
  return &self->parts[leaf * self->data->num_replicas + replica];
}

// ---- Parts of a batch -------------------------------------------------------
// Cuts a batch into the replicas' parts. `begin` is the number of its first row
// in the whole batch.
static ls_status fill_cut(ls_distributed_iterator *self, const ls_nest *leaves,
                          int64_t rows, int64_t begin) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = data->first_own; r < data->end_own; ++r) {
      const int64_t part = (int64_t)ls_input_part_of(data, r);
      LS_RETURN_IF_ERROR(ls_rows_take(
          leaves[l], 0, ls_shares_begin(&data->shares, rows, part) - begin,
          ls_shares_rows(&data->shares, rows, part), fill_part_of(self, l, r)));
    }
  return ls_ok();
}

// Fills in absent values for other ranks' replicas. With leaves: parts of a
// batch of `rows` rows. Without leaves: elements, whose types are known.
static ls_status fill_absent(ls_distributed_iterator *self,
                             const ls_nest *leaves, int64_t rows) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = 0; r < data->num_replicas; ++r) {
      ls_type type = data->leaves[l].type;
      if (ls_input_is_own(data, r)) continue;
      if (leaves != NULL)
        type.shape = ls_array_shape(ls_nest_as_array(leaves[l]));
      if (leaves != NULL)
        type.shape.dim[0] = ls_shares_rows(&data->shares, rows, (int64_t)r);
      LS_RETURN_IF_ERROR(input_absent(self, l, type.dtype, type.shape,
                                      fill_part_of(self, l, r)));
    }
  return ls_ok();
}

// Reads a batch and cuts it. Batches are kept in two nests alternately: the
// latest element has views of one batch, while the other is replaced.
static ls_status fill_parts(ls_distributed_iterator *self) {
  ls_nest *whole = &self->wholes[self->turn];
  LS_RETURN_IF_ERROR(ls_iterator_next(self->sources[0], whole));
  self->turn ^= 1;
  const ls_distributed_dataset *data = self->data;
  const bool is_part = data->is_part;
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  int64_t rows = 0;
  LS_RETURN_IF_ERROR(ls_input_leaves(
      self, is_part ? ls_nest_item(*whole, 0) : *whole, &leaves));
  LS_RETURN_IF_ERROR(ls_input_rows_in(self, leaves, &rows));
  if (is_part)
    rows = ls_array_i64(ls_nest_as_array(ls_nest_item(*whole, 1)), 0);
  LS_RETURN_IF_ERROR(
      fill_cut(self, leaves, rows,
               ls_shares_begin(&data->shares, rows, (int64_t)data->first_own)));
  return is_part ? fill_absent(self, leaves, rows) : ls_ok();
}

// ---- Rows of a host ---------------------------------------------------------
// Reads a host's next batch, when the last batch is used up. A batch that fails
// has no rows, and is skipped: the next step begins with the batch after it.
ls_status ls_input_read_batch(ls_distributed_iterator *self, size_t host) {
  ls_input_rows *from = &self->rows[host];
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  if (from->ended) return ls_out_of_range("no more rows");
  const ls_status status = ls_iterator_next(self->sources[host], &from->batch);
  from->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  if (from->ended) return status;
  ++from->batches;
  from->next = from->rows = 0;
  from->has_failed = true;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_input_leaves(self, from->batch, &leaves));
  LS_RETURN_IF_ERROR(ls_input_rows_in(self, leaves, &from->rows));
  from->has_failed = false;
  return ls_ok();
}

// Appends rows to a replica's rows, in one array.
static ls_status append_rows(ls_nest *part, ls_nest rows) {
  const ls_array *a = ls_nest_as_array(*part), *b = ls_nest_as_array(rows);
  if (a == NULL || b == NULL)
    return ls_unimplemented("rebatching of sparse or ragged leaves from "
                            "several batches: batch sizes must fit");
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

// Moves the next rows of the host to a replica. Rows that fail count as used.
static ls_status append_piece(ls_distributed_iterator *self, size_t host,
                              int64_t count, size_t replica) {
  const ls_distributed_dataset *data = self->data;
  ls_input_rows *from = &self->rows[host];
  const int64_t first = from->next;
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  from->next += count;
  LS_RETURN_IF_ERROR(ls_input_leaves(self, from->batch, &leaves));
  for (size_t l = 0; l < data->num_leaves; ++l) {
    LS_OWN(ls_nest, rows) = ls_none();
    ls_nest *part = fill_part_of(self, l, replica);
    LS_RETURN_IF_ERROR(ls_rows_take(leaves[l], 0, first, count, &rows));
    if (part->kind == LS_KIND_NONE)
      *part = ls_give(&rows);
    else
      LS_RETURN_IF_ERROR(append_rows(part, rows));
  }
  return ls_ok();
}

// Takes a piece of a batch, which has one piece for each replica.
static ls_status take_piece(ls_distributed_iterator *self, size_t host,
                            size_t replica) {
  ls_input_rows *from = &self->rows[host];
  const ls_row_shares *shares = &self->data->shares;
  if (from->batches == 0 || from->taken == shares->parts) {
    from->taken = shares->parts;
    LS_RETURN_IF_ERROR(ls_input_read_batch(self, host));
    from->taken = 0;
  }
  const int64_t count = ls_shares_rows(shares, from->rows, from->taken++);
  return append_piece(self, host, count, replica);
}

// Takes the next piece, whose sizes repeat in a cycle, from one or more
// batches; at the end of the data the piece may be short.
static ls_status take_cyclic(ls_distributed_iterator *self, size_t host,
                             size_t replica) {
  const ls_distributed_dataset *data = self->data;
  ls_input_rows *from = &self->rows[host];
  int64_t left =
      ls_cyclic_rows(&data->shares, data->batch_rows,
                     (int64_t)data->map.hosts[host].first, from->taken);
  // Even a piece of no rows requires that some rows are left.
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
    LS_RETURN_IF_ERROR(append_piece(self, host, count, replica));
    left -= count;
    has_rows = true;
  }
  ++from->taken;
  return ls_ok();
}

// Fills in the next rows of its host for a replica. After a batch that failed
// the host's other replicas take none, so that the next step begins with all.
static ls_status fill_rows(ls_distributed_iterator *self, size_t replica) {
  const size_t host = ls_input_pipeline_of(self->data, replica);
  const bool is_cyclic = self->data->batch_rows >= 0;
  if (self->rows[host].has_failed) {
    self->rows[host].taken += is_cyclic;
    return ls_ok();
  }
  return is_cyclic ? take_cyclic(self, host, replica)
                   : take_piece(self, host, replica);
}

// ---- Elements ---------------------------------------------------------------
static ls_status read_pipeline(ls_distributed_iterator *self, size_t pipeline,
                               ls_nest *element) {
  ls_input_callable *callable = self->data->pipelines[pipeline].callable;
  return callable != NULL ? ls_input_callable_next(callable, element)
                          : ls_iterator_next(self->sources[pipeline], element);
}

static ls_status fill_one(ls_distributed_iterator *self, size_t replica) {
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  const size_t pipeline = ls_input_pipeline_of(self->data, replica);
  // Reads in a nest that is released, because a failed element may hold memory.
  LS_RETURN_IF_ERROR(read_pipeline(self, pipeline, &element));
  LS_RETURN_IF_ERROR(ls_input_leaves(self, element, &leaves));
  for (size_t l = 0; l < self->data->num_leaves; ++l)
    *fill_part_of(self, l, replica) = ls_nest_retain(leaves[l]);
  return ls_ok();
}

// Reads the values for the replicas of this process. At the end of the data a
// replica has no value, which is no failure. After a failure the other replicas
// still read, so that the next call begins with a new step.
static ls_status fill_own(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  ls_status all = ls_ok();
  for (size_t i = 0; self->rows != NULL && i < data->num_pipelines; ++i)
    self->rows[i].has_failed = false;
  for (size_t r = data->first_own; r < data->end_own; ++r) {
    const ls_status status =
        data->cut == LS_INPUT_REBATCH ? fill_rows(self, r) : fill_one(self, r);
    if (ls_status_code(status) == LS_OUT_OF_RANGE)
      ls_status_free(status);
    else
      all = ls_status_join(all, status);
  }
  return all;
}

// ---- Replicas without data --------------------------------------------------
static ls_status fill_empty(ls_distributed_iterator *self, size_t replica) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l) {
    const ls_type type = ls_input_empty_type(data, l);
    ls_leaf_spec spec = data->leaves[l];
    ls_nest *part = fill_part_of(self, l, replica);
    spec.type = ls_input_value_type(data, l);
    LS_RETURN_IF_ERROR(
        spec.kind == LS_LEAF_DENSE
            ? ls_take_nest(ls_nest_zeros(type.dtype, type.shape), part)
            : ls_composite_empty(&spec, part));
  }
  return ls_ok();
}

// Logs the number of values dropped from an incomplete group.
static void log_dropped(const ls_distributed_iterator *self, size_t count) {
  if (count == 0) return;
  ls_runtime_log(self->data->runtime, LS_LOG_INFO, "distribute",
                 "iterator '%s': the last %zu elements are not enough for all "
                 "%zu replicas of %s and are left out",
                 self->name, count, self->data->num_replicas,
                 self->data->strategy->label);
}

// Fills in elements, which the replicas take in turn. All ranks know the number
// of elements and their types.
static ls_status fill_turns(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  const int64_t replicas = (int64_t)data->num_replicas;
  const int64_t left = data->elements - self->given * replicas;
  if (data->elements >= 0 && left < replicas) {
    log_dropped(self, (size_t)left);
    return ls_out_of_range("no more data");
  }
  LS_RETURN_IF_ERROR(fill_own(self));
  return fill_absent(self, NULL, 0);
}

// Fills in this rank's rows while other ranks read their rows. A failure is
// passed to the other ranks, because they would go on without this rank.
static ls_status fill_apart(ls_distributed_iterator *self) {
  const ls_status status =
      self->data->is_turns ? fill_turns(self) : fill_parts(self);
  ls_communicator *communicator = ls_runtime_communicator(self->data->runtime);
  if (ls_status_is_ok(status) || ls_status_code(status) == LS_OUT_OF_RANGE ||
      communicator == NULL)
    return status;
  communicator->cancel(communicator, status);
  return status;
}

ls_status ls_input_fill(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  if (data->is_turns || data->is_part) return fill_apart(self);
  if (data->cut == LS_INPUT_SPLIT) return fill_parts(self);
  ls_status status = fill_own(self);
  if (data->end_own - data->first_own < data->num_replicas)
    status = input_exchange(self, status);
  LS_RETURN_IF_ERROR(status);
  size_t count = 0;
  for (size_t r = 0; r < data->num_replicas; ++r)
    count += ls_input_has(self, r);
  if (count == data->num_replicas) return ls_ok();
  if (count == 0 || !self->is_partial) {
    log_dropped(self, count);
    return ls_out_of_range("no more data");
  }
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_has(self, r)) LS_RETURN_IF_ERROR(fill_empty(self, r));
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <math.h>

#include <stdio.h>

// ---- Sources ----------------------------------------------------------------
ls_batch_dims ls_emit_static_dims(ls_shape shape) {
  ls_batch_dims dims = {.rank = shape.rank};
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = ls_dim_of(shape.dim[i]);
  return dims;
}

ls_batch_dims ls_emit_source_dims(const ls_emit_source *source, uint64_t ref) {
  return source->dims != NULL
             ? source->dims(source->self, ref)
             : ls_emit_static_dims(ls_graph_type(source->body, ref).shape);
}

const char *ls_emit_describe_op(ls_graph *body, const ls_node *node,
                                char *buffer, size_t size) {
  const ls_op source = ls_node_source(body, node);
  snprintf(buffer, size, "op '%s' (%s)", ls_op_name(source),
           ls_node_info(node)->name);
  return buffer;
}

const char *ls_emit_describe_place(ls_graph *body, const ls_node *node,
                                   char *buffer, size_t size) {
  const ls_op source = ls_node_source(body, node);
  const char *file = ls_op_file(source);
  buffer[0] = '\0';
  if (file != NULL && file[0] != '\0')
    snprintf(buffer, size, " (at %s:%d)", file, ls_op_line(source));
  return buffer;
}

void ls_emitter_init(ls_emitter *e, const ls_emit_language *language,
                     ls_emit_source source, ls_arena *memory, void *self) {
  *e = (ls_emitter){.language = language,
                    .base = {.source = source},
                    .memory = memory,
                    .status = ls_ok(),
                    .num_devices = 1,
                    .lane = -1,
                    .self = self};
  e->frame = &e->base;
  ls_map_init(&e->base.refs, memory->allocator);
  // Value 0 stands for a failed one, with a shape on which all functions work.
  ls_batch_dims dims = {.rank = 4};
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = ls_dim_of(1);
  ls_emit_value(e, LS_DTYPE_F32, dims, "");
}

void ls_emitter_deinit(ls_emitter *e) {
  ls_map_deinit(&e->base.refs);
  ls_release(e->memory->allocator, e->values);
  ls_status_free(e->status);
}

// ---- Values ----------------------------------------------------------------
void ls_emit_fail(ls_emitter *e, ls_status status) {
  e->status = ls_status_join(e->status, status);
}

void ls_emit_refuse(ls_emitter *e, const char *why) {
  char text[LS_MAX_FULL_NAME], place[LS_MAX_FULL_NAME];
  if (e->node == NULL)
    ls_emit_fail(e, ls_unimplemented("%s: %s", e->language->name, why));
  else
    ls_emit_fail(e, ls_unimplemented(
                        "%s of %s: %s%s", e->language->name,
                        ls_emit_describe_op(e->frame->source.body, e->node,
                                            text, sizeof(text)),
                        why,
                        ls_emit_describe_place(e->frame->source.body, e->node,
                                               place, sizeof(place))));
}

ls_emitted *ls_emit_new_list(ls_emitter *e, size_t count) {
  ls_emitted *list = ls_arena_new_array(e->memory, ls_emitted, count + 1);
  if (list == NULL) ls_emit_fail(e, ls_out_of_memory());
  return list;
}

void ls_emit_append(ls_emitter *e, ls_emitted_list *list,
                    ls_emitted_list more) {
  ls_emitted *items = ls_emit_new_list(e, list->count + more.count);
  for (size_t i = 0; items != NULL && i < list->count + more.count; ++i)
    items[i] = i < list->count ? list->items[i] : more.items[i - list->count];
  if (items == NULL) return;
  list->items = items;
  list->count += more.count;
}

ls_emitted ls_emit_value(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                         const char *name) {
  if (!LS_GROW(e->memory->allocator, e->values, e->capacity,
               e->num_values + 1)) {
    ls_emit_fail(e, ls_out_of_memory());
    return 0;
  }
  e->values[e->num_values] =
      (ls_emitted_value){.dtype = dtype,
                         .dims = dims,
                         .origin = (ls_emitted)e->num_values,
                         .name = name};
  return (ls_emitted)e->num_values++;
}

ls_batch_dims ls_emit_lead(ls_emitter *e, ls_batch_dims dims, int64_t size) {
  if (dims.rank >= LS_MAX_RANK) {
    ls_emit_refuse(e, "a value of several replicas has too many dimensions");
    return dims;
  }
  for (int32_t i = dims.rank++; i > 0; --i)
    dims.dim[i] = dims.dim[i - 1];
  dims.dim[0] = ls_dim_of(size);
  return dims;
}

ls_batch_dims ls_dims_without_leading(ls_batch_dims dims) {
  --dims.rank;
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = dims.dim[i + 1];
  return dims;
}

ls_emitted ls_emit_value_like(ls_emitter *e, ls_emitted like, ls_dtype dtype,
                              ls_batch_dims dims) {
  if (!ls_emit_look(e, like)->stacked)
    return ls_emit_value(e, dtype, dims, NULL);
  dims = ls_emit_lead(e, dims, e->num_lanes);
  if (!ls_emit_is_ok(e)) return 0;
  const ls_emitted out = ls_emit_value(e, dtype, dims, NULL);
  if (out != 0) e->values[out].stacked = true;
  return out;
}

void ls_emit_name(const ls_emitter *e, ls_emitted value, ls_text *out) {
  const ls_emitted origin = ls_emit_look(e, value)->origin;
  const char *name = ls_emit_look(e, origin)->name;
  if (name != NULL) {
    ls_text_append(out, name);
    return;
  }
  ls_text_append(out, e->language->prefix);
  ls_text_append_i64(out, origin);
}

static bool batch_dims_equal(const ls_batch_dims *a, const ls_batch_dims *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (!ls_dim_equal(a->dim[i], b->dim[i])) return false;
  return true;
}

// Appends `count` numbers to those of the leading dimension of a stacked value:
// one that is `first`.
static const int64_t *lead(bool stacked, int64_t first, const int64_t *numbers,
                           size_t count, int64_t *room) {
  if (!stacked || count >= LS_MAX_RANK) return numbers;
  room[0] = first;
  memcpy(room + 1, numbers, count * sizeof(*numbers));
  return room;
}

// ---- Shapes ----------------------------------------------------------------
ls_emitted ls_emit_reshape(ls_emitter *e, ls_emitted x, ls_batch_dims dims) {
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  if (!ls_emit_is_ok(e) || batch_dims_equal(&from, &dims)) return x;
  const ls_emitted out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
  if (ls_emit_is_ok(e)) e->language->reshape(e, x, out);
  return out;
}

// Adds leading dimensions of size 1.
static ls_emitted add_rank(ls_emitter *e, ls_emitted x, int32_t rank) {
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  ls_batch_dims dims = {.rank = rank};
  const int32_t more = rank - from.rank;
  for (int32_t i = 0; i < rank; ++i)
    dims.dim[i] = i < more ? ls_dim_of(1) : from.dim[i - more];
  return ls_emit_reshape(e, x, dims);
}

ls_emitted ls_emit_broadcast(ls_emitter *e, ls_emitted x, ls_batch_dims dims) {
  if (!ls_emit_is_ok(e)) return 0;
  if (ls_emit_look(e, x)->stacked) x = add_rank(e, x, dims.rank);
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  if (!ls_emit_is_ok(e) || batch_dims_equal(&from, &dims)) return x;
  const ls_emitted out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
  if (ls_emit_is_ok(e)) e->language->broadcast(e, x, out);
  return out;
}

ls_emitted ls_emit_transpose(ls_emitter *e, ls_emitted x,
                             const int64_t *permutation) {
  if (!ls_emit_is_ok(e)) return 0;
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  const bool stacked = ls_emit_look(e, x)->stacked;
  ls_batch_dims dims = {.rank = from.rank};
  int64_t moved[LS_MAX_RANK] = {0};
  for (int32_t i = 0; i < dims.rank; ++i) {
    dims.dim[i] = from.dim[permutation[i]];
    if (stacked && i + 1 < LS_MAX_RANK) moved[i + 1] = permutation[i] + 1;
  }
  const ls_emitted out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
  if (ls_emit_is_ok(e))
    e->language->transpose(e, x, stacked ? moved : permutation, out);
  if (ls_emit_is_ok(e)) ls_emit_note_transposed(e, x, out, permutation);
  return out;
}

// ---- Elementwise -----------------------------------------------------------
// Returns the operands' common shape after broadcasting.
static ls_batch_dims together(const ls_emitter *e, const ls_emitted *in,
                              size_t count) {
  ls_batch_dims dims = {0};
  for (size_t k = 0; k < count; ++k) {
    const ls_batch_dims x = ls_batch_dims_at(e, in[k]);
    if (x.rank > dims.rank) {
      const int32_t more = x.rank - dims.rank;
      for (int32_t i = x.rank - 1; i >= 0; --i)
        dims.dim[i] = i >= more ? dims.dim[i - more] : ls_dim_of(1);
      dims.rank = x.rank;
    }
    for (int32_t i = 0; i < x.rank; ++i) {
      ls_dim *at = &dims.dim[dims.rank - x.rank + i];
      if (ls_dim_is(*at, 1)) *at = x.dim[i];
    }
  }
  return dims;
}

static bool gives_bool(uint16_t op) {
  return (op >= LS_OP_EQUAL && op <= LS_OP_GREATER_EQUAL) ||
         op == LS_OP_IS_FINITE;
}

ls_emitted ls_emit_element_of(ls_emitter *e, uint16_t op, ls_dtype dtype,
                              const ls_emitted *in, size_t count) {
  ls_emitted aligned[LS_MAX_RANK] = {0};
  if (!ls_emit_is_ok(e) || count > LS_MAX_RANK) return 0;
  const ls_batch_dims dims = together(e, in, count);
  const ls_emitted like = ls_emit_stacked_of(e, in, count);
  for (size_t k = 0; k < count; ++k) {
    aligned[k] =
        e->language->equal_shapes ? ls_emit_broadcast(e, in[k], dims) : in[k];
    if (like != 0) aligned[k] = ls_emit_spread(e, aligned[k]);
  }
  const ls_emitted out = ls_emit_value_like(e, like, dtype, dims);
  if (!ls_emit_is_ok(e)) return 0;
  if (!e->language->element(e, op, aligned, count, out))
    ls_emit_refuse(e, "there is no such op");
  return out;
}

ls_emitted ls_emit_element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                           size_t count) {
  const ls_dtype dtype = gives_bool(op)
                             ? LS_DTYPE_BOOL
                             : ls_emit_look(e, in[op == LS_OP_SELECT])->dtype;
  return ls_emit_element_of(e, op, dtype, in, count);
}

ls_emitted ls_emit_1(ls_emitter *e, uint16_t op, ls_emitted x) {
  return ls_emit_element(e, op, &x, 1);
}

ls_emitted ls_emit_2(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted y) {
  return ls_emit_element(e, op, (const ls_emitted[]){x, y}, 2);
}

ls_emitted ls_emit_convert(ls_emitter *e, ls_emitted x, ls_dtype dtype) {
  if (ls_emit_look(e, x)->dtype == dtype) return x;
  return ls_emit_element_of(e, LS_OP_CONVERT, dtype, &x, 1);
}

ls_emitted ls_emit_bitcast(ls_emitter *e, ls_emitted x, ls_dtype dtype) {
  return ls_emit_element_of(e, LS_OP_BITCAST, dtype, &x, 1);
}

ls_emitted ls_emit_constant(ls_emitter *e, const ls_array *array) {
  const ls_emitted out =
      ls_emit_value(e, ls_array_dtype(array),
                    ls_emit_static_dims(ls_array_shape(array)), NULL);
  if (ls_emit_is_ok(e)) e->language->constant(e, array, out);
  return out;
}

static ls_emitted emit_scalar(ls_emitter *e, ls_dtype dtype, double number,
                              int64_t integer) {
  LS_OWN(ls_array, array) = NULL;
  if (!ls_emit_is_ok(e)) return 0;
  ls_emit_fail(e, ls_array_create(dtype, LS_SCALAR, &array));
  if (!ls_emit_is_ok(e)) return 0;
  if (ls_dtype_is_float(dtype))
    ls_array_set_f64(array, 0, number);
  else
    ls_array_set_i64(array, 0, integer);
  return ls_emit_constant(e, array);
}

ls_emitted ls_emit_scalar(ls_emitter *e, ls_dtype dtype, double value) {
  return emit_scalar(e, dtype, value,
                     ls_dtype_is_float(dtype) ? 0 : (int64_t)value);
}

ls_emitted ls_emit_integer(ls_emitter *e, ls_dtype dtype, uint64_t value) {
  return emit_scalar(e, dtype, 0, (int64_t)value);
}

ls_emitted ls_emit_extreme(ls_emitter *e, ls_dtype dtype, bool least) {
  if (ls_dtype_is_float(dtype))
    return ls_emit_scalar(e, dtype, least ? -INFINITY : INFINITY);
  LS_OWN(ls_array, value) = NULL;
  ls_emit_fail(e, ls_array_create(dtype, LS_SCALAR, &value));
  if (!ls_emit_is_ok(e)) return 0;
  const bool is_signed = dtype >= LS_DTYPE_I8 && dtype <= LS_DTYPE_I64;
  unsigned char *bytes = ls_array_mutable_data(value);
  const size_t size = ls_array_size(value);
  memset(bytes, least ? 0 : 0xff, size);  // Little-endian on all our machines.
  if (dtype == LS_DTYPE_BOOL) bytes[0] = !least;
  if (is_signed) bytes[size - 1] ^= 0x80;
  return ls_emit_constant(e, value);
}

// ---- Reductions, products and windows --------------------------------------
ls_emitted ls_emit_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                          const int64_t *axes, size_t count, bool keep) {
  if (!ls_emit_is_ok(e)) return 0;
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  const bool stacked = ls_emit_look(e, x)->stacked;
  ls_batch_dims kept = from, dims = {0};
  int64_t moved[LS_MAX_RANK] = {0};
  for (size_t i = 0; i < count; ++i) {
    kept.dim[axes[i]] = ls_dim_of(1);
    moved[i] = axes[i] + stacked;
  }
  for (int32_t i = 0; i < from.rank; ++i) {
    bool goes = false;
    for (size_t k = 0; k < count; ++k)
      goes |= axes[k] == i;
    if (!goes) dims.dim[dims.rank++] = from.dim[i];
  }
  ls_emitted out = x;
  if (count > 0) {
    out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
    if (ls_emit_is_ok(e) && !e->language->reduce(e, op, x, moved, count, out))
      ls_emit_refuse(e, "there is no such reduction");
  }
  return keep ? ls_emit_reshape(e, out, kept) : out;
}

ls_emitted ls_emit_iota(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                        int64_t axis) {
  const ls_emitted out = ls_emit_value(e, dtype, dims, NULL);
  if (ls_emit_is_ok(e)) e->language->iota(e, axis, out);
  return out;
}

// ---- Parts and lookups -----------------------------------------------------
ls_emitted ls_emit_slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                         const int64_t *strides, ls_batch_dims dims) {
  static const int64_t zeros[LS_MAX_RANK], ones[] = {LS_EMIT_ONES};
  int64_t rooms[2][LS_MAX_RANK];
  const bool stacked = ls_emit_look(e, x)->stacked;
  const size_t rank = (size_t)dims.rank;
  const ls_emitted out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
  if (ls_emit_is_ok(e))
    e->language->slice(
        e, x, lead(stacked, 0, starts != NULL ? starts : zeros, rank, rooms[0]),
        lead(stacked, 1, strides != NULL ? strides : ones, rank, rooms[1]),
        out);
  return out;
}

ls_emitted ls_emit_pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                       const int64_t *low, const int64_t *high,
                       const int64_t *interior, ls_batch_dims dims) {
  int64_t rooms[3][LS_MAX_RANK];
  const bool stacked = ls_emit_look(e, x)->stacked;
  const size_t rank = (size_t)dims.rank;
  const ls_emitted out = ls_emit_value_like(e, x, ls_dtype_at(e, x), dims);
  if (ls_emit_is_ok(e) &&
      !e->language->pad(e, x, value, lead(stacked, 0, low, rank, rooms[0]),
                        lead(stacked, 0, high, rank, rooms[1]),
                        lead(stacked, 0, interior, rank, rooms[2]), out))
    ls_emit_refuse(e, "there is no padding between elements");
  return out;
}

ls_emitted ls_emit_concatenate(ls_emitter *e, const ls_emitted *in,
                               size_t count, int64_t axis) {
  const ls_emitted like = ls_emit_stacked_of(e, in, count);
  ls_emitted *items = ls_emit_new_list(e, count);
  ls_batch_dims dims = ls_batch_dims_at(e, in[0]);
  size_t num_items = 0;
  for (size_t i = 0; items != NULL && i < count; ++i) {
    const ls_dim more = ls_batch_dims_at(e, in[i]).dim[axis];
    dims.dim[axis].scale += i > 0 ? more.scale : 0;
    dims.dim[axis].offset += i > 0 ? more.offset : 0;
    // Leaves empty operands out: XLA ends the process at an empty slice of one.
    if (ls_dim_is(more, 0) && (num_items > 0 || i + 1 < count)) continue;
    items[num_items++] = like != 0 ? ls_emit_spread(e, in[i]) : in[i];
  }
  const ls_emitted out =
      ls_emit_value_like(e, like, ls_dtype_at(e, in[0]), dims);
  if (ls_emit_is_ok(e))
    e->language->concatenate(e, items, num_items, axis + (like != 0), out);
  return out;
}

ls_emitted ls_emit_reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                           size_t count) {
  int64_t moved[LS_MAX_RANK] = {0};
  for (size_t i = 0; i < count; ++i)
    moved[i] = axes[i] + ls_emit_look(e, x)->stacked;
  const ls_emitted out =
      ls_emit_value_like(e, x, ls_dtype_at(e, x), ls_batch_dims_at(e, x));
  if (ls_emit_is_ok(e)) e->language->reverse(e, x, moved, count, out);
  return out;
}

ls_emitted ls_emit_dynamic_update(ls_emitter *e, ls_emitted x, ls_emitted part,
                                  const ls_emitted *starts) {
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_batch_dims_at(e, x), NULL);
  if (ls_emit_is_ok(e)) e->language->dynamic_update(e, x, part, starts, out);
  return out;
}

// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"

// ---- Sources ----------------------------------------------------------------
static ls_batch_dims static_dims(ls_shape shape) {
  ls_batch_dims dims = {.rank = shape.rank};
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = ls_dim_of(shape.dim[i]);
  return dims;
}

ls_batch_dims ls_emit_source_dims(const ls_emit_source *source, uint64_t ref) {
  return source->dims != NULL
             ? source->dims(source->self, ref)
             : static_dims(ls_graph_type(source->body, ref).shape);
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
  if (ls_status_is_ok(e->status))
    e->status = status;
  else
    ls_status_free(status);
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

ls_emitted ls_emit_value(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                         const char *name) {
  if (!ls_grow(e->memory->allocator, &e->values, &e->capacity,
               e->num_values + 1, sizeof(*e->values))) {
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

static ls_emitted find_in(const ls_map *map, uint64_t ref) {
  return (ls_emitted)(uintptr_t)ls_map_find_u64(map, ref);
}

static void insert_in(ls_emitter *e, ls_map *map, uint64_t ref,
                      ls_emitted value) {
  if (!ls_map_insert_u64(map, ref, (void *)(uintptr_t)value))
    ls_emit_fail(e, ls_out_of_memory());
}

// Finds a value of the replica that is emitted: its own, or its part.
static ls_emitted find_of_lane(ls_emitter *e, uint64_t ref) {
  ls_map *own = &e->frame->lanes[e->lane];
  ls_emitted value = find_in(own, ref);
  if (value != 0) return value;
  value = find_in(&e->frame->refs, ref);
  if (!ls_emit_look(e, value)->stacked) return value;
  value = ls_emit_lane(e, value, e->lane);
  insert_in(e, own, ref, value);
  return value;
}

ls_emitted ls_emit_owned_of(ls_emitter *e, uint64_t ref) {
  ls_emit_frame *frame = e->frame;
  if (frame->lanes == NULL) return find_in(&frame->refs, ref);
  if (e->lane >= 0) return find_of_lane(e, ref);
  ls_emitted value = find_in(&frame->refs, ref);
  if (value != 0) return value;
  ls_emitted *lanes =
      ls_arena_new_array(e->memory, ls_emitted, (size_t)e->num_lanes);
  if (lanes == NULL) ls_emit_fail(e, ls_out_of_memory());
  for (int32_t i = 0; lanes != NULL && i < e->num_lanes; ++i)
    lanes[i] = find_in(&frame->lanes[i], ref);
  if (lanes == NULL || lanes[0] == 0) return 0;
  value = ls_emit_stack(e, lanes);
  insert_in(e, &frame->refs, ref, value);
  return value;
}

ls_emitted ls_emit_of(ls_emitter *e, uint64_t ref) {
  const ls_emitted value = ls_emit_owned_of(e, ref);
  return ls_emit_look(e, value)->owner != 0 ? ls_emit_everywhere(e, value)
                                            : value;
}

void ls_emit_bind(ls_emitter *e, uint64_t ref, ls_emitted value) {
  ls_emit_frame *frame = e->frame;
  const bool is_own = frame->lanes != NULL && e->lane >= 0;
  insert_in(e, is_own ? &frame->lanes[e->lane] : &frame->refs, ref, value);
}

// ---- Regions ---------------------------------------------------------------
void ls_emit_enter(ls_emitter *e, ls_graph *region, int32_t lanes,
                   ls_emit_frame *frame) {
  ls_allocator *allocator = e->memory->allocator;
  *frame = (ls_emit_frame){.outer = e->frame, .source = {.body = region}};
  ls_map_init(&frame->refs, allocator);
  e->frame = frame;
  if (lanes < 2) return;
  frame->lanes = ls_arena_new_array(e->memory, ls_map, (size_t)lanes);
  if (frame->lanes == NULL) ls_emit_fail(e, ls_out_of_memory());
  for (int32_t i = 0; frame->lanes != NULL && i < lanes; ++i)
    ls_map_init(&frame->lanes[i], allocator);
}

void ls_emit_leave(ls_emitter *e) {
  ls_emit_frame *frame = e->frame;
  for (int32_t i = 0; frame->lanes != NULL && i < e->num_lanes; ++i)
    ls_map_deinit(&frame->lanes[i]);
  ls_map_deinit(&frame->refs);
  e->frame = frame->outer;
}

static bool batch_dims_equal(const ls_batch_dims *a, const ls_batch_dims *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (!ls_dim_equal(a->dim[i], b->dim[i])) return false;
  return true;
}

static bool is_ok(const ls_emitter *e) { return ls_status_is_ok(e->status); }

// ---- Shapes ----------------------------------------------------------------
ls_emitted ls_emit_reshape(ls_emitter *e, ls_emitted x, ls_batch_dims dims) {
  const ls_emitted_value *from = ls_emit_look(e, x);
  if (!is_ok(e) || batch_dims_equal(&from->dims, &dims)) return x;
  const ls_emitted out = ls_emit_value(e, from->dtype, dims, NULL);
  if (is_ok(e)) e->language->reshape(e, x, out);
  return out;
}

// Adds leading dimensions of size 1.
static ls_emitted add_rank(ls_emitter *e, ls_emitted x, int32_t rank) {
  const ls_batch_dims from = ls_emit_look(e, x)->dims;
  ls_batch_dims dims = {.rank = rank};
  const int32_t more = rank - from.rank;
  for (int32_t i = 0; i < rank; ++i)
    dims.dim[i] = i < more ? ls_dim_of(1) : from.dim[i - more];
  return ls_emit_reshape(e, x, dims);
}

ls_emitted ls_emit_broadcast(ls_emitter *e, ls_emitted x, ls_batch_dims dims) {
  if (!is_ok(e)) return 0;
  x = add_rank(e, x, dims.rank);
  const ls_emitted_value *from = ls_emit_look(e, x);
  if (!is_ok(e) || batch_dims_equal(&from->dims, &dims)) return x;
  const ls_emitted out = ls_emit_value(e, from->dtype, dims, NULL);
  if (is_ok(e)) e->language->broadcast(e, x, out);
  return out;
}

ls_emitted ls_emit_transpose(ls_emitter *e, ls_emitted x,
                             const int64_t *permutation) {
  if (!is_ok(e)) return 0;
  const ls_emitted_value from = *ls_emit_look(e, x);
  ls_batch_dims dims = {.rank = from.dims.rank};
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = from.dims.dim[permutation[i]];
  const ls_emitted out = ls_emit_value(e, from.dtype, dims, NULL);
  if (is_ok(e)) e->language->transpose(e, x, permutation, out);
  return out;
}

// ---- Elementwise -----------------------------------------------------------
// Returns the operands' common shape after broadcasting.
static ls_batch_dims together(const ls_emitter *e, const ls_emitted *in,
                              size_t count) {
  ls_batch_dims dims = {0};
  for (size_t k = 0; k < count; ++k) {
    const ls_batch_dims *x = &ls_emit_look(e, in[k])->dims;
    if (x->rank > dims.rank) {
      const int32_t more = x->rank - dims.rank;
      for (int32_t i = x->rank - 1; i >= 0; --i)
        dims.dim[i] = i >= more ? dims.dim[i - more] : ls_dim_of(1);
      dims.rank = x->rank;
    }
    for (int32_t i = 0; i < x->rank; ++i) {
      ls_dim *at = &dims.dim[dims.rank - x->rank + i];
      if (ls_dim_is(*at, 1)) *at = x->dim[i];
    }
  }
  return dims;
}

static bool gives_bool(uint16_t op) {
  return (op >= LS_OP_EQUAL && op <= LS_OP_GREATER_EQUAL) ||
         op == LS_OP_IS_FINITE;
}

static ls_emitted element_of(ls_emitter *e, uint16_t op, ls_dtype dtype,
                             const ls_emitted *in, size_t count) {
  ls_emitted aligned[LS_MAX_RANK] = {0};
  if (!is_ok(e) || count > LS_MAX_RANK) return 0;
  const ls_batch_dims dims = together(e, in, count);
  for (size_t k = 0; k < count; ++k)
    aligned[k] =
        e->language->equal_shapes ? ls_emit_broadcast(e, in[k], dims) : in[k];
  const ls_emitted out = ls_emit_value(e, dtype, dims, NULL);
  if (!is_ok(e)) return 0;
  if (!e->language->element(e, op, aligned, count, out))
    ls_emit_refuse(e, "there is no such op");
  return out;
}

ls_emitted ls_emit_element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                           size_t count) {
  const ls_dtype dtype = gives_bool(op)
                             ? LS_DTYPE_BOOL
                             : ls_emit_look(e, in[op == LS_OP_SELECT])->dtype;
  return element_of(e, op, dtype, in, count);
}

ls_emitted ls_emit_1(ls_emitter *e, uint16_t op, ls_emitted x) {
  return ls_emit_element(e, op, &x, 1);
}

ls_emitted ls_emit_2(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted y) {
  return ls_emit_element(e, op, (const ls_emitted[]){x, y}, 2);
}

ls_emitted ls_emit_convert(ls_emitter *e, ls_emitted x, ls_dtype dtype) {
  if (ls_emit_look(e, x)->dtype == dtype) return x;
  return element_of(e, LS_OP_CONVERT, dtype, &x, 1);
}

ls_emitted ls_emit_constant(ls_emitter *e, const ls_array *array) {
  const ls_emitted out = ls_emit_value(
      e, ls_array_dtype(array), static_dims(ls_array_shape(array)), NULL);
  if (is_ok(e)) e->language->constant(e, array, out);
  return out;
}

ls_emitted ls_emit_scalar(ls_emitter *e, ls_dtype dtype, double value) {
  LS_OWN(ls_array, array) = NULL;
  if (!is_ok(e)) return 0;
  ls_emit_fail(e, ls_array_create(dtype, LS_SCALAR, &array));
  if (!is_ok(e)) return 0;
  if (ls_dtype_is_float(dtype))
    ls_array_set_f64(array, 0, value);
  else
    ls_array_set_i64(array, 0, (int64_t)value);
  return ls_emit_constant(e, array);
}

// ---- Reductions, products and windows --------------------------------------
ls_emitted ls_emit_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                          const int64_t *axes, size_t count, bool keep) {
  if (!is_ok(e)) return 0;
  const ls_emitted_value from = *ls_emit_look(e, x);
  ls_batch_dims kept = from.dims, dims = {0};
  for (size_t i = 0; i < count; ++i)
    kept.dim[axes[i]] = ls_dim_of(1);
  for (int32_t i = 0; i < from.dims.rank; ++i) {
    bool goes = false;
    for (size_t k = 0; k < count; ++k)
      goes |= axes[k] == i;
    if (!goes) dims.dim[dims.rank++] = from.dims.dim[i];
  }
  ls_emitted out = x;
  if (count > 0) {
    out = ls_emit_value(e, from.dtype, dims, NULL);
    if (is_ok(e) && !e->language->reduce(e, op, x, axes, count, out))
      ls_emit_refuse(e, "there is no such reduction");
  }
  return keep ? ls_emit_reshape(e, out, kept) : out;
}

ls_emitted ls_emit_dot(ls_emitter *e, ls_emitted a, ls_emitted b) {
  if (!is_ok(e)) return 0;
  const ls_emitted_value left = *ls_emit_look(e, a);
  const ls_batch_dims right = ls_emit_look(e, b)->dims;
  ls_batch_dims dims = left.dims;
  dims.dim[dims.rank - 1] = right.dim[right.rank - 1];
  const ls_emitted out = ls_emit_value(e, left.dtype, dims, NULL);
  if (is_ok(e)) e->language->dot(e, a, b, out);
  return out;
}

ls_emitted ls_emit_iota(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                        int64_t axis) {
  const ls_emitted out = ls_emit_value(e, dtype, dims, NULL);
  if (is_ok(e)) e->language->iota(e, axis, out);
  return out;
}

ls_emitted ls_emit_convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                            const ls_window *window, int64_t groups,
                            ls_batch_dims dims) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (is_ok(e) && !e->language->convolve(e, x, w, window, groups, out))
    ls_emit_refuse(e, "there is no such convolution");
  return out;
}

ls_emitted ls_emit_slide(ls_emitter *e, uint16_t op, ls_emitted x,
                         const ls_window *window, ls_batch_dims dims) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (is_ok(e) && !e->language->slide(e, op, x, window, out))
    ls_emit_refuse(e, "there are no such windows");
  return out;
}

// ---- Parts and lookups -----------------------------------------------------
ls_emitted ls_emit_slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                         const int64_t *strides, ls_batch_dims dims) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (is_ok(e)) e->language->slice(e, x, starts, strides, out);
  return out;
}

ls_emitted ls_emit_pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                       const int64_t *low, const int64_t *high,
                       const int64_t *interior, ls_batch_dims dims) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (is_ok(e) && !e->language->pad(e, x, value, low, high, interior, out))
    ls_emit_refuse(e, "there is no padding between elements");
  return out;
}

ls_emitted ls_emit_concatenate(ls_emitter *e, const ls_emitted *in,
                               size_t count, int64_t axis) {
  ls_batch_dims dims = ls_batch_dims_at(e, in[0]);
  for (size_t i = 1; i < count; ++i) {
    const ls_dim more = ls_batch_dims_at(e, in[i]).dim[axis];
    dims.dim[axis].scale += more.scale;
    dims.dim[axis].offset += more.offset;
  }
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, in[0]), dims, NULL);
  if (is_ok(e)) e->language->concatenate(e, in, count, axis, out);
  return out;
}

ls_emitted ls_emit_reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                           size_t count) {
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_batch_dims_at(e, x), NULL);
  if (is_ok(e)) e->language->reverse(e, x, axes, count, out);
  return out;
}

ls_emitted ls_emit_gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                          int64_t axis) {
  const ls_batch_dims from = ls_batch_dims_at(e, x);
  const ls_batch_dims picks = ls_batch_dims_at(e, indices);
  ls_batch_dims dims = {.rank = from.rank - 1 + picks.rank};
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = i < axis                ? from.dim[i]
                  : i < axis + picks.rank ? picks.dim[i - axis]
                                          : from.dim[i + 1 - picks.rank];
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (is_ok(e)) e->language->gather(e, x, indices, axis, out);
  return out;
}

// ---- Whole programs --------------------------------------------------------
static void emit_constant(ls_emitter *e, const ls_node *node) {
  ls_emit_bind(
      e, ls_ref(node->id, 0),
      ls_emit_constant(e, ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array));
}

static bool is_element(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_ELEMENTWISE) != 0 &&
         node->num_outputs == 1 && node->num_inputs <= LS_MAX_RANK;
}

// Emits an elementwise op that the language has.
static void emit_element(ls_emitter *e, const ls_node *node) {
  ls_emitted in[LS_MAX_RANK] = {0};
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i] = ls_emit_of(e, node->inputs[i]);
  ls_emitted out =
      element_of(e, node->type, node->outputs[0].dtype, in, node->num_inputs);
  ls_emit_bind(e, ls_ref(node->id, 0), out);
}

static void emit_node(ls_emitter *e, const ls_node *node) {
  if (node->type == LS_OP_CONSTANT)
    emit_constant(e, node);
  else if (ls_emit_composed(e) || ls_emit_flow_op(e) || ls_emit_replica_op(e))
    return;
  else if (is_element(node))
    emit_element(e, node);
  else
    ls_emit_refuse(e, "there is no form of this op");
}

void ls_emit_graph(ls_emitter *e) {
  const ls_graph *body = e->frame->source.body;
  for (size_t i = 0; i < body->num_nodes && is_ok(e); ++i) {
    const ls_node *node = body->nodes[i];
    e->node = node;
    if (node->type == LS_OP_PARAMETER) continue;
    const bool apart = e->frame->lanes != NULL && node->varying;
    for (int32_t k = 0; apart && k < e->num_lanes && is_ok(e); ++k) {
      e->lane = k;
      emit_node(e, node);
    }
    e->lane = apart ? -1 : e->lane;
    if (!apart) emit_node(e, node);
  }
}

ls_status ls_emit_program(ls_emitter *e) {
  ls_emit_graph(e);
  e->node = NULL;
  return ls_status_clone(e->status);
}

// SPDX-License-Identifier: Apache-2.0
//
// Values of a graph that is built from an ONNX file, in both forms; attributes.
#include "onnx/onnx_build.h"

void ls_onnx_fail(ls_onnx_build *b, ls_status status) {
  b->status = ls_status_join(b->status, status);
}

// ---- Forms -----------------------------------------------------------------
// Moves the channels from dimension 1 to the end, or back.
static ls_tensor move_channels(ls_tensor x, bool to_last) {
  int permutation[LS_MAX_RANK] = {0};
  const int32_t rank = ls_tensor_shape(x).rank;
  permutation[to_last ? rank - 1 : 1] = to_last ? 1 : rank - 1;
  for (int i = 2; i < rank; ++i)
    permutation[to_last ? i - 1 : i] = to_last ? i : i - 1;
  return ls_transpose(x, permutation);
}

ls_tensor ls_onnx_tensor(ls_onnx_build *b, uint32_t value) {
  ls_onnx_value *v = &b->values[value];
  if (value == 0 || v->tensor.ref != 0) return v->tensor;
  if (v->last.ref != 0)
    v->tensor = move_channels(v->last, false);
  else if (v->variable != NULL)
    v->tensor = ls_variable_read(v->variable);
  else if (v->array != NULL)
    v->tensor = ls_constant(v->array);
  else if (v->known != NULL)
    v->tensor = ls_onnx_known_tensor(b, v->known, v->dtype);
  else
    LS_ONNX_REFUSE(b, "value '%s', an optional output that is not made",
                   b->file->names[value]);
  return v->tensor;
}

static uint32_t input_of(const ls_onnx_build *b, size_t input) {
  return input < b->node->num_inputs ? b->node->inputs[input] : 0;
}

bool ls_onnx_has(const ls_onnx_build *b, size_t input) {
  return input_of(b, input) != 0;
}

ls_tensor ls_onnx_in(ls_onnx_build *b, size_t input) {
  return ls_onnx_tensor(b, input_of(b, input));
}

ls_tensor ls_onnx_in_last(ls_onnx_build *b, size_t input) {
  ls_onnx_value *v = &b->values[input_of(b, input)];
  if (v->last.ref == 0) {
    const ls_tensor x = ls_onnx_in(b, input);
    if (ls_tensor_shape(x).rank < 2) return x;
    v->last = move_channels(x, true);
  }
  return v->last;
}

ls_shape ls_onnx_in_shape(ls_onnx_build *b, size_t input) {
  const ls_onnx_value *v = &b->values[input_of(b, input)];
  if (v->tensor.ref != 0 || v->last.ref == 0)
    return ls_tensor_shape(ls_onnx_in(b, input));
  ls_shape shape = ls_tensor_shape(v->last);
  const int64_t channels = shape.dim[shape.rank - 1];
  for (int32_t i = shape.rank - 1; i > 1; --i)
    shape.dim[i] = shape.dim[i - 1];
  shape.dim[1] = channels;
  return shape;
}

const ls_array *ls_onnx_array_in(const ls_onnx_build *b, size_t input) {
  return b->values[input_of(b, input)].array;
}

// ---- Elementwise -----------------------------------------------------------
static bool is_last_only(const ls_onnx_value *v) {
  return v->last.ref != 0 && v->tensor.ref == 0;
}

// Channels are last if one operand has only this form, and the others have it,
// too, or are scalars.
ls_tensor ls_onnx_element(ls_onnx_build *b) {
  bool is_any = false, fits = true;
  int32_t rank = 0;
  for (size_t i = 0; i < b->node->num_inputs; ++i) {
    const ls_onnx_value *v = &b->values[input_of(b, i)];
    if (!is_last_only(v)) continue;
    is_any = true;
    rank = ls_tensor_shape(v->last).rank;
  }
  for (size_t i = 0; is_any && i < b->node->num_inputs; ++i) {
    const ls_onnx_value *v = &b->values[input_of(b, i)];
    if (v->last.ref != 0)
      fits = fits && ls_tensor_shape(v->last).rank == rank;
    else
      fits = fits && ls_onnx_in_shape(b, i).rank == 0;
  }
  b->is_last = is_any && fits;
  return b->is_last ? ls_onnx_in_last(b, 0) : ls_onnx_in(b, 0);
}

// ---- Results ---------------------------------------------------------------
static ls_onnx_value *result_of(ls_onnx_build *b, size_t output) {
  const ls_onnx_node *node = b->node;
  return &b->values[output < node->num_outputs ? node->outputs[output] : 0];
}

void ls_onnx_give(ls_onnx_build *b, size_t output, ls_tensor tensor) {
  result_of(b, output)->tensor = tensor;
  if (tensor.ref == 0) ls_onnx_fail(b, ls_graph_take_error(ls_graph_current()));
}

void ls_onnx_give_last(ls_onnx_build *b, size_t output, ls_tensor tensor) {
  result_of(b, output)->last = tensor;
  if (tensor.ref == 0) ls_onnx_fail(b, ls_graph_take_error(ls_graph_current()));
}

void ls_onnx_give_element(ls_onnx_build *b, ls_tensor tensor) {
  if (b->is_last)
    ls_onnx_give_last(b, 0, tensor);
  else
    ls_onnx_give(b, 0, tensor);
}

void ls_onnx_give_known(ls_onnx_build *b, const ls_onnx_known *known,
                        ls_dtype dtype) {
  ls_onnx_value *v = result_of(b, 0);
  v->known = known;
  v->dtype = dtype;
}

// ---- Attributes ------------------------------------------------------------
const ls_onnx_attr *ls_onnx_attr_find(const ls_onnx_node *node,
                                      const char *name) {
  for (size_t i = 0; i < node->num_attrs; ++i)
    if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
  return NULL;
}

int64_t ls_onnx_attr_int(const ls_onnx_build *b, const char *name,
                         int64_t fallback) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, name);
  return attr != NULL && attr->kind == LS_ONNX_INT ? attr->number : fallback;
}

double ls_onnx_attr_real(const ls_onnx_build *b, const char *name,
                         double fallback) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, name);
  return attr != NULL && attr->kind == LS_ONNX_FLOAT ? attr->real : fallback;
}

const char *ls_onnx_attr_text(const ls_onnx_build *b, const char *name,
                              const char *fallback) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, name);
  return attr != NULL && attr->kind == LS_ONNX_STRING ? attr->text : fallback;
}

const ls_onnx_known *ls_onnx_sizes_of(ls_onnx_build *b, const char *name,
                                      size_t input) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, name);
  if (attr == NULL || attr->kind != LS_ONNX_INTS)
    return input > 0 && ls_onnx_has(b, input)
               ? ls_onnx_need_known(b, input, name)
               : NULL;
  ls_onnx_known *known = ls_onnx_known_new(b, 1, (int64_t)attr->count);
  for (size_t i = 0; known != NULL && i < attr->count; ++i)
    known->items[i].value = attr->numbers[i];
  return known;
}

const ls_onnx_known *ls_onnx_list_of(ls_onnx_build *b, const char *name,
                                     size_t input) {
  const ls_onnx_known *known = ls_onnx_sizes_of(b, name, input);
  for (int64_t i = 0; known != NULL && i < known->count; ++i) {
    if (!known->items[i].is_unknown) continue;
    LS_ONNX_REFUSE(b, "'%s' computed from sizes that are not known", name);
    return NULL;
  }
  return known;
}

int ls_onnx_axis(ls_onnx_build *b, int64_t axis, int32_t rank) {
  if (axis >= -rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
  ls_onnx_fail(b, ls_invalid_argument("axis %lld of a value of %d dimensions",
                                      (long long)axis, rank));
  return 0;
}

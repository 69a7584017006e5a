// SPDX-License-Identifier: Apache-2.0
//
// Makers of ops that rearrange elements.
#include "graph/make/make.h"
#include "onnx/onnx_build.h"

// ---- Sources ---------------------------------------------------------------
static ls_status make_array(const ls_onnx_attr *attr, ls_array **out) {
  const bool is_list =
      attr->kind == LS_ONNX_INTS || attr->kind == LS_ONNX_FLOATS;
  const bool is_real =
      attr->kind == LS_ONNX_FLOAT || attr->kind == LS_ONNX_FLOATS;
  const ls_shape shape = is_list ? LS_SHAPE((int64_t)attr->count) : LS_SCALAR;
  LS_RETURN_IF_ERROR(
      ls_array_create(is_real ? LS_DTYPE_F32 : LS_DTYPE_I64, shape, out));
  if (attr->kind == LS_ONNX_INT) ls_array_set_i64(*out, 0, attr->number);
  if (attr->kind == LS_ONNX_FLOAT) ls_array_set_f64(*out, 0, attr->real);
  for (size_t i = 0; i < attr->count; ++i) {
    if (attr->kind == LS_ONNX_INTS)
      ls_array_set_i64(*out, (int64_t)i, attr->numbers[i]);
    else
      ls_array_set_f64(*out, (int64_t)i, attr->reals[i]);
  }
  return ls_ok();
}

void ls_onnx_make_constant(ls_onnx_build *b) {
  const ls_onnx_attr *attr = b->node->num_attrs == 1 ? b->node->attrs : NULL;
  LS_OWN(ls_array, array) = NULL;
  if (attr != NULL && attr->array != NULL) {
    b->values[b->node->outputs[0]].array = attr->array;
    return;
  }
  if (attr == NULL || strncmp(attr->name, "value_", 6) != 0 ||
      attr->kind == 0 || attr->kind == LS_ONNX_STRING ||
      attr->kind == LS_ONNX_STRINGS) {
    LS_ONNX_REFUSE(b, "a constant that is no tensor of numbers");
    return;
  }
  ls_onnx_fail(b, make_array(attr, &array));
  if (array == NULL) return;
  ls_onnx_give(b, 0, ls_constant(array));
  const ls_onnx_known *known = ls_onnx_known_of(b, array);
  if (known != NULL) ls_onnx_give_known(b, known, LS_DTYPE_I64);
}

// Also makes Size, the product of all.
void ls_onnx_make_shape(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  const bool is_size = strcmp(b->node->type, "Size") == 0;
  ls_onnx_number dims[LS_MAX_RANK];
  int64_t from = ls_onnx_attr_int(b, "start", 0),
          to = ls_onnx_attr_int(b, "end", rank);
  if (rank < 0) LS_ONNX_REFUSE(b, "the shape of a value of unknown rank");
  from = ls_onnx_clamp(from < 0 ? from + rank : from, 0, rank);
  to = ls_onnx_clamp(to < 0 ? to + rank : to, from, rank);
  ls_onnx_known *known =
      ls_onnx_known_new(b, !is_size, is_size ? 1 : to - from);
  if (known == NULL || rank < 0) return;
  ls_onnx_dims(x, dims);
  if (is_size) {
    known->items[0].value = ls_onnx_product(ls_tensor_shape(x), 0, rank);
    known->items[0].is_unknown = known->items[0].value < 0;
  }
  for (int64_t i = from; !is_size && i < to; ++i)
    known->items[i - from] = dims[i];
  ls_onnx_give_known(b, known, LS_DTYPE_I64);
}

void ls_onnx_make_constant_of_shape(ls_onnx_build *b) {
  const ls_onnx_known *sizes = ls_onnx_need_known(b, 0, "sizes");
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, "value");
  const bool is_given = attr != NULL && attr->array != NULL &&
                        ls_array_num_elements(attr->array) == 1;
  const ls_dtype dtype = is_given ? ls_array_dtype(attr->array) : LS_DTYPE_F32;
  const ls_tensor value =
      is_given && ls_dtype_is_integer(dtype)
          ? ls_scalar_i64(dtype, ls_array_i64(attr->array, 0))
          : ls_scalar(dtype, is_given ? ls_array_f64(attr->array, 0) : 0);
  if (sizes != NULL)
    ls_onnx_give(
        b, 0,
        ls_onnx_sized(b, LS_OP_BROADCAST, value, sizes->items, sizes->count));
}

void ls_onnx_make_range(ls_onnx_build *b) {
  const ls_dtype dtype = ls_tensor_dtype(ls_onnx_in(b, 0));
  double ends[3];
  for (size_t i = 0; i < 3; ++i) {
    const ls_onnx_known *known = ls_onnx_known_in(b, i);
    const ls_array *array = ls_onnx_array_in(b, i);
    if (known != NULL && known->count == 1 && !known->items[0].is_unknown) {
      ends[i] = (double)known->items[0].value;
    } else if (array != NULL && ls_array_num_elements(array) == 1) {
      ends[i] = ls_array_f64(array, 0);
    } else {
      const bool is_size = i == 1 && known != NULL && ends[0] == 0;
      const ls_onnx_known *step = ls_onnx_known_in(b, 2);
      if (is_size && known->items[0].of.ref != 0 && step != NULL &&
          !step->items[0].is_unknown && step->items[0].value == 1) {
        const ls_tensor ones = ls_onnx_sized(
            b, LS_OP_BROADCAST, ls_scalar_i64(dtype, 1), known->items, 1);
        ls_onnx_give(b, 0, ls_cumsum(ones, 0, true, false));
      } else {
        LS_ONNX_REFUSE(b, "a range whose ends are computed from values");
      }
      return;
    }
  }
  const double count = ends[2] != 0 ? (ends[1] - ends[0]) / ends[2] : 0;
  if (!(count < INT32_MAX)) {
    LS_ONNX_REFUSE(b, "a range of %g numbers", count);
    return;
  }
  const int64_t whole =
      count > 0 ? (int64_t)count + (count > (double)(int64_t)count) : 0;
  const ls_tensor line = ls_iota(dtype, LS_SHAPE(whole), 0);
  ls_onnx_give(b, 0, ls_add_scalar(ls_mul_scalar(line, ends[2]), ends[0]));
}

// ---- Shapes ----------------------------------------------------------------
void ls_onnx_make_reshape(ls_onnx_build *b) {
  const ls_onnx_known *sizes = ls_onnx_need_known(b, 1, "sizes");
  const ls_tensor x = ls_onnx_in(b, 0);
  ls_onnx_number dims[LS_MAX_RANK];
  if (sizes == NULL) return;
  ls_onnx_known *wanted = ls_onnx_known_new(b, 1, sizes->count);
  if (wanted == NULL) return;
  ls_onnx_dims(x, dims);
  for (int64_t i = 0; i < sizes->count; ++i) {
    wanted->items[i] = sizes->items[i];
    if (!sizes->items[i].is_unknown && sizes->items[i].value == 0 &&
        ls_onnx_attr_int(b, "allowzero", 0) == 0 && i < ls_tensor_shape(x).rank)
      wanted->items[i] = dims[i];
  }
  ls_onnx_give(b, 0,
               ls_onnx_sized(b, LS_OP_RESHAPE, x, wanted->items, sizes->count));
}

void ls_onnx_make_flatten(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t axis = ls_onnx_attr_int(b, "axis", 1);
  const int at =
      axis == shape.rank ? shape.rank : ls_onnx_axis(b, axis, shape.rank);
  ls_onnx_give(b, 0,
               ls_reshape(x, LS_SHAPE(ls_onnx_product(shape, 0, at),
                                      ls_onnx_product(shape, at, shape.rank))));
}

// Returns +1 for a permutation that moves the channels to the end, -1 for one
// that moves them back, 0 for any other.
static int channels_moved(const int *permutation, int32_t rank) {
  bool to_last = rank > 2, back = rank > 2;
  for (int i = 1; i < rank; ++i) {
    to_last &= permutation[i] == (i + 1 < rank ? i + 1 : 1);
    back &= permutation[i] == (i == 1 ? rank - 1 : i - 1);
  }
  return permutation[0] != 0 ? 0 : to_last - back;
}

void ls_onnx_make_transpose(ls_onnx_build *b) {
  const ls_onnx_known *order = ls_onnx_list_of(b, "perm", 0);
  const int32_t rank = ls_onnx_in_shape(b, 0).rank;
  int permutation[LS_MAX_RANK];
  if (order != NULL && order->count != rank) {
    ls_onnx_fail(b, ls_invalid_argument("a permutation of %lld dimensions of "
                                        "a value that has %d",
                                        (long long)order->count, rank));
    return;
  }
  for (int i = 0; i < rank; ++i)
    permutation[i] = order == NULL
                         ? rank - 1 - i
                         : ls_onnx_axis(b, order->items[i].value, rank);
  const int moved = channels_moved(permutation, rank);
  if (moved > 0)
    ls_onnx_give(b, 0, ls_onnx_in_last(b, 0));
  else if (moved < 0)
    ls_onnx_give_last(b, 0, ls_onnx_in(b, 0));
  else
    ls_onnx_give(b, 0, ls_transpose(ls_onnx_in(b, 0), permutation));
}

void ls_onnx_make_squeeze(ls_onnx_build *b) {
  const ls_onnx_known *axes = ls_onnx_list_of(b, "axes", 1);
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  ls_onnx_number dims[LS_MAX_RANK], kept[LS_MAX_RANK];
  bool drops[LS_MAX_RANK] = {false};
  int64_t count = 0;
  ls_onnx_dims(x, dims);
  for (int64_t i = 0; axes != NULL && i < axes->count; ++i)
    drops[ls_onnx_axis(b, axes->items[i].value, rank)] = true;
  for (int i = 0; i < rank; ++i)
    if (axes == NULL ? dims[i].is_unknown || dims[i].value != 1 : !drops[i])
      kept[count++] = dims[i];
  ls_onnx_give(b, 0, ls_onnx_sized(b, LS_OP_RESHAPE, x, kept, count));
}

void ls_onnx_make_unsqueeze(ls_onnx_build *b) {
  const ls_onnx_known *axes = ls_onnx_list_of(b, "axes", 1);
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t old = ls_tensor_shape(x).rank;
  ls_onnx_number dims[LS_MAX_RANK], made[LS_MAX_RANK];
  bool adds[LS_MAX_RANK] = {false};
  int32_t next = 0;
  if (axes == NULL || old + axes->count > LS_MAX_RANK) {
    LS_ONNX_REFUSE(b, "a result of more than %d dimensions", LS_MAX_RANK);
    return;
  }
  const int32_t rank = old + (int32_t)axes->count;
  ls_onnx_dims(x, dims);
  for (int64_t i = 0; i < axes->count; ++i)
    adds[ls_onnx_axis(b, axes->items[i].value, rank)] = true;
  for (int i = 0; i < rank; ++i)
    made[i] =
        adds[i] || next >= old ? (ls_onnx_number){.value = 1} : dims[next++];
  ls_onnx_give(b, 0, ls_onnx_sized(b, LS_OP_RESHAPE, x, made, rank));
}

void ls_onnx_make_expand(ls_onnx_build *b) {
  const ls_onnx_known *sizes = ls_onnx_need_known(b, 1, "sizes");
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t old = ls_tensor_shape(x).rank;
  ls_onnx_number dims[LS_MAX_RANK], made[LS_MAX_RANK];
  if (sizes == NULL) return;
  const int64_t rank = sizes->count > old ? sizes->count : old;
  if (rank > LS_MAX_RANK) {
    LS_ONNX_REFUSE(b, "a result of more than %d dimensions", LS_MAX_RANK);
    return;
  }
  ls_onnx_dims(x, dims);
  for (int64_t i = 1; i <= rank; ++i) {
    const ls_onnx_number one = {.value = 1};
    const ls_onnx_number own = i <= old ? dims[old - i] : one;
    const ls_onnx_number *wanted =
        i <= sizes->count ? &sizes->items[sizes->count - i] : &one;
    const bool is_one = !wanted->is_unknown && wanted->value == 1;
    const bool stays = is_one || (!own.is_unknown && own.value != 1);
    made[rank - i] = stays ? own : *wanted;
  }
  ls_onnx_give(b, 0, ls_onnx_sized(b, LS_OP_BROADCAST, x, made, rank));
}

// ---- Joins and parts -------------------------------------------------------
void ls_onnx_make_concat(ls_onnx_build *b) {
  const size_t count = b->node->num_inputs;
  ls_tensor *parts = ls_arena_new_array(b->memory, ls_tensor, count);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", 1),
                                ls_onnx_in_shape(b, 0).rank);
  const bool is_last =
      parts != NULL && ls_onnx_element(b).ref != 0 && b->is_last;
  const int last = axis == 1 ? ls_onnx_in_shape(b, 0).rank - 1 : axis - 1;
  for (size_t i = 0; parts != NULL && i < count; ++i)
    parts[i] = is_last ? ls_onnx_in_last(b, i) : ls_onnx_in(b, i);
  if (parts != NULL)
    ls_onnx_give_element(
        b, ls_concatenate(parts, count, is_last && axis > 0 ? last : axis));
}

void ls_onnx_make_split(ls_onnx_build *b) {
  const ls_onnx_known *sizes = ls_onnx_list_of(b, "split", 1);
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", 0), shape.rank);
  const int64_t count = (int64_t)b->node->num_outputs, size = shape.dim[axis];
  int64_t start = 0, sum = sizes != NULL ? 0 : size;
  for (int64_t i = 0; sizes != NULL && i < sizes->count; ++i)
    sum += ls_onnx_clamp(sizes->items[i].value, 0, size + 1);
  if (size < 0 || sum != size || (sizes != NULL && sizes->count != count)) {
    LS_ONNX_REFUSE(b, "a split of %s into %lld parts, or parts of these sizes",
                   LS_SHAPE_TEXT(ls_tensor_dtype(x), shape), (long long)count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t part =
        sizes != NULL ? sizes->items[i].value : (size + count - 1) / count;
    const int64_t end = start + ls_onnx_clamp(part, 0, size - start);
    ls_onnx_give(b, (size_t)i, ls_slice_axis(x, axis, start, end));
    start = end;
  }
}

// Takes as many slices from the start of an axis as a dimension of another
// tensor has.
static ls_tensor slice_to_size(ls_tensor x, int axis,
                               const ls_onnx_number *end) {
  const ls_shape shape = ls_tensor_shape(x);
  ls_tensor inputs[LS_MAX_RANK + 2] = {x};
  ls_size sizes[LS_MAX_RANK];
  for (int32_t i = 0; i < shape.rank; ++i) {
    inputs[i + 1] = ls_scalar_i64(LS_DTYPE_I64, 0);
    sizes[i] = (ls_size){0, i};
  }
  inputs[shape.rank + 1] = end->of;
  sizes[axis] = (ls_size){shape.rank + 1, end->value};
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, (size_t)shape.rank);
  return ls_make(LS_OP_DYNAMIC_SLICE, inputs, (size_t)shape.rank + 2, &attr, 1);
}

// Returns true if the file leaves a size of the node's output open.
static bool is_left_open(const ls_onnx_build *b, int axis) {
  const ls_onnx_file *file = b->file;
  const size_t count = file->num_outputs + file->num_between;
  for (size_t i = 0; i < count; ++i) {
    const ls_onnx_port *port = i < file->num_outputs
                                   ? &file->outputs[i]
                                   : &file->between[i - file->num_outputs];
    if (port->value == b->node->outputs[0])
      return port->type.shape.rank > axis && port->type.shape.dim[axis] < 0;
  }
  return false;
}

// Slices one axis, whose size may be unknown.
static ls_tensor slice_axis(ls_onnx_build *b, ls_tensor x, int axis,
                            const ls_onnx_number *start,
                            const ls_onnx_number *end, int64_t step) {
  const bool is_end = end->is_unknown && end->of.ref != 0 && step > 0;
  if (is_end && !ls_onnx_is_size_of(end, x, axis)) {
    x = slice_to_size(x, axis, end);
    if (!start->is_unknown && start->value == 0 && step == 1) return x;
  }
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t size = shape.dim[axis];
  int64_t from = start->value, to = end->value;
  if (start->is_unknown || step == 0 || step < -INT32_MAX ||
      (end->is_unknown && !is_end) ||
      (size < 0 && (from < 0 || step < 0 || (to < 0 && !is_end)))) {
    LS_ONNX_REFUSE(b, "a slice at places that are not known while building");
    return x;
  }
  if (is_end) to = INT64_MAX;
  if (step < 0) {
    from = from < 0 ? ls_onnx_clamp(from + size, 0, size) : from;
    to = to < 0 ? (to < -size ? -1 : to + size) : to;
    from = size - 1 - (from > size - 1 ? size - 1 : from);
    to = size - 1 - to;
    x = ls_reverse(x, LS_AXES(axis));
    step = -step;
  } else if (size >= 0) {
    from = from < 0 ? from + size : from;
    to = to < 0 ? to + size : to;
  }
  from = ls_onnx_clamp(from, 0, size < 0 ? INT64_MAX : size);
  to = ls_onnx_clamp(to, from, size < 0 ? INT64_MAX : size);
  int64_t starts[LS_MAX_RANK] = {0}, limits[LS_MAX_RANK], strides[LS_MAX_RANK];
  const size_t rank = (size_t)shape.rank;
  for (size_t i = 0; i < rank; ++i) {
    limits[i] = -1;
    strides[i] = 1;
  }
  starts[axis] = from;
  strides[axis] = step;
  // An end beyond an axis of unknown size is its end.
  limits[axis] = size < 0 && to > INT32_MAX ? -1 : to;
  const ls_attr attrs[] = {
      LS_OWN_IS(STARTS, starts, rank), LS_OWN_IS(LIMITS, limits, rank),
      LS_OWN_IS(STRIDES, strides, rank), LS_OWN_B(CLAMP, true)};
  // Slices are taken to be there, so that their number is known, unless the
  // file says that there may be fewer.
  const bool clamps = size < 0 && to - from > 1 && is_left_open(b, axis);
  return ls_make(LS_OP_SLICE, &x, 1, attrs, clamps ? 4 : 3);
}

void ls_onnx_make_slice(ls_onnx_build *b) {
  const ls_onnx_known *starts = ls_onnx_sizes_of(b, "starts", 1),
                      *ends = ls_onnx_sizes_of(b, "ends", 2),
                      *axes = ls_onnx_list_of(b, "axes", 3),
                      *steps = ls_onnx_list_of(b, "steps", 4);
  ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  if (starts == NULL || ends == NULL || starts->count != ends->count ||
      (axes != NULL && axes->count != starts->count) ||
      (steps != NULL && steps->count != starts->count)) {
    LS_ONNX_REFUSE(b, "lists of different lengths");
    return;
  }
  for (int64_t i = 0; i < starts->count && ls_status_is_ok(b->status); ++i) {
    const int axis =
        ls_onnx_axis(b, axes != NULL ? axes->items[i].value : i, rank);
    x = slice_axis(b, x, axis, &starts->items[i], &ends->items[i],
                   steps != NULL ? steps->items[i].value : 1);
  }
  ls_onnx_give(b, 0, x);
}

void ls_onnx_make_tile(ls_onnx_build *b) {
  const ls_onnx_known *counts = ls_onnx_need_known(b, 1, "numbers of copies");
  ls_tensor x = ls_onnx_in(b, 0);
  for (int64_t i = 0; counts != NULL && i < counts->count; ++i) {
    const int64_t count = counts->items[i].value;
    if (counts->items[i].is_unknown || count < 1 ||
        count > LS_ONNX_MOST_KNOWN) {
      LS_ONNX_REFUSE(b, "a number of copies that is not from 1 to %d",
                     LS_ONNX_MOST_KNOWN);
      return;
    }
    ls_tensor *parts = ls_arena_new_array(b->memory, ls_tensor, (size_t)count);
    if (parts == NULL) return;
    for (int64_t k = 0; k < count; ++k)
      parts[k] = x;
    x = ls_concatenate(parts, (size_t)count, (int)i);
  }
  ls_onnx_give(b, 0, x);
}

// ---- Lookups ---------------------------------------------------------------
// Counts negative indices from the end: `size`, or if that is -1, the size of
// x's axis.
static ls_tensor from_start(ls_tensor indices, int64_t size, ls_tensor x,
                            int axis) {
  const ls_dtype dtype = ls_tensor_dtype(indices);
  if (!ls_dtype_is_integer(dtype)) return indices;
  const ls_tensor end = size >= 0 ? ls_scalar_i64(dtype, size)
                                  : ls_convert(ls_dim_size(x, axis), dtype);
  const ls_tensor moved = ls_add(indices, end);
  return ls_select(ls_less(indices, ls_scalar_i64(dtype, 0)), moved, indices);
}

void ls_onnx_make_gather(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", 0), shape.rank);
  const ls_onnx_known *known = ls_onnx_known_in(b, 1);
  const ls_onnx_number *one =
      known != NULL && known->rank == 0 ? &known->items[0] : NULL;
  if (one == NULL || one->is_unknown || shape.dim[axis] < 0) {
    const ls_tensor at = from_start(ls_onnx_in(b, 1), shape.dim[axis], x, axis);
    ls_onnx_give(b, 0, ls_gather(x, at, axis));
    return;
  }
  const int64_t at = one->value < 0 ? one->value + shape.dim[axis] : one->value;
  ls_onnx_number dims[LS_MAX_RANK];
  const ls_tensor part = ls_slice_axis(x, axis, at, at + 1);
  ls_onnx_dims(part, dims);
  for (int i = axis; i + 1 < shape.rank; ++i)
    dims[i] = dims[i + 1];
  ls_onnx_give(b, 0,
               ls_onnx_sized(b, LS_OP_RESHAPE, part, dims, shape.rank - 1));
}

void ls_onnx_make_gather_elements(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", 0), shape.rank);
  const ls_tensor at = from_start(ls_onnx_in(b, 1), shape.dim[axis], x, axis);
  ls_onnx_give(b, 0, ls_take_along(x, at, axis));
}

void ls_onnx_make_one_hot(ls_onnx_build *b) {
  const ls_array *given = ls_onnx_array_in(b, 1);
  const bool is_real = given != NULL && ls_array_num_elements(given) == 1 &&
                       ls_dtype_is_float(ls_array_dtype(given));
  const ls_onnx_known *depth = is_real ? NULL : ls_onnx_list_of(b, "depth", 1);
  const ls_tensor values = ls_onnx_in(b, 2);
  const ls_tensor indices = ls_onnx_in(b, 0);
  if (ls_onnx_attr_int(b, "axis", -1) != -1)
    LS_ONNX_REFUSE(b, "one-hot codes along another axis than the last");
  if (depth == NULL && !is_real) return;
  const int64_t size = is_real ? ls_array_i64(given, 0) : depth->items[0].value;
  const ls_tensor at =
      from_start(ls_convert(indices, LS_DTYPE_I64), size, values, 0);
  const ls_tensor codes = ls_one_hot(at, size, LS_DTYPE_BOOL);
  const ls_tensor off = ls_reshape(ls_slice_axis(values, 0, 0, 1), LS_SCALAR),
                  on = ls_reshape(ls_slice_axis(values, 0, 1, 2), LS_SCALAR);
  ls_onnx_give(b, 0, ls_select(codes, on, off));
}

void ls_onnx_make_cumsum(ls_onnx_build *b) {
  const ls_onnx_known *axis = ls_onnx_list_of(b, "axis", 1);
  const ls_tensor x = ls_onnx_in(b, 0);
  if (axis != NULL)
    ls_onnx_give(b, 0,
                 ls_cumsum(x,
                           ls_onnx_axis(b, axis->items[0].value,
                                        ls_tensor_shape(x).rank),
                           ls_onnx_attr_int(b, "exclusive", 0) != 0,
                           ls_onnx_attr_int(b, "reverse", 0) != 0));
}

void ls_onnx_make_trilu(ls_onnx_build *b) {
  const ls_onnx_known *k = ls_onnx_list_of(b, "k", 1);
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const bool is_upper = ls_onnx_attr_int(b, "upper", 1) != 0;
  if (shape.rank < 2 || shape.dim[shape.rank - 2] < 0 ||
      shape.dim[shape.rank - 1] < 0 || (ls_onnx_has(b, 1) && k == NULL)) {
    LS_ONNX_REFUSE(b, "a triangle of %s",
                   LS_SHAPE_TEXT(ls_tensor_dtype(x), shape));
    return;
  }
  const ls_shape square =
      LS_SHAPE(shape.dim[shape.rank - 2], shape.dim[shape.rank - 1]);
  const ls_tensor row = ls_iota(LS_DTYPE_I64, square, 0),
                  column = ls_iota(LS_DTYPE_I64, square, 1);
  const ls_tensor diagonal = ls_add(
      row, ls_scalar_i64(LS_DTYPE_I64, k != NULL ? k->items[0].value : 0));
  const ls_tensor keeps = is_upper ? ls_greater_equal(column, diagonal)
                                   : ls_less_equal(column, diagonal);
  const ls_tensor zero = ls_tensor_dtype(x) == LS_DTYPE_BOOL
                             ? ls_scalar_i64(LS_DTYPE_BOOL, 0)
                             : ls_scalar(ls_tensor_dtype(x), 0);
  ls_onnx_give(b, 0, ls_select(keeps, x, zero));
}

// SPDX-License-Identifier: Apache-2.0
//
// Folds the arithmetic of shapes: integers that are known while building.
#include "graph/make/make.h"
#include "io/protobuf/onnx.h"
#include "onnx/onnx_build.h"

// Bounds the memory for items of all folded nodes.
enum { MOST_KNOWN = 1 << 20 };

ls_onnx_known *ls_onnx_known_new(ls_onnx_build *b, int32_t rank,
                                 int64_t count) {
  ls_onnx_known *known = ls_arena_new(b->memory, ls_onnx_known);
  if (known != NULL)
    known->items =
        ls_arena_new_array(b->memory, ls_onnx_number, (size_t)count + 1);
  if (known == NULL || known->items == NULL) {
    ls_onnx_fail(b, ls_out_of_memory());
    return NULL;
  }
  b->num_known += count;
  known->rank = rank;
  known->count = count;
  return known;
}

const ls_onnx_known *ls_onnx_known_of(ls_onnx_build *b, const ls_array *array) {
  const ls_dtype dtype = ls_array_dtype(array);
  const int64_t count = ls_array_num_elements(array);
  const int32_t rank = ls_array_shape(array).rank;
  if ((!ls_dtype_is_integer(dtype) && dtype != LS_DTYPE_BOOL) || rank > 1 ||
      count > LS_ONNX_MOST_KNOWN)
    return NULL;
  ls_onnx_known *known = ls_onnx_known_new(b, rank, count);
  for (int64_t i = 0; known != NULL && i < count; ++i)
    known->items[i].value = ls_array_i64(array, i);
  return known;
}

const ls_onnx_known *ls_onnx_known_in(ls_onnx_build *b, size_t input) {
  if (!ls_onnx_has(b, input)) return NULL;
  ls_onnx_value *v = &b->values[b->node->inputs[input]];
  if (v->known == NULL && v->array != NULL) {
    v->known = ls_onnx_known_of(b, v->array);
    v->dtype = ls_array_dtype(v->array);
  }
  return v->known;
}

const ls_onnx_known *ls_onnx_need_known(ls_onnx_build *b, size_t input,
                                        const char *what) {
  const ls_onnx_known *known = ls_onnx_known_in(b, input);
  if (known == NULL)
    LS_ONNX_REFUSE(b, "%s that are computed from values, not from shapes",
                   what);
  return known;
}

// ---- As tensors ------------------------------------------------------------
static ls_tensor number_tensor(const ls_onnx_number *number) {
  return number->is_unknown ? ls_dim_size(number->of, (int)number->value)
                            : ls_scalar_i64(LS_DTYPE_I64, number->value);
}

ls_tensor ls_onnx_known_tensor(ls_onnx_build *b, const ls_onnx_known *known,
                               ls_dtype dtype) {
  bool is_whole = true;
  for (int64_t i = 0; i < known->count; ++i) {
    is_whole &= !known->items[i].is_unknown;
    if (known->items[i].is_unknown && known->items[i].of.ref == 0) {
      LS_ONNX_REFUSE(b, "a value computed from sizes that are not known");
      return ls_failed_tensor();
    }
  }
  if (is_whole) {
    LS_OWN(ls_array, array) = NULL;
    const int64_t columns = known->rank == 2 ? known->columns : 1;
    ls_shape shape = LS_SHAPE(known->count / columns, columns);
    shape.rank = known->rank;
    for (int32_t i = shape.rank; i < 2; ++i)
      shape.dim[i] = 0;
    ls_onnx_fail(b, ls_array_create(dtype, shape, &array));
    for (int64_t i = 0; array != NULL && i < known->count; ++i)
      ls_array_set_i64(array, i, known->items[i].value);
    return array != NULL ? ls_constant(array) : ls_failed_tensor();
  }
  ls_tensor *parts =
      ls_arena_new_array(b->memory, ls_tensor, (size_t)known->count);
  if (parts == NULL) return ls_failed_tensor();
  for (int64_t i = 0; i < known->count; ++i)
    parts[i] = ls_reshape(number_tensor(&known->items[i]), LS_SHAPE(1));
  const ls_tensor line = ls_concatenate(parts, (size_t)known->count, 0);
  return ls_convert(known->rank == 0 ? ls_reshape(line, LS_SCALAR) : line,
                    dtype);
}

int64_t ls_onnx_product(ls_shape shape, int first, int end) {
  ls_shape part = {.rank = end - first};
  for (int i = first; i < end; ++i)
    part.dim[i - first] = shape.dim[i];
  return ls_shape_num_elements(part);
}

void ls_onnx_dims(ls_tensor x, ls_onnx_number *out) {
  const ls_shape shape = ls_tensor_shape(x);
  memset(out, 0, LS_MAX_RANK * sizeof(*out));  // Also if x has failed.
  for (int32_t i = 0; i < shape.rank; ++i)
    out[i] = shape.dim[i] >= 0
                 ? (ls_onnx_number){.value = shape.dim[i]}
                 : (ls_onnx_number){.value = i, .is_unknown = true, .of = x};
}

ls_tensor ls_onnx_sized(ls_onnx_build *b, uint16_t op, ls_tensor x,
                        const ls_onnx_number *numbers, int64_t rank) {
  ls_size sizes[LS_MAX_RANK];
  ls_tensor inputs[] = {x, ls_failed_tensor()};
  int64_t unknown = 0;
  if (rank > LS_MAX_RANK) {
    LS_ONNX_REFUSE(b, "a value of %lld dimensions", (long long)rank);
    return ls_failed_tensor();
  }
  for (int64_t i = 0; i < rank; ++i)
    unknown += numbers[i].is_unknown || numbers[i].value == -1;
  for (int64_t i = 0; i < rank; ++i) {
    const ls_onnx_number *n = &numbers[i];
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, n->value};
    if (op == LS_OP_RESHAPE && unknown == 1 && n->is_unknown) {
      sizes[i].value = -1;
    } else if (n->is_unknown && n->of.ref != 0 && ls_tensor_equal(n->of, x)) {
      sizes[i].operand = 0;
    } else if (n->is_unknown) {
      if (n->of.ref == 0 ||
          (inputs[1].ref != 0 && !ls_tensor_equal(inputs[1], n->of))) {
        LS_ONNX_REFUSE(b, "a shape with several sizes that are not known");
        return ls_failed_tensor();
      }
      sizes[i] = (ls_size){1, n->value};
      inputs[1] = n->of;
    }
  }
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, (size_t)rank);
  return ls_make(op, inputs, inputs[1].ref != 0 ? 2 : 1, &attr, 1);
}

// ---- Arithmetic ------------------------------------------------------------
bool ls_onnx_is_size_of(const ls_onnx_number *n, ls_tensor x, int axis) {
  return n->is_unknown && n->of.ref != 0 && ls_tensor_equal(n->of, x) &&
         n->value == axis;
}

// Returns the remainder that has the sign of the divisor.
static int64_t floor_mod(int64_t x, int64_t y) {
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// Computes an op of two numbers; returns false for another op.
static bool fold_numbers(const char *op, const ls_onnx_number *x,
                         const ls_onnx_number *y, ls_onnx_number *out) {
  static const char *const ops[] = {"Add",   "Sub",  "Mul",     "Div", "Mod",
                                    "Equal", "Less", "Greater", "Min", "Max"};
  size_t which = 0;
  while (which < 10 && strcmp(ops[which], op) != 0)
    ++which;
  *out = (ls_onnx_number){.is_unknown = x->is_unknown || y->is_unknown};
  if (out->is_unknown) {
    const bool keeps =
        (which == 2 || which == 3) && !y->is_unknown && y->value == 1;
    if (keeps || (which < 2 && !y->is_unknown && y->value == 0)) *out = *x;
    // No size is a negative number, such as -1.
    if (which == 5 && (x->is_unknown ? y : x)->value < 0)
      *out = (ls_onnx_number){.value = 0};
    return which < 10;
  }
  const uint64_t a = (uint64_t)x->value, c = (uint64_t)y->value;
  const bool divides = y->value != 0 && y->value != -1;
  const int64_t values[] = {
      (int64_t)(a + c),
      (int64_t)(a - c),
      (int64_t)(a * c),
      divides ? x->value / y->value : (int64_t)(0 - a),
      divides ? floor_mod(x->value, y->value) : 0,
      x->value == y->value,
      x->value<y->value, x->value> y->value,
      x->value < y->value ? x->value : y->value,
      x->value > y->value ? x->value : y->value,
  };
  if (which < 10) out->value = values[which];
  return which < 10;
}

static bool is_named(const ls_onnx_build *b, const char *type) {
  return strcmp(b->node->type, type) == 0;
}

static const ls_onnx_number *item_of(const ls_onnx_known *known, int64_t i) {
  return &known->items[known->count == 1 ? 0 : i];
}

static ls_onnx_known *fold_pairs(ls_onnx_build *b, const ls_onnx_known *x,
                                 const ls_onnx_known *y) {
  const int64_t count = x->count == 1 ? y->count : x->count;
  ls_onnx_number number;
  const ls_onnx_number one = {.value = 1};
  if ((y->count != 1 && y->count != count) ||
      !fold_numbers(b->node->type, &one, &one, &number))
    return NULL;
  ls_onnx_known *out =
      ls_onnx_known_new(b, x->rank > y->rank ? x->rank : y->rank, count);
  for (int64_t i = 0; out != NULL && i < count; ++i)
    fold_numbers(b->node->type, item_of(x, i), item_of(y, i), &out->items[i]);
  return out;
}

static ls_onnx_known *fold_where(ls_onnx_build *b, const ls_onnx_known *c,
                                 const ls_onnx_known *x,
                                 const ls_onnx_known *y) {
  const ls_onnx_known *const all[] = {c, x, y};
  int32_t rank = 0;
  int64_t count = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (all[i]->rank > rank) rank = all[i]->rank;
    if (all[i]->count == 1) continue;
    if (count != 1 && count != all[i]->count) return NULL;
    count = all[i]->count;
  }
  if (rank > 1) return NULL;
  ls_onnx_known *out = ls_onnx_known_new(b, rank, count);
  for (int64_t i = 0; out != NULL && i < count; ++i) {
    if (item_of(c, i)->is_unknown) return NULL;
    out->items[i] = *item_of(item_of(c, i)->value != 0 ? x : y, i);
  }
  return out;
}

// ---- Lists -----------------------------------------------------------------
static ls_onnx_known *fold_gather(ls_onnx_build *b, const ls_onnx_known *x,
                                  const ls_onnx_known *at) {
  ls_onnx_known *out = ls_onnx_known_new(b, at->rank, at->count);
  for (int64_t i = 0; out != NULL && i < at->count; ++i) {
    const int64_t k = at->items[i].value;
    if (at->items[i].is_unknown || k < -x->count || k >= x->count) return NULL;
    out->items[i] = x->items[k < 0 ? k + x->count : k];
  }
  return out;
}

static ls_onnx_known *fold_concat(ls_onnx_build *b) {
  int64_t count = 0, at = 0;
  for (size_t i = 0; i < b->node->num_inputs; ++i) {
    const ls_onnx_known *part = ls_onnx_known_in(b, i);
    if (part == NULL || part->rank != 1) return NULL;
    count += part->count;
  }
  if (count > LS_ONNX_MOST_KNOWN) return NULL;
  ls_onnx_known *out = ls_onnx_known_new(b, 1, count);
  for (size_t i = 0; out != NULL && i < b->node->num_inputs; ++i) {
    const ls_onnx_known *part = ls_onnx_known_in(b, i);
    for (int64_t k = 0; k < part->count; ++k)
      out->items[at++] = part->items[k];
  }
  return out;
}

static ls_onnx_known *fold_slice(ls_onnx_build *b, const ls_onnx_known *x) {
  const ls_onnx_known *start = ls_onnx_sizes_of(b, "starts", 1),
                      *end = ls_onnx_sizes_of(b, "ends", 2),
                      *step = ls_onnx_list_of(b, "steps", 4);
  const int64_t n = x->count;
  // A longer step ends the slice too, without an overflow.
  const int64_t by =
      step != NULL ? ls_onnx_clamp(step->items[0].value, 0, n + 1) : 1;
  if (start == NULL || end == NULL || start->count != 1 || end->count != 1 ||
      start->items[0].is_unknown || end->items[0].is_unknown || by < 1)
    return NULL;
  int64_t from = start->items[0].value, to = end->items[0].value, count = 0;
  from = ls_onnx_clamp(from < 0 ? from + n : from, 0, n);
  to = ls_onnx_clamp(to < 0 ? to + n : to, 0, n);
  ls_onnx_known *out = ls_onnx_known_new(b, 1, n);
  for (int64_t i = from; out != NULL && i < to; i += by)
    out->items[count++] = x->items[i];
  if (out != NULL) out->count = count;
  return out;
}

// Exporters list pads in pairs, last dimension first, and reorder them: as a
// matrix whose rows are reversed, and which is transposed.
static ls_onnx_known *fold_matrix(ls_onnx_build *b, const ls_onnx_known *x,
                                  bool transposes) {
  const ls_onnx_known *start = ls_onnx_known_in(b, 1),
                      *end = ls_onnx_known_in(b, 2),
                      *axis = ls_onnx_known_in(b, 3),
                      *step = ls_onnx_known_in(b, 4),
                      *order = ls_onnx_list_of(b, "perm", 0);
  if (x->count == 0) return NULL;
  const int64_t rows = x->count / x->columns;
  ls_onnx_known *out = ls_onnx_known_new(b, 2, x->count);
  if (out == NULL ||
      (transposes
           ? order != NULL && order->items[0].value % 2 == 0
           : start == NULL || end == NULL || axis == NULL || step == NULL ||
                 start->items[0].value != -1 || end->items[0].is_unknown ||
                 end->items[0].value >= -rows || axis->count != 1 ||
                 axis->items[0].is_unknown || axis->items[0].value != 0 ||
                 step->items[0].value != -1))
    return NULL;
  out->columns = transposes ? rows : x->columns;
  for (int64_t i = 0; i < x->count; ++i) {
    const int64_t row = i / x->columns, column = i % x->columns;
    out->items[transposes ? column * rows + row
                          : (rows - 1 - row) * x->columns + column] =
        x->items[i];
  }
  return out;
}

static ls_onnx_known *with_rank(ls_onnx_build *b, const ls_onnx_known *x,
                                int32_t rank) {
  ls_onnx_known *out = ls_onnx_known_new(b, rank, x->count);
  if (out != NULL) {
    memcpy(out->items, x->items, (size_t)x->count * sizeof(*x->items));
    out->columns = x->columns;
  }
  return out;
}

static ls_onnx_known *fold_unsqueeze(ls_onnx_build *b, const ls_onnx_known *x) {
  const ls_onnx_known *axes = ls_onnx_list_of(b, "axes", 1);
  return x->rank == 0 && axes != NULL && axes->count == 1 ? with_rank(b, x, 1)
                                                          : NULL;
}

// Returns the items as i32 has them.
static ls_onnx_known *wrap_around(ls_onnx_build *b, const ls_onnx_known *x) {
  ls_onnx_known *out = with_rank(b, x, x->rank);
  for (int64_t i = 0; out != NULL && i < out->count; ++i)
    out->items[i].value = (int32_t)(uint32_t)out->items[i].value;
  return out;
}

static ls_onnx_known *fold_reshape(ls_onnx_build *b, const ls_onnx_known *x) {
  const ls_onnx_known *shape = ls_onnx_known_in(b, 1);
  if (shape == NULL || shape->count > 2) return NULL;
  const ls_onnx_number *sizes = shape->items;
  int64_t columns = 1;
  if (shape->count == 2) columns = sizes[1].is_unknown ? -1 : sizes[1].value;
  if (columns < 1 || x->count % columns != 0) return NULL;
  const int64_t rows = x->count / columns;
  if (shape->count == 0 ? rows != 1
                        : sizes[0].is_unknown ||
                              (sizes[0].value != -1 && sizes[0].value != rows))
    return NULL;
  ls_onnx_known *out = with_rank(b, x, (int32_t)shape->count);
  if (out != NULL) out->columns = columns;
  return out;
}

static ls_onnx_known *fold_product(ls_onnx_build *b, const ls_onnx_known *x) {
  if (x->rank == 0 || ls_onnx_attr_int(b, "noop_with_empty_axes", 0) != 0)
    return NULL;
  ls_onnx_known *out =
      ls_onnx_known_new(b, ls_onnx_attr_int(b, "keepdims", 1) != 0, 1);
  if (out == NULL) return NULL;
  out->items[0].value = 1;
  for (int64_t i = 0; i < x->count; ++i) {
    const ls_onnx_number y = out->items[0];
    fold_numbers("Mul", &x->items[i], &y, &out->items[0]);
  }
  return out;
}

static ls_onnx_known *fold_fill(ls_onnx_build *b, const ls_onnx_known *sizes,
                                const ls_onnx_known *value) {
  const int64_t count = sizes->count > 0 ? sizes->items[0].value : 1;
  if (sizes->count > 1 || count < 0 || count > LS_ONNX_MOST_KNOWN ||
      (sizes->count > 0 && sizes->items[0].is_unknown) || value->count != 1)
    return NULL;
  ls_onnx_known *out = ls_onnx_known_new(b, (int32_t)sizes->count, count);
  for (int64_t i = 0; out != NULL && i < count; ++i)
    out->items[i] = value->items[0];
  return out;
}

static ls_onnx_known *fold_fill_of_shape(ls_onnx_build *b,
                                         const ls_onnx_known *sizes,
                                         ls_dtype *dtype) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, "value");
  if (attr == NULL || attr->array == NULL) return NULL;  // A float.
  const ls_onnx_known *value = ls_onnx_known_of(b, attr->array);
  *dtype = ls_array_dtype(attr->array);
  return value != NULL ? fold_fill(b, sizes, value) : NULL;
}

static const ls_onnx_known *fold_node(ls_onnx_build *b, ls_dtype *dtype) {
  const ls_onnx_known *x = ls_onnx_known_in(b, 0), *y = ls_onnx_known_in(b, 1),
                      *z = ls_onnx_known_in(b, 2);
  if (x == NULL) return NULL;
  if (x->rank == 2 && is_named(b, "Slice")) return fold_matrix(b, x, false);
  if (x->rank == 2 && is_named(b, "Transpose")) return fold_matrix(b, x, true);
  if (is_named(b, "Concat")) return fold_concat(b);
  if (is_named(b, "Slice")) return x->rank == 1 ? fold_slice(b, x) : NULL;
  if (is_named(b, "Gather"))
    return y != NULL && x->rank == 1 && y->rank <= 1 ? fold_gather(b, x, y)
                                                     : NULL;
  if (is_named(b, "Identity")) return x;
  if (is_named(b, "Cast")) {
    *dtype = ls_onnx_dtype_of(ls_onnx_attr_int(b, "to", 0));
    return *dtype == LS_DTYPE_I64 || *dtype == LS_DTYPE_I32 ? x : NULL;
  }
  if (is_named(b, "Squeeze"))
    return x->count == 1 && x->rank <= 1 ? with_rank(b, x, 0) : NULL;
  if (is_named(b, "Unsqueeze")) return fold_unsqueeze(b, x);
  if (is_named(b, "Reshape")) return fold_reshape(b, x);
  if (is_named(b, "Expand") && y != NULL)
    return x->rank <= y->count ? fold_fill(b, y, x) : NULL;
  if (is_named(b, "ConstantOfShape")) return fold_fill_of_shape(b, x, dtype);
  if (is_named(b, "Where") && y != NULL && z != NULL) {
    *dtype = b->values[b->node->inputs[1]].dtype;
    return fold_where(b, x, y, z);
  }
  // Narrower types would wrap around.
  if (x->rank > 1 || (*dtype != LS_DTYPE_I64 && *dtype != LS_DTYPE_I32))
    return NULL;
  if (is_named(b, "ReduceProd")) return fold_product(b, x);
  if (y == NULL || b->node->num_inputs != 2 || y->rank > 1 ||
      ls_onnx_attr_int(b, "fmod", 0) != 0)
    return NULL;
  if (is_named(b, "Equal") || is_named(b, "Less") || is_named(b, "Greater"))
    *dtype = LS_DTYPE_BOOL;
  return fold_pairs(b, x, y);
}

bool ls_onnx_fold(ls_onnx_build *b) {
  if (b->node->num_inputs == 0 || b->num_known > MOST_KNOWN) return false;
  (void)ls_onnx_known_in(b, 0);
  ls_dtype dtype = b->values[b->node->inputs[0]].dtype;
  const ls_onnx_known *known = fold_node(b, &dtype);
  if (known != NULL && dtype == LS_DTYPE_I32) known = wrap_around(b, known);
  if (known == NULL || !ls_status_is_ok(b->status)) return false;
  ls_onnx_give_known(b, known, dtype);
  return true;
}

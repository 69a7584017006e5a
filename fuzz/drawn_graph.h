// SPDX-License-Identifier: Apache-2.0
//
// A build graph drawn from bytes by the table of ops: any op on any values
// before it, with as many operands as it takes or others, and each attribute of
// its row, or not, with what may stand in it or not. Most of it is within its
// bounds, or all would be refused at once.
#ifndef LS_FUZZ_DRAWN_GRAPH_H_
#define LS_FUZZ_DRAWN_GRAPH_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/make/make.h"
#include "lockstep/graph_ops.h"

enum { DRAWN_OPS = 64, DRAWN_VALUES = 64, DRAWN_OPERANDS = 40 };

typedef struct drawing {
  const uint8_t *bytes;
  size_t left;
  ls_tensor values[DRAWN_VALUES];
  size_t num_values;
  size_t list;     // As long as the lists of an op are, most of them.
  ls_shape usual;  // The shape that most sources have: then ops fit.
} drawing;

// 0 to `limit` - 1; 0 once there are no bytes left.
static uint32_t draw(drawing *d, uint32_t limit) {
  if (d->left == 0) return 0;
  --d->left;
  return *d->bytes++ % limit;
}

// Once in `times`.
static bool draw_once_in(drawing *d, uint32_t times) {
  return draw(d, times) == times - 1;
}

static ls_dtype draw_dtype(drawing *d) {
  static const ls_dtype usual[] = {LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_F32,
                                   LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_I32,
                                   LS_DTYPE_I64, LS_DTYPE_BOOL};
  if (draw(d, 8) > 0) return usual[draw(d, 8)];
  return (ls_dtype)(LS_DTYPE_NONE + draw(d, LS_DTYPE_COUNT + 1));
}

static ls_shape draw_shape(drawing *d) {
  ls_shape shape = {.rank = (int32_t)draw(d, 6)};
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = draw_once_in(d, 16) ? 17 : (int64_t)draw(d, 5);
  return shape;
}

static int64_t draw_beyond(drawing *d, const ls_attr_info *info) {
  const int64_t numbers[] = {
      info->least > INT64_MIN ? info->least - 1 : info->least,
      info->most < INT64_MAX ? info->most + 1 : info->most,
      info->least,
      info->most,
      INT64_MIN,
      INT64_MAX,
      -1,
      INT64_C(1) << 33};
  return numbers[draw(d, LS_COUNT_OF(numbers))];
}

static int64_t draw_number(drawing *d, const ls_attr_info *info) {
  if (draw_once_in(d, 24)) return draw_beyond(d, info);
  const int64_t least = info->least > -2 ? info->least : -2;
  const int64_t number = least + (int64_t)draw(d, 5);
  return number <= info->most ? number : info->most;
}

static const char *draw_word(drawing *d, const ls_attr_info *info,
                             char buffer[40]) {
  const char *word = info->words;
  for (uint32_t skip = draw(d, 8); skip > 0; --skip) {
    word += strcspn(word, ",");
    word += strspn(word, ", ");
    if (*word == '\0') word = draw_once_in(d, 8) ? "none" : info->words;
  }
  const size_t length = strcspn(word, ",");
  memcpy(buffer, word, length);
  buffer[length] = '\0';
  return buffer;
}

// What an attribute points to.
typedef struct drawn_attr {
  int64_t numbers[LS_MAX_RANK + 1];
  ls_size sizes[LS_MAX_RANK + 1];
  char word[40];
} drawn_attr;

// Whether there is a value for it.
static bool draw_attr(drawing *d, ls_attr_id id, ls_array *array,
                      drawn_attr *room, ls_attr *out) {
  const ls_attr_info *info = &ls_attr_table[id];
  *out = (ls_attr){.name = info->name, .kind = info->kind};
  const size_t count = draw_once_in(d, 24) ? draw(d, LS_MAX_RANK + 2) : d->list;
  switch (info->kind) {
  case LS_ATTR_INT:
  case LS_ATTR_BOOL:
    out->as.i = draw_number(d, info);
    break;
  case LS_ATTR_FLOAT: {
    static const double reals[] = {0, 1e-5, 1, -1, 1e300, (double)NAN};
    out->as.f = reals[draw(d, LS_COUNT_OF(reals))];
    break;
  }
  case LS_ATTR_STRING:
    out->as.string = draw_word(d, info, room->word);
    break;
  case LS_ATTR_DTYPE:
    out->as.dtype = draw_dtype(d);
    break;
  case LS_ATTR_SHAPE:
    out->as.shape = draw_shape(d);
    break;
  case LS_ATTR_INTS:
    for (size_t i = 0; i < count; ++i)
      room->numbers[i] = draw_number(d, info);
    out->as.ints.items = room->numbers;
    out->as.ints.count = count;
    break;
  case LS_ATTR_SIZES:
    for (size_t i = 0; i < count; ++i)
      room->sizes[i] = draw_once_in(d, 8)
                           ? (ls_size){(int32_t)draw(d, 3), draw(d, 4)}
                           : (ls_size){LS_SIZE_CONSTANT, (int64_t)draw(d, 5)};
    out->as.sizes.items = room->sizes;
    out->as.sizes.count = count;
    break;
  case LS_ATTR_ARRAY:
    out->as.array = array;
    break;
  default:
    return false;
  }
  return true;
}

static void draw_value(drawing *d, ls_tensor value) {
  if (value.ref == 0) return;
  const size_t at =
      d->num_values < DRAWN_VALUES ? d->num_values++ : draw(d, DRAWN_VALUES);
  d->values[at] = value;
}

static void draw_source(drawing *d) {
  ls_array *array = NULL;
  ls_dtype dtype = draw_dtype(d);
  ls_shape shape = draw_once_in(d, 3) ? draw_shape(d) : d->usual;
  if (shape.rank > 0 && draw_once_in(d, 4)) --shape.rank;
  // Text has no constants of these.
  if (dtype == LS_DTYPE_RESOURCE || dtype == LS_DTYPE_VARIANT)
    dtype = LS_DTYPE_F32;
  ls_shape unknown = shape;
  if (shape.rank > 0 && draw_once_in(d, 4))
    unknown.dim[draw(d, (uint32_t)shape.rank)] = LS_UNKNOWN_DIM;
  if (draw_once_in(d, 3)) {
    draw_value(d, ls_placeholder(dtype, unknown, NULL));
    return;
  }
  const ls_status status = ls_array_create(dtype, shape, &array);
  ls_status_free(status);
  if (array == NULL) return;
  draw_value(d, ls_constant(array));
  ls_array_release(array);
}

// Of the first operand's type, if it is not the first and there is one.
static ls_tensor draw_operand(drawing *d, ls_tensor first) {
  if (d->num_values == 0) return ls_failed_tensor();
  const uint32_t from = draw(d, DRAWN_VALUES);
  const bool any = first.ref == 0 || draw_once_in(d, 4);
  for (size_t i = 0; i < d->num_values; ++i) {
    const ls_tensor value = d->values[(from + i) % d->num_values];
    if (any || (ls_tensor_dtype(value) == ls_tensor_dtype(first) &&
                ls_shape_equal(ls_tensor_shape(value), ls_tensor_shape(first))))
      return value;
  }
  return first;
}

static void draw_op(drawing *d) {
  const uint16_t type = (uint16_t)(1 + draw(d, LS_OP_COUNT - 1));
  const ls_op_info *info = &ls_op_table[type];
  drawn_attr rooms[32];
  ls_attr attrs[32];
  ls_tensor inputs[DRAWN_OPERANDS];
  ls_array *array = NULL;
  ls_status_free(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  const uint32_t rank = (uint32_t)d->usual.rank;
  d->list = draw(d, 3) == 0               ? draw(d, 4)
            : draw(d, 2) == 0 || rank < 3 ? rank
                                          : rank - 2;
  size_t num_attrs = 0;
  const uint16_t met[] = {LS_OP_NONE, LS_OP_ALL_REDUCE, LS_OP_ALL_GATHER,
                          LS_OP_ALL_TO_ALL};
  const uint16_t more = type == LS_OP_MEETING ? met[draw(d, 4)] : LS_OP_NONE;
  for (uint32_t i = 0; i < info->num_attrs + ls_op_table[more].num_attrs; ++i) {
    const ls_attr_rule *rule =
        i < info->num_attrs ? &info->attrs[i]
                            : &ls_op_table[more].attrs[i - info->num_attrs];
    if (rule->needed ? draw_once_in(d, 32) : draw(d, 2) == 0) continue;
    if (draw_attr(d, rule->id, array, &rooms[num_attrs], &attrs[num_attrs]))
      ++num_attrs;
  }
  const size_t least = ls_op_least(info), most = ls_op_most(info);
  size_t count = least;
  if (most > least)
    count += draw(d, most - least < 4 ? (uint32_t)(most - least) + 1 : 5);
  if (draw_once_in(d, 32)) count = draw(d, DRAWN_OPERANDS + 1);
  for (size_t i = 0; i < count; ++i)
    inputs[i] = draw_operand(d, i == 0 ? ls_failed_tensor() : inputs[0]);
  const ls_op op = ls_op_add(&(ls_op_spec){.type = type,
                                           .inputs = inputs,
                                           .num_inputs = count,
                                           .attrs = attrs,
                                           .num_attrs = num_attrs});
  ls_array_release(array);
  for (size_t i = 0; i < ls_op_num_outputs(op) && i < 4; ++i)
    draw_value(d, ls_op_output(op, (unsigned)i));
}

// What is refused leaves nothing.
static void draw_graph(ls_graph *graph, const uint8_t *bytes, size_t size) {
  drawing d = {.bytes = bytes, .left = size};
  d.usual = draw_shape(&d);
  LS_GRAPH_SCOPE(graph);
  for (int i = 0; i < 6; ++i)
    draw_source(&d);
  for (int i = 0; i < DRAWN_OPS && d.left > 0; ++i) {
    draw_op(&d);
    ls_status_free(ls_graph_take_error(graph));
  }
}

#endif  // LS_FUZZ_DRAWN_GRAPH_H_

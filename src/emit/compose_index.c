// SPDX-License-Identifier: Apache-2.0
//
// Emits parts at positions that are values, updates by index, orders and scans.
//
// Scans take log2(size) steps, of which step k adds what is 2^k elements away;
// sums and products that overflow on the way give infinities and NaN, where the
// CPU engine, which goes element by element, may have numbers.
#include "emit/emit.h"

ls_emitted ls_emit_clamp_index(ls_emitter *e, ls_emitted at, int64_t last) {
  if (ls_dtype_at(e, at) == LS_DTYPE_U64)
    at = ls_emit_2(e, LS_OP_MINIMUM, at, ls_emit_number(e, at, (double)last));
  if (ls_dtype_at(e, at) != LS_DTYPE_I32 || last > INT32_MAX)
    at = ls_emit_convert(e, at, LS_DTYPE_I64);
  at = ls_emit_2(e, LS_OP_MINIMUM, at, ls_emit_number(e, at, (double)last));
  return ls_emit_2(e, LS_OP_MAXIMUM, at, ls_emit_number(e, at, 0));
}

static int64_t size_from(ls_emitter *e, ls_batch_dims dims, int32_t begin,
                         int32_t end) {
  int64_t size = 1;
  for (int32_t i = begin; i < end; ++i)
    size *= ls_emit_size(e, dims.dim[i]);
  return size;
}

static ls_batch_dims dims_of(int32_t rank, int64_t first, int64_t second) {
  return (ls_batch_dims){.rank = rank,
                         .dim = {ls_dim_of(first), ls_dim_of(second)}};
}

// ---- Parts -----------------------------------------------------------------
// Reads starts of a part, the operands from number `first` on, as i64.
static void read_starts(ls_emitter *e, uint32_t first, ls_batch_dims full,
                        ls_batch_dims part, ls_emitted *out) {
  for (int32_t i = 0; i < full.rank; ++i) {
    const int64_t last =
        ls_emit_size(e, full.dim[i]) - ls_emit_size(e, part.dim[i]);
    const ls_emitted at = ls_operand(e, first + (uint32_t)i);
    out[i] = ls_emit_convert(e, ls_emit_clamp_index(e, at, last), LS_DTYPE_I64);
  }
}

static ls_emitted dynamic_slice(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const ls_batch_dims dims = ls_result_dims(e);
  ls_emitted starts[LS_MAX_RANK];
  if (dims.rank == 0) return x;
  read_starts(e, 1, ls_batch_dims_at(e, x), dims, starts);
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (ls_emit_is_ok(e)) e->language->dynamic_slice(e, x, starts, out);
  return out;
}

static ls_emitted dynamic_update_slice(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0), part = ls_operand(e, 1);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  ls_emitted starts[LS_MAX_RANK];
  if (dims.rank == 0) return part;
  read_starts(e, 2, dims, ls_batch_dims_at(e, part), starts);
  return ls_emit_dynamic_update(e, x, part, starts);
}

// ---- Updates by index ------------------------------------------------------
ls_emitted ls_emit_is_index(ls_emitter *e, ls_emitted at, int64_t size) {
  return ls_emit_2(
      e, LS_OP_AND,
      ls_emit_2(e, LS_OP_GREATER_EQUAL, at, ls_emit_number(e, at, 0)),
      ls_emit_2(e, LS_OP_LESS, at, ls_emit_number(e, at, (double)size)));
}

// Replaces positions by -1 where the index is out of range.
static ls_emitted skip_outside(ls_emitter *e, ls_emitted at, int64_t size,
                               ls_emitted position) {
  return ls_emit_select(e, ls_emit_is_index(e, at, size), position,
                        ls_emit_number(e, at, -1));
}

// Updates rows of x[rows, width] by updates[picks, width].
static ls_emitted scatter_rows(ls_emitter *e, uint16_t op, ls_emitted x,
                               ls_emitted at, ls_emitted updates) {
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_batch_dims_at(e, x), NULL);
  if (ls_emit_is_ok(e)) e->language->scatter(e, op, x, at, updates, out);
  return out;
}

static uint16_t combine_of(const ls_node *node) {
  static const struct {
    const char *name;
    uint16_t op;
  } rows[] = {{"add", LS_OP_ADD},     {"sub", LS_OP_SUB},
              {"mul", LS_OP_MUL},     {"div", LS_OP_DIV},
              {"min", LS_OP_MINIMUM}, {"max", LS_OP_MAXIMUM}};
  const char *name = ls_node_attr(node, LS_ATTR_ID_COMBINE)->as.string;
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    if (strcmp(name, rows[i].name) == 0) return rows[i].op;
  return LS_OP_NONE;
}

static ls_emitted scatter(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int32_t axis = (int32_t)ls_node_int(e->node, LS_ATTR_ID_AXIS);
  ls_emitted at = ls_emit_convert(e, ls_operand(e, 1), LS_DTYPE_I64);
  const ls_batch_dims indices = ls_batch_dims_at(e, at);
  const int64_t outer = size_from(e, dims, 0, axis);
  const int64_t size = ls_emit_size(e, dims.dim[axis]);
  const int64_t inner = size_from(e, dims, axis + 1, dims.rank);
  const int64_t picks = size_from(e, indices, 0, indices.rank);
  if (outer * size * inner * picks == 0) return x;
  at = ls_emit_reshape(e, at, dims_of(1, picks, 0));
  if (outer > 1) {  // Rows of each outer one are numbered on.
    const ls_emitted first =
        ls_emit_mul(e, ls_emit_iota(e, LS_DTYPE_I64, dims_of(2, outer, 1), 0),
                    ls_emit_number(e, at, (double)size));
    at = skip_outside(e, at, size, ls_emit_add(e, first, at));
    at = ls_emit_reshape(e, at, dims_of(1, outer * picks, 0));
  }
  const ls_emitted rows =
      ls_emit_reshape(e, ls_operand(e, 2), dims_of(2, outer * picks, inner));
  const ls_emitted y = scatter_rows(
      e, combine_of(e->node),
      ls_emit_reshape(e, x, dims_of(2, outer * size, inner)), at, rows);
  return ls_emit_reshape(e, y, dims);
}

// Emits the position in the row order of x of each index along an axis, i64.
static ls_emitted flat_positions(ls_emitter *e, ls_emitted at,
                                 ls_batch_dims dims, int32_t axis) {
  const ls_batch_dims indices = ls_batch_dims_at(e, at);
  ls_emitted flat = 0;
  for (int32_t i = 0; i < dims.rank; ++i) {
    ls_batch_dims line = {.rank = dims.rank};
    for (int32_t k = 0; k < dims.rank; ++k)
      line.dim[k] = k == i ? indices.dim[k] : ls_dim_of(1);
    const ls_emitted index =
        i == axis ? at : ls_emit_iota(e, LS_DTYPE_I64, line, i);
    const ls_emitted part = ls_emit_mul(
        e, index,
        ls_emit_number(e, at, (double)size_from(e, dims, i + 1, dims.rank)));
    flat = flat == 0 ? part : ls_emit_add(e, flat, part);
  }
  return flat;
}

static ls_emitted take_along(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int32_t axis = (int32_t)ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const int64_t size = ls_emit_size(e, dims.dim[axis]);
  if (size_from(e, dims, 0, dims.rank) == 0) return ls_emit_nothing(e);
  const ls_emitted at = ls_emit_convert(
      e, ls_emit_clamp_index(e, ls_operand(e, 1), size - 1), LS_DTYPE_I64);
  return ls_emit_gather(
      e, ls_emit_reshape(e, x, dims_of(1, size_from(e, dims, 0, dims.rank), 0)),
      flat_positions(e, at, dims, axis), 0);
}

static ls_emitted add_along(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int32_t axis = (int32_t)ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const int64_t count = size_from(e, dims, 0, dims.rank);
  ls_emitted at = ls_emit_convert(e, ls_operand(e, 1), LS_DTYPE_I64);
  const ls_batch_dims indices = ls_batch_dims_at(e, at);
  const int64_t picks = size_from(e, indices, 0, indices.rank);
  if (count * picks == 0) return x;
  at = skip_outside(e, at, ls_emit_size(e, dims.dim[axis]),
                    flat_positions(e, at, dims, axis));
  const ls_emitted y =
      scatter_rows(e, LS_OP_ADD, ls_emit_reshape(e, x, dims_of(2, count, 1)),
                   ls_emit_reshape(e, at, dims_of(1, picks, 0)),
                   ls_emit_reshape(e, ls_operand(e, 2), dims_of(2, picks, 1)));
  return ls_emit_reshape(e, y, dims);
}

// ---- Orders ----------------------------------------------------------------
void ls_emit_sort(ls_emitter *e, const ls_emitted *in, size_t count,
                  int64_t axis, bool descending, ls_emitted *out) {
  const ls_emitted like = ls_emit_stacked_of(e, in, count);
  ls_emitted *items = ls_emit_new_list(e, count);
  for (size_t i = 0; items != NULL && i < count; ++i) {
    items[i] = like != 0 ? ls_emit_spread(e, in[i]) : in[i];
    out[i] = ls_emit_value_like(e, like, ls_dtype_at(e, in[i]),
                                ls_batch_dims_at(e, in[i]));
  }
  if (ls_emit_is_ok(e))
    e->language->sort(e, items, count, axis + (like != 0), descending, out);
}

static ls_emitted sort(ls_emitter *e) {
  const uint32_t count = e->node->num_inputs;
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  ls_emitted *in = ls_emit_new_list(e, 2 * (count + 1));
  if (in == NULL) return 0;
  for (uint32_t i = 0; i < count; ++i)
    in[i] = ls_operand(e, i);
  in[count] = ls_emit_iota(e, LS_DTYPE_I64, ls_batch_dims_at(e, in[0]), axis);
  ls_emit_sort(e, in, count + 1, axis,
               ls_node_int(e->node, LS_ATTR_ID_DESCENDING) != 0,
               in + count + 1);
  for (uint32_t i = 0; i <= count; ++i)
    ls_emit_bind(e, ls_ref(e->node->id, i), in[count + 1 + i]);
  return 0;
}

static ls_emitted top_k(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const ls_batch_dims dims = ls_batch_dims_at(e, x), made = ls_result_dims(e);
  const int64_t axis = dims.rank - 1;
  ls_emitted out[2];
  if (e->language->top_k != NULL) {
    out[0] = ls_emit_value(e, ls_dtype_at(e, x), made, NULL);
    out[1] = ls_emit_value(e, LS_DTYPE_I32, made, NULL);
    if (ls_emit_is_ok(e))
      e->language->top_k(e, x, ls_node_int(e->node, LS_ATTR_ID_K), out[0],
                         out[1]);
  } else {
    const ls_emitted at = ls_emit_iota(e, LS_DTYPE_I32, dims, axis);
    ls_emit_sort(e, (const ls_emitted[]){x, at}, 2, axis, true, out);
    for (int i = 0; i < 2; ++i)
      out[i] = ls_emit_slice(e, out[i], NULL, NULL, made);
  }
  ls_emit_bind(e, ls_ref(e->node->id, 1), out[1]);
  return out[0];
}

// ---- Scans -----------------------------------------------------------------
static int64_t axis_size(ls_emitter *e, ls_emitted x) {
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  return ls_emit_size(e, ls_batch_dims_at(e, x).dim[axis]);
}

// Moves elements along the scan's axis by `distance`; `value` follows.
static ls_emitted shifted(ls_emitter *e, ls_emitted x, int64_t distance,
                          double value) {
  static const int64_t interior[LS_MAX_RANK] = {0};
  int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK] = {0};
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const bool backwards = ls_node_int(e->node, LS_ATTR_ID_REVERSE) != 0;
  low[axis] = backwards ? -distance : distance;
  high[axis] = -low[axis];
  return ls_emit_pad(e, x, ls_emit_number(e, x, value), low, high, interior,
                     ls_batch_dims_at(e, x));
}

static ls_emitted scan(ls_emitter *e) {
  const bool sums = e->node->type == LS_OP_CUMSUM;
  const uint16_t op = sums ? LS_OP_ADD : LS_OP_MUL;
  const double first = sums ? 0 : 1;
  ls_emitted y = ls_emit_wide(e, ls_operand(e, 0));
  const int64_t size = axis_size(e, y);
  for (int64_t k = 1; k < size; k *= 2)
    y = ls_emit_2(e, op, shifted(e, y, k, first), y);
  if (ls_node_int(e->node, LS_ATTR_ID_EXCLUSIVE) != 0 && size > 0)
    y = shifted(e, y, 1, first);
  return y;
}

// Emits true where the element at `distance` before is none of the axis.
static ls_emitted is_first(ls_emitter *e, ls_batch_dims dims, int64_t distance,
                           int64_t size) {
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const bool backwards = ls_node_int(e->node, LS_ATTR_ID_REVERSE) != 0;
  for (int64_t i = 0; i < dims.rank; ++i)
    if (i != axis) dims.dim[i] = ls_dim_of(1);
  const ls_emitted at = ls_emit_iota(e, LS_DTYPE_I64, dims, axis);
  return ls_emit_2(
      e, backwards ? LS_OP_GREATER_EQUAL : LS_OP_LESS, at,
      ls_emit_number(e, at, (double)(backwards ? size - distance : distance)));
}

// Computes h = a h + b: after a step, h is a h' + b with the h' of 2^k elements
// before. Where there is none, b stays: a may be infinite.
static ls_emitted linear_scan(ls_emitter *e) {
  ls_emitted a = ls_emit_wide(e, ls_operand(e, 0));
  ls_emitted b = ls_emit_wide(e, ls_operand(e, 1));
  const int64_t size = axis_size(e, a);
  for (int64_t k = 1; k < size; k *= 2) {
    const ls_emitted next =
        ls_emit_add(e, ls_emit_mul(e, a, shifted(e, b, k, 0)), b);
    b = ls_emit_select(e, is_first(e, ls_batch_dims_at(e, a), k, size), b,
                       next);
    a = ls_emit_mul(e, a, shifted(e, a, k, 1));
  }
  return b;
}

static const ls_emit_rule rules[] = {{LS_OP_TAKE_ALONG, take_along, true},
                                     {LS_OP_CUMSUM, scan, true},
                                     {LS_OP_CUMPROD, scan, true},
                                     {LS_OP_LINEAR_SCAN, linear_scan, true},
                                     {LS_OP_TOP_K, top_k, true}};
const ls_emit_rules ls_emit_index_rules = {rules, LS_COUNT_OF(rules)};

static const ls_emit_rule order_rules[] = {
    {LS_OP_SORT, sort, true},
    {LS_OP_SCATTER, scatter, false},
    {LS_OP_ADD_ALONG, add_along, false},
    {LS_OP_DYNAMIC_SLICE, dynamic_slice, false},
    {LS_OP_DYNAMIC_UPDATE_SLICE, dynamic_update_slice, false}};
const ls_emit_rules ls_emit_order_rules = {order_rules,
                                           LS_COUNT_OF(order_rules)};

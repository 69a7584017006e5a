// SPDX-License-Identifier: Apache-2.0
//
// Makers of StableHLO's lookups, updates at positions and sorts.
#include <math.h>

#include "onnx/hlo.h"

// ---- Slices at positions ---------------------------------------------------
// A gather or a scatter. A position has a number for each of the operand's
// dimensions `axes`; a slice has a window of these, and all of the others.
typedef struct lookup {
  bool is_scatter;
  ls_shape shape, list, slices;  // Operand, positions, result or updates.
  int64_t axes[LS_MAX_RANK], dropped[LS_MAX_RANK], windows[LS_MAX_RANK];
  int depth, num_dropped, num_windows, vector;
} lookup;

// Reads different dimensions below `end`; returns -1 for others.
static int read_different(ls_onnx_build *b, const char *name, int end,
                          int64_t *out) {
  if (ls_onnx_attr_find(b->node, name) == NULL) return 0;
  const int count = ls_hlo_ints(b, name, out, LS_MAX_RANK);
  for (int i = 0; i < count; ++i)
    if (out[i] < 0 || out[i] >= end || ls_hlo_has(out, i, (int)out[i]))
      return -1;
  return count;
}

// Returns the dimension of the slices that is one of the operand's, or a window
// of it; -1: the window is one element, and dropped.
static int slice_dim(const lookup *l, int dim) {
  int before = 0;
  for (int i = 0; i < l->num_dropped; ++i)
    before += l->dropped[i] < dim;
  return ls_hlo_has(l->dropped, l->num_dropped, dim)
             ? -1
             : (int)l->windows[dim - before];
}

static bool read_lookup(ls_onnx_build *b, lookup *l) {
  static const char *const names[2][3] = {
      {"start_index_map", "collapsed_slice_dims", "offset_dims"},
      {"scatter_dims_to_operand_dims", "inserted_window_dims",
       "update_window_dims"}};
  const char *const *name = names[l->is_scatter];
  l->shape = ls_hlo_in_shape(b, 0);
  l->list = ls_hlo_in_shape(b, 1);
  l->slices =
      l->is_scatter ? ls_hlo_in_shape(b, 2) : ls_hlo_result_type(b).shape;
  const int64_t vector = ls_onnx_attr_int(b, "index_vector_dim", 0);
  l->depth = read_different(b, name[0], l->shape.rank, l->axes);
  l->num_dropped = read_different(b, name[1], l->shape.rank, l->dropped);
  l->num_windows = read_different(b, name[2], l->slices.rank, l->windows);
  bool fits = l->depth > 0 && l->num_dropped >= 0 && l->num_windows >= 0 &&
              l->num_dropped + l->num_windows == l->shape.rank && vector >= 0 &&
              (vector == l->list.rank - 1 || vector == l->list.rank) &&
              (vector < l->list.rank ? l->list.dim[vector] : 1) == l->depth &&
              l->slices.rank == l->num_windows + vector;
  for (int d = 0; fits && d < l->shape.rank; ++d) {
    const int64_t size =
        slice_dim(l, d) < 0 ? 1 : l->slices.dim[slice_dim(l, d)];
    fits = size == l->shape.dim[d] ||
           (size < l->shape.dim[d] && ls_hlo_has(l->axes, l->depth, d));
  }
  l->vector = (int)vector;
  if (!fits)
    LS_ONNX_REFUSE(b, "other than slices at positions, whole along other "
                      "axes");
  return fits;
}

// Returns the positions along `axes`, as if they were one, of each element of
// the windows: [positions..., windows...]. A window beyond the end is moved
// back by a gather; a scatter skips it, at -1.
static ls_tensor make_positions(ls_onnx_build *b, const lookup *l) {
  const ls_tensor list = ls_convert(ls_hlo_whole(b, 1), LS_DTYPE_I64),
                  least = ls_scalar_i64(LS_DTYPE_I64, 0);
  ls_shape one = l->list, from = one, to = one, by = one, wide = one;
  ls_tensor sum = {0}, inside = {0};
  int64_t stride = 1;
  const int batch = ls_hlo_batch_of(b, 1);
  one.rank = l->vector;
  for (int i = 0; i < LS_MAX_RANK; ++i) {
    from.dim[i] = 0;
    by.dim[i] = wide.dim[i] = 1;
  }
  if (batch >= 0) to.dim[batch] = -1;
  for (int k = 0; k < l->depth; ++k)
    if (slice_dim(l, (int)l->axes[k]) >= 0) one.dim[one.rank++] = 1;
  wide.rank = one.rank;
  for (int k = l->depth, window = one.rank; k-- > 0;) {
    const int axis = (int)l->axes[k], dim = slice_dim(l, axis);
    const int64_t size = dim < 0 ? 1 : l->slices.dim[dim];
    const ls_tensor most =
        ls_scalar_i64(LS_DTYPE_I64, l->shape.dim[axis] - size);
    from.dim[l->vector] = k;
    to.dim[l->vector] = k + 1;
    ls_tensor at = l->depth > 1 ? ls_slice(list, from, to, by) : list;
    at = ls_hlo_reshape(at, one, batch);
    if (l->is_scatter) {
      const ls_tensor fits =
          ls_and(ls_greater_equal(at, least), ls_less_equal(at, most));
      inside = inside.ref != 0 ? ls_and(inside, fits) : fits;
    } else if (l->depth > 1 || size > 1) {  // ls_gather does so for one.
      at = ls_minimum(ls_maximum(at, least), most);
    }
    if (dim >= 0) {
      wide.dim[--window] = size;
      at = ls_add(at, ls_iota(LS_DTYPE_I64, wide, window));
      wide.dim[window] = 1;
    }
    if (stride > 1) at = ls_mul(at, ls_scalar_i64(LS_DTYPE_I64, stride));
    sum = sum.ref != 0 ? ls_add(sum, at) : at;
    stride *= l->shape.dim[axis];
  }
  return l->is_scatter ? ls_select(inside, sum, ls_scalar_i64(LS_DTYPE_I64, -1))
                       : sum;
}

// Gathers or scatters along `axes`, which come first and are one dimension.
static void make_lookup(ls_onnx_build *b, const lookup *l, ls_scatter_op op) {
  const int rank = l->shape.rank, depth = l->depth;
  const int listed = ls_hlo_batch_of(b, 1),
            from = l->is_scatter ? ls_hlo_batch_of(b, 2) : -1;
  int order[LS_MAX_RANK], back[LS_MAX_RANK], of[LS_MAX_RANK], into[LS_MAX_RANK];
  int own = ls_hlo_batch_of(b, 0), rest = depth, count = 0;
  ls_shape moved = {.rank = rank}, one = {.rank = rank - depth + 1, .dim = {1}};
  for (int d = 0; d < rank; ++d) {
    if (!ls_hlo_has(l->axes, depth, d)) order[rest++] = d;
    if (own < 0 && from >= 0 && slice_dim(l, d) == from) own = d;
  }
  // Dimensions of the slices: positions, windows, whole ones.
  for (int i = 0; i < l->slices.rank; ++i)
    if (!ls_hlo_has(l->windows, l->num_windows, i)) of[count++] = i;
  for (int i = 0; i < rank; ++i) {
    if (i < depth) order[i] = (int)l->axes[i];
    back[order[i]] = i;
    moved.dim[i] = order[i] == own ? -1 : l->shape.dim[order[i]];
    one.dim[i < depth ? 0 : i - depth + 1] =
        i < depth ? one.dim[0] * moved.dim[i] : moved.dim[i];
    if (slice_dim(l, order[i]) >= 0) of[count++] = slice_dim(l, order[i]);
  }
  for (int i = 0; i < count; ++i)
    into[of[i]] = i;
  const int to = own >= 0 ? slice_dim(l, own) : listed >= 0 ? of[listed] : -1;
  if (listed == l->vector ||
      (own >= 0 && (listed >= 0 || ls_hlo_has(l->axes, depth, own))) ||
      (l->is_scatter && (listed >= 0 || (from >= 0 && from != to))))
    ls_hlo_refuse_batch(b, "positions in the batch");
  if (!ls_status_is_ok(b->status)) return;
  ls_tensor x = ls_hlo_transpose(ls_hlo_batched(b, 0, own), order, rank);
  if (depth > 1) x = ls_reshape(x, one);
  const ls_tensor positions = make_positions(b, l);
  if (!l->is_scatter) {
    x = ls_hlo_transpose(ls_gather(x, positions, 0), into, count);
    ls_hlo_give(b, 0, x, to);
    return;
  }
  x = ls_scatter(op, x, positions,
                 ls_hlo_transpose(ls_hlo_batched(b, 2, to), of, count));
  if (depth > 1) x = ls_reshape(x, moved);
  ls_hlo_give(b, 0, ls_hlo_transpose(x, back, rank), own);
}

void ls_hlo_make_gather(ls_onnx_build *b) {
  lookup l = {.is_scatter = false};
  if (read_lookup(b, &l)) make_lookup(b, &l, LS_SCATTER_UPDATE);
}

void ls_hlo_make_scatter(ls_onnx_build *b) {
  static const char *const regions[] = {
      [LS_SCATTER_UPDATE] = "",      [LS_SCATTER_ADD] = "add",
      [LS_SCATTER_SUB] = "subtract", [LS_SCATTER_MUL] = "multiply",
      [LS_SCATTER_DIV] = "divide",   [LS_SCATTER_MIN] = "minimum",
      [LS_SCATTER_MAX] = "maximum"};
  const char *region = ls_onnx_attr_text(b, "region", "?");
  lookup l = {.is_scatter = true};
  for (int op = LS_SCATTER_UPDATE; op <= LS_SCATTER_MAX; ++op)
    if (strcmp(regions[op], region) == 0) {
      if (read_lookup(b, &l)) make_lookup(b, &l, (ls_scatter_op)op);
      return;
    }
  LS_ONNX_REFUSE(b, "updates by '%s'", region);
}

// ---- Sorts -----------------------------------------------------------------
enum { MOST_SORTED = 16 };

static bool has_direction(const ls_onnx_file *file, const ls_onnx_node *node,
                          const char *way) {
  const ls_onnx_build b = {.file = file, .node = node};
  return node != NULL && strcmp(ls_onnx_attr_text(&b, "word", ""), way) == 0;
}

// Returns the item of which a sort's region makes `value` as JAX does, with -0
// as 0 and one NaN for all: select(item != item, NaN, select(item == 0, 0,
// item)); or the value itself.
static uint32_t find_item(const ls_onnx_file *file, size_t first,
                          uint32_t value, int steps) {
  const ls_onnx_node *choice = ls_hlo_maker(file, first, value, "select");
  if (choice == NULL || steps == 0) return value;
  const uint32_t *from = choice->inputs;
  const ls_onnx_node *test = ls_hlo_maker(file, first, from[0], "compare");
  const uint32_t item = find_item(file, first, from[2], steps - 1);
  const char *way = steps == 2 ? "NE" : "EQ";
  double x = 1, y = NAN;
  if (!has_direction(file, test, way) || test->inputs[0] != item ||
      !ls_hlo_number(file, from[1], &x))
    return value;
  return (steps == 2
              ? isnan(x) && test->inputs[1] == item && item != from[2]
              : x == 0 && ls_hlo_number(file, test->inputs[1], &y) && y == 0)
             ? item
             : value;
}

// Returns the comparison of a region that puts NaN after all numbers, as those
// of exports do: a < b, or b is NaN and a is not; or the value itself.
static uint32_t find_comparison(const ls_onnx_file *file, size_t first,
                                uint32_t value) {
  const ls_onnx_node *of[3] = {ls_hlo_maker(file, first, value, "or")}, *both;
  if (of[0] == NULL) return value;
  const uint32_t compared = of[0]->inputs[0];
  both = ls_hlo_maker(file, first, of[0]->inputs[1], "and");
  of[0] = ls_hlo_maker(file, first, compared, "compare");
  for (int i = 0; i < 2 && both != NULL; ++i)
    of[i + 1] = ls_hlo_maker(file, first, both->inputs[i], "compare");
  if (of[0] == NULL || !has_direction(file, of[1], "NE") ||
      !has_direction(file, of[2], "EQ"))
    return value;
  const bool is_less = has_direction(file, of[0], "LT");
  for (int i = 0; i < 2; ++i)
    if (of[1]->inputs[i] != of[0]->inputs[is_less] ||
        of[2]->inputs[i] != of[0]->inputs[!is_less])
      return value;
  return compared;
}

int64_t ls_hlo_order(const ls_onnx_file *file, size_t first, uint32_t items,
                     size_t count, uint32_t result) {
  const ls_onnx_node *node = ls_hlo_maker(
      file, first, find_comparison(file, first, result), "compare");
  const bool is_less = has_direction(file, node, "LT");
  if (!is_less && !has_direction(file, node, "GT")) return -1;
  const uint32_t *from = node->inputs;
  const uint32_t a = find_item(file, first, from[0], 2),
                 b = find_item(file, first, from[1], 2);
  const bool is_total = ls_onnx_attr_find(node, "total") != NULL;
  if (a < items || b != a + 1 || (a - items) % 2 != 0 ||
      (a - items) / 2 >= count || (a != from[0]) != (b != from[1]) ||
      (is_total && a == from[0]))
    return -1;
  return (int64_t)(a - items) + !is_less;
}

void ls_hlo_make_sort(ls_onnx_build *b) {
  const unsigned count = (unsigned)b->node->num_inputs;
  const int batch = ls_hlo_element_batch(b);
  const int64_t order = ls_onnx_attr_int(b, "order", -1);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "dim", -1),
                                ls_hlo_in_shape(b, 0).rank);
  ls_tensor items[MOST_SORTED];
  unsigned places[MOST_SORTED] = {0};
  if (order < 0 || count > MOST_SORTED || b->node->num_outputs != count)
    LS_ONNX_REFUSE(b,
                   "a sort by other than one of its operands, smallest or "
                   "largest first, or of more than %d",
                   MOST_SORTED);
  if (batch >= 0 && axis == batch) ls_hlo_refuse_batch(b, "a sorted batch");
  if (!ls_status_is_ok(b->status)) return;
  // The operand by which it sorts comes first, before those in front of it.
  for (unsigned i = 0; i < count; ++i) {
    places[i] = i == order / 2 ? 0 : i + (i < order / 2);
    items[places[i]] = ls_hlo_batched(b, i, batch);
  }
  const ls_op op = ls_sort_by(items, count, axis, order % 2 == 1);
  for (unsigned i = 0; i < count; ++i)
    ls_hlo_give(b, i, ls_op_output(op, places[i]), batch);
}

void ls_hlo_make_top_k(ls_onnx_build *b) {
  const int last = ls_hlo_in_shape(b, 0).rank - 1,
            batch = ls_hlo_batch_of(b, 0);
  if (last < 0 || b->node->num_outputs != 2)
    ls_onnx_fail(b, ls_invalid_argument("other than values and their places"));
  if (batch >= 0 && batch == last) ls_hlo_refuse_batch(b, "a sorted batch");
  if (!ls_status_is_ok(b->status)) return;
  const ls_tensor x = ls_hlo_widened(b, 0, 1u << last);
  const ls_op op = ls_top_k(x, ls_onnx_attr_int(b, "k", 0));
  for (unsigned i = 0; i < 2; ++i)
    ls_hlo_give(b, i, ls_op_output(op, i), batch);
}

// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of ops that take parts, join, look up, scan and order:
// against finite differences, and with sizes that are not known while building
// against known ones.
#include <string.h>

#include "lockstep/function.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"

static ls_tensor integers(const int64_t *data, ls_shape shape) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, shape, data, &array));
  return ls_constant(array);
}
#define INTEGERS(shape, ...) integers((const int64_t[]){__VA_ARGS__}, shape)

static ls_tensor scalar(int64_t value) {
  return ls_scalar_i64(LS_DTYPE_I64, value);
}

// ---- The cases -------------------------------------------------------------
CODE(slice, return ls_square(ls_slice(xs[0], LS_SHAPE(0, 1, 1),
                                      LS_SHAPE(2, 3, -1), LS_SHAPE(1, 1, 2)));)
CODE(slice_axis, return ls_square(ls_slice_axis(xs[0], -1, 1, 3));)
CODE(dynamic_slice, const ls_tensor starts[] = {scalar(1), scalar(9)};
     return ls_square(ls_dynamic_slice(xs[0], starts, LS_SHAPE(2, 2)));)
CODE(dynamic_update_slice, const ls_tensor starts[] = {scalar(-3), scalar(1)};
     return ls_square(ls_dynamic_update_slice(xs[0], xs[1], starts));)
CODE(pad, return ls_square(ls_pad(xs[0], xs[1], LS_SHAPE(1, -1), LS_SHAPE(2, 2),
                                  LS_SHAPE(0, 1)));)
CODE(pad_that_cuts, return ls_square(ls_pad(xs[0], xs[1], LS_SHAPE(-1, 0),
                                            LS_SHAPE(-1, -2), LS_SCALAR));)
CODE(concatenate, const ls_tensor all[] = {xs[0], xs[1], xs[0]};
     return ls_square(ls_concatenate(all, 3, -1));)
CODE(split_like, const ls_tensor likes[] = {xs[1], xs[2]};
     const ls_op pieces = ls_split_like(xs[0], likes, 2, 1);
     return ls_mul(ls_square(ls_op_output(pieces, 1)), xs[2]);)
CODE(reverse, return ls_mul(ls_reverse(xs[0], LS_AXES(0, -1)), xs[0]);)
CODE(gather_rows, return ls_square(ls_gather(
                      xs[0], INTEGERS(LS_SHAPE(2, 3), 2, 0, 2, 9, 1, -4), 0));)
CODE(gather_twice,
     return ls_mul(ls_gather(xs[0], INTEGERS(LS_SHAPE(3), 2, 0, 2), 0),
                   ls_gather(xs[0], INTEGERS(LS_SHAPE(3), 1, 2, 2), 0));)
CODE(indexed_slices,
     return ls_square(ls_indexed_slices(INTEGERS(LS_SHAPE(4), 1, 7, 1, -1),
                                        xs[0], xs[1]));)
CODE(gather_columns,
     return ls_square(ls_gather(xs[0], INTEGERS(LS_SHAPE(3), 2, 0, 2), 1));)
CODE(gather_one, return ls_square(ls_gather(xs[0], scalar(1), -1));)
CODE(scatter_add,
     return ls_square(ls_scatter(LS_SCATTER_ADD, xs[0],
                                 INTEGERS(LS_SHAPE(4), 1, 7, 1, -1), xs[1]));)
CODE(scatter_sub,
     return ls_square(ls_scatter(LS_SCATTER_SUB, xs[0],
                                 INTEGERS(LS_SHAPE(4), 1, 2, 1, 0), xs[1]));)
CODE(scatter_update,
     return ls_square(ls_scatter(LS_SCATTER_UPDATE, xs[0],
                                 INTEGERS(LS_SHAPE(4), 1, 0, 1, 5), xs[1]));)
CODE(scatter_in_columns,
     return ls_square(ls_scatter_axis(LS_SCATTER_UPDATE, xs[0],
                                      INTEGERS(LS_SHAPE(2, 2), 1, 0, 1, 2),
                                      xs[1], 1));)
CODE(take_along, return ls_square(ls_take_along(
                     xs[0], INTEGERS(LS_SHAPE(3, 2), 0, 1, 0, 3, -1, 1), 1));)
CODE(add_along,
     return ls_square(ls_add_along(xs[0],
                                   INTEGERS(LS_SHAPE(3, 2), 0, 1, 2, 3, -1, 1),
                                   xs[1], 1));)
// All indices of an axis without elements are out of range.
CODE(skipped_updates, const ls_tensor at = INTEGERS(LS_SHAPE(2), 0, -1);
     const ls_tensor y = ls_scatter(LS_SCATTER_UPDATE, xs[0], at, xs[1]);
     return ls_scatter(LS_SCATTER_SUB, y, at, ls_square(xs[1]));)
CODE(skipped_along,
     return ls_add_along(xs[0],
                         INTEGERS(LS_SHAPE(2, 4), 0, 1, 2, 3, 0, 0, 0, 0),
                         xs[1], 0);)
CODE(cumsum, return ls_square(ls_cumsum(xs[0], 1, false, false));)
CODE(cumsum_back, return ls_square(ls_cumsum(xs[0], 0, true, true));)
CODE(cumprod, return ls_square(ls_cumprod(xs[0], 1, false, false));)
CODE(cumprod_back, return ls_square(ls_cumprod(xs[0], 1, false, true));)
CODE(cumprod_exclusive, return ls_square(ls_cumprod(xs[0], -1, true, false));)
CODE(cumprod_exclusive_back,
     return ls_square(ls_cumprod(xs[0], 0, true, true));)
CODE(linear_scan, return ls_square(ls_linear_scan(xs[0], xs[1], 1, false));)
CODE(linear_scan_back, return ls_square(ls_linear_scan(xs[0], xs[1], 0, true));)
CODE(sort, return ls_mul(ls_square(ls_sort(xs[0], 1, false)), xs[1]);)
CODE(sort_columns, return ls_mul(ls_square(ls_sort(xs[0], 0, true)), xs[1]);)
CODE(sort_by, const ls_op sorted = ls_sort_by(xs, 2, -1, true);
     return ls_mul(ls_op_output(sorted, 0),
                   ls_square(ls_op_output(sorted, 1)));)
CODE(top_k, return ls_mul(ls_square(ls_op_output(ls_top_k(xs[0], 2), 0)),
                          ls_slice_axis(xs[1], 1, 0, 2));)
CODE(clamp, return ls_square(ls_clamp(xs[0], xs[1], xs[2]));)
CODE(clamp_by_elements, return ls_square(ls_clamp(xs[0], xs[1], xs[2]));)

#define ONE(...) {LS_SHAPE(__VA_ARGS__)}, .count = 1
#define TWO(...) {__VA_ARGS__}, .count = 2
#define THREE(...) {__VA_ARGS__}, .count = 3

static const gradient_case rows[] = {
    {"slice", make_slice, .shapes = ONE(2, 3, 4)},
    {"slice of one axis", make_slice_axis, .shapes = ONE(2, 4)},
    {"dynamic_slice", make_dynamic_slice, .shapes = ONE(3, 4)},
    {"dynamic_update_slice", make_dynamic_update_slice,
     .shapes = TWO(LS_SHAPE(3, 4), LS_SHAPE(2, 2))},
    {"pad", make_pad, .shapes = TWO(LS_SHAPE(2, 3), LS_SCALAR)},
    {"pad that cuts", make_pad_that_cuts,
     .shapes = TWO(LS_SHAPE(3, 3), LS_SCALAR)},
    {"concatenate", make_concatenate,
     .shapes = TWO(LS_SHAPE(2, 3), LS_SHAPE(2, 1))},
    {"split_like", make_split_like,
     .shapes = THREE(LS_SHAPE(2, 5), LS_SHAPE(2, 2), LS_SHAPE(2, 3))},
    {"reverse", make_reverse, .shapes = ONE(2, 3, 2)},
    {"gather of rows", make_gather_rows, .shapes = ONE(3, 2)},
    {"two gathers of rows", make_gather_twice, .shapes = ONE(3, 2)},
    {"indexed_slices", make_indexed_slices,
     .shapes = TWO(LS_SHAPE(4, 2), LS_SHAPE(3, 2))},
    {"gather of columns", make_gather_columns, .shapes = ONE(2, 3, 2)},
    {"gather of one", make_gather_one, .shapes = ONE(2, 3)},
    {"scatter add", make_scatter_add,
     .shapes = TWO(LS_SHAPE(3, 2), LS_SHAPE(4, 2))},
    {"scatter sub", make_scatter_sub, .shapes = TWO(LS_SHAPE(3), LS_SHAPE(4))},
    {"scatter update", make_scatter_update,
     .shapes = TWO(LS_SHAPE(3, 2), LS_SHAPE(4, 2))},
    {"scatter in columns", make_scatter_in_columns,
     .shapes = TWO(LS_SHAPE(2, 3, 2), LS_SHAPE(2, 2, 2, 2))},
    {"take_along", make_take_along, .shapes = ONE(3, 3)},
    {"add_along", make_add_along,
     .shapes = TWO(LS_SHAPE(3, 3), LS_SHAPE(3, 2))},
    {"cumsum", make_cumsum, .shapes = ONE(2, 4)},
    {"cumsum from the end", make_cumsum_back, .shapes = ONE(4, 2)},
    {"cumprod", make_cumprod, .shapes = ONE(2, 4)},
    {"cumprod from the end", make_cumprod_back, .shapes = ONE(2, 4)},
    {"cumprod, exclusive", make_cumprod_exclusive, .shapes = ONE(2, 4)},
    {"cumprod, exclusive, from the end", make_cumprod_exclusive_back,
     .shapes = ONE(4, 2)},
    {"linear_scan", make_linear_scan,
     .shapes = TWO(LS_SHAPE(2, 4), LS_SHAPE(2, 4))},
    {"linear_scan from the end", make_linear_scan_back,
     .shapes = TWO(LS_SHAPE(4, 2), LS_SHAPE(4, 2))},
    {"sort", make_sort, .shapes = TWO(LS_SHAPE(2, 4), LS_SHAPE(2, 4))},
    {"sort of columns", make_sort_columns,
     .shapes = TWO(LS_SHAPE(4, 2), LS_SHAPE(4, 2))},
    {"sort of two", make_sort_by,
     .shapes = TWO(LS_SHAPE(2, 4), LS_SHAPE(2, 4))},
    {"top_k", make_top_k, .shapes = TWO(LS_SHAPE(2, 4), LS_SHAPE(2, 4))},
    {"clamp", make_clamp,
     .shapes = THREE(LS_SCALAR, LS_SHAPE(3, 4), LS_SCALAR)},
    {"clamp by elements", make_clamp_by_elements,
     .shapes = THREE(LS_SHAPE(3, 4), LS_SHAPE(3, 4), LS_SHAPE(3, 4))},
};

TEST(rules_agree_with_differences) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

TEST(updates_that_are_skipped_have_a_gradient_of_0) {
  static const gradient_case skipped[] = {
      {"updates of no rows", make_skipped_updates,
       .shapes = TWO(LS_SHAPE(0, 4), LS_SHAPE(2, 4))},
      {"add_along of no rows", make_skipped_along,
       .shapes = TWO(LS_SHAPE(0, 4), LS_SHAPE(2, 4))},
  };
  for (size_t i = 0; i < LS_COUNT_OF(skipped); ++i)
    expect_gradients(&skipped[i], 2);
}

// ---- Unknown sizes ---------------------------------------------------------
// The first gradients of the case, and those of a function of them.
enum { MOST = 2 * CHECK_MAX_INPUTS };

static void build_gradients(const gradient_case *row, const ls_tensor *xs,
                            ls_nest out[MOST]) {
  const ls_gradient_options zeros = {.unconnected_zero = true};
  ls_nest leaves[CHECK_MAX_INPUTS];
  for (size_t i = 0; i < row->count; ++i)
    leaves[i] = ls_leaf(xs[i]);
  const ls_nest y = ls_leaf(row->function(xs, row->count, row->user));
  expect_ok(ls_gradients(&y, 1, leaves, row->count, &zeros, out));
  ls_nest squares[CHECK_MAX_INPUTS];
  for (size_t i = 0; i < row->count; ++i)
    squares[i] = ls_leaf(ls_square(out[i].as.tensor));
  expect_ok(ls_gradients(squares, row->count, leaves, row->count, &zeros,
                         out + row->count));
}

static ls_array *input_of(ls_shape shape, size_t seed) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i,
                     (double)((i * 7919 + (int64_t)seed * 104729) % 997) / 250 -
                         2);
  return array;
}

// Both kinds of gradients, with all sizes or none known while building.
static ls_nest gradients_of(const gradient_case *row, bool known) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  ls_tensor xs[CHECK_MAX_INPUTS];
  ls_nest grads[MOST], results = ls_none();
  ls_feed feeds[CHECK_MAX_INPUTS];
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    for (size_t i = 0; i < row->count; ++i) {
      ls_shape shape = row->shapes[i];
      for (int32_t d = 0; d < shape.rank && !known; ++d)
        shape.dim[d] = LS_UNKNOWN_DIM;
      xs[i] = ls_placeholder(LS_DTYPE_F64, shape, "x");
    }
    build_gradients(row, xs, grads);
  }
  for (size_t i = 0; i < row->count; ++i)
    feeds[i] = (ls_feed){xs[i], input_of(row->shapes[i], i)};
  LS_OWN(ls_nest, fetches) =
      ls_nest_sequence(LS_KIND_LIST, grads, 2 * row->count);
  expect_ok(ls_session_create(graph, &session));
  expect_ok(ls_session_run(session, fetches, feeds, row->count, &results));
  for (size_t i = 0; i < row->count; ++i)
    ls_array_release((ls_array *)(uintptr_t)feeds[i].value);
  return results;
}

TEST(rules_need_no_sizes_while_building) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN(ls_nest, known) = gradients_of(&rows[i], true);
    LS_OWN(ls_nest, unknown) = gradients_of(&rows[i], false);
    for (size_t k = 0; k < 2 * rows[i].count; ++k) {
      const ls_array *want = ls_nest_as_array(ls_nest_item(known, k));
      const ls_array *got = ls_nest_as_array(ls_nest_item(unknown, k));
      if (ls_array_size(want) != ls_array_size(got) ||
          memcmp(ls_array_data(want), ls_array_data(got),
                 ls_array_size(want)) != 0)
        fail_msg("%s: result %zu differs", rows[i].name, k);
    }
  }
}

// ---- Values at edges -------------------------------------------------------
static ls_tensor product(ls_tensor x) { return ls_cumprod(x, 0, false, false); }
static ls_tensor bounded(ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  return ls_clamp(ls_scalar(dtype, 1), x, ls_scalar(dtype, 2));
}
// The first element a thousand times.
static ls_tensor looked_up(ls_tensor x) {
  return ls_gather(x, ls_fill(LS_DTYPE_I32, LS_SHAPE(1000), 0), 0);
}
static ls_tensor taken(ls_tensor x) {
  return ls_take_along(x, ls_fill(LS_DTYPE_I32, LS_SHAPE(1000), 0), 0);
}
static ls_tensor multiplied(ls_tensor x) {
  return ls_scatter(LS_SCATTER_MUL, x, scalar(0), ls_scalar(LS_DTYPE_F64, 2));
}

TEST(zeros_in_a_product_do_no_harm) {
  const double x[] = {2, 0, 3, 0, 5};
  // Sums of products without the factor: 1 + 0, 2 + 2*3 + 0, 0 ...
  const double want[] = {1, 8, 0, 0, 0};
  expect_gradient_at(product, LS_DTYPE_F64, x, want, 5, 0);
}

TEST(bounds_pass_the_gradient_where_x_lies_on_them) {
  const double x[] = {0.5, 1, 1.5, 2, 2.5}, want[] = {0, 1, 1, 1, 0};
  expect_gradient_at(bounded, LS_DTYPE_F32, x, want, 5, 0);
}

TEST(many_small_terms_are_not_lost_in_16_bits) {
  const double x[] = {1, 1}, want[] = {1000, 0};
  expect_gradient_at(looked_up, LS_DTYPE_BF16, x, want, 2, 0);
  expect_gradient_at(taken, LS_DTYPE_BF16, x, want, 2, 0);
}

TEST(products_of_updates_have_no_gradient) {
  const double x[] = {1, 2};
  LS_OWN(ls_nest, result) = ls_none();
  expect_status(gradient_at(multiplied, LS_DTYPE_F64, x, 2, &result),
                LS_UNIMPLEMENTED,
                "op 'scatter' (scatter by mul) has no gradient");
}

TEST(the_rank_of_a_scatters_indices_is_known_while_building) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(5, 2), "x");
    const ls_tensor at = ls_placeholder(LS_DTYPE_I64, LS_SHAPE_UNKNOWN, "at");
    const ls_tensor u = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(3, 2), "u");
    const ls_nest y = ls_leaf(ls_scatter(LS_SCATTER_ADD, x, at, u));
    const ls_nest xs = ls_leaf(u);
    ls_nest gradient = ls_none();
    expect_status(ls_gradients(&y, 1, &xs, 1, NULL, &gradient),
                  LS_UNIMPLEMENTED,
                  "op 'scatter' (scatter): its gradient needs ranks");
  }
}

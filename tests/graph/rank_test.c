// SPDX-License-Identifier: Apache-2.0
//
// Makers refuse shapes whose rank is unknown or too large, in build graphs and
// eager.
#include "graph/own.h"
#include "lockstep/ops.h"
#include "support/function.h"
#include "support/values.h"

static ls_tensor x(void) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 4, 4, 1), 1);
}

static ls_tensor uniform(ls_shape shape) {
  return ls_random_uniform(LS_DTYPE_F32, shape, 0, 1, NULL);
}

static ls_tensor by_example(ls_shape shape) {
  const ls_random_options options = {.example_ids = ls_scalar(LS_DTYPE_I64, 7)};
  return ls_random_normal(LS_DTYPE_F32, shape, 0, 1, &options);
}

static ls_tensor iota(ls_shape shape) {
  return ls_iota(LS_DTYPE_F32, shape, 0);
}

static ls_tensor fill(ls_shape shape) {
  return ls_fill(LS_DTYPE_F32, shape, 1);
}

static ls_tensor slice(ls_shape shape) {
  return ls_slice(x(), shape, shape, LS_SCALAR);
}

static ls_tensor strides(ls_shape shape) {
  return ls_slice(x(), LS_SHAPE(0, 0, 0, 0), LS_SHAPE(1, 1, 1, 1), shape);
}

static ls_tensor pad(ls_shape shape) {
  return ls_pad(x(), ls_scalar(LS_DTYPE_F32, 0), shape, shape, LS_SCALAR);
}

static ls_tensor pool(ls_shape shape) {
  return ls_max_pool(x(), LS_SHAPE(2, 2),
                     &(ls_window_options){.strides = shape});
}

static ls_tensor pool_padded(ls_shape shape) {
  return ls_max_pool(x(), LS_SHAPE(2, 2),
                     &(ls_window_options){.low = shape, .high = shape});
}

static ls_tensor (*const makers[])(ls_shape shape) = {
    uniform, by_example, iota, fill, slice, strides, pad, pool, pool_padded};

static ls_status failure_of(ls_tensor made, ls_graph *graph) {
  return graph != NULL ? ls_graph_take_error(graph) : ls_tensor_status(made);
}

static void refuse_ranks(ls_graph *graph) {
  static const int32_t ranks[] = {LS_UNKNOWN_RANK, -7, LS_MAX_RANK + 1, 1000};
  for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); ++i)
    for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); ++k)
      expect_status(failure_of(makers[i]((ls_shape){.rank = ranks[k]}), graph),
                    LS_INVALID_ARGUMENT, "");
}

TEST(a_rank_is_known_and_possible) {
  refuse_ranks(NULL);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  refuse_ranks(graph);
}

// SPDX-License-Identifier: Apache-2.0
// Random numbers by example: the same for an example wherever it is dealt to.
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/layers.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

enum { ROWS = 8, WIDTH = 70 };

// ---- Against replicas ------------------------------------------------------
// An example's numbers are those that the replica of that number draws.
typedef struct drawing {
  int distribution;
  ls_dtype dtype;
} drawing;

static ls_tensor draw(const drawing *d, ls_shape shape,
                      const ls_random_options *options) {
  switch (d->distribution) {
  case 0:
    return ls_random_uniform(d->dtype, shape, -1, 3, options);
  case 1:
    return ls_random_normal(d->dtype, shape, 2, 0.5, options);
  default:
    return ls_random_truncated_normal(d->dtype, shape, 2, 0.5, options);
  }
}

static ls_nest draw_by_replica(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(draw(user, LS_SHAPE(WIDTH),
                      &(ls_random_options){.seed = 3, .stream = LS_SOME(5)}));
}

static ls_nest draw_by_example(ls_nest args, void *user) {
  return ls_leaf(
      draw(user, LS_SHAPE(ROWS, WIDTH / 2, 2),
           &(ls_random_options){.seed = 3,
                                .stream = LS_SOME(5),
                                .example_ids = ls_nest_tensor(args, 0)}));
}

static ls_nest ids_of(const int64_t *ids, int64_t count) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(count), ids, &array));
  return ls_nest_array(array);
}

static const int64_t ids[ROWS] = {3, 0, 7, 7, 1, 2, 6, 5};

TEST(an_example_draws_what_its_replica_would) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16};
  LS_OWN(ls_nest, none) = LS_TUPLE(ls_none());
  LS_OWN(ls_nest, args) = LS_TUPLE(ids_of(ids, ROWS));
  for (int kind = 0; kind < 3; ++kind)
    for (size_t t = 0; t < LS_COUNT_OF(dtypes); ++t) {
      drawing d = {kind, dtypes[t]};
      LS_OWN(ls_nest, replicas) = call_on(ROWS, draw_by_replica, &d, none, 2);
      LS_OWN(ls_nest, examples) = call_on(1, draw_by_example, &d, args, 2);
      const char *row = ls_array_data(ls_nest_as_array(examples));
      for (size_t i = 0; i < ROWS; ++i) {
        const ls_array *want = ls_nest_as_array(
            ls_distributed_component(replicas, (size_t)ids[i]));
        assert_memory_equal(row, ls_array_data(want), ls_array_size(want));
        row += ls_array_size(want);
      }
    }
}

// ---- Dropout ---------------------------------------------------------------
static ls_nest drop(ls_nest args, void *user) {
  (void)user;
  const ls_random_options random = {.example_ids = ls_nest_tensor(args, 1)};
  return ls_leaf(ls_dropout(ls_nest_tensor(args, 0), 0.5, true, &random));
}

TEST(examples_lose_the_same_however_they_are_dealt) {
  LS_OWN(ls_array, x) =
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), 1);
  LS_OWN(ls_nest, whole) =
      LS_TUPLE(ls_nest_array(ls_array_retain(x)), ids_of(ids, ROWS));
  LS_OWN(ls_nest, want) = call_on(1, drop, NULL, whole, 3);
  for (int32_t replicas = 2; replicas <= 8; replicas *= 2) {
    LS_OWN(ls_nest, parts) = LS_TUPLE(
        split_of(replicas, ls_array_retain(x)),
        split_of(replicas,
                 ls_array_retain(ls_nest_as_array(ls_nest_item(whole, 1)))));
    LS_OWN(ls_nest, got) = call_on(replicas, drop, NULL, parts, 3);
    const char *at = ls_array_data(ls_nest_as_array(want));
    for (int32_t r = 0; r < replicas; ++r) {
      const ls_array *part =
          ls_nest_as_array(ls_distributed_component(got, (size_t)r));
      assert_memory_equal(at, ls_array_data(part), ls_array_size(part));
      at += ls_array_size(part);
    }
  }
  const float *y = ls_array_data(ls_nest_as_array(want));
  int dropped = 0, differ = 0;
  for (int i = 0; i < ROWS * WIDTH; ++i)
    dropped += y[i] == 0;
  for (int k = 0; k < WIDTH; ++k) {
    assert_true((y[2 * WIDTH + k] == 0) == (y[3 * WIDTH + k] == 0));
    differ += (y[k] == 0) != (y[WIDTH + k] == 0);
  }
  assert_true(dropped > ROWS * WIDTH / 3 && dropped < ROWS * WIDTH * 2 / 3);
  assert_true(differ > WIDTH / 5);
}

TEST(a_session_may_feed_any_number_of_examples) {
  ls_tensor x = {0}, id = {0}, y = {0};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, -1), "x");
    id = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1), "id");
    y = ls_dropout(x, 0.5, true, &(ls_random_options){.example_ids = id});
  }
  expect_ok(ls_graph_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  for (int64_t count = 1; count <= 3; ++count) {
    LS_OWN(ls_array, value) =
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(count, 40), 1);
    LS_OWN(ls_array, numbers) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(count), &numbers));
    const ls_feed feeds[] = {{x, value}, {id, numbers}};
    LS_OWN(ls_nest, result) = {0};
    expect_ok(ls_session_run(session, ls_leaf(y), feeds, 2, &result));
    assert_int_equal(ls_array_num_elements(ls_nest_as_array(result)),
                     count * 40);
  }
}

TEST(ids_that_do_not_fit_are_refused) {
  expect_ok(ls_frame_begin());
  const ls_random_options three = {.example_ids =
                                       ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 0)};
  expect_status(ls_tensor_status(ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(4, 2),
                                                   0, 1, &three)),
                LS_INVALID_ARGUMENT,
                "random numbers f32[4,2] by example: an id is needed for each "
                "slice along dimension 0, i64, got i64[3]");
  expect_status(ls_tensor_status(
                    ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, &three)),
                LS_INVALID_ARGUMENT, "f32[] by example");
  expect_status(
      ls_tensor_status(ls_random_unsigned(LS_DTYPE_U32, LS_SHAPE(3), &three)),
      LS_UNIMPLEMENTED, "random_bits by example ids");
  expect_ok(ls_frame_end(NULL));
}

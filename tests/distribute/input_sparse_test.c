// SPDX-License-Identifier: Apache-2.0
// Sparse and ragged leaves of data sets on replicas.
#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/sparse.h"
#include "support/inputs.h"
#include "support/replicas.h"

static const ls_input_options on_hosts = {.fetch_to_device = LS_FLAG_OFF};

static ls_array *numbers_of(const int64_t *numbers, ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, shape, numbers, &array));
  return array;
}

// Element i: sparse [4], i at place i mod 4 and, for odd ones, 10 i behind it;
// ragged: i numbers i in rows of one, and none; and i.
static ls_nest make_element(void *user, int64_t i) {
  (void)user;
  const int64_t at = i % 4, places[] = {at == 3 ? 0 : at, at == 3 ? 3 : at + 1};
  const int64_t values[] = {i, 10 * i};
  const int64_t count = 1 + i % 2, repeated[] = {i, i, i, i, i, i, i, i};
  const int64_t split[] = {0, i};
  ls_array *splits = numbers_of(split, LS_SHAPE(2));
  return LS_TUPLE(ls_nest_sparse(numbers_of(places, LS_SHAPE(count, 1)),
                                 numbers_of(values, LS_SHAPE(count)),
                                 LS_SHAPE(4)),
                  ls_nest_ragged(numbers_of(repeated, LS_SHAPE(i)), &splits, 1),
                  ls_nest_array(numbers_of(&i, LS_SCALAR)));
}

static ls_dataset *odd_batches(int64_t count, int64_t size) {
  const ls_leaf_spec sparse = {.kind = LS_LEAF_SPARSE,
                               .type = {LS_DTYPE_I64, LS_SHAPE(4)}};
  const ls_leaf_spec ragged = {.kind = LS_LEAF_RAGGED,
                               .type = {LS_DTYPE_I64, LS_SHAPE(1, -1)}};
  return ls_dataset_batch(
      ls_dataset_from_function(&(ls_index_options){
          .size = count,
          .element =
              LS_TUPLE(ls_nest_spec_of(&sparse), ls_nest_spec_of(&ragged),
                       ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)),
          .make = make_element}),
      &(ls_batch_options){.size = size});
}

// That these are the elements from `first` on, as dense arrays.
static void expect_part(ls_nest element, size_t replica, int64_t first,
                        int64_t rows) {
  ls_nest parts[3];
  for (size_t l = 0; l < 3; ++l)
    parts[l] = ls_distributed_component(ls_nest_item(element, l), replica);
  const ls_shape wide = LS_SHAPE(-1, 1, 8);
  LS_OWN(ls_nest, sparse) = ls_nest_to_dense(parts[0], 0, NULL);
  LS_OWN(ls_nest, ragged) = ls_nest_to_dense(parts[1], -1, &wide);
  expect_ok(ls_nest_status(sparse));
  expect_ok(ls_nest_status(ragged));
  const ls_array *s = ls_nest_as_array(sparse), *g = ls_nest_as_array(ragged);
  const ls_array *ids = ls_nest_as_array(parts[2]);
  assert_true(ls_shape_equal(ls_array_shape(s), LS_SHAPE(rows, 4)));
  assert_int_equal(ls_array_shape(g).dim[0], rows);
  assert_true(ls_shape_equal(ls_array_shape(ids), LS_SHAPE(rows)));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = first + r;
    assert_int_equal(ls_array_i64(ids, r), i);
    int64_t sum = 0;
    for (int64_t k = 0; k < 4; ++k)
      sum += ls_array_i64(s, 4 * r + k);
    assert_int_equal(sum, i % 2 == 1 ? 11 * i : i);
    for (int64_t k = 0; k < 8; ++k)
      assert_int_equal(ls_array_i64(g, 8 * r + k), k < i ? i : -1);
  }
}

TEST(sparse_and_ragged_leaves_are_split) {
  LS_SPEC("T145 T152");
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  ls_distributed_iterator *iterator =
      iterator_on(distributed(three, odd_batches(7, 5), &on_hosts));
  ls_nest element = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  expect_part(element, 0, 0, 2);
  expect_part(element, 1, 2, 2);
  expect_part(element, 2, 4, 1);
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  expect_part(element, 0, 5, 1);
  expect_part(element, 1, 6, 1);
  expect_part(element, 2, 7, 0);
  ls_nest_release(element);
  ls_distributed_iterator_release(iterator);
  expect_refused(three, odd_batches(7, 5), NULL, LS_INVALID_ARGUMENT,
                 "leaf [0] of a data set");
}

static ls_nest make_batches(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_dataset(odd_batches(5, 2));
}

TEST(replicas_without_data_get_empty_ones) {
  LS_SPEC("T152");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_nest data = ls_none();
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_strategy_distribute_datasets_from_function_with(
      two, make_batches, NULL, &on_hosts, &data));
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(data);
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  expect_part(element, 0, 0, 2);
  expect_part(element, 1, 2, 2);
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  expect_part(element, 0, 4, 1);
  // Nothing, of the kinds that leaves are.
  ls_leaf_spec spec;
  const ls_leaf_kind kinds[] = {LS_LEAF_SPARSE, LS_LEAF_RAGGED, LS_LEAF_DENSE};
  for (size_t l = 0; l < 3; ++l) {
    expect_ok(ls_nest_leaf_spec(
        ls_distributed_component(ls_nest_item(element, l), 1), &spec));
    assert_int_equal(spec.kind, kinds[l]);
    assert_int_equal(spec.type.shape.dim[0], 0);
  }
}

TEST(hosts_cut_them_anew_within_batches) {
  LS_SPEC("T149");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  ls_input_options off = on_hosts;
  off.sharding = LS_SHARD_OFF;
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(pod, odd_batches(8, 4), &off));
  LS_OWN(ls_nest, element) = ls_none();
  for (int64_t step = 0; step < 4; ++step) {
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    for (size_t r = 0; r < 2; ++r)
      expect_part(element, r, 2 * step, 2);
  }
  ls_distributed_iterator_release(iterator);
  // Pieces over the border of batches are arrays' alone.
  iterator = iterator_on(
      distributed(pod, ls_dataset_repeat(odd_batches(7, 3), 2), &off));
  for (int step = 0; step < 4; ++step)
    expect_ok(ls_distributed_iterator_next(iterator, &element));
  expect_status(ls_distributed_iterator_next(iterator, &element),
                LS_UNIMPLEMENTED, "from several batches");
}

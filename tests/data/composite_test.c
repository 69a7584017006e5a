// SPDX-License-Identifier: Apache-2.0
//
// Sparse and ragged leaves: specs, components, batches, as dense arrays.
#include <string.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "lockstep/sparse.h"
#include "support/fault.h"
#include "support/spec.h"
#include "support/stream_runs.h"

static ls_array *longs(ls_shape shape, const int64_t *values) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, shape, values, &array));
  return array;
}
#define LONGS(...)                                                             \
  longs(LS_SHAPE(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),    \
        (const int64_t[]){__VA_ARGS__})
static ls_array *pairs(int64_t count, const int64_t *values) {
  return longs(LS_SHAPE(count, 2), values);
}

static void expect_values(ls_nest leaf, ls_shape shape, const int64_t *values) {
  expect_ok(ls_nest_status(leaf));
  const ls_array *array = ls_nest_as_array(leaf);
  assert_non_null(array);
  assert_true(ls_shape_equal(ls_array_shape(array), shape));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    assert_int_equal(ls_array_i64(array, i), values[i]);
}
#define EXPECT(leaf, shape, ...)                                               \
  expect_values((leaf), (shape), (const int64_t[]){__VA_ARGS__})

static void expect_failed(ls_nest nest, const char *message) {
  expect_status(ls_nest_status(nest), LS_INVALID_ARGUMENT, message);
  ls_nest_release(nest);
}

// Of 3 by 4: 7 at (0, 1), 8 at (0, 3), 9 at (2, 0).
static ls_nest some_sparse(void) {
  return ls_nest_sparse(pairs(3, (const int64_t[]){0, 1, 0, 3, 2, 0}),
                        LONGS(7, 8, 9), LS_SHAPE(3, 4));
}

// [[1, 2], [], [3]]
static ls_nest some_ragged(void) {
  ls_array *const splits[] = {LONGS(0, 2, 2, 3)};
  return ls_nest_ragged(LONGS(1, 2, 3), splits, 1);
}

// ---- One leaf --------------------------------------------------------------
TEST(a_leaf_has_a_spec_and_components) {
  LS_SPEC("V74");
  ls_leaf_spec spec;
  char text[200];
  ls_nest sparse = some_sparse(), ragged = some_ragged();
  expect_ok(ls_nest_leaf_spec(sparse, &spec));
  assert_int_equal(spec.kind, LS_LEAF_SPARSE);
  assert_int_equal(spec.type.dtype, LS_DTYPE_I64);
  assert_true(ls_shape_equal(spec.type.shape, LS_SHAPE(3, 4)));
  expect_ok(ls_nest_leaf_spec(ragged, &spec));
  assert_int_equal(spec.kind, LS_LEAF_RAGGED);
  assert_true(ls_shape_equal(spec.type.shape, LS_SHAPE(3, -1)));
  assert_string_equal(ls_nest_print(ragged, text, sizeof(text)),
                      "ragged i64[3,?]");
  ls_nest array = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2));
  expect_ok(ls_nest_leaf_spec(array, &spec));
  assert_int_equal(spec.kind, LS_LEAF_DENSE);
  expect_status(ls_nest_leaf_spec(ls_nest_i64(3), &spec), LS_INVALID_ARGUMENT,
                "neither sparse nor ragged");
  // Composites stand there as their arrays; other leaves stay.
  LS_OWN(ls_nest, all) = LS_LIST(sparse, LS_TUPLE(array, ragged));
  LS_OWN(ls_nest, parts) = ls_nest_components(all);
  ls_nest item = ls_nest_item(parts, 0);
  assert_int_equal(ls_nest_count(item), 3);
  EXPECT(ls_nest_item(item, 0), LS_SHAPE(3, 2), 0, 1, 0, 3, 2, 0);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(3), 7, 8, 9);
  EXPECT(ls_nest_item(item, 2), LS_SHAPE(2), 3, 4);
  item = ls_nest_item(ls_nest_item(parts, 1), 1);
  assert_int_equal(ls_nest_count(item), 2);
  EXPECT(ls_nest_item(item, 0), LS_SHAPE(3), 1, 2, 3);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(4), 0, 2, 2, 3);
}

TEST(a_leaf_becomes_dense) {
  ls_nest leaf = some_sparse();
  ls_nest dense = ls_nest_to_dense(leaf, 0, NULL);
  EXPECT(dense, LS_SHAPE(3, 4), 0, 7, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0);
  ls_nest_release(dense);
  dense = ls_nest_to_dense(leaf, -1, &LS_SHAPE(-1, 5));
  EXPECT(dense, LS_SHAPE(3, 5), -1, 7, -1, 8, -1, -1, -1, -1, -1, -1, 9, -1, -1,
         -1, -1);
  ls_nest_release(dense);
  expect_failed(ls_nest_to_dense(leaf, 0, &LS_SHAPE(3, 3)),
                "a leaf of i64[3,4] has no room in i64[3,3]");
  ls_nest_release(leaf);
  leaf = some_ragged();
  dense = ls_nest_to_dense(leaf, 0, NULL);
  EXPECT(dense, LS_SHAPE(3, 2), 1, 2, 0, 0, 3, 0);
  // An array is dense.
  ls_nest same = ls_nest_to_dense(dense, 5, NULL);
  assert_true(ls_nest_is_same(same, dense));
  ls_nest_release(same);
  ls_nest_release(dense);
  dense = ls_nest_to_dense(leaf, 9, &LS_SHAPE(4, 3));
  EXPECT(dense, LS_SHAPE(4, 3), 1, 2, 9, 9, 9, 9, 3, 9, 9, 9, 9, 9);
  ls_nest_release(dense);
  expect_failed(ls_nest_to_dense(leaf, 0, &LS_SHAPE(3)), "has no room in");
  ls_nest_release(leaf);
  // [[[a, b]], [], [[], [c]]], of rows of two numbers.
  ls_array *const splits[] = {LONGS(0, 1, 1, 3), LONGS(0, 2, 2, 3)};
  leaf =
      ls_nest_ragged(pairs(3, (const int64_t[]){1, 2, 3, 4, 5, 6}), splits, 2);
  dense = ls_nest_to_dense(leaf, 0, NULL);
  EXPECT(dense, LS_SHAPE(3, 2, 2, 2), 1, 2, 3, 4, 0, 0, 0, 0,  //
         0, 0, 0, 0, 0, 0, 0, 0,                               //
         0, 0, 0, 0, 5, 6, 0, 0);
  ls_nest_release(dense);
  expect_failed(ls_nest_to_dense(leaf, 0, &LS_SHAPE(3, 2, 2, 3)),
                "only the rows and ragged dimensions");
  ls_nest_release(leaf);
  expect_failed(ls_nest_to_dense(ls_none(), 0, NULL), "has no dense form");
}

TEST(leaves_of_strings_become_dense) {
  const ls_bytes words[] = {{"one", 3}, {"two", 3}};
  ls_array *values = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), words, &values));
  LS_OWN(ls_nest, leaf) = ls_nest_sparse(
      longs(LS_SHAPE(2, 1), (const int64_t[]){1, 2}), values, LS_SHAPE(4));
  LS_OWN(ls_nest, dense) = ls_nest_to_dense(leaf, 0, NULL);
  const ls_bytes *found = ls_nest_data(dense, 0);
  assert_int_equal(found[0].size, 0);
  assert_memory_equal(found[1].data, "one", 3);
  assert_memory_equal(found[2].data, "two", 3);
  assert_int_equal(found[3].size, 0);
}

TEST(leaves_that_cannot_be_are_refused) {
  expect_failed(ls_nest_sparse(NULL, LONGS(1), LS_SHAPE(3)), "needs indices");
  expect_failed(ls_nest_sparse(LONGS(1), NULL, LS_SHAPE(3)), "needs indices");
  expect_failed(ls_nest_sparse(LONGS(1), LONGS(1), LS_SHAPE(3)),
                "cannot have indices i64[1] and values i64[1]");
  expect_failed(ls_nest_sparse(pairs(1, (const int64_t[]){0, 4}), LONGS(1),
                               LS_SHAPE(3, 4)),
                "value 0 of a sparse leaf is at 4 in dimension 1, which is 4");
  expect_failed(ls_nest_sparse(pairs(2, (const int64_t[]){1, 0, 0, 3}),
                               LONGS(1, 2), LS_SHAPE(3, 4)),
                "value 1 of a sparse leaf is out of");
  expect_failed(ls_nest_sparse(pairs(2, (const int64_t[]){1, 1, 1, 1}),
                               LONGS(1, 2), LS_SHAPE(3, 4)),
                "value 1 of a sparse leaf is out of");
  expect_failed(ls_nest_sparse(pairs(1, (const int64_t[]){0, 0}), LONGS(1),
                               LS_SHAPE(-1, 4)),
                "a sparse leaf of i64[?,4] cannot");
  expect_failed(ls_nest_ragged(LONGS(1), NULL, 0), "needs values and row");
  ls_array *splits[] = {LONGS(0, 2, 1)};
  expect_failed(ls_nest_ragged(LONGS(1), splits, 1), "must rise from 0 to 1");
  splits[0] = LONGS(1, 1);
  expect_failed(ls_nest_ragged(LONGS(1), splits, 1), "must rise from 0 to 1");
  splits[0] = LONGS(0, 2);
  expect_failed(ls_nest_ragged(LONGS(1), splits, 1), "must rise from 0 to 1");
  splits[0] = pairs(1, (const int64_t[]){0, 1});
  expect_failed(ls_nest_ragged(LONGS(1), splits, 1), "must be i64[rows + 1]");
}

// ---- Data sets -------------------------------------------------------------
// Number i: a sparse i % 3 + 1 by 4 of i and 2 i, and a ragged of i % 3 rows.
static ls_nest make_leaves(void *user, int64_t i) {
  (void)user;
  const int64_t rows = i % 3 + 1;
  const int64_t index[] = {0, i % 3, rows - 1, 3};
  const int64_t values[] = {i, 2 * i};
  const int64_t splits[] = {0, 1, 3};
  const int64_t lengths[] = {i, i + 1, i + 2};
  const int64_t count = splits[i % 3];
  ls_array *const all[] = {longs(LS_SHAPE(i % 3 + 1), splits)};
  return LS_TUPLE(ls_nest_sparse(longs(LS_SHAPE(2, 2), index),
                                 longs(LS_SHAPE(2), values), LS_SHAPE(rows, 4)),
                  ls_nest_ragged(longs(LS_SHAPE(count), lengths), all, 1));
}

static ls_dataset *leaves(void) {
  static const ls_leaf_spec sparse = {
      LS_LEAF_SPARSE, {LS_DTYPE_I64, {.rank = 2, .dim = {-1, 4}}}};
  static const ls_leaf_spec ragged = {
      LS_LEAF_RAGGED, {LS_DTYPE_I64, {.rank = 2, .dim = {-1, -1}}}};
  return ls_dataset_from_function(&(ls_index_options){
      .size = 7,
      .element = LS_TUPLE(ls_nest_spec_of(&sparse), ls_nest_spec_of(&ragged)),
      .make = make_leaves});
}

static ls_nest first_of(ls_dataset *dataset) {
  LS_OWN(ls_iterator, iterator) = NULL;
  ls_nest element = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_ok(ls_iterator_next(iterator, &element));
  ls_dataset_release(dataset);
  return element;
}

TEST(leaves_are_batched) {
  ls_dataset *dataset = ls_dataset_batch(
      leaves(), &(ls_batch_options){.size = 3, .remainder = LS_REMAINDER_DROP});
  ls_element_spec spec;
  char text[200];
  expect_ok(ls_dataset_spec(dataset, &spec));
  assert_string_equal(ls_element_spec_print(&spec, text, sizeof(text)),
                      "(sparse i64[3,?,4], ragged i64[3,?,?])");
  LS_OWN(ls_nest, element) = first_of(dataset);
  LS_OWN(ls_nest, parts) = ls_nest_components(element);
  ls_nest item = ls_nest_item(parts, 0);
  EXPECT(ls_nest_item(item, 0), LS_SHAPE(6, 3), 0, 0, 0, 0, 0, 3, 1, 0, 1, 1, 1,
         3, 2, 0, 2, 2, 2, 3);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(6), 0, 0, 1, 2, 2, 4);
  EXPECT(ls_nest_item(item, 2), LS_SHAPE(3), 3, 3, 4);
  item = ls_nest_item(parts, 1);
  EXPECT(ls_nest_item(item, 0), LS_SHAPE(4), 1, 2, 3, 4);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(4), 0, 0, 1, 3);
  EXPECT(ls_nest_item(item, 2), LS_SHAPE(4), 0, 1, 2, 4);
}

// What a batch is padded with has no values and no rows.
TEST(padding_of_batches_is_empty) {
  LS_SPEC("T95");
  LS_OWN(ls_nest, element) = first_of(ls_dataset_batch(
      ls_dataset_skip(leaves(), 5),
      &(ls_batch_options){.size = 3, .remainder = LS_REMAINDER_PAD}));
  LS_OWN(ls_nest, parts) = ls_nest_components(element);
  ls_nest item = ls_nest_item(ls_nest_item(parts, 0), 0);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(4), 5, 10, 6, 12);
  EXPECT(ls_nest_item(item, 2), LS_SHAPE(3), 3, 3, 4);
  item = ls_nest_item(ls_nest_item(parts, 0), 1);
  EXPECT(ls_nest_item(item, 1), LS_SHAPE(4), 0, 2, 2, 2);
}

static ls_dataset *dense_batches(void *user) {
  (void)user;
  return ls_dataset_to_dense(
      ls_dataset_to_dense(
          ls_dataset_batch(leaves(), &(ls_batch_options){.size = 3}), 0, 0,
          &LS_SHAPE(-1, 3, 4)),
      1, -1, NULL);
}

static ls_dataset *dense_stream(void *user) {
  return ls_dataset_to_dense(
      ls_dataset_to_dense(
          ls_dataset_batch(
              ls_dataset_shuffle(
                  ls_dataset_zip(LS_TUPLE(ls_nest_dataset(leaves()),
                                          ls_nest_dataset(stream_of(user)))),
                  &(ls_shuffle_options){.buffer = 4}),
              &(ls_batch_options){.size = 2}),
          0, 0, NULL),
      1, 0, NULL);
}

TEST(batches_become_dense) {
  static const stream_numbers hundred = {.count = 100, .saves = true};
  LS_OWN(ls_dataset, dataset) = dense_batches(NULL);
  ls_element_spec spec;
  char text[200];
  expect_ok(ls_dataset_spec(dataset, &spec));
  assert_string_equal(ls_element_spec_print(&spec, text, sizeof(text)),
                      "(i64[?,3,4], i64[?,?,?])");
  LS_OWN(ls_nest, element) = first_of(dataset);
  EXPECT(ls_nest_item(element, 0), LS_SHAPE(3, 3, 4), 0, 0, 0, 0, 0, 0, 0, 0, 0,
         0, 0, 0,                             //
         0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0,  //
         0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 4);
  EXPECT(ls_nest_item(element, 1), LS_SHAPE(3, 2, 2), -1, -1, -1, -1,  //
         1, -1, -1, -1,                                                //
         2, -1, 3, 4);
  expect_stream_alike(dense_batches, NULL);
  expect_stream_alike(dense_stream, (void *)(uintptr_t)&hundred);
  dataset = ls_dataset_to_dense(leaves(), 2, 0, NULL);
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "to_dense of leaf 2: elements have 2");
  ls_dataset_release(dataset);
  dataset = ls_dataset_to_dense(leaves(), 0, 0, &LS_SHAPE(3));
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "leaf 0, i64[?,4], cannot be made a dense i64[3]");
}

TEST(elements_of_another_kind_are_refused) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_dataset, dataset) = ls_dataset_from_function(&(ls_index_options){
      .size = 7,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1, -1)),
                          ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1, -1))),
      .make = make_leaves});
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "leaf 0 of an element is sparse i64[1,4]");
}

static ls_status read_dense(void *user) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_dataset, dataset) = dense_batches(user);
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &iterator));
  for (int i = 0; i < 3; ++i)
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  return ls_ok();
}

// A source that looks at each allocation.
static ls_nest ragged_rows(void *user, int64_t i) {
  const int64_t splits[] = {0, 1, 3}, values[] = {i, i, i};
  ls_array *all = NULL, *rows = NULL;
  (void)user;
  ls_status status =
      ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(3), values, &rows);
  if (ls_status_is_ok(status))
    status = ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(3), splits, &all);
  if (ls_status_is_ok(status)) return ls_nest_ragged(rows, &all, 1);
  ls_array_release(rows);
  return ls_fail(status);
}

static ls_nest sparse_row(void *user, int64_t i) {
  const int64_t index = i, value = i + 1;
  ls_array *indices = NULL, *values = NULL;
  (void)user;
  ls_status status =
      ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(1, 1), &index, &indices);
  if (ls_status_is_ok(status))
    status = ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(1), &value, &values);
  if (ls_status_is_ok(status))
    return ls_nest_sparse(indices, values, LS_SHAPE(8));
  ls_array_release(indices);
  return ls_fail(status);
}

static ls_dataset *checked(ls_leaf_kind kind, ls_shape shape,
                           ls_nest (*make)(void *user, int64_t i)) {
  const ls_leaf_spec spec = {kind, {LS_DTYPE_I64, shape}};
  return ls_dataset_to_dense(
      ls_dataset_batch(
          ls_dataset_from_function(&(ls_index_options){
              .size = 8, .element = ls_nest_spec_of(&spec), .make = make}),
          &(ls_batch_options){.size = 3}),
      0, 0, NULL);
}

static ls_dataset *checked_both(void) {
  return ls_dataset_zip(LS_TUPLE(
      ls_nest_dataset(checked(LS_LEAF_RAGGED, LS_SHAPE(-1, -1), ragged_rows)),
      ls_nest_dataset(checked(LS_LEAF_SPARSE, LS_SHAPE(8), sparse_row))));
}

static ls_status read_checked(void *user) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  (void)user;
  LS_OWN(ls_dataset, dataset) = checked_both();
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &iterator));
  for (int i = 0; i < 3; ++i)
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  return ls_ok();
}

TEST(failing_memory_is_survived) {
  expect_ok(read_dense(NULL));
  REFUSE_EACH(read_checked, NULL);
}

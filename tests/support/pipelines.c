// SPDX-License-Identifier: Apache-2.0
#include "support/pipelines.h"

#include <string.h>

#include "base/values/digest.h"
#include "data/own.h"
#include "lockstep/element_spec.h"

ls_iterator *pipeline_iterator(ls_dataset *dataset, ls_opt prefetch) {
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = prefetch}, &iterator));
  ls_dataset_release(dataset);
  return iterator;
}

void expect_no_dataset(ls_dataset *dataset, ls_code code, const char *part) {
  ls_iterator *iterator = NULL;
  assert_non_null(dataset);
  expect_status(ls_dataset_status(dataset), code, part);
  expect_status(ls_iterator_create(dataset, NULL, &iterator), code, part);
  assert_null(iterator);
  // Later makers hand it on.
  dataset = ls_dataset_take(ls_dataset_prefetch(dataset, 1), 1);
  dataset = ls_dataset_batch(ls_dataset_shuffle(dataset, NULL),
                             &(ls_batch_options){.size = 2});
  expect_status(ls_dataset_status(dataset), code, part);
  assert_int_equal(ls_dataset_cardinality(dataset), 0);
  ls_dataset_release(dataset);
}

int64_t number_in(ls_nest element) {
  while (ls_nest_is_node(element))
    element = ls_nest_item(element, 0);
  return ls_array_i64(ls_nest_as_array(element), 0);
}

size_t read_numbers(ls_iterator *iterator, int64_t *numbers, size_t most) {
  LS_OWN(ls_nest, element) = ls_none();
  size_t count = 0;
  for (;;) {
    ls_status status = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      break;
    }
    expect_ok(status);
    assert_true(count < most);
    numbers[count++] = number_in(element);
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
  return count;
}

void expect_elements(ls_dataset *dataset, const int64_t *wanted, size_t count) {
  enum { MOST = 4096 };
  const int64_t prefetches[] = {0, 1, 3, 50};
  for (size_t p = 0; p < 4; ++p) {
    LS_OWN(ls_iterator, iterator) =
        pipeline_iterator(ls_dataset_retain(dataset), LS_SOME(prefetches[p]));
    int64_t numbers[MOST];
    for (int epoch = 0; epoch < 2; ++epoch) {
      assert_int_equal(read_numbers(iterator, numbers, MOST), count);
      for (size_t i = 0; i < count; ++i)
        if (numbers[i] != wanted[i])
          fail_msg("element %zu is %lld, not %lld", i, (long long)numbers[i],
                   (long long)wanted[i]);
      expect_ok(ls_iterator_restart(iterator));
    }
  }
  const int64_t size = ls_dataset_cardinality(dataset);
  if (size >= 0) assert_int_equal(size, count);
  ls_dataset_release(dataset);
}

ls_dataset *count_to(int64_t count) { return ls_dataset_range(0, count, 1); }

static ls_nest make_ragged(void *user, int64_t index) {
  (void)user;
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(index % 4));
  int64_t *data = ls_nest_data(made, 0);
  for (int64_t i = 0; data != NULL && i < index % 4; ++i)
    data[i] = index;
  return made;
}

ls_dataset *ragged_to(int64_t count) {
  return ls_dataset_from_function(&(ls_index_options){
      .name = "ragged",
      .size = count,
      .element = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(LS_UNKNOWN_DIM)),
      .make = make_ragged});
}

static void add(ls_digest *digest, ls_nest element) {
  ls_digest_add_u64(digest, (uint64_t)element.kind);
  const ls_array *array = ls_nest_as_array(element);
  for (size_t i = 0; i < ls_nest_count(element); ++i) {
    const char *key = ls_nest_key(element, i);
    ls_digest_add_text(digest, key != NULL ? key : "");
    add(digest, ls_nest_item(element, i));
  }
  if (array == NULL) return;
  const ls_shape shape = ls_array_shape(array);
  ls_digest_add_u64(digest, (uint64_t)ls_array_dtype(array));
  ls_digest_add_u64(digest, (uint64_t)shape.rank);
  for (int i = 0; i < shape.rank; ++i)
    ls_digest_add_u64(digest, (uint64_t)shape.dim[i]);
  if (ls_array_dtype(array) != LS_DTYPE_STRING) {
    ls_digest_add(digest, ls_array_data(array), ls_array_size(array));
    return;
  }
  const ls_bytes *strings = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    ls_digest_add_u64(digest, strings[i].size);
    ls_digest_add(digest, strings[i].data, strings[i].size);
  }
}

void hash_element(ls_nest element, uint64_t *hash) {
  ls_digest digest;
  uint64_t out[2];
  ls_digest_begin(&digest);
  ls_digest_add_u64(&digest, *hash);
  add(&digest, element);
  ls_digest_end(&digest, out);
  *hash = out[0];
}

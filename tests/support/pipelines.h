// SPDX-License-Identifier: Apache-2.0
// Data sets to test with, and what comes out of them.
#ifndef LS_TESTS_SUPPORT_PIPELINES_H_
#define LS_TESTS_SUPPORT_PIPELINES_H_

#include "support/expect.h"

#include "lockstep/dataset.h"
#include "lockstep/iterator.h"

// An iterator on it; takes the data set over.
ls_iterator *pipeline_iterator(ls_dataset *dataset, ls_opt prefetch);
// Expects that it has failed like that; takes it over.
void expect_no_dataset(ls_dataset *dataset, ls_code code, const char *part);
// The number in a leaf, or in the first of a nest.
int64_t number_in(ls_nest element);
// All of an epoch, at most `most`; how many there are.
size_t read_numbers(ls_iterator *iterator, int64_t *numbers, size_t most);
// Expects these numbers of a data set, by every way of reading; takes it over.
void expect_elements(ls_dataset *dataset, const int64_t *wanted, size_t count);
#define EXPECT_ELEMENTS(dataset, ...)                                          \
  expect_elements((dataset), (const int64_t[]){__VA_ARGS__},                   \
                  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// 0 to count - 1, as i64.
ls_dataset *count_to(int64_t count);
// i64[i % 4] for each number i, filled with it; shapes differ.
ls_dataset *ragged_to(int64_t count);
// A digest of all bytes of an element: arrays with types, structure, keys.
void hash_element(ls_nest element, uint64_t *hash);

#endif  // LS_TESTS_SUPPORT_PIPELINES_H_

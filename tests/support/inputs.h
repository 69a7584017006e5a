// SPDX-License-Identifier: Apache-2.0
// Data sets for strategies, in tests: numbers that show where they went, files
// that are made up, and a strategy on many hosts.
#ifndef LS_TESTS_SUPPORT_INPUTS_H_
#define LS_TESTS_SUPPORT_INPUTS_H_

#include "lockstep/distribute_input.h"
#include "support/expect.h"
#include "support/spec.h"

// 0 to `count` - 1 in batches of `size`, the last one shorter; or dropped.
ls_dataset *number_batches(int64_t count, int64_t size);
ls_dataset *whole_batches(int64_t count, int64_t size);
// The numbers 10 f to 10 f + `rows` - 1 of files f = 0 to `files` - 1, one
// behind the other.
ls_dataset *numbers_in_files(int64_t files, int64_t rows);

// A strategy whose replicas are on these devices, and that, as those on pods,
// has no pipeline a replica. The caller's.
ls_strategy *pod_of(const char *const *devices, int32_t count);
// Of TPUs: replica i on task i / `each`.
ls_strategy *pod_of_tasks(int32_t replicas, int32_t each);

// The data set (taken over), distributed; the caller's.
ls_nest distributed(ls_strategy *strategy, ls_dataset *dataset,
                    const ls_input_options *options);
// Expects that it is refused so.
void expect_refused(ls_strategy *strategy, ls_dataset *dataset,
                    const ls_input_options *options, ls_code code,
                    const char *says);
// A plain iterator of a distributed data set (taken over).
ls_distributed_iterator *iterator_on(ls_nest data);

// What each replica gets of the first leaf, in brackets: "[0 1] [2] []"; of
// scalars without: "0 1 2". Printed into `buffer`.
const char *print_dealt(ls_nest element, char *buffer, size_t size);
// Expects these elements, and then the end, twice.
void expect_dealt(ls_distributed_iterator *iterator,
                  const char *const *elements, size_t count);
#define EXPECT_DEALT(iterator, ...)                                            \
  expect_dealt((iterator), (const char *const[]){__VA_ARGS__},                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
// Expects that of a data set (taken over) on a strategy.
void expect_dealt_on(ls_strategy *strategy, ls_dataset *dataset,
                     const ls_input_options *options,
                     const char *const *elements, size_t count);
#define EXPECT_DEALT_ON(strategy, dataset, options, ...)                       \
  expect_dealt_on((strategy), (dataset), (options),                            \
                  (const char *const[]){__VA_ARGS__},                          \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#endif  // LS_TESTS_SUPPORT_INPUTS_H_

// SPDX-License-Identifier: Apache-2.0
// What a data set gives, as text.
#ifndef LS_TESTS_SUPPORT_READ_ALL_H_
#define LS_TESTS_SUPPORT_READ_ALL_H_

#include "base/text.h"
#include "lockstep/iterator.h"

// All elements, each with its leaves in the order of flattening: numbers as
// they are, strings in quotes; "[1,2] 'a'; ". Releases the data set. What goes
// wrong is returned.
LS_MUST_USE ls_status read_all(ls_dataset *dataset, ls_text *out);

// Expects that text.
#define expect_elements(dataset, want)                                         \
  expect_elements_at((dataset), (want), __FILE__, __LINE__)
void expect_elements_at(ls_dataset *dataset, const char *want, const char *file,
                        int line);
// Expects that the data set, or reading it, fails so.
#define expect_no_elements(dataset, code, part)                                \
  expect_no_elements_at((dataset), (code), (part), __FILE__, __LINE__)
void expect_no_elements_at(ls_dataset *dataset, ls_code code, const char *part,
                           const char *file, int line);

// Reads the first element of a data set, which is released.
ls_status first_element(ls_dataset *dataset);

#endif  // LS_TESTS_SUPPORT_READ_ALL_H_

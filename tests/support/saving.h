// SPDX-License-Identifier: Apache-2.0
// Variables in a file and back, for tests of savers.
#ifndef LS_TESTS_SUPPORT_SAVING_H_
#define LS_TESTS_SUPPORT_SAVING_H_

#include "lockstep/saver.h"

// Where the test saves; it unlinks the file at its end.
extern const char path[];

ls_saver saver_of(ls_variable *const *variable);
void save(ls_variable *variable);
void restore(ls_variable *variable);

// A scalar variable of no strategy; the caller releases it. And its value.
ls_variable *plain(const char *name, double initial);
double value_of(ls_variable *variable);

// Expects these entries in the file, all scalars.
void expect_entries(const char *const *names, const double *values,
                    size_t count);
void expect_entry(const char *name, double value);

#endif  // LS_TESTS_SUPPORT_SAVING_H_

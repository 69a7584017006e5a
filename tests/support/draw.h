// SPDX-License-Identifier: Apache-2.0
// What tests draw, and how the environment changes it.
#ifndef LS_TESTS_SUPPORT_DRAW_H_
#define LS_TESTS_SUPPORT_DRAW_H_

#include <stdint.h>

// The next number below `below` of the stream at `state`.
uint64_t draw_below(uint64_t *state, uint64_t below);
// The number in an environment variable, `otherwise` where it is not set.
uint64_t number_from_environment(const char *name, uint64_t otherwise);
// The same as an int.
int int_from_environment(const char *name, int otherwise);

#endif  // LS_TESTS_SUPPORT_DRAW_H_

// SPDX-License-Identifier: Apache-2.0
// Values on devices in a build graph, what a session makes of them, and a
// runtime that keeps its log: for tests of cross-device ops.
#ifndef LS_TESTS_SUPPORT_PLACED_H_
#define LS_TESTS_SUPPORT_PLACED_H_

#include "lockstep/cross_device.h"
#include "lockstep/session.h"
#include "support/replicas.h"

#define LOCAL_DEVICE "/job:localhost/replica:0/task:0/device:"

// A value on `count` devices "/device:TYPE:0" and so on, component i there: a
// constant with `size` elements (0: a scalar), numbers[i * size...].
ls_nest placed_values(const char *type, ls_dtype dtype, size_t count,
                      int64_t size, const double *numbers);
// The components as they are, on these devices.
ls_nest placed_on(const char *const *devices, const ls_tensor *items,
                  size_t count);

// Expects what a session on the tensors' build graph makes of a component of a
// leaf (of a tensor leaf: of itself).
void expect_fetched(ls_nest leaf, size_t component, const double *numbers,
                    size_t count);
// The same numbers on each component, as bytes: f32 or f64.
void expect_fetched_bytes(ls_nest leaf, const void *bytes, size_t size);
// Ops of a type in a graph, on a device ("GPU:1"; NULL: anywhere).
size_t count_ops(const ls_graph *graph, const char *type, const char *device);
// The device of a component's op, without "/job:...device:".
const char *component_on(ls_nest leaf, size_t component);

// A runtime of this thread that keeps its log lines, one after another.
typedef struct logged_runtime {
  ls_runtime *runtime, *before;
  char text[8000];
} logged_runtime;
void logged_runtime_begin(logged_runtime *self);
void logged_runtime_end(logged_runtime *self);
LS_OWNED_STRUCT(logged_runtime, logged_runtime_end)
// How often a text is in the log.
size_t count_logged(const logged_runtime *self, const char *text);

#endif  // LS_TESTS_SUPPORT_PLACED_H_

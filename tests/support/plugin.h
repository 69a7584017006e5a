// SPDX-License-Identifier: Apache-2.0
// PJRT plug-ins for tests: one with CPU devices, where there is one.
#ifndef LS_TESTS_SUPPORT_PLUGIN_H_
#define LS_TESTS_SUPPORT_PLUGIN_H_

#include "support/place.h"

// Returns the device name, "pjrt:PATH", of the plug-in that LS_PJRT_PLUGIN
// names, else of one in the folder build/plugins of the tree, where
//   pip install --target build/plugins lammps-jax-pjrt-cpu
// puts one. Skips the running test, and says so, if there is none. Programs
// with sanitizers do not look there: XLA is slow under them. Static text.
const char *plugin_device(void);

// Returns true with LS_TEST_DEVICES=all: a test tries every case. Else it tries
// some, which LS_TEST_SEED draws, for each program takes XLA long to compile.
bool plugin_tests_all(void);

// Returns the device name of libtpu, which LS_PJRT_TPU names, which
//   pip install --target build/plugins libtpu
// puts into build/plugins, or which device "tpu" finds. Skips the running test,
// and says so, if there is none. Static text.
const char *tpu_device(void);

// A runtime on so many devices of that plug-in, current until it is ended.
open_place plugin_runtime(int num_devices);

#endif  // LS_TESTS_SUPPORT_PLUGIN_H_

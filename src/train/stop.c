// SPDX-License-Identifier: Apache-2.0
// Stop requests: one lock-free flag, so that a signal handler may set it.
#include "train/input.h"

void ls_train_stop_request(ls_train_stop *stop) {
  __atomic_store_n(&stop->requested, 1, __ATOMIC_RELAXED);
}

bool ls_train_stop_requested(const ls_train_stop *stop) {
  return stop != NULL && __atomic_load_n(&stop->requested, __ATOMIC_RELAXED);
}

bool ls_train_stop_asked(void *stop) { return ls_train_stop_requested(stop); }

// SPDX-License-Identifier: Apache-2.0
// A runtime whose clock passes when somebody waits, its task in a cluster, and
// what exports there.
#ifndef LS_TESTS_SUPPORT_WAITS_H_
#define LS_TESTS_SUPPORT_WAITS_H_

#include "base/memory/own.h"
#include "lockstep/train_and_evaluate.h"

enum { SECOND = 1000000000 };
typedef struct waits {
  ls_runtime *runtime, *before;
  const char *tf_config;
  int64_t now;
  int warnings;  // Of a checkpoint that is not there.
  // When the clock has come there.
  int64_t stops_at, copies_at;
  ls_train_stop stop;
  const char *copy;
} waits;

void waits_begin(waits *w, const char *tf_config);
void waits_end(waits *w);
LS_OWNED_STRUCT(waits, waits_end)
void waits_pass(void *waits, int64_t nanos);

// Gives a placeholder for the features of support/estimators.h.
ls_status waits_receive(void *user, ls_serving_receiver *out);
ls_exporter *waits_exporter(ls_exporter_options o);
// How many names stand in a folder.
int waits_count_in(const char *folder);

#endif  // LS_TESTS_SUPPORT_WAITS_H_

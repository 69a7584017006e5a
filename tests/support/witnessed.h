// SPDX-License-Identifier: Apache-2.0
// A training on cores whose hosts write down which examples each step used.
#ifndef LS_TESTS_SUPPORT_WITNESSED_H_
#define LS_TESTS_SUPPORT_WITNESSED_H_

#include "support/estimators.h"

enum { WITNESSED_BATCH = 24, WITNESSED_STEPS = 45, WITNESSED_EXAMPLES = 250 };

// What goes wrong, or where it is asked to end. Zeroed: nothing.
typedef struct witnessed_fault {
  int64_t input_at;     // The input fails when it makes so-manieth example;
  int64_t host_at;      // the host's function when it hears of that step;
  bool in_trace;        // the model's function itself;
  int64_t nan_at;       // examples from there on have no numbers.
  const char *pod;      // As in the name of a system: "fault=lost@host0:step9".
  ls_train_stop *asks;  // The first three ask it to end, and do not fail.
} witnessed_fault;

typedef struct witnessed {
  const char *folder, *log;  // The log is a line a step, with its examples.
  int replicas;
  const char *iterations;  // "7"
  int64_t save_steps;
  const ls_train_stop *stop;
  witnessed_fault fault;
  int64_t made;  // Examples, so far.
} witnessed;

// Trains to the last step, under the current runtime.
ls_status witnessed_train(witnessed *w, ls_training_end *out_end);

// Which steps the log has, how often; each used the examples that it used in
// the other one.
void witnessed_expect_steps(const char *log, const char *whole,
                            int counts[WITNESSED_STEPS]);

#endif  // LS_TESTS_SUPPORT_WITNESSED_H_

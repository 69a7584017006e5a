// SPDX-License-Identifier: Apache-2.0
// A training on cores whose hosts write down which examples each step used.
#ifndef LS_TESTS_SUPPORT_WITNESSED_H_
#define LS_TESTS_SUPPORT_WITNESSED_H_

#include "lockstep/train_and_evaluate.h"
#include "support/estimators.h"

enum { WITNESSED_BATCH = 24, WITNESSED_STEPS = 45, WITNESSED_EXAMPLES = 250 };

enum { WITNESSED_HOSTS = 4 };

// Of hooks, in this order.
typedef enum witnessed_moment {
  WITNESSED_NEVER,
  WITNESSED_BEGIN,
  WITNESSED_SESSION,
  WITNESSED_BEFORE,
  WITNESSED_AFTER,
  WITNESSED_END,
  WITNESSED_MOMENTS
} witnessed_moment;

// What goes wrong, or where it is asked to end. Zeroed: nothing.
typedef struct witnessed_fault {
  int64_t input_at;   // The input fails when it makes so-manieth example, of
  unsigned hosts;     //   each of these hosts, by bits; 0: of the first;
  int64_t host_at;    // the host's function when it hears of that step, or
                      //   so often in an evaluation;
  bool in_trace;      // the model's function itself;
  int64_t nan_at;     // examples from there on have no numbers,
  int64_t zeros_at;   //   or finite losses without a gradient;
  int64_t blocks_at;  // from there on they wait until this is set.
  const bool *opened;
  int blocks_on;            //   On this host.
  witnessed_moment moment;  // A hook of the caller's, or the model's, fails
  bool models;              //   there, with this code: once,
  ls_code code;             //   in run `at` from 0 on.
  int at;
  const char *pod;      // As in the name of a system: "fault=lost@host0:step9".
  ls_train_stop *asks;  // The first three ask it to end, and do not fail.
} witnessed_fault;

typedef struct witnessed {
  const char *folder, *log;  // The log is a line a step, with its examples.
  int replicas, hosts;       // At least 1; 0: 1.
  const char *iterations;    // "7"
  int64_t save_steps;
  const ls_train_stop *stop;
  witnessed_fault fault;
  // So far, in this call.
  int64_t made[WITNESSED_HOSTS];  // Examples,
  int64_t blocked;                //   those that wait,
  int heard, runs, faults;        // what the host has heard, runs, faults.
} witnessed;

// Trains to the last step, under the current runtime.
ls_status witnessed_train(witnessed *w, ls_training_end *out_end);
// Evaluates, or predicts the examples of, so many batches with a checkpoint.
// What comes out is the caller's: metrics; all rows, one behind the other.
enum { WITNESSED_BATCHES = 8 };
ls_status witnessed_evaluate(witnessed *w, const char *checkpoint,
                             ls_nest *out_metrics);
ls_status witnessed_predict(witnessed *w, const char *checkpoint, float *rows,
                            int *out_rows);
// Trains to the last step, with evaluations of each checkpoint.
ls_status witnessed_train_and_evaluate(witnessed *w,
                                       ls_train_and_evaluation *out);

// Which steps the log has, how often; each used the examples that it used in
// the other one.
void witnessed_expect_steps(const char *log, const char *whole,
                            int counts[WITNESSED_STEPS]);

#endif  // LS_TESTS_SUPPORT_WITNESSED_H_

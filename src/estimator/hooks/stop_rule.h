// SPDX-License-Identifier: Apache-2.0
// Whether to stop, by what evaluations have written.
#ifndef LS_ESTIMATOR_HOOKS_STOP_RULE_H_
#define LS_ESTIMATOR_HOOKS_STOP_RULE_H_

#include "base/runtime_internal.h"
#include "lockstep/early_stopping.h"

typedef struct ls_eval_rule {
  ls_stop_rule rule;
  char *metric, *folder;  // The rule's own.
  double threshold;
  int64_t max_steps, min_steps;
} ls_eval_rule;

// Of a rule that is no function's.
//   LS_INVALID_ARGUMENT  names the field.
LS_MUST_USE ls_status
ls_eval_rule_init(ls_eval_rule *rule, const ls_early_stopping_options *options);
void ls_eval_rule_deinit(ls_eval_rule *rule);  // Zeroed is fine.

// Reads the event files; the log says what has made it stop.
LS_MUST_USE ls_status ls_eval_rule_ask(const ls_eval_rule *rule,
                                       bool *out_stop);

#endif  // LS_ESTIMATOR_HOOKS_STOP_RULE_H_

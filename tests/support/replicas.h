// SPDX-License-Identifier: Apache-2.0
// Strategies, distributed values and variables for tests.
#ifndef LS_TESTS_SUPPORT_REPLICAS_H_
#define LS_TESTS_SUPPORT_REPLICAS_H_

#include "lockstep/cross_device.h"
#include "lockstep/eager.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy.h"
#include "lockstep/variable_parts.h"
#include "support/expect.h"
#include "support/spec.h"

// A mirrored strategy of `replicas` logical CPUs. The caller's.
ls_strategy *mirrored_of(int replicas);
// An eager f32 scalar, and one of another type.
ls_tensor scalar_of(double value);
// The number in a leaf: a host scalar, array or eager tensor of one element.
double number_of(ls_nest leaf);
// A distributed value of host scalars.
ls_nest distributed_numbers(ls_distributed_kind kind, const double *values,
                            size_t count);
// A PerReplica of eager f32 scalars.
ls_nest per_replica_scalars(const double *values, size_t count);
// Expects a distributed leaf with these numbers.
void expect_numbers(ls_nest leaf, const double *values, size_t count);
// Expects this text when printed.
void expect_printed(ls_nest nest, const char *text);

// A variable made in the strategy's scope: f32 scalars unless `dtype` is given.
typedef struct variable_kind {
  const char *name;  // Default "v".
  ls_dtype dtype;
  double initial;
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
} variable_kind;
ls_variable *variable_in(ls_strategy *strategy, variable_kind kind);
// Expects these values of a distributed variable's components, in eager.
void expect_components(ls_variable *variable, const double *values,
                       size_t count);
// Writes components one by one, in eager.
void set_components(ls_variable *variable, const double *values, size_t count);

// Runs a plain callback on all replicas; expects success. The caller's.
ls_nest run_on(ls_strategy *strategy, ls_callback callback, ls_nest args,
               void *user);
// Runs any callable on all replicas; expects success. The caller's.
ls_nest strategy_results(ls_strategy *strategy, ls_callable callable,
                         ls_nest args);
// Cross-device ops that reduce to one device. The caller's.
ls_cross_device *to_one(void);
// A mirrored strategy with these options.
ls_status mirrored_with(ls_mirrored_options options, ls_strategy **out);
// Expects this handle of a variable; NULL: that it has none.
void expect_handle(ls_variable *v, ls_variable *wanted);
// The first argument, a distributed value, as a tensor.
ls_tensor first_argument(ls_nest args);
// The first argument, an array or a tensor, as a tensor.
ls_tensor constant_argument(ls_nest args);

#endif  // LS_TESTS_SUPPORT_REPLICAS_H_

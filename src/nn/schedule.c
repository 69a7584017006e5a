// SPDX-License-Identifier: Apache-2.0
// Schedules: the learning rate's factor, as ops on the number of steps. All
// numbers are f64, so that step numbers are exact and a schedule does not
// depend on the type of the weights.
#include <math.h>

#include "graph/make/make.h"
#include "nn/optimizer.h"

static ls_tensor schedule_number(double value) {
  return ls_scalar(LS_DTYPE_F64, value);
}

ls_status ls_schedule_check(const char *kind, const ls_schedule *schedule) {
  if (schedule->kind > LS_SCHEDULE_STEP)
    return ls_invalid_argument("%s: there is no schedule %d", kind,
                               (int)schedule->kind);
  const bool steps_matter =
      schedule->kind != LS_SCHEDULE_CONSTANT && schedule->custom == NULL;
  if (schedule->steps < 0 || schedule->warmup < 0 ||
      (steps_matter && schedule->steps == 0))
    return ls_invalid_argument("%s: a schedule needs steps above 0 and a "
                               "warm-up of 0 or more, got %lld and %lld",
                               kind, (long long)schedule->steps,
                               (long long)schedule->warmup);
  LS_RETURN_IF_ERROR(
      ls_optimizer_check(kind, "schedule's end", schedule->end, INFINITY));
  return ls_optimizer_check(kind, "schedule's factor", schedule->factor,
                            INFINITY);
}

bool ls_schedule_changes(const ls_schedule *schedule) {
  return schedule->kind != LS_SCHEDULE_CONSTANT || schedule->warmup > 0 ||
         schedule->custom != NULL;
}

// Computes the factor `i` steps (an f64 scalar) after the warm-up.
static ls_tensor curve(const ls_schedule *schedule, ls_tensor i) {
  const double end = schedule->end;
  const double factor = schedule->factor != 0 ? schedule->factor : 0.1;
  const ls_tensor at = ls_div(i, schedule_number((double)schedule->steps));
  switch (schedule->kind) {
  case LS_SCHEDULE_LINEAR:
    return ls_add_scalar(
        ls_mul_scalar(ls_minimum(at, schedule_number(1)), end - 1), 1);
  case LS_SCHEDULE_COSINE: {
    const ls_tensor angle =
        ls_mul_scalar(ls_minimum(at, schedule_number(1)), M_PI);
    return ls_add_scalar(
        ls_mul_scalar(ls_add_scalar(ls_cos(angle), 1), (1 - end) / 2), end);
  }
  case LS_SCHEDULE_EXPONENTIAL:
    return ls_maximum(ls_pow(schedule_number(factor), at),
                      schedule_number(end));
  case LS_SCHEDULE_STEP: {
    // Converting to integers and back rounds towards zero.
    const ls_tensor whole =
        ls_convert(ls_convert(at, LS_DTYPE_I64), LS_DTYPE_F64);
    return ls_maximum(ls_pow(schedule_number(factor), whole),
                      schedule_number(end));
  }
  default:
    return schedule_number(1);
  }
}

ls_tensor ls_schedule_factor(const ls_schedule *schedule, ls_tensor step) {
  LS_MAKE_REQUIRE(schedule);
  const ls_tensor i = ls_convert(step, LS_DTYPE_I64);
  const ls_tensor warmup = ls_scalar_i64(LS_DTYPE_I64, schedule->warmup);
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I64, 0);
  const ls_tensor after =
      schedule->warmup > 0 ? ls_maximum(ls_sub(i, warmup), zero) : i;
  const ls_tensor factor =
      schedule->custom != NULL
          ? schedule->custom(after, schedule->user)
          : curve(schedule, ls_convert(after, LS_DTYPE_F64));
  if (schedule->warmup == 0) return factor;
  const ls_tensor rising = ls_div(ls_add_scalar(ls_convert(i, LS_DTYPE_F64), 1),
                                  schedule_number((double)schedule->warmup));
  return ls_select(ls_less(i, warmup), rising, factor);
}

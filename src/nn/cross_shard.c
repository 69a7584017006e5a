// SPDX-License-Identifier: Apache-2.0
// Cross-shard optimizers, for replicated computations: they sum each gradient
// over the replicas and pass it to an inner optimizer.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "graph/context.h"
#include "lockstep/cross_replica.h"
#include "lockstep/replicate.h"
#include "nn/optimizer.h"
#include "nn/own.h"
#include "runtime/eager/eager.h"

// ---- Create ----------------------------------------------------------------
static const ls_optimizer_rule rule = {.name = "cross_shard"};

static ls_status cross_shard_check(const ls_cross_shard_options *options) {
  if (options == NULL || options->optimizer == NULL)
    return ls_invalid_argument("cross_shard: the wrapped optimizer is missing");
  const ls_optimizer *inner = options->optimizer;
  if (options->reduction != LS_GRADIENTS_MEAN &&
      options->reduction != LS_GRADIENTS_SUM)
    return ls_invalid_argument("cross_shard: a reduction by %d: neither "
                               "LS_GRADIENTS_MEAN nor LS_GRADIENTS_SUM",
                               (int)options->reduction);
  if (inner->inner != NULL)
    return ls_invalid_argument("cross_shard: the optimizer inside is itself "
                               "around '%s': gradients would be added twice",
                               inner->inner->name);
  if (inner->over_replicas != LS_GRADIENTS_MEAN)
    return ls_invalid_argument("cross_shard: optimizer '%s' has its own way "
                               "with gradients over replicas: give "
                               "`reduction` instead",
                               inner->name);
  const ls_replica_groups *groups = options->groups;
  if (groups != NULL &&
      (groups->members == NULL || groups->size == 0 || groups->count == 0))
    return ls_invalid_argument("cross_shard: %zu groups of %zu members",
                               groups->count, groups->size);
  return ls_ok();
}

static ls_status keep_groups(ls_optimizer *optimizer,
                             const ls_replica_groups *groups) {
  const size_t count = groups->size * groups->count;
  LS_NEW_ARRAY_OR_RETURN(optimizer->allocator, int32_t, members, count);
  memcpy(members, groups->members, count * sizeof(*members));
  optimizer->one_group = groups->count == 1;
  for (size_t i = 0; i < count && optimizer->one_group; ++i) {
    size_t at = 0;
    while (at < count && members[at] != (int32_t)i)
      ++at;
    optimizer->one_group = at < count;
  }
  optimizer->groups = *groups;
  optimizer->groups.members = members;
  return ls_ok();
}

ls_status ls_cross_shard_create(const ls_cross_shard_options *options,
                                ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  LS_RETURN_IF_ERROR(cross_shard_check(options));
  LS_OWN(ls_optimizer, optimizer) = NULL;
  LS_RETURN_IF_ERROR(ls_optimizer_make(&rule, NULL, &optimizer));
  optimizer->over_replicas = options->reduction;
  optimizer->inner = ls_optimizer_retain(options->optimizer);
  if (options->groups != NULL)
    LS_RETURN_IF_ERROR(keep_groups(optimizer, options->groups));
  return ls_hand_over(&optimizer, out_optimizer);
}

// ---- Context ---------------------------------------------------------------
bool ls_cross_shard_sums(const ls_optimizer *optimizer) {
  return optimizer->inner != NULL && ls_context_current()->hooks == NULL;
}

ls_status ls_cross_shard_begin(const ls_optimizer *optimizer, ls_scope *scope) {
  if (optimizer->inner == NULL) return ls_ok();
  if (ls_context_current()->hooks != NULL)
    return optimizer->groups.members == NULL
               ? ls_ok()
               : ls_unimplemented("cross_shard: groups of replicas that run "
                                  "op by op: trace the step in a function");
  if (ls_context_replicas_here() > 0) return ls_ok();
  ls_log_limited(ls_runtime_current(), "cross_shard", 5, LS_LOG_WARNING, "nn",
                 "a cross-shard optimizer around '%s' is not in a replicated "
                 "computation, so the number of shards is unset: it is taken "
                 "to be 1",
                 optimizer->inner->name);
  ls_shard_scope_begin(scope, 1);
  return ls_scope_status();
}

// Returns the groups; NULL for a single group, because then it is known that
// all replicas get the same sum.
static const ls_replica_groups *groups_of(const ls_optimizer *optimizer) {
  const ls_replica_groups *groups = &optimizer->groups;
  return groups->members == NULL ||
                 (optimizer->one_group &&
                  groups->size == (size_t)ls_context_replicas())
             ? NULL
             : groups;
}

static ls_status cross_shard_sum(const ls_optimizer *optimizer, ls_tensor *x) {
  *x = ls_cross_replica_sum(*x, groups_of(optimizer));
  return ls_tensor_is_failed(*x) ? ls_made_status(*x) : ls_ok();
}

ls_status ls_cross_shard_find(const ls_optimizer *optimizer,
                              ls_shares *out_shares) {
  const ls_replica_groups *groups = groups_of(optimizer);
  *out_shares = (ls_shares){.replicas = groups != NULL ? (int32_t)groups->size
                                                       : ls_context_replicas()};
  out_shares->differ =
      out_shares->replicas > 1 && ls_replica_examples(&out_shares->count);
  if (!out_shares->differ || optimizer->over_replicas != LS_GRADIENTS_MEAN)
    return ls_ok();
  out_shares->total = out_shares->count;
  return cross_shard_sum(optimizer, &out_shares->total);
}

static ls_tensor sum_of_all(ls_tensor count) {
  return ls_cross_replica_sum(count, NULL);
}

ls_tensor ls_cross_shard_examples(void) {
  const ls_shares all = {.replicas = ls_context_replicas()};
  return ls_shares_examples(&all, sum_of_all);
}

// Sums a gradient over the group, and scales the mean. If the numbers of
// examples are equal, the bits are those of all_reduce's mean: one sum in f32
// or wider, one product, one rounding.
static ls_status cross_shard_reduce(const ls_optimizer *optimizer,
                                    const ls_shares *shares,
                                    ls_tensor *gradient) {
  const bool mean = optimizer->over_replicas == LS_GRADIENTS_MEAN;
  const ls_dtype dtype = ls_tensor_dtype(*gradient);
  ls_tensor x = ls_shares_given(shares, mean, *gradient);
  if (mean && ls_is_half(dtype)) x = ls_convert(x, LS_DTYPE_F32);
  LS_RETURN_IF_ERROR(cross_shard_sum(optimizer, &x));
  if (mean && shares->differ)
    x = ls_shares_divided(shares->total, x, dtype);
  else if (mean)
    x = ls_convert(ls_mul_scalar(x, 1.0 / shares->replicas), dtype);
  *gradient = x;
  return ls_ok();
}

ls_status ls_cross_shard_reduce(const ls_optimizer *optimizer,
                                const ls_shares *shares, ls_tensor *gradient) {
  if (ls_tensor_is_failed(*gradient)) return ls_made_status(*gradient);
  LS_COLOCATE_SCOPE(ls_tensor_op(*gradient));
  return cross_shard_reduce(optimizer, shares, gradient);
}

// SPDX-License-Identifier: Apache-2.0
//
// Collectives of replicated computations: checks the groups of replicas, then
// makes the ops that all strategies share.
#include "lockstep/cross_replica.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/replicate.h"

// ---- Checks ----------------------------------------------------------------
static ls_status check_place(const char *noun) {
  const ls_tpu_context *context = ls_tpu_context_current();
  if (context == NULL || context->outside == NULL) return ls_ok();
  return ls_invalid_argument("%s in cluster '%s', which is compiled outside of "
                             "computation '%s': collectives run on cores only",
                             noun, context->outside, context->name);
}

static void warn_of_one(const char *noun) {
  ls_graph *graph = ls_graph_current();
  if (ls_context_replicas_here() > 0 || graph == NULL) return;
  ls_tpu_log(graph->runtime, LS_LOG_WARNING,
             "%s outside of a replicated computation: it uses replica 0 alone",
             noun);
}

// ---- Groups ----------------------------------------------------------------
// Finds the first replica that is in two groups, in none, or does not exist.
static ls_status check_members(const char *noun,
                               const ls_replica_groups *groups,
                               size_t replicas) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, bool, seen, replicas);
  const size_t count = groups->size * groups->count;
  for (size_t i = 0; i < count; ++i) {
    const int32_t id = groups->members[i];
    if (id < 0 || (size_t)id >= replicas)
      return ls_invalid_argument(
          "%s: replica %d is in a group; there are replicas 0 to %zu", noun, id,
          replicas - 1);
    else if (seen[id])
      return ls_invalid_argument("%s: replica %d is in two groups", noun, id);
    else
      seen[id] = true;
  }
  for (size_t r = 0; r < replicas; ++r)
    if (!seen[r])
      return ls_invalid_argument("%s: replica %zu is in no group", noun, r);
  return ls_ok();
}

static ls_status check_groups(const char *noun,
                              const ls_replica_groups *groups) {
  LS_RETURN_IF_ERROR(check_place(noun));
  if (groups == NULL) {
    warn_of_one(noun);
    return ls_ok();
  }
  if (groups->size == 0 || groups->members == NULL)
    return ls_invalid_argument("%s: groups of %zu members", noun, groups->size);
  return check_members(noun, groups, (size_t)ls_context_replicas());
}

// ---- Sum -------------------------------------------------------------------
static ls_tensor sum_op(ls_tensor x, const ls_replica_groups *groups) {
  const size_t count = groups == NULL ? 0 : groups->size * groups->count;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, int64_t, members, count);
  if (members == NULL)
    return ls_make_failed("cross_replica_sum", ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    members[i] = groups->members[i];
  const ls_attr attrs[] = {
      LS_OWN_S(REDUCE, "sum"), LS_OWN_I(REPLICAS, ls_context_replicas()),
      LS_OWN_IS(GROUPS, members, count),
      LS_OWN_I(GROUP_SIZE, groups == NULL ? 1 : (int64_t)groups->size)};
  const ls_tensor made =
      ls_make(LS_OP_CROSS_REPLICA_SUM, &x, 1, attrs, groups == NULL ? 2 : 4);
  return groups == NULL ? ls_same_note(made) : made;
}

ls_tensor ls_cross_replica_sum(ls_tensor x, const ls_replica_groups *groups) {
  const char *noun = "cross_replica_sum";
  ls_status status = check_groups(noun, groups);
  const ls_dtype dtype = ls_tensor_dtype(x);
  if (ls_status_is_ok(status) && !ls_tensor_is_failed(x) &&
      !ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype))
    status = ls_invalid_argument("%s of %s: integers and floats are added",
                                 noun, ls_dtype_name(dtype));
  if (!ls_status_is_ok(status)) return ls_make_failed(noun, status);
  // Replicas that run op by op reduce through their strategy's collective.
  return ls_context_current()->hooks != NULL
             ? ls_all_reduce_in(LS_REDUCE_SUM, x, groups)
             : sum_op(x, groups);
}

// ---- Exchanges -------------------------------------------------------------
static ls_status check_axis(const char *noun, const char *name, int axis,
                            int32_t rank) {
  if (axis >= 0 && axis < rank) return ls_ok();
  return ls_invalid_argument("%s: %s %d of a value of rank %d", noun, name,
                             axis, rank);
}

static ls_status check_exchange(const char *noun, ls_tensor x, int concat_axis,
                                int split_axis, int64_t split_count,
                                const ls_replica_groups *groups) {
  LS_RETURN_IF_ERROR(check_groups(noun, groups));
  const int64_t size =
      groups != NULL ? (int64_t)groups->size : ls_context_replicas();
  if (split_count < 1)
    return ls_invalid_argument("%s: split count %lld is less than 1", noun,
                               (long long)split_count);
  if (split_count != size)
    return ls_invalid_argument(
        "%s: split count %lld for groups of %lld members", noun,
        (long long)split_count, (long long)size);
  const ls_shape shape = ls_tensor_shape(x);
  if (ls_tensor_is_failed(x) || shape.rank < 0) return ls_ok();
  LS_RETURN_IF_ERROR(check_axis(noun, "concat axis", concat_axis, shape.rank));
  LS_RETURN_IF_ERROR(check_axis(noun, "split axis", split_axis, shape.rank));
  const int64_t rows = shape.dim[split_axis];
  if (rows >= 0 && rows % split_count != 0)
    return ls_invalid_argument(
        "%s: dimension %d of size %lld cannot be split into %lld parts", noun,
        split_axis, (long long)rows, (long long)split_count);
  return ls_ok();
}

ls_tensor ls_cross_replica_all_to_all(ls_tensor x, int concat_axis,
                                      int split_axis, int64_t split_count,
                                      const ls_replica_groups *groups) {
  const ls_status status = check_exchange("all_to_all", x, concat_axis,
                                          split_axis, split_count, groups);
  return ls_status_is_ok(status)
             ? ls_all_to_all(x, split_axis, concat_axis, groups)
             : ls_make_failed("all_to_all", status);
}

ls_tensor ls_cross_replica_permute(ls_tensor x, const int32_t (*pairs)[2],
                                   size_t num_pairs) {
  const ls_status status = check_place("collective_permute");
  return ls_status_is_ok(status) ? ls_collective_permute(x, pairs, num_pairs)
                                 : ls_make_failed("collective_permute", status);
}

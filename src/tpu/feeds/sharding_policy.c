// SPDX-License-Identifier: Apache-2.0
//
// Sharding policy: how one element of an infeed's tuples is cut over replicas.
// A plain value.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "lockstep/infeed.h"
#include "tpu/feeds/feed.h"

#define SHAPE_TEXT(shape) LS_SHAPE_TEXT(LS_DTYPE_F32, shape) + 3

bool ls_sharding_policy_is_set(const ls_sharding_policy *policy) {
  return policy->num_shards.set && policy->dimension.set;
}

const char *ls_sharding_policy_print(const ls_sharding_policy *policy,
                                     char *buffer, size_t size) {
  if (ls_sharding_policy_is_set(policy))
    snprintf(buffer, size, "ShardingPolicy(%lld shards dimension %lld)",
             policy->num_shards.value, policy->dimension.value);
  else
    snprintf(buffer, size, "ShardingPolicy(unset)");
  return buffer;
}

static void fill_defaults(ls_sharding_policy *policy) {
  if (!policy->num_shards.set) policy->num_shards = LS_SOME(1);
  if (!policy->dimension.set) policy->dimension = LS_SOME(0);
}

void ls_sharding_policy_freeze(ls_sharding_policy *policy) {
  fill_defaults(policy);
  policy->frozen = true;
}

// ---- Setting ---------------------------------------------------------------
static ls_status sharding_policy_set(const ls_sharding_policy *policy,
                                     ls_opt *field, const char *noun,
                                     int64_t least, int64_t value) {
  if (policy->frozen && field->value != value)
    return ls_invalid_argument(
        "the %s of a frozen sharding policy is %lld, it cannot become %" PRId64,
        noun, field->value, value);
  if (value < least)
    return ls_invalid_argument(
        "the %s of a sharding policy must be at least %" PRId64 ", is %" PRId64,
        noun, least, value);
  *field = LS_SOME(value);
  return ls_ok();
}

ls_status ls_sharding_policy_set_num_shards(ls_sharding_policy *policy,
                                            int64_t count) {
  LS_REQUIRE(policy);
  return sharding_policy_set(policy, &policy->num_shards, "number of shards", 1,
                             count);
}

ls_status ls_sharding_policy_set_dimension(ls_sharding_policy *policy,
                                           int64_t dimension) {
  LS_REQUIRE(policy);
  return sharding_policy_set(policy, &policy->dimension, "shard dimension", 0,
                             dimension);
}

int64_t ls_sharding_policy_num_partitions(const ls_sharding_policy *policy) {
  return policy->num_partitions.set ? policy->num_partitions.value : 1;
}

ls_status ls_sharding_policy_set_num_partitions(ls_sharding_policy *policy,
                                                int64_t count) {
  LS_REQUIRE(policy);
  ls_opt partitions = LS_SOME(ls_sharding_policy_num_partitions(policy));
  LS_RETURN_IF_ERROR(sharding_policy_set(policy, &partitions,
                                         "number of partitions", 1, count));
  policy->num_partitions = partitions;
  return ls_ok();
}

ls_status ls_sharding_policy_merge(ls_sharding_policy *policy,
                                   const ls_sharding_policy *other) {
  LS_REQUIRE(policy, other);
  ls_sharding_policy merged = *policy;
  if (other->num_shards.set)
    LS_RETURN_IF_ERROR(
        ls_sharding_policy_set_num_shards(&merged, other->num_shards.value));
  if (other->dimension.set)
    LS_RETURN_IF_ERROR(
        ls_sharding_policy_set_dimension(&merged, other->dimension.value));
  *policy = merged;
  return ls_ok();
}

// ---- Shapes ----------------------------------------------------------------
// Checks that the shape has the dimension that is sharded.
static ls_status check_dimension(const ls_sharding_policy *policy,
                                 ls_shape shape) {
  if (shape.rank == LS_UNKNOWN_RANK || policy->dimension.value >= shape.rank)
    return ls_invalid_argument(
        "a value of shape %s cannot be cut along dimension %lld into %lld "
        "shards: its rank must be known and above %lld",
        SHAPE_TEXT(shape), policy->dimension.value, policy->num_shards.value,
        policy->dimension.value);
  return ls_ok();
}

ls_status ls_sharding_policy_shard_shape(const ls_sharding_policy *policy,
                                         ls_shape shape, ls_opt shard,
                                         ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  LS_REQUIRE(policy);
  if (!ls_sharding_policy_is_set(policy)) return ls_ok();
  const int64_t count = policy->num_shards.value;
  if (shard.set && (shard.value < 0 || shard.value >= count))
    return ls_invalid_argument("there is no shard %lld: there are %" PRId64
                               ", from 0 on",
                               shard.value, count);
  if (count > 1) {
    LS_RETURN_IF_ERROR(check_dimension(policy, shape));
    int64_t *size = &shape.dim[policy->dimension.value];
    if (*size == LS_UNKNOWN_DIM || *size % count != 0)
      return ls_invalid_argument(
          "a value of shape %s cannot be cut along dimension %lld into %" PRId64
          " shards: that size must be known and a multiple of %" PRId64,
          SHAPE_TEXT(shape), policy->dimension.value, count, count);
    *size /= count;
  }
  *out_shape = shape;
  return ls_ok();
}

// Multiplies the sharded dimension of a shard's shape by the number of shards.
static ls_status multiply(const ls_sharding_policy *policy, ls_shape *shape) {
  LS_RETURN_IF_ERROR(check_dimension(policy, *shape));
  int64_t *size = &shape->dim[policy->dimension.value];
  if (*size == LS_UNKNOWN_DIM)
    return ls_invalid_argument(
        "a shard of shape %s has no known size along dimension %lld",
        SHAPE_TEXT(*shape), policy->dimension.value);
  if (__builtin_mul_overflow(*size, (int64_t)policy->num_shards.value, size))
    return ls_invalid_argument("%lld shards are too large together",
                               policy->num_shards.value);
  return ls_ok();
}

static ls_status unshard(const ls_sharding_policy *policy,
                         const ls_shape *shapes, size_t count,
                         ls_shape *out_shape) {
  if ((int64_t)count != policy->num_shards.value)
    return ls_invalid_argument(
        "there are %zu shapes for %lld shards: one each is needed", count,
        policy->num_shards.value);
  if (count == 1) {
    *out_shape = shapes[0];
    return ls_ok();
  }
  ls_shape whole = shapes[0];
  LS_RETURN_IF_ERROR(multiply(policy, &whole));
  for (size_t i = 1; i < count; ++i) {
    ls_shape shape = shapes[i];
    LS_RETURN_IF_ERROR(multiply(policy, &shape));
    if (!ls_shape_equal(whole, shape))
      return ls_invalid_argument(
          "shard %zu has shape %s, shard 0 %s: all must have the same", i,
          SHAPE_TEXT(shapes[i]), SHAPE_TEXT(shapes[0]));
  }
  *out_shape = whole;
  return ls_ok();
}

ls_status ls_sharding_policy_unshard_shape(ls_sharding_policy *policy,
                                           const ls_shape *shapes, size_t count,
                                           ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  LS_REQUIRE(policy);
  LS_REQUIRE_ITEMS(shapes, count);
  ls_sharding_policy filled = *policy;
  fill_defaults(&filled);
  LS_RETURN_IF_ERROR(unshard(&filled, shapes, count, out_shape));
  *policy = filled;
  return ls_ok();
}

ls_status ls_sharding_policy_unpartition_shape(const ls_sharding_policy *policy,
                                               ls_shape shape,
                                               ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  LS_REQUIRE(policy);
  const int64_t count = ls_sharding_policy_num_partitions(policy);
  const long long dimension =
      policy->dimension.set ? policy->dimension.value : 0;
  if (count > 1 && shape.rank != 0)
    if (shape.rank == LS_UNKNOWN_RANK || dimension >= shape.rank ||
        shape.dim[dimension] == LS_UNKNOWN_DIM ||
        __builtin_mul_overflow(shape.dim[dimension], count,
                               &shape.dim[dimension]))
      return ls_invalid_argument(
          "a value of shape %s is one of %" PRId64
          " partitions along dimension %lld: that size must be known",
          SHAPE_TEXT(shape), count, dimension);
  *out_shape = shape;
  return ls_ok();
}

int64_t ls_components_count(ls_shape parts) {
  int64_t count = 1;
  for (int32_t k = 0; k < parts.rank; ++k)
    if (__builtin_mul_overflow(count, parts.dim[k], &count)) return INT64_MAX;
  return count;
}

ls_status ls_components_check_count(ls_shape parts, int64_t cores) {
  if (ls_components_are_whole(parts)) return ls_ok();
  for (int32_t k = 0; k < parts.rank; ++k)
    if (parts.dim[k] < 1)
      return ls_invalid_argument("the partition dims %s must all be at least 1",
                                 LS_PARTS_TEXT(parts));
  const int64_t count = ls_components_count(parts);
  if (count == 1 || count == cores) return ls_ok();
  return ls_invalid_argument("the partition dims %s make %" PRId64
                             " pieces; a replica has %" PRId64 " cores",
                             LS_PARTS_TEXT(parts), count, cores);
}

ls_status ls_components_check(ls_shape shape, ls_shape parts, int64_t cores) {
  if (ls_components_are_whole(parts)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_components_check_count(parts, cores));
  if (ls_components_count(parts) == 1) return ls_ok();
  if (!ls_shape_is_known(shape))
    return ls_invalid_argument("a value of shape %s cannot be cut by the "
                               "partition dims %s: its shape must be known",
                               LS_PARTS_TEXT(shape), LS_PARTS_TEXT(parts));
  if (shape.rank != parts.rank)
    return ls_invalid_argument(
        "a value of shape %s cannot be cut by the partition dims %s: there "
        "must be one for each dimension",
        LS_PARTS_TEXT(shape), LS_PARTS_TEXT(parts));
  return ls_ok();
}

static int64_t pieces_least(int64_t a, int64_t b) { return a < b ? a : b; }

bool ls_piece_of(ls_shape shape, ls_shape parts, int64_t core,
                 ls_piece *out_piece) {
  *out_piece = (ls_piece){.start = {.rank = shape.rank}, .shape = shape};
  if (ls_components_are_whole(parts)) return true;
  if (ls_components_count(parts) == 1) return core == 0;
  for (int32_t k = parts.rank; k-- > 0;) {
    const int64_t size = shape.dim[k], at = core % parts.dim[k];
    const int64_t most = (size + parts.dim[k] - 1) / parts.dim[k];
    core /= parts.dim[k];
    out_piece->start.dim[k] = pieces_least(at * most, size);
    out_piece->shape.dim[k] =
        pieces_least(most, size - out_piece->start.dim[k]);
  }
  return true;
}

void ls_piece_copy(const ls_piece *piece, ls_shape shape, size_t item,
                   const void *from, void *to) {
  const char *source = from;
  if (ls_shape_num_elements(piece->shape) == 0) return;
  if (shape.rank == 0) {
    memcpy(to, from, item);
    return;
  }
  const int32_t last = shape.rank - 1;
  const size_t row = (size_t)piece->shape.dim[last] * item;
  int64_t at[LS_MAX_RANK] = {0};
  for (;;) {
    int64_t place = 0;
    for (int32_t k = 0; k <= last; ++k)
      place = place * shape.dim[k] + piece->start.dim[k] + at[k];
    memcpy((char *)to + (size_t)place * item, source, row);
    source += row;
    int32_t k = last;
    while (--k >= 0 && ++at[k] == piece->shape.dim[k])
      at[k] = 0;
    if (k < 0) return;
  }
}

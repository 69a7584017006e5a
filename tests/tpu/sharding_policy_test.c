// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infeed.h"
#include "lockstep/shape_rules.h"

#include <string.h>

#include "support/expect.h"
#include "support/spec.h"

static const char *text_of(const ls_sharding_policy *policy) {
  static char text[100];
  return ls_sharding_policy_print(policy, text, sizeof(text));
}

static ls_sharding_policy of(int64_t shards, int64_t dimension) {
  return (ls_sharding_policy){.num_shards = LS_SOME(shards),
                              .dimension = LS_SOME(dimension)};
}

TEST(a_policy_says_nothing_at_first) {
  LS_SPEC("O145");
  ls_sharding_policy p = {0};
  assert_false(p.num_shards.set || p.dimension.set || p.frozen);
  assert_int_equal(ls_sharding_policy_num_partitions(&p), 1);
  assert_string_equal(text_of(&p), "ShardingPolicy(unset)");
  expect_ok(ls_sharding_policy_set_num_shards(&p, 17));
  assert_string_equal(text_of(&p), "ShardingPolicy(unset)");
  expect_ok(ls_sharding_policy_set_dimension(&p, 8));
  assert_string_equal(text_of(&p), "ShardingPolicy(17 shards dimension 8)");
  p = (ls_sharding_policy){.dimension = LS_SOME(8)};
  assert_string_equal(text_of(&p), "ShardingPolicy(unset)");
}

TEST(freezing_fills_in_one_shard_of_dimension_0) {
  LS_SPEC("O146");
  ls_sharding_policy p = {0};
  expect_ok(ls_sharding_policy_set_num_partitions(&p, 4));
  ls_sharding_policy_freeze(&p);
  ls_sharding_policy_freeze(&p);
  assert_true(p.frozen);
  assert_string_equal(text_of(&p), "ShardingPolicy(1 shards dimension 0)");
  assert_int_equal(ls_sharding_policy_num_partitions(&p), 4);
  p = (ls_sharding_policy){.num_shards = LS_SOME(3)};
  ls_sharding_policy_freeze(&p);
  assert_string_equal(text_of(&p), "ShardingPolicy(3 shards dimension 0)");
  expect_status(ls_sharding_policy_set_num_shards(&p, 4), LS_INVALID_ARGUMENT,
                "3");
  assert_string_equal(text_of(&p), "ShardingPolicy(3 shards dimension 0)");
}

TEST(setters_refuse_what_cannot_be) {
  LS_SPEC("O147");
  ls_sharding_policy p = {0};
  expect_status(ls_sharding_policy_set_num_shards(&p, 0), LS_INVALID_ARGUMENT,
                "0");
  expect_status(ls_sharding_policy_set_num_shards(&p, -2), LS_INVALID_ARGUMENT,
                "-2");
  expect_status(ls_sharding_policy_set_dimension(&p, -1), LS_INVALID_ARGUMENT,
                "-1");
  assert_false(p.num_shards.set || p.dimension.set);
  expect_ok(ls_sharding_policy_set_num_shards(&p, 2));
  expect_ok(ls_sharding_policy_set_num_shards(&p, 5));
  expect_ok(ls_sharding_policy_set_dimension(&p, 0));
  expect_ok(ls_sharding_policy_set_dimension(&p, 1));
  expect_ok(ls_sharding_policy_set_num_partitions(&p, 2));
  ls_sharding_policy_freeze(&p);
  expect_ok(ls_sharding_policy_set_num_shards(&p, 5));
  expect_ok(ls_sharding_policy_set_dimension(&p, 1));
  expect_ok(ls_sharding_policy_set_num_partitions(&p, 2));
  expect_status(ls_sharding_policy_set_num_shards(&p, 6), LS_INVALID_ARGUMENT,
                "5");
  expect_status(ls_sharding_policy_set_num_shards(&p, 6), LS_INVALID_ARGUMENT,
                "6");
  expect_status(ls_sharding_policy_set_dimension(&p, 0), LS_INVALID_ARGUMENT,
                "1");
  expect_status(ls_sharding_policy_set_num_partitions(&p, 1),
                LS_INVALID_ARGUMENT, "2");
  assert_string_equal(text_of(&p), "ShardingPolicy(5 shards dimension 1)");
  assert_int_equal(ls_sharding_policy_num_partitions(&p), 2);
}

TEST(merging_sets_only_what_the_other_says) {
  LS_SPEC("O148");
  ls_sharding_policy p = of(2, 1);
  expect_ok(ls_sharding_policy_merge(&p, &(ls_sharding_policy){0}));
  assert_string_equal(text_of(&p), "ShardingPolicy(2 shards dimension 1)");
  expect_ok(ls_sharding_policy_merge(
      &p, &(ls_sharding_policy){.dimension = LS_SOME(3)}));
  assert_string_equal(text_of(&p), "ShardingPolicy(2 shards dimension 3)");
  expect_ok(ls_sharding_policy_merge(
      &p, &(ls_sharding_policy){.num_shards = LS_SOME(7)}));
  assert_string_equal(text_of(&p), "ShardingPolicy(7 shards dimension 3)");
  ls_sharding_policy_freeze(&p);
  const ls_sharding_policy same = of(7, 3), other = of(7, 2);
  expect_ok(ls_sharding_policy_merge(&p, &same));
  expect_status(ls_sharding_policy_merge(&p, &other), LS_INVALID_ARGUMENT, "3");
  // Half of it is nothing of it.
  ls_sharding_policy q = of(2, 1);
  const ls_sharding_policy bad = of(4, -1);
  expect_status(ls_sharding_policy_merge(&q, &bad), LS_INVALID_ARGUMENT, "-1");
  assert_string_equal(text_of(&q), "ShardingPolicy(2 shards dimension 1)");
}

// ---- Shapes ----------------------------------------------------------------
typedef struct shape_case {
  int64_t shards, dimension;
  ls_opt shard;
  const char *shape, *sharded;  // NULL: refused.
  const char *says[3];
} shape_case;

static ls_shape shape_of(const char *text) {
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_shape shape = LS_SCALAR;
  expect_ok(ls_shape_parse(text, &dtype, &shape));
  return shape;
}

static void expect_shape(ls_shape got, const char *wanted) {
  assert_string_equal(LS_SHAPE_TEXT(LS_DTYPE_F32, got), wanted);
}

TEST(shards_are_equal_parts_of_one_dimension) {
  LS_SPEC("O149 E109");
  static const shape_case cases[] = {
      {1, 0, {0}, "f32[]", "f32[]", {0}},
      {1, 5, {0}, "f32[3,?]", "f32[3,?]", {0}},
      {1, 5, {0}, "f32[...]", "f32[...]", {0}},
      {4, 0, {0}, "f32[8,3]", "f32[2,3]", {0}},
      {3, 1, {true, 2}, "f32[8,3]", "f32[8,1]", {0}},
      {2, 0, {0}, "f32[0,?]", "f32[0,?]", {0}},
      {2, 0, {true, 2}, "f32[8]", NULL, {"2"}},
      {2, 0, {true, -1}, "f32[8]", NULL, {"-1"}},
      {1, 0, {true, 1}, "f32[8]", NULL, {"1"}},
      {2, 0, {0}, "f32[]", NULL, {"[]", "dimension 0", "2"}},
      {2, 2, {0}, "f32[8,8]", NULL, {"[8,8]", "dimension 2", "2"}},
      {2, 0, {0}, "f32[...]", NULL, {"[...]", "dimension 0", "2"}},
      {4, 1, {0}, "f32[8,?]", NULL, {"[8,?]", "dimension 1", "4"}},
      {3, 0, {0}, "f32[8]", NULL, {"[8]", "dimension 0", "3"}},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    const shape_case *c = &cases[i];
    const ls_sharding_policy p = of(c->shards, c->dimension);
    ls_shape got = LS_SCALAR;
    if (c->sharded != NULL) {
      expect_ok(ls_sharding_policy_shard_shape(&p, shape_of(c->shape), c->shard,
                                               &got));
      expect_shape(got, c->sharded);
      continue;
    }
    for (int k = 0; k < 3 && c->says[k] != NULL; ++k)
      expect_status(ls_sharding_policy_shard_shape(&p, shape_of(c->shape),
                                                   c->shard, &got),
                    LS_INVALID_ARGUMENT, c->says[k]);
  }
  ls_shape got = LS_SCALAR;
  ls_sharding_policy unset = {.num_shards = LS_SOME(3)};
  expect_ok(
      ls_sharding_policy_shard_shape(&unset, LS_SHAPE(8), (ls_opt){0}, &got));
  expect_shape(got, "f32[...]");
}

TEST(shards_make_up_the_whole) {
  LS_SPEC("O150");
  ls_shape got = LS_SCALAR;
  ls_sharding_policy p = {0};
  const ls_shape unknown = LS_SHAPE_UNKNOWN;
  expect_ok(ls_sharding_policy_unshard_shape(&p, &unknown, 1, &got));
  expect_shape(got, "f32[...]");
  assert_string_equal(text_of(&p), "ShardingPolicy(1 shards dimension 0)");
  p = of(3, 1);
  const ls_shape even[] = {LS_SHAPE(4, 2), LS_SHAPE(4, 2), LS_SHAPE(4, 2)};
  expect_ok(ls_sharding_policy_unshard_shape(&p, even, 3, &got));
  expect_shape(got, "f32[4,6]");
  expect_status(ls_sharding_policy_unshard_shape(&p, even, 2, &got),
                LS_INVALID_ARGUMENT, "3");
  const ls_shape bad[][3] = {
      {LS_SHAPE(4, 2), LS_SHAPE_UNKNOWN, LS_SHAPE(4, 2)},
      {LS_SHAPE(4), LS_SHAPE(4), LS_SHAPE(4)},
      {LS_SHAPE(4, 2), LS_SHAPE(4, 2), LS_SHAPE(4, 3)},
      {LS_SHAPE(4, 2), LS_SHAPE(4, -1), LS_SHAPE(4, 2)},
      {LS_SHAPE(4, 2), LS_SHAPE(5, 2), LS_SHAPE(4, 2)},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i)
    expect_status(ls_sharding_policy_unshard_shape(&p, bad[i], 3, &got),
                  LS_INVALID_ARGUMENT, "[");
}

TEST(partitions_make_up_a_shard) {
  LS_SPEC("O151");
  ls_shape got = LS_SCALAR;
  ls_sharding_policy p = of(2, 1);
  expect_ok(ls_sharding_policy_unpartition_shape(&p, LS_SHAPE(3, -1), &got));
  expect_shape(got, "f32[3,?]");
  expect_ok(ls_sharding_policy_set_num_partitions(&p, 4));
  expect_ok(ls_sharding_policy_unpartition_shape(&p, LS_SHAPE(3, 5), &got));
  expect_shape(got, "f32[3,20]");
  expect_ok(ls_sharding_policy_unpartition_shape(&p, LS_SCALAR, &got));
  expect_shape(got, "f32[]");
  expect_status(ls_sharding_policy_unpartition_shape(&p, LS_SHAPE(3, -1), &got),
                LS_INVALID_ARGUMENT, "dimension 1");
  expect_status(
      ls_sharding_policy_unpartition_shape(&p, LS_SHAPE_UNKNOWN, &got),
      LS_INVALID_ARGUMENT, "dimension 1");
}

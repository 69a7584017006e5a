// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient against the reference.
#include <math.h>
#include <stdlib.h>

#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

typedef struct shape {
  ls_dtype dtype;
  int64_t batch, queries, keys, heads, depth, value_depth;
  bool causal, packed;
  double scale;  // 0: by the depth.
} shape;

static ls_type type_of(const shape *s, int64_t tokens, int64_t depth) {
  return (ls_type){s->dtype, LS_SHAPE(s->batch, tokens, s->heads * depth)};
}

static void add_operands(loop_case *c, const shape *s, loop_random *random) {
  if (s->packed) {
    loop_case_add(c, type_of(s, s->queries, 3 * s->depth), -1, 1, random);
  } else {
    loop_case_add(c, type_of(s, s->queries, s->depth), -1, 1, random);
    loop_case_add(c, type_of(s, s->keys, s->depth), -1, 1, random);
    loop_case_add(c, type_of(s, s->keys, s->value_depth), -1, 1, random);
  }
  loop_case_attr(c, LS_ATTR_I("num_heads", s->heads));
  loop_case_attr(c, LS_ATTR_B("causal", s->causal));
  if (s->scale != 0) loop_case_attr(c, LS_ATTR_F("scale", s->scale));
}

static void check_attention(const shape *s, loop_random *random) {
  loop_case c = {.op = LS_OP_ATTENTION,
                 .out = type_of(s, s->queries, s->value_depth)};
  add_operands(&c, s, random);
  loop_case_agrees(&c, 8);
}

static void check_attention_grad(const shape *s, loop_random *random) {
  loop_case c = {.op = LS_OP_ATTENTION_GRAD};
  loop_case_add(&c, type_of(s, s->queries, s->value_depth), -1, 1, random);
  add_operands(&c, s, random);
  c.out = c.in[1];
  for (uint32_t i = 2; i < c.num_in; ++i)
    loop_case_add_output(&c, c.in[i]);
  loop_case_agrees(&c, 8);
}

static shape random_shape(ls_dtype dtype, int round, loop_random *random) {
  shape s = {.dtype = dtype,
             .batch = loop_random_between(random, 1, 3),
             .queries = loop_random_between(random, 1, 20),
             .keys = loop_random_between(random, 1, 20),
             .heads = loop_random_between(random, 1, 3),
             .depth = loop_random_between(random, 1, 20),
             .value_depth = loop_random_between(random, 1, 20),
             .causal = round & 1,
             .packed = (round & 2) != 0,
             .scale = round & 4 ? 0.3 : 0};
  if (round % 5 == 4) s.queries = 170;
  if (s.causal || s.packed) s.keys = s.queries;
  if (s.packed) s.value_depth = s.depth;
  return s;
}

TEST(attention_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int round = 0; round < (LS_SANITIZED ? 4 : 12); ++round) {
      const shape s = random_shape(loop_types[t], round, &random);
      check_attention(&s, &random);
      check_attention_grad(&s, &random);
    }
}

TEST(long_sequences_go_in_bands) {
  loop_random random = {loop_random_seed()};
  for (int i = 0; i < 4; ++i) {
    const shape s = {.dtype = i & 2 ? LS_DTYPE_BF16 : LS_DTYPE_F32,
                     .batch = 1,
                     .queries = 301,
                     .keys = i & 1 ? 301 : 1500,
                     .heads = 2,
                     .depth = 4,
                     .value_depth = 3,
                     .causal = i & 1};
    check_attention(&s, &random);
    check_attention_grad(&s, &random);
  }
}

// Whole lines, of one panel and a half, or so far apart that they are copied.
TEST(rows_that_are_whole_lines_agree) {
  loop_random random = {loop_random_seed()};
  for (int i = 0; i < 4; ++i) {
    const shape s = {.dtype = LS_DTYPE_F32,
                     .batch = 2,
                     .queries = 45,
                     .keys = 45,
                     .heads = i & 1 ? 16 : 2,
                     .depth = i & 1 ? 64 : 48,
                     .value_depth = i & 1 ? 64 : 48,
                     .causal = i & 2,
                     .packed = true};
    check_attention(&s, &random);
    check_attention_grad(&s, &random);
  }
}

TEST(nothing_to_attend_to_is_fine) {
  loop_random random = {loop_random_seed()};
  shape s = {LS_DTYPE_F32, 2, 0, 5, 2, 3, 4, false, false, 0};
  check_attention(&s, &random);
  check_attention_grad(&s, &random);
  s.queries = s.keys = 0;
  check_attention(&s, &random);
  check_attention_grad(&s, &random);
}

enum { SEEN = 30, DEPTH = 16 };

static loop_case causal_case(uint16_t op) {
  const shape s = {LS_DTYPE_F32, 1,     SEEN, SEEN,  1,
                   DEPTH,        DEPTH, true, false, 0};
  loop_random random = {11};
  loop_case c = {.op = op, .out = type_of(&s, SEEN, DEPTH)};
  if (op == LS_OP_ATTENTION_GRAD) {
    loop_case_add(&c, c.out, -1, 1, &random);
    loop_case_add_output(&c, c.out);
    loop_case_add_output(&c, c.out);
  }
  add_operands(&c, &s, &random);
  return c;
}

static void fill_row(void *data, size_t row, float value) {
  for (size_t j = 0; j < DEPTH; ++j)
    ((float *)data)[row * DEPTH + j] = value;
}

static void expect_equal_rows(const void *a, const void *b, size_t begin,
                              size_t end) {
  const size_t row = DEPTH * sizeof(float);
  assert_memory_equal((const char *)a + begin * row,
                      (const char *)b + begin * row, (end - begin) * row);
}

// Not even as 0 times infinity.
TEST(what_a_query_does_not_see_does_not_show) {
  LS_OWN(loop_case, c) = causal_case(LS_OP_ATTENTION);
  HEAP(void, want) = loop_case_run(&c);
  fill_row(c.data[1], SEEN - 1, NAN);
  fill_row(c.data[2], SEEN - 1, INFINITY);
  HEAP(void, got) = loop_case_run(&c);
  expect_equal_rows(want, got, 0, SEEN - 1);
}

TEST(keys_have_no_gradient_of_queries_before_them) {
  loop_case a = causal_case(LS_OP_ATTENTION_GRAD);
  LS_OWN(loop_case, b) = causal_case(LS_OP_ATTENTION_GRAD);
  fill_row(b.data[0], 0, INFINITY);
  void *want = loop_case_run(&a), *got = loop_case_run(&b);
  expect_equal_rows(want, got, 1, SEEN);
  expect_equal_rows(a.results[0], b.results[0], 1, SEEN);
  expect_equal_rows(a.results[1], b.results[1], 1, SEEN);
  free(want);
  free(got);
  loop_case_deinit(&a);
}

TEST(attention_has_the_same_bytes_on_every_instruction_set) {
  static const char *const names[] = {"base", "v3", "v4"};
  for (int i = 0; i < 3; ++i) {
    const int64_t depth = i == 2 ? 48 : 17;
    const shape s = {i == 1 ? LS_DTYPE_F64 : LS_DTYPE_F32,
                     2,
                     150,
                     150,
                     2,
                     depth,
                     depth,
                     true,
                     true,
                     0};
    HEAP(void, first) = NULL;
    const ls_type type = type_of(&s, s.queries, 3 * s.depth);
    for (size_t k = 0; k < LS_COUNT_OF(names); ++k) {
      if (ls_cpu_kernels_find(names[k]) == NULL) continue;
      loop_random random = {7};
      LS_OWN(loop_case, c) = {
          .op = LS_OP_ATTENTION_GRAD, .out = type, .kernels = names[k]};
      loop_case_add(&c, type_of(&s, s.queries, s.depth), -1, 1, &random);
      add_operands(&c, &s, &random);
      void *got = loop_case_run(&c);
      if (first != NULL)
        assert_memory_equal(first, got,
                            (size_t)ls_shape_num_elements(type.shape) *
                                ls_dtype_size(type.dtype));
      if (first == NULL)
        first = got;
      else
        free(got);
    }
  }
}

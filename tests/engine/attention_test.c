// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient against plain loops in double.
#include <math.h>
#include <stdlib.h>

#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype floats[] = {LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16,
                                  LS_DTYPE_BF16};

typedef struct shape {
  ls_dtype dtype;
  int64_t batch, queries, keys, heads, depth, value_depth;
  bool causal, packed;
  double scale;  // 0: by the depth.
} shape;

// One of q, k, v or the result in an array.
typedef struct part {
  ls_dtype dtype;
  const void *data;
  int64_t tokens, width, offset, depth;
} part;

static double at(const part *p, int64_t batch, int64_t token, int64_t head,
                 int64_t i) {
  return loop_read(p->dtype, p->data,
                   (batch * p->tokens + token) * p->width + p->offset +
                       head * p->depth + i);
}

static int64_t index_of(const part *p, int64_t batch, int64_t token,
                        int64_t head, int64_t i) {
  return (batch * p->tokens + token) * p->width + p->offset + head * p->depth +
         i;
}

static ls_type type_of(const shape *s, int64_t tokens, int64_t depth) {
  return (ls_type){s->dtype, LS_SHAPE(s->batch, tokens, s->heads * depth)};
}

// Adds the operands and says where q, k and v are.
static void add_operands(loop_case *c, const shape *s, part parts[3],
                         loop_random *random) {
  const int64_t tokens[] = {s->queries, s->keys, s->keys};
  const int64_t depths[] = {s->depth, s->depth, s->value_depth};
  const void *data = NULL;
  if (s->packed)
    data =
        loop_case_add(c, type_of(s, s->queries, 3 * s->depth), -1, 1, random);
  for (int i = 0; i < 3; ++i) {
    const int64_t width = s->heads * depths[i];
    if (!s->packed)
      data = loop_case_add(c, type_of(s, tokens[i], depths[i]), -1, 1, random);
    parts[i] = (part){s->dtype,
                      data,
                      tokens[i],
                      s->packed ? 3 * width : width,
                      s->packed ? i * width : 0,
                      depths[i]};
  }
  loop_case_attr(c, LS_ATTR_I("num_heads", s->heads));
  loop_case_attr(c, LS_ATTR_B("causal", s->causal));
  if (s->scale != 0) loop_case_attr(c, LS_ATTR_F("scale", s->scale));
}

static double scale_of(const shape *s) {
  return s->scale != 0 ? s->scale : 1 / sqrt((double)s->depth);
}

// The probabilities of one query.
static void find_row(const shape *s, const part parts[3], int64_t batch,
                     int64_t head, int64_t query, double *p) {
  double sum = 0;
  for (int64_t k = 0; k < s->keys; ++k) {
    double score = 0;
    for (int64_t i = 0; i < s->depth; ++i)
      score += at(&parts[0], batch, query, head, i) *
               at(&parts[1], batch, k, head, i);
    p[k] = s->causal && k > query ? 0 : exp(score * scale_of(s));
    sum += p[k];
  }
  for (int64_t k = 0; k < s->keys; ++k)
    p[k] /= sum;
}

static void check_attention(const shape *s, loop_random *random) {
  loop_case c = {.op = LS_OP_ATTENTION,
                 .out = type_of(s, s->queries, s->value_depth)};
  part parts[3];
  add_operands(&c, s, parts, random);
  const part out = {
      s->dtype, NULL, s->queries, s->heads * s->value_depth, 0, s->value_depth};
  void *got = loop_case_run(&c);
  double *p = malloc(((size_t)s->keys + 1) * sizeof(double));
  for (int64_t row = 0; row < s->batch * s->heads * s->queries; ++row) {
    const int64_t query = row % s->queries, head = row / s->queries % s->heads;
    const int64_t batch = row / s->queries / s->heads;
    find_row(s, parts, batch, head, query, p);
    for (int64_t i = 0; i < s->value_depth; ++i) {
      double want = 0;
      for (int64_t k = 0; k < s->keys; ++k)
        want += p[k] * at(&parts[2], batch, k, head, i);
      loop_expect_near(&c, got, index_of(&out, batch, query, head, i), want, 2,
                       8);
    }
  }
  free(p);
  free(got);
  loop_case_deinit(&c);
}

// The gradients of one head, [tokens, depth] each.
typedef struct head_gradients {
  double *d[3];
} head_gradients;

static void differentiate(const shape *s, const part parts[3], const part *out,
                          int64_t batch, int64_t head, head_gradients *g) {
  double *p = malloc(((size_t)s->keys + 1) * sizeof(double));
  double *dp = malloc(((size_t)s->keys + 1) * sizeof(double));
  for (int64_t query = 0; query < s->queries; ++query) {
    double mean = 0;
    find_row(s, parts, batch, head, query, p);
    for (int64_t k = 0; k < s->keys; ++k) {
      dp[k] = 0;
      for (int64_t i = 0; i < s->value_depth; ++i) {
        const double d = at(out, batch, query, head, i);
        dp[k] += d * at(&parts[2], batch, k, head, i);
        g->d[2][k * s->value_depth + i] += p[k] * d;
      }
      mean += p[k] * dp[k];
    }
    for (int64_t k = 0; k < s->keys; ++k) {
      const double ds = p[k] * (dp[k] - mean) * scale_of(s);
      for (int64_t i = 0; i < s->depth; ++i) {
        g->d[0][query * s->depth + i] += ds * at(&parts[1], batch, k, head, i);
        g->d[1][k * s->depth + i] += ds * at(&parts[0], batch, query, head, i);
      }
    }
  }
  free(p);
  free(dp);
}

static void check_attention_grad(const shape *s, loop_random *random) {
  loop_case c = {.op = LS_OP_ATTENTION_GRAD};
  part parts[3];
  const ls_type result = type_of(s, s->queries, s->value_depth);
  const void *d = loop_case_add(&c, result, -1, 1, random);
  add_operands(&c, s, parts, random);
  c.out = c.in[1];
  for (uint32_t i = 2; i < c.num_in; ++i)
    loop_case_add_output(&c, c.in[i]);
  const part out = {s->dtype,      d, s->queries, s->heads * s->value_depth, 0,
                    s->value_depth};
  void *got = loop_case_run(&c);
  for (int64_t unit = 0; unit < s->batch * s->heads; ++unit) {
    head_gradients want;
    for (int i = 0; i < 3; ++i)
      want.d[i] = calloc((size_t)(parts[i].tokens * parts[i].depth) + 1,
                         sizeof(double));
    const int64_t batch = unit / s->heads, head = unit % s->heads;
    differentiate(s, parts, &out, batch, head, &want);
    for (int i = 0; i < 3; ++i) {
      const bool first = i == 0 || s->packed;
      const loop_case as = first ? c : loop_case_of_output(&c, (uint32_t)i - 1);
      const void *data = first ? got : c.results[i - 1];
      for (int64_t k = 0; k < parts[i].tokens * parts[i].depth; ++k)
        loop_expect_near(&as, data,
                         index_of(&parts[i], batch, k / parts[i].depth, head,
                                  k % parts[i].depth),
                         want.d[i][k], 4, 8);
      free(want.d[i]);
    }
  }
  free(got);
  loop_case_deinit(&c);
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

static void attention_agrees_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LS_COUNT_OF(floats); ++t)
    for (int round = 0; round < 12; ++round) {
      const shape s = random_shape(floats[t], round, &random);
      check_attention(&s, &random);
      check_attention_grad(&s, &random);
    }
}

static void long_sequences_go_in_bands(void **state) {
  (void)state;
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

static void nothing_to_attend_to_is_fine(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  shape s = {LS_DTYPE_F32, 2, 0, 5, 2, 3, 4, false, false, 0};
  check_attention(&s, &random);
  check_attention_grad(&s, &random);
  s.queries = s.keys = 0;
  check_attention(&s, &random);
  check_attention_grad(&s, &random);
}

static void
attention_has_the_same_bytes_on_every_instruction_set(void **state) {
  (void)state;
  static const char *const names[] = {"base", "v3", "v4"};
  for (int i = 0; i < 2; ++i) {
    const shape s = {i == 0 ? LS_DTYPE_F32 : LS_DTYPE_F64,
                     2,
                     70,
                     70,
                     2,
                     17,
                     17,
                     true,
                     true,
                     0};
    void *first = NULL;
    const ls_type type = type_of(&s, s.queries, 3 * s.depth);
    for (size_t k = 0; k < LS_COUNT_OF(names); ++k) {
      if (ls_cpu_kernels_find(names[k]) == NULL) continue;
      loop_random random = {7};
      loop_case c = {
          .op = LS_OP_ATTENTION_GRAD, .out = type, .kernels = names[k]};
      part parts[3];
      loop_case_add(&c, type_of(&s, s.queries, s.depth), -1, 1, &random);
      add_operands(&c, &s, parts, &random);
      void *got = loop_case_run(&c);
      if (first != NULL)
        assert_memory_equal(first, got,
                            (size_t)ls_shape_num_elements(type.shape) *
                                ls_dtype_size(type.dtype));
      if (first == NULL)
        first = got;
      else
        free(got);
      loop_case_deinit(&c);
    }
    free(first);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_agrees_with_double),
      cmocka_unit_test(long_sequences_go_in_bands),
      cmocka_unit_test(nothing_to_attend_to_is_fine),
      cmocka_unit_test(attention_has_the_same_bytes_on_every_instruction_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

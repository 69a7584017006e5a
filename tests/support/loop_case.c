// SPDX-License-Identifier: Apache-2.0
#include "support/loop_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/arena.h"
#include "lockstep/half.h"
#include "lockstep/shape_rules.h"
#include "support/expect.h"
#include "support/reference.h"

// ---- Random numbers --------------------------------------------------------
uint64_t loop_random_seed(void) {
  const char *text = getenv("LS_TEST_SEED");
  return text == NULL ? 1 : strtoull(text, NULL, 10);
}

uint32_t loop_random_bits(loop_random *random) {
  // SplitMix64.
  uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((z ^ z >> 31) >> 16);
}

int64_t loop_random_between(loop_random *random, int64_t low, int64_t high) {
  return low + (int64_t)(loop_random_bits(random) % (uint64_t)(high - low + 1));
}

const ls_dtype loop_types[LOOP_TYPES] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};

ls_dtype loop_any_type(loop_random *random, size_t count) {
  return loop_types[loop_random_bits(random) % count];
}

ls_dtype loop_any_index(loop_random *random, bool is_signed) {
  return loop_types[LOOP_FLOATS +
                    loop_random_bits(random) % (is_signed ? 4 : 8)];
}

ls_shape loop_any_shape(loop_random *random, int32_t rank, bool empty,
                        int64_t large) {
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i) {
    shape.dim[i] = loop_random_between(random, empty ? 0 : 1, 9);
    if (loop_random_bits(random) % 4 == 0) shape.dim[i] = 1;
  }
  if (rank > 0 && loop_random_bits(random) % 8 == 0)
    shape.dim[loop_any_axis(random, shape)] =
        loop_random_between(random, 40, large);
  return shape;
}

int32_t loop_any_axis(loop_random *random, ls_shape shape) {
  return (int32_t)loop_random_between(random, 0, shape.rank - 1);
}

// ---- Elements --------------------------------------------------------------
#define EACH_TYPE(X)                                                           \
  X(F64, double)                                                               \
  X(F32, float)                                                                \
  X(I8, int8_t)                                                                \
  X(I16, int16_t)                                                              \
  X(I32, int32_t)                                                              \
  X(I64, int64_t)                                                              \
  X(U8, uint8_t)                                                               \
  X(U16, uint16_t)                                                             \
  X(U32, uint32_t)                                                             \
  X(U64, uint64_t)                                                             \
  X(BOOL, uint8_t)

double loop_read(ls_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
#define CASE(D, T)                                                             \
  case LS_DTYPE_##D:                                                           \
    return (double)((const T *)data)[index];
    EACH_TYPE(CASE)
#undef CASE
  case LS_DTYPE_F16:
    return (double)ls_f16_to_f32(((const uint16_t *)data)[index]);
  case LS_DTYPE_BF16:
    return (double)ls_bf16_to_f32(((const uint16_t *)data)[index]);
  default:
    return 0;
  }
}

void loop_write(ls_dtype dtype, void *data, int64_t index, double value) {
  switch (dtype) {
#define CASE(D, T)                                                             \
  case LS_DTYPE_##D:                                                           \
    ((T *)data)[index] = (T)(value);                                           \
    break;
    EACH_TYPE(CASE)
#undef CASE
  case LS_DTYPE_F16:
    ((uint16_t *)data)[index] = ls_f16_from_f32((float)value);
    break;
  case LS_DTYPE_BF16:
    ((uint16_t *)data)[index] = ls_bf16_from_f32((float)value);
    break;
  default:
    break;
  }
}

double loop_stored(ls_dtype dtype, double value) {
  if (dtype == LS_DTYPE_F16 && fabs(value) >= 65520)
    return copysign((double)INFINITY, value);
  if (ls_dtype_is_float(dtype) || ls_dtype_size(dtype) == 8) return value;
  const double range = ldexp(1, 8 * (int)ls_dtype_size(dtype));
  const double rest = value - floor(value / range) * range;
  const bool negative = !ls_dtype_is_unsigned(dtype) && rest >= range / 2;
  return negative ? rest - range : rest;
}

static size_t bytes_of(ls_type type) {
  return (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype);
}

static void *allocate(size_t size) {
  void *memory = aligned_alloc(64, (size + 127) / 64 * 64);
  assert_non_null(memory);
  return memory;
}

// ---- Cases -----------------------------------------------------------------
void *loop_case_add_copy(loop_case *c, ls_type type, const void *data) {
  assert_true(c->num_in < LOOP_CASE_OPERANDS);
  void *copy = allocate(bytes_of(type));
  if (data != NULL) memcpy(copy, data, bytes_of(type));
  c->in[c->num_in] = type;
  c->data[c->num_in++] = copy;
  return copy;
}

void *loop_case_add(loop_case *c, ls_type type, double low, double high,
                    loop_random *random) {
  void *data = loop_case_add_copy(c, type, NULL);
  const int64_t count = ls_shape_num_elements(type.shape);
  for (int64_t i = 0; i < count; ++i) {
    double x = low + (high - low) * loop_random_bits(random) * 0x1p-32;
    if (type.dtype == LS_DTYPE_BOOL) x = loop_random_bits(random) & 1;
    if (!ls_dtype_is_float(type.dtype)) x = floor(x);
    if (ls_dtype_is_unsigned(type.dtype)) x = fabs(x);
    loop_write(type.dtype, data, i, x);
  }
  return data;
}

void loop_case_attr(loop_case *c, ls_attr attr) {
  c->attrs[c->num_attrs++] = attr;
}

void loop_case_add_output(loop_case *c, ls_type type) {
  assert_true(c->num_more < LOOP_CASE_MORE);
  c->more[c->num_more++] = type;
}

void loop_case_deinit(loop_case *c) {
  for (uint32_t i = 0; i < c->num_in; ++i)
    free(c->data[i]);
  for (uint32_t i = 0; i < c->num_more; ++i)
    free(c->results[i]);
  *c = (loop_case){0};
}

// ---- Running ---------------------------------------------------------------
enum { OUTPUTS = 1 + LOOP_CASE_MORE };

// What a prepare function is given, and what it made of that.
typedef struct prepared {
  ls_node node;
  uint64_t inputs[LOOP_CASE_OPERANDS];
  ls_type out[OUTPUTS];
  uint32_t num_out;
  ls_arena arena;
  ls_kernel_plan plan;
} prepared;

// The node of a case, as lowering would leave it.
static void make_node(loop_case *c, prepared *p) {
  for (uint32_t i = 0; i < c->num_attrs; ++i)
    ls_attr_set_id(c->op, LS_OP_NONE, &c->attrs[i]);
  *p = (prepared){.num_out = 1 + c->num_more};
  p->out[0] = c->out;
  memcpy(p->out + 1, c->more, sizeof(c->more));
  for (uint32_t i = 0; i < c->num_in; ++i)
    p->inputs[i] = ls_ref(i + 1, 0);
  p->node = (ls_node){
      .id = 100,
      .type = c->op,
      .num_outputs = (uint16_t)p->num_out,
      .num_inputs = c->num_in,
      .num_attrs = c->num_attrs,
      .inputs = p->inputs,
      .outputs = p->out,
      .attrs = c->attrs,
  };
}

static ls_status prepare(loop_case *c, prepared *p) {
  make_node(c, p);
  ls_arena_init(&p->arena, ls_allocator_system());
  p->plan = (ls_kernel_plan){
      .node = &p->node,
      .in = c->in,
      .num_in = c->num_in,
      .out = p->out,
      .num_out = p->num_out,
      .fast = c->fast,
      .kernels = c->table != NULL     ? c->table
                 : c->kernels == NULL ? ls_cpu_kernels_best()
                                      : ls_cpu_kernels_find(c->kernels),
      .arena = &p->arena,
      .blocks = -1,
  };
  const ls_kernel_prepare function = ls_kernel_prepare_of(c->op);
  assert_non_null(function);
  return function(&p->plan);
}

ls_status loop_case_prepare(loop_case *c) {
  prepared p;
  ls_status status = prepare(c, &p);
  ls_arena_deinit(&p.arena);
  return status;
}

typedef enum cut { WHOLE, BACKWARDS, RAGGED } cut;

static void run_step(ls_kernel_loop loop, const ls_kernel_call *call,
                     int64_t blocks, cut how) {
  assert_true(blocks >= 1);
  if (how == WHOLE) loop(call, 0, blocks);
  if (how == BACKWARDS)
    for (int64_t b = blocks; b-- > 0;)
      loop(call, b, b + 1);
  if (how == RAGGED)
    for (int64_t b = 0, n = 1; b < blocks; b += n, n = n % 5 + 2)
      loop(call, b, b + n < blocks ? b + n : blocks);
}

// Nothing behind the scratch, or what the steps share, is written.
enum { GUARD = 4096 };

static void expect_guard(const unsigned char *guard) {
  for (size_t i = 0; i < GUARD; ++i)
    assert_int_equal(guard[i], 0xA5);
}

static void run(const loop_case *c, const ls_kernel_plan *plan,
                const void *const *in, void *const *out, cut how) {
  HEAP(char, scratch) = allocate(plan->scratch + GUARD);
  HEAP(char, shared) = allocate(plan->shared + GUARD);
  memset(scratch, 0xA5, plan->scratch + GUARD);
  memset(shared, 0xA5, plan->shared + GUARD);
  const void *ins[LOOP_CASE_OPERANDS + 1];
  void *outs[OUTPUTS + 1];
  ls_kernel_call call = {
      .in = in,
      .out = outs,
      .scratch = scratch,
      .params = plan->params,
      .step = c->step,
      .seed = c->seed,
      .iteration = c->iteration,
      .replica = c->replica,
  };
  if (plan->first != NULL) {
    memcpy(outs, out, plan->first_outputs * sizeof(*outs));
    outs[plan->first_outputs] = shared;
    run_step(plan->first, &call, plan->first_blocks, how);
    const uint32_t kept = plan->only_shared ? 0 : c->num_in;
    memcpy(ins, in, kept * sizeof(*ins));
    ins[kept] = shared;
    call.in = ins;
  }
  call.out = out + plan->first_outputs;
  run_step(plan->loop, &call, plan->blocks, how);
  expect_guard((const unsigned char *)scratch + plan->scratch);
  expect_guard((const unsigned char *)shared + plan->shared);
}

static void expect_bytes(const loop_case *c, const prepared *p,
                         void *const *want, void *const *got, const char *how) {
  for (uint32_t i = 0; i < p->num_out; ++i)
    if (memcmp(want[i], got[i], bytes_of(p->out[i])) != 0)
      fail_msg("%s of %s: other bytes of output %u %s; seed %llu",
               ls_op_table[c->op].name,
               LS_SHAPE_TEXT(c->in[0].dtype, c->in[0].shape), i, how,
               (unsigned long long)loop_random_seed());
}

// In place of each operand that the plan allows.
static void run_in_place(const loop_case *c, const prepared *p,
                         void *const *want, void *const *room) {
  for (uint32_t i = 0; i < c->num_in && i < 32; ++i) {
    if ((p->plan.in_place >> i & 1U) == 0) continue;
    assert_int_equal(bytes_of(c->in[i]), bytes_of(c->out));
    memcpy(room[0], c->data[i], bytes_of(c->out));
    const void *in[LOOP_CASE_OPERANDS];
    for (uint32_t k = 0; k < c->num_in; ++k)
      in[k] = k == i ? room[0] : c->data[k];
    run(c, &p->plan, in, room, WHOLE);
    expect_bytes(c, p, want, room, "in place");
  }
}

static void allocate_outputs(const prepared *p, int fill, void **out) {
  for (uint32_t i = 0; i < p->num_out; ++i) {
    out[i] = allocate(bytes_of(p->out[i]));
    memset(out[i], fill, bytes_of(p->out[i]) + 16);
  }
}

void *loop_case_run(loop_case *c) {
  prepared p;
  ls_status status = prepare(c, &p);
  if (!ls_status_is_ok(status))
    fail_msg("%s of %s: %s", ls_op_table[c->op].name,
             LS_SHAPE_TEXT(c->in[0].dtype, c->in[0].shape),
             ls_status_message(status));
  c->flops = p.plan.flops;
  c->blocks =
      p.plan.blocks > p.plan.first_blocks ? p.plan.blocks : p.plan.first_blocks;
  void *whole[OUTPUTS], *cuts[OUTPUTS];
  allocate_outputs(&p, 0x5A, whole);
  allocate_outputs(&p, 0xC3, cuts);
  const void *const *in = (const void *const *)c->data;
  run(c, &p.plan, in, whole, WHOLE);
  for (uint32_t k = 0; k < p.num_out; ++k)
    for (size_t i = 0; i < 16; ++i)  // Nothing behind the result is written.
      assert_int_equal(((unsigned char *)whole[k])[bytes_of(p.out[k]) + i],
                       0x5A);
  run(c, &p.plan, in, cuts, BACKWARDS);
  expect_bytes(c, &p, whole, cuts, "block by block");
  for (uint32_t k = 0; k < p.num_out; ++k)
    memset(cuts[k], 0xC3, bytes_of(p.out[k]));
  run(c, &p.plan, in, cuts, RAGGED);
  expect_bytes(c, &p, whole, cuts, "in ragged ranges");
  run_in_place(c, &p, whole, cuts);
  for (uint32_t k = 0; k < p.num_out; ++k) {
    free(cuts[k]);
    if (k == 0) continue;
    free(c->results[k - 1]);
    c->results[k - 1] = whole[k];
  }
  ls_arena_deinit(&p.arena);
  return whole[0];
}

void loop_case_agrees(loop_case *c, double slack) {
  ref_run *run = ref_run_create();
  ref_tensor in[LOOP_CASE_OPERANDS], out[OUTPUTS];
  prepared p;
  char what[300];
  void *first = loop_case_run(c);
  make_node(c, &p);
  for (uint32_t i = 0; i < c->num_in; ++i)
    in[i] = ref_tensor_load(run, c->in[i], c->data[i]);
  for (uint32_t i = 0; i < p.num_out; ++i)
    out[i] = ref_tensor_create(run, p.out[i]);
  ref_evaluate(run, &p.node, in, out);
  if (c->fast) ref_tensor_level(&out[0]);
  snprintf(what, sizeof(what), "%s of %s", ls_op_table[c->op].name,
           c->num_in == 0 ? "nothing"
                          : LS_SHAPE_TEXT(c->in[0].dtype, c->in[0].shape));
  for (uint32_t i = 0; i < p.num_out; ++i)
    ref_expect(what, &out[i], i == 0 ? first : c->results[i - 1], slack);
  ref_run_destroy(run);
  free(first);
  const loop_case planned = {.flops = c->flops, .blocks = c->blocks};
  loop_case_deinit(c);
  *c = planned;
}

void loop_expect_near(const loop_case *c, const void *got, int64_t index,
                      double want, double slack, double magnitude) {
  const double value = loop_read(c->out.dtype, got, index);
  double unit = 0, computed = 0x1p-22;
  if (c->out.dtype == LS_DTYPE_F64) unit = computed = 0x1p-50;
  if (c->out.dtype == LS_DTYPE_F32) unit = 0x1p-22;
  if (c->out.dtype == LS_DTYPE_F16) unit = 0x1p-10;
  if (c->out.dtype == LS_DTYPE_BF16) unit = 0x1p-7;
  if (unit == 0) computed = 0;  // Integers and bools: exact.
  if (value == want || (isnan(value) && isnan(want))) return;
  double bound = slack * (unit * fabs(want) + computed * magnitude);
  if (c->out.dtype == LS_DTYPE_F16) bound += 0x1p-25;  // Its denormals.
  if (fabs(value - want) <= bound) return;
  fail_msg("%s of %s to %s: element %lld is %.17g, wanted %.17g; seed %llu",
           ls_op_table[c->op].name,
           c->num_in == 0 ? "nothing"
                          : LS_SHAPE_TEXT(c->in[0].dtype, c->in[0].shape),
           LS_SHAPE_TEXT(c->out.dtype, c->out.shape), (long long)index, value,
           want, (unsigned long long)loop_random_seed());
}

void loop_expect(const loop_case *c, const void *got, int64_t index,
                 double want, double slack) {
  loop_expect_near(c, got, index, want, slack, 0.001);
}

ls_type vector_type(ls_dtype dtype, int64_t count) {
  return (ls_type){dtype, LS_SHAPE(count)};
}

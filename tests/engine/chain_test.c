// SPDX-License-Identifier: Apache-2.0
//
// Steps that are chained, on every instruction set, against the same steps one
// after the other, each on all elements.
#include <string.h>

#include "base/threads/workers.h"
#include "engine/cpu/kernels/element/chain.h"
#include "support/expect.h"
#include "support/kernel_tables.h"

// ---- Programs --------------------------------------------------------------
// Slots: arrays that are read, numbers, arrays that are written, registers. An
// output may lie on the input of the same number.
enum {
  ARRAYS = 4,
  NUMBERS = 2,
  INPUTS = ARRAYS + NUMBERS,
  OUTPUTS = 3,
  MEMORY = INPUTS + OUTPUTS,
  REGISTERS = 4,
  SLOTS = MEMORY + REGISTERS,
  MOST_ELEMENTS = 40000,
};

typedef struct program {
  const ls_cpu_kernels *kernels;
  ls_arena arena;
  ls_fused fused;
  ls_fused_step steps[LS_FUSED_STEPS];
  ls_elementwise work[LS_FUSED_STEPS];
  uint32_t num_steps;
} program;

static const uint16_t unary_ops[] = {LS_OP_NEG, LS_OP_ABS, LS_OP_SQRT,
                                     LS_OP_SIGN, LS_OP_RELU};
static const uint16_t binary_ops[] = {
    LS_OP_ADD, LS_OP_SUB,     LS_OP_MUL,     LS_OP_MUL,
    LS_OP_DIV, LS_OP_MAXIMUM, LS_OP_MINIMUM, LS_OP_RELU_GRAD};

static bool is_number(uint8_t slot) { return slot >= ARRAYS && slot < INPUTS; }

// A step without a stage.
static void halve(const ls_elementwise *self, void *out, const void *const *in,
                  int64_t count) {
  assert_int_equal(self->num_in, 1);
  for (int64_t i = 0; i < count; ++i)
    ((float *)out)[i] = ((const float *)in[0])[i] * 0.5F;
}

// LS_OP_NONE is `halve`.
static void add_step(program *p, uint16_t op, const uint8_t *in,
                     uint32_t num_in, uint8_t out) {
  ls_elementwise *work = &p->work[p->num_steps];
  ls_fused_step *step = &p->steps[p->num_steps++];
  *work = (ls_elementwise){
      .span = op == LS_OP_NONE ? halve : p->kernels->spans->f32[op],
      .f32_op = op,
      .num_in = num_in};
  *step = (ls_fused_step){.work = work};
  for (uint32_t k = 0; k < num_in; ++k) {
    work->scalars |= (uint32_t)is_number(in[k]) << k;
    step->slot[k] = in[k];
  }
  step->slot[num_in] = out;
}

static void finish(program *p, int64_t count) {
  p->fused = (ls_fused){.count = count,
                        .steps = p->steps,
                        .num_steps = p->num_steps,
                        .num_in = INPUTS,
                        .num_out = OUTPUTS,
                        .num_registers = REGISTERS,
                        .chains = p->kernels->chains};
  for (uint8_t i = 0; i < MEMORY; ++i)
    p->fused.sizes[i] = is_number(i) ? 0 : sizeof(float);
  p->fused.tile = ls_fused_tile(&p->fused);
  ls_arena_init(&p->arena, ls_allocator_system());
  assert_true(ls_chain_steps(&p->arena, p->fused.chains, p->steps, p->num_steps,
                             MEMORY));
}

// A random program whose output i lies on input i if bit i of `in_place` is
// set: then it is read as the output once it is written.
static void make_random(program *p, loop_random *random, uint32_t in_place) {
  bool is_readable[SLOTS] = {false};
  for (int i = 0; i < INPUTS; ++i)
    is_readable[i] = true;
  const int64_t count = loop_random_between(random, 3, LS_FUSED_STEPS);
  for (int64_t i = 0; i < count; ++i) {
    uint8_t in[2];
    const bool is_binary = loop_random_bits(random) % 4 != 0;
    do {
      for (int k = 0; k < 2; ++k)
        do
          in[k] = (uint8_t)loop_random_between(random, 0, SLOTS - 1);
        while (!is_readable[in[k]]);
      // What came last is what is read, as a rule.
      if (i > 0 && loop_random_bits(random) % 4 != 0)
        in[loop_random_bits(random) % 2] =
            p->steps[i - 1].slot[p->work[i - 1].num_in];
    } while (is_number(in[0]) && (!is_binary || is_number(in[1])));
    const uint8_t out = (uint8_t)loop_random_between(random, INPUTS, SLOTS - 1);
    if (is_binary)
      add_step(p, binary_ops[loop_random_bits(random) % 8], in, 2, out);
    else
      add_step(p,
               loop_random_bits(random) % 8 == 0
                   ? (uint16_t)LS_OP_NONE
                   : unary_ops[loop_random_bits(random) % 5],
               in, 1, out);
    is_readable[out] = true;
    if (out < MEMORY && (in_place >> (out - INPUTS) & 1U) != 0)
      is_readable[out - INPUTS] = false;
  }
}

// ---- Runs ------------------------------------------------------------------
// Arrays of inputs and outputs.
typedef struct memory {
  float *in[INPUTS], *out[OUTPUTS];
  size_t offset;
  uint32_t in_place;
} memory;

static memory new_memory(int64_t count, size_t offset, uint32_t in_place,
                         number_kind kind, loop_random random) {
  memory m = {.offset = offset, .in_place = in_place};
  const size_t n = (size_t)count;
  for (int i = 0; i < INPUTS; ++i) {
    m.in[i] = numbers_create(n * sizeof(float), offset);
    numbers_fill(LS_DTYPE_F32, m.in[i], is_number((uint8_t)i) ? 1 : n, kind,
                 &random);
  }
  for (int i = 0; i < OUTPUTS; ++i) {
    const bool shared = (in_place >> i & 1U) != 0;
    m.out[i] = shared ? m.in[i] : numbers_create(n * sizeof(float), offset);
    if (!shared) memset(m.out[i], 0, n * sizeof(float));
  }
  return m;
}

static void free_memory(memory *m) {
  for (int i = 0; i < OUTPUTS; ++i)
    if ((m->in_place >> i & 1U) == 0) numbers_free(m->out[i], m->offset);
  for (int i = 0; i < INPUTS; ++i)
    numbers_free(m->in[i], m->offset);
}
LS_OWNED_(program_memory, memory, free_memory(ls_owned))

static void run_one_by_one(const program *p, memory *m, int64_t count) {
  void *slots[SLOTS];
  memcpy(slots, m->in, sizeof(m->in));
  memcpy(slots + INPUTS, m->out, sizeof(m->out));
  for (int i = MEMORY; i < SLOTS; ++i)
    slots[i] = numbers_create((size_t)count * sizeof(float), 0);
  for (uint32_t i = 0; i < p->num_steps; ++i) {
    const uint8_t *slot = p->steps[i].slot;
    const ls_elementwise *work = &p->work[i];
    work->span(work, slots[slot[work->num_in]],
               (const void *[]){slots[slot[0]], slots[slot[1]]}, count);
  }
  for (int i = MEMORY; i < SLOTS; ++i)
    numbers_free(slots[i], 0);
}

static void run_fused(const program *p, memory *m, int64_t count) {
  const void *in[INPUTS];
  void *out[OUTPUTS];
  for (int i = 0; i < INPUTS; ++i)
    in[i] = m->in[i];
  for (int i = 0; i < OUTPUTS; ++i)
    out[i] = m->out[i];
  void *scratch = numbers_create(ls_fused_scratch(&p->fused), 0);
  const ls_kernel_call call = {
      .in = in, .out = out, .scratch = scratch, .params = &p->fused};
  const int64_t blocks = ls_blocks_of(count, LS_BLOCK);
  if (blocks > 1) ls_fused_loop(&call, 1, blocks);
  ls_fused_loop(&call, 0, 1);
  numbers_free(scratch, 0);
}

static void expect_same_bytes(const program *p, int64_t count, size_t offset,
                              uint32_t in_place, number_kind kind,
                              loop_random random) {
  LS_OWN(program_memory, want) =
      new_memory(count, offset, in_place, kind, random);
  LS_OWN(program_memory, got) =
      new_memory(count, offset, in_place, kind, random);
  run_one_by_one(p, &want, count);
  run_fused(p, &got, count);
  const size_t n = (size_t)count;
  for (int i = 0; i < ARRAYS; ++i)
    expect_same_numbers("input", p->kernels->name, LS_DTYPE_F32, want.in[i],
                        got.in[i], n);
  for (int i = 0; i < OUTPUTS; ++i)
    expect_same_numbers("output", p->kernels->name, LS_DTYPE_F32, want.out[i],
                        got.out[i], n);
}

// ---- Tests -----------------------------------------------------------------
static const int64_t counts[] = {1,   15,  16,  17,  63,  64,   65,
                                 127, 511, 512, 513, 577, 1000, MOST_ELEMENTS};

TEST(random_steps_give_the_bytes_of_single_ones) {
  const kernel_tables tables = kernel_tables_find();
  for (size_t t = 0; t < tables.count; ++t) {
    loop_random random = {loop_random_seed()};
    for (size_t i = 0; i < 12 * LS_COUNT_OF(counts); ++i) {
      const int64_t count = counts[i % LS_COUNT_OF(counts)];
      const uint32_t in_place = loop_random_bits(&random) % (1U << OUTPUTS);
      const size_t offset = loop_random_bits(&random) % 3 * 4;
      const uint64_t mode = ls_float_mode_enter();
      program p = {.kernels = tables.at[t]};
      make_random(&p, &random, in_place);
      finish(&p, count);
      expect_same_bytes(&p, count, offset, in_place,
                        i % 3 == 0 ? NUMBERS_ANY : NUMBERS_SMALL, random);
      ls_float_mode_leave(mode);
      ls_arena_deinit(&p.arena);
    }
  }
}

enum { X = 0, Y = 1, Z = 2, A = ARRAYS, OUT = INPUTS, R = MEMORY };

static void add_binary(program *p, uint16_t op, uint8_t left, uint8_t right,
                       uint8_t out) {
  add_step(p, op, (uint8_t[]){left, right}, 2, out);
}

// A product with one operand, an op with another one on either side, and steps
// that read Y so often that it is kept.
static void make_pair(program *p, uint8_t one, uint16_t op, uint8_t other,
                      bool on_left) {
  add_binary(p, LS_OP_MUL, X, one, R);
  add_binary(p, op, on_left ? other : R, on_left ? R : other, R);
  add_binary(p, LS_OP_MAXIMUM, R, Y, R);
  add_binary(p, LS_OP_ADD, R, Y, R);
  add_binary(p, LS_OP_SUB, Y, R, OUT);
  finish(p, LS_CHAIN_ELEMENTS);
  assert_int_equal(p->steps[0].chained, 5);
}

TEST(operands_are_kept_arrays_and_numbers_on_either_side) {
  static const uint8_t operands[] = {Y, Z, A};
  const kernel_tables tables = kernel_tables_find();
  const loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < tables.count; ++t)
    for (size_t op = 0; op < LS_COUNT_OF(binary_ops); ++op)
      for (uint32_t i = 0; i < 3 * 3 * 2; ++i) {
        program p = {.kernels = tables.at[t]};
        make_pair(&p, operands[i / 6], binary_ops[op], operands[i / 2 % 3],
                  i % 2 != 0);
        const uint64_t mode = ls_float_mode_enter();
        expect_same_bytes(&p, LS_CHAIN_ELEMENTS, 0, 0, NUMBERS_ANY, random);
        ls_float_mode_leave(mode);
        ls_arena_deinit(&p.arena);
      }
}

TEST(a_number_keeps_the_sign_of_its_zero) {
  const kernel_tables tables = kernel_tables_find();
  for (size_t t = 0; t < tables.count; ++t) {
    program p = {.kernels = tables.at[t]};
    add_binary(&p, LS_OP_ADD, X, A, R);
    add_binary(&p, LS_OP_ADD, R, A, R);
    add_step(&p, LS_OP_NEG, (uint8_t[]){R}, 1, OUT);
    finish(&p, LS_CHAIN_ELEMENTS);
    assert_non_null(p.steps[0].stages);
    memory m = new_memory(LS_CHAIN_ELEMENTS, 0, 0, NUMBERS_SMALL,
                          (loop_random){loop_random_seed()});
    m.in[A][0] = -0.0F;
    for (int i = 0; i < LS_CHAIN_ELEMENTS; ++i)
      m.in[X][i] = -0.0F;
    run_fused(&p, &m, LS_CHAIN_ELEMENTS);
    for (int i = 0; i < LS_CHAIN_ELEMENTS; ++i)
      assert_memory_equal(&m.out[0][i], &(float){0}, sizeof(float));
    free_memory(&m);
    ls_arena_deinit(&p.arena);
  }
}

// t = t x + y, six times: x is kept, and each round is one stage.
TEST(products_and_sums_are_one_stage) {
  program p = {.kernels = ls_cpu_kernels_best()};
  for (int i = 0; i < 6; ++i) {
    add_binary(&p, LS_OP_MUL, i == 0 ? X : R, X, R);
    add_binary(&p, LS_OP_ADD, R, Y, i == 5 ? OUT : R);
  }
  finish(&p, LS_CHAIN_ELEMENTS);
  const ls_cpu_chains *chains = p.kernels->chains;
  const ls_chain_stage *stages = p.steps[0].stages;
  assert_ptr_equal(stages[0].run, chains->keep);
  assert_ptr_equal(stages[1].run, chains->load);
  for (int i = 2; i < 8; ++i)
    assert_ptr_equal(
        stages[i].run,
        chains->product[LS_CHAIN_PLUS][LS_CHAIN_KEPT][LS_CHAIN_ARRAY]);
  assert_ptr_equal(stages[8].run, chains->store_last);
  assert_int_equal(stages[8].slot[0], OUT);
  ls_arena_deinit(&p.arena);
}

// Only what is read later than by the next step goes through memory.
TEST(results_that_are_read_once_are_not_stored) {
  program p = {.kernels = ls_cpu_kernels_best()};
  add_binary(&p, LS_OP_DIV, X, Y, R);
  add_binary(&p, LS_OP_DIV, R, Z, R + 1);  // Read twice.
  add_binary(&p, LS_OP_DIV, A, R + 1, R);
  add_binary(&p, LS_OP_DIV, R, R + 1, OUT);
  finish(&p, LS_CHAIN_ELEMENTS);
  const ls_chain_stage *stages = p.steps[0].stages;
  const ls_cpu_chains *chains = p.kernels->chains;
  assert_ptr_equal(stages[0].run, chains->load);
  assert_ptr_equal(stages[3].run, chains->store);
  assert_int_equal(stages[3].slot[0], R + 1);
  assert_ptr_equal(stages[6].run, chains->store_last);
  ls_arena_deinit(&p.arena);
}

// SPDX-License-Identifier: Apache-2.0
//
// Runs one CPU kernel alone, by its node and data, in every way that must give
// the same bytes: in one piece, block by block backwards, in ragged ranges, and
// in place of each operand that the plan allows. What the bytes must be the
// reference says.
#ifndef LS_TESTS_SUPPORT_LOOP_CASE_H_
#define LS_TESTS_SUPPORT_LOOP_CASE_H_

#include "base/memory/own.h"
#include "engine/cpu/kernels/kernel.h"

enum { LOOP_CASE_OPERANDS = 40, LOOP_CASE_MORE = 3 };

// One op on given data. Zeroed: no operands, no attributes.
typedef struct loop_case {
  uint16_t op;
  ls_attr attrs[6];
  uint32_t num_attrs;
  ls_type in[LOOP_CASE_OPERANDS];
  void *data[LOOP_CASE_OPERANDS];  // Owned by the case.
  uint32_t num_in;
  ls_type out;
  ls_type more[LOOP_CASE_MORE];  // Outputs after the first one.
  uint32_t num_more;
  void *results[LOOP_CASE_MORE];  // Of these, once run. Owned by the case.
  uint64_t step, seed, iteration;
  int32_t replica;
  const char *kernels;          // Name of the kernel table. NULL: the fastest.
  const ls_cpu_kernels *table;  // Or the table itself.
  bool fast;                    // LS_MATH_FAST.
  double flops;                 // Of the plan, once run.
  int64_t blocks;               // Of two steps the more.
} loop_case;

// A reproducible stream of numbers.
typedef struct loop_random {
  uint64_t state;
} loop_random;
// From LS_TEST_SEED, else 1; printed by every failure.
uint64_t loop_random_seed(void);
uint32_t loop_random_bits(loop_random *random);
int64_t loop_random_between(loop_random *random, int64_t low, int64_t high);

// All types of numbers and bools: floats first, then integers, signed ones
// before, then bool.
enum { LOOP_FLOATS = 4, LOOP_NUMBERS = 12, LOOP_TYPES = 13 };
extern const ls_dtype loop_types[LOOP_TYPES];
// One of the first `count`; and an integer type.
ls_dtype loop_any_type(loop_random *random, size_t count);
ls_dtype loop_any_index(loop_random *random, bool is_signed);
// Sizes of 0 (if `empty`) to 9, often 1, now and then one of up to `large`.
ls_shape loop_any_shape(loop_random *random, int32_t rank, bool empty,
                        int64_t large);
int32_t loop_any_axis(loop_random *random, ls_shape shape);

// Element `index`, read as double and stored from one (rounded; integers must
// fit).
double loop_read(ls_dtype dtype, const void *data, int64_t index);
void loop_write(ls_dtype dtype, void *data, int64_t index, double value);

// What a type makes of an exact value that is too large: integers of up to 32
// bits wrap around, f16 is infinite.
double loop_stored(ls_dtype dtype, double value);

// Adds an operand of random small numbers, at least `low` and at most `high`;
// bools are 0 or 1. Returns its data.
void *loop_case_add(loop_case *c, ls_type type, double low, double high,
                    loop_random *random);
// Adds an operand with a copy of `data`.
void *loop_case_add_copy(loop_case *c, ls_type type, const void *data);
void loop_case_attr(loop_case *c, ls_attr attr);

// Adds an output after the first one.
void loop_case_add_output(loop_case *c, ls_type type);

// Runs it in all ways and compares them. The caller frees the first output.
void *loop_case_run(loop_case *c);
// Runs it in all ways, compares all outputs with the reference, and deinits the
// case but for the plan's numbers. `slack` times the rounding of the type is
// allowed; 0: exactly.
void loop_case_agrees(loop_case *c, double slack);
// The status of preparing alone; the caller's.
ls_status loop_case_prepare(loop_case *c);
void loop_case_deinit(loop_case *c);
LS_OWNED_STRUCT(loop_case, loop_case_deinit)

// Fails unless element `index` of `got` is `want`: exactly for integers, else
// within the dtype's rounding of it, and within rounding of `magnitude` in
// what the kernel computes with (f32 for 16 bits), both times `slack`. nan
// equals nan.
void loop_expect_near(const loop_case *c, const void *got, int64_t index,
                      double want, double slack, double magnitude);
// The same for results that hold no cancellation.
void loop_expect(const loop_case *c, const void *got, int64_t index,
                 double want, double slack);
// The type of a vector.
ls_type vector_type(ls_dtype dtype, int64_t count);

#endif  // LS_TESTS_SUPPORT_LOOP_CASE_H_

// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operations that the engine runs tile by tile
// (engine/cpu/compile/fuse.c) against a loop that was written for the chain, on
// one core and in its second cache. What a call of a function costs is taken
// off: it is that of the same chain on 16 elements. Both take turns, and
// results are compared byte by byte.
//
// Usage: chain_bench [ROUNDS]   (default 2000)

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/chains.h"
#include "common/machine.h"
#include "lockstep/lockstep.h"

enum { FEW = 16, MANY = 1 << 16 };

typedef struct chain {
  const char *name;
  int steps;
  ls_tensor (*make)(ls_tensor x, ls_tensor y);
  chain_loop by_hand;
} chain;

// ---- Chains ----------------------------------------------------------------
static ls_tensor make_short(ls_tensor x, ls_tensor y) {
  return ls_sub(ls_relu(ls_add(ls_mul(x, y), x)), y);
}

static ls_tensor make_cheap(ls_tensor x, ls_tensor y) {
  ls_tensor t = x;
  for (int i = 0; i < 6; ++i)
    t = ls_add(ls_mul(t, x), y);
  return t;
}

static ls_tensor make_scaled(ls_tensor x, ls_tensor y) {
  return ls_sub(x, ls_mul_scalar(ls_add(ls_mul_scalar(y, 0.9), x), 0.1));
}

static ls_tensor make_dear(ls_tensor x, ls_tensor y) {
  return ls_add(ls_erf(ls_mul(x, y)), ls_mul(ls_exp(y), x));
}

static const chain chains[] = {
    {"relu(x y + x) - y", 4, make_short, chain_short},
    {"t = t x + y, six times", 12, make_cheap, chain_cheap},
    {"x - 0.1 (0.9 y + x)", 4, make_scaled, chain_scaled},
    {"erf(x y) + exp(y) x", 5, make_dear, chain_dear},
};

static ls_nest call_chain(ls_nest args, void *user) {
  const chain *row = user;
  return ls_leaf(row->make(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)));
}

// ---- Data ------------------------------------------------------------------
// A pair of vectors with numbers in [-0.5, 0.5), and what came of them.
typedef struct operands {
  ls_nest args, result;
  const float *x, *y;
} operands;

static void fill(float *to, int64_t count, int64_t factor) {
  for (int64_t i = 0; to != NULL && i < count; ++i)
    to[i] = (float)(i * factor % 101) / 101.0f - 0.5f;
}

static operands make_operands(int64_t count) {
  ls_nest x = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(count));
  ls_nest y = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(count));
  float *const a = ls_nest_data(x, 0), *const b = ls_nest_data(y, 0);
  fill(a, count, 37);
  fill(b, count, 53);
  return (operands){.args = LS_TUPLE(x, y), .x = a, .y = b};
}

static void free_operands(operands *self) {
  ls_nest_release(self->result);
  ls_nest_release(self->args);
}

// ---- Timing ----------------------------------------------------------------
typedef struct times {
  double *ours, *by_hand, *calls;
} times;

static ls_status time_call(ls_function *function, operands *on,
                           double *seconds) {
  const double before = machine_seconds();
  const ls_status status = ls_function_call(function, on->args, &on->result);
  *seconds = machine_seconds() - before;
  return status;
}

static ls_status time_rounds(const chain *row, ls_function *function,
                             operands *few, operands *many, float *out,
                             size_t rounds, const times *t) {
  for (size_t i = 0; i < rounds; ++i) {
    LS_RETURN_IF_ERROR(time_call(function, few, &t->calls[i]));
    LS_RETURN_IF_ERROR(time_call(function, many, &t->ours[i]));
    const double before = machine_seconds();
    row->by_hand(out, many->x, many->y, MANY);
    t->by_hand[i] = machine_seconds() - before;
  }
  const float *got = ls_array_data(ls_nest_as_array(many->result));
  if (memcmp(got, out, MANY * sizeof(float)) != 0)
    return ls_internal("'%s' by hand is something else", row->name);
  return ls_ok();
}

static void print(const chain *row, size_t rounds, const times *t) {
  const double call = machine_median(t->calls, rounds);
  const double ours = machine_median(t->ours, rounds) - call;
  const double by_hand = machine_median(t->by_hand, rounds);
  printf("  %-24s %5d %9.2f us %9.2f us %8.2f us %7.0f%%\n", row->name,
         row->steps, ours * 1e6, by_hand * 1e6, call * 1e6,
         100 * by_hand / ours);
}

static ls_status time_chain(const chain *row, float *out, size_t rounds,
                            const times *t) {
  ls_function *function = NULL;
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = call_chain,
                                                .user = (void *)(uintptr_t)row},
                         &function));
  operands few = make_operands(FEW), many = make_operands(MANY);
  ls_status status = time_rounds(row, function, &few, &many, out, rounds, t);
  if (ls_status_is_ok(status)) print(row, rounds, t);
  free_operands(&few);
  free_operands(&many);
  ls_function_release(function);
  return status;
}

static ls_status time_all(size_t rounds) {
  double *seconds = calloc(3 * rounds, sizeof(*seconds));
  float *out = aligned_alloc(64, MANY * sizeof(*out));
  ls_status status =
      seconds == NULL || out == NULL ? ls_out_of_memory() : ls_ok();
  const times t = {seconds, seconds + rounds, seconds + 2 * rounds};
  printf("%d floats, one thread\n  %-24s %5s %12s %12s %11s %8s\n", MANY, "",
         "steps", "ours", "by hand", "a call", "speed");
  for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); ++i)
    if (ls_status_is_ok(status))
      status = time_chain(&chains[i], out, rounds, &t);
  free(out);
  free(seconds);
  return status;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
  if (argc > 2 || rounds < 1) {
    fprintf(stderr, "usage: chain_bench [ROUNDS]\n");
    return 2;
  }
  ls_runtime *runtime = NULL;
  ls_status status =
      ls_runtime_create(&(ls_runtime_options){.threads = 1}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = time_all((size_t)rounds);
    ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "chain_bench: %s: %s\n", ls_code_name(ls_status_code(status)),
          ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}

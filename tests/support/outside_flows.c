// SPDX-License-Identifier: Apache-2.0
#include "support/outside_flows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/training_loop.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/loop_case.h"

enum {
  REGISTERS = 3,
  VARIABLES = 2,
  MOST_REPLICAS = 3,
  MOST_WIDTH = 3,
  MOST_STATEMENTS = 40,
  MOST_IN_BLOCK = 4,
  MOST_DEPTH = 3,
  MOST_CALLS = 4000,
  MOST_VALUE = 99,  // Numbers are whole and small: no rounding anywhere.
};

// ---- Programs --------------------------------------------------------------
typedef enum statement_kind {
  COMPUTE,     // a = b + c or b - c, compiled.
  SUM,         // a = the sum of all replicas' b.
  FOLD,        // outside: v = v + v + b; a = v.
  ADD,         // outside: v += b.
  READ,        // outside: a = v.
  CALL,        // outside: a = what the function gives for b.
  CALL_WRITE,  // outside: a = what it gives for b; v += a.
  ADD_ID,      // outside: v += the replica's id + 1.
  BRANCH,      // if b's first element is above `number`, or the sum of all.
  REPEAT,      // A training loop of `number` trips.
  LOOP,        // While trips are below `number`, and below b's first element.
  NUM_KINDS,
} statement_kind;

typedef struct block {
  int count, statement[MOST_IN_BLOCK];
} block;

typedef struct statement {
  statement_kind kind;
  int a, b, c, v, number;
  bool together;  // Replicas go the same way.
  bool bounded;   // The loop has a largest number of trips.
  bool writes;    // The condition of the loop does: outside, v += b.
  block blocks[2];
} statement;

typedef struct program {
  statement statements[MOST_STATEMENTS];
  int count;
  block main;
  size_t replicas, width;
  int fails_on, fails_at;  // A replica's call; -1: none.
} program;

static int draw(loop_random *random, int low, int high) {
  return (int)loop_random_between(random, low, high);
}

static void draw_block(program *p, loop_random *random, int depth,
                       bool together, block *out);

static int draw_statement(program *p, loop_random *random, int depth,
                          bool together) {
  if (p->count == MOST_STATEMENTS) return -1;
  const int number = p->count++;
  statement *s = &p->statements[number];
  *s = (statement){.kind = (statement_kind)draw(random, 0, NUM_KINDS - 1),
                   .a = draw(random, 0, REGISTERS - 1),
                   .b = draw(random, 0, REGISTERS - 1),
                   .c = draw(random, 0, REGISTERS - 1),
                   .v = draw(random, 0, VARIABLES - 1),
                   .number = draw(random, 0, 3),
                   .bounded = draw(random, 0, 1) == 1,
                   .writes = draw(random, 0, 3) == 0,
                   .together = draw(random, 0, 1) == 1};
  if (depth == MOST_DEPTH && s->kind >= BRANCH) s->kind = FOLD;
  if (!together && s->kind == SUM) s->kind = COMPUTE;
  s->together = s->kind == REPEAT || (s->together && together);
  if (s->kind < BRANCH) return number;
  const bool inside = together && s->together;
  for (int i = 0; i < (s->kind == BRANCH ? 2 : 1); ++i)
    draw_block(p, random, depth + 1, inside, &s->blocks[i]);
  return number;
}

static void draw_block(program *p, loop_random *random, int depth,
                       bool together, block *out) {
  const int count = draw(random, depth == 0 ? 2 : 0, MOST_IN_BLOCK);
  for (int i = 0; i < count; ++i) {
    const int number = draw_statement(p, random, depth, together);
    if (number >= 0) out->statement[out->count++] = number;
  }
}

static void draw_program(program *p, uint64_t seed) {
  loop_random random = {seed};
  *p = (program){.replicas = (size_t)draw(&random, 1, MOST_REPLICAS),
                 .width = (size_t)draw(&random, 1, MOST_WIDTH),
                 .fails_on = -1};
  if (draw(&random, 0, 4) == 0) {
    p->fails_on = draw(&random, 0, (int)p->replicas - 1);
    p->fails_at = draw(&random, 0, 2);
  }
  draw_block(p, &random, 0, true, &p->main);
}

// ---- The function on the host ----------------------------------------------
typedef struct call_log {
  int count;
  float values[MOST_CALLS];
} call_log;

static call_log called[MOST_REPLICAS];
static const program *running;
static bool may_fail;

static float function_of(float x, int replica) {
  return x + (float)replica > MOST_VALUE ? 0 : x + (float)replica;
}

static ls_status start_call(ls_host_call *call) {
  call_log *log = &called[call->replica];
  const int number = __atomic_fetch_add(&log->count, 1, __ATOMIC_RELAXED);
  if (may_fail && call->replica == running->fails_on &&
      number == running->fails_at)
    return LS_STATUS(LS_DATA_LOSS, "the host has lost it");
  const float *x = call->inputs[0];
  float *y = call->outputs[0];
  assert_true(number < MOST_CALLS);
  log->values[number] = x[0];
  for (size_t e = 0; e < running->width; ++e)
    y[e] = function_of(x[e], call->replica);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel function_kernel = {
    .name = "function", .infer = infer_like_first, .start = start_call};

// ---- By the rules ----------------------------------------------------------
typedef struct world {
  const program *p;
  float registers[MOST_REPLICAS][REGISTERS][MOST_WIDTH];
  float variables[VARIABLES][MOST_WIDTH];
  call_log calls[MOST_REPLICAS];
  bool failed;
  size_t writes;
} world;

static float small(float x) {
  return x > MOST_VALUE ? MOST_VALUE : x < -MOST_VALUE ? -MOST_VALUE : x;
}

static float first_of_all(const world *w, int b) {
  float sum = 0;
  for (size_t r = 0; r < w->p->replicas; ++r)
    sum += w->registers[r][b][0];
  return sum;
}

static void do_outside(world *w, const statement *s, size_t r) {
  const size_t width = w->p->width;
  float *a = w->registers[r][s->a], *v = w->variables[s->v];
  const float *b = w->registers[r][s->b];
  if (s->kind == CALL || s->kind == CALL_WRITE) {
    call_log *log = &w->calls[r];
    w->failed =
        w->failed || ((int)r == w->p->fails_on && log->count == w->p->fails_at);
    assert_true(log->count < MOST_CALLS);
    log->values[log->count++] = b[0];
  }
  w->writes += s->kind != READ && s->kind != CALL;
  for (size_t e = 0; e < width; ++e) {
    if (s->kind == FOLD) v[e] = a[e] = small(v[e] + v[e] + b[e]);
    if (s->kind == ADD) v[e] = small(v[e] + b[e]);
    if (s->kind == READ) a[e] = v[e];
    if (s->kind == CALL || s->kind == CALL_WRITE)
      a[e] = function_of(b[e], (int)r);
    if (s->kind == CALL_WRITE) v[e] = small(v[e] + a[e]);
    if (s->kind == ADD_ID) v[e] = small(v[e] + (float)r + 1);
  }
}

static void do_block(world *w, const block *b, const bool *active);

static void do_compiled(world *w, const statement *s, const bool *active) {
  float sums[MOST_WIDTH] = {0};
  for (size_t r = 0; r < w->p->replicas; ++r)
    for (size_t e = 0; e < w->p->width; ++e)
      sums[e] += w->registers[r][s->b][e];
  for (size_t r = 0; r < w->p->replicas; ++r)
    for (size_t e = 0; active[r] && e < w->p->width; ++e) {
      float(*x)[MOST_WIDTH] = w->registers[r];
      x[s->a][e] = small(s->kind == SUM       ? sums[e]
                         : s->number % 2 == 0 ? x[s->b][e] + x[s->c][e]
                                              : x[s->b][e] - x[s->c][e]);
    }
}

static void do_branch(world *w, const statement *s, const bool *active) {
  bool yes[MOST_REPLICAS], no[MOST_REPLICAS];
  const float all = first_of_all(w, s->b);
  for (size_t r = 0; r < w->p->replicas; ++r) {
    const float x = s->together ? all : w->registers[r][s->b][0];
    yes[r] = active[r] && x > (float)s->number;
    no[r] = active[r] && !(x > (float)s->number);
  }
  do_block(w, &s->blocks[0], yes);
  do_block(w, &s->blocks[1], no);
}

static statement add_of(const statement *s) {
  return (statement){.kind = ADD, .b = s->b, .v = s->v};
}

// Who goes on: the condition of trip `trip`. The first element is that of
// before the loop.
static bool goes_on(world *w, const statement *s, int trip, const float *first,
                    bool *active) {
  bool any = false;
  const statement add = add_of(s);
  for (size_t r = 0; r < w->p->replicas; ++r) {
    if (s->bounded && trip == 2) active[r] = false;
    if (active[r] && s->writes) do_outside(w, &add, r);
    active[r] = active[r] && trip < s->number &&
                (s->together || (float)trip < first[r]);
    any = any || active[r];
  }
  return any;
}

static void do_loop(world *w, const statement *s, const bool *active) {
  bool now[MOST_REPLICAS];
  float first[MOST_REPLICAS];
  for (size_t r = 0; r < w->p->replicas; ++r) {
    now[r] = active[r];
    first[r] = w->registers[r][s->b][0];
  }
  if (s->kind == REPEAT)
    for (int trip = 0; trip < s->number; ++trip)
      do_block(w, &s->blocks[0], now);
  else
    for (int trip = 0; goes_on(w, s, trip, first, now); ++trip)
      do_block(w, &s->blocks[0], now);
}

static void do_block(world *w, const block *b, const bool *active) {
  for (int i = 0; i < b->count; ++i) {
    const statement *s = &w->p->statements[b->statement[i]];
    if (s->kind <= SUM) {
      do_compiled(w, s, active);
    } else if (s->kind < BRANCH) {
      for (size_t r = 0; r < w->p->replicas; ++r)
        if (active[r]) do_outside(w, s, r);
    } else if (s->kind == BRANCH) {
      do_branch(w, s, active);
    } else {
      do_loop(w, s, active);
    }
  }
}

// ---- Built -----------------------------------------------------------------
typedef struct builder {
  const program *p;
  ls_variable *const *variables;
  const statement *s;
  const block *b;
  ls_tensor registers[REGISTERS];
  ls_tensor first;
} builder;

static ls_tensor number_of(const builder *b, double value) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE((int64_t)b->p->width), value);
}

static ls_tensor kept_small(const builder *b, ls_tensor x) {
  return ls_maximum(ls_minimum(x, number_of(b, MOST_VALUE)),
                    number_of(b, -MOST_VALUE));
}

static ls_tensor first_element(ls_tensor x) {
  return ls_reshape(ls_slice_axis(x, 0, 0, 1), LS_SCALAR);
}

static ls_tensor call_function(ls_tensor x) {
  return ls_op_output(ls_host_call_add(&function_kernel, NULL, &x, 1), 0);
}

static ls_tensor write(const builder *b, ls_variable *v, ls_tensor x) {
  return ls_variable_assign(v, kept_small(b, x));
}

static ls_nest outside(ls_nest args, void *user) {
  const builder *b = user;
  const statement *s = b->s;
  ls_variable *v = b->variables[s->v];
  const ls_tensor x = args.as.tensor;
  ls_tensor y = x;
  switch (s->kind) {
  case FOLD:
    y = ls_variable_read(v);
    return ls_leaf(write(b, v, ls_add(ls_add(y, y), x)));
  case ADD:
    (void)write(b, v, ls_add(ls_variable_read(v), x));
    return ls_none();
  case READ:
    return ls_leaf(ls_variable_read(v));
  case CALL_WRITE:
    y = call_function(x);
    (void)write(b, v, ls_add(ls_variable_read(v), y));
    return ls_leaf(y);
  case ADD_ID:
    y = ls_convert(ls_replica_id(), LS_DTYPE_F32);
    (void)write(b, v, ls_add_scalar(ls_add(ls_variable_read(v), y), 1));
    return ls_none();
  default:
    return ls_leaf(call_function(x));
  }
}

static void build_block(builder *b, const block *of);

static ls_nest all_registers(const builder *b) {
  ls_nest items[REGISTERS];
  for (size_t i = 0; i < REGISTERS; ++i)
    items[i] = ls_leaf(b->registers[i]);
  return ls_nest_sequence(LS_KIND_LIST, items, REGISTERS);
}

static void take_registers(builder *b, ls_nest values, size_t skipped) {
  for (size_t i = 0; i < REGISTERS; ++i)
    b->registers[i] = ls_nest_tensor(values, skipped + i);
}

static ls_nest build_side(const builder *outer, int side) {
  builder inner = *outer;
  build_block(&inner, &outer->s->blocks[side]);
  return all_registers(&inner);
}

static ls_nest build_yes(ls_nest none, void *user) {
  (void)none;
  return build_side(user, 0);
}

static ls_nest build_no(ls_nest none, void *user) {
  (void)none;
  return build_side(user, 1);
}

static ls_nest repeat_trip(ls_nest values, void *user) {
  builder inner = *(const builder *)user;
  take_registers(&inner, values, 0);
  build_block(&inner, &inner.s->blocks[0]);
  return all_registers(&inner);
}

static ls_nest loop_condition(ls_nest values, void *user) {
  builder inner = *(const builder *)user;
  const statement *s = inner.s;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  if (s->writes) {
    const statement add = add_of(s);
    inner.s = &add;
    ls_nest_release(ls_outside_compilation(
        outside, &inner, ls_nest_item(values, 1 + (size_t)s->b)));
  }
  const ls_tensor below = ls_less(trip, f32_of(s->number));
  return ls_leaf(s->together ? below
                             : ls_and(below, ls_less(trip, inner.first)));
}

static ls_nest loop_trip(ls_nest values, void *user) {
  builder inner = *(const builder *)user;
  ls_nest items[1 + REGISTERS] = {
      ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1))};
  take_registers(&inner, values, 1);
  build_block(&inner, &inner.s->blocks[0]);
  for (size_t i = 0; i < REGISTERS; ++i)
    items[1 + i] = ls_leaf(inner.registers[i]);
  return ls_nest_sequence(LS_KIND_LIST, items, 1 + REGISTERS);
}

static void build_loop(builder *b) {
  ls_nest items[1 + REGISTERS] = {ls_leaf(f32_of(0))};
  for (size_t i = 0; i < REGISTERS; ++i)
    items[1 + i] = ls_leaf(b->registers[i]);
  b->first = first_element(b->registers[b->s->b]);
  LS_OWN(ls_nest, made) =
      ls_while(loop_condition, loop_trip, b,
               ls_nest_sequence(LS_KIND_LIST, items, 1 + REGISTERS),
               b->s->bounded ? 2 : 0);
  take_registers(b, made, 1);
}

static void build_flow(builder *b) {
  const statement *s = b->s;
  if (s->kind == LOOP) {
    build_loop(b);
  } else if (s->kind == BRANCH) {
    ls_tensor x = first_element(b->registers[s->b]);
    if (s->together) x = ls_all_reduce(LS_REDUCE_SUM, x);
    LS_OWN(ls_nest, made) =
        ls_cond(ls_greater(x, f32_of(s->number)), build_yes, build_no, b);
    take_registers(b, made, 0);
  } else {
    const ls_training_loop loop = {.body = repeat_trip, .user = b};
    LS_OWN(ls_nest, inputs) = all_registers(b);
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_training_repeat(s->number, &loop, inputs, &made));
    take_registers(b, made, 0);
  }
}

static void build_statement(builder *b) {
  const statement *s = b->s;
  ls_tensor *x = b->registers;
  if (s->kind == COMPUTE) {
    x[s->a] = kept_small(b, s->number % 2 == 0 ? ls_add(x[s->b], x[s->c])
                                               : ls_sub(x[s->b], x[s->c]));
  } else if (s->kind == SUM) {
    x[s->a] = kept_small(b, ls_all_reduce(LS_REDUCE_SUM, x[s->b]));
  } else if (s->kind < BRANCH) {
    const ls_nest made = ls_outside_compilation(outside, b, ls_leaf(x[s->b]));
    if (made.kind == LS_KIND_TENSOR) x[s->a] = made.as.tensor;
    assert_false(ls_nest_is_failed(made));
  } else {
    build_flow(b);
  }
}

static void build_block(builder *b, const block *of) {
  for (int i = 0; i < of->count; ++i) {
    b->s = &b->p->statements[of->statement[i]];
    build_statement(b);
  }
}

// Register i of replica r starts as (r + 1) (i - 1) + its elements' numbers.
static ls_nest build_program(ls_nest args, void *user) {
  builder b = *(const builder *)user;
  LS_OWN(ls_array, numbers) = NULL;
  expect_ok(
      ls_array_create(LS_DTYPE_F32, LS_SHAPE((int64_t)b.p->width), &numbers));
  for (size_t e = 0; e < b.p->width; ++e)
    ls_array_set_f64(numbers, (int64_t)e, (double)e);
  for (size_t i = 0; i < REGISTERS; ++i)
    b.registers[i] =
        ls_add(ls_mul_scalar(ls_nest_tensor(args, 0), (double)i - 1),
               ls_constant(numbers));
  build_block(&b, &b.p->main);
  return all_registers(&b);
}

// ---- Compared --------------------------------------------------------------
static void begin_run(world *w) {
  for (size_t r = 0; r < w->p->replicas; ++r)
    for (size_t i = 0; i < REGISTERS; ++i)
      for (size_t e = 0; e < w->p->width; ++e)
        w->registers[r][i][e] = ((float)r + 1) * ((float)i - 1) + (float)e;
  memset(w->calls, 0, sizeof(w->calls));
  w->failed = false;
}

static int compare_floats(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void sort_calls(call_log *log) {
  qsort(log->values, (size_t)log->count, sizeof(float), compare_floats);
}

// Calls of clusters that do not need each other have no order.
static void compare_calls(world *w, uint64_t seed) {
  for (size_t r = 0; r < w->p->replicas; ++r) {
    sort_calls(&called[r]);
    sort_calls(&w->calls[r]);
    if (called[r].count != w->calls[r].count)
      fail_msg("program %" PRIu64 ": replica %zu has called %d times, not %d",
               seed, r, called[r].count, w->calls[r].count);
    for (int k = 0; k < called[r].count; ++k)
      if (called[r].values[k] != w->calls[r].values[k])
        fail_msg("program %" PRIu64 ": call %d of replica %zu with %g, not %g",
                 seed, k, r, (double)called[r].values[k],
                 (double)w->calls[r].values[k]);
  }
}

static void compare_results(const world *w, ls_nest results, uint64_t seed) {
  for (size_t r = 0; r < w->p->replicas; ++r)
    for (size_t i = 0; i < REGISTERS; ++i) {
      const ls_array *array =
          ls_nest_as_array(ls_nest_item(ls_nest_item(results, r), i));
      for (size_t e = 0; e < w->p->width; ++e)
        if (ls_array_f64(array, (int64_t)e) != (double)w->registers[r][i][e])
          fail_msg("program %" PRIu64
                   ": register %zu of replica %zu is %g, not %g",
                   seed, i, r, ls_array_f64(array, (int64_t)e),
                   (double)w->registers[r][i][e]);
    }
}

static void compare_variables(const world *w, computation *c,
                              ls_variable *const *variables, uint64_t seed) {
  for (size_t v = 0; v < VARIABLES; ++v) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_session_variable_value(c->session, variables[v], &array));
    for (size_t e = 0; e < w->p->width; ++e)
      if (ls_array_f64(array, (int64_t)e) != (double)w->variables[v][e])
        fail_msg("program %" PRIu64 ": variable %zu is %g, not %g", seed, v,
                 ls_array_f64(array, (int64_t)e), (double)w->variables[v][e]);
  }
}

static void expect_cause(const world *w, ls_status status, uint64_t seed) {
  char wanted[60];
  const char *text = ls_status_message(status);
  snprintf(wanted, sizeof(wanted), "replica %d", w->p->fails_on);
  if (ls_status_code(status) != LS_DATA_LOSS ||
      strstr(text, "the host has lost it") == NULL ||
      strstr(text, "'function") == NULL || strstr(text, wanted) == NULL)
    fail_msg("program %" PRIu64 ", which is to fail on %s: '%s'", seed, wanted,
             text);
  ls_status_free(status);
}

static void initialize(world *w, computation *c,
                       ls_variable *const *variables) {
  memset(w->variables, 0, sizeof(w->variables));
  for (size_t v = 0; v < VARIABLES; ++v)
    computation_initialize(c, variables[v]);
}

// Runs it as it is to fail, if it is; then twice as it is to work.
static void run_program(world *w, computation *c, ls_variable *const *variables,
                        uint64_t seed, outside_flows_tally *tally) {
  static const bool all[MOST_REPLICAS] = {true, true, true};
  initialize(w, c, variables);
  for (int run = 0; run < 3; ++run) {
    ls_nest results = ls_none();
    may_fail = run == 0;
    if (may_fail && w->p->fails_on < 0) continue;
    begin_run(w);
    memset(called, 0, sizeof(called));
    do_block(w, &w->p->main, all);
    const ls_status status =
        ls_session_run(c->session, c->outputs, NULL, 0, &results);
    ++tally->runs;
    if (may_fail && w->failed) {
      expect_cause(w, status, seed);
      ++tally->failed;
      initialize(w, c, variables);
      continue;
    }
    if (!ls_status_is_ok(status))
      fail_msg("program %" PRIu64 ": %s", seed, ls_status_message(status));
    compare_calls(w, seed);
    compare_results(w, results, seed);
    compare_variables(w, c, variables, seed);
    for (size_t r = 0; r < w->p->replicas; ++r)
      tally->calls += (size_t)called[r].count;
    ls_nest_release(results);
  }
  tally->writes += w->writes;
}

static const char *whole_bodies(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_CUT") == 0 ? "0" : NULL;
}

void outside_flows_check(uint64_t seed, outside_flows_tally *tally) {
  static program p;
  static world w;
  draw_program(&p, seed);
  LS_OWN(counted, own) = counted_begin_with(
      (ls_runtime_options){.threads = 1 + (int)(seed % 2),
                           .environment = seed % 4 == 3 ? whole_bodies : NULL,
                           .stall_ms = 20000});
  ls_variable *variables[VARIABLES];
  computation c;
  running = &p;
  w = (world){.p = &p};
  computation_open(&c);
  for (size_t v = 0; v < VARIABLES; ++v)
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = v == 0 ? "v" : "w",
                               .dtype = LS_DTYPE_F32,
                               .shape = LS_SHAPE((int64_t)p.width)},
        &variables[v]));
  builder b = {.p = &p, .variables = variables};
  computation_replicate(&c, p.replicas, build_program, &b);
  run_program(&w, &c, variables, seed, tally);
  computation_close(&c);
  for (size_t v = 0; v < VARIABLES; ++v)
    ls_variable_release(variables[v]);
}

// SPDX-License-Identifier: Apache-2.0
//
// Random steps of replicas, of what a distributed program is made of: variables
// of each aggregation and synchronization, written and read by replicas and in
// merges; values reduced, gathered and updated with; branches; gradients. Each
// gives the same bytes traced, in eager and in a session, whatever rows the
// replicas have and whoever reduces.
//
// LS_TEST_SEED is the first step's number, LS_TEST_PROGRAMS how many there are.
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/allocator.h"
#include "base/values/random.h"
#include "lockstep/cross_device.h"
#include "lockstep/replica.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/draw.h"
#include "support/merges.h"
#include "support/sanitizer.h"
#include "support/step_state.h"
#include "support/values.h"
#include "support/ways.h"

// ---- What a step may do ----------------------------------------------------
static ls_variable *pick_variable(step_state *s) {
  return s->self->variables[step_below(&s->draw, VARIABLES)];
}

// One for which there is a value across replicas, and a way to write one.
static ls_variable *pick_whole(step_state *s) {
  const random_step *step = s->self->user;
  for (;;) {
    const size_t v = step_below(&s->draw, VARIABLES);
    const struct kind *kind = step_kind(step->seed, v);
    if (v == 0 || kind->synchronization != LS_SYNCHRONIZATION_ON_READ ||
        kind->aggregation == LS_AGGREGATION_MEAN ||
        kind->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
      return s->self->variables[v];
  }
}

static void read(step_state *s) {
  step_add(s, ls_variable_read(pick_variable(s)), false);
}

static void write(step_state *s) { step_write(s, pick_variable(s)); }

// ---- Merges ----------------------------------------------------------------
typedef enum merge_kind {
  MERGE_READ,
  MERGE_REDUCE,
  MERGE_WRITE,
  MERGE_UPDATE,
  MERGE_COMPONENTS,
  NUM_MERGES,
} merge_kind;

typedef struct merge_of {
  merge_kind kind;
  ls_variable *variable;
  ls_reduce_op op;
  int component;
} merge_of;

static ls_nest add_scaled(ls_nest args, void *user) {
  ls_tensor x = ls_failed_tensor();
  (void)user;
  const ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 1), &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_leaf(ls_variable_assign_add(
      ls_nest_item(args, 0).as.ref, ls_mul(x, ls_scalar(LS_DTYPE_F32, 0.5))));
}

static ls_nest merged(ls_strategy *strategy, ls_nest args, void *user) {
  const merge_of *m = user;
  ls_nest made = ls_none();
  const ls_nest x = ls_nest_item(args, 0);
  switch (m->kind) {
  case MERGE_READ:
    return ls_leaf(ls_variable_read(m->variable));
  case MERGE_REDUCE:
    return taken(ls_strategy_reduce(strategy, m->op, x, &made), &made);
  case MERGE_WRITE:
    return ls_leaf(ls_variable_assign_add(
        m->variable,
        ls_broadcast(ls_scalar(LS_DTYPE_F32, 0.25), LS_SHAPE(WIDTH))));
  case MERGE_UPDATE: {
    ls_nest sum = ls_none();
    LS_OWN(ls_nest, where) = ls_nest_variable(m->variable);
    ls_status status = ls_strategy_reduce_to(
        strategy, m->op, x, (ls_destinations){.value = where}, &sum);
    LS_OWN(ls_nest, given) = LS_TUPLE(sum);
    if (ls_status_is_ok(status))
      status = ls_strategy_update(strategy, m->variable, add_scaled, given,
                                  NULL, true, &made);
    return taken(status, &made);
  }
  default: {
    const size_t count = ls_variable_num_components(m->variable);
    ls_variable *one =
        count == 0
            ? m->variable
            : ls_variable_component(m->variable, (size_t)m->component % count);
    return ls_leaf(ls_variable_read(one));
  }
  }
}

static void merge(step_state *s) {
  merge_of m = {.kind = (merge_kind)step_below(&s->draw, NUM_MERGES),
                .variable = pick_whole(s),
                .op = step_below(&s->draw, 2) == 0 ? LS_REDUCE_SUM
                                                   : LS_REDUCE_MEAN,
                .component = (int)step_below(&s->draw, 3)};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(s->values[step_pick(s)]));
  if (s->prints)
    printf("  merge %d of %s\n", (int)m.kind, ls_variable_name(m.variable));
  const ls_nest given =
      ls_replica_merge_call(ls_replica_context(), merged, args, &m);
  step_keep(s, given, true, false);
}

// An update by the replicas themselves, with what is the same on all.
static void update(step_state *s) {
  const ls_tensor x = s->values[step_pick(s)];
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x)));
  const ls_status status = ls_strategy_update(
      s->self->strategy, pick_whole(s), add_scaled, given, NULL, true, &made);
  if (ls_status_is_ok(status))
    step_keep(s, made, false, false);
  else
    step_fail(s, status);
}

// ---- Functions -------------------------------------------------------------
static ls_nest double_and_write(ls_nest args, void *user) {
  const ways *self = user;
  ls_tensor x = ls_nest_item(args, 0).as.tensor;
  x = ls_add(x, ls_variable_read(self->variables[0]));
  ls_variable_assign_sub(self->variables[0], x);
  return ls_leaf(ls_tanh(x));
}

static void call(step_state *s) {
  ls_function *function = NULL;
  ls_nest made = ls_none();
  ls_status status = ls_function_create(
      &(ls_function_options){.call = double_and_write, .user = s->self},
      &function);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(s->values[step_pick(s)]));
  if (ls_status_is_ok(status)) status = ls_function_call(function, args, &made);
  ls_function_release(function);
  if (!ls_status_is_ok(status)) {
    step_fail(s, status);
    return;
  }
  if (made.kind == LS_KIND_ARRAY) {  // In eager.
    step_add(s, ls_tensor_from_array(ls_nest_as_array(made)), false);
    ls_nest_release(made);
    made = ls_leaf(s->values[s->count - 1]);
  } else if (made.kind == LS_KIND_TENSOR) {
    step_add(s, made.as.tensor, false);
  }
  step_keep(s, made, false, false);
}

// ---- Branches --------------------------------------------------------------
typedef struct branch {
  ls_tensor x, y;
  ls_variable *variable;
  bool writes;
} branch;

static ls_nest then_branch(ls_nest args, void *user) {
  const branch *b = user;
  (void)args;
  if (b->writes) ls_variable_assign_add(b->variable, b->y);
  return ls_leaf(ls_mul(b->x, ls_variable_read(b->variable)));
}

static ls_nest else_branch(ls_nest args, void *user) {
  const branch *b = user;
  (void)args;
  return ls_leaf(ls_sub(b->y, b->x));
}

static void choose(step_state *s) {
  branch b = {.x = s->values[step_pick(s)],
              .y = s->values[step_pick(s)],
              .variable = s->self->variables[0],
              .writes = step_below(&s->draw, 2) == 0};
  const ls_tensor sum = ls_reduce_sum(s->values[step_pick(s)], LS_ALL_AXES);
  step_keep(s,
            ls_cond(ls_greater(sum, ls_scalar(LS_DTYPE_F32, 0)), then_branch,
                    else_branch, &b),
            true, false);
}

static ls_nest goes_on(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_item(values, 0).as.tensor,
                         ls_scalar_i64(LS_DTYPE_I32, 3)));
}

static ls_nest go_round(ls_nest values, void *user) {
  const branch *b = user;
  const ls_tensor trip = ls_nest_item(values, 0).as.tensor;
  ls_tensor x = ls_nest_item(values, 1).as.tensor;
  if (b->writes) ls_variable_assign_add(b->variable, b->y);
  x = ls_tanh(ls_add(x, ls_variable_read(b->variable)));
  return LS_TUPLE(ls_leaf(ls_add(trip, ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_leaf(x));
}

static void loop(step_state *s) {
  branch b = {.x = s->values[step_pick(s)],
              .y = s->values[step_pick(s)],
              .variable = s->self->variables[0],
              .writes = step_below(&s->draw, 2) == 0};
  const ls_nest initial =
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(b.x));
  const ls_nest made = ls_while(goes_on, go_round, &b, initial, 0);
  if (made.kind == LS_KIND_TUPLE)
    step_add(s, ls_nest_item(made, 1).as.tensor, false);
  step_keep(s, made, false, false);
}

// ---- Gradients -------------------------------------------------------------
static ls_tensor loss_of(ls_nest args, ways *self) {
  const merge_of *m = self->more;
  const ls_tensor x = ls_nest_item(args, 0).as.tensor;
  ls_tensor z = ls_tanh(x);
  switch (m->component) {
  case 0:
    z = ls_mul(z, ls_all_reduce(m->op, x));
    break;
  case 1:
    z = ls_mul(z, ls_variable_read(m->variable));
    break;
  default: {
    merge_of reduce = *m;
    reduce.kind = MERGE_REDUCE;
    LS_OWN(ls_nest, met) =
        ls_replica_merge_call(ls_replica_context(), merged, args, &reduce);
    if (met.kind == LS_KIND_TENSOR) z = ls_mul(z, met.as.tensor);
    break;
  }
  }
  return ls_reduce_sum(z, LS_ALL_AXES);
}

static void differentiate(step_state *s) {
  merge_of m = {.variable = s->self->variables[0],
                .op = step_below(&s->draw, 2) == 0 ? LS_REDUCE_SUM
                                                   : LS_REDUCE_MEAN,
                .component = (int)step_below(&s->draw, 3)};
  const ls_nest x = ls_leaf(s->values[step_pick(s)]);
  LS_OWN(ls_nest, args) = LS_TUPLE(x);
  ls_nest gradient = ls_none();
  s->self->more = &m;
  const ls_status status =
      ways_gradients(s->self, loss_of, args, &x, 1, NULL, &gradient);
  s->self->more = NULL;
  if (ls_status_is_ok(status))
    step_keep(s, gradient, true, false);
  else
    step_fail(s, status);
}

// ---- The step --------------------------------------------------------------
static ls_nest run_step(ls_nest args, ways *self) {
  static const struct {
    const char *name;
    void (*act)(step_state *s);
  } acts[] = {{"compute", step_compute},
              {"meet", step_meet},
              {"read", read},
              {"write", write},
              {"write", write},
              {"merge", merge},
              {"merge", merge},
              {"choose", choose},
              {"loop", loop},
              {"differentiate", differentiate},
              {"update", update},
              {"call", call}};
  const random_step *step = self->user;
  step_state s = {.self = self,
                  .draw = {step->seed},
                  .prints = step->prints && ls_replica_number() == 0};
  ls_tensor x = ls_failed_tensor();
  ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 0), &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  step_below(&s.draw, 2);
  step_add(&s, ls_reduce_sum(x, LS_AXES(0)), false);
  step_add(&s, ls_reduce_mean(ls_tanh(x), LS_AXES(0)), false);
  const size_t count = 4 + step_below(&s.draw, 8);
  for (size_t i = 0; i < count && ls_status_is_ok(s.status); ++i) {
    const size_t act = step_below(&s.draw, LS_COUNT_OF(acts));
    if (s.prints) printf("  %s\n", acts[act].name);
    acts[act].act(&s);
  }
  for (size_t i = 0; i < s.count && s.num_results < RESULTS; ++i)
    s.results[s.num_results++] = ls_leaf(s.values[i]);
  const ls_nest made =
      ls_nest_sequence(LS_KIND_TUPLE, s.results, s.num_results);
  if (ls_status_is_ok(s.status)) return made;
  ls_nest_release(made);
  return ls_fail(s.status);
}

TEST(steps_have_the_same_bytes_in_every_way) {
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count =
      number_from_environment("LS_TEST_PROGRAMS", LS_SANITIZED ? 4 : 20);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    char name[32];
    const random_step step = {.seed = seed,
                              .prints = getenv("LS_TEST_FAILURES") != NULL};
    snprintf(name, sizeof(name), "step %llu", (unsigned long long)seed);
    ways_hold(&(ways_case){.name = name,
                           .user = &step,
                           .make = step_variables,
                           .args = step_rows,
                           .step = run_step,
                           .steps = 2},
              1);
  }
}

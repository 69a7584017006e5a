// SPDX-License-Identifier: Apache-2.0
#include "support/ways.h"
#include "support/sanitizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/values/array_internal.h"
#include "lockstep/cross_device.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/values.h"
#include "support/ways_run.h"

static const char *const way_names[] = {"traced", "eager", "a session",
                                        "a traced function in a session"};

const char *ways_place(const ways *self) {
  static char text[100];
  snprintf(text, sizeof(text), "%s, %d replicas%s", way_names[self->way],
           self->replicas, self->own_table ? ", a table of the user's" : "");
  return text;
}

// ---- A table of the user's -------------------------------------------------
// It does what the usual one does, in its own functions.
static ls_status own_reduce(void *self, ls_reduce_op op, ls_nest value,
                            ls_destinations where, ls_nest *out_value) {
  return ls_cross_device_reduce(self, op, value, where, out_value);
}

static ls_status own_batch_reduce(void *self, ls_reduce_op op,
                                  const ls_nest *values,
                                  const ls_destinations *where, size_t count,
                                  ls_nest *results) {
  LS_OWN(ls_nest, list) = ls_none();
  const ls_status status =
      ls_cross_device_batch_reduce(self, op, values, where, count, &list);
  for (size_t i = 0; ls_status_is_ok(status) && i < count; ++i)
    results[i] = ls_nest_retain(ls_nest_item(list, i));
  return status;
}

static ls_status own_broadcast(void *self, ls_nest value, ls_destinations where,
                               ls_nest *out_value) {
  return ls_cross_device_broadcast(self, value, where, out_value);
}

static ls_status own_gather(void *self, ls_nest value, int axis,
                            ls_destinations where, ls_nest *out_value) {
  return ls_cross_device_gather(self, value, axis, where, out_value);
}

static void own_release(void *self) { ls_cross_device_release(self); }

static ls_cross_device *own_ops(void) {
  static const ls_cross_device_table table = {.name = "own",
                                              .reduce = own_reduce,
                                              .batch_reduce = own_batch_reduce,
                                              .broadcast = own_broadcast,
                                              .gather = own_gather,
                                              .release = own_release};
  ls_cross_device *usual = NULL, *own = NULL;
  expect_ok(ls_reduce_to_one_create(NULL, &usual));
  expect_ok(ls_cross_device_create(&table, usual, &own));
  return own;
}

// ---- Making ----------------------------------------------------------------
ls_variable *ways_variable(ways *self, const ls_variable_options *options) {
  assert_true(self->num_variables < WAYS_MOST_VARIABLES);
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(options, &variable));
  self->variables[self->num_variables++] = variable;
  return variable;
}

ls_variable *ways_vector(ways *self, const char *name, size_t count,
                         const double *values) {
  LS_OWN(ls_array, initial) = array_of(
      LS_DTYPE_F32, count == 0 ? LS_SCALAR : LS_SHAPE((int64_t)count), values);
  return ways_variable(
      self, &(ls_variable_options){.name = name, .initial_array = initial});
}

void ways_set_up(ways_run *run) {
  ways *self = &run->self;
  ls_cross_device *own = self->own_table ? own_ops() : NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(self->replicas),
                             .cross_device = own},
      &self->strategy));
  ls_cross_device_release(own);
  if (run->c->make == NULL) return;
  {
    LS_STRATEGY_SCOPE(self->strategy);
    run->c->make(self);
  }
}

void ways_tear_down(ways_run *run) {
  ways *self = &run->self;
  ls_session_destroy(run->session);
  ls_function_release(run->function);
  for (size_t i = 0; i < self->num_values; ++i)
    ls_array_release(self->values[i]);
  for (int r = 0; r < WAYS_MOST_REPLICAS; ++r)
    ls_nest_release(run->placeholders[r]);
  if (run->c->drop != NULL) run->c->drop(self);
  ls_optimizer_release(self->optimizer);
  for (size_t i = 0; i < self->num_variables; ++i)
    ls_variable_release(self->variables[i]);
  ls_graph_destroy(run->graph);
  ls_strategy_release(self->strategy);
}

// ---- Comparing -------------------------------------------------------------
static void print_numbers(const ls_array *array, char *buffer, size_t size) {
  size_t at = 0;
  buffer[0] = '\0';
  for (int64_t i = 0; i < ls_array_num_elements(array) && at + 30 < size; ++i)
    at += (size_t)snprintf(buffer + at, size - at, "%s%.9g", i == 0 ? "" : " ",
                           ls_array_f64(array, i));
}

static void expect_near(const ways *self, const char *name, size_t value,
                        const ls_array *wanted, const ls_array *got,
                        double tolerance) {
  if (ls_array_dtype(wanted) == ls_array_dtype(got) &&
      ls_shape_equal(ls_array_shape(wanted), ls_array_shape(got))) {
    if (ls_array_is_same(wanted, got)) return;
    bool near = tolerance > 0;
    for (int64_t i = 0; near && i < ls_array_num_elements(wanted); ++i)
      near = fabs(ls_array_f64(got, i) - ls_array_f64(wanted, i)) <=
             tolerance * (1 + fabs(ls_array_f64(wanted, i)));
    if (near) return;
  }
  char a[200], b[200];
  print_numbers(got, a, sizeof(a));
  print_numbers(wanted, b, sizeof(b));
  fail_msg("%s (%s): value %zu is %s, traced without a table it is %s", name,
           ways_place(self), value, a, b);
}

static void expect_same_values(const ways_case *c, const ways *wanted,
                               const ways *got) {
  if (got->num_values != wanted->num_values ||
      got->first_variable != wanted->first_variable)
    fail_msg("%s (%s): %zu values, %zu of them results; traced %zu, %zu",
             c->name, ways_place(got), got->num_values, got->first_variable,
             wanted->num_values, wanted->first_variable);
  for (size_t i = 0; i < wanted->num_values; ++i)
    expect_near(got, c->name, i, wanted->values[i], got->values[i],
                c->tolerance);
}

// One run; its values stay in `run`.
static void hold_one(const ways_case *c, ways_run *run) {
  static ls_status (*const runs[])(ways_run *) = {
      ways_run_traced, ways_run_eager, ways_run_session, ways_run_session};
  const ls_status status = runs[run->self.way](run);
  if (c->refused != LS_OK) {
    if (ls_status_is_ok(status))
      fail_msg("%s (%s): it is not refused", c->name, ways_place(&run->self));
    expect_status(status, c->refused, c->says != NULL ? c->says : "");
    return;
  }
  if (!ls_status_is_ok(status))
    fprintf(stderr, "%s (%s):\n", c->name, ways_place(&run->self));
  expect_ok(status);
  if (c->check != NULL) c->check(&run->self);
}

// On so many replicas: traced and without a table first. A sanitizer sees on
// one replica and on the most all that two do with memory, and a table of the
// user's once.
static void hold_on(const ways_case *c, int replicas) {
  ways_run first = {0};
  bool has_first = false;
  const bool sees_more =
      !LS_SANITIZED || c->one_replica || replicas == WAYS_REPLICAS;
  for (int own = 0; own < (c->one_table || !sees_more ? 1 : 2); ++own)
    for (int k = 0; k < NUM_WAYS; ++k) {
      if ((c->without >> k & 1) != 0) continue;
      ways_run run = {.c = c,
                      .self = {.way = (way)k,
                               .replicas = replicas,
                               .own_table = own == 1,
                               .user = c->user}};
      hold_one(c, &run);
      if (c->refused == LS_OK && has_first)
        expect_same_values(c, &first.self, &run.self);
      if (has_first) {
        ways_tear_down(&run);
      } else {
        first = run;
        has_first = true;
      }
    }
  ways_tear_down(&first);
}

void ways_hold(const ways_case *cases, size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (int n = cases[i].replicas_only ? 2 : 1;
         n <= (cases[i].one_replica ? 1 : WAYS_REPLICAS); ++n)
      if (!LS_SANITIZED || n != 2) hold_on(&cases[i], n);
}

// ---- For bodies and checks -------------------------------------------------
ls_status ways_gradients(ways *self,
                         ls_tensor (*function)(ls_nest args, ways *self),
                         ls_nest args, const ls_nest *xs, size_t count,
                         ls_tensor *out_y, ls_nest *gradients) {
  LS_OWN(ls_tape, tape) = NULL;
  ls_status status = ls_ok();
  if (self->way == WAY_EAGER) {
    LS_RETURN_IF_ERROR(ls_tape_begin(&tape));
    for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
      if (xs[i].kind == LS_KIND_TENSOR)
        status = ls_tape_watch(tape, xs[i].as.tensor);
  }
  const ls_nest y = ls_leaf(function(args, self));
  if (out_y != NULL) *out_y = y.as.tensor;
  if (ls_status_is_ok(status))
    status = tape != NULL ? ls_tape_gradients(tape, y, xs, count, gradients)
                          : ls_gradients(&y, 1, xs, count, NULL, gradients);
  return status;
}

ls_nest ways_minimize(ways *self,
                      ls_tensor (*function)(ls_nest args, ways *self),
                      ls_nest args) {
  ls_tape *tape = NULL;
  if (self->way != WAY_EAGER) {
    const ls_tensor loss = function(args, self);
    return LS_TUPLE(ls_leaf(loss),
                    ls_nest_op(ls_optimizer_minimize(self->optimizer, loss)));
  }
  ls_status status = ls_tape_begin(&tape);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor loss = function(args, self);
  status = ls_optimizer_minimize_tape(self->optimizer, tape, loss);
  ls_tape_release(tape);
  return ls_status_is_ok(status) ? LS_TUPLE(ls_leaf(loss), ls_none())
                                 : ls_fail(status);
}

double ways_result(const ways *self, int step, int r, size_t leaf,
                   int64_t element) {
  return ls_array_f64(self->values[self->values_of[step][r] + leaf], element);
}

double ways_value(const ways *self, size_t v, int component, int64_t element) {
  size_t at = self->first_variable;
  for (size_t i = 0; i < v; ++i) {
    const size_t parts = ls_variable_num_components(self->variables[i]);
    at += parts == 0 ? 1 : parts;
  }
  return ls_array_f64(self->values[at + (size_t)component], element);
}

void ways_expect(const ways *self, const char *what, double got, double wanted,
                 double tolerance) {
  if (fabs(got - wanted) <= tolerance) return;
  fail_msg("%s (%s): it is %.9g, not %.9g", what, ways_place(self), got,
           wanted);
}

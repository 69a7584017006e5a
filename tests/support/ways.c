// SPDX-License-Identifier: Apache-2.0
#include "support/ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"

#include "lockstep/function.h"
#include "lockstep/session.h"
#include "support/replicas.h"
#include "support/values.h"

// The case that is run, and where: what a step needs beside its arguments.
typedef struct ways_run {
  const ways_case *c;
  ways self;
  // Of a session.
  ls_graph *graph;
  ls_session *session;
  ls_op init;
  ls_nest placeholders[WAYS_MOST_REPLICAS];  // Of each replica's arguments.
} ways_run;

static const char *const way_names[] = {"traced", "eager", "a session"};

static const char *place_of(const ways *self) {
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
  ls_nest list = ls_none();
  const ls_status status =
      ls_cross_device_batch_reduce(self, op, values, where, count, &list);
  for (size_t i = 0; ls_status_is_ok(status) && i < count; ++i)
    results[i] = ls_nest_retain(ls_nest_item(list, i));
  ls_nest_release(list);
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
  ls_array *initial = array_of(
      LS_DTYPE_F32, count == 0 ? LS_SCALAR : LS_SHAPE((int64_t)count), values);
  ls_variable *variable = ways_variable(
      self, &(ls_variable_options){.name = name, .initial_array = initial});
  ls_array_release(initial);
  return variable;
}

static void set_up(ways_run *run) {
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

static void tear_down(ways_run *run) {
  ways *self = &run->self;
  ls_session_destroy(run->session);
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

// ---- Arguments -------------------------------------------------------------
// One argument from the replicas' nests, which are lent.
static ls_nest args_of(ls_strategy *strategy, const ls_nest *each) {
  ls_nest leaves[16], items[WAYS_MOST_REPLICAS];
  const size_t count = ls_nest_num_leaves(each[0]);
  const int replicas = ls_strategy_num_replicas(strategy);
  assert_true(count <= LS_COUNT_OF(leaves));
  for (size_t i = 0; i < count; ++i) {
    for (int r = 0; r < replicas; ++r) {
      ls_nest own[16];
      assert_int_equal(ls_nest_flatten(each[r], own, 16), count);
      items[r] = ls_nest_retain(own[i]);
    }
    leaves[i] = ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas);
  }
  return LS_TUPLE(ls_nest_pack(each[0], leaves, count));
}

static ls_nest as_tensor(ls_nest leaf, void *user) {
  (void)user;
  return ls_leaf(ls_tensor_from_array(ls_nest_as_array(leaf)));
}

static ls_nest as_placeholder(ls_nest leaf, void *user) {
  (void)user;
  const ls_array *array = ls_nest_as_array(leaf);
  return ls_leaf(
      ls_placeholder(ls_array_dtype(array), ls_array_shape(array), "x"));
}

// The arguments of a step: arrays, and what stands for them where it runs.
static ls_nest arguments(const ways_run *run, int step, ls_leaf_function made,
                         ls_nest *arrays) {
  ls_nest each[WAYS_MOST_REPLICAS];
  if (run->c->args == NULL) return LS_TUPLE(ls_none());
  for (int r = 0; r < run->self.replicas; ++r) {
    const ls_nest own = run->c->args(&run->self, step, r);
    assert_false(ls_nest_is_failed(own));
    each[r] = made == NULL ? ls_nest_retain(own) : ls_nest_map(own, made, NULL);
    if (arrays != NULL)
      arrays[r] = own;
    else
      ls_nest_release(own);
  }
  const ls_nest args = args_of(run->self.strategy, each);
  for (int r = 0; r < run->self.replicas; ++r)
    ls_nest_release(each[r]);
  return args;
}

static ls_nest step_in_replica(ls_nest args, void *user) {
  ways_run *run = user;
  return run->c->step(ls_nest_item(args, 0), &run->self);
}

// ---- Results ---------------------------------------------------------------
static void keep(ways *self, ls_array *array) {
  assert_true(self->num_values < WAYS_MOST_VALUES);
  self->values[self->num_values++] = array;
}

// The part of a leaf that is replica r's.
static ls_nest part_of(ls_nest leaf, int r) {
  return leaf.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_component(leaf, (size_t)r)
             : leaf;
}

// Host scalars are weakly typed.
static ls_dtype scalar_dtype(ls_nest leaf) {
  return ls_dtype_is_float(leaf.dtype) ? LS_DTYPE_F32 : LS_DTYPE_I32;
}

// A leaf's value as an array; NULL for an op or nothing.
static ls_status value_of(ls_nest leaf, ls_array **out_array) {
  *out_array = NULL;
  if (leaf.kind == LS_KIND_ARRAY)
    *out_array = ls_array_retain(ls_nest_as_array(leaf));
  else if (leaf.kind == LS_KIND_TENSOR)
    return ls_tensor_value(leaf.as.tensor, out_array);
  else if (leaf.kind == LS_KIND_SCALAR)
    *out_array = array_of(scalar_dtype(leaf), LS_SCALAR,
                          (double[]){ls_nest_number(leaf)});
  return ls_ok();
}

static ls_status keep_results(ways *self, int step, ls_nest results) {
  ls_nest leaves[32];
  const size_t count = ls_nest_flatten(results, leaves, LS_COUNT_OF(leaves));
  assert_true(count <= LS_COUNT_OF(leaves));
  for (int r = 0; r < self->replicas; ++r) {
    self->values_of[step][r] = self->num_values;
    for (size_t i = 0; i < count; ++i) {
      ls_array *array = NULL;
      LS_RETURN_IF_ERROR(value_of(part_of(leaves[i], r), &array));
      if (array != NULL) keep(self, array);
    }
  }
  return ls_ok();
}

static void keep_variable(ways_run *run, ls_variable *variable) {
  const size_t parts = ls_variable_num_components(variable);
  for (size_t i = 0; i < (parts == 0 ? 1 : parts); ++i) {
    ls_variable *part =
        parts == 0 ? variable : ls_variable_component(variable, i);
    ls_array *array = NULL;
    if (run->session != NULL)
      expect_ok(ls_session_variable_value(run->session, part, &array));
    else
      expect_ok(ls_variable_value(part, &array));
    keep(&run->self, array);
  }
}

static void keep_made(ways_run *run) {
  for (size_t i = 0; i < run->self.num_variables; ++i)
    keep_variable(run, run->self.variables[i]);
}

static int by_name(const void *a, const void *b) {
  return strcmp(ls_variable_name(*(ls_variable *const *)a),
                ls_variable_name(*(ls_variable *const *)b));
}

// Slots are made in the order in which gradients come, which is a way's own.
static void keep_variables(ways_run *run) {
  ways *self = &run->self;
  ls_variable *slots[WAYS_MOST_VARIABLES];
  self->first_variable = self->num_values;
  keep_made(run);
  const size_t count =
      self->optimizer == NULL
          ? 0
          : ls_optimizer_variables(self->optimizer, slots, LS_COUNT_OF(slots));
  assert_true(count <= LS_COUNT_OF(slots));
  qsort(slots, count, sizeof(slots[0]), by_name);
  for (size_t i = 0; i < count; ++i)
    keep_variable(run, slots[i]);
}

// ---- The three ways --------------------------------------------------------
static int steps_of(const ways_case *c) { return c->steps == 0 ? 1 : c->steps; }

static ls_status run_called(ways_run *run, ls_callable callable) {
  ls_status status = ls_ok();
  ls_nest results = ls_none();
  const bool eager = run->self.way == WAY_EAGER;
  for (int k = 0; k < steps_of(run->c) && ls_status_is_ok(status); ++k) {
    expect_ok(ls_frame_begin());
    const ls_nest args = arguments(run, k, eager ? as_tensor : NULL, NULL);
    status = ls_strategy_run(run->self.strategy, callable, args, &results);
    if (ls_status_is_ok(status)) status = keep_results(&run->self, k, results);
    if (eager) {
      ls_nest_release(results);
      results = ls_none();
    }
    ls_nest_release(args);
    expect_ok(ls_frame_end(NULL));
  }
  ls_nest_release(results);
  return status;
}

// A refused step leaves variables at what they were, which has been kept.
static void expect_unwritten(ways_run *run) {
  ways *self = &run->self;
  const size_t count = self->num_values;
  keep_made(run);
  assert_int_equal(self->num_values, 2 * count);
  for (size_t i = 0; i < count; ++i)
    if (memcmp(ls_array_data(self->values[i]),
               ls_array_data(self->values[count + i]),
               ls_array_size(self->values[i])) != 0)
      fail_msg("%s (%s): the refused step writes component %zu of all",
               run->c->name, place_of(self), i);
}

static ls_status run_where_values_are(ways_run *run, ls_callable callable) {
  const bool refused = run->c->refused != LS_OK;
  if (refused) keep_made(run);
  const ls_status status = run_called(run, callable);
  if (ls_status_is_ok(status))
    keep_variables(run);
  else if (refused && !(run->c->writes_before && run->self.way == WAY_EAGER))
    expect_unwritten(run);
  return status;
}

static ls_status run_traced(ways_run *run) {
  ls_function *function = NULL;
  set_up(run);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = step_in_replica, .user = run}, &function));
  const ls_status status = run_where_values_are(run, ls_traced(function));
  ls_function_release(function);
  return status;
}

static ls_status run_eager(ways_run *run) {
  set_up(run);
  return run_where_values_are(run, ls_plain(step_in_replica, run));
}

// What a build graph holds.
typedef struct contents {
  size_t ops, variables, trainable, updates;
} contents;

static contents contents_of(const ls_graph *graph) {
  return (contents){
      ls_graph_num_ops(graph),
      ls_graph_collection(graph, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0),
      ls_graph_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES, NULL, 0),
      ls_graph_collection(graph, LS_COLLECTION_UPDATE_OPS, NULL, 0)};
}

// A refused step leaves the graph as it was, and the thread where it was.
static void expect_untouched(const ways_run *run, contents before) {
  const contents now = contents_of(run->graph);
  if (memcmp(&now, &before, sizeof(now)) != 0)
    fail_msg("%s (%s): the refused step leaves %zu ops, %zu variables, %zu "
             "trainable, %zu update ops; before there were %zu, %zu, %zu, %zu",
             run->c->name, place_of(&run->self), now.ops, now.variables,
             now.trainable, now.updates, before.ops, before.variables,
             before.trainable, before.updates);
  expect_ok(ls_graph_error(run->graph));
  assert_false(ls_has_strategy());
  assert_false(ls_in_cross_replica_context());
}

// Builds the step and what makes the first values of variables.
static ls_status build(ways_run *run, ls_nest *out_results) {
  ls_status status = ls_ok();
  expect_ok(ls_graph_create("ways", &run->graph));
  {
    LS_GRAPH_SCOPE(run->graph);
    set_up(run);
    ls_nest arrays[WAYS_MOST_REPLICAS] = {0};
    const ls_nest args = arguments(run, 0, as_placeholder, arrays);
    for (int r = 0; run->c->args != NULL && r < run->self.replicas; ++r) {
      ls_nest leaves[16], own[16];
      const size_t count = ls_nest_flatten(arrays[r], leaves, 16);
      const size_t all =
          ls_nest_flatten(ls_nest_item(args, 0), leaves, LS_COUNT_OF(leaves));
      assert_int_equal(all, count);
      for (size_t i = 0; i < count; ++i)
        own[i] = ls_nest_retain(part_of(leaves[i], r));
      run->placeholders[r] = ls_nest_sequence(LS_KIND_LIST, own, count);
      ls_nest_release(arrays[r]);
    }
    const contents before = contents_of(run->graph);
    status = ls_strategy_run(run->self.strategy, ls_plain(step_in_replica, run),
                             args, out_results);
    ls_nest_release(args);
    if (!ls_status_is_ok(status)) expect_untouched(run, before);
    run->init = ls_global_initializer();
  }
  return ls_status_is_ok(status) ? ls_graph_take_error(run->graph) : status;
}

// The replicas' results behind each other, each as many leaves.
static ls_nest fetches_of(const ways_run *run, ls_nest results) {
  ls_nest leaves[32], all[WAYS_MOST_REPLICAS * 32];
  size_t count = ls_nest_flatten(results, leaves, LS_COUNT_OF(leaves));
  size_t num_all = 0;
  for (int r = 0; r < run->self.replicas; ++r)
    for (size_t i = 0; i < count; ++i) {
      const ls_nest part = part_of(leaves[i], r);
      all[num_all++] =
          part.kind == LS_KIND_SCALAR
              ? ls_leaf(ls_scalar(scalar_dtype(part), ls_nest_number(part)))
              : ls_nest_retain(part);
    }
  return ls_nest_sequence(LS_KIND_LIST, all, num_all);
}

static ls_status run_session_step(ways_run *run, int step, ls_nest fetches) {
  ways *self = &run->self;
  ls_feed feeds[WAYS_MOST_REPLICAS * 16];
  ls_nest arrays[WAYS_MOST_REPLICAS] = {0}, results = ls_none();
  size_t num_feeds = 0;
  for (int r = 0; run->c->args != NULL && r < self->replicas; ++r) {
    ls_nest leaves[16];
    arrays[r] = run->c->args(self, step, r);
    const size_t count = ls_nest_flatten(arrays[r], leaves, 16);
    for (size_t i = 0; i < count; ++i)
      feeds[num_feeds++] = (ls_feed){ls_nest_tensor(run->placeholders[r], i),
                                     ls_nest_as_array(leaves[i])};
  }
  const ls_status status =
      ls_session_run(run->session, fetches, feeds, num_feeds, &results);
  const size_t count = ls_nest_count(results) / (size_t)self->replicas;
  for (int r = 0; ls_status_is_ok(status) && r < self->replicas; ++r) {
    self->values_of[step][r] = self->num_values;
    for (size_t i = 0; i < count; ++i) {
      ls_array *array = NULL;
      expect_ok(value_of(ls_nest_item(results, (size_t)r * count + i), &array));
      if (array != NULL) keep(self, array);
    }
  }
  for (int r = 0; r < self->replicas; ++r)
    ls_nest_release(arrays[r]);
  ls_nest_release(results);
  return status;
}

static ls_status run_session(ways_run *run) {
  ls_nest results = ls_none(), fetches = ls_none();
  ls_status status = build(run, &results);
  if (!ls_status_is_ok(status)) {
    // Replicas that were refused by the graph alone have results.
    ls_nest_release(results);
    return status;
  }
  expect_ok(ls_graph_verify(run->graph));
  {
    LS_GRAPH_SCOPE(run->graph);
    fetches = fetches_of(run, results);
  }
  ls_nest_release(results);
  expect_ok(ls_session_create(run->graph, &run->session));
  ls_nest none = ls_none();
  expect_ok(
      ls_session_run(run->session, ls_nest_op(run->init), NULL, 0, &none));
  for (int k = 0; k < steps_of(run->c) && ls_status_is_ok(status); ++k)
    status = run_session_step(run, k, fetches);
  ls_nest_release(fetches);
  if (ls_status_is_ok(status)) keep_variables(run);
  return status;
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
  const size_t size = ls_array_size(wanted);
  if (ls_array_dtype(wanted) == ls_array_dtype(got) &&
      ls_shape_equal(ls_array_shape(wanted), ls_array_shape(got))) {
    if (memcmp(ls_array_data(wanted), ls_array_data(got), size) == 0) return;
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
           place_of(self), value, a, b);
}

static void expect_same_values(const ways_case *c, const ways *wanted,
                               const ways *got) {
  if (got->num_values != wanted->num_values ||
      got->first_variable != wanted->first_variable)
    fail_msg("%s (%s): %zu values, %zu of them results; traced %zu, %zu",
             c->name, place_of(got), got->num_values, got->first_variable,
             wanted->num_values, wanted->first_variable);
  for (size_t i = 0; i < wanted->num_values; ++i)
    expect_near(got, c->name, i, wanted->values[i], got->values[i],
                c->tolerance);
}

// One run; its values stay in `run`.
static void hold_one(const ways_case *c, ways_run *run) {
  static ls_status (*const runs[])(ways_run *) = {run_traced, run_eager,
                                                  run_session};
  const ls_status status = runs[run->self.way](run);
  if (c->refused != LS_OK) {
    if (ls_status_is_ok(status))
      fail_msg("%s (%s): it is not refused", c->name, place_of(&run->self));
    expect_status(status, c->refused, c->says != NULL ? c->says : "");
    return;
  }
  if (!ls_status_is_ok(status))
    fprintf(stderr, "%s (%s):\n", c->name, place_of(&run->self));
  expect_ok(status);
  if (c->check != NULL) c->check(&run->self);
}

// On so many replicas: traced and without a table first.
static void hold_on(const ways_case *c, int replicas) {
  ways_run first = {0};
  bool has_first = false;
  for (int own = 0; own < (c->one_table ? 1 : 2); ++own)
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
        tear_down(&run);
      } else {
        first = run;
        has_first = true;
      }
    }
  tear_down(&first);
}

void ways_hold(const ways_case *cases, size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (int n = cases[i].replicas_only ? 2 : 1;
         n <= (cases[i].one_replica ? 1 : WAYS_MOST_REPLICAS); ++n)
      hold_on(&cases[i], n);
}

// ---- For bodies and checks -------------------------------------------------
ls_status ways_gradients(ways *self,
                         ls_tensor (*function)(ls_nest args, ways *self),
                         ls_nest args, const ls_nest *xs, size_t count,
                         ls_tensor *out_y, ls_nest *gradients) {
  ls_tape *tape = NULL;
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
  ls_tape_release(tape);
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
  fail_msg("%s (%s): it is %.9g, not %.9g", what, place_of(self), got, wanted);
}

// SPDX-License-Identifier: Apache-2.0
#include "support/ways_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/function.h"
#include "lockstep/graph_ops.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/values.h"

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
  LS_OWN(ls_nest, results) = ls_none();
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
               run->c->name, ways_place(self), i);
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

ls_status ways_run_traced(ways_run *run) {
  LS_OWN(ls_function, function) = NULL;
  ways_set_up(run);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = step_in_replica, .user = run}, &function));
  return run_where_values_are(run, ls_traced(function));
}

ls_status ways_run_eager(ways_run *run) {
  ways_set_up(run);
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
             run->c->name, ways_place(&run->self), now.ops, now.variables,
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
    ways_set_up(run);
    ls_nest arrays[WAYS_MOST_REPLICAS] = {0};
    LS_OWN(ls_nest, args) = arguments(run, 0, as_placeholder, arrays);
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
    const bool traced = run->self.way == WAY_GRAPH_TRACED;
    if (traced)
      expect_ok(ls_function_create(
          &(ls_function_options){.call = step_in_replica, .user = run},
          &run->function));
    status = ls_strategy_run(run->self.strategy,
                             traced ? ls_traced(run->function)
                                    : ls_plain(step_in_replica, run),
                             args, out_results);
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

ls_status ways_run_session(ways_run *run) {
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
  // A run counts for what is drawn in the next ones, so only where it is one.
  ls_nest none = ls_none();
  if (ls_graph_collection(run->graph, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0) >
      0)
    expect_ok(
        ls_session_run(run->session, ls_nest_op(run->init), NULL, 0, &none));
  for (int k = 0; k < steps_of(run->c) && ls_status_is_ok(status); ++k)
    status = run_session_step(run, k, fetches);
  ls_nest_release(fetches);
  if (ls_status_is_ok(status)) keep_variables(run);
  return status;
}

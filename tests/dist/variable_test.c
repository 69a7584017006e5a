// SPDX-License-Identifier: Apache-2.0
//
// Distributed variables in eager: making, reading, writing.
#include "lockstep/variable.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/graph.h"
#include "support/replicas.h"

#define NONE LS_AGGREGATION_NONE
#define SUM LS_AGGREGATION_SUM
#define MEAN LS_AGGREGATION_MEAN
#define FIRST LS_AGGREGATION_ONLY_FIRST_REPLICA
#define ON_READ LS_SYNCHRONIZATION_ON_READ

// ---- Options ---------------------------------------------------------------
static void the_enums_have_their_numbers(void **state) {
  (void)state;
  LS_SPEC("V34");
  assert_int_equal(LS_SYNCHRONIZATION_AUTO, 0);
  assert_int_equal(LS_SYNCHRONIZATION_NONE, 1);
  assert_int_equal(LS_SYNCHRONIZATION_ON_WRITE, 2);
  assert_int_equal(LS_SYNCHRONIZATION_ON_READ, 3);
  assert_int_equal(LS_AGGREGATION_NONE, 0);
  assert_int_equal(LS_AGGREGATION_SUM, 1);
  assert_int_equal(LS_AGGREGATION_MEAN, 2);
  assert_int_equal(LS_AGGREGATION_ONLY_FIRST_REPLICA, 3);
  // Zeroed options mean AUTO and NONE.
  ls_variable *v = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
  assert_int_equal(ls_variable_synchronization_of(v), LS_SYNCHRONIZATION_AUTO);
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_NONE);
  ls_variable_release(v);
}

// Refused in the scope, in a build graph, and nothing is left there.
static void expect_refused(ls_strategy *strategy, ls_variable_options options,
                           const char *says) {
  ls_graph *graph = NULL;
  ls_variable *v = NULL;
  expect_ok(ls_graph_create("g", &graph));
  LS_GRAPH_SCOPE(graph) {
    LS_STRATEGY_SCOPE(strategy) {
      const ls_status status = ls_variable_create(&options, &v);
      assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
      expect_contains(ls_status_message(status),
                      options.name != NULL ? options.name : "none");
      expect_status(status, LS_INVALID_ARGUMENT, says);
    }
    expect_ok(ls_graph_take_error(graph));
  }
  assert_null(v);
  assert_int_equal(ls_graph_num_ops(graph), 0);
  assert_int_equal(
      ls_graph_collection(graph, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0), 0);
  assert_int_equal(
      ls_graph_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES, NULL, 0),
      0);
  ls_graph_destroy(graph);
}

static void wrong_options_leave_nothing_behind(void **state) {
  (void)state;
  LS_SPEC("V35 V36 V37 V38 V40");
  ls_strategy *strategy = mirrored_of(2);
  const ls_variable_options base = {.name = "v", .dtype = LS_DTYPE_F32};
  ls_variable_options options = base;
  options.synchronization = LS_SYNCHRONIZATION_NONE;
  expect_refused(strategy, options, "NONE");
  expect_refused(strategy, options, "change synchronization");
  options.name = NULL;
  expect_refused(strategy, options, "'none'");
  options = base;
  options.synchronization = (ls_variable_synchronization)7;
  expect_refused(strategy, options, "synchronization 7");
  // Synchronization is looked at first.
  options.aggregation = (ls_variable_aggregation)9;
  expect_refused(strategy, options, "synchronization 7");
  options.synchronization = LS_SYNCHRONIZATION_AUTO;
  expect_refused(strategy, options, "aggregation 9");
  options = base;
  options.dtype = LS_DTYPE_I32;
  options.aggregation = LS_AGGREGATION_MEAN;
  expect_refused(strategy, options, "MEAN of i32");
  options.synchronization = LS_SYNCHRONIZATION_ON_READ;
  expect_refused(strategy, options, "MEAN of i32");
  // What is asked for is kept; AUTO is ON_WRITE.
  ls_variable *v =
      variable_in(strategy, (variable_kind){.aggregation = LS_AGGREGATION_SUM});
  assert_int_equal(ls_variable_synchronization_of(v),
                   LS_SYNCHRONIZATION_ON_WRITE);
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_SUM);
  ls_variable_release(v);
  v = variable_in(strategy, (variable_kind){0});
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_NONE);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static bool trainable_of(ls_strategy *strategy, ls_flag flag,
                         ls_variable_synchronization synchronization) {
  ls_variable *v = NULL;
  LS_STRATEGY_SCOPE(strategy) {
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32,
                               .trainable = flag,
                               .synchronization = synchronization},
        &v));
  }
  const bool trainable = ls_variable_is_trainable(v);
  ls_variable_release(v);
  return trainable;
}

static void trainable_is_the_default_but_for_on_read(void **state) {
  (void)state;
  LS_SPEC("V39 M45");
  ls_strategy *s = mirrored_of(2);
  assert_true(trainable_of(s, LS_FLAG_DEFAULT, LS_SYNCHRONIZATION_AUTO));
  assert_true(trainable_of(s, LS_FLAG_DEFAULT, LS_SYNCHRONIZATION_ON_WRITE));
  assert_false(trainable_of(s, LS_FLAG_DEFAULT, ON_READ));
  assert_true(trainable_of(s, LS_FLAG_ON, ON_READ));
  assert_false(trainable_of(s, LS_FLAG_OFF, LS_SYNCHRONIZATION_AUTO));
  // Which class it is follows from the synchronization.
  ls_variable *v = variable_in(s, (variable_kind){.synchronization = ON_READ});
  char text[300];
  const ls_nest leaf = ls_nest_variable(v);
  expect_contains(ls_nest_print(leaf, text, sizeof(text)),
                  "SyncOnReadVariable");
  assert_false(ls_is_mirrored(leaf));
  ls_nest_release(leaf);
  ls_variable_release(v);
  ls_strategy_release(s);
}

// ---- Components ------------------------------------------------------------
static const char *device_of(const ls_variable *v, size_t i) {
  return ls_variable_device(ls_variable_component(v, i));
}

static void a_component_is_made_on_each_device_in_order(void **state) {
  (void)state;
  LS_SPEC("M38 M41");
  static const char *const devices[] = {"/cpu:3", "/cpu:1"};
  ls_strategy *strategy = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = 2}, &strategy));
  ls_variable *v = variable_in(strategy, (variable_kind){.name = "w"});
  assert_int_equal(ls_variable_num_components(v), 2);
  assert_string_equal(device_of(v, 0),
                      "/job:localhost/replica:0/task:0/device:CPU:3");
  assert_string_equal(device_of(v, 1),
                      "/job:localhost/replica:0/task:0/device:CPU:1");
  const ls_variable *primary = ls_variable_component(v, 0);
  assert_string_equal(ls_variable_name(v), ls_variable_name(primary));
  assert_int_equal(ls_variable_dtype(v), ls_variable_dtype(primary));
  assert_true(ls_shape_equal(ls_variable_shape(v), ls_variable_shape(primary)));
  assert_int_equal(ls_variable_is_trainable(v),
                   ls_variable_is_trainable(primary));
  assert_ptr_equal(ls_variable_strategy(v), strategy);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static void a_strategy_knows_what_it_made(void **state) {
  (void)state;
  LS_SPEC("V33");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2), *usual = NULL;
  ls_variable *v = variable_in(a, (variable_kind){0}), *plain = NULL;
  expect_ok(ls_strategy_default(&usual));
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32},
                               &plain));
  assert_true(ls_strategy_made(a, v));
  assert_true(ls_strategy_made(a, ls_variable_component(v, 1)));
  assert_false(ls_strategy_made(b, v));
  assert_false(ls_strategy_made(usual, v));
  assert_false(ls_strategy_made(a, plain));
  assert_true(ls_strategy_made(usual, plain));
  ls_variable_release(v);
  ls_variable_release(plain);
  ls_strategy_release(a);
  ls_strategy_release(b);
}

static void names_are_absolute_and_unique(void **state) {
  (void)state;
  LS_SPEC("M39");
  ls_strategy *strategy = mirrored_of(3);
  ls_graph *graph = NULL;
  ls_variable *v[4];
  const ls_variable_options unnamed = {.dtype = LS_DTYPE_F32};
  const ls_variable_options named = {.name = "a", .dtype = LS_DTYPE_F32};
  expect_ok(ls_graph_create("g", &graph));
  LS_GRAPH_SCOPE(graph) {
    LS_STRATEGY_SCOPE(strategy) {
      expect_ok(ls_variable_create(&unnamed, &v[0]));
      expect_ok(ls_variable_create(&unnamed, &v[1]));
      LS_NAME_SCOPE("main") {
        expect_ok(ls_variable_create(&named, &v[2]));
        expect_ok(ls_variable_create(&named, &v[3]));
      }
    }
  }
  static const char *const names[4][3] = {
      {"Variable", "Variable/replica_1", "Variable/replica_2"},
      {"Variable_1", "Variable_1/replica_1", "Variable_1/replica_2"},
      {"main/a", "main/a/replica_1", "main/a/replica_2"},
      {"main/a_1", "main/a_1/replica_1", "main/a_1/replica_2"},
  };
  for (size_t i = 0; i < 4; ++i) {
    assert_string_equal(ls_variable_name(v[i]), names[i][0]);
    for (size_t c = 0; c < 3; ++c)
      assert_string_equal(ls_variable_name(ls_variable_component(v[i], c)),
                          names[i][c]);
    ls_variable_release(v[i]);
  }
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  ++*(int *)user;
  return ls_leaf(ls_random_normal(LS_DTYPE_F32, LS_SHAPE(3), 0, 1, NULL));
}

static void the_initial_value_is_made_once(void **state) {
  (void)state;
  LS_SPEC("V55 M40");
  ls_strategy *strategy = mirrored_of(4);
  ls_variable *v = NULL;
  int calls = 0;
  LS_STRATEGY_SCOPE(strategy) {
    expect_ok(ls_variable_create(
        &(ls_variable_options){.initializer = draw, .initializer_user = &calls},
        &v));
  }
  assert_int_equal(calls, 1);
  ls_array *first = NULL;
  expect_ok(ls_variable_value(ls_variable_component(v, 0), &first));
  for (size_t i = 1; i < 4; ++i) {
    ls_array *other = NULL;
    expect_ok(ls_variable_value(ls_variable_component(v, i), &other));
    assert_memory_equal(ls_array_data(first), ls_array_data(other), 12);
    ls_array_release(other);
  }
  ls_array_release(first);
  ls_variable_release(v);
  // Each component of a sum starts with the whole value.
  v = variable_in(strategy, (variable_kind){.initial = 1,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  expect_components(v, (double[]){1, 1, 1, 1}, 4);
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

// ---- Creators --------------------------------------------------------------
typedef struct creations {
  char names[6][40];
  size_t count;
  ls_variable *instead;
} creations;

static ls_status note_creation(const ls_creator *next,
                               const ls_variable_options *options, void *user,
                               ls_variable **out_variable) {
  creations *c = user;
  snprintf(c->names[c->count++], sizeof(c->names[0]), "%s", options->name);
  if (c->instead != NULL) {
    *out_variable = ls_variable_retain(c->instead);
    return ls_ok();
  }
  return ls_creator_create(next, options, out_variable);
}

static void creators_outside_see_components(void **state) {
  (void)state;
  LS_SPEC("M50");
  ls_strategy *strategy = mirrored_of(2);
  creations outside = {.count = 0}, inside = {.count = 0};
  ls_variable *v = NULL;
  LS_CREATOR_SCOPE(note_creation, &outside) {
    LS_STRATEGY_SCOPE(strategy) {
      LS_CREATOR_SCOPE(note_creation, &inside) {
        expect_ok(ls_variable_create(
            &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &v));
      }
    }
  }
  assert_int_equal(inside.count, 1);
  assert_string_equal(inside.names[0], "w");
  assert_int_equal(outside.count, 2);
  assert_string_equal(outside.names[0], "w");
  assert_string_equal(outside.names[1], "w/replica_1");
  assert_int_equal(ls_variable_num_components(v), 2);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static void a_creator_must_return_plain_variables(void **state) {
  (void)state;
  LS_SPEC("M48");
  ls_strategy *strategy = mirrored_of(2);
  creations wrong = {
      .instead = variable_in(strategy, (variable_kind){.name = "whole"})};
  ls_variable *v = NULL;
  LS_CREATOR_SCOPE(note_creation, &wrong) {
    LS_STRATEGY_SCOPE(strategy) {
      expect_status(ls_variable_create(
                        &(ls_variable_options){.name = "w",
                                               .dtype = LS_DTYPE_F32},
                        &v),
                    LS_FAILED_PRECONDITION, "'whole'");
    }
  }
  assert_null(v);
  ls_variable_release(wrong.instead);
  ls_strategy_release(strategy);
}

// ---- Collections -----------------------------------------------------------
static size_t collected(const ls_graph *graph, const char *name,
                        ls_variable *variable) {
  ls_nest leaves[8];
  const size_t count = ls_graph_collection(graph, name, leaves, 8);
  size_t found = 0;
  for (size_t i = 0; i < count; ++i)
    found += ls_nest_as_variable(leaves[i]) == variable;
  return found;
}

static void the_container_is_in_the_collections(void **state) {
  (void)state;
  LS_SPEC("V43 V49 M42 M43 M44");
  static const char *const mine[] = {"mine", LS_COLLECTION_TRAINABLE_VARIABLES};
  static const char *const none[] = {NULL};
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = NULL;
  ls_variable *usual = NULL, *asked = NULL, *nowhere = NULL;
  expect_ok(ls_graph_create("g", &graph));
  LS_GRAPH_SCOPE(graph) {
    LS_STRATEGY_SCOPE(strategy) {
      ls_variable_options options = {.dtype = LS_DTYPE_F32};
      expect_ok(ls_variable_create(&options, &usual));
      options.collections = mine;
      options.num_collections = 2;
      expect_ok(ls_variable_create(&options, &asked));
      options.collections = none;
      options.num_collections = 0;
      options.trainable = LS_FLAG_OFF;
      expect_ok(ls_variable_create(&options, &nowhere));
    }
  }
  ls_variable *const all[] = {usual, asked, nowhere};
  static const char *const names[] = {LS_COLLECTION_GLOBAL_VARIABLES, "mine",
                                      LS_COLLECTION_TRAINABLE_VARIABLES};
  static const size_t wanted[3][3] = {{1, 0, 1}, {0, 1, 1}, {0, 0, 0}};
  for (size_t v = 0; v < 3; ++v)
    for (size_t n = 0; n < 3; ++n) {
      assert_int_equal(collected(graph, names[n], all[v]), wanted[v][n]);
      for (size_t i = 0; i < 2; ++i)
        assert_int_equal(
            collected(graph, names[n], ls_variable_component(all[v], i)), 0);
    }
  assert_string_equal(mine[0], "mine");
  for (size_t v = 0; v < 3; ++v) ls_variable_release(all[v]);
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

static void eager_keeps_the_global_step_only(void **state) {
  (void)state;
  LS_SPEC("V50 M42");
  static const char *const both[] = {"mine", LS_COLLECTION_GLOBAL_STEP};
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = NULL;
  LS_STRATEGY_SCOPE(strategy) {
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_I64,
                               .collections = both,
                               .num_collections = 2},
        &v));
  }
  ls_graph *graph = ls_graph_current();
  assert_int_equal(collected(graph, LS_COLLECTION_GLOBAL_STEP, v), 1);
  assert_int_equal(ls_graph_collection(graph, "mine", NULL, 0), 0);
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = v};
  ls_graph_remove_from_collection(graph, LS_COLLECTION_GLOBAL_STEP, leaf);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

// ---- Replica writes --------------------------------------------------------
typedef struct writes {
  ls_variable *variable;
  ls_write_op op;
  ls_code code;      // What the write is to give.
  const char *says;
  double after[4];   // What each replica sees of it.
  ls_tensor outside;
  ls_nest value;     // Used instead of replica + 1.
  bool use_value, use_outside;
} writes;

static ls_nest write_in_replica(ls_nest args, void *user) {
  writes *w = user;
  (void)args;
  const int r = ls_replica_number();
  ls_nest made = ls_none();
  const ls_nest value = w->use_value     ? w->value
                        : w->use_outside ? ls_leaf(w->outside)
                                         : ls_leaf(scalar_of(r + 1));
  const ls_status status =
      ls_variable_write(w->variable, w->op, value, NULL, &made);
  if (w->code != LS_OK) return ls_fail(status);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  w->after[r] = number_of(made);
  ls_nest_release(made);
  return ls_none();
}

static void run_writes(ls_strategy *strategy, writes *w) {
  ls_nest results = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(write_in_replica, w),
                                ls_none(), &results),
                w->code, w->code == LS_OK ? "" : w->says);
  ls_nest_release(results);
}

static void replicas_write_what_the_aggregation_makes(void **state) {
  (void)state;
  LS_SPEC("V97 V98");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted[3];  // assign, add, sub.
  } cases[] = {{SUM, {3, 13, 7}}, {MEAN, {1.5, 11.5, 8.5}}, {FIRST, {1, 11, 9}}};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t c = 0; c < 3; ++c)
    for (int op = 0; op < 3; ++op) {
      ls_variable *v = variable_in(
          strategy, (variable_kind){.initial = 10,
                                    .aggregation = cases[c].aggregation});
      writes w = {.variable = v, .op = (ls_write_op)op};
      run_writes(strategy, &w);
      const double wanted = cases[c].wanted[op];
      expect_components(v, (double[]){wanted, wanted}, 2);
      assert_true(w.after[0] == wanted && w.after[1] == wanted);
      ls_variable_release(v);
    }
  ls_strategy_release(strategy);
}

static void without_aggregation_each_replica_writes_its_own(void **state) {
  (void)state;
  LS_SPEC("V96");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){.initial = 10});
  writes w = {.variable = v};
  run_writes(strategy, &w);
  expect_components(v, (double[]){1, 2}, 2);
  assert_true(w.after[0] == 1 && w.after[1] == 2);
  // One value for all puts them together again.
  ls_nest made = ls_none();
  expect_ok(ls_variable_write(v, LS_WRITE_ASSIGN, ls_nest_f64(4), NULL, &made));
  expect_numbers(made, (double[]){4, 4}, 2);
  ls_nest_release(made);
  expect_components(v, (double[]){4, 4}, 2);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static void one_value_from_all_replicas_is_not_summed(void **state) {
  (void)state;
  LS_SPEC("V99");
  ls_strategy *strategy = mirrored_of(2), *one = mirrored_of(1);
  static const ls_variable_aggregation each[] = {SUM, MEAN, FIRST};
  for (size_t a = 0; a < 3; ++a) {
    const bool sum = each[a] == LS_AGGREGATION_SUM;
    ls_variable *v =
        variable_in(strategy, (variable_kind){.initial = 10,
                                              .aggregation = each[a]});
    writes w = {.variable = v,
                .code = sum ? LS_INVALID_ARGUMENT : LS_OK,
                .says = "SUM",
                .use_value = true,
                .value = ls_nest_f64(2.5)};
    run_writes(strategy, &w);
    w.says = "2.5 is given by all replicas";
    run_writes(strategy, &w);
    w.use_value = false;
    w.use_outside = true;
    w.outside = scalar_of(2.5);
    w.says = "SUM";
    run_writes(strategy, &w);
    const double now = sum ? 10 : 2.5;
    expect_components(v, (double[]){now, now}, 2);
    ls_variable_release(v);
  }
  ls_variable *v =
      variable_in(strategy, (variable_kind){.initial = 10, .aggregation = SUM});
  writes w = {.variable = v, .use_value = true, .value = ls_nest_i64(0)};
  run_writes(strategy, &w);
  expect_components(v, (double[]){0, 0}, 2);
  ls_variable_release(v);
  v = variable_in(one, (variable_kind){.initial = 10, .aggregation = SUM});
  w = (writes){.variable = v, .use_value = true, .value = ls_nest_f64(2.5)};
  run_writes(one, &w);
  expect_components(v, (double[]){2.5}, 1);
  ls_variable_release(v);
  ls_strategy_release(strategy);
  ls_strategy_release(one);
}

static void a_distributed_value_in_a_replica_is_aggregated(void **state) {
  (void)state;
  LS_SPEC("V100");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 3}, {MEAN, 1.5}, {FIRST, 1}};
  ls_strategy *strategy = mirrored_of(2);
  for (int kind = 0; kind < 2; ++kind) {
    const ls_nest value =
        distributed_numbers(kind == 0 ? LS_PER_REPLICA : LS_MIRRORED,
                            (double[]){1, 2}, 2);
    for (size_t c = 0; c < 3; ++c) {
      ls_variable *v = variable_in(
          strategy, (variable_kind){.aggregation = cases[c].aggregation});
      writes w = {.variable = v, .use_value = true, .value = value};
      run_writes(strategy, &w);
      expect_components(v, (double[]){cases[c].wanted, cases[c].wanted}, 2);
      ls_variable_release(v);
    }
    ls_variable *v = variable_in(strategy, (variable_kind){.initial = 5});
    writes w = {.variable = v,
                .use_value = true,
                .value = value,
                .code = LS_INVALID_ARGUMENT,
                .says = "NONE"};
    run_writes(strategy, &w);
    expect_components(v, (double[]){5, 5}, 2);
    ls_variable_release(v);
    ls_nest_release(value);
  }
  ls_strategy_release(strategy);
}

static void the_global_step_counts_steps(void **state) {
  (void)state;
  LS_SPEC("V103");
  for (int n = 1; n <= 3; ++n) {
    ls_strategy *strategy = mirrored_of(n);
    ls_variable *v = variable_in(strategy, (variable_kind){.dtype = LS_DTYPE_I64,
                                                           .aggregation = FIRST});
    writes w = {.variable = v,
                .op = LS_WRITE_ADD,
                .use_value = true,
                .value = ls_nest_i64(1)};
    run_writes(strategy, &w);
    run_writes(strategy, &w);
    expect_components(v, (double[]){2, 2, 2}, (size_t)n);
    ls_variable_release(v);
    ls_strategy_release(strategy);
  }
}

// ---- Cross-replica writes and reads ----------------------------------------
static ls_nest write_across(ls_variable *v, ls_write_op op, ls_nest value) {
  ls_nest made = ls_none();
  expect_ok(ls_variable_write(v, op, value, NULL, &made));
  return made;
}

static void a_write_across_replicas_reaches_all(void **state) {
  (void)state;
  LS_SPEC("V94 V102");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a)
    for (int scope = 0; scope < 2; ++scope) {
      ls_variable *v =
          variable_in(strategy, (variable_kind){.initial = 10,
                                                .aggregation = all[a]});
      ls_scope inside = {0};
      if (scope == 1) ls_strategy_scope_begin(&inside, strategy);
      ls_nest made = write_across(v, LS_WRITE_ADD, ls_leaf(scalar_of(5)));
      assert_true(ls_is_mirrored(made));
      expect_numbers(made, (double[]){15, 15}, 2);
      ls_nest_release(made);
      const ls_nest mirrored =
          distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2);
      made = write_across(v, LS_WRITE_SUB, mirrored);
      expect_numbers(made, (double[]){14, 13}, 2);
      ls_nest_release(made);
      ls_nest_release(mirrored);
      expect_components(v, (double[]){14, 13}, 2);
      made = ls_nest_f64(1);
      expect_ok(ls_variable_write(
          v, LS_WRITE_ADD, ls_nest_i64(1),
          &(ls_write_options){.no_read_value = true}, &made));
      assert_int_equal(made.kind, LS_KIND_NONE);
      expect_components(v, (double[]){15, 14}, 2);
      ls_scope_end(&inside);
      ls_variable_release(v);
    }
  ls_strategy_release(strategy);
}

static void what_differs_may_be_assigned_where_nothing_is_aggregated(
    void **state) {
  (void)state;
  ls_strategy *strategy = mirrored_of(2);
  const ls_nest value = per_replica_scalars((double[]){1, 2}, 2);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  ls_nest_release(write_across(v, LS_WRITE_ASSIGN, value));
  expect_components(v, (double[]){1, 2}, 2);
  ls_variable_release(v);
  v = variable_in(strategy, (variable_kind){.aggregation = SUM});
  ls_nest made = ls_none();
  expect_status(ls_variable_write(v, LS_WRITE_ASSIGN, value, NULL, &made),
                LS_INVALID_ARGUMENT, "SUM");
  expect_components(v, (double[]){0, 0}, 2);
  ls_variable_release(v);
  ls_nest_release(value);
  ls_strategy_release(strategy);
}

typedef struct reads {
  ls_variable *variable;
  double seen[4], used[4];
  int count;
} reads;

static ls_nest read_in_replica(ls_nest args, void *user) {
  reads *r = user;
  (void)args;
  const int id = ls_replica_number();
  r->seen[id] = number_of(ls_leaf(ls_variable_read(r->variable)));
  r->used[id] = number_of(ls_leaf(ls_variable_as_tensor(r->variable)));
  ++r->count;
  return ls_none();
}

static ls_nest read_in_update(ls_nest args, void *user) {
  reads *r = user;
  const size_t id = (size_t)ls_update_replica_id().value;
  (void)args;
  r->seen[id] = number_of(ls_leaf(ls_variable_read(r->variable)));
  ++r->count;
  return ls_none();
}

static void reads_give_the_threads_component(void **state) {
  (void)state;
  LS_SPEC("V90 V93 V105 M178");
  ls_strategy *strategy = mirrored_of(2);
  for (int kind = 0; kind < 2; ++kind) {
    ls_variable *v = variable_in(
        strategy, (variable_kind){.synchronization =
                                      kind == 0 ? LS_SYNCHRONIZATION_ON_WRITE
                                                : ON_READ,
                                  .aggregation = SUM});
    set_components(v, (double[]){3, 4}, 2);
    reads r = {.variable = v};
    ls_nest_release(run_on(strategy, read_in_replica, ls_none(), &r));
    assert_true(r.seen[0] == 3 && r.seen[1] == 4);
    assert_true(r.used[0] == 3 && r.used[1] == 4);
    r = (reads){.variable = v};
    ls_nest made = ls_none();
    expect_ok(ls_strategy_update(strategy, v, read_in_update, ls_none(), &r,
                                 true, &made));
    assert_int_equal(r.count, 2);
    assert_true(r.seen[0] == 3 && r.seen[1] == 4);
    if (kind == 1)  // Across replicas it is aggregated.
      assert_true(number_of(ls_leaf(ls_variable_read(v))) == 7);
    if (kind == 0) {
      LS_STRATEGY_SCOPE(strategy) {
        assert_true(number_of(ls_leaf(ls_variable_read(v))) == 3);
        LS_DEVICE_SCOPE("/cpu:1") {
          assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
        }
        LS_DEVICE_SCOPE("/cpu:7") {
          assert_true(number_of(ls_leaf(ls_variable_read(v))) == 3);
        }
      }
      // A read is a copy.
      const ls_tensor before = ls_variable_read(v);
      ls_nest_release(write_across(v, LS_WRITE_ASSIGN, ls_nest_f64(9)));
      assert_true(number_of(ls_leaf(before)) == 3);
    }
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static ls_nest use_in_other(ls_nest args, void *user) {
  (void)args;
  const ls_tensor value = ls_variable_as_tensor(user);
  expect_status(ls_tensor_status(value), LS_FAILED_PRECONDITION,
                "cannot be mixed");
  return ls_none();
}

static void use_as_a_tensor_needs_no_scope(void **state) {
  (void)state;
  LS_SPEC("V91 V89");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2);
  ls_variable *v = variable_in(a, (variable_kind){0});
  set_components(v, (double[]){3, 4}, 2);
  LS_DEVICE_SCOPE("/cpu:1") {
    assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 3);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
  }
  LS_STRATEGY_SCOPE(b) {
    assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 3);
    LS_DEVICE_SCOPE("/cpu:1") {
      assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 4);
    }
    // Whatever else would enter the variable's own scope.
    expect_status(ls_tensor_status(ls_variable_read(v)),
                  LS_FAILED_PRECONDITION, "mirrored strategy");
    ls_nest made = ls_none();
    expect_status(
        ls_variable_write(v, LS_WRITE_ADD, ls_nest_f64(1), NULL, &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
  }
  ls_nest_release(run_on(b, use_in_other, ls_none(), v));
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  LS_STRATEGY_SCOPE(usual) {
    ls_nest_release(write_across(v, LS_WRITE_ADD, ls_nest_f64(1)));
    assert_false(ls_has_strategy());
  }
  expect_components(v, (double[]){4, 5}, 2);
  ls_variable_release(v);
  ls_strategy_release(a);
  ls_strategy_release(b);
}

static ls_nest write_whole(ls_nest args, void *user) {
  (void)args;
  const double u = (double)ls_update_replica_id().value;
  const ls_tensor after =
      ls_variable_assign_add(user, scalar_of(10 * (u + 1)));
  assert_true(number_of(ls_leaf(ls_variable_read(user))) ==
              number_of(ls_leaf(after)));
  return ls_leaf(after);
}

static void in_an_update_the_container_is_its_component(void **state) {
  (void)state;
  LS_SPEC("V101 M140");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){.initial = 1,
                                                         .aggregation = SUM});
  ls_nest made = ls_none();
  expect_ok(
      ls_strategy_update(strategy, v, write_whole, ls_none(), v, true, &made));
  expect_numbers(made, (double[]){11, 21}, 2);
  expect_components(v, (double[]){11, 21}, 2);
  ls_nest_release(made);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

// ---- Synchronized on read --------------------------------------------------
static void a_read_across_replicas_aggregates(void **state) {
  (void)state;
  LS_SPEC("V106 M53");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 7}, {MEAN, 3.5}, {FIRST, 3}};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t c = 0; c < 3; ++c) {
    ls_variable *v = variable_in(
        strategy, (variable_kind){.synchronization = ON_READ,
                                  .aggregation = cases[c].aggregation});
    set_components(v, (double[]){3, 4}, 2);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == cases[c].wanted);
    LS_STRATEGY_SCOPE(strategy) {
      assert_true(number_of(ls_leaf(ls_variable_read(v))) == cases[c].wanted);
      assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) ==
                  cases[c].wanted);
    }
    ls_variable_release(v);
  }
  ls_variable *v =
      variable_in(strategy, (variable_kind){.synchronization = ON_READ});
  expect_status(ls_tensor_status(ls_variable_read(v)), LS_INVALID_ARGUMENT,
                "NONE");
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static void reduce_obeys_its_own_operation(void **state) {
  (void)state;
  LS_SPEC("V107");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a) {
    ls_variable *v =
        variable_in(strategy, (variable_kind){.synchronization = ON_READ,
                                              .aggregation = all[a]});
    set_components(v, (double[]){3, 4}, 2);
    const ls_nest leaf = ls_nest_variable(v);
    ls_nest made = ls_none();
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, leaf, &made));
    assert_true(number_of(made) == 7);
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, leaf, &made));
    assert_true(number_of(made) == 3.5);
    ls_nest_release(leaf);
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static void a_replica_writes_its_own_part(void **state) {
  (void)state;
  LS_SPEC("V108");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a) {
    ls_variable *v = variable_in(
        strategy, (variable_kind){.initial = 10,
                                  .synchronization = ON_READ,
                                  .aggregation = all[a]});
    writes w = {.variable = v, .op = LS_WRITE_ADD};
    run_writes(strategy, &w);
    expect_components(v, (double[]){11, 12}, 2);
    w.use_value = true;
    w.value = ls_nest_i64(5);
    run_writes(strategy, &w);
    expect_components(v, (double[]){16, 17}, 2);
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static void a_sum_is_dealt_out_by_an_assignment(void **state) {
  (void)state;
  LS_SPEC("V109 M53");
  static const struct {
    int replicas;
    ls_dtype dtype;
    ls_variable_aggregation aggregation;
    double value, each, after;
  } cases[] = {
      {2, LS_DTYPE_I32, SUM, 7, 3, 6},    {2, LS_DTYPE_I32, SUM, -7, -3, -6},
      {4, LS_DTYPE_F32, SUM, 6, 1.5, 6},  {2, LS_DTYPE_F32, MEAN, 6, 6, 6},
      {2, LS_DTYPE_F32, FIRST, 6, 6, 6},
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    ls_strategy *strategy = mirrored_of(cases[c].replicas);
    ls_variable *v = variable_in(
        strategy, (variable_kind){.dtype = cases[c].dtype,
                                  .synchronization = ON_READ,
                                  .aggregation = cases[c].aggregation});
    ls_nest made = write_across(v, LS_WRITE_ASSIGN,
                                cases[c].dtype == LS_DTYPE_I32
                                    ? ls_nest_i64((int64_t)cases[c].value)
                                    : ls_nest_f64(cases[c].value));
    assert_true(number_of(made) == cases[c].after);
    const double e = cases[c].each;
    expect_components(v, (double[]){e, e, e, e}, (size_t)cases[c].replicas);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == cases[c].after);
    ls_variable_release(v);
    ls_strategy_release(strategy);
  }
}

static void a_sum_cannot_be_added_to_across_replicas(void **state) {
  (void)state;
  LS_SPEC("V110 V111");
  ls_strategy *strategy = mirrored_of(2);
  ls_nest made = ls_none();
  static const ls_write_options no_value = {.no_read_value = true};
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  for (size_t a = 0; a < 4; ++a) {
    ls_variable *v = variable_in(
        strategy, (variable_kind){.initial = 10,
                                  .synchronization = ON_READ,
                                  .aggregation = all[a]});
    if (all[a] == LS_AGGREGATION_SUM) {
      expect_status(
          ls_variable_write(v, LS_WRITE_ADD, ls_nest_f64(1), NULL, &made),
          LS_FAILED_PRECONDITION, "assign_add of 'v' in a cross-replica");
      expect_status(
          ls_variable_write(v, LS_WRITE_SUB, ls_nest_f64(1), NULL, &made),
          LS_FAILED_PRECONDITION, "SUM");
      expect_components(v, (double[]){10, 10}, 2);
    } else if (all[a] == LS_AGGREGATION_NONE) {
      // Its value afterwards cannot be read: nothing is written.
      for (int op = 0; op < 3; ++op)
        expect_status(ls_variable_write(v, (ls_write_op)op, ls_nest_f64(1),
                                        NULL, &made),
                      LS_INVALID_ARGUMENT, "NONE");
      expect_components(v, (double[]){10, 10}, 2);
      expect_ok(ls_variable_write(v, LS_WRITE_ADD, ls_nest_f64(1), &no_value,
                                  &made));
      expect_components(v, (double[]){11, 11}, 2);
    } else {
      made = write_across(v, LS_WRITE_SUB, ls_nest_f64(1));
      assert_true(number_of(made) == 9);
      expect_components(v, (double[]){9, 9}, 2);
    }
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static void a_per_replica_is_no_value_for_it(void **state) {
  (void)state;
  LS_SPEC("V112");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(
      strategy, (variable_kind){.synchronization = ON_READ,
                                .aggregation = MEAN});
  const ls_nest differing = per_replica_scalars((double[]){1, 2}, 2);
  const ls_nest mirrored =
      distributed_numbers(LS_MIRRORED, (double[]){5, 5}, 2);
  ls_nest made = ls_none();
  expect_status(ls_variable_write(v, LS_WRITE_ASSIGN, differing, NULL, &made),
                LS_INVALID_ARGUMENT, "ON_READ");
  writes w = {.variable = v,
              .use_value = true,
              .value = differing,
              .code = LS_INVALID_ARGUMENT,
              .says = "in a replica"};
  run_writes(strategy, &w);
  expect_components(v, (double[]){0, 0}, 2);
  made = write_across(v, LS_WRITE_ASSIGN, mirrored);
  expect_components(v, (double[]){5, 5}, 2);
  ls_nest_release(differing);
  ls_nest_release(mirrored);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static ls_nest add_ten(ls_nest args, void *user) {
  reads *r = user;
  (void)args;
  const size_t id = (size_t)ls_replica_number();
  ls_status status = ls_ok();
  LS_SYNC_ON_READ_SCOPE {
    const ls_tensor used = ls_variable_as_tensor(r->variable);
    status = ls_tensor_status(used);
    if (ls_status_is_ok(status))
      r->used[id] = number_of(ls_leaf(ls_add_scalar(used, 10)));
    const ls_status read = ls_tensor_status(ls_variable_read(r->variable));
    expect_contains(ls_status_message(read), "read_value");
    expect_status(read, LS_UNIMPLEMENTED, "variable_sync_on_read_context");
    LS_SYNC_ON_READ_SCOPE { r->count += 1; }
    expect_status(ls_tensor_status(ls_variable_read(r->variable)),
                  LS_UNIMPLEMENTED, "read_value");
  }
  r->seen[id] = number_of(ls_leaf(ls_variable_as_tensor(r->variable)));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static void replicas_can_use_the_value_of_all(void **state) {
  (void)state;
  LS_SPEC("V113 V114 V115");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 17}, {MEAN, 13.5}, {FIRST, 13}, {NONE, 0}};
  ls_strategy *strategy = mirrored_of(2);
  for (size_t c = 0; c < 4; ++c) {
    ls_variable *v = variable_in(
        strategy, (variable_kind){.synchronization = ON_READ,
                                  .aggregation = cases[c].aggregation});
    reads r = {.variable = v};
    ls_nest made = ls_none();
    set_components(v, (double[]){3, 4}, 2);
    const bool none = cases[c].aggregation == LS_AGGREGATION_NONE;
    expect_status(ls_strategy_run(strategy, ls_plain(add_ten, &r), ls_none(),
                                  &made),
                  none ? LS_INVALID_ARGUMENT : LS_OK, none ? "NONE" : "");
    if (!none) {
      assert_true(r.used[0] == cases[c].wanted);
      assert_true(r.used[1] == cases[c].wanted);
      assert_true(r.seen[0] == 3 && r.seen[1] == 4);  // As before the scope.
      LS_SYNC_ON_READ_SCOPE {
        assert_true(number_of(ls_leaf(ls_variable_read(v))) ==
                    cases[c].wanted - 10);
      }
    }
    ls_variable_release(v);
  }
  // Mirrored variables do not care.
  ls_variable *v = variable_in(strategy, (variable_kind){.aggregation = SUM});
  set_components(v, (double[]){3, 4}, 2);
  reads r = {.variable = v};
  LS_SYNC_ON_READ_SCOPE {
    ls_nest_release(run_on(strategy, read_in_replica, ls_none(), &r));
  }
  assert_true(r.seen[0] == 3 && r.seen[1] == 4);
  assert_true(r.used[0] == 3 && r.used[1] == 4);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

// ---- Beside others ---------------------------------------------------------
static void only_what_the_strategy_made_is_a_place(void **state) {
  (void)state;
  LS_SPEC("V30 V31");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2);
  ls_variable *v = variable_in(a, (variable_kind){.name = "mine"});
  ls_variable *plain = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "plain", .dtype = LS_DTYPE_F32}, &plain));
  const ls_nest whole = ls_nest_variable(v), alone = ls_nest_variable(plain);
  const ls_nest part = ls_nest_variable(ls_variable_component(v, 1));
  expect_ok(ls_validate_colocate_distributed_variable(whole, a));
  expect_ok(ls_validate_colocate(whole, a));
  expect_ok(ls_validate_colocate(part, a));
  const struct {
    ls_status status;
    const char *names[2];
  } refused[] = {
      {ls_validate_colocate_distributed_variable(part, a),
       {"colocate_vars_with", "'mine/replica_1'"}},
      {ls_validate_colocate_distributed_variable(alone, a),
       {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate_distributed_variable(ls_nest_f64(4), a),
       {"colocate_vars_with", "4.0"}},
      {ls_validate_colocate_distributed_variable(whole, b),
       {"colocate_vars_with", "'mine' was made in mirrored strategy"}},
      {ls_validate_colocate(part, b),
       {"colocate_vars_with", "was made in mirrored strategy"}},
      {ls_validate_colocate(alone, a), {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate(ls_none(), a), {"colocate_vars_with", "none"}},
  };
  for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); ++i) {
    expect_contains(ls_status_message(refused[i].status), refused[i].names[0]);
    expect_status(refused[i].status, LS_INVALID_ARGUMENT, refused[i].names[1]);
  }
  ls_nest_release(whole);
  ls_nest_release(part);
  ls_nest_release(alone);
  ls_variable_release(v);
  ls_variable_release(plain);
  ls_strategy_release(a);
  ls_strategy_release(b);
}

static void some_aggregations_are_reduce_ops(void **state) {
  (void)state;
  LS_SPEC("V41");
  ls_reduce_op op = LS_REDUCE_MAX;
  expect_ok(ls_aggregation_reduce_op(SUM, &op));
  assert_int_equal(op, LS_REDUCE_SUM);
  expect_ok(ls_aggregation_reduce_op(MEAN, &op));
  assert_int_equal(op, LS_REDUCE_MEAN);
  expect_status(ls_aggregation_reduce_op(NONE, &op), LS_INVALID_ARGUMENT,
                "NONE");
  expect_status(ls_aggregation_reduce_op(FIRST, &op), LS_INVALID_ARGUMENT,
                "ONLY_FIRST_REPLICA");
}

// ---- Scattering ------------------------------------------------------------
typedef struct scatters {
  ls_variable *variable;
  ls_scatter_op op;
  bool same_row;
} scatters;

static ls_nest scatter_in_replica(ls_nest args, void *user) {
  scatters *s = user;
  (void)args;
  const int r = ls_replica_number();
  const int64_t row = s->same_row ? 0 : r;
  const double value = s->same_row ? r + 2 : 2 * (r + 1);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, row), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(value), LS_SHAPE(1));
  const ls_tensor after =
      ls_variable_scatter(s->variable, s->op, index, update);
  const ls_status status = ls_tensor_status(after);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_variable *rows_in(ls_strategy *strategy,
                            ls_variable_synchronization synchronization,
                            ls_variable_aggregation aggregation) {
  ls_variable *v = NULL;
  ls_array *initial = NULL;
  static const double start[] = {4, 6, 8};
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(3), &initial));
  for (int i = 0; i < 3; ++i) ls_array_set_f64(initial, i, start[i]);
  LS_STRATEGY_SCOPE(strategy) {
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "rows",
                               .initial_array = initial,
                               .synchronization = synchronization,
                               .aggregation = aggregation},
        &v));
  }
  ls_array_release(initial);
  return v;
}

static void expect_rows(ls_variable *v, size_t component, const double *rows) {
  ls_array *array = NULL;
  expect_ok(ls_variable_value(ls_variable_component(v, component), &array));
  for (int64_t i = 0; i < 3; ++i)
    if (ls_array_f64(array, i) != rows[i])
      fail_msg("row %d of component %zu is %g, wanted %g", (int)i, component,
               ls_array_f64(array, i), rows[i]);
  ls_array_release(array);
}

static void scattered_rows_are_aggregated(void **state) {
  (void)state;
  LS_SPEC("V119");
  static const struct {
    ls_scatter_op op;
    ls_variable_aggregation aggregation;
    bool same_row;
    double rows[2][3];
  } cases[] = {
      {LS_SCATTER_ADD, SUM, false, {{6, 10, 8}, {6, 10, 8}}},
      {LS_SCATTER_ADD, MEAN, false, {{5, 8, 8}, {5, 8, 8}}},
      {LS_SCATTER_MUL, SUM, false, {{8, 24, 8}, {8, 24, 8}}},
      {LS_SCATTER_MUL, MEAN, false, {{4, 12, 8}, {4, 12, 8}}},
      {LS_SCATTER_DIV, SUM, false, {{2, 1.5, 8}, {2, 1.5, 8}}},
      {LS_SCATTER_SUB, FIRST, false, {{2, 6, 8}, {2, 6, 8}}},
      {LS_SCATTER_MUL, SUM, true, {{24, 6, 8}, {24, 6, 8}}},
      {LS_SCATTER_ADD, NONE, false, {{6, 6, 8}, {4, 10, 8}}},
  };
  ls_strategy *strategy = mirrored_of(2);
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    ls_variable *v = rows_in(strategy, LS_SYNCHRONIZATION_AUTO,
                             cases[c].aggregation);
    scatters s = {v, cases[c].op, cases[c].same_row};
    ls_nest_release(run_on(strategy, scatter_in_replica, ls_none(), &s));
    for (size_t i = 0; i < 2; ++i) expect_rows(v, i, cases[c].rows[i]);
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static void scatters_across_replicas_reach_all(void **state) {
  (void)state;
  LS_SPEC("V116 V117 V118");
  static const struct {
    ls_scatter_op op;
    double row;
    bool any;  // Whatever the aggregation.
  } cases[] = {
      {LS_SCATTER_SUB, 2, true},  {LS_SCATTER_ADD, 6, true},
      {LS_SCATTER_MUL, 8, true},  {LS_SCATTER_DIV, 2, true},
      {LS_SCATTER_MIN, 2, false}, {LS_SCATTER_MAX, 4, false},
      {LS_SCATTER_UPDATE, 2, false},
  };
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  static const char *const names[] = {"", "SUM", "MEAN", ""};
  ls_strategy *strategy = mirrored_of(2);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(2), LS_SHAPE(1));
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c)
    for (size_t a = 0; a < 4; ++a) {
      ls_variable *v = rows_in(strategy, LS_SYNCHRONIZATION_AUTO, all[a]);
      const bool refused = !cases[c].any && names[a][0] != '\0';
      LS_STRATEGY_SCOPE(strategy) {
        const ls_tensor after =
            ls_variable_scatter(v, cases[c].op, index, update);
        expect_status(ls_tensor_status(after),
                      refused ? LS_UNIMPLEMENTED : LS_OK,
                      refused ? names[a] : "");
        if (refused)
          expect_status(ls_tensor_status(after), LS_UNIMPLEMENTED, "scatter_");
        if (!refused) {
          ls_array *value = NULL;
          expect_ok(ls_tensor_value(after, &value));
          assert_true(ls_array_f64(value, 0) == cases[c].row);
          ls_array_release(value);
        }
      }
      for (size_t i = 0; i < 2; ++i)
        expect_rows(v, i, (double[]){refused ? 4 : cases[c].row, 6, 8});
      if (refused) {
        scatters s = {v, cases[c].op, false};
        ls_nest results = ls_none();
        expect_status(ls_strategy_run(strategy,
                                      ls_plain(scatter_in_replica, &s),
                                      ls_none(), &results),
                      LS_UNIMPLEMENTED, names[a]);
      }
      ls_variable_release(v);
    }
  ls_strategy_release(strategy);
}

static void nothing_is_scattered_into_on_read_variables(void **state) {
  (void)state;
  LS_SPEC("V120");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = rows_in(strategy, ON_READ, SUM);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(2), LS_SHAPE(1));
  for (int op = LS_SCATTER_UPDATE; op <= LS_SCATTER_MAX; ++op) {
    scatters s = {v, (ls_scatter_op)op, false};
    ls_nest results = ls_none();
    expect_status(ls_strategy_run(strategy, ls_plain(scatter_in_replica, &s),
                                  ls_none(), &results),
                  LS_UNIMPLEMENTED, "ON_READ");
    expect_status(ls_tensor_status(ls_variable_scatter(v, (ls_scatter_op)op,
                                                       index, update)),
                  LS_UNIMPLEMENTED, "scatter_");
  }
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_enums_have_their_numbers),
      cmocka_unit_test(wrong_options_leave_nothing_behind),
      cmocka_unit_test(trainable_is_the_default_but_for_on_read),
      cmocka_unit_test(a_component_is_made_on_each_device_in_order),
      cmocka_unit_test(a_strategy_knows_what_it_made),
      cmocka_unit_test(names_are_absolute_and_unique),
      cmocka_unit_test(the_initial_value_is_made_once),
      cmocka_unit_test(creators_outside_see_components),
      cmocka_unit_test(a_creator_must_return_plain_variables),
      cmocka_unit_test(the_container_is_in_the_collections),
      cmocka_unit_test(eager_keeps_the_global_step_only),
      cmocka_unit_test(replicas_write_what_the_aggregation_makes),
      cmocka_unit_test(without_aggregation_each_replica_writes_its_own),
      cmocka_unit_test(one_value_from_all_replicas_is_not_summed),
      cmocka_unit_test(a_distributed_value_in_a_replica_is_aggregated),
      cmocka_unit_test(the_global_step_counts_steps),
      cmocka_unit_test(a_write_across_replicas_reaches_all),
      cmocka_unit_test(what_differs_may_be_assigned_where_nothing_is_aggregated),
      cmocka_unit_test(reads_give_the_threads_component),
      cmocka_unit_test(use_as_a_tensor_needs_no_scope),
      cmocka_unit_test(in_an_update_the_container_is_its_component),
      cmocka_unit_test(a_read_across_replicas_aggregates),
      cmocka_unit_test(reduce_obeys_its_own_operation),
      cmocka_unit_test(a_replica_writes_its_own_part),
      cmocka_unit_test(a_sum_is_dealt_out_by_an_assignment),
      cmocka_unit_test(a_sum_cannot_be_added_to_across_replicas),
      cmocka_unit_test(a_per_replica_is_no_value_for_it),
      cmocka_unit_test(replicas_can_use_the_value_of_all),
      cmocka_unit_test(only_what_the_strategy_made_is_a_place),
      cmocka_unit_test(some_aggregations_are_reduce_ops),
      cmocka_unit_test(scattered_rows_are_aggregated),
      cmocka_unit_test(scatters_across_replicas_reach_all),
      cmocka_unit_test(nothing_is_scattered_into_on_read_variables),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}

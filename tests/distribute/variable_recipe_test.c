// SPDX-License-Identifier: Apache-2.0
//
// What a strategy makes of the components that a creator gives it.
#include "distribute/variables/variable.h"

#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/handles.h"
#include "lockstep/session.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/variables.h"

// A creator of plain variables by hand, and what it was asked for.
typedef struct maker {
  int calls;
  size_t count;       // Components to make.
  ls_variable *read;  // Read while they are made.
  bool bare;          // Without an initializer.
  ls_variable_options seen;
} maker;

static ls_status make_by_hand(ls_strategy *strategy,
                              const ls_variable_options *options, void *user,
                              ls_component_list *components) {
  maker *m = user;
  ++m->calls;
  m->seen = *options;
  if (m->read != NULL) expect_ok(ls_tensor_status(ls_variable_read(m->read)));
  for (size_t i = 0; i < m->count; ++i) {
    ls_variable *made = NULL;
    if (m->bare) {
      LS_RETURN_IF_ERROR(ls_variable_make(strategy->runtime, options->name,
                                          (ls_type){LS_DTYPE_F32, LS_SCALAR},
                                          true, &made));
      made->graph = ls_graph_current();
    } else {
      LS_RETURN_IF_ERROR(ls_variable_create(options, &made));
    }
    LS_RETURN_IF_ERROR(ls_component_list_add(components, made));
  }
  return ls_ok();
}

static ls_variable_recipe recipe_of(ls_strategy *strategy, maker *m) {
  return (ls_variable_recipe){.strategy = strategy,
                              .create = make_by_hand,
                              .user = m,
                              .classes = &ls_mirrored_classes,
                              .policies = &ls_mirrored_policies};
}

TEST(the_creator_is_called_once_and_wrapped) {
  LS_SPEC("V42 V43 V44");
  static const char *const mine[] = {"mine"};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  maker m = {.count = 2};
  const ls_variable_recipe recipe = recipe_of(strategy, &m);
  const ls_variable_options options = {.name = "w",
                                       .dtype = LS_DTYPE_F32,
                                       .collections = mine,
                                       .num_collections = 1,
                                       .aggregation = SUM,
                                       .batch_initialization = true,
                                       .caching_device = "/cpu:0"};
  ls_variable *v = NULL;
  expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
  assert_int_equal(m.calls, 1);
  assert_string_equal(m.seen.name, "w");
  assert_int_equal(m.seen.synchronization, LS_SYNCHRONIZATION_ON_WRITE);
  assert_int_equal(m.seen.aggregation, SUM);
  assert_null(m.seen.caching_device);
  assert_false(m.seen.batch_initialization);
  // An empty list of collections, which is not "as usual".
  assert_non_null(m.seen.collections);
  assert_int_equal(m.seen.num_collections, 0);
  assert_ptr_equal(options.collections, mine);
  assert_int_equal(ls_variable_num_components(v), 2);
  assert_int_equal(ls_variable_aggregation_of(v), SUM);
  assert_ptr_equal(ls_variable_strategy(v), strategy);
  for (size_t i = 0; i < 2; ++i)
    assert_ptr_equal(
        ls_nest_as_variable(ls_value_container((ls_nest){
            .kind = LS_KIND_VARIABLE, .as.ref = ls_variable_component(v, i)})),
        v);
  // Components that were stored one by one are written as one from now on.
  ls_nest_release(write_across(v, LS_WRITE_ASSIGN, ls_nest_f64(3)));
  expect_components(v, (double[]){3, 3}, 2);
  ls_variable_release(v);
  // Nothing is made of wrong options, nor of no components.
  ls_variable_options wrong = options;
  wrong.synchronization = LS_SYNCHRONIZATION_NONE;
  expect_status(ls_create_mirrored_variable(&recipe, &wrong, &v),
                LS_INVALID_ARGUMENT, "'w'");
  assert_int_equal(m.calls, 1);
  m.count = 0;
  expect_status(ls_create_mirrored_variable(&recipe, &options, &v),
                LS_INVALID_ARGUMENT, "no component");
  assert_null(v);
}

TEST(no_tape_records_what_is_done_meanwhile) {
  LS_SPEC("V45 V211");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *other = NULL, *v = NULL, *read[4];
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "other", .dtype = LS_DTYPE_F32}, &other));
  maker m = {.count = 2, .read = other};
  const ls_variable_recipe recipe = recipe_of(strategy, &m);
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_create_mirrored_variable(
      &recipe, &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &v));
  assert_int_equal(m.calls, 1);
  assert_int_equal(ls_tape_variables(tape, read, 4), 0);
  // What comes behind is recorded again.
  expect_ok(ls_tensor_status(ls_variable_read(other)));
  assert_int_equal(ls_tape_variables(tape, read, 4), 1);
  expect_ok(ls_tape_end(tape));
  ls_variable_release(v);
  ls_variable_release(other);
}

TEST(a_component_without_initializer_gets_one_that_does_nothing) {
  LS_SPEC("V46");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  maker m = {.count = 2, .bare = true};
  const ls_variable_recipe recipe = recipe_of(strategy, &m);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, v) = NULL;
  ls_op all = {0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_create_mirrored_variable(
        &recipe, &(ls_variable_options){.name = "w"}, &v));
    for (size_t i = 0; i < 2; ++i) {
      const ls_op op = ls_variable_initializer(ls_variable_component(v, i));
      assert_false(ls_op_is_failed(op));
      assert_string_equal(ls_op_type_name(op), "no_op");
    }
    all = ls_global_initializer();
  }
  LS_OWN(ls_session, session) = session_of(graph);
  ls_nest_release(session_results(session, ls_nest_op(all)));
}

static const char *class_of(const ls_variable *v) { return v->class_name; }

TEST(classes_and_policies_follow_from_the_synchronization) {
  LS_SPEC("V47 V48");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  maker m = {.count = 2};
  ls_variable_recipe recipe = recipe_of(strategy, &m);
  ls_variable_options options = {.name = "w",
                                 .dtype = LS_DTYPE_F32,
                                 .aggregation = MEAN,
                                 .batch_initialization = true};
  ls_variable *v = NULL;
  // Without policies the batch flag has no effect.
  expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
  assert_string_equal(class_of(v), "MirroredVariable");
  assert_null(v->policy);
  ls_variable_release(v);
  options.synchronization = ON_READ;
  expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
  assert_string_equal(class_of(v), "SyncOnReadVariable");
  assert_null(v->policy);
  ls_variable_release(v);
  // With them it asks for a class that these variables do not have.
  strategy->uses_policies = true;
  const int before = m.calls;
  expect_status(ls_create_mirrored_variable(&recipe, &options, &v),
                LS_INVALID_ARGUMENT, "LazyVariableClass");
  assert_int_equal(m.calls, before);
  ls_variable_class_map classes = ls_mirrored_classes;
  classes.lazy_variable_class = "LazyDistributedVariable";
  recipe.classes = &classes;
  expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
  assert_string_equal(class_of(v), "LazyDistributedVariable");
  assert_false(m.seen.batch_initialization);
  ls_variable_release(v);
  options.batch_initialization = false;
  for (int on_read = 0; on_read < 2; ++on_read) {
    options.synchronization = on_read ? ON_READ : LS_SYNCHRONIZATION_ON_WRITE;
    expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
    assert_string_equal(class_of(v), "DistributedVariable");
    const ls_variable_policy *policy = v->policy;
    assert_ptr_equal(policy->rules,
                     on_read ? &ls_sync_on_read_rules : &ls_mirrored_rules);
    assert_int_equal(policy->aggregation, MEAN);
    // It behaves as the policy says.
    set_components(v, (double[]){3, 4}, 2);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == (on_read ? 3.5 : 3));
    char text[200];
    LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
    expect_contains(ls_nest_print(leaf, text, sizeof(text)),
                    "DistributedVariable:{");
    assert_int_equal(ls_is_mirrored(leaf), !on_read);
    ls_variable_release(v);
  }
}

static ls_status make_in_turn(ls_strategy *strategy,
                              const ls_variable_options *options, void *user,
                              ls_component_list *components) {
  const ls_variable_options *seen = options;
  for (int i = 0; i < ls_strategy_num_replicas(strategy); ++i) {
    ls_variable *made = NULL;
    LS_RETURN_IF_ERROR(ls_variable_create(seen, &made));
    LS_RETURN_IF_ERROR(ls_component_list_add(components, made));
    ++*(int *)user;
  }
  return ls_ok();
}

TEST(who_has_no_tables_gets_the_usual_ones) {
  LS_SPEC("V42 V47 V48");
  for (int policies = 0; policies < 2; ++policies) {
    LS_OWN(ls_strategy, strategy) = NULL;
    expect_ok(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(2),
                               .variable_policies =
                                   policies ? LS_FLAG_ON : LS_FLAG_DEFAULT},
        &strategy));
    int made = 0;
    const ls_variable_recipe recipe = {
        .strategy = strategy, .create = make_in_turn, .user = &made};
    ls_variable_options options = {
        .name = "w", .dtype = LS_DTYPE_F32, .batch_initialization = true};
    ls_variable *v = NULL;
    if (policies) {
      expect_status(ls_create_mirrored_variable(&recipe, &options, &v),
                    LS_INVALID_ARGUMENT, "LazyVariableClass");
      assert_int_equal(made, 0);
      options.batch_initialization = false;
    }
    expect_ok(ls_create_mirrored_variable(&recipe, &options, &v));
    assert_int_equal(made, 2);
    assert_string_equal(ls_variable_class_name(v),
                        policies ? "DistributedVariable" : "MirroredVariable");
    assert_string_equal(ls_variable_class_name(ls_variable_component(v, 0)),
                        "");
    ls_variable_release(v);
    // A map of one's own, with classes swapped about.
    const ls_variable_class_map classes = {
        .on_write = ls_sync_on_read_variable_rules(), .variable_class = "Mine"};
    ls_variable_recipe own = recipe;
    own.classes = &classes;
    expect_ok(ls_create_mirrored_variable(&own, &options, &v));
    assert_string_equal(ls_variable_class_name(v),
                        policies ? "Mine" : "SyncOnReadVariable");
    ls_variable_release(v);
    if (!policies) {
      options.synchronization = ON_READ;
      expect_status(ls_create_mirrored_variable(&own, &options, &v),
                    LS_INVALID_ARGUMENT, "no class for ON_READ");
    }
  }
  ls_strategy *usual = NULL;
  ls_variable *v = NULL;
  int made = 0;
  expect_ok(ls_strategy_default(&usual));
  expect_status(
      ls_create_mirrored_variable(&(ls_variable_recipe){.strategy = usual,
                                                        .create = make_in_turn,
                                                        .user = &made},
                                  NULL, &v),
      LS_FAILED_PRECONDITION, "the default strategy");
}

TEST(no_variable_comes_from_its_definition_in_a_scope) {
  LS_SPEC("V59");
  static const char text[] = "variable @\"w\" : f32[3]\n"
                             "graph build \"g\" {\n"
                             "  %1 = read_variable() {variable = @\"w\"} "
                             "# \"read\" : f32[3]\n"
                             "}\n";
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *usual = NULL;
  ls_graph *graph = NULL;
  expect_ok(ls_strategy_default(&usual));
  {
    LS_STRATEGY_SCOPE(strategy);
    const ls_status status = ls_graph_parse(text, NULL, 0, &graph);
    expect_contains(ls_status_message(status), "\"w\"");
    expect_status(status, LS_UNIMPLEMENTED, "scope of a strategy");
    assert_null(graph);
  }
  // Elsewhere, and in the default strategy's scope, it does.
  {
    LS_STRATEGY_SCOPE(usual);
    expect_ok(ls_graph_parse(text, NULL, 0, &graph));
    ls_graph_destroy(graph);
  }
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  ls_graph_destroy(graph);
}

// ---- Without memory ---------------------------------------------------------
// A variable, packed and with a policy, a copy of it and a handle.
static ls_status make_and_copy(ls_strategy *strategy) {
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_variable, copy) = NULL;
  LS_OWN(ls_variable, handle) = NULL;
  ls_status status = ls_ok();
  strategy->uses_policies = strategy->packs_variables = true;
  {
    LS_STRATEGY_SCOPE(strategy);
    status = ls_scope_status();
    if (ls_status_is_ok(status))
      status = ls_variable_create(
          &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &v);
    if (ls_status_is_ok(status)) status = ls_variable_copy(v, &copy);
    if (ls_status_is_ok(status))
      status = ls_caching_variable_create(ls_variable_component(v, 1), &handle);
  }
  return status;
}

MEMORY_TEST(make_from_a_recipe) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  return make_and_copy(strategy);
}

// SPDX-License-Identifier: Apache-2.0
// What an export holds: which variable stands for another, what is said of it,
// and which functions are fit for it.
#include "lockstep/export.h"

#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/handles.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

static const ls_export_policy alone[] = {LS_EXPORT_NONE,
                                         LS_EXPORT_SAVE_VARIABLE_DEVICES};
#define CPU "/job:localhost/replica:0/task:0/device:CPU:"
#define EXPAND LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES

// ---- What stands for a variable --------------------------------------------
static ls_variable *resource_of(const ls_variable *variable) {
  ls_variable *resource = NULL;
  expect_ok(ls_export_resource(variable, &resource));
  return resource;
}

TEST(all_of_a_variable_is_one_resource) {
  LS_SPEC("V131");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  strategy->packs_variables = true;
  LS_OWN(ls_variable, v) = pair_in(strategy, (variable_kind){0});
  ls_variable *first = ls_variable_component(v, 0),
              *second = ls_variable_component(v, 1);
  LS_OWN(ls_variable, other) =
      variable_of("other", LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  ls_variable *none = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(alone); ++i) {
    LS_EXPORT_SCOPE(alone[i]);
    assert_ptr_equal(resource_of(v), first);
    assert_ptr_equal(resource_of(first), first);
    assert_ptr_equal(resource_of(second), first);
    assert_ptr_equal(resource_of(ls_variable_packed(v)), first);
    assert_ptr_equal(resource_of(other), other);
  }
  {
    LS_EXPORT_SCOPE(EXPAND);
    assert_ptr_equal(resource_of(v), first);
    assert_ptr_equal(resource_of(first), first);
    assert_ptr_equal(resource_of(second), second);
    assert_ptr_equal(resource_of(ls_variable_packed(v)), first);
    assert_ptr_equal(resource_of(other), other);
  }
  expect_status(ls_export_resource(v, &none), LS_FAILED_PRECONDITION,
                "outside of an export");
  strategy->packs_variables = false;
}

static void expect_description(const ls_variable *v, const char *wanted) {
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  expect_ok(ls_record_create(&record));
  expect_ok(ls_export_describe(v, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  assert_string_equal(text, wanted);
}

TEST(a_record_lists_components_with_their_devices) {
  LS_SPEC("V131");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = pair_in(strategy, (variable_kind){0});
  {
    LS_EXPORT_SCOPE(LS_EXPORT_NONE);
    expect_description(v, "{\"name\":\"v\"}");
  }
  {
    LS_EXPORT_SCOPE(LS_EXPORT_SAVE_VARIABLE_DEVICES);
    expect_description(v, "{\"name\":\"v\",\"device\":\"" CPU "0\"}");
  }
  {
    LS_EXPORT_SCOPE(EXPAND);
    expect_description(
        v, "{\"name\":\"v\",\"device\":\"" CPU "0\",\"components\":{"
           "\"0\":{\"name\":\"v\",\"device\":\"" CPU "0\"},"
           "\"1\":{\"name\":\"v/replica_1\",\"device\":\"" CPU "1\"}}}");
  }
  LS_OWN(ls_record, record) = NULL;
  expect_ok(ls_record_create(&record));
  expect_status(ls_export_describe(v, record), LS_FAILED_PRECONDITION,
                "outside of an export");
}

// ---- Functions -------------------------------------------------------------
typedef enum access {
  READ,
  ASSIGN,
  ADD,
  SCATTER,
  NUM_ACCESSES,
} access;

typedef struct stepping {
  ls_strategy *strategy;
  ls_variable *v;
  access access;
  bool in_replicas;
} stepping;

static ls_nest reach(ls_nest args, void *user) {
  const stepping *s = user;
  const ls_tensor own =
      args.kind == LS_KIND_NONE
          ? ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 2)
          : ls_convert(ls_reshape(ls_add(ls_replica_id(),
                                         ls_scalar_i64(LS_DTYPE_I32, 1)),
                                  LS_SHAPE(1)),
                       LS_DTYPE_F32);
  ls_nest out = ls_none();
  switch (s->access) {
  case READ:
    return ls_leaf(ls_variable_read(s->v));
  case SCATTER:
    return ls_leaf(ls_variable_scatter_add(
        s->v, ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1)), own));
  default:
    expect_ok(ls_variable_write(
        s->v, s->access == ASSIGN ? LS_WRITE_ASSIGN : LS_WRITE_ADD,
        ls_leaf(own), &(ls_write_options){.no_read_value = true}, &out));
    ls_nest_release(out);
    return ls_none();
  }
}

static ls_nest reach_in_place(ls_nest args, void *user) {
  const stepping *s = user;
  if (!s->in_replicas) return reach(ls_none(), user);
  ls_nest out = ls_none();
  (void)args;
  LS_OWN(ls_nest, mark) = LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  const ls_status status =
      ls_strategy_run(s->strategy, ls_plain(reach, user), mark, &out);
  expect_ok(status);
  return out;
}

static void expect_saveable(const stepping *s, bool saveable) {
  const ls_nest none = ls_none();
  LS_OWN(ls_function, f) = function_of(reach_in_place, (void *)(uintptr_t)s);
  const ls_graph *graph = NULL, *again = NULL;
  {
    LS_EXPORT_SCOPE(LS_EXPORT_NONE);
    expect_status(ls_export_function(f, NULL, &graph), LS_FAILED_PRECONDITION,
                  "no trace");
  }
  LS_OWN(ls_nest, out) = call_results(f, ls_none());
  for (int policy = LS_EXPORT_NONE; policy <= (int)EXPAND; ++policy) {
    LS_EXPORT_SCOPE((ls_export_policy)policy);
    const ls_status status = ls_export_function(f, NULL, &graph);
    if (saveable) {
      expect_ok(status);
      assert_ptr_equal(graph, ls_function_graph(f));
    } else {
      expect_contains(ls_status_message(status), "input signature");
      expect_status(status, LS_INVALID_ARGUMENT, "variable 'v'");
      assert_null(graph);
    }
  }
  // Traced in the export it is fit for it, and not run.
  LS_OWN(ls_array, before) = variable_array(ls_variable_component(s->v, 0));
  for (int policy = LS_EXPORT_NONE; policy <= (int)EXPAND; ++policy) {
    LS_EXPORT_SCOPE((ls_export_policy)policy);
    const size_t traces = ls_function_num_traces(f);
    expect_ok(ls_export_function(f, &none, &graph));
    assert_int_equal(ls_function_num_traces(f), traces + 1);
    expect_ok(ls_export_function(f, &none, &again));
    assert_ptr_equal(graph, again);
    expect_ok(ls_export_function(f, NULL, &again));
    assert_ptr_equal(graph, again);
    assert_int_equal(ls_function_num_traces(f), traces + 1);
  }
  ls_array *after = variable_array(ls_variable_component(s->v, 0));
  assert_true(ls_array_f64(before, 0) == ls_array_f64(after, 0));
  ls_array_release(after);
  expect_status(ls_export_function(f, NULL, &graph), LS_FAILED_PRECONDITION,
                "outside of an export");
}

static bool is_saveable(const stepping *s) {
  const bool on_read = ls_variable_synchronization_of(s->v) == ON_READ;
  const ls_variable_aggregation of = ls_variable_aggregation_of(s->v);
  if (s->access == READ) return s->in_replicas || !on_read || of != SUM;
  return s->in_replicas && (on_read || of == NONE);
}

// What is refused whatever is exported.
static bool is_possible(const stepping *s) {
  const bool on_read = ls_variable_synchronization_of(s->v) == ON_READ;
  const ls_variable_aggregation of = ls_variable_aggregation_of(s->v);
  if (s->access == SCATTER) return !on_read;
  if (!on_read || s->in_replicas) return true;
  return s->access == READ ? of != NONE : s->access == ASSIGN || of != SUM;
}

TEST(what_reaches_all_components_is_exported_untraced) {
  LS_SPEC("V132");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k)
    for (int how = READ; how < NUM_ACCESSES; ++how)
      for (int in_replicas = 0; in_replicas < 2; ++in_replicas) {
        LS_OWN(ls_array, initial) =
            array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){3});
        stepping s = {.strategy = strategy,
                      .access = (access)how,
                      .in_replicas = in_replicas == 1};
        {
          LS_STRATEGY_SCOPE(strategy);
          expect_ok(ls_variable_create(
              &(ls_variable_options){.name = "v",
                                     .initial_array = initial,
                                     .synchronization =
                                         all_kinds[k].synchronization,
                                     .aggregation = all_kinds[k].aggregation},
              &s.v));
        }
        if (is_possible(&s)) expect_saveable(&s, is_saveable(&s));
        ls_variable_release(s.v);
      }
}

static ls_nest add_one(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest just_read(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_read(user));
}

static ls_nest add_in_branch(ls_nest args, void *user) {
  return ls_cond(ls_nest_tensor(args, 0), add_one, just_read, user);
}

static ls_nest add_what_is_refused(ls_nest args, void *user) {
  ls_nest out = ls_none();
  (void)args;
  expect_status(ls_variable_write(
                    user, LS_WRITE_ADD,
                    ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1)), NULL, &out),
                LS_INVALID_ARGUMENT, "f32[3]");
  return ls_leaf(ls_variable_read(user));
}

TEST(it_counts_what_a_branch_does_and_not_what_was_refused) {
  LS_SPEC("V132");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      pair_in(strategy, (variable_kind){.aggregation = SUM});
  LS_OWN(ls_function, branches) = function_of(add_in_branch, v);
  LS_OWN(ls_function, refused) = function_of(add_what_is_refused, v);
  const bool yes = true;
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_BOOL, LS_SCALAR, &yes, &array));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(array));
  const ls_graph *graph = NULL;
  LS_OWN(ls_nest, out) = call_results(branches, args);
  expect_ok(ls_function_call(refused, ls_none(), &out));
  {
    LS_EXPORT_SCOPE(LS_EXPORT_NONE);
    expect_status(ls_export_function(branches, NULL, &graph),
                  LS_INVALID_ARGUMENT, "assign_add of variable 'v'");
    expect_ok(ls_export_function(branches, &args, &graph));
    expect_ok(ls_export_function(refused, NULL, &graph));
  }
}

// A variable, and a function that writes it, as an export has them.
MEMORY_TEST(export_variables) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_function, f) = NULL;
  LS_OWN(ls_record, record) = NULL;
  const ls_graph *graph = NULL;
  const ls_nest none = ls_none();
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  {
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
  }
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = add_one, .user = v}, &f));
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  {
    LS_EXPORT_SCOPE(EXPAND);
    LS_RETURN_IF_ERROR(ls_export_describe(v, record));
    LS_RETURN_IF_ERROR(ls_export_function(f, &none, &graph));
  }
  return ls_ok();
}

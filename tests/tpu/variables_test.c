// SPDX-License-Identifier: Apache-2.0
//
// Making variables in the scope of a TPU strategy: how many components, where,
// how they are called and what they begin with.
#include <string.h>

#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "graph/variables/variable.h"
#include "lockstep/handles.h"
#include "lockstep/logical_device.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/variable_recipe.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

#define CORE(n) "/job:localhost/replica:0/task:0/device:TPU:" #n

static ls_status make_in(ls_strategy *strategy, ls_variable_options options,
                         ls_variable **out_variable) {
  if (options.initial_value.ref == 0 && options.dtype == LS_DTYPE_NONE)
    options.dtype = LS_DTYPE_F32;
  LS_STRATEGY_SCOPE(strategy);
  return ls_variable_create(&options, out_variable);
}

static ls_variable *variable_made(ls_strategy *strategy,
                                  ls_variable_options options) {
  ls_variable *variable = NULL;
  expect_ok(make_in(strategy, options, &variable));
  return variable;
}

// The body once in eager and once in a build graph.
static void in_both(void (*body)(computation *c)) {
  expect_ok(ls_frame_begin());
  body(NULL);
  expect_ok(ls_frame_end(NULL));
  LS_OWN_BEGUN(computation, c, computation_open);
  body(&c);
}

static size_t listed(computation *c, const char *collection,
                     const ls_variable *variable) {
  ls_nest items[100];
  const size_t count = ls_graph_collection(c->graph, collection, items, 100);
  size_t found = 0;
  assert_true(count <= 100);
  for (size_t i = 0; i < count; ++i)
    found += ls_nest_as_variable(items[i]) == variable;
  return found;
}

// ---- Classes ---------------------------------------------------------------
static void check_classes(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  static const ls_variable_synchronization kinds[] = {
      LS_SYNCHRONIZATION_AUTO, LS_SYNCHRONIZATION_ON_WRITE,
      LS_SYNCHRONIZATION_ON_READ};
  for (int policies = 1; policies >= 0; --policies)
    for (int k = 0; k < 3; ++k)
      for (int a = 0; a <= LS_AGGREGATION_ONLY_FIRST_REPLICA; ++a) {
        const bool on_read = k == 2;
        s->uses_policies = policies == 1;
        LS_OWN(ls_variable, v) = variable_made(
            s, (ls_variable_options){.synchronization = kinds[k],
                                     .aggregation = (ls_variable_aggregation)a,
                                     .name = "v"});
        assert_string_equal(ls_variable_class_name(v),
                            policies  ? "TPUDistributedVariable"
                            : on_read ? "TPUSyncOnReadVariable"
                                      : "TPUMirroredVariable");
        assert_int_equal(ls_variable_synchronization_of(v),
                         on_read ? LS_SYNCHRONIZATION_ON_READ
                                 : LS_SYNCHRONIZATION_ON_WRITE);
        assert_int_equal(ls_variable_aggregation_of(v), a);
        assert_int_equal(ls_variable_is_trainable(v), !on_read);
        LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
        assert_int_equal(ls_is_mirrored(leaf), !on_read);
        if (c != NULL) {
          ls_variable *part = ls_variable_component(v, 0);
          assert_int_equal(listed(c, LS_COLLECTION_GLOBAL_VARIABLES, v), 1);
          assert_int_equal(listed(c, LS_COLLECTION_GLOBAL_VARIABLES, part), 0);
          assert_int_equal(listed(c, LS_COLLECTION_TRAINABLE_VARIABLES, v),
                           !on_read);
          assert_int_equal(listed(c, LS_COLLECTION_TRAINABLE_VARIABLES, part),
                           0);
        }
      }
  s->uses_policies = true;
  ls_variable *lazy = variable_made(
      s, (ls_variable_options){.name = "lazy", .batch_initialization = true});
  assert_string_equal(ls_variable_class_name(lazy),
                      "TPULazyDistributedVariable");
  ls_variable_release(lazy);
  // What the helper refuses.
  ls_variable *v = NULL;
  expect_status(
      make_in(s,
              (ls_variable_options){.synchronization = LS_SYNCHRONIZATION_NONE,
                                    .name = "n"},
              &v),
      LS_INVALID_ARGUMENT, "'n'");
  expect_status(
      make_in(s,
              (ls_variable_options){.aggregation = LS_AGGREGATION_MEAN,
                                    .dtype = LS_DTYPE_I32,
                                    .name = "m"},
              &v),
      LS_INVALID_ARGUMENT, "MEAN");
}

TEST(their_classes_and_policies_are_tpus) {
  LS_SPEC("T121 V51");
  in_both(check_classes);
}

TEST(a_strategy_without_partitioning_has_policies) {
  LS_SPEC("V52");
  LS_OWN(ls_strategy, tpu) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  ls_strategy *spmd = logical_strategy(FLAVOUR_CURRENT, 2, 2, LS_FLAG_ON);
  ls_variable *x = variable_made(spmd, (ls_variable_options){.name = "x"});
  ls_variable *y = variable_made(
      spmd, (ls_variable_options){
                .name = "y", .synchronization = LS_SYNCHRONIZATION_ON_READ});
  assert_string_equal(ls_variable_class_name(x), "TPUMirroredVariable");
  assert_string_equal(ls_variable_class_name(y), "TPUSyncOnReadVariable");
  assert_null(x->policy);
  ls_variable_release(x);
  ls_variable_release(y);
  ls_strategy_release(spmd);
  LS_OWN(ls_variable, v) =
      variable_made(tpu, (ls_variable_options){.name = "v"});
  LS_OWN(ls_variable, w) =
      variable_made(mirrored, (ls_variable_options){.name = "w"});
  assert_string_equal(ls_variable_class_name(v), "TPUDistributedVariable");
  assert_string_equal(ls_variable_class_name(w), "MirroredVariable");
  assert_non_null(v->policy);
  assert_null(w->policy);
}

// ---- How many, and where ---------------------------------------------------
typedef struct watched {
  int calls;
  bool skips;
} watched;

static ls_status watch(const ls_creator *next,
                       const ls_variable_options *options, void *user,
                       ls_variable **out_variable) {
  watched *w = user;
  ++w->calls;
  w->skips |= options->skip_mirrored;
  return ls_creator_create(next, options, out_variable);
}

static void check_skipping(computation *c) {
  (void)c;
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  watched w = {0};
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_CREATOR_SCOPE(watch, &w);
    v = variable_made(
        s, (ls_variable_options){.name = "v", .skip_mirrored = true});
  }
  assert_int_equal(w.calls, 1);
  assert_false(w.skips);
  assert_int_equal(ls_variable_num_components(v), 0);
  assert_string_equal(ls_variable_class_name(v), "");
  assert_string_equal(ls_variable_name(v), "v");
}

TEST(one_that_skips_the_strategy_is_plain) {
  LS_SPEC("T115");
  in_both(check_skipping);
}

static const char *device_of(const ls_variable *v, size_t index) {
  return ls_variable_device(ls_variable_component(v, index));
}

static void check_places(computation *c) {
  (void)c;
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  LS_OWN(ls_variable, v) = variable_made(s, (ls_variable_options){.name = "v"});
  assert_int_equal(ls_variable_num_components(v), 3);
  assert_string_equal(device_of(v, 0), CORE(0));
  assert_string_equal(device_of(v, 2), CORE(2));
  LS_OWN(ls_variable, one) = variable_made(
      s, (ls_variable_options){.name = "one", .single_device = CORE(1)});
  assert_int_equal(ls_variable_num_components(one), 0);
  assert_string_equal(ls_variable_device(one), CORE(1));
  // A distributed value's devices, in its order.
  static const char *const turned[] = {CORE(2), CORE(0), CORE(1)};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  LS_OWN(ls_nest, value) =
      ls_nest_distributed_on(LS_PER_REPLICA, items, turned, 3);
  LS_OWN(ls_variable, w) = NULL;
  LS_OWN(ls_variable, x) = NULL;
  {
    LS_STRATEGY_SCOPE(s);
    {
      LS_COLOCATE_VARIABLES_SCOPE(s, value);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &w));
    }
  }
  x = variable_made(s, (ls_variable_options){.name = "x", .colocate_with = w});
  for (size_t i = 0; i < 3; ++i) {
    assert_string_equal(device_of(w, i), turned[i]);
    assert_string_equal(device_of(x, i), turned[i]);
  }
  // Beside a component: on its device.
  LS_OWN(ls_variable, y) = variable_made(
      s, (ls_variable_options){.name = "y",
                               .colocate_with = ls_variable_component(w, 0)});
  assert_int_equal(ls_variable_num_components(y), 1);
  assert_string_equal(device_of(y, 0), CORE(2));
  // In a scope of a logical device: on that column.
  LS_OWN(ls_strategy, two) =
      logical_strategy(FLAVOUR_CURRENT, 2, 2, LS_FLAG_OFF);
  LS_OWN(ls_variable, z) = NULL;
  {
    LS_LOGICAL_DEVICE_SCOPE(two, 1);
    z = variable_made(two, (ls_variable_options){.name = "z"});
  }
  assert_int_equal(ls_variable_num_components(z), 2);
  assert_string_equal(device_of(z, 0), CORE(1));
  assert_string_equal(device_of(z, 1), CORE(3));
}

TEST(components_are_where_they_were_asked_for) {
  LS_SPEC("T116");
  in_both(check_places);
}

// ---- What they begin with --------------------------------------------------
static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  int *calls = user;
  ++*calls;
  assert_string_equal(ls_context_current()->scoped.device, CORE(0));
  return ls_leaf(ls_random_normal(LS_DTYPE_F32, LS_SHAPE(4), 0, 1, NULL));
}

static void check_random_start(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  int calls = 0;
  LS_OWN(ls_variable, v) =
      variable_made(s, (ls_variable_options){.name = "v",
                                             .dtype = LS_DTYPE_F32,
                                             .shape = LS_SHAPE(4),
                                             .initializer = draw,
                                             .initializer_user = &calls});
  assert_int_equal(calls, 1);
  if (c != NULL) computation_initialize(c, v);
  float values[3][4];
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(ls_array, array) = NULL;
    LS_OWN(ls_nest, result) = ls_none();
    if (c == NULL) {
      expect_ok(ls_variable_value(ls_variable_component(v, i), &array));
    } else {
      const ls_nest read =
          ls_leaf(ls_variable_read(ls_variable_component(v, i)));
      expect_ok(ls_session_run(c->session, read, NULL, 0, &result));
      array = ls_array_retain(ls_nest_as_array(result));
    }
    memcpy(values[i], ls_array_data(array), sizeof(values[i]));
  }
  assert_memory_equal(values[0], values[1], sizeof(values[0]));
  assert_memory_equal(values[0], values[2], sizeof(values[0]));
  assert_true(values[0][0] != values[0][1]);
}

TEST(the_first_value_is_made_once) {
  LS_SPEC("T117");
  in_both(check_random_start);
}

static int made_in_callback;
static ls_variable *made_inside;

static ls_nest note_place(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_tensor value = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 3);
  ++made_in_callback;
  if (!ls_graph_is_eager(ls_graph_current())) {
    const ls_op op = ls_tensor_op(value);
    assert_null(attr_text(op, "_tpu_replicate"));
    assert_int_equal(ls_op_num_control_inputs(op), 0);
  }
  return ls_leaf(value);
}

static ls_nest make_one(ls_nest args, void *user) {
  (void)args;
  (void)user;
  if (made_inside == NULL) {
    const ls_status status =
        ls_variable_create(&(ls_variable_options){.name = "inside",
                                                  .dtype = LS_DTYPE_F32,
                                                  .shape = LS_SHAPE(2),
                                                  .initializer = note_place},
                           &made_inside);
    if (!ls_status_is_ok(status)) return ls_fail(status);
  }
  return ls_leaf(ls_variable_read(made_inside));
}

TEST(a_first_value_is_lifted_out) {
  LS_SPEC("T118");
  // In a graph: out of the computation and of control dependencies.
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  computation c;
  computation_open(&c);
  made_inside = NULL;
  made_in_callback = 0;
  const ls_op before = ls_group(NULL, 0, "before");
  {
    LS_CONTROL_SCOPE(&before, 1);
    expect_ok(
        ls_strategy_run(s, ls_plain(make_one, NULL), ls_none(), &c.outputs));
  }
  assert_int_equal(made_in_callback, 1);
  assert_int_equal(ls_variable_num_components(made_inside), 2);
  computation_initialize(&c, made_inside);
  LS_OWN(ls_nest, result) = ls_none();
  for (size_t r = 0; r < 2; ++r) {
    expect_ok(ls_session_run(c.session, ls_distributed_component(c.outputs, r),
                             NULL, 0, &result));
    assert_true(ls_array_f64(ls_nest_as_array(result), 1) == 3);
    ls_nest_release(result);
    result = ls_none();
  }
  ls_variable_release(made_inside);
  computation_close(&c);
  // In a function: to eager, in place there.
  LS_OWN(ls_function, f) = function_of(make_one, NULL);
  made_inside = NULL;
  made_in_callback = 0;
  for (int run = 0; run < 2; ++run) {
    expect_ok(ls_strategy_run(s, ls_traced(f), ls_none(), &result));
    assert_true(
        ls_array_f64(ls_nest_as_array(ls_distributed_component(result, 1)),
                     0) == 3);
  }
  assert_int_equal(made_in_callback, 1);
  assert_null(ls_variable_graph(made_inside));
  ls_variable_release(made_inside);
}

static void check_names(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  for (int round = 0; round < 2; ++round) {
    LS_OWN(ls_variable, v) = NULL;
    {
      LS_NAME_SCOPE("outer/");
      v = variable_made(s, (ls_variable_options){.name = "v"});
    }
    const bool second = round == 1 && c != NULL;  // Eager names may repeat.
    const char *const names[] = {
        second ? "outer/v_1" : "outer/v",
        second ? "outer/v_1/replica_1" : "outer/v/replica_1",
        second ? "outer/v_1/replica_2" : "outer/v/replica_2"};
    assert_string_equal(ls_variable_name(v), names[0]);
    for (size_t i = 0; i < 3; ++i)
      assert_string_equal(ls_variable_name(ls_variable_component(v, i)),
                          names[i]);
  }
}

TEST(components_are_called_after_the_first) {
  LS_SPEC("T119");
  in_both(check_names);
}

// ---- Silent copies, and no nesting -----------------------------------------
static ls_variable *nested;

static ls_status give_nested(const ls_creator *next,
                             const ls_variable_options *options, void *user,
                             ls_variable **out_variable) {
  (void)next, (void)options, (void)user;
  *out_variable = ls_variable_retain(nested);
  return ls_ok();
}

static void check_copies(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  ls_tensor value = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE(CORE(1));
    value = ls_fill(LS_DTYPE_F32, LS_SCALAR, 7);
  }
  LS_OWN(ls_variable, v) = variable_made(
      s, (ls_variable_options){.name = "v", .initial_value = value});
  if (c != NULL) {
    computation_initialize(c, v);
    for (size_t i = 0; i < 2; ++i)
      assert_true(computation_fetch(
                      c, ls_variable_read(ls_variable_component(v, i))) == 7);
  } else {
    expect_components(v, (double[]){7, 7}, 2);
  }
  // A creator that makes what is the strategy's already.
  nested = v;
  ls_variable *w = NULL;
  {
    LS_CREATOR_SCOPE(give_nested, NULL);
    expect_status(make_in(s, (ls_variable_options){.name = "w"}, &w),
                  LS_FAILED_PRECONDITION, "'v' returned a distributed");
  }
  assert_null(w);
}

TEST(values_from_other_cores_are_copied_silently) {
  LS_SPEC("T120");
  in_both(check_copies);
}

// ---- Packed variables ------------------------------------------------------
static void check_packed(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_made(s, (ls_variable_options){.name = "v"});
  LS_OWN(ls_variable, m) =
      variable_made(mirrored, (ls_variable_options){.name = "m"});
  assert_null(ls_variable_packed(m));
  if (c != NULL) {
    assert_null(ls_variable_packed(v));
  } else {
    ls_variable *on = NULL;
    assert_non_null(ls_variable_packed(v));
    assert_string_equal(ls_variable_name(ls_variable_packed(v)), "v/packed/");
    expect_ok(ls_packed_variable_on(ls_variable_packed(v), CORE(1), &on));
    assert_ptr_equal(on, ls_variable_component(v, 1));
  }
}

TEST(those_of_eager_are_packed) {
  LS_SPEC("V134");
  in_both(check_packed);
  // A function is traced: its variables are eager's.
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(make_one, NULL);
  made_inside = NULL;
  LS_OWN(ls_nest, result) = strategy_results(s, ls_traced(f), ls_none());
  assert_string_equal(ls_variable_name(ls_variable_packed(made_inside)),
                      "inside/packed/");
  ls_variable_release(made_inside);
}

// ---- Beside others ---------------------------------------------------------
static void expect_no_colocation(ls_strategy *s, ls_variable *with,
                                 ls_code code, const char *names) {
  LS_OWN(ls_nest, leaf) = ls_nest_variable(with);
  {
    LS_COLOCATE_VARIABLES_SCOPE(s, leaf);
    expect_status(ls_scope_status(), code, names);
  }
}

static size_t num_components_beside(ls_strategy *s, ls_variable *with,
                                    const char *first) {
  LS_OWN(ls_nest, leaf) = ls_nest_variable(with);
  LS_OWN(ls_variable, v) = NULL;
  size_t count = 0;
  {
    LS_COLOCATE_VARIABLES_SCOPE(s, leaf);
    expect_ok(ls_scope_status());
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "b", .dtype = LS_DTYPE_F32}, &v));
    count = ls_variable_num_components(v);
    assert_string_equal(
        ls_variable_device(count > 0 ? ls_variable_component(v, 0) : v), first);
  }
  return count;
}

static void check_colocation(computation *c) {
  (void)c;
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, other) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  ls_strategy *none = NULL;
  LS_OWN(ls_variable, own) =
      variable_made(s, (ls_variable_options){.name = "own"});
  LS_OWN(ls_variable, foreign) =
      variable_made(other, (ls_variable_options){.name = "foreign"});
  LS_OWN(ls_variable, m) =
      variable_made(mirrored, (ls_variable_options){.name = "m"});
  LS_OWN(ls_variable, plain) = NULL;
  {
    LS_DEVICE_SCOPE("/device:CPU:1");
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "plain", .dtype = LS_DTYPE_F32},
        &plain));
  }
  expect_no_colocation(s, own, LS_FAILED_PRECONDITION,
                       "need to be inside scope");
  {
    LS_STRATEGY_SCOPE(other);
    expect_no_colocation(s, own, LS_FAILED_PRECONDITION,
                         ls_strategy_label(other));
  }
  {
    LS_STRATEGY_SCOPE(s);
    expect_no_colocation(s, plain, LS_INVALID_ARGUMENT, "plain");
    expect_no_colocation(s, foreign, LS_INVALID_ARGUMENT, "'foreign'");
    expect_no_colocation(s, foreign, LS_INVALID_ARGUMENT,
                         ls_strategy_label(other));
    // Any variable that the strategy made, and its devices.
    assert_int_equal(num_components_beside(s, own, CORE(0)), 2);
    assert_int_equal(
        num_components_beside(s, ls_variable_component(own, 1), CORE(1)), 1);
  }
  {
    LS_STRATEGY_SCOPE(mirrored);
    expect_no_colocation(mirrored, ls_variable_component(m, 1),
                         LS_INVALID_ARGUMENT, "'m/replica_1'");
    expect_no_colocation(mirrored, own, LS_INVALID_ARGUMENT, "'own'");
    assert_int_equal(num_components_beside(mirrored, m, device_of(m, 0)), 2);
  }
  none = ls_strategy_current();
  assert_int_equal(
      num_components_beside(none, plain, ls_variable_device(plain)), 0);
  assert_int_equal(num_components_beside(none, own, CORE(0)), 0);
}

TEST(a_scope_puts_variables_beside_its_own) {
  LS_SPEC("T122 V32");
  in_both(check_colocation);
}

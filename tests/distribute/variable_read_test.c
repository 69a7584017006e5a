// SPDX-License-Identifier: Apache-2.0
//
// Reads of distributed variables, in eager.
#include "lockstep/variable.h"

#include "distribute/own.h"
#include "support/variables.h"

// ---- Reads -----------------------------------------------------------------
static ls_nest read_in_update(ls_nest args, void *user) {
  replica_reads *r = user;
  const size_t id = (size_t)ls_update_replica_id().value;
  (void)args;
  r->seen[id] = number_of(ls_leaf(ls_variable_read(r->variable)));
  ++r->count;
  return ls_none();
}

TEST(reads_give_the_threads_component) {
  LS_SPEC("V90 V93 V105 M178");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int kind = 0; kind < 2; ++kind) {
    LS_OWN(ls_variable, v) = variable_in(
        strategy,
        (variable_kind){.synchronization =
                            kind == 0 ? LS_SYNCHRONIZATION_ON_WRITE : ON_READ,
                        .aggregation = SUM});
    set_components(v, (double[]){3, 4}, 2);
    replica_reads r = {.variable = v};
    ls_nest_release(run_on(strategy, read_in_replica, ls_none(), &r));
    assert_true(r.seen[0] == 3 && r.seen[1] == 4);
    assert_true(r.used[0] == 3 && r.used[1] == 4);
    r = (replica_reads){.variable = v};
    ls_nest made = ls_none();
    expect_ok(ls_strategy_update(strategy, v, read_in_update, ls_none(), &r,
                                 true, &made));
    assert_int_equal(r.count, 2);
    assert_true(r.seen[0] == 3 && r.seen[1] == 4);
    if (kind == 1)  // Across replicas it is aggregated.
      assert_true(number_of(ls_leaf(ls_variable_read(v))) == 7);
    if (kind == 0) {
      {
        LS_STRATEGY_SCOPE(strategy);
        assert_true(number_of(ls_leaf(ls_variable_read(v))) == 3);
        {
          LS_DEVICE_SCOPE("/cpu:1");
          assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
        }
        {
          LS_DEVICE_SCOPE("/cpu:7");
          assert_true(number_of(ls_leaf(ls_variable_read(v))) == 3);
        }
      }
      // A read is a copy.
      const ls_tensor before = ls_variable_read(v);
      ls_nest_release(write_across(v, LS_WRITE_ASSIGN, ls_nest_f64(9)));
      assert_true(number_of(ls_leaf(before)) == 3);
    }
  }
}

static ls_nest use_in_other(ls_nest args, void *user) {
  (void)args;
  const ls_tensor value = ls_variable_as_tensor(user);
  expect_status(ls_tensor_status(value), LS_FAILED_PRECONDITION,
                "cannot be mixed");
  return ls_none();
}

TEST(use_as_a_tensor_needs_no_scope) {
  LS_SPEC("V91 V89");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(a, (variable_kind){0});
  set_components(v, (double[]){3, 4}, 2);
  {
    LS_DEVICE_SCOPE("/cpu:1");
    assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 3);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
  }
  {
    LS_STRATEGY_SCOPE(b);
    assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 3);
    {
      LS_DEVICE_SCOPE("/cpu:1");
      assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 4);
    }
    // Whatever else would enter the variable's own scope.
    expect_status(ls_tensor_status(ls_variable_read(v)), LS_FAILED_PRECONDITION,
                  "mirrored strategy");
    ls_nest made = ls_none();
    expect_status(
        ls_variable_write(v, LS_WRITE_ADD, ls_nest_f64(1), NULL, &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
  }
  ls_nest_release(run_on(b, use_in_other, ls_none(), v));
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  {
    LS_STRATEGY_SCOPE(usual);
    ls_nest_release(write_across(v, LS_WRITE_ADD, ls_nest_f64(1)));
    assert_false(ls_has_strategy());
  }
  expect_components(v, (double[]){4, 5}, 2);
}

// SPDX-License-Identifier: Apache-2.0
//
// Variables that are synchronized on read, in eager.
#include "lockstep/variable.h"

#include "distribute/own.h"
#include "support/variables.h"

// ---- Synchronized on read --------------------------------------------------
TEST(a_read_across_replicas_aggregates) {
  LS_SPEC("V106 M53");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 7}, {MEAN, 3.5}, {FIRST, 3}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t c = 0; c < 3; ++c) {
    LS_OWN(ls_variable, v) = variable_in(
        strategy, (variable_kind){.synchronization = ON_READ,
                                  .aggregation = cases[c].aggregation});
    set_components(v, (double[]){3, 4}, 2);
    assert_true(number_of(ls_leaf(ls_variable_read(v))) == cases[c].wanted);
    {
      LS_STRATEGY_SCOPE(strategy);
      assert_true(number_of(ls_leaf(ls_variable_read(v))) == cases[c].wanted);
      assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) ==
                  cases[c].wanted);
    }
  }
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.synchronization = ON_READ});
  expect_status(ls_tensor_status(ls_variable_read(v)), LS_INVALID_ARGUMENT,
                "NONE");
}

TEST(reduce_obeys_its_own_operation) {
  LS_SPEC("V107");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a) {
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.synchronization = ON_READ,
                                              .aggregation = all[a]});
    set_components(v, (double[]){3, 4}, 2);
    LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
    ls_nest made = ls_none();
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, leaf, &made));
    assert_true(number_of(made) == 7);
    expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, leaf, &made));
    assert_true(number_of(made) == 3.5);
  }
}

TEST(a_replica_writes_its_own_part) {
  LS_SPEC("V108");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a) {
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.initial = 10,
                                              .synchronization = ON_READ,
                                              .aggregation = all[a]});
    replica_writes w = {.variable = v, .op = LS_WRITE_ADD};
    run_writes(strategy, &w);
    expect_components(v, (double[]){11, 12}, 2);
    w.use_value = true;
    w.value = ls_nest_i64(5);
    run_writes(strategy, &w);
    expect_components(v, (double[]){16, 17}, 2);
  }
}

TEST(a_sum_is_dealt_out_by_an_assignment) {
  LS_SPEC("V109 M53");
  static const struct {
    int replicas;
    ls_dtype dtype;
    ls_variable_aggregation aggregation;
    double value, each, after;
  } cases[] = {
      {2, LS_DTYPE_I32, SUM, 7, 3, 6},   {2, LS_DTYPE_I32, SUM, -7, -3, -6},
      {4, LS_DTYPE_F32, SUM, 6, 1.5, 6}, {2, LS_DTYPE_F32, MEAN, 6, 6, 6},
      {2, LS_DTYPE_F32, FIRST, 6, 6, 6},
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(cases[c].replicas);
    LS_OWN(ls_variable, v) = variable_in(
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
  }
}

TEST(a_sum_of_narrow_integers_is_dealt_out_by_many) {
  // 200 is no i8: one divided by 127 would be 200 in all.
  LS_OWN(ls_strategy, strategy) = mirrored_of(200);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.dtype = LS_DTYPE_I8,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  LS_STRATEGY_SCOPE(strategy);
  expect_ok(
      ls_tensor_status(ls_variable_assign(v, ls_scalar(LS_DTYPE_I8, 127))));
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 0);
  expect_ok(
      ls_tensor_status(ls_variable_assign(v, ls_scalar(LS_DTYPE_I8, -128))));
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 0);
}

TEST(a_sum_cannot_be_added_to_across_replicas) {
  LS_SPEC("V110 V111");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_nest made = ls_none();
  static const ls_write_options no_value = {.no_read_value = true};
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  for (size_t a = 0; a < 4; ++a) {
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.initial = 10,
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
        expect_status(
            ls_variable_write(v, (ls_write_op)op, ls_nest_f64(1), NULL, &made),
            LS_INVALID_ARGUMENT, "NONE");
      expect_components(v, (double[]){10, 10}, 2);
      expect_ok(
          ls_variable_write(v, LS_WRITE_ADD, ls_nest_f64(1), &no_value, &made));
      expect_components(v, (double[]){11, 11}, 2);
    } else {
      made = write_across(v, LS_WRITE_SUB, ls_nest_f64(1));
      assert_true(number_of(made) == 9);
      expect_components(v, (double[]){9, 9}, 2);
    }
  }
}

TEST(a_per_replica_is_no_value_for_it) {
  LS_SPEC("V112");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.synchronization = ON_READ,
                                            .aggregation = MEAN});
  LS_OWN(ls_nest, differing) = per_replica_scalars((double[]){1, 2}, 2);
  LS_OWN(ls_nest, mirrored) =
      distributed_numbers(LS_MIRRORED, (double[]){5, 5}, 2);
  ls_nest made = ls_none();
  expect_status(ls_variable_write(v, LS_WRITE_ASSIGN, differing, NULL, &made),
                LS_INVALID_ARGUMENT, "ON_READ");
  replica_writes w = {.variable = v,
                      .use_value = true,
                      .value = differing,
                      .code = LS_INVALID_ARGUMENT,
                      .says = "in a replica"};
  run_writes(strategy, &w);
  expect_components(v, (double[]){0, 0}, 2);
  made = write_across(v, LS_WRITE_ASSIGN, mirrored);
  expect_components(v, (double[]){5, 5}, 2);
}

static ls_nest add_ten(ls_nest args, void *user) {
  replica_reads *r = user;
  (void)args;
  const size_t id = (size_t)ls_replica_number();
  ls_status status = ls_ok();
  {
    LS_SYNC_ON_READ_SCOPE;
    const ls_tensor used = ls_variable_as_tensor(r->variable);
    status = ls_tensor_status(used);
    if (ls_status_is_ok(status))
      r->used[id] = number_of(ls_leaf(ls_add_scalar(used, 10)));
    const ls_status read = ls_tensor_status(ls_variable_read(r->variable));
    expect_contains(ls_status_message(read), "read_value");
    expect_status(read, LS_UNIMPLEMENTED, "variable_sync_on_read_context");
    {
      LS_SYNC_ON_READ_SCOPE;
      r->count += 1;
    }
    expect_status(ls_tensor_status(ls_variable_read(r->variable)),
                  LS_UNIMPLEMENTED, "read_value");
  }
  r->seen[id] = number_of(ls_leaf(ls_variable_as_tensor(r->variable)));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(replicas_can_use_the_value_of_all) {
  LS_SPEC("V113 V114 V115");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 17}, {MEAN, 13.5}, {FIRST, 13}, {NONE, 0}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t c = 0; c < 4; ++c) {
    LS_OWN(ls_variable, v) = variable_in(
        strategy, (variable_kind){.synchronization = ON_READ,
                                  .aggregation = cases[c].aggregation});
    replica_reads r = {.variable = v};
    ls_nest made = ls_none();
    set_components(v, (double[]){3, 4}, 2);
    const bool none = cases[c].aggregation == LS_AGGREGATION_NONE;
    expect_status(
        ls_strategy_run(strategy, ls_plain(add_ten, &r), ls_none(), &made),
        none ? LS_INVALID_ARGUMENT : LS_OK, none ? "NONE" : "");
    if (!none) {
      assert_true(r.used[0] == cases[c].wanted);
      assert_true(r.used[1] == cases[c].wanted);
      assert_true(r.seen[0] == 3 && r.seen[1] == 4);  // As before the scope.
      {
        LS_SYNC_ON_READ_SCOPE;
        assert_true(number_of(ls_leaf(ls_variable_read(v))) ==
                    cases[c].wanted - 10);
      }
    }
  }
  // Mirrored variables do not care.
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.aggregation = SUM});
  set_components(v, (double[]){3, 4}, 2);
  replica_reads r = {.variable = v};
  {
    LS_SYNC_ON_READ_SCOPE;
    ls_nest_release(run_on(strategy, read_in_replica, ls_none(), &r));
  }
  assert_true(r.seen[0] == 3 && r.seen[1] == 4);
  assert_true(r.used[0] == 3 && r.used[1] == 4);
}

// SPDX-License-Identifier: Apache-2.0
//
// Writes of distributed variables, in eager.
#include "lockstep/variable.h"

#include <math.h>

#include "distribute/own.h"
#include "support/variables.h"

// ---- Replica writes --------------------------------------------------------
TEST(replicas_write_what_the_aggregation_makes) {
  LS_SPEC("V97 V98");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted[3];  // assign, add, sub.
  } cases[] = {
      {SUM, {3, 13, 7}}, {MEAN, {1.5, 11.5, 8.5}}, {FIRST, {1, 11, 9}}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t c = 0; c < 3; ++c)
    for (int op = 0; op < 3; ++op) {
      LS_OWN(ls_variable, v) = variable_in(
          strategy,
          (variable_kind){.initial = 10, .aggregation = cases[c].aggregation});
      replica_writes w = {.variable = v, .op = (ls_write_op)op};
      run_writes(strategy, &w);
      const double wanted = cases[c].wanted[op];
      expect_components(v, (double[]){wanted, wanted}, 2);
      assert_true(w.after[0] == wanted && w.after[1] == wanted);
    }
}

TEST(without_aggregation_each_replica_writes_its_own) {
  LS_SPEC("V96");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.initial = 10});
  replica_writes w = {.variable = v};
  run_writes(strategy, &w);
  expect_components(v, (double[]){1, 2}, 2);
  assert_true(w.after[0] == 1 && w.after[1] == 2);
  // One value for all puts them together again.
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_variable_write(v, LS_WRITE_ASSIGN, ls_nest_f64(4), NULL, &made));
  expect_numbers(made, (double[]){4, 4}, 2);
  expect_components(v, (double[]){4, 4}, 2);
}

TEST(one_value_from_all_replicas_is_not_summed) {
  LS_SPEC("V99");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  static const ls_variable_aggregation each[] = {SUM, MEAN, FIRST};
  for (size_t a = 0; a < 3; ++a) {
    const bool sum = each[a] == LS_AGGREGATION_SUM;
    LS_OWN(ls_variable, v) = variable_in(
        strategy, (variable_kind){.initial = 10, .aggregation = each[a]});
    replica_writes w = {.variable = v,
                        .code = sum ? LS_INVALID_ARGUMENT : LS_OK,
                        .says = "SUM",
                        .use_value = true,
                        .value = ls_nest_f64(2.5)};
    run_writes(strategy, &w);
    w.says = "all replicas pass 2.5";
    run_writes(strategy, &w);
    w.use_value = false;
    w.use_outside = true;
    w.outside = scalar_of(2.5);
    w.says = "SUM";
    run_writes(strategy, &w);
    const double now = sum ? 10 : 2.5;
    expect_components(v, (double[]){now, now}, 2);
  }
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.initial = 10, .aggregation = SUM});
  replica_writes w = {
      .variable = v, .use_value = true, .value = ls_nest_i64(0)};
  run_writes(strategy, &w);
  expect_components(v, (double[]){0, 0}, 2);
  ls_variable_release(v);
  v = variable_in(one, (variable_kind){.initial = 10, .aggregation = SUM});
  w = (replica_writes){
      .variable = v, .use_value = true, .value = ls_nest_f64(2.5)};
  run_writes(one, &w);
  expect_components(v, (double[]){2.5}, 1);
}

TEST(a_distributed_value_in_a_replica_is_aggregated) {
  LS_SPEC("V100");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted;
  } cases[] = {{SUM, 3}, {MEAN, 1.5}, {FIRST, 1}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int kind = 0; kind < 2; ++kind) {
    LS_OWN(ls_nest, value) = distributed_numbers(
        kind == 0 ? LS_PER_REPLICA : LS_MIRRORED, (double[]){1, 2}, 2);
    for (size_t c = 0; c < 3; ++c) {
      LS_OWN(ls_variable, v) = variable_in(
          strategy, (variable_kind){.aggregation = cases[c].aggregation});
      replica_writes w = {.variable = v, .use_value = true, .value = value};
      run_writes(strategy, &w);
      expect_components(v, (double[]){cases[c].wanted, cases[c].wanted}, 2);
    }
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.initial = 5});
    replica_writes w = {.variable = v,
                        .use_value = true,
                        .value = value,
                        .code = LS_INVALID_ARGUMENT,
                        .says = "NONE"};
    run_writes(strategy, &w);
    expect_components(v, (double[]){5, 5}, 2);
  }
}

TEST(the_global_step_counts_steps) {
  LS_SPEC("V103");
  for (int n = 1; n <= 3; ++n) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(n);
    LS_OWN(ls_variable, v) = variable_in(
        strategy, (variable_kind){.dtype = LS_DTYPE_I64, .aggregation = FIRST});
    replica_writes w = {.variable = v,
                        .op = LS_WRITE_ADD,
                        .use_value = true,
                        .value = ls_nest_i64(1)};
    run_writes(strategy, &w);
    run_writes(strategy, &w);
    expect_components(v, (double[]){2, 2, 2}, (size_t)n);
  }
}

// ---- Writes across replicas ------------------------------------------------
TEST(a_write_across_replicas_reaches_all) {
  LS_SPEC("V94 V102");
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t a = 0; a < 4; ++a)
    for (int scope = 0; scope < 2; ++scope) {
      LS_OWN(ls_variable, v) = variable_in(
          strategy, (variable_kind){.initial = 10, .aggregation = all[a]});
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
      expect_ok(ls_variable_write(v, LS_WRITE_ADD, ls_nest_i64(1),
                                  &(ls_write_options){.no_read_value = true},
                                  &made));
      assert_int_equal(made.kind, LS_KIND_NONE);
      expect_components(v, (double[]){15, 14}, 2);
      ls_scope_end(&inside);
    }
}

TEST(what_differs_may_be_assigned_where_nothing_is_aggregated) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, value) = per_replica_scalars((double[]){1, 2}, 2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_nest_release(write_across(v, LS_WRITE_ASSIGN, value));
  expect_components(v, (double[]){1, 2}, 2);
  ls_variable_release(v);
  v = variable_in(strategy, (variable_kind){.aggregation = SUM});
  ls_nest made = ls_none();
  expect_status(ls_variable_write(v, LS_WRITE_ASSIGN, value, NULL, &made),
                LS_INVALID_ARGUMENT, "SUM");
  expect_components(v, (double[]){0, 0}, 2);
}

static ls_nest write_whole(ls_nest args, void *user) {
  (void)args;
  const double u = (double)ls_update_replica_id().value;
  const ls_tensor after = ls_variable_assign_add(user, scalar_of(10 * (u + 1)));
  assert_true(number_of(ls_leaf(ls_variable_read(user))) ==
              number_of(ls_leaf(after)));
  return ls_leaf(after);
}

TEST(in_an_update_the_container_is_its_component) {
  LS_SPEC("V101 M140");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.initial = 1, .aggregation = SUM});
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(
      ls_strategy_update(strategy, v, write_whole, ls_none(), v, true, &made));
  expect_numbers(made, (double[]){11, 21}, 2);
  expect_components(v, (double[]){11, 21}, 2);
}

// ---- Order of components
// -----------------------------------------------------
TEST(a_write_finds_parts_by_their_devices) {
  LS_SPEC("V94 M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  static const char *const devices[] = {"cpu:1", "cpu:0"};
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  const ls_nest items[] = {ls_leaf(scalar_of(20)), ls_leaf(scalar_of(10))};
  for (size_t a = 0; a < 4; ++a) {
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.aggregation = all[a]});
    const ls_distributed_kind kind = a == 0 ? LS_PER_REPLICA : LS_MIRRORED;
    LS_OWN(ls_nest, value) = ls_nest_distributed_on(kind, items, devices, 2);
    ls_nest_release(write_across(v, LS_WRITE_ASSIGN, value));
    expect_components(v, (double[]){10, 20}, 2);
  }
}

// ---- Host scalars
// --------------------------------------------------------------
TEST(a_host_scalar_is_a_value_of_the_variables_type) {
  LS_SPEC("V94");
  static const struct {
    ls_dtype dtype;
    ls_dtype given;  // I64 or F64.
    double number;
    bool fits;
  } rows[] = {
      {LS_DTYPE_I32, LS_DTYPE_I64, 2147483647, true},
      {LS_DTYPE_I32, LS_DTYPE_I64, 5000000000, false},
      {LS_DTYPE_I32, LS_DTYPE_I64, -2147483649, false},
      {LS_DTYPE_I32, LS_DTYPE_F64, 1.75, false},
      {LS_DTYPE_I32, LS_DTYPE_F64, -3.0, true},
      {LS_DTYPE_I32, LS_DTYPE_F64, 1e10, false},
      {LS_DTYPE_I32, LS_DTYPE_F64, (double)NAN, false},
      {LS_DTYPE_I32, LS_DTYPE_F64, (double)INFINITY, false},
      {LS_DTYPE_I8, LS_DTYPE_I64, 127, true},
      {LS_DTYPE_I8, LS_DTYPE_I64, 128, false},
      {LS_DTYPE_U8, LS_DTYPE_I64, -1, false},
      {LS_DTYPE_U8, LS_DTYPE_I64, 255, true},
      {LS_DTYPE_U64, LS_DTYPE_I64, -1, false},
      {LS_DTYPE_I64, LS_DTYPE_I64, 0x1.fffffffffffffp62, true},
      {LS_DTYPE_I64, LS_DTYPE_F64, 0x1p63, false},
      {LS_DTYPE_I64, LS_DTYPE_F64, -0x1p63, true},
      {LS_DTYPE_F32, LS_DTYPE_I64, 3, true},
      {LS_DTYPE_F32, LS_DTYPE_F64, 1.75, true},
  };
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int distributed = 0; distributed < 2; ++distributed) {
      LS_OWN(ls_variable, v) = NULL;
      const ls_variable_options options = {.name = "v", .dtype = rows[i].dtype};
      if (distributed)
        v = variable_in(strategy, (variable_kind){.dtype = rows[i].dtype});
      else
        expect_ok(ls_variable_create(&options, &v));
      const ls_nest value = rows[i].given == LS_DTYPE_I64
                                ? ls_nest_i64((int64_t)rows[i].number)
                                : ls_nest_f64(rows[i].number);
      ls_nest made = ls_none();
      const ls_status status =
          ls_variable_write(v, LS_WRITE_ASSIGN, value, NULL, &made);
      if (rows[i].fits)
        expect_ok(status);
      else
        expect_status(status, LS_INVALID_ARGUMENT,
                      ls_dtype_name(rows[i].dtype));
      ls_nest_release(made);
    }
}

// SPDX-License-Identifier: Apache-2.0
// Variables with a value for each replica, in compiled steps.
#include "distribute/own.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { REPLICAS = 3 };

// Scalars 1, 2, 3, or rows 2, 2, 1 of numbers.
static ls_nest scalars(void) {
  ls_nest items[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r) {
    const double value = r + 1;
    items[r] = ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &value));
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS));
}

// Runs `times` steps, compiled or op by op, on a new variable; gives the last
// result. What the components are then must be the same in both ways.
typedef struct job {
  ls_callback call;
  variable_kind kind;
  bool diverged;  // Components 10, 20, 30 at first.
  int times;
  const double *wanted;   // Of the components.
  const double *results;  // Of the last step; NULL: not compared.
} job;

static void run_job(const job *j) {
  for (int compiled = 0; compiled < 2; ++compiled) {
    expect_ok(ls_frame_begin());
    ls_strategy *strategy = mirrored_of(REPLICAS);
    ls_variable *v = variable_in(strategy, j->kind);
    if (j->diverged) set_components(v, (double[]){10, 20, 30}, REPLICAS);
    ls_function *f = function_of(j->call, v);
    const ls_nest args = scalars();
    ls_nest result = ls_none();
    for (int i = 0; i < j->times; ++i) {
      if (compiled) {
        expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
      } else {
        ls_nest_release(result);
        result = run_on(strategy, j->call, args, v);
      }
    }
    expect_components(v, j->wanted, REPLICAS);
    if (j->results != NULL) expect_numbers(result, j->results, REPLICAS);
    ls_nest_release(result);
    ls_nest_release(args);
    ls_function_release(f);
    ls_variable_release(v);
    ls_strategy_release(strategy);
    expect_ok(ls_frame_end(NULL));
  }
}

// ---- Reads and writes ------------------------------------------------------
static ls_nest add_own(ls_nest args, void *user) {
  ls_variable_assign_add(user, constant_argument(args));
  return ls_leaf(ls_mul_scalar(ls_variable_read(user), 2));
}

TEST(replicas_add_to_values_of_their_own) {
  LS_SPEC("V108");
  run_job(&(job){.call = add_own,
                 .kind = {.synchronization = LS_SYNCHRONIZATION_ON_READ,
                          .aggregation = LS_AGGREGATION_SUM},
                 .times = 3,
                 .wanted = (double[]){3, 6, 9},
                 .results = (double[]){6, 12, 18}});
}

TEST(mirrored_ones_without_aggregation_may_differ) {
  run_job(&(job){.call = add_own,
                 .times = 2,
                 .wanted = (double[]){2, 4, 6},
                 .results = (double[]){4, 8, 12}});
  run_job(&(job){.call = add_own,
                 .diverged = true,
                 .times = 2,
                 .wanted = (double[]){12, 24, 36},
                 .results = (double[]){24, 48, 72}});
}

static ls_nest read_own(ls_nest args, void *user) {
  return ls_leaf(ls_add(ls_variable_read(user), constant_argument(args)));
}

TEST(each_replica_reads_its_own_value) {
  run_job(&(job){.call = read_own,
                 .diverged = true,
                 .times = 2,
                 .wanted = (double[]){10, 20, 30},
                 .results = (double[]){11, 22, 33}});
}

// ---- In loops and branches -------------------------------------------------
static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 3)));
}

typedef struct body {
  ls_variable *variable;
  ls_tensor x;
} body;

static ls_nest add_in_body(ls_nest values, void *user) {
  const body *b = user;
  ls_variable_assign_add(b->variable, b->x);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)));
}

static ls_nest add_in_loop(ls_nest args, void *user) {
  body b = {user, constant_argument(args)};
  ls_nest_release(ls_while(below_three, add_in_body, &b,
                           LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0))),
                           0));
  return ls_leaf(ls_variable_read(user));
}

TEST(loops_carry_values_of_each_replica) {
  run_job(&(job){.call = add_in_loop,
                 .kind = {.synchronization = LS_SYNCHRONIZATION_ON_READ,
                          .aggregation = LS_AGGREGATION_SUM},
                 .times = 2,
                 .wanted = (double[]){6, 12, 18},
                 .results = (double[]){6, 12, 18}});
}

// ---- Shared again ----------------------------------------------------------
static ls_nest assign_sum(ls_nest args, void *user) {
  const ls_tensor own = ls_add(ls_variable_read(user), constant_argument(args));
  ls_variable_assign(user, ls_all_reduce(LS_REDUCE_SUM, own));
  return ls_leaf(ls_variable_read(user));
}

TEST(one_value_for_all_makes_it_one_again) {
  run_job(&(job){.call = assign_sum,
                 .diverged = true,
                 .times = 1,
                 .wanted = (double[]){66, 66, 66}});
  run_job(&(job){.call = assign_sum,
                 .diverged = true,
                 .times = 2,
                 .wanted = (double[]){204, 204, 204}});
}

static ls_nest descend(ls_nest args, void *user) {
  const ls_tensor own = ls_mul(ls_variable_read(user), constant_argument(args));
  const ls_tensor mean = ls_all_reduce(LS_REDUCE_MEAN, ls_tanh(own));
  ls_variable_assign_sub(user, ls_mul_scalar(mean, 0.3));
  return ls_leaf(own);
}

TEST(one_buffer_or_many_give_the_same_bits) {
  double last[2] = {0, 1};
  for (int diverged = 0; diverged < 2; ++diverged) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.initial = 0.7});
    LS_OWN(ls_function, f) = function_of(descend, v);
    LS_OWN(ls_nest, args) = scalars();
    LS_OWN(ls_nest, result) = ls_none();
    for (int i = 0; i < 3; ++i) {
      LS_OWN(ls_array, now) = variable_array(ls_variable_component(v, 1));
      const double value = ls_array_f64(now, 0);
      if (diverged)
        set_components(v, (double[]){value, value, value}, REPLICAS);
      expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
    }
    LS_OWN(ls_array, value) = variable_array(ls_variable_component(v, 2));
    last[diverged] = ls_array_f64(value, 0);
  }
  assert_true(last[0] == last[1]);
}

// ---- Merges ----------------------------------------------------------------
static ls_nest read_all(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  return ls_leaf(ls_variable_read(user));
}

// Reads the sum of what the replicas have just written.
static ls_nest add_and_merge(ls_nest args, void *user) {
  ls_variable_assign_add(user, constant_argument(args));
  const ls_nest sum =
      ls_replica_merge_call(ls_replica_context(), read_all, ls_none(), user);
  return ls_nest_is_failed(sum)
             ? sum
             : ls_leaf(ls_add(sum.as.tensor, ls_variable_read(user)));
}

TEST(a_merge_reads_what_replicas_wrote) {
  run_job(&(job){.call = add_and_merge,
                 .kind = {.synchronization = LS_SYNCHRONIZATION_ON_READ,
                          .aggregation = LS_AGGREGATION_SUM},
                 .times = 2,
                 .wanted = (double[]){2, 4, 6},
                 .results = (double[]){14, 16, 18}});
}

// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes of TPU strategies' variables, in computations and outside.
#include <string.h>

#include "base/memory/own.h"
#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/replica.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_steps.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

#define CORE(n) "/job:localhost/replica:0/task:0/device:TPU:" #n

// What the step at hand does.
typedef struct act {
  ls_write_op op;
  ls_nest value;
  ls_write_options options;
  ls_scatter_op scatter;
} act;
static act now;

static const ls_variable_synchronization on_write = LS_SYNCHRONIZATION_ON_WRITE;
static const ls_variable_synchronization on_read = LS_SYNCHRONIZATION_ON_READ;

// Every way of running and number of replicas.
#define EACH_WAY(in_graph, replicas)                                           \
  for (int in_graph = 0; (in_graph) < 2; ++(in_graph))                         \
    for (int replicas = 1; (replicas) <= 4; ++(replicas))

static double applied(ls_write_op op, double before, double value) {
  return op == LS_WRITE_ASSIGN ? value
         : op == LS_WRITE_ADD  ? before + value
                               : before - value;
}

// ---- Writes in a computation -----------------------------------------------
static ls_nest write_own(ls_nest args, void *user) {
  tpu_step *w = user;
  const ls_tensor x = tpu_step_argument(args);
  return ls_leaf(now.op == LS_WRITE_ASSIGN ? ls_variable_assign(w->v, x)
                 : now.op == LS_WRITE_ADD  ? ls_variable_assign_add(w->v, x)
                                           : ls_variable_assign_sub(w->v, x));
}

static double aggregated(ls_variable_aggregation how, int replicas,
                         int replica) {
  const double sum = replicas * (replicas + 1) / 2.0;
  switch (how) {
  case LS_AGGREGATION_SUM:
    return sum;
  case LS_AGGREGATION_MEAN:
    return sum * (1.0 / replicas);
  case LS_AGGREGATION_ONLY_FIRST_REPLICA:
    return 1;
  default:
    return replica + 1;
  }
}

TEST(writes_of_replicas_are_put_together) {
  LS_SPEC("T126 V143 V144");
  EACH_WAY(in_graph, replicas)
  for (int kind = 0; kind < 8; ++kind)
    for (int op = 0; op < 3; ++op) {
      const bool reads = kind >= 4;
      const ls_variable_aggregation how = (ls_variable_aggregation)(kind % 4);
      LS_OWN(tpu_step, w) = {0};
      tpu_step_open(
          &w, in_graph, replicas,
          (variable_kind){.initial = 10,
                          .synchronization = reads ? on_read : on_write,
                          .aggregation = how});
      now = (act){.op = (ls_write_op)op};
      expect_ok(tpu_step_run(&w, write_own));
      double wanted[4];
      for (int r = 0; r < replicas; ++r)
        wanted[r] =
            applied(now.op, 10,
                    aggregated(reads ? LS_AGGREGATION_NONE : how, replicas, r));
      tpu_step_expect_results(&w, wanted);
      tpu_step_expect_parts(&w, wanted);
    }
}

static ls_tensor around;

static ls_nest write_around(ls_nest args, void *user) {
  (void)args;
  const tpu_step *w = user;
  return ls_leaf(ls_variable_assign(w->v, around));
}

// A tensor from outside is a value of each, too.
TEST(every_tensor_is_reduced) {
  LS_SPEC("V143");
  EACH_WAY(in_graph, replicas)
  for (int how = LS_AGGREGATION_SUM; how <= LS_AGGREGATION_ONLY_FIRST_REPLICA;
       ++how) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, replicas,
                 (variable_kind){.aggregation = (ls_variable_aggregation)how});
    around = f32_of(5);
    expect_ok(tpu_step_run(&w, write_around));
    double wanted[4];
    for (int r = 0; r < replicas; ++r)
      wanted[r] = how == LS_AGGREGATION_SUM ? 5 * replicas : 5;
    tpu_step_expect_parts(&w, wanted);
  }
}

static ls_nest write_value(ls_nest args, void *user) {
  (void)args;
  tpu_step *w = user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_variable_write(w->v, now.op, now.value, &now.options, &made);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (made.kind != LS_KIND_OP) return made;
  // The op alone: what is read behind it is what it has written.
  const ls_op op = made.as.op;
  assert_non_null(attr_text(op, "_handle"));
  {
    LS_CONTROL_SCOPE(&op, 1);
    return ls_leaf(ls_identity(ls_variable_read(w->v)));
  }
}

TEST(numbers_are_the_same_on_all) {
  LS_SPEC("T127 V143");
  EACH_WAY(in_graph, replicas)
  for (int how = 0; how <= LS_AGGREGATION_ONLY_FIRST_REPLICA; ++how)
    for (int number = 0; number < 3; number += 2) {
      LS_OWN(tpu_step, w) = {0};
      tpu_step_open(
          &w, in_graph, replicas,
          (variable_kind){.initial = 10,
                          .aggregation = (ls_variable_aggregation)how});
      now = (act){.op = LS_WRITE_ADD, .value = ls_nest_i64(number)};
      const ls_status status = tpu_step_run(&w, write_value);
      if (how == LS_AGGREGATION_SUM && replicas > 1 && number != 0) {
        assert_non_null(strstr(ls_status_message(status), "SUM"));
        expect_status(status, LS_INVALID_ARGUMENT, "'v'");
        number = 3;
      } else {
        expect_ok(status);
      }
      if (number < 3) {
        const double n = 10 + number;
        tpu_step_expect_parts(&w, (double[]){n, n, n, n});
      } else if (!in_graph) {
        tpu_step_expect_parts(&w, (double[]){10, 10, 10, 10});
      }
    }
  LS_OWN_BEGUN(tpu_step, w, tpu_step_open, false, 2, (variable_kind){0});
  ls_variable *v = NULL;
  {
    LS_STRATEGY_SCOPE(w.s);
    expect_status(
        ls_variable_create(
            &(ls_variable_options){.name = "mean",
                                   .dtype = LS_DTYPE_I32,
                                   .aggregation = LS_AGGREGATION_MEAN},
            &v),
        LS_INVALID_ARGUMENT, "MEAN");
  }
}

static ls_nest write_integer(ls_nest args, void *user) {
  tpu_step *w = user;
  const ls_tensor x = ls_convert(tpu_step_argument(args), LS_DTYPE_I32);
  now.value = ls_leaf(x);
  return write_value(args, w);
}

TEST(writes_convert_and_return_what_is_there_then) {
  LS_SPEC("T130 V145");
  EACH_WAY(in_graph, replicas)
  for (int kind = 0; kind < 2; ++kind)
    for (int no_read = 0; no_read < 2; ++no_read) {
      LS_OWN(tpu_step, w) = {0};
      tpu_step_open(
          &w, in_graph, replicas,
          (variable_kind){.initial = 10,
                          .synchronization = kind ? on_read : on_write});
      now = (act){.op = LS_WRITE_ADD, .options = {.no_read_value = no_read}};
      expect_ok(tpu_step_run(&w, write_integer));
      tpu_step_expect_results(&w, (double[]){11, 12, 13, 14});
      tpu_step_expect_parts(&w, (double[]){11, 12, 13, 14});
    }
}

// ---- Reads -----------------------------------------------------------------
static ls_nest read_all_ways(ls_nest args, void *user) {
  tpu_step *w = user;
  LS_OWN(ls_nest, leaf) = ls_nest_variable(w->v);
  ls_variable_assign(w->v, tpu_step_argument(args));
  ls_tensor wide = ls_failed_tensor(), a = wide, b = wide, c = wide, d = wide;
  expect_ok(ls_distributed_as_tensor_of(leaf, LS_DTYPE_F64, &wide));
  assert_int_equal(ls_tensor_dtype(wide), LS_DTYPE_F64);
  assert_string_equal(ls_op_type_name(ls_tensor_op(wide)), "convert");
  a = ls_variable_read(w->v);
  b = ls_variable_as_tensor(w->v);
  ls_scope scope = {0};
  ls_sync_on_read_scope_begin(&scope);
  c = ls_variable_read(w->v);
  d = ls_variable_as_tensor(w->v);
  ls_scope_end(&scope);
  const ls_tensor all[] = {a, b, c, d};
  ls_tensor sum = ls_convert(wide, LS_DTYPE_F32);
  for (size_t i = 0; i < 4; ++i) {
    assert_string_equal(ls_op_type_name(ls_tensor_op(all[i])), "read_variable");
    assert_string_equal(attr_text(ls_tensor_op(all[i]), "_handle"), "v/handle");
    sum = ls_add(sum, all[i]);
  }
  return ls_leaf(sum);
}

static double read_of(ls_variable_aggregation how, int replicas) {
  return aggregated(how, replicas, 0);
}

TEST(reads_inside_are_the_replicas_own) {
  LS_SPEC("T123 V140 V144");
  EACH_WAY(in_graph, replicas)
  for (int kind = 0; kind < 5; ++kind) {
    LS_OWN(tpu_step, w) = {0};
    const bool reads = kind < 4;
    tpu_step_open(
        &w, in_graph, replicas,
        (variable_kind){.synchronization = reads ? on_read : on_write,
                        .aggregation =
                            (ls_variable_aggregation)(reads ? kind : 0)});
    expect_ok(tpu_step_run(&w, read_all_ways));
    tpu_step_expect_results(&w, (double[]){5, 10, 15, 20});
    // Outside: what all make, or the one on the current device.
    if (reads && kind > 0)
      assert_true(tpu_step_value(&w, w.v) ==
                  read_of((ls_variable_aggregation)kind, replicas));
    if (!reads) {
      ls_tensor first = ls_variable_read(w.v), here = first, away = first;
      {
        LS_STRATEGY_SCOPE(w.s);
        {
          LS_DEVICE_SCOPE(CORE(1));
          here = ls_variable_read(w.v);
        }
        {
          LS_DEVICE_SCOPE("/device:CPU:5");
          away = ls_variable_read(w.v);
        }
      }
      const ls_tensor all[] = {first, here, away};
      const double wanted[] = {1, replicas > 1 ? 2 : 1, 1};
      for (size_t i = 0; i < 3; ++i)
        assert_true((in_graph ? computation_fetch(&w.c, all[i])
                              : item_of(all[i])) == wanted[i]);
    }
    LS_OWN(ls_nest, leaf) = ls_nest_variable(w.v);
    ls_tensor wide;
    if (kind == 1)
      expect_status(ls_distributed_as_tensor_of(leaf, LS_DTYPE_F64, &wide),
                    LS_INVALID_ARGUMENT, "f64");
  }
}

// ---- Writes of variables that are synchronized on read, outside ------------
static ls_status write_outside(tpu_step *w, ls_nest value) {
  LS_OWN(ls_nest, made) = ls_none();
  LS_STRATEGY_SCOPE(w->s);
  LS_RETURN_IF_ERROR(ls_variable_write(
      w->v, now.op, value, &(ls_write_options){.no_read_value = true}, &made));
  return w->in_graph ? computation_run(&w->c, made) : ls_ok();
}

TEST(a_sum_is_shared_out) {
  LS_SPEC("T128");
  EACH_WAY(in_graph, replicas)
  for (int how = 0; how <= LS_AGGREGATION_ONLY_FIRST_REPLICA; ++how)
    for (int op = 0; op < 3; ++op) {
      LS_OWN(tpu_step, w) = {0};
      const bool whole = how != LS_AGGREGATION_MEAN;
      tpu_step_open(
          &w, in_graph, replicas,
          (variable_kind){.dtype = whole ? LS_DTYPE_I32 : LS_DTYPE_F32,
                          .initial = 20,
                          .synchronization = on_read,
                          .aggregation = (ls_variable_aggregation)how});
      now.op = (ls_write_op)op;
      const bool sum = how == LS_AGGREGATION_SUM;
      const ls_status status = write_outside(&w, ls_nest_i64(7));
      double wanted = applied(now.op, 20, 7);
      if (sum && op != LS_WRITE_ASSIGN) {
        expect_status(status, LS_FAILED_PRECONDITION, "SUM");
        wanted = 20;
      } else {
        expect_ok(status);
        if (sum) wanted = 7 / replicas;
      }
      tpu_step_expect_parts(&w, (double[]){wanted, wanted, wanted, wanted});
    }
}

// ---- Rows ------------------------------------------------------------------
static ls_variable *rows_of(tpu_step *w, ls_variable_synchronization kind,
                            ls_variable_aggregation how) {
  ls_variable *v = NULL;
  LS_OWN(ls_array, first) =
      array_of(LS_DTYPE_F32, LS_SHAPE(3), (double[]){4, 6, 8});
  {
    LS_STRATEGY_SCOPE(w->s);
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "rows",
                                                        .initial_array = first,
                                                        .synchronization = kind,
                                                        .aggregation = how},
                                 &v));
  }
  if (w->in_graph) computation_initialize(&w->c, v);
  return v;
}

static ls_variable *rows;

static ls_nest scatter_own(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = tpu_step_argument(args);
  const ls_tensor at =
      ls_reshape(ls_convert(ls_sub(x, f32_of(1)), LS_DTYPE_I32), LS_SHAPE(1));
  return ls_leaf(ls_variable_scatter(
      rows, now.scatter, at, ls_reshape(ls_mul(x, f32_of(2)), LS_SHAPE(1))));
}

static double scattered(ls_scatter_op op, double before, double x) {
  switch (op) {
  case LS_SCATTER_ADD:
    return before + x;
  case LS_SCATTER_SUB:
    return before - x;
  case LS_SCATTER_MUL:
    return before * x;
  case LS_SCATTER_DIV:
    return before / x;
  case LS_SCATTER_MIN:
    return before < x ? before : x;
  case LS_SCATTER_MAX:
    return before > x ? before : x;
  default:
    return x;
  }
}

static const ls_scatter_op scatters[] = {
    LS_SCATTER_ADD, LS_SCATTER_SUB, LS_SCATTER_MUL,   LS_SCATTER_DIV,
    LS_SCATTER_MIN, LS_SCATTER_MAX, LS_SCATTER_UPDATE};
static const char *const scatter_names[] = {
    "scatter_add", "scatter_sub", "scatter_mul",   "scatter_div",
    "scatter_min", "scatter_max", "scatter_update"};

static double element(tpu_step *w, size_t part, int64_t at) {
  ls_variable *v = ls_variable_component(rows, part);
  if (w->in_graph)
    return computation_fetch(
        &w->c, ls_reshape(ls_slice_axis(ls_variable_read(v), 0, at, at + 1),
                          LS_SCALAR));
  LS_OWN(ls_array, array) = variable_array(v);
  return ls_array_f64(array, at);
}

TEST(rows_are_written_raw_or_not_at_all) {
  LS_SPEC("T129 V121");
  static const double before[] = {4, 6, 8};
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= 2; ++replicas)
      for (int kind = 0; kind < 5; ++kind)
        for (size_t i = 0; i < 7; ++i) {
          LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, replicas,
                       (variable_kind){0});
          rows = rows_of(&w, kind == 4 ? on_read : on_write,
                         (ls_variable_aggregation)(kind % 4));
          now.scatter = scatters[i];
          if (kind == 0) {
            expect_ok(tpu_step_run(&w, scatter_own));
            for (int r = 0; r < replicas; ++r)
              for (int k = 0; k < 3; ++k)
                assert_true(
                    element(&w, (size_t)r, k) ==
                    (k == r ? scattered(now.scatter, before[k], 2 * (r + 1))
                            : before[k]));
          } else if (!in_graph || i == 0) {  // A refusal in a graph stays.
            const ls_status status = tpu_step_run(&w, scatter_own);
            static const char *const names[] = {
                "", "SUM", "MEAN", "ONLY_FIRST_REPLICA", "ON_READ"};
            assert_non_null(
                strstr(ls_status_message(status), scatter_names[i]));
            expect_status(status, LS_UNIMPLEMENTED, names[kind]);
          }
          ls_variable_release(rows);
        }
}

TEST(rows_outside_are_every_components) {
  LS_SPEC("T129 V121");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int kind = 0; kind < 5; ++kind)
      for (size_t i = 0; i < 7; ++i) {
        LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, 2,
                     (variable_kind){0});
        rows = rows_of(&w, kind == 4 ? on_read : on_write,
                       (ls_variable_aggregation)(kind % 4));
        ls_tensor made = ls_failed_tensor();
        ls_array *where = array_of(LS_DTYPE_I32, LS_SHAPE(1), (double[]){1});
        ls_array *what = array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){7});
        {
          LS_STRATEGY_SCOPE(w.s);
          made = ls_variable_scatter(rows, scatters[i], ls_constant(where),
                                     ls_constant(what));
        }
        ls_array_release(where);
        ls_array_release(what);
        if (kind == 4) {
          const ls_status status = in_graph ? ls_graph_take_error(w.c.graph)
                                            : ls_tensor_status(made);
          assert_non_null(strstr(ls_status_message(status), scatter_names[i]));
          expect_status(status, LS_UNIMPLEMENTED, "ON_READ");
        } else {
          LS_OWN(ls_nest, result) = ls_none();
          if (in_graph)
            expect_ok(
                ls_session_run(w.c.session, ls_leaf(made), NULL, 0, &result));
          for (size_t r = 0; r < 2; ++r)
            assert_true(element(&w, r, 1) == scattered(scatters[i], 6, 7) ||
                        element(&w, r, 1) ==
                            (double)(float)scattered(scatters[i], 6, 7));
        }
        ls_variable_release(rows);
      }
}

// ---- What a computation does not know --------------------------------------
static ls_nest ask_for_component(ls_nest args, void *user) {
  (void)args;
  const tpu_step *w = user;
  LS_OWN(ls_nest, leaf) = ls_nest_variable(w->v);
  ls_nest part = ls_none();
  ls_status status = ls_distributed_get(leaf, NULL, &part);
  expect_status(status, LS_UNIMPLEMENTED, "'v'");
  status = ls_distributed_get(leaf, CORE(1), &part);
  assert_string_equal(ls_variable_device(w->v), "");
  return ls_fail(status);
}

static ls_nest ask_for_first(ls_nest args, void *user) {
  (void)args;
  const tpu_step *w = user;
  return ls_leaf(ls_variable_initial_value(w->v));
}

TEST(components_are_not_at_hand_inside) {
  LS_SPEC("T130 V141");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= 2; ++replicas) {
      LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, replicas,
                   (variable_kind){0});
      expect_status(tpu_step_run(&w, ask_for_component), LS_UNIMPLEMENTED,
                    "'v'");
      expect_status(tpu_step_run(&w, ask_for_first), LS_FAILED_PRECONDITION,
                    "initial_value");
      // Outside they are.
      LS_OWN(ls_nest, leaf) = ls_nest_variable(w.v);
      LS_OWN(ls_nest, part) = ls_none();
      expect_ok(ls_distributed_get(leaf, CORE(0), &part));
      assert_ptr_equal(ls_nest_as_variable(part),
                       ls_variable_component(w.v, 0));
    }
}

// ---- read_var --------------------------------------------------------------
static ls_nest read_var_inside(ls_nest args, void *user) {
  const tpu_step *w = user;
  LS_OWN(ls_nest, leaf) = ls_nest_variable(w->v);
  ls_tensor value;
  ls_variable_assign(w->v, tpu_step_argument(args));
  const ls_status status = ls_tpu_read_variable(leaf, &value);
  return ls_status_is_ok(status) ? ls_leaf(value) : ls_fail(status);
}

static double fetched(tpu_step *w, ls_tensor value) {
  return w->in_graph ? computation_fetch(&w->c, value) : item_of(value);
}

TEST(a_variable_is_read_or_refused) {
  LS_SPEC("T131");
  EACH_WAY(in_graph, replicas) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, replicas,
                 (variable_kind){.initial = 3,
                                 .synchronization = on_read,
                                 .aggregation = LS_AGGREGATION_SUM});
    expect_ok(tpu_step_run(&w, read_var_inside));
    tpu_step_expect_results(&w, (double[]){1, 2, 3, 4});
    LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
    LS_OWN(ls_variable, m) =
        variable_in(mirrored, (variable_kind){.name = "m"});
    LS_OWN(ls_variable, plain) = NULL;
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "plain", .initial_value = f32_of(8)},
        &plain));
    if (in_graph) computation_initialize(&w.c, plain);
    LS_OWN(ls_nest, tpu) = ls_nest_variable(w.v);
    LS_OWN(ls_nest, one) = ls_nest_variable(plain);
    LS_OWN(ls_nest, foreign) = ls_nest_variable(m);
    ls_tensor value;
    expect_ok(ls_tpu_read_variable(tpu, &value));
    assert_true(fetched(&w, value) == replicas * (replicas + 1) / 2.0);
    expect_ok(ls_tpu_read_variable(one, &value));
    assert_true(fetched(&w, value) == 8);
    expect_status(ls_tpu_read_variable(foreign, &value), LS_INVALID_ARGUMENT,
                  "m");
    expect_status(ls_tpu_read_variable(ls_nest_f64(4), &value),
                  LS_INVALID_ARGUMENT, "4");
  }
}

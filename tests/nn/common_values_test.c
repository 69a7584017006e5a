// SPDX-License-Identifier: Apache-2.0
//
// Values that are the same on all replicas: optimizers, averages and layers
// store them as they are. No aggregation of the variable rounds or sums them,
// and variables made outside of the strategy's scope get them once.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/eager.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "nn/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

enum { WIDTH = 3, ROWS = 64, STEPS = 3, VARIABLES = 32 };

typedef enum kind { TRACED, OP_BY_OP, ON_TPU } kind;

typedef struct problem {
  kind kind;
  ls_variable *w, *table;
  ls_batch_norm_layer *norm;
  ls_optimizer *optimizer;
  ls_average *average;
  ls_running_mean *mean;
} problem;

static ls_variable *numbers_in(const char *name, ls_shape shape,
                               ls_variable_aggregation aggregation) {
  ls_variable *made = NULL;
  LS_OWN(ls_array, initial) = array_of_numbers(LS_DTYPE_F32, shape, 3);
  expect_ok(ls_variable_create(
      &(ls_variable_options){
          .name = name, .initial_array = initial, .aggregation = aggregation},
      &made));
  return made;
}

static void make(problem *p, const ls_optimizer_options *options,
                 ls_variable_aggregation aggregation) {
  p->w = numbers_in("w", LS_SHAPE(WIDTH), aggregation);
  p->table = numbers_in("table", LS_SHAPE(ROWS, WIDTH), aggregation);
  expect_ok(ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.channels = WIDTH, .momentum = 0.75}, &p->norm));
  expect_ok(ls_optimizer_create("adam", options, &p->optimizer));
  ls_variable *averaged[] = {p->w, p->table};
  expect_ok(ls_average_create(
      &(ls_average_options){.variables = averaged, .count = 2, .decay = 0.75},
      &p->average));
  expect_ok(ls_running_mean_create("mean", &p->mean));
}

static void end(problem *p) {
  ls_running_mean_destroy(p->mean);
  ls_average_destroy(p->average);
  ls_optimizer_release(p->optimizer);
  ls_batch_norm_layer_destroy(p->norm);
  ls_variable_release(p->table);
  ls_variable_release(p->w);
}
LS_OWNED_STRUCT(problem, end)

static ls_tensor loss_of(const problem *p, ls_tensor x, ls_tensor ids) {
  const ls_tensor y = ls_batch_norm_layer_apply(p->norm, x, true);
  const ls_tensor rows = ls_gather(ls_variable_read(p->table), ids, 0);
  const ls_tensor sums = ls_add(ls_mul(y, ls_variable_read(p->w)), rows);
  return ls_reduce_mean(ls_square(ls_tanh(sums)), LS_ALL_AXES);
}

static ls_tensor as_tensor(ls_nest leaf) {
  return leaf.kind == LS_KIND_ARRAY
             ? ls_tensor_from_array(ls_nest_as_array(leaf))
             : leaf.as.tensor;
}

static ls_nest step(ls_nest args, void *user) {
  problem *p = user;
  ls_tape *tape = NULL;
  ls_status status = ls_ok();
  if (p->kind == OP_BY_OP) expect_ok(ls_tape_begin(&tape));
  const ls_tensor loss = loss_of(p, as_tensor(ls_nest_item(args, 0)),
                                 as_tensor(ls_nest_item(args, 1)));
  if (tape != NULL)
    status = ls_optimizer_minimize_tape(p->optimizer, tape, loss);
  else
    ls_optimizer_minimize(p->optimizer, loss);
  ls_tape_release(tape);
  ls_average_update(p->average);
  ls_average_swap(p->average);
  ls_running_mean_update(p->mean, loss);
  return ls_status_is_ok(status) ? ls_leaf(loss) : ls_fail(status);
}

static ls_nest args_of(int replicas, int at) {
  ls_nest xs[8], ids[8];
  for (int r = 0; r < replicas; ++r) {
    const double rows[] = {r, at};
    xs[r] = ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, WIDTH),
                                           (uint32_t)(9 * at + r + 1)));
    ids[r] = ls_nest_array(array_of(LS_DTYPE_I32, LS_SHAPE(2), rows));
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, xs, (size_t)replicas),
                  ls_nest_distributed(LS_PER_REPLICA, ids, (size_t)replicas));
}

static int by_name(const void *a, const void *b) {
  ls_variable *const *x = a, *const *y = b;
  return strcmp(ls_variable_name(*x), ls_variable_name(*y));
}

// Slots are in the order of the first step, which a tape finds in its own way.
static size_t list_all(const problem *p, ls_variable **all) {
  size_t count = 0;
  all[count++] = p->w;
  all[count++] = p->table;
  count += ls_batch_norm_layer_variables(p->norm, all + count, 4);
  count += ls_optimizer_variables(p->optimizer, all + count, 16);
  count += ls_average_variables(p->average, all + count, 3);
  count += ls_running_mean_variables(p->mean, all + count, 2);
  assert_true(count <= VARIABLES);
  qsort(all, count, sizeof(ls_variable *), by_name);
  return count;
}

// One run: what all variables hold after the steps, as bytes.
typedef struct bytes {
  char data[8192];
  size_t size;
} bytes;

static void take_bytes(const problem *p, bytes *out) {
  ls_variable *all[VARIABLES];
  const size_t count = list_all(p, all);
  for (size_t i = 0; i < count; ++i) {
    const size_t parts = ls_variable_num_components(all[i]);
    LS_OWN(ls_array, first) = variable_array(all[i]);
    for (size_t c = 0; c < parts; ++c) {
      LS_OWN(ls_array, part) = variable_array(ls_variable_component(all[i], c));
      assert_memory_equal(ls_array_data(part), ls_array_data(first),
                          ls_array_size(first));
    }
    assert_true(out->size + ls_array_size(first) <= sizeof(out->data));
    memcpy(out->data + out->size, ls_array_data(first), ls_array_size(first));
    out->size += ls_array_size(first);
  }
}

static void run(kind how, int replicas, bool inside,
                const ls_optimizer_options *options,
                ls_variable_aggregation aggregation, bytes *out) {
  LS_OWN(ls_strategy, strategy) =
      how == ON_TPU ? tpu_strategy_of(replicas) : mirrored_of(replicas);
  LS_OWN(problem, p) = {.kind = how};
  *out = (bytes){0};
  if (inside) {
    LS_STRATEGY_SCOPE(strategy);
    make(&p, options, aggregation);
  } else {
    make(&p, options, aggregation);
  }
  LS_OWN(ls_function, function) = unnamed_function(step, &p);
  for (int at = 0; at < STEPS; ++at) {
    LS_OWN(ls_nest, args) = args_of(replicas, at);
    LS_OWN(ls_nest, got) = strategy_results(
        strategy, how == OP_BY_OP ? ls_plain(step, &p) : ls_traced(function),
        args);
  }
  take_bytes(&p, out);
}

static void expect_equal(const bytes *got, const bytes *want, kind how,
                         int replicas, int aggregation) {
  if (got->size != want->size || memcmp(got->data, want->data, want->size) != 0)
    fail_msg("%d replicas, kind %d, aggregation %d: other bytes", replicas, how,
             aggregation);
}

static const ls_optimizer_options many_options[] = {
    {.learning_rate = 0.1},
    {.learning_rate = 0.1, .clip = {.global_norm = 0.01}, .accumulate = 2},
};

TEST(aggregation_changes_no_bit_of_a_step) {
  LS_SPEC("M182");
  static const int sizes[] = {3, 5, 6, 7};
  bytes want, got;
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i)
    for (size_t o = 0; o < (i == 0 ? LS_COUNT_OF(many_options) : 1); ++o) {
      const ls_optimizer_options *options = &many_options[o];
      run(TRACED, sizes[i], true, options, LS_AGGREGATION_NONE, &want);
      for (int how = TRACED; how <= ON_TPU; ++how)
        for (int a = LS_AGGREGATION_NONE;
             a <= LS_AGGREGATION_ONLY_FIRST_REPLICA; ++a) {
          run((kind)how, sizes[i], true, options, (ls_variable_aggregation)a,
              &got);
          expect_equal(&got, &want, (kind)how, sizes[i], a);
        }
    }
}

TEST(variables_made_outside_the_scope_move_once_in_a_step) {
  LS_SPEC("M182");
  bytes want, got;
  for (size_t o = 0; o < LS_COUNT_OF(many_options); ++o)
    for (int n = 1; n <= 5; n += 2)
      for (int how = TRACED; how <= OP_BY_OP; ++how) {
        run(TRACED, n, true, &many_options[o], LS_AGGREGATION_NONE, &want);
        run((kind)how, n, false, &many_options[o], LS_AGGREGATION_NONE, &got);
        expect_equal(&got, &want, (kind)how, n, -1);
      }
}

// ---- One variable outside, one inside --------------------------------------
typedef struct mixed {
  kind kind;
  ls_variable *a, *b;
  ls_optimizer *optimizer;
} mixed;

static ls_nest mixed_step(ls_nest args, void *user) {
  mixed *m = user;
  ls_tape *tape = NULL;
  ls_status status = ls_ok();
  if (m->kind == OP_BY_OP) expect_ok(ls_tape_begin(&tape));
  const ls_tensor y =
      ls_add(ls_mul(as_tensor(ls_nest_item(args, 0)), ls_variable_read(m->a)),
             ls_variable_read(m->b));
  const ls_tensor loss = ls_reduce_mean(ls_square(y), LS_ALL_AXES);
  if (tape != NULL)
    status = ls_optimizer_minimize_tape(m->optimizer, tape, loss);
  else
    ls_optimizer_minimize(m->optimizer, loss);
  ls_tape_release(tape);
  return ls_status_is_ok(status) ? ls_leaf(loss) : ls_fail(status);
}

TEST(variables_inside_and_outside_the_scope_move_together) {
  LS_SPEC("M182");
  for (size_t o = 0; o < LS_COUNT_OF(many_options); ++o) {
    double got[2][2][WIDTH];
    for (int how = TRACED; how <= OP_BY_OP; ++how) {
      LS_OWN(ls_strategy, strategy) = mirrored_of(3);
      LS_OWN(ls_optimizer, optimizer) = NULL;
      LS_OWN(ls_variable, a) =
          numbers_in("a", LS_SHAPE(WIDTH), LS_AGGREGATION_NONE);
      LS_OWN(ls_variable, b) = NULL;
      {
        LS_STRATEGY_SCOPE(strategy);
        b = numbers_in("b", LS_SHAPE(WIDTH), LS_AGGREGATION_MEAN);
      }
      expect_ok(ls_optimizer_create("adam", &many_options[o], &optimizer));
      mixed m = {(kind)how, a, b, optimizer};
      LS_OWN(ls_function, function) = unnamed_function(mixed_step, &m);
      for (int at = 0; at < STEPS; ++at) {
        LS_OWN(ls_nest, args) = args_of(3, at);
        LS_OWN(ls_nest, made) = strategy_results(
            strategy,
            how == OP_BY_OP ? ls_plain(mixed_step, &m) : ls_traced(function),
            args);
      }
      read_variable(a, got[how][0], WIDTH);
      read_variable(b, got[how][1], WIDTH);
    }
    assert_memory_equal(got[0], got[1], sizeof(got[0]));
  }
}

// ---- Calls of one replica ---------------------------------------------------
static ls_nest update_on_the_first(ls_nest args, void *user) {
  problem *p = user;
  (void)args;
  if (ls_replica_number() == 0) ls_average_update(p->average);
  return ls_none();
}

TEST(an_update_that_one_replica_makes_alone_is_named) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(problem, p) = {.kind = OP_BY_OP};
  make(&p, &many_options[0], LS_AGGREGATION_NONE);
  LS_OWN(ls_nest, made) = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(update_on_the_first, &p),
                                ls_none(), &made),
                LS_FAILED_PRECONDITION,
                "a replica waits in assign_add of 'average/step', which all "
                "replicas make together, while another has ended");
}

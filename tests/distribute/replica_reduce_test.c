// SPDX-License-Identifier: Apache-2.0
//
// all_reduce of a replica: nests, other ops, gradients.
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "support/function.h"
#include "support/replicas.h"

typedef struct reducing {
  ls_reduce_op op;
  ls_code code;
} reducing;

// (x, [2 x, (3 x,)]) of all replicas.
static ls_nest reduce_nest(ls_nest args, void *user) {
  const reducing *r = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, nest) =
      LS_TUPLE(ls_leaf(x), LS_LIST(ls_leaf(ls_mul_scalar(x, 2)),
                                   LS_TUPLE(ls_leaf(ls_mul_scalar(x, 3)))));
  const ls_nest made = ls_replica_all_reduce(ls_replica_context(), r->op, nest);
  if (r->code != LS_OK) {
    const ls_status status = ls_nest_status(made);
    expect_contains(ls_status_message(status), "all_reduce");
    expect_status(status, r->code, "neither SUM nor MEAN");
    ls_nest_release(made);
    return ls_none();
  }
  return made;
}

static double any_number(ls_nest leaf) {
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    const double first = any_number(ls_distributed_component(leaf, 0));
    for (size_t i = 1; i < ls_distributed_count(leaf); ++i)
      assert_true(any_number(ls_distributed_component(leaf, i)) == first);
    return first;
  }
  if (leaf.kind != LS_KIND_ARRAY) return number_of(leaf);
  return ls_array_f64(ls_nest_as_array(leaf), 0);
}

static void expect_nest(ls_strategy *strategy, ls_callable callable,
                        const reducing *r, double wanted) {
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){1, 2, 6}, 3));
  LS_OWN(ls_nest, made) = strategy_results(strategy, callable, args);
  if (r->code == LS_OK) {
    assert_int_equal(made.kind, LS_KIND_TUPLE);
    const ls_nest list = ls_nest_item(made, 1);
    assert_int_equal(list.kind, LS_KIND_LIST);
    assert_int_equal(ls_nest_item(list, 1).kind, LS_KIND_TUPLE);
    assert_true(any_number(ls_nest_item(made, 0)) == wanted);
    assert_true(any_number(ls_nest_item(list, 0)) == 2 * wanted);
    assert_true(any_number(ls_nest_item(ls_nest_item(list, 1), 0)) ==
                3 * wanted);
  }
}

TEST(every_leaf_is_reduced_on_every_replica) {
  LS_SPEC("V180");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  reducing rows[] = {{LS_REDUCE_SUM, LS_OK},
                     {LS_REDUCE_MEAN, LS_OK},
                     {LS_REDUCE_MAX, LS_INVALID_ARGUMENT},
                     {(ls_reduce_op)77, LS_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    const double wanted = i == 0 ? 9 : 3;
    expect_nest(strategy, ls_plain(reduce_nest, &rows[i]), &rows[i], wanted);
    LS_OWN(ls_function, function) = function_of(reduce_nest, &rows[i]);
    expect_nest(strategy, ls_traced(function), &rows[i], wanted);
  }
}

// d(w y) / dx where y is x of all replicas.
static ls_nest differentiate(ls_nest args, void *user) {
  const reducing *r = user;
  const ls_tensor x = ls_nest_tensor(args, 0), w = ls_nest_tensor(args, 1);
  LS_OWN(ls_nest, y) =
      ls_replica_all_reduce(ls_replica_context(), r->op, ls_leaf(x));
  const ls_nest loss = ls_leaf(ls_mul(w, ls_nest_tensor(y, 0))),
                goal = ls_leaf(x);
  ls_nest gradient = ls_none();
  expect_ok(ls_gradients(&loss, 1, &goal, 1, NULL, &gradient));
  return gradient;
}

TEST(a_gradient_is_reduced_the_same_way) {
  LS_SPEC("V180");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  for (int mean = 0; mean < 2; ++mean) {
    reducing r = {.op = mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM};
    LS_OWN(ls_function, function) = function_of(differentiate, &r);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(per_replica_scalars((double[]){1, 2, 6}, 3),
                 per_replica_scalars((double[]){10, 20, 60}, 3));
    LS_OWN(ls_nest, made) =
        strategy_results(strategy, ls_traced(function), args);
    assert_true(any_number(made) == (mean ? 30 : 90));
  }
}

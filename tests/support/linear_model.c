// SPDX-License-Identifier: Apache-2.0
#include "support/linear_model.h"

#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/regroup.h"
#include "nn/own.h"
#include "support/replicas.h"

void linear_model_make(linear_model *m, bool cross_shard) {
  static const double first[] = {0.5, -0.25, 1};
  LS_OWN(ls_optimizer, inner) = NULL;
  m->w = variable_of("w", LS_DTYPE_F32, LS_SHAPE(3, 1), first);
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.9}, &inner));
  m->optimizer = ls_optimizer_retain(inner);
  if (cross_shard) {
    ls_optimizer_release(inner);
    expect_ok(ls_cross_shard_create(
        &(ls_cross_shard_options){.optimizer = inner}, &m->optimizer));
  }
}

void linear_model_drop(linear_model *m) {
  ls_variable_release(m->w);
  ls_optimizer_release(m->optimizer);
}

void linear_program_begin(programs *p, linear_model *m,
                          programs_options options) {
  programs_begin(p, options);
  {
    LS_GRAPH_SCOPE(p->graph);
    linear_model_make(m, true);
  }
  programs_build(p);
}

ls_tensor linear_model_output(const linear_model *m, ls_nest features) {
  return ls_matmul(features.as.tensor, ls_variable_read(m->w));
}

static ls_tensor loss_of(const linear_model *m, ls_nest features,
                         ls_nest labels, ls_tensor mask) {
  const ls_tensor off =
      ls_sub(linear_model_output(m, features), labels.as.tensor);
  const ls_tensor squares = ls_mul(off, off);
  return ls_tensor_is_failed(mask)
             ? ls_reduce_mean(squares, LS_ALL_AXES)
             : ls_weighted_mean(squares, ls_reshape_like(mask, squares));
}

ls_tensor linear_model_loss(const linear_model *m, const ls_model_call *call) {
  return loss_of(m, call->features, call->labels, call->mask);
}

// ---- The mirrored strategy -------------------------------------------------
static ls_nest train_step(ls_nest args, void *user) {
  const linear_model *m = user;
  const ls_tensor loss = loss_of(m, ls_nest_item(args, 0),
                                 ls_nest_item(args, 1), ls_failed_tensor());
  (void)ls_optimizer_minimize(m->optimizer, loss);
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss));
}

static ls_nest evaluate_step(ls_nest args, void *user) {
  return ls_leaf(loss_of(user, ls_nest_item(args, 0), ls_nest_item(args, 1),
                         ls_failed_tensor()));
}

void linear_reference_begin(linear_reference *r, int replicas) {
  *r = (linear_reference){.strategy = mirrored_of(replicas)};
  LS_STRATEGY_SCOPE(r->strategy);
  linear_model_make(&r->m, false);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = train_step, .user = &r->m}, &r->train));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = evaluate_step, .user = &r->m},
      &r->evaluate));
}

void linear_reference_end(linear_reference *r) {
  ls_nest_release(r->results);
  ls_function_release(r->train);
  ls_function_release(r->evaluate);
  linear_model_drop(&r->m);
  ls_strategy_release(r->strategy);
}

static ls_nest all_parts(const programs *p, int64_t step, int which) {
  ls_nest parts[PROGRAMS_MOST], made = ls_none();
  for (int r = 0; r < p->options.replicas; ++r)
    parts[r] = ls_nest_array(programs_fed(p, step, r, which));
  expect_ok(ls_regroup(parts, (size_t)p->options.replicas, NULL, &made));
  for (int r = 0; r < p->options.replicas; ++r)
    ls_nest_release(parts[r]);
  return made;
}

static void run(linear_reference *r, ls_function *function, const programs *p,
                int64_t step) {
  LS_OWN(ls_nest, args) =
      LS_TUPLE(all_parts(p, step, 0), all_parts(p, step, 1));
  expect_ok(
      ls_strategy_run(r->strategy, ls_traced(function), args, &r->results));
}

static float result(const linear_reference *r, int replica) {
  LS_OWN(ls_nest, own) = ls_none();
  expect_ok(ls_strategy_replica_result(r->strategy, r->results, replica, &own));
  return (float)ls_nest_number(own);
}

float linear_reference_train(linear_reference *r, const programs *p,
                             int64_t step) {
  run(r, r->train, p, step);
  return result(r, 0);
}

void linear_reference_losses(linear_reference *r, const programs *p,
                             int64_t step, float *losses) {
  run(r, r->evaluate, p, step);
  for (int i = 0; i < p->options.replicas; ++i)
    losses[i] = result(r, i);
}

void linear_expect_same(programs *p, const linear_model *m,
                        const linear_reference *r) {
  double wanted[3];
  LS_OWN(ls_array, value) = programs_value(p, m->w);
  read_variable(r->m.w, wanted, 3);
  for (int i = 0; i < 3; ++i)
    assert_true(ls_array_f64(value, i) == wanted[i]);
}

float canonical_sum(const float *values, int count) {
  int half = 1;
  if (count == 1) return values[0];
  while (2 * half < count)
    half *= 2;
  return canonical_sum(values, half) +
         canonical_sum(values + half, count - half);
}

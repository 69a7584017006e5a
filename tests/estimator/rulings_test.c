// SPDX-License-Identifier: Apache-2.0
// What an estimator leaves to its caller: signal handlers; and embeddings,
// which are layers with sparse gradients like elsewhere.
#include <signal.h>

#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "support/estimators.h"

// ---- Signals ---------------------------------------------------------------
static void on_interrupt(int signal) { (void)signal; }

static void (*handler_now(void))(int) {
  struct sigaction action;
  assert_int_equal(sigaction(SIGINT, NULL, &action), 0);
  return action.sa_handler;
}

static ls_status look(void *user, ls_run_context *context, ls_run_wish *wish) {
  int *runs = user;
  (void)context, (void)wish;
  assert_true(handler_now() == on_interrupt);
  return ++*runs == 3 ? LS_STATUS(LS_INTERNAL, "the third run") : ls_ok();
}

TEST(signals_stay_as_their_caller_has_them) {
  LS_SPEC("E160");
  int runs = 0;
  ls_hook *hook = NULL;
  const struct sigaction own = {.sa_handler = on_interrupt};
  struct sigaction before;
  assert_int_equal(sigaction(SIGINT, &own, &before), 0);
  estimator_case c = {.way = ON_TPU, .repeats = true, .folder = "signals"};
  estimator_case_begin(&c);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.name = "look", .user = &runs, .before_run = look},
      &hook));
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(10),
                                                  .hooks = &hook,
                                                  .num_hooks = 1},
                         NULL),
      LS_INTERNAL, "the third run");
  assert_true(handler_now() == on_interrupt);
  (void)estimator_case_train(&c, 2);
  assert_true(handler_now() == on_interrupt);
  ls_hook_release(hook);
  estimator_case_end(&c);
  assert_int_equal(sigaction(SIGINT, &before, NULL), 0);
}

// ---- Embeddings ------------------------------------------------------------
enum { WORDS = 40 };

static ls_status embed(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  ls_embedding_layer *table = NULL;
  ls_dense_layer *dense = NULL;
  ls_optimizer *inner = NULL, *outer = NULL;
  (void)user;
  expect_ok(ls_embedding_layer_create(
      &(ls_embedding_options){.name = "words", .rows = WORDS, .width = 4},
      &table));
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){
          .name = "out", .inputs = 4, .units = ESTIMATOR_CLASSES},
      &dense));
  expect_ok(ls_adam_create(&(ls_adam_options){.learning_rate = 0.05}, &inner));
  expect_ok(ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = inner},
                                  &outer));
  // Words by what their examples' numbers come to.
  const ls_tensor all = ls_reduce_sum(call->features.as.tensor, LS_AXES(1));
  const ls_tensor ids =
      ls_convert(ls_mul_scalar(all, (WORDS - 1) / 6.0), LS_DTYPE_I32);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(dense, ls_embedding_layer_apply(table, ids)),
      call->labels.as.tensor);
  const ls_status status = ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op = ls_train_op(outer, loss)},
      out);
  ls_optimizer_release(inner);
  ls_optimizer_release(outer);
  ls_dense_layer_destroy(dense);
  ls_embedding_layer_destroy(table);
  return status;
}

TEST(embeddings_are_layers_on_every_path) {
  LS_SPEC("E202 E203 E204");
  for (int replicas = 1; replicas <= 3; replicas += 2) {
    LS_OWN(estimator_case, mirrored) = {.way = IN_STRATEGY,
                                        .replicas = replicas,
                                        .repeats = true,
                                        .folder = "embeds-mirrored",
                                        .more = {.model_fn = {.call = embed}}};
    LS_OWN(estimator_case, cores) = {.way = ON_TPU,
                                     .replicas = replicas,
                                     .repeats = true,
                                     .folder = "embeds-cores",
                                     .more = {.model_fn = {.call = embed}}};
    estimator_case_begin(&cores);
    estimator_case_begin(&mirrored);
    const ls_training_end a = estimator_case_train(&cores, 12);
    const ls_training_end b = estimator_case_train(&mirrored, 12);
    assert_true(a.loss == b.loss && a.loss < 1.2);
    estimator_cases_expect_equal(&cores, &mirrored, 0);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Two nets against each other: a generator learns to draw numbers that a judge
// cannot tell from those of a normal distribution around 4. Each has an
// optimizer of its own, and each step trains both.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { BATCH = 64, NOISE = 4, UNITS = 16, STEPS = 1500 };

typedef struct game {
  ls_dense_layer *generator[2], *judge[2];
  ls_optimizer *optimizers[2];
} game;

static ls_tensor apply(ls_dense_layer *const *layers, ls_tensor x) {
  return ls_dense_layer_apply(layers[1], ls_dense_layer_apply(layers[0], x));
}

// Makes a step of the weights of one net alone.
static void descend(ls_optimizer *optimizer, ls_dense_layer *const *layers,
                    ls_tensor loss) {
  ls_variable *variables[4];
  size_t count = ls_dense_layer_variables(layers[0], variables, 4);
  count += ls_dense_layer_variables(layers[1], variables + count, 4 - count);
  ls_optimizer_minimize_only(optimizer, loss, variables, count);
}

static ls_tensor says(ls_tensor logits, double target) {
  return ls_sigmoid_cross_entropy_loss(logits, ls_scalar(LS_DTYPE_F32, target),
                                       LS_REDUCTION_MEAN);
}

static ls_nest step(ls_nest args, void *user) {
  const game *g = user;
  (void)args;
  const ls_tensor noise =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(BATCH, NOISE), 0, 1, NULL);
  const ls_tensor real =
      ls_random_normal(LS_DTYPE_F32, LS_SHAPE(BATCH, 1), 4, 0.5, NULL);
  const ls_tensor drawn = apply(g->generator, noise);
  const ls_tensor is_drawn = apply(g->judge, drawn);
  const ls_tensor judge_loss =
      ls_add(says(apply(g->judge, real), 1), says(is_drawn, 0));
  descend(g->optimizers[0], g->generator, says(is_drawn, 1));
  descend(g->optimizers[1], g->judge, judge_loss);
  return ls_leaf(ls_reduce_mean(drawn, LS_ALL_AXES));
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  game g = {
      .generator = {ls_dense_layer_in(bag, .name = "generator/0",
                                      .inputs = NOISE, .units = UNITS,
                                      .activation = LS_ACTIVATION_RELU),
                    ls_dense_layer_in(bag, .name = "generator/1",
                                      .inputs = UNITS, .units = 1)},
      .judge = {ls_dense_layer_in(bag, .name = "judge/0", .inputs = 1,
                                  .units = UNITS,
                                  .activation = LS_ACTIVATION_RELU),
                ls_dense_layer_in(bag, .name = "judge/1", .inputs = UNITS,
                                  .units = 1)},
      .optimizers = {
          ls_adam_in(bag, .name = "generator/adam", .learning_rate = 0.003),
          ls_adam_in(bag, .name = "judge/adam", .learning_rate = 0.003)}};
  ls_function *function = ls_function_in(bag, .call = step, .user = &g);
  ls_nest *args = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, *args, loss));
    *(i == 0 ? first : last) = ls_nest_number(*loss);
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && fabs(last - 4) < 0.7;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}

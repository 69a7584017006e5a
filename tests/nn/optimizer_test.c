// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <math.h>
#include <stdio.h>

#include "lockstep/eager.h"
#include "lockstep/nn.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "nn/own.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// What a step of these tests knows.
typedef struct problem {
  ls_variable *w, *fixed, *unread;
  ls_optimizer *optimizer;
} problem;

static ls_variable *make(const char *name, double a, double b, ls_flag train) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(2), &array));
  ls_array_set_f64(array, 0, a);
  ls_array_set_f64(array, 1, b);
  expect_ok(ls_variable_create(&(ls_variable_options){.name = name,
                                                      .initial_array = array,
                                                      .trainable = train},
                               &variable));
  return variable;
}

static void begin(problem *p, const ls_sgd_options *options) {
  p->w = make("w", 3, -1, LS_FLAG_ON);
  p->fixed = make("fixed", 1, 1, LS_FLAG_OFF);
  p->unread = make("unread", 7, 7, LS_FLAG_ON);
  expect_ok(ls_sgd_create(options, &p->optimizer));
}

static void end(problem *p) {
  ls_variable_release(p->w);
  ls_variable_release(p->fixed);
  ls_variable_release(p->unread);
  ls_optimizer_release(p->optimizer);
}
LS_OWNED_STRUCT(problem, end)

static void expect_near(double got, double wanted) {
  if (fabs(got - wanted) <= 1e-12) return;
  fail_msg("got %.17g, wanted %.17g", got, wanted);
}

static void expect_values_of(ls_variable *variable, double a, double b) {
  LS_OWN(ls_array, array) = variable_array(variable);
  expect_near(ls_array_f64(array, 0), a);
  expect_near(ls_array_f64(array, 1), b);
}

// sum(fixed w^2): the gradient of w is 2 w.
static ls_tensor loss_of(const problem *p) {
  const ls_tensor terms =
      ls_mul(ls_square(ls_variable_read(p->w)), ls_variable_read(p->fixed));
  return ls_reduce_sum(terms, LS_ALL_AXES);
}

static ls_nest descend(ls_nest args, void *user) {
  (void)args;
  const problem *p = user;
  const ls_tensor loss = loss_of(p);
  ls_optimizer_minimize(p->optimizer, loss);
  return ls_leaf(loss);
}

// sum(w x): the gradient of w is x.
static ls_nest follow(ls_nest args, void *user) {
  problem *p = user;
  const ls_tensor loss = ls_reduce_sum(
      ls_mul(ls_variable_read(p->w), ls_nest_tensor(args, 0)), LS_ALL_AXES);
  ls_optimizer_minimize(p->optimizer, loss);
  return ls_leaf(loss);
}

static void run(problem *p, ls_callback callback, int times) {
  LS_OWN(ls_nest, results) = {0};
  LS_OWN(ls_function, function) = unnamed_function(callback, p);
  for (int i = 0; i < times; ++i)
    expect_ok(ls_function_call(function, ls_none(), &results));
}

TEST(sgd_moves_what_is_trained_and_read) {
  LS_OWN_BEGUN(problem, p, begin, &(ls_sgd_options){.learning_rate = 0.125});
  run(&p, descend, 1);
  expect_values_of(p.w, 3 - 0.125 * 6, -1 + 0.125 * 2);
  run(&p, descend, 1);
  expect_values_of(p.w, 3 * 0.75 * 0.75, -0.75 * 0.75);
  expect_values_of(p.fixed, 1, 1);
  expect_values_of(p.unread, 7, 7);
}

TEST(momentum_adds_up_gradients) {
  for (int nesterov = 0; nesterov < 2; ++nesterov) {
    LS_OWN_BEGUN(problem, p, begin,
                 &(ls_sgd_options){.learning_rate = 0.1,
                                   .momentum = 0.9,
                                   .nesterov = nesterov == 1});
    run(&p, descend, 4);
    double w = 3, v = 0;
    for (int i = 0; i < 4; ++i) {
      const double g = 2 * w;
      v = 0.9 * v + g;
      w -= 0.1 * (nesterov == 1 ? 0.9 * v + g : v);
    }
    expect_values_of(p.w, w, -w / 3);
  }
}

TEST(the_rate_falls_in_a_line) {
  LS_OWN_BEGUN(problem, p, begin,
               &(ls_sgd_options){.learning_rate = 0.25,
                                 .schedule = {LS_SCHEDULE_LINEAR, .steps = 4}});
  run(&p, descend, 6);  // The last two have a rate of 0.
  const double factor = 0.5 * 0.625 * 0.75 * 0.875;
  expect_values_of(p.w, 3 * factor, -factor);
}

TEST(replicas_move_by_the_mean_gradient) {
  LS_OWN_BEGUN(problem, p, begin, &(ls_sgd_options){.learning_rate = 0.5});
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_array, array) = NULL;
  ls_nest split;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(4)}, &strategy));
  LS_OWN(ls_function, function) = unnamed_function(follow, &p);
  // Replica r gets (r, 1).
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(4, 2), &array));
  for (int64_t r = 0; r < 4; ++r) {
    ls_array_set_f64(array, 2 * r, (double)r);
    ls_array_set_f64(array, 2 * r + 1, 1);
  }
  expect_ok(ls_strategy_split(strategy, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  LS_OWN(ls_nest, results) =
      strategy_results(strategy, ls_traced(function), args);
  expect_values_of(p.w, 3 - 0.5 * 1.5, -1 - 0.5 * 1);
}

TEST(a_session_fetches_the_training_op) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(problem, p) = {0};
  ls_op train = {0}, init = {0};
  {
    LS_GRAPH_SCOPE(graph);
    begin(&p, &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.5});
    train = ls_optimizer_minimize(
        p.optimizer,
        ls_reduce_sum(ls_square(ls_variable_read(p.w)), LS_ALL_AXES));
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(init));
  expect_ok(ls_session_run(session, ls_nest_op(train), NULL, 0, &results));
  expect_ok(ls_session_run(session, ls_nest_op(train), NULL, 0, &results));
  LS_OWN(ls_array, value) = session_array(session, p.w);
  // 3 - 0.1 6 = 2.4; 2.4 - 0.1 (0.5 6 + 4.8) = 1.62.
  expect_near(ls_array_f64(value, 0), 1.62);
}

TEST(eager_applies_the_gradients_of_a_tape) {
  LS_OWN_BEGUN(problem, p, begin, &(ls_sgd_options){.learning_rate = 0.125});
  expect_ok(ls_frame_begin());
  ls_tape *tape = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_nest loss = ls_leaf(loss_of(&p));
  expect_ok(ls_tape_end(tape));
  ls_variable *variables[2] = {p.unread, p.w};
  const ls_nest xs[2] = {ls_nest_variable(p.unread), ls_nest_variable(p.w)};
  ls_nest gradients[2] = {{0}};
  expect_ok(ls_tape_gradients(tape, loss, xs, 2, gradients));
  ls_tape_release(tape);
  ls_optimizer_apply(p.optimizer, variables, gradients, 2);
  for (size_t i = 0; i < 2; ++i) {
    ls_nest_release(xs[i]);
    ls_nest_release(gradients[i]);
  }
  expect_ok(ls_frame_end(NULL));
  expect_values_of(p.w, 3 - 0.125 * 6, -1 + 0.125 * 2);
  expect_values_of(p.unread, 7, 7);
}

TEST(eager_goes_down_a_tape_in_one_call) {
  LS_OWN_BEGUN(problem, p, begin, &(ls_sgd_options){.learning_rate = 0.125});
  expect_ok(ls_frame_begin());
  ls_tape *tape = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_tensor loss = loss_of(&p);
  expect_ok(ls_optimizer_minimize_tape(p.optimizer, tape, loss));
  ls_tape_release(tape);
  expect_values_of(p.w, 3 - 0.125 * 6, -1 + 0.125 * 2);
  expect_values_of(p.unread, 7, 7);
  // A loss that failed, and one that needs no variable.
  expect_ok(ls_tape_begin(&tape));
  expect_status(
      ls_optimizer_minimize_tape(p.optimizer, tape,
                                 ls_add(loss, ls_scalar(LS_DTYPE_I32, 1))),
      LS_INVALID_ARGUMENT, "i32");
  expect_status(
      ls_optimizer_minimize_tape(p.optimizer, tape, ls_scalar(LS_DTYPE_F64, 1)),
      LS_INVALID_ARGUMENT, "nothing to train");
  ls_tape_release(tape);
  expect_ok(ls_frame_end(NULL));
}

static bool is_w(const ls_variable *variable) {
  return ls_variable_name(variable)[0] == 'w';
}

TEST(decay_leaves_out_what_it_is_told_to) {
  for (int only_w = 0; only_w < 2; ++only_w) {
    LS_OWN_BEGUN(problem, p, begin,
                 &(ls_sgd_options){.learning_rate = 0.5,
                                   .weight_decay = 0.25,
                                   .decays = only_w == 1 ? is_w : NULL});
    ls_variable *variables[2] = {p.w, p.unread};
    expect_ok(ls_frame_begin());
    const ls_nest zero = ls_leaf(ls_fill(LS_DTYPE_F64, LS_SHAPE(2), 0));
    const ls_nest gradients[2] = {zero, zero};
    ls_optimizer_apply(p.optimizer, variables, gradients, 2);
    expect_ok(ls_frame_end(NULL));
    expect_values_of(p.w, 3 * 0.875, -0.875);
    if (only_w == 1)
      expect_values_of(p.unread, 7, 7);
    else
      expect_values_of(p.unread, 7 * 0.875, 7 * 0.875);
  }
}

static void keep_warning(void *user, const ls_log_line *line) {
  if (line->level == LS_LOG_WARNING) snprintf(user, 300, "%s", line->text);
}

TEST(what_there_is_to_save_can_be_made_before_the_first_step) {
  char warning[300] = "";
  LS_OWN(counted, runtime) = counted_begin_with(
      (ls_runtime_options){.log = keep_warning, .log_user = warning});
  LS_OWN_BEGUN(problem, p, begin, NULL);
  // SGD has none.
  assert_int_equal(ls_optimizer_variables(p.optimizer, NULL, 0), 0);
  assert_string_equal(warning, "");
  LS_OWN(ls_optimizer, adam) = NULL;
  expect_ok(ls_adam_create(&(ls_adam_options){.name = "second"}, &adam));
  ls_variable *variables[2] = {p.w, p.unread}, *saved[8] = {NULL};
  assert_int_equal(ls_optimizer_variables(adam, saved, 8), 0);
  expect_contains(warning, "optimizer 'second' has no variables yet");
  warning[0] = '\0';
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_optimizer_prepare(adam, variables, 2));
    assert_int_equal(ls_optimizer_variables(adam, saved, 8), 5);
  }
  static const char *const names[] = {"second/step", "w/m", "w/v", "unread/m",
                                      "unread/v"};
  for (int i = 0; i < 5; ++i)
    assert_string_equal(ls_variable_name(saved[i]), names[i]);
  expect_values_of(saved[1], 0, 0);
  assert_string_equal(warning, "");
}

MEMORY_TEST(make_and_apply) {
  LS_OWN(ls_variable, w) = NULL;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_status status = ls_variable_create(
      &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &w);
  if (ls_status_is_ok(status)) status = ls_adam_create(NULL, &optimizer);
  if (ls_status_is_ok(status)) {
    const ls_nest gradient = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
    const ls_op op = ls_optimizer_apply(optimizer, &w, &gradient, 1);
    status = ls_tensor_status(ls_op_output(op, 0));
  }
  ls_status_free(ls_frame_end(NULL));
  return status;
}

// ---- What is refused -------------------------------------------------------
static ls_nest train_nothing(ls_nest args, void *user) {
  (void)args;
  const problem *p = user;
  ls_optimizer_minimize(p->optimizer,
                        ls_reduce_sum(ls_variable_read(p->fixed), LS_ALL_AXES));
  return ls_none();
}

static ls_nest train_a_vector(ls_nest args, void *user) {
  (void)args;
  const problem *p = user;
  ls_optimizer_minimize(p->optimizer, ls_variable_read(p->w));
  return ls_none();
}

static void expect_refused(problem *p, ls_callback callback, const char *part) {
  LS_OWN(ls_nest, results) = {0};
  LS_OWN(ls_function, function) = unnamed_function(callback, p);
  expect_status(ls_function_call(function, ls_none(), &results),
                LS_INVALID_ARGUMENT, part);
}

TEST(a_loss_that_trains_nothing_is_refused) {
  LS_OWN_BEGUN(problem, p, begin, NULL);
  expect_refused(&p, train_nothing, "no trainable variable is read");
  expect_refused(&p, train_a_vector,
                 "a loss must be a float scalar, got f64[2]");
  expect_values_of(p.w, 3, -1);
}

static ls_nest apply_a_scalar(ls_nest args, void *user) {
  (void)args;
  problem *p = user;
  const ls_nest gradient = ls_leaf(ls_scalar(LS_DTYPE_F64, 2));
  ls_optimizer_apply(p->optimizer, &p->w, &gradient, 1);
  return ls_none();
}

TEST(a_gradient_that_would_broadcast_is_refused) {
  LS_OWN_BEGUN(problem, p, begin, NULL);
  expect_refused(&p, apply_a_scalar,
                 "the gradient of variable 'w' is f64[], the variable f64[2]");
  expect_values_of(p.w, 3, -1);
}

TEST(options_that_cannot_be_are_refused) {
  ls_optimizer *optimizer = NULL;
  const ls_sgd_options bad[] = {{.learning_rate = -1},
                                {.learning_rate = (double)NAN},
                                {.momentum = -0.5},
                                {.nesterov = true},
                                {.weight_decay = -1},
                                {.clip = {.value = -1}},
                                {.clip = {.norm = (double)INFINITY}},
                                {.clip = {.global_norm = (double)NAN}}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
    expect_status(ls_sgd_create(&bad[i], &optimizer), LS_INVALID_ARGUMENT,
                  "sgd");
    assert_null(optimizer);
  }
  expect_status(ls_adam_create(&(ls_adam_options){.beta2 = 1}, &optimizer),
                LS_INVALID_ARGUMENT,
                "adam: the beta2 must be 0 or more and below 1, got 1");
  expect_status(ls_lion_create(&(ls_lion_options){.beta1 = 2}, &optimizer),
                LS_INVALID_ARGUMENT, "lion: the beta1");
  expect_status(
      ls_rmsprop_create(&(ls_rmsprop_options){.decay = -1}, &optimizer),
      LS_INVALID_ARGUMENT, "rmsprop: the decay");
  expect_status(
      ls_adagrad_create(&(ls_adagrad_options){.initial = -1}, &optimizer),
      LS_INVALID_ARGUMENT, "adagrad: the initial sum");
  assert_null(optimizer);
}

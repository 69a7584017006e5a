// SPDX-License-Identifier: Apache-2.0
//
// Outside compiled clusters that write variables of the host: once for each
// replica, in their order, wherever they stand; and what their ops are told.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/training_loop.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"

typedef struct job {
  ls_variable *v;
  ls_nest (*body)(ls_nest args, void *user);
  ls_tensor x;
} job;

static void open_job(computation *c, job *j, size_t replicas, ls_callback fn) {
  computation_open(c);
  expect_ok(ls_variable_create(&(ls_variable_options){.name = "v",
                                                      .dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR},
                               &j->v));
  computation_replicate(c, replicas, fn, j);
  computation_initialize(c, j->v);
}

static double value_of(const computation *c, const job *j) {
  LS_OWN(ls_array, value) = session_array(c->session, j->v);
  return ls_array_f64(value, 0);
}

static void close_job(computation *c, job *j) {
  computation_close(c);
  ls_variable_release(j->v);
}

// ---- Where it stands -------------------------------------------------------
static ls_nest add_four(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  return ls_leaf(ls_variable_assign_add(j->v, f32_of(4)));
}

// 2 v + x of the replica.
static ls_nest fold(ls_nest args, void *user) {
  const job *j = user;
  const ls_tensor v = ls_variable_read(j->v);
  return ls_leaf(
      ls_variable_assign(j->v, ls_add(ls_add(v, v), args.as.tensor)));
}

static ls_nest write_in(job *j, ls_tensor x) {
  return ls_outside_compilation(j->body, j, ls_leaf(x));
}

static ls_nest at_top(ls_nest args, void *user) {
  return LS_LIST(write_in(user, ls_nest_tensor(args, 0)));
}

static ls_nest in_trip(ls_nest args, void *user) {
  return LS_LIST(write_in(user, ls_nest_tensor(args, 0)));
}

static ls_nest in_repeat(ls_nest args, void *user) {
  const ls_training_loop loop = {.body = in_trip, .user = user};
  ls_nest made = ls_none();
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
  expect_ok(ls_training_repeat(1, &loop, inputs, &made));
  return made;
}

static ls_nest yes(ls_nest none, void *user) {
  job *j = user;
  (void)none;
  return write_in(j, j->x);
}

static ls_nest no(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_neg(((const job *)user)->x));
}

// All but replica 0 take it.
static ls_nest in_branch(ls_nest args, void *user) {
  job *j = user;
  j->x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_cond(ls_greater(j->x, f32_of(1.5)), yes, no, j));
}

static ls_nest below(ls_nest values, void *user) {
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), ((const job *)user)->x));
}

static ls_nest count_and_write(ls_nest values, void *user) {
  job *j = user;
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 write_in(j, j->x));
}

// Replica r makes r + 1 trips.
static ls_nest in_loop(ls_nest args, void *user) {
  job *j = user;
  j->x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) =
      ls_while(below, count_and_write, j,
               LS_LIST(ls_leaf(f32_of(0)), ls_leaf(f32_of(0))), 0);
  return LS_LIST(ls_nest_retain(ls_nest_item(made, 1)));
}

TEST(each_replica_writes_wherever_it_stands) {
  LS_SPEC("O43 O68 O77 O78 O90");
  static const struct {
    ls_callback place, body;
    size_t replicas;
    double value;      // Of the variable.
    double result[3];  // Of each replica.
  } rows[] = {
      {at_top, add_four, 2, 8, {4, 8}},
      {in_repeat, add_four, 2, 8, {4, 8}},
      {in_repeat, fold, 3, 11, {1, 4, 11}},
      {in_branch, add_four, 3, 8, {-1, 4, 8}},
      {in_branch, fold, 3, 7, {-1, 2, 7}},
      // Trips of replicas 0, 1, 2; 1, 2; 2.
      {in_loop, add_four, 3, 24, {4, 16, 24}},
      {in_loop, fold, 3, 105, {1, 24, 105}},
      {in_loop, fold, 1, 1, {1}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    computation c;
    job j = {.body = rows[i].body};
    open_job(&c, &j, rows[i].replicas, rows[i].place);
    LS_OWN(ls_nest, results) = session_results(c.session, c.outputs);
    assert_true(value_of(&c, &j) == rows[i].value);
    for (size_t r = 0; r < rows[i].replicas; ++r)
      assert_true(ls_nest_number(ls_nest_item(ls_nest_item(results, r), 0)) ==
                  rows[i].result[r]);
    close_job(&c, &j);
  }
}

// ---- What its ops are told -------------------------------------------------
static int told[8], fail_on;

static ls_status like_input(const ls_object *self, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)self, (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

static ls_status note(ls_host_call *call) {
  if (call->replica == fail_on)
    return LS_STATUS(LS_DATA_LOSS, "the host has lost it");
  ++told[call->replica];
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel note_kernel = {
    .name = "note", .infer = like_input, .start = note};

static ls_nest note_and_write(ls_nest args, void *user) {
  const job *j = user;
  const ls_tensor x = args.as.tensor;
  const ls_op op = ls_host_call_add(&note_kernel, NULL, &x, 1);
  return ls_leaf(ls_variable_assign_add(j->v, ls_op_output(op, 0)));
}

TEST(host_code_is_told_its_replica) {
  LS_SPEC("O67 O68 O88");
  const ls_callback places[] = {at_top, in_repeat, in_loop};
  for (size_t i = 0; i < LS_COUNT_OF(places); ++i) {
    computation c;
    job j = {.body = note_and_write};
    open_job(&c, &j, 3, places[i]);
    memset(told, 0, sizeof(told));
    fail_on = 2;
    const ls_status status = computation_run(&c, c.outputs);
    assert_non_null(strstr(ls_status_message(status), "note"));
    assert_non_null(strstr(ls_status_message(status), "replica 2"));
    expect_status(status, LS_DATA_LOSS, "the host has lost it");
    fail_on = -1;
    memset(told, 0, sizeof(told));
    expect_ok(computation_run(&c, c.outputs));
    for (int r = 0; r < 3; ++r)
      assert_int_equal(told[r], places[i] == in_loop ? r + 1 : 1);
    close_job(&c, &j);
  }
}

static ls_nest write_id(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  const ls_tensor id = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  (void)ls_variable_assign_add(j->v, id);
  return ls_leaf(id);
}

TEST(it_knows_its_replicas_id) {
  LS_SPEC("O68");
  const ls_callback places[] = {at_top, in_repeat};
  for (size_t i = 0; i < LS_COUNT_OF(places); ++i) {
    computation c;
    job j = {.body = write_id};
    open_job(&c, &j, 3, places[i]);
    for (size_t r = 0; r < 3; ++r)
      assert_true(computation_output(&c, r, 0) == (double)r);
    assert_true(value_of(&c, &j) == 3 * (0 + 1 + 2));
    close_job(&c, &j);
  }
}

static ls_nest draw(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  const ls_tensor drawn = ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1,
                                            &(ls_random_options){.seed = 7});
  if (j->x.ref == 0) (void)ls_variable_assign(j->v, drawn);
  return ls_leaf(drawn);
}

// The variable is the host's in both programs.
static ls_nest draw_beside(ls_nest args, void *user) {
  job *j = user;
  j->x = ls_nest_tensor(args, 0);
  return LS_LIST(write_in(j, j->x));
}

static ls_nest draw_and_write(ls_nest args, void *user) {
  job *j = user;
  j->x = ls_failed_tensor();
  return LS_LIST(write_in(j, ls_nest_tensor(args, 0)));
}

TEST(each_replica_draws_as_it_does_without_writing) {
  LS_SPEC("O66");
  double drawn[2][3];
  const ls_callback ways[] = {draw_beside, draw_and_write};
  for (size_t i = 0; i < 2; ++i) {
    computation c;
    job j = {.body = draw};
    open_job(&c, &j, 3, ways[i]);
    LS_OWN(ls_nest, results) = session_results(c.session, c.outputs);
    for (size_t r = 0; r < 3; ++r)
      drawn[i][r] = ls_nest_number(ls_nest_item(ls_nest_item(results, r), 0));
    if (i == 1) assert_true(value_of(&c, &j) == drawn[1][2]);
    close_job(&c, &j);
  }
  assert_memory_equal(drawn[0], drawn[1], sizeof(drawn[0]));
  assert_true(drawn[0][0] != drawn[0][1] && drawn[0][1] != drawn[0][2]);
}

// ---- In a circle with compiled ops -----------------------------------------
static ls_nest forward(ls_nest inputs, void *user) {
  (void)user;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(inputs, 0), 2));
}

// Its gradient is also added to the variable.
static ls_nest backward(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                        void *user) {
  const job *j = user;
  (void)inputs, (void)outputs;
  const ls_tensor dx = ls_mul_scalar(ls_nest_tensor(gradients, 0), 2);
  (void)ls_variable_assign_add(j->v, dx);
  return LS_LIST(ls_leaf(dx));
}

// 2 a u.
static ls_nest twice_product(ls_nest args, void *user) {
  LS_OWN(ls_nest, twice) = ls_custom_gradient(
      forward, backward, user, LS_LIST(ls_nest_retain(ls_nest_item(args, 0))));
  const ls_tensor made =
      ls_mul(ls_nest_tensor(twice, 0), ls_nest_tensor(args, 1));
  return ls_leaf(made);
}

// y = 2 a (3 a), of which a and 3 a are compiled: the gradient's cluster adds
// up the terms of a, one of which comes of the cluster.
static ls_nest circle(ls_nest args, void *user) {
  job *j = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor a = ls_mul_scalar(x, 1);
  LS_OWN(ls_nest, pair) = LS_LIST(ls_leaf(a), ls_leaf(ls_mul_scalar(a, 3)));
  const ls_nest y = ls_outside_compilation(twice_product, j, pair);
  const ls_nest xs = ls_leaf(x);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(
      &y, 1, &xs, 1, &(ls_gradient_options){.colocate_with_ops = true}, &made));
  return LS_LIST(made);
}

TEST(a_gradients_cluster_may_need_what_comes_of_itself) {
  LS_SPEC("O75");
  computation c;
  job j = {0};
  open_job(&c, &j, 2, circle);
  // 12 x; and, of each replica, 2 u is added, with u = 3 x.
  assert_true(computation_output(&c, 0, 0) == 12);
  assert_true(value_of(&c, &j) == 6 + 12);
  assert_true(computation_output(&c, 1, 0) == 24);
  close_job(&c, &j);
}

// ---- What cannot be --------------------------------------------------------
static ls_nest write_and_sum(ls_nest none, void *user) {
  job *j = user;
  (void)none;
  ls_nest_release(write_in(j, j->x));
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, j->x));
}

static ls_nest sum_in_branch(ls_nest args, void *user) {
  job *j = user;
  j->x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_cond(ls_greater(j->x, f32_of(1.5)), write_and_sum, no, j));
}

TEST(what_replicas_put_together_they_must_come_to) {
  LS_SPEC("O76");
  computation c;
  job j = {.body = fold};
  open_job(&c, &j, 2, sum_in_branch);
  expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                "make the condition the same on all");
  close_job(&c, &j);
}

// SPDX-License-Identifier: Apache-2.0
//
// Gradients of loops in the trips of a training loop: stacks are made and used
// inside of a trip, on each replica, whatever stands beside them.
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/host.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/callbacks.h"
#include "support/pod_runs.h"
#include "support/tpu_steps.h"

enum { REPLICAS = 2, TRIPS = 2 };

// ---- A loop whose gradient is taken ----------------------------------------
typedef struct inner_loop {
  ls_tensor x;
  int kind;
} inner_loop;

static ls_tensor mean_of(ls_tensor x) { return ls_reduce_mean(x, LS_ALL_AXES); }

static ls_nest second_below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 1), f32_of(3)));
}

static ls_nest change(ls_nest values, void *user) {
  const inner_loop *l = user;
  ls_tensor z = ls_nest_tensor(values, 0);
  switch (l->kind) {
  case 0:
    z = ls_mul(z, ls_tanh(z));
    break;
  case 1:
    z = ls_add(ls_mul(z, z), mean_of(ls_tanh(z)));
    break;
  case 2:
    z = ls_mul(z, ls_exp(mean_of(z)));
    break;
  default:
    z = ls_sub(z, ls_mul(mean_of(z), mean_of(ls_exp(z))));
    break;
  }
  return LS_LIST(ls_leaf(ls_add(z, l->x)),
                 ls_leaf(ls_add_scalar(ls_nest_tensor(values, 1), 1)));
}

// The mean of `size` elements that start from x and go round.
static ls_tensor loop_of(ls_tensor x, int kind, int64_t size,
                         int64_t max_trips) {
  inner_loop l = {x, kind};
  const ls_tensor start = ls_add(ls_fill(LS_DTYPE_F32, LS_SHAPE(size), 0.1), x);
  LS_OWN(ls_nest, made) =
      ls_while(second_below_three, change, &l,
               LS_LIST(ls_leaf(start), ls_leaf(f32_of(0))), max_trips);
  return mean_of(ls_nest_tensor(made, 0));
}

static ls_tensor slope(ls_tensor y, ls_tensor x) {
  const ls_nest ys = ls_leaf(y), xs = ls_leaf(x);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1, NULL, &made));
  return made.as.tensor;
}

// ---- A variable that is one for all ----------------------------------------
typedef struct job {
  ls_infeed_queue *queue;
  ls_variable *count;
  int64_t max_trips;
  bool has_call;  // A function is called between the loop and its gradient.
} job;

static ls_status start_copy(ls_host_call *call) {
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel copy_kernel = {
    .name = "copy", .infer = infer_like_first, .start = start_copy};

static ls_nest call_copy(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(ls_op_output(ls_host_call_add(&copy_kernel, NULL, &x, 1), 0));
}

static ls_nest counted_trip(ls_nest args, void *user) {
  const job *j = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 1), LS_SCALAR);
  ls_tensor y = loop_of(x, 1, 5, j->max_trips);
  if (j->has_call) {
    const ls_nest copy = ls_outside_compilation(call_copy, NULL, ls_leaf(y));
    y = ls_mul(y, ls_stop_gradient(copy.as.tensor));
  }
  ls_variable_assign_add(j->count, f32_of(1));
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(args, 0),
                                ls_all_reduce(LS_REDUCE_SUM, slope(y, x)))));
}

static ls_nest counted_loop(ls_nest args, void *user) {
  job *j = user;
  (void)args;
  const ls_training_loop loop = {
      .body = counted_trip, .user = j, .infeed = j->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(f32_of(0)));
  ls_nest outputs = ls_none();
  const ls_status status = ls_training_repeat(TRIPS, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest build_counted_loop(job *j) {
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(REPLICAS);
  ls_nest outputs = ls_none();
  ls_array *zero = array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){0});
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "count", .initial_array = zero},
      &j->count));
  ls_array_release(zero);
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &j->queue));
  LS_OWN(ls_nest, inputs) = computation_inputs(REPLICAS);
  expect_ok(ls_replicate(counted_loop, j, inputs, NULL, &outputs));
  return outputs;
}

TEST(a_count_beside_a_gradient_of_a_loop_is_one_for_all) {
  LS_SPEC("O194 O168");
  for (int way = 0; way < 4; ++way) {
    LS_OWN(pod_runs, f) = pod_runs_begin(
        1, REPLICAS, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
    job j = {.max_trips = way % 2 == 0 ? 0 : 3, .has_call = way >= 2};
    ls_nest items[TRIPS * REPLICAS + 1];
    size_t count = 0;
    {
      LS_GRAPH_SCOPE(f.graph);
      items[count++] = build_counted_loop(&j);
      for (int k = 0; k < TRIPS * REPLICAS; ++k)
        items[count++] = ls_nest_op(put_tensor(
            0, k % REPLICAS, ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 0.1 * k)));
      pod_runs_do(&f, ls_nest_op(ls_variable_initializer(j.count)));
    }
    pod_runs_do(&f, ls_nest_sequence(LS_KIND_LIST, items, count));
    {
      LS_GRAPH_SCOPE(f.graph);
      pod_runs_do(&f, ls_leaf(ls_variable_read(j.count)));
    }
    assert_true(pod_runs_number(&f, 0) == TRIPS);
    ls_infeed_queue_release(j.queue);
    ls_variable_release(j.count);
  }
}

// ---- What is lowered more than once ----------------------------------------
// Each replica's own variable makes the computation be lowered a second time.
static ls_nest own_trip(ls_nest args, void *user) {
  tpu_step *w = user;
  const ls_tensor x = ls_nest_tensor(args, 1);
  ls_tensor y = x;
  for (int k = rand() % 3; k >= 0; --k)
    y = loop_of(y, rand() % 4, 1 + rand() % 200, 0);
  ls_variable_assign_add(w->v, slope(y, x));
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(args, 0), y)), ls_leaf(x));
}

static ls_nest own_loop(ls_nest args, void *user) {
  const ls_training_loop loop = {.body = own_trip, .user = user};
  LS_OWN(ls_nest, inputs) =
      LS_LIST(ls_leaf(f32_of(0)), ls_leaf(tpu_step_argument(args)));
  ls_nest outputs = ls_none();
  const ls_status status = ls_training_repeat(TRIPS, &loop, inputs, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest sum = ls_nest_retain(ls_nest_item(outputs, 0));
  ls_nest_release(outputs);
  return sum;
}

// Stacks of different sizes, in graphs that lie where others have lain.
TEST(stacks_are_not_mixed_up_with_those_of_an_earlier_lowering) {
  enum { FIRST = 19, PROGRAMS = 12 };
  for (unsigned seed = FIRST; seed < FIRST + PROGRAMS; ++seed) {
    srand(seed);
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, seed % 2 == 1, REPLICAS,
                 (variable_kind){
                     .synchronization = LS_SYNCHRONIZATION_ON_READ,
                     .aggregation = LS_AGGREGATION_SUM,
                 });
    expect_ok(tpu_step_run(&w, own_loop));
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// Programs that train, while tensors are traced.
#include <string.h>

#include "base/memory/own.h"
#include "graph/graph.h"
#include "support/linear_model.h"

typedef struct job {
  linear_model m;
  bool is_bad;  // A tensor on the way to the loss is infinite.
} job;

static ls_nest any_call(ls_nest tensors, void *user) {
  (void)user;
  return ls_nest_retain(tensors);
}

// The same loss in any case.
static ls_tensor loss_of(const job *j, const ls_model_call *call) {
  const ls_tensor loss = linear_model_loss(&j->m, call);
  if (!j->is_bad) return loss;
  const ls_tensor row = ls_reshape(loss, LS_SHAPE(1));
  const ls_tensor infinite =
      ls_div(ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1), ls_sub(row, row));
  const ls_tensor one =
      ls_minimum(infinite, ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1));
  return ls_mul(loss, ls_reshape(ls_stop_gradient(one), LS_SCALAR));
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out_spec) {
  const job *j = user;
  const ls_tensor loss = loss_of(j, call);
  LS_OWN(ls_nest, told) = LS_LIST(call->labels);
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op =
                                       ls_train_op(j->m.optimizer, loss),
                                   .host_call = {any_call, NULL, told, {0}}},
      out_spec);
}

static void begin(programs *p, job *j, ls_estimator_mode mode, int replicas,
                  const char *flags) {
  linear_program_begin(p, &j->m,
                       (programs_options){.mode = mode,
                                          .replicas = replicas,
                                          .model = model,
                                          .user = j,
                                          .tracer_flags = flags});
}

static void end(programs *p, job *j) {
  linear_model_drop(&j->m);
  programs_end(p);
}

// The loss of the last of so many steps; counts warnings.
static double train(programs *p, int steps) {
  for (int k = 0; k < steps; ++k)
    programs_put_all(p, k);
  programs_set_steps(p, steps);
  programs_run(p,
               LS_LIST(ls_leaf(p->program.loss), ls_nest_op(p->program.run)));
  return programs_number(p, 0);
}

// ---- Order -----------------------------------------------------------------
enum { MOST_OPS = 4096 };
typedef struct found_ops {
  ls_op items[8];
  size_t count;
} found_ops;

// Ops whose names contain this, at any depth.
static void find(ls_graph *graph, const char *name, found_ops *out) {
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    if (strstr(ls_op_name(op), name) != NULL) {
      assert_true(out->count < LS_COUNT_OF(out->items));
      out->items[out->count++] = op;
    }
    const ls_node *node = ls_graph_node(graph, op.id);
    for (uint32_t k = 0; k < node->num_regions; ++k)
      find(node->regions[k], name, out);
  }
}

// Whether `op` waits for the other one, in their graph.
static bool waits_for(ls_op op, ls_op other) {
  static ls_op left[MOST_OPS], seen[MOST_OPS];
  size_t num_left = 1, num_seen = 0;
  left[0] = op;
  while (num_left > 0) {
    const ls_op at = left[--num_left];
    bool again = at.graph != op.graph;
    for (size_t i = 0; i < num_seen && !again; ++i)
      again = seen[i].id == at.id;
    if (again) continue;
    if (at.id == other.id) return true;
    assert_true(num_seen < MOST_OPS);
    seen[num_seen++] = at;
    for (size_t i = 0; i < ls_op_num_inputs(at); ++i)
      left[num_left++] = ls_tensor_op(ls_op_input(at, i));
    for (size_t i = 0; i < ls_op_num_control_inputs(at); ++i)
      left[num_left++] = ls_op_control_input(at, i);
    assert_true(num_left + 64 < MOST_OPS);
  }
  return false;
}

TEST(tracing_comes_before_hosts_hear_of_the_step) {
  LS_SPEC("E132 E201");
  for (int traces = 0; traces < 2; ++traces) {
    programs p;
    job j = {.is_bad = false};
    begin(&p, &j, LS_MODE_TRAIN, 3, traces ? "--enable" : NULL);
    found_ops lines = {.count = 0}, told = {.count = 0}, loss = {.count = 0};
    find(p.graph, "/tensor_trace", &lines);
    find(p.graph, "traced_loss", &loss);
    find(p.graph, "outfeed_enqueue_tuple", &told);
    assert_int_equal(told.count, 1);
    assert_int_equal(lines.count, traces);
    assert_int_equal(loss.count, traces);
    if (traces) {
      assert_ptr_equal(told.items[0].graph, lines.items[0].graph);
      assert_true(waits_for(told.items[0], lines.items[0]));
      assert_true(waits_for(loss.items[0], lines.items[0]));
      assert_false(waits_for(lines.items[0], told.items[0]));
    }
    end(&p, &j);
  }
}

// ---- Lines -----------------------------------------------------------------
TEST(each_step_of_each_replica_is_traced) {
  LS_SPEC("E201");
  static const int counts[] = {1, 3, 8};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    double losses[2];
    for (int traces = 0; traces < 2; ++traces) {
      programs p;
      job j = {.is_bad = true};
      begin(&p, &j, LS_MODE_TRAIN, counts[i], traces ? "--enable" : NULL);
      p.warnings = 0;
      losses[traces] = train(&p, 2);
      // What is infinite is a warning.
      assert_int_equal(p.warnings, traces ? 2 * counts[i] : 0);
      if (traces) expect_contains(p.last_warning, "' nan-inf = 1");
      end(&p, &j);
    }
    assert_true(losses[0] == losses[1]);
  }
}

TEST(other_modes_are_not_traced) {
  programs p;
  job j = {.is_bad = true};
  begin(&p, &j, LS_MODE_EVAL, 1, "--enable");
  found_ops lines = {.count = 0};
  find(p.graph, "tensor_tracer", &lines);
  assert_int_equal(lines.count, 0);
  end(&p, &j);
}

TEST(bad_flags_are_refused) {
  LS_SPEC("E201");
  programs p;
  job j = {.is_bad = false};
  programs_begin(
      &p, (programs_options){.mode = LS_MODE_TRAIN,
                             .replicas = 1,
                             .model = model,
                             .user = &j,
                             .tracer_flags = "--enable --trace_mode=most"});
  {
    LS_GRAPH_SCOPE(p.graph);
    linear_model_make(&j.m, true);
  }
  expect_status(programs_try(&p), LS_INVALID_ARGUMENT,
                "there is no trace_mode 'most'; the modes are nan-inf");
  end(&p, &j);
}

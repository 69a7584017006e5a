// SPDX-License-Identifier: Apache-2.0
//
// What is made for a scaffold, beside a program.
#include <string.h>

#include "estimator/spec/calls.h"
#include "lockstep/replicate.h"
#include "support/linear_model.h"

typedef enum what {
  NOTHING,
  ON_HOST,         // An op on a variable.
  OF_RESULT,       // An op on what the program gives.
  INSIDE_LOOP,     // An op on what a step has made.
  INSIDE_PROGRAM,  // An op on what stands beside the loop.
  FAILS,
} what;

typedef struct job {
  linear_model m;
  programs *p;
  what does;
  int calls;
  ls_tensor inside;  // Of a step.
} job;

static ls_tensor replicated(const job *j) {
  for (size_t i = 0; i < ls_graph_num_ops(j->p->graph); ++i) {
    const ls_op op = ls_graph_op(j->p->graph, i);
    if (ls_op_is_replicated(op) && ls_op_num_outputs(op) > 0)
      return ls_op_output(op, 0);
  }
  return ls_failed_tensor();
}

static ls_tensor used(const job *j) {
  switch (j->does) {
  case ON_HOST:
    return ls_variable_read(j->m.w);
  case OF_RESULT:
    return j->p->program.loss;
  case INSIDE_LOOP:
    return j->inside;
  default:
    return replicated(j);
  }
}

static ls_status scaffold_of(void *user, ls_scaffold *scaffold) {
  job *j = user;
  ++j->calls;
  if (j->does == FAILS) return LS_STATUS(LS_ABORTED, "out of coffee");
  if (j->does == NOTHING) return ls_ok();
  scaffold->local_init_op = ls_tensor_op(ls_neg(used(j)));
  return ls_ok();
}

static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  job *j = user;
  const ls_tensor loss = linear_model_loss(&j->m, call);
  j->inside = loss;
  assert_int_equal(j->calls, 0);
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op =
                                       ls_train_op(j->m.optimizer, loss),
                                   .scaffold_fn = scaffold_of,
                                   .scaffold_user = j},
      out_spec);
}

static void begin(programs *p, job *j, what does) {
  *j = (job){.p = p, .does = does};
  programs_begin(p, (programs_options){.mode = LS_MODE_TRAIN,
                                       .replicas = 3,
                                       .model = model_of,
                                       .user = j});
  {
    LS_GRAPH_SCOPE(p->graph);
    linear_model_make(&j->m, true);
  }
  expect_ok(programs_try(p));
}

static void end(programs *p, job *j) {
  linear_model_drop(&j->m);
  programs_end(p);
}

// The scope that was around holds again.
static void expect_restored(const job *j) {
  LS_GRAPH_SCOPE(j->p->graph);
  const ls_op op = ls_tensor_op(ls_neg(replicated(j)));
  assert_false(ls_op_is_failed(op));
}

TEST(a_scaffold_is_made_on_the_host_behind_the_program) {
  LS_SPEC("E161");
  for (what does = NOTHING; does <= OF_RESULT; ++does) {
    programs p;
    job j;
    ls_scaffold scaffold;
    begin(&p, &j, does);
    assert_int_equal(j.calls, 0);
    expect_ok(ls_program_scaffold(p.program.spec, p.graph, &scaffold));
    assert_int_equal(j.calls, 1);
    assert_int_equal(scaffold.local_init_op.id != 0, does != NOTHING);
    if (does != NOTHING)
      assert_false(ls_op_is_replicated(scaffold.local_init_op));
    end(&p, &j);
  }
}

TEST(a_scaffold_cannot_use_what_is_inside_of_the_program) {
  LS_SPEC("E161");
  static const what all[] = {INSIDE_LOOP, INSIDE_PROGRAM};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    for (int k = 0; k < 3; ++k) {
      programs p;
      job j;
      ls_scaffold scaffold;
      begin(&p, &j, all[i]);
      const ls_tensor used_there =
          all[i] == INSIDE_LOOP ? j.inside : replicated(&j);
      const char *const says[] = {"Inside scaffold_fn", "'neg'",
                                  ls_tensor_name(used_there)};
      expect_status(ls_program_scaffold(p.program.spec, p.graph, &scaffold),
                    LS_INVALID_ARGUMENT, says[k]);
      expect_restored(&j);
      end(&p, &j);
    }
}

TEST(a_scaffold_that_fails_leaves_its_scope) {
  LS_SPEC("E161");
  programs p;
  job j;
  ls_scaffold scaffold;
  begin(&p, &j, FAILS);
  expect_status(ls_program_scaffold(p.program.spec, p.graph, &scaffold),
                LS_ABORTED, "out of coffee");
  expect_restored(&j);
  end(&p, &j);
}

TEST(finalizing_is_held_to_the_same) {
  LS_SPEC("E161");
  programs p;
  job j;
  begin(&p, &j, NOTHING);
  {
    LS_GRAPH_SCOPE(p.graph);
    LS_SCOPE_BLOCK_(scope);
    ls_scaffold_scope_begin(&scope, LS_IN_SCAFFOLD_FINALIZE);
    LS_NAME_SCOPE("made");
    assert_true(ls_op_is_failed(ls_tensor_op(ls_neg(j.inside))));
    expect_status(ls_graph_take_error(p.graph), LS_INVALID_ARGUMENT,
                  "Inside Scaffold.finalize");
  }
  expect_restored(&j);
  // Defaults use nothing of the program.
  ls_scaffold scaffold = {0};
  expect_ok(ls_program_finalize(&scaffold, p.graph));
  assert_true(scaffold.finalized);
  assert_true(ls_graph_is_frozen(p.graph));
  // A failure leaves its scope, too.
  end(&p, &j);
  begin(&p, &j, NOTHING);
  const ls_nest op = ls_nest_op(ls_graph_op(p.graph, 0));
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_graph_add_to_collection(
        p.graph, LS_COLLECTION_INIT_OP,
        i == 0 ? op : ls_nest_op(ls_graph_op(p.graph, 1))));
  scaffold = (ls_scaffold){0};
  expect_status(ls_program_finalize(&scaffold, p.graph), LS_FAILED_PRECONDITION,
                LS_COLLECTION_INIT_OP);
  expect_restored(&j);
  end(&p, &j);
}

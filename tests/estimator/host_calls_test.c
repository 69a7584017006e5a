// SPDX-License-Identifier: Apache-2.0
//
// What steps say to their hosts: tuples, and functions that are called with
// them.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/metrics.h"
#include "support/function.h"
#include "support/linear_model.h"

static const int counts[] = {1, 3, 8};

typedef enum what { NOTHING, ROWS, SCALAR, FAILS } what;

typedef struct job {
  linear_model m;
  what tells;
  char device[LS_MAX_DEVICE_NAME];  // Of what the function has made,
  int calls;                        // and how often it was called.
  ls_shape shape;                   // Of what it was given.
} job;

static ls_nest hear(ls_nest tensors, void *user) {
  job *j = user;
  const ls_tensor first = ls_nest_tensor(tensors, 0);
  const ls_tensor sum = ls_reduce_sum(first, LS_ALL_AXES);
  ++j->calls;
  j->shape = ls_tensor_shape(first);
  snprintf(j->device, sizeof(j->device), "%s", ls_op_device(ls_tensor_op(sum)));
  return ls_leaf(sum);
}

static ls_nest by_wrong_name(ls_nest tensors, void *user) {
  (void)user;
  return ls_nest_find(tensors, "lables").kind == LS_KIND_NONE
             ? LS_FAIL(LS_NOT_FOUND, "no lables")
             : ls_none();
}

static ls_nest no_metrics(ls_nest tensors, void *user) {
  (void)tensors, (void)user;
  return ls_nest_dict("", NULL, NULL, 0);
}

// Metrics are given features and labels, by name; the host call labels.
static ls_status model_of(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  static const char *const keys[] = {"labels", "features"};
  job *j = user;
  const ls_tensor loss = linear_model_loss(&j->m, call);
  const ls_nest both[] = {ls_nest_retain(call->labels),
                          ls_nest_retain(call->features)};
  LS_OWN(ls_nest, dict) = ls_nest_dict("", keys, both, 2);
  LS_OWN(ls_nest, list) = LS_LIST(
      j->tells == SCALAR ? ls_leaf(loss) : ls_nest_retain(call->labels));
  ls_estimator_spec_options o = {.mode = call->mode, .loss = loss};
  if (call->mode == LS_MODE_TRAIN)
    o.train_op = ls_train_op(j->m.optimizer, loss);
  if (j->tells != NOTHING)
    o.host_call = (ls_host_function){.call = hear, .user = j, .tensors = list};
  if (j->tells == FAILS)
    o.host_call =
        (ls_host_function){.call = by_wrong_name, .user = j, .tensors = dict};
  if (j->tells != NOTHING && call->mode == LS_MODE_EVAL)
    o.eval_metrics =
        (ls_host_function){.call = no_metrics, .user = j, .tensors = dict};
  return ls_tpu_estimator_spec_create(&o, out_spec);
}

static void begin(programs *p, job *j, ls_estimator_mode mode, int replicas,
                  programs_options options) {
  options.mode = mode;
  options.replicas = replicas;
  options.model = model_of;
  options.user = j;
  programs_begin(p, options);
  LS_GRAPH_SCOPE(p->graph);
  linear_model_make(&j->m, true);
}

static void end(programs *p, job *j) {
  linear_model_drop(&j->m);
  programs_end(p);
}

static void run(programs *p, int64_t steps) {
  programs_set_steps(p, steps);
  programs_run(p, ls_nest_op(p->program.run));
}

static size_t times_in(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; ++at)
    ++count;
  return count;
}

static char *text_of(const programs *p) { return graph_text(p->graph); }

static void expect_array(const ls_array *got, ls_array *wanted) {
  assert_true(ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)));
  assert_memory_equal(ls_array_data(got), ls_array_data(wanted),
                      (size_t)ls_array_num_elements(got) * 4);
  ls_array_release(wanted);
}

// What a replica has said; the caller's.
static ls_nest take(const programs *p, int replica) {
  ls_nest tuple = ls_none();
  expect_ok(ls_outfeed_take(programs_core(p, replica).text, &tuple));
  return tuple;
}

// ---- Tuples ----------------------------------------------------------------
TEST(all_tensors_leave_in_one_tuple_a_step) {
  LS_SPEC("E142");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {.tells = ROWS};
    begin(&p, &j, LS_MODE_EVAL, counts[i], (programs_options){0});
    programs_build(&p);
    char *text = text_of(&p);
    assert_int_equal(times_in(text, "kernel \"outfeed_enqueue\""), 1);
    assert_int_equal(times_in(text, "# \"outfeed_enqueue_tuple\" "
                                    "@\"/device:TPU_REPLICATED_CORE:0\""),
                     1);
    ls_text_release(text);
    for (int s = 0; s < 2; ++s)
      programs_put_all(&p, s);
    run(&p, 2);
    // Metrics' before the host call's; a dict's by sorted keys.
    for (int s = 0; s < 2; ++s)
      for (int r = 0; r < counts[i]; ++r) {
        LS_OWN(ls_nest, tuple) = take(&p, r);
        assert_int_equal(ls_nest_count(tuple), 3);
        for (int k = 0; k < 3; ++k)
          expect_array(ls_nest_as_array(ls_nest_item(tuple, (size_t)k)),
                       programs_fed(&p, s, r, k > 0));
      }
    end(&p, &j);
  }
}

TEST(who_has_nothing_to_say_leaves_no_tuple) {
  LS_SPEC("E142 E149");
  static const ls_estimator_mode modes[] = {LS_MODE_TRAIN, LS_MODE_EVAL};
  for (size_t k = 0; k < LS_COUNT_OF(modes); ++k) {
    programs p;
    job j = {.tells = NOTHING};
    begin(&p, &j, modes[k], 3, (programs_options){0});
    programs_build(&p);
    char *text = text_of(&p);
    assert_int_equal(times_in(text, "outfeed"), 0);
    ls_text_release(text);
    assert_int_equal(p.program.host_ops.kind, LS_KIND_LIST);
    assert_int_equal(ls_nest_count(p.program.host_ops), 0);
    assert_int_equal(p.program.host_results.kind, LS_KIND_NONE);
    programs_put_all(&p, 0);
    programs_put_all(&p, 1);
    run(&p, 2);
    // So many rounds of nothing wait for nothing.
    for (int s = 0; s < 2; ++s)
      programs_run(&p, ls_nest_retain(p.program.host_ops));
    end(&p, &j);
  }
}

// ---- Hosts -----------------------------------------------------------------
TEST(replicas_parts_are_put_together_in_their_order) {
  LS_SPEC("E143 E145");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {.tells = ROWS};
    begin(&p, &j, LS_MODE_TRAIN, counts[i], (programs_options){0});
    programs_build(&p);
    assert_int_equal(j.calls, 1);
    assert_true(
        ls_shape_equal(j.shape, LS_SHAPE(counts[i] * PROGRAMS_ROWS, 1)));
    ls_device_name host = ls_plan_replica_host(p.calls.plan, 0);
    assert_string_equal(j.device, host.text);
    // First what takes, each on its host, then what the function gives.
    assert_int_equal(ls_nest_count(p.program.host_ops), counts[i] + 1);
    for (int r = 0; r < counts[i]; ++r) {
      const ls_op op = ls_nest_item(p.program.host_ops, (size_t)r).as.op;
      host = ls_plan_replica_host(p.calls.plan, r);
      assert_string_equal(ls_op_device(op), host.text);
      assert_string_equal(ls_op_type_name(op), "host");
      assert_non_null(strstr(ls_op_name(op), "outfeed_dequeue_tuple"));
    }
    // A run of them is a step's.
    ls_tensor joined =
        ls_op_input(ls_tensor_op(p.program.host_results.as.tensor), 0);
    for (int s = 0; s < 3; ++s)
      programs_put_all(&p, s);
    run(&p, 3);
    for (int s = 0; s < 3; ++s) {
      programs_run(
          &p, LS_LIST(ls_leaf(joined), ls_nest_retain(p.program.host_ops)));
      for (int r = 0; r < counts[i]; ++r) {
        LS_OWN(ls_array, fed) = programs_fed(&p, s, r, 1);
        for (int k = 0; k < PROGRAMS_ROWS; ++k)
          assert_true(
              ls_array_f64(programs_array(&p, 0), r * PROGRAMS_ROWS + k) ==
              ls_array_f64(fed, k));
      }
    }
    end(&p, &j);
  }
}

// Each has two, on the hosts of an assignment; the first takes and says.
TEST(replicas_of_several_cores_say_it_from_their_first) {
  LS_SPEC("E142 E143");
  programs p;
  linear_reference r;
  job j = {.tells = ROWS};
  begin(&p, &j, LS_MODE_TRAIN, 4,
        (programs_options){.tpu = {.num_cores_per_replica = LS_SOME(2),
                                   .per_host_input = LS_INPUT_PER_HOST_V2}});
  programs_build(&p);
  linear_reference_begin(&r, 4);
  for (int s = 0; s < 3; ++s) {
    programs_put_all(&p, s);
    (void)linear_reference_train(&r, &p, s);
  }
  run(&p, 3);
  linear_expect_same(&p, &j.m, &r);
  for (int s = 0; s < 2; ++s)
    for (int replica = 0; replica < 4; ++replica) {
      LS_OWN(ls_nest, tuple) = take(&p, replica);
      expect_array(ls_nest_as_array(ls_nest_item(tuple, 0)),
                   programs_fed(&p, s, replica, 1));
    }
  // Or by the hosts' ops.
  programs_run(&p,
               LS_LIST(ls_leaf(ls_op_input(
                           ls_tensor_op(p.program.host_results.as.tensor), 0)),
                       ls_nest_retain(p.program.host_ops)));
  for (int replica = 0; replica < 4; ++replica) {
    LS_OWN(ls_array, fed) = programs_fed(&p, 2, replica, 1);
    for (int k = 0; k < PROGRAMS_ROWS; ++k)
      assert_true(
          ls_array_f64(programs_array(&p, 0), replica * PROGRAMS_ROWS + k) ==
          ls_array_f64(fed, k));
  }
  linear_reference_end(&r);
  end(&p, &j);
}

TEST(a_scalar_cannot_be_put_together) {
  LS_SPEC("E143");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {.tells = SCALAR};
    begin(&p, &j, LS_MODE_TRAIN, counts[i], (programs_options){0});
    const size_t before = ls_graph_num_ops(p.graph);
    expect_status(programs_try(&p), LS_FAILED_PRECONDITION,
                  "preserve batch size dimension");
    assert_int_equal(j.calls, 0);
    assert_int_equal(ls_graph_num_ops(p.graph), before);  // As it was.
    end(&p, &j);
  }
}

TEST(of_input_for_all_replicas_one_is_heard) {
  LS_SPEC("E143");
  static const what all[] = {ROWS, SCALAR};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (size_t k = 0; k < LS_COUNT_OF(all); ++k) {
      programs p;
      job j = {.tells = all[k]};
      begin(&p, &j, LS_MODE_TRAIN, counts[i],
            (programs_options){.tpu.per_host_input = LS_INPUT_BROADCAST});
      programs_build(&p);
      assert_int_equal(j.shape.rank, all[k] == ROWS ? 2 : 0);
      if (all[k] == ROWS) assert_int_equal(j.shape.dim[0], PROGRAMS_ROWS);
      programs_put_all(&p, 0);
      run(&p, 1);
      programs_run(&p, LS_LIST(ls_nest_retain(p.program.host_results),
                               ls_nest_retain(p.program.host_ops)));
      ls_array *fed = programs_fed(&p, 0, 0, 1);
      float sum = 0;
      for (int row = 0; row < PROGRAMS_ROWS; ++row)
        sum += (float)ls_array_f64(fed, row);
      if (all[k] == ROWS) assert_true((float)programs_number(&p, 0) == sum);
      ls_array_release(fed);
      end(&p, &j);
    }
}

// Each replica has had a part of it: all are heard.
TEST(of_input_that_is_sliced_all_is_heard) {
  LS_SPEC("E143");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {.tells = ROWS};
    begin(&p, &j, LS_MODE_EVAL, counts[i],
          (programs_options){.tpu = {.per_host_input = LS_INPUT_BROADCAST,
                                     .eval_training_input = LS_INPUT_SLICED}});
    programs_build(&p);
    assert_int_equal(j.shape.dim[0], counts[i] * PROGRAMS_ROWS);
    end(&p, &j);
  }
}

TEST(a_dict_that_does_not_fit_is_warned_of) {
  LS_SPEC("E141");
  programs p;
  job j = {.tells = FAILS};
  begin(&p, &j, LS_MODE_TRAIN, 3, (programs_options){0});
  expect_status(programs_try(&p), LS_NOT_FOUND, "no lables");
  assert_non_null(strstr(p.last_warning, "host_call[1]"));
  end(&p, &j);
}

// ---- Every n-th step -------------------------------------------------------
TEST(hosts_hear_of_every_nth_step_of_a_run) {
  LS_SPEC("E147");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j = {.tells = ROWS};
    static const int runs[] = {7, 2, 3};
    int64_t at = 0;
    begin(&p, &j, LS_MODE_TRAIN, counts[i],
          (programs_options){.tpu.host_call_every_n_steps = LS_SOME(3)});
    programs_build(&p);
    for (size_t k = 0; k < LS_COUNT_OF(runs); ++k) {
      for (int s = 0; s < runs[k]; ++s)
        programs_put_all(&p, at + s);
      run(&p, runs[k]);
      for (int s = 0; s < runs[k]; s += 3)
        for (int r = 0; r < counts[i]; ++r) {
          LS_OWN(ls_nest, tuple) = take(&p, r);
          expect_array(ls_nest_as_array(ls_nest_item(tuple, 0)),
                       programs_fed(&p, at + s, r, 1));
        }
      at += runs[k];
    }
    end(&p, &j);
  }
  // Of an evaluation they hear of each.
  programs p;
  job j = {.tells = ROWS};
  begin(&p, &j, LS_MODE_EVAL, 3,
        (programs_options){.tpu.host_call_every_n_steps = LS_SOME(3)});
  programs_build(&p);
  for (int s = 0; s < 4; ++s)
    programs_put_all(&p, s);
  run(&p, 4);
  for (int s = 0; s < 4; ++s)
    for (int r = 0; r < 3; ++r) {
      LS_OWN(ls_nest, tuple) = take(&p, r);
      expect_array(ls_nest_as_array(ls_nest_item(tuple, 0)),
                   programs_fed(&p, s, r, 0));
    }
  end(&p, &j);
}

// ---- Order -----------------------------------------------------------------
// The line of the text in which `part` is.
static void line_of(const char *text, const char *part, char *line,
                    size_t size) {
  const char *at = strstr(text, part);
  assert_non_null(at);
  while (at > text && at[-1] != '\n')
    --at;
  const size_t length = strcspn(at, "\n");
  snprintf(line, size, "%.*s", (int)length, at);
}

// That line's number, as who waits for it writes it.
static void waits_for(const char *line, char *out, size_t size) {
  const char *number = strchr(line, '%');
  assert_non_null(number);
  snprintf(out, size, "^%.*s ", (int)strspn(number, "%0123456789"), number);
}

// Elements are taken, then comes the model, then variables move, then hosts
// hear, then the loss is there.
TEST(a_training_step_has_an_order) {
  LS_SPEC("E132");
  programs p;
  job j = {.tells = ROWS};
  char line[600], wait[40];
  begin(&p, &j, LS_MODE_TRAIN, 3, (programs_options){0});
  programs_build(&p);
  char *text = text_of(&p);
  const char *body = strstr(text, "graph region \"while_body\"");
  assert_non_null(body);
  assert_true(strstr(body, "InfeedQueue/dequeue") < strstr(body, "matmul("));
  assert_true(strstr(body, "matmul(") < strstr(body, "# \"train_op\""));
  line_of(body, "# \"train_op\"", line, sizeof(line));
  waits_for(line, wait, sizeof(wait));
  line_of(body, "kernel \"outfeed_enqueue\"", line, sizeof(line));
  assert_non_null(strstr(line, wait));
  waits_for(line, wait, sizeof(wait));
  line_of(strstr(body, "kernel \"outfeed_enqueue\""), "identity(", line,
          sizeof(line));
  assert_non_null(strstr(line, wait));
  // Its type: the loss.
  assert_non_null(strstr(line, ": f32[]"));
  ls_text_release(text);
  end(&p, &j);
}

// SPDX-License-Identifier: Apache-2.0
//
// Lines of the log about tensors on the way to a loss.
#define _GNU_SOURCE
#include "lockstep/tensor_tracer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/own.h"
#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/training_loop.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/monitored_runs.h"

static const char flags_name[] = "TENSOR_TRACER_FLAGS";
static const char own_name[] = "LS_TENSOR_TRACER_FLAGS";

static void set_flags(const char *flags) {
  unsetenv(own_name);
  if (flags != NULL)
    setenv(flags_name, flags, 1);
  else
    unsetenv(flags_name);
}

// ---- Whether it is on ------------------------------------------------------
TEST(flags_say_whether_it_is_on) {
  LS_SPEC("E201");
  static const struct {
    const char *flags;  // NULL: not set.
    bool on;
  } rows[] = {
      {NULL, false},
      {"", false},
      {"--enable", true},
      {"  --enable  ", true},
      {"--enable=1", true},
      {"--enable=t", true},
      {"--enable=true", true},
      {"--enable=y", true},
      {"--enable=yes", true},
      {"--enable='yes'", true},
      {"--enable=\"true\"", true},
      {"--enable=True", true},
      {"--enable=0", false},
      {"--enable=false", false},
      {"--enable=", false},
      {"--enable=on", false},
      {"--enable=yess", false},
      {"--enabled", false},
      {"enable", false},
      {"--trace_mode=norm", false},
      {"--trace_mode=norm --enable", true},
      {"--trace_mode='--enable'", false},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    set_flags(rows[i].flags);
    if (ls_tensor_tracer_is_on() != rows[i].on)
      print_error("%s\n", rows[i].flags);
    assert_int_equal(ls_tensor_tracer_is_on(), rows[i].on);
  }
  set_flags("--enable");
  setenv(own_name, "--enable=no", 1);
  assert_false(ls_tensor_tracer_is_on());
  set_flags(NULL);
}

// ---- CPUs ------------------------------------------------------------------
// A small model beside the train op: f32 [2, 2] -> names below.
typedef struct traced {
  monitored_runs runs;
  ls_tensor loss;
} traced;

static void begin(traced *t, const char *flags) {
  static const float values[] = {3, -4, 0, 12};
  set_flags(flags);
  monitored_runs_begin(&t->runs);
  LS_GRAPH_SCOPE(t->runs.graph);
  LS_NAME_SCOPE("model");
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(2, 2), values, &array));
  const ls_tensor x = ls_constant(array);
  const ls_tensor scaled =
      ls_mul(x, ls_broadcast_like(ls_variable_read(t->runs.weight), x));
  const ls_tensor positive = ls_relu(scaled);  // 15 0 0 60.
  const ls_tensor whole = ls_convert(positive, LS_DTYPE_I32);
  const ls_tensor back = ls_convert(whole, LS_DTYPE_F32);
  (void)ls_exp(positive);  // Nothing needs it.
  t->loss = ls_reduce_sum(ls_add(back, scaled), LS_ALL_AXES);
}

static void end(traced *t) {
  monitored_runs_end(&t->runs);
  set_flags(NULL);
}
LS_OWNED_STRUCT(traced, end)

// Runs the host's function once, and gives what the log says.
static const char *trace_once(traced *t) {
  ls_host_function call = {.tensors = ls_none()};
  ls_nest made = ls_none();
  {
    LS_GRAPH_SCOPE(t->runs.graph);
    const ls_nest fetches = ls_leaf(t->loss);
    expect_ok(ls_trace_cpu(fetches, &call));
    if (call.call != NULL) made = call.call(call.tensors, call.user);
    expect_ok(ls_nest_status(made));
    ls_trace_cpu_end(&call);
    assert_null(call.call);
  }
  monitored_runs_open(&t->runs, NULL, 0, NULL);
  (void)monitored_runs_log();
  if (ls_nest_count(made) > 0)
    expect_ok(ls_monitored_session_run(t->runs.session, made, NULL, 0,
                                       &t->runs.results));
  const char *log = monitored_runs_log();
  ls_nest_release(made);
  monitored_runs_close(&t->runs);
  return log;
}

static size_t lines_of(const char *log) {
  size_t count = 0;
  for (; (log = strstr(log, "replica ")) != NULL; ++log)
    ++count;
  return count;
}

TEST(modes_say_what_tensors_are) {
  LS_SPEC("E201");
  static const struct {
    const char *flags;
    size_t lines;
    const char *says[3];
  } rows[] = {
      {"--enable",
       5,
       {"replica 0: 'model/relu:0' nan-inf = 0\n",
        "'model/mul:0' nan-inf = 0\n"}},
      {"--enable --trace_mode=nan-inf", 5, {"'model/relu:0' nan-inf = 0\n"}},
      {"--enable --trace_mode=part-tensor",
       6,
       {"'model/relu:0' part-tensor = [15, 0, 0]\n",
        "'model/convert:0' part-tensor = [15, 0, 0]\n"}},
      {"--enable --trace_mode=full-tensor",
       6,
       {"'model/mul:0' full-tensor = [15, -20, 0, 60]\n",
        "'model/convert:0' full-tensor = [15, 0, 0, 60]\n"}},
      {"--enable --trace_mode=\"norm\"",
       6,
       {"'model/mul:0' norm = 65\n", "'model/convert:0' norm = 61.846"}},
      {"--enable --trace_mode='max-abs'",
       6,
       {"'model/mul:0' max-abs = 60\n", "'model/relu:0' max-abs = 60\n"}},
      {"--enable --trace_mode=max-abs --trace_scalar",
       8,
       {"'model/reduce_sum:0' max-abs = 130\n",
        "'model/mul:0' max-abs = 60\n"}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN_BEGUN(traced, t, begin, rows[i].flags);
    const char *log = trace_once(&t);
    if (lines_of(log) != rows[i].lines) print_error("%s\n", log);
    assert_int_equal(lines_of(log), rows[i].lines);
    for (int k = 0; k < 3 && rows[i].says[k] != NULL; ++k)
      expect_contains(log, rows[i].says[k]);
    assert_null(strstr(log, "exp"));
  }
}

static ls_tensor constant_of(ls_dtype dtype, ls_shape shape, const void *data) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  return ls_constant(array);
}

TEST(numbers_are_told_exactly_and_nothing_has_no_size) {
  LS_SPEC("E201");
  static const int64_t whole[] = {1234567890123, -9007199254740993};
  static const double fine[] = {0.1234567890123456, 1e-300};
  static const struct {
    const char *flags;
    const char *says[3];
  } rows[] = {{"--enable --trace_mode=full-tensor",
               {"'abs:0' full-tensor = []\n",
                "'abs_1:0' full-tensor = [1234567890123, 9007199254740993]\n",
                "'abs_2:0' full-tensor = [0.1234567890123456, 1e-300]\n"}},
              {"--enable --trace_mode=max-abs",
               {"'abs:0' max-abs = 0\n", "'abs_1:0' max-abs = 9.007199",
                "'abs_2:0' max-abs = 0.1234567890123456\n"}}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(traced, t, begin, rows[i].flags);
    {
      LS_GRAPH_SCOPE(t.runs.graph);
      const ls_tensor x[] = {
          ls_abs(constant_of(LS_DTYPE_F32, LS_SHAPE(0, 3), NULL)),
          ls_abs(constant_of(LS_DTYPE_I64, LS_SHAPE(2), whole)),
          ls_abs(constant_of(LS_DTYPE_F64, LS_SHAPE(2), fine))};
      t.loss = ls_scalar(LS_DTYPE_F32, 0);
      for (int k = 0; k < 3; ++k)
        t.loss = ls_add(
            t.loss, ls_convert(ls_reduce_sum(x[k], LS_ALL_AXES), LS_DTYPE_F32));
    }
    const char *log = trace_once(&t);
    for (int k = 0; k < 3; ++k)
      expect_contains(log, rows[i].says[k]);
  }
}

TEST(flags_choose_ops) {
  static const struct {
    const char *flags;
    size_t lines;
    const char *says;
  } rows[] = {
      {"--enable --included_opnames=model/re*", 1, "'model/relu:0'"},
      {"--enable --included_optypes=relu,mul", 2, "'model/mul:0'"},
      {"--enable --included_optypes=relu --included_opnames=*mul", 2,
       "'model/mul:0'"},
      {"--enable --excluded_optypes=relu,mul,convert,add", 1,
       "'model/broadcast"},
      {"--enable --excluded_opnames=model/*", 0, ""},
      {"--enable --included_opnames=*relu* --excluded_optypes=relu", 0, ""},
      {"--enable --op_range=1:2", 2, "'model/relu:0'"},
      {"--enable --op_range=4:100", 1, "'model/add:0'"},
      {"--enable --op_range=7:9", 0, ""},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN_BEGUN(traced, t, begin, rows[i].flags);
    const char *log = trace_once(&t);
    if (lines_of(log) != rows[i].lines)
      print_error("%s: %s\n", rows[i].flags, log);
    assert_int_equal(lines_of(log), rows[i].lines);
    expect_contains(log, rows[i].says);
  }
}

TEST(what_is_no_number_is_found) {
  LS_OWN_BEGUN(traced, t, begin, "--enable");
  {
    LS_GRAPH_SCOPE(t.runs.graph);
    const ls_tensor none =
        ls_broadcast(ls_scalar(LS_DTYPE_F32, 0), LS_SHAPE(2));
    t.loss = ls_reduce_sum(ls_div(none, none), LS_ALL_AXES);
  }
  const char *log = trace_once(&t);
  expect_contains(log, "div_1:0' nan-inf = 1\n");
  expect_contains(log, "broadcast:0' nan-inf = 0\n");
}

TEST(flags_and_modes_that_are_not_there_are_listed) {
  LS_SPEC("E201");
  static const char all_flags[] =
      "the flags are --enable, --trace_mode, --trace_scalar, --op_range, "
      "--included_opnames, --included_optypes, --excluded_opnames, "
      "--excluded_optypes";
  static const char all_modes[] = "the modes are nan-inf, part-tensor, "
                                  "full-tensor, norm, max-abs";
  static const struct {
    const char *flags, *says, *lists;
  } rows[] = {
      {"--enable --trace_mod=norm", "there is no flag '--trace_mod'",
       all_flags},
      {"--enable --enabled", "there is no flag '--enabled'", all_flags},
      {"--enable norm", "there is no flag 'norm'", all_flags},
      {"--enable --", "there is no flag '--'", all_flags},
      {"--enable --=3", "there is no flag '--=3'", all_flags},
      {"--enable --trace_mode=nan", "there is no trace_mode 'nan'", all_modes},
      {"--enable --trace_mode=NORM", "there is no trace_mode 'NORM'",
       all_modes},
      {"--enable --trace_mode", "there is no trace_mode ''", all_modes},
      {"--enable --op_range=3", "op_range is '3'", "A:B"},
      {"--enable --op_range=3:2", "op_range is '3:2'", "A:B"},
      {"--enable --op_range=-1:2", "op_range is '-1:2'", "A:B"},
      {"--enable --op_range=1:2x", "op_range is '1:2x'", "A:B"},
      {"--enable --op_range=1:99999999999999999999", "op_range is '1:9999",
       "A:B"},
      {"--enable --included_opnames", "--included_opnames lists no pattern",
       ""},
      {"--enable --excluded_optypes=,", "--excluded_optypes lists no pattern",
       ""},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN_BEGUN(traced, t, begin, rows[i].flags);
    ls_host_function call = {.tensors = ls_none()};
    ls_nest ops = ls_none();
    LS_GRAPH_SCOPE(t.runs.graph);
    const size_t before = ls_graph_num_ops(t.runs.graph);
    for (int tpu = 0; tpu < 2; ++tpu) {
      ls_tensor loss;
      const ls_status status =
          tpu ? ls_trace_tpu(t.loss, t.runs.train, &loss, &ops)
              : ls_trace_cpu(ls_leaf(t.loss), &call);
      expect_contains(ls_status_message(status), "TENSOR_TRACER_FLAGS: ");
      expect_contains(ls_status_message(status), rows[i].lists);
      expect_status(status, LS_INVALID_ARGUMENT, rows[i].says);
    }
    assert_null(call.call);
    assert_int_equal(ls_graph_num_ops(t.runs.graph), before);
  }
}

// ---- Specs -----------------------------------------------------------------
static ls_nest count_calls(ls_nest tensors, void *user) {
  ++*(int *)user;
  return ls_nest_retain(tensors);
}

TEST(a_plain_spec_has_a_hook_that_traces) {
  LS_SPEC("E58");
  static const struct {
    const char *flags;
    bool host_call;
    size_t hooks;
  } rows[] = {
      {NULL, false, 0},
      {NULL, true, 1},
      {"--enable=no", true, 1},
      {"--enable", true, 2},
      {"--enable", false, 1},
      {"--enable --excluded_opnames=*", true, 1},  // No calls.
      {"--enable --excluded_opnames=*", false, 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN(traced, t) = {0};
    int calls = 0;
    LS_OWN(ls_estimator_spec, spec) = NULL;
    LS_OWN(ls_estimator_spec, plain) = NULL;
    begin(&t, rows[i].flags);
    {
      LS_GRAPH_SCOPE(t.runs.graph);
      LS_OWN(ls_nest, one) = LS_LIST(ls_leaf(t.loss));
      ls_estimator_spec_options o = {
          .mode = LS_MODE_TRAIN, .loss = t.loss, .train_op = t.runs.train};
      if (rows[i].host_call)
        o.host_call = (ls_host_function){count_calls, &calls, one, {0}};
      expect_ok(ls_tpu_estimator_spec_create(&o, &spec));
      expect_ok(ls_estimator_spec_as_plain(spec, &plain));
    }
    const ls_estimator_spec_options *spec_options =
        ls_estimator_spec_values(plain);
    assert_int_equal(calls, rows[i].host_call);
    assert_int_equal(spec_options->num_training_hooks, rows[i].hooks);
    assert_int_equal(spec_options->num_evaluation_hooks, rows[i].hooks);
    assert_int_equal(spec_options->num_prediction_hooks, rows[i].hooks);
    ls_hook *hooks[2] = {NULL};
    for (size_t k = 0; k < rows[i].hooks; ++k)
      hooks[k] = ls_hook_retain(spec_options->training_hooks[k]);
    monitored_runs_open(&t.runs, hooks, rows[i].hooks, NULL);
    (void)monitored_runs_log();
    const bool traces = rows[i].hooks > (rows[i].host_call ? 1 : 0);
    for (int run = 0; run < 2; ++run) {
      expect_ok(monitored_runs_try(&t.runs));
      assert_int_equal(lines_of(monitored_runs_log()), traces ? 5 : 0);
    }
    monitored_runs_close(&t.runs);
  }
}

TEST(a_spec_with_bad_flags_is_refused) {
  LS_SPEC("E201");
  LS_OWN(traced, t) = {0};
  LS_OWN(ls_estimator_spec, spec) = NULL;
  ls_estimator_spec *plain = NULL;
  begin(&t, "--enable --trace_mode=all");
  LS_GRAPH_SCOPE(t.runs.graph);
  expect_ok(ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){
          .mode = LS_MODE_TRAIN, .loss = t.loss, .train_op = t.runs.train},
      &spec));
  expect_status(ls_estimator_spec_as_plain(spec, &plain), LS_INVALID_ARGUMENT,
                "there is no trace_mode 'all'");
  assert_null(plain);
}

// ---- Computations ----------------------------------------------------------
static char lines[20000];
static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  const size_t used = strlen(lines);
  if (strcmp(line->source, "tensor_tracer") == 0)
    snprintf(lines + used, sizeof(lines) - used, "%s\n", line->text);
}

typedef struct model {
  bool traces, loops;
} model;

static ls_tensor traced_loss(const model *m, ls_tensor x, ls_op *out_op) {
  LS_NAME_SCOPE("model");
  const ls_tensor row = ls_mul_scalar(ls_broadcast(x, LS_SHAPE(4)), 2);
  ls_tensor loss = ls_reduce_sum(ls_exp(row), LS_ALL_AXES);
  *out_op = (ls_op){0};
  if (!m->traces) return loss;
  LS_OWN(ls_nest, ops) = ls_none();
  const ls_tensor before = loss;
  expect_ok(ls_trace_tpu(before, (ls_op){0}, &loss, &ops));
  assert_false(ls_tensor_equal(loss, before));
  assert_int_equal(ls_nest_count(ops), 1);
  *out_op = ls_nest_item(ops, 0).as.op;
  return loss;
}

static ls_nest step(ls_nest args, void *user) {
  ls_op op;
  const ls_tensor loss = traced_loss(user, ls_nest_tensor(args, 0), &op);
  return op.id != 0 ? LS_LIST(ls_leaf(loss), ls_nest_op(op))
                    : LS_LIST(ls_leaf(loss));
}

static ls_nest compute(ls_nest args, void *user) {
  const model *m = user;
  if (!m->loops) return step(args, user);
  ls_nest final = ls_none();
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(ls_nest_tensor(args, 0)));
  expect_ok(ls_training_repeat(
      2, &(ls_training_loop){.body = step, .user = user}, inputs, &final));
  return final;
}

TEST(a_computation_traces_each_replica) {
  LS_SPEC("E201");
  set_flags("--enable --trace_mode=max-abs --included_optypes=exp");
  for (int loops = 0; loops < 2; ++loops)
    for (size_t replicas = 1; replicas <= 3; ++replicas) {
      double losses[2][3];
      for (int traces = 0; traces < 2; ++traces) {
        LS_OWN(counted, memory) =
            counted_begin_with((ls_runtime_options){.log = keep_line});
        model m = {traces, loops};
        LS_OWN_BEGUN(computation, c, computation_open);
        computation_replicate(&c, replicas, compute, &m);
        for (size_t r = 0; r < replicas; ++r)
          losses[traces][r] = computation_output(&c, r, 0);
        lines[0] = '\0';
        assert_true(computation_output(&c, 0, 0) == losses[traces][0]);
        assert_int_equal(lines_of(lines),
                         traces ? replicas * (loops ? 2 : 1) : 0);
        for (size_t r = 0; r < replicas && traces; ++r) {
          char start[40];
          snprintf(start, sizeof(start), "replica %zu: 'model/exp:0'", r);
          expect_contains(lines, start);
        }
      }
      for (size_t r = 0; r < replicas; ++r)
        assert_true(losses[0][r] == losses[1][r]);
    }
  set_flags(NULL);
}

TEST(nothing_to_trace_is_no_op) {
  ls_nest ops = ls_none();
  ls_tensor loss;
  LS_OWN_BEGUN(traced, t, begin, "--enable --excluded_opnames=*");
  LS_GRAPH_SCOPE(t.runs.graph);
  expect_ok(ls_trace_tpu(t.loss, t.runs.train, &loss, &ops));
  assert_false(ls_tensor_is_failed(loss));
  assert_int_equal(ops.kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(ops), 0);
  ls_nest_release(ops);
  expect_status(ls_trace_tpu(ls_failed_tensor(), (ls_op){0}, &loss, &ops),
                LS_INVALID_ARGUMENT, "loss is failed");
  expect_status(ls_trace_tpu(t.loss, (ls_op){0}, NULL, &ops),
                LS_INVALID_ARGUMENT, "out_loss is NULL");
  expect_status(ls_trace_cpu(ls_none(), NULL), LS_INVALID_ARGUMENT,
                "out_call is NULL");
}

// ---- Memory ----------------------------------------------------------------
static ls_status trace_a_graph(void *user) {
  LS_OWN(ls_graph, graph) = NULL;
  ls_host_function call = {.tensors = ls_none()};
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_nest, ops) = ls_none();
  (void)user;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(4), "x");
    ls_tensor loss = ls_reduce_sum(ls_exp(x), LS_ALL_AXES);
    status = ls_graph_take_error(graph);
    if (ls_status_is_ok(status)) status = ls_trace_cpu(ls_leaf(loss), &call);
    if (ls_status_is_ok(status)) {
      made = call.call(call.tensors, call.user);
      status = ls_nest_status(made);
    }
    if (ls_status_is_ok(status))
      status = ls_trace_tpu(loss, (ls_op){0}, &loss, &ops);
    status = ls_status_join(status, ls_graph_take_error(graph));
  }
  ls_trace_cpu_end(&call);
  return status;
}

TEST(failed_requests_for_memory_are_survived) {
  set_flags("--enable --trace_mode=norm --excluded_opnames=a,b*");
  REFUSE_EACH(trace_a_graph, NULL);
  set_flags(NULL);
}

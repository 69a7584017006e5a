// SPDX-License-Identifier: Apache-2.0
//
// Gathering: what is refused of a replicated computation once all of it is
// known, and what the gathered graph looks like.
#include <stdio.h>
#include <string.h>

#include "graph/gather/gather.h"
#include "graph/own.h"
#include "lockstep/distributed.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/place.h"
#include "support/spec.h"

typedef struct kept {
  ls_tensor compiled, outside;
} kept;

static ls_nest negate(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_neg(args.as.tensor));
}

static ls_nest keep(ls_nest args, void *user) {
  kept *k = user;
  k->compiled = ls_neg(ls_nest_tensor(args, 0));
  k->outside =
      ls_outside_compilation(negate, NULL, ls_leaf(k->compiled)).as.tensor;
  return LS_LIST(ls_leaf(k->outside));
}

TEST(only_outputs_leave_a_computation) {
  LS_SPEC("O83 O85");
  for (size_t replicas = 1; replicas <= 2; ++replicas) {
    kept k;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, replicas, keep, &k);
    const ls_tensor uses_compiled = ls_identity_named(k.compiled, "user");
    const ls_tensor uses_outside = ls_identity_named(k.outside, "other");
    expect_status(computation_run(&c, ls_leaf(uses_compiled)),
                  LS_INVALID_ARGUMENT,
                  "Undeclared output of TPU computation 'cluster': op 'user' "
                  "(identity)");
    if (replicas == 1) {
      assert_true(computation_fetch(&c, uses_outside) == 1);
    } else {
      const ls_status status = computation_run(&c, ls_leaf(uses_outside));
      assert_non_null(strstr(ls_status_message(status), "'other'"));
      assert_non_null(strstr(ls_status_message(status), "'neg_1'"));
      expect_status(status, LS_INVALID_ARGUMENT, "2 replicas");
    }
    // What does not need it runs.
    assert_true(computation_output(&c, 0, 0) == 1);
  }
}

static ls_nest use_outside(ls_nest args, void *user) {
  return LS_LIST(
      ls_outside_compilation(negate, NULL, ls_leaf(*(const ls_tensor *)user)),
      ls_nest_retain(ls_nest_item(args, 0)));
}

TEST(what_lies_outside_is_used_by_as_many_replicas) {
  LS_SPEC("O84");
  for (size_t others = 1; others <= 3; ++others) {
    kept k;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, 2, keep, &k);
    computation_replicate(&c, others, use_outside, &k.outside);
    if (others == 2) {
      assert_true(computation_output(&c, 0, 0) == -1);
      assert_true(computation_output(&c, 1, 0) == -2);
    } else {
      const ls_status status = computation_run(&c, c.outputs);
      assert_non_null(strstr(ls_status_message(status), "op 'neg_2'"));
      assert_non_null(strstr(ls_status_message(status), "'neg_1'"));
      assert_non_null(strstr(ls_status_message(status), "with 2 replicas"));
      expect_status(status, LS_INVALID_ARGUMENT,
                    others == 1 ? "with 1 replicas" : "with 3 replicas");
    }
  }
}

static void set_text(ls_op op, const char *name, const char *text) {
  const ls_attr attr = {
      .name = name, .kind = LS_ATTR_STRING, .as.string = text};
  expect_ok(ls_op_set_attr(op, &attr));
}

TEST(broken_marks_are_named) {
  LS_SPEC("O86");
  static const struct {
    const char *op, *name, *text, *part;
  } rows[] = {
      {"lonely", "_xla_outside_compilation", "0",
       "op 'lonely' (identity) has '_xla_outside_compilation' and no "
       "'_tpu_replicate'"},
      {"lonely", "_tpu_replicate", "",
       "op 'lonely' (identity) has '_tpu_replicate', which is empty"},
      {"lonely", "_tpu_replicate", "x",
       "'_tpu_replicate' = 'x', which no replicated computation has"},
      {"neg_1", "_xla_outside_compilation", "",
       "op 'neg_1' (neg) has '_xla_outside_compilation', which is empty"},
      {"tpu_replicate_metadata_1", "_tpu_replicate", "cluster",
       "'_tpu_replicate' = 'cluster', which is another computation's name"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    kept k;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, 2, keep, &k);
    computation_replicate(&c, 2, keep, &k);
    const ls_tensor lonely = ls_identity_named(f32_of(1), "lonely");
    set_text(op_named(c.graph, rows[i].op), rows[i].name, rows[i].text);
    expect_status(computation_run(&c, ls_leaf(lonely)), LS_INTERNAL,
                  rows[i].part);
  }
}

// ---- What has no form for a core -------------------------------------------
static ls_nest print_it(ls_nest args, void *user) {
  ls_op *op = user;
  const ls_tensor x =
      args.kind == LS_KIND_TENSOR ? args.as.tensor : ls_nest_tensor(args, 0);
  *op = ls_print("x", x);
  return args.kind == LS_KIND_TENSOR ? ls_none() : LS_LIST(ls_leaf(ls_neg(x)));
}

static ls_nest print_outside(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_nest_release(ls_outside_compilation(print_it, user, ls_leaf(x)));
  return LS_LIST(ls_leaf(ls_neg(x)));
}

TEST(what_no_core_runs_is_refused_or_goes_to_the_host) {
  LS_SPEC("O91");
  for (int soft = 0; soft < 3; ++soft) {
    ls_op printed;
    LS_OWN_BEGUN(computation, c, computation_open);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    expect_ok(ls_replicate(
        soft == 2 ? print_outside : print_it, &printed, inputs,
        &(ls_replicate_options){.soft_placement =
                                    soft == 1 ? LS_FLAG_ON : LS_FLAG_DEFAULT},
        &c.outputs));
    const ls_attr *attr = NULL;
    expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                         "allow_soft_placement", &attr));
    assert_int_equal(attr->as.i, soft == 1);
    if (soft == 0)
      expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                    "op 'print' (host)");
    else
      assert_true(computation_output(&c, 1, 0) == -2);
  }
}

// ---- What is said of it ----------------------------------------------------
static char said[2000];

static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level != LS_LOG_INFO || strcmp(line->source, "tpu") != 0) return;
  const size_t used = strlen(said);
  snprintf(said + used, sizeof(said) - used, "%s\n", line->text);
}

static ls_nest print_twice(ls_nest args, void *user) {
  ls_op ops[2];
  (void)user;
  ls_nest_release(print_it(ls_nest_item(args, 0), &ops[0]));
  ls_nest_release(print_it(ls_nest_item(args, 0), &ops[1]));
  return LS_LIST(ls_leaf(ls_neg(ls_nest_tensor(args, 0))));
}

static void run_softly(const char *name) {
  LS_OWN(computation, c) = {0};
  expect_ok(ls_graph_create(name, &c.graph));
  ls_graph_begin(&c.scope, c.graph);
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    ls_nest_release(c.outputs);
    c.outputs = ls_none();
    expect_ok(ls_replicate(
        print_twice, NULL, inputs,
        &(ls_replicate_options){.soft_placement = LS_FLAG_ON}, &c.outputs));
    // However it is asked for, it is said once.
    (void)computation_output(&c, 0, 0);
    expect_ok(computation_run(&c, c.outputs));
  }
}

TEST(each_computation_says_which_ops_run_on_its_hosts) {
  LS_SPEC("O91");
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = keep_line});
  said[0] = '\0';
  run_softly("a");
  run_softly("b");
  assert_string_equal(
      said,
      "2 ops of computation 'cluster' in 'a' have no form for a TPU and run on "
      "its hosts: 'print', 'print_1'\n"
      "2 ops of computation 'cluster_1' in 'a' have no form for a TPU and run "
      "on its hosts: 'print_2', 'print_3'\n"
      "2 ops of computation 'cluster' in 'b' have no form for a TPU and run on "
      "its hosts: 'print', 'print_1'\n"
      "2 ops of computation 'cluster_1' in 'b' have no form for a TPU and run "
      "on its hosts: 'print_2', 'print_3'\n");
}

static const ls_host_kernel on_hosts = {.name = "infeed_of_hosts",
                                        .start = finish_at_once,
                                        .flags = LS_HOST_INLINE};
static const ls_host_kernel on_cores = {.name = "of_cores",
                                        .start = finish_at_once,
                                        .flags =
                                            LS_HOST_INLINE | LS_HOST_ON_CORES};

static ls_nest call_it(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_neg(x)),
                 ls_nest_op(ls_host_call_add(user, NULL, &x, 1)));
}

TEST(calls_say_whether_cores_have_them) {
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, 2, call_it,
                          (void *)(uintptr_t)(i == 0 ? &on_hosts : &on_cores));
    if (i == 0)
      expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                    "has no form for a TPU");
    else
      expect_ok(computation_run(&c, c.outputs));
  }
}

static ls_nest reduce(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, args.as.tensor));
}

static ls_nest reduce_outside(ls_nest args, void *user) {
  const ls_nest made =
      ls_outside_compilation(reduce, user, ls_nest_item(args, 0));
  return LS_LIST(made);
}

TEST(replicas_put_nothing_together_outside) {
  LS_SPEC("O136");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, reduce_outside, NULL);
  expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                "op 'all_reduce' (all_reduce)");
}

static ls_nest wants_placeholder(ls_nest args, void *user) {
  *(ls_tensor *)user = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "fed");
  return LS_LIST(
      ls_leaf(ls_add(ls_nest_tensor(args, 0), *(const ls_tensor *)user)));
}

TEST(a_placeholder_inside_is_never_fed) {
  LS_SPEC("O19");
  ls_tensor fed;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, wants_placeholder, &fed);
  expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT, "'fed'");
}

// ---- Computations of each other --------------------------------------------
static ls_nest sum(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(
      ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 0))));
}

TEST(computations_follow_each_other) {
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, sum, NULL);
  LS_OWN(ls_nest, first) = c.outputs;
  const ls_tensor between = ls_neg(ls_nest_tensor(ls_nest_item(first, 2), 0));
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_leaf(between)),
              LS_LIST(ls_nest_retain(ls_nest_item(ls_nest_item(first, 0), 0))));
  c.outputs = ls_none();
  expect_ok(ls_replicate(sum, NULL, inputs, NULL, &c.outputs));
  assert_true(computation_output(&c, 0, 0) == 0);
}

// A mark set by hand brings an op between into the computation; what needs that
// in a circle is refused.
TEST(a_circle_of_computations_is_refused) {
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, sum, NULL);
  const ls_tensor outer = ls_neg(ls_nest_tensor(ls_nest_item(c.outputs, 0), 0));
  const ls_tensor again = ls_identity_named(outer, "again");
  set_text(ls_tensor_op(again), "_tpu_replicate", "cluster");
  expect_status(computation_run(&c, c.outputs), LS_INVALID_ARGUMENT,
                "needs an op that depends on it");
}

// ---- The gathered graph ----------------------------------------------------
TEST(the_gathered_graph_holds_one_op_for_each) {
  kept k;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, keep, &k);
  const uint64_t fetch = ls_nest_tensor(ls_nest_item(c.outputs, 1), 0).ref;
  ls_gathered gathered;
  LS_OWN_BEGUN(ls_arena, memory, ls_arena_init, c.graph->allocator);
  expect_ok(ls_graph_gather(&(ls_gather_request){.graph = c.graph,
                                                 .fetches = &fetch,
                                                 .num_fetches = 1},
                            &memory, &gathered));
  expect_ok(ls_graph_verify(gathered.graph));
  char *text = graph_text(gathered.graph);
  const char *op = strstr(text, " = replicate(");
  assert_non_null(op);
  assert_null(strstr(op + 1, " = replicate("));
  assert_non_null(strstr(op, "# \"neg_1\""));
  assert_null(strstr(text, "tpu_replicated_input"));
  assert_null(strstr(text, "tpu_replicated_output("));
  ls_text_release(text);
  ls_graph_free(gathered.graph);
  // Without computations nothing is copied.
  LS_OWN(ls_graph, empty) = NULL;
  expect_ok(ls_graph_create("empty", &empty));
  expect_ok(ls_graph_gather(&(ls_gather_request){.graph = empty}, &memory,
                            &gathered));
  assert_null(gathered.graph);
}

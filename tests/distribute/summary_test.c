// SPDX-License-Identifier: Apache-2.0
//
// Summaries: what is recorded, and of which replica.
#include "lockstep/summary.h"

#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/replicas.h"

// What was recorded, as text.
typedef struct records {
  char text[200];
} records;

static void note(void *user, const ls_summary_record *record) {
  records *r = user;
  const size_t at = strlen(r->text);
  snprintf(r->text + at, sizeof(r->text) - at, "%s@%lld=%g ", record->tag,
           (long long)record->step, ls_array_f64(record->value, 0));
}

static ls_summary_writer *writer_of(records *r) {
  ls_summary_writer *writer = NULL;
  expect_ok(ls_summary_writer_create(note, r, &writer));
  return writer;
}

TEST(a_summary_goes_to_the_writer_in_force) {
  records r = {{0}};
  LS_OWN(ls_summary_writer, writer) = writer_of(&r);
  ls_summary("nowhere", scalar_of(1));
  {
    LS_SUMMARY_SCOPE(writer);
    ls_summary("loss", scalar_of(2));
    ls_summary_writer_set_step(writer, 7);
    {
      LS_NAME_SCOPE("train");
      ls_summary("loss", scalar_of(3));
    }
    {
      LS_SUMMARY_SCOPE(NULL);
      ls_summary("off", scalar_of(4));
    }
  }
  ls_summary("nowhere", scalar_of(1));
  assert_string_equal(r.text, "loss@0=2 train/loss@7=3 ");
  ls_summary_writer *none = NULL;
  expect_status(ls_summary_writer_create(NULL, NULL, &none),
                LS_INVALID_ARGUMENT, "function");
}

static ls_nest summarize(ls_nest args, void *user) {
  ls_tensor x = ls_failed_tensor();
  (void)user;
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  ls_summary("x", x);
  return ls_leaf(ls_neg(x));
}

TEST(replica_0_alone_is_recorded) {
  LS_SPEC("V173 M161");
  records r = {{0}};
  LS_OWN(ls_summary_writer, writer) = writer_of(&r);
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(per_replica_scalars((double[]){10, 20, 30}, 3));
  // Op by op.
  {
    LS_SUMMARY_SCOPE(writer);
    ls_nest_release(run_on(strategy, summarize, args, NULL));
  }
  assert_string_equal(r.text, "x@0=10 ");
  // Compiled, again and again.
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(summarize, NULL);
  {
    LS_SUMMARY_SCOPE(writer);
    for (int i = 1; i <= 2; ++i) {
      ls_summary_writer_set_step(writer, i);
      expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &result));
    }
  }
  assert_string_equal(r.text, "x@0=10 x@1=10 x@2=10 ");
}

TEST(a_graph_has_one_summary_for_all_replicas) {
  LS_SPEC("V173 M161");
  records r = {{0}};
  LS_OWN(ls_summary_writer, writer) = writer_of(&r);
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_SUMMARY_SCOPE(writer);
    LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){5, 6}, 2));
    ls_nest_release(run_on(strategy, summarize, args, NULL));
  }
  ls_op summary = {0};
  size_t count = 0;
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    if (strcmp(ls_op_type_name(op), "host") != 0) continue;
    summary = op;
    ++count;
  }
  assert_int_equal(count, 1);
  LS_OWN(ls_session, session) = session_of(graph);
  ls_nest_release(session_results(session, ls_nest_op(summary)));
  assert_string_equal(r.text, "x@0=5 ");
}

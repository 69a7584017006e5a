// SPDX-License-Identifier: Apache-2.0
//
// Metrics: values over all examples, whatever the batches.
#include "lockstep/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/monitored_session.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/spec.h"

enum { EXAMPLES = 1000, METRICS = 7 };

// Examples, and what metrics of them are by plain loops.
typedef struct data {
  float values[EXAMPLES], weights[EXAMPLES], scores[EXAMPLES];
  int32_t labels[EXAMPLES], classes[EXAMPLES];
  double wanted[METRICS];
} data;

static void fill(data *d, bool weighted) {
  srand(7);
  double sum = 0, count = 0, right = 0, squares = 0, both = 0, said = 0, so = 0;
  for (int i = 0; i < EXAMPLES; ++i) {
    d->values[i] = (float)(rand() % 100) / 10;
    d->weights[i] = weighted ? (float)(rand() % 3) : 1;
    d->labels[i] = rand() % 2;
    d->classes[i] = rand() % 2;
    d->scores[i] = (float)(rand() % 1000) / 2000 + 0.3F * (float)d->labels[i];
    const double w = d->weights[i];
    sum += w * d->values[i];
    count += w;
    right += w * (d->labels[i] == d->classes[i]);
    squares += w * pow(d->values[i] - d->scores[i], 2);
    both += w * (d->labels[i] && d->classes[i]);
    said += w * d->classes[i];
    so += w * d->labels[i];
  }
  const double wanted[METRICS] = {
      sum,       sum / count, right / count,        both / said,
      both / so, 0,           sqrt(squares / count)};
  for (int i = 0; i < METRICS; ++i)
    d->wanted[i] = wanted[i];
  // Pairs of a true and a false example of which the true one is higher.
  double higher = 0, pairs = 0;
  for (int i = 0; i < EXAMPLES; ++i)
    for (int k = 0; k < EXAMPLES; ++k) {
      const double w = (double)d->weights[i] * d->weights[k];
      if (!d->labels[i] || d->labels[k]) continue;
      pairs += w;
      higher += w * (d->scores[i] > d->scores[k]) +
                w * 0.5 * (d->scores[i] == d->scores[k]);
    }
  d->wanted[5] = higher / pairs;
}

typedef struct fixture {
  ls_graph *graph;
  ls_session *session;
  ls_tensor in[5];  // Values, weights, scores, labels, classes.
  ls_nest metrics;
} fixture;

static ls_nest make_metrics(const fixture *f, ls_tensor w) {
  const ls_tensor so = ls_greater(f->in[3], ls_scalar(LS_DTYPE_I32, 0));
  const ls_tensor said = ls_greater(f->in[4], ls_scalar(LS_DTYPE_I32, 0));
  return LS_LIST(ls_metric_sum(f->in[0], w, NULL),
                 ls_metric_mean(f->in[0], w, "my_mean"),
                 ls_metric_accuracy(f->in[3], f->in[4], w, NULL),
                 ls_metric_precision(so, said, w, NULL),
                 ls_metric_recall(so, said, w, NULL),
                 ls_metric_auc(so, f->in[2], w, LS_SOME(2001), NULL),
                 ls_metric_rmse(f->in[0], f->in[2], w, NULL));
}

static void begin(fixture *f, bool weighted) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_F32,
                                    LS_DTYPE_I32, LS_DTYPE_I32};
  ls_op init;
  expect_ok(ls_graph_create("metrics", &f->graph));
  {
    LS_GRAPH_SCOPE(f->graph);
    for (int i = 0; i < 5; ++i)
      f->in[i] = ls_placeholder(dtypes[i], LS_SHAPE(LS_UNKNOWN_DIM), "in");
    f->metrics = make_metrics(f, weighted ? f->in[1] : ls_no_weights());
    expect_ok(ls_nest_status(f->metrics));
    init = ls_global_initializer();
  }
  expect_ok(ls_session_create(f->graph, &f->session));
  ls_nest_release(session_results(f->session, ls_nest_op(init)));
}

static void end(fixture *f) {
  ls_nest_release(f->metrics);
  ls_session_destroy(f->session);
  ls_graph_destroy(f->graph);
}
LS_OWNED_STRUCT(fixture, end)

static void update(fixture *f, data *d, int from, int count) {
  void *const columns[] = {d->values, d->weights, d->scores, d->labels,
                           d->classes};
  ls_array *arrays[5];
  ls_feed feeds[5];
  ls_nest ops[METRICS], results = ls_none();
  for (int i = 0; i < 5; ++i) {
    expect_ok(ls_array_create_copy(
        i < 3 ? LS_DTYPE_F32 : LS_DTYPE_I32, LS_SHAPE(count),
        (const char *)columns[i] + 4 * from, &arrays[i]));
    feeds[i] = (ls_feed){f->in[i], arrays[i]};
  }
  for (size_t i = 0; i < METRICS; ++i)
    ops[i] = ls_nest_item(ls_nest_item(f->metrics, i), 1);
  LS_OWN(ls_nest, all) = ls_nest_sequence(LS_KIND_LIST, ops, METRICS);
  expect_ok(ls_session_run(f->session, all, feeds, 5, &results));
  ls_nest_release(results);
  for (int i = 0; i < 5; ++i)
    ls_array_release(arrays[i]);
}

static double value_of(fixture *f, size_t metric) {
  LS_OWN(ls_nest, result) = session_results(
      f->session, ls_nest_item(ls_nest_item(f->metrics, metric), 0));
  return ls_array_f64(ls_nest_as_array(result), 0);
}

TEST(values_are_of_all_examples) {
  LS_SPEC("E212");
  static data d;
  for (int weighted = 0; weighted < 2; ++weighted)
    for (int batch = 64; batch <= EXAMPLES; batch *= 4) {
      fill(&d, weighted);
      LS_OWN_BEGUN(fixture, f, begin, weighted);
      for (size_t i = 0; i < METRICS; ++i)
        assert_true(value_of(&f, i) == 0);
      for (int from = 0; from < EXAMPLES; from += batch)
        update(&f, &d, from, EXAMPLES - from < batch ? EXAMPLES - from : batch);
      for (size_t i = 0; i < METRICS; ++i) {
        const double value = value_of(&f, i);
        const double most = i == 5 ? 2e-3 : 1e-6;
        assert_true(fabs(value - d.wanted[i]) <= most * fabs(d.wanted[i]));
      }
    }
}

TEST(rows_of_weight_0_do_not_count_whatever_they_hold) {
  LS_SPEC("E214");
  static data d;
  fill(&d, true);
  LS_OWN_BEGUN(fixture, f, begin, true);
  for (int i = 0; i < EXAMPLES; ++i)
    if (d.weights[i] == 0) {
      d.values[i] = i % 2 ? NAN : INFINITY;
      d.scores[i] = i % 3 ? NAN : -INFINITY;
    }
  update(&f, &d, 0, EXAMPLES);
  for (size_t i = 0; i < METRICS; ++i) {
    const double most = i == 5 ? 2e-3 : 1e-6;
    assert_true(fabs(value_of(&f, i) - d.wanted[i]) <=
                most * fabs(d.wanted[i]));
  }
}

TEST(what_was_seen_is_local) {
  LS_SPEC("E212");
  LS_OWN_BEGUN(fixture, f, begin, false);
  ls_nest leaf = ls_none();
  const size_t all =
      ls_graph_collection(f.graph, LS_COLLECTION_METRIC_VARIABLES, &leaf, 1);
  assert_int_equal(all, 1 + 2 + 2 + 2 + 2 + 4 + 2);
  assert_int_equal(
      ls_graph_collection(f.graph, LS_COLLECTION_LOCAL_VARIABLES, NULL, 0),
      all);
  assert_int_equal(
      ls_graph_collection(f.graph, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0), 0);
  assert_string_equal(ls_variable_name(ls_nest_as_variable(leaf)), "sum/total");
  assert_false(ls_variable_is_trainable(ls_nest_as_variable(leaf)));
}

TEST(what_does_not_fit_is_refused) {
  LS_OWN_BEGUN(fixture, f, begin, false);
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_OWN(ls_nest, made) =
        ls_metric_auc(f.in[3], f.in[2], ls_no_weights(), LS_SOME(1), NULL);
    expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT, "at least 2");
    ls_nest_release(made);
    made = ls_metric_accuracy(f.in[3], f.in[0], ls_no_weights(), NULL);
    expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT, "");
    ls_nest_release(made);
    made = ls_metric_mean(ls_failed_tensor(), ls_no_weights(), NULL);
    expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT, "");
  }
}

// [8] against [8, 1] would be 64 comparisons.
TEST(labels_are_not_broadcast) {
  LS_OWN(ls_graph, graph) = graph_named("shapes");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor no = ls_no_weights();
    const ls_tensor labels = ls_placeholder(LS_DTYPE_BOOL, LS_SHAPE(8), "y"),
                    column = ls_placeholder(LS_DTYPE_BOOL, LS_SHAPE(8, 1), "x"),
                    some = ls_placeholder(LS_DTYPE_BOOL, LS_SHAPE(-1), "z"),
                    score = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(8, 1), "s");
    const ls_nest refused[] = {ls_metric_accuracy(labels, column, no, NULL),
                               ls_metric_precision(labels, column, no, NULL),
                               ls_metric_recall(labels, column, no, NULL),
                               ls_metric_auc(labels, score, no, LS_SOME(9), ""),
                               ls_metric_rmse(labels, score, no, NULL)};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); ++i) {
      expect_status(ls_nest_status(refused[i]), LS_INVALID_ARGUMENT,
                    "of labels bool[8] and predictions");
      ls_nest_release(refused[i]);
    }
    LS_OWN(ls_nest, made) = ls_metric_accuracy(labels, some, no, NULL);
    expect_ok(ls_nest_status(made));
  }
}

// A weight per example would weight the columns of [8, 8].
TEST(weights_have_the_dimensions_of_the_values) {
  LS_OWN(ls_graph, graph) = graph_named("weights");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_shape shapes[] = {LS_SHAPE(8), LS_SHAPE(8, 1), LS_SHAPE(8, 8),
                               LS_SCALAR};
    const ls_tensor x = ls_placeholder(LS_DTYPE_BOOL, LS_SHAPE(8, 8), "x"),
                    score = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(8, 8), "s");
    for (size_t i = 0; i < LS_COUNT_OF(shapes); ++i) {
      const ls_tensor weights = ls_placeholder(LS_DTYPE_F32, shapes[i], "w");
      const ls_nest made[] = {ls_metric_mean(score, weights, NULL),
                              ls_metric_precision(x, x, weights, NULL),
                              ls_metric_auc(x, score, weights, LS_SOME(9), "")};
      for (size_t k = 0; k < LS_COUNT_OF(made); ++k) {
        if (i == 0)
          expect_status(ls_nest_status(made[k]), LS_INVALID_ARGUMENT,
                        "weights f64[8] for values ");
        else
          expect_ok(ls_nest_status(made[k]));
        ls_nest_release(made[k]);
      }
    }
  }
}

MEMORY_TEST(make_an_area) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("area", &graph));
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor labels =
        ls_placeholder(LS_DTYPE_BOOL, LS_SHAPE(-1), "labels");
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
    LS_OWN(ls_nest, made) =
        ls_metric_auc(labels, x, ls_no_weights(), LS_SOME(11), NULL);
    status = ls_nest_status(made);
  }
  return status;
}

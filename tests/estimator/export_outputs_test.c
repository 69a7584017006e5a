// SPDX-License-Identifier: Apache-2.0
//
// Export outputs in a computation for inference.
#include "lockstep/estimator_export.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/own.h"
#include "lockstep/full.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/values.h"

typedef struct model {
  int calls;
  ls_variable *w;
  ls_tensor inside[4];
} model;

static ls_nest dict_of(const char *name, ls_nest leaf) {
  return ls_nest_dict("", &name, &leaf, 1);
}

static ls_status build(void *user, ls_nest inputs, ls_estimator_spec **out) {
  model *m = user;
  ++m->calls;
  LS_OWN(ls_array, two) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){2});
  const ls_status status = ls_variable_create(
      &(ls_variable_options){.name = "w", .initial_array = two}, &m->w);
  LS_RETURN_IF_ERROR(status);
  const ls_tensor y = ls_mul(ls_nest_tensor(inputs, 0), ls_variable_read(m->w));
  m->inside[0] = y;
  m->inside[1] = ls_neg(y);
  m->inside[2] = ls_add(y, y);
  const char *const names[] = {"a", "b"};
  const ls_nest leaves[] = {ls_leaf(m->inside[1]), ls_leaf(m->inside[2])};
  LS_OWN(ls_nest, scores) = dict_of("scores", ls_leaf(y));
  LS_OWN(ls_nest, value) = dict_of("value", ls_leaf(m->inside[2]));
  LS_OWN(ls_nest, both) = ls_nest_dict("", names, leaves, 2);
  const ls_export_output outputs[] = {
      {"classes", LS_EXPORT_CLASSIFICATION, scores},
      {"value", LS_EXPORT_REGRESSION, value},
      {"serving_default", LS_EXPORT_PREDICT, both}};
  ls_estimator_spec_options options = {.mode = LS_MODE_PREDICT,
                                       .predictions = both,
                                       .export_outputs = outputs,
                                       .num_export_outputs = 3};
  return ls_tpu_estimator_spec_create(&options, out);
}

static double fetch(ls_session *session, ls_nest fetch_of) {
  LS_OWN(ls_nest, results) = session_results(session, fetch_of);
  const ls_array *array = ls_nest_as_array(results);
  return array != NULL ? ls_array_f64(array, 0) : 0;
}

static void expect_host_copy(ls_session *session, const model *m, ls_nest leaf,
                             double value) {
  assert_int_equal(leaf.kind, LS_KIND_TENSOR);
  assert_false(ls_op_is_replicated(ls_tensor_op(leaf.as.tensor)));
  for (size_t i = 0; i < 3; ++i) {
    assert_true(ls_op_is_replicated(ls_tensor_op(m->inside[i])));
    assert_false(ls_tensor_equal(m->inside[i], leaf.as.tensor));
  }
  assert_true(fetch(session, leaf) == value);
}

TEST(outputs_become_copies_on_the_host) {
  LS_SPEC("E195");
  ls_export_outputs outputs;
  model m = {0};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 3)));
    expect_ok(ls_rewrite_model_for_inference(LS_REWRITE_FOR_INFERENCE_MODE,
                                             build, &m, x, NULL, &outputs));
  }
  assert_int_equal(m.calls, 1);
  expect_ok(ls_validate_inference_rewrite(graph));
  ls_session *session = session_of(graph);
  fetch(session, ls_nest_op(ls_variable_initializer(m.w)));
  assert_int_equal(outputs.count, 3);
  assert_string_equal(outputs.items[0].key, "classes");
  assert_int_equal(outputs.items[0].kind, LS_EXPORT_CLASSIFICATION);
  // What is absent stays absent.
  assert_int_equal(ls_nest_count(outputs.items[0].tensors), 1);
  expect_host_copy(session, &m,
                   ls_nest_find(outputs.items[0].tensors, "scores"), 6);
  assert_int_equal(outputs.items[1].kind, LS_EXPORT_REGRESSION);
  expect_host_copy(session, &m, ls_nest_find(outputs.items[1].tensors, "value"),
                   12);
  assert_int_equal(outputs.items[2].kind, LS_EXPORT_PREDICT);
  assert_string_equal(outputs.items[2].key, "serving_default");
  expect_host_copy(session, &m, ls_nest_find(outputs.items[2].tensors, "a"),
                   -6);
  expect_host_copy(session, &m, ls_nest_find(outputs.items[2].tensors, "b"),
                   12);
  ls_export_outputs_release(&outputs);
  ls_session_destroy(session);
  ls_variable_release(m.w);
}

TEST(other_modes_and_kinds_are_refused) {
  LS_SPEC("E195");
  ls_export_outputs outputs;
  model m = {0};
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 3)));
    expect_status(ls_rewrite_model_for_inference(LS_MODE_EVAL, build, &m, x,
                                                 NULL, &outputs),
                  LS_INVALID_ARGUMENT, "mode 2");
    assert_int_equal(m.calls, 0);
    assert_int_equal(outputs.count, 0);
  }
  ls_graph_destroy(graph);
  LS_OWN(ls_nest, one) = dict_of("x", ls_none());
  const ls_export_output odd = {"odd", (ls_export_kind)9, one};
  const ls_nest list = ls_export_output_tensors(&odd);
  expect_status(ls_nest_status(list), LS_INVALID_ARGUMENT,
                "'odd' is of kind 9");
  ls_nest_release(list);
  ls_export_output made;
  expect_status(ls_export_output_with(&odd, ls_none(), &made),
                LS_INVALID_ARGUMENT, "'odd' is of kind 9");
}

// Two of a classification, one of a regression.
TEST(outputs_are_rebuilt_of_as_many_tensors) {
  LS_SPEC("E195");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest t = ls_leaf(ls_scalar(LS_DTYPE_F32, 3));
    LS_OWN(ls_nest, scores) = dict_of("scores", t);
    LS_OWN(ls_nest, value) = dict_of("value", t);
    const ls_export_output classes = {"c", LS_EXPORT_CLASSIFICATION, scores};
    const ls_export_output number = {"r", LS_EXPORT_REGRESSION, value};
    LS_OWN(ls_nest, one) = LS_LIST(t);
    LS_OWN(ls_nest, two) = LS_LIST(t, ls_none());
    ls_export_output made;
    expect_status(ls_export_output_with(&classes, one, &made),
                  LS_INVALID_ARGUMENT, "'c' has 2 tensors, got 1");
    expect_status(ls_export_output_with(&number, two, &made),
                  LS_INVALID_ARGUMENT, "'r' has 1 tensors, got 2");
    expect_ok(ls_export_output_with(&classes, two, &made));
    assert_int_equal(ls_nest_count(made.tensors), 1);
    ls_nest_release(made.tensors);
    expect_ok(ls_export_output_with(&number, one, &made));
    assert_int_equal(ls_nest_count(made.tensors), 1);
    ls_nest_release(made.tensors);
  }
}

// ---- Exported --------------------------------------------------------------
// As an estimator does: a graph for CPUs, whose variables have values, and one
// for TPUs, which reads them.
TEST(a_model_is_exported_for_cpus_and_tpus) {
  LS_SPEC("E194");
  ls_graph *graphs[2] = {NULL, NULL};
  ls_tensor x[2];
  ls_nest inputs[2], tensors[2];
  ls_export_outputs outputs;
  model m[2] = {{0}, {0}};
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_graph_create(i == 0 ? "cpu" : "tpu", &graphs[i]));
    LS_GRAPH_SCOPE(graphs[i]);
    x[i] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
    LS_OWN(ls_nest, args) = LS_LIST(ls_leaf(x[i]));
    ls_estimator_spec *spec = NULL;
    if (i == 0) {
      expect_ok(build(&m[0], args, &spec));
      tensors[0] = ls_nest_retain(
          ls_estimator_spec_values(spec)->export_outputs[2].tensors);
      ls_estimator_spec_release(spec);
    } else {
      expect_ok(ls_rewrite_model_for_inference(
          LS_REWRITE_FOR_INFERENCE_MODE, build, &m[1], args, NULL, &outputs));
      tensors[1] = ls_nest_retain(outputs.items[2].tensors);
      ls_export_outputs_release(&outputs);
    }
    inputs[i] = dict_of("x", ls_leaf(x[i]));
  }
  ls_session *session = session_of(graphs[0]);
  fetch(session, ls_nest_op(ls_variable_initializer(m[0].w)));
  const char *const tags[] = {LS_SERVING_TAG, LS_SERVING_TPU_TAG};
  const ls_serving_signature signatures[] = {
      {{LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, tensors[0]}, inputs[0]},
      {{LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, tensors[1]}, inputs[1]}};
  const ls_serving_graph both[] = {
      {.graph = graphs[0], .signatures = &signatures[0], .num_signatures = 1},
      {.graph = graphs[1],
       .tags = tags,
       .num_tags = 2,
       .signatures = &signatures[1],
       .num_signatures = 1,
       .shares_variables = true}};
  char base[] = "estimator-XXXXXX", *path = NULL;
  assert_non_null(mkdtemp(base));
  expect_ok(ls_serving_export(
      &(ls_serving_options){
          .base = base, .graphs = both, .num_graphs = 2, .session = session},
      &path));
  for (size_t i = 1; i <= 2; ++i) {
    ls_serving *s = NULL;
    expect_ok(ls_serving_load(
        path, &(ls_serving_load_options){.tags = tags, .num_tags = i}, &s));
    const ls_nest given =
        dict_of("x", ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2),
                                            (const double[]){3, 5})));
    ls_nest results = ls_none();
    expect_ok(ls_serving_run(s, NULL, given, &results));
    const ls_array *b = ls_nest_as_array(ls_nest_find(results, "b"));
    assert_true(ls_array_f64(b, 0) == 12 && ls_array_f64(b, 1) == 20);
    ls_nest_release(results);
    ls_nest_release(given);
    ls_serving_destroy(s);
  }
  char command[100];
  snprintf(command, sizeof(command), "rm -rf '%s'", base);
  assert_int_equal(system(command), 0);
  ls_text_release(path);
  ls_session_destroy(session);
  for (int i = 0; i < 2; ++i) {
    ls_nest_release(inputs[i]);
    ls_nest_release(tensors[i]);
    ls_variable_release(m[i].w);
    ls_graph_destroy(graphs[i]);
  }
}

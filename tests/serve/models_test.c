// SPDX-License-Identifier: Apache-2.0
//
// The reference models, exported and read back: their bits, for any batch.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/full.h"
#include "support/function.h"
#include "support/served_model.h"

enum { MOST_VARIABLES = 200 };

typedef struct net {
  ls_graph *graph;
  ls_session *session;
  ls_model model;
  ls_tensor x, y;
} net;

static ls_dtype dtype_of(const ls_model_type *type) {
  return type->example_dtype == LS_DTYPE_NONE ? LS_DTYPE_F32
                                              : type->example_dtype;
}

static ls_shape shape_of(const ls_model_type *type, int64_t batch) {
  ls_shape shape = {.rank = type->example_shape.rank + 1, .dim = {batch}};
  memcpy(shape.dim + 1, type->example_shape.dim,
         (size_t)type->example_shape.rank * sizeof(*shape.dim));
  return shape;
}

static net open_net(const ls_model_type *type) {
  net n = {0};
  ls_variable *variables[MOST_VARIABLES];
  expect_ok(ls_graph_create(type->name, &n.graph));
  {
    LS_GRAPH_SCOPE(n.graph);
    expect_ok(ls_model_create(type, NULL, &n.model));
    n.x = ls_placeholder(dtype_of(type), shape_of(type, -1), "x");
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(n.x));
    LS_OWN(ls_nest, logits) = type->logits(args, n.model.self);
    n.y = ls_nest_tensor(logits, 0);
  }
  expect_ok(ls_session_create(n.graph, &n.session));
  const size_t count = type->variables(n.model.self, variables, MOST_VARIABLES);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_nest, results) = session_results(
        n.session, ls_nest_op(ls_variable_initializer(variables[i])));
  }
  return n;
}

static void close_net(net *n) {
  ls_session_destroy(n->session);
  ls_model_destroy(&n->model);
  ls_graph_destroy(n->graph);
}

static ls_array *examples_of(const ls_model_type *type, int64_t batch) {
  if (dtype_of(type) == LS_DTYPE_F32)
    return array_of_numbers(LS_DTYPE_F32, shape_of(type, batch), 5);
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype_of(type), shape_of(type, batch), &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_i64(array, i, i * 37 % 256);
  return array;
}

static void expect_same(const ls_model_type *type, const net *n, ls_serving *s,
                        int64_t batch) {
  LS_OWN(ls_array, x) = examples_of(type, batch);
  LS_OWN(ls_nest, wanted) = ls_none();
  LS_OWN(ls_nest, got) = ls_none();
  expect_ok(ls_session_run(n->session, ls_leaf(n->y),
                           &(ls_feed){.tensor = n->x, .value = x}, 1, &wanted));
  LS_OWN(ls_nest, inputs) =
      served_dict_of("x", ls_nest_array(ls_array_retain(x)));
  expect_ok(ls_serving_run(s, NULL, inputs, &got));
  const ls_array *a = ls_nest_as_array(wanted),
                 *b = ls_nest_as_array(ls_nest_find(got, "y"));
  assert_int_equal(ls_array_size(a), ls_array_size(b));
  assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
}

TEST(reference_models_serve_with_their_bits) {
  static const char *const names[] = {"tiny", "mlp", "cnn", "resnet20", "unet", "gpt"};
  served_make_folder();
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    const ls_model_type *type = ls_model_find(names[i]);
    assert_non_null(type);
    net n = open_net(type);
    const ls_nest inputs = served_dict_of("x", ls_leaf(n.x));
    const ls_nest outputs = served_dict_of("y", ls_leaf(n.y));
    const ls_serving_signature signature = {
        {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
    const ls_serving_graph graph = {
        .graph = n.graph, .signatures = &signature, .num_signatures = 1};
    char base[100], *path = NULL;
    snprintf(base, sizeof(base), "%s/%s", served_folder, names[i]);
    expect_ok(ls_serving_export(&(ls_serving_options){.base = base,
                                                      .graphs = &graph,
                                                      .num_graphs = 1,
                                                      .session = n.session},
                                &path));
    ls_serving *s = NULL;
    expect_ok(ls_serving_load(path, NULL, &s));
    expect_same(type, &n, s, 1);
    expect_same(type, &n, s, 3);
    ls_serving_destroy(s);
    ls_text_release(path);
    ls_nest_release(inputs);
    ls_nest_release(outputs);
    close_net(&n);
  }
  served_remove_folder(served_folder);
}

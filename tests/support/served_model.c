// SPDX-License-Identifier: Apache-2.0
#include "support/served_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/own.h"
#include "lockstep/full.h"

// ---- A model ---------------------------------------------------------------
// y = relu(x w + b), trained somewhere else.
static ls_variable *make_variable(const char *name, ls_shape shape,
                                  uint32_t seed) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, array) = array_of_numbers(LS_DTYPE_F32, shape, seed);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = array}, &variable));
  return variable;
}

static void initialize(const served_model *m) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, all) = LS_LIST(ls_nest_op(ls_variable_initializer(m->w)),
                                 ls_nest_op(ls_variable_initializer(m->b)),
                                 ls_nest_op(ls_variable_initializer(m->other)));
  expect_ok(ls_session_run(m->session, all, NULL, 0, &results));
}

served_model served_open_model(void) {
  served_model m = {0};
  expect_ok(ls_graph_create("model", &m.graph));
  {
    LS_GRAPH_SCOPE(m.graph);
    m.w = make_variable("layer/w", LS_SHAPE(3, 2), 1);
    m.b = make_variable("layer/b", LS_SHAPE(2), 2);
    m.other = make_variable("other", LS_SHAPE(2), 3);
    m.x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 3), "x");
    const ls_tensor product = ls_matmul(m.x, ls_variable_read(m.w));
    m.y = ls_relu(ls_add(product, ls_variable_read(m.b)));
    m.loss =
        ls_reduce_sum(ls_mul(m.y, ls_variable_read(m.other)), LS_AXES(0, 1));
  }
  expect_ok(ls_session_create(m.graph, &m.session));
  initialize(&m);
  return m;
}

void served_close_model(served_model *m) {
  ls_session_destroy(m->session);
  ls_variable_release(m->w);
  ls_variable_release(m->b);
  ls_variable_release(m->other);
  ls_graph_destroy(m->graph);
}

ls_nest served_dict_of(const char *name, ls_nest leaf) {
  return ls_nest_dict("", &name, &leaf, 1);
}

// ---- Exporting it ----------------------------------------------------------
char served_folder[64];

void served_make_folder(void) {
  snprintf(served_folder, sizeof(served_folder), "export-XXXXXX");
  assert_non_null(mkdtemp(served_folder));
}

void served_remove_folder(const char *path) {
  char command[600];
  snprintf(command, sizeof(command), "rm -rf '%s'", path);
  assert_int_equal(system(command), 0);
}

// The lists point into it: it stays where it is.
void served_ask(served_request *r, const served_model *m) {
  *r = (served_request){0};
  r->inputs = served_dict_of("features", ls_leaf(m->x));
  r->outputs = served_dict_of("y", ls_leaf(m->y));
  r->signature = (ls_serving_signature){
      .output = {.key = LS_SERVING_DEFAULT, .tensors = r->outputs},
      .inputs = r->inputs};
  r->graph = (ls_serving_graph){
      .graph = m->graph, .signatures = &r->signature, .num_signatures = 1};
  r->options = (ls_serving_options){.base = served_folder,
                                    .graphs = &r->graph,
                                    .num_graphs = 1,
                                    .session = m->session};
}

void served_drop(served_request *r) {
  ls_nest_release(r->inputs);
  ls_nest_release(r->outputs);
}

bool served_is_there(const char *base, const char *name) {
  char path[500];
  snprintf(path, sizeof(path), "%s/%s", base, name);
  return access(path, F_OK) == 0;
}

bool served_is_empty(const char *path) {
  char command[600];
  snprintf(command, sizeof(command), "test -z \"$(ls -A '%s')\"", path);
  return system(command) == 0;
}

ls_status served_export(ls_tensor (*make)(ls_tensor x), ls_shape shape,
                        bool onnx, char **out_path) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, shape, "x");
    inputs = served_dict_of("x", ls_leaf(x));
    outputs = served_dict_of("y", ls_leaf(make(x)));
  }
  expect_ok(ls_graph_take_error(graph));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  return ls_serving_export(
      &(ls_serving_options){.base = served_folder,
                            .graphs = &one,
                            .num_graphs = 1,
                            .onnx = onnx ? LS_FLAG_ON : LS_FLAG_OFF,
                            .stablehlo = onnx ? LS_FLAG_OFF : LS_FLAG_ON},
      out_path);
}

char *served_read(const char *base, const char *name, size_t *out_size) {
  char path[300];
  snprintf(path, sizeof(path), "%s/%s", base, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 16);
  assert_non_null(text);
  const size_t size = fread(text, 1, (1 << 16) - 1, file);
  fclose(file);
  if (out_size != NULL) *out_size = size;
  return text;
}

// ---- Running it ------------------------------------------------------------
static ls_array *session_value(const served_model *m, ls_array *x) {
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_session_run(m->session, ls_leaf(m->y),
                           &(ls_feed){.tensor = m->x, .value = x}, 1,
                           &results));
  return ls_array_retain(ls_nest_as_array(results));
}

void served_expect_serves(ls_serving *s, const served_model *m, int64_t rows) {
  LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 7);
  LS_OWN(ls_array, wanted) = session_value(m, x);
  LS_OWN(ls_nest, inputs) =
      served_dict_of("features", ls_nest_array(ls_array_retain(x)));
  LS_OWN(ls_nest, outputs) = ls_none();
  expect_ok(ls_serving_run(s, NULL, inputs, &outputs));
  const ls_array *got = ls_nest_as_array(ls_nest_find(outputs, "y"));
  assert_non_null(got);
  assert_int_equal(ls_array_size(got), ls_array_size(wanted));
  assert_memory_equal(ls_array_data(got), ls_array_data(wanted),
                      ls_array_size(wanted));
}

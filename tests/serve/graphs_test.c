// SPDX-License-Identifier: Apache-2.0
//
// What graphs may hold that are exported: functions on the host, variables of
// strategies, gradients of one's own.
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/served_model.h"
#include "support/spec.h"

// ---- The host --------------------------------------------------------------
static ls_status same_type(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  *num_out = 1;
  out[0] = in[0];
  return ls_ok();
}

static ls_status add_one(ls_host_call *call) {
  const ls_type type = call->input_types[0];
  const float *in = call->inputs[0];
  float *out = call->outputs[0];
  for (int64_t i = 0; i < type.shape.dim[0] * 3; ++i)
    out[i] = in[i] + 1;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel plus_one = {
    .name = "plus_one", .infer = same_type, .start = add_one};

// A function on the host is found by its name; what it keeps is not exported.
TEST(functions_on_the_host_are_given_again) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  ls_tensor y;
  {
    LS_GRAPH_SCOPE(m.graph);
    y = ls_relu(ls_op_output(ls_host_call_add(&plus_one, NULL, &m.x, 1), 0));
  }
  const ls_nest outputs = served_dict_of("y", ls_leaf(y));
  r.signature.output.tensors = outputs;
  char *path = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  ls_serving *s = NULL;
  expect_status(ls_serving_load(path, NULL, &s), LS_INVALID_ARGUMENT,
                "plus_one");
  const ls_host_kernel *const kernels[] = {&plus_one};
  expect_ok(ls_serving_load(
      path, &(ls_serving_load_options){.kernels = kernels, .num_kernels = 1},
      &s));
  LS_OWN(ls_nest, results) = ls_none();
  const ls_nest inputs = served_dict_of(
      "features", ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, 3),
                                         (const double[]){1, -3, 2})));
  expect_ok(ls_serving_run(s, NULL, inputs, &results));
  const ls_array *got = ls_nest_as_array(ls_nest_find(results, "y"));
  assert_true(ls_array_f64(got, 0) == 2 && ls_array_f64(got, 1) == 0 &&
              ls_array_f64(got, 2) == 3);
  ls_serving_destroy(s);
  ls_text_release(path);
  path = NULL;
  r.options.base = "host-export";
  r.options.onnx = LS_FLAG_ON;
  expect_status(ls_serving_export(&r.options, &path), LS_UNIMPLEMENTED,
                "(host)");
  assert_true(served_is_empty("host-export"));
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
  served_remove_folder("host-export");
}

static void keep(ls_object *object) { (void)object; }

TEST(objects_of_a_process_are_refused) {
  static const ls_object_type kept_type = {.name = "kept", .destroy = keep};
  ls_object kept;
  ls_object_init(&kept, &kept_type);
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  ls_tensor y;
  {
    LS_GRAPH_SCOPE(m.graph);
    y = ls_op_output(ls_host_call_add(&plus_one, &kept, &m.x, 1), 0);
  }
  const ls_nest outputs = served_dict_of("y", ls_leaf(y));
  r.signature.output.tensors = outputs;
  char *path = NULL;
  expect_status(ls_serving_export(&r.options, &path), LS_UNIMPLEMENTED,
                "is an object of this process");
  assert_true(served_is_empty(served_folder));
  ls_nest_release(outputs);
  served_drop(&r);
  served_close_model(&m);
  assert_true(ls_object_is_unique(&kept));
  served_remove_folder(served_folder);
}

// ---- Strategies ------------------------------------------------------------
// A mirrored variable is one of its common name.
TEST(variables_of_a_strategy_are_exported_as_one) {
  served_make_folder();
  ls_variable *w = NULL;
  ls_tensor x, y;
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_STRATEGY_SCOPE(strategy);
    ls_array *array = array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){3});
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .initial_array = array}, &w));
    ls_array_release(array);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
    y = ls_mul(x, ls_variable_read(w));
  }
  ls_session *session = session_of(graph);
  ls_nest results =
      session_results(session, ls_nest_op(ls_variable_initializer(w)));
  ls_nest_release(results);
  const ls_nest inputs = served_dict_of("x", ls_leaf(x)),
                outputs = served_dict_of("y", ls_leaf(y));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  char *path = NULL, file[200];
  expect_ok(ls_serving_export(&(ls_serving_options){.base = served_folder,
                                                    .graphs = &one,
                                                    .num_graphs = 1,
                                                    .session = session},
                              &path));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  const ls_nest given = served_dict_of(
      "x",
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1), (const double[]){5})));
  results = ls_none();
  expect_ok(ls_serving_run(s, NULL, given, &results));
  assert_true(ls_array_f64(ls_nest_as_array(ls_nest_find(results, "y")), 0) ==
              15);
  snprintf(file, sizeof(file), "%s/variables.safetensors", path);
  ls_saved_file *saved = NULL;
  ls_saved_entry entry;
  expect_ok(ls_saved_file_open(file, &saved));
  expect_ok(ls_saved_file_entry(saved, 0, &entry));
  assert_string_equal(entry.name, "w");
  ls_saved_file_close(saved);
  ls_nest_release(results);
  ls_nest_release(given);
  ls_serving_destroy(s);
  ls_text_release(path);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_session_destroy(session);
  ls_variable_release(w);
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
  served_remove_folder(served_folder);
}

// ---- Gradients -------------------------------------------------------------
static ls_nest squared(ls_nest inputs, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(inputs, 0);
  return ls_leaf(ls_mul(x, x));
}

static void expect_first(ls_nest results, const char *name, double value) {
  const ls_array *array = ls_nest_as_array(ls_nest_find(results, name));
  assert_non_null(array);
  assert_true(ls_array_f64(array, 0) == value);
}

static ls_nest square_it(ls_nest none, void *user) {
  (void)none;
  return ls_custom_gradient(squared, keep_gradients, NULL,
                            ls_leaf(*(const ls_tensor *)user));
}

// So it is in regions.
static ls_nest in_a_branch(ls_tensor x) {
  const ls_tensor first = ls_reshape(
      ls_slice_axis(ls_reshape(x, LS_SHAPE(-1)), 0, 0, 1), LS_SCALAR);
  return ls_cond(ls_greater(first, ls_scalar(LS_DTYPE_F32, 2)), square_it,
                 square_it, &x);
}

// What serves has no gradients: it is as if they were not there.
TEST(gradients_of_ones_own_are_left_out) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  ls_nest leaves[3];
  {
    LS_GRAPH_SCOPE(m.graph);
    leaves[0] = ls_custom_gradient(squared, keep_gradients, NULL, ls_leaf(m.x));
    leaves[1] = ls_leaf(ls_neg(ls_nest_tensor(leaves[0], 0)));
    leaves[2] = in_a_branch(m.x);
  }
  const char *const names[] = {"square", "y", "branch"};
  const ls_nest outputs = ls_nest_dict("", names, leaves, 3);
  r.signature.output.tensors = outputs;
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  const ls_nest inputs = served_dict_of(
      "features", ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, 3),
                                         (const double[]){3, 1, 2})));
  ls_nest results = ls_none();
  expect_ok(ls_serving_run(s, NULL, inputs, &results));
  expect_first(results, "square", 9);
  expect_first(results, "y", -9);
  expect_first(results, "branch", 9);
  ls_nest_release(results);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_serving_destroy(s);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

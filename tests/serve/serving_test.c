// SPDX-License-Identifier: Apache-2.0
//
// Exported programs, read back.
#include "lockstep/serving.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/served_model.h"
#include "support/spec.h"

TEST(what_was_exported_serves_any_batch) {
  LS_SPEC("E194");
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  assert_true(served_is_there(path, "serve.ls"));
  assert_true(served_is_there(path, "variables.safetensors"));
  assert_false(served_is_there(path, "assets.extra"));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  ls_serving_info info;
  assert_int_equal(ls_serving_num_signatures(s), 1);
  expect_ok(ls_serving_signature_info(s, 0, &info));
  assert_string_equal(info.key, "serving_default");
  assert_int_equal(info.kind, LS_EXPORT_PREDICT);
  assert_string_equal(info.inputs[0].name, "features");
  assert_int_equal(info.inputs[0].type.shape.dim[0], -1);
  assert_string_equal(info.outputs[0].name, "y");
  expect_status(ls_serving_signature_info(s, 1, &info), LS_OUT_OF_RANGE, "1");
  served_expect_serves(s, &m, 1);
  served_expect_serves(s, &m, 5);
  ls_serving_destroy(s);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// Only what signatures need, and its values.
TEST(what_nobody_asks_for_is_not_exported) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  char *path = NULL, file[200], command[400];
  expect_ok(ls_serving_export(&r.options, &path));
  snprintf(file, sizeof(file), "%s/variables.safetensors", path);
  ls_saved_file *saved = NULL;
  ls_saved_info info;
  expect_ok(ls_saved_file_open(file, &saved));
  ls_saved_file_describe(saved, &info);
  assert_int_equal(info.num_entries, 2);
  ls_saved_file_close(saved);
  snprintf(command, sizeof(command), "grep -q -e other -e assign '%s/serve.ls'",
           path);
  assert_int_not_equal(system(command), 0);
  ls_text_release(path);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- Values ----------------------------------------------------------------
TEST(values_come_from_a_checkpoint) {
  LS_SPEC("E196");
  served_make_folder();
  served_model m = served_open_model();
  char file[100];
  snprintf(file, sizeof(file), "%s/all.safetensors", served_folder);
  expect_ok(
      ls_saver_save(&(ls_saver){.variables = (ls_variable *const[]){m.w, m.b},
                                .num_variables = 2,
                                .session = m.session},
                    file));
  served_request r;
  served_ask(&r, &m);
  r.options.session = NULL;
  char *path = NULL;
  expect_status(ls_serving_export(&r.options, &path), LS_INVALID_ARGUMENT,
                "give a checkpoint or a session");
  r.options.checkpoint = file;
  expect_ok(ls_serving_export(&r.options, &path));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  served_expect_serves(s, &m, 2);
  ls_serving_destroy(s);
  ls_text_release(path);
  // One that is not there: which, for what, and where it was looked for.
  const ls_nest loss = served_dict_of("loss", ls_leaf(m.loss));
  r.signature.output.tensors = loss;
  r.options.mode = "eval";
  expect_status(ls_serving_export(&r.options, &path), LS_FAILED_PRECONDITION,
                "'eval' needs variable 'other'");
  expect_status(ls_serving_export(&r.options, &path), LS_FAILED_PRECONDITION,
                file);
  assert_null(path);
  ls_nest_release(loss);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- Tags ------------------------------------------------------------------
static ls_nest double_it(ls_nest args, void *user) {
  const served_model *m = user;
  const ls_tensor y =
      ls_relu(ls_add(ls_matmul(ls_nest_tensor(args, 0), ls_variable_read(m->w)),
                     ls_variable_read(m->b)));
  return LS_LIST(ls_leaf(y));
}

TEST(two_graphs_share_their_variables) {
  LS_SPEC("E194");
  served_make_folder();
  served_model m = served_open_model(), tpu = served_open_model();
  served_request r;
  served_ask(&r, &m);
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(tpu.graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(tpu.x));
    expect_ok(ls_rewrite(double_it, &tpu, x, NULL, &outputs));
  }
  const ls_nest inputs = served_dict_of("features", ls_leaf(tpu.x));
  const ls_nest named =
      served_dict_of("y", ls_leaf(ls_nest_tensor(outputs, 0)));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, named}, inputs};
  const char *const tags[] = {LS_SERVING_TPU_TAG, LS_SERVING_TAG};
  const ls_serving_graph graphs[] = {r.graph,
                                     {.graph = tpu.graph,
                                      .tags = tags,
                                      .num_tags = 2,
                                      .signatures = &signature,
                                      .num_signatures = 1,
                                      .shares_variables = true}};
  r.options.graphs = graphs;
  r.options.num_graphs = 2;
  char *path = NULL;
  r.options.mode = "eval";
  expect_status(ls_serving_export(&r.options, &path), LS_UNIMPLEMENTED,
                "mode 'eval'");
  r.options.mode = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  assert_true(served_is_there(path, "serve.ls"));
  assert_true(served_is_there(path, "serve+tpu.ls"));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(
      path, &(ls_serving_load_options){.tags = tags, .num_tags = 2}, &s));
  served_expect_serves(s, &m, 4);
  ls_serving_destroy(s);
  const char *none = "gpu";
  expect_status(
      ls_serving_load(
          path, &(ls_serving_load_options){.tags = &none, .num_tags = 1}, &s),
      LS_NOT_FOUND, "'serve+tpu.ls'");
  assert_null(s);
  expect_status(ls_serving_load("no-such-folder", NULL, &s), LS_NOT_FOUND,
                "no-such-folder");
  ls_text_release(path);
  ls_nest_release(named);
  ls_nest_release(inputs);
  served_drop(&r);
  served_close_model(&tpu);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- Threads ---------------------------------------------------------------
enum { THREADS = 4, CALLS = 20 };

typedef struct caller {
  pthread_t thread;
  ls_runtime *runtime;
  ls_serving *serving;
  int64_t rows;
  ls_nest inputs, outputs;
  ls_status status;
} caller;

static void *call_often(void *user) {
  caller *c = user;
  ls_runtime_make_current(c->runtime);
  for (int i = 0; i < CALLS && ls_status_is_ok(c->status); ++i)
    c->status = ls_serving_run(c->serving, NULL, c->inputs, &c->outputs);
  return NULL;
}

TEST(threads_serve_side_by_side) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  caller callers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    caller *c = &callers[i];
    *c = (caller){
        .runtime = ls_runtime_current(), .serving = s, .status = ls_ok()};
    c->inputs = served_dict_of(
        "features", ls_nest_array(array_of_numbers(LS_DTYPE_F32,
                                                   LS_SHAPE(i % 3 + 1, 3), 7)));
    assert_int_equal(pthread_create(&c->thread, NULL, call_often, c), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(callers[i].thread, NULL);
    expect_ok(callers[i].status);
    const ls_array *got =
        ls_nest_as_array(ls_nest_find(callers[i].outputs, "y"));
    assert_int_equal(ls_array_shape(got).dim[0], i % 3 + 1);
    ls_nest_release(callers[i].outputs);
    ls_nest_release(callers[i].inputs);
  }
  served_expect_serves(s, &m, 2);
  ls_serving_destroy(s);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- Damage ----------------------------------------------------------------
TEST(damaged_programs_are_refused) {
  served_make_folder();
  static const char good[] =
      "// {\"format\":\"lockstep serving program\",\"version\":1,\"tags\":[],"
      "\"signatures\":[{\"key\":\"k\",\"kind\":\"predict\",\"inputs\":[{"
      "\"name\":\"x\",\"tensor\":\"x:0\"}],\"outputs\":[{\"name\":\"y\","
      "\"tensor\":\"y:0\"}]}]}\n"
      "graph build \"g\" {\n"
      "  %1 = placeholder() {dtype = f32, shape = shape[?]} # \"x\" : f32[?]\n"
      "  %2 = relu(%1) # \"y\" : f32[?]\n"
      "}\n";
  static const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"// {", "//  ", "serve.ls:1:"},
      {"serving program", "some program", "no lockstep serving program"},
      {":1,", ":2,", "a version"},
      {"predict", "neglect", "no such kind"},
      {"\"x:0\"", "\"z:0\"", "'z:0'"},
      {"\"x:0\"", "\"x:1\"", "'x:1'"},
      {"\"x:0\"", "\"x\"", "'x'"},
      {"\"x:0\"", "\"y:0\"", "no placeholder"},
      {"\"key\":", "\"kee\":", "\"key\""},
      {"\"outputs\":", "\"outlets\":", "no list of values"},
      {"\"signatures\":", "\"signs\":", "no list of signatures"},
      {"graph build", "graph built", "line 2"},
  };
  char path[100];
  snprintf(path, sizeof(path), "%s/serve.ls", served_folder);
  for (size_t i = 0; i <= sizeof(cases) / sizeof(*cases); ++i) {
    char text[2000];
    const bool whole = i == sizeof(cases) / sizeof(*cases);
    const char *at = whole ? good : strstr(good, cases[i].from);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good,
             whole ? "" : cases[i].to, whole ? at : at + strlen(cases[i].from));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    ls_serving *s = NULL;
    if (whole)
      expect_ok(ls_serving_load(served_folder, NULL, &s));
    else
      expect_status(ls_serving_load(served_folder, NULL, &s),
                    LS_INVALID_ARGUMENT, cases[i].says);
    ls_serving_destroy(s);
  }
  served_remove_folder(served_folder);
}

// ---- Memory ----------------------------------------------------------------
static ls_status round_trip(void *user) {
  (void)user;
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  ls_serving *s = NULL;
  LS_OWN(printed, path) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  ls_tensor x = ls_failed_tensor(), y = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
    y = ls_relu(x);
  }
  ls_status status = ls_graph_take_error(graph);
  LS_OWN(ls_nest, inputs) = served_dict_of("x", ls_leaf(x));
  LS_OWN(ls_nest, outputs) = served_dict_of("y", ls_leaf(y));
  if (ls_status_is_ok(status)) status = ls_nest_status(inputs);
  if (ls_status_is_ok(status)) status = ls_nest_status(outputs);
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  if (ls_status_is_ok(status)) status = ls_session_create(graph, &session);
  char base[100];
  static int count;
  snprintf(base, sizeof(base), "%s/%d", served_folder, count++);
  if (ls_status_is_ok(status))
    status = ls_serving_export(
        &(ls_serving_options){
            .base = base, .graphs = &one, .num_graphs = 1, .session = session},
        &path);
  if (ls_status_is_ok(status)) status = ls_serving_load(path, NULL, &s);
  ls_serving_destroy(s);
  return status;
}

TEST(any_allocation_may_fail) {
  served_make_folder();
  REFUSE_EACH(round_trip, NULL);
  served_remove_folder(served_folder);
}

// SPDX-License-Identifier: Apache-2.0
//
// Debug switches that show what lowering makes: LS_DEBUG=graph, LS_DUMP and
// LS_VERIFY.
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/function.h"
#include "runtime/own.h"
#include "support/place.h"

// Variables of the environment, and what is said and written.
typedef struct world {
  const char *variables[6];  // Name, value, ...
  char log[2000], files[2000], last[2000];
  bool is_full;
} world;

static void keep_line(void *user, const ls_log_line *line) {
  world *it = user;
  const size_t used = strlen(it->log);
  snprintf(it->log + used, sizeof(it->log) - used, "%s: %s\n", line->source,
           line->text);
}

static const char *look_up(void *user, const char *name) {
  const world *it = user;
  for (size_t i = 0; i < 6 && it->variables[i] != NULL; i += 2)
    if (strcmp(it->variables[i], name) == 0) return it->variables[i + 1];
  return NULL;
}

static ls_status make_directories(void *user, const char *path) {
  (void)user;
  assert_string_equal(path, "dumps");
  return ls_ok();
}

static ls_status keep_file(void *user, const char *path, const void *data,
                           size_t size) {
  world *it = user;
  if (it->is_full) return LS_STATUS(LS_UNAVAILABLE, "the disk is full");
  const size_t used = strlen(it->files);
  snprintf(it->files + used, sizeof(it->files) - used, "%s\n", path);
  snprintf(it->last, sizeof(it->last), "%.*s", (int)size, (const char *)data);
  return ls_ok();
}

// sin(x) + x, beside something that nothing uses.
static ls_nest work(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_exp(x);
  return ls_leaf(ls_add(ls_sin(x), x));
}

static ls_status call_once(world *it) {
  ls_array *array = NULL;
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .log = keep_line,
      .log_user = it,
      .environment = look_up,
      .environment_user = it,
      .file_system = &(ls_file_system){.make_directories = make_directories,
                                       .write = keep_file,
                                       .user = it},
      .threads = 1});
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_function_create(
      &(ls_function_options){.call = work, .name = "a/b"}, &function));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &array));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(array));
  return ls_function_call(function, args, &result);
}

TEST(a_level_is_what_is_logged) {
  world none = {0}, lowered = {.variables = {"LS_DEBUG", "graph"}},
        passes = {.variables = {"LS_DEBUG", "graph:2"}};
  expect_ok(call_once(&none));
  expect_ok(call_once(&lowered));
  expect_ok(call_once(&passes));
  assert_string_equal(none.log, "");
  assert_string_equal(lowered.log, "graph: 'a/b' after rematerialize: 3 ops\n");
  assert_string_equal(passes.log, "graph: 'a/b' after lower: 3 ops\n"
                                  "graph: 'a/b' after drop_unused: 3 ops\n"
                                  "graph: 'a/b' after windows: 3 ops\n"
                                  "graph: 'a/b' after join_pools: 3 ops\n"
                                  "graph: 'a/b' after join_products: 3 ops\n"
                                  "graph: 'a/b' after rematerialize: 3 ops\n");
}

TEST(graphs_are_written_after_each_pass) {
  world it = {.variables = {"LS_DUMP", "dumps", "LS_VERIFY", "1"}};
  expect_ok(call_once(&it));
  assert_string_equal(it.files, "dumps/0001-a_b-lower.ls\n"
                                "dumps/0002-a_b-drop_unused.ls\n"
                                "dumps/0003-a_b-windows.ls\n"
                                "dumps/0004-a_b-join_pools.ls\n"
                                "dumps/0005-a_b-join_products.ls\n"
                                "dumps/0006-a_b-rematerialize.ls\n");
  expect_contains(it.last, "graph lowered \"a/b\"");
  expect_contains(it.last, "sin(%1)");
}

TEST(a_graph_that_cannot_be_written_is_an_error) {
  world it = {.variables = {"LS_DUMP", "dumps"}, .is_full = true};
  ls_status status = call_once(&it);
  expect_contains(ls_status_message(status), "for LS_DUMP");
  expect_status(status, LS_UNAVAILABLE, "the disk is full");
}

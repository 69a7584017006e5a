// SPDX-License-Identifier: Apache-2.0
#include "support/function.h"

#include "support/expect.h"

ls_function *function_of(ls_callback call, void *user) {
  ls_function *function = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = call, .user = user, .name = "f"},
      &function));
  return function;
}

ls_function *unnamed_function(ls_callback call, void *user) {
  ls_function *function = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = call, .user = user}, &function));
  return function;
}

ls_nest call_results(ls_function *function, ls_nest args) {
  ls_nest results = ls_none();
  expect_ok(ls_function_call(function, args, &results));
  return results;
}

ls_nest session_results(ls_session *session, ls_nest fetches) {
  ls_nest results = ls_none();
  expect_ok(ls_session_run(session, fetches, NULL, 0, &results));
  return results;
}

char *graph_text(const ls_graph *graph) {
  char *text = NULL;
  expect_ok(ls_graph_print(graph, &text));
  return text;
}

ls_graph *graph_named(const char *name) {
  ls_graph *graph = NULL;
  expect_ok(ls_graph_create(name, &graph));
  return graph;
}

ls_session *session_of(ls_graph *graph) {
  ls_session *session = NULL;
  expect_ok(ls_session_create(graph, &session));
  return session;
}

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

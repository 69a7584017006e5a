// SPDX-License-Identifier: Apache-2.0
// Functions, graphs and sessions for tests.
#ifndef LS_TESTS_SUPPORT_FUNCTION_H_
#define LS_TESTS_SUPPORT_FUNCTION_H_

#include "lockstep/function.h"
#include "lockstep/session.h"

// A function 'f' of this callback. The caller's.
ls_function *function_of(ls_callback call, void *user);
// The same with the name that functions have by themselves.
ls_function *unnamed_function(ls_callback call, void *user);
// The results of a call, and of a run without feeds. The caller's.
ls_nest call_results(ls_function *function, ls_nest args);
ls_nest session_results(ls_session *session, ls_nest fetches);
// The text of a graph, released with ls_text_release.
char *graph_text(const ls_graph *graph);
// An empty build graph of this name. The caller's.
ls_graph *graph_named(const char *name);
// A session of this graph. The caller's.
ls_session *session_of(ls_graph *graph);

#endif  // LS_TESTS_SUPPORT_FUNCTION_H_

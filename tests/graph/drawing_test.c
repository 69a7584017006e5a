// SPDX-License-Identifier: Apache-2.0
//
// Drawings in DOT: read again by a small parser of the part of the language
// that they use.
#include <ctype.h>

#include "distribute/own.h"
#include "graph/text/text.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/variable.h"
#include "support/function.h"
#include "support/values.h"

// ---- A parser --------------------------------------------------------------
enum { MOST = 256, WORD = 80 };

typedef struct reader {
  const char *at;
  char declared[MOST][WORD], used[MOST][WORD], frames[MOST][WORD];
  size_t num_declared, num_used, num_frames;
  int depth, deepest;
} reader;

static void skip_blanks(reader *r) {
  while (isspace((unsigned char)*r->at))
    ++r->at;
}

static bool accept(reader *r, const char *text) {
  skip_blanks(r);
  if (strncmp(r->at, text, strlen(text)) != 0) return false;
  r->at += strlen(text);
  return true;
}

static void expect_mark(reader *r, const char *text) {
  if (!accept(r, text)) fail_msg("wanted '%s' at: %.60s", text, r->at);
}

// Reads a word, or a string in quotes.
static void read_word(reader *r, char word[WORD]) {
  size_t size = 0;
  skip_blanks(r);
  const bool is_quoted = accept(r, "\"");
  while (is_quoted ? *r->at != '"'
                   : isalnum((unsigned char)*r->at) || *r->at == '_') {
    assert_int_not_equal(*r->at, '\0');
    if (is_quoted && *r->at == '\\') ++r->at;
    assert_true(size + 1 < WORD);
    word[size++] = *r->at++;
  }
  word[size] = '\0';
  if (is_quoted)
    ++r->at;
  else
    assert_true(size > 0);
}

// Reads [name=value, ...], if there is one.
static void read_attributes(reader *r) {
  char name[WORD], value[WORD];
  if (!accept(r, "[")) return;
  do {
    read_word(r, name);
    expect_mark(r, "=");
    read_word(r, value);
  } while (accept(r, ","));
  expect_mark(r, "]");
}

static void read_body(reader *r) {
  char word[WORD];
  expect_mark(r, "{");
  if (++r->depth > r->deepest) r->deepest = r->depth;
  while (!accept(r, "}")) {
    assert_true(r->num_declared + 1 < MOST && r->num_used + 2 < MOST);
    if (accept(r, "subgraph ")) {
      read_word(r, r->frames[r->num_frames++]);
      read_body(r);
      continue;
    }
    read_word(r, word);
    if (accept(r, "->")) {
      strcpy(r->used[r->num_used++], word);
      read_word(r, r->used[r->num_used++]);
    } else if (accept(r, "=")) {
      read_word(r, word);
    } else if (strcmp(word, "node") != 0) {
      strcpy(r->declared[r->num_declared++], word);
    }
    read_attributes(r);
    expect_mark(r, ";");
  }
  --r->depth;
}

static bool is_among(const char *word, char words[MOST][WORD], size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (strcmp(words[i], word) == 0) return true;
  return false;
}

// Reads a drawing, and checks that each end of an arrow is declared, and that
// nothing is declared twice.
static void read_drawing(const char *text, reader *r) {
  char name[WORD];
  *r = (reader){.at = text};
  expect_mark(r, "digraph");
  read_word(r, name);
  read_body(r);
  skip_blanks(r);
  assert_int_equal(*r->at, '\0');
  for (size_t i = 0; i < r->num_used; ++i)
    if (!is_among(r->used[i], r->declared, r->num_declared))
      fail_msg("'%s' is not declared", r->used[i]);
  for (size_t i = 0; i < r->num_declared; ++i)
    assert_false(is_among(r->declared[i], r->declared, i));
  for (size_t i = 0; i < r->num_frames; ++i) {
    assert_false(is_among(r->frames[i], r->frames, i));
    assert_memory_equal(r->frames[i], "cluster_", 8);
  }
}

// ---- Drawings --------------------------------------------------------------
static char *drawing_of(const ls_graph *graph) {
  char *text = NULL;
  expect_ok(ls_graph_print_dot(graph, &text));
  return text;
}

LS_OWNED_(drawing_text, char *, ls_text_release(*ls_owned))

TEST(scopes_are_nested_frames_and_variables_cylinders) {
  LS_OWN(ls_held_graph, graph) = NULL;
  expect_ok(ls_graph_parse("variable @\"a/w\" : f32[2] trainable\n"
                           "graph build \"g\" {\n"
                           "  %1 = read_variable() {variable = @\"a/w\"} # "
                           "\"a/read\" : f32[2]\n"
                           "  %2 = neg(%1) # \"top\" : f32[2]\n"
                           "  %3 = neg(%2) # \"a/b/neg\" : f32[2]\n"
                           "  %4 = assign(%3) {variable = @\"a/w\"} # "
                           "\"a/assign\" : f32[2]\n"
                           "}\n",
                           NULL, 0, &graph));
  LS_OWN(drawing_text, text) = drawing_of(graph);
  assert_string_equal(text, "digraph \"g\" {\n"
                            "  node [shape=box];\n"
                            "  n0_2 [label=\"neg\\ntop\"];\n"
                            "  subgraph cluster_1 {\n"
                            "    label=\"a\";\n"
                            "    v1 [label=\"a/w\\nf32[2]\", shape=cylinder];\n"
                            "    n0_1 [label=\"read_variable\\na/read\"];\n"
                            "    n0_4 [label=\"assign\\na/assign\"];\n"
                            "    subgraph cluster_2 {\n"
                            "      label=\"b\";\n"
                            "      n0_3 [label=\"neg\\na/b/neg\"];\n"
                            "    }\n"
                            "  }\n"
                            "  v1 -> n0_1 [label=\"f32[2]\"];\n"
                            "  n0_1 -> n0_2 [label=\"f32[2]\"];\n"
                            "  n0_2 -> n0_3 [label=\"f32[2]\"];\n"
                            "  n0_3 -> n0_4 [label=\"f32[2]\"];\n"
                            "  n0_4 -> v1 [label=\"f32[2]\"];\n"
                            "}\n");
}

static ls_nest goes_on(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 9)));
}

static ls_nest add_weight(ls_nest values, void *user) {
  LS_NAME_SCOPE("inner");
  ls_variable *weight = user;
  return LS_LIST(
      ls_leaf(ls_add(ls_nest_tensor(values, 0), ls_variable_read(weight))));
}

static ls_nest loop_in_scope(ls_nest args, void *user) {
  LS_NAME_SCOPE("outer");
  return ls_while(goes_on, add_weight, user,
                  LS_LIST(ls_leaf(ls_nest_tensor(args, 0))), 0);
}

TEST(bodies_of_loops_are_frames_in_the_frame_of_their_scope) {
  LS_OWN(ls_variable, weight) = f32_variable("weight", 1);
  LS_OWN(ls_function, f) = function_of(loop_in_scope, weight);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1})));
  LS_OWN(ls_nest, results) = call_results(f, args);
  LS_OWN(drawing_text, text) = drawing_of(ls_function_graph(f));
  reader r;
  read_drawing(text, &r);
  // outer, the loop's two regions, and inner in one of them.
  assert_int_equal(r.num_frames, 4);
  assert_int_equal(r.deepest, 4);
  expect_contains(text, "label=\"outer\"");
  expect_contains(text, "shape=cylinder");
  assert_true(is_among("v1", r.used, r.num_used));
}

// Names from texts may have any form.
TEST(odd_names_are_drawn) {
  static const char *const names[] = {
      "/",   "//",          "a/",         "/a", "a//b",       "a\\\"b/c",
      "a/a", "a/a/a/a/a/a", "\xc3\xa9/x", "",   "a b/{c}/->;"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    ls_graph *graph = NULL;
    expect_ok(ls_graph_create("odd", &graph));
    ls_tensor x = {0};
    {
      LS_GRAPH_SCOPE(graph);
      x = ls_scalar(LS_DTYPE_F32, 1);
    }
    ls_node *node = graph->nodes[0];
    (void)x;
    node->rendered = names[i];
    LS_OWN(drawing_text, text) = drawing_of(graph);
    reader r;
    read_drawing(text, &r);
    assert_int_equal(r.num_declared, 1);
    node->rendered = NULL;
    ls_graph_destroy(graph);
  }
}

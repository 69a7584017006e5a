// SPDX-License-Identifier: Apache-2.0
//
// The parser of graph text: any bytes give a graph or one status, and what
// parses prints back the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "graph_fuzz: %s\n", what);
  abort();
}

static void must(ls_status status, const char *what) {
  if (!ls_status_is_ok(status))
    fprintf(stderr, "%s\n", ls_status_message(status));
  check(ls_status_is_ok(status), what);
}

// The parsed graph's own text must read back to the same text.
static void check_round_trip(const ls_graph *graph) {
  char *text = NULL, *again = NULL, *drawing = NULL;
  ls_graph *copy = NULL;
  must(ls_graph_print(graph, &text), "a parsed graph does not print");
  must(ls_graph_parse(text, NULL, 0, &copy), "printed text does not parse");
  must(ls_graph_print(copy, &again), "a graph parsed twice does not print");
  check(strcmp(text, again) == 0, "the text changed on its way");
  must(ls_graph_print_dot(graph, &drawing), "a parsed graph is not drawn");
  ls_text_release(drawing);
  ls_text_release(again);
  ls_graph_destroy(copy);
  ls_text_release(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  check(text != NULL, "no memory");
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  ls_graph *graph = NULL;
  const ls_status status = ls_graph_parse(text, NULL, 0, &graph);
  if (ls_status_is_ok(status)) {
    check_round_trip(graph);
    ls_graph_destroy(graph);
  } else {
    const ls_code code = ls_status_code(status);
    check(graph == NULL, "a status and a graph");
    check(code == LS_INVALID_ARGUMENT || code == LS_UNIMPLEMENTED,
          ls_status_message(status));
    ls_status_free(status);
  }
  free(text);
  return 0;
}

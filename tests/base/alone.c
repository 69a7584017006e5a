// SPDX-License-Identifier: Apache-2.0
//
// A program of base's objects alone: it links, and nests show tensors by the
// table with which their graph begins, whatever else a graph is.
#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"

typedef struct plain_graph {
  ls_graph_head head;
  ls_array *value;
} plain_graph;

static void print_tensor(ls_tensor tensor, char *buffer, size_t size) {
  snprintf(buffer, size, "tensor %llu", (unsigned long long)tensor.ref);
}

static void print_op(ls_op op, char *buffer, size_t size) {
  snprintf(buffer, size, "op of mine %llu", (unsigned long long)op.id);
}

static ls_array *known_value(ls_tensor tensor) {
  return ((const plain_graph *)(const void *)tensor.graph)->value;
}

static const ls_tensor_vtable tensors = {
    .print = print_tensor, .print_op = print_op, .known_value = known_value};

static int faults;

static void expect_print(ls_nest leaf, const char *wanted) {
  char text[100];
  ls_nest_print(leaf, text, sizeof(text));
  if (strcmp(text, wanted) == 0) return;
  fprintf(stderr, "a nest is printed as '%s', not as '%s'\n", text, wanted);
  ++faults;
}

static void expect_ok(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  ++faults;
}

int main(void) {
  const double seven = 7;
  plain_graph graph = {.head = {&tensors}};
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(NULL, &runtime));
  if (runtime == NULL) return 1;
  ls_runtime_make_current(runtime);
  expect_ok(
      ls_array_create_copy(LS_DTYPE_F64, (ls_shape){0}, &seven, &graph.value));
  const ls_tensor tensor = {.graph = (ls_graph *)(void *)&graph, .ref = 3};
  const ls_nest leaf = {.kind = LS_KIND_TENSOR, .as.tensor = tensor};
  double number = 0;
  expect_print(leaf, "tensor 3");
  expect_print(ls_nest_op((ls_op){tensor.graph, 5}), "op of mine 5");
  expect_print(ls_nest_op((ls_op){NULL, 5}), "op 5");
  expect_print((ls_nest){.kind = LS_KIND_TENSOR}, "failed tensor");
  expect_ok(ls_nest_to_number(leaf, &number));
  if (number != 7) ++faults;
  ls_array_release(graph.value);
  expect_ok(ls_runtime_destroy(runtime));
  return faults > 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/graph.h"
#include "lockstep/host.h"
#include "lockstep/slices.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

static void expect_null(ls_status status, const char *text) {
  expect_status(status, LS_INVALID_ARGUMENT, text);
}

static void calls_of_graph_refuse_null(void **state) {
  (void)state;
  expect_null(ls_graph_create(some, NULL),
              "ls_graph_create: out_graph is NULL");
  expect_null(ls_graph_take_error(NULL), "ls_graph_take_error: graph is NULL");
  expect_null(ls_graph_error(NULL), "ls_graph_error: graph is NULL");
  expect_null(ls_graph_lookup_op(NULL, some, some),
              "ls_graph_lookup_op: graph is NULL");
  expect_null(ls_graph_lookup_op(some, NULL, some),
              "ls_graph_lookup_op: name is NULL");
  expect_null(ls_graph_lookup_op(some, some, NULL),
              "ls_graph_lookup_op: out_op is NULL");
  expect_null(ls_graph_add_to_collection(NULL, some, (ls_nest){0}),
              "ls_graph_add_to_collection: graph is NULL");
  expect_null(ls_graph_add_to_collection(some, NULL, (ls_nest){0}),
              "ls_graph_add_to_collection: name is NULL");
  expect_null(ls_op_attr((ls_op){0}, NULL, some), "ls_op_attr: name is NULL");
  expect_null(ls_op_attr((ls_op){0}, some, NULL),
              "ls_op_attr: out_attr is NULL");
  expect_null(ls_op_set_attr((ls_op){0}, NULL), "ls_op_set_attr: attr is NULL");
  expect_null(ls_graph_record_loss_reduction(NULL, some),
              "ls_graph_record_loss_reduction: graph is NULL");
  expect_null(ls_graph_record_loss_reduction(some, NULL),
              "ls_graph_record_loss_reduction: reduction is NULL");
  expect_null(ls_graph_print(NULL, some), "ls_graph_print: graph is NULL");
  expect_null(ls_graph_print(some, NULL), "ls_graph_print: out_text is NULL");
  expect_null(ls_graph_print_gathered(NULL, some),
              "ls_graph_print_gathered: graph is NULL");
  expect_null(ls_graph_print_gathered(some, NULL),
              "ls_graph_print_gathered: out_text is NULL");
  expect_null(ls_graph_print_dot(NULL, some),
              "ls_graph_print_dot: graph is NULL");
  expect_null(ls_graph_print_dot(some, NULL),
              "ls_graph_print_dot: out_text is NULL");
  expect_null(ls_graph_parse(NULL, some, 1, some),
              "ls_graph_parse: text is NULL");
  expect_null(ls_graph_parse(some, some, 1, NULL),
              "ls_graph_parse: out_graph is NULL");
  expect_null(ls_graph_parse(some, NULL, 1, some),
              "ls_graph_parse: kernels is NULL");
  expect_null(ls_graph_verify(NULL), "ls_graph_verify: graph is NULL");
}

static void calls_of_slices_refuse_null(void **state) {
  (void)state;
  expect_null(ls_slices_parts_of((ls_nest){0}, NULL),
              "ls_slices_parts_of: out_parts is NULL");
}

static void calls_of_host_refuse_null(void **state) {
  (void)state;
  expect_null(ls_host_give(NULL, 0, some), "ls_host_give: call is NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_graph_refuse_null),
      cmocka_unit_test(calls_of_slices_refuse_null),
      cmocka_unit_test(calls_of_host_refuse_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

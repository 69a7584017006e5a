// SPDX-License-Identifier: Apache-2.0
//
// What nothing uses goes: of replicas their arguments and results.
#include "support/expect.h"

#include <string.h>

#include "graph/graph.h"
#include "graph/passes/passes.h"
#include "support/function.h"

#define PARAMETER(id, shape, index)                                            \
  "  %" id " = parameter() {dtype = f32, shape = shape[" shape                 \
  "], index = " index "} : f32[" shape "]\n"
#define ARGUMENT(id, index)                                                    \
  "    %" id " = parameter() {dtype = f32, shape = shape[], index = " index    \
  "} varying : f32[]\n"

static void expect_dropped(const char *text, const char *want) {
  LS_OWN(ls_held_graph, graph) = NULL;
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  expect_ok(ls_drop_unused(graph));
  expect_ok(ls_graph_verify(graph));
  LS_OWN(printed, printed) = graph_text(graph);
  assert_string_equal(printed, want);
}

// Of every kind of argument and result the second one is used.
static const char kinds_text[] = "graph lowered \"g\" {\n" PARAMETER("1", "",
                                                                     "0")
    PARAMETER("2", "2", "1") PARAMETER(
        "3", "2",
        "2") "  %4:8 = replicate(%1, %1, %1, %1, %2, %3) {replicas = 2, "
             "num_split = 2, "
             "num_wide_split = 2, num_gathered = 2, num_wide_gathered = 2} "
             "(graph "
             "lowered \"r\" {\n" ARGUMENT("1", "0") ARGUMENT("2", "1")
                 ARGUMENT("3", "2") ARGUMENT(
                     "4",
                     "3") "    %5 = neg(%1) varying : f32[]\n"
                          "    %6 = neg(%2) varying : f32[]\n"
                          "    %7 = neg(%3) varying : f32[]\n"
                          "    %8 = neg(%4) varying : f32[]\n"
                          "    %9 = all_reduce(%7) {reduce = \"sum\"} : f32[]\n"
                          "    %10 = all_reduce(%8) {reduce = \"sum\"} : "
                          "f32[]\n"
                          "    return %5, %6, %7, %8, %9, %10\n"
                          "  }) : f32[], f32[], f32[], f32[], f32[2], f32[2], "
                          "f32[], f32[]\n"
                          "  return %4:3, %4:5, %4:7\n"
                          "}\n";
static const char kinds_left[] =
    "graph lowered \"g\" {\n" PARAMETER("1", "", "0") PARAMETER("2", "2", "1")
        PARAMETER(
            "3", "2",
            "2") "  %4:4 = replicate(%1, %1, %3) {replicas = 2, num_split = 1, "
                 "num_wide_split = 1, num_gathered = 1, num_wide_gathered = 1} "
                 "(graph "
                 "lowered \"r\" {\n" ARGUMENT("1", "0") ARGUMENT(
                     "2",
                     "1") "    %3 = neg(%1) varying : f32[]\n"
                          "    %4 = neg(%2) varying : f32[]\n"
                          "    %5 = all_reduce(%4) {reduce = \"sum\"} : f32[]\n"
                          "    return %3, %4, %5\n"
                          "  }) : f32[], f32[], f32[2], f32[]\n"
                          "  return %4:1, %4:2, %4:3\n"
                          "}\n";

TEST(arguments_and_results_of_replicas_go_unless_used) {
  expect_dropped(kinds_text, kinds_left);
}

// The first segment's result is what the second one does not use any more.
static const char segments_text[] = "graph lowered \"g\" {\n" PARAMETER(
    "1", "2",
    "0") "  %2:2 = replicate(%1) {replicas = 2, num_wide_split = 1, "
         "num_wide_gathered = 2} (graph lowered \"a\" {\n" ARGUMENT(
             "1",
             "0") "    %2 = neg(%1) varying : f32[]\n"
                  "    %3 = exp(%1) varying : f32[]\n"
                  "    return %2, %3\n"
                  "  }) : f32[2], f32[2]\n"
                  "  %3:2 = replicate(%2, %2:1) {replicas = 2, num_wide_split "
                  "= 2, "
                  "num_wide_gathered = 2} (graph lowered \"b\" {\n" ARGUMENT(
                      "1", "0")
                      ARGUMENT("2", "1") "    %3 = neg(%1) varying : f32[]\n"
                                         "    %4 = exp(%2) varying : f32[]\n"
                                         "    return %3, %4\n"
                                         "  }) : f32[2], f32[2]\n"
                                         "  return %3:1\n"
                                         "}\n";
static const char segments_left[] = "graph lowered \"g\" {\n" PARAMETER(
    "1", "2",
    "0") "  %2 = replicate(%1) {replicas = 2, num_wide_split = 1, "
         "num_wide_gathered = 1} (graph lowered \"a\" {\n" ARGUMENT(
             "1",
             "0") "    %2 = exp(%1) varying : f32[]\n"
                  "    return %2\n"
                  "  }) : f32[2]\n"
                  "  %3 = replicate(%2) {replicas = 2, num_wide_split = 1, "
                  "num_wide_gathered = 1} (graph lowered \"b\" {\n" ARGUMENT(
                      "1", "0") "    %2 = exp(%1) varying : f32[]\n"
                                "    return %2\n"
                                "  }) : f32[2]\n"
                                "  return %3\n"
                                "}\n";

TEST(what_one_segment_does_not_use_the_last_does_not_make) {
  expect_dropped(segments_text, segments_left);
}

// An argument that one class uses is there for all.
static const char classes_text[] = "graph lowered \"g\" {\n" PARAMETER(
    "1", "",
    "0") "  %2:4 = replicate(%1, %1, %1, %1, %1, %1) {replicas = 2, num_split "
         "= 3, "
         "num_gathered = 2, classes = [0, 1]} (graph lowered \"a\" "
         "{\n" ARGUMENT("1", "0") ARGUMENT("2", "1") ARGUMENT(
             "3", "2") "    %4 = neg(%1) varying : f32[]\n"
                       "    return %4, %3\n"
                       "  }, graph lowered \"b\" {\n" ARGUMENT("1", "0")
                           ARGUMENT("2", "1") ARGUMENT(
                               "3", "2") "    %4 = neg(%2) varying : f32[]\n"
                                         "    return %4, %3\n"
                                         "  }) : f32[], f32[], f32[], f32[]\n"
                                         "  return %2:1\n"
                                         "}\n";
static const char classes_left[] = "graph lowered \"g\" {\n" PARAMETER(
    "1", "",
    "0") "  %2:2 = replicate(%1, %1, %1, %1) {replicas = 2, num_split = 2, "
         "num_gathered = 1, classes = [0, 1]} (graph lowered \"a\" "
         "{\n" ARGUMENT("1", "0") ARGUMENT(
             "2", "1") "    %3 = neg(%1) varying : f32[]\n"
                       "    return %3\n"
                       "  }, graph lowered \"b\" {\n" ARGUMENT("1", "0")
                           ARGUMENT("2",
                                    "1") "    %3 = neg(%2) varying : f32[]\n"
                                         "    return %3\n"
                                         "  }) : f32[], f32[]\n"
                                         "  return %2:1\n"
                                         "}\n";

TEST(what_one_class_uses_stays_for_all) {
  expect_dropped(classes_text, classes_left);
}

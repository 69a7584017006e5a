// SPDX-License-Identifier: Apache-2.0
//
// Where outside compiled ops are: on the host of the core that their cluster
// exchanges values with, as the gathered graph shows.
#include <stdio.h>
#include <string.h>

#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/replicate.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"

static ls_nest square(ls_nest args, void *user) {
  const ls_tensor x = args.as.tensor;
  LS_NAME_SCOPE(user);
  return ls_leaf(ls_mul(x, x));
}

static ls_nest square_elsewhere(ls_nest args, void *user) {
  const ls_tensor x = args.as.tensor;
  LS_NAME_SCOPE(user);
  LS_DEVICE_SCOPE("/task:7");
  return ls_leaf(ls_mul(x, x));
}

// A cluster without a core, one with core 1 and its gradient, one that is
// placed by itself.
static ls_nest three_clusters(ls_nest args, void *user) {
  (void)user;
  const ls_nest x = ls_nest_item(args, 0);
  const ls_nest first = ls_outside_compilation(square, "first", x);
  ls_nest second, gradient;
  {
    LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:1");
    second = ls_outside_compilation(square, "second", x);
  }
  expect_ok(ls_gradients(
      &second, 1, &x, 1,
      &(ls_gradient_options){.name = "gradient", .colocate_with_ops = true},
      &gradient));
  const ls_nest third = ls_outside_compilation(square_elsewhere, "third", x);
  return LS_LIST(first, second, third, gradient);
}

// The line of the gathered graph's text that has this and tells places.
static void line_of(const char *text, const char *part, char *line,
                    size_t size) {
  line[0] = '\0';
  for (const char *at = text; at != NULL && line[0] == '\0';) {
    const char *end = strchr(at, '\n');
    const size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
    char one[2048];
    assert_true(length < sizeof(one));
    memcpy(one, at, length);
    one[length] = '\0';
    if (strstr(one, part) != NULL && strstr(one, "_copies") != NULL)
      snprintf(line, size, "%s", one);
    at = end != NULL ? end + 1 : NULL;
  }
}

static void expect_places(const ls_graph *graph, const char *op,
                          const char *places) {
  char *text = NULL, line[2048], wanted[256];
  expect_ok(ls_graph_print_gathered(graph, &text));
  line_of(text, op, line, sizeof(line));
  assert_non_null(strstr(line, op));
  if (places == NULL) {
    assert_null(strstr(line, "_places"));
  } else {
    snprintf(wanted, sizeof(wanted), "_places = strings[%s]", places);
    if (strstr(line, wanted) == NULL) print_error("%s in %s\n", wanted, line);
    assert_non_null(strstr(line, wanted));
  }
  ls_text_release(text);
}

// Replica r's core k is on host (r + k) mod 2.
static ls_device_assignment *crossing(int hosts, int replicas) {
  static const int apart[][2] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};
  static const int near[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  LS_OWN(ls_topology, topology) = make_topology(hosts, 4);
  return make_assignment(topology, replicas, 2, hosts > 1 ? apart : near);
}

TEST(copies_are_on_the_host_of_their_core) {
  LS_SPEC("O64 O65 O69");
#define CPU(task) "\"/task:" #task "/device:CPU:0\""
  static const struct {
    const char *op, *of_one, *of_two;
  } rows[] = {{"\"first/", CPU(0), CPU(0) ", " CPU(1)},
              {"\"second/", CPU(1), CPU(1) ", " CPU(0)},
              {"\"gradient/", CPU(1), CPU(1) ", " CPU(0)},
              {"\"third/", CPU(7), CPU(7) ", " CPU(7)}};
  for (int hosts = 1; hosts <= 2; ++hosts)
    for (int replicas = 1; replicas <= 2; ++replicas) {
      LS_OWN(computation, c) = {0};
      LS_OWN(ls_device_assignment, assignment) = crossing(hosts, replicas);
      computation_open(&c);
      LS_OWN(ls_nest, inputs) = computation_inputs((size_t)replicas);
      expect_ok(ls_replicate(three_clusters, NULL, inputs,
                             &(ls_replicate_options){.assignment = assignment},
                             &c.outputs));
      for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
        expect_places(c.graph, rows[i].op,
                      hosts == 1      ? NULL
                      : replicas == 1 ? rows[i].of_one
                                      : rows[i].of_two);
      // Values do not depend on it.
      for (int r = 0; r < replicas; ++r) {
        const double x = r + 1;
        for (size_t i = 0; i < 4; ++i)
          assert_true(computation_output(&c, (size_t)r, i) ==
                      (i < 3 ? x * x : 2 * x));
      }
    }
}

// Reads a computation whose outside op is said to be at a core.
static ls_status gather_text(const char *hosts, const char *core) {
  char text[1024];
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(printed, gathered) = NULL;
  snprintf(
      text, sizeof(text),
      "graph build \"g\" {\n"
      "  %%1 = tpu_replicate_metadata() {num_replicas = 2, "
      "num_cores_per_replica = 2, _tpu_replicate = \"c\", _hosts = "
      "strings[%s], host_compute_core = strings[\"%s\"]}\n"
      "  %%2 = constant() {value = f32[] [1.0], _tpu_replicate = \"c\", "
      "_xla_outside_compilation = \"0\"} # \"k\" : f32[]\n"
      "  %%3 = neg(%%2) {_tpu_replicate = \"c\", _xla_outside_compilation = "
      "\"0\"} # \"n\" : f32[]\n"
      "  %%4 = neg(%%3) {_tpu_replicate = \"c\"} # \"m\" : f32[]\n"
      "  %%5:2 = tpu_replicated_output(%%4) {num_replicas = 2} : f32[], f32[]\n"
      "}\n",
      hosts, core);
  LS_RETURN_IF_ERROR(ls_graph_parse(text, NULL, 0, &graph));
  return ls_graph_print_gathered(graph, &gathered);
}

TEST(a_core_that_no_replica_has_is_refused) {
  const char *two = "\"/job:a\", \"/job:b\"";
  expect_ok(gather_text(two, "0:0"));
  expect_status(gather_text(two, "0:1"), LS_INVALID_ARGUMENT,
                "'0' is at core 1: there is 1 core for each of 2 replicas");
  expect_status(gather_text("", "0:0"), LS_INVALID_ARGUMENT,
                "there are 0 cores");
}

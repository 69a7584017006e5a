// SPDX-License-Identifier: Apache-2.0
//
// Choosing cross-device ops by what devices there are.
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/placed.h"

enum { MOST = 10 };

// A machine with GPUs; their links are the caller's.
typedef struct machine {
  char names[MOST][48];
  ls_machine_device devices[MOST];
  ls_machine it;
  const char *wanted[MOST];
} machine;

static void gpus(machine *m, size_t count) {
  *m = (machine){.it = {.devices = m->devices, .num_devices = count}};
  for (size_t i = 0; i < count; ++i) {
    snprintf(m->names[i], sizeof(m->names[i]), "/device:GPU:%zu", i);
    m->devices[i].name = m->wanted[i] = m->names[i];
  }
}

static const int cube[8][5] = {
    {1, 2, 3, 4, 0}, {0, 2, 3, 5, 1}, {0, 1, 3, 6, 2}, {0, 1, 2, 7, 3},
    {0, 5, 6, 7, 4}, {1, 4, 6, 7, 5}, {2, 4, 5, 7, 6}, {3, 4, 5, 6, 7}};

// Links as in a cube; with `own` each device lists itself as well.
static void link_cube(machine *m, bool own) {
  for (size_t i = 0; i < 8; ++i) {
    m->devices[i].links = cube[i];
    m->devices[i].num_links = own ? 5 : 4;
  }
}

static void expect_by_links(const machine *m, size_t count, const char *name) {
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_cross_device_by_links(m->wanted, count, &m->it, &ops));
  assert_string_equal(ls_cross_device_name(ops), name);
}

TEST(unused_and_unfit_devices_are_told) {
  LS_SPEC("M103");
  machine m;
  LS_OWN_BEGUN(logged_runtime, log, logged_runtime_begin);
  gpus(&m, 3);
  expect_by_links(&m, 2, "nccl");
  assert_int_equal(count_logged(&log, "info: device " LOCAL_DEVICE
                                      "GPU:2 is visible and "
                                      "not used"),
                   1);
  assert_int_equal(count_logged(&log, "warning"), 0);
  m.wanted[2] = "/gpu:7";
  expect_by_links(&m, 3, "reduce_to_one");
  assert_int_equal(count_logged(&log,
                                "warning: device " LOCAL_DEVICE "GPU:7 is not "
                                "visible"),
                   1);
  m.wanted[2] = m.devices[2].name = "/cpu:0";
  expect_by_links(&m, 3, "reduce_to_one");
  assert_int_equal(
      count_logged(&log, "warning: device " LOCAL_DEVICE "CPU:0 is no GPU"), 1);
}

TEST(a_cube_mesh_copies_in_a_hierarchy) {
  LS_SPEC("M104");
  for (int own = 0; own < 2; ++own) {
    machine m;
    gpus(&m, 9);
    link_cube(&m, own == 1);
    expect_by_links(&m, 8, "hierarchical_copy");
    expect_by_links(&m, 9, "hierarchical_copy");  // The first eight count.
    expect_by_links(&m, 7, "nccl");
    static const int other[] = {0, 1, 2, 4, 3};
    m.devices[3].links = other;
    expect_by_links(&m, 8, "nccl");
  }
  // As many packs as devices.
  LS_OWN(logged_runtime, log) = {0};
  machine m;
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_cross_device, ops) = NULL;
  logged_runtime_begin(&log);
  gpus(&m, 8);
  link_cube(&m, false);
  expect_ok(ls_cross_device_by_links(m.wanted, 8, &m.it, &ops));
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value,
                                     (ls_destinations){0}, &made));
  }
  expect_contains(log.text, "num_packs 8");
}

TEST(devices_of_one_kind_are_collective) {
  LS_SPEC("M105");
  static const char *const cpus[] = {"/cpu:0", "/cpu:1"};
  static const char *const two[] = {"/gpu:0", "/gpu:1"};
  static const char *const mixed[] = {"/cpu:0", "/gpu:0"};
  static const ls_machine_device visible[] = {{.name = "/gpu:0"},
                                              {.name = "/gpu:1"}};
  static const struct {
    const char *const *devices;
    ls_machine machine;
    bool in_graph;
    const char *name, *implementation;
  } cases[] = {
      {two, {visible, 2, 0, true}, false, "collective", "NCCL"},
      {two, {visible, 2, 2, true}, false, "collective", "NCCL"},
      {two, {visible, 2, 1, true}, false, "collective", "RING"},
      {cpus, {visible, 2, 0, true}, false, "collective", "RING"},
      {cpus, {visible, 2, 0, true}, true, "reduce_to_one", NULL},
      {mixed, {visible, 2, 0, true}, false, "reduce_to_one", NULL},
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN_BEGUN(logged_runtime, log, logged_runtime_begin);
    LS_OWN(ls_cross_device, ops) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    if (cases[c].in_graph) {
      LS_GRAPH_SCOPE(graph);
      expect_ok(
          ls_cross_device_auto(cases[c].devices, 2, &cases[c].machine, &ops));
    } else
      expect_ok(
          ls_cross_device_auto(cases[c].devices, 2, &cases[c].machine, &ops));
    assert_string_equal(ls_cross_device_name(ops), cases[c].name);
    {
      LS_GRAPH_SCOPE(graph);
      LS_OWN(ls_nest, value) =
          placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
      LS_OWN(ls_nest, made) = ls_none();
      expect_ok(ls_cross_device_reduce(ops, LS_REDUCE_SUM, value,
                                       (ls_destinations){0}, &made));
      for (size_t i = 0; i < 2; ++i)
        expect_fetched(made, i, (double[]){3}, 1);
    }
    if (cases[c].implementation != NULL)
      expect_contains(log.text, cases[c].implementation);
  }
  ls_cross_device *ops = NULL;
  expect_status(ls_cross_device_auto(NULL, 0, &(ls_machine){0}, &ops),
                LS_INVALID_ARGUMENT, "no device");
}

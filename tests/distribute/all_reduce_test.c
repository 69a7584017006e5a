// SPDX-License-Identifier: Apache-2.0
//
// All-reduce sets: what they are made with, which values go together, the
// graphs of their algorithms, and the bits, which are those of every other set.
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/values.h"

static const ls_destinations at_value;  // None given.

static ls_cross_device *by(const char *algorithm, long long num_packs) {
  ls_cross_device *ops = NULL;
  expect_ok(ls_all_reduce_ops_create(
      &(ls_all_reduce_options){.algorithm = algorithm,
                               .num_packs = LS_SOME(num_packs)},
      &ops));
  return ops;
}

static ls_nest reduced(ls_cross_device *ops, ls_reduce_op op, ls_nest value,
                       ls_destinations where) {
  ls_nest made = ls_none();
  expect_ok(ls_cross_device_reduce(ops, op, value, where, &made));
  return made;
}

// ---- Options ---------------------------------------------------------------
TEST(options_are_checked) {
  LS_SPEC("M83");
  ls_cross_device *ops = NULL;
  LS_OWN_BEGUN(logged_runtime, it, logged_runtime_begin);
  expect_status(ls_all_reduce_ops_create(
                    &(ls_all_reduce_options){.algorithm = "ring"}, &ops),
                LS_INVALID_ARGUMENT, "algorithm 'ring'");
  assert_null(ops);
  expect_status(ls_hierarchical_copy_create(LS_SOME(-2), &ops),
                LS_INVALID_ARGUMENT, "hierarchical_copy with num_packs -2");
  expect_status(ls_nccl_all_reduce_create(LS_SOME(-1), &ops),
                LS_INVALID_ARGUMENT, "nccl with num_packs -1");
  // The defaults, and ready-made ones, as the log of a batch shows them.
  for (int i = 0; i < 3; ++i) {
    const char *name = i == 2 ? "hierarchical_copy" : "nccl";
    expect_ok(i == 0   ? ls_all_reduce_ops_create(NULL, &ops)
              : i == 1 ? ls_nccl_all_reduce_create((ls_opt){0}, &ops)
                       : ls_hierarchical_copy_create((ls_opt){0}, &ops));
    assert_string_equal(ls_cross_device_name(ops), name);
    ls_graph *graph = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      LS_OWN(ls_nest, value) =
          placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
      ls_nest_release(reduced(ops, LS_REDUCE_SUM, value, at_value));
    }
    ls_graph_destroy(graph);
    ls_cross_device_release(ops);
    char text[200];
    snprintf(text, sizeof(text),
             "algorithm %s, num_packs 1, agg_small_max_bytes 0, "
             "agg_small_max_group 10\n",
             name);
    expect_contains(it.text, text);
  }
}

// ---- One value -------------------------------------------------------------
TEST(results_stay_where_values_are) {
  LS_SPEC("M84 M85 M88 M70");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_cross_device, ops) = by("nccl", 0);
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("GPU", LS_DTYPE_F32, 3, 0, (double[]){1, 2, 4});
    // In another order they are the same devices.
    static const char *const turned[] = {"/gpu:2", "/gpu:0", "/gpu:1"};
    const ls_destinations where = {.devices = turned, .num_devices = 3};
    ls_nest made = reduced(ops, LS_REDUCE_MEAN, value, where);
    for (size_t i = 0; i < 3; ++i) {
      char name[16];
      snprintf(name, sizeof(name), "GPU:%zu", (i + 2) % 3);
      assert_string_equal(component_on(made, i), name);
      expect_fetched(made, i, (double[]){(double)(7 * (1.0f / 3))}, 1);
      // Each divides on its own device.
      assert_int_equal(count_ops(graph, "mul", name), 1);
    }
    ls_nest_release(made);
    assert_int_equal(count_ops(graph, "add_n", NULL), 1);
    // Elsewhere: to the first destination, and from there to the others.
    static const char *const two[] = {"/gpu:1", "/gpu:7"};
    made = reduced(ops, LS_REDUCE_MEAN, value,
                   (ls_destinations){.devices = two, .num_devices = 2});
    assert_int_equal(count_ops(graph, "add_n", "GPU:1"), 1);
    assert_int_equal(count_ops(graph, "mul", NULL), 4);
    assert_string_equal(component_on(made, 1), "GPU:7");
    expect_fetched(made, 1, (double[]){(double)(7 * (1.0f / 3))}, 1);
    ls_nest_release(made);
  }
}

// As many components as destinations, but two of them on one device.
TEST(components_that_share_a_device_are_all_counted) {
  LS_SPEC("M85");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_cross_device, ops) = by("nccl", 0);
  {
    LS_GRAPH_SCOPE(graph);
    static const char *const two[] = {"/gpu:0", "/gpu:1"};
    static const char *const same[] = {"/gpu:0", "/gpu:0"};
    const ls_nest items[] = {ls_leaf(ls_scalar(LS_DTYPE_F32, 3)),
                             ls_leaf(ls_scalar(LS_DTYPE_F32, 4))};
    LS_OWN(ls_nest, value) =
        ls_nest_distributed_on(LS_PER_REPLICA, items, same, 2);
    const ls_destinations where = {.devices = two, .num_devices = 2};
    LS_OWN(ls_nest, list) = ls_none();
    expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, &value, &where,
                                           1, &list));
    for (size_t i = 0; i < 2; ++i)
      expect_fetched(ls_nest_item(list, 0), i, (double[]){7}, 1);
    // Where it is: once.
    LS_OWN(ls_nest, made) = reduced(ops, LS_REDUCE_SUM, value, at_value);
    assert_int_equal(ls_distributed_count(made), 1);
    expect_fetched(made, 0, (double[]){7}, 1);
  }
}

TEST(values_on_cpus_go_to_one_device) {
  LS_SPEC("M89");
  ls_graph *graph = graph_named("g");
  LS_OWN(ls_cross_device, ops) = by("hierarchical_copy", 0);
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("CPU", LS_DTYPE_F32, 3, 0, (double[]){1, 2, 4});
    LS_OWN(ls_nest, made) = reduced(ops, LS_REDUCE_MEAN, value, at_value);
    assert_int_equal(count_ops(graph, "add_n", "CPU:0"), 1);
    assert_int_equal(count_ops(graph, "mul", NULL), 1);
    assert_int_equal(count_ops(graph, "identity", NULL), 3);
  }
  ls_graph_destroy(graph);
  // And so in eager.
  LS_OWN(ls_nest, value) =
      placed_values("GPU", LS_DTYPE_F32, 3, 0, (double[]){1, 2, 4});
  LS_OWN(ls_nest, made) = reduced(ops, LS_REDUCE_MEAN, value, at_value);
  expect_numbers(made,
                 (double[]){(double)(7 * (1.0f / 3)), (double)(7 * (1.0f / 3)),
                            (double)(7 * (1.0f / 3))},
                 3);
}

// ---- Batches ---------------------------------------------------------------
TEST(values_of_a_batch_go_together) {
  LS_SPEC("M86 M87 M93 M74");
  LS_OWN_BEGUN(logged_runtime, it, logged_runtime_begin);
  LS_OWN(ls_cross_device, ops) = by("nccl", 1);
  for (int differs = 0; differs < 2; ++differs) {
    ls_graph *graph = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      ls_nest values[2], made = ls_none();
      values[0] = placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
      // The other stores its components the other way round.
      ls_tensor items[2];
      static const char *const turned[] = {LOCAL_DEVICE "GPU:1",
                                           LOCAL_DEVICE "GPU:0"};
      for (size_t i = 0; i < 2; ++i) {
        LS_DEVICE_SCOPE(turned[i]);
        items[i] = scalar_of(i == 0 ? 40 : 10);
      }
      values[1] = placed_on(turned, items, 2);
      const ls_destinations where[] = {{.device = NULL},
                                       {.device = differs ? "/gpu:0" : NULL}};
      expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where,
                                             2, &made));
      // One sum for both, or one for each.
      assert_int_equal(count_ops(graph, "add_n", NULL), differs ? 2 : 1);
      const ls_nest first = ls_nest_item(made, 0),
                    other = ls_nest_item(made, 1);
      assert_int_equal(ls_distributed_count(other), differs ? 1 : 2);
      for (size_t i = 0; i < 2; ++i)
        expect_fetched(first, i, (double[]){3}, 1);
      for (size_t i = 0; i < ls_distributed_count(other); ++i)
        expect_fetched(other, i, (double[]){50}, 1);
      if (!differs) assert_string_equal(component_on(other, 0), "GPU:1");
      ls_nest_release(made);
      for (size_t i = 0; i < 2; ++i)
        ls_nest_release(values[i]);
    }
    ls_graph_destroy(graph);
    assert_int_equal(count_logged(&it, "warning: values of a batch"), differs);
    assert_int_equal(
        count_logged(&it, "info: batch all-reduce of 2 values: algorithm nccl, "
                          "num_packs 1"),
        1);
  }
  // Ten lines, no more.
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, value) =
        placed_values("GPU", LS_DTYPE_F32, 2, 0, (double[]){1, 2});
    for (int i = 0; i < 12; ++i)
      ls_nest_release(reduced(ops, LS_REDUCE_SUM, value, at_value));
  }
  assert_int_equal(count_logged(&it, "info: batch all-reduce"), 10);
}

TEST(integers_of_32_bits_go_to_one_device) {
  LS_SPEC("M106");
  static const ls_dtype dtypes[] = {LS_DTYPE_I32, LS_DTYPE_F32, LS_DTYPE_I32,
                                    LS_DTYPE_I64};
  LS_OWN(ls_cross_device, ops) = by("nccl", 1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_nest values[4], made = ls_none();
    const ls_destinations where[4] = {{.device = NULL}};
    for (size_t i = 0; i < 4; ++i)
      values[i] = placed_values("GPU", dtypes[i], 2, 0,
                                (double[]){(double)i, 10 * (double)i});
    expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_MEAN, values, where,
                                           4, &made));
    for (size_t i = 0; i < 4; ++i)
      for (size_t d = 0; d < 2; ++d)
        expect_fetched(ls_nest_item(made, i), d, (double[]){5.5 * (double)i},
                       1);
    // Only the two others were packed.
    assert_int_equal(count_ops(graph, "split_like", NULL), 4);
    ls_nest_release(made);
    made = reduced(ops, LS_REDUCE_SUM, values[2], at_value);
    expect_fetched(made, 1, (double[]){22}, 1);
    ls_nest_release(made);
    for (size_t i = 0; i < 4; ++i)
      ls_nest_release(values[i]);
  }
}

TEST(packs_go_before_small_tensors) {
  LS_SPEC("M94");
  static const struct {
    ls_all_reduce_options options;
    size_t sums, packs;  // Ops that add; under "pack".
  } cases[] = {
      {{.num_packs = LS_SOME(2), .small_max_bytes = 100}, 2, 0},
      {{.num_packs = LS_SOME(0), .small_max_bytes = 100}, 1, 1},
      {{.num_packs = LS_SOME(0)}, 3, 0},
      {{.num_packs = LS_SOME(0),
        .small_max_bytes = 100,
        .small_max_group = LS_SOME(0)},
       3,
       0},
      {{.num_packs = LS_SOME(0),
        .small_max_bytes = 100,
        .small_max_group = LS_SOME(2)},
       2,
       1},
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN(ls_cross_device, ops) = NULL;
    expect_ok(ls_all_reduce_ops_create(&cases[c].options, &ops));
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      ls_nest values[3], made = ls_none();
      const ls_destinations where[3] = {{.device = NULL}};
      for (size_t i = 0; i < 3; ++i)
        values[i] = placed_values("GPU", LS_DTYPE_F32, 2, 2,
                                  (double[]){1, 2, (double)i, 4});
      expect_ok(ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where,
                                             3, &made));
      assert_int_equal(count_ops(graph, "add_n", NULL), cases[c].sums);
      size_t packs = 0;
      for (size_t i = 0; i < ls_graph_num_ops(graph); ++i)
        packs = packs ||
                strncmp(ls_op_name(ls_graph_op(graph, i)), "pack/", 5) == 0;
      assert_int_equal(packs, cases[c].packs);
      for (size_t i = 0; i < 3; ++i) {
        expect_fetched(ls_nest_item(made, i), 1, (double[]){1 + (double)i, 6},
                       2);
        ls_nest_release(values[i]);
      }
      ls_nest_release(made);
    }
  }
}

// ---- One gradient ----------------------------------------------------------
TEST(a_gradient_is_checked_as_it_is_added) {
  LS_SPEC("M92");
  const ls_tensor fine[] = {scalar_of(1), scalar_of(2), scalar_of(4)};
  const ls_tensor bad[] = {scalar_of(1), ls_log(scalar_of(0)), scalar_of(4)};
  const ls_tensor none[] = {scalar_of(1), ls_log(scalar_of(-1)), scalar_of(4)};
  ls_tensor sum, wrong;
  expect_ok(ls_sum_gradient(fine, 3, false, &sum, &wrong));
  assert_true(number_of(ls_leaf(sum)) == 7);
  assert_true(number_of(ls_leaf(wrong)) == 0);
  expect_ok(ls_sum_gradient(fine, 3, true, &sum, NULL));
  assert_true(number_of(ls_leaf(sum)) == (double)(7 * (1.0f / 3)));
  expect_ok(ls_sum_gradient(fine, 1, true, &sum, NULL));
  assert_true(number_of(ls_leaf(sum)) == 1);
  expect_ok(ls_sum_gradient(bad, 3, false, &sum, &wrong));
  assert_true(number_of(ls_leaf(wrong)) == 1);
  expect_ok(ls_sum_gradient(none, 3, false, &sum, &wrong));
  assert_true(number_of(ls_leaf(wrong)) == 1);
}

// ---- Bits ------------------------------------------------------------------
// The sum along the canonical tree, by hand.
static float tree(const float *x, size_t count) {
  size_t half = 1;
  if (count == 1) return x[0];
  while (half * 2 < count)
    half *= 2;
  return tree(x, half) + tree(x + half, count - half);
}

enum { SETS = 7, MOST_DEVICES = 9 };

static ls_cross_device *make_set(int number) {
  ls_cross_device *ops = NULL;
  switch (number) {
  case 0:
    expect_ok(ls_reduce_to_one_create(NULL, &ops));
    break;
  case 1:
    ops = by("nccl", 0);
    break;
  case 2:
    ops = by("nccl", 3);
    break;
  case 3:
    ops = by("hierarchical_copy", 0);
    break;
  case 4:
    ops = by("hierarchical_copy", 2);
    break;
  case 5:
    expect_ok(ls_all_reduce_ops_create(
        &(ls_all_reduce_options){.num_packs = LS_SOME(0),
                                 .small_max_bytes = 64},
        &ops));
    break;
  default:
    expect_ok(ls_cross_device_auto((const char *[]){"/gpu:0", "/gpu:1"}, 2,
                                   &(ls_machine){.has_nccl = true}, &ops));
  }
  return ops;
}

TEST(every_set_gives_the_same_bits) {
  LS_SPEC("M172 M90 M96");
  enum { SIZE = 5, VALUES = 3 };
  for (size_t n = 1; n <= MOST_DEVICES; n += n < 5 ? 1 : 2) {
    double numbers[VALUES][MOST_DEVICES * SIZE];
    float wanted[2][VALUES][SIZE];
    for (size_t v = 0; v < VALUES; ++v) {
      fill_numbers(numbers[v], n * SIZE, (uint32_t)(10 * n + v));
      for (size_t k = 0; k < SIZE; ++k) {
        float column[MOST_DEVICES];
        for (size_t d = 0; d < n; ++d) {
          // What the order of addition shows.
          numbers[v][d * SIZE + k] *= d % 3 == 0 ? 1e6 : 1;
          column[d] = (float)numbers[v][d * SIZE + k];
        }
        wanted[0][v][k] = tree(column, n);
        wanted[1][v][k] = wanted[0][v][k] * (1.0f / (float)n);
      }
    }
    for (int set = 0; set < SETS; ++set) {
      LS_OWN(ls_cross_device, ops) = make_set(set);
      LS_OWN(ls_graph, graph) = graph_named("g");
      {
        LS_GRAPH_SCOPE(graph);
        for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MEAN; ++op) {
          ls_nest values[VALUES], made = ls_none();
          const ls_destinations where[VALUES] = {{.device = NULL}};
          for (size_t v = 0; v < VALUES; ++v)
            values[v] = placed_values("GPU", LS_DTYPE_F32, n, SIZE, numbers[v]);
          expect_ok(ls_cross_device_batch_reduce(ops, (ls_reduce_op)op, values,
                                                 where, VALUES, &made));
          for (size_t v = 0; v < VALUES; ++v) {
            expect_fetched_bytes(ls_nest_item(made, v), wanted[op][v],
                                 sizeof(wanted[op][v]));
            ls_nest_release(values[v]);
          }
          ls_nest_release(made);
        }
      }
    }
  }
}

TEST(means_of_halves_round_once) {
  // bf16 has 8 bits: 1/3 of 257 + 1 + 1 in f32, rounded at the end.
  static const double numbers[] = {256, 1, 1};
  for (int set = 0; set < SETS; ++set) {
    LS_OWN(ls_cross_device, ops) = make_set(set);
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      LS_OWN(ls_nest, value) =
          placed_values("GPU", LS_DTYPE_BF16, 3, 0, numbers);
      LS_OWN(ls_nest, mean) = reduced(ops, LS_REDUCE_MEAN, value, at_value);
      LS_OWN(ls_nest, sum) = reduced(ops, LS_REDUCE_SUM, value, at_value);
      for (size_t d = 0; d < 3; ++d) {
        expect_fetched(mean, d, (double[]){86}, 1);
        expect_fetched(sum, d, (double[]){258}, 1);
      }
    }
  }
}

TEST(shapes_that_differ_are_refused) {
  LS_SPEC("M77");
  for (int set = 0; set < SETS; ++set) {
    LS_OWN(ls_cross_device, ops) = make_set(set);
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      static const char *const devices[] = {LOCAL_DEVICE "GPU:0",
                                            LOCAL_DEVICE "GPU:1"};
      const ls_tensor x = scalar_of(1);
      const ls_tensor items[] = {ls_broadcast(x, LS_SHAPE(2, 3)),
                                 ls_broadcast(x, LS_SHAPE(3, 2))};
      LS_OWN(ls_nest, value) = placed_on(devices, items, 2);
      ls_nest made = ls_none();
      const ls_status status =
          ls_cross_device_reduce(ops, LS_REDUCE_SUM, value, at_value, &made);
      expect_contains(ls_status_message(status), "f32[2,3]");
      expect_status(status, LS_INVALID_ARGUMENT, "f32[3,2]");
    }
  }
}

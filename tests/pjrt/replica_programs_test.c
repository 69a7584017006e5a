// SPDX-License-Identifier: Apache-2.0
// Replicas on one and on several devices of a plug-in, beside the CPU engine:
// lowered programs of four replicas.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/lowered.h"
#include "support/plugin.h"

enum { MOST_VALUES = 64, REPLICAS = 4 };

// What a program gave.
typedef struct outcome {
  ls_type types[MOST_VALUES];
  void *data[MOST_VALUES];
  size_t count;
} outcome;

static void outcome_deinit(outcome *self) {
  for (size_t i = 0; i < self->count; ++i)
    free(self->data[i]);
}
LS_OWNED_STRUCT(outcome, outcome_deinit)

static void *new_data(ls_type type) {
  void *data = calloc((size_t)ls_shape_num_elements(type.shape) + 1,
                      ls_dtype_size(type.dtype));
  assert_non_null(data);
  return data;
}

// Makes floats from -0.5 to 0.5, or integers from 0 to 3.
static void *new_input(ls_type type, size_t index) {
  void *data = new_data(type);
  for (int64_t i = 0; i < ls_shape_num_elements(type.shape); ++i) {
    const int64_t number = (i * 37 + (int64_t)index * 11) % 41;
    if (type.dtype == LS_DTYPE_F32)
      ((float *)data)[i] = (float)number / 41 - 0.5F;
    else
      ((int32_t *)data)[i] = (int32_t)(number % 4);
  }
  return data;
}

// Runs a program under the current runtime.
static void run_text(const char *text, outcome *out) {
  LS_OWN(ls_graph, graph) = NULL;
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  void *inputs[MOST_VALUES];
  assert_in_range(graph->num_parameters, 1, MOST_VALUES);
  assert_in_range(graph->num_results, 1, MOST_VALUES);
  for (size_t i = 0; i < graph->num_parameters; ++i)
    inputs[i] = new_input(ls_graph_type(graph, graph->parameters[i]), i);
  for (; out->count < graph->num_results; ++out->count) {
    out->types[out->count] = ls_graph_type(graph, graph->results[out->count]);
    out->data[out->count] = new_data(out->types[out->count]);
  }
  expect_ok(lowered_run_once(&(lowered_options){.text = text},
                             (const void *const *)inputs, out->data));
  for (size_t i = 0; i < graph->num_parameters; ++i)
    free(inputs[i]);
}

static void expect_near(const outcome *want, const outcome *got) {
  assert_int_equal(want->count, got->count);
  for (size_t i = 0; i < want->count; ++i) {
    const int64_t count = ls_shape_num_elements(want->types[i].shape);
    const float *a = want->data[i], *b = got->data[i];
    if (want->types[i].dtype != LS_DTYPE_F32) {
      assert_memory_equal(a, b,
                          (size_t)count * ls_dtype_size(want->types[i].dtype));
      continue;
    }
    for (int64_t k = 0; k < count; ++k)
      if (!(fabsf(a[k] - b[k]) <= 1e-5F * fmaxf(1, fabsf(a[k]))))
        fail_msg("result %zu, element %lld: wanted %.9g, got %.9g", i,
                 (long long)k, (double)a[k], (double)b[k]);
  }
}

static void expect_same_bytes(const outcome *a, const outcome *b) {
  for (size_t i = 0; i < a->count; ++i)
    assert_memory_equal(a->data[i], b->data[i],
                        (size_t)ls_shape_num_elements(a->types[i].shape) *
                            ls_dtype_size(a->types[i].dtype));
}

static void run_on_devices(const char *text, int num_devices, bool exact,
                           outcome *out) {
  LS_OWN(open_place, here) =
      runtime_begin((ls_runtime_options){.device = plugin_device(),
                                         .num_devices = num_devices,
                                         .exact_bits = exact,
                                         .threads = 1});
  run_text(text, out);
}

// Expects the CPU engine's results on 1, 2 and 4 devices, fast and exact; exact
// ones have the bits of one device.
static void expect_all(const char *text, const outcome *want) {
  LS_OWN(outcome, one) = {0};
  run_on_devices(text, 1, true, &one);
  expect_near(want, &one);
  for (int devices = 1; devices <= REPLICAS; devices *= 2) {
    LS_OWN(outcome, fast) = {0};
    LS_OWN(outcome, exact) = {0};
    run_on_devices(text, devices, false, &fast);
    expect_near(want, &fast);
    run_on_devices(text, devices, true, &exact);
    expect_same_bytes(&one, &exact);
  }
}

// Tries all of that or one case of it, which LS_TEST_SEED draws.
static void expect_on_devices(const char *text) {
  (void)plugin_device();  // Skips the test before there is anything to free.
  LS_OWN(outcome, want) = {0};
  LS_OWN(outcome, one) = {0};
  LS_OWN(outcome, got) = {0};
  run_text(text, &want);
  if (plugin_tests_all()) {
    expect_all(text, &want);
    return;
  }
  loop_random random = {loop_random_seed() + strlen(text)};
  const bool is_exact = loop_random_between(&random, 0, 1) == 1;
  run_on_devices(text, 1 << loop_random_between(&random, is_exact, 2), is_exact,
                 &got);
  expect_near(&want, &got);
  if (!is_exact) return;
  run_on_devices(text, 1, true, &one);
  expect_same_bytes(&one, &got);
}

// ---- Programs --------------------------------------------------------------
#define PARAMETER(id, index)                                                   \
  "%" id " = parameter() {dtype = f32, shape = shape[3], index = " index       \
  "} : f32[3]\n"

TEST(values_of_replicas_meet_and_are_used_around_them) {
  expect_on_devices(
      "graph lowered \"t\" {\n" PARAMETER("1", "0") PARAMETER("2", "1")
          PARAMETER("3", "2") PARAMETER("4", "3") PARAMETER(
              "5", "4") "%6:6 = replicate(%1, %2, %3, %4, %5) {replicas = 4, "
                        "num_split = 1, "
                        "num_gathered = 1} (graph lowered \"replica\" {\n"
                        "%1 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 0} varying : "
                        "f32[3]\n"
                        "%2 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 1} captures "
                        "(%5) : f32[3]\n"
                        "%3 = mul(%1, %2) varying : f32[3]\n"
                        "%4 = all_reduce(%3) {reduce = \"mean\"} : f32[3]\n"
                        "%5 = add(%4, %2) : f32[3]\n"
                        "%6 = add(%3, %5) varying : f32[3]\n"
                        "%7 = all_reduce(%2) {reduce = \"sum\"} : f32[3]\n"
                        "%8 = all_gather(%3) {axis = 0, rows = [3, 3, 3, 3]} : "
                        "f32[12]\n"
                        "return %6, %7, %8\n"
                        "}) : f32[3], f32[3], f32[3], f32[3], f32[3], f32[12]\n"
                        "%7 = add(%6:1, %6:3) : f32[3]\n"
                        "%8:4 = replicate(%6:3, %1, %7, %6:0) {replicas = 4, "
                        "num_split = 1, "
                        "num_gathered = 1} (graph lowered \"replica\" {\n"
                        "%1 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 0} varying : "
                        "f32[3]\n"
                        "%2 = neg(%1) varying : f32[3]\n"
                        "return %2\n"
                        "}) : f32[3], f32[3], f32[3], f32[3]\n"
                        "return %6:0, %6:1, %6:2, %6:3, %7, %8:0, %8:1, %8:2, "
                        "%8:3, %6:4, %6:5\n"
                        "}\n");
}

#define LOOP_PARAMETERS                                                        \
  "%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]\n"       \
  "%2 = parameter() {dtype = f32, shape = shape[3], index = 1} : f32[3]\n"     \
  "%3 = parameter() {dtype = f32, shape = shape[3], index = 2} : f32[3]\n"     \
  "%4 = parameter() {dtype = f32, shape = shape[3], index = 3} : f32[3]\n"     \
  "%5 = parameter() {dtype = f32, shape = shape[3], index = 4} : f32[3]\n"

TEST(loops_around_replicas_pass_on_their_values) {
  expect_on_devices(
      "graph lowered \"t\" {\n" PARAMETER("1", "0") PARAMETER("2", "1")
          PARAMETER("3", "2") PARAMETER(
              "4", "3") "%5 = constant() {value = i32[] [0]} : i32[]\n"
                        "%6:5 = while(%5, %1, %2, %3, %4) {num_carried = "
                        "5, max_trips = 3} "
                        "(graph lowered \"c\" {\n" LOOP_PARAMETERS
                        "%6 = constant() {value = i32[] [9]} : i32[]\n"
                        "%7 = less(%1, %6) : bool[]\n"
                        "return %7\n"
                        "}, graph lowered \"b\" {\n" LOOP_PARAMETERS
                        "%6 = constant() {value = i32[] [1]} : i32[]\n"
                        "%7 = add(%1, %6) : i32[]\n"
                        "%8:5 = replicate(%2, %3, %4, %5) {replicas = 4, "
                        "num_split = 1, "
                        "num_gathered = 1, num_wide_gathered = 1} (graph "
                        "lowered \"r\" {\n"
                        "%1 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 0} varying : "
                        "f32[3]\n"
                        "%2 = all_reduce(%1) {reduce = \"sum\"} : f32[3]\n"
                        "%3 = replica_id() varying : i32[]\n"
                        "%4 = convert(%3) {dtype = f32} varying : f32[]\n"
                        "%5 = mul(%1, %4) varying : f32[3]\n"
                        "%6 = maximum(%5, %2) varying : f32[3]\n"
                        "return %6, %5\n"
                        "}) : f32[3], f32[3], f32[3], f32[3], f32[4,3]\n"
                        "%9:4 = replicate(%8:0, %8:1, %8:2, %8:3, %8:4) "
                        "{replicas = 4, "
                        "num_split = 1, num_wide_split = 1, num_gathered = 1} "
                        "(graph lowered "
                        "\"r\" {\n"
                        "%1 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 0} varying : "
                        "f32[3]\n"
                        "%2 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 1} varying : "
                        "f32[3]\n"
                        "%3 = all_reduce(%2) {reduce = \"max\"} : f32[3]\n"
                        "%4 = add(%1, %3) varying : f32[3]\n"
                        "return %4\n"
                        "}) : f32[3], f32[3], f32[3], f32[3]\n"
                        "return %7, %9:0, %9:1, %9:2, %9:3\n"
                        "}) : i32[], f32[3], f32[3], f32[3], f32[3]\n"
                        "return %6:0, %6:1, %6:2, %6:3, %6:4\n"
                        "}\n");
}

// ---- Ops of all replicas at once -------------------------------------------
// A program: values of a replica's graph, and those it returns, for each
// replica or for all.
typedef struct batched {
  char parameters[8192], operands[1024], body[8192], gathered[1024],
      gathered_types[4096], common[1024], common_types[1024];
  int num_values;  // Of the replica's graph.
  int num_parameters, num_split, num_gathered;
} batched;

static void append(char *text, size_t size, const char *piece) {
  const size_t length = strlen(text);
  assert_true(length + strlen(piece) < size);
  strcpy(text + length, piece);
}
#define APPEND(text, ...)                                                      \
  do {                                                                         \
    char piece[512];                                                           \
    snprintf(piece, sizeof(piece), __VA_ARGS__);                               \
    append(text, sizeof(text), piece);                                         \
  } while (0)

// Declares a parameter of the program; returns its number.
static int declare(batched *b, const char *dtype, const char *shape) {
  const int index = b->num_parameters++;
  APPEND(b->parameters,
         "%%%d = parameter() {dtype = %s, shape = shape[%s], index = %d} : "
         "%s[%s]\n",
         index + 1, dtype, shape, index, dtype, shape);
  APPEND(b->operands, "%s%%%d", index > 0 ? ", " : "", index + 1);
  return index + 1;
}

// Adds a value that differs by replica; split ones come first.
static int split_value(batched *b, const char *dtype, const char *shape) {
  for (int r = 0; r < REPLICAS; ++r)
    declare(b, dtype, shape);
  APPEND(b->body,
         "%%%d = parameter() {dtype = %s, shape = shape[%s], index = %d} "
         "varying : %s[%s]\n",
         b->num_values + 1, dtype, shape, b->num_split++, dtype, shape);
  return ++b->num_values;
}

static int captured_value(batched *b, const char *dtype, const char *shape) {
  const int outer = declare(b, dtype, shape);
  APPEND(b->body,
         "%%%d = parameter() {dtype = %s, shape = shape[%s], index = %d} "
         "captures (%%%d) : %s[%s]\n",
         b->num_values + 1, dtype, shape, b->num_values, outer, dtype, shape);
  return ++b->num_values;
}

// Adds an op on values x and y (0: none), which the replicas return.
static int op(batched *b, const char *name, int x, int y, const char *attrs,
              const char *type) {
  APPEND(b->body, "%%%d = %s(%%%d", b->num_values + 1, name, x);
  if (y != 0) APPEND(b->body, ", %%%d", y);
  APPEND(b->body,
         attrs[0] != '\0' ? ") {%s} varying : %s\n" : ")%s varying : %s\n",
         attrs, type);
  APPEND(b->gathered, "%s%%%d", b->num_gathered++ > 0 ? ", " : "",
         b->num_values + 1);
  for (int r = 0; r < REPLICAS; ++r)
    APPEND(b->gathered_types, "%s%s", b->gathered_types[0] != '\0' ? ", " : "",
           type);
  return ++b->num_values;
}

// Adds a merge, which gives all replicas one value.
static void merge(batched *b, const char *name, int x, const char *attrs,
                  const char *type) {
  APPEND(b->body, "%%%d = %s(%%%d) {%s} : %s\n", b->num_values + 1, name, x,
         attrs, type);
  APPEND(b->common, ", %%%d", ++b->num_values);
  APPEND(b->common_types, ", %s", type);
}

static void expect_batched(const batched *b) {
  static char text[32768];
  int count = b->num_gathered * REPLICAS;
  for (const char *at = b->common; (at = strchr(at, '%')) != NULL; ++at)
    ++count;
  snprintf(
      text, sizeof(text),
      "graph lowered \"t\" {\n%s%%%d:%d = replicate(%s) {replicas = %d, "
      "num_split = %d, num_gathered = %d} (graph lowered \"r\" {\n%sreturn "
      "%s%s\n}) : %s%s\nreturn ",
      b->parameters, b->num_parameters + 1, count, b->operands, REPLICAS,
      b->num_split, b->num_gathered, b->body, b->gathered, b->common,
      b->gathered_types, b->common_types);
  for (int i = 0; i < count; ++i)
    APPEND(text, "%s%%%d:%d", i > 0 ? ", " : "", b->num_parameters + 1, i);
  APPEND(text, "\n}\n");
  expect_on_devices(text);
}

TEST(products_of_replicas_are_batched) {
  batched b = {0};
  const int x = split_value(&b, "f32", "2,6,6,3");
  const int own = split_value(&b, "f32", "3,3,3,4");
  const int q = split_value(&b, "f32", "2,4,12");
  const int shared = captured_value(&b, "f32", "3,3,3,4");
  const int matrix = captured_value(&b, "f32", "12,7");
  const char *window = "strides = [1, 1], same = true, groups = 1";
  const int y = op(&b, "convolution", x, shared, window, "f32[2,6,6,4]");
  const int z = op(&b, "convolution", x, own, window, "f32[2,6,6,4]");
  merge(&b, "all_reduce", z, "reduce = \"sum\"", "f32[2,6,6,4]");
  op(&b, "reduce_window", y, 0,
     "window = [2, 2], strides = [2, 2], reduce = \"max\"", "f32[2,3,3,4]");
  op(&b, "reduce_window", y, 0,
     "window = [3, 3], strides = [2, 2], same = true, reduce = \"mean\"",
     "f32[2,3,3,4]");
  const char *plain = "transpose_a = false, transpose_b = false";
  op(&b, "matmul", q, matrix, plain, "f32[2,4,7]");
  const int rows = op(&b, "reshape", q, 0, "sizes = sizes[8,12]", "f32[8,12]");
  const int square =
      op(&b, "matmul", rows, rows, "transpose_a = true, transpose_b = false",
         "f32[12,12]");
  merge(&b, "all_reduce", square, "reduce = \"mean\"", "f32[12,12]");
  op(&b, "attention", q, 0, "num_heads = 2, causal = true", "f32[2,4,4]");
  op(&b, "softmax", rows, 0, "", "f32[8,12]");
  expect_batched(&b);
}

TEST(shapes_and_lookups_of_replicas_are_batched) {
  batched b = {0};
  const int x = split_value(&b, "f32", "2,4,12");
  const int ids = split_value(&b, "i32", "2,5");
  const int table = captured_value(&b, "f32", "4,12");
  op(&b, "gather", table, ids, "axis = 0", "f32[2,5,12]");
  op(&b, "gather", table, ids, "axis = 1", "f32[4,2,5]");
  op(&b, "gather", x, ids, "axis = 1", "f32[2,2,5,12]");
  const int hot =
      op(&b, "one_hot", ids, 0, "depth = 4, dtype = f32", "f32[2,5,4]");
  const int moved =
      op(&b, "transpose", hot, 0, "permutation = [2, 0, 1]", "f32[4,2,5]");
  const int part =
      op(&b, "slice", moved, 0,
         "starts = [1, 0, 0], limits = [3, 2, 5], strides = [1, 1, 2]",
         "f32[2,2,3]");
  const int both = op(&b, "concatenate", part, part, "axis = 1", "f32[2,4,3]");
  const int back = op(&b, "reverse", both, 0, "axes = [0, 2]", "f32[2,4,3]");
  op(&b, "reduce_sum", back, 0, "axes = [1], keep_dims = true", "f32[2,1,3]");
  op(&b, "argmax", x, 0, "axis = 2", "i64[2,4]");
  const int most =
      op(&b, "reduce_max", x, 0, "axes = [0, 1], keep_dims = false", "f32[12]");
  merge(&b, "all_reduce", most, "reduce = \"min\"", "f32[12]");
  merge(&b, "all_gather", most, "axis = 0, rows = [12, 12, 12, 12]", "f32[48]");
  expect_batched(&b);
}

// Adds an op on any values, as written, whose first result the replicas return.
static void op_text(batched *b, const char *text, const char *types,
                    const char *type) {
  const bool several = strstr(types, "], ") != NULL;
  const int number = ++b->num_values;
  if (several)
    APPEND(b->body, "%%%d:3 = %s varying : %s\n", number, text, types);
  else
    APPEND(b->body, "%%%d = %s varying : %s\n", number, text, types);
  APPEND(b->gathered, "%s%%%d%s", b->num_gathered++ > 0 ? ", " : "", number,
         several ? ":0" : "");
  for (int r = 0; r < REPLICAS; ++r)
    APPEND(b->gathered_types, "%s%s", b->gathered_types[0] != '\0' ? ", " : "",
           type);
}

TEST(gradients_of_replicas_are_batched) {
  batched b = {0};
  split_value(&b, "f32", "2,6,6,3");
  split_value(&b, "f32", "2,6,6,4");
  split_value(&b, "f32", "2,3,3,3");
  captured_value(&b, "f32", "3,3,3,4");
  captured_value(&b, "f32", "3");
  const int dw = op(&b, "conv_grad_weights", 1, 2,
                    "sizes = sizes[3, 3, 3, 4], strides = [1, 1], same = true, "
                    "groups = 1",
                    "f32[3,3,3,4]");
  merge(&b, "all_reduce", dw, "reduce = \"mean\"", "f32[3,3,3,4]");
  op(&b, "conv_grad_input", 2, 4,
     "sizes = sizes[2, 6, 6, 3], strides = [1, 1], same = true, groups = 1",
     "f32[2,6,6,3]");
  op(&b, "window_max_grad", 1, 3, "window = [2, 2], strides = [2, 2]",
     "f32[2,6,6,3]");
  op(&b, "window_max_pick", 1, 1, "window = [2, 2], strides = [2, 2]",
     "f32[2,3,3,3]");
  op(&b, "window_sum_grad", 3, 0,
     "reduce = \"mean\", window = [2, 2], strides = [2, 2], sizes = sizes[2, "
     "6, 6, 3]",
     "f32[2,6,6,3]");
  op_text(&b, "batch_norm(%1, %5, %5) {epsilon = 0.1, activation = \"relu\"}",
          "f32[2,6,6,3], f32[3], f32[3]", "f32[2,6,6,3]");
  op_text(&b, "layer_norm_grad(%3, %3, %5) {epsilon = 0.1}",
          "f32[2,3,3,3], f32[3], f32[3]", "f32[2,3,3,3]");
  op(&b, "relu_grad", 1, 1, "", "f32[2,6,6,3]");
  expect_batched(&b);
}

TEST(draws_scans_and_orders_of_replicas_are_batched) {
  batched b = {0};
  split_value(&b, "f32", "5,7");
  split_value(&b, "i32", "5,2");
  op(&b, "cumsum", 1, 0, "axis = 1, exclusive = true, reverse = true",
     "f32[5,7]");
  op(&b, "linear_scan", 1, 1, "axis = 0", "f32[5,7]");
  op(&b, "take_along", 1, 2, "axis = 1", "f32[5,2]");
  op_text(&b,
          "random_uniform() {sizes = sizes[3, 7], dtype = f32, seed = 3, "
          "stream = 1, low = -1.0, high = 2.0}",
          "f32[3,7]", "f32[3,7]");
  op_text(&b,
          "random_normal() {sizes = sizes[21], dtype = f32, stream = 2, "
          "same_on_all_replicas = false, mean = 1.0, deviation = 0.5}",
          "f32[21]", "f32[21]");
  op_text(&b,
          "random_truncated_normal() {sizes = sizes[333], dtype = f32, "
          "stream = 3, mean = 0.0, deviation = 1.0}",
          "f32[333]", "f32[333]");
  op_text(&b, "random_bits() {sizes = sizes[9], dtype = u64, stream = 4}",
          "u64[9]", "u64[9]");
  expect_batched(&b);
}

TEST(what_one_replica_draws_is_the_same_for_all) {
  expect_on_devices(
      "graph lowered \"t\" {\n" PARAMETER("1", "0") PARAMETER("2", "1")
          PARAMETER("3", "2") PARAMETER(
              "4", "3") "%5:5 = replicate(%1, %2, %3, %4) {replicas = 4, "
                        "num_split = 1, num_gathered = 1} (graph lowered "
                        "\"replica\" {\n"
                        "%1 = parameter() {dtype = f32, shape = shape[3], "
                        "index = 0} varying : f32[3]\n"
                        "%2 = random_uniform() {dtype = f32, sizes = sizes[3], "
                        "seed = 7, replica = 2} : f32[3]\n"
                        "%3 = add(%1, %2) varying : f32[3]\n"
                        "return %3, %2\n"
                        "}) : f32[3], f32[3], f32[3], f32[3], f32[3]\n"
                        "return %5:0, %5:1, %5:2, %5:3, %5:4\n"
                        "}\n");
}

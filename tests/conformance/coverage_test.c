// SPDX-License-Identifier: Apache-2.0
//
// No op without a case against the reference, a gradient that is compared with
// finite differences or a reason for none, and a line of documentation.
#include <stdio.h>

#include "support/expect.h"
#include "support/op_case.h"

// ---- The table's columns ---------------------------------------------------
typedef struct columns {
  const char *name, *gradient, *kernel, *doc;
} columns;

static const columns table[LS_OP_TABLE_COUNT] = {
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, doc,   \
              ...)                                                             \
  [LS_OP_##id] = {name, #gradient, #kernel, doc},
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP
};

// ---- What is tested by hand ------------------------------------------------
// A test that stands for a case: `file` below tests/ has a test of this name.
typedef struct named_test {
  uint16_t op;
  const char *file, *test;
} named_test;

static const named_test value_tests[] = {
    {LS_OP_PLACEHOLDER, "runtime/session_test.c", "any_tensor_can_be_fed"},
    {LS_OP_RANDOM_UNIFORM, "engine/loops_product_test.c",
     "the_first_numbers_are_pinned"},
    {LS_OP_RANDOM_NORMAL, "engine/loops_product_test.c",
     "the_first_numbers_are_pinned"},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "engine/draw_test.c",
     "a_truncated_normal_is_the_first_draw_within_range"},
    {LS_OP_RANDOM_BITS, "engine/draw_test.c",
     "random_bits_are_the_words_of_the_blocks"},
    {LS_OP_RANDOM_PERMUTATION, "engine/draw_test.c",
     "a_permutation_is_the_order_of_random_keys"},
    {LS_OP_RANDOM_BY_EXAMPLE, "nn/example_ids_test.c",
     "an_example_draws_what_its_replica_would"},
    {LS_OP_GELU_AGAIN, "engine/rematerialize_test.c",
     "what_is_given_again_has_the_same_bits"},
    {LS_OP_LAYER_NORM_AGAIN, "engine/rematerialize_test.c",
     "what_is_given_again_has_the_same_bits"},
    {LS_OP_ADD_PRODUCTS, "engine/join_products_test.c",
     "joined_products_have_the_bits_of_separate_ones"},
    {LS_OP_POOL_MAX, "engine/join_pools_test.c",
     "who_else_wants_the_result_gets_it_and_bytes_stay"},
    {LS_OP_CONV_POOL_MAX, "engine/join_pools_test.c",
     "joined_they_are_what_they_are_apart"},
    {LS_OP_CONV_POOL_GRAD_INPUT, "engine/join_pools_test.c",
     "joined_they_are_what_they_are_apart"},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "engine/join_pools_test.c",
     "joined_they_are_what_they_are_apart"},
    {LS_OP_IS_INITIALIZED, "distribute/variable_test.c",
     "it_is_initialized_when_all_components_are"},
    {LS_OP_REPLICATE, "engine/cpu_replicas_test.c",
     "a_lane_has_its_arguments_and_gives_its_results"},
    {LS_OP_MERGE_CALL, "distribute/trace_merge_test.c",
     "replicas_merge_and_go_on"},
    {LS_OP_MEETING, "distribute/meeting_gradient_test.c",
     "a_collective_has_one_gradient_in_every_way"},
    {LS_OP_HOST, "engine/cpu_host_test.c",
     "host_calls_run_in_order_now_or_later"},
    {LS_OP_TPU_REPLICATED_INPUT, "tpu/replicate_test.c",
     "every_replica_runs_it_on_its_own_values"},
    {LS_OP_TPU_PADDED_INPUT, "tpu/padding_test.c",
     "without_the_padder_it_sees_zeros"},
    {LS_OP_TPU_REAL_PART, "tpu/padding_test.c",
     "a_computation_sees_real_sizes"},
    {LS_OP_TPU_REPLICATED_OUTPUT, "tpu/replicate_test.c",
     "every_replica_runs_it_on_its_own_values"},
    {LS_OP_TPU_REPLICATE_METADATA, "tpu/replicate_test.c",
     "every_replica_runs_it_on_its_own_values"},
    {LS_OP_TPU_COMPILATION_RESULT, "tpu/replicate_test.c",
     "how_compiling_went_is_told_without_running"},
    {LS_OP_CONFIGURE_DISTRIBUTED_TPU, "tpu/system_ops_test.c",
     "an_op_initializes_the_system_when_it_is_run"},
    {LS_OP_SHUTDOWN_DISTRIBUTED_TPU, "tpu/system_ops_test.c",
     "an_op_shuts_the_system_down_when_it_is_run"},
    {LS_OP_CROSS_REPLICA_SUM, "tpu/collectives_test.c",
     "a_sum_is_of_the_replicas_group"},
    {LS_OP_GUARANTEE_CONST, "tpu/inference_test.c",
     "what_serves_reads_its_variables_outside"},
    {LS_OP_SHARDING, "tpu/logical_device_test.c",
     "an_annotation_is_an_op_of_the_same_value"},
};

static const named_test gradient_tests[] = {
    {LS_OP_MERGE_CALL, "distribute/merge_gradient_test.c",
     "gradients_pass_a_merge_call_alike_in_every_way"},
    {LS_OP_MEETING, "distribute/meeting_gradient_test.c",
     "a_collective_has_one_gradient_in_every_way"},
    {LS_OP_CONVERT, "conformance/gradients_test.c",
     "conversions_pass_gradients_on_between_floats"},
    {LS_OP_CROSS_REPLICA_SUM, "tpu/collectives_test.c",
     "the_gradient_of_a_sum_is_the_sum_of_gradients"},
    {LS_OP_GUARANTEE_CONST, "tpu/inference_test.c",
     "gradients_pass_the_promise"},
    {LS_OP_SHARDING, "tpu/logical_device_test.c",
     "a_gradient_lies_where_its_value_does"},
    {LS_OP_READ, "grad/flow_test.c",
     "gradients_use_what_a_variable_was_when_it_was_read"},
};

// ---- Why there is no gradient ----------------------------------------------
typedef struct reason {
  uint16_t op;
  const char *why;
} reason;

static const char nothing_goes_in[] = "it has no operand";
static const char steps[] = "it is constant but where it jumps";
static const char not_floats[] = "its operands or results are no floats";
static const char effect[] = "it writes: a gradient of what was written is "
                             "taken before";

static const char lowered[] = "gradients are taken before it is made";

static const reason reasons[] = {
    {LS_OP_CONSTANT, nothing_goes_in},
    {LS_OP_PLACEHOLDER, nothing_goes_in},
    {LS_OP_PARAMETER, nothing_goes_in},
    {LS_OP_IOTA, nothing_goes_in},
    {LS_OP_RANDOM_UNIFORM, nothing_goes_in},
    {LS_OP_RANDOM_NORMAL, nothing_goes_in},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, nothing_goes_in},
    {LS_OP_RANDOM_BITS, nothing_goes_in},
    {LS_OP_RANDOM_PERMUTATION, nothing_goes_in},
    {LS_OP_STACK_NEW, nothing_goes_in},
    {LS_OP_REPLICA_ID, nothing_goes_in},
    {LS_OP_NO_OP, "it has neither operand nor result"},
    {LS_OP_STOP_GRADIENT, "that is what it is for"},
    {LS_OP_DIM_SIZE, not_floats},
    {LS_OP_SIGN, steps},
    {LS_OP_CEIL, steps},
    {LS_OP_FLOOR, steps},
    {LS_OP_ROUND, steps},
    {LS_OP_ROUND_AWAY, steps},
    {LS_OP_EQUAL, not_floats},
    {LS_OP_NOT_EQUAL, not_floats},
    {LS_OP_LESS, not_floats},
    {LS_OP_LESS_EQUAL, not_floats},
    {LS_OP_GREATER, not_floats},
    {LS_OP_GREATER_EQUAL, not_floats},
    {LS_OP_IS_FINITE, not_floats},
    {LS_OP_NOT, not_floats},
    {LS_OP_AND, not_floats},
    {LS_OP_OR, not_floats},
    {LS_OP_XOR, not_floats},
    {LS_OP_SHIFT_LEFT, not_floats},
    {LS_OP_SHIFT_RIGHT_ARITHMETIC, not_floats},
    {LS_OP_SHIFT_RIGHT_LOGICAL, not_floats},
    {LS_OP_POPCOUNT, not_floats},
    {LS_OP_COUNT_LEADING_ZEROS, not_floats},
    {LS_OP_REDUCE_AND, not_floats},
    {LS_OP_REDUCE_OR, not_floats},
    {LS_OP_ARGMAX, not_floats},
    {LS_OP_ARGMIN, not_floats},
    {LS_OP_RANDOM_BY_EXAMPLE, not_floats},
    {LS_OP_ONE_HOT, not_floats},
    {LS_OP_IS_INITIALIZED, not_floats},
    {LS_OP_GELU_AGAIN, lowered},
    {LS_OP_LAYER_NORM_AGAIN, lowered},
    {LS_OP_ADD_PRODUCTS, lowered},
    {LS_OP_POOL_MAX, lowered},
    {LS_OP_CONV_POOL_MAX, lowered},
    {LS_OP_CONV_POOL_GRAD_INPUT, lowered},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, lowered},
    {LS_OP_BITCAST, "bits are no numbers to go a little further in"},
    {LS_OP_ASSIGN, effect},
    {LS_OP_ASSIGN_ADD, effect},
    {LS_OP_ASSIGN_SUB, effect},
    {LS_OP_ASSIGN_SCATTER, effect},
    {LS_OP_REPLICATE, "a gradient is taken within a replica"},
    {LS_OP_HOST, "nobody knows what the host computes"},
    {LS_OP_TPU_REPLICATED_INPUT, "a gradient is taken within a replica"},
    {LS_OP_TPU_PADDED_INPUT, "a gradient is taken within a replica"},
    {LS_OP_TPU_REAL_PART, "a gradient is taken within a replica"},
    {LS_OP_TPU_REPLICATED_OUTPUT, "a gradient is taken within a replica"},
    {LS_OP_TPU_REPLICATE_METADATA, "it has neither operand nor result"},
    {LS_OP_TPU_COMPILATION_RESULT, not_floats},
    {LS_OP_CONFIGURE_DISTRIBUTED_TPU, effect},
    {LS_OP_SHUTDOWN_DISTRIBUTED_TPU, effect},
};

// ---- Looking ---------------------------------------------------------------
static const named_test *find_test(const named_test *rows, size_t count,
                                   uint16_t op) {
  for (size_t i = 0; i < count; ++i)
    if (rows[i].op == op) return &rows[i];
  return NULL;
}

static const char *find_reason(uint16_t op) {
  for (size_t i = 0; i < LS_COUNT_OF(reasons); ++i)
    if (reasons[i].op == op) return reasons[i].why;
  return NULL;
}

// Whether there is such a file with such a test.
static bool is_there(const named_test *test) {
  char path[512], run[256];
  snprintf(path, sizeof(path), LS_TESTS_DIR "/%s", test->file);
  snprintf(run, sizeof(run), "TEST(%s)", test->test);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  char line[256];
  bool found = false;
  while (!found && fgets(line, sizeof(line), file) != NULL)
    found = strstr(line, run) != NULL;
  fclose(file);
  return found;
}

static bool any_row(const op_case *row) {
  (void)row;
  return true;
}

static bool differentiates(const op_case *row) { return row->gradient > 0; }

// ---- Tests -----------------------------------------------------------------
// Names all that is missing before it fails.
static int missing;

static void miss(uint16_t op, const char *what) {
  print_error("op %s %s\n", table[op].name, what);
  ++missing;
}

TEST(every_op_has_a_case) {
  missing = 0;
  for (uint16_t op = 0; op < LS_OP_TABLE_COUNT; ++op) {
    if (table[op].name == NULL) continue;
    const named_test *test =
        find_test(value_tests, LS_COUNT_OF(value_tests), op);
    const bool has_case = any_case(op, any_row);
    if (test == NULL && !has_case)
      miss(op, "has no case in tests/support/cases_*.c");
    if (has_case && op_case_compute(op) == NULL && op != LS_OP_PARAMETER)
      miss(op, "has no function that computes it in its case");
    if (test != NULL && has_case) miss(op, "has a case and a test for none");
    if (test != NULL && !is_there(test)) miss(op, "names a test that is gone");
  }
  assert_int_equal(missing, 0);
}

// Or which one is asked would depend on the order of the rows.
TEST(all_cases_of_an_op_are_computed_by_one_function) {
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row)
      if (row->compute != op_case_compute(row->op))
        fail_msg("two functions compute %s", table[row->op].name);
}

TEST(every_op_has_a_gradient_or_a_reason) {
  missing = 0;
  for (uint16_t op = 0; op < LS_OP_TABLE_COUNT; ++op) {
    if (table[op].name == NULL) continue;
    const bool none = strcmp(table[op].gradient, "none") == 0 ||
                      strcmp(table[op].gradient, "refused") == 0;
    const named_test *test =
        find_test(gradient_tests, LS_COUNT_OF(gradient_tests), op);
    const bool compared = any_case(op, differentiates);
    if (none && find_reason(op) == NULL)
      miss(op, "has no gradient and no reason");
    if (none && (compared || test != NULL))
      miss(op, "has no gradient, but tests of one");
    if (!none && find_reason(op) != NULL)
      miss(op, "has a gradient and a reason for none");
    if (!none && !compared && test == NULL)
      miss(op, "has a gradient that nobody compares with differences");
    if (test != NULL && !is_there(test)) miss(op, "names a test that is gone");
  }
  assert_int_equal(missing, 0);
}

TEST(every_op_has_a_line_of_documentation) {
  missing = 0;
  for (uint16_t op = 0; op < LS_OP_TABLE_COUNT; ++op) {
    if (table[op].name == NULL) continue;
    const char *doc = table[op].doc;
    if (strlen(doc) < 2) miss(op, "has no line of documentation");
    if (strchr(doc, '\n') != NULL || strlen(doc) > 80)
      miss(op, "has more than a line of documentation");
    for (uint16_t other = 0; other < op; ++other)
      if (table[other].name != NULL && strcmp(table[other].doc, doc) == 0)
        miss(op, "is documented as another one is");
  }
  assert_int_equal(missing, 0);
}

// Or replicas would silently be computed one by one.
TEST(every_kernel_says_which_operands_are_rows) {
  for (uint16_t op = LS_OP_NONE + 1; op < LS_OP_TABLE_COUNT; ++op) {
    const unsigned traits = ls_op_table[op].traits;
    const bool asks = strcmp(table[op].kernel, "none") != 0 &&
                      strcmp(table[op].kernel, "engine") != 0 &&
                      (traits & (LS_OP_ELEMENTWISE | LS_OP_RANDOM)) == 0;
    if (asks != ((traits & LS_OP_ALL_ROWS) != 0))
      fail_msg("%s %s", table[op].name,
               asks ? "does not say which of its operands are rows"
                    : "needs no word on rows");
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// The table of the reference's functions, and walking a graph.
#include "support/reference.h"

#include <math.h>

#include "support/expect.h"
#include "support/loop_case.h"
#include "support/reference_ops.h"

static const ref_function functions[LS_OP_COUNT] = {
    [LS_OP_CONSTANT] = ref_constant,
    [LS_OP_IOTA] = ref_iota,
    [LS_OP_IDENTITY] = ref_copies,
    [LS_OP_STOP_GRADIENT] = ref_copies,
    [LS_OP_NO_OP] = ref_nothing,
    [LS_OP_DIM_SIZE] = ref_dim_size,
    [LS_OP_NEG] = ref_unary,
    [LS_OP_ABS] = ref_unary,
    [LS_OP_SIGN] = ref_unary,
    [LS_OP_EXP] = ref_unary,
    [LS_OP_LOG] = ref_unary,
    [LS_OP_SQRT] = ref_unary,
    [LS_OP_RSQRT] = ref_unary,
    [LS_OP_TANH] = ref_unary,
    [LS_OP_SIGMOID] = ref_unary,
    [LS_OP_ERF] = ref_unary,
    [LS_OP_RELU] = ref_unary,
    [LS_OP_NOT] = ref_unary,
    [LS_OP_EXPM1] = ref_unary,
    [LS_OP_LOG1P] = ref_unary,
    [LS_OP_CEIL] = ref_unary,
    [LS_OP_FLOOR] = ref_unary,
    [LS_OP_ROUND] = ref_unary,
    [LS_OP_ROUND_AWAY] = ref_unary,
    [LS_OP_COS] = ref_unary,
    [LS_OP_SIN] = ref_unary,
    [LS_OP_TAN] = ref_unary,
    [LS_OP_CBRT] = ref_unary,
    [LS_OP_ERFC] = ref_unary,
    [LS_OP_SOFTPLUS] = ref_unary,
    [LS_OP_GELU] = ref_unary,
    [LS_OP_POPCOUNT] = ref_unary,
    [LS_OP_COUNT_LEADING_ZEROS] = ref_unary,
    [LS_OP_CONVERT] = ref_convert,
    [LS_OP_BITCAST] = ref_bitcast,
    [LS_OP_IS_FINITE] = ref_is_finite,
    [LS_OP_ADD] = ref_binary,
    [LS_OP_SUB] = ref_binary,
    [LS_OP_MUL] = ref_binary,
    [LS_OP_DIV] = ref_binary,
    [LS_OP_MAXIMUM] = ref_binary,
    [LS_OP_MINIMUM] = ref_binary,
    [LS_OP_POW] = ref_binary,
    [LS_OP_AND] = ref_binary,
    [LS_OP_OR] = ref_binary,
    [LS_OP_XOR] = ref_binary,
    [LS_OP_RELU_GRAD] = ref_binary,
    [LS_OP_GELU_GRAD] = ref_binary,
    [LS_OP_ATAN2] = ref_binary,
    [LS_OP_REMAINDER] = ref_binary,
    [LS_OP_SHIFT_LEFT] = ref_binary,
    [LS_OP_SHIFT_RIGHT_ARITHMETIC] = ref_binary,
    [LS_OP_SHIFT_RIGHT_LOGICAL] = ref_binary,
    [LS_OP_EQUAL] = ref_compare,
    [LS_OP_NOT_EQUAL] = ref_compare,
    [LS_OP_LESS] = ref_compare,
    [LS_OP_LESS_EQUAL] = ref_compare,
    [LS_OP_GREATER] = ref_compare,
    [LS_OP_GREATER_EQUAL] = ref_compare,
    [LS_OP_SELECT] = ref_select,
    [LS_OP_CLAMP] = ref_clamp,
    [LS_OP_RESHAPE] = ref_copies,
    [LS_OP_BROADCAST] = ref_broadcast,
    [LS_OP_SUM_TO] = ref_sum_to,
    [LS_OP_TRANSPOSE] = ref_transpose,
    [LS_OP_SLICE] = ref_slice,
    [LS_OP_SLICE_GRAD] = ref_slice_grad,
    [LS_OP_DYNAMIC_SLICE] = ref_dynamic_slice,
    [LS_OP_DYNAMIC_UPDATE_SLICE] = ref_dynamic_update_slice,
    [LS_OP_PAD] = ref_pad,
    [LS_OP_CONCATENATE] = ref_concatenate,
    [LS_OP_SPLIT_LIKE] = ref_split_like,
    [LS_OP_REVERSE] = ref_reverse,
    [LS_OP_GATHER] = ref_gather,
    [LS_OP_SCATTER] = ref_scatter,
    [LS_OP_INDEXED_SLICES] = ref_indexed_slices,
    [LS_OP_TAKE_ALONG] = ref_take_along,
    [LS_OP_ADD_ALONG] = ref_add_along,
    [LS_OP_CUMSUM] = ref_scan,
    [LS_OP_CUMPROD] = ref_scan,
    [LS_OP_LINEAR_SCAN] = ref_scan,
    [LS_OP_SORT] = ref_sort,
    [LS_OP_TOP_K] = ref_top_k,
    [LS_OP_ONE_HOT] = ref_one_hot,
    [LS_OP_REDUCE_SUM] = ref_reduce,
    [LS_OP_REDUCE_MEAN] = ref_reduce,
    [LS_OP_REDUCE_MAX] = ref_reduce,
    [LS_OP_REDUCE_MIN] = ref_reduce,
    [LS_OP_REDUCE_PRODUCT] = ref_reduce,
    [LS_OP_REDUCE_AND] = ref_reduce,
    [LS_OP_REDUCE_OR] = ref_reduce,
    [LS_OP_ARGMAX] = ref_argmax,
    [LS_OP_ARGMIN] = ref_argmax,
    [LS_OP_ADD_N] = ref_add_n,
    [LS_OP_MATMUL] = ref_matmul,
    [LS_OP_DENSE] = ref_matmul,
    [LS_OP_SOFTMAX] = ref_softmax,
    [LS_OP_LOG_SOFTMAX] = ref_softmax,
    [LS_OP_CROSS_ENTROPY] = ref_cross_entropy,
    [LS_OP_CROSS_ENTROPY_GRAD] = ref_cross_entropy_grad,
    [LS_OP_CONVOLUTION] = ref_convolution,
    [LS_OP_CONV_BIAS_ACT] = ref_convolution,
    [LS_OP_CONV_GRAD_INPUT] = ref_convolution,
    [LS_OP_CONV_GRAD_WEIGHTS] = ref_convolution,
    [LS_OP_REDUCE_WINDOW] = ref_reduce_window,
    [LS_OP_WINDOW_SUM_GRAD] = ref_window_sum_grad,
    [LS_OP_WINDOW_MAX_GRAD] = ref_window_max,
    [LS_OP_WINDOW_MAX_PICK] = ref_window_max,
    [LS_OP_BATCH_NORM] = ref_batch_norm,
    [LS_OP_BATCH_NORM_GRAD] = ref_batch_norm_grad,
    [LS_OP_BATCH_NORM_INFERENCE] = ref_batch_norm_inference,
    [LS_OP_LAYER_NORM] = ref_row_norm,
    [LS_OP_LAYER_NORM_GRAD] = ref_row_norm_grad,
    [LS_OP_RMS_NORM] = ref_row_norm,
    [LS_OP_RMS_NORM_GRAD] = ref_row_norm_grad,
    [LS_OP_ATTENTION] = ref_attention,
    [LS_OP_ATTENTION_GRAD] = ref_attention_grad,
    [LS_OP_BARRIER] = ref_copies,
    [LS_OP_CUSTOM_GRADIENT] = ref_custom_gradient,
    [LS_OP_READ] = ref_read,
    [LS_OP_ASSIGN] = ref_assign,
    [LS_OP_ASSIGN_ADD] = ref_assign,
    [LS_OP_ASSIGN_SUB] = ref_assign,
    [LS_OP_ASSIGN_SCATTER] = ref_assign_scatter,
    [LS_OP_WHILE] = ref_while,
    [LS_OP_COND] = ref_cond,
    [LS_OP_CALL] = ref_call,
    [LS_OP_STACK_NEW] = ref_stack_new,
    [LS_OP_STACK_PUSH] = ref_stack_push,
    [LS_OP_STACK_POP] = ref_stack_pop,
    // Outside of replicas.
    [LS_OP_REPLICA_ID] = ref_nothing,
    [LS_OP_ALL_REDUCE] = ref_copies,
    [LS_OP_ALL_GATHER] = ref_copies,
    [LS_OP_REDUCE_SCATTER] = ref_copies,
    [LS_OP_ALL_TO_ALL] = ref_copies,
    [LS_OP_PERMUTE] = ref_copies,
    [LS_OP_REPLICA_BROADCAST] = ref_copies,
};

bool ref_has(uint16_t op) { return op < LS_OP_COUNT && functions[op] != NULL; }

// ---- Walking ---------------------------------------------------------------
void ref_evaluate(ref_run *run, const ls_node *node, const ref_tensor *in,
                  ref_tensor *out) {
  if (!ref_has(node->type))
    fail_msg("no reference for %s", ls_op_table[node->type].name);
  const ref_op op = {run, node, node->type, node->num_inputs,
                     node->num_outputs};
  functions[node->type](&op, in, out);
  for (size_t i = 0; i < node->num_outputs; ++i)
    for (int64_t k = 0; k < out[i].count; ++k)
      out[i].at[k] = ref_stored(out[i].type.dtype, out[i].at[k]);
}

// What the shape rule says of these operands.
static void infer(ref_run *run, const ls_node *node, const ref_tensor *in,
                  ref_tensor *out) {
  bool known = true;
  for (size_t i = 0; i < node->num_outputs; ++i)
    known = known && ls_shape_is_known(node->outputs[i].shape);
  const ls_type *types = node->outputs;
  if (!known) {
    ls_type *given = ref_allocate(run, node->num_inputs + 1, sizeof(*given));
    for (size_t i = 0; i < node->num_inputs; ++i)
      given[i] = in[i].type;
    ls_type *found = ref_allocate(run, node->num_outputs, sizeof(*found));
    ls_arena arena;
    ls_arena_init(&arena, ls_allocator_system());
    const ls_op_spec spec = {.type = node->type,
                             .attrs = node->attrs,
                             .num_attrs = node->num_attrs,
                             .regions = node->regions,
                             .num_regions = node->num_regions};
    ls_infer rule = {
        &spec, "op", given, node->num_inputs, found, node->num_outputs, &arena};
    expect_ok(ls_op_table[node->type].infer(&rule));
    memcpy(found, rule.out, node->num_outputs * sizeof(*found));
    ls_arena_deinit(&arena);
    types = found;
  }
  for (size_t i = 0; i < node->num_outputs; ++i)
    out[i] = ref_tensor_create(run, types[i]);
}

// The values of a graph's nodes, found by id.
typedef struct ref_values {
  ref_tensor **of_node;
} ref_values;

static ref_tensor value_of(const ref_values *values, uint64_t ref) {
  return values->of_node[ls_ref_id(ref)][ls_ref_output(ref)];
}

void ref_evaluate_graph(ref_run *run, const ls_graph *graph,
                        const ref_tensor *arguments, ref_tensor *results) {
  ref_values values = {
      ref_allocate(run, graph->next_id + 1, sizeof(ref_tensor *))};
  for (size_t i = 0; i < graph->num_parameters; ++i) {
    ref_tensor *value = ref_allocate(run, 1, sizeof(*value));
    *value = arguments[i];
    values.of_node[ls_ref_id(graph->parameters[i])] = value;
  }
  for (size_t n = 0; n < graph->num_nodes; ++n) {
    const ls_node *node = graph->nodes[n];
    if (node->type == LS_OP_PARAMETER) continue;
    ref_tensor *in = ref_allocate(run, node->num_inputs + 1, sizeof(*in));
    ref_tensor *out = ref_allocate(run, node->num_outputs + 1, sizeof(*out));
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      in[i] = value_of(&values, node->inputs[i]);
    infer(run, node, in, out);
    ref_evaluate(run, node, in, out);
    values.of_node[node->id] = out;
  }
  for (size_t i = 0; i < graph->num_results; ++i)
    results[i] = value_of(&values, graph->results[i]);
}

void ref_tensor_level(ref_tensor *tensor) {
  double largest = 0;
  for (int64_t k = 0; k < tensor->count; ++k)
    largest = fmax(largest, tensor->at[k].terms);
  for (int64_t k = 0; k < tensor->count; ++k)
    tensor->at[k].terms = largest;
}

// ---- Comparing -------------------------------------------------------------
void ref_expect(const char *what, const ref_tensor *want, const void *data,
                double slack) {
  const ls_dtype dtype = want->type.dtype;
  double unit = 0x1p-22, computed = 0x1p-22;
  if (dtype == LS_DTYPE_F64) unit = computed = 0x1p-50;
  if (dtype == LS_DTYPE_F16) unit = 0x1p-10;
  if (dtype == LS_DTYPE_BF16) unit = 0x1p-7;
  for (int64_t k = 0; k < want->count; ++k) {
    const ref_number got = ref_load(dtype, data, k), w = want->at[k];
    if (!ls_dtype_is_float(dtype)) {
      if (got.whole == w.whole) continue;
      fail_msg("%s: element %lld of %s is %lld, wanted %lld; seed %llu", what,
               (long long)k, LS_SHAPE_TEXT(dtype, want->type.shape),
               (long long)got.whole, (long long)w.whole,
               (unsigned long long)loop_random_seed());
    }
    if (got.real == w.real || (isnan(got.real) && isnan(w.real))) continue;
    double bound = slack * (unit * fabs(w.real) + computed * w.terms);
    // Where numbers lose bits before they are 0.
    bound += dtype == LS_DTYPE_F16   ? 0x1p-24
             : dtype == LS_DTYPE_F64 ? 0x1p-1060
                                     : 0x1p-130;
    if (fabs(got.real - w.real) <= bound) continue;
    fail_msg("%s: element %lld of %s is %.17g, wanted %.17g within %.3g; seed "
             "%llu",
             what, (long long)k, LS_SHAPE_TEXT(dtype, want->type.shape),
             got.real, w.real, bound, (unsigned long long)loop_random_seed());
  }
}

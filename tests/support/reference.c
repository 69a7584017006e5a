// SPDX-License-Identifier: Apache-2.0
//
// Walking a graph, and comparing.
#include "support/reference.h"

#include <math.h>

#include "support/expect.h"
#include "support/loop_case.h"
#include "support/op_case.h"

// ---- Walking ---------------------------------------------------------------
void ref_evaluate(ref_run *run, const ls_node *node, const ref_tensor *in,
                  ref_tensor *out) {
  const ref_function compute = op_case_compute(node->type);
  if (compute == NULL)
    fail_msg("no reference for %s", ls_op_table[node->type].name);
  const ref_op op = {run, node, node->type, node->num_inputs,
                     node->num_outputs};
  compute(&op, in, out);
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
    const ls_op_spec spec = ls_node_spec(node);
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
    // Where numbers lose bits, or become 0, as their denormals do.
    bound += dtype == LS_DTYPE_F16   ? 0x1p-24
             : dtype == LS_DTYPE_F64 ? 0x1p-1022
                                     : 0x1p-126;
    if (fabs(got.real - w.real) <= bound) continue;
    fail_msg("%s: element %lld of %s is %.17g, wanted %.17g within %.3g; seed "
             "%llu",
             what, (long long)k, LS_SHAPE_TEXT(dtype, want->type.shape),
             got.real, w.real, bound, (unsigned long long)loop_random_seed());
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "support/wide_evaluate.h"

#include <string.h>

enum { MOST_NODES = 100, MOST_OUTPUTS = 24 };

typedef struct table {
  wide_row at[MOST_NODES][MOST_OUTPUTS];
} table;

static int32_t *get(table *t, uint64_t ref) {
  return t->at[ls_ref_id(ref)][ls_ref_output(ref)];
}

// Inputs from `from` on.
static void take(table *t, const ls_node *node, size_t from, size_t count,
                 wide_row *to) {
  for (size_t i = 0; i < count; ++i)
    memcpy(to[i], get(t, node->inputs[from + i]), sizeof(wide_row));
}

static void evaluate_while(const ls_node *node, int64_t replicas, table *t,
                           wide_row *out) {
  const ls_graph *condition = node->regions[0], *body = node->regions[1];
  const size_t carried = node->num_outputs;
  wide_row seen[2][WIDE_MOST_VALUES], holds;
  take(t, node, 0, carried, out);
  take(t, node, carried, condition->num_captures, seen[0] + carried);
  take(t, node, carried + condition->num_captures, body->num_captures,
       seen[1] + carried);
  for (;;) {
    memcpy(seen[0], out, carried * sizeof(*out));
    memcpy(seen[1], out, carried * sizeof(*out));
    wide_evaluate(condition, replicas, seen[0], &holds);
    if (holds[0] == 0) return;
    wide_evaluate(body, replicas, seen[1], out);
  }
}

static void evaluate_cond(const ls_node *node, int64_t replicas, table *t,
                          wide_row *out) {
  const bool holds = get(t, node->inputs[0])[0] != 0;
  const ls_graph *branch = node->regions[holds ? 0 : 1];
  wide_row seen[WIDE_MOST_VALUES];
  take(t, node, holds ? 1 : 1 + node->regions[0]->num_captures,
       branch->num_captures, seen);
  wide_evaluate(branch, replicas, seen, out);
}

static void evaluate_replicate(const ls_node *node, table *t, wide_row *out) {
  const ls_graph *body = node->regions[0];
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  const size_t split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT);
  const size_t gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED);
  wide_row seen[WIDE_MOST_VALUES] = {0}, results[WIDE_MOST_VALUES];
  for (size_t s = 0; s < split; ++s)
    for (size_t r = 0; r < replicas; ++r)
      seen[s][r] = get(t, node->inputs[s * replicas + r])[r];
  take(t, node, split * replicas, body->num_parameters - split, seen + split);
  wide_evaluate(body, (int64_t)replicas, seen, results);
  for (size_t g = 0; g < gathered; ++g)
    for (size_t r = 0; r < replicas; ++r, ++out)
      for (size_t k = 0; k < WIDE_MOST_REPLICAS; ++k)
        (*out)[k] = results[g][r];
  memcpy(out, results + gathered,
         (body->num_results - gathered) * sizeof(*out));
}

static int32_t evaluate_one(const ls_node *node, int64_t replicas, table *t,
                            int32_t r) {
  uint32_t a = 0, b = 0;
  if (node->num_inputs > 0) a = (uint32_t)get(t, node->inputs[0])[r];
  if (node->num_inputs > 1) b = (uint32_t)get(t, node->inputs[1])[r];
  switch (node->type) {
  case LS_OP_CONSTANT:
    return (int32_t)ls_array_i64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array,
                                 0);
  case LS_OP_ADD:
    return (int32_t)(a + b);
  case LS_OP_SUB:
    return (int32_t)(a - b);
  case LS_OP_MUL:
    return (int32_t)(a * b);
  case LS_OP_LESS:
    return (int32_t)a < (int32_t)b;
  case LS_OP_REPLICA_ID:
    return r;
  case LS_OP_HOST:
    return (int32_t)(3 * a + (uint32_t)r);
  default:
    for (int64_t k = 0; k < replicas; ++k)  // all_reduce
      b += (uint32_t)get(t, node->inputs[0])[k];
    return (int32_t)b;
  }
}

void wide_evaluate(const ls_graph *graph, int64_t replicas,
                   wide_row *parameters, wide_row *results) {
  table t;
  for (size_t i = 0; i < graph->num_parameters; ++i)
    memcpy(get(&t, graph->parameters[i]), parameters[i], sizeof(wide_row));
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    wide_row *out = t.at[node->id];
    if (node->type == LS_OP_PARAMETER) continue;
    if (node->type == LS_OP_WHILE)
      evaluate_while(node, replicas, &t, out);
    else if (node->type == LS_OP_COND)
      evaluate_cond(node, replicas, &t, out);
    else if (node->type == LS_OP_REPLICATE)
      evaluate_replicate(node, &t, out);
    else
      for (int32_t r = 0; r < WIDE_MOST_REPLICAS; ++r)
        out[0][r] = evaluate_one(node, replicas, &t, r);
  }
  for (size_t i = 0; i < graph->num_results; ++i)
    memcpy(results[i], get(&t, graph->results[i]), sizeof(wide_row));
}

// SPDX-License-Identifier: Apache-2.0
#include "support/evaluate.h"

#include <string.h>

// The values of a graph, by id and output: nodes have up to 16 outputs.
enum { WIDE = 16 };
typedef struct table {
  int32_t at[160][WIDE];
} table;

static int32_t get(const table *t, uint64_t ref) {
  return t->at[ls_ref_id(ref)][ls_ref_output(ref)];
}

static void gather(const table *t, const ls_node *node, uint32_t from,
                   size_t count, int32_t *values) {
  for (size_t i = 0; i < count; ++i)
    values[i] = get(t, node->inputs[from + i]);
}

static void evaluate_while(const ls_node *node, const table *t, int32_t *out) {
  const ls_graph *condition = node->regions[0], *body = node->regions[1];
  const uint32_t carried = node->num_outputs;
  int32_t seen[2][MOST];
  gather(t, node, 0, carried, out);
  gather(t, node, carried, condition->num_captures, seen[0] + carried);
  gather(t, node, carried + (uint32_t)condition->num_captures,
         body->num_captures, seen[1] + carried);
  const int64_t bound = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
  for (int64_t trip = 0; bound == 0 || trip < bound; ++trip) {
    int32_t holds = 0;
    memcpy(seen[0], out, carried * sizeof(*out));
    memcpy(seen[1], out, carried * sizeof(*out));
    evaluate(condition, seen[0], &holds);
    if (holds == 0) return;
    evaluate(body, seen[1], out);
  }
}

static void evaluate_cond(const ls_node *node, const table *t, int32_t *out) {
  const bool holds = get(t, node->inputs[0]) != 0;
  const ls_graph *branch = node->regions[holds ? 0 : 1];
  int32_t seen[MOST];
  gather(t, node, holds ? 1 : 1 + (uint32_t)node->regions[0]->num_captures,
         branch->num_captures, seen);
  evaluate(branch, seen, out);
}

static void evaluate_node(const ls_node *node, table *t) {
  int32_t *out = t->at[node->id];
  uint32_t a = 0, b = 0;
  if (node->num_inputs > 0) a = (uint32_t)get(t, node->inputs[0]);
  if (node->num_inputs > 1) b = (uint32_t)get(t, node->inputs[1]);
  switch (node->type) {
  case LS_OP_CONSTANT:
    *out = (int32_t)ls_array_i64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array,
                                 0);
    break;
  case LS_OP_ADD:
    *out = (int32_t)(a + b);
    break;
  case LS_OP_SUB:
    *out = (int32_t)(a - b);
    break;
  case LS_OP_MUL:
    *out = (int32_t)(a * b);
    break;
  case LS_OP_MAXIMUM:
    *out = (int32_t)a > (int32_t)b ? (int32_t)a : (int32_t)b;
    break;
  case LS_OP_LESS:
    *out = (int32_t)a < (int32_t)b;
    break;
  case LS_OP_WHILE:
    evaluate_while(node, t, out);
    break;
  case LS_OP_COND:
    evaluate_cond(node, t, out);
    break;
  default:
    break;
  }
}

static void merge(const ls_node *node, table *lanes) {
  const char *reduction = ls_node_attr(node, LS_ATTR_ID_REDUCE)->as.string;
  int32_t all = get(&lanes[0], node->inputs[0]);
  for (int r = 1; r < REPLICAS; ++r) {
    const int32_t next = get(&lanes[r], node->inputs[0]);
    if (reduction[0] == 's') all = (int32_t)((uint32_t)all + (uint32_t)next);
    if (reduction[1] == 'a' && next > all) all = next;
    if (reduction[1] == 'i' && next < all) all = next;
  }
  for (int r = 0; r < REPLICAS; ++r)
    lanes[r].at[node->id][0] = all;
}

static void evaluate_replicate(const ls_node *node, table *t) {
  static table lanes[REPLICAS];
  const ls_graph *body = node->regions[0];
  const size_t split = body->num_declared;
  for (size_t i = 0; i < body->num_parameters; ++i) {
    for (size_t r = 0; r < REPLICAS; ++r) {
      const size_t input =
          i < split ? i * REPLICAS + r : split * REPLICAS + i - split;
      lanes[r].at[ls_ref_id(body->parameters[i])][0] =
          get(t, node->inputs[input]);
    }
  }
  for (size_t i = 0; i < body->num_nodes; ++i) {
    if (body->nodes[i]->type == LS_OP_ALL_REDUCE) {
      merge(body->nodes[i], lanes);
    } else {
      for (int r = 0; r < REPLICAS; ++r) {
        evaluate_node(body->nodes[i], &lanes[r]);
      }
    }
  }
  const size_t gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED);
  int32_t *out = t->at[node->id];
  for (size_t i = 0; i < body->num_results; ++i) {
    for (size_t r = 0; r < (i < gathered ? REPLICAS : 1); ++r) {
      *out++ = get(&lanes[r], body->results[i]);
    }
  }
}

void evaluate(const ls_graph *graph, const int32_t *parameters,
              int32_t *results) {
  table t;
  for (size_t i = 0; i < graph->num_parameters; ++i) {
    t.at[ls_ref_id(graph->parameters[i])][0] = parameters[i];
  }
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type == LS_OP_REPLICATE) {
      evaluate_replicate(node, &t);
    } else {
      evaluate_node(node, &t);
    }
  }
  for (size_t i = 0; i < graph->num_results; ++i) {
    results[i] = get(&t, graph->results[i]);
  }
}

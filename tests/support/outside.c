// SPDX-License-Identifier: Apache-2.0
#include "support/outside.h"

#include <stdio.h>

#include "graph/gather/gather.h"
#include "support/expect.h"
#include "support/loop_case.h"

static bool is_bound_to_cores(const ls_node *node) {
  switch (node->type) {
  case LS_OP_TPU_REPLICATE_METADATA:
  case LS_OP_TPU_REPLICATED_INPUT:
  case LS_OP_TPU_REPLICATED_OUTPUT:
  case LS_OP_NO_OP:
  case LS_OP_REDUCE_SCATTER:
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
  case LS_OP_REPLICA_BROADCAST:
  case LS_OP_MERGE_CALL:
  case LS_OP_PARAMETER:
    return true;
  default:
    break;
  }
  if ((ls_node_info(node)->traits & LS_OP_MERGE) != 0 ||
      ls_node_attr(node, LS_ATTR_ID_VARIABLE) != NULL)
    return true;
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const ls_graph *region = ls_graph_resolve(node->regions[r]);
    for (size_t i = 0; i < region->num_nodes; ++i)
      if (region->nodes[i]->type != LS_OP_PARAMETER &&
          is_bound_to_cores(region->nodes[i]))
        return true;
  }
  return false;
}

static size_t put_in(ls_graph *graph, loop_random *random, int64_t one_in) {
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    const bool is_chosen = loop_random_between(random, 1, one_in) == 1;
    const int64_t cluster = loop_random_between(random, 0, 3);
    if (is_chosen && ls_node_mark(node, LS_MARK_REPLICATE) != NULL &&
        ls_node_mark(node, LS_MARK_OUTSIDE) == NULL &&
        !is_bound_to_cores(node)) {
      char name[24];
      snprintf(name, sizeof(name), "by_hand_%d", (int)cluster);
      expect_ok(ls_node_set_attr(graph, node,
                                 &(ls_attr){.name = LS_MARK_OUTSIDE,
                                            .kind = LS_ATTR_STRING,
                                            .as.string = name}));
      ++count;
    }
    for (uint32_t r = 0; r < node->num_regions; ++r)
      count += put_in(ls_graph_resolve(node->regions[r]), random, one_in);
  }
  return count;
}

size_t put_some_outside(ls_graph *graph, uint64_t seed) {
  loop_random random = {seed};
  const int64_t one_in = loop_random_between(&random, 1, 4);
  return put_in(graph, &random, one_in);
}

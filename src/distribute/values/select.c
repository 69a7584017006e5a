// SPDX-License-Identifier: Apache-2.0
//
// Components of distributed values, and queries about them.
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/values/values.h"
#include "graph/flow.h"
#include "graph/variables/variable.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy_extended.h"

typedef struct selection {
  int64_t replica;
} selection;

static ls_nest select_leaf(ls_nest leaf, void *user) {
  const int64_t replica = ((const selection *)user)->replica;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  const size_t count = ls_distributed_count(leaf);
  if (replica < 0 || (uint64_t)replica >= count)
    return LS_FAIL(LS_OUT_OF_RANGE,
                   "replica %lld of a distributed value with %zu components",
                   (long long)replica, count);
  return ls_nest_retain(ls_distributed_component(leaf, (size_t)replica));
}

ls_status ls_select_replica(int64_t replica, ls_nest nest, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  selection s = {replica};
  return ls_take_nest(ls_nest_map(nest, select_leaf, &s), out_value);
}

ls_status ls_select_replica_mirrored(int64_t replica, ls_nest nest,
                                     ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_RETURN_IF_ERROR(ls_assert_mirrored(nest));
  return ls_select_replica(replica, nest, out_value);
}

// ---- Predicates ------------------------------------------------------------
ls_nest ls_value_container(ls_nest leaf) {
  ls_variable *variable = ls_nest_as_variable(leaf);
  if (variable == NULL || variable->container == NULL) return leaf;
  return (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable->container};
}

ls_nest ls_strategy_value_container(const ls_strategy *strategy, ls_nest leaf) {
  if (strategy == NULL) return ls_fail(ls_null_argument(__func__, "strategy"));
  return strategy->kind->value_container != NULL
             ? strategy->kind->value_container(leaf)
             : leaf;
}

bool ls_is_distributed_variable(ls_nest leaf) {
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable != NULL && variable->num_components > 0;
}

bool ls_variable_is_replicated(const ls_variable *variable) {
  return variable->num_components > 0 && variable->rules->replicates &&
         !ls_context_current()->scoped.primaries_only &&
         ls_flow_replicated() != NULL;
}

bool ls_is_distributed_table(ls_nest leaf) {
  return leaf.kind == LS_KIND_OBJECT && leaf.as.ref != NULL &&
         ((const ls_object *)leaf.as.ref)->type->is_distributed_table;
}

bool ls_is_mirrored(ls_nest leaf) {
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_kind_of(leaf) == LS_MIRRORED;
  return ls_is_distributed_variable(leaf) &&
         ls_nest_as_variable(leaf)->synchronization ==
             LS_SYNCHRONIZATION_ON_WRITE;
}

bool ls_is_sync_on_read(ls_nest leaf) { return !ls_is_mirrored(leaf); }

// ---- Mirrored check --------------------------------------------------------
// Returns the first leaf that is distributed and not mirrored, in order of
// flattening, borrowed; none if there is none.
static ls_nest find_unmirrored(ls_nest nest) {
  if (!ls_nest_is_node(nest)) {
    const bool distributed =
        nest.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(nest);
    return distributed && !ls_is_mirrored(nest) ? nest : ls_none();
  }
  for (size_t i = 0; i < ls_nest_count(nest); ++i) {
    const ls_nest found = find_unmirrored(ls_nest_item(nest, i));
    if (found.kind != LS_KIND_NONE) return found;
  }
  return ls_none();
}

ls_status ls_assert_mirrored(ls_nest nest) {
  LS_RETURN_IF_ERROR(ls_nest_status(nest));
  const ls_nest found = find_unmirrored(nest);
  if (found.kind == LS_KIND_NONE) return ls_ok();
  return ls_invalid_argument("%s is not mirrored, in %s", LS_NEST_TEXT(found),
                             LS_NEST_TEXT(nest));
}

// SPDX-License-Identifier: Apache-2.0
//
// What the results of updates become: mirrored values that bring each other,
// or tuples.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/values/values.h"
#include "distribute/variables/update.h"
#include "graph/make/make.h"
#include "runtime/eager/eager.h"

static ls_op update_results_op_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_OP) return leaf.as.op;
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_op(leaf.as.tensor);
  return (ls_op){0};
}

static bool update_results_is_value(ls_nest leaf) {
  return leaf.kind == LS_KIND_TENSOR || leaf.kind == LS_KIND_VARIABLE;
}

// Component i after the group: an identity beside it.
static ls_nest after(ls_nest component, ls_op group) {
  ls_tensor made = ls_failed_tensor();
  const char *device = ls_leaf_device(component);
  {
    LS_DEVICE_SCOPE(device[0] != '\0' ? device : NULL);
    {
      LS_CONTROL_SCOPE(&group, 1);
      made = component.kind == LS_KIND_VARIABLE
                 ? ls_variable_read(ls_nest_as_variable(component))
                 : ls_identity(component.as.tensor);
    }
  }
  const ls_status status = ls_made_status(made);
  return ls_status_is_ok(status) ? ls_leaf(made) : ls_fail(status);
}

// Wraps the components of a leaf so that one of them brings all.
static ls_nest wrap_grouped(const ls_nest *components, size_t count,
                            void *user) {
  (void)user;
  const ls_graph *graph = ls_graph_current();
  const bool eager = graph->kind == LS_GRAPH_EAGER;
  ls_allocator *allocator = ls_current_allocator();
  bool values = true;
  for (size_t i = 0; i < count; ++i)
    values = values && update_results_is_value(components[i]);
  if (count == 1 || (eager && values)) {
    for (size_t i = 0; i < count; ++i)
      ls_nest_retain(components[i]);
    return ls_nest_distributed(LS_MIRRORED, components, count);
  }
  if (eager) return ls_none();  // Everything has run.
  LS_OWN_ARRAY(allocator, ls_op, ops, count);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  ls_nest made =
      ops == NULL || items == NULL ? ls_fail(ls_out_of_memory()) : ls_none();
  for (size_t i = 0; i < count && !ls_nest_is_failed(made); ++i) {
    ops[i] = update_results_op_of(components[i]);
    char text[160];
    if (ops[i].id == 0 && components[i].kind == LS_KIND_VARIABLE)
      ops[i] = ls_tensor_op(ls_variable_read(components[i].as.ref));
    if (ops[i].id == 0)
      made = LS_FAIL(LS_INVALID_ARGUMENT,
                     "%s is the result of an update on replica %zu; results "
                     "that differ are tensors, variables or ops",
                     ls_nest_print(components[i], text, sizeof(text)), i);
  }
  if (!ls_nest_is_failed(made)) {
    const ls_op group = ls_group_by_device(ops, count, NULL);
    if (!values) {
      made = ls_nest_op(group);
    } else {
      for (size_t i = 0; i < count; ++i)
        items[i] = after(components[i], group);
      made = ls_nest_distributed(LS_MIRRORED, items, count);
    }
  }
  return made;
}

static ls_nest local_results(ls_nest leaf, void *user) {
  ls_nest tuple = ls_none();
  const ls_status status = ls_strategy_local_results(user, leaf, &tuple);
  return ls_status_is_ok(status) ? tuple : ls_fail(status);
}

ls_status ls_update_ungroup(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value) {
  return ls_take_nest(ls_nest_map(value, local_results, strategy), out_value);
}

ls_status ls_update_regroup(ls_strategy *strategy, const ls_nest *updates,
                            size_t count, bool group, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE_ITEMS(updates, count);
  if (group) {
    ls_trial trial;
    ls_trial_begin(&trial);
    return ls_trial_end_with(
        &trial,
        ls_regroup(updates, count, &(ls_regroup_options){.wrap = wrap_grouped},
                   out_value),
        out_value);
  }
  LS_OWN(ls_nest, regrouped) = ls_none();
  LS_RETURN_IF_ERROR(ls_regroup(
      updates, count, &(ls_regroup_options){.kind = LS_MIRRORED}, &regrouped));
  return ls_update_ungroup(strategy, regrouped, out_value);
}

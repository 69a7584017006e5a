// SPDX-License-Identifier: Apache-2.0
//
// Ops of several devices as one.
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/values/values.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/strategy_extended.h"

typedef struct device_op {
  const char *device;
  ls_op op;
  size_t place;  // Among the ops that are given.
} device_op;

static int group_compare_devices(const void *a, const void *b) {
  const device_op *x = a, *y = b;
  const int order = strcmp(x->device, y->device);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

// A no-op for the ops of each device, placed there.
static ls_op group_each(device_op *items, size_t count, ls_op *ops,
                        const char *name) {
  size_t num_groups = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end < count && strcmp(items[end].device, items[i].device) == 0)
      ++end;
    ls_op of_device[256];
    ls_op group = {0};
    {
      LS_DEVICE_SCOPE(items[i].device[0] != '\0' ? items[i].device : NULL);
      for (size_t at = i; at < end;) {  // More than fit here make a chain.
        size_t n = 0;
        if (group.id != 0) of_device[n++] = group;
        while (n < LS_COUNT_OF(of_device) && at < end)
          of_device[n++] = items[at++].op;
        // The name is that of the op that runs after all.
        const bool is_last = i == 0 && at == count;
        group = ls_group(of_device, n, is_last ? name : NULL);
      }
    }
    ops[num_groups++] = group;
    i = end;
  }
  return num_groups == 1 ? ops[0] : ls_group(ops, num_groups, name);
}

ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, device_op, items, count);
  LS_OWN_ARRAY(allocator, ls_op, groups, count);
  ls_op made = {0};
  if (items != NULL && groups != NULL) {
    for (size_t i = 0; i < count; ++i)
      items[i] = (device_op){ls_op_device(ops[i]), ops[i], i};
    if (count > 1) qsort(items, count, sizeof(*items), group_compare_devices);
    made = group_each(items, count, groups, name);
  } else {
    made = ls_tensor_op(ls_make_failed("group_deps", ls_out_of_memory()));
  }
  return made;
}

// ---- Of values -------------------------------------------------------------
// The op of a leaf; without one (a host scalar, a variable in eager) id 0.
static ls_op group_op_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_OP) return leaf.as.op;
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_op(leaf.as.tensor);
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable == NULL ? (ls_op){0} : variable->initializer;
}

ls_status ls_strategy_group(ls_strategy *strategy, ls_nest value,
                            const char *name, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op);
  LS_REQUIRE(strategy);
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_strategy_local_results(strategy, value, &results));
  const size_t count = ls_nest_num_leaves(results);
  LS_OWN_ARRAY(strategy->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY(strategy->allocator, ls_op, ops, count);
  ls_status status =
      leaves == NULL || ops == NULL ? ls_out_of_memory() : ls_ok();
  if (ls_status_is_ok(status)) ls_nest_flatten(results, leaves, count);
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    ops[i] = group_op_of(leaves[i]);
    char text[160];
    if (ops[i].id == 0)
      status =
          ls_invalid_argument("%s cannot be grouped: it is no op",
                              ls_nest_print(leaves[i], text, sizeof(text)));
  }
  ls_trial trial;
  ls_trial_begin(&trial);
  if (ls_status_is_ok(status))
    *out_op = count == 1 && name == NULL ? ops[0]
                                         : ls_group_by_device(ops, count, name);
  status = ls_trial_end(&trial, status);
  return status;
}

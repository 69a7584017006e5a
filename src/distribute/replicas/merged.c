// SPDX-License-Identifier: Apache-2.0
//
// The merge functions of all_reduce and all_gather, for replicas that run op by
// op, in cross-replica context.
#include <ctype.h>

#include "base/values/nest_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/own.h"
#include "distribute/replicas/rounds.h"
#include "lockstep/shape_rules.h"

// Wraps a leaf as each replica's value. If all replicas passed one object, it
// counts once per replica.
static ls_nest of_all(const ls_strategy *strategy, ls_nest leaf) {
  if (leaf.kind == LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  ls_allocator *allocator = strategy->allocator;
  const size_t count = (size_t)strategy->num_replicas;
  const ls_variable *variable = ls_nest_as_variable(leaf);
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] =
        ls_nest_retain(variable != NULL && variable->num_components == count
                           ? (ls_nest){.kind = LS_KIND_VARIABLE,
                                       .as.ref = ls_variable_seen(variable, i)}
                           : leaf);
  return ls_nest_distributed_on(LS_PER_REPLICA, items,
                                ls_strategy_devices(strategy), count);
}

static ls_destinations all_devices(const ls_strategy *strategy) {
  return (ls_destinations){.devices = ls_strategy_devices(strategy),
                           .num_devices = (size_t)strategy->num_replicas};
}

// ---- Reduce ----------------------------------------------------------------
typedef struct merged {
  ls_strategy *strategy;
  ls_reduce_op op;
  int axis;
} merged;

static ls_nest of_all_leaf(ls_nest leaf, void *user) {
  const merged *m = user;
  LS_OWN(ls_nest, all) = of_all(m->strategy, leaf);
  const ls_nest first = ls_distributed_component(all, 0);
  const ls_array *array = ls_nest_as_array(first);
  ls_type type = {.dtype = LS_DTYPE_F32};
  if (first.kind == LS_KIND_TENSOR)
    type = ls_graph_type(first.as.tensor.graph, first.as.tensor.ref);
  else if (array != NULL)
    type = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
  // Refuses as the op of traced replicas does.
  if (!ls_dtype_is_float(type.dtype) && !ls_dtype_is_integer(type.dtype))
    return LS_FAIL(LS_INVALID_ARGUMENT, "all_reduce takes numbers, got %s",
                   LS_SHAPE_TEXT(type.dtype, type.shape));
  return ls_give(&all);
}

// Reduces all leaves in one batch.
static ls_status reduce_leaves(const merged *m, ls_nest nest,
                               ls_nest *out_value) {
  ls_allocator *allocator = m->strategy->allocator;
  const size_t count = ls_nest_num_leaves(nest);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_destinations, where, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count);
  LS_OWN(ls_nest, list) = ls_none();
  for (size_t i = 0; i < count; ++i)
    where[i] = all_devices(m->strategy);
  ls_nest_flatten(nest, leaves, count);
  LS_RETURN_IF_ERROR(ls_cross_device_batch_reduce(
      m->strategy->cross_device, m->op, leaves, where, count, &list));
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_nest_retain(ls_nest_item(list, i));
  return ls_take_nest(ls_nest_pack(nest, leaves, count), out_value);
}

// Computes a maximum or minimum, because users' tables have no functions for
// these.
static ls_status reduce_extreme(const merged *m, ls_nest leaf,
                                ls_nest *out_value) {
  LS_OWN_MEMORY(m->strategy->allocator, ls_tensor, items) = NULL;
  LS_OWN(ls_device_set, devices) = {0};
  ls_tensor made = ls_failed_tensor();
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_destination_set(all_devices(m->strategy), ls_none(), &devices));
  LS_RETURN_IF_ERROR(
      ls_component_tensors(leaf, m->strategy->allocator, &items, &count));
  {
    LS_DEVICE_SCOPE(devices.names[0].text);
    LS_RETURN_IF_ERROR(ls_reduce_tensors(m->op, items, count, &made));
  }
  return ls_copy_to(ls_leaf(made), &devices, out_value);
}

static ls_nest extreme_leaf(ls_nest leaf, void *user) {
  ls_nest copies = ls_none();
  return ls_made_nest(reduce_extreme(user, leaf, &copies), &copies);
}

ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args) {
  merged m = {.strategy = strategy, .op = op};
  if (ls_nest_num_leaves(args) == 0) return ls_nest_retain(args);
  LS_OWN(ls_nest, nest) = ls_nest_map(args, of_all_leaf, &m);
  if (ls_nest_is_failed(nest)) return ls_give(&nest);
  if (op == LS_REDUCE_MAX || op == LS_REDUCE_MIN)
    return ls_nest_map(nest, extreme_leaf, &m);
  ls_nest made = ls_none();
  return ls_made_nest(reduce_leaves(&m, nest, &made), &made);
}

// ---- Gather ----------------------------------------------------------------
static ls_status check_equal(const ls_strategy *strategy, ls_nest all) {
  LS_OWN_MEMORY(strategy->allocator, ls_tensor, items) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_component_tensors(all, strategy->allocator, &items, &count));
  return ls_check_same_shapes(items, count);
}

static ls_nest merged_gather_leaf(ls_nest leaf, void *user) {
  const merged *m = user;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, all) = of_all(m->strategy, leaf);
  if (ls_nest_is_failed(all)) return ls_give(&all);
  if (m->strategy->kind->gathers_equal)
    LS_RETURN_FAILED_IF_ERROR(check_equal(m->strategy, all));
  return ls_made_nest(ls_cross_device_gather(m->strategy->cross_device, all,
                                             m->axis, all_devices(m->strategy),
                                             &made),
                      &made);
}

ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args) {
  merged m = {.strategy = strategy, .axis = axis};
  return ls_nest_map(args, merged_gather_leaf, &m);
}

typedef struct made_list {
  ls_variable **items;
  size_t count, capacity;
} made_list;

void ls_sharing_init(ls_sharing *sharing, ls_strategy *strategy) {
  sharing->strategy = strategy;
  ls_map_init(&sharing->made, strategy->allocator);
}

void ls_sharing_deinit(ls_sharing *sharing) {
  ls_map_item item;
  if (sharing->strategy == NULL) return;
  for (size_t at = 0; ls_map_next(&sharing->made, &at, &item);) {
    made_list *list = item.value;
    for (size_t i = 0; i < list->count; ++i)
      ls_variable_release(list->items[i]);
    ls_release(sharing->strategy->allocator, list->items);
    ls_release(sharing->strategy->allocator, list);
  }
  ls_map_deinit(&sharing->made);
}

void ls_shared_requests_deinit(ls_shared_requests *requests) {
  if (requests->counts.allocator != NULL) ls_map_deinit(&requests->counts);
}

void ls_canonical_variable_name(const char *name, char *out) {
  while (*name != '\0') {
    const char *end = name + 1;
    while (isdigit((unsigned char)*end))
      ++end;
    const bool numbered =
        *name == '_' && end > name + 1 && (*end == '/' || *end == '\0');
    if (numbered)
      name = end;
    else
      *out++ = *name++;
  }
  *out = '\0';
}

static ls_status sharing_keep(ls_sharing *sharing, const char *name,
                              ls_variable *variable) {
  ls_allocator *allocator = sharing->strategy->allocator;
  made_list *list = ls_map_find_text(&sharing->made, name);
  if (list == NULL) {
    LS_SET_ARRAY_OR_RETURN(allocator, made_list, list, 1);
    if (!ls_map_insert_text(&sharing->made, name, list)) {
      ls_release(allocator, list);
      return ls_out_of_memory();
    }
  }
  LS_PUSH_OR_RETURN(allocator, list->items, list->count, list->capacity,
                    ls_variable_retain(variable));
  return ls_ok();
}

// Checks that the requested type is the shared variable's.
static ls_status sharing_check_type(const ls_variable_options *options,
                                    const ls_variable *made) {
  const ls_array *array = options->initial_array;
  ls_dtype dtype = options->dtype;
  ls_shape shape = options->shape;
  bool has_shape = array == NULL && options->initial_value.ref == 0 &&
                   dtype != LS_DTYPE_NONE;
  if (array != NULL) {
    dtype = ls_array_dtype(array);
    shape = ls_array_shape(array);
    has_shape = true;
  } else if (options->initial_value.ref != 0) {
    dtype = ls_tensor_dtype(options->initial_value);
    shape = ls_tensor_shape(options->initial_value);
    has_shape = true;
  }
  if ((dtype == LS_DTYPE_NONE || dtype == made->type.dtype) &&
      (!has_shape || ls_shape_compatible(shape, made->type.shape)))
    return ls_ok();
  return ls_invalid_argument(
      "variable '%s' is %s on replica 0 and requested as %s", made->name,
      LS_SHAPE_TEXT(made->type.dtype, made->type.shape),
      LS_SHAPE_TEXT(dtype, has_shape ? shape : made->type.shape));
}

static ls_status sharing_find(ls_shared_requests *requests, const char *asked,
                              const char *name,
                              const ls_variable_options *options,
                              ls_variable **out_variable) {
  const ls_sharing *sharing = requests->sharing;
  if (requests->counts.allocator == NULL)
    ls_map_init(&requests->counts, sharing->strategy->allocator);
  const size_t before =
      (size_t)(uintptr_t)ls_map_find_text(&requests->counts, name);
  const made_list *list = ls_map_find_text(&sharing->made, name);
  if (list == NULL || before >= list->count)
    return ls_failed_precondition(
        "variable '%s' was made on replica %d (%s), but not on replica 0; all "
        "replicas make the same variables",
        asked, requests->replica,
        ls_strategy_device(sharing->strategy, requests->replica));
  LS_RETURN_IF_ERROR(sharing_check_type(options, list->items[before]));
  if (!ls_map_insert_text(&requests->counts, name,
                          (void *)(uintptr_t)(before + 1)))
    return ls_out_of_memory();
  *out_variable = ls_variable_retain(list->items[before]);
  return ls_ok();
}

ls_status ls_sharing_create(const ls_creator *next,
                            const ls_variable_options *options, void *user,
                            ls_variable **out_variable) {
  ls_shared_requests *requests = user;
  const char *wanted = options->name != NULL ? options->name : "Variable";
  char name[LS_MAX_NAME];
  if (strlen(wanted) >= sizeof(name))
    return ls_invalid_argument("a variable's name of %zu characters",
                               strlen(wanted));
  ls_canonical_variable_name(wanted, name);
  if (requests->replica > 0)
    return sharing_find(requests, wanted, name, options, out_variable);
  LS_OWN(ls_variable, variable) = NULL;
  LS_RETURN_IF_ERROR(ls_creator_create(next, options, &variable));
  LS_RETURN_IF_ERROR(sharing_keep(requests->sharing, name, variable));
  return ls_hand_over(&variable, out_variable);
}

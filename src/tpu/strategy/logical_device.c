// SPDX-License-Identifier: Apache-2.0
//
// Logical devices of replicas: annotations of values, and the logical device of
// the current scope.
#include "lockstep/logical_device.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "distribute/context/context.h"
#include "graph/make/make.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"

int32_t ls_num_logical_devices(const ls_strategy *strategy) {
  return ls_tpu_strategy_of(strategy) != NULL ? strategy->num_columns : 0;
}

// ---- Checks ----------------------------------------------------------------
static ls_status logical_device_check_number(const ls_strategy *strategy,
                                             int32_t k) {
  const int32_t count = strategy->num_columns;
  if (k >= 0 && k < count) return ls_ok();
  return ls_invalid_argument(
      "logical device %d of %s, which has %d for each replica: 0 to %d", k,
      strategy->label, count, count - 1);
}

static ls_status check_strategy(const ls_strategy *strategy) {
  if (strategy == NULL) return ls_invalid_argument("the strategy is NULL");
  return ls_tpu_strategy_of(strategy) != NULL
             ? ls_ok()
             : ls_invalid_argument(
                   "%s is no TPU strategy: it has no logical devices",
                   strategy->label);
}

static ls_status check_offered(const ls_strategy *strategy, const char *noun) {
  LS_RETURN_IF_ERROR(check_strategy(strategy));
  const ls_tpu_flavour *flavour = ls_tpu_strategy_of(strategy)->flavour;
  return flavour->has_logical_devices
             ? ls_ok()
             : ls_unimplemented("%s of %s: this is the %s, which does not "
                                "support it; use ls_tpu_strategy_create",
                                noun, strategy->label, flavour->name);
}

static ls_status check_assigned(const ls_strategy *strategy, int32_t k) {
  LS_RETURN_IF_ERROR(check_offered(strategy, "assign_to_logical_device"));
  LS_RETURN_IF_ERROR(logical_device_check_number(strategy, k));
  return !ls_tpu_strategy_of(strategy)->spmd
             ? ls_ok()
             : ls_invalid_argument(
                   "assign_to_logical_device %d of %s: its cores form one "
                   "device (spmd); split or replicate the value",
                   k, strategy->label);
}

static ls_status check_dimension(ls_shape shape, size_t i, int64_t parts) {
  if (parts < 1)
    return ls_invalid_argument("split_to_logical_devices: dimension %zu in "
                               "%lld parts; at least one is needed",
                               i, (long long)parts);
  const int64_t size = shape.dim[i];
  return size == LS_UNKNOWN_DIM || size % parts == 0
             ? ls_ok()
             : ls_invalid_argument("split_to_logical_devices: dimension %zu of "
                                   "size %lld is not divisible into %lld parts",
                                   i, (long long)size, (long long)parts);
}

static ls_status logical_device_check_split(const ls_strategy *strategy,
                                            ls_shape shape,
                                            const int64_t *parts,
                                            size_t num_parts) {
  if (shape.rank == LS_UNKNOWN_RANK)
    return ls_invalid_argument(
        "split_to_logical_devices of a value of unknown rank");
  if (parts == NULL && num_parts > 0)
    return ls_invalid_argument("split_to_logical_devices: the parts are NULL");
  if ((size_t)shape.rank != num_parts)
    return ls_invalid_argument("split_to_logical_devices: a value of rank %d "
                               "and parts for %zu dimensions",
                               shape.rank, num_parts);
  int64_t product = 1;
  for (size_t i = 0; i < num_parts; ++i) {
    LS_RETURN_IF_ERROR(check_dimension(shape, i, parts[i]));
    if (__builtin_mul_overflow(product, parts[i], &product))
      product = INT64_MAX / LS_MAX_RANK;
  }
  return product == strategy->num_columns
             ? ls_ok()
             : ls_invalid_argument("split_to_logical_devices into %lld parts, "
                                   "%s has %d logical devices for each replica",
                                   (long long)product, strategy->label,
                                   strategy->num_columns);
}

// ---- Annotations -----------------------------------------------------------
// The number of parts of a value along its dimensions, and the core of each
// part.
typedef struct tiles {
  const int64_t *sizes, *cores;
  size_t rank, count;
} tiles;

static void append_numbers(ls_text *text, const char *name,
                           const int64_t *numbers, size_t count) {
  ls_text_append_format(text, " %s=[", name);
  for (size_t i = 0; i < count; ++i)
    ls_text_append_format(text, "%s%lld", i == 0 ? "" : ",",
                          (long long)numbers[i]);
  ls_text_append_format(text, "]");
}

static ls_tensor annotate(ls_tensor x, const char *kind, tiles t) {
  const bool has_tiles = t.cores != NULL;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&text, "%s", kind);
  if (has_tiles) {
    append_numbers(&text, "tile", t.sizes, t.rank);
    append_numbers(&text, "devices", t.cores, t.count);
  }
  const ls_attr attrs[] = {{.name = LS_MARK_SHARDING,
                            .kind = LS_ATTR_STRING,
                            .as.string = ls_text_data(&text)},
                           LS_OWN_S(SHARDING, kind),
                           LS_OWN_IS(TILE, t.sizes, t.rank),
                           LS_OWN_IS(TILE_DEVICES, t.cores, t.count)};
  const ls_status status = ls_text_status(&text);
  return ls_status_is_ok(status)
             ? ls_make(LS_OP_SHARDING, &x, 1, attrs, has_tiles ? 4 : 2)
             : ls_make_failed("sharding", status);
}

ls_tensor ls_assign_to_logical_device(const ls_strategy *strategy, ls_tensor x,
                                      int32_t k) {
  static const int64_t whole = 1;
  const int64_t core = k;
  const ls_status status = check_assigned(strategy, k);
  return ls_status_is_ok(status)
             ? annotate(x, "maximal", (tiles){&whole, &core, 1, 1})
             : ls_make_failed("sharding", status);
}

ls_tensor ls_split_to_logical_devices(const ls_strategy *strategy, ls_tensor x,
                                      const int64_t *parts, size_t num_parts) {
  ls_status status = check_offered(strategy, "split_to_logical_devices");
  if (ls_status_is_ok(status) && !ls_tensor_is_failed(x))
    status = logical_device_check_split(strategy, ls_tensor_shape(x), parts,
                                        num_parts);
  if (!ls_status_is_ok(status)) return ls_make_failed("sharding", status);
  const size_t count = (size_t)strategy->num_columns;
  LS_OWN_ARRAY(strategy->allocator, int64_t, cores, count);
  if (cores == NULL) return ls_make_failed("sharding", ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    cores[i] = (int64_t)i;
  return annotate(x, "tiled", (tiles){parts, cores, num_parts, count});
}

ls_tensor ls_replicate_to_logical_devices(const ls_strategy *strategy,
                                          ls_tensor x) {
  const ls_status status =
      check_offered(strategy, "replicate_to_logical_devices");
  return ls_status_is_ok(status) ? annotate(x, "replicated", (tiles){0})
                                 : ls_make_failed("sharding", status);
}

const char *ls_tensor_sharding(ls_tensor x) {
  const ls_op op = ls_tensor_op(x);
  const ls_node *node = ls_graph_node(op.graph, op.id);
  const char *text = node != NULL ? ls_node_mark(node, LS_MARK_SHARDING) : NULL;
  return text != NULL ? text : "";
}

// ---- Scopes ----------------------------------------------------------------
// Finds the device of logical core `k` for ops in the scope; outside
// computations the current device.
static ls_status find_device(int32_t k, const char **out_device) {
  ls_graph *graph = ls_graph_current();
  *out_device = ls_context_current()->scoped.device;
  if (ls_tpu_context_current() == NULL || graph == NULL) return ls_ok();
  return ls_graph_merge_device(graph, *out_device, ls_tpu_core_device(k).text,
                               out_device);
}

static const ls_scope_type column_scope = {.name =
                                               "a scope of a logical device"};

static ls_status logical_device_begin(ls_scope *scope,
                                      const ls_strategy *strategy, int32_t k) {
  const char *device = NULL;
  LS_RETURN_IF_ERROR(check_strategy(strategy));
  LS_RETURN_IF_ERROR(logical_device_check_number(strategy, k));
  LS_RETURN_IF_ERROR(find_device(k, &device));
  ls_context_open(scope, &column_scope)->scoped.device = device;
  ls_column_push(scope, strategy, k);
  return ls_ok();
}

void ls_logical_device_scope_begin(ls_scope *scope, const ls_strategy *strategy,
                                   int32_t k) {
  const ls_status status = logical_device_begin(scope, strategy, k);
  if (!ls_status_is_ok(status)) ls_context_refuse(scope, status);
}

void ls_replica_logical_device_scope_begin(ls_scope *scope,
                                           const ls_replica *replica,
                                           int32_t k) {
  ls_status status = replica == NULL
                         ? ls_invalid_argument("the replica is NULL")
                         : ls_replica_check(replica, "a logical device");
  if (ls_status_is_ok(status))
    status = logical_device_begin(scope, replica->strategy, k);
  if (!ls_status_is_ok(status)) ls_context_refuse(scope, status);
}

// SPDX-License-Identifier: Apache-2.0
//
// Tables of cross-device ops that leave the result on every device. This file
// decides the structure of their graphs: packs, the device of each sum, and
// copies. Only build graphs have this structure. In eager mode and in
// functions, where the engine has its own way of summing, one sum and copies
// are equivalent.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "runtime/eager/eager.h"

// ---- Values reduced together -----------------------------------------------
static ls_dtype all_reduce_dtype_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_dtype(leaf.as.tensor);
  if (leaf.kind == LS_KIND_ARRAY) return ls_array_dtype(ls_nest_as_array(leaf));
  const ls_variable *variable = ls_nest_as_variable(leaf);
  return variable != NULL ? variable->type.dtype : leaf.dtype;
}

// Returns true for dense values of any type but i32, with each component on a
// device of its own, by which its row is found.
static bool is_plain(const ls_components *parts) {
  for (size_t i = 0; i < parts->devices.count; ++i) {
    const ls_nest item = parts->items[i];
    const char *device = parts->devices.names[i].text;
    if (device[0] == '\0' || ls_device_set_find(&parts->devices, device) != i ||
        item.kind == LS_KIND_NONE || item.kind == LS_KIND_DISTRIBUTED ||
        item.kind == LS_KIND_SLICES ||
        all_reduce_dtype_of(item) == LS_DTYPE_I32)
      return false;
  }
  return true;
}

// ---- A batch ---------------------------------------------------------------
typedef struct batch {
  const ls_reduce_plan *how;
  ls_reduce_op op;
  ls_allocator *allocator;
  const ls_device_set *devices;
  size_t count;
  // One row per device; `reduced` has the reduced packs.
  ls_tensor_row *rows, *results, *reduced;
  ls_dtype *dtypes;  // Type of each value.
} batch;

static void batch_deinit(batch *b) {
  ls_tensor_rows_release(b->allocator, b->rows);
  ls_tensor_rows_release(b->allocator, b->results);
  ls_tensor_rows_release(b->allocator, b->reduced);
  ls_release(b->allocator, b->dtypes);
}
LS_OWNED_STRUCT(batch, batch_deinit)

// Fills each value's components into the rows of their devices; values may
// order their devices differently.
static ls_status fill_rows(const batch *b, const ls_components *parts) {
  for (size_t v = 0; v < b->count; ++v) {
    for (size_t d = 0; d < b->devices->count; ++d) {
      const char *device = b->devices->names[d].text;
      const size_t at = ls_device_set_find(&parts[v].devices, device);
      ls_tensor *item = &b->rows[d].items[v];
      LS_DEVICE_SCOPE(device);
      LS_RETURN_IF_ERROR(ls_region_tensor(parts[v].items[at], item));
      b->dtypes[v] = ls_tensor_dtype(*item);
      // Computes a 16-bit mean in f32, so that it is rounded only once.
      if (b->op == LS_REDUCE_MEAN)
        *item = ls_is_half(b->dtypes[v]) ? ls_convert(*item, LS_DTYPE_F32)
                                         : ls_widen_integers(*item);
      LS_RETURN_IF_ERROR(ls_made_status(*item));
    }
  }
  return ls_ok();
}

static void reduce_column(const batch *b, const ls_tensor *items, size_t index,
                          ls_tensor *made) {
  if (b->how->hierarchical) {
    ls_hierarchical_copy(items, b->devices, index, made);
    return;
  }
  ls_tensor sum = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE(b->devices->names[0].text);
    sum = ls_add_n(items, b->devices->count);
  }
  for (size_t d = 0; d < b->devices->count; ++d) {
    LS_DEVICE_SCOPE(b->devices->names[d].text);
    made[d] = ls_identity(sum);
  }
}

static ls_status reduce_columns(const batch *b, const ls_tensor_row *rows,
                                ls_tensor_row *results) {
  const size_t num_devices = b->devices->count;
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_tensor, items, 2 * num_devices);
  for (size_t c = 0; c < rows[0].count; ++c) {
    for (size_t d = 0; d < num_devices; ++d)
      items[d] = rows[d].items[c];
    LS_RETURN_IF_ERROR(ls_check_same_shapes(items, num_devices));
    reduce_column(b, items, c, items + num_devices);
    for (size_t d = 0; d < num_devices; ++d)
      results[d].items[c] = items[num_devices + d];
    LS_RETURN_IF_ERROR(ls_made_status(items[num_devices]));
  }
  return ls_ok();
}

// Checks shapes before packing, because packing would hide all differences
// except of sizes.
static ls_status check_columns(const batch *b) {
  const size_t num_devices = b->devices->count;
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_tensor, items, num_devices);
  for (size_t c = 0; c < b->count; ++c) {
    for (size_t d = 0; d < num_devices; ++d)
      items[d] = b->rows[d].items[c];
    LS_RETURN_IF_ERROR(ls_check_same_shapes(items, num_devices));
  }
  return ls_ok();
}

static ls_status reduce_packed(batch *b) {
  const ls_reduce_plan *how = b->how;
  const size_t num_rows = b->devices->count;
  const bool small = how->small_max_bytes > 0 && how->small_max_group > 0;
  if (how->num_packs <= 0 && !small && !how->by_size)
    return reduce_columns(b, b->rows, b->results);
  LS_RETURN_IF_ERROR(check_columns(b));
  LS_OWN(ls_packed, packed) = {0};
  LS_RETURN_IF_ERROR(
      how->by_size ? ls_pack_by_size(b->rows, num_rows, b->devices,
                                     how->bytes_per_pack, &packed)
      : how->num_packs > 0
          ? ls_pack_joined(b->rows, num_rows, b->devices, how->num_packs,
                           &packed)
          : ls_pack_small(b->rows, num_rows, b->devices,
                          LS_SOME(how->small_max_bytes),
                          LS_SOME(how->small_max_group), &packed));
  b->reduced = ls_tensor_rows(b->allocator, num_rows, packed.pieces[0].count);
  LS_RETURN_IF_NO_MEMORY(b->reduced);
  LS_RETURN_IF_ERROR(reduce_columns(b, packed.pieces, b->reduced));
  return ls_unpack(&packed, b->reduced, b->results);
}

// Divides the sums on each device by the number of components.
static ls_status divide(const batch *b) {
  const size_t num_devices = b->devices->count;
  for (size_t d = 0; d < num_devices; ++d) {
    for (size_t v = 0; v < b->count; ++v) {
      ls_tensor *x = &b->results[d].items[v];
      {
        LS_DEVICE_SCOPE(b->devices->names[d].text);
        *x = ls_mean_of_sum(*x, (double)num_devices, false);
        const ls_dtype dtype = ls_mean_dtype(b->dtypes[v]);
        if (ls_tensor_dtype(*x) != dtype) *x = ls_convert(*x, dtype);
      }
      LS_RETURN_IF_ERROR(ls_made_status(*x));
    }
  }
  return ls_ok();
}

// Wraps a value's results as a distributed value, in the order of its
// destinations.
static ls_status all_reduce_wrap(const batch *b, size_t value,
                                 const ls_device_set *to, ls_nest *out_value) {
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_nest, items, to->count);
  LS_OWN_ARRAY_OR_RETURN(b->allocator, const char *, names, to->count);
  for (size_t i = 0; i < to->count; ++i) {
    names[i] = to->names[i].text;
    items[i] = ls_leaf(
        b->results[ls_device_set_find(b->devices, names[i])].items[value]);
  }
  return ls_take_nest(
      ls_nest_distributed_on(LS_MIRRORED, items, names, to->count), out_value);
}

static ls_status all_reduce_together(const ls_reduce_plan *how, ls_reduce_op op,
                                     const ls_components *parts,
                                     const ls_device_set *to, size_t count,
                                     ls_nest *results) {
  LS_OWN(batch, b) = {.how = how,
                      .op = op,
                      .allocator = how->allocator,
                      .devices = &parts[0].devices,
                      .count = count};
  ls_log_limited(
      ls_runtime_current(), "all_reduce batch", 10, LS_LOG_INFO, "distribute",
      "batch all-reduce of %zu values: algorithm %s, num_packs %lld, "
      "agg_small_max_bytes %lld, agg_small_max_group %lld",
      count, how->algorithm, (long long)how->num_packs,
      (long long)how->small_max_bytes, (long long)how->small_max_group);
  b.rows = ls_tensor_rows(b.allocator, b.devices->count, count);
  b.results = ls_tensor_rows(b.allocator, b.devices->count, count);
  b.dtypes = ls_new_array(b.allocator, ls_dtype, count);
  LS_RETURN_IF_NO_MEMORY(b.rows != NULL && b.results != NULL &&
                         b.dtypes != NULL);
  LS_RETURN_IF_ERROR(fill_rows(&b, parts));
  LS_RETURN_IF_ERROR(reduce_packed(&b));
  if (op == LS_REDUCE_MEAN) LS_RETURN_IF_ERROR(divide(&b));
  for (size_t v = 0; v < count; ++v)
    LS_RETURN_IF_ERROR(all_reduce_wrap(&b, v, &to[v], &results[v]));
  return ls_ok();
}

// ---- The table -------------------------------------------------------------
bool ls_in_build_graph(void) {
  const ls_graph *graph = ls_graph_resolve(ls_graph_current());
  return graph != NULL && graph->kind == LS_GRAPH_BUILD;
}

ls_status ls_all_reduce_one(void *self, ls_reduce_op op, ls_nest value,
                            ls_destinations where, ls_nest *out_value) {
  LS_OWN(ls_components, parts) = {0};
  LS_OWN(ls_device_set, to) = {0};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &to));
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  if (ls_has_sparse_parts(&parts))
    ls_log_limited(ls_runtime_current(), "all_reduce slices", 10,
                   LS_LOG_WARNING, "distribute",
                   "all-reduce of sparse slices is done on one device");
  return ls_in_build_graph() && is_plain(&parts) &&
                 !ls_device_set_has_cpu(&parts.devices) &&
                 !ls_device_set_has_cpu(&to) &&
                 ls_device_set_match(&parts.devices, &to)
             ? all_reduce_together(self, op, &parts, &to, 1, out_value)
             : ls_reduce_to_one(op, value, where, out_value);
}

ls_status ls_all_reduce_spread(void *self, ls_reduce_op op, ls_nest value,
                               ls_destinations where, ls_nest *out_value) {
  LS_OWN(ls_components, parts) = {0};
  LS_OWN(ls_device_set, to) = {0};
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &to));
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  const bool stays = ls_device_set_match(&parts.devices, &to);
  if (!is_plain(&parts) || stays)
    return ls_all_reduce_one(self, op, value, where, out_value);
  LS_RETURN_IF_ERROR(
      all_reduce_together(self, op, &parts, &parts.devices, 1, &made));
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, to.count);
  LS_OWN_ARRAY_OR_RETURN(allocator, const char *, names, to.count);
  for (size_t i = 0; i < to.count; ++i) {
    names[i] = to.names[i].text;
    const size_t own = ls_device_set_find(&parts.devices, names[i]);
    const ls_nest source =
        ls_distributed_component(made, own < parts.devices.count ? own : 0);
    LS_DEVICE_SCOPE(names[i]);
    items[i] = ls_leaf(ls_identity(source.as.tensor));
    LS_RETURN_IF_ERROR(ls_made_status(items[i].as.tensor));
  }
  return ls_take_nest(
      ls_nest_distributed_on(LS_MIRRORED, items, names, to.count), out_value);
}

// Checks that the shapes of a batch are known.
static ls_status check_shapes(const ls_nest *values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t parts = ls_distributed_count(values[i]);
    for (size_t r = 0; r < (parts == 0 ? 1 : parts); ++r) {
      const ls_nest item = ls_distributed_component(values[i], r);
      if (item.kind == LS_KIND_TENSOR &&
          !ls_shape_is_known(ls_tensor_shape(item.as.tensor)))
        return ls_invalid_argument(
            "%s, value %zu of a batch, has a shape that is not known",
            LS_NEST_TEXT(item), i);
    }
  }
  return ls_ok();
}

// Values of a batch that can be packed together: their components, destinations
// and indices.
typedef struct together {
  ls_allocator *allocator;
  ls_components *parts;
  ls_device_set *to;
  size_t *numbers;
  ls_nest *results;
  size_t count;
  bool fits;  // True if the values stay on the same devices.
} together;

static ls_status find_plain(together *t, const ls_nest *values,
                            const ls_destinations *where, size_t count) {
  t->parts = ls_new_array(t->allocator, ls_components, count);
  t->to = ls_new_array(t->allocator, ls_device_set, count);
  t->numbers = ls_new_array(t->allocator, size_t, count);
  t->results = ls_new_array(t->allocator, ls_nest, count);
  t->fits = true;
  if (t->parts == NULL || t->to == NULL || t->numbers == NULL ||
      t->results == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    ls_components *parts = &t->parts[t->count];
    ls_device_set *to = &t->to[t->count];
    LS_RETURN_IF_ERROR(ls_components_init(parts, values[i]));
    if (!is_plain(parts)) {
      ls_components_deinit(parts);
      continue;
    }
    t->numbers[t->count++] = i;
    LS_RETURN_IF_ERROR(ls_destination_set(where[i], values[i], to));
    t->fits = t->fits && ls_device_set_match(&parts->devices, to) &&
              ls_device_set_match(&parts->devices, &t->parts[0].devices);
  }
  return ls_ok();
}

static void together_deinit(together *t) {
  for (size_t i = 0; i < t->count; ++i) {
    ls_components_deinit(&t->parts[i]);
    ls_device_set_deinit(&t->to[i]);
  }
  ls_release(t->allocator, t->parts);
  ls_release(t->allocator, t->to);
  ls_release(t->allocator, t->numbers);
  ls_release(t->allocator, t->results);
}
LS_OWNED_STRUCT(together, together_deinit)

ls_status ls_all_reduce_batch(void *self, ls_reduce_op op,
                              const ls_nest *values,
                              const ls_destinations *where, size_t count,
                              ls_nest *results) {
  LS_OWN(together, t) = {.allocator = ls_current_allocator()};
  const ls_reduce_plan *how = self;
  size_t done = 0;  // Number of values reduced together.
  if (how->needs_shapes) LS_RETURN_IF_ERROR(check_shapes(values, count));
  if (ls_in_build_graph())
    LS_RETURN_IF_ERROR(find_plain(&t, values, where, count));
  if (t.count > 0 && t.fits) {
    const ls_status status =
        all_reduce_together(self, op, t.parts, t.to, t.count, t.results);
    for (size_t i = 0; i < t.count; ++i)
      results[t.numbers[i]] = t.results[i];
    LS_RETURN_IF_ERROR(status);
    done = t.count;
  } else if (t.count > 1) {
    ls_log_limited(ls_runtime_current(), "all_reduce destinations", 10,
                   LS_LOG_WARNING, "distribute",
                   "values of a batch are on differing devices or go to "
                   "differing destinations: they are reduced one by one");
  }
  for (size_t i = 0, next = 0; i < count; ++i) {
    if (next < done && t.numbers[next] == i)
      ++next;
    else
      LS_RETURN_IF_ERROR(
          ls_all_reduce_one(self, op, values[i], where[i], &results[i]));
  }
  return ls_ok();
}

ls_status ls_all_reduce_gather(void *self, ls_nest value, int axis,
                               ls_destinations where, ls_nest *out_value) {
  const ls_reduce_plan *how = self;
  ls_log_limited(ls_runtime_current(), "all_reduce gather", 3, LS_LOG_WARNING,
                 "distribute",
                 "gather by %s is done on one device, whose result is copied",
                 how->algorithm);
  return ls_gather_to_one(value, axis, where, out_value);
}

void ls_all_reduce_release(void *self) {
  ls_reduce_plan *how = self;
  ls_release(how->allocator, how);
}

#define ALL_REDUCE_TABLE(text)                                                 \
  {                                                                            \
    .name = text, .reduce = ls_all_reduce_one,                                 \
    .batch_reduce = ls_all_reduce_batch, .gather = ls_all_reduce_gather,       \
    .release = ls_all_reduce_release                                           \
  }
static const ls_cross_device_table nccl = ALL_REDUCE_TABLE("nccl");
static const ls_cross_device_table hierarchical =
    ALL_REDUCE_TABLE("hierarchical_copy");

// ---- Making ----------------------------------------------------------------
ls_status ls_all_reduce_make(const ls_cross_device_table *table,
                             ls_reduce_plan how, ls_cross_device **out_ops) {
  *out_ops = NULL;
  how.allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(how.allocator, ls_reduce_plan, self);
  *self = how;
  const ls_status status = ls_cross_device_make(table, self, true, out_ops);
  if (!ls_status_is_ok(status)) ls_all_reduce_release(self);
  return status;
}

ls_status ls_all_reduce_ops_create(const ls_all_reduce_options *options,
                                   ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  static const ls_all_reduce_options defaults;
  enum { USUAL_GROUP = 10 };
  if (options == NULL) options = &defaults;
  const ls_cross_device_table *table = &nccl;
  if (options->algorithm != NULL &&
      strcmp(options->algorithm, hierarchical.name) == 0)
    table = &hierarchical;
  else if (options->algorithm != NULL &&
           strcmp(options->algorithm, nccl.name) != 0)
    return ls_invalid_argument(
        "algorithm '%s' of an all-reduce: nccl or hierarchical_copy",
        options->algorithm);
  const ls_reduce_plan how = {
      .algorithm = table->name,
      .hierarchical = table == &hierarchical,
      .num_packs = options->num_packs.set ? options->num_packs.value : 1,
      .small_max_bytes = options->small_max_bytes,
      .small_max_group = options->small_max_group.set
                             ? options->small_max_group.value
                             : USUAL_GROUP};
  if (how.num_packs < 0)
    return ls_invalid_argument(
        "an all-reduce by %s with num_packs %lld, which is negative",
        table->name, (long long)how.num_packs);
  return ls_all_reduce_make(table, how, out_ops);
}

ls_status ls_nccl_all_reduce_create(ls_opt num_packs,
                                    ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  return ls_all_reduce_ops_create(
      &(ls_all_reduce_options){.algorithm = nccl.name, .num_packs = num_packs},
      out_ops);
}

ls_status ls_hierarchical_copy_create(ls_opt num_packs,
                                      ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  return ls_all_reduce_ops_create(
      &(ls_all_reduce_options){.algorithm = hierarchical.name,
                               .num_packs = num_packs},
      out_ops);
}

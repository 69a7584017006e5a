// SPDX-License-Identifier: Apache-2.0
//
// The cross-device ops that reduce on one device and then copy the result.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/region.h"

typedef struct reduce_to_one {
  ls_allocator *allocator;
  char *device;  // Device for the sum; NULL: the first destination.
  ls_accumulate_function accumulate;
  void *user;
} reduce_to_one;

static ls_status reduce_at(const reduce_to_one *r, const char *device,
                           ls_reduce_op op, const ls_components *parts,
                           const ls_device_set *devices, ls_nest *out_value) {
  LS_OWN(ls_nest, one) = ls_none();
  char text[400];
  ls_log_limited(ls_runtime_current(), "reduce_to_one", 10, LS_LOG_INFO,
                 "distribute", "reduce to %s, then broadcast to %s", device,
                 ls_device_set_print(devices, text, sizeof(text)));
  {
    LS_DEVICE_SCOPE(device);
    LS_RETURN_IF_ERROR(
        ls_reduce_parts(op, parts, r->accumulate, r->user, &one));
  }
  return ls_copy_to(one, devices, out_value);
}

static ls_status cross_device_reduce(void *self, ls_reduce_op op, ls_nest value,
                                     ls_destinations where,
                                     ls_nest *out_value) {
  const reduce_to_one *r = self;
  LS_OWN(ls_components, parts) = {0};
  LS_OWN(ls_device_set, devices) = {0};
  ls_device_name device = {{0}};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  LS_RETURN_IF_ERROR(
      r->device != NULL
          ? ls_device_canonical(r->device, ls_context_current()->scoped.device,
                                &device)
          : ls_device_canonical(devices.names[0].text, NULL, &device));
  return reduce_at(r, device.text, op, &parts, &devices, out_value);
}

static ls_status reduce_to_one_batch_reduce(void *self, ls_reduce_op op,
                                            const ls_nest *values,
                                            const ls_destinations *where,
                                            size_t count, ls_nest *results) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        cross_device_reduce(self, op, values[i], where[i], &results[i]));
  return ls_ok();
}

ls_status ls_gather_parts(const ls_components *parts, int axis,
                          ls_nest *out_value) {
  const size_t count = parts->devices.count;
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_tensor, items, count);
  ls_tensor made = ls_failed_tensor();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_region_tensor(parts->items[i], &items[i]));
  LS_RETURN_IF_ERROR(ls_gather_tensors(items, count, axis, &made));
  *out_value = ls_leaf(made);
  return ls_ok();
}

static ls_status reduce_to_one_gather(void *self, ls_nest value, int axis,
                                      ls_destinations where,
                                      ls_nest *out_value) {
  (void)self;
  LS_OWN(ls_components, parts) = {0};
  LS_OWN(ls_device_set, devices) = {0};
  ls_nest gathered = ls_none();
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_destination_set(where, value, &devices));
  LS_RETURN_IF_ERROR(ls_components_init(&parts, value));
  {
    LS_DEVICE_SCOPE(devices.names[0].text);
    LS_RETURN_IF_ERROR(ls_gather_parts(&parts, axis, &gathered));
  }
  return ls_copy_to(gathered, &devices, out_value);
}

static void reduce_to_one_release(void *self) {
  reduce_to_one *r = self;
  ls_release(r->allocator, r->device);
  ls_release(r->allocator, r);
}
LS_OWNED_POINTER(reduce_to_one, reduce_to_one_release)

static const ls_cross_device_table table = {.name = "reduce_to_one",
                                            .reduce = cross_device_reduce,
                                            .batch_reduce =
                                                reduce_to_one_batch_reduce,
                                            .gather = reduce_to_one_gather,
                                            .release = reduce_to_one_release};

// ---- Shared with other sets ------------------------------------------------
ls_status ls_reduce_to_one(ls_reduce_op op, ls_nest value,
                           ls_destinations where, ls_nest *out_value) {
  reduce_to_one usual = {0};
  return cross_device_reduce(&usual, op, value, where, out_value);
}

ls_status ls_gather_to_one(ls_nest value, int axis, ls_destinations where,
                           ls_nest *out_value) {
  return reduce_to_one_gather(NULL, value, axis, where, out_value);
}

ls_status ls_reduce_to_one_create(const ls_reduce_to_one_options *options,
                                  ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  static const ls_reduce_to_one_options defaults;
  if (options == NULL) options = &defaults;
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, reduce_to_one, made);
  made->allocator = allocator;
  LS_OWN(reduce_to_one, self) = made;
  self->accumulate = options->accumulate;
  self->user = options->user;
  if (options->device != NULL) {
    ls_device_name checked;
    LS_RETURN_IF_ERROR(ls_device_canonical(options->device, NULL, &checked));
    LS_RETURN_IF_ERROR(ls_keep_text(allocator, options->device, &self->device));
  }
  // The ops count as built-in unless they use the caller's function.
  LS_RETURN_IF_ERROR(
      ls_cross_device_make(&table, self, self->accumulate == NULL, out_ops));
  (void)ls_give(&self);
  return ls_ok();
}

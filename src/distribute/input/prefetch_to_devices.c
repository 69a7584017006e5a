// SPDX-License-Identifier: Apache-2.0
//
// Data sets whose elements are copied to devices ahead of use: for one device
// unchanged, for several devices as lists with an element for each device. This
// must be the last step of a data set.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "data/dataset.h"
#include "data/stage.h"
#include "data/streams.h"
#include "distribute/input/input.h"
#include "lockstep/device_name.h"

// A data set of lists of `count` elements of its input; if `count` is 0, of the
// input's elements.
typedef struct device_dataset {
  ls_dataset base;
  size_t count;
  ls_device_name *devices;
} device_dataset;

// Replaces `*list` by a list of the elements, which are taken over.
static ls_status give_list(ls_nest *elements, size_t count, ls_nest *list) {
  const ls_nest made = ls_nest_sequence(LS_KIND_LIST, elements, count);
  for (size_t i = 0; i < count; ++i)
    elements[i] = ls_none();
  LS_RETURN_IF_ERROR(ls_element_replace(made, list));
  return ls_ok();
}

static void prefetch_to_devices_drop(ls_nest *elements, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ls_nest_release(elements[i]);
    elements[i] = ls_none();
  }
}

// ---- Indexed ----------------------------------------------------------------
static ls_status get_elements(const ls_dataset *dataset, ls_fetch *fetch,
                              int64_t index, ls_nest *elements, ls_nest *list) {
  const size_t count = ((const device_dataset *)dataset)->count;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_dataset_get(dataset->inputs[0], fetch,
                                      index * (int64_t)count + (int64_t)i,
                                      &elements[i]));
  return give_list(elements, count, list);
}

static ls_status get_group(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, ls_nest *list) {
  const size_t count = ((const device_dataset *)dataset)->count;
  LS_OWN_ARRAY_OR_RETURN(dataset->allocator, ls_nest, elements, count);
  const ls_status status = get_elements(dataset, fetch, index, elements, list);
  prefetch_to_devices_drop(elements, count);
  return status;
}

// ---- Streams ----------------------------------------------------------------
typedef struct group_stage {
  ls_stage base;
  size_t count;
  ls_nest *elements;
} group_stage;

// Makes the next list of elements; an incomplete list is left out.
static ls_status next_group(ls_stage *stage, ls_nest *list) {
  group_stage *self = (group_stage *)stage;
  ls_status status = ls_ok();
  for (size_t i = 0; i < self->count && ls_status_is_ok(status); ++i)
    status = ls_stage_next(stage->inputs[0], &self->elements[i]);
  if (ls_status_is_ok(status))
    status = give_list(self->elements, self->count, list);
  prefetch_to_devices_drop(self->elements, self->count);
  return status;
}

static void close_group(ls_stage *stage) {
  ls_release(stage->work->allocator, ((group_stage *)stage)->elements);
}

static ls_status open_group(ls_stage *stage) {
  group_stage *self = (group_stage *)stage;
  self->count = ((const device_dataset *)stage->dataset)->count;
  self->elements = ls_new_array(stage->work->allocator, ls_nest, self->count);
  return self->elements != NULL ? ls_ok() : ls_out_of_memory();
}

static const ls_stage_class group_stage_class = {.size = sizeof(group_stage),
                                                 .open = open_group,
                                                 .next = next_group,
                                                 .close = close_group};

// ---- Making -----------------------------------------------------------------
static void destroy_devices(ls_dataset *dataset) {
  ls_release(dataset->allocator, ((device_dataset *)dataset)->devices);
}

// Writes only the number of devices into the description, because which devices
// they are does not change the elements.
static void describe_devices(const ls_dataset *dataset, ls_text *text) {
  const device_dataset *self = (const device_dataset *)dataset;
  if (self->count > 0) ls_text_append_i64(text, (int64_t)self->count);
}

static const ls_dataset_class one_class = {.name = "prefetch_to_devices",
                                           .is_last = true,
                                           .destroy = destroy_devices,
                                           .describe = describe_devices,
                                           .locate = ls_dataset_locate_same,
                                           .stage = &ls_prefetch_stage};
static const ls_dataset_class list_class = {.name = "prefetch_to_devices",
                                            .is_last = true,
                                            .destroy = destroy_devices,
                                            .describe = describe_devices,
                                            .get = get_group,
                                            .id = ls_dataset_id_own,
                                            .stage = &group_stage_class};

static ls_status set_devices(device_dataset *self, const char *const *devices,
                             size_t count) {
  LS_SET_ARRAY_OR_RETURN(self->base.allocator, ls_device_name, self->devices,
                         count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_device_canonical(devices[i], NULL, &self->devices[i]));
  return ls_ok();
}

// Makes the specs of lists with an element for each device.
static ls_status set_list(device_dataset *self, size_t count) {
  ls_dataset *base = &self->base;
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&items, ls_dataset_spec_nest(base->inputs[0]));
  const ls_nest list = ls_nest_builder_finish(&items, LS_KIND_LIST);
  self->count = count;
  if (base->size >= 0) base->size /= (int64_t)count;
  base->most /= (int64_t)count;
  return ls_dataset_set_spec(base, list);
}

static ls_status prefetch_to_devices_check(const char *const *devices,
                                           size_t count, ls_opt buffer) {
  if (devices == NULL || count == 0)
    return ls_invalid_argument(
        "prefetch_to_devices to no devices: at least one must be given");
  for (size_t i = 0; i < count; ++i)
    if (devices[i] == NULL)
      return ls_invalid_argument("prefetch_to_devices: device %zu is NULL", i);
  if (buffer.set && (buffer.value < 1 || buffer.value > 1 << 20))
    return ls_invalid_argument("prefetch_to_devices with buffers of %lld "
                               "elements: 1 to %d are possible",
                               buffer.value, 1 << 20);
  return ls_ok();
}

static ls_dataset *prefetch_to_devices_make(ls_dataset *dataset,
                                            const char *const *devices,
                                            size_t count, bool is_list,
                                            ls_opt buffer) {
  device_dataset *self = LS_DATASET_NEW(
      device_dataset, is_list ? &list_class : &one_class, &dataset, 1,
      prefetch_to_devices_check(devices, count, buffer));
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->base.prefetch = buffer.set ? buffer.value : 1;
  ls_status status = set_devices(self, devices, count);
  if (is_list && ls_status_is_ok(status)) status = set_list(self, count);
  return ls_dataset_fail(&self->base, status);
}

ls_dataset *ls_dataset_prefetch_to_device(ls_dataset *dataset,
                                          const char *device, ls_opt buffer) {
  return prefetch_to_devices_make(dataset, &device, 1, false, buffer);
}

ls_dataset *ls_dataset_prefetch_to_devices(ls_dataset *dataset,
                                           const char *const *devices,
                                           size_t num_devices, ls_opt buffer) {
  return prefetch_to_devices_make(dataset, devices, num_devices, true, buffer);
}

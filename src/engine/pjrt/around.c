// SPDX-License-Identifier: Apache-2.0
#include "engine/pjrt/host.h"

#include <string.h>

struct ls_pjrt_around {
  ls_allocator *allocator;
  const ls_hlo_layout *layout;
  size_t devices;
  int64_t room;   // Rows of a block.
  char *memory;   // The blocks of all operands.
  char ***lists;  // The next rows of each site and device, in `items`.
  char **items;   // Followed by as many, for make_room.
  size_t num_items;
  int64_t trips;      // Number of trips that the run makes.
  ls_status failure;  // Failure of a call after that many trips.
};

// ---- Memory ----------------------------------------------------------------
static size_t count_operands(const ls_emit_host *site) {
  return site->num_inputs + site->num_outputs;
}

// Returns true if an operand has a row for each trip.
static bool has_rows(const ls_emit_host *site) {
  return site->loop != 0 && site->when != LS_EMIT_CONDITION;
}

// Goes to the first rows, and returns the size of all blocks.
static size_t rewind_rows(ls_pjrt_around *self) {
  size_t size = 0;
  for (size_t s = 0; s < self->layout->num_hosts; ++s) {
    const ls_emit_host *site = &self->layout->hosts[s];
    size += ls_pjrt_place_operands(
        site, self->devices, has_rows(site) ? (size_t)self->room : 1,
        self->memory != NULL ? self->memory + size : NULL,
        self->lists + s * self->devices);
  }
  return size;
}

// Makes room for more rows. Keeps those of the trips so far, and goes to the
// next ones.
static ls_status make_room(ls_pjrt_around *self, int64_t room) {
  const int64_t before = self->room;
  char *memory = self->memory;
  (void)rewind_rows(self);
  memcpy(self->items + self->num_items, self->items,
         self->num_items * sizeof(*self->items));
  if (memory == NULL || before < room) {
    self->memory = NULL;
    self->room = room;
    char *larger = ls_allocate_large(self->allocator, rewind_rows(self) + 1);
    self->memory = larger != NULL ? larger : memory;
    if (larger == NULL) self->room = before;
    LS_RETURN_IF_NO_MEMORY(larger != NULL);
    (void)rewind_rows(self);
  }
  for (size_t k = 0; k < self->layout->num_hosts * self->devices; ++k) {
    const ls_emit_host *site = &self->layout->hosts[k / self->devices];
    char **rows = self->lists[k];
    for (size_t i = 0; i < count_operands(site); ++i) {
      const size_t filled = ls_pjrt_device_bytes(site, i) *
                            (has_rows(site) ? (size_t)self->trips : 1);
      if (self->memory != memory && memory != NULL)
        memcpy(rows[i], rows[self->num_items + i], filled);
      if (has_rows(site)) rows[i] += filled;
    }
  }
  if (self->memory != memory) ls_release(self->allocator, memory);
  return ls_ok();
}

void ls_pjrt_around_destroy(ls_pjrt_around *self) {
  if (self == NULL) return;
  ls_status_free(self->failure);
  ls_release(self->allocator, self->memory);
  ls_release(self->allocator, self);
}
LS_OWNED_POINTER(ls_pjrt_around, ls_pjrt_around_destroy)

ls_status ls_pjrt_around_create(ls_pjrt_instance *instance,
                                ls_pjrt_around **out_around) {
  const ls_pjrt_executable *executable = instance->executable;
  const ls_hlo_layout *layout = &executable->layout;
  ls_allocator *allocator =
      ls_runtime_allocator(executable->backend->base.runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_pjrt_around, self);
  self->allocator = allocator;
  self->layout = layout;
  self->devices = (size_t)executable->num_devices;
  for (size_t s = 0; s < layout->num_hosts; ++s)
    self->num_items += count_operands(&layout->hosts[s]) * self->devices;
  LS_ARENA_ARRAY_OR_RETURN(&instance->arena, char **, lists,
                           layout->num_hosts * self->devices);
  LS_ARENA_ARRAY_OR_RETURN(&instance->arena, char *, items,
                           2 * self->num_items + 1);
  self->lists = lists;
  self->items = items;
  for (size_t k = 0; k < layout->num_hosts * self->devices; ++k) {
    lists[k] = items;
    items += count_operands(&layout->hosts[k / self->devices]);
  }
  return ls_hand_over(&self, out_around);
}

// ---- Calls -----------------------------------------------------------------
// Makes the calls of a site with the next rows. A call that devices share is
// made once.
static ls_status call_site(ls_pjrt_instance *instance, size_t index) {
  const ls_pjrt_around *self = instance->around;
  ls_pjrt_hosts *hosts = instance->hosts;
  const ls_emit_host *site = &self->layout->hosts[index];
  char ***lists = self->lists + index * self->devices;
  const int32_t devices = (int32_t)self->devices;
  const int32_t step = ls_pjrt_is_shared(hosts, site) ? devices : 1;
  for (int32_t d = 0; d < devices; d += step) {
    if (ls_pjrt_hosts_are_over(hosts))
      return LS_STATUS(LS_CANCELLED, "the run is over");
    LS_RETURN_IF_ERROR(ls_pjrt_try_site(hosts, index, d,
                                        (char *const *const *)lists + d, step));
  }
  for (size_t d = 0; d < self->devices && has_rows(site); ++d)
    for (size_t i = 0; i < count_operands(site); ++i)
      lists[d][i] += ls_pjrt_device_bytes(site, i);
  return ls_ok();
}

// Asks the call of a condition for another trip, and returns true if there is
// none.
static ls_status ask_site(ls_pjrt_instance *instance, size_t index,
                          bool *out_ends) {
  const ls_emit_host *site = &instance->around->layout->hosts[index];
  char ***lists = instance->around->lists + index * instance->around->devices;
  for (size_t d = 0; d < instance->around->devices; ++d)
    memset(lists[d][0], true, ls_pjrt_device_bytes(site, 0));
  LS_RETURN_IF_ERROR(call_site(instance, index));
  *out_ends = *(const int32_t *)(const void *)lists[0][1] == 0;
  return ls_ok();
}

// Makes the calls of the trips before the launch, and counts the whole ones.
static ls_status take_trips(ls_pjrt_instance *instance) {
  ls_pjrt_around *self = instance->around;
  const int64_t bytes = self->layout->around.bytes;
  bool ends = false;
  for (self->trips = 0; self->trips < instance->trips; ++self->trips) {
    if (bytes > 0 && self->trips >= LS_EMIT_MOST_BYTES / bytes)
      return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                       "what a loop takes and gives is more than %lld MiB",
                       (long long)(LS_EMIT_MOST_BYTES >> 20));
    if (self->trips == self->room)
      LS_RETURN_IF_ERROR(make_room(self, 2 * self->room));
    for (size_t s = 0; s < self->layout->num_hosts; ++s) {
      const ls_emit_host *site = &self->layout->hosts[s];
      if (site->loop == 0 || site->when == LS_EMIT_AFTER) continue;
      LS_RETURN_IF_ERROR(site->when == LS_EMIT_CONDITION
                             ? ask_site(instance, s, &ends)
                             : call_site(instance, s));
      if (ends) return ls_ok();
    }
  }
  return ls_ok();
}

// Makes the calls of the trips after the launch, then fails if there were to be
// more trips.
static ls_status give_trips(ls_pjrt_instance *instance) {
  ls_pjrt_around *self = instance->around;
  if (ls_pjrt_hosts_are_over(instance->hosts))
    return LS_STATUS(LS_CANCELLED, "the run is over");
  for (int64_t trip = 0; trip < self->trips; ++trip)
    for (size_t s = 0; s < self->layout->num_hosts; ++s)
      if (self->layout->hosts[s].loop != 0 &&
          self->layout->hosts[s].when == LS_EMIT_AFTER)
        LS_RETURN_IF_ERROR(call_site(instance, s));
  return ls_give(&self->failure);
}

// Makes all calls before or after the launch, those of the loop where its first
// site stands. `*out_loop` is the loop in which one has failed, or 0.
static ls_status make_calls(ls_pjrt_instance *instance, ls_emit_when when,
                            uint64_t *out_loop) {
  const ls_hlo_layout *layout = instance->around->layout;
  bool was_in_loop = false;
  for (size_t s = 0; s < layout->num_hosts; ++s) {
    const ls_emit_host *site = &layout->hosts[s];
    *out_loop = site->loop;
    if (site->loop == 0 && site->when == when)
      LS_RETURN_IF_ERROR(call_site(instance, s));
    else if (site->loop != 0 && !was_in_loop)
      LS_RETURN_IF_ERROR(when == LS_EMIT_BEFORE ? take_trips(instance)
                                                : give_trips(instance));
    was_in_loop |= site->loop != 0;
  }
  return ls_ok();
}

// ---- Arguments and results -------------------------------------------------
static ls_type type_on_device(const ls_pjrt_instance *instance,
                              const ls_emit_host *site, size_t operand) {
  ls_type type = site->types[operand];
  ls_shape shape = {.rank = 0};
  if (site->loop != 0) shape.dim[shape.rank++] = instance->code->room;
  if (site->wide[operand] && site->num_local > 1)
    shape.dim[shape.rank++] = site->num_local;
  for (int32_t i = 0; i < type.shape.rank; ++i)
    shape.dim[shape.rank++] = type.shape.dim[i];
  type.shape = shape;
  return type;
}

// Sends the results of calls before the launch, or asks for the operands of
// those after it.
static ls_status copy_blocks(ls_pjrt_instance *instance, ls_emit_when when) {
  ls_pjrt_around *self = instance->around;
  size_t at = when == LS_EMIT_BEFORE
                  ? instance->num_arguments
                  : self->layout->num_results + self->layout->counts;
  (void)rewind_rows(self);
  for (size_t s = 0; s < self->layout->num_hosts; ++s) {
    const ls_emit_host *site = &self->layout->hosts[s];
    for (size_t i = 0; i < count_operands(site) && site->when == when;
         ++i, ++at)
      for (size_t d = 0; d < self->devices; ++d) {
        const ls_type type = type_on_device(instance, site, i);
        char *block = self->lists[s * self->devices + d][i];
        if (when == LS_EMIT_BEFORE)
          LS_RETURN_IF_ERROR(
              ls_pjrt_run_send(instance, type, block, (int32_t)d, at));
        else if (d == 0 || site->wide[i])
          LS_RETURN_IF_ERROR(ls_pjrt_run_fetch(
              instance, type, instance->results[d][at], block));
      }
  }
  if (when == LS_EMIT_BEFORE) instance->num_arguments = at;
  return ls_ok();
}

// ---- Runs ------------------------------------------------------------------
// Says which trip failed, also in the status of calls that were stopped.
static ls_status note_trip(ls_pjrt_instance *instance, ls_status status) {
  ls_pjrt_hosts *hosts = instance->hosts;
  const char *text = "before trip %lld of %lld, as a launch comes after the "
                     "calls of all its trips";
  const long long trip = (long long)instance->around->trips + 1;
  const long long trips = (long long)instance->trips;
  ls_mutex_lock(&hosts->threads->lock);
  if (!ls_status_is_ok(hosts->status))
    hosts->status = ls_status_annotate(hosts->status, text, trip, trips);
  ls_mutex_unlock(&hosts->threads->lock);
  return ls_status_annotate(status, text, trip, trips);
}

ls_status ls_pjrt_around_find_code(ls_pjrt_instance *instance, int64_t trips) {
  const ls_emit_around *around = &instance->executable->layout.around;
  if (around->loop == NULL || around->trips.limit < 0) return ls_ok();
  if (around->bytes > 0 && trips > LS_EMIT_MOST_BYTES / around->bytes)
    trips = LS_EMIT_MOST_BYTES / around->bytes;
  if (trips < 1) trips = 1;
  return instance->code != NULL && instance->code->room >= trips
             ? ls_ok()
             : ls_pjrt_find_code(instance->executable, trips, &instance->code);
}

ls_status ls_pjrt_around_begin(ls_pjrt_instance *instance) {
  ls_pjrt_around *self = instance->around;
  uint64_t loop = 0;
  self->trips = 0;
  ls_status_free(ls_give(&self->failure));
  LS_RETURN_IF_ERROR(make_room(self, self->room > 0 ? self->room : 1));
  ls_status status = make_calls(instance, LS_EMIT_BEFORE, &loop);
  if (!ls_status_is_ok(status) && loop != 0)
    status = note_trip(instance, status);
  if (!ls_status_is_ok(status) && (loop == 0 || self->trips == 0)) {
    ls_pjrt_hosts_stop(instance->hosts, status);
    return LS_STATUS(LS_CANCELLED, "a host call has failed");
  }
  self->failure = status;
  LS_RETURN_IF_ERROR(ls_pjrt_around_find_code(instance, self->trips));
  LS_RETURN_IF_ERROR(make_room(self, instance->code->room));
  if (self->layout->around.loop != NULL)
    LS_RETURN_IF_ERROR(
        ls_pjrt_run_take(instance, LS_PJRT_TRIPS, (uint64_t)self->trips));
  return copy_blocks(instance, LS_EMIT_BEFORE);
}

ls_status ls_pjrt_around_fetch(ls_pjrt_instance *instance) {
  return copy_blocks(instance, LS_EMIT_AFTER);
}

void ls_pjrt_around_end(ls_pjrt_instance *instance) {
  uint64_t loop = 0;
  const ls_status status = make_calls(instance, LS_EMIT_AFTER, &loop);
  if (ls_status_is_ok(status)) return;
  ls_pjrt_hosts_stop(instance->hosts, status);
  instance->hosts->loop = loop;
}

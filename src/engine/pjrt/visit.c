// SPDX-License-Identifier: Apache-2.0
//
// Calls that all devices share. A device does not wait for another one: it may
// be in a collective, waiting for this one. So the first that comes calls for
// all, and what it brings and gets is kept until all have come; where a call
// takes values of all devices, the last one calls, and the others wait only for
// results.
#include <string.h>

#include "engine/pjrt/host_call.h"

static void drop_visit(ls_allocator *allocator, ls_pjrt_visit *visit) {
  if (visit == NULL) return;
  ls_release(allocator, visit->buffers);
  ls_release(allocator, visit->lists);
  ls_release(allocator, visit->data);
  ls_release(allocator, visit);
}

void ls_pjrt_end_visits(ls_pjrt_site *site, size_t devices) {
  memset(site->numbers, 0, devices * sizeof(*site->numbers));
  while (site->visits != NULL) {
    ls_pjrt_visit *visit = site->visits;
    site->visits = visit->next;
    visit->next = site->unused;
    site->unused = visit;
  }
}

void ls_pjrt_drop_visits(ls_allocator *allocator, ls_pjrt_visit *visits) {
  while (visits != NULL) {
    ls_pjrt_visit *next = visits->next;
    drop_visit(allocator, visits);
    visits = next;
  }
}

static ls_pjrt_visit *make_visit(const ls_pjrt_hosts *self,
                                 const ls_emit_host *site) {
  ls_allocator *allocator = self->allocator;
  const size_t devices = (size_t)self->executable->num_devices;
  const size_t count = site->num_inputs + site->num_outputs;
  ls_pjrt_visit *visit = ls_new(allocator, ls_pjrt_visit);
  if (visit == NULL) return NULL;
  visit->buffers = ls_new_array(allocator, char **, devices);
  visit->lists = ls_new_array(allocator, char *, devices *count + 1);
  if (visit->buffers != NULL && visit->lists != NULL) {
    for (size_t d = 0; d < devices; ++d)
      visit->buffers[d] = visit->lists + d * count;
    visit->data = ls_allocate_large(
        allocator,
        ls_pjrt_place_operands(site, devices, 1, NULL, visit->buffers) + 1);
  }
  if (visit->data == NULL) {
    drop_visit(allocator, visit);
    return NULL;
  }
  (void)ls_pjrt_place_operands(site, devices, 1, visit->data, visit->buffers);
  return visit;
}

// Finds the visit of this number, or begins it. Requires the lock.
static ls_pjrt_visit *find_visit(const ls_pjrt_hosts *self,
                                 const ls_emit_host *site, ls_pjrt_site *state,
                                 uint64_t number) {
  for (ls_pjrt_visit *at = state->visits; at != NULL; at = at->next)
    if (at->number == number) return at;
  ls_pjrt_visit *visit = state->unused;
  if (visit != NULL)
    state->unused = visit->next;
  else
    visit = make_visit(self, site);
  if (visit == NULL) return NULL;
  visit->number = number;
  visit->num_came = visit->num_left = 0;
  visit->is_called = visit->has_failed = false;
  visit->next = state->visits;
  state->visits = visit;
  return visit;
}

// Leaves a visit; the last one keeps its memory for another. Requires the lock.
static void leave_visit(const ls_pjrt_hosts *self, ls_pjrt_site *state,
                        ls_pjrt_visit *visit) {
  if (++visit->num_left < self->executable->num_devices) return;
  ls_pjrt_visit **at = &state->visits;
  while (*at != visit)
    at = &(*at)->next;
  *at = visit->next;
  visit->next = state->unused;
  state->unused = visit;
}

static bool takes_values_of_all(const ls_emit_host *site) {
  for (size_t i = 0; i < site->num_inputs; ++i)
    if (site->wide[i]) return true;
  return false;
}

// Makes the call of a visit. Requires the lock, and releases it meanwhile.
static void make_call(ls_pjrt_hosts *self, size_t index, ls_pjrt_visit *visit) {
  ls_mutex_unlock(&self->threads->lock);
  ls_pjrt_call_site(self, index, 0, (char *const *const *)visit->buffers,
                    self->executable->num_devices);
  ls_mutex_lock(&self->threads->lock);
  visit->is_called = true;
  visit->has_failed = self->is_over;
  ls_condition_broadcast(&self->threads->event);
}

bool ls_pjrt_visit_call(ls_pjrt_hosts *self, size_t index, int32_t device,
                        char *const *buffers) {
  const ls_emit_host *site = &self->executable->layout.hosts[index];
  ls_pjrt_site *state = &self->sites[index];
  const bool takes_all = takes_values_of_all(site);
  const int32_t caller = takes_all ? self->executable->num_devices : 1;
  ls_mutex_lock(&self->threads->lock);
  ls_pjrt_visit *visit =
      find_visit(self, site, state, state->numbers[device]++);
  if (visit == NULL) {
    // Others may have made the call, or will: this device cannot know.
    ls_mutex_unlock(&self->threads->lock);
    ls_pjrt_hosts_stop(self, ls_out_of_memory());
    ls_pjrt_call_site(self, index, device, &buffers, 1);
    return false;
  }
  for (size_t i = 0; i < site->num_inputs; ++i)
    if (site->wide[i] || visit->num_came == 0)
      memcpy(visit->buffers[device][i], buffers[i],
             ls_pjrt_device_bytes(site, i));
  if (++visit->num_came == caller) make_call(self, index, visit);
  while (!visit->is_called && (site->num_outputs > 0 || !takes_all) &&
         !(self->is_over && visit->num_came < caller))
    ls_condition_wait(&self->threads->event, &self->threads->lock);
  for (size_t i = site->num_inputs; i < site->num_inputs + site->num_outputs;
       ++i)
    memcpy(buffers[i], visit->buffers[device][i],
           ls_pjrt_device_bytes(site, i));
  const bool is_known = visit->is_called && visit->has_failed && !takes_all;
  leave_visit(self, state, visit);
  ls_mutex_unlock(&self->threads->lock);
  return is_known;
}

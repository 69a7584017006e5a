// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: elements of arrays that a device is still computing. An array that
// is filled again keeps its arrival. Arrays may outlive the runtime, whose end
// waits for what is under way.
#include "base/threads/locked.h"
#include "base/values/array_internal.h"
#include "engine/pjrt/pjrt.h"

struct ls_pjrt_arrival {
  ls_arrival base;
  int references;            // The array's, and that of the runtime's end.
  ls_mutex lock;             // Guards the fields below.
  ls_pjrt_backend *backend;  // NULL: nothing is under way.
  PJRT_Event *event;
  ls_status status;                    // The last one.
  struct ls_pjrt_arrival *next, **at;  // In the back end's list; its lock.
};

static void unlist_arrival(ls_pjrt_arrival *self) {
  ls_mutex_lock(&self->backend->arrivals_lock);
  *self->at = self->next;
  if (self->next != NULL) self->next->at = self->at;
  ls_mutex_unlock(&self->backend->arrivals_lock);
}

static void list_arrival(ls_pjrt_arrival *self, ls_pjrt_backend *backend) {
  ls_mutex_lock(&backend->arrivals_lock);
  self->backend = backend;
  self->at = &backend->arrivals;
  self->next = backend->arrivals;
  if (self->next != NULL) self->next->at = &self->next;
  backend->arrivals = self;
  ls_mutex_unlock(&backend->arrivals_lock);
}

static void end_arrival(ls_arrival *arrival) {
  ls_pjrt_arrival *self = (ls_pjrt_arrival *)arrival;
  ls_mutex_lock(&self->lock);
  if (self->backend != NULL) {
    ls_status_free(self->status);
    self->status = ls_pjrt_await(self->backend->client.plugin, self->event);
    unlist_arrival(self);
    self->backend = NULL;
  }
  ls_mutex_unlock(&self->lock);
}

static ls_status arrival_status(ls_arrival *arrival) {
  ls_pjrt_arrival *self = (ls_pjrt_arrival *)arrival;
  return LS_LOCKED(&self->lock, ls_status_clone(self->status));
}

static void destroy_arrival(ls_arrival *arrival) {
  ls_pjrt_arrival *self = (ls_pjrt_arrival *)arrival;
  if (!ls_count_release(&self->references)) return;
  ls_status_free(self->status);
  ls_mutex_deinit(&self->lock);
  ls_release(ls_allocator_system(), self);
}

static void release_arrival(ls_pjrt_arrival *self) {
  destroy_arrival(&self->base);
}
LS_OWNED_POINTER(ls_pjrt_arrival, release_arrival)

// Finds the array's arrival, or makes one.
static ls_status find_arrival(ls_array *array, ls_pjrt_arrival **out) {
  ls_arrival *known = ls_array_arrival(array);
  *out = (ls_pjrt_arrival *)known;
  if (known != NULL) return ls_ok();
  LS_OWN_NEW_OR_RETURN(ls_allocator_system(), ls_pjrt_arrival, made);
  made->references = 1;
  made->base = (ls_arrival){end_arrival, arrival_status, destroy_arrival};
  LS_RETURN_IF_ERROR(ls_mutex_init(&made->lock));
  *out = ls_give(&made);
  ls_array_expect(array, &(*out)->base);
  return ls_ok();
}

ls_status ls_pjrt_fetch_late(ls_pjrt_backend *backend, PJRT_Buffer *buffer,
                             ls_array *array) {
  const ls_type type = {ls_array_dtype(array), ls_array_shape(array)};
  ls_pjrt_arrival *arrival = NULL;
  LS_RETURN_IF_ERROR(find_arrival(array, &arrival));
  end_arrival(&arrival->base);
  LS_RETURN_IF_ERROR(ls_pjrt_fetch(&backend->client, type, buffer,
                                   ls_array_place(array), &arrival->event));
  list_arrival(arrival, backend);
  return ls_ok();
}

void ls_pjrt_end_arrivals(ls_pjrt_backend *backend) {
  for (;;) {
    ls_mutex_lock(&backend->arrivals_lock);
    ls_pjrt_arrival *first = backend->arrivals;
    if (first != NULL) ls_count_retain(&first->references);
    ls_mutex_unlock(&backend->arrivals_lock);
    if (first == NULL) return;
    end_arrival(&first->base);
    release_arrival(first);
  }
}

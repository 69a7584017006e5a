// SPDX-License-Identifier: Apache-2.0
#include "base/threads/locked.h"
#include "engine/pjrt/pjrt.h"

static ls_pjrt_buffer *buffer_of(const ls_buffer *buffer) {
  return (ls_pjrt_buffer *)(uintptr_t)buffer;
}

static const struct ls_backend_vtable *host_table(const ls_buffer *buffer) {
  return buffer->backend->host->vtable;
}

static const ls_pjrt_client *client_of(const ls_buffer *buffer) {
  return &ls_pjrt_of(buffer->backend)->client;
}

// ---- Copies ----------------------------------------------------------------
// Returns the number of an element type; 0: PJRT has none.
static int element_type(ls_dtype dtype) {
  static const int types[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = LS_PJRT_F64,   [LS_DTYPE_F32] = LS_PJRT_F32,
      [LS_DTYPE_F16] = LS_PJRT_F16,   [LS_DTYPE_BF16] = LS_PJRT_BF16,
      [LS_DTYPE_I8] = LS_PJRT_S8,     [LS_DTYPE_I16] = LS_PJRT_S16,
      [LS_DTYPE_I32] = LS_PJRT_S32,   [LS_DTYPE_I64] = LS_PJRT_S64,
      [LS_DTYPE_U8] = LS_PJRT_U8,     [LS_DTYPE_U16] = LS_PJRT_U16,
      [LS_DTYPE_U32] = LS_PJRT_U32,   [LS_DTYPE_U64] = LS_PJRT_U64,
      [LS_DTYPE_BOOL] = LS_PJRT_PRED,
  };
  return types[dtype];
}

ls_status ls_pjrt_send(const ls_pjrt_client *client, ls_type type,
                       const void *data, int32_t device,
                       PJRT_Buffer **out_buffer, PJRT_Event **out_done) {
  if (element_type(type.dtype) == 0)
    return ls_unimplemented("values of %s on a device of a plug-in",
                            ls_dtype_name(type.dtype));
  LS_PJRT_ARGS(ls_pjrt_upload_args, args, .client = client->handle,
               .data = data, .type = element_type(type.dtype),
               .dims = type.shape.dim, .num_dims = (size_t)type.shape.rank,
               .semantics = LS_PJRT_UNTIL_TRANSFER_ENDS,
               .device = client->devices[device]);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(client->plugin, LS_PJRT_Client_BufferFromHostBuffer, &args));
  *out_buffer = args.buffer;
  *out_done = args.done;
  return ls_ok();
}

ls_status ls_pjrt_fetch(const ls_pjrt_client *client, ls_type type,
                        PJRT_Buffer *buffer, void *data,
                        PJRT_Event **out_done) {
  int64_t order[LS_MAX_RANK];
  LS_PJRT_ARGS(ls_pjrt_layout, rows, .kind = 0);
  rows.tiled.size = sizeof(rows.tiled);
  rows.tiled.order = order;
  rows.tiled.rank = (size_t)type.shape.rank;
  for (int32_t i = 0; i < type.shape.rank; ++i)
    order[i] = type.shape.rank - 1 - i;
  // A device may have columns. Less than two dimensions have one order.
  LS_PJRT_ARGS(ls_pjrt_download_args, args, .buffer = buffer, .data = data,
               .layout = type.shape.rank > 1 ? &rows : NULL,
               .num_bytes = ls_type_bytes(type));
  ls_status status =
      ls_pjrt_call(client->plugin, LS_PJRT_Buffer_ToHostBuffer, &args);
  if (ls_status_code(status) == LS_UNIMPLEMENTED && args.layout != NULL) {
    // A plug-in that knows no layouts has rows.
    ls_status_free(status);
    args.layout = NULL;
    status = ls_pjrt_call(client->plugin, LS_PJRT_Buffer_ToHostBuffer, &args);
  }
  LS_RETURN_IF_ERROR(status);
  *out_done = args.event;
  return ls_ok();
}

// ---- Places of the value ---------------------------------------------------
// Copies the value from a device. Requires the lock, and a value that is not on
// the host.
static ls_status fetch_value(const ls_pjrt_buffer *self, void *data) {
  const ls_pjrt_client *client = client_of(&self->base);
  for (int32_t i = 0; i < client->num_devices; ++i) {
    PJRT_Event *done = NULL;
    if (self->parts[i] == NULL) continue;
    LS_RETURN_IF_ERROR(
        ls_pjrt_fetch(client, self->base.type, self->parts[i], data, &done));
    return ls_pjrt_await(client->plugin, done);
  }
  return LS_STATUS(LS_DATA_LOSS,
                   "the value was lost in a run that failed on its device");
}

// Makes the host's value current. Requires the lock.
static ls_status move_to_host(ls_pjrt_buffer *self) {
  if (self->has_host) return ls_ok();
  LS_RETURN_IF_ERROR(
      fetch_value(self, host_table(&self->base)->overwrite(self->host)));
  self->has_host = true;
  return ls_ok();
}

ls_status ls_pjrt_buffer_to_host(ls_pjrt_buffer *self) {
  return LS_LOCKED(&self->lock, move_to_host(self));
}

void ls_pjrt_buffer_drop(ls_pjrt_buffer *self, int32_t device) {
  ls_pjrt_destroy(client_of(&self->base)->plugin, LS_PJRT_Buffer_Destroy,
                  self->parts[device]);
  self->parts[device] = NULL;
}

static void drop_parts(ls_pjrt_buffer *self) {
  for (int32_t i = 0; i < client_of(&self->base)->num_devices; ++i)
    ls_pjrt_buffer_drop(self, i);
}

void ls_pjrt_buffer_keep_host(ls_pjrt_buffer *self) {
  drop_parts(self);
  self->has_host = true;
  self->base.lost = false;
}

void ls_pjrt_buffer_renew(ls_pjrt_buffer *self) {
  ls_pjrt_buffer_keep_host(self);
  (void)host_table(&self->base)->overwrite(self->host);
  self->has_host = false;
}

bool ls_pjrt_buffer_has_value(const ls_pjrt_buffer *self) {
  bool has_value = self->has_host;
  for (int32_t i = 0; i < client_of(&self->base)->num_devices; ++i)
    has_value |= self->parts[i] != NULL;
  return has_value;
}

// Copies the host's value to a device. Requires the lock.
static ls_status copy_to_device(ls_pjrt_buffer *self, int32_t device) {
  const ls_pjrt_client *client = client_of(&self->base);
  const struct ls_backend_vtable *host = host_table(&self->base);
  const void *data = NULL;
  PJRT_Event *done = NULL;
  LS_RETURN_IF_ERROR(move_to_host(self));
  LS_RETURN_IF_ERROR(host->look(self->host, &data));
  if (data == NULL)
    data =
        memset(host->overwrite(self->host), 0, ls_type_bytes(self->base.type));
  LS_RETURN_IF_ERROR(ls_pjrt_send(client, self->base.type, data, device,
                                  &self->parts[device], &done));
  const ls_status status = ls_pjrt_await(client->plugin, done);
  if (!ls_status_is_ok(status)) ls_pjrt_buffer_drop(self, device);
  return status;
}

ls_status ls_pjrt_buffer_part(ls_pjrt_buffer *self, int32_t device,
                              PJRT_Buffer **out_part) {
  ls_status status = ls_ok();
  ls_mutex_lock(&self->lock);
  if (self->parts[device] == NULL) status = copy_to_device(self, device);
  *out_part = self->parts[device];
  ls_mutex_unlock(&self->lock);
  return status;
}

// ---- Buffers ---------------------------------------------------------------
static void destroy_buffer(ls_object *object) {
  ls_pjrt_buffer *self = (ls_pjrt_buffer *)object;
  ls_allocator *allocator = ls_runtime_allocator(self->base.backend->runtime);
  drop_parts(self);
  ls_object_release(self->host);
  ls_mutex_deinit(&self->lock);
  ls_release(allocator, self);
}

static const ls_object_type buffer_type = {.name = "device buffer",
                                           .destroy = destroy_buffer};
LS_OWNED_POINTER(ls_pjrt_buffer, ls_object_release)

ls_status ls_pjrt_create_buffer(ls_backend *backend, ls_type type,
                                ls_buffer **out_buffer) {
  *out_buffer = NULL;
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  const size_t num_parts = (size_t)ls_pjrt_of(backend)->client.num_devices;
  ls_pjrt_buffer *made = ls_allocate_zeroed(
      allocator, 1, sizeof(*made) + num_parts * sizeof(made->parts[0]));
  LS_RETURN_IF_NO_MEMORY(made);
  ls_object_init(&made->base.object, &buffer_type);
  made->base.backend = backend;
  made->base.type = type;
  made->has_host = true;
  LS_OWN(ls_pjrt_buffer, buffer) = made;
  LS_RETURN_IF_ERROR(ls_mutex_init(&buffer->lock));
  LS_RETURN_IF_ERROR(
      backend->host->vtable->create_buffer(backend->host, type, &buffer->host));
  *out_buffer = &ls_give(&buffer)->base;
  return ls_ok();
}

void *ls_pjrt_overwrite(ls_buffer *buffer) {
  ls_pjrt_buffer *self = buffer_of(buffer);
  ls_pjrt_buffer_keep_host(self);
  return host_table(buffer)->overwrite(self->host);
}

ls_status ls_pjrt_upload(ls_buffer *buffer, const void *data) {
  const size_t size = ls_type_bytes(buffer->type);
  void *target = ls_pjrt_overwrite(buffer);
  if (size > 0) memcpy(target, data, size);
  return ls_ok();
}

ls_status ls_pjrt_download(const ls_buffer *buffer, void *data) {
  ls_pjrt_buffer *self = buffer_of(buffer);
  return LS_LOCKED(&self->lock, self->has_host ? host_table(buffer)->download(
                                                     self->host, data)
                                               : fetch_value(self, data));
}

ls_status ls_pjrt_look(const ls_buffer *buffer, const void **out_data) {
  ls_pjrt_buffer *self = buffer_of(buffer);
  LS_RETURN_IF_ERROR(ls_pjrt_buffer_to_host(self));
  return host_table(buffer)->look(self->host, out_data);
}

ls_status ls_pjrt_copy(ls_buffer *target, const ls_buffer *from) {
  ls_pjrt_buffer *self = buffer_of(target);
  self->has_host = false;
  LS_RETURN_IF_ERROR(
      ls_pjrt_download(from, host_table(target)->overwrite(self->host)));
  ls_pjrt_buffer_keep_host(self);
  return ls_ok();
}

ls_status ls_pjrt_fill(ls_buffer *buffer, ls_executable *executable,
                       const ls_run_args *args) {
  ls_pjrt_buffer *self = buffer_of(buffer);
  ls_pjrt_buffer_keep_host(self);
  return host_table(buffer)->fill(
      self->host, ((ls_pjrt_executable *)executable)->host, args);
}

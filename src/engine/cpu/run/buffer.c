// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/buffer.h"

#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "engine/cpu/run/instance.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/shape_rules.h"

// ---- Fills ------------------------------------------------------------------
// Blocks that a thread takes at a time (some 0.1 ms of random draws), and the
// bytes of scratch for a kernel.
enum { TAKEN = 2, SCRATCH_BYTES = 4096 };

// ---- Blocks ----------------------------------------------------------------
static void run_blocks(const ls_cpu_fill *fill, int64_t begin, int64_t end) {
  const ls_cpu_instruction *kernel = fill->executable->instructions;
  _Alignas(LS_CACHE_LINE) char scratch[SCRATCH_BYTES];
  void *const out[] = {fill->data};
  const ls_kernel_call call = {.out = out,
                               .scratch = scratch,
                               .params = kernel->params,
                               .step = fill->step,
                               .seed = fill->seed};
  const uint64_t mode = ls_float_mode_enter();
  kernel->loop(&call, begin, end);
  ls_float_mode_leave(mode);
}

// Computes some blocks; requires the lock, and releases it meanwhile. Returns
// false if none is left to start.
static bool run_some_blocks(ls_cpu_filler *filler) {
  ls_cpu_fill *fill = filler->first;
  if (fill == NULL) return false;
  const int64_t blocks = fill->executable->instructions->size;
  const int64_t begin = fill->begun;
  const int64_t end = begin + TAKEN < blocks ? begin + TAKEN : blocks;
  fill->begun = end;
  if (end == blocks) filler->first = fill->next;
  ++filler->num_running;
  ls_mutex_unlock(&filler->lock);
  run_blocks(fill, begin, end);
  ls_mutex_lock(&filler->lock);
  fill->left -= end - begin;
  if (fill->left == 0) {
    ls_cpu_release_executable(fill->executable);
    fill->executable = NULL;
  }
  if (--filler->num_running == 0) ls_condition_broadcast(&filler->rest);
  return true;
}

static bool run_when_idle(void *user) {
  ls_cpu_filler *filler = user;
  ls_mutex_lock(&filler->lock);
  const bool has_run = run_some_blocks(filler);
  ls_mutex_unlock(&filler->lock);
  return has_run;
}

// ---- The filler ------------------------------------------------------------
ls_status ls_cpu_filler_init(ls_cpu_filler *filler, ls_runtime *runtime) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&filler->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&filler->rest));
  if (ls_runtime_threads(runtime) == 1) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_workers(runtime, &filler->workers));
  ls_workers_set_idle(filler->workers, run_when_idle, filler);
  return ls_ok();
}

void ls_cpu_filler_deinit(ls_cpu_filler *filler) {
  if (filler->workers != NULL) ls_workers_set_idle(filler->workers, NULL, NULL);
  ls_condition_deinit(&filler->rest);
  ls_mutex_deinit(&filler->lock);
}

// ---- Fills -----------------------------------------------------------------
// Returns true for a program of one kernel that writes the output in more than
// one block.
static bool can_defer(const ls_executable *executable) {
  const ls_cpu_instruction *at = executable->instructions;
  return executable->num_instructions == 2 && at->code == LS_CPU_KERNEL &&
         at->num_in == 0 && at->num_out == 1 && at->size > 1 &&
         executable->places[at->operand].base ==
             ls_cpu_base_outputs(executable) &&
         executable->kernel_scratch <= SCRATCH_BYTES;
}

// Defers writing `data`, the only output of `executable`. Returns false if that
// is not possible or not worth it.
static bool defer_fill(ls_cpu_filler *filler, ls_cpu_fill *fill,
                       ls_executable *executable, const ls_run_args *args,
                       void *data) {
  if (filler->workers == NULL || !can_defer(executable)) return false;
  ls_count_retain(&executable->references);
  *fill = (ls_cpu_fill){.executable = executable,
                        .data = data,
                        .step = args->step,
                        .seed = args->seed,
                        .left = executable->instructions->size};
  ls_mutex_lock(&filler->lock);
  *(filler->first == NULL ? &filler->first : &filler->last->next) = fill;
  filler->last = fill;
  ls_mutex_unlock(&filler->lock);
  // If no worker wakes, the thread that needs the value computes it.
  ls_status_free(ls_workers_wake(filler->workers));
  return true;
}

void ls_cpu_finish_fills(ls_cpu_filler *filler) {
  ls_mutex_lock(&filler->lock);
  while (run_some_blocks(filler)) {
  }
  while (filler->num_running > 0)
    ls_condition_wait(&filler->rest, &filler->lock);
  ls_mutex_unlock(&filler->lock);
}

// Cancels a fill whose data are not wanted any more.
static void cancel_fill(ls_cpu_filler *filler, ls_cpu_fill *fill) {
  ls_mutex_lock(&filler->lock);
  ls_cpu_fill *last = NULL;
  for (ls_cpu_fill **at = &filler->first; *at != NULL; at = &(*at)->next) {
    if (*at == fill) {
      *at = fill->next;
      if (*at == NULL) filler->last = last;
      break;
    }
    last = *at;
  }
  while (fill->executable != NULL && filler->num_running > 0)
    ls_condition_wait(&filler->rest, &filler->lock);
  if (fill->executable != NULL) ls_cpu_release_executable(fill->executable);
  fill->executable = NULL;
  ls_mutex_unlock(&filler->lock);
}

// Size of a slab, and of the largest buffer that shares one: tiny buffers share
// pages anyway, large ones have their own huge pages. Buffers in a slab are not
// a multiple of a page apart, to avoid aliasing where several are read and
// written side by side.
enum {
  SLAB_BYTES = 8 << 20,
  LEAST_BYTES = 16 << 10,
  MOST_BYTES = 2 << 20,
  APART_BYTES = 192
};

// Header of a slab, at the start of its memory.
struct ls_cpu_slab {
  int references;  // One per buffer, and one while the slab is being filled.
  size_t used;
};

typedef struct cpu_buffer {
  ls_buffer base;
  ls_cpu_slab *slab;  // NULL: the data are a block of their own.
  bool needs_zeros;   // The value is zero, but the zeros are not written yet.
  ls_cpu_fill fill;   // Deferred computation of the value.
} cpu_buffer;

// ---- Slabs -----------------------------------------------------------------
ls_status ls_cpu_slabs_init(ls_cpu_slabs *slabs) {
  slabs->open = NULL;
  return ls_mutex_init(&slabs->lock);
}

static void release_slab(ls_cpu_slab *slab, ls_allocator *allocator) {
  if (slab != NULL && ls_count_release(&slab->references))
    ls_release(allocator, slab);
}

void ls_cpu_slabs_deinit(ls_cpu_slabs *slabs, ls_allocator *allocator) {
  release_slab(slabs->open, allocator);
  ls_mutex_deinit(&slabs->lock);
}

// Makes sure that `open` is a slab with room for `size` bytes.
static bool open_slab(ls_cpu_slabs *slabs, size_t size,
                      ls_allocator *allocator) {
  ls_cpu_slab *open = slabs->open;
  // Reuses the slab if all its buffers are gone.
  if (open != NULL && ls_count_is(&open->references, 1))
    open->used = LS_CACHE_LINE;
  if (open != NULL && open->used + size <= SLAB_BYTES) return true;
  ls_cpu_slab *slab = ls_allocate_large(allocator, SLAB_BYTES);
  if (slab == NULL) return false;
  release_slab(open, allocator);
  *slab = (ls_cpu_slab){.references = 1, .used = LS_CACHE_LINE};
  slabs->open = slab;
  return true;
}

static void *take_from_slab(ls_cpu_slabs *slabs, size_t size,
                            ls_allocator *allocator, ls_cpu_slab **out_slab) {
  void *data = NULL;
  ls_mutex_lock(&slabs->lock);
  if (open_slab(slabs, size, allocator)) {
    ls_cpu_slab *slab = slabs->open;
    data = (char *)slab + slab->used;
    slab->used += ls_round_to_line(size) + APART_BYTES;
    ls_count_retain(&slab->references);
    *out_slab = slab;
  }
  ls_mutex_unlock(&slabs->lock);
  return data;
}

// ---- Buffers ---------------------------------------------------------------
static void destroy_buffer(ls_object *object) {
  cpu_buffer *buffer = (cpu_buffer *)object;
  const ls_backend *backend = buffer->base.backend;
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  cancel_fill(ls_cpu_backend_filler(backend), &buffer->fill);
  if (buffer->slab == NULL) ls_release(allocator, buffer->base.data);
  release_slab(buffer->slab, allocator);
  ls_release(allocator, buffer);
}

static const ls_object_type buffer_type = {
    .name = "buffer",
    .destroy = destroy_buffer,
};

// Atomic: binding a program writes zeros while other threads read.
static bool is_blank(const cpu_buffer *buffer) {
  return __atomic_load_n(&buffer->needs_zeros, __ATOMIC_ACQUIRE);
}
static void set_blank(cpu_buffer *buffer, bool blank) {
  __atomic_store_n(&buffer->needs_zeros, blank, __ATOMIC_RELEASE);
}

ls_status ls_cpu_create_buffer(ls_backend *backend, ls_type type,
                               ls_buffer **out_buffer) {
  *out_buffer = NULL;
  if (!ls_shape_is_known(type.shape)) {
    return ls_invalid_argument("a buffer of unknown shape: %s",
                               LS_SHAPE_TEXT(type.dtype, type.shape));
  }
  LS_RETURN_IF_ERROR(ls_shape_check(type.shape));
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  LS_NEW_OR_RETURN(allocator, cpu_buffer, buffer);
  ls_object_init(&buffer->base.object, &buffer_type);
  buffer->base.backend = backend;
  buffer->base.type = type;
  const size_t size = ls_type_bytes(buffer->base.type);
  buffer->base.data = size >= LEAST_BYTES && size < MOST_BYTES
                          ? take_from_slab(ls_cpu_backend_slabs(backend), size,
                                           allocator, &buffer->slab)
                          : ls_allocate_large(allocator, size);
  if (buffer->base.data == NULL) {
    ls_object_release(&buffer->base);
    return LS_NO_MEMORY("no memory for a buffer: %zu bytes", size);
  }
  buffer->needs_zeros = true;
  *out_buffer = &buffer->base;
  return ls_ok();
}

void *ls_cpu_overwrite(ls_buffer *buffer) {
  cpu_buffer *self = (cpu_buffer *)buffer;
  cancel_fill(ls_cpu_backend_filler(buffer->backend), &self->fill);
  set_blank(self, false);
  return buffer->data;
}

ls_status ls_cpu_upload(ls_buffer *buffer, const void *data) {
  const size_t size = ls_type_bytes(buffer->type);
  void *target = ls_cpu_overwrite(buffer);
  if (size > 0) memcpy(target, data, size);
  return ls_ok();
}

ls_status ls_cpu_fill_from(ls_buffer *buffer, ls_executable *executable,
                           const ls_run_args *args) {
  cpu_buffer *self = (cpu_buffer *)buffer;
  ls_cpu_filler *filler = ls_cpu_backend_filler(buffer->backend);
  cancel_fill(filler, &self->fill);
  set_blank(self, false);
  if (defer_fill(filler, &self->fill, executable, args, buffer->data))
    return ls_ok();
  ls_instance *instance = NULL;
  LS_RETURN_IF_ERROR(ls_cpu_bind(executable, NULL, &instance));
  const ls_status status =
      ls_backend_run(buffer->backend, instance,
                     &(ls_run_args){.outputs = (void *const[]){buffer->data},
                                    .step = args->step,
                                    .seed = args->seed});
  ls_cpu_destroy_instance(instance);
  return status;
}

ls_status ls_cpu_look(const ls_buffer *buffer, const void **out_data) {
  ls_cpu_finish_fills(ls_cpu_backend_filler(buffer->backend));
  *out_data = is_blank((const cpu_buffer *)buffer) ? NULL : buffer->data;
  return ls_ok();
}

void ls_cpu_stream_copy(ls_backend *backend, void *target, const void *from,
                        size_t size) {
  const ls_cpu_kernels *kernels = ls_cpu_backend_kernels(backend);
  // Streaming stores need an aligned start: memcpy copies the head.
  const size_t off = (uintptr_t)target % LS_CACHE_LINE;
  size_t head = off == 0 ? 0 : LS_CACHE_LINE - off;
  if (kernels->stream == NULL || size < head) head = size;
  if (head > 0) memcpy(target, from, head);
  if (head == size) return;
  kernels->stream((char *)target + head, (const char *)from + head,
                  size - head);
  kernels->stream_end();
}

ls_status ls_cpu_download(const ls_buffer *buffer, void *data) {
  const size_t size = ls_type_bytes(buffer->type);
  const void *from = NULL;
  LS_RETURN_IF_ERROR(ls_cpu_look(buffer, &from));
  if (from == NULL)
    memset(data, 0, size);
  else if (size > 0)
    memcpy(data, from, size);
  return ls_ok();
}

ls_status ls_cpu_copy(ls_buffer *target, const ls_buffer *from) {
  return ls_cpu_download(from, ls_cpu_overwrite(target));
}

// ---- Zeros -----------------------------------------------------------------
static void zero_loop(const ls_kernel_call *call, int64_t begin, int64_t end) {
  ls_buffer *const *buffers = call->params;
  for (int64_t i = begin; i < end; ++i) {
    cpu_buffer *buffer = (cpu_buffer *)buffers[i];
    if (buffers[i] == NULL || !is_blank(buffer)) continue;
    memset(buffer->base.data, 0, ls_type_bytes(buffers[i]->type));
    set_blank(buffer, false);
  }
}

void ls_cpu_write_zeros(ls_cpu_slabs *slabs, ls_buffer *const *buffers,
                        size_t count, const ls_cpu_team *team) {
  const ls_kernel_call call = {.params = buffers};
  size_t num_bytes = 0;
  // Programs that share variables are bound one at a time.
  ls_mutex_lock(&slabs->lock);
  for (size_t i = 0; i < count; ++i)
    if (buffers[i] != NULL && is_blank((const cpu_buffer *)buffers[i]))
      num_bytes += ls_type_bytes(buffers[i]->type);
  if (ls_cpu_team_gains(0, num_bytes, (int64_t)count))
    ls_cpu_team_run(team, zero_loop, &call, (int64_t)count);
  else if (num_bytes > 0)
    zero_loop(&call, 0, (int64_t)count);
  ls_mutex_unlock(&slabs->lock);
}

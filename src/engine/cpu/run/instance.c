// SPDX-License-Identifier: Apache-2.0
//
// Binding: memory for an executable, and the buffers of its variables.
#include "engine/cpu/run/instance.h"
#include "engine/cpu/run/numbers.h"

#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "engine/cpu/run/buffer.h"
#include "engine/cpu/run/host_call.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/sums.h"
#include "lockstep/runtime_settings.h"

static ls_status check_buffers(const ls_executable *executable,
                               ls_buffer *const *buffers) {
  const ls_program *program = executable->program;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_type *wanted = &program->uses[i].type;
    const ls_buffer *buffer = buffers[i];
    if (buffer == NULL || buffer->backend != executable->backend)
      return ls_invalid_argument("use %zu has no buffer of this back end", i);
    if (buffer->type.dtype != wanted->dtype ||
        !ls_shape_equal(buffer->type.shape, wanted->shape)) {
      return ls_invalid_argument(
          "use %zu is %s, its buffer %s", i,
          LS_SHAPE_TEXT(wanted->dtype, wanted->shape),
          LS_SHAPE_TEXT(buffer->type.dtype, buffer->type.shape));
    }
  }
  return ls_ok();
}

// Counts the buffers: old values, then new ones.
static size_t num_buffers(const ls_executable *executable) {
  const ls_program *program = executable->program;
  return program->num_uses * (program->apart ? 2 : 1);
}

// Returns true if one of the buffers differs from before.
static bool retain_buffers(ls_instance *self, ls_buffer *const *buffers,
                           size_t count) {
  char **bases =
      self->workers[0].bases + ls_cpu_base_variables(self->executable);
  bool has_changed = false;
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i] == self->buffers[i]) continue;
    ls_object_release(self->buffers[i]);
    self->buffers[i] = ls_object_retain(buffers[i]);
    bases[i] = buffers[i] == NULL ? NULL : buffers[i]->data;
    has_changed = true;
  }
  return has_changed;
}

// Makes two tables per part, arrivals and posts, on cache lines of their own.
static ls_status make_parts(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const size_t width = ((size_t)executable->num_slots + 15) / 16 * 16;
  const size_t count = executable->num_parts;
  self->parts = ls_new_array(self->allocator, ls_cpu_part, count);
  self->part_tables =
      ls_new_array(self->allocator, uint32_t, count * 2 * width + 1);
  if (self->parts == NULL || self->part_tables == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    self->parts[i].arrived = self->part_tables + 2 * i * width;
    self->parts[i].posts = self->parts[i].arrived + width;
  }
  return ls_ok();
}

static int num_threads(const ls_executable *executable) {
  return ls_runtime_threads(executable->backend->runtime);
}

// Returns the number of workers, which run parts of the lanes.
static int num_workers(const ls_executable *executable) {
  return executable->num_parts > 1 ? num_threads(executable) : 1;
}

static ls_status make_workers(ls_instance *self) {
  const ls_executable *executable = self->executable;
  ls_allocator *allocator = self->allocator;
  const int count = num_workers(executable);
  LS_SET_ARRAY_OR_RETURN(allocator, ls_cpu_worker, self->workers,
                         (size_t)count);
  self->num_workers = count;
  for (int i = 0; i < count; ++i) {
    ls_cpu_worker *worker = &self->workers[i];
    worker->bases =
        ls_new_array(allocator, char *, ls_cpu_num_bases(executable));
    worker->operands =
        ls_new_array(allocator, void *, executable->max_operands);
    worker->adds = ls_new_array(allocator, bool,
                                (size_t)executable->num_contributions + 1);
    if (worker->bases == NULL || worker->operands == NULL ||
        worker->adds == NULL)
      return ls_out_of_memory();
    if (!ls_runtime_finds_nan(executable->backend->runtime)) continue;
    LS_SET_ARRAY_OR_RETURN(allocator, ls_cpu_numbers, worker->numbers, 1);
  }
  return ls_ok();
}

// Makes the state of the streams and the tables of a run.
static ls_status make_tables(ls_instance *self) {
  const ls_executable *executable = self->executable;
  ls_allocator *allocator = self->allocator;
  LS_RETURN_IF_ERROR(make_workers(self));
  LS_RETURN_IF_ERROR(make_parts(self));
  self->buffers = ls_new_array(allocator, ls_buffer *, num_buffers(executable));
  self->lanes = ls_new_array(allocator, ls_cpu_stream, executable->num_lanes);
  self->slots = ls_new_array(allocator, ls_cpu_slot, executable->num_slots);
  self->pieces = ls_new_array(allocator, ls_exchange_piece,
                              ls_cpu_ranks_pieces(executable));
  if (self->buffers == NULL || self->lanes == NULL || self->slots == NULL ||
      self->pieces == NULL)
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_cpu_flights_make(self));
  return ls_cpu_stacks_init(&self->stacks, allocator, executable->num_stacks,
                            (size_t)executable->num_lanes + 1);
}

// Allocates `count` blocks of `size` bytes.
static ls_status make_memory(ls_instance *self, size_t count, size_t size,
                             char **out_memory) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return ls_out_of_memory();
  *out_memory = ls_allocate_large(self->allocator, bytes);
  if (*out_memory != NULL) return ls_ok();
  return LS_NO_MEMORY("no memory for a program: %zu bytes", bytes);
}

size_t ls_cpu_kernels_scratch(const ls_executable *executable) {
  const size_t alone =
      num_workers(executable) == 1
          ? 0
          : ls_cpu_team_size(num_threads(executable),
                             executable->kernel_scratch, LS_CPU_MANY_BLOCKS);
  return alone > executable->team_scratch ? alone : executable->team_scratch;
}

// Sets up the thread team: the runtime's workers, and their scratch.
static ls_status make_team(ls_instance *self) {
  ls_runtime *runtime = self->executable->backend->runtime;
  ls_cpu_team *team = &self->team;
  team->threads = num_threads(self->executable);
  if (team->threads > 1)
    LS_RETURN_IF_ERROR(ls_runtime_workers(runtime, &team->workers));
  team->size = ls_cpu_kernels_scratch(self->executable);
  return make_memory(self, 1, team->size, &team->scratch);
}

// Gives a worker its scratch and its fixed bases.
static ls_status equip_worker(ls_instance *self, int index) {
  ls_cpu_worker *worker = &self->workers[index];
  const size_t size = self->team.size / (size_t)self->num_workers /
                      LS_CACHE_LINE * LS_CACHE_LINE;
  LS_RETURN_IF_ERROR(make_memory(self, 1, self->executable->facts.scratch_bytes,
                                 &worker->scratch));
  worker->team = &self->team;
  worker->alone = (ls_cpu_team){
      .threads = 1,
      .scratch = self->team.scratch + (size_t)index * size,
      .size = size,
  };
  worker->bases[LS_CPU_BASE_CONSTANTS] = self->executable->constants;
  worker->bases[LS_CPU_BASE_SHARED] = self->shared;
  worker->bases[LS_CPU_BASE_FRAME] = self->frames;
  worker->bases[LS_CPU_BASE_SCRATCH] = worker->scratch;
  return ls_ok();
}

static ls_status make_arenas(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_plan_facts *facts = &executable->facts;
  self->frame_stride = facts->frame_bytes;
  LS_RETURN_IF_ERROR(make_memory(self, 1, facts->shared_bytes, &self->shared));
  LS_RETURN_IF_ERROR(make_memory(self, executable->num_lanes,
                                 facts->frame_bytes, &self->frames));
  LS_RETURN_IF_ERROR(make_team(self));
  for (int i = 0; i < self->num_workers; ++i)
    LS_RETURN_IF_ERROR(equip_worker(self, i));
  return ls_ok();
}

ls_status ls_cpu_make_spares(ls_instance *self) {
  if (self->spares != NULL) return ls_ok();
  return make_memory(self, 1, self->executable->spare_bytes, &self->spares);
}

// Writes initial values that were deferred.
static void write_values(ls_instance *self) {
  ls_backend *backend = self->executable->backend;
  ls_cpu_finish_fills(ls_cpu_backend_filler(backend));
  ls_cpu_write_zeros(ls_cpu_backend_slabs(backend), self->buffers,
                     num_buffers(self->executable), &self->team);
}

void ls_cpu_rebind(ls_instance *self, ls_buffer *const *buffers) {
  if (retain_buffers(self, buffers, num_buffers(self->executable)))
    write_values(self);
}

ls_status ls_cpu_bind(ls_executable *executable, ls_buffer *const *buffers,
                      ls_instance **out_instance) {
  *out_instance = NULL;
  LS_RETURN_IF_ERROR(check_buffers(executable, buffers));
  LS_OWN_NEW_OR_RETURN(executable->allocator, ls_instance, self);
  self->allocator = executable->allocator;
  self->executable = executable;
  ls_count_retain(&executable->references);
  LS_RETURN_IF_ERROR(make_tables(self));
  retain_buffers(self, buffers, executable->program->num_uses);
  LS_RETURN_IF_ERROR(make_arenas(self));
  if (executable->program->num_uses > 0) write_values(self);
  LS_RETURN_IF_ERROR(ls_cpu_init_host(self));
  ls_cpu_backend_add(self);
  *out_instance = ls_give(&self);
  return ls_ok();
}

void ls_cpu_destroy_instance(ls_instance *self) {
  if (self == NULL) return;
  ls_allocator *allocator = self->allocator;
  ls_cpu_backend_remove(self);
  ls_cpu_deinit_host(self);
  if (self->buffers != NULL)
    for (size_t i = 0; i < num_buffers(self->executable); ++i)
      ls_object_release(self->buffers[i]);
  ls_release(allocator, self->buffers);
  ls_release(allocator, self->lanes);
  ls_release(allocator, self->slots);
  ls_cpu_stacks_deinit(&self->stacks);
  ls_release(allocator, self->shared);
  ls_release(allocator, self->frames);
  ls_release(allocator, self->spares);
  for (int i = 0; i < self->num_workers; ++i) {
    ls_release(allocator, self->workers[i].bases);
    ls_release(allocator, self->workers[i].operands);
    ls_release(allocator, self->workers[i].adds);
    ls_release(allocator, self->workers[i].scratch);
    ls_release(allocator, self->workers[i].costs);
    ls_release(allocator, self->workers[i].numbers);
  }
  ls_release(allocator, self->workers);
  ls_release(allocator, self->parts);
  ls_release(allocator, self->part_tables);
  ls_release(allocator, self->pieces);
  ls_cpu_flights_destroy(self);
  ls_release(allocator, self->team.scratch);
  ls_cpu_release_executable(self->executable);
  ls_release(allocator, self);
}

void ls_cpu_worker_fail(ls_cpu_worker *worker, ls_status status) {
  worker->status = ls_status_join(worker->status, status);
}

// SPDX-License-Identifier: Apache-2.0
//
// The CPU engine as a back end: its table of functions and its identity.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "engine/cpu/passes/passes.h"
#include "engine/cpu/run/buffer.h"
#include "engine/cpu/run/host_call.h"
#include "engine/cpu/run/instance.h"
#include "graph/text/text.h"
#include "lockstep/device.h"
#include "lockstep/runs.h"
#include "lockstep/runtime_settings.h"

typedef struct cpu_backend {
  ls_backend base;
  const ls_cpu_kernels *kernels;
  ls_cpu_kernels bf16_kernels;  // The `kernels` if products use bf16.
  char numerics_id[64];
  ls_mutex lock;           // Guards `instances`.
  ls_instance *instances;  // List of all bound instances.
  ls_cpu_slabs slabs;
  ls_cpu_filler filler;
  bool is_attached;  // Serves the runtime's communicator.
} cpu_backend;

const ls_cpu_kernels *ls_cpu_backend_kernels(const ls_backend *backend) {
  return ((const cpu_backend *)backend)->kernels;
}

ls_cpu_slabs *ls_cpu_backend_slabs(ls_backend *backend) {
  return &((cpu_backend *)backend)->slabs;
}

ls_cpu_filler *ls_cpu_backend_filler(const ls_backend *backend) {
  return &((cpu_backend *)(uintptr_t)backend)->filler;
}

// ---- Executables -----------------------------------------------------------
void ls_cpu_release_executable(ls_executable *executable) {
  if (executable == NULL || !ls_count_release(&executable->references)) return;
  ls_allocator *allocator = executable->allocator;
  ls_release(allocator, executable->constants);
  ls_arena_deinit(&executable->arena);
  ls_object_release(executable->program);
  ls_release(allocator, executable);
}

// Adds up what is known before a run: values are dense, and variables without
// separate buffers keep theirs.
static ls_plan_facts get_facts(const ls_executable *executable) {
  const ls_program *program = executable->program;
  const ls_graph *body = program->body;
  ls_plan_facts facts = executable->facts;
  ls_program_figures *figures = &facts.figures;
  const size_t threads =
      (size_t)ls_runtime_threads(executable->backend->runtime);
  figures->num_devices = 1;
  for (size_t i = 0; i < program->num_inputs + program->num_uses; ++i)
    figures->argument_bytes +=
        (int64_t)ls_type_bytes(ls_graph_type(body, body->parameters[i]));
  for (size_t i = 0; i < body->num_results; ++i) {
    const int64_t size =
        (int64_t)ls_type_bytes(ls_graph_type(body, body->results[i]));
    figures->result_bytes += size;
    if (i >= program->num_outputs && !program->apart)
      figures->alias_bytes += size;
  }
  figures->temporary_bytes =
      (int64_t)(facts.shared_bytes + facts.frame_bytes * executable->num_lanes +
                facts.scratch_bytes * threads +
                ls_cpu_kernels_scratch(executable));
  facts.table_bytes = executable->arena.bytes;
  figures->code_bytes = (int64_t)facts.constant_bytes;
  return facts;
}

// ---- Instances -------------------------------------------------------------
void ls_cpu_backend_add(ls_instance *instance) {
  cpu_backend *self = (cpu_backend *)instance->executable->backend;
  ls_mutex_lock(&self->lock);
  instance->next = self->instances;
  self->instances = instance;
  ls_mutex_unlock(&self->lock);
}

void ls_cpu_backend_remove(ls_instance *instance) {
  cpu_backend *self = (cpu_backend *)instance->executable->backend;
  ls_mutex_lock(&self->lock);
  ls_instance **at = &self->instances;
  while (*at != NULL && *at != instance)
    at = &(*at)->next;
  // An instance whose binding failed was never added.
  if (*at != NULL) *at = instance->next;
  ls_mutex_unlock(&self->lock);
}

static bool is_part(const ls_instance *at, ls_instance *const *parts,
                    size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (parts[i] == at) return true;
  return false;
}

void ls_cpu_backend_print_others(const ls_instance *self,
                                 ls_instance *const *parts, size_t count,
                                 ls_text *text) {
  cpu_backend *backend = (cpu_backend *)self->executable->backend;
  ls_mutex_lock(&backend->lock);
  for (ls_instance *at = backend->instances; at != NULL; at = at->next)
    if (LS_CPU_SEEN(at->is_running) && at != self && !is_part(at, parts, count))
      ls_cpu_print_other(at, text);
  ls_mutex_unlock(&backend->lock);
}

static void print_runs(cpu_backend *self, ls_text *text) {
  ls_mutex_lock(&self->lock);
  for (ls_instance *at = self->instances; at != NULL; at = at->next)
    if (LS_CPU_SEEN(at->is_running)) ls_cpu_print_whereabouts(at, text);
  ls_mutex_unlock(&self->lock);
}

ls_status ls_runs_print(ls_runtime *runtime, char **out_text) {
  LS_REQUIRE_OUT(out_text, runtime);
  const ls_backend *backend = ls_runtime_slot(runtime, LS_SLOT_ENGINE);
  LS_OWN(ls_text, text) = {0};
  ls_print_begin(&text, ls_runtime_allocator(runtime));
  if (backend != NULL) print_runs((cpu_backend *)backend->host, &text);
  return ls_print_end(&text, out_text);
}

// ---- Services for ranks ----------------------------------------------------
static void describe_runs(void *user, char *place, size_t size) {
  cpu_backend *self = user;
  ls_text text = {.allocator = ls_runtime_allocator(self->base.runtime)};
  print_runs(self, &text);
  ls_format(place, size, "%s", ls_text_data(&text));
  ls_text_deinit(&text);
}

static bool do_runs_go_on(void *user, uint64_t *seen) {
  return ls_runtime_goes_on(((cpu_backend *)user)->base.runtime, seen);
}

static void log_for_ranks(void *user, const char *text) {
  ls_runtime_log(((cpu_backend *)user)->base.runtime, LS_LOG_INFO, "ranks",
                 "%s", text);
}

// Lets other ranks know of this one's runs from now on.
static void attach_services(cpu_backend *self) {
  ls_communicator *communicator = ls_runtime_communicator(self->base.runtime);
  self->is_attached = communicator != NULL && communicator->attach != NULL;
  if (!self->is_attached) return;
  communicator->attach(
      communicator,
      &(ls_rank_services){.user = self,
                          .describe = describe_runs,
                          .goes_on = do_runs_go_on,
                          .log = log_for_ranks,
                          .stall = ls_runtime_stall_nanos(self->base.runtime)});
}

static void detach_services(const cpu_backend *self) {
  ls_communicator *communicator = ls_runtime_communicator(self->base.runtime);
  if (self->is_attached) communicator->attach(communicator, NULL);
}

// ---- The back end ----------------------------------------------------------
static const char *numerics_id(ls_backend *self) {
  return ((const cpu_backend *)self)->numerics_id;
}

static const struct ls_backend_vtable cpu_vtable = {
    .name = "cpu",
    .prepare = ls_cpu_prepare,
    .compile = ls_cpu_compile,
    .release_executable = ls_cpu_release_executable,
    .facts = get_facts,
    .list_instructions = ls_cpu_list_instructions,
    .print_plan = ls_cpu_print_plan,
    .bind = ls_cpu_bind,
    .rebind = ls_cpu_rebind,
    .destroy_instance = ls_cpu_destroy_instance,
    .start = ls_cpu_start,
    .advance = ls_cpu_advance,
    .wait = ls_cpu_wait_for_host,
    .stop = ls_cpu_stop,
    .finish = ls_cpu_finish_run,
    .measure = ls_cpu_measure,
    .print_cost = ls_cpu_print_cost,
    .create_buffer = ls_cpu_create_buffer,
    .upload = ls_cpu_upload,
    .download = ls_cpu_download,
    .look = ls_cpu_look,
    .stream_copy = ls_cpu_stream_copy,
    .overwrite = ls_cpu_overwrite,
    .copy = ls_cpu_copy,
    .fill = ls_cpu_fill_from,
    .numerics_id = numerics_id,
};

static const ls_cpu_kernels *choose_kernels(const ls_runtime *runtime) {
  static const char *const names[] = {
      [LS_ISA_BASE] = "base", [LS_ISA_V3] = "v3", [LS_ISA_V4] = "v4"};
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  // An unsupported level falls back to the best level below it.
  for (int isa = (int)ls_debug_isa(runtime); isa > LS_ISA_ANY; --isa) {
    const ls_cpu_kernels *kernels = ls_cpu_kernels_find(names[isa]);
    if (kernels != NULL) return kernels;
  }
  return best;
}

// Makes the id. Kernels give the same bits on every machine, instruction set
// and C library, and divide work by shapes alone, so the id contains none of
// these. Its number must grow with any change of their arithmetic.
static void make_numerics_id(cpu_backend *self) {
  snprintf(self->numerics_id, sizeof(self->numerics_id), "lockstep-16 %s",
           ls_math_name(ls_runtime_math(self->base.runtime)));
}

void ls_cpu_backend_destroy(void *state) {
  cpu_backend *self = state;
  ls_allocator *allocator = ls_runtime_allocator(self->base.runtime);
  detach_services(self);
  ls_cpu_filler_deinit(&self->filler);
  ls_mutex_deinit(&self->lock);
  ls_cpu_slabs_deinit(&self->slabs, allocator);
  ls_release(allocator, self);
}

static ls_status init_locks_and_memory(cpu_backend *self) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_cpu_slabs_init(&self->slabs));
  return ls_cpu_filler_init(&self->filler, self->base.runtime);
}

ls_status ls_cpu_backend_create(ls_runtime *runtime, ls_backend **out_backend) {
  LS_NEW_OR_RETURN(ls_runtime_allocator(runtime), cpu_backend, self);
  self->base.vtable = &cpu_vtable;
  self->base.runtime = runtime;
  self->base.host = &self->base;
  ls_status status = init_locks_and_memory(self);
  if (!ls_status_is_ok(status)) {
    ls_cpu_backend_destroy(self);
    return status;
  }
  self->kernels = choose_kernels(runtime);
  const ls_math math = ls_runtime_math(runtime);
  if (math == LS_MATH_BF16 || math == LS_MATH_BF16_DIRECT) {
    self->bf16_kernels = *self->kernels;
    // A plug-in's products run on its device, not in its host's kernels.
    if (!ls_cpu_kernels_use_bf16(&self->bf16_kernels) &&
        strcmp(ls_runtime_device(runtime), "cpu") == 0)
      ls_runtime_log(runtime, LS_LOG_WARNING, "engine",
                     "math %s is slower than %s here: the processor has no "
                     "instruction for it (AVX512-BF16)",
                     ls_math_name(math), ls_math_name(LS_MATH_FAST));
    self->kernels = &self->bf16_kernels;
  }
  make_numerics_id(self);
  attach_services(self);
  *out_backend = &self->base;
  return ls_ok();
}

ls_status ls_device_kernels(ls_runtime *runtime, const char **out_name) {
  LS_REQUIRE_OUT(out_name, runtime);
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  *out_name = ls_cpu_backend_kernels(backend->host)->name;
  return ls_ok();
}

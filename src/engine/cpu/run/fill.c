// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/buffer.h"

#include "base/runtime_internal.h"
#include "lockstep/runtime_settings.h"

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

bool ls_cpu_defer_fill(ls_cpu_filler *filler, ls_cpu_fill *fill,
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

void ls_cpu_cancel_fill(ls_cpu_filler *filler, ls_cpu_fill *fill) {
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

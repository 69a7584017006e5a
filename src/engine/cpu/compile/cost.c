// SPDX-License-Identifier: Apache-2.0
//
// Cost of a program: its memory by lifetime and, once measured, the time of
// each kind of instruction beside the machine's limit.
//
// The bound of an instruction is the longer of two times: its flops at the rate
// of a product within the first caches, and its bytes at the rate of a copy
// through the last cache, on all threads. Both rates are measured when the
// table is printed. Data in a nearer cache may be faster than the bound.
#include <stdlib.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "engine/cpu/run/instance.h"

ls_status ls_cpu_measure(ls_instance *self, bool on) {
  self->runs = 0;
  for (int i = 0; i < self->num_workers; ++i) {
    ls_cpu_worker *worker = &self->workers[i];
    ls_release(self->allocator, worker->costs);
    worker->costs = NULL;
    if (!on) continue;
    worker->costs = ls_new_array(self->allocator, ls_cpu_cost,
                                 self->executable->num_instructions);
    if (worker->costs == NULL) {
      LS_RETURN_IF_ERROR(ls_cpu_measure(self, false));
      return ls_out_of_memory();
    }
  }
  return ls_ok();
}

// ---- Rates of the machine --------------------------------------------------
enum { SIDE = 96, DEPTH = 256, COPY_BYTES = 4 << 20, PROBE_NANOS = 10000000 };

typedef struct probe {
  const ls_cpu_kernels *kernels;
  char *memory;
  size_t stride;  // Bytes from one thread's part to the next.
  bool copies;
} probe;

static size_t product_bytes(const ls_cpu_kernels *kernels) {
  const ls_cpu_product product = {.m = SIDE, .n = SIDE, .k = DEPTH};
  return sizeof(float) * (2 * SIDE * DEPTH + SIDE * SIDE) +
         kernels->product_scratch(&product) + 64;
}

static void probe_block(void *user, int worker, int64_t begin, int64_t end) {
  const probe *p = user;
  char *memory = p->memory + (size_t)worker * p->stride;
  for (int64_t i = begin; i < end; ++i) {
    if (p->copies) {
      memcpy(memory, memory + COPY_BYTES, COPY_BYTES);
      continue;
    }
    float *a = (float *)memory, *b = a + SIDE * DEPTH, *c = b + SIDE * DEPTH;
    const ls_cpu_product product = {.m = SIDE,
                                    .n = SIDE,
                                    .k = DEPTH,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .lda = DEPTH,
                                    .ldb = SIDE,
                                    .ldc = SIDE};
    p->kernels->product(&product, &(ls_cpu_block){0, SIDE, 0, SIDE},
                        c + SIDE * SIDE);
  }
}

// Measures blocks per nanosecond of all threads; returns the best of some
// rounds.
static double probe_rate(const ls_cpu_team *team, const ls_runtime *runtime,
                         probe *p) {
  const int64_t blocks = (int64_t)team->threads * (p->copies ? 2 : 16);
  const int64_t until = ls_runtime_now(runtime) + PROBE_NANOS;
  double best = 0;
  int64_t now_ns = 0;
  do {
    const int64_t begin = ls_runtime_now(runtime);
    if (team->workers != NULL)
      ls_status_free(ls_workers_share(team->workers, probe_block, p, blocks));
    else
      probe_block(p, 0, 0, blocks);
    now_ns = ls_runtime_now(runtime);
    const double rate = (double)blocks / (double)(now_ns - begin + 1);
    if (rate > best) best = rate;
  } while (now_ns < until);
  return best;
}

// Flops and bytes per nanosecond.
typedef struct rates {
  double flops, bytes;
} rates;

static ls_status measure_rates(const ls_instance *self, rates *out) {
  const ls_backend *backend = self->executable->backend;
  probe p = {.kernels = ls_cpu_backend_kernels(backend)};
  p.stride = 2 * COPY_BYTES + product_bytes(p.kernels);
  const size_t size = p.stride * (size_t)self->team.threads;
  p.memory = ls_allocate_large(self->allocator, size);
  if (p.memory == NULL) return ls_out_of_memory();
  memset(p.memory, 0, size);
  out->flops =
      probe_rate(&self->team, backend->runtime, &p) * 2.0 * SIDE * SIDE * DEPTH;
  p.copies = true;
  out->bytes = probe_rate(&self->team, backend->runtime, &p) * 2 * COPY_BYTES;
  ls_release(self->allocator, p.memory);
  return ls_ok();
}

// ---- Table -----------------------------------------------------------------
// Instructions of one kind: those with the same name and op.
typedef struct group {
  const char *name;
  uint64_t nanos, runs;
  double flops, bytes, bound;  // Totals of all runs; the bound in nanoseconds.
} group;

static const char *group_name(const ls_executable *executable, size_t pc) {
  const ls_cpu_note *note = &executable->notes[pc];
  const ls_cpu_code code = executable->instructions[pc].code;
  if (note->kind != NULL) return note->kind;
  return code == LS_CPU_KERNEL && note->node != NULL
             ? ls_node_info(note->node)->name
             : ls_cpu_code_name(code);
}

static void add_cost(group *g, const ls_executable *executable, size_t pc,
                     const ls_cpu_cost *cost, const rates *machine) {
  const ls_cpu_note *note = &executable->notes[pc];
  const double runs = (double)cost->runs;
  const double compute = note->flops / machine->flops;
  const double traffic = (double)note->bytes / machine->bytes;
  g->nanos += cost->nanos;
  g->runs += cost->runs;
  g->flops += note->flops * runs;
  g->bytes += (double)note->bytes * runs;
  g->bound += (compute > traffic ? compute : traffic) * runs;
}

static int slower_first(const void *a, const void *b) {
  const group *x = a, *y = b;
  return (x->nanos < y->nanos) - (x->nanos > y->nanos);
}

// Adds up the cost of an instruction over all workers.
static ls_cpu_cost cost_of(const ls_instance *self, size_t pc) {
  ls_cpu_cost sum = {0};
  for (int i = 0; i < self->num_workers; ++i) {
    sum.nanos += self->workers[i].costs[pc].nanos;
    sum.runs += self->workers[i].costs[pc].runs;
  }
  return sum;
}

static size_t collect_groups(const ls_instance *self, const rates *machine,
                             group *groups) {
  const ls_executable *executable = self->executable;
  size_t count = 0;
  for (size_t pc = 0; pc < executable->num_instructions; ++pc) {
    const ls_cpu_cost cost = cost_of(self, pc);
    if (cost.runs == 0) continue;
    const char *name = group_name(executable, pc);
    size_t i = 0;
    while (i < count && strcmp(groups[i].name, name) != 0)
      ++i;
    if (i == count) groups[count++] = (group){.name = name};
    add_cost(&groups[i], executable, pc, &cost, machine);
  }
  qsort(groups, count, sizeof(*groups), slower_first);
  return count;
}

static void print_row(ls_text *text, const group *g, double runs,
                      double total) {
  const double nanos = (double)g->nanos;
  ls_text_append_format(text, "%-24s %9.4f %5.1f%% %8.1f", g->name,
                        nanos / runs * 1e-6, 100 * nanos / total,
                        (double)g->runs / runs);
  if (g->flops > 0)
    ls_text_append_format(text, " %9.1f", g->flops / nanos);
  else
    ls_text_append_format(text, " %9s", "");
  if (g->bytes > 0)
    ls_text_append_format(text, " %8.1f %7.0f%%\n", g->bytes / nanos,
                          100 * g->bound / nanos);
  else
    ls_text_append(text, "\n");
}

static void print_memory(const ls_instance *self, ls_text *text) {
  const ls_executable *executable = self->executable;
  const ls_plan_facts *facts = &executable->facts;
  size_t variables = 0;
  for (size_t i = 0; i < executable->program->num_uses; ++i)
    variables += ls_type_bytes(executable->program->uses[i].type);
  ls_text_append_format(
      text,
      "memory, MB: variables %.3f, constants %.3f, shared values of a step "
      "%.3f,\n"
      "  values of a lane across waits %.3f x %d, between waits %.3f x %d, "
      "kernels %.3f\n",
      (double)variables * 1e-6, (double)facts->constant_bytes * 1e-6,
      (double)facts->shared_bytes * 1e-6, (double)facts->frame_bytes * 1e-6,
      (int)executable->num_lanes, (double)facts->scratch_bytes * 1e-6,
      self->num_workers, (double)self->team.size * 1e-6);
}

static void print_groups(const ls_instance *self, const rates *machine,
                         const group *groups, size_t count, ls_text *text) {
  group sum = {.name = "all"};
  for (size_t i = 0; i < count; ++i) {
    sum.nanos += groups[i].nanos;
    sum.runs += groups[i].runs;
    sum.flops += groups[i].flops;
    sum.bytes += groups[i].bytes;
    sum.bound += groups[i].bound;
  }
  print_memory(self, text);
  ls_text_append_format(
      text,
      "machine: %.1f Gflop/s in products, %.1f GB/s in copies through the "
      "cache, %d threads\n"
      "mean of %llu steps:\n"
      "%-24s %9s %6s %8s %9s %8s %8s\n",
      machine->flops, machine->bytes, self->team.threads,
      (unsigned long long)self->runs, "kernel", "ms", "share", "runs",
      "Gflop/s", "GB/s", "of bound");
  const double total = sum.nanos > 0 ? (double)sum.nanos : 1;
  for (size_t i = 0; i < count; ++i)
    print_row(text, &groups[i], (double)self->runs, total);
  print_row(text, &sum, (double)self->runs, total);
}

ls_status ls_cpu_print_cost(const ls_instance *self, ls_text *text) {
  if (self->workers[0].costs == NULL || self->runs == 0)
    return ls_failed_precondition(
        "nothing was measured: switch measuring on, then run a step");
  rates machine = {0};
  LS_RETURN_IF_ERROR(measure_rates(self, &machine));
  LS_NEW_ARRAY_OR_RETURN(self->allocator, group, groups,
                         self->executable->num_instructions);
  const size_t count = collect_groups(self, &machine, groups);
  print_groups(self, &machine, groups, count, text);
  ls_release(self->allocator, groups);
  return ls_text_status(text);
}

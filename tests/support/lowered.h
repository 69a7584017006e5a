// SPDX-License-Identifier: Apache-2.0
// A lowered graph, written as text, as a program on the CPU engine.
#ifndef LS_TESTS_SUPPORT_LOWERED_H_
#define LS_TESTS_SUPPORT_LOWERED_H_

#include "base/memory/own.h"
#include "engine/backend.h"

enum { LOWERED_USES = 8 };

// What to make. Of the graph's parameters the last `num_uses` are variables.
typedef struct lowered_options {
  const char *text;
  size_t num_uses;
  bool written[LOWERED_USES];
  const ls_host_kernel *const *kernels;
  size_t num_kernels;
} lowered_options;

typedef struct lowered {
  ls_backend *backend;
  ls_program *program;
  ls_executable *executable;
  ls_buffer *buffers[LOWERED_USES];  // Zeros at first.
  ls_instance *instance;
} lowered;

// Parses, compiles and binds under the current runtime. Destroy it also after a
// failure.
ls_status lowered_create(const lowered_options *options, lowered *out);
void lowered_destroy(lowered *self);
LS_OWNED_STRUCT(lowered, lowered_destroy)

// One run. `step` and `seed` are 0.
ls_status lowered_run(lowered *self, const void *const *inputs,
                      void *const *outputs);
// Makes it, runs it once and destroys it.
ls_status lowered_run_once(const lowered_options *options,
                           const void *const *inputs, void *const *outputs);
// The plan as text; the caller gives it back with free().
char *lowered_plan(lowered *self);
// How often `part` stands in the plan.
int lowered_plan_count(lowered *self, const char *part);

// Makes one that has to be right.
void lowered_make(lowered *program, const lowered_options *options);
// What the plan says of itself.
ls_plan_facts lowered_facts(const lowered *program);

#endif  // LS_TESTS_SUPPORT_LOWERED_H_

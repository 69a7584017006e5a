// SPDX-License-Identifier: Apache-2.0
#include "support/lowered.h"

#include <stdlib.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "support/expect.h"

static void destroy_program(ls_object *object) {
  ls_program *program = (ls_program *)object;
  ls_allocator *allocator = ls_runtime_allocator(program->runtime);
  ls_graph_free(program->body);
  ls_release(allocator, program->uses);
  ls_release(allocator, program);
}

static const ls_object_type program_type = {
    .name = "program",
    .destroy = destroy_program,
};

// Makes the program of a graph, which it takes over.
static ls_status make_program(const lowered_options *options, ls_graph *body,
                              ls_program **out_program) {
  ls_runtime *runtime = ls_runtime_current();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_program *program = ls_new(allocator, ls_program);
  if (program == NULL) {
    ls_graph_free(body);
    return ls_out_of_memory();
  }
  ls_object_init(&program->object, &program_type);
  program->runtime = runtime;
  program->body = body;
  *out_program = program;
  program->uses = ls_new_array(allocator, ls_use, LOWERED_USES);
  if (program->uses == NULL) return ls_out_of_memory();
  program->num_uses = options->num_uses;
  program->num_inputs = body->num_parameters - options->num_uses;
  program->num_outputs = body->num_results;
  for (size_t i = 0; i < options->num_uses; ++i) {
    program->uses[i] = (ls_use){
        .type = ls_graph_type(body, body->parameters[program->num_inputs + i]),
        .read = true,
        .written = options->written[i],
    };
    program->num_outputs -= options->written[i];
  }
  return ls_ok();
}

ls_status lowered_create(const lowered_options *options, lowered *out) {
  *out = (lowered){0};
  ls_runtime *runtime = ls_runtime_current();
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &out->backend));
  ls_graph *body = NULL;
  LS_RETURN_IF_ERROR(ls_graph_parse(options->text, options->kernels,
                                    options->num_kernels, &body));
  LS_RETURN_IF_ERROR(make_program(options, body, &out->program));
  const struct ls_backend_vtable *vtable = out->backend->vtable;
  LS_RETURN_IF_ERROR(
      vtable->compile(out->backend, out->program, &out->executable));
  for (size_t i = 0; i < options->num_uses; ++i) {
    LS_RETURN_IF_ERROR(vtable->create_buffer(
        out->backend, out->program->uses[i].type, &out->buffers[i]));
  }
  return vtable->bind(out->executable, out->buffers, &out->instance);
}

void lowered_destroy(lowered *self) {
  if (self->backend == NULL) return;
  const struct ls_backend_vtable *vtable = self->backend->vtable;
  vtable->destroy_instance(self->instance);
  for (size_t i = 0; i < LOWERED_USES; ++i)
    ls_object_release(self->buffers[i]);
  vtable->release_executable(self->executable);
  ls_object_release(self->program);
  *self = (lowered){0};
}

ls_status lowered_run(lowered *self, const void *const *inputs,
                      void *const *outputs) {
  return ls_backend_run(self->backend, self->instance,
                        &(ls_run_args){.inputs = inputs, .outputs = outputs});
}

ls_status lowered_run_once(const lowered_options *options,
                           const void *const *inputs, void *const *outputs) {
  LS_OWN(lowered, self) = {0};
  ls_status status = lowered_create(options, &self);
  if (ls_status_is_ok(status)) status = lowered_run(&self, inputs, outputs);
  return status;
}

char *lowered_plan(lowered *self) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_status_free(self->backend->vtable->print_plan(self->executable, &text));
  return ls_text_finish(&text);
}

int lowered_plan_count(lowered *self, const char *part) {
  HEAP(char, plan) = lowered_plan(self);
  int count = 0;
  for (const char *at = plan; (at = strstr(at, part)) != NULL; ++at)
    ++count;
  return count;
}

void lowered_make(lowered *program, const lowered_options *options) {
  expect_ok(lowered_create(options, program));
}

ls_plan_facts lowered_facts(const lowered *program) {
  return program->backend->vtable->facts(program->executable);
}

// SPDX-License-Identifier: Apache-2.0
//
// Padded inputs: a program for several sizes gets a run's inputs followed by
// rows of zeros, and the numbers of real rows (lower/mask.h).
#include "base/memory/own.h"
#include "runtime/compiled.h"

typedef struct ls_padded_inputs {
  const ls_program *program;
  ls_allocator *allocator;
  const void **inputs;  // All inputs of the program.
  int32_t *rows;        // Real rows of each padded input.
  ls_array **arrays;    // The padded inputs.
} ls_padded_inputs;
LS_OWNED_POINTER(ls_padded_inputs, ls_padded_inputs_destroy)

static ls_type pad_type_of(const ls_program *program, size_t i) {
  return ls_graph_type(program->body,
                       program->body->parameters[program->padded[i]]);
}

static ls_status pad_make_room(ls_padded_inputs *p) {
  const ls_program *program = p->program;
  p->inputs = ls_new_array(p->allocator, const void *, program->num_inputs + 1);
  p->rows = ls_new_array(p->allocator, int32_t, program->num_padded);
  p->arrays = ls_new_array(p->allocator, ls_array *, program->num_padded);
  if (p->inputs == NULL || p->rows == NULL || p->arrays == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < program->num_padded; ++i) {
    const ls_type type = pad_type_of(program, i);
    LS_RETURN_IF_ERROR(ls_array_create(type.dtype, type.shape, &p->arrays[i]));
  }
  return ls_ok();
}

ls_status ls_padded_inputs_create(const ls_program *program,
                                  ls_allocator *allocator,
                                  ls_padded_inputs **out) {
  *out = NULL;
  if (program->num_padded == 0) return ls_ok();
  LS_OWN_NEW_OR_RETURN(allocator, ls_padded_inputs, p);
  p->program = program;
  p->allocator = allocator;
  LS_RETURN_IF_ERROR(pad_make_room(p));
  return ls_hand_over(&p, out);
}

void ls_padded_inputs_destroy(ls_padded_inputs *p) {
  if (p == NULL) return;
  for (size_t i = 0; p->arrays != NULL && i < p->program->num_padded; ++i)
    ls_array_release(p->arrays[i]);
  ls_release(p->allocator, p->inputs);
  ls_release(p->allocator, p->rows);
  ls_release(p->allocator, p->arrays);
  ls_release(p->allocator, p);
}

ls_status ls_padded_inputs_fill(ls_padded_inputs *p, ls_run_args *args) {
  const ls_program *program = p->program;
  const size_t given = program->num_inputs - program->num_padded;
  if (args->given == NULL)
    return ls_internal(
        "a program for several sizes was called without its sizes");
  memcpy(p->inputs, args->inputs, given * sizeof(*p->inputs));
  for (size_t i = 0; i < program->num_padded; ++i) {
    const uint32_t input = program->padded[i];
    const int64_t rows = args->given[input].shape.dim[0];
    const int64_t room = pad_type_of(program, i).shape.dim[0];
    if (rows > room)
      return ls_internal("%lld rows in a program for up to %lld",
                         (long long)rows, (long long)room);
    unsigned char *to = ls_array_mutable_data(p->arrays[i]);
    const size_t all = ls_array_size(p->arrays[i]);
    const size_t real = all / (size_t)room * (size_t)rows;
    if (real > 0) memcpy(to, args->inputs[input], real);
    memset(to + real, 0, all - real);
    p->rows[i] = (int32_t)rows;
    p->inputs[input] = to;
    p->inputs[given + i] = &p->rows[i];
  }
  args->inputs = p->inputs;
  return ls_ok();
}

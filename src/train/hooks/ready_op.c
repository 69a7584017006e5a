// SPDX-License-Identifier: Apache-2.0
#include "train/hooks/ready_op.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/ops.h"

// The variables' names.
typedef struct names {
  ls_object object;
  size_t count;
  char **items;
} names;

static void ready_op_destroy(ls_object *object) {
  names *self = (names *)object;
  ls_allocator *allocator = ls_current_allocator();
  for (size_t i = 0; self->items != NULL && i < self->count; ++i)
    ls_release(allocator, self->items[i]);
  ls_release(allocator, self->items);
  ls_release(allocator, self);
}

static const ls_object_type type = {.name = "names",
                                    .destroy = ready_op_destroy};

static names *make_names(ls_variable *const *variables, size_t count) {
  ls_allocator *allocator = ls_current_allocator();
  names *made = ls_new(allocator, names);
  if (made == NULL) return NULL;
  ls_object_init(&made->object, &type);
  made->items = ls_new_array(allocator, char *, count + 1);
  made->count = count;
  bool whole = made->items != NULL;
  for (size_t i = 0; i < count && whole; ++i) {
    const char *name = ls_variable_name(variables[i]);
    made->items[i] = ls_copy_text(allocator, name, strlen(name));
    whole = made->items[i] != NULL;
  }
  if (whole) return made;
  ls_object_release(made);
  return NULL;
}

static ls_status infer(const ls_object *state, const ls_type *in, size_t num_in,
                       ls_type *out, size_t *num_out) {
  (void)in, (void)num_in;
  *num_out = 1;
  out[0] = (ls_type){LS_DTYPE_STRING,
                     LS_SHAPE((int64_t)((const names *)state)->count)};
  return ls_ok();
}

static ls_status ready_op_start(ls_host_call *call) {
  const names *self = (const names *)call->state;
  ls_bytes *out = call->outputs[0];
  for (size_t i = 0; i < self->count; ++i) {
    const bool has_value = *(const uint8_t *)call->inputs[i] != 0;
    out[i].data = self->items[i];
    out[i].size = has_value ? 0 : strlen(self->items[i]);
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {.name = "report_uninitialized_variables",
                                      .infer = infer,
                                      .start = ready_op_start};

ls_tensor ls_report_uninitialized(ls_variable *const *variables, size_t count,
                                  const char *name) {
  ls_allocator *allocator = ls_current_allocator();
  ls_tensor *inputs = ls_new_array(allocator, ls_tensor, count + 1);
  names *state = make_names(variables, count);
  ls_op op = {0};
  if (inputs != NULL && state != NULL) {
    LS_NAME_SCOPE(name);
    for (size_t i = 0; i < count; ++i)
      inputs[i] = ls_variable_is_initialized(variables[i], NULL);
    op = ls_host_call_add(&kernel, &state->object, inputs, count);
  }
  ls_object_release(state);
  ls_release(allocator, inputs);
  return ls_op_output(op, 0);
}

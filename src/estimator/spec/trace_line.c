// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own.h"
#include "estimator/spec/tracer_flags.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/host.h"

typedef struct lines {
  ls_object object;
  ls_allocator *allocator;
  ls_arena memory;
  ls_trace_mode mode;
  const char **names;
  size_t count;
} lines;

static void trace_line_destroy(ls_object *object) {
  lines *self = (lines *)object;
  ls_arena_deinit(&self->memory);
  ls_release(self->allocator, self);
}

// Returns true if two replicas' ops are for the same tensors.
static bool same(const ls_object *a, const ls_object *b) {
  const lines *x = (const lines *)a, *y = (const lines *)b;
  bool same = x->mode == y->mode && x->count == y->count;
  for (size_t i = 0; i < x->count && same; ++i)
    same = strcmp(x->names[i], y->names[i]) == 0;
  return same;
}

static const ls_object_type type = {
    .name = "tensor trace", .destroy = trace_line_destroy, .equal = same};

ls_status ls_trace_lines_create(ls_trace_mode mode, const ls_tensor *tensors,
                                size_t count, ls_object **out) {
  ls_allocator *allocator = ls_current_allocator();
  lines *self = ls_new(allocator, lines);
  *out = NULL;
  if (self == NULL) return ls_out_of_memory();
  ls_object_init(&self->object, &type);
  self->allocator = allocator;
  self->mode = mode;
  ls_arena_init(&self->memory, allocator);
  self->names = ls_arena_new_array(&self->memory, const char *, count + 1);
  bool whole = self->names != NULL;
  for (; whole && self->count < count; ++self->count) {
    const char *name = ls_tensor_name(tensors[self->count]);
    self->names[self->count] = ls_arena_string(&self->memory, name);
    whole = self->names[self->count] != NULL;
  }
  if (whole)
    *out = &self->object;
  else
    ls_object_release(self);
  return whole ? ls_ok() : ls_out_of_memory();
}

// ---- A call ----------------------------------------------------------------
static void append_value(ls_text *line, ls_trace_mode mode,
                         const ls_array *value) {
  const int64_t count = ls_array_num_elements(value);
  const int64_t shown = mode == LS_TRACE_PART_TENSOR && count > 3 ? 3 : count;
  const bool is_list =
      mode == LS_TRACE_PART_TENSOR || mode == LS_TRACE_FULL_TENSOR;
  if (is_list) ls_text_append(line, "[");
  for (int64_t i = 0; i < shown; ++i)
    ls_text_append_format(line, "%s%.9g", i > 0 ? ", " : "",
                          ls_array_f64(value, i));
  if (is_list) ls_text_append(line, "]");
}

static ls_status trace_line_write_line(const ls_host_call *call, size_t input,
                                       int32_t replica) {
  const lines *self = (const lines *)call->state;
  const size_t stride = call->input_strides[input];
  const char *data = call->inputs[input];
  LS_OWN(ls_array, value) = NULL;
  LS_OWN(ls_text, line) = {0};
  LS_RETURN_IF_ERROR(ls_array_create_view(
      call->input_types[input].dtype, call->input_types[input].shape,
      (void *)(uintptr_t)(data + stride * (size_t)(replica - call->replica)),
      NULL, NULL, &value));
  // LS_TRACE_NAN_INF prints only if there are NaNs or infinities, not how many.
  const bool is_bad =
      self->mode == LS_TRACE_NAN_INF && ls_array_f64(value, 0) > 0;
  ls_text_init(&line, ls_runtime_allocator(call->runtime));
  ls_text_append_format(&line, "replica %d: '%s' %s = ", replica,
                        self->names[input], ls_trace_mode_name(self->mode));
  if (self->mode == LS_TRACE_NAN_INF)
    ls_text_append(&line, is_bad ? "1" : "0");
  else
    append_value(&line, self->mode, value);
  LS_RETURN_IF_ERROR(ls_text_status(&line));
  ls_runtime_log(call->runtime, is_bad ? LS_LOG_WARNING : LS_LOG_INFO,
                 "tensor_tracer", "%s", line.data);
  return ls_ok();
}

static ls_status write_lines(ls_host_call *call) {
  for (int32_t r = 0; r < call->num_replicas; ++r)
    for (size_t i = 0; i < call->num_inputs; ++i)
      LS_RETURN_IF_ERROR(trace_line_write_line(call, i, call->replica + r));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {
    .name = "tensor_trace", .start = write_lines, .flags = LS_HOST_ALL};

ls_op ls_trace_lines_add(ls_object *object, const ls_tensor *found,
                         size_t count) {
  return ls_host_call_add(&kernel, object, found, count);
}

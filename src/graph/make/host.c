// SPDX-License-Identifier: Apache-2.0
//
// Op makers: host calls, with print and assert.

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "base/text.h"
#include "graph/callbacks.h"
#include "graph/make/make.h"
#include "graph/text/text.h"
#include "lockstep/shape_rules.h"

ls_op ls_host_call_add(const ls_host_kernel *kernel, ls_object *state,
                       const ls_tensor *inputs, size_t num_inputs) {
  if (kernel != NULL && (kernel->flags & LS_HOST_WAITS) != 0 &&
      kernel->cancel == NULL) {
    ls_make_failed(
        kernel->name,
        ls_invalid_argument(
            "host kernel '%s' waits, so it needs a way to be cancelled",
            kernel->name));
    return (ls_op){0};
  }
  if (kernel != NULL && (kernel->flags & LS_HOST_GIVES) != 0 &&
      (kernel->take == NULL || kernel->end == NULL)) {
    ls_make_failed(kernel->name,
                   ls_invalid_argument("host kernel '%s' hands over its "
                                       "outputs, so it needs `take` and `end`",
                                       kernel->name));
    return (ls_op){0};
  }
  const ls_attr attrs[] = {
      {.name = "kernel", .kind = LS_ATTR_KERNEL, .as.kernel = kernel},
      LS_OWN_O(STATE, state)};
  return ls_make_op(LS_OP_HOST, kernel != NULL ? kernel->name : NULL, inputs,
                    num_inputs, attrs, state == NULL ? 1 : 2);
}

void ls_host_done(ls_host_call *call, ls_status status) {
  ((const ls_host_engine *)call->engine)->done(call, status);
}

ls_status ls_host_give(ls_host_call *call, size_t output, const void *data) {
  LS_REQUIRE(call);
  return ((const ls_host_engine *)call->engine)->give(call, output, data);
}

// A text that an op holds.
typedef struct label {
  ls_object object;
  ls_allocator *allocator;
  char text[];
} label;

static void destroy_label(ls_object *object) {
  label *l = (label *)object;
  ls_release(l->allocator, l);
}

static bool same_label(const ls_object *a, const ls_object *b) {
  return strcmp(((const label *)a)->text, ((const label *)b)->text) == 0;
}

static const ls_object_type label_type = {
    .name = "label", .destroy = destroy_label, .equal = same_label};

static label *make_label(const char *text) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t size = strlen(text) + 1;
  label *l = ls_allocate_zeroed(allocator, 1, sizeof(label) + size);
  if (l == NULL) return NULL;
  ls_object_init(&l->object, &label_type);
  l->allocator = allocator;
  memcpy(l->text, text, size);
  return l;
}

const char *ls_label_text(const ls_object *state) {
  return ((const label *)state)->text;
}

ls_op ls_make_labelled_call(const ls_host_kernel *kernel, const char *text,
                            const ls_tensor *inputs, size_t num_inputs) {
  label *l = make_label(text != NULL ? text : "");
  if (l == NULL) {
    ls_make_failed(kernel->name, ls_out_of_memory());
    return (ls_op){0};
  }
  const ls_op op = ls_host_call_add(kernel, &l->object, inputs, num_inputs);
  ls_object_release(l);
  return op;
}

// ---- Print -----------------------------------------------------------------
enum { PRINTED_ELEMENTS = 16 };

static ls_status append_numbers(ls_text *text, const ls_host_call *call,
                                int64_t count) {
  const ls_type type = call->input_types[0];
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(type.dtype, type.shape,
                                          (void *)(uintptr_t)call->inputs[0],
                                          NULL, NULL, &view));
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append_char(text, ' ');
    ls_print_element(text, view, i);
  }
  return ls_ok();
}

static void append_strings(ls_text *text, const ls_bytes *strings,
                           int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append_char(text, ' ');
    ls_print_string(text, strings[i].data, strings[i].size);
  }
}

static ls_status print_start(ls_host_call *call) {
  const ls_type type = call->input_types[0];
  const int64_t all = ls_shape_num_elements(type.shape);
  const int64_t count = all < PRINTED_ELEMENTS ? all : PRINTED_ELEMENTS;
  LS_OWN(ls_text, text) = {.allocator = ls_runtime_allocator(call->runtime)};
  if (type.dtype == LS_DTYPE_STRING)
    append_strings(&text, call->inputs[0], count);
  else
    LS_RETURN_IF_ERROR(append_numbers(&text, call, count));
  ls_runtime_log(call->runtime, LS_LOG_INFO, "print", "%s %s [%s%s]",
                 ls_label_text(call->state),
                 LS_SHAPE_TEXT(type.dtype, type.shape), ls_text_data(&text),
                 count < all ? " ..." : "");
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel print_kernel = {.name = "print",
                                            .start = print_start};

ls_op ls_print(const char *text, ls_tensor value) {
  return ls_make_labelled_call(&print_kernel, text, &value, 1);
}

// ---- Assert ----------------------------------------------------------------
static ls_status end_assert(ls_host_call *call, ls_cause cause) {
  const bool holds = *(const uint8_t *)call->inputs[0] != 0;
  ls_status status = ls_ok();
  if (!holds)
    status = ls_status_because(
        ls_invalid_argument("assertion failed: %s", ls_label_text(call->state)),
        cause);
  ls_host_done(call, status);
  return ls_ok();
}

static ls_status assert_start(ls_host_call *call) {
  return end_assert(call, LS_CAUSE_UNKNOWN);
}

static ls_status check_start(ls_host_call *call) {
  return end_assert(call, LS_CAUSE_NUMBERS);
}

static const ls_host_kernel assert_kernel = {
    .name = "assert_true", .start = assert_start, .flags = LS_HOST_INLINE};
static const ls_host_kernel check_kernel = {
    .name = "check_numbers", .start = check_start, .flags = LS_HOST_INLINE};

ls_op ls_make_check_of_numbers(ls_tensor finite, const char *message) {
  return ls_make_labelled_call(&check_kernel, message, &finite, 1);
}

ls_op ls_assert_true(ls_tensor condition, const char *message) {
  const ls_type type = {ls_tensor_dtype(condition), ls_tensor_shape(condition)};
  if (!ls_tensor_is_failed(condition) &&
      (type.dtype != LS_DTYPE_BOOL ||
       !ls_shape_compatible(type.shape, LS_SCALAR))) {
    ls_make_failed(
        "assert_true",
        ls_invalid_argument("the condition must be a bool scalar, is %s",
                            LS_SHAPE_TEXT(type.dtype, type.shape)));
    return (ls_op){0};
  }
  return ls_make_labelled_call(&assert_kernel, message, &condition, 1);
}

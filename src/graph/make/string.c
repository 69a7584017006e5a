// SPDX-License-Identifier: Apache-2.0
//
// Op makers: strings. Host kernels that process their operands element by
// element.
#include "lockstep/shape_rules.h"
#include "lockstep/strings.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/text.h"
#include "base/values/numbers.h"
#include "graph/make/make.h"
#include "graph/text/text.h"

// ---- Shapes ----------------------------------------------------------------
static bool is_scalar(ls_type type) { return type.shape.rank == 0; }

// Finds the common shape of all operands that are not scalars.
static ls_status common_shape(const ls_type *in, size_t num_in,
                              ls_shape *out_shape) {
  *out_shape = in[0].shape;
  for (size_t i = 1; i < num_in; ++i) {
    if (is_scalar(in[i])) continue;
    if (out_shape->rank == 0) {
      *out_shape = in[i].shape;
      continue;
    }
    if (!ls_shape_compatible(*out_shape, in[i].shape))
      return ls_invalid_argument(
          "operands of one shape or scalars are needed, got %s and %s",
          LS_SHAPE_TEXT(in[0].dtype, *out_shape),
          LS_SHAPE_TEXT(in[i].dtype, in[i].shape));
    if (!ls_shape_is_known(*out_shape)) *out_shape = in[i].shape;
  }
  return ls_ok();
}

static ls_status need_strings(const ls_type *in, size_t num_in) {
  for (size_t i = 0; i < num_in; ++i)
    if (in[i].dtype != LS_DTYPE_STRING)
      return ls_invalid_argument("operand %zu must be strings, is %s", i,
                                 LS_SHAPE_TEXT(in[i].dtype, in[i].shape));
  return ls_ok();
}

// Infers one output of dtype `dtype` from string operands.
static ls_status infer_of(const ls_type *in, size_t num_in, ls_dtype dtype,
                          ls_type *out, size_t *num_out) {
  LS_RETURN_IF_ERROR(need_strings(in, num_in));
  out[0].dtype = dtype;
  *num_out = 1;
  return common_shape(in, num_in, &out[0].shape);
}

static ls_status infer_strings(const ls_object *state, const ls_type *in,
                               size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  return infer_of(in, num_in, LS_DTYPE_STRING, out, num_out);
}

static ls_status infer_equal(const ls_object *state, const ls_type *in,
                             size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  return infer_of(in, num_in, LS_DTYPE_BOOL, out, num_out);
}

static ls_status infer_length(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  return infer_of(in, num_in, LS_DTYPE_I32, out, num_out);
}

static ls_status infer_number(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  ls_dtype dtype = LS_DTYPE_NONE;
  LS_RETURN_IF_ERROR(ls_dtype_parse(ls_label_text(state), &dtype));
  return infer_of(in, num_in, dtype, out, num_out);
}

static ls_status infer_as_string(const ls_object *state, const ls_type *in,
                                 size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  const ls_dtype dtype = in[0].dtype;
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype) &&
      dtype != LS_DTYPE_BOOL && dtype != LS_DTYPE_STRING)
    return ls_invalid_argument("%s has no text",
                               LS_SHAPE_TEXT(in[0].dtype, in[0].shape));
  out[0] = (ls_type){LS_DTYPE_STRING, in[0].shape};
  *num_out = 1;
  return ls_ok();
}

// ---- Elements --------------------------------------------------------------
static size_t string_count_of(const ls_host_call *call) {
  return (size_t)ls_shape_num_elements(call->output_types[0].shape);
}

static ls_bytes string_element(const ls_host_call *call, size_t input,
                               size_t index) {
  const ls_bytes *all = call->inputs[input];
  return all[is_scalar(call->input_types[input]) ? 0 : index];
}

// Appends the text of one output element.
typedef ls_status (*write_element)(const ls_host_call *call, size_t index,
                                   void *with, ls_text *text);

// Fills a string output. All elements share one text, freed when the call ends.
static ls_status fill_strings(ls_host_call *call, write_element write,
                              void *with) {
  const size_t count = string_count_of(call);
  ls_bytes *out = call->outputs[0];
  LS_OWN(ls_text, text) = {.allocator = ls_runtime_allocator(call->runtime)};
  for (size_t i = 0; i < count; ++i) {
    const size_t before = text.size;
    LS_RETURN_IF_ERROR(write(call, i, with, &text));
    out[i].size = text.size - before;
  }
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  const char *next = ls_text_data(&text);
  for (size_t i = 0; i < count; ++i) {
    out[i].data = next;
    next += out[i].size;
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// ---- Numbers and strings ---------------------------------------------------
static ls_status write_number(const ls_host_call *call, size_t index,
                              void *with, ls_text *text) {
  (void)call;
  ls_print_element(text, with, (int64_t)index);
  return ls_ok();
}

static ls_status write_string(const ls_host_call *call, size_t index,
                              void *with, ls_text *text) {
  (void)with;
  const ls_bytes bytes = string_element(call, 0, index);
  ls_text_append_bytes(text, bytes.data, bytes.size);
  return ls_ok();
}

static ls_status start_as_string(ls_host_call *call) {
  const ls_type type = call->input_types[0];
  if (type.dtype == LS_DTYPE_STRING)
    return fill_strings(call, write_string, NULL);
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(type.dtype, type.shape,
                                          (void *)(uintptr_t)call->inputs[0],
                                          NULL, NULL, &view));
  return fill_strings(call, write_number, view);
}

static const ls_host_kernel as_string_kernel = {.name = "as_string",
                                                .infer = infer_as_string,
                                                .start = start_as_string,
                                                .flags =
                                                    LS_HOST_MAY_BE_DROPPED};

ls_tensor ls_as_string(ls_tensor x) {
  return ls_op_output(ls_host_call_add(&as_string_kernel, NULL, &x, 1), 0);
}

// Parses a number into element `index`; returns false if the text is not a
// number of the array's dtype.
static bool string_read_number(ls_bytes text, ls_array *out, size_t index) {
  const ls_dtype dtype = ls_array_dtype(out);
  char *end = NULL;
  if (text.size == 0 || memchr(text.data, 0, text.size) != NULL) return false;
  errno = 0;
  if (ls_dtype_is_float(dtype)) {
    ls_read_float(dtype, text.data, &end,
                  (char *)ls_array_mutable_data(out) +
                      index * ls_dtype_size(dtype));
  } else {
    // Only u64 has numbers beyond i64; its text must not have a sign that
    // strtoull would apply.
    const bool is_large =
        dtype == LS_DTYPE_U64 && memchr(text.data, '-', text.size) == NULL;
    const int64_t value = is_large ? (int64_t)strtoull(text.data, &end, 10)
                                   : strtoll(text.data, &end, 10);
    if (errno != 0) return false;
    ls_array_set_i64(out, (int64_t)index, value);
    if (ls_array_i64(out, (int64_t)index) != value) return false;
    if (dtype == LS_DTYPE_U64 && !is_large && value < 0) return false;
  }
  if (end == text.data) return false;
  return strspn(end, " \t\r\n") == strlen(end);
}

static ls_status string_read_numbers(const ls_host_call *call, ls_array *out) {
  for (size_t i = 0; i < string_count_of(call); ++i) {
    const ls_bytes text = string_element(call, 0, i);
    if (!string_read_number(text, out, i))
      return ls_invalid_argument("element %zu, '%.*s', is no %s", i,
                                 (int)(text.size < 60 ? text.size : 60),
                                 text.data, ls_dtype_name(ls_array_dtype(out)));
  }
  return ls_ok();
}

static ls_status start_to_number(ls_host_call *call) {
  const ls_type type = call->output_types[0];
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(type.dtype, type.shape,
                                          call->outputs[0], NULL, NULL, &view));
  LS_RETURN_IF_ERROR(string_read_numbers(call, view));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel to_number_kernel = {.name = "string_to_number",
                                                .infer = infer_number,
                                                .start = start_to_number};

ls_tensor ls_string_to_number(ls_tensor x, ls_dtype dtype) {
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype))
    return ls_make_failed(
        to_number_kernel.name,
        ls_invalid_argument("texts become floats or integers, not %s",
                            ls_dtype_name(dtype)));
  return ls_op_output(
      ls_make_labelled_call(&to_number_kernel, ls_dtype_name(dtype), &x, 1), 0);
}

// ---- Strings to strings ----------------------------------------------------
static ls_status write_joined(const ls_host_call *call, size_t index,
                              void *with, ls_text *text) {
  (void)with;
  const char *separator = ls_label_text(call->state);
  for (size_t i = 0; i < call->num_inputs; ++i) {
    const ls_bytes bytes = string_element(call, i, index);
    if (i > 0) ls_text_append(text, separator);
    ls_text_append_bytes(text, bytes.data, bytes.size);
  }
  return ls_ok();
}

static ls_status start_join(ls_host_call *call) {
  return fill_strings(call, write_joined, NULL);
}

static const ls_host_kernel join_kernel = {.name = "string_join",
                                           .infer = infer_strings,
                                           .start = start_join,
                                           .flags = LS_HOST_MAY_BE_DROPPED};

ls_tensor ls_string_join(const ls_tensor *xs, size_t count,
                         const char *separator) {
  if (xs == NULL || count == 0)
    return ls_make_failed(join_kernel.name,
                          ls_invalid_argument("there is nothing to join"));
  return ls_op_output(ls_make_labelled_call(&join_kernel, separator, xs, count),
                      0);
}

static ls_status start_equal(ls_host_call *call) {
  uint8_t *out = call->outputs[0];
  for (size_t i = 0; i < string_count_of(call); ++i) {
    const ls_bytes x = string_element(call, 0, i),
                   y = string_element(call, 1, i);
    out[i] = x.size == y.size &&
             (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel equal_kernel = {.name = "string_equal",
                                            .infer = infer_equal,
                                            .start = start_equal,
                                            .flags = LS_HOST_MAY_BE_DROPPED};

ls_tensor ls_string_equal(ls_tensor x, ls_tensor y) {
  return ls_op_output(
      ls_host_call_add(&equal_kernel, NULL, (const ls_tensor[]){x, y}, 2), 0);
}

static ls_status start_length(ls_host_call *call) {
  int32_t *out = call->outputs[0];
  for (size_t i = 0; i < string_count_of(call); ++i)
    out[i] = (int32_t)string_element(call, 0, i).size;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel length_kernel = {.name = "string_length",
                                             .infer = infer_length,
                                             .start = start_length,
                                             .flags = LS_HOST_MAY_BE_DROPPED};

ls_tensor ls_string_length(ls_tensor x) {
  return ls_op_output(ls_host_call_add(&length_kernel, NULL, &x, 1), 0);
}

// Moves the letters from `with` on, which is 'a' or 'A', to the other case.
// Converts by hand, because <ctype.h> depends on the locale.
static ls_status write_cased(const ls_host_call *call, size_t index, void *with,
                             ls_text *text) {
  const char first = *(const char *)with;
  const ls_bytes bytes = string_element(call, 0, index);
  for (size_t i = 0; i < bytes.size; ++i) {
    const char c = bytes.data[i];
    const bool moves = c >= first && c <= first + ('z' - 'a');
    ls_text_append_char(text, moves ? (char)(c ^ ('a' ^ 'A')) : c);
  }
  return ls_ok();
}

static ls_status start_lower(ls_host_call *call) {
  return fill_strings(call, write_cased, &(char){'A'});
}

static ls_status start_upper(ls_host_call *call) {
  return fill_strings(call, write_cased, &(char){'a'});
}

static const ls_host_kernel lower_kernel = {.name = "string_lower",
                                            .infer = infer_strings,
                                            .start = start_lower,
                                            .flags = LS_HOST_MAY_BE_DROPPED};
static const ls_host_kernel upper_kernel = {.name = "string_upper",
                                            .infer = infer_strings,
                                            .start = start_upper,
                                            .flags = LS_HOST_MAY_BE_DROPPED};

ls_tensor ls_string_lower(ls_tensor x) {
  return ls_op_output(ls_host_call_add(&lower_kernel, NULL, &x, 1), 0);
}

ls_tensor ls_string_upper(ls_tensor x) {
  return ls_op_output(ls_host_call_add(&upper_kernel, NULL, &x, 1), 0);
}

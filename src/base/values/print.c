// SPDX-License-Identifier: Apache-2.0
// Nests as text: [a, b] lists, (a, b) tuples, name(field=a) named tuples,
// {'key': a} dicts after their tag, keys in the order given.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/object.h"
#include "lockstep/shape_rules.h"

typedef struct printer {
  char *buffer;
  size_t size;
  size_t used;  // Characters written, below `size`.
} printer;

static void nest_print_put(printer *out, const char *text) {
  while (*text != '\0' && out->used + 1 < out->size)
    out->buffer[out->used++] = *text++;
  if (out->size > 0) out->buffer[out->used] = '\0';
}

// Prints the shortest of 15 to 17 digits that reads back as the same number,
// always marked as no integer.
static void put_f64(printer *out, double value) {
  char text[40];
  for (int digits = 15; digits <= 17; ++digits) {
    ls_format(text, sizeof(text), "%.*g", digits, value);
    if (ls_read_f64(text, NULL) == value) break;
  }
  nest_print_put(out, text);
  if (strpbrk(text, ".eni") == NULL) nest_print_put(out, ".0");
}

static void put_scalar(printer *out, ls_nest nest) {
  if (nest.dtype == LS_DTYPE_BOOL) {
    nest_print_put(out, nest.as.bits != 0 ? "true" : "false");
  } else if (ls_dtype_is_float(nest.dtype)) {
    put_f64(out, nest.as.f64);
  } else {
    char text[32];
    snprintf(text, sizeof(text),
             ls_dtype_is_unsigned(nest.dtype) ? "%llu" : "%lld",
             (unsigned long long)nest.as.bits);
    nest_print_put(out, text);
  }
}

static void put_object(printer *out, const ls_object *object) {
  if (object->type->print == NULL) {
    nest_print_put(out, object->type->name);
    return;
  }
  if (out->used + 1 >= out->size) return;
  char *place = out->buffer + out->used;
  place[0] = '\0';
  object->type->print(object, place, out->size - out->used);
  out->used += strlen(place);
}

static void print_tensor(ls_tensor tensor, char *text, size_t size) {
  if (tensor.ref == 0)
    snprintf(text, size, "failed tensor");
  else if (tensor.graph == NULL)
    snprintf(
        text, size, "tensor %llu:%llu",
        (unsigned long long)(tensor.ref >> LS_TENSOR_OUTPUT_BITS),
        (unsigned long long)(tensor.ref & ((1u << LS_TENSOR_OUTPUT_BITS) - 1)));
  else
    ls_graph_tensors_of(tensor.graph)->print(tensor, text, size);
}

static void print_op(ls_op op, char *text, size_t size) {
  if (op.id == 0)
    snprintf(text, size, "failed op");
  else if (op.graph == NULL)
    snprintf(text, size, "op %llu", (unsigned long long)op.id);
  else
    ls_graph_tensors_of(op.graph)->print_op(op, text, size);
}

static void put_leaf(printer *out, ls_nest nest) {
  char text[320] = "";
  switch (nest.kind) {
  case LS_KIND_NONE:
    nest_print_put(out, "none");
    break;
  case LS_KIND_SCALAR:
    put_scalar(out, nest);
    break;
  case LS_KIND_TENSOR:
    print_tensor(nest.as.tensor, text, sizeof(text));
    nest_print_put(out, text);
    break;
  case LS_KIND_OP:
    print_op(nest.as.op, text, sizeof(text));
    nest_print_put(out, text);
    break;
  case LS_KIND_FAILED: {
    ls_status status = ls_nest_status(nest);
    nest_print_put(out, "failed ");
    nest_print_put(out, ls_code_name(ls_status_code(status)));
    nest_print_put(out, ": ");
    nest_print_put(out, ls_status_message(status));
    ls_status_free(status);
    break;
  }
  default:
    if (nest.as.ref == NULL)
      nest_print_put(out, "nothing");
    else
      put_object(out, nest.as.ref);
  }
}

static void put_nest(printer *out, ls_nest nest) {
  if (!ls_nest_is_node(nest)) {
    put_leaf(out, nest);
    return;
  }
  const bool is_dict = nest.kind == LS_KIND_DICT;
  const bool is_list = nest.kind == LS_KIND_LIST;
  const size_t count = ls_nest_count(nest);
  nest_print_put(out, ls_nest_tag(nest));
  nest_print_put(out, is_dict ? "{" : (is_list ? "[" : "("));
  for (size_t i = 0; i < count; ++i) {
    const char *key = ls_nest_key(nest, i);
    if (i > 0) nest_print_put(out, ", ");
    if (key != NULL && is_dict) nest_print_put(out, "'");
    if (key != NULL) nest_print_put(out, key);
    if (key != NULL) nest_print_put(out, is_dict ? "': " : "=");
    put_nest(out, ls_nest_item(nest, i));
  }
  // As in Python, a comma distinguishes a tuple of one from parentheses.
  const bool lone = nest.kind == LS_KIND_TUPLE && count == 1;
  if (lone && !ls_nest_has_keys(nest)) nest_print_put(out, ",");
  nest_print_put(out, is_dict ? "}" : (is_list ? "]" : ")"));
}

const char *ls_nest_print(ls_nest nest, char *buffer, size_t size) {
  if (buffer == NULL || size == 0) return "";
  printer out = {buffer, size, 0};
  nest_print_put(&out, "");
  put_nest(&out, nest);
  return buffer;
}

// ---- Arrays ----------------------------------------------------------------
// Prints the type, and the first elements.
enum { SHOWN = 6 };

// Prints the fewest digits that read back as the same number of this type.
static void print_float(ls_dtype dtype, double value, char *text, size_t size) {
  const bool is_double = dtype == LS_DTYPE_F64;
  for (int digits = 6; digits <= 17; ++digits) {
    ls_format(text, size, "%.*g", digits, value);
    const double back = ls_read_f64(text, NULL);
    if (is_double ? back == value : (float)back == (float)value) break;
  }
}

static void array_print_element(const ls_array *array, int64_t index,
                                char *text, size_t size) {
  const ls_dtype dtype = ls_array_dtype(array);
  if (dtype == LS_DTYPE_BOOL)
    snprintf(text, size, "%s", ls_array_i64(array, index) ? "true" : "false");
  else if (ls_dtype_is_float(dtype))
    print_float(dtype, ls_array_f64(array, index), text, size);
  else
    snprintf(text, size, ls_dtype_is_unsigned(dtype) ? "%llu" : "%lld",
             (long long)ls_array_i64(array, index));
}

void ls_array_print(const ls_array *array, char *buffer, size_t size) {
  const ls_dtype dtype = ls_array_dtype(array);
  const ls_shape shape = ls_array_shape(array);
  ls_shape_print(dtype, shape, buffer, size);
  if (dtype != LS_DTYPE_BOOL && !ls_dtype_is_float(dtype) &&
      !ls_dtype_is_integer(dtype))
    return;
  const int64_t count = ls_array_num_elements(array);
  char text[SHOWN * 32 + 16] = "", element[32];
  size_t at = 0;
  for (int64_t i = 0; i < count && i < SHOWN; ++i) {
    array_print_element(array, i, element, sizeof(element));
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
                           i > 0 ? ", " : "", element);
  }
  const size_t used = strlen(buffer);
  snprintf(buffer + used, size - used, shape.rank == 0 ? " %s" : " [%s%s]",
           text, count > SHOWN ? ", ..." : "");
}

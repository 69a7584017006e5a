// SPDX-License-Identifier: Apache-2.0
// Prints values. A printed value reads back as the same bits.
#include <math.h>
#include <stdio.h>

#include "base/plain.h"
#include "base/values/numbers.h"
#include "graph/text/text.h"
#include "io/bytes.h"
#include "lockstep/half.h"
#include "lockstep/host.h"
#include "lockstep/shape_rules.h"

// ---- Words and strings -----------------------------------------------------
bool ls_print_is_word(const char *text) {
  if (!ls_lexer_is_letter(*text)) return false;
  for (; *text != '\0'; ++text)
    if (!ls_lexer_is_letter(*text) && !ls_lexer_is_digit(*text)) return false;
  return true;
}

void ls_print_string(ls_text *out, const char *text, size_t size) {
  ls_text_append_char(out, '"');
  for (size_t i = 0; i < size; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      ls_text_append_format(out, "\\%c", c);
    else if (c >= 0x20 && c < 0x7f)
      ls_text_append_char(out, (char)c);
    else
      ls_text_append_format(out, "\\x%02x", c);
  }
  ls_text_append_char(out, '"');
}

// ---- Numbers ---------------------------------------------------------------
static bool reads_back(ls_dtype dtype, const char *text, double value) {
  uint64_t got = 0, wanted = 0;
  ls_read_float(dtype, text, NULL, &got);
  ls_values_from_f64(dtype, &value, 1, &wanted);
  return got == wanted;
}

// Prints the fewest digits that read back as `value`, into `buffer`.
static void format_shortest(ls_dtype dtype, double value, char buffer[32]) {
  if (isinf(value)) {
    snprintf(buffer, 32, "%s", value < 0 ? "-inf" : "inf");
    return;
  }
  for (int digits = 1; digits <= 17; ++digits) {
    ls_format(buffer, 32, "%.*g", digits, value);
    if (reads_back(dtype, buffer, value)) break;
  }
  // Chooses 100 rather than 1e+02.
  if (strchr(buffer, 'e') != NULL && fabs(value) < 1e7 && value == trunc(value))
    ls_format(buffer, 32, "%.0f", value);
}

// Prints a nan, with its bits unless they are the usual bits.
static void print_nan(ls_text *out, uint64_t bits, uint64_t usual) {
  if (bits == usual)
    ls_text_append(out, "nan");
  else
    ls_text_append_format(out, "nan(0x%llx)", (unsigned long long)bits);
}

static void print_f64(ls_text *out, double value) {
  uint64_t bits = 0;
  char buffer[32];
  memcpy(&bits, &value, sizeof(bits));
  if (isnan(value)) {
    print_nan(out, bits, 0x7ff8000000000000u);
    return;
  }
  format_shortest(LS_DTYPE_F64, value, buffer);
  ls_text_append(out, buffer);
}

// Prints a float attribute so that it never looks like an integer.
static void print_float(ls_text *out, double value) {
  const size_t before = out->size;
  print_f64(out, value);
  if (strpbrk(ls_text_data(out) + (out->failed ? 0 : before), ".en") == NULL)
    ls_text_append(out, ".0");
}

static void print_small_float(ls_text *out, ls_dtype dtype, uint32_t bits,
                              uint32_t usual_nan, float value) {
  char buffer[32];
  if (isnan(value)) {
    print_nan(out, bits, usual_nan);
    return;
  }
  format_shortest(dtype, (double)value, buffer);
  ls_text_append(out, buffer);
}

// ---- Arrays ----------------------------------------------------------------
void ls_print_element(ls_text *out, const ls_array *array, int64_t i) {
  const void *data = ls_array_data(array);
  const ls_dtype dtype = ls_array_dtype(array);
  switch (dtype) {
  case LS_DTYPE_F64:
    print_f64(out, ((const double *)data)[i]);
    break;
  case LS_DTYPE_F32:
    print_small_float(out, dtype, ((const uint32_t *)data)[i], 0x7fc00000u,
                      ((const float *)data)[i]);
    break;
  case LS_DTYPE_F16: {
    const uint16_t bits = ((const uint16_t *)data)[i];
    print_small_float(out, dtype, bits, 0x7e00u, ls_f16_to_f32(bits));
    break;
  }
  case LS_DTYPE_BF16: {
    const uint16_t bits = ((const uint16_t *)data)[i];
    print_small_float(out, dtype, bits, 0x7fc0u, ls_bf16_to_f32(bits));
    break;
  }
  case LS_DTYPE_BOOL:
    ls_text_append(out, ((const uint8_t *)data)[i] ? "true" : "false");
    break;
  case LS_DTYPE_U64:
    ls_text_append_format(out, "%llu",
                          (unsigned long long)((const uint64_t *)data)[i]);
    break;
  case LS_DTYPE_STRING: {
    const ls_bytes *bytes = &((const ls_bytes *)data)[i];
    ls_print_string(out, bytes->data, bytes->size);
    break;
  }
  default:
    ls_text_append_i64(out, ls_array_i64(array, i));
  }
}

// Returns true if a bool array has bytes other than 0 and 1.
static bool has_odd_bools(const ls_array *array) {
  const uint8_t *data = ls_array_data(array);
  if (ls_array_dtype(array) != LS_DTYPE_BOOL) return false;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    if (data[i] > 1) return true;
  return false;
}

static void print_value_print_array(ls_text *out, const ls_array *array) {
  const ls_dtype dtype = ls_array_dtype(array);
  ls_print_type(out, (ls_type){dtype, ls_array_shape(array)});
  ls_text_append_char(out, ' ');
  if (dtype == LS_DTYPE_RESOURCE || dtype == LS_DTYPE_VARIANT) {
    // Pointers have no meaning in another process.
    ls_text_append(out, "opaque");
    return;
  }
  if (ls_dtype_is_complex(dtype) || has_odd_bools(array) ||
      (dtype != LS_DTYPE_STRING &&
       ls_array_size(array) > LS_PRINT_INLINE_BYTES)) {
    ls_text_append(out, "base64 \"");
    ls_base64_append(out, ls_array_data(array), ls_array_size(array));
    ls_text_append_char(out, '"');
    return;
  }
  ls_text_append_char(out, '[');
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    if (i > 0) ls_text_append(out, ", ");
    ls_print_element(out, array, i);
  }
  ls_text_append_char(out, ']');
}

// ---- Attributes ------------------------------------------------------------
void ls_print_type(ls_text *out, ls_type type) {
  ls_text_append(out, LS_SHAPE_TEXT(type.dtype, type.shape));
}

void ls_print_ref(ls_text *out, const ls_graph *graph, uint64_t ref) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  ls_text_append_char(out, '%');
  ls_text_append_i64(out, (int64_t)ls_ref_id(ref));
  if (ls_ref_output(ref) == 0 && (node == NULL || node->num_outputs <= 1))
    return;
  ls_text_append_char(out, ':');
  ls_text_append_i64(out, ls_ref_output(ref));
}

static void print_sizes(ls_text *out, const ls_size *items, size_t count) {
  ls_text_append(out, "sizes[");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(out, ", ");
    if (items[i].operand == LS_SIZE_CONSTANT)
      ls_text_append_i64(out, items[i].value);
    else
      ls_text_append_format(out, "dim(%d, %lld)", (int)items[i].operand,
                            (long long)items[i].value);
  }
  ls_text_append_char(out, ']');
}

static void print_strings(ls_text *out, const char *const *items,
                          size_t count) {
  ls_text_append(out, "strings[");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(out, ", ");
    ls_print_string(out, items[i], strlen(items[i]));
  }
  ls_text_append_char(out, ']');
}

static void print_ints(ls_text *out, const int64_t *items, size_t count) {
  ls_text_append_char(out, '[');
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(out, ", ");
    ls_text_append_i64(out, items[i]);
  }
  ls_text_append_char(out, ']');
}

void ls_print_value(ls_text *out, const ls_attr *attr) {
  switch (attr->kind) {
  case LS_ATTR_INT:
    ls_text_append_i64(out, attr->as.i);
    break;
  case LS_ATTR_FLOAT:
    print_float(out, attr->as.f);
    break;
  case LS_ATTR_BOOL:
    ls_text_append(out, attr->as.i ? "true" : "false");
    break;
  case LS_ATTR_STRING:
    ls_print_string(out, attr->as.string, strlen(attr->as.string));
    break;
  case LS_ATTR_DTYPE:
    ls_text_append(out, ls_dtype_name(attr->as.dtype));
    break;
  case LS_ATTR_SHAPE: {
    const char *text = LS_SHAPE_TEXT(LS_DTYPE_F32, attr->as.shape);
    ls_text_append_format(out, "shape%s", strchr(text, '['));
    break;
  }
  case LS_ATTR_INTS:
    print_ints(out, attr->as.ints.items, attr->as.ints.count);
    break;
  case LS_ATTR_SIZES:
    print_sizes(out, attr->as.sizes.items, attr->as.sizes.count);
    break;
  case LS_ATTR_STRINGS:
    print_strings(out, attr->as.strings.items, attr->as.strings.count);
    break;
  case LS_ATTR_ARRAY:
    print_value_print_array(out, attr->as.array);
    break;
  case LS_ATTR_KERNEL:
    ls_text_append(out, "kernel ");
    ls_print_string(out, attr->as.kernel->name, strlen(attr->as.kernel->name));
    break;
  case LS_ATTR_OBJECT:  // Printed by print.c, which knows the variables.
  case LS_ATTR_NONE:
    ls_text_append(out, "unset");
    break;
  }
}

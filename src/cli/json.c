// SPDX-License-Identifier: Apache-2.0
// Prints arrays, and nests of them, as JSON.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

void cli_print_real(double value, int digits) {
  if (isfinite(value))
    printf("%.*g", digits, value);
  else
    printf("null");
}

static void print_text(const ls_bytes *text) {
  cli_print_json_bytes(text->data, text->size);
}

// Prints a complex number as a list of two parts of `size` bytes each.
static void print_complex(const char *parts, size_t size) {
  putchar('[');
  for (int i = 0; i < 2; ++i) {
    double value = 0;
    float narrow = 0;
    if (i > 0) putchar(',');
    if (size == sizeof(narrow)) {
      memcpy(&narrow, parts + (size_t)i * size, size);
      cli_print_real((double)narrow, 9);
    } else {
      memcpy(&value, parts + (size_t)i * size, size);
      cli_print_real(value, 17);
    }
  }
  putchar(']');
}

static void json_print_element(const ls_array *array, int64_t index) {
  const ls_dtype dtype = ls_array_dtype(array);
  const size_t size = ls_dtype_size(dtype);
  if (dtype == LS_DTYPE_STRING)
    print_text(&((const ls_bytes *)ls_array_data(array))[index]);
  else if (dtype == LS_DTYPE_C64 || dtype == LS_DTYPE_C128)
    print_complex((const char *)ls_array_data(array) + (size_t)index * size,
                  size / 2);
  else if (dtype == LS_DTYPE_BOOL)
    printf("%s", ls_array_i64(array, index) != 0 ? "true" : "false");
  else if (ls_dtype_is_float(dtype))
    cli_print_real(ls_array_f64(array, index), dtype == LS_DTYPE_F64 ? 17 : 9);
  else if (ls_dtype_is_unsigned(dtype))
    printf("%llu", (unsigned long long)ls_array_i64(array, index));
  else
    printf("%lld", (long long)ls_array_i64(array, index));
}

// Prints nested lists, starting at dimension `at`; advances `*index`.
static void json_print_array(const ls_array *array, int at, int64_t *index) {
  const ls_shape shape = ls_array_shape(array);
  if (at == shape.rank) {
    json_print_element(array, (*index)++);
    return;
  }
  putchar('[');
  for (int64_t i = 0; i < shape.dim[at]; ++i) {
    if (i > 0) putchar(',');
    json_print_array(array, at + 1, index);
  }
  putchar(']');
}

void cli_print_values(ls_nest values) {
  const ls_array *array = ls_nest_as_array(values);
  const bool is_dict = values.kind == LS_KIND_DICT;
  int64_t index = 0;
  if (array != NULL) {
    json_print_array(array, 0, &index);
  } else if (values.kind == LS_KIND_SCALAR) {
    if (ls_dtype_is_float(values.dtype))
      cli_print_real(values.as.f64, 17);
    else if (values.dtype == LS_DTYPE_BOOL)
      printf("%s", values.as.i64 != 0 ? "true" : "false");
    else
      printf("%lld", (long long)values.as.i64);
  } else if (is_dict || values.kind == LS_KIND_LIST ||
             values.kind == LS_KIND_TUPLE) {
    putchar(is_dict ? '{' : '[');
    for (size_t i = 0; i < ls_nest_count(values); ++i) {
      if (i > 0) putchar(',');
      if (is_dict) {
        cli_print_json(ls_nest_key(values, i));
        putchar(':');
      }
      cli_print_values(ls_nest_item(values, i));
    }
    putchar(is_dict ? '}' : ']');
  } else {
    printf("null");
  }
}

void cli_print_row(ls_nest values, int64_t row) {
  for (size_t i = 0; i < ls_nest_count(values); ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(values, i));
    const ls_shape shape = ls_array_shape(array);
    int64_t index = row * (ls_array_num_elements(array) / shape.dim[0]);
    putchar(i == 0 ? '{' : ',');
    cli_print_json(ls_nest_key(values, i));
    putchar(':');
    json_print_array(array, 1, &index);
  }
}

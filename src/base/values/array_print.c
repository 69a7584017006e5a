// SPDX-License-Identifier: Apache-2.0
// Arrays as text: the type, and the first elements, row by row.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/plain.h"
#include "base/values/array_internal.h"
#include "lockstep/shape_rules.h"

enum { SHOWN = 6 };

// The fewest digits that read back as the same number of this type.
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

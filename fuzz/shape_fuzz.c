// SPDX-License-Identifier: Apache-2.0
//
// Any text gives a shape or INVALID_ARGUMENT, and what parses prints back the
// same, text for text.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/shape.h"
#include "lockstep/shape_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_shape shape = {0};
  ls_status status = ls_shape_parse(text, &dtype, &shape);
  if (ls_status_is_ok(status)) {
    if (strcmp(LS_SHAPE_TEXT(dtype, shape), text) != 0) abort();
    ls_status checked = ls_shape_check(shape);
    if (checked != NULL) abort();
  } else if (ls_status_code(status) != LS_INVALID_ARGUMENT) {
    abort();
  }
  ls_status_free(status);
  free(text);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Any text gives a device's name or INVALID_ARGUMENT; a canonical name is the
// canonical name of itself, and so is its host's. A merged name merges to
// itself, and names the same device as what it is merged from.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/device_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_canonical(const ls_device_name *name) {
  ls_device_name again;
  ls_status status = ls_device_canonical(name->text, NULL, &again);
  if (!ls_status_is_ok(status) || strcmp(name->text, again.text) != 0) abort();
}

static void expect_merged(const char *text, const ls_device_name *canonical) {
  ls_device_name merged, again;
  if (ls_device_merge(text, NULL, &merged) != NULL ||
      ls_device_merge(merged.text, "", &again) != NULL ||
      strcmp(merged.text, again.text) != 0)
    abort();
  if (ls_device_canonical(merged.text, NULL, &again) != NULL ||
      strcmp(canonical->text, again.text) != 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  ls_device_name name, host;
  ls_status status = ls_device_canonical(text, NULL, &name);
  if (ls_status_is_ok(status)) {
    expect_canonical(&name);
    if (ls_device_host(name.text, &host) != NULL) abort();
    expect_canonical(&host);
    expect_merged(text, &name);
  } else if (ls_status_code(status) != LS_INVALID_ARGUMENT) {
    abort();
  }
  ls_status_free(status);
  free(text);
  return 0;
}

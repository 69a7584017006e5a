// SPDX-License-Identifier: Apache-2.0
//
// What messages call a strategy.
#include <stdio.h>

#include "base/memory/allocator.h"
#include "distribute/base/strategy.h"

// "CPU:0" of a device of this machine.
static const char *short_name(const char *device) {
  static const char local[] = "/job:localhost/replica:0/task:0/device:";
  const size_t length = sizeof(local) - 1;
  return strncmp(device, local, length) == 0 ? device + length : device;
}

static ls_status label_set(ls_strategy *strategy, const char *text) {
  strategy->label = ls_copy_text(strategy->allocator, text, strlen(text));
  return strategy->label != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name) {
  enum { LISTED = 4 };
  char text[1000], whole[1100];
  if (strategy->devices == NULL)
    return label_set(strategy, strategy->kind->name);
  const int32_t count = strategy->num_replicas;
  size_t at =
      (size_t)(name != NULL ? snprintf(text, sizeof(text), "'%.200s'", name)
                            : snprintf(text, sizeof(text), "%llu",
                                       (unsigned long long)strategy->id));
  at += (size_t)snprintf(text + at, sizeof(text) - at, " (%d replica%s on ",
                         count, count == 1 ? "" : "s");
  for (int32_t i = 0; i < count && at < sizeof(text); ++i) {
    if (count > LISTED && i == LISTED - 1) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, " ... ");
      i = count - 1;
    } else if (i > 0) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, ", ");
    }
    if (at < sizeof(text))
      at += (size_t)snprintf(text + at, sizeof(text) - at, "%s",
                             short_name(ls_strategy_device(strategy, i)));
  }
  snprintf(whole, sizeof(whole), "%s %s)", strategy->kind->name, text);
  return label_set(strategy, whole);
}

const char *ls_strategy_label(const ls_strategy *strategy) {
  return strategy->label;
}

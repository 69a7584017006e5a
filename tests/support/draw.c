// SPDX-License-Identifier: Apache-2.0
#include "support/draw.h"

#include <stdlib.h>

uint64_t draw_below(uint64_t *state, uint64_t below) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

uint64_t number_from_environment(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

int int_from_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

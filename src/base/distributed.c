// SPDX-License-Identifier: Apache-2.0
#include "lockstep/distributed.h"

#include <stdio.h>

#include "base/runtime_internal.h"

struct ls_distributed {
  ls_object object;
  ls_allocator *allocator;
  ls_distributed_kind kind;
  size_t count;
  ls_nest component[];
};

static void destroy_distributed(ls_object *object) {
  ls_distributed *value = (ls_distributed *)object;
  for (size_t i = 0; i < value->count; ++i)
    ls_nest_release(value->component[i]);
  ls_release(value->allocator, value);
}

static void print_distributed(const ls_object *object, char *buffer,
                              size_t size) {
  const ls_distributed *value = (const ls_distributed *)object;
  int at = snprintf(buffer, size, "%s:{",
                    value->kind == LS_MIRRORED ? "Mirrored" : "PerReplica");
  for (size_t i = 0; i < value->count && at > 0 && (size_t)at < size; ++i) {
    char text[200];
    at += snprintf(buffer + at, size - (size_t)at, "%s\n  %zu: %s",
                   i == 0 ? "" : ",", i,
                   ls_nest_print(value->component[i], text, sizeof(text)));
  }
  if (at > 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, "\n}");
}

static const ls_object_type distributed_type = {.name = "distributed",
                                                .destroy = destroy_distributed,
                                                .print = print_distributed};

ls_nest ls_nest_distributed(ls_distributed_kind kind, const ls_nest *components,
                            size_t count) {
  ls_status failure = ls_ok();
  for (size_t i = 0; i < count && failure == NULL; ++i)
    failure = ls_nest_status(components[i]);
  if (failure == NULL && count == 0)
    failure = ls_invalid_argument(
        "a distributed value needs at least one component");
  ls_allocator *allocator = ls_current_allocator();
  ls_distributed *value = NULL;
  if (failure == NULL) {
    value = ls_allocate_zeroed(allocator, 1,
                               sizeof(*value) + count * sizeof(ls_nest));
    if (value == NULL) failure = ls_out_of_memory();
  }
  if (failure != NULL) {
    for (size_t i = 0; i < count; ++i) ls_nest_release(components[i]);
    return ls_fail(failure);
  }
  ls_object_init(&value->object, &distributed_type);
  value->allocator = allocator;
  value->kind = kind;
  value->count = count;
  memcpy(value->component, components, count * sizeof(ls_nest));
  return ls_nest_object(LS_KIND_DISTRIBUTED, &value->object);
}

static const ls_distributed *distributed_of(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED ? leaf.as.ref : NULL;
}

size_t ls_distributed_count(ls_nest leaf) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL ? 0 : value->count;
}

ls_distributed_kind ls_distributed_kind_of(ls_nest leaf) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL ? LS_PER_REPLICA : value->kind;
}

ls_nest ls_distributed_component(ls_nest leaf, size_t replica) {
  const ls_distributed *value = distributed_of(leaf);
  return value == NULL || replica >= value->count ? ls_none()
                                                  : value->component[replica];
}

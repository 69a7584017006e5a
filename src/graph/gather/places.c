// SPDX-License-Identifier: Apache-2.0
//
// Hosts of outside compiled ops' copies: the host of the core with which their
// cluster exchanges values, unless the op names a device.
#include <stdlib.h>

#include "base/device_parts.h"
#include "base/runtime_internal.h"
#include "graph/gather/copy.h"

bool ls_attr_is_of_system(const ls_attr *attr) {
  static const char *const names[] = {LS_MARK_SYSTEM, LS_MARK_JOB,
                                      LS_MARK_MESH};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    if (strcmp(attr->name, names[i]) == 0) return true;
  return false;
}

static const ls_node *metadata_of(const ls_copying *c, const char *name) {
  for (; c != NULL; c = c->outer)
    for (size_t k = 0; k < c->level->num_clusters; ++k)
      if (strcmp(c->level->clusters[k].name, name) == 0)
        return c->level->clusters[k].metadata;
  return NULL;
}

// Returns the core of a cluster's entry; gradient clusters use their forward
// cluster's.
static size_t places_core_of(const ls_node *metadata, const char *outside) {
  const ls_attr *attr = ls_node_attr_named(metadata, LS_MARK_HOST_CORES);
  if (attr == NULL || attr->kind != LS_ATTR_STRINGS) return 0;
  size_t length = strlen(outside);
  for (;;) {
    for (size_t i = 0; i < attr->as.strings.count; ++i) {
      const char *entry = attr->as.strings.items[i];
      if (strncmp(entry, outside, length) == 0 && entry[length] == ':')
        return (size_t)strtoul(entry + length + 1, NULL, 10);
    }
    while (length > 0 && outside[length - 1] != '.')
      --length;
    if (length == 0) return 0;
    --length;
  }
}

ls_status ls_copy_places(ls_copying *c, const ls_node *node, size_t count,
                         const char ***out_places) {
  const char *cluster = ls_node_mark(node, LS_MARK_REPLICATE);
  const ls_node *metadata = cluster != NULL ? metadata_of(c, cluster) : NULL;
  const ls_attr *hosts =
      metadata != NULL ? ls_node_attr_named(metadata, LS_MARK_HOSTS) : NULL;
  *out_places = NULL;
  if (hosts == NULL || hosts->kind != LS_ATTR_STRINGS ||
      hosts->as.strings.count % count != 0)
    return ls_ok();
  const size_t cores = hosts->as.strings.count / count;
  const size_t core =
      places_core_of(metadata, ls_node_mark(node, LS_MARK_OUTSIDE));
  const char *own = node->device != NULL ? node->device : "";
  const char **places = ls_arena_new_array(c->memory, const char *, count);
  if (places == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < count; ++r)
    LS_RETURN_IF_ERROR(ls_graph_merge_device(
        c->to, hosts->as.strings.items[r * cores + core], own, &places[r]));
  *out_places = places;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
#include "graph/gather/copy.h"

#include <stdlib.h>

#include "base/memory/own.h"

// Refuses a value that has no single copy: an undeclared output, or the input
// of several replicas.
static ls_status refuse_undeclared(const ls_copying *c, ls_node *user,
                                   uint64_t ref) {
  char to[LS_MAX_FULL_NAME] = "a fetch", from[LS_MAX_FULL_NAME];
  ls_node *node = ls_graph_node_of(c->from, ref);
  if (user != NULL) ls_node_describe(c->from, user, to, sizeof(to));
  ls_node_describe(c->from, node, from, sizeof(from));
  const ls_cluster *cluster = ls_cluster_of_ref(c, ref);
  if (cluster != NULL)
    return ls_invalid_argument("Undeclared output of TPU computation '%s': %s "
                               "uses %s; return it from the computation",
                               cluster->name, to, from);
  if (node->type == LS_OP_TPU_REPLICATED_INPUT)
    return ls_invalid_argument("%s has values of %u replicas: only a "
                               "replicated computation can use it, not %s",
                               from, node->num_inputs, to);
  return ls_internal("%s was not copied for %s", from, to);
}

// ---- Regions ---------------------------------------------------------------
// Copies the region of a replicate op, which is gathered already.
static ls_status copy_gathered(ls_copying *outer, ls_node *holder,
                               ls_graph *from, ls_graph *to) {
  LS_OWN(ls_copying, c) = {0};
  ls_copying_init(&c, outer, from, to, outer->memory);
  c.policy = NULL;
  return ls_copy_region(&c, holder);
}

static ls_status copy_into(ls_copying *outer, ls_node *holder, ls_graph *from,
                           ls_graph *to) {
  if (holder->type == LS_OP_REPLICATE)
    return copy_gathered(outer, holder, from, to);
  LS_OWN(ls_gathering, c) = {0};
  LS_RETURN_IF_ERROR(ls_gather_begin(&c, outer, from, to, outer->memory));
  const char *mark = ls_node_mark(holder, LS_MARK_REPLICATE);
  if (mark != NULL && c.level->inside == NULL)
    c.level->inside = ls_cluster_named(outer, mark);
  return ls_copy_region(&c, holder);
}

static ls_status copy_all(ls_copying *c) { return ls_copy_level(c, NULL); }

// ---- Ops -------------------------------------------------------------------
// Marks an outside op with the name and the host of each of its copies, one per
// replica.
static ls_status show_copies(ls_copying *c, ls_node *node, ls_node *copy) {
  const size_t count = c->level->shows_copies;
  if (count == 0 || ls_node_mark(node, LS_MARK_OUTSIDE) == NULL) return ls_ok();
  const char *name = ls_node_name(c->from, node);
  const char **names = ls_arena_new_array(c->memory, const char *, count);
  int64_t *ids = ls_arena_new_array(c->memory, int64_t, count);
  const char **places = NULL;
  if (names == NULL || ids == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_copy_places(c, node, count, &places));
  // True if the op is copied for one replica.
  const bool is_one = c->level->replica >= 0;
  if (places != NULL)
    LS_RETURN_IF_ERROR(ls_node_set_attr(
        c->to, copy,
        &(ls_attr){.name = "_places",
                   .kind = LS_ATTR_STRINGS,
                   .as.strings = {is_one ? &places[c->level->replica] : places,
                                  is_one ? 1 : count}}));
  if (is_one) return ls_ok();
  for (size_t r = 0; r < count; ++r) {
    ids[r] = (int64_t)r;
    names[r] =
        count == 1 ? name : ls_arena_format(c->memory, "%s/R%zu", name, r);
    if (names[r] == NULL) return ls_out_of_memory();
  }
  LS_RETURN_IF_ERROR(
      ls_node_set_attr(c->to, copy,
                       &(ls_attr){.name = "_xla_replica_id",
                                  .kind = LS_ATTR_INTS,
                                  .as.ints = {.items = ids, .count = count}}));
  return ls_node_set_attr(c->to, copy,
                          &(ls_attr){.name = "_copies",
                                     .kind = LS_ATTR_STRINGS,
                                     .as.strings = {names, count}});
}

// Marks the copy for one replica with the replica's id: host calls report the
// id, and random ops draw the replica's numbers.
static ls_status set_replica(ls_copying *c, ls_node *copy) {
  const int64_t replica = c->level->replica;
  LS_RETURN_IF_ERROR(ls_node_set_attr(c->to, copy,
                                      &(ls_attr){.name = "_xla_replica_id",
                                                 .kind = LS_ATTR_INT,
                                                 .as.i = replica}));
  const bool draws = (ls_node_info(copy)->traits & LS_OP_RANDOM) != 0 &&
                     ls_node_int(copy, LS_ATTR_ID_SAME_ON_ALL_REPLICAS) == 0;
  return draws || copy->type == LS_OP_HOST
             ? ls_node_set_attr(c->to, copy, &LS_OWN_I(REPLICA, replica))
             : ls_ok();
}

// Appends the replica's id as a constant.
static ls_status add_replica_id(ls_copying *c, const ls_node *node,
                                ls_node **out_copy) {
  LS_OWN(ls_array, id) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I32, LS_SCALAR, &id));
  ls_array_set_i64(id, 0, c->level->replica);
  const ls_attr value = LS_OWN_A(VALUE, id);
  *out_copy = ls_graph_append(
      c->to,
      &(ls_op_spec){.type = LS_OP_CONSTANT, .attrs = &value, .num_attrs = 1},
      NULL, node->num_outputs);
  return ls_memory_status(*out_copy != NULL);
}

static ls_status copy_finish(ls_copying *c, ls_node *node, ls_node *copy) {
  if (c->level->replica >= 0) LS_RETURN_IF_ERROR(set_replica(c, copy));
  return show_copies(c, node, copy);
}

ls_status ls_gather_node(ls_copying *c, ls_node *node) {
  if (c->level->replica < 0 || node->type != LS_OP_REPLICA_ID)
    return ls_copy_node(c, node);
  ls_node *copy = NULL;
  LS_RETURN_IF_ERROR(add_replica_id(c, node, &copy));
  return ls_copying_take(c, node, copy);
}

// ---- Levels ----------------------------------------------------------------
ls_status ls_gather_begin(ls_copying *c, ls_copying *outer, ls_graph *from,
                          ls_graph *to, ls_arena *memory) {
  static const ls_copy_policy policy = {.copy_into = copy_into,
                                        .copy_ops = copy_all,
                                        .finish = copy_finish,
                                        .missing = refuse_undeclared};
  ls_copying_init(c, outer, from, to, memory);
  c->policy = &policy;
  LS_ARENA_SET_OR_RETURN(memory, ls_gather_level, c->level, 1);
  c->level->replica = -1;
  if (outer == NULL) return ls_ok();
  c->level->inside = outer->level->inside;
  c->level->replica = outer->level->replica;
  c->level->shows_copies = outer->level->shows_copies;
  return ls_ok();
}

void ls_gather_end(ls_copying *c) {
  for (size_t k = 0; c->level != NULL && k < c->level->num_clusters; ++k)
    ls_map_deinit(&c->level->clusters[k].results);
  ls_copying_deinit(c);
}

// ---- Hosts of outside ops --------------------------------------------------
// Hosts of outside compiled ops' copies: the host of the core with which their
// cluster exchanges values, unless the op names a device.

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

// Returns the core whose entry in the metadata's list names the cluster; a
// gradient cluster has the core of its forward cluster.
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
  const char *outside = ls_node_mark(node, LS_MARK_OUTSIDE);
  const size_t core = places_core_of(metadata, outside);
  if (core >= cores)
    return ls_invalid_argument(
        "outside compilation cluster '%s' is at core %zu: there %s %zu core%s "
        "for each of %zu replicas",
        outside, core, cores == 1 ? "is" : "are", cores, cores == 1 ? "" : "s",
        count);
  const char *own = node->device != NULL ? node->device : "";
  LS_ARENA_ARRAY_OR_RETURN(c->memory, const char *, places, count);
  for (size_t r = 0; r < count; ++r)
    LS_RETURN_IF_ERROR(ls_graph_merge_device(
        c->to, hosts->as.strings.items[r * cores + core], own, &places[r]));
  *out_places = places;
  return ls_ok();
}

// SPDX-License-Identifier: Apache-2.0
//
// Nodes: their names, and the public accessors of ops and tensors.
#include <stdio.h>

#include "graph/graph.h"
#include "graph/trial.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/threads/locked.h"
#include "graph/verify/verify.h"
#include "graph/walk.h"
#include "lockstep/device_name.h"
#include "lockstep/host.h"

// ---- Names -----------------------------------------------------------------
// The key of a name's counter: the graph keeps the next number for each (scope,
// base). A full name, scope + base [+ "_" + number], is composed on demand.
typedef struct name_key {
  const ls_name_scope *scope;
  char base[LS_MAX_NAME];
} name_key;

static size_t make_key(name_key *key, const ls_name_scope *scope,
                       const char *base, size_t size) {
  key->scope = scope;
  memcpy(key->base, base, size);
  return offsetof(name_key, base) + size;
}

// Takes the next free number of a base; 0 means the base without a number.
static ls_status take_number(ls_graph *graph, const ls_name_scope *scope,
                             const char *base, uint32_t *out_number) {
  const size_t length = strlen(base);
  if (length == 0 || length >= LS_MAX_NAME - 12)
    return ls_invalid_argument(
        "the name '%.40s' has %zu characters; 1 to %d are possible", base,
        length, LS_MAX_NAME - 13);
  name_key key;
  size_t size = make_key(&key, scope, base, length);
  uintptr_t next = (uintptr_t)ls_map_find(&graph->names, &key, size);
  uint32_t number = (uint32_t)next;
  name_key numbered;
  while (number != 0) {  // Names such as "relu_1" may be taken already.
    char text[LS_MAX_NAME];
    const int n = snprintf(text, sizeof(text), "%s_%u", base, number);
    const size_t s = make_key(&numbered, scope, text, (size_t)n);
    if (!ls_map_has(&graph->names, &numbered, s)) break;
    ++number;
  }
  if (!ls_graph_note(graph, (ls_graph_undo){.kind = LS_UNDO_NAME,
                                            .scope = scope,
                                            .text = base,
                                            .before = next}) ||
      !ls_map_insert(&graph->names, &key, size,
                     (void *)(uintptr_t)(number + 1)))
    return ls_out_of_memory();
  *out_number = number;
  return ls_ok();
}

void ls_graph_reset_name(ls_graph *graph, const ls_name_scope *scope,
                         const char *base, uint32_t next) {
  name_key key;
  const size_t size = make_key(&key, scope, base, strlen(base));
  if (next == 0) {
    ls_map_remove(&graph->names, &key, size);
    return;
  }
  const bool is_set =
      ls_map_insert(&graph->names, &key, size, (void *)(uintptr_t)next);
  LS_ASSERT(is_set);  // Replacing a key needs no memory.
  (void)is_set;
}

// Guards names that graphs keep when they are first asked for, by messages of
// runs in any number of threads too. No other lock is taken under it.
static ls_mutex names_lock = {PTHREAD_MUTEX_INITIALIZER, true};

static const char *intern(ls_graph *graph, const char *text) {
  const char *kept = ls_map_find_text(&graph->texts, text);
  if (kept != NULL) return kept;
  char *copy = ls_arena_string(&graph->names_arena, text);
  return copy != NULL && ls_map_insert_text(&graph->texts, text, copy) ? copy
                                                                       : NULL;
}

const char *ls_graph_intern(ls_graph *graph, const char *text) {
  return LS_LOCKED(&names_lock, intern(graph, text));
}

// Caches merged names by both names, joined by a zero byte, so that a device
// scope in a loop parses no names.
ls_status ls_graph_merge_device(ls_graph *graph, const char *around,
                                const char *name, const char **out_device) {
  char key[2 * LS_MAX_DEVICE_NAME];
  *out_device = around;
  if (name[0] == '\0') return ls_ok();
  if (around == NULL) around = "";
  const size_t first = strlen(around) + 1, second = strlen(name);
  const bool is_kept = first + second <= sizeof(key);
  if (is_kept) {
    memcpy(key, around, first);
    memcpy(key + first, name, second);
    *out_device = ls_map_find(&graph->texts, key, first + second);
    if (*out_device != NULL) return ls_ok();
  }
  ls_device_name merged;
  LS_RETURN_IF_ERROR(ls_device_merge(name, around, &merged));
  *out_device = ls_graph_intern(graph, merged.text);
  return ls_memory_status(
      *out_device != NULL &&
      (!is_kept || ls_map_insert(&graph->texts, key, first + second,
                                 (void *)(uintptr_t)*out_device)));
}

ls_status ls_graph_name_node(ls_graph *graph, ls_node *node,
                             const ls_name_scope *scope, const char *base) {
  node->scope = scope;
  if (base == NULL) {
    node->base = ls_op_table[node->type].name;
  } else {
    node->base = ls_arena_string(&graph->arena, base);
    if (node->base == NULL) return ls_out_of_memory();
  }
  return take_number(graph, scope, node->base, &node->number);
}

static ls_status check_alive(const ls_graph *graph) {
  return graph->allocator != NULL
             ? ls_ok()
             : ls_failed_precondition("the graph has been destroyed");
}

// Refuses long names. Names are not cut, because two of them could become the
// same.
static ls_status check_scope(const ls_name_scope *parent, const char *name) {
  const size_t most = LS_MAX_FULL_NAME - LS_MAX_NAME - 1;
  const size_t length = strlen(name);
  if (length == 0 || length >= LS_MAX_NAME - 12)
    return ls_invalid_argument(
        "the name scope '%.40s' has %zu characters; 1 to %d are possible", name,
        length, LS_MAX_NAME - 13);
  size_t full = length + 1;
  for (; parent != NULL; parent = parent->parent)
    full += strlen(parent->name) + 1;
  if (full <= most) return ls_ok();
  return ls_invalid_argument("the name scopes around and with '%.40s' have %zu "
                             "characters; %zu are possible",
                             name, full, most);
}

ls_status ls_graph_name_scope(ls_graph *graph, const ls_name_scope *parent,
                              const char *name, bool unique,
                              const ls_name_scope **out_scope) {
  *out_scope = NULL;
  char text[LS_MAX_NAME];
  uint32_t number = 0;
  LS_RETURN_IF_ERROR(check_alive(graph));
  LS_RETURN_IF_ERROR(check_scope(parent, name));
  if (unique) LS_RETURN_IF_ERROR(take_number(graph, parent, name, &number));
  if (number == 0)
    snprintf(text, sizeof(text), "%s", name);
  else
    snprintf(text, sizeof(text), "%s_%u", name, number);
  name_key key;
  const size_t size = make_key(&key, parent, text, strlen(text));
  ls_name_scope *scope = ls_map_find(&graph->scopes, &key, size);
  if (scope == NULL) {
    LS_ARENA_SET_OR_RETURN(&graph->names_arena, ls_name_scope, scope, 1);
    scope->parent = parent;
    scope->name = ls_arena_string(&graph->names_arena, text);
    if (scope->name == NULL ||
        !ls_map_insert(&graph->scopes, &key, size, scope))
      return ls_out_of_memory();
  }
  *out_scope = scope;
  return ls_ok();
}

ls_status ls_graph_name_scope_path(ls_graph *graph, const char *path,
                                   const ls_name_scope **out_scope) {
  *out_scope = NULL;
  for (const char *at = path; *at != '\0';) {
    const char *end = strchr(at, '/');
    const size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
    char name[LS_MAX_NAME];
    if (length == 0 || length >= sizeof(name))
      return ls_invalid_argument("'%s' is no name scope: a part of it is empty "
                                 "or longer than %d characters",
                                 path, LS_MAX_NAME - 1);
    memcpy(name, at, length);
    name[length] = '\0';
    const ls_name_scope *parent = *out_scope;
    LS_RETURN_IF_ERROR(
        ls_graph_name_scope(graph, parent, name, false, out_scope));
    at += length + (end != NULL);
  }
  return ls_ok();
}

// Writes the names of a scope and its parents, outermost first; returns the
// number of characters.
static size_t render_scope(const ls_name_scope *scope, char *buffer,
                           size_t size) {
  if (scope == NULL) return 0;
  const size_t at = render_scope(scope->parent, buffer, size);
  const int n = snprintf(buffer + at, size - at, "%s/", scope->name);
  return n < 0 || (size_t)n >= size - at ? size - 1 : at + (size_t)n;
}

void ls_name_scope_print(const ls_name_scope *scope, char *buffer,
                         size_t size) {
  buffer[0] = '\0';
  render_scope(scope, buffer, size);
}

static const char *keep_name(ls_graph *graph, ls_node *node, const char *text) {
  if (node->rendered == NULL)
    __atomic_store_n(&node->rendered, ls_arena_string(&graph->arena, text),
                     __ATOMIC_RELEASE);
  return node->rendered;
}

const char *ls_node_name(ls_graph *graph, ls_node *node) {
  const char *kept = __atomic_load_n(&node->rendered, __ATOMIC_ACQUIRE);
  if (kept != NULL) return kept;
  if (node->base == NULL) return "";
  char text[LS_MAX_FULL_NAME];
  const size_t at = render_scope(node->scope, text, sizeof(text));
  if (node->number == 0)
    snprintf(text + at, sizeof(text) - at, "%s", node->base);
  else
    snprintf(text + at, sizeof(text) - at, "%s_%u", node->base, node->number);
  kept = LS_LOCKED(&names_lock, keep_name(graph, node, text));
  return kept != NULL ? kept : node->base;
}

const char *ls_node_describe(ls_graph *graph, ls_node *node, char *buffer,
                             size_t size) {
  const char *type = ls_node_info(node)->name;
  const char *name = ls_node_name(graph, node);
  int n = name[0] == '\0' ? snprintf(buffer, size, "op %s", type)
                          : snprintf(buffer, size, "op '%s' (%s)", name, type);
  if (node->file != NULL && n > 0 && (size_t)n < size)
    snprintf(buffer + n, size - (size_t)n, " at %s:%d", node->file, node->line);
  return buffer;
}

// ---- Effects ---------------------------------------------------------------
static bool has_effect(const ls_node *node) {
  if (node->type != LS_OP_HOST)
    return (ls_node_info(node)->traits & LS_OP_EFFECT) != 0;
  const ls_attr *kernel = ls_node_attr(node, LS_ATTR_ID_KERNEL);
  return (kernel->as.kernel->flags & LS_HOST_MAY_BE_DROPPED) == 0;
}

bool ls_node_has_effects(const ls_node *node) {
  return ls_node_any(node, has_effect);
}

bool ls_node_is_collective(const ls_node *node) {
  switch (node->type) {
  case LS_OP_REDUCE_SCATTER:
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
  case LS_OP_REPLICA_BROADCAST:
  case LS_OP_CROSS_REPLICA_SUM:
  case LS_OP_MERGE_CALL:
    return true;
  default:
    return ls_node_is_merge(node);
  }
}

// ---- Captures --------------------------------------------------------------
size_t ls_count_captures(ls_graph *const *regions, size_t count) {
  size_t captures = 0;
  for (size_t r = 0; r < count; ++r)
    captures += ls_graph_resolve(regions[r])->num_captures;
  return captures;
}

uint32_t ls_node_captures(const ls_node *node, uint32_t region) {
  return node->num_inputs -
         (uint32_t)ls_count_captures(node->regions + region,
                                     node->num_regions - region);
}

size_t ls_list_captures(ls_graph *const *regions, size_t count,
                        ls_tensor *out) {
  size_t captures = 0;
  for (size_t r = 0; r < count; ++r) {
    const ls_graph *region = ls_graph_resolve(regions[r]);
    for (size_t i = 0; i < region->num_captures; ++i)
      out[captures++] = region->captures[i].outer;
  }
  return captures;
}

size_t ls_list_capture_refs(ls_graph *const *regions, size_t count,
                            uint64_t *out_refs) {
  size_t captures = 0;
  for (size_t r = 0; r < count; ++r) {
    const ls_graph *region = ls_graph_resolve(regions[r]);
    for (size_t i = 0; i < region->num_captures; ++i)
      out_refs[captures++] = region->captures[i].outer.ref;
  }
  return captures;
}

// ---- Attributes ------------------------------------------------------------
const ls_attr *ls_node_attr_named(const ls_node *node, const char *name) {
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
  return NULL;
}

ls_status ls_op_attr(ls_op op, const char *name, const ls_attr **out_attr) {
  LS_REQUIRE_OUT(out_attr, name);
  ls_node *node = ls_graph_node(op.graph, op.id);
  if (node == NULL)
    return ls_invalid_argument("attribute '%s' of a failed or stale op", name);
  *out_attr = ls_node_attr_named(node, name);
  if (*out_attr != NULL) return ls_ok();
  return ls_not_found("op '%s' (%s) has no attribute '%s'", ls_op_name(op),
                      ls_node_info(node)->name, name);
}

// Checks that the node can have `attr`, which may replace an attribute of the
// same name, and that its outputs and regions fit it.
static ls_status check_attr(ls_arena *memory, ls_graph *graph,
                            const ls_node *node, const ls_attr *attr) {
  ls_node with = *node;
  LS_ARENA_SET_OR_RETURN(memory, ls_attr, with.attrs, node->num_attrs + 1);
  with.num_attrs = 0;
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (strcmp(node->attrs[i].name, attr->name) != 0)
      with.attrs[with.num_attrs++] = node->attrs[i];
  with.attrs[with.num_attrs++] = *attr;
  const ls_attr *attrs = NULL;
  LS_RETURN_IF_ERROR(
      ls_attrs_resolve(memory, node->type, with.attrs, with.num_attrs, &attrs));
  LS_RETURN_IF_ERROR(
      ls_attrs_check(node->type, attrs, with.num_attrs, node->num_inputs));
  if (ls_attr_is_mark(&attrs[with.num_attrs - 1])) return ls_ok();
  with.attrs = (ls_attr *)(uintptr_t)attrs;
  return ls_verify_refused("the op would not fit it",
                           ls_verify_op(graph, &with));
}

ls_status ls_op_set_attr(ls_op op, const ls_attr *attr) {
  LS_REQUIRE(attr);
  LS_REQUIRE(attr->name);
  ls_graph *graph = ls_graph_resolve(op.graph);
  ls_node *node = ls_graph_node(graph, op.id);
  if (node == NULL)
    return ls_invalid_argument("setting '%s' of a failed or stale op",
                               attr->name);
  if (graph->kind == LS_GRAPH_LOWERED || graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition("setting '%s' of op '%s': only ops of build "
                                  "and function graphs have attributes to set",
                                  attr->name, ls_op_name(op));
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  const ls_status refusal = check_attr(&memory, graph, node, attr);
  const ls_status status =
      ls_status_is_ok(refusal) ? ls_trial_set_attr(graph, node, attr) : refusal;
  for (; graph != NULL; graph = graph->parent)
    ++graph->num_edits;
  return ls_status_annotate(status, "setting an attribute of op '%s'",
                            ls_op_name(op));
}

// ---- Bans ------------------------------------------------------------------
void ls_op_prevent_feeding(ls_op op) {
  ls_node *node = ls_graph_node(ls_graph_resolve(op.graph), op.id);
  if (node != NULL) node->not_fed = true;
}

void ls_op_prevent_fetching(ls_op op) {
  ls_node *node = ls_graph_node(ls_graph_resolve(op.graph), op.id);
  if (node != NULL) node->not_fetched = true;
}

// ---- Ops and tensors -------------------------------------------------------
static ls_node *node_of(ls_op op) { return ls_graph_node(op.graph, op.id); }

bool ls_tensor_is_failed(ls_tensor tensor) {
  if (tensor.ref == 0) return true;
  const ls_graph *graph = ls_graph_resolve(tensor.graph);
  if (graph == NULL) return true;
  if (graph->kind != LS_GRAPH_EAGER) return false;
  const ls_node *node = ls_graph_node_of(graph, tensor.ref);
  return node == NULL || node->failure != NULL ||
         ls_ref_output(tensor.ref) >= node->num_outputs;
}

ls_dtype ls_tensor_dtype(ls_tensor tensor) {
  return ls_graph_type(tensor.graph, tensor.ref).dtype;
}

ls_shape ls_tensor_shape(ls_tensor tensor) {
  return ls_graph_type(tensor.graph, tensor.ref).shape;
}

const char *ls_tensor_name(ls_tensor tensor) {
  ls_graph *graph = ls_graph_resolve(tensor.graph);
  ls_node *node = ls_graph_node_of(graph, tensor.ref);
  if (node == NULL) return "";
  char text[LS_MAX_FULL_NAME + 8];
  snprintf(text, sizeof(text), "%s:%u", ls_node_name(graph, node),
           ls_ref_output(tensor.ref));
  // Keeps an interned copy, because eager nodes and their memory are freed.
  const char *kept = ls_graph_intern(graph, text);
  return kept != NULL ? kept : "";
}

const char *ls_op_name(ls_op op) {
  ls_node *node = node_of(op);
  return node == NULL ? "" : ls_node_name(ls_graph_resolve(op.graph), node);
}

const char *ls_op_type_name(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? "" : ls_node_info(node)->name;
}

uint16_t ls_op_type(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? LS_OP_NONE : node->type;
}

const char *ls_op_device(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL || node->device == NULL ? "" : node->device;
}

size_t ls_op_num_inputs(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? 0 : node->num_inputs;
}

ls_tensor ls_op_input(ls_op op, size_t index) {
  const ls_node *node = node_of(op);
  if (node == NULL || index >= node->num_inputs) return ls_failed_tensor();
  return (ls_tensor){ls_graph_resolve(op.graph), node->inputs[index]};
}

size_t ls_op_num_outputs(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? 0 : node->num_outputs;
}

size_t ls_op_num_control_inputs(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? 0 : node->num_control;
}

ls_op ls_op_control_input(ls_op op, size_t index) {
  const ls_node *node = node_of(op);
  if (node == NULL || index >= node->num_control) return (ls_op){0};
  return (ls_op){ls_graph_resolve(op.graph), node->control[index]};
}

const char *ls_op_file(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? NULL : node->file;
}

int ls_op_line(ls_op op) {
  const ls_node *node = node_of(op);
  return node == NULL ? 0 : node->line;
}

size_t ls_graph_num_ops(const ls_graph *graph) { return graph->num_nodes; }

ls_op ls_graph_op(const ls_graph *graph, size_t index) {
  if (index >= graph->num_nodes) return (ls_op){0};
  return (ls_op){(ls_graph *)graph, graph->nodes[index]->id};
}

ls_status ls_graph_lookup_op(const ls_graph *graph, const char *name,
                             ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, graph, name);
  // The cast is needed because composing a name caches its text.
  ls_graph *writable = (ls_graph *)graph;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    if (strcmp(ls_node_name(writable, graph->nodes[i]), name) != 0) continue;
    *out_op = ls_graph_op(graph, i);
    return ls_ok();
  }
  return ls_not_found("graph '%s' has no op named '%s'", graph->name, name);
}

void ls_node_drop_mark(ls_node *node, const char *name) {
  // The cast is safe because the graph owns the attributes.
  ls_attr *attrs = (ls_attr *)(uintptr_t)node->attrs;
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (attrs[i].id != 0 || strcmp(attrs[i].name, name) != 0)
      attrs[count++] = attrs[i];
  node->num_attrs = count;
}

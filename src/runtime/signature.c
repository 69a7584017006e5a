// SPDX-License-Identifier: Apache-2.0
#include "runtime/signature.h"

#include "base/memory/allocator.h"
#include "base/values/nest_internal.h"
#include "graph/graph.h"
#include "graph/region.h"
#include "lockstep/eager.h"
#include "lockstep/variable.h"
#include "runtime/eager/eager.h"

// Returns the array of an array leaf or eager tensor; NULL for other leaves and
// for eager tensors without a value.
static ls_array *array_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_ARRAY) return leaf.as.ref;
  if (leaf.kind != LS_KIND_TENSOR || leaf.as.tensor.graph == NULL ||
      leaf.as.tensor.graph->kind != LS_GRAPH_EAGER)
    return NULL;
  ls_node *node = ls_graph_node_of(leaf.as.tensor.graph, leaf.as.tensor.ref);
  if (node != NULL) ls_eager_catch_up(leaf.as.tensor.graph, node);
  return node == NULL || node->values == NULL
             ? NULL
             : node->values[ls_ref_output(leaf.as.tensor.ref)];
}

static ls_type signature_type_of(const ls_array *array) {
  return (ls_type){ls_array_dtype(array), ls_array_shape(array)};
}

bool ls_signature_same_type(ls_type a, ls_type b) {
  return a.dtype == b.dtype && ls_shape_equal(a.shape, b.shape);
}

static bool signature_key_of(ls_nest leaf, ls_leaf_key *key) {
  *key = (ls_leaf_key){.kind = leaf.kind};
  const ls_array *array = array_of(leaf);
  if (array != NULL) {
    key->kind = LS_KIND_ARRAY;
    key->type = signature_type_of(array);
    key->slots = 1;
    return true;
  }
  switch (leaf.kind) {
  case LS_KIND_NONE:
    return true;
  case LS_KIND_SCALAR:
    key->type.dtype = leaf.dtype;
    key->bits = leaf.as.bits;
    return true;
  case LS_KIND_VARIABLE:
  case LS_KIND_OBJECT:
    key->bits = (uintptr_t)leaf.as.ref;
    return true;
  case LS_KIND_DISTRIBUTED:
    key->slots = (uint32_t)ls_distributed_count(leaf);
    return true;
  default:
    return false;
  }
}

// Returns true for kinds compared by address: the signature holds a reference.
static bool is_object(ls_kind kind) {
  return kind == LS_KIND_VARIABLE || kind == LS_KIND_OBJECT;
}

static ls_status signature_refuse(ls_nest leaf) {
  if (leaf.kind == LS_KIND_FAILED) return ls_nest_status(leaf);
  if (leaf.kind == LS_KIND_TENSOR && leaf.as.tensor.graph != NULL) {
    const ls_node *node =
        ls_graph_node_of(leaf.as.tensor.graph, leaf.as.tensor.ref);
    if (node != NULL && node->failure != NULL)
      return ls_status_clone(node->failure);
  }
  return ls_invalid_argument(
      "%s cannot be an argument of a call: arrays, eager tensors, variables, "
      "host scalars and distributed values of these can",
      LS_NEST_TEXT(leaf));
}

static ls_status add_types(ls_signature *s, ls_nest leaf) {
  if (leaf.kind != LS_KIND_DISTRIBUTED) {
    const ls_array *array = array_of(leaf);
    if (array != NULL) s->types[s->num_slots++] = signature_type_of(array);
    return ls_ok();
  }
  for (size_t i = 0; i < ls_distributed_count(leaf); ++i) {
    const ls_nest component = ls_distributed_component(leaf, i);
    const ls_array *array = array_of(component);
    if (array == NULL) return signature_refuse(component);
    s->types[s->num_slots++] = signature_type_of(array);
  }
  return ls_ok();
}

static ls_nest to_shell(ls_nest leaf, void *user) {
  return leaf.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_map_components(leaf, to_shell, user)
             : ls_none();
}

static ls_status signature_fill(ls_signature *s, ls_nest args,
                                ls_nest *leaves) {
  size_t slots = 0;
  ls_nest_flatten(args, leaves, s->num_leaves);
  s->hash = ls_signature_hash(leaves, s->num_leaves);
  for (size_t i = 0; i < s->num_leaves; ++i) {
    if (!signature_key_of(leaves[i], &s->keys[i]))
      return signature_refuse(leaves[i]);
    if (is_object(leaves[i].kind)) ls_object_retain(leaves[i].as.ref);
    slots += s->keys[i].slots;
  }
  LS_SET_ARRAY_OR_RETURN(s->allocator, ls_type, s->types, slots);
  for (size_t i = 0; i < s->num_leaves; ++i)
    LS_RETURN_IF_ERROR(add_types(s, leaves[i]));
  s->structure = ls_nest_map(args, to_shell, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(s->structure));
  ls_nest_flatten(s->structure, leaves, s->num_leaves);
  for (size_t i = 0; i < s->num_leaves; ++i)
    s->keys[i].shell = leaves[i];
  return ls_ok();
}

ls_status ls_signature_init(ls_signature *signature, ls_allocator *allocator,
                            ls_nest args) {
  *signature = (ls_signature){.allocator = allocator,
                              .num_leaves = ls_nest_num_leaves(args)};
  signature->keys = ls_new_array(allocator, ls_leaf_key, signature->num_leaves);
  LS_OWN_ARRAY(allocator, ls_nest, leaves, signature->num_leaves);
  const ls_status status = signature->keys == NULL || leaves == NULL
                               ? ls_out_of_memory()
                               : signature_fill(signature, args, leaves);
  if (!ls_status_is_ok(status)) ls_signature_deinit(signature);
  return status;
}

void ls_signature_deinit(ls_signature *signature) {
  if (signature->allocator == NULL) return;
  for (size_t i = 0; signature->keys != NULL && i < signature->num_leaves; ++i)
    if (is_object(signature->keys[i].kind))
      ls_object_release((void *)(uintptr_t)signature->keys[i].bits);
  ls_nest_release(signature->structure);
  ls_release(signature->allocator, signature->keys);
  ls_release(signature->allocator, signature->types);
  *signature = (ls_signature){0};
}

// ---- Matching --------------------------------------------------------------
static bool same_shape(ls_nest a, ls_nest b) {
  if (!ls_nest_is_node(a) && !ls_nest_is_node(b)) return true;
  const ls_status same = ls_nest_same_structure(a, b);
  ls_status_free(same);
  return same == NULL;
}

static uint64_t add_to_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

static uint64_t add_leaf(uint64_t hash, ls_nest leaf) {
  ls_leaf_key key;
  if (!signature_key_of(leaf, &key)) return hash;
  hash = add_to_hash(add_to_hash(hash, key.bits), (uint64_t)key.kind);
  for (int i = 0; i < key.type.shape.rank; ++i)
    hash = add_to_hash(hash, (uint64_t)key.type.shape.dim[i]);
  for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
    hash = add_leaf(hash, ls_distributed_component(leaf, i));
  return hash;
}

uint64_t ls_signature_hash(const ls_nest *leaves, size_t num_leaves) {
  uint64_t hash = num_leaves;
  for (size_t i = 0; i < num_leaves; ++i)
    hash = add_leaf(hash, leaves[i]);
  return hash;
}

bool ls_signature_matches(const ls_signature *signature, ls_nest args,
                          const ls_nest *leaves) {
  if (ls_nest_num_leaves(args) != signature->num_leaves ||
      !same_shape(signature->structure, args))
    return false;
  for (size_t i = 0, slot = 0; i < signature->num_leaves; ++i) {
    const ls_leaf_key *want = &signature->keys[i];
    ls_leaf_key have;
    if (!signature_key_of(leaves[i], &have) || have.kind != want->kind ||
        have.slots != want->slots || have.bits != want->bits ||
        !ls_signature_same_type(have.type, want->type) ||
        (want->kind == LS_KIND_DISTRIBUTED &&
         !ls_distributed_is_alike(want->shell, leaves[i])))
      return false;
    for (size_t c = 0; want->kind == LS_KIND_DISTRIBUTED && c < want->slots;
         ++c) {
      const ls_array *array = array_of(ls_distributed_component(leaves[i], c));
      if (array == NULL || !ls_signature_same_type(signature_type_of(array),
                                                   signature->types[slot + c]))
        return false;
    }
    slot += want->slots;
  }
  return true;
}

int64_t ls_signature_other_scalar(const ls_signature *a,
                                  const ls_signature *b) {
  int64_t first = -1;
  if (a->num_leaves != b->num_leaves || !same_shape(a->structure, b->structure))
    return -1;
  for (size_t i = a->num_leaves; i > 0; --i) {
    const ls_leaf_key *x = &a->keys[i - 1], *y = &b->keys[i - 1];
    if (x->kind != y->kind || x->slots != y->slots ||
        !ls_signature_same_type(x->type, y->type) ||
        (x->bits != y->bits && x->kind != LS_KIND_SCALAR))
      return -1;
    if (x->bits != y->bits) first = (int64_t)i - 1;
  }
  return first;
}

ls_status ls_signature_arrays(const ls_signature *signature,
                              const ls_nest *leaves, const void **data) {
  size_t slot = 0;
  for (size_t i = 0; i < signature->num_leaves; ++i) {
    const ls_leaf_key *key = &signature->keys[i];
    if (key->kind == LS_KIND_ARRAY)
      data[slot++] = ls_array_data(array_of(leaves[i]));
    for (size_t c = 0; key->kind == LS_KIND_DISTRIBUTED && c < key->slots; ++c)
      data[slot++] =
          ls_array_data(array_of(ls_distributed_component(leaves[i], c)));
  }
  return ls_ok();
}

// ---- Values of a trace -----------------------------------------------------
// User data of the map that turns arguments into parameters.
typedef struct to_parameters {
  ls_graph *graph;
  const ls_signature *signature;
  size_t leaf, slot;
} to_parameters;

static ls_nest next_parameter(ls_nest value, void *user) {
  to_parameters *p = user;
  (void)value;
  ls_tensor parameter;
  const ls_status status = ls_graph_add_parameter(
      p->graph, p->signature->types[p->slot++], NULL, &parameter);
  return ls_status_is_ok(status) ? ls_leaf(parameter) : ls_fail(status);
}

static ls_nest to_parameter(ls_nest leaf, void *user) {
  to_parameters *p = user;
  const ls_leaf_key *key = &p->signature->keys[p->leaf++];
  if (key->kind == LS_KIND_ARRAY) return next_parameter(leaf, user);
  return key->kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_map_components(leaf, next_parameter, user)
             : ls_nest_retain(leaf);
}

ls_nest ls_trace_parameters(ls_graph *graph, const ls_signature *signature,
                            ls_nest args) {
  to_parameters p = {.graph = graph, .signature = signature};
  return ls_nest_map(args, to_parameter, &p);
}

static ls_nest to_constant(ls_nest leaf, void *user) {
  if (leaf.kind == LS_KIND_ARRAY) return ls_leaf(ls_constant(leaf.as.ref));
  return leaf.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_map_components(leaf, to_constant, user)
             : ls_nest_retain(leaf);
}

ls_nest ls_trace_constants(ls_nest args) {
  return ls_nest_map(args, to_constant, NULL);
}

// Returns true for a component that a trace takes without a conversion.
static bool is_value(ls_nest component) {
  return component.kind == LS_KIND_TENSOR || component.kind == LS_KIND_ARRAY ||
         component.kind == LS_KIND_SLICES;
}

bool ls_trace_has_others(ls_nest args) {
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    if (ls_trace_has_others(ls_nest_item(args, i))) return true;
  for (size_t i = 0; i < ls_distributed_count(args); ++i)
    if (!is_value(ls_distributed_component(args, i))) return true;
  return false;
}

// Makes a component a tensor, or an array if the graph's values are kept by a
// frame that ends.
static ls_nest to_tensor(ls_nest component, void *user) {
  ls_tensor made;
  ls_array *value = NULL;
  if (is_value(component)) return ls_nest_retain(component);
  LS_RETURN_FAILED_IF_ERROR(ls_status_annotate(
      ls_region_tensor(component, &made), "in a distributed argument"));
  if (!*(const bool *)user) return ls_leaf(made);
  LS_RETURN_FAILED_IF_ERROR(ls_tensor_value(made, &value));
  return ls_nest_array(value);
}

static ls_nest to_tensors(ls_nest leaf, void *user) {
  for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
    if (ls_distributed_component(leaf, i).kind != LS_KIND_NONE)
      return ls_distributed_map_components(leaf, to_tensor, user);
  return leaf.kind == LS_KIND_DISTRIBUTED ? ls_none() : ls_nest_retain(leaf);
}

ls_nest ls_trace_tensors(ls_nest args) {
  const ls_graph *graph = ls_graph_current();
  bool ends = graph->kind == LS_GRAPH_EAGER && !ls_eager_is_recording(graph);
  if (!ends) return ls_nest_map(args, to_tensors, &ends);
  LS_RETURN_FAILED_IF_ERROR(ls_frame_begin());
  const ls_nest made = ls_nest_map(args, to_tensors, &ends);
  ls_status_free(ls_frame_end(NULL));  // Succeeds: the frame is open.
  return made;
}

// ---- Results ---------------------------------------------------------------
static size_t list_refs(ls_nest leaf, uint64_t *refs, size_t count) {
  if (leaf.kind == LS_KIND_TENSOR) {
    if (refs != NULL) refs[count] = leaf.as.tensor.ref;
    return count + 1;
  }
  for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
    count = list_refs(ls_distributed_component(leaf, i), refs, count);
  return count;
}

size_t ls_trace_list_refs(const ls_nest *leaves, size_t num_leaves,
                          uint64_t *refs) {
  size_t count = 0;
  for (size_t i = 0; i < num_leaves; ++i)
    count = list_refs(leaves[i], refs, count);
  return count;
}

ls_status ls_trace_set_results(ls_graph *graph, ls_nest results) {
  ls_allocator *allocator = graph->allocator;
  const size_t num_leaves = ls_nest_num_leaves(results);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, num_leaves);
  ls_nest_flatten(results, leaves, num_leaves);
  const size_t count = ls_trace_list_refs(leaves, num_leaves, NULL);
  LS_OWN_ARRAY_OR_RETURN(allocator, uint64_t, refs, count);
  ls_trace_list_refs(leaves, num_leaves, refs);
  return ls_graph_set_results(graph, refs, count);
}

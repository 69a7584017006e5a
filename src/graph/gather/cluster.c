// SPDX-License-Identifier: Apache-2.0
//
// Makes one op of a cluster of several replicas. Values that differ by replica
// become its split arguments; other outside values are captured.
#include "graph/gather/copy.h"

typedef struct body {
  ls_copying *c;  // Copying of the enclosing graph.
  ls_cluster *cluster;
  ls_copying inner;
  uint64_t *split;  // Outer values with a value for each replica.
  size_t num_split;
  uint64_t *results;
  size_t num_results;
} body;

static void deinit_body(body *b) {
  ls_graph_free(b->inner.to);
  ls_gather_end(&b->inner);
}
LS_OWNED_STRUCT(body, deinit_body)

// ---- Arguments -------------------------------------------------------------
static bool is_one_value(const ls_node *input) {
  for (uint32_t r = 1; r < input->num_inputs; ++r)
    if (input->inputs[r] != input->inputs[0]) return false;
  return true;
}

// Returns true if `input` is the input that gives each replica its id.
static bool is_replica_id(const ls_graph *graph, const ls_node *input) {
  for (uint32_t r = 0; r < input->num_inputs; ++r) {
    const ls_node *node = ls_graph_node_of(graph, input->inputs[r]);
    if (node->type != LS_OP_CONSTANT) return false;
    const ls_array *value = ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array;
    if (ls_array_dtype(value) != LS_DTYPE_I32 ||
        ls_array_shape(value).rank != 0 || ls_array_f64(value, 0) != (double)r)
      return false;
  }
  return true;
}

static ls_status check_input(const body *b, ls_node *input) {
  if (input->num_inputs == b->cluster->replicas) return ls_ok();
  char text[LS_MAX_FULL_NAME];
  return ls_invalid_argument(
      "%s has values of %u replicas, computation '%s' has %zu",
      ls_node_describe(b->c->from, input, text, sizeof(text)),
      input->num_inputs, b->cluster->name, b->cluster->replicas);
}

static ls_status cluster_declare(body *b, uint64_t ref) {
  ls_tensor made;
  LS_RETURN_IF_ERROR(ls_graph_add_parameter(
      b->inner.to, ls_graph_type(b->c->from, ref), NULL, &made));
  b->split[b->num_split++] = ref;
  return ls_copying_set(&b->inner, ref, made.ref);
}

// Returns true if another computation makes the value. Both computations then
// have the same number of replicas.
static bool is_of_other(const body *b, uint64_t ref) {
  const ls_cluster *cluster = ls_cluster_of_ref(b->c, ref);
  return cluster != NULL && cluster != b->cluster;
}

// Declares the arguments of the cluster's ops, each once: split arguments or,
// with `of_ids`, the inputs that are replica ids.
static ls_status list_arguments(body *b, bool of_ids) {
  const ls_graph *from = b->c->from;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    if (ls_cluster_at(b->c, i) != b->cluster) continue;
    const ls_node *node = from->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const uint64_t ref = node->inputs[k];
      ls_node *input = ls_graph_node_of(from, ref);
      if (ls_map_find_u64(&b->inner.refs, ref) != NULL ||
          ls_map_find_u64(&b->c->refs, ref) != NULL)
        continue;
      if (!of_ids && is_of_other(b, ref))
        LS_RETURN_IF_ERROR(cluster_declare(b, ref));
      if (input->type != LS_OP_TPU_REPLICATED_INPUT) continue;
      LS_RETURN_IF_ERROR(check_input(b, input));
      const bool is_id = is_replica_id(from, input);
      if (!of_ids && !is_id && !is_one_value(input))
        LS_RETURN_IF_ERROR(cluster_declare(b, ref));
      if (!of_ids || !is_id) continue;
      ls_node *id = ls_graph_append(
          b->inner.to, &(ls_op_spec){.type = LS_OP_REPLICA_ID}, NULL, 1);
      if (id == NULL) return ls_out_of_memory();
      id->outputs[0] = input->outputs[0];
      ls_node_take_name(id, b->c->from, input);
      LS_RETURN_IF_ERROR(ls_copying_set(&b->inner, ref, ls_ref(id->id, 0)));
    }
  }
  return ls_ok();
}

// Captures the inputs that have one value for all replicas, at their first use.
static ls_status take_common(body *b, const ls_node *node) {
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    const uint64_t ref = node->inputs[k];
    const ls_node *input = ls_graph_node_of(b->c->from, ref);
    if (input->type != LS_OP_TPU_REPLICATED_INPUT ||
        ls_map_find_u64(&b->inner.refs, ref) != NULL ||
        ls_map_find_u64(&b->c->refs, ref) != NULL)
      continue;
    uint64_t value = 0;
    LS_RETURN_IF_ERROR(ls_copied(&b->inner, NULL, input->inputs[0], &value));
    LS_RETURN_IF_ERROR(ls_copying_set(&b->inner, ref, value));
  }
  return ls_ok();
}

// ---- The body --------------------------------------------------------------
static ls_status copy_members(body *b) {
  const ls_graph *from = b->c->from;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    ls_node *node = from->nodes[i];
    if (ls_cluster_at(b->c, i) != b->cluster ||
        node->type == LS_OP_TPU_REPLICATE_METADATA)
      continue;
    bool is_of_step = false;
    LS_RETURN_IF_ERROR(take_common(b, node));
    LS_RETURN_IF_ERROR(ls_copy_host_step(&b->inner, i, &is_of_step));
    if (!is_of_step) LS_RETURN_IF_ERROR(ls_gather_node(&b->inner, node));
  }
  return ls_ok();
}

static ls_status cluster_add_result(body *b, ls_node *user, uint64_t ref) {
  if (ls_cluster_of_ref(b->c, ref) != b->cluster ||
      ls_map_find_u64(&b->c->refs, ref) != NULL ||
      ls_map_find_u64(&b->cluster->results, ref) != NULL)
    return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_copied(&b->inner, user, ref, &b->results[b->num_results]));
  return ls_memory_status(ls_map_insert_u64(
      &b->cluster->results, ref, (void *)(uintptr_t)++b->num_results));
}

// Lists the values that outputs and other computations use.
static ls_status cluster_list_results(body *b) {
  const ls_graph *from = b->c->from;
  size_t most = 0;
  for (size_t i = 0; i < from->num_nodes; ++i)
    if (ls_cluster_at(b->c, i) == b->cluster)
      most += from->nodes[i]->num_outputs;
  LS_ARENA_SET_OR_RETURN(b->c->memory, uint64_t, b->results, most + 1);
  for (size_t i = 0; i < from->num_nodes; ++i) {
    ls_node *node = from->nodes[i];
    const ls_cluster *other = ls_cluster_at(b->c, i);
    if (!b->c->level->needed[i] || other == b->cluster ||
        (other == NULL && node->type != LS_OP_TPU_REPLICATED_OUTPUT))
      continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      LS_RETURN_IF_ERROR(cluster_add_result(b, node, node->inputs[k]));
  }
  return ls_graph_set_results(b->inner.to, b->results, b->num_results);
}

// ---- The op ----------------------------------------------------------------
// Returns the copy of replica r's value of a split argument.
static ls_status copied_for(const body *b, uint64_t ref, size_t replica,
                            uint64_t *out_ref) {
  const ls_cluster *other = ls_cluster_of_ref(b->c, ref);
  if (other == NULL)
    return ls_copied(b->c, b->cluster->metadata,
                     ls_graph_node_of(b->c->from, ref)->inputs[replica],
                     out_ref);
  const size_t number = (uintptr_t)ls_map_find_u64(&other->results, ref) - 1;
  *out_ref = ls_ref(other->op, (unsigned)(number * other->replicas + replica));
  return ls_ok();
}

static ls_status cluster_list_inputs(body *b, uint64_t **out_inputs,
                                     size_t *out_count) {
  const size_t replicas = b->cluster->replicas;
  const size_t most =
      b->num_split * replicas + ls_count_captures(&b->inner.to, 1);
  size_t count = 0;
  LS_ARENA_ARRAY_OR_RETURN(b->c->memory, uint64_t, inputs, most + 1);
  for (size_t s = 0; s < b->num_split; ++s)
    for (size_t r = 0; r < replicas; ++r)
      LS_RETURN_IF_ERROR(copied_for(b, b->split[s], r, &inputs[count++]));
  count += ls_list_capture_refs(&b->inner.to, 1, inputs + count);
  *out_inputs = inputs;
  *out_count = count;
  return ls_ok();
}

// Lists the outside ops for which a member waits: the replicate op waits for
// them.
static ls_status list_control(body *b, ls_op_spec *spec) {
  const ls_graph *from = b->c->from;
  LS_ARENA_ARRAY_OR_RETURN(b->c->memory, ls_op, control, from->num_nodes + 1);
  LS_ARENA_ARRAY_OR_RETURN(b->c->memory, bool, seen, b->c->to->next_id + 1);
  spec->control = control;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    if (ls_cluster_at(b->c, i) != b->cluster) continue;
    const ls_node *node = from->nodes[i];
    for (uint32_t k = 0; k < node->num_control; ++k) {
      const uint64_t id =
          (uintptr_t)ls_map_find_u64(&b->c->ids, node->control[k]);
      if (id == 0 || seen[id]) continue;
      seen[id] = true;
      control[spec->num_control++] = (ls_op){b->c->to, id};
    }
  }
  return ls_ok();
}

static ls_status infer(body *b, const ls_op_spec *spec, const uint64_t *inputs,
                       ls_infer *out) {
  LS_ARENA_ARRAY_OR_RETURN(b->c->memory, ls_type, in, spec->num_inputs + 1);
  LS_ARENA_NEW_OR_RETURN(b->c->memory, ls_type, type);
  for (size_t i = 0; i < spec->num_inputs; ++i)
    in[i] = ls_graph_type(b->c->to, inputs[i]);
  return ls_infer_run(out, spec, in, spec->num_inputs, type, b->c->memory);
}

// Appends the replicate op. It takes the attributes, name and source position
// of the metadata op.
static ls_status cluster_append(body *b) {
  const ls_node *metadata = b->cluster->metadata;
  const size_t num_own = 3;
  LS_ARENA_ARRAY_OR_RETURN(b->c->memory, ls_attr, attrs,
                           num_own + metadata->num_attrs);
  uint64_t *inputs = NULL;
  attrs[0] = LS_OWN_I(REPLICAS, (int64_t)b->cluster->replicas);
  attrs[1] = LS_OWN_I(NUM_SPLIT, (int64_t)b->num_split);
  attrs[2] = LS_OWN_I(NUM_GATHERED, (int64_t)b->num_results);
  memcpy(attrs + num_own, metadata->attrs,
         metadata->num_attrs * sizeof(*attrs));
  ls_op_spec spec = {.type = LS_OP_REPLICATE,
                     .attrs = attrs,
                     .num_attrs = num_own + metadata->num_attrs,
                     .regions = &b->inner.to,
                     .num_regions = 1};
  ls_infer types;
  LS_RETURN_IF_ERROR(cluster_list_inputs(b, &inputs, &spec.num_inputs));
  LS_RETURN_IF_ERROR(list_control(b, &spec));
  LS_RETURN_IF_ERROR(infer(b, &spec, inputs, &types));
  ls_node *node = ls_graph_append(b->c->to, &spec, inputs, types.num_out);
  if (node == NULL) return ls_out_of_memory();
  memcpy(node->outputs, types.out, types.num_out * sizeof(*types.out));
  b->inner.to = NULL;  // The op owns the region now.
  ls_node_take_name(node, b->c->from, metadata);
  b->cluster->op = node->id;
  return ls_ok();
}

// Maps the members to the replicate op: an op that waits for a member then
// waits for the whole computation.
static ls_status note_members(const body *b) {
  for (size_t i = 0; i < b->c->from->num_nodes; ++i)
    if (ls_cluster_at(b->c, i) == b->cluster)
      LS_RETURN_IF_ERROR(
          ls_copying_set_op(b->c, b->c->from->nodes[i]->id, b->cluster->op));
  return ls_ok();
}

static ls_status cluster_make(body *b) {
  const ls_graph *from = b->c->from;
  size_t most = 0;
  for (size_t i = 0; i < from->num_nodes; ++i)
    most += from->nodes[i]->num_outputs;
  LS_ARENA_SET_OR_RETURN(b->c->memory, uint64_t, b->split, most + 1);
  LS_RETURN_IF_ERROR(list_arguments(b, false));
  LS_RETURN_IF_ERROR(list_arguments(b, true));
  LS_RETURN_IF_ERROR(ls_find_host_steps(&b->inner));
  LS_RETURN_IF_ERROR(copy_members(b));
  LS_RETURN_IF_ERROR(cluster_list_results(b));
  LS_RETURN_IF_ERROR(cluster_append(b));
  return note_members(b);
}

ls_status ls_copy_cluster(ls_copying *c, ls_cluster *cluster) {
  LS_OWN(body, b) = {.c = c, .cluster = cluster};
  ls_graph *region = NULL;
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, cluster->name,
                                   c->from->runtime, c->to, &region));
  region->is_replica = true;
  region->trains = c->from->trains;
  LS_RETURN_IF_ERROR(ls_gather_begin(&b.inner, c, c->from, region, c->memory));
  b.inner.is_body = true;
  b.inner.level->inside = cluster;
  if (c->level->shows_copies > 0)
    b.inner.level->shows_copies = cluster->replicas;
  return cluster_make(&b);
}

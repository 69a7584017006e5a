// SPDX-License-Identifier: Apache-2.0
//
// Computations for serving. They read their variables once, outside of the
// computation, because nobody writes them while serving. Also cleans up a graph
// before it is exported.
#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/gather/gather.h"
#include "graph/make/make.h"
#include "graph/walk.h"
#include "lockstep/shard.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/context.h"

// ---- Read variables outside ------------------------------------------------
typedef struct inference {
  ls_flow flow;
  ls_callback fn;
  void *user;
  ls_map made;  // Variable -> number of its read, plus 1.
  ls_tensor *reads;
  size_t num_reads, capacity;
} inference;

static ls_tensor guarantee_constant(ls_variable *variable) {
  LS_CONTROL_SCOPE(NULL, 0);
  const ls_tensor value = ls_variable_read(variable);
  char name[LS_MAX_NAME + 2];
  snprintf(name, sizeof(name), "%s/", ls_variable_name(variable));
  LS_NAME_SCOPE(NULL);
  LS_NAME_SCOPE(name);
  return ls_op_output(
      ls_make_op(LS_OP_GUARANTEE_CONST, "GuaranteeConst", &value, 1, NULL, 0),
      0);
}

static ls_tensor read_outside(ls_flow *flow, ls_variable *variable) {
  inference *self = (inference *)flow;
  const size_t place = (size_t)(uintptr_t)ls_map_find_u64(
      &self->made, (uint64_t)(uintptr_t)variable);
  return place == 0 ? ls_failed_tensor() : self->reads[place - 1];
}

static ls_status note_made(const ls_creator *next,
                           const ls_variable_options *options, void *user,
                           ls_variable **out_variable) {
  inference *self = user;
  LS_RETURN_IF_ERROR(ls_creator_create(next, options, out_variable));
  if (ls_grow(ls_current_allocator(), &self->reads, &self->capacity,
              self->num_reads + 1, sizeof(*self->reads))) {
    self->reads[self->num_reads++] = guarantee_constant(*out_variable);
    if (ls_map_insert_u64(&self->made, (uint64_t)(uintptr_t)*out_variable,
                          (void *)(uintptr_t)self->num_reads))
      return ls_ok();
  }
  ls_variable_release(*out_variable);
  *out_variable = NULL;
  return ls_out_of_memory();
}

// ---- Checks ----------------------------------------------------------------
static ls_status inference_admit(ls_flow *flow, ls_op_spec *spec,
                                 ls_arena *memory) {
  (void)flow, (void)memory;
  for (size_t i = 0; i < spec->num_attrs; ++i) {
    const ls_attr *attr = &spec->attrs[i];
    if (attr->name == NULL || strcmp(attr->name, "variable") != 0) continue;
    return ls_unimplemented(
        "%s '%s' of variable '%s' in a computation for inference, which reads "
        "only variables that it has made, and writes none",
        ls_op_table[spec->type].name,
        spec->name != NULL ? spec->name : ls_op_table[spec->type].name,
        ls_variable_name((ls_variable *)attr->as.object));
  }
  return ls_ok();
}

static const ls_flow_type serving = {.name = "a computation for inference",
                                     .admit = inference_admit,
                                     .read = read_outside};

static ls_nest inference_call(ls_nest args, void *user) {
  inference *self = user;
  LS_SCOPE_BLOCK_(scope);
  ls_flow_begin(&scope, &self->flow);
  LS_CREATOR_SCOPE(note_made, self);
  return self->fn(args, self->user);
}

ls_status ls_rewrite_for_inference(ls_callback fn, void *user, ls_nest inputs,
                                   const ls_replicate_options *options,
                                   ls_nest *outputs) {
  LS_REQUIRE_OUT(outputs);
  LS_REQUIRE(fn);
  ls_allocator *allocator = ls_current_allocator();
  inference self = {.flow = {&serving}, .fn = fn, .user = user};
  LS_OWN_FIELD(allocator, self.reads);
  ls_map_init(&self.made, allocator);
  const ls_status status =
      ls_rewrite(inference_call, &self, inputs, options, outputs);
  ls_map_deinit(&self.made);
  return status;
}

// ---- Search graphs ---------------------------------------------------------
ls_status ls_validate_inference_rewrite(const ls_graph *graph) {
  LS_REQUIRE(graph);
  if (ls_graph_any_type(graph, LS_OP_GUARANTEE_CONST)) return ls_ok();
  return ls_failed_precondition(
      "graph '%s' has no op of type guarantee_const: none of its computations "
      "was rewritten for inference",
      graph->name);
}

static bool is_used(const ls_graph *graph, uint64_t id) {
  for (size_t i = 0; i < graph->num_results; ++i)
    if (ls_ref_id(graph->results[i]) == id) return true;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t k = 0; k < graph->nodes[i]->num_inputs; ++k)
      if (ls_ref_id(graph->nodes[i]->inputs[k]) == id) return true;
  return false;
}

ls_status ls_prune_unconnected_ops(ls_graph *graph) {
  LS_REQUIRE(graph);
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    if (node->type != LS_OP_PLACEHOLDER && node->type != LS_OP_READ) continue;
    if (ls_node_mark(node, LS_MARK_REPLICATE) == NULL ||
        is_used(walk.graph, node->id))
      continue;
    ls_node_drop_mark(node, LS_MARK_REPLICATE);
    ls_tpu_log(graph->runtime, LS_LOG_INFO,
               "op '%s' (%s), which is unused, is removed from its computation",
               ls_op_name((ls_op){walk.graph, node->id}),
               ls_node_info(node)->name);
  }
  return ls_ok();
}

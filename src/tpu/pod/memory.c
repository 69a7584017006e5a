// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/memory.h"

#include "base/memory/own.h"
#include "base/text.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

static int64_t bytes_of(ls_type type) {
  return (int64_t)ls_dtype_size(type.dtype) * ls_shape_num_elements(type.shape);
}

int64_t ls_core_memory_bytes(const ls_core_memory *memory) {
  const ls_program *program = memory->program;
  const ls_plan_facts *facts = memory->facts;
  int64_t bytes = (int64_t)facts->constant_bytes;
  for (size_t i = 0; i < program->num_uses; ++i)
    bytes += bytes_of(program->uses[i].type);
  // What all replicas share is spread over them, and what one works with over
  // its cores.
  const int64_t shared = (int64_t)facts->shared_bytes / memory->replicas +
                         (int64_t)facts->frame_bytes;
  return bytes + shared / memory->cores_per_replica;
}

// ---- The largest values ----------------------------------------------------
enum { LARGEST = 3 };

typedef struct large_value {
  int64_t bytes;
  const ls_variable *variable;  // Or
  const ls_node *node;          // of this graph.
  const ls_graph *graph;
} large_value;

static void note(large_value *values, large_value value) {
  for (int i = 0; i < LARGEST; ++i) {
    if (value.bytes <= values[i].bytes) continue;
    const large_value smaller = values[i];
    values[i] = value;
    value = smaller;
  }
}

static void note_nodes(large_value *values, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_node *node = walk.node;
    if (node->type == LS_OP_PARAMETER || node->num_regions > 0) continue;
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      note(values, (large_value){.bytes = bytes_of(node->outputs[k]),
                                 .node = node,
                                 .graph = walk.graph});
  }
}

static void print_value(ls_text *text, const large_value *value) {
  if (value->variable != NULL) {
    ls_text_append_format(text, "%lld of variable '%s'",
                          (long long)value->bytes, value->variable->name);
    return;
  }
  const ls_op source =
      ls_node_source((ls_graph *)(uintptr_t)value->graph, value->node);
  ls_text_append_format(text, "%lld of %s", (long long)value->bytes,
                        ls_node_info(value->node)->name);
  if (ls_graph_node(source.graph, source.id) != NULL &&
      source.graph != value->graph)
    ls_text_append_format(text, " '%s'", ls_op_name(source));
}

ls_status ls_core_memory_check(const ls_core *core, int64_t limit,
                               const ls_core_memory *memory) {
  const int64_t bytes = ls_core_memory_bytes(memory);
  if (bytes <= limit) return ls_ok();
  const ls_program *program = memory->program;
  large_value values[LARGEST] = {{0}};
  for (size_t i = 0; i < program->num_uses; ++i)
    note(values,
         (large_value){.bytes = bytes_of(program->uses[i].type),
                       .variable = (ls_variable *)program->uses[i].variable});
  note_nodes(values, program->body);
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, core->pod->allocator);
  for (int i = 0; i < LARGEST && values[i].bytes > 0; ++i) {
    if (i > 0) ls_text_append(&text, ", ");
    print_value(&text, &values[i]);
  }
  ls_status status = ls_text_status(&text);
  ls_device_name name;
  ls_core_device(core, &name);
  if (ls_status_is_ok(status))
    status = LS_STATUS(LS_RESOURCE_EXHAUSTED,
                       "the program needs %lld bytes of core %s, which has "
                       "%lld; its largest values: %s",
                       (long long)bytes, name.text, (long long)limit,
                       text.data != NULL ? text.data : "none");
  return status;
}

// SPDX-License-Identifier: Apache-2.0
//
// Tapes: recorded intervals of the eager graph. While a tape is open, nodes
// keep operands and attributes; its gradient is the ordinary backward pass over
// these nodes, whose ops run as they are made.
#include "base/memory/own.h"
#include "base/require.h"
#include "grad/grad.h"
#include "graph/walk.h"
#include "runtime/eager/eager.h"

// Returns true if the tape records here. Replicas run in turns on one graph, so
// a replica's tape does not record other replicas.
static bool records(const ls_tape *tape, const ls_context *context) {
  if (tape->end_id != 0) return false;
  if (tape->replica != 0 && context->replica != 0 &&
      tape->replica != context->replica)
    return false;
  const ls_tape_walk *walk = ls_runtime_work_here()->walks;
  while (walk != NULL && walk->tape != tape)
    walk = walk->outer;
  return walk == NULL;
}

bool ls_eager_is_recording(const ls_graph *graph) {
  const ls_eager *eager = ls_eager_of(graph);
  if (eager->tape == NULL) return false;
  ls_context *context = ls_context_current();
  if (ls_runtime_scoped_of(context)->unrecorded) return false;
  const ls_tape *tape = eager->tape;
  while (tape != NULL && !records(tape, context))
    tape = tape->outer;
  return tape != NULL;
}

ls_status ls_tape_begin(ls_tape **out_tape) {
  LS_REQUIRE_OUT(out_tape);
  ls_runtime *runtime = ls_runtime_current();
  ls_graph *graph = NULL;
  LS_RETURN_IF_NO_MEMORY(runtime);
  LS_RETURN_IF_ERROR(ls_eager_graph(runtime, &graph));
  LS_NEW_OR_RETURN(graph->allocator, ls_tape, tape);
  ls_eager *eager = ls_eager_of(graph);
  tape->graph = graph;
  tape->replica = ls_context_current()->replica;
  tape->outer = eager->tape;
  tape->frame = ls_eager_frame(eager);
  tape->first_id = graph->next_id;
  eager->tape = tape;
  graph->losses.reduction = NULL;  // A loss scaled earlier is not on this tape.
  *out_tape = tape;
  return ls_ok();
}

static const ls_scope_type unrecorded_scope = {.name =
                                                   "a scope without recording"};

void ls_stop_recording_begin(ls_scope *scope) {
  ls_context *context = ls_context_open(scope, &unrecorded_scope);
  ls_runtime_scoped_of(context)->unrecorded = true;
}

ls_status ls_tape_watch(ls_tape *tape, ls_tensor tensor) {
  LS_REQUIRE(tape);
  if (tensor.ref == 0) return ls_made_status(ls_identity(tensor));
  if (tensor.graph != tape->graph ||
      ls_graph_node_of(tape->graph, tensor.ref) == NULL)
    return ls_invalid_argument("a tape watches values of its own eager graph");
  LS_PUSH_OR_RETURN(tape->graph->allocator, tape->watched, tape->num_watched,
                    tape->watched_capacity, tensor.ref);
  return ls_ok();
}

ls_status ls_tape_end(ls_tape *tape) {
  LS_REQUIRE(tape);
  if (tape->end_id != 0)
    return ls_failed_precondition("the tape has been ended before");
  tape->end_id = tape->graph->next_id;
  return ls_ok();
}

void ls_tape_release(ls_tape *tape) {
  if (tape == NULL) return;
  ls_eager *eager = ls_eager_of(tape->graph);
  for (ls_tape **at = &eager->tape; *at != NULL; at = &(*at)->outer)
    if (*at == tape) {
      *at = tape->outer;
      break;
    }
  ls_release(tape->graph->allocator, tape->watched);
  ls_release(tape->graph->allocator, tape);
}

// ---- Watched values --------------------------------------------------------
static bool is_read(const ls_node *node) { return node->type == LS_OP_READ; }

// Returns true if gradients flow to an op from within: it reads a variable, or
// has a loop or branch that does.
static bool is_source(const ls_node *node) {
  bool is_one = is_read(node);
  for (uint32_t i = 0; i < node->num_regions; ++i)
    is_one |= ls_graph_any(node->regions[i], is_read);
  return is_one;
}

static bool was_told(const ls_tape *tape, uint64_t ref) {
  for (size_t i = 0; i < tape->num_watched; ++i)
    if (tape->watched[i] == ref) return true;
  return false;
}

// Returns true if a value made on the tape comes from watched values. The marks
// are by position, for ops from position `first` on.
static bool descends(const ls_tape *tape, uint64_t ref, size_t first,
                     const bool *marks) {
  return was_told(tape, ref) ||
         (ls_ref_id(ref) >= tape->first_id &&
          marks[ls_graph_position(tape->graph, ls_ref_id(ref)) - first]);
}

// Marks the ops of the tape whose results come from watched values.
static void mark_descendants(const ls_tape *tape, size_t first, bool *marks) {
  const ls_graph *graph = tape->graph;
  for (size_t i = first; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    bool *mark = &marks[i - first];
    *mark = is_source(node);
    for (uint32_t k = 0; k < node->num_outputs && !*mark; ++k)
      *mark = was_told(tape, ls_ref(node->id, k));
    for (uint32_t k = 0; k < node->num_inputs && !*mark; ++k)
      *mark = ls_graph_node_of(graph, node->inputs[k]) != NULL &&
              descends(tape, node->inputs[k], first, marks);
  }
}

static bool has_made_tensors(const ls_tape *tape, const ls_nest *xs,
                             size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (xs[i].kind == LS_KIND_TENSOR &&
        ls_ref_id(xs[i].as.tensor.ref) >= tape->first_id)
      return true;
  return false;
}

// Returns true if `x` has a gradient: a variable, a tensor after ls_tape_watch,
// or one that the tape has made of these.
static bool is_watched(const ls_tape *tape, ls_nest x, size_t first,
                       const bool *marks) {
  if (x.kind == LS_KIND_VARIABLE) return true;
  return x.kind == LS_KIND_TENSOR && x.as.tensor.graph == tape->graph &&
         ls_graph_node_of(tape->graph, x.as.tensor.ref) != NULL &&
         descends(tape, x.as.tensor.ref, first, marks);
}

ls_status ls_tape_gradients(ls_tape *tape, ls_nest y, const ls_nest *xs,
                            size_t num_xs, ls_nest *grads) {
  LS_REQUIRE(grads);
  for (size_t i = 0; i < num_xs; ++i)
    grads[i] = ls_none();
  LS_REQUIRE(tape);
  LS_REQUIRE_ITEMS(xs, num_xs);
  const uint64_t end = tape->end_id != 0 ? tape->end_id : tape->graph->next_id;
  const size_t first = ls_graph_first_position(tape->graph, tape->first_id);
  LS_OWN_ARRAY_OR_RETURN(tape->graph->allocator, ls_nest, watched, num_xs * 2);
  LS_OWN_ARRAY_OR_RETURN(tape->graph->allocator, bool, marks,
                         tape->graph->num_nodes - first);
  if (has_made_tensors(tape, xs, num_xs)) mark_descendants(tape, first, marks);
  size_t count = 0;
  for (size_t i = 0; i < num_xs; ++i)
    if (is_watched(tape, xs[i], first, marks)) watched[count++] = xs[i];
  // Keeps the tape from recording the backward pass itself.
  ls_runtime_work *work = ls_runtime_work_here();
  const ls_tape_walk walk = {work->walks, tape};
  work->walks = &walk;
  const ls_status status =
      ls_gradients_walk(tape->graph, tape->first_id, end, &y, 1, watched, count,
                        NULL, &watched[num_xs]);
  work->walks = walk.outer;
  if (ls_status_is_ok(status))
    for (size_t i = 0, k = 0; i < num_xs; ++i)
      if (is_watched(tape, xs[i], first, marks))
        grads[i] = watched[num_xs + k++];
  return status;
}

// Returns the variable that is read; for a component its container.
static const ls_variable *whole_of(const ls_node *read) {
  const ls_variable *variable = ls_node_named_variable(read);
  return variable->container != NULL ? variable->container : variable;
}

static bool is_on_tape(const ls_tape *tape, const ls_node *node) {
  return node->type == LS_OP_READ && node->id >= tape->first_id &&
         (tape->end_id == 0 || node->id < tape->end_id) &&
         (tape->replica == 0 || node->replica == 0 ||
          node->replica == tape->replica) &&
         node->num_attrs != 0;
}

static bool was_read_before(const ls_tape *tape, size_t position) {
  const ls_graph *graph = tape->graph;
  for (size_t k = 0; k < position; ++k)
    if (is_on_tape(tape, graph->nodes[k]) &&
        whole_of(graph->nodes[k]) == whole_of(graph->nodes[position]))
      return true;
  return false;
}

size_t ls_tape_list(const ls_tape *tape, bool by_component,
                    ls_variable **variables, size_t capacity) {
  const ls_graph *graph = tape->graph;
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    if (!is_on_tape(tape, graph->nodes[i])) continue;
    ls_variable *whole = (ls_variable *)(uintptr_t)whole_of(graph->nodes[i]);
    if (!whole->trainable || was_read_before(tape, i)) continue;
    const size_t parts = by_component ? whole->num_components : 0;
    for (size_t c = 0; c < (parts == 0 ? 1 : parts); ++c, ++count)
      if (count < capacity)
        variables[count] = parts == 0 ? whole : ls_variable_seen(whole, c);
  }
  return count;
}

size_t ls_tape_variables(const ls_tape *tape, ls_variable **variables,
                         size_t capacity) {
  // In a replica the whole variable is watched, elsewhere its components.
  return ls_tape_list(tape, ls_context_current()->hooks == NULL, variables,
                      capacity);
}

// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan.h"

#include "base/values/array_internal.h"
#include "graph/gather/gather.h"
#include "graph/walk.h"
#include "runtime/compiled.h"

// ---- Sets of nodes ---------------------------------------------------------
enum { NONE = UINT32_MAX };

// Finds the parts: disjoint sets of the graph's nodes, joined step by step.
typedef struct finder {
  const ls_lower_request *request;
  const ls_graph *graph;
  bool *needed;
  uint32_t *parent;  // Towards the root of a set; a root is its own parent.
  uint32_t *effect;  // Node with effects in the same part, or NONE.
  bool *waits;       // Indexed by root: the set has a node that waits.
  ls_map variables;  // Family -> 1 + position of a node that uses it.
  ls_map written;    // Families that are written.
  ls_map states;     // State of host kernels -> 1 + position of a node.
  ls_map orders;     // Order key of host kernels -> 1 + position of a node.
} finder;

static uint32_t parts_root_of(const finder *f, uint32_t i) {
  while (f->parent[i] != i)
    i = f->parent[i];
  return i;
}

static void parts_join(finder *f, uint32_t a, uint32_t b) {
  const uint32_t to = parts_root_of(f, a), from = parts_root_of(f, b);
  f->parent[from] = to;
  f->waits[to] |= f->waits[from];
}

// ---- Needed nodes ----------------------------------------------------------
static bool is_fed(const finder *f, uint64_t ref) {
  return ls_is_fed(f->request->feeds, f->request->num_feeds, ref);
}

static void parts_need(finder *f, uint64_t id) {
  const size_t at = ls_graph_position(f->graph, id);
  if (at != SIZE_MAX) f->needed[at] = true;
}

static void mark_needed(finder *f) {
  const ls_lower_request *request = f->request;
  for (size_t i = 0; i < request->num_fetches; ++i)
    if (!is_fed(f, request->fetches[i]))
      parts_need(f, ls_ref_id(request->fetches[i]));
  for (size_t i = 0; i < request->num_targets; ++i)
    parts_need(f, request->targets[i].id);
  for (size_t i = f->graph->num_nodes; i-- > 0;) {
    const ls_node *node = f->graph->nodes[i];
    if (!f->needed[i]) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      if (!is_fed(f, node->inputs[k]))
        parts_need(f, ls_ref_id(node->inputs[k]));
    for (uint32_t k = 0; k < node->num_control; ++k)
      parts_need(f, node->control[k]);
  }
}

// ---- Ties ------------------------------------------------------------------
static bool waits(const ls_node *node) {
  if (node->type != LS_OP_HOST) return false;
  const ls_attr *kernel = ls_node_attr(node, LS_ATTR_ID_KERNEL);
  return (kernel->as.kernel->flags & LS_HOST_WAITS) != 0;
}

// Returns true if `visit` returns true for the node or for one in its regions.
static bool any_inside(finder *f, const ls_node *node, uint32_t at,
                       bool (*visit)(finder *f, const ls_node *node,
                                     uint32_t at)) {
  bool found = false;
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);)
    found |= visit(f, walk.node, at);
  return found;
}

// Returns true without memory.
static bool visit_write(finder *f, const ls_node *node, uint32_t at) {
  (void)at;
  return ls_node_assigns(node) &&
         !ls_map_insert_u64(&f->written, ls_node_named_variable(node)->family,
                            f);
}

// Joins a node with the first node of this key.
static bool join_by(finder *f, ls_map *map, uint64_t key, uint32_t at) {
  const uintptr_t first = (uintptr_t)ls_map_find_u64(map, key);
  if (first != 0) parts_join(f, (uint32_t)first - 1, at);
  return first != 0 || ls_map_insert_u64(map, key, (void *)((uintptr_t)at + 1));
}

static bool visit_variable(finder *f, const ls_node *node, uint32_t at) {
  const ls_variable *variable = ls_node_named_variable(node);
  if (variable == NULL ||
      ls_map_find_u64(&f->written, variable->family) == NULL)
    return false;
  f->effect[at] = at;
  return !join_by(f, &f->variables, variable->family, at);
}

static bool visit_state(finder *f, const ls_node *node, uint32_t at) {
  if (node->type != LS_OP_HOST) return false;
  f->effect[at] = at;
  const ls_attr *state = ls_node_attr(node, LS_ATTR_ID_STATE);
  if (state == NULL) return false;
  const ls_host_kernel *kernel =
      ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel;
  if (kernel->order != NULL)
    return !join_by(f, &f->orders, kernel->order(state->as.object), at);
  return !waits(node) &&
         !join_by(f, &f->states, (uint64_t)(uintptr_t)state->as.object, at);
}

// Ties a node to all nodes with effects that it needs through values and
// control edges.
static void join_inputs(finder *f, const ls_node *node, uint32_t at) {
  for (uint32_t k = 0; k < node->num_inputs + node->num_control; ++k) {
    const bool is_value = k < node->num_inputs;
    if (is_value && is_fed(f, node->inputs[k])) continue;
    const size_t from = ls_graph_position(
        f->graph, is_value ? ls_ref_id(node->inputs[k])
                           : node->control[k - node->num_inputs]);
    if (from == SIZE_MAX || f->effect[from] == NONE) continue;
    if (f->effect[at] == NONE)
      f->effect[at] = f->effect[from];
    else
      parts_join(f, f->effect[at], f->effect[from]);
  }
}

static size_t count_waiting(const finder *f) {
  size_t count = 0;
  for (uint32_t i = 0; i < f->graph->num_nodes; ++i)
    count += f->needed[i] && f->effect[i] == i && parts_root_of(f, i) == i &&
             f->waits[i];
  return count;
}

static ls_status join_all(finder *f) {
  const uint32_t count = (uint32_t)f->graph->num_nodes;
  bool failed = false;
  for (uint32_t i = 0; i < count; ++i)
    if (f->needed[i])
      failed |= any_inside(f, f->graph->nodes[i], i, visit_write);
  for (uint32_t i = 0; i < count && !failed; ++i) {
    const ls_node *node = f->graph->nodes[i];
    if (!f->needed[i]) continue;
    if (ls_node_has_effects(node)) f->effect[i] = i;
    failed |= any_inside(f, node, i, visit_variable);
    failed |= any_inside(f, node, i, visit_state);
    join_inputs(f, node, i);
  }
  return failed ? ls_out_of_memory() : ls_ok();
}

// ---- Parts -----------------------------------------------------------------
// Returns the part of a node; all sets that do not wait are the first part.
static uint32_t parts_part_of(const finder *f, uint64_t id, uint32_t *numbers,
                              size_t *count) {
  const size_t at = ls_graph_position(f->graph, id);
  if (at == SIZE_MAX || f->effect[at] == NONE) return 0;
  const uint32_t root = parts_root_of(f, f->effect[at]);
  if (!f->waits[root]) return 0;
  if (numbers[root] == NONE) numbers[root] = (uint32_t)(*count)++;
  return numbers[root];
}

static void number_parts(const finder *f, uint32_t *numbers,
                         ls_program_parts *out) {
  const ls_lower_request *request = f->request;
  size_t count = 0;
  for (size_t i = 0; i < request->num_fetches; ++i)
    out->fetches[i] =
        is_fed(f, request->fetches[i])
            ? 0
            : parts_part_of(f, ls_ref_id(request->fetches[i]), numbers, &count);
  for (size_t i = 0; i < request->num_targets; ++i)
    out->targets[i] = parts_part_of(f, request->targets[i].id, numbers, &count);
  out->count = count;
}

static ls_status parts_find(finder *f, ls_arena *memory,
                            ls_program_parts *out) {
  const size_t count = f->graph->num_nodes;
  mark_needed(f);
  size_t num_waiting = 0;
  for (uint32_t i = 0; i < count; ++i) {
    f->parent[i] = i;
    f->effect[i] = NONE;
    f->waits[i] = f->needed[i] && ls_node_any(f->graph->nodes[i], waits);
    num_waiting += f->waits[i];
  }
  if (num_waiting < 2) return ls_ok();
  LS_RETURN_IF_ERROR(join_all(f));
  if (count_waiting(f) < 2) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(memory, uint32_t, numbers, count);
  memset(numbers, 0xff, count * sizeof(*numbers));
  number_parts(f, numbers, out);
  return ls_ok();
}

// Finds the parts of a request. Results and temporary data are in the arena.
static ls_status find_parts(const ls_lower_request *request, ls_arena *memory,
                            ls_program_parts *out_parts) {
  const size_t count = request->graph->num_nodes;
  finder f = {.request = request, .graph = request->graph};
  f.needed = ls_arena_new_array(memory, bool, count + 1);
  f.waits = ls_arena_new_array(memory, bool, count + 1);
  f.parent = ls_arena_new_array(memory, uint32_t, count + 1);
  f.effect = ls_arena_new_array(memory, uint32_t, count + 1);
  *out_parts = (ls_program_parts){
      .count = 1,
      .fetches = ls_arena_new_array(memory, uint32_t, request->num_fetches + 1),
      .targets =
          ls_arena_new_array(memory, uint32_t, request->num_targets + 1)};
  if (f.needed == NULL || f.waits == NULL || f.parent == NULL ||
      f.effect == NULL || out_parts->fetches == NULL ||
      out_parts->targets == NULL)
    return ls_out_of_memory();
  ls_allocator *allocator = request->graph->allocator;
  ls_map_init(&f.variables, allocator);
  ls_map_init(&f.written, allocator);
  ls_map_init(&f.states, allocator);
  ls_map_init(&f.orders, allocator);
  const ls_status status = parts_find(&f, memory, out_parts);
  ls_map_deinit(&f.variables);
  ls_map_deinit(&f.written);
  ls_map_deinit(&f.states);
  ls_map_deinit(&f.orders);
  return status;
}

void ls_plan_destroy(ls_plan *plan) {
  while (plan != NULL) {
    ls_plan *next = plan->next;
    for (size_t i = 0; plan->parts != NULL && i < plan->num_parts; ++i) {
      if (plan->parts[i] == NULL) continue;
      ls_compiled_forget_store(plan->parts[i], plan->store);
      ls_compiled_release(plan->parts[i]);
    }
    ls_release(plan->allocator, plan->parts);
    ls_release(plan->allocator, plan->feeds);
    ls_result_map_deinit(&plan->results, plan->allocator);
    ls_release(plan->allocator, plan);
    plan = next;
  }
}

// ---- Compiling -------------------------------------------------------------
// Chooses the fetches and targets of one part, and its outputs among the
// plan's.
static ls_status plan_choose(const ls_lower_request *all,
                             const ls_program_parts *parts, uint32_t number,
                             ls_arena *memory, ls_lower_request *out_part) {
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, fetches, all->num_fetches + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, uint32_t, outputs, all->num_fetches + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_op, targets, all->num_targets + 1);
  *out_part = *all;
  out_part->fetches = fetches;
  out_part->targets = targets;
  out_part->outputs = outputs;
  out_part->num_fetches = out_part->num_targets = 0;
  for (size_t i = 0; i < all->num_fetches; ++i)
    if (parts->fetches[i] == number)
      fetches[out_part->num_fetches++] = all->fetches[i];
  for (size_t i = 0; i < all->num_targets; ++i)
    if (parts->targets[i] == number)
      targets[out_part->num_targets++] = all->targets[i];
  return ls_ok();
}

static ls_status compile(ls_plan *plan, const ls_lower_request *all,
                         ls_arena *memory) {
  ls_program_parts parts;
  LS_RETURN_IF_ERROR(find_parts(all, memory, &parts));
  LS_SET_ARRAY_OR_RETURN(plan->allocator, ls_compiled *, plan->parts,
                         parts.count);
  plan->num_parts = parts.count;
  uint32_t first = 0;  // First output of the part.
  for (uint32_t number = 0; number < parts.count; ++number) {
    ls_lower_request part;
    LS_RETURN_IF_ERROR(plan_choose(all, &parts, number, memory, &part));
    LS_RETURN_IF_ERROR(
        ls_compile(all->graph->runtime, &part, &plan->parts[number]));
    size_t k = 0;
    for (size_t i = 0; i < all->num_fetches; ++i)
      if (parts.fetches[i] == number)
        plan->results.outputs[i] = first + part.outputs[k++];
    first += (uint32_t)ls_compiled_program(plan->parts[number])->num_outputs;
  }
  return ls_result_map_finish(&plan->results, plan->allocator, plan->parts,
                              plan->num_parts);
}

static bool has_cluster(const ls_graph *graph, const char *cluster) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const char *mark = ls_node_mark(walk.node, LS_MARK_REPLICATE);
    if (mark != NULL && strcmp(mark, cluster) == 0) return true;
  }
  return false;
}

// Compiles computations whose compilation result the graph fetches without
// running them, and stores the results.
static ls_status report_compiled(ls_plan *plan, const ls_lower_request *all,
                                 ls_precompiled **precompiled,
                                 ls_graph *gathered, ls_arena *memory) {
  for (size_t i = 0; i < gathered->num_nodes; ++i) {
    ls_node *node = gathered->nodes[i];
    if (node->type != LS_OP_TPU_COMPILATION_RESULT) continue;
    const char *cluster = ls_node_mark(node, LS_MARK_COMPILED);
    if (cluster == NULL || has_cluster(gathered, cluster)) continue;
    LS_OWN(ls_array, report) = NULL;
    LS_RETURN_IF_ERROR(
        ls_precompile(precompiled, all, cluster, plan->store, memory, &report));
    const ls_attr attr = {
        .name = LS_MARK_TOLD, .kind = LS_ATTR_ARRAY, .as.array = report};
    LS_RETURN_IF_ERROR(ls_node_set_attr(gathered, node, &attr));
    plan->tells_failure |= ((const ls_bytes *)ls_array_data(report))->size > 0;
  }
  return ls_ok();
}

// Compiles the request with replicated computations gathered into single ops.
static ls_status compile_gathered(ls_plan *plan, const ls_lower_request *all,
                                  ls_precompiled **precompiled,
                                  ls_arena *memory) {
  ls_lower_request request = *all;
  LS_OWN(ls_held_graph, copy) = NULL;
  LS_RETURN_IF_ERROR(ls_lower_gather(&request, memory, &copy));
  if (copy != NULL && precompiled != NULL)
    LS_RETURN_IF_ERROR(report_compiled(plan, all, precompiled, copy, memory));
  return compile(plan, &request, memory);
}

ls_status ls_plan_create(const ls_lower_request *request, ls_store *store,
                         ls_precompiled **precompiled, ls_arena *memory,
                         ls_plan **out_plan) {
  ls_allocator *allocator = request->graph->allocator;
  LS_OWN_NEW_OR_RETURN(allocator, ls_plan, plan);
  plan->allocator = allocator;
  plan->store = store;
  plan->graph = request->graph;
  plan->num_edits = plan->graph->num_edits;
  LS_RETURN_IF_ERROR(
      ls_result_map_init(&plan->results, allocator, request->num_fetches));
  LS_RETURN_IF_ERROR(compile_gathered(plan, request, precompiled, memory));
  return ls_hand_over(&plan, out_plan);
}

// ---- Running ---------------------------------------------------------------
// Returns true if a later run may use the plan.
static bool is_reusable(const ls_plan *plan) {
  return !plan->tells_failure && plan->num_edits == plan->graph->num_edits;
}

bool ls_plan_is_current(const ls_plan *plan) {
  if (!is_reusable(plan)) return false;
  for (size_t i = 0; i < plan->num_parts; ++i)
    if (!ls_compiled_is_current(plan->parts[i])) return false;
  return true;
}

bool ls_plan_fits(const ls_plan *plan) {
  if (!is_reusable(plan)) return false;
  for (size_t i = 0; i < plan->num_parts; ++i)
    if (!ls_compiled_fits(plan->parts[i], plan->store)) return false;
  return true;
}

bool ls_plan_draws(const ls_plan *plan) {
  for (size_t i = 0; i < plan->num_parts; ++i)
    if (ls_compiled_draws(plan->parts[i])) return true;
  return false;
}

// Begins all parts before continuing one, so that each sees the variables'
// values of the beginning.
static ls_status run_parts(const ls_plan *plan, ls_run_args args,
                           ls_arena *memory, bool *out_stale) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_run, runs, plan->num_parts);
  size_t count = 0;
  ls_status status = ls_ok();
  for (; count < plan->num_parts; ++count) {
    status = ls_run_start(&runs[count], plan->parts[count], plan->store, &args,
                          out_stale);
    if (!ls_status_is_ok(status)) break;
    const size_t outputs = ls_compiled_program(plan->parts[count])->num_outputs;
    args.outputs += outputs;
    if (args.arrays != NULL) args.arrays += outputs;
  }
  if (ls_status_is_ok(status)) return ls_runs_drive(runs, count);
  // Cancels the runs already started; they have done no work.
  for (size_t i = 0; i < count; ++i) {
    ls_run_stop(&runs[i], LS_STATUS(LS_CANCELLED, "the run did not begin"));
    ls_status_free(ls_run_finish(&runs[i]));
  }
  return status;
}

static ls_status plan_run(const ls_plan *plan, const ls_run_args *args,
                          ls_arena *memory, bool *out_stale) {
  if (plan->num_parts > 1) return run_parts(plan, *args, memory, out_stale);
  return ls_compiled_run(plan->parts[0], plan->store, args, out_stale);
}

// Arrays for outputs that the request does not fetch.
typedef struct spare_outputs {
  ls_array **items;
  size_t count;
} spare_outputs;
static void drop_spare(const spare_outputs *spare) {
  for (size_t i = 0; i < spare->count; ++i)
    ls_array_release(spare->items[i]);
}
LS_OWNED_STRUCT(spare_outputs, drop_spare)

// Runs the programs of a precompiled computation: inputs in their order, with
// spare arrays for outputs that are not fetched.
static ls_status run_shared(const ls_plan *plan, ls_run_args args,
                            ls_arena *memory, bool *out_stale) {
  const ls_result_map *map = &plan->results;
  const void **inputs =
      ls_arena_new_array(memory, const void *, plan->num_feeds + 1);
  ls_type *given = ls_arena_new_array(memory, ls_type, plan->num_feeds + 1);
  LS_OWN(spare_outputs, spare) = {
      ls_arena_new_array(memory, ls_array *, map->num_outputs + 1), 0};
  void **outputs = ls_arena_new_array(memory, void *, map->num_outputs + 1);
  if (inputs == NULL || given == NULL || spare.items == NULL || outputs == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < plan->num_feeds; ++i) {
    inputs[i] = args.inputs[plan->feeds[i]];
    given[i] = args.given[plan->feeds[i]];
  }
  args.inputs = inputs;
  args.given = given;
  if (map->is_late) return plan_run(plan, &args, memory, out_stale);
  memcpy(outputs, args.outputs, map->num_outputs * sizeof(*outputs));
  args.outputs = outputs;
  for (size_t i = 0; i < map->num_outputs; ++i) {
    if (map->uses[i] > 0) continue;
    ls_array **array = &spare.items[spare.count];
    LS_RETURN_IF_ERROR(ls_array_create_unwritten(map->types[i].dtype,
                                                 map->types[i].shape, array));
    ++spare.count;
    outputs[i] = ls_array_mutable_data(*array);
  }
  return plan_run(plan, &args, memory, out_stale);
}

ls_status ls_plan_run(const ls_plan *plan, const ls_run_args *args,
                      ls_arena *memory, bool *out_stale) {
  return plan->feeds != NULL ? run_shared(plan, *args, memory, out_stale)
                             : plan_run(plan, args, memory, out_stale);
}

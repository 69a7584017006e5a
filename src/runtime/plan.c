// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan.h"

#include "base/values/array_internal.h"
#include "graph/gather/gather.h"
#include "graph/walk.h"
#include "runtime/compiled.h"

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
  LS_RETURN_IF_ERROR(ls_find_parts(all, memory, &parts));
  plan->parts = ls_new_array(plan->allocator, ls_compiled *, parts.count);
  if (plan->parts == NULL) return ls_out_of_memory();
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
  LS_RETURN_IF_ERROR(
      ls_result_map_init(&plan->results, allocator, request->num_fetches));
  LS_RETURN_IF_ERROR(compile_gathered(plan, request, precompiled, memory));
  return ls_hand_over(&plan, out_plan);
}

// ---- Running ---------------------------------------------------------------
bool ls_plan_fits(const ls_plan *plan) {
  if (plan->tells_failure) return false;
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
    args.outputs += ls_compiled_program(plan->parts[count])->num_outputs;
  }
  if (ls_status_is_ok(status)) return ls_runs_drive(runs, count);
  // Cancels the runs already started; they have done no work.
  for (size_t i = 0; i < count; ++i) {
    ls_run_stop(&runs[i], LS_STATUS(LS_CANCELLED, "the run did not begin"));
    ls_status_free(ls_run_finish(&runs[i]));
  }
  if (*out_stale) *args.steps = 0;
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
  memcpy(outputs, map->is_late ? args.arrays : args.outputs,
         map->num_outputs * sizeof(*outputs));
  args.inputs = inputs;
  args.given = given;
  *(map->is_late ? &args.arrays : &args.outputs) = outputs;
  for (size_t i = 0; i < map->num_outputs && !map->is_late; ++i) {
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

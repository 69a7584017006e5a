// SPDX-License-Identifier: Apache-2.0
//
// Arguments of runs of TPU strategies. An argument whose first leaf is a
// distributed variable is passed to the callback unchanged ("bound"). All other
// arguments are inputs of the replicated computation. Each item of the dict of
// arguments by name counts as one argument.
#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"

static bool is_bound(ls_nest arg) {
  while (ls_nest_is_node(arg) && ls_nest_count(arg) > 0) {
    ls_nest first;
    if (arg.kind != LS_KIND_DICT) {
      arg = ls_nest_item(arg, 0);
    } else {
      ls_nest_flatten(arg, &first, 1);
      arg = first;
    }
  }
  return ls_is_distributed_variable(arg);
}

// ---- Checks ---------------------------------------------------------------
typedef struct variables {
  size_t by_position, by_name;
} variables;

static variables count_variables(ls_nest args, ls_nest named) {
  variables found = {0};
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    found.by_position += is_bound(ls_nest_item(args, i));
  for (size_t i = 0; i < ls_nest_count(named); ++i)
    found.by_name += is_bound(ls_nest_item(named, i));
  return found;
}

// Refuses variables among the arguments that have no declared parameter,
// because no name binds them.
static ls_status check_tail(const ls_parameters *parameters, const char *noun,
                            ls_nest args) {
  size_t bound = 0;
  for (size_t i = 0; i < ls_nest_count(args); ++i) {
    const bool is_variable = is_bound(ls_nest_item(args, i));
    if (i < parameters->count) {
      bound += is_variable;
      continue;
    }
    if (is_variable)
      return ls_invalid_argument(
          "a run of %s on a TPU strategy: argument %zu is a variable, and "
          "variables cannot be among those that the parameters do not name: "
          "name a parameter for it, or capture the variable",
          noun, i);
    if (bound > 0)
      return ls_invalid_argument(
          "a run of %s on a TPU strategy mixes variables among the arguments "
          "by position with more of these than the %zu named parameters: give "
          "the variables by name, or capture them",
          noun, parameters->count);
  }
  return ls_ok();
}

static ls_status check_variables(const ls_parameters *parameters,
                                 const char *noun, ls_nest args,
                                 ls_nest named) {
  if (parameters == NULL) return ls_ok();
  if (parameters->num_positional_only > 0) {
    const variables found = count_variables(args, named);
    if (found.by_position + found.by_name == 0) return ls_ok();
    return ls_invalid_argument(
        "a run of %s on a TPU strategy: variables cannot be given to a "
        "function with positional-only parameters, got %zu by position and %zu "
        "by name",
        noun, found.by_position, found.by_name);
  }
  return parameters->variadic ? check_tail(parameters, noun, args) : ls_ok();
}

ls_status ls_tpu_class_check_run(const ls_strategy *strategy,
                                 const ls_run_request *request,
                                 const ls_parameters *parameters,
                                 const char *noun) {
  const ls_run_options *options = request->options;
  if (request->callable.traced == NULL && ls_graph_is_eager(ls_graph_current()))
    return ls_unimplemented(
        "ls_strategy_run of a plain callback on %s in eager: wrap the callback "
        "in a traced function (ls_function_create), or run it inside one",
        strategy->label);
  if (options->xla != NULL)
    LS_RETURN_IF_ERROR(ls_check_xla_options(options->xla));
  return check_variables(parameters, noun, request->args, options->named);
}

// ---- Inputs of replicas ---------------------------------------------------
typedef struct selection {
  size_t replica;
} selection;

static ls_nest select_leaf(ls_nest leaf, void *user) {
  const size_t replica = ((const selection *)user)->replica;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  if (replica >= ls_distributed_count(leaf))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "the argument %s has no component for replica %zu",
                   LS_NEST_TEXT(leaf), replica);
  return ls_nest_retain(ls_distributed_component(leaf, replica));
}

// Returns true if argument i is the dict of arguments by name.
static bool is_names(const ls_tpu_run *run, size_t i) {
  return run->way->has_names && i + 1 == ls_nest_count(run->args);
}

// Makes the dict of arguments by name for a replica, without the bound ones.
static ls_nest names_of(ls_nest named, selection *s) {
  LS_OWN(ls_nest_builder, items) = {.tag = ""};
  for (size_t i = 0; i < ls_nest_count(named); ++i) {
    const ls_nest item = ls_nest_item(named, i);
    if (!is_bound(item))
      ls_nest_builder_append_named(&items, ls_nest_key(named, i),
                                   ls_nest_map(item, select_leaf, s));
  }
  return ls_nest_builder_finish(&items, LS_KIND_DICT);
}

// Makes the inputs of replica r: its id, and all arguments except the bound
// ones.
static ls_nest inputs_of(const ls_tpu_run *run, size_t replica) {
  selection s = {replica};
  LS_OWN(ls_nest_builder, inputs) = {0};
  ls_nest_builder_append(&inputs, ls_nest_i64((int64_t)replica));
  for (size_t i = 0; i < ls_nest_count(run->args); ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      ls_nest_builder_append(&inputs, names_of(arg, &s));
    else if (!is_bound(arg))
      ls_nest_builder_append(&inputs, ls_nest_map(arg, select_leaf, &s));
  }
  return ls_nest_builder_finish(&inputs, LS_KIND_LIST);
}

ls_status ls_tpu_run_inputs(const ls_tpu_run *run, ls_nest *out_inputs) {
  LS_OWN(ls_nest_builder, each) = {0};
  for (int32_t r = 0; r < run->strategy->num_replicas; ++r)
    ls_nest_builder_append(&each, inputs_of(run, (size_t)r));
  return ls_take_nest(ls_nest_builder_finish(&each, LS_KIND_LIST), out_inputs);
}

// ---- Arguments of the callback --------------------------------------------
// Rebuilds the dict of arguments by name; `values` holds the unbound ones.
static ls_nest all_names(ls_nest named, ls_nest values) {
  LS_OWN(ls_nest_builder, items) = {.tag = ""};
  for (size_t i = 0; i < ls_nest_count(named); ++i) {
    const ls_nest item = ls_nest_item(named, i);
    const char *key = ls_nest_key(named, i);
    ls_nest_builder_append_named(
        &items, key,
        ls_nest_retain(is_bound(item) ? item : ls_nest_find(values, key)));
  }
  return ls_nest_builder_finish(&items, LS_KIND_DICT);
}

ls_nest ls_tpu_run_args(const ls_tpu_run *run, ls_nest inputs) {
  const size_t count = ls_nest_count(run->args);
  if (run->args.kind == LS_KIND_NONE) return ls_none();
  LS_OWN(ls_nest_builder, items) = {0};
  size_t next = 1;  // Input 0 is the replica's id.
  for (size_t i = 0; i < count; ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      ls_nest_builder_append(&items,
                             all_names(arg, ls_nest_item(inputs, next++)));
    else
      ls_nest_builder_append(
          &items,
          ls_nest_retain(is_bound(arg) ? arg : ls_nest_item(inputs, next++)));
  }
  return ls_nest_builder_finish(&items, run->args.kind);
}

// ---- Examples -------------------------------------------------------------
static bool has_rows(const ls_tpu_run *run, ls_nest arg, ls_nest value) {
  return (arg.kind == LS_KIND_DISTRIBUTED ||
          run->strategy->num_replicas == 1) &&
         value.kind == LS_KIND_TENSOR &&
         ls_tensor_shape(value.as.tensor).rank >= 1;
}

ls_nest ls_tpu_run_examples(const ls_tpu_run *run, ls_nest inputs) {
  size_t next = 1;
  for (size_t i = 0; i < ls_nest_count(run->args); ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    const bool names = is_names(run, i);
    if (is_bound(arg) && !names) continue;
    const ls_nest value = ls_nest_item(inputs, next++);
    const size_t count = names ? ls_nest_count(value) : 1;
    for (size_t k = 0; k < count; ++k) {
      const ls_nest of_one = names ? ls_nest_item(value, k) : value;
      const ls_nest given =
          names ? ls_nest_find(arg, ls_nest_key(value, k)) : arg;
      if (has_rows(run, given, of_one)) return of_one;
    }
  }
  return ls_none();
}

// ---- Run results -----------------------------------------------------------
// Results of runs. The computation returns values, then ops; slices count as
// two or three values.

typedef ls_tpu_run run;

enum { MOST_PARTS = 3 };

// ---- Inside the computation -----------------------------------------------
// Counts the values at the start of a top-level list, before its ops.
static size_t run_results_count_values(ls_nest list) {
  size_t count = ls_nest_count(list);
  while (count > 0 && ls_nest_item(list, count - 1).kind == LS_KIND_OP)
    --count;
  return count;
}

static ls_status refuse_op(ls_nest leaf, size_t at) {
  return ls_invalid_argument("leaf %zu of the result is op '%s': ops must be "
                             "alone or in a list, after all values",
                             at, ls_op_name(leaf.as.op));
}

static ls_status keep_structure(run *r, ls_nest made, ls_nest *leaves,
                                size_t count) {
  const bool is_list = made.kind == LS_KIND_LIST;
  if (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE) return ls_ok();
  bool nested = false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    nested |= ls_nest_is_node(ls_nest_item(made, i));
  r->num_leaves = is_list && !nested ? run_results_count_values(made) : count;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (leaves[i].kind == LS_KIND_OP && (!is_list || nested))
      return refuse_op(leaves[i], i);
  if (r->num_leaves == count) {
    r->like = ls_nest_retain(made);
    return ls_ok();
  }
  LS_OWN(ls_nest_builder, values) = {0};
  for (size_t i = 0; i < r->num_leaves; ++i)
    ls_nest_builder_append(&values, ls_nest_retain(leaves[i]));
  r->like = ls_nest_builder_finish(&values, LS_KIND_LIST);
  return ls_nest_status(r->like);
}

// Appends the one to three values of leaf i.
static ls_status run_results_take_apart(run *r, size_t i, ls_nest leaf,
                                        ls_nest_builder *values) {
  ls_slices_parts parts;
  r->parts[i] = 1;
  if (leaf.kind != LS_KIND_SLICES) {
    ls_nest_builder_append(values, ls_nest_retain(leaf));
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_slices_parts_of(leaf, &parts));
  ls_nest_builder_append(values, ls_leaf(parts.indices));
  ls_nest_builder_append(values, ls_leaf(parts.values));
  if (parts.dense_shape.ref != 0)
    ls_nest_builder_append(values, ls_leaf(parts.dense_shape));
  r->parts[i] = parts.dense_shape.ref != 0 ? 3 : 2;
  return ls_ok();
}

static ls_status flatten_result(run *r, ls_nest made, ls_nest *out_flat) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t count = ls_nest_num_leaves(made);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  r->parts = ls_new_array(allocator, uint8_t, count + 1);
  LS_RETURN_IF_NO_MEMORY(r->parts);
  ls_nest_flatten(made, leaves, count);
  LS_RETURN_IF_ERROR(keep_structure(r, made, leaves, count));
  LS_OWN(ls_nest_builder, values) = {0};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(run_results_take_apart(r, i, leaves[i], &values));
  *out_flat = ls_nest_builder_finish(&values, LS_KIND_LIST);
  return ls_ok();
}

ls_nest ls_tpu_run_flatten(run *r, ls_nest made) {
  if (ls_nest_is_failed(made) || made.kind == LS_KIND_NONE) return made;
  ls_nest flat = ls_none();
  const ls_status status = flatten_result(r, made, &flat);
  ls_nest_release(made);
  return ls_status_is_ok(status) ? flat : ls_fail(status);
}

// ---- Outside the computation ----------------------------------------------
// Makes leaf i of a replica from its values, which start at number `at`.
static ls_nest leaf_of(const run *r, ls_nest values, size_t i, size_t at) {
  if (r->parts[i] == 1) return ls_nest_retain(ls_nest_item(values, at));
  return ls_nest_slices(
      ls_nest_item(values, at + 1), ls_nest_tensor(values, at),
      r->parts[i] == MOST_PARTS ? ls_nest_tensor(values, at + 2)
                                : (ls_tensor){0});
}

// Joins leaf i of all replicas.
static ls_nest join_leaf(const run *r, ls_nest outputs, size_t i, size_t at,
                         ls_nest *room) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (ls_nest_item(ls_nest_item(outputs, 0), at).kind == LS_KIND_NONE)
    return ls_none();
  for (size_t replica = 0; replica < replicas; ++replica)
    room[replica] = leaf_of(r, ls_nest_item(outputs, replica), i, at);
  return replicas == 1 ? room[0]
                       : ls_nest_distributed(LS_PER_REPLICA, room, replicas);
}

ls_status ls_tpu_run_join(const run *r, ls_nest outputs, ls_nest *out_result) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (r->like.kind == LS_KIND_NONE) return ls_ok();  // No result, or an op.
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, r->num_leaves + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, room, replicas);
  size_t at = 0;
  for (size_t i = 0; i < r->num_leaves; at += r->parts[i++])
    leaves[i] = join_leaf(r, outputs, i, at, room);
  return ls_take_nest(ls_nest_pack(r->like, leaves, r->num_leaves), out_result);
}

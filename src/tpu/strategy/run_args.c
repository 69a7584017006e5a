// SPDX-License-Identifier: Apache-2.0
//
// Arguments of runs of TPU strategies. One that begins with a distributed
// variable is bound: the callback gets it whole, as it was given. All others
// are inputs of the replicated computation. Each one by name counts alone.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/run.h"

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

// What a callback takes by position beyond its parameters has no name to bind a
// variable to.
static ls_status check_tail(const ls_parameters *parameters, const char *what,
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
          what, i);
    if (bound > 0)
      return ls_invalid_argument(
          "a run of %s on a TPU strategy mixes variables among the arguments "
          "by position with more of these than the %zu named parameters: give "
          "the variables by name, or capture them",
          what, parameters->count);
  }
  return ls_ok();
}

static ls_status check_variables(const ls_parameters *parameters,
                                 const char *what, ls_nest args,
                                 ls_nest named) {
  if (parameters == NULL) return ls_ok();
  if (parameters->num_positional_only > 0) {
    const variables found = count_variables(args, named);
    if (found.by_position + found.by_name == 0) return ls_ok();
    return ls_invalid_argument(
        "a run of %s on a TPU strategy: variables cannot be given to a "
        "function with positional-only parameters, got %zu by position and %zu "
        "by name",
        what, found.by_position, found.by_name);
  }
  return parameters->variadic ? check_tail(parameters, what, args) : ls_ok();
}

ls_status ls_tpu_class_check_run(const ls_strategy *strategy,
                                 const ls_run_request *request,
                                 const ls_parameters *parameters,
                                 const char *what) {
  const ls_run_options *options = request->options;
  if (request->callable.traced == NULL && ls_graph_is_eager(ls_graph_current()))
    return ls_unimplemented("ls_strategy_run of a plain callback on %s in "
                            "eager: wrap the callback in a traced function "
                            "(ls_function_create), or run it from inside of "
                            "one",
                            strategy->label);
  if (options->xla != NULL)
    LS_RETURN_IF_ERROR(ls_check_xla_options(options->xla));
  return check_variables(parameters, what, request->args, options->named);
}

// ---- What replicas are given ----------------------------------------------
typedef struct selection {
  size_t replica;
} selection;

static ls_nest select_leaf(ls_nest leaf, void *user) {
  const size_t replica = ((const selection *)user)->replica;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  char text[120];
  if (replica >= ls_distributed_count(leaf))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "the argument %s has no component for replica %zu",
                   ls_nest_print(leaf, text, sizeof(text)), replica);
  return ls_nest_retain(ls_distributed_component(leaf, replica));
}

// Whether argument i is the dict of those by name.
static bool is_names(const ls_tpu_run *run, size_t i) {
  return run->way->has_names && i + 1 == ls_nest_count(run->args);
}

// Arguments by name for a replica, without the bound ones.
static ls_nest names_of(const ls_tpu_run *run, ls_nest named, selection *s) {
  ls_allocator *allocator = run->strategy->allocator;
  const size_t count = ls_nest_count(named);
  LS_OWN_ARRAY(allocator, ls_nest, items, count + 1);
  LS_OWN_ARRAY(allocator, const char *, keys, count + 1);
  ls_nest made = ls_fail(ls_out_of_memory());
  if (items != NULL && keys != NULL) {
    size_t free = 0;
    for (size_t i = 0; i < count; ++i) {
      const ls_nest item = ls_nest_item(named, i);
      if (is_bound(item)) continue;
      keys[free] = ls_nest_key(named, i);
      items[free++] = ls_nest_map(item, select_leaf, s);
    }
    ls_nest_release(made);
    made = ls_nest_dict("", keys, items, free);
  }
  return made;
}

// What replica r is given: its id, and the arguments that are not bound.
static ls_nest inputs_of(const ls_tpu_run *run, size_t replica, ls_nest *room) {
  selection s = {replica};
  size_t count = 0;
  room[count++] = ls_nest_i64((int64_t)replica);
  for (size_t i = 0; i < ls_nest_count(run->args); ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      room[count++] = names_of(run, arg, &s);
    else if (!is_bound(arg))
      room[count++] = ls_nest_map(arg, select_leaf, &s);
  }
  return ls_nest_sequence(LS_KIND_LIST, room, count);
}

ls_status ls_tpu_run_inputs(const ls_tpu_run *run, ls_nest *out_inputs) {
  const size_t replicas = (size_t)run->strategy->num_replicas;
  ls_allocator *allocator = run->strategy->allocator;
  LS_OWN_ARRAY(allocator, ls_nest, each, replicas);
  LS_OWN_ARRAY(allocator, ls_nest, room, ls_nest_count(run->args) + 1);
  ls_nest made = ls_fail(ls_out_of_memory());
  if (each != NULL && room != NULL) {
    for (size_t i = 0; i < replicas; ++i)
      each[i] = inputs_of(run, i, room);
    ls_nest_release(made);
    made = ls_nest_sequence(LS_KIND_LIST, each, replicas);
  }
  return ls_take_nest(made, out_inputs);
}

// ---- What the callback is given -------------------------------------------
// Those by name again: what is not bound is in `values`.
static ls_nest all_names(const ls_tpu_run *run, ls_nest named, ls_nest values) {
  ls_allocator *allocator = run->strategy->allocator;
  const size_t count = ls_nest_count(named);
  LS_OWN_ARRAY(allocator, ls_nest, items, count + 1);
  LS_OWN_ARRAY(allocator, const char *, keys, count + 1);
  ls_nest made = ls_fail(ls_out_of_memory());
  if (items != NULL && keys != NULL) {
    for (size_t i = 0; i < count; ++i) {
      const ls_nest item = ls_nest_item(named, i);
      keys[i] = ls_nest_key(named, i);
      items[i] =
          ls_nest_retain(is_bound(item) ? item : ls_nest_find(values, keys[i]));
    }
    ls_nest_release(made);
    made = ls_nest_dict("", keys, items, count);
  }
  return made;
}

ls_nest ls_tpu_run_args(const ls_tpu_run *run, ls_nest inputs) {
  const size_t count = ls_nest_count(run->args);
  if (run->args.kind == LS_KIND_NONE) return ls_none();
  LS_OWN(ls_nest_builder, items) = {0};
  size_t next = 1;  // Behind the id.
  for (size_t i = 0; i < count; ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      ls_nest_builder_append(&items,
                             all_names(run, arg, ls_nest_item(inputs, next++)));
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

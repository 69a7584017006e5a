// SPDX-License-Identifier: Apache-2.0
#include "distribute/replicas/rounds.h"

#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "graph/context.h"
#include "graph/region.h"
#include "lockstep/shape_rules.h"

static ls_shape examples_shape_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_shape(leaf.as.tensor);
  if (leaf.kind == LS_KIND_ARRAY) return ls_array_shape(ls_nest_as_array(leaf));
  return LS_SCALAR;
}

int64_t ls_rows_of(ls_nest value, size_t index) {
  const ls_shape shape =
      examples_shape_of(ls_distributed_component(value, index));
  return shape.rank < 1 ? -1 : shape.dim[0];
}

// Finds the first leaf of `args` that has a part for each replica, and rows;
// returns the leaf of `own` in its position.
static ls_nest find_split(ls_nest args, ls_nest own) {
  if (args.kind == LS_KIND_DISTRIBUTED)
    return examples_shape_of(ls_distributed_component(args, 0)).rank >= 1
               ? own
               : ls_none();
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(args) && found.kind == LS_KIND_NONE; ++i)
    found = find_split(ls_nest_item_sorted(args, i),
                       ls_nest_item_sorted(own, i));
  return found;
}

ls_nest ls_examples_argument(const ls_strategy *strategy, ls_nest args,
                             ls_nest own) {
  const ls_nest split = find_split(args, own);
  return split.kind == LS_KIND_NONE && strategy->num_replicas == 1
             ? ls_examples_rows(own)
             : split;
}

void ls_replica_take_rows(ls_replica *replica, ls_nest args, ls_nest own) {
  const ls_nest rows = ls_examples_argument(replica->strategy, args, own);
  replica->examples = rows;
  replica->examples_differ = replica->count > 1 &&
                             rows.kind == LS_KIND_TENSOR &&
                             examples_shape_of(rows).dim[0] == LS_UNKNOWN_DIM;
}

// Returns the number of rows of a leaf, as a tensor.
static ls_tensor examples_count_rows(ls_nest leaf) {
  const ls_nest own = ls_distributed_component(leaf, 0);
  const int64_t rows = examples_shape_of(own).dim[0];
  return rows == LS_UNKNOWN_DIM ? ls_dim_size(own.as.tensor, 0)
                                : ls_scalar_i64(LS_DTYPE_I64, rows);
}

// ---- Find ------------------------------------------------------------------
// Returns true if two graphs (NULL: eager) are regions of one graph.
static bool is_same_whole(const ls_graph *a, const ls_graph *b) {
  if (a == NULL || b == NULL) return a == b;
  return ls_graph_whole((ls_graph *)(uintptr_t)a) ==
         ls_graph_whole((ls_graph *)(uintptr_t)b);
}

static bool examples_holds(const ls_examples_entry *entry) {
  if (!ls_context_is_inside(entry->graph)) return false;
  return entry->source == LS_EXAMPLES_GIVEN ||
         (entry->rows.kind != LS_KIND_NONE &&
          is_same_whole(entry->graph, ls_context_graph()));
}

// Finds the innermost entry that applies here: of those about arguments, or of
// the others.
static const ls_examples_entry *examples_find_entry(bool arguments) {
  const ls_examples_entry *entry = ls_context_current()->scoped.examples;
  while (entry != NULL &&
         ((entry->source == LS_EXAMPLES_ARGUMENTS) != arguments ||
          !examples_holds(entry)))
    entry = entry->outer;
  return entry;
}

// Finds the first parameter with rows of the innermost enclosing function that
// has one.
static bool find_parameter(ls_tensor *out_parameter) {
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  for (; graph != NULL; graph = ls_graph_resolve(graph->parent)) {
    if (graph->kind != LS_GRAPH_FUNCTION) continue;
    for (size_t i = 0; i < graph->num_declared; ++i) {
      *out_parameter = (ls_tensor){graph, graph->parameters[i]};
      if (ls_tensor_shape(*out_parameter).rank >= 1) return true;
    }
  }
  return false;
}

// Finds the rows of the arguments of a function, a computation or a run of one
// replica. Arguments of an enclosing function do not count in several replicas,
// because they are those of all replicas.
static ls_nest find_argument(bool is_alone) {
  const ls_examples_entry *entry = examples_find_entry(true);
  if (entry != NULL) return entry->rows;
  ls_tensor parameter;
  return is_alone && find_parameter(&parameter) ? ls_leaf(parameter)
                                                : ls_none();
}

bool ls_examples_find(ls_tensor *out_count, bool *out_alike) {
  *out_count = ls_failed_tensor();
  *out_alike = false;
  const ls_examples_entry *entry = examples_find_entry(false);
  if (entry != NULL) {
    *out_alike = entry->source == LS_EXAMPLES_ALIKE;
    *out_count = *out_alike ? examples_count_rows(entry->rows) : entry->count;
    return true;
  }
  const ls_replica *replica = ls_replica_context();
  if (replica == NULL) return false;
  *out_count = replica->given_examples;
  if (out_count->ref != 0) return true;
  ls_nest rows = replica->examples;
  *out_alike = !replica->examples_differ;
  if (rows.kind == LS_KIND_NONE) {
    // With several replicas, the arguments of others may have other sizes.
    *out_alike = replica->count == 1 && ls_context_replicas() == 1;
    rows = find_argument(*out_alike);
  }
  if (rows.kind == LS_KIND_NONE) return false;
  *out_count = examples_count_rows(rows);
  return true;
}

// Finds the number of examples if replicas may differ. If it returns false, it
// has added no op.
bool ls_replica_examples(ls_tensor *out_count) {
  const ls_examples_entry *entry = examples_find_entry(false);
  const ls_replica *replica = ls_replica_context();
  bool alike = false;
  *out_count = ls_failed_tensor();
  const bool may_differ =
      entry != NULL ? entry->source == LS_EXAMPLES_GIVEN
                    : replica != NULL && (replica->given_examples.ref != 0 ||
                                          replica->examples_differ);
  return may_differ && ls_examples_find(out_count, &alike);
}

static ls_status examples_check_count(ls_tensor count) {
  const ls_dtype dtype = ls_tensor_dtype(count);
  const ls_shape shape = ls_tensor_shape(count);
  if ((!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype)) ||
      !ls_shape_compatible(shape, LS_SCALAR))
    return ls_invalid_argument(
        "a number of examples is a scalar of an integer or float type, got %s",
        LS_SHAPE_TEXT(dtype, shape));
  return ls_ok();
}

ls_status ls_replica_set_examples(ls_replica *replica, ls_tensor count) {
  LS_RETURN_IF_ERROR(
      ls_replica_check(replica, "giving the number of examples"));
  LS_RETURN_IF_ERROR(examples_check_count(count));
  replica->given_examples = count;
  return ls_ok();
}

// ---- Scopes ----------------------------------------------------------------
static const ls_scope_type examples_scope = {
    .name = "a scope of a number of examples"};

void ls_examples_scope_begin(ls_scope *scope, ls_tensor count) {
  ls_status status =
      ls_tensor_is_failed(count)
          ? ls_invalid_argument(
                "the number of examples of a scope is a failed tensor")
          : examples_check_count(count);
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  ls_context *context = ls_context_open(scope, &examples_scope);
  ls_examples_entry *entry = LS_SCOPE_ENTRY(ls_examples_entry, scope);
  *entry = (ls_examples_entry){.count = count};
  ls_examples_push(context, entry);
}

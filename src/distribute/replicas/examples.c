// SPDX-License-Identifier: Apache-2.0
// How many examples a replica has: by its arguments, as its step has said, or
// as a scope says.
#include "distribute/replicas/context.h"
#include "graph/context.h"

// What a scope says, for the graph in which it was opened.
typedef struct ls_examples_entry {
  const struct ls_examples_entry *outer;
  const ls_graph *graph;  // NULL: eager.
  ls_tensor count;
} ls_examples_entry;

static ls_shape shape_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR) return ls_tensor_shape(leaf.as.tensor);
  if (leaf.kind == LS_KIND_ARRAY) return ls_array_shape(ls_nest_as_array(leaf));
  return LS_SCALAR;
}

int64_t ls_rows_of(ls_nest value, size_t index) {
  const ls_shape shape = shape_of(ls_distributed_component(value, index));
  return shape.rank < 1 ? -1 : shape.dim[0];
}

// What the innermost scope says that holds here.
static bool find_said(ls_tensor *out_count) {
  const ls_examples_entry *entry = ls_context_current()->scoped.examples;
  while (entry != NULL && !ls_context_is_inside(entry->graph))
    entry = entry->outer;
  if (entry == NULL) return false;
  *out_count = entry->count;
  return true;
}

bool ls_replica_examples(ls_tensor *out_count) {
  *out_count = ls_failed_tensor();
  if (find_said(out_count)) return true;
  const ls_replica *replica = ls_replica_context();
  if (replica == NULL) return false;
  *out_count = replica->given_examples;
  if (out_count->ref != 0) return true;
  const ls_nest examples = replica->examples;
  if (examples.kind == LS_KIND_NONE) return false;
  *out_count = examples.kind == LS_KIND_TENSOR
                   ? ls_dim_size(examples.as.tensor, 0)
                   : ls_scalar_i64(LS_DTYPE_I64, shape_of(examples).dim[0]);
  return true;
}

static ls_status check_count(ls_tensor count) {
  const ls_dtype dtype = ls_tensor_dtype(count);
  const ls_shape shape = ls_tensor_shape(count);
  if ((!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype)) ||
      !ls_shape_compatible(shape, LS_SCALAR))
    return ls_invalid_argument("a number of examples is a scalar of an integer "
                               "or float type, got %s",
                               LS_SHAPE_TEXT(dtype, shape));
  return ls_ok();
}

ls_status ls_replica_set_examples(ls_replica *replica, ls_tensor count) {
  LS_RETURN_IF_ERROR(
      ls_replica_check(replica, "giving the number of examples"));
  LS_RETURN_IF_ERROR(check_count(count));
  replica->given_examples = count;
  return ls_ok();
}

void ls_examples_scope_begin(ls_scope *scope, ls_tensor count) {
  ls_status status = ls_tensor_is_failed(count)
                         ? ls_invalid_argument("the number of examples that a "
                                               "scope is to say is failed")
                         : check_count(count);
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  ls_context *context = ls_context_open(scope, LS_SCOPE_EXAMPLES);
  ls_examples_entry *entry = LS_SCOPE_ENTRY(ls_examples_entry, scope);
  *entry = (ls_examples_entry){
      .outer = context->scoped.examples,
      .graph = ls_context_graph(),
      .count = count,
  };
  context->scoped.examples = entry;
}

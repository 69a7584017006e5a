// SPDX-License-Identifier: Apache-2.0
//
// The lowering functions that ops.def names, which are in lower/*.c, and their
// helpers.
#ifndef LS_LOWER_OPS_H_
#define LS_LOWER_OPS_H_

#include "lower/scope.h"

#define LS_OP(id, name, inputs, traits, shape, gradient, lower, ...)           \
  ls_status lower_##lower(ls_lower_scope *scope, ls_node *node);
#include "lockstep/ops.def"
#undef LS_OP

// Notes on which device a node runs (place.c). Lists the launch of its
// computation, if that runs on cores and is not listed yet.
ls_status ls_lower_place(ls_lower_scope *scope, ls_node *node);
// Sets the device of a program without replicas: the first that an op names.
// One whose ops all name the CPU is left to the host.
ls_status ls_lower_choose_device(ls_lowering *all);

// Infers the type of the node's first result from its current operands.
ls_status ls_lower_infer(ls_lower_scope *scope, const ls_node *node,
                         ls_type *out_type);

// Lowers a collective outside replicas to its operand.
ls_status ls_lower_alone(ls_lower_scope *scope, ls_node *node);
// Checks that operand 0 has equal sizes on all replicas, except along axis
// `but`; -1: no exception; and that the op was made for these replicas.
ls_status ls_lower_check_operand(const ls_lower_scope *scope,
                                 const ls_node *node, int64_t but);
// Returns this replica's entry in a list of numbers, as a scalar: an i64 if one
// of them needs it, else an i32.
ls_status ls_lower_own_entry(ls_lower_scope *scope, const int64_t *entries,
                             const ls_node *origin, uint64_t *out_ref);
// Lowers all_reduce, all_gather and reduce_scatter within groups.
ls_status ls_lower_grouped(ls_lower_scope *scope, ls_node *node);
// Takes this replica's `size` elements of x along an axis; replica r's begin at
// `starts[r]`.
ls_status ls_lower_own_part(ls_lower_scope *scope, uint64_t x, int64_t axis,
                            const int64_t *starts, int64_t size,
                            const ls_node *origin, uint64_t *out_ref);
// Concatenates the rows of all replicas; `rows` has each replica's number of
// rows.
ls_status ls_lower_gather_all(ls_lower_scope *scope, uint64_t ref,
                              const int64_t *rows, int32_t replicas,
                              const ls_node *origin, uint64_t *out_ref);
// Flattens a value. ls_lower_elements takes some elements of a flat value.
ls_status ls_lower_flatten(ls_lower_scope *scope, uint64_t ref,
                           const ls_node *origin, uint64_t *out_ref);
ls_status ls_lower_elements(ls_lower_scope *scope, uint64_t ref, int64_t start,
                            int64_t limit, const ls_node *origin,
                            uint64_t *out_ref);
// Takes this replica's value out of one value per replica.
ls_status ls_lower_take_own(ls_lower_scope *scope, const uint64_t *refs,
                            const ls_node *origin, uint64_t *out_ref);

// ---- Variables with a value for each replica (variable.c) ------------
// A growing list of variables with a value for each replica.
typedef struct ls_lower_own {
  ls_variable **items;
  size_t count, capacity;
} ls_lower_own;
ls_status ls_lower_add_own(ls_lower_own *list, ls_allocator *allocator,
                           ls_variable *variable);
// Returns the component index of each replica, if the body of `holder`, a
// replicate op, has the components in another order than the strategy or lacks
// some (LS_MARK_CORE_COPIES); else NULL.
const int64_t *ls_lower_core_copies(const ls_node *holder,
                                    const ls_variable *container);
// Returns the component that a replica has in the body of `holder`.
ls_variable *ls_lower_component_of(const ls_node *holder,
                                   const ls_variable *container,
                                   size_t replica);
// Adds the variables with a value for each replica that the replicas' body
// reads or writes.
ls_status ls_lower_find_own(const ls_lower_scope *scope, const ls_graph *graph,
                            size_t replicas, ls_lower_own *list);

// ---- Stacks (stack.c) ------------------------------------------------
// Facts about a stack, shared by all values of one stack_new op.
typedef struct ls_lower_stack ls_lower_stack;
// Makes the facts of a stack of which nothing is known. NULL without memory.
ls_lower_stack *ls_lower_stack_new(ls_lowering *all);
// Returns the facts of a lowered value; NULL if it is not a stack.
ls_lower_stack *ls_lower_stack_of(const ls_lowering *all, const ls_graph *graph,
                                  uint64_t ref);
ls_status ls_lower_stack_set(ls_lowering *all, const ls_graph *graph,
                             uint64_t ref, ls_lower_stack *stack);
// Makes two stacks with equal elements share their facts. NULL is allowed.
ls_status ls_lower_stack_unify(ls_lowering *all, ls_lower_stack *a,
                               ls_lower_stack *b);
// Appends the op that makes an empty stack. ls_lower_stack_push appends one
// that pushes.
ls_status ls_lower_stack_make(ls_lower_scope *scope, ls_lower_stack *stack,
                              const ls_attr *attrs, size_t num_attrs,
                              const ls_node *origin, uint64_t *out_ref);
ls_status ls_lower_stack_push(ls_lower_scope *scope, uint64_t stack,
                              uint64_t value, const ls_node *origin,
                              uint64_t *out_ref);
// Returns true if a value of a lowered graph is a stack.
static inline bool ls_is_stack(const ls_graph *graph, uint64_t ref) {
  return ls_graph_type(graph, ref).dtype == LS_DTYPE_VARIANT;
}
// Checks in a lowered graph that each stack value is used once.
//   LS_INVALID_ARGUMENT  names the op that uses a value again
ls_status ls_check_stacks(ls_graph *graph);

// Returns true if the op's values differ by replica regardless of its operands.
bool ls_node_is_own(const ls_node *node);
// Marks the nodes of a replicate body that differ between replicas.
void ls_mark_varying(ls_graph *body, size_t num_split);
// Marks `count` bodies of one op as if they were one: a node without an equal
// node in all bodies varies. `twins` has an array for each body but the first,
// as long as its nodes; see ls_find_twins.
ls_status ls_mark_classes(ls_graph *const *bodies, size_t count,
                          uint32_t *const *twins);

// Sources of a value in a replicate body: flags.
enum {
  LS_OF_REPLICA = 1,  // Values of the replica's own.
  LS_OF_DRAWS = 2,    // Random numbers, drawn by each replica.
  LS_OF_BATCH = 4,    // An array that all replicas have.
};
// Returns the first merge of a body if the operands of no merge differ between
// replicas, but perhaps by random numbers in the work on a batch
// (`*out_drawn`), else NULL. The first `num_own` parameters differ. `sources`
// has the flags of each node: of parameters that are batches set, else 0.
const ls_node *ls_find_equal_merges(const ls_graph *body, size_t num_own,
                                    unsigned *sources, bool *out_drawn);

#endif  // LS_LOWER_OPS_H_

// SPDX-License-Identifier: Apache-2.0
//
// The lowering functions that ops.def names, in lower/*.c, and what they share.
#ifndef LS_LOWER_OPS_H_
#define LS_LOWER_OPS_H_

#include "lower/scope.h"

#define LS_OP(id, name, inputs, traits, shape, gradient, lower, ...)           \
  ls_status lower_##lower(ls_lower_scope *scope, ls_node *node);
#include "lockstep/ops.def"
#undef LS_OP

// Lists the launch of the computation that a node is of, if it is for cores and
// not listed yet.
ls_status ls_lower_launch(ls_lower_scope *scope, ls_node *node);

// The type of the node's first result from what its operands are now.
ls_status ls_lower_infer(ls_lower_scope *scope, const ls_node *node,
                         ls_type *out_type);
// If the node is arithmetic on scalar constants, its value as a constant, with
// the bits that running it would give; else 0.
ls_status ls_lower_fold(ls_lower_scope *scope, const ls_node *node,
                        const uint64_t *inputs, uint64_t *out_ref);
// Returns true if a value is a bool scalar that is known now, and gives it.
bool ls_lower_is_known(const ls_lower_scope *scope, uint64_t ref,
                       bool *out_value);

// Operand 0 has one shape on all replicas, but along `but`; -1: altogether.
ls_status ls_lower_check_operand(const ls_lower_scope *scope,
                                 const ls_node *node, int64_t but);
// This replica's entry of a list of numbers, an i32 scalar.
ls_status ls_lower_own_entry(ls_lower_scope *scope, const int64_t *entries,
                             const ls_node *origin, uint64_t *out_ref);
// all_reduce, all_gather and reduce_scatter within groups.
ls_status ls_lower_grouped(ls_lower_scope *scope, ls_node *node);
// The size of operand `input` along an axis on each replica, or altogether
// (axis -1), in the graph's arena.
ls_status ls_lower_sizes_on_all(ls_lower_scope *scope, const ls_node *node,
                                uint32_t input, int64_t axis,
                                int64_t **out_sizes);
// The type of operand `input` on a replica.
ls_type ls_lower_operand_on(const ls_lower_scope *scope, const ls_node *node,
                            uint32_t input, int32_t replica);
// This replica's `size` elements of x, where those of replica r begin at
// `starts[r]` along an axis.
ls_status ls_lower_own_part(ls_lower_scope *scope, uint64_t x, int64_t axis,
                            const int64_t *starts, int64_t size,
                            const ls_node *origin, uint64_t *out_ref);
// Where parts begin: sizes become what comes before each. Gives the sum.
int64_t ls_lower_sum_before(int64_t *sizes, int32_t count);
// Rows of all replicas, one behind the other; `rows`: how many each has.
ls_status ls_lower_gather_all(ls_lower_scope *scope, uint64_t ref,
                              const int64_t *rows, int32_t replicas,
                              const ls_node *origin, uint64_t *out_ref);
// Elements of a flat value.
ls_status ls_lower_flatten(ls_lower_scope *scope, uint64_t ref,
                           const ls_node *origin, uint64_t *out_ref);
ls_status ls_lower_elements(ls_lower_scope *scope, uint64_t ref, int64_t start,
                            int64_t limit, const ls_node *origin,
                            uint64_t *out_ref);
// Takes this replica's of R values.
ls_status ls_lower_take_own(ls_lower_scope *scope, const uint64_t *refs,
                            const ls_node *origin, uint64_t *out_ref);

// ---- Variables with a value for each replica (own.c) -----------------
// A list of such variables that grows.
typedef struct ls_lower_own {
  ls_variable **items;
  size_t count, capacity;
} ls_lower_own;
bool ls_lower_has_own(const ls_lower_own *list, const ls_variable *variable);
ls_status ls_lower_add_own(ls_lower_own *list, ls_allocator *allocator,
                           ls_variable *variable);
// The index of each replica's component where the body of `holder`, a replicate
// op, has them in another order than the strategy or lacks some
// (LS_MARK_CORE_COPIES). NULL: it does not.
const int64_t *ls_lower_core_copies(const ls_node *holder,
                                    const ls_variable *container);
// A replica's component in the body of `holder`.
ls_variable *ls_lower_component_of(const ls_node *holder,
                                   const ls_variable *container,
                                   size_t replica);
// Adds those that the replicas' body reads or writes and that are so now.
ls_status ls_lower_find_own(const ls_lower_scope *scope, const ls_graph *graph,
                            size_t replicas, ls_lower_own *list);
// Returns true if each replica has a value of its own of the variable here.
bool ls_lower_is_own(const ls_lower_scope *scope, const ls_variable *variable);
// Returns true if its components are variables by themselves here, though they
// are values of the replicas around: in a branch or loop of a merge.
bool ls_lower_is_apart(const ls_lower_scope *scope,
                       const ls_variable *container);
// Reads one replica's value of such a variable, for all; writes it.
ls_status ls_lower_read_own_component(ls_lower_scope *scope,
                                      const ls_variable *component,
                                      uint64_t *out_ref);
ls_status ls_lower_write_own_component(ls_lower_scope *scope,
                                       const ls_variable *component,
                                       uint64_t ref);

// ---- Stacks (stack.c) ------------------------------------------------
// Knowledge of a stack: shared by all values that come of one stack_new.
typedef struct ls_lower_stack ls_lower_stack;
// Nothing yet. NULL: no memory.
ls_lower_stack *ls_lower_stack_new(ls_lowering *all);
// Returns that of a lowered value; NULL: it is no stack.
ls_lower_stack *ls_lower_stack_of(const ls_lowering *all, const ls_graph *graph,
                                  uint64_t ref);
ls_status ls_lower_stack_set(ls_lowering *all, const ls_graph *graph,
                             uint64_t ref, ls_lower_stack *stack);
// Both hold the same. NULL is fine.
ls_status ls_lower_stack_unify(ls_lowering *all, ls_lower_stack *a,
                               ls_lower_stack *b);
// Appends the op that makes an empty stack, and one that pushes.
ls_status ls_lower_stack_make(ls_lower_scope *scope, ls_lower_stack *stack,
                              const ls_attr *attrs, size_t num_attrs,
                              const ls_node *origin, uint64_t *out_ref);
ls_status ls_lower_stack_push(ls_lower_scope *scope, uint64_t stack,
                              uint64_t value, const ls_node *origin,
                              uint64_t *out_ref);
// Checks in a lowered graph that each value of a stack is used once.
//   LS_INVALID_ARGUMENT  names the op that uses one again.
ls_status ls_check_stacks(ls_graph *graph);

// Returns true if each replica has its own values of the op, whatever its
// operands are.
bool ls_node_is_own(const ls_node *node);
// Marks which nodes of a replicate body differ between replicas.
void ls_mark_varying(ls_graph *body, size_t num_split);
// The same for `count` bodies of one op, all marked as if alone: what is not
// common to all of them varies. `twins`: of each body but the first, with room
// for its nodes; see ls_find_twins.
ls_status ls_mark_classes(ls_graph *const *bodies, size_t count,
                          uint32_t *const *twins);
// The first op of a marked body at which replicas put something together, if
// nothing that they put together differs between them. Else NULL.
const ls_node *ls_find_equal_merges(const ls_graph *body);

#endif  // LS_LOWER_OPS_H_

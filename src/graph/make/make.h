// SPDX-License-Identifier: Apache-2.0
//
// Shared by op makers.
#ifndef LS_GRAPH_MAKE_MAKE_H_
#define LS_GRAPH_MAKE_MAKE_H_

#include "base/require.h"
#include "graph/context.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"

// A mark: where the op's value is on a replica's cores.
#define LS_MARK_SHARDING "_XlaSharding"

// Adds an op with these operands and attributes and gives its first output.
ls_tensor ls_make(uint16_t type, const ls_tensor *inputs, size_t num_inputs,
                  const ls_attr *attrs, size_t num_attrs);
// Defines the maker of an op of one operand, or of two, and no attributes.
#define LS_MAKE_UNARY(function, id)                                            \
  ls_tensor function(ls_tensor x) {                                            \
    return ls_make(LS_OP_##id, &x, 1, NULL, 0);                                \
  }
#define LS_MAKE_BINARY(function, id)                                           \
  ls_tensor function(ls_tensor x, ls_tensor y) {                               \
    return ls_make(LS_OP_##id, (const ls_tensor[]){x, y}, 2, NULL, 0);         \
  }
// A reduction over some axes.
ls_tensor ls_make_reduce(uint16_t type, ls_tensor x, ls_axes axes, bool keep);
// A random op of this shape, with up to two attributes of its own.
ls_tensor ls_make_random(uint16_t type, ls_dtype dtype, ls_shape shape,
                         const ls_attr *own, size_t num_own,
                         const ls_random_options *options);
// The same, as large as `like`, also where its sizes are not known yet.
ls_tensor ls_make_random_like(uint16_t type, ls_dtype dtype, ls_tensor like,
                              const ls_attr *own, size_t num_own,
                              const ls_random_options *options);
// Values that a replica got when it met the others, behind what it gave, by
// what is `op` where that is one: gradients are those of `op`.
ls_op ls_add_meeting(uint16_t op, const ls_tensor *given, size_t num_given,
                     const ls_attr *attrs, size_t num_attrs,
                     const ls_tensor *got, size_t num_got);
// One of one value.
ls_tensor ls_make_meeting(uint16_t op, ls_tensor given, const ls_attr *attrs,
                          size_t num_attrs, ls_tensor got);
// Gives an all-reduce its gradient.
ls_tensor ls_make_reduced(ls_reduce_op op, ls_tensor given, ls_tensor got);
// The type of a mean over replicas: that of integers is a true division.
ls_dtype ls_mean_dtype(ls_dtype dtype);
// Returns true if a reduction of x in a replica is such a division, and that of
// the sum over `count` replicas.
bool ls_divides_integers(ls_reduce_op op, ls_tensor x);
ls_tensor ls_divide_integers(ls_tensor sum, int64_t count);
// As ls_all_reduce; by the strategy's table if that is a user's.
ls_tensor ls_all_reduce_met(ls_reduce_op op, ls_tensor x);
// A host call whose state is a text, which its kernel reads by ls_label_text.
ls_op ls_make_labelled_call(const ls_host_kernel *kernel, const char *text,
                            const ls_tensor *inputs, size_t num_inputs);
const char *ls_label_text(const ls_object *state);
// As ls_assert_true, of numbers that are to be finite: its failure is one by
// LS_CAUSE_NUMBERS.
ls_op ls_make_check_of_numbers(ls_tensor finite, const char *message);
// The current graph fails with `status`, taken over; the result is failed.
ls_tensor ls_make_failed(const char *op_name, ls_status status);
// First line of makers that need an object: without one they fail.
#define LS_MAKE_REQUIRE(object)                                                \
  do {                                                                         \
    if ((object) == NULL)                                                      \
      return ls_make_failed(__func__, ls_null_argument(__func__, #object));    \
  } while (0)
// The same of makers of ops.
#define LS_MAKE_REQUIRE_FOR_OP(object)                                         \
  do {                                                                         \
    if ((object) == NULL)                                                      \
      return ls_tensor_op(                                                     \
          ls_make_failed(__func__, ls_null_argument(__func__, #object)));      \
  } while (0)
// Returns a scatter op's attribute; NULL, and why, if there is no such op.
const char *ls_scatter_name(ls_scatter_op op);
ls_status ls_no_scatter(ls_scatter_op op);
// "MAX", or "reduce op 7" of what is none; LS_REDUCE_OP_TEXT is a short-lived
// buffer with it, for messages.
const char *ls_reduce_op_print(ls_reduce_op op, char *buffer, size_t size);
#define LS_REDUCE_OP_TEXT(op) ls_reduce_op_print((op), (char[32]){0}, 32)
// A negative axis from the end. One out of range, or of unknown rank: as it is.
int ls_make_axis(ls_tensor x, int axis);

#endif  // LS_GRAPH_MAKE_MAKE_H_

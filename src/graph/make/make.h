// SPDX-License-Identifier: Apache-2.0
//
// Helpers shared by op makers.
#ifndef LS_GRAPH_MAKE_MAKE_H_
#define LS_GRAPH_MAKE_MAKE_H_

#include "base/require.h"
#include "graph/context.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"

// Mark: the layout of the op's value on a replica's cores.
#define LS_MARK_SHARDING "_XlaSharding"

// Adds an op with these operands and attributes; `name` may be NULL.
ls_op ls_make_op(uint16_t type, const char *name, const ls_tensor *inputs,
                 size_t num_inputs, const ls_attr *attrs, size_t num_attrs);
// Adds an op without a name and returns its first output.
ls_tensor ls_make(uint16_t type, const ls_tensor *inputs, size_t num_inputs,
                  const ls_attr *attrs, size_t num_attrs);
// Defines the maker of an op with one or two operands and no attributes.
#define LS_MAKE_UNARY(function, id)                                            \
  ls_tensor function(ls_tensor x) {                                            \
    return ls_make(LS_OP_##id, &x, 1, NULL, 0);                                \
  }
#define LS_MAKE_BINARY(function, id)                                           \
  ls_tensor function(ls_tensor x, ls_tensor y) {                               \
    return ls_make(LS_OP_##id, (const ls_tensor[]){x, y}, 2, NULL, 0);         \
  }
// Makes a reduction over some axes.
ls_tensor ls_make_reduce(uint16_t type, ls_tensor x, ls_axes axes, bool keep);
#define LS_MAKE_REDUCE(function, id, keep)                                     \
  ls_tensor function(ls_tensor x, ls_axes axes) {                              \
    return ls_make_reduce(LS_OP_REDUCE_##id, x, axes, keep);                   \
  }
// Makes a constant of a copy of an array of any size.
ls_tensor ls_make_constant_copy(const ls_array *array);
// Makes the attribute `sizes`, stored in `items`: constants where the shape is
// known, else dimensions of operand `like` (LS_SIZE_CONSTANT: of none). The op
// refuses a rank that is unknown or too large.
ls_attr ls_make_sizes(ls_shape shape, int32_t like, ls_size items[LS_MAX_RANK]);
// Fails because `x` has no known rank; if `x` has failed, returns its failure.
ls_tensor ls_make_unknown_rank(const char *op_name, ls_tensor x);
// Makes a random op of this shape, with up to two attributes in addition to the
// common ones.
ls_tensor ls_make_random(uint16_t type, ls_dtype dtype, ls_shape shape,
                         const ls_attr *own, size_t num_own,
                         const ls_random_options *options);
// Adds an op `meeting` that records the values (`got`) that a replica received
// from a collective or merge call on `given`. If `op` is a collective, its
// gradient rule is used.
ls_op ls_add_meeting(uint16_t op, const ls_tensor *given, size_t num_given,
                     const ls_attr *attrs, size_t num_attrs,
                     const ls_tensor *got, size_t num_got);
// Adds an op `meeting` for a single received value.
ls_tensor ls_make_meeting(uint16_t op, ls_tensor given, const ls_attr *attrs,
                          size_t num_attrs, ls_tensor got);
// Adds an op `meeting` for the result of an all-reduce, so that the result has
// a gradient.
ls_tensor ls_make_reduced(ls_reduce_op op, ls_tensor given, ls_tensor got);
// Returns the type of a mean over replicas; integers give floats.
ls_dtype ls_mean_dtype(ls_dtype dtype);
// Converts integers to i64, in which the sum for a mean of small ones does not
// overflow; other numbers stay. Sums that are results keep their type and may
// wrap, and so may those of 64-bit integers for a mean.
ls_tensor ls_widen_integers(ls_tensor x);
// Returns true if a reduction of x in a replica is a mean of integers.
// ls_divide_integers computes such a mean, of this type, from the sum of
// widened ones over `count` replicas.
bool ls_divides_integers(ls_reduce_op op, ls_tensor x);
ls_tensor ls_divide_integers(ls_tensor sum, ls_dtype mean, int64_t count);
// Reduces as ls_all_reduce does, but with the strategy's user-defined
// cross-device ops if it has any.
ls_tensor ls_all_reduce_met(ls_reduce_op op, ls_tensor x);
// Makes a host call whose state is a text; the kernel reads the text with
// ls_label_text.
ls_op ls_make_labelled_call(const ls_host_kernel *kernel, const char *text,
                            const ls_tensor *inputs, size_t num_inputs);
const char *ls_label_text(const ls_object *state);
// Asserts that numbers are finite, as ls_assert_true does; a failure has the
// cause LS_CAUSE_NUMBERS.
ls_op ls_make_check_of_numbers(ls_tensor finite, const char *message);
// Fails the current graph with `status`, taken over; returns a failed tensor.
ls_tensor ls_make_failed(const char *op_name, ls_status status);
// Returns y, or a failed tensor if it is known not to have the shape of x.
ls_tensor ls_make_shaped_as(const char *op_name, ls_tensor x, ls_tensor y);
// Returns a failure from a maker whose object is NULL; for its first line.
#define LS_MAKE_REQUIRE(object)                                                \
  do {                                                                         \
    if ((object) == NULL)                                                      \
      return ls_make_failed(__func__, ls_null_argument(__func__, #object));    \
  } while (0)
// Returns a failed op from a maker of ops whose object is NULL.
#define LS_MAKE_REQUIRE_FOR_OP(object)                                         \
  do {                                                                         \
    if ((object) == NULL)                                                      \
      return ls_tensor_op(                                                     \
          ls_make_failed(__func__, ls_null_argument(__func__, #object)));      \
  } while (0)
// Returns the attribute of a scatter op; NULL, with a failure, if there is no
// such op.
const char *ls_scatter_name(ls_scatter_op op);
ls_status ls_no_scatter(ls_scatter_op op);
// Prints a reduction, such as "MAX", or "reduce op 7" for an unknown one.
// LS_REDUCE_OP_TEXT prints into a temporary buffer, for messages.
const char *ls_reduce_op_print(ls_reduce_op op, char *buffer, size_t size);
#define LS_REDUCE_OP_TEXT(op) ls_reduce_op_print((op), (char[32]){0}, 32)
// Resolves a negative axis; returns axes that are out of range, or of unknown
// rank, unchanged.
int ls_make_axis(ls_tensor x, int axis);

#endif  // LS_GRAPH_MAKE_MAKE_H_

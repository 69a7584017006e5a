// SPDX-License-Identifier: Apache-2.0
//
// A graph built from an ONNX file: values, and access for the makers of ops.
//
// ONNX puts channels first, op makers last. A value has one form or both: each
// is made when it is first needed, so that layers which follow one another pass
// on the form with channels last.
//
// Integers that come from shapes and constants are known while building, and
// folded: a size that is not known is the dimension of some tensor.
#ifndef LS_ONNX_ONNX_BUILD_H_
#define LS_ONNX_ONNX_BUILD_H_

#include "lockstep/variable.h"
#include "onnx/onnx_file.h"

typedef struct ls_onnx_number {
  int64_t value;
  bool is_unknown;
  ls_tensor of;  // Unknown: the size of dimension `value`; failed: no tensor's.
} ls_onnx_number;

typedef struct ls_onnx_known {
  int32_t rank;     // From 0 to 2.
  int64_t columns;  // Width of a matrix.
  int64_t count;    // Number of all items.
  ls_onnx_number *items;
} ls_onnx_known;
enum { LS_ONNX_MOST_KNOWN = 4096, LS_ONNX_MOST_ELEMENTS = 1 << 29 };

typedef struct ls_onnx_value {
  ls_tensor tensor;            // In ONNX's form; failed: not made.
  ls_tensor last;              // With channels last; failed: not made.
  const ls_onnx_known *known;  // NULL: not known while building.
  ls_dtype dtype;              // Type of `known`.
  ls_array *array;             // Elements of a constant, or NULL.
  ls_variable *variable;       // Weight, or NULL.
  int batch;  // StableHLO: dimension of the batch + 1; 0: none.
} ls_onnx_value;

typedef struct ls_onnx_build {
  const ls_onnx_file *file;
  const ls_onnx_node *node;  // The node being made.
  ls_arena *memory;
  ls_onnx_value *values;
  bool is_training;
  bool is_last;          // Form of the elementwise op being made.
  ls_onnx_number batch;  // StableHLO: a batch size other than the text's.
  int64_t num_known;     // Number of items of all known integers so far.
  ls_status status;
} ls_onnx_build;

// An op of ONNX: one of the makers is set.
typedef struct ls_onnx_op {
  const char *type;
  ls_tensor (*unary)(ls_tensor x);
  ls_tensor (*binary)(ls_tensor x, ls_tensor y);
  void (*make)(ls_onnx_build *b);
  uint8_t least, most;  // Numbers of inputs.
} ls_onnx_op;
// Finds an op; NULL if there is none.
const ls_onnx_op *ls_onnx_op_find(const ls_onnx_file *file,
                                  const ls_onnx_node *node);
// Makes the ops of a node, and sets its outputs.
void ls_onnx_make_node(ls_onnx_build *b, const ls_onnx_node *node);

// ---- Failing ---------------------------------------------------------------
// Sets the status, unless it is a failure already.
void ls_onnx_fail(ls_onnx_build *b, ls_status status);
#define LS_ONNX_REFUSE(b, ...) ls_onnx_fail((b), ls_unimplemented(__VA_ARGS__))

// ---- Operands --------------------------------------------------------------
bool ls_onnx_has(const ls_onnx_build *b, size_t input);
// Returns an input in one form or the other; a failed tensor if it is not
// given.
ls_tensor ls_onnx_in(ls_onnx_build *b, size_t input);
ls_tensor ls_onnx_in_last(ls_onnx_build *b, size_t input);
ls_shape ls_onnx_in_shape(ls_onnx_build *b, size_t input);
// Returns a value as a tensor in ONNX's form.
ls_tensor ls_onnx_tensor(ls_onnx_build *b, uint32_t value);
// Returns the integers of an input; NULL if they are not known.
const ls_onnx_known *ls_onnx_known_in(ls_onnx_build *b, size_t input);
// Returns the known integers of an input, which may be sizes that are not
// known; refuses others.
const ls_onnx_known *ls_onnx_need_known(ls_onnx_build *b, size_t input,
                                        const char *what);
// Returns the elements of a constant input; NULL if it is none.
const ls_array *ls_onnx_array_in(const ls_onnx_build *b, size_t input);
// Chooses the form of an elementwise op and returns its first input; the result
// goes to ls_onnx_give_element.
ls_tensor ls_onnx_element(ls_onnx_build *b);

void ls_onnx_give(ls_onnx_build *b, size_t output, ls_tensor tensor);
void ls_onnx_give_last(ls_onnx_build *b, size_t output, ls_tensor tensor);
void ls_onnx_give_element(ls_onnx_build *b, ls_tensor tensor);
void ls_onnx_give_known(ls_onnx_build *b, const ls_onnx_known *known,
                        ls_dtype dtype);

// ---- Attributes ------------------------------------------------------------
// Finds an attribute; NULL if it is not given.
const ls_onnx_attr *ls_onnx_attr_find(const ls_onnx_node *node,
                                      const char *name);
int64_t ls_onnx_attr_int(const ls_onnx_build *b, const char *name,
                         int64_t fallback);
double ls_onnx_attr_real(const ls_onnx_build *b, const char *name,
                         double fallback);
const char *ls_onnx_attr_text(const ls_onnx_build *b, const char *name,
                              const char *fallback);
// Returns a list of integers of an attribute or, if that is not given, of an
// input; NULL if there is neither. Refuses one with a size that is not known.
const ls_onnx_known *ls_onnx_list_of(ls_onnx_build *b, const char *name,
                                     size_t input);
// Returns such a list, also with sizes that are not known.
const ls_onnx_known *ls_onnx_sizes_of(ls_onnx_build *b, const char *name,
                                      size_t input);
static inline int64_t ls_onnx_clamp(int64_t i, int64_t low, int64_t high) {
  return i < low ? low : (i > high ? high : i);
}
// Returns true if the list, which NULL ends, has the word.
static inline bool ls_onnx_is_one_of(const char *word,
                                     const char *const *words) {
  while (*words != NULL && strcmp(*words, word) != 0)
    ++words;
  return *words != NULL;
}
// Returns an axis from 0 on; refuses one that is out of range.
int ls_onnx_axis(ls_onnx_build *b, int64_t axis, int32_t rank);

// ---- Sizes -----------------------------------------------------------------
ls_onnx_known *ls_onnx_known_new(ls_onnx_build *b, int32_t rank, int64_t count);
// Returns the elements of an array; NULL if they are no integers, or too many.
const ls_onnx_known *ls_onnx_known_of(ls_onnx_build *b, const ls_array *array);
// Returns the product of the sizes from `first` up to `end`; -1: unknown.
int64_t ls_onnx_product(ls_shape shape, int first, int end);
// Writes the dimensions of a tensor; `out` has room for LS_MAX_RANK.
void ls_onnx_dims(ls_tensor x, ls_onnx_number *out);
// Reshapes or broadcasts x to these sizes (LS_OP_RESHAPE, LS_OP_BROADCAST).
ls_tensor ls_onnx_sized(ls_onnx_build *b, uint16_t op, ls_tensor x,
                        const ls_onnx_number *sizes, int64_t rank);
// Returns true if a number is the size of this dimension.
bool ls_onnx_is_size_of(const ls_onnx_number *n, ls_tensor x, int axis);
// Folds a node of known integers; returns false if it is none.
bool ls_onnx_fold(ls_onnx_build *b);
// Makes a tensor of known integers.
ls_tensor ls_onnx_known_tensor(ls_onnx_build *b, const ls_onnx_known *known,
                               ls_dtype dtype);

// ---- Makers, by file -------------------------------------------------------
// clang-format off
#define LS_ONNX_MAKERS(DO)                                                     \
  DO(is_inf) DO(leaky_relu) DO(elu) DO(selu) DO(gelu) DO(hard_sigmoid)         \
  DO(hard_swish) DO(prelu) DO(clip) DO(cast) DO(pow) DO(where) DO(mean)        \
  DO(mod) DO(dropout) DO(constant) DO(reshape) DO(flatten) DO(transpose)       \
  DO(squeeze) DO(unsqueeze) DO(concat) DO(split) DO(slice) DO(gather)          \
  DO(gather_elements) DO(expand) DO(tile) DO(pad) DO(shape)                    \
  DO(constant_of_shape) DO(range) DO(trilu) DO(resize) DO(one_hot) DO(cumsum)  \
  DO(reduce) DO(arg) DO(top_k) DO(matmul) DO(gemm) DO(softmax) DO(conv)        \
  DO(conv_transpose) DO(pool) DO(global_pool) DO(batch_norm) DO(layer_norm)    \
  DO(instance_norm) DO(recurrent)
// clang-format on
#define LS_ONNX_DECLARE_(noun) void ls_onnx_make_##noun(ls_onnx_build *b);
LS_ONNX_MAKERS(LS_ONNX_DECLARE_)

#endif  // LS_ONNX_ONNX_BUILD_H_

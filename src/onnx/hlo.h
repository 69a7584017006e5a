// SPDX-License-Identifier: Apache-2.0
//
// StableHLO texts as ONNX files are: nodes whose domain is "stablehlo" or
// "chlo" and whose name is the line. Calls are inlined and loops are unrolled
// when the text is read, so that a list of nodes is left.
//
// A text has one batch size, that of its first input. Values made by ops of
// another one are marked with the dimension that is the batch, or a multiple of
// it; all other sizes are those of the text. Dimensions that a broadcast adds
// have size 1 until an op needs all elements.
#ifndef LS_ONNX_HLO_H_
#define LS_ONNX_HLO_H_

#include "onnx/onnx_build.h"
#include "onnx/onnx_file.h"

// ---- Tokens (hlo_lex.c) ----------------------------------------------------
typedef enum ls_hlo_kind {
  LS_HLO_END,
  LS_HLO_NAME,    // stablehlo.add, x, i64
  LS_HLO_VALUE,   // %arg0, %2#1
  LS_HLO_SYMBOL,  // @main
  LS_HLO_STRING,
  LS_HLO_NUMBER,
  LS_HLO_ALIAS,  // #stablehlo, #loc3
  LS_HLO_ARROW,
  LS_HLO_MARK,  // Any other character.
} ls_hlo_kind;

typedef struct ls_hlo_cursor {
  const char *at;  // End of the token.
  int64_t line;
  ls_hlo_kind kind;
  const char *text;  // Text of the token, without quotes and sigils.
  size_t size;
} ls_hlo_cursor;

typedef struct ls_hlo_list {
  int64_t *items;
  size_t count;
} ls_hlo_list;

// A reader. After a failure all tokens are LS_HLO_END.
typedef struct ls_hlo_reader {
  ls_onnx_reader onnx;
  const char *begin, *end;
  ls_hlo_cursor now;
  ls_status status;
} ls_hlo_reader;

// Fails at the current token: "'a.mlir': line 3, column 7: ...".
void ls_hlo_fail(ls_hlo_reader *r, ls_code code, const char *format, ...)
    LS_PRINTF(3, 4);
void ls_hlo_no_memory(ls_hlo_reader *r);
#define LS_HLO_EXPECTED(r, ...)                                                \
  ls_hlo_fail((r), LS_INVALID_ARGUMENT, "expected " __VA_ARGS__)

void ls_hlo_next(ls_hlo_reader *r);
bool ls_hlo_is(const ls_hlo_reader *r, const char *text);  // A mark or a name.
bool ls_hlo_accept(ls_hlo_reader *r, const char *text);
void ls_hlo_expect(ls_hlo_reader *r, const char *text);
// Skips what is in brackets, from the current one on.
void ls_hlo_skip_brackets(ls_hlo_reader *r);
// Copies the token's text, with the characters that a string escapes.
const char *ls_hlo_text(ls_hlo_reader *r);
// Reads "tensor<2x3xf32>".
ls_type ls_hlo_read_type(ls_hlo_reader *r);
// Reads "dense<...> : tensor<...>". The file owns the array; one number for all
// elements gives an array with sizes of 1.
ls_array *ls_hlo_read_dense(ls_hlo_reader *r, ls_type *out_type);
// Reads "[1, [2, 3]]" or "array<i64: 1, 2, 3>". Of the names of dimensions, b
// is -1, f -2, i -3 and o -4; a range "0:8" is three numbers with its stride.
void ls_hlo_read_list(ls_hlo_reader *r, ls_hlo_list *out);
void ls_hlo_add(ls_hlo_reader *r, ls_hlo_list *list, int64_t item);
// Appends a zeroed item to a list; NULL after a failure.
void *ls_hlo_push(ls_hlo_reader *r, void *items, size_t *count, size_t size);
void ls_hlo_own_array(ls_hlo_reader *r, ls_array *array);

enum { LS_HLO_MOST_DEPTH = 64 };  // Brackets in an attribute.

// ---- Ops (hlo_op.c) --------------------------------------------------------
typedef struct ls_hlo_names {
  const char **items;
  size_t count;
} ls_hlo_names;

// The text of an op.
enum { LS_HLO_MOST_ATTRS = 24 };
typedef struct ls_hlo_op {
  char domain[16], type[48];
  ls_hlo_cursor begin;  // Name of the op.
  ls_hlo_names results;
  ls_hlo_cursor *operands;  // Names of values.
  size_t num_operands;
  ls_hlo_list inputs;  // Numbers of those values, once found.
  ls_onnx_attr attrs[LS_HLO_MOST_ATTRS];
  size_t num_attrs;
  const char *callee;     // Function of a call.
  const char *direction;  // Direction of a comparison, or NULL.
  bool is_total;          // Compares in order TOTALORDER.
  ls_array *array;        // The last constant.
  ls_type array_type;
  ls_type *types;  // Types of the results; of a return, the operands.
  size_t num_types;
  ls_hlo_names carried;  // Names in a loop's regions.
  ls_hlo_cursor *regions;  // A loop's, or a choice's.
  size_t num_regions;
} ls_hlo_op;
extern const char *const ls_hlo_directions[6];

void ls_hlo_read_op(ls_hlo_reader *r, ls_hlo_op *o);
// Reads "NAME = VALUE, ..." up to a bracket. Those in inner dictionaries become
// attributes of the op, too.
void ls_hlo_read_attrs(ls_hlo_reader *r, ls_hlo_op *o, const char *end,
                       int depth);

// Returns twice the number of the operand by which a sort's region orders, plus
// 1 for the largest first; -1: by none alone. Its nodes begin at `first`, its
// pairs of arguments at the value `items`.
int64_t ls_hlo_order(const ls_onnx_file *file, size_t first, uint32_t items,
                     size_t count, uint32_t result);

// ---- Files (hlo_file.c) ----------------------------------------------------
// Reads a text, and its weights in a file beside it.
LS_MUST_USE ls_status ls_hlo_decode(ls_runtime *runtime, const void *data,
                                    size_t size, ls_onnx_file *file);
// Returns true for a text, by the end of its path.
bool ls_hlo_is_path(const char *path);
// Returns the value before a softmax that makes `value`, or `value`.
uint32_t ls_hlo_logits(const ls_onnx_file *file, uint32_t value);

// ---- Building (hlo_table.c, hlo_math.c, hlo_index.c) -----------------------
const ls_onnx_op *ls_hlo_op_find(const char *domain, const char *type);
void ls_hlo_make_node(ls_onnx_build *b, const ls_onnx_op *op);
// Compares the inputs' sizes with the text's, and marks the batch.
void ls_hlo_take_batch(ls_onnx_build *b);
// Returns an output of the text, with all elements.
ls_tensor ls_hlo_output(ls_onnx_build *b, uint32_t value);

// Returns the node, number `first` or a later one, that makes a value by an op
// of this type, or NULL.
const ls_onnx_node *ls_hlo_maker(const ls_onnx_file *file, size_t first,
                                 uint32_t value, const char *type);
// Finds the number that a constant of one element is.
bool ls_hlo_number(const ls_onnx_file *file, uint32_t value, double *out);

// Return types in the text.
static inline ls_shape ls_hlo_in_shape(const ls_onnx_build *b, size_t input) {
  return b->file->types[b->node->inputs[input]].shape;
}
static inline ls_type ls_hlo_result_type(const ls_onnx_build *b) {
  return b->file->types[b->node->outputs[0]];
}
// Returns the dimension of the batch, or -1.
int ls_hlo_batch_of(const ls_onnx_build *b, size_t input);
// Returns an input with all elements.
ls_tensor ls_hlo_whole(ls_onnx_build *b, size_t input);
// Returns an input with all elements along these dimensions, bits.
ls_tensor ls_hlo_widened(ls_onnx_build *b, size_t input, uint32_t dims);
// Returns the dimension of the batch in the operands of an elementwise op.
int ls_hlo_element_batch(ls_onnx_build *b);
// Returns an input with all elements, and with the batch in this dimension.
ls_tensor ls_hlo_batched(ls_onnx_build *b, size_t input, int batch);
// Returns true if the dimension is in a list.
bool ls_hlo_has(const int64_t *dims, int count, int dim);
// Transposes, unless nothing moves.
ls_tensor ls_hlo_transpose(ls_tensor x, const int *order, int rank);
ls_tensor ls_hlo_reshape(ls_tensor x, ls_shape shape, int batch);
void ls_hlo_give(ls_onnx_build *b, size_t output, ls_tensor x, int batch);
// Refuses an op that works for the text's batch size only.
void ls_hlo_refuse_batch(ls_onnx_build *b, const char *what);
// Reads a list of integers into `out`; returns their number, -1 without it.
int ls_hlo_ints(ls_onnx_build *b, const char *name, int64_t *out, int most);

// clang-format off
#define LS_HLO_MAKERS(DO)                                                      \
  DO(convert) DO(bitcast) DO(compare) DO(select) DO(choice) DO(clamp)          \
  DO(iota) DO(broadcast) DO(reshape) DO(transpose) DO(slice)                   \
  DO(dynamic_slice) DO(dynamic_update) DO(pad) DO(concatenate) DO(reverse)     \
  DO(reduce) DO(reduce_window) DO(dot) DO(dot_general) DO(convolution)         \
  DO(gather) DO(scatter) DO(sort) DO(top_k)
// clang-format on
#define LS_HLO_DECLARE_(noun) void ls_hlo_make_##noun(ls_onnx_build *b);
LS_HLO_MAKERS(LS_HLO_DECLARE_)

#endif  // LS_ONNX_HLO_H_

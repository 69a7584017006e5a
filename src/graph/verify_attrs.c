// SPDX-License-Identifier: Apache-2.0
//
// The verifier's knowledge of attributes: which ones each op has.
#include "graph/variable.h"
#include "graph/verify.h"
#include "lockstep/host.h"

typedef struct attr_rule {
  uint16_t type;
  const char *name;
  ls_attr_kind kind;
  bool required;
} attr_rule;

// Attributes that ops have beyond these are marks: any name, any kind.
static const attr_rule attr_rules[] = {
    {LS_OP_CONSTANT, "value", LS_ATTR_ARRAY, true},
    {LS_OP_PLACEHOLDER, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_PLACEHOLDER, "shape", LS_ATTR_SHAPE, true},
    {LS_OP_PARAMETER, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_PARAMETER, "shape", LS_ATTR_SHAPE, true},
    {LS_OP_PARAMETER, "index", LS_ATTR_INT, true},
    {LS_OP_IOTA, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_IOTA, "axis", LS_ATTR_INT, false},
    {LS_OP_IOTA, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_UNIFORM, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_UNIFORM, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_UNIFORM, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_UNIFORM, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_UNIFORM, "low", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_UNIFORM, "high", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_UNIFORM, "same_on_all_replicas", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_UNIFORM, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_UNIFORM, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_NORMAL, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_NORMAL, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_NORMAL, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_NORMAL, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_NORMAL, "mean", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_NORMAL, "deviation", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_NORMAL, "same_on_all_replicas", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_NORMAL, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_NORMAL, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_DIM_SIZE, "axis", LS_ATTR_INT, false},
    {LS_OP_CONVERT, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RESHAPE, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_BROADCAST, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_SUM_TO, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_TRANSPOSE, "permutation", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_SUM, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_SUM, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_MEAN, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_MEAN, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_MAX, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_MAX, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_MIN, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_MIN, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_ARGMAX, "axis", LS_ATTR_INT, false},
    {LS_OP_MATMUL, "transpose_a", LS_ATTR_BOOL, false},
    {LS_OP_MATMUL, "transpose_b", LS_ATTR_BOOL, false},
    {LS_OP_DENSE, "activation", LS_ATTR_STRING, false},
    {LS_OP_ONE_HOT, "depth", LS_ATTR_INT, true},
    {LS_OP_ONE_HOT, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_SLICE, "starts", LS_ATTR_INTS, true},
    {LS_OP_SLICE, "limits", LS_ATTR_INTS, true},
    {LS_OP_SLICE, "strides", LS_ATTR_INTS, true},
    {LS_OP_SLICE_GRAD, "starts", LS_ATTR_INTS, true},
    {LS_OP_SLICE_GRAD, "limits", LS_ATTR_INTS, true},
    {LS_OP_SLICE_GRAD, "strides", LS_ATTR_INTS, true},
    {LS_OP_DYNAMIC_SLICE, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_PAD, "low", LS_ATTR_INTS, true},
    {LS_OP_PAD, "high", LS_ATTR_INTS, true},
    {LS_OP_PAD, "interior", LS_ATTR_INTS, true},
    {LS_OP_CONCATENATE, "axis", LS_ATTR_INT, false},
    {LS_OP_SPLIT_LIKE, "axis", LS_ATTR_INT, false},
    {LS_OP_REVERSE, "axes", LS_ATTR_INTS, true},
    {LS_OP_GATHER, "axis", LS_ATTR_INT, false},
    {LS_OP_SCATTER, "combine", LS_ATTR_STRING, true},
    {LS_OP_SCATTER, "axis", LS_ATTR_INT, false},
    {LS_OP_INDEXED_SLICES, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_TAKE_ALONG, "axis", LS_ATTR_INT, false},
    {LS_OP_ADD_ALONG, "axis", LS_ATTR_INT, false},
    {LS_OP_CUMSUM, "axis", LS_ATTR_INT, false},
    {LS_OP_CUMSUM, "exclusive", LS_ATTR_BOOL, false},
    {LS_OP_CUMSUM, "reverse", LS_ATTR_BOOL, false},
    {LS_OP_CUMPROD, "axis", LS_ATTR_INT, false},
    {LS_OP_CUMPROD, "exclusive", LS_ATTR_BOOL, false},
    {LS_OP_CUMPROD, "reverse", LS_ATTR_BOOL, false},
    {LS_OP_LINEAR_SCAN, "axis", LS_ATTR_INT, false},
    {LS_OP_LINEAR_SCAN, "reverse", LS_ATTR_BOOL, false},
    {LS_OP_SORT, "axis", LS_ATTR_INT, false},
    {LS_OP_SORT, "descending", LS_ATTR_BOOL, false},
    {LS_OP_TOP_K, "k", LS_ATTR_INT, true},
    {LS_OP_ARGMIN, "axis", LS_ATTR_INT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "mean", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "deviation", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "same_on_all_replicas", LS_ATTR_BOOL,
     false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_TRUNCATED_NORMAL, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_BY_EXAMPLE, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_BY_EXAMPLE, "distribution", LS_ATTR_STRING, true},
    {LS_OP_RANDOM_BY_EXAMPLE, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "low", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "high", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "mean", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "deviation", LS_ATTR_FLOAT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "same_on_all_replicas", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BY_EXAMPLE, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_BITS, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_BITS, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_BITS, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BITS, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BITS, "same_on_all_replicas", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_BITS, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_BITS, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_PERMUTATION, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_RANDOM_PERMUTATION, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_RANDOM_PERMUTATION, "seed", LS_ATTR_INT, false},
    {LS_OP_RANDOM_PERMUTATION, "stream", LS_ATTR_INT, false},
    {LS_OP_RANDOM_PERMUTATION, "same_on_all_replicas", LS_ATTR_BOOL, false},
    {LS_OP_RANDOM_PERMUTATION, "replica", LS_ATTR_INT, false},
    {LS_OP_RANDOM_PERMUTATION, "fixed", LS_ATTR_BOOL, false},
    {LS_OP_BITCAST, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_REDUCE_PRODUCT, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_PRODUCT, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_AND, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_AND, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_OR, "axes", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_OR, "keep_dims", LS_ATTR_BOOL, false},
    {LS_OP_MEETING, "num_inputs", LS_ATTR_INT, true},
    {LS_OP_MEETING, "op", LS_ATTR_STRING, true},
    {LS_OP_CUSTOM_GRADIENT, "num_inputs", LS_ATTR_INT, true},
    {LS_OP_CUSTOM_GRADIENT, "gradient", LS_ATTR_OBJECT, true},
    {LS_OP_CONVOLUTION, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONVOLUTION, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONVOLUTION, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONVOLUTION, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONVOLUTION, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONVOLUTION, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_BIAS_ACT, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_BIAS_ACT, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_BIAS_ACT, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_BIAS_ACT, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_BIAS_ACT, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_BIAS_ACT, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_BIAS_ACT, "activation", LS_ATTR_STRING, false},
    {LS_OP_CONV_GRAD_INPUT, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_INPUT, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_INPUT, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_INPUT, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_INPUT, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_GRAD_INPUT, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_GRAD_INPUT, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_CONV_GRAD_WEIGHTS, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_GRAD_WEIGHTS, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_CONV_POOL_MAX, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_MAX, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_MAX, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_MAX, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_MAX, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_POOL_MAX, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_POOL_MAX, "activation", LS_ATTR_STRING, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_POOL_GRAD_INPUT, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "strides", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "input_dilations", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "padding", LS_ATTR_INTS, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "same", LS_ATTR_BOOL, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "groups", LS_ATTR_INT, false},
    {LS_OP_CONV_POOL_GRAD_WEIGHTS, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_REDUCE_WINDOW, "window", LS_ATTR_INTS, true},
    {LS_OP_REDUCE_WINDOW, "strides", LS_ATTR_INTS, false},
    {LS_OP_REDUCE_WINDOW, "dilations", LS_ATTR_INTS, false},
    {LS_OP_REDUCE_WINDOW, "padding", LS_ATTR_INTS, false},
    {LS_OP_REDUCE_WINDOW, "same", LS_ATTR_BOOL, false},
    {LS_OP_REDUCE_WINDOW, "reduce", LS_ATTR_STRING, true},
    {LS_OP_REDUCE_WINDOW, "count_padding", LS_ATTR_BOOL, false},
    {LS_OP_WINDOW_SUM_GRAD, "window", LS_ATTR_INTS, true},
    {LS_OP_WINDOW_SUM_GRAD, "strides", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_SUM_GRAD, "dilations", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_SUM_GRAD, "padding", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_SUM_GRAD, "same", LS_ATTR_BOOL, false},
    {LS_OP_WINDOW_SUM_GRAD, "reduce", LS_ATTR_STRING, true},
    {LS_OP_WINDOW_SUM_GRAD, "count_padding", LS_ATTR_BOOL, false},
    {LS_OP_WINDOW_SUM_GRAD, "sizes", LS_ATTR_SIZES, true},
    {LS_OP_WINDOW_MAX_GRAD, "window", LS_ATTR_INTS, true},
    {LS_OP_WINDOW_MAX_GRAD, "strides", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_GRAD, "dilations", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_GRAD, "padding", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_GRAD, "same", LS_ATTR_BOOL, false},
    {LS_OP_WINDOW_MAX_PICK, "window", LS_ATTR_INTS, true},
    {LS_OP_WINDOW_MAX_PICK, "strides", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_PICK, "dilations", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_PICK, "padding", LS_ATTR_INTS, false},
    {LS_OP_WINDOW_MAX_PICK, "same", LS_ATTR_BOOL, false},
    {LS_OP_BATCH_NORM, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_BATCH_NORM, "activation", LS_ATTR_STRING, false},
    {LS_OP_BATCH_NORM_GRAD, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_BATCH_NORM_GRAD, "activation", LS_ATTR_STRING, false},
    {LS_OP_BATCH_NORM_INFERENCE, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_BATCH_NORM_INFERENCE, "activation", LS_ATTR_STRING, false},
    {LS_OP_LAYER_NORM, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_LAYER_NORM_GRAD, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_LAYER_NORM_AGAIN, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_RMS_NORM, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_RMS_NORM_GRAD, "epsilon", LS_ATTR_FLOAT, true},
    {LS_OP_ATTENTION, "num_heads", LS_ATTR_INT, false},
    {LS_OP_ATTENTION, "causal", LS_ATTR_BOOL, false},
    {LS_OP_ATTENTION, "scale", LS_ATTR_FLOAT, false},
    {LS_OP_ATTENTION_GRAD, "num_heads", LS_ATTR_INT, false},
    {LS_OP_ATTENTION_GRAD, "causal", LS_ATTR_BOOL, false},
    {LS_OP_ATTENTION_GRAD, "scale", LS_ATTR_FLOAT, false},
    {LS_OP_READ, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_IS_INITIALIZED, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_ASSIGN, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_ASSIGN_ADD, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_ASSIGN_SUB, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_ASSIGN_SCATTER, "variable", LS_ATTR_OBJECT, true},
    {LS_OP_ASSIGN_SCATTER, "combine", LS_ATTR_STRING, true},
    {LS_OP_WHILE, "num_carried", LS_ATTR_INT, true},
    {LS_OP_WHILE, "max_trips", LS_ATTR_INT, false},
    {LS_OP_WHILE, "num_saved", LS_ATTR_INT, false},
    {LS_OP_STACK_NEW, "dtype", LS_ATTR_DTYPE, false},
    {LS_OP_STACK_NEW, "shape", LS_ATTR_SHAPE, false},
    {LS_OP_STACK_NEW, "endless", LS_ATTR_BOOL, false},
    {LS_OP_STACK_POP, "dtype", LS_ATTR_DTYPE, true},
    {LS_OP_STACK_POP, "shape", LS_ATTR_SHAPE, true},
    {LS_OP_REPLICATE, "replicas", LS_ATTR_INT, true},
    {LS_OP_REPLICATE, "num_split", LS_ATTR_INT, false},
    {LS_OP_REPLICATE, "num_gathered", LS_ATTR_INT, false},
    {LS_OP_REPLICATE, "classes", LS_ATTR_INTS, false},
    {LS_OP_ALL_REDUCE, "groups", LS_ATTR_INTS, false},
    {LS_OP_ALL_REDUCE, "group_size", LS_ATTR_INT, false},
    {LS_OP_ALL_GATHER, "groups", LS_ATTR_INTS, false},
    {LS_OP_ALL_GATHER, "group_size", LS_ATTR_INT, false},
    {LS_OP_REDUCE_SCATTER, "groups", LS_ATTR_INTS, false},
    {LS_OP_REDUCE_SCATTER, "group_size", LS_ATTR_INT, false},
    {LS_OP_ALL_TO_ALL, "split_axis", LS_ATTR_INT, true},
    {LS_OP_ALL_TO_ALL, "concat_axis", LS_ATTR_INT, true},
    {LS_OP_ALL_TO_ALL, "replicas", LS_ATTR_INT, true},
    {LS_OP_ALL_TO_ALL, "groups", LS_ATTR_INTS, false},
    {LS_OP_ALL_TO_ALL, "group_size", LS_ATTR_INT, false},
    {LS_OP_PERMUTE, "sources", LS_ATTR_INTS, true},
    {LS_OP_REPLICA_BROADCAST, "root", LS_ATTR_INT, true},
    {LS_OP_MERGE_CALL, "replicas", LS_ATTR_INT, true},
    {LS_OP_MERGE_CALL, "num_args", LS_ATTR_INT, true},
    {LS_OP_MERGE_CALL, "num_gathered", LS_ATTR_INT, true},
    {LS_OP_ALL_REDUCE, "reduce", LS_ATTR_STRING, true},
    {LS_OP_ALL_REDUCE, "replicas", LS_ATTR_INT, false},
    {LS_OP_ALL_GATHER, "axis", LS_ATTR_INT, true},
    {LS_OP_ALL_GATHER, "replicas", LS_ATTR_INT, false},
    {LS_OP_ALL_GATHER, "rows", LS_ATTR_INTS, false},
    {LS_OP_REDUCE_SCATTER, "reduce", LS_ATTR_STRING, true},
    {LS_OP_REDUCE_SCATTER, "axis", LS_ATTR_INT, true},
    {LS_OP_REDUCE_SCATTER, "replicas", LS_ATTR_INT, false},
    {LS_OP_HOST, "kernel", LS_ATTR_KERNEL, true},
    {LS_OP_HOST, "state", LS_ATTR_OBJECT, false},
};

// By ls_attr_kind.
static const char *const kind_names[] = {
    "nothing",  "an integer", "a float",  "a bool", "a string",
    "a dtype",  "a shape",    "integers", "sizes",  "strings",
    "an array", "an object",  "a kernel"};

static ls_status check_sizes(const ls_node *node, const ls_attr *attr) {
  for (size_t i = 0; i < attr->as.sizes.count; ++i) {
    const ls_size size = attr->as.sizes.items[i];
    const bool fits =
        size.operand == LS_SIZE_CONSTANT
            ? size.value >= -1 && size.value <= INT64_C(1) << 46
            : size.operand >= 0 && (uint32_t)size.operand < node->num_inputs;
    if (!fits)
      return ls_invalid_argument("size %zu in '%s' is no possible size", i,
                                 attr->name);
  }
  return ls_ok();
}

// What an attribute points to is there.
static ls_status check_pointer(const ls_attr *attr) {
  bool is_null = (attr->kind == LS_ATTR_ARRAY && attr->as.array == NULL) ||
                 (attr->kind == LS_ATTR_KERNEL && attr->as.kernel == NULL) ||
                 (attr->kind == LS_ATTR_STRING && attr->as.string == NULL) ||
                 (attr->kind == LS_ATTR_INTS && attr->as.ints.items == NULL &&
                  attr->as.ints.count > 0) ||
                 (attr->kind == LS_ATTR_SIZES && attr->as.sizes.items == NULL &&
                  attr->as.sizes.count > 0) ||
                 (attr->kind == LS_ATTR_STRINGS &&
                  attr->as.strings.items == NULL && attr->as.strings.count > 0);
  for (size_t i = 0;
       !is_null && attr->kind == LS_ATTR_STRINGS && i < attr->as.strings.count;
       ++i)
    is_null = attr->as.strings.items[i] == NULL;
  if (is_null) return ls_invalid_argument("attribute '%s' is NULL", attr->name);
  if (attr->kind == LS_ATTR_KERNEL &&
      (attr->as.kernel->name == NULL || attr->as.kernel->start == NULL))
    return ls_invalid_argument(
        "the host kernel '%s' has no function to start "
        "a call, or no name",
        attr->as.kernel->name != NULL ? attr->as.kernel->name : "");
  return ls_ok();
}

static ls_status check_rule(const ls_node *node, const attr_rule *rule) {
  const ls_attr *attr = ls_node_attr(node, rule->name);
  if (attr == NULL)
    return rule->required
               ? ls_invalid_argument("it needs the attribute '%s', %s",
                                     rule->name, kind_names[rule->kind])
               : ls_ok();
  if (attr->kind != rule->kind)
    return ls_invalid_argument("attribute '%s' is %s, not %s", rule->name,
                               kind_names[attr->kind], kind_names[rule->kind]);
  if (strcmp(rule->name, "variable") == 0 &&
      (attr->as.object == NULL ||
       attr->as.object->type != &ls_variable_object_type))
    return ls_invalid_argument("attribute 'variable' is no variable");
  return ls_ok();
}

bool ls_op_has_attr(uint16_t type, const char *name) {
  for (size_t i = 0; i < LS_COUNT_OF(attr_rules); ++i)
    if (attr_rules[i].type == type && strcmp(attr_rules[i].name, name) == 0)
      return true;
  return false;
}

ls_status ls_check_attrs(const ls_node *node) {
  if (node->attrs == NULL && node->num_attrs > 0)
    return ls_invalid_argument("it has %u attributes at NULL", node->num_attrs);
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (attr->name == NULL || (unsigned)attr->kind > LS_ATTR_KERNEL)
      return ls_invalid_argument("attribute %u has no name or kind", i);
    if (ls_node_attr(node, attr->name) != attr)
      return ls_invalid_argument("attribute '%s' is there twice", attr->name);
    LS_RETURN_IF_ERROR(check_pointer(attr));
    if (attr->kind == LS_ATTR_SIZES)
      LS_RETURN_IF_ERROR(check_sizes(node, attr));
  }
  const uint16_t met_as = ls_node_met_as(node);
  for (size_t i = 0; i < LS_COUNT_OF(attr_rules); ++i)
    if (attr_rules[i].type == node->type || attr_rules[i].type == met_as)
      LS_RETURN_IF_ERROR(check_rule(node, &attr_rules[i]));
  return ls_ok();
}

ls_status ls_verify_attrs(const ls_verifier *v) {
  const ls_status status = ls_check_attrs(v->node);
  if (ls_status_is_ok(status)) return status;
  const ls_status broken = ls_verify_broken(v, "%s", ls_status_message(status));
  ls_status_free(status);
  return broken;
}

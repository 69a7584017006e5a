// SPDX-License-Identifier: Apache-2.0
//
// Op makers: convolutions and reductions over windows.
#include "graph/make/make.h"

// Attributes that are being collected, and the numbers to which they point.
// Defaults are omitted.
enum { MOST_ATTRS = 8 };

typedef struct attr_list {
  ls_attr items[MOST_ATTRS];
  size_t count;
  int64_t numbers[MOST_ATTRS][2 * LS_MAX_RANK];
} attr_list;

static void window_add_attr(attr_list *attrs, ls_attr attr) {
  attrs->items[attrs->count++] = attr;
}

// Adds a list of numbers, which the shape rule checks, unless the list is empty
// or all are 1. The op refuses a rank that is unknown or too large.
static void window_add_numbers(attr_list *attrs, ls_attr_id id,
                               ls_shape numbers) {
  bool plain = numbers.rank >= 0 && numbers.rank <= LS_MAX_RANK;
  int64_t *items = attrs->numbers[attrs->count];
  memcpy(items, numbers.dim, sizeof(numbers.dim));
  for (int32_t i = 0; plain && i < numbers.rank; ++i)
    plain = items[i] == 1;
  if (!plain)
    window_add_attr(attrs,
                    (ls_attr){LS_OWN_KEY((uint16_t)id), .kind = LS_ATTR_INTS,
                              .as.ints = {items, (size_t)numbers.rank}});
}

// Adds low and high padding alternately; missing numbers are 0.
static ls_status add_padding(attr_list *attrs, ls_padding padding, ls_shape low,
                             ls_shape high) {
  const int32_t rank = low.rank > high.rank ? low.rank : high.rank;
  if (padding != LS_PADDING_VALID && padding != LS_PADDING_SAME)
    return ls_invalid_argument("padding %d is none of LS_PADDING_VALID, SAME",
                               (int)padding);
  if (padding == LS_PADDING_SAME) window_add_attr(attrs, LS_OWN_B(SAME, true));
  if (low.rank == 0 && high.rank == 0) return ls_ok();
  if (rank <= 0 || rank > LS_WINDOW_DIMS ||
      (low.rank != 0 && low.rank != rank) ||
      (high.rank != 0 && high.rank != rank))
    return ls_invalid_argument("padding low has %d numbers, high %d; both have "
                               "one for each spatial dimension",
                               low.rank, high.rank);
  bool none = true;
  int64_t *items = attrs->numbers[attrs->count];
  for (int32_t i = 0; i < rank; ++i) {
    items[2 * i] = low.dim[i];
    items[2 * i + 1] = high.dim[i];
    none = none && low.dim[i] == 0 && high.dim[i] == 0;
  }
  if (!none)
    window_add_attr(attrs, LS_OWN_IS(PADDING, items, 2 * (size_t)rank));
  return ls_ok();
}

// Makes an op whose result has the shape of the last input: `sizes` has
// constants where sizes are known, else dimensions of that input.
static ls_tensor make_like(uint16_t type, const ls_tensor *inputs,
                           size_t num_inputs, attr_list *attrs) {
  const ls_tensor like = inputs[num_inputs - 1];
  const ls_shape shape = ls_tensor_shape(like);
  ls_size sizes[LS_MAX_RANK];
  if (ls_tensor_is_failed(like) || shape.rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank(ls_op_table[type].name, like);
  window_add_attr(attrs, ls_make_sizes(shape, (int32_t)num_inputs - 1, sizes));
  return ls_make(type, inputs, num_inputs - (ls_shape_is_known(shape) ? 1 : 0),
                 attrs->items, attrs->count);
}

// ---- Convolutions ----------------------------------------------------------
static ls_status add_convolution(attr_list *attrs,
                                 const ls_convolution_options *options) {
  if (options == NULL) return ls_ok();
  window_add_numbers(attrs, LS_ATTR_ID_WINDOW_STRIDES, options->strides);
  window_add_numbers(attrs, LS_ATTR_ID_DILATIONS, options->dilations);
  window_add_numbers(attrs, LS_ATTR_ID_INPUT_DILATIONS,
                     options->input_dilations);
  if (options->groups != 0 && options->groups != 1)
    window_add_attr(attrs, LS_OWN_I(CHANNEL_GROUPS, options->groups));
  return add_padding(attrs, options->padding, options->low, options->high);
}

ls_tensor ls_convolution(ls_tensor x, ls_tensor w,
                         const ls_convolution_options *options) {
  attr_list attrs = {.count = 0};
  const ls_status status = add_convolution(&attrs, options);
  if (!ls_status_is_ok(status)) return ls_make_failed("convolution", status);
  return ls_make(LS_OP_CONVOLUTION, (const ls_tensor[]){x, w}, 2, attrs.items,
                 attrs.count);
}

ls_tensor ls_conv_bias_act(ls_tensor x, ls_tensor w, ls_tensor bias,
                           ls_activation activation,
                           const ls_convolution_options *options) {
  attr_list attrs = {.count = 0};
  ls_status status = add_convolution(&attrs, options);
  if (activation == LS_ACTIVATION_RELU)
    window_add_attr(&attrs, LS_OWN_S(ACTIVATION, "relu"));
  else if (activation != LS_ACTIVATION_NONE && ls_status_is_ok(status))
    status = ls_invalid_argument(
        "activation %d is none of LS_ACTIVATION_NONE, RELU", (int)activation);
  if (!ls_status_is_ok(status)) return ls_make_failed("conv_bias_act", status);
  return ls_make(LS_OP_CONV_BIAS_ACT, (const ls_tensor[]){x, w, bias}, 3,
                 attrs.items, attrs.count);
}

static ls_tensor conv_grad(uint16_t type, const ls_tensor inputs[3],
                           const ls_convolution_options *options) {
  attr_list attrs = {.count = 0};
  const ls_status status = add_convolution(&attrs, options);
  return ls_status_is_ok(status)
             ? make_like(type, inputs, 3, &attrs)
             : ls_make_failed(ls_op_table[type].name, status);
}

ls_tensor ls_conv_grad_input(ls_tensor dy, ls_tensor w, ls_tensor x_like,
                             const ls_convolution_options *options) {
  return conv_grad(LS_OP_CONV_GRAD_INPUT, (const ls_tensor[]){dy, w, x_like},
                   options);
}

ls_tensor ls_conv_grad_weights(ls_tensor x, ls_tensor dy, ls_tensor w_like,
                               const ls_convolution_options *options) {
  return conv_grad(LS_OP_CONV_GRAD_WEIGHTS, (const ls_tensor[]){x, dy, w_like},
                   options);
}

// ---- Windows ---------------------------------------------------------------
ls_tensor ls_reduce_window(ls_window_op op, ls_tensor x, ls_shape window,
                           const ls_window_options *options) {
  static const char *const names[] = {[LS_WINDOW_SUM] = "sum",
                                      [LS_WINDOW_MAX] = "max",
                                      [LS_WINDOW_MEAN] = "mean"};
  const ls_window_options opts =
      options == NULL ? (ls_window_options){.count_padding = false} : *options;
  if ((unsigned)op >= LS_COUNT_OF(names) || window.rank < 1 ||
      window.rank > LS_WINDOW_DIMS)
    return ls_make_failed(
        "reduce_window",
        ls_invalid_argument("window op %d over %d dimensions: must be one of "
                            "LS_WINDOW_SUM, MAX, MEAN, over 1 to %d",
                            (int)op, window.rank, LS_WINDOW_DIMS));
  attr_list attrs = {.count = 0};
  window_add_attr(&attrs, LS_OWN_S(WINDOW_REDUCE, names[op]));
  window_add_attr(&attrs, LS_OWN_IS(WINDOW, window.dim, (size_t)window.rank));
  window_add_numbers(&attrs, LS_ATTR_ID_WINDOW_STRIDES,
                     opts.strides.rank == 0 ? window : opts.strides);
  window_add_numbers(&attrs, LS_ATTR_ID_DILATIONS, opts.dilations);
  if (opts.count_padding)
    window_add_attr(&attrs, LS_OWN_B(COUNT_PADDING, true));
  const ls_status status =
      add_padding(&attrs, opts.padding, opts.low, opts.high);
  if (!ls_status_is_ok(status)) return ls_make_failed("reduce_window", status);
  return ls_make(LS_OP_REDUCE_WINDOW, &x, 1, attrs.items, attrs.count);
}

ls_tensor ls_max_pool(ls_tensor x, ls_shape window,
                      const ls_window_options *options) {
  return ls_reduce_window(LS_WINDOW_MAX, x, window, options);
}

ls_tensor ls_avg_pool(ls_tensor x, ls_shape window,
                      const ls_window_options *options) {
  return ls_reduce_window(LS_WINDOW_MEAN, x, window, options);
}

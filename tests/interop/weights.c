// SPDX-License-Identifier: Apache-2.0
// Applies layers to inputs, both read from weights.npz, and compares the
// results with those that check-weights put there, "y/LAYER". Ends with 1 if
// one is more than 1e-5 away.
#include <stdio.h>

#include "lockstep/full.h"

enum { MOST = 64 };

typedef struct net {
  ls_bag bag;
  ls_dense_layer *dense, *flat;
  ls_conv_layer *conv, *depthwise, *up;
  ls_recurrent_layer *lstm, *gru;
  ls_attention_layer *attention;
  ls_norm_layer *norm;
  ls_batch_norm_layer *batch_norm;
  ls_variable *variables[MOST];
  size_t num_variables;
  int faults;
} net;

static void drop_variable(void *variable) { ls_variable_release(variable); }

// Makes a variable for an array of the file.
static ls_variable *add_array(net *n, const char *name, ls_shape shape) {
  ls_variable *made = NULL;
  const ls_status status = ls_variable_create(
      &(ls_variable_options){
          .name = name, .dtype = LS_DTYPE_F32, .shape = shape},
      &made);
  if (made != NULL) n->variables[n->num_variables++] = made;
  return ls_bag_keep(&n->bag, status, made, drop_variable);
}

static void make_layers(net *n) {
  ls_bag *bag = &n->bag;
  const ls_convolution_options same = {.padding = LS_PADDING_SAME};
  n->dense = ls_dense_layer_in(bag, .inputs = 8, .units = 6);
  n->flat = ls_dense_layer_in(bag, .name = "flat", .inputs = 196, .units = 3);
  n->conv = ls_conv_layer_in(bag, .channels = 4, .filters = 6,
                             .window = LS_SHAPE(3, 3), .how = same);
  n->depthwise =
      ls_conv_layer_in(bag, .name = "depthwise", .channels = 4, .filters = 8,
                       .window = LS_SHAPE(3, 3),
                       .how = {.padding = LS_PADDING_SAME, .groups = 4});
  n->up = ls_conv_layer_in(bag, .name = "up", .channels = 4, .filters = 6,
                           .window = LS_SHAPE(3, 3), .transposed = true,
                           .how = {.strides = LS_SHAPE(2, 2)});
  n->lstm = ls_recurrent_layer_in(bag, .inputs = 8, .units = 6);
  n->gru = ls_recurrent_layer_in(bag, .kind = LS_RECURRENT_GRU, .inputs = 8,
                                 .units = 6);
  n->attention = ls_attention_layer_in(bag, .width = 8, .num_heads = 2);
  n->norm = ls_norm_layer_in(bag, .channels = 8);
  n->batch_norm = ls_batch_norm_layer_in(bag, .channels = 4);
}

#define LIST(kind, layer)                                                      \
  n->num_variables += ls_##kind##_layer_variables(                             \
      n->layer, n->variables + n->num_variables, MOST - n->num_variables)
static void list_variables(net *n) {
  LIST(dense, dense);
  LIST(dense, flat);
  LIST(conv, conv);
  LIST(conv, depthwise);
  LIST(conv, up);
  LIST(recurrent, lstm);
  LIST(recurrent, gru);
  LIST(attention, attention);
  LIST(norm, norm);
  LIST(batch_norm, batch_norm);
}

static void compare(net *n, const char *name, ls_tensor y,
                    ls_variable *wanted) {
  double error = 0;
  const ls_tensor apart = ls_abs(ls_sub(y, ls_variable_read(wanted)));
  const ls_status status =
      ls_tensor_item(ls_reduce_max(apart, LS_ALL_AXES), &error);
  printf("  %-10s %.1e apart %s\n", name, error, ls_status_message(status));
  if (!ls_status_is_ok(status) || !(error < 1e-5)) ++n->faults;
  ls_status_free(status);
}

static ls_status check(net *n) {
  make_layers(n);
  ls_variable *x = add_array(n, "x", LS_SHAPE(2, 5, 8));
  ls_variable *images = add_array(n, "images", LS_SHAPE(2, 7, 7, 4));
  ls_variable *dense = add_array(n, "y/dense", LS_SHAPE(2, 5, 6));
  ls_variable *flat = add_array(n, "y/flat", LS_SHAPE(2, 3));
  ls_variable *conv = add_array(n, "y/conv", LS_SHAPE(2, 7, 7, 6));
  ls_variable *depthwise = add_array(n, "y/depthwise", LS_SHAPE(2, 7, 7, 8));
  ls_variable *up = add_array(n, "y/up", LS_SHAPE(2, 15, 15, 6));
  ls_variable *lstm = add_array(n, "y/lstm", LS_SHAPE(2, 5, 6));
  ls_variable *gru = add_array(n, "y/gru", LS_SHAPE(2, 5, 6));
  ls_variable *attention = add_array(n, "y/attention", LS_SHAPE(2, 5, 8));
  ls_variable *norm = add_array(n, "y/norm", LS_SHAPE(2, 5, 8));
  ls_variable *batch_norm = add_array(n, "y/batch_norm", LS_SHAPE(2, 7, 7, 4));
  LS_RETURN_IF_ERROR(ls_bag_take_error(&n->bag));
  list_variables(n);
  LS_RETURN_IF_ERROR(ls_saver_restore_part(
      &(ls_saver){.variables = n->variables, .num_variables = n->num_variables},
      "weights.npz", NULL, NULL));
  const ls_tensor a = ls_variable_read(x), b = ls_variable_read(images);
  compare(n, "dense", ls_dense_layer_apply(n->dense, a), dense);
  compare(n, "flat",
          ls_dense_layer_apply(n->flat, ls_reshape(b, LS_SHAPE(2, 196))), flat);
  compare(n, "conv", ls_conv_layer_apply(n->conv, b), conv);
  compare(n, "depthwise", ls_conv_layer_apply(n->depthwise, b), depthwise);
  compare(n, "up", ls_conv_layer_apply(n->up, b), up);
  compare(n, "lstm", ls_recurrent_layer_apply(n->lstm, a, NULL, NULL), lstm);
  compare(n, "gru", ls_recurrent_layer_apply(n->gru, a, NULL, NULL), gru);
  compare(n, "attention", ls_attention_layer_apply(n->attention, a), attention);
  compare(n, "norm", ls_norm_layer_apply(n->norm, a), norm);
  compare(n, "batch norm", ls_batch_norm_layer_apply(n->batch_norm, b, false),
          batch_norm);
  return ls_ok();
}

int main(void) {
  net n = {0};
  const ls_status status = check(&n);
  const bool ok = ls_status_is_ok(status) && n.faults == 0;
  if (!ls_status_is_ok(status)) puts(ls_status_message(status));
  ls_status_free(status);
  ls_bag_empty(&n.bag);
  return ok ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
#include "support/callbacks.h"

ls_nest give_args(ls_nest args, void *user) {
  (void)user;
  return ls_nest_retain(args);
}

ls_nest give_none(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_none();
}

ls_nest always_true(ls_nest values, void *user) {
  (void)values, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
}

ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I32, 3)));
}

ls_nest merge_none(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args, (void)user;
  return ls_none();
}

ls_status count_creation(const ls_creator *next,
                         const ls_variable_options *options, void *user,
                         ls_variable **out_variable) {
  ++*(int *)user;
  return ls_creator_create(next, options, out_variable);
}

ls_status infer_like_first(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

ls_status finish_at_once(ls_host_call *call) {
  ls_host_done(call, ls_ok());
  return ls_ok();
}

ls_nest negate_user(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_neg(*(const ls_tensor *)user));
}

ls_nest negate_first(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_neg(ls_nest_tensor(args, 0)));
}

ls_nest negate_leaf(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_neg(args.as.tensor));
}

ls_nest keep_gradients(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                       void *user) {
  (void)inputs, (void)outputs, (void)user;
  return ls_nest_retain(gradients);
}

ls_nest give_first(ls_nest args, void *user) {
  (void)user;
  return ls_nest_retain(ls_nest_item(args, 0));
}

void cancel_call(ls_host_call *call) {
  ls_host_done(call, LS_STATUS(LS_CANCELLED, "asked to end"));
}

ls_nest keep_element(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return ls_nest_retain(element);
}

ls_status keep_all(ls_nest element, const ls_map_call *call, void *user,
                   bool *out_keep) {
  (void)element;
  (void)call;
  (void)user;
  *out_keep = true;
  return ls_ok();
}

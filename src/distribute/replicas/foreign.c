// SPDX-License-Identifier: Apache-2.0
#include "lockstep/foreign.h"

#include "base/threads/thread_state.h"

static ls_nest foreign_call(const ls_foreign_call *call, const ls_nest *args,
                            void *context) {
  ls_nest result = ls_none();
  const int pins = ls_this_thread.work.pins;
  ls_this_thread.work.pins += call->one_stack;
  call->call(args, context, call->user, &result);
  ls_this_thread.work.pins = pins;
  return result;
}

ls_nest ls_foreign_callback(ls_nest args, void *call) {
  return foreign_call(call, &args, NULL);
}

ls_nest ls_foreign_callback_second(ls_nest args, void *call) {
  return foreign_call((const ls_foreign_call *)call + 1, &args, NULL);
}

ls_nest ls_foreign_gradient_second(ls_nest inputs, ls_nest outputs,
                                   ls_nest output_gradients, void *call) {
  const ls_nest args[] = {inputs, outputs, output_gradients};
  return foreign_call((const ls_foreign_call *)call + 1, args, NULL);
}

// Returns the tensor of a result, which owns nothing if it is one.
static ls_tensor result_tensor(ls_nest result) {
  const ls_tensor tensor = ls_nest_tensor(result, 0);
  ls_nest_release(result);
  return tensor;
}

ls_tensor ls_foreign_loss(ls_nest args, void *call) {
  return result_tensor(foreign_call(call, &args, NULL));
}

ls_tensor ls_foreign_schedule(ls_tensor step, void *call) {
  const ls_nest args = ls_leaf(step);
  return result_tensor(foreign_call(call, &args, NULL));
}

ls_nest ls_foreign_map(ls_nest element, const ls_map_call *map, void *call) {
  ls_map_call facts = *map;
  return foreign_call(call, &element, &facts);
}

ls_nest ls_foreign_make(void *call, int64_t number) {
  const ls_nest args = ls_nest_i64(number);
  return foreign_call(call, &args, NULL);
}

ls_nest ls_foreign_value(int32_t replica, int32_t replicas, void *call) {
  const ls_nest args[] = {ls_nest_i64(replica), ls_nest_i64(replicas)};
  return foreign_call(call, args, NULL);
}

ls_nest ls_foreign_dataset(ls_input_context input, void *call) {
  return foreign_call(call, NULL, &input);
}

ls_nest ls_foreign_input(void *call, ls_input_call *input) {
  return foreign_call(call, NULL, input);
}

ls_nest ls_foreign_merge(ls_strategy *strategy, ls_nest args, void *call) {
  return foreign_call(call, &args, strategy);
}

ls_nest ls_foreign_step(ls_step_context *context, ls_nest inputs, void *call) {
  return foreign_call(call, &inputs, context);
}
